// Places of a run: see trace_places.h. Observers run right behind what produces their values
// (trace_instrument.c), so that values are seen in the graph's own order: when a run ends in
// between, it ended in one of the nodes that stand between two values, most likely the last of
// them, which makes the second. Others are those that give no float, or whose statistics are
// derived.
#include "trace_places.h"

// Per node its number in the order of its scope, from 1.
static size_t *number_nodes(const struct graph *g, struct arena *a) {
  size_t *number = arena_array(a, (size_t)g->n_nodes, sizeof *number);
  for (int s = 0; s < g->n_scopes; s++)
    for (int k = 0; k < g->scopes[s].n_nodes; k++)
      number[g->scopes[s].order[k]] = (size_t)k + 1;
  return number;
}

// `next`: the node that makes the next value, or -1; `last`: the one behind which it is sought, or
// -1 for the beginning of the scope.
static struct record_place place_between(const struct graph *g, int last, int next,
                                         const size_t *number) {
  if (next < 0)
    return (struct record_place){0};
  return (struct record_place){
      .node = graph_node_label(g, next),
      .op_type = g->nodes[next].proto->op_type,
      .others = number[next] - (last >= 0 ? number[last] : 0) - 1,
  };
}

struct record_place *places_make(const struct graph *g, const int *values, size_t n,
                                 struct arena *a) {
  const size_t *number = number_nodes(g, a);
  struct record_place *places = arena_array(a, n + 1, sizeof *places);
  int next = -1;  // the node that makes the next value which another node makes
  for (size_t i = n; i-- > 0;) {
    const struct value *v = &g->values[values[i]];
    if (i + 1 < n) {
      const struct value *after = &g->values[values[i + 1]];
      if (after->scope != v->scope)
        next = -1;
      else if (after->producer >= 0 && after->producer != v->producer)
        next = after->producer;
    }
    places[i] = place_between(g, v->producer, next, number);
    places[i].tensor = graph_value_label(g, values[i]);
  }
  int first = n ? g->values[values[0]].producer : -1;
  places[n] = place_between(g, -1, first >= 0 ? first : next, number);
  return places;
}
