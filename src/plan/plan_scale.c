// Chooses scales, one node at a time in an order in which producers come first. Which operators
// carry a factor, and how, is one table: a factor on a linear operator's input comes out again, on
// a sum's inputs it must be the same, on a product's inputs it multiplies. Before, one pass against
// that order finds what each value's readers would like, so that a factor that a sum needs far
// behind is put into the weights in front of it. See plan_scale.h.
#include "plan_scale.h"

#include <string.h>

enum kind {
  KIND_NONE,       // carries no factor
  KIND_LINEAR,     // input 0 moved, selected, rectified or averaged
  KIND_SUM,        // inputs from `first` on are added, joined, or chosen between
  KIND_PRODUCT,    // inputs 0 and 1 are multiplied, input 2 (if any) is added to the result
  KIND_QUOTIENT,   // input 0 over input 1
  KIND_NORMALISE,  // BatchNormalization: (x - mean) / sqrt(variance + epsilon) * gain + offset
};

enum { FIRST_OPSET = 7 };  // from which on Mul takes a scalar beside a tensor as it is

static const struct carrier {
  const char *op;
  enum kind kind;
  int first;
  const char *zero;  // an attribute that must be zero or missing: it would be added as it is
  int since;         // the opset of the operator from which on this is so; 0: the first
} carriers[] = {
    {"MatMul", KIND_PRODUCT, 0, NULL, 0},
    {"Gemm", KIND_PRODUCT, 0, NULL, 0},
    {"Conv", KIND_PRODUCT, 0, NULL, 0},
    {"ConvTranspose", KIND_PRODUCT, 0, NULL, 0},
    {"Mul", KIND_PRODUCT, 0, NULL, 0},
    {"Div", KIND_QUOTIENT, 0, NULL, 0},
    {"BatchNormalization", KIND_NORMALISE, 0, "training_mode", 0},
    {"Add", KIND_SUM, 0, NULL, 0},
    {"Sub", KIND_SUM, 0, NULL, 0},
    {"Sum", KIND_SUM, 0, NULL, 0},
    {"Mean", KIND_SUM, 0, NULL, 0},
    {"Concat", KIND_SUM, 0, NULL, 0},
    {"Max", KIND_SUM, 0, NULL, 0},
    {"Min", KIND_SUM, 0, NULL, 0},
    {"Where", KIND_SUM, 1, NULL, 0},
    {"Clip", KIND_SUM, 0, NULL, 11},  // limits are inputs
    {"Pad", KIND_SUM, 0, "value", 0},
    {"AveragePool", KIND_LINEAR, 0, NULL, 0},
    {"GlobalAveragePool", KIND_LINEAR, 0, NULL, 0},
    {"MaxPool", KIND_LINEAR, 0, NULL, 0},
    {"GlobalMaxPool", KIND_LINEAR, 0, NULL, 0},
    {"ReduceSum", KIND_LINEAR, 0, NULL, 0},
    {"ReduceMean", KIND_LINEAR, 0, NULL, 0},
    {"ReduceMax", KIND_LINEAR, 0, NULL, 0},
    {"ReduceMin", KIND_LINEAR, 0, NULL, 0},
    {"ReduceL1", KIND_LINEAR, 0, NULL, 0},
    {"ReduceL2", KIND_LINEAR, 0, NULL, 0},
    {"CumSum", KIND_LINEAR, 0, NULL, 0},
    {"Relu", KIND_LINEAR, 0, NULL, 0},
    {"LeakyRelu", KIND_LINEAR, 0, NULL, 0},
    {"PRelu", KIND_LINEAR, 0, NULL, 0},
    {"Abs", KIND_LINEAR, 0, NULL, 0},
    {"Neg", KIND_LINEAR, 0, NULL, 0},
    {"Identity", KIND_LINEAR, 0, NULL, 0},
    {"Dropout", KIND_LINEAR, 0, NULL, 0},
    {"Reshape", KIND_LINEAR, 0, NULL, 0},
    {"Flatten", KIND_LINEAR, 0, NULL, 0},
    {"Transpose", KIND_LINEAR, 0, NULL, 0},
    {"Squeeze", KIND_LINEAR, 0, NULL, 0},
    {"Unsqueeze", KIND_LINEAR, 0, NULL, 0},
    {"Expand", KIND_LINEAR, 0, NULL, 0},
    {"Tile", KIND_LINEAR, 0, NULL, 0},
    {"Slice", KIND_LINEAR, 0, NULL, 0},
    {"Split", KIND_LINEAR, 0, NULL, 0},
    {"Gather", KIND_LINEAR, 0, NULL, 0},
    {"GatherElements", KIND_LINEAR, 0, NULL, 0},
    {"GatherND", KIND_LINEAR, 0, NULL, 0},
    {"Compress", KIND_LINEAR, 0, NULL, 0},
    {"Trilu", KIND_LINEAR, 0, NULL, 0},
    {"DepthToSpace", KIND_LINEAR, 0, NULL, 0},
    {"SpaceToDepth", KIND_LINEAR, 0, NULL, 0},
    {"Resize", KIND_LINEAR, 0, "extrapolation_value", 0},
    {"Upsample", KIND_LINEAR, 0, NULL, 0},
};

static bool attribute_is_zero(const struct node *node, const char *name) {
  const Onnx__AttributeProto *a = node_attribute(node->proto, name);
  return !a || (a->f == 0 && a->i == 0 && !a->ref_attr_name);
}

static const struct carrier *find_carrier(const struct graph *g, int n) {
  static const struct carrier none = {"", KIND_NONE, 0, NULL, 0};
  const struct node *node = &g->nodes[n];
  if (graph_opset(g, node->scope, "") < FIRST_OPSET)
    return &none;
  for (size_t i = 0; i < sizeof carriers / sizeof carriers[0]; i++)
    if (node_is(node, carriers[i].op)) {
      bool carries = node->schema && node->schema->since >= carriers[i].since &&
                     (!carriers[i].zero || attribute_is_zero(node, carriers[i].zero));
      return carries ? &carriers[i] : &none;
    }
  return &none;
}

bool scale_carried(const struct graph *g, int n) {
  return find_carrier(g, n)->kind != KIND_NONE;
}

struct scaling {
  struct plan *plan;
  struct graph *graph;
  struct fits *fits;
  uint8_t *denied;
  bool *changed;
  struct diag *diag;
  struct diag_list errors;  // scales that a person asked for and that cannot be
  int *wish;  // by value: the scale that it would best be stored at, if its format is narrow
  // Of the node at hand:
  int node, rung;
  enum format_id format;
  int *scales;    // by input: chosen so far
  int output;     // likewise for the outputs
  bool feasible;  // whether all of it passes
};

// ---- the node at hand ----

static bool begin_node(struct scaling *s, int n) {
  s->node = n;
  s->format = s->plan->nodes[n].format;
  s->output = 0;
  s->feasible = true;
  if (s->format == FORMAT_FP32)
    return false;
  for (s->rung = 0; s->plan->ladder[s->rung] != s->format; s->rung++)
    ;
  return true;
}

// Input k if the node reads it in its narrow format, else -1.
static int input(const struct scaling *s, int k) {
  const struct node *node = &s->graph->nodes[s->node];
  bool narrow = k < node->n_inputs && node->inputs[k] >= 0 &&
                plan_input_format(s->graph, s->plan, s->node, k) == s->format;
  return narrow ? node->inputs[k] : -1;
}

static int output(const struct scaling *s, int k) {
  bool narrow = plan_output_format(s->graph, s->plan, s->node, k) == s->format;
  return narrow ? s->graph->nodes[s->node].outputs[k] : -1;
}

static int first_output(const struct scaling *s) {
  for (int k = 0; k < s->graph->nodes[s->node].n_outputs; k++)
    if (output(s, k) >= 0)
      return output(s, k);
  return -1;
}

static bool is_constant(const struct scaling *s, int v) {
  return v >= 0 && graph_constant(s->graph, v);
}

// Given out of the main graph as it is stored: whoever reads it there knows of no scale.
static bool is_given_out(const struct scaling *s, int v) {
  const struct value *value = &s->graph->values[v];
  if (!s->plan->narrow_outputs || value->scope != 0)
    return false;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node < 0)
      return true;
  return false;
}

// ---- tests ----

// Whether v may be in the node's format at that scale.
static enum status passes(const struct scaling *s, int v, int scale, bool *ok) {
  struct fit fit;
  *ok = scale >= SCALE_LOG2_MIN && scale <= SCALE_LOG2_MAX;
  if (v < 0 || !*ok)
    return STATUS_OK;
  TRY(fits_test_scaled(s->fits, v, s->rung, scale, &fit, s->diag));
  *ok = fit.reason == REASON_NONE && (scale == 0 || !is_given_out(s, v));
  return STATUS_OK;
}

static enum status require(struct scaling *s, int v, int scale) {
  bool ok;
  TRY(passes(s, v, scale, &ok));
  s->feasible = s->feasible && ok;
  return STATUS_OK;
}

// The scale at which the node finds v: as it is stored, or, if that is in another format, as it
// would be cast.
static enum status found_scale(const struct scaling *s, int v, int *scale) {
  *scale = 0;
  if (v < 0 || is_constant(s, v))
    return STATUS_OK;
  if (s->plan->values[v].format != s->format)
    return fits_scale(s->fits, v, s->rung, scale, s->diag);
  *scale = s->plan->values[v].scale_log2;
  return STATUS_OK;
}

// Whether all inputs and outputs pass at the scales chosen.
static enum status check_choice(struct scaling *s) {
  const struct node *node = &s->graph->nodes[s->node];
  const struct node_plan *plan = &s->plan->nodes[s->node];
  s->feasible = !plan->scale_overridden || s->output == plan->scale_wanted;
  for (int k = 0; k < node->n_inputs && s->feasible; k++)
    TRY(require(s, input(s, k), s->scales[k]));
  for (int k = 0; k < node->n_outputs && s->feasible; k++)
    TRY(require(s, output(s, k), s->output));
  return STATUS_OK;
}

static void clear_choice(struct scaling *s) {
  s->output = 0;
  memset(s->scales, 0, (size_t)s->graph->nodes[s->node].n_inputs * sizeof *s->scales);
}

// ---- one kind each: chooses s->scales and s->output ----

static enum status choose_linear(struct scaling *s) {
  int found;
  TRY(found_scale(s, input(s, 0), &found));
  const int candidates[] = {found, s->wish[first_output(s)]};
  for (int i = 0; i < 2; i++) {
    clear_choice(s);
    if (input(s, 0) >= 0)
      s->output = s->scales[0] = candidates[i];
    TRY(check_choice(s));
    if (s->feasible)
      return STATUS_OK;
  }
  return STATUS_OK;
}

static void set_sum(struct scaling *s, int first, int scale) {
  clear_choice(s);
  s->output = scale;
  for (int k = first; k < s->graph->nodes[s->node].n_inputs; k++)
    s->scales[k] = input(s, k) >= 0 ? scale : 0;
}

// Of the scales that the inputs have and the result would best have, the one for which fewest
// inputs need a scale node.
static enum status choose_sum(struct scaling *s, int first) {
  const struct node *node = &s->graph->nodes[s->node];
  int best = 0, fewest = -1;
  bool tried[2 * SCALE_LOG2_MAX + 1] = {false};
  for (int i = first - 1; i < node->n_inputs; i++) {
    int candidate = s->wish[first_output(s)], rescaled = 0;
    if (i >= first && (input(s, i) < 0 || is_constant(s, input(s, i))))
      continue;
    if (i >= first)
      TRY(found_scale(s, input(s, i), &candidate));
    if (tried[candidate - SCALE_LOG2_MIN])
      continue;
    tried[candidate - SCALE_LOG2_MIN] = true;
    set_sum(s, first, candidate);
    TRY(check_choice(s));
    for (int k = first; k < node->n_inputs && s->feasible; k++) {
      int found;
      TRY(found_scale(s, input(s, k), &found));
      rescaled += input(s, k) >= 0 && !is_constant(s, input(s, k)) && found != candidate;
    }
    if (s->feasible && (fewest < 0 || rescaled < fewest)) {
      fewest = rescaled;
      best = candidate;
    }
  }
  set_sum(s, first, best);
  s->feasible = fewest >= 0;
  return STATUS_OK;
}

// Tries the result at `result`: what the operands lack of it goes into the constant, if one is,
// else onto an operand as a scale node.
static enum status try_product(struct scaling *s, int sign, const int *found, int result) {
  int missing = result - (found[0] + sign * found[1]);
  bool constants = is_constant(s, input(s, 0)) || is_constant(s, input(s, 1));
  for (int k = 1; k >= 0; k--) {
    if (constants && !is_constant(s, input(s, k)))
      continue;
    clear_choice(s);
    s->output = result;
    s->scales[0] = found[0];
    s->scales[1] = found[1];
    s->scales[k] += k == 1 ? sign * missing : missing;
    if (input(s, 2) >= 0)
      s->scales[2] = result;
    TRY(check_choice(s));
    if (s->feasible)
      return STATUS_OK;
  }
  return STATUS_OK;
}

static enum status choose_product(struct scaling *s, int sign) {
  int found[2], own[2] = {0, 0}, result = first_output(s);
  if (input(s, 0) < 0 || input(s, 1) < 0) {
    s->feasible = false;
    return STATUS_OK;
  }
  for (int k = 0; k < 2; k++) {
    TRY(found_scale(s, input(s, k), &found[k]));
    if (is_constant(s, input(s, k)))
      TRY(fits_scale(s->fits, input(s, k), s->rung, &own[k], s->diag));
  }
  int natural = found[0] + sign * found[1];
  bool folds = is_constant(s, input(s, 0)) || is_constant(s, input(s, 1));
  const int candidates[] = {
      folds ? s->wish[result] : natural, folds ? natural : s->wish[result],
      natural + own[0] + sign * own[1],  // where a constant cannot be stored as it is
  };
  for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
    TRY(try_product(s, sign, found, candidates[i]));
    if (s->feasible)
      return STATUS_OK;
  }
  return STATUS_OK;
}

// x at s, result at t: mean at s, gain at t - s, offset at t, variance as it is. The mean is scaled
// also where it stays fp32.
static enum status choose_normalise(struct scaling *s) {
  enum { X, GAIN, OFFSET, MEAN, VARIANCE };
  const struct node *node = &s->graph->nodes[s->node];
  clear_choice(s);
  TRY(found_scale(s, input(s, X), &s->scales[X]));
  s->output = s->wish[first_output(s)];
  bool constants = node->n_inputs > VARIANCE;
  for (int k = GAIN; k <= VARIANCE && constants; k++)
    constants = is_constant(s, node->inputs[k]);
  s->feasible = constants;
  if (!constants)
    return STATUS_OK;
  s->scales[GAIN] = s->output - s->scales[X];
  s->scales[OFFSET] = s->output;
  s->scales[MEAN] = s->scales[X];
  return check_choice(s);
}

static enum status choose(struct scaling *s) {
  const struct carrier *carrier = find_carrier(s->graph, s->node);
  s->feasible = false;
  if (first_output(s) >= 0)
    switch (carrier->kind) {
    case KIND_LINEAR: TRY(choose_linear(s)); break;
    case KIND_SUM: TRY(choose_sum(s, carrier->first)); break;
    case KIND_PRODUCT: TRY(choose_product(s, 1)); break;
    case KIND_QUOTIENT: TRY(choose_product(s, -1)); break;
    case KIND_NORMALISE: TRY(choose_normalise(s)); break;
    case KIND_NONE: break;
    }
  if (s->feasible)
    return STATUS_OK;
  clear_choice(s);
  return check_choice(s);
}

// ---- wishes ----

// A sum or a linear operator hands on to its inputs what its result wishes, and so does a product
// to the first operand if none is constant.
static bool hands_on(const struct scaling *s, int k) {
  const struct carrier *carrier = find_carrier(s->graph, s->node);
  switch (carrier->kind) {
  case KIND_LINEAR: return k == 0;
  case KIND_SUM: return k >= carrier->first;
  case KIND_PRODUCT:
    return k == 0 && !is_constant(s, input(s, 1)) && s->graph->values[input(s, 0)].n_uses == 1 &&
           input(s, 0) != input(s, 1);
  default: return false;
  }
}

// What its first reader would like, if it may be stored so, else the scale that it needs itself.
static enum status find_wish(struct scaling *s, int v) {
  const struct value *value = &s->graph->values[v];
  if (s->plan->nodes[value->producer].scale_overridden) {
    s->wish[v] = s->plan->nodes[value->producer].scale_wanted;
    return STATUS_OK;
  }
  for (int u = 0; u < value->n_uses; u++) {
    int reader = value->uses[u].node, k = value->uses[u].index;
    bool ok;
    if (reader < 0 || s->plan->nodes[reader].format != s->plan->values[v].format ||
        !begin_node(s, reader) || input(s, k) < 0 || first_output(s) < 0 ||
        s->wish[first_output(s)] == 0 || !hands_on(s, k))
      continue;
    int wish = s->wish[first_output(s)];
    TRY(passes(s, v, wish, &ok));
    if (ok) {
      s->wish[v] = wish;
      return STATUS_OK;
    }
  }
  begin_node(s, value->producer);
  return fits_scale(s->fits, v, s->rung, &s->wish[v], s->diag);
}

static enum status find_wishes(struct scaling *s) {
  const struct graph *g = s->graph;
  for (int scope = g->n_scopes - 1; scope >= 0; scope--)
    for (int i = g->scopes[scope].n_nodes - 1; i >= 0; i--) {
      int n = g->scopes[scope].order[i];
      for (int k = 0; begin_node(s, n) && k < g->nodes[n].n_outputs; k++)
        if (output(s, k) >= 0)
          TRY(find_wish(s, output(s, k)));
    }
  return STATUS_OK;
}

// ---- all nodes ----

static void refuse_scale(struct scaling *s, const struct node_plan *plan) {
  diag_at(s->diag, s->plan->overrides->file, graph_node_label(s->graph, s->node), NULL);
  diag_fail(s->diag, STATUS_POLICY, "%s: %s", plan->rule_id,
            scale_carried(s->graph, s->node)
                ? "at this scale what it reads or gives out does not pass for its format"
                : "the operator carries no scale from its inputs to its outputs");
  diag_collect(&s->errors, s->diag);
}

static enum status scale_node(struct scaling *s, int n) {
  struct node_plan *plan = &s->plan->nodes[n];
  const struct node *node = &s->graph->nodes[n];
  plan->input_scales = NULL;
  plan->output_scale = 0;
  if (!begin_node(s, n))
    return STATUS_OK;
  s->scales = arena_array(s->fits->arena, (size_t)node->n_inputs + 2, sizeof *s->scales);
  TRY(choose(s));
  if (!s->feasible && plan->scale_overridden)
    refuse_scale(s, plan);
  if (!s->feasible && !plan->overridden) {
    s->denied[n] |= (uint8_t)(1u << s->rung);
    *s->changed = true;
    return STATUS_OK;
  }
  for (int k = 0; k < node->n_inputs; k++)
    if (s->scales[k] != 0)
      plan->input_scales = s->scales;
  plan->output_scale = s->output;
  for (int k = 0; k < node->n_outputs; k++)
    if (output(s, k) >= 0)
      s->plan->values[output(s, k)].scale_log2 = s->output;
  return STATUS_OK;
}

enum status scale_assign(struct plan *p, struct fits *f, uint8_t *denied, bool *changed,
                         struct diag *d) {
  struct scaling s = {
      .plan = p,
      .graph = f->graph,
      .fits = f,
      .denied = denied,
      .changed = changed,
      .diag = d,
      .wish = arena_array(f->arena, (size_t)p->n_values, sizeof *s.wish),
  };
  *changed = false;
  for (int v = 0; v < p->n_values; v++)
    p->values[v].scale_log2 = 0;
  TRY(find_wishes(&s));
  const struct graph *g = f->graph;
  for (int scope = 0; scope < g->n_scopes; scope++)
    for (int i = 0; i < g->scopes[scope].n_nodes; i++)
      TRY(scale_node(&s, g->scopes[scope].order[i]));
  return diag_list_end(&s.errors, d, "scales cannot be applied, as named above");
}

// ---- plans from files ----

static bool inputs_all(const struct graph *g, const struct plan *p, int n, int first, int scale) {
  for (int k = first; k < g->nodes[n].n_inputs; k++)
    if (plan_input_format(g, p, n, k) == p->nodes[n].format && plan_input_scale(p, n, k) != scale)
      return false;
  return true;
}

bool scale_consistent(const struct graph *g, const struct plan *p, int n) {
  const struct carrier *carrier = find_carrier(g, n);
  int in[5], out = p->nodes[n].output_scale;
  for (int k = 0; k < 5; k++)
    in[k] = k < g->nodes[n].n_inputs ? plan_input_scale(p, n, k) : 0;
  switch (carrier->kind) {
  case KIND_LINEAR: return in[0] == out && inputs_all(g, p, n, 1, 0);
  case KIND_SUM: return inputs_all(g, p, n, carrier->first, out);
  case KIND_PRODUCT: return in[0] + in[1] == out && inputs_all(g, p, n, 2, out);
  case KIND_QUOTIENT: return in[0] - in[1] == out;
  case KIND_NORMALISE: return in[1] == out - in[0] && in[2] == out && in[3] == in[0] && in[4] == 0;
  case KIND_NONE: break;
  }
  return out == 0 && inputs_all(g, p, n, 0, 0);
}
