// inspect: what is in a model, before anything is decided. Needs no data and no engine.
#include "cmd.h"
#include "json.h"
#include "tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct op_count {
  const char *domain, *op;
  int count;
};

struct inventory {
  struct op_count *ops;
  size_t n_ops;
  int subgraphs, functions, float_values, narrow_values, double_values, untyped_values;
  int unknown_ops, quantised_ops, sparse;
  bool unsorted;
  uint64_t parameters, parameter_bytes, float_parameters;
  int external_tensors;
};

static int more_first(const void *x, const void *y) {
  const struct op_count *a = x, *b = y;
  if (a->count != b->count)
    return b->count - a->count;
  int order = strcmp(a->op, b->op);
  return order ? order : strcmp(a->domain, b->domain);
}

static void count_ops(struct inventory *in, const struct graph *g, struct arena *a) {
  struct map seen = {.arena = a};
  in->ops = arena_array(a, (size_t)g->n_nodes, sizeof *in->ops);
  for (int n = 0; n < g->n_nodes; n++) {
    const Onnx__NodeProto *node = g->nodes[n].proto;
    const char *domain = node->domain && strcmp(node->domain, "ai.onnx") ? node->domain : "";
    const char *key = arena_printf(a, "%s:%s", domain, node->op_type);
    int index = map_get(&seen, 0, key);
    if (index < 0) {
      index = (int)in->n_ops++;
      map_put(&seen, 0, key, index);
      in->ops[index] = (struct op_count){domain, node->op_type, 0};
    }
    in->ops[index].count++;
    in->unknown_ops += !g->nodes[n].schema && g->nodes[n].function < 0;
    in->quantised_ops += strstr(node->op_type, "QuantizeLinear") != NULL ||
                         strncmp(node->op_type, "QLinear", 7) == 0 ||
                         strstr(node->op_type, "Integer") != NULL;
  }
  qsort(in->ops, in->n_ops, sizeof *in->ops, more_first);
}

static void count_values(struct inventory *in, const struct graph *g) {
  for (int v = 0; v < g->n_values; v++) {
    int type = g->values[v].type.elem_type;
    in->float_values += type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    in->double_values += type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    in->narrow_values += type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
                         type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
    in->untyped_values += g->values[v].type.kind == TYPE_UNKNOWN;
    in->sparse += g->values[v].origin == ORIGIN_SPARSE;
  }
  for (int s = 0; s < g->n_scopes; s++) {
    in->subgraphs += g->scopes[s].kind == SCOPE_SUBGRAPH;
    in->functions += g->scopes[s].kind == SCOPE_FUNCTION;
    for (int i = 0; i < g->scopes[s].n_nodes; i++)
      in->unsorted = in->unsorted || g->scopes[s].nodes[i] != g->scopes[s].order[i];
  }
}

static enum status count_tensor(void *context, Onnx__TensorProto *t) {
  struct inventory *in = context;
  uint64_t count = 1;
  for (size_t i = 0; i < t->n_dims; i++)
    count *= t->dims[i] > 0 ? (uint64_t)t->dims[i] : 0;
  in->parameters += count;
  in->parameter_bytes += (count * tensor_element_bits(t->data_type) + 7) / 8;
  if (t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
    in->float_parameters += count;
  in->external_tensors +=
      t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  return STATUS_OK;
}

static void print_io(const struct graph *g, const char *what, const int *values, int count) {
  for (int i = 0; i < count; i++) {
    if (values[i] < 0)
      continue;
    const struct value *v = &g->values[values[i]];
    bool is_default = v->initializer != NULL && v->origin == ORIGIN_INPUT;
    if (!is_default)
      printf("%-12s %s: %s\n", what, v->name, tensor_type_name(v->type.elem_type));
  }
}

static void print_unusual(const struct inventory *in) {
  const struct {
    int count;
    const char *text;
  } notes[] = {
      {in->narrow_values, "values are float16 or bfloat16 already"},
      {in->double_values, "values are double: kept as they are"},
      {in->untyped_values, "values have no type that can be told: kept as they are"},
      {in->unknown_ops, "nodes have an operator that is not in the table: kept as they are"},
      {in->quantised_ops, "nodes are quantised: kept as they are"},
      {in->sparse, "sparse initializers"},
      {in->external_tensors, "tensors have external data"},
      {in->unsorted, "(1: yes) nodes are not in topological order: emitted sorted"},
  };
  for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
    if (notes[i].count)
      printf("unusual      %d %s\n", notes[i].count, notes[i].text);
}

static void print_text(const struct run *r, const struct inventory *in) {
  const struct graph *g = &r->graph;
  const Onnx__ModelProto *m = r->model.proto;
  printf("model        %s\n", r->settings->model);
  printf("sha256       %s\n", r->model.sha256);
  printf("bytes        %zu\n", r->model.size);
  printf("ir version   %" PRId64 ", from %s %s\n", m->ir_version,
         m->producer_name && m->producer_name[0] ? m->producer_name : "an unnamed producer",
         m->producer_version ? m->producer_version : "");
  for (size_t i = 0; i < m->n_opset_import; i++) {
    const char *domain = m->opset_import[i]->domain;
    printf("opset        %s %" PRId64 "\n", domain && domain[0] ? domain : "ai.onnx",
           m->opset_import[i]->version);
  }
  print_io(g, "input", g->scopes[0].inputs, g->scopes[0].n_inputs);
  print_io(g, "output", g->scopes[0].outputs, g->scopes[0].n_outputs);
  printf("nodes        %d, in %d subgraphs and %d local functions\n", g->n_nodes, in->subgraphs,
         in->functions);
  printf("values       %d, of which %d fp32\n", g->n_values, in->float_values);
  printf("parameters   %" PRIu64 " in %" PRIu64 " bytes, of which %" PRIu64 " fp32\n",
         in->parameters, in->parameter_bytes, in->float_parameters);
  print_unusual(in);
  for (size_t i = 0; i < in->n_ops; i++)
    printf("%-12s %5d %s%s%s\n", i ? "" : "operators", in->ops[i].count, in->ops[i].domain,
           in->ops[i].domain[0] ? ":" : "", in->ops[i].op);
}

static void print_json(const struct run *r, const struct inventory *in) {
  struct json_writer w = {.out = stdout, .inline_depth = 2};
  const Onnx__ModelProto *m = r->model.proto;
  json_object(&w, NULL);
  json_string(&w, "model", r->settings->model);
  json_string(&w, "sha256", r->model.sha256);
  json_integer(&w, "bytes", (int64_t)r->model.size);
  json_integer(&w, "ir_version", m->ir_version);
  json_string(&w, "producer", m->producer_name ? m->producer_name : "");
  json_object(&w, "opsets");
  for (size_t i = 0; i < m->n_opset_import; i++) {
    const char *domain = m->opset_import[i]->domain;
    json_integer(&w, domain && domain[0] ? domain : "ai.onnx", m->opset_import[i]->version);
  }
  json_end_object(&w);
  const struct {
    const char *key;
    int64_t value;
  } numbers[] = {
      {"nodes", r->graph.n_nodes},
      {"subgraphs", in->subgraphs},
      {"functions", in->functions},
      {"values", r->graph.n_values},
      {"fp32_values", in->float_values},
      {"narrow_values", in->narrow_values},
      {"double_values", in->double_values},
      {"untyped_values", in->untyped_values},
      {"unknown_operators", in->unknown_ops},
      {"quantised_nodes", in->quantised_ops},
      {"sparse_initializers", in->sparse},
      {"external_tensors", in->external_tensors},
      {"parameters", (int64_t)in->parameters},
      {"parameter_bytes", (int64_t)in->parameter_bytes},
      {"fp32_parameters", (int64_t)in->float_parameters},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    json_integer(&w, numbers[i].key, numbers[i].value);
  json_bool(&w, "sorted", !in->unsorted);
  json_array(&w, "operators");
  for (size_t i = 0; i < in->n_ops; i++) {
    json_object(&w, NULL);
    json_string(&w, "domain", in->ops[i].domain);
    json_string(&w, "op", in->ops[i].op);
    json_integer(&w, "count", in->ops[i].count);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
}

enum status command_inspect(struct run *r) {
  TRY(run_load_model(r));
  struct inventory in = {0};
  count_ops(&in, &r->graph, &r->arena);
  count_values(&in, &r->graph);
  TRY(model_each_tensor(r->model.proto, count_tensor, &in));
  if (r->settings->json)
    print_json(r, &in);
  else
    print_text(r, &in);
  return STATUS_OK;
}
