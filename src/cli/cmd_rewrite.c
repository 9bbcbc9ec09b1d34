// rewrite: applies a plan file, without data and without an engine.
#include "cmd.h"
#include "summary.h"

enum status command_rewrite(struct run *r) {
  if (r->settings->check && r->settings->output)
    return diag_fail(r->diag, STATUS_USAGE, "--check writes nothing: leave -o out");
  TRY(run_load_model(r));
  TRY(run_read_plan(r));
  const char *output = NULL;
  if (!r->settings->check)
    output = r->settings->output ? r->settings->output : run_default_output(r);
  TRY(run_check_outputs(r, &output, 1));
  TRY(run_rewrite(r));
  if (output)
    TRY(run_save(r, output));
  if (r->settings->json)
    summary_json(r, output, stdout);
  else
    summary_text(r, output, stdout);
  if (!output && !r->settings->json)
    printf("checked      the plan can be applied; nothing was written\n");
  return STATUS_OK;
}
