// Values whose step counts, whatever their range: integers carried as floats (positions, indices,
// counts), which must stay exact, and arguments of Sin and Cos, whose step must be small against
// the period. A range test sees neither. Part of the planner.
#ifndef PLAN_RESOLUTION_H
#define PLAN_RESOLUTION_H

#include "graph.h"
#include "policy.h"

struct resolution {
  const struct policy *policy;
  bool *integer;  // by value: holds integers, as the graph tells
  bool *angle;    // by value: read by Sin or Cos
};

// Finds both kinds. An integer tensor cast to float holds integers, as does what Floor, Ceil and
// Round give; and so does what moves, adds or multiplies integers. Integers of 2^24 and more count
// as none: fp32 does not tell them apart either (masks of -1e9).
void resolution_find(struct resolution *r, struct graph *g, const struct policy *policy,
                     struct arena *a);

// Whether format f resolves value v, of that largest magnitude, finely enough: the step there is at
// most 1 for integers, and at most the policy's for angles.
bool resolution_kept(const struct resolution *r, int v, enum format_id f, double absmax);

#endif
