// Models for tests: see support_graph.h. A fault in a description fails the test.
#include "support_graph.h"

#include "types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

// Appends to a list that only this function fills: it doubles at powers of two.
static void *append(struct build *b, void *list, size_t *count, void *item) {
  void **place = list;
  if ((*count & (*count - 1)) == 0) {
    place = arena_array(b->arena, *count ? *count * 2 : 1, sizeof *place);
    if (*count)
      memcpy(place, list, *count * sizeof *place);
  }
  place[(*count)++] = item;
  return place;
}

#define NEW(b, variable, init)                                                                     \
  do {                                                                                             \
    (variable) = arena_alloc((b)->arena, sizeof *(variable));                                      \
    init(variable);                                                                                \
  } while (0)

static char **split_names(struct build *b, const char *names, size_t *count) {
  char **list = NULL;
  *count = 0;
  while (*names) {
    size_t length = strcspn(names, " ");
    char *name = arena_printf(b->arena, "%.*s", (int)length, names);
    if (strcmp(name, "_") == 0)
      name[0] = '\0';
    if (length)
      list = append(b, list, count, name);
    names += length;
    names += *names == ' ';
  }
  return list;
}

// ---- types ----

static int element_type(const char *name, size_t length) {
  static const char *const names[] = {
      "undefined",      "float",      "uint8",          "int8",       "uint16",   "int16",
      "int32",          "int64",      "string",         "bool",       "float16",  "double",
      "uint32",         "uint64",     "complex64",      "complex128", "bfloat16", "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",     "float4e2m1"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
      return (int)i;
  if (length && *name >= '0' && *name <= '9')
    return atoi(name);  // any number, for types that do not exist
  fail_msg("no element type: %s", name);
  return 0;
}

static Onnx__TensorShapeProto *parse_shape(struct build *b, const char *text) {
  Onnx__TensorShapeProto *shape;
  NEW(b, shape, onnx__tensor_shape_proto__init);
  while (*text && *text != ']') {
    Onnx__TensorShapeProto__Dimension *dim;
    NEW(b, dim, onnx__tensor_shape_proto__dimension__init);
    size_t length = strcspn(text, ",]");
    if (*text == '-' || (*text >= '0' && *text <= '9')) {
      dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
      dim->dim_value = strtoll(text, NULL, 10);
    } else {
      dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
      dim->dim_param = arena_printf(b->arena, "%.*s", (int)length, text);
    }
    shape->dim = append(b, shape->dim, &shape->n_dim, dim);
    text += length;
    text += *text == ',';
  }
  return shape;
}

static Onnx__TypeProto *parse_type(struct build *b, const char *text) {
  if (!*text)
    return NULL;
  Onnx__TypeProto *t;
  NEW(b, t, onnx__type_proto__init);
  if (strncmp(text, "seq(", 4) == 0) {
    t->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    NEW(b, t->sequence_type, onnx__type_proto__sequence__init);
    t->sequence_type->elem_type = parse_type(b, text + 4);
  } else if (strncmp(text, "optional(", 9) == 0) {
    t->value_case = ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    NEW(b, t->optional_type, onnx__type_proto__optional__init);
    t->optional_type->elem_type = parse_type(b, text + 9);
  } else if (strncmp(text, "map(", 4) == 0) {
    size_t key = strcspn(text + 4, ",");
    t->value_case = ONNX__TYPE_PROTO__VALUE_MAP_TYPE;
    NEW(b, t->map_type, onnx__type_proto__map__init);
    t->map_type->has_key_type = 1;
    t->map_type->key_type = element_type(text + 4, key);
    t->map_type->value_type = parse_type(b, text + 4 + key + 1);
  } else {
    size_t length = strcspn(text, "[)");
    t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    NEW(b, t->tensor_type, onnx__type_proto__tensor__init);
    t->tensor_type->has_elem_type = 1;
    t->tensor_type->elem_type = element_type(text, length);
    if (text[length] == '[')
      t->tensor_type->shape = parse_shape(b, text + length + 1);
  }
  return t;
}

// ---- graphs ----

static Onnx__GraphProto *graph(struct build *b) {
  assert_non_null(b->graphs[b->depth]);
  return b->graphs[b->depth];
}

void build_begin(struct build *b, struct arena *arena, int opset) {
  *b = (struct build){.arena = arena};
  NEW(b, b->model, onnx__model_proto__init);
  b->model->has_ir_version = 1;
  b->model->ir_version = 10;
  NEW(b, b->model->graph, onnx__graph_proto__init);
  b->model->graph->name = arena_strdup(arena, "g");
  b->graphs[0] = b->model->graph;
  build_opset(b, "", opset);
}

void build_opset(struct build *b, const char *domain, int version) {
  Onnx__OperatorSetIdProto *import;
  NEW(b, import, onnx__operator_set_id_proto__init);
  import->domain = arena_strdup(b->arena, domain);
  import->has_version = 1;
  import->version = version;
  Onnx__FunctionProto *f = b->functions[b->depth];
  if (f)
    f->opset_import = append(b, f->opset_import, &f->n_opset_import, import);
  else
    b->model->opset_import = append(b, b->model->opset_import, &b->model->n_opset_import, import);
}

static Onnx__ValueInfoProto *value_info(struct build *b, const char *name, const char *type) {
  Onnx__ValueInfoProto *info;
  NEW(b, info, onnx__value_info_proto__init);
  info->name = arena_strdup(b->arena, name);
  info->type = parse_type(b, type);
  return info;
}

void build_input(struct build *b, const char *name, const char *type) {
  Onnx__GraphProto *g = graph(b);
  g->input = append(b, g->input, &g->n_input, value_info(b, name, type));
}

void build_output(struct build *b, const char *name, const char *type) {
  Onnx__GraphProto *g = graph(b);
  g->output = append(b, g->output, &g->n_output, value_info(b, name, type));
}

void build_value_info(struct build *b, const char *name, const char *type) {
  Onnx__ValueInfoProto *info = value_info(b, name, type);
  Onnx__FunctionProto *f = b->functions[b->depth];
  if (f)
    f->value_info = append(b, f->value_info, &f->n_value_info, info);
  else
    graph(b)->value_info = append(b, graph(b)->value_info, &graph(b)->n_value_info, info);
}

// ---- tensors ----

Onnx__TensorProto *build_tensor(struct build *b, const char *name, const char *type,
                                const void *data, size_t size) {
  Onnx__TensorProto *t;
  NEW(b, t, onnx__tensor_proto__init);
  const char *shape = strchr(type, '[');
  assert_non_null(shape);
  t->has_data_type = 1;
  t->data_type = element_type(type, (size_t)(shape - type));
  Onnx__TensorShapeProto *dims = parse_shape(b, shape + 1);
  t->n_dims = dims->n_dim;
  t->dims = arena_array(b->arena, t->n_dims, sizeof *t->dims);
  for (size_t i = 0; i < t->n_dims; i++)
    t->dims[i] = dims->dim[i]->dim_value;
  t->name = *name ? arena_strdup(b->arena, name) : NULL;
  t->has_raw_data = 1;
  t->raw_data.len = size;
  t->raw_data.data = arena_alloc(b->arena, size);
  if (data && size)
    memcpy(t->raw_data.data, data, size);
  return t;
}

Onnx__TensorProto *build_raw(struct build *b, const char *name, const char *type, const void *data,
                             size_t size) {
  Onnx__TensorProto *t = build_tensor(b, name, type, data, size);
  graph(b)->initializer = append(b, graph(b)->initializer, &graph(b)->n_initializer, t);
  return t;
}

static size_t elements(struct build *b, const char *type) {
  const Onnx__TensorProto *t = build_tensor(b, "", type, NULL, 0);
  size_t count = 1;
  for (size_t i = 0; i < t->n_dims; i++)
    count *= (size_t)t->dims[i];
  return count;
}

Onnx__TensorProto *build_floats(struct build *b, const char *name, const char *type,
                                const float *x) {
  return build_raw(b, name, type, x, elements(b, type) * sizeof *x);
}

Onnx__TensorProto *build_int64s(struct build *b, const char *name, const char *type,
                                const int64_t *x) {
  return build_raw(b, name, type, x, elements(b, type) * sizeof *x);
}

void build_sparse(struct build *b, const char *name, float x, int64_t size) {
  Onnx__SparseTensorProto *s;
  const int64_t index = 0;
  NEW(b, s, onnx__sparse_tensor_proto__init);
  s->values = build_tensor(b, name, "float[1]", &x, sizeof x);
  s->indices = build_tensor(b, "", "int64[1]", &index, sizeof index);
  s->n_dims = 1;
  s->dims = arena_array(b->arena, 1, sizeof *s->dims);
  s->dims[0] = size;
  Onnx__GraphProto *g = graph(b);
  g->sparse_initializer = append(b, g->sparse_initializer, &g->n_sparse_initializer, s);
}

// ---- nodes ----

Onnx__NodeProto *build_node(struct build *b, const char *op, const char *inputs,
                            const char *outputs) {
  Onnx__NodeProto *n;
  NEW(b, n, onnx__node_proto__init);
  const char *dot = strrchr(op, '.');
  n->op_type = arena_strdup(b->arena, dot ? dot + 1 : op);
  if (dot)
    n->domain = arena_printf(b->arena, "%.*s", (int)(dot - op), op);
  n->input = split_names(b, inputs, &n->n_input);
  n->output = split_names(b, outputs, &n->n_output);
  Onnx__FunctionProto *f = b->functions[b->depth];
  if (f)
    f->node = append(b, f->node, &f->n_node, n);
  else
    graph(b)->node = append(b, graph(b)->node, &graph(b)->n_node, n);
  return n;
}

static Onnx__AttributeProto *attribute(struct build *b, Onnx__NodeProto *n, const char *name,
                                       Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *a;
  NEW(b, a, onnx__attribute_proto__init);
  a->name = arena_strdup(b->arena, name);
  a->has_type = 1;
  a->type = type;
  n->attribute = append(b, n->attribute, &n->n_attribute, a);
  return a;
}

Onnx__AttributeProto *build_int(struct build *b, Onnx__NodeProto *n, const char *name, int64_t i) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  a->has_i = 1;
  a->i = i;
  return a;
}

Onnx__AttributeProto *build_float(struct build *b, Onnx__NodeProto *n, const char *name, float f) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  a->has_f = 1;
  a->f = f;
  return a;
}

Onnx__AttributeProto *build_string(struct build *b, Onnx__NodeProto *n, const char *name,
                                   const char *s) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  a->has_s = 1;
  a->s.len = strlen(s);
  a->s.data = (uint8_t *)arena_strdup(b->arena, s);
  return a;
}

Onnx__AttributeProto *build_ints(struct build *b, Onnx__NodeProto *n, const char *name,
                                 const int64_t *x, size_t count) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  a->n_ints = count;
  a->ints = arena_array(b->arena, count, sizeof *a->ints);
  if (count)
    memcpy(a->ints, x, count * sizeof *x);
  return a;
}

Onnx__AttributeProto *build_float_list(struct build *b, Onnx__NodeProto *n, const char *name,
                                       const float *x, size_t count) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
  a->n_floats = count;
  a->floats = arena_array(b->arena, count, sizeof *a->floats);
  if (count)
    memcpy(a->floats, x, count * sizeof *x);
  return a;
}

Onnx__AttributeProto *build_tensor_attribute(struct build *b, Onnx__NodeProto *n, const char *name,
                                             Onnx__TensorProto *t) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
  a->t = t;
  return a;
}

Onnx__AttributeProto *build_reference(struct build *b, Onnx__NodeProto *n, const char *name,
                                      const char *reference,
                                      Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *a = attribute(b, n, name, type);
  a->ref_attr_name = arena_strdup(b->arena, reference);
  return a;
}

void build_graph_begin(struct build *b, Onnx__NodeProto *n, const char *name) {
  assert_true(b->depth + 1 < BUILD_DEPTH);
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
  NEW(b, a->g, onnx__graph_proto__init);
  a->g->name = a->name;
  b->graphs[++b->depth] = a->g;
  b->functions[b->depth] = NULL;
}

void build_graph_end(struct build *b) {
  assert_true(b->depth > 0);
  b->depth--;
}

// ---- functions and the whole ----

Onnx__FunctionProto *build_function_begin(struct build *b, const char *domain, const char *name,
                                          const char *inputs, const char *outputs,
                                          const char *attributes) {
  Onnx__FunctionProto *f;
  assert_int_equal(b->depth, 0);
  NEW(b, f, onnx__function_proto__init);
  f->domain = arena_strdup(b->arena, domain);
  f->name = arena_strdup(b->arena, name);
  f->input = split_names(b, inputs, &f->n_input);
  f->output = split_names(b, outputs, &f->n_output);
  f->attribute = split_names(b, attributes, &f->n_attribute);
  b->model->functions = append(b, b->model->functions, &b->model->n_functions, f);
  b->graphs[++b->depth] = NULL;
  b->functions[b->depth] = f;
  build_opset(b, "", (int)b->model->opset_import[0]->version);
  return f;
}

void build_function_end(struct build *b) {
  assert_int_equal(b->depth, 1);
  b->depth--;
}

void build_model(struct build *b, struct model *m) {
  struct diag d = {0};
  uint8_t *bytes;
  size_t size;
  assert_int_equal(b->depth, 0);
  if (model_pack(b->model, b->arena, &bytes, &size, &d) != STATUS_OK ||
      model_from_bytes(m, b->arena, bytes, size, "built.onnx", NULL, &d) != STATUS_OK)
    fail_msg("%s", d.message);
}

static bool same_ids(const int *a, int n_a, const int *b, int n_b) {
  return n_a == n_b && (n_a == 0 || memcmp(a, b, (size_t)n_a * sizeof *a) == 0);
}

static bool same_value(const struct value *a, const struct value *b) {
  bool same = strcmp(a->name, b->name) == 0 && a->scope == b->scope && a->origin == b->origin &&
              a->producer == b->producer && a->output == b->output &&
              a->initializer == b->initializer && a->sparse_default == b->sparse_default &&
              type_equal(a->type, b->type) && a->n_uses == b->n_uses &&
              a->is_output == b->is_output && a->omitted == b->omitted &&
              a->trained == b->trained && type_equal(a->declared, b->declared);
  for (int u = 0; same && u < a->n_uses; u++)
    same = a->uses[u].node == b->uses[u].node && a->uses[u].index == b->uses[u].index;
  return same;
}

static bool same_node(const struct node *a, const struct node *b) {
  return a->proto == b->proto && strcmp(a->op, b->op) == 0 && a->scope == b->scope &&
         a->index == b->index && a->named == b->named && a->schema == b->schema &&
         a->function == b->function && same_ids(a->inputs, a->n_inputs, b->inputs, b->n_inputs) &&
         same_ids(a->outputs, a->n_outputs, b->outputs, b->n_outputs) &&
         same_ids(a->bodies, a->n_bodies, b->bodies, b->n_bodies);
}

static bool same_scope(const struct scope *a, const struct scope *b) {
  size_t n_infos = a->graph ? a->graph->n_value_info : 0;
  return a->kind == b->kind && a->graph == b->graph && a->function == b->function &&
         a->parent == b->parent && a->parent_node == b->parent_node && a->root == b->root &&
         strcmp(a->path, b->path) == 0 && same_ids(a->nodes, a->n_nodes, b->nodes, b->n_nodes) &&
         same_ids(a->order, a->n_nodes, b->order, b->n_nodes) &&
         same_ids(a->inputs, a->n_inputs, b->inputs, b->n_inputs) &&
         same_ids(a->outputs, a->n_outputs, b->outputs, b->n_outputs) &&
         same_ids(a->infos, (int)n_infos, b->infos, (int)n_infos) &&
         a->polymorphic == b->polymorphic;
}

const char *index_difference(const struct graph *a, const struct graph *b) {
  if (a->n_scopes != b->n_scopes || a->n_nodes != b->n_nodes || a->n_values != b->n_values)
    return "the number of scopes, nodes or values";
  if (a->model != b->model || a->n_unfolded != b->n_unfolded || a->all_listed != b->all_listed)
    return "what is said of the whole";
  for (int s = 0; s < a->n_scopes; s++)
    if (!same_scope(&a->scopes[s], &b->scopes[s]))
      return a->scopes[s].path;
  for (int n = 0; n < a->n_nodes; n++)
    if (!same_node(&a->nodes[n], &b->nodes[n]))
      return graph_node_label(a, n);
  for (int v = 0; v < a->n_values; v++)
    if (!same_value(&a->values[v], &b->values[v]))
      return graph_value_label(a, v);
  return NULL;
}
