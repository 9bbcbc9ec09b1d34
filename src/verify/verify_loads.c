// Whether the engine loads and runs the emitted model as it is, at every optimisation level: in a
// child process where the caller has no other threads, since engines have crashed and hung on valid
// models. What it computes is not judged (a CPU computes fp16 as fp32 between Casts); that it
// computes is.
#include "verify.h"

#include "child.h"
#include "clock.h"
#include "clone.h"
#include "round.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct attempt {
  struct engine *engine;
  const struct packed_model *packed;
  const struct array *inputs;
  size_t n_inputs;
  const char **outputs;  // names
  size_t n_outputs;
  const struct trial *trial;
  bool keep_quantised;
};

// An array for an input that the emitted model takes narrower than the sample gives it.
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

// The sample as the emitted model takes it, and the outputs to ask for.
static void prepare(struct attempt *t, const struct graph *emitted, struct sample *sample) {
  for (size_t i = 0; i < sample->n_arrays; i++) {
    if (strncmp(sample->arrays[i].name, "label:", 6) == 0)
      continue;
    sample->arrays[t->n_inputs] = sample->arrays[i];
    fit_array(&sample->arrays[t->n_inputs++], emitted, &sample->arena);
  }
  t->inputs = sample->arrays;
  const struct scope *scope = &emitted->scopes[0];
  t->outputs = arena_array(&sample->arena, (size_t)scope->n_outputs, sizeof *t->outputs);
  for (int i = 0; i < scope->n_outputs; i++)
    if (scope->outputs[i] >= 0)
      t->outputs[t->n_outputs++] = emitted->values[scope->outputs[i]].name;
}

static enum status load_and_run(const struct attempt *t, enum optimisation level, struct diag *d) {
  struct session_options options = {
      .optimisation = level,
      .keep_quantised = t->keep_quantised,
      .threads = 1,
      .initializers = t->packed->initializers,
      .n_initializers = t->packed->n_initializers,
      .directory = t->packed->directory,
  };
  struct session *session;
  TRY(session_open(&session, t->engine, t->packed->bytes, t->packed->size, &options, d));
  struct arena scratch = {0};
  struct array *results = arena_array(&scratch, t->n_outputs, sizeof *results);
  enum status status =
      session_run(session, t->inputs, t->n_inputs, t->outputs, t->n_outputs, results, d);
  arena_free(&scratch);
  session_close(session);
  return status;
}

// ---- In the calling process ----

static void try_here(const struct attempt *t, enum optimisation level, char *message, size_t size) {
  struct diag d = {0};
  message[0] = '\0';
  if (load_and_run(t, level, &d) != STATUS_OK)
    snprintf(message, size, "%.*s", (int)size - 1, d.message);
}

// ---- In a child ----

// The child: writes what went wrong to the pipe, and ends with 0 if nothing did.
static _Noreturn void child_main(const struct attempt *t, enum optimisation level, int out) {
  child_expect_crash();
  struct diag d = {0};
  enum status status = load_and_run(t, level, &d);
  ssize_t written = status == STATUS_OK ? 0 : write(out, d.message, strlen(d.message));
  _exit(status == STATUS_OK && written == 0 ? 0 : 1);
}

// Milliseconds until then, for poll(2).
static int milliseconds_until(double end) {
  double left = (end - clock_seconds()) * 1000;
  return left <= 0 ? 0 : left < INT_MAX ? (int)left + 1 : INT_MAX;
}

// Reads until the writer has closed its end. False: it has not within so many seconds.
static bool read_message(int from, double seconds, char *message, size_t size) {
  double end = clock_seconds() + seconds;
  size_t length = 0;
  for (;;) {
    struct pollfd readable = {.fd = from, .events = POLLIN};
    int left = milliseconds_until(end);
    int ready = left > 0 ? poll(&readable, 1, left) : 0;  // what comes too late is too late
    if (ready < 0 && errno == EINTR)
      continue;
    ssize_t got = ready > 0 ? read(from, message + length, size - 1 - length) : 0;
    length += got > 0 ? (size_t)got : 0;
    message[length] = '\0';
    if (ready == 0 || got <= 0 || length == size - 1)
      return ready != 0;
  }
}

// Waits for the child and says how it ended, if it did not say so itself.
static void end_child(pid_t child, bool in_time, double seconds, char *message, size_t size) {
  char end[80];
  if (!in_time)
    kill(child, SIGKILL);
  int state = child_wait(child);
  if (!in_time) {
    snprintf(message, size, "the engine did not end within %.0f s and was stopped", seconds);
  } else if (WIFSIGNALED(state)) {
    child_describe(state, end, sizeof end);
    snprintf(message, size, "the engine %s", end);
  } else if (WEXITSTATUS(state) != 0 && message[0] == '\0') {
    snprintf(message, size, "the engine failed without a message");
  }
}

// `message` gets "" if all went well.
static enum status try_in_child(const struct attempt *t, enum optimisation level, char *message,
                                size_t size, struct diag *d) {
  int ends[2];
  if (pipe(ends) != 0)
    return diag_fail(d, STATUS_IO, "cannot make a pipe: %s", strerror(errno));
  pid_t child = child_fork(d);
  if (child == 0)
    child_main(t, level, ends[1]);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return d->status;
  }
  bool in_time = read_message(ends[0], t->trial->seconds, message, size);
  close(ends[0]);
  end_child(child, in_time, t->trial->seconds, message, size);
  return STATUS_OK;
}

// ---- Levels ----

static enum status try_levels(struct verdict *v, const struct attempt *attempt, struct diag *d) {
  v->loads_everywhere = true;
  for (int i = OPTIMISE_NONE; i <= OPTIMISE_ALL; i++) {
    enum optimisation level = (enum optimisation)i;
    if (attempt->trial->in_process)
      try_here(attempt, level, v->loads[i], sizeof v->loads[i]);
    else
      TRY(try_in_child(attempt, level, v->loads[i], sizeof v->loads[i], d));
    v->loads_everywhere = v->loads_everywhere && v->loads[i][0] == '\0';
  }
  return STATUS_OK;
}

static bool holds_float8(const struct graph *g) {
  for (int v = 0; v < g->n_values; v++) {
    const struct format *f = format_from_onnx(g->values[v].type.elem_type);
    if (f && f->stored_bits <= 8)
      return true;
  }
  return false;
}

static void note_missing_kernels(struct verdict *v, const struct graph *emitted) {
  v->has_kernels = true;
  for (int i = 0; i < emitted->n_values; i++) {
    const struct format *f = format_from_onnx(emitted->values[i].type.elem_type);
    if (!f || (f->id != FORMAT_BF16 && f->id != FORMAT_FP4E2M1))
      continue;
    v->has_kernels = false;
    v->kernels_missing = f->id;
  }
}

enum status verify_loads(struct verdict *v, struct graph *emitted, struct engine *engine,
                         struct samples *samples, const struct trial *trial, struct diag *d) {
  note_missing_kernels(v, emitted);
  struct arena scratch = {0};
  struct model copy = clone_model(emitted->model, &scratch);
  struct packed_model packed;
  struct sample sample = {0};
  struct attempt attempt = {.engine = engine, .packed = &packed, .trial = trial};
  enum status status = clone_pack(&packed, &copy, &scratch, d);
  if (status == STATUS_OK)
    status = samples_read(samples, trial->step, &sample, d);
  if (status == STATUS_OK) {
    prepare(&attempt, emitted, &sample);
    status = try_levels(v, &attempt, d);
  }
  if (status == STATUS_OK && !v->loads_everywhere && holds_float8(emitted)) {
    attempt.keep_quantised = true;
    status = try_levels(v, &attempt, d);
    v->loads_unfused = v->loads_everywhere;
  }
  sample_free(&sample);
  arena_free(&scratch);
  return status;
}
