// rows: which row of one set is which of another.
#include "rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

enum { MOST = 8 };

// Pairs rows of boxes (two columns) and classes; returns how many have their like.
static size_t pair(const float *boxes, const float *classes, size_t n, const float *narrow_boxes,
                   const float *narrow_classes, size_t narrow_n, size_t partner[MOST]) {
  struct rows_part parts[] = {{boxes, narrow_boxes, 2, false}, {classes, narrow_classes, 1, false}};
  struct rows_set set = {parts, 2, n, narrow_n, 0.1};
  struct arena scratch = {0};
  size_t count = rows_pair(&set, partner, &scratch);
  arena_free(&scratch);
  return count;
}

static const float boxes[] = {10.5f, 20.5f, 50.5f, 60.5f, 90.5f, 30.5f};
static const float classes[] = {1, 2, 3};

static void rows_are_paired_wherever_they_stand(void **state) {
  (void)state;
  size_t partner[MOST];
  const float moved[] = {90.4f, 30.6f, 10.4f, 20.6f, 50.5f, 60.4f};
  assert_int_equal(pair(boxes, classes, 3, moved, (float[]){3, 1, 2}, 3, partner), 3);
  assert_int_equal(partner[0], 1);
  assert_int_equal(partner[1], 2);
  assert_int_equal(partner[2], 0);
}

static void a_row_whose_class_changed_is_alone(void **state) {
  (void)state;
  size_t partner[MOST];
  assert_int_equal(pair(boxes, classes, 3, boxes, (float[]){1, 3, 3}, 3, partner), 2);
  assert_true(partner[1] == ROWS_NONE);
}

static void a_row_beyond_the_tolerance_is_alone(void **state) {
  (void)state;
  size_t partner[MOST];
  // A tenth of the root mean square of the first column, 60.1.
  const float near[] = {16.4f, 20.5f, 50.5f, 60.5f, 90.5f, 30.5f};
  const float far[] = {16.6f, 20.5f, 50.5f, 60.5f, 90.5f, 30.5f};
  assert_int_equal(pair(boxes, classes, 3, near, classes, 3, partner), 3);
  assert_int_equal(pair(boxes, classes, 3, far, classes, 3, partner), 2);
  assert_true(partner[0] == ROWS_NONE);
}

static void rows_appear_and_vanish(void **state) {
  (void)state;
  size_t partner[MOST];
  assert_int_equal(pair(boxes, classes, 3, boxes + 2, classes + 1, 2, partner), 2);
  assert_true(partner[0] == ROWS_NONE && partner[1] == 0 && partner[2] == 1);
  assert_int_equal(pair(boxes, classes, 3, NULL, NULL, 0, partner), 0);
  assert_int_equal(pair(boxes, classes, 0, boxes, classes, 3, partner), 0);
}

// Of two rows that are alike, each takes the nearer, and none is taken twice.
static void the_nearest_row_is_the_partner_and_taken_once(void **state) {
  (void)state;
  size_t partner[MOST];
  const float close[] = {50.5f, 60.5f, 51.5f, 60.5f}, swapped[] = {51.4f, 60.5f, 50.6f, 60.5f};
  const float same[] = {7, 7, 7};
  assert_int_equal(pair(close, same, 2, swapped, same, 2, partner), 2);
  assert_true(partner[0] == 1 && partner[1] == 0);
  assert_int_equal(pair(close, same, 2, swapped, same, 1, partner), 1);
}

static void equal_rows_stay_in_their_places(void **state) {
  (void)state;
  size_t partner[MOST];
  const float same[] = {5.5f, 5.5f, 5.5f, 5.5f, 5.5f, 5.5f};
  assert_int_equal(pair(same, classes, 0, same, classes, 0, partner), 0);
  assert_int_equal(pair(same, same, 3, same, same, 3, partner), 3);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(partner[i], i);
}

static void nan_is_like_nothing(void **state) {
  (void)state;
  size_t partner[MOST];
  const float broken[] = {10.5f, NAN, NAN, 60.5f, 90.5f, 30.5f};
  assert_int_equal(pair(boxes, classes, 3, broken, classes, 3, partner), 1);
  assert_int_equal(pair(broken, classes, 3, broken, classes, 3, partner), 1);
  const float infinite[] = {10.5f, INFINITY, 50.5f, 60.5f, 90.5f, 30.5f};
  assert_int_equal(pair(boxes, classes, 3, infinite, classes, 3, partner), 2);
}

// A pixel more is no other row, but another class is.
static void whole_numbers_that_come_of_rounding_may_be_off_by_one(void **state) {
  (void)state;
  const float pixels[] = {0, 1, 40}, moved[] = {41, 1, 1}, far[] = {43, 0, 2};
  struct rows_part part = {pixels, moved, 1, true};
  struct rows_set set = {&part, 1, 3, 3, 0.01};  // times the root mean square, 23.1
  struct arena scratch = {0};
  size_t partner[MOST];
  assert_int_equal(rows_pair(&set, partner, &scratch), 3);
  assert_int_equal(partner[2], 0);
  part.narrow = far;
  assert_int_equal(rows_pair(&set, partner, &scratch), 2);
  assert_true(partner[2] == ROWS_NONE);
  part = (struct rows_part){pixels, moved, 1, false};
  assert_int_equal(rows_pair(&set, partner, &scratch), 1);
  arena_free(&scratch);
}

// Rows of boxes and classes that are the candidates 4, 2, 7 and 7, 4, 5.
static void rows_of_one_candidate_are_pairs_however_far_they_are_off(void **state) {
  (void)state;
  struct arena scratch = {0};
  size_t partner[MOST];
  bool alike[MOST];
  // Candidate 4 is off by far; 7 has become another class; 5 looks as 2 did.
  const float moved[] = {90.5f, 30.5f, 99.5f, 20.5f, 50.5f, 60.5f}, others[] = {1, 1, 2};
  struct rows_part parts[] = {{boxes, moved, 2, false}, {classes, others, 1, false}};
  struct rows_set set = {parts, 2, 3, 3, 0.1};
  struct rows_keys keys = {(int64_t[]){4, 2, 7}, (int64_t[]){7, 4, 5}, 1};
  assert_int_equal(rows_join(&set, &keys, partner, alike, &scratch), 1);
  assert_true(partner[0] == 1 && partner[1] == ROWS_NONE && partner[2] == 0);
  assert_true(alike[0] && !alike[1] && !alike[2]);
  // Candidates of two numbers each; of two that are the same, the first goes with the first.
  keys = (struct rows_keys){(int64_t[]){0, 1, 0, 2, 0, 1}, (int64_t[]){0, 1, 0, 1, 1, 2}, 2};
  rows_join(&set, &keys, partner, alike, &scratch);
  assert_true(partner[0] == 0 && partner[1] == ROWS_NONE && partner[2] == 1);
  set.n_narrow = 0;
  assert_int_equal(rows_join(&set, &keys, partner, alike, &scratch), 0);
  assert_true(partner[0] == ROWS_NONE);
  arena_free(&scratch);
}

// In reverse order, each row but the first is among those that its own column sorts next to it.
static void many_rows_take_a_moment(void **state) {
  (void)state;
  enum { MANY = 200000 };
  struct arena a = {0};
  float *x = arena_array(&a, MANY, sizeof *x), *y = arena_array(&a, MANY, sizeof *y);
  for (size_t i = 0; i < MANY; i++)
    x[i] = y[MANY - 1 - i] = (float)i + 0.5f;
  struct rows_part part = {x, y, 1, false};
  struct rows_set set = {&part, 1, MANY, MANY, 1e-6};
  size_t *partner = arena_array(&a, MANY, sizeof *partner);
  assert_int_equal(rows_pair(&set, partner, &a), MANY);
  assert_int_equal(partner[0], MANY - 1);
  arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_paired_wherever_they_stand),
      cmocka_unit_test(a_row_whose_class_changed_is_alone),
      cmocka_unit_test(a_row_beyond_the_tolerance_is_alone),
      cmocka_unit_test(rows_appear_and_vanish),
      cmocka_unit_test(the_nearest_row_is_the_partner_and_taken_once),
      cmocka_unit_test(equal_rows_stay_in_their_places),
      cmocka_unit_test(nan_is_like_nothing),
      cmocka_unit_test(whole_numbers_that_come_of_rounding_may_be_off_by_one),
      cmocka_unit_test(rows_of_one_candidate_are_pairs_however_far_they_are_off),
      cmocka_unit_test(many_rows_take_a_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
