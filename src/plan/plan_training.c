// Advice for a training, from one that the trace has run (trace --feedback). See plan_training.h.
// The gradients themselves are fp32 here: what their range asks of a narrow format can be told
// without rounding them.
#include "plan_training.h"

#include "plan_windows.h"
#include "tensor.h"

#include <math.h>

double training_bytes(double n, enum format_id f, bool master_copy, int moments) {
  double narrow = formats[f].stored_bits / 8.0, wide = formats[FORMAT_FP32].stored_bits / 8.0;
  bool copy = master_copy && f != FORMAT_FP32;
  return n * (2 * narrow + ((copy ? 1 : 0) + moments) * wide);
}

// Of one run; 0 if it was not seen.
static double elements(struct graph *g, const struct trace *t, int v) {
  uint64_t count, bytes;
  const Onnx__TensorProto *constant = graph_constant(g, v);
  if (!constant && t->stats[v].runs > 0)
    return (double)t->stats[v].count / (double)t->stats[v].runs;
  if (!constant)
    constant = g->values[v].initializer;
  return constant && tensor_extent(constant, &count, &bytes) ? (double)count : 0;
}

// What a single number is multiplied with, or divides: of "rate * gradient", the gradient.
static int without_factors(struct graph *g, const struct trace *t, int v) {
  enum { MOST = 8 };  // factors
  for (int k = 0; k < MOST; k++) {
    const struct value *value = &g->values[v];
    if (value->origin != ORIGIN_NODE)
      return v;
    const struct node *node = &g->nodes[value->producer];
    bool product = node_is(node, "Mul");
    if (node_is(node, "Neg") && node->n_inputs == 1 && node->inputs[0] >= 0)
      v = node->inputs[0];
    else if ((!product && !node_is(node, "Div")) || node->n_inputs != 2 || node->inputs[0] < 0 ||
             node->inputs[1] < 0)
      return v;
    else if (elements(g, t, node->inputs[1]) == 1)
      v = node->inputs[0];
    else if (product && elements(g, t, node->inputs[0]) == 1)
      v = node->inputs[1];
    else
      return v;
  }
  return v;
}

// The gradient of weight w: of a node "w - a * g" (or +) that makes an output of the model. -1:
// none.
static int gradient_of(struct graph *g, const struct trace *t, int w) {
  const struct value *value = &g->values[w];
  for (int u = 0; u < value->n_uses; u++) {
    int n = value->uses[u].node, k = value->uses[u].index;
    const struct node *node = n >= 0 ? &g->nodes[n] : NULL;
    if (!node || node->n_inputs != 2 || node->n_outputs != 1 || node->outputs[0] < 0 ||
        !g->values[node->outputs[0]].is_output)
      continue;
    bool subtracts = node_is(node, "Sub") && k == 0;
    if ((subtracts || node_is(node, "Add")) && node->inputs[1 - k] >= 0)
      return without_factors(g, t, node->inputs[1 - k]);
  }
  return -1;
}

// By window: the largest gradient of any weight.
struct maxima {
  double *windows;
  size_t n;
};

static void see_gradient(struct training_plan *out, const struct stats *s, double may_vanish,
                         struct maxima *maxima) {
  double largest = (double)stats_absmax(s);
  if (!(largest > 0))
    return;
  double smallest = stats_magnitude_above(s, may_vanish);
  out->gradient_max = fmax(out->gradient_max, largest);
  out->gradient_min = out->n_gradients ? fmin(out->gradient_min, smallest) : smallest;
  for (size_t w = 0; w < s->n_windows && w < maxima->n; w++)
    maxima->windows[w] = fmax(maxima->windows[w], (double)s->windows[w].absmax);
  out->n_gradients++;
}

// What a dynamic scale would have done in the steps of the trace.
static void run_dynamic_scale(struct training_plan *out, const struct trace *t,
                              const struct maxima *maxima) {
  struct loss_scaler scaler = {.scale_log2 = out->rule.start_log2,
                               .interval = (uint64_t)out->rule.interval};
  size_t left = t->steps;
  for (size_t w = 0; w < maxima->n; w++) {
    size_t steps = left < t->window ? left : t->window;
    double largest = maxima->windows[w] * out->rule.micro_batches;
    out->skipped += loss_scaler_steps(&scaler, largest, steps, out->format);
    left -= steps;
  }
  out->dynamic_log2 = scaler.scale_log2;
}

static size_t most_windows(const struct trace *t) {
  size_t most = 0;
  for (int v = 0; v < t->n_values; v++)
    most = t->stats[v].n_windows > most ? t->stats[v].n_windows : most;
  return most;
}

void training_advise(struct plan *p, struct graph *g, const struct trace *t,
                     const struct policy *policy, struct arena *a) {
  if (p->n_weights == 0 || !policy->training.use || !t || t->window == 0)
    return;
  struct training_plan *out = arena_alloc(a, sizeof *out);
  *out = (struct training_plan){.format = p->ladder[0], .rule = policy->training};
  struct maxima maxima = {.n = most_windows(t)};
  maxima.windows = arena_array(a, maxima.n, sizeof *maxima.windows);
  for (size_t i = 0; i < p->n_weights; i++) {
    const struct weight_plan *w = &p->weights[i];
    double n = elements(g, t, w->value);
    int gradient = gradient_of(g, t, w->value);
    out->bytes_before += training_bytes(n, FORMAT_FP32, false, out->rule.moments);
    out->bytes_after += training_bytes(n, out->format, w->master_copy, out->rule.moments);
    if (gradient >= 0 && t->stats[gradient].runs > 0)
      see_gradient(out, &t->stats[gradient], policy->max_zero_fraction, &maxima);
  }
  p->training = out;
  if (out->n_gradients == 0)
    return;
  double largest = out->gradient_max * out->rule.micro_batches;
  out->scales = loss_scale_range(out->gradient_min, largest, out->format);
  out->scale_log2 = scale_of_range(largest, policy->margin, out->format);
  if (out->scale_log2 < out->scales.first)
    out->scale_log2 = out->scales.last;  // the margin is more than the range leaves
  out->divisor = ldexp(out->rule.micro_batches, out->scale_log2);
  run_dynamic_scale(out, t, &maxima);
}
