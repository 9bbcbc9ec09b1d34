// Rounding: the reference against vectors made with rational arithmetic, the kernels against the
// reference, fp16 against the compiler, and the worked values of the design.
//
// With NARROWCAST_WHOLE=1 in the environment, fp16 and bf16 are compared over all 2^32 floats.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format.h"
#include "round.h"
#include "support_numbers.h"

#if defined(__FLT16_MAX__)
__extension__ typedef _Float16 compiler_fp16;
#endif

static const struct format *fp16 = &formats[FORMAT_FP16];
static const struct format *bf16 = &formats[FORMAT_BF16];
static const struct format *fp4 = &formats[FORMAT_FP4E2M1];

// ---- Help ----

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static bool same(float a, float b) {
  return isnan(a) ? isnan(b) : bits_of(a) == bits_of(b);
}

static bool is_nan_code(const struct format *f, uint32_t code) {
  return isnan(round_decode(f, code));
}

static bool same_code(const struct format *f, uint32_t a, uint32_t b) {
  return a == b || (is_nan_code(f, a) && is_nan_code(f, b));
}

static void assert_float(float got, double want) {
  if ((double)got != want) {
    fail_msg("%a is not %a", (double)got, want);
  }
}

static bool whole(void) {
  const char *asked = getenv("NARROWCAST_WHOLE");
  return asked != NULL && strcmp(asked, "1") == 0;
}

// xorshift32: the same inputs on every run.
static uint32_t random_bits(uint32_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed;
}

// Element i of an array of codes, as the layout is documented.
static uint32_t read_code(const struct format *f, const unsigned char *codes, size_t i) {
  if (f->bits == 4) {
    return i % 2 == 0 ? codes[i / 2] & 0xfU : (uint32_t)codes[i / 2] >> 4;
  }
  size_t bytes = f->bits <= 8 ? 1 : f->bits <= 16 ? 2 : 4;
  uint32_t code = 0;
  for (size_t b = bytes; b-- > 0;) {
    code = code << 8 | codes[i * bytes + b];
  }
  return code;
}

enum { MANY = 4096 };

// The kernels on n values, at most MANY, must do what the reference does.
static void check_kernels(const struct round_mode *mode, const float *x, size_t n) {
  const struct format *f = mode->format;
  float y[MANY];
  float decoded[MANY];
  unsigned char codes[4 * MANY + 1];
  round_array(mode, x, y, n);
  round_encode_array(mode, x, codes + 1, n);
  round_decode_array(f, codes + 1, decoded, n);
  for (size_t i = 0; i < n; i++) {
    float scaled = x[i] * ldexpf(1, mode->scale_log2);
    uint32_t code = round_encode(f, scaled, mode->saturate, mode->ftz);
    float value = round_decode(f, code);
    float back = value * ldexpf(1, -mode->scale_log2);
    uint32_t got = read_code(f, codes + 1, i);
    if (!same(y[i], back) || !same_code(f, got, code) || !same(decoded[i], value)) {
      fail_msg("%s saturate %d ftz %d scale %d: %a gives %a, code %x, %a; not %a, %x, %a", f->name,
               mode->saturate, mode->ftz, mode->scale_log2, (double)x[i], (double)y[i], got,
               (double)decoded[i], (double)back, code, (double)value);
    }
  }
}

static void check_kernels_in_every_mode(const struct format *f, int scale_log2, const float *x,
                                        size_t n) {
  for (int flags = 0; flags < 4; flags++) {
    struct round_mode mode = {f, (flags & 1) != 0, (flags & 2) != 0, scale_log2};
    check_kernels(&mode, x, n);
  }
}

// ---- Vectors ----

static FILE *open_vectors(const char *kind, const struct format *f) {
  char path[4096];
  snprintf(path, sizeof path, "%s/vectors/%s_%s.tsv", TESTS_DIR, kind, f->name);
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    fail_msg("cannot open %s", path);
  }
  int c;
  while ((c = getc(file)) != '\n' && c != EOF) {
  }
  return file;
}

struct vector {
  float x;
  unsigned saturate;
  unsigned ftz;
  uint32_t code;
};

static bool next_vector(FILE *file, struct vector *v) {
  uint32_t bits;
  if (fscanf(file, "%x %u %u %x", &bits, &v->saturate, &v->ftz, &v->code) != 4) {
    return false;
  }
  v->x = float_of(bits);
  return true;
}

// Calls check on every vector of every format that has some: all but fp64 and fp32.
static void for_every_vector(void (*check)(const struct format *, const struct vector *)) {
  for (int i = FORMAT_TF32; i < FORMAT_COUNT; i++) {
    FILE *file = open_vectors("round", &formats[i]);
    struct vector v;
    int count = 0;
    for (; next_vector(file, &v); count++) {
      check(&formats[i], &v);
    }
    fclose(file);
    assert_true(count > 1000);
  }
}

static void check_reference(const struct format *f, const struct vector *v) {
  uint32_t code = round_encode(f, v->x, v->saturate != 0, v->ftz != 0);
  float value = rounded_to(f, v->x, v->saturate != 0, v->ftz != 0);
  if (!same_code(f, code, v->code) || !same(value, round_decode(f, v->code))) {
    fail_msg("%s: %a gives code %x, not %x", f->name, (double)v->x, code, v->code);
  }
}

static void check_kernel_value(const struct format *f, const struct vector *v) {
  struct round_mode mode = {f, v->saturate != 0, v->ftz != 0, 0};
  float y;
  round_array(&mode, &v->x, &y, 1);
  unsigned char codes[4];
  round_encode_array(&mode, &v->x, codes, 1);
  uint32_t code = read_code(f, codes, 0);
  if (!same(y, round_decode(f, v->code)) || !same_code(f, code, v->code)) {
    fail_msg("%s: %a gives %a, code %x, not %x", f->name, (double)v->x, (double)y, code, v->code);
  }
}

// A scale that takes the input somewhere else and is undone first must change nothing.
static void check_kernel_scales(const struct format *f, const struct vector *v) {
  static const int scales[] = {-100, -17, -1, 1, 9, 30, 126};
  for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
    int k = scales[i];
    float x = ldexpf(v->x, -k);
    float want = ldexpf(round_decode(f, v->code), -k);
    if (!same(ldexpf(x, k), v->x) && !isnan(x)) {
      continue;  // not a float
    }
    struct round_mode mode = {f, v->saturate != 0, v->ftz != 0, k};
    float y;
    round_array(&mode, &x, &y, 1);
    if (!same(y, want)) {
      fail_msg("%s scale %d: %a gives %a, not %a", f->name, k, (double)x, (double)y, (double)want);
    }
  }
}

static void reference_gives_every_vector(void **state) {
  (void)state;
  for_every_vector(check_reference);
}

static void kernels_give_every_vector(void **state) {
  (void)state;
  for_every_vector(check_kernel_value);
}

static void scaled_kernels_give_every_vector(void **state) {
  (void)state;
  for_every_vector(check_kernel_scales);
}

static void every_code_has_the_value_of_its_vector(void **state) {
  (void)state;
  for (int i = FORMAT_FP8E4M3FN; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    FILE *file = open_vectors("decode", f);
    uint32_t code;
    float value;
    uint32_t count = 0;
    for (; fscanf(file, "%x %f", &code, &value) == 2; count++) {
      if (!same(round_decode(f, code), value)) {
        fail_msg("%s: code %x is %a", f->name, code, (double)value);
      }
    }
    fclose(file);
    assert_int_equal(count, (uint32_t)1 << f->bits);
  }
}

// ---- Every representable value, and around it ----

static void every_representable_value_round_trips(void **state) {
  (void)state;
  for (int i = FORMAT_TF32; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    for (uint32_t code = 0; code < (uint32_t)1 << f->bits; code++) {
      float value = round_decode(f, code);
      uint32_t again = round_encode(f, value, false, false);
      if (!same_code(f, again, code)) {
        fail_msg("%s: %x is %a is %x", f->name, code, (double)value, again);
      }
      assert_true(isnan(value) || (double)value == round_double(f, (double)value, false, false));
    }
  }
}

static void every_code_decodes_alike_in_arrays(void **state) {
  (void)state;
  for (int i = FORMAT_TF32; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    for (uint32_t code = 0; code < (uint32_t)1 << f->bits; code++) {
      // little-endian, whatever the width; in fp4 the other half of the byte must not matter
      unsigned char bytes[4] = {(unsigned char)(f->bits == 4 ? code | 0x50 : code),
                                (unsigned char)(code >> 8), (unsigned char)(code >> 16), 0};
      float y;
      round_decode_array(f, bytes, &y, 1);
      if (!same(y, round_decode(f, code))) {
        fail_msg("%s: %x is %a", f->name, code, (double)y);
      }
    }
  }
}

// A value of the format and the midpoint above it, one fp32 step to either side, both signs.
static size_t around(const struct format *f, uint32_t code, float *x) {
  double value = (double)round_decode(f, code);
  double next =
      code == f->max_code ? value + format_ulp(f, value) : (double)round_decode(f, code + 1);
  float centres[2] = {(float)value, (float)((value + next) / 2)};
  size_t n = 0;
  for (int c = 0; c < 2; c++) {
    float near[3] = {nextafterf(centres[c], -INFINITY), centres[c],
                     nextafterf(centres[c], INFINITY)};
    for (int i = 0; i < 3; i++) {
      x[n++] = near[i];
      x[n++] = -near[i];
    }
  }
  return n;
}

static void kernels_equal_the_reference_around_every_representable_value(void **state) {
  (void)state;
  for (int i = FORMAT_TF32; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    float x[MANY];
    size_t n = 0;
    for (uint32_t code = 0; code <= f->max_code; code++) {
      n += around(f, code, x + n);
      if (n + 12 > MANY || code == f->max_code) {
        check_kernels_in_every_mode(f, 0, x, n);
        n = 0;
      }
    }
  }
}

static void kernels_equal_the_reference_on_random_bits_at_every_scale(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (int i = FORMAT_FP32; i < FORMAT_COUNT; i++) {
    for (int k = -126; k <= 126; k += 6) {
      float x[1000];
      for (size_t j = 0; j < 1000; j++) {
        x[j] = float_of(random_bits(&seed));
      }
      check_kernels_in_every_mode(&formats[i], k, x, 1000);
    }
  }
}

// Random bits seldom fall into a narrow format's range: these do.
static void kernels_equal_the_reference_on_random_values_in_range(void **state) {
  (void)state;
  uint32_t seed = 2;
  for (int i = FORMAT_FP32; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    int low = f->min_exponent - f->mantissa_bits - 2;
    int span = f->max_exponent + 2 - low;
    for (int turn = 0; turn < 10; turn++) {
      float x[MANY];
      for (size_t j = 0; j < MANY; j++) {
        float significand = float_of((random_bits(&seed) & 0x807fffff) | 0x3f800000);
        x[j] = ldexpf(significand, low + (int)(random_bits(&seed) % (uint32_t)span));
      }
      check_kernels_in_every_mode(f, 0, x, MANY);
      check_kernels_in_every_mode(f, turn - 5, x, MANY);
    }
  }
}

// ---- Arrays ----

static void any_length_and_place_gives_the_same(void **state) {
  (void)state;
  float x[2100];
  float whole_y[2100];
  uint32_t seed = 3;
  for (size_t i = 0; i < 2100; i++) {
    x[i] = ldexpf(float_of(random_bits(&seed) >> 9 | 0x3f800000), (int)(i % 40) - 25);
  }
  for (int i = 0; i < FORMAT_COUNT; i++) {
    struct round_mode mode = {&formats[i], true, false, 2};
    round_array(&mode, x, whole_y, 2100);
    for (size_t n = 0; n < 2100; n += n < 70 ? 1 : 397) {
      float y[2101];
      y[n] = 12345;
      memcpy(y, x, n * sizeof x[0]);
      round_array(&mode, y, y, n);  // in place
      assert_memory_equal(y, whole_y, n * sizeof y[0]);
      assert_float(y[n], 12345);
    }
  }
}

static void an_empty_array_may_be_null(void **state) {
  (void)state;
  struct round_count count = {1, 2, 3, 4};
  for (int i = 0; i < FORMAT_COUNT; i++) {
    struct round_mode mode = {&formats[i], true, true, 1};
    round_array(&mode, NULL, NULL, 0);
    round_count_array(&mode, NULL, 0, &count);
    if (i != FORMAT_FP64) {
      round_encode_array(&mode, NULL, NULL, 0);
      round_decode_array(&formats[i], NULL, NULL, 0);
    }
  }
  assert_int_equal(count.overflow + count.zero + count.subnormal + count.exact, 10);
}

static void fp4_packs_the_first_value_into_the_low_half(void **state) {
  (void)state;
  struct round_mode mode = {fp4, false, false, 0};
  float x[3] = {1, -6, 0.5F};
  unsigned char codes[3] = {0xaa, 0xaa, 0xaa};
  round_encode_array(&mode, x, codes, 3);
  assert_int_equal(codes[0], 0xf2);
  assert_int_equal(codes[1], 0x01);
  assert_int_equal(codes[2], 0xaa);
}

static void wide_codes_are_little_endian(void **state) {
  (void)state;
  float x[1] = {-1};
  unsigned char codes[4];
  round_encode_array(&(struct round_mode){.format = bf16}, x, codes, 1);
  assert_memory_equal(codes, "\x80\xbf", 2);
  round_encode_array(&(struct round_mode){.format = fp16}, x, codes, 1);
  assert_memory_equal(codes, "\x00\xbc", 2);
  round_encode_array(&(struct round_mode){.format = &formats[FORMAT_TF32]}, x, codes, 1);
  assert_memory_equal(codes, "\x00\xfc\x05\x00", 4);
  round_encode_array(&(struct round_mode){.format = &formats[FORMAT_FP32]}, x, codes, 1);
  assert_memory_equal(codes, "\x00\x00\x80\xbf", 4);
}

// ---- Single rules ----

static void overflow_follows_saturate_in_8_bits_only(void **state) {
  (void)state;
  for (int i = FORMAT_FP32; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    float saturated = rounded_to(f, -INFINITY, true, false);
    float not_saturated = rounded_to(f, -INFINITY, false, false);
    if (f->bits == 8) {
      assert_float(saturated, -f->max);
      assert_true(f->has_inf ? isinf(not_saturated) : isnan(not_saturated));
    } else {
      assert_float(saturated, f->bits == 4 ? -6 : -(double)INFINITY);
      assert_true(same(saturated, not_saturated));
    }
  }
}

static void nan_of_either_sign_is_6_in_fp4(void **state) {
  (void)state;
  float x[2] = {NAN, -NAN};
  float y[2];
  round_array(&(struct round_mode){.format = fp4}, x, y, 2);
  for (int i = 0; i < 2; i++) {
    assert_float(y[i], 6);
    assert_float(rounded_to(fp4, x[i], false, false), 6);
  }
}

static void ftz_keeps_what_rounds_up_to_the_smallest_normal(void **state) {
  (void)state;
  for (int i = FORMAT_FP32; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    double midpoint = f->tiny - f->min_subnormal / 2;
    assert_true(round_double(f, midpoint, true, true) == f->tiny);
    assert_true(round_double(f, nextafter(midpoint, 0), true, true) == 0);
    assert_true(round_double(f, -f->tiny, true, true) == -f->tiny);
    assert_true(signbit(rounded_to(f, -(float)f->min_subnormal, true, true)) == 0 || !f->one_zero);
  }
}

static void doubles_are_rounded_once(void **state) {
  (void)state;
  double x = 1 + 0x1p-11 + 0x1p-30;
  assert_true(round_double(fp16, x, false, false) == 1 + 0x1p-10);
  assert_float(rounded_to(fp16, (float)x, false, false), 1);
  assert_true(round_double(&formats[FORMAT_FP32], 1 + 0x1p-24, false, false) == 1);
  assert_true(round_double(&formats[FORMAT_FP32], 0x1p-1074, false, false) == 0);
  assert_true(isinf(round_double(&formats[FORMAT_FP32], 1e300, false, false)));
  assert_true(round_double(&formats[FORMAT_FP64], 0x1p-1074, false, false) == 0x1p-1074);
  assert_true(round_double(&formats[FORMAT_FP64], 0x1p-1074, false, true) == 0);
}

static void doubles_that_are_floats_give_what_the_float_gives(void **state) {
  (void)state;
  uint32_t seed = 4;
  for (int i = 0; i < 200000; i++) {
    float x = float_of(random_bits(&seed));
    const struct format *f = &formats[FORMAT_FP32 + i % (FORMAT_COUNT - 1)];
    bool saturate = (i & 64) != 0;
    bool ftz = (i & 128) != 0;
    assert_true(same((float)round_double(f, (double)x, saturate, ftz),
                     round_decode(f, round_encode(f, x, saturate, ftz))));
  }
}

static void every_fp32_value_stays_itself_in_fp32_and_fp64(void **state) {
  (void)state;
  uint32_t seed = 5;
  for (int i = 0; i < 200000; i++) {
    float x = float_of(random_bits(&seed));
    assert_true(same(rounded_to(&formats[FORMAT_FP32], x, false, false), x));
    float y;
    round_array(&(struct round_mode){.format = &formats[FORMAT_FP32]}, &x, &y, 1);
    assert_true(same(y, x));
    round_array(&(struct round_mode){.format = &formats[FORMAT_FP64], .scale_log2 = 99}, &x, &y, 1);
    assert_true(same(y, x));
  }
}

// ---- Counts ----

// The definition, one value at a time.
static void count_plainly(const struct round_mode *mode, const float *x, size_t n,
                          struct round_count *count) {
  const struct format *f = mode->format;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) {
      continue;
    }
    float scaled = f->id == FORMAT_FP64 ? x[i] : x[i] * ldexpf(1, mode->scale_log2);
    float rounded = rounded_to(f, scaled, mode->saturate, mode->ftz);
    float back = f->id == FORMAT_FP64 ? rounded : rounded * ldexpf(1, -mode->scale_log2);
    double magnitude = fabs((double)rounded);
    count->overflow += fabs((double)scaled) >= format_overflow(f);
    count->zero += x[i] != 0 && rounded == 0;
    count->subnormal += magnitude > 0 && magnitude < f->tiny;
    count->exact += back == x[i];
  }
}

static void counts_follow_their_definition(void **state) {
  (void)state;
  uint32_t seed = 6;
  float x[3000];
  for (size_t i = 0; i < 3000; i++) {
    x[i] = i % 3 == 0 ? float_of(random_bits(&seed)) : ldexpf(1, (int)(i % 300) - 149);
  }
  memcpy(x, (float[]){0, -0.0F, INFINITY, -INFINITY, NAN, 65519, 65520, -464}, 8 * sizeof x[0]);
  for (int i = 0; i < FORMAT_COUNT; i++) {
    for (int flags = 0; flags < 12; flags++) {
      struct round_mode mode = {&formats[i], (flags & 1) != 0, (flags & 2) != 0,
                                flags / 4 * 60 - 60};
      struct round_count want = {0, 0, 0, 0};
      struct round_count got = {0, 0, 0, 0};
      count_plainly(&mode, x, 3000, &want);
      round_count_array(&mode, x, 3000, &got);
      assert_int_equal(got.overflow, want.overflow);
      assert_int_equal(got.zero, want.zero);
      assert_int_equal(got.subnormal, want.subnormal);
      assert_int_equal(got.exact, want.exact);
    }
  }
}

static void counts_of_a_small_array(void **state) {
  (void)state;
  float x[8] = {0, 1, 0.1F, 1e-8F, -3e-6F, 1e6F, INFINITY, NAN};
  struct round_count count = {0, 0, 0, 0};
  round_count_array(&(struct round_mode){.format = fp16}, x, 8, &count);
  assert_int_equal(count.overflow, 1);
  assert_int_equal(count.zero, 1);
  assert_int_equal(count.subnormal, 1);
  assert_int_equal(count.exact, 2);
}

// ---- Whole formats ----

#if defined(__FLT16_MAX__)
static void check_against_compiler(const float *x, size_t n) {
  static float y[1 << 16];
  static uint16_t codes[1 << 16];
  const struct round_mode mode = {.format = fp16};
  round_array(&mode, x, y, n);
  round_encode_array(&mode, x, codes, n);
  for (size_t i = 0; i < n; i++) {
    compiler_fp16 half = (compiler_fp16)x[i];
    uint16_t code;
    memcpy(&code, &half, sizeof code);
    bool good = isnan(x[i]) ? isnan(y[i]) && is_nan_code(fp16, codes[i])
                            : bits_of(y[i]) == bits_of((float)half) && codes[i] == code;
    if (!good) {
      fail_msg("%a gives %a, code %x, not %x", (double)x[i], (double)y[i], codes[i], code);
    }
  }
}
#endif

static void fp16_equals_the_compilers(void **state) {
  (void)state;
#if defined(__FLT16_MAX__)
  static float x[1 << 16];
  uint64_t step = whole() ? 1 : 4099;
  size_t n = 0;
  for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += step) {
    x[n++] = float_of((uint32_t)bits);
    if (n == 1 << 16) {
      check_against_compiler(x, n);
      n = 0;
    }
  }
  check_against_compiler(x, n);
  for (uint32_t code = 0; code <= fp16->max_code; code++) {
    n = around(fp16, code, x);
    check_against_compiler(x, n);
  }
#else
  print_message("this compiler has no _Float16 for this processor: not compared\n");
  skip();
#endif
}

static void bf16_kernel_equals_the_reference_over_all_floats(void **state) {
  (void)state;
  static float x[1 << 16];
  static float y[1 << 16];
  uint64_t step = whole() ? 1 : 4099;
  for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
    size_t n = 0;
    for (; n < 1 << 16 && bits < (uint64_t)1 << 32; bits += step) {
      x[n++] = float_of((uint32_t)bits);
    }
    round_array(&(struct round_mode){.format = bf16}, x, y, n);
    for (size_t i = 0; i < n; i++) {
      float want = rounded_to(bf16, x[i], false, false);
      if (!same(y[i], want)) {
        fail_msg("%a gives %a, not %a", (double)x[i], (double)y[i], (double)want);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference_gives_every_vector),
      cmocka_unit_test(kernels_give_every_vector),
      cmocka_unit_test(scaled_kernels_give_every_vector),
      cmocka_unit_test(every_code_has_the_value_of_its_vector),
      cmocka_unit_test(every_representable_value_round_trips),
      cmocka_unit_test(every_code_decodes_alike_in_arrays),
      cmocka_unit_test(kernels_equal_the_reference_around_every_representable_value),
      cmocka_unit_test(kernels_equal_the_reference_on_random_bits_at_every_scale),
      cmocka_unit_test(kernels_equal_the_reference_on_random_values_in_range),
      cmocka_unit_test(any_length_and_place_gives_the_same),
      cmocka_unit_test(an_empty_array_may_be_null),
      cmocka_unit_test(fp4_packs_the_first_value_into_the_low_half),
      cmocka_unit_test(wide_codes_are_little_endian),
      cmocka_unit_test(overflow_follows_saturate_in_8_bits_only),
      cmocka_unit_test(nan_of_either_sign_is_6_in_fp4),
      cmocka_unit_test(ftz_keeps_what_rounds_up_to_the_smallest_normal),
      cmocka_unit_test(doubles_are_rounded_once),
      cmocka_unit_test(doubles_that_are_floats_give_what_the_float_gives),
      cmocka_unit_test(every_fp32_value_stays_itself_in_fp32_and_fp64),
      cmocka_unit_test(counts_follow_their_definition),
      cmocka_unit_test(counts_of_a_small_array),
      cmocka_unit_test(fp16_equals_the_compilers),
      cmocka_unit_test(bf16_kernel_equals_the_reference_over_all_floats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
