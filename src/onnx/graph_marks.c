// What other places of a model say of a value: which formals of functions some call leaves out, and
// which values a training step uses by their names. Part of building the index.
#include "graph_build.h"

// ---- formals that some call leaves out ----

struct stack {
  int *values;
  int count;
};

static void push_omitted(struct graph *g, struct stack *s, int v) {
  if (g->values[v].omitted)
    return;
  g->values[v].omitted = true;
  s->values[s->count++] = v;
}

// A formal that is handed on to another function leaves out that one's formal too.
static void mark_omitted(struct graph *g) {
  struct stack s = {.values = arena_array(g->arena, (size_t)g->n_values, sizeof *s.values)};
  for (int n = 0; n < g->n_nodes; n++) {
    const struct node *call = &g->nodes[n];
    const struct scope *body = call->function >= 0 ? &g->scopes[call->function] : NULL;
    for (int k = 0; body && k < body->n_inputs; k++)
      if (k >= call->n_inputs || call->inputs[k] < 0)
        push_omitted(g, &s, body->inputs[k]);
  }
  while (s.count > 0) {
    const struct value *v = &g->values[s.values[--s.count]];
    for (int u = 0; u < v->n_uses; u++) {
      int n = v->uses[u].node;
      const struct scope *body =
          n >= 0 && g->nodes[n].function >= 0 ? &g->scopes[g->nodes[n].function] : NULL;
      if (body && v->uses[u].index < body->n_inputs)
        push_omitted(g, &s, body->inputs[v->uses[u].index]);
    }
  }
}

// ---- training ----

static void mark_name(struct graph *g, const char *name) {
  int v = map_get(&g->names, 0, text_of(name));
  if (v >= 0)
    g->values[v].trained = true;
}

// All names that the graph reads, those of its own values among them: they do no harm. The depth is
// limited since the model was loaded with limits.
static void mark_reads(struct graph *g, const Onnx__GraphProto *graph) {
  if (!graph)
    return;
  for (size_t i = 0; i < graph->n_output; i++)
    mark_name(g, graph->output[i]->name);
  for (size_t i = 0; i < graph->n_node; i++) {
    const Onnx__NodeProto *node = graph->node[i];
    for (size_t k = 0; k < node->n_input; k++)
      mark_name(g, node->input[k]);
    for (size_t k = 0; k < node->n_attribute; k++) {
      mark_reads(g, node->attribute[k]->g);
      for (size_t b = 0; b < node->attribute[k]->n_graphs; b++)
        mark_reads(g, node->attribute[k]->graphs[b]);
    }
  }
}

static void mark_bindings(struct graph *g, Onnx__StringStringEntryProto **list, size_t count) {
  for (size_t i = 0; i < count; i++)
    mark_name(g, list[i]->key);
}

static void mark_trained(struct graph *g) {
  const Onnx__ModelProto *m = g->model->proto;
  for (size_t i = 0; i < m->n_training_info; i++) {
    const Onnx__TrainingInfoProto *t = m->training_info[i];
    mark_bindings(g, t->initialization_binding, t->n_initialization_binding);
    mark_bindings(g, t->update_binding, t->n_update_binding);
    mark_reads(g, t->initialization);
    mark_reads(g, t->algorithm);
  }
}

void graph_mark(struct graph *g) {
  mark_omitted(g);
  mark_trained(g);
}
