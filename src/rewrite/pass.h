// What the passes of the rewrite share. All passes of one run work on one index, made before the
// first change: nodes and values keep their ids, since passes change messages in place and collect
// the nodes that they add; the driver (passes.c) puts these in at the end, each scope sorted.
#ifndef PASS_H
#define PASS_H

#include "passes.h"

// A node that a pass adds, placed behind the producer of `value` (or first, if it has none).
struct added_node {
  Onnx__NodeProto *proto;
  int next;  // further node behind the same place, or -1
};

struct rewrite {
  struct model *model;
  struct graph *graph;
  const struct plan *plan;
  struct arena *arena;
  struct rewrite_report *report;
  struct map factors;  // powers of two that scale nodes multiply by: initializers made so far
  struct map names;    // every name of a value or node, in every scope, and those made here
  struct added_node *added;
  size_t n_added, capacity_added;
  bool *dropped;                  // per node: it is left out
  int *first_added, *last_added;  // per value: chain of the nodes placed behind it
  size_t *initializer_capacity;   // per scope: of its list of initializers; 0: not lengthened yet
};

// Does its part of the rewrite. Errors: STATUS_MODEL.
typedef enum status pass_run(struct rewrite *w, struct diag *d);

pass_run pass_quantise_weights, pass_weights, pass_constants, pass_type_attributes, pass_casts,
    pass_author_casts, pass_devices, pass_quantise, pass_interface, pass_metadata;

// A name for value v's copy that no scope has yet: "<name>__fp16", then "<name>__fp16_2"; at a
// scale "<name>__fp16_times_2^-4".
const char *rewrite_name(struct rewrite *w, int v, struct copy copy);

// `wanted`, or with a number behind it so that it is new in every scope.
const char *rewrite_new_name(struct rewrite *w, const char *wanted);

// Whether the scope has initializers, which all its nodes can read.
bool rewrite_takes_initializers(const struct rewrite *w, int scope);

// The same with any text behind the name: "<name>__scale".
const char *rewrite_name_with(struct rewrite *w, int v, const char *suffix);

// Puts a constant's new tensor where the old one was, name and all.
void rewrite_replace_constant(struct rewrite *w, int v, Onnx__TensorProto *tensor);

// A rank-0 tensor that holds 2^power, which must be a normal number of format f.
Onnx__TensorProto *rewrite_power_of_two(struct rewrite *w, const char *name, int power,
                                        enum format_id f);

// Adds a constant beside value v, under the tensor's name: an initializer where v's scope has such,
// else a Constant node (function bodies; models of IR below 4, where an initializer would have to
// be a graph input).
void rewrite_add_constant(struct rewrite *w, int v, Onnx__TensorProto *tensor);

// Adds a node behind the place where v is defined.
void rewrite_add_node(struct rewrite *w, int v, Onnx__NodeProto *node);

// A new node of ai.onnx with one input (NULL: none) and one output, in the arena.
Onnx__NodeProto *rewrite_new_node(struct rewrite *w, const char *op, const char *input,
                                  const char *output);

// Whether the IR version of the model has metadata below the model (from 10 on).
bool rewrite_has_metadata(const struct rewrite *w);

// A text about what was done, in both forms in which a model can hold it. All messages that it is
// put into share its memory.
struct note {
  char *doc_string;
  Onnx__StringStringEntryProto *entry;  // of metadata, under "narrowcast"
};

struct note rewrite_note(struct rewrite *w, const char *text);

// Puts the note into a doc_string, unless the author has one there.
void rewrite_describe(char **doc_string, struct note note);

// Puts the note into the node's metadata if the model has such, else into its doc_string.
void rewrite_note_node(struct rewrite *w, Onnx__NodeProto *node, struct note note);

// A note of its own for a node.
void rewrite_say(struct rewrite *w, Onnx__NodeProto *node, const char *text);

// The operand format where constant v is stored in it alone, else the plan's format of v.
enum format_id rewrite_stored_format(const struct rewrite *w, int v);

// Room for the bytes of a new weight: in the model's spool, or in the arena if it has none.
enum status rewrite_room(struct rewrite *w, size_t size, uint8_t **room, struct diag *d);

// A copy of the fp32 tensor in a format, times a power of two, rounded to nearest, ties to even,
// out-of-range elements as the plan's constants rule says (keep wide cannot occur here: the plan
// leaves such a constant wide).
enum status rewrite_narrow_tensor(struct rewrite *w, const Onnx__TensorProto *from,
                                  const char *name, struct copy as, Onnx__TensorProto **to,
                                  struct diag *d);

// Whether v is stored once per format, as a constant.
bool rewrite_is_constant(const struct rewrite *w, int v);

#endif
