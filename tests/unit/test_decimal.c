// decimal: every number looks as printf and strtod make it.
#include "decimal.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_printed(double value) {
  char text[DECIMAL_TEXT], expected[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(expected, sizeof expected, "%.*g", digits, value);
    if (strtod(expected, NULL) == value)
      break;
  }
  decimal_print(text, value);
  assert_string_equal(text, expected);
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static void numbers_of_any_bits_are_printed_as_by_printf(void **state) {
  (void)state;
  uint64_t random = 88172645463325252u;
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = next_random(&random);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value))
      assert_printed(value);
  }
}

// Where one product decides: from 1e-7 to 1e15, and around it.
static void numbers_of_any_magnitude_are_printed_as_by_printf(void **state) {
  (void)state;
  uint64_t random = 1234567;
  for (int i = 0; i < 100000; i++) {
    double value = ldexp((double)(next_random(&random) >> 11), -(int)(random % 100) - 20);
    assert_printed(value);
    assert_printed((double)(float)value);
    assert_printed(1 / value);
  }
}

static void short_numbers_and_their_neighbours_are_printed_as_by_printf(void **state) {
  (void)state;
  char text[40];
  for (int exponent = -40; exponent <= 24; exponent++)
    for (int digits = 1; digits < 1000000; digits = digits * 3 + 7) {
      snprintf(text, sizeof text, "%de%d", digits, exponent);
      double value = strtod(text, NULL);
      assert_printed(value);
      assert_printed(-value);
      assert_printed(nextafter(value, 0));
      assert_printed(nextafter(value, INFINITY));
    }
}

static void powers_and_limits_are_printed_as_by_printf(void **state) {
  (void)state;
  for (int k = -1074; k <= 1023; k++) {
    assert_printed(ldexp(1, k));
    assert_printed(nextafter(ldexp(1, k), 0));
    assert_printed(ldexp(3, k - 1));
  }
  static const double values[] = {0,
                                  -0.0,
                                  1e15,
                                  999999999999999,
                                  999999999999999.9,
                                  99999.99999999999,
                                  9007199254740991,
                                  9007199254740994,
                                  0.0001,
                                  0.00001,
                                  0.000099999999999999991,
                                  0.5,
                                  2.5,
                                  DBL_MAX,
                                  DBL_MIN};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    assert_printed(values[i]);
}

static void values_of_few_digits_are_the_nearest_doubles(void **state) {
  (void)state;
  uint64_t random = 42;
  for (int i = 0; i < 100000; i++) {
    uint64_t digits = next_random(&random) >> (random % 64);
    int exponent = (int)(next_random(&random) % 60) - 30;
    char text[60];
    double value;
    snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, exponent);
    if (decimal_value(digits, exponent, &value))
      assert_true(value == strtod(text, NULL));
    else
      assert_true(digits > (uint64_t)1 << 53 || abs(exponent) > 22);
  }
}

static void integers_have_all_their_digits(void **state) {
  (void)state;
  char text[DECIMAL_TEXT];
  assert_int_equal(decimal_digits(text, 0), 1);
  assert_string_equal(text, "0");
  assert_int_equal(decimal_digits(text, UINT64_MAX), 20);
  assert_string_equal(text, "18446744073709551615");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_any_bits_are_printed_as_by_printf),
      cmocka_unit_test(numbers_of_any_magnitude_are_printed_as_by_printf),
      cmocka_unit_test(short_numbers_and_their_neighbours_are_printed_as_by_printf),
      cmocka_unit_test(powers_and_limits_are_printed_as_by_printf),
      cmocka_unit_test(values_of_few_digits_are_the_nearest_doubles),
      cmocka_unit_test(integers_have_all_their_digits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
