// plan: attention. Its scores never leave the operator; they are bounded by its queries, keys and
// their width, and the softmax behind them stays in fp32.
#include "plan_attention.h"
#include "support_plan.h"

#include <string.h>

enum { WIDTH = 64, LENGTH = 4 };

// One head of `LENGTH` queries and keys of `WIDTH` elements, of which these are the largest.
static Onnx__NodeProto *attention(struct planning *f, int rank) {
  static const char *const ops[] = {"Attention", NULL};
  struct rule *rules = arena_array(&f->arena, (size_t)f->policy.n_rules + 1, sizeof *rules);
  rules[0] = (struct rule){
      .id = "attention", .op_globs = (const char **)(void *)ops, .class = CLASS_NARROW};
  memcpy(rules + 1, f->policy.rules, (size_t)f->policy.n_rules * sizeof *rules);
  f->policy.rules = rules;
  f->policy.n_rules++;
  const char *type = rank == 4 ? "float[1,1,4,64]" : "float[1,4,64]";
  build_begin(&f->b, &f->arena, 23);
  build_input(&f->b, "q", type);
  build_input(&f->b, "k", type);
  build_input(&f->b, "v", type);
  Onnx__NodeProto *node = build_node(&f->b, "Attention", "q k v", "y");
  if (rank == 3) {
    build_int(&f->b, node, "q_num_heads", 1);
    build_int(&f->b, node, "kv_num_heads", 1);
  }
  build_output(&f->b, "y", type);
  return node;
}

static void see(struct planning *f, const char *value, float largest, int rank) {
  float x[LENGTH * WIDTH];
  for (int i = 0; i < LENGTH * WIDTH; i++)
    x[i] = 1;
  x[7] = largest;
  planning_see(f, value, x, LENGTH * WIDTH);
  struct stats *s = &f->t.stats[value_id(&f->g, value)];
  const int64_t dims[] = {1, 1, LENGTH, WIDTH};
  s->has_shape = strcmp(value, "y") == 0;  // of what only moves elements, none is seen
  s->rank = rank;
  memcpy(s->dims, rank == 4 ? dims : dims + 1, (size_t)rank * sizeof *dims);
}

static void decide(struct planning *f, float query, float key, int rank) {
  planning_index(f);
  see(f, "q", query, rank);
  see(f, "k", key, rank);
  see(f, "v", 1, rank);
  see(f, "y", 1, rank);
  planning_decide(f);
}

static void expect_scores(struct planning *f, bool fit) {
  assert_int_equal(node_format(f, "y"), fit ? FORMAT_FP16 : FORMAT_FP32);
  assert_int_equal(node_reason(f, "y"), fit ? REASON_NONE : REASON_SCORES);
}

// 64 * 64^-0.5 * 64 * 63.9 * 2 (the margin) is 65434; with 64 * 64 it is 65536.
static void plan_bounds_scores_by_width_queries_and_keys(void **state) {
  planning_tear_down(state);
  for (int i = 0; i < 4; i++) {
    planning_set_up(state);
    struct planning *f = *state;
    int rank = 3 + i / 2;
    bool fits = i % 2 == 0;
    attention(f, rank);
    decide(f, 64, fits ? 63.9f : 64, rank);
    expect_scores(f, fits);
    if (!fits)
      assert_int_equal(f->p.nodes[0].reason_value, value_id(&f->g, "q"));
    if (i < 3)
      planning_tear_down(state);
  }
}

static void plan_bounds_scores_by_the_scale_that_is_given(void **state) {
  struct planning *f = *state;
  build_float(&f->b, attention(f, 4), "scale", 0.25f);
  decide(f, 64, 32, 4);  // 64 * 0.25 * 64 * 32 * 2
  expect_scores(f, false);
}

static void plan_bounds_scores_in_the_format(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  attention(f, 4);
  decide(f, 2000, 2000, 4);
  assert_int_equal(node_format(f, "y"), FORMAT_BF16);
}

static void plan_keeps_attention_of_unknown_width(void **state) {
  struct planning *f = *state;
  attention(f, 4);
  planning_index(f);
  f->t.stats[value_id(&f->g, "y")].has_shape = false;
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP32);
  assert_int_equal(node_reason(f, "y"), REASON_NOT_SEEN);
}

static void plan_keeps_attention_whose_mask_stays_wide(void **state) {
  planning_tear_down(state);
  for (int fits = 0; fits < 2; fits++) {
    planning_set_up(state);
    struct planning *f = *state;
    Onnx__NodeProto *node = attention(f, 4);
    build_floats(&f->b, "mask", "float[1,4]", (float[]){0, 0, 0, fits ? -1e4f : -3.4e38f});
    node->n_input = 4;
    node->input = arena_array(&f->arena, 4, sizeof *node->input);
    static char *const inputs[] = {"q", "k", "v", "mask"};
    memcpy(node->input, inputs, sizeof inputs);
    decide(f, 1, 1, 4);
    assert_int_equal(node_format(f, "y"), fits ? FORMAT_FP16 : FORMAT_FP32);
    assert_int_equal(node_reason(f, "y"), fits ? REASON_NONE : REASON_ENGINE);
    if (!fits)
      planning_tear_down(state);
  }
}

static int64_t precision(const struct planning *f) {
  const Onnx__AttributeProto *a =
      node_attribute(f->emitted.nodes[node_of(&f->emitted, "y")].proto, "softmax_precision");
  return a ? a->i : 0;
}

static void rewrite_keeps_the_softmax_of_attention_in_fp32(void **state) {
  struct planning *f = *state;
  f->policy.narrow_outputs = true;
  attention(f, 4);
  decide(f, 1, 1, 4);
  planning_rewrite(f);
  assert_int_equal(precision(f), ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
}

static void rewrite_leaves_a_precision_that_the_author_gave(void **state) {
  struct planning *f = *state;
  f->policy.narrow_outputs = true;
  build_int(&f->b, attention(f, 4), "softmax_precision", ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE);
  decide(f, 1, 1, 4);
  planning_rewrite(f);
  assert_int_equal(precision(f), ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE);
}

// 4 * 256 elements of the queries * 4 keys.
static void costs_count_both_products_of_attention(void **state) {
  struct planning *f = *state;
  attention(f, 4);
  decide(f, 1, 1, 4);
  assert_true(attention_length(&f->g, &f->t, 0) == (double)LENGTH);
  assert_true(f->p.costs.time_before == (double)(4 * LENGTH * WIDTH * LENGTH) * 256);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(plan_bounds_scores_by_width_queries_and_keys),
      TEST(plan_bounds_scores_by_the_scale_that_is_given),
      TEST(plan_bounds_scores_in_the_format),
      TEST(plan_keeps_attention_of_unknown_width),
      TEST(plan_keeps_attention_whose_mask_stays_wide),
      TEST(rewrite_keeps_the_softmax_of_attention_in_fp32),
      TEST(rewrite_leaves_a_precision_that_the_author_gave),
      TEST(costs_count_both_products_of_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
