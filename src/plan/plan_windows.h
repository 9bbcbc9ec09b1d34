// The scale that each window of a trace asks for, and what one static scale makes of them. Pure
// arithmetic on statistics. Part of the planner; README.md in src ("The rule", point 2).
#ifndef PLAN_WINDOWS_H
#define PLAN_WINDOWS_H

#include "stats.h"

// How scales are chosen; from the policy.
struct scale_rule {
  bool use;           // false: everything is stored as it is
  double margin;      // >= 1: absmax * margin must still fit
  double hysteresis;  // >= 1: a window's scale replaces the last one if it differs by this factor
  double max_spread;  // >= 1: factor by which windows may disagree before a value is unstable
};

// Largest and smallest scale that a multiplication in fp32 carries out exactly.
enum { SCALE_LOG2_MIN = -126, SCALE_LOG2_MAX = 126 };

struct scale_track {
  bool known;           // some window held finite values that are not zero
  int scale_log2;       // that of the model: the smallest over the windows
  int lowest, highest;  // over the windows, after hysteresis
  int moves;            // times that a window's scale replaced the one before
  bool unstable;        // highest and lowest differ by more than the rule allows
};

// The largest k with absmax * margin * 2^k <= largest finite value of f, within SCALE_LOG2_MIN to
// SCALE_LOG2_MAX. absmax > 0 and finite.
int scale_of_range(double absmax, double margin, enum format_id f);

// The trajectory over the windows of s. A window keeps the scale of the one before unless its own
// differs by the rule's hysteresis or more, or the values would overflow at it. `windows` (NULL, or
// room for s->n_windows) receives the scale of each window; one without finite values repeats the
// one before, and windows before the first that has some are 0.
struct scale_track scale_over_windows(const struct stats *s, enum format_id f,
                                      const struct scale_rule *rule, int *windows);

#endif
