// Hashes of files that an earlier survey has read, so that a batch that goes on need not read its
// zoo again. As git's index does for its files, one is known by device, inode, size and the times
// of its last modification and of its last change, to the nanosecond: the latter no program can
// set. What was changed within two seconds before it was read is not noted, since a second change
// might have left its times as they are; it is read again.
#ifndef KNOWN_H
#define KNOWN_H

#include "arena.h"
#include "diag.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct known_file {
  uint64_t device, inode, size;
  int64_t modified, changed;  // nanoseconds since 1970
  char sha256[65];
};

struct known {
  struct arena *arena;
  struct known_file *files;
  size_t count, capacity;
};

// The files noted at `path`; none where it is missing or damaged.
void known_read(struct known *k, const char *path);
// Errors: STATUS_IO.
enum status known_write(struct known *k, const char *path, struct diag *d);

void known_add(struct known *k, const struct known_file *file);

// Of those that were read: the one that `s` is still of, or NULL.
const struct known_file *known_find(const struct known *k, const struct stat *s);

// What to note of a file that was read between `before` and `after`, from the time `began` on (as
// clock_gettime has CLOCK_REALTIME). False if that is not safe.
bool known_file_of(struct known_file *out, const struct stat *before, const struct stat *after,
                   const struct timespec *began, const char sha256[65]);

#endif
