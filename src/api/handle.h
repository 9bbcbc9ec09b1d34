// What is behind a handle of the library.
#ifndef HANDLE_H
#define HANDLE_H

#include "narrowcast.h"
#include "run.h"

#include <locale.h>

// What a handle has, as bits.
enum {
  HAS_MODEL = 1,
  HAS_POLICY = 2,
  HAS_SAMPLES = 4,
  HAS_TRACE = 8,
  HAS_PLAN = 16,
  HAS_RESULT = 32,  // the rewritten model
  HAS_VERDICT = 64,
  PLAN_WAS_READ = 128,
};

// What a handle writes to files; the model first, which may have its weights beside it.
enum written {
  WRITTEN_MODEL,
  WRITTEN_TRACE,
  WRITTEN_PLAN,
  WRITTEN_VERDICT,
  WRITTEN_REPORT,
  WRITES
};

struct narrowcast {
  struct settings settings;
  struct run run;
  struct diag diag;
  unsigned has;
  bool dead;  // memory ran out in the middle of something
  locale_t locale;
  char error[3072];
  char *json;
  size_t json_size;
  const char *output;           // that was saved last
  const char *written[WRITES];  // where to, last; NULL: not yet
};

#endif
