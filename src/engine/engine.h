// ONNX Runtime, loaded with dlopen: the only module that knows it. Sessions run models that may
// hold custom operators of domain "narrowcast", whose kernels see tensors in place:
//
//   Observe(x) -> n            attribute id: adds x to probe->observed[id]; x float, double,
//                              float16 or bfloat16 (converted), any shape; n is one int64 that
//                              nobody reads
//   Round(x) -> y              attributes format (name, see format.h), scale (power of two, log2),
//                              saturate, ftz: y = value to format and back; float in, float out
//   Decode(codes) -> y         y: the values of codes of any float format; float out
//   Compare(reference, narrow) -> n   attributes id, scale (power of two that narrow is stored
//                              times, log2): adds both to probe->compared[id] (not the top-1
//                              counts); float
//   Update, Change, Steps, Accumulate, Dot   attribute id: each watches an update site and adds to
//                              probe->updates[id]; see engine_updates.h
//
// Kernels use ONNX Runtime's own thread pool and give the same result for any number of threads.
// Nodes that nobody reads, such as Observe and Compare, belong at the end of their graph, that of
// the value which is ready first last, and every output of the graph should have one: the engine
// works backwards from such nodes, last one first, so each then runs right behind the value's
// producer. In another order it runs the whole model first and keeps every tensor until then.
#ifndef ENGINE_H
#define ENGINE_H

#include "compare.h"
#include "diag.h"
#include "recorder.h"
#include "samples.h"
#include "stats.h"
#include "updates.h"

struct engine;   // a loaded library
struct session;  // a model that is ready to run

struct engine_info {
  char version[64];  // of the library, e.g. "1.30.0"
  char path[512];    // the library that was loaded
};

// Loads the library: `path` if not NULL (a file, or a folder that holds one), else the
// environment's NARROWCAST_ORT ("none": there is none), the one that the loader finds (in a build
// folder the set-up's own copy, .deps/lib, else the system's), an onnxruntime Python package. Any
// version from 1.17 on. Error: STATUS_ENGINE, and the hint says how to get one.
enum status engine_open(struct engine **engine, const char *path, struct diag *d);
void engine_close(struct engine *engine);
// Standard error is the whole process's: in one that is not ours, it is not led away while the
// first session starts, though some versions then print there.
void engine_spare_stderr(struct engine *engine);
const struct engine_info *engine_info(const struct engine *engine);

// Where the custom operators put what they see. Owned by the caller; must outlive the session. The
// caller sets window and step before each run.
struct probe {
  struct stats *observed;
  size_t n_observed;
  struct compare *compared;
  size_t n_compared;
  size_t sample;  // histograms and sums cover at most about this many elements of a tensor per run
                  // (systematic, every k-th); 0: all
  size_t window;
  int64_t step;
  struct updates *updates;  // by site
  size_t n_updates;
  size_t update_sample;               // pairs (a, u), or terms of sums, of a site per run; 0: all
  struct recorder *recorder;          // gets places[id] when Observe or Compare has seen its value
  const struct record_place *places;  // by id, if there is a recorder
};

enum optimisation { OPTIMISE_NONE, OPTIMISE_BASIC, OPTIMISE_EXTENDED, OPTIMISE_ALL };
enum { OPTIMISATION_LEVELS = OPTIMISE_ALL + 1 };
extern const char *const optimisation_names[OPTIMISATION_LEVELS];  // "none", ...

// Data of an initializer that is kept out of the model's bytes (the model says EXTERNAL for it,
// with any location). `data` needs no alignment and must outlive the session. The engine makes two
// copies; what lies in a file it maps, from version 1.21 on.
struct engine_initializer {
  const char *name;
  int elem_type;
  size_t rank;
  const int64_t *dims;
  const void *data;
  size_t size;
  bool in_file;  // the model's bytes say in which file below `directory` the same data lies
};

struct session_options {
  enum optimisation optimisation;
  // Leave QuantizeLinear and DequantizeLinear as they are. ONNX Runtime 1.30 takes those of float8
  // for those of int8 otherwise, and makes invalid models of them.
  bool keep_quantised;
  // Make no second copy of weights in the layout that a kernel likes best: matrix products take
  // longer, and weights that are mapped take no memory of the process's own.
  bool lean;
  int threads;  // 0: the engine's default (all cores)
  const struct engine_initializer *initializers;
  size_t n_initializers;
  struct probe *probe;    // NULL if the model has no custom operators that need one
  const char *directory;  // where the model's remaining external data lies; NULL: current
};

// Prepares a model from memory. Errors: STATUS_ENGINE with the engine's own message.
enum status session_open(struct session **session, struct engine *engine, const uint8_t *bytes,
                         size_t size, const struct session_options *options, struct diag *d);

void session_close(struct session *session);

// Runs once. inputs: by name, every required input of the model. outputs: names wanted (may be 0;
// an Observe-only run still computes the graph's outputs, so name at least one); results are arrays
// owned by the session until the next run, data in place; elem_type 0 and no data for what is no
// tensor. Inputs named "label:..." that the model does not have are left out. Errors:
// STATUS_ENGINE.
enum status session_run(struct session *session, const struct array *inputs, size_t n_inputs,
                        const char *const *output_names, size_t n_outputs, struct array *outputs,
                        struct diag *d);

#endif
