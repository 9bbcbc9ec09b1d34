// The cost model. See plan_cost.h. Sizes come from constants' dims and from the trace, which counts
// the elements of every float value; what is known of neither (indices, flags) counts nothing: it
// is the same in every format.
#include "plan_cost.h"

#include "plan_attention.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

// ---- operators ----

// How many floating-point operations a node does; all but the first on matrix units.
enum work {
  WORK_ELEMENTS,     // one per element of its largest tensor
  WORK_PRODUCT,      // MatMul: 2 K per element of the output
  WORK_GEMM,         // the same, operands perhaps transposed
  WORK_QUANTISED,    // MatMulNBits: the same, K being an attribute
  WORK_CONVOLUTION,  // 2 per element of the output and weight of its channel
  WORK_TRANSPOSED,   // the same by elements of the input
  WORK_RECURRENCE,   // 2 per weight of W and R, step and element of the batch
  WORK_CONTRACTION,  // Einsum: as of the one matrix product that its sizes fit
  WORK_ATTENTION,    // that of ai.onnx: products of queries and keys, and of scores and values;
                     // of com.microsoft, with the product by input 1 in it: that product
};

// What a node moves besides reading all inputs and writing all outputs.
enum moves {
  MOVES_ALL,
  MOVES_SELECTED,  // of input 0 it reads what it writes
  MOVES_NOTHING,   // the output is the input in another shape, or it looks at the shape alone
};

static const struct op_cost {
  const char *op;
  enum work work;
  enum moves moves;
} operators[] = {
    {"MatMul", WORK_PRODUCT, MOVES_ALL},
    {"FusedMatMul", WORK_PRODUCT, MOVES_ALL},
    {"FusedMatMulActivation", WORK_PRODUCT, MOVES_ALL},
    {"TransposeMatMul", WORK_PRODUCT, MOVES_ALL},
    {"Gemm", WORK_GEMM, MOVES_ALL},
    {"FusedGemm", WORK_GEMM, MOVES_ALL},
    {"GemmFastGelu", WORK_GEMM, MOVES_ALL},
    {"MatMulNBits", WORK_QUANTISED, MOVES_ALL},
    {"Conv", WORK_CONVOLUTION, MOVES_ALL},
    {"FusedConv", WORK_CONVOLUTION, MOVES_ALL},
    {"NhwcConv", WORK_CONVOLUTION, MOVES_ALL},
    {"NhwcFusedConv", WORK_CONVOLUTION, MOVES_ALL},
    {"DeformConv", WORK_CONVOLUTION, MOVES_ALL},
    {"ConvTranspose", WORK_TRANSPOSED, MOVES_ALL},
    {"ConvTransposeWithDynamicPads", WORK_TRANSPOSED, MOVES_ALL},
    {"LSTM", WORK_RECURRENCE, MOVES_ALL},
    {"GRU", WORK_RECURRENCE, MOVES_ALL},
    {"RNN", WORK_RECURRENCE, MOVES_ALL},
    {"Einsum", WORK_CONTRACTION, MOVES_ALL},
    {"Attention", WORK_ATTENTION, MOVES_ALL},
    {"Gather", WORK_ELEMENTS, MOVES_SELECTED},
    {"GatherElements", WORK_ELEMENTS, MOVES_SELECTED},
    {"GatherND", WORK_ELEMENTS, MOVES_SELECTED},
    {"Slice", WORK_ELEMENTS, MOVES_SELECTED},
    {"Compress", WORK_ELEMENTS, MOVES_SELECTED},
    {"Constant", WORK_ELEMENTS, MOVES_NOTHING},
    {"Dropout", WORK_ELEMENTS, MOVES_NOTHING},
    {"Flatten", WORK_ELEMENTS, MOVES_NOTHING},
    {"Identity", WORK_ELEMENTS, MOVES_NOTHING},
    {"Reshape", WORK_ELEMENTS, MOVES_NOTHING},
    {"Shape", WORK_ELEMENTS, MOVES_NOTHING},
    {"Size", WORK_ELEMENTS, MOVES_NOTHING},
    {"Squeeze", WORK_ELEMENTS, MOVES_NOTHING},
    {"Unsqueeze", WORK_ELEMENTS, MOVES_NOTHING},
};

// By name alone: a domain that has an operator of such a name means the same by it.
static const struct op_cost *find_operator(const struct node *node) {
  static const struct op_cost usual = {"", WORK_ELEMENTS, MOVES_ALL};
  static const struct op_cost inside = {"", WORK_ELEMENTS, MOVES_NOTHING};
  if (node->n_bodies > 0 || node->function >= 0)
    return &inside;
  for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
    if (strcmp(operators[i].op, node->proto->op_type) == 0)
      return &operators[i];
  return &usual;
}

// ---- sizes ----

static double constant_elements(const Onnx__TensorProto *t) {
  uint64_t count, bytes;
  return tensor_extent(t, &count, &bytes) ? (double)count : 0;
}

static void measure_value(struct costs *c, int v) {
  const Onnx__TensorProto *constant = graph_constant(c->graph, v);
  const struct value *value = &c->graph->values[v];
  c->productions[v] = 1;
  if (constant) {
    c->elements[v] = constant_elements(constant);
  } else if (!c->trace) {
    c->elements[v] = 1;
  } else if (trace_measures(c->graph, v)) {
    const struct stats *s = &c->trace->stats[v];
    double runs = (double)s->runs, steps = c->trace->steps ? (double)c->trace->steps : 1;
    c->elements[v] = runs > 0 ? (double)s->count / runs : 0;
    c->productions[v] = runs / steps;
  } else if (value->initializer) {
    c->elements[v] = constant_elements(value->initializer);
  }
}

// As often as the first of its values that was seen: an output, or else an input.
static double count_executions(const struct costs *c, int n) {
  const struct node *node = &c->graph->nodes[n];
  if (!c->trace)
    return 1;
  for (int k = 0; k < node->n_outputs; k++)
    if (node->outputs[k] >= 0 && trace_measures(c->graph, node->outputs[k]))
      return c->productions[node->outputs[k]];
  for (int k = 0; k < node->n_inputs; k++)
    if (node->inputs[k] >= 0 && trace_measures(c->graph, node->inputs[k]))
      return c->productions[node->inputs[k]];
  return 1;
}

// ---- what a runtime computes once, while it loads the model ----

static bool is_fixed(const struct costs *c, int v, const bool *folded) {
  return graph_is_constant(c->graph, v) || folded[v];
}

// A DequantizeLinear is left in place: engines read weights in the narrow type that they have.
static bool is_folded(const struct costs *c, const struct node *node, const bool *folded) {
  static const char *const stays[] = {"DequantizeLinear", "RandomNormalLike", "RandomUniformLike",
                                      "Bernoulli", "Multinomial"};
  bool reads = false;
  for (size_t i = 0; i < sizeof stays / sizeof stays[0]; i++)
    if (strcmp(node->proto->op_type, stays[i]) == 0)
      return false;
  for (int k = 0; k < node->n_inputs; k++) {
    int v = node->inputs[k];
    if (v >= 0 && !is_fixed(c, v, folded))
      return false;
    reads = reads || v >= 0;
  }
  return reads && node->n_bodies == 0 && node->function < 0;
}

// Runs for each time that the model is loaded. Many, so that what is computed once counts next to
// nothing, yet decides where nothing else does: a constant is stored narrow if it may be.
static const double runs_per_load = 1024;

// Nodes that depend on constants alone (weights that are transposed or normalised, say) take no
// time in a run, nor do Casts of what they give.
static void fold_constants(struct costs *c) {
  const struct graph *g = c->graph;
  struct arena scratch = {0};
  bool *folded = arena_array(&scratch, (size_t)g->n_values, sizeof *folded);
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++) {
      int n = g->scopes[s].order[i];
      const struct node *node = &g->nodes[n];
      if (!is_folded(c, node, folded))
        continue;
      c->executions[n] /= runs_per_load;
      for (int k = 0; k < node->n_outputs; k++)
        if (node->outputs[k] >= 0) {
          folded[node->outputs[k]] = true;
          c->productions[node->outputs[k]] /= runs_per_load;
        }
    }
  arena_free(&scratch);
}

void costs_init(struct costs *c, struct graph *g, const struct trace *t,
                const struct target *target, struct arena *a) {
  size_t values = (size_t)g->n_values;
  *c = (struct costs){
      .graph = g,
      .trace = t,
      .target = target,
      .elements = arena_array(a, values, sizeof *c->elements),
      .productions = arena_array(a, values, sizeof *c->productions),
      .executions = arena_array(a, (size_t)g->n_nodes, sizeof *c->executions),
      .ops = arena_array(a, (size_t)g->n_nodes, sizeof *c->ops),
  };
  for (int v = 0; v < g->n_values; v++)
    measure_value(c, v);
  for (int n = 0; n < g->n_nodes; n++) {
    c->executions[n] = count_executions(c, n);
    c->ops[n] = find_operator(&g->nodes[n]);
  }
  fold_constants(c);
}

static double elements_of(const struct costs *c, const int *values, int count, int k) {
  return k < count && values[k] >= 0 ? c->elements[values[k]] : 0;
}

static double input_elements(const struct costs *c, const struct node *node, int k) {
  return elements_of(c, node->inputs, node->n_inputs, k);
}

// Dim `axis` of input k (negative: from the end) if it is a constant of that rank; 0: not known.
static double constant_dim(const struct costs *c, const struct node *node, int k, int axis) {
  const Onnx__TensorProto *t =
      k < node->n_inputs && node->inputs[k] >= 0 ? graph_constant(c->graph, node->inputs[k]) : NULL;
  if (!t)
    return 0;
  int rank = (int)t->n_dims;
  axis = axis < 0 ? rank + axis : axis;
  return axis >= 0 && axis < rank ? (double)t->dims[axis] : 0;
}

// ---- arithmetic ----

static int64_t int_attribute(const struct node *node, const char *name) {
  const Onnx__AttributeProto *a = node_attribute(node->proto, name);
  return a && a->has_i ? a->i : 0;
}

// Dim `axis` (negative: from the end) of the node's first output as it was first seen; 0: not
// known.
static double output_dim(const struct costs *c, const struct node *node, int axis) {
  if (!c->trace || node->n_outputs == 0 || node->outputs[0] < 0)
    return 0;
  const struct stats *s = &c->trace->stats[node->outputs[0]];
  axis = axis < 0 ? s->rank + axis : axis;
  return s->has_shape && axis >= 0 && axis < s->rank ? (double)s->dims[axis] : 0;
}

// The length of the sums of a matrix product of sizes a, b, o: (MK)(KN)(MN) = (MNK)^2. With many
// products in one it is too large by the square root of their number.
static double sum_length(double a, double b, double o) {
  return o > 0 ? sqrt(a * b / o) : 0;
}

static double product_length(const struct costs *c, const struct node *node, double output,
                             bool gemm) {
  bool transposed = int_attribute(node, "transB") != 0;
  double k = constant_dim(c, node, 1, gemm && transposed ? 1 : -2);
  if (k > 0 && (gemm || !transposed))
    return k;
  double left = input_elements(c, node, 0), right = input_elements(c, node, 1);
  double rows = output_dim(c, node, -2), columns = output_dim(c, node, -1);
  if (rows == 0 || columns == 0 || output == 0)
    return sum_length(left, right, output);
  // P products: |A| = PMK, |B| = PKN, |O| = PMN; less if all of them read the same A or B.
  return fmax(left * columns, right * rows) / output;
}

// Weights that one output channel (one input channel, if transposed) has.
static double channel_weights(const struct costs *c, const struct node *node) {
  double channels = constant_dim(c, node, 1, 0);
  if (channels == 0)
    channels = output_dim(c, node, 1);
  return channels > 0 ? input_elements(c, node, 1) / channels : 1;
}

static double largest_tensor(const struct costs *c, const struct node *node, enum moves moves) {
  double largest = 0;
  for (int k = moves == MOVES_SELECTED; k < node->n_inputs; k++)
    largest = fmax(largest, input_elements(c, node, k));
  for (int k = 0; k < node->n_outputs; k++)
    largest = fmax(largest, elements_of(c, node->outputs, node->n_outputs, k));
  return largest;
}

static double count_work(const struct costs *c, int n, const struct op_cost *op) {
  const struct node *node = &c->graph->nodes[n];
  double input = input_elements(c, node, 0), second = input_elements(c, node, 1);
  double output = elements_of(c, node->outputs, node->n_outputs, 0), width, length;
  switch (op->work) {
  case WORK_PRODUCT:
  case WORK_GEMM: return 2 * output * product_length(c, node, output, op->work == WORK_GEMM);
  case WORK_QUANTISED: return 2 * output * (double)int_attribute(node, "K");
  case WORK_CONTRACTION: return 2 * output * sum_length(input, second, output);
  case WORK_CONVOLUTION: return 2 * output * channel_weights(c, node);
  case WORK_TRANSPOSED: return 2 * input * channel_weights(c, node);
  case WORK_RECURRENCE:
    width = constant_dim(c, node, 1, 2);
    return width > 0 ? 2 * input / width * (second + input_elements(c, node, 2)) : input;
  case WORK_ATTENTION:
    length = attention_length(c->graph, c->trace, n);
    if (length > 0)
      return 4 * input * length;
    width = constant_dim(c, node, 1, 0);
    return width > 0 ? 2 * input / width * second : input;
  case WORK_ELEMENTS: break;
  }
  return largest_tensor(c, node, op->moves);
}

// ---- traffic ----

// Bytes of an element of value v in format f; FORMAT_COUNT: in its own type.
static double element_bytes(const struct graph *g, int v, enum format_id f) {
  if (f != FORMAT_COUNT)
    return formats[f].stored_bits / 8.0;
  return g->values[v].type.kind == TYPE_TENSOR
             ? tensor_element_bits(g->values[v].type.elem_type) / 8.0
             : 0;
}

// Bytes of v as products read it; a weight in blocks with their scales.
static double operand_bytes(const struct costs *c, const struct plan *p, int v, double elements) {
  const struct operand_plan *o = p->values[v].operand;
  return o && o->block_size ? (double)o->bytes
                            : elements * element_bytes(c->graph, v, p->operand_format);
}

// Of node n as p has it, or, unless `supposed` is FORMAT_COUNT, as if it ran in that format.
static double count_bytes(const struct costs *c, const struct plan *p, int n,
                          enum format_id supposed) {
  const struct node *node = &c->graph->nodes[n];
  const struct graph *g = c->graph;
  enum moves moves = c->ops[n]->moves;
  bool as_planned = supposed == FORMAT_COUNT;
  double written = 0, bytes = 0;
  for (int k = 0; k < node->n_outputs; k++) {
    int v = node->outputs[k];
    if (v < 0)
      continue;
    written += c->elements[v];
    bytes +=
        c->elements[v] * element_bytes(g, v,
                                       as_planned ? plan_output_format(g, p, n, k)
                                                  : plan_supposed_output(g, p, n, k, supposed));
  }
  for (int k = 0; k < node->n_inputs; k++) {
    int v = node->inputs[k];
    if (v < 0)
      continue;
    double read = c->elements[v];
    if (k == 0 && moves == MOVES_SELECTED && read > written)
      read = written;
    if (as_planned && plan_is_narrow_operand(g, p, n, k))
      bytes += operand_bytes(c, p, v, read);
    else
      bytes += read * element_bytes(g, v,
                                    as_planned ? plan_input_format(g, p, n, k)
                                               : plan_supposed_input(g, p, n, k, supposed));
  }
  return bytes;
}

static struct node_cost cost_of(const struct costs *c, const struct plan *p, int n,
                                enum format_id supposed) {
  const struct op_cost *op = c->ops[n];
  const struct target *t = c->target;
  bool as_planned = supposed == FORMAT_COUNT;
  enum format_id f = as_planned ? p->nodes[n].format : supposed;
  if (op->moves == MOVES_NOTHING || c->executions[n] == 0)
    return (struct node_cost){0, 0};
  double bytes = count_bytes(c, p, n, supposed);
  double throughput = op->work == WORK_ELEMENTS ? t->vector[f] : t->matrix[f];
  if (as_planned && p->nodes[n].narrow_operands && t->matrix[p->operand_format] > 0)
    throughput = t->matrix[p->operand_format];
  double arithmetic = count_work(c, n, op) / throughput * t->bandwidth;
  return (struct node_cost){
      .time = c->executions[n] * (fmax(arithmetic, bytes) + t->overhead * t->bandwidth),
      .bytes = c->executions[n] * bytes,
  };
}

struct node_cost costs_node(const struct costs *c, const struct plan *p, int n) {
  return cost_of(c, p, n, FORMAT_COUNT);
}

// A multiplication of v by a power of two, read and written in fp32.
static double scale_time(const struct costs *c, int v) {
  double bytes = c->elements[v] * 2 * (formats[FORMAT_FP32].stored_bits / 8.0);
  return bytes + c->target->overhead * c->target->bandwidth;
}

double costs_cast(const struct costs *c, int v, enum format_id from, enum format_id to) {
  if (from == to || graph_is_constant(c->graph, v))
    return 0;
  double bytes = c->elements[v] * ((formats[from].stored_bits + formats[to].stored_bits) / 8.0);
  double overhead = c->target->overhead * c->target->bandwidth;
  bool scaled = c->scaled && (c->scaled[v] >> from & 1) != (c->scaled[v] >> to & 1);
  return c->productions[v] * (bytes + overhead + (scaled ? scale_time(c, v) : 0));
}

// ---- the whole plan ----

// What a constant or an activation takes, before and after. Of constants, those count whose type
// may change; each copy of one is stored.
static void add_memory(const struct costs *c, struct plan *p, int v, const struct copy *copies,
                       size_t n) {
  struct plan_costs *total = &p->costs;
  bool constant = graph_constant(c->graph, v) != NULL, considered = p->values[v].considered;
  if (constant && !considered)
    return;
  double count = c->elements[v] * (constant ? 1 : c->productions[v]);
  double before = count * element_bytes(c->graph, v, FORMAT_COUNT), after = before;
  struct copy stored = {p->values[v].format, p->values[v].scale_log2};
  const struct value *value = &c->graph->values[v];
  bool dropped = value->origin == ORIGIN_NODE && plan_drops_cast(c->graph, p, value->producer);
  if (plan_is_only_operand(c->graph, p, v) || (constant && n > 0) || dropped)
    after = 0;
  else if (considered && !constant)
    after = count * element_bytes(c->graph, v, stored.format);
  for (size_t i = 0; considered && !dropped && i < n; i++)
    if (constant || !copy_equal(copies[i], stored))
      after += count * element_bytes(c->graph, v, copies[i].format);
  if (p->values[v].operand)
    after += operand_bytes(c, p, v, count);
  *(constant ? &total->constants_before : &total->activations_before) += before;
  *(constant ? &total->constants_after : &total->activations_after) += after;
}

// The copies of v that have been made so far, the stored one first.
struct made {
  struct copy *copies;
  size_t count, capacity;
};

// One Cast or scale node, and those that it needs before it.
static void add_copy(const struct costs *c, struct plan *p, int v, struct copy wanted,
                     struct made *made, struct arena *a) {
  for (size_t i = 0; i < made->count; i++)
    if (copy_equal(made->copies[i], wanted))
      return;
  bool scale;
  struct copy from = plan_copy_source(c->graph, v, made->copies[0], wanted, &scale);
  add_copy(c, p, v, from, made, a);
  made->copies = arena_grow(a, made->copies, &made->capacity, made->count + 1, sizeof wanted);
  made->copies[made->count++] = wanted;
  struct plan_costs *total = &p->costs;
  double overhead = c->target->overhead * c->target->bandwidth;
  double bits = formats[from.format].stored_bits + formats[wanted.format].stored_bits;
  double bytes = c->elements[v] * (bits / 8.0);
  *(scale ? &total->scale_nodes : &total->casts) += 1;
  total->time_casts += c->productions[v] * (bytes + overhead);
  total->traffic_casts += c->productions[v] * bytes;
}

static void add_copies(const struct costs *c, struct plan *p, int v, const struct copy *copies,
                       size_t n, struct arena *a) {
  struct plan_costs *total = &p->costs;
  const struct value_plan *stored = &p->values[v];
  if (!stored->considered || graph_constant(c->graph, v))
    return;
  struct made made = {0};
  made.copies = arena_grow(a, NULL, &made.capacity, 2, sizeof *made.copies);
  made.copies[made.count++] = (struct copy){stored->format, stored->scale_log2};
  if (plan_given_copy(c->graph, v, &made.copies[made.count]))
    made.count++;
  for (size_t i = 0; i < n; i++)
    add_copy(c, p, v, copies[i], &made, a);
  if (stored->operand) {  // a QuantizeLinear costs what a Cast does
    double overhead = c->target->overhead * c->target->bandwidth;
    double time = costs_cast(c, v, stored->format, p->operand_format);
    total->time_casts += time;
    total->traffic_casts += time - c->productions[v] * overhead;
  }
}

static void add_value(const struct costs *c, struct plan *p, int v, struct arena *a) {
  struct copy *copies;
  size_t n = plan_copies(c->graph, p, v, &copies, a);
  add_copies(c, p, v, copies, n, a);
  add_memory(c, p, v, copies, n);
}

// What each node would take in each format of the ladder, its own or not, and at whatever opset
// that takes: so a plan shows what a higher one would save.
static void model_seconds(const struct costs *c, struct plan *p, struct arena *a) {
  size_t rungs = (size_t)p->n_ladder;
  p->seconds = arena_array(a, (size_t)p->n_nodes * rungs, sizeof *p->seconds);
  for (int n = 0; n < p->n_nodes; n++)
    for (size_t r = 0; r < rungs; r++)
      p->seconds[(size_t)n * rungs + r] =
          cost_of(c, p, n, p->ladder[r]).time / c->target->bandwidth;
}

void costs_sum(const struct costs *c, struct plan *p, const uint8_t *allowed, struct arena *a) {
  struct plan_costs *total = &p->costs;
  uint8_t wide_only = (uint8_t)(1u << (p->n_ladder - 1));
  double unable = 0;
  *total = (struct plan_costs){.target = c->target->name, .target_version = c->target->version};
  for (int n = 0; n < p->n_nodes; n++) {
    const struct node_plan *node = &p->nodes[n];
    struct node_cost before = cost_of(c, p, n, FORMAT_FP32), after = {0, 0};
    bool dropped = plan_drops_cast(c->graph, p, n);
    if (!dropped)
      after = costs_node(c, p, n);
    total->time_before += before.time;
    total->time_after += after.time;
    total->traffic_before += before.bytes;
    total->traffic_after += after.bytes;
    unable += allowed[n] == wide_only && !dropped ? before.time : 0;
    total->left_wide += node->format == FORMAT_FP32 && node->reason == REASON_BOUNDARY;
  }
  struct arena scratch = {0};
  for (int v = 0; v < p->n_values; v++)
    add_value(c, p, v, &scratch);
  arena_free(&scratch);
  total->fixed_share = total->time_before > 0 ? unable / total->time_before : 0;
  total->time_after += total->time_casts;
  total->traffic_after += total->traffic_casts;
  total->time_before /= c->target->bandwidth;
  total->time_after /= c->target->bandwidth;
  total->time_casts /= c->target->bandwidth;
  model_seconds(c, p, a);
}

double costs_most_speedup(const struct plan_costs *c) {
  return c->fixed_share > 0 ? 1 / c->fixed_share : INFINITY;
}
