// Finds the update sites of a graph and the nodes that watch them. Part of trace_instrument.c.
#ifndef TRACE_UPDATES_H
#define TRACE_UPDATES_H

#include "trace.h"

// A node that watches a site, of the operators of engine_updates.h.
struct watcher {
  Onnx__NodeProto *proto;
  bool after;  // what it reads is ready before its node runs, or else after
  int next;    // the next watcher at that node, or -1
};

struct watchers {
  struct update_site *sites;
  size_t n_sites;
  struct watcher *watchers;
  size_t n_watchers;
  int *first;  // by node, after or before which they stand: its first watcher, or -1
};

// `prefix` starts no name of the model. Everything is in the arena.
void watchers_find(struct watchers *w, struct graph *g, const char *prefix, struct arena *a);

#endif
