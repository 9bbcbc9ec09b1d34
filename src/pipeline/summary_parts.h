// What the parts of the summary share: the plan (summary_plan.c), the verdict (summary_verdict.c)
// and how the result loads (summary_loads.c) as text, the whole as JSON (summary_json.c).
#ifndef SUMMARY_PARTS_H
#define SUMMARY_PARTS_H

#include "run.h"

#include <stdio.h>

// Numbers of a plan that text and JSON print.
struct plan_counts {
  int float_nodes, narrow_nodes;
  int by_format[FORMAT_COUNT];
  int operands_alone;           // of those in fp32: they read narrow operands
  int by_reason[REASON_COUNT];  // of the float nodes that stay fp32
  int float_values, not_seen;
  int products, narrow_products;         // those that may read narrow operands, and that do
  int by_operands_reason[REASON_COUNT];  // of the other products
  int operands;                          // values read in the operand format
  double headroom;                       // factor by which they may grow before the first saturates
  int headroom_value;
};

struct plan_counts summary_count(const struct plan *p);

// With a unit: "12.3 MB".
void summary_print_bytes(FILE *out, double bytes);

// Whether the run made a result from its plan.
bool summary_was_applied(const struct run *r);

// What was decided, and what that is modelled to gain.
void summary_print_plan(const struct run *r, FILE *out);

// What was added to the model, and the bytes of its constants.
void summary_print_cost(const struct run *r, FILE *out);

// Of a run that has a verdict.
void summary_print_verdict(const struct run *r, FILE *out);
void summary_print_loads(const struct run *r, FILE *out);

#endif
