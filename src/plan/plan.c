// Decides the plan: classes from the policy's rules, what each node may run in from the tests of
// its values and from the operator's schema (plan_allow.c), then formats for all nodes at once
// (plan_assign.c), then formats for all values. A pure function; plan_make reads like the table of
// contents.
#include "plan.h"

#include "file.h"
#include "plan_allow.h"
#include "plan_assign.h"
#include "plan_engine.h"
#include "plan_quantise.h"
#include "plan_scale.h"
#include "plan_training.h"
#include "plan_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool plan_is_identity(const struct plan *p) {
  for (int n = 0; n < p->n_nodes; n++)
    if (p->nodes[n].format != FORMAT_FP32 || p->nodes[n].narrow_operands)
      return false;
  for (int v = 0; v < p->n_values; v++)
    if (p->values[v].considered && p->values[v].format != FORMAT_FP32)
      return false;
  return true;
}

// ---- classes ----

static const char **touched_names(const struct planner *pl, const struct node *node, int *count,
                                  const char **fixed, int fixed_size) {
  int total = node->n_inputs + node->n_outputs;
  const char **names =
      total <= fixed_size ? fixed : arena_array(pl->arena, (size_t)total, sizeof *names);
  *count = 0;
  for (int k = 0; k < node->n_inputs; k++)
    if (node->inputs[k] >= 0)
      names[(*count)++] = pl->graph->values[node->inputs[k]].name;
  for (int k = 0; k < node->n_outputs; k++)
    if (node->outputs[k] >= 0)
      names[(*count)++] = pl->graph->values[node->outputs[k]].name;
  return names;
}

// Whether the node takes its sums in fp32 by the operator's definition: stash_type says so, from
// the version of the operator on that has it, unless it is set to something else.
static bool sums_in_fp32(const struct node *node) {
  static const struct {
    const char *op;
    int since;
  } stashing[] = {{"LayerNormalization", 17},
                  {"GroupNormalization", 21},
                  {"RMSNormalization", 23},
                  {"SimplifiedLayerNormalization", 1}};
  for (size_t i = 0; i < sizeof stashing / sizeof stashing[0]; i++)
    if (node_is(node, stashing[i].op) && node->schema && node->schema->since >= stashing[i].since) {
      const Onnx__AttributeProto *stash = node_attribute(node->proto, "stash_type");
      bool is_fp32 = !stash || stash->i == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
      return is_fp32 && !(stash && stash->ref_attr_name && stash->ref_attr_name[0]);
    }
  return false;
}

static void classify(struct planner *pl, int n) {
  enum { USUAL_NAMES = 16 };
  const struct node *node = &pl->graph->nodes[n];
  struct node_plan *out = &pl->plan->nodes[n];
  const char *fixed[USUAL_NAMES];
  struct rule_subject subject = {
      .domain = node->proto->domain ? node->proto->domain : "",
      .op = node->proto->op_type,
      .node = graph_node_label(pl->graph, n),
      .scope = pl->graph->scopes[node->scope].path,
      .pattern = pl->patterns.kind[n],
      .sums_in_fp32 = sums_in_fp32(node),
  };
  for (int k = 0; k < node->n_inputs && k < 64; k++)
    if (node->inputs[k] >= 0 && graph_constant(pl->graph, node->inputs[k]))
      subject.constant_inputs |= 1ull << k;
  subject.tensors = touched_names(pl, node, &subject.n_tensors, fixed, USUAL_NAMES);
  const struct rule *rule = policy_match(pl->policy, &subject);
  enum node_class class = rule ? rule->class : CLASS_KEEP;
  bool is_cast = node_is(node, "Cast") || node_is(node, "CastLike");
  if (is_cast && class == CLASS_KEEP && !pl->policy->keep_author_casts)
    class = CLASS_FOLLOW;
  *out = (struct node_plan){
      .class = class,
      .rule = rule,
      .rule_id = rule ? rule->id : "",
      .pattern = pl->patterns.kind[n],
      .format = FORMAT_FP32,
      .reason_value = -1,
      .reason_format = pl->policy->ladder[0],
      .operands_value = -1,
  };
}

// ---- patterns ----

// Whether a rule for patterns decided about the node, as one part of a whole.
static bool in_ruled_pattern(const struct planner *pl, int n) {
  const struct node_plan *node = &pl->plan->nodes[n];
  return node->rule && node->rule->patterns && plan_decides(node);
}

// A pattern that a rule gives a class runs as a whole: none of its nodes may run in a format in
// which another may not.
static void unite_patterns(struct planner *pl) {
  int n_nodes = pl->graph->n_nodes;
  uint8_t *missing = arena_array(pl->arena, (size_t)n_nodes, sizeof *missing);  // by end
  int *culprit = arena_array(pl->arena, (size_t)n_nodes, sizeof *culprit);      // by end
  for (int n = 0; n < n_nodes; n++) {
    int end = in_ruled_pattern(pl, n) ? pl->patterns.end[n] : -1;
    if (end < 0 || (missing[end] | (uint8_t)~pl->allowed[n]) == missing[end])
      continue;
    missing[end] |= (uint8_t)~pl->allowed[n];
    culprit[end] = pl->plan->nodes[n].reason_value;
  }
  for (int n = 0; n < n_nodes; n++) {
    int end = in_ruled_pattern(pl, n) ? pl->patterns.end[n] : -1;
    if (end < 0 || !(pl->allowed[n] & missing[end]))
      continue;
    pl->allowed[n] &= (uint8_t)~missing[end];
    struct node_plan *node = &pl->plan->nodes[n];
    if (node->reason != REASON_NONE)
      continue;
    node->reason = REASON_PATTERN;
    node->reason_value = culprit[end];
  }
}

// ---- overrides ----

// Takes the place of what rules and tests say of node n. Says what speaks against it, or NULL.
static enum status override_node(struct planner *pl, int n, const struct override *o,
                                 const struct rule *rule, const char **against, struct diag *d) {
  struct node_plan *out = &pl->plan->nodes[n];
  int rung = 0, culprit;
  enum reason why = allow_reason(pl, n);
  while (pl->policy->ladder[rung] != o->format)
    rung++;
  bool narrow = o->format != FORMAT_FP32;
  if (narrow && (why == REASON_NONE || why == REASON_CLASS || why == REASON_KEPT))
    TRY(allow_test(pl, n, rung, &why, &culprit, d));
  *against = narrow && why != REASON_NONE ? reason_text(why) : NULL;
  *out = (struct node_plan){
      .class = rule->class,
      .rule = rule,
      .rule_id = rule->id,
      .overridden = true,
      .scale_overridden = narrow && o->has_scale,
      .scale_wanted = o->scale_log2,
      .reason = narrow ? REASON_NONE : REASON_OVERRIDE,
      .reason_value = -1,
      .reason_format = pl->policy->ladder[0],
      .format = FORMAT_FP32,
  };
  pl->any_scaled = pl->any_scaled || pl->plan->nodes[n].scale_overridden;
  pl->allowed[n] = (uint8_t)(1u << rung | 1u << (pl->policy->n_ladder - 1));
  return narrow ? allow_wide_variables(pl, n, d) : STATUS_OK;
}

// The rules of the overrides, in their order, in front of those of the policy.
static struct rule *join_rules(struct planner *pl, const struct overrides *o) {
  size_t own = (size_t)pl->policy->n_rules, count = (size_t)o->count;
  struct rule *rules = arena_array(pl->arena, count + own, sizeof *rules);
  for (size_t i = 0; i < count; i++)
    rules[i] = override_rule(&o->list[i], pl->arena);
  if (own > 0)
    memcpy(rules + count, pl->policy->rules, own * sizeof *rules);
  pl->plan->rules = rules;
  pl->plan->n_rules = (int)(own + count);
  return rules;
}

// What rules and tests had against overrides is said once for each.
static enum status apply_overrides(struct planner *pl, struct diag *d) {
  const struct overrides *o = pl->policy->overrides;
  const struct override **by_node;
  if (!o)
    return STATUS_OK;
  TRY(overrides_match(o, pl->graph, pl->policy, &by_node, pl->arena, d));
  const struct rule *rules = join_rules(pl, o);
  bool *warned = arena_array(pl->arena, (size_t)o->count, sizeof *warned);
  for (int n = 0; n < pl->graph->n_nodes; n++) {
    if (!by_node[n])
      continue;
    ptrdiff_t i = by_node[n] - o->list;
    const char *against;
    TRY(override_node(pl, n, by_node[n], &rules[i], &against, d));
    if (against && !warned[i])
      diag_warn(d, "override %s: node %s would be fp32 without it: %s", by_node[n]->glob,
                graph_node_label(pl->graph, n), against);
    warned[i] = warned[i] || against;
  }
  return STATUS_OK;
}

// ---- formats of values ----

static void plan_value_formats(struct planner *pl) {
  for (int v = 0; v < pl->graph->n_values; v++) {
    struct value_plan *out = &pl->plan->values[v];
    out->considered = graph_is_fp32(pl->graph, v);
    out->format = out->considered ? plan_stored_format(pl->graph, pl->plan, v) : FORMAT_FP32;
  }
}

static int rung_of(const struct plan *p, enum format_id f) {
  for (int r = 0; r < p->n_ladder; r++)
    if (p->ladder[r] == f)
      return r;
  return 0;
}

// Records what the windows asked for in the format that the value has, or else would like.
static void record_windows(struct planner *pl, int v) {
  struct value_plan *out = &pl->plan->values[v];
  if (graph_constant(pl->graph, v) || !pl->fits.trace || !pl->policy->scales.use ||
      (out->scale_log2 == 0 && out->fit.reason != REASON_UNSTABLE))
    return;
  const struct stats *s = &pl->fits.trace->stats[v];
  int *scales = arena_array(pl->arena, s->n_windows, sizeof *scales);
  enum format_id f = out->format == FORMAT_FP32 ? pl->policy->ladder[0] : out->format;
  out->scale_moves = scale_over_windows(s, f, &pl->policy->scales, scales).moves;
  out->window_scales = scales;
  out->n_windows = s->n_windows;
}

// The fit that the plan shows is that of the most wanted format, or of the stored one at its scale.
static enum status plan_value(struct planner *pl, int v, struct diag *d) {
  struct plan *p = pl->plan;
  struct value_plan *out = &p->values[v];
  if (!out->considered)
    return STATUS_OK;
  out->scale_log2 = plan_stored_scale(pl->graph, p, v);
  int r = out->scale_log2 ? rung_of(p, out->format) : 0;
  TRY(fits_test_scaled(&pl->fits, v, r, out->scale_log2, &out->fit, d));
  record_windows(pl, v);
  return STATUS_OK;
}

// ---- provenance ----

static void record_provenance(struct plan *p, const struct graph *g, const struct trace *t,
                              const struct policy *policy, struct arena *a) {
  memcpy(p->model_sha256, g->model->sha256, sizeof p->model_sha256);
  p->model_file = arena_strdup(a, file_base(g->model->path));
  p->raised_to = g->model->raised_to;
  p->policy_name = policy->name;
  p->policy_version = policy->version;
  memcpy(p->policy_sha256, policy->sha256, sizeof p->policy_sha256);
  p->adjustments = policy->adjustments;
  p->overrides = policy->overrides;
  memcpy(p->ladder, policy->ladder, sizeof p->ladder);
  p->n_ladder = policy->n_ladder;
  p->tf32 = policy->tf32;
  p->has_operand_format = policy->operands.wanted;
  p->operand_format = policy->operands.format;
  p->narrow_inputs = policy->narrow_inputs;
  p->narrow_outputs = policy->narrow_outputs;
  p->ftz = policy->ftz;
  p->constants = policy->constants;
  p->claims = policy->claims;
  p->rules = policy->rules;
  p->n_rules = policy->n_rules;
  p->thresholds = (struct plan_thresholds){
      .margin = policy->margin,
      .max_zero_fraction = policy->max_zero_fraction,
      .max_subnormal_fraction = policy->max_subnormal_fraction,
      .constant_max_zero_fraction = policy->constant_max_zero_fraction,
      .constant_max_subnormal_fraction = policy->constant_max_subnormal_fraction,
      .max_lost_fraction = policy->max_lost_fraction,
      .max_angle_step = policy->max_angle_step,
      .keep_integers = policy->keep_integers,
  };
  p->n_claims = policy->n_claims;
  p->hold_out = policy->hold_out;
  p->has_trace = t != NULL;
  if (!t)
    return;
  p->synthetic = t->synthetic;
  p->steps = t->steps;
  p->samples = t->samples;
  p->sample = t->sample;
  memcpy(p->samples_sha256, t->samples_sha256, sizeof p->samples_sha256);
}

// Formats, then scales; a node that no scale serves loses the format that it got, and it begins
// again. Each round takes something away, and after some the rest does without scales.
static enum status assign(struct planner *pl, const struct costs *costs, struct diag *d) {
  enum { MOST_ROUNDS = 8 };
  for (int round = 0;; round++) {
    assign_formats(pl->plan, pl->graph, pl->allowed, costs, pl->arena);
    plan_value_formats(pl);
    if (!pl->any_scaled)
      return STATUS_OK;
    bool changed;
    TRY(scale_assign(pl->plan, &pl->fits, pl->denied, &changed, d));
    if (!changed)
      return STATUS_OK;
    for (int n = 0; n < pl->graph->n_nodes; n++) {
      if (round >= MOST_ROUNDS)
        pl->denied[n] = UINT8_MAX;
      if (!pl->plan->nodes[n].overridden)
        TRY(allow_find(pl, n, d));
    }
    unite_patterns(pl);
  }
}

enum status plan_make(struct plan *p, struct graph *g, const struct trace *t,
                      const struct policy *policy, const struct promotions *promotions,
                      struct arena *a, struct diag *d) {
  *p = (struct plan){
      .values = arena_array(a, (size_t)g->n_values, sizeof *p->values),
      .nodes = arena_array(a, (size_t)g->n_nodes, sizeof *p->nodes),
      .n_values = g->n_values,
      .n_nodes = g->n_nodes,
      .promotions = promotions,
  };
  struct planner pl = {
      .plan = p,
      .graph = g,
      .policy = policy,
      .arena = a,
  };
  record_provenance(p, g, t, policy, a);
  fits_init(&pl.fits, g, t, policy, promotions, a);
  allow_init(&pl);
  patterns_find(&pl.patterns, g, a);
  for (int n = 0; n < g->n_nodes; n++)
    classify(&pl, n);
  plan_engine_faults_before(g, &pl.patterns, p->nodes, pl.before_fault);
  for (int n = 0; n < g->n_nodes; n++)
    TRY(allow_find(&pl, n, d));
  unite_patterns(&pl);
  TRY(apply_overrides(&pl, d));
  struct costs costs;
  costs_init(&costs, g, t, &policy->target, a);
  costs.scaled = pl.scaled;
  TRY(assign(&pl, &costs, d));
  if (policy->operands.wanted) {
    if (policy_is_weight_format(policy->operands.format))
      TRY(weights_in_blocks(p, &pl.fits, d));
    else
      TRY(quantise_operands(p, &costs, &pl.fits, d));
    plan_value_formats(&pl);
  }
  for (int v = 0; v < g->n_values; v++)
    TRY(plan_value(&pl, v, d));
  costs_sum(&costs, p, pl.allowed, a);
  steps_judge_weights(&pl.fits.steps, p, a);
  training_advise(p, g, t, policy, a);
  plan_find_headroom(p, g);
  return STATUS_OK;
}
