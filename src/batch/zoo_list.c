// The list form of a zoo: JSON Lines. Each line is read by the same tables as a policy, so a
// misspelt key is an error that names the line and the nearest key.
#include "fields.h"
#include "file.h"
#include "raise_opset.h"
#include "zoo.h"

#include <string.h>

struct line {
  const char *model, *name, *samples, *policy, *overrides, *format, *io;
  const char **keep, **narrow;
  int raise_opset;  // 0: not given
};

// One of the row's choices, kept as it is written.
static enum status read_word(struct reader *r, const struct json *value, const struct field *f,
                             void *base) {
  int index;
  TRY(fields_find_choice(r, value, f->choices, &index));
  return fields_read_string(r, value, f, base);
}

static const char *const format_names[] = {"fp16", "bf16", "fp32", NULL};
static const char *const io_names[] = {"keep", "narrow", NULL};

#define WORD(key, member, names)                                                                   \
  { key, read_word, offsetof(struct line, member), true, 0, 0, names, NULL }
#define OPTIONAL(key, member)                                                                      \
  { key, fields_read_string, offsetof(struct line, member), true, 0, 0, NULL, NULL }

static const struct field fields[] = {
    STRING(struct line, "model", model),
    OPTIONAL("name", name),
    OPTIONAL("samples", samples),
    OPTIONAL("policy", policy),
    OPTIONAL("overrides", overrides),
    WORD("format", format, format_names),
    WORD("io", io, io_names),
    {"raise_opset", fields_read_integer, offsetof(struct line, raise_opset), true,
     RAISE_OPSET_LEAST, RAISE_OPSET_MOST, NULL, NULL},
    GLOBS(struct line, "keep", keep, 1),
    GLOBS(struct line, "narrow", narrow, 1),
    END,
};

static void add_argument(struct arena *a, struct zoo_model *m, const char *option,
                         const char *value) {
  size_t capacity = m->n_arguments;
  m->arguments = arena_grow(a, m->arguments, &capacity, m->n_arguments + 2, sizeof *m->arguments);
  m->arguments[m->n_arguments++] = option;
  m->arguments[m->n_arguments++] = value;
}

static void add_model(struct zoo *z, struct zoo_folders *folders, const char *list, size_t number,
                      const struct line *l) {
  struct arena *a = z->arena;
  struct zoo_model *m = zoo_add(z, l->name ? l->name : l->model, file_beside(l->model, list, a));
  m->entry = arena_printf(a, "%s:%zu", list, number);
  m->line = number;
  m->samples =
      l->samples ? file_beside(l->samples, list, a) : zoo_samples_beside(z, folders, m->path);
  // As everywhere, what holds a '/' or '.' is a path and anything else a shipped policy's name.
  m->policy = l->policy && strpbrk(l->policy, "/.") ? file_beside(l->policy, list, a) : l->policy;
  m->overrides = file_beside(l->overrides, list, a);
  if (l->format)
    add_argument(a, m, "--format", l->format);
  if (l->io)
    add_argument(a, m, "--io", l->io);
  if (l->raise_opset)
    add_argument(a, m, "--raise-opset", arena_printf(a, "%d", l->raise_opset));
  for (const char **glob = l->keep; glob && *glob; glob++)
    add_argument(a, m, "--keep", *glob);
  for (const char **glob = l->narrow; glob && *glob; glob++)
    add_argument(a, m, "--narrow", *glob);
}

static enum status read_line(struct zoo *z, struct zoo_folders *folders, const char *list,
                             size_t number, const char *text, struct diag *d) {
  struct line line = {0};
  struct reader r = {.file = list, .arena = z->arena, .diag = d};
  TRY(json_parse(&r.root, text, list, STATUS_POLICY, z->arena, d));
  TRY(fields_read_object(&r, r.root, fields, &line));
  add_model(z, folders, list, number, &line);
  return STATUS_OK;
}

enum status zoo_read_list(struct zoo *z, const char *path, struct diag *d) {
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(path, &bytes, &size, d));
  enum status status = STATUS_OK;
  struct zoo_folders folders = {0};
  size_t number = 0;
  for (size_t at = 0; at < size && status == STATUS_OK;) {
    const uint8_t *end = memchr(bytes + at, '\n', size - at);
    size_t length = end ? (size_t)(end - bytes) - at : size - at;
    char *text = arena_alloc(z->arena, length + 1);
    memcpy(text, bytes + at, length);
    at += length + 1;
    number++;
    if (text[strspn(text, " \t\r")] == '\0' && strlen(text) == length)
      continue;
    status = strlen(text) == length ? read_line(z, &folders, path, number, text, d)
                                    : diag_fail(d, STATUS_POLICY, "holds a NUL byte");
    if (status != STATUS_OK)
      diag_at(d, arena_printf(z->arena, "%s:%zu", path, number), NULL, NULL);
  }
  file_unmap(bytes, size);
  return status;
}
