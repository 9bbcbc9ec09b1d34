// The rewrite: a table of passes that turn a model into the one that the plan describes. Each pass
// is one file (pass_*.c) and works from the graph and the plan alone; the driver then rebuilds the
// graph's index and has the model's invariants checked.
#ifndef PASSES_H
#define PASSES_H

#include "plan.h"

struct rewrite_report {
  int casts;                           // Cast nodes added
  int author_casts;                    // Casts of the author that have nothing left to do
  int quantised, dequantised;          // QuantizeLinear and DequantizeLinear nodes added
  int weights;                         // constants stored in the operand format
  uint64_t weight_bytes;               // of these constants in the result
  int scale_nodes;                     // Mul nodes added, by a power of two
  int narrow_initializers;             // constants stored narrow
  int copied_initializers;             // constants kept wide as well, for a wide reader
  uint64_t bytes_before, bytes_after;  // of all constants that are fp32 in the source
  uint64_t saturated;  // constant elements changed because the policy says saturate or infinity
};

// When the invariants are checked: of the result, or after each pass that leaves the model whole,
// which finds the pass at fault (tests, fuzzing).
enum rewrite_check { REWRITE_CHECK_RESULT, REWRITE_CHECK_PASSES };

// Rewrites m (which g indexes) in place. Afterwards g is the index of the result. The plan must be
// of this model.
enum status rewrite_model(struct model *m, struct graph *g, const struct plan *p,
                          enum rewrite_check check, struct rewrite_report *report, struct arena *a,
                          struct diag *d);

// What there is to report of a plan under which the model stays as it is.
void rewrite_nothing(struct graph *g, const struct plan *p, struct rewrite_report *report);

#endif
