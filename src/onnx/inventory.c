// Counts what is in a model. What is odd is what may surprise someone who converts it: what is left
// alone, what is there for nothing, and numbers that a narrow format does not hold. See
// inventory.h.
#include "inventory.h"

#include "external.h"
#include "format.h"
#include "tensor.h"
#include "units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// "84 values: float16 or bfloat16 already"
static const struct {
  const char *name, *noun, *text;
} oddities[ODD_COUNT] = {
    [ODD_NARROW] = {"narrow", "value", "float16 or bfloat16 already"},
    [ODD_DOUBLE] = {"double", "value", "double, kept so"},
    [ODD_UNTYPED] = {"untyped", "value", "of no type that can be told, kept as it is"},
    [ODD_UNKNOWN_OPERATOR] = {"unknown_operator", "node",
                              "of an operator that is not known here, kept as it is"},
    [ODD_QUANTISED] = {"quantised", "node", "quantised, kept as it is"},
    [ODD_SPARSE] = {"sparse", "initializer", "sparse, kept as it is"},
    [ODD_TRAINING] = {"training", "training step", "beside the model, kept as it is"},
    [ODD_POLYMORPHIC] = {"polymorphic", "function", "called with different types, kept fp32"},
    [ODD_UNSORTED] = {"unsorted", "graph",
                      "with nodes before what they read; the result is sorted"},
    [ODD_UNNAMED] = {"unnamed", "node", "without a name of its own, called by its place"},
    [ODD_NO_SHAPE] = {"no_shape", "input/output", "without a declared shape"},
    [ODD_LISTED] = {"listed", "initializer", "an input too, as older IR versions want it"},
    [ODD_UNUSED_IMPORT] = {"unused_import", "domain", "imported and not used"},
    [ODD_UNUSED_INPUT] = {"unused_input", "input", "read by nothing"},
    [ODD_UNUSED_CONSTANT] = {"unused_constant", "initializer", "read by nothing"},
    [ODD_UNUSED_NODE] = {"unused_node", "node", "whose results nothing reads"},
    [ODD_NOT_FINITE] = {"not_finite", "constant", "with NaN or infinities in it"},
    [ODD_OUT_OF_FP16] = {"out_of_fp16", "constant", "with magnitudes beyond 65504, fp16's largest"},
};

const char *oddity_name(enum oddity o) {
  return oddities[o].name;
}

const char *oddity_text(const struct inventory *in, enum oddity o, struct arena *a) {
  const struct odd *odd = &in->odd[o];
  const char *first = odd->count > 1 ? "the first is " : "";
  return arena_printf(a, "%d %s%s: %s%s%s%s%s", odd->count, oddities[o].noun, PLURAL(odd->count),
                      oddities[o].text, odd->example[0] ? " (" : "", odd->example[0] ? first : "",
                      odd->example, odd->example[0] ? ")" : "");
}

struct taking {
  struct inventory *in;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
};

// `example` counts only for the first.
static void note(struct inventory *in, enum oddity o, const char *example) {
  if (in->odd[o].count++ == 0)
    in->odd[o].example = example;
}

// ---- operators ----

static const char *domain_of(const char *domain) {
  return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

static int more_first(const void *x, const void *y) {
  const struct op_count *a = x, *b = y;
  if (a->count != b->count)
    return b->count - a->count;
  int order = strcmp(a->op, b->op);
  return order ? order : strcmp(a->domain, b->domain);
}

static bool is_quantised(const char *op) {
  return strstr(op, "QuantizeLinear") || strncmp(op, "QLinear", 7) == 0 || strstr(op, "Integer");
}

static void take_node(struct taking *t, int n, struct map *seen) {
  struct inventory *in = t->in;
  const struct node *node = &t->graph->nodes[n];
  const char *domain = domain_of(node->proto->domain), *op = node->proto->op_type;
  const char *key = arena_printf(t->arena, "%s:%s", domain, op);
  int index = map_get(seen, 0, key);
  if (index < 0) {
    index = (int)in->n_ops++;
    map_put(seen, 0, key, index);
    in->ops[index] = (struct op_count){domain, op, 0};
  }
  in->ops[index].count++;
  bool used = node->n_outputs == 0;
  for (int k = 0; k < node->n_outputs; k++)
    used = used || (node->outputs[k] >= 0 && t->graph->values[node->outputs[k]].n_uses > 0);
  if (!node->schema && node->function < 0)
    note(in, ODD_UNKNOWN_OPERATOR, graph_node_label(t->graph, n));
  if (is_quantised(op))
    note(in, ODD_QUANTISED, graph_node_label(t->graph, n));
  if (!node->named)
    note(in, ODD_UNNAMED, graph_node_label(t->graph, n));
  if (!used)
    note(in, ODD_UNUSED_NODE, graph_node_label(t->graph, n));
}

static void take_nodes(struct taking *t) {
  struct map seen = {.arena = t->arena};
  t->in->ops = arena_array(t->arena, (size_t)t->graph->n_nodes, sizeof *t->in->ops);
  for (int n = 0; n < t->graph->n_nodes; n++)
    take_node(t, n, &seen);
  qsort(t->in->ops, t->in->n_ops, sizeof *t->in->ops, more_first);
}

static void take_imports(struct taking *t) {
  const Onnx__ModelProto *m = t->graph->model->proto;
  struct map used = {.arena = t->arena};
  for (size_t i = 0; i < t->in->n_ops; i++)
    map_put(&used, 0, t->in->ops[i].domain, 1);
  for (size_t i = 0; i < m->n_opset_import; i++) {
    const char *domain = domain_of(m->opset_import[i]->domain);
    if (map_get(&used, 0, domain) < 0)
      note(t->in, ODD_UNUSED_IMPORT, domain[0] ? domain : "ai.onnx");
  }
}

// ---- scopes ----

static void take_scope(struct taking *t, int s, int *place_of_function) {
  struct inventory *in = t->in;
  const struct scope *scope = &t->graph->scopes[s];
  bool sorted = true;
  if (scope->kind == SCOPE_SUBGRAPH) {
    in->subgraphs++;
    in->nodes_in_subgraphs += scope->n_nodes;
  } else if (scope->kind == SCOPE_FUNCTION) {
    in->nodes_in_functions += scope->n_nodes;
    place_of_function[s] = in->n_functions;
    in->functions[in->n_functions++] = (struct function_count){.scope = s};
  }
  if (scope->polymorphic && scope->kind == SCOPE_FUNCTION)
    note(in, ODD_POLYMORPHIC, scope->path);
  for (int i = 0; i < scope->n_nodes; i++)
    sorted = sorted && scope->nodes[i] == scope->order[i];
  if (!sorted)
    note(in, ODD_UNSORTED, scope->path);
}

static void take_scopes(struct taking *t) {
  const struct graph *g = t->graph;
  int *place = arena_array(t->arena, (size_t)g->n_scopes, sizeof *place);
  t->in->functions = arena_array(t->arena, (size_t)g->n_scopes, sizeof *t->in->functions);
  for (int s = 0; s < g->n_scopes; s++)
    take_scope(t, s, place);
  for (int n = 0; n < g->n_nodes; n++)
    if (g->nodes[n].function >= 0)
      t->in->functions[place[g->nodes[n].function]].calls++;
}

// ---- values ----

static void take_value(struct taking *t, int v) {
  struct inventory *in = t->in;
  const struct value *value = &t->graph->values[v];
  const char *label = graph_value_label(t->graph, v);
  int type = value->type.kind == TYPE_TENSOR ? value->type.elem_type : 0;
  in->values[elem_type_known(type) ? type : 0]++;
  if (type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
      type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
    note(in, ODD_NARROW, label);
  if (type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE)
    note(in, ODD_DOUBLE, label);
  if (value->type.kind == TYPE_UNKNOWN)
    note(in, ODD_UNTYPED, label);
  if (value->origin == ORIGIN_SPARSE || value->sparse_default)
    note(in, ODD_SPARSE, label);
  if (value->origin == ORIGIN_INPUT && value->initializer)
    note(in, ODD_LISTED, label);
  bool unused = value->n_uses == 0 && !value->trained;
  if (unused && value->origin == ORIGIN_INPUT && value->scope == 0)
    note(in, ODD_UNUSED_INPUT, label);
  if (unused && value->origin == ORIGIN_INITIALIZER)
    note(in, ODD_UNUSED_CONSTANT, label);
}

static void take_shapes(struct taking *t, Onnx__ValueInfoProto **list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const Onnx__TypeProto *type = list[i]->type;
    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
        !type->tensor_type->shape)
      note(t->in, ODD_NO_SHAPE, list[i]->name ? list[i]->name : "");
  }
}

// ---- parameters ----

static enum status take_numbers(struct taking *t, const Onnx__TensorProto *proto) {
  struct tensor view;
  struct arena scratch = {0};
  enum status status = tensor_read(t->graph->model, proto, &scratch, &view, t->diag);
  struct tensor_blocks b = {.model = t->graph->model, .tensor = &view};
  float largest = 0;
  bool finite = true;
  while (status == STATUS_OK && tensor_next(&b))
    for (size_t i = 0; i < b.n; i++) {
      float x = fabsf(b.x[i]);
      finite = finite && isfinite(x);
      largest = x > largest && isfinite(x) ? x : largest;
    }
  const char *name = proto->name ? proto->name : "";
  if (status == STATUS_OK && !finite)
    note(t->in, ODD_NOT_FINITE, name);
  if (status == STATUS_OK && largest > (float)formats[FORMAT_FP16].max)
    note(t->in, ODD_OUT_OF_FP16, name);
  arena_free(&scratch);
  return status;
}

static enum status take_tensor(void *context, Onnx__TensorProto *proto) {
  struct taking *t = context;
  struct inventory *in = t->in;
  uint64_t elements, bytes;
  if (!tensor_extent(proto, &elements, &bytes))
    elements = bytes = 0;
  int type = elem_type_known(proto->data_type) ? proto->data_type : 0;
  struct parameter_count *counts[] = {&in->parameters[type], &in->all_parameters};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    counts[i]->tensors++;
    counts[i]->elements += elements;
    counts[i]->bytes += bytes;
  }
  in->external_tensors += proto->has_data_location &&
                          proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  bool narrow_or_fp32 = tensor_is_float(type) && type != ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
  return narrow_or_fp32 ? take_numbers(t, proto) : STATUS_OK;
}

enum status inventory_take(struct inventory *in, struct graph *g, struct arena *a, struct diag *d) {
  *in = (struct inventory){0};
  struct taking t = {.in = in, .graph = g, .arena = a, .diag = d};
  const Onnx__ModelProto *m = g->model->proto;
  take_nodes(&t);
  take_imports(&t);
  take_scopes(&t);
  for (int v = 0; v < g->n_values; v++)
    take_value(&t, v);
  take_shapes(&t, m->graph->input, m->graph->n_input);
  take_shapes(&t, m->graph->output, m->graph->n_output);
  for (size_t i = 0; i < m->n_training_info; i++)
    note(in, ODD_TRAINING, "");
  return model_each_tensor(m, take_tensor, &t);
}
