// Small models as messages, made in a test: graphs, nodes, attributes. Everything lives in one
// arena, which the test frees.
#ifndef SUPPORT_MESSAGE_H
#define SUPPORT_MESSAGE_H

#include "arena.h"
#include "onnx.pb-c.h"

#include <string.h>

enum { FLOAT = 1, INT64 = 7, STRING = 8, BOOL = 9 };

extern struct arena message_arena;

// Appends to a repeated field.
#define APPEND(owner, field, item)                                                                 \
  do {                                                                                             \
    void *longer = arena_array(&message_arena, (owner)->n_##field + 1, sizeof *(owner)->field);    \
    if ((owner)->n_##field)                                                                        \
      memcpy(longer, (owner)->field, (owner)->n_##field * sizeof *(owner)->field);                 \
    (owner)->field = longer;                                                                       \
    (owner)->field[(owner)->n_##field++] = (item);                                                 \
  } while (0)

#define NEW(name, init)                                                                            \
  Onnx__##name *name##_new = arena_alloc(&message_arena, sizeof *name##_new);                      \
  init(name##_new)

Onnx__ModelProto *message_new_model(void);
Onnx__GraphProto *message_new_graph(char *name);
// A tensor's declaration; rank -1: no shape; dims all equal `dim`, symbolic if dim is 0.
Onnx__ValueInfoProto *message_info(char *name, int elem_type, int rank, int64_t dim);
void message_input(Onnx__GraphProto *g, char *name, int elem_type, int rank);
void message_output(Onnx__GraphProto *g, char *name, int elem_type, int rank);
// A node whose inputs and outputs are words; operators of ours and functions are "domain:op".
Onnx__NodeProto *message_new_node(const char *op, const char *inputs, const char *outputs);
Onnx__NodeProto *message_node(Onnx__GraphProto *g, const char *op, const char *inputs,
                              const char *outputs);
Onnx__AttributeProto *message_attribute(Onnx__NodeProto *n, char *name,
                                        Onnx__AttributeProto__AttributeType type);
void message_set_int(Onnx__NodeProto *n, char *name, int64_t value);
void message_set_text(Onnx__NodeProto *n, char *name, char *value);
void message_set_graph(Onnx__NodeProto *n, char *name, Onnx__GraphProto *value);
Onnx__NodeProto *message_new_observe(const char *value, int id);
void message_observe(Onnx__GraphProto *g, const char *value, int id);
Onnx__TensorProto *message_initializer(Onnx__GraphProto *g, char *name, int elem_type, size_t rank,
                                       const int64_t *dims, void *data, size_t size);
void message_set_ints(Onnx__NodeProto *n, char *name, const int64_t *values, size_t count);

#endif
