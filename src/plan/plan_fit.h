// The tests of single values against single formats: the range test for values that a trace has
// seen, the constants test for initializers and Constant nodes. Part of the planner.
#ifndef PLAN_FIT_H
#define PLAN_FIT_H

#include "plan.h"
#include "plan_resolution.h"
#include "plan_step.h"

struct fits {
  struct graph *graph;
  const struct trace *trace;  // NULL: none
  const struct policy *policy;
  const struct promotions *promotions;  // NULL: none
  struct steps steps;
  struct resolution resolution;
  bool *weighs;  // by value: probabilities that only matrix products read (plan_fit.c)
  struct arena *arena;
  struct fit **known;  // per value: n_ladder results, or NULL while none was asked for
  bool *tested;        // [value * n_ladder + rung]
};

void fits_init(struct fits *f, struct graph *g, const struct trace *t, const struct policy *policy,
               const struct promotions *promotions, struct arena *a);

// Test of value v (an fp32 tensor) against rung r of the policy's ladder, computed once. The last
// rung, fp32, always passes. Errors: STATUS_MODEL if a constant cannot be read.
enum status fits_test(struct fits *f, int v, int r, const struct fit **result, struct diag *d);

// The same for v stored times 2^scale_log2; not remembered.
enum status fits_test_scaled(struct fits *f, int v, int r, int scale_log2, struct fit *result,
                             struct diag *d);

// The scale that v needs in rung r: 0 if it passes as it is, or if it passes at no scale, the
// policy uses none, or its windows disagree.
enum status fits_scale(struct fits *f, int v, int r, int *scale_log2, struct diag *d);

#endif
