// plan: the resolution test. Integers carried as floats and arguments of Sin and Cos need a fine
// step, however well their range fits.
#include "support_plan.h"

// y = positions + x * w, with positions cast from int64: nodes of the product's format if the sum
// allows.
static struct planning *positions(void **state) {
  struct planning *f = *state;
  f->policy.keep_integers = true;
  build_input(&f->b, "x", "float[1,2]");
  build_input(&f->b, "ids", "int64[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_int(&f->b, build_node(&f->b, "Cast", "ids", "cast"), "to", 1);
  build_node(&f->b, "Identity", "cast", "moved");
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Add", "h moved", "sum");
  build_node(&f->b, "MatMul", "sum w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  return f;
}

static void plan_keeps_positions_beyond_2048_out_of_fp16(void **state) {
  struct planning *f = positions(state);
  planning_see(f, "cast", (float[]){1, 4095}, 2);
  planning_see(f, "moved", (float[]){1, 4095}, 2);
  planning_decide(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_int_equal(node_format(f, "sum"), FORMAT_FP32);
  assert_string_equal(reason_name(node_reason(f, "sum")), "resolution");
}

static void plan_narrows_positions_that_the_format_holds(void **state) {
  struct planning *f = positions(state);
  planning_see(f, "cast", (float[]){1, 2047}, 2);
  planning_see(f, "moved", (float[]){1, 2047}, 2);
  planning_decide(f);
  assert_int_equal(node_format(f, "sum"), FORMAT_FP16);
}

static void plan_rounds_positions_if_the_policy_says_so(void **state) {
  struct planning *f = positions(state);
  f->policy.keep_integers = false;
  planning_see(f, "moved", (float[]){1, 4095}, 2);
  planning_decide(f);
  assert_int_equal(node_format(f, "sum"), FORMAT_FP16);
}

// What is computed from integers and a fraction is no integer any more.
static void plan_tells_fractions_from_integers(void **state) {
  struct planning *f = *state;
  f->policy.keep_integers = true;
  build_input(&f->b, "x", "float[1,2]");
  build_input(&f->b, "ids", "int64[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "half", "float[]", (float[]){0.5f});
  build_int(&f->b, build_node(&f->b, "Cast", "ids", "cast"), "to", 1);
  build_node(&f->b, "Mul", "cast half", "halves");
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Add", "h halves", "sum");
  build_node(&f->b, "MatMul", "sum w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  planning_see(f, "halves", (float[]){1, 4095.5f}, 2);
  planning_decide(f);
  assert_int_equal(node_format(f, "sum"), FORMAT_FP16);
}

static void angles(struct planning *f, float largest) {
  f->policy.max_angle_step = 0.01;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "angle");
  build_node(&f->b, "Sin", "angle", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  planning_see(f, "angle", (float[]){1, largest}, 2);
  planning_decide(f);
}

static void plan_keeps_large_angles_wide(void **state) {
  struct planning *f = *state;
  angles(f, 100);
  assert_int_equal(node_format(f, "angle"), FORMAT_FP32);
  assert_string_equal(reason_name(node_reason(f, "angle")), "resolution");
}

static void plan_narrows_angles_of_a_period(void **state) {
  struct planning *f = *state;
  angles(f, 6.28f);  // a step of 2^-8
  assert_int_equal(node_format(f, "angle"), FORMAT_FP16);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(plan_keeps_positions_beyond_2048_out_of_fp16),
      TEST(plan_narrows_positions_that_the_format_holds),
      TEST(plan_rounds_positions_if_the_policy_says_so),
      TEST(plan_tells_fractions_from_integers),
      TEST(plan_keeps_large_angles_wide),
      TEST(plan_narrows_angles_of_a_period),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
