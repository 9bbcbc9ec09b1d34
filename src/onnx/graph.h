// The index over a model that every later stage works with: values with their producers and uses,
// nodes, and lexical scopes (the main graph, every subgraph in any attribute, every local
// function's body). It refers to the protobuf message and never copies it; after a change of the
// message, build it again. Ids are indices into the arrays, given in file order, so that iterating
// over them is deterministic. -1 means none.
#ifndef GRAPH_H
#define GRAPH_H

#include "map.h"
#include "model.h"
#include "schema.h"

#include <string.h>

enum origin {
  ORIGIN_INPUT,        // of the main graph (also one that has an initializer as default)
  ORIGIN_FORMAL,       // input of a subgraph or of a function body
  ORIGIN_INITIALIZER,  // dense
  ORIGIN_SPARSE,       // sparse initializer
  ORIGIN_NODE,
};

struct use {
  int node;   // -1: the value is output `index` of its scope's graph
  int index;  // input index of the node, or output index of the scope
};

struct value {
  const char *name;  // never ""
  int scope;         // where it is defined
  enum origin origin;
  int producer;  // node, for ORIGIN_NODE
  int output;    // index among the producer's outputs, or among the scope's inputs
  Onnx__TensorProto *initializer;  // ORIGIN_INITIALIZER, or an input's default
  bool sparse_default;             // an input's default is a sparse initializer
  struct type type;                // inferred; kind TYPE_UNKNOWN if it could not be
  struct use *uses;                // in every scope that sees the value, in id order
  int n_uses;
  bool is_output;  // of its own scope
  bool omitted;    // formal of a function that some call leaves out
  bool trained;    // used by name in training_info, and so bound to its type
  // As the file declares it: for an input or formal there, else as an output of its scope, else in
  // value_info (which may be wrong: nothing but a value of an unknown operator takes its type).
  struct type declared;
  Onnx__TensorProto *constant;  // made by graph_constant
};

struct node {
  Onnx__NodeProto *proto;
  const char *op;  // its op_type if it is one of ai.onnx, else ""
  int scope;
  int index;                    // among the nodes of its scope, in file order
  bool named;                   // has a name that no other node of its scope has
  const struct schema *schema;  // NULL: unknown operator, or a call of a local function
  int function;                 // scope id of the local function called, or -1
  int *inputs, *outputs;        // value ids; -1 for an empty (absent) one
  int n_inputs, n_outputs;      // as in proto
  int *bodies;                  // scope ids of the graphs in its attributes, in attribute order
  int n_bodies;
};

enum scope_kind { SCOPE_MAIN, SCOPE_SUBGRAPH, SCOPE_FUNCTION };

struct scope {
  enum scope_kind kind;
  Onnx__GraphProto *graph;        // SCOPE_MAIN, SCOPE_SUBGRAPH
  Onnx__FunctionProto *function;  // SCOPE_FUNCTION
  int parent;       // enclosing scope of a subgraph (names are looked up there), or -1
  int parent_node;  // node that holds the subgraph, or -1
  int root;         // the scope without a parent that this one is in: 0, or that of a function
  // "" for main; "<parent>/<node label>.<attribute>" for a subgraph (without "/" in main; the label
  // is the node's name if it is unique in its scope, else "#<index>"; "[k]" follows where the
  // attribute is a list of graphs); "fn:<domain>.<name>" for a function, and ":<overload>" if it
  // has one. Unique, and without "::". A path that would be very long is "#<scope id>".
  const char *path;
  int *nodes;  // in file order
  int n_nodes;
  int *order;  // the same nodes, stably sorted so that producers come first (captures included)
  int *inputs, *outputs;  // values; an output may be -1 in a main graph that lists an empty name
  int n_inputs, n_outputs;
  int *infos;        // values that graph->value_info is about; -1 where it is about none
  int opset;         // of ai.onnx, in a main graph or function that imports it
  bool polymorphic;  // function called with different input types: its values' types are unknown
};

struct graph {
  struct model *model;
  struct arena *arena;
  const struct schema_table *schemas;
  struct scope *scopes;  // 0 is the main graph
  struct node *nodes;
  struct value *values;
  int n_scopes, n_nodes, n_values;
  size_t capacity_scopes, capacity_nodes, capacity_values;
  uint64_t n_unfolded;  // nodes, those of called functions once for each call; bounded by its type
  bool all_listed;      // every initializer of the main graph is listed as a graph input too
  struct map names;     // (scope, name) -> value
  struct map opsets;    // (root scope, domain) -> version; that of ai.onnx is in the scope as well
  struct map paths;     // (0, path) -> scope
};

// Builds the index and infers element types. Accepts nodes in any order. Errors (STATUS_MODEL, with
// node and tensor): no ir_version, no opset_import; a name used but never defined, defined twice in
// a scope, a cycle, recursion of functions, an unknown domain without an opset_import (for one that
// the table knows, its newest version counts, as in ONNX Runtime), an element type that contradicts
// a declaration or the operator's schema. A local function defined twice is an error unless both
// definitions are the same, byte for byte. `m` needs no file: only proto, arena and path are used.
enum status graph_build(struct graph *g, struct model *m, const struct schema_table *schemas,
                        struct arena *a, struct diag *d);

// The same over what was made of a model whose warnings were given already: gives none again.
enum status graph_build_again(struct graph *g, struct model *m, const struct schema_table *schemas,
                              struct arena *a, struct diag *d);

// The index over a clone (clone_model) of g's model, which has not been changed. It shares names
// and lists with g, and lives as long as that.
struct graph graph_of_clone(const struct graph *g, struct model *clone, struct arena *a);

// The value that `name` means in `scope` (looked up outwards), or -1.
int graph_lookup(const struct graph *g, int scope, const char *name);

// Opset version of `domain` in that scope ("" and "ai.onnx" are one); 0 if neither imported nor, in
// the main graph, used without an import.
int graph_opset(const struct graph *g, int scope, const char *domain);

// "name", or "<scope path>::name" outside the main graph. Unique, and the same on every run. (A
// name of the main graph that reads like one of another scope gets "::" in front.)
const char *graph_value_label(const struct graph *g, int value);
// The node's name if unique in its scope, else "#<index in its scope>(<op>)"; "<scope path>::" in
// front outside the main graph. Unique, and the same on every run.
const char *graph_node_label(const struct graph *g, int node);

// `stem` with as many '_' behind it that no value of the model, in any scope, has a name that
// begins so: what is named with it collides with nothing.
const char *graph_unused_prefix(const struct graph *g, const char *stem, struct arena *a);

// The attribute of that name, or NULL.
Onnx__AttributeProto *node_attribute(const Onnx__NodeProto *n, const char *name);

// True for a value (not -1) that is an fp32 tensor.
bool graph_is_fp32(const struct graph *g, int value);

// True if the value is an initializer that callers are not meant to override and no training step
// changes, or comes from a Constant node. An initializer that is a graph input as well can be
// overridden, except in models that list all of theirs (as every one below IR 4 does).
bool graph_is_constant(const struct graph *g, int value);

// The constant tensor that the value holds: a dense initializer that is not a graph input, or the
// output of a Constant node (value, value_float, value_floats, value_int, value_ints; made in the
// arena for the last four). NULL if the value is not constant.
Onnx__TensorProto *graph_constant(struct graph *g, int value);

// The elements of a constant of at most `most` whole numbers, up to 2^24; how many, or -1.
int graph_integers(struct graph *g, int value, int64_t *out, size_t most, struct arena *a);

// The axes of a node: its attribute "axes", or its input 1; how many, 0 if it has neither, or -1 if
// they are more than `most`, or not known before the run.
int graph_axes(struct graph *g, const struct node *n, int64_t *out, size_t most, struct arena *a);

// True for a node of ai.onnx (either spelling) with that operator.
static inline bool node_is(const struct node *n, const char *op) {
  return n->op[0] == op[0] && strcmp(n->op, op) == 0;
}

// True for an operator that takes apart the bits of its input, so that what it gives depends on the
// type that the input has, and on more than the values.
bool node_sees_bits(const struct node *n);

#endif
