// plan: patterns written out in single operators. Every form that exporters make is found, with
// operands in either order; what only resembles one is not; and a rule for patterns decides about
// all their nodes as one.
#include "plan_pattern.h"
#include "support_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A name that reads as a number is a constant of that value.
static void build_number(struct planning *f, const char *name) {
  char *end;
  float number = strtof(name, &end);
  const Onnx__GraphProto *g = f->b.model->graph;
  bool made = *end != '\0' || end == name;
  for (size_t i = 0; i < g->n_initializer; i++)
    made = made || strcmp(g->initializer[i]->name, name) == 0;
  if (!made)
    build_floats(&f->b, name, "float[]", &number);
}

// A graph as text: "m = ReduceMean(x); y = Sub(x, m)".
static void build_text(struct planning *f, const char *text, bool swapped) {
  char *rest = arena_strdup(&f->arena, text), *line;
  while ((line = strtok_r(rest, ";", &rest)) != NULL) {
    char out[20], op[30], a[20], b[20] = "";
    int count =
        sscanf(line, " %19[a-z0-9] = %29[A-Za-z0-9]( %19[^,) ] , %19[^) ] )", out, op, a, b);
    assert_true(count >= 3);
    build_number(f, a);
    build_number(f, b);
    bool swap = swapped && count == 4 && (strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0);
    const char *inputs = arena_printf(&f->arena, "%s %s", swap ? b : a, swap ? a : b);
    Onnx__NodeProto *node = build_node(&f->b, op, inputs, out);
    if (strcmp(op, "Cast") == 0)
      build_int(&f->b, node, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  }
}

static void build_ends(struct planning *f) {
  build_input(&f->b, "x", "float[2,4]");
  build_input(&f->b, "z", "float[2,4]");
  build_input(&f->b, "half", "float16[2,4]");
  build_floats(&f->b, "w", "float[4]", (float[]){1, 2, 3, 4});
  build_int64s(&f->b, "shape", "int64[2]", (int64_t[]){2, 4});
  build_output(&f->b, "y", "float");
}

static struct patterns found(struct planning *f, const char *text, bool swapped) {
  struct patterns p;
  build_ends(f);
  build_text(f, text, swapped);
  planning_index(f);
  patterns_find(&p, &f->g, &f->arena);
  return p;
}

// Each form is one pattern of all its nodes, ending in y.
static const struct {
  enum pattern pattern;
  const char *text;
} forms[] = {
    // PyTorch, with the difference taken once or twice
    {PATTERN_LAYER_NORM, "m = ReduceMean(x); d = Sub(x, m); q = Pow(d, 2); v = ReduceMean(q); "
                         "e = Add(v, 1e-5); s = Sqrt(e); y = Div(d, s)"},
    {PATTERN_LAYER_NORM, "m = ReduceMean(x); d = Sub(x, m); b = Sub(x, m); q = Mul(b, b); "
                         "v = ReduceMean(q); e = Add(v, 1e-5); s = Sqrt(e); y = Div(d, s)"},
    {PATTERN_LAYER_NORM, "m = ReduceMean(x); d = Sub(x, m); q = Mul(d, d); v = ReduceMean(q); "
                         "e = Add(v, 1e-5); s = Sqrt(e); r = Reciprocal(s); y = Mul(d, r)"},
    {PATTERN_LAYER_NORM, "m = ReduceMean(x); d = Sub(x, m); q = Mul(d, d); v = ReduceMean(q); "
                         "e = Add(v, 1e-5); r = Pow(e, -0.5); y = Mul(d, r)"},
    {PATTERN_LAYER_NORM, "m = ReduceMean(x); d = Sub(x, m); q = Mul(d, d); v = ReduceMean(q); "
                         "s = Sqrt(v); e = Add(s, 1e-5); y = Div(d, e)"},
    // instance normalisation over pixels
    {PATTERN_LAYER_NORM, "m = GlobalAveragePool(x); d = Sub(x, m); q = Mul(d, d); "
                         "v = GlobalAveragePool(q); e = Add(v, 1e-5); s = Sqrt(e); y = Div(d, s)"},
    // Keras: E[x^2] - E[x]^2 with a floor, shapes written out, the scale folded into the deviation
    {PATTERN_LAYER_NORM,
     "a = ReduceSum(x); m = Mul(a, 0.25); p = Mul(x, x); b = ReduceSum(p); n = Mul(b, 0.25); "
     "o = Mul(m, m); v = Sub(n, o); l = Max(v, 0); c = Reshape(l, shape); e = Add(c, 1e-3); "
     "s = Sqrt(e); r = Reciprocal(s); g = Mul(r, w); h = Expand(m, shape); d = Sub(x, h); "
     "y = Mul(d, g)"},
    // TensorFlow's batch_normalization on moments
    {PATTERN_LAYER_NORM, "m = ReduceMean(x); d = Sub(x, m); q = Mul(d, d); v = ReduceMean(q); "
                         "e = Add(v, 1e-3); s = Sqrt(e); r = Reciprocal(s); g = Mul(r, w); "
                         "p = Mul(x, g); o = Mul(m, g); b = Sub(w, o); y = Add(p, b)"},
    {PATTERN_RMS_NORM, "q = Pow(x, 2); v = ReduceMean(q); e = Add(v, 1e-6); s = Sqrt(e); "
                       "r = Reciprocal(s); y = Mul(x, r)"},
    {PATTERN_RMS_NORM, "q = Mul(x, x); v = ReduceMean(q); e = Add(v, 1e-6); s = Sqrt(e); "
                       "r = Div(1, s); y = Mul(x, r)"},
    {PATTERN_RMS_NORM,
     "q = Mul(x, x); v = ReduceMean(q); e = Add(v, 1e-6); s = Sqrt(e); y = Div(x, s)"},
    {PATTERN_L2_NORM, "n = ReduceL2(x); c = Clip(n, 1e-12); e = Expand(c, shape); y = Div(x, e)"},
    {PATTERN_L2_NORM, "q = Mul(x, x); v = ReduceSum(q); m = Max(v, 1e-12); s = Sqrt(m); "
                      "r = Reciprocal(s); y = Mul(x, r)"},
    {PATTERN_SOFTMAX,
     "m = ReduceMax(x); d = Sub(x, m); e = Exp(d); s = ReduceSum(e); y = Div(e, s)"},
    {PATTERN_SOFTMAX, "e = Exp(x); s = ReduceSum(e); y = Div(e, s)"},
    {PATTERN_SOFTMAX, "e = Exp(x); s = ReduceSum(e); r = Reciprocal(s); y = Mul(e, r)"},
    {PATTERN_SOFTMAX, "m = ReduceMax(x); d = Sub(x, m); e = Exp(d); k = Mul(e, z); "
                      "s = ReduceSum(k); t = Add(s, 1e-9); y = Div(k, t)"},
    {PATTERN_SOFTMAX, "m = ReduceMax(x); f = Max(-1e30, m); r = Reshape(f, shape); "
                      "b = Expand(r, shape); d = Sub(x, b); e = Exp(d); s = ReduceSum(e); "
                      "c = Expand(s, shape); y = Div(e, c)"},
    {PATTERN_LOG_SOFTMAX, "m = ReduceMax(x); d = Sub(x, m); e = Exp(d); s = ReduceSum(e); "
                          "l = Log(s); y = Sub(d, l)"},
    {PATTERN_LOG_SOFTMAX, "m = ReduceMax(x); d = Sub(x, m); e = Exp(d); s = ReduceSum(e); "
                          "l = Log(s); a = Add(l, m); y = Sub(x, a)"},
    {PATTERN_LOG_SOFTMAX, "e = Exp(x); s = ReduceSum(e); d = Div(e, s); y = Log(d)"},
    {PATTERN_LOG_SUM_EXP, "m = ReduceMax(x); d = Sub(x, m); e = Exp(d); s = ReduceSum(e); "
                          "l = Log(s); y = Add(l, m)"},
    {PATTERN_LOG_SUM_EXP, "e = Exp(x); s = ReduceSum(e); y = Log(s)"},
    {PATTERN_GELU, "a = Div(x, 1.4142135); e = Erf(a); o = Add(e, 1); p = Mul(x, o); "
                   "y = Mul(p, 0.5)"},
    {PATTERN_GELU, "h = Mul(x, 0.5); a = Mul(x, 0.70710678); e = Erf(a); o = Add(e, 1); "
                   "y = Mul(h, o)"},
    {PATTERN_GELU, "a = Div(x, 1.4142); e = Erf(a); o = Add(1, e); p = Mul(0.5, o); y = Mul(x, p)"},
    {PATTERN_GELU, "a = Div(x, 1.4142); e = Erf(a); o = Add(1, e); p = Mul(x, o); y = Div(p, 2)"},
    {PATTERN_GELU, "c = Pow(x, 3); m = Mul(0.044715, c); a = Add(x, m); b = Mul(0.797885, a); "
                   "t = Tanh(b); o = Add(1, t); h = Mul(0.5, x); y = Mul(h, o)"},
    {PATTERN_GELU, "q = Mul(x, x); c = Mul(x, q); m = Mul(c, 0.044715); a = Add(x, m); "
                   "b = Mul(a, 0.79788456); t = Tanh(b); o = Add(t, 1); p = Mul(0.5, o); "
                   "y = Mul(x, p)"},
    {PATTERN_GELU, "q = Mul(x, x); m = Mul(q, 0.044715); a = Add(m, 1); c = Mul(x, 0.79788456); "
                   "b = Mul(c, a); t = Tanh(b); o = Add(t, 1); h = Mul(x, 0.5); y = Mul(h, o)"},
    {PATTERN_GELU, "l = Mul(0.044715, x); q = Mul(l, x); c = Mul(q, x); a = Add(x, c); "
                   "b = Mul(a, 0.79788456); t = Tanh(b); o = Add(t, 1); h = Mul(x, 0.5); "
                   "y = Mul(h, o)"},
    {PATTERN_GELU, "a = Mul(x, 1.702); s = Sigmoid(a); y = Mul(x, s)"},
    {PATTERN_MISH, "e = Exp(x); o = Add(e, 1); l = Log(o); t = Tanh(l); y = Mul(x, t)"},
    {PATTERN_MISH, "s = Softplus(x); t = Tanh(s); y = Mul(x, t)"},
    {PATTERN_SILU, "s = Sigmoid(x); y = Mul(x, s)"},
    {PATTERN_SILU, "b = Mul(x, 1); s = Sigmoid(b); y = Mul(x, s)"},
    {PATTERN_SILU, "n = Neg(x); e = Exp(n); o = Add(e, 1); y = Div(x, o)"},
    {PATTERN_SILU, "n = Neg(x); e = Exp(n); o = Add(e, 1); r = Reciprocal(o); y = Mul(r, x)"},
    {PATTERN_SOFTPLUS, "e = Exp(x); o = Add(e, 1); y = Log(o)"},
    {PATTERN_SOFTPLUS, "a = Abs(x); n = Neg(a); e = Exp(n); o = Add(e, 1); l = Log(o); "
                       "p = Relu(x); y = Add(p, l)"},
    {PATTERN_SIGMOID, "n = Neg(x); e = Exp(n); o = Add(e, 1); y = Div(1, o)"},
    {PATTERN_SUM_OF_SQUARES, "q = Mul(x, x); y = ReduceSum(q)"},
    {PATTERN_SUM_OF_SQUARES, "q = Mul(x, x); n = ReduceMean(q); m = ReduceMean(x); o = Mul(m, m); "
                             "v = Sub(n, o); y = Sqrt(v)"},
    {PATTERN_SUM_OF_SQUARES, "q = Pow(x, 2); v = ReduceMean(q); e = Add(v, 1e-8); y = Sqrt(e)"},
    {PATTERN_SUM_OF_SQUARES, "p = Pow(x, 2); q = Pow(z, 2); s = Add(p, q); y = Sqrt(s)"},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

static void expect_whole(struct planning *f, const struct patterns *p, int form) {
  int end = node_of(&f->g, "y");
  for (int n = 0; n < f->g.n_nodes; n++)
    if (p->kind[n] != forms[form].pattern || p->end[n] != end)
      fail_msg("%s: %s is %s", forms[form].text, f->g.nodes[n].proto->output[0],
               pattern_name(p->kind[n]));
}

static void every_form_is_found(bool swapped) {
  for (int k = 0; k < FORMS; k++) {
    void *state;
    planning_set_up(&state);
    struct planning *f = state;
    struct patterns p = found(f, forms[k].text, swapped);
    expect_whole(f, &p, k);
    planning_tear_down(&state);
  }
}

static void patterns_are_found_in_every_form_that_exporters_write(void **state) {
  (void)state;
  every_form_is_found(false);
}

static void patterns_are_found_with_operands_in_either_order(void **state) {
  (void)state;
  every_form_is_found(true);
}

static void what_only_resembles_a_pattern_is_none(void **state) {
  (void)state;
  static const char *const texts[] = {
      // the variance of something else, or none at all
      "m = ReduceMean(x); d = Sub(z, m); q = Exp(d); v = ReduceMean(q); s = Sqrt(v); y = Div(d, s)",
      "d = Sub(x, z); s = Sqrt(x); y = Div(d, s)",
      "q = Mul(x, z); y = ReduceSum(q)",
      "q = Pow(x, 3); y = ReduceMean(q)",
      // the sum of other exponentials
      "e = Exp(x); g = Exp(z); s = ReduceSum(g); y = Div(e, s)",
      // constants that make another function
      "a = Div(x, 1.5); e = Erf(a); o = Add(e, 1); p = Mul(x, o); y = Mul(p, 0.5)",
      "a = Div(x, 1.4142); e = Erf(a); o = Add(e, 1); p = Mul(z, o); y = Mul(p, 0.5)",
      "e = Exp(x); o = Add(e, 2); y = Log(o)",
      "n = Neg(x); e = Exp(n); o = Add(e, 1); y = Div(2, o)",
      "s = Sigmoid(z); y = Mul(x, s)",
      "s = Sigmoid(x); y = Mul(w, s)",
  };
  for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
    void *setting;
    planning_set_up(&setting);
    struct planning *f = setting;
    struct patterns p = found(f, texts[k], false);
    for (int n = 0; n < f->g.n_nodes; n++)
      if (p.kind[n] != PATTERN_NONE || p.end[n] != -1)
        fail_msg("%s: %s", texts[k], pattern_name(p.kind[n]));
    planning_tear_down(&setting);
  }
}

static enum pattern kind_of(const struct planning *f, const struct patterns *p, const char *v) {
  return p->kind[node_of(&f->g, v)];
}

// What comes before and behind is outside, whoever else reads an inner result.
static void patterns_end_where_their_formula_does(void **state) {
  struct planning *f = *state;
  struct patterns p = found(f,
                            "a = Reshape(x, shape); m = ReduceMean(a); d = Sub(a, m); "
                            "q = Mul(d, d); v = ReduceMean(q); e = Add(v, 1e-5); s = Sqrt(e); "
                            "n = Div(d, s); h = Neg(n); g = Mul(h, w); t = Tanh(d); y = Add(g, t)",
                            false);
  assert_int_equal(kind_of(f, &p, "a"), PATTERN_NONE);
  assert_int_equal(kind_of(f, &p, "m"), PATTERN_LAYER_NORM);
  assert_int_equal(kind_of(f, &p, "d"), PATTERN_LAYER_NORM);
  assert_int_equal(kind_of(f, &p, "n"), PATTERN_LAYER_NORM);
  assert_int_equal(kind_of(f, &p, "g"), PATTERN_NONE);
  assert_int_equal(kind_of(f, &p, "t"), PATTERN_NONE);
}

// Engines fuse a normalisation with its scale and shift.
static void a_normalisation_includes_its_scale_and_shift(void **state) {
  struct planning *f = *state;
  struct patterns p = found(f,
                            "m = ReduceMean(x); d = Sub(x, m); q = Mul(d, d); v = ReduceMean(q); "
                            "e = Add(v, 1e-5); s = Sqrt(e); n = Div(d, s); g = Mul(n, w); "
                            "b = Add(g, w); y = Tanh(b)",
                            false);
  assert_int_equal(kind_of(f, &p, "m"), PATTERN_LAYER_NORM);
  assert_int_equal(kind_of(f, &p, "g"), PATTERN_LAYER_NORM);
  assert_int_equal(kind_of(f, &p, "b"), PATTERN_LAYER_NORM);
  assert_int_equal(p.end[node_of(&f->g, "m")], node_of(&f->g, "b"));
  assert_int_equal(kind_of(f, &p, "y"), PATTERN_NONE);
}

static void two_patterns_of_one_input_are_two(void **state) {
  struct planning *f = *state;
  struct patterns p =
      found(f, "s = Sigmoid(x); a = Mul(x, s); e = Exp(x); t = ReduceSum(e); y = Div(e, t)", false);
  assert_int_equal(kind_of(f, &p, "a"), PATTERN_SILU);
  assert_int_equal(kind_of(f, &p, "e"), PATTERN_SOFTMAX);
  assert_int_equal(p.end[node_of(&f->g, "s")], node_of(&f->g, "a"));
  assert_int_equal(p.end[node_of(&f->g, "e")], node_of(&f->g, "y"));
}

// A Cast of the author may stand inside, and stays one.
static void casts_of_the_author_are_in_no_pattern(void **state) {
  struct planning *f = *state;
  struct patterns p = found(f,
                            "c = Cast(half); q = Mul(c, c); v = ReduceMean(q); b = Cast(v); "
                            "e = Add(b, 1e-6); s = Sqrt(e); y = Div(c, s)",
                            false);
  assert_int_equal(kind_of(f, &p, "y"), PATTERN_RMS_NORM);
  assert_int_equal(kind_of(f, &p, "q"), PATTERN_RMS_NORM);
  assert_int_equal(kind_of(f, &p, "b"), PATTERN_NONE);
  assert_int_equal(kind_of(f, &p, "c"), PATTERN_NONE);
}

static void patterns_stay_in_their_scope(void **state) {
  struct planning *f = *state;
  build_ends(f);
  build_input(&f->b, "cond", "bool[]");
  build_text(f, "s = Sigmoid(x)", false);
  Onnx__NodeProto *branch = build_node(&f->b, "If", "cond", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "Mul", "x s", "across");
  build_output(&f->b, "across", "float");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Sigmoid", "x", "inner");
  build_node(&f->b, "Mul", "x inner", "inside");
  build_output(&f->b, "inside", "float");
  build_graph_end(&f->b);
  planning_index(f);
  struct patterns p;
  patterns_find(&p, &f->g, &f->arena);
  int in_pattern = 0;
  for (int n = 0; n < f->g.n_nodes; n++)
    in_pattern += p.kind[n] != PATTERN_NONE;
  assert_int_equal(in_pattern, 2);
}

// ---- rules ----

// h = MatMul(x, w2); a normalisation of h; its result times w2.
static void normalised_product(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_text(f, "q = Mul(h, h); v = ReduceMean(q); e = Add(v, 1e-2); s = Sqrt(e); n = Div(h, s)",
             false);
  build_node(&f->b, "MatMul", "n w", "y");
  build_output(&f->b, "y", "float[2,2]");
}

static void add_rule(struct planning *f, enum pattern pattern, enum node_class class) {
  struct rule *rules = arena_array(&f->arena, (size_t)f->policy.n_rules + 1, sizeof *rules);
  rules[0] = (struct rule){
      .id = "whole", .patterns = (uint32_t)1 << pattern, .class = class, .why = "a pattern"};
  memcpy(rules + 1, f->policy.rules, (size_t)f->policy.n_rules * sizeof *rules);
  f->policy.rules = rules;
  f->policy.n_rules++;
}

static void a_rule_pins_a_pattern_as_a_whole(void **state) {
  struct planning *f = *state;
  static const char *const inner[] = {"q", "v", "e", "s", "n"};
  normalised_product(f);
  planning_index(f);
  add_rule(f, PATTERN_RMS_NORM, CLASS_PIN);
  planning_decide(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_int_equal(node_format(f, "y"), FORMAT_FP16);
  for (int k = 0; k < 5; k++) {
    const struct node_plan *node = &f->p.nodes[node_of(&f->g, inner[k])];
    assert_int_equal(node->format, FORMAT_FP32);
    assert_string_equal(node->rule_id, "whole");
    assert_string_equal(reason_name(node->reason), "pattern");
    assert_string_equal(pattern_name(node->pattern), "rms-norm");
  }
  planning_rewrite(f);
  assert_int_equal(emitted_count(f, "Cast"), 4);  // x; h back; n and y
}

// Entry 4 of plan_engine.c: what makes the input of a layer normalisation, over what the engine
// removes before it fuses one.
static void what_stands_before_a_layer_norm_is_wide_from_opset_17_on(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "first");
  build_node(&f->b, "MatMul", "first w", "h");
  build_text(f,
             "i = Identity(h); j = Identity(i); m = ReduceMean(j); d = Sub(j, m); q = Pow(d, 2); "
             "v = ReduceMean(q); e = Add(v, 1e-5); s = Sqrt(e); n = Div(d, s)",
             false);
  build_node(&f->b, "MatMul", "n w", "y");
  build_output(&f->b, "y", "float");
  for (int opset = 16; opset <= 17; opset++) {
    f->b.model->opset_import[0]->version = opset;
    planning_index(f);
    add_rule(f, PATTERN_LAYER_NORM, CLASS_PIN);
    planning_decide(f);
    assert_int_equal(node_format(f, "first"), FORMAT_FP16);
    assert_int_equal(node_format(f, "y"), FORMAT_FP16);
    assert_int_equal(node_format(f, "h"), opset < 17 ? FORMAT_FP16 : FORMAT_FP32);
    assert_int_equal(f->p.nodes[node_of(&f->g, "h")].reason,
                     opset < 17 ? REASON_NONE : REASON_ENGINE);
  }
}

// Squares follow the product before them, into a format in which nobody sums them up.
static void only_the_rule_keeps_squares_before_a_sum_wide(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_text(f, "q = Mul(h, h); y = ReduceSum(q)", false);
  build_output(&f->b, "y", "float");
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "q"), FORMAT_FP16);
  assert_int_equal(f->p.nodes[node_of(&f->g, "q")].pattern, PATTERN_SUM_OF_SQUARES);
  add_rule(f, PATTERN_SUM_OF_SQUARES, CLASS_PIN);
  planning_decide(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_int_equal(node_format(f, "q"), FORMAT_FP32);
}

// h = MatMul(x, w); GELU of h with its cube; its result times w.
static void activated_product(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_text(f,
             "c = Pow(h, 3); m = Mul(0.044715, c); a = Add(h, m); b = Mul(0.797885, a); "
             "t = Tanh(b); o = Add(1, t); g = Mul(0.5, h); u = Mul(g, o)",
             false);
  build_node(&f->b, "MatMul", "u w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
}

static void a_pattern_that_follows_is_narrow_as_a_whole(void **state) {
  struct planning *f = *state;
  activated_product(f);
  add_rule(f, PATTERN_GELU, CLASS_FOLLOW);
  planning_all(f);
  for (int n = 0; n < f->g.n_nodes; n++)
    assert_int_equal(f->p.nodes[n].format, FORMAT_FP16);
  assert_int_equal(emitted_count(f, "Cast"), 2);  // the model's own input and output
}

static void a_pattern_with_one_node_that_may_not_is_wide_as_a_whole(void **state) {
  struct planning *f = *state;
  activated_product(f);
  add_rule(f, PATTERN_GELU, CLASS_FOLLOW);
  planning_see(f, "c", (float[]){1, 70000}, 2);
  planning_see(f, "m", (float[]){1, 3000}, 2);
  planning_decide(f);
  static const char *const inner[] = {"c", "m", "a", "b", "t", "o", "g", "u"};
  for (int k = 0; k < 8; k++)
    assert_int_equal(node_format(f, inner[k]), FORMAT_FP32);
  assert_string_equal(reason_name(node_reason(f, "c")), "overflow");
  assert_string_equal(reason_name(node_reason(f, "t")), "pattern");
  assert_int_equal(f->p.nodes[node_of(&f->g, "t")].reason_value, value_id(&f->g, "c"));
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
}

// A rule in front that names a node is about this node alone.
static void an_override_of_a_node_goes_before_its_pattern(void **state) {
  struct planning *f = *state;
  normalised_product(f);
  planning_index(f);
  add_rule(f, PATTERN_RMS_NORM, CLASS_PIN);
  assert_int_equal(policy_adjust_class(&f->policy, CLASS_NARROW, "q", &f->arena, &f->d), STATUS_OK);
  planning_decide(f);
  assert_int_equal(node_format(f, "s"), FORMAT_FP32);
  assert_int_equal(f->p.nodes[node_of(&f->g, "q")].class, CLASS_NARROW);
}

static void the_plan_file_names_patterns(void **state) {
  struct planning *f = *state;
  normalised_product(f);
  planning_index(f);
  add_rule(f, PATTERN_RMS_NORM, CLASS_PIN);
  planning_decide(f);
  const char *path = planning_path(f, "plan.json");
  assert_int_equal(plan_write(&f->p, &f->g, path, &f->d), STATUS_OK);
  size_t size;
  assert_non_null(strstr(planning_read_file(f, path, &size), "\"pattern\": \"rms-norm\""));
  struct plan read;
  assert_int_equal(planning_read_plan(f, &read, path, &f->d), STATUS_OK);
  for (int n = 0; n < f->g.n_nodes; n++) {
    assert_int_equal(read.nodes[n].pattern, f->p.nodes[n].pattern);
    assert_int_equal(read.nodes[n].reason, f->p.nodes[n].reason);
  }
}

// ---- size ----

// How many nodes are parts of patterns of that kind.
static int count_kind(struct planning *f, enum pattern kind) {
  struct patterns p;
  int count = 0;
  planning_index(f);
  patterns_find(&p, &f->g, &f->arena);
  for (int n = 0; n < f->g.n_nodes; n++)
    count += p.kind[n] == kind;
  return count;
}

// A search that is not linear would not come to an end here. Chains that every formula could begin
// with: squares of squares, and sigmoids behind a long way of
// reshapes that they share.
static void patterns_are_found_in_linear_time(void **state) {
  struct planning *f = *state;
  build_ends(f);
  char in[20] = "x", out[20], pair[50];
  enum { COUNT = 100000 };
  build_node(&f->b, "Identity", "x", "y");
  for (int k = 0; k < COUNT; k++) {
    snprintf(out, sizeof out, "v%d", k);
    snprintf(pair, sizeof pair, "%s %s", in, k % 4 == 3 ? "shape" : in);
    build_node(&f->b, k % 4 == 3 ? "Reshape" : k % 4 == 2 ? "Add" : "Mul", pair, out);
    snprintf(in, sizeof in, "%s", out);
  }
  assert_int_equal(count_kind(f, PATTERN_NONE), COUNT + 1);
}

static void a_long_way_of_reshapes_is_walked_once(void **state) {
  struct planning *f = *state;
  build_ends(f);
  enum { LONG = 50000, MANY = 20000 };
  build_node(&f->b, "Identity", "x", "y");
  build_node(&f->b, "Sigmoid", "x", "r0");
  char in[20], out[20], pair[50];
  for (int k = 0; k < LONG; k++) {
    snprintf(pair, sizeof pair, "r%d shape", k);
    snprintf(out, sizeof out, "r%d", k + 1);
    build_node(&f->b, "Reshape", pair, out);
  }
  for (int k = 0; k < MANY; k++) {
    snprintf(in, sizeof in, "m%d", k);
    snprintf(pair, sizeof pair, "x r%d", LONG);
    build_node(&f->b, "Mul", pair, in);
  }
  assert_int_equal(count_kind(f, PATTERN_SILU), MANY + LONG + 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patterns_are_found_in_every_form_that_exporters_write),
      cmocka_unit_test(patterns_are_found_with_operands_in_either_order),
      cmocka_unit_test(what_only_resembles_a_pattern_is_none),
      TEST(patterns_end_where_their_formula_does),
      TEST(a_normalisation_includes_its_scale_and_shift),
      TEST(two_patterns_of_one_input_are_two),
      TEST(casts_of_the_author_are_in_no_pattern),
      TEST(patterns_stay_in_their_scope),
      TEST(a_rule_pins_a_pattern_as_a_whole),
      TEST(what_stands_before_a_layer_norm_is_wide_from_opset_17_on),
      TEST(only_the_rule_keeps_squares_before_a_sum_wide),
      TEST(a_pattern_that_follows_is_narrow_as_a_whole),
      TEST(a_pattern_with_one_node_that_may_not_is_wide_as_a_whole),
      TEST(an_override_of_a_node_goes_before_its_pattern),
      TEST(the_plan_file_names_patterns),
      TEST(patterns_are_found_in_linear_time),
      TEST(a_long_way_of_reshapes_is_walked_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
