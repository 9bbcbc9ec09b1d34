// How nodes are changed when the opset is raised: see raise_edit.h. Messages of the model are
// changed in place; lists are copied when they change, since those of a clone may be shared.
#include "raise_edit.h"

#include "proto.h"
#include "round.h"
#include "tensor.h"

#include <stdarg.h>
#include <string.h>

enum { FIRST_SUFFIX = 2 };

enum status raise_refuse(struct raising *r, const struct subject *s, const char *why) {
  diag_at(r->diag, r->model->path, graph_node_label(r->graph, s->id), NULL);
  return diag_fail(r->diag, STATUS_MODEL, "the opset cannot be raised to %d: %s of opset %d %s",
                   r->to, s->how->op, s->how->since, why);
}

const char *raise_unused_name(struct raising *r, const char *wanted) {
  const char *name = wanted;
  int next = map_get(&r->names, 0, wanted);
  if (next >= 0) {
    do
      name = arena_printf(r->arena, "%s_%d", wanted, next++);
    while (map_get(&r->names, 0, name) >= 0);
    map_put(&r->names, 0, wanted, next);
  }
  map_put(&r->names, 0, name, FIRST_SUFFIX);
  return name;
}

const char *raise_output_name(const struct subject *s) {
  for (size_t k = 0; k < s->node->n_output; k++)
    if (s->node->output[k][0])
      return s->node->output[k];
  return "";
}

void raise_append(struct raising *r, Onnx__NodeProto *node) {
  r->list = arena_grow(r->arena, r->list, &r->capacity, r->count + 1, sizeof *r->list);
  r->list[r->count++] = node;
}

// Removes the attribute; *out is NULL if it is not there. One that refers to an attribute of the
// function around it has no value to move.
enum status raise_take(struct raising *r, const struct subject *s, const char *name,
                       Onnx__AttributeProto **out) {
  Onnx__NodeProto *node = s->node;
  *out = node_attribute(node, name);
  if (!*out)
    return STATUS_OK;
  if ((*out)->ref_attr_name && (*out)->ref_attr_name[0])
    return raise_refuse(r, s, "wants as an input what is an attribute of the function here");
  Onnx__AttributeProto **kept = arena_array(r->arena, node->n_attribute, sizeof *kept);
  size_t count = 0;
  for (size_t i = 0; i < node->n_attribute; i++)
    if (node->attribute[i] != *out)
      kept[count++] = node->attribute[i];
  node->attribute = kept;
  node->n_attribute = count;
  return STATUS_OK;
}

bool raise_attribute_says(const struct subject *s, const char *name, const char *text) {
  const Onnx__AttributeProto *attribute = node_attribute(s->node, name);
  return attribute && attribute->s.len == strlen(text) &&
         memcmp(attribute->s.data, text, attribute->s.len) == 0;
}

void raise_set_input(struct raising *r, Onnx__NodeProto *node, size_t k, const char *name) {
  size_t size = k + 1 > node->n_input ? k + 1 : node->n_input;
  char **inputs = arena_array(r->arena, size, sizeof *inputs);
  for (size_t i = 0; i < size; i++)
    inputs[i] = i < node->n_input ? node->input[i] : arena_strdup(r->arena, "");
  inputs[k] = arena_strdup(r->arena, name);
  node->input = inputs;
  node->n_input = size;
}

Onnx__NodeProto *raise_add(struct raising *r, const struct subject *s, const char *op,
                           const char *what, ...) {
  const char *name =
      raise_unused_name(r, arena_printf(r->arena, "%s__%s", raise_output_name(s), what));
  Onnx__NodeProto *node = proto_node(r->arena, op, "", 0, 1);
  node->output[0] = arena_strdup(r->arena, name);
  node->name = arena_strdup(r->arena, name);
  va_list inputs;
  va_start(inputs, what);
  for (const char *input; (input = va_arg(inputs, const char *)) != NULL;)
    raise_set_input(r, node, node->n_input, input);
  va_end(inputs);
  raise_append(r, node);
  return node;
}

const char *raise_constant(struct raising *r, const struct subject *s, const char *what,
                           Onnx__TensorProto *value) {
  Onnx__NodeProto *node = raise_add(r, s, "Constant", what, NULL);
  proto_add_tensor(r->arena, node, "value", value);
  return node->output[0];
}

static const char *add_list(struct raising *r, const struct subject *s, const char *what,
                            int elem_type, const void *values, size_t n, size_t size) {
  uint8_t *copy = arena_alloc(r->arena, n * size);
  if (n)
    memcpy(copy, values, n * size);
  return raise_constant(
      r, s, what,
      tensor_new(r->arena, NULL, elem_type, 1, (const int64_t[]){(int64_t)n}, copy, n * size));
}

const char *raise_ints(struct raising *r, const struct subject *s, const char *what,
                       const int64_t *values, size_t n) {
  return add_list(r, s, what, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, values, n, sizeof *values);
}

const char *raise_floats(struct raising *r, const struct subject *s, const char *what,
                         const float *values, size_t n) {
  return add_list(r, s, what, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, values, n, sizeof *values);
}

enum status raise_values(struct raising *r, const struct subject *s, const char *what,
                         const float *values, size_t n, size_t rank, const char **out) {
  enum { MOST_AXES = 4 };
  int v = r->graph->nodes[s->id].inputs[0];
  const struct format *f = v >= 0 ? format_from_onnx(r->graph->values[v].type.elem_type) : NULL;
  if (!f || (f->id != FORMAT_FP64 && f->stored_bits < 16))
    return raise_refuse(r, s, "wants a value as an input, whose type is not known here");
  size_t size = (size_t)f->stored_bits / 8;
  uint8_t *data = arena_alloc(r->arena, n * size);
  struct round_mode mode = {.format = f};
  for (size_t i = 0; i < n; i++) {
    double wide = values[i];
    if (f->id == FORMAT_FP64)
      memcpy(data + i * size, &wide, sizeof wide);
    else
      round_encode_array(&mode, &values[i], data + i * size, 1);
  }
  int64_t dims[MOST_AXES] = {(int64_t)n, 1, 1, 1};
  *out = raise_constant(r, s, what,
                        tensor_new(r->arena, NULL, f->onnx_type, rank, dims, data, n * size));
  return STATUS_OK;
}
