// Errors of narrow values against their twins.
#include "compare.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

static struct compare compare_of(const float *reference, const float *narrow, size_t n) {
  struct compare c;
  struct compare_piece p = {0};
  compare_init(&c);
  compare_pairs(&p, reference, narrow, n);
  compare_end_run(&c, &p, 0);
  return c;
}

static bool near(double a, double b) {
  return fabs(a - b) <= 1e-12 * fabs(b);
}

static void pairs_equal_direct_evaluation(void **state) {
  (void)state;
  enum { N = 1003 };
  float r[N], n[N];
  const float specials[] = {NAN, INFINITY, -INFINITY, -0.0f};
  srand(1);
  for (size_t i = 0; i < N; i++) {
    r[i] = (float)(rand() % 2001 - 1000) / 7;
    n[i] = r[i] * 1.001f;
    if (i % 11 == 0)
      r[i] = specials[i / 11 % 4];
    if (i % 13 == 0)
      n[i] = specials[i / 13 % 4];
  }
  for (size_t size = 0; size <= N; size += size < 20 ? 1 : 91) {
    struct compare_piece p = {0}, d = {0};
    compare_pairs(&p, r, n, size);
    for (size_t i = 0; i < size; i++) {
      d.reference_nonfinite += isfinite(r[i]) == 0;
      d.narrow_nonfinite += isfinite(n[i]) == 0;
      d.newly_nonfinite += isfinite(r[i]) && !isfinite(n[i]);
      if (!isfinite(r[i]) || !isfinite(n[i]))
        continue;
      double x = (double)r[i], y = (double)n[i];
      d.sum_reference += x * x, d.sum_narrow += y * y, d.sum_product += x * y;
      d.sum_error += (y - x) * (y - x);
      d.max_abs = fmaxf(d.max_abs, (float)fabs(y - x));
      d.max_reference = fmaxf(d.max_reference, fabsf(r[i]));
      d.max_narrow = fmaxf(d.max_narrow, fabsf(n[i]));
    }
    assert_int_equal(p.count, size);
    assert_int_equal(p.reference_nonfinite, d.reference_nonfinite);
    assert_int_equal(p.narrow_nonfinite, d.narrow_nonfinite);
    assert_int_equal(p.newly_nonfinite, d.newly_nonfinite);
    assert_true(near(p.sum_reference, d.sum_reference) && near(p.sum_narrow, d.sum_narrow));
    assert_true(near(p.sum_product, d.sum_product) && near(p.sum_error, d.sum_error));
    assert_true(p.max_abs == d.max_abs);
    assert_true(p.max_reference == d.max_reference && p.max_narrow == d.max_narrow);
  }
}

static void equal_values_have_no_error(void **state) {
  (void)state;
  const float x[] = {1, -2, 3, 0, FLT_MAX};
  struct compare c = compare_of(x, x, 5);
  assert_true(compare_relative_l2(&c) == 0);
  assert_true(near(compare_cosine(&c), 1));
  assert_true(isinf(compare_sqnr_db(&c)) && compare_sqnr_db(&c) > 0);
  assert_true(compare_top1(&c) == 1);
}

static void zeros_and_nothing_are_no_error(void **state) {
  (void)state;
  const float zero[] = {0, -0.0f}, one[] = {1, 0};
  for (size_t n = 0; n <= 2; n++) {
    struct compare c = compare_of(zero, zero, n);
    assert_true(compare_relative_l2(&c) == 0 && compare_cosine(&c) == 1);
  }
  struct compare c = compare_of(zero, one, 2);
  assert_true(isinf(compare_relative_l2(&c)) && compare_cosine(&c) == 0);
  c = compare_of(one, zero, 2);
  assert_true(compare_relative_l2(&c) == 1 && compare_cosine(&c) == 0);
}

static void metrics_of_a_known_error(void **state) {
  (void)state;
  const float r[] = {3, 4}, n[] = {3, 4.5f};
  struct compare c = compare_of(r, n, 2);
  assert_true(near(compare_relative_l2(&c), 0.1));
  assert_true(near(compare_sqnr_db(&c), 20));
  assert_true(near(compare_cosine(&c), 27 / (5 * sqrt(29.25))));
  assert_true(c.max_abs == 0.5f);
}

static void newly_nonfinite_is_the_worst_of_errors(void **state) {
  (void)state;
  const float r[] = {1, 2}, n[] = {1, INFINITY};
  struct compare c = compare_of(r, n, 2);
  assert_true(isinf(compare_relative_l2(&c)));
  assert_true(compare_sqnr_db(&c) < -1e300 && compare_cosine(&c) == 0);
  assert_int_equal(c.first_newly_nonfinite_step, 0);
  c = compare_of(n, n, 2);  // not newly
  assert_true(compare_relative_l2(&c) == 0);
  assert_int_equal(c.first_newly_nonfinite_step, -1);
  assert_int_equal(c.reference_nonfinite, 1);
}

static void the_worst_run_is_kept(void **state) {
  (void)state;
  const float r[] = {1, 1}, bad[] = {1, 2}, good[] = {1, 1.125f};
  const float *runs[] = {good, bad, good};
  struct compare c;
  compare_init(&c);
  for (int64_t step = 0; step < 3; step++) {
    struct compare_piece p = {0};
    compare_pairs(&p, r, runs[step], 2);
    compare_end_run(&c, &p, 10 + step);
  }
  assert_int_equal(c.runs, 3);
  assert_int_equal(c.count, 6);
  assert_int_equal(c.worst_step, 11);
  assert_true(near(c.worst_relative_l2, sqrt(0.5)));
}

static void merged_pieces_equal_their_whole(void **state) {
  (void)state;
  float r[100], n[100];
  for (int i = 0; i < 100; i++)
    r[i] = (float)i, n[i] = (float)(i + i % 3);
  struct compare_piece whole = {0}, merged = {0};
  compare_pairs(&whole, r, n, 100);
  for (size_t i = 0; i < 100; i += 20) {
    struct compare_piece p = {0};
    compare_pairs(&p, r + i, n + i, 20);
    compare_merge_piece(&merged, &p);
  }
  assert_memory_equal(&whole, &merged, sizeof whole);  // integers: no sum is rounded
}

static void rows_agree_on_the_first_largest(void **state) {
  (void)state;
  const float r[] = {1, 3, 3, /**/ 5, 1, 1, /**/ NAN, 1, 0, /**/ NAN, NAN, NAN};
  const float n[] = {0, 3, 2, /**/ 1, 5, 1, /**/ 0, 2, NAN, /**/ 1, 0, 0};
  struct compare c;
  compare_init(&c);
  compare_rows(&c, r, n, 4, 3);
  assert_int_equal(c.rows, 4);
  assert_int_equal(c.rows_agree, 2);
  assert_true(compare_top1(&c) == 0.5);
}

static void labels_count_for_both(void **state) {
  (void)state;
  const float r[] = {1, 2, 2, 1, 1, 2}, n[] = {1, 2, 1, 2, 1, 2};
  const int64_t labels[] = {1, 0, -7};
  struct compare c;
  compare_init(&c);
  compare_labels(&c, r, n, 3, 2, labels);
  assert_int_equal(c.labelled, 2);  // -7 is of no class
  assert_int_equal(c.reference_right, 2);
  assert_int_equal(c.narrow_right, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs_equal_direct_evaluation),
      cmocka_unit_test(equal_values_have_no_error),
      cmocka_unit_test(zeros_and_nothing_are_no_error),
      cmocka_unit_test(metrics_of_a_known_error),
      cmocka_unit_test(newly_nonfinite_is_the_worst_of_errors),
      cmocka_unit_test(the_worst_run_is_kept),
      cmocka_unit_test(merged_pieces_equal_their_whole),
      cmocka_unit_test(rows_agree_on_the_first_largest),
      cmocka_unit_test(labels_count_for_both),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
