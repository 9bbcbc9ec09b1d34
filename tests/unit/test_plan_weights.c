// Weights of matrix products in 4 bits: codes, blocks and their scales, along which axis, which
// weights are stored so, and the plan file.
#include "support_plan.h"

#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT = 1, FLOAT16 = 10, E2M1 = 23 };

static struct planning *begin(void **state, int block_size) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 23;
  f->policy.operands = (struct operand_policy){.wanted = true, .format = FORMAT_FP4E2M1};
  f->policy.weights = (struct weight_policy){
      .given = true, .block_size = block_size, .max_zero_fraction = 1, .min_sqnr_db = -1000};
  return f;
}

// y = x w, all of these shapes.
static void product(struct planning *f, const char *x, const char *shape, const float *w,
                    const char *y) {
  build_input(&f->b, "x", x);
  build_floats(&f->b, "w", shape, w);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", y);
}

static void square_product(struct planning *f) {
  product(f, "float[2,2]", "float[2,2]", (float[]){1, 2, -3, 6}, "float[2,2]");
}

static const struct operand_plan *operand(const struct planning *f, const char *label) {
  return f->p.values[value_id(&f->g, label)].operand;
}

static const struct node_plan *made(const struct planning *f, const char *output) {
  return &f->p.nodes[node_of(&f->g, output)];
}

static void expect_reason(struct planning *f, enum reason reason) {
  planning_decide(f);
  assert_false(made(f, "y")->narrow_operands);
  assert_string_equal(reason_name(made(f, "y")->operands_reason), reason_name(reason));
}

static void expect_scales(const struct planning *f, const char *name, const int64_t *dims,
                          const float *values) {
  const Onnx__TensorProto *t = emitted_initializer(f, name);
  assert_non_null(t);
  assert_int_equal(t->n_dims, 2);
  assert_memory_equal(t->dims, dims, 2 * sizeof *dims);
  struct arena a = {0};
  struct diag d = {0};
  struct tensor view;
  float x[16];
  assert_int_equal(tensor_read(NULL, t, &a, &view, &d), STATUS_OK);
  assert_true(view.count <= 16 && tensor_to_float(&view, x));
  assert_memory_equal(x, values, view.count * sizeof *x);
  arena_free(&a);
}

// ---- what is emitted ----

static void codes_are_packed_in_pairs_and_scales_are_those_of_blocks(void **state) {
  struct planning *f = begin(state, 4);
  f->b.model->ir_version = 8;
  product(f, "float[2,4]", "float[4,2]", (float[]){1, 0.5f, 2, 0.25f, -3, 0, 6, -0.75f},
          "float[2,2]");
  planning_all(f);
  // Columns (1, 2, -3, 6) times 1 and (4, 2, 0, -6) / 8; the first of a pair in the low half.
  const Onnx__TensorProto *w = emitted_initializer(f, "w");
  assert_int_equal(w->data_type, E2M1);
  assert_int_equal(w->raw_data.len, 4);
  assert_memory_equal(w->raw_data.data, ((uint8_t[]){0x62, 0x44, 0x0D, 0xF7}), 4);
  expect_scales(f, "w__scale", (int64_t[]){1, 2}, (float[]){1, 0.125f});
  assert_int_equal(emitted_initializer(f, "w__scale")->data_type, FLOAT16);
  const Onnx__NodeProto *dq = emitted_node(f, "w__fp4e2m1_fp16");
  assert_string_equal(dq->op_type, "DequantizeLinear");
  assert_int_equal(dq->n_input, 2);  // no zero point: codes say the type
  assert_string_equal(dq->input[0], "w");
  assert_int_equal(node_attribute(dq, "axis")->i, 0);
  assert_int_equal(node_attribute(dq, "block_size")->i, 4);
  assert_int_equal(emitted_type(f, "w__fp4e2m1_fp16"), FLOAT16);
  assert_string_equal(emitted_node(f, "y__fp16")->input[1], "w__fp4e2m1_fp16");
  assert_int_equal(f->changed.proto->ir_version, 11);
  assert_int_equal(operand(f, "w")->scale_log2, 0);
  assert_int_equal(operand(f, "w")->scale_log2_most, 3);
  assert_true(operand(f, "w")->sqnr_db == INFINITY);  // every value is one of the format
}

static void an_odd_count_ends_beside_zero_and_a_block_may_be_short(void **state) {
  struct planning *f = begin(state, 2);
  product(f, "float[2,3]", "float[3,3]", (float[]){6, 6, 6, 3, 3, 3, 1, 1, 1}, "float[2,3]");
  planning_all(f);
  const Onnx__TensorProto *w = emitted_initializer(f, "w");
  assert_int_equal(w->raw_data.len, 5);
  assert_memory_equal(w->raw_data.data, ((uint8_t[]){0x77, 0x57, 0x55, 0x66, 0x06}), 5);
  expect_scales(f, "w__scale", (int64_t[]){2, 3}, (float[]){1, 1, 1, 0.25f, 0.25f, 0.25f});
  assert_int_equal(f->report.weights, 1);
  assert_int_equal(f->report.weight_bytes, 5 + 6 * 2);
  assert_int_equal(operand(f, "w")->bytes, 5 + 6 * 2);
  assert_int_equal(f->report.bytes_before, 36);
  assert_int_equal(f->report.bytes_after, 17);
}

static void activations_stay_as_they_are(void **state) {
  struct planning *f = begin(state, 32);
  square_product(f);
  planning_all(f);
  assert_int_equal(emitted_count(f, "QuantizeLinear"), 0);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 1);
  assert_string_equal(emitted_node(f, "y__fp16")->input[0], "x__fp16");
  assert_int_equal(emitted_count(f, "Cast"), 2);
}

static void a_block_of_zeros_has_scale_one(void **state) {
  struct planning *f = begin(state, 2);
  product(f, "float[2,4]", "float[4,1]", (float[]){0, 0, 24, 12}, "float[2,1]");
  f->policy.weights.min_sqnr_db = 20;
  planning_all(f);
  assert_true(made(f, "y")->narrow_operands);
  expect_scales(f, "w__scale", (int64_t[]){2, 1}, (float[]){1, 4});
  assert_memory_equal(emitted_initializer(f, "w")->raw_data.data, ((uint8_t[]){0x00, 0x57}), 2);
}

static void products_of_two_formats_share_the_codes(void **state) {
  struct planning *f = begin(state, 32);
  square_product(f);
  build_node(&f->b, "MatMul", "x w", "s");
  build_output(&f->b, "s", "float[2,2]");
  planning_index(f);
  planning_see(f, "s", (float[]){1e6f}, 1);  // stays fp32
  planning_rewrite(f);
  assert_true(made(f, "s")->narrow_operands && made(f, "y")->narrow_operands);
  assert_string_equal(emitted_node(f, "s")->input[1], "w__fp4e2m1_fp32");
  assert_string_equal(emitted_node(f, "y__fp16")->input[1], "w__fp4e2m1_fp16");
  assert_int_equal(emitted_type(f, "w__fp4e2m1_fp32"), FLOAT);
  assert_int_equal(operand(f, "w")->bytes, 2 + 2 * 2 + 2 * 4);
  assert_int_equal(emitted_initializer(f, "w")->data_type, E2M1);
}

static void one_weight_of_many_products_is_stored_once(void **state) {
  struct planning *f = begin(state, 32);
  square_product(f);
  build_node(&f->b, "MatMul", "y w", "z");
  build_output(&f->b, "z", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 1);
  assert_int_equal(f->report.weights, 1);
}

static void function_bodies_hold_codes_and_scales_in_constant_nodes(void **state) {
  struct planning *f = begin(state, 32);
  build_function_begin(&f->b, "local", "Layer", "a", "b", "");
  const float w[] = {1, 2, -3, 6};
  build_tensor_attribute(&f->b, build_node(&f->b, "Constant", "", "w"), "value",
                         build_tensor(&f->b, "", "float[2,2]", w, sizeof w));
  build_node(&f->b, "MatMul", "a w", "b");
  build_function_end(&f->b);
  build_opset(&f->b, "local", 1);
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "local.Layer", "x", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->report.weights, 1);
  assert_int_equal(emitted_count(f, "Constant"), 2);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 1);
}

static void listed_weights_stay_constants(void **state) {
  struct planning *f = begin(state, 32);
  square_product(f);
  build_input(&f->b, "w", "float[2,2]");
  f->b.model->ir_version = 3;
  planning_all(f);
  assert_true(f->emitted.all_listed);
  assert_true(graph_is_constant(&f->emitted, value_id(&f->emitted, "w")));
  assert_int_equal(emitted_type(f, "w"), E2M1);
}

// ---- along which axis ----

static void expect_axis(struct planning *f, int axis, int64_t size) {
  planning_all(f);
  if (!operand(f, "w"))
    fail_msg("no operand: %s", reason_text(made(f, "y")->operands_reason));
  assert_int_equal(operand(f, "w")->axis, axis);
  assert_int_equal(operand(f, "w")->block_size, size);
}

static const float ones[24] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void a_right_operand_has_blocks_along_its_rows(void **state) {
  struct planning *f = begin(state, 4);
  product(f, "float[2,3,8]", "float[8,3]", ones, "float[2,3,3]");
  expect_axis(f, 0, 4);
}

static void a_batch_of_right_operands_has_blocks_along_the_last_axis_but_one(void **state) {
  struct planning *f = begin(state, 32);
  product(f, "float[2,2,4]", "float[2,4,3]", ones, "float[2,2,3]");
  expect_axis(f, 1, 4);
}

static void a_left_operand_has_blocks_along_its_columns(void **state) {
  struct planning *f = begin(state, 3);
  build_input(&f->b, "x", "float[8,2]");
  build_floats(&f->b, "w", "float[3,8]", ones);
  build_node(&f->b, "MatMul", "w x", "y");
  build_output(&f->b, "y", "float[3,2]");
  expect_axis(f, 1, 3);
}

static void a_vector_has_blocks_along_itself(void **state) {
  struct planning *f = begin(state, 3);
  product(f, "float[2,8]", "float[8]", ones, "float[2]");
  expect_axis(f, 0, 3);
}

static void gemm(struct planning *f, const char *op, const char *inputs, const char *flag,
                 const char *x, const char *w, const char *y) {
  build_input(&f->b, "x", x);
  build_floats(&f->b, "w", w, ones);
  build_int(&f->b, build_node(&f->b, op, inputs, "y"), flag, 1);
  build_output(&f->b, "y", y);
}

static void a_transposed_right_operand_has_blocks_along_its_columns(void **state) {
  struct planning *f = begin(state, 4);
  gemm(f, "Gemm", "x w", "transB", "float[2,8]", "float[3,8]", "float[2,3]");
  expect_axis(f, 1, 4);
}

static void a_transposed_left_operand_has_blocks_along_its_rows(void **state) {
  struct planning *f = begin(state, 4);
  gemm(f, "Gemm", "w x", "transA", "float[8,2]", "float[8,3]", "float[3,2]");
  expect_axis(f, 0, 4);
}

static void convolution(struct planning *f, const char *op, const char *w, const char *y) {
  build_input(&f->b, "x", "float[1,4,1,1]");
  build_floats(&f->b, "w", w, ones);
  build_node(&f->b, op, "x w", "y");
  build_output(&f->b, "y", y);
}

static void a_convolution_has_blocks_along_its_input_channels(void **state) {
  struct planning *f = begin(state, 2);
  convolution(f, "Conv", "float[6,4,1,1]", "float[1,6,1,1]");
  expect_axis(f, 1, 2);
}

static void a_transposed_convolution_too(void **state) {
  struct planning *f = begin(state, 2);
  convolution(f, "ConvTranspose", "float[4,6,1,1]", "float[1,6,1,1]");
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "y", &f->arena, &f->d), STATUS_OK);
  expect_axis(f, 0, 2);
}

static void a_constant_image_is_no_weight(void **state) {
  struct planning *f = begin(state, 2);
  build_floats(&f->b, "w", "float[1,4,1,1]", ones);
  build_input(&f->b, "x", "float[6,4,1,1]");
  build_node(&f->b, "Conv", "w x", "y");
  build_output(&f->b, "y", "float[1,6,1,1]");
  planning_all(f);
  assert_false(made(f, "y")->product);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 0);
}

// ---- which weights ----

static void a_weight_of_which_too_much_vanishes_stays(void **state) {
  struct planning *f = begin(state, 32);
  product(f, "float[2,4]", "float[4,1]", (float[]){6, 0.1f, 0.1f, 0}, "float[2,1]");
  f->policy.weights.max_zero_fraction = 0.6;
  planning_index(f);
  expect_reason(f, REASON_ZERO);
  assert_int_equal(made(f, "y")->operands_value, value_id(&f->g, "w"));
  f->policy.weights.max_zero_fraction = 0.7;
  planning_decide(f);
  assert_true(made(f, "y")->narrow_operands);
  assert_true(fabs(operand(f, "w")->zero_fraction - 2.0 / 3) < 1e-12);
}

static void a_weight_that_rounding_changes_too_much_stays(void **state) {
  struct planning *f = begin(state, 32);
  product(f, "float[2,4]", "float[4,1]", (float[]){6, 5, 5, 5}, "float[2,1]");  // 5 becomes 4
  f->policy.weights.min_sqnr_db = 15.7;
  planning_index(f);
  expect_reason(f, REASON_NOISE);
  f->policy.weights.min_sqnr_db = 15.6;
  planning_decide(f);
  assert_true(made(f, "y")->narrow_operands);
  assert_true(fabs(operand(f, "w")->sqnr_db - 10 * log10(111.0 / 3)) < 1e-9);
}

static void a_weight_that_would_be_no_smaller_stays(void **state) {
  struct planning *f = begin(state, 32);
  product(f, "float[4,1]", "float[1,4]", (float[]){1, 2, 3, 4}, "float[4,4]");  // a scale for each
  planning_index(f);
  expect_reason(f, REASON_NOT_SMALLER);
}

static void a_weight_that_others_read_stays(void **state) {
  struct planning *f = begin(state, 32);
  square_product(f);
  build_node(&f->b, "Exp", "w", "e");
  build_output(&f->b, "e", "float[2,2]");
  planning_index(f);
  expect_reason(f, REASON_SHARED);
  planning_rewrite(f);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 0);
}

static void a_weight_that_is_not_finite_stays(void **state) {
  struct planning *f = begin(state, 32);
  product(f, "float[2,2]", "float[2,2]", (float[]){1, INFINITY, 1, 1}, "float[2,2]");
  planning_index(f);
  expect_reason(f, REASON_CONSTANT);
}

// 65504 is 3.998 times 2^14, which rounds to 4: infinite in fp16.
static void a_weight_that_rounds_beyond_its_products_format_stays(void **state) {
  struct planning *f = begin(state, 32);
  product(f, "float[2,2]", "float[2,2]", (float[]){65504, 1, 1, 1}, "float[2,2]");
  planning_index(f);
  expect_reason(f, REASON_OVERFLOW);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void float4_needs_opset_23(void **state) {
  struct planning *f = begin(state, 32);
  f->b.model->opset_import[0]->version = 22;
  square_product(f);
  planning_index(f);
  expect_reason(f, REASON_SCHEMA);
}

static void products_without_a_weight_are_not_counted(void **state) {
  struct planning *f = begin(state, 32);
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "MatMul", "x x", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_false(made(f, "y")->product);
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 0);
}

// ---- the plan file ----

static const char *replaced(struct planning *f, const char *text, const char *old,
                            const char *new) {
  const char *at = strstr(text, old);
  assert_non_null(at);
  text = arena_printf(&f->arena, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
  const char *path = planning_path(f, "q.json");
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
  return path;
}

static void plan_file_says_all_that_rewrite_needs(void **state) {
  struct planning *f = begin(state, 2);
  product(f, "float[2,3]", "float[3,3]", (float[]){6, 5, 4, 3, 2, 1, 1, 0, 1}, "float[2,3]");
  planning_index(f);
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

static const char *plan_text(struct planning *f) {
  const char *path = planning_path(f, "p.json");
  size_t size;
  planning_decide(f);
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  return planning_read_file(f, path, &size);
}

static void an_edited_block_size_is_what_is_written(void **state) {
  struct planning *f = begin(state, 4);
  product(f, "float[2,4]", "float[4,2]", (float[]){1, 1, 2, 2, 3, 3, 6, 6}, "float[2,2]");
  planning_index(f);
  const char *text = plan_text(f);
  planning_expect_read(f, replaced(f, text, "\"block_size\": 4", "\"block_size\": 2"), STATUS_OK,
                       NULL);
  planning_rewrite(f);
  expect_scales(f, "w__scale", (int64_t[]){2, 2}, (float[]){0.5f, 0.5f, 1, 1});
}

static void plan_file_with_wrong_blocks_is_refused(void **state) {
  struct planning *f = begin(state, 32);
  square_product(f);
  build_node(&f->b, "MatMul", "x x", "s");
  build_output(&f->b, "s", "float[2,2]");
  planning_index(f);
  const char *text = plan_text(f);
  const struct {
    const char *old, *new, *message;
  } cases[] = {
      {"\"axis\": 0", "\"axis\": 2", "not an axis of the weight"},
      {"\"axis\": 0", "\"axes\": 0", "operand.axes: unknown key"},
      {"\"block_size\": 2", "\"block_size\": 0", "not a whole number from 1 to 2"},
      {"\"block_size\": 2", "\"block_size\": 3", "not a whole number from 1 to 2"},
      {"\"block_size\": 2", "\"block_size\": 1.5", "not a whole number from 1 to 2"},
      {"\"operand\": {", "\"scale_by_window\": {", "needs an \"operand\""},
      {"\"operands\": \"fp4e2m1\"", "\"operands\": \"fp8e5m2\"", "not the first format"},
      {"\"inputs\": [\"x\", \"x\"]", "\"operands\": \"fp4e2m1\"", "with a constant weight"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    planning_expect_read(f, replaced(f, text, cases[i].old, cases[i].new), STATUS_POLICY,
                         cases[i].message);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(codes_are_packed_in_pairs_and_scales_are_those_of_blocks),
      TEST(an_odd_count_ends_beside_zero_and_a_block_may_be_short),
      TEST(activations_stay_as_they_are),
      TEST(a_block_of_zeros_has_scale_one),
      TEST(products_of_two_formats_share_the_codes),
      TEST(one_weight_of_many_products_is_stored_once),
      TEST(function_bodies_hold_codes_and_scales_in_constant_nodes),
      TEST(listed_weights_stay_constants),
      TEST(a_right_operand_has_blocks_along_its_rows),
      TEST(a_batch_of_right_operands_has_blocks_along_the_last_axis_but_one),
      TEST(a_left_operand_has_blocks_along_its_columns),
      TEST(a_vector_has_blocks_along_itself),
      TEST(a_transposed_right_operand_has_blocks_along_its_columns),
      TEST(a_transposed_left_operand_has_blocks_along_its_rows),
      TEST(a_convolution_has_blocks_along_its_input_channels),
      TEST(a_transposed_convolution_too),
      TEST(a_constant_image_is_no_weight),
      TEST(a_weight_of_which_too_much_vanishes_stays),
      TEST(a_weight_that_rounding_changes_too_much_stays),
      TEST(a_weight_that_would_be_no_smaller_stays),
      TEST(a_weight_that_others_read_stays),
      TEST(a_weight_that_is_not_finite_stays),
      TEST(a_weight_that_rounds_beyond_its_products_format_stays),
      TEST(float4_needs_opset_23),
      TEST(products_without_a_weight_are_not_counted),
      TEST(plan_file_says_all_that_rewrite_needs),
      TEST(an_edited_block_size_is_what_is_written),
      TEST(plan_file_with_wrong_blocks_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
