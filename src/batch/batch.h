// Converting a whole zoo: each model in a process of its own, with limits, in parallel, so that
// what goes wrong with one costs that one only; resumable and shardable.
//
// OUT/models/FOLDER/ holds what became of a model (result.h names the files), and of all of them
// the summary files in OUT (summary_zoo.h). A batch may be killed at any moment: the next one with
// the same OUT keeps each model whose result.json is there, has the key that the survey finds now,
// and names files that still have their sizes, and does the others again. Two batches with one OUT
// share the work: a model's folder is locked while it is being converted.
#ifndef BATCH_H
#define BATCH_H

#include "model.h"
#include "result.h"

struct batch_options {
  const char *out;
  const char *policy;  // of models without one of their own
  const char *engine;  // path, or NULL
  // Arguments for `convert` that change results: for all models, and for those with made-up
  // samples.
  const char **arguments, **made_up;
  size_t n_arguments, n_made_up;
  const struct model_limits *model_limits;  // the same as the arguments say
  int jobs, threads;
  struct limits limits;
  int shard, shards;  // shard is from 1
  bool quiet;
};

struct batch_outcome {
  struct result **results;  // by model of the zoo; NULL: there is none
  bool *wanted;             // by model: it is in this shard
  size_t kept;              // results that stood already
};

// Converts what is not done yet. Errors end the batch as a whole: no engine, a bad policy, OUT that
// cannot be written. A model that fails is no error.
enum status batch_run(struct batch_outcome *out, const struct zoo *z, const struct batch_options *o,
                      struct arena *a, struct diag *d);

// Whether an entry of an OUT is what batch_run notes there for one shard (known.h), and which.
bool batch_hashes_shard(const char *name, int *shard, int *shards);

// Joins the results of several OUTs in `out`, by hard links where the file system has them; where
// two have a result of one model, the first counts. Warns of shards that are in none. Fills
// `results` and `count`.
enum status batch_merge(struct result ***results, size_t *count, const char *const *outs,
                        size_t n_outs, const char *out, struct arena *a, struct diag *d);

// Makes the folder and OUT/models below it.
enum status batch_make_out(const char *out, struct arena *a, struct diag *d);

#endif
