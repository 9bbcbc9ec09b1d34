// Reads .safetensors files: eight bytes with the header's length, a JSON header that gives each
// tensor's type, shape and place, and the elements.
#include "file.h"
#include "json.h"
#include "onnx.pb-c.h"
#include "samples_format.h"

#include <string.h>

static const size_t max_header = 100000000;  // bytes, as in the reference implementation

static const struct {
  const char *name;
  size_t item;
  int elem_type;
} types[] = {
    {"F32", 4, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT},
    {"F16", 2, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16},
    {"BF16", 2, ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16},
    {"F64", 8, ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE},
    {"I64", 8, ONNX__TENSOR_PROTO__DATA_TYPE__INT64},
    {"I32", 4, ONNX__TENSOR_PROTO__DATA_TYPE__INT32},
    {"I16", 2, ONNX__TENSOR_PROTO__DATA_TYPE__INT16},
    {"I8", 1, ONNX__TENSOR_PROTO__DATA_TYPE__INT8},
    {"U64", 8, ONNX__TENSOR_PROTO__DATA_TYPE__UINT64},
    {"U32", 4, ONNX__TENSOR_PROTO__DATA_TYPE__UINT32},
    {"U16", 2, ONNX__TENSOR_PROTO__DATA_TYPE__UINT16},
    {"U8", 1, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8},
    {"BOOL", 1, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL},
    {"F8_E4M3", 1, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FN},
    {"F8_E5M2", 1, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E5M2},
};

// The integer that a JSON number is, if it is one from 0 to 2^53.
static bool get_size(const struct json *number, int64_t *out) {
  if (!json_is(number, JSON_NUMBER))
    return false;
  double value = number->number;
  if (!(value >= 0 && value <= 9007199254740992.0) || value != (double)(int64_t)value)
    return false;
  *out = (int64_t)value;
  return true;
}

static enum status get_shape(const struct json *shape, struct array *array, struct diag *d) {
  if (!json_is(shape, JSON_ARRAY))
    return diag_fail(d, STATUS_DATA, "the tensor has no 'shape'");
  const struct json *dim;
  for (dim = json_first(shape); dim; dim = dim->next) {
    if (array->rank == ARRAY_MAX_RANK)
      return diag_fail(d, STATUS_DATA, "the tensor has more than %d dimensions", ARRAY_MAX_RANK);
    if (!get_size(dim, &array->dims[array->rank++]))
      return diag_fail(d, STATUS_DATA, "the tensor's 'shape' holds something else than sizes");
  }
  return STATUS_OK;
}

static enum status get_type(const struct json *dtype, struct array *array, size_t *item,
                            struct diag *d) {
  if (!json_is(dtype, JSON_STRING))
    return diag_fail(d, STATUS_DATA, "the tensor has no 'dtype'");
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strcmp(types[i].name, dtype->text) == 0) {
      array->elem_type = types[i].elem_type;
      *item = types[i].item;
      return STATUS_OK;
    }
  return diag_fail(d, STATUS_DATA, "element type '%.40s' cannot be read", dtype->text);
}

static enum status read_tensor(struct array_list *list, const struct json *tensor,
                               const uint8_t *data, size_t size, struct diag *d) {
  if (!json_is(tensor, JSON_OBJECT))
    return diag_fail(d, STATUS_DATA, "the header's entry is not an object");
  struct array *array = array_list_add(list, arena_strdup(list->arena, tensor->key));
  size_t item = 0;
  uint64_t count, bytes;
  TRY(get_type(json_member(tensor, "dtype"), array, &item, d));
  TRY(get_shape(json_member(tensor, "shape"), array, d));
  if (!array_extent(array->dims, array->rank, item, &count, &bytes))
    return diag_fail(d, STATUS_DATA, "the tensor's size overflows");
  const struct json *offsets = json_member(tensor, "data_offsets");
  int64_t begin, end;
  if (!json_is(offsets, JSON_ARRAY) || json_count(offsets) != 2 ||
      !get_size(json_element(offsets, 0), &begin) || !get_size(json_element(offsets, 1), &end) ||
      begin > end)
    return diag_fail(d, STATUS_DATA, "the tensor's 'data_offsets' are not two ascending offsets");
  if ((uint64_t)end > size)
    return diag_fail(d, STATUS_DATA, "the tensor ends at byte %lld and the file holds %zu",
                     (long long)end, size);
  if ((uint64_t)(end - begin) != bytes)
    return diag_fail(d, STATUS_DATA, "the shape says %llu bytes and 'data_offsets' %lld",
                     (unsigned long long)bytes, (long long)(end - begin));
  array->size = (size_t)bytes;
  if (!list->headers_only)
    array_copy_data(list, array, data + begin, array->size);
  return STATUS_OK;
}

static enum status read_tensors(struct array_list *list, const struct json *header,
                                const uint8_t *data, size_t size, struct diag *d) {
  if (!json_is(header, JSON_OBJECT))
    return diag_fail(d, STATUS_DATA, "the header is not a JSON object");
  size_t total = 0;
  const struct json *tensor;
  for (tensor = json_first(header); tensor; tensor = tensor->next) {
    if (strcmp(tensor->key, "__metadata__") == 0)
      continue;
    diag_at(d, NULL, NULL, tensor->key);
    TRY(read_tensor(list, tensor, data, size, d));
    // Overlapping tensors would let a small file ask for much memory.
    total += list->items[list->count - 1].size;
    if (total > size)
      return diag_fail(d, STATUS_DATA, "tensors overlap in the file");
  }
  return STATUS_OK;
}

static enum status read_mapped(struct array_list *list, const char *path, const uint8_t *bytes,
                               size_t size, struct diag *d) {
  if (size < 8)
    return diag_fail(d, STATUS_DATA, "the file is too short (%zu bytes)", size);
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--)
    length = length << 8 | bytes[i];
  if (length > max_header || length > size - 8)
    return diag_fail(d, STATUS_DATA, "the header claims %llu bytes and the file holds %zu",
                     (unsigned long long)length, size - 8);
  if (memchr(bytes + 8, 0, (size_t)length))
    return diag_fail(d, STATUS_DATA, "the header holds a NUL");
  char *text = arena_alloc(list->arena, (size_t)length + 1);
  memcpy(text, bytes + 8, (size_t)length);
  const struct json *header;
  TRY(json_parse(&header, text, path, STATUS_DATA, list->arena, d));
  return read_tensors(list, header, bytes + 8 + length, size - 8 - (size_t)length, d);
}

enum status samples_read_safetensors(struct array_list *list, const char *path, struct diag *d) {
  const uint8_t *bytes;
  size_t size;
  diag_at(d, path, NULL, "");
  TRY(file_map(path, &bytes, &size, d));
  enum status status = read_mapped(list, path, bytes, size, d);
  file_unmap(bytes, size);
  if (status == STATUS_OK)
    diag_at(d, "", NULL, "");
  return status;
}
