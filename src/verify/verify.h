// Verify: runs the emitted model, its narrow types carried as fp32 with a Round after every value
// that is stored narrow, beside the source model in one session, compares value by value on
// held-out samples and then on those that calibrated, and gives each claim its verdict.
#ifndef VERIFY_H
#define VERIFY_H

#include "engine.h"
#include "plan.h"

// Samples of two kinds, in the order in which they are run.
enum sample_set {
  SET_HELD_OUT,     // those that judge: nothing in the plan depends on them, if some were left
  SET_CALIBRATION,  // those that the plan was made from
  SAMPLE_SETS
};

struct verdict_claim {
  const struct claim *claim;
  const char *output;      // name
  double on[SAMPLE_SETS];  // what it measured on each set; NAN: not run
  // On the set where it does worse:
  enum sample_set decided_on;
  double measured;
  bool holds;
  uint64_t shape_mismatches;  // runs in which the output has another shape than in fp32
  bool nothing_compared;      // the fp32 output is not finite anywhere
  const char *sample;         // the worst sample's label
};

// What was seen of one graph output.
struct verdict_output {
  const char *name;
  int value;  // id in the source graph
  struct compare on[SAMPLE_SETS];
  int rows;                               // of verdict.rows, which its rows are part of, or -1
  int axis;                               // along which they follow each other
  struct compare paired[SAMPLE_SETS];     // error of the rows that have their like
  uint64_t alone_nonfinite[SAMPLE_SETS];  // elements of narrow rows without, that are not finite
};

struct row_counts {
  uint64_t reference, narrow, matched;  // rows of both models, and pairs
  uint64_t moved;                       // pairs of which each row stands elsewhere
  uint64_t apart;                       // runs in which the outputs do not have the same rows
  double worst_share;                   // of one run; and its step, or -1
  int64_t worst_step;
  size_t first_alone;  // the foremost row of the fp32 model without its like; and its sample
  const char *first_alone_sample;  // NULL: there is none
};

// Outputs whose rows one selection chooses (selection.h), and how many of these rows have their
// like in the other model's (rows.h).
struct verdict_rows {
  int selection;  // node of the source graph
  bool judged;    // not all claims about them hold in place, so they are judged row by row
  double tolerance;
  struct row_counts on[SAMPLE_SETS];
};

struct verdict {
  struct verdict_output *outputs;
  int n_outputs;
  struct verdict_rows *rows;
  int n_rows;
  struct verdict_claim *claims;
  int n_claims;
  bool holds;              // all of them
  struct compare *values;  // by value id of the source graph; runs == 0: not compared; held out
  int n_values;
  // First (in topological order) value that is not finite in the narrow model though it is in the
  // source; the value with the largest error that its own node introduced; ids or -1.
  int first_nonfinite;
  const char *first_nonfinite_sample;
  int worst_local;
  double worst_local_error;  // relative L2 beyond that of its inputs
  size_t samples;
  bool held_out;               // false: no sample was left, the calibration samples were used again
  size_t calibration_samples;  // run as well; 0: a claim had failed before, or see above
  double seconds;
  // Per optimisation level: "" if the emitted model loads and runs, else the engine's message.
  char loads[4][160];
  bool loads_everywhere;
  bool loads_unfused;  // ... but only if the engine leaves QuantizeLinear of float8 alone
  bool has_kernels;    // false: it holds bfloat16 or float4, for which the engine's CPU kernels are
                       // missing, of ...
  enum format_id kernels_missing;  // ... this format
};

// True if all claims hold and the result loads in the engine (or cannot, for want of kernels).
bool verdict_holds(const struct verdict *v);

struct verify_options {
  int threads;
  bool progress;
  const size_t *steps;  // indices of the samples that judge
  size_t n_steps;
  bool held_out;
  const size_t *calibration;  // and of those that are run too, unless a claim has failed by then
  size_t n_calibration;
  struct recorder *recorder;  // notes how far it is; may be NULL
};

// `source` and `emitted` are indexes of both models. The emitted model keeps the names of the
// source's values, by which they are paired. Errors: STATUS_DATA, STATUS_ENGINE, STATUS_MODEL; a
// claim that does not hold is no error here.
enum status verify_run(struct verdict *v, struct graph *source, struct graph *emitted,
                       const struct plan *p, struct engine *engine, struct samples *samples,
                       const struct verify_options *options, struct arena *a, struct diag *d);

// How the result is tried.
struct trial {
  size_t step;  // the sample that it runs
  // In the calling process, which a crash of the engine then ends, and a hang stops: the only way
  // where other threads may exist, since one of them may hold a lock of the engine's, or of an
  // allocator, that a forked child would find locked for ever. Else each level has a process of
  // its own, which is stopped after so many seconds.
  bool in_process;
  double seconds;
};

// Loads the emitted model at every optimisation level, runs it on a sample, and notes in v->loads
// what the engine said, or that it crashed or had to be stopped. Errors: as verify_run's, but those
// of the engine.
enum status verify_loads(struct verdict *v, struct graph *emitted, struct engine *engine,
                         struct samples *samples, const struct trial *trial, struct diag *d);

#endif
