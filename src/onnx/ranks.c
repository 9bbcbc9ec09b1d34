// Ranks of values: see ranks.h. Most operators keep the rank of their first input or take the
// largest of all inputs; of the others only those are here that stand between the inputs of real
// models and the operators whose old form depends on a rank.
#include "ranks.h"

#include <string.h>

enum rule {
  RULE_FIRST,    // that of input 0
  RULE_LARGEST,  // the largest of all inputs, which broadcast
  RULE_TWO,      // 2
  RULE_LENGTH,   // what input 1, a constant, has elements; in opset 1 the attribute `shape`
  RULE_REDUCED,  // that of input 0, if the reduced axes are kept
  RULE_MORE,     // input 0's and one more for each axis
};

static const struct {
  const char *op;
  enum rule rule;
} rules[] = {
    {"Abs", RULE_FIRST},
    {"Add", RULE_LARGEST},
    {"AveragePool", RULE_FIRST},
    {"BatchNormalization", RULE_FIRST},
    {"Cast", RULE_FIRST},
    {"Clip", RULE_FIRST},
    {"Concat", RULE_FIRST},
    {"Conv", RULE_FIRST},
    {"ConvTranspose", RULE_FIRST},
    {"DepthToSpace", RULE_FIRST},
    {"Div", RULE_LARGEST},
    {"Dropout", RULE_FIRST},
    {"Elu", RULE_FIRST},
    {"Erf", RULE_FIRST},
    {"Exp", RULE_FIRST},
    {"Flatten", RULE_TWO},
    {"Gemm", RULE_TWO},
    {"GlobalAveragePool", RULE_FIRST},
    {"GlobalMaxPool", RULE_FIRST},
    {"HardSigmoid", RULE_FIRST},
    {"Hardmax", RULE_FIRST},
    {"Identity", RULE_FIRST},
    {"InstanceNormalization", RULE_FIRST},
    {"LRN", RULE_FIRST},
    {"LeakyRelu", RULE_FIRST},
    {"Log", RULE_FIRST},
    {"LogSoftmax", RULE_FIRST},
    {"MaxPool", RULE_FIRST},
    {"Mul", RULE_LARGEST},
    {"Neg", RULE_FIRST},
    {"PRelu", RULE_FIRST},
    {"Pad", RULE_FIRST},
    {"Pow", RULE_LARGEST},
    {"Reciprocal", RULE_FIRST},
    {"ReduceMax", RULE_REDUCED},
    {"ReduceMean", RULE_REDUCED},
    {"ReduceSum", RULE_REDUCED},
    {"Relu", RULE_FIRST},
    {"Reshape", RULE_LENGTH},
    {"Selu", RULE_FIRST},
    {"Sigmoid", RULE_FIRST},
    {"Slice", RULE_FIRST},
    {"Softmax", RULE_FIRST},
    {"Softplus", RULE_FIRST},
    {"Softsign", RULE_FIRST},
    {"Split", RULE_FIRST},
    {"Sqrt", RULE_FIRST},
    {"Sub", RULE_LARGEST},
    {"Sum", RULE_LARGEST},
    {"Tanh", RULE_FIRST},
    {"Tile", RULE_FIRST},
    {"Transpose", RULE_FIRST},
    {"Unsqueeze", RULE_MORE},
    {"Upsample", RULE_FIRST},
};

static int largest_of(const int *ranks, const struct node *node) {
  int most = -1;
  for (int k = 0; k < node->n_inputs; k++) {
    int rank = node->inputs[k] < 0 ? -1 : ranks[node->inputs[k]];
    if (rank < 0)
      return -1;
    most = rank > most ? rank : most;
  }
  return most;
}

static int length_of(struct graph *g, const struct node *node) {
  const Onnx__AttributeProto *shape = node_attribute(node->proto, "shape");
  if (node->n_inputs < 2)
    return shape ? (int)shape->n_ints : -1;
  const Onnx__TensorProto *t = node->inputs[1] < 0 ? NULL : graph_constant(g, node->inputs[1]);
  return t && t->n_dims == 1 && t->dims[0] >= 0 && t->dims[0] < 64 ? (int)t->dims[0] : -1;
}

// The rank of a node's first output, and of each of a Split; -1 if it is not known.
static int rank_after(struct graph *g, const int *ranks, const struct node *node) {
  int first = node->n_inputs && node->inputs[0] >= 0 ? ranks[node->inputs[0]] : -1;
  const Onnx__AttributeProto *attribute;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (!node_is(node, rules[i].op))
      continue;
    switch (rules[i].rule) {
    case RULE_FIRST: return first;
    case RULE_LARGEST: return largest_of(ranks, node);
    case RULE_TWO: return 2;
    case RULE_LENGTH: return length_of(g, node);
    case RULE_REDUCED:
      attribute = node_attribute(node->proto, "keepdims");
      return !attribute || attribute->i ? first : -1;
    case RULE_MORE:
      attribute = node_attribute(node->proto, "axes");
      return attribute && first >= 0 ? first + (int)attribute->n_ints : -1;
    }
  }
  return -1;
}

static int declared_rank(const Onnx__ValueInfoProto *info) {
  if (!info->type || info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
      !info->type->tensor_type->shape)
    return -1;
  return (int)info->type->tensor_type->shape->n_dim;
}

int *ranks_find(struct graph *g, struct arena *a) {
  int *ranks = arena_array(a, (size_t)g->n_values, sizeof *ranks);
  for (int v = 0; v < g->n_values; v++) {
    const Onnx__TensorProto *t = g->values[v].initializer;
    ranks[v] = t ? (int)t->n_dims : -1;
  }
  const struct scope *main = &g->scopes[0];
  for (int k = 0; k < main->n_inputs; k++)
    ranks[main->inputs[k]] = declared_rank(main->graph->input[k]);
  // A subgraph comes after the scope around it.
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++) {
      const struct node *node = &g->nodes[g->scopes[s].order[i]];
      int rank = node->function < 0 ? rank_after(g, ranks, node) : -1;
      const Onnx__TensorProto *t =
          node->n_outputs && node->outputs[0] >= 0 ? graph_constant(g, node->outputs[0]) : NULL;
      int n = node_is(node, "Split") || node->n_outputs < 1 ? node->n_outputs : 1;
      for (int k = 0; k < n; k++)
        if (node->outputs[k] >= 0)
          ranks[node->outputs[k]] = t ? (int)t->n_dims : rank;
    }
  for (int k = 0; k < main->n_outputs; k++)
    if (main->outputs[k] >= 0 && ranks[main->outputs[k]] < 0)
      ranks[main->outputs[k]] = declared_rank(main->graph->output[k]);
  return ranks;
}
