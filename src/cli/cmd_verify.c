// verify: what a plan's claims measure on samples. Writes no model.
#include "cmd.h"
#include "records.h"
#include "summary.h"

// The held-out part is known again only if these are as many samples as the plan was made from.
static void use_all_samples(struct run *r) {
  size_t count = samples_count(r->samples);
  if (count == r->plan.samples)
    return;
  r->held_out = arena_array(&r->arena, count, sizeof *r->held_out);
  for (r->n_held_out = 0; r->n_held_out < count; r->n_held_out++)
    r->held_out[r->n_held_out] = r->n_held_out;
  r->held_out_apart = false;
}

enum status command_verify(struct run *r) {
  if (!r->settings->plan) {
    diag_hint(r->diag, "make one with `narrowcast plan`");
    return diag_fail(r->diag, STATUS_USAGE, "verify needs --plan FILE");
  }
  TRY(run_load_model(r));
  TRY(run_check_outputs(r, &r->settings->output, 1));
  TRY(run_read_plan(r));
  TRY(run_rewrite(r));
  TRY(run_open_engine(r));
  TRY(run_open_samples(r, &r->plan.hold_out));
  use_all_samples(r);
  TRY(run_verify(r));
  const char *output = r->settings->output;
  if (output)
    TRY(records_save_verdict(r, output));
  if (r->settings->json)
    summary_json(r, output, stdout);
  else
    summary_text(r, output, stdout);
  return verdict_holds(&r->verdict) ? STATUS_OK : STATUS_CLAIM;
}
