// plan and passes: values that leave the range are stored times a power of two; where the factor
// goes, where it cannot go, and what the rewritten model says. Margin 2, so 1e5 needs 2^-2 in fp16.
#include "support_plan.h"

#include "plan_scale.h"
#include "round.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct planning *scaled(void **state) {
  struct planning *f = *state;
  f->policy.scales =
      (struct scale_rule){.use = true, .margin = 2, .hysteresis = 2, .max_spread = 256};
  return f;
}

static int scale_of(const struct planning *f, const char *label) {
  return f->p.values[value_id(&f->g, label)].scale_log2;
}

static int input_scale(const struct planning *f, const char *output, int k) {
  return plan_input_scale(&f->p, node_of(&f->g, output), k);
}

static void see(struct planning *f, const char *label, float x) {
  planning_see(f, label, (float[]){1, x}, 2);
}

// y = MatMul(x, w), r = Relu(y), z = MatMul(r, v); y and r need a scale.
static struct planning *chain(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "v", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Relu", "y", "r");
  build_node(&f->b, "MatMul", "r v", "z");
  build_output(&f->b, "z", "float[1,2]");
  planning_index(f);
  see(f, "y", 1e5f);
  see(f, "r", 1e5f);
  return f;
}

static void expect_floats(struct planning *f, const char *name, int elem_type, const float *x,
                          size_t n) {
  const Onnx__TensorProto *t = emitted_initializer(f, name);
  assert_non_null(t);
  assert_int_equal(t->data_type, elem_type);
  float back[8];
  round_decode_array(format_from_onnx(elem_type), t->raw_data.data, back, n);
  for (size_t i = 0; i < n; i++)
    assert_true(back[i] == x[i]);
}

static void scales_go_into_weights_and_leave_no_node_behind(void **state) {
  struct planning *f = chain(state);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  assert_int_equal(scale_of(f, "y"), -2);
  assert_int_equal(scale_of(f, "r"), -2);
  assert_int_equal(scale_of(f, "z"), 0);
  assert_int_equal(input_scale(f, "y", 1), -2);
  assert_int_equal(input_scale(f, "z", 1), 2);
  assert_int_equal(scale_of(f, "w"), -2);
  planning_rewrite(f);
  assert_int_equal(emitted_count(f, "Mul"), 0);
  assert_int_equal(f->report.scale_nodes, 0);
  expect_floats(f, "w", formats[FORMAT_FP16].onnx_type, (float[]){0.25, 0.5, 0.75, 1}, 4);
  expect_floats(f, "v", formats[FORMAT_FP16].onnx_type, (float[]){4, 8, 12, 16}, 4);
}

static void without_scales_such_nodes_stay_wide(void **state) {
  struct planning *f = chain(state);
  f->policy.scales.use = false;
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "y"), REASON_OVERFLOW);
}

static void headroom_counts_the_scale(void **state) {
  struct planning *f = chain(state);
  planning_decide(f);
  assert_true(fabs(f->p.headroom - 4 * 65504 / 1e5) < 1e-6);
}

// x is fp32, and the product reads it times 2^-2.
static void headroom_counts_the_scale_of_what_is_cast(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  see(f, "x", 1e5f);
  planning_decide(f);
  assert_int_equal(input_scale(f, "y", 0), -2);
  assert_true(fabs(f->p.headroom - 4 * 65504 / 1e5) < 1e-6);
  assert_int_equal(f->p.headroom_value, value_id(&f->g, "x"));
}

static void a_scaled_value_is_given_out_as_it_was(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  see(f, "y", 1e5f);
  planning_rewrite(f);
  assert_int_equal(f->report.scale_nodes, 1);
  const Onnx__NodeProto *mul = emitted_node(f, "y");
  assert_string_equal(mul->op_type, "Mul");
  const Onnx__TensorProto *factor = emitted_initializer(f, mul->input[1]);
  assert_non_null(factor);
  assert_int_equal(factor->n_dims, 0);
  expect_floats(f, mul->input[1], formats[FORMAT_FP32].onnx_type, (float[]){4}, 1);
}

// Where all initializers are listed as inputs they are constants; one more that is not listed would
// make them defaults that a caller may override.
static void added_factors_leave_listed_weights_constants(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_input(&f->b, "w", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  see(f, "y", 1e5f);
  planning_rewrite(f);
  assert_int_equal(f->report.scale_nodes, 1);
  assert_true(graph_is_constant(&f->emitted, value_id(&f->emitted, "w")));
}

static void tiny_values_are_scaled_up(void **state) {
  struct planning *f = chain(state);
  static const char *const tiny[] = {"x", "y", "r", "z"};
  for (int i = 0; i < 4; i++)
    planning_see(f, tiny[i], (float[]){1e-8f, 2e-8f}, 2);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  assert_int_equal(scale_of(f, "y"), 40);  // 4e-8 * 2^40 = 43980
  assert_int_equal(scale_of(f, "z"), 40);
  assert_int_equal(input_scale(f, "z", 1), 0);
}

// A sum far behind asks the products in front of it for its scale.
static void a_sum_takes_one_scale_from_its_producers(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "v", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "x v", "b");
  build_node(&f->b, "Relu", "b", "c");
  build_node(&f->b, "Add", "a c", "s");
  build_node(&f->b, "MatMul", "s w", "z");
  build_output(&f->b, "z", "float[1,2]");
  planning_index(f);
  see(f, "s", 1e5f);
  planning_rewrite(f);
  assert_int_equal(scale_of(f, "a"), -2);
  assert_int_equal(scale_of(f, "b"), -2);
  assert_int_equal(scale_of(f, "c"), -2);
  assert_int_equal(scale_of(f, "s"), -2);
  assert_int_equal(f->report.scale_nodes, 0);
  assert_int_equal(input_scale(f, "a", 1), -2);
  assert_int_equal(input_scale(f, "z", 1), 2);
  // w is read at two scales: two copies.
  assert_int_equal(f->report.narrow_initializers, 3);
}

static void constants_of_a_sum_are_scaled_along(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "k", "float[2]", (float[]){131072, 2048});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Add", "y k", "s");
  build_node(&f->b, "MatMul", "s w", "z");
  build_output(&f->b, "z", "float[1,2]");
  planning_index(f);
  see(f, "s", 1e5f);
  planning_rewrite(f);
  assert_int_equal(node_format(f, "s"), FORMAT_FP16);
  expect_floats(f, "k", formats[FORMAT_FP16].onnx_type, (float[]){32768, 512}, 2);
}

static void what_carries_no_factor_stays_wide(void **state) {
  struct planning *f = chain(state);
  *state = f;
  build_node(&f->b, "Sigmoid", "r", "s");
  build_output(&f->b, "s", "float[1,2]");
  planning_index(f);
  see(f, "y", 1e5f);
  see(f, "r", 1e5f);
  planning_decide(f);
  assert_int_equal(node_format(f, "r"), FORMAT_FP16);
  assert_int_equal(node_format(f, "s"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "s"), REASON_OVERFLOW);
  planning_rewrite(f);
  assert_int_equal(f->report.scale_nodes, 1);  // r in fp32, for the Sigmoid
  assert_string_equal(emitted_node(f, emitted_node(f, "s")->input[0])->op_type, "Mul");
}

static void a_product_of_two_activations_is_scaled_in_front(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "x w", "b");
  build_node(&f->b, "Mul", "a b", "p");
  build_node(&f->b, "MatMul", "p w", "z");
  build_output(&f->b, "z", "float[1,2]");
  planning_index(f);
  see(f, "p", 1e5f);
  planning_rewrite(f);
  assert_int_equal(scale_of(f, "p"), -2);
  assert_int_equal(scale_of(f, "a"), -2);
  assert_int_equal(scale_of(f, "b"), 0);
  assert_int_equal(f->report.scale_nodes, 0);
}

// A square has no operand of its own to scale: a scale node stands in front.
static void a_square_is_scaled_by_a_node(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Mul", "a a", "p");
  build_node(&f->b, "MatMul", "p w", "z");
  build_output(&f->b, "z", "float[1,2]");
  planning_index(f);
  see(f, "p", 1e5f);
  planning_rewrite(f);
  assert_int_equal(scale_of(f, "p"), -2);
  assert_int_equal(input_scale(f, "p", 0) + input_scale(f, "p", 1), -2);
  assert_int_equal(f->report.scale_nodes, 1);
  assert_int_equal(emitted_type(f, emitted_node(f, "p")->input[1]), formats[FORMAT_FP16].onnx_type);
}

static void normalisation_with_stored_statistics_carries_scales(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "gain", "float[2]", (float[]){1, 2});
  build_floats(&f->b, "offset", "float[2]", (float[]){1, 2});
  build_floats(&f->b, "mean", "float[2]", (float[]){4096, 8192});
  build_floats(&f->b, "variance", "float[2]", (float[]){1, 2});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "BatchNormalization", "y gain offset mean variance", "n");
  build_node(&f->b, "MatMul", "n w", "z");
  build_output(&f->b, "z", "float[1,2]");
  planning_index(f);
  see(f, "y", 1e5f);
  planning_rewrite(f);
  assert_int_equal(node_format(f, "n"), FORMAT_FP16);
  assert_int_equal(scale_of(f, "y"), -2);
  assert_int_equal(scale_of(f, "n"), 0);
  assert_int_equal(input_scale(f, "n", 1), 2);
  assert_int_equal(input_scale(f, "n", 3), -2);
  const Onnx__TensorProto *mean = emitted_initializer(f, "mean");
  expect_floats(f, "mean", mean->data_type, (float[]){1024, 2048}, 2);
}

static void what_is_given_out_narrow_is_not_scaled(void **state) {
  struct planning *f = scaled(state);
  f->policy.narrow_outputs = true;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  see(f, "y", 1e5f);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "y"), REASON_OVERFLOW);
}

static void windows_that_disagree_leave_the_value_wide(void **state) {
  struct planning *f = chain(state);
  struct stats *s = &f->t.stats[value_id(&f->g, "y")];
  struct stats_window *windows = calloc(2, sizeof *windows);
  windows[0].absmax = 1e5f;
  windows[1].absmax = 100;
  free(s->windows);
  s->windows = windows;
  s->n_windows = s->capacity_windows = 2;
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "y"), REASON_UNSTABLE);
  const struct value_plan *y = &f->p.values[value_id(&f->g, "y")];
  assert_int_equal(y->n_windows, 2);
  assert_int_equal(y->window_scales[0], -2);
  assert_int_equal(y->window_scales[1], 8);
  assert_int_equal(y->scale_moves, 1);
}

static void scales_survive_the_plan_file(void **state) {
  struct planning *f = chain(state);
  planning_rewrite(f);
  const char *path = planning_path(f, "plan.json");
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  struct plan p;
  assert_int_equal(planning_read_plan(f, &p, path, &f->d), STATUS_OK);
  for (int v = 0; v < p.n_values; v++)
    assert_int_equal(p.values[v].scale_log2, f->p.values[v].scale_log2);
  for (int n = 0; n < p.n_nodes; n++)
    for (int k = 0; k < f->g.nodes[n].n_inputs; k++)
      assert_int_equal(plan_input_scale(&p, n, k), plan_input_scale(&f->p, n, k));
}

// Names and scales of inputs stand in the same order, with "" for one that is left out.
static void scales_in_the_plan_file_are_those_of_the_inputs_beside_them(void **state) {
  struct planning *f = scaled(state);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_int64s(&f->b, "from", "int64[2]", (int64_t[]){0, 0});
  build_int64s(&f->b, "to", "int64[2]", (int64_t[]){1, 2});
  build_int64s(&f->b, "by", "int64[2]", (int64_t[]){1, 1});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Slice", "y from to _ by", "s");
  build_node(&f->b, "MatMul", "s w", "z");
  build_output(&f->b, "z", "float[1,2]");
  planning_index(f);
  see(f, "y", 1e5f);
  see(f, "s", 1e5f);
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "s", &f->arena, &f->d), STATUS_OK);
  planning_decide(f);
  assert_int_equal(scale_of(f, "s"), -2);
  const char *path = planning_path(f, "plan.json");
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  size_t size;
  const char *text = planning_read_file(f, path, &size);
  assert_non_null(strstr(text, "\"input_scales_log2\": [-2, 0, 0, 0, 0]"));
  assert_non_null(strstr(text, "\"inputs\": [\"y\", \"from\", \"to\", \"\", \"by\"]"));
}

// Scales are exact: each value times the product of what its operators carry. Of chains of random
// operators, every node's scales are consistent and every value passes.
static void scales_of_random_graphs_are_consistent(void **state) {
  struct planning *f = scaled(state);
  static const char *const ops[] = {"MatMul", "Relu", "Add", "Mul", "Concat", "Sigmoid", "Max"};
  enum { NODES = 300 };
  uint32_t seed = 7;
  bool read[NODES + 1] = {false};
  build_input(&f->b, "v0", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  for (int n = 1; n <= NODES; n++) {
    char inputs[64], output[16];
    seed = seed * 1664525 + 1013904223;
    const char *op = ops[(seed >> 16) % 7];
    int a = (int)((seed >> 20) % (uint32_t)n), b = (int)((seed >> 8) % (uint32_t)n);
    bool one = strcmp(op, "Relu") == 0 || strcmp(op, "Sigmoid") == 0;
    bool weight = !one && (seed >> 5) % 3 == 0;
    read[one ? n - 1 : a] = true;
    read[b] = read[b] || (!one && !weight);
    if (one)
      snprintf(inputs, sizeof inputs, "v%d", n - 1);
    else if (weight)
      snprintf(inputs, sizeof inputs, "v%d w", a);
    else
      snprintf(inputs, sizeof inputs, "v%d v%d", a, b);
    snprintf(output, sizeof output, "v%d", n);
    Onnx__NodeProto *node = build_node(&f->b, op, inputs, output);
    if (strcmp(op, "Concat") == 0)
      build_int(&f->b, node, "axis", 0);
  }
  for (int n = 1; n <= NODES; n++)  // nodes whose results nobody reads would stay as they are
    if (!read[n])
      build_output(&f->b, arena_printf(&f->arena, "v%d", n), "float[2,2]");
  planning_index(f);
  for (int n = 1; n <= NODES; n++) {
    char label[16];
    seed = seed * 1664525 + 1013904223;
    snprintf(label, sizeof label, "v%d", n);
    see(f, label, ldexpf(1, (int)((seed >> 16) % 24)));
  }
  planning_rewrite(f);
  int n_scaled = 0;
  for (int n = 0; n < f->p.n_nodes; n++)
    if (f->p.nodes[n].format != FORMAT_FP32) {
      assert_true(scale_consistent(&f->g, &f->p, n));
      n_scaled += f->p.nodes[n].output_scale != 0;
    }
  assert_true(n_scaled > 10);
  for (int v = 0; v < f->p.n_values; v++)
    if (f->p.values[v].scale_log2)
      assert_int_equal(f->p.values[v].fit.reason, REASON_NONE);
}

// Three of four weights would become subnormal; the result takes the scale as well.
static void a_scale_that_harms_weights_is_left_to_the_result(void **state) {
  struct planning *f = scaled(state);
  f->policy.constant_max_subnormal_fraction = 0.9;  // of the author's own
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "v", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 0.1f, 0.1f, 0.1f});
  build_node(&f->b, "MatMul", "x v", "h");
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_see(f, "h", (float[]){7, 1e-6f, 1e-6f, 1e-6f}, 4);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  assert_int_equal(scale_of(f, "h"), 12);
  assert_int_equal(input_scale(f, "y", 1), 0);
  assert_int_equal(scale_of(f, "y"), 12);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_scale_that_harms_weights_is_left_to_the_result),
      TEST(scales_go_into_weights_and_leave_no_node_behind),
      TEST(without_scales_such_nodes_stay_wide),
      TEST(headroom_counts_the_scale),
      TEST(headroom_counts_the_scale_of_what_is_cast),
      TEST(a_scaled_value_is_given_out_as_it_was),
      TEST(added_factors_leave_listed_weights_constants),
      TEST(tiny_values_are_scaled_up),
      TEST(a_sum_takes_one_scale_from_its_producers),
      TEST(constants_of_a_sum_are_scaled_along),
      TEST(what_carries_no_factor_stays_wide),
      TEST(a_product_of_two_activations_is_scaled_in_front),
      TEST(a_square_is_scaled_by_a_node),
      TEST(normalisation_with_stored_statistics_carries_scales),
      TEST(what_is_given_out_narrow_is_not_scaled),
      TEST(windows_that_disagree_leave_the_value_wide),
      TEST(scales_survive_the_plan_file),
      TEST(scales_in_the_plan_file_are_those_of_the_inputs_beside_them),
      TEST(scales_of_random_graphs_are_consistent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
