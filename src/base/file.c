// Reading files: see file.h. They are mapped, so that weights cost address space and page cache
// only; and what is mapped may change meanwhile, which is found by a second look. Hashes.
#define _DEFAULT_SOURCE  // madvise
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
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

void file_forget(const uint8_t *bytes, size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = (uintptr_t)bytes / page * page, to = (uintptr_t)bytes + size;
  if (size)
    (void)madvise((void *)from, to - from, MADV_DONTNEED);  // only advice
}

// ---- Changes ----

struct file_stamp file_stamp(const char *path) {
  struct stat s;
  if (stat(path, &s) != 0)
    return (struct file_stamp){0};
  return (struct file_stamp){s.st_dev, s.st_ino, s.st_size, s.st_mtim};
}

bool file_is_one(const struct file_stamp *x, const struct file_stamp *y) {
  return x->inode != 0 && x->device == y->device && x->inode == y->inode;
}

static bool was_written(const struct file_stamp *x, const struct file_stamp *y) {
  return x->size != y->size || x->time.tv_sec != y->time.tv_sec ||
         x->time.tv_nsec != y->time.tv_nsec;
}

bool file_changed(const char *path, const struct file_stamp *before) {
  struct file_stamp now = file_stamp(path);
  return file_is_one(&now, before) && was_written(&now, before);
}

bool file_is_other(const char *path, const struct file_stamp *before) {
  struct file_stamp now = file_stamp(path);
  return !file_is_one(&now, before) || was_written(&now, before);
}

// ---- Hashes ----

struct hash {
  EVP_MD_CTX *context;
};

static void hash_check(int good) {
  if (good != 1)
    abort();  // libcrypto without SHA-256: a wrong hash would be worse
}

struct hash *hash_begin(void) {
  struct hash *h = malloc(sizeof *h);
  if (!h)
    out_of_memory(sizeof *h);
  h->context = EVP_MD_CTX_new();
  hash_check(h->context && EVP_DigestInit_ex(h->context, EVP_sha256(), NULL));
  return h;
}

void hash_add(struct hash *h, const void *data, size_t size) {
  hash_check(EVP_DigestUpdate(h->context, data, size));
}

static void write_hex(const unsigned char *digest, unsigned length, char *hex) {
  static const char digits[] = "0123456789abcdef";
  for (unsigned i = 0; i < length; i++) {
    hex[2 * i] = digits[digest[i] >> 4];
    hex[2 * i + 1] = digits[digest[i] & 15];
  }
  hex[2 * length] = '\0';
}

void hash_end(struct hash *h, char hex[65]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!h)
    return;
  hash_check(EVP_DigestFinal_ex(h->context, digest, &length));
  write_hex(digest, 32, hex);
  EVP_MD_CTX_free(h->context);
  free(h);
}

void sha256_hex(const void *data, size_t size, char hex[65]) {
  struct hash *h = hash_begin();
  hash_add(h, data, size);
  hash_end(h, hex);
}

bool file_sha1(const uint8_t *bytes, size_t size, char hex[41]) {
  enum { PIECE = 4 * 1024 * 1024, SHA1_BYTES = 20 };
  unsigned char digest[EVP_MAX_MD_SIZE];
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool good = context && EVP_DigestInit_ex(context, EVP_sha1(), NULL) == 1;
  for (size_t at = 0; at < size && good; at += PIECE) {
    size_t n = size - at < PIECE ? size - at : PIECE;
    good = EVP_DigestUpdate(context, bytes + at, n) == 1;
    file_forget(bytes + at, n);
  }
  good = good && EVP_DigestFinal_ex(context, digest, NULL) == 1;
  EVP_MD_CTX_free(context);
  if (good)
    write_hex(digest, SHA1_BYTES, hex);
  return good;
}

// ---- Names ----

const char *file_base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

const char *file_beside(const char *path, const char *from, struct arena *a) {
  const char *slash = strrchr(from, '/');
  if (!path || path[0] == '/' || !slash)
    return path;
  return arena_printf(a, "%.*s/%s", (int)(slash - from), from, path);
}
