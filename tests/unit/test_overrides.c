// Overrides: a person's decision wins over rules and tests, and what an operator or the policy
// forbids is named.
#include "overrides.h"
#include "support_plan.h"

#include <stdio.h>
#include <string.h>

// h = x * w, r = relu(h), e = exp(r), y = e * w: Exp is pinned, the products are narrow.
static void build(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Relu", "h", "r");
  build_node(&f->b, "Exp", "r", "e");
  build_node(&f->b, "MatMul", "e w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
}

// Overrides from JSON text.
static enum status read_text(struct planning *f, struct overrides *o, const char *text) {
  const char *path = planning_path(f, "overrides.json");
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
  diag_clear(&f->d);
  return overrides_read(o, path, &f->arena, &f->d);
}

static struct overrides overrides;

static void use(struct planning *f, const char *text) {
  if (read_text(f, &overrides, text) != STATUS_OK)
    fail_msg("%s", f->d.message);
  f->policy.overrides = &overrides;
}

static enum status make(struct planning *f) {
  return plan_make(&f->p, &f->g, &f->t, &f->policy, NULL, &f->arena, &f->d);
}

static void overrides_win_over_rules(void **state) {
  struct planning *f = *state;
  build(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "e"), FORMAT_FP32);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  use(f, "{\"overrides\": [{\"glob\": \"e\", \"format\": \"fp16\", \"note\": \"small\"},"
         "{\"glob\": \"h\", \"format\": \"fp32\", \"note\": \"first\"}]}");
  assert_int_equal(make(f), STATUS_OK);
  assert_int_equal(node_format(f, "e"), FORMAT_FP16);
  assert_int_equal(node_format(f, "h"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "h"), REASON_OVERRIDE);
  const struct node_plan *e = &f->p.nodes[node_of(&f->g, "e")];
  assert_string_equal(e->rule_id, "override e");
  assert_string_equal(e->rule->why, "small");
}

static void overrides_win_over_the_range_test_and_over_casts(void **state) {
  struct planning *f = *state;
  build(f);
  planning_see(f, "r", (float[]){7e4f}, 1);
  f->policy.target.matrix[FORMAT_FP16] = f->policy.target.matrix[FORMAT_FP32];  // nothing to gain
  use(f, "{\"overrides\": [{\"glob\": \"r\", \"format\": \"fp16\", \"note\": \"saturates\"}]}");
  assert_int_equal(make(f), STATUS_OK);
  assert_int_equal(node_format(f, "r"), FORMAT_FP16);
}

static void the_last_override_that_matches_wins(void **state) {
  struct planning *f = *state;
  build(f);
  use(f, "{\"overrides\": [{\"glob\": \"*\", \"format\": \"fp32\", \"note\": \"all\"},"
         "{\"glob\": \"y\", \"format\": \"fp16\", \"note\": \"but the last\"}]}");
  assert_int_equal(make(f), STATUS_OK);
  assert_int_equal(node_format(f, "h"), FORMAT_FP32);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
}

// A constant has the format that its readers want.
static void an_override_of_a_constant_decides_for_its_readers(void **state) {
  struct planning *f = *state;
  build(f);
  use(f, "{\"overrides\": [{\"glob\": \"w\", \"format\": \"fp32\", \"note\": \"exact\"}]}");
  assert_int_equal(make(f), STATUS_OK);
  assert_int_equal(node_format(f, "h"), FORMAT_FP32);
  assert_int_equal(node_format(f, "y"), FORMAT_FP32);
  assert_int_equal(f->p.values[value_id(&f->g, "w")].format, FORMAT_FP32);
}

static char reported[4096];

static void keep_report(const struct diag *error) {
  size_t used = strlen(reported);
  snprintf(reported + used, sizeof reported - used, "%s|%s\n", error->message, error->hint);
}

static void every_override_that_cannot_be_applied_is_named(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  build_input(&f->b, "x", "float[1,1,2,2]");
  build_floats(&f->b, "kernel", "float[1,1,1,1]", (float[]){1});
  build_node(&f->b, "Conv", "x kernel", "feature");
  build_node(&f->b, "Shape", "feature", "size");
  build_output(&f->b, "size", "int64[4]");
  planning_index(f);
  use(f, "{\"overrides\": [{\"glob\": \"featre\", \"format\": \"fp16\", \"note\": \"n\"},"
         "{\"glob\": \"feature\", \"format\": \"bf16\", \"note\": \"n\"}]}");
  reported[0] = '\0';
  f->d.report = keep_report;
  assert_int_equal(make(f), STATUS_POLICY);
  assert_non_null(strstr(f->d.message, "2 overrides cannot be applied"));
  assert_non_null(strstr(reported, "override featre: matches no node and no fp32 tensor|"
                                   "Did you mean feature?"));
  assert_non_null(strstr(reported, "override feature: Conv does not take bf16"));
}

static void a_format_out_of_the_ladder_is_refused(void **state) {
  struct planning *f = *state;
  build(f);
  use(f, "{\"overrides\": [{\"glob\": \"h\", \"format\": \"bf16\", \"note\": \"n\"}]}");
  assert_int_equal(make(f), STATUS_POLICY);
  assert_non_null(strstr(f->d.message, "bf16 is not in the ladder"));
}

static void a_format_that_the_run_replaced_is_refused_by_that_name(void **state) {
  struct planning *f = *state;
  build(f);
  assert_int_equal(policy_adjust_format(&f->policy, "bf16", &f->arena, &f->d), STATUS_OK);
  use(f, "{\"overrides\": [{\"glob\": \"h\", \"format\": \"fp16\", \"note\": \"n\"}]}");
  assert_int_equal(make(f), STATUS_POLICY);
  assert_non_null(strstr(f->d.message, "fp16 is no format of this run: --format bf16 takes"));
}

// The Casts that the first conversion added are no decisions, and what is narrow already stays.
static void overrides_of_a_result_are_done(void **state) {
  struct planning *f = *state;
  build(f);
  use(f, "{\"overrides\": [{\"glob\": \"*\", \"format\": \"fp16\", \"note\": \"all\"}]}");
  assert_int_equal(make(f), STATUS_OK);
  planning_rewrite(f);
  assert_true(plan_is_converted(&f->emitted));
  struct plan again;
  assert_int_equal(plan_make(&again, &f->emitted, NULL, &f->policy, NULL, &f->arena, &f->d),
                   STATUS_OK);
  assert_true(plan_is_identity(&again));
}

// A person may still decide for what the first conversion left wide.
static void overrides_of_a_result_decide_what_is_left(void **state) {
  struct planning *f = *state;
  build(f);
  planning_rewrite(f);
  use(f, "{\"overrides\": [{\"glob\": \"e\", \"format\": \"fp16\", \"note\": \"too\"}]}");
  struct plan again;
  assert_int_equal(plan_make(&again, &f->emitted, NULL, &f->policy, NULL, &f->arena, &f->d),
                   STATUS_OK);
  assert_int_equal(again.nodes[node_of(&f->emitted, "e")].format, FORMAT_FP16);
}

static void the_file_is_checked_with_line_and_near_name(void **state) {
  struct planning *f = *state;
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"{\"overrides\": []}", "must not be empty"},
      {"{\"overrides\": [{\"glob\": \"\", \"format\": \"fp16\", \"note\": \"n\"}]}",
       "must not be empty"},
      {"{\"overrides\": [{\"glob\": \"a\", \"format\": \"fp17\", \"note\": \"n\"}]}", "fp17"},
      {"{\"overrides\": [{\"glob\": \"a\", \"format\": \"fp16\"}]}", "\"note\" is missing"},
      {"{\"overrides\": [{\"glub\": \"a\"}]}", "unknown key"},
      {"{\"overrides\": {}}", "expected a list"},
      {"[]", "expected an object"},
      {"{}", "\"overrides\" is missing"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct overrides o;
    assert_int_equal(read_text(f, &o, bad[i].text), STATUS_POLICY);
    if (!strstr(f->d.message, bad[i].message))
      fail_msg("\"%s\" does not say \"%s\"", f->d.message, bad[i].message);
  }
}

static void an_override_sets_the_scale_of_a_tensor(void **state) {
  struct planning *f = *state;
  build(f);
  use(f, "{\"overrides\": [{\"glob\": \"h\", \"format\": \"fp16\", \"scale\": 0.125,"
         "\"note\": \"grows\"}]}");
  if (make(f) != STATUS_OK)
    fail_msg("%s", f->d.message);
  assert_int_equal(f->p.values[value_id(&f->g, "h")].scale_log2, -3);
  assert_int_equal(f->p.nodes[node_of(&f->g, "h")].output_scale, -3);
  const char *path = planning_path(f, "plan.json");
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  struct plan p;
  if (planning_read_plan(f, &p, path, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  assert_int_equal(p.values[value_id(&f->g, "h")].scale_log2, -3);
  assert_int_equal(p.overrides->list[0].scale_log2, -3);
}

static void scales_that_cannot_be_are_all_named(void **state) {
  struct planning *f = *state;
  build(f);
  use(f, "{\"overrides\": ["
         "{\"glob\": \"h\", \"format\": \"fp16\", \"scale\": 1048576, \"note\": \"n\"},"
         "{\"glob\": \"e\", \"format\": \"fp16\", \"scale\": 2, \"note\": \"n\"}]}");
  reported[0] = '\0';
  f->d.report = keep_report;
  assert_int_equal(make(f), STATUS_POLICY);
  assert_non_null(strstr(reported, "override h: at this scale"));
  assert_non_null(strstr(reported, "override e: the operator carries no scale"));
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"\"glob\": \"h\", \"format\": \"fp32\", \"scale\": 2", "in fp32 has no scale"},
      {"\"glob\": \"w\", \"format\": \"fp16\", \"scale\": 2", "for what a node makes"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    use(f, arena_printf(&f->arena, "{\"overrides\": [{%s, \"note\": \"n\"}]}", bad[i].text));
    assert_int_equal(make(f), STATUS_POLICY);
    assert_non_null(strstr(f->d.message, bad[i].message));
  }
  struct overrides o;
  assert_int_equal(read_text(f, &o,
                             "{\"overrides\": [{\"glob\": \"h\", \"format\": \"fp16\","
                             "\"scale\": 3, \"note\": \"n\"}]}"),
                   STATUS_POLICY);
  assert_non_null(strstr(f->d.message, "3 is not a power of two"));
}

static void overrides_are_recorded_in_the_plan_and_read_back(void **state) {
  struct planning *f = *state;
  build(f);
  use(f, "{\"overrides\": [{\"glob\": \"e\", \"format\": \"fp16\", \"note\": \"small\"}]}");
  assert_int_equal(make(f), STATUS_OK);
  const char *path = planning_path(f, "plan.json");
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  struct plan p;
  if (planning_read_plan(f, &p, path, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  assert_non_null(p.overrides);
  assert_int_equal(p.overrides->count, 1);
  assert_string_equal(p.overrides->list[0].note, "small");
  assert_string_equal(p.overrides->sha256, overrides.sha256);
  assert_int_equal(strlen(p.overrides->sha256), 64);
  assert_int_equal(p.nodes[node_of(&f->g, "e")].format, FORMAT_FP16);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(overrides_win_over_rules),
      TEST(overrides_win_over_the_range_test_and_over_casts),
      TEST(the_last_override_that_matches_wins),
      TEST(an_override_of_a_constant_decides_for_its_readers),
      TEST(every_override_that_cannot_be_applied_is_named),
      TEST(a_format_out_of_the_ladder_is_refused),
      TEST(a_format_that_the_run_replaced_is_refused_by_that_name),
      TEST(overrides_of_a_result_are_done),
      TEST(overrides_of_a_result_decide_what_is_left),
      TEST(the_file_is_checked_with_line_and_near_name),
      TEST(an_override_sets_the_scale_of_a_tensor),
      TEST(scales_that_cannot_be_are_all_named),
      TEST(overrides_are_recorded_in_the_plan_and_read_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
