// Judges the claims by what was compared, and finds what went wrong first.
#ifndef VERIFY_JUDGE_H
#define VERIFY_JUDGE_H

#include "verify.h"

// What a metric makes of what was compared, and whether that is within a limit.
double judge_measure(const struct compare *c, enum metric metric);
bool judge_within(enum metric metric, double measured, double limit);

// Fills claims and `holds` from the errors of v->outputs. A claim is about every set of samples
// that was run; what it measured on the worse one stands for it. `labels`: of the samples, by step.
void judge_claims(struct verdict *v, const struct plan *p, const struct graph *source,
                  const char *const *labels, struct arena *a);

// Counts the samples that are no evidence. given[step * outputs + output]: the output had anything
// to compare on that sample.
void judge_evidence(struct verdict *v, const bool *given);

// What the engine, which has run the result, makes of each claim.
void judge_engine(struct verdict *v, const struct plan *p, const struct graph *source);

// First value that is not finite any more, and that with the largest error of its own; `values`:
// what was compared, by value.
void judge_find_culprits(struct verdict *v, const struct graph *source,
                         const struct compare *values, const char *const *labels);

#endif
