// Checks files for a report against tables of what they hold. The readers of plan and trace
// (plan_read.c, trace_file.c) cannot serve: they need the model. And this check is of another kind:
// a member that is not known is no error, because a report only shows; but one that is known has
// the type that the report's readers rely on.
#include "report_shape.h"

#include <limits.h>
#include <math.h>

enum kind {
  STRING,
  NUMBER,   // or "inf", "-inf", "nan"
  INTEGER,  // within an int
  BOOL,
  OBJECT,   // of the shape's members
  LIST,     // of objects of the shape's members
  STRINGS,  // a list of them
  NUMBERS,  // likewise
  COUNTS    // an object of numbers that are not negative
};

struct shape {
  const char *key;
  enum kind kind;
  bool optional;
  const struct shape *members;
};

#define NEEDED(key, kind)                                                                          \
  { key, kind, false, NULL }
#define OPTIONAL(key, kind)                                                                        \
  { key, kind, true, NULL }
#define NO_MORE                                                                                    \
  { NULL, STRING, true, NULL }

static const struct shape model_shape[] = {NEEDED("file", STRING), NEEDED("sha256", STRING),
                                           NO_MORE};
static const struct shape sha_shape[] = {NEEDED("sha256", STRING), NO_MORE};
static const struct shape pair_shape[] = {NEEDED("before", NUMBER), NEEDED("after", NUMBER),
                                          NO_MORE};

static const struct shape policy_shape[] = {
    NEEDED("name", STRING),         NEEDED("version", INTEGER),
    OPTIONAL("sha256", STRING),     OPTIONAL("ladder", STRINGS),
    OPTIONAL("overrides", STRINGS), OPTIONAL("inputs", STRING),
    OPTIONAL("outputs", STRING),    OPTIONAL("flush_to_zero", BOOL),
    OPTIONAL("constants", STRING),  NO_MORE};

static const struct shape statistics_shape[] = {
    NEEDED("source", STRING), NEEDED("samples", INTEGER), NEEDED("sha256", STRING),
    OPTIONAL("samples_with_held_out", INTEGER), NO_MORE};

static const struct shape measured_shape[] = {NEEDED("output", STRING), NEEDED("value", NUMBER),
                                              NEEDED("holds", BOOL),
                                              OPTIONAL("worst_sample", STRING), NO_MORE};

static const struct shape plan_claim_shape[] = {NEEDED("id", STRING),
                                                NEEDED("metric", STRING),
                                                NEEDED("limit", NUMBER),
                                                OPTIONAL("outputs", STRINGS),
                                                {"measured", LIST, true, measured_shape},
                                                NO_MORE};

static const struct shape settings_shape[] = {OPTIONAL("tf32", BOOL), OPTIONAL("note", STRING),
                                              NO_MORE};

static const struct shape headroom_shape[] = {NEEDED("factor", NUMBER), NEEDED("value", STRING),
                                              OPTIONAL("format", STRING), NO_MORE};

static const struct shape target_shape[] = {NEEDED("target", STRING), OPTIONAL("version", INTEGER),
                                            NO_MORE};

static const struct shape limit_shape[] = {NEEDED("id", STRING), NEEDED("text", STRING), NO_MORE};

static const struct shape cost_shape[] = {{"modelled_for", OBJECT, false, target_shape},
                                          {"seconds", OBJECT, true, pair_shape},
                                          {"traffic_bytes", OBJECT, true, pair_shape},
                                          {"constant_bytes", OBJECT, true, pair_shape},
                                          {"activation_bytes", OBJECT, true, pair_shape},
                                          OPTIONAL("casts", NUMBER),
                                          OPTIONAL("cast_seconds", NUMBER),
                                          OPTIONAL("share_that_cannot_speed_up", NUMBER),
                                          OPTIONAL("nodes_wide_only_for_casts", NUMBER),
                                          {"drawbacks", LIST, true, limit_shape},
                                          NO_MORE};

static const struct shape rule_shape[] = {NEEDED("rule", STRING), OPTIONAL("why", STRING), NO_MORE};

static const struct shape promotion_shape[] = {NEEDED("round", INTEGER), NEEDED("value", STRING),
                                               NEEDED("from", STRING),   NEEDED("to", STRING),
                                               NEEDED("error", NUMBER),  NO_MORE};

static const struct shape weight_shape[] = {NEEDED("weight", STRING), NEEDED("format", STRING),
                                            OPTIONAL("lost_updates_fraction", NUMBER),
                                            OPTIONAL("note", STRING), NO_MORE};

static const struct shape node_shape[] = {NEEDED("node", STRING),
                                          OPTIONAL("scope", STRING),
                                          NEEDED("op", STRING),
                                          NEEDED("format", STRING),
                                          OPTIONAL("left_out", BOOL),
                                          OPTIONAL("class", STRING),
                                          OPTIONAL("rule", STRING),
                                          OPTIONAL("reason", STRING),
                                          OPTIONAL("tried", STRING),
                                          OPTIONAL("because_of", STRING),
                                          OPTIONAL("inputs", STRINGS),
                                          OPTIONAL("outputs", STRINGS),
                                          OPTIONAL("seconds", COUNTS),
                                          OPTIONAL("pattern", STRING),
                                          OPTIONAL("operands", STRING),
                                          OPTIONAL("operands_reason", STRING),
                                          OPTIONAL("operands_because_of", STRING),
                                          OPTIONAL("input_scales_log2", NUMBERS),
                                          NO_MORE};

static const struct shape operand_shape[] = {NEEDED("format", STRING),
                                             OPTIONAL("scale_log2", INTEGER),
                                             OPTIONAL("scale_log2_most", INTEGER),
                                             OPTIONAL("axis", INTEGER),
                                             OPTIONAL("block_size", INTEGER),
                                             OPTIONAL("headroom", NUMBER),
                                             OPTIONAL("scale_log2_by_window", NUMBERS),
                                             NO_MORE};

static const struct shape windows_shape[] = {OPTIONAL("moves", INTEGER), NEEDED("log2", NUMBERS),
                                             NO_MORE};

static const struct shape value_shape[] = {NEEDED("value", STRING),
                                           OPTIONAL("scope", STRING),
                                           NEEDED("format", STRING),
                                           OPTIONAL("scale_log2", INTEGER),
                                           {"scale_by_window", OBJECT, true, windows_shape},
                                           {"operand", OBJECT, true, operand_shape},
                                           OPTIONAL("reason", STRING),
                                           OPTIONAL("absmax", NUMBER),
                                           OPTIONAL("headroom", NUMBER),
                                           OPTIONAL("zero_fraction", NUMBER),
                                           OPTIONAL("subnormal_fraction", NUMBER),
                                           OPTIONAL("sqnr_db", NUMBER),
                                           OPTIONAL("lost_updates_fraction", NUMBER),
                                           NO_MORE};

static const struct shape plan_shape[] = {NEEDED("schema", INTEGER),
                                          OPTIONAL("tool", STRING),
                                          {"model", OBJECT, false, model_shape},
                                          {"policy", OBJECT, false, policy_shape},
                                          {"settings", OBJECT, true, settings_shape},
                                          {"statistics", OBJECT, false, statistics_shape},
                                          {"rules", LIST, true, rule_shape},
                                          {"claims", LIST, false, plan_claim_shape},
                                          {"headroom", OBJECT, true, headroom_shape},
                                          {"cost", OBJECT, true, cost_shape},
                                          {"limits", LIST, true, limit_shape},
                                          {"promotions", LIST, true, promotion_shape},
                                          {"weights", LIST, true, weight_shape},
                                          {"nodes", LIST, false, node_shape},
                                          {"values", LIST, false, value_shape},
                                          NO_MORE};

static const struct shape samples_shape[] = {NEEDED("count", INTEGER), NEEDED("sha256", STRING),
                                             OPTIONAL("synthetic", BOOL), NO_MORE};

static const struct shape side_shape[] = {NEEDED("count", NUMBER), OPTIONAL("max", NUMBER),
                                          OPTIONAL("min", NUMBER), OPTIONAL("exponents", COUNTS),
                                          NO_MORE};

static const struct shape traced_shape[] = {NEEDED("name", STRING),
                                            OPTIONAL("scope", STRING),
                                            OPTIONAL("runs", NUMBER),
                                            OPTIONAL("count", NUMBER),
                                            OPTIONAL("zeros", NUMBER),
                                            {"positive", OBJECT, true, side_shape},
                                            {"negative", OBJECT, true, side_shape},
                                            NO_MORE};

static const struct shape site_shape[] = {
    NEEDED("kind", STRING),    NEEDED("name", STRING),          OPTIONAL("scope", STRING),
    OPTIONAL("pairs", NUMBER), OPTIONAL("differences", COUNTS), NO_MORE};

static const struct shape trace_shape[] = {NEEDED("schema", INTEGER),
                                           {"model", OBJECT, false, model_shape},
                                           {"samples", OBJECT, false, samples_shape},
                                           OPTIONAL("engine", STRING),
                                           {"values", LIST, false, traced_shape},
                                           {"updates", LIST, true, site_shape},
                                           NO_MORE};

static const struct shape verdict_claim_shape[] = {NEEDED("id", STRING),
                                                   NEEDED("metric", STRING),
                                                   NEEDED("output", STRING),
                                                   NEEDED("measured", NUMBER),
                                                   NEEDED("limit", NUMBER),
                                                   NEEDED("holds", BOOL),
                                                   NEEDED("worst_sample", STRING),
                                                   OPTIONAL("measured_held_out", NUMBER),
                                                   OPTIONAL("measured_calibration", NUMBER),
                                                   OPTIONAL("measured_in_engine", NUMBER),
                                                   OPTIONAL("holds_in_engine", BOOL),
                                                   NO_MORE};

static const struct shape load_error_shape[] = {
    NEEDED("level", STRING),        NEEDED("error", STRING),       OPTIONAL("unsupported", BOOL),
    OPTIONAL("source_fails", BOOL), OPTIONAL("raise_fails", BOOL), NO_MORE};

static const struct shape output_shape[] = {NEEDED("output", STRING),
                                            OPTIONAL("judged", BOOL),
                                            NEEDED("max_abs", NUMBER),
                                            NEEDED("relative_l2", NUMBER),
                                            OPTIONAL("relative_l2_calibration", NUMBER),
                                            NEEDED("cosine", NUMBER),
                                            OPTIONAL("sqnr_db", NUMBER),
                                            OPTIONAL("top1", NUMBER),
                                            OPTIONAL("labelled", NUMBER),
                                            OPTIONAL("fp32_right", NUMBER),
                                            OPTIONAL("narrow_right", NUMBER),
                                            NO_MORE};

static const struct shape error_shape[] = {NEEDED("value", STRING),
                                           OPTIONAL("scope", STRING),
                                           NEEDED("relative_l2", NUMBER),
                                           OPTIONAL("max_abs", NUMBER),
                                           OPTIONAL("cosine", NUMBER),
                                           OPTIONAL("sqnr_db", NUMBER),
                                           OPTIONAL("newly_nonfinite", NUMBER),
                                           NO_MORE};

static const struct shape verdict_shape[] = {NEEDED("schema", INTEGER),
                                             {"model", OBJECT, false, model_shape},
                                             {"plan", OBJECT, false, sha_shape},
                                             OPTIONAL("engine", STRING),
                                             OPTIONAL("synthetic", BOOL),
                                             NEEDED("holds", BOOL),
                                             OPTIONAL("promised", BOOL),
                                             NEEDED("samples", INTEGER),
                                             NEEDED("held_out", BOOL),
                                             OPTIONAL("calibration_samples", INTEGER),
                                             OPTIONAL("samples_with_nothing_to_judge", INTEGER),
                                             OPTIONAL("engine_samples", INTEGER),
                                             NEEDED("loads", BOOL),
                                             OPTIONAL("loads_only_with_disable_quant_qdq", BOOL),
                                             NEEDED("engine_has_kernels", BOOL),
                                             OPTIONAL("kernels_missing", STRING),
                                             {"load_errors", LIST, true, load_error_shape},
                                             OPTIONAL("few_samples", STRING),
                                             {"drawbacks", LIST, true, limit_shape},
                                             {"claims", LIST, false, verdict_claim_shape},
                                             {"idle_claims", LIST, true, limit_shape},
                                             {"outputs", LIST, false, output_shape},
                                             OPTIONAL("first_nonfinite", STRING),
                                             OPTIONAL("worst_local", STRING),
                                             OPTIONAL("worst_local_error", NUMBER),
                                             {"values", LIST, true, error_shape},
                                             NO_MORE};

static const struct {
  const char *name;
  const struct shape *members;
} shapes[REPORT_PARTS] = {[REPORT_PLAN] = {"plan", plan_shape},
                          [REPORT_TRACE] = {"trace", trace_shape},
                          [REPORT_VERDICT] = {"verdict", verdict_shape}};

struct checker {
  const struct report_source *source;
  struct json_path path;
  struct diag *diag;
};

#define CHECK_FAIL(c, ...)                                                                         \
  json_fail((c)->source->root, (c)->source->file, &(c)->path, STATUS_POLICY, (c)->diag, __VA_ARGS__)

static enum status check_members(struct checker *c, const struct json *object,
                                 const struct shape *s);

static enum status check_kind(struct checker *c, const struct json *item, const struct shape *s);

static enum status check_list(struct checker *c, const struct json *list,
                              const struct shape *each) {
  if (!json_is(list, JSON_ARRAY))
    return CHECK_FAIL(c, "must be a list");
  int index = 0;
  const struct json *item;
  for (item = json_first(list); item; item = item->next) {
    json_push_index(&c->path, index++);
    TRY(check_kind(c, item, each));
    json_pop(&c->path);
  }
  return STATUS_OK;
}

static enum status check_counts(struct checker *c, const struct json *counts) {
  double number;
  if (!json_is(counts, JSON_OBJECT))
    return CHECK_FAIL(c, "must be an object");
  const struct json *item;
  for (item = json_first(counts); item; item = item->next) {
    json_push_key(&c->path, item->key);
    if (!json_to_number(item, &number) || number < 0)
      return CHECK_FAIL(c, "must be a number that is not negative");
    json_pop(&c->path);
  }
  return STATUS_OK;
}

static enum status check_kind(struct checker *c, const struct json *item, const struct shape *s) {
  double number;
  switch (s->kind) {
  case STRING: return json_is(item, JSON_STRING) ? STATUS_OK : CHECK_FAIL(c, "must be a string");
  case NUMBER: return json_to_number(item, &number) ? STATUS_OK : CHECK_FAIL(c, "must be a number");
  case INTEGER:
    return json_is(item, JSON_NUMBER) && item->number == floor(item->number) &&
                   fabs(item->number) <= INT_MAX
               ? STATUS_OK
               : CHECK_FAIL(c, "must be an integer");
  case BOOL: return json_is_bool(item) ? STATUS_OK : CHECK_FAIL(c, "must be true or false");
  case OBJECT: return check_members(c, item, s->members);
  case LIST: return check_list(c, item, &(struct shape){.kind = OBJECT, .members = s->members});
  case STRINGS: return check_list(c, item, &(struct shape){.kind = STRING});
  case NUMBERS: return check_list(c, item, &(struct shape){.kind = NUMBER});
  case COUNTS: return check_counts(c, item);
  }
  return STATUS_OK;
}

static enum status check_members(struct checker *c, const struct json *object,
                                 const struct shape *s) {
  if (!json_is(object, JSON_OBJECT))
    return CHECK_FAIL(c, "must be an object");
  for (; s->key; s++) {
    const struct json *item = json_member(object, s->key);
    if (!item && !s->optional)
      return CHECK_FAIL(c, "the key \"%s\" is missing", s->key);
    if (!item)
      continue;
    json_push_key(&c->path, s->key);
    TRY(check_kind(c, item, s));
    json_pop(&c->path);
  }
  return STATUS_OK;
}

enum status report_check_shape(const struct report_source *source, enum report_part part,
                               struct diag *d) {
  struct checker c = {.source = source, .diag = d};
  diag_hint(d, "A %s that `narrowcast` wrote is wanted here.", shapes[part].name);
  TRY(check_members(&c, source->root, shapes[part].members));
  json_push_key(&c.path, "schema");
  if (json_member(source->root, "schema")->number != 1)
    return CHECK_FAIL(&c, "this version of narrowcast knows schema 1 only");
  diag_clear(d);
  return STATUS_OK;
}
