// Frees loops of what they carry unchanged. See invariants.h.
//
// State i of a body is unchanged if the body gives out, as its next value, the formal itself or an
// Identity of it (ONNX Runtime's Scan needs one to compute the right thing). Then
// every reader of the formal can read the initial value instead, which bodies see as any name
// around them, and the loop's output i equals it too. A body that defines the initial value's name
// for itself keeps its readers as they are.
#include "invariants.h"

#include <string.h>

enum { SCAN_WITHOUT_BATCH = 9, LOOPS_IN_LOOPS = 4 };

// Where the states of a loop are: among the node's inputs, the body's inputs and the body's
// outputs. The node's outputs begin with them.
struct states {
  int count, first_input, first_output;
};

static struct states find_states(const struct graph *g, const struct node *node) {
  const struct scope *body = &g->scopes[node->bodies[0]];
  struct states s = {0};
  if (node_is(node, "Loop"))
    s = (struct states){node->n_inputs - 2, 2, 1};
  const Onnx__AttributeProto *scanned = node_attribute(node->proto, "num_scan_inputs");
  if (node_is(node, "Scan") && scanned && scanned->i >= 0 && scanned->i < node->n_inputs &&
      graph_opset(g, node->scope, "") >= SCAN_WITHOUT_BATCH)
    s = (struct states){node->n_inputs - (int)scanned->i, 0, 0};
  if (s.first_input + s.count > body->n_inputs || s.first_output + s.count > body->n_outputs)
    s.count = 0;
  return s;
}

static void read_from_outside(struct graph *g, int formal, int initial) {
  const char *name = g->values[initial].name;
  for (int u = 0; u < g->values[formal].n_uses; u++) {
    const struct use *use = &g->values[formal].uses[u];
    if (use->node >= 0 && graph_lookup(g, g->nodes[use->node].scope, name) == initial)
      g->nodes[use->node].proto->input[use->index] = (char *)name;
  }
}

static bool read_by_a_node(const struct graph *g, int formal) {
  for (int u = 0; u < g->values[formal].n_uses; u++) {
    const struct use *use = &g->values[formal].uses[u];
    if (use->node >= 0 &&
        strcmp(g->nodes[use->node].proto->input[use->index], g->values[formal].name) == 0)
      return true;
  }
  return false;
}

static void take_out(void *list, size_t *count, size_t at) {
  void **items = list;
  memmove(items + at, items + at + 1, (*count - at - 1) * sizeof *items);
  --*count;
}

static void stop_carrying(Onnx__NodeProto *node, Onnx__GraphProto *body, struct states s, int i) {
  take_out(node->input, &node->n_input, (size_t)(s.first_input + i));
  take_out(node->output, &node->n_output, (size_t)i);
  take_out(body->input, &body->n_input, (size_t)(s.first_input + i));
  take_out(body->output, &body->n_output, (size_t)(s.first_output + i));
}

// What value v is, behind an Identity.
static int behind_identity(const struct graph *g, int v) {
  if (v < 0 || g->values[v].origin != ORIGIN_NODE)
    return v;
  const struct node *maker = &g->nodes[g->values[v].producer];
  return node_is(maker, "Identity") && maker->n_inputs == 1 ? maker->inputs[0] : v;
}

static bool free_state(struct graph *g, const struct node *node, struct states s, int i) {
  const struct scope *body = &g->scopes[node->bodies[0]];
  int initial = node->inputs[s.first_input + i], formal = body->inputs[s.first_input + i];
  if (initial < 0 || formal < 0 ||
      formal != behind_identity(g, body->outputs[s.first_output + i]) ||
      !graph_is_fp32(g, initial) || !graph_is_fp32(g, formal))
    return false;
  read_from_outside(g, formal, initial);
  int result = i < node->n_outputs ? node->outputs[i] : -1;
  if (i < node->n_outputs && node->proto->n_output > 1 &&
      (result < 0 || g->values[result].n_uses == 0) && !read_by_a_node(g, formal))
    stop_carrying(node->proto, body->graph, s, i);
  return true;
}

static bool is_loop(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  return node->n_bodies == 1 && (node_is(node, "Loop") || node_is(node, "Scan"));
}

// How many loops node n is in.
static int depth_of(const struct graph *g, int n) {
  int depth = 0;
  for (n = g->scopes[g->nodes[n].scope].parent_node; n >= 0;
       n = g->scopes[g->nodes[n].scope].parent_node)
    depth += is_loop(g, n);
  return depth;
}

static bool free_at_depth(struct graph *g, int depth, bool *deeper) {
  bool any = false;
  for (int n = 0; n < g->n_nodes; n++) {
    if (!is_loop(g, n))
      continue;
    int at = depth_of(g, n);
    *deeper = *deeper || at > depth;
    if (at != depth)
      continue;
    struct states s = find_states(g, &g->nodes[n]);
    for (int i = s.count - 1; i >= 0; i--)  // backwards: what is taken out moves only what follows
      any = free_state(g, &g->nodes[n], s, i) || any;
  }
  return any;
}

// From outside in: what a loop is freed of, those in it read under its outer name next.
enum status invariants_free(struct graph *g, struct model *m, struct arena *a, struct diag *d) {
  bool deeper = true;
  for (int depth = 0; depth < LOOPS_IN_LOOPS && deeper; depth++) {
    deeper = false;
    if (free_at_depth(g, depth, &deeper))
      TRY(graph_build_again(g, m, g->schemas, a, d));
  }
  return STATUS_OK;
}
