// What is in a model, counted once: operators, types, parameters, functions, and what is odd in it.
// Needs no data and no engine.
#ifndef INVENTORY_H
#define INVENTORY_H

#include "graph.h"
#include "types.h"

struct op_count {
  const char *domain, *op;  // domain "" for ai.onnx
  int count;
};

// Tensors of one element type that the file holds.
struct parameter_count {
  int tensors;
  uint64_t elements, bytes;
};

struct function_count {
  int scope;  // its body
  int calls;  // in other bodies too
};

// What is odd, each with its first example.
enum oddity {
  ODD_NARROW,
  ODD_DOUBLE,
  ODD_UNTYPED,
  ODD_UNKNOWN_OPERATOR,
  ODD_QUANTISED,
  ODD_SPARSE,
  ODD_TRAINING,
  ODD_POLYMORPHIC,
  ODD_UNSORTED,
  ODD_UNNAMED,
  ODD_NO_SHAPE,
  ODD_LISTED,
  ODD_UNUSED_IMPORT,
  ODD_UNUSED_INPUT,
  ODD_UNUSED_CONSTANT,
  ODD_UNUSED_NODE,
  ODD_NOT_FINITE,
  ODD_OUT_OF_FP16,
  ODD_COUNT,
};
const char *oddity_name(enum oddity o);  // "unknown_operator"

struct inventory {
  struct op_count *ops;  // most frequent first
  size_t n_ops;
  int subgraphs, nodes_in_subgraphs;
  struct function_count *functions;  // in the model's order
  int n_functions, nodes_in_functions;
  int values[ELEM_TYPE_LAST + 1];  // by element type; those without a tensor type are [0]
  struct parameter_count parameters[ELEM_TYPE_LAST + 1], all_parameters;
  int external_tensors;
  struct odd {
    int count;
    const char *example;  // a name, or "" where there is none to give
  } odd[ODD_COUNT];
};

// Reads every constant. Errors: STATUS_MODEL, STATUS_IO, for external data that cannot be had.
enum status inventory_take(struct inventory *in, struct graph *g, struct arena *a, struct diag *d);

// "84 values are float16 or bfloat16 already", in the arena.
const char *oddity_text(const struct inventory *in, enum oddity o, struct arena *a);

#endif
