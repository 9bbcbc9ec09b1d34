// Builds the twin: clones of both models with narrow types carried as fp32 (emulate.c), the emitted
// one under other names ("narrow/..." for values, "narrow.<domain>" for its functions), joined at
// the inputs. A function body or subgraph is compared by what it gives out: no Compare can see two
// of them at once.
#include "verify_twin.h"

#include "emulate.h"
#include "proto.h"
#include "random_seeds.h"

#include <string.h>

struct half {
  struct model model;
  struct graph graph;
  const char *stem;  // of the emitted half's names: begins no name of the source
};

// A clone of g's model with narrow types carried as fp32, and for tf32 the operands of products
// rounded to it, indexed again.
static enum status open_half(struct half *h, struct graph *g, bool ftz, bool tf32, struct arena *a,
                             struct diag *d) {
  h->model = clone_model(g->model, a);
  random_seeds_give(g, &h->model, a);
  h->graph = graph_of_clone(g, &h->model, a);
  TRY(emulate_model(&h->model, &h->graph, ftz, a, d));
  TRY(graph_build_again(&h->graph, &h->model, g->schemas, a, d));
  if (!tf32)
    return STATUS_OK;
  emulate_operands(&h->model, &h->graph, FORMAT_TF32, a);
  return graph_build_again(&h->graph, &h->model, g->schemas, a, d);
}

// ---- renaming of the emitted half ----

static char *renamed(const struct half *h, struct arena *a, const char *name) {
  return name && name[0] ? arena_printf(a, "%s/%s", h->stem, name) : arena_strdup(a, "");
}

// Operators of other domains know inputs and outputs of their graphs by name: BeamSearch asks for
// one called input_ids.
static bool is_known_by_name(const struct graph *g, int v) {
  const struct value *value = &g->values[v];
  int node = g->scopes[value->scope].parent_node;
  const char *domain = node >= 0 ? text_of(g->nodes[node].proto->domain) : "";
  return *domain && strcmp(domain, "ai.onnx") != 0 &&
         (value->origin == ORIGIN_FORMAL || value->is_output);
}

// What the name stands for, in that scope, under its other name.
static char *renamed_in(const struct half *h, int scope, struct arena *a, const char *name) {
  int v = name && name[0] ? graph_lookup(&h->graph, scope, name) : -1;
  bool known = v >= 0 && is_known_by_name(&h->graph, v);
  return known ? arena_strdup(a, name) : renamed(h, a, name);
}

static void rename_infos(const struct half *h, int scope, struct arena *a,
                         Onnx__ValueInfoProto **list, size_t count) {
  for (size_t i = 0; i < count; i++)
    list[i]->name = renamed_in(h, scope, a, list[i]->name);
}

static void rename_scope(struct half *h, int s, struct arena *a) {
  const struct graph *g = &h->graph;
  Onnx__GraphProto *graph = g->scopes[s].graph;
  if (g->scopes[g->scopes[s].root].kind == SCOPE_FUNCTION)
    return;  // a function's body, and the graphs in it, have their own names
  rename_infos(h, s, a, graph->input, graph->n_input);
  rename_infos(h, s, a, graph->output, graph->n_output);
  rename_infos(h, s, a, graph->value_info, graph->n_value_info);
  for (size_t i = 0; i < graph->n_initializer; i++)
    graph->initializer[i]->name = renamed_in(h, s, a, graph->initializer[i]->name);
  for (size_t i = 0; i < graph->n_sparse_initializer; i++)
    if (graph->sparse_initializer[i]->values)
      graph->sparse_initializer[i]->values->name =
          renamed_in(h, s, a, graph->sparse_initializer[i]->values->name);
  for (size_t i = 0; i < graph->n_node; i++) {
    Onnx__NodeProto *node = graph->node[i];
    for (size_t k = 0; k < node->n_input; k++)
      node->input[k] = renamed_in(h, s, a, node->input[k]);
    for (size_t k = 0; k < node->n_output; k++)
      node->output[k] = renamed_in(h, s, a, node->output[k]);
  }
}

static char *function_domain(struct arena *a, const char *domain) {
  return arena_printf(a, "narrow.%s", domain ? domain : "");
}

// The emitted model's functions get a domain of their own, and so do the calls of them.
static void rename_functions(struct half *h, struct arena *a) {
  Onnx__ModelProto *proto = h->model.proto;
  for (int n = 0; n < h->graph.n_nodes; n++)
    if (h->graph.nodes[n].function >= 0)
      h->graph.nodes[n].proto->domain = function_domain(a, h->graph.nodes[n].proto->domain);
  Onnx__OperatorSetIdProto **domains = NULL;
  size_t n_domains = 0;
  for (size_t i = 0; i < proto->n_functions; i++) {
    proto->functions[i]->domain = function_domain(a, proto->functions[i]->domain);
    proto_import(a, &domains, &n_domains, proto->functions[i]->domain, 1);
  }
  for (size_t k = 0; k < n_domains; k++) {
    proto_import(a, &proto->opset_import, &proto->n_opset_import, domains[k]->domain, 1);
    for (size_t i = 0; i < proto->n_functions; i++)
      proto_import(a, &proto->functions[i]->opset_import, &proto->functions[i]->n_opset_import,
                   domains[k]->domain, 1);
  }
}

// ---- joining ----

struct join {
  struct twin *twin;
  struct graph *source, *emitted;  // as given: types before emulation
  struct half a, b;                // source, emitted
  struct arena *arena;
  const struct plan *plan;
  const int *watched;
  size_t n_watched;
  Onnx__NodeProto **nodes;
  size_t n_nodes;
};

static void append_sorted(struct join *j, const struct graph *g) {
  for (int i = 0; i < g->scopes[0].n_nodes; i++)
    j->nodes[j->n_nodes++] = g->nodes[g->scopes[0].order[i]].proto;
}

// Engines refuse two nodes of one name; nothing here needs the names.
static void drop_node_names(struct graph *g, struct arena *a) {
  for (int n = 0; n < g->n_nodes; n++)
    g->nodes[n].proto->name = arena_strdup(a, "");
}

static void drop_initializer(Onnx__GraphProto *graph, const char *name) {
  size_t kept = 0;
  for (size_t i = 0; i < graph->n_initializer; i++)
    if (strcmp(graph->initializer[i]->name, name) != 0)
      graph->initializer[kept++] = graph->initializer[i];
  graph->n_initializer = kept;
  kept = 0;
  for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
    const Onnx__TensorProto *values = graph->sparse_initializer[i]->values;
    if (!values || strcmp(values->name, name) != 0)
      graph->sparse_initializer[kept++] = graph->sparse_initializer[i];
  }
  graph->n_sparse_initializer = kept;
}

// The emitted half's inputs are the source's, rounded where the emitted model declares them narrow.
// Old models list all their weights as inputs: these are the emitted model's own.
static void join_inputs(struct join *j) {
  const struct scope *scope = &j->emitted->scopes[0];
  bool shaped = emulate_wants_shapes(j->emitted);
  for (int i = 0; i < scope->n_inputs; i++) {
    const struct value *input = &j->emitted->values[scope->inputs[i]];
    char *narrow_name = renamed(&j->b, j->arena, input->name);
    if (graph_is_constant(j->emitted, scope->inputs[i]))
      continue;
    if (input->initializer || input->sparse_default)
      drop_initializer(j->b.model.proto->graph, narrow_name);
    int twin = graph_lookup(j->source, 0, input->name);
    int from = twin >= 0 ? j->source->values[twin].type.elem_type : 0;
    const struct format *to = format_from_onnx(input->type.elem_type);
    if (to && from != input->type.elem_type) {
      j->nodes[j->n_nodes++] =
          emulate_new_round(j->arena, input->name, narrow_name, to->id, j->plan->ftz, shaped);
      continue;
    }
    j->nodes[j->n_nodes++] = proto_unary(j->arena, "Identity", "", input->name, narrow_name);
  }
}

// True for what emulate.c carries as fp32, and fp32 itself. Asked of the graphs as they were given:
// of what comes out of a Round, no schema tells the type.
static bool is_carried(const struct graph *g, int v) {
  if (v < 0 || g->values[v].type.kind != TYPE_TENSOR)
    return false;
  int elem_type = g->values[v].type.elem_type;
  return elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
         elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
         elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

// A Compare for each value of the main graph that both halves have as (carried) fp32. They come in
// reverse order: ONNX Runtime starts what became ready last first, so that each Compare runs as
// soon as its inputs are there and no tensor is kept waiting. And they stand before everything
// else: behind it, loading takes quadratic time. Both as trace_instrument.c found for Observe
// nodes.
static void join_compares(struct join *j) {
  struct twin *t = j->twin;
  t->values = arena_array(j->arena, (size_t)j->source->n_values, sizeof *t->values);
  for (int v = j->source->n_values - 1; v >= 0; v--) {
    const char *name = j->source->values[v].name;
    if (j->source->values[v].scope != 0 || graph_constant(j->source, v))
      continue;
    int twin = graph_lookup(j->emitted, 0, name);
    if (!is_carried(j->source, v) || !is_carried(j->emitted, twin))
      continue;
    bool narrow = j->emitted->values[twin].type.elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    Onnx__NodeProto *node = proto_node(j->arena, "Compare", "narrowcast", 2, 1);
    node->input[0] = arena_strdup(j->arena, name);
    node->input[1] = renamed(&j->b, j->arena, name);
    node->output[0] = arena_printf(j->arena, "%s.compare_%d", j->b.stem, v);
    proto_add_int(j->arena, node, "id", (int64_t)t->n_compared);
    proto_add_int(j->arena, node, "scale", narrow ? j->plan->values[v].scale_log2 : 0);
    j->nodes[j->n_nodes++] = node;
    t->values[t->n_compared++] = v;
  }
}

static void *joined(struct arena *a, void *first, size_t n_first, void *second, size_t n_second) {
  void **list = arena_array(a, n_first + n_second, sizeof *list);
  if (n_first)
    memcpy(list, first, n_first * sizeof *list);
  if (n_second)
    memcpy(list + n_first, second, n_second * sizeof *list);
  return list;
}

// Both halves name the sizes of their outputs alike, and the engine would take sizes of one name to
// be equal; but the two may differ where data decides (as the number of boxes that a detector
// finds).
static void forget_shape(Onnx__ValueInfoProto *info) {
  if (info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    info->type->tensor_type->shape = NULL;
}

// Of integers, as all that is watched.
static Onnx__ValueInfoProto *new_info(struct arena *a, const char *name) {
  Onnx__ValueInfoProto *info = arena_alloc(a, sizeof *info);
  onnx__value_info_proto__init(info);
  info->name = arena_strdup(a, name);
  info->type = arena_alloc(a, sizeof *info->type);
  onnx__type_proto__init(info->type);
  info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  info->type->tensor_type = arena_alloc(a, sizeof *info->type->tensor_type);
  onnx__type_proto__tensor__init(info->type->tensor_type);
  info->type->tensor_type->has_elem_type = 1;
  info->type->tensor_type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
  return info;
}

// Values that are no outputs become such.
static void join_watched(struct join *j, struct map *seen, Onnx__ValueInfoProto **list) {
  struct twin *t = j->twin;
  t->watched = arena_array(j->arena, j->n_watched, sizeof *t->watched);
  for (size_t i = 0; i < j->n_watched; i++) {
    const char *name = j->source->values[j->watched[i]].name;
    t->watched[i] = map_get(seen, 0, name);
    if (t->watched[i] >= 0 || graph_lookup(j->emitted, 0, name) < 0)
      continue;
    size_t k = t->n_fetched++;
    char *narrow_name = renamed(&j->b, j->arena, name);
    t->watched[i] = (int)k;
    map_put(seen, 0, name, (int)k);
    t->outputs[2 * k] = name;
    t->outputs[2 * k + 1] = narrow_name;
    list[2 * k] = new_info(j->arena, name);
    list[2 * k + 1] = new_info(j->arena, narrow_name);
  }
}

// Graph outputs of both halves, each name once, what is watched, and the pairs to fetch.
static void join_outputs(struct join *j) {
  Onnx__GraphProto *a = j->a.model.proto->graph, *b = j->b.model.proto->graph;
  struct twin *t = j->twin;
  size_t limit = a->n_output + j->n_watched;
  t->outputs = arena_array(j->arena, 2 * limit, sizeof *t->outputs);
  t->output_values = arena_array(j->arena, limit, sizeof *t->output_values);
  Onnx__ValueInfoProto **list = arena_array(j->arena, 2 * limit, sizeof *list);
  struct map seen = {.arena = j->arena};
  for (size_t i = 0; i < a->n_output && i < b->n_output; i++) {
    const char *name = a->output[i]->name;
    size_t k = t->n_outputs;
    if (!name || !name[0] || map_get(&seen, 0, name) >= 0)
      continue;
    map_put(&seen, 0, name, (int)k);
    t->output_values[k] = graph_lookup(j->source, 0, name);
    t->outputs[2 * k] = name;
    t->outputs[2 * k + 1] = b->output[i]->name;
    t->n_outputs++;
    forget_shape(a->output[i]);
    forget_shape(b->output[i]);
    list[2 * k] = a->output[i];
    list[2 * k + 1] = b->output[i];
  }
  t->n_fetched = t->n_outputs;
  join_watched(j, &seen, list);
  a->output = list;
  a->n_output = 2 * t->n_fetched;
}

static void join_models(struct join *j) {
  Onnx__ModelProto *a = j->a.model.proto, *b = j->b.model.proto;
  Onnx__GraphProto *ga = a->graph, *gb = b->graph;
  for (size_t i = 0; i < b->n_opset_import; i++) {
    const char *domain = b->opset_import[i]->domain;
    if (domain && domain[0] && strcmp(domain, "ai.onnx") != 0)
      proto_import(j->arena, &a->opset_import, &a->n_opset_import, domain,
                   b->opset_import[i]->version);
  }
  proto_import(j->arena, &a->opset_import, &a->n_opset_import, "narrowcast", 1);
  a->functions = joined(j->arena, a->functions, a->n_functions, b->functions, b->n_functions);
  a->n_functions += b->n_functions;
  ga->initializer =
      joined(j->arena, ga->initializer, ga->n_initializer, gb->initializer, gb->n_initializer);
  ga->n_initializer += gb->n_initializer;
  ga->sparse_initializer = joined(j->arena, ga->sparse_initializer, ga->n_sparse_initializer,
                                  gb->sparse_initializer, gb->n_sparse_initializer);
  ga->n_sparse_initializer += gb->n_sparse_initializer;
  ga->node = j->nodes;
  ga->n_node = j->n_nodes;
  // From IR 4 on, initializers need not be inputs: those of the emitted half are not.
  a->has_ir_version = 1;
  a->ir_version = a->ir_version < 4 ? 4 : a->ir_version;
}

// Types are inferred anew by the engine; what a model declares of inner values may be stale.
static void drop_value_info(const struct graph *g) {
  for (int s = 0; s < g->n_scopes; s++) {
    Onnx__GraphProto *graph = g->scopes[s].graph;
    if (!graph)
      continue;
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_value_info; i++) {
      int v = graph->value_info[i]->name ? graph_lookup(g, s, graph->value_info[i]->name) : -1;
      bool unknown_op =
          v >= 0 && g->values[v].producer >= 0 && !g->nodes[g->values[v].producer].schema;
      if (unknown_op)
        graph->value_info[kept++] = graph->value_info[i];
    }
    graph->n_value_info = kept;
  }
}

enum status twin_build(struct twin *t, struct graph *source, struct graph *emitted,
                       const struct plan *p, const int *watched, size_t n_watched, struct arena *a,
                       struct diag *d) {
  *t = (struct twin){0};
  struct join j = {.twin = t,
                   .source = source,
                   .emitted = emitted,
                   .arena = a,
                   .plan = p,
                   .watched = watched,
                   .n_watched = n_watched};
  TRY(open_half(&j.a, source, p->ftz, false, a, d));
  j.b.stem = graph_unused_prefix(source, "narrow", a);
  TRY(open_half(&j.b, emitted, p->ftz, p->tf32, a, d));
  drop_value_info(&j.a.graph);
  drop_value_info(&j.b.graph);
  size_t capacity = (size_t)j.a.graph.scopes[0].n_nodes + (size_t)j.b.graph.scopes[0].n_nodes +
                    (size_t)source->n_values + (size_t)emitted->scopes[0].n_inputs;
  j.nodes = arena_array(a, capacity, sizeof *j.nodes);
  for (int s = 0; s < j.b.graph.n_scopes; s++)
    rename_scope(&j.b, s, a);
  rename_functions(&j.b, a);
  drop_node_names(&j.a.graph, a);
  drop_node_names(&j.b.graph, a);
  join_compares(&j);
  append_sorted(&j, &j.a.graph);
  join_inputs(&j);
  append_sorted(&j, &j.b.graph);
  join_outputs(&j);
  join_models(&j);
  j.a.model.spool = emitted->model->spool;  // weights of both
  return clone_pack(&t->packed, &j.a.model, a, d);
}
