// The ranks of values, as far as operators and the model's interface tell them: enough to know
// which axis is the last one. Declarations inside the graph are not believed.
#ifndef RANKS_H
#define RANKS_H

#include "graph.h"

// An array by value; -1 where the rank is not known. Takes one pass over the nodes.
int *ranks_find(struct graph *g, struct arena *a);

#endif
