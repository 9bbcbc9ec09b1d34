// What the readers of a plan file share (plan_read.c, plan_read_head.c): where they are, and
// members by their types. Each refuses with the line, the path of the member and STATUS_POLICY;
// texts are copied into the arena.
#ifndef PLAN_READER_H
#define PLAN_READER_H

#include "json.h"
#include "plan.h"

struct plan_reader {
  struct plan *plan;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
  const char *path;
  const struct json *root;
  struct json_path at;
  struct map scopes;        // path -> scope
  bool *seen;               // by node: listed
  struct diag_list errors;  // of nodes and values
  int differing;            // values whose format in the file is not what their nodes make of it
  struct map labels;        // label -> value
  struct map rules;         // id -> rule
};

#define READ_FAIL(r, ...)                                                                          \
  json_fail((r)->root, (r)->path, &(r)->at, STATUS_POLICY, (r)->diag, __VA_ARGS__)

enum status reader_member(struct plan_reader *r, const struct json *object, const char *key,
                          const struct json **out);
// That the object has no other members than the NULL-terminated keys: an edit under another name
// would be neither applied nor named.
enum status reader_keys(struct plan_reader *r, const struct json *object, const char *const *keys);
enum status reader_text(struct plan_reader *r, const struct json *object, const char *key,
                        const char **out);
// A number from 0 to 1e9.
enum status reader_integer(struct plan_reader *r, const struct json *object, const char *key,
                           int *out);
// One that nodes run in: fp16, bf16 or fp32.
enum status reader_format(struct plan_reader *r, const struct json *object, const char *key,
                          enum format_id *out);
enum status reader_class(struct plan_reader *r, const struct json *object, const char *key,
                         enum node_class *out);
// A value by its label (graph_value_label).
enum status reader_label(struct plan_reader *r, const struct json *object, const char *key,
                         int *value);
// The reason there, if it is a known one; else *out stays: reasons serve people.
void reader_reason(const struct json *object, const char *key, enum reason *out);

// Reads what stands before nodes and values: model, policy, rules, overrides, statistics, claims
// and promotions.
enum status plan_read_head(struct plan_reader *r, const struct json *root);

#endif
