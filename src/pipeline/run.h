// One run of the program: the stages that the commands are made of (settings.h has what it is
// asked). Each stage uses what the earlier ones left in `struct run`; run_close gives everything
// back.
#ifndef RUN_H
#define RUN_H

#include "engine.h"
#include "passes.h"
#include "plan.h"
#include "policy.h"
#include "samples.h"
#include "settings.h"
#include "trace.h"
#include "verify.h"

// Where the time of a run goes. Each moment belongs to one stage, so that together they are all.
enum run_stage {
  STAGE_READ,  // and check: model, policy, plan
  STAGE_ENGINE,
  STAGE_SAMPLES,
  STAGE_TRACE,
  STAGE_PLAN,  // and rewrite
  STAGE_VERIFY,
  STAGE_PROMOTE,  // plans, rewrites and verifications of all its rounds
  STAGE_LOADS,    // whether the engine loads the result at every level
  STAGE_WRITE,
  STAGE_COUNT,
  STAGE_NONE = STAGE_COUNT,  // outside the library
};
extern const char *const run_stage_names[STAGE_COUNT];

struct run {
  const struct settings *settings;
  struct diag *diag;
  struct recorder *recorder;  // of a supervised run, else NULL
  struct arena arena;
  struct schema_table schemas;
  struct model model;
  struct model given;  // if its opset is raised, the same before that
  struct graph graph;
  int threads;       // of engines: as the settings say, or 1 if the model needs it
  int source_nodes;  // of the file, before its opset is raised
  struct policy policy;
  struct overrides overrides;
  const char **outputs;  // that run_check_outputs was asked about last
  size_t n_outputs;
  struct engine *engine;
  struct samples *samples;
  // Indices of the samples that calibrate, and of those held out for verify; held_out_apart is
  // false where there is one sample only, which then serves for both.
  size_t *calibration, *held_out;
  size_t n_calibration, n_held_out;
  bool held_out_apart;
  struct trace trace;
  bool has_trace;
  struct promotions promotions;
  bool promotion_failed;  // it would have left nothing narrow
  struct plan plan;
  struct arena round;  // of the emitted model: given back when it is made again
  struct model emitted;
  struct graph emitted_graph;
  struct spool *spool;   // of its new weights
  struct spool *copies;  // of weights of the model that engines need aligned
  struct rewrite_report rewrite;
  struct verdict verdict;
  struct reference reference;
  bool has_verdict;
  enum run_stage stage;  // now, since then on the clock
  double stage_since;
  double seconds[STAGE_COUNT];  // of the stages before
};

void run_begin(struct run *r, const struct settings *settings, struct diag *d);
void run_close(struct run *r);

// From here on the run's time is that of the stage; returns the one before. The functions below
// call it; nothing that promotion does counts elsewhere, but for STAGE_LOADS.
enum run_stage run_enter(struct run *r, enum run_stage stage);

// What loads, reads or traces leaves the run as it was if it fails, but for samples, which are then
// to be closed.
enum status run_load_model(struct run *r);
// Default fp16; adjusted as the settings say, and with their overrides. If it says so, the model's
// opset is raised: load the model first.
enum status run_load_policy(struct run *r);
// Fails if two of the paths are one file, if one may be a data file of the model that another is,
// or if one is a file that the run reads: the model, its external data, the trace, the plan, the
// verdict, the policy, its target, the overrides, a checkpoint, a sample or the engine; or if none
// can be written there, which is said before a long run and not after it. Paths may be NULL. Call
// after run_load_model and run_load_policy; samples may be opened later.
enum status run_check_outputs(struct run *r, const char *const *paths, int count);
// That none of those outputs is a sample: run_open_samples asks.
enum status run_check_samples(struct run *r);
enum status run_open_engine(struct run *r);
// --data, or made-up samples; divides them as the policy says.
enum status run_open_samples(struct run *r, const struct hold_out *rule);
enum status run_check_feedback(struct run *r);     // that the model has what is named in it
enum status run_trace(struct run *r);              // or reads --trace
enum status run_trace_checkpoints(struct run *r);  // the run's, behind the trace or without one
enum status run_plan(struct run *r);
// Warns of each --keep and --narrow that decides for no node of the plan, with the reason.
void run_warn_of_idle_adjustments(struct run *r);
enum status run_read_plan(struct run *r);  // --plan
enum status run_rewrite(struct run *r);    // a changed copy of the model, in memory
enum status run_verify(struct run *r);     // and whether the engine loads it
// Plans, rewrites and verifies; if a claim does not hold, promotes by what rehearsals on
// calibration samples show, and from the inputs on, each as often as the policy says, and takes the
// better result; then whether the engine loads it.
enum status run_until_claims_hold(struct run *r);
enum status run_save(struct run *r, const char *path);  // and reads it back

// "model.fp16.onnx" beside "model.onnx".
const char *run_default_output(struct run *r);

// Of a plan that was read: the samples are divided as the plan's were if they are as many and those
// that calibrate are the same; they are read for that. Else all are used.
enum status run_divide_as_planned(struct run *r);
// Of a trace that was read: unless what calibrates is what it was made from, as many samples of the
// same contents, nothing counts as held out from it.
enum status run_compare_with_trace(struct run *r);

#endif
