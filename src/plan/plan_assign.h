// Which node runs in which format. Part of the planner; knows neighbours and modelled time, but no
// number of any tensor.
#ifndef PLAN_ASSIGN_H
#define PLAN_ASSIGN_H

#include "plan_cost.h"

// `allowed[n]` has bit r set if node n may run in rung r of the ladder (the last rung, fp32,
// always). Reads p->nodes[].class and wide_vars; sets p->nodes[].format, and .reason where a
// neighbour or a boundary decided. Of all plans in which
//   - a node runs in fp32 or a format that it may run in, and
//   - a node of class follow is narrow only if nodes that may be narrow lead to one of class
//   narrow,
// takes the one whose nodes and Casts take the least modelled time; ties go to the wider format.
// Exact for two formats; in a longer ladder the first cut is between fp32 and what each node wants,
// and then nodes of class follow may go on to the next rung where their neighbours are.
void assign_formats(struct plan *p, const struct graph *g, const uint8_t *allowed,
                    const struct costs *costs, struct arena *a);

#endif
