// See fuzz.h. Static state here is what lives as long as the process, as libFuzzer's targets do.
#define _XOPEN_SOURCE 700  // mkdtemp, nftw
#include "fuzz.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct schema_table *fuzz_schemas(void) {
  static struct arena arena;
  static struct schema_table table;
  if (!table.count)
    schema_load(&table, &arena);
  return &table;
}

_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format,
                         ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s:%d: does not hold: %s\n  ", file, line, condition);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  abort();
}

void fuzz_check_diag(enum status status, const struct diag *d) {
  fuzz_require(status == d->status, "returned %d, but the diag says %d", status, d->status);
  fuzz_require(status == STATUS_OK || d->message[0], "status %d without a message", status);
}

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *ftw) {
  (void)s, (void)type, (void)ftw;
  return remove(path);
}

static void remove_folder(void) {
  nftw(fuzz_folder(), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
  static char folder[512];
  if (!folder[0]) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/narrowcast-fuzz-XXXXXX", base && *base ? base : "/tmp");
    fuzz_require(mkdtemp(folder), "cannot make the folder %s", folder);
    atexit(remove_folder);
  }
  return folder;
}

const char *fuzz_write(const char *name, const void *bytes, size_t size) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  FILE *out = fopen(path, "wb");
  fuzz_require(out, "cannot write %s", path);
  fuzz_require(fwrite(bytes, 1, size, out) == size && fclose(out) == 0, "cannot write %s", path);
  return path;
}

size_t fuzz_model_size(const uint8_t *data, size_t size) {
  enum { MOST = 64, TAIL = 3 };
  if (size < TAIL || memcmp(data + size - 2, "NC", 2) != 0)
    return size;
  size_t n = data[size - TAIL] % (MOST + 1);
  return n < size - TAIL ? size - TAIL - n : 0;
}

unsigned choose(struct choices *c, unsigned below) {
  unsigned value = 0;
  for (unsigned range = 1; range < below; range <<= 8) {
    value <<= 8;
    if (c->left > 0) {
      value |= *c->at++;
      c->left--;
    }
  }
  return below ? value % below : 0;
}
