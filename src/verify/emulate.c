// Rewrites a model so that narrow floats travel as fp32 with a Round at each place where the
// original stores a narrow value. See emulate.h.
#include "emulate.h"

#include "blocks.h"
#include "plan_quantise.h"
#include "proto.h"
#include "round.h"
#include "tensor.h"

#include <string.h>

enum {
  FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
  FLOAT16 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
  BFLOAT16 = ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16,
  FLOAT4 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT4E2M1,
};

static bool is_narrow(int elem_type) {
  return elem_type == FLOAT16 || elem_type == BFLOAT16;
}

// What an engine may not know at all: values of these types are carried as fp32 too.
static bool is_carried(int elem_type) {
  return is_narrow(elem_type) || elem_type == FLOAT4;
}

bool emulate_needed(const struct graph *g) {
  for (int v = 0; v < g->n_values; v++)
    if (is_carried(g->values[v].type.elem_type))
      return true;
  return false;
}

bool emulate_wants_shapes(const struct graph *g) {
  for (int s = 1; s < g->n_scopes; s++) {
    const struct scope *scope = &g->scopes[s];
    if (!scope->graph || scope->parent_node < 0 || !node_is(&g->nodes[scope->parent_node], "Scan"))
      continue;
    for (size_t i = 0; i < scope->graph->n_output; i++) {
      const Onnx__TypeProto *type = scope->graph->output[i]->type;
      if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
          !type->tensor_type->shape)
        return true;
    }
  }
  return false;
}

Onnx__NodeProto *emulate_new_round(struct arena *a, const char *input, const char *output,
                                   enum format_id format, bool ftz, bool shaped) {
  Onnx__NodeProto *node =
      proto_unary(a, shaped ? "RoundShaped" : "Round", "narrowcast", input, output);
  node->name = arena_printf(a, "%s/round", output);
  proto_add_string(a, node, "format", formats[format].name);
  proto_add_int(a, node, "scale", 0);
  proto_add_int(a, node, "saturate", 0);
  proto_add_int(a, node, "ftz", ftz);
  return node;
}

// ---- types and tensors ----

// Containers hold containers: the depth is limited since the model was loaded with limits.
static void widen_type(Onnx__TypeProto *type) {
  if (!type)
    return;
  switch (type->value_case) {
  case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
    if (is_carried(type->tensor_type->elem_type))
      type->tensor_type->elem_type = FLOAT;
    break;
  case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
    if (is_carried(type->sparse_tensor_type->elem_type))
      type->sparse_tensor_type->elem_type = FLOAT;
    break;
  case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: widen_type(type->sequence_type->elem_type); break;
  case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: widen_type(type->optional_type->elem_type); break;
  case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: widen_type(type->map_type->value_type); break;
  default: break;
  }
}

static void widen_declarations(Onnx__ValueInfoProto **list, size_t count) {
  for (size_t i = 0; i < count; i++)
    widen_type(list[i]->type);
}

struct emulation {
  struct model *model;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
  bool ftz, shaped;           // see emulate_new_round
  uint64_t widened;           // bytes of weights that are carried as fp32
  Onnx__NodeProto **decoded;  // in front of the main graph's nodes
  size_t n_decoded, capacity_decoded;
};

// A name for what comes before `name`. '/' twice: not a name that rewrite makes; a clash with the
// model's own is looked up.
static const char *earlier_name(const struct emulation *e, int scope, const char *name,
                                const char *what) {
  const char *earlier = arena_printf(e->arena, "%s//%s", name, what);
  while (graph_lookup(e->graph, scope, earlier) >= 0)
    earlier = arena_printf(e->arena, "%s'", earlier);
  return earlier;
}

// ---- large weights ----
//
// To carry all weights of a large model as fp32 would take twice their memory. So beyond the first
// few, those of the main graph that lie in a file stay as they are, and a Decode gives their
// values, one weight at a time, in each run.

enum { MOST_WIDENED = 64 * 1024 * 1024, LEAST_DECODED = 64 * 1024 };

// Whether the engine will find the initializer's narrow bytes in a file.
static bool is_decoded(struct emulation *e, const Onnx__TensorProto *t) {
  const char *path;
  uint64_t offset;
  struct tensor view;
  struct diag ignored = {0};
  int v = t->name ? graph_lookup(e->graph, 0, t->name) : -1;
  if (v < 0 || e->graph->values[v].initializer != t || e->graph->values[v].origin == ORIGIN_INPUT ||
      e->graph->values[v].is_output ||
      tensor_read(e->model, t, e->arena, &view, &ignored) != STATUS_OK ||
      view.size < LEAST_DECODED || !model_find(e->model, view.data, &path, &offset))
    return false;
  e->widened += view.count * sizeof(float);
  return e->widened > MOST_WIDENED;
}

// The initializer gets another name, under which it stays narrow.
static void decode_tensor(struct emulation *e, Onnx__TensorProto *t) {
  const char *name = t->name;
  t->name = arena_strdup(e->arena, earlier_name(e, 0, name, "stored"));
  Onnx__NodeProto *node = proto_unary(e->arena, "Decode", "narrowcast", t->name, name);
  e->decoded =
      arena_grow(e->arena, e->decoded, &e->capacity_decoded, e->n_decoded + 1, sizeof *e->decoded);
  e->decoded[e->n_decoded++] = node;
}

static enum status widen_tensor(void *context, Onnx__TensorProto *t) {
  struct emulation *e = context;
  if (!is_carried(t->data_type))
    return STATUS_OK;
  if (is_decoded(e, t)) {
    decode_tensor(e, t);
    return STATUS_OK;
  }
  struct tensor view;
  TRY(tensor_read(e->model, t, e->arena, &view, e->diag));
  float *wide = arena_array(e->arena, view.count, sizeof *wide);
  tensor_to_float(&view, wide);
  Onnx__TensorProto *copy = tensor_new(e->arena, t->name, FLOAT, t->n_dims, t->dims,
                                       (const uint8_t *)wide, view.count * sizeof *wide);
  copy->base = t->base;
  *t = *copy;
  return STATUS_OK;
}

// Operators whose results are among their inputs (or zero), so that rounding again changes nothing;
// and those whose results are rounded inside (control flow, calls).
static bool result_is_rounded(const struct graph *g, int n) {
  static const char *const exact[] = {"Identity",
                                      "Reshape",
                                      "Transpose",
                                      "Squeeze",
                                      "Unsqueeze",
                                      "Flatten",
                                      "Slice",
                                      "Gather",
                                      "GatherND",
                                      "GatherElements",
                                      "Concat",
                                      "Split",
                                      "Expand",
                                      "Tile",
                                      "DepthToSpace",
                                      "SpaceToDepth",
                                      "MaxPool",
                                      "Relu",
                                      "Neg",
                                      "Abs",
                                      "Max",
                                      "Min",
                                      "Where",
                                      "Constant",
                                      "ConstantOfShape",
                                      "GlobalMaxPool",
                                      "Compress",
                                      "ReduceMax",
                                      "ReduceMin",
                                      "Trilu",
                                      "TopK",
                                      "SplitToSequence",
                                      "SequenceAt",
                                      "ScatterND"};
  const struct node *node = &g->nodes[n];
  if (node->n_bodies > 0 || node->function >= 0)
    return true;
  const Onnx__AttributeProto *reduction = node_attribute(node->proto, "reduction");
  if (reduction && !(reduction->s.len == 4 && memcmp(reduction->s.data, "none", 4) == 0))
    return false;  // ScatterND that adds or multiplies
  for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++)
    if (node_is(node, exact[i]))
      return true;
  return false;
}

// Attributes that name a narrow element type name float instead.
static void widen_type_attributes(const struct node *node) {
  static const char *const names[] = {"to", "dtype", "output_dtype", "output_datatype",
                                      "stash_type"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    Onnx__AttributeProto *attribute = node_attribute(node->proto, names[i]);
    if (attribute && is_narrow((int)attribute->i))
      attribute->i = FLOAT;
    // Cast-1 spells the type.
    if (attribute && attribute->s.len == 7 && memcmp(attribute->s.data, "FLOAT16", 7) == 0)
      attribute->s.len = 5;
  }
}

static Onnx__NodeProto *new_cast(struct arena *a, const char *input, const char *output, int to) {
  Onnx__NodeProto *node = proto_unary(a, "Cast", "", input, output);
  node->name = arena_printf(a, "%s/typed", output);
  proto_add_int(a, node, "to", to);
  return node;
}

// True in a function's body and the graphs in it. There ONNX Runtime infers types by the schemas of
// ONNX alone, which know no Round.
static bool in_function(const struct graph *g, int scope) {
  return g->scopes[g->scopes[scope].root].kind == SCOPE_FUNCTION;
}

static bool takes_float(const struct schema *s, const struct formal *f) {
  return !f || schema_allows(s, f->var, FLOAT);
}

static bool holds_narrow(const struct graph *g, int v) {
  return v >= 0 && g->values[v].type.kind == TYPE_TENSOR && is_narrow(g->values[v].type.elem_type);
}

static bool is_carried_value(const struct graph *g, int v) {
  return v >= 0 && g->values[v].type.kind == TYPE_TENSOR && is_carried(g->values[v].type.elem_type);
}

// False for operators that take a type that is carried and fp32 not at all (com.microsoft's
// MatMulPacked), and for those that round to float4 (Cast), which no Round stands for.
static bool runs_in_float(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  const struct schema *s = node->schema;
  for (int k = 0; s && k < node->n_inputs; k++)
    if (is_carried_value(g, node->inputs[k]) && !takes_float(s, schema_input(s, k)))
      return false;
  for (int k = 0; s && k < node->n_outputs; k++)
    if (is_carried_value(g, node->outputs[k]) && !takes_float(s, schema_output(s, k)))
      return false;
  for (int k = 0; k < node->n_outputs; k++)
    if (is_carried_value(g, node->outputs[k]) && !holds_narrow(g, node->outputs[k]) &&
        !result_is_rounded(g, n))
      return false;
  return true;
}

// An operator that sees the bits runs on the narrow type itself, between Casts: they change no
// value, since what is carried as fp32 was rounded to it.
static void emulate_on_bits(struct emulation *e, int n, Onnx__NodeProto **list, size_t *count) {
  const struct node *node = &e->graph->nodes[n];
  int in = node->inputs[0], out = node->outputs[0];
  if (holds_narrow(e->graph, in)) {
    const char *bits = arena_printf(e->arena, "%s//bits_%d", node->proto->input[0], n);
    list[(*count)++] =
        new_cast(e->arena, node->proto->input[0], bits, e->graph->values[in].type.elem_type);
    node->proto->input[0] = arena_strdup(e->arena, bits);
  }
  list[(*count)++] = node->proto;
  if (holds_narrow(e->graph, out)) {
    const char *name = node->proto->output[0];
    const char *bits = earlier_name(e, node->scope, name, "bits");
    node->proto->output[0] = arena_strdup(e->arena, bits);
    list[(*count)++] = new_cast(e->arena, bits, name, FLOAT);
  }
}

// ---- weights in 4 bits ----

// Where node n is a DequantizeLinear of a constant in blocks of float4, as pass_weights adds them:
// codes and scales. No engine has to know them, since what it gives is known here.
static bool is_weight_in_blocks(struct graph *g, int n, Onnx__TensorProto **codes,
                                Onnx__TensorProto **scales) {
  const struct node *node = &g->nodes[n];
  if (!node_is(node, "DequantizeLinear") || node->n_inputs != 2 || node->inputs[0] < 0 ||
      node->inputs[1] < 0 || g->values[node->inputs[0]].type.elem_type != FLOAT4)
    return false;
  *codes = graph_constant(g, node->inputs[0]);
  *scales = graph_constant(g, node->inputs[1]);
  return *codes && *scales && node_attribute(node->proto, "block_size");
}

// code * scale: what the DequantizeLinear gives, exactly, where the scales are powers of two.
static enum status decode_weight(struct emulation *e, int n, Onnx__TensorProto *codes,
                                 Onnx__TensorProto *scales, Onnx__TensorProto **out) {
  const Onnx__NodeProto *node = e->graph->nodes[n].proto;
  const Onnx__AttributeProto *axis = node_attribute(node, "axis");
  int64_t a = axis ? axis->i : 1, size = node_attribute(node, "block_size")->i;
  struct tensor x, s;
  TRY(tensor_read(e->model, codes, e->arena, &x, e->diag));
  TRY(tensor_read(e->model, scales, e->arena, &s, e->diag));
  diag_at(e->diag, e->model->path, graph_node_label(e->graph, n), NULL);
  a += a < 0 ? (int64_t)x.rank : 0;
  if (a < 0 || (size_t)a >= x.rank || size < 1)
    return diag_fail(e->diag, STATUS_MODEL, "axis or block_size is out of range");
  struct blocks b = blocks_along(x.dims, x.rank, (size_t)a, (size_t)size);
  if (blocks_count(&b) != s.count)
    return diag_fail(e->diag, STATUS_MODEL, "there are not as many scales as blocks");
  float *wide = arena_array(e->arena, x.count, sizeof *wide);
  float *factors = arena_array(e->arena, s.count, sizeof *factors);
  if (!tensor_to_float(&x, wide) || !tensor_to_float(&s, factors))
    return diag_fail(e->diag, STATUS_MODEL, "its scales are no floats");
  blocks_multiply(&b, wide, factors);
  *out = tensor_new(e->arena, NULL, FLOAT, x.rank, x.dims, (const uint8_t *)wide,
                    x.count * sizeof *wide);
  diag_clear(e->diag);
  return STATUS_OK;
}

// Whether an initializer was read, and only by decoded nodes.
static bool read_by_decoded_alone(const struct emulation *e, const bool *decoded, int scope,
                                  const char *name) {
  int v = map_get(&e->graph->names, scope, text_of(name));
  const struct value *value = v >= 0 ? &e->graph->values[v] : NULL;
  if (!value || !value->initializer || value->n_uses == 0)
    return false;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node < 0 || !decoded[value->uses[u].node])
      return false;
  return true;
}

// Engines stumble over initializers that nobody reads: drops those that only decoded nodes read.
// One that is listed as an input is none any more, or a session would ask for it.
static void drop_unread(struct emulation *e, const bool *decoded, int scope) {
  Onnx__GraphProto *graph = e->graph->scopes[scope].graph;
  if (!graph)
    return;
  size_t kept = 0;
  for (size_t i = 0; i < graph->n_input; i++)
    if (!read_by_decoded_alone(e, decoded, scope, graph->input[i]->name))
      graph->input[kept++] = graph->input[i];
  graph->n_input = kept;
  kept = 0;
  for (size_t i = 0; i < graph->n_initializer; i++)
    if (!read_by_decoded_alone(e, decoded, scope, graph->initializer[i]->name))
      graph->initializer[kept++] = graph->initializer[i];
  graph->n_initializer = kept;
}

// Puts Constants with the weights in place of the DequantizeLinears, while tensors are as they
// were.
static enum status decode_weights(struct emulation *e) {
  bool *decoded = arena_array(e->arena, (size_t)e->graph->n_nodes, sizeof *decoded);
  bool any = false;
  for (int n = 0; n < e->graph->n_nodes; n++) {
    Onnx__TensorProto *codes, *scales, *weight = NULL;
    if (!is_weight_in_blocks(e->graph, n, &codes, &scales))
      continue;
    TRY(decode_weight(e, n, codes, scales, &weight));
    Onnx__NodeProto *node = e->graph->nodes[n].proto;
    node->op_type = arena_strdup(e->arena, "Constant");
    e->graph->nodes[n].op = node->op_type;
    node->n_input = node->n_attribute = 0;
    e->graph->nodes[n].n_inputs = 0;
    proto_add_tensor(e->arena, node, "value", weight);
    decoded[n] = any = true;
  }
  for (int s = 0; any && s < e->graph->n_scopes; s++)
    drop_unread(e, decoded, s);
  return STATUS_OK;
}

// Appends the node and a Round behind each narrow output that is not rounded already.
static enum status emulate_node(struct emulation *e, int n, Onnx__NodeProto **list, size_t *count) {
  const struct graph *g = e->graph;
  const struct node *node = &g->nodes[n];
  if (node_sees_bits(node)) {
    emulate_on_bits(e, n, list, count);
    return STATUS_OK;
  }
  if (!runs_in_float(g, n)) {
    diag_at(e->diag, e->model->path, graph_node_label(g, n), NULL);
    return diag_fail(e->diag, STATUS_MODEL, "a %s cannot be run with narrow types carried as fp32",
                     node->proto->op_type);
  }
  widen_type_attributes(node);
  list[(*count)++] = node->proto;
  if (result_is_rounded(g, n))
    return STATUS_OK;
  for (int k = 0; k < node->n_outputs; k++) {
    int v = node->outputs[k];
    if (!holds_narrow(g, v))
      continue;
    enum format_id format = g->values[v].type.elem_type == FLOAT16 ? FORMAT_FP16 : FORMAT_BF16;
    const char *name = g->values[v].name, *rounded = name;
    const char *exact = earlier_name(e, node->scope, name, "exact");
    if (in_function(g, node->scope))
      rounded = earlier_name(e, node->scope, name, "rounded");
    node->proto->output[k] = arena_strdup(e->arena, exact);
    list[(*count)++] = emulate_new_round(e->arena, exact, rounded, format, e->ftz, e->shaped);
    if (rounded != name)
      list[(*count)++] = new_cast(e->arena, rounded, name, FLOAT);
  }
  return STATUS_OK;
}

static enum status emulate_scope(struct emulation *e, int s) {
  const struct scope *scope = &e->graph->scopes[s];
  size_t capacity = 0, count = 0;
  for (int i = 0; i < scope->n_nodes; i++)
    capacity += 1 + 2 * (size_t)e->graph->nodes[scope->nodes[i]].n_outputs;
  Onnx__NodeProto **list = arena_array(e->arena, capacity + e->n_decoded, sizeof *list);
  for (size_t i = 0; s == 0 && i < e->n_decoded; i++)
    list[count++] = e->decoded[i];
  for (int i = 0; i < scope->n_nodes; i++)
    TRY(emulate_node(e, scope->order[i], list, &count));
  if (scope->graph) {
    scope->graph->node = list;
    scope->graph->n_node = count;
    widen_declarations(scope->graph->input, scope->graph->n_input);
    widen_declarations(scope->graph->output, scope->graph->n_output);
    widen_declarations(scope->graph->value_info, scope->graph->n_value_info);
  } else {
    scope->function->node = list;
    scope->function->n_node = count;
    widen_declarations(scope->function->value_info, scope->function->n_value_info);
    proto_import(e->arena, &scope->function->opset_import, &scope->function->n_opset_import,
                 "narrowcast", 1);
  }
  return STATUS_OK;
}

enum status emulate_model(struct model *m, struct graph *g, bool ftz, struct arena *a,
                          struct diag *d) {
  if (!emulate_needed(g))
    return STATUS_OK;
  struct emulation e = {
      .model = m, .graph = g, .arena = a, .diag = d, .ftz = ftz, .shaped = emulate_wants_shapes(g)};
  TRY(decode_weights(&e));
  TRY(model_each_tensor(m->proto, widen_tensor, &e));
  for (int s = 0; s < g->n_scopes; s++)
    TRY(emulate_scope(&e, s));
  proto_import(a, &m->proto->opset_import, &m->proto->n_opset_import, "narrowcast", 1);
  return STATUS_OK;
}

// Rounds input k of the node; the Round stands in front of it.
static void round_operand(struct emulation *e, int n, int k, enum format_id f,
                          Onnx__NodeProto **list, size_t *count) {
  const struct node *node = &e->graph->nodes[n];
  const char *from = node->proto->input[k];
  const char *rounded = arena_printf(e->arena, "%s//operand_%d_%d", from, n, k);
  const char *name = rounded;
  list[(*count)++] = emulate_new_round(e->arena, from, rounded, f, e->ftz, e->shaped);
  if (in_function(e->graph, node->scope)) {
    name = arena_printf(e->arena, "%s//typed_%d_%d", from, n, k);
    list[(*count)++] = new_cast(e->arena, rounded, name, FLOAT);
  }
  node->proto->input[k] = arena_strdup(e->arena, name);
}

static void round_operands_in(struct emulation *e, int s, enum format_id f) {
  const struct scope *scope = &e->graph->scopes[s];
  Onnx__NodeProto **list = arena_array(e->arena, 5 * (size_t)scope->n_nodes, sizeof *list);
  size_t count = 0;
  for (int i = 0; i < scope->n_nodes; i++) {
    int n = scope->order[i];
    const struct node *node = &e->graph->nodes[n];
    for (int k = 0; k < node->n_inputs && k < 2; k++)
      if (product_operand(node, k) && graph_is_fp32(e->graph, node->inputs[k]))
        round_operand(e, n, k, f, list, &count);
    list[count++] = node->proto;
  }
  if (scope->graph) {
    scope->graph->node = list;
    scope->graph->n_node = count;
  } else {
    scope->function->node = list;
    scope->function->n_node = count;
    proto_import(e->arena, &scope->function->opset_import, &scope->function->n_opset_import,
                 "narrowcast", 1);
  }
}

void emulate_operands(struct model *m, struct graph *g, enum format_id f, struct arena *a) {
  struct emulation e = {.model = m, .graph = g, .arena = a, .shaped = emulate_wants_shapes(g)};
  for (int s = 0; s < g->n_scopes; s++)
    round_operands_in(&e, s, f);
  proto_import(a, &m->proto->opset_import, &m->proto->n_opset_import, "narrowcast", 1);
}

void emulate_sample(struct sample *s) {
  for (size_t i = 0; i < s->n_arrays; i++) {
    struct array *array = &s->arrays[i];
    if (!is_narrow(array->elem_type))
      continue;
    size_t count = array->size / 2;
    float *wide = arena_array(&s->arena, count, sizeof *wide);
    enum format_id format = array->elem_type == FLOAT16 ? FORMAT_FP16 : FORMAT_BF16;
    round_decode_array(&formats[format], array->data, wide, count);
    array->elem_type = FLOAT;
    array->data = wide;
    array->size = count * sizeof *wide;
  }
}
