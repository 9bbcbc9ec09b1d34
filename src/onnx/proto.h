// Makes and lengthens the messages of a model: nodes, attributes, metadata, imports. Everything
// lives in the arena; strings are copied.
#ifndef PROTO_H
#define PROTO_H

#include "arena.h"
#include "onnx.pb-c.h"

#include <stdint.h>

// protobuf-c gives NULL for a string that is absent.
static inline const char *text_of(const char *text) {
  return text ? text : "";
}

// A node without a name, with room for its inputs and outputs: they are NULL until set by
// message_text. domain "" is ai.onnx.
Onnx__NodeProto *proto_node(struct arena *a, const char *op, const char *domain, size_t inputs,
                            size_t outputs);

// The same with one input and one output.
Onnx__NodeProto *proto_unary(struct arena *a, const char *op, const char *domain, const char *input,
                             const char *output);

// Appends an attribute to the node.
Onnx__AttributeProto *proto_add_int(struct arena *a, Onnx__NodeProto *node, const char *name,
                                    int64_t value);
Onnx__AttributeProto *proto_add_float(struct arena *a, Onnx__NodeProto *node, const char *name,
                                      float value);
Onnx__AttributeProto *proto_add_floats(struct arena *a, Onnx__NodeProto *node, const char *name,
                                       const float *values, size_t n);
Onnx__AttributeProto *proto_add_graph(struct arena *a, Onnx__NodeProto *node, const char *name,
                                      Onnx__GraphProto *value);
Onnx__AttributeProto *proto_add_string(struct arena *a, Onnx__NodeProto *node, const char *name,
                                       const char *value);
Onnx__AttributeProto *proto_add_tensor(struct arena *a, Onnx__NodeProto *node, const char *name,
                                       Onnx__TensorProto *value);

// An attribute that belongs to no node yet.
Onnx__AttributeProto *proto_tensor_attribute(struct arena *a, const char *name,
                                             Onnx__TensorProto *value);

// A key with its value, and a list of such with one more; one of the same key is replaced.
Onnx__StringStringEntryProto *proto_entry(struct arena *a, const char *key, const char *value);
void proto_set_entry(struct arena *a, Onnx__StringStringEntryProto ***list, size_t *count,
                     Onnx__StringStringEntryProto *entry);

// Adds `domain` at `version` to a list of imports if it is not there; "" and "ai.onnx" are one.
void proto_import(struct arena *a, Onnx__OperatorSetIdProto ***imports, size_t *count,
                  const char *domain, int64_t version);

#endif
