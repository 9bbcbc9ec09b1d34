// Hashes of files that were read before: see known.h. A text file, one line a file, in order.
#include "known.h"

#include "file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "narrowcast hashes 1\n";
static const int64_t second = 1000000000;

static int64_t nanoseconds(const struct timespec *t) {
  return (int64_t)t->tv_sec * second + t->tv_nsec;
}

static struct known_file file_of(const struct stat *s) {
  return (struct known_file){
      .device = s->st_dev,
      .inode = s->st_ino,
      .size = (uint64_t)s->st_size,
      .modified = nanoseconds(&s->st_mtim),
      .changed = nanoseconds(&s->st_ctim),
  };
}

static int compare_places(const void *x, const void *y) {
  const struct known_file *a = x, *b = y;
  if (a->device != b->device)
    return a->device < b->device ? -1 : 1;
  return (a->inode > b->inode) - (a->inode < b->inode);
}

static bool same(const struct known_file *a, const struct known_file *b) {
  return compare_places(a, b) == 0 && a->size == b->size && a->modified == b->modified &&
         a->changed == b->changed;
}

void known_add(struct known *k, const struct known_file *file) {
  k->files = arena_grow(k->arena, k->files, &k->capacity, k->count + 1, sizeof *k->files);
  k->files[k->count++] = *file;
}

static void sort(struct known *k) {
  if (k->count)
    qsort(k->files, k->count, sizeof *k->files, compare_places);
}

const struct known_file *known_find(const struct known *k, const struct stat *s) {
  struct known_file wanted = file_of(s);
  const struct known_file *found =
      k->count ? bsearch(&wanted, k->files, k->count, sizeof *k->files, compare_places) : NULL;
  return found && same(found, &wanted) ? found : NULL;
}

bool known_file_of(struct known_file *out, const struct stat *before, const struct stat *after,
                   const struct timespec *began, const char sha256[65]) {
  *out = file_of(before);
  const struct known_file then = file_of(after);
  memcpy(out->sha256, sha256, sizeof out->sha256);
  int64_t safe = nanoseconds(began) - 2 * second;
  return same(out, &then) && out->modified < safe && out->changed < safe;
}

// ---- The file ----

static bool read_line(const char *line, struct known_file *f) {
  int end = -1;
  return sscanf(line, "%64[0-9a-f] %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 "%n",
                f->sha256, &f->device, &f->inode, &f->size, &f->modified, &f->changed, &end) == 6 &&
         strlen(f->sha256) == 64 && strcmp(line + end, "\n") == 0;
}

void known_read(struct known *k, const char *path) {
  FILE *in = fopen(path, "re");
  char line[256];
  if (!in)
    return;
  bool right = fgets(line, sizeof line, in) && strcmp(line, head) == 0;
  while (right && fgets(line, sizeof line, in)) {
    struct known_file f;
    right = read_line(line, &f);
    if (right)
      known_add(k, &f);
  }
  fclose(in);
  if (!right)
    k->count = 0;
  sort(k);
}

enum status known_write(struct known *k, const char *path, struct diag *d) {
  struct file_writer w = {0};
  sort(k);
  TRY(file_begin(&w, path, d));
  fputs(head, w.out);
  for (size_t i = 0; i < k->count; i++) {
    const struct known_file *f = &k->files[i];
    if (i == 0 || !same(f, f - 1))
      fprintf(w.out, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n", f->sha256,
              f->device, f->inode, f->size, f->modified, f->changed);
  }
  return file_commit(&w, d);
}
