// The conversions of a batch as processes.
#ifndef PROCESS_H
#define PROCESS_H

#include "diag.h"

#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_MOST = 256 };  // at once

// What a conversion is started with.
struct process_start {
  const char *const *arguments;  // of this program, NULL-terminated, its name included
  const char *output, *log;      // files for standard output and standard error
  int lock;                      // stays open in the child, so that it keeps the lock; -1: none
};

// Runs this program again, in a process group of its own. A failure to start is written to the log
// and ends the child with STATUS_IO. What it writes may be in memory only when it has ended
// (NARROWCAST_SYNC=none). Errors: STATUS_IO (fork).
enum status process_start(const struct process_start *s, pid_t *pid, struct diag *d);

// Starts a process that brings to the disk what has been written to the file system of `folder`,
// and ends with exit code 0 when it is there, else with the errno. Errors: STATUS_IO (fork).
enum status process_start_sync(const char *folder, pid_t *pid, struct diag *d);

struct process_ended {
  bool exited;  // false: by a signal
  int code;     // exit code, or the signal
  uint64_t peak_bytes;
};

// Whether the process has ended; then ends the rest of its group as well.
bool process_try_wait(pid_t pid, struct process_ended *out);

#endif
