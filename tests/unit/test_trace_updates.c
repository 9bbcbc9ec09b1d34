// Update sites: which a graph has, that each is counted in a trace, that they change nothing else,
// and that with the Step rule the models of models/hazards come out right that go wrong without.
// needs: engine
#include "run.h"

#include "support_numbers.h"
#include "support_trace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka.h needs those above.
#include <cmocka.h>

// Three made-up samples; update_sample 0: no sites.
static struct trace traced(struct fixture *f, struct engine *engine, size_t update_sample,
                           int threads) {
  struct trace t;
  size_t steps[] = {0, 1, 2};
  struct trace_options options = {.window = 2,
                                  .sample = 64,
                                  .update_sample = update_sample,
                                  .threads = threads,
                                  .steps = steps,
                                  .n_steps = 3};
  if (!f->samples)
    expect_ok(&f->d, samples_random(&f->samples, &f->g, 1, 3, &f->arena, &f->d));
  expect_ok(&f->d, trace_run(&t, &f->g, engine, f->samples, &options, &f->arena, &f->d));
  return t;
}

// The statistics of the site, or NULL if there is none.
static const struct updates *site(const struct fixture *f, const struct trace *t,
                                  enum update_kind kind, const char *value) {
  for (size_t i = 0; i < t->n_sites; i++)
    if (t->sites[i].kind == kind && strcmp(graph_value_label(&f->g, t->sites[i].value), value) == 0)
      return &t->updates[i];
  return NULL;
}

// ---- Which sites there are ----

static void sites_of_additions_are_those_with_a_computed_value(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[4,4]");
  build_input(&f->b, "r", "float[4]");
  build_floats(&f->b, "w", "float[4]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "Neg", "x", "n");
  build_node(&f->b, "Add", "x n", "residual");
  build_node(&f->b, "Sub", "residual r", "broadcast");
  build_node(&f->b, "Add", "broadcast w", "bias");
  build_node(&f->b, "Add", "bias bias", "twice");
  build_node(&f->b, "Sum", "twice x r", "three");
  build_node(&f->b, "Sum", "three", "one");
  build_node(&f->b, "Mul", "one n", "y");
  build_output(&f->b, "y", "float[4,4]");
  fixture_build(f);
  struct trace t = traced(f, *state, 8, 1);
  assert_int_equal(t.n_sites, 4);
  assert_non_null(site(f, &t, UPDATE_RESIDUAL, "bias"));
  assert_int_equal(site(f, &t, UPDATE_RESIDUAL, "residual")->runs, 3);
  assert_int_equal(site(f, &t, UPDATE_RESIDUAL, "residual")->n_windows, 2);
  assert_non_null(site(f, &t, UPDATE_RESIDUAL, "broadcast"));
  // Each of three terms beside their sum.
  assert_int_equal(site(f, &t, UPDATE_RESIDUAL, "three")->runs, 9);
  trace_free(&t);
  fixture_end(f);
}

// What is added to a large constant vanishes beside it; a small one is no update itself.
static void a_value_that_a_constant_swamps_is_an_update_that_is_lost(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[4,4]");
  build_floats(&f->b, "large", "float[]", (float[]){65504});
  build_floats(&f->b, "small", "float[]", (float[]){1e-6f});
  build_node(&f->b, "Tanh", "x", "t");
  build_node(&f->b, "Add", "t large", "swamped");
  build_node(&f->b, "Sub", "small t", "epsilon");
  build_output(&f->b, "swamped", "float[4,4]");
  build_output(&f->b, "epsilon", "float[4,4]");
  fixture_build(f);
  struct trace t = traced(f, *state, 8, 1);
  assert_int_equal(t.n_sites, 2);
  assert_true(updates_worst_window(site(f, &t, UPDATE_RESIDUAL, "swamped"), FORMAT_FP16) == 1);
  assert_true(updates_worst_window(site(f, &t, UPDATE_RESIDUAL, "epsilon"), FORMAT_BF16) == 0);
  trace_free(&t);
  fixture_end(f);
}

static void sites_of_reductions_know_their_axes(void **state) {
  struct fixture *f = fixture_new();
  f->b.model->opset_import[0]->version = 18;
  build_input(&f->b, "x", "float[2,3,4,5]");
  build_input(&f->b, "axis", "int64[1]");
  build_int64s(&f->b, "last", "int64[1]", (int64_t[]){-1});
  build_int64s(&f->b, "scalar", "int64[]", (int64_t[]){2});
  build_floats(&f->b, "scale", "float[5]", (float[]){1, 1, 1, 1, 1});
  build_node(&f->b, "ReduceMean", "x last", "mean");
  build_node(&f->b, "ReduceSumSquare", "x", "all");
  build_node(&f->b, "ReduceSum", "x axis", "unknown");
  build_node(&f->b, "GlobalAveragePool", "x", "pooled");
  Onnx__NodeProto *softmax = build_node(&f->b, "Softmax", "x", "softmax");
  build_int(&f->b, softmax, "axis", 1);
  build_node(&f->b, "LayerNormalization", "x scale", "normal");
  build_node(&f->b, "CumSum", "x scalar", "running");
  Onnx__NodeProto *pool = build_node(&f->b, "AveragePool", "x", "averaged");
  build_ints(&f->b, pool, "kernel_shape", (int64_t[]){2, 3}, 2);
  const char *const outputs[] = {"mean",    "all",    "unknown", "pooled",
                                 "softmax", "normal", "running", "averaged"};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    build_output(&f->b, outputs[i], "float");
  fixture_build(f);
  size_t one = 0;
  struct trace t;
  struct trace_options options = {
      .window = 1, .update_sample = 1 << 20, .steps = &one, .n_steps = 1};
  expect_ok(&f->d, samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d));
  enum status status = trace_run(&t, &f->g, *state, f->samples, &options, &f->arena, &f->d);
  expect_ok(&f->d, status);
  // Pairs: every term but the first of each sum.
  assert_int_equal(t.n_sites, 7);
  assert_int_equal(site(f, &t, UPDATE_REDUCTION, "mean")->total.pairs, 24 * 4);
  assert_int_equal(site(f, &t, UPDATE_REDUCTION, "all")->total.pairs, 119);
  assert_int_equal(site(f, &t, UPDATE_REDUCTION, "pooled")->total.pairs, 6 * 19);
  assert_int_equal(site(f, &t, UPDATE_REDUCTION, "softmax")->total.pairs, 40 * 2);
  assert_int_equal(site(f, &t, UPDATE_REDUCTION, "normal")->total.pairs, 24 * 4);
  assert_int_equal(site(f, &t, UPDATE_RUNNING_SUM, "running")->total.pairs, 30 * 3);
  assert_int_equal(site(f, &t, UPDATE_REDUCTION, "averaged")->total.pairs, 6 * 3 * 3 * 5);
  trace_free(&t);
  fixture_end(f);
}

// Not run: ONNX Runtime 1.21 cannot.
static void a_reduction_over_no_axes_is_no_site(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2,3]");
  build_int(&f->b, build_node(&f->b, "ReduceSum", "x", "y"), "noop_with_empty_axes", 1);
  build_output(&f->b, "y", "float[2,3]");
  fixture_build(f);
  struct instrumented out;
  expect_ok(&f->d, trace_instrument(&out, &f->g, TRACE_VALUES_AND_UPDATES, &f->arena, &f->d));
  assert_int_equal(out.n_sites, 0);
  fixture_end(f);
}

static void sites_of_products_are_sums_of_their_terms(void **state) {
  struct fixture *f = fixture_new();
  static const float weights[36] = {1, 2, 3};
  build_input(&f->b, "x", "float[1,1,6,6]");
  build_input(&f->b, "a", "float[6,4]");
  build_floats(&f->b, "k", "float[4,1,3,3]", weights);
  build_floats(&f->b, "w", "float[3,4]", weights);
  build_floats(&f->b, "v", "float[4,3]", weights);
  Onnx__NodeProto *conv = build_node(&f->b, "Conv", "x k", "c");
  build_string(&f->b, conv, "auto_pad", "VALID");
  build_ints(&f->b, conv, "strides", (int64_t[]){2, 1}, 2);
  Onnx__NodeProto *gemm = build_node(&f->b, "Gemm", "a w", "g");
  build_int(&f->b, gemm, "transB", 1);
  build_node(&f->b, "MatMul", "a v", "m");
  build_node(&f->b, "MatMul", "w v", "constant");
  build_output(&f->b, "c", "float");
  build_output(&f->b, "g", "float");
  build_output(&f->b, "m", "float");
  build_output(&f->b, "constant", "float");
  fixture_build(f);
  struct trace t = traced(f, *state, 1 << 16, 1);
  assert_int_equal(t.n_sites, 3);
  assert_int_equal(site(f, &t, UPDATE_PRODUCT, "c")->total.pairs, 3 * (4 * 2 * 4) * 8);
  assert_int_equal(site(f, &t, UPDATE_PRODUCT, "g")->total.pairs, 3 * 18 * 3);
  assert_int_equal(site(f, &t, UPDATE_PRODUCT, "m")->total.pairs, 3 * 18 * 3);
  trace_free(&t);
  fixture_end(f);
}

static void sites_of_states_are_in_the_bodies(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[4]");
  build_input(&f->b, "xs", "float[5,4]");
  build_int64s(&f->b, "count", "int64[]", (int64_t[]){7});
  Onnx__NodeProto *loop = build_node(&f->b, "Loop", "count _ x x", "l m collected");
  build_graph_begin(&f->b, loop, "body");
  build_input(&f->b, "i", "int64[]");
  build_input(&f->b, "go", "bool[]");
  build_input(&f->b, "s", "float[4]");
  build_input(&f->b, "same", "float[4]");
  build_node(&f->b, "Identity", "go", "go_out");
  build_node(&f->b, "Add", "s x", "s_out");
  build_output(&f->b, "go_out", "bool[]");
  build_output(&f->b, "s_out", "float[4]");
  build_output(&f->b, "same", "float[4]");
  build_output(&f->b, "s_out", "float[4]");
  build_graph_end(&f->b);
  Onnx__NodeProto *scan = build_node(&f->b, "Scan", "x xs", "last all");
  build_int(&f->b, scan, "num_scan_inputs", 1);
  build_graph_begin(&f->b, scan, "body");
  build_input(&f->b, "h", "float[4]");
  build_input(&f->b, "e", "float[4]");
  build_node(&f->b, "Mul", "h e", "h_out");
  build_node(&f->b, "Neg", "h_out", "n");
  build_output(&f->b, "h_out", "float[4]");
  build_output(&f->b, "n", "float[4]");
  build_graph_end(&f->b);
  build_output(&f->b, "l", "float[4]");
  build_output(&f->b, "collected", "float");
  build_output(&f->b, "all", "float");
  fixture_build(f);
  struct trace t = traced(f, *state, 64, 1);
  assert_int_equal(t.n_sites, 3);
  assert_int_equal(site(f, &t, UPDATE_STATE, "#0.body::s_out")->runs, 21);
  assert_int_equal(site(f, &t, UPDATE_STATE, "#0.body::s_out")->total.pairs, 84);
  assert_int_equal(site(f, &t, UPDATE_RESIDUAL, "#0.body::s_out")->runs, 21);
  assert_int_equal(site(f, &t, UPDATE_STATE, "#1.body::h_out")->runs, 15);
  trace_free(&t);
  fixture_end(f);
}

static void sites_of_recurrent_operators_and_of_functions(void **state) {
  struct fixture *f = fixture_new();
  static const float weights[24] = {0.5F, -0.25F, 1};
  build_input(&f->b, "x", "float[6,2,3]");
  build_floats(&f->b, "w", "float[1,2,3]", weights);
  build_floats(&f->b, "r", "float[1,2,2]", weights);
  Onnx__NodeProto *rnn = build_node(&f->b, "RNN", "x w r", "y h");
  build_int(&f->b, rnn, "hidden_size", 2);
  build_node(&f->b, "Neg", "x", "n");
  build_node(&f->b, "local.Join", "x n", "z");
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Join", "a b", "c", "");
  build_node(&f->b, "Abs", "b", "d");
  build_node(&f->b, "Add", "a d", "c");
  build_function_end(&f->b);
  build_output(&f->b, "y", "float");
  build_output(&f->b, "z", "float");
  fixture_build(f);
  struct trace t = traced(f, *state, 1 << 10, 1);
  assert_int_equal(t.n_sites, 2);
  assert_int_equal(site(f, &t, UPDATE_SEQUENCE, "y")->total.pairs, 3 * 5 * 4);
  assert_int_equal(site(f, &t, UPDATE_RESIDUAL, "fn:local.Join::c")->total.pairs, 3 * 36);
  trace_free(&t);
  fixture_end(f);
}

// ---- What they leave alone, and the file ----

static struct fixture *small_model(void) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[4,4]");
  build_node(&f->b, "Softmax", "x", "p");
  build_node(&f->b, "MatMul", "p x", "m");
  build_node(&f->b, "Add", "m x", "y");
  build_output(&f->b, "y", "float[4,4]");
  fixture_build(f);
  return f;
}

static void updates_leave_other_statistics_alone(void **state) {
  struct fixture *f = small_model();
  struct trace with = traced(f, *state, 16, 1), without = traced(f, *state, 0, 1);
  assert_int_equal(with.n_sites, 3);
  assert_int_equal(without.n_sites, 0);
  for (int v = 0; v < f->g.n_values; v++) {
    assert_int_equal(with.stats[v].count, without.stats[v].count);
    assert_true(with.stats[v].positive.sum == without.stats[v].positive.sum);
    assert_true(with.stats[v].negative.sum == without.stats[v].negative.sum);
  }
  char *text = file_text(f, write_trace(f, &without, "a.json"));
  assert_null(strstr(text, "update"));
  trace_free(&with);
  trace_free(&without);
  fixture_end(f);
}

static void updates_in_a_file_read_back_exactly_for_any_number_of_threads(void **state) {
  struct fixture *f = small_model();
  struct trace t = traced(f, *state, 16, 1), again = traced(f, *state, 16, 2), back;
  const char *first = write_trace(f, &t, "a.json"), *second = write_trace(f, &again, "b.json");
  char *text = file_text(f, first);
  assert_string_equal(text, file_text(f, second));
  expect_ok(&f->d, trace_read(&back, &f->g, first, &f->arena, &f->d));
  assert_int_equal(back.n_sites, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(back.sites[i].kind, t.sites[i].kind);
    assert_int_equal(back.sites[i].value, t.sites[i].value);
    assert_int_equal(back.updates[i].runs, t.updates[i].runs);
    assert_memory_equal(&back.updates[i].total, &t.updates[i].total, sizeof t.updates[i].total);
    assert_int_equal(back.updates[i].n_windows, 2);
    assert_memory_equal(back.updates[i].windows, t.updates[i].windows,
                        2 * sizeof *t.updates[i].windows);
  }
  assert_string_equal(text, file_text(f, write_trace(f, &back, "c.json")));
  trace_free(&t);
  trace_free(&again);
  trace_free(&back);
  fixture_end(f);
}

// The file with the first `from` behind "updates" replaced does not read; the message says `text`.
static void refuses(struct fixture *f, const char *good, const char *from, const char *to,
                    const char *text) {
  const char *start = strstr(good, "\"updates\": [");
  const char *at = start ? strstr(start, from) : NULL;
  assert_non_null(at);
  const char *bad =
      arena_printf(&f->arena, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
  write_bytes(f, "bad.json", bad, strlen(bad));
  struct trace back;
  const char *path = arena_printf(&f->arena, "%s/bad.json", f->folder);
  if (trace_read(&back, &f->g, path, &f->arena, &f->d) != STATUS_POLICY)
    fail_msg("this was read: %s for %s", to, from);
  if (!strstr(f->d.message, text))
    fail_msg("\"%s\" is not in: %s", text, f->d.message);
  diag_clear(&f->d);
}

static void updates_that_contradict_themselves_are_refused(void **state) {
  struct fixture *f = small_model();
  struct trace t = traced(f, *state, 16, 1);
  const char *text = file_text(f, write_trace(f, &t, "a.json"));
  refuses(f, text, "\"kind\": \"reduction\"", "\"kind\": \"increase\"", "increase");
  refuses(f, text, "\"kind\": \"product\", \"name\": \"m\"",
          "\"kind\": \"residual\", \"name\": \"y\"", "comes twice");
  refuses(f, text, "\"name\": \"p\"", "\"name\": \"q\"", "no value");
  refuses(f, text, "\"pairs\": ", "\"pairs\": 1", "add up");
  refuses(f, text, "\"updates\": 1", "\"updates\": 99", "add up");
  refuses(f, text, "\"errors\"", "\"error\"", "errors");
  refuses(f, text, "\"sequential\"", "\"sequence\"", "unknown key");
  refuses(f, text, "\"zero_updates\": ", "\"zero_updates\": 0.5", "integer");
  refuses(f, text, "\"windows\": [", "\"windows\": [{}, {}, {}, {}, ", "one element a window");
  trace_free(&t);
  fixture_end(f);
}

// ---- Weights ----

// A training step, w_new = w - 0.001 * g, at w = 1 and g = 2e-4, run 10 times.
static struct fixture *training_step(bool default_weight) {
  struct fixture *f = fixture_new();
  const float ones[2] = {1, 1}, gradients[2] = {2e-4F, 2e-4F};
  if (default_weight)
    build_floats(&f->b, "w", "float[2]", ones);
  build_input(&f->b, "w", "float[2]");
  build_input(&f->b, "g", "float[2]");
  build_floats(&f->b, "rate", "float[]", (float[]){1e-3F});
  build_node(&f->b, "Mul", "g rate", "step");
  build_node(&f->b, "Sub", "w step", "w_new");
  build_output(&f->b, "w_new", "float[2]");
  fixture_build(f);
  if (!default_weight)
    write_npy(f, "w.npy", "<f4", "(2,)", ones, sizeof ones);
  write_npy(f, "g.npy", "<f4", "(2,)", gradients, sizeof gradients);
  expect_ok(&f->d, open_at(f, ""));
  return f;
}

static enum status train(struct trace *t, struct fixture *f, struct engine *engine,
                         const char *output) {
  struct feedback pair = {map_get(&f->g.names, 0, "w"), map_get(&f->g.names, 0, output)};
  size_t step = 0;
  struct trace_options options = {
      .window = 4, .steps = &step, .n_steps = 1, .feedback = &pair, .n_feedback = 1, .rounds = 10};
  return trace_run(t, &f->g, engine, f->samples, &options, &f->arena, &f->d);
}

static void feedback_carries_weights_from_step_to_step(void **state) {
  for (int k = 0; k < 2; k++) {
    struct fixture *f = training_step(k == 1);
    struct trace t;
    expect_ok(&f->d, train(&t, f, *state, "w_new"));
    assert_int_equal(t.steps, 10);
    assert_int_equal(t.weight_steps, 10);
    assert_int_equal(t.n_sites, 1);
    const struct updates *w = site(f, &t, UPDATE_WEIGHT, "w");
    assert_int_equal(w->runs, 10);
    assert_int_equal(w->n_windows, 3);
    assert_int_equal(w->windows[0].updates, 8);
    assert_int_equal(w->windows[2].updates, 4);
    assert_true(wholly_lost_fraction(w, FORMAT_FP16) == 1);
    assert_true(lost_fraction(w, FORMAT_FP32) == 0);
    // The weight has moved: ten times three steps of fp32.
    const struct stats *after = &t.stats[map_get(&f->g.names, 0, "w_new")];
    assert_true(fabsf(stats_absmin(after) - (1 - 30 * 0x1p-24F)) < 1e-9F);
    struct trace back;
    expect_ok(&f->d, trace_read(&back, &f->g, write_trace(f, &t, "t.json"), &f->arena, &f->d));
    assert_int_equal(back.weight_steps, 10);
    trace_free(&back);
    trace_free(&t);
    fixture_end(f);
  }
}

static void feedback_of_another_shape_is_refused(void **state) {
  struct fixture *f = fixture_new();
  const float ones[2] = {1, 1};
  build_input(&f->b, "w", "float[2]");
  build_node(&f->b, "Concat", "w w", "w_new");
  build_int(&f->b, f->b.model->graph->node[0], "axis", 0);
  build_output(&f->b, "w_new", "float[4]");
  fixture_build(f);
  write_npy(f, "w.npy", "<f4", "(2,)", ones, sizeof ones);
  expect_ok(&f->d, open_at(f, ""));
  struct trace t;
  assert_int_equal(train(&t, f, *state, "w_new"), STATUS_DATA);
  assert_non_null(strstr(f->d.message, "another shape"));
  fixture_end(f);
}

static void plan_says_which_weights_need_a_master_copy(void **state) {
  struct fixture *f = training_step(false);
  struct trace t;
  struct policy policy;
  struct plan plan;
  expect_ok(&f->d, train(&t, f, *state, "w_new"));
  expect_ok(&f->d, policy_load(&policy, "fp16", &f->arena, &f->d));
  expect_ok(&f->d, plan_make(&plan, &f->g, &t, &policy, NULL, &f->arena, &f->d));
  assert_int_equal(plan.n_weights, 1);
  assert_int_equal(plan.weights[0].value, map_get(&f->g.names, 0, "w"));
  assert_int_equal(plan.weights[0].format, FORMAT_FP16);
  assert_true(plan.weights[0].lost_fraction == 1);
  assert_true(plan.weights[0].master_copy);
  const char *path = arena_printf(&f->arena, "%s/plan.json", f->folder);
  expect_ok(&f->d, plan_write(&plan, &f->g, path, &f->d));
  assert_non_null(strstr(file_text(f, path), "needs a 32-bit master copy"));
  trace_free(&t);
  fixture_end(f);
}

// ---- The hazards ----

static void plan_hazards(struct run *r, const struct settings *s, struct diag *d,
                         struct engine *engine, bool rule) {
  run_begin(r, s, d);
  expect_ok(d, run_load_model(r));
  expect_ok(d, run_load_policy(r));
  r->engine = engine;
  r->policy.promotion_rounds = 0;
  if (!rule)
    r->policy.max_lost_fraction = 0;
  expect_ok(d, run_open_samples(r, &r->policy.hold_out));
  expect_ok(d, run_trace(r));
  expect_ok(d, run_plan(r));
}

static int value_of(const struct run *r, const char *label) {
  for (int v = 0; v < r->graph.n_values; v++)
    if (strcmp(graph_value_label(&r->graph, v), label) == 0)
      return v;
  fail_msg("there is no %s", label);
  return -1;
}

static double error_of(const struct run *r, const char *output) {
  for (int i = 0; i < r->verdict.n_outputs; i++)
    if (strcmp(r->verdict.outputs[i].name, output) == 0)
      return compare_relative_l2(&r->verdict.outputs[i].on[SET_HELD_OUT]);
  fail_msg("there is no output %s", output);
  return 0;
}

static void finish_hazards(struct run *r, struct diag *d) {
  expect_ok(d, run_rewrite(r));
  expect_ok(d, run_verify(r));
}

static const char *const swamped = "swamped_residual.sum";
static const char *const summed = "/running_sum/final.body::running_sum.new_state";

static const struct settings hazards = {
    .model = SOURCE_DIR "/models/hazards/hazards.onnx",
    .data = SOURCE_DIR "/models/hazards/samples",
    .quiet = true,
};

static void step_rule_keeps_swamped_sums_of_the_hazards_right(void **state) {
  struct glob_class narrow[] = {{CLASS_NARROW, "swamped_residual*"},
                                {CLASS_NARROW, "running_sum*"}};
  struct settings s = hazards;
  s.adjustments = narrow;
  s.n_adjustments = 2;
  struct run r;
  struct diag d = {0};
  plan_hazards(&r, &s, &d, *state, true);
  assert_int_equal(r.plan.values[value_of(&r, swamped)].fit.reason, REASON_STEP);
  assert_int_equal(r.plan.values[value_of(&r, swamped)].format, FORMAT_FP32);
  assert_int_equal(r.plan.values[value_of(&r, summed)].fit.reason, REASON_STEP);
  assert_int_equal(r.plan.values[value_of(&r, summed)].format, FORMAT_FP32);
  finish_hazards(&r, &d);
  assert_true(r.verdict.holds);
  assert_true(error_of(&r, "swamped_residual") < 0.01);
  assert_true(error_of(&r, "running_sum") < 0.01);
  r.engine = NULL;
  run_close(&r);
}

static void without_the_step_rule_swamped_sums_of_the_hazards_go_wrong(void **state) {
  struct glob_class narrow[] = {{CLASS_NARROW, "swamped_residual*"}};
  struct settings s = hazards;
  s.adjustments = narrow;
  s.n_adjustments = 1;
  struct run r;
  struct diag d = {0};
  plan_hazards(&r, &s, &d, *state, false);
  assert_int_equal(r.plan.values[value_of(&r, swamped)].format, FORMAT_FP16);
  // The Casts around the only node of the loop's body cost too much: take it though.
  int v = value_of(&r, summed);
  assert_int_equal(r.plan.values[v].fit.reason, REASON_NONE);
  r.plan.nodes[r.graph.values[v].producer].format = FORMAT_FP16;
  r.plan.values[v].format = plan_stored_format(&r.graph, &r.plan, v);
  finish_hazards(&r, &d);
  assert_false(r.verdict.holds);
  assert_true(error_of(&r, "swamped_residual") > 0.5);
  assert_true(error_of(&r, "running_sum") > 0.5);
  r.engine = NULL;
  run_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sites_of_additions_are_those_with_a_computed_value),
      cmocka_unit_test(a_value_that_a_constant_swamps_is_an_update_that_is_lost),
      cmocka_unit_test(sites_of_reductions_know_their_axes),
      cmocka_unit_test(a_reduction_over_no_axes_is_no_site),
      cmocka_unit_test(sites_of_products_are_sums_of_their_terms),
      cmocka_unit_test(sites_of_states_are_in_the_bodies),
      cmocka_unit_test(sites_of_recurrent_operators_and_of_functions),
      cmocka_unit_test(updates_leave_other_statistics_alone),
      cmocka_unit_test(updates_in_a_file_read_back_exactly_for_any_number_of_threads),
      cmocka_unit_test(updates_that_contradict_themselves_are_refused),
      cmocka_unit_test(feedback_carries_weights_from_step_to_step),
      cmocka_unit_test(feedback_of_another_shape_is_refused),
      cmocka_unit_test(plan_says_which_weights_need_a_master_copy),
      cmocka_unit_test(step_rule_keeps_swamped_sums_of_the_hazards_right),
      cmocka_unit_test(without_the_step_rule_swamped_sums_of_the_hazards_go_wrong),
  };
  return cmocka_run_group_tests(tests, engine_set_up, engine_tear_down);
}
