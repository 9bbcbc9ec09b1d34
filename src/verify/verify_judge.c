// A claim holds if it holds on the held-out samples and on those that calibrated: of the former
// nothing in the plan knows, but a sample that is known to miss a limit is a counterexample
// wherever it comes from. Rows of a selection are judged row by row where in place a claim does not
// hold. See verify_judge.h.
#include "verify_judge.h"

#include "tensor.h"
#include "verify_rows.h"

#include <math.h>

double judge_measure(const struct compare *c, enum metric metric) {
  switch (metric) {
  case METRIC_MAX_ABS: return c->newly_nonfinite ? INFINITY : (double)c->max_abs;
  case METRIC_RELATIVE_L2: return compare_relative_l2(c);
  case METRIC_COSINE: return compare_cosine(c);
  case METRIC_SQNR_DB: return compare_sqnr_db(c);
  case METRIC_TOP1: return compare_top1(c);
  case METRIC_LABEL_LOSS:
    return ((double)c->reference_right - (double)c->narrow_right) / (double)c->labelled;
  case METRIC_FINITE: return (double)c->newly_nonfinite;
  case METRIC_MATCHED_ROWS: break;  // of rows, not of errors
  }
  return NAN;
}

bool judge_within(enum metric metric, double measured, double limit) {
  return metric_wants_more(metric) ? measured >= limit : measured <= limit;
}

// Where every element of the fp32 output is NaN or infinite, nothing was compared.
static bool compared(const struct compare *c) {
  return c->count == 0 || c->reference_nonfinite < c->count;
}

bool verdict_is_exact(const struct verdict_output *output, const struct graph *source) {
  return output->value >= 0 && !tensor_is_float(source->values[output->value].type.elem_type);
}

bool verdict_is_judged(const struct verdict *v, int output) {
  for (int i = 0; i < v->n_claims; i++)
    if (v->claims[i].output_index == output)
      return true;
  return false;
}

// Integer outputs are only asked for equality (top-1), and with others of a selection for their
// rows; scores only where there are rows; losses against labels only where there are labels.
// Nothing is asked of outputs that are empty in every run.
static bool applies(const struct claim *claim, const struct verdict_output *output,
                    const struct compare *c, const struct graph *source) {
  if (c->runs == 0 || (c->count == 0 && c->mismatched == 0))
    return false;
  if (claim->metric == METRIC_LABEL_LOSS && c->labelled == 0)
    return false;
  if (claim->metric == METRIC_TOP1 && c->rows == 0)
    return false;
  if (claim->metric == METRIC_MATCHED_ROWS && output->rows < 0)
    return false;
  if (verdict_is_exact(output, source) && claim->metric != METRIC_TOP1 &&
      claim->metric != METRIC_MATCHED_ROWS)
    return false;
  return claim_names(claim, output->name);
}

static bool holds_in_place(const struct claim *claim, const struct compare *c) {
  return judge_within(claim->metric, judge_measure(c, claim->metric), claim->limit) &&
         c->mismatched == 0 && compared(c);
}

// Which rows are judged as such. Labels and classes are always compared in place.
static void find_rows_to_judge(struct verdict *v, const struct plan *p,
                               const struct graph *source) {
  for (int i = 0; i < v->n_rows; i++)
    v->rows[i].judged = false;
  for (int i = 0; i < p->n_claims; i++)
    for (int k = 0; k < v->n_outputs; k++)
      for (int set = 0; set < SAMPLE_SETS; set++) {
        const struct verdict_output *output = &v->outputs[k];
        const struct claim *claim = &p->claims[i];
        if (output->rows >= 0 && claim->metric != METRIC_MATCHED_ROWS &&
            applies(claim, output, &output->on[set], source) &&
            !holds_in_place(claim, &output->on[set]))
          v->rows[output->rows].judged = true;
      }
}

static struct verdict_claim judge_rows(const struct claim *claim, const struct row_counts *c,
                                       const char *const *labels) {
  double measured = rows_share(c);
  return (struct verdict_claim){.claim = claim,
                                .measured = measured,
                                .holds = judge_within(claim->metric, measured, claim->limit),
                                .sample = c->worst_step >= 0 ? labels[c->worst_step] : ""};
}

static struct verdict_claim judge_errors(const struct claim *claim, const struct compare *c,
                                         uint64_t nonfinite, const char *const *labels) {
  double measured = judge_measure(c, claim->metric);
  if (claim->metric == METRIC_FINITE)
    measured += (double)nonfinite;
  int64_t worst = claim->metric == METRIC_FINITE ? c->first_newly_nonfinite_step : c->worst_step;
  return (struct verdict_claim){
      .claim = claim,
      .measured = measured,
      .shape_mismatches = c->mismatched,
      .nothing_compared = !compared(c),
      .holds =
          judge_within(claim->metric, measured, claim->limit) && c->mismatched == 0 && compared(c),
      .sample = worst >= 0 ? labels[worst] : "",
  };
}

static struct verdict_claim judge_set(const struct claim *claim,
                                      const struct verdict_output *output,
                                      const struct verdict_rows *rows, enum sample_set set,
                                      const char *const *labels) {
  if (claim->metric == METRIC_MATCHED_ROWS)
    return judge_rows(claim, &rows->on[set], labels);
  bool in_place = claim->metric == METRIC_TOP1 || claim->metric == METRIC_LABEL_LOSS;
  if (rows && rows->judged && !in_place)
    return judge_errors(claim, &output->paired[set], output->alone_nonfinite[set], labels);
  return judge_errors(claim, &output->on[set], 0, labels);
}

static bool is_worse(const struct verdict_claim *x, const struct verdict_claim *y) {
  if (x->holds != y->holds)
    return y->holds;
  return metric_wants_more(x->claim->metric) ? x->measured < y->measured
                                             : x->measured > y->measured;
}

// False: the claim is not about this output.
static bool judge_output(const struct verdict *v, const struct claim *claim,
                         const struct verdict_output *output, const struct graph *source,
                         const char *const *labels, struct verdict_claim *out) {
  const struct verdict_rows *rows = output->rows >= 0 ? &v->rows[output->rows] : NULL;
  bool found = false;
  if (claim->metric == METRIC_MATCHED_ROWS && !(rows && rows->judged))
    return false;
  double on[SAMPLE_SETS];
  for (int set = 0; set < SAMPLE_SETS; set++) {
    on[set] = NAN;
    if (!applies(claim, output, &output->on[set], source))
      continue;
    struct verdict_claim judged = judge_set(claim, output, rows, (enum sample_set)set, labels);
    judged.decided_on = (enum sample_set)set;
    on[set] = judged.measured;
    if (!found || is_worse(&judged, out))
      *out = judged;
    found = true;
  }
  out->output = output->name;
  out->in_engine = NAN;
  for (int set = 0; set < SAMPLE_SETS; set++)
    out->on[set] = on[set];
  return found;
}

// Of a claim that judged nothing, whether that is news. On errors of every float output and on rows
// of selections, policies claim what need not be there; labels, classes and outputs by name they
// count on.
static bool is_idle(const struct verdict *v, const struct claim *claim) {
  bool counts_on =
      claim->outputs || claim->metric == METRIC_TOP1 || claim->metric == METRIC_LABEL_LOSS;
  for (int k = 0; k < v->n_outputs && claim->metric == METRIC_MATCHED_ROWS; k++)
    counts_on = counts_on && !(v->outputs[k].rows >= 0 && claim_names(claim, v->outputs[k].name));
  for (int i = 0; i < v->n_claims; i++)
    counts_on = counts_on && v->claims[i].claim != claim;
  return counts_on;
}

void judge_claims(struct verdict *v, const struct plan *p, const struct graph *source,
                  const char *const *labels, struct arena *a) {
  v->claims = arena_array(a, (size_t)v->n_outputs * (size_t)p->n_claims, sizeof *v->claims);
  v->n_claims = 0;
  v->holds = true;
  find_rows_to_judge(v, p, source);
  for (int i = 0; i < p->n_claims; i++)
    for (int k = 0; k < v->n_outputs; k++) {
      struct verdict_claim *claim = &v->claims[v->n_claims];
      if (!judge_output(v, &p->claims[i], &v->outputs[k], source, labels, claim))
        continue;
      claim->output_index = k;
      v->n_claims++;
      v->holds = v->holds && claim->holds;
    }
  v->idle = arena_array(a, (size_t)p->n_claims, sizeof *v->idle);
  v->n_idle = 0;
  for (int i = 0; i < p->n_claims; i++)
    if (is_idle(v, &p->claims[i]))
      v->idle[v->n_idle++] = &p->claims[i];
}

void judge_evidence(struct verdict *v, const bool *given) {
  size_t n = v->samples + v->calibration_samples;
  v->empty[SET_HELD_OUT] = v->empty[SET_CALIBRATION] = 0;
  for (size_t step = 0; step < n && v->n_claims; step++) {
    bool shown = false;
    for (int i = 0; i < v->n_claims && !shown; i++)
      shown = given[step * (size_t)v->n_outputs + (size_t)v->claims[i].output_index];
    v->empty[step < v->samples ? SET_HELD_OUT : SET_CALIBRATION] += !shown;
  }
}

size_t verdict_samples(const struct verdict *v) {
  return v->samples - v->empty[SET_HELD_OUT];
}

// Rows that a selection chose in place in emulation may have moved in the engine: they are judged
// row by row there, if so many have their like as the plan claims.
static bool may_judge_rows(const struct plan *p, const struct verdict_rows *rows) {
  for (int i = 0; i < p->n_claims; i++)
    if (p->claims[i].metric == METRIC_MATCHED_ROWS)
      return judge_within(METRIC_MATCHED_ROWS, rows_share(&rows->on[SET_IN_ENGINE]),
                          p->claims[i].limit);
  return false;
}

void judge_engine(struct verdict *v, const struct plan *p, const struct graph *source) {
  for (int i = 0; i < v->n_claims; i++) {
    struct verdict_claim *claim = &v->claims[i];
    const struct verdict_output *output = &v->outputs[claim->output_index];
    const struct verdict_rows *rows = output->rows >= 0 ? &v->rows[output->rows] : NULL;
    if (!applies(claim->claim, output, &output->on[SET_IN_ENGINE], source))
      continue;
    struct verdict_claim judged =
        judge_set(claim->claim, output, rows, SET_IN_ENGINE, v->sample_labels);
    if (!judged.holds && rows && !rows->judged && may_judge_rows(p, rows)) {
      struct verdict_rows by_row = *rows;
      by_row.judged = true;
      judged = judge_set(claim->claim, output, &by_row, SET_IN_ENGINE, v->sample_labels);
    }
    claim->in_engine = judged.measured;
    claim->holds_in_engine = judged.holds;
  }
}

// Error that a node's output has beyond the largest of its inputs.
static void find_worst_local(struct verdict *out, const struct graph *g,
                             const struct compare *values) {
  for (int n = 0; n < g->n_nodes; n++) {
    const struct node *node = &g->nodes[n];
    if (node->scope != 0)
      continue;
    double inherited = 0;
    for (int k = 0; k < node->n_inputs; k++) {
      int v = node->inputs[k];
      if (v >= 0 && values[v].runs > 0)
        inherited = fmax(inherited, compare_relative_l2(&values[v]));
    }
    for (int k = 0; k < node->n_outputs; k++) {
      int v = node->outputs[k];
      if (v < 0 || values[v].runs == 0)
        continue;
      double local = compare_relative_l2(&values[v]) - inherited;
      if (local > out->worst_local_error) {  // false where both are infinite
        out->worst_local_error = local;
        out->worst_local = v;
      }
    }
  }
}

static void find_first_nonfinite(struct verdict *out, const struct graph *g,
                                 const struct compare *values, const char *const *labels) {
  for (int i = 0; i < g->scopes[0].n_nodes && out->first_nonfinite < 0; i++) {
    const struct node *node = &g->nodes[g->scopes[0].order[i]];
    for (int k = 0; k < node->n_outputs && out->first_nonfinite < 0; k++) {
      int value = node->outputs[k];
      if (value < 0 || values[value].newly_nonfinite == 0)
        continue;
      out->first_nonfinite = value;
      int64_t step = values[value].first_newly_nonfinite_step;
      out->first_nonfinite_sample = step >= 0 ? labels[step] : "";
    }
  }
}

void judge_find_culprits(struct verdict *v, const struct graph *source,
                         const struct compare *values, const char *const *labels) {
  find_first_nonfinite(v, source, values, labels);
  find_worst_local(v, source, values);
}
