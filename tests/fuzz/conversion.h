// A conversion without an engine, and what must hold of it whatever the model, the policy and the
// statistics are. Shared by the targets that make models from choices and from bytes.
#ifndef CONVERSION_H
#define CONVERSION_H

#include "fuzz.h"
#include "model.h"

// Makes up a policy and statistics from the choices, plans, writes and reads the plan, rewrites,
// and checks the result. An error of the model is not a fault, unless `valid` says that it has
// none.
void conversion_check(struct model *m, struct choices *c, bool valid, struct arena *a);

#endif
