// Reads NumPy's .npy files, versions 1.0 to 3.0: a magic number, a header that is the text of a
// Python dictionary, and the elements. The header is parsed strictly, so that a file that NumPy did
// not write is refused with a reason instead of being misread. Elements of the other byte order are
// swapped, column-major ones transposed, fixed-width strings converted.
#include "file.h"
#include "onnx.pb-c.h"
#include "samples_format.h"

#include <string.h>

enum { MAX_HEADER = 1 << 20 };  // bytes; NumPy's own are under 200

// The dictionary's text that is left to parse.
struct cursor {
  const char *at, *end;
};

struct npy_type {
  char kind;
  size_t item;
  int elem_type;
};
static const struct npy_type npy_types[] = {
    {'f', 4, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT},
    {'f', 8, ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE},
    {'f', 2, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16},
    {'i', 1, ONNX__TENSOR_PROTO__DATA_TYPE__INT8},
    {'i', 2, ONNX__TENSOR_PROTO__DATA_TYPE__INT16},
    {'i', 4, ONNX__TENSOR_PROTO__DATA_TYPE__INT32},
    {'i', 8, ONNX__TENSOR_PROTO__DATA_TYPE__INT64},
    {'u', 1, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8},
    {'u', 2, ONNX__TENSOR_PROTO__DATA_TYPE__UINT16},
    {'u', 4, ONNX__TENSOR_PROTO__DATA_TYPE__UINT32},
    {'u', 8, ONNX__TENSOR_PROTO__DATA_TYPE__UINT64},
    {'b', 1, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL},
};

static void skip_spaces(struct cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
    c->at++;
}

static bool accept(struct cursor *c, char wanted) {
  skip_spaces(c);
  if (c->at == c->end || *c->at != wanted)
    return false;
  c->at++;
  return true;
}

static bool accept_word(struct cursor *c, const char *word) {
  skip_spaces(c);
  size_t length = strlen(word);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
    return false;
  c->at += length;
  return true;
}

// A string without escapes, in either kind of quotes.
static bool parse_string(struct cursor *c, char *out, size_t size) {
  char quote = accept(c, '\'') ? '\'' : '"';
  if (quote == '"' && !accept(c, '"'))
    return false;
  size_t length = 0;
  while (c->at < c->end && *c->at != quote && *c->at != '\\' && length + 1 < size)
    out[length++] = *c->at++;
  out[length] = '\0';
  return c->at < c->end && *c->at++ == quote;
}

static bool parse_number(struct cursor *c, int64_t *out) {
  skip_spaces(c);
  const char *start = c->at;
  int64_t value = 0;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
    if (value > (INT64_MAX - 9) / 10)
      return false;
    value = value * 10 + (*c->at++ - '0');
  }
  *out = value;
  if (c->at == start)
    return false;
  accept(c, 'L');  // Python 2 wrote long integers so
  return true;
}

static enum status parse_shape(struct cursor *c, struct npy_header *h, struct diag *d) {
  if (!accept(c, '('))
    return diag_fail(d, STATUS_DATA, "the .npy header's 'shape' is not a tuple");
  bool comma = true;
  while (!accept(c, ')')) {
    if (h->rank == ARRAY_MAX_RANK)
      return diag_fail(d, STATUS_DATA, "the array has more than %d dimensions", ARRAY_MAX_RANK);
    if (!comma || !parse_number(c, &h->dims[h->rank]))
      return diag_fail(d, STATUS_DATA, "the .npy header's 'shape' is not a tuple of integers");
    h->rank++;
    comma = accept(c, ',');
  }
  return STATUS_OK;
}

static enum status fail_type(const char *descr, struct diag *d) {
  diag_hint(d, "Readable: f2 f4 f8, i1 to i8, u1 to u8, b1, and S and U strings, of either byte "
               "order; convert the array with astype.");
  return diag_fail(d, STATUS_DATA, "element type '%s' cannot be read", descr);
}

static enum status parse_descr(struct cursor *c, struct npy_header *h, struct diag *d) {
  char descr[32];
  skip_spaces(c);
  if (c->at < c->end && *c->at == '[')
    return fail_type("(structured)", d);
  if (!parse_string(c, descr, sizeof descr))
    return diag_fail(d, STATUS_DATA, "the .npy header's 'descr' is not a string");
  struct cursor number = {descr + 2, descr + strlen(descr)};
  int64_t item = 0;
  if (strlen(descr) < 3 || !strchr("<>|=", descr[0]) || !parse_number(&number, &item) ||
      number.at != number.end)
    return fail_type(descr, d);
  h->swapped = descr[0] == '>';
  if ((descr[1] == 'S' || descr[1] == 'U') && item > 0 && item <= INT32_MAX) {
    h->kind = descr[1];
    h->item = (size_t)item * (h->kind == 'U' ? 4 : 1);
    h->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__STRING;
    return STATUS_OK;
  }
  for (size_t i = 0; i < sizeof npy_types / sizeof npy_types[0]; i++)
    if (npy_types[i].kind == descr[1] && (int64_t)npy_types[i].item == item) {
      h->item = npy_types[i].item;
      h->elem_type = npy_types[i].elem_type;
      return STATUS_OK;
    }
  return fail_type(descr, d);
}

static enum status parse_member(struct cursor *c, struct npy_header *h, unsigned *seen,
                                struct diag *d) {
  char key[32];
  if (!parse_string(c, key, sizeof key) || !accept(c, ':'))
    return diag_fail(d, STATUS_DATA, "the .npy header is not a dictionary");
  unsigned which = strcmp(key, "descr") == 0           ? 1
                   : strcmp(key, "fortran_order") == 0 ? 2
                   : strcmp(key, "shape") == 0         ? 4
                                                       : 0;
  if (!which || *seen & which)
    return diag_fail(d, STATUS_DATA, "the .npy header has %s key '%s'",
                     which ? "a repeated" : "an unknown", key);
  *seen |= which;
  if (which == 1)
    return parse_descr(c, h, d);
  if (which == 4)
    return parse_shape(c, h, d);
  h->fortran = accept_word(c, "True");
  if (!h->fortran && !accept_word(c, "False"))
    return diag_fail(d, STATUS_DATA, "the .npy header's 'fortran_order' is not True or False");
  return STATUS_OK;
}

enum status npy_header_length(const uint8_t prefix[NPY_PREFIX], size_t *length, struct diag *d) {
  if (memcmp(prefix, "\x93NUMPY", 6) != 0)
    return diag_fail(d, STATUS_DATA, "not a .npy array: it does not begin with \\x93NUMPY");
  if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0)
    return diag_fail(d, STATUS_DATA, "a .npy array of version %d.%d; 1.0 to 3.0 can be read",
                     prefix[6], prefix[7]);
  *length = prefix[8] | (size_t)prefix[9] << 8;
  if (prefix[6] > 1)
    *length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
  *length += prefix[6] == 1 ? 10 : 12;
  if (*length > MAX_HEADER)
    return diag_fail(d, STATUS_DATA, "the .npy header claims %zu bytes", *length);
  if (*length < NPY_PREFIX)
    return diag_fail(d, STATUS_DATA, "the .npy header is empty");
  return STATUS_OK;
}

enum status npy_header_parse(struct npy_header *h, const uint8_t *bytes, size_t length,
                             struct diag *d) {
  *h = (struct npy_header){.offset = length};
  const char *text = (const char *)bytes;
  struct cursor c = {text + (bytes[6] == 1 ? 10 : 12), text + length};
  unsigned seen = 0;
  if (!accept(&c, '{'))
    return diag_fail(d, STATUS_DATA, "the .npy header is not a dictionary");
  bool comma = true;
  while (!accept(&c, '}')) {
    if (!comma)
      return diag_fail(d, STATUS_DATA, "the .npy header is not a dictionary");
    TRY(parse_member(&c, h, &seen, d));
    comma = accept(&c, ',');
  }
  skip_spaces(&c);
  if (seen != 7 || c.at != c.end)
    return diag_fail(d, STATUS_DATA, "the .npy header %s",
                     seen == 7 ? "has text after its dictionary"
                               : "lacks 'descr', 'fortran_order' or 'shape'");
  if (!array_extent(h->dims, h->rank, h->item, &h->count, &h->bytes))
    return diag_fail(d, STATUS_DATA, "the array's size overflows");
  return STATUS_OK;
}

static void swap_bytes(uint8_t *data, uint64_t count, size_t item) {
  for (uint64_t i = 0; i < count; i++, data += item)
    for (size_t low = 0, high = item - 1; low < high; low++, high--) {
      uint8_t byte = data[low];
      data[low] = data[high];
      data[high] = byte;
    }
}

// Column-major to row-major: walks the result in order, the source by its strides.
static uint8_t *transpose(const struct npy_header *h, const uint8_t *data, struct arena *a) {
  uint8_t *out = arena_alloc(a, (size_t)h->bytes);
  size_t strides[ARRAY_MAX_RANK], at[ARRAY_MAX_RANK] = {0}, stride = h->item, from = 0;
  for (size_t i = 0; i < h->rank; i++) {
    strides[i] = stride;
    stride *= (size_t)h->dims[i];
  }
  for (uint64_t k = 0; k < h->count; k++) {
    memcpy(out + k * h->item, data + from, h->item);
    for (size_t i = h->rank; i-- > 0;) {
      from += strides[i];
      if (++at[i] < (size_t)h->dims[i])
        break;
      from -= strides[i] * at[i];
      at[i] = 0;
    }
  }
  return out;
}

// Appends a code point in UTF-8; false if there is no such code point.
static bool put_utf8(char **to, uint32_t c) {
  unsigned char *out = (unsigned char *)*to;
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return false;
  if (c < 0x80) {
    *out++ = (unsigned char)c;
  } else {
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (unsigned char)(lead[more] | c >> 6 * more);
    while (more-- > 0)
      *out++ = (unsigned char)(0x80 | (c >> 6 * more & 0x3f));
  }
  *to = (char *)out;
  return true;
}

// Strings are padded with NULs at the end, which are not part of them.
static enum status fill_strings(struct array_list *list, struct array *array,
                                const struct npy_header *h, const uint8_t *data, struct diag *d) {
  array->strings = arena_array(list->arena, (size_t)h->count, sizeof *array->strings);
  size_t unit = h->kind == 'U' ? 4 : 1;
  for (uint64_t i = 0; i < h->count; i++, data += h->item) {
    size_t length = h->item / unit;
    while (length && memcmp(data + (length - 1) * unit, "\0\0\0", unit) == 0)
      length--;
    // A code point of four bytes takes at most four in UTF-8.
    char *to = array->strings[i] = arena_alloc(list->arena, length * unit + 1);
    if (unit == 1)
      memcpy(to, data, length);
    for (size_t k = 0; k < length && unit == 4; k++) {
      const uint8_t *p = data + k * 4;
      uint32_t c = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
      if (!put_utf8(&to, c))
        return diag_fail(d, STATUS_DATA, "string %llu holds the invalid character U+%04X",
                         (unsigned long long)i, (unsigned)c);
    }
    if (memchr(data, 0, unit == 1 ? length : 0))
      return diag_fail(d, STATUS_DATA, "string %llu holds a NUL", (unsigned long long)i);
  }
  return STATUS_OK;
}

enum status npy_fill(struct array_list *list, struct array *array, const struct npy_header *h,
                     uint8_t *data, struct diag *d) {
  if (h->swapped)
    swap_bytes(data,
               h->kind == 'U' ? h->bytes / 4
               : h->kind      ? 0
                              : h->count,
               h->kind == 'U' ? 4 : h->item);
  if (h->fortran && h->rank > 1)
    data = transpose(h, data, list->arena);
  if (h->kind)
    return fill_strings(list, array, h, data, d);
  if (array->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
    for (size_t i = 0; i < array->size; i++)
      data[i] = data[i] != 0;
  array->data = data;
  return STATUS_OK;
}

struct array *npy_add(struct array_list *list, const char *name, const struct npy_header *h) {
  struct array *array = array_list_add(list, name);
  array->elem_type = h->elem_type;
  array->rank = h->rank;
  memcpy(array->dims, h->dims, sizeof h->dims);
  array->size = h->kind ? 0 : (size_t)h->bytes;
  return array;
}

static enum status read_mapped(struct array_list *list, const char *name, const uint8_t *bytes,
                               size_t size, struct diag *d) {
  size_t length = 0;
  struct npy_header h;
  if (size < NPY_PREFIX)
    return diag_fail(d, STATUS_DATA, "the file is too short (%zu bytes) to be a .npy array", size);
  TRY(npy_header_length(bytes, &length, d));
  if (length > size)
    return diag_fail(d, STATUS_DATA, "the file ends inside the .npy header");
  TRY(npy_header_parse(&h, bytes, length, d));
  if (h.bytes != size - length)
    return diag_fail(d, STATUS_DATA, "the header says %llu bytes of data and the file holds %zu",
                     (unsigned long long)h.bytes, size - length);
  struct array *array = npy_add(list, name, &h);
  if (list->headers_only)
    return STATUS_OK;
  uint8_t *data = arena_alloc(list->arena, (size_t)h.bytes);
  memcpy(data, bytes + length, (size_t)h.bytes);
  return npy_fill(list, array, &h, data, d);
}

enum status samples_read_npy(struct array_list *list, const char *path, const char *name,
                             struct diag *d) {
  const uint8_t *bytes;
  size_t size;
  diag_at(d, path, NULL, name);
  TRY(file_map(path, &bytes, &size, d));
  enum status status = read_mapped(list, name, bytes, size, d);
  file_unmap(bytes, size);
  if (status == STATUS_OK)
    diag_at(d, "", NULL, "");
  return status;
}
