// The models that a careless writer makes of a good one: each field of each of its messages left
// out, and each empty, one at a time. A minute of fuzzing meets a few of them; this meets all.
#include "fuzz.h"

#include "onnx.pb-c.h"

#include <stdlib.h>
#include <string.h>

struct walk {
  Onnx__ModelProto *model;
  const uint8_t *choices;  // what follows the model in the input
  size_t n_choices, count;
};

static void try_model(struct walk *w) {
  size_t size = onnx__model_proto__get_packed_size(w->model);
  uint8_t *bytes = malloc(size + w->n_choices + 1);
  fuzz_require(bytes, "no memory");
  onnx__model_proto__pack(w->model, bytes);
  memcpy(bytes + size, w->choices, w->n_choices);
  LLVMFuzzerTestOneInput(bytes, size + w->n_choices);
  free(bytes);
  w->count++;
}

static void walk_message(struct walk *w, ProtobufCMessage *m);

// Tries the model with *place being `other`.
static void try_with(struct walk *w, void *place, const void *other, size_t size) {
  uint8_t before[sizeof(ProtobufCBinaryData)];
  fuzz_require(size <= sizeof before, "a field of %zu bytes", size);
  memcpy(before, place, size);
  memcpy(place, other, size);
  try_model(w);
  memcpy(place, before, size);
}

static void walk_pointer(struct walk *w, const ProtobufCFieldDescriptor *field, void **place,
                         bool may_be_null) {
  static char nothing[] = "";
  void *text = nothing, *none = NULL;
  if (may_be_null)
    try_with(w, place, &none, sizeof none);
  if (field->type == PROTOBUF_C_TYPE_STRING) {
    try_with(w, place, &text, sizeof text);
    return;
  }
  const ProtobufCMessageDescriptor *type = field->descriptor;
  ProtobufCMessage *empty = calloc(1, type->sizeof_message);
  fuzz_require(empty, "no memory");
  type->message_init(empty);
  try_with(w, place, &empty, sizeof empty);
  free(empty);
  walk_message(w, *place);
}

static void walk_field(struct walk *w, ProtobufCMessage *m, const ProtobufCFieldDescriptor *field) {
  void *place = (uint8_t *)m + field->offset, *quantifier = (uint8_t *)m + field->quantifier_offset;
  bool is_pointer = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;
  if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    size_t count = *(size_t *)quantifier, none = 0;
    if (count)
      try_with(w, quantifier, &none, sizeof none);
    for (size_t i = 0; is_pointer && i < count; i++)
      walk_pointer(w, field, *(void ***)place + i, false);
  } else if (is_pointer) {
    if (*(void **)place)
      walk_pointer(w, field, place, true);
  } else if (*(protobuf_c_boolean *)quantifier) {
    const ProtobufCBinaryData nothing = {0};
    const protobuf_c_boolean absent = false;
    try_with(w, quantifier, &absent, sizeof absent);
    if (field->type == PROTOBUF_C_TYPE_BYTES)
      try_with(w, place, &nothing, sizeof nothing);
  }
}

static void walk_message(struct walk *w, ProtobufCMessage *m) {
  for (unsigned f = 0; f < m->descriptor->n_fields; f++)
    walk_field(w, m, &m->descriptor->fields[f]);
}

size_t fuzz_each_field(const uint8_t *data, size_t size) {
  size_t model_size = fuzz_model_size(data, size);
  struct walk w = {.model = onnx__model_proto__unpack(NULL, model_size, data),
                   .choices = data + model_size,
                   .n_choices = size - model_size};
  if (w.model) {
    walk_message(&w, &w.model->base);
    onnx__model_proto__free_unpacked(w.model, NULL);
  }
  return w.count;
}
