// Reads plan, verdict and trace files for review. The files may come from anywhere: every member
// that is used is checked for its type, and lists are only as long as the file.
#include "review.h"

#include "json.h"

#include <math.h>
#include <string.h>

struct reading {
  struct review *review;
  struct arena *arena;
  struct diag *diag;
  const char *path;
  const struct json *root;
  struct json_path at;
};

#define READ_FAIL(r, ...)                                                                          \
  json_fail((r)->root, (r)->path, &(r)->at, STATUS_POLICY, (r)->diag, __VA_ARGS__)

// ---- members ----

// The text of a member, in the arena; NULL if there is none.
static const char *optional_text(struct reading *r, const struct json *object, const char *key) {
  const struct json *item = json_member(object, key);
  return json_is(item, JSON_STRING) ? arena_strdup(r->arena, item->text) : NULL;
}

static enum status text(struct reading *r, const struct json *object, const char *key,
                        const char **out) {
  *out = optional_text(r, object, key);
  return *out ? STATUS_OK : READ_FAIL(r, "\"%s\" is missing or no string", key);
}

static double number(const struct json *object, const char *key, double otherwise) {
  double value;
  return json_to_number(json_member(object, key), &value) ? value : otherwise;
}

static int integer(const struct json *object, const char *key, int otherwise) {
  double value = number(object, key, otherwise);
  return value >= -1e9 && value <= 1e9 ? (int)value : otherwise;
}

static enum status format(struct reading *r, const struct json *object, const char *key,
                          enum format_id *out) {
  const char *name;
  TRY(text(r, object, key, &name));
  const struct format *f = format_find(name);
  if (!f)
    return READ_FAIL(r, "\"%s\": there is no format \"%s\"", key, name);
  *out = f->id;
  return STATUS_OK;
}

static enum reason reason(const struct json *object, const char *key) {
  const struct json *item = json_member(object, key);
  enum reason found = REASON_NONE;
  if (json_is(item, JSON_STRING))
    reason_find(item->text, &found);
  return found;
}

static enum status list(struct reading *r, const struct json *object, const char *key,
                        const struct json **out) {
  *out = json_member(object, key);
  return json_is(*out, JSON_ARRAY) ? STATUS_OK : READ_FAIL(r, "\"%s\" is missing or no list", key);
}

// As graph_value_label, except that it never puts "::" in front.
static const char *value_label(struct reading *r, const char *scope, const char *name) {
  return scope[0] ? arena_printf(r->arena, "%s::%s", scope, name) : name;
}

static enum status open_file(struct reading *r, const char *path) {
  r->path = path;
  TRY(json_read(&r->root, path, STATUS_POLICY, r->arena, r->diag));
  if (json_is(r->root, JSON_OBJECT))
    return STATUS_OK;
  return READ_FAIL(r, "not an object");
}

// ---- the plan ----

static enum status read_policy(struct reading *r, const struct json *root) {
  struct review *out = r->review;
  const struct json *policy = json_member(root, "policy"), *ladder, *item;
  TRY(text(r, policy, "name", &out->policy));
  out->policy_version = integer(policy, "version", 0);
  TRY(list(r, policy, "ladder", &ladder));
  for (item = json_first(ladder); item; item = item->next) {
    const struct format *f = json_is(item, JSON_STRING) ? format_find(item->text) : NULL;
    if (!f || out->n_ladder == LADDER_MOST)
      return READ_FAIL(r, "policy.ladder is not a list of at most 8 formats");
    if (policy_is_operand_format(f->id)) {  // no format to run in, only to read operands in
      out->tf32 = f->id == FORMAT_TF32;
      out->has_operand_format = !out->tf32;
      out->operand_format = f->id;
      continue;
    }
    out->ladder[out->n_ladder++] = f->id;
  }
  if (out->n_ladder == 0)
    return READ_FAIL(r, "policy.ladder is empty");
  const struct json *limits = json_member(policy, "thresholds");
  out->has_thresholds = limits != NULL;
  out->thresholds = (struct plan_thresholds){
      .margin = number(limits, "margin", NAN),
      .max_zero_fraction = number(limits, "max_zero_fraction", NAN),
      .max_subnormal_fraction = number(limits, "max_subnormal_fraction", NAN),
      .constant_max_zero_fraction = number(limits, "constant_max_zero_fraction", NAN),
      .constant_max_subnormal_fraction = number(limits, "constant_max_subnormal_fraction", NAN),
      .max_lost_fraction = number(limits, "max_lost_fraction", NAN),
      .max_angle_step = number(limits, "max_angle_step", NAN),
      .keep_integers = json_is(json_member(limits, "keep_integers"), JSON_TRUE),
  };
  return STATUS_OK;
}

static enum status read_rules(struct reading *r, const struct json *root) {
  struct review *out = r->review;
  const struct json *rules = json_member(root, "rules"), *item;
  out->rules = arena_array(r->arena, (size_t)json_count(rules), sizeof *out->rules);
  for (item = json_first(rules); item; item = item->next) {
    struct review_rule *rule = &out->rules[out->n_rules++];
    TRY(text(r, item, "rule", &rule->id));
    TRY(text(r, item, "class", &rule->class));
    TRY(text(r, item, "why", &rule->why));
  }
  return STATUS_OK;
}

static void read_costs(struct reading *r, const struct json *root) {
  struct review *out = r->review;
  const struct json *cost = json_member(root, "cost");
  const struct json *seconds = json_member(cost, "seconds"),
                    *traffic = json_member(cost, "traffic_bytes");
  out->target = optional_text(r, json_member(cost, "modelled_for"), "target");
  out->time_before = number(seconds, "before", NAN);
  out->time_after = number(seconds, "after", NAN);
  out->traffic_before = number(traffic, "before", NAN);
  out->traffic_after = number(traffic, "after", NAN);
  out->casts = integer(cost, "casts", -1);
}

static enum status read_value(struct reading *r, const struct json *item, struct review_value *v) {
  const char *name;
  TRY(text(r, item, "value", &name));
  TRY(text(r, item, "scope", &v->scope));
  v->label = value_label(r, v->scope, name);
  TRY(format(r, item, "format", &v->format));
  v->scale_log2 = integer(item, "scale_log2", 0);
  v->constant = json_is(json_member(item, "constant"), JSON_TRUE);
  double lost = number(item, "lost_updates_fraction", NAN);
  v->fit = (struct fit){
      .reason = reason(item, "reason"),
      .absmax = number(item, "absmax", NAN),
      .headroom = number(item, "headroom", NAN),
      .zero_fraction = number(item, "zero_fraction", NAN),
      .subnormal_fraction = number(item, "subnormal_fraction", NAN),
      .sqnr_db = number(item, "sqnr_db", NAN),
      .accumulates = !isnan(lost),
      .lost_fraction = lost,
  };
  const struct json *operand = json_member(item, "operand");
  v->is_operand = json_is(operand, JSON_OBJECT);
  v->operand_scale = integer(operand, "scale_log2", 0);
  v->operand_scale_most = integer(operand, "scale_log2_most", v->operand_scale);
  v->operand_axis = integer(operand, "axis", 0);
  v->operand_block = integer(operand, "block_size", 0);
  v->operand_headroom = number(operand, "headroom", NAN);
  v->operand_sqnr_db = number(operand, "sqnr_db", NAN);
  v->error = number(item, "measured_relative_l2", NAN);
  v->producer = -1;
  return STATUS_OK;
}

static enum status read_values(struct reading *r, const struct json *root) {
  struct review *out = r->review;
  const struct json *values, *item;
  TRY(list(r, root, "values", &values));
  out->values = arena_array(r->arena, (size_t)json_count(values), sizeof *out->values);
  json_push_key(&r->at, "values");
  for (item = json_first(values); item; item = item->next) {
    int index = out->n_values++;
    json_push_index(&r->at, index);
    struct review_value *v = &out->values[index];
    TRY(read_value(r, item, v));
    v->index = index;
    map_put(&out->values_by_label, 0, v->label, index);
    if (!v->scope[0])  // where the label without "::" would read like one of another scope
      map_put(&out->values_by_label, 0, arena_printf(r->arena, "::%s", v->label), index);
    json_pop(&r->at);
  }
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_ends(struct reading *r, const struct json *node, const char *key,
                             struct review_end **ends, int *count) {
  const struct json *labels, *item;
  TRY(list(r, node, key, &labels));
  *ends = arena_array(r->arena, (size_t)json_count(labels), sizeof **ends);
  for (item = json_first(labels); item; item = item->next) {
    if (!json_is(item, JSON_STRING))
      return READ_FAIL(r, "\"%s\" is not a list of strings", key);
    struct review_end *end = &(*ends)[(*count)++];
    end->label = arena_strdup(r->arena, item->text);
    end->value = map_get(&r->review->values_by_label, 0, end->label);
  }
  return STATUS_OK;
}

static enum status read_node(struct reading *r, const struct json *item, struct review_node *n) {
  TRY(text(r, item, "node", &n->label));
  TRY(text(r, item, "scope", &n->scope));
  TRY(text(r, item, "op", &n->op));
  TRY(text(r, item, "class", &n->class));
  TRY(text(r, item, "rule", &n->rule));
  TRY(format(r, item, "format", &n->format));
  n->name = optional_text(r, item, "name");
  n->reason = reason(item, "reason");
  n->left_out = json_is(json_member(item, "left_out"), JSON_TRUE);
  n->narrow_operands = json_is(json_member(item, "operands"), JSON_STRING);
  n->operands_format = n->narrow_operands ? optional_text(r, item, "operands") : "";
  n->product = n->narrow_operands || json_member(item, "operands_reason");
  n->operands_reason = reason(item, "operands_reason");
  n->operands_because_of = optional_text(r, item, "operands_because_of");
  n->pattern = optional_text(r, item, "pattern");
  n->tried = r->review->ladder[0];
  if (json_member(item, "tried"))
    TRY(format(r, item, "tried", &n->tried));
  n->because_of = optional_text(r, item, "because_of");
  n->opset = integer(item, "allowed_from_opset", 0);
  TRY(read_ends(r, item, "inputs", &n->inputs, &n->n_inputs));
  TRY(read_ends(r, item, "outputs", &n->outputs, &n->n_outputs));
  for (int f = 0; f < FORMAT_COUNT; f++)
    n->seconds[f] = number(json_member(item, "seconds"), formats[f].name, NAN);
  return STATUS_OK;
}

static enum status read_nodes(struct reading *r, const struct json *root) {
  struct review *out = r->review;
  const struct json *nodes, *item;
  TRY(list(r, root, "nodes", &nodes));
  out->nodes = arena_array(r->arena, (size_t)json_count(nodes), sizeof *out->nodes);
  json_push_key(&r->at, "nodes");
  for (item = json_first(nodes); item; item = item->next) {
    json_push_index(&r->at, out->n_nodes);
    struct review_node *n = &out->nodes[out->n_nodes];
    TRY(read_node(r, item, n));
    map_put(&out->nodes_by_label, 0, n->label, out->n_nodes++);
    json_pop(&r->at);
  }
  json_pop(&r->at);
  return STATUS_OK;
}

// Who makes and who reads each value.
static void link_values(struct review *r, struct arena *a) {
  for (int pass = 0; pass < 2; pass++) {
    for (int n = 0; n < r->n_nodes; n++) {
      const struct review_node *node = &r->nodes[n];
      for (int k = 0; k < node->n_outputs; k++)
        if (node->outputs[k].value >= 0)
          r->values[node->outputs[k].value].producer = n;
      for (int k = 0; k < node->n_inputs; k++) {
        struct review_value *v =
            node->inputs[k].value >= 0 ? &r->values[node->inputs[k].value] : NULL;
        if (v && pass == 1)
          v->readers[v->n_readers] = n;
        if (v)
          v->n_readers++;
      }
    }
    for (int v = 0; pass == 0 && v < r->n_values; v++) {
      r->values[v].readers =
          arena_array(a, (size_t)r->values[v].n_readers, sizeof *r->values[v].readers);
      r->values[v].n_readers = 0;
    }
  }
}

static enum status read_plan(struct reading *r, const struct json *root) {
  if (integer(root, "schema", 0) != 1)
    return READ_FAIL(r, "not a plan file of schema 1");
  TRY(text(r, json_member(root, "model"), "file", &r->review->model_file));
  TRY(text(r, json_member(root, "model"), "sha256", &r->review->model_sha256));
  TRY(read_policy(r, root));
  TRY(read_rules(r, root));
  read_costs(r, root);
  TRY(read_values(r, root));
  TRY(read_nodes(r, root));
  link_values(r->review, r->arena);
  return STATUS_OK;
}

enum status review_read(struct review *r, const char *path, struct arena *a, struct diag *d) {
  *r = (struct review){.path = path, .nodes_by_label.arena = a, .values_by_label.arena = a};
  struct reading reading = {.review = r, .arena = a, .diag = d};
  TRY(open_file(&reading, path));
  return read_plan(&reading, reading.root);
}

const struct review_rule *review_find_rule(const struct review *r, const char *id) {
  for (int i = 0; i < r->n_rules; i++)
    if (strcmp(r->rules[i].id, id) == 0)
      return &r->rules[i];
  return NULL;
}

// ---- the verdict ----

// A verdict file, or what `verify --json` printed.
static enum status read_verdict(struct reading *r, const struct json *root) {
  const struct json *values, *item, *verdict = json_member(root, "verdict");
  const char *sha256;
  TRY(text(r, json_member(root, "sha256") ? root : json_member(root, "model"), "sha256", &sha256));
  if (strcmp(sha256, r->review->model_sha256) != 0)
    return READ_FAIL(r, "is of another model than %s", r->review->path);
  TRY(list(r, verdict ? verdict : root, "values", &values));
  for (item = json_first(values); item; item = item->next) {
    const char *name, *scope = optional_text(r, item, "scope");
    TRY(text(r, item, "value", &name));
    int v = map_get(&r->review->values_by_label, 0, value_label(r, scope ? scope : "", name));
    if (v >= 0)
      r->review->values[v].error = number(item, "relative_l2", NAN);
  }
  return STATUS_OK;
}

enum status review_read_errors(struct review *r, const char *path, struct arena *a,
                               struct diag *d) {
  struct reading reading = {.review = r, .arena = a, .diag = d};
  TRY(open_file(&reading, path));
  return read_verdict(&reading, reading.root);
}

// ---- the trace ----

static void read_range(const struct json *item, const char *label, struct review_range *out) {
  const struct json *positive = json_member(item, "positive"),
                    *negative = json_member(item, "negative");
  double above = number(positive, "count", 0), below = number(negative, "count", 0);
  double infinities =
      number(item, "positive_infinities", 0) + number(item, "negative_infinities", 0);
  *out = (struct review_range){
      .label = label,
      .runs = number(item, "runs", 0),
      .count = number(item, "count", 0),
      .zeros = number(item, "zeros", 0),
      .nans = number(item, "nans", 0),
      .infinities = infinities,
  };
  if (above > 0)
    out->highest = number(positive, "max", NAN);
  else if (out->zeros == 0 && below > 0)
    out->highest = -number(negative, "min", NAN);
  if (below > 0)
    out->lowest = -number(negative, "max", NAN);
  else if (out->zeros == 0 && above > 0)
    out->lowest = number(positive, "min", NAN);
  out->smallest = fmin(above > 0 ? number(positive, "min", NAN) : INFINITY,
                       below > 0 ? number(negative, "min", NAN) : INFINITY);
  out->smallest = isfinite(out->smallest) ? out->smallest : 0;
}

static enum status read_trace(struct reading *r, const struct json *root,
                              const struct review *review, struct review_range *out) {
  const struct json *values, *item;
  const char *sha256;
  TRY(text(r, json_member(root, "model"), "sha256", &sha256));
  if (strcmp(sha256, review->model_sha256) != 0)
    return READ_FAIL(r, "the trace is of another model than %s", review->path);
  TRY(list(r, root, "values", &values));
  for (item = json_first(values); item; item = item->next) {
    const char *name, *scope;
    TRY(text(r, item, "name", &name));
    TRY(text(r, item, "scope", &scope));
    int v = map_get(&review->values_by_label, 0, value_label(r, scope, name));
    if (v >= 0)
      read_range(item, review->values[v].label, &out[v]);
  }
  return STATUS_OK;
}

enum status review_read_trace(const struct review *r, const char *path, struct review_range **out,
                              struct arena *a, struct diag *d) {
  struct reading reading = {.arena = a, .diag = d};
  TRY(open_file(&reading, path));
  *out = arena_array(a, (size_t)r->n_values, sizeof **out);
  return read_trace(&reading, reading.root, r, *out);
}

bool review_only_operand(const struct review *r, const struct review_value *v) {
  for (int i = 0; i < v->n_readers; i++)
    if (!r->nodes[v->readers[i]].narrow_operands)
      return false;
  return v->constant && v->is_operand && r->has_operand_format;
}
