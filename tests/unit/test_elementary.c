// elementary: as near to the true value as said, and right where the functions end.
#include "elementary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

static double uniform(uint64_t *seed, double from, double to) {
  *seed = *seed * 6364136223846793005U + 1442695040888963407U;
  return from + (to - from) * (double)(*seed >> 11) * 0x1p-53;
}

// Off by four units in the last place and the half of one that the C library may be.
static void expect_near(double got, double expected, double x) {
  double unit = nextafter(fabs(expected), INFINITY) - fabs(expected);
  if (!(fabs(got - expected) <= 4.5 * unit))
    fail_msg("%a at %a, not %a", got, x, expected);
}

static void exp_is_near_the_true_value(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 200000; i++) {
    double x = uniform(&seed, -745, 709.7), y = uniform(&seed, -1, 1);
    expect_near(elementary_exp(x), exp(x), x);
    expect_near(elementary_exp(y), exp(y), y);
  }
}

static void exp_ends_at_zero_and_infinity(void **state) {
  (void)state;
  assert_true(elementary_exp(0) == 1 && elementary_exp(-0.0) == 1);
  assert_true(elementary_exp(-INFINITY) == 0 && elementary_exp(-1e300) == 0);
  assert_true(elementary_exp(-746) == 0 && elementary_exp(-745.13) == 0x1p-1074);
  assert_true(isinf(elementary_exp(710)) && isinf(elementary_exp(INFINITY)));
  assert_true(isnan(elementary_exp(NAN)));
}

static void decibels_are_near_the_true_value(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 200000; i++) {
    double ratio = ldexp(uniform(&seed, 1, 2), (int)uniform(&seed, -1000, 1000));
    expect_near(elementary_decibels(ratio), 10 * log10(ratio), ratio);
    double near_1 = uniform(&seed, 0.5, 2);
    expect_near(elementary_decibels(near_1), 10 * log10(near_1), near_1);
  }
}

static void decibels_end_at_zero_and_infinity(void **state) {
  (void)state;
  assert_true(elementary_decibels(1) == 0);
  assert_true(elementary_decibels(0) == -INFINITY && isinf(elementary_decibels(INFINITY)));
  assert_true(isnan(elementary_decibels(-1)) && isnan(elementary_decibels(NAN)));
  expect_near(elementary_decibels(0x1p-1074), 10 * log10(0x1p-1074), 0x1p-1074);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exp_is_near_the_true_value),
      cmocka_unit_test(exp_ends_at_zero_and_infinity),
      cmocka_unit_test(decibels_are_near_the_true_value),
      cmocka_unit_test(decibels_end_at_zero_and_infinity),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
