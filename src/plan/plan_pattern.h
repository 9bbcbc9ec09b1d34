// Normalisations, softmax and activations that an exporter wrote out in single operators: found by
// dataflow, so that a rule of the policy can give all their nodes one class, and none of them is
// left narrow in the middle. Part of the planner.
#ifndef PLAN_PATTERN_H
#define PLAN_PATTERN_H

#include "graph.h"

// In the order in which they are looked for: what is part of a larger pattern is that one's.
enum pattern {
  PATTERN_NONE,
  PATTERN_LAYER_NORM,  // also instance and group normalisation, which differ by axes
  PATTERN_RMS_NORM,
  PATTERN_L2_NORM,
  PATTERN_LOG_SOFTMAX,
  PATTERN_SOFTMAX,
  PATTERN_LOG_SUM_EXP,
  PATTERN_GELU,
  PATTERN_MISH,
  PATTERN_SILU,
  PATTERN_SOFTPLUS,
  PATTERN_SIGMOID,
  PATTERN_SUM_OF_SQUARES,
  PATTERN_COUNT
};

// "layer-norm"; "" for PATTERN_NONE.
const char *pattern_name(enum pattern p);
// Names by number minus 1, NULL-terminated.
const char *const *pattern_names(void);

struct patterns {
  enum pattern *kind;  // by node
  int *end;            // by node: the last node of its pattern, which stands for it; -1: in none
};

// Finds all patterns; each node is in one at most. What they read, and Casts of the author, are not
// in them; what moves elements between their nodes is. A node whose result is read from elsewhere
// too can be. Linear time.
void patterns_find(struct patterns *p, struct graph *g, struct arena *a);

#endif
