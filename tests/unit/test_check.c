// The verifier between passes: what it lets through after load but not after a pass, and that its
// message names the pass.
#include "check.h"
#include "support_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

struct fixture {
  struct arena arena;
  struct build b;
  struct model m;
  struct diag d;
};

static int set_up(void **state) {
  static struct fixture f;
  f = (struct fixture){0};
  build_begin(&f.b, &f.arena, 17);
  build_input(&f.b, "x", "float[2]");
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  model_close(&f->m);
  arena_free(&f->arena);
  return 0;
}

static enum status check(struct fixture *f, const char *pass) {
  if (!f->m.proto)
    build_model(&f->b, &f->m);
  diag_clear(&f->d);
  return check_model(&f->m, &indexed_schemas, pass, &f->d);
}

// Refused after the pass "casts", with a message that has both the pass and `text`.
static void refuse_after_pass(struct fixture *f, const char *text) {
  assert_int_equal(check(f, "casts"), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, "pass casts"));
  if (!strstr(f->d.message, text))
    fail_msg("no \"%s\" in: %s", text, f->d.message);
  assert_true(f->d.hint[0]);
}

static void a_sound_model_passes(void **state) {
  struct fixture *f = *state;
  build_node(&f->b, "Relu", "x", "y");
  build_value_info(&f->b, "y", "float[2]");
  build_output(&f->b, "y", "float[2]");
  assert_int_equal(check(f, NULL), STATUS_OK);
  assert_int_equal(check(f, "casts"), STATUS_OK);
  assert_string_equal(f->d.message, "");
}

static void after_a_pass_nodes_are_sorted(void **state) {
  struct fixture *f = *state;
  build_node(&f->b, "Relu", "a", "y");
  build_node(&f->b, "Abs", "x", "a");
  build_output(&f->b, "y", "float[2]");
  assert_int_equal(check(f, NULL), STATUS_OK);
  refuse_after_pass(f, "stands before what it reads");
}

static void after_a_pass_branches_stand_behind_their_captures(void **state) {
  struct fixture *f = *state;
  struct build *b = &f->b;
  build_input(b, "c", "bool[]");
  Onnx__NodeProto *n = build_node(b, "If", "c", "y");
  for (int i = 0; i < 2; i++) {
    build_graph_begin(b, n, i ? "else_branch" : "then_branch");
    build_node(b, "Relu", "late", "t");
    build_output(b, "t", "float");
    build_graph_end(b);
  }
  build_node(b, "Abs", "x", "late");
  build_output(b, "y", "float");
  assert_int_equal(check(f, NULL), STATUS_OK);
  refuse_after_pass(f, "stands before what it reads");
}

static void after_a_pass_value_info_is_right(void **state) {
  struct fixture *f = *state;
  build_node(&f->b, "Relu", "x", "a");
  build_node(&f->b, "Abs", "a", "y");
  build_value_info(&f->b, "a", "float16[2]");
  build_output(&f->b, "y", "float[2]");
  assert_int_equal(check(f, NULL), STATUS_OK);
  refuse_after_pass(f, "value_info says float16, but it is float");
  assert_string_equal(f->d.tensor, "a");
}

static void a_missing_cast_is_found(void **state) {
  struct fixture *f = *state;
  build_raw(&f->b, "w", "float16[2]", "\0\0\0", 4);
  build_node(&f->b, "MatMul", "x w", "y")->name = "product";
  build_output(&f->b, "y", "float");
  refuse_after_pass(f, "must be float");
  assert_string_equal(f->d.node, "product");
  assert_string_equal(f->d.tensor, "w");
  assert_int_equal(check(f, NULL), STATUS_MODEL);
  assert_null(strstr(f->d.message, "pass"));
}

static void a_declared_output_that_was_left_behind_is_found(void **state) {
  struct fixture *f = *state;
  build_int(&f->b, build_node(&f->b, "Cast", "x", "y"), "to", 10);
  build_output(&f->b, "y", "float[2]");
  refuse_after_pass(f, "declared float but is float16");
}

static void a_lost_value_is_found(void **state) {
  struct fixture *f = *state;
  build_node(&f->b, "Relu", "y__fp16", "y");
  build_output(&f->b, "y", "float");
  refuse_after_pass(f, "nothing defines it");
}

static void loop_state_cast_on_one_side_is_found(void **state) {
  struct fixture *f = *state;
  struct build *b = &f->b;
  build_input(b, "n", "int64[]");
  Onnx__NodeProto *n = build_node(b, "Loop", "n _ x", "y");
  build_graph_begin(b, n, "body");
  build_input(b, "i", "int64[]");
  build_input(b, "go", "bool[]");
  build_input(b, "s", "float[2]");
  build_node(b, "Identity", "go", "again");
  build_int(b, build_node(b, "Cast", "s", "s2"), "to", 10);
  build_output(b, "again", "bool[]");
  build_output(b, "s2", "float16[2]");
  build_graph_end(b);
  build_output(b, "y", "float16[2]");
  refuse_after_pass(f, "loop state");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_sound_model_passes),
      TEST(after_a_pass_nodes_are_sorted),
      TEST(after_a_pass_branches_stand_behind_their_captures),
      TEST(after_a_pass_value_info_is_right),
      TEST(a_missing_cast_is_found),
      TEST(a_declared_output_that_was_left_behind_is_found),
      TEST(a_lost_value_is_found),
      TEST(loop_state_cast_on_one_side_is_found),
  };
  return cmocka_run_group_tests(tests, indexed_load_schemas, indexed_free_schemas);
}
