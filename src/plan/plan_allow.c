// What each node may run in: what its operator, its place in the graph and the engine admit, and
// what the tests of its values say, for every rung of the policy's ladder.
#include "plan_allow.h"

#include "plan_attention.h"
#include "plan_engine.h"
#include "plan_quantise.h"
#include "plan_scale.h"
#include "raise_opset.h"

#include <string.h>

enum { CAST_SINCE_INT_ATTRIBUTE = 6 };

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
        data = node_is(node, back_to_data[b]);
      if (data || !shape_math_node(pl, node))
        continue;
      for (int k = 0; k < node->n_outputs; k++)
        if (node->outputs[k] >= 0)
          pl->shape_math[node->outputs[k]] = true;
    }
}

// ---- nodes that nothing depends on ----

struct pending {
  const struct graph *graph;
  bool *used;    // by node
  bool *called;  // by scope: a function that a used node calls
  int *nodes;
  int count;
};

static void use_value(struct pending *p, int v) {
  int n = v >= 0 ? p->graph->values[v].producer : -1;
  if (n < 0 || p->used[n])
    return;
  p->used[n] = true;
  p->nodes[p->count++] = n;
}

static void use_outputs(struct pending *p, int s) {
  const struct scope *scope = &p->graph->scopes[s];
  for (int i = 0; i < scope->n_outputs; i++)
    use_value(p, scope->outputs[i]);
}

// Backwards from the outputs of the model and from what a training step reads; into the bodies of
// nodes that are used, and once into each function that one calls. What is left over no engine
// runs, but some look at its types, and refuse what they do not expect there.
static void find_used(struct planner *pl) {
  const struct graph *g = pl->graph;
  struct pending p = {.graph = g, .used = pl->used};
  p.nodes = arena_array(pl->arena, (size_t)g->n_nodes, sizeof *p.nodes);
  p.called = arena_array(pl->arena, (size_t)g->n_scopes, sizeof *p.called);
  use_outputs(&p, 0);
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].trained)
      use_value(&p, v);
  while (p.count > 0) {
    const struct node *node = &g->nodes[p.nodes[--p.count]];
    for (int k = 0; k < node->n_inputs; k++)
      use_value(&p, node->inputs[k]);
    for (int b = 0; b < node->n_bodies; b++)
      use_outputs(&p, node->bodies[b]);
    if (node->function >= 0 && !p.called[node->function]) {
      p.called[node->function] = true;
      use_outputs(&p, node->function);
    }
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

// The own variable of output k, and the one that it follows; false if it follows none.
static bool follows(const struct graph *g, int n, int k, int *own, int *followed) {
  const struct node *node = &g->nodes[n];
  if (!graph_is_fp32(g, node->outputs[k]))
    return false;
  *followed = plan_followed_variable(g, n, k);
  *own = schema_output(node->schema, k)->var;
  return *followed != FOLLOWS_NOTHING && *followed != *own;
}

// RMSNormalization has two variables, but is defined by a function that multiplies what has the
// type of its input by the scale: with two types no engine loads it.
static bool has_one_type(const struct node *node) {
  return node_is(node, "RMSNormalization");
}

// The variables that have one type with output k's: its own, and the one that it follows. 0: output
// k follows none, or itself. *stays: what it follows does not change its type.
static uint64_t variables_of_output(const struct graph *g, int n, int k, bool *stays) {
  int own, followed;
  *stays = false;
  if (!follows(g, n, k, &own, &followed))
    return 0;
  *stays = followed == TYPE_STAYS;
  return 1ull << own | (*stays ? 0 : 1ull << followed);
}

// `vars` and all that has one type with any of them. *stays: with what does not change its type.
static uint64_t of_one_type(const struct graph *g, int n, uint64_t vars, bool *stays) {
  uint64_t before;
  *stays = false;
  do {
    before = vars;
    for (int k = 0; k < g->nodes[n].n_outputs; k++) {
      bool one_stays;
      uint64_t linked = variables_of_output(g, n, k, &one_stays);
      if (!(linked & vars))
        continue;
      vars |= linked;
      *stays = *stays || one_stays;
    }
  } while (vars != before);
  return vars;
}

// The variables that must be narrow if the node's main one is, itself included; 0: it cannot be.
static uint64_t narrow_together(const struct graph *g, int n) {
  int main_var = plan_main_variable(g, n);
  if (main_var < 0)
    return 0;
  uint64_t together = 1ull << main_var;
  for (int k = 0; k < g->nodes[n].n_inputs && has_one_type(&g->nodes[n]); k++)
    together |= 1ull << schema_input(g->nodes[n].schema, k)->var;
  bool stays;
  together = of_one_type(g, n, together, &stays);
  return stays ? 0 : together;
}

bool plan_operator_takes(const struct graph *g, int n, enum format_id f) {
  const struct schema *schema = g->nodes[n].schema;
  int elem_type = formats[f].onnx_type;
  uint64_t together = narrow_together(g, n);
  if (!together || !plan_cast_available(g, n, f))
    return false;
  for (int k = 0; k < schema->n_vars && k < 64; k++)
    if (together >> k & 1 && !schema_allows(schema, k, elem_type))
      return false;
  int from = schema->domain[0] ? 1 : schema_body_allows_from(schema->op, elem_type);
  return from > 0 && opset_of_onnx(g, n) >= from;
}

enum status allow_test(struct planner *pl, int n, int r, enum reason *why, int *culprit,
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
  return *why == REASON_NONE ? attention_test(&pl->fits, n, r, why, culprit, d) : STATUS_OK;
}

// Inputs that hold positions or counts stay exact: fp16 has no odd integer above 2048, bf16 none
// above 256, and the range test does not see that.
static bool holds_positions(const struct node *node, int k) {
  return (node_is(node, "OneHot") && k < 2) ||  // indices, depth
         (node_is(node, "Resize") && k == 1);   // roi
}

// Whether the attribute that says output k's type says in what type sums are taken as well.
static bool has_type_of_sums(const struct node *node, int k) {
  for (int i = 0; i < node->schema->n_type_attributes; i++)
    if (node->schema->type_attributes[i].output == k &&
        strcmp(node->schema->type_attributes[i].attribute, "stash_type") == 0)
      return true;
  return false;
}

// Variables besides the main one narrow along if all their values pass, else they stay fp32.
enum status allow_wide_variables(struct planner *pl, int n, struct diag *d) {
  const struct node *node = &pl->graph->nodes[n];
  struct node_plan *out = &pl->plan->nodes[n];
  int main_var = plan_main_variable(pl->graph, n);
  if (has_one_type(node))
    return STATUS_OK;
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
  for (int k = 0; k < node->n_outputs; k++)
    if (has_type_of_sums(node, k))
      out->wide_vars |= 1ull << schema_output(node->schema, k)->var;
  bool stays;
  for (int k = 0; k < node->n_outputs; k++) {
    uint64_t linked = variables_of_output(pl->graph, n, k, &stays);
    out->wide_vars |= stays ? linked : 0;
  }
  out->wide_vars = of_one_type(pl->graph, n, out->wide_vars, &stays);
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

// True if node n gets other types, or none at all, in some calls of the function that it is in: a
// Cast there could not be right for all of them.
static bool types_vary(const struct graph *g, int n) {
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
  if (types_vary(g, n) || node->function >= 0 || var < 0)
    return "this node has no fp32 tensor whose format can change";
  if (touches_containers(g, node))
    return "it makes or takes a sequence, optional or map, whose format cannot change";
  if (node_sees_bits(node))
    return "it sees the bits of a value, which are others in another format";
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
bool plan_is_converted(const struct graph *g) {
  const Onnx__ModelProto *m = g->model->proto;
  for (size_t i = 0; i < m->n_metadata_props; i++)
    if (m->metadata_props[i]->key && strcmp(m->metadata_props[i]->key, "narrowcast") == 0)
      return true;
  return false;
}

bool plan_concerns(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  if (node->function >= 0)
    return false;
  bool constant =
      node->n_outputs == 1 && node->outputs[0] >= 0 && graph_is_constant(g, node->outputs[0]);
  return types_vary(g, n) || (!constant && touches_fp32(g, node));
}

// A reason that needs no number: REASON_NONE if the node's values decide.
enum reason allow_reason(const struct planner *pl, int n) {
  const struct node *node = &pl->graph->nodes[n];
  if (!plan_concerns(pl->graph, n))
    return node->function >= 0 ? REASON_CALL : REASON_NOT_FLOAT;
  if (types_vary(pl->graph, n))
    return REASON_POLYMORPHIC;
  if (!pl->used[n])
    return REASON_UNUSED;
  if (does_shape_math(pl, node))
    return REASON_SHAPE_MATH;
  if (!node->schema)
    return REASON_UNKNOWN_OP;
  if (touches_containers(pl->graph, node))
    return REASON_CONTAINER;
  if (node_sees_bits(node))
    return REASON_BITS;
  enum node_class class = pl->plan->nodes[n].class;
  if (pl->converted)
    return REASON_CONVERTED;
  if ((class == CLASS_NARROW || class == CLASS_FOLLOW) && in_quantised_island(pl->graph, node))
    return REASON_QUANTISED;
  if ((class == CLASS_NARROW || class == CLASS_FOLLOW) &&
      (pl->before_fault[n] || plan_engine_fault(pl->graph, n)))
    return REASON_ENGINE;
  if (class == CLASS_NARROW || class == CLASS_FOLLOW)
    return REASON_NONE;
  const struct rule *rule = pl->plan->nodes[n].rule;
  if (rule && rule->asked_for)
    return REASON_KEPT;
  return rule && rule->patterns ? REASON_PATTERN : REASON_CLASS;
}

static int larger(int x, int y) {
  return x > y ? x : y;
}

// The first opset that the model's can be raised to at which operator, its definition and Cast take
// the format; 0 if there is none.
static int opset_allowing(const struct graph *g, int n, enum format_id f) {
  const struct schema *here = g->nodes[n].schema;
  int elem_type = formats[f].onnx_type;
  const struct schema *op =
      schema_first_allowing(g->schemas, here->domain, here->op, here->since, elem_type);
  const struct schema *cast =
      schema_first_allowing(g->schemas, "", "Cast", CAST_SINCE_INT_ATTRIBUTE, elem_type);
  int body = schema_body_allows_from(here->op, elem_type);
  if (!op || !cast || !body || here->domain[0])
    return 0;
  int opset = larger(larger(op->since, cast->since), body);
  bool higher = opset > graph_opset(g, g->nodes[n].scope, "");  // if not, something else is why
  return higher && opset <= RAISE_OPSET_MOST ? larger(opset, RAISE_OPSET_LEAST) : 0;
}

enum status allow_find(struct planner *pl, int n, struct diag *d) {
  struct node_plan *out = &pl->plan->nodes[n];
  int last = pl->policy->n_ladder - 1;
  pl->allowed[n] = (uint8_t)(1u << last);
  out->reason_value = -1;
  out->reason_format = pl->policy->ladder[0];
  out->wide_vars = 0;
  out->reason = allow_reason(pl, n);
  if (out->reason != REASON_NONE)
    return STATUS_OK;
  out->product = out->class == CLASS_NARROW && is_product(&pl->graph->nodes[n]);
  for (int r = 0; r < last; r++) {
    enum reason why;
    int culprit;
    TRY(allow_test(pl, n, r, &why, &culprit, d));
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
  return allow_wide_variables(pl, n, d);
}

void allow_init(struct planner *pl) {
  int n_values = pl->graph->n_values, n_nodes = pl->graph->n_nodes;
  pl->shape_math = arena_array(pl->arena, (size_t)n_values, sizeof *pl->shape_math);
  pl->used = arena_array(pl->arena, (size_t)n_nodes, sizeof *pl->used);
  pl->before_fault = arena_array(pl->arena, (size_t)n_nodes, sizeof *pl->before_fault);
  pl->allowed = arena_array(pl->arena, (size_t)n_nodes, sizeof *pl->allowed);
  pl->scaled = arena_array(pl->arena, (size_t)n_values, sizeof *pl->scaled);
  pl->denied = arena_array(pl->arena, (size_t)n_nodes, sizeof *pl->denied);
  pl->converted = plan_is_converted(pl->graph);
  find_shape_math(pl);
  find_used(pl);
}
