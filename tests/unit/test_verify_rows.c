// verify: rows that a selection chooses are compared with those of the same candidates.
// needs: engine
#include "support_verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The two best of four scores, and what else is known of them. Of the scores, 1 and 1 + 2^-12 are
// one number in fp16.
static void two_best(struct planning *f) {
  build_input(&f->b, "x", "float[4,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1});
  build_floats(&f->b, "boxes", "float[4,1]", (float[]){10.5f, 20.5f, 30.5f, 40.5f});
  build_int64s(&f->b, "last", "int64[1]", (int64_t[]){-1});
  build_int64s(&f->b, "two", "int64[1]", (int64_t[]){2});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Squeeze", "y last", "scores");
  build_node(&f->b, "TopK", "scores two", "best places");
  build_node(&f->b, "Gather", "boxes places", "chosen");
  build_output(&f->b, "best", "float[2]");
  build_output(&f->b, "places", "int64[2]");
  build_output(&f->b, "chosen", "float[2,1]");
  planning_all(f);
}

static void verify_pairs_rows_that_changed_places(void **state) {
  struct planning *f = *state;
  struct claim list[] = {
      {.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.01},
      {.id = "rows", .metric = METRIC_MATCHED_ROWS, .limit = 1, .tolerance = 0.05}};
  claims(f, list, 2);
  two_best(f);
  write_floats(f, "x.npy", "4, 1", (float[]){1, 0.5f, 1 + 0x1p-12f, 0}, 4);
  struct verdict v;
  verify(f, &v);
  assert_true(v.holds && v.n_claims == 5);  // three outputs have rows, and two of them floats
  assert_true(claim_of(&v, "rows")->measured == 1);
  assert_int_equal(v.n_rows, 1);
  const struct row_counts *rows = &v.rows[0].on[SET_HELD_OUT];
  assert_true(v.rows[0].judged && rows->moved == 2 && rows->matched == 2);
  assert_true(compare_relative_l2(&v.outputs[2].on[SET_HELD_OUT]) > 0.5);
  assert_true(compare_relative_l2(&v.outputs[2].paired[SET_HELD_OUT]) == 0);
  // The engine's rows are paired as well.
  compare_in_engine(f, &v, false);
  assert_true(v.engine_samples > 0);
  assert_int_equal(v.rows[0].on[SET_IN_ENGINE].reference, 2);
  for (int i = 0; i < v.n_claims; i++)
    assert_true(v.claims[i].holds_in_engine);

  // What the claim does not name is compared in place.
  static const char *only[] = {"best", NULL};
  list[1].outputs = only;
  verify(f, &v);
  assert_true(!v.holds && v.outputs[2].rows < 0 && v.outputs[0].rows == 0);

  f->policy.n_claims = 1;
  planning_decide(f);
  verify(f, &v);
  assert_false(v.holds);
}

// 1 + 2^-12 and 1, of which one is to be chosen: another is chosen in fp16.
static void verify_counts_rows_that_vanish_and_appear(void **state) {
  struct planning *f = *state;
  struct claim list[] = {
      {.id = "rows", .metric = METRIC_MATCHED_ROWS, .limit = 0.5, .tolerance = 0.05},
      {.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.01},
      {.id = "finite", .metric = METRIC_FINITE}};
  claims(f, list, 3);
  two_best(f);
  write_floats(f, "x.npy", "4, 1", (float[]){1, 2, 1 + 0x1p-12f, 0}, 4);
  struct verdict v;
  verify(f, &v);
  assert_true(claim_of(&v, "rows")->measured == 0.5 && v.holds);
  const struct row_counts *rows = &v.rows[0].on[SET_HELD_OUT];
  assert_true(rows->reference == 2 && rows->narrow == 2 && rows->matched == 1);
  assert_int_equal(rows->first_alone, 1);
  assert_non_null(rows->first_alone_sample);
  list[0].limit = 0.6;
  verify(f, &v);
  assert_false(v.holds);
}

static void verify_asks_for_rows_only_where_values_do_not_hold_in_place(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.01},
                         {.id = "rows", .metric = METRIC_MATCHED_ROWS, .limit = 1, .tolerance = 0}};
  claims(f, list, 2);
  two_best(f);
  write_floats(f, "x.npy", "4, 1", (float[]){1, 2, 0.3f, 0}, 4);
  struct verdict v;
  verify(f, &v);
  assert_true(v.holds && v.n_claims == 2 && !v.rows[0].judged);
}

// The two best of four. In fp16 the weight and the row of candidate 2, both 1 + 2^-11, are 1, so
// that it comes out as 1 and not as 1 + 2^-10: this is what candidate 0 comes out as.
static void two_best_of_rows_that_are_off(struct planning *f, const float scores[4]) {
  static struct claim list[] = {
      {.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 1e-4},
      {.id = "rows", .metric = METRIC_MATCHED_ROWS, .limit = 0.5, .tolerance = 1e-3}};
  claims(f, list, 2);
  build_input(&f->b, "x", "float[4,1]");
  build_input(&f->b, "z", "float[4,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1});
  build_floats(&f->b, "u", "float[1,1]", (float[]){1 + 0x1p-11f});
  build_int64s(&f->b, "last", "int64[1]", (int64_t[]){-1});
  build_int64s(&f->b, "two", "int64[1]", (int64_t[]){2});
  build_int64s(&f->b, "one", "int64[1]", (int64_t[]){1});
  build_int64s(&f->b, "zero", "int64[1]", (int64_t[]){0});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Squeeze", "y last", "scores");
  build_node(&f->b, "TopK", "scores two", "best places");
  build_node(&f->b, "MatMul", "z u", "boxes");
  build_node(&f->b, "Gather", "boxes places", "chosen");
  build_node(&f->b, "Slice", "chosen zero one", "foremost");
  write_floats(f, "x.npy", "4, 1", scores, 4);
  write_floats(f, "z.npy", "4, 1", (float[]){1 + 0x1p-10f, 8, 1 + 0x1p-11f, 8}, 4);
}

// By its values alone the wrong row of candidate 2 would be taken for that of candidate 0.
static void verify_takes_no_other_row_for_a_wrong_one(void **state) {
  struct planning *f = *state;
  two_best_of_rows_that_are_off(f, (float[]){1, 0.5f, 1 + 0x1p-12f, 0});
  build_output(&f->b, "chosen", "float[2,1]");
  planning_all(f);
  struct verdict v;
  verify(f, &v);
  const struct row_counts *rows = &v.rows[0].on[SET_HELD_OUT];
  assert_true(v.rows[0].judged && rows->matched == 2 && rows->moved == 2);
  assert_true(compare_relative_l2(&v.outputs[0].paired[SET_HELD_OUT]) > 7e-4);
  assert_false(v.holds);
}

// Both models choose candidates 2 and 0, in this order.
static void verify_leaves_rows_in_place_where_both_chose_alike(void **state) {
  struct planning *f = *state;
  two_best_of_rows_that_are_off(f, (float[]){1, 0.5f, 2, 0});
  build_output(&f->b, "chosen", "float[2,1]");
  planning_all(f);
  struct verdict v;
  verify(f, &v);
  const struct row_counts *rows = &v.rows[0].on[SET_HELD_OUT];
  assert_true(v.rows[0].judged && rows->matched == 2 && rows->moved == 0 && rows->guessed == 0);
  assert_true(compare_relative_l2(&v.outputs[0].paired[SET_HELD_OUT]) ==
              compare_relative_l2(&v.outputs[0].on[SET_HELD_OUT]));
  assert_false(v.holds);
}

// The first of two rows that change places is another one: of what a Slice leaves, none is in both.
static void verify_counts_rows_of_the_output_that_has_the_fewest_in_both(void **state) {
  struct planning *f = *state;
  two_best_of_rows_that_are_off(f, (float[]){1, 0.5f, 1 + 0x1p-12f, 0});
  build_output(&f->b, "chosen", "float[2,1]");
  build_output(&f->b, "foremost", "float[n,1]");
  planning_all(f);
  struct verdict v;
  verify(f, &v);
  const struct row_counts *rows = &v.rows[0].on[SET_HELD_OUT];
  assert_int_equal(v.n_rows, 1);
  assert_true(rows->reference == 1 && rows->narrow == 1 && rows->matched == 0);
  assert_true(claim_of(&v, "rows")->measured == 0 && claim_of(&v, "rows")->sample[0] != '\0');
}

// What is above 1: nothing in the one model, and in the other one row, or nothing either.
static void verify_takes_outputs_without_a_row(void **state) {
  struct planning *f = *state;
  struct claim list[] = {
      {.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.01},
      {.id = "rows", .metric = METRIC_MATCHED_ROWS, .limit = 1, .tolerance = 0.05}};
  claims(f, list, 2);
  build_input(&f->b, "x", "float[2,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1});
  build_floats(&f->b, "least", "float[]", (float[]){1});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Greater", "y least", "above");
  build_node(&f->b, "NonZero", "above", "places");
  build_node(&f->b, "Transpose", "places", "pairs");
  build_node(&f->b, "GatherND", "y pairs", "chosen");
  build_output(&f->b, "chosen", "float[N]");
  planning_all(f);
  struct verdict v;
  write_floats(f, "a.npy", "2, 1", (float[]){0.5f, 0.25f}, 2);
  verify(f, &v);
  assert_true(v.holds && v.n_claims == 0);
  write_floats(f, "b.npy", "2, 1", (float[]){1 + 0x1p-12f, 0}, 2);
  verify(f, &v);
  assert_true(!v.holds && claim_of(&v, "rows")->measured == 0);
  assert_int_equal(v.outputs[0].on[SET_HELD_OUT].mismatched, 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(verify_pairs_rows_that_changed_places),
      TEST(verify_counts_rows_that_vanish_and_appear),
      TEST(verify_asks_for_rows_only_where_values_do_not_hold_in_place),
      TEST(verify_takes_no_other_row_for_a_wrong_one),
      TEST(verify_leaves_rows_in_place_where_both_chose_alike),
      TEST(verify_counts_rows_of_the_output_that_has_the_fewest_in_both),
      TEST(verify_takes_outputs_without_a_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
