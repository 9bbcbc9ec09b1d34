// Error of a narrow value against its fp32 twin. Sums are in double, in a fixed order: lane by lane
// within a call, piece by piece in the order of the merges, so that they do not depend on threads.
#include "compare.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 4 };  // partial sums, so that the additions need not wait for each other

#define MAGNITUDE 0x7fffffffu
#define INFINITE  0x7f800000u

void compare_init(struct compare *c) {
  *c = (struct compare){.worst_step = -1, .first_newly_nonfinite_step = -1};
}

// Sums over one lane; counts are of one call. The maxima are bit patterns of magnitudes, which are
// in the order of the values.
struct lane {
  double reference[LANES], narrow[LANES], product[LANES], error[LANES];
  double max_abs[LANES];
  uint32_t max_reference[LANES], max_narrow[LANES];
  uint32_t reference_nonfinite[LANES], narrow_nonfinite[LANES], newly_nonfinite[LANES];
};

static inline uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

// Without a branch: all is arithmetic on bit patterns and masks.
static inline void lane_add(struct lane *l, size_t k, float reference, float narrow) {
  uint32_t r = bits_of(reference), n = bits_of(narrow);
  uint32_t r_finite = (r & MAGNITUDE) < INFINITE, n_finite = (n & MAGNITUDE) < INFINITE;
  l->reference_nonfinite[k] += 1 - r_finite;
  l->narrow_nonfinite[k] += 1 - n_finite;
  l->newly_nonfinite[k] += r_finite & (1 - n_finite);
  uint32_t used = 0 - (r_finite & n_finite);  // a pair that is not finite counts as two zeros
  r &= used;
  n &= used;
  double x = (double)float_of(r), y = (double)float_of(n), error = y - x;
  l->reference[k] += x * x;
  l->narrow[k] += y * y;
  l->product[k] += x * y;
  l->error[k] += error * error;
  l->max_abs[k] = fabs(error) > l->max_abs[k] ? fabs(error) : l->max_abs[k];
  r &= MAGNITUDE;
  n &= MAGNITUDE;
  l->max_reference[k] = r > l->max_reference[k] ? r : l->max_reference[k];
  l->max_narrow[k] = n > l->max_narrow[k] ? n : l->max_narrow[k];
}

static void piece_add_lanes(struct compare_piece *p, const struct lane *l) {
#define TOTAL(lane) ((lane[0] + lane[1]) + (lane[2] + lane[3]))
  p->sum_reference += TOTAL(l->reference);
  p->sum_narrow += TOTAL(l->narrow);
  p->sum_product += TOTAL(l->product);
  p->sum_error += TOTAL(l->error);
#undef TOTAL
  for (size_t k = 0; k < LANES; k++) {
    p->reference_nonfinite += l->reference_nonfinite[k];
    p->narrow_nonfinite += l->narrow_nonfinite[k];
    p->newly_nonfinite += l->newly_nonfinite[k];
    p->max_abs = fmaxf(p->max_abs, (float)l->max_abs[k]);
    p->max_reference = fmaxf(p->max_reference, float_of(l->max_reference[k]));
    p->max_narrow = fmaxf(p->max_narrow, float_of(l->max_narrow[k]));
  }
}

void compare_pairs(struct compare_piece *p, const float *reference, const float *narrow, size_t n) {
  enum { CHUNK = 1 << 30 };  // what the counts of a lane hold
  p->count += n;
  for (size_t start = 0; start < n; start += CHUNK) {
    size_t end = n - start < CHUNK ? n : start + CHUNK;
    struct lane lane = {0};
    size_t i = start;
    for (; end - i >= LANES; i += LANES)
      for (size_t k = 0; k < LANES; k++)
        lane_add(&lane, k, reference[i + k], narrow[i + k]);
    for (size_t k = 0; i < end; i++, k++)
      lane_add(&lane, k, reference[i], narrow[i]);
    piece_add_lanes(p, &lane);
  }
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

// A label outside 0..width-1 counts as missed by both.
void compare_labels(struct compare *c, const float *reference, const float *narrow, size_t rows,
                    size_t width, const int64_t *labels) {
  for (size_t row = 0; row < rows; row++) {
    size_t r = argmax(reference + row * width, width), n = argmax(narrow + row * width, width);
    bool valid = labels[row] >= 0 && (uint64_t)labels[row] < width;
    c->labelled++;
    c->reference_right += valid && r == (size_t)labels[row];
    c->narrow_right += valid && n == (size_t)labels[row];
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
  return 10 * log10(c->sum_reference / c->sum_error);
}

double compare_top1(const struct compare *c) {
  return c->rows ? (double)c->rows_agree / (double)c->rows : 1;
}
