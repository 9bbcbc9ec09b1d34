// policy: check a policy file, show a shipped policy or target, list the policies.
#include "cmd.h"
#include "escape.h"

#include <string.h>

static enum status check(struct run *r, const char *path) {
  TRY(policy_load(&r->policy, path, &r->arena, r->diag));
  escape_printf(stdout, "%s: policy %s version %d, %d rules, %d claims, ladder", path,
                r->policy.name, r->policy.version, r->policy.n_rules, r->policy.n_claims);
  if (r->policy.operands.wanted || r->policy.tf32)
    printf(" %s", formats[r->policy.operands.format].name);
  for (int i = 0; i < r->policy.n_ladder; i++)
    printf(" %s", formats[r->policy.ladder[i]].name);
  printf("\n");
  return STATUS_OK;
}

static enum status show(struct run *r, const char *name) {
  const char *text = policy_text(name);
  text = text ? text : target_text(name);
  if (!text)
    return policy_load(&r->policy, name, &r->arena, r->diag);  // says what is near
  fputs(text, stdout);
  return STATUS_OK;
}

static enum status list(struct run *r) {
  for (const char *const *name = policy_names(); *name; name++) {
    TRY(policy_load(&r->policy, *name, &r->arena, r->diag));
    printf("%-10s %s\n", *name, r->policy.description);
  }
  return STATUS_OK;
}

enum status command_policy(struct run *r) {
  const char *verb = r->settings->model;
  const char *name = r->settings->second;
  if (strcmp(verb, "check") == 0 && name)
    return check(r, name);
  if (strcmp(verb, "show") == 0 && name)
    return show(r, name);
  if (strcmp(verb, "list") == 0 && !name)
    return list(r);
  return diag_fail(r->diag, STATUS_USAGE,
                   "policy takes check FILE, show POLICY or list, not \"%s%s%s\"", verb,
                   name ? " " : "", name ? name : "");
}
