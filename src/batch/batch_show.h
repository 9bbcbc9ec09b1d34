// What a batch shows on standard error while it runs: a line a finished model, and on a terminal a
// last line that is drawn again and again.
#ifndef BATCH_SHOW_H
#define BATCH_SHOW_H

#include "result.h"

struct batch_show {
  bool quiet, terminal;
  size_t done, total;
  size_t running;
  size_t by_outcome[OUTCOME_COUNT];
  double work_done, work_total;  // of this run, in any unit, for the time left
  double began;                  // as clock_seconds
  const char *current;           // the model started last
};

void batch_show_begin(struct batch_show *s, size_t kept);
// `note` is NULL or what to add.
void batch_show_result(struct batch_show *s, const struct result *r, const char *note);
void batch_show_tick(const struct batch_show *s);
void batch_show_end(const struct batch_show *s);

#endif
