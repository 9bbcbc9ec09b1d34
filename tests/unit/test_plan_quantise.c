// Operands of matrix products in 8 bits: scales from windows, which products take them, what the
// model then holds, and the plan file.
#include "support_plan.h"

#include "plan_cost.h"
#include "plan_quantise.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT = 1, FLOAT16 = 10, E4M3FN = 17, E5M2 = 19 };

static struct planning *begin(void **state, int opset) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = opset;
  f->policy.operands = (struct operand_policy){
      .wanted = true,
      .format = FORMAT_FP8E4M3FN,
      .margin = 1,
      .max_zero_fraction = 0.1,
      .max_subnormal_fraction = 0.5,
  };
  f->policy.scales = (struct scale_rule){.margin = 1, .hysteresis = 2, .max_spread = 256};
  // As support_plan.h: an operation outweighs the QuantizeLinears of any small tensor.
  f->policy.target.matrix[FORMAT_FP16] = 1.0 / 16;
  f->policy.target.matrix[FORMAT_FP8E4M3FN] = f->policy.target.matrix[FORMAT_FP8E5M2] = 1;
  return f;
}

static void product(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, -3, 448});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
}

// Statistics of one run per window, each with these largest magnitudes.
static void see_windows(struct planning *f, const char *label, const float *absmax, size_t n) {
  struct stats *s = &f->t.stats[value_id(&f->g, label)];
  stats_free(s);
  stats_init(s);
  for (size_t w = 0; w < n; w++) {
    struct stats_piece piece = {0};
    stats_observe(&piece, &absmax[w], 1, 1, 0);
    stats_merge_piece(s, &piece);
    stats_end_run(s, &piece, w, (int64_t)w);
  }
}

static const struct operand_plan *operand(const struct planning *f, const char *label) {
  return f->p.values[value_id(&f->g, label)].operand;
}

static const struct node_plan *made(const struct planning *f, const char *output) {
  return &f->p.nodes[node_of(&f->g, output)];
}

static float scalar(const struct planning *f, const char *name) {
  const Onnx__TensorProto *t = emitted_initializer(f, name);
  struct tensor view;
  struct diag d = {0};
  struct arena a = {0};
  float value = NAN;
  assert_non_null(t);
  assert_int_equal(t->n_dims, 0);
  assert_int_equal(tensor_read(NULL, t, &a, &view, &d), STATUS_OK);
  assert_true(tensor_to_float(&view, &value));
  arena_free(&a);
  return value;
}

// ---- what is emitted ----

static void both_operands_come_from_8_bits(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_all(f);
  assert_true(made(f, "y")->narrow_operands);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  assert_int_equal(emitted_count(f, "QuantizeLinear"), 1);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 2);
  assert_int_equal(emitted_count(f, "Cast"), 1);  // of y; that of x is the QuantizeLinear's
  assert_int_equal(emitted_type(f, "x__fp8e4m3fn"), E4M3FN);
  assert_int_equal(emitted_type(f, "x__fp8e4m3fn_fp16"), FLOAT16);
  const Onnx__NodeProto *q = emitted_node(f, "x__fp8e4m3fn");
  assert_string_equal(q->input[0], "x");
  assert_int_equal(node_attribute(q, "saturate")->i, 1);
  const Onnx__NodeProto *y = emitted_node(f, "y__fp16");
  assert_string_equal(y->input[0], "x__fp8e4m3fn_fp16");
  assert_string_equal(y->input[1], "w__fp8e4m3fn_fp16");
}

// Entry 5 of plan_engine.c.
static void a_relu_that_only_products_read_in_8_bits_becomes_a_max_with_zero(void **state) {
  for (int others = 0; others < 2; others++) {
    struct planning *f = begin(state, 19);
    build_input(&f->b, "x", "float[2,2]");
    build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, -3, 448});
    build_node(&f->b, "Relu", "x", "r");
    build_node(&f->b, "MatMul", "r w", "y");
    build_output(&f->b, "y", "float[2,2]");
    if (others)
      build_output(&f->b, "r", "float[2,2]");
    planning_all(f);
    assert_true(made(f, "y")->narrow_operands);
    assert_int_equal(emitted_count(f, "Relu"), others);
    assert_int_equal(emitted_count(f, "Max"), 1 - others);
    if (!others) {
      const Onnx__NodeProto *q = emitted_node(f, "r__fp8e4m3fn");
      const Onnx__NodeProto *max = emitted_node(f, q->input[0]);
      assert_string_equal(max->op_type, "Max");
      assert_int_equal(max->n_input, 2);
      assert_string_equal(max->input[1], "r__zero");
      assert_float_equal(scalar(f, "r__zero"), 0, 0);
      assert_int_equal(emitted_type(f, max->input[0]), emitted_type(f, "r__zero"));
      planning_tear_down(state);
      planning_set_up(state);
    }
  }
}

static void a_relu_of_whole_numbers_stays(void **state) {
  struct planning *f = begin(state, 19);
  build_input(&f->b, "i", "int32[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, -3, 448});
  build_node(&f->b, "Relu", "i", "r");
  Onnx__NodeProto *cast = build_node(&f->b, "Cast", "r", "x");
  build_int(&f->b, cast, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_count(f, "QuantizeLinear"), 1);
  assert_int_equal(emitted_count(f, "Relu"), 1);
}

// Engines fold the Casts and put the function's body in place of its call.
static void a_relu_that_reaches_8_bits_behind_a_cast_or_a_call_becomes_a_max(void **state) {
  static const char *const ways[] = {"Cast", "Identity", "local.Root"};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    struct planning *f = begin(state, 19);
    build_function_begin(&f->b, "local", "Root", "a", "b", "");
    build_node(&f->b, "Sqrt", "a", "b");
    build_function_end(&f->b);
    build_opset(&f->b, "local", 1);
    build_input(&f->b, "x", "float[2,2]");
    build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, -3, 448});
    build_node(&f->b, "Relu", "x", "r");
    Onnx__NodeProto *between = build_node(&f->b, ways[i], "r", "c");
    if (i == 0)
      build_int(&f->b, between, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    build_node(&f->b, "MatMul", "c w", "y");
    build_output(&f->b, "y", "float[2,2]");
    planning_all(f);
    assert_true(made(f, "y")->narrow_operands);
    assert_int_equal(emitted_count(f, "Relu"), 0);
    assert_int_equal(emitted_count(f, "Max"), 1);
    planning_tear_down(state);
    planning_set_up(state);
  }
}

static void a_weight_is_stored_as_codes_and_its_scale_is_the_inverse(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_all(f);
  const Onnx__TensorProto *w = emitted_initializer(f, "w");
  assert_int_equal(w->data_type, E4M3FN);
  assert_int_equal(w->raw_data.len, 4);
  assert_memory_equal(w->raw_data.data, ((uint8_t[]){0x38, 0x40, 0xC4, 0x7E}), 4);
  assert_int_equal(operand(f, "w")->scale_log2, 0);
  assert_int_equal(operand(f, "x")->scale_log2, 7);  // 2 * 2^7 = 256, and 512 is beyond 448
  assert_float_equal(scalar(f, "x__scale"), 1.0f / 128, 0);
  assert_float_equal(scalar(f, "w__scale"), 1, 0);
  assert_int_equal(emitted_initializer(f, "x__zero_point")->data_type, E4M3FN);
  assert_int_equal(f->report.weights, 1);
  assert_int_equal(f->report.weight_bytes, 4);
  assert_int_equal(f->report.bytes_before, 16);
  assert_int_equal(f->report.bytes_after, 4);
}

static void a_weight_with_other_readers_is_kept_for_them(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  build_node(&f->b, "Exp", "w", "e");
  build_output(&f->b, "e", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_initializer(f, "w")->data_type, FLOAT);
  assert_int_equal(emitted_initializer(f, "w__fp8e4m3fn")->data_type, E4M3FN);
  assert_string_equal(emitted_node(f, "e")->input[0], "w");
  assert_int_equal(f->report.bytes_before, 16);
  assert_int_equal(f->report.bytes_after, 20);
}

static void a_value_is_quantised_once_for_all_its_readers(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  build_node(&f->b, "MatMul", "w x", "z");
  build_node(&f->b, "MatMul", "x x", "s");
  build_output(&f->b, "z", "float[2,2]");
  build_output(&f->b, "s", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_count(f, "QuantizeLinear"), 1);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 2);
}

static void products_of_two_formats_share_the_codes(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  build_node(&f->b, "MatMul", "x x", "s");
  build_output(&f->b, "s", "float[2,2]");
  planning_index(f);
  planning_see(f, "s", (float[]){1e6f}, 1);  // stays fp32
  planning_rewrite(f);
  assert_int_equal(node_format(f, "s"), FORMAT_FP32);
  assert_true(made(f, "s")->narrow_operands);
  assert_int_equal(emitted_count(f, "QuantizeLinear"), 1);
  assert_string_equal(emitted_node(f, "s")->input[0], "x__fp8e4m3fn_fp32");
  assert_string_equal(emitted_node(f, "y__fp16")->input[0], "x__fp8e4m3fn_fp16");
}

static void a_captured_value_is_quantised_in_its_own_scope(void **state) {
  struct planning *f = begin(state, 19);
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "c", "bool[]");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "MatMul", "x x", "t");
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Identity", "x", "e");
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->emitted.nodes[node_of(&f->emitted, "x__fp8e4m3fn")].scope, 0);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 1);
}

static void function_bodies_hold_scales_in_constant_nodes(void **state) {
  struct planning *f = begin(state, 19);
  build_function_begin(&f->b, "local", "Square", "a", "b", "");
  build_node(&f->b, "MatMul", "a a", "h");
  build_node(&f->b, "MatMul", "h a", "b");
  build_function_end(&f->b);
  build_opset(&f->b, "local", 1);
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "local.Square", "x", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_count(f, "QuantizeLinear"), 2);
  // Zero point and scales of both, in fp32 for the QuantizeLinear of the formal a.
  assert_int_equal(emitted_count(f, "Constant"), 5);
}

static void old_files_get_the_ir_version_that_knows_float8(void **state) {
  struct planning *f = begin(state, 19);
  f->b.model->ir_version = 8;
  product(f);
  planning_all(f);
  assert_int_equal(f->changed.proto->ir_version, 9);
}

static void listed_weights_stay_constants(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  build_input(&f->b, "w", "float[2,2]");
  planning_all(f);
  assert_true(f->emitted.all_listed);
  assert_int_equal(emitted_count(f, "Constant"), 5);  // two zero points, three scales
  assert_true(graph_is_constant(&f->emitted, value_id(&f->emitted, "w")));
  assert_int_equal(emitted_type(f, "w"), E4M3FN);
}

// ---- scales ----

static void expect_scale(struct planning *f, float absmax, int wanted) {
  planning_see(f, "x", &absmax, 1);
  planning_decide(f);
  assert_non_null(operand(f, "x"));
  assert_int_equal(operand(f, "x")->scale_log2, wanted);
}

static void scale_is_the_largest_power_of_two_that_fits(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_index(f);
  expect_scale(f, 448, 0);
  expect_scale(f, nextafterf(448, 1000), -1);
  expect_scale(f, 224, 1);
  expect_scale(f, 1, 8);
  expect_scale(f, 65504, -8);
  expect_scale(f, 1e-3f, 14);  // 2^18 would fit, but 2^-18 is not normal in fp16
  f->policy.operands.margin = 2;
  expect_scale(f, 224, 0);
  f->policy.operands.format = FORMAT_FP8E5M2;
  expect_scale(f, 28672, 0);
}

static void the_smallest_scale_over_the_windows_counts(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_index(f);
  see_windows(f, "x", (float[]){1, 0, 100, 3}, 4);
  planning_decide(f);
  const struct operand_plan *x = operand(f, "x");
  assert_non_null(x);
  assert_int_equal(x->scale_log2, 2);
  assert_int_equal(x->n_window_scales, 4);  // a window of zeros goes on with the last one
  assert_memory_equal(x->window_scales, ((int[]){8, 8, 2, 7}), 4 * sizeof(int));
}

static void scales_that_agree_have_no_trajectory(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_index(f);
  see_windows(f, "x", (float[]){300, 400, 448}, 3);
  planning_decide(f);
  assert_null(operand(f, "x")->window_scales);
}

static void hysteresis_delays_a_larger_scale_and_never_a_smaller_one(void **state) {
  struct planning *f = begin(state, 19);
  f->policy.scales.hysteresis = 4;
  product(f);
  planning_index(f);
  see_windows(f, "x", (float[]){448, 200, 100, 448, 449}, 5);
  planning_decide(f);
  const struct operand_plan *x = operand(f, "x");
  assert_int_equal(x->n_window_scales, 5);
  assert_memory_equal(x->window_scales, ((int[]){0, 0, 2, 0, -1}), 5 * sizeof(int));
}

static void an_unstable_value_is_no_operand(void **state) {
  struct planning *f = begin(state, 19);
  f->policy.scales.max_spread = 8;
  product(f);
  planning_index(f);
  see_windows(f, "x", (float[]){448, 56}, 2);
  planning_decide(f);
  assert_true(made(f, "y")->narrow_operands);  // 8 times is allowed
  see_windows(f, "x", (float[]){448, 28}, 2);
  planning_decide(f);
  assert_false(made(f, "y")->narrow_operands);
  assert_int_equal(made(f, "y")->operands_reason, REASON_UNSTABLE);
  assert_int_equal(made(f, "y")->operands_value, value_id(&f->g, "x"));
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

// ---- tests of values ----

static void expect_reason(struct planning *f, enum reason reason) {
  planning_decide(f);
  assert_false(made(f, "y")->narrow_operands);
  assert_string_equal(reason_name(made(f, "y")->operands_reason), reason_name(reason));
}

static void values_that_vanish_or_were_not_seen_are_no_operands(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_index(f);
  planning_see(f, "x", (float[]){100, 1e-6f, 1e-6f}, 3);
  expect_reason(f, REASON_ZERO);
  planning_see(f, "x", (float[]){448, 0.01f, 0.01f}, 3);
  expect_reason(f, REASON_SUBNORMAL);
  planning_see(f, "x", (float[]){1, NAN}, 2);
  expect_reason(f, REASON_NONFINITE);
  planning_see(f, "x", (float[]){1, INFINITY}, 2);
  expect_reason(f, REASON_OVERFLOW);
  planning_unsee(f, "x");
  expect_reason(f, REASON_NOT_SEEN);
}

static void a_weight_is_counted_exactly(void **state) {
  struct planning *f = begin(state, 19);
  f->policy.constant_max_zero_fraction = 0.5;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){448, 1e-4f, 1e-4f, 1e-4f});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  expect_reason(f, REASON_CONSTANT);
  f->policy.constant_max_zero_fraction = 0.75;
  planning_decide(f);
  assert_true(made(f, "y")->narrow_operands);
  assert_float_equal(operand(f, "w")->zero_fraction, 0.75, 0);
}

// 65504 is 255.9 times 2^8, which rounds to 256: infinite in fp16.
static void a_value_that_rounds_beyond_its_products_format_is_no_operand(void **state) {
  struct planning *f = begin(state, 19);
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){65504, 1000, 1000, 1000});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  expect_reason(f, REASON_OVERFLOW);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

// Its product reads it in fp16 at 2^-1, and it is stored in 8 bits alone, at their own scale.
static void a_weight_that_is_only_an_operand_is_stored_at_no_other_scale(void **state) {
  struct planning *f = begin(state, 19);
  f->policy.scales.use = true;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){91000, 1000, 1000, 1000});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_true(made(f, "y")->narrow_operands);
  int k = 1, w = value_id(&f->g, "w");
  assert_true(plan_input_scale(&f->p, node_of(&f->g, "y"), k) < 0);
  assert_int_equal(f->p.values[w].format, FORMAT_FP32);
  assert_int_equal(f->p.values[w].scale_log2, 0);
}

static void float8_needs_opset_19(void **state) {
  struct planning *f = begin(state, 18);
  product(f);
  planning_index(f);
  expect_reason(f, REASON_SCHEMA);
}

static void products_without_a_second_float_operand_are_left(void **state) {
  struct planning *f = begin(state, 19);
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "Relu", "x", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_false(made(f, "y")->product);
  assert_int_equal(emitted_count(f, "QuantizeLinear"), 0);
}

// ---- what is worth it ----

static void a_product_that_gains_less_than_its_quantise_stays(void **state) {
  struct planning *f = begin(state, 19);
  f->policy.target.matrix[FORMAT_FP8E4M3FN] = f->policy.target.matrix[FORMAT_FP16] = 1e6;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, -3, 448});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "MatMul", "h w", "y");  // h is fp16: no Cast is saved
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  expect_reason(f, REASON_BOUNDARY);
}

static double time_of(struct planning *f, const struct costs *costs, const int *products, int n,
                      unsigned choice) {
  uint8_t *allowed = arena_array(&f->arena, (size_t)f->g.n_nodes, 1);
  const struct operand_plan *any = arena_alloc(&f->arena, sizeof *any);
  for (int v = 0; v < f->p.n_values; v++)
    f->p.values[v].operand = NULL;
  for (int i = 0; i < n; i++) {
    f->p.nodes[products[i]].narrow_operands = choice >> i & 1;
    for (int k = 0; k < 2 && choice >> i & 1; k++)
      f->p.values[f->g.nodes[products[i]].inputs[k]].operand = any;
  }
  costs_sum(costs, &f->p, allowed, &f->arena);
  return f->p.costs.time_after;
}

// Random products over shared values of random sizes: no choice takes less time than the plan's.
static void the_choice_is_the_cheapest_of_all(void **state) {
  struct planning *f = begin(state, 19);
  enum { VALUES = 5, PRODUCTS = 8, TRIALS = 40 };
  int products[PRODUCTS], mixed = 0;
  uint32_t random = 1;
  for (int i = 0; i < VALUES; i++) {
    build_input(&f->b, (char[]){(char)('A' + i), 0}, "float");
    build_node(&f->b, "Relu", (char[]){(char)('A' + i), 0}, (char[]){(char)('a' + i), 0});
  }
  for (int i = 0; i < PRODUCTS; i++) {
    random = random * 1664525 + 1013904223;
    char inputs[] = {(char)('a' + (random >> 20) % VALUES), ' ',
                     (char)('a' + (random >> 25) % VALUES), 0};
    char output[] = {'p', (char)('0' + i), 0};
    build_node(&f->b, "MatMul", inputs, output);
    build_output(&f->b, output, "float");
  }
  build_node(&f->b, "Exp", "a", "exp");
  build_output(&f->b, "exp", "float");
  planning_index(f);
  f->policy.target.matrix[FORMAT_FP16] = 1;
  f->policy.target.matrix[FORMAT_FP8E4M3FN] = 1.1;
  for (int i = 0; i < PRODUCTS; i++)
    products[i] = node_of(&f->g, (char[]){'p', (char)('0' + i), 0});
  for (int trial = 0; trial < TRIALS; trial++) {
    for (int v = 0; v < f->g.n_values; v++) {
      random = random * 1664525 + 1013904223;
      float ones[64];
      for (int i = 0; i < 64; i++)
        ones[i] = 1;
      planning_see(f, graph_value_label(&f->g, v), ones, 1 + (random >> 24) % 64);
    }
    planning_decide(f);
    double planned = f->p.costs.time_after, least = INFINITY;
    int narrow = 0;
    for (int i = 0; i < PRODUCTS; i++)
      narrow += f->p.nodes[products[i]].narrow_operands;
    mixed += narrow > 0 && narrow < PRODUCTS;
    struct costs costs;
    costs_init(&costs, &f->g, &f->t, &f->policy.target, &f->arena);
    for (unsigned choice = 0; choice < 1u << PRODUCTS; choice++)
      least = fmin(least, time_of(f, &costs, products, PRODUCTS, choice));
    assert_true(fabs(planned - least) <= 1e-9 * least);
  }
  assert_true(mixed > TRIALS / 8);
}

// ---- the plan file ----

static const char *write_text(struct planning *f, const char *name, const char *text) {
  const char *path = planning_path(f, name);
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
  return path;
}

static const char *replaced(struct planning *f, const char *text, const char *old,
                            const char *new) {
  const char *at = strstr(text, old);
  assert_non_null(at);
  return arena_printf(&f->arena, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static void plan_file_with_operands_says_all_that_rewrite_needs(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_index(f);
  see_windows(f, "x", (float[]){1, 100}, 2);
  planning_rewrite(f);
  f->p.costs.target = NULL;  // is not read back
  struct model first = f->changed;
  const char *a = planning_path(f, "a.json"), *b = planning_path(f, "b.json");
  assert_int_equal(plan_write(&f->p, &f->g, a, &f->d), STATUS_OK);
  planning_expect_read(f, a, STATUS_OK, NULL);
  assert_int_equal(plan_write(&f->p, &f->g, b, &f->d), STATUS_OK);
  size_t n_a, n_b;
  assert_string_equal(planning_read_file(f, a, &n_a), planning_read_file(f, b, &n_b));
  planning_rewrite(f);
  assert_true(same_model(f, &first, &f->changed));
}

static void plan_file_with_wrong_operands_is_refused(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  build_node(&f->b, "Relu", "y", "r");
  build_output(&f->b, "r", "float[2,2]");
  planning_index(f);
  planning_decide(f);
  const char *path = planning_path(f, "p.json");
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  size_t size;
  const char *text = planning_read_file(f, path, &size);
  const struct {
    const char *old, *new, *message;
  } cases[] = {
      {"\"operand\": {", "\"scale_by_window\": {", "needs an \"operand\""},
      {"\"scale_log2\": 7", "\"scale_log2\": 200", "not a number from -15 to 14"},
      {"\"operands\": \"fp8e4m3fn\"", "\"operands\": \"fp8e5m2\"", "not the first format"},
      {"\"operands\": \"fp8e4m3fn\"", "\"operands\": 8", "not a string"},
      {"\"op\": \"Relu\"", "\"op\": \"Relu\", \"operands\": \"fp8e4m3fn\"",
       "products of two fp32 matrices"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    planning_expect_read(f, write_text(f, "q.json", replaced(f, text, cases[i].old, cases[i].new)),
                         STATUS_POLICY, cases[i].message);
}

static void an_edited_scale_is_what_is_written(void **state) {
  struct planning *f = begin(state, 19);
  product(f);
  planning_index(f);
  planning_decide(f);
  const char *path = planning_path(f, "p.json");
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  size_t size;
  const char *text = planning_read_file(f, path, &size);
  text = replaced(f, text, "\"scale_log2\": 7", "\"scale_log2\": 5");
  planning_expect_read(f, write_text(f, "q.json", text), STATUS_OK, NULL);
  planning_rewrite(f);
  assert_float_equal(scalar(f, "x__scale"), 1.0f / 32, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(both_operands_come_from_8_bits),
      TEST(a_relu_that_only_products_read_in_8_bits_becomes_a_max_with_zero),
      TEST(a_relu_of_whole_numbers_stays),
      TEST(a_relu_that_reaches_8_bits_behind_a_cast_or_a_call_becomes_a_max),
      TEST(a_weight_is_stored_as_codes_and_its_scale_is_the_inverse),
      TEST(a_weight_with_other_readers_is_kept_for_them),
      TEST(a_value_is_quantised_once_for_all_its_readers),
      TEST(products_of_two_formats_share_the_codes),
      TEST(a_captured_value_is_quantised_in_its_own_scope),
      TEST(function_bodies_hold_scales_in_constant_nodes),
      TEST(old_files_get_the_ir_version_that_knows_float8),
      TEST(listed_weights_stay_constants),
      TEST(scale_is_the_largest_power_of_two_that_fits),
      TEST(the_smallest_scale_over_the_windows_counts),
      TEST(scales_that_agree_have_no_trajectory),
      TEST(hysteresis_delays_a_larger_scale_and_never_a_smaller_one),
      TEST(an_unstable_value_is_no_operand),
      TEST(values_that_vanish_or_were_not_seen_are_no_operands),
      TEST(a_weight_is_counted_exactly),
      TEST(a_value_that_rounds_beyond_its_products_format_is_no_operand),
      TEST(a_weight_that_is_only_an_operand_is_stored_at_no_other_scale),
      TEST(float8_needs_opset_19),
      TEST(products_without_a_second_float_operand_are_left),
      TEST(a_product_that_gains_less_than_its_quantise_stays),
      TEST(the_choice_is_the_cheapest_of_all),
      TEST(plan_file_with_operands_says_all_that_rewrite_needs),
      TEST(plan_file_with_wrong_operands_is_refused),
      TEST(an_edited_scale_is_what_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
