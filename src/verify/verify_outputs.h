// Compares one output of one run, as both models give it out.
#ifndef VERIFY_OUTPUTS_H
#define VERIFY_OUTPUTS_H

#include "compare.h"
#include "samples.h"
#include "verify.h"

// Adds output `name` of sample `s`, the step-th, to c: errors over all elements; for a matrix of
// scores top-1 along the last axis, also against the sample's labels; for integers, booleans
// and strings "top-1" is the share of equal elements. Two shapes count as a mismatch; what is no
// tensor adds nothing.
void outputs_compare(struct compare *c, const char *name, const struct array *reference,
                     const struct array *narrow, const struct sample *s, int64_t step);

// The first array of labels that cannot be used, or not all of it, and why: a sentence. False:
// there is none. names, pairs: of 2 * n_outputs arrays, each output of both models after each
// other.
enum { LABEL_FAULT = 640 };
bool outputs_label_fault(const struct sample *s, const char *const *names,
                         const struct array *pairs, size_t n_outputs, char text[LABEL_FAULT]);

// Keeps what fp32 gave for a sample if it follows those that are held already, and there is room.
// pairs: outputs of both models, as a run gives them; n_samples: that there may come to be.
void outputs_keep(struct reference *kept, const struct array *pairs, size_t n_outputs, size_t step,
                  size_t n_samples, struct arena *a);

// The array's `count` elements as fp32; NULL if they are no numbers.
float *array_as_float(const struct array *x, size_t count, struct arena *scratch);

#endif
