// promote: which tensors are given a wider format when a claim does not hold, from errors made up
// here; and how many of them are kept.
#include "promote.h"

#include "support_plan.h"

#include <math.h>
#include <stdlib.h>

struct promoting {
  struct planning *f;
  struct promotions promotions;
  struct verdict verdict;
  struct verdict_claim claim;
  struct compare *errors;
};

// a = MatMul(x, w), b = Relu(a), c = MatMul(b, w), and beside them d = MatMul(x, w); outputs c, d.
static struct promoting begin(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Relu", "a", "b");
  build_node(&f->b, "MatMul", "b w", "c");
  build_node(&f->b, "MatMul", "x w", "d");
  build_output(&f->b, "c", "float[1,2]");
  build_output(&f->b, "d", "float[1,2]");
  planning_index(f);
  planning_decide(f);
  struct promoting p = {.f = f};
  p.claim = (struct verdict_claim){.output = "c"};
  p.verdict = (struct verdict){.n_claims = 1, .first_nonfinite = -1};
  p.errors = arena_array(&f->arena, (size_t)f->g.n_values, sizeof *p.errors);
  return p;
}

static void measure(struct promoting *p, const char *label, double relative_l2) {
  struct compare *c = &p->errors[value_id(&p->f->g, label)];
  *c = (struct compare){.runs = 1, .sum_reference = 1, .sum_error = relative_l2 * relative_l2};
}

static bool choose(struct promoting *p, int round) {
  p->verdict.claims = &p->claim;
  return promote_choose(&p->promotions, &p->f->g, &p->f->p, &p->verdict, p->errors, round,
                        &p->f->arena);
}

static int rung(const struct promoting *p, const char *label) {
  return p->promotions.rung[value_id(&p->f->g, label)];
}

static void the_largest_error_of_its_own_is_promoted(void **state) {
  struct promoting p = begin(state);
  measure(&p, "a", 0.001);
  measure(&p, "b", 0.001);
  measure(&p, "c", 0.02);
  assert_true(choose(&p, 1));
  assert_int_equal(p.promotions.count, 1);
  assert_int_equal(rung(&p, "c"), 1);
  assert_int_equal(rung(&p, "a"), 0);
}

static void an_inherited_error_is_not_its_own(void **state) {
  struct promoting p = begin(state);
  measure(&p, "a", 0.02);
  measure(&p, "b", 0.02);
  measure(&p, "c", 0.021);
  assert_true(choose(&p, 1));
  assert_int_equal(rung(&p, "a"), 1);
  assert_int_equal(rung(&p, "c"), 0);
}

static void what_leads_to_no_failed_claim_stays(void **state) {
  struct promoting p = begin(state);
  measure(&p, "d", 0.5);
  measure(&p, "c", 0.02);
  assert_true(choose(&p, 1));
  assert_int_equal(rung(&p, "d"), 0);
  assert_int_equal(rung(&p, "c"), 1);
}

static void later_rounds_take_smaller_errors(void **state) {
  struct promoting p = begin(state);
  measure(&p, "a", 0.006);
  measure(&p, "b", 0.006);
  measure(&p, "c", 0.026);  // 0.02 of its own
  assert_true(choose(&p, 1));
  assert_int_equal(rung(&p, "a"), 0);
  assert_true(choose(&p, 2));
  assert_int_equal(rung(&p, "a"), 1);
}

static void the_first_value_that_is_not_finite_is_promoted(void **state) {
  struct promoting p = begin(state);
  p.verdict.first_nonfinite = value_id(&p.f->g, "a");
  assert_true(choose(&p, 1));
  assert_int_equal(rung(&p, "a"), 1);
  assert_true(isinf(p.promotions.log[0].error));
}

static void without_errors_nothing_is_left_to_promote(void **state) {
  struct promoting p = begin(state);
  assert_false(choose(&p, 1));
}

static void the_last_round_is_given_back_smallest_errors_first(void **state) {
  struct promoting p = begin(state);
  measure(&p, "c", 0.5);
  assert_true(choose(&p, 1));
  measure(&p, "c", 0);
  measure(&p, "a", 0.01);
  measure(&p, "b", 0.0199);
  assert_true(choose(&p, 2));
  assert_int_equal(p.promotions.count, 3);
  assert_int_equal(promote_before_last_round(&p.promotions), 1);
  size_t values = (size_t)p.f->g.n_values;
  struct promotions fewer = promote_first(&p.promotions, 2, values, &p.f->arena);
  assert_int_equal(fewer.count, 2);
  assert_int_equal(fewer.rung[value_id(&p.f->g, "c")], 1);
  assert_int_equal(fewer.rung[value_id(&p.f->g, "a")], 1);
  assert_int_equal(fewer.rung[value_id(&p.f->g, "b")], 0);
  assert_int_equal(p.promotions.count, 3);
}

static void all_are_promoted_in_the_order_of_computation(void **state) {
  struct promoting p = begin(state);
  p.verdict.claims = &p.claim;
  p.verdict.values = p.errors;
  measure(&p, "a", 0.001);
  measure(&p, "c", 0.5);
  struct promotions all = promote_all(&p.f->g, &p.f->p, &p.verdict, &p.f->arena);
  static const char *const labels[] = {"a", "b", "c"};  // d leads to no failed claim
  assert_int_equal(all.count, 3);
  for (size_t i = 0; i < all.count; i++)
    assert_int_equal(all.log[i].value, value_id(&p.f->g, labels[i]));
  struct promotions first = promote_first(&all, 2, (size_t)p.f->g.n_values, &p.f->arena);
  assert_int_equal(first.rung[value_id(&p.f->g, "b")], 1);
  assert_int_equal(first.rung[value_id(&p.f->g, "c")], 0);
}

// One rung up may be a format with a coarser step, as bf16 after fp16.
static void all_are_promoted_to_the_widest_format(void **state) {
  struct promoting p = begin(state);
  p.verdict.claims = &p.claim;
  p.verdict.values = p.errors;
  p.f->p.n_ladder = 3;
  p.f->p.ladder[1] = FORMAT_BF16;
  p.f->p.ladder[2] = FORMAT_FP32;
  struct promotions all = promote_all(&p.f->g, &p.f->p, &p.verdict, &p.f->arena);
  assert_int_equal(all.log[0].to, FORMAT_FP32);
  assert_int_equal(all.rung[value_id(&p.f->g, "a")], 2);
}

// A promotion would change nothing there, and hide what can be promoted.
static void what_an_override_decides_is_not_promoted(void **state) {
  struct promoting p = begin(state);
  p.f->p.nodes[node_of(&p.f->g, "a")].overridden = true;
  measure(&p, "a", 0.02);
  measure(&p, "c", 0.021);
  assert_true(choose(&p, 1));
  assert_int_equal(rung(&p, "a"), 0);
  assert_int_equal(rung(&p, "c"), 1);
  p.verdict.values = p.errors;
  struct promotions all = promote_all(&p.f->g, &p.f->p, &p.verdict, &p.f->arena);
  assert_int_equal(all.count, 2);
  for (size_t i = 0; i < all.count; i++)
    assert_int_not_equal(all.log[i].value, value_id(&p.f->g, "a"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(the_largest_error_of_its_own_is_promoted),
      TEST(an_inherited_error_is_not_its_own),
      TEST(what_leads_to_no_failed_claim_stays),
      TEST(later_rounds_take_smaller_errors),
      TEST(the_first_value_that_is_not_finite_is_promoted),
      TEST(without_errors_nothing_is_left_to_promote),
      TEST(all_are_promoted_in_the_order_of_computation),
      TEST(all_are_promoted_to_the_widest_format),
      TEST(what_an_override_decides_is_not_promoted),
      TEST(the_last_round_is_given_back_smallest_errors_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
