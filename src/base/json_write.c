// Writing JSON: a stream rather than a tree, so that a plan of 100,000 nodes costs no memory, with
// the layout, key order and number texts fixed, so that the same values give the same bytes. Names
// come from models and may be any bytes; see json.h for how they survive.
#include "decimal.h"
#include "json.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int json_utf8_length(const char *text) {
  const unsigned char *t = (const unsigned char *)text;
  // Smallest second bytes exclude overlong forms, largest ones surrogates and all over U+10FFFF.
  static const struct {
    unsigned char first, last, low, high;
    int length;
  } forms[] = {
      {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    if (t[0] < forms[i].first || t[0] > forms[i].last)
      continue;
    if (forms[i].length > 1 && (t[1] < forms[i].low || t[1] > forms[i].high))
      return 0;
    for (int k = 2; k < forms[i].length; k++)
      if (t[k] < 0x80 || t[k] > 0xbf)
        return 0;
    return forms[i].length;
  }
  return 0;
}

// U+EF80 to U+EFFF stand for the bytes 0x80 to 0xff that are not part of valid UTF-8. In UTF-8 they
// are EE BE 80 to EE BF BF. Where such a character is itself in a string, its three bytes are
// written as if they were invalid, so that reading gives back exactly what was written.
int json_stand_in(const char *text) {
  const unsigned char *t = (const unsigned char *)text;
  if (t[0] != 0xee || (t[1] != 0xbe && t[1] != 0xbf) || t[2] == 0)
    return 0;
  return 0x80 | (t[1] & 1) << 6 | (t[2] & 0x3f);
}

static void put_text(FILE *out, const char *text) {
  for (; *text; text++)
    putc_unlocked(*text, out);
}

static void write_ascii_escape(FILE *out, unsigned char c) {
  static const char shorts[][3] = {"\"\"", "\\\\", "\nn", "\rr", "\tt", "\bb", "\ff"};
  for (size_t i = 0; i < sizeof shorts / sizeof shorts[0]; i++) {
    if ((unsigned char)shorts[i][0] == c) {
      fprintf(out, "\\%c", shorts[i][1]);
      return;
    }
  }
  fprintf(out, "\\u%04x", c);
}

static void write_string(FILE *out, const char *text) {
  putc_unlocked('"', out);
  while (*text) {
    unsigned char c = (unsigned char)*text;
    int length = c < 0x80 ? 1 : json_utf8_length(text);
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) {
      write_ascii_escape(out, c);
    } else if (length == 0 || (c >= 0x80 && json_stand_in(text))) {
      fprintf(out, "\\uef%02x", c);
      length = 1;
    } else {
      for (int i = 0; i < length; i++)
        putc_unlocked(text[i], out);
    }
    text += length;
  }
  putc_unlocked('"', out);
}

static bool is_inline(const struct json_writer *w) {
  return w->depth > w->inline_depth;
}

static void break_line(struct json_writer *w) {
  putc_unlocked('\n', w->out);
  for (int i = 0; i < w->depth; i++)
    put_text(w->out, "  ");
}

// Comma, line break and key before a value.
static void begin_value(struct json_writer *w, const char *key) {
  if (w->depth == 0)
    return;
  if (!w->first[w->depth - 1])
    put_text(w->out, is_inline(w) ? ", " : ",");
  w->first[w->depth - 1] = false;
  if (!is_inline(w))
    break_line(w);
  if (key) {
    write_string(w->out, key);
    put_text(w->out, ": ");
  }
}

static void open_container(struct json_writer *w, const char *key, char bracket) {
  assert(w->depth < JSON_DEPTH);
  begin_value(w, key);
  putc_unlocked(bracket, w->out);
  w->first[w->depth++] = true;
}

static void close_container(struct json_writer *w, char bracket) {
  assert(w->depth > 0);
  bool empty = w->first[w->depth - 1];
  bool one_line = is_inline(w);
  w->depth--;
  if (!empty && !one_line)
    break_line(w);
  putc_unlocked(bracket, w->out);
  if (w->depth == 0)
    putc_unlocked('\n', w->out);
}

void json_object(struct json_writer *w, const char *key) {
  open_container(w, key, '{');
}

void json_array(struct json_writer *w, const char *key) {
  open_container(w, key, '[');
}

void json_end_object(struct json_writer *w) {
  close_container(w, '}');
}

void json_end_array(struct json_writer *w) {
  close_container(w, ']');
}

void json_string(struct json_writer *w, const char *key, const char *value) {
  begin_value(w, key);
  write_string(w->out, value);
}

void json_bool(struct json_writer *w, const char *key, bool value) {
  begin_value(w, key);
  put_text(w->out, value ? "true" : "false");
}

void json_number(struct json_writer *w, const char *key, double value) {
  if (!isfinite(value)) {
    json_string(w, key, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return;
  }
  char text[DECIMAL_TEXT];
  decimal_print(text, value);
  begin_value(w, key);
  put_text(w->out, text);
}

void json_integer(struct json_writer *w, const char *key, int64_t value) {
  char text[DECIMAL_TEXT];
  decimal_digits(text, value < 0 ? -(uint64_t)value : (uint64_t)value);
  begin_value(w, key);
  if (value < 0)
    putc_unlocked('-', w->out);
  put_text(w->out, text);
}

bool json_to_number(const struct json *value, double *out) {
  static const struct {
    const char *text;
    double value;
  } words[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
  if (json_is(value, JSON_NUMBER)) {
    *out = value->number;
    return true;
  }
  for (size_t i = 0; json_is(value, JSON_STRING) && i < sizeof words / sizeof words[0]; i++) {
    if (strcmp(value->text, words[i].text) == 0) {
      *out = words[i].value;
      return true;
    }
  }
  return false;
}
