// Doubles as decimal numbers. What printf and strtod do for any number takes them a microsecond;
// most numbers of a file are found, and known to be right, by one exact product or quotient.
#ifndef DECIMAL_H
#define DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

// The double nearest to digits * 10^exponent. False if one operation does not give it for certain.
bool decimal_value(uint64_t digits, int64_t exponent, double *value);

// Writes a finite value with the fewest of 15 to 17 significant digits that read back as it, in the
// form that printf's %g gives them, with a point in every locale.
enum { DECIMAL_TEXT = 32 };
void decimal_print(char text[DECIMAL_TEXT], double value);

// An integer's digits, without a sign; their number.
int decimal_digits(char text[DECIMAL_TEXT], uint64_t n);

#endif
