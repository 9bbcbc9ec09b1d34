// inspect: what is in a model, before anything is decided, on one screen. Needs no data and no
// engine.
#include "cmd.h"
#include "escape.h"
#include "external.h"
#include "inventory.h"
#include "json.h"
#include "tensor.h"
#include "units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

// What a screen has room for; --json has all.
enum { WIDTH = 100, MOST_VALUES = 12, MOST_FUNCTIONS = 6, MOST_FILES = 4, MOST_OPERATORS = 60 };

// ---- text ----

// A list with a label, broken into lines.
struct flow {
  const char *label;
  int column;  // 0: nothing is printed yet
};

enum { LABEL_WIDTH = 13 };

__attribute__((format(printf, 2, 3))) static void flow_item(struct flow *f, const char *format,
                                                            ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  int length = (int)strlen(text);
  if (f->column == 0) {
    printf("%-*s", LABEL_WIDTH, f->label);
    f->column = LABEL_WIDTH;
  } else if (f->column + 2 + length > WIDTH) {
    printf(",\n%*s", LABEL_WIDTH, "");
    f->column = LABEL_WIDTH;
  } else {
    printf(", ");
    f->column += 2;
  }
  escape_terminal(text, stdout);
  f->column += length;
}

static void flow_end(const struct flow *f) {
  if (f->column)
    printf("\n");
}

static const char *domain_name(const char *domain) {
  return domain && domain[0] ? domain : "ai.onnx";
}

static void print_head(const struct run *r) {
  const Onnx__ModelProto *m = r->model.proto;
  char bytes[UNITS_TEXT];
  printf("model        ");
  escape_terminal(r->settings->model, stdout);
  printf(": %d node%s, %s\n", r->graph.n_nodes, PLURAL(r->graph.n_nodes),
         units_bytes((double)r->model.size, bytes));
  printf("sha256       %s\n", r->model.sha256);
  bool named = m->producer_name && m->producer_name[0];
  bool versioned = m->producer_version && m->producer_version[0];
  printf("written by   ");
  escape_terminal(named ? m->producer_name : "an unnamed producer", stdout);
  printf("%s", versioned ? " " : "");
  escape_terminal(versioned ? m->producer_version : "", stdout);
  printf(", IR version %" PRId64 "\n", m->ir_version);
  for (size_t i = 0; i < m->n_metadata_props; i++)
    if (m->metadata_props[i]->key && strcmp(m->metadata_props[i]->key, "narrowcast") == 0) {
      printf("converted    by narrowcast ");
      escape_terminal(m->metadata_props[i]->value ? m->metadata_props[i]->value : "", stdout);
      printf("\n");
    }
  struct flow opsets = {.label = "opsets"};
  for (size_t i = 0; i < m->n_opset_import; i++)
    flow_item(&opsets, "%s %" PRId64, domain_name(m->opset_import[i]->domain),
              m->opset_import[i]->version);
  flow_end(&opsets);
}

// "[1, batch, ?]", of a tensor.
static void print_shape(const Onnx__TypeProto *type) {
  if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    return;
  if (!type->tensor_type->shape) {
    printf("shape not declared");
    return;
  }
  const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
  printf("[");
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    printf("%s", i ? ", " : "");
    if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
      printf("%" PRId64, dim->dim_value);
    else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
      escape_terminal(dim->dim_param[0] ? dim->dim_param : "?", stdout);
    else
      printf("?");
  }
  printf("]");
}

// Inputs or outputs of the model: not the defaults that older models list as inputs.
struct ends {
  const char *label;
  const int *values;
  int count;
  Onnx__ValueInfoProto **infos;
};

static struct ends ends_of(const struct graph *g, bool outputs) {
  const struct scope *s = &g->scopes[0];
  return outputs ? (struct ends){"outputs", s->outputs, s->n_outputs, s->graph->output}
                 : (struct ends){"inputs", s->inputs, s->n_inputs, s->graph->input};
}

static bool is_end(const struct graph *g, const struct ends *e, int i) {
  int v = e->values[i];
  return v >= 0 && !(g->values[v].origin == ORIGIN_INPUT && g->values[v].initializer &&
                     strcmp(e->label, "inputs") == 0);
}

static void print_ends(const struct graph *g, const struct ends *e) {
  int wanted = 0, shown = 0, width = 0;
  for (int i = 0; i < e->count; i++) {
    int length = is_end(g, e, i) ? (int)strlen(g->values[e->values[i]].name) : 0;
    width = length > width && length <= 40 ? length : width;
    wanted += is_end(g, e, i);
  }
  for (int i = 0; i < e->count && shown < MOST_VALUES; i++) {
    if (!is_end(g, e, i))
      continue;
    char type[TYPE_TEXT_SIZE];
    const struct value *v = &g->values[e->values[i]];
    printf("%-*s", LABEL_WIDTH, shown++ ? "" : e->label);
    escape_terminal(v->name, stdout);
    printf("%*s  %-8s ", (int)strlen(v->name) < width ? width - (int)strlen(v->name) : 0, "",
           type_text(v->type, type));
    print_shape(e->infos[i]->type);
    printf("\n");
  }
  if (wanted > shown)
    printf("%*sand %d more: --json lists all\n", LABEL_WIDTH, "", wanted - shown);
}

static void print_functions(const struct run *r, const struct inventory *in) {
  for (int i = 0; i < in->n_functions && i < MOST_FUNCTIONS; i++) {
    const struct scope *s = &r->graph.scopes[in->functions[i].scope];
    printf("%-*s", LABEL_WIDTH, i ? "" : "functions");
    escape_terminal(s->path + strlen("fn:"), stdout);
    printf(": %d node%s, called %d time%s\n", s->n_nodes, PLURAL(s->n_nodes),
           in->functions[i].calls, PLURAL(in->functions[i].calls));
  }
  if (in->n_functions > MOST_FUNCTIONS)
    printf("%*sand %d more\n", LABEL_WIDTH, "", in->n_functions - MOST_FUNCTIONS);
}

static void print_nodes(const struct run *r, const struct inventory *in) {
  const struct graph *g = &r->graph;
  struct flow nodes = {.label = "nodes"}, operators = {.label = "operators"};
  flow_item(&nodes, "%d in the main graph", g->scopes[0].n_nodes);
  if (in->subgraphs)
    flow_item(&nodes, "%d in %d subgraph%s", in->nodes_in_subgraphs, in->subgraphs,
              PLURAL(in->subgraphs));
  if (in->n_functions)
    flow_item(&nodes, "%d in %d local function%s", in->nodes_in_functions, in->n_functions,
              PLURAL(in->n_functions));
  flow_end(&nodes);
  for (size_t i = 0; i < in->n_ops && i < MOST_OPERATORS; i++)
    flow_item(&operators, "%d %.200s%s%.200s", in->ops[i].count, in->ops[i].domain,
              in->ops[i].domain[0] ? ":" : "", in->ops[i].op);
  if (in->n_ops > MOST_OPERATORS)
    flow_item(&operators, "and %zu other operator%s", in->n_ops - MOST_OPERATORS,
              PLURAL(in->n_ops - MOST_OPERATORS));
  flow_end(&operators);
  print_functions(r, in);
}

// Element types, by what there is most of; returns how many there are.
static int order_types(const uint64_t amounts[ELEM_TYPE_LAST + 1], int order[ELEM_TYPE_LAST + 1]) {
  int n = 0;
  for (int type = 0; type <= ELEM_TYPE_LAST; type++) {
    if (!amounts[type])
      continue;
    int at = n++;
    for (; at > 0 && amounts[order[at - 1]] < amounts[type]; at--)
      order[at] = order[at - 1];
    order[at] = type;
  }
  return n;
}

static void print_types(const struct inventory *in) {
  uint64_t amounts[ELEM_TYPE_LAST + 1];
  int order[ELEM_TYPE_LAST + 1];
  struct flow values = {.label = "values"};
  for (int type = 0; type <= ELEM_TYPE_LAST; type++)
    amounts[type] = (uint64_t)in->values[type];
  int n = order_types(amounts, order);
  for (int i = 0; i < n; i++)
    flow_item(&values, "%d %s", in->values[order[i]],
              order[i] ? tensor_type_name(order[i]) : "of no tensor type");
  flow_end(&values);
}

static void print_parameters(const struct run *r, const struct inventory *in) {
  uint64_t amounts[ELEM_TYPE_LAST + 1];
  int order[ELEM_TYPE_LAST + 1];
  char bytes[UNITS_TEXT];
  struct flow parameters = {.label = "parameters"};
  for (int type = 0; type <= ELEM_TYPE_LAST; type++)
    amounts[type] = in->parameters[type].elements;
  int n = order_types(amounts, order);
  for (int i = 0; i < n; i++) {
    const struct parameter_count *p = &in->parameters[order[i]];
    flow_item(&parameters, "%" PRIu64 " %s in %d tensor%s (%s)", p->elements,
              order[i] ? tensor_type_name(order[i]) : "others", p->tensors, PLURAL(p->tensors),
              units_bytes((double)p->bytes, bytes));
  }
  flow_end(&parameters);
  if (!in->external_tensors)
    return;
  const struct externals *e = r->model.externals;
  struct flow files = {.label = "external"};
  flow_item(&files, "data of %d tensor%s", in->external_tensors, PLURAL(in->external_tensors));
  for (size_t i = 0; e && i < e->count && i < MOST_FILES; i++)
    flow_item(&files, "%s (%s)", e->files[i].location,
              units_bytes((double)e->files[i].size, bytes));
  if (e && e->count > MOST_FILES)
    flow_item(&files, "and %zu more file%s", e->count - MOST_FILES, PLURAL(e->count - MOST_FILES));
  flow_end(&files);
}

static void print_odd(struct run *r, const struct inventory *in) {
  int shown = 0;
  for (int o = 0; o < ODD_COUNT; o++) {
    if (!in->odd[o].count)
      continue;
    printf("%-*s", LABEL_WIDTH, shown++ ? "" : "odd");
    escape_terminal(oddity_text(in, (enum oddity)o, &r->arena), stdout);
    printf("\n");
  }
}

static void print_text(struct run *r, const struct inventory *in) {
  const struct ends inputs = ends_of(&r->graph, false), outputs = ends_of(&r->graph, true);
  print_head(r);
  print_ends(&r->graph, &inputs);
  print_ends(&r->graph, &outputs);
  print_nodes(r, in);
  print_types(in);
  print_parameters(r, in);
  print_odd(r, in);
}

// ---- JSON ----

static void json_shape(struct json_writer *w, const Onnx__TypeProto *type) {
  if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type->shape)
    return;
  const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
  json_array(w, "shape");
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
      json_integer(w, NULL, dim->dim_value);
    else
      json_string(w, NULL,
                  dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                      ? dim->dim_param
                      : "");
  }
  json_end_array(w);
}

static void json_ends(struct json_writer *w, const struct graph *g, const struct ends *e) {
  json_array(w, e->label);
  for (int i = 0; i < e->count; i++) {
    if (!is_end(g, e, i))
      continue;
    char type[TYPE_TEXT_SIZE];
    const struct value *v = &g->values[e->values[i]];
    json_object(w, NULL);
    json_string(w, "name", v->name);
    json_string(w, "type", type_text(v->type, type));
    json_shape(w, e->infos[i]->type);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_head(const struct run *r, struct json_writer *w) {
  const Onnx__ModelProto *m = r->model.proto;
  json_string(w, "model", r->settings->model);
  json_string(w, "sha256", r->model.sha256);
  json_integer(w, "bytes", (int64_t)r->model.size);
  json_integer(w, "ir_version", m->ir_version);
  json_string(w, "producer", m->producer_name ? m->producer_name : "");
  json_string(w, "producer_version", m->producer_version ? m->producer_version : "");
  json_object(w, "opsets");
  for (size_t i = 0; i < m->n_opset_import; i++)
    json_integer(w, domain_name(m->opset_import[i]->domain), m->opset_import[i]->version);
  json_end_object(w);
}

static void json_counts(const struct run *r, const struct inventory *in, struct json_writer *w) {
  const struct odd *odd = in->odd;
  const struct {
    const char *key;
    int64_t value;
  } numbers[] = {
      {"nodes", r->graph.n_nodes},
      {"subgraphs", in->subgraphs},
      {"values", r->graph.n_values},
      {"fp32_values", in->values[ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT]},
      {"narrow_values", odd[ODD_NARROW].count},
      {"double_values", odd[ODD_DOUBLE].count},
      {"untyped_values", odd[ODD_UNTYPED].count},
      {"unknown_operators", odd[ODD_UNKNOWN_OPERATOR].count},
      {"quantised_nodes", odd[ODD_QUANTISED].count},
      {"sparse_initializers", odd[ODD_SPARSE].count},
      {"external_tensors", in->external_tensors},
      {"parameters", (int64_t)in->all_parameters.elements},
      {"parameter_bytes", (int64_t)in->all_parameters.bytes},
      {"fp32_parameters", (int64_t)in->parameters[ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT].elements},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    json_integer(w, numbers[i].key, numbers[i].value);
  json_bool(w, "sorted", odd[ODD_UNSORTED].count == 0);
}

static void json_parameters(const struct inventory *in, struct json_writer *w) {
  json_array(w, "parameters_by_type");
  for (int type = 0; type <= ELEM_TYPE_LAST; type++) {
    const struct parameter_count *p = &in->parameters[type];
    if (!p->tensors)
      continue;
    json_object(w, NULL);
    json_string(w, "type", tensor_type_name(type));
    json_integer(w, "tensors", p->tensors);
    json_integer(w, "elements", (int64_t)p->elements);
    json_integer(w, "bytes", (int64_t)p->bytes);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_operators(const struct inventory *in, struct json_writer *w) {
  json_array(w, "operators");
  for (size_t i = 0; i < in->n_ops; i++) {
    json_object(w, NULL);
    json_string(w, "domain", in->ops[i].domain);
    json_string(w, "op", in->ops[i].op);
    json_integer(w, "count", in->ops[i].count);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_functions(const struct run *r, const struct inventory *in, struct json_writer *w) {
  json_integer(w, "functions", in->n_functions);
  json_array(w, "function_list");
  for (int i = 0; i < in->n_functions; i++) {
    const struct scope *s = &r->graph.scopes[in->functions[i].scope];
    json_object(w, NULL);
    json_string(w, "name", s->path + strlen("fn:"));
    json_integer(w, "nodes", s->n_nodes);
    json_integer(w, "calls", in->functions[i].calls);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_files(const struct run *r, struct json_writer *w) {
  const struct externals *e = r->model.externals;
  json_array(w, "external_files");
  for (size_t i = 0; e && i < e->count; i++) {
    json_object(w, NULL);
    json_string(w, "location", e->files[i].location);
    json_integer(w, "bytes", (int64_t)e->files[i].size);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_odd(struct run *r, const struct inventory *in, struct json_writer *w) {
  json_array(w, "odd");
  for (int o = 0; o < ODD_COUNT; o++) {
    if (!in->odd[o].count)
      continue;
    json_object(w, NULL);
    json_string(w, "id", oddity_name((enum oddity)o));
    json_integer(w, "count", in->odd[o].count);
    json_string(w, "example", in->odd[o].example);
    json_string(w, "text", oddity_text(in, (enum oddity)o, &r->arena));
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(struct run *r, const struct inventory *in) {
  struct json_writer w = {.out = stdout, .inline_depth = 2};
  const struct ends inputs = ends_of(&r->graph, false), outputs = ends_of(&r->graph, true);
  json_object(&w, NULL);
  json_head(r, &w);
  json_ends(&w, &r->graph, &inputs);
  json_ends(&w, &r->graph, &outputs);
  json_counts(r, in, &w);
  json_functions(r, in, &w);
  json_parameters(in, &w);
  json_files(r, &w);
  json_operators(in, &w);
  json_odd(r, in, &w);
  json_end_object(&w);
}

enum status command_inspect(struct run *r) {
  TRY(run_load_model(r));
  struct inventory in;
  TRY(inventory_take(&in, &r->graph, &r->arena, r->diag));
  if (r->settings->json)
    print_json(r, &in);
  else
    print_text(r, &in);
  return STATUS_OK;
}
