// Statistics of one value over everything that it held during a trace: pure arithmetic, no engine,
// no graph. Positive and negative values are kept apart, so that the statistics of Relu, Clip, Neg
// and Abs follow from those of their input. Sources: README.md here ("What is
// measured").
#ifndef STATS_H
#define STATS_H

#include "format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Exponents floor(log2|x|) of finite non-zero fp32 values: -149 .. 127; index = exponent + 149.
enum { STATS_EXPONENT_MIN = -149, STATS_EXPONENT_MAX = 127, STATS_EXPONENTS = 277 };
enum { STATS_DIMS = 8 };
enum { STATS_SIGNIFICANDS = 25 };  // used significand bits 1..24; index 0 is not used

// Counts by bin: those of bins first to first + n - 1, beyond which all are 0. Values use few of
// the exponents that there are, and a model has many values.
struct stats_histogram {
  uint64_t *counts;  // malloc'ed
  int first, n;
};

// The finite non-zero values of one sign.
struct stats_side {
  uint64_t count;           // exact
  float max, min;           // largest and smallest magnitude, exact; 0 if count is 0
  double sum, sum_squares;  // of magnitudes, over the sampled elements, as are the next two
  struct stats_histogram exponents, significands;  // bins: see above
};

struct stats_window {
  float absmax, absmin;  // of the window's steps; 0 if nothing finite and non-zero was seen
  uint64_t nonfinite;
  // The same by sign, from which the windows of derived values follow.
  float positive_max, positive_min, negative_max, negative_min;
  uint64_t positive_infinities, negative_infinities;
};

struct stats {
  uint64_t runs;   // times the value was produced; 0: never seen
  uint64_t count;  // elements, exact, as are the next four
  uint64_t zeros, nans, positive_infinities, negative_infinities;
  uint64_t sampled;  // elements that the sums and histograms cover; equals count if all
  struct stats_side positive, negative;
  struct stats_window *windows;  // malloc'ed
  size_t n_windows, capacity_windows;
  int64_t first_nonfinite_step;  // step (sample) of the first NaN or infinity, or -1
  // Of the first run, for the cost model: of values that were observed, not of merged and derived
  // ones, and only if there are no more dims than fit.
  bool has_shape;
  int rank;
  int64_t dims[STATS_DIMS];
};

void stats_init(struct stats *s);
void stats_free(struct stats *s);

// Adds the counts of n bins from `first` on.
void stats_histogram_add(struct stats_histogram *h, const uint64_t *counts, int first, int n);
uint64_t stats_histogram_at(const struct stats_histogram *h, int bin);

// A side while it is counted.
struct stats_piece_side {
  uint64_t count;
  float max, min;
  double sum, sum_squares;
  uint64_t exponents[STATS_EXPONENTS], significands[STATS_SIGNIFICANDS];
};

// Partial result over one piece of a tensor; pieces are merged in order, so that sums do not depend
// on how many threads worked.
struct stats_piece {
  uint64_t count, zeros, nans, positive_infinities, negative_infinities, sampled;
  struct stats_piece_side positive, negative;
};

// Adds x[0..n) to the piece: counts and extremes over every element, sums and histograms over every
// `stride`-th (1: all), starting at element `phase` (< stride).
void stats_observe(struct stats_piece *p, const float *x, size_t n, size_t stride, size_t phase);
void stats_add_piece(struct stats_piece *into, const struct stats_piece *p);
void stats_merge_piece(struct stats *s, const struct stats_piece *p);

// The stride for a tensor of n elements of which about `sample` (0: all) are wanted: the smallest
// one that takes no more than `sample` and has no factor in common with n, so that the sample does
// not fall on the same place of every row or channel.
size_t stats_stride(size_t n, size_t sample);

// Ends a run of the value in `window` (index) and `step`; call once per production, after the
// merges. The window's values and the first non-finite step are taken from `total`, the sum of this
// run's pieces.
void stats_end_run(struct stats *s, const struct stats_piece *total, size_t window, int64_t step);

// Adds `other` (of the same value, or of another instance of it) to s, window by window.
void stats_merge(struct stats *s, const struct stats *other);

// Statistics of a value derived from its source's, as if observed itself. Overwrites `out`, which
// then owns its windows. Relu: the first non-finite step is the source's as long as a NaN or +inf
// is left.
enum stats_derivation { STATS_SAME, STATS_RELU, STATS_NEGATE, STATS_ABS };
void stats_derive(struct stats *out, const struct stats *in, enum stats_derivation how);

float stats_absmax(const struct stats *s);
float stats_absmin(const struct stats *s);  // smallest non-zero magnitude
// The smallest magnitude if up to that share of the (sampled) non-zero elements is left out: exact
// if none is, else the lower end of a binade.
double stats_magnitude_above(const struct stats *s, double share);

// What rounding the observed values, scaled by 2^scale_log2, to format f would do. Fractions are of
// the finite non-zero elements (sampled ones); extremes are exact.
struct stats_fit {
  bool overflows;   // absmax * margin * scale rounds beyond the largest finite value
  double headroom;  // largest finite value / (absmax * scale): growth before overflow; inf if 0
  double zero_fraction;       // become zero
  double subnormal_fraction;  // become subnormal (not zero)
  double overflow_fraction;
  double sqnr_db;  // expected signal to quantisation noise: uniform error ulp^2/12 per binade, the
                   // fixed step below tiny, the value itself below the cliff; inf if exact.
                   // Elements that overflow count as saturated: see `overflows` first
};
struct stats_fit stats_fit(const struct stats *s, enum format_id f, int scale_log2, double margin,
                           bool ftz);

#endif
