// The trace file says the same for any number of threads, and reads back exactly.
// needs: engine
#include "support_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- The file ----

static struct fixture *mixed_model(void) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[N,2]");
  build_floats(&f->b, "limit", "float[]", six);
  build_floats(&f->b, "mask", "float[2]", (float[]){-INFINITY, 0.1f});
  build_int(&f->b, build_node(&f->b, "ReduceSum", "x", "sum"), "keepdims", 0);
  build_node(&f->b, "Less", "sum limit", "small");
  Onnx__NodeProto *n = build_node(&f->b, "If", "small", "y");
  for (int k = 0; k < 2; k++) {
    build_graph_begin(&f->b, n, k ? "else_branch" : "then_branch");
    build_node(&f->b, "Add", "x mask", "z");
    build_output(&f->b, "z", "float[N,2]");
    build_graph_end(&f->b);
  }
  build_node(&f->b, "Exp", "y", "e");
  build_output(&f->b, "e", "float[N,2]");
  fixture_build(f);
  return f;
}

static void trace_file_reads_back_as_it_was(void **state) {
  struct fixture *f = mixed_model();
  expect_ok(&f->d, samples_random(&f->samples, &f->g, 3, 5, &f->arena, &f->d));
  struct trace t =
      trace_samples(f, *state, (struct trace_setting){.window = 2, .sample = 3, .threads = 1});
  t.nonfinite_value = 0;
  t.nonfinite_sample = "random[3]";
  const char *first = write_trace(f, &t, "first.json");
  struct trace back;
  expect_ok(&f->d, trace_read(&back, &f->g, first, &f->arena, &f->d));
  for (int v = 0; v < f->g.n_values; v++)
    assert_stats(&back.stats[v], &t.stats[v]);
  const char *second = write_trace(f, &back, "second.json");
  assert_string_equal(file_text(f, first), file_text(f, second));
  assert_int_equal(back.steps, 5);
  assert_true(back.synthetic);
  trace_free(&back);
  end_trace(f, &t);
}

static void trace_file_is_the_same_for_any_number_of_threads(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[500,400]");
  build_node(&f->b, "Exp", "x", "e");
  build_node(&f->b, "Mul", "e x", "y");
  build_output(&f->b, "y", "");
  fixture_build(f);
  expect_ok(&f->d, samples_random(&f->samples, &f->g, 7, 2, &f->arena, &f->d));
  const char *texts[3];
  for (int k = 0; k < 3; k++) {
    struct trace_setting set = {.window = 1, .sample = 1000, .threads = k ? 2 : 1};
    struct trace t = trace_samples(f, *state, set);
    texts[k] = file_text(f, write_trace(f, &t, "t.json"));
    trace_free(&t);
  }
  assert_string_equal(texts[0], texts[1]);
  assert_string_equal(texts[1], texts[2]);
  fixture_end(f);
}

static void trace_does_not_depend_on_the_batch(void **state) {
  float x[32];
  for (size_t i = 0; i < 32; i++)
    x[i] = (float)i * 0.37f - 3;
  struct trace t[2];
  struct fixture *f[2];
  for (int k = 0; k < 2; k++) {
    f[k] = fixture_new();
    build_input(&f[k]->b, "x", "float[N,8]");
    build_node(&f[k]->b, "Exp", "x", "e");
    build_node(&f[k]->b, "Relu", "x", "r");
    build_output(&f[k]->b, "e", "");
    build_output(&f[k]->b, "r", "");
    fixture_build(f[k]);
  }
  write_npy(f[0], "0.npy", "<f4", "(4, 8)", x, sizeof x);
  for (int i = 0; i < 4; i++)
    write_npy(f[1], (const char *[]){"0.npy", "1.npy", "2.npy", "3.npy"}[i], "<f4", "(1, 8)",
              x + 8 * i, 32);
  for (int k = 0; k < 2; k++)
    t[k] = trace_samples(f[k], *state, (struct trace_setting){.window = 4, .threads = 1});
  for (size_t i = 0; i < 3; i++) {
    const char *name = ((const char *[]){"x", "e", "r"})[i];
    const struct stats *a = stats_of(f[0], &t[0], name), *b = stats_of(f[1], &t[1], name);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->zeros, b->zeros);
    assert_int_equal(a->positive.count, b->positive.count);
    assert_true(a->positive.max == b->positive.max && a->positive.min == b->positive.min);
    assert_true(a->negative.max == b->negative.max && a->negative.min == b->negative.min);
    assert_histogram(&a->positive.exponents, &b->positive.exponents);
    assert_histogram(&a->negative.exponents, &b->negative.exponents);
    assert_histogram(&a->positive.significands, &b->positive.significands);
    // Added in another order.
    assert_true(fabs(a->positive.sum - b->positive.sum) <= 1e-14 * a->positive.sum);
    assert_true(fabs(a->positive.sum_squares - b->positive.sum_squares) <=
                1e-14 * a->positive.sum_squares);
    assert_true(a->windows[0].absmax == b->windows[0].absmax);
    assert_true(a->windows[0].absmin == b->windows[0].absmin);
  }
  end_trace(f[0], &t[0]);
  end_trace(f[1], &t[1]);
}

// The trace file of mixed_model with the first `from` replaced: reading it fails, naming `text`.
static void refused(struct engine *engine, const char *from, const char *to, const char *text) {
  struct fixture *f = mixed_model();
  expect_ok(&f->d, samples_random(&f->samples, &f->g, 3, 2, &f->arena, &f->d));
  struct trace t = trace_samples(f, engine, plain), back;
  const char *whole = file_text(f, write_trace(f, &t, "t.json")), *place = strstr(whole, from);
  assert_non_null(place);
  const char *changed =
      arena_printf(&f->arena, "%.*s%s%s", (int)(place - whole), whole, to, place + strlen(from));
  write_bytes(f, "changed.json", changed, strlen(changed));
  const char *path = arena_printf(&f->arena, "%s/changed.json", f->folder);
  assert_int_equal(trace_read(&back, &f->g, path, &f->arena, &f->d), STATUS_POLICY);
  if (!strstr(f->d.message, text))
    fail_msg("\"%s\" does not say \"%s\"", f->d.message, text);
  assert_non_null(strstr(f->d.file, "changed.json"));
  end_trace(f, &t);
}

static void trace_file_faults_are_named(void **state) {
  refused(*state, "\"schema\": 1", "\"schema\": 2", "schema is 2");
  refused(*state, "\"sha256\": \"", "\"sha256\": \"0", "another model");
  refused(*state, "{\"name\": \"y\"", "{\"name\": \"yy\"", "is \"y\" meant");
  refused(*state, "\"scope\": \"\"", "\"scope\": \"nowhere\"", "no scope");
  refused(*state, "\"type\": \"float\"", "\"type\": \"float16\"", "the type is float16 here");
  refused(*state, "\"zeros\": 0", "\"zeros\": 1", "do not add up");
  refused(*state, "\"zeros\": 0", "\"zeros\": -1", "integer from 0");
  refused(*state, "\"zeros\":", "\"zeroes\":", "is \"zeros\" meant");
  refused(*state, "\"runs\": 2, ", "", "\"runs\" is missing");
  refused(*state, "{\"name\": \"sum\"", "{\"name\": \"x\"", "comes twice");
  refused(*state, "{\"name\": \"sum\"", "{\"name\": \"small\"", "the type is float here and bool");
  refused(*state, "\"exponents\": {\"", "\"exponents\": {\"0", "integer from -149 to 127");
  refused(*state, "\"max\": ", "\"max\": -", "finite float");
  refused(*state, "\"window\": 1", "\"window\": 0", "at least 1");
  refused(*state, "\"windows\": [[", "\"windows\": [[1, 1, 0], [", "one element a window");
  refused(*state, "\"shape\": [", "\"shape\": [-1, ", "integer from 0");
  refused(*state, "\"shape\": [", "\"shape\": [1, 1, 1, 1, 1, 1, 1, 1, ", "8 dims at most");
}

static void trace_file_must_hold_every_value(void **state) {
  struct fixture *f = mixed_model();
  expect_ok(&f->d, samples_random(&f->samples, &f->g, 3, 2, &f->arena, &f->d));
  struct trace t = trace_samples(f, *state, plain), back;
  const char *whole = file_text(f, write_trace(f, &t, "t.json"));
  const char *line = strstr(whole, "{\"name\": \"sum\""), *next = strchr(line, '\n');
  while (*++next == ' ')
    ;
  const char *changed = arena_printf(&f->arena, "%.*s%s", (int)(line - whole), whole, next);
  write_bytes(f, "changed.json", changed, strlen(changed));
  const char *path = arena_printf(&f->arena, "%s/changed.json", f->folder);
  assert_int_equal(trace_read(&back, &f->g, path, &f->arena, &f->d), STATUS_POLICY);
  assert_non_null(strstr(f->d.message, "\"sum\" is missing"));
  end_trace(f, &t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trace_file_reads_back_as_it_was),
      cmocka_unit_test(trace_file_is_the_same_for_any_number_of_threads),
      cmocka_unit_test(trace_does_not_depend_on_the_batch),
      cmocka_unit_test(trace_file_faults_are_named),
      cmocka_unit_test(trace_file_must_hold_every_value),
  };
  return cmocka_run_group_tests(tests, engine_set_up, engine_tear_down);
}
