// Tries the emitted model as it is in the engine, at every optimisation level: in a child process
// where the caller has no other threads, since engines have crashed and hung on valid models. At
// the level that sessions have by default, what it computes of the held-out samples is compared
// with fp32, beside the emulation that judges: that is what a user of this engine gets. It does not
// decide whether a claim holds, because one machine's kernels are no other's (a CPU computes fp16
// as fp32 between Casts, or adds up in fp16); but it is stated beside each.
#include "verify.h"

#include "child.h"
#include "clock.h"
#include "clone.h"
#include "emulate.h"
#include "map.h"
#include "random_seeds.h"
#include "round.h"
#include "verify_judge.h"
#include "verify_outputs.h"
#include "verify_rows.h"
#include "verify_twin.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// What an attempt leaves, in memory that a child shares with its parent: it may not live to tell.
struct outcome {
  struct diag diag;     // what went wrong
  bool bad_sample;      // ... and not in the engine: a sample cannot be read
  size_t compared;      // samples that `seen` is of
  struct verdict seen;  // its outputs and rows, which stand behind this, of the set in_engine
};

struct attempt {
  struct engine *engine;
  const struct packed_model *packed;  // the emitted model
  const struct reference *reference;  // the trial's, or NULL
  const struct graph *emitted;
  struct samples *samples;
  const struct trial *trial;
  bool keep_quantised;
  const char **outputs;  // of the emitted model, names
  size_t n_outputs;
  const struct verdict *verdict;
  const char **compared;  // names of its outputs, and which of `outputs` each is
  int *places;
  size_t n_compared;
  struct outcome *outcome;
  struct diag said[OPTIMISATION_LEVELS];  // by the engine of the emitted model
};

// An array for an input that the emitted model, if it is that, takes narrower than the sample gives
// it.
static void fit_array(struct array *array, const struct graph *g, struct arena *a) {
  int v = map_get(&g->names, 0, array->name);
  const struct format *wanted = v >= 0 ? format_from_onnx(g->values[v].type.elem_type) : NULL;
  if (!wanted || wanted->id != FORMAT_FP16 ||
      array->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
    return;
  size_t count = array->size / sizeof(float);
  uint16_t *codes = arena_array(a, count, sizeof *codes);
  struct round_mode mode = {.format = wanted};
  round_encode_array(&mode, array->data, codes, count);
  array->elem_type = wanted->onnx_type;
  array->data = codes;
  array->size = count * sizeof *codes;
}

static const struct array *fitted(const struct sample *s, const struct graph *emitted,
                                  struct arena *a) {
  struct array *arrays = arena_array(a, s->n_arrays, sizeof *arrays);
  for (size_t i = 0; i < s->n_arrays; i++) {
    arrays[i] = s->arrays[i];
    if (emitted)
      fit_array(&arrays[i], emitted, a);
  }
  return arrays;
}

// The names to ask for, and where those that the verdict compares are among them.
static void prepare(struct attempt *t, const struct verdict *v, struct arena *a) {
  const struct scope *scope = &t->emitted->scopes[0];
  struct map places = {.arena = a};
  t->outputs = arena_array(a, (size_t)scope->n_outputs, sizeof *t->outputs);
  for (int i = 0; i < scope->n_outputs; i++) {
    if (scope->outputs[i] < 0)
      continue;
    const char *name = t->emitted->values[scope->outputs[i]].name;
    map_put(&places, 0, name, (int)t->n_outputs);
    t->outputs[t->n_outputs++] = name;
  }
  t->n_compared = (size_t)v->n_outputs;
  t->compared = arena_array(a, t->n_compared, sizeof *t->compared);
  t->places = arena_array(a, t->n_compared, sizeof *t->places);
  for (size_t k = 0; k < t->n_compared; k++) {
    t->compared[k] = v->outputs[k].name;
    t->places[k] = map_get(&places, 0, v->outputs[k].name);
  }
}

static enum status open_model(const struct attempt *t, enum optimisation level,
                              struct session **session, struct diag *d) {
  const struct packed_model *packed = t->packed;
  struct session_options options = {
      .optimisation = level,
      .keep_quantised = t->keep_quantised,
      .threads = level == OPTIMISE_ALL ? t->trial->threads : 1,
      .initializers = packed->initializers,
      .n_initializers = packed->n_initializers,
      .directory = packed->directory,
      .lean = packed->large,
  };
  return session_open(session, t->engine, packed->bytes, packed->size, &options, d);
}

// Compares what the emitted model gave for the k-th sample with what fp32 gave.
static void compare_with(const struct attempt *t, const struct array *wanted, struct sample *s,
                         const struct array *results, size_t k) {
  struct verdict *seen = &t->outcome->seen;
  struct array *pairs = arena_array(&s->arena, 2 * t->n_compared, sizeof *pairs);
  emulate_sample(s);
  for (size_t i = 0; i < t->n_compared; i++) {
    pairs[2 * i] = wanted[i];
    if (t->places[i] >= 0)
      pairs[2 * i + 1] = results[t->places[i]];
    outputs_compare(&seen->outputs[i].on[SET_IN_ENGINE], t->compared[i], &pairs[2 * i],
                    &pairs[2 * i + 1], s, (int64_t)k);
  }
  struct row_sample sample = {SET_IN_ENGINE, (int64_t)k, t->verdict->sample_labels[k], pairs, NULL};
  rows_compare(seen, &sample);
}

// Runs the k-th of the trial's samples, and compares it if it is of those to compare.
static enum status run_sample(const struct attempt *t, struct session *emitted, size_t k,
                              struct diag *d) {
  struct sample s = {0};
  t->outcome->bad_sample = samples_read(t->samples, t->trial->steps[k], &s, d) != STATUS_OK;
  if (t->outcome->bad_sample)
    return d->status;
  struct array *results = arena_array(&s.arena, t->n_outputs, sizeof *results);
  enum status status = session_run(emitted, fitted(&s, t->emitted, &s.arena), s.n_arrays,
                                   t->outputs, t->n_outputs, results, d);
  if (status == STATUS_OK && k < t->outcome->compared)
    compare_with(t, &t->reference->arrays[k * t->n_compared], &s, results, k);
  sample_free(&s);
  return status;
}

// At the default level all samples that there is room for; at the others the first, to see that it
// runs.
static enum status load_and_run(const struct attempt *t, enum optimisation level, struct diag *d) {
  struct session *emitted = NULL;
  bool compares = level == OPTIMISE_ALL && t->reference;
  t->outcome->compared = compares ? t->reference->samples : 0;
  size_t n = t->outcome->compared ? t->outcome->compared : 1;
  enum status status = open_model(t, level, &emitted, d);
  for (size_t k = 0; k < n && status == STATUS_OK; k++)
    status = run_sample(t, emitted, k, d);
  session_close(emitted);
  return status;
}

// ---- In a child ----

// The parent sees the end of the pipe when the child has ended, however it does.
static _Noreturn void child_main(const struct attempt *t, enum optimisation level) {
  child_expect_crash();
  load_and_run(t, level, &t->outcome->diag);
  _exit(0);
}

// Milliseconds until then, for poll(2).
static int milliseconds_until(double end) {
  double left = (end - clock_seconds()) * 1000;
  return left <= 0 ? 0 : left < INT_MAX ? (int)left + 1 : INT_MAX;
}

// Waits until the writer has closed its end. False: it has not within so many seconds.
static bool wait_for_end(int from, double seconds) {
  double end = clock_seconds() + seconds;
  for (;;) {
    struct pollfd readable = {.fd = from, .events = POLLIN};
    int left = milliseconds_until(end);
    int ready = left > 0 ? poll(&readable, 1, left) : 0;  // what comes too late is too late
    if (ready >= 0 || errno != EINTR)
      return ready != 0;
  }
}

// Waits for the child and says how it ended, if it could not say so itself.
static void end_child(pid_t child, bool in_time, double seconds, struct diag *d) {
  char end[80];
  if (!in_time)
    kill(child, SIGKILL);
  int state = child_wait(child);
  if (in_time && WIFEXITED(state) && WEXITSTATUS(state) == 0)
    return;
  diag_clear(d);
  child_describe(state, end, sizeof end);
  if (!in_time)
    diag_fail(d, STATUS_ENGINE, "the engine did not end within %.0f s and was stopped", seconds);
  else if (WIFSIGNALED(state))
    diag_fail(d, STATUS_ENGINE, "the engine %s", end);
  else
    diag_fail(d, STATUS_ENGINE, "the engine ended the process");
}

static enum status try_in_child(const struct attempt *t, enum optimisation level, struct diag *d) {
  int ends[2];
  if (pipe(ends) != 0)
    return diag_fail(d, STATUS_IO, "cannot make a pipe: %s", strerror(errno));
  pid_t child = child_fork(d);
  if (child == 0)
    child_main(t, level);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return d->status;
  }
  bool in_time = wait_for_end(ends[0], t->trial->seconds);
  close(ends[0]);
  end_child(child, in_time, t->trial->seconds, &t->outcome->diag);
  return STATUS_OK;
}

// ---- Levels ----

static size_t outcome_size(const struct verdict *v) {
  return sizeof(struct outcome) + (size_t)v->n_outputs * sizeof *v->outputs +
         (size_t)v->n_rows * sizeof *v->rows;
}

static void begin_outcome(struct outcome *outcome, const struct verdict *v) {
  *outcome = (struct outcome){.seen = {.n_outputs = v->n_outputs, .n_rows = v->n_rows}};
  struct verdict *seen = &outcome->seen;
  seen->outputs = (struct verdict_output *)(outcome + 1);
  seen->rows = (struct verdict_rows *)(seen->outputs + v->n_outputs);
  for (int i = 0; i < v->n_outputs; i++) {
    seen->outputs[i] = v->outputs[i];
    compare_init(&seen->outputs[i].on[SET_IN_ENGINE]);
    compare_init(&seen->outputs[i].paired[SET_IN_ENGINE]);
    seen->outputs[i].alone_nonfinite[SET_IN_ENGINE] = 0;
  }
  for (int i = 0; i < v->n_rows; i++) {
    seen->rows[i] = v->rows[i];
    seen->rows[i].on[SET_IN_ENGINE] = (struct row_counts){.worst_step = -1};
  }
}

// Leaves in t->outcome what came of it. Errors: those of samples and of processes.
static enum status try_level(const struct attempt *t, enum optimisation level, struct diag *d) {
  const struct diag *said = &t->outcome->diag;
  begin_outcome(t->outcome, t->verdict);
  if (t->trial->in_process)
    load_and_run(t, level, &t->outcome->diag);
  else
    TRY(try_in_child(t, level, d));
  if (said->status == STATUS_OK || !t->outcome->bad_sample)
    return STATUS_OK;
  diag_at(d, said->file, NULL, NULL);
  diag_hint(d, "%s", said->hint);
  return diag_fail(d, said->status, "%s", said->message);
}

static void note_outcome(struct verdict *v, const struct outcome *outcome, int level) {
  const struct diag *said = &outcome->diag;
  bool failed = said->status != STATUS_OK;
  snprintf(v->loads[level], sizeof v->loads[level], "%.*s", LOAD_MESSAGE - 1, said->message);
  v->unsupported[level] = said->unsupported;
  if (failed || !outcome->compared)
    return;
  v->engine_samples = outcome->compared;
  for (int i = 0; i < v->n_outputs; i++)
    v->outputs[i] = outcome->seen.outputs[i];
  for (int i = 0; i < v->n_rows; i++)
    v->rows[i] = outcome->seen.rows[i];
}

// Whether the model, which nothing was made narrow in, fails at that level too.
static enum status try_source(const struct attempt *t, const struct model *source,
                              enum optimisation level, bool *fails, struct diag *d) {
  struct arena scratch = {0};
  struct packed_model packed;
  struct model copy = clone_model(source, &scratch);
  struct attempt alone = *t;
  alone.packed = &packed;
  alone.reference = NULL;
  alone.emitted = NULL;
  alone.keep_quantised = false;
  enum status status = clone_pack(&packed, &copy, &scratch, d);
  if (status == STATUS_OK)
    status = try_level(&alone, level, d);
  *fails = t->outcome->diag.status != STATUS_OK;
  arena_free(&scratch);
  return status;
}

// A level at which the source fails as well is one that its users do without.
static enum status blame(struct verdict *v, const struct attempt *t, struct diag *d) {
  const struct trial *trial = t->trial;
  v->loads_everywhere = true;
  for (int level = OPTIMISE_NONE; level <= OPTIMISE_ALL; level++) {
    v->source_fails[level] = v->raise_fails[level] = false;
    if (t->said[level].status == STATUS_OK)
      continue;
    if (trial->given)
      TRY(try_source(t, trial->given, (enum optimisation)level, &v->source_fails[level], d));
    if (trial->raised && !v->source_fails[level])
      TRY(try_source(t, trial->raised, (enum optimisation)level, &v->raise_fails[level], d));
    v->loads_everywhere = v->loads_everywhere && v->source_fails[level];
  }
  return STATUS_OK;
}

static enum status try_levels(struct verdict *v, struct attempt *t, struct diag *d) {
  v->engine_samples = 0;
  for (int level = OPTIMISE_NONE; level <= OPTIMISE_ALL; level++) {
    TRY(try_level(t, (enum optimisation)level, d));
    note_outcome(v, t->outcome, level);
    t->said[level] = t->outcome->diag;
  }
  return blame(v, t, d);
}

static bool holds_float8(const struct graph *g) {
  for (int v = 0; v < g->n_values; v++) {
    const struct format *f = format_from_onnx(g->values[v].type.elem_type);
    if (f && f->stored_bits <= 8)
      return true;
  }
  return false;
}

// The format of a value of the node that engines have no kernels of for a CPU, or NULL.
static const struct format *rare_format(const struct graph *g, const struct node *n) {
  for (int k = 0; k < n->n_inputs + n->n_outputs; k++) {
    int v = k < n->n_inputs ? n->inputs[k] : n->outputs[k - n->n_inputs];
    const struct format *f = v >= 0 ? format_from_onnx(g->values[v].type.elem_type) : NULL;
    if (f && (f->id == FORMAT_BF16 || f->id == FORMAT_FP4E2M1))
      return f;
  }
  return NULL;
}

// Of the node that the engine has no implementation of; of any with its operator, if there is none
// of its name, which the engine changes as it fuses nodes. *known: there are such nodes.
static const struct format *lacking_format(const struct graph *g, const struct diag *said,
                                           bool *known) {
  const struct format *of_name = NULL, *of_operator = NULL;
  bool named = false;
  *known = false;
  for (int i = 0; i < g->n_nodes; i++) {
    const struct node *n = &g->nodes[i];
    if (strcmp(n->proto->op_type, said->op) != 0)
      continue;
    *known = true;
    const struct format *f = rare_format(g, n);
    of_operator = f ? f : of_operator;
    if (said->node[0] && n->proto->name && strcmp(n->proto->name, said->node) == 0) {
      named = true;
      of_name = f ? f : of_name;
    }
  }
  return named ? of_name : of_operator;
}

// That the engine has no kernels for a format is no fault of the result, if that, and nothing else,
// is what it says at each level. (It checks types first, so a wrong one does not hide behind it.)
// An operator that the result does not have is the engine's own, made of some of it: it says
// nothing beyond what was said of these at a lower level.
static void note_missing_kernels(struct verdict *v, const struct attempt *t) {
  const struct format *lacking = NULL;
  v->has_kernels = true;
  for (int level = OPTIMISE_NONE; level <= OPTIMISE_ALL; level++) {
    const struct diag *said = &t->said[level];
    bool known;
    if (said->status == STATUS_OK || v->source_fails[level])
      continue;
    const struct format *f = lacking_format(t->emitted, said, &known);
    if (!said->unsupported || (!f && (known || !lacking)))
      return;
    lacking = f ? f : lacking;
  }
  if (!lacking)
    return;
  v->has_kernels = false;
  v->kernels_missing = lacking->id;
}

static enum status try_model(struct verdict *v, struct attempt *t, struct diag *d) {
  TRY(try_levels(v, t, d));
  if (!v->loads_everywhere && holds_float8(t->emitted)) {
    t->keep_quantised = true;
    TRY(try_levels(v, t, d));
    v->loads_unfused = v->loads_everywhere;
  }
  note_missing_kernels(v, t);
  return STATUS_OK;
}

enum status verify_loads(struct verdict *v, struct graph *emitted, struct engine *engine,
                         struct samples *samples, const struct trial *trial, struct diag *d) {
  struct arena scratch = {0};
  struct packed_model packed;
  struct attempt attempt = {
      .engine = engine,
      .packed = &packed,
      .reference = trial->reference,
      .emitted = emitted,
      .verdict = v,
      .samples = samples,
      .trial = trial,
  };
  prepare(&attempt, v, &scratch);
  struct model copy = clone_model(emitted->model, &scratch);
  random_seeds_give(emitted, &copy, &scratch);
  attempt.outcome = child_share(outcome_size(v), d);
  enum status status = attempt.outcome ? STATUS_OK : d->status;
  if (status == STATUS_OK)
    status = clone_pack(&packed, &copy, &scratch, d);
  if (status == STATUS_OK)
    status = try_model(v, &attempt, d);
  if (status == STATUS_OK && v->engine_samples > 0)
    judge_engine(v, trial->plan, trial->source);
  child_unshare(attempt.outcome, outcome_size(v));
  arena_free(&scratch);
  return status;
}
