// Where a run stands when a value has just been seen: which node should come next. It lets the
// survivor of a crash name the node at fault. For trace and verify.
#ifndef TRACE_PLACES_H
#define TRACE_PLACES_H

#include "graph.h"
#include "recorder.h"

// `values` are those that a run shows, each once, in the order in which they are ready; those of a
// scope stand together. The result, in the arena, has a place for each, and one more at [n]: that
// of a run which has shown none yet.
struct record_place *places_make(const struct graph *g, const int *values, size_t n,
                                 struct arena *a);

#endif
