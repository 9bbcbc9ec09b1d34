// Part of the summary: the plan in numbers, and as text. Each line begins with its subject.
#include "summary_parts.h"

#include "escape.h"
#include "plan_cost.h"
#include "plan_limits.h"
#include "units.h"

#include <inttypes.h>
#include <math.h>

struct plan_counts summary_count(const struct plan *p) {
  struct plan_counts c = {.headroom = INFINITY, .headroom_value = -1};
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

void summary_print_bytes(FILE *out, double bytes) {
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
bool summary_was_applied(const struct run *r) {
  return r->emitted.proto;
}

static void print_opset(const struct run *r, FILE *out) {
  const struct plan *p = &r->plan;
  if (p->raised_to && (!summary_was_applied(r) || !plan_is_identity(p)))
    escape_printf(out, "opset        raised to %d\n", p->raised_to);
  else if (p->raised_to)
    escape_printf(out, "opset        not raised: nothing is narrow at opset %d either\n",
                  p->raised_to);
  else if (r->settings->raise_opset)
    escape_printf(out, "opset        left at %d, which is not below %d\n",
                  graph_opset(&r->graph, 0, ""), r->settings->raise_opset);
}

static void print_formats(const struct plan *p, const struct plan_counts *c, FILE *out) {
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

static void print_weights_in_blocks(const struct plan *p, const struct plan_counts *c, FILE *out) {
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
  summary_print_bytes(out, (double)bytes);
  if (longest)
    escape_printf(out, ",\n             with a scale for each block of up to %" PRId64, longest);
  escape_printf(out, "\n");
}

// Products that read their operands in 8 bits, or weights in 4, and why the others do not.
static void print_operands(const struct run *r, const struct plan_counts *c, FILE *out) {
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
  summary_print_bytes(out, c->traffic_before);
  escape_printf(out, " -> ");
  summary_print_bytes(out, c->traffic_after);
  escape_printf(out, "; writes activations of ");
  summary_print_bytes(out, c->activations_before);
  escape_printf(out, " -> ");
  summary_print_bytes(out, c->activations_after);
  escape_printf(out, "\n");
}

static void print_weights(const struct plan *p, FILE *out) {
  size_t copies = 0, unseen = 0;
  for (size_t i = 0; i < p->n_weights; i++) {
    copies += p->weights[i].master_copy;
    unseen += !p->weights[i].seen;
  }
  if (p->n_weights)
    escape_printf(out, "weights      %zu of %zu need a 32-bit master copy in training\n", copies,
                  p->n_weights);
  if (unseen)
    escape_printf(out, "             of %zu no update was seen that is finite and not 0%s\n",
                  unseen, copies ? ": without evidence a copy stays" : "");
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
  summary_print_bytes(out, p->training->bytes_before);
  escape_printf(out, " -> ");
  summary_print_bytes(out, p->training->bytes_after);
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

void summary_print_plan(const struct run *r, FILE *out) {
  const struct plan *p = &r->plan;
  struct plan_counts c = summary_count(p);
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
                  plan_growth_text(p->headroom, growth), formats[p->headroom_format].name);
  print_model_of_costs(p, out);
  print_weights(p, out);
  print_training(p, out);
  if (r->has_trace && r->trace.nonfinite_value >= 0)
    escape_printf(out, "warning      the fp32 model itself is not finite: %s on %s\n",
                  graph_value_label(&r->graph, r->trace.nonfinite_value),
                  r->trace.nonfinite_sample);
}

static void print_quantised(const struct plan *p, const struct rewrite_report *report, FILE *out) {
  escape_printf(out, "; %d QuantizeLinear, %d DequantizeLinear; %d weight%s of ", report->quantised,
                report->dequantised, report->weights, PLURAL(report->weights));
  summary_print_bytes(out, (double)report->weight_bytes);
  escape_printf(out, " in %d bits", formats[p->operand_format].bits);
}

void summary_print_cost(const struct run *r, FILE *out) {
  escape_printf(out, "cost         %d Cast%s ", r->rewrite.casts, PLURAL(r->rewrite.casts));
  if (r->rewrite.scale_nodes)
    escape_printf(out, "and %d scale node%s ", r->rewrite.scale_nodes,
                  PLURAL(r->rewrite.scale_nodes));
  escape_printf(out, "added");
  if (r->rewrite.author_casts)
    escape_printf(out, ", %d of the author's left out", r->rewrite.author_casts);
  if (r->rewrite.dequantised)
    print_quantised(&r->plan, &r->rewrite, out);
  if (r->rewrite.bytes_before || r->rewrite.bytes_after) {
    escape_printf(out, r->rewrite.dequantised ? ";\n             constants " : "; constants ");
    summary_print_bytes(out, (double)r->rewrite.bytes_before);
    escape_printf(out, " -> ");
    summary_print_bytes(out, (double)r->rewrite.bytes_after);
  }
  if (r->rewrite.saturated)
    escape_printf(out, "; %" PRIu64 " element%s out of range changed as the policy says",
                  r->rewrite.saturated, PLURAL(r->rewrite.saturated));
  escape_printf(out, "\n");
}
