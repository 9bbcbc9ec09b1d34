// Finds values whose step counts by looking at what makes and what reads them. See
// plan_resolution.h.
#include "plan_resolution.h"

#include "tensor.h"

#include <math.h>

static const double largest_exact = 16777216;  // 2^24

struct finder {
  struct resolution *out;
  struct graph *graph;
  struct arena *arena;
  signed char *constant;  // by value: 1 holds integers, -1 does not, 0 not looked at
};

// Constants of more elements than this are weights, not counts.
enum { MOST_ELEMENTS = 4096 };

static bool integer_constant(struct finder *f, int v, const Onnx__TensorProto *proto) {
  if (f->constant[v])
    return f->constant[v] > 0;
  f->constant[v] = -1;
  struct diag ignored = {0};
  struct tensor t;
  if (tensor_read(f->graph->model, proto, f->arena, &t, &ignored) != STATUS_OK ||
      t.count > MOST_ELEMENTS)
    return false;
  float *x = arena_array(f->arena, t.count, sizeof *x);
  if (!tensor_to_float(&t, x))
    return false;
  for (uint64_t i = 0; i < t.count; i++)
    if (!isfinite(x[i]) || rintf(x[i]) != x[i] || fabs((double)x[i]) >= largest_exact)
      return false;
  f->constant[v] = 1;
  return true;
}

static bool holds_integers(struct finder *f, int v) {
  const Onnx__TensorProto *constant = graph_constant(f->graph, v);
  return constant ? integer_constant(f, v, constant) : f->out->integer[v];
}

static bool is_one_of(const struct node *node, const char *const *ops) {
  for (; *ops; ops++)
    if (node_is(node, *ops))
      return true;
  return false;
}

static bool from_integer_type(const struct graph *g, const struct node *node) {
  if (!node_is(node, "Cast") || node->n_inputs == 0 || node->inputs[0] < 0)
    return false;
  int type = g->values[node->inputs[0]].type.elem_type;
  return type != ONNX__TENSOR_PROTO__DATA_TYPE__BOOL && tensor_element_bits(type) > 0 &&
         !tensor_is_float(type) && !format_from_onnx(type);
}

// Whether all fp32 inputs that become elements of the result hold integers, and one is not
// constant.
static bool all_integers(struct finder *f, const struct node *node, int most) {
  bool computed = false;
  for (int k = 0; k < node->n_inputs && k < most; k++) {
    int v = node->inputs[k];
    if (!graph_is_fp32(f->graph, v))
      continue;
    if (!holds_integers(f, v))
      return false;
    computed = computed || !graph_is_constant(f->graph, v);
  }
  return computed;
}

static bool gives_integers(struct finder *f, const struct node *node) {
  static const char *const makes[] = {"Floor", "Ceil", "Round", NULL};
  static const char *const combines[] = {"Add", "Sub", "Mul",    "Sum",   "Neg",    "Abs",   "Max",
                                         "Min", "Mod", "Concat", "Where", "CumSum", "Range", NULL};
  static const char *const moves[] = {"Identity", "Reshape",  "Transpose", "Squeeze", "Unsqueeze",
                                      "Flatten",  "Slice",    "Split",     "Gather",  "Expand",
                                      "Tile",     "GatherND", "Relu",      NULL};
  if (from_integer_type(f->graph, node) || is_one_of(node, makes))
    return true;
  if (is_one_of(node, combines))
    return all_integers(f, node, node->n_inputs);
  return is_one_of(node, moves) && all_integers(f, node, 1);
}

void resolution_find(struct resolution *r, struct graph *g, const struct policy *policy,
                     struct arena *a) {
  static const char *const trigonometric[] = {"Sin", "Cos", NULL};
  size_t values = (size_t)g->n_values;
  *r = (struct resolution){.policy = policy,
                           .integer = arena_array(a, values, sizeof *r->integer),
                           .angle = arena_array(a, values, sizeof *r->angle)};
  struct finder f = {
      .out = r, .graph = g, .arena = a, .constant = arena_array(a, values, sizeof *f.constant)};
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++) {
      const struct node *node = &g->nodes[g->scopes[s].order[i]];
      if (is_one_of(node, trigonometric) && node->n_inputs > 0 && node->inputs[0] >= 0)
        r->angle[node->inputs[0]] = true;
      if (!gives_integers(&f, node))
        continue;
      for (int k = 0; k < node->n_outputs; k++)
        if (graph_is_fp32(g, node->outputs[k]))
          r->integer[node->outputs[k]] = true;
    }
}

bool resolution_kept(const struct resolution *r, int v, enum format_id f, double absmax) {
  double step = format_ulp(&formats[f], absmax);
  if (r->integer[v] && r->policy->keep_integers && absmax < largest_exact && step > 1)
    return false;
  return !(r->angle[v] && step > r->policy->max_angle_step);
}
