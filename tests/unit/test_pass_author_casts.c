// pass_author_casts, and how Casts of the author are read around: what is left out, what stays, and
// when what stands between them follows.
#include "support_plan.h"

#include <string.h>

enum { FLOAT = 1, INT64 = 7, STRING = 8, FLOAT16 = 10, DOUBLE = 11 };

static void input_and_weights(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
}

// A product between Casts of the author's, from and to fp16.
static void mixed_product(struct planning *f) {
  build_input(&f->b, "x", "float16[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_int(&f->b, build_node(&f->b, "Cast", "x", "wide"), "to", FLOAT);
  build_value_info(&f->b, "wide", "float[2,2]");
  static Onnx__TensorAnnotation note;
  static Onnx__TensorAnnotation *notes[] = {&note};
  onnx__tensor_annotation__init(&note);
  note.tensor_name = arena_strdup(&f->arena, "wide");
  f->b.model->graph->quantization_annotation = notes;
  f->b.model->graph->n_quantization_annotation = 1;
  build_node(&f->b, "MatMul", "wide w", "y");
  build_int(&f->b, build_node(&f->b, "Cast", "y", "z"), "to", FLOAT16);
  build_output(&f->b, "z", "float16[2,2]");
}

static void rewrite_reads_what_the_author_widened_before_the_cast(void **state) {
  struct planning *f = *state;
  mixed_product(f);
  planning_all(f);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  same_list(emitted_node(f, "y")->input, 2, "x w");
  same_list(emitted_node(f, "z")->input, 1, "y");
  assert_int_equal(emitted_count(f, "Cast"), 0);  // the second has nothing left to do
  assert_int_equal(emitted_count(f, "Identity"), 1);
  assert_int_equal(f->report.casts, 0);
  assert_int_equal(f->report.author_casts, 2);
  assert_true(graph_lookup(&f->emitted, 0, "wide") < 0);
  for (size_t i = 0; i < f->changed.proto->graph->n_value_info; i++)
    assert_string_not_equal(f->changed.proto->graph->value_info[i]->name, "wide");
  assert_int_equal(f->changed.proto->graph->n_quantization_annotation, 0);
  assert_float_equal(f->p.costs.casts, 0, 0);
}

// ONNX Runtime 1.30 does not load a CastLike from fp16 to fp16 either.
static void rewrite_leaves_no_castlike_without_a_cast(void **state) {
  struct planning *f = *state;
  struct diag d = {0};
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "CastLike", "a a", "b");
  build_node(&f->b, "MatMul", "b w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "*", &f->arena, &d), STATUS_OK);
  planning_rewrite(f);
  assert_int_equal(node_format(f, "b"), FORMAT_FP16);
  assert_string_equal(emitted_node(f, "b")->op_type, "Identity");
  same_list(emitted_node(f, "b")->input, 1, "a");
  assert_int_equal(emitted_node(f, "b")->n_input, 1);
}

// In bf16, say, which is not what the author had.
// What a converter with a list of operators leaves: a Relu in fp32 between Casts. The Exp is ruled
// to stay. Who keeps Casts as a decision of their author keeps what is between them.
static void rewrite_takes_followers_out_of_casts_that_follow(void **state) {
  for (int keep = 0; keep < 2; keep++) {
    struct planning *f = *state;
    f->policy.keep_author_casts = keep;
    build_input(&f->b, "x", "float16[2,2]");
    build_int(&f->b, build_node(&f->b, "Cast", "x", "a"), "to", FLOAT);
    build_node(&f->b, "Relu", "a", "b");
    build_int(&f->b, build_node(&f->b, "Cast", "b", "c"), "to", FLOAT16);
    build_int(&f->b, build_node(&f->b, "Cast", "c", "d"), "to", FLOAT);
    build_node(&f->b, "Exp", "d", "e");
    build_int(&f->b, build_node(&f->b, "Cast", "e", "y"), "to", FLOAT16);
    build_output(&f->b, "y", "float16[2,2]");
    planning_index(f);
    planning_decide(f);
    assert_int_equal(plan_is_identity(&f->p), keep);
    if (!keep) {
      planning_rewrite(f);
      assert_int_equal(node_format(f, "b"), FORMAT_FP16);
      assert_int_equal(node_format(f, "e"), FORMAT_FP32);
      assert_int_equal(emitted_count(f, "Cast"), 2);
      assert_int_equal(f->report.casts, 0);
    }
    planning_tear_down(state);
    planning_set_up(state);
  }
}

static void rewrite_casts_what_the_author_widened_from_another_format(void **state) {
  struct planning *f = *state;
  mixed_product(f);
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  planning_all(f);
  assert_int_equal(node_format(f, "y"), FORMAT_BF16);
  same_list(emitted_node(f, "y")->input, 2, "wide__bf16 w");
  same_list(emitted_node(f, "z")->input, 1, "y");
  assert_int_equal(emitted_count(f, "Cast"), 3);
}

static void rewrite_keeps_casts_of_the_author_that_others_read(void **state) {
  for (int given_out = 0; given_out < 2; given_out++) {
    struct planning *f = *state;
    mixed_product(f);
    if (given_out) {
      build_output(&f->b, "wide", "float[2,2]");
    } else {
      build_node(&f->b, "Exp", "wide", "e");
      build_output(&f->b, "e", "float[2,2]");
    }
    planning_all(f);
    assert_int_equal(node_format(f, "y"), FORMAT_FP16);
    same_list(emitted_node(f, "y")->input, 2, "x w");
    assert_int_equal(emitted_count(f, "Cast"), 1);
    assert_int_equal(emitted_type(f, "wide"), FLOAT);
    planning_tear_down(state);
    planning_set_up(state);
  }
}

// There its name may be another value's.
static void rewrite_casts_for_bodies_what_the_author_widened(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float16[2,2]");
  build_input(&f->b, "go", "bool[]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_int(&f->b, build_node(&f->b, "Cast", "x", "wide"), "to", FLOAT);
  Onnx__NodeProto *n = build_node(&f->b, "If", "go", "y");
  build_graph_begin(&f->b, n, "then_branch");
  build_node(&f->b, "Identity", "go", "x");
  build_node(&f->b, "MatMul", "wide w", "t");
  build_node(&f->b, "MatMul", "t w", "t2");
  build_output(&f->b, "t2", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, n, "else_branch");
  build_node(&f->b, "MatMul", "w w", "e");
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  int cast = graph_lookup(&f->emitted, 0, "wide__fp16");
  assert_true(cast >= 0);
  assert_int_equal(f->emitted.values[cast].n_uses, 1);
}

// What is stored narrow is cast from there, to whatever the author wanted; at a scale, and to text,
// from fp32. A constant that others have in fp16 is not rounded for it.
static void rewrite_lets_the_authors_casts_read_what_is_stored(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");
  build_int(&f->b, build_node(&f->b, "Cast", "h", "i"), "to", INT64);
  build_int(&f->b, build_node(&f->b, "Cast", "h", "d"), "to", DOUBLE);
  build_int(&f->b, build_node(&f->b, "Cast", "h", "text"), "to", STRING);
  build_int(&f->b, build_node(&f->b, "Cast", "w", "dw"), "to", DOUBLE);
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "i", "int64[2,2]");
  build_output(&f->b, "d", "double[2,2]");
  build_output(&f->b, "dw", "double[2,2]");
  build_output(&f->b, "text", "string[2,2]");
  planning_all(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  same_list(emitted_node(f, "i")->input, 1, "h");
  same_list(emitted_node(f, "d")->input, 1, "h");
  same_list(emitted_node(f, "text")->input, 1, "h__fp32");
  assert_int_equal(emitted_type(f, emitted_node(f, "dw")->input[0]), FLOAT);
}

// It has none to look at: what lies behind its empty list is another node's.
static void rewrite_casts_for_a_cast_that_gives_nothing(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");
  Onnx__NodeProto *cast = build_node(&f->b, "Cast", "h", "nothing");
  build_int(&f->b, cast, "to", INT64);
  cast->n_output = 0;
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_true(graph_lookup(&f->emitted, 0, "h__fp32") >= 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(rewrite_reads_what_the_author_widened_before_the_cast),
      TEST(rewrite_leaves_no_castlike_without_a_cast),
      TEST(rewrite_takes_followers_out_of_casts_that_follow),
      TEST(rewrite_casts_what_the_author_widened_from_another_format),
      TEST(rewrite_keeps_casts_of_the_author_that_others_read),
      TEST(rewrite_casts_for_bodies_what_the_author_widened),
      TEST(rewrite_lets_the_authors_casts_read_what_is_stored),
      TEST(rewrite_casts_for_a_cast_that_gives_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
