// Overrides: decisions of a person, in a file apart from the plan that the program makes, so that
// they are made again with every new plan. Each names nodes or tensors by a glob and says the
// format that they get, whatever the policy's rules and tests say; only what an operator cannot
// take is refused. rules/README.md explains the file.
#ifndef OVERRIDES_H
#define OVERRIDES_H

#include "graph.h"
#include "policy.h"

struct override {
  const char *glob;
  enum format_id format;
  bool has_scale;  // results are stored times 2^scale_log2; else as the plan chooses
  int scale_log2;
  const char *note;  // why, in the person's words
};

struct overrides {
  const char *file;  // name without folder
  char sha256[65];
  struct override *list;
  int count;
};

// Errors: STATUS_POLICY with path and line, STATUS_IO.
enum status overrides_read(struct overrides *o, const char *path, struct arena *a, struct diag *d);

// The override that decides for each node, or NULL: the last whose glob matches the node's label,
// or the label of a tensor that it makes, or of a constant or input that it reads. Every override
// that decides nothing, or what the policy or an operator forbids, is named (STATUS_POLICY).
enum status overrides_match(const struct overrides *o, struct graph *g, const struct policy *policy,
                            const struct override ***by_node, struct arena *a, struct diag *d);

// A rule that stands for the override, for the plan's lists.
struct rule override_rule(const struct override *o, struct arena *a);

#endif
