// Which values of a model its conversion can change: what a plan rounds, and all that is computed
// from it.
#ifndef CHANGES_H
#define CHANGES_H

#include "plan.h"

// By value of the source graph, in the arena: false only if the value is the same, bit for bit, in
// the converted model. What calls of functions give out counts as changed.
bool *changes_find(const struct graph *g, const struct plan *p, struct arena *a);

#endif
