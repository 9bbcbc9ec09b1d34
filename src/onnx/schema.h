// The operator table: for every operator and version the element types that its inputs, outputs and
// attributes may have. Read from proto/operators.tsv, which the program carries inside.
#ifndef SCHEMA_H
#define SCHEMA_H

#include "arena.h"
#include "diag.h"

#include <stdbool.h>
#include <stdint.h>

// What a value holds. A tensor of elem_type, or a container of such tensors.
enum type_kind {
  TYPE_UNKNOWN,
  TYPE_TENSOR,
  TYPE_SEQUENCE,
  TYPE_OPTIONAL,
  TYPE_OPTIONAL_SEQUENCE,
  TYPE_MAP,  // elem_type is that of the values; keys are not told apart
  TYPE_SPARSE,
  TYPE_SEQUENCE_MAP,  // a sequence of maps
  TYPE_KINDS
};
struct type {
  enum type_kind kind;
  int elem_type;  // Onnx__TensorProto__DataType; 0 if not known
};

// The set of types that a type variable may take: per kind, bit k stands for element type k.
struct type_set {
  uint64_t tensors;
  uint64_t sequences;  // likewise for the containers
  uint64_t optionals, optional_sequences;
  uint64_t maps, sequence_maps, sparse_tensors;
};

// One formal input or output.
struct formal {
  const char *name;
  int var;        // index into schema.vars; formals of one var have one type (unless heterogeneous)
  bool optional;  // may be absent
  bool variadic;  // the last formal, repeated
  bool heterogeneous;  // variadic whose repetitions may differ in type
};

struct type_var {
  const char *name;  // "T"; a formal with fixed types has a variable of its own, named ""
  struct type_set allowed;
  struct type only;  // the one type that is allowed; TYPE_UNKNOWN if there are several
};

// An attribute that sets an output's element type, as Cast's `to` or ConstantOfShape's `value`.
struct type_attribute {
  int output;             // index
  const char *attribute;  // its name: an int (element type) or a tensor (its type counts)
  int default_type;       // element type without the attribute; 0: that of input `default_input`
  int default_input;      // or -1
};

// How an output's type follows where no input that must be present fixes it. The choices of a
// schema stand in order; for each output the first that applies gives the type (see the head of
// operators.tsv).
enum choice_kind {
  CHOICE_TYPE,          // `type`
  CHOICE_INPUT,         // the type of input `input`, if it is present
  CHOICE_ATTRIBUTE,     // the type that `attribute` holds, if it is present and not 0
  CHOICE_IF_ATTRIBUTE,  // `type`, if `attribute` is present and not empty, and is `value` if given
  CHOICE_IF_INPUT,      // `type`, if input `input` is of type `test`
  CHOICE_GRAPH,         // the type of output `input` of the graph in `attribute`
  CHOICE_DECLARED,      // what the graph states for the value, if it does
};
enum choice_wrap { WRAP_NONE, WRAP_SEQUENCE, WRAP_OPTIONAL, WRAP_ELEMENT, WRAP_UNOPTIONAL };
struct type_choice {
  enum choice_kind kind;
  enum choice_wrap wrap;  // what to make of the type found
  int output;             // index; -1: every output
  int input;
  bool per_output;  // `input` + the output's index counts
  const char *attribute, *value;
  struct type type, test;
};

struct schema {
  const char *domain;  // "" for ai.onnx
  const char *op;
  int since;  // the opset version that introduced this form
  bool deprecated, has_function;
  struct type_var *vars;
  int n_vars;
  struct formal *inputs, *outputs;
  int n_inputs, n_outputs;
  struct type_attribute *type_attributes;
  int n_type_attributes;
  struct type_choice *choices;
  int n_choices;
};

struct schema_table {
  struct arena *arena;
  struct schema *schemas;  // sorted by domain, op, since
  size_t count;
};

// Parses the embedded table. It is our own data: a fault in it is a bug (assert).
void schema_load(struct schema_table *t, struct arena *a);

// The form of domain::op that a model importing `opset` of that domain uses: the newest with
// since <= opset. NULL if unknown. domain "ai.onnx" means "".
const struct schema *schema_find(const struct schema_table *t, const char *domain, const char *op,
                                 int opset);

// Form of domain::op with the smallest since >= `from` that allows element type `elem_type` for the
// variable of input or output 0 ("the plan can say which opset would allow it"); NULL if none.
const struct schema *schema_first_allowing(const struct schema_table *t, const char *domain,
                                           const char *op, int from, int elem_type);

// ONNX defines some operators by a body of other operators, and a few of these bodies do not take
// all types that the operator's schema allows: a checker or engine that puts the body in the node's
// place then refuses the model. The first opset at which the body of ai.onnx's `op` takes
// elem_type: 1 if it always does (or there is no body), 0 if it never does.
int schema_body_allows_from(const char *op, int elem_type);

// The newest version that the table knows of any operator of the domain; 0: it knows none.
int schema_newest(const struct schema_table *t, const char *domain);

// Formal of the k-th actual input (output); variadic repeats the last; NULL if there is none.
const struct formal *schema_input(const struct schema *s, int k);
const struct formal *schema_output(const struct schema *s, int k);

// True if variable `var` of s may be a tensor of elem_type.
bool schema_allows(const struct schema *s, int var, int elem_type);

// True if t is in the set. A type of unknown kind is in no set.
bool type_in_set(const struct type_set *set, struct type t);

#endif
