// Logarithm and exponential as textbooks have them: a power of two is split off, exactly, and a
// short series gives the rest. See elementary.h for why not the C library's.
#include "elementary.h"

#include <math.h>
#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// x[0] + x[1] y + x[2] y^2 + ...
static double polynomial(const double *x, size_t n, double y) {
  double sum = x[n - 1];
  for (size_t i = n - 1; i-- > 0;)
    sum = sum * y + x[i];
  return sum;
}

// e^x = 2^k e^r with |r| <= ln 2 / 2, and 14 terms of e^r = 1 + r + r^2 / 2! + ...; the next is
// below 1e-17.
double elementary_exp(double x) {
  static const double inverse_factorials[] = {
      1,
      1,
      1.0 / 2,
      1.0 / 6,
      1.0 / 24,
      1.0 / 120,
      1.0 / 720,
      1.0 / 5040,
      1.0 / 40320,
      1.0 / 362880,
      1.0 / 3628800,
      1.0 / 39916800,
      1.0 / 479001600,
      1.0 / 6227020800,
  };
  const double log2_e = 0x1.71547652b82fep+0;
  // ln 2 in two parts, of which the first has so few digits that k times it is exact.
  const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
  if (isnan(x))
    return x;
  if (x > 710)
    return INFINITY;
  if (x < -746)
    return 0;
  double k = floor(x * log2_e + 0.5);
  double r = (x - k * ln2_high) - k * ln2_low;
  return ldexp(polynomial(inverse_factorials, COUNT(inverse_factorials), r), (int)k);
}

// ratio = 2^k m with m from sqrt(1/2) to sqrt(2), and ln m = 2 atanh s = 2 (s + s^3 / 3 + ...) with
// s = (m - 1) / (m + 1), so that s^2 < 0.03 and the term after the eleventh is below 1e-18.
double elementary_decibels(double ratio) {
  static const double inverse_odds[] = {1,        1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                        1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  const double decibels_of_2 = 3.010299956639812, decibels_of_e = 4.342944819032518;
  if (isnan(ratio) || ratio < 0)
    return NAN;
  if (ratio == 0 || isinf(ratio))
    return ratio == 0 ? -INFINITY : INFINITY;
  int k;
  double m = frexp(ratio, &k);
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    k--;
  }
  double s = (m - 1) / (m + 1);
  double ln_m = 2 * s * polynomial(inverse_odds, COUNT(inverse_odds), s * s);
  return k * decibels_of_2 + ln_m * decibels_of_e;
}
