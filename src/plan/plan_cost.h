// The cost model: how long nodes and Casts take on a target, and what they move. A node takes the
// longer of its arithmetic and its traffic, and the target's overhead (the roofline model:
// Williams, Waterman and Patterson, "Roofline", 2009). What compilers fuse, and what caches keep,
// is not modelled. Part of the planner.
//
// Times are in *bytes*: what the target's memory moves in that time. A node that waits for memory
// then costs a whole number, so that equal costs are equal numbers and ties are found.
#ifndef PLAN_COST_H
#define PLAN_COST_H

#include "plan.h"

struct op_cost;

struct costs {
  struct graph *graph;
  const struct trace *trace;  // NULL: none, then every tensor that is no constant has one element
  const struct target *target;
  double *elements;            // by value: of each time that it is produced; 0 if that is not known
  double *productions;         // by value: times per run; next to 0 where constants alone decide it
  double *executions;          // by node: likewise
  const struct op_cost **ops;  // by node
  const uint16_t *scaled;  // by value: bit f if in format f it is stored at a scale; NULL: none is
};

void costs_init(struct costs *c, struct graph *g, const struct trace *t,
                const struct target *target, struct arena *a);

struct node_cost {
  double time;   // per run of the model, in bytes
  double bytes;  // read and written per run
};

// What node n costs in the format that p gives it, its inputs and outputs in the formats that it
// then wants; no Casts. Nothing for a node that only looks at a shape, makes a constant, gives its
// input another shape, or holds bodies or calls a function (whose nodes count).
struct node_cost costs_node(const struct costs *c, const struct plan *p, int n);

// What a Cast of value v costs, in bytes of time, and the scale node beside it if v is stored at a
// scale in one of the formats; nothing if from is to, or if v is a constant.
double costs_cast(const struct costs *c, int v, enum format_id from, enum format_id to);

// Sets p->costs from the formats of p's nodes and values, and p->seconds. `allowed` as in
// assign_formats.
void costs_sum(const struct costs *c, struct plan *p, const uint8_t *allowed, struct arena *a);

// How much faster a run can become if all that may run narrow took no time (Amdahl's law).
double costs_most_speedup(const struct plan_costs *c);

#endif
