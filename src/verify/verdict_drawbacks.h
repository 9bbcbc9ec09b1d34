// What speaks against a result though all its claims hold, as it was measured: the engine computes
// something else than the emulation that judges, or one sample alone misses what all together hold.
// Part of the verdict, the summary and the report, beside the plan's own (plan_worth.h).
#ifndef VERDICT_DRAWBACKS_H
#define VERDICT_DRAWBACKS_H

#include "plan_worth.h"
#include "verify.h"

// Calls back for each drawback, as drawbacks_each. `engine`: its version.
void verdict_drawbacks_each(const struct verdict *v, const char *engine, drawback_use *use,
                            void *context);

// True if a claim holds that the engine misses.
bool verdict_missed_in_engine(const struct verdict *v);

// Calls back for each claim that judged no output though its policy counts on it: its id, and why.
void verdict_idle_each(const struct verdict *v, drawback_use *use, void *context);

enum { FEW_TEXT = 256 };

// Where claims hold on fewer held-out samples than the policy calls enough: a sentence that says
// how little that shows. Else NULL.
const char *verdict_few_samples(const struct verdict *v, char text[FEW_TEXT]);

#endif
