// explain: why a plan decides as it does, from the plan file alone.
#include "cmd.h"
#include "review.h"

static enum status explain(struct run *r, const struct review *plan,
                           const struct review_range *ranges) {
  const struct settings *s = r->settings;
  if (!s->why_not)
    return review_explain(plan, ranges, s->second, stdout, r->diag);
  const struct format *f = format_find(s->why_not);
  if (!f) {
    const char *near = format_near(s->why_not);
    diag_hint(r->diag, "%s%s%sThe plan has %s.", near ? "Did you mean " : "", near ? near : "",
              near ? "? " : "", review_formats(plan, &r->arena));
    return diag_fail(r->diag, STATUS_USAGE, "--why-not: there is no format \"%s\"", s->why_not);
  }
  return review_why_not(plan, f->id, stdout, &r->arena, r->diag);
}

static enum status check_arguments(struct run *r) {
  const struct settings *s = r->settings;
  if (!s->why_not == !s->second)
    return diag_fail(r->diag, STATUS_USAGE,
                     "explain takes either the NAME of a node or tensor, or --why-not FORMAT");
  return STATUS_OK;
}

enum status command_explain(struct run *r) {
  const struct settings *s = r->settings;
  struct review plan;
  struct review_range *ranges = NULL;
  TRY(check_arguments(r));
  TRY(review_read(&plan, s->model, &r->arena, r->diag));
  if (s->verdict)
    TRY(review_read_errors(&plan, s->verdict, &r->arena, r->diag));
  if (s->trace)
    TRY(review_read_trace(&plan, s->trace, &ranges, &r->arena, r->diag));
  return explain(r, &plan, ranges);
}
