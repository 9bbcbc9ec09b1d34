// Part of the summary: the claims with what was measured, decisions, rows, and labels.
#include "summary_parts.h"

#include "decimal.h"
#include "decisions.h"
#include "escape.h"
#include "units.h"
#include "verdict_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static bool is_worse(const struct verdict_claim *x, const struct verdict_claim *y) {
  return metric_wants_more(x->claim->metric) ? x->measured < y->measured
                                             : x->measured > y->measured;
}

// What decides, and in brackets what it is the worse of.
static void print_measured(const struct verdict *v, const struct verdict_claim *c, FILE *out) {
  bool calibrated = v->calibration_samples > 0, in_engine = !isnan(c->in_engine);
  double limit = c->claim->limit;
  char text[UNITS_TEXT], other[UNITS_TEXT];
  escape_printf(out, "%s", units_measured(c->measured, limit, text));
  if (calibrated || in_engine)
    escape_printf(out, " (");
  if (calibrated)
    escape_printf(out, "held-out %s, calibration %s",
                  units_measured(c->on[SET_HELD_OUT], limit, text),
                  units_measured(c->on[SET_CALIBRATION], limit, other));
  if (in_engine)
    escape_printf(out, "%sengine %s", calibrated ? ", " : "",
                  units_measured(c->in_engine, limit, text));
  if (calibrated || in_engine)
    escape_printf(out, ")");
}

static const char *limit_text(const struct claim *c) {
  return metric_wants_more(c->metric) ? "at least" : "at most";
}

// In full: what is measured may miss it by its last digits.
static const char *limit_number(const struct claim *c, char text[DECIMAL_TEXT]) {
  decimal_print(text, c->limit);
  return text;
}

static void print_claim_result(const struct verdict *v, const struct verdict_claim *c, FILE *out) {
  char limit[DECIMAL_TEXT];
  escape_printf(out, "  %s    %s of %s: ", c->holds ? "holds" : "FAILS",
                metric_name(c->claim->metric), c->output);
  if (c->shape_mismatches)
    escape_printf(out, "its shape differs from fp32 in %" PRIu64 " run%s\n", c->shape_mismatches,
                  PLURAL(c->shape_mismatches));
  else if (c->nothing_compared)
    escape_printf(out, "cannot be judged, the fp32 output is not finite anywhere\n");
  else {
    print_measured(v, c, out);
    escape_printf(out, ", %s %s%s%s\n", limit_text(c->claim), limit_number(c->claim, limit),
                  c->holds ? "" : " was promised; worst on ", c->holds ? "" : c->sample);
  }
}

// Each output that fails a claim, and of those that hold it the worst.
static void print_claims(const struct verdict *v, FILE *out) {
  char limit[DECIMAL_TEXT];
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
      escape_printf(out, ", %s %s\n", limit_text(first->claim), limit_number(first->claim, limit));
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

void summary_print_verdict(const struct run *r, FILE *out) {
  const struct verdict *v = &r->verdict;
  size_t empty = v->empty[SET_HELD_OUT] + v->empty[SET_CALIBRATION];
  escape_printf(out, "verify       %zu %ssample%s", verdict_samples(v),
                v->held_out ? "held-out " : "", PLURAL(verdict_samples(v)));
  if (v->calibration_samples)
    escape_printf(out, " and %zu that calibrated",
                  v->calibration_samples - v->empty[SET_CALIBRATION]);
  escape_printf(out, ", emulated beside fp32 in %.2f s\n", v->seconds);
  if (empty)
    escape_printf(out, "             %zu more gave no element of an output that is judged\n",
                  empty);
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
