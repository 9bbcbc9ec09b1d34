// Which integers an input may hold, found by following its values through the graph to the
// operators that use them as indices, sizes or axes. Made-up token numbers, for instance, must lie
// inside the embedding table. It is a help, not a proof: where nothing is found, 0 and 1 are taken.
#include "samples_internal.h"
#include "tensor.h"

#include <string.h>

enum effect {
  PASS,        // the values go on to the outputs
  INDEX,       // indices along attribute `axis` (default: argument) of input 0
  TABLE,       // indices of the rows of input `argument`
  INDEX_ND,    // indices of any dim of input 0
  INDEX_LAST,  // indices of the last dim of input 0
  DEPTH,       // less than the constant in input `argument`
  EXACTLY,     // argument: an axis, a size, a count that is valid nearly everywhere
  RESHAPE,     // a target shape
  AXES,        // axes, each once
  EQUAL,       // compared with the other input
  DIVISOR,     // must not be zero, if it is an integer: the engine may crash
};

static const char contrib[] = "com.microsoft";

// domain, operator, input (-1: any), effect, argument
static const struct rule {
  const char *domain, *op;
  int input;
  enum effect effect;
  int argument;
} rules[] = {
    {"", "Cast", 0, PASS, 0},
    {"", "CastLike", 0, PASS, 0},
    {"", "Identity", 0, PASS, 0},
    {"", "Reshape", 0, PASS, 0},
    {"", "Flatten", 0, PASS, 0},
    {"", "Unsqueeze", 0, PASS, 0},
    {"", "Squeeze", 0, PASS, 0},
    {"", "Transpose", 0, PASS, 0},
    {"", "Slice", 0, PASS, 0},
    {"", "Split", 0, PASS, 0},
    {"", "Concat", -1, PASS, 0},
    {"", "Expand", 0, PASS, 0},
    {"", "Tile", 0, PASS, 0},
    {"", "Where", 1, PASS, 0},
    {"", "Where", 2, PASS, 0},
    {"", "Gather", 0, PASS, 0},
    {"", "GatherElements", 0, PASS, 0},
    {"", "GatherND", 0, PASS, 0},
    {"", "Gather", 1, INDEX, 0},
    {"", "GatherElements", 1, INDEX, 0},
    {"", "ScatterElements", 1, INDEX, 0},
    {"", "Scatter", 1, INDEX, 0},
    {"", "GatherND", 1, INDEX_ND, 0},
    {"", "ScatterND", 1, INDEX_ND, 0},
    {"", "OneHot", 0, DEPTH, 1},
    {"", "Equal", 0, EQUAL, 1},
    {"", "Equal", 1, EQUAL, 0},
    {"", "Reshape", 1, RESHAPE, 0},
    {"", "Expand", 1, EXACTLY, 1},
    {"", "Tile", 1, EXACTLY, 1},
    {"", "ConstantOfShape", 0, EXACTLY, 8},
    {"", "OneHot", 1, EXACTLY, 8},
    {"", "TopK", 1, EXACTLY, 1},
    {"", "Range", 0, EXACTLY, 0},
    {"", "Range", 1, EXACTLY, 8},
    {"", "Range", 2, EXACTLY, 1},
    {"", "Slice", 1, EXACTLY, 0},
    {"", "Slice", 2, EXACTLY, 1},
    {"", "Slice", 3, AXES, 0},
    {"", "Slice", 4, EXACTLY, 1},
    {"", "Squeeze", 1, AXES, 0},
    {"", "Unsqueeze", 1, AXES, 0},
    {"", "CumSum", 1, EXACTLY, 0},
    {"", "Pad", 1, EXACTLY, 0},
    {"", "Pad", 3, AXES, 0},
    {"", "Resize", 2, EXACTLY, 1},
    {"", "Resize", 3, EXACTLY, 1},
    {"", "Upsample", 1, EXACTLY, 1},
    {"", "ReduceSum", 1, AXES, 0},
    {"", "ReduceMean", 1, AXES, 0},
    {"", "ReduceMax", 1, AXES, 0},
    {"", "ReduceMin", 1, AXES, 0},
    {"", "ReduceProd", 1, AXES, 0},
    {"", "ReduceL1", 1, AXES, 0},
    {"", "ReduceL2", 1, AXES, 0},
    {"", "ReduceLogSum", 1, AXES, 0},
    {"", "ReduceLogSumExp", 1, AXES, 0},
    {"", "ReduceSumSquare", 1, AXES, 0},
    {"", "Loop", 0, EXACTLY, 2},
    {"", "LSTM", 4, EXACTLY, 1},
    {"", "GRU", 4, EXACTLY, 1},
    {"", "RNN", 4, EXACTLY, 1},
    {"", "ReverseSequence", 1, EXACTLY, 1},
    {"", "SequenceAt", 1, EXACTLY, 0},
    {"", "NonMaxSuppression", 2, EXACTLY, 8},
    {"", "NonMaxSuppression", 3, EXACTLY, 0},
    {"", "NonMaxSuppression", 4, EXACTLY, 0},
    {"", "Dropout", 1, EXACTLY, 0},
    {"", "RoiAlign", 2, TABLE, 0},
    {"", "Div", 1, DIVISOR, 0},
    {"", "Mod", 1, DIVISOR, 0},
    {"", "STFT", 1, EXACTLY, 4},
    {"", "STFT", 3, EXACTLY, 8},
    {"", "DFT", 1, EXACTLY, 8},
    {"", "Trilu", 1, EXACTLY, 0},
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, INDEX_LAST, 0},
    {contrib, "EmbedLayerNormalization", 0, TABLE, 2},
    {contrib, "EmbedLayerNormalization", 1, TABLE, 4},
    {contrib, "EmbedLayerNormalization", 7, EXACTLY, 1},
    {contrib, "EmbedLayerNormalization", 8, TABLE, 3},
    {contrib, "GatherND", 1, INDEX_ND, 0},
    {contrib, "Attention", 3, EXACTLY, 1},
    {contrib, "MultiHeadAttention", 4, EXACTLY, 1},
};

struct walk {
  struct graph *g;
  const struct inputs *in;
  struct arena *arena;
  int *seen;  // per value the walk (1 + input's index) that saw it last
  int *stack;
  size_t depth, capacity;
  size_t budget;  // uses left to look at, over all inputs: keeps the whole linear
  const struct declared *input;
  struct range *range;
};

static void narrow(struct range *r, int64_t low, int64_t high) {
  if (!r->found) {
    r->low = low;
    r->high = high;
    r->found = true;
    return;
  }
  r->low = low > r->low ? low : r->low;
  r->high = high < r->high ? high : r->high;
  if (r->low > r->high)
    r->low = r->high;
}

static bool is_op(const Onnx__NodeProto *n, const struct rule *rule) {
  const char *domain = n->domain ? n->domain : "";
  if (strcmp(domain, "ai.onnx") == 0)
    domain = "";
  return n->op_type && strcmp(n->op_type, rule->op) == 0 && strcmp(domain, rule->domain) == 0;
}

// The value that this one is a mere rewriting of, element by element.
static int trace_back(const struct graph *g, int value) {
  static const char *const same[] = {"Identity", "Cast", "DequantizeLinear", "QuantizeLinear"};
  for (int step = 0; step < 16 && value >= 0 && g->values[value].origin == ORIGIN_NODE; step++) {
    const struct node *n = &g->nodes[g->values[value].producer];
    bool passes = false;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
      passes = passes || node_is(n, same[i]);
    if (!passes || !n->n_inputs || n->inputs[0] < 0)
      break;
    value = n->inputs[0];
  }
  return value;
}

static const Onnx__TensorProto *known_tensor(struct graph *g, int value) {
  if (value < 0)
    return NULL;
  value = trace_back(g, value);
  const Onnx__TensorProto *t = graph_constant(g, value);
  return t ? t : g->values[value].initializer;
}

// Dims of the value, as far as a constant or a declaration tells: -1 for others; NULL if nothing.
static const int64_t *known_dims(struct walk *w, int value, size_t *rank) {
  const Onnx__TensorProto *t = known_tensor(w->g, value);
  if (t) {
    *rank = t->n_dims;
    return t->dims;
  }
  value = value < 0 ? -1 : trace_back(w->g, value);
  int index = -1;
  if (value >= 0 && w->g->values[value].origin == ORIGIN_INPUT)
    index = inputs_find(w->in, w->g->values[value].name);
  if (index < 0 || !w->in->items[index].shaped)
    return NULL;
  *rank = w->in->items[index].rank;
  return w->in->items[index].dims;
}

// The one integer that the value holds.
static bool known_integer(struct walk *w, int value, int64_t *out) {
  const Onnx__TensorProto *t = known_tensor(w->g, value);
  struct diag ignored = {0};
  struct tensor tensor;
  float number;
  if (!t || tensor_read(w->g->model, t, w->arena, &tensor, &ignored) != STATUS_OK ||
      tensor.count != 1)
    return false;
  if (tensor.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64) {
    memcpy(out, tensor.data, sizeof *out);
    return true;
  }
  if (!tensor_to_float(&tensor, &number) || !(number > -1e9F && number < 1e9F) ||
      (float)(int64_t)number != number)
    return false;
  *out = (int64_t)number;
  return true;
}

// Indices below `length`; where that is not known, 0 alone is sure to be valid.
static void narrow_index(struct walk *w, int64_t length) {
  narrow(w->range, 0, length > 0 ? length - 1 : 0);
}

static void narrow_by_dims(struct walk *w, const struct node *n, const struct rule *rule) {
  size_t rank = 0;
  int data = rule->effect == TABLE ? rule->argument : 0;
  const int64_t *dims = data < n->n_inputs ? known_dims(w, n->inputs[data], &rank) : NULL;
  int64_t at = 0, least = -1;
  if (rule->effect == INDEX) {
    const Onnx__AttributeProto *axis = node_attribute(n->proto, "axis");
    at = axis && axis->has_i ? axis->i : 0;
    at += at < 0 ? (int64_t)rank : 0;
  } else if (rule->effect == INDEX_LAST) {
    at = (int64_t)rank - 1;
  }
  if (rule->effect == INDEX_ND)
    for (size_t i = 0; i < rank; i++)
      least = i == 0 || dims[i] < least ? dims[i] : least;
  else if (dims && at >= 0 && at < (int64_t)rank)
    least = dims[at];
  narrow_index(w, least);
}

static bool is_scalar(const struct declared *input) {
  return input->shaped && (input->rank == 0 || (input->rank == 1 && input->dims[0] == 1));
}

static void push(struct walk *w, int value) {
  int mark = (int)(w->input - w->in->items) + 1;
  if (value < 0 || w->seen[value] == mark)
    return;
  w->seen[value] = mark;
  w->stack = arena_grow(w->arena, w->stack, &w->capacity, w->depth + 1, sizeof *w->stack);
  w->stack[w->depth++] = value;
}

static void apply(struct walk *w, const struct node *n, const struct rule *rule) {
  int64_t number = 0;
  switch (rule->effect) {
  case PASS:
    for (int i = 0; i < n->n_outputs; i++)
      push(w, n->outputs[i]);
    return;
  case INDEX:
  case TABLE:
  case INDEX_ND:
  case INDEX_LAST: narrow_by_dims(w, n, rule); return;
  case DEPTH:
    if (rule->argument < n->n_inputs && known_integer(w, n->inputs[rule->argument], &number))
      narrow_index(w, number);
    return;
  case EXACTLY: narrow(w->range, rule->argument, rule->argument); return;
  case RESHAPE: w->range->reshape = true; return;
  case AXES: w->range->axes = true; return;
  case DIVISOR:
    if (!tensor_is_float(w->input->elem_type))
      narrow(w->range, 1, 1);
    return;
  case EQUAL:
    if (is_scalar(w->input) && !tensor_is_float(w->input->elem_type) &&
        rule->argument < n->n_inputs && known_integer(w, n->inputs[rule->argument], &number) &&
        !w->range->found)
      narrow(w->range, number, number);
    return;
  }
}

static void visit_use(struct walk *w, const struct value *v, const struct use *use) {
  const struct graph *g = w->g;
  if (use->node < 0) {
    // The output of an If's branch.
    int parent = g->scopes[v->scope].parent_node;
    if (parent >= 0 && node_is(&g->nodes[parent], "If") && use->index < g->nodes[parent].n_outputs)
      push(w, g->nodes[parent].outputs[use->index]);
    return;
  }
  const struct node *n = &g->nodes[use->node];
  if (n->function >= 0) {
    if (use->index < g->scopes[n->function].n_inputs)
      push(w, g->scopes[n->function].inputs[use->index]);
    return;
  }
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if ((rules[i].input < 0 || rules[i].input == use->index) && is_op(n->proto, &rules[i]))
      apply(w, n, &rules[i]);
}

void samples_ranges(struct graph *g, const struct inputs *in, struct range *ranges,
                    struct arena *a) {
  struct walk w = {.g = g, .in = in, .arena = a, .budget = 1000000};
  w.seen = arena_array(a, (size_t)g->n_values, sizeof *w.seen);
  for (int i = 0; i < in->n_required; i++) {
    w.input = &in->items[in->required[i]];
    w.range = &ranges[i];
    push(&w, w.input->value);
    while (w.depth) {
      const struct value *v = &g->values[w.stack[--w.depth]];
      for (int u = 0; u < v->n_uses && w.budget; u++, w.budget--)
        visit_use(&w, v, &v->uses[u]);
    }
  }
}
