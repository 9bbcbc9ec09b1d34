// Updates of weights, from checkpoints of a training: the same weights at different times.
#ifndef CHECKPOINTS_H
#define CHECKPOINTS_H

#include "trace.h"

// Compares the float initializers of g's main graph between each file and the next, and appends a
// site for each to the trace; what lies between two files is a step, `window` of them a window.
// Files are .onnx or .safetensors, in the order of time, two at least; their weights are matched by
// name, and any float type is taken. Weights that a file lacks or has in another shape, and those
// that only the file has, are warned of, and are not compared there. `limits` is for .onnx files,
// NULL: the defaults. Errors: STATUS_DATA if a file has no weight of the model at all or if fewer
// than two are given, and those of reading it.
enum status checkpoints_trace(struct trace *t, struct graph *g, const char *const *paths, size_t n,
                              size_t window, const struct model_limits *limits, struct diag *d);

#endif
