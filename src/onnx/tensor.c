// The contents of a TensorProto: see tensor.h. One table says of each element type how wide it is
// and which typed field holds it; everything else follows from that.
// Source: the comments of TensorProto in onnx.proto.
#include "tensor.h"

#include "format.h"
#include "round.h"

#include <math.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "typed fields are taken for raw_data as they lie in memory, which must be little-endian"
#endif

#define TYPE(name) ONNX__TENSOR_PROTO__DATA_TYPE__##name

// The fields that may hold data. External data counts as one.
enum field {
  FIELD_NONE,
  FIELD_FLOAT,
  FIELD_INT32,
  FIELD_STRING,
  FIELD_INT64,
  FIELD_DOUBLE,
  FIELD_UINT64,
  FIELD_RAW,
  FIELD_EXTERNAL,
  FIELD_COUNT
};

static const char *const field_names[FIELD_COUNT] = {"none",        "float_data", "int32_data",
                                                     "string_data", "int64_data", "double_data",
                                                     "uint64_data", "raw_data",   "external_data"};

struct element {
  const char *name;
  unsigned bits;
  enum field field;  // the typed field; FIELD_NONE: raw_data only
};

static const struct element elements[] = {
    [TYPE(FLOAT)] = {"float", 32, FIELD_FLOAT},
    [TYPE(UINT8)] = {"uint8", 8, FIELD_INT32},
    [TYPE(INT8)] = {"int8", 8, FIELD_INT32},
    [TYPE(UINT16)] = {"uint16", 16, FIELD_INT32},
    [TYPE(INT16)] = {"int16", 16, FIELD_INT32},
    [TYPE(INT32)] = {"int32", 32, FIELD_INT32},
    [TYPE(INT64)] = {"int64", 64, FIELD_INT64},
    [TYPE(STRING)] = {"string", 0, FIELD_STRING},
    [TYPE(BOOL)] = {"bool", 8, FIELD_INT32},
    [TYPE(FLOAT16)] = {"float16", 16, FIELD_INT32},
    [TYPE(DOUBLE)] = {"double", 64, FIELD_DOUBLE},
    [TYPE(UINT32)] = {"uint32", 32, FIELD_UINT64},
    [TYPE(UINT64)] = {"uint64", 64, FIELD_UINT64},
    [TYPE(COMPLEX64)] = {"complex64", 64, FIELD_FLOAT},
    [TYPE(COMPLEX128)] = {"complex128", 128, FIELD_DOUBLE},
    [TYPE(BFLOAT16)] = {"bfloat16", 16, FIELD_INT32},
    [TYPE(FLOAT8E4M3FN)] = {"float8e4m3fn", 8, FIELD_INT32},
    [TYPE(FLOAT8E4M3FNUZ)] = {"float8e4m3fnuz", 8, FIELD_INT32},
    [TYPE(FLOAT8E5M2)] = {"float8e5m2", 8, FIELD_INT32},
    [TYPE(FLOAT8E5M2FNUZ)] = {"float8e5m2fnuz", 8, FIELD_INT32},
    [TYPE(UINT4)] = {"uint4", 4, FIELD_INT32},
    [TYPE(INT4)] = {"int4", 4, FIELD_INT32},
    [TYPE(FLOAT4E2M1)] = {"float4e2m1", 4, FIELD_INT32},
    [TYPE(FLOAT8E8M0)] = {"float8e8m0", 8, FIELD_INT32},
    [TYPE(UINT2)] = {"uint2", 2, FIELD_INT32},
    [TYPE(INT2)] = {"int2", 2, FIELD_INT32},
    [TYPE(FLOAT6E2M3)] = {"float6e2m3", 6, FIELD_NONE},
    [TYPE(FLOAT6E3M2)] = {"float6e3m2", 6, FIELD_NONE},
};

static const struct element *find_element(int elem_type) {
  const int count = (int)(sizeof elements / sizeof elements[0]);
  if (elem_type < 0 || elem_type >= count || !elements[elem_type].name)
    return NULL;
  return &elements[elem_type];
}

unsigned tensor_element_bits(int elem_type) {
  const struct element *e = find_element(elem_type);
  return e ? e->bits : 0;
}

const char *tensor_type_name(int elem_type) {
  const struct element *e = find_element(elem_type);
  return e ? e->name : "undefined";
}

bool tensor_is_float(int elem_type) {
  return elem_type == TYPE(FLOAT) || elem_type == TYPE(FLOAT16) || elem_type == TYPE(BFLOAT16) ||
         elem_type == TYPE(DOUBLE);
}

// ---- Reading ----

bool tensor_extent(const Onnx__TensorProto *t, uint64_t *count, uint64_t *bytes) {
  const struct element *e = find_element(t->data_type);
  if (!e)
    return false;
  bool empty = false;
  for (size_t i = 0; i < t->n_dims; i++) {
    if (t->dims[i] < 0)
      return false;
    empty = empty || t->dims[i] == 0;
  }
  *count = !empty;
  // With a zero among them the product is 0, however large the others are.
  for (size_t i = 0; i < t->n_dims && !empty; i++) {
    if (*count > UINT64_MAX / (uint64_t)t->dims[i])
      return false;
    *count *= (uint64_t)t->dims[i];
  }
  if (*count > (INT64_MAX - 7) / (e->bits ? e->bits : 1))
    return false;
  *bytes = (*count * e->bits + 7) / 8;
  return true;
}

static size_t field_entries(const Onnx__TensorProto *t, enum field field) {
  switch (field) {
  case FIELD_FLOAT: return t->n_float_data;
  case FIELD_INT32: return t->n_int32_data;
  case FIELD_STRING: return t->n_string_data;
  case FIELD_INT64: return t->n_int64_data;
  case FIELD_DOUBLE: return t->n_double_data;
  case FIELD_UINT64: return t->n_uint64_data;
  default: return 0;
  }
}

static bool is_external(const Onnx__TensorProto *t) {
  return t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

// The one field that holds data; FIELD_NONE if there is none.
static enum status find_field(const Onnx__TensorProto *t, enum field *found, struct diag *d) {
  *found = FIELD_NONE;
  if (t->segment)
    return diag_fail(d, STATUS_MODEL, "is one segment of a tensor, which no runtime supports");
  for (enum field field = FIELD_FLOAT; field < FIELD_COUNT; field++) {
    bool here = field == FIELD_EXTERNAL ? is_external(t)
                : field == FIELD_RAW    ? t->has_raw_data && !is_external(t)
                                        : field_entries(t, field) > 0;
    if (here && *found != FIELD_NONE)
      return diag_fail(d, STATUS_MODEL,
                       "has data in both %s and %s, and readers disagree about which counts",
                       field_names[*found], field_names[field]);
    if (here)
      *found = field;
  }
  return STATUS_OK;
}

// Bytes of raw_data that one entry of the typed field stands for: where a byte holds several
// elements, so does an entry.
static unsigned entry_bytes(const struct element *e) {
  switch (e->field) {
  case FIELD_FLOAT: return 4;
  case FIELD_INT64:
  case FIELD_DOUBLE: return 8;
  default: return e->bits < 8 ? 1 : e->bits / 8;
  }
}

// int32_data of a type narrower than 32 bits. Signed and unsigned readings of the bits are both in
// use; what fits neither would be changed silently.
static enum status narrow_int32(const Onnx__TensorProto *t, unsigned width, uint8_t *out,
                                struct diag *d) {
  const int32_t high = (int32_t)1 << (8 * width);
  for (size_t i = 0; i < t->n_int32_data; i++) {
    int32_t v = t->int32_data[i];
    if (v < -high / 2 || v >= high)
      return diag_fail(d, STATUS_MODEL, "element %zu of its int32_data is %d, too large for %s", i,
                       (int)v, tensor_type_name(t->data_type));
    if (t->data_type == TYPE(BOOL))
      v = v != 0;
    memcpy(out + i * width, &v, width);  // the low bytes
  }
  return STATUS_OK;
}

static enum status narrow_uint64(const Onnx__TensorProto *t, uint8_t *out, struct diag *d) {
  for (size_t i = 0; i < t->n_uint64_data; i++) {
    uint64_t v = t->uint64_data[i];
    if (v > UINT32_MAX)
      return diag_fail(d, STATUS_MODEL, "element %zu of its uint64_data is too large for uint32",
                       i);
    memcpy(out + i * 4, &v, 4);
  }
  return STATUS_OK;
}

static enum status read_typed(const Onnx__TensorProto *t, const struct element *e, struct arena *a,
                              struct tensor *out, struct diag *d) {
  unsigned width = entry_bytes(e);
  uint64_t need = e->field == FIELD_STRING ? out->count : out->size / width;
  size_t found = field_entries(t, e->field);
  if (found != need)
    return diag_fail(d, STATUS_MODEL, "has %zu entries in %s; its type and shape ask for %llu",
                     found, field_names[e->field], (unsigned long long)need);
  uint8_t *copy;
  switch (e->field) {
  case FIELD_FLOAT: out->data = (const uint8_t *)t->float_data; return STATUS_OK;
  case FIELD_INT64: out->data = (const uint8_t *)t->int64_data; return STATUS_OK;
  case FIELD_DOUBLE: out->data = (const uint8_t *)t->double_data; return STATUS_OK;
  case FIELD_INT32:
    out->data = (const uint8_t *)t->int32_data;
    if (width == 4)
      return STATUS_OK;
    out->data = copy = arena_alloc(a, out->size);
    return narrow_int32(t, width, copy, d);
  case FIELD_UINT64:
    out->data = (const uint8_t *)t->uint64_data;
    if (width == 8)
      return STATUS_OK;
    out->data = copy = arena_alloc(a, out->size);
    return narrow_uint64(t, copy, d);
  default: return STATUS_OK;
  }
}

static enum status check_size(const struct tensor *out, size_t size, enum field field,
                              struct diag *d) {
  if (size == out->size)
    return STATUS_OK;
  diag_hint(d, "The model is damaged, or its tensor declares a wrong type or shape.");
  return diag_fail(d, STATUS_MODEL, "has %zu bytes of %s; its type (%s) and shape ask for %zu",
                   size, field_names[field], tensor_type_name(out->elem_type), out->size);
}

static enum status read_data(struct model *m, const Onnx__TensorProto *t, const struct element *e,
                             struct arena *a, struct tensor *out, struct diag *d) {
  static const uint8_t nothing[1];
  enum field field;
  size_t size;
  TRY(find_field(t, &field, d));
  if (field == FIELD_NONE && out->count == 0) {
    out->data = e->field == FIELD_STRING ? NULL : nothing;
    return STATUS_OK;
  }
  if (field == FIELD_NONE)
    return diag_fail(d, STATUS_MODEL, "has no data, but its shape asks for %llu elements",
                     (unsigned long long)out->count);
  if (e->field == FIELD_STRING && field != FIELD_STRING)
    return diag_fail(d, STATUS_MODEL, "is of strings, which %s cannot hold", field_names[field]);
  if (field == FIELD_EXTERNAL) {
    TRY(model_external(m, t, &out->data, &size, d));
    return check_size(out, size, field, d);
  }
  if (field == FIELD_RAW) {
    out->data = t->raw_data.data;
    return check_size(out, t->raw_data.len, field, d);
  }
  if (field == e->field)
    return read_typed(t, e, a, out, d);
  return diag_fail(d, STATUS_MODEL, "is of type %s, but its data is in %s", e->name,
                   field_names[field]);
}

static enum status read_tensor(struct model *m, const Onnx__TensorProto *t, struct arena *a,
                               struct tensor *out, struct diag *d) {
  const struct element *e = find_element(t->data_type);
  uint64_t bytes = 0;
  if (!e)
    return diag_fail(d, STATUS_MODEL, "has an unknown element type (%d)", (int)t->data_type);
  for (size_t i = 0; i < t->n_dims; i++)
    if (t->dims[i] < 0)
      return diag_fail(d, STATUS_MODEL, "has a negative dimension (%lld)", (long long)t->dims[i]);
  *out = (struct tensor){.name = t->name ? t->name : "",
                         .elem_type = t->data_type,
                         .rank = t->n_dims,
                         .dims = t->dims};
  if (!tensor_extent(t, &out->count, &bytes) || bytes > SIZE_MAX)
    return diag_fail(d, STATUS_MODEL, "has a shape whose number of elements overflows");
  out->size = (size_t)bytes;
  return read_data(m, t, e, a, out, d);
}

enum status tensor_read(struct model *m, const Onnx__TensorProto *t, struct arena *a,
                        struct tensor *out, struct diag *d) {
  enum status status = read_tensor(m, t, a, out, d);
  if (status != STATUS_OK)
    diag_at(d, d->file[0] || !m ? NULL : m->path, NULL, t->name);
  return status;
}

// ---- Values ----

// Element i of `bits` (2 or 4) bits; the first is in the lowest bits of its byte.
static unsigned part(const uint8_t *data, uint64_t i, unsigned bits) {
  unsigned per_byte = 8 / bits;
  unsigned shift = (unsigned)(i % per_byte) * bits;
  return (unsigned)(data[i / per_byte] >> shift) & ((1u << bits) - 1);
}

static int sign_extend(unsigned value, unsigned bits) {
  return value >> (bits - 1) ? (int)value - (1 << bits) : (int)value;
}

#define AS_FLOAT(type)                                                                             \
  for (uint64_t i = 0; i < t->count; i++) {                                                        \
    type v;                                                                                        \
    memcpy(&v, t->data + i * sizeof v, sizeof v);                                                  \
    out[i] = (float)v;                                                                             \
  }                                                                                                \
  return true

static bool integers_to_float(const struct tensor *t, float *out) {
  unsigned bits = tensor_element_bits(t->elem_type);
  switch (t->elem_type) {
  case TYPE(UINT8): AS_FLOAT(uint8_t);
  case TYPE(INT8): AS_FLOAT(int8_t);
  case TYPE(UINT16): AS_FLOAT(uint16_t);
  case TYPE(INT16): AS_FLOAT(int16_t);
  case TYPE(INT32): AS_FLOAT(int32_t);
  case TYPE(INT64): AS_FLOAT(int64_t);
  case TYPE(UINT32): AS_FLOAT(uint32_t);
  case TYPE(UINT64): AS_FLOAT(uint64_t);
  case TYPE(BOOL):
    for (uint64_t i = 0; i < t->count; i++)
      out[i] = t->data[i] ? 1 : 0;
    return true;
  case TYPE(UINT4):
  case TYPE(UINT2):
    for (uint64_t i = 0; i < t->count; i++)
      out[i] = (float)part(t->data, i, bits);
    return true;
  case TYPE(INT4):
  case TYPE(INT2):
    for (uint64_t i = 0; i < t->count; i++)
      out[i] = (float)sign_extend(part(t->data, i, bits), bits);
    return true;
  default: return false;
  }
}

static bool doubles_to_float(const struct tensor *t, float *out) {
  AS_FLOAT(double);
}

// Powers of two, for the scales of block formats (OCP Microscaling Formats 1.0, 5.4.1).
static bool e8m0_to_float(const struct tensor *t, float *out) {
  for (uint64_t i = 0; i < t->count; i++)
    out[i] = t->data[i] == 0xff ? NAN : ldexpf(1, (int)t->data[i] - 127);
  return true;
}

bool tensor_to_float(const struct tensor *t, float *out) {
  const struct format *f = format_from_onnx(t->elem_type);
  if (t->elem_type == TYPE(DOUBLE))
    return doubles_to_float(t, out);
  if (t->elem_type == TYPE(FLOAT8E8M0))
    return e8m0_to_float(t, out);
  if (!f)
    return integers_to_float(t, out);
  if (t->elem_type == TYPE(FLOAT) && t->count)
    memcpy(out, t->data, t->size);
  else if (t->count)
    round_decode_array(f, t->data, out, (size_t)t->count);
  return true;
}

// Member by member: the block itself need not be cleared, which would take longest of all where
// constants are small and many.
void tensor_begin(struct tensor_blocks *b, struct model *m, const struct tensor *t) {
  b->model = m;
  b->tensor = t;
  b->at = b->next = 0;
  b->n = 0;
}

bool tensor_next(struct tensor_blocks *b) {
  const struct tensor *t = b->tensor;
  unsigned bits = tensor_element_bits(t->elem_type);
  model_passed(b->model, b->n * bits / 8);
  b->at = b->next;
  b->n = t->count - b->at < TENSOR_BLOCK ? (size_t)(t->count - b->at) : TENSOR_BLOCK;
  b->next += b->n;
  struct tensor part = *t;
  part.data = t->data + b->at * bits / 8;  // blocks end with whole bytes
  part.count = b->n;
  part.size = (b->n * bits + 7) / 8;
  return b->n > 0 && tensor_to_float(&part, b->x);
}

Onnx__TensorProto *tensor_new(struct arena *a, const char *name, int elem_type, size_t rank,
                              const int64_t *dims, const uint8_t *data, size_t size) {
  Onnx__TensorProto *t = arena_alloc(a, sizeof *t);
  onnx__tensor_proto__init(t);
  t->name = name ? arena_strdup(a, name) : NULL;
  t->has_data_type = true;
  t->data_type = elem_type;
  t->n_dims = rank;
  t->dims = arena_array(a, rank, sizeof *t->dims);
  if (rank)
    memcpy(t->dims, dims, rank * sizeof *dims);
  t->has_raw_data = true;
  t->raw_data = (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)data};
  return t;
}
