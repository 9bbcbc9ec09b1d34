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
  SAMPLE_SETS,      // these two judge
  SET_IN_ENGINE = SAMPLE_SETS,  // the held-out ones again, as the engine computes the result
  ALL_SETS
};

struct choices;

enum { LOAD_MESSAGE = 512 };

struct verdict_claim {
  const struct claim *claim;
  const char *output;      // name
  int output_index;        // among the verdict's
  double on[SAMPLE_SETS];  // what it measured on each set; NAN: not run
  // On the set where it does worse:
  enum sample_set decided_on;
  double measured;
  bool holds;
  double in_engine;  // as the engine computes the result on `engine_samples`; NAN: not run
  bool holds_in_engine;
  uint64_t shape_mismatches;  // runs in which the output has another shape than in fp32
  bool nothing_compared;      // the fp32 output is not finite anywhere
  const char *sample;         // the worst sample's label
};

// What was seen of one graph output.
struct verdict_output {
  const char *name;
  int value;  // id in the source graph
  struct compare on[ALL_SETS];
  int rows;                            // of verdict.rows, which its rows are part of, or -1
  int axis;                            // along which they follow each other
  bool rounded;                        // numbers rounded to whole ones
  struct compare paired[ALL_SETS];     // error of the rows that have their like
  uint64_t alone_nonfinite[ALL_SETS];  // elements of narrow rows without, that are not finite
};

struct row_counts {
  uint64_t reference, narrow, matched;  // rows of both models, and pairs
  uint64_t guessed;                     // pairs that nothing but their likeness made
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
  // What it and all selections before it chose, among the verdict's choices, it first; 0: not all
  // of that can be seen.
  const int *choices;
  int n_choices;
  struct row_counts on[ALL_SETS];
};

struct verdict {
  struct verdict_output *outputs;
  int n_outputs;
  struct verdict_rows *rows;
  int n_rows;
  const struct choices *choices;  // that can be seen in the twin; NULL after the run
  struct verdict_claim *claims;
  int n_claims;
  const struct claim **idle;  // that ask for something of their own and judged no output; see
  int n_idle;                 // verdict_idle_each
  bool holds;                 // all of them
  struct compare *values;     // by value id of the source graph; runs == 0: not compared; held out
  int n_values;
  struct compare *calibration_values;  // the same of those that calibrated; NULL unless only these
                                       // broke a claim
  // First (in topological order) value that is not finite in the narrow model though it is in the
  // source; the value with the largest error that its own node introduced; ids or -1.
  int first_nonfinite;
  const char *first_nonfinite_sample;
  int worst_local;
  double worst_local_error;  // relative L2 beyond that of its inputs
  size_t samples;
  const char **sample_labels;  // by step of `values` and `outputs`: of both sets, in their order
  bool held_out;               // false: no sample was left, the calibration samples were used again
  int enough;                  // held-out samples, by the policy; see struct hold_out
  // Of these and the next, those in which no output that is judged has an element: no evidence.
  size_t empty[SAMPLE_SETS];
  size_t calibration_samples;  // run as well; 0: a claim had failed before, or see above
  double seconds;
  // Per optimisation level: "" if the emitted model loads and runs, else the engine's message.
  char loads[OPTIMISATION_LEVELS][LOAD_MESSAGE];
  bool unsupported[OPTIMISATION_LEVELS];  // what it says is that it has no implementation of
                                          // something
  // At such a level, the source does neither; or it does, but not with its opset raised.
  bool source_fails[OPTIMISATION_LEVELS], raise_fails[OPTIMISATION_LEVELS];
  bool loads_everywhere;  // at each level at which the source does
  bool loads_unfused;     // ... but only if the engine leaves QuantizeLinear of float8 alone
  bool has_kernels;       // false: it does not load, and all that the engine says is that it has no
                          // CPU kernels, for nodes with values of ...
  enum format_id kernels_missing;  // ... this format, bfloat16 or float4
  size_t engine_samples;  // held-out samples of which outputs and claims say what it computes
};

// Of integers, booleans or strings, which are equal or not: no error is measured.
bool verdict_is_exact(const struct verdict_output *output, const struct graph *source);

// Whether a claim is about the output, given as its index.
bool verdict_is_judged(const struct verdict *v, int output);

// Held-out samples, or those that judge in their place, in which there was something to judge.
size_t verdict_samples(const struct verdict *v);

// True if all claims hold and the result loads in the engine (or cannot, for want of kernels).
bool verdict_holds(const struct verdict *v);

// What fp32 gave for the first samples that judged, as far as there is room: the same in every
// round, so that nobody need run it again. Begins as {0}; the run's arena owns it.
struct reference {
  struct array *arrays;  // by sample, those of each output of the verdict
  size_t samples, bytes;
  bool warned;  // of what judges nothing: so that it is said in the first round only
};

struct verify_options {
  int threads;
  bool progress;
  const size_t *steps;  // indices of the samples that judge
  size_t n_steps;
  bool held_out;
  const size_t *calibration;  // and of those that are run too, unless a claim has failed by then
  size_t n_calibration;
  struct recorder *recorder;    // notes how far it is; may be NULL
  struct reference *reference;  // gets what it does not hold yet; may be NULL
};

// `source` and `emitted` are indexes of both models. The emitted model keeps the names of the
// source's values, by which they are paired. Errors: STATUS_DATA, STATUS_ENGINE, STATUS_MODEL; a
// claim that does not hold is no error here.
enum status verify_run(struct verdict *v, struct graph *source, struct graph *emitted,
                       const struct plan *p, struct engine *engine, struct samples *samples,
                       const struct verify_options *options, struct arena *a, struct diag *d);

// How the result is tried.
struct trial {
  const size_t *steps;  // indices of the samples that judged
  size_t n_steps;
  int threads;                        // of the default level's session
  struct graph *source;               // to compare with, at that level, and ...
  const struct plan *plan;            // ... by its claims,
  const struct reference *reference;  // ... what it gave; NULL: only to see that the result runs
  // The source as it was given, which is tried at each level at which the result fails; and then
  // with its opset raised, as `source` is. Either may be NULL.
  const struct model *given, *raised;
  // In the calling process, which a crash of the engine then ends, and a hang stops: the only way
  // where other threads may exist, since one of them may hold a lock of the engine's, or of an
  // allocator, that a forked child would find locked for ever. Else each level has a process of
  // its own, which is stopped after so many seconds.
  bool in_process;
  double seconds;
};

// Loads the emitted model at every optimisation level, runs it on the first sample, and notes in
// v->loads what the engine said, or that it crashed or had to be stopped; where the source does no
// better, that is no fault of the result. At the level that
// sessions have by default it runs all samples that the reference holds, and notes what the engine
// makes of each claim. Errors: as verify_run's, but those of the engine.
enum status verify_loads(struct verdict *v, struct graph *emitted, struct engine *engine,
                         struct samples *samples, const struct trial *trial, struct diag *d);

#endif
