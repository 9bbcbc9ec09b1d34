// Reads a plan file back, also one edited by hand, and checks it before anything is applied: it
// must be of this model, name nodes and values that exist, and give each node a format that its
// operator takes. What rewrite does follows from the nodes' formats, and so do those of the
// values: an edit of a node is enough, and one of a value alone is named in a warning.
#include "json.h"
#include "plan.h"
#include "plan_quantise.h"
#include "plan_scale.h"
#include "raise_opset.h"

#include <math.h>
#include <string.h>

enum { CONTRADICTIONS_SHOWN = 20 };

struct plan_reader {
  struct plan *plan;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
  const char *path, *text;
  struct json_path at;
  struct map scopes;        // path -> scope
  bool *seen;               // by node: listed
  struct diag_list errors;  // of nodes and values
  int differing;            // values whose format in the file is not what their nodes make of it
  struct map labels;        // label -> value
  struct map rules;         // id -> rule
};

static enum status fail(struct plan_reader *r, const char *message) {
  return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "%s", message);
}

// ---- names ----

static bool node_class_find(const char *name, enum node_class *out) {
  for (int k = CLASS_NARROW; k <= CLASS_KEEP; k++)
    if (strcmp(node_class_name((enum node_class)k), name) == 0) {
      *out = (enum node_class)k;
      return true;
    }
  return false;
}

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

// ---- typed members ----

static enum status member(struct plan_reader *r, const cJSON *object, const char *key,
                          const cJSON **out) {
  *out = cJSON_GetObjectItemCaseSensitive(object, key);
  if (*out)
    return STATUS_OK;
  return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "\"%s\" is missing", key);
}

static enum status text_member(struct plan_reader *r, const cJSON *object, const char *key,
                               const char **out) {
  const cJSON *item;
  TRY(member(r, object, key, &item));
  if (!cJSON_IsString(item))
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "\"%s\" is not a string",
                     key);
  *out = arena_strdup(r->arena, item->valuestring);
  return STATUS_OK;
}

static enum status integer_member(struct plan_reader *r, const cJSON *object, const char *key,
                                  int *out) {
  const cJSON *item;
  TRY(member(r, object, key, &item));
  if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 1e9)
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "\"%s\" is not a number from 0 on", key);
  *out = (int)item->valuedouble;
  return STATUS_OK;
}

static enum status format_member(struct plan_reader *r, const cJSON *object, const char *key,
                                 enum format_id *out) {
  const char *name;
  TRY(text_member(r, object, key, &name));
  const struct format *f = format_find(name);
  if (!f || strcmp(f->name, name) != 0 ||
      (f->id != FORMAT_FP32 && f->id != FORMAT_FP16 && f->id != FORMAT_BF16))
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "%s \"%s\" is none of fp16, bf16 and fp32", key, name);
  *out = f->id;
  return STATUS_OK;
}

// The reason there, if it is a known one; else *out stays.
static void reason_member(const cJSON *object, const char *key, enum reason *out) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  for (int k = 0; cJSON_IsString(item) && k < REASON_COUNT; k++)
    if (strcmp(reason_name((enum reason)k), item->valuestring) == 0)
      *out = (enum reason)k;
}

// A value by its label (graph_value_label).
static enum status label_member(struct plan_reader *r, const cJSON *object, const char *key,
                                int *value) {
  const char *label;
  TRY(text_member(r, object, key, &label));
  *value = map_get(&r->labels, 0, label);
  if (*value >= 0)
    return STATUS_OK;
  return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                   "the model has no value \"%s\"", label);
}

// A list of strings, NULL-terminated.
static enum status texts_member(struct plan_reader *r, const cJSON *object, const char *key,
                                const char ***out) {
  const cJSON *list, *item;
  TRY(member(r, object, key, &list));
  size_t count = 0;
  *out = arena_array(r->arena, (size_t)cJSON_GetArraySize(list) + 1, sizeof **out);
  cJSON_ArrayForEach(item, list) {
    if (!cJSON_IsString(item))
      return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                       "\"%s\" is not a list of strings", key);
    (*out)[count++] = arena_strdup(r->arena, item->valuestring);
  }
  return STATUS_OK;
}

// ---- head ----

static enum status keep_or_narrow(struct plan_reader *r, const char *key, const char *text,
                                  bool *narrow) {
  *narrow = strcmp(text, "narrow") == 0;
  if (*narrow || strcmp(text, "keep") == 0)
    return STATUS_OK;
  return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                   "policy.%s is \"%s\": it must be keep or narrow", key, text);
}

static enum status read_head(struct plan_reader *r, const cJSON *root) {
  struct plan *p = r->plan;
  int schema;
  TRY(integer_member(r, root, "schema", &schema));
  if (schema != 1)
    return fail(r, "this program reads plan files of schema 1");
  const cJSON *model, *policy, *item;
  TRY(member(r, root, "model", &model));
  const char *sha256;
  TRY(text_member(r, model, "sha256", &sha256));
  TRY(text_member(r, model, "file", &p->model_file));
  p->raised_to = r->graph->model->raised_to;
  if (strcmp(sha256, r->graph->model->sha256) != 0) {
    diag_hint(r->diag, "make the plan again from this model, or give the model it was made from");
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "the plan is of another model (%s, SHA-256 %.12s...; this one is %.12s...)",
                     p->model_file, sha256, r->graph->model->sha256);
  }
  memcpy(p->model_sha256, r->graph->model->sha256, sizeof p->model_sha256);
  TRY(member(r, root, "policy", &policy));
  TRY(text_member(r, policy, "name", &p->policy_name));
  TRY(integer_member(r, policy, "version", &p->policy_version));
  const char *text;
  TRY(text_member(r, policy, "sha256", &text));
  snprintf(p->policy_sha256, sizeof p->policy_sha256, "%s", text);
  TRY(texts_member(r, policy, "overrides", &p->overrides));
  TRY(text_member(r, policy, "inputs", &text));
  TRY(keep_or_narrow(r, "inputs", text, &p->narrow_inputs));
  TRY(text_member(r, policy, "outputs", &text));
  TRY(keep_or_narrow(r, "outputs", text, &p->narrow_outputs));
  TRY(member(r, policy, "flush_to_zero", &item));
  p->ftz = cJSON_IsTrue(item);
  TRY(text_member(r, policy, "constants", &text));
  if (!constants_rule_find(text, &p->constants))
    return fail(r, "policy.constants is none of keep_wide, saturate, infinity");
  return STATUS_OK;
}

// Thresholds and rules serve people: a plan without them may be applied all the same.
static enum status read_thresholds(struct plan_reader *r, const cJSON *root) {
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
  const cJSON *policy = cJSON_GetObjectItemCaseSensitive(root, "policy");
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(policy, "thresholds");
  for (size_t k = 0; list && k < sizeof numbers / sizeof numbers[0]; k++)
    if (!json_to_number(cJSON_GetObjectItemCaseSensitive(list, numbers[k].key), numbers[k].out))
      return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                       "policy.thresholds: \"%s\" is missing or no number", numbers[k].key);
  t->keep_integers = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(list, "keep_integers"));
  return STATUS_OK;
}

static enum status read_rules(struct plan_reader *r, const cJSON *root) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "rules"), *item;
  struct rule *rules =
      arena_array(r->arena, (size_t)cJSON_GetArraySize(list), sizeof *r->plan->rules);
  r->plan->rules = rules;
  json_push_key(&r->at, "rules");
  cJSON_ArrayForEach(item, list) {
    json_push_index(&r->at, r->plan->n_rules);
    struct rule *rule = &rules[r->plan->n_rules];
    const char *class;
    TRY(text_member(r, item, "rule", &rule->id));
    TRY(text_member(r, item, "class", &class));
    TRY(text_member(r, item, "why", &rule->why));
    if (!node_class_find(class, &rule->class))
      return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "unknown class \"%s\"",
                       class);
    map_put(&r->rules, 0, rule->id, r->plan->n_rules++);
    json_pop(&r->at);
  }
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_ladder(struct plan_reader *r, const cJSON *root) {
  struct plan *p = r->plan;
  const cJSON *policy, *ladder, *item;
  TRY(member(r, root, "policy", &policy));
  TRY(member(r, policy, "ladder", &ladder));
  cJSON_ArrayForEach(item, ladder) {
    const struct format *f = cJSON_IsString(item) ? format_find(item->valuestring) : NULL;
    if (!f || p->n_ladder == (int)(sizeof p->ladder / sizeof p->ladder[0]))
      return fail(r, "policy.ladder is not a list of at most 8 formats");
    if (item == ladder->child && policy_is_operand_format(f->id)) {
      p->tf32 = f->id == FORMAT_TF32;
      p->has_operand_format = !p->tf32;
      p->operand_format = f->id;
      continue;
    }
    p->ladder[p->n_ladder++] = f->id;
  }
  return p->n_ladder > 0 ? STATUS_OK : fail(r, "policy.ladder is empty");
}

static enum status read_statistics(struct plan_reader *r, const cJSON *root) {
  struct plan *p = r->plan;
  const cJSON *statistics;
  TRY(member(r, root, "statistics", &statistics));
  const char *source, *sha256;
  int steps, sample;
  TRY(text_member(r, statistics, "source", &source));
  TRY(integer_member(r, statistics, "samples", &steps));
  TRY(integer_member(r, statistics, "elements_per_histogram", &sample));
  TRY(text_member(r, statistics, "sha256", &sha256));
  int samples;
  TRY(integer_member(r, statistics, "samples_with_held_out", &samples));
  p->samples = (size_t)samples;
  const cJSON *share = cJSON_GetObjectItemCaseSensitive(statistics, "hold_out_share");
  if (!share)
    TRY(integer_member(r, statistics, "hold_out_every", &p->hold_out.every));
  else if (!json_to_number(share, &p->hold_out.share))
    return fail(r, "statistics.hold_out_share is not a number");
  p->has_trace = strcmp(source, "none") != 0;
  p->synthetic = strcmp(source, "synthetic") == 0;
  p->steps = (size_t)steps;
  p->sample = (size_t)sample;
  snprintf(p->samples_sha256, sizeof p->samples_sha256, "%s", sha256);
  return STATUS_OK;
}

static enum status read_override(struct plan_reader *r, const cJSON *item, struct override *o) {
  TRY(text_member(r, item, "glob", &o->glob));
  TRY(format_member(r, item, "format", &o->format));
  double scale;
  int exponent;
  o->has_scale = json_to_number(cJSON_GetObjectItemCaseSensitive(item, "scale"), &scale);
  if (o->has_scale && (!isfinite(scale) || frexp(scale, &exponent) != 0.5))
    return fail(r, "\"scale\" is not a power of two");
  o->scale_log2 = o->has_scale ? exponent - 1 : 0;
  return text_member(r, item, "note", &o->note);
}

// What a person decided is for people: what it led to stands at the nodes.
static enum status read_overrides(struct plan_reader *r, const cJSON *root) {
  const cJSON *section = cJSON_GetObjectItemCaseSensitive(root, "overrides_from"), *list, *item;
  if (!section)
    return STATUS_OK;
  struct overrides *o = arena_alloc(r->arena, sizeof *o);
  const char *sha256;
  TRY(text_member(r, section, "file", &o->file));
  TRY(text_member(r, section, "sha256", &sha256));
  snprintf(o->sha256, sizeof o->sha256, "%s", sha256);
  TRY(member(r, root, "overrides", &list));
  o->list = arena_array(r->arena, (size_t)cJSON_GetArraySize(list), sizeof *o->list);
  cJSON_ArrayForEach(item, list) TRY(read_override(r, item, &o->list[o->count++]));
  r->plan->by_hand = o;
  return STATUS_OK;
}

static enum status read_claim(struct plan_reader *r, const cJSON *item, struct claim *c) {
  const char *metric;
  const cJSON *limit;
  TRY(text_member(r, item, "id", &c->id));
  TRY(text_member(r, item, "metric", &metric));
  if (!metric_find(metric, &c->metric))
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "unknown metric \"%s\"",
                     metric);
  TRY(member(r, item, "limit", &limit));
  if (!json_to_number(limit, &c->limit))
    return fail(r, "\"limit\" is not a number");
  if (!cJSON_GetObjectItemCaseSensitive(item, "outputs"))
    return STATUS_OK;
  return texts_member(r, item, "outputs", &c->outputs);
}

static enum status read_claims(struct plan_reader *r, const cJSON *root) {
  const cJSON *claims, *item;
  TRY(member(r, root, "claims", &claims));
  r->plan->claims =
      arena_array(r->arena, (size_t)cJSON_GetArraySize(claims), sizeof *r->plan->claims);
  json_push_key(&r->at, "claims");
  cJSON_ArrayForEach(item, claims) {
    json_push_index(&r->at, r->plan->n_claims);
    TRY(read_claim(r, item, &r->plan->claims[r->plan->n_claims++]));
    json_pop(&r->at);
  }
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_promotion(struct plan_reader *r, const cJSON *item, struct promotion *p) {
  const cJSON *error;
  TRY(integer_member(r, item, "round", &p->round));
  TRY(label_member(r, item, "value", &p->value));
  const cJSON *from = cJSON_GetObjectItemCaseSensitive(item, "from");
  p->from = r->plan->operand_format;
  if (!r->plan->has_operand_format || !cJSON_IsString(from) ||
      strcmp(from->valuestring, formats[p->from].name) != 0)
    TRY(format_member(r, item, "from", &p->from));
  TRY(format_member(r, item, "to", &p->to));
  TRY(member(r, item, "error", &error));
  return json_to_number(error, &p->error) ? STATUS_OK : fail(r, "\"error\" is not a number");
}

// What was promoted is for people: what it led to stands at the nodes.
static enum status read_promotions(struct plan_reader *r, const cJSON *root) {
  const cJSON *list, *item;
  TRY(member(r, root, "promotions", &list));
  struct promotions *p = arena_alloc(r->arena, sizeof *p);
  p->log = arena_array(r->arena, (size_t)cJSON_GetArraySize(list), sizeof *p->log);
  json_push_key(&r->at, "promotions");
  cJSON_ArrayForEach(item, list) {
    json_push_index(&r->at, (int)p->count);
    TRY(read_promotion(r, item, &p->log[p->count++]));
    json_pop(&r->at);
  }
  json_pop(&r->at);
  r->plan->promotions = p;
  return STATUS_OK;
}

// ---- nodes and values ----

static enum status find_scope(struct plan_reader *r, const cJSON *item, int *scope) {
  const char *path;
  TRY(text_member(r, item, "scope", &path));
  *scope = map_get(&r->scopes, 0, path);
  if (*scope >= 0)
    return STATUS_OK;
  return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                   "the model has no scope \"%s\"", path);
}

static enum status check_node_format(struct plan_reader *r, int n) {
  const char *why = plan_refuses_format(r->graph, n, r->plan->nodes[n].format, r->arena);
  if (!why)
    return STATUS_OK;
  diag_at(r->diag, NULL, graph_node_label(r->graph, n), NULL);
  return fail(r, why);
}

static enum status read_wide_variables(struct plan_reader *r, const cJSON *item, int n) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "wide_variables"), *var;
  cJSON_ArrayForEach(var, list) {
    if (!cJSON_IsNumber(var) || var->valuedouble < 0 || var->valuedouble > 63)
      return fail(r, "\"wide_variables\" is not a list of numbers from 0 to 63");
    r->plan->nodes[n].wide_vars |= 1ull << (int)var->valuedouble;
  }
  return STATUS_OK;
}

// For people, as a reason is: an unknown one is none.
static enum pattern pattern_member(const cJSON *item) {
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "pattern");
  for (int k = 1; name && cJSON_IsString(name) && k < PATTERN_COUNT; k++)
    if (strcmp(pattern_name((enum pattern)k), name->valuestring) == 0)
      return (enum pattern)k;
  return PATTERN_NONE;
}

// The operands of a product are looked at when the values are read.
static enum status read_operands(struct plan_reader *r, const cJSON *item, int n) {
  struct node_plan *node = &r->plan->nodes[n];
  const cJSON *operands = cJSON_GetObjectItemCaseSensitive(item, "operands");
  const cJSON *reason = cJSON_GetObjectItemCaseSensitive(item, "operands_reason");
  node->product = operands || reason;
  reason_member(item, "operands_reason", &node->operands_reason);
  if (cJSON_GetObjectItemCaseSensitive(item, "operands_because_of"))
    TRY(label_member(r, item, "operands_because_of", &node->operands_value));
  if (!operands)
    return STATUS_OK;
  const struct node *in = &r->graph->nodes[n];
  const char *name;
  TRY(text_member(r, item, "operands", &name));
  if (!r->plan->has_operand_format || strcmp(name, formats[r->plan->operand_format].name) != 0)
    return fail(r, "\"operands\" is not the first format of policy.ladder, one of 8 bits");
  bool floats = is_product(in) && in->n_inputs >= 2 && graph_is_fp32(r->graph, in->inputs[0]) &&
                graph_is_fp32(r->graph, in->inputs[1]);
  if (!floats || r->graph->scopes[in->scope].polymorphic)
    return fail(r, "\"operands\" is for products of two fp32 matrices: MatMul, Gemm, Conv");
  if (!quantise_available(r->graph, in->scope, r->plan->operand_format))
    return fail(r, "QuantizeLinear does not take the format at this model's opset");
  node->narrow_operands = true;
  return STATUS_OK;
}

static bool is_scale(const cJSON *item) {
  return cJSON_IsNumber(item) && item->valuedouble >= SCALE_LOG2_MIN &&
         item->valuedouble <= SCALE_LOG2_MAX && item->valuedouble == floor(item->valuedouble);
}

static enum status read_scales(struct plan_reader *r, const cJSON *item, int n) {
  struct node_plan *node = &r->plan->nodes[n];
  const cJSON *output = cJSON_GetObjectItemCaseSensitive(item, "output_scale_log2");
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "input_scales_log2"), *scale;
  int n_inputs = r->graph->nodes[n].n_inputs, k = 0;
  if (output && !is_scale(output))
    return fail(r, "\"output_scale_log2\" is not a whole number from -126 to 126");
  if (list && cJSON_GetArraySize(list) != n_inputs)
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "\"input_scales_log2\" must have %d entries, one for each input", n_inputs);
  int *scales = arena_array(r->arena, (size_t)n_inputs, sizeof *scales);
  cJSON_ArrayForEach(scale, list) {
    if (!is_scale(scale))
      return fail(r, "\"input_scales_log2\" is not a list of whole numbers from -126 to 126");
    scales[k++] = (int)scale->valuedouble;
  }
  node->input_scales = list ? scales : NULL;
  node->output_scale = output ? (int)output->valuedouble : 0;
  if ((list || output) && node->format == FORMAT_FP32)
    return fail(r, "a node in fp32 has no scales: take them out, or give it a narrow format");
  if (node->format != FORMAT_FP32 && !scale_consistent(r->graph, r->plan, n))
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "%s does not carry these scales from its inputs to its outputs",
                     r->graph->nodes[n].proto->op_type);
  return STATUS_OK;
}

static enum status read_node(struct plan_reader *r, const cJSON *item) {
  int scope, index;
  const char *op, *label;
  TRY(find_scope(r, item, &scope));
  TRY(integer_member(r, item, "index", &index));
  TRY(text_member(r, item, "op", &op));
  TRY(text_member(r, item, "node", &label));
  const struct scope *in = &r->graph->scopes[scope];
  if (index >= in->n_nodes || strcmp(op, r->graph->nodes[in->nodes[index]].proto->op_type) != 0)
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "the model has no node %d with operator %s there (\"%s\")", index, op, label);
  int n = in->nodes[index];
  if (strcmp(label, graph_node_label(r->graph, n)) != 0)
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "node %d there is called \"%s\" in the model, not \"%s\"", index,
                     graph_node_label(r->graph, n), label);
  if (r->seen[n])
    return fail(r, "this node is listed already");
  r->seen[n] = true;
  struct node_plan *node = &r->plan->nodes[n];
  TRY(text_member(r, item, "rule", &node->rule_id));
  int rule = map_get(&r->rules, 0, node->rule_id);
  node->rule = rule >= 0 ? &r->plan->rules[rule] : NULL;
  const char *class;
  TRY(text_member(r, item, "class", &class));
  if (!node_class_find(class, &node->class))
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "unknown class \"%s\"",
                     class);
  TRY(format_member(r, item, "format", &node->format));
  bool edited = node->format == FORMAT_FP32 && r->plan->ladder[0] != FORMAT_FP32;
  node->reason = edited ? REASON_CLASS : REASON_NONE;
  node->pattern = pattern_member(item);
  reason_member(item, "reason", &node->reason);
  if (cJSON_GetObjectItemCaseSensitive(item, "tried"))
    TRY(format_member(r, item, "tried", &node->reason_format));
  if (cJSON_GetObjectItemCaseSensitive(item, "allowed_from_opset"))
    TRY(integer_member(r, item, "allowed_from_opset", &node->opset_needed));
  if (cJSON_GetObjectItemCaseSensitive(item, "because_of"))
    TRY(label_member(r, item, "because_of", &node->reason_value));
  TRY(read_wide_variables(r, item, n));
  TRY(read_operands(r, item, n));
  TRY(check_node_format(r, n));
  return read_scales(r, item, n);
}

static enum status read_nodes(struct plan_reader *r, const cJSON *root) {
  for (int n = 0; n < r->plan->n_nodes; n++)
    r->plan->nodes[n] = (struct node_plan){.class = CLASS_KEEP,
                                           .rule_id = "",
                                           .format = FORMAT_FP32,
                                           .reason = REASON_NOT_FLOAT,
                                           .reason_value = -1,
                                           .reason_format = r->plan->ladder[0],
                                           .operands_value = -1};
  const cJSON *nodes, *item;
  TRY(member(r, root, "nodes", &nodes));
  json_push_key(&r->at, "nodes");
  int k = 0;
  cJSON_ArrayForEach(item, nodes) {
    int depth = r->at.depth;
    json_push_index(&r->at, k++);
    if (read_node(r, item) != STATUS_OK)
      diag_collect(&r->errors, r->diag);
    r->at.depth = depth;
  }
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_fit(struct plan_reader *r, const cJSON *item, struct fit *fit) {
  const struct {
    const char *key;
    double *out;
  } numbers[] = {{"absmax", &fit->absmax},
                 {"headroom", &fit->headroom},
                 {"zero_fraction", &fit->zero_fraction},
                 {"subnormal_fraction", &fit->subnormal_fraction},
                 {"sqnr_db", &fit->sqnr_db},
                 {"lost_updates_fraction", &fit->lost_fraction}};
  for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(item, numbers[k].key);
    if (number && !json_to_number(number, numbers[k].out))
      return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "\"%s\" is not a number",
                       numbers[k].key);
  }
  fit->accumulates = cJSON_GetObjectItemCaseSensitive(item, "lost_updates_fraction") != NULL;
  reason_member(item, "reason", &fit->reason);
  return STATUS_OK;
}

static enum status read_numbers(struct plan_reader *r, const cJSON *item, const char *const *keys,
                                double *const *out, size_t count) {
  for (size_t k = 0; k < count; k++) {
    const cJSON *number;
    TRY(member(r, item, keys[k], &number));
    if (!json_to_number(number, out[k]))
      return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag, "\"%s\" is not a number",
                       keys[k]);
  }
  return STATUS_OK;
}

static enum status read_window_scales(struct plan_reader *r, const cJSON *item,
                                      struct operand_plan *out) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "scale_log2_by_window"), *scale;
  int *scales = arena_array(r->arena, (size_t)cJSON_GetArraySize(list), sizeof *scales);
  cJSON_ArrayForEach(scale, list) {
    if (!cJSON_IsNumber(scale) || fabs(scale->valuedouble) > 1000)
      return fail(r, "\"scale_log2_by_window\" is not a list of small numbers");
    scales[out->n_window_scales++] = (int)scale->valuedouble;
  }
  out->window_scales = list ? scales : NULL;
  return STATUS_OK;
}

static enum status read_operand(struct plan_reader *r, const cJSON *item, int v) {
  const cJSON *object = cJSON_GetObjectItemCaseSensitive(item, "operand"), *scale;
  if (!object)
    return STATUS_OK;
  struct operand_plan *o = arena_alloc(r->arena, sizeof *o);
  *o = (struct operand_plan){0};
  static const char *const keys[] = {"headroom", "zero_fraction", "subnormal_fraction", "sqnr_db"};
  double *const out[] = {&o->headroom, &o->zero_fraction, &o->subnormal_fraction, &o->sqnr_db};
  TRY(read_numbers(r, object, keys, out, sizeof keys / sizeof keys[0]));
  TRY(member(r, object, "scale_log2", &scale));
  int least, most;
  quantise_scale_range(r->plan, &least, &most);
  if (!cJSON_IsNumber(scale) || scale->valuedouble < least || scale->valuedouble > most)
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "operand.scale_log2 is not a number from %d to %d", least, most);
  o->scale_log2 = (int)scale->valuedouble;
  r->plan->values[v].operand = o;
  return read_window_scales(r, object, o);
}

// What products read in the operand format needs a scale, and nothing else has one.
static enum status check_operands(struct plan_reader *r) {
  struct plan *p = r->plan;
  bool *read = arena_array(r->arena, (size_t)p->n_values, sizeof *read);
  for (int n = 0; n < p->n_nodes; n++)
    for (int k = 0; k < 2 && p->nodes[n].narrow_operands; k++) {
      int v = r->graph->nodes[n].inputs[k];
      read[v] = true;
      if (!p->values[v].operand)
        return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                         "%s has operands in %s: the value \"%s\" needs an \"operand\"",
                         graph_node_label(r->graph, n), formats[p->operand_format].name,
                         graph_value_label(r->graph, v));
      if (!quantise_scale_exact(r->graph, p, n, k, p->values[v].operand->scale_log2))
        return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                         "the scale of operand \"%s\" and that of \"%s\" together leave the format",
                         graph_value_label(r->graph, v), graph_node_label(r->graph, n));
    }
  for (int v = 0; v < p->n_values; v++)
    if (!read[v])
      p->values[v].operand = NULL;
  return STATUS_OK;
}

static const char *copy_text(struct plan_reader *r, struct copy copy) {
  const char *name = formats[copy.format].name;
  return copy.scale_log2 ? arena_printf(r->arena, "%s times 2^%d", name, copy.scale_log2) : name;
}

// A value is stored as its nodes say: an edit of it alone changes nothing.
static void warn_of_contradiction(struct plan_reader *r, int v, struct copy said) {
  const struct value *value = &r->graph->values[v];
  if (r->differing++ >= CONTRADICTIONS_SHOWN)
    return;
  bool made = value->origin == ORIGIN_NODE && !graph_is_constant(r->graph, v);
  const struct value_plan *stays = &r->plan->values[v];
  diag_warn(
      r->diag, "%s: values[%d]: %s is %s here, but %s: it stays %s; edit nodes to change that",
      r->path, r->at.indices[r->at.depth - 1], graph_value_label(r->graph, v), copy_text(r, said),
      made ? arena_printf(r->arena, "node %s, which makes it, says otherwise",
                          graph_node_label(r->graph, value->producer))
           : "the nodes that read it say otherwise",
      copy_text(r, (struct copy){stays->format, stays->scale_log2}));
}

static enum status read_value(struct plan_reader *r, const cJSON *item) {
  int scope;
  const char *name;
  TRY(find_scope(r, item, &scope));
  TRY(text_member(r, item, "value", &name));
  int v = map_get(&r->graph->names, scope, name);
  if (v < 0 || !r->plan->values[v].considered)
    return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                     "the model has no fp32 value \"%s\" there", name);
  enum format_id format;
  TRY(format_member(r, item, "format", &format));
  const cJSON *scale;
  TRY(member(r, item, "scale_log2", &scale));
  if (!is_scale(scale))
    return fail(r, "\"scale_log2\" is not a whole number from -126 to 126");
  const struct value_plan *value = &r->plan->values[v];
  if (format != value->format || (int)scale->valuedouble != value->scale_log2)
    warn_of_contradiction(r, v, (struct copy){format, (int)scale->valuedouble});
  TRY(read_operand(r, item, v));
  return read_fit(r, item, &r->plan->values[v].fit);
}

// What the model gives out narrow cannot be scaled: whoever reads it there knows of no scale.
static enum status check_given_out(struct plan_reader *r, int v) {
  const struct value *value = &r->graph->values[v];
  if (!r->plan->narrow_outputs || r->plan->values[v].scale_log2 == 0 || value->scope != 0)
    return STATUS_OK;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node < 0)
      return json_fail(r->text, r->path, &r->at, STATUS_POLICY, r->diag,
                       "\"%s\" is given out narrow, so its node cannot store it at a scale",
                       value->name);
  return STATUS_OK;
}

static enum status read_values(struct plan_reader *r, const cJSON *root) {
  struct plan *p = r->plan;
  for (int v = 0; v < p->n_values; v++) {
    bool fp32 = graph_is_fp32(r->graph, v);
    p->values[v] = (struct value_plan){.format = FORMAT_FP32, .considered = fp32};
    if (fp32) {
      p->values[v].format = plan_stored_format(r->graph, p, v);
      p->values[v].scale_log2 = plan_stored_scale(r->graph, p, v);
      TRY(check_given_out(r, v));
    }
  }
  const cJSON *values, *item;
  TRY(member(r, root, "values", &values));
  json_push_key(&r->at, "values");
  int k = 0;
  cJSON_ArrayForEach(item, values) {
    int depth = r->at.depth;
    json_push_index(&r->at, k++);
    if (read_value(r, item) != STATUS_OK)
      diag_collect(&r->errors, r->diag);
    r->at.depth = depth;
  }
  json_pop(&r->at);
  return STATUS_OK;
}

static enum status read_plan(struct plan_reader *r, const cJSON *root) {
  if (!cJSON_IsObject(root))
    return fail(r, "not a plan file");
  TRY(read_head(r, root));
  TRY(read_ladder(r, root));
  TRY(read_thresholds(r, root));
  TRY(read_rules(r, root));
  TRY(read_overrides(r, root));
  TRY(read_statistics(r, root));
  TRY(read_claims(r, root));
  TRY(read_promotions(r, root));
  TRY(read_nodes(r, root));
  TRY(read_values(r, root));
  if (r->errors.count == 0)
    TRY(check_operands(r));
  plan_find_headroom(r->plan, r->graph);
  if (r->differing > CONTRADICTIONS_SHOWN)
    diag_warn(r->diag, "%s: so are %d more values", r->path, r->differing - CONTRADICTIONS_SHOWN);
  return diag_list_end(&r->errors, r->diag, "entries cannot be applied, as named above");
}

enum status plan_read(struct plan *p, struct graph *g, const char *path, struct arena *a,
                      struct diag *d) {
  *p = (struct plan){
      .values = arena_array(a, (size_t)g->n_values, sizeof *p->values),
      .nodes = arena_array(a, (size_t)g->n_nodes, sizeof *p->nodes),
      .n_values = g->n_values,
      .n_nodes = g->n_nodes,
  };
  struct plan_reader r = {.plan = p, .graph = g, .arena = a, .diag = d, .path = path};
  r.scopes.arena = a;
  r.seen = arena_array(a, (size_t)g->n_nodes, sizeof *r.seen);
  for (int s = 0; s < g->n_scopes; s++)
    map_put(&r.scopes, 0, g->scopes[s].path, s);
  r.labels.arena = r.rules.arena = a;
  for (int v = 0; v < g->n_values; v++)
    map_put(&r.labels, 0, graph_value_label(g, v), v);
  cJSON *root;
  TRY(json_read(&root, &r.text, path, STATUS_POLICY, a, d));
  enum status status = read_plan(&r, root);
  cJSON_Delete(root);
  return status;
}

enum status plan_read_opset(int *raised_to, const char *path, struct arena *a, struct diag *d) {
  cJSON *root;
  struct plan_reader r = {.arena = a, .diag = d, .path = path};
  TRY(json_read(&root, &r.text, path, STATUS_POLICY, a, d));
  const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
  const cJSON *opset = cJSON_GetObjectItemCaseSensitive(model, "opset_raised_to");
  enum status status = STATUS_OK;
  *raised_to = 0;
  json_push_key(&r.at, "model");
  if (opset)
    status = integer_member(&r, model, "opset_raised_to", raised_to);
  if (status == STATUS_OK && opset &&
      (*raised_to < RAISE_OPSET_LEAST || *raised_to > RAISE_OPSET_MOST))
    status = fail(&r, "opset_raised_to is out of range");
  cJSON_Delete(root);
  return status;
}
