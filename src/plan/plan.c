// Decides the plan: classes from the policy's rules, what each node may run in from the tests of
// its values and from the operator's schema, then formats for all nodes at once (plan_assign.c),
// then formats for all values. A pure function; plan_make reads like the table of contents.
#include "plan.h"

#include "plan_assign.h"
#include "plan_engine.h"
#include "plan_fit.h"
#include "plan_pattern.h"
#include "plan_quantise.h"
#include "plan_scale.h"
#include "plan_training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CAST_SINCE_INT_ATTRIBUTE = 6 };

// identifier in the plan file, sentence for people
static const struct {
  const char *name, *text;
} reasons[REASON_COUNT] = {
    [REASON_NONE] = {"none", "nothing stands against it"},
    [REASON_CLASS] = {"class", "the policy's rule keeps this operator in fp32"},
    [REASON_NOT_FLOAT] = {"not_float", "has no fp32 tensor"},
    [REASON_OVERFLOW] = {"overflow", "a value leaves the format's range"},
    [REASON_ZERO] = {"zero", "too many values become zero"},
    [REASON_SUBNORMAL] = {"subnormal", "too many values become subnormal"},
    [REASON_CONSTANT] = {"constant", "a constant does not survive in the format"},
    [REASON_NOT_SEEN] = {"not_seen", "a value was not seen in the calibration trace"},
    [REASON_SCHEMA] = {"schema", "the operator does not take the format at this opset"},
    [REASON_UNKNOWN_OP] = {"unknown_op", "the operator is not in the table"},
    [REASON_SHAPE_MATH] = {"shape_math", "computes shapes"},
    [REASON_NO_NEIGHBOUR] = {"no_neighbour", "nothing next to it runs narrow"},
    [REASON_BOUNDARY] = {"boundary", "its Casts would cost more than it saves"},
    [REASON_NONFINITE] = {"nonfinite", "a value is NaN in the fp32 model already"},
    [REASON_RESOLUTION] = {"resolution", "the step is too coarse for integers or angles"},
    [REASON_CONTAINER] = {"container", "makes or takes a sequence, optional or map"},
    [REASON_CONVERTED] = {"converted", "the model is a result of narrowcast already"},
    [REASON_PROMOTED] = {"promoted", "was promoted, since a claim did not hold with it narrow"},
    [REASON_QUANTISED] = {"quantised", "is part of a quantised island, which is left alone"},
    [REASON_ENGINE] = {"engine", "ONNX Runtime fails on this pattern if it is narrow"},
    [REASON_PATTERN] = {"pattern", "part of a pattern that stays in fp32 as a whole"},
    [REASON_STEP] = {"step", "updates of a value are smaller than a step of the format"},
    [REASON_UNSTABLE] = {"unstable", "windows disagree on the scale that a value needs"},
    [REASON_OVERRIDE] = {"override", "a person decided so: see the note of the override"},
    [REASON_POLYMORPHIC] = {"polymorphic",
                            "its function is called with different types or without a value"},
};

const char *reason_name(enum reason r) {
  return reasons[r].name;
}

const char *reason_text(enum reason r) {
  return reasons[r].text;
}

bool plan_is_identity(const struct plan *p) {
  for (int n = 0; n < p->n_nodes; n++)
    if (p->nodes[n].format != FORMAT_FP32 || p->nodes[n].narrow_operands)
      return false;
  for (int v = 0; v < p->n_values; v++)
    if (p->values[v].considered && p->values[v].format != FORMAT_FP32)
      return false;
  return true;
}

// What plan_make works on.
struct planner {
  struct plan *plan;
  struct graph *graph;
  const struct policy *policy;
  struct arena *arena;
  struct fits fits;
  struct patterns patterns;
  bool converted;    // pass_metadata marked the model
  bool *shape_math;  // by value: computed from shapes and constants alone
  uint8_t *allowed;  // by node: bit r for rung r
  uint16_t *scaled;  // by value: bit f if it needs a scale in format f
  uint8_t *denied;   // by node: bit r if its values may not be scaled in rung r
  bool any_scaled;
};

// ---- classes ----

static const char **touched_names(const struct planner *pl, const struct node *node, int *count,
                                  const char **fixed, int fixed_size) {
  int total = node->n_inputs + node->n_outputs;
  const char **names =
      total <= fixed_size ? fixed : arena_array(pl->arena, (size_t)total, sizeof *names);
  *count = 0;
  for (int k = 0; k < node->n_inputs; k++)
    if (node->inputs[k] >= 0)
      names[(*count)++] = pl->graph->values[node->inputs[k]].name;
  for (int k = 0; k < node->n_outputs; k++)
    if (node->outputs[k] >= 0)
      names[(*count)++] = pl->graph->values[node->outputs[k]].name;
  return names;
}

static void classify(struct planner *pl, int n) {
  enum { USUAL_NAMES = 16 };
  const struct node *node = &pl->graph->nodes[n];
  struct node_plan *out = &pl->plan->nodes[n];
  const char *fixed[USUAL_NAMES];
  struct rule_subject subject = {
      .domain = node->proto->domain ? node->proto->domain : "",
      .op = node->proto->op_type,
      .node = graph_node_label(pl->graph, n),
      .scope = pl->graph->scopes[node->scope].path,
      .pattern = pl->patterns.kind[n],
  };
  for (int k = 0; k < node->n_inputs && k < 64; k++)
    if (node->inputs[k] >= 0 && graph_constant(pl->graph, node->inputs[k]))
      subject.constant_inputs |= 1ull << k;
  subject.tensors = touched_names(pl, node, &subject.n_tensors, fixed, USUAL_NAMES);
  const struct rule *rule = policy_match(pl->policy, &subject);
  enum node_class class = rule ? rule->class : CLASS_KEEP;
  bool is_cast = node_is(node->proto, "Cast") || node_is(node->proto, "CastLike");
  if (is_cast && class == CLASS_KEEP && !pl->policy->keep_author_casts)
    class = CLASS_FOLLOW;
  *out = (struct node_plan){
      .class = class,
      .rule = rule,
      .rule_id = rule ? rule->id : "",
      .pattern = pl->patterns.kind[n],
      .format = FORMAT_FP32,
      .reason_value = -1,
      .reason_format = pl->policy->ladder[0],
      .operands_value = -1,
  };
}

// ---- float arithmetic that computes shapes ----

static bool shape_math_node(const struct planner *pl, const struct node *node) {
  if (plan_reads_shape_only(node))
    return true;
  bool from_shape = false;
  for (int k = 0; k < node->n_inputs; k++) {
    int v = node->inputs[k];
    if (v < 0 || graph_constant(pl->graph, v))
      continue;
    if (!pl->shape_math[v])
      return false;
    from_shape = true;
  }
  return from_shape;
}

// Forward over every scope in an order in which producers come first; a tensor filled to a computed
// shape (ConstantOfShape, Expand) holds data again, not a shape.
static void find_shape_math(struct planner *pl) {
  static const char *const back_to_data[] = {"ConstantOfShape", "Expand",          "Tile",
                                             "EyeLike",         "RandomNormal",    "RandomUniform",
                                             "Range",           "RandomNormalLike"};
  struct graph *g = pl->graph;
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++) {
      const struct node *node = &g->nodes[g->scopes[s].order[i]];
      bool data = node->n_bodies > 0 || node->function >= 0;
      for (size_t b = 0; b < sizeof back_to_data / sizeof back_to_data[0] && !data; b++)
        data = node_is(node->proto, back_to_data[b]);
      if (data || !shape_math_node(pl, node))
        continue;
      for (int k = 0; k < node->n_outputs; k++)
        if (node->outputs[k] >= 0)
          pl->shape_math[node->outputs[k]] = true;
    }
}

// ---- what a node may run in ----

// Whether v, which node n reads or makes and which fails as it is, would pass at a scale that n
// carries.
static enum status passes_scaled(struct planner *pl, int n, int r, int v, bool *ok,
                                 struct diag *d) {
  int scale = 0;
  if (pl->policy->scales.use && !(pl->denied[n] >> r & 1) && scale_carried(pl->graph, n))
    TRY(fits_scale(&pl->fits, v, r, &scale, d));
  *ok = scale != 0;
  if (*ok) {
    pl->scaled[v] |= (uint16_t)(1u << pl->policy->ladder[r]);
    pl->any_scaled = true;
  }
  return STATUS_OK;
}

// Tests the values of one side of a node (inputs or outputs) that belong to variable `var`.
static enum status test_side(struct planner *pl, int n, int r, int var, bool outputs,
                             enum reason *why, int *culprit, struct diag *d) {
  const struct node *node = &pl->graph->nodes[n];
  int count = outputs ? node->n_outputs : node->n_inputs;
  for (int k = 0; k < count && *why == REASON_NONE; k++) {
    int v = outputs ? node->outputs[k] : node->inputs[k];
    const struct formal *f =
        outputs ? schema_output(node->schema, k) : schema_input(node->schema, k);
    if (!graph_is_fp32(pl->graph, v) || !f || f->var != var)
      continue;
    const struct fit *fit;
    bool scaled = false;
    TRY(fits_test(&pl->fits, v, r, &fit, d));
    if (fit->reason != REASON_NONE && var == plan_main_variable(pl->graph, n))
      TRY(passes_scaled(pl, n, r, v, &scaled, d));
    if (fit->reason != REASON_NONE && !scaled) {
      *why = fit->reason;
      *culprit = v;
    }
  }
  return STATUS_OK;
}

// An output's type that follows from an attribute must be one that rewrite can write there.
static bool attribute_writable(const struct node *node) {
  for (int i = 0; i < node->schema->n_type_attributes; i++) {
    const Onnx__AttributeProto *attribute =
        node_attribute(node->proto, node->schema->type_attributes[i].attribute);
    if (attribute && attribute->ref_attr_name && attribute->ref_attr_name[0])
      return false;
  }
  return true;
}

// The opset of ai.onnx at node n, that of the main graph if its function imports none.
static int opset_of_onnx(const struct graph *g, int n) {
  int opset = graph_opset(g, g->nodes[n].scope, "");
  return opset > 0 ? opset : graph_opset(g, 0, "");
}

// Boundaries need a Cast that knows the type: Cast took bfloat16 in opset 13. Before opset 6 it
// spelled the type as a string, from which no engine infers a type.
bool plan_cast_available(const struct graph *g, int n, enum format_id f) {
  const struct schema *cast = schema_find(g->schemas, "", "Cast", opset_of_onnx(g, n));
  return cast && cast->since >= CAST_SINCE_INT_ATTRIBUTE &&
         schema_allows(cast, cast->outputs[0].var, formats[f].onnx_type);
}

// The own variable and the followed one of output k, if it follows one (plan_followed_variable).
static bool follows(const struct graph *g, int n, int k, int *own, int *followed) {
  const struct node *node = &g->nodes[n];
  *followed = graph_is_fp32(g, node->outputs[k]) ? plan_followed_variable(g, n, k) : -1;
  *own = *followed >= 0 ? schema_output(node->schema, k)->var : -1;
  return *followed >= 0 && *followed != *own;
}

// The variables that must be narrow if the node's main one is, itself included.
static uint64_t narrow_together(const struct graph *g, int n) {
  int main_var = plan_main_variable(g, n), own, followed;
  uint64_t together = 1ull << main_var;
  for (int k = 0; k < g->nodes[n].n_outputs; k++)
    if (follows(g, n, k, &own, &followed) && (own == main_var || followed == main_var))
      together |= 1ull << own | 1ull << followed;
  return together;
}

bool plan_operator_takes(const struct graph *g, int n, enum format_id f) {
  const struct schema *schema = g->nodes[n].schema;
  int var = plan_main_variable(g, n), elem_type = formats[f].onnx_type;
  if (var < 0 || !plan_cast_available(g, n, f))
    return false;
  uint64_t together = narrow_together(g, n);
  for (int k = 0; k < schema->n_vars && k < 64; k++)
    if (together >> k & 1 && !schema_allows(schema, k, elem_type))
      return false;
  int from = schema->domain[0] ? 1 : schema_body_allows_from(schema->op, elem_type);
  return from > 0 && opset_of_onnx(g, n) >= from;
}

static enum status may_run(struct planner *pl, int n, int r, enum reason *why, int *culprit,
                           struct diag *d) {
  const struct node *node = &pl->graph->nodes[n];
  *why = REASON_NONE;
  *culprit = -1;
  if (!attribute_writable(node) || !plan_operator_takes(pl->graph, n, pl->policy->ladder[r])) {
    *why = REASON_SCHEMA;
    return STATUS_OK;
  }
  uint64_t together = narrow_together(pl->graph, n);
  for (int var = 0; var < node->schema->n_vars && var < 64; var++) {
    if (!(together >> var & 1))
      continue;
    TRY(test_side(pl, n, r, var, false, why, culprit, d));
    TRY(test_side(pl, n, r, var, true, why, culprit, d));
  }
  return STATUS_OK;
}

// Inputs that hold positions or counts stay exact: fp16 has no odd integer above 2048, bf16 none
// above 256, and the range test does not see that.
static bool holds_positions(const struct node *node, int k) {
  return (node_is(node->proto, "OneHot") && k < 2) ||  // indices, depth
         (node_is(node->proto, "Resize") && k == 1);   // roi
}

// Variables besides the main one narrow along if all their values pass, else they stay fp32.
static enum status find_wide_variables(struct planner *pl, int n, struct diag *d) {
  const struct node *node = &pl->graph->nodes[n];
  struct node_plan *out = &pl->plan->nodes[n];
  int main_var = plan_main_variable(pl->graph, n);
  for (int k = 0; k < node->n_inputs; k++) {
    const struct formal *f = holds_positions(node, k) ? schema_input(node->schema, k) : NULL;
    if (f && f->var != main_var && graph_is_fp32(pl->graph, node->inputs[k]))
      out->wide_vars |= 1ull << f->var;
  }
  for (int var = 0; var < node->schema->n_vars && var < 64; var++) {
    if (var == main_var)
      continue;
    for (int r = 0; r + 1 < pl->policy->n_ladder; r++) {
      if (!(pl->allowed[n] & (1u << r)))
        continue;
      enum reason why = REASON_NONE;
      int culprit;
      TRY(test_side(pl, n, r, var, false, &why, &culprit, d));
      TRY(test_side(pl, n, r, var, true, &why, &culprit, d));
      if (why != REASON_NONE)
        out->wide_vars |= 1ull << var;
    }
  }
  int own, followed;
  for (int k = 0; k < node->n_outputs; k++)
    if (follows(pl->graph, n, k, &own, &followed) &&
        (out->wide_vars >> own | out->wide_vars >> followed) & 1)
      out->wide_vars |= 1ull << own | 1ull << followed;
  return STATUS_OK;
}

static bool touches_fp32(const struct graph *g, const struct node *node) {
  for (int k = 0; k < node->n_inputs; k++)
    if (graph_is_fp32(g, node->inputs[k]))
      return true;
  for (int k = 0; k < node->n_outputs; k++)
    if (graph_is_fp32(g, node->outputs[k]))
      return true;
  return false;
}

// What a sequence holds has the type that its other users, and declarations, expect.
static bool touches_containers(const struct graph *g, const struct node *node) {
  for (int k = 0; k < node->n_inputs + node->n_outputs; k++) {
    int v = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];
    if (v >= 0 && g->values[v].type.kind != TYPE_TENSOR && g->values[v].type.kind != TYPE_UNKNOWN)
      return true;
  }
  return false;
}

bool plan_types_vary(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  if (g->scopes[node->scope].polymorphic)
    return true;
  for (int k = 0; k < node->n_inputs; k++)
    if (node->inputs[k] >= 0 && g->values[node->inputs[k]].omitted)
      return true;
  return false;
}

const char *plan_refuses_format(const struct graph *g, int n, enum format_id f, struct arena *a) {
  const struct node *node = &g->nodes[n];
  if (f == FORMAT_FP32)
    return NULL;
  int var = plan_main_variable(g, n);
  if (plan_types_vary(g, n) || node->function >= 0 || var < 0)
    return "this node has no fp32 tensor whose format can change";
  if (touches_containers(g, node))
    return "it makes or takes a sequence, optional or map, whose format cannot change";
  if (!plan_operator_takes(g, n, f))
    return arena_printf(a, "%s does not take %s at this model's opset", node->proto->op_type,
                        formats[f].name);
  if (!attribute_writable(node))
    return "an attribute that sets its type is a parameter of the function that it is in";
  return NULL;
}

static bool does_shape_math(const struct planner *pl, const struct node *node) {
  for (int k = 0; k < node->n_outputs; k++)
    if (node->outputs[k] >= 0 && pl->shape_math[node->outputs[k]])
      return true;
  return false;
}

// Between a DequantizeLinear and a QuantizeLinear engines run integer kernels: a narrow node there
// would break the pattern that they look for.
static bool in_quantised_island(const struct graph *g, const struct node *node) {
  for (int k = 0; k < node->n_inputs; k++) {
    int v = node->inputs[k];
    int producer = v >= 0 ? g->values[v].producer : -1;
    if (producer >= 0 && g->values[v].origin == ORIGIN_NODE && graph_is_fp32(g, v) &&
        strcmp(g->nodes[producer].proto->op_type, "DequantizeLinear") == 0)
      return true;
  }
  for (int k = 0; k < node->n_outputs; k++)
    for (int u = 0; node->outputs[k] >= 0 && u < g->values[node->outputs[k]].n_uses; u++) {
      int reader = g->values[node->outputs[k]].uses[u].node;
      if (reader >= 0 && strcmp(g->nodes[reader].proto->op_type, "QuantizeLinear") == 0)
        return true;
    }
  return false;
}

// What a first conversion left wide, it left so for reasons (a promotion, say) that cannot be seen
// in its result: a second one must not undo them.
static bool is_converted(const Onnx__ModelProto *m) {
  for (size_t i = 0; i < m->n_metadata_props; i++)
    if (m->metadata_props[i]->key && strcmp(m->metadata_props[i]->key, "narrowcast") == 0)
      return true;
  return false;
}

// A reason that needs no number: REASON_NONE if the node's values decide.
static enum reason structural_reason(const struct planner *pl, int n) {
  const struct node *node = &pl->graph->nodes[n];
  if (plan_types_vary(pl->graph, n))
    return REASON_POLYMORPHIC;
  bool constant = node->n_outputs == 1 && node->outputs[0] >= 0 &&
                  graph_is_constant(pl->graph, node->outputs[0]);
  if (constant || !touches_fp32(pl->graph, node))
    return REASON_NOT_FLOAT;  // a constant is planned as a value, by its readers
  if (does_shape_math(pl, node))
    return REASON_SHAPE_MATH;
  if (!node->schema && node->function < 0)
    return REASON_UNKNOWN_OP;
  if (touches_containers(pl->graph, node))
    return REASON_CONTAINER;
  enum node_class class = pl->plan->nodes[n].class;
  if (pl->converted)
    return REASON_CONVERTED;
  if ((class == CLASS_NARROW || class == CLASS_FOLLOW) && in_quantised_island(pl->graph, node))
    return REASON_QUANTISED;
  if ((class == CLASS_NARROW || class == CLASS_FOLLOW) && plan_engine_fault(pl->graph, n))
    return REASON_ENGINE;
  if (class == CLASS_NARROW || class == CLASS_FOLLOW)
    return REASON_NONE;
  const struct rule *rule = pl->plan->nodes[n].rule;
  return rule && rule->patterns ? REASON_PATTERN : REASON_CLASS;
}

static int larger(int x, int y) {
  return x > y ? x : y;
}

// The first opset at which operator, its definition and Cast take the format; 0 if no known one
// does.
static int opset_allowing(const struct graph *g, int n, enum format_id f) {
  const struct schema *here = g->nodes[n].schema;
  int elem_type = formats[f].onnx_type;
  const struct schema *op =
      schema_first_allowing(g->schemas, here->domain, here->op, here->since, elem_type);
  const struct schema *cast =
      schema_first_allowing(g->schemas, "", "Cast", CAST_SINCE_INT_ATTRIBUTE, elem_type);
  if (!op || !cast)
    return 0;
  if (here->domain[0])
    return op->since;
  int body = schema_body_allows_from(here->op, elem_type);
  return body ? larger(larger(op->since, cast->since), body) : 0;
}

static enum status find_allowed(struct planner *pl, int n, struct diag *d) {
  struct node_plan *out = &pl->plan->nodes[n];
  int last = pl->policy->n_ladder - 1;
  pl->allowed[n] = (uint8_t)(1u << last);
  out->reason_value = -1;
  out->reason_format = pl->policy->ladder[0];
  out->wide_vars = 0;
  out->reason = structural_reason(pl, n);
  if (out->reason == REASON_NONE && pl->graph->nodes[n].function >= 0)
    out->reason = REASON_CLASS;  // a call is a boundary: the nodes inside its body are planned
  if (out->reason != REASON_NONE)
    return STATUS_OK;
  out->product = out->class == CLASS_NARROW && is_product(&pl->graph->nodes[n]);
  for (int r = 0; r < last; r++) {
    enum reason why;
    int culprit;
    TRY(may_run(pl, n, r, &why, &culprit, d));
    if (why == REASON_NONE) {
      pl->allowed[n] |= (uint8_t)(1u << r);
    } else if (out->reason == REASON_NONE && pl->allowed[n] == 1u << last) {
      out->reason = why;  // why none of the formats wanted more than the one it gets
      if (why == REASON_SCHEMA)
        out->opset_needed = opset_allowing(pl->graph, n, pl->policy->ladder[r]);
      out->reason_value = culprit;
      out->reason_format = pl->policy->ladder[r];
    }
  }
  return find_wide_variables(pl, n, d);
}

// ---- patterns ----

// Whether a rule for patterns decided about the node, as one part of a whole.
static bool in_ruled_pattern(const struct planner *pl, int n) {
  const struct node_plan *node = &pl->plan->nodes[n];
  return node->rule && node->rule->patterns && node->reason != REASON_NOT_FLOAT;
}

// A pattern that a rule gives a class runs as a whole: none of its nodes may run in a format in
// which another may not.
static void unite_patterns(struct planner *pl) {
  int n_nodes = pl->graph->n_nodes;
  uint8_t *missing = arena_array(pl->arena, (size_t)n_nodes, sizeof *missing);  // by end
  int *culprit = arena_array(pl->arena, (size_t)n_nodes, sizeof *culprit);      // by end
  for (int n = 0; n < n_nodes; n++) {
    int end = in_ruled_pattern(pl, n) ? pl->patterns.end[n] : -1;
    if (end < 0 || (missing[end] | (uint8_t)~pl->allowed[n]) == missing[end])
      continue;
    missing[end] |= (uint8_t)~pl->allowed[n];
    culprit[end] = pl->plan->nodes[n].reason_value;
  }
  for (int n = 0; n < n_nodes; n++) {
    int end = in_ruled_pattern(pl, n) ? pl->patterns.end[n] : -1;
    if (end < 0 || !(pl->allowed[n] & missing[end]))
      continue;
    pl->allowed[n] &= (uint8_t)~missing[end];
    struct node_plan *node = &pl->plan->nodes[n];
    if (node->reason != REASON_NONE)
      continue;
    node->reason = REASON_PATTERN;
    node->reason_value = culprit[end];
  }
}

// ---- overrides ----

// Takes the place of what rules and tests say of node n. Says what speaks against it, or NULL.
static enum status override_node(struct planner *pl, int n, const struct override *o,
                                 const struct rule *rule, const char **against, struct diag *d) {
  struct node_plan *out = &pl->plan->nodes[n];
  int rung = 0, culprit;
  enum reason why = structural_reason(pl, n);
  while (pl->policy->ladder[rung] != o->format)
    rung++;
  bool narrow = o->format != FORMAT_FP32;
  if (narrow && (why == REASON_NONE || why == REASON_CLASS))
    TRY(may_run(pl, n, rung, &why, &culprit, d));
  *against = narrow && why != REASON_NONE ? reason_text(why) : NULL;
  *out = (struct node_plan){
      .class = rule->class,
      .rule = rule,
      .rule_id = rule->id,
      .overridden = true,
      .scale_overridden = narrow && o->has_scale,
      .scale_wanted = o->scale_log2,
      .reason = narrow ? REASON_NONE : REASON_OVERRIDE,
      .reason_value = -1,
      .reason_format = pl->policy->ladder[0],
      .format = FORMAT_FP32,
  };
  pl->any_scaled = pl->any_scaled || pl->plan->nodes[n].scale_overridden;
  pl->allowed[n] = (uint8_t)(1u << rung | 1u << (pl->policy->n_ladder - 1));
  return narrow ? find_wide_variables(pl, n, d) : STATUS_OK;
}

// The rules of the overrides, in their order, in front of those of the policy.
static struct rule *join_rules(struct planner *pl, const struct overrides *o) {
  size_t own = (size_t)pl->policy->n_rules, count = (size_t)o->count;
  struct rule *rules = arena_array(pl->arena, count + own, sizeof *rules);
  for (size_t i = 0; i < count; i++)
    rules[i] = override_rule(&o->list[i], pl->arena);
  if (own > 0)
    memcpy(rules + count, pl->policy->rules, own * sizeof *rules);
  pl->plan->rules = rules;
  pl->plan->n_rules = (int)(own + count);
  return rules;
}

// What rules and tests had against overrides is said once for each.
static enum status apply_overrides(struct planner *pl, struct diag *d) {
  const struct overrides *o = pl->policy->by_hand;
  const struct override **by_node;
  if (!o)
    return STATUS_OK;
  TRY(overrides_match(o, pl->graph, pl->policy, &by_node, pl->arena, d));
  const struct rule *rules = join_rules(pl, o);
  bool *warned = arena_array(pl->arena, (size_t)o->count, sizeof *warned);
  for (int n = 0; n < pl->graph->n_nodes; n++) {
    if (!by_node[n])
      continue;
    ptrdiff_t i = by_node[n] - o->list;
    const char *against;
    TRY(override_node(pl, n, by_node[n], &rules[i], &against, d));
    if (against && !warned[i])
      diag_warn(d, "override %s: node %s would be fp32 without it: %s", by_node[n]->glob,
                graph_node_label(pl->graph, n), against);
    warned[i] = warned[i] || against;
  }
  return STATUS_OK;
}

// ---- formats of values ----

static void plan_value_formats(struct planner *pl) {
  for (int v = 0; v < pl->graph->n_values; v++) {
    struct value_plan *out = &pl->plan->values[v];
    out->considered = graph_is_fp32(pl->graph, v);
    out->format = out->considered ? plan_stored_format(pl->graph, pl->plan, v) : FORMAT_FP32;
  }
}

static int rung_of(const struct plan *p, enum format_id f) {
  for (int r = 0; r < p->n_ladder; r++)
    if (p->ladder[r] == f)
      return r;
  return 0;
}

// Records what the windows asked for in the format that the value has, or else would like.
static void record_windows(struct planner *pl, int v) {
  struct value_plan *out = &pl->plan->values[v];
  if (graph_constant(pl->graph, v) || !pl->fits.trace || !pl->policy->scales.use ||
      (out->scale_log2 == 0 && out->fit.reason != REASON_UNSTABLE))
    return;
  const struct stats *s = &pl->fits.trace->stats[v];
  int *scales = arena_array(pl->arena, s->n_windows, sizeof *scales);
  enum format_id f = out->format == FORMAT_FP32 ? pl->policy->ladder[0] : out->format;
  out->scale_moves = scale_over_windows(s, f, &pl->policy->scales, scales).moves;
  out->window_scales = scales;
  out->n_windows = s->n_windows;
}

// The fit that the plan shows is that of the most wanted format, or of the stored one at its scale.
static enum status plan_value(struct planner *pl, int v, struct diag *d) {
  struct plan *p = pl->plan;
  struct value_plan *out = &p->values[v];
  if (!out->considered)
    return STATUS_OK;
  out->scale_log2 = plan_stored_scale(pl->graph, p, v);
  int r = out->scale_log2 ? rung_of(p, out->format) : 0;
  TRY(fits_test_scaled(&pl->fits, v, r, out->scale_log2, &out->fit, d));
  record_windows(pl, v);
  return STATUS_OK;
}

// ---- provenance ----

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void record_provenance(struct plan *p, const struct graph *g, const struct trace *t,
                              const struct policy *policy, struct arena *a) {
  memcpy(p->model_sha256, g->model->sha256, sizeof p->model_sha256);
  p->model_file = arena_strdup(a, file_name(g->model->path));
  p->raised_to = g->model->raised_to;
  p->policy_name = policy->name;
  p->policy_version = policy->version;
  memcpy(p->policy_sha256, policy->sha256, sizeof p->policy_sha256);
  p->overrides = policy->overrides;
  p->by_hand = policy->by_hand;
  memcpy(p->ladder, policy->ladder, sizeof p->ladder);
  p->n_ladder = policy->n_ladder;
  p->tf32 = policy->tf32;
  p->has_operand_format = policy->operands.wanted;
  p->operand_format = policy->operands.format;
  p->narrow_inputs = policy->narrow_inputs;
  p->narrow_outputs = policy->narrow_outputs;
  p->ftz = policy->ftz;
  p->constants = policy->constants;
  p->claims = policy->claims;
  p->rules = policy->rules;
  p->n_rules = policy->n_rules;
  p->thresholds = (struct plan_thresholds){
      .margin = policy->margin,
      .max_zero_fraction = policy->max_zero_fraction,
      .max_subnormal_fraction = policy->max_subnormal_fraction,
      .constant_max_zero_fraction = policy->constant_max_zero_fraction,
      .constant_max_subnormal_fraction = policy->constant_max_subnormal_fraction,
      .max_lost_fraction = policy->max_lost_fraction,
      .max_angle_step = policy->max_angle_step,
      .keep_integers = policy->keep_integers,
  };
  p->n_claims = policy->n_claims;
  p->hold_out = policy->hold_out;
  p->has_trace = t != NULL;
  if (!t)
    return;
  p->synthetic = t->synthetic;
  p->steps = t->steps;
  p->samples = t->samples;
  p->sample = t->sample;
  memcpy(p->samples_sha256, t->samples_sha256, sizeof p->samples_sha256);
}

// Formats, then scales; a node that no scale serves loses the format that it got, and it begins
// again. Each round takes something away, and after some the rest does without scales.
static enum status assign(struct planner *pl, const struct costs *costs, struct diag *d) {
  enum { MOST_ROUNDS = 8 };
  for (int round = 0;; round++) {
    assign_formats(pl->plan, pl->graph, pl->allowed, costs, pl->arena);
    plan_value_formats(pl);
    if (!pl->any_scaled)
      return STATUS_OK;
    bool changed;
    TRY(scale_assign(pl->plan, &pl->fits, pl->denied, &changed, d));
    if (!changed)
      return STATUS_OK;
    for (int n = 0; n < pl->graph->n_nodes; n++) {
      if (round >= MOST_ROUNDS)
        pl->denied[n] = UINT8_MAX;
      if (!pl->plan->nodes[n].overridden)
        TRY(find_allowed(pl, n, d));
    }
    unite_patterns(pl);
  }
}

enum status plan_make(struct plan *p, struct graph *g, const struct trace *t,
                      const struct policy *policy, const struct promotions *promotions,
                      struct arena *a, struct diag *d) {
  *p = (struct plan){
      .values = arena_array(a, (size_t)g->n_values, sizeof *p->values),
      .nodes = arena_array(a, (size_t)g->n_nodes, sizeof *p->nodes),
      .n_values = g->n_values,
      .n_nodes = g->n_nodes,
      .promotions = promotions,
  };
  struct planner pl = {
      .plan = p,
      .graph = g,
      .policy = policy,
      .arena = a,
      .shape_math = arena_array(a, (size_t)g->n_values, sizeof *pl.shape_math),
      .allowed = arena_array(a, (size_t)g->n_nodes, sizeof *pl.allowed),
      .scaled = arena_array(a, (size_t)g->n_values, sizeof *pl.scaled),
      .denied = arena_array(a, (size_t)g->n_nodes, sizeof *pl.denied),
  };
  record_provenance(p, g, t, policy, a);
  pl.converted = is_converted(g->model->proto);
  fits_init(&pl.fits, g, t, policy, promotions, a);
  find_shape_math(&pl);
  patterns_find(&pl.patterns, g, a);
  for (int n = 0; n < g->n_nodes; n++) {
    classify(&pl, n);
    TRY(find_allowed(&pl, n, d));
  }
  unite_patterns(&pl);
  TRY(apply_overrides(&pl, d));
  struct costs costs;
  costs_init(&costs, g, t, &policy->target, a);
  costs.scaled = pl.scaled;
  TRY(assign(&pl, &costs, d));
  if (policy->operands.wanted) {
    TRY(quantise_operands(p, &costs, &pl.fits, d));
    plan_value_formats(&pl);
  }
  for (int v = 0; v < g->n_values; v++)
    TRY(plan_value(&pl, v, d));
  costs_sum(&costs, p, pl.allowed, a);
  steps_judge_weights(&pl.fits.steps, p, a);
  training_advise(p, g, t, policy, a);
  plan_find_headroom(p, g);
  return STATUS_OK;
}
