// What a trace costs. Two measurements:
//
//   bench_trace time [options] MODEL...     the observed run beside the plain one
//   bench_trace memory [options] MODEL...   peak memory of a trace over 1 and over 256 samples
//
// time: both sessions stand side by side, of the same instrumented model, with the same options;
// the plain one has no observers. They run in turn, so that a change of the machine's pace meets
// both, and each model's ratio is the median over the pairs. A third session, plain at the engine's
// highest optimisation level, is for information: an observer keeps the engine from fusing across
// the observed value. Models whose plain run takes less than --least milliseconds are left out:
// there the engine's own overhead per node is what is measured.
//
// memory: every measurement is a process of its own; what counts is VmHWM, as the kernel keeps it.
//
// Options: --level 0..3 (none, basic, extended, all), --threads N, --sample N, --updates N (0: no
// update sites), --pairs N, --least MS, --samples N. Exit code 0, 1 if a target is missed, 2 for
// wrong use.
#include "engine.h"
#include "graph.h"
#include "samples.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The targets: ratio of observed to plain run, in the median over the models and at worst; growth
// of peak memory.
#define MEDIAN_TARGET 1.3
#define WORST_TARGET  1.8
#define GROWTH_TARGET 0.05

struct options {
  enum optimisation level;
  int threads;
  size_t sample, updates, pairs, samples;
  double least;  // milliseconds
};

struct subject {
  struct arena arena;
  struct diag diag;
  struct model model;
  struct schema_table schemas;
  struct graph graph;
  struct samples *samples;
  const char *label;
};

// With one thread, the processor time of this process, which other load on the machine disturbs
// little; else the time on the clock.
static double milliseconds(int threads) {
  struct timespec now;
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

// The folder's name of ".../NAME/model.onnx".
static const char *label_of(struct arena *a, const char *path) {
  char *copy = arena_strdup(a, path), *slash = strrchr(copy, '/');
  if (!slash)
    return copy;
  *slash = '\0';
  char *folder = strrchr(copy, '/');
  return folder ? folder + 1 : copy;
}

static bool has_data(const struct subject *s) {
  struct stat info;
  char path[4096];
  snprintf(path, sizeof path, "%s/test_data_set_0", s->model.directory);
  return stat(path, &info) == 0;
}

// Real data from beside the model, or made-up data.
static enum status subject_open(struct subject *s, const char *path, bool real, size_t count) {
  *s = (struct subject){0};
  s->label = label_of(&s->arena, path);
  TRY(model_load(&s->model, &s->arena, path, NULL, &s->diag));
  schema_load(&s->schemas, &s->arena);
  TRY(graph_build(&s->graph, &s->model, &s->schemas, &s->arena, &s->diag));
  if (real && has_data(s))
    return samples_open(&s->samples, &s->graph, s->model.directory, &s->arena, &s->diag);
  return samples_random(&s->samples, &s->graph, 1, count, &s->arena, &s->diag);
}

static void subject_close(struct subject *s) {
  if (s->samples)
    samples_close(s->samples);
  model_close(&s->model);
  arena_free(&s->arena);
}

// ---- time ----

// One way to run a model.
struct way {
  struct instrumented model;
  struct probe probe;
  struct session *session;
  int threads;
  double *times;
};

static enum status way_open(struct way *w, struct subject *s, struct engine *engine, bool observe,
                            const struct options *o, enum optimisation level) {
  enum trace_watch watch = o->updates ? TRACE_VALUES_AND_UPDATES : TRACE_VALUES;
  TRY(trace_instrument(&w->model, &s->graph, observe ? watch : TRACE_NOTHING, &s->arena, &s->diag));
  size_t n = (size_t)s->graph.n_values, sites = w->model.n_sites;
  w->times = arena_array(&s->arena, o->pairs, sizeof *w->times);
  w->probe.observed = arena_array(&s->arena, n, sizeof *w->probe.observed);
  w->probe.n_observed = n;
  w->probe.sample = o->sample;
  w->probe.updates = arena_array(&s->arena, sites, sizeof *w->probe.updates);
  w->probe.n_updates = sites;
  w->probe.update_sample = o->updates;
  w->threads = o->threads;
  for (size_t v = 0; v < n; v++)
    stats_init(&w->probe.observed[v]);
  struct session_options options = {.optimisation = level,
                                    .threads = o->threads,
                                    .initializers = w->model.initializers,
                                    .n_initializers = w->model.n_initializers,
                                    .probe = &w->probe};
  return session_open(&w->session, engine, w->model.bytes, w->model.size, &options, &s->diag);
}

static void way_close(struct way *w) {
  session_close(w->session);
  for (size_t v = 0; v < w->probe.n_observed; v++)
    stats_free(&w->probe.observed[v]);
  for (size_t i = 0; i < w->probe.n_updates; i++)
    updates_free(&w->probe.updates[i]);
}

static enum status way_run(struct way *w, struct subject *s, const struct sample *sample,
                           double *time) {
  const char *name = s->graph.values[s->graph.scopes[0].outputs[0]].name;
  struct array fetched;
  double start = milliseconds(w->threads);
  TRY(session_run(w->session, sample->arrays, sample->n_arrays, &name, 1, &fetched, &s->diag));
  *time = milliseconds(w->threads) - start;
  return STATUS_OK;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, size_t n) {
  qsort(x, n, sizeof *x, compare_doubles);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

enum { PLAIN, OBSERVED, FASTEST, WAYS };

struct result {
  double ms[WAYS], ratio;  // medians
  bool counted;
};

static enum status measure_ways(struct result *r, struct subject *s, struct way *ways,
                                const struct options *o) {
  struct sample sample;
  double ignored;
  TRY(samples_read(s->samples, 0, &sample, &s->diag));
  for (int k = 0; k < 2 * WAYS; k++)  // warm up
    TRY(way_run(&ways[k % WAYS], s, &sample, &ignored));
  double *ratios = arena_array(&s->arena, o->pairs, sizeof *ratios);
  for (size_t i = 0; i < o->pairs; i++) {
    for (int k = 0; k < WAYS; k++)
      TRY(way_run(&ways[k], s, &sample, &ways[k].times[i]));
    ratios[i] = ways[OBSERVED].times[i] / ways[PLAIN].times[i];
    if (i == 2 && ways[PLAIN].times[i] < o->least / 2) {  // far too fast to count
      sample_free(&sample);
      return STATUS_OK;
    }
  }
  for (int k = 0; k < WAYS; k++)
    r->ms[k] = median(ways[k].times, o->pairs);
  r->ratio = median(ratios, o->pairs);
  r->counted = r->ms[PLAIN] >= o->least;
  sample_free(&sample);
  return STATUS_OK;
}

static enum status time_subject(struct result *r, struct subject *s, const char *path,
                                struct engine *engine, const struct options *o) {
  struct way ways[WAYS] = {0};
  enum status status = subject_open(s, path, true, 1);
  if (status == STATUS_OK)
    status = way_open(&ways[PLAIN], s, engine, false, o, o->level);
  if (status == STATUS_OK)
    status = way_open(&ways[OBSERVED], s, engine, true, o, o->level);
  if (status == STATUS_OK)
    status = way_open(&ways[FASTEST], s, engine, false, o, OPTIMISE_ALL);
  if (status == STATUS_OK)
    status = measure_ways(r, s, ways, o);
  if (status == STATUS_OK && r->counted)
    printf("| %s | %zu | %.1f | %.1f | %.2f | %.1f | %.2f |\n", s->label,
           ways[OBSERVED].model.n_observers, r->ms[PLAIN], r->ms[OBSERVED], r->ratio,
           r->ms[FASTEST], r->ms[OBSERVED] / r->ms[FASTEST]);
  for (int k = 0; k < WAYS; k++)
    way_close(&ways[k]);
  fflush(stdout);
  return status;
}

static int time_main(const struct options *o, char **paths, int n, struct engine *engine) {
  double *ratios = calloc((size_t)n + 1, sizeof *ratios);
  size_t counted = 0;
  printf("| model | observers | plain, ms | observed, ms | ratio | plain at all, ms | ratio to it "
         "|\n|---|---|---|---|---|---|---|\n");
  for (int i = 0; i < n; i++) {
    struct subject s;
    struct result r = {0};
    if (time_subject(&r, &s, paths[i], engine, o) != STATUS_OK)
      diag_print(&s.diag, stderr);
    else if (r.counted)
      ratios[counted++] = r.ratio;
    subject_close(&s);
  }
  double middle = counted ? median(ratios, counted) : 0, worst = counted ? ratios[counted - 1] : 0;
  bool met = counted && middle <= MEDIAN_TARGET && worst <= WORST_TARGET;
  printf("\n%zu models: ratio %.2f in the median (target %.1f), %.2f at worst (target %.1f): %s\n",
         counted, middle, MEDIAN_TARGET, worst, WORST_TARGET, met ? "met" : "missed");
  free(ratios);
  return met ? 0 : 1;
}

// ---- memory ----

// Kilobytes.
static long peak_memory(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  long peak = 0;
  while (status && fgets(line, sizeof line, status))
    if (strncmp(line, "VmHWM:", 6) == 0)
      peak = strtol(line + 6, NULL, 10);
  if (status)
    fclose(status);
  return peak;
}

static enum status trace_once(const struct options *o, const char *path, size_t n_steps,
                              struct subject *s) {
  struct engine *engine;
  struct trace trace;
  TRY(engine_open(&engine, NULL, &s->diag));
  TRY(subject_open(s, path, false, n_steps));
  size_t *steps = arena_array(&s->arena, n_steps, sizeof *steps);
  for (size_t i = 0; i < n_steps; i++)
    steps[i] = i;
  struct trace_options options = {.window = 16,
                                  .sample = o->sample,
                                  .update_sample = o->updates,
                                  .threads = o->threads,
                                  .steps = steps,
                                  .n_steps = n_steps};
  TRY(trace_run(&trace, &s->graph, engine, s->samples, &options, &s->arena, &s->diag));
  trace_free(&trace);
  subject_close(s);
  engine_close(engine);
  return STATUS_OK;
}

// In a child: its peak goes through the pipe.
static long peak_of(const struct options *o, const char *path, size_t n_steps) {
  int ends[2];
  long peak = 0;
  if (pipe(ends) != 0)
    return 0;
  pid_t child = fork();
  if (child == 0) {
    struct subject s = {0};
    if (trace_once(o, path, n_steps, &s) != STATUS_OK)
      diag_print(&s.diag, stderr);
    else
      peak = peak_memory();
    _exit(write(ends[1], &peak, sizeof peak) == sizeof peak ? 0 : 1);
  }
  close(ends[1]);
  if (child < 0 || read(ends[0], &peak, sizeof peak) != sizeof peak)
    peak = 0;
  close(ends[0]);
  if (child > 0)
    waitpid(child, NULL, 0);
  return peak;
}

static int memory_main(const struct options *o, char **paths, int n) {
  bool met = n > 0;
  printf("| model | 1 sample, MB | %zu samples, MB | growth |\n|---|---|---|---|\n", o->samples);
  for (int i = 0; i < n; i++) {
    struct arena arena = {0};
    long one = peak_of(o, paths[i], 1), many = peak_of(o, paths[i], o->samples);
    double growth = one && many ? (double)many / (double)one - 1 : 1;
    met = met && growth < GROWTH_TARGET;
    printf("| %s | %.1f | %.1f | %+.1f %% |\n", label_of(&arena, paths[i]), (double)one / 1e3,
           (double)many / 1e3, 100 * growth);
    fflush(stdout);
    arena_free(&arena);
  }
  printf("\ntarget: growth under %.0f %%: %s\n", 100 * GROWTH_TARGET, met ? "met" : "missed");
  return met ? 0 : 1;
}

// ---- The command line ----

static int usage(void) {
  fprintf(stderr, "usage: bench_trace time|memory [--level 0..3] [--threads N] [--sample N] "
                  "[--updates N] [--pairs N] [--least MS] [--samples N] MODEL...\n");
  return 2;
}

static bool set_option(struct options *o, const char *name, const char *value) {
  long number = strtol(value, NULL, 10);
  if (number < 0)
    return false;
  if (strcmp(name, "--level") == 0 && number <= OPTIMISE_ALL)
    o->level = (enum optimisation)number;
  else if (strcmp(name, "--threads") == 0)
    o->threads = (int)number;
  else if (strcmp(name, "--sample") == 0)
    o->sample = (size_t)number;
  else if (strcmp(name, "--updates") == 0)
    o->updates = (size_t)number;
  else if (strcmp(name, "--pairs") == 0 && number > 2)
    o->pairs = (size_t)number;
  else if (strcmp(name, "--samples") == 0 && number > 0)
    o->samples = (size_t)number;
  else if (strcmp(name, "--least") == 0)
    o->least = strtod(value, NULL);
  else
    return false;
  return true;
}

int main(int argc, char **argv) {
  struct options o = {.level = OPTIMISE_BASIC,
                      .threads = 1,
                      .sample = 4096,  // as the shipped policies have it
                      .updates = 256,   // likewise
                      .pairs = 15,
                      .samples = 256,
                      .least = 5};
  if (argc < 3)
    return usage();
  int i = 2;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
    if (!set_option(&o, argv[i], argv[i + 1]))
      return usage();
  if (strcmp(argv[1], "memory") == 0)
    return memory_main(&o, argv + i, argc - i);
  if (strcmp(argv[1], "time") != 0)
    return usage();
  struct engine *engine;
  struct diag d = {0};
  if (engine_open(&engine, NULL, &d) != STATUS_OK) {
    diag_print(&d, stderr);
    return STATUS_ENGINE;
  }
  int code = time_main(&o, argv + i, argc - i, engine);
  engine_close(engine);
  return code;
}
