// Counts over plan and verdict, once, and two ways to print them. See summary.h.
#include "summary.h"

#include "decisions.h"
#include "escape.h"
#include "file.h"
#include "json.h"
#include "plan_cost.h"
#include "plan_limits.h"
#include "plan_worth.h"
#include "summary_loads.h"
#include "units.h"
#include "verdict_drawbacks.h"
#include "verdict_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Numbers of a plan that both forms print.
struct counts {
  int float_nodes, narrow_nodes;
  int by_format[FORMAT_COUNT];
  int operands_alone;           // of those in fp32: they read narrow operands
  int by_reason[REASON_COUNT];  // of the float nodes that stay fp32
  int float_values, not_seen;
  int products, narrow_products;         // those that may read narrow operands, and that do
  int by_operands_reason[REASON_COUNT];  // of the other products
  int operands;                          // values read in the operand format
  double headroom;                       // factor by which they may grow before the first saturates
  int headroom_value;
};

static struct counts count_plan(const struct plan *p) {
  struct counts c = {.headroom = INFINITY, .headroom_value = -1};
  for (int n = 0; n < p->n_nodes; n++) {
    const struct node_plan *node = &p->nodes[n];
    if (!plan_decides(node))
      continue;
    c.float_nodes++;
    c.by_format[node->format]++;
    c.operands_alone += node->format == FORMAT_FP32 && node->narrow_operands;
    if (node->format != FORMAT_FP32 || node->narrow_operands)
      c.narrow_nodes++;
    else
      c.by_reason[node->reason]++;
    c.products += node->product;
    c.narrow_products += node->narrow_operands;
    c.by_operands_reason[node->operands_reason] += node->product && !node->narrow_operands;
  }
  for (int v = 0; v < p->n_values; v++) {
    c.float_values += p->values[v].considered;
    c.not_seen += p->values[v].considered && p->values[v].fit.reason == REASON_NOT_SEEN;
    const struct operand_plan *operand = p->values[v].operand;
    c.operands += operand != NULL;
    if (operand && operand->headroom < c.headroom) {
      c.headroom = operand->headroom;
      c.headroom_value = v;
    }
  }
  return c;
}

// ---- text ----

static void print_bytes(FILE *out, double bytes) {
  char text[UNITS_TEXT];
  fputs(units_bytes(bytes, text), out);
}

static void print_overrides(const struct plan *p, FILE *out) {
  if (!p->overrides)
    return;
  int decided = 0;
  for (int n = 0; n < p->n_nodes; n++)
    decided += strncmp(p->nodes[n].rule_id, "override ", strlen("override ")) == 0;
  escape_printf(out, "overrides    %d of %s decide for %d node%s\n", p->overrides->count,
                p->overrides->file, decided, PLURAL(decided));
}

static void print_held_out(const struct run *r, FILE *out) {
  if (r->held_out_apart)
    escape_printf(out, "; %zu more held out", r->n_held_out);
  else
    escape_printf(out, "; none held out, so it serves for the verdict too");
}

static void print_calibration(const struct run *r, FILE *out) {
  const struct plan *p = &r->plan;
  if (!p->has_trace || p->steps == 0) {  // a trace of checkpoints alone has no steps
    escape_printf(out,
                  "calibration  none: every tensor that is not a constant counts as not seen\n");
    return;
  }
  escape_printf(out, "calibration  %zu %s sample%s", p->steps, p->synthetic ? "made-up" : "real",
                PLURAL(p->steps));
  if (r->n_held_out && r->has_trace && !r->settings->trace)
    print_held_out(r, out);
  if (r->trace.seconds > 0)
    escape_printf(out, "; traced in %.2f s", r->trace.seconds);
  escape_printf(out, "\n");
}

// To which opset the model would have to be raised for the nodes that only the schema keeps wide,
// or for those of them that any would do for.
static void print_wanted_opset(const struct plan *p, int kept, FILE *out) {
  int wanted = 0, freed = 0;
  for (int n = 0; n < p->n_nodes; n++) {
    const struct node_plan *node = &p->nodes[n];
    if (node->reason != REASON_SCHEMA || !node->opset_needed)
      continue;
    freed += node->format == FORMAT_FP32;
    wanted = node->opset_needed > wanted ? node->opset_needed : wanted;
  }
  if (freed >= kept)
    escape_printf(out, " (--raise-opset %d would do)", wanted);
  else if (freed > 0)
    escape_printf(out, " (--raise-opset %d would do for %d of them)", wanted, freed);
}

// Why a model has nothing to narrow: its tensors are of other types.
static void print_no_float(const struct graph *g, FILE *out) {
  static const struct {
    int type;
    const char *text;
  } others[] = {{ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, "are fp16 already"},
                {ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16, "are bf16 already"},
                {ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE, "are fp64, which is left alone"}};
  int counts[sizeof others / sizeof others[0]] = {0}, any = 0;
  for (int v = 0; v < g->n_values; v++)
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
      counts[k] += g->values[v].type.elem_type == others[k].type;
  escape_printf(out, "             no node computes on fp32 tensors: ");
  for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
    if (counts[k])
      escape_printf(out, "%s%d %s", any++ ? ", " : "", counts[k], others[k].text);
  escape_printf(out, "%s\n", any ? "" : "there are none");
}

// Whether the plan was applied, and not only made.
static bool was_applied(const struct run *r) {
  return r->emitted.proto;
}

static void print_opset(const struct run *r, FILE *out) {
  const struct plan *p = &r->plan;
  if (p->raised_to && (!was_applied(r) || !plan_is_identity(p)))
    escape_printf(out, "opset        raised to %d\n", p->raised_to);
  else if (p->raised_to)
    escape_printf(out, "opset        not raised: nothing is narrow at opset %d either\n",
                  p->raised_to);
  else if (r->settings->raise_opset)
    escape_printf(out, "opset        left at %d, which is not below %d\n",
                  graph_opset(&r->graph, 0, ""), r->settings->raise_opset);
}

static void print_formats(const struct plan *p, const struct counts *c, FILE *out) {
  escape_printf(out, "plan         %d of %d float nodes narrow", c->narrow_nodes, c->float_nodes);
  for (int i = 0; i < p->n_ladder; i++) {
    bool wide = p->ladder[i] == FORMAT_FP32;
    escape_printf(out, "%s %d %s", i ? "," : ":",
                  c->by_format[p->ladder[i]] - (wide ? c->operands_alone : 0),
                  formats[p->ladder[i]].name);
  }
  if (c->operands_alone)
    escape_printf(out, ", %d fp32 with operands in %s", c->operands_alone,
                  formats[p->operand_format].name);
  escape_printf(out, "\n");
  for (int k = 0; k < REASON_COUNT && !p->tf32; k++) {
    if (!c->by_reason[k])
      continue;
    escape_printf(out, "             %5d stay%s fp32: %s", c->by_reason[k],
                  c->by_reason[k] == 1 ? "s" : "", reason_text((enum reason)k));
    if (k == REASON_SCHEMA)
      print_wanted_opset(p, c->by_reason[k], out);
    escape_printf(out, "\n");
  }
}

static void print_weights_in_blocks(const struct plan *p, const struct counts *c, FILE *out) {
  uint64_t bytes = 0;
  int64_t longest = 0;
  for (int v = 0; v < p->n_values; v++) {
    const struct operand_plan *o = p->values[v].operand;
    bytes += o ? o->bytes : 0;
    longest = o && o->block_size > longest ? o->block_size : longest;
  }
  escape_printf(out,
                "operands     %d of %d matrix products read their weights in %s: %d weight%s of ",
                c->narrow_products, c->products, formats[p->operand_format].name, c->operands,
                PLURAL(c->operands));
  print_bytes(out, (double)bytes);
  if (longest)
    escape_printf(out, ",\n             with a scale for each block of up to %" PRId64, longest);
  escape_printf(out, "\n");
}

// Products that read their operands in 8 bits, or weights in 4, and why the others do not.
static void print_operands(const struct run *r, const struct counts *c, FILE *out) {
  const struct plan *p = &r->plan;
  if (!p->has_operand_format)
    return;
  const char *name = formats[p->operand_format].name;
  char growth[GROWTH_TEXT];
  bool weights = policy_is_weight_format(p->operand_format);
  if (weights)
    print_weights_in_blocks(p, c, out);
  else
    escape_printf(
        out, "operands     %d of %d matrix products read theirs in %s: %d tensor%s, a scale each\n",
        c->narrow_products, c->products, name, c->operands, PLURAL(c->operands));
  for (int k = 0; k < REASON_COUNT; k++)
    if (c->by_operands_reason[k])
      escape_printf(out, "             %5d do%s not: %s%s\n", c->by_operands_reason[k],
                    c->by_operands_reason[k] == 1 ? "es" : "", reason_text((enum reason)k),
                    k != REASON_SCHEMA ? ""
                    : weights          ? " (--raise-opset 23 would do)"
                                       : " (--raise-opset 19 would do)");
  if (c->headroom_value >= 0)
    escape_printf(out, "             %s may grow %s times before it saturates\n",
                  graph_value_label(&r->graph, c->headroom_value),
                  plan_growth_text(c->headroom, growth));
}

// Values, no constants, that are stored times a power of two.
static void print_scales(const struct plan *p, const struct graph *g, FILE *out) {
  int scaled = 0, least = 0, most = 0;
  for (int v = 0; v < p->n_values; v++) {
    int scale = p->values[v].scale_log2;
    if (scale == 0 || graph_is_constant(g, v))
      continue;
    least = scaled == 0 || scale < least ? scale : least;
    most = scaled == 0 || scale > most ? scale : most;
    scaled++;
  }
  if (scaled)
    escape_printf(out, "scales       %d tensor%s stored times a power of two, ", scaled,
                  PLURAL(scaled));
  if (scaled && least == most)
    escape_printf(out, "2^%d\n", least);
  else if (scaled)
    escape_printf(out, "2^%d to 2^%d\n", least, most);
}

static void print_seconds(FILE *out, double seconds) {
  char text[UNITS_TEXT];
  fputs(units_seconds(seconds, text), out);
}

static void print_model_of_costs(const struct plan *p, FILE *out) {
  const struct plan_costs *c = &p->costs;
  bool measured = p->has_trace && p->steps > 0;
  if (!c->target || !measured || p->tf32 || plan_is_identity(p))
    return;
  escape_printf(out, "modelled     for target %s: a run takes ", c->target);
  print_seconds(out, c->time_before);
  escape_printf(out, " -> ");
  print_seconds(out, c->time_after);
  if (c->time_casts > 0) {
    escape_printf(out, c->scale_nodes ? " (Casts and scale nodes " : " (Casts ");
    print_seconds(out, c->time_casts);
    escape_printf(out, ")");
  }
  char text[UNITS_TEXT];
  escape_printf(out, "; %s of the time cannot speed up", units_share(c->fixed_share, text));
  // At 100 nobody is held up by it; what prints as 1 is no speed-up.
  if (costs_most_speedup(c) < 100 && costs_most_speedup(c) >= 1.005)
    escape_printf(out, ": at most %s times faster", units_factor(costs_most_speedup(c), text));
  escape_printf(out, "\n");
  escape_printf(out, "             moves ");
  print_bytes(out, c->traffic_before);
  escape_printf(out, " -> ");
  print_bytes(out, c->traffic_after);
  escape_printf(out, "; writes activations of ");
  print_bytes(out, c->activations_before);
  escape_printf(out, " -> ");
  print_bytes(out, c->activations_after);
  escape_printf(out, "\n");
}

static void print_weights(const struct plan *p, FILE *out) {
  size_t copies = 0;
  for (size_t i = 0; i < p->n_weights; i++)
    copies += p->weights[i].master_copy;
  if (p->n_weights)
    escape_printf(out, "weights      %zu of %zu need a 32-bit master copy in training\n", copies,
                  p->n_weights);
}

static void print_loss_scale(const struct training_plan *t, FILE *out) {
  const char *format = formats[t->format].name;
  escape_printf(out, "             gradients from %.3g to %.3g: ", t->gradient_min,
                t->gradient_max);
  if (t->scales.first > t->scales.last)
    escape_printf(out, "no loss scale keeps both ends in %s\n", format);
  else if (t->scales.first <= 0 && t->scales.last >= 0)
    escape_printf(out, "%s holds them without a loss scale\n", format);
  else
    escape_printf(out, "loss scales from 2^%d to 2^%d keep them in %s; with the margin 2^%d\n",
                  t->scales.first, t->scales.last, format, t->scale_log2);
  escape_printf(
      out, "             a dynamic scale from 2^%d ends at 2^%d and skips %" PRIu64 " step%s\n",
      t->rule.start_log2, t->dynamic_log2, t->skipped, PLURAL(t->skipped));
}

static void print_training(const struct plan *p, FILE *out) {
  if (!p->training)
    return;
  escape_printf(out, "training     weights, gradients and optimizer in %s: ",
                formats[p->training->format].name);
  print_bytes(out, p->training->bytes_before);
  escape_printf(out, " -> ");
  print_bytes(out, p->training->bytes_after);
  escape_printf(out, "\n");
  if (p->training->n_gradients)
    print_loss_scale(p->training, out);
}

static void print_promotions(const struct run *r, FILE *out) {
  const struct promotions *p = r->plan.promotions;
  bool failed = r->has_verdict && !r->verdict.holds;
  if (r->promotion_failed)
    escape_printf(
        out, "promoted     nothing: with all that breaks the claims promoted, nothing would be "
             "narrow\n");
  else if (p && p->count) {
    int rounds = p->log[p->count - 1].round;
    escape_printf(out, "promoted     %zu tensor%s in %d round%s, %s\n", p->count, PLURAL(p->count),
                  rounds, PLURAL(rounds), failed ? "which is not enough" : "to meet the claims");
  } else if (failed && !r->plan.tf32 && r->plan.overrides && r->policy.promotion_rounds > 0)
    escape_printf(out, "promoted     nothing: overrides decide what breaks the claims\n");
}

static void print_plan(const struct run *r, FILE *out) {
  const struct plan *p = &r->plan;
  struct counts c = count_plan(p);
  char growth[GROWTH_TEXT];
  escape_printf(out, "policy       %s version %d", p->policy_name, p->policy_version);
  for (const char **o = p->adjustments; o && *o; o++)
    escape_printf(out, ", %s", *o);
  escape_printf(out, "\n");
  print_overrides(p, out);
  print_opset(r, out);
  print_calibration(r, out);
  print_formats(p, &c, out);
  if (c.float_nodes == 0)
    print_no_float(&r->graph, out);
  print_scales(p, &r->graph, out);
  print_operands(r, &c, out);
  if (p->tf32)
    escape_printf(out, "setting      tf32: set it in the runtime; here matrix products round their "
                       "operands to it\n");
  print_promotions(r, out);
  if (p->headroom_value >= 0)
    escape_printf(out, "headroom     %s may grow %s times before it leaves %s\n",
                  graph_value_label(&r->graph, p->headroom_value),
                  plan_growth_text(p->headroom, growth),
                  formats[p->values[p->headroom_value].format].name);
  print_model_of_costs(p, out);
  print_weights(p, out);
  print_training(p, out);
  if (r->has_trace && r->trace.nonfinite_value >= 0)
    escape_printf(out, "warning      the fp32 model itself is not finite: %s on %s\n",
                  graph_value_label(&r->graph, r->trace.nonfinite_value),
                  r->trace.nonfinite_sample);
}

static void print_quantised(const struct plan *p, const struct rewrite_report *report, FILE *out) {
  escape_printf(out, "%d QuantizeLinear, %d DequantizeLinear; %d weight%s of ", report->quantised,
                report->dequantised, report->weights, PLURAL(report->weights));
  print_bytes(out, (double)report->weight_bytes);
  escape_printf(out, " in %d bits;\n             ", formats[p->operand_format].bits);
}

static void print_cost(const struct run *r, FILE *out) {
  escape_printf(out, "cost         %d Cast%s ", r->rewrite.casts, PLURAL(r->rewrite.casts));
  if (r->rewrite.scale_nodes)
    escape_printf(out, "and %d scale node%s ", r->rewrite.scale_nodes,
                  PLURAL(r->rewrite.scale_nodes));
  escape_printf(out, "added; ");
  if (r->rewrite.dequantised)
    print_quantised(&r->plan, &r->rewrite, out);
  escape_printf(out, "constants ");
  print_bytes(out, (double)r->rewrite.bytes_before);
  escape_printf(out, " -> ");
  print_bytes(out, (double)r->rewrite.bytes_after);
  if (r->rewrite.saturated)
    escape_printf(out, "; %" PRIu64 " element%s out of range changed as the policy says",
                  r->rewrite.saturated, PLURAL(r->rewrite.saturated));
  escape_printf(out, "\n");
}

static bool is_worse(const struct verdict_claim *x, const struct verdict_claim *y) {
  return metric_wants_more(x->claim->metric) ? x->measured < y->measured
                                             : x->measured > y->measured;
}

// What decides, and in brackets what it is the worse of.
static void print_measured(const struct verdict *v, const struct verdict_claim *c, FILE *out) {
  bool calibrated = v->calibration_samples > 0, in_engine = !isnan(c->in_engine);
  escape_printf(out, "%.6g", c->measured);
  if (calibrated || in_engine)
    escape_printf(out, " (");
  if (calibrated)
    escape_printf(out, "held-out %.6g, calibration %.6g", c->on[SET_HELD_OUT],
                  c->on[SET_CALIBRATION]);
  if (in_engine)
    escape_printf(out, "%sengine %.6g", calibrated ? ", " : "", c->in_engine);
  if (calibrated || in_engine)
    escape_printf(out, ")");
}

static const char *limit_text(const struct claim *c) {
  return metric_wants_more(c->metric) ? "at least" : "at most";
}

static void print_claim_result(const struct verdict *v, const struct verdict_claim *c, FILE *out) {
  escape_printf(out, "  %s    %s of %s: ", c->holds ? "holds" : "FAILS",
                metric_name(c->claim->metric), c->output);
  if (c->shape_mismatches)
    escape_printf(out, "its shape differs from fp32 in %" PRIu64 " run%s\n", c->shape_mismatches,
                  PLURAL(c->shape_mismatches));
  else if (c->nothing_compared)
    escape_printf(out, "cannot be judged, the fp32 output is not finite anywhere\n");
  else {
    print_measured(v, c, out);
    escape_printf(out, ", %s %.6g%s%s\n", limit_text(c->claim), c->claim->limit,
                  c->holds ? "" : " was promised; worst on ", c->holds ? "" : c->sample);
  }
}

// Each output that fails a claim, and of those that hold it the worst.
static void print_claims(const struct verdict *v, FILE *out) {
  for (int i = 0; i < v->n_claims;) {
    const struct verdict_claim *first = &v->claims[i], *worst = NULL;
    int holding = 0;
    for (; i < v->n_claims && v->claims[i].claim == first->claim; i++) {
      const struct verdict_claim *c = &v->claims[i];
      if (!c->holds) {
        print_claim_result(v, c, out);
        continue;
      }
      holding++;
      worst = !worst || is_worse(c, worst) ? c : worst;
    }
    if (holding == 1)
      print_claim_result(v, worst, out);
    else if (holding > 1) {
      escape_printf(out, "  holds    %s of %d outputs: worst is %s with ",
                    metric_name(first->claim->metric), holding, worst->output);
      print_measured(v, worst, out);
      escape_printf(out, ", %s %.6g\n", limit_text(first->claim), first->claim->limit);
    }
  }
}

// Rows that were judged as such: a claim says how many have their like, and this which do not.
static void print_rows(const struct run *r, const struct verdict_rows *rows, FILE *out) {
  const struct row_counts *foremost = NULL;
  uint64_t reference = 0, narrow = 0, matched = 0, guessed = 0, moved = 0;
  for (int set = 0; set < SAMPLE_SETS; set++) {
    const struct row_counts *c = &rows->on[set];
    reference += c->reference;
    narrow += c->narrow;
    matched += c->matched;
    guessed += c->guessed;
    moved += c->moved;
    if (c->first_alone_sample && (!foremost || c->first_alone < foremost->first_alone))
      foremost = c;
  }
  char how[40] = "in both";
  if (guessed)
    snprintf(how, sizeof how, "alike within %g %%", 100 * rows->tolerance);
  escape_printf(out,
                "rows         %s %s gives %" PRIu64 " in fp32, %" PRIu64 " narrow: %" PRIu64
                " %s, %" PRIu64 " of these moved",
                r->graph.nodes[rows->selection].proto->op_type,
                graph_node_label(&r->graph, rows->selection), reference, narrow, matched, how,
                moved);
  if (foremost)
    escape_printf(out, "\n             foremost in fp32 without its like: row %zu on %s",
                  foremost->first_alone, foremost->first_alone_sample);
  escape_printf(out, "\n");
}

// Outputs that fail the first claim that any fails, and depend on a selection: the first few.
static void print_decisions(const struct run *r, FILE *out) {
  enum { SHOWN = 4 };
  struct arena scratch = {0};
  const struct claim *failed = NULL;
  int shown = 0;
  for (int i = 0; i < r->verdict.n_claims && shown < SHOWN; i++) {
    const struct verdict_claim *c = &r->verdict.claims[i];
    if (c->holds || (failed && c->claim != failed))
      continue;
    failed = c->claim;
    int value = graph_lookup(&r->graph, 0, c->output);
    int node = value >= 0 ? decision_before(&r->graph, value, &scratch) : -1;
    if (node < 0)
      continue;
    escape_printf(
        out, "             %s depends on what %s %s selects, and any rounding may change that\n",
        c->output, r->graph.nodes[node].proto->op_type, graph_node_label(&r->graph, node));
    shown++;
  }
  arena_free(&scratch);
}

static void print_culprit(const struct run *r, FILE *out) {
  const struct verdict *v = &r->verdict;
  if (v->first_nonfinite >= 0)
    escape_printf(out, "             first tensor that is not finite: %s, on %s\n",
                  graph_value_label(&r->graph, v->first_nonfinite), v->first_nonfinite_sample);
  if (v->worst_local >= 0)
    escape_printf(
        out, "             largest error of its own: %s (relative L2 %.3g beyond its inputs)\n",
        graph_value_label(&r->graph, v->worst_local), v->worst_local_error);
}

static void print_labels(const struct verdict *v, FILE *out) {
  for (int i = 0; i < v->n_outputs; i++) {
    const struct compare *c = &v->outputs[i].on[SET_HELD_OUT];
    if (c->labelled)
      escape_printf(out, "accuracy     %s: fp32 %.2f %%, narrow %.2f %% of %" PRIu64 " label%s\n",
                    v->outputs[i].name, 100 * (double)c->reference_right / (double)c->labelled,
                    100 * (double)c->narrow_right / (double)c->labelled, c->labelled,
                    PLURAL(c->labelled));
  }
}

static void print_verdict(const struct run *r, FILE *out) {
  const struct verdict *v = &r->verdict;
  escape_printf(out, "verify       %zu %ssample%s", v->samples, v->held_out ? "held-out " : "",
                PLURAL(v->samples));
  if (v->calibration_samples)
    escape_printf(out, " and %zu that calibrated", v->calibration_samples);
  escape_printf(out, ", emulated beside fp32 in %.2f s\n", v->seconds);
  if (v->engine_samples) {
    escape_printf(out,
                  "             engine: as ONNX Runtime %s computes the result on this machine",
                  engine_info(r->engine)->version);
    if (v->engine_samples < v->samples)
      escape_printf(out, ", of the first %zu of them", v->engine_samples);
    escape_printf(out, "\n");
  }
  print_claims(v, out);
  for (int i = 0; i < v->n_rows; i++)
    if (v->rows[i].judged)
      print_rows(r, &v->rows[i], out);
  if (!v->holds) {
    print_culprit(r, out);
    print_decisions(r, out);
  }
  print_labels(v, out);
  summary_print_loads(r, out);
}

// As a detector that finds nothing.
static bool gives_nothing(const struct verdict *v) {
  bool ran = false;
  for (int i = 0; i < v->n_outputs; i++) {
    const struct compare *c = &v->outputs[i].on[SET_HELD_OUT];
    ran = ran || c->runs > 0;
    if (c->count > 0)
      return false;
  }
  return ran;
}

static const char *result_text(const struct run *r) {
  const struct verdict *v = &r->verdict;
  if (!r->has_verdict)
    return plan_is_identity(&r->plan) ? "unchanged: nothing to convert under this policy"
                                      : "not verified: `narrowcast verify` does that";
  if (!v->holds)
    return "REFUSED: a claim does not hold";
  if (!verdict_holds(v))
    return "REFUSED: ONNX Runtime does not load or run the result";
  if (verdict_missed_in_engine(v))
    return "every claim holds on these samples as emulated, but not as the engine computes it here";
  if (v->n_claims)
    return "every claim holds on these samples";
  return gives_nothing(v)
             ? "nothing promised: the outputs have no element on any sample that judges"
             : "nothing promised: no claim of the policy applies to this model's outputs";
}

static void print_not_finite(const struct verdict *v, FILE *out) {
  for (int i = 0; i < v->n_outputs; i++) {
    uint64_t count = v->outputs[i].on[SET_HELD_OUT].reference_nonfinite;
    if (count)
      escape_printf(out,
                    "warning      %" PRIu64
                    " element%s of %s %s not finite in fp32 already, and not compared\n",
                    count, PLURAL(count), v->outputs[i].name, count == 1 ? "is" : "are");
  }
}

struct limit_lines {
  FILE *out;
  int count;
};

// The headroom and the note on made-up inputs have lines of their own.
static void print_limit(void *context, const char *id, const char *text) {
  struct limit_lines *lines = context;
  if (strcmp(id, "range") != 0 && strcmp(id, "synthetic") != 0)
    escape_printf(lines->out, "%s%s\n", lines->count++ ? "             " : "limits       ", text);
}

static void print_drawback(void *out, const char *id, const char *text) {
  (void)id;
  escape_printf(out, "drawback     %s\n", text);
}

static void print_result(const struct run *r, const char *output, FILE *out) {
  if (r->has_verdict)
    print_not_finite(&r->verdict, out);
  struct limit_lines lines = {out, 0};
  if (r->has_verdict)
    plan_limits_each(&r->plan, &r->graph, print_limit, &lines);
  if (r->has_verdict || was_applied(r))
    escape_printf(out, "result       %s\n", result_text(r));
  drawbacks_each(&r->plan, print_drawback, out);
  if (r->has_verdict)
    verdict_drawbacks_each(&r->verdict, engine_info(r->engine)->version, print_drawback, out);
  bool made_up = r->plan.synthetic || (r->has_verdict && samples_synthetic(r->samples));
  if (made_up)
    escape_printf(out, "note         %s: the inputs are made up. --data DIR gives real ones\n",
                  r->plan.synthetic ? "nothing real was measured" : "what judges is not real");
  char few[FEW_TEXT];
  if (!made_up && r->has_verdict && verdict_few_samples(&r->verdict, few))
    escape_printf(out, "note         %s\n", few);
  if (r->rewrite.bytes_after > r->rewrite.bytes_before)
    escape_printf(out, "note         constants grew: some are kept both narrow and wide\n");
  if (output)
    escape_printf(out, "wrote        %s\n", output);
}

// What took less than half a hundredth of a second is left out.
static void print_times(const struct run *r, FILE *out) {
  double total = 0;
  for (int s = 0; s < STAGE_COUNT; s++)
    total += r->seconds[s];
  escape_printf(out, "time         %.2f s", total);
  int shown = 0;
  for (int s = 0; s < STAGE_COUNT; s++)
    if (r->seconds[s] >= 0.005)
      escape_printf(out, "%s %s %.2f", shown++ ? "," : ":", run_stage_names[s], r->seconds[s]);
  escape_printf(out, "\n");
}

void summary_text(struct run *r, const char *output, FILE *out) {
  run_enter(r, STAGE_NONE);
  escape_printf(out, "model        %s: %d node%s, ", r->settings->model, r->source_nodes,
                PLURAL(r->source_nodes));
  print_bytes(out, (double)r->model.size);
  escape_printf(out, "\n");
  print_plan(r, out);
  if (plan_is_identity(&r->plan))
    escape_printf(out, "cost         none: nothing is narrow%s\n",
                  was_applied(r) ? ", the model is copied unchanged" : "");
  else if (r->rewrite.bytes_before || r->rewrite.casts)
    print_cost(r, out);
  if (r->has_verdict)
    print_verdict(r, out);
  if (r->engine)
    print_times(r, out);
  print_result(r, output, out);
}

// ---- JSON ----

static void json_plan(const struct run *r, struct json_writer *w) {
  const struct plan *p = &r->plan;
  struct counts c = count_plan(p);
  json_object(w, "plan");
  json_string(w, "policy", p->policy_name);
  if (p->adjustments && p->adjustments[0]) {
    json_array(w, "adjustments");
    for (const char **o = p->adjustments; *o; o++)
      json_string(w, NULL, *o);
    json_end_array(w);
  }
  if (p->raised_to && !plan_is_identity(p))
    json_integer(w, "opset_raised_to", p->raised_to);
  if (p->tf32)
    json_bool(w, "tf32", true);
  json_integer(w, "policy_version", p->policy_version);
  json_integer(w, "float_nodes", c.float_nodes);
  json_integer(w, "narrow_nodes", c.narrow_nodes);
  if (p->has_operand_format) {
    json_string(w, "operand_format", formats[p->operand_format].name);
    json_integer(w, "products", c.products);
    json_integer(w, "products_with_narrow_operands", c.narrow_products);
    json_integer(w, "operands", c.operands);
    json_number(w, "operand_headroom", c.headroom);
  }
  json_object(w, "nodes_by_format");
  for (int i = 0; i < p->n_ladder; i++)
    json_integer(w, formats[p->ladder[i]].name, c.by_format[p->ladder[i]]);
  json_end_object(w);
  json_array(w, "fp32_by_reason");
  for (int k = 0; k < REASON_COUNT; k++) {
    if (!c.by_reason[k])
      continue;
    json_object(w, NULL);
    json_string(w, "reason", reason_name((enum reason)k));
    json_string(w, "text", reason_text((enum reason)k));
    json_integer(w, "nodes", c.by_reason[k]);
    json_end_object(w);
  }
  json_end_array(w);
  json_string(w, "statistics", !p->has_trace ? "none" : p->synthetic ? "synthetic" : "data");
  json_integer(w, "samples", (int64_t)p->steps);
  json_number(w, "headroom", p->headroom);
  json_string(w, "headroom_value",
              p->headroom_value >= 0 ? graph_value_label(&r->graph, p->headroom_value) : "");
  json_bool(w, "unchanged", plan_is_identity(p));
  json_end_object(w);
}

static void json_drawback(void *writer, const char *id, const char *text) {
  (void)text;
  json_string(writer, NULL, id);
}

static void json_modelled(const struct plan *p, struct json_writer *w) {
  const struct plan_costs *c = &p->costs;
  if (!c->target || p->tf32)
    return;
  json_object(w, "modelled");
  json_string(w, "target", c->target);
  json_number(w, "seconds_before", c->time_before);
  json_number(w, "seconds_after", c->time_after);
  json_number(w, "cast_seconds", c->time_casts);
  json_number(w, "traffic_bytes_before", c->traffic_before);
  json_number(w, "traffic_bytes_after", c->traffic_after);
  json_number(w, "constant_bytes_before", c->constants_before);
  json_number(w, "constant_bytes_after", c->constants_after);
  json_number(w, "activation_bytes_before", c->activations_before);
  json_number(w, "activation_bytes_after", c->activations_after);
  json_number(w, "share_that_cannot_speed_up", c->fixed_share);
  json_number(w, "speedup_at_most", costs_most_speedup(c));
  json_integer(w, "nodes_wide_only_for_casts", c->left_wide);
  json_array(w, "drawbacks");
  drawbacks_each(p, json_drawback, w);
  json_end_array(w);
  json_end_object(w);
}

// What was compared, for `explain --verdict`.
static void json_verdict_values(const struct run *r, struct json_writer *w) {
  const struct verdict *v = &r->verdict;
  json_array(w, "values");
  for (int i = 0; i < v->n_values; i++) {
    if (v->values[i].runs == 0)
      continue;
    json_object(w, NULL);
    json_string(w, "value", graph_value_label(&r->graph, i));
    json_number(w, "relative_l2", compare_relative_l2(&v->values[i]));
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_verdict(const struct run *r, struct json_writer *w) {
  json_object(w, "verdict");
  verdict_print_members(&r->verdict, &r->graph, engine_info(r->engine)->version, w);
  json_verdict_values(r, w);
  json_end_object(w);
}

void summary_json(struct run *r, const char *output, FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 3};
  json_object(&w, NULL);
  json_string(&w, "model", file_base(r->settings->model));
  json_string(&w, "sha256", r->model.sha256);
  if (output)
    json_string(&w, "output", file_base(output));
  if (r->engine)
    json_string(&w, "engine", engine_info(r->engine)->version);
  json_plan(r, &w);
  json_modelled(&r->plan, &w);
  json_object(&w, "cost");
  json_integer(&w, "casts", r->rewrite.casts);
  json_integer(&w, "scale_nodes", r->rewrite.scale_nodes);
  json_integer(&w, "quantize_nodes", r->rewrite.quantised);
  json_integer(&w, "dequantize_nodes", r->rewrite.dequantised);
  bool in_4_bits = r->plan.has_operand_format && policy_is_weight_format(r->plan.operand_format);
  json_integer(&w, in_4_bits ? "weights_in_4_bits" : "weights_in_8_bits", r->rewrite.weights);
  json_integer(&w, in_4_bits ? "weight_bytes_in_4_bits" : "weight_bytes_in_8_bits",
               (int64_t)r->rewrite.weight_bytes);
  json_integer(&w, "constant_bytes_before", (int64_t)r->rewrite.bytes_before);
  json_integer(&w, "constant_bytes_after", (int64_t)r->rewrite.bytes_after);
  json_integer(&w, "constants_narrow", r->rewrite.narrow_initializers);
  json_integer(&w, "constants_kept_twice", r->rewrite.copied_initializers);
  json_integer(&w, "constant_elements_changed", (int64_t)r->rewrite.saturated);
  json_end_object(&w);
  if (r->has_verdict)
    json_verdict(r, &w);
  json_end_object(&w);
}
