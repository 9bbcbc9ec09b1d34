// verify: what a plan's claims measure on samples. Writes no model.
#include "cmd.h"
#include "records.h"
#include "summary.h"

enum status command_verify(struct run *r) {
  TRY(run_load_model(r));
  TRY(run_check_outputs(r, &r->settings->output, 1));
  TRY(run_read_plan(r));
  TRY(run_rewrite(r));
  TRY(run_open_engine(r));
  TRY(run_open_samples(r, &r->plan.hold_out));
  TRY(run_divide_as_planned(r));
  TRY(run_verify(r));
  run_enter(r, STAGE_WRITE);
  const char *output = r->settings->output;
  if (output)
    TRY(records_save_verdict(r, output));
  if (r->settings->json)
    summary_json(r, output, stdout);
  else if (!r->settings->to_stdout)
    summary_text(r, output, stdout);
  return verdict_holds(&r->verdict) ? STATUS_OK : STATUS_CLAIM;
}
