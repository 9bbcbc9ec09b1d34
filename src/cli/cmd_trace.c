// trace: statistics of the calibration samples, and of a training's weights, to a file.
#include "cmd.h"
#include "escape.h"
#include "json.h"
#include "units.h"

static const char *default_output(struct run *r) {
  return arena_printf(&r->arena, "%s.trace.json", r->settings->model);
}

static void print_json(const struct run *r, const char *output, int seen, size_t weights) {
  const struct trace *t = &r->trace;
  struct json_writer w = {.out = stdout, .inline_depth = 1};
  json_object(&w, NULL);
  json_string(&w, "model", r->settings->model);
  json_string(&w, "output", output);
  json_integer(&w, "samples", (int64_t)t->steps);
  json_bool(&w, "synthetic", t->synthetic);
  json_integer(&w, "values_seen", seen);
  json_integer(&w, "update_sites", (int64_t)t->n_sites);
  json_integer(&w, "weights", (int64_t)weights);
  json_integer(&w, "weight_steps", (int64_t)t->weight_steps);
  json_string(&w, "first_nonfinite",
              t->nonfinite_value >= 0 ? graph_value_label(&r->graph, t->nonfinite_value) : "");
  json_end_object(&w);
}

static void print_result(const struct run *r, const char *output) {
  const struct trace *t = &r->trace;
  int seen = 0;
  size_t weights = 0;
  for (int v = 0; v < t->n_values; v++)
    seen += t->stats[v].runs > 0;
  for (size_t i = 0; i < t->n_sites; i++)
    weights += t->sites[i].kind == UPDATE_WEIGHT;
  if (r->settings->json) {
    print_json(r, output, seen, weights);
    return;
  }
  if (t->steps)
    printf("traced %zu %ssample%s: %d value%s seen; ", t->steps, t->synthetic ? "made-up " : "",
           PLURAL(t->steps), seen, PLURAL(seen));
  if (weights)
    printf("%zu step%s of %zu weight%s; ", t->weight_steps, PLURAL(t->weight_steps), weights,
           PLURAL(weights));
  escape_printf(stdout, "wrote %s\n", output);
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
  }
  if (s->n_checkpoints)
    TRY(run_trace_checkpoints(r));
  TRY(model_unchanged(&r->model, r->diag));
  TRY(trace_write(&r->trace, &r->graph, output, r->diag));
  if (!s->to_stdout)
    print_result(r, output);
  return STATUS_OK;
}
