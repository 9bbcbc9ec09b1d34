// Text that is not ours: names from models, file names and messages of an engine may be any bytes.
// Written by these functions it is shown, and does nothing else, wherever it goes: each byte that
// is no part of valid UTF-8, each control character and each character that changes the direction
// of writing (with which a name can look like another) becomes '?'.
#ifndef ESCAPE_H
#define ESCAPE_H

#include <stddef.h>
#include <stdio.h>

// The character at `text`, which must not be at its end. Returns its bytes.
size_t escape_character(const char *text, FILE *out);

void escape_terminal(const char *text, FILE *out);

// As fprintf, but that each %s is escaped so; the format's own line ends are the only ones. Takes
// %s, %d, %ld, %zu, %lu, and %f and %g with a width or a precision, not '*'.
void escape_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

// In an element or in a quoted attribute.
void escape_html(const char *text, FILE *out);

// In a sentence or in a cell of a table, as GitHub reads them: no markup, no HTML, and no link or
// mention that a bare '@', '#' or address would make.
void escape_markdown(const char *text, FILE *out);

// As a code span, also in a cell of a table, of at most `longest` characters; "..." stands for the
// rest.
void escape_markdown_code(const char *text, size_t longest, FILE *out);

#endif
