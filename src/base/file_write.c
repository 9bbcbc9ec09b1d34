// Writing files: see file.h. A file in the making has no name where the file system can do that
// (O_TMPFILE), and gets one when it is complete, just before it is renamed to its place: however
// the process ends, there is the old file or the new one, and nothing else. On other file systems
// it has a temporary name from the start. What a killed process leaves under such a name, the next
// one that writes the same file removes; a lock, which ends with its process, says that somebody
// still writes.
#define _GNU_SOURCE  // O_TMPFILE, realpath, MAP_ANONYMOUS
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = ".narrowcast-", ending[] = ".tmp";

static enum status fail_errno(struct diag *d, const char *path) {
  int error = errno;
  diag_at(d, path, NULL, NULL);
  return diag_fail(d, STATUS_IO, "cannot be written: %s", strerror(error));
}

// ---- Names that are in use ----

static bool is_stdout(const char *path) {
  return strcmp(path, FILE_STDOUT) == 0;
}

// What is there already, and is only written to: nothing is replaced.
static bool is_passed_on(const char *path) {
  return is_stdout(path) || strcmp(path, FILE_NULL) == 0;
}

// Temporary files in the making, for file_remove_pending: the only state of the process that the
// library keeps, since a signal handler has no other way to find them.
enum { MOST_PENDING = 8 };
typedef char pending_list[MOST_PENDING][sizeof((struct file_writer *)0)->temporary];
static pending_list pending_here;
static char (*pending)[sizeof pending_here[0]] = pending_here;

bool file_share_pending(void) {
  void *place =
      mmap(NULL, sizeof pending_here, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED)
    return false;
  pending = place;
  return true;
}

// Several threads may write, each by its own handle; a signal handler only reads.
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;

static void set_pending(const char *path, bool is_pending) {
  pthread_mutex_lock(&pending_lock);
  for (int i = 0; i < MOST_PENDING; i++) {
    const char *wanted = is_pending ? "" : path;
    if (strcmp(pending[i], wanted) != 0)
      continue;
    snprintf(pending[i], sizeof pending[i], "%s", is_pending ? path : "");
    break;
  }
  pthread_mutex_unlock(&pending_lock);
}

void file_remove_pending(void) {
  for (int i = 0; i < MOST_PENDING; i++)
    if (pending[i][0])
      unlink(pending[i]);
}

static void remove_temporary(struct file_writer *w) {
  if (!w->temporary[0])
    return;
  unlink(w->temporary);
  set_pending(w->temporary, false);
  w->temporary[0] = '\0';
}

// The k-th name to try: a process number comes back, in containers on every run.
static void make_name(struct file_writer *w, int k) {
  snprintf(w->temporary, sizeof w->temporary, "%.*s%s%ld-%d%s", (int)(file_base(w->path) - w->path),
           w->path, prefix, (long)getpid(), k, ending);
}

// ---- What dead processes left ----

static bool is_temporary(const char *name) {
  if (strncmp(name, prefix, sizeof prefix - 1) != 0)
    return false;
  name += sizeof prefix - 1;
  name += strspn(name, "0123456789-");
  return strcmp(name, ending) == 0;
}

static void remove_if_abandoned(int folder, const char *name) {
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return;
  struct stat s;
  if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
    unlinkat(folder, name, 0);
  close(fd);
}

static void remove_abandoned(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir)
    return;
  for (const struct dirent *entry; (entry = readdir(dir));)
    if (is_temporary(entry->d_name))
      remove_if_abandoned(dirfd(dir), entry->d_name);
  closedir(dir);
}

// ---- Beginning ----

// A link is written through: the file that it leads to is replaced, not the link. One that leads to
// what the process has open (/dev/stdout) leads to no place that could be replaced.
static enum status follow_link(const char **path, char target[PATH_MAX], struct diag *d) {
  struct stat s;
  if (lstat(*path, &s) != 0 || !S_ISLNK(s.st_mode))
    return STATUS_OK;
  ssize_t length = readlink(*path, target, PATH_MAX - 1);
  target[length < 0 ? 0 : length] = '\0';
  if (strncmp(target, "/proc/", 6) == 0 || strncmp(target, "/dev/", 5) == 0) {
    diag_at(d, *path, NULL, NULL);
    return diag_fail(d, STATUS_IO, "cannot be written: it is a link to %s", target);
  }
  if (realpath(*path, target))
    *path = target;
  return STATUS_OK;
}

// "a" of "a/b", "." of "b".
static void folder_of(const char *path, char folder[PATH_MAX]) {
  size_t length = (size_t)(file_base(path) - path);
  snprintf(folder, PATH_MAX, "%.*s", length ? (int)length : 1, length ? path : ".");
}

// A name that can be linked to leads to the file through /proc.
static void descriptor_path(int fd, char path[64]) {
  snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static int open_unnamed(const char *folder) {
  int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  char path[64];
  descriptor_path(fd, path);
  if (fd < 0 || access(path, F_OK) == 0)
    return fd;
  close(fd);  // no /proc: it could never get a name
  return -1;
}

enum { ATTEMPTS = 100 };

// Whoever removes what is abandoned may have found it before it was locked.
static int open_named(struct file_writer *w, mode_t mode) {
  for (int k = 0; k < ATTEMPTS; k++) {
    make_name(w, k);
    int fd = open(w->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 && errno != EEXIST)
      break;
    if (fd < 0)
      continue;
    set_pending(w->temporary, true);
    struct stat s;
    flock(fd, LOCK_EX);
    if (fstat(fd, &s) == 0 && s.st_nlink > 0)
      return fd;
    set_pending(w->temporary, false);
    close(fd);
  }
  w->temporary[0] = '\0';
  return -1;
}

static int open_temporary(struct file_writer *w) {
  char folder[PATH_MAX];
  folder_of(w->path, folder);
  remove_abandoned(folder);
  w->temporary[0] = '\0';
  int fd = open_unnamed(folder);
  if (fd < 0)
    return open_named(w, 0666);
  flock(fd, LOCK_EX);
  return fd;
}

// Follows *path, and says if no file can be there.
static enum status check_path(const char **path, char target[PATH_MAX], struct diag *d) {
  TRY(follow_link(path, target, d));
  size_t length = strlen(*path);
  if (length == 0 || length >= sizeof((struct file_writer *)0)->path) {
    diag_at(d, *path, NULL, NULL);
    return diag_fail(d, STATUS_IO, "cannot be written: the path is %s",
                     length ? "too long" : "empty");
  }
  struct stat s;
  if (stat(*path, &s) == 0 && !S_ISREG(s.st_mode)) {
    diag_at(d, *path, NULL, NULL);
    if (S_ISDIR(s.st_mode))
      diag_hint(d, "Give the name of a file in it.");
    return diag_fail(d, STATUS_IO, "cannot be written: it is %s, not a regular file",
                     S_ISDIR(s.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  return STATUS_OK;
}

enum status file_check_place(const char *path, struct diag *d) {
  char target[PATH_MAX], folder[PATH_MAX];
  if (is_passed_on(path))
    return STATUS_OK;
  TRY(check_path(&path, target, d));
  folder_of(path, folder);
  struct stat s;
  int error = 0;
  if (stat(folder, &s) != 0)
    error = errno;
  else if (!S_ISDIR(s.st_mode))
    error = ENOTDIR;
  else if (access(folder, W_OK | X_OK) != 0)
    error = errno;
  if (error == 0)
    return STATUS_OK;
  size_t last = strlen(folder) - 1;
  if (last > 0)
    folder[last] = '\0';  // its slash
  diag_at(d, path, NULL, NULL);
  if (error == ENOENT) {
    diag_hint(d, "Make the folder first (mkdir -p)%s.",
              path[strlen(path) - 1] == '/' ? ", and give the name of a file in it" : "");
    return diag_fail(d, STATUS_IO, "cannot be written: there is no folder %s", folder);
  }
  return diag_fail(d, STATUS_IO, "cannot be written: its folder %s: %s", folder, strerror(error));
}

// Standard output is what the caller opened.
static enum status begin_passed_on(struct file_writer *w, const char *path, struct diag *d) {
  snprintf(w->path, sizeof w->path, "%s", path);
  w->temporary[0] = '\0';
  fflush(stdout);
  int fd =
      is_stdout(path) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_WRONLY | O_CLOEXEC);
  w->out = fd < 0 ? NULL : fdopen(fd, "wb");
  return w->out ? STATUS_OK : fail_errno(d, path);
}

enum status file_begin(struct file_writer *w, const char *path, struct diag *d) {
  char target[PATH_MAX];
  w->out = NULL;
  if (is_passed_on(path))
    return begin_passed_on(w, path, d);
  TRY(check_path(&path, target, d));
  memcpy(w->path, path, strlen(path) + 1);
  const char *sync = getenv("NARROWCAST_SYNC");
  w->lazy = sync && strcmp(sync, "none") == 0;
  int fd = open_temporary(w);
  if (fd < 0)
    return fail_errno(d, path);
  w->out = fdopen(fd, "wb");
  if (!w->out) {
    enum status status = fail_errno(d, path);
    close(fd);
    remove_temporary(w);
    return status;
  }
  return STATUS_OK;
}

enum status file_begin_temporary(struct file_writer *w, const char *folder, struct diag *d) {
  w->out = NULL;
  w->temporary[0] = '\0';
  int length = snprintf(w->path, sizeof w->path, "%s/", folder);
  if (length < 0 || (size_t)length >= sizeof w->path) {
    diag_at(d, folder, NULL, NULL);
    return diag_fail(d, STATUS_IO, "the path of this folder is too long");
  }
  remove_abandoned(folder);
  int fd = open_named(w, 0600);
  w->out = fd < 0 ? NULL : fdopen(fd, "w+b");
  if (w->out)
    return STATUS_OK;
  enum status status = fail_errno(d, folder);
  if (fd >= 0)
    close(fd);
  remove_temporary(w);
  return status;
}

void file_set_path(struct file_writer *w, const char *path) {
  snprintf(w->path, sizeof w->path, "%s", path);
}

// ---- Ending ----

enum status file_sync(struct file_writer *w, struct diag *d) {
  bool to_disk = !is_passed_on(w->path) && !w->lazy;
  // A failed write leaves its mark on the stream, so that callers need not look at each one.
  errno = 0;
  if (fflush(w->out) == 0 && !ferror(w->out) && (!to_disk || fsync(fileno(w->out)) == 0))
    return STATUS_OK;
  if (errno == 0)
    errno = EIO;  // the reason went with an earlier write
  enum status status = fail_errno(d, w->path);
  file_abandon(w);
  return status;
}

// Gives the complete file a name beside its place.
static bool give_name(struct file_writer *w) {
  char from[64];
  descriptor_path(fileno(w->out), from);
  for (int k = 0; k < ATTEMPTS; k++) {
    make_name(w, k);
    set_pending(w->temporary, true);
    if (linkat(AT_FDCWD, from, AT_FDCWD, w->temporary, AT_SYMLINK_FOLLOW) == 0)
      return true;
    set_pending(w->temporary, false);
    if (errno != EEXIST)
      break;
  }
  w->temporary[0] = '\0';
  return false;
}

// So that the new name outlives a power cut. Not every file system can; nothing depends on it.
static void sync_folder(const char *path) {
  char folder[PATH_MAX];
  folder_of(path, folder);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  (void)fsync(fd);
  close(fd);
}

enum status file_commit(struct file_writer *w, struct diag *d) {
  if (is_passed_on(w->path)) {
    TRY(file_sync(w, d));
    fclose(w->out);
    w->out = NULL;
    return STATUS_OK;
  }
  struct stat old;
  if (stat(w->path, &old) == 0)
    (void)fchmod(fileno(w->out), old.st_mode & 0777);
  TRY(file_sync(w, d));
  // Renamed while it is open, and so locked.
  if ((!w->temporary[0] && !give_name(w)) || rename(w->temporary, w->path) != 0) {
    enum status status = fail_errno(d, w->path);
    file_abandon(w);
    return status;
  }
  set_pending(w->temporary, false);
  w->temporary[0] = '\0';
  // All is written; what is not synced yet, some network's file systems still have to send.
  bool closed = fclose(w->out) == 0;
  w->out = NULL;
  if (!closed)
    return fail_errno(d, w->path);
  if (!w->lazy)
    sync_folder(w->path);
  return STATUS_OK;
}

void file_abandon(struct file_writer *w) {
  if (!w->out)
    return;
  fclose(w->out);
  remove_temporary(w);
  w->out = NULL;
}
