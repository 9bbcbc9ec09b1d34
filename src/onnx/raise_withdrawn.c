// Adapters for the experimental operators of the first opsets that ONNX withdrew in 10, and that
// exporters of the time wrote: each is a few operators of today. See raise_adapters.h.
#include "raise_adapters.h"

#include "proto.h"

#include <string.h>

static void become(struct raising *r, const struct subject *s, const char *op, const char *first,
                   const char *second) {
  s->node->op_type = arena_strdup(r->arena, op);
  s->node->n_attribute = 0;
  raise_set_input(r, s->node, 0, first);
  raise_set_input(r, s->node, 1, second);
}

// The value of a float attribute, as a scalar of the type of the subject's input.
static enum status scalar_of(struct raising *r, const struct subject *s, const char *name,
                             const float *before, const char **out) {
  Onnx__AttributeProto *attribute;
  TRY(raise_take(r, s, name, &attribute));
  if (!attribute && !before)
    return raise_refuse(r, s, "was withdrawn, and here an attribute is missing");
  float value = attribute ? attribute->f : *before;
  return raise_values(r, s, name, &value, 1, 0, out);
}

// alpha x + beta
enum status raise_affine(struct raising *r, const struct subject *s) {
  static const float one = 1, zero = 0;
  const char *alpha, *beta;
  TRY(scalar_of(r, s, "alpha", &one, &alpha));
  TRY(scalar_of(r, s, "beta", &zero, &beta));
  const char *product = raise_add(r, s, "Mul", "scaled", s->node->input[0], alpha, NULL)->output[0];
  become(r, s, "Add", product, beta);
  return STATUS_OK;
}

enum status raise_scale(struct raising *r, const struct subject *s) {
  static const float one = 1;
  const char *scale;
  TRY(scalar_of(r, s, "scale", &one, &scale));
  become(r, s, "Mul", s->node->input[0], scale);
  return STATUS_OK;
}

// alpha f(beta x), where the row of the table names f.
enum status raise_scaled_function(struct raising *r, const struct subject *s) {
  const char *alpha, *beta;
  TRY(scalar_of(r, s, "alpha", NULL, &alpha));
  TRY(scalar_of(r, s, "beta", NULL, &beta));
  const char *inner = raise_add(r, s, "Mul", "scaled", s->node->input[0], beta, NULL)->output[0];
  const char *value = raise_add(r, s, s->how->name, "value", inner, NULL)->output[0];
  become(r, s, "Mul", value, alpha);
  return STATUS_OK;
}

// scale x + bias, one for each channel
enum status raise_image_scaler(struct raising *r, const struct subject *s) {
  static const float one = 1;
  Onnx__AttributeProto *bias;
  const char *scale, *biases;
  TRY(scalar_of(r, s, "scale", &one, &scale));
  TRY(raise_take(r, s, "bias", &bias));
  if (!bias)
    return raise_refuse(r, s, "was withdrawn, and here its bias is missing");
  TRY(raise_values(r, s, "bias", bias->floats, bias->n_floats, 3, &biases));
  const char *product = raise_add(r, s, "Mul", "scaled", s->node->input[0], scale, NULL)->output[0];
  become(r, s, "Add", product, biases);
  return STATUS_OK;
}

// What is left without a border, or height and width from its corner on.
enum status raise_crop(struct raising *r, const struct subject *s) {
  static const int64_t axes[] = {2, 3};
  Onnx__AttributeProto *border, *size;
  TRY(raise_take(r, s, "border", &border));
  TRY(raise_take(r, s, "scale", &size));
  if (!border || border->n_ints != 4 || (size && size->n_ints != 2))
    return raise_refuse(r, s, "was withdrawn, and here its border is missing");
  int64_t starts[] = {border->ints[1], border->ints[0]}, ends[2];
  for (int i = 0; i < 2; i++) {
    int64_t behind = border->ints[i == 0 ? 3 : 2];
    if (starts[i] < 0 || behind < 0 || starts[i] > INT32_MAX || behind > INT32_MAX ||
        (size && (size->ints[i] < 0 || size->ints[i] > INT32_MAX)))
      return raise_refuse(r, s, "was withdrawn, and here its border is out of range");
    ends[i] = size ? starts[i] + size->ints[i] : behind ? -behind : INT64_MAX;
  }
  const char *from = raise_ints(r, s, "starts", starts, 2), *to = raise_ints(r, s, "ends", ends, 2);
  become(r, s, "Slice", s->node->input[0], from);
  raise_set_input(r, s->node, 2, to);
  raise_set_input(r, s->node, 3, raise_ints(r, s, "axes", axes, 2));
  return STATUS_OK;
}

enum status raise_to_slice(struct raising *r, const struct subject *s) {
  s->node->op_type = arena_strdup(r->arena, "Slice");
  return STATUS_OK;
}
