// Amounts as people read them: three digits or so, and a unit that fits.
#ifndef UNITS_H
#define UNITS_H

enum { UNITS_TEXT = 32 };
const char *units_bytes(double bytes, char text[UNITS_TEXT]);      // "900 B", "42.9 KiB"
const char *units_seconds(double seconds, char text[UNITS_TEXT]);  // "20 ns", "1.93 ms"

// A factor in three digits, written out where people do: "1.5", "4570", "2.5e+09".
const char *units_factor(double factor, char text[UNITS_TEXT]);

// A share in percent, as the report writes it: "0 %", "< 0.01 %", "6.77 %".
const char *units_share(double share, char text[UNITS_TEXT]);

// In six digits, or as many more as show on which side of the limit it is; "-" for NaN.
const char *units_measured(double measured, double limit, char text[UNITS_TEXT]);

// What makes a noun plural: "%d node%s" with a count and PLURAL(count).
#define PLURAL(count) ((count) == 1 ? "" : "s")

#endif
