// convert: the whole pipeline in one command. The table of contents of the program.
#include "cmd.h"
#include "records.h"
#include "summary.h"

static enum status check_outputs(struct run *r, const char *output) {
  const char *paths[] = {output, r->settings->save_plan, r->settings->save_trace,
                         r->settings->save_verdict, r->settings->report};
  return run_check_outputs(r, paths, sizeof paths / sizeof paths[0]);
}

enum status command_convert(struct run *r) {
  TRY(run_load_model(r));
  TRY(run_load_policy(r));
  const char *output = r->settings->output ? r->settings->output : run_default_output(r);
  TRY(check_outputs(r, output));
  TRY(run_open_engine(r));
  TRY(run_open_samples(r, &r->policy.hold_out));
  TRY(run_trace(r));
  TRY(run_until_claims_hold(r));
  run_enter(r, STAGE_WRITE);
  run_warn_of_idle_adjustments(r);
  TRY(model_unchanged(&r->model, r->diag));
  TRY(records_save(r));

  bool holds = !r->has_verdict || verdict_holds(&r->verdict);
  if (holds || r->settings->save_anyway)
    TRY(run_save(r, output));
  else
    output = NULL;
  if (r->settings->json)
    summary_json(r, output, stdout);
  else
    summary_text(r, output, stdout);
  if (!output && !r->settings->json)
    printf("note         nothing was written: --keep, another policy or more data may save it, "
           "--save-anyway writes it as it is\n");
  return holds ? STATUS_OK : STATUS_CLAIM;
}
