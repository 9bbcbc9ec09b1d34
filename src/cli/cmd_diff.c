// diff: what two plans decide differently.
#include "cmd.h"
#include "review.h"

enum status command_diff(struct run *r) {
  const struct settings *s = r->settings;
  struct review before, after;
  TRY(review_read(&before, s->model, &r->arena, r->diag));
  TRY(review_read(&after, s->second, &r->arena, r->diag));
  return review_diff(&before, &after, s->json, stdout) ? STATUS_OK : STATUS_CLAIM;
}
