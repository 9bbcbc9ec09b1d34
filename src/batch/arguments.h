// What `convert` is called with for a model of a batch.
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include "batch.h"

// NULL-terminated, with the program's name. What the model says of itself comes behind the options
// of the batch, and so counts; all files go to `folder` (result.h names them).
const char *const *arguments_of_conversion(const struct zoo_model *m, const struct batch_options *o,
                                           const char *folder, struct arena *a);

// Those of all models that results depend on, for the key of each.
const char *const *arguments_of_results(const struct batch_options *o, size_t *count,
                                        struct arena *a);

#endif
