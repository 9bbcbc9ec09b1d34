// Memory for data that may be larger than memory: weights that a run makes. It is handed out like
// that of an arena and given back at once. The first part lies in memory; what follows lies in a
// temporary file that is mapped, so that the system can move it out, and the process need not hold
// what it has written (file_forget). The file has a name, by which an engine can map it too, and is
// removed by spool_free, or by whoever cleans up after the process (file_remove_pending).
#ifndef SPOOL_H
#define SPOOL_H

#include "diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

// The file is made below `folder` (copied), but only once more than `in_memory` bytes are asked
// for.
struct spool *spool_new(const char *folder, size_t in_memory);

// Zeroed memory, aligned to 64 bytes. The file's space is reserved, so that writing there cannot
// fail later. Error: STATUS_IO, naming the folder.
enum status spool_alloc(struct spool *s, size_t size, void **place, struct diag *d);

// True if `place` lies in the file; its path (absolute, without links) and offset.
bool spool_find(const struct spool *s, const void *place, const char **path, uint64_t *offset);

// Lets go of the file's pages: see file_forget. Safe on NULL.
void spool_forget(const struct spool *s);

// Safe on NULL.
void spool_free(struct spool *s);

#endif
