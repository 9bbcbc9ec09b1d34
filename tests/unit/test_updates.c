// Update-to-ULP statistics: which updates a format loses, exactly, for every format; sums in narrow
// accumulators.
#include "updates.h"

#include "round.h"
#include "support_numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

static struct updates of_pair(float a, float u) {
  struct updates s;
  struct updates_piece run = {0};
  updates_init(&s);
  add_pairs(&run, &a, &u, 1);
  updates_end_run(&s, &run, 0);
  return s;
}

static bool is_lost(float a, float u, enum format_id f) {
  struct updates s = of_pair(a, u);
  double fraction = lost_fraction(&s, f);
  updates_free(&s);
  assert_true(fraction == 0 || fraction == 1);
  return fraction == 1;
}

static bool is_wholly_lost(float a, float u, enum format_id f) {
  struct updates s = of_pair(a, u);
  double fraction = wholly_lost_fraction(&s, f);
  updates_free(&s);
  return fraction == 1;
}

// ---- Single updates ----

// The definition, by format_ulp, beside the count of exponent differences.
static void updates_count_below_the_step_exactly(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 20000; i++) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    float a = ldexpf((float)(seed >> 40) / 0x1p24F + 1, (int)(seed >> 32 & 15) - 8);
    float u = ldexpf((float)(seed >> 20 & 0xffff) / 0x1p16F + 1, -(int)(seed >> 12 & 63) / 2);
    u = i % 7 == 0 ? ldexpf(1, -(int)(seed >> 12 & 31)) : u;  // whole powers of two: the bounds
    for (int k = 0; k < FORMAT_COUNT; k++) {
      const struct format *f = &formats[k];
      if ((double)a < f->tiny)
        continue;
      double r = (double)u / format_ulp(f, (double)a);
      assert_int_equal(is_lost(a, u, f->id), r < 1);
      assert_int_equal(is_wholly_lost(a, u, f->id), r < 0.5);
    }
  }
}

static void updates_of_exactly_half_a_step_are_lost_but_not_wholly(void **state) {
  (void)state;
  assert_true(is_lost(1, 0x1p-11F, FORMAT_FP16));
  assert_false(is_wholly_lost(1, 0x1p-11F, FORMAT_FP16));
  assert_true(is_wholly_lost(1, 0x1.fffp-12F, FORMAT_FP16));
  assert_false(is_lost(1, 0x1p-10F, FORMAT_FP16));
}

static void updates_reach_over_the_whole_range_of_fp32(void **state) {
  (void)state;
  assert_true(is_lost(3e38F, 1e-45F, FORMAT_FP32));
  assert_true(is_lost(3e38F, 1e-45F, FORMAT_FP64));
  assert_false(is_lost(1e-45F, 3e38F, FORMAT_FP4E2M1));
  assert_false(is_lost(1e-45F, 1e-45F, FORMAT_FP4E2M1));
}

static void updates_of_zero_and_into_zero_are_counted_apart(void **state) {
  (void)state;
  const float a[] = {1, 0, 0, NAN, 1, INFINITY}, u[] = {0, 0, 1, 1, INFINITY, 1};
  struct updates_piece p = {0};
  add_pairs(&p, a, u, 6);
  assert_int_equal(p.pairs, 6);
  assert_int_equal(p.zero_updates, 2);
  assert_int_equal(p.zero_accumulators, 1);
  assert_int_equal(p.not_finite, 3);
  assert_int_equal(updates_count(&p), 1);
  assert_int_equal(updates_below_step(&p, FORMAT_FP4E2M1), 0);
}

static void updates_take_the_larger_operand_as_the_accumulator(void **state) {
  (void)state;
  const float x[] = {1000, 0.1F, -1000}, y[] = {0.1F, 1000, 0.1F};
  struct updates_piece p = {0};
  updates_operands(&p, x, y, 3);
  assert_int_equal(p.bins[-4 - 9 - UPDATES_MIN], 3);
}

static void updates_of_a_change_are_what_is_added(void **state) {
  (void)state;
  const float before[] = {64, 64, 0, 1}, after[] = {64.0078125F, 64, 1, 3};
  struct updates_piece p = {0};
  updates_change(&p, before, after, 4);
  assert_int_equal(p.bins[-7 - 6 - UPDATES_MIN], 1);
  assert_int_equal(p.zero_updates, 1);
  assert_int_equal(p.zero_accumulators, 1);
  assert_int_equal(p.bins[1 - UPDATES_MIN], 1);
}

// ---- Sums ----

// Against the plain rounding of round.h, term by term.
static void updates_sum_rounds_as_round_double(void **state) {
  (void)state;
  enum { TERMS = 3000 };
  double terms[TERMS], sequential[UPDATES_SIMULATED] = {0};
  uint64_t seed = 7;
  for (int scale = -40; scale <= 14; scale += 2) {
    for (int i = 0; i < TERMS; i++) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      terms[i] = ldexp((double)(int64_t)seed / 0x1p63, scale - (int)(seed >> 30 & 7));
    }
    struct updates_sum s;
    struct updates_piece p = {0};
    updates_sum_begin(&s);
    memset(sequential, 0, sizeof sequential);
    for (int i = 0; i < TERMS; i++) {
      updates_sum_add(&s, &p, &terms[i], 1);
      for (int k = 0; k < UPDATES_SIMULATED; k++) {
        sequential[k] =
            round_double(&formats[updates_simulated[k]], sequential[k] + terms[i], false, false);
        assert_true(sequential[k] == updates_sum_result(&s, k, UPDATES_SEQUENTIAL));
      }
    }
  }
}

static void updates_pairwise_sum_is_that_of_a_tree(void **state) {
  (void)state;
  // bf16, 3 significant steps apart: ((256 + 1) + (1 + 1)) = 256 -> tie to even + 2 = 258.
  const double terms[] = {256, 1, 1, 1, 1};
  struct updates_sum s;
  struct updates_piece p = {0};
  updates_sum_begin(&s);
  updates_sum_add(&s, &p, terms, 4);
  assert_true(updates_sum_result(&s, UPDATES_BF16, UPDATES_PAIRWISE) == 258);
  assert_true(updates_sum_result(&s, UPDATES_BF16, UPDATES_SEQUENTIAL) == 256);
  updates_sum_add(&s, &p, terms + 4, 1);
  assert_true(updates_sum_result(&s, UPDATES_BF16, UPDATES_PAIRWISE) == 260);  // 259: a tie
  assert_true(updates_sum_result(&s, UPDATES_FP16, UPDATES_PAIRWISE) == 260);
}

static void updates_sum_that_overflows_is_counted_apart(void **state) {
  (void)state;
  const double terms[] = {40000, 40000, 1}, infinite[] = {1, INFINITY}, none[] = {1, -1};
  struct updates_piece p = {0};
  updates_terms(&p, terms, 3);
  assert_int_equal(p.sums, 1);
  assert_int_equal(p.errors[UPDATES_FP16][UPDATES_SEQUENTIAL].overflows, 1);
  assert_int_equal(p.errors[UPDATES_BF16][UPDATES_SEQUENTIAL].overflows, 0);
  assert_true(mean_error(&p, UPDATES_FP16, UPDATES_SEQUENTIAL) == 0);
  updates_terms(&p, infinite, 2);
  updates_terms(&p, none, 2);
  updates_terms(&p, none, 0);
  assert_int_equal(p.sums, 1);
}

// ---- Windows ----

static void updates_windows_judge_each_alone_and_leave_out_what_fp32_loses(void **state) {
  (void)state;
  struct updates s;
  updates_init(&s);
  const float a[] = {1, 1, 1, 1}, quiet[] = {1, 1, 1, 1};
  const float loud[] = {1e-5F, 1e-5F, 1e-5F, 0.5F}, mask[] = {1e-10F, 1e-10F, 1e-10F, 0.5F};
  const float *windows[] = {quiet, loud, mask};
  for (size_t w = 0; w < 3; w++) {
    struct updates_piece run = {0};
    add_pairs(&run, a, windows[w], 4);
    updates_end_run(&s, &run, w);
  }
  assert_int_equal(s.runs, 3);
  assert_int_equal(s.n_windows, 3);
  assert_true(updates_window_lost(&s.windows[0], FORMAT_FP16) == 0);
  assert_true(updates_window_lost(&s.windows[1], FORMAT_FP16) == 0.75);
  assert_true(updates_window_lost(&s.windows[2], FORMAT_FP16) == 0);
  assert_true(updates_worst_window(&s, FORMAT_FP16) == 0.75);
  assert_true(updates_worst_window(&s, FORMAT_FP32) == 0);
  assert_true(lost_fraction(&s, FORMAT_FP16) == 0.5);
  assert_true(lost_fraction(&s, FORMAT_FP32) == 0.25);
  updates_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(updates_count_below_the_step_exactly),
      cmocka_unit_test(updates_of_exactly_half_a_step_are_lost_but_not_wholly),
      cmocka_unit_test(updates_reach_over_the_whole_range_of_fp32),
      cmocka_unit_test(updates_of_zero_and_into_zero_are_counted_apart),
      cmocka_unit_test(updates_take_the_larger_operand_as_the_accumulator),
      cmocka_unit_test(updates_of_a_change_are_what_is_added),
      cmocka_unit_test(updates_sum_rounds_as_round_double),
      cmocka_unit_test(updates_pairwise_sum_is_that_of_a_tree),
      cmocka_unit_test(updates_sum_that_overflows_is_counted_apart),
      cmocka_unit_test(updates_windows_judge_each_alone_and_leave_out_what_fp32_loses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
