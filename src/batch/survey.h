// The survey of a zoo: for each model a key over everything that its result depends on, by content,
// and how large it is. Models are hostile, so they are read in processes of their own.
#ifndef SURVEY_H
#define SURVEY_H

#include "known.h"
#include "model.h"
#include "zoo.h"

#include <stdint.h>

struct surveyed {
  // SHA-256 of: this program, the engine's version, the model with its external data, samples,
  // policy and target, and the arguments that change the result. "": the model could not be read.
  char key[65];
  bool readable;            // it is a model; else its conversion ends at once
  uint64_t bytes;           // of the model and its external data
  uint64_t sample_bytes;    // of its samples,
  uint64_t largest_sample;  // and of the largest file of them
};

struct survey_settings {
  const char *engine;            // path for engine_open, or NULL
  const char *policy;            // of models without one of their own
  const char *const *arguments;  // of all conversions, as far as they change the result
  size_t n_arguments;
  const struct model_limits *model_limits;  // NULL: the default ones
  // A larger file is not read: its size stands for its content. No conversion could hold it, and
  // the holes of a hostile one take no disk, but hours to read.
  uint64_t largest_file;
  const struct known *known;  // files that need not be read; NULL: none, and `met` is not filled
  struct known *met;          // gets the files that may be known from now on
  int jobs;
  bool progress;
};

// Opens the engine in a process of its own and fills `version`, so that a missing one is one error
// and not one a model.
enum status survey_engine(const char *path, char version[64], struct diag *d);

// Fills result[i] for each model i with wanted[i]. Errors: STATUS_IO (no process can be started).
enum status survey_zoo(const struct zoo *z, const bool *wanted, const struct survey_settings *s,
                       const char *engine_version, struct surveyed *result, struct diag *d);

#endif
