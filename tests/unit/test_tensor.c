// Reading tensors: every element type from raw_data and from its typed field, the sizes of types
// narrower than a byte, and what is refused.
#include "tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka wants the three above first
#include <cmocka.h>

#define TYPE(name) ONNX__TENSOR_PROTO__DATA_TYPE__##name

static struct arena arena;
static struct diag d;
static struct tensor out;

static int teardown(void **state) {
  (void)state;
  arena_free(&arena);
  return 0;
}

static Onnx__TensorProto make(int type, size_t rank, int64_t *dims) {
  Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
  char *name = arena_strdup(&arena, "w");
  t.name = name;
  t.has_data_type = true;
  t.data_type = type;
  t.n_dims = rank;
  t.dims = dims;
  return t;
}

static void set_raw(Onnx__TensorProto *t, const void *data, size_t size) {
  t->has_raw_data = true;
  t->raw_data.data = memcpy(arena_alloc(&arena, size), data, size);
  t->raw_data.len = size;
}

static enum status read(const Onnx__TensorProto *t) {
  diag_clear(&d);
  return tensor_read(NULL, t, &arena, &out, &d);
}

static void refuses(const Onnx__TensorProto *t, const char *message) {
  assert_int_equal(read(t), STATUS_MODEL);
  assert_string_equal(d.tensor, "w");
  if (!strstr(d.message, message))
    fail_msg("'%s' is not in '%s'", message, d.message);
}

// Reads t and compares its values as floats.
static void reads(const Onnx__TensorProto *t, const float *expected, size_t count) {
  if (read(t) != STATUS_OK)
    fail_msg("%s", d.message);
  assert_int_equal(out.count, count);
  float values[16];
  assert_true(tensor_to_float(&out, values));
  for (size_t i = 0; i < count; i++)
    if (!(isnan(expected[i]) ? isnan(values[i]) : values[i] == expected[i]))
      fail_msg("%s [%zu]: %g, not %g", tensor_type_name(t->data_type), i, (double)values[i],
               (double)expected[i]);
}

static void tensor_knows_every_element_type(void **state) {
  (void)state;
  const unsigned bits[] = {0,   32, 8, 8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64, 64,
                           128, 16, 8, 8, 8,  8,  4,  4,  4, 8, 2,  2,  6,  6};
  for (int type = 0; type < 29; type++) {
    assert_int_equal(tensor_element_bits(type), bits[type]);
    assert_int_equal(strcmp(tensor_type_name(type), "undefined") == 0, type == 0);
  }
  assert_int_equal(tensor_element_bits(29), 0);
  assert_int_equal(tensor_element_bits(-1), 0);
  assert_string_equal(tensor_type_name(99), "undefined");
  assert_string_equal(tensor_type_name(TYPE(BFLOAT16)), "bfloat16");
  assert_true(tensor_is_float(TYPE(DOUBLE)));
  assert_false(tensor_is_float(TYPE(FLOAT8E5M2)));
}

// Row: a type, its bytes as raw_data, the same in int32_data (or none), the values.
static void tensor_reads_narrow_types_alike_from_both_fields(void **state) {
  (void)state;
  const struct {
    int type;
    int64_t count;
    size_t size;
    uint8_t raw[8];
    size_t n_entries;
    int32_t entries[4];
    float values[8];
  } rows[] = {
      {TYPE(FLOAT16),
       3,
       6,
       {0, 0x3c, 0, 0x7c, 1, 0x80},
       3,
       {0x3c00, 0x7c00, 0x8001},
       {1, INFINITY, -0x1p-24f}},
      {TYPE(BFLOAT16), 2, 4, {0x80, 0x3f, 0xc0, 0x7f}, 2, {0x3f80, 0x7fc0}, {1, NAN}},
      {TYPE(INT8), 2, 2, {0x7f, 0xff}, 2, {127, -1}, {127, -1}},
      {TYPE(UINT8), 2, 2, {0, 0xff}, 2, {0, 255}, {0, 255}},
      {TYPE(INT16), 2, 4, {0, 0x80, 1, 0}, 2, {-32768, 1}, {-32768, 1}},
      {TYPE(UINT16), 1, 2, {0xff, 0xff}, 1, {65535}, {65535}},
      {TYPE(INT32), 1, 4, {0xfe, 0xff, 0xff, 0xff}, 1, {-2}, {-2}},
      {TYPE(BOOL), 2, 2, {1, 0}, 2, {1, 0}, {1, 0}},
      {TYPE(INT4), 3, 2, {0x81, 0x07}, 2, {0x81, 7}, {1, -8, 7}},
      {TYPE(UINT4), 3, 2, {0x81, 0x0f}, 2, {0x81, 15}, {1, 8, 15}},
      {TYPE(INT2), 5, 2, {0xe4, 0x02}, 2, {0xe4, 2}, {0, 1, -2, -1, -2}},
      {TYPE(UINT2), 5, 2, {0xe4, 0x02}, 2, {0xe4, 2}, {0, 1, 2, 3, 2}},
      {TYPE(FLOAT4E2M1), 3, 2, {0xf1, 0x02}, 2, {0xf1, 2}, {0.5f, -6, 1}},
      {TYPE(FLOAT8E4M3FN), 2, 2, {0x7e, 0x7f}, 2, {0x7e, 0x7f}, {448, NAN}},
      {TYPE(FLOAT8E4M3FNUZ), 2, 2, {0x7f, 0x80}, 2, {0x7f, 0x80}, {240, NAN}},
      {TYPE(FLOAT8E5M2), 2, 2, {0x7b, 0xfc}, 2, {0x7b, 0xfc}, {57344, -INFINITY}},
      {TYPE(FLOAT8E5M2FNUZ), 2, 2, {0x7f, 0x80}, 2, {0x7f, 0x80}, {57344, NAN}},
      {TYPE(FLOAT8E8M0), 3, 3, {127, 0, 255}, 3, {127, 0, 255}, {1, 0x1p-127f, NAN}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t dims[] = {rows[i].count};
    Onnx__TensorProto t = make(rows[i].type, 1, dims);
    set_raw(&t, rows[i].raw, rows[i].size);
    reads(&t, rows[i].values, (size_t)rows[i].count);
    t.has_raw_data = false;
    t.n_int32_data = rows[i].n_entries;
    t.int32_data = memcpy(arena_alloc(&arena, 16), rows[i].entries, 16);
    reads(&t, rows[i].values, (size_t)rows[i].count);
    assert_int_equal(out.size, rows[i].size);
    assert_memory_equal(out.data, rows[i].raw, rows[i].size);
  }
}

static void tensor_reads_wide_types_from_their_fields(void **state) {
  (void)state;
  int64_t dims[] = {2};
  float floats[] = {1.5f, -2, 3, 4};
  double doubles[] = {0.1, -1e300};
  int64_t int64s[] = {INT64_MIN, 16777217};
  uint64_t uint64s[] = {UINT32_MAX, 7};
  Onnx__TensorProto t = make(TYPE(FLOAT), 1, dims);
  t.n_float_data = 2;
  t.float_data = floats;
  reads(&t, floats, 2);
  t = make(TYPE(DOUBLE), 1, dims);
  t.n_double_data = 2;
  t.double_data = doubles;
  reads(&t, (const float[]){0.1f, -INFINITY}, 2);
  t = make(TYPE(INT64), 1, dims);
  t.n_int64_data = 2;
  t.int64_data = int64s;
  reads(&t, (const float[]){-0x1p63f, 16777216}, 2);
  t = make(TYPE(UINT64), 1, dims);
  t.n_uint64_data = 2;
  t.uint64_data = uint64s;
  reads(&t, (const float[]){0x1p32f, 7}, 2);
  t.data_type = TYPE(UINT32);
  reads(&t, (const float[]){0x1p32f, 7}, 2);
  assert_int_equal(out.size, 8);
  t = make(TYPE(COMPLEX64), 1, dims);
  t.n_float_data = 4;
  t.float_data = floats;
  assert_int_equal(read(&t), STATUS_OK);
  assert_int_equal(out.size, 16);
  assert_false(tensor_to_float(&out, floats));
}

static void tensor_keeps_rank_0_and_zero_size(void **state) {
  (void)state;
  float seven = 7;
  Onnx__TensorProto t = make(TYPE(FLOAT), 0, NULL);
  t.n_float_data = 1;
  t.float_data = &seven;
  reads(&t, &seven, 1);
  assert_int_equal(out.rank, 0);
  int64_t dims[] = {INT64_MAX, 0, INT64_MAX};
  t = make(TYPE(FLOAT16), 3, dims);
  reads(&t, NULL, 0);
  assert_int_equal(out.size, 0);
  assert_non_null(out.data);
  set_raw(&t, "", 0);
  reads(&t, NULL, 0);
}

static void tensor_reads_strings_without_data(void **state) {
  (void)state;
  int64_t dims[] = {2};
  ProtobufCBinaryData strings[] = {{1, (uint8_t *)(uintptr_t) "a"}, {0, NULL}};
  Onnx__TensorProto t = make(TYPE(STRING), 1, dims);
  t.n_string_data = 2;
  t.string_data = strings;
  assert_int_equal(read(&t), STATUS_OK);
  assert_null(out.data);
  assert_false(tensor_to_float(&out, NULL));
  t.n_string_data = 1;
  refuses(&t, "1 entries in string_data; its type and shape ask for 2");
  t.n_string_data = 0;
  set_raw(&t, "ab", 2);
  refuses(&t, "strings, which raw_data cannot hold");
}

static void tensor_refuses_bad_shapes(void **state) {
  (void)state;
  int64_t negative[] = {-1}, huge[] = {(int64_t)1 << 40, (int64_t)1 << 40},
          wraps[] = {(int64_t)1 << 32, (int64_t)1 << 32}, bytes[] = {(int64_t)1 << 61};
  Onnx__TensorProto t = make(TYPE(FLOAT), 1, negative);
  refuses(&t, "negative dimension");
  t = make(TYPE(FLOAT), 2, huge);
  refuses(&t, "overflows");
  t = make(TYPE(FLOAT), 2, wraps);
  refuses(&t, "overflows");
  t = make(TYPE(DOUBLE), 1, bytes);
  refuses(&t, "overflows");
}

static void tensor_refuses_data_that_does_not_fit(void **state) {
  (void)state;
  int64_t dims[] = {2};
  float floats[] = {1, 2, 3};
  Onnx__TensorProto t = make(TYPE(FLOAT), 1, dims);
  refuses(&t, "has no data");
  set_raw(&t, floats, 12);
  refuses(&t, "12 bytes of raw_data");
  set_raw(&t, floats, 7);
  refuses(&t, "7 bytes of raw_data");
  set_raw(&t, floats, 8);
  t.n_float_data = 2;
  t.float_data = floats;
  refuses(&t, "both float_data and raw_data");
  t.has_raw_data = false;
  t.n_float_data = 3;
  refuses(&t, "3 entries in float_data; its type and shape ask for 2");
  t.data_type = TYPE(INT32);
  refuses(&t, "its data is in float_data");
  t.data_type = 99;
  refuses(&t, "unknown element type (99)");
  t.data_type = TYPE(UNDEFINED);
  refuses(&t, "unknown element type (0)");
  Onnx__TensorProto__Segment segment = ONNX__TENSOR_PROTO__SEGMENT__INIT;
  t.data_type = TYPE(FLOAT);
  t.segment = &segment;
  refuses(&t, "segment");
}

static void tensor_refuses_entries_beyond_their_type(void **state) {
  (void)state;
  int64_t dims[] = {1};
  int32_t entry = 256;
  uint64_t large = (uint64_t)1 << 32;
  Onnx__TensorProto t = make(TYPE(UINT8), 1, dims);
  t.n_int32_data = 1;
  t.int32_data = &entry;
  refuses(&t, "is 256, too large for uint8");
  entry = -129;
  refuses(&t, "is -129");
  entry = 65536;
  t.data_type = TYPE(FLOAT16);
  refuses(&t, "is 65536");
  t = make(TYPE(UINT32), 1, dims);
  t.n_uint64_data = 1;
  t.uint64_data = &large;
  refuses(&t, "too large for uint32");
}

static void tensor_reads_unaligned_data(void **state) {
  (void)state;
  uint8_t room[17];
  const float expected[] = {1.25f, -3};
  memcpy(room + 1, expected, 8);
  int64_t dims[] = {2};
  Onnx__TensorProto t = make(TYPE(FLOAT), 1, dims);
  t.has_raw_data = true;
  t.raw_data.data = room + 1;
  t.raw_data.len = 8;
  reads(&t, expected, 2);
  const double doubles[] = {1.25, -3};
  memcpy(room + 1, doubles, 16);
  t.data_type = TYPE(DOUBLE);
  t.raw_data.len = 16;
  reads(&t, expected, 2);
}

static void tensor_new_refers_to_its_data(void **state) {
  (void)state;
  const float values[] = {1, 2, 3};
  const int64_t dims[] = {1, 3};
  Onnx__TensorProto *t =
      tensor_new(&arena, "w", TYPE(FLOAT), 2, dims, (const uint8_t *)values, sizeof values);
  assert_ptr_equal(t->raw_data.data, values);
  reads(t, values, 3);
  assert_string_equal(out.name, "w");
  assert_null(tensor_new(&arena, NULL, TYPE(FLOAT), 0, NULL, NULL, 0)->name);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensor_knows_every_element_type),
      cmocka_unit_test(tensor_reads_narrow_types_alike_from_both_fields),
      cmocka_unit_test(tensor_reads_wide_types_from_their_fields),
      cmocka_unit_test(tensor_keeps_rank_0_and_zero_size),
      cmocka_unit_test(tensor_reads_strings_without_data),
      cmocka_unit_test(tensor_refuses_bad_shapes),
      cmocka_unit_test(tensor_refuses_data_that_does_not_fit),
      cmocka_unit_test(tensor_refuses_entries_beyond_their_type),
      cmocka_unit_test(tensor_reads_unaligned_data),
      cmocka_unit_test(tensor_new_refers_to_its_data),
  };
  return cmocka_run_group_tests(tests, NULL, teardown);
}
