// The calibration trace: runs the source model over samples with an Observe operator on every float
// value and keeps one `struct stats` per value. Written to and read from a trace file (JSON).
#ifndef TRACE_H
#define TRACE_H

#include "engine.h"
#include "graph.h"
#include "samples.h"
#include "stats.h"
#include "updates.h"

// Of a graph that is one step of a training: the weight that goes in, and the updated one that
// comes out and goes in at the next step. Values of the main graph.
struct feedback {
  int input, output;
};

struct trace_options {
  size_t window;         // steps per window
  size_t sample;         // as probe.sample
  size_t update_sample;  // as probe.update_sample, but 0: no update sites are watched
  int threads;
  bool progress;        // a bar on standard error
  const size_t *steps;  // indices of the samples to use, in order
  size_t n_steps;
  const struct feedback *feedback;
  size_t n_feedback;
  struct recorder *recorder;  // notes how far it is; may be NULL
  size_t rounds;              // steps to run, over the samples again and again; 0: each sample once
  const struct model *given;  // the model before its opset was raised; NULL: it was not
};

// Where something is added into something larger; see trace_updates.c.
enum update_kind {
  UPDATE_RESIDUAL,     // Add, Sub, Sum of values that are computed
  UPDATE_REDUCTION,    // terms of a sum inside an operator: reductions, normalisations, Softmax
  UPDATE_PRODUCT,      // likewise of MatMul, Gemm, Conv
  UPDATE_RUNNING_SUM,  // CumSum: its output holds the sums themselves
  UPDATE_STATE,        // of Loop and Scan: from one iteration to the next
  UPDATE_SEQUENCE,     // outputs of LSTM, GRU and RNN: from one step to the next
  UPDATE_WEIGHT,       // of a training: from one checkpoint, or step, to the next
  UPDATE_KINDS
};
const char *update_kind_name(enum update_kind kind);  // in the trace file: "residual"

struct update_site {
  enum update_kind kind;
  int value;  // the result that accumulates; with the kind it is the site's identity
};

struct trace {
  struct stats *stats;  // one per value of the graph, indexed by value id; runs == 0: not seen
  int n_values;
  size_t steps, window, sample;
  struct update_site *sites;  // malloc'ed, as are ...
  struct updates *updates;    // ... their statistics
  size_t n_sites, update_sample;
  size_t weight_steps;  // changes of weights that were looked at; 0: none
  size_t samples;       // in all, those that calibration left out included
  bool synthetic;       // samples were made up
  char samples_sha256[65];
  char engine_version[64];
  double seconds;  // of the observed runs; not written to the trace file
  // First NaN or infinity in the source model itself: value id or -1, and the sample's label.
  int nonfinite_value;
  const char *nonfinite_sample;
};

// Runs it. `t` is zeroed by the call; trace_free gives it back. Errors: STATUS_DATA, STATUS_ENGINE.
enum status trace_run(struct trace *t, struct graph *g, struct engine *engine,
                      struct samples *samples, const struct trace_options *options, struct arena *a,
                      struct diag *d);
// An empty trace: no value was seen.
void trace_init(struct trace *t, const struct graph *g);
// Appends sites, with nothing counted yet.
void trace_add_sites(struct trace *t, const struct update_site *sites, size_t n);
// Drops those from index `first` on.
void trace_drop_sites(struct trace *t, size_t first);
void trace_free(struct trace *t);

// The model that trace_run runs: g's model with an Observe behind every float value whose
// statistics do not follow from another's, as bytes in the arena, and the large initializers kept
// out of it.
struct instrumented {
  uint8_t *bytes;
  size_t size;
  struct engine_initializer *initializers;
  size_t n_initializers;
  const char *directory;  // of packed_model
  bool large;             // likewise
  int *values;            // the values observed; the `id` of an observer is its value's
  size_t n_observers;
  struct update_site *sites;  // in the arena; the `id` of a watcher is its site's index
  size_t n_sites;
  signed char *derived;  // by value id: enum stats_derivation, or -1 if it is not derived. The
                         // source is input 0 of its producer; all inputs, where that is a Concat
};
// True if the value is a float tensor that a trace measures: not a constant, which the planner
// counts exactly.
bool trace_measures(struct graph *g, int value);

// What is put into the model. Nothing: the plain run of the benchmark.
enum trace_watch { TRACE_NOTHING, TRACE_VALUES, TRACE_VALUES_AND_UPDATES };
enum status trace_instrument(struct instrumented *out, struct graph *g, enum trace_watch watch,
                             struct arena *a, struct diag *d);

// Trace file: JSON with schema number, tool version, SHA-256 of model and samples; values by scope
// and name. trace_read refuses a trace of another model (STATUS_POLICY) and ignores nothing
// silently.
enum status trace_write(const struct trace *t, struct graph *g, const char *path, struct diag *d);
void trace_print(const struct trace *t, struct graph *g, FILE *out);  // what trace_write writes
enum status trace_read(struct trace *t, struct graph *g, const char *path, struct arena *a,
                       struct diag *d);

#endif
