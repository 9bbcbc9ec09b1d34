// The walk over the wire format: see wire.h. One token (tag and value) is read at a time; messages
// that are open are kept in an array, not on the call stack, so that nesting costs no recursion.
//
// The slim copy is written in one pass: a message's length is not known before its end, so it gets
// a length of fixed width (a varint may be padded), filled in when the message is popped.
//
// Source: protobuf.dev/programming-guides/encoding.
#include "wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum wire_type { VARINT, FIXED64, LENGTH, GROUP_BEGIN, GROUP_END, FIXED32 };

enum {
  LENGTH_WIDTH = 5,   // bytes of a padded length
  VARINT_BYTES = 10,  // of 64 bits
  GROUPS = 64,        // nested groups, at most
  DEPTH_MAX = 1000,   // what protobuf-c's own recursion certainly has stack for
  REPEATS_MAX = 100,  // single messages that are there again, in all
  FIELD_NUMBER_MAX = WIRE_ODD_FIELD,
};

struct token {
  uint32_t number;  // of the field; 0 while the tag is not read yet
  int wire_type;
  size_t tag, value, content, end;  // content: value without its length prefix
};

// A message that is open.
struct frame {
  const ProtobufCMessageDescriptor *type;
  const ProtobufCFieldDescriptor *field;  // of the message around it; NULL for the outermost
  size_t start, end, tag;                 // in the bytes
  size_t slim_length;                     // where its length goes in the slim copy
  uint64_t seen;                          // bit k: field k, a single message, is there
};

struct walk {
  const uint8_t *bytes;
  size_t at;
  struct frame *frames;
  size_t depth, capacity;  // frames that are open
  size_t max_depth;
  uint64_t messages, fields;
  int repeats;  // single messages that were there again
  const struct model_limits *limits;
  struct wire *w;
  struct diag *d;
};

// ---- Reading ----

// Where the varint at `at` ends, or 0 if it is too long or not whole; its value modulo 2^64.
static size_t read_varint(const uint8_t *bytes, size_t at, size_t end, uint64_t *value) {
  uint64_t v = 0;
  for (unsigned i = 0; i < VARINT_BYTES && at < end; i++) {
    uint8_t byte = bytes[at++];
    v |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = v;
      return at;
    }
  }
  return 0;
}

static const char *bad_varint(size_t at, size_t end) {
  return end - at < VARINT_BYTES ? "the data ends inside a number"
                                 : "a number of more than 10 bytes";
}

static const char *read_tag(const uint8_t *bytes, size_t at, size_t end, struct token *t) {
  uint64_t tag;
  t->tag = at;
  t->number = 0;
  t->value = read_varint(bytes, at, end, &tag);
  if (!t->value)
    return bad_varint(at, end);
  if (tag >> 3 == 0 || tag >> 3 > FIELD_NUMBER_MAX)
    return "an impossible field number";
  t->number = (uint32_t)(tag >> 3);
  t->wire_type = (int)(tag & 7);
  t->content = t->value;
  return NULL;
}

// The value of any wire type but a group.
static const char *read_value(const uint8_t *bytes, size_t end, struct token *t) {
  uint64_t number = 0;
  size_t left = end - t->value;
  switch (t->wire_type) {
  case VARINT:
    t->end = read_varint(bytes, t->value, end, &number);
    return t->end ? NULL : bad_varint(t->value, end);
  case FIXED64:
    t->end = t->value + 8;
    return left >= 8 ? NULL : "the data ends inside a 64-bit value";
  case FIXED32:
    t->end = t->value + 4;
    return left >= 4 ? NULL : "the data ends inside a 32-bit value";
  case LENGTH:
    t->content = read_varint(bytes, t->value, end, &number);
    if (!t->content)
      return bad_varint(t->value, end);
    if (number > end - t->content)
      return "its length goes beyond the end of the data";
    t->end = t->content + (size_t)number;
    return NULL;
  case GROUP_END: return "the end of a group that was not begun";
  default: return "an unknown wire type";
  }
}

// The rest of a group, up to and including the tag that ends it.
static const char *read_group(const uint8_t *bytes, size_t end, struct token *t) {
  uint32_t open[GROUPS];
  size_t depth = 0;
  open[depth++] = t->number;
  struct token inner = {.end = t->value};
  while (depth) {
    if (inner.end == end)
      return "the data ends inside a group";
    const char *fault = read_tag(bytes, inner.end, end, &inner);
    if (fault)
      return fault;
    if (inner.wire_type == GROUP_END) {
      if (inner.number != open[--depth])
        return "a group that is ended by another's end";
      inner.end = inner.value;
    } else if (inner.wire_type == GROUP_BEGIN) {
      if (depth == GROUPS)
        return "groups that are nested too deep";
      open[depth++] = inner.number;
      inner.end = inner.value;
    } else if ((fault = read_value(bytes, end, &inner))) {
      return fault;
    }
  }
  t->end = inner.end;
  return NULL;
}

// Reads the field at `at`. NULL, or what is wrong with it.
static const char *read_token(const uint8_t *bytes, size_t at, size_t end, struct token *t) {
  const char *fault = read_tag(bytes, at, end, t);
  if (fault)
    return fault;
  return t->wire_type == GROUP_BEGIN ? read_group(bytes, end, t) : read_value(bytes, end, t);
}

// ---- Messages ----

// How often field `number` occurs in bytes[at..end); these were read before, without a fault.
static size_t count_field(const uint8_t *bytes, size_t at, size_t end, uint32_t number) {
  size_t count = 0;
  struct token t;
  for (; at < end && !read_token(bytes, at, end, &t); at = t.end)
    count += t.number == number;
  return count;
}

static size_t append_step(char *out, size_t size, const struct walk *k, const struct frame *in,
                          const ProtobufCFieldDescriptor *field, size_t tag) {
  const char *dot = out[0] ? "." : "";
  size_t length = strlen(out);
  if (field->label == PROTOBUF_C_LABEL_REPEATED)
    snprintf(out + length, size - length, "%s%s[%zu]", dot, field->name,
             count_field(k->bytes, in->start, tag, field->id));
  else
    snprintf(out + length, size - length, "%s%s", dot, field->name);
  return strlen(out);
}

// "graph.node[3].attribute[0].t"; the middle of a long one is left out.
static void write_path(char *out, size_t size, const struct walk *k, const struct token *t) {
  enum { ENDS = 5 };
  out[0] = '\0';
  for (size_t i = 1; i < k->depth; i++) {
    if (i > ENDS && i + ENDS < k->depth) {
      size_t length = strlen(out);
      snprintf(out + length, size - length, ".(%zu more)", k->depth - 2 * ENDS - 1);
      i = k->depth - ENDS - 1;
      continue;
    }
    append_step(out, size, k, &k->frames[i - 1], k->frames[i].field, k->frames[i].tag);
  }
  const struct frame *top = &k->frames[k->depth - 1];
  if (!t || !t->number)
    return;
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field(top->type, t->number);
  if (field) {
    append_step(out, size, k, top, field, t->tag);
  } else {
    size_t length = strlen(out);
    snprintf(out + length, size - length, "%sfield %u", length ? ", " : "", t->number);
  }
}

static enum status fail(struct walk *k, const struct token *t, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum status fail(struct walk *k, const struct token *t, const char *format, ...) {
  char reason[256], path[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  write_path(path, sizeof path, k, t);
  return diag_fail(k->d, STATUS_MODEL, "at byte %zu%s%s: %s", t ? t->tag : k->at,
                   path[0] ? ", in " : "", path, reason);
}

// What goes beyond one of the limits, by its name in struct model_limits.
static enum status over_limit(struct walk *k, const struct token *t, const char *name,
                              const char *what, uint64_t limit) {
  diag_hint(k->d, "A model that is so large and can be trusted: --model-limit %s=N.", name);
  return fail(k, t, "more than %" PRIu64 " %s, which is the limit", limit, what);
}

// ---- Writing ----

static void *grow(void *array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity)
    return array;
  size_t larger = *capacity * 2 > need ? *capacity * 2 : need;
  larger = larger < 64 ? 64 : larger;
  void *place = larger <= SIZE_MAX / size ? realloc(array, larger * size) : NULL;
  if (!place)
    out_of_memory(larger);
  *capacity = larger;
  return place;
}

static void put(struct wire *w, const void *bytes, size_t size) {
  w->slim = grow(w->slim, &w->capacity, w->size + size, 1);
  memcpy(w->slim + w->size, bytes, size);
  w->size += size;
}

static void put_varint(struct wire *w, uint64_t value) {
  uint8_t bytes[VARINT_BYTES];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7)
    bytes[n++] = (uint8_t)(value | 0x80);
  bytes[n++] = (uint8_t)value;
  put(w, bytes, n);
}

static void put_tag(struct wire *w, uint32_t number, int wire_type) {
  put_varint(w, (uint64_t)number << 3 | (unsigned)wire_type);
}

static void put_index(struct wire *w, size_t index) {
  const uint8_t bytes[4] = {(uint8_t)index, (uint8_t)(index >> 8), (uint8_t)(index >> 16),
                            (uint8_t)(index >> 24)};
  put(w, bytes, sizeof bytes);
}

static void put_length_at(struct wire *w, size_t at, size_t length) {
  for (unsigned i = 0; i < LENGTH_WIDTH; i++)
    w->slim[at + i] = (uint8_t)((length >> (7 * i) & 0x7f) | (i + 1 < LENGTH_WIDTH ? 0x80 : 0));
}

// Tag and length are written anew, as protobuf-c does not take every padded form.
static void put_token(struct walk *k, const struct token *t) {
  put_tag(k->w, t->number, t->wire_type);
  if (t->wire_type == LENGTH)
    put_varint(k->w, t->end - t->content);
  put(k->w, k->bytes + t->content, t->end - t->content);
}

static void put_odd(struct walk *k, const struct token *t) {
  struct wire *w = k->w;
  w->odd = grow(w->odd, &w->capacity_odd, w->n_odd + 1, sizeof *w->odd);
  put_tag(w, WIRE_ODD_FIELD, FIXED32);
  put_index(w, w->n_odd);
  w->odd[w->n_odd++] = (struct wire_odd){t->number, t->wire_type, {t->value, t->end - t->value}};
}

static void put_raw(struct walk *k, const struct token *t) {
  struct wire *w = k->w;
  w->raw = grow(w->raw, &w->capacity_raw, w->n_raw + 1, sizeof *w->raw);
  put_tag(w, t->number, LENGTH);
  put_varint(w, 4);
  put_index(w, w->n_raw);
  w->raw[w->n_raw++] = (struct wire_range){t->content, t->end - t->content};
}

// ---- Fields ----

static int expected_wire_type(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_SFIXED32:
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_FLOAT: return FIXED32;
  case PROTOBUF_C_TYPE_SFIXED64:
  case PROTOBUF_C_TYPE_FIXED64:
  case PROTOBUF_C_TYPE_DOUBLE: return FIXED64;
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_BYTES:
  case PROTOBUF_C_TYPE_MESSAGE: return LENGTH;
  default: return VARINT;
  }
}

// A list of numbers in one piece. Readers take both forms, whatever the schema marks as packed.
static bool is_packed(const ProtobufCFieldDescriptor *field, const struct token *t) {
  return field->label == PROTOBUF_C_LABEL_REPEATED && t->wire_type == LENGTH &&
         expected_wire_type(field->type) != LENGTH;
}

static enum status check_packed(struct walk *k, const struct token *t,
                                const ProtobufCFieldDescriptor *field) {
  int wire_type = expected_wire_type(field->type);
  size_t width = wire_type == FIXED32 ? 4 : 8;
  if (wire_type != VARINT)
    return (t->end - t->content) % width == 0
               ? STATUS_OK
               : fail(k, t, "%zu bytes are no whole number of %zu-byte values", t->end - t->content,
                      width);
  size_t run = 0;
  for (size_t at = t->content; at < t->end; at++) {
    run = k->bytes[at] & 0x80 ? run + 1 : 0;
    if (run == VARINT_BYTES)
      return fail(k, t, "a number of more than 10 bytes");
  }
  return run == 0 ? STATUS_OK : fail(k, t, "the data ends inside a number");
}

static enum status check_string(struct walk *k, const struct token *t) {
  size_t length = t->end - t->content;
  if (length > k->limits->string_bytes)
    return over_limit(k, t, "string_bytes", "bytes in a string", k->limits->string_bytes);
  if (length && memchr(k->bytes + t->content, 0, length)) {
    diag_hint(k->d, "Export the model again without NUL bytes in names and texts.");
    return fail(k, t, "a string with a NUL byte in it, which would be cut there");
  }
  return STATUS_OK;
}

// ---- Single messages that are there again ----
//
// Protobuf merges them, which on the wire means to join their contents. It has to be done here:
// protobuf-c's own merge reads outside its tables where neither message has a oneof that is set.

static bool is_single_message(const ProtobufCFieldDescriptor *field) {
  return field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED;
}

static uint64_t field_bit(const struct frame *f, const ProtobufCFieldDescriptor *field) {
  size_t index = (size_t)(field - f->type->fields);
  assert(index < 64);
  return (uint64_t)1 << index;
}

// Setting one member of a oneof clears the others, so that what comes again then is no repeat.
static void note_single(struct frame *f, const ProtobufCFieldDescriptor *field) {
  for (unsigned i = 0; field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && i < f->type->n_fields; i++) {
    const ProtobufCFieldDescriptor *other = &f->type->fields[i];
    if (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
        other->quantifier_offset == field->quantifier_offset)
      f->seen &= ~field_bit(f, other);
  }
  f->seen |= field_bit(f, field);
}

static size_t slim_content(const struct frame *f) {
  return f->field ? f->slim_length + LENGTH_WIDTH : 0;
}

// Takes the last field `number` out of what the slim copy has of the open message f. Returns its
// content, malloc'ed.
static uint8_t *cut_field(struct wire *w, const struct frame *f, uint32_t number, size_t *size) {
  struct token t, last = {.number = 0};
  for (size_t at = slim_content(f); at < w->size; at = t.end) {
    const char *fault = read_token(w->slim, at, w->size, &t);
    assert(!fault);
    (void)fault;
    if (t.number == number)
      last = t;
  }
  assert(last.number);
  size_t capacity = 0;
  *size = last.end - last.content;
  uint8_t *content = grow(NULL, &capacity, *size + 1, 1);
  memcpy(content, w->slim + last.content, *size);
  memmove(w->slim + last.tag, w->slim + last.end, w->size - last.end);
  w->size -= last.end - last.tag;
  return content;
}

// The single messages that f, just begun, has from its earlier part.
static void note_singles(const struct wire *w, struct frame *f) {
  struct token t;
  for (size_t at = slim_content(f); at < w->size; at = t.end) {
    const char *fault = read_token(w->slim, at, w->size, &t);
    assert(!fault);
    (void)fault;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(f->type, t.number);
    if (field && is_single_message(field))
      note_single(f, field);
  }
}

// ---- Walking ----

static void begin_message(struct walk *k, const struct token *t,
                          const ProtobufCFieldDescriptor *field) {
  static const uint8_t later[LENGTH_WIDTH];
  struct frame *top = &k->frames[k->depth - 1];
  uint8_t *earlier = NULL;
  size_t earlier_size = 0;
  if (is_single_message(field)) {
    if (top->seen & field_bit(top, field))
      earlier = cut_field(k->w, top, field->id, &earlier_size);
    note_single(top, field);
  }
  put_tag(k->w, t->number, LENGTH);
  k->frames = grow(k->frames, &k->capacity, k->depth + 1, sizeof *k->frames);
  struct frame *f = &k->frames[k->depth++];
  *f = (struct frame){.type = field->descriptor,
                      .field = field,
                      .start = t->content,
                      .end = t->end,
                      .tag = t->tag,
                      .slim_length = k->w->size};
  put(k->w, later, LENGTH_WIDTH);
  if (earlier) {
    put(k->w, earlier, earlier_size);
    note_singles(k->w, f);
    free(earlier);
  }
  k->at = t->content;
}

static enum status push(struct walk *k, const struct token *t,
                        const ProtobufCFieldDescriptor *field) {
  const struct frame *top = &k->frames[k->depth - 1];
  if (k->depth > k->max_depth) {
    enum { PROTOBUF_LEVELS = 100 };
    diag_hint(k->d, k->max_depth < PROTOBUF_LEVELS
                        ? "A model that can be trusted: --model-limit depth=N, 100 without it."
                        : "No ONNX reader takes such a model: protobuf's own limit is 100 levels.");
    return fail(k, t, "nested deeper than %zu messages, which is the depth limit", k->max_depth);
  }
  if (++k->messages > k->limits->messages)
    return over_limit(k, t, "messages", "messages", k->limits->messages);
  // Each repeat is a copy: a file of nothing else would cost quadratic time.
  if (is_single_message(field) && (top->seen & field_bit(top, field)) && ++k->repeats > REPEATS_MAX)
    return fail(k, t, "messages that should be single are there again, more than %d times",
                REPEATS_MAX);
  begin_message(k, t, field);
  return STATUS_OK;
}

static void pop(struct walk *k) {
  const struct frame *f = &k->frames[--k->depth];
  if (f->field)
    put_length_at(k->w, f->slim_length, k->w->size - f->slim_length - LENGTH_WIDTH);
}

static bool is_raw_data(const struct frame *f, const ProtobufCFieldDescriptor *field) {
  return f->type == &onnx__tensor_proto__descriptor && field->id == WIRE_RAW_DATA_FIELD;
}

static enum status step(struct walk *k) {
  const struct frame *top = &k->frames[k->depth - 1];
  struct token t;
  const char *fault = read_token(k->bytes, k->at, top->end, &t);
  if (fault) {
    diag_hint(k->d,
              "The file is no ONNX model, or it is damaged: an incomplete download, perhaps.");
    return fail(k, &t, "%s", fault);
  }
  if (++k->fields > k->limits->fields)
    return over_limit(k, &t, "fields", "fields", k->limits->fields);
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field(top->type, t.number);
  bool packed = field && is_packed(field, &t);
  bool odd = field ? !packed && t.wire_type != expected_wire_type(field->type)
                   : t.wire_type == GROUP_BEGIN || t.number == WIRE_ODD_FIELD;
  if (field && !odd && field->type == PROTOBUF_C_TYPE_MESSAGE)
    return push(k, &t, field);
  k->at = t.end;
  if (odd) {
    put_odd(k, &t);
    return STATUS_OK;
  }
  if (packed)
    TRY(check_packed(k, &t, field));
  else if (field && field->type == PROTOBUF_C_TYPE_STRING)
    TRY(check_string(k, &t));
  if (field && is_raw_data(top, field))
    put_raw(k, &t);
  else
    put_token(k, &t);
  return STATUS_OK;
}

static enum status walk_all(struct walk *k) {
  while (k->depth) {
    if (k->at == k->frames[k->depth - 1].end)
      pop(k);
    else
      TRY(step(k));
  }
  return STATUS_OK;
}

enum status wire_walk(struct wire *w, const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                      size_t size, const struct model_limits *limits, struct diag *d) {
  *w = (struct wire){0};
  struct walk k = {.bytes = bytes,
                   .max_depth = limits->depth < DEPTH_MAX ? limits->depth : DEPTH_MAX,
                   .messages = 1,
                   .limits = limits,
                   .w = w,
                   .d = d};
  if (size > INT32_MAX)
    return diag_fail(d, STATUS_MODEL, "is larger than 2 GiB, which no protobuf message may be");
  k.frames = grow(NULL, &k.capacity, 1, sizeof *k.frames);
  k.frames[k.depth++] = (struct frame){.type = type, .end = size};
  w->slim = grow(NULL, &w->capacity, 64, 1);
  enum status status = walk_all(&k);
  free(k.frames);
  if (status != STATUS_OK)
    wire_free(w);
  return status;
}

void wire_free(struct wire *w) {
  free(w->slim);
  free(w->raw);
  free(w->odd);
  *w = (struct wire){0};
}
