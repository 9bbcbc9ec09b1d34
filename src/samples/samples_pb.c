// Reads ONNX test data: .pb files that hold one TensorProto each. The wire format is walked with
// limits before protobuf-c sees a byte, as for models.
#include "file.h"
#include "samples_format.h"
#include "tensor.h"
#include "wire.h"

#include <string.h>

// Depth 2: a tensor, and its segment, external data and metadata entries.
static const struct model_limits limits = {
    .depth = 2, .messages = 100000, .fields = 1 << 28, .string_bytes = 1 << 20};

static enum status fill_strings(struct array_list *list, struct array *array,
                                const Onnx__TensorProto *t, uint64_t count, struct diag *d) {
  if (t->n_string_data != count)
    return diag_fail(d, STATUS_DATA, "the shape says %llu strings and the file holds %zu",
                     (unsigned long long)count, t->n_string_data);
  array->strings = arena_array(list->arena, t->n_string_data, sizeof *array->strings);
  for (size_t i = 0; i < t->n_string_data; i++) {
    const ProtobufCBinaryData *s = &t->string_data[i];
    if (s->len && memchr(s->data, 0, s->len))
      return diag_fail(d, STATUS_DATA, "string %zu holds a NUL", i);
    array->strings[i] = arena_alloc(list->arena, s->len + 1);
    if (s->len)
      memcpy(array->strings[i], s->data, s->len);
  }
  return STATUS_OK;
}

static enum status fill(struct array_list *list, struct array *array, const Onnx__TensorProto *t,
                        struct diag *d) {
  uint64_t count, bytes;
  if (t->n_dims > ARRAY_MAX_RANK)
    return diag_fail(d, STATUS_DATA, "the tensor has more than %d dimensions", ARRAY_MAX_RANK);
  if (!array_extent(t->dims, t->n_dims, 1, &count, &bytes))
    return diag_fail(d, STATUS_DATA, "a dimension is negative, or the tensor's size overflows");
  if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL || t->n_external_data)
    return diag_fail(d, STATUS_DATA, "the tensor's data is in another file");
  if (t->segment)
    return diag_fail(d, STATUS_DATA, "the file holds only a segment of a tensor");
  array->elem_type = t->data_type;
  array->rank = t->n_dims;
  if (t->n_dims)
    memcpy(array->dims, t->dims, t->n_dims * sizeof *t->dims);
  if (t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING)
    return fill_strings(list, array, t, count, d);
  struct model none = {.arena = list->arena, .path = d->file, .directory = "."};
  struct tensor tensor;
  TRY(tensor_read(&none, t, list->arena, &tensor, d));
  array->size = tensor.size;
  if (!list->headers_only)
    array_copy_data(list, array, tensor.data, tensor.size);
  return STATUS_OK;
}

// Gives the unpacked message its raw_data back: the slim copy has an index in its place.
static enum status restore_raw(Onnx__TensorProto *t, const struct wire *w, const uint8_t *bytes,
                               struct diag *d) {
  if (!t->has_raw_data)
    return STATUS_OK;
  uint32_t index = 0;
  for (size_t i = 0; i < t->raw_data.len && i < 4; i++)
    index |= (uint32_t)t->raw_data.data[i] << 8 * i;
  if (t->raw_data.len != 4 || index >= w->n_raw)
    return diag_fail(d, STATUS_DATA, "the tensor's raw_data is damaged");
  t->raw_data.len = w->raw[index].length;
  t->raw_data.data = (uint8_t *)bytes + w->raw[index].offset;
  return STATUS_OK;
}

static enum status unpack(struct array_list *list, const struct wire *w, const uint8_t *bytes,
                          struct diag *d) {
  ProtobufCAllocator allocator = arena_protobuf(list->arena);
  Onnx__TensorProto *t = onnx__tensor_proto__unpack(&allocator, w->size, w->slim);
  if (!t || (!t->has_data_type && !t->n_dims && !t->has_raw_data))
    return diag_fail(d, STATUS_DATA, "the file does not hold a TensorProto");
  TRY(restore_raw(t, w, bytes, d));
  const char *name = t->name ? t->name : "";
  diag_at(d, NULL, NULL, name);
  return fill(list, array_list_add(list, name), t, d);
}

enum status samples_read_pb(struct array_list *list, const char *path, struct diag *d) {
  const uint8_t *bytes;
  size_t size;
  struct wire w;
  diag_at(d, path, NULL, "");
  TRY(file_map(path, &bytes, &size, d));
  enum status status = wire_walk(&w, &onnx__tensor_proto__descriptor, bytes, size, &limits, d);
  if (status == STATUS_OK) {
    status = unpack(list, &w, bytes, d);
    wire_free(&w);
  }
  file_unmap(bytes, size);
  // What is a bad model to the readers that are shared with model.c is bad data here.
  if (status == STATUS_MODEL) {
    status = d->status = STATUS_DATA;
    diag_hint(d, "The file is damaged, or holds something else than a TensorProto.");
  }
  if (status == STATUS_OK)
    diag_at(d, "", NULL, "");
  return status;
}
