// Runs the twin of source and emitted model (verify_twin.c) on samples, and judges the claims by
// what the Compare operators and the outputs show (verify_judge.c): first on those that judge,
// then, unless a claim has failed, on those that calibrated. See verify.h.
#include "verify.h"

#include "clock.h"
#include "clone.h"
#include "emulate.h"
#include "json.h"
#include "nearest.h"
#include "progress.h"
#include "trace_places.h"
#include "verify_judge.h"
#include "verify_outputs.h"
#include "verify_rows.h"
#include "verify_twin.h"

#include <string.h>

struct verification {
  struct verdict *verdict;
  struct graph *source;
  const struct plan *plan;
  struct reference *reference;
  struct choices choices;
  struct twin twin;
  struct probe probe;
  struct compare *compared[SAMPLE_SETS];  // by Compare id
  // [step * outputs + output]: the output had an element, or another shape than in fp32.
  bool *given;
  bool warns;                     // of the first labels that cannot be used
  struct arena *arena, *scratch;  // of the verdict; of the twin
};

// ---- running ----

// Runs one sample, the step-th of all.
static enum status run_sample(struct verification *v, struct session *session, struct sample *s,
                              enum sample_set set, size_t step, struct diag *d) {
  emulate_sample(s);
  v->verdict->sample_labels[step] = arena_strdup(v->arena, s->label);
  v->probe.step = (int64_t)step;
  size_t n_inputs = 0;
  struct array *inputs = arena_array(&s->arena, s->n_arrays, sizeof *inputs);
  for (size_t i = 0; i < s->n_arrays; i++)
    if (strncmp(s->arrays[i].name, "label:", 6) != 0)
      inputs[n_inputs++] = s->arrays[i];
  size_t n_outputs = 2 * v->twin.n_fetched;
  struct array *outputs = arena_array(&s->arena, n_outputs, sizeof *outputs);
  TRY(session_run(session, inputs, n_inputs, v->twin.outputs, n_outputs, outputs, d));
  for (size_t k = 0; k < v->twin.n_outputs; k++) {
    struct compare *c = &v->verdict->outputs[k].on[set];
    uint64_t before = c->count + c->mismatched;
    outputs_compare(c, v->twin.outputs[2 * k], &outputs[2 * k], &outputs[2 * k + 1], s,
                    (int64_t)step);
    v->given[step * v->twin.n_outputs + k] = c->count + c->mismatched > before;
  }
  char fault[LABEL_FAULT];
  if (v->warns && outputs_label_fault(s, v->twin.outputs, outputs, v->twin.n_outputs, fault)) {
    diag_warn(d, "%s; what is no label is left out, here and in the samples that follow", fault);
    v->warns = false;
  }
  if (v->reference && set == SET_HELD_OUT)
    outputs_keep(v->reference, outputs, v->twin.n_outputs, step, v->verdict->samples, v->arena);
  struct row_sample sample = {set, (int64_t)step, v->verdict->sample_labels[step], outputs,
                              v->twin.watched};
  rows_compare(v->verdict, &sample);
  return STATUS_OK;
}

// Runs one set, whose first sample is the first-th of all.
static enum status run_set(struct verification *v, struct session *session, struct samples *samples,
                           const struct verify_options *options, enum sample_set set,
                           struct diag *d) {
  const size_t *steps = set == SET_HELD_OUT ? options->steps : options->calibration;
  size_t n = set == SET_HELD_OUT ? options->n_steps : options->n_calibration;
  size_t first = set == SET_HELD_OUT ? 0 : options->n_steps;
  v->probe.compared = v->compared[set];
  enum status status = STATUS_OK;
  for (size_t i = 0; i < n && status == STATUS_OK; i++) {
    struct sample sample;
    TRY(samples_read(samples, steps[i], &sample, d));
    if (options->recorder) {
      recorder_sample(options->recorder, i + 1, n, sample.label);
      recorder_place(options->recorder, &v->probe.places[v->twin.n_compared]);
    }
    status = run_sample(v, session, &sample, set, first + i, d);
    sample_free(&sample);
    if (options->progress)
      progress_show("verify", i + 1, n);
  }
  return status;
}

static void judge(struct verification *v) {
  struct verdict *out = v->verdict;
  judge_claims(out, v->plan, v->source, out->sample_labels, v->arena);
  judge_evidence(out, v->given);
}

static enum status run_and_judge(struct verification *v, struct session *session,
                                 struct samples *samples, const struct verify_options *options,
                                 struct diag *d) {
  struct verdict *out = v->verdict;
  TRY(run_set(v, session, samples, options, SET_HELD_OUT, d));
  judge(v);
  if (!out->holds || options->n_calibration == 0)
    return STATUS_OK;
  TRY(run_set(v, session, samples, options, SET_CALIBRATION, d));
  out->calibration_samples = options->n_calibration;
  judge(v);
  return STATUS_OK;
}

static enum status run_sets(struct verification *v, struct engine *engine, struct samples *samples,
                            const struct verify_options *options, struct diag *d) {
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
  enum status status = run_and_judge(v, session, samples, options, d);
  session_close(session);
  return status;
}

static const char *nearest_output(const struct verification *v, const char *const *globs) {
  const char **names = arena_array(v->arena, v->twin.n_outputs + 1, sizeof *names), *near = NULL;
  for (size_t k = 0; k < v->twin.n_outputs; k++)
    names[k] = v->twin.outputs[2 * k];
  for (; *globs && !near; globs++)
    near = nearest_name(*globs, names);
  return near;
}

// A claim on outputs by name that no output has is a slip of the pen.
static void warn_of_idle_claims(const struct verification *v, struct diag *d) {
  for (int i = 0; i < v->plan->n_claims; i++) {
    const struct claim *claim = &v->plan->claims[i];
    bool matched = !claim->outputs;
    for (size_t k = 0; k < v->twin.n_outputs && !matched; k++)
      matched = claim_names(claim, v->twin.outputs[2 * k]);
    const char *near = matched ? NULL : nearest_output(v, claim->outputs);
    if (!matched)
      diag_warn(d, "claim \"%s\" names no output of the model: %s%s%s", claim->id,
                near ? "did you mean " : "see `narrowcast inspect`", near ? near : "",
                near ? "?" : "");
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

static struct compare *new_compares(size_t count, struct arena *a) {
  struct compare *list = arena_array(a, count, sizeof *list);
  for (size_t i = 0; i < count; i++)
    compare_init(&list[i]);
  return list;
}

// By value of the source graph, what the Compare operators saw of a set.
static struct compare *compared_by_value(const struct verification *run, enum sample_set set,
                                         struct arena *a) {
  struct compare *values = new_compares((size_t)run->source->n_values, a);
  for (size_t i = 0; i < run->twin.n_compared; i++)
    values[run->twin.values[i]] = run->compared[set][i];
  return values;
}

static void begin_outputs(const struct verification *run) {
  struct verdict *v = run->verdict;
  v->n_outputs = (int)run->twin.n_outputs;
  v->outputs = arena_array(run->arena, run->twin.n_outputs, sizeof *v->outputs);
  for (size_t i = 0; i < run->twin.n_outputs; i++) {
    v->outputs[i].name = arena_strdup(run->arena, run->twin.outputs[2 * i]);
    v->outputs[i].value = run->twin.output_values[i];
    for (int set = 0; set < ALL_SETS; set++)
      compare_init(&v->outputs[i].on[set]);
  }
}

// Runs the twin and fills the verdict. If only the samples that calibrated break a claim, what
// breaks it is to be found in what they gave.
static enum status run_twin(struct verification *run, struct engine *engine,
                            struct samples *samples, const struct verify_options *options,
                            struct diag *d) {
  struct verdict *v = run->verdict;
  struct arena *a = run->arena;
  size_t n_samples = options->n_steps + options->n_calibration;
  run->verdict->sample_labels = arena_array(a, n_samples, sizeof *run->verdict->sample_labels);
  run->given = arena_array(run->scratch, n_samples * run->twin.n_outputs, sizeof *run->given);
  run->probe.n_compared = run->twin.n_compared;
  for (int set = 0; set < SAMPLE_SETS; set++)
    run->compared[set] = new_compares(run->twin.n_compared, run->scratch);
  run->probe.recorder = options->recorder;
  if (run->probe.recorder)
    run->probe.places = make_places(run);
  begin_outputs(run);
  rows_find(v, run->source, run->plan, &run->choices, a);
  bool first = run->reference && !run->reference->warned;
  run->warns = first;
  TRY(run_sets(run, engine, samples, options, d));
  if (first)
    warn_of_idle_claims(run, d);
  if (first)
    run->reference->warned = true;
  v->values = compared_by_value(run, SET_HELD_OUT, a);
  const struct compare *culprits = v->values;
  if (v->calibration_samples > 0 && !v->holds)
    culprits = v->calibration_values = compared_by_value(run, SET_CALIBRATION, a);
  judge_find_culprits(v, run->source, culprits, run->verdict->sample_labels);
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
      .n_values = source->n_values,
      .first_nonfinite = -1,
      .worst_local = -1,
      .samples = options->n_steps,
      .held_out = options->held_out,
      .enough = p->hold_out.enough,
  };
  struct arena scratch = {0};
  struct verification run = {.verdict = v,
                             .source = source,
                             .plan = p,
                             .reference = options->reference,
                             .arena = a,
                             .scratch = &scratch};
  run.choices = rows_choices(source, p, &scratch);
  enum status status = twin_build(&run.twin, source, emitted, p, run.choices.values,
                                  (size_t)run.choices.n, &scratch, d);
  if (status == STATUS_OK)
    status = run_twin(&run, engine, samples, options, d);
  v->choices = NULL;
  arena_free(&scratch);
  v->seconds = clock_seconds() - start;
  return status;
}
