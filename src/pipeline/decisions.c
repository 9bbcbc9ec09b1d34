// Looks for a decision breadth first, from a value back to what it is made of. Bodies of control
// flow are entered by what they give out; calls of functions are not entered. See decisions.h.
#include "decisions.h"

static bool decides(const struct graph *g, const struct node *node) {
  static const char *const ops[] = {
      "TopK", "NonMaxSuppression", "ArgMax", "ArgMin", "Hardmax", "Unique", "NonZero"};
  bool reads_floats = false;
  for (int k = 0; k < node->n_inputs && !reads_floats; k++)
    reads_floats = graph_is_fp32(g, node->inputs[k]) && !graph_is_constant(g, node->inputs[k]);
  for (size_t i = 0; i < sizeof ops / sizeof ops[0] && reads_floats; i++)
    if (node_is(node, ops[i]))
      return true;
  return false;
}

struct search {
  const struct graph *graph;
  bool *seen;  // by value
  int *queue;
  int count;
};

static void visit(struct search *s, const int *values, int n) {
  for (int i = 0; i < n; i++)
    if (values[i] >= 0 && !s->seen[values[i]]) {
      s->seen[values[i]] = true;
      s->queue[s->count++] = values[i];
    }
}

int decision_before(const struct graph *g, int v, struct arena *a) {
  struct search s = {.graph = g,
                     .seen = arena_array(a, (size_t)g->n_values, sizeof *s.seen),
                     .queue = arena_array(a, (size_t)g->n_values, sizeof *s.queue)};
  visit(&s, &v, 1);
  for (int i = 0; i < s.count; i++) {
    const struct value *value = &g->values[s.queue[i]];
    if (value->origin != ORIGIN_NODE)
      continue;
    const struct node *node = &g->nodes[value->producer];
    if (decides(g, node))
      return value->producer;
    visit(&s, node->inputs, node->n_inputs);
    for (int b = 0; b < node->n_bodies; b++)
      visit(&s, g->scopes[node->bodies[b]].outputs, g->scopes[node->bodies[b]].n_outputs);
  }
  return -1;
}
