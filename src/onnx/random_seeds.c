// Finds the nodes that draw random numbers and gives them seeds. See random_seeds.h.
#include "random_seeds.h"

#include "proto.h"

static const struct generator {
  const char *op;
  bool whole;  // its seed is an integer, else a float
} generators[] = {
    {"RandomNormal", false},  {"RandomNormalLike", false},
    {"RandomUniform", false}, {"RandomUniformLike", false},
    {"Bernoulli", false},     {"Multinomial", false},
    {"Dropout", true},
};

static const struct generator *generator_of(const struct node *n) {
  for (size_t i = 0; i < sizeof generators / sizeof *generators; i++)
    if (node_is(n, generators[i].op))
      return &generators[i];
  return NULL;
}

static bool is_false(const Onnx__TensorProto *t) {
  return t && ((t->raw_data.len == 1 && t->raw_data.data[0] == 0) ||
               (t->n_int32_data == 1 && t->int32_data[0] == 0));
}

static bool is_constant_false(const struct graph *g, int v) {
  if (!graph_is_constant(g, v))
    return false;
  const struct value *value = &g->values[v];
  if (value->origin != ORIGIN_NODE)
    return is_false(value->initializer);
  const Onnx__AttributeProto *held = node_attribute(g->nodes[value->producer].proto, "value");
  return held && is_false(held->t);
}

// Before opset 12 a Dropout has no third input: it is out of training, or no engine here runs it.
static bool node_draws(const struct graph *g, const struct node *n) {
  const struct generator *generator = generator_of(n);
  if (!generator || n->function >= 0)
    return false;
  if (!generator->whole)
    return true;
  return n->n_inputs > 2 && n->inputs[2] >= 0 && !is_constant_false(g, n->inputs[2]);
}

// A function's node may leave its seed to calls, which may leave it out.
static bool has_seed(const Onnx__NodeProto *n) {
  const Onnx__AttributeProto *seed = node_attribute(n, "seed");
  return seed && !text_of(seed->ref_attr_name)[0];
}

static void set_seed(struct arena *a, const struct node *n, uint32_t seed) {
  Onnx__AttributeProto *left_to_calls = node_attribute(n->proto, "seed");
  Onnx__AttributeProto *added = generator_of(n)->whole
                                    ? proto_add_int(a, n->proto, "seed", seed)
                                    : proto_add_float(a, n->proto, "seed", (float)seed);
  if (!left_to_calls)
    return;
  *left_to_calls = *added;
  n->proto->n_attribute--;
}

// ONNX Runtime feeds a seed to a linear congruential generator, whose first numbers follow a small
// one closely: so the seeds of neighbours are far apart. All differ, and a float holds each: the
// steps can be undone in 24 bits.
static uint32_t seed_at(uint32_t place) {
  uint32_t x = (place + 1) * 0x9E3779 & 0xFFFFFF;
  x ^= x >> 13;
  x = x * 0x85EBCB & 0xFFFFFF;
  return x ^ x >> 11;
}

struct giving {
  const struct graph *graph;
  struct arena *arena;
  uint32_t place;  // of the next node that draws
};

// Nodes in sorted order, as a rewrite writes them. Bodies lie as deep as the limits of loading let
// them.
static void give_in_scope(struct giving *w, int s) {
  const struct graph *g = w->graph;
  for (int i = 0; i < g->scopes[s].n_nodes; i++) {
    const struct node *n = &g->nodes[g->scopes[s].order[i]];
    for (int k = 0; k < n->n_bodies; k++)
      give_in_scope(w, n->bodies[k]);
    if (!node_draws(g, n))
      continue;
    uint32_t seed = seed_at(w->place++);
    if (!has_seed(n->proto))
      set_seed(w->arena, n, seed);
  }
}

int random_draws(const struct graph *g, int *unseeded) {
  int count = 0;
  *unseeded = 0;
  for (int n = 0; n < g->n_nodes; n++) {
    if (!node_draws(g, &g->nodes[n]))
      continue;
    count++;
    *unseeded += !has_seed(g->nodes[n].proto);
  }
  return count;
}

void random_seeds_give(const struct graph *g, struct model *copy, struct arena *a) {
  int unseeded;
  random_draws(g, &unseeded);
  if (unseeded == 0)
    return;
  struct graph index = graph_of_clone(g, copy, a);
  struct giving giving = {.graph = &index, .arena = a};
  for (int s = 0; s < g->n_scopes; s++)
    if (g->scopes[s].parent < 0)
      give_in_scope(&giving, s);
}
