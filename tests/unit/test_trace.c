// The trace: every float value of every scope is measured as the source model computes it, whatever
// the engine does; what goes wrong is named.
// needs: engine
#include "support_trace.h"

#include "clone.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- What is measured ----

static void trace_measures_what_the_source_computes(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[6]");
  build_floats(&f->b, "w", "float[1]", (float[]){-0.5f});
  build_node(&f->b, "Mul", "x w", "scaled");
  build_node(&f->b, "Add", "scaled x", "sum");
  build_node(&f->b, "Sqrt", "sum", "y");
  build_output(&f->b, "y", "float[6]");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  struct trace t = trace_samples(f, *state, plain);
  assert_holds(f, &t, "x", six, 6, 1);
  assert_holds(f, &t, "scaled", (float[]){-0.5f, -1, -1.5f, -2, -2.5f, -3}, 6, 1);
  assert_holds(f, &t, "sum", (float[]){0.5f, 1, 1.5f, 2, 2.5f, 3}, 6, 1);
  assert_int_equal(stats_of(f, &t, "w")->runs, 0);  // a constant, which the planner counts
  assert_int_equal(stats_of(f, &t, "y")->count, 6);
  assert_int_equal(t.nonfinite_value, -1);
  end_trace(f, &t);
}

// Every operator whose statistics are derived, alone and behind one another, against the elements.
static void trace_derives_what_an_observer_would_see(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[1,4,1,1]");
  build_int64s(&f->b, "shape", "int64[2]", (int64_t[]){2, 2});
  build_int64s(&f->b, "axis", "int64[1]", (int64_t[]){0});
  build_node(&f->b, "Relu", "x", "relu");
  build_node(&f->b, "Neg", "x", "neg");
  build_node(&f->b, "Abs", "neg", "abs");
  build_node(&f->b, "Reshape", "neg shape", "reshape");
  build_node(&f->b, "Transpose", "reshape", "transpose");
  build_node(&f->b, "Relu", "transpose", "relu2");
  build_node(&f->b, "Unsqueeze", "relu2 axis", "unsqueeze");
  build_node(&f->b, "Squeeze", "unsqueeze axis", "squeeze");
  build_node(&f->b, "Flatten", "squeeze", "flatten");
  build_node(&f->b, "Identity", "flatten", "identity");
  build_node(&f->b, "Dropout", "identity", "dropout");
  build_int(&f->b, build_node(&f->b, "DepthToSpace", "x", "space"), "blocksize", 2);
  build_int(&f->b, build_node(&f->b, "SpaceToDepth", "space", "depth"), "blocksize", 2);
  build_int(&f->b, build_node(&f->b, "Concat", "reshape relu2 reshape", "concat"), "axis", 0);
  build_output(&f->b, "dropout", "");
  build_output(&f->b, "concat", "");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(1, 4, 1, 1)", (float[]){-3, 0, 0.25f, -INFINITY}, 16);
  struct trace t = trace_samples(f, *state, plain);
  const float x[] = {-3, 0, 0.25f, -INFINITY}, relu[] = {0, 0, 0.25f, 0};
  const float neg[] = {3, 0, -0.25f, INFINITY}, abs[] = {3, 0, 0.25f, INFINITY};
  const float relu2[] = {3, 0, 0, INFINITY};
  const float concat[] = {3, 0, -0.25f, INFINITY, 3, 0, 0, INFINITY, 3, 0, -0.25f, INFINITY};
  assert_holds(f, &t, "relu", relu, 4, 1);
  assert_holds(f, &t, "abs", abs, 4, 1);
  for (size_t i = 0; i < 3; i++)
    assert_holds(f, &t, ((const char *[]){"neg", "reshape", "transpose"})[i], neg, 4, 1);
  for (size_t i = 0; i < 6; i++)
    assert_holds(
        f, &t,
        ((const char *[]){"relu2", "unsqueeze", "squeeze", "flatten", "identity", "dropout"})[i],
        relu2, 4, 1);
  assert_holds(f, &t, "space", x, 4, 1);
  assert_holds(f, &t, "depth", x, 4, 1);
  assert_holds(f, &t, "concat", concat, 12, 1);
  struct instrumented model;
  expect_ok(&f->d, trace_instrument(&model, &f->g, true, &f->arena, &f->d));
  assert_int_equal(model.n_observers, 1);  // of x: all else follows
  end_trace(f, &t);
}

static void trace_observes_what_only_looks_derived(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "w", "float[2]", (float[]){1, -2});
  build_raw(&f->b, "ratio", "float[]", &(float){0.5f}, 4);
  build_raw(&f->b, "training", "bool[]", &(uint8_t){0}, 1);
  build_node(&f->b, "Relu", "w", "of_constant");
  build_node(&f->b, "Dropout", "x ratio training", "maybe_training");
  build_int(&f->b, build_node(&f->b, "Concat", "x w", "with_constant"), "axis", 0);
  build_output(&f->b, "of_constant", "");
  build_output(&f->b, "maybe_training", "");
  build_output(&f->b, "with_constant", "");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(2,)", six, 8);
  struct trace t = trace_samples(f, *state, plain);
  assert_holds(f, &t, "of_constant", (float[]){1, 0}, 2, 1);
  assert_holds(f, &t, "maybe_training", six, 2, 1);
  assert_holds(f, &t, "with_constant", (float[]){1, 2, 1, -2}, 4, 1);
  end_trace(f, &t);
}

static void trace_sees_branches_taken_and_says_which_were_not(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "limit", "float[]", six);
  build_int(&f->b, build_node(&f->b, "ReduceSum", "x", "sum"), "keepdims", 0);
  build_node(&f->b, "Greater", "sum limit", "large");
  Onnx__NodeProto *n = build_node(&f->b, "If", "large", "y");
  build_graph_begin(&f->b, n, "then_branch");
  build_node(&f->b, "Sqrt", "x", "narrowcast_0");
  build_output(&f->b, "narrowcast_0", "float[2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, n, "else_branch");
  build_node(&f->b, "Neg", "x", "captured");
  build_node(&f->b, "Exp", "captured", "narrowcast__");
  build_output(&f->b, "narrowcast__", "float[2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2]");
  fixture_build(f);
  write_npy(f, "0.npy", "<f4", "(2,)", (float[]){4, 16}, 8);
  write_npy(f, "1.npy", "<f4", "(2,)", (float[]){64, 16}, 8);
  struct trace t = trace_samples(f, *state, plain);
  const struct stats *taken = stats_in(f, &t, 1, "narrowcast_0");
  assert_int_equal(taken->runs, 2);
  assert_int_equal(taken->n_windows, 2);
  assert_true(taken->windows[0].absmax == 4 && taken->windows[1].absmax == 8);
  assert_int_equal(stats_in(f, &t, 2, "captured")->runs, 0);
  assert_int_equal(stats_in(f, &t, 2, "narrowcast__")->runs, 0);
  assert_int_equal(stats_of(f, &t, "y")->runs, 2);
  end_trace(f, &t);
}

static void trace_sees_every_iteration_of_a_loop(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[1]");
  build_int64s(&f->b, "trips", "int64[]", (int64_t[]){5});
  Onnx__NodeProto *n = build_node(&f->b, "Loop", "trips _ x", "y");
  build_graph_begin(&f->b, n, "body");
  build_input(&f->b, "i", "int64[]");
  build_input(&f->b, "go", "bool[]");
  build_input(&f->b, "a", "float[1]");
  build_node(&f->b, "Identity", "go", "on");
  build_node(&f->b, "Add", "a a", "twice");
  build_output(&f->b, "on", "bool[]");
  build_output(&f->b, "twice", "float[1]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[1]");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(1,)", six, 4);
  struct trace t = trace_samples(f, *state, plain);
  assert_int_equal(stats_in(f, &t, 1, "a")->runs, 5);
  assert_true(stats_absmax(stats_in(f, &t, 1, "a")) == 16);
  assert_int_equal(stats_in(f, &t, 1, "twice")->runs, 5);
  assert_true(stats_absmax(stats_in(f, &t, 1, "twice")) == 32);
  end_trace(f, &t);
}

static void trace_sees_all_calls_of_a_function(void **state) {
  struct fixture *f = fixture_new();
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Square", "a", "b", "");
  build_node(&f->b, "Neg", "a", "n");
  build_node(&f->b, "Mul", "n a", "b");
  build_function_end(&f->b);
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "local.Square", "x", "x2");
  build_node(&f->b, "local.Square", "x2", "y");
  build_output(&f->b, "y", "float[2]");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(2,)", six, 8);
  struct trace t = trace_samples(f, *state, plain);
  assert_int_equal(stats_in(f, &t, 1, "a")->runs, 2);
  assert_int_equal(stats_in(f, &t, 1, "n")->runs, 2);
  assert_true(stats_absmax(stats_in(f, &t, 1, "n")) == 4);
  assert_true(stats_absmax(stats_in(f, &t, 1, "b")) == 16);
  assert_int_equal(stats_of(f, &t, "y")->runs, 1);
  end_trace(f, &t);
}

static void trace_observes_sparse_and_overridable_initializers(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_input(&f->b, "w", "float[2]");
  build_floats(&f->b, "w", "float[2]", (float[]){7, 8});
  build_sparse(&f->b, "s", 9, 2);
  build_node(&f->b, "Sum", "x w s", "y");
  build_output(&f->b, "y", "float[2]");
  fixture_build(f);
  write_npy(f, "0/x.npy", "<f4", "(2,)", six, 8);
  write_npy(f, "1/x.npy", "<f4", "(2,)", six, 8);
  write_npy(f, "1/w.npy", "<f4", "(2,)", (float[]){70, 80}, 8);
  struct trace t = trace_samples(f, *state, plain);
  assert_int_equal(stats_of(f, &t, "w")->runs, 2);
  assert_true(stats_of(f, &t, "w")->windows[0].absmax == 8);
  assert_true(stats_of(f, &t, "w")->windows[1].absmax == 80);
  assert_true(stats_absmax(stats_of(f, &t, "s")) == 9);
  assert_int_equal(stats_of(f, &t, "s")->zeros, 2);
  end_trace(f, &t);
}

// A call may leave an optional input out: then there is nothing to see of it.
static void trace_takes_calls_that_leave_inputs_out(void **state) {
  struct fixture *f = fixture_new();
  build_opset(&f->b, "local", 1);
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "local.F", "x", "y");
  build_output(&f->b, "y", "float[2]");
  build_function_begin(&f->b, "local", "F", "a low", "r", "");
  build_node(&f->b, "Clip", "a low", "r");
  build_function_end(&f->b);
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(2,)", six, 8);
  struct trace t = trace_samples(f, *state, plain);
  assert_int_equal(stats_of(f, &t, "y")->runs, 1);
  end_trace(f, &t);
}

static void trace_measures_narrow_models_rounded_as_they_store(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float16[2]");
  build_node(&f->b, "Mul", "x x", "square");
  build_node(&f->b, "Relu", "square", "y");
  build_output(&f->b, "y", "float16[2]");
  fixture_build(f);
  // 300 * 300 overflows float16; 1.0009765625^2 = 1.0019540786743164 rounds to 1.001953125.
  write_npy(f, "x.npy", "<f2", "(2,)", (uint16_t[]){0x5cb0, 0x3c01}, 4);
  struct trace t = trace_samples(f, *state, plain);
  assert_holds(f, &t, "x", (float[]){300, 1.0009765625f}, 2, 1);
  assert_holds(f, &t, "square", (float[]){INFINITY, 1.001953125f}, 2, 1);
  assert_int_equal(t.n_values, f->g.n_values);
  assert_string_equal(f->g.values[t.nonfinite_value].name, "square");
  end_trace(f, &t);
}

// ---- The instrumented model ----

static void instrument_leaves_the_model_as_it_was(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[2]");
  build_value_info(&f->b, "y", "int64[7]");  // stale: the engine would refuse it
  uint8_t *before, *after;
  size_t before_size, after_size;
  expect_ok(&f->d, model_pack(f->model.proto, &f->arena, &before, &before_size, &f->d));
  struct instrumented model;
  expect_ok(&f->d, trace_instrument(&model, &f->g, true, &f->arena, &f->d));
  expect_ok(&f->d, model_pack(f->model.proto, &f->arena, &after, &after_size, &f->d));
  assert_int_equal(before_size, after_size);
  assert_memory_equal(before, after, after_size);
  fixture_end(f);
}

static void instrument_drops_stale_declarations(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Exp", "x", "e");
  build_node(&f->b, "Log", "e", "y");
  build_value_info(&f->b, "e", "float[7]");
  build_output(&f->b, "y", "float[2]");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(2,)", six, 8);
  struct trace t = trace_samples(f, *state, plain);
  assert_int_equal(stats_of(f, &t, "e")->count, 2);
  end_trace(f, &t);
}

static void instrument_refuses_observers_in_the_source(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_opset(&f->b, "narrowcast", 1);
  build_input(&f->b, "x", "float[2]");
  build_int(&f->b, build_node(&f->b, "narrowcast.Observe", "x", "y"), "id", 0);
  build_output(&f->b, "y", "int64[1]");
  fixture_build(f);
  struct instrumented model;
  assert_int_equal(trace_instrument(&model, &f->g, true, &f->arena, &f->d), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, "reserved"));
  fixture_end(f);
}

static void instrument_keeps_large_weights_out_of_the_bytes(void **state) {
  struct fixture *f = fixture_new();
  float *w = arena_array(&f->arena, 256 * 256, sizeof *w);
  w[5] = 1;
  build_input(&f->b, "x", "float[1,256]");
  build_floats(&f->b, "w", "float[256,256]", w);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,256]");
  fixture_build(f);
  struct instrumented model;
  expect_ok(&f->d, trace_instrument(&model, &f->g, true, &f->arena, &f->d));
  assert_true(model.size < 4096);
  assert_int_equal(model.n_initializers, 1);
  expect_ok(&f->d, samples_random(&f->samples, &f->g, 1, 2, &f->arena, &f->d));
  struct trace t = trace_samples(f, *state, plain);
  assert_int_equal(stats_of(f, &t, "y")->zeros, 2 * 255);
  end_trace(f, &t);
}

// ---- What is not finite ----

// `y` of a model with one input, two samples; the second holds a zero.
static struct trace trace_of_zeros(struct fixture *f, struct engine *engine) {
  build_output(&f->b, "y", "");
  fixture_build(f);
  write_npy(f, "0.npy", "<f4", "(2,)", six, 8);
  write_npy(f, "1.npy", "<f4", "(2,)", (float[]){0, 1}, 8);
  return trace_samples(f, engine, plain);
}

static void trace_names_the_first_infinity_and_its_sample(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Log", "x", "log");
  build_node(&f->b, "Exp", "log", "y");
  struct trace t = trace_of_zeros(f, *state);
  assert_string_equal(f->g.values[t.nonfinite_value].name, "log");
  assert_non_null(strstr(t.nonfinite_sample, "1.npy"));
  assert_int_equal(stats_of(f, &t, "log")->first_nonfinite_step, 1);
  end_trace(f, &t);
}

static void trace_takes_infinite_masks_for_meant(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "mask", "float[2]", (float[]){-INFINITY, 0});
  build_node(&f->b, "Add", "x mask", "masked");
  build_node(&f->b, "Softmax", "masked", "y");
  struct trace t = trace_of_zeros(f, *state);
  assert_int_equal(stats_of(f, &t, "masked")->negative_infinities, 2);
  assert_int_equal(t.nonfinite_value, -1);
  end_trace(f, &t);
}

static void trace_names_the_first_nan_behind_a_mask(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "mask", "float[2]", (float[]){-INFINITY, 0});
  build_node(&f->b, "Add", "x mask", "masked");
  build_node(&f->b, "Mul", "masked x", "product");  // -inf * 0 in the second sample
  build_node(&f->b, "Neg", "product", "y");
  struct trace t = trace_of_zeros(f, *state);
  assert_string_equal(f->g.values[t.nonfinite_value].name, "product");
  assert_non_null(strstr(t.nonfinite_sample, "1.npy"));
  end_trace(f, &t);
}

static void trace_names_the_value_inside_a_function(void **state) {
  struct fixture *f = fixture_new();
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "F", "a", "b", "");
  build_node(&f->b, "Log", "a", "inner");
  build_node(&f->b, "Abs", "inner", "b");
  build_function_end(&f->b);
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "local.F", "x", "y");
  struct trace t = trace_of_zeros(f, *state);
  assert_string_equal(f->g.values[t.nonfinite_value].name, "inner");
  end_trace(f, &t);
}

// ---- Errors and real models ----

static void trace_errors_name_the_sample(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[N]");
  build_input(&f->b, "w", "float[M]");
  build_node(&f->b, "Add", "x w", "y");
  build_output(&f->b, "y", "");
  fixture_build(f);
  write_npy(f, "bad/x.npy", "<f4", "(2,)", six, 8);
  write_npy(f, "bad/w.npy", "<f4", "(3,)", six, 12);
  expect_ok(&f->d, open_at(f, ""));
  struct trace t;
  assert_int_equal(try_trace(&t, f, *state, plain), STATUS_ENGINE);
  assert_non_null(strstr(f->d.hint, "bad"));
  assert_null(t.stats);
  fixture_end(f);
}

static void trace_errors_ask_for_data_where_samples_are_made_up(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[N]");
  build_raw(&f->b, "five", "int64[1]", (int64_t[]){5}, 8);
  build_raw(&f->b, "seven", "int64[1]", (int64_t[]){7}, 8);
  build_node(&f->b, "Reshape", "x five", "y");
  build_node(&f->b, "Reshape", "x seven", "z");
  build_output(&f->b, "y", "");
  build_output(&f->b, "z", "");
  fixture_build(f);
  expect_ok(&f->d, samples_random(&f->samples, &f->g, 3, 1, &f->arena, &f->d));
  struct trace t;
  assert_int_equal(try_trace(&t, f, *state, plain), STATUS_ENGINE);
  assert_non_null(strstr(f->d.hint, "random[0]"));
  assert_non_null(strstr(f->d.hint, "--data"));
  fixture_end(f);
}

static void trace_errors_name_the_node_also_without_a_name(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[6]");
  build_node(&f->b, "Relu", "x", "h");
  build_int(&f->b, build_node(&f->b, "Concat", "h h", "y"), "axis", -9);
  build_output(&f->b, "y", "");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  expect_ok(&f->d, open_at(f, ""));
  struct trace t;
  assert_int_equal(try_trace(&t, f, *state, plain), STATUS_ENGINE);
  assert_string_equal(f->d.node, "#1(Concat)");
  assert_non_null(strstr(f->d.hint, "load the model elsewhere"));
  fixture_end(f);
}

// The engine takes no two nodes of one name.
static void trace_takes_nodes_that_are_called_as_unnamed_ones_would_be(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[6]");
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "Relu", "x", "h");
  build_node(&f->b, "Relu", "h", "k")->name = (char[]){"#0(Relu)"};
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  branch->name = (char[]){"if"};
  for (int i = 0; i < 2; i++) {
    build_graph_begin(&f->b, branch, i ? "then_branch" : "else_branch");
    build_node(&f->b, "Neg", "k", "n");
    build_node(&f->b, "Neg", "n", "z")->name = (char[]){"if.then_branch::#0(Neg)"};
    build_output(&f->b, "z", "float[6]");
    build_graph_end(&f->b);
  }
  build_output(&f->b, "y", "float[6]");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "c.npy", "|b1", "()", (uint8_t[]){1}, 1);
  struct trace t = trace_samples(f, *state, plain);
  assert_holds(f, &t, "x", six, 6, 1);
  end_trace(f, &t);
}

static void trace_errors_hold_no_places_of_the_engines_source(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[1,1,2]");
  build_floats(&f->b, "w", "float[1,8,2]", (float[16]){0});
  build_int(&f->b, build_node(&f->b, "LSTM", "x w w", "y"), "hidden_size", 0);
  build_output(&f->b, "y", "");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(1, 1, 2)", six, 8);
  expect_ok(&f->d, open_at(f, ""));
  struct trace t;
  assert_int_equal(try_trace(&t, f, *state, plain), STATUS_ENGINE);
  assert_null(strstr(f->d.message, "onnxruntime_src"));
  assert_non_null(strstr(f->d.message, "hidden_size"));
  fixture_end(f);
}

static void trace_refuses_calls_that_unfold_without_end(void **state) {
  enum { LEVELS = 40 };
  struct fixture *f = fixture_new();
  struct build *b = &f->b;
  build_opset(b, "local", 1);
  build_input(b, "x", "float[6]");
  build_node(b, "local.F0", "x", "y");
  build_output(b, "y", "float[6]");
  for (int i = 0; i < LEVELS; i++) {
    const char *next = arena_printf(b->arena, "local.F%d", i + 1);
    build_function_begin(b, "local", arena_printf(b->arena, "F%d", i), "a", "b", "");
    build_opset(b, "local", 1);
    build_node(b, i + 1 < LEVELS ? next : "Relu", "a", "h");
    build_node(b, i + 1 < LEVELS ? next : "Relu", "h", "b");
    build_function_end(b);
  }
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  expect_ok(&f->d, open_at(f, ""));
  struct trace t;
  assert_int_equal(try_trace(&t, f, *state, plain), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, "unfold to more than 10000000 nodes"));
  fixture_end(f);
}

static void trace_refuses_a_graph_without_outputs(void **state) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[6]");
  build_node(&f->b, "Relu", "x", "y");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  expect_ok(&f->d, open_at(f, ""));
  struct trace t;
  assert_int_equal(try_trace(&t, f, *state, plain), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, "has no outputs"));
  fixture_end(f);
}

// Values that were not seen may only be those of branches.
static void check_seen(struct fixture *f, const struct trace *t, const char *label) {
  for (int v = 0; v < f->g.n_values; v++) {
    bool main_graph = f->g.values[v].scope == 0;
    if (main_graph && trace_measures(&f->g, v) && t->stats[v].runs != t->steps)
      fail_msg("%s: %s has %d runs", label, f->g.values[v].name, (int)t->stats[v].runs);
  }
}

// Whether the engine takes the model as it is: an older one knows neither its IR nor its opset.
static bool engine_loads(struct fixture *f, const char *label, struct engine *engine) {
  struct model copy = clone_model(&f->model, &f->arena);
  struct packed_model packed;
  expect_ok(&f->d, clone_pack(&packed, &copy, &f->arena, &f->d));
  struct session_options options = {.threads = 1,
                                    .initializers = packed.initializers,
                                    .n_initializers = packed.n_initializers,
                                    .directory = packed.directory};
  struct session *session;
  if (session_open(&session, engine, packed.bytes, packed.size, &options, &f->d) != STATUS_OK) {
    print_message("%s: the engine does not load it: %s\n", label, f->d.message);
    diag_clear(&f->d);
    return false;
  }
  session_close(session);
  return true;
}

// Returns how many traces it has made: 1, or 0 of a model that cannot be run.
static int trace_real_model(const char *path, const char *label, struct engine *engine) {
  struct fixture *f = fixture_new();
  expect_ok(&f->d, model_load(&f->model, &f->arena, path, NULL, &f->d));
  expect_ok(&f->d, graph_build(&f->g, &f->model, &f->schemas, &f->arena, &f->d));
  int traces = 0;
  if (samples_random(&f->samples, &f->g, 1, 2, &f->arena, &f->d) == STATUS_OK &&
      engine_loads(f, label, engine)) {
    struct trace_setting set = {.window = 1, .sample = 512, .threads = 1};
    struct trace t = trace_samples(f, engine, set);
    check_seen(f, &t, label);
    trace_free(&t);
    traces = 1;
  }
  fixture_end(f);
  return traces;
}

static void trace_runs_real_models(void **state) {
  const char *root = getenv("NARROWCAST_MODELS");
  if (!root)
    skip();
  DIR *directory = opendir(root);
  assert_non_null(directory);
  int traces = 0;
  for (struct dirent *e; (e = readdir(directory));) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/model.onnx", root, e->d_name);
    if (e->d_name[0] != '.' && access(path, R_OK) == 0)
      traces += trace_real_model(path, e->d_name, *state);
  }
  closedir(directory);
  assert_true(traces > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trace_measures_what_the_source_computes),
      cmocka_unit_test(trace_derives_what_an_observer_would_see),
      cmocka_unit_test(trace_observes_what_only_looks_derived),
      cmocka_unit_test(trace_sees_branches_taken_and_says_which_were_not),
      cmocka_unit_test(trace_sees_every_iteration_of_a_loop),
      cmocka_unit_test(trace_sees_all_calls_of_a_function),
      cmocka_unit_test(trace_observes_sparse_and_overridable_initializers),
      cmocka_unit_test(trace_takes_calls_that_leave_inputs_out),
      cmocka_unit_test(trace_measures_narrow_models_rounded_as_they_store),
      cmocka_unit_test(instrument_leaves_the_model_as_it_was),
      cmocka_unit_test(instrument_drops_stale_declarations),
      cmocka_unit_test(instrument_refuses_observers_in_the_source),
      cmocka_unit_test(instrument_keeps_large_weights_out_of_the_bytes),
      cmocka_unit_test(trace_names_the_first_infinity_and_its_sample),
      cmocka_unit_test(trace_takes_infinite_masks_for_meant),
      cmocka_unit_test(trace_names_the_first_nan_behind_a_mask),
      cmocka_unit_test(trace_names_the_value_inside_a_function),
      cmocka_unit_test(trace_errors_name_the_sample),
      cmocka_unit_test(trace_errors_ask_for_data_where_samples_are_made_up),
      cmocka_unit_test(trace_errors_name_the_node_also_without_a_name),
      cmocka_unit_test(trace_takes_nodes_that_are_called_as_unnamed_ones_would_be),
      cmocka_unit_test(trace_errors_hold_no_places_of_the_engines_source),
      cmocka_unit_test(trace_refuses_calls_that_unfold_without_end),
      cmocka_unit_test(trace_refuses_a_graph_without_outputs),
      cmocka_unit_test(trace_runs_real_models),
  };
  return cmocka_run_group_tests(tests, engine_set_up, engine_tear_down);
}
