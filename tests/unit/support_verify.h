// What the tests of verify share: samples as .npy files, a run with its verdict, and its claims.
#ifndef SUPPORT_VERIFY_H
#define SUPPORT_VERIFY_H

#include "support_plan.h"
#include "verify.h"

// Samples of the fixture's folder.
void write_array(struct planning *f, const char *name, const char *descr, const char *shape,
                 const void *data, size_t size);
void write_floats(struct planning *f, const char *name, const char *shape, const float *x,
                  size_t n);

// The engine, which the caller closes.
struct engine *opened_engine(struct planning *f);

// Verifies the fixture's result on the samples of its folder, of which the last `calibrated` are
// those that the plan was made from.
void verify_after(struct planning *f, struct verdict *v, size_t calibrated);
void verify(struct planning *f, struct verdict *v);

// The claim of that id; and what is claimed.
const struct verdict_claim *claim_of(const struct verdict *v, const char *id);
void claims(struct planning *f, struct claim *list, int count);

// y = x w, where w is 1 + 2^-10: exact in fp16 for x = 1 and 2, and rounded for 3.
void rounded_products(struct planning *f);

// What the engine computes of the samples of the folder, beside the source.
void compare_in_engine(struct planning *f, struct verdict *v, bool in_process);

#endif
