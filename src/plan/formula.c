// A small language for what exporters write out in single operators, so that each variant of a
// pattern is a line of text (plan_pattern.c) and not a function. Parsing replaces definitions by
// their bodies; matching walks the formula and the graph together, from the end of the pattern to
// its inputs, and takes the first alternative that fits. It does not come back to an alternative
// that did fit when something later does not: formulas are written so that this loses nothing.
#include "formula.h"

#include "tensor.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum term_kind { TERM_ANY, TERM_CONSTANT, TERM_NUMBER, TERM_LETTER, TERM_OPERATOR, TERM_EITHER };

enum { TERM_PARTS = 10, NAME_MAX_BYTES = 32 };

struct term {
  enum term_kind kind;
  double number;
  int letter;
  int op;         // index among the formulas' operators
  uint64_t ends;  // bit k: may match what operator k gives; all bits: whatever gives it
  bool commutes;  // of two arguments
  const struct term *parts[TERM_PARTS];  // arguments or alternatives
  int n_parts;
};

// ---- parsing ----

struct parser {
  struct formulas *formulas;
  const char *at;
  const char *parameters;  // of the definition whose body this is; "" in a formula
  const struct term *const *arguments;
};

static const struct term *parse_alternatives(struct parser *p);

static void skip_spaces(struct parser *p) {
  while (*p->at == ' ' || *p->at == '\n')
    p->at++;
}

static bool take(struct parser *p, char c) {
  skip_spaces(p);
  if (*p->at != c)
    return false;
  p->at++;
  return true;
}

static struct term *new_term(struct parser *p, enum term_kind kind) {
  struct term *t = arena_alloc(p->formulas->arena, sizeof *t);
  t->kind = kind;
  t->ends = kind == TERM_EITHER ? 0 : UINT64_MAX;
  return t;
}

static void add_part(struct term *t, const struct term *part) {
  assert(t->n_parts < TERM_PARTS);
  t->parts[t->n_parts++] = part;
  if (t->kind == TERM_EITHER)
    t->ends |= part->ends;
}

static int operator_index(struct formulas *f, const char *name) {
  for (int k = 0; k < f->n_operators; k++)
    if (strcmp(f->operators[k], name) == 0)
      return k;
  assert(f->n_operators < FORMULA_OPERATORS);
  f->operators[f->n_operators] = arena_strdup(f->arena, name);
  return f->n_operators++;
}

static bool is_commutative(const char *op) {
  return strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0 || strcmp(op, "Max") == 0 ||
         strcmp(op, "Min") == 0;
}

static const struct term *expand_definition(struct parser *p, const char *name,
                                            const struct term *call) {
  const struct definition *d = p->formulas->definitions;
  while (d->name && strcmp(d->name, name) != 0)
    d++;
  assert(d->name && (int)strlen(d->parameters) == call->n_parts);
  struct parser body = {p->formulas, d->body, d->parameters, call->parts};
  const struct term *t = parse_alternatives(&body);
  assert(*body.at == '\0');
  return t;
}

// Name(argument, ...)
static const struct term *parse_call(struct parser *p, const char *name) {
  struct term *call = new_term(p, TERM_OPERATOR);
  do
    add_part(call, parse_alternatives(p));
  while (take(p, ','));
  bool closed = take(p, ')');
  assert(closed);
  (void)closed;
  if (islower((unsigned char)name[0]))
    return expand_definition(p, name, call);
  call->op = operator_index(p->formulas, name);
  call->ends = (uint64_t)1 << call->op;
  call->commutes = call->n_parts == 2 && is_commutative(name);
  return call;
}

static const struct term *parse_letter(struct parser *p, char letter) {
  const char *parameter = strchr(p->parameters, letter);
  if (parameter)
    return p->arguments[parameter - p->parameters];
  assert(!*p->parameters);  // a definition has no letters but its parameters
  struct term *t = new_term(p, TERM_LETTER);
  t->letter = letter - 'a';
  return t;
}

static const struct term *parse_term(struct parser *p) {
  if (take(p, '?'))
    return new_term(p, TERM_ANY);
  if (take(p, '#'))
    return new_term(p, TERM_CONSTANT);
  if (!isalpha((unsigned char)*p->at)) {
    struct term *t = new_term(p, TERM_NUMBER);
    char *end;
    t->number = strtod(p->at, &end);
    assert(end != p->at);
    p->at = end;
    return t;
  }
  char name[NAME_MAX_BYTES];
  size_t length = 0;
  while (isalnum((unsigned char)*p->at) && length + 1 < sizeof name)
    name[length++] = *p->at++;
  name[length] = '\0';
  if (take(p, '('))
    return parse_call(p, name);
  assert(length == 1);
  return parse_letter(p, name[0]);
}

static const struct term *parse_alternatives(struct parser *p) {
  const struct term *first = parse_term(p);
  if (!take(p, '|'))
    return first;
  struct term *either = new_term(p, TERM_EITHER);
  add_part(either, first);
  do
    add_part(either, parse_term(p));
  while (take(p, '|'));
  return either;
}

const struct term *formula_parse(struct formulas *f, const char *text) {
  struct parser p = {.formulas = f, .at = text, .parameters = ""};
  const struct term *t = parse_alternatives(&p);
  assert(*p.at == '\0');
  return t;
}

uint64_t formula_ends(const struct term *t) {
  return t->ends;
}

// ---- the graph as formulas see it ----

static bool is_float_tensor(const struct graph *g, int v) {
  return v >= 0 && g->values[v].type.kind == TYPE_TENSOR &&
         tensor_is_float(g->values[v].type.elem_type);
}

// Operators that only move elements (or change their float type), input 0 to output 0.
static const char *const movers[] = {"Identity",  "Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                     "Transpose", "Expand",  "Tile",    "Dropout",   "Cast"};
enum { MOVERS = sizeof movers / sizeof movers[0] };

// Whether a node whose operator moves elements moves those of a float tensor.
static bool moves_floats(const struct graph *g, const struct node *node) {
  return node->n_inputs > 0 && node->n_outputs > 0 && is_float_tensor(g, node->inputs[0]) &&
         is_float_tensor(g, node->outputs[0]);
}

static double scalar_of(const struct graph *g, const Onnx__TensorProto *proto) {
  enum { MOST = 64 };  // a scalar, or one written out along a small axis
  uint64_t count, bytes;
  struct arena temporary = {0};
  struct diag ignored = {0};
  struct tensor t;
  float x[MOST];
  double scalar = NAN;
  if (tensor_extent(proto, &count, &bytes) && count > 0 && count <= MOST &&
      tensor_read(g->model, proto, &temporary, &t, &ignored) == STATUS_OK &&
      tensor_to_float(&t, x)) {
    scalar = (double)x[0];
    for (uint64_t i = 1; i < count; i++)
      if (x[i] != x[0])
        scalar = NAN;
  }
  arena_free(&temporary);
  return scalar;
}

// Operators by name: index among the formulas' in one space, the movers in the other.
enum { IN_FORMULAS, MOVER };

static void name_operators(struct map *names, const struct formulas *f) {
  for (int k = 0; k < f->n_operators; k++)
    map_put(names, IN_FORMULAS, f->operators[k], k);
  for (int k = 0; k < MOVERS; k++)
    map_put(names, MOVER, movers[k], k);
}

static int find_operator(const struct map *names, int space, const struct node *node) {
  const char *op = node->proto->op_type;
  return node_is(node, op) ? map_get(names, space, op) : -1;
}

void matcher_init(struct matcher *m, struct graph *g, const struct formulas *f, struct arena *a) {
  *m = (struct matcher){
      .graph = g,
      .arena = a,
      .source = arena_array(a, (size_t)g->n_values, sizeof *m->source),
      .op = arena_array(a, (size_t)g->n_nodes, sizeof *m->op),
      .scalar = arena_array(a, (size_t)g->n_values, sizeof *m->scalar),
  };
  struct map names = {.arena = a};
  name_operators(&names, f);
  for (int v = 0; v < g->n_values; v++) {
    const Onnx__TensorProto *constant = graph_constant(g, v);
    m->source[v] = v;
    m->scalar[v] = constant ? scalar_of(g, constant) : NAN;
  }
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++) {
      int n = g->scopes[s].order[i];
      const struct node *node = &g->nodes[n];
      m->op[n] = (signed char)find_operator(&names, IN_FORMULAS, node);
      if (find_operator(&names, MOVER, node) >= 0 && moves_floats(g, node))
        m->source[node->outputs[0]] = m->source[node->inputs[0]];
    }
}

// ---- matching ----

// What an attempt that failed must not leave behind.
struct mark {
  int letters[MATCH_LETTERS], n_nodes;
};

static void save(const struct matcher *m, struct mark *mark) {
  memcpy(mark->letters, m->letters, sizeof mark->letters);
  mark->n_nodes = m->n_nodes;
}

static bool restore(struct matcher *m, const struct mark *mark) {
  memcpy(m->letters, mark->letters, sizeof mark->letters);
  m->n_nodes = mark->n_nodes;
  return false;
}

static bool match(struct matcher *m, const struct term *t, int v);

static bool match_pair(struct matcher *m, const struct term *t, int first, int second) {
  return match(m, t->parts[0], first) && match(m, t->parts[1], second);
}

static bool match_operator(struct matcher *m, const struct term *t, int v) {
  const struct value *value = &m->graph->values[m->source[v]];
  if (value->origin != ORIGIN_NODE || value->output != 0 || m->op[value->producer] != t->op ||
      m->n_nodes == MATCH_NODES)
    return false;
  const struct node *node = &m->graph->nodes[value->producer];
  if (node->scope != m->scope || node->n_inputs < t->n_parts)
    return false;
  struct mark before;
  save(m, &before);
  m->reached[m->n_nodes] = v;
  m->nodes[m->n_nodes++] = value->producer;
  if (t->commutes) {
    struct mark entered;
    save(m, &entered);
    return match_pair(m, t, node->inputs[0], node->inputs[1]) || restore(m, &entered) ||
           match_pair(m, t, node->inputs[1], node->inputs[0]) || restore(m, &before);
  }
  for (int k = 0; k < t->n_parts; k++)
    if (!match(m, t->parts[k], node->inputs[k]))
      return restore(m, &before);
  return true;
}

static bool match_number(double found, double wanted) {
  enum { DIGITS = 1000 };  // exporters write 1.4142 as well as 1.41421356
  return fabs(found - wanted) <= fabs(wanted) / (double)DIGITS;
}

// The bit of the operator that gives the value, if there is one that formulas know.
static uint64_t made_by(const struct matcher *m, int v) {
  const struct value *value = &m->graph->values[v];
  int op = value->origin == ORIGIN_NODE ? m->op[value->producer] : -1;
  return op < 0 ? 0 : (uint64_t)1 << op;
}

static bool match(struct matcher *m, const struct term *t, int v) {
  if (v < 0 || m->steps-- <= 0)
    return false;
  int source = m->source[v];
  if (t->ends != UINT64_MAX && !(t->ends & made_by(m, source)))
    return false;
  switch (t->kind) {
  case TERM_ANY: return true;
  case TERM_CONSTANT: return graph_is_constant(m->graph, source);
  case TERM_NUMBER: return match_number(m->scalar[source], t->number);
  case TERM_LETTER:
    if (m->letters[t->letter] < 0)
      m->letters[t->letter] = source;
    return m->letters[t->letter] == source;
  case TERM_OPERATOR: return match_operator(m, t, v);
  case TERM_EITHER:
    for (int k = 0; k < t->n_parts; k++)
      if (match(m, t->parts[k], v))
        return true;
    return false;
  }
  return false;
}

bool matcher_match(struct matcher *m, const struct term *t, int n) {
  enum { STEPS = 2000 };  // the shipped formulas take some hundred at most
  const struct node *node = &m->graph->nodes[n];
  m->scope = node->scope;
  m->steps = STEPS;
  m->n_nodes = 0;
  memset(m->letters, -1, sizeof m->letters);
  if (node->n_outputs == 0 || node->outputs[0] < 0)
    return false;
  int output = node->outputs[0];
  return m->source[output] == output && match(m, t, output);
}
