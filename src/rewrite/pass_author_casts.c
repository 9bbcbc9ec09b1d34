// Casts of the author that have less to do than before. One whose readers all read what it widened
// is left out, with what names its output. One that reads what it makes, since its
// producer or itself is narrow, becomes an Identity: ONNX Runtime 1.30 puts Casts of no type around
// one of float16 to float16, and does not load it.
#include "pass.h"
#include "proto.h"
#include "tensor.h"

static bool is_cast(const struct node *node) {
  return (node_is(node, "Cast") && node->n_inputs == 1) ||
         (node_is(node, "CastLike") && node->n_inputs == 2);
}

// The element type in which Cast n reads or makes value v; 0: none.
static int type_of(const struct rewrite *w, int v, enum format_id planned) {
  if (planned != FORMAT_COUNT)
    return formats[planned].onnx_type;
  return v >= 0 ? w->graph->values[v].type.elem_type : 0;
}

static void drop_idle(struct rewrite *w, int n) {
  const struct node *node = &w->graph->nodes[n];
  const struct use use = {.node = n, .index = 0};
  int v = node->inputs[0], out = node->outputs[0];
  enum format_id reads = FORMAT_COUNT;
  if (graph_is_fp32(w->graph, v))
    reads = plan_wanted_copy(w->graph, w->plan, v, &use).format;
  bool as_before =
      w->plan->nodes[n].format == FORMAT_FP32 && (reads == FORMAT_COUNT || reads == FORMAT_FP32);
  if (as_before ||
      type_of(w, v, reads) != type_of(w, out, plan_output_format(w->graph, w->plan, n, 0)))
    return;
  node->proto->op_type = arena_strdup(w->arena, "Identity");
  node->proto->n_input = 1;
  node->proto->n_attribute = 0;
  w->report->author_casts++;
}

static bool is_dropped(const struct rewrite *w, int scope, const char *name) {
  int v = map_get(&w->graph->names, scope, text_of(name));
  const struct value *value = v >= 0 ? &w->graph->values[v] : NULL;
  return value && value->origin == ORIGIN_NODE && w->dropped[value->producer];
}

static size_t without_dropped(const struct rewrite *w, int scope, Onnx__ValueInfoProto **list,
                              size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (!is_dropped(w, scope, list[i]->name))
      list[kept++] = list[i];
  return kept;
}

// All that names outputs of what is left out.
static void forget_dropped(struct rewrite *w, int s) {
  const struct scope *scope = &w->graph->scopes[s];
  if (!scope->graph) {
    scope->function->n_value_info =
        without_dropped(w, s, scope->function->value_info, scope->function->n_value_info);
    return;
  }
  Onnx__GraphProto *graph = scope->graph;
  graph->n_value_info = without_dropped(w, s, graph->value_info, graph->n_value_info);
  size_t kept = 0;
  for (size_t i = 0; i < graph->n_quantization_annotation; i++)
    if (!is_dropped(w, s, graph->quantization_annotation[i]->tensor_name))
      graph->quantization_annotation[kept++] = graph->quantization_annotation[i];
  graph->n_quantization_annotation = kept;
}

enum status pass_author_casts(struct rewrite *w, struct diag *d) {
  (void)d;
  bool *touched = arena_array(w->arena, (size_t)w->graph->n_scopes, sizeof *touched);
  for (int n = 0; n < w->graph->n_nodes; n++) {
    const struct node *node = &w->graph->nodes[n];
    if (!is_cast(node) || node->n_outputs != 1)
      continue;
    w->dropped[n] = plan_drops_cast(w->graph, w->plan, n);
    if (!w->dropped[n]) {
      drop_idle(w, n);
      continue;
    }
    touched[node->scope] = true;
    w->report->author_casts++;
  }
  for (int s = 0; s < w->graph->n_scopes; s++)
    if (touched[s])
      forget_dropped(w, s);
  return STATUS_OK;
}
