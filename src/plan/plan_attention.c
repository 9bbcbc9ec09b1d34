// A score is a query times a key, summed over the width d of a head and scaled, so its magnitude is
// at most d * scale * max|Q| * max|K|. That is more than it will be, but needs no run of its own,
// and leaves in fp32 only what comes near. The softmax behind is taken in fp32: rewrite sets
// softmax_precision (pass_type_attributes.c). See plan_attention.h.
#include "plan_attention.h"

#include <math.h>

enum { QUERY, KEY, VALUE, MASK, PAST_KEY };  // inputs

static bool is_attention(const struct node *node) {
  return node_is(node, "Attention") && node->n_inputs > VALUE && node->n_outputs > 0 &&
         node->inputs[QUERY] >= 0 && node->inputs[KEY] >= 0;
}

static int input(const struct node *node, int k) {
  return k < node->n_inputs ? node->inputs[k] : -1;
}

// Sizes of one call, from the shape of its result, (batch, heads, queries, width) or (batch,
// queries, heads * width), and the elements of its inputs, which need not have a shape that was
// seen: what only moves elements is not observed.
struct sizes {
  double heads;    // batch * heads
  double queries;  // of each
  double width;    // of a query and a key; 0: not known
};

static double elements(const struct trace *t, int v) {
  return v >= 0 && t->stats[v].runs > 0 ? (double)t->stats[v].count / (double)t->stats[v].runs : 0;
}

static struct sizes measure(const struct node *node, const struct trace *t) {
  struct sizes s = {0};
  const struct stats *y = t && node->outputs[0] >= 0 ? &t->stats[node->outputs[0]] : NULL;
  const Onnx__AttributeProto *heads = node_attribute(node->proto, "q_num_heads");
  if (y && y->has_shape && y->rank == 4) {
    s.heads = (double)y->dims[0] * (double)y->dims[1];
    s.queries = (double)y->dims[2];
  } else if (y && y->has_shape && y->rank == 3 && heads) {
    s.heads = (double)y->dims[0] * (double)heads->i;
    s.queries = (double)y->dims[1];
  }
  if (s.heads > 0 && s.queries > 0)
    s.width = elements(t, node->inputs[QUERY]) / (s.heads * s.queries);
  return s;
}

static enum status largest(struct fits *f, int v, int r, double *magnitude, struct diag *d) {
  const struct fit *fit;
  TRY(fits_test(f, v, r, &fit, d));
  *magnitude = fmax(*magnitude, fit->absmax);
  return STATUS_OK;
}

// Entry 6 of the engines' known faults: a mask that stays fp32 keeps the node there.
static enum status mask_test(struct fits *f, int mask, int r, enum reason *why, int *culprit,
                             struct diag *d) {
  const struct fit *fit;
  if (!graph_is_fp32(f->graph, mask))
    return STATUS_OK;
  TRY(fits_test(f, mask, r, &fit, d));
  if (fit->reason != REASON_NONE) {
    *why = REASON_ENGINE;
    *culprit = mask;
  }
  return STATUS_OK;
}

enum status attention_test(struct fits *f, int n, int r, enum reason *why, int *culprit,
                           struct diag *d) {
  const struct node *node = &f->graph->nodes[n];
  const struct format *format = &formats[f->policy->ladder[r]];
  *why = REASON_NONE;
  if (!is_attention(node) || format->id == FORMAT_FP32)
    return STATUS_OK;
  double query = 0, key = 0, width = measure(node, f->trace).width;
  TRY(largest(f, node->inputs[QUERY], r, &query, d));
  TRY(largest(f, node->inputs[KEY], r, &key, d));
  if (input(node, PAST_KEY) >= 0)
    TRY(largest(f, node->inputs[PAST_KEY], r, &key, d));
  const Onnx__AttributeProto *given = node_attribute(node->proto, "scale");
  double scale = given ? fabs((double)given->f) : width > 0 ? 1 / sqrt(width) : 0;
  *culprit = node->inputs[QUERY];
  if (width == 0)
    *why = REASON_NOT_SEEN;
  else if (!(width * scale * query * key * f->policy->margin <= format->max))
    *why = REASON_SCORES;
  return *why == REASON_NONE ? mask_test(f, input(node, MASK), r, why, culprit, d) : STATUS_OK;
}

// Where several heads share a key, fewer than there are.
double attention_length(const struct graph *g, const struct trace *t, int n) {
  const struct node *node = &g->nodes[n];
  if (!is_attention(node))
    return 0;
  struct sizes s = measure(node, t);
  if (s.width == 0)
    return 0;
  double keys = elements(t, node->inputs[KEY]) + elements(t, input(node, PAST_KEY));
  return keys / (s.heads * s.width);
}
