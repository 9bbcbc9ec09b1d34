// Raises the opset. Versions of operators differ from opset to opset in three ways: the new one
// takes more types, or has more attributes and inputs whose absence means what it did (nothing to
// do; this is the usual case); it wants as an input what was an attribute, or under another name
// (an adapter below); or it means something else (an adapter that says the old meaning, or a
// refusal). The table has every change of the last two kinds between RAISE_OPSET_FROM and
// RAISE_OPSET_MOST; that none is missing was checked against all versions of all schemas of ONNX
// 1.23 and against its list of changes (docs/Changelog.md), and tests run both sides.
#include "raise_opset.h"

#include "proto.h"
#include "round.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

enum { FIRST_SUFFIX = 2 };

struct raising {
  struct model *model;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
  int to;
  struct map names;  // of all values and nodes, also those made here
  // The new list of nodes of a scope.
  Onnx__NodeProto **list;
  size_t count, capacity;
};

// The node that is adapted, and the row that says how.
struct adapter;
struct subject {
  int id;
  Onnx__NodeProto *node;
  const struct adapter *how;
};

struct adapter {
  const char *op;
  int since;                                                         // the version that changed it
  enum status (*adapt)(struct raising *r, const struct subject *s);  // NULL: there is no way
  const char *name;  // of an attribute; or why there is no way
  int input;         // that the attribute becomes
};

static enum status refuse(struct raising *r, const struct subject *s, const char *why) {
  diag_at(r->diag, r->model->path, graph_node_label(r->graph, s->id), NULL);
  return diag_fail(r->diag, STATUS_MODEL, "the opset cannot be raised to %d: %s of opset %d %s",
                   r->to, s->how->op, s->how->since, why);
}

// ---- changing nodes ----

static const char *unused_name(struct raising *r, const char *wanted) {
  const char *name = wanted;
  int next = map_get(&r->names, 0, wanted);
  if (next >= 0) {
    do
      name = arena_printf(r->arena, "%s_%d", wanted, next++);
    while (map_get(&r->names, 0, name) >= 0);
    map_put(&r->names, 0, wanted, next);
  }
  map_put(&r->names, 0, name, FIRST_SUFFIX);
  return name;
}

static const char *output_name(const struct subject *s) {
  for (size_t k = 0; k < s->node->n_output; k++)
    if (s->node->output[k][0])
      return s->node->output[k];
  return "";
}

static void append(struct raising *r, Onnx__NodeProto *node) {
  r->list = arena_grow(r->arena, r->list, &r->capacity, r->count + 1, sizeof *r->list);
  r->list[r->count++] = node;
}

// Removes the attribute; *out is NULL if it is not there. One that refers to an attribute of the
// function around it has no value to move.
static enum status take_attribute(struct raising *r, const struct subject *s, const char *name,
                                  Onnx__AttributeProto **out) {
  Onnx__NodeProto *node = s->node;
  *out = node_attribute(node, name);
  if (!*out)
    return STATUS_OK;
  if ((*out)->ref_attr_name && (*out)->ref_attr_name[0])
    return refuse(r, s, "wants as an input what is an attribute of the function here");
  Onnx__AttributeProto **kept = arena_array(r->arena, node->n_attribute, sizeof *kept);
  size_t count = 0;
  for (size_t i = 0; i < node->n_attribute; i++)
    if (node->attribute[i] != *out)
      kept[count++] = node->attribute[i];
  node->attribute = kept;
  node->n_attribute = count;
  return STATUS_OK;
}

static void set_input(struct raising *r, const struct subject *s, size_t k, const char *name) {
  Onnx__NodeProto *node = s->node;
  size_t size = k + 1 > node->n_input ? k + 1 : node->n_input;
  char **inputs = arena_array(r->arena, size, sizeof *inputs);
  for (size_t i = 0; i < size; i++)
    inputs[i] = i < node->n_input ? node->input[i] : arena_strdup(r->arena, "");
  inputs[k] = arena_strdup(r->arena, name);
  node->input = inputs;
  node->n_input = size;
}

// A Constant node in front of the subject; the name of what it gives.
static const char *add_constant(struct raising *r, const struct subject *s, const char *what,
                                Onnx__TensorProto *value) {
  const char *name = unused_name(r, arena_printf(r->arena, "%s__%s", output_name(s), what));
  Onnx__NodeProto *node = proto_node(r->arena, "Constant", "", 0, 1);
  node->output[0] = arena_strdup(r->arena, name);
  node->name = arena_strdup(r->arena, name);
  proto_add_tensor(r->arena, node, "value", value);
  append(r, node);
  return name;
}

static void set_ints(struct raising *r, const struct subject *s, size_t k, const char *what,
                     const int64_t *values, size_t n, bool scalar) {
  int64_t *copy = arena_array(r->arena, n, sizeof *copy);
  if (n)
    memcpy(copy, values, n * sizeof *copy);
  Onnx__TensorProto *t =
      tensor_new(r->arena, NULL, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, scalar ? 0 : 1,
                 (const int64_t[]){(int64_t)n}, (const uint8_t *)copy, n * sizeof *copy);
  set_input(r, s, k, add_constant(r, s, what, t));
}

// A scalar of the element type of the subject's first input.
static enum status set_scalar(struct raising *r, const struct subject *s, size_t k,
                              const char *what, float value) {
  int v = r->graph->nodes[s->id].inputs[0];
  const struct format *f = v >= 0 ? format_from_onnx(r->graph->values[v].type.elem_type) : NULL;
  if (!f || (f->id != FORMAT_FP64 && f->stored_bits < 16))
    return refuse(r, s, "wants a value as an input, whose type is not known here");
  uint8_t *data = arena_alloc(r->arena, sizeof(double));
  double wide = value;
  struct round_mode mode = {.format = f};
  if (f->id == FORMAT_FP64)
    memcpy(data, &wide, sizeof wide);
  else
    round_encode_array(&mode, &value, data, 1);
  Onnx__TensorProto *t = tensor_new(r->arena, NULL, f->onnx_type, 0, (const int64_t[]){0}, data,
                                    (size_t)f->stored_bits / 8);
  set_input(r, s, k, add_constant(r, s, what, t));
  return STATUS_OK;
}

// ---- adapters ----

static enum status ints_to_input(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *ints;
  TRY(take_attribute(r, s, s->how->name, &ints));
  if (ints && ints->n_ints)  // no axes: all of them, as without the input
    set_ints(r, s, (size_t)s->how->input, s->how->name, ints->ints, ints->n_ints, false);
  return STATUS_OK;
}

static enum status adapt_pad(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *pads, *value;
  TRY(take_attribute(r, s, "pads", &pads));
  TRY(take_attribute(r, s, "value", &value));
  set_ints(r, s, 1, "pads", pads ? pads->ints : NULL, pads ? pads->n_ints : 0, false);
  if (value && value->f != 0)
    return set_scalar(r, s, 2, "value", value->f);
  return STATUS_OK;
}

static enum status adapt_clip(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *least, *most;
  TRY(take_attribute(r, s, "min", &least));
  TRY(take_attribute(r, s, "max", &most));
  if (least)
    TRY(set_scalar(r, s, 1, "min", least->f));
  if (most)
    TRY(set_scalar(r, s, 2, "max", most->f));
  return STATUS_OK;
}

static enum status adapt_slice(struct raising *r, const struct subject *s) {
  static const char *const names[] = {"starts", "ends", "axes"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    Onnx__AttributeProto *ints;
    TRY(take_attribute(r, s, names[i], &ints));
    if (ints)
      set_ints(r, s, i + 1, names[i], ints->ints, ints->n_ints, false);
  }
  return STATUS_OK;
}

static enum status adapt_top_k(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *k;
  TRY(take_attribute(r, s, "k", &k));
  if (!k)
    return refuse(r, s, "wants k, which is missing here");
  set_ints(r, s, 1, "k", &k->i, 1, false);
  return STATUS_OK;
}

static enum status adapt_split_sizes(struct raising *r, const struct subject *s) {
  if (s->node->n_input < 2 || !s->node->input[1][0])
    proto_add_int(r->arena, s->node, "num_outputs", (int64_t)s->node->n_output);
  return STATUS_OK;
}

// The mask became boolean; one that nobody reads can go.
static enum status adapt_dropout_mask(struct raising *r, const struct subject *s) {
  const struct node *node = &r->graph->nodes[s->id];
  if (node->n_outputs > 1 && node->outputs[1] >= 0) {
    if (r->graph->values[node->outputs[1]].n_uses)
      return refuse(r, s, "gives its mask in another type");
    s->node->n_output = 1;
  }
  return STATUS_OK;
}

static enum status adapt_dropout_ratio(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *ratio;
  TRY(take_attribute(r, s, "ratio", &ratio));
  return ratio ? set_scalar(r, s, 1, "ratio", ratio->f) : STATUS_OK;
}

static enum status adapt_spatial(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *spatial;
  TRY(take_attribute(r, s, "spatial", &spatial));
  return spatial && spatial->i != 1 ? refuse(r, s, "has statistics per channel only") : STATUS_OK;
}

static enum status adapt_batch_outputs(struct raising *r, const struct subject *s) {
  for (size_t k = 1; k < s->node->n_output; k++)
    if (s->node->output[k][0])
      return refuse(r, s, "gives other statistics in training");
  return STATUS_OK;
}

static enum status adapt_upsample_scales(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *scales;
  TRY(take_attribute(r, s, "scales", &scales));
  if (!scales)
    return refuse(r, s, "wants scales, which are missing here");
  Onnx__TensorProto *t =
      tensor_new(r->arena, NULL, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1,
                 (const int64_t[]){(int64_t)scales->n_floats}, (const uint8_t *)scales->floats,
                 scales->n_floats * sizeof *scales->floats);
  set_input(r, s, 1, add_constant(r, s, "scales", t));
  return STATUS_OK;
}

static enum status rename_to_resize(struct raising *r, const struct subject *s) {
  s->node->op_type = arena_strdup(r->arena, "Resize");
  return STATUS_OK;
}

static enum status rename_to_scatter_elements(struct raising *r, const struct subject *s) {
  s->node->op_type = arena_strdup(r->arena, "ScatterElements");
  return STATUS_OK;
}

// The constant tensor that input k is, of the model or made here just now; NULL if it is none.
static const Onnx__TensorProto *constant_input(struct raising *r, const struct subject *s,
                                               size_t k) {
  const char *name = k < s->node->n_input ? s->node->input[k] : "";
  for (size_t i = r->count; i > 0 && node_is(r->list[i - 1], "Constant"); i--)
    if (strcmp(r->list[i - 1]->output[0], name) == 0)
      return r->list[i - 1]->attribute[0]->t;
  int v = graph_lookup(r->graph, r->graph->nodes[s->id].scope, name);
  return v >= 0 ? graph_constant(r->graph, v) : NULL;
}

static enum status enlarges(struct raising *r, const struct subject *s, bool *out) {
  const Onnx__TensorProto *scales = constant_input(r, s, 1);
  struct tensor t;
  enum { MOST_DIMS = 32 };
  float values[MOST_DIMS];
  *out = false;
  if (!scales)
    return STATUS_OK;
  TRY(tensor_read(r->model, scales, r->arena, &t, r->diag));
  if (t.count > MOST_DIMS || !tensor_to_float(&t, values))
    return STATUS_OK;
  *out = true;
  for (uint64_t i = 0; i < t.count; i++)
    *out = *out && values[i] >= 1;
  return STATUS_OK;
}

// Pixel x of the result is pixel x / scale of the source, rounded down; which pixel is nearest
// where an image shrinks, opset 10 did not say.
static enum status adapt_resize(struct raising *r, const struct subject *s) {
  const Onnx__AttributeProto *mode = node_attribute(s->node, "mode");
  bool nearest = !mode || (mode->s.len == 7 && memcmp(mode->s.data, "nearest", 7) == 0);
  bool larger;
  TRY(enlarges(r, s, &larger));
  if (nearest && !larger)
    return refuse(r, s, "takes another nearest pixel where an image shrinks");
  if (s->node->n_input < 2)
    return refuse(r, s, "wants scales, which are missing here");
  const char *scales = s->node->input[1];
  set_input(r, s, 1, "");
  set_input(r, s, 2, scales);
  proto_add_string(r->arena, s->node, "coordinate_transformation_mode", "asymmetric");
  if (nearest)
    proto_add_string(r->arena, s->node, "nearest_mode", "floor");
  return STATUS_OK;
}

static bool attribute_says(const struct subject *s, const char *name, const char *text) {
  const Onnx__AttributeProto *attribute = node_attribute(s->node, name);
  return attribute && attribute->s.len == strlen(text) &&
         memcmp(attribute->s.data, text, attribute->s.len) == 0;
}

static enum status adapt_resize_modes(struct raising *r, const struct subject *s) {
  if (attribute_says(s, "coordinate_transformation_mode", "tf_half_pixel_for_nn"))
    return refuse(r, s, "has no coordinates tf_half_pixel_for_nn");
  return STATUS_OK;
}

static enum status adapt_roi_align(struct raising *r, const struct subject *s) {
  proto_add_string(r->arena, s->node, "coordinate_transformation_mode", "output_half_pixel");
  return STATUS_OK;
}

static enum status adapt_grid_sample(struct raising *r, const struct subject *s) {
  const char *mode = attribute_says(s, "mode", "bilinear")  ? "linear"
                     : attribute_says(s, "mode", "bicubic") ? "cubic"
                                                            : NULL;
  Onnx__AttributeProto *old;
  if (mode) {
    TRY(take_attribute(r, s, "mode", &old));
    proto_add_string(r->arena, s->node, "mode", mode);
  }
  return STATUS_OK;
}

static enum status adapt_dft(struct raising *r, const struct subject *s) {
  static const int64_t before = 1;  // the default, which changed
  Onnx__AttributeProto *axis;
  TRY(take_attribute(r, s, "axis", &axis));
  set_ints(r, s, 2, "axis", axis ? &axis->i : &before, 1, true);
  return STATUS_OK;
}

// ---- Softmax, LogSoftmax and Hardmax ----

// The rank of the subject's input where operators or the model's interface tell; -1 elsewhere.
static int known_rank(const struct raising *r, const struct subject *s) {
  const struct node *node = &r->graph->nodes[s->id];
  int v = node->n_inputs ? node->inputs[0] : -1;
  const struct value *in = v >= 0 ? &r->graph->values[v] : NULL;
  if (in && in->origin == ORIGIN_NODE) {
    const Onnx__NodeProto *producer = r->graph->nodes[in->producer].proto;
    if (node_is(producer, "Gemm") || node_is(producer, "Flatten"))
      return 2;
  }
  const struct scope *main = &r->graph->scopes[0];
  for (size_t i = 0; node->scope == 0 && i < main->graph->n_output; i++) {
    const Onnx__ValueInfoProto *info = main->graph->output[i];
    if (info->name && strcmp(info->name, output_name(s)) == 0 && info->type &&
        info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
        info->type->tensor_type->shape)
      return (int)info->type->tensor_type->shape->n_dim;
  }
  return -1;
}

static Onnx__NodeProto *add_unary(struct raising *r, const struct subject *s, const char *op,
                                  const char *what) {
  const char *name = unused_name(r, arena_printf(r->arena, "%s__%s", output_name(s), what));
  Onnx__NodeProto *node = proto_unary(r->arena, op, "", s->node->input[0], name);
  node->name = arena_strdup(r->arena, name);
  append(r, node);
  return node;
}

// Over all axes from `axis` on before 13, over `axis` alone since. Where that is not the last axis,
// or not known to be, the input is flattened and the result gets the shape back.
static enum status adapt_softmax(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *attribute;
  TRY(take_attribute(r, s, "axis", &attribute));
  int64_t axis = attribute ? attribute->i : 1;
  if (axis == -1 || axis == known_rank(r, s) - 1) {
    proto_add_int(r->arena, s->node, "axis", -1);
    return STATUS_OK;
  }
  Onnx__NodeProto *shape = add_unary(r, s, "Shape", "shape");
  Onnx__NodeProto *flat = add_unary(r, s, "Flatten", "flat");
  proto_add_int(r->arena, flat, "axis", axis);
  Onnx__NodeProto *inner = add_unary(r, s, s->node->op_type, "rows");
  inner->input[0] = flat->output[0];
  proto_add_int(r->arena, inner, "axis", -1);
  s->node->op_type = arena_strdup(r->arena, "Reshape");
  set_input(r, s, 0, inner->output[0]);
  set_input(r, s, 1, shape->output[0]);
  return STATUS_OK;
}

// ---- the table ----

static const struct adapter adapters[] = {
    {"BatchNormalization", 9, adapt_spatial, NULL, 0},
    {"BatchNormalization", 14, adapt_batch_outputs, NULL, 0},
    {"Clip", 11, adapt_clip, NULL, 0},
    {"DFT", 20, adapt_dft, NULL, 0},
    {"Dropout", 10, adapt_dropout_mask, NULL, 0},
    {"Dropout", 12, adapt_dropout_ratio, NULL, 0},
    {"GridSample", 20, adapt_grid_sample, NULL, 0},
    {"GroupNormalization", 21, NULL, "has a scale per channel, not per group", 0},
    {"Hardmax", 13, adapt_softmax, NULL, 0},
    {"LogSoftmax", 13, adapt_softmax, NULL, 0},
    {"Pad", 11, adapt_pad, NULL, 0},
    {"ReduceL1", 18, ints_to_input, "axes", 1},
    {"ReduceL2", 18, ints_to_input, "axes", 1},
    {"ReduceLogSum", 18, ints_to_input, "axes", 1},
    {"ReduceLogSumExp", 18, ints_to_input, "axes", 1},
    {"ReduceMax", 18, ints_to_input, "axes", 1},
    {"ReduceMean", 18, ints_to_input, "axes", 1},
    {"ReduceMin", 18, ints_to_input, "axes", 1},
    {"ReduceProd", 18, ints_to_input, "axes", 1},
    {"ReduceSum", 13, ints_to_input, "axes", 1},
    {"ReduceSumSquare", 18, ints_to_input, "axes", 1},
    {"Resize", 11, adapt_resize, NULL, 0},
    {"Resize", 13, adapt_resize_modes, NULL, 0},
    {"RoiAlign", 16, adapt_roi_align, NULL, 0},
    {"Scan", 9, NULL, "has no batch axis", 0},
    {"Scatter", 11, rename_to_scatter_elements, NULL, 0},
    {"Slice", 10, adapt_slice, NULL, 0},
    {"Softmax", 13, adapt_softmax, NULL, 0},
    {"Split", 13, ints_to_input, "split", 1},
    {"Split", 18, adapt_split_sizes, NULL, 0},
    {"Squeeze", 13, ints_to_input, "axes", 1},
    {"TopK", 10, adapt_top_k, NULL, 0},
    {"Unsqueeze", 13, ints_to_input, "axes", 1},
    {"Upsample", 9, adapt_upsample_scales, NULL, 0},
    {"Upsample", 10, rename_to_resize, NULL, 0},
};

static const struct adapter *find_adapter(const char *op, int since) {
  for (size_t i = 0; i < sizeof adapters / sizeof adapters[0]; i++)
    if (adapters[i].since == since && strcmp(adapters[i].op, op) == 0)
      return &adapters[i];
  return NULL;
}

// Takes the node through every version of its operator between the two opsets.
static enum status raise_node(struct raising *r, int n, int from) {
  const struct node *in = &r->graph->nodes[n];
  Onnx__NodeProto *node = in->proto;
  bool is_own = !node->domain || !node->domain[0] || strcmp(node->domain, "ai.onnx") == 0;
  for (int opset = from + 1; is_own && in->function < 0 && opset <= r->to; opset++) {
    struct adapter step = {.op = node->op_type, .since = opset};
    struct subject s = {n, node, &step};
    const struct schema *schema = schema_find(r->graph->schemas, "", node->op_type, opset);
    const struct adapter *how = find_adapter(node->op_type, opset);
    if (!schema)
      return refuse(r, &s, "is not known here");
    if (schema->since != opset)
      continue;
    if (schema->deprecated && !how)
      return refuse(r, &s, "was withdrawn");
    if (!how)
      continue;
    s.how = how;
    if (node->n_input == 0)
      return refuse(r, &s, "has no input here");
    TRY(how->adapt ? how->adapt(r, &s) : refuse(r, &s, how->name));
  }
  append(r, node);
  return STATUS_OK;
}

static enum status raise_scope(struct raising *r, int scope) {
  struct scope *s = &r->graph->scopes[scope];
  int from = graph_opset(r->graph, scope, "");
  r->list = NULL;
  r->count = r->capacity = 0;
  for (int i = 0; i < s->n_nodes; i++)
    TRY(raise_node(r, s->nodes[i], from > 0 ? from : r->to));
  if (s->graph) {
    s->graph->node = r->list;
    s->graph->n_node = r->count;
  } else {
    s->function->node = r->list;
    s->function->n_node = r->count;
  }
  return STATUS_OK;
}

static void raise_imports(struct raising *r, Onnx__OperatorSetIdProto **imports, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const char *domain = imports[i]->domain;
    bool is_own = !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0;
    if (is_own && imports[i]->version < r->to)
      imports[i]->version = r->to;
  }
}

static void collect_names(struct raising *r) {
  const struct graph *g = r->graph;
  r->names.arena = r->arena;
  for (int v = 0; v < g->n_values; v++)
    map_put(&r->names, 0, g->values[v].name, FIRST_SUFFIX);
  for (int n = 0; n < g->n_nodes; n++)
    if (g->nodes[n].proto->name)
      map_put(&r->names, 0, g->nodes[n].proto->name, FIRST_SUFFIX);
}

enum status raise_opset(struct model *m, struct graph *g, int opset, struct arena *a,
                        struct diag *d) {
  struct raising r = {.model = m, .graph = g, .arena = a, .diag = d, .to = opset};
  int from = graph_opset(g, 0, "");
  if (from >= opset || from == 0)
    return STATUS_OK;
  if (from < RAISE_OPSET_FROM) {
    diag_at(d, m->path, NULL, NULL);
    return diag_fail(d, STATUS_MODEL, "the opset can be raised from %d on, and this model's is %d",
                     RAISE_OPSET_FROM, from);
  }
  collect_names(&r);
  for (int s = 0; s < g->n_scopes; s++)
    TRY(raise_scope(&r, s));
  raise_imports(&r, m->proto->opset_import, m->proto->n_opset_import);
  for (size_t i = 0; i < m->proto->n_functions; i++)
    raise_imports(&r, m->proto->functions[i]->opset_import, m->proto->functions[i]->n_opset_import);
  m->raised_to = opset;
  return STATUS_OK;
}
