// Constants: an initializer or Constant node that only narrow readers want is stored narrow in its
// place; one that wide readers want as well stays, and a narrow copy is added. One copy serves all
// readers of a format; the wide reader keeps the exact fp32 value. A rank-0 constant stays rank 0.
#include "pass.h"
#include "proto.h"
#include "tensor.h"

#include <string.h>

// The formats that the readers of v want: bit per format.
static unsigned wanted_formats(const struct rewrite *w, int v) {
  const struct value *value = &w->graph->values[v];
  unsigned wanted = 0;
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    enum format_id f =
        use->node < 0 ? FORMAT_FP32 : plan_input_format(w->graph, w->plan, use->node, use->index);
    if (f != FORMAT_COUNT)
      wanted |= 1u << f;
  }
  return wanted;
}

static void rename_readers(struct rewrite *w, int v, enum format_id f, const char *name) {
  const struct value *value = &w->graph->values[v];
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node >= 0 && plan_input_format(w->graph, w->plan, use->node, use->index) == f)
      w->graph->nodes[use->node].proto->input[use->index] = arena_strdup(w->arena, name);
  }
}

// A graph input of an old model (IR below 4) lists its initializer as input: its type follows.
static void retype_listed_input(struct rewrite *w, int v, int elem_type) {
  const struct value *value = &w->graph->values[v];
  const struct scope *scope = &w->graph->scopes[value->scope];
  if (value->origin != ORIGIN_INPUT || !scope->graph)
    return;
  for (size_t i = 0; i < scope->graph->n_input; i++) {
    Onnx__ValueInfoProto *info = scope->graph->input[i];
    if (info->name && strcmp(info->name, value->name) == 0 && info->type &&
        info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
      info->type->tensor_type->elem_type = elem_type;
  }
}

void rewrite_replace_constant(struct rewrite *w, int v, Onnx__TensorProto *narrow) {
  const struct value *value = &w->graph->values[v];
  if (value->origin != ORIGIN_NODE) {
    Onnx__TensorProto *old = value->initializer;
    ProtobufCMessage base = old->base;
    char *name = old->name;
    *old = *narrow;
    old->base = base;
    old->name = name;
    retype_listed_input(w, v, narrow->data_type);
    return;
  }
  Onnx__NodeProto *node = w->graph->nodes[value->producer].proto;
  Onnx__AttributeProto *attribute = proto_tensor_attribute(w->arena, "value", narrow);
  for (size_t i = 0; i < node->n_attribute; i++)
    if (strncmp(node->attribute[i]->name, "value", 5) == 0)
      node->attribute[i] = attribute;
}

void rewrite_add_constant(struct rewrite *w, int v, Onnx__TensorProto *narrow) {
  int scope = w->graph->values[v].scope;
  Onnx__GraphProto *graph = w->graph->scopes[scope].graph;
  if (graph && w->model->proto->ir_version >= 4) {
    size_t *capacity = &w->initializer_capacity[scope];
    if (*capacity == 0)
      *capacity = graph->n_initializer;  // the list as it was read is full
    graph->initializer = arena_grow(w->arena, graph->initializer, capacity,
                                    graph->n_initializer + 1, sizeof *graph->initializer);
    graph->initializer[graph->n_initializer++] = narrow;
    return;
  }
  Onnx__NodeProto *node = rewrite_new_node(w, "Constant", NULL, narrow->name);
  proto_add_tensor(w->arena, node, "value", narrow);
  rewrite_add_node(w, v, node);
}

static enum status narrow_constant(struct rewrite *w, int v, const Onnx__TensorProto *wide,
                                   struct diag *d) {
  unsigned wanted = wanted_formats(w, v);
  bool keep_wide = wanted >> FORMAT_FP32 & 1;
  bool in_place = !keep_wide;
  struct tensor wide_view;
  TRY(tensor_read(w->model, wide, w->arena, &wide_view, d));
  Onnx__TensorProto *replacement = NULL;
  for (int f = 0; f < FORMAT_COUNT; f++) {
    if (f == FORMAT_FP32 || !(wanted >> f & 1))
      continue;
    const char *name = in_place ? w->graph->values[v].name : rewrite_name(w, v, (enum format_id)f);
    Onnx__TensorProto *narrow;
    TRY(rewrite_narrow_tensor(w, wide, name, (enum format_id)f, &narrow, d));
    w->report->narrow_initializers++;
    w->report->bytes_after += narrow->raw_data.len;
    if (in_place) {
      replacement = narrow;  // further formats still need the wide one
    } else {
      rename_readers(w, v, (enum format_id)f, name);
      rewrite_add_constant(w, v, narrow);
    }
    in_place = false;
  }
  w->report->bytes_before += wide_view.size;
  if (replacement)
    rewrite_replace_constant(w, v, replacement);
  else
    w->report->bytes_after += wide_view.size;
  w->report->copied_initializers += keep_wide && (wanted & ~(1u << FORMAT_FP32)) != 0;
  return STATUS_OK;
}

enum status pass_constants(struct rewrite *w, struct diag *d) {
  // Copies made here get no ids: the loop is over the values of the index.
  for (int v = 0; v < w->graph->n_values; v++) {
    if (!w->plan->values[v].considered || plan_is_only_operand(w->graph, w->plan, v))
      continue;
    const Onnx__TensorProto *wide = graph_constant(w->graph, v);
    if (wide)
      TRY(narrow_constant(w, v, wide, d));
  }
  return STATUS_OK;
}
