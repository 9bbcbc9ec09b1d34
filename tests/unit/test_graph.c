// The index over a model: scopes, names, uses, order, labels, and what is refused. Types are
// tested in test_types.c.
#include "graph.h"
#include "support_index.h"
#include "types.h"

#include <string.h>
#include <time.h>

static int value(const struct indexed *f, int scope, const char *name) {
  int v = graph_lookup(&f->g, scope, name);
  assert_true(v >= 0);
  return v;
}

// x -> Relu -> y, both declared.
static void relu_model(struct indexed *f) {
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Relu", "x", "y");
  build_output(&f->b, "y", "float[2]");
}

// Opens an If on the input "c" with a branch that makes "name" from the constant 1; leaves the
// other branch open.
static Onnx__NodeProto *begin_if(struct indexed *f, const char *outputs) {
  Onnx__NodeProto *n = build_node(&f->b, "If", "c", outputs);
  build_graph_begin(&f->b, n, "else_branch");
  build_floats(&f->b, "e", "float[1]", (float[]){1});
  build_output(&f->b, "e", "float[1]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, n, "then_branch");
  return n;
}

// ---- values, nodes, uses ----

static void graph_indexes_values_producers_and_uses(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "w", "float[2]", (float[]){1, 2});
  build_node(&f->b, "Add", "x w", "a");
  build_node(&f->b, "Mul", "a a", "y");
  build_output(&f->b, "y", "float[2]");
  index_model(f);
  const struct graph *g = &f->g;
  assert_int_equal(g->n_values, 4);
  assert_int_equal(g->n_nodes, 2);
  const struct value *x = &g->values[value(f, 0, "x")], *w = &g->values[value(f, 0, "w")];
  const struct value *a = &g->values[value(f, 0, "a")], *y = &g->values[value(f, 0, "y")];
  assert_int_equal(x->origin, ORIGIN_INPUT);
  assert_int_equal(x->producer, -1);
  assert_int_equal(w->origin, ORIGIN_INITIALIZER);
  assert_string_equal(w->initializer->name, "w");
  assert_int_equal(a->origin, ORIGIN_NODE);
  assert_int_equal(a->producer, 0);
  assert_int_equal(a->n_uses, 2);
  assert_int_equal(a->uses[0].node, 1);
  assert_int_equal(a->uses[1].index, 1);
  assert_true(y->is_output && !a->is_output);
  assert_int_equal(y->n_uses, 1);
  assert_int_equal(y->uses[0].node, -1);
  assert_string_equal(g->nodes[1].schema->op, "Mul");
}

static void graph_keeps_an_absent_input_absent(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "hi", "float[]", (float[]){1});
  build_node(&f->b, "Clip", "x _ hi", "y");
  build_node(&f->b, "Dropout", "y", "z _");
  build_output(&f->b, "z", "float[2]");
  index_model(f);
  assert_int_equal(f->g.nodes[0].inputs[1], -1);
  assert_int_equal(f->g.nodes[0].n_inputs, 3);
  assert_int_equal(f->g.nodes[1].outputs[1], -1);
}

static void an_initializer_may_be_an_inputs_default(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "x", "float[2]", (float[]){1, 2});
  build_floats(&f->b, "w", "float[2]", (float[]){1, 2});
  build_node(&f->b, "Add", "x w", "y");
  build_output(&f->b, "y", "float[2]");
  index_model(f);
  int x = value(f, 0, "x");
  assert_int_equal(f->g.values[x].origin, ORIGIN_INPUT);
  assert_non_null(f->g.values[x].initializer);
  assert_null(graph_constant(&f->g, x));
}

// What exporters write that list every initializer is a habit, not an interface.
static void where_all_initializers_are_listed_they_are_constants(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_input(&f->b, "w", "float[2]");
  build_floats(&f->b, "w", "float[2]", (float[]){1, 2});
  build_node(&f->b, "Add", "x w", "y");
  build_output(&f->b, "y", "float[2]");
  index_model(f);
  assert_non_null(graph_constant(&f->g, value(f, 0, "w")));
}

static void before_ir_4_a_listed_initializer_is_a_constant(void **state) {
  struct indexed *f = *state;
  f->b.model->ir_version = 3;
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "x", "float[2]", (float[]){1, 2});
  build_node(&f->b, "Relu", "x", "y");
  build_output(&f->b, "y", "float[2]");
  index_model(f);
  assert_ptr_equal(graph_constant(&f->g, value(f, 0, "x")),
                   f->g.values[value(f, 0, "x")].initializer);
}

static void outputs_may_be_inputs_initializers_or_listed_twice(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_floats(&f->b, "w", "float[2]", (float[]){1, 2});
  build_output(&f->b, "x", "float[2]");
  build_output(&f->b, "w", "float[2]");
  build_output(&f->b, "y", "float[2]");
  build_output(&f->b, "", "float[2]");
  index_model(f);
  const struct scope *s = &f->g.scopes[0];
  assert_int_equal(s->n_outputs, 5);
  assert_int_equal(s->outputs[0], s->outputs[3]);
  assert_int_equal(s->outputs[4], -1);
  assert_int_equal(f->g.values[s->outputs[0]].n_uses, 2);
  assert_int_equal(f->g.values[s->outputs[0]].uses[1].index, 3);
  assert_true(f->g.values[s->outputs[1]].is_output);
}

static void sparse_initializers_are_values(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[4]");
  build_sparse(&f->b, "s", 3, 4);
  build_node(&f->b, "Add", "x s", "y");
  build_output(&f->b, "y", "float[4]");
  index_model(f);
  const struct value *s = &f->g.values[value(f, 0, "s")];
  assert_int_equal(s->origin, ORIGIN_SPARSE);
  assert_int_equal(s->type.kind, TYPE_TENSOR);
  assert_null(graph_constant(&f->g, value(f, 0, "s")));
}

static void constant_nodes_of_every_kind_are_constants(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_tensor_attribute(b, build_node(b, "Constant", "", "t"), "value",
                         build_tensor(b, "", "float16[1]", "\0", 2));
  build_float(b, build_node(b, "Constant", "", "f"), "value_float", 0.5f);
  build_float_list(b, build_node(b, "Constant", "", "fs"), "value_floats", (float[]){1, 2, 3}, 3);
  build_int(b, build_node(b, "ai.onnx.Constant", "", "i"), "value_int", -7);
  build_ints(b, build_node(b, "Constant", "", "is"), "value_ints", (int64_t[]){4, 5}, 2);
  build_string(b, build_node(b, "Constant", "", "s"), "value_string", "text");
  build_node(b, "Identity", "f", "y");
  build_output(b, "y", "float[]");
  index_model(f);
  struct graph *g = &f->g;
  assert_int_equal(graph_constant(g, value(f, 0, "t"))->data_type,
                   ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16);
  const Onnx__TensorProto *t = graph_constant(g, value(f, 0, "f"));
  float one;
  memcpy(&one, t->raw_data.data, sizeof one);
  assert_true(one == 0.5f && t->n_dims == 0);
  t = graph_constant(g, value(f, 0, "fs"));
  assert_int_equal(t->dims[0], 3);
  assert_int_equal(t->raw_data.len, 12);
  t = graph_constant(g, value(f, 0, "i"));
  assert_int_equal(t->data_type, ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
  assert_ptr_equal(t, graph_constant(g, value(f, 0, "i")));
  assert_int_equal(graph_constant(g, value(f, 0, "is"))->dims[0], 2);
  assert_null(graph_constant(g, value(f, 0, "s")));
  assert_null(graph_constant(g, value(f, 0, "y")));
}

// ---- scopes ----

static void subgraphs_capture_from_outside_and_shadow(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "c", "bool[]");
  build_input(b, "x", "float[1]");
  build_floats(b, "e", "float[1]", (float[]){5});
  Onnx__NodeProto *n = begin_if(f, "y");
  n->name = arena_strdup(&f->arena, "choose");
  Onnx__NodeProto *inner = build_node(b, "If", "c", "z");
  build_graph_begin(b, inner, "then_branch");
  build_node(b, "Add", "x e", "deep");
  build_output(b, "deep", "float[1]");
  build_graph_end(b);
  build_graph_begin(b, inner, "else_branch");
  build_node(b, "Neg", "x", "x2");
  build_output(b, "x2", "float[1]");
  build_graph_end(b);
  build_output(b, "z", "float[1]");
  build_graph_end(b);
  build_output(b, "y", "float[1]");
  index_model(f);
  const struct graph *g = &f->g;
  assert_int_equal(g->n_scopes, 5);
  assert_string_equal(g->scopes[0].path, "");
  assert_string_equal(g->scopes[1].path, "choose.else_branch");
  assert_string_equal(g->scopes[2].path, "choose.then_branch");
  assert_string_equal(g->scopes[3].path, "choose.then_branch/#0.then_branch");
  assert_int_equal(g->scopes[3].parent, 2);
  assert_int_equal(g->scopes[3].root, 0);
  assert_int_equal(g->scopes[1].parent_node, 0);
  assert_int_equal(g->nodes[0].n_bodies, 2);
  // The shadowing "e" of the else branch is another value than the outer one, which the inner
  // branch of the other side sees.
  assert_int_not_equal(value(f, 1, "e"), value(f, 0, "e"));
  assert_int_equal(value(f, 3, "e"), value(f, 0, "e"));
  assert_int_equal(g->values[value(f, 0, "x")].n_uses, 2);
  assert_string_equal(graph_value_label(g, value(f, 1, "e")), "choose.else_branch::e");
  assert_string_equal(graph_value_label(g, value(f, 0, "e")), "e");
}

static void list_attributes_of_graphs_are_walked(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_opset(b, "com.example", 1);
  build_input(b, "x", "float[1]");
  Onnx__NodeProto *n = build_node(b, "com.example.Choose", "x", "y");
  build_graph_begin(b, n, "bodies");
  build_node(b, "Relu", "x", "r");
  build_output(b, "r", "float");
  build_graph_end(b);
  Onnx__AttributeProto *a = n->attribute[0];
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS;
  a->n_graphs = 2;
  a->graphs = (Onnx__GraphProto *[]){a->g, a->g};
  a->g = NULL;
  build_output(b, "y", "float");
  index_model(f);
  assert_int_equal(f->g.nodes[0].n_bodies, 2);
  assert_string_equal(f->g.scopes[2].path, "#0.bodies[1]");
  assert_int_equal(f->g.values[value(f, 0, "x")].n_uses, 3);
}

static void functions_are_scopes_with_imports_of_their_own(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_opset(b, "local", 1);
  build_input(b, "x", "float[1]");
  build_node(b, "local.F", "x", "y");
  build_output(b, "y", "float[1]");
  build_function_begin(b, "local", "F", "a", "b", "")->opset_import[0]->version = 13;
  build_node(b, "Relu", "a", "b");
  build_function_end(b);
  index_model(f);
  const struct graph *g = &f->g;
  assert_int_equal(g->n_scopes, 2);
  assert_int_equal(g->scopes[1].kind, SCOPE_FUNCTION);
  assert_string_equal(g->scopes[1].path, "fn:local.F");
  assert_int_equal(g->nodes[0].function, 1);
  assert_null(g->nodes[0].schema);
  assert_int_equal(graph_opset(g, 0, "ai.onnx"), 17);
  assert_int_equal(graph_opset(g, 1, ""), 13);
  assert_int_equal(graph_opset(g, 1, "local"), 0);
  assert_int_equal(g->values[g->scopes[1].inputs[0]].origin, ORIGIN_FORMAL);
}

static void an_operator_comes_before_a_function_of_its_name(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_function_begin(&f->b, "ai.onnx", "Relu", "a", "b", "");
  build_node(&f->b, "Abs", "a", "b");
  build_function_end(&f->b);
  build_function_begin(&f->b, "ai.onnx", "NoSuchOperator", "a", "b", "");
  build_node(&f->b, "Abs", "a", "b");
  build_function_end(&f->b);
  build_node(&f->b, "NoSuchOperator", "y", "z");
  build_node(&f->b, "Relu", "z", "u");
  index_model(f);
  assert_int_equal(f->g.nodes[0].function, -1);
  assert_string_equal(f->g.nodes[0].schema->op, "Relu");
  assert_int_equal(f->g.nodes[1].function, 2);
  assert_int_equal(f->g.nodes[2].function, -1);
  assert_int_equal(f->warnings, 1);
}

static void overloads_are_functions_apart(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[1]");
  build_node(b, "local.F", "x", "y")->overload = "two";
  build_output(b, "y", "float[1]");
  build_function_begin(b, "local", "F", "a", "b", "");
  build_node(b, "Relu", "a", "b");
  build_function_end(b);
  build_function_begin(b, "local", "F", "a", "b", "")->overload = "two";
  build_node(b, "Abs", "a", "b");
  build_function_end(b);
  index_model(f);
  assert_int_equal(f->g.nodes[0].function, 2);
  assert_string_equal(f->g.scopes[2].path, "fn:local.F:two");
}

static void a_function_given_twice_is_fine_if_equal(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "x", "float[1]");
  build_node(b, "local.F", "x", "y");
  build_output(b, "y", "float[1]");
  for (int i = 0; i < 2; i++) {
    build_function_begin(b, "local", "F", "a", "b", "");
    build_node(b, "Relu", "a", "b");
    build_function_end(b);
  }
  index_model(f);
  assert_int_equal(f->g.n_scopes, 2);
}

static void a_function_given_twice_differently_is_refused(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  relu_model(f);
  for (int i = 0; i < 2; i++) {
    build_function_begin(b, "local", "F", "a", "b", "");
    build_node(b, i ? "Abs" : "Relu", "a", "b");
    build_function_end(b);
  }
  refuse(f, "fn:local.F");
}

// ---- labels ----

static void labels_are_unique_and_tell_the_place(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "c", "bool[]");
  build_input(b, "onnx::x", "float[1]");
  build_node(b, "Relu", "onnx::x", "a")->name = "twin";
  build_node(b, "Relu", "a", "b")->name = "twin";
  build_node(b, "Relu", "b", "d");
  build_node(b, "Relu", "d", "n.then_branch::v")->name = "only";
  begin_if(f, "y")->name = "n";
  build_node(b, "Relu", "d", "v")->name = "r";
  build_output(b, "v", "float");
  build_graph_end(b);
  build_output(b, "y", "float");
  index_model(f);
  const struct graph *g = &f->g;
  assert_string_equal(graph_node_label(g, 0), "#0(Relu)");
  assert_string_equal(graph_node_label(g, 1), "#1(Relu)");
  assert_string_equal(graph_node_label(g, 2), "#2(Relu)");
  assert_string_equal(graph_node_label(g, 3), "only");
  assert_string_equal(graph_node_label(g, 5), "n.then_branch::r");
  assert_string_equal(graph_value_label(g, value(f, 0, "onnx::x")), "onnx::x");
  // A name in the main graph that pretends to be in the branch.
  assert_string_equal(graph_value_label(g, value(f, 2, "v")), "n.then_branch::v");
  assert_string_equal(graph_value_label(g, value(f, 0, "n.then_branch::v")), "::n.then_branch::v");
}

static void paths_stay_unique_and_short(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "c", "bool[]");
  char *name = arena_alloc(&f->arena, 100000);
  memset(name, 'n', 99999);
  begin_if(f, "y")->name = name;
  build_floats(b, "t", "float[1]", (float[]){1});
  build_output(b, "t", "float");
  build_graph_end(b);
  begin_if(f, "z")->name = "a::b";
  build_floats(b, "t", "float[1]", (float[]){1});
  build_output(b, "t", "float");
  build_graph_end(b);
  build_output(b, "y", "float");
  index_model(f);
  for (int i = 0; i < f->g.n_scopes; i++) {
    assert_true(strlen(f->g.scopes[i].path) < 100);
    assert_null(strstr(f->g.scopes[i].path, "::"));
    for (int k = 0; k < i; k++)
      assert_string_not_equal(f->g.scopes[i].path, f->g.scopes[k].path);
  }
}

// ---- order ----

static int position(const struct scope *s, int node) {
  for (int i = 0; i < s->n_nodes; i++)
    if (s->order[i] == node)
      return i;
  return -1;
}

static void sorted_nodes_keep_their_order(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[1]");
  build_node(&f->b, "Relu", "x", "a");
  build_node(&f->b, "Abs", "x", "b");
  build_node(&f->b, "Neg", "x", "unused");
  build_node(&f->b, "Add", "b a", "y");
  build_output(&f->b, "y", "float[1]");
  index_model(f);
  assert_memory_equal(f->g.scopes[0].order, f->g.scopes[0].nodes, 4 * sizeof(int));
}

static void unsorted_nodes_are_ordered_stably(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[1]");
  build_node(&f->b, "Add", "b a", "y");
  build_node(&f->b, "Relu", "x", "a");
  build_node(&f->b, "Abs", "a", "b");
  build_node(&f->b, "Neg", "x", "unused");
  build_output(&f->b, "y", "float[1]");
  index_model(f);
  const int expected[] = {1, 2, 0, 3};
  assert_memory_equal(f->g.scopes[0].order, expected, sizeof expected);
}

static void a_node_waits_for_what_its_subgraphs_capture(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "c", "bool[]");
  build_input(b, "x", "float[1]");
  begin_if(f, "y");
  Onnx__NodeProto *inner = build_node(b, "If", "c", "z");
  build_graph_begin(b, inner, "then_branch");
  build_node(b, "Relu", "late", "t");
  build_output(b, "t", "float");
  build_graph_end(b);
  build_graph_begin(b, inner, "else_branch");
  build_node(b, "Abs", "x", "t");
  build_output(b, "t", "float");
  build_graph_end(b);
  build_output(b, "z", "float");
  build_graph_end(b);
  int neg = 4;
  build_node(b, "Neg", "x", "late");
  build_output(b, "y", "float");
  index_model(f);
  assert_string_equal(f->g.nodes[neg].proto->op_type, "Neg");
  assert_true(position(&f->g.scopes[0], neg) < position(&f->g.scopes[0], 0));
}

static void cycles_are_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "float[1]");
  build_node(&f->b, "Add", "x b", "a");
  build_node(&f->b, "Relu", "a", "b");
  build_output(&f->b, "b", "float[1]");
  refuse(f, "cycle");
}

static void a_cycle_through_a_subgraph_is_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "c", "bool[]");
  begin_if(f, "y");
  build_node(&f->b, "Relu", "y", "t");
  build_output(&f->b, "t", "float");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float");
  refuse(f, "cycle");
}

// ---- refusals ----

static void an_undefined_name_is_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_node(&f->b, "Abs", "nowhere", "z")->name = "reader";
  refuse(f, "nothing defines it");
  assert_string_equal(f->d.tensor, "nowhere");
  assert_string_equal(f->d.node, "reader");
  assert_string_equal(f->d.file, "built.onnx");
}

static void names_of_a_branch_end_with_it(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "c", "bool[]");
  begin_if(f, "y");
  build_node(&f->b, "Relu", "e", "t");  // "e" is of the other branch
  build_output(&f->b, "t", "float");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float");
  refuse(f, "nothing defines it");
  assert_string_equal(f->d.tensor, "#0.then_branch::e");
}

static void two_producers_are_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_node(&f->b, "Abs", "x", "y");
  refuse(f, "defined twice");
  assert_string_equal(f->d.tensor, "y");
}

static void an_output_named_like_an_input_is_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_node(&f->b, "Abs", "y", "x");
  refuse(f, "defined twice");
}

static void an_output_named_like_an_initializer_is_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_floats(&f->b, "y", "float[1]", (float[]){1});
  refuse(f, "defined twice");
}

static void two_initializers_of_a_name_are_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_floats(&f->b, "w", "float[1]", (float[]){1});
  build_floats(&f->b, "w", "float[1]", (float[]){2});
  refuse(f, "two initializers");
  assert_string_equal(f->d.tensor, "w");
}

static void an_output_that_nothing_produces_is_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_output(&f->b, "ghost", "float");
  refuse(f, "ghost");
}

static void a_branch_that_returns_an_outer_value_is_refused_with_a_hint(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "c", "bool[]");
  build_input(&f->b, "x", "float[1]");
  begin_if(f, "y");
  build_output(&f->b, "x", "float");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float");
  refuse(f, "outer");
  assert_non_null(strstr(f->d.hint, "Identity"));
}

static void a_domain_without_import_is_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_node(&f->b, "com.example.Mystery", "y", "z");
  refuse(f, "com.example");
}

static void a_known_domain_without_import_gets_its_newest_version(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_node(&f->b, "com.microsoft.Gelu", "y", "z");
  index_model(f);
  assert_non_null(f->g.nodes[1].schema);
  assert_int_equal(graph_opset(&f->g, 0, "com.microsoft"), 1);
  assert_int_equal(f->warnings, 1);
}

static void an_unknown_operator_is_no_error(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_node(&f->b, "NotInTheTable", "y", "z");
  index_model(f);
  assert_null(f->g.nodes[1].schema);
  assert_int_equal(f->g.nodes[1].function, -1);
}

static void a_model_without_versions_is_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_model(&f->b, &f->m);
  f->m.proto->n_opset_import = 0;
  assert_int_equal(graph_build(&f->g, &f->m, &indexed_schemas, &f->arena, &f->d), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, "opset_import"));
  assert_true(f->d.hint[0]);
  diag_clear(&f->d);
  f->m.proto->has_ir_version = 0;
  assert_int_equal(graph_build(&f->g, &f->m, &indexed_schemas, &f->arena, &f->d), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, "ir_version"));
}

static void functions_that_call_each_other_are_refused(void **state) {
  struct indexed *f = *state;
  struct build *b = &f->b;
  relu_model(f);
  build_function_begin(b, "local", "A", "a", "b", "");
  build_node(b, "local.B", "a", "b");
  build_function_end(b);
  build_function_begin(b, "local", "B", "a", "b", "");
  build_node(b, "local.A", "a", "b");
  build_function_end(b);
  refuse(f, "calls itself");
}

static void element_types_outside_the_enum_are_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_raw(&f->b, "w", "99[1]", "\0\0\0", 4);
  refuse(f, "99");
  assert_string_equal(f->d.tensor, "w");
}

static void declared_types_outside_the_enum_are_refused(void **state) {
  struct indexed *f = *state;
  build_input(&f->b, "x", "99[1]");
  build_node(&f->b, "Relu", "x", "y");
  build_output(&f->b, "y", "float");
  refuse(f, "99");
  assert_string_equal(f->d.tensor, "x");
}

static void attribute_tensors_outside_the_enum_are_refused(void **state) {
  struct indexed *f = *state;
  relu_model(f);
  build_tensor_attribute(&f->b, build_node(&f->b, "Constant", "", "k"), "value",
                         build_tensor(&f->b, "", "99[1]", NULL, 4));
  refuse(f, "99");
}

// ---- size ----

// A chain in reverse order: the worst case for a sort, and for recursion.
static void a_hundred_thousand_nodes_take_a_moment(void **state) {
  enum { NODES = 100000 };
  struct indexed *f = *state;
  struct build *b = &f->b;
  build_input(b, "v0", "float[1]");
  for (int i = NODES; i > 0; i--)
    build_node(b, "Relu", arena_printf(&f->arena, "v%d", i - 1), arena_printf(&f->arena, "v%d", i));
  build_output(b, arena_printf(&f->arena, "v%d", NODES), "float[1]");
  build_model(b, &f->m);
  clock_t start = clock();
  assert_int_equal(graph_build(&f->g, &f->m, &indexed_schemas, &f->arena, &f->d), STATUS_OK);
  assert_true(clock() - start < 3 * CLOCKS_PER_SEC);  // a tenth of a second without sanitizers
  assert_int_equal(f->g.scopes[0].order[0], NODES - 1);
  assert_int_equal(f->g.values[value(f, 0, "v50")].type.elem_type,
                   ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, indexed_set_up, indexed_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(graph_indexes_values_producers_and_uses),
      TEST(graph_keeps_an_absent_input_absent),
      TEST(an_initializer_may_be_an_inputs_default),
      TEST(where_all_initializers_are_listed_they_are_constants),
      TEST(before_ir_4_a_listed_initializer_is_a_constant),
      TEST(outputs_may_be_inputs_initializers_or_listed_twice),
      TEST(sparse_initializers_are_values),
      TEST(constant_nodes_of_every_kind_are_constants),
      TEST(subgraphs_capture_from_outside_and_shadow),
      TEST(list_attributes_of_graphs_are_walked),
      TEST(functions_are_scopes_with_imports_of_their_own),
      TEST(an_operator_comes_before_a_function_of_its_name),
      TEST(overloads_are_functions_apart),
      TEST(a_function_given_twice_is_fine_if_equal),
      TEST(a_function_given_twice_differently_is_refused),
      TEST(labels_are_unique_and_tell_the_place),
      TEST(paths_stay_unique_and_short),
      TEST(sorted_nodes_keep_their_order),
      TEST(unsorted_nodes_are_ordered_stably),
      TEST(a_node_waits_for_what_its_subgraphs_capture),
      TEST(cycles_are_refused),
      TEST(a_cycle_through_a_subgraph_is_refused),
      TEST(an_undefined_name_is_refused),
      TEST(names_of_a_branch_end_with_it),
      TEST(two_producers_are_refused),
      TEST(an_output_named_like_an_input_is_refused),
      TEST(an_output_named_like_an_initializer_is_refused),
      TEST(two_initializers_of_a_name_are_refused),
      TEST(an_output_that_nothing_produces_is_refused),
      TEST(a_branch_that_returns_an_outer_value_is_refused_with_a_hint),
      TEST(a_domain_without_import_is_refused),
      TEST(a_known_domain_without_import_gets_its_newest_version),
      TEST(an_unknown_operator_is_no_error),
      TEST(a_model_without_versions_is_refused),
      TEST(functions_that_call_each_other_are_refused),
      TEST(element_types_outside_the_enum_are_refused),
      TEST(declared_types_outside_the_enum_are_refused),
      TEST(attribute_tensors_outside_the_enum_are_refused),
      TEST(a_hundred_thousand_nodes_take_a_moment),
  };
  return cmocka_run_group_tests(tests, indexed_load_schemas, indexed_free_schemas);
}
