// Adapters for what newer versions of an operator want in another place or under another name, and
// for defaults that changed: see raise_adapters.h.
#include "raise_adapters.h"

#include "proto.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

static void set_ints(struct raising *r, const struct subject *s, size_t k, const char *what,
                     const int64_t *values, size_t n) {
  raise_set_input(r, s->node, k, raise_ints(r, s, what, values, n));
}

static void set_int(struct raising *r, const struct subject *s, size_t k, const char *what,
                    int64_t value) {
  int64_t *copy = arena_alloc(r->arena, sizeof *copy);
  *copy = value;
  Onnx__TensorProto *t = tensor_new(r->arena, NULL, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 0,
                                    (const int64_t[]){0}, (const uint8_t *)copy, sizeof *copy);
  raise_set_input(r, s->node, k, raise_constant(r, s, what, t));
}

// A scalar of the element type of the subject's first input.
static enum status set_scalar(struct raising *r, const struct subject *s, size_t k,
                              const char *what, float value) {
  const char *name;
  TRY(raise_values(r, s, what, &value, 1, 0, &name));
  raise_set_input(r, s->node, k, name);
  return STATUS_OK;
}

// ---- attributes that become inputs ----

enum status raise_ints_to_input(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *ints;
  TRY(raise_take(r, s, s->how->name, &ints));
  if (ints && ints->n_ints)  // no axes: all of them, as without the input
    set_ints(r, s, (size_t)s->how->input, s->how->name, ints->ints, ints->n_ints);
  return STATUS_OK;
}

enum status raise_new_shape(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *shape;
  TRY(raise_take(r, s, "shape", &shape));
  set_ints(r, s, 1, "shape", shape ? shape->ints : NULL, shape ? shape->n_ints : 0);
  return STATUS_OK;
}

enum status raise_pad(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *pads, *value;
  TRY(raise_take(r, s, "pads", &pads));
  TRY(raise_take(r, s, "value", &value));
  set_ints(r, s, 1, "pads", pads ? pads->ints : NULL, pads ? pads->n_ints : 0);
  if (value && value->f != 0)
    return set_scalar(r, s, 2, "value", value->f);
  return STATUS_OK;
}

enum status raise_clip(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *least, *most;
  TRY(raise_take(r, s, "min", &least));
  TRY(raise_take(r, s, "max", &most));
  if (least)
    TRY(set_scalar(r, s, 1, "min", least->f));
  if (most)
    TRY(set_scalar(r, s, 2, "max", most->f));
  return STATUS_OK;
}

enum status raise_slice(struct raising *r, const struct subject *s) {
  static const char *const names[] = {"starts", "ends", "axes"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    Onnx__AttributeProto *ints;
    TRY(raise_take(r, s, names[i], &ints));
    if (ints)
      set_ints(r, s, i + 1, names[i], ints->ints, ints->n_ints);
  }
  return STATUS_OK;
}

enum status raise_top_k(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *k;
  TRY(raise_take(r, s, "k", &k));
  if (!k)
    return raise_refuse(r, s, "wants k, which is missing here");
  set_ints(r, s, 1, "k", &k->i, 1);
  return STATUS_OK;
}

enum status raise_dropout_ratio(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *ratio;
  TRY(raise_mask(r, s));
  TRY(raise_take(r, s, "ratio", &ratio));
  return ratio ? set_scalar(r, s, 1, "ratio", ratio->f) : STATUS_OK;
}

enum status raise_upsample_scales(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *scales;
  TRY(raise_take(r, s, "scales", &scales));
  if (!scales)
    return raise_refuse(r, s, "wants scales, which are missing here");
  raise_set_input(r, s->node, 1, raise_floats(r, s, "scales", scales->floats, scales->n_floats));
  return STATUS_OK;
}

enum status raise_dft(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *axis;
  TRY(raise_take(r, s, "axis", &axis));
  set_int(r, s, 2, "axis", axis ? axis->i : 1);  // the default, which changed
  return STATUS_OK;
}

// ---- other names, types and defaults ----

enum status raise_drop(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *dropped;
  return raise_take(r, s, s->how->name, &dropped);
}

// The type was a name, and is a number.
enum status raise_cast(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *to;
  int v = r->graph->nodes[s->id].outputs[0];
  TRY(raise_take(r, s, "to", &to));
  if (v < 0 || r->graph->values[v].type.kind != TYPE_TENSOR)
    return raise_refuse(r, s, "wants a type, which is not known here");
  proto_add_int(r->arena, s->node, "to", r->graph->values[v].type.elem_type);
  return STATUS_OK;
}

enum status raise_concat(struct raising *r, const struct subject *s) {
  if (!node_attribute(s->node, "axis"))
    proto_add_int(r->arena, s->node, "axis", 1);
  return STATUS_OK;
}

enum status raise_paddings(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *paddings = node_attribute(s->node, "paddings");
  if (paddings)
    paddings->name = arena_strdup(r->arena, "pads");
  return STATUS_OK;
}

enum status raise_whole_p(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *p;
  TRY(raise_take(r, s, "p", &p));
  if (p && !(p->f == floorf(p->f) && p->f >= 1 && p->f <= 1000))
    return raise_refuse(r, s, "has a whole number for p");
  if (p)
    proto_add_int(r->arena, s->node, "p", (int64_t)p->f);
  return STATUS_OK;
}

enum status raise_selu(struct raising *r, const struct subject *s) {
  if (!node_attribute(s->node, "alpha"))
    proto_add_float(r->arena, s->node, "alpha", 1.6732f);
  if (!node_attribute(s->node, "gamma"))
    proto_add_float(r->arena, s->node, "gamma", 1.0507f);
  return STATUS_OK;
}

enum status raise_axis_of_split(struct raising *r, const struct subject *s) {
  return node_attribute(s->node, "axis") ? STATUS_OK
                                         : raise_refuse(r, s, "wants an axis, which is missing");
}

enum status raise_split_sizes(struct raising *r, const struct subject *s) {
  if (s->node->n_input < 2 || !s->node->input[1][0])
    proto_add_int(r->arena, s->node, "num_outputs", (int64_t)s->node->n_output);
  return STATUS_OK;
}

enum status raise_upsample_sides(struct raising *r, const struct subject *s) {
  Onnx__AttributeProto *height, *width, *mode;
  TRY(raise_take(r, s, "height_scale", &height));
  TRY(raise_take(r, s, "width_scale", &width));
  if (!height || !width)
    return raise_refuse(r, s, "wants scales, which are missing here");
  if (raise_attribute_says(s, "mode", "bilinear")) {
    TRY(raise_take(r, s, "mode", &mode));
    proto_add_string(r->arena, s->node, "mode", "linear");
  }
  proto_add_floats(r->arena, s->node, "scales", (const float[]){1, 1, height->f, width->f}, 4);
  return STATUS_OK;
}

enum status raise_to_scatter_elements(struct raising *r, const struct subject *s) {
  s->node->op_type = arena_strdup(r->arena, "ScatterElements");
  return STATUS_OK;
}

enum status raise_roi_align(struct raising *r, const struct subject *s) {
  proto_add_string(r->arena, s->node, "coordinate_transformation_mode", "output_half_pixel");
  return STATUS_OK;
}

enum status raise_grid_sample(struct raising *r, const struct subject *s) {
  const char *mode = raise_attribute_says(s, "mode", "bilinear")  ? "linear"
                     : raise_attribute_says(s, "mode", "bicubic") ? "cubic"
                                                                  : NULL;
  Onnx__AttributeProto *old;
  if (mode) {
    TRY(raise_take(r, s, "mode", &old));
    proto_add_string(r->arena, s->node, "mode", mode);
  }
  return STATUS_OK;
}
