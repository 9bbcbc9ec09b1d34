// See support_trace.h.
#include "support_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int engine_set_up(void **state) {
  struct diag d = {0};
  struct engine *engine;
  enum status status = engine_open(&engine, NULL, &d);
  if (status != STATUS_OK)
    diag_print(&d, stderr);
  *state = engine;
  return status != STATUS_OK;
}

int engine_tear_down(void **state) {
  engine_close(*state);
  return 0;
}

void expect_ok(struct diag *d, enum status status) {
  if (status != STATUS_OK)
    diag_print(d, stderr);
  assert_int_equal(status, STATUS_OK);
}

enum status try_trace(struct trace *t, struct fixture *f, struct engine *engine,
                      struct trace_setting set) {
  size_t n = samples_count(f->samples);
  size_t *steps = arena_array(&f->arena, n, sizeof *steps);
  for (size_t i = 0; i < n; i++)
    steps[i] = i;
  struct trace_options options = {.window = set.window,
                                  .sample = set.sample,
                                  .threads = set.threads,
                                  .steps = steps,
                                  .n_steps = n};
  return trace_run(t, &f->g, engine, f->samples, &options, &f->arena, &f->d);
}

struct trace trace_samples(struct fixture *f, struct engine *engine, struct trace_setting set) {
  struct trace t;
  if (!f->samples)
    expect_ok(&f->d, open_at(f, ""));
  expect_ok(&f->d, try_trace(&t, f, engine, set));
  return t;
}

const struct trace_setting plain = {.window = 1, .sample = 0, .threads = 1};

const struct stats *stats_in(struct fixture *f, const struct trace *t, int scope,
                             const char *name) {
  int v = map_get(&f->g.names, scope, name);
  assert_true(v >= 0);
  return &t->stats[v];
}

const struct stats *stats_of(struct fixture *f, const struct trace *t, const char *name) {
  return stats_in(f, t, 0, name);
}

static struct stats expected(const float *x, size_t n, size_t runs) {
  struct stats s;
  stats_init(&s);
  for (size_t i = 0; i < runs; i++) {
    struct stats_piece piece = {0};
    stats_observe(&piece, x, n, 1, 0);
    stats_merge_piece(&s, &piece);
    stats_end_run(&s, &piece, 0, (int64_t)i);
  }
  return s;
}

void assert_histogram(const struct stats_histogram *a, const struct stats_histogram *b) {
  assert_int_equal(a->n, b->n);
  assert_int_equal(a->first, b->first);
  if (a->n)
    assert_memory_equal(a->counts, b->counts, (size_t)a->n * sizeof *a->counts);
}

static void assert_side(const struct stats_side *a, const struct stats_side *b) {
  assert_int_equal(a->count, b->count);
  assert_true(a->max == b->max && a->min == b->min);
  assert_true(a->sum == b->sum && a->sum_squares == b->sum_squares);
  assert_histogram(&a->exponents, &b->exponents);
  assert_histogram(&a->significands, &b->significands);
}

void assert_stats(const struct stats *a, const struct stats *b) {
  assert_int_equal(a->runs, b->runs);
  assert_int_equal(a->count, b->count);
  assert_int_equal(a->zeros, b->zeros);
  assert_int_equal(a->nans, b->nans);
  assert_int_equal(a->positive_infinities, b->positive_infinities);
  assert_int_equal(a->negative_infinities, b->negative_infinities);
  assert_int_equal(a->sampled, b->sampled);
  assert_side(&a->positive, &b->positive);
  assert_side(&a->negative, &b->negative);
}

void assert_holds(struct fixture *f, const struct trace *t, const char *name, const float *x,
                  size_t n, size_t runs) {
  struct stats wanted = expected(x, n, runs);
  assert_stats(stats_of(f, t, name), &wanted);
  stats_free(&wanted);
}

const char *write_trace(struct fixture *f, const struct trace *t, const char *name) {
  const char *path = arena_printf(&f->arena, "%s/%s", f->folder, name);
  expect_ok(&f->d, trace_write(t, &f->g, path, &f->d));
  return path;
}

char *file_text(struct fixture *f, const char *path) {
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  char *text = arena_alloc(&f->arena, 1 << 20);
  size_t size = fread(text, 1, (1 << 20) - 1, in);
  assert_true(size > 0 && size < (1 << 20) - 1);
  fclose(in);
  return text;
}

void end_trace(struct fixture *f, struct trace *t) {
  trace_free(t);
  fixture_end(f);
}
