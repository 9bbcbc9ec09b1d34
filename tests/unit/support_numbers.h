// Numbers that only tests ask for, from what src/numbers keeps.
#ifndef SUPPORT_NUMBERS_H
#define SUPPORT_NUMBERS_H

#include "round.h"
#include "updates.h"

// x rounded to f by the reference.
static inline float rounded_to(const struct format *f, float x, bool saturate, bool ftz) {
  return (float)round_double(f, (double)x, saturate, ftz);
}

// Adds the pairs of a[k] and its update u[k].
static inline void add_pairs(struct updates_piece *p, const float *a, const float *u, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct updates_sum sum;
    updates_sum_begin(&sum);
    updates_sum_add(&sum, p, (double[]){(double)a[i], (double)u[i]}, 2);
  }
}

static inline double share_of_updates(const struct updates *u, uint64_t part) {
  uint64_t whole = updates_count(&u->total);
  return whole ? (double)part / (double)whole : 0;
}

// The share of which f loses something (r_F < 1), and that which it loses wholly (r_F < 1/2).
static inline double lost_fraction(const struct updates *u, enum format_id f) {
  return share_of_updates(u, updates_below_step(&u->total, f));
}

static inline double wholly_lost_fraction(const struct updates *u, enum format_id f) {
  uint64_t count = 0;
  for (int d = UPDATES_MIN; d < -formats[f].mantissa_bits - 1; d++)
    count += u->total.bins[d - UPDATES_MIN];
  return share_of_updates(u, count);
}

// Mean relative error of the simulated sums that stayed finite; 0 without any.
static inline double mean_error(const struct updates_piece *p, int simulated, int order) {
  const struct updates_error *e = &p->errors[simulated][order];
  uint64_t finite = p->sums - e->overflows;
  return finite ? e->sum / (double)finite : 0;
}

#endif
