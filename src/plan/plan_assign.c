// Assigns formats to nodes. Nodes of class narrow want the first format that they may run in; nodes
// of class follow want that of a neighbour, and so on outwards from the narrow nodes and from what
// the author cast from or to that format. Then the
// minimum cut decides who gets what it wants: first against fp32, then, in a longer ladder, each
// rung against the next. Nodes are visited in id order, so the result is the same on every run.
#include "plan_assign.h"

#include "plan_cut.h"

struct assignment {
  struct plan *plan;
  const struct graph *graph;
  const uint8_t *allowed;
  enum format_id *wanted;  // by node
  int *queue;
  bool *queued;
  int *spread;  // by value: rung + 1 of the last spread over it
};

// ---- what each node wants ----

// Nodes of class follow that touch value v and may run in rung r want it, and are queued. Once per
// value and rung: each of many readers would else look at all the others.
static void spread_over_value(struct assignment *s, int v, int r, size_t *tail) {
  if (!graph_is_fp32(s->graph, v) || graph_is_constant(s->graph, v) || s->spread[v] == r + 1)
    return;
  s->spread[v] = r + 1;
  const struct value *value = &s->graph->values[v];
  for (int u = -1; u < value->n_uses; u++) {
    int n = u < 0 ? value->producer : value->uses[u].node;
    if (n < 0 || s->queued[n] || s->plan->nodes[n].class != CLASS_FOLLOW ||
        !(s->allowed[n] & (1u << r)))
      continue;
    s->wanted[n] = s->plan->ladder[r];
    s->queued[n] = true;
    s->queue[(*tail)++] = n;
  }
}

// What the author has in rung r already is a neighbour too, behind a Cast from it or before one to
// it, where the policy lets these follow: else what is between them is their author's decision.
static void spread_over_casts(struct assignment *s, int r, size_t *tail) {
  const struct graph *g = s->graph;
  enum format_id f = s->plan->ladder[r];
  for (int n = 0; n < g->n_nodes; n++) {
    const struct node *node = &g->nodes[n];
    if (!node_is(node, "Cast") || s->plan->nodes[n].class != CLASS_FOLLOW || node->n_inputs != 1 ||
        node->n_outputs != 1)
      continue;
    int from = node->inputs[0], to = node->outputs[0];
    struct copy given;
    if (to >= 0 && plan_given_copy(g, to, &given) && given.format == f)
      spread_over_value(s, to, r, tail);
    else if (plan_casts_as_stored(g, s->plan, n) &&
             g->values[to].type.elem_type == formats[f].onnx_type)
      spread_over_value(s, from, r, tail);
  }
}

// Breadth first from the nodes of class narrow that want rung r.
static void spread_rung(struct assignment *s, int r) {
  const struct graph *g = s->graph;
  size_t head = 0, tail = 0;
  for (int n = 0; n < g->n_nodes; n++)
    if (s->plan->nodes[n].class == CLASS_NARROW && s->wanted[n] == s->plan->ladder[r]) {
      s->queued[n] = true;
      s->queue[tail++] = n;
    }
  spread_over_casts(s, r, &tail);
  while (head < tail) {
    const struct node *node = &g->nodes[s->queue[head++]];
    for (int k = 0; k < node->n_inputs; k++)
      spread_over_value(s, node->inputs[k], r, &tail);
    for (int k = 0; k < node->n_outputs; k++)
      spread_over_value(s, node->outputs[k], r, &tail);
  }
}

static enum format_id first_allowed(const struct assignment *s, int n) {
  for (int r = 0; r < s->plan->n_ladder; r++)
    if (s->allowed[n] & (1u << r))
      return s->plan->ladder[r];
  return FORMAT_FP32;
}

static void find_wanted(struct assignment *s) {
  for (int n = 0; n < s->graph->n_nodes; n++)
    s->wanted[n] = s->plan->nodes[n].class == CLASS_NARROW ? first_allowed(s, n) : FORMAT_FP32;
  for (int r = 0; r + 1 < s->plan->n_ladder; r++)
    spread_rung(s, r);
}

// ---- the cuts ----

static void cut_from_fp32(const struct assignment *s, const struct costs *costs,
                          struct choice_of_formats *choices) {
  for (int n = 0; n < s->graph->n_nodes; n++)
    choices[n] = (struct choice_of_formats){
        s->wanted[n], s->plan->nodes[n].overridden ? s->wanted[n] : FORMAT_FP32};
  cut_formats(costs, s->plan, choices);
}

// The next narrow rung that node n may run in, or its own.
static enum format_id next_allowed(const struct assignment *s, int n, int r) {
  for (int next = r + 1; next + 1 < s->plan->n_ladder; next++)
    if (s->allowed[n] & (1u << next))
      return s->plan->ladder[next];
  return s->plan->ladder[r];
}

// Nodes of class follow that got rung r go to the next if their neighbours there make it cheaper,
// and stay where it is no cheaper: so rung r is the `wide` of the cut, which gets the ties. Those
// of class narrow stay anyway: the ladder's order says what they are worth.
static void cut_between_rungs(const struct assignment *s, int r, const struct costs *costs,
                              struct choice_of_formats *choices) {
  bool any = false;
  for (int n = 0; n < s->graph->n_nodes; n++) {
    enum format_id format = s->plan->nodes[n].format;
    choices[n] = (struct choice_of_formats){format, format};
    if (format == s->plan->ladder[r] && s->plan->nodes[n].class == CLASS_FOLLOW &&
        !s->plan->nodes[n].overridden)
      choices[n].narrow = next_allowed(s, n, r);
    any = any || choices[n].wide != choices[n].narrow;
  }
  if (any)
    cut_formats(costs, s->plan, choices);
}

// A node that was denied what it wanted lost it to Casts; one of class follow that wanted nothing
// had nothing to follow.
static void give_reasons(struct assignment *s) {
  for (int n = 0; n < s->graph->n_nodes; n++) {
    struct node_plan *node = &s->plan->nodes[n];
    if (node->format != s->wanted[n]) {
      node->reason = REASON_BOUNDARY;
      node->reason_format = s->wanted[n];
    } else if (node->class == CLASS_FOLLOW && node->format == FORMAT_FP32 &&
               node->reason == REASON_NONE) {
      node->reason = REASON_NO_NEIGHBOUR;
    }
  }
}

void assign_formats(struct plan *p, const struct graph *g, const uint8_t *allowed,
                    const struct costs *costs, struct arena *a) {
  size_t nodes = (size_t)g->n_nodes;
  struct assignment s = {
      .plan = p,
      .graph = g,
      .allowed = allowed,
      .wanted = arena_array(a, nodes, sizeof *s.wanted),
      .queue = arena_array(a, nodes, sizeof *s.queue),
      .queued = arena_array(a, nodes, sizeof *s.queued),
      .spread = arena_array(a, (size_t)g->n_values, sizeof *s.spread),
  };
  struct choice_of_formats *choices = arena_array(a, nodes, sizeof *choices);
  find_wanted(&s);
  cut_from_fp32(&s, costs, choices);
  for (int r = 0; r + 2 < p->n_ladder; r++)
    cut_between_rungs(&s, r, costs, choices);
  give_reasons(&s);
}
