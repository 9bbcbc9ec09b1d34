// Starting and ending the processes of a batch: see process.h. What is not in POSIX here is Linux:
// PR_SET_PDEATHSIG ends the children of a batch that was killed, oom_score_adj makes the kernel
// take a conversion before anything else of the machine when memory is short.
#define _DEFAULT_SOURCE  // wait4
#include "process.h"

#include "child.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void prepare(void) {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, "1000", 4);
    close(fd);
  }
  // When the batch is killed, the conversion gets to remove its temporary files.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static bool redirect(int to, const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC, 0666);
  if (fd < 0 || dup2(fd, to) < 0)
    return false;
  close(fd);
  return true;
}

static _Noreturn void child_main(const struct process_start *s) {
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  bool ready = redirect(STDERR_FILENO, s->log, O_WRONLY | O_CREAT | O_TRUNC) &&
               redirect(STDOUT_FILENO, s->output, O_WRONLY | O_CREAT | O_TRUNC) &&
               redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  if (ready && (s->lock < 0 || fcntl(s->lock, F_SETFD, 0) == 0)) {
    prepare();
    setenv("NARROWCAST_SYNC", "none", 1);
    execv("/proc/self/exe", (char *const *)(uintptr_t)s->arguments);
  }
  dprintf(STDERR_FILENO, "narrowcast: the conversion cannot be started: %s\n", strerror(errno));
  _exit(STATUS_IO);
}

enum status process_start(const struct process_start *s, pid_t *pid, struct diag *d) {
  *pid = child_fork(d);
  if (*pid == 0)
    child_main(s);
  if (*pid < 0)
    return d->status;
  setpgid(*pid, *pid);  // whoever of both comes first
  return STATUS_OK;
}

enum status process_start_sync(const char *folder, pid_t *pid, struct diag *d) {
  *pid = child_fork(d);
  if (*pid == 0) {
    _exit(tree_sync(folder) ? 0 : errno);
  }
  return *pid < 0 ? d->status : STATUS_OK;
}

bool process_try_wait(pid_t pid, struct process_ended *out) {
  siginfo_t info = {0};
  if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid)
    return false;
  kill(-pid, SIGKILL);  // the number is still its own: it was not waited for
  int state;
  struct rusage usage;
  while (wait4(pid, &state, 0, &usage) < 0)
    if (errno != EINTR)
      return false;
  out->exited = WIFEXITED(state);
  out->code = out->exited ? WEXITSTATUS(state) : WTERMSIG(state);
  out->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
  return true;
}
