// Minimum cut of a directed graph between a source and a sink, in integers, so that the result is
// the same on every machine. Terminals are implicit: each node has a cost for standing on either
// side. Knows nothing of models.
//
// Source: Goldberg and Tarjan, "A new approach to the maximum-flow problem" (1988); highest label,
// global relabelling and gaps after Cherkassky and Goldberg, "On implementing the push-relabel
// method for the maximum flow problem" (1997).
#ifndef MINCUT_H
#define MINCUT_H

#include "arena.h"

#include <stdbool.h>
#include <stdint.h>

// Capacity of an edge that is never cut.
#define MINCUT_INFINITE (INT64_MAX / 4)

struct mincut_edge {
  int from, to;
  int64_t capacity;
};

struct mincut {
  struct arena *arena;
  int64_t *weight;  // by node: what the source side costs beyond the sink side
  struct mincut_edge *edges;
  int n_nodes;
  size_t n_edges, capacity_nodes, capacity_edges;
  int64_t constant;  // is paid on whichever side
};

// The power of two (log2) by which costs are multiplied to become integers, if they are `total`
// together: as many fraction bits as leave the sum well under the largest integer, so that costs
// that are whole numbers of bytes stay exact in every model that fits a machine.
int mincut_scale(double total);

// Memory comes from the arena: give it back after the cut.
void mincut_init(struct mincut *m, struct arena *a);

// A new node; nodes are numbered from 0.
int mincut_add_node(struct mincut *m);

// Adds what it costs to have the node on the source side, and on the sink side; each >= 0.
void mincut_add_cost(struct mincut *m, int node, int64_t on_source, int64_t on_sink);

// Adds an edge that costs `capacity` (>= 0) if `from` is on the source side and `to` on the sink
// side. All finite costs and capacities together must stay below MINCUT_INFINITE.
void mincut_add_edge(struct mincut *m, int from, int to, int64_t capacity);

// Finds the cut of least cost, and of all such the one with the fewest nodes on the source side (it
// is unique: the intersection of all of them). source_side has n_nodes places. Returns the cost.
// Call once.
int64_t mincut_solve(struct mincut *m, bool *source_side);

#endif
