// What became of one model of a zoo: made from what its conversion left in its folder, and kept
// there as result.json, written last, so that a folder without it is incomplete.
#ifndef RESULT_H
#define RESULT_H

#include "json.h"
#include "process.h"
#include "survey.h"
#include "tree.h"
#include "zoo.h"

// The files of a model's folder. The model lies in a folder of its own, with its external data,
// which may have any name.
#define RESULT_FOLDER  "model"
#define RESULT_MODEL   "model/model.onnx"
#define RESULT_PLAN    "plan.json"
#define RESULT_TRACE   "trace.json"
#define RESULT_VERDICT "verdict.json"
#define RESULT_REPORT  "report.html"
#define RESULT_CONVERT "convert.json"
#define RESULT_LOG     "log.txt"
#define RESULT_RESULT  "result.json"
#define RESULT_LOCK    ".lock"

// outcome, its word, what it means
#define OUTCOME_LIST(X)                                                                            \
  X(OUTCOME_CONVERTED, "converted", "every claim holds, and the model is written")                 \
  X(OUTCOME_UNCHANGED, "unchanged", "nothing to convert under the policy: copied")                 \
  X(OUTCOME_REFUSED, "refused", "a claim does not hold, or the model or its data is bad")          \
  X(OUTCOME_FAILED, "failed",                                                                      \
    "the engine failed, a limit was reached, or a file could not be "                              \
    "read or written")
enum outcome {
#define OUTCOME_ENUM(name, word, text) name,
  OUTCOME_LIST(OUTCOME_ENUM)
#undef OUTCOME_ENUM
      OUTCOME_COUNT
};
const char *outcome_name(enum outcome o);

// Float nodes that stay fp32 for one reason, as reason_name calls it.
struct wide {
  const char *reason;
  int nodes;
};

struct limits {
  int timeout;     // seconds; 0: none
  int memory_mib;  // 0: none
};

struct result {
  const char *name, *folder;
  const char *key;  // see survey.h; "-": unknown
  enum outcome outcome;
  enum status status;  // of the conversion; STATUS_ENGINE if it ended by a signal or a limit
  bool killed;         // by somebody else; not in the file
  bool transient;      // says more about the machine than about the model: a resumed batch retries
  struct limits limits;     // that a failed conversion was run with
  const char *reason;       // why it is not converted, or NULL
  const char *policy;       // its name; NULL where it came to no plan, as all that follows
  const char *adjustments;  // of the policy for this run, as "--format bf16", or NULL
  const char *statistics;
  int float_nodes, narrow_nodes, casts, claims, claims_held;
  double bytes_before,
      bytes_after;        // of model files and external data; after: 0 if none is written
  const char *drawbacks;  // ids as `convert` has them, a space between; NULL: none
  bool has_error;
  double worst_error;  // largest relative L2 of an output, on either set of samples
  struct wide *wide;
  size_t n_wide;
  struct tree_file *files;  // that a conversion left that came to a plan
  size_t n_files;
  double seconds, peak_bytes;  // of the conversion
  double expected_bytes;       // of memory, as was thought before it (memory.h)
};

// How a conversion ended.
struct ending {
  struct process_ended process;
  bool timed_out;  // it did not end by itself when it was told to
  double seconds;
  struct limits limits;
};

// Reads what the conversion of `m` left in `folder` (a path). Strings are the arena's, or m's.
void result_of_run(struct result *r, const struct zoo_model *m, const struct surveyed *s,
                   const struct ending *e, const char *folder, struct arena *a);

// A model that was not started, for a reason that may pass.
void result_not_started(struct result *r, const struct zoo_model *m, const struct surveyed *s,
                        const char *reason);

// Errors: STATUS_IO. It may be on the disk later than what is written next: a batch that finds
// none, or half of one, converts that model again.
enum status result_write(const struct result *r, const char *folder, struct diag *d);
// What it came to in numbers, as members of the object that is being written: in that file, and in
// the summary of all.
void result_write_figures(const struct result *r, struct json_writer *w);

// Reads the folder's result.json. False if there is none that can be read, if it is of another
// model, or if one of its files is gone or has another size: a result stands for its
// files.
bool result_read(struct result *r, const char *name, const char *folder, struct arena *a);

// Whether a result that was read still stands.
bool result_is_current(const struct result *r, const struct surveyed *s, const struct limits *l);

// Removes what a conversion left, its temporary files too, and makes the folder for the model. Only
// the lock stays.
enum status result_clean(const char *folder, struct arena *a, struct diag *d);

#endif
