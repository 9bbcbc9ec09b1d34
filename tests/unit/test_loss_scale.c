// loss_scale: exact at powers of two; a dynamic scale moves alike in one call or in many.
#include "loss_scale.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
// cmocka.h needs those above.
#include <cmocka.h>

static void a_power_of_two_reaches_itself(void **state) {
  (void)state;
  for (int e = -140; e <= 120; e++) {
    assert_int_equal(loss_scale_to_reach(ldexp(1, e), 1), -e);
    assert_int_equal(loss_scale_to_reach(nextafter(ldexp(1, e), 0), 1), -e + 1);
    assert_int_equal(loss_scale_to_reach(ldexp(1, e), nextafter(1, 2)), -e + 1);
  }
}

static void the_range_ends_where_the_format_does(void **state) {
  (void)state;
  struct loss_scale_range r = loss_scale_range(0x1p-20, 65504, FORMAT_FP16);
  assert_int_equal(r.first, 6);  // 2^-14 is normal
  assert_int_equal(r.last, 0);
  assert_int_equal(loss_scale_range(1, nextafter(65504, 1e5), FORMAT_FP16).last, -1);
  r = loss_scale_range(1e-30, 1, FORMAT_BF16);
  assert_true(r.first <= 0 && r.last >= 0);
}

// Whatever becomes of the steps, they become it one by one as well.
static void many_steps_at_once_are_as_many_single_ones(void **state) {
  (void)state;
  srand(1);
  for (int trial = 0; trial < 2000; trial++) {
    struct loss_scaler many = {.scale_log2 = rand() % 30, .interval = 1 + (uint64_t)rand() % 7};
    struct loss_scaler single = many;
    for (int window = 0; window < 4; window++) {
      double gmax = trial % 3 == 0 ? 0 : ldexp(1 + rand() % 100, rand() % 40 - 30);
      uint64_t n = (uint64_t)rand() % 200, skipped = 0;
      for (uint64_t i = 0; i < n; i++)
        skipped += loss_scaler_steps(&single, gmax, 1, FORMAT_FP16);
      assert_int_equal(loss_scaler_steps(&many, gmax, n, FORMAT_FP16), skipped);
      assert_int_equal(many.scale_log2, single.scale_log2);
      if (single.scale_log2 < LOSS_SCALE_MAX)
        assert_int_equal(many.clean, single.clean);
    }
  }
}

static void the_time_does_not_depend_on_the_steps(void **state) {
  (void)state;
  struct loss_scaler s = {.scale_log2 = 126, .interval = 1};
  uint64_t skipped = loss_scaler_steps(&s, 1e30, UINT64_MAX / 2, FORMAT_FP16);
  assert_true(skipped > UINT64_MAX / 5);
  s = (struct loss_scaler){.scale_log2 = 0, .interval = 1};
  assert_int_equal(loss_scaler_steps(&s, 0, UINT64_MAX / 2, FORMAT_FP16), 0);
  assert_int_equal(s.scale_log2, LOSS_SCALE_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_power_of_two_reaches_itself),
      cmocka_unit_test(the_range_ends_where_the_format_does),
      cmocka_unit_test(many_steps_at_once_are_as_many_single_ones),
      cmocka_unit_test(the_time_does_not_depend_on_the_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
