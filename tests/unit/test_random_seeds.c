// random_seeds: source and result draw the same random numbers, in the trace, in the verification
// and in the engine; nothing that is written has a seed of ours.
// needs: engine
#include "random_seeds.h"

#include "clone.h"
#include "support_verify.h"

#include <string.h>

// Nodes that draw with a seed and without one, in a branch and in a function too, and one that only
// might; they are not sorted.
static void generators_everywhere(struct planning *f) {
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Noise", "a", "b", "number");
  build_node(&f->b, "RandomUniformLike", "a", "n");
  build_reference(&f->b, build_node(&f->b, "RandomNormalLike", "n", "b"), "seed", "number",
                  ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  build_function_end(&f->b);
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "c", "bool[]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){0.1f, 0.2f, 0.3f, 0.4f});
  build_floats(&f->b, "half", "float[]", (float[]){0.5f});
  build_raw(&f->b, "training", "bool[]", "\1", 1);
  build_raw(&f->b, "inference", "bool[]", "\0", 1);
  build_node(&f->b, "Add", "d noise", "y");
  build_node(&f->b, "local.Noise", "h", "noise");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "k");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "RandomNormalLike", "h", "t");
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Identity", "h", "e");
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Dropout", "k half training", "d");
  build_node(&f->b, "Dropout", "k half inference", "passed");
  build_float(&f->b, build_node(&f->b, "RandomNormalLike", "h", "seeded"), "seed", 3);
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "passed", "float[2,2]");
  build_output(&f->b, "seeded", "float[2,2]");
}

// The only value of that name in any scope.
static int value_named(const struct graph *g, const char *name) {
  for (int v = 0; v < g->n_values; v++)
    if (strcmp(g->values[v].name, name) == 0)
      return v;
  fail_msg("no value %s", name);
  return -1;
}

// The seed of the node that gives `output` in a copy of g's model for a session; -1: it has none.
static double seed_of(struct planning *f, const struct graph *g, const char *output) {
  struct model copy = clone_model(g->model, &f->arena);
  random_seeds_give(g, &copy, &f->arena);
  struct graph index = graph_of_clone(g, &copy, &f->arena);
  const Onnx__NodeProto *n = index.nodes[index.values[value_named(g, output)].producer].proto;
  const Onnx__AttributeProto *seed = node_attribute(n, "seed");
  if (!seed)
    return -1;
  assert_true(!seed->ref_attr_name || !seed->ref_attr_name[0]);
  bool whole = strcmp(n->op_type, "Dropout") == 0;
  assert_int_equal(seed->type, whole ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT
                                     : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  return whole ? (double)seed->i : (double)seed->f;
}

static void result_gets_the_seeds_of_the_source_and_no_two_nodes_the_same(void **state) {
  struct planning *f = *state;
  generators_everywhere(f);
  planning_all(f);
  assert_true(emitted_count(f, "Cast") > 0);
  static const char *const drawn[] = {"d", "t", "n", "b"};
  for (int i = 0; i < 4; i++) {
    double seed = seed_of(f, &f->g, drawn[i]);
    assert_true(seed > 0);
    assert_true(seed == seed_of(f, &f->emitted, drawn[i]));
    for (int k = 0; k < i; k++)
      assert_true(seed != seed_of(f, &f->g, drawn[k]));
  }
  assert_true(seed_of(f, &f->g, "seeded") == 3);
  assert_true(seed_of(f, &f->g, "passed") == -1);
  int unseeded;
  assert_int_equal(random_draws(&f->g, &unseeded), 5);
  assert_int_equal(unseeded, 4);
  assert_int_equal(random_draws(&f->emitted, &unseeded), 5);
  assert_int_equal(unseeded, 4);  // what is written has no seeds of ours
}

// y = (x w) times what is drawn: other draws would be another result altogether.
static void products_of_draws(struct planning *f, const char *op) {
  static struct claim list[] = {{.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.002}};
  claims(f, list, 1);
  float ones[64], w[64];
  for (int i = 0; i < 64; i++) {
    ones[i] = 0.5F;
    w[i] = 0.1F + 0.01F * (float)i;
  }
  build_input(&f->b, "x", "float[8,8]");
  build_floats(&f->b, "w", "float[8,8]", w);
  build_floats(&f->b, "half", "float[8,8]", ones);
  build_floats(&f->b, "ratio", "float[]", ones);
  build_raw(&f->b, "training", "bool[]", "\1", 1);
  bool dropout = strcmp(op, "Dropout") == 0;
  bool multinomial = strcmp(op, "Multinomial") == 0;
  bool generator = strcmp(op, "RandomNormal") == 0 || strcmp(op, "RandomUniform") == 0;
  Onnx__NodeProto *n = build_node(&f->b, op,
                                  dropout     ? "half ratio training"
                                  : generator ? ""
                                              : "half",
                                  multinomial ? "index" : "r");
  if (generator)
    build_ints(&f->b, n, "shape", (int64_t[]){8, 8}, 2);
  if (multinomial) {
    build_int(&f->b, n, "sample_size", 8);
    build_int(&f->b, build_node(&f->b, "Cast", "index", "r"), "to",
              ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  }
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Mul", "h r", "y");
  build_output(&f->b, "y", "float[8,8]");
  planning_all(f);
  write_floats(f, "s0.npy", "8, 8", ones, 64);
  write_floats(f, "s1.npy", "8, 8", w, 64);
}

// Each half and each session draws the same; a sample draws other numbers than the one before.
static void expect_same_draws(struct planning *f, const char *op) {
  products_of_draws(f, op);
  struct verdict v, again;
  verify(f, &v);
  assert_true(v.holds);
  const float *drawn = f->reference.arrays[0].data, *next = f->reference.arrays[1].data;
  float ratio = next[0] / drawn[0];
  bool anew = false;
  for (int i = 1; i < 64; i++)
    anew = anew || (next[i] / drawn[i] > 2 * ratio || next[i] / drawn[i] < ratio / 2);
  assert_true(anew);
  double error = v.outputs[0].on[SET_HELD_OUT].max_abs;
  assert_true(error > 0);  // it did round
  verify(f, &again);
  assert_true(again.outputs[0].on[SET_HELD_OUT].max_abs == error);
  compare_in_engine(f, &again, false);
  assert_true(again.loads_everywhere);
  assert_int_equal(again.engine_samples, 2);
  assert_true(claim_of(&again, "l2")->holds_in_engine);
}

static void halves_and_sessions_draw_alike_random_normal(void **state) {
  expect_same_draws(*state, "RandomNormal");
}

static void halves_and_sessions_draw_alike_random_normal_like(void **state) {
  expect_same_draws(*state, "RandomNormalLike");
}

static void halves_and_sessions_draw_alike_random_uniform(void **state) {
  expect_same_draws(*state, "RandomUniform");
}

static void halves_and_sessions_draw_alike_random_uniform_like(void **state) {
  expect_same_draws(*state, "RandomUniformLike");
}

static void halves_and_sessions_draw_alike_bernoulli(void **state) {
  expect_same_draws(*state, "Bernoulli");
}

static void halves_and_sessions_draw_alike_multinomial(void **state) {
  expect_same_draws(*state, "Multinomial");
}

static void halves_and_sessions_draw_alike_dropout(void **state) {
  expect_same_draws(*state, "Dropout");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(result_gets_the_seeds_of_the_source_and_no_two_nodes_the_same),
      TEST(halves_and_sessions_draw_alike_random_normal),
      TEST(halves_and_sessions_draw_alike_random_normal_like),
      TEST(halves_and_sessions_draw_alike_random_uniform),
      TEST(halves_and_sessions_draw_alike_random_uniform_like),
      TEST(halves_and_sessions_draw_alike_bernoulli),
      TEST(halves_and_sessions_draw_alike_multinomial),
      TEST(halves_and_sessions_draw_alike_dropout),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
