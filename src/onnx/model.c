// Loading a model: see model.h. The file is mapped, wire.c walks it and writes a slim copy without
// the weights, protobuf-c unpacks that into the arena, and then every raw_data is pointed into the
// map. What protobuf-c could not have read is put back as the unknown field that it is.
#define _XOPEN_SOURCE 700  // realpath
#include "model.h"

#include "external.h"
#include "file.h"
#include "spool.h"
#include "tensor.h"
#include "wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Far above what real models need (100,000 nodes are about two million messages), and far below
// what would not fit in memory.
const struct model_limits model_default_limits = {
    .depth = 100,
    .messages = 10 * 1000 * 1000,
    .fields = 100 * 1000 * 1000,
    .string_bytes = 64 * 1024 * 1024,
};

uint64_t model_limit_largest(const char *name) {
  return strcmp(name, "depth") == 0 ? 1000 : MODEL_LIMIT_MOST;
}

enum status model_limit_set(struct model_limits *l, const char *name, uint64_t most,
                            struct diag *d) {
  const uint64_t largest = model_limit_largest(name);
  const struct {
    const char *name;
    uint64_t *place;
  } limits[] = {
      {"messages", &l->messages}, {"fields", &l->fields}, {"string_bytes", &l->string_bytes}};
  bool found = strcmp(name, "depth") == 0;
  if (most < 1 || most > largest)
    return diag_fail(d, STATUS_USAGE,
                     "the limit of %s takes a whole number from 1 to %llu, not %llu", name,
                     (unsigned long long)largest, (unsigned long long)most);
  if (found)
    l->depth = (uint32_t)most;
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
    if (strcmp(name, limits[i].name) == 0) {
      *limits[i].place = most;
      found = true;
    }
  if (found)
    return STATUS_OK;
  diag_hint(d, "The limits are depth, messages, fields and string_bytes.");
  return diag_fail(d, STATUS_USAGE, "there is no limit of a model called \"%s\"", name);
}

// ---- Every message of a message ----

typedef enum status (*message_visitor)(void *context, ProtobufCMessage *message);

static void *member(ProtobufCMessage *message, unsigned offset) {
  return (char *)message + offset;
}

static enum status each_message(ProtobufCMessage *message, message_visitor visit, void *context) {
  TRY(visit(context, message));
  const ProtobufCMessageDescriptor *type = message->descriptor;
  for (unsigned i = 0; i < type->n_fields; i++) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
      continue;
    bool one_of = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (one_of && *(uint32_t *)member(message, field->quantifier_offset) != field->id)
      continue;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      size_t count = *(size_t *)member(message, field->quantifier_offset);
      ProtobufCMessage **items = *(ProtobufCMessage ***)member(message, field->offset);
      for (size_t k = 0; k < count; k++)
        TRY(each_message(items[k], visit, context));
    } else {
      ProtobufCMessage *item = *(ProtobufCMessage **)member(message, field->offset);
      if (item)
        TRY(each_message(item, visit, context));
    }
  }
  return STATUS_OK;
}

struct tensor_visitor {
  enum status (*visit)(void *context, Onnx__TensorProto *t);
  void *context;
};

static enum status visit_tensor(void *context, ProtobufCMessage *message) {
  const struct tensor_visitor *v = context;
  if (message->descriptor != &onnx__tensor_proto__descriptor)
    return STATUS_OK;
  return v->visit(v->context, (Onnx__TensorProto *)message);
}

enum status model_each_tensor(const Onnx__ModelProto *proto,
                              enum status (*visit)(void *context, Onnx__TensorProto *t),
                              void *context) {
  struct tensor_visitor v = {visit, context};
  return each_message((ProtobufCMessage *)(uintptr_t)&proto->base, visit_tensor, &v);
}

// ---- Unpacking ----

static size_t read_index(const uint8_t bytes[4]) {
  return (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
}

struct patch {
  const struct model *m;
  const struct wire *w;
  struct diag *d;
};

static uint8_t *at(const struct patch *p, const struct wire_range *range) {
  return (uint8_t *)(uintptr_t)(p->m->bytes + range->offset);
}

static enum status patch_tensor(const struct patch *p, Onnx__TensorProto *t) {
  if (!t->has_raw_data)
    return STATUS_OK;
  size_t index = read_index(t->raw_data.data);
  assert(t->raw_data.len == 4 && index < p->w->n_raw);
  const struct wire_range *range = &p->w->raw[index];
  t->raw_data = (ProtobufCBinaryData){range->length, at(p, range)};
  if (t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return STATUS_OK;
  diag_at(p->d, NULL, NULL, t->name);
  return diag_fail(p->d, STATUS_MODEL,
                   "is marked as external data and has raw_data too: which one counts?");
}

static enum status patch_message(void *context, ProtobufCMessage *message) {
  const struct patch *p = context;
  for (unsigned i = 0; i < message->n_unknown_fields; i++) {
    ProtobufCMessageUnknownField *u = &message->unknown_fields[i];
    if (u->tag != WIRE_ODD_FIELD)
      continue;
    size_t index = read_index(u->data);
    assert(u->len == 4 && index < p->w->n_odd);
    const struct wire_odd *odd = &p->w->odd[index];
    u->tag = odd->field;
    u->wire_type = (ProtobufCWireType)odd->wire_type;
    u->len = odd->range.length;
    u->data = at(p, &odd->range);
  }
  if (message->descriptor == &onnx__tensor_proto__descriptor)
    return patch_tensor(p, (Onnx__TensorProto *)message);
  return STATUS_OK;
}

static enum status unpack_slim(struct model *m, const struct wire *w, struct diag *d) {
  ProtobufCAllocator allocator = arena_protobuf(m->arena);
  ProtobufCMessage *message =
      protobuf_c_message_unpack(&onnx__model_proto__descriptor, &allocator, w->size, w->slim);
  if (!message)
    return diag_fail(d, STATUS_MODEL, "protobuf-c refuses the model; it gives no reason");
  struct patch p = {m, w, d};
  TRY(each_message(message, patch_message, &p));
  m->proto = (Onnx__ModelProto *)message;
  return STATUS_OK;
}

// ---- What else it may be ----

struct kind {
  size_t offset;  // of `magic` in the file
  const char *magic;
  size_t length;  // of `magic`
  const char *text, *hint;
};

#define MAGIC(offset, text) offset, text, sizeof text - 1
static const struct kind kinds[] = {
    {MAGIC(0, "version https://git-lfs"), "a Git LFS pointer, which stands for the model's file",
     "Fetch the real file first: git lfs pull."},
    {MAGIC(0, "<"), "text, HTML or XML", "The download may have given an error page."},
    {MAGIC(0, "{"), "JSON", NULL},
    {MAGIC(0, "["), "JSON or other text", NULL},
    {MAGIC(0, "PK\3\4"), "a zip archive", "Unpack it; a PyTorch model has to be exported to ONNX."},
    {MAGIC(0, "\x1f\x8b"), "gzip data", "Unpack it first."},
    {MAGIC(0, "7z\xbc\xaf\x27\x1c"), "a 7z archive", "Unpack it first."},
    {MAGIC(0, "\xfd"
              "7zXZ"),
     "xz data", "Unpack it first."},
    {MAGIC(0, "\x28\xb5\x2f\xfd"), "zstd data", "Unpack it first."},
    {MAGIC(0, "\x89HDF"), "an HDF5 file", "A Keras model has to be exported to ONNX (tf2onnx)."},
    {MAGIC(0, "GGUF"), "a GGUF file", NULL},
    {MAGIC(0, "\x7f"
              "ELF"),
     "a program", NULL},
    {MAGIC(4, "TFL3"), "a TensorFlow Lite model", "Convert it to ONNX first (tf2onnx)."},
    {MAGIC(4, "ORTM"), "a model in ONNX Runtime's own ORT format", "Use the .onnx file instead."},
    {MAGIC(8, "{\""), "a safetensors file, weights only", NULL},
};

// Only asked once the file was refused, so that a chance resemblance costs nothing.
static const struct kind *recognize(const uint8_t *bytes, size_t size) {
  size_t blank = 0;
  while (
      blank < size && blank < 64 &&
      (bytes[blank] == ' ' || bytes[blank] == '\n' || bytes[blank] == '\r' || bytes[blank] == '\t'))
    blank++;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    size_t start = kinds[i].offset + (kinds[i].offset ? 0 : blank);
    if (size >= start + kinds[i].length &&
        memcmp(bytes + start, kinds[i].magic, kinds[i].length) == 0)
      return &kinds[i];
  }
  return NULL;
}

// ---- Loading ----

static enum status unpack(struct model *m, const struct model_limits *limits, struct diag *d) {
  if (!m->size)
    return diag_fail(d, STATUS_MODEL, "not an ONNX model: the file is empty");
  struct wire w;
  TRY(wire_walk(&w, &onnx__model_proto__descriptor, m->bytes, m->size, limits, d));
  enum status status = unpack_slim(m, &w, d);
  wire_free(&w);
  TRY(status);
  if (!m->proto->graph)
    return diag_fail(d, STATUS_MODEL, "not an ONNX model: it has no graph");
  if (!m->proto->has_ir_version)
    return diag_fail(d, STATUS_MODEL, "not a valid ONNX model: it has no ir_version");
  return STATUS_OK;
}

// The reason is replaced where the file is plainly something else.
static enum status explain(struct model *m, enum status status, struct diag *d) {
  const struct kind *kind = m->proto && m->proto->graph ? NULL : recognize(m->bytes, m->size);
  if (kind) {
    diag_clear(d);
    diag_fail(d, status, "not an ONNX model but %s", kind->text);
    diag_hint(d, "%s", kind->hint ? kind->hint : "");
  }
  diag_at(d, m->path, NULL, NULL);
  model_close(m);
  return status;
}

static void set_path(struct model *m, const char *path) {
  m->path = arena_strdup(m->arena, path);
  const char *slash = strrchr(path, '/');
  if (!slash)
    m->directory = ".";
  else if (slash == path)
    m->directory = "/";
  else
    m->directory = arena_printf(m->arena, "%.*s", (int)(slash - path), path);
}

// Piece by piece, so that a large file need not be in memory as a whole.
static void hash_bytes(const struct model *m, char hex[65]) {
  enum { PIECE = 4 * 1024 * 1024 };
  struct hash *h = hash_begin();
  for (size_t at = 0; at < m->size; at += PIECE) {
    size_t n = m->size - at < PIECE ? m->size - at : PIECE;
    hash_add(h, m->bytes + at, n);
    if (m->mapped)
      file_forget(m->bytes + at, n);
  }
  hash_end(h, hex);
}

static struct model_limits with_defaults(const struct model_limits *given) {
  struct model_limits l = model_default_limits;
  if (given && given->depth)
    l.depth = given->depth;
  if (given && given->messages)
    l.messages = given->messages;
  if (given && given->fields)
    l.fields = given->fields;
  if (given && given->string_bytes)
    l.string_bytes = given->string_bytes;
  return l;
}

static enum status load(struct model *m, const struct model_limits *limits, struct diag *d) {
  external_open(m);
  struct model_limits all = with_defaults(limits);
  enum status status = unpack(m, &all, d);
  if (status != STATUS_OK)
    return explain(m, status, d);
  if (!m->sha256[0])
    hash_bytes(m, m->sha256);
  return STATUS_OK;
}

enum status model_load_hashed(struct model *m, struct arena *arena, const char *path,
                              const struct model_limits *limits, const char *sha256,
                              struct diag *d) {
  *m = (struct model){.arena = arena};
  snprintf(m->sha256, sizeof m->sha256, "%s", sha256);
  set_path(m, path);
  m->stamp = file_stamp(path);
  TRY(file_map(path, &m->bytes, &m->size, d));
  m->mapped = true;
  return load(m, limits, d);
}

enum status model_load(struct model *m, struct arena *arena, const char *path,
                       const struct model_limits *limits, struct diag *d) {
  return model_load_hashed(m, arena, path, limits, "", d);
}

enum status model_from_bytes(struct model *m, struct arena *arena, const uint8_t *bytes,
                             size_t size, const char *path, const struct model_limits *limits,
                             struct diag *d) {
  *m = (struct model){.arena = arena, .bytes = bytes, .size = size};
  set_path(m, path);
  return load(m, limits, d);
}

// Of the model the bytes themselves tell, whatever became of the path.
enum status model_unchanged(const struct model *m, struct diag *d) {
  char now[65];
  if (!m->mapped)
    return STATUS_OK;
  hash_bytes(m, now);
  const char *changed = strcmp(now, m->sha256) != 0 ? m->path : external_changed(m);
  if (!changed)
    return STATUS_OK;
  diag_at(d, changed, NULL, NULL);
  diag_hint(d, "Let nothing write to the model or its data during a run, and start it again.");
  return diag_fail(d, STATUS_IO, "was written to while it was being read");
}

// ---- Where bytes lie ----

static bool lies_in(const void *data, const uint8_t *bytes, size_t size) {
  return (uintptr_t)data >= (uintptr_t)bytes && (uintptr_t)data < (uintptr_t)bytes + size;
}

static const struct external_file *find_external(const struct model *m, const void *data) {
  for (size_t i = 0; m->externals && i < m->externals->count; i++)
    if (lies_in(data, m->externals->files[i].bytes, m->externals->files[i].size))
      return &m->externals->files[i];
  return NULL;
}

void model_passed(struct model *m, size_t size) {
  enum { MANY = 32 * 1024 * 1024 };
  struct externals *e = m ? m->externals : NULL;
  if (!e || (e->passed += size) < MANY)
    return;
  e->passed = 0;
  if (m->mapped)
    file_forget(m->bytes, m->size);
  for (size_t i = 0; i < e->count; i++)
    file_forget(e->files[i].bytes, e->files[i].size);
  spool_forget(m->spool);
  spool_forget(m->copies);
}

enum status model_aligned(struct model *m, const struct tensor *t, const uint8_t **data,
                          struct diag *d) {
  struct externals *e = m->externals;
  size_t alignment = tensor_element_bits(t->elem_type) / 8;
  *data = t->data;
  if (alignment <= 1 || (uintptr_t)t->data % alignment == 0)
    return STATUS_OK;
  if (!m->copies)
    return STATUS_OK;
  char *key = arena_printf(e->arena, "%p:%zu", (const void *)t->data, t->size);
  int known = map_get(&e->aligned, 0, key);
  if (known >= 0) {
    *data = e->copies[known];
    return STATUS_OK;
  }
  void *copy;
  TRY(spool_alloc(m->copies, t->size, &copy, d));
  *data = memcpy(copy, t->data, t->size);
  model_passed(m, 2 * t->size);
  e->copies =
      arena_grow(e->arena, e->copies, &e->capacity_copies, e->n_copies + 1, sizeof *e->copies);
  map_put(&e->aligned, 0, key, (int)e->n_copies);
  e->copies[e->n_copies++] = *data;
  return STATUS_OK;
}

// Where the file that was mapped can be found, if it is still there.
static const char *own_path(const struct model *m) {
  struct externals *e = m->externals;
  char *real = e->self ? NULL : realpath(m->path, NULL);
  if (real)
    e->self = arena_strdup(e->arena, real);
  free(real);
  return e->self;
}

static bool leads_to(const char *path, const struct file_stamp *mapped) {
  struct file_stamp now = file_stamp(path);
  return now.device == mapped->device && now.inode == mapped->inode;
}

bool model_find(const struct model *m, const void *data, const char **path, uint64_t *offset) {
  if (spool_find(m->spool, data, path, offset) || spool_find(m->copies, data, path, offset))
    return true;
  if (m->mapped && lies_in(data, m->bytes, m->size)) {
    *path = own_path(m);
    *offset = (uint64_t)((const uint8_t *)data - m->bytes);
    return *path && leads_to(*path, &m->stamp);
  }
  const struct external_file *f = find_external(m, data);
  if (!f)
    return false;
  *path = f->path;
  *offset = (uint64_t)((const uint8_t *)data - f->bytes);
  return leads_to(f->path, &f->stamp);
}

void model_close(struct model *m) {
  external_close(m);
  if (m->mapped)
    file_unmap(m->bytes, m->size);
  *m = (struct model){0};
}
