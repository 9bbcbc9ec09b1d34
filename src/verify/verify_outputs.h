// Compares one output of one run, as both models give it out.
#ifndef VERIFY_OUTPUTS_H
#define VERIFY_OUTPUTS_H

#include "compare.h"
#include "samples.h"

// Adds output `name` of sample `s`, the step-th, to c: errors over all elements; for a matrix of
// scores top-1 along the last axis, also against the sample's labels; for integers and booleans
// "top-1" is the share of equal elements. Two shapes count as a mismatch; what is no tensor adds
// nothing.
void outputs_compare(struct compare *c, const char *name, const struct array *reference,
                     const struct array *narrow, const struct sample *s, int64_t step);

// The array's `count` elements as fp32; NULL if they are no numbers.
float *array_as_float(const struct array *x, size_t count, struct arena *scratch);

#endif
