// plan: classes, what the operator's schema and the graph's structure allow, how formats spread to
// followers, the clean-up of boundaries, determinism, and that large models are no harder per node.
#include "raise_opset.h"
#include "support_plan.h"

#include <string.h>

static void expect(struct planning *f, const char *output, enum format_id format,
                   enum reason reason) {
  const struct node_plan *node = &f->p.nodes[node_of(&f->g, output)];
  assert_string_equal(formats[node->format].name, formats[format].name);
  assert_string_equal(reason_name(node->reason), reason_name(reason));
}

static void decide(struct planning *f) {
  planning_index(f);
  planning_decide(f);
}

// `weights` is a float[2,2] called w.
static void input_and_weights(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
}

// ---- classes ----

static void plan_gives_the_class_of_the_first_rule_that_matches(void **state) {
  struct planning *f = *state;
  struct rule rules[5];
  static const char *one_node[] = {"second", NULL};
  memcpy(rules + 1, f->policy.rules, 4 * sizeof *rules);
  rules[0] = (struct rule){.id = "by-name", .nodes = one_node, .class = CLASS_PIN, .why = "n"};
  f->policy.rules = rules;
  f->policy.n_rules = 5;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a")->name = (char[]){"first"};
  build_node(&f->b, "MatMul", "a w", "b")->name = (char[]){"second"};
  build_output(&f->b, "b", "float[2,2]");
  decide(f);
  expect(f, "a", FORMAT_FP16, REASON_NONE);
  expect(f, "b", FORMAT_FP32, REASON_CLASS);
  assert_string_equal(f->p.nodes[0].rule_id, "products");
  assert_string_equal(f->p.nodes[1].rule_id, "by-name");
  // Shared by a narrow and a wide reader, the weight stays; rewrite makes a copy.
  assert_int_equal(value_format(f, "w"), FORMAT_FP32);
}

static void plan_pins_reductions_and_softmax_between_narrow_nodes(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Softmax", "a", "s");
  build_node(&f->b, "MatMul", "s w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "a", FORMAT_FP16, REASON_NONE);
  expect(f, "s", FORMAT_FP32, REASON_CLASS);
  expect(f, "y", FORMAT_FP16, REASON_NONE);
  assert_int_equal(value_format(f, "s"), FORMAT_FP32);
}

// A rule that asks for sums in fp32 matches by operator, version and stash_type.
static void plan_narrows_normalisations_that_are_defined_to_sum_in_fp32(void **state) {
  static const struct {
    const char *op, *inputs;
    int opset, stash_type;  // -1: not given
    enum format_id format;
  } cases[] = {{"LayerNormalization", "a g", 17, -1, FORMAT_FP16},
               {"LayerNormalization", "a g", 17, 1, FORMAT_FP16},
               {"LayerNormalization", "a g", 17, 10, FORMAT_FP32},
               {"RMSNormalization", "a g", 23, -1, FORMAT_FP16},
               {"GroupNormalization", "a g g", 18, -1, FORMAT_FP32},
               {"GroupNormalization", "a g g", 21, -1, FORMAT_FP16}};
  planning_tear_down(state);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    planning_set_up(state);
    struct planning *f = *state;
    build_begin(&f->b, &f->arena, cases[i].opset);
    struct rule *rules = arena_array(&f->arena, (size_t)f->policy.n_rules + 1, sizeof *rules);
    rules[0] = (struct rule){.id = "sums",
                             .op_globs = (const char *[]){"*Normalization", NULL},
                             .sums_in_fp32 = true,
                             .class = CLASS_FOLLOW};
    memcpy(rules + 1, f->policy.rules, (size_t)f->policy.n_rules * sizeof *rules);
    f->policy.rules = rules;
    f->policy.n_rules++;
    input_and_weights(f);
    build_floats(&f->b, "g", "float[2]", (float[]){1, 2});
    build_node(&f->b, "MatMul", "x w", "a");
    Onnx__NodeProto *norm = build_node(&f->b, cases[i].op, cases[i].inputs, "n");
    if (cases[i].stash_type >= 0)
      build_int(&f->b, norm, "stash_type", cases[i].stash_type);
    if (cases[i].opset != 17 && cases[i].opset != 23)
      build_int(&f->b, norm, "num_groups", 2);
    build_node(&f->b, "MatMul", "n w", "y");
    build_output(&f->b, "y", "float[2,2]");
    decide(f);
    expect(f, "y", FORMAT_FP16, REASON_NONE);
    if (node_format(f, "n") != cases[i].format)
      fail_msg("%s at opset %d with stash_type %d", cases[i].op, cases[i].opset,
               cases[i].stash_type);
    if (i + 1 < sizeof cases / sizeof cases[0])
      planning_tear_down(state);
  }
}

static void plan_keeps_an_unknown_operator_with_that_reason(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_opset(&f->b, "my.own", 1);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "my.own.MatMul", "a w", "y");
  build_value_info(&f->b, "y", "float[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "y", FORMAT_FP32, REASON_UNKNOWN_OP);
  expect(f, "a", FORMAT_FP16, REASON_NONE);
}

static void plan_leaves_doubles_and_integers_alone(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "double[2,2]");
  build_input(&f->b, "i", "int32[2,2]");
  build_node(&f->b, "MatMul", "x x", "y");
  build_node(&f->b, "MatMul", "i i", "j");
  build_output(&f->b, "y", "double[2,2]");
  build_output(&f->b, "j", "int32[2,2]");
  decide(f);
  expect(f, "y", FORMAT_FP32, REASON_NOT_FLOAT);
  expect(f, "j", FORMAT_FP32, REASON_NOT_FLOAT);
  assert_true(plan_is_identity(&f->p));
  assert_false(f->p.values[value_id(&f->g, "y")].considered);
}

// Found by fuzz_graph: the element was declared fp16 and stayed fp32, as the tensor that it is.
static void plan_narrows_what_is_no_optional_only_with_what_it_is_got_from(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 18;
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "OptionalGetElement", "x", "e");
  build_node(&f->b, "MatMul", "e e", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  struct diag d = {0};
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "*", &f->arena, &d), STATUS_OK);
  int n = node_of(&f->g, "e");
  assert_int_equal(plan_followed_variable(&f->g, n, 0), f->g.nodes[n].schema->inputs[0].var);
  planning_rewrite(f);
  assert_int_equal(node_format(f, "e"), FORMAT_FP16);
  planning_see(f, "x", (float[]){1e6f}, 1);
  f->p.nodes = NULL;
  planning_rewrite(f);
  expect(f, "e", FORMAT_FP32, REASON_OVERFLOW);
}

// Found by fuzz_graph: scores that are fp32 whatever goes in were declared fp16.
static void plan_keeps_an_output_whose_type_stays(void **state) {
  struct planning *f = *state;
  struct diag d = {0};
  build_opset(&f->b, "com.microsoft", 1);
  build_input(&f->b, "ids", "int32[1,2]");
  build_input(&f->b, "n", "int32[1]");
  build_node(&f->b, "com.microsoft.BeamSearch", "ids n n n n", "s _ scores");
  build_node(&f->b, "MatMul", "scores scores", "y");
  build_output(&f->b, "s", "");
  build_output(&f->b, "y", "");
  planning_index(f);
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "*", &f->arena, &d), STATUS_OK);
  planning_rewrite(f);
  expect(f, "scores", FORMAT_FP32, REASON_SCHEMA);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

// Found by fuzz_graph: present_value has the type of query, and that of past_key, which stays fp32;
// so does the output then, which has that of query too.
static void plan_gives_one_type_to_all_that_follow_from_each_other(void **state) {
  for (int wide = 0; wide < 2; wide++) {
    struct planning *f = *state;
    build_opset(&f->b, "com.microsoft", 1);
    build_input(&f->b, "x", "float[2,2]");
    build_input(&f->b, "key", "float[2,2]");
    build_input(&f->b, "i", "int32[2]");
    build_node(&f->b, "MatMul", "x x", "query");
    build_node(&f->b, "com.microsoft.DynamicSparseAttention", "query _ _ key _ _ _ i i i i",
               "y _ value");
    build_node(&f->b, "MatMul", "y value", "z");
    build_output(&f->b, "z", "float[2,2]");
    planning_index(f);
    struct diag d = {0};
    assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "*", &f->arena, &d), STATUS_OK);
    planning_see(f, "key", (float[]){wide ? 1e6f : 1}, 1);
    planning_rewrite(f);
    assert_int_equal(node_format(f, "y"), wide ? FORMAT_FP32 : FORMAT_FP16);
    planning_tear_down(state);
    planning_set_up(state);
  }
}

// The bits of a narrow value are others, and fewer.
static void plan_keeps_what_sees_bits_in_fp32(void **state) {
  struct planning *f = *state;
  struct diag d = {0};
  f->b.model->opset_import[0]->version = 26;
  f->policy.narrow_inputs = f->policy.narrow_outputs = true;
  build_input(&f->b, "x", "float[2,2]");
  build_int(&f->b, build_node(&f->b, "BitCast", "x", "bits"), "to", 6);
  build_node(&f->b, "MatMul", "x x", "y");
  build_output(&f->b, "bits", "int32[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "*", &f->arena, &d), STATUS_OK);
  planning_rewrite(f);
  expect(f, "bits", FORMAT_FP32, REASON_BITS);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  assert_int_equal(emitted_type(f, "bits"), 6);
  assert_non_null(plan_refuses_format(&f->g, node_of(&f->g, "bits"), FORMAT_FP16, &f->arena));
}

static void plan_keeps_casts_of_the_author(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_int(&f->b, build_node(&f->b, "Cast", "x", "wide"), "to", 11);
  build_int(&f->b, build_node(&f->b, "Cast", "wide", "back"), "to", 1);
  build_node(&f->b, "MatMul", "back w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "wide", FORMAT_FP32, REASON_CLASS);
  expect(f, "back", FORMAT_FP32, REASON_CLASS);
  expect(f, "y", FORMAT_FP16, REASON_NONE);
}

// ---- schemas ----

// One narrow operator in bf16 at that opset.
static void one_conv(struct planning *f, int opset) {
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  f->b.model->opset_import[0]->version = opset;
  build_input(&f->b, "x", "float[1,1,2,2]");
  build_floats(&f->b, "w", "float[1,1,1,1]", (float[]){2});
  build_node(&f->b, "Conv", "x w", "y");
  build_output(&f->b, "y", "float[1,1,2,2]");
  decide(f);
}

static void plan_keeps_conv_out_of_bf16_before_opset_22(void **state) {
  one_conv(*state, 21);
  expect(*state, "y", FORMAT_FP32, REASON_SCHEMA);
}

static void plan_takes_conv_in_bf16_at_opset_22(void **state) {
  one_conv(*state, 22);
  expect(*state, "y", FORMAT_BF16, REASON_NONE);
}

// OneHot takes bf16 from opset 28 on, to which nothing is raised.
static void plan_names_no_opset_that_a_model_cannot_be_raised_to(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  build_input(&f->b, "x", "int64[2]");
  build_int64s(&f->b, "depth", "int64[]", (int64_t[]){3});
  build_floats(&f->b, "values", "float[2]", (float[]){0, 1});
  build_node(&f->b, "OneHot", "x depth values", "y");
  build_output(&f->b, "y", "float[2,3]");
  decide(f);
  expect(f, "y", FORMAT_FP32, REASON_SCHEMA);
  assert_int_equal(f->p.nodes[0].opset_needed, 0);
}

// At opset 12 no Cast makes bf16, whatever other operators take.
static void plan_needs_a_cast_that_knows_the_format(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  f->b.model->opset_import[0]->version = 12;
  input_and_weights(f);
  build_opset(&f->b, "com.microsoft", 1);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "y", FORMAT_FP32, REASON_SCHEMA);
  assert_false(plan_cast_available(&f->g, 0, FORMAT_BF16));
  assert_true(plan_cast_available(&f->g, 0, FORMAT_FP16));
}

// Before opset 6 a Cast spells its type as a string, from which no type is inferred: neither
// onnx.checker nor an engine takes a model with one.
static void plan_keeps_models_before_opset_6_wide(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 5;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "y", FORMAT_FP32, REASON_SCHEMA);
  assert_int_equal(f->p.nodes[0].opset_needed, RAISE_OPSET_LEAST);
  f->b.model->opset_import[0]->version = 6;
  decide(f);
  expect(f, "y", FORMAT_FP16, REASON_NONE);
}

// A Clip between two products. ONNX's body of Clip-13 uses a Where that takes bf16 from opset 16
// on.
static void clip_in_bf16(struct planning *f, int opset) {
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  f->b.model->opset_import[0]->version = opset;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Clip", "h", "c");
  build_node(&f->b, "MatMul", "c w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
}

static void plan_keeps_clip_out_of_bf16_before_opset_16(void **state) {
  struct planning *f = *state;
  clip_in_bf16(f, 15);
  expect(f, "c", FORMAT_FP32, REASON_SCHEMA);
  assert_int_equal(f->p.nodes[1].opset_needed, 16);
}

static void plan_takes_clip_in_bf16_at_opset_16(void **state) {
  clip_in_bf16(*state, 16);
  expect(*state, "c", FORMAT_BF16, REASON_NONE);
}

static void followed_cumsum(struct planning *f, int opset) {
  f->b.model->opset_import[0]->version = opset;
  input_and_weights(f);
  build_int64s(&f->b, "axis", "int64[]", (int64_t[]){1});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "CumSum", "h axis", "c");
  build_node(&f->b, "MatMul", "c w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
}

static void plan_keeps_cumsum_out_of_fp16_before_opset_14(void **state) {
  followed_cumsum(*state, 13);
  expect(*state, "c", FORMAT_FP32, REASON_SCHEMA);
}

static void plan_takes_cumsum_in_fp16_at_opset_14(void **state) {
  followed_cumsum(*state, 14);
  expect(*state, "c", FORMAT_FP16, REASON_NONE);
}

static void plan_never_wants_resize_scales_or_regions_narrow(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,1,2,2]");
  build_floats(&f->b, "w", "float[1,1,1,1]", (float[]){2});
  build_floats(&f->b, "roi", "float[8]", (float[]){0, 0, 0, 0, 1, 1, 0.3f, 1});
  build_floats(&f->b, "scales", "float[4]", (float[]){1, 1, 2, 2});
  build_node(&f->b, "Conv", "x w", "h");
  Onnx__NodeProto *resize = build_node(&f->b, "Resize", "h roi scales", "r");
  build_string(&f->b, resize, "coordinate_transformation_mode", "tf_crop_and_resize");
  build_node(&f->b, "Conv", "r w", "y");
  build_output(&f->b, "y", "float[1,1,N,M]");
  decide(f);
  expect(f, "r", FORMAT_FP16, REASON_NONE);
  assert_int_equal(value_format(f, "roi"), FORMAT_FP32);
  assert_int_equal(value_format(f, "scales"), FORMAT_FP32);
}

// Their numbers are integers: above 2048, fp16 has only every other one.
static void plan_never_wants_float_indices_narrow(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "at", "float[2]");
  build_floats(&f->b, "w", "float[4097,2]", arena_array(&f->arena, 8194, sizeof(float)));
  build_floats(&f->b, "depth", "float[]", (float[]){4097});
  build_floats(&f->b, "values", "float[2]", (float[]){0, 1});
  build_node(&f->b, "OneHot", "at depth values", "hot");
  build_node(&f->b, "MatMul", "hot w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "hot", FORMAT_FP16, REASON_NONE);
  assert_int_equal(plan_input_format(&f->g, &f->p, node_of(&f->g, "hot"), 0), FORMAT_FP32);
  assert_int_equal(value_format(f, "depth"), FORMAT_FP32);
  assert_int_equal(value_format(f, "values"), FORMAT_FP16);
}

// ---- structure ----

static void plan_keeps_float_arithmetic_on_shapes_wide(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_floats(&f->b, "half", "float[]", (float[]){0.5f});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Shape", "h", "shape");
  build_int(&f->b, build_node(&f->b, "Cast", "shape", "sizes"), "to", 1);
  build_node(&f->b, "Mul", "sizes half", "halved");
  build_int(&f->b, build_node(&f->b, "Cast", "halved", "target"), "to", 7);
  build_node(&f->b, "ConstantOfShape", "target", "zeros");
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "zeros", "float[N,M]");
  decide(f);
  expect(f, "halved", FORMAT_FP32, REASON_SHAPE_MATH);
  expect(f, "zeros", FORMAT_FP32, REASON_NO_NEIGHBOUR);
  // Shape reads no element: it asks for no Cast.
  assert_int_equal(plan_input_format(&f->g, &f->p, node_of(&f->g, "shape"), 0), FORMAT_COUNT);
}

static void plan_lets_followers_take_their_neighbours_format(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "Relu", "x", "before");
  build_node(&f->b, "MatMul", "before w", "h");
  build_node(&f->b, "Add", "h w", "added");
  build_node(&f->b, "Relu", "added", "after");
  build_node(&f->b, "MatMul", "after w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "added", FORMAT_FP16, REASON_NONE);
  expect(f, "after", FORMAT_FP16, REASON_NONE);
  expect(f, "before", FORMAT_FP16, REASON_NONE);
}

static void plan_keeps_isolated_followers_wide(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "Relu", "x", "r");
  build_node(&f->b, "Exp", "r", "e");
  build_node(&f->b, "Add", "e w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "r", FORMAT_FP32, REASON_NO_NEIGHBOUR);
  expect(f, "y", FORMAT_FP32, REASON_NO_NEIGHBOUR);
  assert_true(plan_is_identity(&f->p));
}

static void plan_leaves_quantised_islands_alone(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_floats(&f->b, "scale", "float[]", (float[]){0.1f});
  build_raw(&f->b, "zero", "uint8[]", (uint8_t[]){0}, 1);
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "QuantizeLinear", "h scale zero", "q");
  build_node(&f->b, "DequantizeLinear", "q scale zero", "d");
  build_node(&f->b, "MatMul", "d w", "inside");
  build_node(&f->b, "QuantizeLinear", "inside scale zero", "q2");
  build_node(&f->b, "DequantizeLinear", "q2 scale zero", "d2");
  build_node(&f->b, "Exp", "d2", "e");
  build_node(&f->b, "MatMul", "e w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "inside", FORMAT_FP32, REASON_QUANTISED);
  expect(f, "h", FORMAT_FP32, REASON_QUANTISED);
  expect(f, "y", FORMAT_FP16, REASON_NONE);
}

static void attention_transpose(struct planning *f, const int64_t *perm) {
  input_and_weights(f);
  build_input(&f->b, "z", "float[2,2,2]");
  build_node(&f->b, "MatMul", "z w", "h");
  build_ints(&f->b, build_node(&f->b, "Transpose", "h", "t"), "perm", perm, 3);
  build_node(&f->b, "MatMul", "t w", "y");
  build_output(&f->b, "y", "float[2,2,2]");
  decide(f);
}

static void plan_steers_around_a_transpose_that_the_engine_crashes_on(void **state) {
  attention_transpose(*state, (int64_t[]){1, 0, 2});
  expect(*state, "t", FORMAT_FP32, REASON_ENGINE);
  expect(*state, "y", FORMAT_FP16, REASON_NONE);
}

static void plan_narrows_other_transposes_before_a_product(void **state) {
  attention_transpose(*state, (int64_t[]){0, 2, 1});
  expect(*state, "t", FORMAT_FP16, REASON_NONE);
}

static void cast_to_fp32(struct planning *f, const char *input, const char *output) {
  build_int(&f->b, build_node(&f->b, "Cast", input, output), "to",
            ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
}

// With Casts of fp32 to fp32 around it, as some models have them.
static void written_out_layer_norm(struct planning *f, int64_t opset, bool casts) {
  f->b.model->opset_import[0]->version = opset;
  input_and_weights(f);
  build_floats(&f->b, "epsilon", "float[]", (float[]){1e-3f});
  build_node(&f->b, "MatMul", "x w", casts ? "made" : "h");
  if (casts)
    cast_to_fp32(f, "made", "h");
  build_ints(&f->b, build_node(&f->b, "ReduceMean", "h", "mean"), "axes", (int64_t[]){-1}, 1);
  build_node(&f->b, "Sub", "h mean", "centred");
  build_node(&f->b, "Mul", "centred centred", "squares");
  build_ints(&f->b, build_node(&f->b, "ReduceMean", "squares", "variance"), "axes", (int64_t[]){-1},
             1);
  build_node(&f->b, "Add", "variance epsilon", "positive");
  build_node(&f->b, "Sqrt", "positive", "deviation");
  build_node(&f->b, "Div", "centred deviation", casts ? "quotient" : "normal");
  if (casts)
    cast_to_fp32(f, "quotient", "normal");
  build_node(&f->b, "Mul", "w normal", "scaled");
  build_node(&f->b, "Add", "scaled w", "shifted");
  build_node(&f->b, "MatMul", "shifted w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
}

static void plan_keeps_the_gain_of_a_written_out_layer_norm_wide_from_opset_17_on(void **state) {
  written_out_layer_norm(*state, 17, false);
  expect(*state, "scaled", FORMAT_FP32, REASON_ENGINE);
  expect(*state, "y", FORMAT_FP16, REASON_NONE);
}

static void plan_narrows_the_gain_of_a_written_out_layer_norm_before_opset_17(void **state) {
  written_out_layer_norm(*state, 16, false);
  expect(*state, "scaled", FORMAT_FP16, REASON_NONE);
}

static void plan_sees_a_layer_norm_between_casts_that_do_nothing(void **state) {
  written_out_layer_norm(*state, 17, true);
  expect(*state, "made", FORMAT_FP32, REASON_ENGINE);
  expect(*state, "scaled", FORMAT_FP32, REASON_ENGINE);
  expect(*state, "y", FORMAT_FP16, REASON_NONE);
}

static void plan_keeps_functions_called_with_different_types(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Square", "a", "b", "");
  build_node(&f->b, "MatMul", "a a", "b");
  build_function_end(&f->b);
  input_and_weights(f);
  build_input(&f->b, "d", "double[2,2]");
  build_node(&f->b, "local.Square", "x", "y");
  build_node(&f->b, "local.Square", "d", "z");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "z", "double[2,2]");
  decide(f);
  expect(f, "fn:local.Square::b", FORMAT_FP32, REASON_POLYMORPHIC);
}

static void plan_narrows_inside_functions_and_branches(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Square", "a", "b", "");
  build_node(&f->b, "MatMul", "a a", "b");
  build_function_end(&f->b);
  input_and_weights(f);
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "local.Square", "x", "h");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "MatMul", "h w", "t");
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "MatMul", "w h", "e");
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_unsee(f, "#1.else_branch::e");  // never taken
  planning_decide(f);
  expect(f, "fn:local.Square::b", FORMAT_FP16, REASON_NONE);
  expect(f, "#1.then_branch::t", FORMAT_FP16, REASON_NONE);
  expect(f, "#1.else_branch::e", FORMAT_FP32, REASON_NOT_SEEN);
  expect(f, "h", FORMAT_FP32, REASON_CALL);  // a boundary, and no node of the plan
}

// ---- boundaries ----

// One product whose input and output need a Cast each, of 2 elements and so 12 bytes. Times are in
// bytes (the test's target moves one a second): 8 operations and 16 bytes are 16 in fp16.
static void lonely_product(struct planning *f, double fp32_time) {
  f->policy.target.matrix[FORMAT_FP32] = 8 / fp32_time;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
}

static void plan_widens_a_node_whose_casts_cost_more_than_it_gains(void **state) {
  lonely_product(*state, 16 + 23);
  expect(*state, "y", FORMAT_FP32, REASON_BOUNDARY);
}

static void plan_gives_ties_to_the_wider_format(void **state) {
  lonely_product(*state, 16 + 24);
  expect(*state, "y", FORMAT_FP32, REASON_BOUNDARY);
}

static void plan_keeps_a_node_narrow_that_gains_more(void **state) {
  lonely_product(*state, 16 + 25);
  expect(*state, "y", FORMAT_FP16, REASON_NONE);
}

// Two Casts cost 24 bytes, three would cost 36.
static void plan_pays_for_one_cast_of_a_value_read_twice(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 2 * 2 * 1.414 / (12 + 30);
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "MatMul", "x x", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "y", FORMAT_FP16, REASON_NONE);
}

// Each sum needs a Cast for its second operand. The last one falls off first, and only then is it
// worth it for the one before.
static void plan_moves_a_boundary_along_a_chain_of_followers(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_input(&f->b, "z", "float[2,2]");
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Exp", "z", "z1");
  build_node(&f->b, "Exp", "z", "z2");
  build_node(&f->b, "Add", "h z1", "a");
  build_node(&f->b, "Add", "a z2", "b");
  build_node(&f->b, "Exp", "b", "c");
  build_output(&f->b, "c", "float[2,2]");
  decide(f);
  expect(f, "h", FORMAT_FP16, REASON_NONE);
  expect(f, "a", FORMAT_FP32, REASON_BOUNDARY);
  expect(f, "b", FORMAT_FP32, REASON_BOUNDARY);
}

// ---- the whole ----

static void same_plan(const struct plan *a, const struct plan *b) {
  for (int n = 0; n < a->n_nodes; n++) {
    assert_int_equal(a->nodes[n].format, b->nodes[n].format);
    assert_int_equal(a->nodes[n].reason, b->nodes[n].reason);
  }
  for (int v = 0; v < a->n_values; v++)
    assert_int_equal(a->values[v].format, b->values[v].format);
}

// A hundred thousand nodes of all kinds, and one value that half of them read: what is quadratic
// in nodes or in readers does not end here within the patience of a test runner.
static void plan_takes_100000_nodes_that_share_a_value(void **state) {
  struct planning *f = *state;
  enum { PAIRS = 50000 };
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "shared");
  const char *last = "shared";
  for (int i = 0; i < PAIRS; i++) {
    const char *sum = arena_printf(&f->arena, "a%d", i), *next = arena_printf(&f->arena, "b%d", i);
    build_node(&f->b, "Add", arena_printf(&f->arena, "%s shared", last), sum);
    build_node(&f->b, i % 10 ? "Relu" : "Exp", sum, next);
    last = next;
  }
  build_output(&f->b, last, "float[2,2]");
  decide(f);
  expect(f, "shared", FORMAT_FP16, REASON_NONE);
  expect(f, "a5", FORMAT_FP16, REASON_NONE);
  struct plan first = f->p;
  planning_decide(f);
  same_plan(&first, &f->p);
}

static void plan_takes_a_node_with_many_inputs(void **state) {
  struct planning *f = *state;
  enum { INPUTS = 60000 };
  input_and_weights(f);
  Onnx__NodeProto *concat = build_node(&f->b, "Concat", "", "all");
  concat->input = arena_array(&f->arena, INPUTS, sizeof *concat->input);
  concat->n_input = INPUTS;
  build_int(&f->b, concat, "axis", 0);
  for (int i = 0; i < INPUTS; i++) {
    concat->input[i] = arena_printf(&f->arena, "r%d", i);
    build_node(&f->b, "Relu", "x", concat->input[i]);
  }
  build_node(&f->b, "MatMul", "all w", "y");
  build_output(&f->b, "y", "float[N,2]");
  decide(f);
  expect(f, "y", FORMAT_FP16, REASON_NONE);
}

// Also the bodies of a branch that nobody reads, which read what others do.
static void nodes_that_no_output_depends_on_stay_as_they_are(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "go", "bool[]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "MatMul", "h w", "idle");
  build_node(&f->b, "MatMul", "idle w", "last");
  Onnx__NodeProto *n = build_node(&f->b, "If", "go", "chosen");
  build_graph_begin(&f->b, n, "then_branch");
  build_node(&f->b, "MatMul", "h w", "inside");
  build_output(&f->b, "inside", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, n, "else_branch");
  build_node(&f->b, "Neg", "h", "negative");
  build_output(&f->b, "negative", "float[2,2]");
  build_graph_end(&f->b);
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  expect(f, "h", FORMAT_FP16, REASON_NONE);
  expect(f, "y", FORMAT_FP16, REASON_NONE);
  expect(f, "idle", FORMAT_FP32, REASON_UNUSED);
  expect(f, "last", FORMAT_FP32, REASON_UNUSED);
  for (int i = 0; i < f->g.n_nodes; i++)
    if (f->g.nodes[i].scope > 0)
      assert_int_equal(f->p.nodes[i].reason, REASON_UNUSED);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(nodes_that_no_output_depends_on_stay_as_they_are),
      TEST(plan_gives_the_class_of_the_first_rule_that_matches),
      TEST(plan_pins_reductions_and_softmax_between_narrow_nodes),
      TEST(plan_narrows_normalisations_that_are_defined_to_sum_in_fp32),
      TEST(plan_keeps_an_unknown_operator_with_that_reason),
      TEST(plan_leaves_doubles_and_integers_alone),
      TEST(plan_narrows_what_is_no_optional_only_with_what_it_is_got_from),
      TEST(plan_keeps_an_output_whose_type_stays),
      TEST(plan_gives_one_type_to_all_that_follow_from_each_other),
      TEST(plan_keeps_what_sees_bits_in_fp32),
      TEST(plan_keeps_casts_of_the_author),
      TEST(plan_keeps_conv_out_of_bf16_before_opset_22),
      TEST(plan_takes_conv_in_bf16_at_opset_22),
      TEST(plan_needs_a_cast_that_knows_the_format),
      TEST(plan_names_no_opset_that_a_model_cannot_be_raised_to),
      TEST(plan_keeps_models_before_opset_6_wide),
      TEST(plan_keeps_clip_out_of_bf16_before_opset_16),
      TEST(plan_takes_clip_in_bf16_at_opset_16),
      TEST(plan_keeps_cumsum_out_of_fp16_before_opset_14),
      TEST(plan_takes_cumsum_in_fp16_at_opset_14),
      TEST(plan_never_wants_resize_scales_or_regions_narrow),
      TEST(plan_never_wants_float_indices_narrow),
      TEST(plan_keeps_float_arithmetic_on_shapes_wide),
      TEST(plan_lets_followers_take_their_neighbours_format),
      TEST(plan_keeps_isolated_followers_wide),
      TEST(plan_leaves_quantised_islands_alone),
      TEST(plan_steers_around_a_transpose_that_the_engine_crashes_on),
      TEST(plan_narrows_other_transposes_before_a_product),
      TEST(plan_keeps_the_gain_of_a_written_out_layer_norm_wide_from_opset_17_on),
      TEST(plan_narrows_the_gain_of_a_written_out_layer_norm_before_opset_17),
      TEST(plan_sees_a_layer_norm_between_casts_that_do_nothing),
      TEST(plan_keeps_functions_called_with_different_types),
      TEST(plan_narrows_inside_functions_and_branches),
      TEST(plan_widens_a_node_whose_casts_cost_more_than_it_gains),
      TEST(plan_gives_ties_to_the_wider_format),
      TEST(plan_keeps_a_node_narrow_that_gains_more),
      TEST(plan_pays_for_one_cast_of_a_value_read_twice),
      TEST(plan_moves_a_boundary_along_a_chain_of_followers),
      TEST(plan_takes_100000_nodes_that_share_a_value),
      TEST(plan_takes_a_node_with_many_inputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
