// Error of a narrow value against its fp32 twin, accumulated over runs: pure arithmetic, no engine.
#ifndef COMPARE_H
#define COMPARE_H

#include <stddef.h>
#include <stdint.h>

// Accumulates over all elements of all runs. Sums are over pairs in which both are finite.
struct compare {
  uint64_t runs, count;                            // count: pairs of elements
  uint64_t reference_nonfinite, narrow_nonfinite;  // NaN or infinity
  uint64_t newly_nonfinite;                        // narrow not finite where the reference is
  uint64_t mismatched;  // runs whose two shapes differ (data-dependent sizes)
  double sum_reference, sum_narrow, sum_product, sum_error;  // of r*r, n*n, r*n, (n-r)*(n-r)
  float max_abs, max_reference, max_narrow;                  // of |n-r|, |r|, |n|
  uint64_t rows, rows_agree;  // top-1: rows along the last axis, and those with the same argmax
  uint64_t labelled, reference_right, narrow_right;  // top-1 against labels, where there are any
  double worst_relative_l2;                          // of one run; and its step
  int64_t worst_step;
  int64_t first_newly_nonfinite_step;  // or -1
};

void compare_init(struct compare *c);

struct compare_piece {
  uint64_t count, reference_nonfinite, narrow_nonfinite, newly_nonfinite;
  double sum_reference, sum_narrow, sum_product, sum_error;
  float max_abs, max_reference, max_narrow;
};

// Adds n pairs to a piece; pieces are merged in order, whatever the threads.
void compare_pairs(struct compare_piece *p, const float *reference, const float *narrow, size_t n);
void compare_merge_piece(struct compare_piece *into, const struct compare_piece *p);

// Top-1 over `rows` rows of `width` elements.
void compare_rows(struct compare *c, const float *reference, const float *narrow, size_t rows,
                  size_t width);
// Top-1 against labels[rows], of which those outside 0..width-1 do not count.
void compare_labels(struct compare *c, const float *reference, const float *narrow, size_t rows,
                    size_t width, const int64_t *labels);

// Adds one run's total; `step` is the sample's index.
void compare_end_run(struct compare *c, const struct compare_piece *total, int64_t step);

double compare_relative_l2(const struct compare *c);  // ||n-r|| / ||r||; inf if newly non-finite
double compare_cosine(const struct compare *c);       // 1 if both are zero, 0 if newly non-finite
double compare_sqnr_db(const struct compare *c);      // inf if exact, -inf if newly non-finite
double compare_top1(const struct compare *c);         // share of rows that agree; 1 without rows

#endif
