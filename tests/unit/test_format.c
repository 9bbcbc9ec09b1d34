// The table of formats against its own arithmetic, and the worked values of the design about sizes,
// scales and updates.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format.h"
#include "round.h"

static const struct format *fp16 = &formats[FORMAT_FP16];

static void assert_double(double got, double want) {
  if (got != want) {
    fail_msg("%a is not %a", got, want);
  }
}

static void every_row_follows_from_its_layout(void **state) {
  (void)state;
  for (int i = 0; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    assert_int_equal((int)f->id, i);
    assert_int_equal(f->bits, 1 + f->exponent_bits + f->mantissa_bits);
    assert_int_equal(f->min_exponent, 1 - f->bias);
    assert_int_equal(f->max_exponent, ilogb(f->max));
    assert_double(f->tiny, ldexp(1, f->min_exponent));
    assert_double(f->min_subnormal, ldexp(1, f->min_exponent - f->mantissa_bits));
    assert_double(f->eps, ldexp(1, -f->mantissa_bits));
    assert_int_equal(f->has_inf, f->inf_code != 0 || f->id == FORMAT_FP64);
    assert_int_equal(f->has_nan, f->nan_code != 0 || f->id == FORMAT_FP64);
    if (f->id != FORMAT_FP64) {
      assert_double((double)round_decode(f, f->max_code), f->max);
      assert_double((double)round_decode(f, 1), f->min_subnormal);
      assert_double((double)round_decode(f, (uint32_t)1 << f->mantissa_bits), f->tiny);
      bool max_is_last = !isfinite(round_decode(f, f->max_code + 1));
      assert_true(max_is_last || f->id == FORMAT_FP4E2M1);  // where a sign bit follows
    }
  }
}

static void names_and_aliases_are_found(void **state) {
  (void)state;
  static const struct {
    const char *name;
    enum format_id id;
  } cases[] = {
      {"double", FORMAT_FP64},
      {"float", FORMAT_FP32},
      {"Float32", FORMAT_FP32},
      {"TensorFloat-32", FORMAT_TF32},
      {"bfloat16", FORMAT_BF16},
      {"BF16", FORMAT_BF16},
      {"float16", FORMAT_FP16},
      {"half", FORMAT_FP16},
      {"e4m3", FORMAT_FP8E4M3FN},
      {"float8_e4m3fn", FORMAT_FP8E4M3FN},
      {"FLOAT8E4M3FN", FORMAT_FP8E4M3FN},
      {"float8_e4m3fnuz", FORMAT_FP8E4M3FNUZ},
      {"e5m2", FORMAT_FP8E5M2},
      {"FLOAT8E5M2FNUZ", FORMAT_FP8E5M2FNUZ},
      {"FLOAT4E2M1", FORMAT_FP4E2M1},
      {"float4_e2m1fn_x2", FORMAT_FP4E2M1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_ptr_equal(format_find(cases[i].name), &formats[cases[i].id]);
  }
  for (int i = 0; i < FORMAT_COUNT; i++) {
    assert_ptr_equal(format_find(formats[i].name), &formats[i]);
  }
}

static void other_names_are_not_found(void **state) {
  (void)state;
  const char *names[] = {"", "_", "fp", "fp1", "fp160", "fp16 ", "int8", "e4m3fnu"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    assert_null(format_find(names[i]));
  }
  assert_null(format_find(NULL));
}

static void onnx_types_are_found_and_others_are_not(void **state) {
  (void)state;
  int found = 0;
  for (int type = -1; type < 64; type++) {
    const struct format *f = format_from_onnx(type);
    if (f != NULL) {
      assert_int_equal(f->onnx_type, type);
      found++;
    }
  }
  assert_int_equal(found, FORMAT_COUNT - 1);
  assert_null(format_from_onnx(0));  // UNDEFINED, and tf32 is not ONNX's
  assert_null(format_from_onnx(7));  // INT64
  assert_ptr_equal(format_from_onnx(10), fp16);
  assert_ptr_equal(format_from_onnx(16), &formats[FORMAT_BF16]);
}

static void ulp_follows_the_binade_and_stops_at_the_smallest_normal(void **state) {
  (void)state;
  assert_double(format_ulp(fp16, 1), 0x1p-10);
  assert_double(format_ulp(fp16, nextafter(1, 0)), 0x1p-11);
  assert_double(format_ulp(fp16, -1.5), 0x1p-10);
  assert_double(format_ulp(fp16, 1e6), 0x1p9);
  assert_double(format_ulp(&formats[FORMAT_FP64], 0x1p-1073), 0x1p-1074);
  for (int i = 0; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    assert_double(format_ulp(f, 1), f->eps);
    assert_double(format_ulp(f, 0), f->min_subnormal);
    assert_double(format_ulp(f, f->min_subnormal), f->min_subnormal);
    assert_double(format_ulp(f, -f->tiny), f->min_subnormal);
    assert_double(format_ulp(f, 2 * f->tiny), 2 * f->min_subnormal);
    assert_true(isnan(format_ulp(f, INFINITY)) && isnan(format_ulp(f, NAN)));
  }
}

static void the_cliff_is_the_last_double_that_becomes_zero(void **state) {
  (void)state;
  assert_double(format_cliff(fp16, false), 0x1p-25);
  for (int i = 0; i < FORMAT_COUNT; i++) {
    for (int ftz = 0; ftz < 2; ftz++) {
      const struct format *f = &formats[i];
      double cliff = format_cliff(f, ftz != 0);
      double above = nextafter(cliff, 1);
      assert_double(round_double(f, cliff, true, ftz != 0), 0);
      assert_double(round_double(f, above, true, ftz != 0), ftz ? f->tiny : f->min_subnormal);
    }
  }
}

static void overflow_is_the_first_double_that_rounds_beyond_max(void **state) {
  (void)state;
  assert_double(format_overflow(fp16), 65520);
  assert_double(format_overflow(&formats[FORMAT_FP8E4M3FN]), nextafter(464, 465));
  assert_double(format_overflow(&formats[FORMAT_FP8E4M3FNUZ]), 248);
  assert_double(format_overflow(&formats[FORMAT_FP8E5M2]), 61440);
  assert_double(format_overflow(&formats[FORMAT_FP4E2M1]), 7);
  assert_double(format_overflow(&formats[FORMAT_FP64]), INFINITY);
  for (int i = FORMAT_FP32; i < FORMAT_FP4E2M1; i++) {
    const struct format *f = &formats[i];
    double overflow = format_overflow(f);
    assert_double(round_double(f, nextafter(overflow, 0), false, false), f->max);
    bool beyond = !isfinite(round_double(f, overflow, false, false));
    assert_true(beyond);
  }
}

static void fp4_shares_bytes_and_tf32_is_stored_as_fp32(void **state) {
  (void)state;
  const struct format *fp4 = &formats[FORMAT_FP4E2M1];
  assert_int_equal(format_bytes(fp4, 0), 0);
  assert_int_equal(format_bytes(fp4, 1), 1);
  assert_int_equal(format_bytes(fp4, 2), 1);
  assert_int_equal(format_bytes(fp4, 3), 2);
  assert_int_equal(format_bytes(&formats[FORMAT_FP8E5M2], 3), 3);
  assert_int_equal(format_bytes(&formats[FORMAT_TF32], 3), 12);
  assert_int_equal(format_bytes(&formats[FORMAT_FP64], 3), 24);
}

static void what_an_unknown_name_means_is_suggested(void **state) {
  (void)state;
  assert_string_equal(format_near("fp8"), "fp8e4m3fn");
  assert_string_equal(format_near("fp17"), "fp16");
  assert_string_equal(format_near("bf"), "bf16");
  assert_null(format_near("quantised"));
  assert_null(format_near(""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_follows_from_its_layout),
      cmocka_unit_test(names_and_aliases_are_found),
      cmocka_unit_test(other_names_are_not_found),
      cmocka_unit_test(what_an_unknown_name_means_is_suggested),
      cmocka_unit_test(onnx_types_are_found_and_others_are_not),
      cmocka_unit_test(ulp_follows_the_binade_and_stops_at_the_smallest_normal),
      cmocka_unit_test(the_cliff_is_the_last_double_that_becomes_zero),
      cmocka_unit_test(overflow_is_the_first_double_that_rounds_beyond_max),
      cmocka_unit_test(fp4_shares_bytes_and_tf32_is_stored_as_fp32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
