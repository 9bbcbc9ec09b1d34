// Invariants of a model that every pass must keep; checked after load and after each pass.
#ifndef CHECK_H
#define CHECK_H

#include "graph.h"

// Names: every input is defined, none is defined twice; every graph output exists; node inputs have
// types that the operator's schema allows, and formals of one type variable agree; subgraphs of If
// agree in their outputs' types, loop state has one type from initial value to output; declared
// graph outputs have the inferred type. `pass` names the pass that ran last, for the message; NULL
// after load. After a pass, nodes must also stand behind what they read, and value_info must not
// contradict the inferred types (a file from elsewhere may be so: both are put right by rewrite).
// Builds its own index of m (graph_build). Errors: STATUS_MODEL.
enum status check_model(struct model *m, const struct schema_table *schemas, const char *pass,
                        struct diag *d);

// The same after a pass, and leaves the index in g.
enum status check_pass(struct graph *g, struct model *m, const struct schema_table *schemas,
                       const char *pass, struct arena *a, struct diag *d);

#endif
