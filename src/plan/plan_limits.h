// How a result can fail though every step was followed: what the plan's claims do not cover, for
// the person who signs it off. Part of the plan file and of the summary.
#ifndef PLAN_LIMITS_H
#define PLAN_LIMITS_H

#include "plan.h"

// Calls back for each limit that applies: an id, and a sentence with the numbers of this plan,
// which lasts as long as the call. None if nothing is narrow.
typedef void limit_use(void *context, const char *id, const char *text);
void plan_limits_each(const struct plan *p, const struct graph *g, limit_use *use, void *context);

// How much something may grow, for people: "about 32", and no digits where they mean nothing.
enum { GROWTH_TEXT = 40 };
const char *plan_growth_text(double factor, char text[GROWTH_TEXT]);

#endif
