// Questions about a finished index: what a name means, which opset counts, how values and nodes are
// called in messages and files, which values are constants.
#include "graph_build.h"
#include "tensor.h"

#include <string.h>

int graph_lookup(const struct graph *g, int scope, const char *name) {
  for (; scope >= 0; scope = g->scopes[scope].parent) {
    int v = map_get(&g->names, scope, name);
    if (v >= 0)
      return v;
  }
  return -1;
}

int graph_opset(const struct graph *g, int scope, const char *domain) {
  int root = g->scopes[scope].root;
  if (!*domain || strcmp(domain, "ai.onnx") == 0)
    return g->scopes[root].opset;
  int version = map_get(&g->opsets, root, domain);
  return version < 0 ? 0 : version;
}

Onnx__AttributeProto *node_attribute(const Onnx__NodeProto *n, const char *name) {
  for (size_t i = 0; i < n->n_attribute; i++)
    if (strcmp(text_of(n->attribute[i]->name), name) == 0)
      return n->attribute[i];
  return NULL;
}

// MurmurHash3 does so too, but takes no narrow type.
bool node_sees_bits(const struct node *n) {
  return node_is(n, "BitCast") && n->n_inputs > 0 && n->n_outputs > 0;
}

// ---- labels ----

// Paths of scopes hold no "::", so the first one ends the path. True if a name of the main graph
// would be taken for one of another scope.
static bool reads_like_scoped(const struct graph *g, const char *name) {
  const char *end = strstr(name, "::");
  char path[PATH_MAX_BYTES + 1];
  if (!end || (size_t)(end - name) >= sizeof path)
    return false;
  memcpy(path, name, (size_t)(end - name));
  path[end - name] = '\0';
  return map_get(&g->paths, 0, path) >= 0;
}

const char *graph_value_label(const struct graph *g, int value) {
  const struct value *v = &g->values[value];
  const char *path = g->scopes[v->scope].path;
  if (*path || reads_like_scoped(g, v->name))
    return arena_printf(g->arena, "%s::%s", path, v->name);
  return v->name;
}

const char *graph_node_label(const struct graph *g, int node) {
  const struct node *n = &g->nodes[node];
  const char *path = g->scopes[n->scope].path, *separator = *path ? "::" : "";
  if (!n->named)
    return arena_printf(g->arena, "%s%s#%d(%s)", path, separator, n->index,
                        text_of(n->proto->op_type));
  if (*path || reads_like_scoped(g, n->proto->name))
    return arena_printf(g->arena, "%s::%s", path, n->proto->name);
  return n->proto->name;
}

const char *graph_unused_prefix(const struct graph *g, const char *stem, struct arena *a) {
  const char *prefix = stem;
  for (int v = 0; v < g->n_values; v++) {
    size_t length = strlen(prefix);
    if (strncmp(g->values[v].name, prefix, length) != 0)
      continue;
    size_t more = strspn(g->values[v].name + length, "_");
    char *longer = arena_alloc(a, length + more + 2);
    memcpy(longer, prefix, length);
    memset(longer + length, '_', more + 1);
    prefix = longer;
  }
  return prefix;
}

// ---- constants ----

static Onnx__TensorProto *copied_tensor(struct arena *a, int elem_type, size_t rank, size_t count,
                                        const void *elements, size_t size) {
  int64_t *dims = arena_array(a, 1, sizeof *dims);
  dims[0] = (int64_t)count;
  uint8_t *data = arena_alloc(a, count * size);
  if (count)
    memcpy(data, elements, count * size);
  return tensor_new(a, "", elem_type, rank, dims, data, count * size);
}

// Numbers in a TensorProto are little-endian, as are all hosts that this program runs on.
static Onnx__TensorProto *constant_tensor(struct arena *a, const Onnx__NodeProto *n) {
  enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64
  };
  for (size_t i = 0; i < n->n_attribute; i++) {
    Onnx__AttributeProto *t = n->attribute[i];
    const char *name = text_of(t->name);
    if (*text_of(t->ref_attr_name))
      return NULL;  // each call of the function gives another
    if (strcmp(name, "value") == 0)
      return t->t;
    if (strcmp(name, "value_float") == 0)
      return copied_tensor(a, FLOAT, 0, 1, &t->f, sizeof t->f);
    if (strcmp(name, "value_floats") == 0)
      return copied_tensor(a, FLOAT, 1, t->n_floats, t->floats, sizeof *t->floats);
    if (strcmp(name, "value_int") == 0)
      return copied_tensor(a, INT64, 0, 1, &t->i, sizeof t->i);
    if (strcmp(name, "value_ints") == 0)
      return copied_tensor(a, INT64, 1, t->n_ints, t->ints, sizeof *t->ints);
  }
  return NULL;
}

// Where every initializer is listed as a graph input as well, none is meant to be overridden:
// before IR 4 each had to be listed, and exporters went on doing so for years.
static bool listed_initializer(const struct graph *g, const struct value *v) {
  return v->origin == ORIGIN_INPUT && v->initializer && g->all_listed;
}

bool graph_is_fp32(const struct graph *g, int value) {
  return value >= 0 && g->values[value].type.kind == TYPE_TENSOR &&
         g->values[value].type.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
}

bool graph_is_constant(const struct graph *g, int value) {
  const struct value *v = &g->values[value];
  if (v->origin == ORIGIN_INITIALIZER || listed_initializer(g, v))
    return !v->trained;
  return v->origin == ORIGIN_NODE && g->nodes[v->producer].function < 0 &&
         node_is(&g->nodes[v->producer], "Constant");
}

Onnx__TensorProto *graph_constant(struct graph *g, int value) {
  struct value *v = &g->values[value];
  if (v->origin == ORIGIN_INITIALIZER || listed_initializer(g, v))
    return v->trained ? NULL : v->initializer;
  if (v->origin != ORIGIN_NODE || v->output != 0)
    return NULL;
  const struct node *n = &g->nodes[v->producer];
  if (n->function >= 0 || !node_is(n, "Constant"))
    return NULL;
  if (!v->constant)
    v->constant = constant_tensor(g->arena, n->proto);
  return v->constant;
}

// ---- whole numbers ----

int graph_integers(struct graph *g, int value, int64_t *out, size_t most, struct arena *a) {
  const Onnx__TensorProto *constant = value >= 0 ? graph_constant(g, value) : NULL;
  struct tensor t;
  struct diag ignored = {0};
  if (!constant || tensor_read(g->model, constant, a, &t, &ignored) != STATUS_OK || t.count > most)
    return -1;
  float *values = arena_array(a, t.count, sizeof *values);
  if (!tensor_to_float(&t, values))
    return -1;
  for (uint64_t i = 0; i < t.count; i++)
    out[i] = (int64_t)values[i];
  return (int)t.count;
}

int graph_axes(struct graph *g, const struct node *n, int64_t *out, size_t most, struct arena *a) {
  const Onnx__AttributeProto *listed = node_attribute(n->proto, "axes");
  if (!listed)
    return n->n_inputs > 1 && n->inputs[1] >= 0 ? graph_integers(g, n->inputs[1], out, most, a) : 0;
  if (*text_of(listed->ref_attr_name) || listed->n_ints > most)
    return -1;
  for (size_t i = 0; i < listed->n_ints; i++)
    out[i] = listed->ints[i];
  return (int)listed->n_ints;
}
