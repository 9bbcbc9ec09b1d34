// Amounts with their units. See units.h.
#include "units.h"

#include <stddef.h>
#include <stdio.h>

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
