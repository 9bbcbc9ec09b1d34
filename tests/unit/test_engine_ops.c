// The custom operators: they see every tensor, in every kind of graph and at every optimisation
// level.
// needs: engine
#include "support_probe.h"

#include "round.h"

#include <math.h>
#include <stdlib.h>

static void observe_counts_in_the_main_graph(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_observe(m->graph, "x", 0);
  message_node(m->graph, "Neg", "x", "t");
  message_observe(m->graph, "t", 1);
  message_node(m->graph, "Relu", "t", "y");
  message_observe(m->graph, "y", 2);
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    struct array y = probing_run(r, five, 5, NULL, 0);
    assert_int_equal(y.dims[0], 5);
    assert_true(((const float *)y.data)[0] == 3);
    assert_int_equal(r->observed[0].runs, 1);
    assert_int_equal(r->observed[0].positive.count, 2);
    assert_true(r->observed[0].positive.max == 4);
    assert_int_equal(r->observed[1].negative.count, 2);
    assert_int_equal(r->observed[2].zeros, 3);
    r->probe.window = 3;
    probing_run(r, five, 4, NULL, 0);
    r->probe.window = 0;
    assert_int_equal(r->observed[2].runs, 2);
    assert_int_equal(r->observed[2].count, 9);
    assert_int_equal(r->observed[2].n_windows, 4);
    assert_true(r->observed[2].windows[3].absmax == 3);
  }
}

// A node whose result nobody reads, a constant one at that, is still seen, and in every run.
static void observe_keeps_what_is_dead_or_constant(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  int64_t two = 2;
  float values[2] = {1, -8};
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_initializer(m->graph, "w", FLOAT, 1, &two, values, sizeof values);
  message_node(m->graph, "Neg", "w", "folded");
  message_observe(m->graph, "folded", 0);
  message_node(m->graph, "Neg", "x", "dead");
  message_observe(m->graph, "dead", 1);
  message_node(m->graph, "Identity", "x", "same");
  message_observe(m->graph, "same", 2);
  message_node(m->graph, "Relu", "same", "y");
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    assert_int_equal(r->observed[0].runs, 0);
    for (int run = 1; run <= 2; run++) {
      probing_run(r, five, 5, NULL, 0);
      for (int k = 0; k < 3; k++)
        assert_int_equal(r->observed[k].runs, run);
      assert_true(r->observed[0].positive.max == 8);
      assert_true(r->observed[1].negative.max == 4);
    }
  }
}

static Onnx__GraphProto *branch(char *name, char *op, int id) {
  Onnx__GraphProto *g = message_new_graph(name);
  char *inner = arena_printf(&message_arena, "%s_t", name);
  message_node(g, op, "x", inner);
  message_observe(g, inner, id);
  message_node(g, "Identity", inner, name);
  message_output(g, name, FLOAT, 1);
  return g;
}

static void observe_counts_in_the_branch_taken(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_input(m->graph, "c", BOOL, 0);
  message_output(m->graph, "y", FLOAT, 1);
  Onnx__NodeProto *n = message_node(m->graph, "If", "c", "y");
  message_set_graph(n, "then_branch", branch("then", "Relu", 0));
  message_set_graph(n, "else_branch", branch("else", "Neg", 1));
  const bool yes = true;
  struct array c = {.name = "c", .elem_type = BOOL, .data = &yes, .size = 1};
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    probing_run(r, five, 5, &c, 1);
    assert_int_equal(r->observed[0].runs, 1);
    assert_int_equal(r->observed[0].zeros, 3);
    assert_int_equal(r->observed[1].runs, 0);
  }
}

// A Loop that doubles x three times; an If inside it.
static void observe_counts_every_iteration(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  static int64_t three = 3;
  static bool yes = true;
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_initializer(m->graph, "trips", INT64, 0, NULL, &three, sizeof three);
  message_initializer(m->graph, "go", BOOL, 0, NULL, &yes, sizeof yes);
  Onnx__GraphProto *body = message_new_graph("body");
  message_input(body, "i", INT64, 0);
  message_input(body, "c", BOOL, 0);
  message_input(body, "a", FLOAT, 1);
  message_node(body, "Identity", "c", "c_out");
  message_observe(body, "a", 0);
  Onnx__NodeProto *inner = message_node(body, "If", "c", "a_out");
  Onnx__GraphProto *then = message_new_graph("then"), *other = message_new_graph("other");
  message_node(then, "Add", "a a", "sum");
  message_observe(then, "sum", 1);
  message_output(then, "sum", FLOAT, 1);
  message_node(other, "Identity", "a", "kept");
  message_output(other, "kept", FLOAT, 1);
  message_set_graph(inner, "then_branch", then);
  message_set_graph(inner, "else_branch", other);
  message_output(body, "c_out", BOOL, 0);
  message_output(body, "a_out", FLOAT, 1);
  message_set_graph(message_node(m->graph, "Loop", "trips go x", "y"), "body", body);
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    struct array y = probing_run(r, five, 5, NULL, 0);
    assert_true(((const float *)y.data)[4] == 32);
    assert_int_equal(r->observed[0].runs, 3);
    assert_true(r->observed[0].positive.max == 16);
    assert_int_equal(r->observed[1].runs, 3);
    assert_true(r->observed[1].positive.max == 32);
  }
}

static void observe_counts_every_step_of_a_scan(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  static float zero = 0;
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 0);
  message_initializer(m->graph, "start", FLOAT, 0, NULL, &zero, sizeof zero);
  Onnx__GraphProto *body = message_new_graph("body");
  message_input(body, "a", FLOAT, 0);
  message_input(body, "e", FLOAT, 0);
  message_node(body, "Add", "a e", "a_out");
  message_observe(body, "a_out", 0);
  message_output(body, "a_out", FLOAT, 0);
  Onnx__NodeProto *scan = message_node(m->graph, "Scan", "start x", "y");
  message_set_graph(scan, "body", body);
  message_set_int(scan, "num_scan_inputs", 1);
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    struct array y = probing_run(r, five, 5, NULL, 0);
    assert_true(*(const float *)y.data == 2);
    assert_int_equal(r->observed[0].runs, 5);
    assert_true(r->observed[0].negative.max == 4);
  }
}

// Two calls of one function, which calls another: an observer sees them all.
static void observe_counts_in_function_bodies(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  for (int k = 0; k < 2; k++) {
    NEW(FunctionProto, onnx__function_proto__init);
    Onnx__FunctionProto *f = FunctionProto_new;
    f->domain = "local";
    f->name = k == 0 ? "Inner" : "Outer";
    APPEND(f, input, "a");
    APPEND(f, output, "b");
    f->n_opset_import = m->n_opset_import;
    f->opset_import = m->opset_import;
    APPEND(f, node, message_new_node(k == 0 ? "Neg" : "local:Inner", "a", "t"));
    APPEND(f, node, message_new_observe("t", k));
    APPEND(f, node, message_new_node("Relu", "t", "b"));
    APPEND(m, functions, f);
  }
  message_node(m->graph, "local:Outer", "x", "mid");
  message_node(m->graph, "local:Outer", "mid", "y");
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    probing_run(r, five, 5, NULL, 0);
    assert_int_equal(r->observed[0].runs, 2);
    assert_int_equal(r->observed[1].runs, 2);
    assert_true(r->observed[0].negative.max == 4);
  }
}

static void observe_takes_every_float_type(void **state) {
  struct probing *r = *state;
  const int types[] = {1, 10, 11, 16};
  for (int level = 0; level < LEVELS; level++) {
    for (int k = 0; k < 4; k++) {
      Onnx__ModelProto *m = message_new_model();
      message_input(m->graph, "x", FLOAT, 1);
      message_output(m->graph, "y", types[k], 1);
      message_set_int(message_node(m->graph, "Cast", "x", "y"), "to", types[k]);
      message_observe(m->graph, "y", 0);
      probing_open(r, m, level);
      struct array y = probing_run(r, five, 5, NULL, 0);
      assert_int_equal(y.elem_type, types[k]);
      assert_int_equal(r->observed[0].positive.count, 2);
      assert_true(r->observed[0].negative.max == 3);
      assert_true(r->observed[0].positive.sum == 6);
    }
  }
}

// The converted elements of a long tensor are sampled as those of a float one would be.
static void observe_samples_converted_types_alike(void **state) {
  struct probing *r = *state;
  enum { N = 200003 };
  float *x = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++)
    x[i] = (float)(i % 2000);  // exact in fp16
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", 10, 1);
  message_set_int(message_node(m->graph, "Cast", "x", "y"), "to", 10);
  message_observe(m->graph, "x", 0);
  message_observe(m->graph, "y", 1);
  r->probe.sample = 1000;
  probing_open(r, m, OPTIMISE_ALL);
  probing_run(r, x, N, NULL, 0);
  assert_true(r->observed[0].sampled <= 1000 && r->observed[0].sampled > 900);
  assert_int_equal(r->observed[0].sampled, r->observed[1].sampled);
  assert_true(r->observed[0].positive.sum == r->observed[1].positive.sum);
  const struct stats_histogram *e = &r->observed[0].positive.exponents;
  for (int bin = e->first; bin < e->first + e->n; bin++)
    assert_int_equal(e->counts[bin - e->first],
                     stats_histogram_at(&r->observed[1].positive.exponents, bin));
  free(x);
}

static void observe_refuses_other_types_and_ids(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "Relu", "x", "y");
  message_observe(m->graph, "x", 8);
  assert_int_equal(probing_try_open(r, m, (struct session_options){0}), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "out of range"));
}

static void round_equals_round_array(void **state) {
  struct probing *r = *state;
  enum { N = 100000 };
  float *x = malloc(N * sizeof *x), *expected = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++)
    x[i] = ldexpf((float)(i * 7919 % 65537 - 32768), i % 40 - 30);
  x[0] = INFINITY, x[1] = -INFINITY, x[2] = -0.0f;
  const struct {
    char *name;
    int scale, saturate, ftz;
  } modes[] = {{"fp16", 0, 0, 0}, {"bf16", 0, 0, 0}, {"fp8e4m3fn", -5, 1, 0}, {"fp16", 8, 0, 1}};
  for (int level = 0; level < LEVELS; level++) {
    for (size_t k = 0; k < 4; k++) {
      Onnx__ModelProto *m = message_new_model();
      message_input(m->graph, "x", FLOAT, 1);
      message_output(m->graph, "y", FLOAT, 1);
      Onnx__NodeProto *n = message_node(m->graph, "narrowcast:Round", "x", "y");
      message_set_text(n, "format", modes[k].name);
      message_set_int(n, "scale", modes[k].scale);
      message_set_int(n, "saturate", modes[k].saturate);
      if (modes[k].ftz)
        message_set_int(n, "ftz", 1);
      probing_open(r, m, level);
      struct array y = probing_run(r, x, N, NULL, 0);
      struct round_mode mode = {format_find(modes[k].name), modes[k].saturate, modes[k].ftz,
                                modes[k].scale};
      round_array(&mode, x, expected, N);
      assert_int_equal(y.size, N * sizeof *x);
      assert_memory_equal(y.data, expected, y.size);
    }
  }
  free(x);
  free(expected);
}

static void round_refuses_unknown_formats(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_set_text(message_node(m->graph, "narrowcast:Round", "x", "y"), "format", "fp15");
  assert_int_equal(probing_try_open(r, m, (struct session_options){0}), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "format"));
}

static void compare_sees_both_and_their_sizes(void **state) {
  struct probing *r = *state;
  enum { N = 150001 };
  float *x = malloc(N * sizeof *x), *half = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++)
    x[i] = (float)i / 3;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_input(m->graph, "z", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_set_text(message_node(m->graph, "narrowcast:Round", "x", "y"), "format", "bf16");
  message_set_int(message_node(m->graph, "narrowcast:Compare", "x y", "e0"), "id", 0);
  message_set_int(message_node(m->graph, "narrowcast:Compare", "x z", "e1"), "id", 1);
  struct compare_piece expected = {0};
  struct round_mode mode = {.format = &formats[FORMAT_BF16]};
  round_array(&mode, x, half, N);
  compare_pairs(&expected, x, half, N);
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    r->probe.step = 6;
    struct array z = probing_vector("z", x, 7);
    probing_run(r, x, N, &z, 1);
    assert_int_equal(r->compared[0].runs, 1);
    assert_int_equal(r->compared[0].count, N);
    assert_int_equal(r->compared[0].worst_step, 6);
    assert_true(r->compared[0].max_abs == expected.max_abs);
    assert_true(fabs(r->compared[0].sum_error / expected.sum_error - 1) < 1e-12);
    assert_int_equal(r->compared[1].mismatched, 1);
    assert_int_equal(r->compared[1].runs, 0);
  }
  free(x);
  free(half);
}

// What a value's statistics hold, without the addresses of what they own.
struct flat {
  struct stats stats;
  uint64_t exponents[2][STATS_EXPONENTS], significands[2][STATS_SIGNIFICANDS];
};

static void flatten_side(struct stats_side *side, uint64_t *exponents, uint64_t *significands) {
  for (int i = 0; i < STATS_EXPONENTS; i++)
    exponents[i] = stats_histogram_at(&side->exponents, i + STATS_EXPONENT_MIN);
  for (int i = 0; i < STATS_SIGNIFICANDS; i++)
    significands[i] = stats_histogram_at(&side->significands, i);
  side->exponents.counts = side->significands.counts = NULL;
}

static void flatten(struct flat *f, const struct stats *s) {
  memset(f, 0, sizeof *f);
  f->stats = *s;
  f->stats.windows = NULL;
  flatten_side(&f->stats.positive, f->exponents[0], f->significands[0]);
  flatten_side(&f->stats.negative, f->exponents[1], f->significands[1]);
}

static void results_do_not_depend_on_threads(void **state) {
  struct probing *r = *state;
  enum { N = 64 * 65536 * 2 + 12345 };
  float *x = malloc(N * sizeof *x);
  uint32_t seed = 1;
  for (int i = 0; i < N; i++) {
    seed = seed * 1664525 + 1013904223;
    x[i] = ldexpf((float)(int32_t)seed, (int)(seed >> 9) % 60 - 60);
  }
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_set_text(message_node(m->graph, "narrowcast:Round", "x", "y"), "format", "fp16");
  message_set_int(message_node(m->graph, "narrowcast:Compare", "x y", "e"), "id", 0);
  message_observe(m->graph, "x", 0);
  struct flat first, now;
  struct compare first_compared = {0};
  for (int threads = 1; threads <= 4; threads *= 2) {
    probing_restart(r);
    probing_ok(r, probing_try_open(r, m, (struct session_options){.threads = threads}));
    probing_run(r, x, N, NULL, 0);
    flatten(&now, &r->observed[0]);
    if (threads == 1) {
      first = now;
      first_compared = r->compared[0];
      continue;
    }
    assert_memory_equal(&first, &now, sizeof first);
    assert_memory_equal(&first_compared, &r->compared[0], sizeof first_compared);
  }
  free(x);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, probing_set_up, probing_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(observe_counts_in_the_main_graph),    TEST(observe_keeps_what_is_dead_or_constant),
      TEST(observe_counts_in_the_branch_taken),  TEST(observe_counts_every_iteration),
      TEST(observe_counts_every_step_of_a_scan), TEST(observe_counts_in_function_bodies),
      TEST(observe_takes_every_float_type),      TEST(observe_samples_converted_types_alike),
      TEST(observe_refuses_other_types_and_ids), TEST(round_equals_round_array),
      TEST(round_refuses_unknown_formats),       TEST(compare_sees_both_and_their_sizes),
      TEST(results_do_not_depend_on_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
