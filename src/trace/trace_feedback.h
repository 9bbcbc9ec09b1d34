// A training step run in a loop: what it gives out as the updated weights goes in as the weights of
// the next step. Part of trace.c.
#ifndef TRACE_FEEDBACK_H
#define TRACE_FEEDBACK_H

#include "trace.h"

struct feedback_loop {
  struct graph *graph;
  const struct feedback *pairs;
  size_t n;
  struct array *weights;  // what the next step gets; data NULL before the first
  const char **outputs;   // names to fetch
  struct trace *trace;
  size_t first_site;
};

// Appends a site for each weight to the trace. Errors: STATUS_DATA if a pair is not of two fp32
// tensors, with the names.
enum status feedback_begin(struct feedback_loop *f, struct trace *t, struct graph *g,
                           const struct feedback *pairs, size_t n, struct arena *a, struct diag *d);
void feedback_end(struct feedback_loop *f);

// Puts the weights into the step's inputs; the first step keeps its own, or the model's defaults.
enum status feedback_give(struct feedback_loop *f, struct sample *sample, struct diag *d);

// Takes the updated weights out of fetched[0 .. n) and counts the changes. Error: STATUS_DATA if a
// weight has changed its shape.
enum status feedback_take(struct feedback_loop *f, const struct array *fetched, size_t window,
                          struct diag *d);

#endif
