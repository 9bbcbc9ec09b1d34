// See support_samples.h.
#include "support_samples.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <cmocka.h>

// ---- The model of a test ----

const float six[6] = {1, 2, 3, 4, 5, 6};

struct fixture *fixture_new(void) {
  struct fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  const char *tmp = getenv("TMPDIR");
  snprintf(f->folder, sizeof f->folder, "%s/samples-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(f->folder));
  schema_load(&f->schemas, &f->arena);
  build_begin(&f->b, &f->arena, 13);
  return f;
}

static void remove_folder(const char *path, int depth) {
  DIR *directory = opendir(path);
  assert_non_null(directory);
  for (struct dirent *e; (e = readdir(directory));) {
    char inner[1024];
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
      continue;
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    if (unlink(inner) != 0 && depth < 5)
      remove_folder(inner, depth + 1);
  }
  closedir(directory);
  assert_int_equal(rmdir(path), 0);
}

void fixture_end(struct fixture *f) {
  samples_close(f->samples);
  model_close(&f->model);
  arena_free(&f->arena);
  remove_folder(f->folder, 0);
  free(f);
}

void fixture_build(struct fixture *f) {
  build_model(&f->b, &f->model);
  enum status status = graph_build(&f->g, &f->model, &f->schemas, &f->arena, &f->d);
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
}

struct fixture *identity_model(const char *type) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", type);
  build_output(&f->b, "y", "");
  build_node(&f->b, "Identity", "x", "y");
  fixture_build(f);
  return f;
}

struct fixture *two_inputs(void) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "a", "float[N]");
  build_input(&f->b, "w", "float[1]");
  build_floats(&f->b, "w", "float[1]", six);
  build_input(&f->b, "b", "float[N]");
  build_node(&f->b, "Sum", "a b w", "y");
  build_output(&f->b, "y", "float");
  fixture_build(f);
  return f;
}

// ---- Files ----

void write_bytes(struct fixture *f, const char *name, const void *bytes, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", f->folder, name);
  for (char *slash = path + strlen(f->folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = '\0';
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
  }
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(bytes, 1, size, out), size);
  fclose(out);
}

void put_npy(struct bytes *b, int version, const char *header, const void *data, size_t size) {
  size_t length = strlen(header);
  uint8_t prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)version, 0, (uint8_t)length};
  put_bytes(b, prefix, version == 1 ? 10 : 12);
  put_bytes(b, header, length);
  put_bytes(b, data, size);
}

struct bytes npy(const char *descr, const char *shape, const void *data, size_t size) {
  struct bytes b = {0};
  char header[200];
  snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr,
           shape);
  put_npy(&b, 1, header, data, size);
  return b;
}

void write_npy(struct fixture *f, const char *name, const char *descr, const char *shape,
               const void *data, size_t size) {
  struct bytes b = npy(descr, shape, data, size);
  write_bytes(f, name, b.data, b.size);
}

void write_npz(struct fixture *f, const char *file, const char *entry, const struct bytes *b,
               bool deflate) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", f->folder, file);
  zip_t *archive = zip_open(path, ZIP_CREATE, NULL);
  assert_non_null(archive);
  zip_source_t *source = zip_source_buffer(archive, b->data, b->size, 0);
  zip_int64_t index = zip_file_add(archive, entry, source, 0);
  assert_true(index >= 0);
  zip_set_file_compression(archive, (zip_uint64_t)index, deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE,
                           0);
  assert_int_equal(zip_close(archive), 0);
}

void write_safetensors(struct fixture *f, const char *name, const char *header, const void *data,
                       size_t size) {
  struct bytes b = {0};
  const uint8_t length[8] = {(uint8_t)strlen(header), (uint8_t)(strlen(header) >> 8)};
  put_bytes(&b, length, 8);
  put_bytes(&b, header, strlen(header));
  put_bytes(&b, data, size);
  write_bytes(f, name, b.data, b.size);
}

struct bytes tensor(const char *name, int type, uint64_t dim, const void *raw, size_t size) {
  struct bytes b = {0};
  put_int(&b, 1, dim);
  put_int(&b, 2, (uint64_t)type);
  if (name)
    put_text(&b, 8, name);
  put_field(&b, 9, raw, size);
  return b;
}

void write_pb(struct fixture *f, const char *file, const char *name, int type, uint64_t dim,
              const void *raw, size_t size) {
  struct bytes b = tensor(name, type, dim, raw, size);
  write_bytes(f, file, b.data, b.size);
}

enum status open_at(struct fixture *f, const char *below) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", f->folder, below);
  samples_close(f->samples);
  f->samples = NULL;
  diag_clear(&f->d);
  return samples_open(&f->samples, &f->g, path, &f->arena, &f->d);
}

struct sample read_sample(struct fixture *f, size_t k) {
  struct sample s;
  enum status status = samples_read(f->samples, k, &s, &f->d);
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
  for (size_t i = 0; i < s.n_arrays; i++)
    assert_int_equal((uintptr_t)s.arrays[i].data % 16, 0);
  return s;
}

struct sample open_only(struct fixture *f) {
  enum status status = open_at(f, "");
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(samples_count(f->samples), 1);
  return read_sample(f, 0);
}

void fails_with(struct fixture *f, const char *text) {
  struct sample s;
  enum status status = open_at(f, "");
  if (status == STATUS_OK)
    status = samples_read(f->samples, 0, &s, &f->d);
  if (!strstr(f->d.message, text) && !strstr(f->d.hint, text)) {
    fprintf(stderr, "wanted '%s' in: ", text);
    diag_print(&f->d, stderr);
    fail();
  }
  assert_int_equal(status, STATUS_DATA);
  assert_int_equal(f->d.status, STATUS_DATA);
  assert_true(f->d.file[0] != '\0');
}

void every_truncation_fails(struct fixture *f, const char *file) {
  char path[512];
  uint8_t bytes[4096];
  snprintf(path, sizeof path, "%s/%s", f->folder, file);
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  size_t size = fread(bytes, 1, sizeof bytes, in);
  fclose(in);
  for (size_t length = 0; length < size; length++) {
    struct sample s;
    assert_int_equal(truncate(path, 0), 0);
    // A copy of the exact size, so that a read beyond it is seen.
    uint8_t *part = malloc(length + 1);
    assert_non_null(part);
    memcpy(part, bytes, length);
    write_bytes(f, file, part, length);
    free(part);
    enum status status = open_at(f, "");
    if (status == STATUS_OK)
      status = samples_read(f->samples, 0, &s, &f->d);
    assert_int_equal(status, STATUS_DATA);
    assert_string_equal(f->d.file, path);
  }
  write_bytes(f, file, bytes, size);
}

void assert_floats(const struct array *a, const float *wanted, size_t n) {
  assert_int_equal(a->elem_type, FLOAT);
  assert_int_equal(a->size, n * sizeof *wanted);
  assert_memory_equal(a->data, wanted, n * sizeof *wanted);
}
