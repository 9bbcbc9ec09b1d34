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
#include "plan_engine.h"

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
    if (reader >= 0 && node_is(g->nodes[reader].proto, "MatMul"))
      return true;
  }
  return false;
}

static bool is_transposed_batch(const struct node *node, const struct graph *g) {
  return node_is(node->proto, "Transpose") && node->n_outputs == 1 &&
         moves_batch_inwards(node->proto) && feeds_matmul(g, node->outputs[0]);
}

bool plan_engine_fault(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  return is_transposed_batch(node, g) || node_is(node->proto, "MelWeightMatrix");
}
