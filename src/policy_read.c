// Reads a policy file. Every object of the format is a table of fields below, from which one
// function finds unknown, missing and mistyped keys, so that a mistake is always an error with its
// place and never a silent default: the file holds every threshold, this file none. What it accepts
// is also written as rules/policy.schema.json, and explained in rules/README.md.
#include "policy.h"

#include "file.h"
#include "json.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// The file's words for the enums of policy.h, in their order.
static const char *const class_names[] = {"narrow", "follow", "pin", "keep", NULL};
static const char *const metric_names[] = {"max_abs", "relative_l2", "cosine", "sqnr_db",
                                           "top1",    "label_loss",  "finite", NULL};
static const char *const constants_names[] = {"keep_wide", "saturate", "infinity", NULL};

const char *node_class_name(enum node_class c) {
  return class_names[c];
}

const char *metric_name(enum metric m) {
  return metric_names[m];
}

const char *constants_rule_name(enum constants_rule c) {
  return constants_names[c];
}

struct reader {
  const char *text, *file;
  struct json_path path;
  struct arena *arena;
  struct diag *diag;
};

enum { FIELDS_MAX = 16, RULES_MAX = 1000, CLAIMS_MAX = 1000 };

struct field {
  const char *key;
  // Reads the member's value to the object at `base`.
  enum status (*read)(struct reader *r, const cJSON *value, const struct field *f, void *base);
  size_t offset;  // in the object
  bool optional;
  double min, max;             // of numbers
  const char *const *choices;  // of strings, NULL-terminated
  const struct field *fields;  // of a section: an object whose members land in the same struct
};

// The messages' common form; `format` must be a literal.
#define FAIL(r, ...)                                                                               \
  json_fail((r)->text, (r)->file, &(r)->path, STATUS_POLICY, (r)->diag, __VA_ARGS__)

// "a, b, c" for hints.
static const char *join(struct reader *r, const char *const *names) {
  const char *text = "";
  for (; *names; names++)
    text = arena_printf(r->arena, "%s%s%s", text, text[0] ? ", " : "", *names);
  return text;
}

static void hint_names(struct reader *r, const char *word, const char *const *names,
                       const char *what) {
  const char *nearest = nearest_name(word, names);
  if (nearest)
    diag_hint(r->diag, "Did you mean \"%s\"? %s: %s.", nearest, what, join(r, names));
  else
    diag_hint(r->diag, "%s: %s.", what, join(r, names));
}

static const char *kind_name(const cJSON *value) {
  return cJSON_IsString(value)   ? "a string"
         : cJSON_IsNumber(value) ? "a number"
         : cJSON_IsBool(value)   ? "true or false"
         : cJSON_IsArray(value)  ? "a list"
         : cJSON_IsObject(value) ? "an object"
                                 : "null";
}

static enum status wrong_type(struct reader *r, const cJSON *value, const char *expected) {
  return FAIL(r, "expected %s, found %s", expected, kind_name(value));
}

static int count_fields(const struct field *fields) {
  int count = 0;
  while (fields[count].key)
    count++;
  assert(count < FIELDS_MAX);
  return count;
}

static enum status unknown_key(struct reader *r, const char *key, const struct field *fields) {
  const char *names[FIELDS_MAX] = {NULL};
  for (int i = 0; fields[i].key; i++)
    names[i] = fields[i].key;
  hint_names(r, key, names, "The keys here are");
  return FAIL(r, "unknown key");
}

static enum status read_object(struct reader *r, const cJSON *object, const struct field *fields,
                               void *base) {
  if (!cJSON_IsObject(object))
    return wrong_type(r, object, "an object");
  int count = count_fields(fields);
  bool seen[FIELDS_MAX] = {false};
  for (const cJSON *m = object->child; m; m = m->next) {
    int i = 0;
    while (i < count && strcmp(fields[i].key, m->string) != 0)
      i++;
    json_push_key(&r->path, m->string);
    if (i == count)
      return unknown_key(r, m->string, fields);
    seen[i] = true;
    TRY(fields[i].read(r, m, &fields[i], base));
    json_pop(&r->path);
  }
  for (int i = 0; i < count; i++)
    if (!seen[i] && !fields[i].optional)
      return FAIL(r, "the key \"%s\" is missing", fields[i].key);
  return STATUS_OK;
}

static enum status read_section(struct reader *r, const cJSON *value, const struct field *f,
                                void *base) {
  return read_object(r, value, f->fields, base);
}

static void *target(void *base, const struct field *f) {
  return (char *)base + f->offset;
}

static enum status check_string(struct reader *r, const cJSON *value) {
  if (!cJSON_IsString(value))
    return wrong_type(r, value, "a string");
  if (value->valuestring[0] == '\0')
    return FAIL(r, "must not be empty");
  return STATUS_OK;
}

static enum status read_string(struct reader *r, const cJSON *value, const struct field *f,
                               void *base) {
  TRY(check_string(r, value));
  *(const char **)target(base, f) = arena_strdup(r->arena, value->valuestring);
  return STATUS_OK;
}

// A string for the file's reader only.
static enum status read_remark(struct reader *r, const cJSON *value, const struct field *f,
                               void *base) {
  (void)f;
  (void)base;
  return check_string(r, value);
}

static enum status check_number(struct reader *r, const cJSON *value, const struct field *f) {
  if (!cJSON_IsNumber(value))
    return wrong_type(r, value, "a number");
  double number = value->valuedouble;
  if (number < f->min || number > f->max)
    return FAIL(r, "%.15g is out of range; it must be in %.15g to %.15g", number, f->min, f->max);
  return STATUS_OK;
}

static enum status read_number(struct reader *r, const cJSON *value, const struct field *f,
                               void *base) {
  TRY(check_number(r, value, f));
  *(double *)target(base, f) = value->valuedouble;
  return STATUS_OK;
}

static enum status read_integer(struct reader *r, const cJSON *value, const struct field *f,
                                void *base) {
  TRY(check_number(r, value, f));
  if (floor(value->valuedouble) != value->valuedouble)
    return FAIL(r, "%.15g is not a whole number", value->valuedouble);
  *(int *)target(base, f) = (int)value->valuedouble;
  return STATUS_OK;
}

static enum status read_bool(struct reader *r, const cJSON *value, const struct field *f,
                             void *base) {
  if (!cJSON_IsBool(value))
    return wrong_type(r, value, "true or false");
  *(bool *)target(base, f) = cJSON_IsTrue(value);
  return STATUS_OK;
}

static enum status find_choice(struct reader *r, const cJSON *value, const char *const *choices,
                               int *index) {
  if (!cJSON_IsString(value))
    return wrong_type(r, value, "a string");
  for (*index = 0; choices[*index]; ++*index)
    if (strcmp(value->valuestring, choices[*index]) == 0)
      return STATUS_OK;
  hint_names(r, value->valuestring, choices, "The values here are");
  return FAIL(r, "unknown value \"%s\"", value->valuestring);
}

// Enums are read as the index among the choices.
static_assert(sizeof(enum node_class) == sizeof(int) && sizeof(enum metric) == sizeof(int) &&
                  sizeof(enum constants_rule) == sizeof(int),
              "read_choice writes an int");

static enum status read_choice(struct reader *r, const cJSON *value, const struct field *f,
                               void *base) {
  int index;
  TRY(find_choice(r, value, f->choices, &index));
  memcpy(target(base, f), &index, sizeof index);
  return STATUS_OK;
}

// Two choices: false and true.
static enum status read_switch(struct reader *r, const cJSON *value, const struct field *f,
                               void *base) {
  int index;
  TRY(find_choice(r, value, f->choices, &index));
  *(bool *)target(base, f) = index == 1;
  return STATUS_OK;
}

static enum status check_list(struct reader *r, const cJSON *value, int max, int *count) {
  if (!cJSON_IsArray(value))
    return wrong_type(r, value, "a list");
  *count = cJSON_GetArraySize(value);
  if (*count == 0)
    return FAIL(r, "must not be empty");
  if (*count > max)
    return FAIL(r, "has %d elements; %d at most", *count, max);
  return STATUS_OK;
}

// A list of globs: NULL-terminated. `f->min` is the least length of one.
static enum status read_globs(struct reader *r, const cJSON *value, const struct field *f,
                              void *base) {
  int count;
  TRY(check_list(r, value, INT32_MAX, &count));
  const char **globs = arena_array(r->arena, (size_t)count + 1, sizeof *globs);
  int i = 0;
  for (const cJSON *m = value->child; m; m = m->next, i++) {
    json_push_index(&r->path, i);
    if (!cJSON_IsString(m) || f->min > 0)
      TRY(check_string(r, m));
    globs[i] = arena_strdup(r->arena, m->valuestring);
    json_pop(&r->path);
  }
  *(const char ***)target(base, f) = globs;
  return STATUS_OK;
}

// The index of an input, kept as a bit mask.
static enum status read_input(struct reader *r, const cJSON *value, const struct field *f,
                              void *base) {
  int index;
  struct field integer = {.offset = 0, .min = f->min, .max = f->max};
  TRY(read_integer(r, value, &integer, &index));
  *(uint64_t *)target(base, f) = (uint64_t)1 << index;
  return STATUS_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Operators: plain names are sorted, for the binary search of policy_match, and globs kept apart.
static enum status read_ops(struct reader *r, const cJSON *value, const struct field *f,
                            void *base) {
  const char **all;
  struct field list = {.offset = 0, .min = f->min};
  TRY(read_globs(r, value, &list, &all));
  struct rule *rule = base;
  size_t count = 0;
  while (all[count])
    count++;
  const char **plain = arena_array(r->arena, count + 1, sizeof *plain);
  const char **globs = arena_array(r->arena, count + 1, sizeof *globs);
  int n_globs = 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = strncmp(all[i], "ai.onnx:", 8) == 0 ? all[i] + 8 : all[i];
    if (strpbrk(name, "*?"))
      globs[n_globs++] = name;
    else
      plain[rule->n_ops++] = name;
  }
  qsort(plain, (size_t)rule->n_ops, sizeof *plain, compare_names);
  rule->ops = rule->n_ops > 0 ? plain : NULL;
  rule->op_globs = n_globs > 0 ? globs : NULL;
  return STATUS_OK;
}

static enum status read_ladder(struct reader *r, const cJSON *value, const struct field *f,
                               void *base) {
  static const char *const names[] = {"fp16", "bf16", "fp32", NULL};
  static const enum format_id ids[] = {FORMAT_FP16, FORMAT_BF16, FORMAT_FP32};
  (void)f;
  struct policy *p = base;
  int count;
  TRY(check_list(r, value, (int)(sizeof p->ladder / sizeof p->ladder[0]), &count));
  for (const cJSON *m = value->child; m; m = m->next) {
    json_push_index(&r->path, p->n_ladder);
    const struct format *known = cJSON_IsString(m) ? format_find(m->valuestring) : NULL;
    int index;
    if (known && known->id != FORMAT_FP16 && known->id != FORMAT_BF16 && known->id != FORMAT_FP32)
      return FAIL(r, "%s is not supported in a ladder yet; only fp16, bf16 and fp32 are",
                  known->name);
    if (known && strcmp(known->name, m->valuestring) != 0)
      return FAIL(r, "write \"%s\" for \"%s\"", known->name, m->valuestring);
    TRY(find_choice(r, m, names, &index));
    for (int i = 0; i < p->n_ladder; i++)
      if (p->ladder[i] == ids[index])
        return FAIL(r, "%s is in the ladder twice", names[index]);
    p->ladder[p->n_ladder++] = ids[index];
    json_pop(&r->path);
  }
  if (p->ladder[p->n_ladder - 1] != FORMAT_FP32)
    return FAIL(r, "the last format must be fp32, where everything fits that came from it");
  return STATUS_OK;
}

static enum status read_hold_out(struct reader *r, const cJSON *value, const struct field *f,
                                 void *base) {
  // Something must be left on both sides: to calibrate on, and to prove the claims on.
  static const struct field fields[] = {
      {"share", read_number, offsetof(struct policy, hold_out.share), true, 0.01, 0.99, NULL, NULL},
      {"every", read_integer, offsetof(struct policy, hold_out.every), true, 2, 1e6, NULL, NULL},
      {NULL, NULL, 0, false, 0, 0, NULL, NULL}};
  (void)f;
  TRY(read_object(r, value, fields, base));
  if (cJSON_GetArraySize(value) != 1)
    return FAIL(r, "needs either \"share\" or \"every\"");
  return STATUS_OK;
}

static const char *const io_names[] = {"keep", "narrow", NULL};
static const char *const cast_names[] = {"follow", "keep", NULL};

#define END                                                                                        \
  { NULL, NULL, 0, false, 0, 0, NULL, NULL }
#define REMARK(key)                                                                                \
  { key, read_remark, 0, true, 0, 0, NULL, NULL }
#define STRING(type, key, member)                                                                  \
  { key, read_string, offsetof(type, member), false, 0, 0, NULL, NULL }
#define GLOBS(type, key, member, least)                                                            \
  { key, read_globs, offsetof(type, member), true, least, 0, NULL, NULL }
#define NUMBER(key, member, min, max)                                                              \
  { key, read_number, offsetof(struct policy, member), false, min, max, NULL, NULL }
#define INTEGER(key, member, min, max)                                                             \
  { key, read_integer, offsetof(struct policy, member), false, min, max, NULL, NULL }
#define CHOICE(type, read, key, member, names)                                                     \
  { key, read, offsetof(type, member), false, 0, 0, names, NULL }
#define SPECIAL(key, read)                                                                         \
  { key, read, 0, false, 0, 0, NULL, NULL }
#define SECTION(key, fields)                                                                       \
  { key, read_section, 0, false, 0, 0, NULL, fields }

static const struct field match_fields[] = {
    {"op", read_ops, 0, true, 1, 0, NULL, NULL},
    GLOBS(struct rule, "node", nodes, 1),
    GLOBS(struct rule, "tensor", tensors, 1),
    GLOBS(struct rule, "scope", scopes, 0),
    {"constant_input", read_input, offsetof(struct rule, constant_inputs), true, 0, 63, NULL, NULL},
    END,
};
static const struct field rule_fields[] = {
    STRING(struct rule, "id", id),
    SECTION("match", match_fields),
    CHOICE(struct rule, read_choice, "class", class, class_names),
    STRING(struct rule, "why", why),
    END,
};
static const struct field claim_fields[] = {
    STRING(struct claim, "id", id),
    CHOICE(struct claim, read_choice, "metric", metric, metric_names),
    {"limit", read_number, offsetof(struct claim, limit), true, -1e30, 1e30, NULL, NULL},
    GLOBS(struct claim, "outputs", outputs, 1),
    {"why", read_string, offsetof(struct claim, why), true, 0, 0, NULL, NULL},
    END,
};

static enum status read_rules(struct reader *r, const cJSON *value, const struct field *f,
                              void *base) {
  (void)f;
  struct policy *p = base;
  int count;
  TRY(check_list(r, value, RULES_MAX, &count));
  p->rules = arena_array(r->arena, (size_t)count, sizeof *p->rules);
  for (const cJSON *m = value->child; m; m = m->next) {
    struct rule *rule = &p->rules[p->n_rules];
    json_push_index(&r->path, p->n_rules);
    TRY(read_object(r, m, rule_fields, rule));
    for (int i = 0; i < p->n_rules; i++)
      if (strcmp(p->rules[i].id, rule->id) == 0)
        return FAIL(r, "the id \"%s\" is that of rules[%d] too", rule->id, i);
    json_pop(&r->path);
    p->n_rules++;
  }
  return STATUS_OK;
}

// The range of a claim's limit follows from its metric; "finite" has none.
static enum status check_limit(struct reader *r, const struct claim *claim) {
  static const struct {
    double min, max;
  } ranges[] = {
      [METRIC_MAX_ABS] = {0, 1e30}, [METRIC_RELATIVE_L2] = {0, 1e30},
      [METRIC_COSINE] = {-1, 1},    [METRIC_SQNR_DB] = {-1e30, 1e30},
      [METRIC_TOP1] = {0, 1},       [METRIC_LABEL_LOSS] = {0, 1},
      [METRIC_FINITE] = {0, 0},
  };
  const char *metric = metric_name(claim->metric);
  bool given = !isnan(claim->limit);
  if (claim->metric == METRIC_FINITE && !given)
    return STATUS_OK;
  if (!given)
    return FAIL(r, "the key \"limit\" is missing");
  json_push_key(&r->path, "limit");
  if (claim->metric == METRIC_FINITE)
    return FAIL(r, "the metric \"finite\" has no limit: every element must be finite");
  double min = ranges[claim->metric].min, max = ranges[claim->metric].max;
  if (claim->limit < min || claim->limit > max)
    return FAIL(r, "%.15g is out of range; for %s it must be in %.15g to %.15g", claim->limit,
                metric, min, max);
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_claims(struct reader *r, const cJSON *value, const struct field *f,
                               void *base) {
  (void)f;
  struct policy *p = base;
  int count;
  TRY(check_list(r, value, CLAIMS_MAX, &count));
  p->claims = arena_array(r->arena, (size_t)count, sizeof *p->claims);
  for (const cJSON *m = value->child; m; m = m->next) {
    struct claim *claim = &p->claims[p->n_claims];
    claim->limit = NAN;
    json_push_index(&r->path, p->n_claims);
    TRY(read_object(r, m, claim_fields, claim));
    TRY(check_limit(r, claim));
    if (claim->metric == METRIC_FINITE)
      claim->limit = 0;
    for (int i = 0; i < p->n_claims; i++)
      if (strcmp(p->claims[i].id, claim->id) == 0)
        return FAIL(r, "the id \"%s\" is that of claims[%d] too", claim->id, i);
    json_pop(&r->path);
    p->n_claims++;
  }
  return STATUS_OK;
}

static const struct field calibration_fields[] = {
    INTEGER("window", window, 1, 1e6),
    INTEGER("sample", sample, 0, 1e9),
    SPECIAL("hold_out", read_hold_out),
    REMARK("why"),
    END,
};
static const struct field range_fields[] = {
    NUMBER("margin", margin, 1, 1e6),
    NUMBER("max_zero_fraction", max_zero_fraction, 0, 1),
    NUMBER("max_subnormal_fraction", max_subnormal_fraction, 0, 1),
    {"flush_to_zero", read_bool, offsetof(struct policy, ftz), false, 0, 0, NULL, NULL},
    REMARK("why"),
    END,
};
static const struct field constants_fields[] = {
    CHOICE(struct policy, read_choice, "out_of_range", constants, constants_names),
    NUMBER("max_zero_fraction", constant_max_zero_fraction, 0, 1),
    NUMBER("max_subnormal_fraction", constant_max_subnormal_fraction, 0, 1),
    REMARK("why"),
    END,
};
static const struct field graph_fields[] = {
    CHOICE(struct policy, read_switch, "inputs", narrow_inputs, io_names),
    CHOICE(struct policy, read_switch, "outputs", narrow_outputs, io_names),
    REMARK("why"),
    END,
};
static const struct field casts_fields[] = {
    CHOICE(struct policy, read_switch, "by_author", keep_author_casts, cast_names),
    REMARK("why"),
    END,
};
static const struct field boundary_fields[] = {
    NUMBER("cast_cost", cast_cost, 0, 1e6),
    NUMBER("narrow_gain", narrow_gain, 0, 1e6),
    NUMBER("follow_gain", follow_gain, 0, 1e6),
    REMARK("why"),
    END,
};
static const struct field promotion_fields[] = {
    INTEGER("rounds", promotion_rounds, 0, 20),
    REMARK("why"),
    END,
};
static const struct field policy_fields[] = {
    REMARK("$schema"),
    STRING(struct policy, "name", name),
    INTEGER("version", version, 1, 1e9),
    STRING(struct policy, "description", description),
    SPECIAL("ladder", read_ladder),
    SECTION("calibration", calibration_fields),
    SECTION("range", range_fields),
    SECTION("constants", constants_fields),
    SECTION("graph", graph_fields),
    SECTION("casts", casts_fields),
    SECTION("boundary", boundary_fields),
    SECTION("promotion", promotion_fields),
    SPECIAL("rules", read_rules),
    SPECIAL("claims", read_claims),
    END,
};

enum status policy_parse(struct policy *p, const char *text, const char *path, struct arena *a,
                         struct diag *d) {
  memset(p, 0, sizeof *p);
  cJSON *root;
  TRY(json_parse(&root, text, path, STATUS_POLICY, d));
  struct reader r = {.text = text, .file = path, .arena = a, .diag = d};
  enum status status = read_object(&r, root, policy_fields, p);
  cJSON_Delete(root);
  if (status != STATUS_OK)
    return status;
  p->overrides = arena_array(a, 1, sizeof *p->overrides);
  sha256_hex(text, strlen(text), p->sha256);
  return STATUS_OK;
}
