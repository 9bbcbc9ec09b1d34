// What loops carry unchanged: bodies read it from outside, and it is carried no longer where nobody
// reads the loop's output for it; the engine computes the same bits before and after.
// needs: engine
#include "invariants.h"

#include "clone.h"
#include "engine.h"
#include "support_plan.h"

#include <string.h>

static const float weight[] = {0.5f, -1, 0.25f, 2};

static void begin(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", weight);
  build_int64s(&f->b, "trips", "int64[]", (int64_t[]){3});
}

// Opens the body of a Loop: its counter, its condition, and a state each for the names.
static void body(struct planning *f, Onnx__NodeProto *loop, const char *first, const char *second) {
  build_graph_begin(&f->b, loop, "body");
  build_input(&f->b, arena_printf(&f->arena, "i_%s", first), "int64[]");
  build_input(&f->b, arena_printf(&f->arena, "go_%s", first), "bool[]");
  build_input(&f->b, first, "float[2,2]");
  build_input(&f->b, second, "float[2,2]");
}

static void give_out(struct planning *f, const char *first, const char *next, const char *second) {
  const char *go = arena_printf(&f->arena, "on_%s", first);
  build_node(&f->b, "Identity", arena_printf(&f->arena, "go_%s", first), go);
  build_output(&f->b, go, "bool[]");
  build_output(&f->b, next, "float[2,2]");
  build_output(&f->b, second, "float[2,2]");
  build_graph_end(&f->b);
}

// y = x * w * w * w; the body calls the weight k, and gives out `second` as its next value.
static void carrying_loop(struct planning *f, const char *outputs, const char *second) {
  begin(f);
  Onnx__NodeProto *loop = build_node(&f->b, "Loop", "trips _ x w", outputs);
  body(f, loop, "s", "k");
  build_node(&f->b, "MatMul", "s k", "next");
  give_out(f, "s", "next", second);
  build_output(&f->b, "y", "float[2,2]");
}

static void first_output(struct planning *f, const struct model *m, float y[4]) {
  struct model copy = clone_model(m, &f->arena);
  struct packed_model packed;
  struct engine *engine = NULL;
  struct session *session = NULL;
  const float x[] = {1, 2, 3, 4};
  const struct array in = {
      .name = "x", .elem_type = 1, .rank = 2, .dims = {2, 2}, .data = x, .size = sizeof x};
  struct array out;
  const char *name = "y";
  struct session_options options = {.threads = 1};
  if (clone_pack(&packed, &copy, &f->arena, &f->d) != STATUS_OK ||
      engine_open(&engine, NULL, &f->d) != STATUS_OK ||
      session_open(&session, engine, packed.bytes, packed.size, &options, &f->d) != STATUS_OK ||
      session_run(session, &in, 1, &name, 1, &out, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  assert_int_equal(out.size, sizeof x);
  memcpy(y, out.data, sizeof x);
  session_close(session);
  engine_close(engine);
}

// Frees the model and looks whether the engine finds the same.
static void free_and_compare(struct planning *f) {
  float before[4], after[4];
  planning_index(f);
  first_output(f, &f->m, before);
  assert_int_equal(invariants_free(&f->g, &f->m, &f->arena, &f->d), STATUS_OK);
  first_output(f, &f->m, after);
  for (int i = 0; i < 4; i++)
    assert_float_equal(before[i], after[i], 0);
}

static const Onnx__NodeProto *made(const struct planning *f, const char *output) {
  return f->g.nodes[node_of(&f->g, output)].proto;
}

static void a_body_reads_from_outside_what_its_loop_carries_unchanged(void **state) {
  struct planning *f = *state;
  carrying_loop(f, "y unread", "k");
  free_and_compare(f);
  assert_string_equal(made(f, "#0.body::next")->input[1], "w");
  assert_int_equal(made(f, "y")->n_input, 3);
  assert_int_equal(made(f, "y")->n_output, 1);
  assert_int_equal(f->g.scopes[1].n_inputs, 3);
  assert_int_equal(f->g.scopes[1].n_outputs, 2);
}

static void what_is_read_behind_the_loop_is_still_carried(void **state) {
  struct planning *f = *state;
  carrying_loop(f, "y k_out", "k");
  build_output(&f->b, "k_out", "float[2,2]");
  free_and_compare(f);
  assert_string_equal(made(f, "#0.body::next")->input[1], "w");
  assert_int_equal(made(f, "y")->n_input, 4);
  assert_int_equal(made(f, "y")->n_output, 2);
}

static void what_changes_is_left(void **state) {
  struct planning *f = *state;
  carrying_loop(f, "y unread", "next");
  free_and_compare(f);
  assert_string_equal(made(f, "#0.body::next")->input[1], "k");
  assert_int_equal(made(f, "y")->n_input, 4);
}

// Inside, "w" is another value.
static void a_body_with_a_value_of_the_same_name_is_left(void **state) {
  struct planning *f = *state;
  begin(f);
  Onnx__NodeProto *loop = build_node(&f->b, "Loop", "trips _ x w", "y unread");
  body(f, loop, "s", "k");
  build_node(&f->b, "MatMul", "s k", "w");
  give_out(f, "s", "w", "k");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  assert_int_equal(invariants_free(&f->g, &f->m, &f->arena, &f->d), STATUS_OK);
  assert_string_equal(made(f, "#0.body::w")->input[1], "k");
  assert_int_equal(made(f, "y")->n_input, 4);
}

static void a_loop_in_a_loop_reads_what_both_carry_from_outside_of_both(void **state) {
  struct planning *f = *state;
  begin(f);
  Onnx__NodeProto *outer = build_node(&f->b, "Loop", "trips _ x w", "y unread");
  body(f, outer, "s", "k");
  Onnx__NodeProto *inner = build_node(&f->b, "Loop", "trips _ s k", "t unread_too");
  body(f, inner, "r", "j");
  build_node(&f->b, "MatMul", "r j", "next");
  give_out(f, "r", "next", "j");
  give_out(f, "s", "t", "k");
  build_output(&f->b, "y", "float[2,2]");
  free_and_compare(f);
  assert_int_equal(made(f, "y")->n_input, 3);
  assert_int_equal(made(f, "#0.body::t")->n_input, 3);
  assert_string_equal(made(f, "#0.body/#0.body::next")->input[1], "w");
}

static void a_scan_reads_what_it_carries_unchanged_from_outside(void **state) {
  struct planning *f = *state;
  begin(f);
  build_floats(&f->b, "zero", "float[2]", (float[]){0, 0});
  Onnx__NodeProto *scan = build_node(&f->b, "Scan", "zero w x", "sum unread rows");
  build_int(&f->b, scan, "num_scan_inputs", 1);
  build_graph_begin(&f->b, scan, "body");
  build_input(&f->b, "s", "float[2]");
  build_input(&f->b, "k", "float[2,2]");
  build_input(&f->b, "row", "float[2]");
  build_node(&f->b, "MatMul", "row k", "product");
  build_node(&f->b, "Add", "s product", "next");
  build_node(&f->b, "Identity", "product", "out");
  build_node(&f->b, "Identity", "k", "same");
  build_output(&f->b, "next", "float[2]");
  build_output(&f->b, "same", "float[2,2]");
  build_output(&f->b, "out", "float[2]");
  build_graph_end(&f->b);
  build_node(&f->b, "Add", "rows sum", "y");
  build_output(&f->b, "y", "float[2,2]");
  free_and_compare(f);
  assert_int_equal(made(f, "rows")->n_input, 2);
  assert_string_equal(made(f, "rows")->output[1], "rows");
  assert_string_equal(made(f, "#0.body::product")->input[1], "w");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_body_reads_from_outside_what_its_loop_carries_unchanged),
      TEST(what_is_read_behind_the_loop_is_still_carried),
      TEST(what_changes_is_left),
      TEST(a_body_with_a_value_of_the_same_name_is_left),
      TEST(a_loop_in_a_loop_reads_what_both_carry_from_outside_of_both),
      TEST(a_scan_reads_what_it_carries_unchanged_from_outside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
