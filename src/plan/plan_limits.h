// How a result can fail though every step was followed: what the plan's claims do not cover. Part
// of the plan file, for the person who signs it off.
#ifndef PLAN_LIMITS_H
#define PLAN_LIMITS_H

#include "json.h"
#include "plan.h"

// Writes the array "limits": objects with an id and a sentence, with the numbers of this plan. Only
// what applies is listed.
void plan_limits_write(struct json_writer *w, const struct plan *p, const struct graph *g);

#endif
