// Outputs whose rows a selection chooses, as the detections that a NonMaxSuppression keeps: a set,
// in which a rounding may change the order of what is nearly equal, and let a row near the edge
// appear or vanish. Where no rounding reaches what a selection reads, it is no such: it chooses the
// same rows, in the same order, whatever the conversion does.
#ifndef SELECTION_H
#define SELECTION_H

#include "graph.h"

// For each of `n` outputs of the main graph (values, or -1): the node (TopK, NonMaxSuppression,
// NonZero or Unique) that selects what its rows are, and along which axis they follow each other;
// -1 where that is not known to be so. Where rows are not chosen but computed, as the tokens that
// pass through a mixture of experts, it is not so: such a row has a place of its own. Nor is the
// one best of a TopK a set of rows, but a decision. `changed`: by value, see changes.h.
void selection_find(struct graph *g, const bool *changed, const int *outputs, size_t n, int *nodes,
                    int *axes);

// Whether the node is such a one, and may select others than in fp32.
bool selection_may_change(struct graph *g, const bool *changed, const struct node *node);

// Whether value v is numbers that were rounded to whole ones, as pixels are, and nothing else.
bool selection_is_rounded(const struct graph *g, int v);

#endif
