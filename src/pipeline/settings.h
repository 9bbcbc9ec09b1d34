// What a run is asked to do: the arguments and options of the command line, checked for their form
// (cli/cmd_options.c), or what a caller of the library said (api/narrowcast.c).
#ifndef SETTINGS_H
#define SETTINGS_H

#include "model.h"
#include "policy.h"

// --keep GLOB or --narrow GLOB.
struct glob_class {
  enum node_class class;
  const char *glob;
};

// Strings live as long as the run; NULL or 0: not given. Lists are in the order given.
struct settings {
  const char *model;             // first argument
  const char *second;            // second argument, for commands that take two
  const char *const *arguments;  // all of them
  size_t n_arguments;

  // What decides.
  const char *policy;              // a shipped one's name, or a file
  const char *format;              // instead of the policy's formats
  const char *io;                  // "keep" or "narrow": types of the model's inputs and outputs
  int raise_opset;                 // to this one of ai.onnx
  const char *overrides;           // the file of a person's decisions
  struct glob_class *adjustments;  // of the policy, for this run
  size_t n_adjustments;

  // What it is decided from: samples, real or made up, and a training's weights.
  const char *data;
  bool has_random;
  uint64_t random;  // seed
  size_t random_samples;
  const char **checkpoints;
  size_t n_checkpoints;
  const char **feedback;  // "weight=updated weight"
  size_t n_feedback;
  size_t steps;  // of a training, with feedback; 0: as many as there are samples

  // Files of earlier runs that are read.
  const char *trace, *plan, *verdict;

  // What is written, and how.
  const char *output;
  bool writes_text;  // output is one file of text, and no model
  bool to_stdout;    // output is "-", and text
  const char *save_plan, *save_trace, *save_verdict;
  const char *report;       // where convert writes one
  const char *report_form;  // "html" or "md"
  enum external_data external_data;
  bool save_anyway;  // although a claim does not hold
  bool check;        // of rewrite: write nothing
  bool json, quiet;

  // What is asked of a plan.
  const char *why_not;  // a format
  const char *tool;     // to write it for

  // How ONNX Runtime and the process run, and what they may take.
  const char *ort;
  int threads;
  int timeout;          // seconds
  size_t memory_limit;  // bytes
  bool in_process;      // everything runs in the calling process, which may have other threads
  struct model_limits model_limits;
  const char **limits_given;  // the same as "NAME=N"
  size_t n_limits_given;

  // Of a batch.
  int jobs;           // 0: as many as there are cores
  int shard, shards;  // part `shard` (from 1) of so many; 0: all
};

#endif
