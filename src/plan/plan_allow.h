// What each node may run in, before it is decided what it does run in; and what plan_make works on.
#ifndef PLAN_ALLOW_H
#define PLAN_ALLOW_H

#include "plan_fit.h"
#include "plan_pattern.h"

// What plan_make works on.
struct planner {
  struct plan *plan;
  struct graph *graph;
  const struct policy *policy;
  struct arena *arena;
  struct fits fits;
  struct patterns patterns;
  bool converted;      // pass_metadata marked the model
  bool *shape_math;    // by value: computed from shapes and constants alone
  bool *used;          // by node: what the model gives out depends on it
  bool *before_fault;  // by node: see plan_engine_faults_before
  uint8_t *allowed;    // by node: bit r for rung r
  uint16_t *scaled;    // by value: bit f if it needs a scale in format f
  uint8_t *denied;     // by node: bit r if its values may not be scaled in rung r
  bool any_scaled;
};

// Makes the tables by node and by value in the arena, and finds what computes shapes. Plan, graph,
// policy and arena must be set.
void allow_init(struct planner *pl);

// Why node n stays in the ladder's last format whatever its values are (no numbers needed):
// REASON_NONE if they decide. The classes of all nodes must be known.
enum reason allow_reason(const struct planner *pl, int n);

// Tests operator and values of node n in rung r: *why is REASON_NONE if it may run there, else the
// first reason against it, and *culprit the value at fault or -1.
enum status allow_test(struct planner *pl, int n, int r, enum reason *why, int *culprit,
                       struct diag *d);

// Which type variables of node n, besides the main one, stay fp32 in a rung that it may run in.
enum status allow_wide_variables(struct planner *pl, int n, struct diag *d);

// Sets the rungs that node n may run in, and in its plan what speaks against the others.
enum status allow_find(struct planner *pl, int n, struct diag *d);

#endif
