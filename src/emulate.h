// Carries a model's narrow float types as fp32: every float16 and bfloat16 tensor becomes float,
// and a Round follows every value that is stored narrow, so that an engine without kernels for
// these types computes what one with fp32 accumulation and these types would. Used by trace (for
// models that hold narrow types already) and by verify.
#ifndef EMULATE_H
#define EMULATE_H

#include "graph.h"

// Changes m in place (build the graph's index again afterwards). A model without narrow types is
// left as it is. Errors: STATUS_MODEL for what cannot be carried (names the node).
enum status emulate_model(struct model *m, struct graph *g, bool ftz, struct arena *a,
                          struct diag *d);

#endif
