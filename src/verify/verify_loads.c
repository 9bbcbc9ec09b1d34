// Whether the engine loads and runs the emitted model as it is, at every optimisation level: in a
// child process, since engines have crashed on valid models. What it computes is not judged (a CPU
// computes fp16 as fp32 between Casts); that it computes is.
#include "verify.h"

#include "child.h"
#include "clone.h"
#include "round.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct attempt {
  struct engine *engine;
  const struct packed_model *packed;
  const struct graph *emitted;
  struct samples *samples;
  size_t step;
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

static enum status run_once(const struct attempt *t, struct session *session, struct diag *d) {
  struct sample sample;
  TRY(samples_read(t->samples, t->step, &sample, d));
  size_t n_inputs = 0, n_outputs = 0;
  for (size_t i = 0; i < sample.n_arrays; i++) {
    if (strncmp(sample.arrays[i].name, "label:", 6) == 0)
      continue;
    sample.arrays[n_inputs] = sample.arrays[i];
    fit_array(&sample.arrays[n_inputs++], t->emitted, &sample.arena);
  }
  const struct scope *scope = &t->emitted->scopes[0];
  size_t limit = (size_t)scope->n_outputs;
  const char **names = arena_array(&sample.arena, limit, sizeof *names);
  struct array *outputs = arena_array(&sample.arena, limit, sizeof *outputs);
  for (size_t i = 0; i < limit; i++)
    if (scope->outputs[i] >= 0)
      names[n_outputs++] = t->emitted->values[scope->outputs[i]].name;
  return session_run(session, sample.arrays, n_inputs, names, n_outputs, outputs, d);
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
  return run_once(t, session, d);
}

// The child: writes what went wrong to the pipe, and ends with 0 if nothing did.
static _Noreturn void child_main(const struct attempt *t, enum optimisation level, int out) {
  child_expect_crash();
  struct diag d = {0};
  enum status status = load_and_run(t, level, &d);
  ssize_t written = status == STATUS_OK ? 0 : write(out, d.message, strlen(d.message));
  _exit(status == STATUS_OK && written == 0 ? 0 : 1);
}

static void read_message(int from, char *message, size_t size) {
  size_t length = 0;
  ssize_t got;
  while (length + 1 < size && (got = read(from, message + length, size - 1 - length)) > 0)
    length += (size_t)got;
  message[length] = '\0';
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
  read_message(ends[0], message, size);
  close(ends[0]);
  int state = child_wait(child);
  char end[80];
  if (WIFSIGNALED(state)) {
    child_describe(state, end, sizeof end);
    snprintf(message, size, "the engine %s", end);
  } else if (WEXITSTATUS(state) != 0 && message[0] == '\0') {
    snprintf(message, size, "the engine failed without a message");
  }
  return STATUS_OK;
}

static enum status try_levels(struct verdict *v, const struct attempt *attempt, struct diag *d) {
  v->loads_everywhere = true;
  for (int level = OPTIMISE_NONE; level <= OPTIMISE_ALL; level++) {
    TRY(try_in_child(attempt, (enum optimisation)level, v->loads[level], sizeof v->loads[level],
                     d));
    v->loads_everywhere = v->loads_everywhere && v->loads[level][0] == '\0';
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

enum status verify_loads(struct verdict *v, struct graph *emitted, struct engine *engine,
                         struct samples *samples, size_t step, struct diag *d) {
  v->has_kernels = true;
  for (int i = 0; i < emitted->n_values; i++) {
    const struct format *f = format_from_onnx(emitted->values[i].type.elem_type);
    if (!f || (f->id != FORMAT_BF16 && f->id != FORMAT_FP4E2M1))
      continue;
    v->has_kernels = false;
    v->kernels_missing = f->id;
  }
  struct arena scratch = {0};
  struct model copy = clone_model(emitted->model, &scratch);
  struct packed_model packed;
  enum status status = clone_pack(&packed, &copy, &scratch, d);
  struct attempt attempt = {engine, &packed, emitted, samples, step, false};
  if (status == STATUS_OK)
    status = try_levels(v, &attempt, d);
  if (status == STATUS_OK && !v->loads_everywhere && holds_float8(emitted)) {
    attempt.keep_quantised = true;
    status = try_levels(v, &attempt, d);
    v->loads_unfused = v->loads_everywhere;
  }
  arena_free(&scratch);
  return status;
}
