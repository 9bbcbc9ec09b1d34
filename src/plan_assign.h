// Which node runs in which format: spreads the formats of the nodes worth it over their neighbours,
// then cleans up boundaries. Part of the planner; knows costs and neighbours, but no number of any
// tensor.
#ifndef PLAN_ASSIGN_H
#define PLAN_ASSIGN_H

#include "plan.h"

// `allowed[n]` has bit r set if node n may run in rung r of the ladder (the last rung, fp32,
// always). Reads p->nodes[].class and wide_vars; sets p->nodes[].format, and .reason where a
// neighbour or a boundary decided.
void assign_formats(struct plan *p, const struct graph *g, const struct policy *policy,
                    const uint8_t *allowed, struct arena *a);

#endif
