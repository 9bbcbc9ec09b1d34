// trace: statistics of the calibration samples, and of a training's weights, to a file.
#include "checkpoints.h"
#include "cmd.h"

static const char *default_output(struct run *r) {
  return arena_printf(&r->arena, "%s.trace.json", r->settings->model);
}

static void print_result(const struct run *r, const char *output) {
  const struct trace *t = &r->trace;
  int seen = 0;
  size_t weights = 0;
  for (int v = 0; v < t->n_values; v++)
    seen += t->stats[v].runs > 0;
  for (size_t i = 0; i < t->n_sites; i++)
    weights += t->sites[i].kind == UPDATE_WEIGHT;
  if (t->steps)
    printf("traced %zu samples: %d values seen; ", t->steps, seen);
  if (weights)
    printf("%zu steps of %zu weights; ", t->weight_steps, weights);
  printf("wrote %s\n", output);
}

enum status command_trace(struct run *r) {
  const struct settings *s = r->settings;
  TRY(run_load_model(r));
  TRY(run_load_policy(r));
  const char *output = s->output ? s->output : default_output(r);
  TRY(run_check_outputs(r, &output, 1));
  if (!s->n_checkpoints || s->data || s->has_random || s->random_samples) {
    TRY(run_open_engine(r));
    TRY(run_open_samples(r, &r->policy.hold_out));
    TRY(run_trace(r));
  } else {
    trace_init(&r->trace, &r->graph);
    r->trace.window = (size_t)r->policy.window;
    r->has_trace = true;
  }
  if (s->n_checkpoints)
    TRY(checkpoints_trace(&r->trace, &r->graph, s->checkpoints, s->n_checkpoints,
                          (size_t)r->policy.window, r->diag));
  TRY(trace_write(&r->trace, &r->graph, output, r->diag));
  print_result(r, output);
  return STATUS_OK;
}
