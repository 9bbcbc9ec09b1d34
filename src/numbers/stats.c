// Statistics of one value: accumulation over a tensor, merging, derivation, and what rounding to a
// format would do.
//
// Two passes go over a tensor block by block, while the block is in the cache. The scan takes the
// exact counts and extremes of every element: it works on the integer bit patterns, whose order is
// the order of the values within a sign, so that it is one loop without branches that becomes
// vector code. The sample takes sums and histograms of every k-th element.
#include "stats.h"

#include "arena.h"
#include "elementary.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  BLOCK = 4096,  // elements; with what is done to them well inside a first-level cache
  KEPT = 1024,   // sampled elements summed at a time
  LANES = 4      // partial sums, so that the additions need not wait for each other
};

#define SIGN      0x80000000u
#define MAGNITUDE 0x7fffffffu
#define INFINITE  0x7f800000u

void stats_init(struct stats *s) {
  *s = (struct stats){.first_nonfinite_step = -1};
}

static void free_side(struct stats_side *side) {
  free(side->exponents.counts);
  free(side->significands.counts);
  *side = (struct stats_side){0};
}

void stats_free(struct stats *s) {
  free_side(&s->positive);
  free_side(&s->negative);
  free(s->windows);
  stats_init(s);
}

// ---- Scan: every element ----

// What the scan of a block finds. All are bit patterns or counts; the block has no NaN and no
// infinity if both maxima say so.
struct scan {
  int32_t signed_max;     // the largest positive value, if there is one
  uint32_t unsigned_max;  // the negative value of largest magnitude, if there is a negative one
  uint32_t positive_min;  // smallest positive magnitude minus 1 (zeros wrap to the top)
  uint32_t negative_min;  // smallest negative magnitude minus 1
  uint32_t positives, zeros;
};

static inline uint32_t bits_of(const float *x) {
  uint32_t u;
  memcpy(&u, x, sizeof u);
  return u;
}

static inline float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static inline __attribute__((always_inline)) struct scan scan_loop(const float *x, size_t n) {
  int32_t signed_max = INT32_MIN;
  uint32_t unsigned_max = 0, positive_min = UINT32_MAX, negative_min = UINT32_MAX;
  uint32_t positives = 0, zeros = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t u = bits_of(x + i);
    int32_t s = (int32_t)u;
    uint32_t above_zero = u - 1, below_zero = u + MAGNITUDE;  // the latter is (u ^ SIGN) - 1
    signed_max = s > signed_max ? s : signed_max;
    unsigned_max = u > unsigned_max ? u : unsigned_max;
    positive_min = above_zero < positive_min ? above_zero : positive_min;
    negative_min = below_zero < negative_min ? below_zero : negative_min;
    positives += s > 0;
    zeros += u + u == 0;
  }
  return (struct scan){signed_max, unsigned_max, positive_min, negative_min, positives, zeros};
}

static struct scan scan_plain(const float *x, size_t n) {
  return scan_loop(x, n);
}

// SSE2, the baseline, has no maximum of 32-bit integers. The results are the same, being integers.
// Not target_clones: its resolver runs before a sanitizer is ready.
#if defined(__x86_64__)
__attribute__((target("avx2"))) static struct scan scan_avx2(const float *x, size_t n) {
  return scan_loop(x, n);
}
#endif

static struct scan scan_block(const float *x, size_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return scan_avx2(x, n);
#endif
  return scan_plain(x, n);
}

// Counts NaN and infinities of x[0..n), and copies it with zeros in their place.
static uint32_t set_aside_nonfinite(struct stats_piece *p, const float *x, float *finite,
                                    size_t n) {
  uint32_t nans = 0, positive = 0, negative = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t u = bits_of(x + i), magnitude = u & MAGNITUDE;
    nans += magnitude > INFINITE;
    positive += u == INFINITE;
    negative += u == (INFINITE | SIGN);
    uint32_t kept = magnitude < INFINITE ? u : 0;
    memcpy(finite + i, &kept, sizeof kept);
  }
  p->nans += nans;
  p->positive_infinities += positive;
  p->negative_infinities += negative;
  return nans + positive + negative;
}

static void extend_side(struct stats_piece_side *side, uint64_t count, float max, float min) {
  if (!count)
    return;
  side->min = side->count && side->min < min ? side->min : min;
  side->max = side->count && side->max > max ? side->max : max;
  side->count += count;
}

static void observe_all(struct stats_piece *p, const float *x, size_t n) {
  struct scan scan = scan_block(x, n);
  uint32_t nonfinite = 0;
  if (scan.signed_max >= (int32_t)INFINITE || scan.unsigned_max >= (INFINITE | SIGN)) {
    float finite[BLOCK];
    nonfinite = set_aside_nonfinite(p, x, finite, n);
    scan = scan_block(finite, n);
  }
  uint64_t negatives = n - scan.positives - scan.zeros;
  p->count += n;
  p->zeros += scan.zeros - nonfinite;
  extend_side(&p->positive, scan.positives, float_of((uint32_t)scan.signed_max),
              float_of(scan.positive_min + 1));
  extend_side(&p->negative, negatives, float_of(scan.unsigned_max & MAGNITUDE),
              float_of(scan.negative_min + 1));
}

// ---- Sample: every stride-th element ----

struct sums {
  double positive, negative, positive_squares, negative_squares;
};

// Vectors of the compilers' own: in plain code they find the lanes of this loop only in part.
typedef float lanes_float __attribute__((vector_size(LANES * 4)));
typedef double lanes_double __attribute__((vector_size(LANES * 8)));
typedef int64_t lanes_mask __attribute__((vector_size(LANES * 8)));

// Sums of finite non-zero values by sign; zeros follow up to a multiple of LANES. Lane by lane, so
// that the order of the additions is written here and does not depend on the processor.
static inline __attribute__((always_inline)) struct sums sum_loop(const uint32_t *kept, size_t n) {
  lanes_double positive = {0}, negative = {0}, positive_squares = {0}, negative_squares = {0};
  for (size_t i = 0; i < n; i += LANES) {
    lanes_float values;
    memcpy(&values, kept + i, sizeof values);
    lanes_double x = __builtin_convertvector(values, lanes_double), square = x * x;
    lanes_mask below = (lanes_mask)(x < 0);
    positive += (lanes_double)((lanes_mask)x & ~below);
    negative -= (lanes_double)((lanes_mask)x & below);
    positive_squares += (lanes_double)((lanes_mask)square & ~below);
    negative_squares += (lanes_double)((lanes_mask)square & below);
  }
#define TOTAL(lane) ((lane[0] + lane[1]) + (lane[2] + lane[3]))
  return (struct sums){TOTAL(positive), TOTAL(negative), TOTAL(positive_squares),
                       TOTAL(negative_squares)};
#undef TOTAL
}

static struct sums sum_plain(const uint32_t *kept, size_t n) {
  return sum_loop(kept, n);
}

#if defined(__x86_64__)
// AVX2 alone has no fused multiply-add, so the results are those of sum_plain.
__attribute__((target("avx2"))) static struct sums sum_avx2(const uint32_t *kept, size_t n) {
  return sum_loop(kept, n);
}
#endif

static void sum_kept(struct stats_piece *p, const uint32_t *kept, size_t n) {
#if defined(__x86_64__)
  struct sums sums = __builtin_cpu_supports("avx2") ? sum_avx2(kept, n) : sum_plain(kept, n);
#else
  struct sums sums = sum_plain(kept, n);
#endif
  p->positive.sum += sums.positive;
  p->negative.sum += sums.negative;
  p->positive.sum_squares += sums.positive_squares;
  p->negative.sum_squares += sums.negative_squares;
}

static void count_kept(struct stats_piece *p, const uint32_t *kept, size_t n) {
  struct stats_piece_side *sides[2] = {&p->positive, &p->negative};
  for (size_t i = 0; i < n; i++) {
    struct stats_piece_side *side = sides[kept[i] >> 31];
    uint32_t magnitude = kept[i] & MAGNITUDE;
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    uint32_t index = (magnitude >> 23) + 22;  // of exponent (magnitude >> 23) - 127
    uint32_t used = 24 - (uint32_t)__builtin_ctz(significand);
    if (magnitude < 0x800000) {  // subnormal
      index = 31 - (uint32_t)__builtin_clz(magnitude);
      used = index - (uint32_t)__builtin_ctz(magnitude) + 1;
    }
    side->exponents[index]++;
    side->significands[used]++;
  }
}

// Samples x[first], x[first + stride], ... below n; returns where it would go on, minus n.
static size_t observe_sample(struct stats_piece *p, const float *x, size_t n, size_t stride,
                             size_t first) {
  uint32_t kept[KEPT + LANES];
  while (first < n) {
    size_t taken = (n - first - 1) / stride + 1;
    taken = taken < KEPT ? taken : KEPT;
    size_t n_kept = 0;
    for (size_t i = 0; i < taken; i++) {  // no branch: zeros are often every second element
      uint32_t u = bits_of(x + first + i * stride);
      kept[n_kept] = u;
      n_kept += (u & MAGNITUDE) - 1 < INFINITE - 1;
    }
    memset(kept + n_kept, 0, LANES * sizeof *kept);
    sum_kept(p, kept, n_kept);
    count_kept(p, kept, n_kept);
    p->sampled += taken;
    first += taken * stride;
  }
  return first - n;
}

void stats_observe(struct stats_piece *p, const float *x, size_t n, size_t stride, size_t phase) {
  assert(stride > 0 && phase < stride);
  for (size_t i = 0; i < n; i += BLOCK) {
    size_t size = n - i < BLOCK ? n - i : BLOCK;
    observe_all(p, x + i, size);
    phase = phase < size ? observe_sample(p, x + i, size, stride, phase) : phase - size;
  }
}

size_t stats_stride(size_t n, size_t sample) {
  size_t stride = sample && n > sample ? (n - 1) / sample + 1 : 1;
  for (;; stride++) {
    size_t a = n, b = stride;
    while (b) {
      size_t rest = a % b;
      a = b;
      b = rest;
    }
    if (stride == 1 || a == 1)
      return stride;
  }
}

// ---- Merging ----

static void piece_side_add(struct stats_piece_side *into, const struct stats_piece_side *from) {
  extend_side(into, from->count, from->max, from->min);
  into->sum += from->sum;
  into->sum_squares += from->sum_squares;
  for (size_t i = 0; i < STATS_EXPONENTS; i++)
    into->exponents[i] += from->exponents[i];
  for (size_t i = 0; i < STATS_SIGNIFICANDS; i++)
    into->significands[i] += from->significands[i];
}

void stats_add_piece(struct stats_piece *into, const struct stats_piece *p) {
  into->count += p->count;
  into->zeros += p->zeros;
  into->nans += p->nans;
  into->positive_infinities += p->positive_infinities;
  into->negative_infinities += p->negative_infinities;
  into->sampled += p->sampled;
  piece_side_add(&into->positive, &p->positive);
  piece_side_add(&into->negative, &p->negative);
}

// Makes room for bins first to last.
static void histogram_widen(struct stats_histogram *h, int first, int last) {
  if (h->n && first >= h->first && last < h->first + h->n)
    return;
  struct stats_histogram wider = {.first = h->n && h->first < first ? h->first : first};
  int end = h->n && h->first + h->n > last ? h->first + h->n : last + 1;
  wider.n = end - wider.first;
  wider.counts = calloc((size_t)wider.n, sizeof *wider.counts);
  if (!wider.counts)
    out_of_memory((size_t)wider.n * sizeof *wider.counts);
  if (h->n)
    memcpy(wider.counts + (h->first - wider.first), h->counts, (size_t)h->n * sizeof *h->counts);
  free(h->counts);
  *h = wider;
}

void stats_histogram_add(struct stats_histogram *h, const uint64_t *counts, int first, int n) {
  int last = n - 1, begin = 0;
  while (last >= 0 && !counts[last])
    last--;
  if (last < 0)
    return;
  while (!counts[begin])
    begin++;
  histogram_widen(h, first + begin, first + last);
  for (int i = begin; i <= last; i++)
    h->counts[first + i - h->first] += counts[i];
}

uint64_t stats_histogram_at(const struct stats_histogram *h, int bin) {
  return bin >= h->first && bin < h->first + h->n ? h->counts[bin - h->first] : 0;
}

static float larger(float a, float b) {
  return a > b ? a : b;
}

// The smaller one of those that are not 0, which means "nothing seen".
static float smaller(float a, float b) {
  if (a == 0 || b == 0)
    return larger(a, b);
  return a < b ? a : b;
}

static void side_add(struct stats_side *into, const struct stats_side *from) {
  into->count += from->count;
  into->max = larger(into->max, from->max);
  into->min = smaller(into->min, from->min);
  into->sum += from->sum;
  into->sum_squares += from->sum_squares;
  stats_histogram_add(&into->exponents, from->exponents.counts, from->exponents.first,
                      from->exponents.n);
  stats_histogram_add(&into->significands, from->significands.counts, from->significands.first,
                      from->significands.n);
}

// A piece's side as one of statistics; the histograms stay the piece's.
static struct stats_side side_of_piece(const struct stats_piece_side *p) {
  return (struct stats_side){
      .count = p->count,
      .max = p->max,
      .min = p->min,
      .sum = p->sum,
      .sum_squares = p->sum_squares,
      .exponents = {(uint64_t *)p->exponents, STATS_EXPONENT_MIN, STATS_EXPONENTS},
      .significands = {(uint64_t *)p->significands, 0, STATS_SIGNIFICANDS},
  };
}

static void counts_add(struct stats *into, const struct stats *from) {
  into->count += from->count;
  into->zeros += from->zeros;
  into->nans += from->nans;
  into->positive_infinities += from->positive_infinities;
  into->negative_infinities += from->negative_infinities;
  into->sampled += from->sampled;
  side_add(&into->positive, &from->positive);
  side_add(&into->negative, &from->negative);
}

void stats_merge_piece(struct stats *s, const struct stats_piece *p) {
  const struct stats counts = {
      .count = p->count,
      .zeros = p->zeros,
      .nans = p->nans,
      .positive_infinities = p->positive_infinities,
      .negative_infinities = p->negative_infinities,
      .sampled = p->sampled,
      .positive = side_of_piece(&p->positive),
      .negative = side_of_piece(&p->negative),
  };
  counts_add(s, &counts);
}

static void window_update(struct stats_window *w) {
  w->absmax = larger(w->positive_max, w->negative_max);
  w->absmin = smaller(w->positive_min, w->negative_min);
}

static void window_add(struct stats_window *into, const struct stats_window *from) {
  into->nonfinite += from->nonfinite;
  into->positive_infinities += from->positive_infinities;
  into->negative_infinities += from->negative_infinities;
  into->positive_max = larger(into->positive_max, from->positive_max);
  into->negative_max = larger(into->negative_max, from->negative_max);
  into->positive_min = smaller(into->positive_min, from->positive_min);
  into->negative_min = smaller(into->negative_min, from->negative_min);
  window_update(into);
}

static void windows_reserve(struct stats *s, size_t n) {
  if (n > s->capacity_windows) {
    size_t capacity = n > 2 * s->capacity_windows ? n : 2 * s->capacity_windows;
    struct stats_window *windows = NULL;
    if (capacity <= SIZE_MAX / sizeof *windows)
      windows = realloc(s->windows, capacity * sizeof *windows);
    if (!windows)
      out_of_memory(capacity * sizeof *windows);
    s->windows = windows;
    s->capacity_windows = capacity;
  }
  if (n > s->n_windows) {
    memset(s->windows + s->n_windows, 0, (n - s->n_windows) * sizeof *s->windows);
    s->n_windows = n;
  }
}

void stats_end_run(struct stats *s, const struct stats_piece *total, size_t window, int64_t step) {
  windows_reserve(s, window + 1);
  struct stats_window seen = {
      .nonfinite = total->nans + total->positive_infinities + total->negative_infinities,
      .positive_max = total->positive.max,
      .positive_min = total->positive.min,
      .negative_max = total->negative.max,
      .negative_min = total->negative.min,
      .positive_infinities = total->positive_infinities,
      .negative_infinities = total->negative_infinities,
  };
  window_add(&s->windows[window], &seen);
  if (seen.nonfinite && s->first_nonfinite_step < 0)
    s->first_nonfinite_step = step;
  s->runs++;
}

void stats_merge(struct stats *s, const struct stats *other) {
  counts_add(s, other);
  windows_reserve(s, other->n_windows);
  for (size_t i = 0; i < other->n_windows; i++)
    window_add(&s->windows[i], &other->windows[i]);
  s->runs += other->runs;
  bool earlier =
      s->first_nonfinite_step < 0 ||
      (other->first_nonfinite_step >= 0 && other->first_nonfinite_step < s->first_nonfinite_step);
  if (earlier)
    s->first_nonfinite_step = other->first_nonfinite_step;
}

float stats_absmax(const struct stats *s) {
  return larger(s->positive.max, s->negative.max);
}

float stats_absmin(const struct stats *s) {
  return smaller(s->positive.min, s->negative.min);
}

static uint64_t exponents_at(const struct stats *s, int exponent) {
  return stats_histogram_at(&s->positive.exponents, exponent) +
         stats_histogram_at(&s->negative.exponents, exponent);
}

double stats_magnitude_above(const struct stats *s, double share) {
  uint64_t all = 0, below = 0;
  for (int e = STATS_EXPONENT_MIN; e <= STATS_EXPONENT_MAX; e++)
    all += exponents_at(s, e);
  double smallest = (double)stats_absmin(s);
  for (int e = STATS_EXPONENT_MIN; e <= STATS_EXPONENT_MAX; e++) {
    below += exponents_at(s, e);
    if ((double)below > share * (double)all)
      return fmax(smallest, ldexp(1, e));
  }
  return smallest;
}

// ---- Derivation ----

static void derive_relu(struct stats *s) {
  s->zeros += s->negative.count + s->negative_infinities;
  s->negative_infinities = 0;
  free_side(&s->negative);
  for (size_t i = 0; i < s->n_windows; i++) {
    struct stats_window *w = &s->windows[i];
    w->nonfinite -= w->negative_infinities;
    w->negative_infinities = 0;
    w->negative_max = w->negative_min = 0;
    window_update(w);
  }
  if (s->nans + s->positive_infinities == 0)
    s->first_nonfinite_step = -1;
}

static void derive_negate(struct stats *s) {
  struct stats_side side = s->positive;
  s->positive = s->negative;
  s->negative = side;
  uint64_t infinities = s->positive_infinities;
  s->positive_infinities = s->negative_infinities;
  s->negative_infinities = infinities;
  for (size_t i = 0; i < s->n_windows; i++) {
    struct stats_window *w = &s->windows[i], old = *w;
    w->positive_max = old.negative_max;
    w->positive_min = old.negative_min;
    w->negative_max = old.positive_max;
    w->negative_min = old.positive_min;
    w->positive_infinities = old.negative_infinities;
    w->negative_infinities = old.positive_infinities;
  }
}

static void derive_abs(struct stats *s) {
  side_add(&s->positive, &s->negative);
  free_side(&s->negative);
  s->positive_infinities += s->negative_infinities;
  s->negative_infinities = 0;
  for (size_t i = 0; i < s->n_windows; i++) {
    struct stats_window *w = &s->windows[i];
    w->positive_max = w->absmax;
    w->positive_min = w->absmin;
    w->negative_max = w->negative_min = 0;
    w->positive_infinities += w->negative_infinities;
    w->negative_infinities = 0;
  }
}

void stats_derive(struct stats *out, const struct stats *in, enum stats_derivation how) {
  stats_init(out);
  stats_merge(out, in);
  switch (how) {
  case STATS_SAME: break;
  case STATS_RELU: derive_relu(out); break;
  case STATS_NEGATE: derive_negate(out); break;
  case STATS_ABS: derive_abs(out); break;
  }
}

// ---- Fit: what rounding to a format would do ----

// A format's limits, for magnitudes after scaling.
struct limits {
  const struct format *format;
  double scale;
  double cliff;     // at and below it: zero
  double normal;    // from here on the result is normal
  double overflow;  // from here on: beyond the largest finite value
  bool ftz;
};

// Values spread evenly over [low, high]: the counterpart of one histogram bin, cut to the exact
// extremes of its side, which matter most where all values lie in one or two bins.
struct bin {
  double low, high, count;
};

static struct bin bin_of(const struct stats_side *side, int exponent, double scale) {
  double low = ldexp(1, exponent);
  double high = 2 * low;
  low = low < side->min ? (double)side->min : low;
  high = high > side->max ? (double)side->max : high;
  return (struct bin){low * scale, high * scale,
                      (double)stats_histogram_at(&side->exponents, exponent)};
}

// The fraction of a bin that lies below `limit` (inclusive: at it).
static double share_below(struct bin b, double limit, bool inclusive) {
  if (b.high < limit || (inclusive && b.high == limit))
    return 1;
  if (b.low > limit || (!inclusive && b.low == limit) || b.low == b.high)
    return b.low < limit || (inclusive && b.low == limit);
  return (limit - b.low) / (b.high - b.low);
}

// Mean of (x - a)^2 over x in [low, high].
static double mean_square(double low, double high, double a) {
  double l = low - a, h = high - a;
  return (l * l + l * h + h * h) / 3;
}

// Mean squared error, in steps of 2^step_log2, of rounding values of one binade whose significands
// use as many bits as the side's do. A value whose last bit lies j places below the step misses it
// by an odd multiple of 2^-j: nothing for j <= 0, a tie (1/4) for j = 1, and for more places
// 1/12 - 4^-j / 3, which goes to the 1/12 of an even spread.
static double rounding_noise(const struct stats_side *side, int exponent, int step_log2) {
  const struct stats_histogram *h = &side->significands;
  double noise = 0, total = 0;
  for (int used = h->first; used < h->first + h->n; used++) {
    double count = (double)h->counts[used - h->first];
    int j = step_log2 - (exponent - used + 1);
    total += count;
    if (j > 0)
      noise += count * (j == 1 ? 0.25 : 1.0 / 12 - ldexp(1, -2 * j) / 3);
  }
  return total > 0 ? noise / total : 0;
}

struct fit_sums {
  double count, zero, subnormal, overflow, signal, noise;
};

static void fit_bin(struct fit_sums *sums, const struct stats_side *side, int exponent,
                    const struct limits *l, int scale_log2) {
  const struct format *f = l->format;
  struct bin b = bin_of(side, exponent, l->scale);
  double zero = share_below(b, l->cliff, true);
  double below_normal = share_below(b, l->normal, false);
  double overflow = 1 - share_below(b, l->overflow, false);
  sums->count += b.count;
  sums->zero += b.count * zero;
  if (!l->ftz && below_normal > zero)
    sums->subnormal += b.count * (below_normal - zero);
  sums->overflow += b.count * overflow;
  sums->signal += b.count * mean_square(b.low, b.high, 0);
  if (zero > 0)
    sums->noise += b.count * zero * mean_square(b.low, fmin(b.high, l->cliff), 0);
  if (overflow > 0)
    sums->noise += b.count * overflow * mean_square(fmax(b.low, l->overflow), b.high, f->max);
  exponent += scale_log2;
  int step_log2 = (exponent > f->min_exponent ? exponent : f->min_exponent) - f->mantissa_bits;
  double kept = 1 - zero - overflow;
  if (kept > 0)
    sums->noise +=
        b.count * kept * rounding_noise(side, exponent, step_log2) * ldexp(1, 2 * step_log2);
}

static void fit_side(struct fit_sums *sums, const struct stats_side *side, const struct limits *l,
                     int scale_log2) {
  const struct stats_histogram *h = &side->exponents;
  for (int e = h->first; e < h->first + h->n; e++)
    if (h->counts[e - h->first])
      fit_bin(sums, side, e, l, scale_log2);
}

// A fraction, or that of a single element where the extremes tell of one that the sample missed.
static double at_least_one(double part, double whole, bool one, uint64_t count) {
  double fraction = whole > 0 ? part / whole : 0;
  return one ? fmax(fraction, 1.0 / (double)count) : fraction;
}

struct stats_fit stats_fit(const struct stats *s, enum format_id f, int scale_log2, double margin,
                           bool ftz) {
  const struct format *format = &formats[f];
  double scale = ldexp(1, scale_log2);
  struct limits limits = {.format = format,
                          .scale = scale,
                          .cliff = format_cliff(format, ftz),
                          .normal = format->tiny - format->min_subnormal / 2,
                          .overflow = format_overflow(format),
                          .ftz = ftz};
  struct fit_sums sums = {0};
  fit_side(&sums, &s->positive, &limits, scale_log2);
  fit_side(&sums, &s->negative, &limits, scale_log2);

  uint64_t count = s->positive.count + s->negative.count;
  double absmax = (double)stats_absmax(s) * scale, absmin = (double)stats_absmin(s) * scale;
  bool any_zero = count && absmin <= limits.cliff;
  bool any_overflow = count && absmax >= limits.overflow;
  bool any_subnormal = count && !ftz && absmin > limits.cliff && absmin < limits.normal;
  struct stats_fit fit = {
      .overflows = absmax * margin >= limits.overflow,
      .headroom = absmax > 0 ? format->max / absmax : INFINITY,
      .zero_fraction = at_least_one(sums.zero, sums.count, any_zero, count),
      .subnormal_fraction = at_least_one(sums.subnormal, sums.count, any_subnormal, count),
      .overflow_fraction = at_least_one(sums.overflow, sums.count, any_overflow, count),
      .sqnr_db = INFINITY,
  };
  if (sums.noise > 0)
    fit.sqnr_db = elementary_decibels(sums.signal / sums.noise);
  return fit;
}
