// Faults of a file system, for tests/cli/faults.sh and batch.sh: preloaded (LD_PRELOAD), it takes
// the place of the calls by which files get to their places, and lets one of them fail, or the
// process die just before it.
//
//   FILES_FAULT=WHAT    fail (the disk is full), kill (this process), kill_both (its parent first)
//   FILES_COUNT=N       at the N-th of the calls fsync, linkat, rename, unlinkat, from 1
//   FILES_SYNCFS=fail   syncfs fails
//   FILES_NAMED=1       the file system has no unnamed files (O_TMPFILE)
#define _GNU_SOURCE  // O_TMPFILE, RTLD_NEXT
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int calls;

// True if this call must fail.
static bool reach(void) {
  const char *what = getenv("FILES_FAULT"), *count = getenv("FILES_COUNT");
  if (!what || !count || ++calls != atoi(count))
    return false;
  if (strcmp(what, "kill_both") == 0)
    kill(getppid(), SIGKILL);
  if (strcmp(what, "fail") != 0)
    raise(SIGKILL);
  errno = ENOSPC;
  return true;
}

static void find(void *function, const char *name) {
  void *symbol = dlsym(RTLD_NEXT, name);
  if (!symbol)
    abort();
  memcpy(function, &symbol, sizeof symbol);
}

int fsync(int fd) {
  int (*real)(int);
  find(&real, "fsync");
  return reach() ? -1 : real(fd);
}

int syncfs(int fd) {
  int (*real)(int);
  find(&real, "syncfs");
  errno = EIO;
  return getenv("FILES_SYNCFS") ? -1 : real(fd);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
  int (*real)(int, const char *, int, const char *, int);
  find(&real, "linkat");
  return reach() ? -1 : real(from, old, to, new, flags);
}

int rename(const char *old, const char *new) {
  int (*real)(const char *, const char *);
  find(&real, "rename");
  return reach() ? -1 : real(old, new);
}

int unlinkat(int folder, const char *name, int flags) {
  int (*real)(int, const char *, int);
  find(&real, "unlinkat");
  return reach() ? -1 : real(folder, name, flags);
}

int open(const char *path, int flags, ...) {
  int (*real)(const char *, int, ...);
  find(&real, "open");
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = va_arg(arguments, mode_t);  // unused where there is none
  va_end(arguments);
  if ((flags & O_TMPFILE) == O_TMPFILE && getenv("FILES_NAMED")) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return real(path, flags, mode);
}
