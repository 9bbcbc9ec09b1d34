// plan: the range test of values that a trace saw and the constants test, each at its edges, and
// what a node makes of them: the ladder, and variables that stay wide alone.
#include "support_plan.h"

#include <math.h>
#include <string.h>

// y = MatMul(x, w) with a harmless w: its node is narrow unless x or y stands against it.
static struct planning *product(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,2]");
  return f;
}

static void expect_wide(struct planning *f, const char *output, enum reason reason,
                        const char *culprit) {
  const struct node_plan *node = &f->p.nodes[node_of(&f->g, output)];
  assert_int_equal(node->format, FORMAT_FP32);
  assert_string_equal(reason_name(node->reason), reason_name(reason));
  if (culprit)
    assert_int_equal(node->reason_value, value_id(&f->g, culprit));
}

// The product's plan when x was seen as these elements.
static void decide_with(struct planning *f, const float *x, size_t n) {
  planning_index(f);
  planning_see(f, "x", x, n);
  planning_decide(f);
}

static void plan_narrows_what_passes_every_test(void **state) {
  struct planning *f = product(state);
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  assert_int_equal(node_reason(f, "y"), REASON_NONE);
  assert_int_equal(value_format(f, "w"), FORMAT_FP16);
  assert_int_equal(value_format(f, "y"), FORMAT_FP16);
  assert_int_equal(value_format(f, "x"), FORMAT_FP32);  // policy: inputs keep
  assert_false(plan_is_identity(&f->p));
}

static void plan_takes_a_value_at_the_margin(void **state) {
  struct planning *f = product(state);
  decide_with(f, (float[]){1, 32752}, 2);  // twice this is 65504
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void plan_refuses_a_value_beyond_the_margin(void **state) {
  struct planning *f = product(state);
  decide_with(f, (float[]){1, -32768}, 2);
  expect_wide(f, "y", REASON_OVERFLOW, "x");
  assert_int_equal(f->p.nodes[0].reason_format, FORMAT_FP16);
  assert_int_equal(value_format(f, "w"), FORMAT_FP32);
}

// Its scale and result may have another type than its input by the signature, but not by the
// definition.
static void plan_keeps_rms_normalization_of_a_wide_input_wide(void **state) {
  struct planning *f = *state;
  build_begin(&f->b, &f->arena, 23);
  f->policy.rules[0] = (struct rule){
      .id = "norms", .op_globs = (const char *[]){"RMSNormalization", NULL}, .class = CLASS_NARROW};
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "g", "float[2]", (float[]){1, 2});
  build_node(&f->b, "RMSNormalization", "x g", "y");
  build_output(&f->b, "y", "float[1,2]");
  decide_with(f, (float[]){1, 1e6f}, 2);
  expect_wide(f, "y", REASON_OVERFLOW, "x");
}

static void plan_refuses_a_result_that_overflows(void **state) {
  struct planning *f = product(state);
  planning_index(f);
  planning_see(f, "y", (float[]){70000}, 1);
  planning_decide(f);
  expect_wide(f, "y", REASON_OVERFLOW, "y");
}

// The sum itself is wide; what reads it is not narrow either, though every term fits.
static void plan_keeps_the_readers_of_a_sum_that_does_not_fit(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "ReduceSum", "h", "sum");
  build_node(&f->b, "Mul", "h sum", "scaled");
  build_node(&f->b, "MatMul", "scaled w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "scaled"), FORMAT_FP16);
  planning_see(f, "sum", (float[]){1e5f}, 1);
  planning_decide(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_int_equal(node_format(f, "sum"), FORMAT_FP32);
  expect_wide(f, "scaled", REASON_OVERFLOW, "sum");
}

static void plan_counts_vanished_elements(void **state) {
  struct planning *f = product(state);
  float x[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1e-8f};  // 1e-8 is zero in fp16: 10 %, the threshold
  decide_with(f, x, 10);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  x[8] = -1e-8f;
  planning_see(f, "x", x, 10);
  planning_decide(f);
  expect_wide(f, "y", REASON_ZERO, "x");
}

static void plan_does_not_count_true_zeros_as_vanished(void **state) {
  struct planning *f = product(state);
  decide_with(f, (float[]){0, 0, 0, -0.f, 1}, 5);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void plan_counts_subnormal_elements(void **state) {
  struct planning *f = product(state);
  decide_with(f, (float[]){1e-6f, 1}, 2);  // half, the threshold
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  planning_see(f, "x", (float[]){1e-6f, 1e-6f, 1}, 3);
  planning_decide(f);
  expect_wide(f, "y", REASON_SUBNORMAL, "x");
}

static void plan_flushes_subnormals_if_the_policy_says_so(void **state) {
  struct planning *f = product(state);
  f->policy.ftz = true;
  decide_with(f, (float[]){1e-6f, 1}, 2);
  expect_wide(f, "y", REASON_ZERO, "x");
}

static void plan_refuses_nan_of_the_source(void **state) {
  struct planning *f = product(state);
  decide_with(f, (float[]){1, NAN}, 2);
  expect_wide(f, "y", REASON_NONFINITE, "x");
}

static void plan_lets_infinities_pass(void **state) {
  struct planning *f = product(state);
  decide_with(f, (float[]){1, -INFINITY}, 2);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void plan_keeps_what_was_not_seen(void **state) {
  struct planning *f = product(state);
  planning_index(f);
  planning_unsee(f, "y");
  planning_decide(f);
  expect_wide(f, "y", REASON_NOT_SEEN, "y");
}

static void plan_without_a_trace_keeps_everything(void **state) {
  struct planning *f = product(state);
  planning_index(f);
  f->no_trace = true;
  planning_decide(f);
  expect_wide(f, "y", REASON_NOT_SEEN, "x");
  assert_true(plan_is_identity(&f->p));
}

static void plan_names_the_tensor_with_the_least_headroom(void **state) {
  struct planning *f = product(state);
  planning_index(f);
  planning_see(f, "y", (float[]){4, -16}, 2);
  planning_decide(f);
  assert_true(f->p.headroom == 65504.0 / 16);
  assert_int_equal(f->p.headroom_value, value_id(&f->g, "y"));
}

// x stays fp32, and the product reads a copy in fp16.
static void headroom_counts_what_is_cast_for_who_reads_it(void **state) {
  struct planning *f = product(state);
  decide_with(f, (float[]){4, -16}, 2);
  assert_int_equal(value_format(f, "x"), FORMAT_FP32);
  assert_true(f->p.headroom == 65504.0 / 16);
  assert_int_equal(f->p.headroom_value, value_id(&f->g, "x"));
  assert_int_equal(f->p.headroom_format, FORMAT_FP16);
}

static void headroom_counts_nothing_that_is_fp32_everywhere(void **state) {
  struct planning *f = product(state);
  planning_index(f);
  planning_see(f, "y", (float[]){70000}, 1);
  planning_decide(f);
  assert_int_equal(f->p.headroom_value, -1);
}

// ---- constants ----

// y = Op(Gemm(x, w), c): the operator follows the product if c survives.
static void follower(struct planning *f, const char *op, const char *type, const float *c) {
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "c", type, c);
  build_node(&f->b, "Gemm", "x w", "h");
  build_node(&f->b, op, "h c", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
}

// Masks, floors and epsilons as exporters write them, by what each format makes of them.
static void plan_tests_masks_and_epsilons_in_each_format(void **state) {
  (void)state;
  static const struct {
    float constant;
    bool fp16, bf16;  // the operator may run in it
  } cases[] = {
      {-3.4028235e38f, false, false},  // rounds to -inf in both
      {-3.4e38f, false, false},
      {-3.38e38f, false, true},  // the largest of bf16 is 3.3895e38
      {1e30f, false, true},
      {-1e9f, false, true},
      {-65504, true, true},
      {-10000, true, true},
      {-INFINITY, true, true},
      {1e-12f, false, true},
      {1e-8f, false, true},
      {1e-5f, false, true},  // subnormal in fp16, as a whole
      {1e-3f, true, true},
  };
  static const struct {
    const char *op, *inputs;
  } operators[] = {{"Add", "h c"}, {"Max", "c h"}, {"Where", "mask h c"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int k = 0; k < 6; k++) {
      void *setting;
      planning_set_up(&setting);
      struct planning *f = setting;
      enum format_id format = k % 2 ? FORMAT_BF16 : FORMAT_FP16;
      planning_ladder(f, format, FORMAT_COUNT);
      build_input(&f->b, "x", "float[1,2]");
      build_input(&f->b, "mask", "bool[1,2]");
      build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
      build_floats(&f->b, "c", "float[]", &cases[i].constant);
      build_node(&f->b, "MatMul", "x w", "h");
      build_node(&f->b, operators[k / 2].op, operators[k / 2].inputs, "y");
      build_output(&f->b, "y", "float[1,2]");
      planning_index(f);
      planning_decide(f);
      bool narrow = node_format(f, "y") == format;
      if (narrow != (k % 2 ? cases[i].bf16 : cases[i].fp16))
        fail_msg("%s %g in %s: %s", operators[k / 2].op, (double)cases[i].constant,
                 formats[format].name, narrow ? "narrow" : "wide");
      if (!narrow)
        expect_wide(f, "y", REASON_CONSTANT, "c");
      planning_tear_down(&setting);
    }
}

static void plan_keeps_a_mask_of_minus_3e38(void **state) {
  struct planning *f = *state;
  follower(f, "Add", "float[2]", (float[]){0, -3.4e38f});
  expect_wide(f, "y", REASON_CONSTANT, "c");
}

static void plan_keeps_an_epsilon_that_vanishes(void **state) {
  struct planning *f = *state;
  follower(f, "Add", "float[]", (float[]){1e-12f});
  expect_wide(f, "y", REASON_CONSTANT, "c");
  assert_true(f->p.values[value_id(&f->g, "c")].fit.zero_fraction == 1);
}

// What fp16 loses of such a bias is below the step of any sum that it is added to.
static void plan_takes_a_bias_that_vanishes(void **state) {
  static const struct {
    const char *op, *inputs, *shape;
  } cases[] = {{"Conv", "x w c", "float[2]"},
               {"Conv", "x w c", "float[1]"},
               {"Add", "h c", "float[2,1,1]"},
               {"Sub", "c h", "float[2,1,1]"},
               {"BatchNormalization", "h s c m v", "float[2]"}};
  planning_tear_down(state);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    planning_set_up(state);
    struct planning *f = *state;
    int channels = strcmp(cases[i].shape, "float[1]") == 0 ? 1 : 2;
    build_input(&f->b, "x", "float[1,1,2,2]");
    build_floats(&f->b, "w", channels == 1 ? "float[1,1,1,1]" : "float[2,1,1,1]", (float[]){1, 2});
    build_floats(&f->b, "s", "float[2]", (float[]){1, 2});
    build_floats(&f->b, "m", "float[2]", (float[]){1, 2});
    build_floats(&f->b, "v", "float[2]", (float[]){1, 2});
    build_floats(&f->b, "c", cases[i].shape, (float[]){1e-9f, -3e-9f});
    build_node(&f->b, "Conv", "x w", "h");
    build_node(&f->b, cases[i].op, cases[i].inputs, "y");
    build_output(&f->b, "y", "float[1,N,2,2]");
    planning_index(f);
    planning_decide(f);
    if (node_format(f, "y") != FORMAT_FP16)
      fail_msg("%s of a bias %s is wide", cases[i].op, cases[i].shape);
    if (i + 1 < sizeof cases / sizeof cases[0])
      planning_tear_down(state);
  }
}

static void plan_keeps_a_vector_of_one_epsilon(void **state) {
  struct planning *f = *state;
  follower(f, "Add", "float[2]", (float[]){1e-12f, 1e-12f});
  expect_wide(f, "y", REASON_CONSTANT, "c");
}

static void plan_keeps_a_bias_that_also_multiplies(void **state) {
  struct planning *f = *state;
  build_floats(&f->b, "c", "float[2]", (float[]){1e-9f, -3e-9f});
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Mul", "h c", "z");
  build_node(&f->b, "Add", "z c", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  planning_decide(f);
  expect_wide(f, "y", REASON_CONSTANT, "c");
}

// Flushed to zero, it would lose more than a step.
static void plan_keeps_a_bias_that_is_flushed(void **state) {
  struct planning *f = *state;
  f->policy.ftz = true;
  follower(f, "Add", "float[2]", (float[]){1e-6f, 2e-6f});
  expect_wide(f, "y", REASON_CONSTANT, "c");
}

// softmax(x w) v, where the softmax was seen as these; read by a Relu too if that is wanted.
static void decide_attention(struct planning *f, const float *probabilities, size_t n, bool relu) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_raw(&f->b, "shape", "int64[2]", (const int64_t[]){2, 2}, 16);
  build_node(&f->b, "MatMul", "x w", "scores");
  build_node(&f->b, "Softmax", "scores", "p");
  build_node(&f->b, "Reshape", "p shape", "q");
  build_node(&f->b, "MatMul", "q x", "y");
  if (relu)
    build_node(&f->b, "Relu", "q", "r");
  build_output(&f->b, "y", "float[2,2]");
  if (relu)
    build_output(&f->b, "r", "float[2,2]");
  planning_index(f);
  planning_see(f, "p", probabilities, n);
  planning_see(f, "q", probabilities, n);
  planning_decide(f);
}

// Masked places and those that an attention does not look at.
static void plan_takes_probabilities_that_vanish(void **state) {
  decide_attention(*state, (float[]){1, 1e-30f, 1e-9f, 1}, 4, false);
  assert_int_equal(node_format(*state, "y"), FORMAT_FP16);
}

static void plan_keeps_vanishing_probabilities_that_others_read(void **state) {
  decide_attention(*state, (float[]){1, 1e-30f, 1e-9f, 1}, 4, true);
  expect_wide(*state, "y", REASON_ZERO, "q");
}

// Of 60000 places, what each loses may add up to more than a step.
static void plan_keeps_vanishing_probabilities_of_very_long_rows(void **state) {
  decide_attention(*state, (float[]){1.0f / 60000, 1e-9f, 1e-9f}, 3, false);
  expect_wide(*state, "y", REASON_ZERO, "q");
}

static void plan_takes_infinite_constants(void **state) {
  struct planning *f = *state;
  follower(f, "Add", "float[2]", (float[]){0, -INFINITY});
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void plan_takes_weights_of_which_few_vanish(void **state) {
  struct planning *f = *state;
  follower(f, "Mul", "float[2]", (float[]){1e-9f, 1});  // half, the threshold
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void plan_keeps_weights_of_which_most_vanish(void **state) {
  struct planning *f = *state;
  follower(f, "Mul", "float[1,2]", (float[]){1e-9f, -1e-10f});
  expect_wide(f, "y", REASON_CONSTANT, "c");
}

static void plan_takes_out_of_range_constants_if_the_policy_saturates(void **state) {
  struct planning *f = *state;
  f->policy.constants = CONSTANTS_SATURATE;
  follower(f, "Add", "float[2]", (float[]){0, -3.4e38f});
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void plan_tests_constants_in_blocks_to_the_last_element(void **state) {
  struct planning *f = *state;
  enum { COUNT = 10001 };
  float *c = arena_array(&f->arena, COUNT, sizeof *c);
  c[COUNT - 1] = 1e6f;
  build_input(&f->b, "x", "float[1,10001]");
  build_floats(&f->b, "c", "float[10001,1]", c);
  build_node(&f->b, "MatMul", "x c", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_index(f);
  planning_decide(f);
  expect_wide(f, "y", REASON_CONSTANT, "c");
  assert_true(f->p.values[value_id(&f->g, "c")].fit.absmax == 1e6);
}

// 3.4e38 rounds to infinity in bf16 too: its largest value is 3.39e38.
static void plan_knows_that_the_largest_fp32_leaves_bf16(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "c", "float[]", (float[]){3.4028235e38f});
  build_floats(&f->b, "mild", "float[]", (float[]){1e30f});
  build_node(&f->b, "Gemm", "x w", "h");
  build_node(&f->b, "Add", "h c", "y");
  build_node(&f->b, "Add", "h mild", "z");
  build_node(&f->b, "Gemm", "z w", "end");
  build_output(&f->b, "y", "float[1,2]");
  build_output(&f->b, "end", "float[1,2]");
  planning_index(f);
  planning_decide(f);
  expect_wide(f, "y", REASON_CONSTANT, "c");
  assert_int_equal(node_format(f, "z"), FORMAT_BF16);
}

// ---- ladder and type variables ----

static void plan_tries_the_ladder_in_its_order(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "MatMul", "x x", "small");
  build_node(&f->b, "MatMul", "x x", "large");
  build_node(&f->b, "MatMul", "x x", "huge");
  build_output(&f->b, "small", "float[2,2]");
  build_output(&f->b, "large", "float[2,2]");
  build_output(&f->b, "huge", "float[2,2]");
  planning_index(f);
  planning_see(f, "large", (float[]){1e6f}, 1);
  planning_see(f, "huge", (float[]){3e38f}, 1);
  planning_decide(f);
  assert_int_equal(node_format(f, "small"), FORMAT_FP16);
  assert_int_equal(node_format(f, "large"), FORMAT_BF16);
  expect_wide(f, "huge", REASON_OVERFLOW, "huge");
  // Why it is not in the most wanted one is recorded where a wider one took it.
  const struct node_plan *large = &f->p.nodes[node_of(&f->g, "large")];
  assert_int_equal(large->reason, REASON_OVERFLOW);
  assert_int_equal(large->reason_format, FORMAT_FP16);
}

// y = BatchNormalization(Conv(x, w)); T1 is scale and bias, T2 mean and variance from opset 15 on.
static void normalised(struct planning *f, const float *variance) {
  build_input(&f->b, "x", "float[1,2,4,4]");
  float w[4] = {1, 2, 3, 4};
  build_floats(&f->b, "w", "float[2,2,1,1]", w);
  build_floats(&f->b, "scale", "float[2]", w);
  build_floats(&f->b, "bias", "float[2]", w);
  build_floats(&f->b, "mean", "float[2]", w);
  build_floats(&f->b, "variance", "float[2]", variance);
  build_node(&f->b, "Conv", "x w", "h");
  build_node(&f->b, "BatchNormalization", "h scale bias mean variance", "y");
  build_output(&f->b, "y", "float[1,2,4,4]");
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

static void plan_keeps_only_the_variable_that_does_not_fit(void **state) {
  struct planning *f = *state;
  normalised(f, (float[]){1e6f, 1});
  assert_int_equal(value_format(f, "scale"), FORMAT_FP16);
  assert_int_equal(value_format(f, "mean"), FORMAT_FP32);
  assert_int_equal(value_format(f, "variance"), FORMAT_FP32);
  int n = node_of(&f->g, "y");
  assert_int_equal(plan_input_format(&f->g, &f->p, n, 0), FORMAT_FP16);
  assert_int_equal(plan_input_format(&f->g, &f->p, n, 1), FORMAT_FP16);
  assert_int_equal(plan_input_format(&f->g, &f->p, n, 4), FORMAT_FP32);
  planning_rewrite(f);
  assert_int_equal(emitted_type(f, "scale"), 10);
  assert_int_equal(emitted_type(f, "variance"), 1);
}

static void plan_narrows_all_variables_that_fit(void **state) {
  struct planning *f = *state;
  normalised(f, (float[]){0.5f, 1});
  assert_int_equal(value_format(f, "variance"), FORMAT_FP16);
  assert_int_equal(f->p.nodes[node_of(&f->g, "y")].wide_vars, 0);
}

// stash_type says what type the sums have, and that of mean and deviation with it.
static void plan_keeps_the_type_in_which_a_normalisation_sums(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "*", &f->arena, &f->d), STATUS_OK);
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "g", "float[2]", (float[]){1, 2});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "LayerNormalization", "h g", "n mean deviation");
  build_node(&f->b, "MatMul", "n w", "y");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "mean", "float[2,1]");
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "n"), FORMAT_BF16);
  assert_int_equal(value_format(f, "mean"), FORMAT_FP32);
  assert_int_equal(value_format(f, "deviation"), FORMAT_FP32);
  planning_rewrite(f);
  assert_null(node_attribute(f->m.proto->graph->node[node_of(&f->g, "n")], "stash_type"));
}

// In bf16 the variance fits: that fp16 does not hold it must not keep it wide there.
static void plan_judges_variables_in_the_format_of_the_node(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  build_input(&f->b, "x", "float[1,2,4,4]");
  float w[4] = {1, 2, 3, 4};
  build_floats(&f->b, "w", "float[2,2,1,1]", w);
  build_floats(&f->b, "scale", "float[2]", w);
  build_floats(&f->b, "mean", "float[2]", w);
  build_floats(&f->b, "variance", "float[2]", (float[]){1e6f, 1});
  f->b.model->opset_import[0]->version = 22;
  build_node(&f->b, "Conv", "x w", "h");
  build_node(&f->b, "BatchNormalization", "h scale scale mean variance", "y");
  build_output(&f->b, "y", "float[1,2,4,4]");
  planning_index(f);
  planning_see(f, "h", (float[]){1e6f}, 1);
  planning_see(f, "y", (float[]){1e6f}, 1);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_BF16);
  assert_int_equal(value_format(f, "variance"), FORMAT_BF16);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(plan_narrows_what_passes_every_test),
      TEST(plan_takes_a_value_at_the_margin),
      TEST(plan_refuses_a_value_beyond_the_margin),
      TEST(plan_keeps_rms_normalization_of_a_wide_input_wide),
      TEST(plan_refuses_a_result_that_overflows),
      TEST(plan_keeps_the_readers_of_a_sum_that_does_not_fit),
      TEST(plan_counts_vanished_elements),
      TEST(plan_does_not_count_true_zeros_as_vanished),
      TEST(plan_counts_subnormal_elements),
      TEST(plan_flushes_subnormals_if_the_policy_says_so),
      TEST(plan_refuses_nan_of_the_source),
      TEST(plan_lets_infinities_pass),
      TEST(plan_keeps_what_was_not_seen),
      TEST(plan_without_a_trace_keeps_everything),
      TEST(plan_names_the_tensor_with_the_least_headroom),
      TEST(headroom_counts_what_is_cast_for_who_reads_it),
      TEST(headroom_counts_nothing_that_is_fp32_everywhere),
      TEST(plan_tests_masks_and_epsilons_in_each_format),
      TEST(plan_keeps_a_mask_of_minus_3e38),
      TEST(plan_keeps_an_epsilon_that_vanishes),
      TEST(plan_takes_a_bias_that_vanishes),
      TEST(plan_keeps_a_vector_of_one_epsilon),
      TEST(plan_keeps_a_bias_that_also_multiplies),
      TEST(plan_keeps_a_bias_that_is_flushed),
      TEST(plan_takes_probabilities_that_vanish),
      TEST(plan_keeps_vanishing_probabilities_that_others_read),
      TEST(plan_keeps_vanishing_probabilities_of_very_long_rows),
      TEST(plan_takes_infinite_constants),
      TEST(plan_takes_weights_of_which_few_vanish),
      TEST(plan_keeps_weights_of_which_most_vanish),
      TEST(plan_takes_out_of_range_constants_if_the_policy_saturates),
      TEST(plan_tests_constants_in_blocks_to_the_last_element),
      TEST(plan_knows_that_the_largest_fp32_leaves_bf16),
      TEST(plan_tries_the_ladder_in_its_order),
      TEST(plan_keeps_only_the_variable_that_does_not_fit),
      TEST(plan_keeps_the_type_in_which_a_normalisation_sums),
      TEST(plan_narrows_all_variables_that_fit),
      TEST(plan_judges_variables_in_the_format_of_the_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
