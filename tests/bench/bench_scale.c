// bench_scale MODEL TRACE POLICY: loads a model, plans and rewrites it in one process, as `convert`
// does between its runs in the engine. The trace is read from a file, which is not counted. Prints
// seconds on the clock of each stage and of all, and processor seconds of all: tests/bench/scale.
#include "clock.h"
#include "run.h"

#include <stdlib.h>
#include <time.h>

enum { LOAD, PLAN, REWRITE, STAGES };

static double processor_seconds(void) {
  return (double)clock() / CLOCKS_PER_SEC;
}

struct watch {
  double clock, processor;
};

static struct watch now(void) {
  return (struct watch){clock_seconds(), processor_seconds()};
}

static void add(struct watch *total, double *stage, struct watch since) {
  struct watch end = now();
  *stage = end.clock - since.clock;
  total->clock += end.clock - since.clock;
  total->processor += end.processor - since.processor;
}

static enum status measure(struct run *r, struct watch *total, double stages[STAGES]) {
  struct watch begin = now();
  TRY(run_load_model(r));
  TRY(run_load_policy(r));
  add(total, &stages[LOAD], begin);
  TRY(run_trace(r));
  begin = now();
  TRY(run_plan(r));
  add(total, &stages[PLAN], begin);
  begin = now();
  TRY(run_rewrite(r));
  add(total, &stages[REWRITE], begin);
  return STATUS_OK;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: bench_scale MODEL TRACE POLICY\n");
    return STATUS_USAGE;
  }
  struct settings settings = {.model = argv[1], .trace = argv[2], .policy = argv[3]};
  struct diag d = {0};
  struct run r;
  struct watch total = {0, 0};
  double stages[STAGES] = {0};
  run_begin(&r, &settings, &d);
  enum status status = measure(&r, &total, stages);
  if (status == STATUS_OK)
    printf("%.3f %.3f %.3f %.3f %.3f\n", stages[LOAD], stages[PLAN], stages[REWRITE], total.clock,
           total.processor);
  else
    diag_print(&d, stderr);
  run_close(&r);
  return (int)status;
}
