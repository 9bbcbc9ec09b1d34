// External data: see external.h. A model file is hostile, so a location may only lead to a regular
// file below the model's own folder: no absolute path, no "..", nothing that is a path elsewhere on
// another system, and no symbolic link that leads out (the resolved paths are compared).
// Source: onnx/onnx docs/ExternalData.md.
#define _XOPEN_SOURCE 700  // realpath
#include "external.h"

#include "file.h"
#include "tensor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// "https://host/file", "file:///a": RFC 3986, section 3.1.
static bool is_url(const char *location) {
  size_t scheme = strspn(location, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789+-.");
  return scheme > 1 && strncmp(location + scheme, "://", 3) == 0;
}

const char *external_location_fault(const char *location) {
  char first = (char)(location[0] | 0x20);
  if (!location[0])
    return "is empty";
  if (strstr(location, "_ORT_MEM_ADDR_"))
    return "stands for memory of the process that saved the model: the data is in no file";
  if (is_url(location))
    return "is a URL";
  if (strncmp(location, "\\\\", 2) == 0 || strncmp(location, "//", 2) == 0)
    return "names a file of another machine (a UNC path)";
  if (location[0] == '/')
    return "is an absolute path";
  if (first >= 'a' && first <= 'z' && location[1] == ':')
    return "begins with the name of a drive";
  if (strchr(location, '\\'))
    return "has a backslash, where a path in a model has '/'";
  for (const char *part = location; part; part = strchr(part, '/')) {
    part += *part == '/';
    if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || !part[2]))
      return "has a '..' in it";
  }
  return NULL;
}

// "a//./b" -> "a/b".
static char *normalize(struct arena *a, const char *location) {
  char *out = arena_alloc(a, strlen(location) + 1);
  size_t length = 0;
  for (const char *part = location; *part;) {
    size_t size = strcspn(part, "/");
    if (size && !(size == 1 && part[0] == '.')) {
      if (length)
        out[length++] = '/';
      memcpy(out + length, part, size);
      length += size;
    }
    part += size + (part[size] == '/');
  }
  return out;
}

// A path without links, in the arena; NULL (and errno) if it leads nowhere.
static char *resolve(struct arena *a, const char *path) {
  char *real = realpath(path, NULL);
  char *copy = real ? arena_strdup(a, real) : NULL;
  free(real);
  return copy;
}

static bool is_below(const char *path, const char *root) {
  size_t length = strlen(root);
  if (length && root[length - 1] == '/')
    length--;
  return strncmp(path, root, length) == 0 && path[length] == '/' && path[length + 1];
}

// All clones of a model share what is mapped: it lives in the arena of the model that was loaded.
void external_open(struct model *m) {
  m->externals = arena_alloc(m->arena, sizeof *m->externals);
  m->externals->arena = m->arena;
  m->externals->index.arena = m->externals->aligned.arena = m->arena;
}

static enum status find_root(struct model *m, struct diag *d) {
  struct externals *e = m->externals;
  if (!e->root)
    e->root = resolve(e->arena, m->directory);
  if (e->root)
    return STATUS_OK;
  return diag_fail(d, STATUS_IO, "the model's folder %s, where its external data should be: %s",
                   m->directory, strerror(errno));
}

// The file that `location` leads to, after all checks that need the file system.
static enum status resolve_location(struct model *m, const char *location, char **resolved,
                                    struct diag *d) {
  char *path = arena_printf(m->externals->arena, "%s/%s", m->directory, location);
  *resolved = resolve(m->externals->arena, path);
  if (!*resolved) {
    diag_hint(d, "Put the data file beside the model, as it was exported.");
    return diag_fail(d, STATUS_IO, "external data file '%s': %s", location, strerror(errno));
  }
  if (!is_below(*resolved, m->externals->root)) {
    diag_hint(d, "Model hubs keep their files behind links: make a real copy of the model's "
                 "folder first (cp -rL).");
    return diag_fail(d, STATUS_MODEL,
                     "external data file '%s' is a symbolic link out of the model's folder",
                     location);
  }
  char *self = resolve(m->externals->arena, m->path);
  if (self && strcmp(self, *resolved) == 0)
    return diag_fail(d, STATUS_MODEL, "external data location '%s' is the model file itself",
                     location);
  return STATUS_OK;
}

static enum status find_file(struct model *m, const char *location, int *file, struct diag *d) {
  TRY(find_root(m, d));
  struct externals *e = m->externals;
  *file = map_get(&e->index, 0, location);
  if (*file >= 0)
    return STATUS_OK;
  const char *fault = external_location_fault(location);
  char *plain = normalize(m->externals->arena, location);
  if (!fault && !plain[0])
    fault = "names a folder";
  if (fault) {
    diag_hint(d, "External data must lie beside the model, or in a folder below that. Put the file "
                 "there, and its name into the model: no program fetches it from elsewhere.");
    return diag_fail(d, STATUS_MODEL, "external data location '%s' %s", location, fault);
  }
  *file = map_get(&e->index, 0, plain);
  if (*file < 0) {
    char *resolved;
    struct external_file f = {.location = plain};
    TRY(resolve_location(m, plain, &resolved, d));
    f.path = resolved;
    f.stamp = file_stamp(resolved);
    TRY(file_map(resolved, &f.bytes, &f.size, d));
    e->files = arena_grow(m->externals->arena, e->files, &e->capacity, e->count + 1, sizeof f);
    *file = (int)e->count;
    e->files[e->count++] = f;
    map_put(&e->index, 0, plain, *file);
  }
  map_put(&e->index, 0, location, *file);
  return STATUS_OK;
}

// ---- Entries ----

enum key { KEY_LOCATION, KEY_OFFSET, KEY_LENGTH, KEY_CHECKSUM, KEY_COUNT };

static const char *const key_names[KEY_COUNT] = {"location", "offset", "length", "checksum"};

// The values by key; NULL where there is none. Unknown keys are left alone.
static enum status read_entries(const Onnx__TensorProto *t, const char *values[KEY_COUNT],
                                struct diag *d) {
  memset(values, 0, KEY_COUNT * sizeof values[0]);
  for (size_t i = 0; i < t->n_external_data; i++) {
    const Onnx__StringStringEntryProto *entry = t->external_data[i];
    for (int key = 0; key < KEY_COUNT; key++) {
      if (!entry->key || strcmp(entry->key, key_names[key]) != 0)
        continue;
      if (values[key])
        return diag_fail(d, STATUS_MODEL, "its external data has two '%s' entries", key_names[key]);
      values[key] = entry->value ? entry->value : "";
    }
  }
  return values[KEY_LOCATION]
             ? STATUS_OK
             : diag_fail(d, STATUS_MODEL, "its external data has no 'location' entry");
}

static enum status read_number(const char *name, const char *text, uint64_t *value,
                               struct diag *d) {
  *value = 0;
  bool good = text[0] != '\0';
  for (const char *c = text; *c && good; c++) {
    unsigned digit = (unsigned)(*c - '0');
    good = *c >= '0' && *c <= '9' && *value <= ((uint64_t)INT64_MAX - digit) / 10;
    *value = *value * 10 + digit;
  }
  return good ? STATUS_OK
              : diag_fail(d, STATUS_MODEL,
                          "the %s of its external data is no decimal number below 2^63: '%s'", name,
                          text);
}

static enum status read_range(const Onnx__TensorProto *t, const char *const values[KEY_COUNT],
                              const struct external_file *f, struct external_range *out,
                              struct diag *d) {
  uint64_t offset = 0, length, count;
  if (values[KEY_OFFSET])
    TRY(read_number("offset", values[KEY_OFFSET], &offset, d));
  uint64_t rest = offset <= f->size ? f->size - offset : 0;
  if (values[KEY_LENGTH])
    TRY(read_number("length", values[KEY_LENGTH], &length, d));
  else if (!tensor_extent(t, &count, &length) || length > rest)
    length = rest;
  if (offset > f->size || length > rest) {
    diag_hint(d, "The data file is not the one that was exported with this model, or not whole.");
    return diag_fail(d, STATUS_MODEL,
                     "its external data (offset %llu, %llu bytes) lies outside '%s', which has %zu",
                     (unsigned long long)offset, (unsigned long long)length, f->location, f->size);
  }
  out->offset = (size_t)offset;
  out->length = (size_t)length;
  return STATUS_OK;
}

// ONNX: "SHA1 digest of file", which says neither how it is written nor that it must be there. What
// is not 40 hexadecimal digits is left alone. Each file is read for it once.
static enum status check_sum(const char *sum, struct external_file *f, struct diag *d) {
  enum { DIGITS = 40 };
  if (!sum || strlen(sum) != DIGITS || strspn(sum, "0123456789abcdefABCDEF") != DIGITS)
    return STATUS_OK;
  if (!f->hashed && !file_sha1(f->bytes, f->size, f->sha1))
    f->sha1[0] = '\0';
  f->hashed = true;
  if (!f->sha1[0] || strcasecmp(sum, f->sha1) == 0)
    return STATUS_OK;
  diag_hint(d, "The data file is not the one that was exported with this model, or is damaged.");
  return diag_fail(d, STATUS_MODEL, "its external data '%s' has the SHA-1 checksum %s, not %s",
                   f->location, f->sha1, sum);
}

static enum status find(struct model *m, const Onnx__TensorProto *t, struct external_range *out,
                        struct diag *d) {
  const char *values[KEY_COUNT];
  TRY(read_entries(t, values, d));
  TRY(find_file(m, values[KEY_LOCATION], &out->file, d));
  TRY(check_sum(values[KEY_CHECKSUM], &m->externals->files[out->file], d));
  return read_range(t, values, &m->externals->files[out->file], out, d);
}

enum status external_find(struct model *m, const Onnx__TensorProto *t, struct external_range *out,
                          struct diag *d) {
  assert(t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
  enum status status = find(m, t, out, d);
  if (status != STATUS_OK)
    diag_at(d, d->file[0] ? NULL : m->path, NULL, t->name);
  return status;
}

enum status model_external(struct model *m, const Onnx__TensorProto *t, const uint8_t **data,
                           size_t *size, struct diag *d) {
  if (t->has_raw_data) {
    *data = t->raw_data.data;
    *size = t->raw_data.len;
    return STATUS_OK;
  }
  struct external_range range;
  TRY(external_find(m, t, &range, d));
  *data = m->externals->files[range.file].bytes + range.offset;
  *size = range.length;
  return STATUS_OK;
}

const char *external_changed(const struct model *m) {
  for (size_t i = 0; m->externals && i < m->externals->count; i++)
    if (file_changed(m->externals->files[i].path, &m->externals->files[i].stamp))
      return m->externals->files[i].path;
  return NULL;
}

void external_close(struct model *m) {
  if (!m->externals)
    return;
  for (size_t i = 0; i < m->externals->count; i++)
    file_unmap(m->externals->files[i].bytes, m->externals->files[i].size);
  m->externals = NULL;
}
