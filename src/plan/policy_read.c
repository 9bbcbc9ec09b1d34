// Reads a policy file. Every object of the format is a table of fields below (see fields.h): the
// file holds every threshold, this file none. What it accepts is also written as
// rules/policy.schema.json, and explained in rules/README.md.
#include "policy.h"

#include "fields.h"
#include "file.h"
#include "raise_opset.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// The file's words for the enums of policy.h, in their order.
static const char *const class_names[] = {"narrow", "follow", "pin", "keep", NULL};
static const char *const metric_names[] = {"max_abs",      "relative_l2", "cosine",
                                           "sqnr_db",      "top1",        "label_loss",
                                           "matched_rows", "finite",      NULL};
static const char *const constants_names[] = {"keep_wide", "saturate", "infinity", NULL};

const char *node_class_name(enum node_class c) {
  return class_names[c];
}

const char *metric_name(enum metric m) {
  return metric_names[m];
}

bool metric_wants_more(enum metric m) {
  return m == METRIC_COSINE || m == METRIC_SQNR_DB || m == METRIC_TOP1 || m == METRIC_MATCHED_ROWS;
}

const char *constants_rule_name(enum constants_rule c) {
  return constants_names[c];
}

enum { RULES_MAX = 1000, CLAIMS_MAX = 1000 };

// Enums are read as the index among the choices.
static_assert(sizeof(enum node_class) == sizeof(int) && sizeof(enum metric) == sizeof(int) &&
                  sizeof(enum constants_rule) == sizeof(int),
              "fields_read_choice writes an int");

// The index of an input, kept as a bit mask.
static enum status read_input(struct reader *r, const struct json *value, const struct field *f,
                              void *base) {
  int index;
  struct field integer = {.offset = 0, .min = f->min, .max = f->max};
  TRY(fields_read_integer(r, value, &integer, &index));
  struct rule *rule = base;
  rule->constant_inputs = (uint64_t)1 << index;
  return STATUS_OK;
}

// Names of patterns, kept as a bit mask.
static enum status read_patterns(struct reader *r, const struct json *value, const struct field *f,
                                 void *base) {
  struct rule *rule = base;
  int count;
  (void)f;
  TRY(fields_check_list(r, value, PATTERN_COUNT, &count));
  for (int i = 0; i < count; i++) {
    int index;
    json_push_index(&r->path, i);
    TRY(fields_find_choice(r, json_element(value, i), pattern_names(), &index));
    rule->patterns |= (uint32_t)1 << (index + 1);
    json_pop(&r->path);
  }
  return STATUS_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Operators: plain names are sorted, for the binary search of policy_match, and globs kept apart.
static enum status read_ops(struct reader *r, const struct json *value, const struct field *f,
                            void *base) {
  const char **all;
  struct field list = {.offset = 0, .min = f->min};
  TRY(fields_read_globs(r, value, &list, &all));
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

bool policy_is_weight_format(enum format_id f) {
  return f == FORMAT_FP4E2M1;
}

bool policy_is_operand_format(enum format_id f) {
  return policy_is_weight_format(f) || f == FORMAT_FP8E4M3FN || f == FORMAT_FP8E4M3FNUZ ||
         f == FORMAT_FP8E5M2 || f == FORMAT_FP8E5M2FNUZ || f == FORMAT_TF32;
}

static enum status read_ladder(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  static const char *const names[] = {"fp16", "bf16", "fp32", NULL};
  static const enum format_id ids[] = {FORMAT_FP16, FORMAT_BF16, FORMAT_FP32};
  (void)f;
  struct policy *p = base;
  int count;
  TRY(fields_check_list(r, value, LADDER_MOST, &count));
  for (const struct json *m = value->first; m; m = m->next) {
    json_push_index(&r->path, p->n_ladder);
    const struct format *known = json_is(m, JSON_STRING) ? format_find(m->text) : NULL;
    int index;
    if (known && strcmp(known->name, m->text) != 0)
      return FIELDS_FAIL(r, "write \"%s\" for \"%s\"", known->name, m->text);
    if (known && policy_is_operand_format(known->id)) {
      if (m != value->first)
        return FIELDS_FAIL(r, "%s is for operands of matrix products: it must come first",
                           known->name);
      p->tf32 = known->id == FORMAT_TF32;
      p->operands.wanted = !p->tf32;
      p->operands.format = known->id;
      json_pop(&r->path);
      continue;
    }
    const char *near = json_is(m, JSON_STRING) && !known ? format_near(m->text) : NULL;
    if (near) {
      diag_hint(r->diag, "Did you mean \"%s\"? `narrowcast formats` lists them.", near);
      return FIELDS_FAIL(r, "unknown format \"%s\"", m->text);
    }
    if (known && known->id != FORMAT_FP16 && known->id != FORMAT_BF16 && known->id != FORMAT_FP32)
      return FIELDS_FAIL(r, "%s is not supported in a ladder", known->name);
    TRY(fields_find_choice(r, m, names, &index));
    for (int i = 0; i < p->n_ladder; i++)
      if (p->ladder[i] == ids[index])
        return FIELDS_FAIL(r, "%s is in the ladder twice", names[index]);
    p->ladder[p->n_ladder++] = ids[index];
    json_pop(&r->path);
  }
  if (p->n_ladder == 0 || p->ladder[p->n_ladder - 1] != FORMAT_FP32)
    return FIELDS_FAIL(r, "the last format must be fp32, where everything fits that came from it");
  if (p->tf32 && p->n_ladder > 1)
    return FIELDS_FAIL(r, "tf32 is a setting for products of fp32: only fp32 may follow it");
  return STATUS_OK;
}

static enum status read_hold_out(struct reader *r, const struct json *value, const struct field *f,
                                 void *base) {
  // Something must be left on both sides: to calibrate on, and to prove the claims on.
  static const struct field fields[] = {
      {"share", fields_read_number, offsetof(struct policy, hold_out.share), true, 0.01, 0.99, NULL,
       NULL},
      {"every", fields_read_integer, offsetof(struct policy, hold_out.every), true, 2, 1e6, NULL,
       NULL},
      {NULL, NULL, 0, false, 0, 0, NULL, NULL}};
  (void)f;
  TRY(fields_read_object(r, value, fields, base));
  if (json_count(value) != 1)
    return FIELDS_FAIL(r, "needs either \"share\" or \"every\"");
  return STATUS_OK;
}

// A shipped table, or a path, which counts from the policy's folder.
static enum status read_target(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  const char *name;
  struct field string = {.offset = 0};
  (void)f;
  TRY(fields_read_string(r, value, &string, &name));
  struct policy *p = base;
  return target_load(&p->target, name, r->file, r->arena, r->diag);
}

static const char *const io_names[] = {"keep", "narrow", NULL};
static const char *const accumulator_names[] = {"wide", "narrow", NULL};
static const char *const cast_names[] = {"follow", "keep", NULL};
static const char *const scale_names[] = {"never", "when_needed", NULL};
static const char *const integer_names[] = {"rounded", "exact", NULL};

static const struct field match_fields[] = {
    {"op", read_ops, 0, true, 1, 0, NULL, NULL},
    GLOBS(struct rule, "node", nodes, 1),
    GLOBS(struct rule, "tensor", tensors, 1),
    GLOBS(struct rule, "scope", scopes, 0),
    {"pattern", read_patterns, 0, true, 0, 0, NULL, NULL},
    {"constant_input", read_input, offsetof(struct rule, constant_inputs), true, 0, 63, NULL, NULL},
    {"sums_in_fp32", fields_read_bool, offsetof(struct rule, sums_in_fp32), true, 0, 0, NULL, NULL},
    END,
};
static const struct field rule_fields[] = {
    STRING(struct rule, "id", id),
    SECTION("match", match_fields),
    CHOICE(struct rule, fields_read_choice, "class", class, class_names),
    STRING(struct rule, "why", why),
    END,
};
static const struct field claim_fields[] = {
    STRING(struct claim, "id", id),
    CHOICE(struct claim, fields_read_choice, "metric", metric, metric_names),
    {"limit", fields_read_number, offsetof(struct claim, limit), true, -1e30, 1e30, NULL, NULL},
    {"tolerance", fields_read_number, offsetof(struct claim, tolerance), true, 0, 1, NULL, NULL},
    GLOBS(struct claim, "outputs", outputs, 1),
    {"why", fields_read_string, offsetof(struct claim, why), true, 0, 0, NULL, NULL},
    END,
};

static enum status read_training(struct reader *r, const struct json *value, const struct field *f,
                                 void *base) {
  struct policy *p = base;
  p->training.use = true;
  return fields_read_section(r, value, f, base);
}

static enum status read_rules(struct reader *r, const struct json *value, const struct field *f,
                              void *base) {
  (void)f;
  struct policy *p = base;
  int count;
  TRY(fields_check_list(r, value, RULES_MAX, &count));
  p->rules = arena_array(r->arena, (size_t)count, sizeof *p->rules);
  for (const struct json *m = value->first; m; m = m->next) {
    struct rule *rule = &p->rules[p->n_rules];
    json_push_index(&r->path, p->n_rules);
    TRY(fields_read_object(r, m, rule_fields, rule));
    for (int i = 0; i < p->n_rules; i++)
      if (strcmp(p->rules[i].id, rule->id) == 0)
        return FIELDS_FAIL(r, "the id \"%s\" is that of rules[%d] too", rule->id, i);
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
      [METRIC_FINITE] = {0, 0},     [METRIC_MATCHED_ROWS] = {0, 1},
  };
  const char *metric = metric_name(claim->metric);
  bool given = !isnan(claim->limit);
  if (claim->metric == METRIC_FINITE && !given)
    return STATUS_OK;
  if (!given)
    return FIELDS_FAIL(r, "the key \"limit\" is missing");
  json_push_key(&r->path, "limit");
  if (claim->metric == METRIC_FINITE)
    return FIELDS_FAIL(r, "the metric \"finite\" has no limit: every element must be finite");
  double min = ranges[claim->metric].min, max = ranges[claim->metric].max;
  if (claim->limit < min || claim->limit > max)
    return FIELDS_FAIL(r, "%.15g is out of range; for %s it must be in %.15g to %.15g",
                       claim->limit, metric, min, max);
  json_pop(&r->path);
  return STATUS_OK;
}

// Rows are matched once, so that there is one tolerance; other metrics have none.
static enum status check_tolerance(struct reader *r, const struct policy *p,
                                   const struct claim *claim) {
  bool given = !isnan(claim->tolerance), asked = claim->metric == METRIC_MATCHED_ROWS;
  if (given != asked)
    return FIELDS_FAIL(r, asked ? "the key \"tolerance\" is missing"
                                : "only the metric \"matched_rows\" has a tolerance");
  for (int i = 0; i < p->n_claims && asked; i++)
    if (p->claims[i].metric == claim->metric && p->claims[i].tolerance != claim->tolerance)
      return FIELDS_FAIL(r, "the tolerance of claims[%d] is another: rows are matched by one", i);
  return STATUS_OK;
}

static enum status read_claims(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  (void)f;
  struct policy *p = base;
  int count;
  TRY(fields_check_list(r, value, CLAIMS_MAX, &count));
  p->claims = arena_array(r->arena, (size_t)count, sizeof *p->claims);
  for (const struct json *m = value->first; m; m = m->next) {
    struct claim *claim = &p->claims[p->n_claims];
    claim->limit = claim->tolerance = NAN;
    json_push_index(&r->path, p->n_claims);
    TRY(fields_read_object(r, m, claim_fields, claim));
    TRY(check_limit(r, claim));
    TRY(check_tolerance(r, p, claim));
    if (claim->metric == METRIC_FINITE)
      claim->limit = 0;
    for (int i = 0; i < p->n_claims; i++)
      if (strcmp(p->claims[i].id, claim->id) == 0)
        return FIELDS_FAIL(r, "the id \"%s\" is that of claims[%d] too", claim->id, i);
    json_pop(&r->path);
    p->n_claims++;
  }
  return STATUS_OK;
}

static const struct field calibration_fields[] = {
    INTEGER(struct policy, "window", window, 1, 1e6),
    INTEGER(struct policy, "sample", sample, 0, 1e9),
    SPECIAL("hold_out", read_hold_out),
    {"held_out_enough", fields_read_integer, offsetof(struct policy, hold_out.enough), true, 0, 1e6,
     NULL, NULL},
    REMARK("why"),
    END,
};
static const struct field range_fields[] = {
    NUMBER(struct policy, "margin", margin, 1, 1e6),
    NUMBER(struct policy, "max_zero_fraction", max_zero_fraction, 0, 1),
    NUMBER(struct policy, "max_subnormal_fraction", max_subnormal_fraction, 0, 1),
    {"flush_to_zero", fields_read_bool, offsetof(struct policy, ftz), false, 0, 0, NULL, NULL},
    REMARK("why"),
    END,
};
static const struct field scale_fields[] = {
    CHOICE(struct policy, fields_read_switch, "use", scales.use, scale_names),
    NUMBER(struct policy, "hysteresis", scales.hysteresis, 1, 65536),
    NUMBER(struct policy, "max_spread", scales.max_spread, 1, 1e30),
    REMARK("why"),
    END,
};
static const struct field resolution_fields[] = {
    CHOICE(struct policy, fields_read_switch, "integers", keep_integers, integer_names),
    NUMBER(struct policy, "max_angle_step", max_angle_step, 0, 10),
    REMARK("why"),
    END,
};
static const struct field constants_fields[] = {
    CHOICE(struct policy, fields_read_choice, "out_of_range", constants, constants_names),
    NUMBER(struct policy, "max_zero_fraction", constant_max_zero_fraction, 0, 1),
    NUMBER(struct policy, "max_subnormal_fraction", constant_max_subnormal_fraction, 0, 1),
    REMARK("why"),
    END,
};
static const struct field update_fields[] = {
    INTEGER(struct policy, "sample", update_sample, 0, 1e6),
    NUMBER(struct policy, "max_lost_fraction", max_lost_fraction, 0.001, 1),
    CHOICE(struct policy, fields_read_switch, "accumulators", narrow_accumulators,
           accumulator_names),
    REMARK("why"),
    END,
};
static const struct field operand_fields[] = {
    NUMBER(struct policy, "margin", operands.margin, 1, 1e6),
    NUMBER(struct policy, "max_zero_fraction", operands.max_zero_fraction, 0, 1),
    NUMBER(struct policy, "max_subnormal_fraction", operands.max_subnormal_fraction, 0, 1),
    REMARK("why"),
    END,
};
static const struct field weight_fields[] = {
    INTEGER(struct policy, "block_size", weights.block_size, 2, 1e9),
    NUMBER(struct policy, "max_zero_fraction", weights.max_zero_fraction, 0, 1),
    NUMBER(struct policy, "min_sqnr_db", weights.min_sqnr_db, -1000, 1000),
    REMARK("why"),
    END,
};
static const struct field opset_fields[] = {
    INTEGER(struct policy, "raise_to", raise_opset, RAISE_OPSET_LEAST, RAISE_OPSET_MOST),
    REMARK("why"),
    END,
};
static const struct field training_fields[] = {
    INTEGER(struct policy, "moments", training.moments, 0, 100),
    INTEGER(struct policy, "micro_batches", training.micro_batches, 1, 1e6),
    INTEGER(struct policy, "scale_start_log2", training.start_log2, 0, 126),
    INTEGER(struct policy, "scale_interval", training.interval, 1, 1e9),
    REMARK("why"),
    END,
};
static const struct field graph_fields[] = {
    CHOICE(struct policy, fields_read_switch, "inputs", narrow_inputs, io_names),
    CHOICE(struct policy, fields_read_switch, "outputs", narrow_outputs, io_names),
    REMARK("why"),
    END,
};
static const struct field casts_fields[] = {
    CHOICE(struct policy, fields_read_switch, "by_author", keep_author_casts, cast_names),
    REMARK("why"),
    END,
};
static const struct field promotion_fields[] = {
    INTEGER(struct policy, "rounds", promotion_rounds, 0, 20),
    INTEGER(struct policy, "samples", promotion_samples, 1, 1000),
    REMARK("why"),
    END,
};
// Goes with the ladder's first format, which the ladder may name before or after.
static enum status read_operands(struct reader *r, const struct json *value, const struct field *f,
                                 void *base) {
  struct policy *p = base;
  TRY(fields_read_section(r, value, f, base));
  p->operands.given = true;
  return STATUS_OK;
}

static enum status read_weights(struct reader *r, const struct json *value, const struct field *f,
                                void *base) {
  struct policy *p = base;
  TRY(fields_read_section(r, value, f, base));
  p->weights.given = true;
  return STATUS_OK;
}

static enum status missing(struct reader *r, const char *section, const struct policy *p) {
  return FIELDS_FAIL(r, "\"%s\" is missing: the ladder begins with %s", section,
                     formats[p->operands.format].name);
}

static enum status check_operands(struct reader *r, const struct policy *p) {
  bool weights = p->operands.wanted && policy_is_weight_format(p->operands.format);
  bool operands = p->operands.wanted && !weights;
  if (operands && !p->operands.given)
    return missing(r, "operands", p);
  if (operands && p->scales.max_spread == 0)
    return missing(r, "scales", p);
  if (weights && !p->weights.given)
    return missing(r, "weights", p);
  if (p->operands.given && !operands)
    return FIELDS_FAIL(r, "\"operands\" is for ladders that begin with a format of 8 bits");
  if (p->weights.given && !weights)
    return FIELDS_FAIL(r, "\"weights\" is for ladders that begin with a format of 4 bits");
  return STATUS_OK;
}

static const struct field policy_fields[] = {
    REMARK("$schema"),
    STRING(struct policy, "name", name),
    INTEGER(struct policy, "version", version, 1, 1e9),
    STRING(struct policy, "description", description),
    SPECIAL("ladder", read_ladder),
    SECTION("calibration", calibration_fields),
    SECTION("range", range_fields),
    {"scales", fields_read_section, 0, true, 0, 0, NULL, scale_fields},
    {"updates", fields_read_section, 0, true, 0, 0, NULL, update_fields},
    {"opset", fields_read_section, 0, true, 0, 0, NULL, opset_fields},
    {"operands", read_operands, 0, true, 0, 0, NULL, operand_fields},
    {"training", read_training, 0, true, 0, 0, NULL, training_fields},
    {"weights", read_weights, 0, true, 0, 0, NULL, weight_fields},
    SECTION("resolution", resolution_fields),
    SECTION("constants", constants_fields),
    SECTION("graph", graph_fields),
    SECTION("casts", casts_fields),
    {"target", read_target, 0, false, 0, 0, NULL, NULL},
    SECTION("promotion", promotion_fields),
    SPECIAL("rules", read_rules),
    SPECIAL("claims", read_claims),
    END,
};

enum status policy_parse(struct policy *p, const char *text, const char *path, struct arena *a,
                         struct diag *d) {
  memset(p, 0, sizeof *p);
  struct reader r = {.file = path, .arena = a, .diag = d};
  TRY(json_parse(&r.root, text, path, STATUS_POLICY, a, d));
  TRY(fields_read_object(&r, r.root, policy_fields, p));
  TRY(check_operands(&r, p));
  p->scales.margin = p->margin;
  p->adjustments = arena_array(a, 1, sizeof *p->adjustments);
  sha256_hex(text, strlen(text), p->sha256);
  return STATUS_OK;
}
