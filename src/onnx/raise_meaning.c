// Adapters for what means something else in newer versions of an operator: the old meaning is
// written out, in a few nodes where one does not do. See raise_adapters.h.
#include "raise_adapters.h"

#include "proto.h"
#include "tensor.h"

#include <string.h>

static int rank_of_input(const struct raising *r, const struct subject *s, int k) {
  const struct node *node = &r->graph->nodes[s->id];
  return k < node->n_inputs && node->inputs[k] >= 0 ? r->ranks[node->inputs[k]] : -1;
}

// ---- broadcasting ----

enum { MOST_AXES = 64 };

// Input k gets axes of size 1 behind its own, so that its first axis meets `axis` of input 0: as
// many as input 0 has more, which is counted at run time where a rank is not known.
static void line_up(struct raising *r, const struct subject *s, int k, int64_t axis) {
  const char *first = s->node->input[0], *other = s->node->input[k];
  int rank = rank_of_input(r, s, 0), own = rank_of_input(r, s, k);
  if (rank >= 0 && own >= 0) {
    int64_t more[MOST_AXES];
    size_t n = 0;
    while (n < MOST_AXES && own + (int64_t)n + axis < rank) {
      more[n] = own + (int64_t)n;
      n++;
    }
    if (n)
      raise_set_input(
          r, s->node, (size_t)k,
          raise_add(r, s, "Unsqueeze", "aligned", other, raise_ints(r, s, "axes", more, n), NULL)
              ->output[0]);
    return;
  }
  const char *shape = raise_add(r, s, "Shape", "shape", first, NULL)->output[0];
  const char *own_shape = raise_add(r, s, "Shape", "own_shape", other, NULL)->output[0];
  const char *all = raise_add(r, s, "Shape", "rank", shape, NULL)->output[0];
  const char *taken = raise_add(r, s, "Shape", "own_rank", own_shape, NULL)->output[0];
  const char *before = raise_ints(r, s, "axis", &axis, 1);
  const char *rest = raise_add(r, s, "Sub", "rest", all, taken, NULL)->output[0];
  const char *behind = raise_add(r, s, "Sub", "behind", rest, before, NULL)->output[0];
  static const int64_t one = 1;
  Onnx__NodeProto *ones = raise_add(r, s, "ConstantOfShape", "ones", behind, NULL);
  proto_add_tensor(r->arena, ones, "value",
                   tensor_new(r->arena, NULL, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, &one,
                              (const uint8_t *)&one, sizeof one));
  Onnx__NodeProto *joined =
      raise_add(r, s, "Concat", "aligned_shape", own_shape, ones->output[0], NULL);
  proto_add_int(r->arena, joined, "axis", 0);
  raise_set_input(r, s->node, (size_t)k,
                  raise_add(r, s, "Reshape", "aligned", other, joined->output[0], NULL)->output[0]);
}

// Before 7, `axis` said which axis of the first input the second one begins at; without it, both
// end together, as they do ever since. So does Caffe2's -1.
enum status raise_broadcast(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *broadcast, *axis;
  TRY(raise_take(r, s, "broadcast", &broadcast));
  TRY(raise_take(r, s, "axis", &axis));
  if (!broadcast || !broadcast->i || !axis || axis->i == -1)
    return STATUS_OK;
  if (axis->i < 0 || axis->i >= MOST_AXES)
    return raise_refuse(r, s, "has no axis to broadcast from, and here it is out of range");
  if (s->node->n_input < 2)
    return raise_refuse(r, s, "has two inputs");
  line_up(r, s, 1, axis->i);
  return STATUS_OK;
}

// Before 7, a slope for each channel had one axis.
enum status raise_slope(struct raising *r, const struct subject *s) {
  const struct node *node = &r->graph->nodes[s->id];
  if (node->n_inputs < 2 || node->inputs[1] < 0)
    return raise_refuse(r, s, "wants a slope, which is missing here");
  const Onnx__TensorProto *slope = graph_constant(r->graph, node->inputs[1]);
  bool shared = slope && (slope->n_dims == 0 || (slope->n_dims == 1 && slope->dims[0] == 1));
  if (!shared)
    line_up(r, s, 1, 1);
  return STATUS_OK;
}

// ---- BatchNormalization and Dropout ----

static bool gives_more_than_one(const struct subject *s) {
  for (size_t k = 1; k < s->node->n_output; k++)
    if (s->node->output[k][0])
      return true;
  return false;
}

// The subject's operator and attributes move into a node in front of it, which reads `input` in the
// place of the first one; the subject becomes a Reshape of the result to the shape of its input.
static void put_between_shapes(struct raising *r, const struct subject *s, const char *input) {
  const char *shape = raise_add(r, s, "Shape", "shape", s->node->input[0], NULL)->output[0];
  Onnx__NodeProto *inner = raise_add(r, s, s->node->op_type, "rows", input, NULL);
  for (size_t k = 1; k < s->node->n_input; k++)
    raise_set_input(r, inner, k, s->node->input[k]);
  inner->attribute = s->node->attribute;
  inner->n_attribute = s->node->n_attribute;
  s->node->attribute = NULL;
  s->node->n_attribute = s->node->n_input = 0;
  s->node->op_type = arena_strdup(r->arena, "Reshape");
  raise_set_input(r, s->node, 0, inner->output[0]);
  raise_set_input(r, s->node, 1, shape);
}

// Statistics of each element are those of each channel of a flattened input.
enum status raise_spatial(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *spatial;
  TRY(raise_take(r, s, "spatial", &spatial));
  if (!spatial || spatial->i == 1)
    return STATUS_OK;
  if (gives_more_than_one(s))
    return raise_refuse(r, s, "has statistics per channel only");
  static const int64_t all = -1;
  const char *flat = raise_add(r, s, "Flatten", "flat", s->node->input[0], NULL)->output[0];
  const char *length = raise_ints(r, s, "length", &all, 1);
  for (size_t k = 1; k < s->node->n_input; k++)
    raise_set_input(r, s->node, k,
                    raise_add(r, s, "Reshape", "list", s->node->input[k], length, NULL)->output[0]);
  put_between_shapes(r, s, flat);
  return STATUS_OK;
}

enum status raise_batch_outputs(struct raising *r, const struct subject *s) {
  return gives_more_than_one(s) ? raise_refuse(r, s, "gives other statistics in training")
                                : STATUS_OK;
}

// The mask became boolean in 10, and all true in 12; one that nobody reads can go.
enum status raise_mask(struct raising *r, const struct subject *s) {
  const struct node *node = &r->graph->nodes[s->id];
  if (node->n_outputs > 1 && node->outputs[1] >= 0) {
    if (r->graph->values[node->outputs[1]].n_uses)
      return raise_refuse(r, s, "gives another mask");
    s->node->n_output = 1;
  }
  return STATUS_OK;
}

// ---- Resize ----

// The constant tensor that input k is, of the model or made here just now; NULL if it is none.
static const Onnx__TensorProto *constant_input(struct raising *r, const struct subject *s,
                                               size_t k) {
  const char *name = k < s->node->n_input ? s->node->input[k] : "";
  for (size_t i = r->count; i > 0 && strcmp(r->list[i - 1]->op_type, "Constant") == 0; i--)
    if (strcmp(r->list[i - 1]->output[0], name) == 0)
      return r->list[i - 1]->attribute[0]->t;
  int v = graph_lookup(r->graph, r->graph->nodes[s->id].scope, name);
  return v >= 0 ? graph_constant(r->graph, v) : NULL;
}

enum { MOST_DIMS = 32 };

// Scales along each axis; *n is 0 if they are not constant.
static enum status constant_scales(struct raising *r, const struct subject *s,
                                   float values[MOST_DIMS], size_t *n) {
  const Onnx__TensorProto *scales = constant_input(r, s, 1);
  struct tensor t;
  *n = 0;
  if (!scales)
    return STATUS_OK;
  TRY(tensor_read(r->model, scales, r->arena, &t, r->diag));
  if (t.count <= MOST_DIMS && tensor_to_float(&t, values))
    *n = (size_t)t.count;
  return STATUS_OK;
}

static void set_nearest(struct raising *r, Onnx__NodeProto *node, const char *rounding) {
  proto_add_string(r->arena, node, "coordinate_transformation_mode", "asymmetric");
  if (rounding)
    proto_add_string(r->arena, node, "nearest_mode", rounding);
}

static void set_scales(struct raising *r, Onnx__NodeProto *node, const char *scales) {
  raise_set_input(r, node, 1, "");
  raise_set_input(r, node, 2, scales);
}

// Upsample's scales are 1 at least, also those that are computed.
enum status raise_to_resize(struct raising *r, const struct subject *s) {
  bool nearest = !node_attribute(s->node, "mode") || raise_attribute_says(s, "mode", "nearest");
  if (s->node->n_input < 2)
    return raise_refuse(r, s, "wants scales, which are missing here");
  s->node->op_type = arena_strdup(r->arena, "Resize");
  set_scales(r, s->node, s->node->input[1]);
  set_nearest(r, s->node, nearest ? "floor" : NULL);
  return STATUS_OK;
}

// Pixel x of the result was pixel x / scale of the source, and the nearest one that below along an
// axis that grows, and that above along one that shrinks. Of an image that does both, each axis is
// done by itself.
enum status raise_resize(struct raising *r, const struct subject *s) {
  bool nearest = !node_attribute(s->node, "mode") || raise_attribute_says(s, "mode", "nearest");
  float scales[MOST_DIMS], larger[MOST_DIMS], smaller[MOST_DIMS];
  size_t n, grows = 0, shrinks = 0;
  if (node_attribute(s->node, "coordinate_transformation_mode"))
    return STATUS_OK;  // it was an Upsample
  if (s->node->n_input < 2)
    return raise_refuse(r, s, "wants scales, which are missing here");
  TRY(constant_scales(r, s, scales, &n));
  if (nearest && n == 0)
    return raise_refuse(r, s, "takes nearest pixels by its scales, which are not constant here");
  for (size_t i = 0; i < n; i++) {
    grows += scales[i] > 1;
    shrinks += scales[i] < 1;
    larger[i] = scales[i] > 1 ? scales[i] : 1;
    smaller[i] = scales[i] < 1 ? scales[i] : 1;
  }
  const char *last = s->node->input[1];
  if (nearest && grows && shrinks) {
    const char *first = raise_floats(r, s, "larger", larger, n);
    Onnx__NodeProto *grown = raise_add(r, s, "Resize", "grown", s->node->input[0], NULL);
    set_scales(r, grown, first);
    set_nearest(r, grown, "floor");
    raise_set_input(r, s->node, 0, grown->output[0]);
    last = raise_floats(r, s, "smaller", smaller, n);
  }
  set_scales(r, s->node, last);
  set_nearest(r, s->node, !nearest ? NULL : shrinks ? "ceil" : "floor");
  return STATUS_OK;
}

// tf_half_pixel_for_nn is half_pixel without its half pixel: floor(u) is the nearest of u - 1/2 if
// ties go up, and the nearest of u, if ties go down, is ceil(u - 1/2).
enum status raise_resize_modes(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *old;
  if (!raise_attribute_says(s, "coordinate_transformation_mode", "tf_half_pixel_for_nn"))
    return STATUS_OK;
  bool nearest = !node_attribute(s->node, "mode") || raise_attribute_says(s, "mode", "nearest");
  const char *rounding = raise_attribute_says(s, "nearest_mode", "floor") ? "round_prefer_ceil"
                         : !node_attribute(s->node, "nearest_mode") ||
                                 raise_attribute_says(s, "nearest_mode", "round_prefer_floor")
                             ? "ceil"
                             : NULL;
  if (!nearest || !rounding)
    return raise_refuse(r, s, "has no coordinates tf_half_pixel_for_nn");
  TRY(raise_take(r, s, "coordinate_transformation_mode", &old));
  TRY(raise_take(r, s, "nearest_mode", &old));
  proto_add_string(r->arena, s->node, "coordinate_transformation_mode", "half_pixel");
  proto_add_string(r->arena, s->node, "nearest_mode", rounding);
  return STATUS_OK;
}

// ---- Softmax, LogSoftmax and Hardmax ----

// Over all axes from `axis` on before 13, over `axis` alone since. Where that is not the last axis,
// or not known to be, the input is flattened and the result gets the shape back.
enum status raise_softmax(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *attribute;
  TRY(raise_take(r, s, "axis", &attribute));
  int64_t axis = attribute ? attribute->i : 1;
  int rank = rank_of_input(r, s, 0);
  proto_add_int(r->arena, s->node, "axis", -1);
  if (axis == -1 || (rank >= 0 && axis == rank - 1))
    return STATUS_OK;
  Onnx__NodeProto *flat = raise_add(r, s, "Flatten", "flat", s->node->input[0], NULL);
  proto_add_int(r->arena, flat, "axis", axis);
  put_between_shapes(r, s, flat->output[0]);
  return STATUS_OK;
}

// ---- Scan ----

static Onnx__ValueInfoProto *new_value_info(struct raising *r, const char *name, int value) {
  Onnx__ValueInfoProto *info = arena_alloc(r->arena, sizeof *info);
  onnx__value_info_proto__init(info);
  info->name = arena_strdup(r->arena, name);
  if (value < 0 || r->graph->values[value].type.kind != TYPE_TENSOR)
    return info;
  info->type = arena_alloc(r->arena, sizeof *info->type);
  onnx__type_proto__init(info->type);
  info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  info->type->tensor_type = arena_alloc(r->arena, sizeof *info->type->tensor_type);
  onnx__type_proto__tensor__init(info->type->tensor_type);
  info->type->tensor_type->has_elem_type = 1;
  info->type->tensor_type->elem_type = r->graph->values[value].type.elem_type;
  return info;
}

// Values of the new body: as many as the node has, of their types.
static Onnx__ValueInfoProto **new_formals(struct raising *r, const struct subject *s,
                                          const char *what, const int *values, size_t n) {
  Onnx__ValueInfoProto **infos = arena_array(r->arena, n, sizeof *infos);
  for (size_t k = 0; k < n; k++) {
    const char *name = arena_printf(r->arena, "%s__%s_%zu", raise_output_name(s), what, k);
    infos[k] = new_value_info(r, raise_unused_name(r, name), values[k]);
  }
  return infos;
}

// Scan of opset 8 did the same for each member of a batch: which is a Scan over the batch whose
// body is the Scan over the sequence.
enum status raise_scan(struct raising *r, const struct subject *s) {
  const struct node *node = &r->graph->nodes[s->id];
  Onnx__NodeProto *outer = s->node;
  if (outer->input[0][0])
    return raise_refuse(r, s, "takes no lengths of sequences");
  size_t n = outer->n_input - 1, n_outputs = outer->n_output;
  Onnx__AttributeProto *directions = node_attribute(outer, "directions");
  if (directions)
    directions->name = arena_strdup(r->arena, "scan_input_directions");
  Onnx__GraphProto *body = arena_alloc(r->arena, sizeof *body);
  onnx__graph_proto__init(body);
  body->name = arena_strdup(r->arena, raise_unused_name(r, "batch"));
  body->input = new_formals(r, s, "one", node->inputs + 1, n);
  body->output = new_formals(r, s, "scanned", node->outputs, n_outputs);
  body->n_input = n;
  body->n_output = n_outputs;
  Onnx__NodeProto *inner = proto_node(r->arena, "Scan", "", n, n_outputs);
  for (size_t k = 0; k < n; k++)
    inner->input[k] = body->input[k]->name;
  for (size_t k = 0; k < n_outputs; k++)
    inner->output[k] = body->output[k]->name;
  inner->attribute = outer->attribute;
  inner->n_attribute = outer->n_attribute;
  body->node = arena_array(r->arena, 1, sizeof *body->node);
  body->node[0] = inner;
  body->n_node = 1;
  outer->input++;
  outer->n_input--;
  outer->attribute = NULL;
  outer->n_attribute = 0;
  proto_add_graph(r->arena, outer, "body", body);
  proto_add_int(r->arena, outer, "num_scan_inputs", (int64_t)n);
  return STATUS_OK;
}

// ---- GroupNormalization ----

// A scale and a bias for each group become one for each of its channels.
enum status raise_groups(struct raising *r, const struct subject *s) {
  const Onnx__AttributeProto *groups = node_attribute(s->node, "num_groups");
  static const int64_t list = -1, behind = 1;
  if (!groups || (groups->ref_attr_name && groups->ref_attr_name[0]) || s->node->n_input < 3)
    return raise_refuse(r, s, "wants groups, a scale and a bias");
  Onnx__NodeProto *channels = raise_add(r, s, "Shape", "channels", s->node->input[0], NULL);
  proto_add_int(r->arena, channels, "start", 1);
  proto_add_int(r->arena, channels, "end", 2);
  const char *count = raise_ints(r, s, "groups", &groups->i, 1);
  const char *each =
      raise_add(r, s, "Div", "of_a_group", channels->output[0], count, NULL)->output[0];
  Onnx__NodeProto *grid = raise_add(r, s, "Concat", "grid", count, each, NULL);
  proto_add_int(r->arena, grid, "axis", 0);
  const char *axis = raise_ints(r, s, "axes", &behind, 1),
             *flat = raise_ints(r, s, "length", &list, 1);
  for (size_t k = 1; k <= 2; k++) {
    const char *column =
        raise_add(r, s, "Unsqueeze", "column", s->node->input[k], axis, NULL)->output[0];
    const char *wide = raise_add(r, s, "Expand", "wide", column, grid->output[0], NULL)->output[0];
    raise_set_input(r, s->node, k, raise_add(r, s, "Reshape", "list", wide, flat, NULL)->output[0]);
  }
  return STATUS_OK;
}
