// Compares two plans by what they decide, the format of each node and the format and scale of each
// tensor, matched by label. Numbers that moved without changing a decision are no difference.
#include "escape.h"
#include "json.h"
#include "review.h"

#include <math.h>
#include <string.h>

static int find_node(const struct review *r, const char *label) {
  return map_get(&r->nodes_by_label, 0, label);
}

static int find_value(const struct review *r, const char *label) {
  return map_get(&r->values_by_label, 0, label);
}

static bool same_node(const struct review_node *x, const struct review_node *y) {
  return x && y && x->format == y->format && x->narrow_operands == y->narrow_operands &&
         strcmp(x->operands_format, y->operands_format) == 0;
}

static bool same_value(const struct review_value *x, const struct review_value *y) {
  return x && y && x->format == y->format && x->scale_log2 == y->scale_log2 &&
         x->is_operand == y->is_operand && x->operand_scale == y->operand_scale &&
         x->operand_block == y->operand_block && x->operand_axis == y->operand_axis;
}

// Calls `node` and `value` with each pair that differs, one of them NULL where a plan lacks it:
// first what `before` has, in its order, then what only `after` has.
struct visitor {
  void (*node)(struct visitor *v, const struct review_node *x, const struct review_node *y);
  void (*value)(struct visitor *v, const struct review_value *x, const struct review_value *y);
  const struct review *before, *after;
  FILE *out;
  struct json_writer *json;
  int found;
};

static void visit_nodes(const struct review *before, const struct review *after,
                        struct visitor *v) {
  for (int n = 0; n < before->n_nodes; n++) {
    int other = find_node(after, before->nodes[n].label);
    const struct review_node *y = other >= 0 ? &after->nodes[other] : NULL;
    if (!same_node(&before->nodes[n], y)) {
      v->found++;
      v->node(v, &before->nodes[n], y);
    }
  }
  for (int n = 0; n < after->n_nodes; n++)
    if (find_node(before, after->nodes[n].label) < 0) {
      v->found++;
      v->node(v, NULL, &after->nodes[n]);
    }
}

static void visit_values(const struct review *before, const struct review *after,
                         struct visitor *v) {
  for (int n = 0; n < before->n_values; n++) {
    int other = find_value(after, before->values[n].label);
    const struct review_value *y = other >= 0 ? &after->values[other] : NULL;
    if (!same_value(&before->values[n], y)) {
      v->found++;
      v->value(v, &before->values[n], y);
    }
  }
  for (int n = 0; n < after->n_values; n++)
    if (find_value(before, after->values[n].label) < 0) {
      v->found++;
      v->value(v, NULL, &after->values[n]);
    }
}

static int count_narrow(const struct review *r) {
  int count = 0;
  for (int n = 0; n < r->n_nodes; n++)
    count += r->nodes[n].format != FORMAT_FP32;
  return count;
}

// ---- text ----

static void print_decision(const struct review_node *n, FILE *out) {
  if (!n) {
    escape_printf(out, "not there");
    return;
  }
  escape_printf(out, "%s", formats[n->format].name);
  if (n->reason == REASON_NONE)
    escape_printf(out, " by rule %s", n->rule[0] ? n->rule : "none");
  else if (n->because_of)
    escape_printf(out, " (%s of %s)", reason_name(n->reason), n->because_of);
  else if (n->reason == REASON_KEPT)
    escape_printf(out, " (kept by %s)", n->rule);
  else if (n->reason == REASON_CLASS && n->rule[0])
    escape_printf(out, " (class by rule %s)", n->rule);
  else
    escape_printf(out, " (%s)", reason_name(n->reason));
}

static void print_operands(const struct review_node *n, FILE *out) {
  if (n && n->narrow_operands)
    escape_printf(out, ", operands in %s", n->operands_format);
}

static void print_node(struct visitor *v, const struct review_node *x,
                       const struct review_node *y) {
  const struct review_node *n = x ? x : y;
  escape_printf(v->out, "  node %s (%s): ", n->label, n->op);
  print_decision(x, v->out);
  print_operands(x, v->out);
  escape_printf(v->out, " -> ");
  print_decision(y, v->out);
  print_operands(y, v->out);
  escape_printf(v->out, "\n");
}

static void print_in_operand_format(const struct review *r, const struct review_value *v,
                                    FILE *out) {
  escape_printf(out, "%s", formats[r->operand_format].name);
  if (v->operand_block)
    escape_printf(out, " in blocks of %d along axis %d", v->operand_block, v->operand_axis);
  else if (v->operand_scale)
    escape_printf(out, " times 2^%d", v->operand_scale);
}

static void print_operand(const struct review *r, const struct review_value *v, FILE *out) {
  if (!v->is_operand || !r->has_operand_format)
    return;
  escape_printf(out, ", read by products in ");
  print_in_operand_format(r, v, out);
}

static void print_storage(const struct review *r, const struct review_value *v, FILE *out) {
  if (!v) {
    escape_printf(out, "not there");
    return;
  }
  if (review_only_operand(r, v))
    print_in_operand_format(r, v, out);
  else {
    escape_printf(out, "%s", formats[v->format].name);
    if (v->scale_log2)
      escape_printf(out, " times 2^%d", v->scale_log2);
    print_operand(r, v, out);
  }
  if (v->fit.reason != REASON_NONE)
    escape_printf(out, " (%s)", reason_name(v->fit.reason));
}

static void print_value(struct visitor *v, const struct review_value *x,
                        const struct review_value *y) {
  escape_printf(v->out, "  tensor %s: ", (x ? x : y)->label);
  print_storage(v->before, x, v->out);
  escape_printf(v->out, " -> ");
  print_storage(v->after, y, v->out);
  escape_printf(v->out, "\n");
}

static void print_head(const struct review *before, const struct review *after, FILE *out) {
  escape_printf(out, "%s: policy %s version %d\n", before->path, before->policy,
                before->policy_version);
  escape_printf(out, "%s: policy %s version %d\n", after->path, after->policy,
                after->policy_version);
  if (strcmp(before->model_sha256, after->model_sha256) != 0)
    escape_printf(out, "of different models: %s and %s\n", before->model_file, after->model_file);
}

static void print_totals(const struct review *before, const struct review *after, FILE *out) {
  escape_printf(out, "narrow nodes %d of %d -> %d of %d", count_narrow(before), before->n_nodes,
                count_narrow(after), after->n_nodes);
  if (before->casts >= 0 && after->casts >= 0)
    escape_printf(out, "; Casts %d -> %d", before->casts, after->casts);
  if (!isnan(before->time_after) && !isnan(after->time_after))
    escape_printf(out, "; modelled %.3g -> %.3g us", 1e6 * before->time_after,
                  1e6 * after->time_after);
  if (!isnan(before->traffic_after) && !isnan(after->traffic_after))
    escape_printf(out, ", %.1f -> %.1f KiB moved", before->traffic_after / 1024,
                  after->traffic_after / 1024);
  escape_printf(out, "\n");
}

static bool diff_text(const struct review *before, const struct review *after, FILE *out) {
  struct visitor v = {
      .node = print_node, .value = print_value, .before = before, .after = after, .out = out};
  print_head(before, after, out);
  visit_nodes(before, after, &v);
  visit_values(before, after, &v);
  if (v.found == 0)
    escape_printf(out, "the same decisions\n");
  print_totals(before, after, out);
  return v.found == 0;
}

// ---- JSON ----

static void json_decision(struct json_writer *w, const char *key, const struct review_node *n) {
  if (!n)
    return;
  json_object(w, key);
  json_string(w, "format", formats[n->format].name);
  json_string(w, "rule", n->rule);
  json_bool(w, "narrow_operands", n->narrow_operands);
  if (n->reason != REASON_NONE)
    json_string(w, "reason", reason_name(n->reason));
  if (n->because_of)
    json_string(w, "because_of", n->because_of);
  json_end_object(w);
}

static void json_node(struct visitor *v, const struct review_node *x, const struct review_node *y) {
  json_object(v->json, NULL);
  json_string(v->json, "node", (x ? x : y)->label);
  json_decision(v->json, "before", x);
  json_decision(v->json, "after", y);
  json_end_object(v->json);
}

static void json_storage(struct json_writer *w, const char *key, const struct review_value *v) {
  if (!v)
    return;
  json_object(w, key);
  json_string(w, "format", formats[v->format].name);
  json_integer(w, "scale_log2", v->scale_log2);
  if (v->is_operand)
    json_integer(w, "operand_scale_log2", v->operand_scale);
  if (v->operand_block) {
    json_integer(w, "operand_axis", v->operand_axis);
    json_integer(w, "operand_block_size", v->operand_block);
  }
  if (v->fit.reason != REASON_NONE)
    json_string(w, "reason", reason_name(v->fit.reason));
  json_end_object(w);
}

static void json_value(struct visitor *v, const struct review_value *x,
                       const struct review_value *y) {
  json_object(v->json, NULL);
  json_string(v->json, "value", (x ? x : y)->label);
  json_storage(v->json, "before", x);
  json_storage(v->json, "after", y);
  json_end_object(v->json);
}

static void json_totals(struct json_writer *w, const char *key, const struct review *r) {
  json_object(w, key);
  json_string(w, "policy", r->policy);
  json_string(w, "model_sha256", r->model_sha256);
  json_integer(w, "float_nodes", r->n_nodes);
  json_integer(w, "narrow_nodes", count_narrow(r));
  if (r->casts >= 0)
    json_integer(w, "casts", r->casts);
  if (!isnan(r->time_after))
    json_number(w, "seconds", r->time_after);
  if (!isnan(r->traffic_after))
    json_number(w, "traffic_bytes", r->traffic_after);
  json_end_object(w);
}

static bool diff_json(const struct review *before, const struct review *after, FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 2};
  struct visitor v = {.node = json_node, .value = json_value, .json = &w};
  json_object(&w, NULL);
  json_totals(&w, "before", before);
  json_totals(&w, "after", after);
  json_array(&w, "nodes");
  visit_nodes(before, after, &v);
  json_end_array(&w);
  json_array(&w, "values");
  visit_values(before, after, &v);
  json_end_array(&w);
  json_bool(&w, "same", v.found == 0);
  json_end_object(&w);
  return v.found == 0;
}

bool review_diff(const struct review *before, const struct review *after, bool json, FILE *out) {
  return json ? diff_json(before, after, out) : diff_text(before, after, out);
}
