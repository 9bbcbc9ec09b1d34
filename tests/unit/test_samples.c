// Samples: every layout and format that is read, every fault that is reported, and data that is
// made up. All files are written by the test itself, byte by byte, to a folder that it removes.
#include "graph.h"
#include "samples.h"
#include "support_bytes.h"

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

enum {
  FLOAT = 1,
  UINT8 = 2,
  INT32 = 6,
  INT64 = 7,
  STRING = 8,
  BOOL = 9,
  FLOAT16 = 10,
  DOUBLE = 11
};

// ---- The model of a test ----

struct fixture {
  char folder[256];
  struct bytes graph;
  struct arena arena;
  struct schema_table schemas;
  struct model model;
  struct graph g;
  struct samples *samples;
  struct diag d;
};

static struct fixture *fixture_new(void) {
  struct fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  const char *tmp = getenv("TMPDIR");
  snprintf(f->folder, sizeof f->folder, "%s/samples-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(f->folder));
  schema_load(&f->schemas, &f->arena);
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

static void fixture_end(struct fixture *f) {
  samples_close(f->samples);
  model_close(&f->model);
  arena_free(&f->arena);
  remove_folder(f->folder, 0);
  free(f);
}

// A value's name and type; `shape` is like "2,N,?" or NULL for none.
static void put_value(struct bytes *graph, uint32_t field, const char *name, int type,
                      const char *shape) {
  struct bytes dims = {0}, tensor = {0}, kind = {0}, info = {0};
  for (const char *at = shape ? shape : ""; *at;) {
    struct bytes dim = {0};
    char text[64] = "";
    size_t length = strcspn(at, ",");
    memcpy(text, at, length);
    if ((text[0] >= '0' && text[0] <= '9'))
      put_int(&dim, 1, strtoull(text, NULL, 10));
    else if (text[0] != '?')
      put_text(&dim, 2, text);
    put_message(&dims, 1, &dim);
    at += length + (at[length] == ',');
  }
  put_int(&tensor, 1, (uint64_t)type);
  if (shape)
    put_message(&tensor, 2, &dims);
  put_message(&kind, 1, &tensor);
  put_text(&info, 1, name);
  put_message(&info, 2, &kind);
  put_message(graph, field, &info);
}

static void add_input(struct fixture *f, const char *name, int type, const char *shape) {
  put_value(&f->graph, 11, name, type, shape);
}

static void add_output(struct fixture *f, const char *name, int type) {
  put_value(&f->graph, 12, name, type, NULL);
}

// A node of one output, called like it; `axis` 99: no attribute.
static void add_node(struct fixture *f, const char *op, const char *a, const char *b,
                     const char *output, int axis) {
  struct bytes node = {0};
  put_text(&node, 1, a);
  if (b)
    put_text(&node, 1, b);
  put_text(&node, 2, output);
  put_text(&node, 4, op);
  if (axis != 99) {
    struct bytes attribute = {0};
    put_text(&attribute, 1, strcmp(op, "Cast") == 0 ? "to" : "axis");
    put_int(&attribute, 3, (uint64_t)(int64_t)axis);
    put_int(&attribute, 20, 2);
    put_message(&node, 5, &attribute);
  }
  put_message(&f->graph, 1, &node);
}

// Zeros of the dims, or one int64.
static void add_table(struct fixture *f, const char *name, uint64_t rows, uint64_t columns) {
  struct bytes tensor = {0};
  static const uint8_t zeros[1024];
  put_int(&tensor, 1, rows);
  put_int(&tensor, 1, columns);
  put_int(&tensor, 2, FLOAT);
  put_text(&tensor, 8, name);
  put_field(&tensor, 9, zeros, rows * columns * 4);
  put_message(&f->graph, 5, &tensor);
}

static void add_integer(struct fixture *f, const char *name, int64_t value) {
  struct bytes tensor = {0};
  put_int(&tensor, 2, INT64);
  put_int(&tensor, 7, (uint64_t)value);
  put_text(&tensor, 8, name);
  put_message(&f->graph, 5, &tensor);
}

static void build(struct fixture *f) {
  static const int64_t opset = 13;
  struct bytes model = {0}, import = {0};
  put_text(&f->graph, 2, "g");
  put_text(&import, 1, "");
  put_int(&import, 2, (uint64_t)opset);
  put_int(&model, 1, 8);
  put_message(&model, 7, &f->graph);
  put_message(&model, 8, &import);
  uint8_t *bytes = arena_alloc(&f->arena, model.size);
  memcpy(bytes, model.data, model.size);
  enum status status =
      model_from_bytes(&f->model, &f->arena, bytes, model.size, "m.onnx", NULL, &f->d);
  if (status == STATUS_OK)
    status = graph_build(&f->g, &f->model, &f->schemas, &f->arena, &f->d);
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
}

// y = Identity(x), float.
static struct fixture *identity_model(int type, const char *shape) {
  struct fixture *f = fixture_new();
  add_input(f, "x", type, shape);
  add_output(f, "y", type);
  add_node(f, "Identity", "x", NULL, "y", 99);
  build(f);
  return f;
}

// ---- Files ----

static void write_bytes(struct fixture *f, const char *name, const void *bytes, size_t size) {
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

static void put_npy(struct bytes *b, int version, const char *header, const void *data,
                    size_t size) {
  size_t length = strlen(header);
  uint8_t prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)version, 0, (uint8_t)length};
  put_bytes(b, prefix, version == 1 ? 10 : 12);
  put_bytes(b, header, length);
  put_bytes(b, data, size);
}

static struct bytes npy(const char *descr, const char *shape, const void *data, size_t size) {
  struct bytes b = {0};
  char header[200];
  snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr,
           shape);
  put_npy(&b, 1, header, data, size);
  return b;
}

static void write_npy(struct fixture *f, const char *name, const char *descr, const char *shape,
                      const void *data, size_t size) {
  struct bytes b = npy(descr, shape, data, size);
  write_bytes(f, name, b.data, b.size);
}

// Adds an entry to an archive, which is made if need be.
static void write_npz(struct fixture *f, const char *file, const char *entry, const struct bytes *b,
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

static void write_safetensors(struct fixture *f, const char *name, const char *header,
                              const void *data, size_t size) {
  struct bytes b = {0};
  const uint8_t length[8] = {(uint8_t)strlen(header), (uint8_t)(strlen(header) >> 8)};
  put_bytes(&b, length, 8);
  put_bytes(&b, header, strlen(header));
  put_bytes(&b, data, size);
  write_bytes(f, name, b.data, b.size);
}

// A TensorProto of one dim.
static struct bytes tensor(const char *name, int type, uint64_t dim, const void *raw, size_t size) {
  struct bytes b = {0};
  put_int(&b, 1, dim);
  put_int(&b, 2, (uint64_t)type);
  if (name)
    put_text(&b, 8, name);
  put_field(&b, 9, raw, size);
  return b;
}

static void write_pb(struct fixture *f, const char *file, const char *name, int type, uint64_t dim,
                     const void *raw, size_t size) {
  struct bytes b = tensor(name, type, dim, raw, size);
  write_bytes(f, file, b.data, b.size);
}

static enum status open_at(struct fixture *f, const char *below) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", f->folder, below);
  samples_close(f->samples);
  f->samples = NULL;
  diag_clear(&f->d);
  return samples_open(&f->samples, &f->g, path, &f->arena, &f->d);
}

static struct sample read_sample(struct fixture *f, size_t k) {
  struct sample s;
  enum status status = samples_read(f->samples, k, &s, &f->d);
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
  for (size_t i = 0; i < s.n_arrays; i++)
    assert_int_equal((uintptr_t)s.arrays[i].data % 16, 0);
  return s;
}

static struct sample open_only(struct fixture *f) {
  enum status status = open_at(f, "");
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(samples_count(f->samples), 1);
  return read_sample(f, 0);
}

// Opening or reading fails with STATUS_DATA and a message or hint that holds `text`.
static void fails_with(struct fixture *f, const char *text) {
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

// No prefix of the file can be read, and none crashes the reader.
static void every_truncation_fails(struct fixture *f, const char *file) {
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

static const float six[6] = {1, 2, 3, 4, 5, 6};

static void assert_floats(const struct array *a, const float *wanted, size_t n) {
  assert_int_equal(a->elem_type, FLOAT);
  assert_int_equal(a->size, n * sizeof *wanted);
  assert_memory_equal(a->data, wanted, n * sizeof *wanted);
}

// ---- .npy ----

static void npy_reads_the_types_of_numpy(void **state) {
  (void)state;
  static const struct {
    const char *descr;
    int type;
    size_t item;
  } cases[] = {{"<f4", 1, 4},  {"<f8", 11, 8}, {"<f2", 10, 2}, {"|i1", 3, 1}, {"<i2", 5, 2},
               {"<i4", 6, 4},  {"<i8", 7, 8},  {"|u1", 2, 1},  {"<u2", 4, 2}, {"<u4", 12, 4},
               {"<u8", 13, 8}, {"|b1", 9, 1},  {"=f4", 1, 4}};
  static const uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture *f = identity_model(cases[i].type, "2");
    write_npy(f, "x.npy", cases[i].descr, "(2,)", bytes, 2 * cases[i].item);
    struct sample s = open_only(f);
    assert_int_equal(s.arrays[0].elem_type, cases[i].type);
    assert_int_equal(s.arrays[0].size, 2 * cases[i].item);
    if (cases[i].type == BOOL)
      assert_memory_equal(s.arrays[0].data, "\1\1", 2);
    else
      assert_memory_equal(s.arrays[0].data, bytes, 2 * cases[i].item);
    sample_free(&s);
    fixture_end(f);
  }
}

static void npy_reads_versions_two_and_three(void **state) {
  (void)state;
  for (int version = 1; version <= 3; version++) {
    struct fixture *f = identity_model(FLOAT, "6");
    struct bytes b = {0};
    put_npy(&b, version, "{\"shape\": (6L,), 'fortran_order':False,'descr':'<f4'}", six, 24);
    write_bytes(f, "x.npy", b.data, b.size);
    struct sample s = open_only(f);
    assert_floats(&s.arrays[0], six, 6);
    sample_free(&s);
    fixture_end(f);
  }
}

static void npy_swaps_the_other_byte_order(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "2");
  static const uint8_t big[8] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0};
  write_npy(f, "x.npy", ">f4", "(2,)", big, 8);
  struct sample s = open_only(f);
  assert_floats(&s.arrays[0], six, 2);
  sample_free(&s);
  fixture_end(f);
}

static void npy_transposes_fortran_order(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "2,3");
  static const float columns[6] = {1, 4, 2, 5, 3, 6};
  struct bytes b = {0};
  put_npy(&b, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", columns, 24);
  write_bytes(f, "x.npy", b.data, b.size);
  struct sample s = open_only(f);
  assert_floats(&s.arrays[0], six, 6);
  sample_free(&s);
  fixture_end(f);
}

static void npy_converts_strings(void **state) {
  (void)state;
  struct fixture *f = identity_model(STRING, "2");
  static const uint8_t utf32[16] = {0x20, 0x26, 0, 0, 'b', 0, 0, 0, 'c', 0, 0, 0, 0, 0, 0, 0};
  write_npy(f, "x.npy", "<U2", "(2,)", utf32, 16);
  struct sample s = open_only(f);
  assert_null(s.arrays[0].data);
  assert_string_equal(s.arrays[0].strings[0], "\xe2\x98\xa0"
                                              "b");
  assert_string_equal(s.arrays[0].strings[1], "c");
  sample_free(&s);
  write_npy(f, "x.npy", "|S3", "(2,)", "abcd\0\0", 6);
  s = open_only(f);
  assert_string_equal(s.arrays[0].strings[0], "abc");
  assert_string_equal(s.arrays[0].strings[1], "d");
  sample_free(&s);
  write_npy(f, "x.npy", "<U1", "(2,)", "\xff\xff\xff\xff\0\0\0", 8);
  fails_with(f, "invalid character");
  fixture_end(f);
}

static void npy_refuses_what_numpy_would_not_write(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "empty"},
      {"no dictionary here", "not a dictionary"},
      {"{'descr': '<f4', 'fortran_order': False}", "lacks"},
      {"{'descr': '<f4', 'descr': '<f4', 'shape': (6,)}", "repeated key 'descr'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}", "unknown key 'x'"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}", "True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}", "tuple of integers"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6 6)}", "tuple of integers"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "integers"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}", "overflows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,4294967296,4294967296)}", "overflows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
       "more than 16"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x", "after its dictionary"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", "says 20 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", "says 28 bytes"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", "element type '<c8'"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "element type '|O'"},
      {"{'descr': '|S0', 'fortran_order': False, 'shape': (99999999,)}", "element type '|S0'"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "structured"},
      {"{'descr': 4, 'fortran_order': False, 'shape': (3,)}", "not a string"},
      {"{'descr", "not a dictionary"},
      {"{'descr': '<f4' 'shape'", "not a dictionary"},
  };
  struct fixture *f = identity_model(FLOAT, "6");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct bytes b = {0};
    put_npy(&b, 1, cases[i][0], six, 24);
    write_bytes(f, "x.npy", b.data, b.size);
    fails_with(f, cases[i][1]);
  }
  write_bytes(f, "x.npy", "PK\3\4 not an array", 17);
  fails_with(f, "does not begin");
  write_bytes(f, "x.npy", "\x93NUMPY\4\0\0\0\0\0", 12);
  fails_with(f, "version 4.0");
  write_bytes(f, "x.npy", "\x93NUMPY\2\0\xff\xff\xff\xff", 12);
  fails_with(f, "claims");
  fixture_end(f);
}

static void npy_cut_anywhere_is_an_error(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "6");
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  every_truncation_fails(f, "x.npy");
  fixture_end(f);
}

// ---- .npz ----

static void npz_reads_stored_and_deflated_entries(void **state) {
  (void)state;
  for (int deflate = 0; deflate < 2; deflate++) {
    struct fixture *f = identity_model(FLOAT, "N");
    struct bytes x = npy("<f4", "(6,)", six, 24), label = npy("<i8", "(1,)", "\5\0\0\0\0\0\0", 8);
    write_npz(f, "0.npz", "x.npy", &x, deflate);
    write_npz(f, "0.npz", "label:y.npy", &label, deflate);
    struct sample s = open_only(f);
    assert_string_equal(s.label, "0.npz");
    assert_int_equal(s.n_arrays, 2);
    assert_floats(&s.arrays[0], six, 6);
    assert_string_equal(s.arrays[1].name, "label:y");
    sample_free(&s);
    every_truncation_fails(f, "0.npz");
    fixture_end(f);
  }
}

// Overwrites the little-endian number at `offset` bytes after the n-th record with that signature.
static void patch_zip(struct fixture *f, const char *signature, size_t offset, uint32_t value) {
  char path[512];
  uint8_t bytes[4096];
  snprintf(path, sizeof path, "%s/0.npz", f->folder);
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  size_t size = fread(bytes, 1, sizeof bytes, in);
  fclose(in);
  for (size_t i = 0; i + offset + 4 <= size; i++)
    if (memcmp(bytes + i, signature, 4) == 0)
      for (unsigned k = 0; k < 4; k++)
        bytes[i + offset + k] = (uint8_t)(value >> 8 * k);
  write_bytes(f, "0.npz", bytes, size);
}

static void npz_refuses_bombs_and_damage(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "6");
  struct bytes x = npy("<f4", "(6,)", six, 24);
  write_npz(f, "0.npz", "x.npy", &x, true);
  patch_zip(f, "PK\1\2", 24, 0xf0000000u);
  fails_with(f, "at most");
  patch_zip(f, "PK\1\2", 24, 0x70000000u);
  fails_with(f, "compressed bytes");
  patch_zip(f, "PK\1\2", 24, (uint32_t)x.size + 8);
  fails_with(f, "says 24 bytes");
  patch_zip(f, "PK\1\2", 24, (uint32_t)x.size);
  patch_zip(f, "PK\1\2", 20, 5000);
  fails_with(f, "longer than the archive");
  patch_zip(f, "PK\1\2", 10, 12);
  fails_with(f, "neither stored nor deflated");
  fixture_end(f);
  f = identity_model(FLOAT, "6");
  write_npz(f, "0.npz", "x.npy", &x, false);
  patch_zip(f, "PK\1\2", 16, 1);
  fails_with(f, "CRC");
  fixture_end(f);
  f = identity_model(FLOAT, "6");
  write_npz(f, "0.npz", "x.txt", &x, false);
  fails_with(f, "no .npy array");
  fixture_end(f);
}

static void npz_with_a_wild_shape_takes_no_memory(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "6");
  struct bytes x = npy("<f4", "(500000000,)", six, 24);
  write_npz(f, "0.npz", "x.npy", &x, true);
  fails_with(f, "says 2000000000 bytes");
  fixture_end(f);
}

// ---- .safetensors ----

static void safetensors_reads_arrays_by_name(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "2,3");
  write_safetensors(
      f, "a.safetensors",
      "{\"__metadata__\":{\"format\":\"pt\"},\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],"
      "\"data_offsets\":[0,24]}}   ",
      six, 24);
  struct sample s = open_only(f);
  assert_floats(&s.arrays[0], six, 6);
  sample_free(&s);
  every_truncation_fails(f, "a.safetensors");
  fixture_end(f);
}

static void safetensors_refuses_bad_headers(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"[]", "not a JSON object"},
      {"{\"x\":1}", "not an object"},
      {"{\"x\":{}}", "dtype"},
      {"{\"x\":{\"dtype\":\"F99\"}}", "element type 'F99'"},
      {"{\"x\":{\"dtype\":\"F32\"}}", "no 'shape'"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[-1]}}", "something else than sizes"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1.5]}}", "something else than sizes"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1e15,1e15]}}", "overflows"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[6]}}", "data_offsets"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[24,0]}}", "ascending"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[8,32]}}", "ends at byte 32"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,24]}}", "says 20 bytes"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]},"
       "\"z\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}",
       "overlap"},
  };
  struct fixture *f = identity_model(FLOAT, "6");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_safetensors(f, "a.safetensors", cases[i][0], six, 24);
    fails_with(f, cases[i][1]);
  }
  write_bytes(f, "a.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  fails_with(f, "claims");
  fixture_end(f);
}

// ---- .pb ----

static struct fixture *two_inputs(void) {
  struct fixture *f = fixture_new();
  add_input(f, "a", FLOAT, "N");
  add_table(f, "w", 1, 1);
  add_input(f, "w", FLOAT, "1,1");
  add_input(f, "b", FLOAT, "N");
  add_output(f, "y", FLOAT);
  add_node(f, "Add", "a", "b", "sum", 99);
  add_node(f, "Add", "sum", "w", "y", 99);
  build(f);
  return f;
}

static void pb_is_for_the_input_it_names_or_else_the_kth_without_initializer(void **state) {
  (void)state;
  struct fixture *f = two_inputs();
  write_pb(f, "test_data_set_0/input_0.pb", "b", FLOAT, 2, six, 8);
  write_pb(f, "test_data_set_0/input_1.pb", "a", FLOAT, 2, six + 2, 8);
  write_pb(f, "test_data_set_0/output_0.pb", "y", FLOAT, 6, six, 24);
  write_pb(f, "test_data_set_1/input_0.pb", NULL, FLOAT, 2, six, 8);
  write_pb(f, "test_data_set_1/input_1.pb", "unknown", FLOAT, 2, six + 2, 8);
  write_bytes(f, "model.onnx", "x", 1);
  assert_int_equal(open_at(f, ""), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 2);
  for (size_t k = 0; k < 2; k++) {
    struct sample s = read_sample(f, k);
    assert_string_equal(s.label, k ? "test_data_set_1" : "test_data_set_0");
    assert_string_equal(s.arrays[0].name, k ? "a" : "b");
    assert_string_equal(s.arrays[1].name, k ? "b" : "a");
    assert_floats(&s.arrays[0], six, 2);
    sample_free(&s);
  }
  fixture_end(f);
}

static void pb_reads_typed_fields_and_strings(void **state) {
  (void)state;
  struct fixture *f = identity_model(INT64, "2");
  struct bytes b = {0};
  put_int(&b, 1, 2);
  put_int(&b, 2, INT64);
  put_int(&b, 7, 5);
  put_int(&b, 7, 6);
  write_bytes(f, "input_0.pb", b.data, b.size);
  struct sample s = open_only(f);
  assert_memory_equal(s.arrays[0].data, ((int64_t[]){5, 6}), 16);
  sample_free(&s);
  fixture_end(f);
  f = identity_model(STRING, "2");
  b = (struct bytes){0};
  put_int(&b, 1, 2);
  put_int(&b, 2, STRING);
  put_text(&b, 6, "first");
  put_text(&b, 6, "");
  write_bytes(f, "input_0.pb", b.data, b.size);
  s = open_only(f);
  assert_string_equal(s.arrays[0].strings[0], "first");
  assert_string_equal(s.arrays[0].strings[1], "");
  sample_free(&s);
  fixture_end(f);
}

static void pb_refuses_what_is_no_whole_tensor(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "6");
  write_pb(f, "input_0.pb", "x", FLOAT, 6, six, 24);
  every_truncation_fails(f, "input_0.pb");
  write_pb(f, "input_0.pb", "x", FLOAT, 7, six, 24);
  fails_with(f, "28");
  write_pb(f, "input_0.pb", "x", FLOAT, UINT64_MAX, six, 24);
  fails_with(f, "negative");
  struct bytes b = tensor("x", FLOAT, 6, six, 24), entry = {0};
  put_text(&entry, 1, "location");
  put_text(&entry, 2, "/etc/hostname");
  put_message(&b, 13, &entry);
  write_bytes(f, "input_0.pb", b.data, b.size);
  fails_with(f, "another file");
  write_bytes(f, "input_0.pb", "\xff\xff\xff", 3);
  fails_with(f, "byte 0");
  write_pb(f, "input_0.pb", NULL, FLOAT, 6, six, 24);
  write_pb(f, "input_1.pb", NULL, FLOAT, 6, six, 24);
  fails_with(f, "is for input 1 and the model has 1");
  fixture_end(f);
}

static void sequence_inputs_are_refused(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  struct bytes tensor_type = {0}, inner = {0}, sequence = {0}, type = {0}, info = {0};
  put_int(&tensor_type, 1, FLOAT);
  put_message(&inner, 1, &tensor_type);
  put_message(&sequence, 1, &inner);
  put_message(&type, 4, &sequence);
  put_text(&info, 1, "s");
  put_message(&info, 2, &type);
  put_message(&f->graph, 11, &info);
  add_output(f, "n", INT64);
  add_node(f, "SequenceLength", "s", NULL, "n", 99);
  build(f);
  write_pb(f, "input_0.pb", NULL, FLOAT, 6, six, 24);
  fails_with(f, "sequence inputs cannot be read");
  assert_string_equal(f->d.tensor, "s");
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
  fixture_end(f);
}

// ---- Layouts ----

static void order_is_by_name_and_numbers_count_by_value(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "N");
  struct bytes x = npy("<f4", "(6,)", six, 24);
  for (int k = 10; k >= 8; k--) {
    char name[64];
    snprintf(name, sizeof name, "test_data_set_%d/input_0.pb", k);
    write_pb(f, name, NULL, FLOAT, 6, six, 24);
  }
  write_npz(f, "a2.npz", "x.npy", &x, false);
  write_npz(f, "a10.npz", "x.npy", &x, false);
  write_npy(f, "loose.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "named/x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "one/two/x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "one/two/three/x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, ".hidden/x.npy", "<f4", "(6,)", six, 24);
  static const char *const order[] = {"a2.npz",          "a10.npz",         "loose.npy",
                                      "named",           "one/two",         "test_data_set_8",
                                      "test_data_set_9", "test_data_set_10"};
  assert_int_equal(open_at(f, "/"), STATUS_OK);
  assert_int_equal(samples_count(f->samples), sizeof order / sizeof order[0]);
  for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
    struct sample s = read_sample(f, k);
    assert_string_equal(s.label, order[k]);
    assert_string_equal(s.arrays[0].name, "x");
    assert_floats(&s.arrays[0], six, 6);
    sample_free(&s);
  }
  fixture_end(f);
}

static void files_of_one_array_are_a_sample_each_for_a_single_input(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "N");
  write_npy(f, "cat.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "dog.npy", "<f4", "(6,)", six, 24);
  assert_int_equal(open_at(f, ""), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 2);
  assert_int_equal(open_at(f, "/dog.npy"), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 1);
  struct sample s = read_sample(f, 0);
  assert_string_equal(s.label, "dog.npy");
  sample_free(&s);
  fixture_end(f);
  f = two_inputs();
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "b.npy", "<f4", "(6,)", six, 24);
  s = open_only(f);
  assert_int_equal(s.n_arrays, 2);
  sample_free(&s);
  fixture_end(f);
}

static void nothing_found_says_what_is_looked_for(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "N");
  write_bytes(f, "notes.txt", "x", 1);
  write_pb(f, "output_0.pb", NULL, FLOAT, 6, six, 24);
  fails_with(f, ".safetensors");
  assert_string_equal(f->d.file, f->folder);
  assert_int_equal(open_at(f, "/notes.txt"), STATUS_DATA);
  assert_int_equal(open_at(f, "/missing"), STATUS_IO);
  fixture_end(f);
}

// ---- Checks ----

static void a_missing_input_is_named(void **state) {
  (void)state;
  struct fixture *f = two_inputs();
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  fails_with(f, "no array for this input, float[N]");
  assert_string_equal(f->d.tensor, "b");
  fixture_end(f);
}

static void an_unknown_array_gets_the_nearest_name(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  add_input(f, "image", FLOAT, "N");
  add_output(f, "logits", FLOAT);
  add_node(f, "Identity", "image", NULL, "logits", 99);
  build(f);
  struct bytes x = npy("<f4", "(6,)", six, 24);
  write_npz(f, "0.npz", "imgae.npy", &x, false);
  fails_with(f, "Did you mean 'image'?");
  assert_string_equal(f->d.tensor, "imgae");
  write_npz(f, "0.npz", "zzzzzzzzzz.npy", &x, false);
  fixture_end(f);
  f = identity_model(FLOAT, "N");
  write_npz(f, "0.npz", "x.npy", &x, false);
  write_npz(f, "0.npz", "label:z.npy", &x, false);
  fails_with(f, "no output of this name");
  fixture_end(f);
}

static void wrong_types_and_shapes_say_both_sides(void **state) {
  (void)state;
  static const struct {
    const char *declared, *descr, *shape, *text;
    int type;
  } cases[] = {
      {"6", "<f8", "(3,)", "wrong type: the model declares float[6] and the sample has double[3]",
       FLOAT},
      {"6", "<f8", "(3,)", "float32", FLOAT},
      {"6", "<i4", "(6,)", "wrong type", FLOAT},
      {"6", "<i4", "(6,)", "float16[6]", FLOAT16},
      {"?,N,2", "<f4", "(6,)", "declares float[?,N,2] and the sample has float[6]", FLOAT},
      {"?,N,2", "<f4", "(2,1,3)", "wrong shape", FLOAT},
      {"", "<f4", "(6,)", "wrong number of dimensions", FLOAT},
      {"7", "<f4", "(6,)", "declares float[7] and the sample has float[6]", FLOAT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture *f = identity_model(cases[i].type, cases[i].declared);
    write_npy(f, "x.npy", cases[i].descr, cases[i].shape, six, 24);
    fails_with(f, cases[i].text);
    assert_string_equal(f->d.tensor, "x");
    fixture_end(f);
  }
}

static void symbolic_dims_must_agree_within_a_sample(void **state) {
  (void)state;
  struct fixture *f = two_inputs();
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "b.npy", "<f4", "(5,)", six, 20);
  fails_with(f, "dimension 'N' is 5 here and 6 in input 'a'");
  fixture_end(f);
}

static void inputs_without_declared_shape_take_any(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, NULL);
  write_npy(f, "x.npy", "<f4", "(1, 2, 3)", six, 24);
  struct sample s = open_only(f);
  assert_int_equal(s.arrays[0].rank, 3);
  sample_free(&s);
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
  assert_non_null(strstr(f->d.message, "no shape"));
  fixture_end(f);
}

// ---- Batches ----

static void a_batch_is_split_to_the_models_fixed_batch(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "1,2");
  struct bytes x = npy("<f4", "(3, 2)", six, 24), one = npy("<f4", "(1, 2)", six, 8);
  struct bytes label = npy("<i4", "(3,)", six, 12);
  write_npz(f, "0.npz", "x.npy", &x, true);
  write_npz(f, "0.npz", "label:y.npy", &label, true);
  write_npz(f, "1.npz", "x.npy", &one, true);
  assert_int_equal(open_at(f, ""), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 4);
  static const char *const labels[] = {"0.npz[0]", "0.npz[1]", "0.npz[2]", "1.npz"};
  for (size_t k = 4; k-- > 0;) {
    struct sample s = read_sample(f, k);
    assert_string_equal(s.label, labels[k]);
    assert_floats(&s.arrays[0], six + (k < 3 ? 2 * k : 0), 2);
    assert_int_equal(s.arrays[0].dims[0], 1);
    if (k < 3)
      assert_memory_equal(s.arrays[1].data, six + k, 4);
    sample_free(&s);
  }
  fixture_end(f);
  f = identity_model(FLOAT, "2,2");
  write_npz(f, "0.npz", "x.npy", &x, true);
  fails_with(f, "3 rows are no multiple of the model's fixed batch 2");
  fixture_end(f);
}

static void a_dynamic_batch_is_taken_as_it_is(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "N,2");
  write_npy(f, "x.npy", "<f4", "(3, 2)", six, 24);
  struct sample s = open_only(f);
  assert_int_equal(s.arrays[0].dims[0], 3);
  sample_free(&s);
  fixture_end(f);
}

static void zero_sized_inputs_are_read(void **state) {
  (void)state;
  struct fixture *f = identity_model(FLOAT, "0,2");
  write_npy(f, "x.npy", "<f4", "(0, 2)", "", 0);
  struct sample s = open_only(f);
  assert_int_equal(s.arrays[0].size, 0);
  sample_free(&s);
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_OK);
  s = read_sample(f, 0);
  assert_int_equal(s.arrays[0].size, 0);
  sample_free(&s);
  fixture_end(f);
}

static void the_digest_follows_the_data_and_not_the_order_of_reading(void **state) {
  (void)state;
  char forward[65], backward[65], other[65];
  struct fixture *f = identity_model(FLOAT, "N");
  write_npy(f, "p.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "q.npy", "<f4", "(5,)", six, 20);
  for (int pass = 0; pass < 3; pass++) {
    if (pass == 2)
      write_npy(f, "q.npy", "<f4", "(5,)", six + 1, 20);
    assert_int_equal(open_at(f, ""), STATUS_OK);
    for (size_t k = 0; k < 2; k++) {
      struct sample s = read_sample(f, pass == 1 ? 1 - k : k);
      sample_free(&s);
    }
    samples_digest(f->samples, pass == 0 ? forward : pass == 1 ? backward : other);
  }
  assert_string_equal(forward, backward);
  assert_string_not_equal(forward, other);
  fixture_end(f);
}

// ---- Made-up data ----

static struct sample random_sample(struct fixture *f, uint64_t seed) {
  samples_close(f->samples);
  enum status status = samples_random(&f->samples, &f->g, seed, 3, &f->arena, &f->d);
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
  assert_true(samples_synthetic(f->samples));
  return read_sample(f, 0);
}

static const struct array *array_of(const struct sample *s, const char *name) {
  for (size_t i = 0; i < s->n_arrays; i++)
    if (strcmp(s->arrays[i].name, name) == 0)
      return &s->arrays[i];
  fail();
  return NULL;
}

static void random_is_the_same_on_every_machine(void **state) {
  (void)state;
  char hex[65];
  struct fixture *f = fixture_new();
  add_input(f, "x", FLOAT, "batch,1000");
  add_input(f, "h", FLOAT16, "3");
  add_input(f, "d", DOUBLE, "3");
  add_input(f, "u", UINT8, "64");
  add_input(f, "b", BOOL, "64");
  add_input(f, "i", INT64, "64");
  add_output(f, "y", FLOAT);
  add_node(f, "Identity", "x", NULL, "y", 99);
  build(f);
  struct sample s = random_sample(f, 7);
  const float *x = array_of(&s, "x")->data;
  double sum = 0, squares = 0;
  for (int i = 0; i < 1000; i++) {
    sum += x[i];
    squares += (double)x[i] * x[i];
    assert_true(x[i] > -6 && x[i] < 6);
  }
  assert_true(sum > -100 && sum < 100 && squares > 850 && squares < 1150);
  float first = x[0];
  sample_free(&s);
  samples_digest(f->samples, hex);
  assert_string_equal(hex, "f860a0c41e920b4706d17b6b8b806d5b81409d6726d17c16153942570c298f6a");
  s = read_sample(f, 1);
  assert_true(*(const float *)array_of(&s, "x")->data != first);
  sample_free(&s);
  s = random_sample(f, 8);
  assert_true(*(const float *)array_of(&s, "x")->data != first);
  sample_free(&s);
  fixture_end(f);
}

static void random_indices_lie_inside_the_table(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  add_input(f, "ids", INT64, "batch,seq");
  add_input(f, "column", INT32, "64");
  add_input(f, "class", INT64, "64");
  add_input(f, "unknown", INT64, "64");
  add_table(f, "big", 37, 4);
  add_table(f, "small", 5, 4);
  add_integer(f, "depth", 9);
  add_table(f, "off_on", 1, 2);
  add_integer(f, "minus_one", -1);
  add_output(f, "y", FLOAT);
  add_node(f, "Unsqueeze", "ids", "minus_one", "column_ids", 99);
  add_node(f, "Gather", "big", "column_ids", "p", 99);
  add_node(f, "Cast", "ids", NULL, "ids32", INT32);
  add_node(f, "Gather", "small", "ids32", "y", 99);
  add_node(f, "Gather", "big", "column", "r", -1);
  add_node(f, "OneHot", "class", "depth", "s", 99);
  build(f);
  bool top = false;
  for (uint64_t seed = 0; seed < 8; seed++) {
    struct sample s = random_sample(f, seed);
    const int64_t *ids = array_of(&s, "ids")->data, *class = array_of(&s, "class")->data,
                  *unknown = array_of(&s, "unknown")->data;
    const int32_t *column = array_of(&s, "column")->data;
    assert_int_equal(array_of(&s, "ids")->dims[0], 1);
    for (int i = 0; i < 8; i++)
      assert_in_range(ids[i], 0, 4);
    for (int i = 0; i < 64; i++) {
      assert_in_range(column[i], 0, 3);
      assert_in_range(class[i], 0, 8);
      assert_in_range(unknown[i], 0, 1);
      top = top || class[i] == 8;
    }
    sample_free(&s);
  }
  assert_true(top);
  fixture_end(f);
}

static void random_scalars_take_what_they_are_compared_with(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  add_input(f, "sr", INT64, "");
  add_input(f, "attention_mask", INT64, "4");
  add_input(f, "shape", INT64, "2");
  add_input(f, "x", FLOAT, "N,6");
  add_integer(f, "rate", 16000);
  add_output(f, "same", BOOL);
  add_output(f, "y", FLOAT);
  add_node(f, "Equal", "sr", "rate", "same", 99);
  add_node(f, "Reshape", "x", "shape", "y", 99);
  build(f);
  struct sample s = random_sample(f, 1);
  assert_int_equal(*(const int64_t *)array_of(&s, "sr")->data, 16000);
  assert_memory_equal(array_of(&s, "attention_mask")->data, ((int64_t[]){1, 1, 1, 1}), 32);
  assert_memory_equal(array_of(&s, "shape")->data, ((int64_t[]){0, -1}), 16);
  sample_free(&s);
  fixture_end(f);
}

static void random_sizes_follow_weights_and_symbolic_names(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  add_input(f, "x", FLOAT, "?,features");
  add_input(f, "image", FLOAT, "?,3,H,W");
  add_input(f, "mask", INT64, "batch,total_seq");
  add_input(f, "past", FLOAT, "2,batch,past_seq,4");
  add_input(f, "ids", INT64, "batch,seq");
  add_input(f, "plus", FLOAT, "past_seq + 1");
  add_table(f, "w", 11, 3);
  add_output(f, "y", FLOAT);
  add_node(f, "MatMul", "x", "w", "y", 99);
  build(f);
  struct sample s = random_sample(f, 1);
  assert_int_equal(array_of(&s, "x")->dims[1], 11);
  assert_int_equal(array_of(&s, "image")->dims[2], 64);
  assert_int_equal(array_of(&s, "past")->dims[1], 1);
  assert_int_equal(array_of(&s, "mask")->dims[1],
                   array_of(&s, "past")->dims[2] + array_of(&s, "ids")->dims[1]);
  assert_int_equal(array_of(&s, "plus")->dims[0], array_of(&s, "past")->dims[2] + 1);
  sample_free(&s);
  fixture_end(f);
}

static void random_refuses_what_cannot_be_made_up(void **state) {
  (void)state;
  struct fixture *f = identity_model(STRING, "2");
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
  assert_string_equal(f->d.tensor, "x");
  fixture_end(f);
  f = identity_model(FLOAT, "1000000,1000000,1000000,1000000");
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
  fixture_end(f);
}

// ---- Real models ----

static void read_all(const char *folder, const struct schema_table *schemas) {
  struct arena arena = {0};
  struct diag d = {0};
  struct model m = {0};
  struct graph g = {0};
  struct samples *samples = NULL;
  struct sample s;
  const char *path = arena_printf(&arena, "%s/model.onnx", folder);
  assert_int_equal(model_load(&m, &arena, path, NULL, &d), STATUS_OK);
  assert_int_equal(graph_build(&g, &m, schemas, &arena, &d), STATUS_OK);
  path = arena_printf(&arena, "%s/test_data_set_0", folder);
  if (access(path, F_OK) == 0) {
    enum status status = samples_open(&samples, &g, folder, &arena, &d);
    for (size_t k = 0; status == STATUS_OK && k < samples_count(samples); k++) {
      status = samples_read(samples, k, &s, &d);
      if (status == STATUS_OK)
        sample_free(&s);
    }
    if (status != STATUS_OK)
      diag_print(&d, stderr);
    assert_int_equal(status, STATUS_OK);
    samples_close(samples);
  }
  enum status status = samples_random(&samples, &g, 1, 1, &arena, &d);
  if (status == STATUS_OK)
    status = samples_read(samples, 0, &s, &d);
  if (status != STATUS_OK)
    diag_print(&d, stderr);
  assert_int_equal(status, STATUS_OK);
  sample_free(&s);
  samples_close(samples);
  model_close(&m);
  arena_free(&arena);
}

static void samples_of_real_models_are_read(void **state) {
  (void)state;
  const char *models = getenv("NARROWCAST_MODELS");
  if (!models)
    skip();
  struct arena arena = {0};
  struct schema_table schemas;
  schema_load(&schemas, &arena);
  DIR *directory = opendir(models);
  assert_non_null(directory);
  for (struct dirent *e; (e = readdir(directory));) {
    const char *folder = arena_printf(&arena, "%s/%s", models, e->d_name);
    if (e->d_name[0] != '.' && access(arena_printf(&arena, "%s/model.onnx", folder), F_OK) == 0)
      read_all(folder, &schemas);
  }
  closedir(directory);
  arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(npy_reads_the_types_of_numpy),
      cmocka_unit_test(npy_reads_versions_two_and_three),
      cmocka_unit_test(npy_swaps_the_other_byte_order),
      cmocka_unit_test(npy_transposes_fortran_order),
      cmocka_unit_test(npy_converts_strings),
      cmocka_unit_test(npy_refuses_what_numpy_would_not_write),
      cmocka_unit_test(npy_cut_anywhere_is_an_error),
      cmocka_unit_test(npz_reads_stored_and_deflated_entries),
      cmocka_unit_test(npz_refuses_bombs_and_damage),
      cmocka_unit_test(npz_with_a_wild_shape_takes_no_memory),
      cmocka_unit_test(safetensors_reads_arrays_by_name),
      cmocka_unit_test(safetensors_refuses_bad_headers),
      cmocka_unit_test(pb_is_for_the_input_it_names_or_else_the_kth_without_initializer),
      cmocka_unit_test(pb_reads_typed_fields_and_strings),
      cmocka_unit_test(pb_refuses_what_is_no_whole_tensor),
      cmocka_unit_test(sequence_inputs_are_refused),
      cmocka_unit_test(order_is_by_name_and_numbers_count_by_value),
      cmocka_unit_test(files_of_one_array_are_a_sample_each_for_a_single_input),
      cmocka_unit_test(nothing_found_says_what_is_looked_for),
      cmocka_unit_test(a_missing_input_is_named),
      cmocka_unit_test(an_unknown_array_gets_the_nearest_name),
      cmocka_unit_test(wrong_types_and_shapes_say_both_sides),
      cmocka_unit_test(symbolic_dims_must_agree_within_a_sample),
      cmocka_unit_test(inputs_without_declared_shape_take_any),
      cmocka_unit_test(a_batch_is_split_to_the_models_fixed_batch),
      cmocka_unit_test(a_dynamic_batch_is_taken_as_it_is),
      cmocka_unit_test(zero_sized_inputs_are_read),
      cmocka_unit_test(the_digest_follows_the_data_and_not_the_order_of_reading),
      cmocka_unit_test(random_is_the_same_on_every_machine),
      cmocka_unit_test(random_indices_lie_inside_the_table),
      cmocka_unit_test(random_scalars_take_what_they_are_compared_with),
      cmocka_unit_test(random_sizes_follow_weights_and_symbolic_names),
      cmocka_unit_test(random_refuses_what_cannot_be_made_up),
      cmocka_unit_test(samples_of_real_models_are_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
