// The file formats of samples: what is read, and how damaged and hostile files are refused.
#include "support_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

// ---- .npy ----

static void npy_reads_the_types_of_numpy(void **state) {
  (void)state;
  static const struct {
    const char *descr, *declared;
    int type;
    size_t item;
  } cases[] = {
      {"<f4", "float[2]", 1, 4},   {"<f8", "double[2]", 11, 8}, {"<f2", "float16[2]", 10, 2},
      {"|i1", "int8[2]", 3, 1},    {"<i2", "int16[2]", 5, 2},   {"<i4", "int32[2]", 6, 4},
      {"<i8", "int64[2]", 7, 8},   {"|u1", "uint8[2]", 2, 1},   {"<u2", "uint16[2]", 4, 2},
      {"<u4", "uint32[2]", 12, 4}, {"<u8", "uint64[2]", 13, 8}, {"|b1", "bool[2]", 9, 1},
      {"=f4", "float[2]", 1, 4}};
  static const uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture *f = identity_model(cases[i].declared);
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
    struct fixture *f = identity_model("float[6]");
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
  struct fixture *f = identity_model("float[2]");
  static const uint8_t big[8] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0};
  write_npy(f, "x.npy", ">f4", "(2,)", big, 8);
  struct sample s = open_only(f);
  assert_floats(&s.arrays[0], six, 2);
  sample_free(&s);
  fixture_end(f);
}

static void npy_transposes_fortran_order(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[2,3]");
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
  struct fixture *f = identity_model("string[2]");
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
  struct fixture *f = identity_model("float[6]");
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
  struct fixture *f = identity_model("float[6]");
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  every_truncation_fails(f, "x.npy");
  fixture_end(f);
}

// ---- .npz ----

static void npz_reads_stored_and_deflated_entries(void **state) {
  (void)state;
  for (int deflate = 0; deflate < 2; deflate++) {
    struct fixture *f = identity_model("float[N]");
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
  struct fixture *f = identity_model("float[6]");
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
  f = identity_model("float[6]");
  write_npz(f, "0.npz", "x.npy", &x, false);
  patch_zip(f, "PK\1\2", 16, 1);
  fails_with(f, "CRC");
  fixture_end(f);
  f = identity_model("float[6]");
  write_npz(f, "0.npz", "x.txt", &x, false);
  fails_with(f, "no .npy array");
  fixture_end(f);
}

static void npz_is_checked_as_a_whole_before_any_entry_is_unpacked(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[6]");
  struct bytes x = npy("<f4", "(6,)", six, 24);
  write_npz(f, "0.npz", "x.npy", &x, false);
  patch_zip(f, "PK\1\2", 16, 1);
  fails_with(f, "CRC");
  write_npz(f, "0.npz", "z.txt", &x, false);
  fails_with(f, "no .npy array");
  fixture_end(f);
}

static void npz_with_a_wild_shape_takes_no_memory(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[6]");
  struct bytes x = npy("<f4", "(500000000,)", six, 24);
  write_npz(f, "0.npz", "x.npy", &x, true);
  fails_with(f, "says 2000000000 bytes");
  fixture_end(f);
}

// ---- .safetensors ----

static void safetensors_reads_arrays_by_name(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[2,3]");
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
  struct fixture *f = identity_model("float[6]");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_safetensors(f, "a.safetensors", cases[i][0], six, 24);
    fails_with(f, cases[i][1]);
  }
  write_bytes(f, "a.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  fails_with(f, "claims");
  fixture_end(f);
}

// ---- .pb ----

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
  struct fixture *f = identity_model("int64[2]");
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
  f = identity_model("string[2]");
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
  struct fixture *f = identity_model("float[6]");
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

static void inputs_that_are_no_tensors_are_refused(void **state) {
  (void)state;
  const struct {
    const char *type, *op, *says;
  } rows[] = {{"seq(float)", "SequenceLength", "takes a sequence here"},
              {"optional(float)", "OptionalHasElement", "takes an optional here"},
              {"map(int64,float)", "ai.onnx.ml.CastMap", "takes a map here"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture *f = fixture_new();
    build_opset(&f->b, "ai.onnx.ml", 3);
    build_input(&f->b, "s", rows[i].type);
    build_output(&f->b, "n", "");
    build_node(&f->b, rows[i].op, "s", "n");
    fixture_build(f);
    write_pb(f, "input_0.pb", NULL, FLOAT, 6, six, 24);
    fails_with(f, rows[i].says);
    assert_string_equal(f->d.tensor, "s");
    assert_non_null(strstr(f->d.hint, "Cut the model behind"));
    diag_clear(&f->d);
    assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
    fixture_end(f);
  }
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
      cmocka_unit_test(npz_is_checked_as_a_whole_before_any_entry_is_unpacked),
      cmocka_unit_test(npz_with_a_wild_shape_takes_no_memory),
      cmocka_unit_test(safetensors_reads_arrays_by_name),
      cmocka_unit_test(safetensors_refuses_bad_headers),
      cmocka_unit_test(pb_is_for_the_input_it_names_or_else_the_kth_without_initializer),
      cmocka_unit_test(pb_reads_typed_fields_and_strings),
      cmocka_unit_test(pb_refuses_what_is_no_whole_tensor),
      cmocka_unit_test(inputs_that_are_no_tensors_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
