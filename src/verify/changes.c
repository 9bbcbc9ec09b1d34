// A value changes where it is stored or computed narrow, and from there on along all uses: through
// nodes, into the graphs of branches and loops, and out of them again. Each value and node is
// visited once. A Shape counts as changed with its input, whose size may be what data decides.
// Calls of functions are taken for changed, since one body serves many of them. See changes.h.
#include "changes.h"

struct spread {
  const struct graph *graph;
  const struct plan *plan;
  bool *changed, *seen;  // by value; by node
  int *queue;
  size_t count;
};

static void change(struct spread *s, int v) {
  if (v < 0 || s->changed[v])
    return;
  s->changed[v] = true;
  s->queue[s->count++] = v;
}

static void change_all(struct spread *s, const int *values, int n) {
  for (int k = 0; k < n; k++)
    change(s, values[k]);
}

// In a plan for tf32 nothing is stored narrow, and products round what they read.
static bool computes_narrow(const struct spread *s, int n) {
  const struct node *node = &s->graph->nodes[n];
  bool narrow = s->plan->tf32 || s->plan->nodes[n].format != FORMAT_FP32 ||
                s->plan->nodes[n].narrow_operands || node->function >= 0;
  for (int k = 0; k < node->n_inputs && !narrow; k++)
    narrow = node->inputs[k] >= 0 && s->plan->values[node->inputs[k]].operand;
  return narrow;
}

// What a loop's node reads is what its body begins with; a branch's body has no inputs.
static void change_node(struct spread *s, int n) {
  const struct node *node = &s->graph->nodes[n];
  if (s->seen[n])
    return;
  s->seen[n] = true;
  change_all(s, node->outputs, node->n_outputs);
  for (int b = 0; b < node->n_bodies; b++) {
    const struct scope *body = &s->graph->scopes[node->bodies[b]];
    change_all(s, body->inputs, body->n_inputs);
  }
}

static void follow_uses(struct spread *s, int v) {
  const struct value *value = &s->graph->values[v];
  for (int i = 0; i < value->n_uses; i++)
    if (value->uses[i].node >= 0)
      change_node(s, value->uses[i].node);
  int parent = s->graph->scopes[value->scope].parent_node;
  if (value->is_output && parent >= 0)
    change_node(s, parent);
}

bool *changes_find(const struct graph *g, const struct plan *p, struct arena *a) {
  struct spread s = {.graph = g,
                     .plan = p,
                     .changed = arena_array(a, (size_t)g->n_values, sizeof *s.changed),
                     .seen = arena_array(a, (size_t)g->n_nodes, sizeof *s.seen),
                     .queue = arena_array(a, (size_t)g->n_values, sizeof *s.queue)};
  for (int v = 0; v < g->n_values; v++)
    if (p->values[v].format != FORMAT_FP32)
      change(&s, v);
  for (int n = 0; n < g->n_nodes; n++)
    if (computes_narrow(&s, n))
      change_node(&s, n);
  for (size_t i = 0; i < s.count; i++)
    follow_uses(&s, s.queue[i]);
  return s.changed;
}
