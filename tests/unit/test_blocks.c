// Blocks along an axis of a tensor: how many there are, their largest magnitudes, products with
// their factors.
#include "blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

static void the_last_block_is_shorter_where_the_size_does_not_divide(void **state) {
  (void)state;
  struct blocks b = blocks_along((int64_t[]){2, 5, 3}, 3, 1, 2);
  assert_int_equal(b.outer, 2);
  assert_int_equal(b.length, 5);
  assert_int_equal(b.inner, 3);
  assert_int_equal(blocks_elements(&b), 30);
  assert_int_equal(blocks_count(&b), 2 * 3 * 3);
  b = blocks_along((int64_t[]){4}, 1, 0, 100);
  assert_int_equal(blocks_count(&b), 1);
}

static void each_block_has_its_own_largest_magnitude(void **state) {
  (void)state;
  float x[] = {1, -2, 3, 4, -5, 6}, absmax[4];  // [3][2], blocks of 2 rows
  struct blocks b = blocks_along((int64_t[]){3, 2}, 2, 0, 2);
  assert_true(blocks_absmax(&b, x, absmax));
  assert_memory_equal(absmax, ((float[]){3, 4, 5, 6}), sizeof absmax);
  b = blocks_along((int64_t[]){2, 3}, 2, 1, 2);
  assert_true(blocks_absmax(&b, x, absmax));
  assert_memory_equal(absmax, ((float[]){2, 3, 5, 6}), sizeof absmax);
}

static void a_value_that_is_not_finite_is_reported(void **state) {
  (void)state;
  float absmax[1];
  struct blocks b = blocks_along((int64_t[]){2}, 1, 0, 2);
  assert_false(blocks_absmax(&b, (float[]){1, NAN}, absmax));
  assert_false(blocks_absmax(&b, (float[]){-INFINITY, 1}, absmax));
}

static void every_element_is_multiplied_by_the_factor_of_its_block(void **state) {
  (void)state;
  float x[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};  // [2][5]
  struct blocks b = blocks_along((int64_t[]){2, 5}, 2, 1, 2);
  blocks_multiply(&b, x, (float[]){1, 2, 4, 8, 16, 32});
  assert_memory_equal(x, ((float[]){1, 1, 2, 2, 4, 8, 8, 16, 16, 32}), sizeof x);
}

// A hostile file may say so: nothing may be looped over, however large the other dims are.
static void a_tensor_without_elements_has_no_blocks(void **state) {
  (void)state;
  const int64_t large = (int64_t)1 << 31;
  for (size_t axis = 0; axis < 3; axis++) {
    struct blocks b = blocks_along((int64_t[]){large, large, 0}, 3, axis, 32);
    assert_int_equal(blocks_count(&b), 0);
    assert_true(blocks_absmax(&b, NULL, NULL));
    blocks_multiply(&b, NULL, NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_block_is_shorter_where_the_size_does_not_divide),
      cmocka_unit_test(each_block_has_its_own_largest_magnitude),
      cmocka_unit_test(a_value_that_is_not_finite_is_reported),
      cmocka_unit_test(every_element_is_multiplied_by_the_factor_of_its_block),
      cmocka_unit_test(a_tensor_without_elements_has_no_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
