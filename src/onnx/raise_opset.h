// Raises the opset of ai.onnx that a model imports, so that formats become available which its
// operators took only later (float8 in opset 19, bfloat16 in Conv in 22). Every operator in use
// must mean the same there, or have an adapter that writes it as the newer version wants it.
#ifndef RAISE_OPSET_H
#define RAISE_OPSET_H

#include "graph.h"

// The opsets that a model can be raised to: from 13 on its adapters' results are complete, and up
// to 26, the newest that ONNX Runtime 1.30 takes, every change of an operator was looked at.
enum { RAISE_OPSET_LEAST = 13, RAISE_OPSET_MOST = 26 };

// Changes m, which g indexes, in place: g is then stale. The import of the main graph and those of
// its local functions become `opset`, unless they are as high already. m->raised_to says what was
// done. Errors: STATUS_MODEL naming the node whose operator cannot be carried over, and why.
enum status raise_opset(struct model *m, struct graph *g, int opset, struct arena *a,
                        struct diag *d);

#endif
