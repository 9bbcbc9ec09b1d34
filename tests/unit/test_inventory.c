// inventory: what is in a model, and what is odd in it.
#include "inventory.h"

#include "support_plan.h"

#include <math.h>
#include <string.h>

static struct inventory take(struct planning *f) {
  struct inventory in;
  planning_index(f);
  if (inventory_take(&in, &f->g, &f->arena, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  return in;
}

static void expect_odd(const struct inventory *in, enum oddity o, int count, const char *example) {
  assert_int_equal(in->odd[o].count, count);
  assert_string_equal(in->odd[o].example, example);
}

static void a_plain_model_has_nothing_odd(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 65504});
  build_node(&f->b, "MatMul", "x w", "h")->name = (char[]){"product"};
  build_node(&f->b, "Relu", "h", "y")->name = (char[]){"relu"};
  build_output(&f->b, "y", "float[1,2]");
  struct inventory in = take(f);
  for (int o = 0; o < ODD_COUNT; o++)
    if (in.odd[o].count)
      fail_msg("%s", oddity_text(&in, (enum oddity)o, &f->arena));
  assert_int_equal(in.n_ops, 2);
  assert_int_equal(in.all_parameters.elements, 4);
  assert_int_equal(in.parameters[ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT].bytes, 16);
  assert_int_equal(in.values[ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT], 4);
}

static void constants_that_fp16_does_not_hold_are_odd(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "large", "float[2]", (float[]){1, -65520});
  build_floats(&f->b, "infinite", "float[2]", (float[]){1, INFINITY});
  build_floats(&f->b, "nan", "float[2]", (float[]){NAN, 1});
  build_node(&f->b, "Sum", "x large infinite nan", "y");
  build_output(&f->b, "y", "float[2]");
  struct inventory in = take(f);
  expect_odd(&in, ODD_OUT_OF_FP16, 1, "large");
  expect_odd(&in, ODD_NOT_FINITE, 2, "infinite");
  assert_string_equal(oddity_text(&in, ODD_NOT_FINITE, &f->arena),
                      "2 constants: with NaN or infinities in it (the first is infinite)");
}

static void what_is_there_for_nothing_is_odd(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_input(&f->b, "idle", "float[2]");
  build_floats(&f->b, "spare", "float[2]", (float[]){1, 2});
  build_node(&f->b, "Relu", "x", "y")->name = (char[]){"relu"};
  build_node(&f->b, "Neg", "x", "nowhere");
  build_opset(&f->b, "com.microsoft", 1);
  build_output(&f->b, "y", "float[2]");
  struct inventory in = take(f);
  expect_odd(&in, ODD_UNUSED_INPUT, 1, "idle");
  expect_odd(&in, ODD_UNUSED_CONSTANT, 1, "spare");
  expect_odd(&in, ODD_UNUSED_NODE, 1, "#1(Neg)");
  expect_odd(&in, ODD_UNNAMED, 1, "#1(Neg)");
  expect_odd(&in, ODD_UNUSED_IMPORT, 1, "com.microsoft");
}

static void functions_are_counted_with_their_calls(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "d", 1);
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "d.F", "x", "h");
  build_node(&f->b, "d.F", "h", "y");
  build_output(&f->b, "y", "float[2]");
  build_function_begin(&f->b, "d", "F", "a", "b", "");
  build_node(&f->b, "Neg", "a", "b");
  build_function_end(&f->b);
  struct inventory in = take(f);
  assert_int_equal(in.n_functions, 1);
  assert_int_equal(in.functions[0].calls, 2);
  assert_int_equal(in.nodes_in_functions, 1);
  assert_string_equal(in.ops[0].op, "F");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_plain_model_has_nothing_odd),
      TEST(constants_that_fp16_does_not_hold_are_odd),
      TEST(what_is_there_for_nothing_is_odd),
      TEST(functions_are_counted_with_their_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
