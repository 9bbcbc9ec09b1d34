// Values that a loop carries from one iteration to the next without changing them: exporters of
// TensorFlow's while loops carry the weights of a recurrent cell so. The interface of a loop stays
// fp32, and such a weight would with it.
#ifndef INVARIANTS_H
#define INVARIANTS_H

#include "graph.h"

// Lets the bodies of Loop and Scan read what they carry unchanged from outside, and stops carrying
// it where nobody reads the loop's own output for it; loops in four or more others stay as they
// are. Only fp32 values; the model computes the same. Changes m in place and builds g anew. Errors
// are those of graph_build.
enum status invariants_free(struct graph *g, struct model *m, struct arena *a, struct diag *d);

#endif
