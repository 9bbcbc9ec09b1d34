// What speaks against a result though all its claims hold: it has nothing in the format that the
// policy is for; by the model of costs, it is no faster, or moves more memory than the fp32 model.
// Part of the plan file, the summary and the report.
#ifndef PLAN_WORTH_H
#define PLAN_WORTH_H

#include "plan.h"

// Calls back for each drawback that applies: an id, and a sentence with the numbers of this plan,
// which lasts as long as the call. None if nothing is narrow; of costs, if nothing was modelled.
typedef void drawback_use(void *context, const char *id, const char *text);
void drawbacks_each(const struct plan *p, drawback_use *use, void *context);

#endif
