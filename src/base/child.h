// Child processes: what may crash, hang or eat all memory (an engine, given a bad model) runs in
// one, so that somebody is left to say so.
#ifndef CHILD_H
#define CHILD_H

#include "diag.h"

#include <sys/types.h>

// Forks. Returns 0 in the child, its number in the parent, and -1 with the diag filled (STATUS_IO).
// The child is killed when its parent ends, however that happens. Only for a process that is ours
// and while it has one thread: SIGCHLD is set to its default, and a lock that another thread holds
// stays locked in the child for ever.
pid_t child_fork(struct diag *d);

// Waits for the end of a child and returns its state, as waitpid(2) gives it.
int child_wait(pid_t child);

// "crashed (signal 11, Segmentation fault)", for a child that a signal ended.
void child_describe(int state, char *text, size_t size);

// For a child that is expected to crash: neither a handler (of a sanitizer, of a test) nor a core
// dump gets in between.
void child_expect_crash(void);

// Memory that the calling process and its children share, all zero: what a child notes there is
// left if it dies. NULL with the diag filled (STATUS_IO) if there is none; child_unshare gives it
// back.
void *child_share(size_t size, struct diag *d);
void child_unshare(void *place, size_t size);

// Bounds the memory of the calling process to `bytes`: private and writable, so that mapped files
// do not count. An allocation beyond fails.
void child_limit_memory(size_t bytes);

#endif
