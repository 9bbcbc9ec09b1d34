// Statistics against a direct evaluation, element by element, and the worked properties of merging,
// derivation and fit.
#include "stats.h"

#include "round.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

enum { N = 20011 };

static uint64_t seed;

static uint32_t random_bits(void) {  // xorshift64*
  seed ^= seed >> 12, seed ^= seed << 25, seed ^= seed >> 27;
  return (uint32_t)((seed * 2685821657736338717u) >> 32);
}

static double uniform(void) {
  return (random_bits() + 0.5) / 4294967296.0;
}

static double normal(void) {
  return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

// Kinds of data that a model holds, or might.
enum kind { NORMAL, RELU, LOG_NORMAL, ANY_BITS, SUBNORMAL, INTEGER, ZERO, MASK, KINDS };

static float value(enum kind kind) {
  float x = 0;
  uint32_t bits = random_bits();
  switch (kind) {
  case NORMAL: return (float)normal();
  case RELU: return fmaxf(0, (float)normal());
  case LOG_NORMAL: return (float)(exp(8 * normal()) * (bits % 2 ? 1 : -1));
  case ANY_BITS: memcpy(&x, &bits, sizeof x); return x;
  case SUBNORMAL:
    bits &= 0x807fffff;
    memcpy(&x, &bits, sizeof x);
    return x;
  case INTEGER: return (float)(int)(bits % 4096) - 100;
  case ZERO: return bits % 2 ? 0.0f : -0.0f;
  case MASK: return bits % 3 ? 0 : -INFINITY;
  case KINDS: break;
  }
  return x;
}

static void fill(float *x, size_t n, enum kind kind) {
  seed = 88172645463325252u + (uint64_t)kind;
  for (size_t i = 0; i < n; i++)
    x[i] = value(kind);
}

// ---- The direct evaluation ----

static void see_side(struct stats_piece_side *side, float magnitude, bool sampled) {
  side->min = side->count && side->min < magnitude ? side->min : magnitude;
  side->max = fmaxf(side->max, magnitude);
  side->count++;
  if (!sampled)
    return;
  side->sum += (double)magnitude;
  side->sum_squares += (double)magnitude * (double)magnitude;
  side->exponents[ilogb((double)magnitude) - STATS_EXPONENT_MIN]++;
  int used = 1;
  for (double m = scalbn((double)magnitude, -ilogb((double)magnitude)); m != floor(m); used++)
    m *= 2;
  side->significands[used]++;
}

static void see(struct stats_piece *p, const float *x, size_t n, size_t stride, size_t phase) {
  for (size_t i = 0; i < n; i++) {
    bool sampled = i % stride == phase;
    p->count++;
    p->sampled += sampled;
    p->nans += isnan(x[i]) != 0;
    p->positive_infinities += x[i] > FLT_MAX;
    p->negative_infinities += x[i] < -FLT_MAX;
    p->zeros += x[i] == 0;
    if (x[i] != 0 && isfinite(x[i]))
      see_side(x[i] > 0 ? &p->positive : &p->negative, fabsf(x[i]), sampled);
  }
}

static void assert_near(double a, double b) {
  if (a == b)
    return;
  if (!(fabs(a - b) <= 1e-12 * fabs(b)))
    fail_msg("%.17g is not near %.17g", a, b);
}

// Of a piece or of statistics.
#define ASSERT_SAME_SIDE(a, b)                                                                     \
  do {                                                                                             \
    assert_int_equal((a)->count, (b)->count);                                                      \
    assert_true((a)->max == (b)->max);                                                             \
    assert_true((a)->min == (b)->min);                                                             \
    assert_near((a)->sum, (b)->sum);                                                               \
    assert_near((a)->sum_squares, (b)->sum_squares);                                               \
  } while (0)

static void assert_same_piece_side(const struct stats_piece_side *a,
                                   const struct stats_piece_side *b) {
  ASSERT_SAME_SIDE(a, b);
  assert_memory_equal(a->exponents, b->exponents, sizeof a->exponents);
  assert_memory_equal(a->significands, b->significands, sizeof a->significands);
}

static void assert_same_histogram(const struct stats_histogram *a,
                                  const struct stats_histogram *b) {
  assert_int_equal(a->n, b->n);
  assert_int_equal(a->first, b->first);
  if (a->n)
    assert_memory_equal(a->counts, b->counts, (size_t)a->n * sizeof *a->counts);
}

static void assert_same_side(const struct stats_side *a, const struct stats_side *b) {
  ASSERT_SAME_SIDE(a, b);
  assert_same_histogram(&a->exponents, &b->exponents);
  assert_same_histogram(&a->significands, &b->significands);
}

#define ASSERT_SAME(a, b, same_side)                                                               \
  do {                                                                                             \
    assert_int_equal((a)->count, (b)->count);                                                      \
    assert_int_equal((a)->zeros, (b)->zeros);                                                      \
    assert_int_equal((a)->nans, (b)->nans);                                                        \
    assert_int_equal((a)->positive_infinities, (b)->positive_infinities);                          \
    assert_int_equal((a)->negative_infinities, (b)->negative_infinities);                          \
    assert_int_equal((a)->sampled, (b)->sampled);                                                  \
    same_side(&(a)->positive, &(b)->positive);                                                     \
    same_side(&(a)->negative, &(b)->negative);                                                     \
  } while (0)

static void assert_same_stats(const struct stats *a, const struct stats *b) {
  ASSERT_SAME(a, b, assert_same_side);
  assert_int_equal(a->runs, b->runs);
  assert_int_equal(a->first_nonfinite_step, b->first_nonfinite_step);
  assert_int_equal(a->n_windows, b->n_windows);
  for (size_t i = 0; i < a->n_windows; i++) {
    const struct stats_window *v = &a->windows[i], *w = &b->windows[i];
    assert_true(v->absmax == w->absmax && v->absmin == w->absmin);
    assert_true(v->positive_max == w->positive_max && v->positive_min == w->positive_min);
    assert_true(v->negative_max == w->negative_max && v->negative_min == w->negative_min);
    assert_int_equal(v->nonfinite, w->nonfinite);
    assert_int_equal(v->positive_infinities, w->positive_infinities);
    assert_int_equal(v->negative_infinities, w->negative_infinities);
  }
}

static void add_run(struct stats *s, const float *x, size_t n, size_t window, int64_t step) {
  struct stats_piece p = {0};
  stats_observe(&p, x, n, 1, 0);
  stats_merge_piece(s, &p);
  stats_end_run(s, &p, window, step);
}

static struct stats stats_of(const float *x, size_t n) {
  struct stats s;
  stats_init(&s);
  add_run(&s, x, n, 0, 0);
  return s;
}

// ---- Tests ----

static void observe_equals_direct_evaluation(void **state) {
  (void)state;
  static float x[N];
  const size_t sizes[] = {0, 1, 2, 3, 7, 31, 4095, 4096, 4097, N};
  const size_t strides[] = {1, 2, 3, 17, 1000, 4096, 30000};
  for (enum kind kind = NORMAL; kind < KINDS; kind++) {
    fill(x, N, kind);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
        size_t phase = strides[k] * 2 / 3;
        struct stats_piece fast = {0}, direct = {0};
        stats_observe(&fast, x, sizes[i], strides[k], phase);
        see(&direct, x, sizes[i], strides[k], phase);
        ASSERT_SAME(&fast, &direct, assert_same_piece_side);
      }
    }
  }
}

static void observe_finds_a_single_special_value_anywhere(void **state) {
  (void)state;
  static float x[5000];
  const float specials[] = {NAN,     -NAN,     INFINITY,  -INFINITY,  -0.0f,
                            FLT_MAX, -FLT_MAX, 0x1p-149f, -0x1p-149f, 0x1p-126f};
  for (size_t k = 0; k < sizeof specials / sizeof *specials; k++) {
    for (size_t at = 0; at < 5000; at += 613) {
      for (size_t i = 0; i < 5000; i++)
        x[i] = i % 2 ? 1.5f : -2.25f;
      x[at] = specials[k];
      struct stats_piece fast = {0}, direct = {0};
      stats_observe(&fast, x, 5000, 7, 3);
      see(&direct, x, 5000, 7, 3);
      ASSERT_SAME(&fast, &direct, assert_same_piece_side);
    }
  }
}

static void stride_has_no_factor_in_common_with_the_size(void **state) {
  (void)state;
  assert_int_equal(stats_stride(0, 100), 1);
  assert_int_equal(stats_stride(100, 100), 1);
  assert_int_equal(stats_stride(1000000, 0), 1);
  assert_int_equal(stats_stride(1 << 20, 1 << 16), 17);
  assert_int_equal(stats_stride(2 * 3 * 5 * 7 * 11 * 13, 30030 / 2), 17);
  for (size_t n = 1; n < 3000; n++) {
    size_t stride = stats_stride(n, 50);
    assert_true((n - 1) / stride + 1 <= 50);
    for (size_t f = 2; f <= stride; f++)
      assert_false(n % f == 0 && stride % f == 0);
  }
}

static void sample_sees_every_channel(void **state) {
  (void)state;
  static float x[64 * 1024];
  for (size_t i = 0; i < 64 * 1024; i++)
    x[i] = ldexpf(1, (int)(i % 64));  // 64 channels, last
  struct stats_piece p = {0};
  stats_observe(&p, x, 64 * 1024, stats_stride(64 * 1024, 1024), 0);
  for (int k = 0; k < 64; k++)
    assert_true(p.positive.exponents[k - STATS_EXPONENT_MIN] > 10);
}

static void merging_is_associative_and_keeps_windows(void **state) {
  (void)state;
  static float x[N];
  fill(x, N, ANY_BITS);
  struct stats whole, parts[3], left, right;
  stats_init(&whole), stats_init(&left), stats_init(&right);
  for (size_t k = 0; k < 3; k++) {
    stats_init(&parts[k]);
    for (size_t run = 0; run < 4; run++) {
      size_t window = 2 * run + k, step = 10 + 4 * k + run, start = 1000 * (4 * k + run);
      add_run(&parts[k], x + start, 1000 - 10 * run, window, (int64_t)step);
      add_run(&whole, x + start, 1000 - 10 * run, window, (int64_t)step);
    }
  }
  stats_merge(&left, &parts[0]), stats_merge(&left, &parts[1]), stats_merge(&left, &parts[2]);
  stats_merge(&right, &parts[1]), stats_merge(&right, &parts[2]), stats_merge(&right, &parts[0]);
  assert_same_stats(&left, &whole);
  assert_same_stats(&right, &whole);
  assert_int_equal(whole.n_windows, 9);
  assert_int_equal(whole.first_nonfinite_step, 10);
  assert_true(stats_absmax(&whole) > 1e38f && stats_absmin(&whole) < 1e-38f);
  for (size_t k = 0; k < 3; k++)
    stats_free(&parts[k]);
  stats_free(&whole), stats_free(&left), stats_free(&right);
}

static void windows_without_a_run_are_empty(void **state) {
  (void)state;
  struct stats s;
  const float x[] = {0, -4, 0.5f};
  stats_init(&s);
  add_run(&s, x, 3, 2, 7);
  add_run(&s, x, 1, 1, 8);
  assert_int_equal(s.n_windows, 3);
  assert_true(s.windows[0].absmax == 0 && s.windows[1].absmax == 0 && s.windows[1].absmin == 0);
  assert_true(s.windows[2].absmax == 4 && s.windows[2].absmin == 0.5f);
  assert_int_equal(s.first_nonfinite_step, -1);
  stats_free(&s);
}

static float derived(float x, enum stats_derivation how) {
  switch (how) {
  case STATS_SAME: return x;
  case STATS_RELU: return x < 0 ? 0 : x;  // NaN stays
  case STATS_NEGATE: return -x;
  case STATS_ABS: return fabsf(x);
  }
  return x;
}

static void derived_equals_observing_the_derived_data(void **state) {
  (void)state;
  static float x[N], y[N];
  for (enum kind kind = NORMAL; kind < KINDS; kind++) {
    fill(x, N, kind);
    struct stats source, direct, result;
    stats_init(&source);
    for (size_t run = 0; run < 4; run++)
      add_run(&source, x + 5000 * run, 5000, run, (int64_t)run);
    for (enum stats_derivation how = STATS_SAME; how <= STATS_ABS; how++) {
      for (size_t i = 0; i < N; i++)
        y[i] = derived(x[i], how);
      stats_init(&direct);
      for (size_t run = 0; run < 4; run++)
        add_run(&direct, y + 5000 * run, 5000, run, (int64_t)run);
      stats_derive(&result, &source, how);
      assert_same_stats(&result, &direct);
      stats_free(&result), stats_free(&direct);
    }
    stats_free(&source);
  }
}

// ---- Fit ----

// What rounding does in truth, for a format and scale.
struct truth {
  double zero, subnormal, overflow, sqnr_db;
};

static struct truth truth_of(const float *x, size_t n, const struct format *f, int scale_log2,
                             bool ftz) {
  double zero = 0, subnormal = 0, overflow = 0, count = 0, signal = 0, noise = 0;
  for (size_t i = 0; i < n; i++) {
    if (x[i] == 0 || !isfinite(x[i]))
      continue;
    double scaled = ldexp((double)x[i], scale_log2);
    double y = round_double(f, scaled, false, ftz);
    bool over = fabs(scaled) >= format_overflow(f);
    if (over)
      y = copysign(f->max, scaled);
    count++;
    zero += y == 0;
    subnormal += y != 0 && fabs(y) < f->tiny;
    overflow += over;
    signal += scaled * scaled;
    noise += (y - scaled) * (y - scaled);
  }
  return (struct truth){zero / count, subnormal / count, overflow / count,
                        noise > 0 ? 10 * log10(signal / noise) : INFINITY};
}

static void fit_is_near_the_truth(void **state) {
  (void)state;
  static float x[N];
  const enum kind kinds[] = {NORMAL, RELU, LOG_NORMAL, INTEGER};
  for (size_t k = 0; k < 4; k++) {
    fill(x, N, kinds[k]);
    struct stats s = stats_of(x, N);
    for (int f = FORMAT_FP32; f < FORMAT_COUNT; f++) {
      for (int scale = -24; scale <= 24; scale += 8) {
        for (int ftz = 0; ftz < 2; ftz++) {
          struct truth t = truth_of(x, N, &formats[f], scale, ftz);
          struct stats_fit fit = stats_fit(&s, (enum format_id)f, scale, 1, ftz);
          assert_true(fabs(fit.zero_fraction - t.zero) < 0.04);
          assert_true(fabs(fit.subnormal_fraction - t.subnormal) < 0.04);
          assert_true(fabs(fit.overflow_fraction - t.overflow) < 0.04);
          assert_int_equal(fit.overflows, t.overflow > 0);
          // What overflow loses is not rounding, and few values make all the signal of LOG_NORMAL.
          if (t.overflow > 0 || kinds[k] == LOG_NORMAL)
            continue;
          bool exact = t.sqnr_db > 1e9 && fit.sqnr_db > 1e9;
          if (!exact && !(fabs(fit.sqnr_db - t.sqnr_db) < 3))
            fail_msg("kind %zu, %s, scale %d, ftz %d: sqnr %g, in truth %g", k, formats[f].name,
                     scale, ftz, fit.sqnr_db, t.sqnr_db);
        }
      }
    }
    stats_free(&s);
  }
}

static struct stats_fit fit_of(float x, enum format_id f, int scale, double margin, bool ftz) {
  struct stats s = stats_of(&x, 1);
  struct stats_fit fit = stats_fit(&s, f, scale, margin, ftz);
  stats_free(&s);
  return fit;
}

static void fit_is_exact_at_the_limits(void **state) {
  (void)state;
  assert_false(fit_of(65519.996f, FORMAT_FP16, 0, 1, false).overflows);
  assert_true(fit_of(65520, FORMAT_FP16, 0, 1, false).overflows);
  assert_true(fit_of(65520, FORMAT_FP16, 0, 1, false).overflow_fraction == 1);
  assert_true(fit_of(40000, FORMAT_FP16, 0, 2, false).overflows);
  assert_true(fit_of(40000, FORMAT_FP16, 0, 2, false).overflow_fraction == 0);
  assert_false(fit_of(464, FORMAT_FP8E4M3FN, 0, 1, false).overflows);
  assert_true(fit_of(464.1f, FORMAT_FP8E4M3FN, 0, 1, false).overflows);
  assert_true(fit_of(0x1p-25f, FORMAT_FP16, 0, 1, false).zero_fraction == 1);
  assert_true(fit_of(0x1.000002p-25f, FORMAT_FP16, 0, 1, false).zero_fraction == 0);
  assert_true(fit_of(0x1.000002p-25f, FORMAT_FP16, 0, 1, false).subnormal_fraction == 1);
  assert_true(fit_of(0x1p-14f, FORMAT_FP16, 0, 1, true).zero_fraction == 0);
  assert_true(fit_of(0x1.ff8p-15f, FORMAT_FP16, 0, 1, true).zero_fraction == 1);
  assert_true(fit_of(0x1.ffep-15f, FORMAT_FP16, 0, 1, true).zero_fraction == 0);  // rounds up
  assert_true(fit_of(1e-8f, FORMAT_FP16, 0, 1, false).zero_fraction == 1);
  assert_true(fit_of(1e-8f, FORMAT_FP16, 16, 1, false).zero_fraction == 0);
  assert_true(fit_of(32, FORMAT_FP16, 0, 1, false).headroom == 2047);
  assert_true(fit_of(FLT_MAX, FORMAT_FP32, 0, 1, false).overflow_fraction == 0);
  assert_true(fit_of(FLT_MAX, FORMAT_FP64, 10, 1, false).overflow_fraction == 0);
}

static void fit_knows_what_is_already_exact(void **state) {
  (void)state;
  static float x[N];
  fill(x, N, INTEGER);
  for (size_t i = 0; i < N; i++)
    x[i] = (float)((int)x[i] / 2);  // below 2048
  struct stats s = stats_of(x, N);
  assert_true(isinf(stats_fit(&s, FORMAT_FP16, 0, 1, false).sqnr_db));
  assert_true(isinf(stats_fit(&s, FORMAT_FP32, 3, 1, false).sqnr_db));
  assert_true(stats_fit(&s, FORMAT_BF16, 0, 1, false).sqnr_db < 100);
  stats_free(&s);
}

static void the_smallest_magnitude_leaves_out_a_share(void **state) {
  (void)state;
  const float x[5] = {-3e-7F, 0.3F, 0.5F, -1, 0};
  struct stats s;
  stats_init(&s);
  add_run(&s, x, 5, 0, 0);
  assert_true(stats_magnitude_above(&s, 0) == (double)3e-7F);
  assert_true(stats_magnitude_above(&s, 0.24) == (double)3e-7F);
  assert_true(stats_magnitude_above(&s, 0.25) == 0.25);  // the binade of 0.3
  assert_true(stats_magnitude_above(&s, 0.75) == 1);
  stats_free(&s);
}

static void fit_of_nothing_is_harmless(void **state) {
  (void)state;
  const float x[] = {0, -0.0f, NAN};
  for (size_t n = 0; n <= 3; n++) {
    struct stats s = stats_of(x, n);
    struct stats_fit fit = stats_fit(&s, FORMAT_FP16, 4, 2, false);
    assert_false(fit.overflows);
    assert_true(isinf(fit.headroom) && isinf(fit.sqnr_db));
    assert_true(fit.zero_fraction == 0 && fit.subnormal_fraction == 0);
    stats_free(&s);
  }
}

// An element that the sample missed still counts, as one.
static void fit_counts_extremes_that_the_sample_missed(void **state) {
  (void)state;
  float x[100];
  for (size_t i = 0; i < 100; i++)
    x[i] = 1;
  x[1] = 1e6f, x[3] = 1e-9f, x[5] = 1e-6f;
  struct stats s;
  struct stats_piece p = {0};
  stats_init(&s);
  stats_observe(&p, x, 100, 2, 0);
  stats_merge_piece(&s, &p);
  stats_end_run(&s, &p, 0, 0);
  struct stats_fit fit = stats_fit(&s, FORMAT_FP16, 0, 1, false);
  assert_true(fit.overflows);
  assert_true(fit.overflow_fraction == 0.01);
  assert_true(fit.zero_fraction == 0.01);
  stats_free(&s);
}

static void histograms_keep_the_bins_that_are_used(void **state) {
  (void)state;
  struct stats_histogram h = {0};
  stats_histogram_add(&h, (const uint64_t[]){0, 0, 0}, 7, 3);
  assert_int_equal(h.n, 0);
  stats_histogram_add(&h, (const uint64_t[]){0, 3, 0, 4, 0}, -5, 5);
  assert_int_equal(h.first, -4);
  assert_int_equal(h.n, 3);
  stats_histogram_add(&h, (const uint64_t[]){1}, -9, 1);
  stats_histogram_add(&h, (const uint64_t[]){1, 2}, -2, 2);
  static const uint64_t expected[] = {0, 1, 0, 0, 0, 0, 3, 0, 5, 2, 0};
  for (int bin = -10; bin <= 0; bin++)
    assert_int_equal(stats_histogram_at(&h, bin), expected[bin + 10]);
  free(h.counts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(histograms_keep_the_bins_that_are_used),
      cmocka_unit_test(observe_equals_direct_evaluation),
      cmocka_unit_test(observe_finds_a_single_special_value_anywhere),
      cmocka_unit_test(stride_has_no_factor_in_common_with_the_size),
      cmocka_unit_test(sample_sees_every_channel),
      cmocka_unit_test(merging_is_associative_and_keeps_windows),
      cmocka_unit_test(windows_without_a_run_are_empty),
      cmocka_unit_test(derived_equals_observing_the_derived_data),
      cmocka_unit_test(fit_is_near_the_truth),
      cmocka_unit_test(fit_is_exact_at_the_limits),
      cmocka_unit_test(fit_knows_what_is_already_exact),
      cmocka_unit_test(the_smallest_magnitude_leaves_out_a_share),
      cmocka_unit_test(fit_of_nothing_is_harmless),
      cmocka_unit_test(fit_counts_extremes_that_the_sample_missed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
