// plan: the decision for every tensor, to a file for review. Needs no engine.
#include "cmd.h"
#include "summary.h"

enum status command_plan(struct run *r) {
  TRY(run_load_model(r));
  TRY(run_load_policy(r));
  const char *output = r->settings->output
                           ? r->settings->output
                           : arena_printf(&r->arena, "%s.plan.json", r->settings->model);
  TRY(run_check_outputs(r, &output, 1));
  if (r->settings->trace)
    TRY(run_trace(r));
  TRY(run_plan(r));
  run_warn_of_idle_adjustments(r);
  TRY(plan_write(&r->plan, &r->graph, output, r->diag));
  if (r->settings->json)
    summary_json(r, output, stdout);
  else if (!r->settings->to_stdout)
    summary_text(r, output, stdout);
  return STATUS_OK;
}
