// The twin: one model that holds the source and the emitted model side by side, fed with the same
// inputs, with a Compare for each value that both have. Part of verify.
#ifndef VERIFY_TWIN_H
#define VERIFY_TWIN_H

#include "clone.h"
#include "graph.h"
#include "plan.h"

struct twin {
  struct packed_model packed;
  int *values;  // per Compare id: value id of the source graph
  size_t n_compared;
  // Names in the twin of what can be fetched, source and narrow in pairs: [2k] and [2k + 1]; and
  // the source's value id of each pair. First all graph outputs.
  const char **outputs;
  int *output_values;
  size_t n_outputs, n_fetched;  // pairs; n_fetched: in all
  int *watched;                 // which pair each watched value is; -1: not in both models
};

// Watched values (int64, of the main graph of the source) can be fetched beside its outputs.
// Neither graph is changed. The plan, of the source, says at which scales the emitted model stores
// values. Errors: STATUS_MODEL.
enum status twin_build(struct twin *t, struct graph *source, struct graph *emitted,
                       const struct plan *p, const int *watched, size_t n_watched, struct arena *a,
                       struct diag *d);

#endif
