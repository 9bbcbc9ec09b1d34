// Memory in a temporary file: see spool.h. The file grows by pieces, each mapped on its own, from
// which requests are cut one after the other; a request larger than a piece gets one of its size.
#define _XOPEN_SOURCE 700  // posix_fallocate, realpath
#include "spool.h"

#include "arena.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, PIECE = 64 * 1024 * 1024 };

struct piece {
  uint8_t *bytes;
  size_t size, used;
  uint64_t offset;  // in the file
};

struct spool {
  struct arena arena;  // lists, names, and what lies in memory
  char *folder;
  size_t in_memory, used_in_memory;
  struct file_writer file;
  char *path;  // absolute, once there is a file
  uint64_t size;
  struct piece *pieces;
  size_t n_pieces, capacity_pieces;
};

struct spool *spool_new(const char *folder, size_t in_memory) {
  struct spool *s = calloc(1, sizeof *s);
  if (!s)
    out_of_memory(sizeof *s);
  s->folder = arena_strdup(&s->arena, folder);
  s->in_memory = in_memory;
  return s;
}

static size_t round_up(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

static enum status fail(const struct spool *s, int error, struct diag *d) {
  diag_at(d, s->folder, NULL, NULL);
  diag_hint(d, "TMPDIR may name a folder with more room.");
  return diag_fail(d, STATUS_IO, "a temporary file for weights cannot be made there: %s",
                   strerror(error));
}

static enum status open_file(struct spool *s, struct diag *d) {
  if (s->path)
    return STATUS_OK;
  TRY(file_begin_temporary(&s->file, s->folder, d));
  char *real = realpath(s->file.temporary, NULL);
  if (!real)
    return fail(s, errno, d);
  s->path = arena_strdup(&s->arena, real);
  free(real);
  return STATUS_OK;
}

static enum status add_piece(struct spool *s, size_t size, struct diag *d) {
  TRY(open_file(s, d));
  struct piece p = {.size = round_up(size > PIECE ? size : PIECE, (size_t)sysconf(_SC_PAGESIZE)),
                    .offset = s->size};
  int fd = fileno(s->file.out);
  int error = posix_fallocate(fd, (off_t)p.offset, (off_t)p.size);
  if (error)
    return fail(s, error, d);
  void *place = mmap(NULL, p.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)p.offset);
  if (place == MAP_FAILED)
    return fail(s, errno, d);
  p.bytes = place;
  s->size += p.size;
  s->pieces =
      arena_grow(&s->arena, s->pieces, &s->capacity_pieces, s->n_pieces + 1, sizeof *s->pieces);
  s->pieces[s->n_pieces++] = p;
  return STATUS_OK;
}

enum status spool_alloc(struct spool *s, size_t size, void **place, struct diag *d) {
  if (size > SIZE_MAX / 2)
    out_of_memory(size);
  size = round_up(size ? size : 1, ALIGNMENT);
  if (size <= s->in_memory - s->used_in_memory) {
    s->used_in_memory += size;
    uintptr_t bytes = (uintptr_t)arena_alloc(&s->arena, size + ALIGNMENT);
    *place = (void *)(bytes + (-bytes & (ALIGNMENT - 1)));
    return STATUS_OK;
  }
  struct piece *last = s->n_pieces ? &s->pieces[s->n_pieces - 1] : NULL;
  if (!last || last->size - last->used < size) {
    TRY(add_piece(s, size, d));
    last = &s->pieces[s->n_pieces - 1];
  }
  *place = last->bytes + last->used;
  last->used += size;
  return STATUS_OK;
}

bool spool_find(const struct spool *s, const void *place, const char **path, uint64_t *offset) {
  const uint8_t *at = place;
  for (size_t i = 0; s && i < s->n_pieces; i++) {
    const struct piece *p = &s->pieces[i];
    if (at < p->bytes || at >= p->bytes + p->size)
      continue;
    *path = s->path;
    *offset = p->offset + (uint64_t)(at - p->bytes);
    return true;
  }
  return false;
}

void spool_forget(const struct spool *s) {
  for (size_t i = 0; s && i < s->n_pieces; i++)
    file_forget(s->pieces[i].bytes, s->pieces[i].size);
}

void spool_free(struct spool *s) {
  if (!s)
    return;
  for (size_t i = 0; i < s->n_pieces; i++)
    munmap(s->pieces[i].bytes, s->pieces[i].size);
  file_abandon(&s->file);
  arena_free(&s->arena);
  free(s);
}
