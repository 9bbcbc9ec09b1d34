// The Step rule: a value whose updates are below a step of a format, in a whole window, is not
// stored in it; which sites count, and how many updates must be lost, the policy says.
#include "plan.h"
#include "support_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

// h = x * w, s = h + u, y = s * w: the addition stands between two products.
static void build_residual(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "u", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Add", "h u", "s");
  build_node(&f->b, "MatMul", "s w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  f->policy.max_lost_fraction = 0.5;
}

// A site with windows in which `lost[w]` of 10 updates are of 2^d beside 1, the others of 1.
static void add_site(struct planning *f, enum update_kind kind, const char *value, int d,
                     const int *lost, size_t n) {
  struct update_site site = {kind, value_id(&f->g, value)};
  trace_add_sites(&f->t, &site, 1);
  for (size_t w = 0; w < n; w++) {
    struct updates_piece run = {.pairs = 10};
    run.bins[d - UPDATES_MIN] = (uint64_t)lost[w];
    run.bins[0 - UPDATES_MIN] = (uint64_t)(10 - lost[w]);
    updates_end_run(&f->t.updates[0], &run, w);
  }
}

static void plan_keeps_a_swamped_sum_wide(void **state) {
  struct planning *f = *state;
  build_residual(f);
  add_site(f, UPDATE_RESIDUAL, "s", -12, (int[]){9}, 1);
  planning_decide(f);
  assert_int_equal(node_format(f, "s"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "s"), REASON_STEP);
  assert_int_equal(value_format(f, "s"), FORMAT_FP32);
  const struct value_plan *s = &f->p.values[value_id(&f->g, "s")];
  assert_int_equal(s->fit.reason, REASON_STEP);
  assert_true(s->fit.accumulates);
  assert_true(s->fit.lost_fraction > 0.89 && s->fit.lost_fraction < 0.91);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_false(f->p.values[value_id(&f->g, "h")].fit.accumulates);
  // What reads the sum would read it rounded.
  assert_int_equal(node_format(f, "y"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "y"), REASON_STEP);
}

static void plan_lets_updates_of_a_step_or_more_be_narrow(void **state) {
  struct planning *f = *state;
  build_residual(f);
  add_site(f, UPDATE_RESIDUAL, "s", -10, (int[]){10}, 1);
  planning_decide(f);
  assert_int_equal(value_format(f, "s"), FORMAT_FP16);
  assert_true(f->p.values[value_id(&f->g, "s")].fit.lost_fraction == 0);
}

static void plan_takes_the_next_rung_that_has_the_step(void **state) {
  struct planning *f = *state;
  build_residual(f);
  planning_ladder(f, FORMAT_BF16, FORMAT_FP16);
  add_site(f, UPDATE_RESIDUAL, "s", -9, (int[]){10}, 1);
  planning_decide(f);
  assert_int_equal(value_format(f, "s"), FORMAT_FP16);
}

static void plan_steps_count_in_the_worst_window(void **state) {
  struct planning *f = *state;
  build_residual(f);
  add_site(f, UPDATE_RESIDUAL, "s", -12, (int[]){0, 0, 6, 0}, 4);
  planning_decide(f);
  assert_int_equal(value_format(f, "s"), FORMAT_FP32);
  f->policy.max_lost_fraction = 0.7;
  planning_decide(f);
  assert_int_equal(value_format(f, "s"), FORMAT_FP16);
  f->policy.max_lost_fraction = 0.6;  // this share, or more
  planning_decide(f);
  assert_int_equal(value_format(f, "s"), FORMAT_FP32);
  f->policy.max_lost_fraction = 0;  // a policy without the rule
  planning_decide(f);
  assert_int_equal(value_format(f, "s"), FORMAT_FP16);
}

static void plan_steps_leave_out_what_fp32_loses_too(void **state) {
  struct planning *f = *state;
  build_residual(f);
  add_site(f, UPDATE_RESIDUAL, "s", -30, (int[]){9}, 1);
  planning_decide(f);
  assert_int_equal(value_format(f, "s"), FORMAT_FP16);
}

static void plan_counts_sums_inside_operators_only_if_accumulators_are_narrow(void **state) {
  struct planning *f = *state;
  build_residual(f);
  add_site(f, UPDATE_PRODUCT, "h", -12, (int[]){10}, 1);
  planning_decide(f);
  assert_int_equal(value_format(f, "h"), FORMAT_FP16);
  assert_false(f->p.values[value_id(&f->g, "h")].fit.accumulates);
  f->policy.narrow_accumulators = true;
  planning_decide(f);
  assert_int_equal(value_format(f, "h"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "h"), REASON_STEP);
}

static void plan_file_tells_the_share_of_lost_updates(void **state) {
  struct planning *f = *state;
  build_residual(f);
  add_site(f, UPDATE_STATE, "s", -12, (int[]){9}, 1);
  planning_decide(f);
  const char *path = planning_path(f, "plan.json");
  size_t size;
  struct plan back;
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  char *text = planning_read_file(f, path, &size);
  assert_non_null(strstr(text, "\"reason\": \"step\""));
  assert_non_null(strstr(text, "\"lost_updates_fraction\": 0.9"));
  assert_int_equal(planning_read_plan(f, &back, path, &f->d), STATUS_OK);
  const struct fit *fit = &back.values[value_id(&f->g, "s")].fit;
  assert_int_equal(fit->reason, REASON_STEP);
  assert_true(fit->accumulates && fit->lost_fraction == 0.9);
  assert_false(back.values[value_id(&f->g, "h")].fit.accumulates);
}

// ---- The policy ----

static enum status parse_with(struct planning *f, struct policy *p, const char *from,
                              const char *to) {
  const char *text = policy_text("fp16"), *at = strstr(text, from);
  assert_non_null(at);
  text = arena_printf(&f->arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  diag_clear(&f->d);
  return policy_parse(p, text, "mine.json", &f->arena, &f->d);
}

static void policy_updates_are_read_and_checked(void **state) {
  struct planning *f = *state;
  struct policy p;
  for (const char *const *name = policy_names(); *name; name++) {
    assert_int_equal(policy_load(&p, *name, &f->arena, &f->d), STATUS_OK);
    assert_int_equal(p.update_sample, 256);
    assert_true(p.max_lost_fraction == 0.5);
    assert_false(p.narrow_accumulators);
  }
  static const char share[] = "\"max_lost_fraction\": 0.5";
  static const char wide[] = "\"accumulators\": \"wide\"";
  assert_int_equal(parse_with(f, &p, wide, "\"accumulators\": \"narrow\""), STATUS_OK);
  assert_true(p.narrow_accumulators);
  assert_int_equal(parse_with(f, &p, wide, "\"accumulators\": \"fp16\""), STATUS_POLICY);
  assert_int_equal(parse_with(f, &p, share, "\"max_lost_fraction\": 0"), STATUS_POLICY);
  assert_int_equal(parse_with(f, &p, share, "\"max_lost_fractions\": 0.5"), STATUS_POLICY);
  assert_non_null(strstr(f->d.hint, "\"max_lost_fraction\""));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(plan_keeps_a_swamped_sum_wide),
      TEST(plan_lets_updates_of_a_step_or_more_be_narrow),
      TEST(plan_takes_the_next_rung_that_has_the_step),
      TEST(plan_steps_count_in_the_worst_window),
      TEST(plan_steps_leave_out_what_fp32_loses_too),
      TEST(plan_counts_sums_inside_operators_only_if_accumulators_are_narrow),
      TEST(plan_file_tells_the_share_of_lost_updates),
      TEST(policy_updates_are_read_and_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
