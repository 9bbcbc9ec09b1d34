// Makers of messages: see proto.h. Lists are copied when they grow: those of a clone may be
// shared.
#include "proto.h"

#include <string.h>

static void *list_with(struct arena *a, void *list, size_t count, void *item) {
  void **larger = arena_array(a, count + 1, sizeof *larger);
  if (count)
    memcpy(larger, list, count * sizeof *larger);
  larger[count] = item;
  return larger;
}

Onnx__NodeProto *proto_node(struct arena *a, const char *op, const char *domain, size_t inputs,
                            size_t outputs) {
  Onnx__NodeProto *node = arena_alloc(a, sizeof *node);
  onnx__node_proto__init(node);
  node->op_type = arena_strdup(a, op);
  node->domain = domain[0] ? arena_strdup(a, domain) : NULL;
  node->n_input = inputs;
  node->input = arena_array(a, inputs, sizeof *node->input);
  node->n_output = outputs;
  node->output = arena_array(a, outputs, sizeof *node->output);
  return node;
}

Onnx__NodeProto *proto_unary(struct arena *a, const char *op, const char *domain, const char *input,
                             const char *output) {
  Onnx__NodeProto *node = proto_node(a, op, domain, 1, 1);
  node->input[0] = arena_strdup(a, input);
  node->output[0] = arena_strdup(a, output);
  return node;
}

static Onnx__AttributeProto *new_attribute(struct arena *a, const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *attribute = arena_alloc(a, sizeof *attribute);
  onnx__attribute_proto__init(attribute);
  attribute->name = arena_strdup(a, name);
  attribute->has_type = 1;
  attribute->type = type;
  return attribute;
}

static Onnx__AttributeProto *add(struct arena *a, Onnx__NodeProto *node,
                                 Onnx__AttributeProto *attribute) {
  node->attribute = list_with(a, node->attribute, node->n_attribute++, attribute);
  return attribute;
}

Onnx__AttributeProto *proto_add_int(struct arena *a, Onnx__NodeProto *node, const char *name,
                                    int64_t value) {
  Onnx__AttributeProto *attribute =
      new_attribute(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  attribute->has_i = 1;
  attribute->i = value;
  return add(a, node, attribute);
}

Onnx__AttributeProto *proto_add_float(struct arena *a, Onnx__NodeProto *node, const char *name,
                                      float value) {
  Onnx__AttributeProto *attribute =
      new_attribute(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  attribute->has_f = 1;
  attribute->f = value;
  return add(a, node, attribute);
}

Onnx__AttributeProto *proto_add_floats(struct arena *a, Onnx__NodeProto *node, const char *name,
                                       const float *values, size_t n) {
  Onnx__AttributeProto *attribute =
      new_attribute(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
  attribute->floats = arena_array(a, n, sizeof *values);
  memcpy(attribute->floats, values, n * sizeof *values);
  attribute->n_floats = n;
  return add(a, node, attribute);
}

Onnx__AttributeProto *proto_add_graph(struct arena *a, Onnx__NodeProto *node, const char *name,
                                      Onnx__GraphProto *value) {
  Onnx__AttributeProto *attribute =
      new_attribute(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
  attribute->g = value;
  return add(a, node, attribute);
}

Onnx__AttributeProto *proto_add_string(struct arena *a, Onnx__NodeProto *node, const char *name,
                                       const char *value) {
  Onnx__AttributeProto *attribute =
      new_attribute(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  attribute->has_s = 1;
  attribute->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)arena_strdup(a, value)};
  return add(a, node, attribute);
}

Onnx__AttributeProto *proto_tensor_attribute(struct arena *a, const char *name,
                                             Onnx__TensorProto *value) {
  Onnx__AttributeProto *attribute =
      new_attribute(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
  attribute->t = value;
  return attribute;
}

Onnx__AttributeProto *proto_add_tensor(struct arena *a, Onnx__NodeProto *node, const char *name,
                                       Onnx__TensorProto *value) {
  return add(a, node, proto_tensor_attribute(a, name, value));
}

Onnx__StringStringEntryProto *proto_entry(struct arena *a, const char *key, const char *value) {
  Onnx__StringStringEntryProto *entry = arena_alloc(a, sizeof *entry);
  onnx__string_string_entry_proto__init(entry);
  entry->key = arena_strdup(a, key);
  entry->value = arena_strdup(a, value);
  return entry;
}

void proto_set_entry(struct arena *a, Onnx__StringStringEntryProto ***list, size_t *count,
                     Onnx__StringStringEntryProto *entry) {
  Onnx__StringStringEntryProto **larger = arena_array(a, *count + 1, sizeof *larger);
  size_t kept = 0;
  for (size_t i = 0; i < *count; i++)
    if (!(*list)[i]->key || strcmp((*list)[i]->key, entry->key) != 0)
      larger[kept++] = (*list)[i];
  larger[kept++] = entry;
  *list = larger;
  *count = kept;
}

static const char *plain_domain(const char *domain) {
  return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

void proto_import(struct arena *a, Onnx__OperatorSetIdProto ***imports, size_t *count,
                  const char *domain, int64_t version) {
  for (size_t i = 0; i < *count; i++)
    if (strcmp(plain_domain((*imports)[i]->domain), plain_domain(domain)) == 0)
      return;
  Onnx__OperatorSetIdProto *import = arena_alloc(a, sizeof *import);
  onnx__operator_set_id_proto__init(import);
  import->domain = arena_strdup(a, domain);
  import->has_version = 1;
  import->version = version;
  *imports = list_with(a, *imports, (*count)++, import);
}
