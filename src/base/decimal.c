// Doubles as decimal numbers: see decimal.h. A product with a power of ten is exact as a sum of two
// doubles (Dekker 1971), from which its rounding to an integer, and how far off that is, follow.
#include "decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The powers of ten that are doubles.
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { POWER_MOST = sizeof powers / sizeof powers[0] - 1 };

// Both factors are doubles, so that one operation rounds once, and so correctly (Clinger 1990).
bool decimal_value(uint64_t digits, int64_t exponent, double *value) {
  const uint64_t exact_most = (uint64_t)1 << DBL_MANT_DIG;
  if (FLT_EVAL_METHOD != 0 || digits > exact_most || exponent < -POWER_MOST ||
      exponent > POWER_MOST)
    return false;
  *value = exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
  return true;
}

// ---- finding the digits ----

// digits / 10^decimals
struct decimal {
  uint64_t digits;
  int decimals;
};

// The most decimals with which `size` has no digits beyond those of `limit`, a power of ten.
static int most_decimals(double size, double limit) {
  for (int k = POWER_MOST; k > 0; k--) {
    double product = size * powers[k];
    if (product < limit || (product == limit && fma(size, powers[k], -product) < 0))
      return k;
  }
  return 0;
}

// Up to 15 digits: no two numbers of so few read as the same double, so one that reads as `size` is
// the one. Where it exists, the product is less than half a unit off it.
static bool find_15(double size, struct decimal *out) {
  double back;
  int k = size == floor(size) ? 0 : most_decimals(size, 1e15);
  *out = (struct decimal){(uint64_t)(size * powers[k] + 0.5), k};
  return decimal_value(out->digits, -k, &back) && back == size;
}

// The nearest number of as many digits as those below `limit`, the even one of two; and how far it
// is off, in units of its last digit and as a share of what reads as `size`. False if it would have
// more than 22 decimals.
static bool round_digits(double size, double limit, struct decimal *out, double *off) {
  int k = most_decimals(size, limit);
  double high = size * powers[k], low = fma(size, powers[k], -high);
  if (high <= limit / 10)
    return false;
  // The integer whole + step, and a rest that lies in [-1/2, 1): part is 0 or at least 1/8, unless
  // the high one has no fraction, and rest at most 1/16 with one that has.
  double whole = floor(high), step = nearbyint(low);
  double part = high - whole, rest = low - step;
  uint64_t digits = (uint64_t)whole + (uint64_t)(int64_t)step;
  bool odd = digits & 1;
  bool up = part - 0.5 > -rest || (part - 0.5 == -rest && odd);
  bool down = part == 0 && rest == -0.5 && odd;
  *out = (struct decimal){digits + up - down, k};
  double error = (double)up - (double)down - part - rest;
  double gap = error > 0 ? nextafter(size, INFINITY) - size : size - nextafter(size, 0);
  *off = fabs(error) / (gap / 2 * powers[k]);
  return true;
}

// False where it takes the library to be certain.
static bool find_digits(double size, struct decimal *out) {
  const double surely = 1e-9;
  double off;
  if (FLT_EVAL_METHOD != 0 || size >= 1e15)
    return false;
  if (find_15(size, out))
    return true;
  if (!round_digits(size, 1e16, out, &off))
    return false;
  if (off < 1 - surely)
    return true;
  return off > 1 + surely && round_digits(size, 1e17, out, &off);
}

// ---- writing them ----

int decimal_digits(char text[DECIMAL_TEXT], uint64_t n) {
  char reversed[DECIMAL_TEXT];
  int count = 0;
  do
    reversed[count++] = (char)('0' + n % 10);
  while (n /= 10);
  for (int i = 0; i < count; i++)
    text[i] = reversed[count - 1 - i];
  text[count] = '\0';
  return count;
}

static void put_decimal(char *out, struct decimal d) {
  for (; d.decimals > 0 && d.digits % 10 == 0; d.decimals--)
    d.digits /= 10;
  char digits[DECIMAL_TEXT];
  int count = decimal_digits(digits, d.digits), exponent = count - 1 - d.decimals;
  int before = exponent < -4 ? 1 : exponent + 1;  // digits before the point
  if (before <= 0) {
    *out++ = '0';
    *out++ = '.';
  }
  for (int i = before; i < 0; i++)
    *out++ = '0';
  for (int i = 0; i < count; i++) {
    if (i > 0 && i == before)
      *out++ = '.';
    *out++ = digits[i];
  }
  *out = '\0';
  if (exponent < -4)
    sprintf(out, "e-%02d", -exponent);
}

// The program never calls setlocale, but a library that it is linked into might.
static void print_by_library(char *out, size_t size, double value) {
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(out, size, "%.*g", digits, value);
    if (digits == 17 || strtod(out, NULL) == value)
      break;
  }
  char *comma = strchr(out, ',');
  if (comma)
    *comma = '.';
}

void decimal_print(char text[DECIMAL_TEXT], double value) {
  double size = fabs(value);
  struct decimal d;
  if (signbit(value))
    *text++ = '-';
  if (find_digits(size, &d))
    put_decimal(text, d);
  else
    print_by_library(text, DECIMAL_TEXT - 1, size);
}
