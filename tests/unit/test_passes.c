// passes: where Casts go and which names they leave, in every kind of scope; what the interface,
// declarations and metadata say afterwards; that what needs no change gets none.
#include "support_plan.h"

#include "check.h"
#include "tensor.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7, FLOAT16 = 10, DOUBLE = 11, BFLOAT16 = 16 };

static void input_and_weights(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
}

// Operators of a scope of the rewritten model, in the order of the file.
static void expect_order(struct planning *f, const char *scope, const char *wanted) {
  char text[400] = "";
  for (int s = 0; s < f->emitted.n_scopes; s++)
    for (int i = 0;
         strcmp(f->emitted.scopes[s].path, scope) == 0 && i < f->emitted.scopes[s].n_nodes; i++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
               f->emitted.nodes[f->emitted.scopes[s].nodes[i]].proto->op_type);
  assert_string_equal(text, wanted);
}

static const Onnx__ValueInfoProto *declared(Onnx__ValueInfoProto **list, size_t count,
                                            const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i]->name, name) == 0)
      return list[i];
  return NULL;
}

static int declared_type(const struct planning *f, const char *name) {
  const Onnx__GraphProto *g = f->changed.proto->graph;
  const Onnx__ValueInfoProto *info = declared(g->input, g->n_input, name);
  info = info ? info : declared(g->output, g->n_output, name);
  info = info ? info : declared(g->value_info, g->n_value_info, name);
  assert_non_null(info);
  return info->type->tensor_type->elem_type;
}

// ---- Casts ----

static void rewrite_makes_one_cast_per_value_and_format(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "x x", "b");
  build_node(&f->b, "MatMul", "w x", "c");
  build_node(&f->b, "Exp", "a", "e1");
  build_node(&f->b, "Log", "a", "e2");
  build_output(&f->b, "b", "float[2,2]");
  build_output(&f->b, "c", "float[2,2]");
  build_output(&f->b, "e1", "float[2,2]");
  build_output(&f->b, "e2", "float[2,2]");
  planning_all(f);
  // x once, right at the start; a once, right behind its producer; b and c as outputs.
  expect_order(f, "", "Cast MatMul Cast MatMul Cast MatMul Cast Exp Log");
  assert_int_equal(f->report.casts, 4);
  const Onnx__NodeProto *a = emitted_node(f, "a");
  same_list(a->input, a->n_input, "x__fp16 w");
  const Onnx__NodeProto *e = emitted_node(f, "e1");
  same_list(e->input, e->n_input, "a__fp32");
  assert_int_equal(emitted_type(f, "a"), FLOAT16);
  assert_int_equal(emitted_type(f, "e1"), FLOAT);
}

static void rewrite_casts_between_two_narrow_formats(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "a w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_see(f, "y", (float[]){1e6f}, 1);
  planning_rewrite(f);
  assert_int_equal(emitted_type(f, "a"), FLOAT16);
  assert_int_equal(emitted_type(f, "a__bf16"), BFLOAT16);
  assert_int_equal(f->report.narrow_initializers, 2);
  assert_int_equal(emitted_initializer(f, "w")->data_type, BFLOAT16);
  assert_int_equal(emitted_initializer(f, "w__fp16")->data_type, FLOAT16);
}

static void rewrite_keeps_the_name_of_an_output_for_what_is_given_out(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "h", "float[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_type(f, "h"), FLOAT);
  assert_int_equal(emitted_type(f, "h__fp16"), FLOAT16);
  const Onnx__NodeProto *y = emitted_node(f, "y__fp16");  // reads it narrow
  same_list(y->input, y->n_input, "h__fp16 w");
  expect_order(f, "", "Cast MatMul Cast MatMul Cast");
}

static void rewrite_takes_an_output_that_is_listed_twice(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->report.casts, 2);
  assert_int_equal(f->changed.proto->graph->n_output, 2);
  assert_int_equal(emitted_type(f, "y"), FLOAT);
}

static void rewrite_takes_outputs_that_are_inputs_or_initializers(void **state) {
  struct planning *f = *state;
  f->policy.narrow_inputs = true;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "x", "float[2,2]");
  build_output(&f->b, "w", "float[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_type(f, "x"), FLOAT);
  assert_int_equal(emitted_type(f, "w"), FLOAT);
  assert_int_equal(emitted_initializer(f, "w__fp16")->data_type, FLOAT16);
}

// ---- scopes ----

static void rewrite_casts_a_captured_value_in_its_own_scope(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "Exp", "x", "h");
  Onnx__NodeProto *outer = build_node(&f->b, "If", "c", "y");
  outer->name = (char[]){"outer"};
  build_graph_begin(&f->b, outer, "then_branch");
  build_node(&f->b, "MatMul", "h w", "t");  // captured one level down
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, outer, "else_branch");
  Onnx__NodeProto *inner = build_node(&f->b, "If", "c", "e");
  inner->name = (char[]){"inner"};
  build_graph_begin(&f->b, inner, "then_branch");
  build_node(&f->b, "MatMul", "h w", "p");  // two levels down
  build_output(&f->b, "p", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, inner, "else_branch");
  build_node(&f->b, "Exp", "h", "q");
  build_output(&f->b, "q", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  expect_order(f, "", "Exp Cast If");
  expect_order(f, "outer.then_branch", "MatMul Cast");
  expect_order(f, "outer.else_branch", "If");
  expect_order(f, "outer.else_branch/inner.then_branch", "MatMul Cast");
  expect_order(f, "outer.else_branch/inner.else_branch", "Exp");
  assert_int_equal(emitted_type(f, "h__fp16"), FLOAT16);
  // Both branches give out the same type still, under the names that they had.
  assert_int_equal(emitted_type(f, "outer.then_branch::t"), FLOAT);
  assert_int_equal(emitted_initializer(f, "w")->data_type, FLOAT16);
}

// The state comes in as fp32, is cast in the body, and goes out as fp32: one type all around.
static void rewrite_keeps_the_type_of_loop_state(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_int64s(&f->b, "trips", "int64[]", (int64_t[]){3});
  Onnx__NodeProto *loop = build_node(&f->b, "Loop", "trips _ x", "y");
  build_graph_begin(&f->b, loop, "body");
  build_input(&f->b, "i", "int64[]");
  build_input(&f->b, "keep_in", "bool[]");
  build_input(&f->b, "s", "float[2,2]");
  build_node(&f->b, "Identity", "keep_in", "keep");
  build_node(&f->b, "MatMul", "s w", "next");
  build_output(&f->b, "keep", "bool[]");
  build_output(&f->b, "next", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  expect_order(f, "", "Loop");
  expect_order(f, "#0.body", "Cast Identity MatMul Cast");
  assert_int_equal(emitted_type(f, "#0.body::s"), FLOAT);
  assert_int_equal(emitted_type(f, "#0.body::s__fp16"), FLOAT16);
  assert_int_equal(emitted_type(f, "#0.body::next"), FLOAT);
  assert_int_equal(emitted_type(f, "y"), FLOAT);
  same_list(emitted_node(f, "y")->input, 3, "trips _ x");  // the empty input stays
}

static void rewrite_tells_shadowing_names_apart(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "Exp", "x", "h");
  build_node(&f->b, "MatMul", "h w", "a");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  branch->name = (char[]){"if"};
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "Log", "a", "h");  // hides the outer h
  build_node(&f->b, "MatMul", "h w", "t");
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "MatMul", "h w", "t");  // the outer one
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  const Onnx__NodeProto *a = emitted_node(f, "a");
  const Onnx__NodeProto *t = emitted_node(f, "if.then_branch::t__fp16");
  const Onnx__NodeProto *e = emitted_node(f, "if.else_branch::t__fp16_2");
  same_list(a->input, 2, "h__fp16 w");
  same_list(t->input, 2, "h__fp16_2 w");
  same_list(e->input, 2, "h__fp16 w");
}

static void rewrite_puts_casts_into_function_bodies(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "local", 1);
  Onnx__FunctionProto *function = build_function_begin(&f->b, "local", "Square", "a", "b", "");
  build_node(&f->b, "MatMul", "a a", "b");
  build_function_end(&f->b);
  input_and_weights(f);
  build_node(&f->b, "local.Square", "x", "h");
  build_node(&f->b, "local.Square", "h", "y");
  build_output(&f->b, "y", "float[2,2]");
  assert_int_equal(function->n_opset_import, 1);
  planning_all(f);
  expect_order(f, "", "Square Square");
  expect_order(f, "fn:local.Square", "Cast MatMul Cast");
  assert_int_equal(emitted_type(f, "h"), FLOAT);
  function = f->changed.proto->functions[0];
  same_list(function->input, function->n_input, "a");
  same_list(function->output, function->n_output, "b");
  assert_int_equal(function->n_opset_import, 1);  // was there: not twice
}

// A body of com.microsoft nodes alone imports only that; a Cast needs ai.onnx.
static void rewrite_imports_the_operators_it_adds(void **state) {
  struct planning *f = *state;
  static const char *fused[] = {"com.microsoft:FusedMatMul", NULL};
  struct rule *rules = arena_array(&f->arena, 5, sizeof *rules);
  memcpy(rules + 1, f->policy.rules, 4 * sizeof *rules);
  rules[0] = (struct rule){.id = "fused", .op_globs = fused, .class = CLASS_NARROW, .why = "w"};
  f->policy.rules = rules;
  f->policy.n_rules = 5;
  build_opset(&f->b, "local", 1);
  build_opset(&f->b, "com.microsoft", 1);
  Onnx__FunctionProto *function = build_function_begin(&f->b, "local", "Square", "a", "b", "");
  function->opset_import[0]->domain = (char[]){"com.microsoft"};
  function->opset_import[0]->version = 1;
  build_node(&f->b, "com.microsoft.FusedMatMul", "a a", "b");
  build_function_end(&f->b);
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "local.Square", "x", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  expect_order(f, "fn:local.Square", "Cast FusedMatMul Cast");
  function = f->changed.proto->functions[0];
  assert_int_equal(function->n_opset_import, 2);
  assert_string_equal(function->opset_import[1]->domain, "");
  assert_int_equal(function->opset_import[1]->version, 17);
}

// ---- names and order ----

static void rewrite_makes_names_that_are_new_in_every_scope(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_input(&f->b, "c", "bool[]");
  build_input(&f->b, "x__fp16", "int64[]");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "z");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "Exp", "x", "x__fp16_2");
  build_output(&f->b, "x__fp16_2", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Log", "x", "l")->name = (char[]){"x__fp16_3"};
  build_output(&f->b, "l", "float[2,2]");
  build_graph_end(&f->b);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "z", "float[2,2]");
  planning_all(f);
  const Onnx__NodeProto *y = emitted_node(f, "y__fp16");
  same_list(y->input, y->n_input, "x__fp16_4 w");
  assert_int_equal(emitted_type(f, "x__fp16"), INT64);
}

static void rewrite_takes_unnamed_and_equally_named_nodes(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a")->name = (char[]){"same"};
  build_node(&f->b, "MatMul", "a w", "b")->name = (char[]){"same"};
  build_node(&f->b, "MatMul", "b w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_string_equal(emitted_node(f, "a")->name, "same");
  assert_string_equal(emitted_node(f, "b")->name, "same");
  expect_order(f, "", "Cast MatMul MatMul MatMul Cast");
}

static void rewrite_emits_unsorted_nodes_sorted(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "Exp", "b", "y");
  build_node(&f->b, "MatMul", "a w", "b");
  build_node(&f->b, "MatMul", "x w", "a");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  expect_order(f, "", "Cast MatMul MatMul Cast Exp");
  struct diag d = {0};
  assert_int_equal(check_model(&f->changed, f->schemas, "rewrite", &d), STATUS_OK);
}

static void rewrite_takes_a_name_that_many_scopes_use(void **state) {
  struct planning *f = *state;
  enum { COUNT = 20000 };
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "c", "bool[]");
  for (int i = 0; i < COUNT; i++) {
    const char *y = arena_printf(&f->arena, "y%d", i);
    Onnx__NodeProto *branch = build_node(&f->b, "If", "c", y);
    for (int side = 0; side < 2; side++) {
      build_graph_begin(&f->b, branch, side ? "else_branch" : "then_branch");
      build_node(&f->b, "MatMul", "x x", "t");
      build_output(&f->b, "t", "float[2,2]");
      build_graph_end(&f->b);
    }
    build_output(&f->b, y, "float[2,2]");
  }
  planning_all(f);
  assert_int_equal(f->report.casts, 2 * COUNT + 1);
}

// ---- declarations ----

static void rewrite_corrects_value_info(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Exp", "a", "e");
  build_node(&f->b, "MatMul", "e w", "y");
  build_value_info(&f->b, "a", "float[2,2]");
  build_value_info(&f->b, "e", "float[2,2]");
  build_value_info(&f->b, "gone", "float[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(declared_type(f, "a"), FLOAT16);
  assert_int_equal(declared_type(f, "e"), FLOAT);
  assert_int_equal(declared_type(f, "y"), FLOAT);
  const Onnx__GraphProto *g = f->changed.proto->graph;
  assert_int_equal(declared(g->value_info, g->n_value_info, "a")->type->tensor_type->shape->n_dim,
                   2);
}

static void rewrite_corrects_value_info_that_was_wrong_before(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Exp", "a", "e");
  build_node(&f->b, "Shape", "e", "s");
  build_node(&f->b, "MatMul", "e w", "y");
  build_value_info(&f->b, "a", "int64[2,2]");
  build_value_info(&f->b, "e", "double[2,2]");
  build_value_info(&f->b, "s", "undefined");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(declared_type(f, "a"), FLOAT16);
  assert_int_equal(declared_type(f, "e"), FLOAT);
}

static void rewrite_narrows_the_interface_if_the_policy_says_so(void **state) {
  struct planning *f = *state;
  f->policy.narrow_inputs = f->policy.narrow_outputs = true;
  input_and_weights(f);
  build_input(&f->b, "z", "float[2,2]");
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Exp", "z", "e");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "e", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->report.casts, 0);
  assert_int_equal(declared_type(f, "x"), FLOAT16);
  assert_int_equal(declared_type(f, "y"), FLOAT16);
  assert_int_equal(declared_type(f, "z"), FLOAT);  // read wide alone
  assert_int_equal(declared_type(f, "e"), FLOAT);
  assert_int_equal(emitted_type(f, "y"), FLOAT16);
}

static void rewrite_narrows_an_input_read_by_both_only_behind_it(void **state) {
  struct planning *f = *state;
  f->policy.narrow_inputs = true;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Exp", "x", "e");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "e", "float[2,2]");
  planning_all(f);
  assert_int_equal(declared_type(f, "x"), FLOAT);
  assert_int_equal(emitted_type(f, "x__fp16"), FLOAT16);
}

static void rewrite_says_why_in_metadata(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Exp", "a", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  const Onnx__NodeProto *a = emitted_node(f, "a"), *y = emitted_node(f, "y");
  assert_int_equal(a->n_metadata_props, 1);
  assert_string_equal(a->metadata_props[0]->key, "narrowcast");
  assert_string_equal(a->metadata_props[0]->value, "fp16: rule products");
  assert_int_equal(y->n_metadata_props, 0);
  const Onnx__NodeProto *cast = emitted_node(f, "a__fp32");
  assert_string_equal(cast->metadata_props[0]->value, "added: a in fp32");
  assert_int_equal(f->changed.proto->n_metadata_props, 1);
  assert_non_null(strstr(f->changed.proto->metadata_props[0]->value, f->m.sha256));
}

static const Onnx__ValueInfoProto *info_of(const struct planning *f, const char *name) {
  const Onnx__GraphProto *graph = f->changed.proto->graph;
  const Onnx__ValueInfoProto *found = NULL;
  for (size_t i = 0; i < graph->n_value_info; i++)
    if (strcmp(graph->value_info[i]->name, name) == 0) {
      assert_null(found);  // declared once
      found = graph->value_info[i];
    }
  return found;
}

static const Onnx__TensorProto *initializer_of(const struct planning *f, const char *name) {
  const Onnx__GraphProto *graph = f->changed.proto->graph;
  for (size_t i = 0; i < graph->n_initializer; i++)
    if (strcmp(graph->initializer[i]->name, name) == 0)
      return graph->initializer[i];
  fail_msg("no initializer %s", name);
  return NULL;
}

// a is declared by the author, who described it; b is not declared; y is given out.
static void build_described(struct planning *f, int64_t ir_version) {
  static char by_author[] = "by the author";
  input_and_weights(f);
  f->b.model->ir_version = ir_version;
  build_node(&f->b, "MatMul", "x w", "a")->doc_string = by_author;
  build_value_info(&f->b, "a", "float[2,2]");
  build_node(&f->b, "MatMul", "a w", "b");
  build_node(&f->b, "MatMul", "b w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
}

static void rewrite_says_why_of_tensors_in_metadata_and_doc_strings(void **state) {
  struct planning *f = *state;
  build_described(f, 10);
  for (const char *const *name = (const char *const[]){"a", "b", "y__fp16", NULL}; *name; name++) {
    const Onnx__ValueInfoProto *info = info_of(f, *name);
    assert_non_null(info);
    assert_int_equal(info->type->tensor_type->elem_type, FLOAT16);
    assert_string_equal(info->doc_string, "narrowcast: fp16: rule products");
    assert_int_equal(info->n_metadata_props, 1);
    assert_string_equal(info->metadata_props[0]->value, "fp16: rule products");
  }
  assert_null(info_of(f, "y"));
  const Onnx__TensorProto *w = initializer_of(f, "w");
  assert_int_equal(w->n_metadata_props, 1);
  assert_string_equal(w->metadata_props[0]->value, "fp16: as all that read it take it");
  assert_string_equal(emitted_node(f, "a")->doc_string, "by the author");
}

static void rewrite_uses_doc_strings_before_ir_10_and_keeps_the_authors(void **state) {
  struct planning *f = *state;
  build_described(f, 8);
  const Onnx__NodeProto *a = emitted_node(f, "a"), *b = emitted_node(f, "b");
  assert_int_equal(a->n_metadata_props, 0);
  assert_string_equal(a->doc_string, "by the author");
  assert_int_equal(b->n_metadata_props, 0);
  assert_string_equal(b->doc_string, "narrowcast: fp16: rule products");
  assert_int_equal(info_of(f, "b")->n_metadata_props, 0);
  assert_string_equal(info_of(f, "b")->doc_string, "narrowcast: fp16: rule products");
  assert_int_equal(initializer_of(f, "w")->n_metadata_props, 0);
  assert_string_equal(initializer_of(f, "w")->doc_string,
                      "narrowcast: fp16: as all that read it take it");
}

// ---- what stays ----

static void rewrite_leaves_other_types_and_empty_inputs_alone(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,1,2,2]");
  build_floats(&f->b, "w", "float[1,1,1,1]", (float[]){2});
  build_int64s(&f->b, "sizes", "int64[4]", (int64_t[]){1, 1, 4, 4});
  build_input(&f->b, "mask", "bool[1,1,4,4]");
  build_input(&f->b, "d", "double[2]");
  build_input(&f->b, "text", "string[2]");
  build_node(&f->b, "Conv", "x w", "h");
  build_node(&f->b, "Resize", "h _ _ sizes", "r");
  build_node(&f->b, "Where", "mask r r", "m");
  build_node(&f->b, "Conv", "m w", "y");
  build_node(&f->b, "Add", "d d", "d2");
  build_node(&f->b, "Identity", "text", "t2");
  build_output(&f->b, "y", "float[1,1,4,4]");
  build_output(&f->b, "d2", "double[2]");
  build_output(&f->b, "t2", "string[2]");
  planning_all(f);
  assert_int_equal(node_format(f, "r"), FORMAT_FP16);
  same_list(emitted_node(f, "r")->input, 4, "h _ _ sizes");
  same_list(emitted_node(f, "m")->input, 3, "mask r r");
  same_list(emitted_node(f, "d2")->input, 2, "d d");
  assert_int_equal(emitted_initializer(f, "sizes")->data_type, INT64);
  assert_int_equal(emitted_type(f, "d2"), DOUBLE);
  assert_int_equal(f->report.casts, 2);
}

static void rewrite_leaves_resize_scales_and_regions_alone(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,1,2,2]");
  build_floats(&f->b, "w", "float[1,1,1,1]", (float[]){2});
  build_floats(&f->b, "roi", "float[0]", NULL);
  build_floats(&f->b, "scales", "float[4]", (float[]){1, 1, 2, 2});
  build_node(&f->b, "Conv", "x w", "h");
  build_node(&f->b, "Resize", "h roi scales", "r");
  build_node(&f->b, "Conv", "r w", "y");
  build_output(&f->b, "y", "float[1,1,4,4]");
  planning_all(f);
  assert_int_equal(emitted_type(f, "r"), FLOAT16);
  same_list(emitted_node(f, "r")->input, 3, "h roi scales");
  assert_int_equal(emitted_type(f, "roi"), FLOAT);
  assert_int_equal(emitted_type(f, "scales"), FLOAT);
}

// An fp32 island of the author's in an fp16 model, and nothing else to narrow.
static void rewrite_keeps_casts_of_the_author(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float16[2,2]");
  build_int(&f->b, build_node(&f->b, "Cast", "x", "wide"), "to", FLOAT);
  build_node(&f->b, "Exp", "wide", "e");
  build_int(&f->b, build_node(&f->b, "Cast", "e", "narrow"), "to", FLOAT16);
  build_node(&f->b, "MatMul", "narrow x", "y");
  build_output(&f->b, "y", "float16[2,2]");
  planning_index(f);
  planning_decide(f);
  assert_true(plan_is_identity(&f->p));
}

static void plan_of_a_pinned_model_is_the_identity(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "Exp", "x", "e");
  build_node(&f->b, "Add", "e w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_decide(f);
  assert_true(plan_is_identity(&f->p));
}

// What was converted once is planned again from the emitted model: nothing more gets narrow.
static void plan_of_a_converted_model_is_the_identity(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_input(&f->b, "z", "float[2,2]");
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Relu", "a", "b");
  build_node(&f->b, "Exp", "b", "c");
  build_node(&f->b, "Add", "c z", "d");
  build_node(&f->b, "MatMul", "d z", "e");
  build_node(&f->b, "Add", "e z", "g");
  build_node(&f->b, "Softmax", "g", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_false(plan_is_identity(&f->p));
  struct plan again;
  struct trace t;
  trace_init(&t, &f->emitted);
  struct stats_piece piece = {0};
  stats_observe(&piece, (float[]){1, 2}, 2, 1, 0);
  for (int v = 0; v < f->emitted.n_values; v++) {
    stats_merge_piece(&t.stats[v], &piece);
    stats_end_run(&t.stats[v], &piece, 0, 0);
  }
  assert_int_equal(plan_make(&again, &f->emitted, &t, &f->policy, NULL, &f->arena, &f->d),
                   STATUS_OK);
  for (int n = 0; n < again.n_nodes; n++)
    if (again.nodes[n].format != FORMAT_FP32)
      fail_msg("%s became narrow", graph_node_label(&f->emitted, n));
  assert_true(plan_is_identity(&again));
  trace_free(&t);
}

static void rewrite_made_twice_is_the_same(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Exp", "a", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  struct model first = f->changed;
  planning_rewrite(f);
  assert_true(same_model(f, &first, &f->changed));
  assert_false(same_model(f, &first, &f->m));  // the source is as it was
}

// Engines save models whose inner graphs declare outer values once more.
static void rewrite_drops_what_a_body_declares_of_outer_values(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_input(&f->b, "go", "bool[]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  Onnx__NodeProto *n = build_node(&f->b, "If", "go", "y");
  build_graph_begin(&f->b, n, "then_branch");
  build_value_info(&f->b, "h", "float[2,2]");
  build_node(&f->b, "MatMul", "h w", "t");
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, n, "else_branch");
  build_node(&f->b, "MatMul", "h h", "e");
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(value_format(f, "h"), FORMAT_FP16);
  for (int s = 1; s < f->emitted.n_scopes; s++)
    for (size_t i = 0; i < f->emitted.scopes[s].graph->n_value_info; i++)
      assert_string_not_equal(f->emitted.scopes[s].graph->value_info[i]->name, "h");
}

// What a sequence holds keeps its type: its users and its declarations expect it.
static void rewrite_leaves_sequences_alone(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "SequenceConstruct", "h h", "s");
  build_int(&f->b, build_node(&f->b, "ConcatFromSequence", "s", "j"), "axis", 0);
  build_node(&f->b, "Identity", "j", "y");
  build_output(&f->b, "y", "float[4,2]");
  planning_all(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_int_equal(node_format(f, "s"), FORMAT_FP32);
  assert_string_equal(reason_name(node_reason(f, "s")), "container");
  assert_int_equal(emitted_type(f, "h__fp32"), FLOAT);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(rewrite_drops_what_a_body_declares_of_outer_values),
      TEST(rewrite_leaves_sequences_alone),
      TEST(rewrite_makes_one_cast_per_value_and_format),
      TEST(rewrite_casts_between_two_narrow_formats),
      TEST(rewrite_keeps_the_name_of_an_output_for_what_is_given_out),
      TEST(rewrite_takes_an_output_that_is_listed_twice),
      TEST(rewrite_takes_outputs_that_are_inputs_or_initializers),
      TEST(rewrite_casts_a_captured_value_in_its_own_scope),
      TEST(rewrite_keeps_the_type_of_loop_state),
      TEST(rewrite_tells_shadowing_names_apart),
      TEST(rewrite_puts_casts_into_function_bodies),
      TEST(rewrite_imports_the_operators_it_adds),
      TEST(rewrite_makes_names_that_are_new_in_every_scope),
      TEST(rewrite_takes_unnamed_and_equally_named_nodes),
      TEST(rewrite_emits_unsorted_nodes_sorted),
      TEST(rewrite_takes_a_name_that_many_scopes_use),
      TEST(rewrite_corrects_value_info),
      TEST(rewrite_corrects_value_info_that_was_wrong_before),
      TEST(rewrite_narrows_the_interface_if_the_policy_says_so),
      TEST(rewrite_narrows_an_input_read_by_both_only_behind_it),
      TEST(rewrite_says_why_in_metadata),
      TEST(rewrite_says_why_of_tensors_in_metadata_and_doc_strings),
      TEST(rewrite_uses_doc_strings_before_ir_10_and_keeps_the_authors),
      TEST(rewrite_leaves_other_types_and_empty_inputs_alone),
      TEST(rewrite_leaves_resize_scales_and_regions_alone),
      TEST(rewrite_keeps_casts_of_the_author),
      TEST(plan_of_a_pinned_model_is_the_identity),
      TEST(plan_of_a_converted_model_is_the_identity),
      TEST(rewrite_made_twice_is_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
