// What follows for values from what a plan gives to nodes: the format and scale that each input
// and output has, and those that each value is stored in and must be had in besides.
#include "plan.h"
#include "plan_quantise.h"
#include "plan_weights.h"

#include <math.h>

// Whether the place of formal f may change its type at all: a variadic whose repetitions may differ
// has no one type to change.
static bool changeable(const struct formal *f) {
  return f && !f->heterogeneous;
}

int plan_main_variable(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  if (!node->schema)
    return -1;
  for (int k = 0; k < node->n_outputs; k++)
    if (graph_is_fp32(g, node->outputs[k])) {
      const struct formal *f = schema_output(node->schema, k);
      return changeable(f) ? f->var : -1;
    }
  for (int k = 0; k < node->n_inputs; k++)
    if (graph_is_fp32(g, node->inputs[k])) {
      const struct formal *f = schema_input(node->schema, k);
      return changeable(f) ? f->var : -1;
    }
  return -1;
}

int plan_followed_variable(const struct graph *g, int n, int k) {
  const struct node *node = &g->nodes[n];
  const struct schema *s = node->schema;
  for (int i = 0; i < s->n_choices; i++) {
    const struct type_choice *c = &s->choices[i];
    int input = c->input + (c->per_output ? k : 0);
    if (c->output != k && c->output >= 0)
      continue;
    if (c->kind == CHOICE_INPUT && input < node->n_inputs && node->inputs[input] >= 0)
      return schema_input(s, input)->var;
    bool declared = g->values[node->outputs[k]].declared.kind != TYPE_UNKNOWN;
    if (c->kind == CHOICE_ATTRIBUTE || (c->kind == CHOICE_DECLARED && declared))
      return FOLLOWS_NOTHING;  // the rewrite writes it there
    bool passed_over =
        c->kind == CHOICE_INPUT || c->kind == CHOICE_DECLARED ||
        (c->kind == CHOICE_IF_ATTRIBUTE && !node_attribute(node->proto, c->attribute));
    if (!passed_over)
      return TYPE_STAYS;
  }
  return FOLLOWS_NOTHING;
}

// That of a place with formal f, if the node runs in `format`, at an opset that takes it there.
static enum format_id supposed_format(const struct graph *g, const struct plan *p, int n, int v,
                                      const struct formal *f, enum format_id format) {
  if (!graph_is_fp32(g, v))
    return FORMAT_COUNT;
  return changeable(f) && !(p->nodes[n].wide_vars >> f->var & 1) ? format : FORMAT_FP32;
}

static enum format_id wanted_format(const struct graph *g, const struct plan *p, int n, int v,
                                    const struct formal *f) {
  enum format_id format = supposed_format(g, p, n, v, f, p->nodes[n].format);
  bool narrow = format != FORMAT_COUNT && format != FORMAT_FP32;
  return narrow && !schema_allows(g->nodes[n].schema, f->var, formats[format].onnx_type)
             ? FORMAT_FP32
             : format;
}

// Operators that look at the shape of their input alone take it in whatever format it is stored.
bool plan_reads_shape_only(const struct node *node) {
  return node_is(node, "Shape") || node_is(node, "Size");
}

// ---- Casts of the author ----

// The types to which a Cast from a narrow format gives what one from fp32 gives.
static bool casts_exactly_to(int elem_type) {
  switch (elem_type) {
  case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
  case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
  case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
  case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
  case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16:
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64: return true;
  default: return false;
  }
}

// From there to fp32 nothing would be rounded. A constant or input is rounded for others, not for
// it.
bool plan_casts_as_stored(const struct graph *g, const struct plan *p, int n) {
  const struct node *node = &g->nodes[n];
  if (!node_is(node, "Cast") || node->n_inputs != 1 || node->n_outputs != 1)
    return false;
  int v = node->inputs[0], out = node->outputs[0];
  return p->nodes[n].format == FORMAT_FP32 && out >= 0 && graph_is_fp32(g, v) &&
         g->values[v].origin == ORIGIN_NODE && !graph_is_constant(g, v) &&
         g->values[out].type.kind == TYPE_TENSOR && casts_exactly_to(g->values[out].type.elem_type);
}

bool plan_given_copy(const struct graph *g, int v, struct copy *given) {
  const struct value *value = &g->values[v];
  const struct node *cast = value->origin == ORIGIN_NODE ? &g->nodes[value->producer] : NULL;
  if (!graph_is_fp32(g, v) || !cast || !node_is(cast, "Cast") || cast->n_inputs != 1 ||
      cast->inputs[0] < 0)
    return false;
  const struct type *from = &g->values[cast->inputs[0]].type;
  if (from->kind != TYPE_TENSOR || (from->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 &&
                                    from->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16))
    return false;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node >= 0 && g->nodes[value->uses[u].node].scope != value->scope)
      return false;
  *given = (struct copy){format_from_onnx(from->elem_type)->id, 0};
  return true;
}

bool plan_drops_cast(const struct graph *g, const struct plan *p, int n) {
  const struct node *node = &g->nodes[n];
  int v = node->n_outputs == 1 ? node->outputs[0] : -1;
  struct copy given;
  if (v < 0 || p->nodes[n].format != FORMAT_FP32 || p->values[v].operand ||
      !plan_given_copy(g, v, &given))
    return false;
  const struct value *value = &g->values[v];
  for (int u = 0; u < value->n_uses; u++)
    if (!copy_equal(plan_wanted_copy(g, p, v, &value->uses[u]), given))
      return false;
  return value->n_uses > 0;
}

// ---- what nodes read and values are stored in ----

// The format that node n takes input k in, wherever it comes from.
static enum format_id taken_format(const struct graph *g, const struct plan *p, int n, int k) {
  const struct node *node = &g->nodes[n];
  if (plan_reads_shape_only(node) || plan_casts_as_stored(g, p, n))
    return FORMAT_COUNT;
  return wanted_format(g, p, n, node->inputs[k],
                       node->schema ? schema_input(node->schema, k) : NULL);
}

enum format_id plan_supposed_input(const struct graph *g, const struct plan *p, int n, int k,
                                   enum format_id format) {
  const struct node *node = &g->nodes[n];
  if (plan_reads_shape_only(node))
    return FORMAT_COUNT;
  return supposed_format(g, p, n, node->inputs[k],
                         node->schema ? schema_input(node->schema, k) : NULL, format);
}

enum format_id plan_supposed_output(const struct graph *g, const struct plan *p, int n, int k,
                                    enum format_id format) {
  const struct node *node = &g->nodes[n];
  return supposed_format(g, p, n, node->outputs[k],
                         node->schema ? schema_output(node->schema, k) : NULL, format);
}

enum format_id plan_input_format(const struct graph *g, const struct plan *p, int n, int k) {
  return plan_is_narrow_operand(g, p, n, k) ? FORMAT_COUNT : taken_format(g, p, n, k);
}

bool plan_is_narrow_operand(const struct graph *g, const struct plan *p, int n, int k) {
  const struct node *node = &g->nodes[n];
  if (!p->nodes[n].narrow_operands || !product_operand(node, k))
    return false;
  return !policy_is_weight_format(p->operand_format) || weights_may_be(g, node, k);
}

bool plan_is_only_operand(struct graph *g, const struct plan *p, int v) {
  const struct value *value = &g->values[v];
  if (!p->values[v].operand || !graph_constant(g, v))
    return false;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node < 0 ||
        !plan_is_narrow_operand(g, p, value->uses[u].node, value->uses[u].index))
      return false;
  return true;
}

enum format_id plan_output_format(const struct graph *g, const struct plan *p, int n, int k) {
  const struct node *node = &g->nodes[n];
  return wanted_format(g, p, n, node->outputs[k],
                       node->schema ? schema_output(node->schema, k) : NULL);
}

// The format that all readers of v want. Where they want several narrow ones, a constant takes the
// first of them (it is stored once per format), anything else stays fp32.
static enum format_id wanted_by_readers(const struct graph *g, const struct plan *p, int v,
                                        bool constant) {
  const struct value *value = &g->values[v];
  enum format_id agreed = FORMAT_COUNT;
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    enum format_id wanted = FORMAT_FP32;
    if (use->node >= 0 && constant)
      wanted = plan_input_format(g, p, use->node, use->index);
    else if (use->node >= 0)
      wanted = taken_format(g, p, use->node, use->index);
    if (wanted == FORMAT_COUNT)
      continue;
    if (wanted == FORMAT_FP32 || (!constant && agreed != FORMAT_COUNT && wanted != agreed))
      return FORMAT_FP32;
    agreed = wanted < agreed ? wanted : agreed;
  }
  return agreed == FORMAT_COUNT ? FORMAT_FP32 : agreed;
}

enum format_id plan_stored_format(struct graph *g, const struct plan *p, int v) {
  const struct value *value = &g->values[v];
  if (graph_constant(g, v))
    return wanted_by_readers(g, p, v, true);
  if (value->origin == ORIGIN_NODE)
    return plan_output_format(g, p, value->producer, value->output);
  if (value->origin == ORIGIN_INPUT && p->narrow_inputs && !value->initializer &&
      !value->sparse_default)
    return wanted_by_readers(g, p, v, false);
  return FORMAT_FP32;
}

int plan_input_scale(const struct plan *p, int n, int k) {
  return p->nodes[n].input_scales ? p->nodes[n].input_scales[k] : 0;
}

int plan_stored_scale(struct graph *g, const struct plan *p, int v) {
  const struct value *value = &g->values[v];
  if (!graph_constant(g, v)) {
    bool narrow =
        value->origin == ORIGIN_NODE && plan_output_format(g, p, value->producer, value->output) ==
                                            p->nodes[value->producer].format;
    return narrow ? p->nodes[value->producer].output_scale : 0;
  }
  int agreed = 0;
  bool any = false;
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node >= 0 && plan_is_narrow_operand(g, p, use->node, use->index))
      continue;  // it reads another copy, which has a scale of its own
    int scale = use->node >= 0 ? plan_input_scale(p, use->node, use->index) : 0;
    if (any && scale != agreed)
      return 0;
    agreed = scale;
    any = true;
  }
  return agreed;
}

// A copy of a value: the stored one, and one more for each format and scale that readers want.
struct copy plan_wanted_copy(const struct graph *g, const struct plan *p, int v,
                             const struct use *use) {
  const struct value *value = &g->values[v];
  if (use->node >= 0 && plan_casts_as_stored(g, p, use->node))
    return (struct copy){p->values[v].scale_log2 == 0 ? p->values[v].format : FORMAT_FP32, 0};
  if (use->node >= 0)
    return (struct copy){plan_input_format(g, p, use->node, use->index),
                         plan_input_scale(p, use->node, use->index)};
  bool as_stored = p->narrow_outputs && value->scope == 0;
  return (struct copy){as_stored ? p->values[v].format : FORMAT_FP32, 0};
}

size_t plan_copies(const struct graph *g, const struct plan *p, int v, struct copy **copies,
                   struct arena *a) {
  const struct value *value = &g->values[v];
  size_t count = 0, capacity = 0;
  *copies = NULL;
  for (int u = 0; u < value->n_uses; u++) {
    struct copy wanted = plan_wanted_copy(g, p, v, &value->uses[u]);
    size_t i = 0;
    while (i < count && !copy_equal((*copies)[i], wanted))
      i++;
    if (i < count || wanted.format == FORMAT_COUNT)
      continue;
    *copies = arena_grow(a, *copies, &capacity, count + 1, sizeof **copies);
    (*copies)[count++] = wanted;
  }
  return count;
}

bool copy_equal(struct copy x, struct copy y) {
  return x.format == y.format && x.scale_log2 == y.scale_log2;
}

// True if a multiplication of v by 2^k can be written in the format itself: an exact factor, and an
// operator that takes it.
static bool scales_in(const struct graph *g, int v, enum format_id f, int k) {
  const struct schema *mul =
      schema_find(g->schemas, "", "Mul", graph_opset(g, g->values[v].scope, ""));
  double factor = ldexp(1, k);
  return mul && schema_allows(mul, mul->outputs[0].var, formats[f].onnx_type) &&
         factor >= formats[f].tiny && factor <= formats[f].max;
}

struct copy plan_copy_source(const struct graph *g, int v, struct copy stored, struct copy wanted,
                             bool *scale) {
  int missing = wanted.scale_log2 - stored.scale_log2;
  *scale =
      missing != 0 && (wanted.format == FORMAT_FP32 ||
                       (wanted.format == stored.format && scales_in(g, v, wanted.format, missing)));
  if (*scale)
    return (struct copy){wanted.format, stored.scale_log2};
  return missing == 0 ? stored : (struct copy){FORMAT_FP32, wanted.scale_log2};
}

// Takes the copy's headroom if it is the least so far; one in fp32, or of any format, has none.
static void count_headroom(struct plan *p, int v, struct copy copy) {
  double absmax = p->values[v].fit.absmax;
  if (copy.format == FORMAT_FP32 || copy.format == FORMAT_COUNT || !(absmax > 0))
    return;
  double headroom = formats[copy.format].max / ldexp(absmax, copy.scale_log2);
  if (headroom >= p->headroom)
    return;
  p->headroom = headroom;
  p->headroom_value = v;
  p->headroom_format = copy.format;
}

void plan_find_headroom(struct plan *p, struct graph *g) {
  p->headroom = INFINITY;
  p->headroom_value = -1;
  p->headroom_format = FORMAT_FP32;
  for (int v = 0; v < p->n_values; v++) {
    const struct value_plan *value = &p->values[v];
    if (!value->considered || graph_constant(g, v))
      continue;
    count_headroom(p, v, (struct copy){value->format, value->scale_log2});
    for (int u = 0; u < g->values[v].n_uses; u++)
      count_headroom(p, v, plan_wanted_copy(g, p, v, &g->values[v].uses[u]));
  }
}
