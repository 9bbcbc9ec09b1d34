// Element-type inference: rules of operators, subgraphs, functions, declarations; and that real
// models get the types which they declare.
#include "graph.h"
#include "support_index.h"
#include "types.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int set_up(void **state) {
  indexed_set_up(state);
  struct indexed *f = *state;
  f->b.model->opset_import[0]->version = 21;
  return 0;
}

// The value of that name in that scope has the type that `text` says.
static void expect_in(struct indexed *f, int scope, const char *name, const char *text) {
  char is[TYPE_TEXT_SIZE];
  int v = graph_lookup(&f->g, scope, name);
  assert_true(v >= 0);
  type_text(f->g.values[v].type, is);
  if (strcmp(is, text) != 0)
    fail_msg("%s is %s, not %s", name, is, text);
}

static void expect(struct indexed *f, const char *name, const char *text) {
  expect_in(f, 0, name, text);
}

// ---- operators ----

static void type_variables_bind_to_inputs(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float16[2]");
  build_input(b, "i", "int32[2]");
  build_node(b, "Relu", "x", "a");
  build_node(b, "Shape", "a", "s");
  build_node(b, "Equal", "i i", "e");
  build_node(b, "Where", "e a x", "w");
  build_node(b, "TopK", "a s", "values indices");
  build_node(b, "Split", "x", "p q r");
  index_model(f);
  expect(f, "a", "float16");
  expect(f, "s", "int64");
  expect(f, "e", "bool");
  expect(f, "w", "float16");
  expect(f, "values", "float16");
  expect(f, "indices", "int64");
  expect(f, "r", "float16");
}

static void attributes_decide_output_types(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[2]");
  build_input(b, "s", "int64[1]");
  build_input(b, "z", "uint8[]");
  build_int(b, build_node(b, "Cast", "x", "c"), "to", 10);
  build_node(b, "ConstantOfShape", "s", "zero");
  build_tensor_attribute(b, build_node(b, "ConstantOfShape", "s", "half"), "value",
                         build_tensor(b, "", "bfloat16[1]", NULL, 2));
  build_int(b, build_node(b, "RandomNormalLike", "x", "r"), "dtype", 11);
  build_node(b, "RandomNormalLike", "c", "same");
  build_node(b, "QuantizeLinear", "x x", "q");
  build_int(b, build_node(b, "QuantizeLinear", "x x", "q16"), "output_dtype", 4);
  build_float(b, build_node(b, "Constant", "", "k"), "value_float", 1);
  build_float_list(b, build_node(b, "Constant", "", "none"), "value_floats", NULL, 0);
  build_node(b, "EyeLike", "c", "eye");
  build_node(b, "CastLike", "x z", "like");
  index_model(f);
  expect(f, "c", "float16");
  expect(f, "zero", "float");
  expect(f, "half", "bfloat16");
  expect(f, "r", "double");
  expect(f, "same", "float16");
  expect(f, "q", "uint8");
  expect(f, "q16", "uint16");
  expect(f, "k", "float");
  expect(f, "none", "float");
  expect(f, "eye", "float16");
  expect(f, "like", "uint8");
}

// Found by fuzz_graph: `declared` in the table was taken for an attribute of that name.
static void declarations_decide_where_the_table_says_so(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_opset(b, "com.microsoft", 1);
  build_input(b, "x", "float16[1,2,2]");
  build_node(b, "com.microsoft.MultiHeadAttention", "x x x", "y _ _ scores");
  build_node(b, "com.microsoft.MultiHeadAttention", "x x x", "z _ _ wide");
  build_value_info(b, "wide", "float[1,1,2,2]");
  index_model(f);
  expect(f, "scores", "float16");
  expect(f, "wide", "float");
  for (int n = 0; n < f->g.n_nodes; n++)
    assert_int_equal(f->g.nodes[n].schema->n_type_attributes, 0);
}

static void containers_carry_their_element_type(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float16[2]");
  build_input(b, "i", "int64[]");
  build_input(b, "o", "optional(seq(float))");
  build_node(b, "SequenceConstruct", "x x", "s");
  build_node(b, "SequenceAt", "s i", "e");
  build_node(b, "SplitToSequence", "x", "p");
  build_node(b, "ConcatFromSequence", "p", "c");
  build_int(b, build_node(b, "SequenceEmpty", "", "n"), "dtype", 11);
  build_node(b, "SequenceEmpty", "", "nf");
  build_node(b, "SequenceInsert", "s e", "s2");
  build_node(b, "Optional", "s", "os");
  build_node(b, "OptionalGetElement", "os", "back");
  build_node(b, "OptionalGetElement", "o", "plain");
  build_node(b, "OptionalGetElement", "x", "tensor");
  build_node(b, "OptionalHasElement", "o", "has");
  index_model(f);
  expect(f, "s", "seq(float16)");
  expect(f, "e", "float16");
  expect(f, "p", "seq(float16)");
  expect(f, "c", "float16");
  expect(f, "n", "seq(double)");
  expect(f, "nf", "seq(float)");
  expect(f, "s2", "seq(float16)");
  expect(f, "os", "optional(seq(float16))");
  expect(f, "back", "seq(float16)");
  expect(f, "plain", "seq(float)");
  expect(f, "tensor", "float16");
  expect(f, "has", "bool");
}

static void a_type_that_the_schema_forbids_is_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "int64[2]");
  build_node(&f->b, "Sigmoid", "x", "y")->name = "bad";
  refuse(f, "is int64");
  assert_string_equal(f->d.node, "bad");
  assert_string_equal(f->d.tensor, "x");
  assert_non_null(strstr(f->d.message, "float16"));
}

static void inputs_of_one_variable_must_agree(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_input(&f->b, "y", "float16[2]");
  build_node(&f->b, "Add", "x y", "z")->name = "mixed";
  refuse(f, "must be float");
  assert_string_equal(f->d.tensor, "y");
  assert_string_equal(f->d.node, "mixed");
}

static void a_bfloat16_before_its_opset_is_refused(void **state) {
  struct indexed *f = *state;
  f->b.model->opset_import[0]->version = 11;
  build_input(&f->b, "x", "bfloat16[2]");
  build_node(&f->b, "Add", "x x", "y");
  refuse(f, "bfloat16");
}

static void missing_inputs_are_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Add", "x", "z");
  refuse(f, "missing");
}

static void surplus_inputs_are_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Relu", "x x", "z");
  refuse(f, "at most 1");
}

static void a_constant_may_have_any_type_in_any_opset(void **state) {
  struct indexed *f = *state;
  f->b.model->opset_import[0]->version = 5;
  build_tensor_attribute(&f->b, build_node(&f->b, "Constant", "", "k"), "value",
                         build_tensor(&f->b, "", "int64[1]", NULL, 8));
  index_model(f);
  expect(f, "k", "int64");
}

// ---- declarations ----

static void a_declared_output_that_contradicts_is_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Relu", "x", "y");
  build_output(&f->b, "y", "float16[2]");
  refuse(f, "declared float16 but is float");
  assert_string_equal(f->d.tensor, "y");
}

static void wrong_value_info_is_ignored_with_a_warning(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Relu", "x", "a");
  build_node(&f->b, "Relu", "a", "y");
  build_value_info(&f->b, "a", "float16[2]");
  build_output(&f->b, "y", "float[2]");
  index_model(f);
  expect(f, "a", "float");
  expect(f, "y", "float");
  assert_int_equal(f->warnings, 1);
}

static void value_info_tells_what_an_unknown_operator_gives(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Mystery", "x", "a b c");
  build_node(&f->b, "Relu", "a", "y");
  build_value_info(&f->b, "a", "float16[2]");
  build_value_info(&f->b, "b", "undefined[2]");
  build_output(&f->b, "y", "");
  build_output(&f->b, "c", "int64");
  index_model(f);
  expect(f, "a", "float16");
  expect(f, "b", "unknown");
  expect(f, "c", "int64");
  expect(f, "y", "float16");
}

static void an_unknown_type_is_no_error(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Mystery", "x", "a");
  build_node(&f->b, "Add", "a x", "y");
  build_node(&f->b, "Relu", "a", "z");
  index_model(f);
  expect(f, "a", "unknown");
  expect(f, "y", "float");
  expect(f, "z", "unknown");
}

static void an_input_whose_default_has_another_type_is_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "w", "float[1]");
  build_raw(&f->b, "w", "float16[1]", "\0", 2);
  build_node(&f->b, "Relu", "w", "y");
  refuse(f, "initializer holds float16");
  assert_string_equal(f->d.tensor, "w");
}

static void an_input_without_a_type_is_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "undefined[1]");
  build_node(&f->b, "Relu", "x", "y");
  refuse(f, "without an element type");
}

static void a_wrongly_declared_constant_output_is_tolerated(void **state) {
  struct indexed *f = *state;
  build_int(&f->b, build_node(&f->b, "Constant", "", "k"), "value_int", 0);
  build_output(&f->b, "k", "bool[]");
  index_model(f);
  expect(f, "k", "int64");
  assert_int_equal(f->warnings, 1);
}

// ---- If, Loop, Scan, SequenceMap, others ----

static void branch(struct build *b, Onnx__NodeProto *n, const char *name, const char *op,
                   const char *declared) {
  build_graph_begin(b, n, name);
  Onnx__NodeProto *made = build_node(b, op, "x", "t");
  if (strcmp(op, "Cast") == 0)
    build_int(b, made, "to", 10);
  build_output(b, "t", declared);
  build_graph_end(b);
}

static void an_if_has_the_types_of_its_branches(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "c", "bool[]");
  build_input(b, "x", "float16[2]");
  Onnx__NodeProto *n = build_node(b, "If", "c", "y");
  branch(b, n, "else_branch", "Abs", "");
  branch(b, n, "then_branch", "Mystery", "");
  index_model(f);
  expect(f, "y", "float16");
}

static void branches_that_disagree_are_refused(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "c", "bool[]");
  build_input(b, "x", "float[2]");
  Onnx__NodeProto *n = build_node(b, "If", "c", "y");
  branch(b, n, "then_branch", "Abs", "");
  branch(b, n, "else_branch", "Cast", "");
  refuse(f, "in one branch and");
  assert_string_equal(f->d.tensor, "y");
}

// A Loop over the state x of float16; `op` makes the new state; formals declare `declared`.
static void build_loop(struct build *b, const char *op, const char *declared) {
  build_input(b, "n", "int64[]");
  build_input(b, "x", "float16[2]");
  Onnx__NodeProto *n = build_node(b, "Loop", "n _ x", "y ys");
  build_graph_begin(b, n, "body");
  build_input(b, "i", "");
  build_input(b, "go", "");
  build_input(b, "s", declared);
  build_node(b, "Identity", "go", "again");
  Onnx__NodeProto *made = build_node(b, op, "s", "s2");
  if (strcmp(op, "Cast") == 0)
    build_int(b, made, "to", 1);
  build_node(b, "Shape", "s", "shape");
  build_output(b, "again", "bool");
  build_output(b, "s2", "");
  build_output(b, "shape", "");
  build_graph_end(b);
}

static void loop_bodies_get_their_types_from_the_loop(void **state) {
  struct indexed *f = *state;
  build_loop(&f->b, "Relu", "");
  index_model(f);
  expect_in(f, 1, "i", "int64");
  expect_in(f, 1, "go", "bool");
  expect_in(f, 1, "s", "float16");
  expect(f, "y", "float16");
  expect(f, "ys", "int64");
}

static void loop_state_that_changes_type_is_refused(void **state) {
  struct indexed *f = *state;
  build_loop(&f->b, "Cast", "float16");
  refuse(f, "loop state");
  assert_string_equal(f->d.tensor, "x");
}

static void a_loop_formal_declared_otherwise_is_refused(void **state) {
  struct indexed *f = *state;
  build_loop(&f->b, "Relu", "float[2]");
  refuse(f, "is declared float but gets float16");
  assert_string_equal(f->d.tensor, "#0.body::s");
}

static void build_scan(struct build *b, int opset, const char *inputs) {
  b->model->opset_import[0]->version = opset;
  build_input(b, "x", "float16[2]");
  build_input(b, "xs", "int32[1,2]");
  Onnx__NodeProto *n = build_node(b, "Scan", inputs, "y ys");
  build_int(b, n, "num_scan_inputs", 1);
  build_graph_begin(b, n, "body");
  build_input(b, "s", "");
  build_input(b, "one", "");
  build_input(b, "w", "float[1]");  // an initializer that is listed, as old files do
  build_floats(b, "w", "float[1]", (float[]){1});
  build_node(b, "Identity", "s", "s2");
  build_node(b, "Identity", "one", "one2");
  build_output(b, "s2", "");
  build_output(b, "one2", "");
  build_graph_end(b);
}

static void scan_bodies_get_their_types_from_the_scan(void **state) {
  struct indexed *f = *state;
  build_scan(&f->b, 11, "x xs");
  index_model(f);
  expect_in(f, 1, "s", "float16");
  expect_in(f, 1, "one", "int32");
  expect_in(f, 1, "w", "float");
  expect(f, "y", "float16");
  expect(f, "ys", "int32");
}

static void the_first_scan_has_sequence_lengths_in_front(void **state) {
  struct indexed *f = *state;
  build_scan(&f->b, 8, "_ x xs");
  index_model(f);
  expect_in(f, 1, "s", "float16");
  expect(f, "ys", "int32");
}

static void sequence_map_bodies_see_the_elements(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "s", "seq(float)");
  build_input(b, "x", "float[2]");
  Onnx__NodeProto *n = build_node(b, "SequenceMap", "s x", "y shapes");
  build_graph_begin(b, n, "body");
  build_input(b, "e", "");
  build_input(b, "k", "");
  build_node(b, "Add", "e k", "sum");
  build_node(b, "Shape", "e", "shape");
  build_output(b, "sum", "");
  build_output(b, "shape", "");
  build_graph_end(b);
  index_model(f);
  expect_in(f, 1, "e", "float");
  expect(f, "y", "seq(float)");
  expect(f, "shapes", "seq(int64)");
}

static void bodies_of_other_operators_have_the_declared_types(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_opset(b, "com.example", 1);
  build_input(b, "x", "float[2]");
  Onnx__NodeProto *n = build_node(b, "com.example.Search", "x", "y");
  build_graph_begin(b, n, "decoder");
  build_input(b, "ids", "int32[1]");
  build_input(b, "state", "float16[1]");
  build_node(b, "Relu", "state", "t");
  build_node(b, "Add", "x x", "captured");
  build_output(b, "t", "");
  build_graph_end(b);
  index_model(f);
  expect_in(f, 1, "ids", "int32");
  expect_in(f, 1, "t", "float16");
  expect_in(f, 1, "captured", "float");
}

// ---- functions ----

static void build_twice(struct build *b) {
  build_function_begin(b, "local", "Twice", "a", "r", "");
  build_node(b, "Add", "a a", "t");
  build_node(b, "Relu", "t", "r");
  build_function_end(b);
}

static void a_function_gets_the_types_of_its_call(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float16[2]");
  build_node(&f->b, "local.Twice", "x", "y");
  build_node(&f->b, "local.Twice", "y", "z");
  build_twice(&f->b);
  index_model(f);
  expect(f, "z", "float16");
  expect_in(f, 1, "a", "float16");
  expect_in(f, 1, "t", "float16");
  assert_false(f->g.scopes[1].polymorphic);
}

static void a_function_called_with_two_types_is_polymorphic(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float16[2]");
  build_input(&f->b, "w", "float[2]");
  build_node(&f->b, "local.Twice", "x", "y");
  build_node(&f->b, "local.Twice", "w", "z");
  build_twice(&f->b);
  index_model(f);
  expect(f, "y", "float16");
  expect(f, "z", "float");
  assert_true(f->g.scopes[1].polymorphic);
  expect_in(f, 1, "t", "unknown");
  expect_in(f, 1, "a", "unknown");
}

static void an_absent_argument_makes_no_function_polymorphic(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[2]");
  build_node(b, "local.F", "x", "y");
  build_node(b, "local.F", "x x", "z");
  build_function_begin(b, "local", "F", "a low", "r", "");
  build_node(b, "Clip", "a low", "r");
  build_function_end(b);
  index_model(f);
  assert_false(f->g.scopes[1].polymorphic);
  expect_in(f, 1, "low", "float");
  expect_in(f, 1, "r", "float");
}

// Engines put an empty name in its place. What Clip needs may not be absent, through two calls
// either.
static void an_argument_that_a_function_needs_is_missed(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[2]");
  build_node(b, "local.Outer", "x x", "z");
  build_node(b, "local.Outer", "_ x", "y");
  build_function_begin(b, "local", "Outer", "c d", "r", "");
  build_opset(b, "local", 1);
  build_node(b, "local.F", "c d", "r");
  build_function_end(b);
  build_function_begin(b, "local", "F", "a low", "r", "");
  build_node(b, "Clip", "a low", "r");
  build_function_end(b);
  refuse(f, "is input 0 (input) of Clip, and a call of the function leaves it out");
}

static void attribute_references_are_resolved_from_the_call(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[2]");
  build_int(b, build_node(b, "local.Outer", "x", "y"), "kind", 10);
  build_int(b, build_node(b, "local.Inner", "x", "z"), "to", 11);
  build_node(b, "local.Inner", "x", "by_default");
  Onnx__FunctionProto *outer = build_function_begin(b, "local", "Outer", "a", "r", "kind");
  build_opset(b, "local", 1);
  build_reference(b, build_node(b, "local.Inner", "a", "r"), "to", "kind",
                  ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  build_function_end(b);
  assert_non_null(outer);
  Onnx__FunctionProto *inner = build_function_begin(b, "local", "Inner", "a", "r", "");
  build_reference(b, build_node(b, "Cast", "a", "r"), "to", "to",
                  ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  build_function_end(b);
  // A default: uint8.
  Onnx__NodeProto holder;
  onnx__node_proto__init(&holder);
  inner->attribute_proto = (Onnx__AttributeProto *[]){build_int(b, &holder, "to", 2)};
  inner->n_attribute_proto = 1;
  index_model(f);
  expect(f, "y", "float16");
  expect(f, "z", "double");
  expect(f, "by_default", "uint8");
  assert_true(f->g.scopes[2].polymorphic);
  assert_false(f->g.scopes[1].polymorphic);
}

static void attributes_that_decide_no_type_make_no_signature(void **state) {
  enum { CALLS = 500 };
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[2]");
  for (int i = 0; i < CALLS; i++)
    build_float(b, build_node(b, "local.F", "x", arena_printf(&f->arena, "y%d", i)), "alpha",
                (float)i);
  build_function_begin(b, "local", "F", "a", "r", "alpha");
  build_reference(b, build_node(b, "LeakyRelu", "a", "r"), "alpha", "alpha",
                  ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  build_function_end(b);
  index_model(f);
  expect(f, "y499", "float");
  assert_false(f->g.scopes[1].polymorphic);
  assert_int_equal(f->warnings, 0);
}

static void captures_end_at_the_function(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "local.F", "x", "y");
  build_function_begin(&f->b, "local", "F", "a", "r", "");
  build_node(&f->b, "Add", "a x", "r");
  build_function_end(&f->b);
  refuse(f, "nothing defines it");
}

static void a_fault_in_a_function_names_the_place(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "int64[2]");
  build_node(&f->b, "local.F", "x", "y");
  build_function_begin(&f->b, "local", "F", "a", "r", "");
  build_node(&f->b, "Sigmoid", "a", "r");
  build_function_end(&f->b);
  refuse(f, "is int64");
  assert_string_equal(f->d.node, "fn:local.F::#0(Sigmoid)");
}

static void an_uncalled_function_is_no_reason_to_refuse(void **state) {
  struct indexed *f = *state;
  build_function_begin(&f->b, "local", "F", "a", "r k", "");
  build_node(&f->b, "Shape", "a", "r");
  build_node(&f->b, "Add", "r p", "k");
  build_float(&f->b, build_node(&f->b, "Constant", "", "p"), "value_float", 1);
  build_function_end(&f->b);
  index_model(f);
  expect_in(f, 1, "r", "int64");
}

static void too_many_arguments_are_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "local.Twice", "x x", "y");
  build_twice(&f->b);
  refuse(f, "but the call has");
}

// F0 calls F1 twice, F1 calls F2 twice ...: 2^60 calls if each were followed.
static void calls_that_double_take_no_time(void **state) {
  enum { LEVELS = 60 };
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[2]");
  build_node(b, "local.F0", "x", "y");
  for (int i = 0; i < LEVELS; i++) {
    build_function_begin(b, "local", arena_printf(&f->arena, "F%d", i), "a", "r", "");
    build_opset(b, "local", 1);
    const char *next = i + 1 < LEVELS ? arena_printf(&f->arena, "local.F%d", i + 1) : "Relu";
    build_node(b, next, "a", "t");
    build_node(b, next, "t", "r");
    build_function_end(b);
  }
  clock_t start = clock();
  index_model(f);
  assert_true(clock() - start < CLOCKS_PER_SEC);
  expect(f, "y", "float");
  expect_in(f, LEVELS, "t", "float");
}

static void a_chain_of_calls_too_deep_is_refused(void **state) {
  enum { LEVELS = 20000 };
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[2]");
  build_node(b, "local.F0", "x", "y");
  for (int i = 0; i < LEVELS; i++) {
    build_function_begin(b, "local", arena_printf(&f->arena, "F%d", i), "a", "r", "");
    build_node(b, i + 1 < LEVELS ? arena_printf(&f->arena, "local.F%d", i + 1) : "Relu", "a", "r");
    build_function_end(b);
  }
  refuse(f, "deep");
}

static void many_signatures_leave_types_open(void **state) {
  static const char *const types[] = {"float", "float16", "double", "int32", "int64", "uint8"};
  struct indexed *f = *state;
  struct build *b = &f->b;
  enum { TYPES = sizeof types / sizeof types[0] };
  for (int i = 0; i < TYPES; i++)
    build_input(b, arena_printf(&f->arena, "x%d", i), arena_printf(&f->arena, "%s[1]", types[i]));
  for (int i = 0; i < TYPES * TYPES * TYPES; i++)
    build_node(
        b, "local.F",
        arena_printf(&f->arena, "x%d x%d x%d", i % TYPES, i / TYPES % TYPES, i / TYPES / TYPES),
        arena_printf(&f->arena, "y%d", i));
  build_function_begin(b, "local", "F", "a b c", "r", "");
  build_node(b, "Identity", "a", "r");
  build_function_end(b);
  index_model(f);
  expect(f, "y1", "float16");
  expect(f, "y215", "unknown");
  assert_true(f->g.scopes[1].polymorphic);
  assert_int_equal(f->warnings, 1);
}

// ---- real models ----

static void check_declared(const struct graph *g, const char *path) {
  for (int v = 0; v < g->n_values; v++) {
    const struct value *value = &g->values[v];
    const char *label = graph_value_label(g, v);
    if (value->declared.kind != TYPE_UNKNOWN && value->type.kind != TYPE_UNKNOWN &&
        !type_equal(value->declared, value->type))
      fail_msg("%s: %s is not what it is declared", path, label);
    // Nothing tells the arguments of a function that nobody calls.
    bool open = g->scopes[g->scopes[value->scope].root].kind == SCOPE_FUNCTION;
    if (value->type.kind == TYPE_UNKNOWN && !open)
      fail_msg("%s: %s has no type", path, label);
  }
}

static size_t check_files(const char *pattern) {
  glob_t files;
  if (glob(pattern, 0, NULL, &files) != 0)
    return 0;
  for (size_t i = 0; i < files.gl_pathc; i++) {
    struct arena a = {0};
    struct model m = {0};
    struct graph g;
    struct diag d = {0};
    if (model_load(&m, &a, files.gl_pathv[i], NULL, &d) != STATUS_OK ||
        graph_build(&g, &m, &indexed_schemas, &a, &d) != STATUS_OK)
      fail_msg("%s: node %s, tensor %s: %s", files.gl_pathv[i], d.node, d.tensor, d.message);
    check_declared(&g, files.gl_pathv[i]);
    model_close(&m);
    arena_free(&a);
  }
  size_t count = files.gl_pathc;
  globfree(&files);
  return count;
}

static void our_own_models_get_all_types(void **state) {
  (void)state;
  assert_true(check_files(SOURCE_DIR "/models/*/*.onnx") > 0);
}

static void the_operator_test_models_get_all_types(void **state) {
  (void)state;
  if (check_files("/usr/share/libonnx-testdata/data/*/*/model.onnx") == 0)
    skip();  // the package libonnx-testdata is not installed
}

static void real_models_get_all_types(void **state) {
  (void)state;
  const char *folder = getenv("NARROWCAST_MODELS");
  char pattern[4096];
  if (!folder)
    skip();
  snprintf(pattern, sizeof pattern, "%s/*/model.onnx", folder);
  assert_true(check_files(pattern) > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, indexed_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(type_variables_bind_to_inputs),
      TEST(attributes_decide_output_types),
      TEST(declarations_decide_where_the_table_says_so),
      TEST(containers_carry_their_element_type),
      TEST(a_type_that_the_schema_forbids_is_refused),
      TEST(inputs_of_one_variable_must_agree),
      TEST(a_bfloat16_before_its_opset_is_refused),
      TEST(missing_inputs_are_refused),
      TEST(surplus_inputs_are_refused),
      TEST(a_constant_may_have_any_type_in_any_opset),
      TEST(a_declared_output_that_contradicts_is_refused),
      TEST(wrong_value_info_is_ignored_with_a_warning),
      TEST(value_info_tells_what_an_unknown_operator_gives),
      TEST(an_unknown_type_is_no_error),
      TEST(an_input_whose_default_has_another_type_is_refused),
      TEST(an_input_without_a_type_is_refused),
      TEST(a_wrongly_declared_constant_output_is_tolerated),
      TEST(an_if_has_the_types_of_its_branches),
      TEST(branches_that_disagree_are_refused),
      TEST(loop_bodies_get_their_types_from_the_loop),
      TEST(loop_state_that_changes_type_is_refused),
      TEST(a_loop_formal_declared_otherwise_is_refused),
      TEST(scan_bodies_get_their_types_from_the_scan),
      TEST(the_first_scan_has_sequence_lengths_in_front),
      TEST(sequence_map_bodies_see_the_elements),
      TEST(bodies_of_other_operators_have_the_declared_types),
      TEST(a_function_gets_the_types_of_its_call),
      TEST(a_function_called_with_two_types_is_polymorphic),
      TEST(an_absent_argument_makes_no_function_polymorphic),
      TEST(an_argument_that_a_function_needs_is_missed),
      TEST(attribute_references_are_resolved_from_the_call),
      TEST(attributes_that_decide_no_type_make_no_signature),
      TEST(captures_end_at_the_function),
      TEST(a_fault_in_a_function_names_the_place),
      TEST(an_uncalled_function_is_no_reason_to_refuse),
      TEST(too_many_arguments_are_refused),
      TEST(calls_that_double_take_no_time),
      TEST(a_chain_of_calls_too_deep_is_refused),
      TEST(many_signatures_leave_types_open),
      cmocka_unit_test(our_own_models_get_all_types),
      cmocka_unit_test(the_operator_test_models_get_all_types),
      cmocka_unit_test(real_models_get_all_types),
  };
  return cmocka_run_group_tests(tests, indexed_load_schemas, indexed_free_schemas);
}
