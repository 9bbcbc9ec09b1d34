// Decides which weights are stored in 4 bits. Unlike operands in 8 bits nothing is weighed: a
// weight either becomes smaller or stays, and products read fewer bytes of it and compute as
// before.
#include "plan_weights.h"

#include "elementary.h"
#include "plan_quantise.h"
#include "round.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

struct weighing {
  struct plan *plan;
  struct graph *graph;
  const struct policy *policy;
  struct arena *arena;
  bool *able;                   // by node: a product that may read its weights in blocks
  bool *tested;                 // by value; then ...
  enum reason *reasons;         // ... why it may not be stored so, or ...
  struct operand_plan **found;  // ... how it would be
};

static bool is_convolution(const struct node *node) {
  return strstr(node->proto->op_type, "Conv") != NULL;
}

bool weights_may_be(const struct graph *g, const struct node *node, int k) {
  return product_operand(node, k) && k < node->n_inputs && node->inputs[k] >= 0 &&
         (k == 1 || !is_convolution(node)) && graph_is_constant(g, node->inputs[k]);
}

// ---- blocks ----

static bool has_flag(const struct node *node, const char *name) {
  const Onnx__AttributeProto *attribute = node_attribute(node->proto, name);
  return attribute && attribute->i != 0;
}

// The axis of input k over which the product sums: of a convolution, that of input channels.
static size_t summed_axis(const struct node *node, int k, size_t rank) {
  const char *op = node->proto->op_type;
  if (is_convolution(node))
    return rank > 1 && strcmp(op, "ConvTranspose") != 0;
  bool transposed = has_flag(node, k == 0 ? "transA" : "transB");
  bool last = (k == 0) != transposed;
  return last || rank < 2 ? rank - 1 : rank - 2;
}

void weights_factors(const int *scales, size_t n, int sign, float *factors) {
  for (size_t i = 0; i < n; i++)
    factors[i] = ldexpf(1, sign * scales[i]);
}

bool weights_scales(const struct plan *p, const struct blocks *b, const float *x, int *scales) {
  int least, most;
  quantise_scale_range(p, &least, &most);
  size_t n = blocks_count(b);
  struct arena scratch = {0};
  float *absmax = arena_array(&scratch, n, sizeof *absmax);
  bool finite = blocks_absmax(b, x, absmax);
  for (size_t i = 0; i < n && finite; i++) {
    scales[i] = 0;
    if (absmax[i] > 0)
      scales[i] = scale_of_range((double)absmax[i], 1, p->operand_format);
    scales[i] = scales[i] < least ? least : scales[i] > most ? most : scales[i];
  }
  arena_free(&scratch);
  return finite;
}

// ---- the test of one weight ----

// What rounding loses of x, which is then what a DequantizeLinear gives.
static void measure(const struct plan *p, const struct blocks *b, const float *x, const int *scales,
                    struct operand_plan *out) {
  size_t n = blocks_elements(b), n_blocks = blocks_count(b), nonzero = 0;
  struct arena scratch = {0};
  float *factors = arena_array(&scratch, n_blocks, sizeof *factors);
  float *y = arena_array(&scratch, n, sizeof *y);
  struct round_mode mode = {.format = &formats[p->operand_format], .saturate = true};
  struct round_count count = {0};
  double signal = 0, noise = 0;
  memcpy(y, x, n * sizeof *y);
  weights_factors(scales, n_blocks, 1, factors);
  blocks_multiply(b, y, factors);
  round_count_array(&mode, y, n, &count);
  round_array(&mode, y, y, n);
  weights_factors(scales, n_blocks, -1, factors);
  blocks_multiply(b, y, factors);
  for (size_t i = 0; i < n; i++) {
    double error = (double)y[i] - (double)x[i];
    nonzero += x[i] != 0;
    signal += (double)x[i] * (double)x[i];
    noise += error * error;
    out->largest = fmax(out->largest, fabs((double)y[i]));
  }
  arena_free(&scratch);
  out->zero_fraction = nonzero ? (double)count.zero / (double)nonzero : 0;
  out->subnormal_fraction = nonzero ? (double)count.subnormal / (double)nonzero : 0;
  out->sqnr_db = noise > 0 ? elementary_decibels(signal / noise) : INFINITY;
}

// Bytes that the weight takes as it is and in blocks, for all formats and scales in which products
// read it.
static void count_bytes(const struct weighing *w, int v, size_t elements, size_t n_blocks,
                        uint64_t *before, uint64_t *after) {
  struct copy *copies;
  struct arena scratch = {0};
  size_t n = plan_copies(w->graph, w->plan, v, &copies, &scratch);
  *before = 0;
  *after = format_bytes(&formats[w->plan->operand_format], elements);
  for (size_t i = 0; i < n; i++) {
    *before += format_bytes(&formats[copies[i].format], elements);
    *after += format_bytes(&formats[copies[i].format], n_blocks);
  }
  arena_free(&scratch);
}

static enum reason judge(const struct weighing *w, int v, const struct blocks *b, const float *x,
                         struct operand_plan *out) {
  const struct weight_policy *rule = &w->policy->weights;
  struct arena scratch = {0};
  size_t n_blocks = blocks_count(b);
  int *scales = arena_array(&scratch, n_blocks, sizeof *scales);
  enum reason why = REASON_CONSTANT;
  uint64_t before;
  if (weights_scales(w->plan, b, x, scales)) {
    out->scale_log2 = out->scale_log2_most = scales[0];
    for (size_t i = 1; i < n_blocks; i++) {
      out->scale_log2 = scales[i] < out->scale_log2 ? scales[i] : out->scale_log2;
      out->scale_log2_most = scales[i] > out->scale_log2_most ? scales[i] : out->scale_log2_most;
    }
    measure(w->plan, b, x, scales, out);
    count_bytes(w, v, blocks_elements(b), n_blocks, &before, &out->bytes);
    why = REASON_NONE;
    if (out->bytes >= before)
      why = REASON_NOT_SMALLER;
    else if (out->zero_fraction > rule->max_zero_fraction)
      why = REASON_ZERO;
    else if (out->sqnr_db < rule->min_sqnr_db)
      why = REASON_NOISE;
  }
  arena_free(&scratch);
  return why;
}

// Whether all that reads the weight are products that may read it in blocks.
static bool only_read_by_products(const struct weighing *w, int v) {
  const struct value *value = &w->graph->values[v];
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node < 0 || !w->able[use->node] ||
        !weights_may_be(w->graph, &w->graph->nodes[use->node], use->index))
      return false;
  }
  return true;
}

static enum status test_weight(struct weighing *w, int n, int k, struct diag *d) {
  int v = w->graph->nodes[n].inputs[k];
  if (w->tested[v])
    return STATUS_OK;
  w->tested[v] = true;
  w->reasons[v] = REASON_CONSTANT;
  Onnx__TensorProto *proto = graph_constant(w->graph, v);
  if (!only_read_by_products(w, v)) {
    w->reasons[v] = REASON_SHARED;
    return STATUS_OK;
  }
  if (!proto || proto->n_dims == 0)
    return STATUS_OK;
  struct operand_plan *out = arena_alloc(w->arena, sizeof *out);
  *out = (struct operand_plan){.headroom = INFINITY};
  struct arena scratch = {0};
  struct tensor t;
  enum status status = tensor_read(w->graph->model, proto, &scratch, &t, d);
  if (status == STATUS_OK && t.count > 0) {
    out->axis = (int)summed_axis(&w->graph->nodes[n], k, t.rank);
    int64_t length = t.dims[out->axis], size = w->policy->weights.block_size;
    out->block_size = size < length ? size : length;
    struct blocks b = blocks_along(t.dims, t.rank, (size_t)out->axis, (size_t)out->block_size);
    float *x = arena_array(&scratch, t.count, sizeof *x);
    tensor_to_float(&t, x);
    w->reasons[v] = judge(w, v, &b, x, out);
    w->found[v] = out;
  } else if (status != STATUS_OK) {
    diag_at(d, NULL, NULL, w->graph->values[v].name);
  }
  arena_free(&scratch);
  return status;
}

// ---- products ----

static bool is_promoted(const struct fits *fits, const struct node *node) {
  const struct promotions *promoted = fits->promotions;
  return promoted && promoted->wide_operands && node->outputs[0] >= 0 &&
         promoted->wide_operands[node->outputs[0]];
}

static bool has_weight(const struct graph *g, const struct node *node) {
  return weights_may_be(g, node, 0) || weights_may_be(g, node, 1);
}

// What does not depend on the weights themselves.
static enum reason test_product(const struct weighing *w, const struct fits *fits, int n) {
  const struct node *node = &w->graph->nodes[n];
  for (int k = 0; k < 2; k++)
    if (weights_may_be(w->graph, node, k) && !graph_is_fp32(w->graph, node->inputs[k]))
      return REASON_NOT_FLOAT;
  if (!quantise_available(w->graph, node->scope, w->plan->operand_format))
    return REASON_SCHEMA;
  return is_promoted(fits, node) ? REASON_PROMOTED : REASON_NONE;
}

// The scales and what comes out must be numbers of the format that the product runs in.
static bool fits_product(const struct weighing *w, int n, int k, const struct operand_plan *o) {
  return quantise_scale_exact(w->graph, w->plan, n, k, o->scale_log2) &&
         quantise_scale_exact(w->graph, w->plan, n, k, o->scale_log2_most) &&
         quantise_stays_finite(w->plan, n, k, o);
}

static enum status test_weights(struct weighing *w, int n, struct diag *d) {
  const struct node *in = &w->graph->nodes[n];
  for (int k = 0; k < 2; k++) {
    if (!weights_may_be(w->graph, in, k))
      continue;
    int v = in->inputs[k];
    TRY(test_weight(w, n, k, d));
    if (w->reasons[v] == REASON_NONE && !fits_product(w, n, k, w->found[v]))
      w->reasons[v] = REASON_OVERFLOW;
  }
  return STATUS_OK;
}

// When all are tested, since the reason against a weight may be another of its products.
static void choose(struct weighing *w, int n) {
  struct node_plan *node = &w->plan->nodes[n];
  const struct node *in = &w->graph->nodes[n];
  for (int k = 0; k < 2 && node->operands_reason == REASON_NONE; k++)
    if (weights_may_be(w->graph, in, k) && w->reasons[in->inputs[k]] != REASON_NONE) {
      node->operands_reason = w->reasons[in->inputs[k]];
      node->operands_value = in->inputs[k];
    }
  node->narrow_operands = node->operands_reason == REASON_NONE;
  for (int k = 0; k < 2 && node->narrow_operands; k++)
    if (weights_may_be(w->graph, in, k))
      w->plan->values[in->inputs[k]].operand = w->found[in->inputs[k]];
}

enum status weights_in_blocks(struct plan *p, const struct fits *fits, struct diag *d) {
  size_t values = (size_t)p->n_values;
  struct arena *a = fits->arena;
  struct weighing w = {
      .plan = p,
      .graph = fits->graph,
      .policy = fits->policy,
      .arena = a,
      .able = arena_array(a, (size_t)p->n_nodes, sizeof *w.able),
      .tested = arena_array(a, values, sizeof *w.tested),
      .reasons = arena_array(a, values, sizeof *w.reasons),
      .found = arena_array(a, values, sizeof *w.found),
  };
  for (int n = 0; n < p->n_nodes; n++) {
    struct node_plan *node = &p->nodes[n];
    node->product = node->product && has_weight(w.graph, &w.graph->nodes[n]);
    if (!node->product)
      continue;
    node->operands_reason = test_product(&w, fits, n);
    w.able[n] = node->operands_reason == REASON_NONE;
  }
  for (int n = 0; n < p->n_nodes; n++)
    if (w.able[n])
      TRY(test_weights(&w, n, d));
  for (int n = 0; n < p->n_nodes; n++)
    if (w.able[n])
      choose(&w, n);
  return STATUS_OK;
}
