// The patterns, each variant that exporters make a line (formula.h has the language), and the
// marking of their nodes. See plan_pattern.h.
#include "plan_pattern.h"

#include "formula.h"

#include <string.h>

static const char *const names[] = {
    "layer-norm", "rms-norm", "l2-norm",  "log-softmax", "softmax",        "log-sum-exp", "gelu",
    "mish",       "silu",     "softplus", "sigmoid",     "sum-of-squares", NULL};

static const struct definition definitions[] = {
    {"square", "a", "Mul(a, a) | Pow(a, 2)"},
    {"cube", "a", "Mul(square(a), a) | Pow(a, 3)"},
    {"root", "a", "Sqrt(a) | Pow(a, 0.5)"},
    {"product", "abc", "Mul(Mul(a, b), c) | Mul(Mul(a, c), b) | Mul(Mul(b, c), a)"},
    {"floored", "a", "Max(a, #) | Clip(a) | Relu(a) | a"},

    {"mean", "a",
     "ReduceMean(a) | GlobalAveragePool(a) | Mul(ReduceSum(a), ?) | "
     "Div(ReduceSum(a), ?)"},
    {"centred", "a", "Sub(a, mean(a)) | Add(a, Neg(mean(a)))"},
    {"variance", "a", "mean(square(centred(a))) | Sub(mean(square(a)), square(mean(a)))"},
    {"deviation", "v", "root(Add(floored(v), #)) | root(floored(v)) | Add(root(v), #)"},
    {"inverse", "v", "Reciprocal(deviation(v)) | Div(1, deviation(v)) | Pow(Add(v, #), -0.5)"},
    {"scale", "v", "Mul(inverse(v), ?) | inverse(v)"},
    {"normalised", "av", "Div(a, deviation(v)) | Mul(a, scale(v))"},
    {"layernorm", "a", "normalised(centred(a), variance(a))"},
    {"rmsnorm", "a", "normalised(a, mean(square(a)))"},
    {"squares", "a", "ReduceSum(square(a)) | ReduceMean(square(a)) | GlobalAveragePool(square(a))"},
    {"length", "a",
     "ReduceL2(a) | root(floored(ReduceSum(square(a)))) | "
     "root(Add(ReduceSum(square(a)), #))"},
    {"kept", "a", "Add(a, #) | floored(a)"},

    {"shifted", "a", "Sub(a, floored(ReduceMax(a))) | a"},
    {"powers", "a", "Exp(shifted(a)) | Mul(Exp(shifted(a)), ?)"},
    {"total", "a", "Add(ReduceSum(a), #) | floored(ReduceSum(a))"},
    {"logsumexp", "a",
     "Add(Log(total(Exp(Sub(a, floored(ReduceMax(a)))))), "
     "floored(ReduceMax(a))) | Log(total(Exp(shifted(a))))"},

    {"cubic", "a",
     "Mul(0.044715, cube(a)) | product(0.044715, a, square(a)) | "
     "product(Mul(0.044715, a), a, a)"},
    {"bend", "a",
     "Mul(0.7978846, Add(a, cubic(a))) | "
     "product(0.7978846, a, Add(1, Mul(0.044715, square(a)))) | "
     "Mul(a, Add(0.7978846, Mul(0.0356774, square(a))))"},
    {"step", "a", "Erf(Div(a, 1.4142136)) | Erf(Mul(a, 0.70710678)) | Tanh(bend(a))"},
    {"logistic", "a", "Div(1, Add(1, Exp(Neg(a)))) | Reciprocal(Add(1, Exp(Neg(a)))) | Sigmoid(a)"},
    {"above", "a", "Relu(a) | Max(a, 0)"},
    {"softplus", "a",
     "Log(Add(1, Exp(a))) | Softplus(a) | "
     "Add(above(a), Log(Add(1, Exp(Neg(Abs(a))))))"},
    {NULL, NULL, NULL},
};

static const struct {
  enum pattern pattern;
  const char *formula;
} formulas[] = {
    // With its scale and shift: engines fuse all of it.
    {PATTERN_LAYER_NORM, "Add(Mul(layernorm(x), #), #) | Mul(layernorm(x), #)"},
    {PATTERN_LAYER_NORM, "layernorm(x)"},
    // Scale and shift computed first, as a batch normalisation does.
    {PATTERN_LAYER_NORM,
     "Add(Mul(x, scale(variance(x))), Sub(?, Mul(mean(x), scale(variance(x)))))"},
    {PATTERN_RMS_NORM, "Mul(rmsnorm(x), #) | rmsnorm(x)"},
    {PATTERN_L2_NORM, "Div(x, kept(length(x))) | Mul(x, Reciprocal(kept(length(x))))"},
    {PATTERN_LOG_SOFTMAX, "Sub(shifted(x), Log(total(Exp(shifted(x))))) | Sub(x, logsumexp(x)) | "
                          "Log(Div(powers(x), total(powers(x))))"},
    {PATTERN_SOFTMAX, "Div(powers(x), total(powers(x))) | "
                      "Mul(powers(x), Reciprocal(total(powers(x))))"},
    {PATTERN_LOG_SUM_EXP, "logsumexp(x)"},
    {PATTERN_GELU, "product(0.5, x, Add(1, step(x))) | Div(Mul(x, Add(1, step(x))), 2) | "
                   "Mul(x, Sigmoid(Mul(x, 1.702)))"},
    {PATTERN_MISH, "Mul(x, Tanh(softplus(x)))"},
    {PATTERN_SILU,
     "Mul(x, logistic(x)) | Mul(x, Sigmoid(Mul(x, #))) | Div(x, Add(1, Exp(Neg(x))))"},
    {PATTERN_SOFTPLUS, "Log(Add(1, Exp(x))) | Add(above(x), Log(Add(1, Exp(Neg(Abs(x))))))"},
    {PATTERN_SIGMOID, "Div(1, Add(1, Exp(Neg(x)))) | Reciprocal(Add(1, Exp(Neg(x))))"},
    {PATTERN_SUM_OF_SQUARES, "deviation(variance(x)) | variance(x)"},
    {PATTERN_SUM_OF_SQUARES, "root(squares(x)) | root(Add(squares(x), #)) | squares(x) | "
                             "root(Add(square(x), square(y)))"},
};
enum { FORMULAS = sizeof formulas / sizeof formulas[0] };

const char *pattern_name(enum pattern p) {
  return p == PATTERN_NONE ? "" : names[p - 1];
}

const char *const *pattern_names(void) {
  return names;
}

static void mark_node(struct patterns *p, int n, enum pattern kind, int end) {
  p->kind[n] = kind;
  p->end[n] = end;
}

// From the value by which a node was reached back to the node: what moves elements in between. A
// stretch that is marked already was marked to its start.
static void mark_moves(struct patterns *p, const struct graph *g, const struct matcher *m, int v,
                       enum pattern kind, int end) {
  while (v != m->source[v]) {
    int n = g->values[v].producer;
    if (p->kind[n] != PATTERN_NONE || g->nodes[n].scope != m->scope)
      return;
    mark_node(p, n, kind, end);
    v = g->nodes[n].inputs[0];
  }
}

static void mark_match(struct patterns *p, const struct graph *g, const struct matcher *m,
                       enum pattern kind) {
  for (int k = 0; k < m->n_nodes; k++)
    if (p->kind[m->nodes[k]] == PATTERN_NONE)
      mark_node(p, m->nodes[k], kind, m->nodes[0]);
  for (int k = 0; k < m->n_nodes; k++)
    mark_moves(p, g, m, m->reached[k], kind, m->nodes[0]);
}

// From the end of each scope, so that a pattern is met at its last node before at an inner one that
// would do as well (a sum of squares with the root behind it, or without).
static void find_pattern(struct patterns *p, const struct graph *g, struct matcher *m, int k,
                         const struct term *formula) {
  uint64_t ends = formula_ends(formula);
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = g->scopes[s].n_nodes - 1; i >= 0; i--) {
      int n = g->scopes[s].order[i];
      if (m->op[n] >= 0 && (ends >> m->op[n] & 1) && p->kind[n] == PATTERN_NONE &&
          matcher_match(m, formula, n))
        mark_match(p, g, m, formulas[k].pattern);
    }
}

void patterns_find(struct patterns *p, struct graph *g, struct arena *a) {
  *p = (struct patterns){
      .kind = arena_array(a, (size_t)g->n_nodes, sizeof *p->kind),
      .end = arena_array(a, (size_t)g->n_nodes, sizeof *p->end),
  };
  memset(p->end, -1, (size_t)g->n_nodes * sizeof *p->end);
  struct formulas parsed = {.arena = a, .definitions = definitions};
  const struct term *terms[FORMULAS];
  for (int k = 0; k < FORMULAS; k++)
    terms[k] = formula_parse(&parsed, formulas[k].formula);
  struct matcher m;
  matcher_init(&m, g, &parsed, a);
  for (int k = 0; k < FORMULAS; k++)
    find_pattern(p, g, &m, k, terms[k]);
  for (int n = 0; n < g->n_nodes; n++)
    if (node_is(&g->nodes[n], "Cast"))
      mark_node(p, n, PATTERN_NONE, -1);  // what the author decided is nobody's part
}
