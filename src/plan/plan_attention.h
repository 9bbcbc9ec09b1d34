// Whether the scores of an Attention node fit a format: the products of queries and keys, which
// have the type of both and never leave the operator, so that no trace sees them. Part of the
// planner.
#ifndef PLAN_ATTENTION_H
#define PLAN_ATTENTION_H

#include "plan_fit.h"

// Tests node n in rung r: *why is REASON_NONE for other operators, and if the scores fit with the
// policy's margin at the largest magnitudes that the trace saw. Else *culprit is the query.
enum status attention_test(struct fits *f, int n, int r, enum reason *why, int *culprit,
                           struct diag *d);

// Positions that each query of node n attends to, cached ones included, and at least; 0: it is no
// Attention of ai.onnx, or not known.
double attention_length(const struct graph *g, const struct trace *t, int n);

#endif
