// Amounts with their units. See units.h.
#include "units.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *units_bytes(double bytes, char text[UNITS_TEXT]) {
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 10240 && unit + 1 < sizeof names / sizeof names[0]; unit++)
    bytes /= 1024;
  snprintf(text, UNITS_TEXT, unit ? "%.1f %s" : "%.0f %s", bytes, names[unit]);
  return text;
}

const char *units_seconds(double seconds, char text[UNITS_TEXT]) {
  static const char *const names[] = {"s", "ms", "us", "ns"};
  size_t unit = 0;
  for (; seconds < 1 && unit + 1 < sizeof names / sizeof names[0]; unit++)
    seconds *= 1e3;
  snprintf(text, UNITS_TEXT, "%.3g %s", seconds, names[unit]);
  return text;
}

const char *units_factor(double factor, char text[UNITS_TEXT]) {
  if (factor >= 1000 && factor < 1e6) {
    double step = factor < 1e4 ? 10 : factor < 1e5 ? 100 : 1000;
    snprintf(text, UNITS_TEXT, "%.0f", round(factor / step) * step);
  } else {
    snprintf(text, UNITS_TEXT, "%.3g", factor);
  }
  return text;
}

const char *units_share(double share, char text[UNITS_TEXT]) {
  if (share > 0 && share < 1e-4)
    snprintf(text, UNITS_TEXT, "< 0.01 %%");
  else
    snprintf(text, UNITS_TEXT, "%.3g %%", 100 * share);
  return text;
}

static int side_of(double x, double limit) {
  return (x > limit) - (x < limit);
}

const char *units_measured(double measured, double limit, char text[UNITS_TEXT]) {
  enum { DIGITS = 6, ALL_DIGITS = 17 };
  int digits = DIGITS;
  do
    snprintf(text, UNITS_TEXT, "%.*g", digits, measured);
  while (digits++ < ALL_DIGITS && side_of(strtod(text, NULL), limit) != side_of(measured, limit));
  return isnan(measured) ? strcpy(text, "-") : text;
}
