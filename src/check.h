// Invariants of a model that every pass must keep; checked after load and after each pass.
#ifndef CHECK_H
#define CHECK_H

#include "graph.h"

// Names: every input is defined before its use in a well-formed order, none is defined twice; every
// graph output exists; node inputs have types that the operator's schema allows, and formals of one
// type variable agree; subgraphs of If agree in their outputs' types, loop state has one type from
// initial value to output. `pass` names the pass that ran last, for the message; NULL after load.
// Builds its own index of m (graph_build). Errors: STATUS_MODEL.
enum status check_model(struct model *m, const struct schema_table *schemas, const char *pass,
                        struct diag *d);

#endif
