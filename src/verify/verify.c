// Runs the twin of source and emitted model (verify_twin.c) on samples, and judges the claims by
// what the Compare operators and the outputs show. See verify.h.
#include "verify.h"

#include "clock.h"
#include "clone.h"
#include "emulate.h"
#include "progress.h"
#include "tensor.h"
#include "trace_places.h"
#include "verify_twin.h"

#include <math.h>
#include <string.h>

struct verification {
  struct verdict *verdict;
  struct graph *source;
  const struct plan *plan;
  struct twin twin;
  struct probe probe;
  const char **sample_labels;  // by step
  struct arena *arena;
};

// ---- outputs ----

static size_t element_count(const struct array *x) {
  size_t count = 1;
  for (size_t i = 0; i < x->rank; i++)
    count *= (size_t)x->dims[i];
  return count;
}

static bool same_shape(const struct array *x, const struct array *y) {
  return x->rank == y->rank && memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0;
}

static float *as_float(const struct array *x, size_t count, struct arena *scratch) {
  struct tensor view = {.name = "",
                        .elem_type = x->elem_type,
                        .rank = x->rank,
                        .dims = x->dims,
                        .count = count,
                        .data = x->data,
                        .size = x->size};
  float *out = arena_array(scratch, count, sizeof *out);
  return tensor_to_float(&view, out) ? out : NULL;
}

static const struct array *find_label(const struct sample *s, const char *output) {
  static const char prefix[] = "label:";
  for (size_t i = 0; i < s->n_arrays; i++)
    if (strncmp(s->arrays[i].name, prefix, strlen(prefix)) == 0 &&
        strcmp(s->arrays[i].name + strlen(prefix), output) == 0)
      return &s->arrays[i];
  return NULL;
}

static void compare_with_labels(struct compare *c, const struct array *labels, const float *r,
                                const float *n, size_t rows, size_t width, struct arena *scratch) {
  if (element_count(labels) != rows)
    return;
  int64_t *classes = arena_array(scratch, rows, sizeof *classes);
  float *as_floats = as_float(labels, rows, scratch);
  if (!as_floats)
    return;
  for (size_t i = 0; i < rows; i++)
    classes[i] = (int64_t)as_floats[i];
  compare_labels(c, r, n, rows, width, classes);
}

static bool counts_exactly(int elem_type) {
  return !tensor_is_float(elem_type);
}

// One output of one run: errors over all elements; top-1 along the last axis for matrices of
// scores; for integers and booleans, "top-1" is the share of equal elements.
static void compare_output(struct verification *v, size_t k, const struct array *reference,
                           const struct array *narrow, const struct sample *s, int64_t step) {
  struct compare *c = &v->verdict->outputs[k].error;
  if (!reference->data || !narrow->data)
    return;
  struct compare_piece piece = {0};
  size_t count = element_count(reference);
  if (!same_shape(reference, narrow)) {
    c->mismatched++;
    c->rows++;
    compare_end_run(c, &piece, step);
    return;
  }
  struct arena scratch = {0};
  float *r = as_float(reference, count, &scratch), *n = as_float(narrow, count, &scratch);
  if (r && n) {
    compare_pairs(&piece, r, n, count);
    compare_end_run(c, &piece, step);
    size_t width = reference->rank == 2 ? (size_t)reference->dims[1] : 0;
    if (counts_exactly(reference->elem_type)) {
      c->rows += count;
      for (size_t i = 0; i < count; i++)
        c->rows_agree += r[i] == n[i];
    } else if (width > 1) {
      compare_rows(c, r, n, count / width, width);
      const struct array *labels = find_label(s, v->twin.outputs[2 * k]);
      if (labels)
        compare_with_labels(c, labels, r, n, count / width, width, &scratch);
    }
  }
  arena_free(&scratch);
}

// ---- running ----

static enum status run_sample(struct verification *v, struct session *session, struct sample *s,
                              size_t step, struct diag *d) {
  emulate_sample(s);
  v->sample_labels[step] = arena_strdup(v->arena, s->label);
  v->probe.step = (int64_t)step;
  size_t n_inputs = 0;
  struct array *inputs = arena_array(&s->arena, s->n_arrays, sizeof *inputs);
  for (size_t i = 0; i < s->n_arrays; i++)
    if (strncmp(s->arrays[i].name, "label:", 6) != 0)
      inputs[n_inputs++] = s->arrays[i];
  size_t n_outputs = 2 * v->twin.n_outputs;
  struct array *outputs = arena_array(&s->arena, n_outputs, sizeof *outputs);
  TRY(session_run(session, inputs, n_inputs, v->twin.outputs, n_outputs, outputs, d));
  for (size_t k = 0; k < v->twin.n_outputs; k++)
    compare_output(v, k, &outputs[2 * k], &outputs[2 * k + 1], s, (int64_t)step);
  return STATUS_OK;
}

static enum status run_samples(struct verification *v, struct engine *engine,
                               struct samples *samples, const struct verify_options *options,
                               struct diag *d) {
  struct session_options session_options = {
      .optimisation = OPTIMISE_BASIC,
      .threads = options->threads,
      .initializers = v->twin.packed.initializers,
      .n_initializers = v->twin.packed.n_initializers,
      .directory = v->twin.packed.directory,
      .lean = v->twin.packed.large,
      .probe = &v->probe,
  };
  struct session *session;
  recorder_action(options->recorder, "while it loaded both models");
  TRY(session_open(&session, engine, v->twin.packed.bytes, v->twin.packed.size, &session_options,
                   d));
  enum status status = STATUS_OK;
  for (size_t i = 0; i < options->n_steps && status == STATUS_OK; i++) {
    struct sample sample;
    status = samples_read(samples, options->steps[i], &sample, d);
    if (status != STATUS_OK)
      break;
    if (options->recorder) {
      recorder_sample(options->recorder, i + 1, options->n_steps, sample.label);
      recorder_place(options->recorder, &v->probe.places[v->twin.n_compared]);
    }
    status = run_sample(v, session, &sample, i, d);
    sample_free(&sample);
    if (options->progress)
      progress_show("verify", i + 1, options->n_steps);
  }
  session_close(session);
  return status;
}

// ---- judging ----

static double measure(const struct compare *c, enum metric metric) {
  switch (metric) {
  case METRIC_MAX_ABS: return c->newly_nonfinite ? INFINITY : (double)c->max_abs;
  case METRIC_RELATIVE_L2: return compare_relative_l2(c);
  case METRIC_COSINE: return compare_cosine(c);
  case METRIC_SQNR_DB: return compare_sqnr_db(c);
  case METRIC_TOP1: return compare_top1(c);
  case METRIC_LABEL_LOSS:
    return ((double)c->reference_right - (double)c->narrow_right) / (double)c->labelled;
  case METRIC_FINITE: return (double)c->newly_nonfinite;
  }
  return NAN;
}

static bool within(enum metric metric, double measured, double limit) {
  bool larger_is_better =
      metric == METRIC_COSINE || metric == METRIC_SQNR_DB || metric == METRIC_TOP1;
  return larger_is_better ? measured >= limit : measured <= limit;
}

// Where every element of the fp32 output is NaN or infinite, nothing was compared.
static bool compared(const struct compare *c) {
  return c->count == 0 || c->reference_nonfinite < c->count;
}

// Integer outputs are only asked for equality (top-1); scores only where there are rows; losses
// against labels only where there are labels.
static bool applies(const struct verification *v, const struct claim *claim, size_t k) {
  int value = v->twin.output_values[k];
  bool exact = value >= 0 && counts_exactly(v->source->values[value].type.elem_type);
  const struct compare *c = &v->verdict->outputs[k].error;
  if (c->runs == 0)
    return false;
  if (claim->metric == METRIC_LABEL_LOSS && c->labelled == 0)
    return false;
  if (claim->metric == METRIC_TOP1 && c->rows == 0)
    return false;
  if (exact && claim->metric != METRIC_TOP1)
    return false;
  if (!claim->outputs)
    return true;
  for (const char **glob = claim->outputs; *glob; glob++)
    if (glob_match(*glob, v->twin.outputs[2 * k]))
      return true;
  return false;
}

// A claim on outputs by name that no output has is a slip of the pen.
static void warn_of_idle_claims(const struct verification *v, struct diag *d) {
  for (int i = 0; i < v->plan->n_claims; i++) {
    const struct claim *claim = &v->plan->claims[i];
    bool matched = !claim->outputs;
    for (size_t k = 0; k < v->twin.n_outputs && !matched; k++)
      for (const char **glob = claim->outputs; *glob && !matched; glob++)
        matched = glob_match(*glob, v->twin.outputs[2 * k]);
    if (!matched)
      diag_warn(d, "claim \"%s\" names no output of the model: see `narrowcast inspect`",
                claim->id);
  }
}

static void judge(struct verification *v) {
  struct verdict *out = v->verdict;
  size_t pairs = v->twin.n_outputs;
  out->claims = arena_array(v->arena, pairs * (size_t)v->plan->n_claims, sizeof *out->claims);
  out->holds = true;
  for (int i = 0; i < v->plan->n_claims; i++)
    for (size_t k = 0; k < pairs; k++) {
      const struct claim *claim = &v->plan->claims[i];
      if (!applies(v, claim, k))
        continue;
      const struct compare *c = &v->verdict->outputs[k].error;
      double measured = measure(c, claim->metric);
      bool holds =
          within(claim->metric, measured, claim->limit) && c->mismatched == 0 && compared(c);
      int64_t worst =
          claim->metric == METRIC_FINITE ? c->first_newly_nonfinite_step : c->worst_step;
      out->claims[out->n_claims++] = (struct verdict_claim){
          .claim = claim,
          .output = v->verdict->outputs[k].name,
          .measured = measured,
          .shape_mismatches = c->mismatched,
          .nothing_compared = !compared(c),
          .holds = holds,
          .sample = worst >= 0 ? v->sample_labels[worst] : "",
      };
      out->holds = out->holds && holds;
    }
}

// Error that a node's output has beyond the largest of its inputs.
static void find_worst_local(struct verdict *out, const struct graph *g) {
  for (int n = 0; n < g->n_nodes; n++) {
    const struct node *node = &g->nodes[n];
    if (node->scope != 0)
      continue;
    double inherited = 0;
    for (int k = 0; k < node->n_inputs; k++) {
      int v = node->inputs[k];
      if (v >= 0 && out->values[v].runs > 0)
        inherited = fmax(inherited, compare_relative_l2(&out->values[v]));
    }
    for (int k = 0; k < node->n_outputs; k++) {
      int v = node->outputs[k];
      if (v < 0 || out->values[v].runs == 0)
        continue;
      double local = compare_relative_l2(&out->values[v]) - inherited;
      if (local > out->worst_local_error) {  // false where both are infinite
        out->worst_local_error = local;
        out->worst_local = v;
      }
    }
  }
}

static void find_first_nonfinite(struct verification *v) {
  struct verdict *out = v->verdict;
  const struct graph *g = v->source;
  for (int i = 0; i < g->scopes[0].n_nodes && out->first_nonfinite < 0; i++) {
    const struct node *node = &g->nodes[g->scopes[0].order[i]];
    for (int k = 0; k < node->n_outputs && out->first_nonfinite < 0; k++) {
      int value = node->outputs[k];
      if (value < 0 || out->values[value].newly_nonfinite == 0)
        continue;
      out->first_nonfinite = value;
      int64_t step = out->values[value].first_newly_nonfinite_step;
      out->first_nonfinite_sample = step >= 0 ? v->sample_labels[step] : "";
    }
  }
}

// By Compare id, which count backwards (verify_twin.c), and at the end that of a run which has
// compared nothing.
static const struct record_place *make_places(struct verification *run) {
  size_t n = run->twin.n_compared;
  int *values = arena_array(run->arena, n, sizeof *values);
  for (size_t i = 0; i < n; i++)
    values[i] = run->twin.values[n - 1 - i];
  const struct record_place *ready = places_make(run->source, values, n, run->arena);
  struct record_place *places = arena_array(run->arena, n + 1, sizeof *places);
  for (size_t i = 0; i < n; i++)
    places[i] = ready[n - 1 - i];
  places[n] = ready[n];
  return places;
}

// Runs the twin and fills the verdict.
static enum status run_twin(struct verification *run, struct engine *engine,
                            struct samples *samples, const struct verify_options *options,
                            struct diag *d) {
  struct verdict *v = run->verdict;
  struct arena *a = run->arena;
  run->probe.n_compared = run->twin.n_compared;
  run->probe.compared = arena_array(a, run->twin.n_compared, sizeof *run->probe.compared);
  v->n_outputs = (int)run->twin.n_outputs;
  v->outputs = arena_array(a, run->twin.n_outputs, sizeof *v->outputs);
  run->sample_labels = arena_array(a, options->n_steps, sizeof *run->sample_labels);
  for (size_t i = 0; i < run->twin.n_compared; i++)
    compare_init(&run->probe.compared[i]);
  run->probe.recorder = options->recorder;
  if (run->probe.recorder)
    run->probe.places = make_places(run);
  for (size_t i = 0; i < run->twin.n_outputs; i++) {
    v->outputs[i].name = arena_strdup(a, run->twin.outputs[2 * i]);
    v->outputs[i].value = run->twin.output_values[i];
    compare_init(&v->outputs[i].error);
  }
  for (int i = 0; i < v->n_values; i++)
    compare_init(&v->values[i]);
  TRY(run_samples(run, engine, samples, options, d));
  for (size_t i = 0; i < run->twin.n_compared; i++)
    v->values[run->twin.values[i]] = run->probe.compared[i];
  judge(run);
  warn_of_idle_claims(run, d);
  find_first_nonfinite(run);
  find_worst_local(v, run->source);
  return STATUS_OK;
}

bool verdict_holds(const struct verdict *v) {
  return v->holds && (v->loads_everywhere || !v->has_kernels);
}

enum status verify_run(struct verdict *v, struct graph *source, struct graph *emitted,
                       const struct plan *p, struct engine *engine, struct samples *samples,
                       const struct verify_options *options, struct arena *a, struct diag *d) {
  double start = clock_seconds();
  *v = (struct verdict){
      .values = arena_array(a, (size_t)source->n_values, sizeof *v->values),
      .n_values = source->n_values,
      .first_nonfinite = -1,
      .worst_local = -1,
      .samples = options->n_steps,
      .held_out = options->held_out,
  };
  struct verification run = {.verdict = v, .source = source, .plan = p, .arena = a};
  struct arena scratch = {0};  // of the twin
  enum status status = twin_build(&run.twin, source, emitted, p, &scratch, d);
  if (status == STATUS_OK)
    status = run_twin(&run, engine, samples, options, d);
  arena_free(&scratch);
  v->seconds = clock_seconds() - start;
  return status;
}
