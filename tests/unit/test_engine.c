// The engine: custom operators see every tensor, in every kind of graph and at every optimisation
// level; initializers stay where they are; errors are the engine's own, in a status.
// needs: engine
#include "engine.h"

#include "round.h"
#include "support_message.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

enum { LEVELS = 4 };

// ---- Running them ----

struct run {
  struct engine *engine;
  struct stats observed[8];
  struct compare compared[2];
  struct probe probe;
  struct session *session;
  struct diag diag;
};

static int setup(void **state) {
  struct run *r = calloc(1, sizeof *r);
  for (size_t i = 0; i < 8; i++)
    stats_init(&r->observed[i]);
  for (size_t i = 0; i < 2; i++)
    compare_init(&r->compared[i]);
  r->probe = (struct probe){
      .observed = r->observed, .n_observed = 8, .compared = r->compared, .n_compared = 2};
  enum status status = engine_open(&r->engine, NULL, &r->diag);
  if (status != STATUS_OK)
    diag_print(&r->diag, stderr);
  *state = r;
  return status != STATUS_OK;
}

static void restart(struct run *r) {
  session_close(r->session);
  r->session = NULL;
  for (size_t i = 0; i < 8; i++)
    stats_free(&r->observed[i]);
  for (size_t i = 0; i < 2; i++)
    compare_init(&r->compared[i]);
  diag_clear(&r->diag);
}

static int teardown(void **state) {
  struct run *r = *state;
  restart(r);
  engine_close(r->engine);
  free(r);
  arena_free(&message_arena);
  return 0;
}

static enum status try_open(struct run *r, const Onnx__ModelProto *m,
                            struct session_options options) {
  size_t size = onnx__model_proto__get_packed_size(m);
  uint8_t *bytes = arena_alloc(&message_arena, size);
  onnx__model_proto__pack(m, bytes);
  options.probe = &r->probe;
  return session_open(&r->session, r->engine, bytes, size, &options, &r->diag);
}

static void ok(const struct run *r, enum status status) {
  if (status != STATUS_OK)
    diag_print(&r->diag, stderr);
  assert_int_equal(status, STATUS_OK);
}

static void open_model(struct run *r, const Onnx__ModelProto *m, int level) {
  restart(r);
  ok(r, try_open(r, m,
                 (struct session_options){.optimisation = (enum optimisation)level, .threads = 2}));
}

static struct array vector(const char *name, const float *x, int64_t n) {
  return (struct array){.name = name,
                        .elem_type = FLOAT,
                        .rank = 1,
                        .dims = {n},
                        .data = x,
                        .size = (size_t)n * sizeof *x};
}

// Runs the session on vector "x" and other inputs; the result is output "y".
static struct array run_x(struct run *r, const float *x, int64_t n, const struct array *others,
                          size_t n_others) {
  struct array inputs[4] = {vector("x", x, n)}, y;
  for (size_t i = 0; i < n_others; i++)
    inputs[i + 1] = others[i];
  const char *name = "y";
  ok(r, session_run(r->session, inputs, 1 + n_others, &name, 1, &y, &r->diag));
  return y;
}

static const float five[5] = {-3, -1, 0, 2, 4};

// ---- Tests ----

static void observe_counts_in_the_main_graph(void **state) {
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_observe(m->graph, "x", 0);
  message_node(m->graph, "Neg", "x", "t");
  message_observe(m->graph, "t", 1);
  message_node(m->graph, "Relu", "t", "y");
  message_observe(m->graph, "y", 2);
  for (int level = 0; level < LEVELS; level++) {
    open_model(r, m, level);
    struct array y = run_x(r, five, 5, NULL, 0);
    assert_int_equal(y.dims[0], 5);
    assert_true(((const float *)y.data)[0] == 3);
    assert_int_equal(r->observed[0].runs, 1);
    assert_int_equal(r->observed[0].positive.count, 2);
    assert_true(r->observed[0].positive.max == 4);
    assert_int_equal(r->observed[1].negative.count, 2);
    assert_int_equal(r->observed[2].zeros, 3);
    r->probe.window = 3;
    run_x(r, five, 4, NULL, 0);
    r->probe.window = 0;
    assert_int_equal(r->observed[2].runs, 2);
    assert_int_equal(r->observed[2].count, 9);
    assert_int_equal(r->observed[2].n_windows, 4);
    assert_true(r->observed[2].windows[3].absmax == 3);
  }
}

// A node whose result nobody reads, a constant one at that, is still seen, and in every run.
static void observe_keeps_what_is_dead_or_constant(void **state) {
  struct run *r = *state;
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
    open_model(r, m, level);
    assert_int_equal(r->observed[0].runs, 0);
    for (int run = 1; run <= 2; run++) {
      run_x(r, five, 5, NULL, 0);
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
  struct run *r = *state;
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
    open_model(r, m, level);
    run_x(r, five, 5, &c, 1);
    assert_int_equal(r->observed[0].runs, 1);
    assert_int_equal(r->observed[0].zeros, 3);
    assert_int_equal(r->observed[1].runs, 0);
  }
}

// A Loop that doubles x three times; an If inside it.
static void observe_counts_every_iteration(void **state) {
  struct run *r = *state;
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
    open_model(r, m, level);
    struct array y = run_x(r, five, 5, NULL, 0);
    assert_true(((const float *)y.data)[4] == 32);
    assert_int_equal(r->observed[0].runs, 3);
    assert_true(r->observed[0].positive.max == 16);
    assert_int_equal(r->observed[1].runs, 3);
    assert_true(r->observed[1].positive.max == 32);
  }
}

static void observe_counts_every_step_of_a_scan(void **state) {
  struct run *r = *state;
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
    open_model(r, m, level);
    struct array y = run_x(r, five, 5, NULL, 0);
    assert_true(*(const float *)y.data == 2);
    assert_int_equal(r->observed[0].runs, 5);
    assert_true(r->observed[0].negative.max == 4);
  }
}

// Two calls of one function, which calls another: an observer sees them all.
static void observe_counts_in_function_bodies(void **state) {
  struct run *r = *state;
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
    open_model(r, m, level);
    run_x(r, five, 5, NULL, 0);
    assert_int_equal(r->observed[0].runs, 2);
    assert_int_equal(r->observed[1].runs, 2);
    assert_true(r->observed[0].negative.max == 4);
  }
}

static void observe_takes_every_float_type(void **state) {
  struct run *r = *state;
  const int types[] = {1, 10, 11, 16};
  for (int level = 0; level < LEVELS; level++) {
    for (int k = 0; k < 4; k++) {
      Onnx__ModelProto *m = message_new_model();
      message_input(m->graph, "x", FLOAT, 1);
      message_output(m->graph, "y", types[k], 1);
      message_set_int(message_node(m->graph, "Cast", "x", "y"), "to", types[k]);
      message_observe(m->graph, "y", 0);
      open_model(r, m, level);
      struct array y = run_x(r, five, 5, NULL, 0);
      assert_int_equal(y.elem_type, types[k]);
      assert_int_equal(r->observed[0].positive.count, 2);
      assert_true(r->observed[0].negative.max == 3);
      assert_true(r->observed[0].positive.sum == 6);
    }
  }
}

// The converted elements of a long tensor are sampled as those of a float one would be.
static void observe_samples_converted_types_alike(void **state) {
  struct run *r = *state;
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
  open_model(r, m, OPTIMISE_ALL);
  run_x(r, x, N, NULL, 0);
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
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "Relu", "x", "y");
  message_observe(m->graph, "x", 8);
  assert_int_equal(try_open(r, m, (struct session_options){0}), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "out of range"));
}

static void round_equals_round_array(void **state) {
  struct run *r = *state;
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
      open_model(r, m, level);
      struct array y = run_x(r, x, N, NULL, 0);
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
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_set_text(message_node(m->graph, "narrowcast:Round", "x", "y"), "format", "fp15");
  assert_int_equal(try_open(r, m, (struct session_options){0}), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "format"));
}

static void compare_sees_both_and_their_sizes(void **state) {
  struct run *r = *state;
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
    open_model(r, m, level);
    r->probe.step = 6;
    struct array z = vector("z", x, 7);
    run_x(r, x, N, &z, 1);
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
  struct run *r = *state;
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
    restart(r);
    ok(r, try_open(r, m, (struct session_options){.threads = threads}));
    run_x(r, x, N, NULL, 0);
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

// y = (x + w) with w kept outside, at an address without alignment, small and large ones.
static void initializers_are_taken_from_outside(void **state) {
  struct run *r = *state;
  for (int64_t n = 5; n <= 50000; n *= 10) {
    float *x = calloc((size_t)n, sizeof *x);
    char *room = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) {
      float w = (float)i + 0.5f;
      memcpy(room + 1 + (size_t)i * sizeof w, &w, sizeof w);
    }
    struct engine_initializer outside = {"w", FLOAT, 1, &n, room + 1, (size_t)n * sizeof *x, false};
    Onnx__ModelProto *m = message_new_model();
    message_input(m->graph, "x", FLOAT, 1);
    message_output(m->graph, "y", FLOAT, 1);
    message_initializer(m->graph, "w", FLOAT, 1, &n, NULL, 0);
    message_node(m->graph, "Neg", "w", "folded");
    message_node(m->graph, "Sub", "x folded", "t");
    message_observe(m->graph, "t", 0);
    message_node(m->graph, "Identity", "t", "y");
    for (int level = 0; level < LEVELS; level++) {
      restart(r);
      ok(r, try_open(r, m,
                     (struct session_options){.optimisation = (enum optimisation)level,
                                              .threads = 1,
                                              .initializers = &outside,
                                              .n_initializers = 1}));
      struct array y = run_x(r, x, n, NULL, 0);
      assert_memory_equal(y.data, room + 1, (size_t)n * sizeof *x);
      assert_int_equal(r->observed[0].positive.count, n);
    }
    free(x);
    free(room);
  }
}

// A branch with an initializer of its own under the name of one that is kept outside.
static void initializers_outside_do_not_replace_shadowing_ones(void **state) {
  struct run *r = *state;
  static float main_w = 1, branch_w = 10;
  static const bool yes = true;
  const int64_t one = 1;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_input(m->graph, "c", BOOL, 0);
  message_output(m->graph, "y", FLOAT, 1);
  message_initializer(m->graph, "w", FLOAT, 1, &one, NULL, 0);
  Onnx__NodeProto *n = message_node(m->graph, "If", "c", "z");
  for (int k = 0; k < 2; k++) {
    Onnx__GraphProto *g = message_new_graph(k ? "else" : "then");
    char *sum = k ? "else_sum" : "then_sum";
    message_initializer(g, "w", FLOAT, 1, &one, &branch_w, sizeof branch_w);
    message_node(g, "Add", "x w", sum);
    message_output(g, sum, FLOAT, 1);
    message_set_graph(n, k ? "else_branch" : "then_branch", g);
  }
  message_node(m->graph, "Add", "z w", "y");
  struct engine_initializer outside = {"w", FLOAT, 1, &one, &main_w, sizeof main_w, false};
  struct array c = {.name = "c", .elem_type = BOOL, .data = &yes, .size = 1};
  for (int level = 0; level < LEVELS; level++) {
    restart(r);
    ok(r, try_open(r, m,
                   (struct session_options){.optimisation = (enum optimisation)level,
                                            .threads = 1,
                                            .initializers = &outside,
                                            .n_initializers = 1}));
    struct array y = run_x(r, five, 5, &c, 1);
    assert_true(((const float *)y.data)[0] == five[0] + main_w + branch_w);
  }
}

// Data that the model's bytes refer to in a file, at an offset without alignment.
static void external_files_are_read_below_the_directory(void **state) {
  struct run *r = *state;
  char folder[] = "/tmp/narrowcast-test-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/weights", folder);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fwrite("abc", 1, 3, f);
  fwrite(five, 1, sizeof five, f);
  fclose(f);
  int64_t n = 5;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  Onnx__TensorProto *w = message_initializer(m->graph, "w", FLOAT, 1, &n, NULL, 0);
  w->external_data[0]->value = "weights";
  NEW(StringStringEntryProto, onnx__string_string_entry_proto__init);
  StringStringEntryProto_new->key = "offset";
  StringStringEntryProto_new->value = "3";
  APPEND(w, external_data, StringStringEntryProto_new);
  message_node(m->graph, "Add", "x w", "y");
  for (int level = 0; level < LEVELS; level++) {
    restart(r);
    ok(r,
       try_open(r, m,
                (struct session_options){
                    .optimisation = (enum optimisation)level, .threads = 1, .directory = folder}));
    struct array y = run_x(r, five, 5, NULL, 0);
    assert_true(((const float *)y.data)[4] == 8);
  }
  remove(path);
  remove(folder);
}

// The optimiser takes two Transposes away by transposing the initializers between them, under their
// old names.
static void initializers_that_the_optimiser_changes_are_right(void **state) {
  struct run *r = *state;
  enum { H = 4, W = 5, C = 600, N = H * W * C };
  static float x[N], v[N], w[C];
  for (int i = 0; i < N; i++)
    x[i] = (float)(i % 101), v[i] = (float)(i * 7 % 1009), w[i % C] = (float)i;
  const int64_t w_dims[] = {C, 1, 1}, v_dims[] = {1, C, H, W};
  const int64_t to_nchw[] = {0, 3, 1, 2}, to_nhwc[] = {0, 2, 3, 1};
  struct engine_initializer outside[] = {{"w", FLOAT, 3, w_dims, w, sizeof w, false},
                                         {"v", FLOAT, 4, v_dims, v, sizeof v, false}};
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 4);
  message_output(m->graph, "y", FLOAT, 4);
  message_initializer(m->graph, "w", FLOAT, 3, w_dims, NULL, 0);
  message_initializer(m->graph, "v", FLOAT, 4, v_dims, NULL, 0);
  message_set_ints(message_node(m->graph, "Transpose", "x", "t"), "perm", to_nchw, 4);
  message_node(m->graph, "Add", "t w", "u");
  message_node(m->graph, "Mul", "u v", "s");
  message_set_ints(message_node(m->graph, "Transpose", "s", "y"), "perm", to_nhwc, 4);
  struct array in = {.name = "x",
                     .elem_type = FLOAT,
                     .rank = 4,
                     .dims = {1, H, W, C},
                     .data = x,
                     .size = sizeof x};
  struct array y;
  const char *name = "y";
  for (int level = 0; level < LEVELS; level++) {
    restart(r);
    ok(r, try_open(r, m,
                   (struct session_options){.optimisation = (enum optimisation)level,
                                            .threads = 1,
                                            .initializers = outside,
                                            .n_initializers = 2}));
    ok(r, session_run(r->session, &in, 1, &name, 1, &y, &r->diag));
    const float *result = y.data;
    for (int i = 0; i < N; i++)
      assert_true(result[i] == (x[i] + w[i % C]) * v[i % C * H * W + i / C]);
  }
}

// `rectifier` and codes in float8 behind it, at a level: the least number that comes out for -2.
static float least_behind(struct run *r, const char *rectifier, const char *inputs, int level) {
  static const float x[2] = {-2, 2};
  static float half = 0.5f, zero = 0;
  static uint8_t zero_point = 0;
  Onnx__ModelProto *m = message_new_model();
  m->opset_import[0]->version = 19;
  m->ir_version = 9;
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_initializer(m->graph, "scale", FLOAT, 0, NULL, &half, sizeof half);
  message_initializer(m->graph, "zero", FLOAT, 0, NULL, &zero, sizeof zero);
  message_initializer(m->graph, "point", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FN, 0, NULL,
                      &zero_point, sizeof zero_point);
  message_node(m->graph, rectifier, inputs, "r");
  message_node(m->graph, "QuantizeLinear", "r scale point", "q");
  message_node(m->graph, "DequantizeLinear", "q scale point", "y");
  open_model(r, m, level);
  struct array y = run_x(r, x, 2, NULL, 0);
  assert_float_equal(((const float *)y.data)[1], 2, 0);
  return ((const float *)y.data)[0];
}

// Entry 5 of plan_engine.c, and what pass_quantise writes instead.
static void a_max_with_zero_stays_in_front_of_float8_where_a_relu_is_dropped(void **state) {
  struct run *r = *state;
  bool right = true;
  for (int level = 0; level < LEVELS; level++) {
    assert_float_equal(least_behind(r, "Max", "x zero", level), 0, 0);
    right = right && least_behind(r, "Relu", "x", level) == 0;
  }
  if (right)
    print_message("ONNX Runtime %s keeps the Relu: entry 5 of src/plan/plan_engine.c can go\n",
                  engine_info(r->engine)->version);
}

static void empty_tensors_and_scalars_work(void **state) {
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_output(m->graph, "s", FLOAT, 0);
  message_set_text(message_node(m->graph, "narrowcast:Round", "x", "y"), "format", "fp16");
  message_set_int(message_node(m->graph, "narrowcast:Compare", "x y", "e"), "id", 0);
  message_observe(m->graph, "y", 0);
  message_set_int(message_node(m->graph, "ReduceSum", "y", "s"), "keepdims", 0);
  message_observe(m->graph, "s", 1);
  for (int level = 0; level < LEVELS; level++) {
    open_model(r, m, level);
    struct array y = run_x(r, NULL, 0, NULL, 0);
    assert_int_equal(y.size, 0);
    assert_int_equal(y.dims[0], 0);
    assert_int_equal(r->observed[0].runs, 1);
    assert_int_equal(r->observed[0].count, 0);
    assert_int_equal(r->observed[1].zeros, 1);
    assert_int_equal(r->compared[0].runs, 1);
  }
}

static void strings_go_in_and_come_out(void **state) {
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", STRING, 1);
  message_output(m->graph, "y", STRING, 1);
  message_node(m->graph, "Identity", "x", "y");
  open_model(r, m, OPTIMISE_ALL);
  char *words[] = {"alpha", "", "beta"};
  struct array x = {.name = "x", .elem_type = STRING, .rank = 1, .dims = {3}, .strings = words}, y;
  const char *name = "y";
  for (int64_t n = 0; n <= 3; n += 3) {
    x.dims[0] = n;
    ok(r, session_run(r->session, &x, 1, &name, 1, &y, &r->diag));
    assert_null(y.data);
    assert_int_equal(y.dims[0], n);
    for (int64_t i = 0; i < n; i++)
      assert_string_equal(y.strings[i], words[i]);
  }
}

static void sequences_come_out_as_no_type(void **state) {
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  NEW(TypeProto__Sequence, onnx__type_proto__sequence__init);
  NEW(TypeProto, onnx__type_proto__init);
  Onnx__ValueInfoProto *declared = message_info("y", FLOAT, 1, 0);
  TypeProto__Sequence_new->elem_type = declared->type;
  TypeProto_new->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
  TypeProto_new->sequence_type = TypeProto__Sequence_new;
  declared->type = TypeProto_new;
  APPEND(m->graph, output, declared);
  message_node(m->graph, "SequenceConstruct", "x x", "y");
  open_model(r, m, OPTIMISE_ALL);
  struct array y = run_x(r, five, 5, NULL, 0);
  assert_int_equal(y.elem_type, 0);
  assert_null(y.data);
  assert_string_equal(y.name, "y");
}

static void labels_are_not_fed(void **state) {
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "Relu", "x", "y");
  open_model(r, m, OPTIMISE_ALL);
  struct array label = vector("label:y", five, 1), stranger = vector("stranger", five, 1), y;
  run_x(r, five, 5, &label, 1);
  const char *name = "y";
  assert_int_equal(session_run(r->session, &stranger, 1, &name, 1, &y, &r->diag), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "stranger"));
}

static void broken_models_give_the_engines_message(void **state) {
  struct run *r = *state;
  const uint8_t junk[] = "ORTMthis is no model";
  struct session_options options = {0};
  assert_int_equal(session_open(&r->session, r->engine, junk, sizeof junk, &options, &r->diag),
                   STATUS_ENGINE);
  assert_null(r->session);
  assert_non_null(strstr(r->diag.message, "ONNX Runtime 1."));
  diag_clear(&r->diag);
  assert_int_equal(session_open(&r->session, r->engine, junk, 0, &options, &r->diag),
                   STATUS_ENGINE);
  diag_clear(&r->diag);
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "NoSuchOperator", "x", "y");
  assert_int_equal(try_open(r, m, options), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "NoSuchOperator"));
  assert_null(strchr(r->diag.message, '\n'));
}

static void failing_nodes_are_named(void **state) {
  struct run *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_input(m->graph, "z", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "Add", "x z", "y")->name = "the_sum";
  open_model(r, m, OPTIMISE_ALL);
  struct array inputs[] = {vector("x", five, 5), vector("z", five, 3)}, y;
  const char *name = "y";
  assert_int_equal(session_run(r->session, inputs, 2, &name, 1, &y, &r->diag), STATUS_ENGINE);
  assert_string_equal(r->diag.node, "the_sum");
  assert_null(strstr(r->diag.message, "onnxruntime_src"));
  diag_clear(&r->diag);
  struct array z = vector("z", five, 5);
  run_x(r, five, 5, &z, 1);  // it goes on
}

static void missing_library_is_an_error_with_a_hint(void **state) {
  (void)state;
  struct engine *engine;
  struct diag d = {0};
  assert_int_equal(engine_open(&engine, SOURCE_DIR "/no/such/library.so", &d), STATUS_ENGINE);
  assert_null(engine);
  assert_non_null(strstr(d.message, "library.so"));
  assert_non_null(strstr(d.hint, "NARROWCAST_ORT"));
  diag_clear(&d);
  assert_int_equal(engine_open(&engine, SOURCE_DIR "/src", &d), STATUS_ENGINE);
  assert_non_null(strstr(d.message, "holds no libonnxruntime.so"));
  diag_clear(&d);
  assert_int_equal(engine_open(&engine, "libm.so.6", &d), STATUS_ENGINE);
  assert_non_null(strstr(d.message, "not ONNX Runtime"));
  diag_clear(&d);
  const char *old = getenv("NARROWCAST_ORT");
  char *kept = old ? strdup(old) : NULL;
  setenv("NARROWCAST_ORT", "none", 1);
  assert_int_equal(engine_open(&engine, NULL, &d), STATUS_ENGINE);
  assert_non_null(strstr(d.message, "none"));
  if (kept)
    setenv("NARROWCAST_ORT", kept, 1);
  else
    unsetenv("NARROWCAST_ORT");
  free(kept);
}

static void two_engines_can_be_open(void **state) {
  struct run *r = *state;
  struct engine *second;
  ok(r, engine_open(&second, engine_info(r->engine)->path, &r->diag));
  assert_string_equal(engine_info(second)->version, engine_info(r->engine)->version);
  engine_close(second);
  observe_counts_in_the_main_graph(state);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(observe_counts_in_the_main_graph),
      TEST(observe_keeps_what_is_dead_or_constant),
      TEST(observe_counts_in_the_branch_taken),
      TEST(observe_counts_every_iteration),
      TEST(observe_counts_every_step_of_a_scan),
      TEST(observe_counts_in_function_bodies),
      TEST(observe_takes_every_float_type),
      TEST(observe_samples_converted_types_alike),
      TEST(observe_refuses_other_types_and_ids),
      TEST(round_equals_round_array),
      TEST(round_refuses_unknown_formats),
      TEST(compare_sees_both_and_their_sizes),
      TEST(results_do_not_depend_on_threads),
      TEST(initializers_are_taken_from_outside),
      TEST(initializers_outside_do_not_replace_shadowing_ones),
      TEST(external_files_are_read_below_the_directory),
      TEST(initializers_that_the_optimiser_changes_are_right),
      TEST(a_max_with_zero_stays_in_front_of_float8_where_a_relu_is_dropped),
      TEST(empty_tensors_and_scalars_work),
      TEST(strings_go_in_and_come_out),
      TEST(sequences_come_out_as_no_type),
      TEST(labels_are_not_fed),
      TEST(broken_models_give_the_engines_message),
      TEST(failing_nodes_are_named),
      cmocka_unit_test(missing_library_is_an_error_with_a_hint),
      TEST(two_engines_can_be_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
