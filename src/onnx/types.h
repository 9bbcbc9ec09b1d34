// Element types of all values, without shapes: from the operators' schemas, the types of graph
// inputs and initializers, attributes, the bodies of If, Loop and Scan, and the local functions,
// whose bodies are inferred once per combination of argument types.
#ifndef TYPES_H
#define TYPES_H

#include "graph.h"

// Sets value.type for every value and scope.polymorphic for every scope. Called by graph_build,
// with everything else of g in place. Errors: STATUS_MODEL.
enum status types_infer(struct graph *g, struct diag *d);

// The type that the message states; TYPE_UNKNOWN for none, for element type UNDEFINED and for what
// struct type cannot say (opaque types, deeper containers).
struct type type_from_proto(const Onnx__TypeProto *t);

bool type_equal(struct type a, struct type b);

// "float16", "seq(float)", "optional(seq(int64))" ..., in `text`.
enum { TYPE_TEXT_SIZE = 64 };
const char *type_text(struct type t, char text[TYPE_TEXT_SIZE]);

// What narrowcast knows as element types: 1 .. ELEM_TYPE_LAST.
enum { ELEM_TYPE_LAST = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT6E3M2 };
bool elem_type_known(int elem_type);

#endif
