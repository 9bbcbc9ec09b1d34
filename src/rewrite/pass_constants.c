// Constants: an initializer or Constant node that only narrow readers want is stored narrow in its
// place; one that wide readers want as well stays, and a narrow copy is added. One copy serves all
// readers of a format and scale, whose factor it carries; the wide reader keeps the exact fp32
// value. A rank-0 constant stays rank 0.
#include "pass.h"
#include "proto.h"
#include "tensor.h"

#include <string.h>

static void rename_readers(struct rewrite *w, int v, struct copy copy, const char *name) {
  const struct value *value = &w->graph->values[v];
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node >= 0 && copy_equal(plan_wanted_copy(w->graph, w->plan, v, use), copy))
      w->graph->nodes[use->node].proto->input[use->index] = arena_strdup(w->arena, name);
  }
}

// A graph input of an old model (IR below 4) lists its initializer as input: its type follows.
static void retype_listed_input(struct rewrite *w, int v, int elem_type) {
  const struct value *value = &w->graph->values[v];
  const struct scope *scope = &w->graph->scopes[value->scope];
  if (value->origin != ORIGIN_INPUT || !scope->graph)
    return;
  Onnx__ValueInfoProto *info = scope->graph->input[value->output];
  if (info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    info->type->tensor_type->elem_type = elem_type;
}

void rewrite_replace_constant(struct rewrite *w, int v, Onnx__TensorProto *narrow) {
  const struct value *value = &w->graph->values[v];
  if (value->origin != ORIGIN_NODE) {
    Onnx__TensorProto *tensor = value->initializer, old = *tensor;
    *tensor = *narrow;
    tensor->base = old.base;  // with its unknown fields
    tensor->name = old.name;
    tensor->doc_string = old.doc_string;
    tensor->n_metadata_props = old.n_metadata_props;
    tensor->metadata_props = old.metadata_props;
    retype_listed_input(w, v, narrow->data_type);
    return;
  }
  Onnx__NodeProto *node = w->graph->nodes[value->producer].proto;
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__AttributeProto *old = node->attribute[i];
    if (strncmp(old->name, "value", 5) != 0)
      continue;
    node->attribute[i] = proto_tensor_attribute(w->arena, "value", narrow);
    node->attribute[i]->base = old->base;  // with its unknown fields
    node->attribute[i]->doc_string = old->doc_string;
  }
}

static bool is_exact(struct copy copy) {
  return copy.format == FORMAT_FP32 && copy.scale_log2 == 0;
}

// In the order of formats and scales; there are few.
static void sort_copies(struct copy *copies, size_t n) {
  for (size_t i = 1; i < n; i++)
    for (size_t k = i; k > 0; k--) {
      struct copy *x = &copies[k - 1], *y = &copies[k];
      if (x->format < y->format || (x->format == y->format && x->scale_log2 <= y->scale_log2))
        break;
      struct copy swap = *x;
      *x = *y;
      *y = swap;
    }
}

static enum status narrow_constant(struct rewrite *w, int v, const Onnx__TensorProto *wide,
                                   struct diag *d) {
  struct copy *wanted;
  size_t n = plan_copies(w->graph, w->plan, v, &wanted, w->arena);
  sort_copies(wanted, n);
  bool keep_wide = false;
  for (size_t i = 0; i < n; i++)
    keep_wide = keep_wide || is_exact(wanted[i]);
  bool in_place = !keep_wide;
  struct tensor wide_view;
  TRY(tensor_read(w->model, wide, w->arena, &wide_view, d));
  Onnx__TensorProto *replacement = NULL;
  for (size_t i = 0; i < n; i++) {
    if (is_exact(wanted[i]))
      continue;
    const char *name = in_place ? w->graph->values[v].name : rewrite_name(w, v, wanted[i]);
    Onnx__TensorProto *narrow;
    TRY(rewrite_narrow_tensor(w, wide, name, wanted[i], &narrow, d));
    w->report->narrow_initializers++;
    w->report->bytes_after += narrow->raw_data.len;
    if (in_place) {
      replacement = narrow;  // further copies still need the wide one
    } else {
      rename_readers(w, v, wanted[i], name);
      rewrite_add_constant(w, v, narrow);
    }
    in_place = false;
  }
  w->report->bytes_before += wide_view.size;
  if (replacement)
    rewrite_replace_constant(w, v, replacement);
  else
    w->report->bytes_after += wide_view.size;
  w->report->copied_initializers += keep_wide && n > 1;
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
