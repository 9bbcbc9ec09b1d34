// The cheapest of all ways to give each node one of two formats, as a minimum cut. Part of the
// planner.
#ifndef PLAN_CUT_H
#define PLAN_CUT_H

#include "plan_cost.h"

// What a node may be: `narrow` is taken where it is cheaper, `wide` otherwise, ties included. Both
// are the same where there is nothing to choose.
struct choice_of_formats {
  enum format_id narrow, wide;
};

// Sets p->nodes[n].format to narrow or wide for every node, so that the time of all nodes and of
// all Casts between them is least; of several such plans the one with the fewest narrow nodes.
// Every `wide` that differs from its `narrow` must be one format, or every such `narrow`. Exact
// for a ladder of two formats. Needs time about linear in nodes and uses.
void cut_formats(const struct costs *c, struct plan *p, const struct choice_of_formats *choices);

#endif
