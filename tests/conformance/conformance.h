// Operator conformance: what the two parts of the test program share. See conformance.c.
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include "engine.h"
#include "graph.h"
#include "plan.h"

enum outcome {
  OUTCOME_CRASHED,         // the process that tried it ended without a result
  OUTCOME_BROKEN,          // refused, or the result is not what it must be: text says how
  OUTCOME_DIFFERS,         // outputs are further from the published ones than rounding explains
  OUTCOME_SOURCE_DIFFERS,  // the source's own outputs are not the published ones: nothing to
                           // compare
  OUTCOME_MATCHED,
  OUTCOME_AS_PUBLISHED,  // raised: as published, the engine having no kernel for the source
  OUTCOME_UNCHANGED,     // it is written as it was: text says why
  OUTCOME_NOT_RAISED,    // its opset cannot be raised to the one that is wanted: text says why
  OUTCOME_NO_OPSET,      // the engine does not know that opset
  OUTCOME_NO_KERNEL,     // the engine cannot run the source, or the raised model
  OUTCOME_NO_DATA,       // sequences, maps or optionals, or data that do not fit the model
  OUTCOME_COUNT
};

// Of one model under one policy; lies in memory that parent and child share.
struct result {
  enum outcome outcome;
  char text[256];
  int float_nodes, narrow_nodes;
  int left_wide[REASON_COUNT];  // float nodes by reason
  int no_products;              // float nodes that have no operands which could be narrow
  bool emitted;
  int compared;  // outputs of all data sets
  double worst;  // largest error as a share of what is allowed
};

// What is compared, and with what. Names and files are those of the model's folder.
struct comparison {
  struct engine *engine;
  const struct schema_table *schemas;
  struct graph *source, *emitted;
  enum format_id format;   // of what is narrow; in the plan's operand format: of operands, ...
  enum format_id results;  // ... and of nodes' results
  const struct plan *plan;
  int float_nodes;
  bool raised;  // the emitted model is the source at a newer opset; format, results, plan: unused
};

// Runs source and emitted model on the test data beside the model, and judges the outputs: sets
// r->outcome, r->text, r->compared and r->worst.
void compare_with_published(struct result *r, const struct comparison *c, struct arena *a);

// The same of a raised model, as it is: must give the bits that the source gives, or if the engine
// has no kernels for that, what is published.
void compare_raised(struct result *r, const struct comparison *c, struct arena *a);

// Notes the outcome and a text (a printf format).
void result_set(struct result *r, enum outcome outcome, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
