// Starting and ending the processes of a batch: see process.h. What is not in POSIX here is Linux:
// PR_SET_PDEATHSIG ends the children of a batch that was killed, oom_score_adj makes the kernel
// take a conversion before anything else of the machine when memory is short, syncfs waits for a
// whole file system's files with one commit of its journal.
#define _GNU_SOURCE  // wait4, syncfs
#include "process.h"

#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _exit(fd >= 0 && syncfs(fd) == 0 ? STATUS_OK : STATUS_IO);
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

// ---- memory ----

static uint64_t read_number(const char *path) {
  char text[64] = "";
  FILE *in = fopen(path, "re");
  if (!in)
    return UINT64_MAX;
  bool got = fgets(text, sizeof text, in) != NULL;
  fclose(in);
  char *end;
  uint64_t value = strtoull(text, &end, 10);  // "max" where there is no limit
  return got && end != text ? value : UINT64_MAX;
}

static uint64_t machine_available(void) {
  uint64_t kib = 0;
  bool found = false;
  char line[256];
  FILE *in = fopen("/proc/meminfo", "re");
  while (in && !found && fgets(line, sizeof line, in))
    found = sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1;
  if (in)
    fclose(in);
  return found ? kib * 1024 : UINT64_MAX;
}

// What a group of version 1 or 2 leaves; its own files that can be dropped are not counted as used.
static uint64_t group_available(const char *folder, const char *limit_file, const char *used_file) {
  char path[4300];
  snprintf(path, sizeof path, "%s/%s", folder, limit_file);
  uint64_t limit = read_number(path);
  snprintf(path, sizeof path, "%s/%s", folder, used_file);
  uint64_t used = read_number(path);
  if (limit == UINT64_MAX || used == UINT64_MAX)
    return UINT64_MAX;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  FILE *in = fopen(path, "re");
  char line[256];
  uint64_t inactive = 0;
  while (in && fgets(line, sizeof line, in))
    if (sscanf(line, "total_inactive_file %" SCNu64, &inactive) == 1 ||
        sscanf(line, "inactive_file %" SCNu64, &inactive) == 1)
      continue;
  if (in)
    fclose(in);
  used -= inactive < used ? inactive : used;
  return limit > used ? limit - used : 0;
}

// The group and all above it.
static uint64_t groups_available(const char *mount, const char *group, const char *limit_file,
                                 const char *used_file) {
  char folder[4200];
  snprintf(folder, sizeof folder, "%s%s", mount, group);
  uint64_t least = UINT64_MAX;
  for (size_t root = strlen(mount); strlen(folder) >= root;) {
    uint64_t left = group_available(folder, limit_file, used_file);
    least = left < least ? left : least;
    char *slash = strrchr(folder, '/');
    *slash = '\0';
  }
  return least;
}

uint64_t process_memory_available(void) {
  uint64_t least = machine_available();
  char line[4096];
  FILE *in = fopen("/proc/self/cgroup", "re");
  while (in && fgets(line, sizeof line, in)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
      continue;
    *group++ = '\0';
    uint64_t left = UINT64_MAX;
    if (strcmp(controllers + 1, "") == 0)
      left = groups_available("/sys/fs/cgroup", group, "memory.max", "memory.current");
    else if (strcmp(controllers + 1, "memory") == 0)
      left = groups_available("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                              "memory.usage_in_bytes");
    least = left < least ? left : least;
  }
  if (in)
    fclose(in);
  return least;
}
