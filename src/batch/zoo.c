// Finding the models of a zoo: see zoo.h. Names of files are hostile here: they may hold any byte
// but '/' and NUL, so what is made of them goes through zoo_folder_of. Everything is sorted, so
// that the order of a folder's entries on disk reaches no result.
#include "zoo.h"

#include "file.h"
#include "result.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  DEEPEST = 64,        // folders in folders
  SLUG_LENGTH = 60,    // readable part of a result folder's name
  DIGEST_LENGTH = 12,  // hex digits that make it unique
};

struct walk {
  struct zoo *zoo;
  size_t results;  // folders that were passed over
};

struct entry {
  const char *name;
  bool folder;  // a real one, not a link to one
};

static bool ends_with(const char *text, const char *tail) {
  size_t length = strlen(text), end = strlen(tail);
  return length > end && strcmp(text + length - end, tail) == 0;
}

static const char *stem_of(const char *name, struct arena *a) {
  return arena_printf(a, "%.*s", (int)(strlen(name) - strlen(".onnx")), name);
}

static bool is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

// Whether a batch keeps the results of a model in this folder: it has a name that zoo_folder_of
// makes, and the lock or the result, of which there is one as soon as there is anything else.
static bool is_result(const char *path, struct arena *a) {
  size_t length = strlen(path);
  if (length <= DIGEST_LENGTH || path[length - DIGEST_LENGTH - 1] != '-' ||
      strspn(path + length - DIGEST_LENGTH, "0123456789abcdef") != DIGEST_LENGTH)
    return false;
  return access(arena_printf(a, "%s/" RESULT_LOCK, path), F_OK) == 0 ||
         access(arena_printf(a, "%s/" RESULT_RESULT, path), F_OK) == 0;
}

static int compare_entries(const void *a, const void *b) {
  return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

struct zoo_model *zoo_add(struct zoo *z, const char *name, const char *path) {
  z->models = arena_grow(z->arena, z->models, &z->capacity, z->count + 1, sizeof *z->models);
  struct zoo_model *m = &z->models[z->count++];
  *m = (struct zoo_model){.name = name, .path = path, .folder = zoo_folder_of(name, z->arena)};
  return m;
}

// ---- a folder ----

static struct entry *list_folder(struct walk *w, const char *path, size_t *count, bool *opened) {
  struct arena *a = w->zoo->arena;
  struct entry *entries = NULL;
  size_t capacity = 0;
  *count = 0;
  DIR *directory = opendir(path);
  *opened = directory != NULL;
  if (!directory)
    return NULL;
  for (struct dirent *e; (e = readdir(directory));) {
    struct stat s;
    const char *inner = arena_printf(a, "%s/%s", path, e->d_name);
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || lstat(inner, &s) != 0)
      continue;
    bool folder = S_ISDIR(s.st_mode);
    if (S_ISLNK(s.st_mode) && is_folder(inner))
      continue;
    if (folder && is_result(inner, a)) {
      w->results++;
      continue;
    }
    entries = arena_grow(a, entries, &capacity, *count + 1, sizeof *entries);
    entries[(*count)++] = (struct entry){arena_strdup(a, e->d_name), folder};
  }
  closedir(directory);
  if (*count)
    qsort(entries, *count, sizeof *entries, compare_entries);
  return entries;
}

static bool holds_samples(const struct entry *entries, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *name = entries[i].name;
    if (entries[i].folder ? strncmp(name, "test_data_set_", 14) == 0
                          : ends_with(name, ".npz") || ends_with(name, ".npy"))
      return true;
  }
  return false;
}

static const char *find_samples(struct arena *a, const char *folder, const char *model,
                                bool only_model, bool here) {
  const char *own = arena_printf(a, "%s/samples/%s", folder, stem_of(model, a));
  if (is_folder(own))
    return own;
  const char *common = arena_printf(a, "%s/samples", folder);
  if (only_model && is_folder(common))
    return common;
  return here ? folder : NULL;
}

static size_t count_models(const struct entry *entries, size_t count) {
  size_t models = 0;
  for (size_t i = 0; i < count; i++)
    models += !entries[i].folder && ends_with(entries[i].name, ".onnx");
  return models;
}

const char *zoo_samples_beside(struct zoo *z, struct zoo_folders *read, const char *path) {
  const char *base = file_base(path);
  if (!ends_with(base, ".onnx"))
    return NULL;
  const char *folder =
      base == path ? "." : arena_printf(z->arena, "%.*s", (int)(base - path - 1), path);
  read->known.arena = z->arena;
  int at = map_get(&read->known, 0, folder);
  if (at < 0) {
    struct walk w = {.zoo = z};
    size_t count;
    bool opened;
    const struct entry *entries = list_folder(&w, folder[0] ? folder : "/", &count, &opened);
    at = (int)read->count;
    read->items =
        arena_grow(z->arena, read->items, &read->capacity, read->count + 1, sizeof *read->items);
    read->items[read->count++] =
        (struct zoo_folder){count_models(entries, count) == 1, holds_samples(entries, count)};
    map_put(&read->known, 0, folder, at);
  }
  const struct zoo_folder *f = &read->items[at];
  return find_samples(z->arena, folder, base, f->only_model, f->samples);
}

static void walk_folder(struct walk *w, const char *path, const char *name, int depth);

static void walk_entries(struct walk *w, const char *path, const char *name, int depth,
                         const struct entry *entries, size_t count) {
  struct arena *a = w->zoo->arena;
  size_t models = count_models(entries, count);
  bool here = holds_samples(entries, count);
  for (size_t i = 0; i < count; i++) {
    const struct entry *e = &entries[i];
    const char *inner = arena_printf(a, "%s/%s", path, e->name);
    const char *inner_name = name[0] ? arena_printf(a, "%s/%s", name, e->name) : e->name;
    if (e->folder)
      walk_folder(w, inner, inner_name, depth + 1);
    else if (ends_with(e->name, ".onnx"))
      zoo_add(w->zoo, inner_name, inner)->samples =
          find_samples(a, path, e->name, models == 1, here);
  }
}

// A folder that cannot be read may hide models, so it is a line of the summary and not passed over.
static void add_fault(struct walk *w, const char *path, const char *name, const char *fault) {
  zoo_add(w->zoo, name[0] ? name : ".", path)->fault = fault;
}

static void walk_folder(struct walk *w, const char *path, const char *name, int depth) {
  size_t count;
  bool opened;
  if (depth > DEEPEST) {
    add_fault(w, path, name, "folder not read: too deep in others");
    return;
  }
  struct entry *entries = list_folder(w, path, &count, &opened);
  if (opened)
    walk_entries(w, path, name, depth, entries, count);
  else
    add_fault(w, path, name, arena_printf(w->zoo->arena, "folder not read: %s", strerror(errno)));
}

// ---- names ----

const char *zoo_folder_of(const char *name, struct arena *a) {
  char digest[65];
  sha256_hex(name, strlen(name), digest);
  size_t length = strlen(name);
  static const char *const tails[] = {".onnx", "/model"};
  for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++)
    if (length > strlen(tails[i]) &&
        strncmp(name + length - strlen(tails[i]), tails[i], strlen(tails[i])) == 0)
      length -= strlen(tails[i]);
  // The end of a long path says more than its beginning.
  const char *from = length > SLUG_LENGTH ? name + length - SLUG_LENGTH : name;
  char *slug = arena_printf(a, "%.*s", (int)(name + length - from), from);
  for (char *c = slug; *c; c++) {
    bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                 (c != slug && (*c == '-' || *c == '.'));
    if (*c == '/' && c != slug)
      *c = '.';
    else if (!plain)
      *c = '_';
  }
  return arena_printf(a, "%s-%.*s", slug, DIGEST_LENGTH, digest);
}

bool zoo_in_shard(const char *name, int index, int count) {
  char digest[65];
  sha256_hex(name, strlen(name), digest);
  digest[15] = '\0';  // 60 bits
  return (int)(strtoull(digest, NULL, 16) % (unsigned long long)count) == index - 1;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const struct zoo_model *)a)->name, ((const struct zoo_model *)b)->name);
}

static int compare_folders(const void *a, const void *b) {
  const struct zoo_model *x = *(const struct zoo_model *const *)a,
                         *y = *(const struct zoo_model *const *)b;
  int order = strcmp(x->folder, y->folder);
  return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

// Sorts, and refuses two models that would get one folder.
static enum status settle(struct zoo *z, struct diag *d) {
  qsort(z->models, z->count, sizeof *z->models, compare_names);
  const struct zoo_model **sorted = arena_array(z->arena, z->count, sizeof *sorted);
  for (size_t i = 0; i < z->count; i++)
    sorted[i] = &z->models[i];
  qsort(sorted, z->count, sizeof *sorted, compare_folders);
  for (size_t i = 1; i < z->count; i++) {
    const struct zoo_model *m = sorted[i], *before = sorted[i - 1];
    if (strcmp(before->folder, m->folder) != 0)
      continue;
    if (m->entry)
      diag_at(d, m->entry, NULL, NULL);
    diag_hint(d, "Give each a \"name\" of its own.");
    return m->entry ? diag_fail(d, STATUS_POLICY,
                                "two models are called \"%s\": this and that of line %zu", m->name,
                                before->line)
                    : diag_fail(d, STATUS_POLICY, "two models are called \"%s\"", m->name);
  }
  return STATUS_OK;
}

enum status zoo_open(struct zoo *z, const char *path, struct arena *a, struct diag *d) {
  *z = (struct zoo){.arena = a};
  struct walk w = {.zoo = z};
  struct stat s;
  diag_at(d, path, NULL, NULL);
  if (stat(path, &s) != 0)
    return diag_fail(d, STATUS_IO, "cannot be read: %s", strerror(errno));
  if (S_ISDIR(s.st_mode)) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
      length--;
    walk_folder(&w, arena_printf(a, "%.*s", (int)length, path), "", 0);
  } else {
    TRY(zoo_read_list(z, path, d));
  }
  if (!z->count && w.results) {
    diag_hint(d, "To convert a result again, name its file in a list.");
    return diag_fail(d, STATUS_DATA, "holds no models but results of `batch`");
  }
  if (!z->count) {
    diag_hint(d, "A zoo is a folder with .onnx files somewhere below it, or a list of JSON Lines.");
    return diag_fail(d, STATUS_DATA, "holds no models");
  }
  TRY(settle(z, d));
  diag_at(d, "", NULL, NULL);
  return STATUS_OK;
}
