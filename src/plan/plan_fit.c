// The range test and the constants test of the plan: can this value be stored in that format? Both
// only measure; every threshold comes from the policy. See README.md here ("The rule",
// point 2).
#include "plan_fit.h"

#include "elementary.h"
#include "plan_quantise.h"
#include "round.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

// ---- probabilities ----

static bool moves_elements(const struct node *node) {
  static const char *const ops[] = {"Identity", "Dropout", "Reshape",  "Transpose",
                                    "Squeeze",  "Flatten", "Unsqueeze"};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    if (node_is(node, ops[i]))
      return true;
  return false;
}

static bool is_probability(const struct fits *f, const struct node *node, const bool *from) {
  return node_is(node, "Softmax") ||
         (moves_elements(node) && node->n_inputs > 0 && node->inputs[0] >= 0 &&
          from[node->inputs[0]] && graph_is_fp32(f->graph, node->inputs[0]));
}

static bool only_weighs(const struct fits *f, int v) {
  const struct value *value = &f->graph->values[v];
  for (int u = 0; u < value->n_uses; u++) {
    int reader = value->uses[u].node;
    const struct node *node = reader >= 0 ? &f->graph->nodes[reader] : NULL;
    int moved = node && node->n_outputs > 0 && moves_elements(node) ? node->outputs[0] : -1;
    bool weighs = moved >= 0 && f->weighs[moved];
    if (!node || !(is_product(node) || node_is(node, "Einsum") || weighs))
      return false;
  }
  return value->n_uses > 0;
}

// Finds what Softmax gives and only matrix products read: weights that sum to 1. Those that vanish
// weigh nothing, however many they are: masked ones are 1e-44, and a trained attention looks at few
// places.
static void find_weighs(struct fits *f) {
  const struct graph *g = f->graph;
  bool *from = arena_array(f->arena, (size_t)g->n_values, sizeof *from);
  f->weighs = arena_array(f->arena, (size_t)g->n_values, sizeof *f->weighs);
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++) {
      const struct node *node = &g->nodes[g->scopes[s].order[i]];
      if (node->n_outputs > 0 && node->outputs[0] >= 0)
        from[node->outputs[0]] = is_probability(f, node, from);
    }
  for (int s = g->n_scopes - 1; s >= 0; s--)
    for (int i = g->scopes[s].n_nodes - 1; i >= 0; i--) {
      const struct node *node = &g->nodes[g->scopes[s].order[i]];
      int v = node->n_outputs > 0 ? node->outputs[0] : -1;
      if (v >= 0 && from[v])
        f->weighs[v] = only_weighs(f, v);
    }
}

// Whether all that vanish of a row of weights add up to less than a step of the sum that they
// weigh: there are count over sum in a row, as the sum of each is 1.
static bool vanish_harmlessly(const struct stats *s, const struct format *f) {
  return (double)s->sampled * (f->min_subnormal / 2) <= s->positive.sum * f->eps;
}

void fits_init(struct fits *f, struct graph *g, const struct trace *t, const struct policy *policy,
               const struct promotions *promotions, struct arena *a) {
  size_t values = (size_t)g->n_values;
  *f = (struct fits){
      .graph = g,
      .trace = t,
      .policy = policy,
      .promotions = promotions,
      .arena = a,
      .known = arena_array(a, values, sizeof *f->known),
      .tested = arena_array(a, values * (size_t)policy->n_ladder, sizeof *f->tested),
  };
  steps_init(&f->steps, g, t, policy, a);
  resolution_find(&f->resolution, g, policy, a);
  find_weighs(f);
}

static bool representable_without_harm(const struct fit *fit, double max_zero, double max_subnormal,
                                       enum reason *why) {
  if (fit->zero_fraction > max_zero) {
    *why = REASON_ZERO;
    return false;
  }
  if (fit->subnormal_fraction > max_subnormal) {
    *why = REASON_SUBNORMAL;
    return false;
  }
  return true;
}

static struct fit range_test(const struct fits *f, int v, enum format_id format, int scale_log2) {
  const struct policy *policy = f->policy;
  struct fit fit = {.reason = REASON_NOT_SEEN};
  if (!f->trace || f->trace->stats[v].runs == 0)
    return fit;
  const struct stats *s = &f->trace->stats[v];
  struct stats_fit measured = stats_fit(s, format, scale_log2, policy->margin, policy->ftz);
  double lost = steps_lost(&f->steps, v, format);
  fit = (struct fit){
      .reason = REASON_NONE,
      .accumulates = lost >= 0,
      .lost_fraction = lost >= 0 ? lost : 0,
      .absmax = (double)stats_absmax(s),
      .headroom = measured.headroom,
      .zero_fraction = measured.zero_fraction,
      .subnormal_fraction = measured.subnormal_fraction,
      .sqnr_db = measured.sqnr_db,
  };
  bool harmless = f->weighs[v] && !policy->ftz && vanish_harmlessly(s, &formats[format]);
  if (s->nans > 0)
    fit.reason = REASON_NONFINITE;
  else if (measured.overflows)
    fit.reason = REASON_OVERFLOW;
  else if ((harmless || representable_without_harm(&fit, policy->max_zero_fraction,
                                                   policy->max_subnormal_fraction, &fit.reason)) &&
           steps_forbid(&f->steps, lost))
    fit.reason = REASON_STEP;
  if (fit.reason == REASON_NONE && !resolution_kept(&f->resolution, v, format, fit.absmax))
    fit.reason = REASON_RESOLUTION;
  return fit;
}

// ---- constants ----

// Inputs at which an operator adds a bias to sums of its own.
static const struct bias {
  const char *domain, *op;
  int input;
} biases[] = {
    {"", "Conv", 2},
    {"", "ConvTranspose", 2},
    {"", "Gemm", 2},
    {"", "BatchNormalization", 2},
    {"", "LayerNormalization", 2},
    {"", "GroupNormalization", 2},
    {"", "InstanceNormalization", 2},
    {"com.microsoft", "FusedConv", 2},
    {"com.microsoft", "NhwcFusedConv", 2},
    {"com.microsoft", "FusedGemm", 2},
    {"com.microsoft", "BiasAdd", 1},
    {"com.microsoft", "BiasGelu", 1},
    {"com.microsoft", "FastGelu", 1},
    {"com.microsoft", "Attention", 2},
    {"com.microsoft", "MultiHeadAttention", 3},
};

static bool is_bias(const struct node *node, int k) {
  for (size_t i = 0; i < sizeof biases / sizeof biases[0]; i++)
    if (k == biases[i].input && strcmp(node->proto->op_type, biases[i].op) == 0 &&
        strcmp(node->schema ? node->schema->domain : "", biases[i].domain) == 0)
      return true;
  return false;
}

static bool is_term(const struct node *node) {
  return node_is(node, "Add") || node_is(node, "Sub") || node_is(node, "Sum");
}

// True if constant v is only ever added. What a format then loses of it below the normal range is
// less than the step that it rounds any sum to, so the test of the sum covers it; a bias of 1e-8 to
// results of about 1 is noise in fp32 already. One that is a `single` value may be an epsilon,
// which guards against a sum of zero that no sample need show: it counts only as an operator's
// bias.
static bool only_added(const struct graph *g, int v, bool single) {
  const struct value *value = &g->values[v];
  for (int u = 0; u < value->n_uses; u++) {
    const struct node *reader = value->uses[u].node >= 0 ? &g->nodes[value->uses[u].node] : NULL;
    if (!reader || !(is_bias(reader, value->uses[u].index) || (is_term(reader) && !single)))
      return false;
  }
  return value->n_uses > 0;
}

// Counts over every element of a constant, in blocks so that a large one needs no copy of itself.
struct constant_count {
  struct round_count rounded;
  uint64_t finite_nonzero;
  float absmax, least, most;
  double signal, noise;  // sums of squares of values and of rounding errors
};

static void count_block(struct constant_count *c, const struct round_mode *mode, const float *x,
                        float *scratch, size_t n) {
  round_count_array(mode, x, n, &c->rounded);
  round_array(mode, x, scratch, n);
  for (size_t i = 0; i < n; i++) {
    float magnitude = fabsf(x[i]);
    c->least = x[i] < c->least ? x[i] : c->least;
    c->most = x[i] > c->most ? x[i] : c->most;
    if (!(magnitude > 0) || isinf(magnitude))
      continue;
    c->finite_nonzero++;
    c->absmax = magnitude > c->absmax ? magnitude : c->absmax;
    double error = (double)scratch[i] - (double)x[i];
    c->signal += (double)x[i] * (double)x[i];
    c->noise += isfinite(error) ? error * error : 0;
  }
}

static enum status count_constant(const struct fits *f, int v, enum format_id format,
                                  int scale_log2, Onnx__TensorProto *proto,
                                  struct constant_count *c, struct diag *d) {
  float scratch[TENSOR_BLOCK];
  struct round_mode mode = {
      .format = &formats[format], .ftz = f->policy->ftz, .scale_log2 = scale_log2};
  struct tensor t;
  struct arena temporary = {0};
  enum status status = tensor_read(f->graph->model, proto, &temporary, &t, d);
  struct tensor_blocks b;
  tensor_begin(&b, f->graph->model, &t);
  while (status == STATUS_OK && tensor_next(&b))
    count_block(c, &mode, b.x, scratch, b.n);
  arena_free(&temporary);
  if (status != STATUS_OK)
    diag_at(d, NULL, NULL, f->graph->values[v].name);
  return status;
}

// What a constant loses to a scale that it is given is held against it as what an activation loses,
// unless it loses as much without.
static bool is_worse(const struct policy *policy, const struct fit *scaled,
                     const struct fit *plain) {
  return scaled->zero_fraction > fmax(policy->max_zero_fraction, plain->zero_fraction) ||
         scaled->subnormal_fraction >
             fmax(policy->max_subnormal_fraction, plain->subnormal_fraction);
}

// The test of a constant at a scale; `plain` is that of the same without one, NULL if this is it.
static enum status constants_test(const struct fits *f, int v, enum format_id format,
                                  int scale_log2, Onnx__TensorProto *proto, const struct fit *plain,
                                  struct fit *fit, struct diag *d) {
  const struct policy *policy = f->policy;
  struct constant_count c = {.least = INFINITY, .most = -INFINITY};
  TRY(count_constant(f, v, format, scale_log2, proto, &c, d));
  double total = c.finite_nonzero ? (double)c.finite_nonzero : 1;
  *fit = (struct fit){
      .reason = REASON_NONE,
      .absmax = (double)c.absmax,
      .headroom =
          c.absmax > 0 ? formats[format].max / ldexp((double)c.absmax, scale_log2) : INFINITY,
      .zero_fraction = (double)c.rounded.zero / total,
      .subnormal_fraction = (double)c.rounded.subnormal / total,
      .sqnr_db = c.noise > 0 ? elementary_decibels(c.signal / c.noise) : INFINITY,
  };
  enum reason ignored;
  bool added = !policy->ftz && only_added(f->graph, v, !(c.least < c.most));
  bool harmless =
      added || (representable_without_harm(fit, policy->constant_max_zero_fraction,
                                           policy->constant_max_subnormal_fraction, &ignored) &&
                !(plain && is_worse(policy, fit, plain)));
  bool overflow_allowed = policy->constants != CONSTANTS_KEEP_WIDE;
  if (!harmless || (c.rounded.overflow > 0 && !overflow_allowed))
    fit->reason = REASON_CONSTANT;
  return STATUS_OK;
}

static bool is_of_range(enum reason r) {
  return r == REASON_OVERFLOW || r == REASON_ZERO || r == REASON_SUBNORMAL || r == REASON_CONSTANT;
}

// What the windows of v, which is no constant, ask for in rung r.
static struct scale_track track_windows(const struct fits *f, int v, int r) {
  if (!f->trace || f->trace->stats[v].runs == 0)
    return (struct scale_track){0};
  return scale_over_windows(&f->trace->stats[v], f->policy->ladder[r], &f->policy->scales, NULL);
}

enum status fits_test_scaled(struct fits *f, int v, int r, int scale_log2, struct fit *fit,
                             struct diag *d) {
  enum format_id format = f->policy->ladder[r];
  Onnx__TensorProto *constant = graph_constant(f->graph, v);
  if (scale_log2 == 0) {
    const struct fit *known;
    TRY(fits_test(f, v, r, &known, d));
    *fit = *known;
    return STATUS_OK;
  }
  if (constant) {
    const struct fit *plain;
    TRY(fits_test(f, v, r, &plain, d));
    TRY(constants_test(f, v, format, scale_log2, constant, plain, fit, d));
  } else {
    *fit = range_test(f, v, format, scale_log2);
  }
  if (f->promotions && f->promotions->rung && r < f->promotions->rung[v])
    fit->reason = REASON_PROMOTED;
  return STATUS_OK;
}

enum status fits_scale(struct fits *f, int v, int r, int *scale_log2, struct diag *d) {
  const struct fit *plain;
  TRY(fits_test(f, v, r, &plain, d));
  *scale_log2 = 0;
  if (!f->policy->scales.use || !is_of_range(plain->reason))
    return STATUS_OK;
  int scale = 0;
  if (graph_constant(f->graph, v)) {
    if (plain->absmax > 0)
      scale = scale_of_range(plain->absmax, 1, f->policy->ladder[r]);
  } else {
    scale = track_windows(f, v, r).scale_log2;
  }
  struct fit fit;
  TRY(fits_test_scaled(f, v, r, scale, &fit, d));
  *scale_log2 = fit.reason == REASON_NONE ? scale : 0;
  return STATUS_OK;
}

static enum status test_value(struct fits *f, int v, int r, struct fit *fit, struct diag *d) {
  enum format_id format = f->policy->ladder[r];
  Onnx__TensorProto *constant = graph_constant(f->graph, v);
  if (constant)
    TRY(constants_test(f, v, format, 0, constant, NULL, fit, d));
  else
    *fit = range_test(f, v, format, 0);
  if (!constant && f->policy->scales.use && is_of_range(fit->reason) &&
      track_windows(f, v, r).unstable)
    fit->reason = REASON_UNSTABLE;
  if (f->promotions && f->promotions->rung && r < f->promotions->rung[v])
    fit->reason = REASON_PROMOTED;
  if (format == FORMAT_FP32)
    fit->reason = REASON_NONE;
  return STATUS_OK;
}

enum status fits_test(struct fits *f, int v, int r, const struct fit **result, struct diag *d) {
  size_t rungs = (size_t)f->policy->n_ladder;
  if (!f->known[v])
    f->known[v] = arena_array(f->arena, rungs, sizeof **f->known);
  *result = &f->known[v][r];
  bool *tested = &f->tested[(size_t)v * rungs + (size_t)r];
  if (*tested)
    return STATUS_OK;
  *tested = true;
  return test_value(f, v, r, &f->known[v][r], d);
}
