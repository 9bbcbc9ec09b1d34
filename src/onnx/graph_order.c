// The order in which a scope's nodes can run. A node waits for the producers of its inputs and, if
// it holds graphs, of everything that these read from outside, however deep. Nodes keep their place
// unless a producer stands behind them, which is then moved to the front of its first reader. No
// recursion: a chain of 100,000 nodes in reverse order is a legal file.
#include "graph_build.h"

#include <assert.h>

// Per node the nodes of its own scope that must run before it: wait[first[n]] .. wait[first[n+1]].
struct waits {
  size_t *first;
  int *wait;
};

// The node of `scope` that is `n`, or holds it in one of its graphs at some depth.
static int ancestor_in(const struct graph *g, int n, int scope) {
  while (g->nodes[n].scope != scope) {
    n = g->scopes[g->nodes[n].scope].parent_node;
    assert(n >= 0);
  }
  return n;
}

// Calls for every (node, input): counts if w->wait is NULL, else fills.
static void each_wait(const struct graph *g, struct waits *w, size_t *at) {
  for (int n = 0; n < g->n_nodes; n++)
    for (int k = 0; k < g->nodes[n].n_inputs; k++) {
      int v = g->nodes[n].inputs[k];
      if (v < 0 || g->values[v].producer < 0)
        continue;
      int reader = ancestor_in(g, n, g->values[v].scope);
      if (w->wait)
        w->wait[at[reader]] = g->values[v].producer;
      at[reader]++;
    }
}

static struct waits find_waits(const struct graph *g, struct arena *a) {
  size_t nodes = (size_t)g->n_nodes;
  struct waits w = {.first = arena_array(a, nodes + 1, sizeof *w.first)};
  size_t *at = arena_array(a, nodes + 1, sizeof *at);
  each_wait(g, &w, at);
  for (size_t n = 0; n < nodes; n++) {
    w.first[n + 1] = w.first[n] + at[n];
    at[n] = w.first[n];
  }
  w.wait = arena_array(a, w.first[nodes], sizeof *w.wait);
  each_wait(g, &w, at);
  return w;
}

enum colour { WHITE, ON_STACK, DONE };

struct sorter {
  struct graph *g;
  struct waits waits;
  unsigned char *colour;  // by node
  size_t *next;           // by node: the wait to look at next
  int *stack;
};

// Appends `start` and all that it waits for to the order. False: a cycle goes through *culprit.
static bool emit(struct sorter *s, int start, struct scope *scope, int *count, int *culprit) {
  size_t depth = 0;
  s->stack[depth++] = start;
  s->colour[start] = ON_STACK;
  while (depth) {
    int n = s->stack[depth - 1];
    if (s->next[n] == s->waits.first[n + 1]) {
      scope->order[(*count)++] = n;
      s->colour[n] = DONE;
      depth--;
      continue;
    }
    int before = s->waits.wait[s->next[n]++];
    if (s->colour[before] == ON_STACK) {
      *culprit = before;
      return false;
    }
    if (s->colour[before] == DONE)
      continue;
    s->colour[before] = ON_STACK;
    s->stack[depth++] = before;
  }
  return true;
}

static enum status sort_scope(struct sorter *s, struct scope *scope, struct diag *d) {
  scope->order = arena_array(s->g->arena, (size_t)scope->n_nodes, sizeof *scope->order);
  int count = 0, culprit;
  for (int i = 0; i < scope->n_nodes; i++) {
    if (s->colour[scope->nodes[i]] == DONE || emit(s, scope->nodes[i], scope, &count, &culprit))
      continue;
    diag_at(d, NULL, graph_node_label(s->g, culprit), NULL);
    return diag_fail(d, STATUS_MODEL, "the node depends on its own result: the graph has a cycle");
  }
  assert(count == scope->n_nodes);
  return STATUS_OK;
}

enum status graph_sort(struct graph *g, struct diag *d) {
  struct arena scratch = {0};
  size_t nodes = (size_t)g->n_nodes;
  struct sorter s = {.g = g,
                     .waits = find_waits(g, &scratch),
                     .colour = arena_array(&scratch, nodes, sizeof *s.colour),
                     .next = arena_array(&scratch, nodes, sizeof *s.next),
                     .stack = arena_array(&scratch, nodes, sizeof *s.stack)};
  for (size_t n = 0; n < nodes; n++)
    s.next[n] = s.waits.first[n];
  enum status status = STATUS_OK;
  for (int i = 0; i < g->n_scopes && status == STATUS_OK; i++)
    status = sort_scope(&s, &g->scopes[i], d);
  arena_free(&scratch);
  return status;
}
