// The scale that each window asks for, what hysteresis keeps of it, and the static scale.
#include "plan_windows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

enum { MOST_WINDOWS = 8 };

static const struct scale_rule rule = {.use = true, .margin = 1, .hysteresis = 2, .max_spread = 16};

static struct scale_track track(const struct scale_rule *r, enum format_id f, int *scales, size_t n,
                                const float *absmax) {
  struct stats_window windows[MOST_WINDOWS] = {{.absmax = 0}};
  for (size_t i = 0; i < n; i++)
    windows[i].absmax = absmax[i];
  struct stats s = {.windows = windows, .n_windows = n};
  return scale_over_windows(&s, f, r, scales);
}

static void the_scale_is_the_largest_power_of_two_that_fits(void **state) {
  (void)state;
  assert_int_equal(scale_of_range(65504, 1, FORMAT_FP16), 0);
  assert_int_equal(scale_of_range(65505, 1, FORMAT_FP16), -1);
  assert_int_equal(scale_of_range(32752, 1, FORMAT_FP16), 1);
  assert_int_equal(scale_of_range(1, 1, FORMAT_FP16), 15);
  assert_int_equal(scale_of_range(1, 2, FORMAT_FP16), 14);
  assert_int_equal(scale_of_range(3, 1, FORMAT_FP8E4M3FN), 7);  // 384 of 448
  assert_int_equal(scale_of_range(1e30, 1, FORMAT_FP16), -84);
  assert_int_equal(scale_of_range(0x1p-149, 1, FORMAT_FP16), SCALE_LOG2_MAX);
}

static void the_scale_is_exact_beside_every_power_of_two(void **state) {
  (void)state;
  for (int f = FORMAT_FP16; f < FORMAT_COUNT; f++)
    for (int e = -40; e <= 40; e++)
      for (int side = -1; side <= 1; side++) {
        double x = ldexp(1 + side * 0x1p-23, e);
        int k = scale_of_range(x, 1, (enum format_id)f);
        if (k > SCALE_LOG2_MIN && k < SCALE_LOG2_MAX) {
          assert_true(ldexp(x, k) <= formats[f].max);
          assert_true(ldexp(x, k + 1) > formats[f].max);
        }
      }
}

static void the_static_scale_is_the_smallest_over_the_windows(void **state) {
  (void)state;
  int scales[4];
  struct scale_track t = track(&rule, FORMAT_FP16, scales, 4, (float[]){1000, 4000, 500, 500});
  assert_true(t.known);
  assert_int_equal(scales[0], 6);
  assert_int_equal(scales[1], 4);
  assert_int_equal(scales[2], 7);
  assert_int_equal(scales[3], 7);
  assert_int_equal(t.scale_log2, 4);
  assert_int_equal(t.highest, 7);
  assert_int_equal(t.moves, 2);
  assert_false(t.unstable);
}

static void hysteresis_keeps_a_scale_unless_it_would_overflow(void **state) {
  (void)state;
  struct scale_rule slow = rule;
  slow.hysteresis = 8;
  int scales[4];
  // Twice smaller: kept. Twice larger than at first: replaced at once. 16 times smaller: replaced.
  struct scale_track t = track(&slow, FORMAT_FP16, scales, 4, (float[]){1000, 500, 2000, 100});
  assert_int_equal(scales[0], 6);
  assert_int_equal(scales[1], 6);
  assert_int_equal(scales[2], 5);
  assert_int_equal(scales[3], 9);
  assert_int_equal(t.moves, 2);
}

static void windows_that_disagree_too_much_are_unstable(void **state) {
  (void)state;
  assert_false(track(&rule, FORMAT_FP16, NULL, 2, (float[]){1, 16}).unstable);
  assert_true(track(&rule, FORMAT_FP16, NULL, 2, (float[]){1, 32}).unstable);
}

static void windows_of_zeros_ask_for_nothing(void **state) {
  (void)state;
  int scales[4];
  struct scale_track t = track(&rule, FORMAT_FP16, scales, 4, (float[]){0, 1, 0, 1});
  assert_int_equal(scales[2], 15);
  assert_int_equal(t.scale_log2, 15);
  assert_int_equal(t.moves, 0);
  assert_false(track(&rule, FORMAT_FP16, NULL, 2, (float[]){0, 0}).known);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_scale_is_the_largest_power_of_two_that_fits),
      cmocka_unit_test(the_scale_is_exact_beside_every_power_of_two),
      cmocka_unit_test(the_static_scale_is_the_smallest_over_the_windows),
      cmocka_unit_test(hysteresis_keeps_a_scale_unless_it_would_overflow),
      cmocka_unit_test(windows_that_disagree_too_much_are_unstable),
      cmocka_unit_test(windows_of_zeros_ask_for_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
