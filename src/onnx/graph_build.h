// What the files that build the index (graph.c, graph_order.c, graph_marks.c, types.c) share.
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "graph.h"
#include "proto.h"

// A scope's path that would be longer is a number instead, so that long names in deep nests cannot
// multiply.
enum { PATH_MAX_BYTES = 2000 };

// Fills scope.order of every scope. Errors: STATUS_MODEL (a cycle).
enum status graph_sort(struct graph *g, struct diag *d);

// Sets value.omitted and value.trained.
void graph_mark(struct graph *g);

#endif
