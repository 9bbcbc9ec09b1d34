// The instrumented model: a copy of the source's message with one Observe node behind every float
// value of every scope. An observer costs a pass over its tensor and keeps the engine from fusing
// across the value, so a value that holds the same elements as another one, or whose statistics
// follow from it exactly (Relu, Neg, Abs), gets none: its statistics are derived after the run.
// Constants get none either, since the planner counts them exactly from the model.
#include "clone.h"
#include "proto.h"
#include "random_seeds.h"
#include "trace.h"
#include "trace_updates.h"

#include <string.h>

#define DOMAIN "narrowcast"

struct instrumentation {
  struct graph *graph;
  struct arena *arena;
  struct instrumented *out;
  const char *prefix;         // no value's name starts with it
  struct scope_copy *copies;  // by scope
  bool *observed;             // by value id
  struct watchers watchers;   // of update sites
  Onnx__NodeProto **noted;    // observers and watchers of a scope, in the order they are ready
  size_t n_noted;
};

static bool is_own_domain(const char *domain) {
  return domain && strcmp(domain, DOMAIN) == 0;
}

static bool is_decode(const Onnx__NodeProto *node) {
  return is_own_domain(node->domain) && strcmp(node->op_type, "Decode") == 0;
}

static bool is_measured_type(struct type t) {
  return t.kind == TYPE_TENSOR && (t.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
                                   t.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
                                   t.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 ||
                                   t.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE);
}

bool trace_measures(struct graph *g, int value) {
  return is_measured_type(g->values[value].type) && !graph_constant(g, value);
}

// ---- What follows from another value ----

// Operators whose first output holds what follows from their first input.
static const struct {
  const char *op;
  enum stats_derivation how;
} followers[] = {
    {"Reshape", STATS_SAME},      {"Transpose", STATS_SAME},    {"Identity", STATS_SAME},
    {"Squeeze", STATS_SAME},      {"Unsqueeze", STATS_SAME},    {"Flatten", STATS_SAME},
    {"DepthToSpace", STATS_SAME}, {"SpaceToDepth", STATS_SAME}, {"Relu", STATS_RELU},
    {"Neg", STATS_NEGATE},        {"Abs", STATS_ABS},           {"Concat", STATS_SAME},
};

// Dropout passes its input through except in training (opset 12: input 2; before 7: is_test == 0).
static bool is_passing_dropout(const struct graph *g, const struct node *n) {
  if (!node_is(n, "Dropout"))
    return false;
  int opset = graph_opset(g, n->scope, "");
  if (opset < 7) {
    const Onnx__AttributeProto *is_test = node_attribute(n->proto, "is_test");
    return is_test && is_test->i != 0;
  }
  return opset < 12 || n->n_inputs < 3 || n->inputs[2] < 0;
}

static int derivation_of(const struct graph *g, const struct node *n) {
  for (size_t i = 0; i < sizeof followers / sizeof *followers; i++)
    if (node_is(n, followers[i].op))
      return (int)followers[i].how;
  return is_passing_dropout(g, n) ? (int)STATS_SAME : -1;
}

// True if the statistics of `v` are there after the run, and cover as many runs of the scope as
// those of a value that the scope's nodes produce.
static bool is_source(const struct instrumentation *in, int scope, int v) {
  return v >= 0 && in->graph->values[v].scope == scope &&
         (in->observed[v] || in->out->derived[v] >= 0);
}

// True if the value is there to be rounded to a narrow type (see emulate.h): the model itself has
// only the rounded one.
static bool is_before_rounding(const struct graph *g, int v) {
  const struct value *value = &g->values[v];
  const Onnx__NodeProto *reader =
      value->n_uses && value->uses[0].node >= 0 ? g->nodes[value->uses[0].node].proto : NULL;
  return reader && is_own_domain(reader->domain);
}

static bool follows(const struct instrumentation *in, const struct node *n) {
  int needed = node_is(n, "Concat") ? n->n_inputs : 1;
  if (n->n_inputs < needed)
    return false;
  for (int i = 0; i < needed; i++)
    if (!is_source(in, n->scope, n->inputs[i]))
      return false;
  return true;
}

// Decides for the node's outputs; its inputs' producers come before.
static void choose_outputs(struct instrumentation *in, const struct node *n) {
  if (is_decode(n->proto))
    return;  // a constant: see emulate.c
  for (int i = 0; i < n->n_outputs; i++) {
    int v = n->outputs[i];
    if (v < 0 || !trace_measures(in->graph, v) || is_before_rounding(in->graph, v))
      continue;
    int how = i == 0 ? derivation_of(in->graph, n) : -1;
    if (how >= 0 && follows(in, n))
      in->out->derived[v] = (signed char)how;
    else
      in->observed[v] = true;
  }
}

// A formal that some call leaves out cannot be observed: there is no tensor in that call.
static void choose_observed(struct instrumentation *in) {
  const struct graph *g = in->graph;
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].origin != ORIGIN_NODE && !g->values[v].omitted && trace_measures(in->graph, v))
      in->observed[v] = true;
  for (int s = 0; s < g->n_scopes; s++)
    for (int k = 0; k < g->scopes[s].n_nodes; k++)
      choose_outputs(in, &g->nodes[g->scopes[s].order[k]]);
}

// ---- The copy ----

// The copy of a scope: one of the two.
struct scope_copy {
  Onnx__GraphProto *graph;
  Onnx__FunctionProto *function;
};

static Onnx__NodeProto **copy_nodes(const struct scope_copy *t) {
  return t->graph ? t->graph->node : t->function->node;
}

static void map_bodies(struct instrumentation *in, const struct node *n, Onnx__NodeProto *copy) {
  int body = 0;
  for (size_t i = 0; i < copy->n_attribute; i++) {
    Onnx__AttributeProto *a = copy->attribute[i];
    if (a->g)
      in->copies[n->bodies[body++]].graph = a->g;
    for (size_t k = 0; k < a->n_graphs; k++)
      in->copies[n->bodies[body++]].graph = a->graphs[k];
  }
}

// Finds the copy of every scope. A subgraph's scope has a larger id than the scope that holds it.
static void map_scopes(struct instrumentation *in, Onnx__ModelProto *copy) {
  const struct graph *g = in->graph;
  size_t function = 0;
  in->copies[0].graph = copy->graph;
  for (int s = 0; s < g->n_scopes; s++) {
    const struct scope *scope = &g->scopes[s];
    if (scope->kind == SCOPE_FUNCTION) {
      while (g->model->proto->functions[function] != scope->function)
        function++;
      in->copies[s].function = copy->functions[function];
    }
    Onnx__NodeProto **nodes = copy_nodes(&in->copies[s]);
    for (int k = 0; k < scope->n_nodes; k++)
      map_bodies(in, &g->nodes[scope->nodes[k]], nodes[k]);
  }
}

// All parts of the node in one piece of memory: there may be 100,000 of them.
static Onnx__NodeProto *new_observer(struct instrumentation *in, int v) {
  struct {
    Onnx__NodeProto node;
    Onnx__AttributeProto attribute, *attributes[1];
    char *input[1], *output[1];
  } *o = arena_alloc(in->arena, sizeof *o);
  onnx__attribute_proto__init(&o->attribute);
  o->attribute.name = "id";
  o->attribute.has_type = o->attribute.has_i = 1;
  o->attribute.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  o->attribute.i = v;
  o->attributes[0] = &o->attribute;
  onnx__node_proto__init(&o->node);
  o->input[0] = (char *)in->graph->values[v].name;
  o->output[0] = arena_printf(in->arena, "%s_%d", in->prefix, v);
  o->node.op_type = "Observe";
  o->node.domain = DOMAIN;
  o->node.name = o->output[0];
  o->node.n_input = o->node.n_output = o->node.n_attribute = 1;
  o->node.input = o->input;
  o->node.output = o->output;
  o->node.attribute = o->attributes;
  return &o->node;
}

static void note_observed(struct instrumentation *in, int v) {
  if (v < 0 || !in->observed[v])
    return;
  in->out->values[in->out->n_observers++] = v;
  in->noted[in->n_noted++] = new_observer(in, v);
}

static void note_watchers(struct instrumentation *in, int n, bool after) {
  const struct watchers *w = &in->watchers;
  for (int i = w->n_watchers ? w->first[n] : -1; i >= 0; i = w->watchers[i].next)
    if (w->watchers[i].after == after)
      in->noted[in->n_noted++] = w->watchers[i].proto;
}

// True if the engine finds no reader of the node: it then runs it for its own sake.
static bool is_leaf(const struct instrumentation *in, const struct node *n) {
  for (int i = 0; i < n->n_outputs; i++) {
    int v = n->outputs[i];
    if (v >= 0 && in->observed[v])
      return false;
    for (int u = 0; v >= 0 && u < in->graph->values[v].n_uses; u++)
      if (in->graph->values[v].uses[u].node >= 0)
        return false;
  }
  return true;
}

struct node_list {
  Onnx__NodeProto **nodes;
  size_t count;
};

// The main graph's nodes that nobody reads, or those that somebody reads.
static void append_main(struct instrumentation *in, bool leaves, struct node_list *list) {
  const struct scope *scope = &in->graph->scopes[0];
  for (int k = 0; k < scope->n_nodes; k++) {
    const struct node *n = &in->graph->nodes[scope->order[k]];
    if (is_leaf(in, n) == leaves)
      list->nodes[list->count++] = copy_nodes(&in->copies[0])[n->index];
  }
}

static void append_sorted(struct instrumentation *in, int s, struct node_list *list) {
  const struct scope *scope = &in->graph->scopes[s];
  for (int k = 0; k < scope->n_nodes; k++)
    list->nodes[list->count++] =
        copy_nodes(&in->copies[s])[in->graph->nodes[scope->order[k]].index];
}

// Observers and watchers, that of the value which is ready first at the end.
static void append_noted(struct instrumentation *in, struct node_list *list) {
  for (size_t i = in->n_noted; i-- > 0;)
    list->nodes[list->count++] = in->noted[i];
}

// Notes which values of the scope are observed, and its update sites, in the order in which they
// are ready.
static void note_scope(struct instrumentation *in, int s, const int *starts, size_t n_starts) {
  const struct scope *scope = &in->graph->scopes[s];
  in->n_noted = 0;
  for (size_t i = 0; i < n_starts; i++)
    note_observed(in, starts[i]);
  for (int k = 0; k < scope->n_nodes; k++) {
    const struct node *n = &in->graph->nodes[scope->order[k]];
    note_watchers(in, scope->order[k], false);
    for (int i = 0; i < n->n_outputs; i++)
      note_observed(in, n->outputs[i]);
    note_watchers(in, scope->order[k], true);
  }
}

// The order of the nodes decides when the engine runs the observers. It takes the nodes that nobody
// reads, from the last to the first, and runs before each what that needs and has not run yet
// (Graph::ReverseDFSFrom). So that every observer runs right behind its value's producer, while the
// tensor is in the cache, they stand in reverse order, and behind all others that nobody reads.
// Else the engine would run the whole model first and keep every tensor until then: twice the time
// of observing, several times the memory.
//
// In the main graph they stand before the nodes that they read, since another of the engine's sorts
// takes quadratic time if they stand last (10 s for 10,000 nodes). It takes no other graph whose
// nodes are not sorted.
static void emit_scope(struct instrumentation *in, int s, const int *starts, size_t n_starts) {
  note_scope(in, s, starts, n_starts);
  size_t room = (size_t)in->graph->scopes[s].n_nodes + in->n_noted;
  struct node_list list = {arena_array(in->arena, room, sizeof *list.nodes), 0};
  if (s == 0) {
    append_main(in, true, &list);
    append_noted(in, &list);
    append_main(in, false, &list);
  } else {
    append_sorted(in, s, &list);
    append_noted(in, &list);
  }
  struct scope_copy *copy = &in->copies[s];
  *(copy->graph ? &copy->graph->node : &copy->function->node) = list.nodes;
  *(copy->graph ? &copy->graph->n_node : &copy->function->n_node) = list.count;
}

// The values that no node produces, those of a scope together: start[s] .. start[s + 1].
static int *group_starts(const struct graph *g, size_t *start, struct arena *a) {
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].origin != ORIGIN_NODE)
      start[g->values[v].scope + 1]++;
  for (int s = 0; s < g->n_scopes; s++)
    start[s + 1] += start[s];
  size_t *at = arena_array(a, (size_t)g->n_scopes + 1, sizeof *at);
  memcpy(at, start, ((size_t)g->n_scopes + 1) * sizeof *at);
  int *values = arena_array(a, start[g->n_scopes], sizeof *values);
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].origin != ORIGIN_NODE)
      values[at[g->values[v].scope]++] = v;
  return values;
}

static void emit_scopes(struct instrumentation *in) {
  const struct graph *g = in->graph;
  struct arena scratch = {0};
  size_t *start = arena_array(&scratch, (size_t)g->n_scopes + 1, sizeof *start);
  int *values = group_starts(g, start, &scratch);
  for (int s = 0; s < g->n_scopes; s++)
    emit_scope(in, s, values + start[s], start[s + 1] - start[s]);
  arena_free(&scratch);
}

// ---- Declarations ----

// The engine infers what it knows and refuses declarations that contradict it, while the graph's
// index ignores stale ones. What is left to declare are results of operators outside ai.onnx, whose
// inference is not always complete there (MultiHeadAttention's output qk): the type, not the shape.
static bool is_declaration_needed(const struct graph *g, int scope, Onnx__ValueInfoProto *info) {
  int v = info->name ? map_get(&g->names, scope, info->name) : -1;
  if (v < 0 || g->values[v].producer < 0)
    return false;
  const struct node *n = &g->nodes[g->values[v].producer];
  const struct type *type = &g->values[v].type;
  if (n->function >= 0 || (n->schema && !*n->schema->domain))
    return false;
  if (!info->type || info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    return type->kind == TYPE_UNKNOWN;
  if (type->kind == TYPE_TENSOR && info->type->tensor_type->elem_type != type->elem_type)
    return false;
  info->type->tensor_type->shape = NULL;
  return true;
}

static void reduce_declarations(const struct instrumentation *in) {
  for (int s = 0; s < in->graph->n_scopes; s++) {
    struct scope_copy *t = &in->copies[s];
    Onnx__ValueInfoProto **infos = t->graph ? t->graph->value_info : t->function->value_info;
    size_t *count = t->graph ? &t->graph->n_value_info : &t->function->n_value_info;
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
      if (is_declaration_needed(in->graph, s, infos[i]))
        infos[kept++] = infos[i];
    *count = kept;
  }
}

// An Observe of the model's own would count into statistics of ours.
static enum status check_domain(const struct graph *g, struct diag *d) {
  for (int n = 0; n < g->n_nodes; n++) {
    const Onnx__NodeProto *proto = g->nodes[n].proto;
    if (!is_own_domain(proto->domain) || strcmp(proto->op_type, "Round") == 0 || is_decode(proto))
      continue;
    diag_at(d, g->model->path, graph_node_label(g, n), NULL);
    diag_hint(d, "Give the operator's domain another name.");
    return diag_fail(d, STATUS_MODEL, "the domain \"%s\" is reserved for this program", DOMAIN);
  }
  return STATUS_OK;
}

// Whether the name is none, or could be what another node without one is called.
static bool reads_like_label(const char *name) {
  return !*name || *name == '#' || strstr(name, "::#");
}

// The engine names the node that it cannot load or run: one without a name of its own by ours. It
// takes no two nodes of one name, so a name that could be one of ours gives way.
static void name_nodes(struct instrumentation *in) {
  for (int n = 0; n < in->graph->n_nodes; n++) {
    const struct node *node = &in->graph->nodes[n];
    if (reads_like_label(text_of(node->proto->name)))
      copy_nodes(&in->copies[node->scope])[node->index]->name =
          (char *)graph_node_label(in->graph, n);
  }
}

// ---- The whole ----

enum status trace_instrument(struct instrumented *out, struct graph *g, enum trace_watch watch,
                             struct arena *a, struct diag *d) {
  size_t n_values = (size_t)g->n_values;
  *out = (struct instrumented){.values = arena_array(a, n_values, sizeof *out->values),
                               .derived = arena_array(a, n_values, sizeof *out->derived)};
  memset(out->derived, -1, n_values * sizeof *out->derived);
  TRY(check_domain(g, d));
  struct model copy = clone_model(g->model, a);
  random_seeds_give(g, &copy, a);
  struct instrumentation in = {
      .graph = g,
      .arena = a,
      .out = out,
      .prefix = graph_unused_prefix(g, DOMAIN, a),
      .copies = arena_array(a, (size_t)g->n_scopes, sizeof *in.copies),
      .observed = arena_array(a, n_values, sizeof *in.observed),
  };
  map_scopes(&in, copy.proto);
  name_nodes(&in);
  if (watch != TRACE_NOTHING)
    choose_observed(&in);
  if (watch == TRACE_VALUES_AND_UPDATES)
    watchers_find(&in.watchers, g, in.prefix, a);
  out->sites = in.watchers.sites;
  out->n_sites = in.watchers.n_sites;
  in.noted = arena_array(a, n_values + in.watchers.n_watchers, sizeof(Onnx__NodeProto *));
  emit_scopes(&in);
  reduce_declarations(&in);
  copy.proto->n_training_info = 0;  // graphs that the engine does not run
  proto_import(a, &copy.proto->opset_import, &copy.proto->n_opset_import, DOMAIN, 1);
  for (size_t i = 0; i < copy.proto->n_functions; i++) {
    Onnx__FunctionProto *f = copy.proto->functions[i];
    proto_import(a, &f->opset_import, &f->n_opset_import, DOMAIN, 1);
  }
  struct packed_model packed;
  TRY(clone_pack(&packed, &copy, a, d));
  out->bytes = packed.bytes;
  out->size = packed.size;
  out->initializers = packed.initializers;
  out->n_initializers = packed.n_initializers;
  out->directory = packed.directory;
  out->large = packed.large;
  return STATUS_OK;
}
