// Declarations: value_info of a value that is stored narrow says so (its shape stays); graph inputs
// and outputs say the narrow type where the policy asks for a narrow interface. Names and order
// stay. Scopes that got a Cast import ai.onnx.
#include "pass.h"
#include "proto.h"

#include <string.h>

static void retype(Onnx__ValueInfoProto *info, int elem_type) {
  if (info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    info->type->tensor_type->has_elem_type = 1;
    info->type->tensor_type->elem_type = elem_type;
  }
}

// The value that `info` declares in scope s if it is narrow now under its own name, else -1. A
// value given out under its old name is fp32 there: pass_casts renamed the narrow one.
static int narrow_value(const struct rewrite *w, int s, const Onnx__ValueInfoProto *info) {
  if (!info->name || !info->name[0])
    return -1;
  int v = map_get(&w->graph->names, s, info->name);
  if (v < 0 || !w->plan->values[v].considered || rewrite_stored_format(w, v) == FORMAT_FP32)
    return -1;
  const struct value *value = &w->graph->values[v];
  if (value->origin == ORIGIN_NODE && !rewrite_is_constant(w, v)) {
    const char *name = w->graph->nodes[value->producer].proto->output[value->output];
    return strcmp(name, info->name) == 0 ? v : -1;
  }
  return v;
}

static void retype_list(const struct rewrite *w, int s, Onnx__ValueInfoProto **list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int v = narrow_value(w, s, list[i]);
    if (v >= 0)
      retype(list[i], formats[rewrite_stored_format(w, v)].onnx_type);
  }
}

// value_info that contradicts what the operators say was wrong before: it says the inferred type
// now. What an inner graph declares of a name from outside goes: the outer graph declares it.
static void correct_stale(const struct rewrite *w, int s, Onnx__GraphProto *graph) {
  size_t kept = 0;
  for (size_t i = 0; i < graph->n_value_info; i++) {
    Onnx__ValueInfoProto *info = graph->value_info[i];
    int v = info->name ? map_get(&w->graph->names, s, info->name) : -1;
    if (v < 0 && info->name && graph_lookup(w->graph, s, info->name) >= 0)
      continue;
    graph->value_info[kept++] = info;
    if (v >= 0 && w->graph->values[v].type.kind == TYPE_TENSOR)
      retype(info, w->graph->values[v].type.elem_type);
  }
  graph->n_value_info = kept;
}

enum status pass_interface(struct rewrite *w, struct diag *d) {
  (void)d;
  for (int v = 0; v < w->graph->n_values; v++) {
    int root = w->graph->scopes[w->graph->values[v].scope].root;
    Onnx__FunctionProto *function = w->graph->scopes[root].function;
    if (function && w->first_added[v] >= 0)
      proto_import(w->arena, &function->opset_import, &function->n_opset_import, "",
                   graph_opset(w->graph, 0, ""));
  }
  for (int s = 0; s < w->graph->n_scopes; s++) {
    const struct scope *scope = &w->graph->scopes[s];
    if (scope->function) {
      retype_list(w, s, scope->function->value_info, scope->function->n_value_info);
      continue;
    }
    correct_stale(w, s, scope->graph);
    retype_list(w, s, scope->graph->value_info, scope->graph->n_value_info);
    if (s == 0 && w->plan->narrow_inputs)
      retype_list(w, s, scope->graph->input, scope->graph->n_input);
    if (s == 0 && w->plan->narrow_outputs)
      retype_list(w, s, scope->graph->output, scope->graph->n_output);
  }
  return STATUS_OK;
}
