// emit: a plan in the form that another tool reads.
#include "cmd.h"
#include "json.h"
#include "nearest.h"
#include "review.h"

#include <string.h>

static enum status check_tool(struct run *r) {
  static const char *const tools[] = {"tensorrt", "onnxruntime", NULL};
  const struct settings *s = r->settings;
  for (int i = 0; tools[i]; i++)
    if (strcmp(s->tool, tools[i]) == 0)
      return STATUS_OK;
  const char *near = nearest_name(s->tool, tools);
  diag_hint(r->diag, near ? "Did you mean %s?" : "The tools are tensorrt and onnxruntime.", near);
  return diag_fail(r->diag, STATUS_USAGE, "--for: there is no tool \"%s\"", s->tool);
}

enum status command_emit(struct run *r) {
  const struct settings *s = r->settings;
  TRY(check_tool(r));
  TRY(run_check_outputs(r, &s->output, 1));
  struct review plan;
  TRY(review_read(&plan, s->model, &r->arena, r->diag));
  if (strcmp(s->tool, "tensorrt") == 0)
    return review_emit_tensorrt(&plan, s->output, r->diag);
  if (!s->trace) {
    diag_hint(r->diag, "`narrowcast trace` makes one.");
    return diag_fail(r->diag, STATUS_USAGE,
                     "--for onnxruntime writes ranges, and needs the trace that the plan is from: "
                     "--trace FILE");
  }
  struct review_range *ranges;
  TRY(review_read_trace(&plan, s->trace, &ranges, &r->arena, r->diag));
  return review_emit_onnxruntime(&plan, ranges, s->output, r->diag);
}
