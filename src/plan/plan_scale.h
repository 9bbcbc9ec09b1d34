// Power-of-two scales: a value that a narrow format cannot hold as it is may be stored times 2^k,
// where the operators around it carry the factor through. Part of the planner; README.md in src
// ("The rule", point 2).
#ifndef PLAN_SCALE_H
#define PLAN_SCALE_H

#include "plan_fit.h"

// True if node n carries a factor on its inputs through to its outputs: products, sums, and
// operators that only move, select, rectify or average elements.
bool scale_carried(const struct graph *g, int n);

// Chooses scales for all narrow nodes, producers first: sets input_scales and output_scale of p's
// nodes, and scale_log2 of the values that they store. Factors go into constants where a node has
// one; what is left becomes scale nodes where a value is read at another scale than it is stored
// at. A node for which no choice passes the tests gets bit r of its format's rung in `denied` (by
// node), and *changed is set: assign formats again, then call again. The formats of p's values must
// be set.
enum status scale_assign(struct plan *p, struct fits *f, uint8_t *denied, bool *changed,
                         struct diag *d);

// True if the scales that p gives node n are ones that its operator carries: what comes in times
// 2^input_scales then goes out times 2^output_scale. For plans from files.
bool scale_consistent(const struct graph *g, const struct plan *p, int n);

#endif
