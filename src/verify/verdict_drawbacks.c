// Drawbacks of a verdict, one sentence for each claim that has one, about its worst output. See
// verdict_drawbacks.h.
#include "verdict_drawbacks.h"

#include "units.h"

#include <math.h>

enum { SENTENCE = 1024 };

// Of those that a sentence is about.
struct found {
  const struct verdict_claim *worst;
  int count;
};

static bool is_missed(const struct verdict_claim *c) {
  return c->holds && !isnan(c->in_engine) && !c->holds_in_engine;
}

bool verdict_missed_in_engine(const struct verdict *v) {
  for (int i = 0; i < v->n_claims; i++)
    if (is_missed(&v->claims[i]))
      return true;
  return false;
}

static const char *others_text(int count, char text[64]) {
  text[0] = '\0';
  if (count > 1)
    snprintf(text, 64, ", and %d other output%s likewise", count - 1, PLURAL(count - 1));
  return text;
}

static bool by_rows(const struct verdict *v, const struct verdict_claim *c) {
  int rows = v->outputs[c->output_index].rows;
  return v->n_rows > 0 && rows >= 0 && v->rows[rows].judged;
}

// By set, what the claim was judged by.
static const struct compare *errors_of(const struct verdict *v, const struct verdict_claim *c) {
  const struct verdict_output *output = &v->outputs[c->output_index];
  return by_rows(v, c) ? output->paired : output->on;
}

static void missed_in_engine(const struct verdict *v, const struct found *f, const char *engine,
                             drawback_use *use, void *context) {
  char text[SENTENCE], others[64], measured[UNITS_TEXT];
  const struct verdict_claim *c = f->worst;
  const struct compare *in_engine = &v->outputs[c->output_index].on[SET_IN_ENGINE];
  if (in_engine->mismatched && !by_rows(v, c))
    snprintf(text, sizeof text,
             "ONNX Runtime %s on this machine gives %.400s another shape than fp32 has%s; in "
             "emulation the shapes are equal, and %s holds.",
             engine, c->output, others_text(f->count, others), metric_name(c->claim->metric));
  else
    snprintf(text, sizeof text,
             "As ONNX Runtime %s computes it on this machine, %s of %.400s is %s, %s the %.15g "
             "that is claimed%s; emulated it is %.4g.",
             engine, metric_name(c->claim->metric), c->output,
             units_measured(c->in_engine, c->claim->limit, measured),
             metric_wants_more(c->claim->metric) ? "less than" : "more than", c->claim->limit,
             others_text(f->count, others), c->on[SET_HELD_OUT]);
  use(context, "engine", text);
}

// The set on which a single sample misses a claim on relative_l2 that all together hold, or
// SAMPLE_SETS: of the other metrics, no sample's own is kept.
static enum sample_set set_with_outlier(const struct verdict *v, const struct verdict_claim *c) {
  const struct compare *on = errors_of(v, c);
  int worst = SAMPLE_SETS;
  if (!c->holds || c->claim->metric != METRIC_RELATIVE_L2)
    return SAMPLE_SETS;
  for (int set = 0; set < SAMPLE_SETS; set++)
    if (on[set].runs > 1 && on[set].worst_relative_l2 > c->claim->limit &&
        (worst == SAMPLE_SETS || on[set].worst_relative_l2 > on[worst].worst_relative_l2))
      worst = set;
  return (enum sample_set)worst;
}

static void missed_by_sample(const struct verdict *v, const struct found *f, drawback_use *use,
                             void *context) {
  char text[SENTENCE], others[64], measured[UNITS_TEXT];
  const struct verdict_claim *c = f->worst;
  const struct compare *on = &errors_of(v, c)[set_with_outlier(v, c)];
  snprintf(text, sizeof text,
           "On %.200s alone, relative_l2 of %.400s is %s, more than the %.15g that is claimed of "
           "all samples together%s.",
           v->sample_labels[on->worst_step], c->output,
           units_measured(on->worst_relative_l2, c->claim->limit, measured), c->claim->limit,
           others_text(f->count, others));
  use(context, "sample", text);
}

static double outlier(const struct verdict *v, const struct verdict_claim *c) {
  return errors_of(v, c)[set_with_outlier(v, c)].worst_relative_l2;
}

static bool is_worse_in_engine(const struct verdict_claim *x, const struct verdict_claim *y) {
  return metric_wants_more(x->claim->metric) ? x->in_engine < y->in_engine
                                             : x->in_engine > y->in_engine;
}

void verdict_drawbacks_each(const struct verdict *v, const char *engine, drawback_use *use,
                            void *context) {
  for (int i = 0; i < v->n_claims;) {
    const struct claim *claim = v->claims[i].claim;
    struct found missed = {0}, outliers = {0};
    for (; i < v->n_claims && v->claims[i].claim == claim; i++) {
      const struct verdict_claim *c = &v->claims[i];
      if (is_missed(c)) {
        missed.count++;
        missed.worst = !missed.worst || is_worse_in_engine(c, missed.worst) ? c : missed.worst;
      }
      if (set_with_outlier(v, c) != SAMPLE_SETS) {
        bool worse = !outliers.worst || outlier(v, c) > outlier(v, outliers.worst);
        outliers.count++;
        outliers.worst = worse ? c : outliers.worst;
      }
    }
    if (missed.count)
      missed_in_engine(v, &missed, engine, use, context);
    if (outliers.count)
      missed_by_sample(v, &outliers, use, context);
  }
}

static const char *why_idle(const struct verdict *v, const struct claim *claim) {
  bool named = false;
  for (int k = 0; k < v->n_outputs; k++)
    named = named || claim_names(claim, v->outputs[k].name);
  if (!named)
    return "the model has none of the outputs that it names";
  switch (claim->metric) {
  case METRIC_LABEL_LOSS:
    return "no sample that was run has labels for its outputs that can be used";
  case METRIC_TOP1:
    return "its outputs are no matrices of scores, nor integers, booleans or strings, or are empty";
  case METRIC_MATCHED_ROWS: return "no selection that can be followed chooses rows of its outputs";
  default: return "its outputs are no float tensors, or are empty";
  }
}

void verdict_idle_each(const struct verdict *v, drawback_use *use, void *context) {
  for (int i = 0; i < v->n_idle; i++) {
    char text[SENTENCE];
    snprintf(text, sizeof text, "The claim %.200s (%s) judged nothing: %s.", v->idle[i]->id,
             metric_name(v->idle[i]->metric), why_idle(v, v->idle[i]));
    use(context, v->idle[i]->id, text);
  }
}

const char *verdict_few_samples(const struct verdict *v, char text[FEW_TEXT]) {
  size_t samples = verdict_samples(v);
  if (!v->holds || v->n_claims == 0 || (v->held_out && samples >= (size_t)v->enough) ||
      v->enough == 0)
    return NULL;
  if (!v->held_out) {
    snprintf(text, FEW_TEXT,
             "No sample that judged is known to be held out from calibration; the policy calls %d "
             "enough.",
             v->enough);
    return text;
  }
  if (samples == 0) {
    snprintf(text, FEW_TEXT,
             "No held-out sample gave an element of an output that is judged; the policy calls %d "
             "such samples enough.",
             v->enough);
    return text;
  }
  // n of n hold: with 95 % confidence the share that holds is at least the n-th root of 0.05.
  double share = 1 - pow(0.05, 1 / (double)samples);
  snprintf(text, FEW_TEXT,
           "Judged on %zu held-out sample%s, and the policy calls %d enough: of inputs like these, "
           "up to %.0f %% may miss a claim (at 95 %% confidence).",
           samples, PLURAL(samples), v->enough, 100 * share);
  return text;
}
