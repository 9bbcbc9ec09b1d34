// The library's interface: include/narrowcast.h over the stages of pipeline/run.h. Each function of
// it goes through `call`, which is the boundary to a process that is not ours: it checks that the
// stage's needs are there, takes the locale of numbers and messages, and catches the end of memory.
#include "handle.h"
#include "raise_opset.h"
#include "records.h"
#include "summary.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

// The statuses are one list; the public one has its names, and one more.
#define SAME_STATUS(name)                                                                          \
  _Static_assert((int)STATUS_##name == (int)NARROWCAST_##name, "statuses are one list")
SAME_STATUS(OK);
SAME_STATUS(CLAIM);
SAME_STATUS(USAGE);
SAME_STATUS(MODEL);
SAME_STATUS(POLICY);
SAME_STATUS(DATA);
SAME_STATUS(ENGINE);
SAME_STATUS(IO);

enum { MOST_THREADS = 1024, MOST_SAMPLES = 1000000, MOST_STEPS = 1000000 };

const char *narrowcast_version(void) {
  return NARROWCAST_VERSION;
}

const char *narrowcast_status_text(enum narrowcast_status status) {
  return status == NARROWCAST_MEMORY ? "no memory is left" : status_text((enum status)status);
}

struct narrowcast *narrowcast_new(void) {
  struct narrowcast *nc = calloc(1, sizeof *nc);
  if (!nc)
    return NULL;
  nc->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!nc->locale) {
    free(nc);
    return NULL;
  }
  nc->settings.quiet = true;
  nc->settings.in_process = true;
  run_begin(&nc->run, &nc->settings, &nc->diag);
  run_enter(&nc->run, STAGE_NONE);
  return nc;
}

void narrowcast_free(struct narrowcast *nc) {
  if (!nc)
    return;
  if (nc->dead) {
    // Sessions may still be open that nobody knows any more: the engine stays for them.
    nc->run.engine = NULL;
    nc->run.has_trace = false;
  }
  run_close(&nc->run);
  freelocale(nc->locale);
  free(nc->json);
  free(nc);
}

// ---- The boundary ----

typedef enum status stage(struct narrowcast *nc, const void *argument);

static enum status check_needs(struct narrowcast *nc, unsigned needs) {
  static const struct {
    unsigned bit;
    const char *text;
  } missing[] = {
      {HAS_MODEL, "there is no model yet: narrowcast_load_model"},
      {HAS_POLICY, "there is no policy yet: narrowcast_load_policy"},
      {HAS_SAMPLES, "there are no samples yet: narrowcast_open_samples"},
      {HAS_TRACE, "there is no trace yet: narrowcast_trace"},
      {HAS_PLAN, "there is no plan yet: narrowcast_plan"},
      {HAS_RESULT, "there is no result yet: narrowcast_rewrite"},
      {HAS_VERDICT, "there is no verdict yet: narrowcast_verify"},
  };
  for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
    if (needs & ~nc->has & missing[i].bit)
      return diag_fail(&nc->diag, STATUS_USAGE, "%s", missing[i].text);
  return STATUS_OK;
}

// What stands between `setjmp` and its return are only reads: no local is changed.
static enum narrowcast_status guarded(struct narrowcast *nc, stage *work, const void *argument) {
  struct memory_catch here, *before = memory_catch_set(&here);
  if (setjmp(here.place) == 0) {
    enum status status = work(nc, argument);
    run_enter(&nc->run, STAGE_NONE);  // until the next call, time is the caller's
    memory_catch_set(before);
    return (enum narrowcast_status)status;
  }
  memory_catch_set(before);
  nc->dead = true;
  diag_clear(&nc->diag);
  diag_fail(&nc->diag, STATUS_IO, "%zu bytes could not be had", here.bytes);
  return NARROWCAST_MEMORY;
}

static size_t append(char *text, size_t size, size_t length, const char *label, const char *part) {
  if (!part[0])
    return length;
  return length + (size_t)snprintf(text + length, size - length, "%s%s: ", label, part);
}

// The parts of a diag are bounded, and together with their labels shorter than the text.
static void describe_error(struct narrowcast *nc) {
  const struct diag *d = &nc->diag;
  size_t size = sizeof nc->error, length = 0;
  length = append(nc->error, size, length, "", d->file);
  length = append(nc->error, size, length, "node ", d->node);
  length = append(nc->error, size, length, "tensor ", d->tensor);
  snprintf(nc->error + length, size - length, "%s", d->message);
}
_Static_assert(sizeof((struct narrowcast *)0)->error >= sizeof(struct diag), "errors fit");

// Fails as `work` does, or before it: for want of what it needs.
static enum narrowcast_status call_checked(struct narrowcast *nc, unsigned needs, stage *work,
                                           const void *argument) {
  if (!argument)
    return (enum narrowcast_status)diag_fail(&nc->diag, STATUS_USAGE, "an argument is NULL");
  if (check_needs(nc, needs) != STATUS_OK)
    return NARROWCAST_USAGE;
  locale_t before = uselocale(nc->locale);
  enum narrowcast_status status = guarded(nc, work, argument);
  uselocale(before);
  return status;
}

static enum narrowcast_status call(struct narrowcast *nc, unsigned needs, stage *work,
                                   const void *argument) {
  if (nc->dead)
    return NARROWCAST_MEMORY;
  diag_clear(&nc->diag);
  enum narrowcast_status status = call_checked(nc, needs, work, argument);
  nc->error[0] = '\0';
  if (status != NARROWCAST_OK)
    describe_error(nc);
  return status;
}

// For what takes no argument.
static enum narrowcast_status step(struct narrowcast *nc, unsigned needs, stage *work) {
  return call(nc, needs, work, "");
}

// What is loaded is loaded once: other parts of the handle point into it. What fails leaves the
// handle as it was, so that another may be tried: the stages of the run see to that for themselves.
static enum status once(struct narrowcast *nc, unsigned bit, const char *what) {
  if (nc->has & bit)
    return diag_fail(&nc->diag, STATUS_USAGE, "%s was loaded already: take a new handle", what);
  return STATUS_OK;
}

static enum status now_has(struct narrowcast *nc, unsigned bits) {
  nc->has |= bits;
  return STATUS_OK;
}

// ---- Errors and warnings ----

const char *narrowcast_error(const struct narrowcast *nc) {
  return nc->error;
}

const char *narrowcast_error_hint(const struct narrowcast *nc) {
  return nc->diag.hint;
}

const char *narrowcast_error_file(const struct narrowcast *nc) {
  return nc->diag.file;
}

const char *narrowcast_error_node(const struct narrowcast *nc) {
  return nc->diag.node;
}

const char *narrowcast_error_tensor(const struct narrowcast *nc) {
  return nc->diag.tensor;
}

void narrowcast_set_warning(struct narrowcast *nc, void (*warn)(void *context, const char *text),
                            void *context) {
  nc->diag.warn = warn;
  nc->diag.warn_context = context;
}

// ---- Settings ----

static enum status set_engine(struct narrowcast *nc, const void *path) {
  if (nc->run.engine)
    return diag_fail(&nc->diag, STATUS_USAGE, "ONNX Runtime is loaded already");
  nc->settings.ort = arena_strdup(&nc->run.arena, path);
  return STATUS_OK;
}

enum narrowcast_status narrowcast_set_engine(struct narrowcast *nc, const char *path) {
  return call(nc, 0, set_engine, path);
}

static enum status set_threads(struct narrowcast *nc, const void *argument) {
  int threads = *(const int *)argument;
  if (threads < 0 || threads > MOST_THREADS)
    return diag_fail(&nc->diag, STATUS_USAGE, "threads must be from 0 to %d", MOST_THREADS);
  nc->settings.threads = threads;
  return STATUS_OK;
}

enum narrowcast_status narrowcast_set_threads(struct narrowcast *nc, int threads) {
  return call(nc, 0, set_threads, &threads);
}

struct limit {
  const char *name;
  uint64_t most;
};

static enum status set_model_limit(struct narrowcast *nc, const void *argument) {
  const struct limit *limit = argument;
  if (nc->has & HAS_MODEL)
    return diag_fail(&nc->diag, STATUS_USAGE, "a limit comes before the model");
  return model_limit_set(&nc->settings.model_limits, limit->name, limit->most, &nc->diag);
}

enum narrowcast_status narrowcast_set_model_limit(struct narrowcast *nc, const char *name,
                                                  uint64_t most) {
  return call(nc, 0, set_model_limit, name ? &(struct limit){name, most} : NULL);
}

// ---- What is converted, and by which rules ----

static enum status load_model(struct narrowcast *nc, const void *path) {
  TRY(once(nc, HAS_MODEL, "a model"));
  nc->settings.model = arena_strdup(&nc->run.arena, path);
  TRY(run_load_model(&nc->run));
  return now_has(nc, HAS_MODEL);
}

enum narrowcast_status narrowcast_load_model(struct narrowcast *nc, const char *path) {
  return call(nc, 0, load_model, path);
}

// A policy may raise the model's opset, which makes another graph of it.
static enum status load_policy(struct narrowcast *nc, const void *name) {
  if (nc->has & (HAS_SAMPLES | HAS_TRACE | HAS_PLAN))
    return diag_fail(&nc->diag, STATUS_USAGE, "the policy comes before samples, trace and plan");
  TRY(once(nc, HAS_POLICY, "a policy"));
  nc->settings.policy = arena_strdup(&nc->run.arena, name);
  enum status status = run_load_policy(&nc->run);
  if (status == STATUS_OK)
    return now_has(nc, HAS_POLICY);
  nc->settings.policy = NULL;
  return status;
}

enum narrowcast_status narrowcast_load_policy(struct narrowcast *nc, const char *name_or_path) {
  return call(nc, HAS_MODEL, load_policy, name_or_path);
}

static enum status want_opset(struct narrowcast *nc, const void *argument) {
  int opset = *(const int *)argument;
  if (nc->has & HAS_POLICY)
    return diag_fail(&nc->diag, STATUS_USAGE, "the opset comes before the policy");
  if (opset < RAISE_OPSET_LEAST || opset > RAISE_OPSET_MOST)
    return diag_fail(&nc->diag, STATUS_USAGE, "the opset must be from %d to %d", RAISE_OPSET_LEAST,
                     RAISE_OPSET_MOST);
  nc->settings.raise_opset = opset;
  return STATUS_OK;
}

enum narrowcast_status narrowcast_raise_opset(struct narrowcast *nc, int opset) {
  return call(nc, 0, want_opset, &opset);
}

static enum status read_overrides(struct narrowcast *nc, const void *path) {
  struct run *r = &nc->run;
  struct overrides o;
  TRY(overrides_read(&o, path, &r->arena, r->diag));
  struct overrides *kept = arena_alloc(&r->arena, sizeof *kept);  // an earlier plan has its own
  *kept = o;
  r->policy.overrides = kept;
  nc->settings.overrides = arena_strdup(&r->arena, path);
  return STATUS_OK;
}

enum narrowcast_status narrowcast_read_overrides(struct narrowcast *nc, const char *path) {
  return call(nc, HAS_POLICY, read_overrides, path);
}

static enum status keep(struct narrowcast *nc, const void *glob) {
  struct run *r = &nc->run;
  return policy_adjust_class(&r->policy, CLASS_KEEP, arena_strdup(&r->arena, glob), &r->arena,
                             r->diag);
}

enum narrowcast_status narrowcast_keep(struct narrowcast *nc, const char *glob) {
  return call(nc, HAS_POLICY, keep, glob);
}

static enum status narrow(struct narrowcast *nc, const void *glob) {
  struct run *r = &nc->run;
  return policy_adjust_class(&r->policy, CLASS_NARROW, arena_strdup(&r->arena, glob), &r->arena,
                             r->diag);
}

enum narrowcast_status narrowcast_narrow(struct narrowcast *nc, const char *glob) {
  return call(nc, HAS_POLICY, narrow, glob);
}

static enum status set_format(struct narrowcast *nc, const void *format) {
  return policy_adjust_format(&nc->run.policy, format, &nc->run.arena, &nc->diag);
}

enum narrowcast_status narrowcast_set_format(struct narrowcast *nc, const char *format) {
  return call(nc, HAS_POLICY, set_format, format);
}

static enum status set_io(struct narrowcast *nc, const void *keep_or_narrow) {
  return policy_adjust_io(&nc->run.policy, keep_or_narrow, &nc->run.arena, &nc->diag);
}

enum narrowcast_status narrowcast_set_io(struct narrowcast *nc, const char *keep_or_narrow) {
  return call(nc, HAS_POLICY, set_io, keep_or_narrow);
}

// ---- Samples and statistics ----

static enum status open_engine(struct narrowcast *nc) {
  if (nc->run.engine)
    return STATUS_OK;
  TRY(run_open_engine(&nc->run));
  engine_spare_stderr(nc->run.engine);
  return STATUS_OK;
}

// Divides them by the plan that was read, else by the policy.
static enum status get_samples(struct narrowcast *nc) {
  struct run *r = &nc->run;
  bool planned = nc->has & PLAN_WAS_READ;
  if (!planned)
    TRY(check_needs(nc, HAS_POLICY));
  TRY(once(nc, HAS_SAMPLES, "a set of samples"));
  enum status status = run_open_samples(r, planned ? &r->plan.hold_out : &r->policy.hold_out);
  if (status == STATUS_OK && planned)
    status = run_divide_as_planned(r);
  if (status == STATUS_OK)
    return now_has(nc, HAS_SAMPLES);
  samples_close(r->samples);
  r->samples = NULL;
  nc->settings.data = NULL;
  return status;
}

static enum status open_samples(struct narrowcast *nc, const void *folder) {
  if (!(nc->has & HAS_SAMPLES))
    nc->settings.data = arena_strdup(&nc->run.arena, folder);
  return get_samples(nc);
}

enum narrowcast_status narrowcast_open_samples(struct narrowcast *nc, const char *folder) {
  return call(nc, HAS_MODEL, open_samples, folder);
}

struct made_up {
  uint64_t seed;
  size_t count;
};

static enum status make_samples(struct narrowcast *nc, const void *argument) {
  const struct made_up *wanted = argument;
  if (wanted->count < 1 || wanted->count > MOST_SAMPLES)
    return diag_fail(&nc->diag, STATUS_USAGE, "samples must be from 1 to %d", MOST_SAMPLES);
  if (!(nc->has & HAS_SAMPLES)) {
    nc->settings.random = wanted->seed;
    nc->settings.random_samples = wanted->count;
  }
  return get_samples(nc);
}

enum narrowcast_status narrowcast_make_samples(struct narrowcast *nc, uint64_t seed, size_t count) {
  return call(nc, HAS_MODEL, make_samples, &(struct made_up){seed, count});
}

static enum status trace(struct narrowcast *nc, const void *nothing) {
  (void)nothing;
  TRY(open_engine(nc));
  TRY(once(nc, HAS_TRACE, "a trace"));
  TRY(run_trace(&nc->run));
  return now_has(nc, HAS_TRACE);
}

enum narrowcast_status narrowcast_trace(struct narrowcast *nc) {
  return step(nc, HAS_MODEL | HAS_POLICY | HAS_SAMPLES, trace);
}

static enum status read_trace(struct narrowcast *nc, const void *path) {
  TRY(once(nc, HAS_TRACE, "a trace"));
  nc->settings.trace = arena_strdup(&nc->run.arena, path);
  enum status status = run_trace(&nc->run);
  if (status == STATUS_OK)
    return now_has(nc, HAS_TRACE);
  nc->settings.trace = NULL;
  return status;
}

enum narrowcast_status narrowcast_read_trace(struct narrowcast *nc, const char *path) {
  return call(nc, HAS_MODEL, read_trace, path);
}

// No two of the outputs may be one file. The same one may be written again.
static enum status check_output(struct narrowcast *nc, enum written what, const char *path) {
  const char *paths[WRITES];
  memcpy(paths, nc->written, sizeof paths);
  paths[what] = path;
  return run_check_outputs(&nc->run, paths, WRITES);
}

static enum status now_written(struct narrowcast *nc, enum written what, const char *path) {
  nc->written[what] = arena_strdup(&nc->run.arena, path);
  return STATUS_OK;
}

static enum status write_trace(struct narrowcast *nc, const void *path) {
  struct run *r = &nc->run;
  TRY(check_output(nc, WRITTEN_TRACE, path));
  TRY(trace_write(&r->trace, &r->graph, path, r->diag));
  return now_written(nc, WRITTEN_TRACE, path);
}

enum narrowcast_status narrowcast_write_trace(struct narrowcast *nc, const char *path) {
  return call(nc, HAS_TRACE, write_trace, path);
}

static const char **append_path(struct narrowcast *nc, const char **list, size_t n,
                                const char *text) {
  size_t capacity = n;
  list = arena_grow(&nc->run.arena, list, &capacity, n + 1, sizeof *list);
  list[n] = arena_strdup(&nc->run.arena, text);
  return list;
}

static enum status add_feedback(struct narrowcast *nc, const void *pair) {
  struct settings *s = &nc->settings;
  if (nc->has & HAS_TRACE)
    return diag_fail(&nc->diag, STATUS_USAGE, "feedback comes before the trace");
  s->feedback = append_path(nc, s->feedback, s->n_feedback, pair);
  s->n_feedback++;
  enum status status = run_check_feedback(&nc->run);
  s->n_feedback -= status != STATUS_OK;
  return status;
}

enum narrowcast_status narrowcast_add_feedback(struct narrowcast *nc,
                                               const char *input_and_output) {
  return call(nc, HAS_MODEL, add_feedback, input_and_output);
}

static enum status set_steps(struct narrowcast *nc, const void *argument) {
  size_t steps = *(const size_t *)argument;
  if (steps < 1 || steps > MOST_STEPS)
    return diag_fail(&nc->diag, STATUS_USAGE, "steps must be from 1 to %d", MOST_STEPS);
  if (!nc->settings.n_feedback)
    return diag_fail(&nc->diag, STATUS_USAGE, "steps are of a training: narrowcast_add_feedback");
  nc->settings.steps = steps;
  return STATUS_OK;
}

enum narrowcast_status narrowcast_set_steps(struct narrowcast *nc, size_t steps) {
  return call(nc, HAS_MODEL, set_steps, &steps);
}

struct paths {
  const char *const *list;
  size_t count;
};

static enum status trace_checkpoints(struct narrowcast *nc, const void *argument) {
  const struct paths *paths = argument;
  struct settings *s = &nc->settings;
  if (s->n_feedback || s->n_checkpoints)
    return diag_fail(&nc->diag, STATUS_USAGE, "weights have one history: %s",
                     s->n_feedback ? "feedback was given" : "checkpoints were given");
  for (size_t i = 0; i < paths->count; i++)
    if (!paths->list[i])
      return diag_fail(&nc->diag, STATUS_USAGE, "an argument is NULL");
  for (size_t i = 0; i < paths->count; i++) {
    s->checkpoints = append_path(nc, s->checkpoints, s->n_checkpoints, paths->list[i]);
    s->n_checkpoints++;
  }
  enum status status = run_trace_checkpoints(&nc->run);
  if (status == STATUS_OK)
    return now_has(nc, HAS_TRACE);
  s->n_checkpoints = 0;
  return status;
}

enum narrowcast_status narrowcast_trace_checkpoints(struct narrowcast *nc, const char *const *paths,
                                                    size_t count) {
  return call(nc, HAS_MODEL | HAS_POLICY, trace_checkpoints,
              paths ? &(struct paths){paths, count} : NULL);
}

// ---- The conversion ----

// A new plan makes what came of the old one stale.
static void forget(struct narrowcast *nc, unsigned bits) {
  nc->has &= ~bits;
  if (bits & HAS_PLAN)
    nc->run.promotions = (struct promotions){0};
  if (bits & HAS_RESULT)
    nc->run.rewrite = (struct rewrite_report){0};
  nc->run.has_verdict = false;
}

static enum status verdict(struct narrowcast *nc) {
  if (!nc->run.has_verdict)
    return STATUS_OK;  // nothing is narrow: the result is the source
  now_has(nc, HAS_VERDICT);
  if (verdict_holds(&nc->run.verdict))
    return STATUS_OK;
  return diag_fail(&nc->diag, STATUS_CLAIM,
                   nc->run.verdict.holds ? "ONNX Runtime does not load or run the result"
                                         : "a claim does not hold");
}

static enum status convert(struct narrowcast *nc, const void *nothing) {
  (void)nothing;
  forget(nc, HAS_PLAN | PLAN_WAS_READ | HAS_RESULT | HAS_VERDICT);
  TRY(open_engine(nc));
  TRY(run_until_claims_hold(&nc->run));
  run_warn_of_idle_adjustments(&nc->run);
  now_has(nc, HAS_PLAN | HAS_RESULT);
  return verdict(nc);
}

enum narrowcast_status narrowcast_convert(struct narrowcast *nc) {
  return step(nc, HAS_MODEL | HAS_POLICY | HAS_SAMPLES | HAS_TRACE, convert);
}

static enum status plan(struct narrowcast *nc, const void *nothing) {
  (void)nothing;
  forget(nc, HAS_PLAN | PLAN_WAS_READ | HAS_RESULT | HAS_VERDICT);
  TRY(run_plan(&nc->run));
  run_warn_of_idle_adjustments(&nc->run);
  return now_has(nc, HAS_PLAN);
}

enum narrowcast_status narrowcast_plan(struct narrowcast *nc) {
  return step(nc, HAS_MODEL | HAS_POLICY, plan);
}

static enum status read_plan(struct narrowcast *nc, const void *path) {
  if (nc->has & (HAS_SAMPLES | HAS_TRACE))
    return diag_fail(&nc->diag, STATUS_USAGE, "a plan is read before samples and trace");
  const char *before = nc->settings.plan;
  nc->settings.plan = arena_strdup(&nc->run.arena, path);
  enum status status = run_read_plan(&nc->run);
  if (status != STATUS_OK) {
    nc->settings.plan = before;
    return status;
  }
  forget(nc, HAS_PLAN | PLAN_WAS_READ | HAS_RESULT | HAS_VERDICT);
  return now_has(nc, HAS_PLAN | PLAN_WAS_READ);
}

enum narrowcast_status narrowcast_read_plan(struct narrowcast *nc, const char *path) {
  return call(nc, HAS_MODEL, read_plan, path);
}

static enum status write_plan(struct narrowcast *nc, const void *path) {
  struct run *r = &nc->run;
  TRY(check_output(nc, WRITTEN_PLAN, path));
  TRY(plan_write(&r->plan, &r->graph, path, r->diag));
  return now_written(nc, WRITTEN_PLAN, path);
}

enum narrowcast_status narrowcast_write_plan(struct narrowcast *nc, const char *path) {
  return call(nc, HAS_PLAN, write_plan, path);
}

static enum status rewrite(struct narrowcast *nc, const void *nothing) {
  (void)nothing;
  forget(nc, HAS_RESULT | HAS_VERDICT);
  TRY(run_rewrite(&nc->run));
  return now_has(nc, HAS_RESULT);
}

enum narrowcast_status narrowcast_rewrite(struct narrowcast *nc) {
  return step(nc, HAS_PLAN, rewrite);
}

static enum status verify(struct narrowcast *nc, const void *nothing) {
  (void)nothing;
  forget(nc, HAS_VERDICT);
  if (plan_is_identity(&nc->run.plan))
    return STATUS_OK;
  TRY(open_engine(nc));
  TRY(run_verify(&nc->run));
  return verdict(nc);
}

enum narrowcast_status narrowcast_verify(struct narrowcast *nc) {
  return step(nc, HAS_SAMPLES | HAS_RESULT, verify);
}

struct saving {
  const char *path;
  unsigned flags;
};

static enum status save(struct narrowcast *nc, const void *argument) {
  const struct saving *s = argument;
  struct run *r = &nc->run;
  const unsigned places = NARROWCAST_WEIGHTS_OUTSIDE | NARROWCAST_WEIGHTS_INSIDE;
  if (!s->path)
    return diag_fail(r->diag, STATUS_USAGE, "an argument is NULL");
  if (s->flags & ~(NARROWCAST_SAVE_ANYWAY | places) || (s->flags & places) == places)
    return diag_fail(r->diag, STATUS_USAGE, "flags %u are unknown, or exclude each other",
                     s->flags);
  nc->settings.external_data = s->flags & NARROWCAST_WEIGHTS_OUTSIDE  ? EXTERNAL_ALWAYS
                               : s->flags & NARROWCAST_WEIGHTS_INSIDE ? EXTERNAL_NEVER
                                                                      : EXTERNAL_AUTO;
  TRY(check_output(nc, WRITTEN_MODEL, s->path));
  if (nc->has & HAS_VERDICT && !verdict_holds(&r->verdict) && !(s->flags & NARROWCAST_SAVE_ANYWAY))
    return diag_fail(r->diag, STATUS_CLAIM, "not written: a claim does not hold");
  TRY(run_save(r, s->path));
  nc->output = arena_strdup(&r->arena, s->path);
  return now_written(nc, WRITTEN_MODEL, s->path);
}

enum narrowcast_status narrowcast_save(struct narrowcast *nc, const char *path, unsigned flags) {
  return call(nc, HAS_RESULT, save, &(struct saving){path, flags});
}

// ---- Results ----

// One of the files about a run, which records_save finds in the settings.
static enum status save_record(struct narrowcast *nc, enum written what, const char **setting,
                               const char *path) {
  TRY(check_output(nc, what, path));
  *setting = path;
  enum status status = records_save(&nc->run);
  *setting = NULL;
  return status == STATUS_OK ? now_written(nc, what, path) : status;
}

static enum status write_verdict(struct narrowcast *nc, const void *path) {
  return save_record(nc, WRITTEN_VERDICT, &nc->settings.save_verdict, path);
}

enum narrowcast_status narrowcast_write_verdict(struct narrowcast *nc, const char *path) {
  return call(nc, HAS_TRACE | HAS_PLAN | HAS_VERDICT, write_verdict, path);
}

static enum status write_report(struct narrowcast *nc, const void *path) {
  return save_record(nc, WRITTEN_REPORT, &nc->settings.report, path);
}

enum narrowcast_status narrowcast_write_report(struct narrowcast *nc, const char *path) {
  return call(nc, HAS_TRACE | HAS_PLAN, write_report, path);
}

static enum status write_json(struct narrowcast *nc, const void *nothing) {
  (void)nothing;
  free(nc->json);
  nc->json = NULL;
  FILE *out = open_memstream(&nc->json, &nc->json_size);
  if (!out)
    out_of_memory(BUFSIZ);
  summary_json(&nc->run, nc->output, out);
  if (fclose(out) != 0)
    out_of_memory(nc->json_size);
  return STATUS_OK;
}

const char *narrowcast_json(struct narrowcast *nc) {
  return step(nc, HAS_PLAN, write_json) == NARROWCAST_OK ? nc->json : NULL;
}
