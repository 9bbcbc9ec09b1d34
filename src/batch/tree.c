// Folders with all that is below them: see tree.h. A converted model is such a folder, since its
// external data may have any name, in any folder below the model's own.
#define _GNU_SOURCE  // syncfs, which waits for all files with one commit of the journal
#include "tree.h"

#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  DEEPEST = 100
};  // as deep as no data location of a model goes, and no hostile one overflows

// Calls `visit` for what is in the folder, not below that; stops at an error.
static enum status each_entry(const char *folder, struct arena *a,
                              enum status (*visit)(void *context, const char *name,
                                                   const char *path, const struct stat *s),
                              void *context) {
  DIR *directory = opendir(folder);
  if (!directory)
    return STATUS_IO;
  enum status status = STATUS_OK;
  for (struct dirent *e; status == STATUS_OK && (e = readdir(directory));) {
    struct stat s;
    const char *path = arena_printf(a, "%s/%s", folder, e->d_name);
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && lstat(path, &s) == 0)
      status = visit(context, e->d_name, path, &s);
  }
  closedir(directory);
  return status;
}

// ---- remove ----

static void remove_below(const char *path, int depth);

static enum status remove_entry(void *context, const char *name, const char *path,
                                const struct stat *s) {
  (void)name;
  if (!S_ISDIR(s->st_mode))
    unlink(path);
  else
    remove_below(path, *(int *)context + 1);
  return STATUS_OK;
}

static void remove_below(const char *path, int depth) {
  struct arena scratch = {0};
  if (depth < DEEPEST)
    (void)each_entry(path, &scratch, remove_entry, &depth);
  rmdir(path);
  arena_free(&scratch);
}

void tree_remove(const char *path) {
  if (unlink(path) != 0)
    remove_below(path, 0);
}

// ---- list ----

struct list {
  struct arena *arena;
  struct tree_file *files;
  size_t count, capacity;
  const char *prefix;  // of names: "", "model/", ...
  int depth;
};

static enum status list_entry(void *context, const char *name, const char *path,
                              const struct stat *s) {
  struct list *l = context;
  const char *prefix = l->prefix, *inner = arena_printf(l->arena, "%s%s", prefix, name);
  if (S_ISREG(s->st_mode)) {
    l->files = arena_grow(l->arena, l->files, &l->capacity, l->count + 1, sizeof *l->files);
    l->files[l->count++] = (struct tree_file){inner, (uint64_t)s->st_size};
  } else if (S_ISDIR(s->st_mode) && l->depth < DEEPEST) {
    l->prefix = arena_printf(l->arena, "%s/", inner);
    l->depth++;
    (void)each_entry(path, l->arena, list_entry, l);
    l->depth--;
    l->prefix = prefix;
  }
  return STATUS_OK;
}

static int compare_files(const void *a, const void *b) {
  return strcmp(((const struct tree_file *)a)->name, ((const struct tree_file *)b)->name);
}

struct tree_file *tree_files(const char *path, size_t *count, struct arena *a) {
  struct list l = {.arena = a, .prefix = ""};
  (void)each_entry(path, a, list_entry, &l);
  if (l.count)
    qsort(l.files, l.count, sizeof *l.files, compare_files);
  *count = l.count;
  return l.files;
}

uint64_t tree_bytes(const char *path) {
  struct arena scratch = {0};
  size_t count;
  const struct tree_file *files = tree_files(path, &count, &scratch);
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    bytes += files[i].bytes;
  arena_free(&scratch);
  return bytes;
}

// ---- copy ----

struct copy {
  const char *to;
  struct arena *arena;
  struct diag *diag;
  int depth;
};

static enum status fail(struct diag *d, const char *path, const char *what) {
  int error = errno;
  diag_at(d, path, NULL, NULL);
  return diag_fail(d, STATUS_IO, "%s: %s", what, strerror(error));
}

static enum status copy_file(const char *from, const char *to, struct diag *d) {
  unlink(to);
  if (link(from, to) == 0)
    return STATUS_OK;
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(from, &bytes, &size, d));
  struct file_writer w = {0};
  enum status status = file_begin(&w, to, d);
  if (status == STATUS_OK) {
    fwrite(bytes, 1, size, w.out);
    status = file_commit(&w, d);
  }
  file_unmap(bytes, size);
  return status;
}

static enum status copy_below(const char *from, const char *to, int depth, struct diag *d);

static enum status copy_entry(void *context, const char *name, const char *path,
                              const struct stat *s) {
  struct copy *c = context;
  const char *to = arena_printf(c->arena, "%s/%s", c->to, name);
  if (S_ISREG(s->st_mode))
    return copy_file(path, to, c->diag);
  if (S_ISDIR(s->st_mode) && c->depth < DEEPEST)
    return copy_below(path, to, c->depth + 1, c->diag);
  return STATUS_OK;
}

static enum status copy_below(const char *from, const char *to, int depth, struct diag *d) {
  if (mkdir(to, 0777) != 0 && errno != EEXIST)
    return fail(d, to, "cannot be made");
  struct arena scratch = {0};
  struct copy c = {to, &scratch, d, depth};
  enum status status = each_entry(from, &scratch, copy_entry, &c);
  if (status != STATUS_OK && d->status == STATUS_OK)
    status = fail(d, from, "cannot be opened");
  arena_free(&scratch);
  return status;
}

enum status tree_copy(const char *from, const char *to, struct diag *d) {
  return copy_below(from, to, 0, d);
}

bool tree_sync(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return false;
  bool synced = syncfs(fd) == 0;
  int error = errno;
  close(fd);
  errno = error;
  return synced;
}
