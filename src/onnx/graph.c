// Builds the index over a model, in four walks, each linear: define (scopes, nodes and the values
// that each scope defines, nested graphs included, in file order), resolve (what every name used
// means, looked up outwards, and with it the uses), sort (graph_order.c), infer types (types.c).
// All of a scope's names are defined before any is looked up, so that nodes may stand in any order.
#include "graph.h"

#include "graph_build.h"
#include "types.h"

#include <limits.h>
#include <string.h>

// Deeper nesting than any reader of ONNX takes; keeps the recursion here within the stack.
enum { SCOPE_DEPTH_MAX = 200 };
// A longer name of a node or attribute is no part of a path.
enum { LABEL_MAX_BYTES = 300 };

struct builder {
  struct graph *g;
  struct diag *d;
  struct arena *scratch;
  struct map node_names;  // (scope, node name) -> index in its scope
  struct map functions;   // (0, "domain:name:overload") -> scope
  struct map hidden;      // of these, those that an operator hides
  struct map operators;   // (opset of ai.onnx, op_type) -> node that was the first to have it
  int newest_opset;       // of ai.onnx that the schemas know
  int depth;
};

static enum status too_large(struct builder *b) {
  diag_hint(b->d, "Split the model, or report this limit.");
  return diag_fail(b->d, STATUS_MODEL, "more than %d nodes, values or uses", INT_MAX / 2);
}

// Room for one more element of an array; its index in *id.
static enum status reserve(struct builder *b, void **array, size_t *capacity, int *count,
                           size_t size, int *id) {
  if (*count >= INT_MAX / 2)
    return too_large(b);
  *array = arena_grow(b->g->arena, *array, capacity, (size_t)*count + 1, size);
  *id = (*count)++;
  return STATUS_OK;
}

static enum status fail_tensor(struct builder *b, int scope, const char *name, const char *what) {
  const char *path = b->g->scopes[scope].path;
  const char *label = *path ? arena_printf(b->g->arena, "%s::%s", path, name) : name;
  diag_at(b->d, NULL, NULL, label);
  return diag_fail(b->d, STATUS_MODEL, "%s", what);
}

// `place` is that of the value's name among the graph's names.
static enum status add_value(struct builder *b, int scope, const char *name, enum origin origin,
                             int *place, int *id) {
  void *array = b->g->values;
  TRY(reserve(b, &array, &b->g->capacity_values, &b->g->n_values, sizeof *b->g->values, id));
  b->g->values = array;
  b->g->values[*id] =
      (struct value){.name = name, .scope = scope, .origin = origin, .producer = -1};
  *place = *id;
  return STATUS_OK;
}

static enum status define_value(struct builder *b, int scope, const char *name, enum origin origin,
                                int *id) {
  int *place = map_slot(&b->g->names, scope, name);
  if (*place < 0)
    return add_value(b, scope, name, origin, place, id);
  diag_hint(b->d, "Each value has one producer: rename one of them.");
  return fail_tensor(b, scope, name, "is defined twice");
}

static const char *plain_domain(const char *domain) {
  domain = text_of(domain);
  return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

// ---- what a scope defines ----

static enum status check_declared(struct builder *b, int scope, const Onnx__ValueInfoProto *info) {
  const Onnx__TypeProto *t = info->type;
  int elem_type = 0;
  if (t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type)
    elem_type = t->tensor_type->elem_type;
  if (elem_type == 0 || elem_type_known(elem_type))
    return STATUS_OK;
  return fail_tensor(
      b, scope, text_of(info->name),
      arena_printf(b->g->arena, "is declared with the unknown element type %d", elem_type));
}

static enum status define_input(struct builder *b, int scope, int index, const char *name) {
  if (!*name)
    return diag_fail(b->d, STATUS_MODEL, "input %d of %s has no name", index,
                     *b->g->scopes[scope].path ? b->g->scopes[scope].path : "the main graph");
  int v;
  TRY(define_value(b, scope, name,
                   b->g->scopes[scope].kind == SCOPE_MAIN ? ORIGIN_INPUT : ORIGIN_FORMAL, &v));
  b->g->values[v].output = index;
  b->g->scopes[scope].inputs[index] = v;
  return STATUS_OK;
}

static enum status define_graph_inputs(struct builder *b, int scope, Onnx__GraphProto *graph) {
  struct scope *s = &b->g->scopes[scope];
  s->n_inputs = (int)graph->n_input;
  s->inputs = arena_array(b->g->arena, graph->n_input, sizeof *s->inputs);
  for (size_t i = 0; i < graph->n_input; i++) {
    TRY(define_input(b, scope, (int)i, text_of(graph->input[i]->name)));
    TRY(check_declared(b, scope, graph->input[i]));
    b->g->values[b->g->n_values - 1].declared = type_from_proto(graph->input[i]->type);
  }
  return STATUS_OK;
}

static enum status check_tensor_type(struct builder *b, int scope, const char *name,
                                     const Onnx__TensorProto *t) {
  if (t->has_data_type && elem_type_known(t->data_type))
    return STATUS_OK;
  return fail_tensor(b, scope, name,
                     arena_printf(b->g->arena, "has the unknown element type %d",
                                  t->has_data_type ? t->data_type : 0));
}

// An initializer of an input's name is the input's default; one whose name is empty can be read by
// nobody.
static enum status define_initializer(struct builder *b, int scope, Onnx__TensorProto *t) {
  const char *name = text_of(t->name);
  if (!*name) {
    diag_warn(b->d, "an initializer without a name is ignored");
    return STATUS_OK;
  }
  TRY(check_tensor_type(b, scope, name, t));
  int *place = map_slot(&b->g->names, scope, name), v = *place;
  if (v >= 0 && !b->g->values[v].initializer && b->g->values[v].origin != ORIGIN_SPARSE) {
    b->g->values[v].initializer = t;
    return STATUS_OK;
  }
  if (v >= 0) {
    diag_hint(b->d, "Remove one of the two initializers: readers disagree about which one counts.");
    return fail_tensor(b, scope, name, "has two initializers");
  }
  TRY(add_value(b, scope, name, ORIGIN_INITIALIZER, place, &v));
  b->g->values[v].initializer = t;
  return STATUS_OK;
}

static enum status define_sparse(struct builder *b, int scope, Onnx__SparseTensorProto *sparse) {
  if (!sparse->values)
    return diag_fail(b->d, STATUS_MODEL, "a sparse initializer has no values");
  const char *name = text_of(sparse->values->name);
  if (!*name) {
    diag_warn(b->d, "a sparse initializer without a name is ignored");
    return STATUS_OK;
  }
  TRY(check_tensor_type(b, scope, name, sparse->values));
  int v = map_get(&b->g->names, scope, name);
  bool is_default =
      v >= 0 && !b->g->values[v].initializer &&
      (b->g->values[v].origin == ORIGIN_INPUT || b->g->values[v].origin == ORIGIN_FORMAL);
  if (is_default) {
    b->g->values[v].sparse_default = true;
    return STATUS_OK;
  }
  TRY(define_value(b, scope, name, ORIGIN_SPARSE, &v));
  // Readers see a tensor: the engine makes it dense when it loads the model.
  b->g->values[v].type = (struct type){TYPE_TENSOR, sparse->values->data_type};
  return STATUS_OK;
}

static void fetch(char **names, size_t count) {
  for (size_t i = 0; i < count; i++)
    map_fetch(names[i]);
}

static void announce(struct builder *b, int scope, char **names, size_t count) {
  for (size_t i = 0; i < count; i++)
    map_announce(&b->g->names, scope, names[i]);
}

static enum status define_outputs(struct builder *b, int n) {
  Onnx__NodeProto *proto = b->g->nodes[n].proto;
  int *outputs = arena_array(b->g->arena, proto->n_output, sizeof *outputs);
  for (size_t i = 0; i < proto->n_output; i++) {
    outputs[i] = -1;
    if (!*text_of(proto->output[i]))
      continue;
    enum status status =
        define_value(b, b->g->nodes[n].scope, proto->output[i], ORIGIN_NODE, &outputs[i]);
    if (status != STATUS_OK) {
      diag_at(b->d, NULL, graph_node_label(b->g, n), NULL);
      return status;
    }
    b->g->values[outputs[i]].producer = n;
    b->g->values[outputs[i]].output = (int)i;
  }
  b->g->nodes[n].outputs = outputs;
  b->g->nodes[n].n_outputs = (int)proto->n_output;
  return STATUS_OK;
}

static enum status define_scope(struct builder *b, struct scope blank, int *id);

// Makes text a path if it can be one, else the scope's number.
static const char *scope_path(struct builder *b, const char *text, int id) {
  if (strlen(text) > PATH_MAX_BYTES || strstr(text, "::") || map_get(&b->g->paths, 0, text) >= 0)
    text = arena_printf(b->g->arena, "#%d", id);
  // A node may be named so that even this is taken.
  while (map_get(&b->g->paths, 0, text) >= 0)
    text = arena_printf(b->g->arena, "#%s", text);
  map_put(&b->g->paths, 0, text, id);
  return text;
}

static enum status define_body(struct builder *b, int n, const Onnx__AttributeProto *a,
                               Onnx__GraphProto *graph, int k) {
  struct graph *g = b->g;
  int parent = g->nodes[n].scope;
  const char *outer = g->scopes[parent].path, *name = text_of(g->nodes[n].proto->name);
  bool by_name = g->nodes[n].named && strlen(name) <= LABEL_MAX_BYTES && !strstr(name, "::");
  if (!by_name)
    name = arena_printf(g->arena, "#%d", g->nodes[n].index);
  const char *attribute = text_of(a->name);
  if (strlen(attribute) > LABEL_MAX_BYTES)
    attribute = "";
  const char *path = arena_printf(g->arena, "%s%s%s.%s", outer, *outer ? "/" : "", name, attribute);
  if (k >= 0)
    path = arena_printf(g->arena, "%s[%d]", path, k);
  struct scope blank = {.kind = SCOPE_SUBGRAPH,
                        .graph = graph,
                        .parent = parent,
                        .parent_node = n,
                        .root = g->scopes[parent].root,
                        .path = path};
  int id;
  TRY(define_scope(b, blank, &id));
  b->g->nodes[n].bodies[b->g->nodes[n].n_bodies++] = id;
  return STATUS_OK;
}

static enum status check_attribute_tensor(struct builder *b, int n, const Onnx__AttributeProto *a,
                                          const Onnx__TensorProto *t) {
  if (!t || elem_type_known(t->data_type))
    return STATUS_OK;
  diag_at(b->d, NULL, graph_node_label(b->g, n), *text_of(t->name) ? t->name : NULL);
  return diag_fail(b->d, STATUS_MODEL, "attribute %s holds a tensor of the unknown element type %d",
                   text_of(a->name), t->data_type);
}

// Graphs in any attribute, whatever its stated type: old files leave the type out.
static enum status define_bodies(struct builder *b, int n) {
  Onnx__NodeProto *proto = b->g->nodes[n].proto;
  size_t count = 0;
  for (size_t i = 0; i < proto->n_attribute; i++) {
    const Onnx__AttributeProto *a = proto->attribute[i];
    count += (a->g != NULL) + a->n_graphs;
    TRY(check_attribute_tensor(b, n, a, a->t));
    TRY(check_attribute_tensor(b, n, a, a->sparse_tensor ? a->sparse_tensor->values : NULL));
  }
  if (count == 0)
    return STATUS_OK;
  b->g->nodes[n].bodies = arena_array(b->g->arena, count, sizeof(int));
  for (size_t i = 0; i < proto->n_attribute; i++) {
    Onnx__AttributeProto *a = proto->attribute[i];
    if (a->g)
      TRY(define_body(b, n, a, a->g, -1));
    for (size_t k = 0; k < a->n_graphs; k++)
      TRY(define_body(b, n, a, a->graphs[k], (int)k));
  }
  return STATUS_OK;
}

// Which of a scope's nodes have a name that no other has; found first, since what a body is called
// depends on it.
static bool *find_named(struct builder *b, int scope, Onnx__NodeProto **nodes, size_t count) {
  bool *named = arena_array(b->scratch, count, sizeof *named);
  for (size_t i = 0; i < count; i++) {
    if (i + MAP_FAR < count)
      map_fetch(nodes[i + MAP_FAR]);
    if (i + MAP_FETCH < count)
      map_fetch(nodes[i + MAP_FETCH]->name);
    if (i + MAP_AHEAD < count)
      map_announce(&b->node_names, scope, text_of(nodes[i + MAP_AHEAD]->name));
    const char *name = text_of(nodes[i]->name);
    if (!*name || *name == '#')
      continue;
    int *first = map_slot(&b->node_names, scope, name);
    named[i] = *first < 0;
    if (*first < 0)
      *first = (int)i;
    else
      named[*first] = false;
  }
  return named;
}

static enum status define_nodes(struct builder *b, int scope, Onnx__NodeProto **protos,
                                size_t count) {
  if (count > INT_MAX / 2)
    return too_large(b);
  const bool *named = find_named(b, scope, protos, count);
  int *nodes = arena_array(b->g->arena, count, sizeof *nodes);
  for (size_t i = 0; i < count; i++) {
    void *array = b->g->nodes;
    int n = -1;
    TRY(reserve(b, &array, &b->g->capacity_nodes, &b->g->n_nodes, sizeof *b->g->nodes, &n));
    b->g->nodes = array;
    nodes[i] = n;
    if (i + MAP_FAR < count)
      map_fetch(protos[i + MAP_FAR]);
    if (i + MAP_FETCH < count)
      fetch(protos[i + MAP_FETCH]->output, protos[i + MAP_FETCH]->n_output);
    if (i + MAP_AHEAD < count)
      announce(b, scope, protos[i + MAP_AHEAD]->output, protos[i + MAP_AHEAD]->n_output);
    const char *op = text_of(protos[i]->op_type);
    b->g->nodes[n] = (struct node){.proto = protos[i],
                                   .op = *plain_domain(protos[i]->domain) ? "" : op,
                                   .scope = scope,
                                   .index = (int)i,
                                   .named = named[i],
                                   .function = -1};
    if (!*op) {
      diag_at(b->d, NULL, graph_node_label(b->g, n), NULL);
      return diag_fail(b->d, STATUS_MODEL, "the node has no op_type");
    }
    TRY(define_outputs(b, n));
    TRY(define_bodies(b, n));
  }
  b->g->scopes[scope].nodes = nodes;
  b->g->scopes[scope].n_nodes = (int)count;
  return STATUS_OK;
}

// The declarations of what is no input: outputs first, value_info where they say nothing. Returns
// which values these are.
static int *note_declared(struct builder *b, int scope, Onnx__ValueInfoProto **infos,
                          size_t count) {
  int *values = arena_array(b->g->arena, count, sizeof *values);
  for (size_t i = 0; i < count; i++) {
    if (i + MAP_FETCH < count)
      map_fetch(infos[i + MAP_FETCH]->name);
    if (i + MAP_AHEAD < count)
      map_announce(&b->g->names, scope, text_of(infos[i + MAP_AHEAD]->name));
    int v = values[i] = map_get(&b->g->names, scope, text_of(infos[i]->name));
    if (v >= 0 && b->g->values[v].declared.kind == TYPE_UNKNOWN)
      b->g->values[v].declared = type_from_proto(infos[i]->type);
  }
  return values;
}

static enum status define_graph(struct builder *b, int scope, Onnx__GraphProto *graph) {
  TRY(define_graph_inputs(b, scope, graph));
  for (size_t i = 0; i < graph->n_initializer; i++) {
    if (i + MAP_FETCH < graph->n_initializer)
      map_fetch(graph->initializer[i + MAP_FETCH]->name);
    if (i + MAP_AHEAD < graph->n_initializer)
      map_announce(&b->g->names, scope, text_of(graph->initializer[i + MAP_AHEAD]->name));
    TRY(define_initializer(b, scope, graph->initializer[i]));
  }
  for (size_t i = 0; i < graph->n_sparse_initializer; i++)
    TRY(define_sparse(b, scope, graph->sparse_initializer[i]));
  TRY(define_nodes(b, scope, graph->node, graph->n_node));
  for (size_t i = 0; i < graph->n_output; i++)
    TRY(check_declared(b, scope, graph->output[i]));
  note_declared(b, scope, graph->output, graph->n_output);
  int *infos = note_declared(b, scope, graph->value_info, graph->n_value_info);
  b->g->scopes[scope].infos = infos;
  return STATUS_OK;
}

static enum status define_function(struct builder *b, int scope, Onnx__FunctionProto *f) {
  struct scope *s = &b->g->scopes[scope];
  s->n_inputs = (int)f->n_input;
  s->inputs = arena_array(b->g->arena, f->n_input, sizeof *s->inputs);
  for (size_t i = 0; i < f->n_input; i++)
    TRY(define_input(b, scope, (int)i, text_of(f->input[i])));
  TRY(define_nodes(b, scope, f->node, f->n_node));
  note_declared(b, scope, f->value_info, f->n_value_info);
  return STATUS_OK;
}

static enum status define_scope(struct builder *b, struct scope blank, int *id) {
  if (b->depth >= SCOPE_DEPTH_MAX)
    return diag_fail(b->d, STATUS_MODEL, "graphs are nested more than %d deep", SCOPE_DEPTH_MAX);
  void *array = b->g->scopes;
  TRY(reserve(b, &array, &b->g->capacity_scopes, &b->g->n_scopes, sizeof *b->g->scopes, id));
  b->g->scopes = array;
  blank.path = scope_path(b, blank.path, *id);
  if (blank.parent < 0)
    blank.root = *id;
  b->g->scopes[*id] = blank;
  b->depth++;
  TRY(blank.graph ? define_graph(b, *id, blank.graph) : define_function(b, *id, blank.function));
  b->depth--;
  return STATUS_OK;
}

// ---- functions and opsets ----

static const char *function_key(struct arena *a, const char *domain, const char *name,
                                const char *overload) {
  return arena_printf(a, "%s:%s:%s", plain_domain(domain), text_of(name), text_of(overload));
}

static void set_opset(struct graph *g, int root, const char *domain, int version) {
  map_put(&g->opsets, root, domain, version);
  if (!*domain)
    g->scopes[root].opset = version;
}

static enum status define_opsets(struct builder *b, int root, Onnx__OperatorSetIdProto **imports,
                                 size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *domain = plain_domain(imports[i]->domain);
    int64_t version = imports[i]->version;
    if (version < 1 || version > INT_MAX)
      return diag_fail(b->d, STATUS_MODEL, "opset_import of domain \"%s\" has version %lld", domain,
                       (long long)version);
    if (map_get(&b->g->opsets, root, domain) >= 0)
      diag_warn(b->d, "domain \"%s\" is imported twice; the later version counts", domain);
    if (!*domain && version > b->newest_opset)
      diag_warn(b->d, "opset %lld is newer than this program knows: operators are read as in %d",
                (long long)version, b->newest_opset);
    set_opset(b->g, root, domain, (int)version);
  }
  return STATUS_OK;
}

struct packed_function {
  uint8_t *bytes;  // NULL: not packed yet
  size_t size;
};

static struct packed_function pack_function(struct arena *a, const Onnx__FunctionProto *f) {
  struct packed_function p = {.size = onnx__function_proto__get_packed_size(f)};
  p.bytes = arena_alloc(a, p.size + 1);
  onnx__function_proto__pack(f, p.bytes);
  return p;
}

// Engines disagree about which of two definitions counts, so they must be the same.
static enum status check_same_function(struct builder *b, struct packed_function *first, int scope,
                                       const Onnx__FunctionProto *second) {
  if (!first->bytes)
    *first = pack_function(b->scratch, b->g->scopes[scope].function);
  struct arena scratch = {0};
  struct packed_function other = pack_function(&scratch, second);
  bool same = other.size == first->size && memcmp(other.bytes, first->bytes, other.size) == 0;
  arena_free(&scratch);
  if (same)
    return STATUS_OK;
  diag_hint(b->d, "Remove one of the two definitions.");
  return diag_fail(b->d, STATUS_MODEL, "the local function %s is defined twice, differently",
                   b->g->scopes[scope].path);
}

static enum status define_functions(struct builder *b, const Onnx__ModelProto *proto) {
  struct packed_function *packed = arena_array(b->scratch, proto->n_functions, sizeof *packed);
  struct map index = {.arena = b->scratch};  // function key -> index in the file
  for (size_t i = 0; i < proto->n_functions; i++) {
    Onnx__FunctionProto *f = proto->functions[i];
    const char *key = function_key(b->scratch, f->domain, f->name, f->overload);
    int scope = map_get(&b->functions, 0, key);
    if (scope >= 0) {
      TRY(check_same_function(b, &packed[map_get(&index, 0, key)], scope, f));
      continue;
    }
    const char *overload = text_of(f->overload);
    const char *path = arena_printf(b->g->arena, "fn:%s.%s%s%s", plain_domain(f->domain),
                                    text_of(f->name), *overload ? ":" : "", overload);
    struct scope blank = {
        .kind = SCOPE_FUNCTION, .function = f, .parent = -1, .parent_node = -1, .path = path};
    TRY(define_scope(b, blank, &scope));
    TRY(define_opsets(b, scope, f->opset_import, f->n_opset_import));
    map_put(&b->functions, 0, key, scope);
    map_put(&index, 0, key, (int)i);
  }
  return STATUS_OK;
}

// ---- what names mean ----

// Most nodes mean what an earlier one means: the first of the same op_type under the same opset, if
// it calls the same function or is of ai.onnx as well.
static bool resolve_as_before(struct builder *b, int n) {
  struct node *node = &b->g->nodes[n];
  int opset = graph_opset(b->g, node->scope, "");
  int *first = map_slot(&b->operators, opset, node->proto->op_type);
  if (*first < 0)
    *first = n;
  const struct node *before = &b->g->nodes[*first];
  const char *domain = plain_domain(node->proto->domain);
  if (before == node || (*domain && before->function < 0) || (!*domain && opset == 0) ||
      strcmp(domain, plain_domain(before->proto->domain)) != 0 ||
      strcmp(text_of(node->proto->overload), text_of(before->proto->overload)) != 0)
    return false;
  node->function = before->function;
  node->schema = before->schema;
  node->op = before->op;
  return true;
}

// The function of the model that the node calls, or -1. ONNX Runtime takes an operator that it has
// for the node before a function of the same name, and so does this.
static int called_function(struct builder *b, const struct node *node, const char *domain,
                           struct arena *scratch) {
  const char *name = node->proto->op_type, *overload = text_of(node->proto->overload);
  const char *key = function_key(scratch, domain, name, overload);
  int function = map_get(&b->functions, 0, key);
  int opset = map_get(&b->g->opsets, b->g->scopes[node->scope].root, domain);
  if (function < 0 || *overload || opset <= 0 || !schema_find(b->g->schemas, domain, name, opset))
    return function;
  if (map_get(&b->hidden, 0, key) < 0)
    diag_warn(b->d,
              "the local function %s of domain \"%s\" is not called: ONNX Runtime runs its own "
              "operator of that name",
              name, domain);
  map_put(&b->hidden, 0, key, function);
  return -1;
}

static enum status resolve_operator(struct builder *b, int n, struct arena *scratch) {
  if (resolve_as_before(b, n))
    return STATUS_OK;
  struct node *node = &b->g->nodes[n];
  const char *domain = plain_domain(node->proto->domain);
  if (b->functions.count) {
    node->function = called_function(b, node, domain, scratch);
    if (node->function >= 0)
      return STATUS_OK;
  }
  int root = b->g->scopes[node->scope].root;
  int opset = map_get(&b->g->opsets, root, domain);
  if (opset < 0 && root == 0 && (opset = schema_newest(b->g->schemas, domain)) > 0) {
    diag_warn(b->d, "domain \"%s\" has no opset_import: version %d is assumed", domain, opset);
    set_opset(b->g, root, domain, opset);
  }
  if (opset <= 0) {
    diag_at(b->d, NULL, graph_node_label(b->g, n), NULL);
    diag_hint(b->d, "Add an opset_import for the domain, or the local function that is meant.");
    return diag_fail(b->d, STATUS_MODEL,
                     "operator %s is of domain \"%s\", which %s does not import",
                     node->proto->op_type, domain, root ? "the function" : "the model");
  }
  node->schema = schema_find(b->g->schemas, domain, node->proto->op_type, opset);
  if (node->schema && *node->op)
    node->op = node->schema->op;  // the same text, in one place for all such nodes
  return STATUS_OK;
}

static enum status resolve_inputs(struct builder *b, int n, int64_t *uses) {
  struct graph *g = b->g;
  struct node *node = &g->nodes[n];
  node->n_inputs = (int)node->proto->n_input;
  node->inputs = arena_array(g->arena, node->proto->n_input, sizeof *node->inputs);
  for (int k = 0; k < node->n_inputs; k++) {
    const char *name = text_of(node->proto->input[k]);
    node->inputs[k] = -1;
    if (!*name)
      continue;
    int v = graph_lookup(g, node->scope, name);
    if (v < 0) {
      diag_at(b->d, NULL, graph_node_label(g, n), NULL);
      return fail_tensor(b, node->scope, name, "is used, but nothing defines it");
    }
    node->inputs[k] = v;
    g->values[v].n_uses++;
    (*uses)++;
  }
  return STATUS_OK;
}

static enum status resolve_output(struct builder *b, int scope, const char *name, int *v) {
  struct graph *g = b->g;
  *v = -1;
  if (!*name)
    return STATUS_OK;
  *v = map_get(&g->names, scope, name);
  if (*v >= 0)
    return STATUS_OK;
  if (graph_lookup(g, scope, name) < 0)
    return fail_tensor(b, scope, name, "is an output of the graph, but nothing defines it");
  diag_hint(b->d, "Put an Identity node into the subgraph.");
  return fail_tensor(b, scope, name, "belongs to an outer graph and is returned directly");
}

static enum status resolve_outputs(struct builder *b, int scope, int64_t *uses) {
  struct scope *s = &b->g->scopes[scope];
  size_t count = s->graph ? s->graph->n_output : s->function->n_output;
  if (count > INT_MAX / 2)
    return too_large(b);
  s->n_outputs = (int)count;
  s->outputs = arena_array(b->g->arena, count, sizeof *s->outputs);
  for (size_t i = 0; i < count; i++) {
    const char *name = s->graph ? s->graph->output[i]->name : s->function->output[i];
    int v;
    TRY(resolve_output(b, scope, text_of(name), &v));
    s->outputs[i] = v;
    if (v < 0)
      continue;
    b->g->values[v].is_output = true;
    b->g->values[v].n_uses++;
    (*uses)++;
  }
  return STATUS_OK;
}

static void add_use(struct value *v, int node, int index) {
  v->uses[v->n_uses++] = (struct use){node, index};
}

// All uses lie in one array, those of a value together.
static void fill_uses(struct graph *g, int64_t uses) {
  struct use *place = arena_array(g->arena, (size_t)uses, sizeof *place);
  for (int v = 0; v < g->n_values; v++) {
    g->values[v].uses = place;
    place += g->values[v].n_uses;
    g->values[v].n_uses = 0;
  }
  for (int n = 0; n < g->n_nodes; n++)
    for (int k = 0; k < g->nodes[n].n_inputs; k++)
      if (g->nodes[n].inputs[k] >= 0)
        add_use(&g->values[g->nodes[n].inputs[k]], n, k);
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_outputs; i++)
      if (g->scopes[s].outputs[i] >= 0)
        add_use(&g->values[g->scopes[s].outputs[i]], -1, i);
}

static enum status resolve(struct builder *b) {
  int64_t uses = 0;
  struct arena scratch = {0};
  enum status status = STATUS_OK;
  for (int n = 0; n < b->g->n_nodes && status == STATUS_OK; n++) {
    if (n + MAP_FAR < b->g->n_nodes)
      map_fetch(b->g->nodes[n + MAP_FAR].proto);
    if (n + MAP_FETCH < b->g->n_nodes) {
      const struct node *later = &b->g->nodes[n + MAP_FETCH];
      fetch(later->proto->input, later->proto->n_input);
    }
    if (n + MAP_AHEAD < b->g->n_nodes) {
      const struct node *later = &b->g->nodes[n + MAP_AHEAD];
      announce(b, later->scope, later->proto->input, later->proto->n_input);
    }
    status = resolve_operator(b, n, &scratch);
    if (status == STATUS_OK)
      status = resolve_inputs(b, n, &uses);
  }
  arena_free(&scratch);
  TRY(status);
  for (int s = 0; s < b->g->n_scopes; s++)
    TRY(resolve_outputs(b, s, &uses));
  if (uses > INT_MAX / 2)
    return too_large(b);
  fill_uses(b->g, uses);
  return STATUS_OK;
}

// ---- the whole ----

static enum status check_header(struct builder *b, const Onnx__ModelProto *proto) {
  if (!proto->graph)
    return diag_fail(b->d, STATUS_MODEL, "the model has no graph");
  if (!proto->has_ir_version)
    return diag_fail(b->d, STATUS_MODEL,
                     "the model has no ir_version, which every reader requires");
  if (proto->n_opset_import == 0) {
    diag_hint(b->d,
              "Add the opset_import that the model was exported for, e.g. ai.onnx version 17.");
    return diag_fail(b->d, STATUS_MODEL, "the model has no opset_import");
  }
  return STATUS_OK;
}

// What the caller must feed has to have a type; all else can be inferred.
static enum status check_main_inputs(struct builder *b) {
  const Onnx__GraphProto *graph = b->g->scopes[0].graph;
  for (size_t i = 0; i < graph->n_input; i++) {
    const Onnx__TypeProto *t = graph->input[i]->type;
    bool stated = t && t->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET &&
                  (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
                   b->g->values[b->g->scopes[0].inputs[i]].declared.kind == TYPE_TENSOR);
    if (!stated && !b->g->values[b->g->scopes[0].inputs[i]].initializer)
      return fail_tensor(b, 0, text_of(graph->input[i]->name),
                         "is a graph input without an element type");
  }
  return STATUS_OK;
}

static bool lists_all_initializers(const struct graph *g) {
  if (g->model->proto->ir_version < 4)
    return true;
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].scope == 0 &&
        (g->values[v].origin == ORIGIN_INITIALIZER || g->values[v].origin == ORIGIN_SPARSE))
      return false;
  return true;
}

// Room for the nodes and values of the main graph and the functions; those of subgraphs are few, or
// make the arrays grow.
static void reserve_all(struct builder *b, const Onnx__ModelProto *proto) {
  struct graph *g = b->g;
  size_t nodes = 0, values = proto->graph->n_input + proto->graph->n_initializer;
  for (size_t i = 0; i < proto->graph->n_node; i++)
    values += proto->graph->node[i]->n_output;
  nodes += proto->graph->n_node;
  for (size_t f = 0; f < proto->n_functions; f++) {
    nodes += proto->functions[f]->n_node;
    values += proto->functions[f]->n_input + proto->functions[f]->n_node;
  }
  g->nodes = arena_grow(g->arena, NULL, &g->capacity_nodes, nodes, sizeof *g->nodes);
  g->values = arena_grow(g->arena, NULL, &g->capacity_values, values, sizeof *g->values);
  map_reserve(&g->names, values);
  map_reserve(&b->node_names, nodes);
}

static enum status define_and_resolve(struct builder *b, const Onnx__ModelProto *proto) {
  TRY(check_header(b, proto));
  reserve_all(b, proto);
  struct scope blank = {.graph = proto->graph, .parent = -1, .parent_node = -1, .path = ""};
  int main_scope;
  TRY(define_scope(b, blank, &main_scope));
  TRY(define_opsets(b, 0, proto->opset_import, proto->n_opset_import));
  TRY(check_main_inputs(b));
  b->g->all_listed = lists_all_initializers(b->g);
  TRY(define_functions(b, proto));
  return resolve(b);
}

enum status graph_build(struct graph *g, struct model *m, const struct schema_table *schemas,
                        struct arena *a, struct diag *d) {
  *g = (struct graph){.model = m,
                      .arena = a,
                      .schemas = schemas,
                      .names = {.arena = a},
                      .opsets = {.arena = a},
                      .paths = {.arena = a}};
  struct arena scratch = {0};
  struct builder b = {.g = g,
                      .d = d,
                      .scratch = &scratch,
                      .node_names = {.arena = &scratch},
                      .functions = {.arena = &scratch},
                      .hidden = {.arena = &scratch},
                      .operators = {.arena = &scratch},
                      .newest_opset = schema_newest(schemas, "")};
  diag_at(d, m->path, NULL, NULL);
  enum status status = define_and_resolve(&b, m->proto);
  arena_free(&scratch);
  TRY(status);
  graph_mark(g);
  TRY(graph_sort(g, d));
  return types_infer(g, d);
}

enum status graph_build_again(struct graph *g, struct model *m, const struct schema_table *schemas,
                              struct arena *a, struct diag *d) {
  void (*warn)(void *context, const char *text) = d->warn;
  d->warn = NULL;
  enum status status = graph_build(g, m, schemas, a, d);
  d->warn = warn;
  return status;
}
