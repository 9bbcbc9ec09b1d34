// Builds small models for tests: messages in an arena, described by short calls, then packed and
// read back as from a file. Types are written as in "float[2,3]", "float16[N]", "int64[]" (rank 0),
// "float" (no shape), "seq(float)", "optional(float)", "optional(seq(float))",
// "map(int64,float)"; "" is no type. Lists of names are separated by spaces; "_" is an empty
// (absent) one. An operator may have a domain in front: "com.microsoft.Gelu".
//
//   struct build b;
//   build_begin(&b, &arena, 17);
//   build_input(&b, "x", "float[2,3]");
//   build_floats(&b, "w", "float[3]", (float[]){1, 2, 3});
//   build_node(&b, "Add", "x w", "y");
//   build_output(&b, "y", "float[2,3]");
//   build_model(&b, &model);   // fails the test if the model cannot be packed and read
#ifndef SUPPORT_GRAPH_H
#define SUPPORT_GRAPH_H

#include "graph.h"

enum { BUILD_DEPTH = 100 };

struct build {
  struct arena *arena;
  Onnx__ModelProto *model;
  // Where the calls below add: a graph, or the body of a function. Index `depth` counts.
  Onnx__GraphProto *graphs[BUILD_DEPTH];
  Onnx__FunctionProto *functions[BUILD_DEPTH];
  int depth;
};

// An empty model: ir_version 10, one opset_import of ai.onnx.
void build_begin(struct build *b, struct arena *arena, int opset);
// One more import, of the function that is being built, else of the model.
void build_opset(struct build *b, const char *domain, int version);

void build_input(struct build *b, const char *name, const char *type);
void build_output(struct build *b, const char *name, const char *type);
void build_value_info(struct build *b, const char *name, const char *type);

// Initializers; the number of elements follows from the shape. build_floats writes raw_data of the
// element type float; build_raw copies `size` bytes of any type; build_int64s takes int64 elements.
Onnx__TensorProto *build_floats(struct build *b, const char *name, const char *type,
                                const float *x);
Onnx__TensorProto *build_int64s(struct build *b, const char *name, const char *type,
                                const int64_t *x);
Onnx__TensorProto *build_raw(struct build *b, const char *name, const char *type, const void *data,
                             size_t size);
// A tensor that is no initializer, for attributes; zeroed if data is NULL.
Onnx__TensorProto *build_tensor(struct build *b, const char *name, const char *type,
                                const void *data, size_t size);
// A sparse initializer with one float element, at index 0.
void build_sparse(struct build *b, const char *name, float x, int64_t size);

// Appends a node, unnamed.
Onnx__NodeProto *build_node(struct build *b, const char *op, const char *inputs,
                            const char *outputs);

Onnx__AttributeProto *build_int(struct build *b, Onnx__NodeProto *n, const char *name, int64_t i);
Onnx__AttributeProto *build_float(struct build *b, Onnx__NodeProto *n, const char *name, float f);
Onnx__AttributeProto *build_string(struct build *b, Onnx__NodeProto *n, const char *name,
                                   const char *s);
Onnx__AttributeProto *build_ints(struct build *b, Onnx__NodeProto *n, const char *name,
                                 const int64_t *x, size_t count);
Onnx__AttributeProto *build_float_list(struct build *b, Onnx__NodeProto *n, const char *name,
                                       const float *x, size_t count);
Onnx__AttributeProto *build_tensor_attribute(struct build *b, Onnx__NodeProto *n, const char *name,
                                             Onnx__TensorProto *t);
// An attribute whose value is that of the function's attribute `reference`; type as in
// AttributeType.
Onnx__AttributeProto *build_reference(struct build *b, Onnx__NodeProto *n, const char *name,
                                      const char *reference,
                                      Onnx__AttributeProto__AttributeType type);

// From begin to end, the calls above add to a new graph in an attribute of n.
void build_graph_begin(struct build *b, Onnx__NodeProto *n, const char *attribute);
void build_graph_end(struct build *b);

// From begin to end, build_node adds to a new local function (no inputs and outputs by
// build_input: they are listed here). It imports ai.onnx as the model does; `attributes` are names
// without defaults.
Onnx__FunctionProto *build_function_begin(struct build *b, const char *domain, const char *name,
                                          const char *inputs, const char *outputs,
                                          const char *attributes);
void build_function_end(struct build *b);

// Packs the message and reads it back (model_pack, model_from_bytes); fails the test on an error.
void build_model(struct build *b, struct model *m);

// What differs between two indices of one model, or NULL.
const char *index_difference(const struct graph *a, const struct graph *b);

#endif
