// A selecting node tells its choice by integers: TopK and Unique by indices, NonMaxSuppression by
// batch, class and box, NonZero by one index for each axis. If both models chose alike, no row has
// moved; if not, rows of one candidate belong together. But what index a candidate has may follow
// from another selection before: so all behind an output are listed. See choices.h.
#include "choices.h"

#include "selection.h"

#include <string.h>

enum { STEPS = 16 };  // of all walks, for each value of the model

// The output by which the node tells its choice.
static int telling_output(const struct node *node) {
  int k = node_is(node, "TopK") || node_is(node, "Unique") ? 1 : 0;
  return k < node->n_outputs ? node->outputs[k] : -1;
}

static int rows_axis(const struct node *node) {
  const Onnx__AttributeProto *axis = node_attribute(node->proto, "axis");
  if (!node_is(node, "TopK"))
    return 0;
  return axis && axis->i >= -16 && axis->i < 16 ? (int)axis->i : -1;
}

struct choices choices_list(struct graph *g, const bool *changed, struct arena *a) {
  size_t n = (size_t)g->n_nodes, n_values = (size_t)g->n_values;
  struct choices c = {.graph = g,
                      .changed = changed,
                      .seen = arena_array(a, n_values, sizeof *c.seen),
                      .queue = arena_array(a, n_values, sizeof *c.queue),
                      .listed = arena_array(a, n, sizeof *c.listed),
                      .left = STEPS * n_values,
                      .values = arena_array(a, n, sizeof *c.values),
                      .axes = arena_array(a, n, sizeof *c.axes),
                      .transposed = arena_array(a, n, sizeof *c.transposed),
                      .place = arena_array(a, n, sizeof *c.place)};
  for (int i = 0; i < g->n_nodes; i++) {
    const struct node *node = &g->nodes[i];
    c.place[i] = -1;
    if (!selection_may_change(g, changed, node))
      continue;
    int told = telling_output(node);
    c.hidden = c.hidden || g->scopes[g->scopes[node->scope].root].kind == SCOPE_FUNCTION;
    if (node->scope != 0 || told < 0)
      continue;
    c.values[c.n] = told;
    c.axes[c.n] = rows_axis(node);
    c.transposed[c.n] = node_is(node, "NonZero");
    c.place[i] = c.n++;
  }
  return c;
}

// ---- what values depend on ----

static void depend(struct choices *c, const int *values, int n, size_t *count) {
  for (int k = 0; k < n; k++) {
    int v = values[k];
    if (v < 0 || c->seen[v] == c->walk || !c->changed[v])
      continue;
    c->seen[v] = c->walk;
    c->queue[(*count)++] = v;
  }
}

// False if the node's choice, or that of a node in the function that it calls, cannot be seen.
static bool add_choice(struct choices *c, int n, int *behind, int *n_behind) {
  const struct node *node = &c->graph->nodes[n];
  int place = c->place[n];
  if (node->function >= 0)
    return !c->hidden;
  if (place < 0)
    return !selection_may_change(c->graph, c->changed, node);
  if (c->listed[place] != c->walk)
    behind[(*n_behind)++] = place;
  c->listed[place] = c->walk;
  return true;
}

int choices_behind(struct choices *c, const int *values, int n, int *behind) {
  size_t count = 0;
  int n_behind = 0;
  c->walk++;
  depend(c, values, n, &count);
  for (size_t i = 0; i < count; i++) {
    const struct value *at = &c->graph->values[c->queue[i]];
    if (at->origin != ORIGIN_NODE)
      continue;
    const struct node *node = &c->graph->nodes[at->producer];
    if (c->left == 0 || !add_choice(c, at->producer, behind, &n_behind))
      return -1;
    c->left--;
    depend(c, node->inputs, node->n_inputs, &count);
    for (int b = 0; b < node->n_bodies; b++) {
      const struct scope *body = &c->graph->scopes[node->bodies[b]];
      depend(c, body->outputs, body->n_outputs, &count);
    }
  }
  return n_behind;
}

// ---- what was chosen ----

bool choices_read(const struct choices *c, int k, const struct array *x, struct chosen *out,
                  struct arena *a) {
  size_t axis = (size_t)(c->axes[k] < 0 ? c->axes[k] + (int)x->rank : c->axes[k]);
  if (x->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT64 || axis >= x->rank)
    return false;
  if (c->transposed[k]) {
    if (x->rank != 2)
      return false;
    size_t width = (size_t)x->dims[0], rows = (size_t)x->dims[1];
    const int64_t *from = x->data;
    int64_t *keys = arena_array(a, rows * width, sizeof *keys);
    for (size_t i = 0; i < rows * width; i++)
      keys[i] = from[i % width * rows + i / width];
    *out = (struct chosen){keys, 1, rows, width};
    return true;
  }
  *out = (struct chosen){x->data, 1, (size_t)x->dims[axis], 1};
  for (size_t i = 0; i < x->rank; i++)
    if (i != axis)
      *(i < axis ? &out->blocks : &out->width) *= (size_t)x->dims[i];
  return true;
}

bool choices_equal(const struct array *x, const struct array *y) {
  return x->rank == y->rank && x->size == y->size &&
         memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0 &&
         (x->size == 0 || memcmp(x->data, y->data, x->size) == 0);
}
