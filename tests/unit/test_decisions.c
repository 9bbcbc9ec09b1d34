// decisions: what selection stands before an output.
#include "decisions.h"

#include "support_plan.h"

static void expect_before(struct planning *f, const char *value, const char *made) {
  int node = decision_before(&f->g, value_id(&f->g, value), &f->arena);
  assert_int_equal(node, made ? node_of(&f->g, made) : -1);
}

static void the_nearest_selection_is_found_behind_what_follows(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[8]");
  build_raw(&f->b, "three", "int64[1]", (const int64_t[]){3}, 8);
  build_raw(&f->b, "one", "int64[1]", (const int64_t[]){1}, 8);
  build_node(&f->b, "Relu", "x", "r");
  build_node(&f->b, "TopK", "r three", "best places");
  build_node(&f->b, "TopK", "best one", "first place");
  build_node(&f->b, "Gather", "x place", "chosen");
  build_node(&f->b, "Neg", "best", "negated");
  build_output(&f->b, "chosen", "float[1]");
  build_output(&f->b, "negated", "float[3]");
  build_output(&f->b, "r", "float[8]");
  planning_index(f);
  expect_before(f, "chosen", "place");
  expect_before(f, "negated", "best");
  expect_before(f, "r", NULL);
}

static void selections_in_branches_count_and_those_of_integers_do_not(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[8]");
  build_input(&f->b, "i", "int64[8]");
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "ArgMax", "i", "m");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "ArgMax", "x", "t");
  build_output(&f->b, "t", "int64[1]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Identity", "m", "e");
  build_output(&f->b, "e", "int64[1]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "int64[1]");
  planning_index(f);
  expect_before(f, "m", NULL);
  expect_before(f, "y", "#1.then_branch::t");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_nearest_selection_is_found_behind_what_follows),
      TEST(selections_in_branches_count_and_those_of_integers_do_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
