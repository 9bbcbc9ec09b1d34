// What an output of a model depends on that a rounding can flip: which elements a TopK or a
// NonMaxSuppression selects, say. For the summary of a result that does not hold.
#ifndef DECISIONS_H
#define DECISIONS_H

#include "graph.h"

// The node nearest before value v that decides by fp32 values which elements it gives out, or -1.
int decision_before(const struct graph *g, int v, struct arena *a);

#endif
