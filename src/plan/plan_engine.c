// Known faults of engines: see plan_engine.h.
//
// 1. ONNX Runtime 1.30 and 1.32 (x86-64 CPU, optimisation level "all") end in a segmentation fault
//    while loading a float16 Transpose that moves the first axis inwards and feeds a MatMul, as
//    nn.MultiheadAttention exports it: MatmulTransposeFusion makes a FusedMatMul with a transposed
//    batch behind the Casts that it inserts, and NchwcTransformer falls over it. The smallest such
//    model is made by test_verify; when it loads, this entry can go.
// 2. ONNX Runtime 1.30 does not load a MelWeightMatrix that makes float16: it has a kernel for
// float
//    alone, makes the output float for that, and then finds that the attribute says float16. A test
//    of ONNX, test_melweightmatrix, shows it (tests/conformance).
// 3. ONNX Runtime 1.30 and 1.32 do not load, from level "basic" and opset 17 on, a layer
//    normalisation written out in single operators whose gain is float16 behind a Cast:
//    LayerNormFusion looks through the Cast and makes a LayerNormalization of a float input and
//    float16 gain, which had two types as an operator of its own domain and has one in ONNX's.
//    test_verify makes such a model; when it loads, this entry can go.
// 4. The same fusion takes the Cast in front of the whole, from a float16 input, and fails likewise
//    where gain and shift are fp32: so what makes the input of such a pattern stays fp32, and no
//    Cast stands in front, nor in front of an Identity there, which the engine removes first.
//    vespa_encoder, an encoder raised to opset 17, and a text recogniser showed it.
// 5. ONNX Runtime 1.30 and 1.32, from level "extended" on, drop a Relu that a QuantizeLinear alone
//    reads unless its zero point says that it is needed, which they ask of int8 and uint8 only: in
//    front of codes in float8, negative numbers then come through. pass_quantise writes a Max.
//    A text detector showed it; test_engine makes such a model, and says when this can go.
// 6. ONNX Runtime 1.24 and 1.30 do not load an Attention with an fp32 mask beside float16 queries:
//    they insert Casts into its function body that are of no type. 1.32 does. So where the mask
//    cannot be narrow (-3.4e38), the node stays fp32 (plan_attention.c).
// 7. ONNX Runtime 1.30 and 1.32 run a ScatterND with a reduction on several threads that update the
//    same elements without a lock: where indices repeat, updates are lost, others each time. Sums
//    of a graph network were off by up to 19 % in 60 runs, and not at all on one thread, on which
//    such a model therefore runs (pipeline/run.c). ScatterElements showed nothing of the kind.
#include "plan_engine.h"

#include <string.h>

// perm with axis 0 among the last two places and the other axes in order: what the fusion takes for
// a transposed batch.
static bool moves_batch_inwards(const Onnx__NodeProto *transpose) {
  const Onnx__AttributeProto *perm = node_attribute(transpose, "perm");
  if (!perm || perm->n_ints < 3)
    return false;
  size_t rank = perm->n_ints;
  return perm->ints[rank - 2] == 0 || perm->ints[rank - 1] == 0;
}

static bool feeds_matmul(const struct graph *g, int v) {
  for (int u = 0; v >= 0 && u < g->values[v].n_uses; u++) {
    int reader = g->values[v].uses[u].node;
    if (reader >= 0 && node_is(&g->nodes[reader], "MatMul"))
      return true;
  }
  return false;
}

static bool is_transposed_batch(const struct node *node, const struct graph *g) {
  return node_is(node, "Transpose") && node->n_outputs == 1 && moves_batch_inwards(node->proto) &&
         feeds_matmul(g, node->outputs[0]);
}

enum { LAYER_NORM_OPSET = 17 };

// What does nothing, and the engine removes or looks through before it fuses: Identity, Dropout,
// and Casts of fp32 to fp32, which exporters put around a layer normalisation (that of DeBERTa,
// say).
static bool vanishes(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  if (node->n_inputs < 1 || node->inputs[0] < 0)
    return false;
  if (node_is(node, "Identity") || node_is(node, "Dropout"))
    return true;
  return node_is(node, "Cast") && node->n_inputs == 1 && node->n_outputs == 1 &&
         graph_is_fp32(g, node->inputs[0]) && graph_is_fp32(g, node->outputs[0]);
}

enum { VANISHING_IN_A_ROW = 4 };

// The node that makes input k of node n, what vanishes aside, if it is an op of that kind, else -1.
static int made_by(const struct graph *g, int n, int k, const char *op) {
  const struct node *node = &g->nodes[n];
  int v = k < node->n_inputs ? node->inputs[k] : -1;
  int maker = v >= 0 && g->values[v].origin == ORIGIN_NODE ? g->values[v].producer : -1;
  for (int i = 0; i < VANISHING_IN_A_ROW && maker >= 0 && vanishes(g, maker); i++) {
    v = g->nodes[maker].inputs[0];
    maker = g->values[v].origin == ORIGIN_NODE ? g->values[v].producer : -1;
  }
  return maker >= 0 && node_is(&g->nodes[maker], op) ? maker : -1;
}

// The gain in (x - mean) / sqrt(variance) * gain.
static bool is_layer_norm_gain(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  if (!node_is(node, "Mul") || graph_opset(g, node->scope, "") < LAYER_NORM_OPSET)
    return false;
  for (int k = 0; k < node->n_inputs; k++) {
    int div = made_by(g, n, k, "Div");
    if (div >= 0 && made_by(g, div, 0, "Sub") >= 0 && made_by(g, div, 1, "Sqrt") >= 0)
      return true;
  }
  return false;
}

static bool stands_before(const struct graph *g, const struct patterns *p, int n,
                          const struct node_plan *nodes, const bool *before) {
  const struct node *node = &g->nodes[n];
  if (graph_opset(g, node->scope, "") < LAYER_NORM_OPSET || p->kind[n] == PATTERN_LAYER_NORM)
    return false;
  for (int k = 0; k < node->n_outputs; k++)
    for (int u = 0; node->outputs[k] >= 0 && u < g->values[node->outputs[k]].n_uses; u++) {
      int reader = g->values[node->outputs[k]].uses[u].node;
      if (reader < 0)
        continue;
      if (p->kind[reader] == PATTERN_LAYER_NORM && nodes[reader].class == CLASS_PIN)
        return true;
      if (before[reader] && vanishes(g, reader))
        return true;
    }
  return false;
}

// Readers come first: bodies before the graphs around them, and each backwards.
void plan_engine_faults_before(const struct graph *g, const struct patterns *p,
                               const struct node_plan *nodes, bool *before) {
  for (int s = g->n_scopes - 1; s >= 0; s--)
    for (int i = g->scopes[s].n_nodes - 1; i >= 0; i--) {
      int n = g->scopes[s].order[i];
      before[n] = stands_before(g, p, n, nodes, before);
    }
}

bool plan_engine_fault(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  return is_transposed_batch(node, g) || node_is(node, "MelWeightMatrix") ||
         is_layer_norm_gain(g, n);
}

int plan_engine_race(const struct graph *g) {
  for (int n = 0; n < g->n_nodes; n++) {
    if (!node_is(&g->nodes[n], "ScatterND"))
      continue;
    const Onnx__AttributeProto *reduction = node_attribute(g->nodes[n].proto, "reduction");
    if (reduction && (reduction->s.len != 4 || memcmp(reduction->s.data, "none", 4)))
      return n;
  }
  return -1;
}
