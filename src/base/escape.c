// Escapes: see escape.h. What is shown at all, one function decides for all of them; each language
// then has a few characters more that mean something in it.
#include "escape.h"

#include "json.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

static bool turns_text_around(const char *p) {  // U+202A-202E, U+2066-2069, U+200E, U+200F
  return p[0] == '\xe2' &&
         ((p[1] == '\x80' && ((unsigned char)p[2] >= 0xaa || p[2] == '\x8e' || p[2] == '\x8f') &&
           (unsigned char)p[2] <= 0xae) ||
          (p[1] == '\x81' && (unsigned char)p[2] >= 0xa6 && (unsigned char)p[2] <= 0xa9));
}

size_t escape_character(const char *text, FILE *out) {
  int length = json_utf8_length(text);
  bool shown = length > 0 && (unsigned char)*text >= 0x20 && *text != 0x7f &&
               !(length == 3 && turns_text_around(text)) &&
               !(length == 2 && *text == '\xc2' && (unsigned char)text[1] < 0xa0);
  if (shown)
    fwrite(text, 1, (size_t)length, out);
  else
    putc('?', out);
  return length > 0 ? (size_t)length : 1;
}

void escape_terminal(const char *text, FILE *out) {
  while (*text)
    text += escape_character(text, out);
}

// Prints what the conversion at `format` asks for. Returns its length.
static size_t print_conversion(const char *format, va_list *arguments, FILE *out) {
  char one[16];
  size_t length = 1 + strspn(format + 1, "-+ #0.123456789lz") + 1;
  assert(length < sizeof one);
  memcpy(one, format, length);
  one[length] = '\0';
  switch (one[length - 1]) {
  case '%': putc('%', out); break;
  case 's':
    assert(length == 2);  // text has no width: what is escaped may have another
    escape_terminal(va_arg(*arguments, const char *), out);
    break;
  case 'd':
    if (one[length - 2] == 'l')
      fprintf(out, one, va_arg(*arguments, long));
    else
      fprintf(out, one, va_arg(*arguments, int));
    break;
  case 'u':
    if (one[length - 2] == 'z')
      fprintf(out, one, va_arg(*arguments, size_t));
    else
      fprintf(out, one, va_arg(*arguments, unsigned long));
    break;
  case 'f':
  case 'g': fprintf(out, one, va_arg(*arguments, double)); break;
  default: assert(false);  // no other conversion is known here
  }
  return length;
}

void escape_printf(FILE *out, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  while (*format) {
    size_t plain = strcspn(format, "%");
    fwrite(format, 1, plain, out);
    format += plain;
    if (*format)
      format += print_conversion(format, &arguments, out);
  }
  va_end(arguments);
}

void escape_html(const char *text, FILE *out) {
  while (*text)
    if (strchr("&<>\"'", *text))
      fprintf(out, "&#%d;", *text++);
    else
      text += escape_character(text, out);
}

// A table's cell ends at '|', in a code span too.
static size_t markdown_character(const char *text, FILE *out) {
  if (*text == '|')
    putc('\\', out);
  return escape_character(text, out);
}

void escape_markdown(const char *text, FILE *out) {
  while (*text) {
    if (*text == '@' || *text == '#') {
      fprintf(out, "\\%c\xe2\x81\xa0", *text++);  // a word joiner: what follows is no name
      continue;
    }
    if (strchr("\\`*_{}[]<>&~!", *text) || (*text == ':' && text[1] == '/'))
      putc('\\', out);
    text += markdown_character(text, out);
  }
}

// The fence is longer than any run of backticks inside.
void escape_markdown_code(const char *text, size_t longest, FILE *out) {
  static const char fence[] = "``````````";
  size_t most = 0, run = 0, shown = 0;
  for (const char *p = text; *p; p++) {
    run = *p == '`' ? run + 1 : 0;
    most = run > most ? run : most;
  }
  if (!*text || most + 1 >= sizeof fence) {
    fputs(*text ? "(a name of backticks)" : "(no name)", out);
    return;
  }
  const char *space = most || text[0] == ' ' ? " " : "";
  fprintf(out, "%.*s%s", (int)most + 1, fence, space);
  for (; *text && shown < longest; shown++)
    text += markdown_character(text, out);
  fprintf(out, "%s%s%.*s", *text ? "..." : "", space, (int)most + 1, fence);
}
