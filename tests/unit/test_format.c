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

// ---- Worked values of the design ----

static void worked_mlp_has_814120_bytes_in_fp32_and_407060_in_bf16(void **state) {
  (void)state;
  uint64_t parameters = 784 * 256 + 256 + 256 * 10 + 10;
  assert_int_equal(format_bytes(&formats[FORMAT_FP32], parameters), 814120);
  assert_int_equal(format_bytes(&formats[FORMAT_BF16], parameters), 407060);
}

static void worked_adam_state_takes_1600_MB_with_and_without_fp16(void **state) {
  (void)state;
  uint64_t n = 100000000;
  uint64_t wide = format_bytes(&formats[FORMAT_FP32], n);
  uint64_t narrow = format_bytes(fp16, n);
  assert_int_equal(4 * wide, 1600000000);               // weights, gradients, two moments
  assert_int_equal(2 * narrow + 3 * wide, 1600000000);  // and a master copy
}

// The powers of two S, as exponents, for which gmin * S is normal and gmax * S does not exceed the
// largest value.
static void scale_window(double gmin, double gmax, int *first, int *last) {
  *first = (int)ceil(log2(fp16->tiny / gmin));
  *last = (int)floor(log2(fp16->max / gmax));
}

static void worked_scale_window_is_2_to_the_10_to_2_to_the_19(void **state) {
  (void)state;
  assert_true(fabs(fp16->tiny / 1e-7 - 610.4) < 0.05);
  assert_true(fabs(fp16->max / 8e-2 - 818800) < 1e-6);
  int first;
  int last;
  scale_window(1e-7, 8e-2, &first, &last);
  assert_int_equal(first, 10);
  assert_int_equal(last, 19);
  // both ends as rounding sees them: normal, no overflow, and neither one step further out
  assert_true(round_double(fp16, ldexp(1e-7, 10), false, true) > 0);
  assert_double(round_double(fp16, ldexp(1e-7, 9), false, true), 0);
  assert_true(isfinite(round_double(fp16, ldexp(8e-2, 19), false, true)));
  assert_true(isinf(round_double(fp16, ldexp(8e-2, 20), false, true)));
}

static void worked_scale_window_up_to_2e4_is_empty(void **state) {
  (void)state;
  int first;
  int last;
  scale_window(1e-7, 2e4, &first, &last);
  assert_true(last < first);
}

// Whether fp16 at w moves when u is subtracted.
static bool moves(double w, double u) {
  return round_double(fp16, w - u, false, false) != w;
}

static void worked_update_of_2e_7_to_1_is_lost_in_fp16_and_kept_in_fp32(void **state) {
  (void)state;
  double update = 1e-3 * 2e-4;
  assert_true(update / format_ulp(fp16, 1) < 0.5);
  assert_false(moves(1, update));
  assert_true(round_double(&formats[FORMAT_FP32], 1 - update, false, false) < 1);
  assert_true(format_ulp(&formats[FORMAT_FP32], nextafter(1, 0)) == 0x1p-24);
  assert_true(format_ulp(&formats[FORMAT_FP32], 1) == 0x1p-23);
  assert_false(moves(1, 5e-4 * 3e-4));
}

// In fp32 each step of 2e-7 is itself rounded, to 3 * 2^-24: the master moves by 8.9e-4.
static void worked_master_copy_moves_in_5000_steps_and_its_fp16_copy_changes(void **state) {
  (void)state;
  float master = 1;
  double exact = 1;
  for (int i = 0; i < 5000; i++) {
    master -= 2e-7F;
    exact -= 2e-7;
  }
  assert_true(fabs(1 - exact - 1e-3) < 1e-9);
  assert_double((double)master, 1 - 5000 * 3 * 0x1p-24);
  assert_double(round_double(fp16, (double)master, false, false), 1 - 2 * 0x1p-11);
}

static void worked_smallest_scale_for_4e_6_is_256_for_either_sign(void **state) {
  (void)state;
  for (int sign = -1; sign <= 1; sign += 2) {
    double g = sign * 4e-6;
    assert_true(round_double(fp16, g, false, true) == 0);
    int scale = 1;
    while (fabs(scale * g) < 1e-3) {
      scale *= 2;
    }
    assert_int_equal(scale, 256);
    assert_true(fabs(scale * g) == 1.024e-3);
    assert_true(round_double(fp16, scale * g, false, true) != 0);
  }
}

static void worked_scale_65536_of_1_2e_3_does_not_overflow(void **state) {
  (void)state;
  assert_true(fabs(65536 * 1.2e-3 - 78.6432) < 1e-12);
  assert_true(fabs(round_double(fp16, 65536 * 1.2e-3, false, false) - 78.6432) < 0x1p-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_follows_from_its_layout),
      cmocka_unit_test(names_and_aliases_are_found),
      cmocka_unit_test(other_names_are_not_found),
      cmocka_unit_test(onnx_types_are_found_and_others_are_not),
      cmocka_unit_test(ulp_follows_the_binade_and_stops_at_the_smallest_normal),
      cmocka_unit_test(the_cliff_is_the_last_double_that_becomes_zero),
      cmocka_unit_test(overflow_is_the_first_double_that_rounds_beyond_max),
      cmocka_unit_test(fp4_shares_bytes_and_tf32_is_stored_as_fp32),
      cmocka_unit_test(worked_mlp_has_814120_bytes_in_fp32_and_407060_in_bf16),
      cmocka_unit_test(worked_adam_state_takes_1600_MB_with_and_without_fp16),
      cmocka_unit_test(worked_scale_window_is_2_to_the_10_to_2_to_the_19),
      cmocka_unit_test(worked_scale_window_up_to_2e4_is_empty),
      cmocka_unit_test(worked_update_of_2e_7_to_1_is_lost_in_fp16_and_kept_in_fp32),
      cmocka_unit_test(worked_master_copy_moves_in_5000_steps_and_its_fp16_copy_changes),
      cmocka_unit_test(worked_smallest_scale_for_4e_6_is_256_for_either_sign),
      cmocka_unit_test(worked_scale_65536_of_1_2e_3_does_not_overflow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
