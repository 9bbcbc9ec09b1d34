// The constants pass: every form of constant, shared by narrow and wide readers or not; and the
// operators whose result's type is written in an attribute.
#include "support_plan.h"

#include "round.h"
#include "support_numbers.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7, FLOAT16 = 10 };

// Elements of a tensor as fp32.
static const float *elements(struct planning *f, const Onnx__TensorProto *t) {
  struct tensor view;
  assert_int_equal(tensor_read(&f->changed, t, &f->arena, &view, &f->d), STATUS_OK);
  float *x = arena_array(&f->arena, view.count, sizeof *x);
  assert_true(tensor_to_float(&view, x));
  return x;
}

static void expect_tensor(struct planning *f, const Onnx__TensorProto *t, int elem_type,
                          size_t rank, const float *x, size_t n) {
  assert_non_null(t);
  assert_int_equal(t->data_type, elem_type);
  assert_int_equal(t->n_dims, rank);
  const float *stored = elements(f, t);
  for (size_t i = 0; i < n; i++)
    if (!(stored[i] == x[i]))
      fail_msg("element %zu is %g, not %g", i, (double)stored[i], (double)x[i]);
}

static float fp16(float x) {
  return rounded_to(&formats[FORMAT_FP16], x, false, false);
}

static const Onnx__TensorProto *constant_of(const struct planning *f, const char *output) {
  const Onnx__NodeProto *n = emitted_node(f, output);
  assert_string_equal(n->op_type, "Constant");
  assert_int_equal(n->n_attribute, 1);
  assert_string_equal(n->attribute[0]->name, "value");
  return n->attribute[0]->t;
}

static void rewrite_narrows_a_constant_in_place_for_narrow_readers(void **state) {
  struct planning *f = *state;
  const float w[] = {0.1f, 2, 65504, -3e-5f};
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", w);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "a w", "y");  // tied: one copy serves both
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->changed.proto->graph->n_initializer, 1);
  const float rounded[] = {fp16(0.1f), 2, 65504, fp16(-3e-5f)};
  expect_tensor(f, emitted_initializer(f, "w"), FLOAT16, 2, rounded, 4);
  assert_int_equal(f->report.narrow_initializers, 1);
  assert_int_equal(f->report.copied_initializers, 0);
  assert_int_equal(f->report.bytes_before, 16);
  assert_int_equal(f->report.bytes_after, 8);
}

static void rewrite_keeps_the_exact_constant_for_a_wide_reader(void **state) {
  struct planning *f = *state;
  const float w[] = {0.1f, 0.2f, 0.3f, 0.4f};
  const float rounded[] = {fp16(0.1f), fp16(0.2f), fp16(0.3f), fp16(0.4f)};
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", w);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Pow", "a w", "p");
  build_node(&f->b, "MatMul", "p w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  expect_tensor(f, emitted_initializer(f, "w"), FLOAT, 2, w, 4);
  expect_tensor(f, emitted_initializer(f, "w__fp16"), FLOAT16, 2, rounded, 4);
  assert_int_equal(f->changed.proto->graph->n_initializer, 2);
  assert_int_equal(f->report.copied_initializers, 1);
  assert_string_equal(emitted_node(f, "p")->input[1], "w");
  assert_string_equal(emitted_node(f, "a")->input[1], "w__fp16");
  assert_int_equal(emitted_count(f, "Cast"), 4);  // of x, a, p and y; none of w
}

static void rewrite_narrows_constant_nodes_in_all_forms(void **state) {
  struct planning *f = *state;
  const float list[] = {0.5f, 0.1f};
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_tensor_attribute(&f->b, build_node(&f->b, "Constant", "", "c1"), "value",
                         build_tensor(&f->b, "", "float[]", list, sizeof *list));
  build_float(&f->b, build_node(&f->b, "Constant", "", "c2"), "value_float", 0.1f);
  build_float_list(&f->b, build_node(&f->b, "Constant", "", "c3"), "value_floats", list, 2);
  build_int(&f->b, build_node(&f->b, "Constant", "", "n"), "value_int", 3);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Add", "a c1", "b");
  build_node(&f->b, "Add", "b c2", "c");
  build_node(&f->b, "Add", "c c3", "d");
  build_node(&f->b, "MatMul", "d w", "y");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "n", "int64[]");
  planning_all(f);
  const float rounded[] = {0.5f, fp16(0.1f)};
  expect_tensor(f, constant_of(f, "c1"), FLOAT16, 0, rounded, 1);
  expect_tensor(f, constant_of(f, "c2"), FLOAT16, 0, rounded + 1, 1);
  expect_tensor(f, constant_of(f, "c3"), FLOAT16, 1, rounded, 2);
  assert_string_equal(emitted_node(f, "n")->attribute[0]->name, "value_int");
  assert_int_equal(f->report.casts, 2);
}

static void rewrite_copies_a_constant_node_for_a_wide_reader(void **state) {
  struct planning *f = *state;
  const float c = 0.1f;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_float(&f->b, build_node(&f->b, "Constant", "", "c"), "value_float", c);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Add", "a c", "b");
  build_node(&f->b, "MatMul", "b w", "d");
  build_node(&f->b, "Pow", "d c", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_string_equal(emitted_node(f, "c")->attribute[0]->name, "value_float");
  const float rounded = fp16(c);
  expect_tensor(f, emitted_initializer(f, "c__fp16"), FLOAT16, 0, &rounded, 1);
  assert_string_equal(emitted_node(f, "y")->input[1], "c");
}

static void rewrite_keeps_zero_size_and_rank_0(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[0,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "empty", "float[0,2]", NULL);
  build_floats(&f->b, "scalar", "float[]", (float[]){0.5f});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Add", "a empty", "b");
  build_node(&f->b, "Mul", "b scalar", "c");
  build_node(&f->b, "MatMul", "c w", "y");
  build_output(&f->b, "y", "float[0,2]");
  planning_all(f);
  const Onnx__TensorProto *empty = emitted_initializer(f, "empty");
  expect_tensor(f, empty, FLOAT16, 2, NULL, 0);
  assert_int_equal(empty->dims[0], 0);
  assert_int_equal(empty->raw_data.len, 0);
  expect_tensor(f, emitted_initializer(f, "scalar"), FLOAT16, 0, (float[]){0.5f}, 1);
}

static void rewrite_reads_typed_fields_as_raw_data(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  Onnx__TensorProto *w = build_floats(&f->b, "w", "float[2,2]", (float[]){0, 0, 0, 0});
  w->has_raw_data = 0;
  w->n_float_data = 4;
  w->float_data = arena_array(&f->arena, 4, sizeof *w->float_data);
  w->float_data[3] = 0.1f;
  w->doc_string = (char[]){"a text"};
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  const Onnx__TensorProto *narrow = emitted_initializer(f, "w");
  expect_tensor(f, narrow, FLOAT16, 2, (float[]){0, 0, 0, fp16(0.1f)}, 4);
  assert_int_equal(narrow->n_float_data, 0);
  assert_string_equal(narrow->doc_string, "a text");
}

// From IR 4 on, an initializer that is an input too is a default, which the caller may override:
// the interface stays as it is.
static void rewrite_keeps_the_interface_of_an_input_with_a_default(void **state) {
  struct planning *f = *state;
  const float w[] = {0.1f, 0.2f, 0.3f, 0.4f};
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "w", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", w);
  build_floats(&f->b, "base", "float[2,2]", w);
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "MatMul", "y base", "z");
  build_output(&f->b, "z", "float[2,2]");
  f->policy.narrow_inputs = true;
  planning_all(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  expect_tensor(f, emitted_initializer(f, "w"), FLOAT, 2, w, 4);
  assert_int_equal(emitted_type(f, "w"), FLOAT);
  assert_int_equal(emitted_type(f, "w__fp16"), FLOAT16);
  assert_string_equal(emitted_node(f, "w__fp16")->op_type, "Cast");
}

// Before IR 4 every initializer is an input too, and a constant all the same.
static void rewrite_narrows_listed_initializers_of_old_models(void **state) {
  struct planning *f = *state;
  f->b.model->ir_version = 3;
  f->b.model->opset_import[0]->version = 8;
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "w", "float[2,2]");
  build_input(&f->b, "v", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "v", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "a v", "b");
  build_node(&f->b, "Pow", "b v", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  const Onnx__GraphProto *g = f->changed.proto->graph;
  assert_int_equal(g->n_input, 3);
  assert_int_equal(g->n_initializer, 2);  // the copy of v would have to be an input: a node instead
  assert_int_equal(emitted_initializer(f, "w")->data_type, FLOAT16);
  assert_int_equal(g->input[1]->type->tensor_type->elem_type, FLOAT16);
  assert_int_equal(emitted_initializer(f, "v")->data_type, FLOAT);
  assert_int_equal(constant_of(f, "v__fp16")->data_type, FLOAT16);
}

static void rewrite_narrows_the_constants_of_subgraphs_and_functions(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Scale", "a", "b", "");
  build_tensor_attribute(&f->b, build_node(&f->b, "Constant", "", "k"), "value",
                         build_tensor(&f->b, "", "float[2,2]", NULL, 16));
  build_node(&f->b, "MatMul", "a k", "m");
  build_node(&f->b, "Pow", "m k", "b");
  build_function_end(&f->b);
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "local.Scale", "x", "h");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  branch->name = (char[]){"if"};
  for (int side = 0; side < 2; side++) {
    build_graph_begin(&f->b, branch, side ? "else_branch" : "then_branch");
    build_floats(&f->b, "v", "float[2,2]", (float[]){1, 2, 3, 4});
    build_node(&f->b, side ? "MatMul" : "Pow", "h v", "t");
    build_output(&f->b, "t", "float[2,2]");
    build_graph_end(&f->b);
  }
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  // Wide and narrow readers in the body of a function, which has no initializers.
  assert_int_equal(constant_of(f, "fn:local.Scale::k")->data_type, FLOAT);
  assert_int_equal(constant_of(f, "fn:local.Scale::k__fp16")->data_type, FLOAT16);
  assert_int_equal(emitted_type(f, "if.then_branch::v"), FLOAT);
  assert_int_equal(emitted_type(f, "if.else_branch::v"), FLOAT16);
}

static void rewrite_casts_what_a_sparse_initializer_holds(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_sparse(&f->b, "s", 0.1f, 2);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Add", "a s", "b");
  build_node(&f->b, "MatMul", "b w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->changed.proto->graph->n_sparse_initializer, 1);
  assert_int_equal(f->changed.proto->graph->sparse_initializer[0]->values->data_type, FLOAT);
}

static void rewrite_writes_types_into_attributes(void **state) {
  struct planning *f = *state;
  const float fill = 0.1f;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_int64s(&f->b, "shape", "int64[2]", (int64_t[]){2, 2});
  Onnx__NodeProto *filled = build_node(&f->b, "ConstantOfShape", "shape", "filled");
  build_tensor_attribute(&f->b, filled, "value",
                         build_tensor(&f->b, "", "float[1]", &fill, sizeof fill));
  build_node(&f->b, "ConstantOfShape", "shape", "zeros");  // its default: one fp32 zero
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Add", "a filled", "b");
  build_node(&f->b, "Add", "b zeros", "c");
  Onnx__NodeProto *random = build_node(&f->b, "RandomNormalLike", "c", "r");
  build_int(&f->b, random, "dtype", FLOAT);
  build_node(&f->b, "Add", "c r", "d");
  build_node(&f->b, "MatMul", "d w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_type(f, "filled"), FLOAT16);
  assert_int_equal(emitted_type(f, "zeros"), FLOAT16);
  assert_int_equal(emitted_type(f, "r"), FLOAT16);
  expect_tensor(f, emitted_node(f, "filled")->attribute[0]->t, FLOAT16, 1, (float[]){fp16(fill)},
                1);
  expect_tensor(f, emitted_node(f, "zeros")->attribute[0]->t, FLOAT16, 1, (float[]){0}, 1);
  assert_int_equal(emitted_node(f, "r")->attribute[0]->i, FLOAT16);
  assert_int_equal(f->report.casts, 2);
}

// y = MatMul(x + c, w), where c holds a mask beyond the range of fp16 and infinities.
static void masked(struct planning *f, enum constants_rule rule, const float *wanted) {
  f->policy.constants = rule;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "c", "float[4]", (float[]){1, -3.4e38f, INFINITY, -INFINITY});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Add", "a c", "b");
  build_node(&f->b, "MatMul", "b w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  expect_tensor(f, emitted_initializer(f, "c"), FLOAT16, 1, wanted, 4);
  assert_int_equal(f->report.saturated, 1);
}

// Of fp32 to fp32, of the author's fp16 to what was fp32, and of what was fp32 to the author's
// fp16.
static void rewrite_makes_an_identity_of_a_cast_that_has_nothing_to_do(void **state) {
  struct planning *f = *state;
  f->policy.rules[2].class = CLASS_NARROW;  // the rule for Casts
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "half", "float16[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "a");
  build_int(&f->b, build_node(&f->b, "Cast", "a", "b"), "to", FLOAT);
  build_int(&f->b, build_node(&f->b, "Cast", "half", "c"), "to", FLOAT);
  build_node(&f->b, "Add", "b c", "d");
  build_int(&f->b, build_node(&f->b, "Cast", "d", "e"), "to", FLOAT16);
  build_int(&f->b, build_node(&f->b, "Cast", "e", "g"), "to", FLOAT);
  build_node(&f->b, "MatMul", "g w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  for (const char *const *name = (const char *const[]){"b", "c", "e", "g", NULL}; *name; name++) {
    assert_string_equal(emitted_node(f, *name)->op_type, "Identity");
    assert_int_equal(emitted_node(f, *name)->n_attribute, 0);
    assert_int_equal(emitted_type(f, *name), FLOAT16);
  }
}

static void rewrite_saturates_constants_if_the_policy_says_so(void **state) {
  masked(*state, CONSTANTS_SATURATE, (float[]){1, -65504, INFINITY, -INFINITY});
}

static void rewrite_makes_constants_infinite_if_the_policy_says_so(void **state) {
  masked(*state, CONSTANTS_INFINITY, (float[]){1, -INFINITY, INFINITY, -INFINITY});
}

static void rewrite_takes_many_constants_that_need_copies(void **state) {
  struct planning *f = *state;
  enum { COUNT = 20000 };
  build_input(&f->b, "x", "float[2,2]");
  for (int i = 0; i < COUNT; i++) {
    const char *w = arena_printf(&f->arena, "w%d", i), *y = arena_printf(&f->arena, "y%d", i);
    build_floats(&f->b, w, "float[2,2]", (float[]){1, 2, 3, 4});
    const char *z = arena_printf(&f->arena, "z%d", i);
    build_node(&f->b, "MatMul", arena_printf(&f->arena, "x %s", w), y);
    build_node(&f->b, "Pow", arena_printf(&f->arena, "x %s", w), z);
    build_output(&f->b, y, "float[2,2]");
    build_output(&f->b, z, "float[2,2]");
  }
  planning_index(f);
  size_t before = f->arena.used;
  planning_rewrite(f);
  assert_int_equal(f->changed.proto->graph->n_initializer, 2 * COUNT);
  // 16 bytes a constant: what rewrite needs grows with their number, not with its square.
  assert_true(f->arena.used - before < (size_t)COUNT * 20000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(rewrite_narrows_a_constant_in_place_for_narrow_readers),
      TEST(rewrite_keeps_the_exact_constant_for_a_wide_reader),
      TEST(rewrite_narrows_constant_nodes_in_all_forms),
      TEST(rewrite_copies_a_constant_node_for_a_wide_reader),
      TEST(rewrite_keeps_zero_size_and_rank_0),
      TEST(rewrite_reads_typed_fields_as_raw_data),
      TEST(rewrite_keeps_the_interface_of_an_input_with_a_default),
      TEST(rewrite_narrows_listed_initializers_of_old_models),
      TEST(rewrite_narrows_the_constants_of_subgraphs_and_functions),
      TEST(rewrite_casts_what_a_sparse_initializer_holds),
      TEST(rewrite_writes_types_into_attributes),
      TEST(rewrite_makes_an_identity_of_a_cast_that_has_nothing_to_do),
      TEST(rewrite_saturates_constants_if_the_policy_says_so),
      TEST(rewrite_makes_constants_infinite_if_the_policy_says_so),
      TEST(rewrite_takes_many_constants_that_need_copies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
