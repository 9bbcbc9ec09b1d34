// Folders with all that is below them. Links are never followed.
#ifndef TREE_H
#define TREE_H

#include "arena.h"
#include "diag.h"

#include <stdbool.h>
#include <stdint.h>

// Removes it; nothing happens where it is not there.
void tree_remove(const char *path);

// The regular files below it, sorted by name.
struct tree_file {
  const char *name;  // its path below the folder, as "model/model.onnx"
  uint64_t bytes;
};
struct tree_file *tree_files(const char *path, size_t *count, struct arena *a);

// Bytes of the regular files below it.
uint64_t tree_bytes(const char *path);

// Copies regular files and folders, by hard links where the file system has them. What is there of
// the same name is replaced. Errors: STATUS_IO.
enum status tree_copy(const char *from, const char *to, struct diag *d);

// Waits until all that was written to the file system of folder `path` is on its disk. False, with
// errno, if it cannot be brought there.
bool tree_sync(const char *path);

#endif
