// The index over a clone. A clone has the same names, nodes and values as the original, in the same
// order, so its index is the original's but for what refers to messages: building it anew would
// look up every name again.
#include "graph.h"

#include "graph_build.h"

static void *copy_array(struct arena *a, const void *from, int count, size_t size) {
  void *to = arena_array(a, (size_t)count, size);
  return count ? memcpy(to, from, (size_t)count * size) : to;
}

// Scopes come before those within them.
static void follow_bodies(struct graph *to, const struct node *node) {
  int k = 0;
  for (size_t i = 0; i < node->proto->n_attribute && k < node->n_bodies; i++) {
    const Onnx__AttributeProto *attribute = node->proto->attribute[i];
    if (attribute->g)
      to->scopes[node->bodies[k++]].graph = attribute->g;
    for (size_t j = 0; j < attribute->n_graphs; j++)
      to->scopes[node->bodies[k++]].graph = attribute->graphs[j];
  }
}

static void follow_nodes(struct graph *to, const struct scope *scope, Onnx__NodeProto **protos) {
  for (int i = 0; i < scope->n_nodes; i++) {
    struct node *node = &to->nodes[scope->nodes[i]];
    node->proto = protos[i];
    if (node->n_bodies)
      follow_bodies(to, node);
  }
}

static void follow_initializers(struct graph *to, int scope, const Onnx__GraphProto *graph) {
  for (size_t i = 0; i < graph->n_initializer; i++) {
    if (i + MAP_FETCH < graph->n_initializer)
      map_fetch(graph->initializer[i + MAP_FETCH]->name);
    if (i + MAP_AHEAD < graph->n_initializer)
      map_announce(&to->names, scope, text_of(graph->initializer[i + MAP_AHEAD]->name));
    int v = map_get(&to->names, scope, text_of(graph->initializer[i]->name));
    if (v >= 0)
      to->values[v].initializer = graph->initializer[i];
  }
}

struct graph graph_of_clone(const struct graph *g, struct model *clone, struct arena *a) {
  struct graph to = *g;
  to.model = clone;
  to.arena = a;
  to.scopes = copy_array(a, g->scopes, g->n_scopes, sizeof *g->scopes);
  to.nodes = copy_array(a, g->nodes, g->n_nodes, sizeof *g->nodes);
  to.values = copy_array(a, g->values, g->n_values, sizeof *g->values);
  for (int v = 0; v < to.n_values; v++)
    to.values[v].constant = NULL;
  size_t f = 0;  // functions that are given twice have no scope of their own
  for (int s = 0; s < to.n_scopes; s++) {
    struct scope *scope = &to.scopes[s];
    if (scope->kind == SCOPE_FUNCTION) {
      while (g->model->proto->functions[f] != g->scopes[s].function)
        f++;
      scope->function = clone->proto->functions[f];
      follow_nodes(&to, scope, scope->function->node);
      continue;
    }
    if (scope->kind == SCOPE_MAIN)
      scope->graph = clone->proto->graph;
    follow_nodes(&to, scope, scope->graph->node);
    follow_initializers(&to, s, scope->graph);
  }
  return to;
}
