// selection: which outputs are rows that a selection chooses, and along which axis.
#include "selection.h"

#include "changes.h"
#include "choices.h"
#include "clock.h"
#include "support_plan.h"

static void expect_of(struct planning *f, const bool *changed, const char *output,
                      const char *selection, int axis) {
  int value = value_id(&f->g, output), node, found;
  selection_find(&f->g, changed, &value, 1, &node, &found);
  assert_int_equal(node, selection ? node_of(&f->g, selection) : -1);
  assert_int_equal(found, axis);
}

static bool *all_changed(struct planning *f) {
  bool *changed = arena_array(&f->arena, (size_t)f->g.n_values, sizeof *changed);
  for (int v = 0; v < f->g.n_values; v++)
    changed[v] = true;
  return changed;
}

static void expect(struct planning *f, const char *output, const char *selection, int axis) {
  expect_of(f, all_changed(f), output, selection, axis);
}

static void integers(struct planning *f, const char *name, const char *type, int64_t first,
                     int64_t second) {
  build_int64s(&f->b, name, type, (const int64_t[]){first, second});
}

// As a YOLO ends: [batch, class, box] of what is kept, and by it boxes, scores and classes.
static void boxes_scores_and_classes_behind_nms(struct planning *f) {
  build_input(&f->b, "boxes", "float[1,8,4]");
  build_input(&f->b, "scores", "float[1,3,8]");
  integers(f, "zero", "int64[1]", 0, 0);
  integers(f, "one", "int64[1]", 1, 0);
  integers(f, "two", "int64[1]", 2, 0);
  integers(f, "last", "int64[1]", -1, 0);
  build_node(&f->b, "NonMaxSuppression", "boxes scores", "kept");
  build_int(&f->b, build_node(&f->b, "Gather", "kept two", "place2"), "axis", 1);
  build_node(&f->b, "Squeeze", "place2 last", "place");
  build_int(&f->b, build_node(&f->b, "Gather", "boxes place", "chosen3"), "axis", 1);
  build_node(&f->b, "Squeeze", "chosen3 zero", "chosen");
  build_node(&f->b, "GatherND", "scores kept", "scored");
  build_int(&f->b, build_node(&f->b, "Gather", "kept one", "class"), "axis", 1);
  build_node(&f->b, "Unsqueeze", "scored one", "scored2");
  build_int(&f->b, build_node(&f->b, "Concat", "chosen scored2", "rows"), "axis", -1);
}

static void rows_behind_a_suppression_are_found_in_every_output(void **state) {
  struct planning *f = *state;
  boxes_scores_and_classes_behind_nms(f);
  build_output(&f->b, "chosen3", "float[1,n,4]");
  build_output(&f->b, "chosen", "float[n,4]");
  build_output(&f->b, "scored", "float[n]");
  build_output(&f->b, "class", "int64[n,1]");
  build_output(&f->b, "rows", "float[n,5]");
  planning_index(f);
  expect(f, "chosen3", "kept", 1);
  expect(f, "chosen", "kept", 0);
  expect(f, "scored", "kept", 0);
  expect(f, "class", "kept", 0);
  expect(f, "rows", "kept", 0);
}

// As DETR ends: the best of all queries' classes, and the boxes of their queries.
static void rows_behind_the_best_of_a_batch_lie_along_its_second_axis(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "scores", "float[2,60]");
  build_input(&f->b, "boxes", "float[2,20,4]");
  integers(f, "k", "int64[1]", 5, 0);
  integers(f, "classes", "int64[]", 3, 0);
  integers(f, "last", "int64[1]", -1, 0);
  build_node(&f->b, "TopK", "scores k", "best places");
  build_node(&f->b, "Mod", "places classes", "class");
  build_node(&f->b, "Div", "places classes", "query");
  build_node(&f->b, "Unsqueeze", "query last", "query3");
  build_int64s(&f->b, "times", "int64[3]", (const int64_t[]){1, 1, 4});
  build_node(&f->b, "Tile", "query3 times", "corners");
  build_int(&f->b, build_node(&f->b, "GatherElements", "boxes corners", "chosen"), "axis", 1);
  build_output(&f->b, "best", "float[2,5]");
  build_output(&f->b, "class", "int64[2,5]");
  build_output(&f->b, "chosen", "float[2,5,4]");
  planning_index(f);
  expect(f, "best", "best", 1);
  expect(f, "class", "best", 1);
  expect(f, "chosen", "best", 1);
}

// As torchvision ends: what is kept is decided in a branch.
static void rows_chosen_in_a_branch_are_found(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "boxes", "float[n,4]");
  build_input(&f->b, "scores", "float[n]");
  build_input(&f->b, "some", "bool[]");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "some", "kept");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "NonZero", "scores", "found");
  integers(f, "zero", "int64[1]", 0, 0);
  build_node(&f->b, "Squeeze", "found zero", "t");
  build_output(&f->b, "t", "int64[m]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  integers(f, "none", "int64[0]", 0, 0);
  build_node(&f->b, "Identity", "none", "e");
  build_output(&f->b, "e", "int64[0]");
  build_graph_end(&f->b);
  build_node(&f->b, "Gather", "boxes kept", "chosen");
  build_node(&f->b, "Mul", "chosen chosen", "scaled");
  build_output(&f->b, "scaled", "float[m,4]");
  planning_index(f);
  expect(f, "scaled", "#0.then_branch::found", 0);
}

// A token goes to the experts that its gate prefers, and keeps its place.
static void rows_that_pass_through_experts_have_places_of_their_own(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "tokens", "float[6,8]");
  build_input(&f->b, "gates", "float[6,4]");
  build_input(&f->b, "zeros", "float[6,8]");
  build_floats(&f->b, "experts", "float[4,1]", (const float[]){1, 2, 3, 4});
  integers(f, "one", "int64[1]", 1, 0);
  build_node(&f->b, "TopK", "gates one", "weight expert");
  build_node(&f->b, "Mul", "tokens weight", "weighted");
  build_node(&f->b, "ArgMax", "gates", "code");
  build_node(&f->b, "Gather", "experts code", "decoded");
  build_node(&f->b, "NonZero", "gates", "routed");
  build_int(&f->b, build_node(&f->b, "Transpose", "routed", "pairs"), "unused", 0);
  build_node(&f->b, "GatherND", "tokens pairs", "picked");
  build_node(&f->b, "ScatterND", "zeros pairs picked", "back");
  build_output(&f->b, "weighted", "float[6,8]");
  build_output(&f->b, "decoded", "float[1,4,1]");
  build_output(&f->b, "back", "float[6,8]");
  planning_index(f);
  expect(f, "weighted", NULL, -1);
  expect(f, "decoded", NULL, -1);
  expect(f, "back", NULL, -1);
}

static void a_selection_along_another_axis_chooses_no_rows(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[6,8,4]");
  integers(f, "two", "int64[1]", 2, 0);
  build_node(&f->b, "TopK", "x two", "best places");
  build_int(&f->b, build_node(&f->b, "GatherElements", "x places", "same"), "axis", 2);
  build_output(&f->b, "best", "float[6,8,2]");
  build_output(&f->b, "same", "float[6,8,2]");
  planning_index(f);
  expect(f, "best", NULL, -1);
  expect(f, "same", NULL, -1);
}

// The same rows along two axes: what is paired along one is mixed along the other.
static void rows_that_are_read_along_two_axes_are_none(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[8]");
  integers(f, "two", "int64[1]", 2, 0);
  integers(f, "one", "int64[1]", 1, 0);
  build_node(&f->b, "TopK", "x two", "best places");
  build_node(&f->b, "Unsqueeze", "best one", "column");
  build_node(&f->b, "Transpose", "column", "row");
  build_node(&f->b, "Mul", "column column", "square");
  build_node(&f->b, "Add", "square row", "table");
  build_output(&f->b, "square", "float[2,1]");
  build_output(&f->b, "table", "float[2,2]");
  planning_index(f);
  expect(f, "square", "best", 0);
  expect(f, "table", NULL, -1);
}

// The padding that a mask takes away: every row is where it was.
static void rows_that_no_rounding_can_reorder_are_compared_in_place(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[4,2]");
  build_input(&f->b, "mask", "bool[4]");
  build_floats(&f->b, "w", "float[2,2]", (const float[]){1, 2, 3, 4});
  integers(f, "two", "int64[1]", 2, 0);
  integers(f, "four", "int64[1]", 4, 0);
  integers(f, "zero", "int64[1]", 0, 0);
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "NonZero", "mask", "real");
  build_node(&f->b, "Transpose", "real", "pairs");
  build_node(&f->b, "GatherND", "y pairs", "unpadded");
  build_node(&f->b, "ConstantOfShape", "four", "ones");
  build_node(&f->b, "NonZero", "ones", "range2");
  build_node(&f->b, "Squeeze", "range2 zero", "range");
  build_node(&f->b, "Gather", "y range", "all");
  build_node(&f->b, "NonZero", "y", "some");
  build_node(&f->b, "Transpose", "some", "places");
  build_node(&f->b, "GatherND", "y places", "nonzero");
  build_int(&f->b, build_node(&f->b, "TopK", "y two", "best order"), "axis", 0);
  build_int(&f->b, build_node(&f->b, "TopK", "x two", "first order1"), "axis", 0);
  build_output(&f->b, "unpadded", "float[n,2]");
  build_output(&f->b, "all", "float[4,2]");
  build_output(&f->b, "nonzero", "float[n]");
  build_output(&f->b, "best", "float[2,2]");
  build_output(&f->b, "first", "float[2,2]");
  planning_index(f);
  planning_decide(f);
  const bool *changed = changes_find(&f->g, &f->p, &f->arena);
  expect_of(f, changed, "unpadded", NULL, -1);
  expect_of(f, changed, "all", NULL, -1);
  expect_of(f, changed, "nonzero", "some", 0);
  expect_of(f, changed, "best", "best", 0);
  expect_of(f, changed, "first", NULL, -1);
}

// What is narrow inside of a branch or loop changes what comes out, and what is decided by it.
static void what_is_computed_from_a_rounded_value_is_changed(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "some", "bool[]");
  build_floats(&f->b, "w", "float[2,2]", (const float[]){1, 2, 3, 4});
  Onnx__NodeProto *branch = build_node(&f->b, "If", "some", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "MatMul", "x w", "t");
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Exp", "x", "e");
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  build_node(&f->b, "ArgMax", "y", "code");
  build_node(&f->b, "ArgMax", "x", "unchanged");
  build_output(&f->b, "code", "int64[1,2]");
  build_output(&f->b, "unchanged", "int64[1,2]");
  planning_index(f);
  planning_decide(f);
  const bool *changed = changes_find(&f->g, &f->p, &f->arena);
  assert_true(changed[value_id(&f->g, "y")] && changed[value_id(&f->g, "code")]);
  assert_false(changed[value_id(&f->g, "x")] || changed[value_id(&f->g, "unchanged")] ||
               changed[value_id(&f->g, "some")]);
}

// As ArgMax does: its codes have places of their own.
static void the_one_best_of_a_topk_is_a_decision_and_no_row(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[6,8]");
  build_input(&f->b, "book", "float[8,4]");
  integers(f, "one", "int64[1]", 1, 0);
  build_node(&f->b, "TopK", "x one", "best code");
  build_node(&f->b, "Squeeze", "code one", "flat");
  build_node(&f->b, "Gather", "book code", "decoded");
  build_node(&f->b, "Gather", "book flat", "decoded2");
  build_output(&f->b, "best", "float[6,1]");
  build_output(&f->b, "decoded", "float[6,1,4]");
  build_output(&f->b, "decoded2", "float[6,4]");
  planning_index(f);
  expect(f, "best", NULL, -1);
  expect(f, "decoded", NULL, -1);
  expect(f, "decoded2", NULL, -1);
}

static void inverse_indices_of_a_unique_have_places_of_their_own(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[6]");
  build_node(&f->b, "Unique", "x", "u first inverse count");
  build_node(&f->b, "Gather", "x first", "same");
  build_node(&f->b, "Gather", "u inverse", "again");
  build_output(&f->b, "u", "float[n]");
  build_output(&f->b, "inverse", "int64[6]");
  build_output(&f->b, "count", "int64[n]");
  build_output(&f->b, "same", "float[n]");
  build_output(&f->b, "again", "float[6]");
  planning_index(f);
  expect(f, "u", "u", 0);
  expect(f, "count", "u", 0);
  expect(f, "same", "u", 0);
  expect(f, "inverse", NULL, -1);
  expect(f, "again", NULL, -1);
}

// As pixels are: an off-by-one is no other row. With classes beside them nobody can tell.
static void numbers_rounded_to_whole_ones_are_told_from_classes(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[6]");
  integers(f, "two", "int64[1]", 2, 0);
  build_node(&f->b, "TopK", "x two", "best places");
  build_node(&f->b, "Round", "best", "rounded");
  build_int(&f->b, build_node(&f->b, "Cast", "best", "pixels"), "to", 7);
  build_int(&f->b, build_node(&f->b, "Cast", "places", "class"), "to", 1);
  build_int(&f->b, build_node(&f->b, "Cast", "pixels", "again"), "to", 1);
  build_int(&f->b, build_node(&f->b, "Concat", "rounded class", "rows"), "axis", 0);
  build_output(&f->b, "rounded", "float[2]");
  build_output(&f->b, "again", "float[2]");
  build_output(&f->b, "rows", "float[4]");
  planning_index(f);
  assert_true(selection_is_rounded(&f->g, value_id(&f->g, "rounded")));
  assert_true(selection_is_rounded(&f->g, value_id(&f->g, "pixels")));
  assert_true(selection_is_rounded(&f->g, value_id(&f->g, "again")));
  assert_false(selection_is_rounded(&f->g, value_id(&f->g, "best")));
  assert_false(selection_is_rounded(&f->g, value_id(&f->g, "places")));
  assert_false(selection_is_rounded(&f->g, value_id(&f->g, "class")));
  assert_false(selection_is_rounded(&f->g, value_id(&f->g, "rows")));
}

// A candidate's index is that of a row which another selection chose before.
static void all_choices_that_an_output_depends_on_are_listed(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[9,2]");
  build_input(&f->b, "y", "float[9]");
  build_input(&f->b, "some", "bool[]");
  integers(f, "two", "int64[1]", 2, 0);
  integers(f, "zero", "int64[1]", 0, 0);
  build_node(&f->b, "NonZero", "y", "found2");
  build_node(&f->b, "Squeeze", "found2 zero", "found");
  build_node(&f->b, "Gather", "x found", "rows");
  build_node(&f->b, "Gather", "y found", "scores");
  build_node(&f->b, "TopK", "scores two", "best places");
  build_node(&f->b, "Gather", "rows places", "chosen");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "some", "either");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "TopK", "y two", "t inner");
  build_output(&f->b, "t", "float[2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Identity", "best", "e");
  build_output(&f->b, "e", "float[2]");
  build_graph_end(&f->b);
  build_output(&f->b, "chosen", "float[2,2]");
  build_output(&f->b, "either", "float[2]");
  planning_index(f);
  struct choices c = choices_list(&f->g, all_changed(f), &f->arena);
  int behind[2], rows = value_id(&f->g, "rows"), chosen = value_id(&f->g, "chosen"),
                 either = value_id(&f->g, "either");
  assert_int_equal(c.n, 2);
  assert_int_equal(choices_behind(&c, &rows, 1, behind), 1);
  assert_int_equal(c.values[behind[0]], value_id(&f->g, "found2"));
  assert_int_equal(choices_behind(&c, &chosen, 1, behind), 2);
  assert_int_equal(c.values[behind[0]], value_id(&f->g, "places"));
  assert_int_equal(c.values[behind[1]], value_id(&f->g, "found2"));
  assert_int_equal(choices_behind(&c, &either, 1, behind), -1);  // one is inside a branch
}

// The columns of what a NonZero gives are places, and so are the elements of other choices.
static void a_choice_is_read_as_one_key_for_each_row(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,9]");
  integers(f, "two", "int64[1]", 2, 0);
  build_node(&f->b, "NonZero", "x", "found");
  build_node(&f->b, "TopK", "x two", "best places");
  build_output(&f->b, "found", "int64[2,n]");
  build_output(&f->b, "best", "float[2,2]");
  planning_index(f);
  struct choices c = choices_list(&f->g, all_changed(f), &f->arena);
  const int64_t numbers[] = {0, 0, 1, 3, 5, 7};
  struct array x = {.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64, .rank = 2, .dims = {2, 3}};
  x.data = numbers;
  x.size = sizeof numbers;
  struct chosen read;
  assert_true(choices_read(&c, 0, &x, &read, &f->arena));
  assert_true(read.blocks == 1 && read.rows == 3 && read.width == 2);
  assert_memory_equal(read.keys, ((int64_t[]){0, 3, 0, 5, 1, 7}), sizeof numbers);
  assert_true(choices_read(&c, 1, &x, &read, &f->arena));
  assert_true(read.blocks == 2 && read.rows == 3 && read.width == 1 && read.keys == numbers);
  x.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  assert_false(choices_read(&c, 1, &x, &read, &f->arena));
}

// Each output has a walk of its own back to the input.
static void many_outputs_of_a_large_model_take_a_moment(void **state) {
  struct planning *f = *state;
  enum { MANY = 10000 };
  static int values[MANY], nodes[MANY], axes[MANY];
  build_input(&f->b, "v0", "float[2]");
  for (int i = 1; i <= MANY; i++) {
    const char *name = arena_printf(&f->arena, "v%d", i);
    build_node(&f->b, "Relu", arena_printf(&f->arena, "v%d", i - 1), name);
    build_output(&f->b, name, "float[2]");
  }
  planning_index(f);
  for (int i = 0; i < MANY; i++)
    values[i] = value_id(&f->g, arena_printf(&f->arena, "v%d", i + 1));
  const bool *changed = all_changed(f);
  double start = clock_seconds();
  selection_find(&f->g, changed, values, MANY, nodes, axes);
  double seconds = clock_seconds() - start;
  for (int i = 0; i < MANY; i++)
    assert_int_equal(nodes[i], -1);
  assert_true(seconds < 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(rows_behind_a_suppression_are_found_in_every_output),
      TEST(rows_behind_the_best_of_a_batch_lie_along_its_second_axis),
      TEST(rows_chosen_in_a_branch_are_found),
      TEST(rows_that_pass_through_experts_have_places_of_their_own),
      TEST(a_selection_along_another_axis_chooses_no_rows),
      TEST(rows_that_are_read_along_two_axes_are_none),
      TEST(rows_that_no_rounding_can_reorder_are_compared_in_place),
      TEST(what_is_computed_from_a_rounded_value_is_changed),
      TEST(the_one_best_of_a_topk_is_a_decision_and_no_row),
      TEST(inverse_indices_of_a_unique_have_places_of_their_own),
      TEST(numbers_rounded_to_whole_ones_are_told_from_classes),
      TEST(all_choices_that_an_output_depends_on_are_listed),
      TEST(a_choice_is_read_as_one_key_for_each_row),
      TEST(many_outputs_of_a_large_model_take_a_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
