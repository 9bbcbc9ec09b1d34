// Writing a model: see model.h. The message is streamed to the file, so that weights go straight
// from the mapped input to the output. External data is written to one file beside it; for the time
// of writing the tensors refer to that file, and afterwards to what they referred to before.
//
// Two files cannot be replaced at one stroke. So the data file is called after the hash of what is
// in it: the new one takes its place beside the old one, then the model is replaced, which is the
// one stroke that counts, and then data files of earlier contents go. At any moment the model that
// is there finds its data.
#include "external.h"
#include "file.h"
#include "json.h"
#include "model.h"
#include "tensor.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A tensor of many pages begins with a page, so that a runtime can map it where it lies; one of few
// would waste more than it gains, and begins where vector loads are aligned.
enum { PAGE = 4096, VECTOR = 64, MANY_PAGES = 16 * PAGE };

// Smaller initializers stay in the model, where shape inference finds them.
enum { LEAST_OUTSIDE = 1024 };

// A data file is "<model>.<DIGITS digits of its hash>.data".
enum { DIGITS = 16 };
static const char extension[] = ".data";

// ---- Packing ----

static enum status packed_size(const Onnx__ModelProto *proto, size_t *size, struct diag *d) {
  *size = protobuf_c_message_get_packed_size(&proto->base);
  if (*size <= INT32_MAX)
    return STATUS_OK;
  diag_hint(d, "Weights may lie in a file beside the model: --external-data auto.");
  return diag_fail(d, STATUS_MODEL,
                   "the model would have %zu bytes, and no protobuf message may exceed 2 GiB",
                   *size);
}

enum status model_pack(const Onnx__ModelProto *proto, struct arena *a, uint8_t **bytes,
                       size_t *size, struct diag *d) {
  TRY(packed_size(proto, size, d));
  *bytes = arena_alloc(a, *size);
  protobuf_c_message_pack(&proto->base, *bytes);
  return STATUS_OK;
}

// Writes bytes of a model piece by piece, so that what is mapped is never in memory as a whole.
// `hash` may be NULL. Failures stay noted in the stream; file_sync looks.
static void put(struct model *m, FILE *out, struct hash *hash, const uint8_t *bytes, size_t size) {
  enum { PIECE = 4 * 1024 * 1024 };
  for (size_t at = 0; at < size; at += PIECE) {
    size_t n = size - at < PIECE ? size - at : PIECE;
    fwrite(bytes + at, 1, n, out);
    if (hash)
      hash_add(hash, bytes + at, n);
    model_passed(m, n);
  }
}

struct stream {
  ProtobufCBuffer base;
  struct model *model;
  FILE *out;
};

static void stream_append(ProtobufCBuffer *buffer, size_t size, const uint8_t *bytes) {
  struct stream *s = (struct stream *)buffer;
  put(s->model, s->out, NULL, bytes, size);
}

static enum status write_message(struct model *m, FILE *out, struct diag *d) {
  size_t size;
  TRY(packed_size(m->proto, &size, d));
  struct stream stream = {{stream_append}, m, out};
  protobuf_c_message_pack_to_buffer(&m->proto->base, &stream.base);
  return STATUS_OK;
}

// ---- External data ----

// What a tensor said before the save.
struct original {
  Onnx__TensorProto *t, before;
};

struct saver {
  struct model *m;
  struct arena arena;  // of this save
  struct diag *d;
  const char *path;  // of the model
  bool copies;       // it is copied whole, with its data files
  enum external_data where;
  char *location;           // of the data file, as the model names it; DIGITS come at the end
  struct file_writer data;  // begun with the first external tensor
  struct hash *hash;        // of what is in it
  uint64_t size;            // bytes in it
  struct map written;       // source range -> index into offsets
  uint64_t *offsets;
  size_t n_offsets, capacity_offsets;
  struct original *originals;
  size_t n_originals, capacity_originals;
};

// Names the stretch of memory or file, so that what several tensors share is written once.
static enum status find_data(struct saver *s, const Onnx__TensorProto *t, const uint8_t **data,
                             size_t *size, const char **key) {
  if (t->has_raw_data) {
    *data = t->raw_data.data;
    *size = t->raw_data.len;
    *key = arena_printf(&s->arena, "%p:%zu", (const void *)*data, *size);
    return STATUS_OK;
  }
  struct external_range range;
  TRY(external_find(s->m, t, &range, s->d));
  *data = s->m->externals->files[range.file].bytes + range.offset;
  *size = range.length;
  *key = arena_printf(&s->arena, "%d:%zu:%zu", range.file, range.offset, range.length);
  return STATUS_OK;
}

// The path of a file in the folder of the model that is written.
static const char *beside(struct saver *s, const char *name) {
  return arena_printf(&s->arena, "%.*s%s", (int)(file_base(s->path) - s->path), s->path, name);
}

static enum status write_data(struct saver *s, const uint8_t *data, size_t size, uint64_t *offset) {
  static const uint8_t zeros[PAGE];
  if (!s->data.out) {
    TRY(file_begin(&s->data, beside(s, s->location), s->d));
    s->hash = hash_begin();
  }
  size_t padding = (size_t)(-s->size % (size < MANY_PAGES ? VECTOR : PAGE));
  fwrite(zeros, 1, padding, s->data.out);
  hash_add(s->hash, zeros, padding);
  put(s->m, s->data.out, s->hash, data, size);
  *offset = s->size + padding;
  s->size = *offset + size;
  if (!ferror(s->data.out))
    return STATUS_OK;
  return file_sync(&s->data, s->d);  // gives the reason
}

static Onnx__StringStringEntryProto *new_entry(struct arena *a, const char *key, char *value) {
  Onnx__StringStringEntryProto *entry = arena_alloc(a, sizeof *entry);
  onnx__string_string_entry_proto__init(entry);
  entry->key = arena_strdup(a, key);
  entry->value = value;
  return entry;
}

static void remember(struct saver *s, Onnx__TensorProto *t) {
  s->originals = arena_grow(&s->arena, s->originals, &s->capacity_originals, s->n_originals + 1,
                            sizeof *s->originals);
  s->originals[s->n_originals++] = (struct original){t, *t};
}

// Some are changed twice: backwards.
static void restore(struct saver *s) {
  for (size_t i = s->n_originals; i-- > 0;)
    *s->originals[i].t = s->originals[i].before;
}

// The checksum is left out: it is of a file that the tensor refers to no more.
static void redirect(struct saver *s, Onnx__TensorProto *t, uint64_t offset, size_t size) {
  remember(s, t);
  t->has_raw_data = false;
  t->n_external_data = 3;
  t->external_data = arena_array(&s->arena, 3, sizeof *t->external_data);
  t->external_data[0] = new_entry(&s->arena, "location", s->location);
  t->external_data[1] =
      new_entry(&s->arena, "offset", arena_printf(&s->arena, "%llu", (unsigned long long)offset));
  t->external_data[2] = new_entry(&s->arena, "length", arena_printf(&s->arena, "%zu", size));
}

static enum status save_tensor(void *context, Onnx__TensorProto *t) {
  struct saver *s = context;
  if (t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return STATUS_OK;
  const uint8_t *data;
  size_t size;
  const char *key;
  TRY(find_data(s, t, &data, &size, &key));
  int index = map_get(&s->written, 0, key);
  if (index < 0) {
    s->offsets = arena_grow(&s->arena, s->offsets, &s->capacity_offsets, s->n_offsets + 1,
                            sizeof *s->offsets);
    TRY(write_data(s, data, size, &s->offsets[s->n_offsets]));
    index = (int)s->n_offsets++;
    map_put(&s->written, 0, key, index);
  }
  redirect(s, t, s->offsets[index], size);
  return STATUS_OK;
}

// ---- What goes outside ----

static bool is_outside(const Onnx__TensorProto *t) {
  return t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

// Puts all data of a tensor, in whatever field it is, into raw_data.
static enum status gather_data(struct saver *s, Onnx__TensorProto *t, bool outside) {
  struct tensor view;
  TRY(tensor_read(s->m, t, &s->arena, &view, s->d));
  remember(s, t);
  t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
  t->has_raw_data = true;
  t->raw_data = (ProtobufCBinaryData){view.size, (uint8_t *)(uintptr_t)view.data};
  t->n_external_data = 0;
  t->has_data_location = outside;
  t->data_location = outside ? ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL
                             : ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
  return STATUS_OK;
}

static enum status take_in(void *context, Onnx__TensorProto *t) {
  return is_outside(t) ? gather_data(context, t, false) : STATUS_OK;
}

// The graphs in the graph too: their depth was limited when the model was loaded.
static enum status put_out(struct saver *s, const Onnx__GraphProto *graph) {
  for (size_t i = 0; i < graph->n_initializer; i++) {
    Onnx__TensorProto *t = graph->initializer[i];
    uint64_t count, bytes;
    if (!is_outside(t) && tensor_extent(t, &count, &bytes) && bytes >= LEAST_OUTSIDE)
      TRY(gather_data(s, t, true));
  }
  for (size_t n = 0; n < graph->n_node; n++)
    for (size_t i = 0; i < graph->node[n]->n_attribute; i++) {
      const Onnx__AttributeProto *a = graph->node[n]->attribute[i];
      if (a->g)
        TRY(put_out(s, a->g));
      for (size_t k = 0; k < a->n_graphs; k++)
        TRY(put_out(s, a->graphs[k]));
    }
  return STATUS_OK;
}

static enum status count_outside(void *context, Onnx__TensorProto *t) {
  if (is_outside(t) && t->has_raw_data)
    *(size_t *)context += t->raw_data.len;
  return STATUS_OK;
}

static bool fits_one_file(const struct saver *s) {
  size_t outside = 0;
  model_each_tensor(s->m->proto, count_outside, &outside);
  return protobuf_c_message_get_packed_size(&s->m->proto->base) - outside <= INT32_MAX;
}

static enum status choose_places(struct saver *s) {
  if (s->where == EXTERNAL_NEVER)
    return model_each_tensor(s->m->proto, take_in, s);
  if (s->where == EXTERNAL_ALWAYS || !fits_one_file(s))
    return put_out(s, s->m->proto->graph);
  return STATUS_OK;
}

// ---- Saving ----

static bool exists(const char *path) {
  struct stat s;
  return lstat(path, &s) == 0;
}

// Puts the hash into the location, which all tensors share.
static void name_data(struct saver *s) {
  char hex[65];
  hash_end(s->hash, hex);
  s->hash = NULL;
  memcpy(s->location + strlen(s->location) - DIGITS - (sizeof extension - 1), hex, DIGITS);
  file_set_path(&s->data, beside(s, s->location));
}

bool model_may_name_data(const char *model, const char *name) {
  size_t length = strlen(model);
  return strncmp(name, model, length) == 0 && name[length] == '.' &&
         strspn(name + length + 1, "0123456789abcdef") == DIGITS &&
         strcmp(name + length + 1 + DIGITS, extension) == 0;
}

// True if the model that is saved has its own data there, which clones of it may read yet.
static bool is_read(const struct model *m, const char *path) {
  struct file_stamp stamp = file_stamp(path);
  for (size_t i = 0; m->externals && i < m->externals->count; i++) {
    const struct file_stamp *mapped = &m->externals->files[i].stamp;
    if (mapped->device == stamp.device && mapped->inode == stamp.inode)
      return true;
  }
  return false;
}

// Whether a copied model reads the file that lies beside it under that name.
static bool is_copied(const struct saver *s, const char *name) {
  const struct externals *files = s->copies ? s->m->externals : NULL;
  for (size_t i = 0; files && i < files->count; i++)
    if (strcmp(files->files[i].location, name) == 0)
      return true;
  return false;
}

// Data of what stood at this path before, also if a run was killed before its model got there.
static void remove_old_data(struct saver *s) {
  DIR *dir = opendir(s->path == file_base(s->path) ? "." : beside(s, ""));
  if (!dir)
    return;
  const char *kept = s->n_offsets ? s->location : "";
  for (const struct dirent *entry; (entry = readdir(dir));)
    if (model_may_name_data(file_base(s->path), entry->d_name) &&
        strcmp(entry->d_name, kept) != 0 && !is_copied(s, entry->d_name) &&
        !is_read(s->m, beside(s, entry->d_name)))
      unlinkat(dirfd(dir), entry->d_name, 0);
  closedir(dir);
}

// The data file comes first: a model must not name what is not there. Both are synced before either
// takes its place, so that little can fail in between.
static enum status commit(struct saver *s, struct file_writer *out) {
  bool has_data = s->data.out != NULL;
  TRY(file_sync(out, s->d));
  TRY(model_unchanged(s->m, s->d));
  bool replaces = has_data && exists(s->data.path);
  if (has_data)
    TRY(file_commit(&s->data, s->d));
  enum status status = file_commit(out, s->d);
  if (status != STATUS_OK && has_data && !replaces)
    unlink(s->data.path);
  if (status == STATUS_OK)
    remove_old_data(s);
  return status;
}

// A location is a string of the model, and these are UTF-8.
static const char *location_fault(const char *location) {
  for (const char *at = location; *at;) {
    int length = json_utf8_length(at);
    if (length < 1)
      return "is not valid UTF-8";
    at += length;
  }
  return external_location_fault(location);
}

static enum status check_place(const struct saver *s) {
  if (strcmp(s->path, FILE_NULL) != 0)
    return STATUS_OK;
  diag_at(s->d, s->path, NULL, NULL);
  return diag_fail(s->d, STATUS_IO, "no place for a model, which may have its weights beside it");
}

static enum status save(struct saver *s, struct file_writer *out) {
  const char *fault;
  s->location = arena_printf(&s->arena, "%s.%0*d%s", file_base(s->path), DIGITS, 0, extension);
  TRY(check_place(s));
  TRY(choose_places(s));
  TRY(model_each_tensor(s->m->proto, save_tensor, s));
  if (s->data.out && (fault = location_fault(s->location))) {
    diag_at(s->d, s->path, NULL, NULL);
    diag_hint(s->d, "Give the result another name, or keep its weights inside: --external-data "
                    "never.");
    return diag_fail(s->d, STATUS_IO, "'%s' would be no valid name for external data: it %s",
                     s->location, fault);
  }
  if (s->data.out)
    name_data(s);
  TRY(file_begin(out, s->path, s->d));
  enum status status = write_message(s->m, out->out, s->d);
  if (status != STATUS_OK)
    diag_at(s->d, s->path, NULL, NULL);
  TRY(status);
  return commit(s, out);
}

enum status model_save_as(struct model *m, const char *path, enum external_data where,
                          struct diag *d) {
  struct saver s = {.m = m, .d = d, .path = path, .where = where};
  struct file_writer out = {.out = NULL};
  char unused[65];
  s.written.arena = &s.arena;
  enum status status = save(&s, &out);
  hash_end(s.hash, unused);
  file_abandon(&out);
  file_abandon(&s.data);
  restore(&s);
  arena_free(&s.arena);
  return status;
}

enum status model_save(struct model *m, const char *path, struct diag *d) {
  return model_save_as(m, path, EXTERNAL_AUTO, d);
}

// ---- Copying ----

static enum status write_bytes(struct saver *s, const char *path, const uint8_t *bytes,
                               size_t size) {
  struct file_writer out;
  TRY(file_begin(&out, path, s->d));
  put(s->m, out.out, NULL, bytes, size);
  return file_commit(&out, s->d);
}

static enum status map_external(void *context, Onnx__TensorProto *t) {
  struct saver *s = context;
  struct external_range range;
  if (t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return STATUS_OK;
  return external_find(s->m, t, &range, s->d);
}

// Makes the folders of "a/b/file" below the folder of length `root` that `path` starts with.
static void make_folders(char *path, size_t root) {
  for (char *slash = path + root + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    mkdir(path, 0777);  // a failure shows when the file is begun
    *slash = '/';
  }
}

// STATUS_OK if `path` holds just these bytes.
static enum status same_bytes(const char *path, const struct external_file *f, struct diag *d) {
  enum { PIECE = 4 * 1024 * 1024 };
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(path, &bytes, &size, d));
  bool same = size == f->size;
  for (size_t at = 0; at < size && same; at += PIECE) {
    size_t n = size - at < PIECE ? size - at : PIECE;
    same = memcmp(bytes + at, f->bytes + at, n) == 0;
    file_forget(bytes + at, n);
    file_forget(f->bytes + at, n);
  }
  file_unmap(bytes, size);
  if (same)
    return STATUS_OK;
  diag_at(d, path, NULL, NULL);
  diag_hint(d, "Write to a folder of its own, or remove that file.");
  return diag_fail(d, STATUS_IO, "is there already and is not the model's data file");
}

static enum status copy_externals(struct saver *s, const char *directory, bool *created) {
  for (size_t i = 0; s->m->externals && i < s->m->externals->count; i++) {
    const struct external_file *f = &s->m->externals->files[i];
    char *path = arena_printf(&s->arena, "%s/%s", directory, f->location);
    if (exists(path)) {
      TRY(same_bytes(path, f, s->d));
      continue;
    }
    make_folders(path, strlen(directory));
    TRY(write_bytes(s, path, f->bytes, f->size));
    created[i] = true;
  }
  return STATUS_OK;
}

static bool same_folder(const char *a, const char *b) {
  struct stat s, t;
  return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

static enum status copy(struct saver *s) {
  TRY(check_place(s));
  const char *path = s->path, *directory = file_base(path) == path ? "." : beside(s, "");
  TRY(model_each_tensor(s->m->proto, map_external, s));
  if (same_folder(directory, s->m->directory))
    return write_bytes(s, path, s->m->bytes, s->m->size);
  size_t count = s->m->externals ? s->m->externals->count : 0;
  bool *created = arena_array(&s->arena, count, sizeof *created);
  enum status status = copy_externals(s, directory, created);
  if (status == STATUS_OK)
    status = write_bytes(s, path, s->m->bytes, s->m->size);
  for (size_t i = 0; i < count && status != STATUS_OK; i++)
    if (created[i])
      unlink(arena_printf(&s->arena, "%s/%s", directory, s->m->externals->files[i].location));
  return status;
}

enum status model_copy(struct model *m, const char *path, struct diag *d) {
  struct saver s = {.m = m, .d = d, .path = path, .copies = true};
  TRY(model_unchanged(m, d));
  enum status status = copy(&s);
  if (status == STATUS_OK)
    remove_old_data(&s);
  arena_free(&s.arena);
  return status;
}
