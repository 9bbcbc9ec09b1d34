// Files: mapping for reading, and writing through a temporary file that is renamed when complete.
#ifndef FILE_H
#define FILE_H

#include "arena.h"
#include "diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

// Maps a regular file read-only; an empty one gives size 0 and a non-NULL pointer that must not be
// read. Errors: STATUS_IO (cannot be opened, not a regular file).
enum status file_map(const char *path, const uint8_t **bytes, size_t *size, struct diag *d);
void file_unmap(const uint8_t *bytes, size_t size);
// Lets go of the pages of this part of a mapped file, read-only or shared: they count for the
// process no more, and are there again when they are next touched.
void file_forget(const uint8_t *bytes, size_t size);

// What tells whether a file that is mapped has changed.
struct file_stamp {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec time;  // of the last modification
};
// Of what the path leads to; take it before the file is read.
struct file_stamp file_stamp(const char *path);
// True if both are of one file, written to meanwhile or not. No file is one with a missing one.
bool file_is_one(const struct file_stamp *x, const struct file_stamp *y);
// True if the file was written to since. One that was removed, or replaced by another, is as it was
// to those that have it mapped.
bool file_changed(const char *path, const struct file_stamp *before);
// True unless the path leads to that file still, and it was not written to: for what is read again.
bool file_is_other(const char *path, const struct file_stamp *before);

// Paths that are written to as they are, without a temporary file: the one that stands for standard
// output, and that of the device that keeps nothing. Other devices are refused.
#define FILE_STDOUT "-"
#define FILE_NULL   "/dev/null"

// A file in the making. Where the file system can, it has no name until it is complete, and else
// ".narrowcast-<pid>-<k>.tmp" beside its place; such a file that no process holds any more is
// removed when something is written to that folder. A zeroed writer is one that was never begun.
struct file_writer {
  char path[4096], temporary[4200];  // temporary: "" while it has no name
  FILE *out;
  // Do not wait until it is on the disk: the caller, or whoever set NARROWCAST_SYNC=none for this
  // process, does so for many files at once, and trusts none before.
  bool lazy;
};
// Errors: STATUS_IO, also where `path` is there already and is no regular file.
enum status file_begin(struct file_writer *w, const char *path, struct diag *d);
// What file_begin would say of the path, without beginning: for a run that takes long before it
// writes. Errors: STATUS_IO, also where its folder is missing or must not be written to.
enum status file_check_place(const char *path, struct diag *d);
// A file that only this run needs and that is never committed: it has a name all the time
// (w->temporary), nobody else may read it, and file_abandon removes it.
enum status file_begin_temporary(struct file_writer *w, const char *folder, struct diag *d);
// Another name in the same folder, for a file that is called after what it turns out to hold.
void file_set_path(struct file_writer *w, const char *path);
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

// "b" of "a/b".
const char *file_base(const char *path);
// `path`, which may be NULL, as it is meant in the file `from`: below that file's folder unless it
// is absolute.
const char *file_beside(const char *path, const char *from, struct arena *a);

// SHA-256 as lower-case hex: of pieces (hash_end frees; NULL does nothing), or of one array.
struct hash;
struct hash *hash_begin(void);
void hash_add(struct hash *h, const void *data, size_t size);
void hash_end(struct hash *h, char hex[65]);
void sha256_hex(const void *data, size_t size, char hex[65]);
// SHA-1 of a mapped file, likewise, letting go of its pages. False: this libcrypto has none.
bool file_sha1(const uint8_t *bytes, size_t size, char hex[41]);

#endif
