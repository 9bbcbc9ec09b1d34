// The table of number formats. A new format is a row here, its aliases below and nothing else:
// rounding, thresholds and ONNX types are all derived from the row.
#include "format.h"

#include "json.h"
#include "nearest.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

// Hexadecimal constants, since each is exact: max is (2 - 2^-M) * 2^max_exponent, less where the
// top codes are NaN.
const struct format formats[FORMAT_COUNT] = {
    [FORMAT_FP64] = {.id = FORMAT_FP64,
                     .name = "fp64",
                     .bits = 64,
                     .stored_bits = 64,
                     .exponent_bits = 11,
                     .mantissa_bits = 52,
                     .bias = 1023,
                     .max_exponent = 1023,
                     .min_exponent = -1022,
                     .max = 0x1.fffffffffffffp1023,
                     .tiny = 0x1p-1022,
                     .min_subnormal = 0x1p-1074,
                     .eps = 0x1p-52,
                     .has_inf = true,
                     .has_nan = true,
                     .onnx_type = 11,
                     .saturation = FORMAT_NEVER_SATURATES},
    [FORMAT_FP32] = {.id = FORMAT_FP32,
                     .name = "fp32",
                     .bits = 32,
                     .stored_bits = 32,
                     .exponent_bits = 8,
                     .mantissa_bits = 23,
                     .bias = 127,
                     .max_exponent = 127,
                     .min_exponent = -126,
                     .max = 0x1.fffffep127,
                     .tiny = 0x1p-126,
                     .min_subnormal = 0x1p-149,
                     .eps = 0x1p-23,
                     .has_inf = true,
                     .has_nan = true,
                     .onnx_type = 1,
                     .max_code = 0x7f7fffff,
                     .inf_code = 0x7f800000,
                     .nan_code = 0x7fc00000,
                     .saturation = FORMAT_NEVER_SATURATES},
    [FORMAT_TF32] = {.id = FORMAT_TF32,
                     .name = "tf32",
                     .bits = 19,
                     .stored_bits = 32,
                     .exponent_bits = 8,
                     .mantissa_bits = 10,
                     .bias = 127,
                     .max_exponent = 127,
                     .min_exponent = -126,
                     .max = 0x1.ffcp127,
                     .tiny = 0x1p-126,
                     .min_subnormal = 0x1p-136,
                     .eps = 0x1p-10,
                     .has_inf = true,
                     .has_nan = true,
                     .onnx_type = 0,
                     .max_code = 0x3fbff,
                     .inf_code = 0x3fc00,
                     .nan_code = 0x3fe00,
                     .saturation = FORMAT_NEVER_SATURATES},
    [FORMAT_BF16] = {.id = FORMAT_BF16,
                     .name = "bf16",
                     .bits = 16,
                     .stored_bits = 16,
                     .exponent_bits = 8,
                     .mantissa_bits = 7,
                     .bias = 127,
                     .max_exponent = 127,
                     .min_exponent = -126,
                     .max = 0x1.fep127,
                     .tiny = 0x1p-126,
                     .min_subnormal = 0x1p-133,
                     .eps = 0x1p-7,
                     .has_inf = true,
                     .has_nan = true,
                     .onnx_type = 16,
                     .max_code = 0x7f7f,
                     .inf_code = 0x7f80,
                     .nan_code = 0x7fc0,
                     .saturation = FORMAT_NEVER_SATURATES},
    [FORMAT_FP16] = {.id = FORMAT_FP16,
                     .name = "fp16",
                     .bits = 16,
                     .stored_bits = 16,
                     .exponent_bits = 5,
                     .mantissa_bits = 10,
                     .bias = 15,
                     .max_exponent = 15,
                     .min_exponent = -14,
                     .max = 65504,
                     .tiny = 0x1p-14,
                     .min_subnormal = 0x1p-24,
                     .eps = 0x1p-10,
                     .has_inf = true,
                     .has_nan = true,
                     .onnx_type = 10,
                     .max_code = 0x7bff,
                     .inf_code = 0x7c00,
                     .nan_code = 0x7e00,
                     .saturation = FORMAT_NEVER_SATURATES},
    [FORMAT_FP8E4M3FN] = {.id = FORMAT_FP8E4M3FN,
                          .name = "fp8e4m3fn",
                          .bits = 8,
                          .stored_bits = 8,
                          .exponent_bits = 4,
                          .mantissa_bits = 3,
                          .bias = 7,
                          .max_exponent = 8,
                          .min_exponent = -6,
                          .max = 448,
                          .tiny = 0x1p-6,
                          .min_subnormal = 0x1p-9,
                          .eps = 0x1p-3,
                          .has_nan = true,
                          .onnx_type = 17,
                          .max_code = 0x7e,
                          .nan_code = 0x7f,
                          .saturation = FORMAT_SATURATES_IF_ASKED},
    [FORMAT_FP8E4M3FNUZ] = {.id = FORMAT_FP8E4M3FNUZ,
                            .name = "fp8e4m3fnuz",
                            .bits = 8,
                            .stored_bits = 8,
                            .exponent_bits = 4,
                            .mantissa_bits = 3,
                            .bias = 8,
                            .max_exponent = 7,
                            .min_exponent = -7,
                            .max = 240,
                            .tiny = 0x1p-7,
                            .min_subnormal = 0x1p-10,
                            .eps = 0x1p-3,
                            .has_nan = true,
                            .one_zero = true,
                            .onnx_type = 18,
                            .max_code = 0x7f,
                            .nan_code = 0x80,
                            .saturation = FORMAT_SATURATES_IF_ASKED},
    [FORMAT_FP8E5M2] = {.id = FORMAT_FP8E5M2,
                        .name = "fp8e5m2",
                        .bits = 8,
                        .stored_bits = 8,
                        .exponent_bits = 5,
                        .mantissa_bits = 2,
                        .bias = 15,
                        .max_exponent = 15,
                        .min_exponent = -14,
                        .max = 57344,
                        .tiny = 0x1p-14,
                        .min_subnormal = 0x1p-16,
                        .eps = 0x1p-2,
                        .has_inf = true,
                        .has_nan = true,
                        .onnx_type = 19,
                        .max_code = 0x7b,
                        .inf_code = 0x7c,
                        .nan_code = 0x7f,
                        .saturation = FORMAT_SATURATES_IF_ASKED},
    [FORMAT_FP8E5M2FNUZ] = {.id = FORMAT_FP8E5M2FNUZ,
                            .name = "fp8e5m2fnuz",
                            .bits = 8,
                            .stored_bits = 8,
                            .exponent_bits = 5,
                            .mantissa_bits = 2,
                            .bias = 16,
                            .max_exponent = 15,
                            .min_exponent = -15,
                            .max = 57344,
                            .tiny = 0x1p-15,
                            .min_subnormal = 0x1p-17,
                            .eps = 0x1p-2,
                            .has_nan = true,
                            .one_zero = true,
                            .onnx_type = 20,
                            .max_code = 0x7f,
                            .nan_code = 0x80,
                            .saturation = FORMAT_SATURATES_IF_ASKED},
    [FORMAT_FP4E2M1] = {.id = FORMAT_FP4E2M1,
                        .name = "fp4e2m1",
                        .bits = 4,
                        .stored_bits = 4,
                        .exponent_bits = 2,
                        .mantissa_bits = 1,
                        .bias = 1,
                        .max_exponent = 2,
                        .min_exponent = 0,
                        .max = 6,
                        .tiny = 1,
                        .min_subnormal = 0.5,
                        .eps = 0.5,
                        .onnx_type = 23,
                        .max_code = 0x7,
                        .saturation = FORMAT_ALWAYS_SATURATES},
};
static_assert(FORMAT_COUNT == 10, "a new format needs its row above and its aliases below");

// Other spellings, in the normal form that name_equals compares in.
static const struct {
  const char *name;
  enum format_id id;
} aliases[] = {
    {"double", FORMAT_FP64},
    {"float64", FORMAT_FP64},
    {"f64", FORMAT_FP64},
    {"float", FORMAT_FP32},
    {"float32", FORMAT_FP32},
    {"single", FORMAT_FP32},
    {"f32", FORMAT_FP32},
    {"tensorfloat32", FORMAT_TF32},
    {"bfloat16", FORMAT_BF16},
    {"float16", FORMAT_FP16},
    {"half", FORMAT_FP16},
    {"f16", FORMAT_FP16},
    {"float8e4m3fn", FORMAT_FP8E4M3FN},
    {"float8e4m3", FORMAT_FP8E4M3FN},
    {"fp8e4m3", FORMAT_FP8E4M3FN},
    {"e4m3fn", FORMAT_FP8E4M3FN},
    {"e4m3", FORMAT_FP8E4M3FN},
    {"float8e4m3fnuz", FORMAT_FP8E4M3FNUZ},
    {"e4m3fnuz", FORMAT_FP8E4M3FNUZ},
    {"float8e5m2", FORMAT_FP8E5M2},
    {"e5m2", FORMAT_FP8E5M2},
    {"float8e5m2fnuz", FORMAT_FP8E5M2FNUZ},
    {"e5m2fnuz", FORMAT_FP8E5M2FNUZ},
    {"float4e2m1", FORMAT_FP4E2M1},
    {"float4e2m1fn", FORMAT_FP4E2M1},
    {"float4e2m1fnx2", FORMAT_FP4E2M1},
    {"fp4", FORMAT_FP4E2M1},
    {"e2m1", FORMAT_FP4E2M1},
};

static bool is_separator(char c) {
  return c == '_' || c == '-' || c == '.';
}

// Whether `given` spells `wanted`, which is in lower case and without separators.
static bool name_equals(const char *given, const char *wanted) {
  for (; *given != '\0'; given++) {
    if (is_separator(*given)) {
      continue;
    }
    if (tolower((unsigned char)*given) != *wanted) {
      return false;
    }
    wanted++;
  }
  return *wanted == '\0';
}

const struct format *format_find(const char *name) {
  if (name == NULL) {
    return NULL;
  }
  for (size_t i = 0; i < FORMAT_COUNT; i++) {
    if (name_equals(name, formats[i].name)) {
      return &formats[i];
    }
  }
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    if (name_equals(name, aliases[i].name)) {
      return &formats[aliases[i].id];
    }
  }
  return NULL;
}

const char *format_near(const char *name) {
  const char *names[FORMAT_COUNT + 1] = {NULL};
  size_t length = strlen(name);
  for (size_t i = 0; i < FORMAT_COUNT; i++) {
    names[i] = formats[i].name;
    if (length > 0 && strncmp(names[i], name, length) == 0) {
      return names[i];
    }
  }
  return nearest_name(name, names);
}

const struct format *format_from_onnx(int elem_type) {
  if (elem_type == 0) {  // UNDEFINED, which is also what tf32 has
    return NULL;
  }
  for (size_t i = 0; i < FORMAT_COUNT; i++) {
    if (formats[i].onnx_type == elem_type) {
      return &formats[i];
    }
  }
  return NULL;
}

uint64_t format_bytes(const struct format *f, uint64_t n) {
  if (f->stored_bits < 8) {
    uint64_t per_byte = 8 / (uint64_t)f->stored_bits;
    return n / per_byte + (n % per_byte != 0);
  }
  return n * ((uint64_t)f->stored_bits / 8);
}

double format_ulp(const struct format *f, double x) {
  if (!isfinite(x)) {
    return NAN;
  }
  int exponent = f->min_exponent;
  if (x != 0 && ilogb(x) > exponent) {
    exponent = ilogb(x);
  }
  return ldexp(1, exponent - f->mantissa_bits);
}

double format_cliff(const struct format *f, bool ftz) {
  // In fp64 the half is 0, and both results are right as they stand.
  double half = f->min_subnormal / 2;
  return ftz ? nextafter(f->tiny - half, 0) : half;
}

double format_overflow(const struct format *f) {
  double step = format_ulp(f, f->max);
  double midpoint = f->max + step / 2;
  bool max_is_even = fmod(f->max / step, 2) == 0;
  return max_is_even ? nextafter(midpoint, INFINITY) : midpoint;
}
