// The flight recorder: a process notes in memory that it shares with its parent what it is doing,
// so that the parent can tell when it has crashed. All calls take NULL: then nothing is noted.
#ifndef RECORDER_H
#define RECORDER_H

#include "diag.h"

#include <stddef.h>

struct recorder {
  char engine[64];   // version of the engine
  char stage[128];   // "the trace"
  char action[128];  // "while it loaded the model"
  bool narrow;       // what runs is made from the plan, and not the source alone
  // Of the sample that is run: its number from 1 (0: none is), how many there are, its label.
  size_t sample, samples;
  char label[128];
  // The value that was computed last in this sample, and the node that should have come next, with
  // its operator; `others`: how many nodes may have come before that one.
  char tensor[256], node[256], op_type[64];
  size_t others;
  // The process has done its work and said what it had to say; what comes is only tidying up.
  bool finished;
  enum status status;
  // How its parent saw it end without that: by this signal (0: by none), and for want of time.
  int signal;
  bool timed_out;
};

// A place in a run: behind a value whose computation is noticed. Strings live as long as the run.
struct record_place {
  const char *tensor;          // NULL: nothing was computed yet
  const char *node, *op_type;  // NULL: not known
  size_t others;
};

// Shared with all processes that are forked from now on; NULL if there is no memory for it.
struct recorder *recorder_open(void);
void recorder_close(struct recorder *r);

void recorder_engine(struct recorder *r, const char *version);
void recorder_stage(struct recorder *r, const char *stage, bool narrow);
// What it does next, if that is no run of a sample: "while it loaded the model".
void recorder_action(struct recorder *r, const char *action);
void recorder_sample(struct recorder *r, size_t number, size_t count, const char *label);
void recorder_place(struct recorder *r, const struct record_place *place);
void recorder_finish(struct recorder *r, enum status status);

#endif
