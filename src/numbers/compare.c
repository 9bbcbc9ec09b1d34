// Error of a narrow value against its fp32 twin. Sums are in double, in a fixed order: lane by lane
// within a call, piece by piece in the order of the merges, so that they do not depend on threads.
#include "compare.h"

#include "elementary.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 4 };  // partial sums, so that the additions need not wait for each other

#define MAGNITUDE 0x7fffffff
#define INFINITE  0x7f800000

// Vectors of the compilers' own: in plain code they find the lanes of the loop only in part.
typedef float lanes_float __attribute__((vector_size(LANES * 4)));
typedef int32_t lanes_int __attribute__((vector_size(LANES * 4)));
typedef double lanes_double __attribute__((vector_size(LANES * 8)));
typedef int64_t lanes_mask __attribute__((vector_size(LANES * 8)));

void compare_init(struct compare *c) {
  *c = (struct compare){.worst_step = -1, .first_newly_nonfinite_step = -1};
}

// Results lane by lane. The maxima of magnitudes are bit patterns, which are in the order of the
// values. The counts are negative: a true comparison is -1.
struct lanes {
  lanes_double reference, narrow, product, error, max_abs;
  lanes_int max_reference, max_narrow;
  lanes_int reference_nonfinite, narrow_nonfinite, newly_nonfinite;
};

#define INLINE static inline __attribute__((always_inline))

INLINE lanes_int max_int(lanes_int a, lanes_int b) {
  lanes_int greater = a > b;
  return (a & greater) | (b & ~greater);
}

INLINE void lanes_add(struct lanes *l, const float *reference, const float *narrow) {
  lanes_int r, n;
  memcpy(&r, reference, sizeof r);
  memcpy(&n, narrow, sizeof n);
  lanes_int r_finite = (r & MAGNITUDE) < INFINITE, n_finite = (n & MAGNITUDE) < INFINITE;
  l->reference_nonfinite += ~r_finite;
  l->narrow_nonfinite += ~n_finite;
  l->newly_nonfinite += r_finite & ~n_finite;
  r &= r_finite & n_finite;  // a pair that is not finite counts as two zeros
  n &= r_finite & n_finite;
  l->max_reference = max_int(r & MAGNITUDE, l->max_reference);
  l->max_narrow = max_int(n & MAGNITUDE, l->max_narrow);
  lanes_double x = __builtin_convertvector((lanes_float)r, lanes_double);
  lanes_double y = __builtin_convertvector((lanes_float)n, lanes_double);
  lanes_double error = y - x;
  lanes_double abs_error = (lanes_double)((lanes_mask)error & INT64_MAX);
  lanes_mask greater = (lanes_mask)(abs_error > l->max_abs);
  l->max_abs =
      (lanes_double)(((lanes_mask)abs_error & greater) | ((lanes_mask)l->max_abs & ~greater));
  l->reference += x * x;
  l->narrow += y * y;
  l->product += x * y;
  l->error += error * error;
}

static float float_of(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void piece_add_lanes(struct compare_piece *p, const struct lanes *l) {
#define TOTAL(lane) ((lane[0] + lane[1]) + (lane[2] + lane[3]))
  p->sum_reference += TOTAL(l->reference);
  p->sum_narrow += TOTAL(l->narrow);
  p->sum_product += TOTAL(l->product);
  p->sum_error += TOTAL(l->error);
#undef TOTAL
  for (size_t k = 0; k < LANES; k++) {
    p->reference_nonfinite += (uint32_t)-l->reference_nonfinite[k];
    p->narrow_nonfinite += (uint32_t)-l->narrow_nonfinite[k];
    p->newly_nonfinite += (uint32_t)-l->newly_nonfinite[k];
    p->max_abs = fmaxf(p->max_abs, (float)l->max_abs[k]);  // beyond float's range: infinity
    p->max_reference = fmaxf(p->max_reference, float_of(l->max_reference[k]));
    p->max_narrow = fmaxf(p->max_narrow, float_of(l->max_narrow[k]));
  }
}

INLINE struct lanes lanes_of(const float *reference, const float *narrow, size_t n) {
  struct lanes lanes = {0};
  size_t whole = n / LANES * LANES, rest = n - whole;
  for (size_t i = 0; i < whole; i += LANES)
    lanes_add(&lanes, reference + i, narrow + i);
  if (rest) {  // zeros after the last pair change nothing
    float r[LANES] = {0}, last[LANES] = {0};
    memcpy(r, reference + whole, rest * sizeof *r);
    memcpy(last, narrow + whole, rest * sizeof *last);
    lanes_add(&lanes, r, last);
  }
  return lanes;
}

static void compare_plain(struct compare_piece *p, const float *r, const float *n, size_t count) {
  struct lanes lanes = lanes_of(r, n, count);
  piece_add_lanes(p, &lanes);
}

#if defined(__x86_64__)
// AVX2 alone has no fused multiply-add, so the results are those of compare_plain.
__attribute__((target("avx2"))) static void compare_avx2(struct compare_piece *p, const float *r,
                                                         const float *n, size_t count) {
  struct lanes lanes = lanes_of(r, n, count);
  piece_add_lanes(p, &lanes);
}
#endif

static void compare_chunk(struct compare_piece *p, const float *r, const float *n, size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    compare_avx2(p, r, n, count);
    return;
  }
#endif
  compare_plain(p, r, n, count);
}

void compare_pairs(struct compare_piece *p, const float *reference, const float *narrow, size_t n) {
  enum { CHUNK = 1 << 30 };  // what the counts of a lane hold
  p->count += n;
  for (size_t i = 0; i < n; i += CHUNK)
    compare_chunk(p, reference + i, narrow + i, n - i < CHUNK ? n - i : CHUNK);
}

void compare_merge_piece(struct compare_piece *into, const struct compare_piece *p) {
  into->count += p->count;
  into->reference_nonfinite += p->reference_nonfinite;
  into->narrow_nonfinite += p->narrow_nonfinite;
  into->newly_nonfinite += p->newly_nonfinite;
  into->sum_reference += p->sum_reference;
  into->sum_narrow += p->sum_narrow;
  into->sum_product += p->sum_product;
  into->sum_error += p->sum_error;
  into->max_abs = fmaxf(into->max_abs, p->max_abs);
  into->max_reference = fmaxf(into->max_reference, p->max_reference);
  into->max_narrow = fmaxf(into->max_narrow, p->max_narrow);
}

// Index of the largest element, the first of equals; `width` if all are NaN, as a row without a
// largest element agrees only with another such row.
static size_t argmax(const float *x, size_t width) {
  size_t best = width;
  for (size_t i = 0; i < width; i++)
    if (!isnan(x[i]) && (best == width || x[i] > x[best]))
      best = i;
  return best;
}

void compare_rows(struct compare *c, const float *reference, const float *narrow, size_t rows,
                  size_t width) {
  for (size_t row = 0; row < rows; row++) {
    const float *r = reference + row * width, *n = narrow + row * width;
    c->rows++;
    c->rows_agree += argmax(r, width) == argmax(n, width);
  }
}

// A label outside 0..width-1 is of no class, and does not count.
void compare_labels(struct compare *c, const float *reference, const float *narrow, size_t rows,
                    size_t width, const int64_t *labels) {
  for (size_t row = 0; row < rows; row++) {
    if (labels[row] < 0 || (uint64_t)labels[row] >= width)
      continue;
    size_t right = (size_t)labels[row];
    c->labelled++;
    c->reference_right += argmax(reference + row * width, width) == right;
    c->narrow_right += argmax(narrow + row * width, width) == right;
  }
}

static double relative_l2(double sum_error, double sum_reference, uint64_t newly_nonfinite) {
  if (newly_nonfinite)
    return INFINITY;
  if (sum_error == 0)
    return 0;
  return sqrt(sum_error / sum_reference);  // infinity if the reference is all zero
}

void compare_end_run(struct compare *c, const struct compare_piece *total, int64_t step) {
  c->runs++;
  c->count += total->count;
  c->reference_nonfinite += total->reference_nonfinite;
  c->narrow_nonfinite += total->narrow_nonfinite;
  c->newly_nonfinite += total->newly_nonfinite;
  c->sum_reference += total->sum_reference;
  c->sum_narrow += total->sum_narrow;
  c->sum_product += total->sum_product;
  c->sum_error += total->sum_error;
  c->max_abs = fmaxf(c->max_abs, total->max_abs);
  c->max_reference = fmaxf(c->max_reference, total->max_reference);
  c->max_narrow = fmaxf(c->max_narrow, total->max_narrow);
  double error = relative_l2(total->sum_error, total->sum_reference, total->newly_nonfinite);
  if (c->worst_step < 0 || error > c->worst_relative_l2) {
    c->worst_relative_l2 = error;
    c->worst_step = step;
  }
  if (total->newly_nonfinite && c->first_newly_nonfinite_step < 0)
    c->first_newly_nonfinite_step = step;
}

double compare_relative_l2(const struct compare *c) {
  return relative_l2(c->sum_error, c->sum_reference, c->newly_nonfinite);
}

double compare_cosine(const struct compare *c) {
  if (c->newly_nonfinite)
    return 0;
  if (c->sum_reference == 0 && c->sum_narrow == 0)
    return 1;
  if (c->sum_reference == 0 || c->sum_narrow == 0)
    return 0;
  return c->sum_product / (sqrt(c->sum_reference) * sqrt(c->sum_narrow));
}

double compare_sqnr_db(const struct compare *c) {
  if (c->newly_nonfinite)
    return -INFINITY;
  if (c->sum_error == 0)
    return INFINITY;
  return elementary_decibels(c->sum_reference / c->sum_error);
}

double compare_top1(const struct compare *c) {
  return c->rows ? (double)c->rows_agree / (double)c->rows : 1;
}
