// Decides which matrix products read their operands in 8 bits. Each operand is tested at the scale
// that the rule gives it (src/README.md, "The rule"); then a minimum cut weighs what the products
// gain against the QuantizeLinears that they share.
#include "plan_quantise.h"

#include "elementary.h"
#include "mincut.h"
#include "round.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

struct quantising {
  struct plan *plan;
  struct graph *graph;
  const struct costs *costs;
  const struct fits *fits;
  const struct operand_policy *rule;
  struct arena *arena;
  int least_scale, most_scale;
  bool *tested;                  // by value; then ...
  enum reason *reasons;          // ... why it may not be an operand, or ...
  struct operand_plan **scaled;  // ... how it would be one
};

bool is_product(const struct node *node) {
  static const char *const own[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  static const char *const contributed[] = {"FusedConv", "FusedGemm", "FusedMatMul",
                                            "TransposeMatMul"};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    if (node_is(node, own[i]))
      return true;
  if (!node->proto->domain || strcmp(node->proto->domain, "com.microsoft") != 0)
    return false;
  for (size_t i = 0; i < sizeof contributed / sizeof contributed[0]; i++)
    if (strcmp(node->proto->op_type, contributed[i]) == 0)
      return true;
  return false;
}

bool product_operand(const struct node *node, int k) {
  return k < 2 && is_product(node);
}

bool quantise_available(const struct graph *g, int scope, enum format_id f) {
  static const char *const ops[] = {"QuantizeLinear", "DequantizeLinear"};
  int opset = graph_opset(g, scope, "");
  for (size_t i = policy_is_weight_format(f); i < sizeof ops / sizeof ops[0]; i++) {
    const struct schema *s = schema_find(g->schemas, "", ops[i], opset);
    int var = !s ? -1 : i == 0 ? s->outputs[0].var : s->inputs[0].var;
    if (var < 0 || !schema_allows(s, var, formats[f].onnx_type))
      return false;
  }
  return true;
}

void quantise_scale_range(const struct plan *p, int *least, int *most) {
  *least = -ROUND_SCALE_MAX;
  *most = ROUND_SCALE_MAX;
  for (int r = 0; r < p->n_ladder; r++) {
    const struct format *f = &formats[p->ladder[r]];
    *least = -f->max_exponent > *least ? -f->max_exponent : *least;
    *most = -f->min_exponent < *most ? -f->min_exponent : *most;
  }
}

// Whether 2^power is a normal number of format f.
static bool is_normal_in(enum format_id f, int power) {
  return power >= formats[f].min_exponent && power <= formats[f].max_exponent;
}

bool quantise_scale_exact(const struct graph *g, const struct plan *p, int n, int k,
                          int scale_log2) {
  int v = g->nodes[n].inputs[k];
  const struct value_plan *stored = &p->values[v];
  return is_normal_in(p->nodes[n].format, plan_input_scale(p, n, k) - scale_log2) &&
         (graph_is_constant(g, v) || is_normal_in(stored->format, stored->scale_log2 - scale_log2));
}

bool quantise_stays_finite(const struct plan *p, int n, int k, const struct operand_plan *o) {
  return ldexp(o->largest, plan_input_scale(p, n, k)) <= formats[p->nodes[n].format].max;
}

// ---- scales ----

// The smallest scale over the windows fits them all.
static enum reason scale_of_windows(const struct quantising *q, const struct stats *s,
                                    struct operand_plan *out) {
  struct scale_rule rule = q->fits->policy->scales;
  rule.margin = q->rule->margin;
  int *windows = arena_array(q->arena, s->n_windows, sizeof *windows);
  struct scale_track track = scale_over_windows(s, q->rule->format, &rule, windows);
  out->scale_log2 = track.scale_log2;
  if (track.moves > 0) {
    out->window_scales = windows;
    out->n_window_scales = s->n_windows;
  }
  return track.unstable ? REASON_UNSTABLE : REASON_NONE;
}

static enum reason bound_scale(const struct quantising *q, float absmax, struct operand_plan *out) {
  const struct format *f = &formats[q->rule->format];
  if (out->scale_log2 > q->most_scale)
    out->scale_log2 = q->most_scale;
  out->largest =
      ldexp(round_double(f, ldexp((double)absmax, out->scale_log2), true, false), -out->scale_log2);
  return out->scale_log2 < q->least_scale ? REASON_OVERFLOW : REASON_NONE;
}

// ---- tests ----

static enum reason lost_too_much(const struct operand_plan *o, double max_zero,
                                 double max_subnormal) {
  if (o->zero_fraction > max_zero)
    return REASON_ZERO;
  return o->subnormal_fraction > max_subnormal ? REASON_SUBNORMAL : REASON_NONE;
}

static enum reason test_seen(const struct quantising *q, int v, struct operand_plan *out) {
  const struct trace *t = q->fits->trace;
  if (!t || t->stats[v].runs == 0)
    return REASON_NOT_SEEN;
  const struct stats *s = &t->stats[v];
  if (s->nans > 0)
    return REASON_NONFINITE;
  if (s->positive_infinities + s->negative_infinities > 0)
    return REASON_OVERFLOW;
  enum reason why = scale_of_windows(q, s, out);
  if (why == REASON_NONE)
    why = bound_scale(q, stats_absmax(s), out);
  if (why != REASON_NONE)
    return why;
  struct stats_fit fit = stats_fit(s, q->rule->format, out->scale_log2, 1, false);
  out->headroom = fit.headroom;
  out->zero_fraction = fit.zero_fraction;
  out->subnormal_fraction = fit.subnormal_fraction;
  out->sqnr_db = fit.sqnr_db;
  if (!resolution_kept(&q->fits->resolution, v, q->rule->format, (double)stats_absmax(s)))
    return REASON_RESOLUTION;
  return lost_too_much(out, q->rule->max_zero_fraction, q->rule->max_subnormal_fraction);
}

// Over all elements, in blocks.
struct weight_sums {
  float absmax;
  bool nonfinite;
  uint64_t nonzero;
  double signal, noise;
  struct round_count count;
};

static void find_range(struct weight_sums *sums, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float magnitude = fabsf(x[i]);
    sums->nonfinite = sums->nonfinite || !isfinite(x[i]);
    sums->nonzero += magnitude > 0;
    sums->absmax = magnitude > sums->absmax ? magnitude : sums->absmax;
  }
}

static void count_lost(struct weight_sums *sums, const struct round_mode *mode, const float *x,
                       size_t n) {
  float rounded[TENSOR_BLOCK];
  round_count_array(mode, x, n, &sums->count);
  round_array(mode, x, rounded, n);
  for (size_t i = 0; i < n; i++) {
    double error = (double)rounded[i] - (double)x[i];
    sums->signal += (double)x[i] * (double)x[i];
    sums->noise += error * error;
  }
}

// One pass over the tensor: finds its range, or with a mode counts what rounding loses.
static void pass_over(struct model *m, const struct tensor *t, const struct round_mode *mode,
                      struct weight_sums *sums) {
  struct tensor_blocks b;
  tensor_begin(&b, m, t);
  while (tensor_next(&b))
    if (mode)
      count_lost(sums, mode, b.x, b.n);
    else
      find_range(sums, b.x, b.n);
}

static enum reason test_weight(const struct quantising *q, const struct tensor *t,
                               struct operand_plan *out) {
  struct weight_sums sums = {0};
  struct round_mode mode = {.format = &formats[q->rule->format], .saturate = true};
  pass_over(q->graph->model, t, NULL, &sums);
  if (sums.nonfinite)
    return REASON_CONSTANT;
  out->headroom = INFINITY;
  out->sqnr_db = INFINITY;
  if (sums.nonzero == 0)
    return REASON_NONE;
  out->scale_log2 = scale_of_range((double)sums.absmax, 1, q->rule->format);
  enum reason why = bound_scale(q, sums.absmax, out);
  if (why != REASON_NONE)
    return why;
  mode.scale_log2 = out->scale_log2;
  pass_over(q->graph->model, t, &mode, &sums);
  out->zero_fraction = (double)sums.count.zero / (double)sums.nonzero;
  out->subnormal_fraction = (double)sums.count.subnormal / (double)sums.nonzero;
  out->sqnr_db = sums.noise > 0 ? elementary_decibels(sums.signal / sums.noise) : INFINITY;
  const struct policy *policy = q->fits->policy;
  why = lost_too_much(out, policy->constant_max_zero_fraction,
                      policy->constant_max_subnormal_fraction);
  return why == REASON_NONE ? REASON_NONE : REASON_CONSTANT;
}

static enum status test_constant(const struct quantising *q, int v, Onnx__TensorProto *proto,
                                 struct operand_plan *out, enum reason *why, struct diag *d) {
  struct arena scratch = {0};
  struct tensor t;
  enum status status = tensor_read(q->graph->model, proto, &scratch, &t, d);
  if (status == STATUS_OK)
    *why = test_weight(q, &t, out);
  else
    diag_at(d, NULL, NULL, q->graph->values[v].name);
  arena_free(&scratch);
  return status;
}

static enum status test_operand(struct quantising *q, int v, struct diag *d) {
  if (q->tested[v])
    return STATUS_OK;
  q->tested[v] = true;
  struct operand_plan *out = arena_alloc(q->arena, sizeof *out);
  *out = (struct operand_plan){0};
  q->scaled[v] = out;
  Onnx__TensorProto *constant = graph_constant(q->graph, v);
  if (constant)
    return test_constant(q, v, constant, out, &q->reasons[v], d);
  q->reasons[v] = test_seen(q, v, out);
  return STATUS_OK;
}

static bool is_promoted(const struct quantising *q, const struct node *node) {
  const struct promotions *promoted = q->fits->promotions;
  return promoted && promoted->wide_operands && node->outputs[0] >= 0 &&
         promoted->wide_operands[node->outputs[0]];
}

// Why product n may not read its operands narrow; the value that decided, or -1.
static enum status test_product(struct quantising *q, int n, enum reason *why, int *culprit,
                                struct diag *d) {
  const struct node *node = &q->graph->nodes[n];
  *culprit = -1;
  *why = REASON_NONE;
  if (!quantise_available(q->graph, node->scope, q->rule->format))
    *why = REASON_SCHEMA;
  else if (is_promoted(q, node))
    *why = REASON_PROMOTED;
  for (int k = 0; k < 2 && *why == REASON_NONE; k++) {
    int v = k < node->n_inputs ? node->inputs[k] : -1;
    if (v < 0 || !graph_is_fp32(q->graph, v)) {
      *why = REASON_NOT_FLOAT;
      break;
    }
    TRY(test_operand(q, v, d));
    *why = q->reasons[v];
    if (*why == REASON_NONE &&
        !(quantise_scale_exact(q->graph, q->plan, n, k, q->scaled[v]->scale_log2) &&
          quantise_stays_finite(q->plan, n, k, q->scaled[v])))
      *why = REASON_OVERFLOW;
    *culprit = v;
  }
  return STATUS_OK;
}

// ---- the cut ----

// A product is on the source side if its operands are narrow. It then needs the QuantizeLinears of
// its operands; and a Cast is saved where all that read a value in a format read it narrow.
struct cutting {
  struct quantising *q;
  struct mincut cut;
  int *vars;  // by node: of the cut, or -1
  int scale;
};

static int64_t fixed_point(const struct cutting *s, double cost) {
  return (int64_t)llround(ldexp(cost, s->scale));
}

static double cost_as(const struct quantising *q, int n, bool narrow_operands) {
  q->plan->nodes[n].narrow_operands = narrow_operands;
  double time = costs_node(q->costs, q->plan, n).time;
  q->plan->nodes[n].narrow_operands = false;
  return time;
}

static bool is_choice(const struct cutting *s, const struct use *use) {
  return use->node >= 0 && s->vars[use->node] >= 0 &&
         product_operand(&s->q->graph->nodes[use->node], use->index);
}

// The formats besides the stored one that v must be had in whatever the cut decides.
static uint32_t fixed_formats(const struct cutting *s, int v) {
  const struct value *value = &s->q->graph->values[v];
  uint32_t fixed = 0;
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    enum format_id f = use->node < 0
                           ? FORMAT_FP32
                           : plan_input_format(s->q->graph, s->q->plan, use->node, use->index);
    if (!is_choice(s, use) && f != FORMAT_COUNT)
      fixed |= 1u << f;
  }
  return fixed;
}

static void add_value(struct cutting *s, int v) {
  struct quantising *q = s->q;
  const struct value *value = &q->graph->values[v];
  if (!q->tested[v] || graph_is_constant(q->graph, v))
    return;
  enum format_id stored = plan_stored_format(q->graph, q->plan, v);
  uint32_t fixed = fixed_formats(s, v) | 1u << stored;
  int quantise = mincut_add_node(&s->cut), casts[FORMAT_COUNT] = {0};
  mincut_add_cost(&s->cut, quantise,
                  fixed_point(s, costs_cast(q->costs, v, stored, q->rule->format)), 0);
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (!is_choice(s, use))
      continue;
    int reader = s->vars[use->node];
    mincut_add_edge(&s->cut, reader, quantise, MINCUT_INFINITE);
    enum format_id f = plan_input_format(q->graph, q->plan, use->node, use->index);
    if (fixed >> f & 1)
      continue;
    if (!casts[f]) {
      casts[f] = mincut_add_node(&s->cut);
      mincut_add_cost(&s->cut, casts[f], 0, fixed_point(s, costs_cast(q->costs, v, stored, f)));
    }
    mincut_add_edge(&s->cut, casts[f], reader, MINCUT_INFINITE);
  }
}

static void add_products(struct cutting *s, const bool *able) {
  struct quantising *q = s->q;
  double total = 0;
  size_t nodes = (size_t)q->plan->n_nodes;
  double(*costs)[2] = arena_array(s->cut.arena, nodes, sizeof *costs);
  s->vars = arena_array(s->cut.arena, nodes, sizeof *s->vars);
  for (int n = 0; n < q->plan->n_nodes; n++) {
    s->vars[n] = able[n] ? mincut_add_node(&s->cut) : -1;
    if (!able[n])
      continue;
    costs[n][0] = cost_as(q, n, true);
    costs[n][1] = cost_as(q, n, false);
    total += costs[n][0] + costs[n][1];
  }
  for (int v = 0; v < q->plan->n_values; v++)
    if (q->tested[v])
      total += (double)FORMAT_COUNT * costs_cast(q->costs, v, FORMAT_FP32, FORMAT_FP64);
  s->scale = mincut_scale(total);
  for (int n = 0; n < q->plan->n_nodes; n++)
    if (able[n])
      mincut_add_cost(&s->cut, s->vars[n], fixed_point(s, costs[n][0]),
                      fixed_point(s, costs[n][1]));
}

static void choose(struct quantising *q, const bool *able) {
  struct arena scratch = {0};
  struct cutting s = {.q = q};
  mincut_init(&s.cut, &scratch);
  add_products(&s, able);
  for (int v = 0; v < q->plan->n_values; v++)
    add_value(&s, v);
  bool *narrow = arena_array(&scratch, (size_t)s.cut.n_nodes, sizeof *narrow);
  mincut_solve(&s.cut, narrow);
  for (int n = 0; n < q->plan->n_nodes; n++) {
    struct node_plan *node = &q->plan->nodes[n];
    if (!able[n])
      continue;
    node->narrow_operands = narrow[s.vars[n]];
    node->operands_reason = node->narrow_operands ? REASON_NONE : REASON_BOUNDARY;
    for (int k = 0; k < 2 && node->narrow_operands; k++) {
      int v = q->graph->nodes[n].inputs[k];
      q->plan->values[v].operand = q->scaled[v];
    }
  }
  arena_free(&scratch);
}

enum status quantise_operands(struct plan *p, const struct costs *c, const struct fits *fits,
                              struct diag *d) {
  size_t values = (size_t)p->n_values;
  struct arena *a = fits->arena;
  struct quantising q = {
      .plan = p,
      .graph = fits->graph,
      .costs = c,
      .fits = fits,
      .rule = &fits->policy->operands,
      .arena = a,
      .tested = arena_array(a, values, sizeof *q.tested),
      .reasons = arena_array(a, values, sizeof *q.reasons),
      .scaled = arena_array(a, values, sizeof *q.scaled),
  };
  bool *able = arena_array(a, (size_t)p->n_nodes, sizeof *able);
  quantise_scale_range(p, &q.least_scale, &q.most_scale);
  for (int n = 0; n < p->n_nodes; n++) {
    struct node_plan *node = &p->nodes[n];
    if (!node->product)
      continue;
    TRY(test_product(&q, n, &node->operands_reason, &node->operands_value, d));
    able[n] = node->operands_reason == REASON_NONE;
    if (able[n])
      node->operands_value = -1;
  }
  choose(&q, able);
  return STATUS_OK;
}
