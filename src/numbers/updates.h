// Update-to-ULP statistics of one site where a small quantity u is added into a larger running one,
// a <- a + u: pure arithmetic, no engine, no graph. A format F whose step around a is larger than
// |u| keeps at most one step of the update, and below half a step nothing. With
// d = floor(log2|u|) - floor(log2|a|), |u| < ulp_F(a) exactly when d < -M_F (the mantissa bits of
// F), as long as a is normal in F: so one histogram of d serves every format. Where a is subnormal
// in F its step is larger than assumed, and more is lost than said; the range test counts those.
// Sources: src/README.md ("What is measured").
#ifndef UPDATES_H
#define UPDATES_H

#include "format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Differences d, clamped to -64 .. 63: in every format of up to 52 mantissa bits all of those below
// are lost and all of those above are not. Bin = d + 64.
enum { UPDATES_MIN = -64, UPDATES_MAX = 63, UPDATES_BINS = 128 };

// Narrow accumulators that are simulated beside a sum in fp64.
enum { UPDATES_FP16, UPDATES_BF16, UPDATES_SIMULATED };
enum { UPDATES_SEQUENTIAL, UPDATES_PAIRWISE, UPDATES_ORDERS };
extern const enum format_id updates_simulated[UPDATES_SIMULATED];
extern const char *const updates_order_names[UPDATES_ORDERS];

// Relative error of simulated sums against fp64.
struct updates_error {
  double max, sum;     // over the sums that stayed finite; the mean is sum / sums that did
  uint64_t overflows;  // sums that did not
};

// Counts over some pairs (a, u). pairs = zero_updates + not_finite + zero_accumulators + all bins.
struct updates_piece {
  uint64_t pairs;
  uint64_t zero_updates;       // u is 0: nothing to lose, no update
  uint64_t not_finite;         // a or u is NaN or infinite
  uint64_t zero_accumulators;  // a is 0 and u is not: an update that every format keeps
  uint64_t bins[UPDATES_BINS];
  uint64_t sums;  // simulated, those whose sum in fp64 is 0 or not finite left out
  struct updates_error errors[UPDATES_SIMULATED][UPDATES_ORDERS];
};

struct updates_window {
  uint64_t updates;              // pairs with a finite u that is not 0
  uint64_t below[FORMAT_COUNT];  // of these, r_F < 1
};

struct updates {
  uint64_t runs;
  struct updates_piece total;
  struct updates_window *windows;  // malloc'ed
  size_t n_windows, capacity_windows;
};

void updates_init(struct updates *u);
void updates_free(struct updates *u);

// Adds n pairs. updates_operands: x[k] and y[k], the operands of a residual addition, of which the
// larger is a. updates_onto: u[k] is computed and c[k] a constant, which is never an update: a is
// the larger of both. updates_change: a is before[k], u is after[k] - before[k].
void updates_operands(struct updates_piece *p, const float *x, const float *y, size_t n);
void updates_onto(struct updates_piece *p, const float *u, const float *c, size_t n);
void updates_change(struct updates_piece *p, const float *before, const float *after, size_t n);

// One sum: its terms in order, in as many calls as wanted. Each term but the first is an update of
// the sum so far (in fp64). Beside it run narrow accumulators: sequential ones, which round the sum
// after each term, and pairwise ones, which round each term and each sum of two neighbours, of two
// pairs of neighbours and so on.
enum { UPDATES_LEVELS = 64 };
struct updates_sum {
  uint64_t terms;
  double exact;
  double sequential[UPDATES_SIMULATED];
  double levels[UPDATES_SIMULATED][UPDATES_LEVELS];  // [k]: of 2^k terms, if bit k of `terms` is 1
};
void updates_sum_begin(struct updates_sum *s);
void updates_sum_add(struct updates_sum *s, struct updates_piece *p, const double *terms, size_t n);
// The sum in a simulated format.
double updates_sum_result(const struct updates_sum *s, int simulated, int order);
void updates_sum_end(const struct updates_sum *s, struct updates_piece *p);
// The three in one.
void updates_terms(struct updates_piece *p, const double *terms, size_t n);

// Ends a run of the site in `window` (index): adds its counts.
void updates_end_run(struct updates *u, const struct updates_piece *run, size_t window);

// Updates: pairs with a finite u that is not 0.
uint64_t updates_count(const struct updates_piece *p);
// Those of which format f loses something at once (r_F < 1).
uint64_t updates_below_step(const struct updates_piece *p, enum format_id f);

// What storing a in f loses that fp32 does not: of the updates with r >= 1 in fp32, the share with
// r < 1 in f. The rest is lost in the source model already, as behind a mask of -1e9. The first is
// of one window, the second the largest over all windows.
double updates_window_lost(const struct updates_window *w, enum format_id f);
double updates_worst_window(const struct updates *u, enum format_id f);

#endif
