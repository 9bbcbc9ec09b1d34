// Reads what stands before nodes and values in a plan file: model, policy, rules, overrides,
// statistics, claims and promotions. What a plan can be applied without may be missing; what is
// there must be right.
#include "plan_reader.h"

#include <math.h>
#include <string.h>

// ---- names ----

static bool metric_find(const char *name, enum metric *out) {
  for (int k = METRIC_MAX_ABS; k <= METRIC_FINITE; k++)
    if (strcmp(metric_name((enum metric)k), name) == 0) {
      *out = (enum metric)k;
      return true;
    }
  return false;
}

static bool constants_rule_find(const char *name, enum constants_rule *out) {
  for (int k = CONSTANTS_KEEP_WIDE; k <= CONSTANTS_INFINITY; k++)
    if (strcmp(constants_rule_name((enum constants_rule)k), name) == 0) {
      *out = (enum constants_rule)k;
      return true;
    }
  return false;
}

// A list of strings, NULL-terminated.
static enum status reader_texts(struct plan_reader *r, const struct json *object, const char *key,
                                const char ***out) {
  const struct json *list, *item;
  TRY(reader_member(r, object, key, &list));
  size_t count = 0;
  *out = arena_array(r->arena, (size_t)json_count(list) + 1, sizeof **out);
  for (item = json_first(list); item; item = item->next) {
    if (!json_is(item, JSON_STRING))
      return READ_FAIL(r, "\"%s\" is not a list of strings", key);
    (*out)[count++] = arena_strdup(r->arena, item->text);
  }
  return STATUS_OK;
}

// ---- model and policy ----

static enum status keep_or_narrow(struct plan_reader *r, const char *key, const char *text,
                                  bool *narrow) {
  *narrow = strcmp(text, "narrow") == 0;
  if (*narrow || strcmp(text, "keep") == 0)
    return STATUS_OK;
  return READ_FAIL(r, "policy.%s is \"%s\": it must be keep or narrow", key, text);
}

static const char *const policy_keys[] = {"name",      "version",    "sha256",  "ladder",
                                          "overrides", "inputs",     "outputs", "flush_to_zero",
                                          "constants", "thresholds", NULL};

// The keys of one section of the file.
static enum status read_keys(struct plan_reader *r, const char *section, const struct json *object,
                             const char *const *keys) {
  json_push_key(&r->at, section);
  TRY(reader_keys(r, object, keys));
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_model_and_policy(struct plan_reader *r, const struct json *root) {
  struct plan *p = r->plan;
  int schema;
  TRY(reader_integer(r, root, "schema", &schema));
  if (schema != 1)
    return READ_FAIL(r, "this program reads plan files of schema 1");
  const struct json *model, *policy, *item;
  TRY(reader_member(r, root, "model", &model));
  const char *sha256;
  TRY(reader_text(r, model, "sha256", &sha256));
  TRY(reader_text(r, model, "file", &p->model_file));
  p->raised_to = r->graph->model->raised_to;
  if (strcmp(sha256, r->graph->model->sha256) != 0) {
    diag_hint(r->diag, "make the plan again from this model, or give the model it was made from");
    return READ_FAIL(r, "the plan is of another model (%s, SHA-256 %.12s...; this one is %.12s...)",
                     p->model_file, sha256, r->graph->model->sha256);
  }
  memcpy(p->model_sha256, r->graph->model->sha256, sizeof p->model_sha256);
  TRY(reader_member(r, root, "policy", &policy));
  TRY(read_keys(r, "policy", policy, policy_keys));
  TRY(reader_text(r, policy, "name", &p->policy_name));
  TRY(reader_integer(r, policy, "version", &p->policy_version));
  const char *text;
  TRY(reader_text(r, policy, "sha256", &text));
  snprintf(p->policy_sha256, sizeof p->policy_sha256, "%s", text);
  TRY(reader_texts(r, policy, "overrides", &p->adjustments));
  TRY(reader_text(r, policy, "inputs", &text));
  TRY(keep_or_narrow(r, "inputs", text, &p->narrow_inputs));
  TRY(reader_text(r, policy, "outputs", &text));
  TRY(keep_or_narrow(r, "outputs", text, &p->narrow_outputs));
  TRY(reader_member(r, policy, "flush_to_zero", &item));
  p->ftz = json_is(item, JSON_TRUE);
  TRY(reader_text(r, policy, "constants", &text));
  if (!constants_rule_find(text, &p->constants))
    return READ_FAIL(r, "policy.constants is none of keep_wide, saturate, infinity");
  return STATUS_OK;
}

// Thresholds and rules serve people: a plan without them may be applied all the same.
static enum status read_thresholds(struct plan_reader *r, const struct json *root) {
  struct plan_thresholds *t = &r->plan->thresholds;
  const struct {
    const char *key;
    double *out;
  } numbers[] = {{"margin", &t->margin},
                 {"max_zero_fraction", &t->max_zero_fraction},
                 {"max_subnormal_fraction", &t->max_subnormal_fraction},
                 {"constant_max_zero_fraction", &t->constant_max_zero_fraction},
                 {"constant_max_subnormal_fraction", &t->constant_max_subnormal_fraction},
                 {"max_lost_fraction", &t->max_lost_fraction},
                 {"max_angle_step", &t->max_angle_step}};
  const struct json *policy = json_member(root, "policy");
  const struct json *list = json_member(policy, "thresholds");
  for (size_t k = 0; list && k < sizeof numbers / sizeof numbers[0]; k++)
    if (!json_to_number(json_member(list, numbers[k].key), numbers[k].out))
      return READ_FAIL(r, "policy.thresholds: \"%s\" is missing or no number", numbers[k].key);
  t->keep_integers = json_is(json_member(list, "keep_integers"), JSON_TRUE);
  return STATUS_OK;
}

static enum status read_rules(struct plan_reader *r, const struct json *root) {
  const struct json *list = json_member(root, "rules"), *item;
  struct rule *rules = arena_array(r->arena, (size_t)json_count(list), sizeof *r->plan->rules);
  r->plan->rules = rules;
  json_push_key(&r->at, "rules");
  for (item = json_first(list); item; item = item->next) {
    json_push_index(&r->at, r->plan->n_rules);
    struct rule *rule = &rules[r->plan->n_rules];
    TRY(reader_text(r, item, "rule", &rule->id));
    TRY(reader_class(r, item, "class", &rule->class));
    TRY(reader_text(r, item, "why", &rule->why));
    map_put(&r->rules, 0, rule->id, r->plan->n_rules++);
    json_pop(&r->at);
  }
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_ladder(struct plan_reader *r, const struct json *root) {
  struct plan *p = r->plan;
  const struct json *policy, *ladder, *item;
  TRY(reader_member(r, root, "policy", &policy));
  TRY(reader_member(r, policy, "ladder", &ladder));
  for (item = json_first(ladder); item; item = item->next) {
    const struct format *f = json_is(item, JSON_STRING) ? format_find(item->text) : NULL;
    if (!f || p->n_ladder == LADDER_MOST)
      return READ_FAIL(r, "policy.ladder is not a list of at most 8 formats");
    if (item == ladder->first && policy_is_operand_format(f->id)) {
      p->tf32 = f->id == FORMAT_TF32;
      p->has_operand_format = !p->tf32;
      p->operand_format = f->id;
      continue;
    }
    p->ladder[p->n_ladder++] = f->id;
  }
  return p->n_ladder > 0 ? STATUS_OK : READ_FAIL(r, "policy.ladder is empty");
}

static enum status read_statistics(struct plan_reader *r, const struct json *root) {
  struct plan *p = r->plan;
  const struct json *statistics;
  static const char *const keys[] = {"source",
                                     "samples",
                                     "elements_per_histogram",
                                     "sha256",
                                     "samples_with_held_out",
                                     "hold_out_every",
                                     "hold_out_share",
                                     "held_out_enough",
                                     NULL};
  TRY(reader_member(r, root, "statistics", &statistics));
  TRY(read_keys(r, "statistics", statistics, keys));
  const char *source, *sha256;
  int steps, sample;
  TRY(reader_text(r, statistics, "source", &source));
  TRY(reader_integer(r, statistics, "samples", &steps));
  TRY(reader_integer(r, statistics, "elements_per_histogram", &sample));
  TRY(reader_text(r, statistics, "sha256", &sha256));
  int samples;
  TRY(reader_integer(r, statistics, "samples_with_held_out", &samples));
  p->samples = (size_t)samples;
  const struct json *share = json_member(statistics, "hold_out_share");
  if (!share)
    TRY(reader_integer(r, statistics, "hold_out_every", &p->hold_out.every));
  else if (!json_to_number(share, &p->hold_out.share) ||
           !(p->hold_out.share >= 0 && p->hold_out.share <= 1))
    return READ_FAIL(r, "statistics.hold_out_share is not a number from 0 to 1");
  if (json_member(statistics, "held_out_enough"))
    TRY(reader_integer(r, statistics, "held_out_enough", &p->hold_out.enough));
  p->has_trace = strcmp(source, "none") != 0;
  p->synthetic = strcmp(source, "synthetic") == 0;
  p->steps = (size_t)steps;
  p->sample = (size_t)sample;
  snprintf(p->samples_sha256, sizeof p->samples_sha256, "%s", sha256);
  return STATUS_OK;
}

static enum status read_override(struct plan_reader *r, const struct json *item,
                                 struct override *o) {
  static const char *const keys[] = {"glob", "format", "scale", "note", NULL};
  TRY(reader_keys(r, item, keys));
  TRY(reader_text(r, item, "glob", &o->glob));
  TRY(reader_format(r, item, "format", &o->format));
  double scale;
  int exponent;
  o->has_scale = json_to_number(json_member(item, "scale"), &scale);
  if (o->has_scale && (!isfinite(scale) || frexp(scale, &exponent) != 0.5))
    return READ_FAIL(r, "\"scale\" is not a power of two");
  o->scale_log2 = o->has_scale ? exponent - 1 : 0;
  return reader_text(r, item, "note", &o->note);
}

// What a person decided is for people: what it led to stands at the nodes.
static enum status read_overrides(struct plan_reader *r, const struct json *root) {
  const struct json *section = json_member(root, "overrides_from"), *list, *item;
  if (!section)
    return STATUS_OK;
  struct overrides *o = arena_alloc(r->arena, sizeof *o);
  const char *sha256;
  TRY(reader_text(r, section, "file", &o->file));
  TRY(reader_text(r, section, "sha256", &sha256));
  snprintf(o->sha256, sizeof o->sha256, "%s", sha256);
  TRY(reader_member(r, root, "overrides", &list));
  o->list = arena_array(r->arena, (size_t)json_count(list), sizeof *o->list);
  json_push_key(&r->at, "overrides");
  for (item = json_first(list); item; item = item->next) {
    json_push_index(&r->at, o->count);
    TRY(read_override(r, item, &o->list[o->count++]));
    json_pop(&r->at);
  }
  json_pop(&r->at);
  r->plan->overrides = o;
  return STATUS_OK;
}

static enum status read_claim(struct plan_reader *r, const struct json *item, struct claim *c) {
  static const char *const keys[] = {"id",       "metric",  "limit", "tolerance",
                                     "measured", "outputs", NULL};
  const char *metric;
  const struct json *limit;
  TRY(reader_keys(r, item, keys));
  TRY(reader_text(r, item, "id", &c->id));
  TRY(reader_text(r, item, "metric", &metric));
  if (!metric_find(metric, &c->metric))
    return READ_FAIL(r, "unknown metric \"%s\"", metric);
  TRY(reader_member(r, item, "limit", &limit));
  if (!json_to_number(limit, &c->limit))
    return READ_FAIL(r, "\"limit\" is not a number");
  if (c->metric == METRIC_MATCHED_ROWS) {
    const struct json *tolerance;
    TRY(reader_member(r, item, "tolerance", &tolerance));
    if (!json_to_number(tolerance, &c->tolerance) || !(c->tolerance >= 0 && c->tolerance <= 1))
      return READ_FAIL(r, "\"tolerance\" is not a number in 0 to 1");
  }
  if (!json_member(item, "outputs"))
    return STATUS_OK;
  return reader_texts(r, item, "outputs", &c->outputs);
}

static enum status read_claims(struct plan_reader *r, const struct json *root) {
  const struct json *claims, *item;
  TRY(reader_member(r, root, "claims", &claims));
  r->plan->claims = arena_array(r->arena, (size_t)json_count(claims), sizeof *r->plan->claims);
  json_push_key(&r->at, "claims");
  for (item = json_first(claims); item; item = item->next) {
    json_push_index(&r->at, r->plan->n_claims);
    TRY(read_claim(r, item, &r->plan->claims[r->plan->n_claims++]));
    json_pop(&r->at);
  }
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_promotion(struct plan_reader *r, const struct json *item,
                                  struct promotion *p) {
  static const char *const keys[] = {"round", "value", "from", "to", "error", NULL};
  const struct json *error;
  TRY(reader_keys(r, item, keys));
  TRY(reader_integer(r, item, "round", &p->round));
  TRY(reader_label(r, item, "value", &p->value));
  const struct json *from = json_member(item, "from");
  p->from = r->plan->operand_format;
  if (!r->plan->has_operand_format || !json_is(from, JSON_STRING) ||
      strcmp(from->text, formats[p->from].name) != 0)
    TRY(reader_format(r, item, "from", &p->from));
  TRY(reader_format(r, item, "to", &p->to));
  TRY(reader_member(r, item, "error", &error));
  return json_to_number(error, &p->error) ? STATUS_OK : READ_FAIL(r, "\"error\" is not a number");
}

// What was promoted is for people: what it led to stands at the nodes.
static enum status read_promotions(struct plan_reader *r, const struct json *root) {
  const struct json *list, *item;
  TRY(reader_member(r, root, "promotions", &list));
  struct promotions *p = arena_alloc(r->arena, sizeof *p);
  p->log = arena_array(r->arena, (size_t)json_count(list), sizeof *p->log);
  json_push_key(&r->at, "promotions");
  for (item = json_first(list); item; item = item->next) {
    json_push_index(&r->at, (int)p->count);
    TRY(read_promotion(r, item, &p->log[p->count++]));
    json_pop(&r->at);
  }
  json_pop(&r->at);
  r->plan->promotions = p;
  return STATUS_OK;
}

enum status plan_read_head(struct plan_reader *r, const struct json *root) {
  TRY(read_model_and_policy(r, root));
  TRY(read_ladder(r, root));
  TRY(read_thresholds(r, root));
  TRY(read_rules(r, root));
  TRY(read_overrides(r, root));
  TRY(read_statistics(r, root));
  TRY(read_claims(r, root));
  return read_promotions(r, root);
}
