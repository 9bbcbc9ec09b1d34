// The Step rule: a value that accumulates small updates may not be stored in a format whose step
// swallows them. Part of the planner; which sites count is the policy's ("updates"). See README.md
// here
// ("The rule", point 4).
#ifndef PLAN_STEP_H
#define PLAN_STEP_H

#include "plan.h"

struct steps {
  const struct trace *trace;
  double limit;       // policy's max_lost_fraction; 0: the rule is off
  int *first, *next;  // first site of each value, next site of the same value; -1: none
};

// `t` may be NULL: no site is known.
void steps_init(struct steps *s, const struct graph *g, const struct trace *t,
                const struct policy *policy, struct arena *a);

// Of the updates into value v that fp32 keeps, the share below a step of f in the worst window of
// the worst site; -1 if v is not watched.
double steps_lost(const struct steps *s, int v, enum format_id f);

// Whether that share is the limit or more.
bool steps_forbid(const struct steps *s, double lost);

// Judges the weights of a training: fills p->weights, when formats are decided. One of which no
// update was seen that is finite and not 0 counts as if all were lost.
void steps_judge_weights(const struct steps *s, struct plan *p, struct arena *a);

#endif
