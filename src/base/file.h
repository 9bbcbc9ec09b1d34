// Files: mapping for reading, and writing through a temporary file that is renamed when complete.
#ifndef FILE_H
#define FILE_H

#include "diag.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Maps a regular file read-only; an empty one gives size 0 and a non-NULL pointer that must not be
// read. Errors: STATUS_IO (cannot be opened, not a regular file).
enum status file_map(const char *path, const uint8_t **bytes, size_t *size, struct diag *d);
void file_unmap(const uint8_t *bytes, size_t size);

// A file in the making: "<path>.<pid>.tmp" in the same folder ("<path>.<pid>-<k>.tmp" where that
// is taken). A zeroed writer is one that was never begun.
struct file_writer {
  char path[4096], temporary[4200];
  FILE *out;
};
// Errors: STATUS_IO, also where `path` is there already and is no regular file.
enum status file_begin(struct file_writer *w, const char *path, struct diag *d);
// Flushes and syncs, so that a commit can hardly fail: for several files that belong together.
enum status file_sync(struct file_writer *w, struct diag *d);
// Flushes, syncs, renames. A file that is replaced hands its permissions on. On any error the
// temporary file is removed. STATUS_IO.
enum status file_commit(struct file_writer *w, struct diag *d);
// Gives up: removes the temporary file. Safe after commit, and on a zeroed writer.
void file_abandon(struct file_writer *w);

// From now on, processes that are forked have one list of temporary files together with this one,
// which can then remove what they left. False: there is no memory to share.
bool file_share_pending(void);

// Removes the temporary files of writers that were not committed. Safe in a signal handler.
void file_remove_pending(void);

// SHA-256 as lower-case hex.
void sha256_hex(const void *data, size_t size, char hex[65]);

#endif
