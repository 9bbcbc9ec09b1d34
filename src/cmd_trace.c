// trace: statistics of the calibration samples, to a file.
#include "cmd.h"

static const char *default_output(struct run *r) {
  return arena_printf(&r->arena, "%s.trace.json", r->settings->model);
}

enum status command_trace(struct run *r) {
  TRY(run_load_model(r));
  TRY(run_load_policy(r));
  TRY(run_open_engine(r));
  TRY(run_open_samples(r, &r->policy.hold_out));
  TRY(run_trace(r));
  const char *output = r->settings->output ? r->settings->output : default_output(r);
  TRY(trace_write(&r->trace, &r->graph, output, r->diag));
  int seen = 0;
  for (int v = 0; v < r->trace.n_values; v++)
    seen += r->trace.stats[v].runs > 0;
  printf("traced %zu samples: %d values seen; wrote %s\n", r->trace.steps, seen, output);
  return STATUS_OK;
}
