// report: a plan, and its trace and verdict, for people to review. Needs no model and no engine.
#include "cmd.h"
#include "escape.h"
#include "report.h"

#include <string.h>

static enum status find_form(struct run *r, enum report_form *form) {
  const char *name = r->settings->report_form, *output = r->settings->output;
  if (!name) {
    *form = output ? report_form_of(output) : REPORT_HTML;
    return STATUS_OK;
  }
  for (int i = 0; report_form_names[i]; i++)
    if (strcmp(name, report_form_names[i]) == 0) {
      *form = (enum report_form)i;
      return STATUS_OK;
    }
  return diag_fail(r->diag, STATUS_USAGE, "--format takes html or md, not \"%s\"", name);
}

static enum status read_and_write(struct run *r, struct report *report, enum report_form form,
                                  const char *output) {
  const struct settings *s = r->settings;
  TRY(report_read(report, REPORT_PLAN, s->model, r->diag));
  if (s->trace)
    TRY(report_read(report, REPORT_TRACE, s->trace, r->diag));
  if (s->verdict)
    TRY(report_read(report, REPORT_VERDICT, s->verdict, r->diag));
  TRY(report_check(report, r->diag));
  return report_write(report, form, output, r->diag);
}

enum status command_report(struct run *r) {
  const struct settings *s = r->settings;
  enum report_form form = REPORT_HTML;
  TRY(find_form(r, &form));
  const char *output =
      s->output ? s->output : arena_printf(&r->arena, "%s.%s", s->model, report_form_names[form]);
  TRY(run_check_outputs(r, &output, 1));
  struct report report = {0};
  enum status status = read_and_write(r, &report, form, output);
  report_close(&report);
  if (status == STATUS_OK && !s->to_stdout)
    escape_printf(stdout, "wrote %s\n", output);
  return status;
}
