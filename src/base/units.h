// Amounts as people read them: three digits or so, and a unit that fits.
#ifndef UNITS_H
#define UNITS_H

enum { UNITS_TEXT = 32 };
const char *units_bytes(double bytes, char text[UNITS_TEXT]);      // "900 B", "42.9 KiB"
const char *units_seconds(double seconds, char text[UNITS_TEXT]);  // "20 ns", "1.93 ms"

#endif
