// Child processes: see child.h. What the supervisor of a whole run (cli/supervise.c) and the trial
// of a result (verify/verify_loads.c) share.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t child_fork(struct diag *d) {
  // What is in the buffers would be written twice.
  fflush(stdout);
  fflush(stderr);
  // With SIGCHLD ignored, as a parent may hand it on, nobody could be waited for.
  signal(SIGCHLD, SIG_DFL);
  pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0) {
    diag_fail(d, STATUS_IO, "cannot start a process: %s", strerror(errno));
    return -1;
  }
  if (child > 0)
    return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)  // it ended before we asked
    raise(SIGKILL);
  return 0;
}

int child_wait(pid_t child) {
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR)
    ;
  return state;
}

void child_describe(int state, char *text, size_t size) {
  int number = WTERMSIG(state);
  snprintf(text, size, "%s (signal %d, %s)", number == SIGKILL ? "was killed" : "crashed", number,
           strsignal(number));
}

static void limit(int resource, rlim_t value) {
  struct rlimit r;
  if (getrlimit(resource, &r) != 0)
    return;
  r.rlim_cur = value < r.rlim_max ? value : r.rlim_max;
  setrlimit(resource, &r);
}

void child_expect_crash(void) {
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
    signal(crashes[i], SIG_DFL);
  limit(RLIMIT_CORE, 0);
}

void child_limit_memory(size_t bytes) {
  limit(RLIMIT_DATA, bytes);
}

void *child_share(size_t size, struct diag *d) {
  void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place != MAP_FAILED)
    return place;
  diag_fail(d, STATUS_IO, "cannot share memory with a child process: %s", strerror(errno));
  return NULL;
}

void child_unshare(void *place, size_t size) {
  if (place)
    munmap(place, size);
}
