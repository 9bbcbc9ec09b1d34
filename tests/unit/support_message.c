// See support_message.h.
#include "support_message.h"

struct arena message_arena;

Onnx__ModelProto *message_new_model(void) {
  NEW(ModelProto, onnx__model_proto__init);
  ModelProto_new->has_ir_version = 1;
  ModelProto_new->ir_version = 8;
  const struct {
    char *domain;
    int64_t version;
  } imports[] = {{"", 17}, {"narrowcast", 1}, {"local", 1}};
  for (size_t i = 0; i < 3; i++) {
    NEW(OperatorSetIdProto, onnx__operator_set_id_proto__init);
    OperatorSetIdProto_new->domain = imports[i].domain;
    OperatorSetIdProto_new->has_version = 1;
    OperatorSetIdProto_new->version = imports[i].version;
    APPEND(ModelProto_new, opset_import, OperatorSetIdProto_new);
  }
  NEW(GraphProto, onnx__graph_proto__init);
  GraphProto_new->name = "main";
  ModelProto_new->graph = GraphProto_new;
  return ModelProto_new;
}

Onnx__GraphProto *message_new_graph(char *name) {
  NEW(GraphProto, onnx__graph_proto__init);
  GraphProto_new->name = name;
  return GraphProto_new;
}

Onnx__ValueInfoProto *message_info(char *name, int elem_type, int rank, int64_t dim) {
  NEW(ValueInfoProto, onnx__value_info_proto__init);
  NEW(TypeProto, onnx__type_proto__init);
  NEW(TypeProto__Tensor, onnx__type_proto__tensor__init);
  ValueInfoProto_new->name = name;
  ValueInfoProto_new->type = TypeProto_new;
  TypeProto_new->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  TypeProto_new->tensor_type = TypeProto__Tensor_new;
  TypeProto__Tensor_new->has_elem_type = 1;
  TypeProto__Tensor_new->elem_type = elem_type;
  if (rank < 0)
    return ValueInfoProto_new;
  NEW(TensorShapeProto, onnx__tensor_shape_proto__init);
  TypeProto__Tensor_new->shape = TensorShapeProto_new;
  for (int i = 0; i < rank; i++) {
    NEW(TensorShapeProto__Dimension, onnx__tensor_shape_proto__dimension__init);
    if (dim) {
      TensorShapeProto__Dimension_new->value_case =
          ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
      TensorShapeProto__Dimension_new->dim_value = dim;
    }
    APPEND(TensorShapeProto_new, dim, TensorShapeProto__Dimension_new);
  }
  return ValueInfoProto_new;
}

void message_input(Onnx__GraphProto *g, char *name, int elem_type, int rank) {
  APPEND(g, input, message_info(name, elem_type, rank, 0));
}

void message_output(Onnx__GraphProto *g, char *name, int elem_type, int rank) {
  APPEND(g, output, message_info(name, elem_type, rank, 0));
}

// The next word of a list, or NULL.
static char *word(const char **list) {
  while (**list == ' ')
    (*list)++;
  if (!**list)
    return NULL;
  size_t length = strcspn(*list, " ");
  char *copy = arena_alloc(&message_arena, length + 1);
  memcpy(copy, *list, length);
  *list += length;
  return copy;
}

Onnx__NodeProto *message_new_node(const char *op, const char *inputs, const char *outputs) {
  NEW(NodeProto, onnx__node_proto__init);
  const char *colon = strchr(op, ':');
  if (colon) {
    NodeProto_new->domain = arena_strdup(&message_arena, op);
    NodeProto_new->domain[colon - op] = '\0';
    op = colon + 1;
  }
  NodeProto_new->op_type = arena_strdup(&message_arena, op);
  for (char *name; (name = word(&inputs));)
    APPEND(NodeProto_new, input, name);
  for (char *name; (name = word(&outputs));)
    APPEND(NodeProto_new, output, name);
  return NodeProto_new;
}

Onnx__NodeProto *message_node(Onnx__GraphProto *g, const char *op, const char *inputs,
                              const char *outputs) {
  Onnx__NodeProto *n = message_new_node(op, inputs, outputs);
  APPEND(g, node, n);
  return n;
}

Onnx__AttributeProto *message_attribute(Onnx__NodeProto *n, char *name,
                                        Onnx__AttributeProto__AttributeType type) {
  NEW(AttributeProto, onnx__attribute_proto__init);
  AttributeProto_new->name = name;
  AttributeProto_new->has_type = 1;
  AttributeProto_new->type = type;
  APPEND(n, attribute, AttributeProto_new);
  return AttributeProto_new;
}

void message_set_int(Onnx__NodeProto *n, char *name, int64_t value) {
  Onnx__AttributeProto *a = message_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  a->has_i = 1;
  a->i = value;
}

void message_set_text(Onnx__NodeProto *n, char *name, char *value) {
  Onnx__AttributeProto *a =
      message_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  a->has_s = 1;
  a->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value};
}

void message_set_graph(Onnx__NodeProto *n, char *name, Onnx__GraphProto *value) {
  message_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = value;
}

Onnx__NodeProto *message_new_observe(const char *value, int id) {
  Onnx__NodeProto *n = message_new_node("narrowcast:Observe", value,
                                        arena_printf(&message_arena, "%s_seen%d", value, id));
  message_set_int(n, "id", id);
  return n;
}

void message_observe(Onnx__GraphProto *g, const char *value, int id) {
  APPEND(g, node, message_new_observe(value, id));
}

Onnx__TensorProto *message_initializer(Onnx__GraphProto *g, char *name, int elem_type, size_t rank,
                                       const int64_t *dims, void *data, size_t size) {
  NEW(TensorProto, onnx__tensor_proto__init);
  TensorProto_new->name = name;
  TensorProto_new->has_data_type = 1;
  TensorProto_new->data_type = elem_type;
  for (size_t i = 0; i < rank; i++)
    APPEND(TensorProto_new, dims, dims[i]);
  if (data) {
    TensorProto_new->has_raw_data = 1;
    TensorProto_new->raw_data = (ProtobufCBinaryData){size, data};
  } else {
    NEW(StringStringEntryProto, onnx__string_string_entry_proto__init);
    StringStringEntryProto_new->key = "location";
    StringStringEntryProto_new->value = "elsewhere";
    APPEND(TensorProto_new, external_data, StringStringEntryProto_new);
    TensorProto_new->has_data_location = 1;
    TensorProto_new->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  }
  APPEND(g, initializer, TensorProto_new);
  return TensorProto_new;
}

void message_set_ints(Onnx__NodeProto *n, char *name, const int64_t *values, size_t count) {
  Onnx__AttributeProto *a = message_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  for (size_t i = 0; i < count; i++)
    APPEND(a, ints, values[i]);
}
