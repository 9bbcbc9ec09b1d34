// Chooses what to promote. See promote.h.
#include "promote.h"

#include "tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct choice {
  struct promotions *into;
  struct graph *graph;
  const struct plan *plan;
  const struct verdict *verdict;
  const struct compare *measured;  // by value
  struct arena *arena;
  int round;
  bool to_widest;  // not one rung only
  bool *ancestor;  // by value: leads to an output whose claim failed
  bool *chosen;    // by value, in this round
  int *queue;
  bool *queued;   // by value, while looking for narrow ancestors
  bool *decided;  // by value: follows from a decision
};

// Made by a product that reads narrow operands.
static bool has_narrow_operands(const struct choice *c, int v) {
  const struct value *value = &c->graph->values[v];
  return value->origin == ORIGIN_NODE && c->plan->nodes[value->producer].narrow_operands;
}

// A person decided how v is stored: by its producer, or by all that reads what no node computes.
static bool is_overridden(const struct choice *c, int v) {
  const struct value *value = &c->graph->values[v];
  if (value->origin == ORIGIN_NODE)
    return c->plan->nodes[value->producer].overridden;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node >= 0 && !c->plan->nodes[value->uses[u].node].overridden)
      return false;
  return value->n_uses > 0;
}

// Narrow, and the program's to change.
static bool is_narrow(const struct choice *c, int v) {
  bool narrow = c->plan->values[v].format != FORMAT_FP32 || has_narrow_operands(c, v);
  return c->plan->values[v].considered && narrow && !graph_is_constant(c->graph, v) &&
         !is_overridden(c, v);
}

// What a node reads, its captures in bodies included: the values that its bodies' nodes use from
// outside are uses by nodes of inner scopes; a body's outputs stand for the node's.
static size_t push_inputs(const struct choice *c, int v, size_t tail, bool *seen) {
  const struct graph *g = c->graph;
  const struct value *value = &g->values[v];
  if (value->origin != ORIGIN_NODE)
    return tail;
  const struct node *node = &g->nodes[value->producer];
  for (int k = 0; k < node->n_inputs; k++)
    if (node->inputs[k] >= 0 && !seen[node->inputs[k]]) {
      seen[node->inputs[k]] = true;
      c->queue[tail++] = node->inputs[k];
    }
  for (int b = 0; b < node->n_bodies; b++) {
    const struct scope *body = &g->scopes[node->bodies[b]];
    for (int k = 0; k < body->n_outputs; k++)
      if (body->outputs[k] >= 0 && !seen[body->outputs[k]]) {
        seen[body->outputs[k]] = true;
        c->queue[tail++] = body->outputs[k];
      }
  }
  return tail;
}

static void find_ancestors(struct choice *c) {
  size_t head = 0, tail = 0;
  for (int i = 0; i < c->verdict->n_claims; i++) {
    const struct verdict_claim *claim = &c->verdict->claims[i];
    int v = claim->holds ? -1 : graph_lookup(c->graph, 0, claim->output);
    if (v >= 0 && !c->ancestor[v]) {
      c->ancestor[v] = true;
      c->queue[tail++] = v;
    }
  }
  while (head < tail)
    tail = push_inputs(c, c->queue[head++], tail, c->ancestor);
}

static int rung_of(const struct plan *p, enum format_id f) {
  for (int r = 0; r < p->n_ladder; r++)
    if (p->ladder[r] == f)
      return r;
  return p->n_ladder - 1;
}

static void promote(struct choice *c, int v, double error) {
  if (c->chosen[v])
    return;
  c->chosen[v] = true;
  struct promotions *to = c->into;
  struct promotion step = {.round = c->round, .value = v, .error = error};
  if (has_narrow_operands(c, v)) {  // the first step up
    to->wide_operands[v] = step.of_operands = true;
    step.from = c->plan->operand_format;
    step.to = c->plan->values[v].format;
  } else {
    int from = rung_of(c->plan, c->plan->values[v].format);
    int rung = c->to_widest ? c->plan->n_ladder - 1 : from + 1;
    to->rung[v] = step.rung = (uint8_t)rung;
    step.from = c->plan->ladder[from];
    step.to = c->plan->ladder[rung];
  }
  to->log = arena_grow(c->arena, to->log, &to->capacity, to->count + 1, sizeof *to->log);
  to->log[to->count++] = step;
}

// The narrow values that v depends on with no narrow value in between.
static void promote_nearest_narrow(struct choice *c, int v, double error) {
  if (is_narrow(c, v)) {
    promote(c, v, error);
    return;
  }
  size_t head = 0, tail = 0;
  c->queue[tail++] = v;
  c->queued[v] = true;
  while (head < tail) {
    int at = c->queue[head++];
    if (is_narrow(c, at))
      promote(c, at, error);
    else
      tail = push_inputs(c, at, tail, c->queued);
  }
  for (size_t i = 0; i < tail; i++)
    c->queued[c->queue[i]] = false;
}

// Error of v beyond the largest of its producer's inputs; 0 where nothing was compared.
static double local_error(const struct choice *c, int v) {
  const struct value *value = &c->graph->values[v];
  if (value->origin != ORIGIN_NODE || c->decided[v] || c->measured[v].runs == 0)
    return 0;
  double inherited = 0;
  const struct node *node = &c->graph->nodes[value->producer];
  for (int k = 0; k < node->n_inputs; k++)
    if (node->inputs[k] >= 0 && c->measured[node->inputs[k]].runs > 0)
      inherited = fmax(inherited, compare_relative_l2(&c->measured[node->inputs[k]]));
  double local = compare_relative_l2(&c->measured[v]) - inherited;
  return local > 0 && isfinite(local) ? local : 0;
}

static bool is_float_value(const struct graph *g, int v) {
  return v >= 0 && tensor_is_float(g->values[v].type.elem_type) && !graph_is_constant(g, v);
}

// A node that makes integers or booleans of floats decides something: a comparison, ArgMax, TopK,
// NonMaxSuppression. What looks at shapes only does not.
static bool decides(const struct graph *g, const struct node *node) {
  if (node_is(node, "Shape") || node_is(node, "Size"))
    return false;
  bool reads_floats = false, gives_others = false;
  for (int k = 0; k < node->n_inputs; k++)
    reads_floats = reads_floats || is_float_value(g, node->inputs[k]);
  for (int k = 0; k < node->n_outputs; k++)
    gives_others = gives_others || (node->outputs[k] >= 0 && !is_float_value(g, node->outputs[k]));
  return reads_floats && gives_others;
}

static void find_decided(struct choice *c) {
  const struct graph *g = c->graph;
  for (int i = 0; i < g->scopes[0].n_nodes; i++) {
    const struct node *node = &g->nodes[g->scopes[0].order[i]];
    bool decided = decides(g, node);
    for (int k = 0; k < node->n_inputs && !decided; k++)
      decided = node->inputs[k] >= 0 && c->decided[node->inputs[k]];
    for (int k = 0; k < node->n_outputs; k++)
      if (node->outputs[k] >= 0)
        c->decided[node->outputs[k]] = decided;
  }
}

static struct choice begin(struct promotions *into, struct graph *g, const struct plan *p,
                           const struct verdict *v, const struct compare *errors, int round,
                           struct arena *a) {
  size_t values = (size_t)g->n_values;
  struct choice c = {
      .into = into,
      .graph = g,
      .plan = p,
      .verdict = v,
      .measured = errors,
      .arena = a,
      .round = round,
      .ancestor = arena_array(a, values, sizeof *c.ancestor),
      .chosen = arena_array(a, values, sizeof *c.chosen),
      .queue = arena_array(a, values, sizeof *c.queue),
      .queued = arena_array(a, values, sizeof *c.queued),
      .decided = arena_array(a, values, sizeof *c.decided),
  };
  if (!into->rung) {
    into->rung = arena_array(a, values, sizeof *into->rung);
    into->wide_operands = arena_array(a, values, sizeof *into->wide_operands);
    into->handled = arena_array(a, values, sizeof *into->handled);
  }
  find_ancestors(&c);
  find_decided(&c);
  return c;
}

static int compare_entries(const void *x, const void *y) {
  const struct promotion *a = x, *b = y;
  if (a->error != b->error)
    return a->error > b->error ? -1 : 1;
  return a->value < b->value ? -1 : a->value > b->value;
}

bool promote_choose(struct promotions *into, struct graph *g, const struct plan *p,
                    const struct verdict *v, const struct compare *errors_of, int round,
                    struct arena *a) {
  size_t before = into->count;
  struct choice c = begin(into, g, p, v, errors_of, round, a);
  if (v->first_nonfinite >= 0)
    promote_nearest_narrow(&c, v->first_nonfinite, INFINITY);
  double *errors = arena_array(a, (size_t)g->n_values, sizeof *errors), largest = 0;
  for (int i = 0; i < g->n_values; i++) {
    errors[i] = c.ancestor[i] && !is_overridden(&c, i) ? local_error(&c, i) : 0;
    // One whose causes were promoted before goes on to lose more of them, but no longer hides
    // others.
    largest = into->handled[i] ? largest : fmax(largest, errors[i]);
  }
  double least = ldexp(largest, -round);
  for (int i = 0; i < g->n_values; i++)
    if (errors[i] > 0 && errors[i] >= least) {
      promote_nearest_narrow(&c, i, errors[i]);
      into->handled[i] = true;
    }
  if (into->count > before)
    qsort(into->log + before, into->count - before, sizeof *into->log, compare_entries);
  return into->count > before;
}

static void promote_values(struct choice *c, const int *values, int count) {
  for (int i = 0; i < count; i++)
    if (values[i] >= 0 && c->ancestor[values[i]] && is_narrow(c, values[i]))
      promote(c, values[i], local_error(c, values[i]));
}

// Bodies stand before what their node gives out; the body of a function at its first call.
static void promote_scope(struct choice *c, int s, bool *listed) {
  const struct scope *scope = &c->graph->scopes[s];
  if (listed[s])
    return;
  listed[s] = true;
  promote_values(c, scope->inputs, scope->n_inputs);
  for (int i = 0; i < scope->n_nodes; i++) {
    const struct node *node = &c->graph->nodes[scope->order[i]];
    for (int b = 0; b < node->n_bodies; b++)
      promote_scope(c, node->bodies[b], listed);
    promote_values(c, node->outputs, node->n_outputs);
  }
}

struct promotions promote_all(struct graph *g, const struct plan *p, const struct verdict *v,
                              struct arena *a) {
  struct promotions all = {0};
  struct choice c = begin(&all, g, p, v, v->values, 1, a);
  c.to_widest = true;
  promote_scope(&c, 0, arena_array(a, (size_t)g->n_scopes, sizeof(bool)));
  return all;
}

size_t promote_before_last_round(const struct promotions *p) {
  size_t count = p->count;
  while (count > 0 && p->log[count - 1].round == p->log[p->count - 1].round)
    count--;
  return count;
}

struct promotions promote_first(const struct promotions *all, size_t count, size_t values,
                                struct arena *a) {
  struct promotions p = {
      .rung = arena_array(a, values, sizeof *p.rung),
      .wide_operands = arena_array(a, values, sizeof *p.wide_operands),
      .handled = all->handled,
      .log = arena_array(a, all->count, sizeof *p.log),
      .count = count,
      .capacity = all->count,
  };
  if (all->count)
    memcpy(p.log, all->log, all->count * sizeof *p.log);
  for (size_t i = 0; i < count; i++) {
    const struct promotion *entry = &p.log[i];
    if (entry->of_operands)
      p.wide_operands[entry->value] = true;
    else if (p.rung[entry->value] < entry->rung)
      p.rung[entry->value] = entry->rung;
  }
  return p;
}
