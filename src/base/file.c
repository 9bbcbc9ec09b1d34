// Files: see file.h. Reading maps, so that weights cost address space and page cache only. Writing
// goes to a temporary file beside the target, so that the rename at the end is atomic and an
// interrupted run leaves either the old file or the new one.
#define _GNU_SOURCE  // realpath, MAP_ANONYMOUS
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t nothing[1];

static enum status fail_errno(struct diag *d, const char *path, const char *what) {
  int error = errno;
  diag_at(d, path, NULL, NULL);
  return diag_fail(d, STATUS_IO, "%s: %s", what, strerror(error));
}

static enum status map_open(int fd, const char *path, const uint8_t **bytes, size_t *size,
                            struct diag *d) {
  struct stat s;
  if (fstat(fd, &s) != 0)
    return fail_errno(d, path, "cannot be read");
  if (!S_ISREG(s.st_mode)) {
    diag_at(d, path, NULL, NULL);
    return diag_fail(d, STATUS_IO, "is %s, not a regular file",
                     S_ISDIR(s.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  *size = (size_t)s.st_size;
  if (*size == 0) {
    *bytes = nothing;
    return STATUS_OK;
  }
  void *place = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (place == MAP_FAILED)
    return fail_errno(d, path, "cannot be mapped");
  *bytes = place;
  return STATUS_OK;
}

enum status file_map(const char *path, const uint8_t **bytes, size_t *size, struct diag *d) {
  // Without O_NONBLOCK the open of a pipe waits for a writer.
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return fail_errno(d, path, "cannot be opened");
  enum status status = map_open(fd, path, bytes, size, d);
  close(fd);
  return status;
}

void file_unmap(const uint8_t *bytes, size_t size) {
  if (size)
    munmap((void *)(uintptr_t)bytes, size);
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

static void set_pending(const char *path, bool is_pending) {
  for (int i = 0; i < MOST_PENDING; i++) {
    const char *wanted = is_pending ? "" : path;
    if (strcmp(pending[i], wanted) != 0)
      continue;
    snprintf(pending[i], sizeof pending[i], "%s", is_pending ? path : "");
    return;
  }
}

void file_remove_pending(void) {
  for (int i = 0; i < MOST_PENDING; i++)
    if (pending[i][0])
      unlink(pending[i]);
}

static void remove_temporary(const struct file_writer *w) {
  unlink(w->temporary);
  set_pending(w->temporary, false);
}

// A process number comes back after a crash (in containers on every run), so a left-over file of
// that name must not stop us, and may belong to somebody else.
static int create_temporary(struct file_writer *w) {
  enum { ATTEMPTS = 100 };
  long pid = (long)getpid();
  for (int k = 0; k < ATTEMPTS; k++) {
    if (k == 0)
      snprintf(w->temporary, sizeof w->temporary, "%s.%ld.tmp", w->path, pid);
    else
      snprintf(w->temporary, sizeof w->temporary, "%s.%ld-%d.tmp", w->path, pid, k);
    int fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST)
      return fd;
  }
  return -1;
}

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

enum status file_begin(struct file_writer *w, const char *path, struct diag *d) {
  char target[PATH_MAX];
  w->out = NULL;
  TRY(follow_link(&path, target, d));
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof w->path) {
    diag_at(d, path, NULL, NULL);
    return diag_fail(d, STATUS_IO, "cannot be written: the path is %s",
                     length ? "too long" : "empty");
  }
  memcpy(w->path, path, length + 1);
  struct stat s;
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) {
    diag_at(d, path, NULL, NULL);
    return diag_fail(d, STATUS_IO, "cannot be written: it is %s, not a regular file",
                     S_ISDIR(s.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  int fd = create_temporary(w);
  if (fd < 0)
    return fail_errno(d, path, "cannot be written");
  set_pending(w->temporary, true);
  w->out = fdopen(fd, "wb");
  if (!w->out) {
    enum status status = fail_errno(d, path, "cannot be written");
    close(fd);
    remove_temporary(w);
    return status;
  }
  return STATUS_OK;
}

enum status file_sync(struct file_writer *w, struct diag *d) {
  // A failed write leaves its mark on the stream, so that callers need not look at each one.
  if (fflush(w->out) == 0 && !ferror(w->out) && fsync(fileno(w->out)) == 0)
    return STATUS_OK;
  enum status status = fail_errno(d, w->path, "cannot be written");
  file_abandon(w);
  return status;
}

enum status file_commit(struct file_writer *w, struct diag *d) {
  struct stat old;
  if (stat(w->path, &old) == 0)
    (void)fchmod(fileno(w->out), old.st_mode & 0777);
  TRY(file_sync(w, d));
  bool closed = fclose(w->out) == 0;
  w->out = NULL;
  if (closed && rename(w->temporary, w->path) == 0) {
    set_pending(w->temporary, false);
    return STATUS_OK;
  }
  enum status status = fail_errno(d, w->path, "cannot be written");
  remove_temporary(w);
  return status;
}

void file_abandon(struct file_writer *w) {
  if (!w->out)
    return;
  fclose(w->out);
  remove_temporary(w);
  w->out = NULL;
}

void sha256_hex(const void *data, size_t size, char hex[65]) {
  static const char digits[] = "0123456789abcdef";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(data, size, digest, &length, EVP_sha256(), NULL) != 1 || length != 32)
    abort();  // libcrypto without SHA-256: a wrong hash would be worse
  for (unsigned i = 0; i < length; i++) {
    hex[2 * i] = digits[digest[i] >> 4];
    hex[2 * i + 1] = digits[digest[i] & 15];
  }
  hex[64] = '\0';
}
