// What the program computes itself has the same bits on every machine, whatever the processor, the
// compiler, its optimisation and the C library: rounding, statistics, comparisons, updates, decimal
// numbers and made-up samples. Each test hashes what comes of many inputs; the hashes are those
// that x86-64 and arm64 gave alike.
#include "compare.h"
#include "decimal.h"
#include "elementary.h"
#include "file.h"
#include "gather.h"
#include "loss_scale.h"
#include "plan_windows.h"
#include "round.h"
#include "stats.h"
#include "updates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

enum { COUNT = 100003 };

static uint64_t next(uint64_t *seed) {
  *seed = *seed * 6364136223846793005U + 1442695040888963407U;
  return *seed >> 11;
}

// Any bits: NaN with all payloads, infinities, subnormals.
static void fill_any(uint64_t seed, float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)next(&seed);
    memcpy(x + i, &bits, sizeof bits);
  }
}

// What networks compute: of both signs, over some binades, with zeros.
static void fill_usual(uint64_t seed, float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t bits = next(&seed);
    float fraction = (float)(bits & 0xffffff) * 0x1p-24F - 0.5F;
    x[i] = bits >> 24 & 7 ? ldexpf(fraction, (int)(bits >> 32 & 15) - 8) : 0;
  }
}

static void add_double(struct hash *h, double x) {
  x = isnan(x) ? NAN : x;
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = isnan(x) ? 1 : bits;  // a NaN that is computed has a sign that depends on the processor
  hash_add(h, &bits, sizeof bits);
}

static void expect_hash(struct hash *h, const char *expected) {
  char hex[65];
  hash_end(h, hex);
  assert_string_equal(hex, expected);
}

static void rounding_has_the_same_bits(void **state) {
  (void)state;
  static float x[COUNT], y[COUNT];
  struct hash *h = hash_begin();
  fill_any(1, x, COUNT);
  for (int f = 0; f < FORMAT_COUNT; f++) {
    for (int flags = 0; flags < 4 && formats[f].bits <= 32; flags++) {
      for (int scale = -13; scale <= 13; scale += 13) {
        struct round_mode mode = {&formats[f], flags & 1, (flags & 2) != 0, scale};
        struct round_count count = {0};
        round_array(&mode, x, y, COUNT);
        hash_add(h, y, sizeof y);
        round_encode_array(&mode, x, y, COUNT);
        hash_add(h, y, format_bytes(mode.format, COUNT));
        round_count_array(&mode, x, COUNT, &count);
        hash_add(h, &count, sizeof count);
      }
    }
  }
  expect_hash(h, "49d3a1b06adaad05191b763d83b56f698fc116c9c05411d7ac2926fe6a6cd1c1");
}

static void add_fits(struct hash *h, const struct stats *s) {
  for (int f = 0; f < FORMAT_COUNT; f++) {
    for (int scale = -8; scale <= 8; scale += 8) {
      struct stats_fit fit = stats_fit(s, (enum format_id)f, scale, 2, false);
      add_double(h, fit.headroom);
      add_double(h, fit.zero_fraction);
      add_double(h, fit.subnormal_fraction);
      add_double(h, fit.overflow_fraction);
      add_double(h, fit.sqnr_db);
    }
  }
}

static void statistics_have_the_same_bits(void **state) {
  (void)state;
  static float x[COUNT];
  struct hash *h = hash_begin();
  struct stats s;
  stats_init(&s);
  for (int run = 0; run < 6; run++) {
    struct stats_piece piece;
    memset(&piece, 0, sizeof piece);
    (run % 3 ? fill_usual : fill_any)((uint64_t)run, x, COUNT);
    stats_observe(&piece, x, COUNT, run % 2 ? 1 : stats_stride(COUNT, 4096), 0);
    hash_add(h, &piece, sizeof piece);
    stats_merge_piece(&s, &piece);
    stats_end_run(&s, &piece, (size_t)run / 2, run);
    add_fits(h, &s);
  }
  for (int how = STATS_SAME; how <= STATS_ABS; how++) {
    struct stats derived;
    stats_init(&derived);
    stats_derive(&derived, &s, (enum stats_derivation)how);
    add_fits(h, &derived);
    stats_free(&derived);
  }
  for (double share = 0; share < 1; share += 0.125)
    add_double(h, stats_magnitude_above(&s, share));
  stats_free(&s);
  expect_hash(h, "6dd00e9b7bc845e5eac1152be64832cd4c6bc4cbe115add26decdc0bcd083292");
}

static void comparisons_have_the_same_bits(void **state) {
  (void)state;
  static float x[COUNT], y[COUNT];
  struct hash *h = hash_begin();
  struct compare c;
  compare_init(&c);
  for (int run = 0; run < 4; run++) {
    struct compare_piece piece;
    memset(&piece, 0, sizeof piece);
    (run == 1 ? fill_any : fill_usual)((uint64_t)run, x, COUNT);
    round_array(&(struct round_mode){&formats[FORMAT_BF16], false, false, 0}, x, y, COUNT);
    compare_pairs(&piece, x, y, COUNT);
    hash_add(h, &piece, offsetof(struct compare_piece, max_narrow) + sizeof piece.max_narrow);
    compare_rows(&c, x, y, COUNT / 10, 10);
    compare_end_run(&c, &piece, run);
    add_double(h, compare_relative_l2(&c));
    add_double(h, compare_cosine(&c));
    add_double(h, compare_sqnr_db(&c));
    add_double(h, compare_top1(&c));
  }
  expect_hash(h, "f1b50e5f1b2a9ec52ff21800cf3d854b63129f47d38e0480a9917da217a85a11");
}

static void updates_have_the_same_bits(void **state) {
  (void)state;
  static float x[COUNT], y[COUNT];
  static double terms[512];
  struct hash *h = hash_begin();
  struct updates_piece piece;
  memset(&piece, 0, sizeof piece);
  fill_usual(1, x, COUNT);
  fill_any(2, y, COUNT);
  updates_operands(&piece, x, y, COUNT);
  updates_change(&piece, y, x, COUNT);
  fill_usual(3, y, COUNT);
  updates_operands(&piece, x, y, COUNT);
  updates_onto(&piece, x, y, COUNT);
  for (size_t first = 0; first + 512 <= COUNT; first += 512) {
    for (int how = 0; how < GATHER_TRANSFORMS; how++) {
      for (size_t i = 0; i < 512; i++)
        terms[i] = (double)x[first + i];
      gather_apply((enum gather_transform)how, terms, 512);
      updates_terms(&piece, terms, 512);
    }
  }
  hash_add(h, &piece, sizeof piece);
  expect_hash(h, "8e473e30252064831498037ee53bbe8917a0fef8e8639a82c42b181848e05108");
}

static void scales_are_the_same(void **state) {
  (void)state;
  struct hash *h = hash_begin();
  uint64_t seed = 1;
  for (int i = 0; i < COUNT; i++) {
    uint64_t bits = next(&seed);
    double magnitude = ldexp((double)(bits + 1), -(int)(bits % 100));
    enum format_id f = i % 2 ? FORMAT_FP16 : FORMAT_FP8E4M3FN;
    int k[] = {scale_of_range(magnitude, 2, f), loss_scale_to_reach(magnitude, formats[f].tiny)};
    hash_add(h, k, sizeof k);
  }
  expect_hash(h, "98bb62b19d3417dcb414cfccea18f26338ce7ce431bff739684246d0f22c3360");
}

static void numbers_are_written_the_same(void **state) {
  (void)state;
  struct hash *h = hash_begin();
  uint64_t seed = 1;
  for (int i = 0; i < COUNT; i++) {
    char text[DECIMAL_TEXT];
    uint64_t bits = next(&seed) << 11 | (uint64_t)i % 2048;
    double x;
    memcpy(&x, &bits, sizeof x);
    decimal_print(text, i % 2 == 0 && isfinite(x) ? x : ldexp((double)next(&seed), -i % 64));
    hash_add(h, text, strlen(text));
    decimal_print(text, elementary_decibels((double)next(&seed)));
    hash_add(h, text, strlen(text));
  }
  expect_hash(h, "cc8389d16c3413d277636f227c4cc4070cae9ae9efc2a4e306e53f94ede8edd8");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rounding_has_the_same_bits),
      cmocka_unit_test(statistics_have_the_same_bits),
      cmocka_unit_test(comparisons_have_the_same_bits),
      cmocka_unit_test(updates_have_the_same_bits),
      cmocka_unit_test(scales_are_the_same),
      cmocka_unit_test(numbers_are_written_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
