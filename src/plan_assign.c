// Assigns formats to nodes. Nodes of class narrow take the most wanted format that they may run in;
// nodes of class follow take the format of a narrow neighbour; then nodes whose narrow format costs
// more Casts than it saves go back to fp32, one at a time, until none is left. Each step only
// widens, so it ends; nodes are visited in id order, so the result is the same on every run.
#include "plan_assign.h"

#include <stdlib.h>

// Readers of a value, counted by the format that they want: what is needed to price its Casts.
struct wants {
  int by_format[FORMAT_COUNT];
  enum format_id stored;
  bool constant;  // a constant is stored once per format: no Cast
};

struct assignment {
  struct plan *plan;
  const struct graph *graph;
  const struct policy *policy;
  const uint8_t *allowed;
  struct wants *wants;  // by value
  int *queue;
  bool *queued;
};

static bool fp32_value(const struct graph *g, int v) {
  return v >= 0 && g->values[v].type.kind == TYPE_TENSOR &&
         g->values[v].type.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
}

// Nodes of class follow that touch value v and may run in rung r take it, and are queued.
static void spread_over_value(struct assignment *s, int v, int r, size_t *tail) {
  if (!fp32_value(s->graph, v) || graph_is_constant(s->graph, v))
    return;
  const struct value *value = &s->graph->values[v];
  for (int u = -1; u < value->n_uses; u++) {
    int n = u < 0 ? value->producer : value->uses[u].node;
    if (n < 0 || s->queued[n] || s->plan->nodes[n].class != CLASS_FOLLOW ||
        !(s->allowed[n] & (1u << r)))
      continue;
    s->plan->nodes[n].format = s->policy->ladder[r];
    s->queued[n] = true;
    s->queue[(*tail)++] = n;
  }
}

// Breadth first from the narrow nodes of rung r.
static void spread_rung(struct assignment *s, int r) {
  const struct graph *g = s->graph;
  size_t head = 0, tail = 0;
  for (int n = 0; n < g->n_nodes; n++)
    if (s->plan->nodes[n].class == CLASS_NARROW &&
        s->plan->nodes[n].format == s->policy->ladder[r] && !s->queued[n]) {
      s->queued[n] = true;
      s->queue[tail++] = n;
    }
  while (head < tail) {
    const struct node *node = &g->nodes[s->queue[head++]];
    for (int k = 0; k < node->n_inputs; k++)
      spread_over_value(s, node->inputs[k], r, &tail);
    for (int k = 0; k < node->n_outputs; k++)
      spread_over_value(s, node->outputs[k], r, &tail);
  }
}

static int casts(const struct wants *w) {
  int count = 0;
  for (int f = 0; f < FORMAT_COUNT; f++)
    count += w->by_format[f] > 0 && f != (int)w->stored;
  return w->constant ? 0 : count;
}

// Adds (sign 1) or takes away (sign -1) node n's wishes and products, returns the Casts at the
// values that it touches. A value that a node touches twice is counted twice both before and after,
// which cancels out in the difference that the caller forms.
static void count_node(struct assignment *s, int n, int sign) {
  const struct node *node = &s->graph->nodes[n];
  for (int k = 0; k < node->n_inputs; k++) {
    enum format_id wanted = plan_input_format(s->graph, s->plan, n, k);
    if (wanted != FORMAT_COUNT)
      s->wants[node->inputs[k]].by_format[wanted] += sign;
  }
  if (sign < 0)
    return;
  for (int k = 0; k < node->n_outputs; k++) {
    enum format_id stored = plan_output_format(s->graph, s->plan, n, k);
    if (stored != FORMAT_COUNT)
      s->wants[node->outputs[k]].stored = stored;
  }
}

static int casts_around(const struct assignment *s, int n) {
  const struct node *node = &s->graph->nodes[n];
  int count = 0;
  for (int k = 0; k < node->n_inputs; k++) {
    int v = node->inputs[k];
    bool again = false;  // MatMul(x, x) pays for x once
    for (int j = 0; j < k && !again; j++)
      again = node->inputs[j] == v;
    count += fp32_value(s->graph, v) && !again ? casts(&s->wants[v]) : 0;
  }
  for (int k = 0; k < node->n_outputs; k++)
    count += fp32_value(s->graph, node->outputs[k]) ? casts(&s->wants[node->outputs[k]]) : 0;
  return count;
}

// Widens node n if that saves more than the node gains by being narrow. True if it did.
static bool widen_if_cheaper(struct assignment *s, int n) {
  struct node_plan *node = &s->plan->nodes[n];
  int before = casts_around(s, n);
  enum format_id narrow = node->format;
  count_node(s, n, -1);
  node->format = FORMAT_FP32;
  count_node(s, n, 1);
  double saved = (before - casts_around(s, n)) * s->policy->cast_cost;
  double gain = node->class == CLASS_NARROW ? s->policy->narrow_gain : s->policy->follow_gain;
  if (saved >= gain) {  // a tie goes to the wider format
    node->reason = REASON_BOUNDARY;
    node->reason_format = narrow;
    return true;
  }
  count_node(s, n, -1);
  node->format = narrow;
  count_node(s, n, 1);
  return false;
}

static void queue_neighbours(struct assignment *s, int v, size_t *tail) {
  if (!fp32_value(s->graph, v) || graph_is_constant(s->graph, v))
    return;
  const struct value *value = &s->graph->values[v];
  for (int u = -1; u < value->n_uses; u++) {
    int n = u < 0 ? value->producer : value->uses[u].node;
    if (n < 0 || s->queued[n] || s->plan->nodes[n].format == FORMAT_FP32)
      continue;
    s->queued[n] = true;
    s->queue[(*tail)++ % (size_t)s->graph->n_nodes] = n;
  }
}

static void clean_boundaries(struct assignment *s) {
  const struct graph *g = s->graph;
  size_t head = 0, tail = 0;
  for (int n = 0; n < g->n_nodes; n++) {
    s->queued[n] = s->plan->nodes[n].format != FORMAT_FP32;
    if (s->queued[n])
      s->queue[tail++] = n;
  }
  // A ring: a node is in it at most once, and each widening happens at most once per node.
  while (head < tail) {
    int n = s->queue[head++ % (size_t)g->n_nodes];
    s->queued[n] = false;
    if (s->plan->nodes[n].format == FORMAT_FP32 || !widen_if_cheaper(s, n))
      continue;
    // Other readers of an input see another price only when a format got its first or lost its
    // last-but-one reader: asked so, a value with many readers is looked at a few times, not often.
    const struct node *node = &g->nodes[n];
    enum format_id narrow = s->plan->nodes[n].reason_format;
    for (int k = 0; k < node->n_inputs; k++) {
      int v = node->inputs[k];
      if (v >= 0 && (s->wants[v].by_format[narrow] <= 1 || s->wants[v].by_format[FORMAT_FP32] <= 1))
        queue_neighbours(s, v, &tail);
    }
    for (int k = 0; k < node->n_outputs; k++)
      queue_neighbours(s, node->outputs[k], &tail);
  }
}

static void count_wants(struct assignment *s) {
  const struct graph *g = s->graph;
  for (int v = 0; v < g->n_values; v++) {
    s->wants[v].stored = FORMAT_FP32;
    s->wants[v].constant = graph_is_constant(g, v);
    for (int u = 0; u < g->values[v].n_uses; u++)
      if (g->values[v].uses[u].node < 0 &&
          !(s->plan->narrow_outputs && g->values[v].scope == 0))  // else it stays what it was
        s->wants[v].by_format[FORMAT_FP32]++;
  }
  for (int n = 0; n < g->n_nodes; n++)
    count_node(s, n, 1);
}

static enum format_id first_allowed(const struct assignment *s, int n) {
  for (int r = 0; r < s->policy->n_ladder; r++)
    if (s->allowed[n] & (1u << r))
      return s->policy->ladder[r];
  return FORMAT_FP32;
}

void assign_formats(struct plan *p, const struct graph *g, const struct policy *policy,
                    const uint8_t *allowed, struct arena *a) {
  size_t nodes = (size_t)g->n_nodes;
  struct assignment s = {
      .plan = p,
      .graph = g,
      .policy = policy,
      .allowed = allowed,
      .wants = arena_array(a, (size_t)g->n_values, sizeof *s.wants),
      .queue = arena_array(a, nodes, sizeof *s.queue),
      .queued = arena_array(a, nodes, sizeof *s.queued),
  };
  for (int n = 0; n < g->n_nodes; n++)
    p->nodes[n].format = p->nodes[n].class == CLASS_NARROW ? first_allowed(&s, n) : FORMAT_FP32;
  for (int r = 0; r + 1 < policy->n_ladder; r++)
    spread_rung(&s, r);
  for (int n = 0; n < g->n_nodes; n++) {
    struct node_plan *node = &p->nodes[n];
    if (node->class == CLASS_FOLLOW && node->format == FORMAT_FP32 && node->reason == REASON_NONE)
      node->reason = REASON_NO_NEIGHBOUR;
  }
  count_wants(&s);
  clean_boundaries(&s);
}
