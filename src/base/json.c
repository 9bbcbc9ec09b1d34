// Reading JSON in one pass: the text is copied once, strings are decoded in place in the copy, and
// values lie in the arena, so that a plan of 100,000 nodes is read in the time that its bytes take.
// A library's tree was not strict enough for files of unknown origin, and the second pass that made
// up for it took longer than this one. Each value knows its line; the path is the reader's.
#include "json.h"

#include "decimal.h"
#include "file.h"
#include "map.h"

#include <assert.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
  VALUES_MAX = 1 << 25,
  NUMBER_LENGTH_MAX = 60,
  SMALL_OBJECT = 24,         // members up to which comparing all pairs is fastest
  WHOLE_FILE_MAX = 1 << 30,  // bytes
};

struct parser {
  char *at;
  const char *line_begin;
  int line;
  int values;
  const char *error;  // what is wrong at `at`, or NULL
  struct arena *arena;
  struct json_path path;     // of the value that is read
  const struct json *twice;  // a member whose key an earlier one has; the path leads to its object
};

static bool fail_at(struct parser *p, char *at, const char *error) {
  p->at = at;
  p->error = error;
  return false;
}

static void skip_space(struct parser *p) {
  for (;; p->at++) {
    if (*p->at == '\n') {
      p->line++;
      p->line_begin = p->at + 1;
    } else if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r') {
      return;
    }
  }
}

// ---- strings ----

// Value of the four hexadecimal digits at p, or -1.
static int hex4(const char *p) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *digit = p[i] ? strchr(digits, p[i]) : NULL;
    if (!digit)
      return -1;
    value = value * 16 + (int)((digit - digits) % 16);
  }
  return value;
}

static char *put_utf8(char *out, int code) {
  static const int lead[] = {0, 0xc0, 0xe0, 0xf0};
  int tail = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // bytes after the first
  *out++ = (char)(lead[tail] | code >> 6 * tail);
  while (tail-- > 0)
    *out++ = (char)(0x80 | (code >> 6 * tail & 0x3f));
  return out;
}

// Decodes the escape at p->at to *out, which it moves on.
static bool read_escape(struct parser *p, char **out) {
  static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  char *begin = p->at;
  const char *letter = begin[1] ? strchr(letters, begin[1]) : NULL;
  if (letter) {
    *(*out)++ = meant[letter - letters];
    p->at += 2;
    return true;
  }
  if (begin[1] != 'u')
    return fail_at(p, begin, "unknown escape in a string");
  int code = hex4(begin + 2);
  if (code < 0)
    return fail_at(p, begin, "\\u needs four hexadecimal digits");
  if (code == 0)
    return fail_at(p, begin, "\\u0000 in a string is not supported");
  p->at += 6;
  if (code >= 0xd800 && code <= 0xdfff) {
    int low = code < 0xdc00 && p->at[0] == '\\' && p->at[1] == 'u' ? hex4(p->at + 2) : -1;
    if (low < 0xdc00 || low > 0xdfff)
      return fail_at(p, begin, "half of a surrogate pair");
    p->at += 6;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  char utf8[5] = {0};
  size_t length = (size_t)(put_utf8(utf8, code) - utf8);
  int byte = json_stand_in(utf8);
  if (byte)
    *(*out)++ = (char)byte;
  for (size_t i = 0; !byte && i < length; i++)
    *(*out)++ = utf8[i];
  return true;
}

static bool is_plain(unsigned char c) {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

// Decodes the string at p->at in place: what it stands for is never longer than it is.
static bool read_string(struct parser *p, const char **text) {
  char *begin = p->at;
  if (*begin != '"')
    return fail_at(p, begin, "expected a string in double quotes");
  char *out = ++p->at;
  *text = out;
  for (;;) {
    char *run = p->at;
    while (is_plain((unsigned char)*p->at))
      p->at++;
    size_t length = (size_t)(p->at - run);
    if (out != run)
      memmove(out, run, length);
    out += length;
    unsigned char c = (unsigned char)*p->at;
    if (c == '"')
      break;
    if (c == '\0')
      return fail_at(p, begin, "this string does not end");
    if (c < 0x20)
      return fail_at(p, p->at, "a control character in a string; write it as an escape");
    if (c == '\\') {
      if (!read_escape(p, &out))
        return false;
      continue;
    }
    length = (size_t)json_utf8_length(p->at);
    if (length == 0)
      return fail_at(p, p->at, "not UTF-8");
    int byte = json_stand_in(p->at);
    if (byte)
      *out++ = (char)byte;
    for (size_t i = 0; !byte && i < length; i++)
      *out++ = p->at[i];
    p->at += length;
  }
  p->at++;
  *out = '\0';  // on the closing quote or before it
  return true;
}

// ---- numbers ----

// By the library, whatever decimal point a caller's setlocale has chosen.
static double number_of_text(const char *begin, size_t length) {
  char copy[NUMBER_LENGTH_MAX + 1];
  memcpy(copy, begin, length);
  copy[length] = '\0';
  char *point = strchr(copy, '.');
  if (point)
    *point = localeconv()->decimal_point[0];
  return strtod(copy, NULL);
}

// Skips digits and appends them to *number, which stays over 2^53 once it is; their count.
static int read_digits(struct parser *p, int64_t *number) {
  const int64_t exact_most = (int64_t)1 << 53, beyond = (int64_t)1 << 60;
  const char *begin = p->at;
  for (; *p->at >= '0' && *p->at <= '9'; p->at++)
    *number = *number <= exact_most ? *number * 10 + (*p->at - '0') : beyond;
  return (int)(p->at - begin);
}

static bool read_number(struct parser *p, double *value) {
  char *begin = p->at;
  p->at += *begin == '-';
  int64_t digits = 0, exponent = 0;
  char first = *p->at;
  int integers = read_digits(p, &digits), decimals = 0;
  if (integers == 0)
    return fail_at(p, begin, "expected a value");
  if (first == '0' && integers > 1)
    return fail_at(p, begin, "a number must not start with 0");
  if (*p->at == '.') {
    p->at++;
    decimals = read_digits(p, &digits);
    if (decimals == 0)
      return fail_at(p, begin, "a number needs digits after the point");
  }
  if (*p->at == 'e' || *p->at == 'E') {
    p->at++;
    int sign = *p->at == '-' ? -1 : 1;
    p->at += *p->at == '+' || *p->at == '-';
    if (read_digits(p, &exponent) == 0)
      return fail_at(p, begin, "a number needs digits in the exponent");
    exponent *= sign;
  }
  if (p->at - begin > NUMBER_LENGTH_MAX)
    return fail_at(p, begin, "this number has too many digits");
  if (decimal_value((uint64_t)digits, exponent - decimals, value)) {
    *value = *begin == '-' ? -*value : *value;
    return true;
  }
  *value = number_of_text(begin, (size_t)(p->at - begin));
  return isfinite(*value) || fail_at(p, begin, "this number is out of range");
}

// ---- values ----

static bool read_word(struct parser *p, enum json_type *type) {
  static const struct {
    const char *text;
    size_t length;
    enum json_type type;
  } words[] = {{"true", 4, JSON_TRUE}, {"false", 5, JSON_FALSE}, {"null", 4, JSON_NULL}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strncmp(p->at, words[i].text, words[i].length) == 0) {
      p->at += words[i].length;
      *type = words[i].type;
      return true;
    }
  }
  return fail_at(p, p->at, *p->at ? "expected a value" : "the text ends too early");
}

// The rest of an object or array after a value: true if another value follows. A closed or broken
// container gives false; p->error tells them apart.
static bool more_values(struct parser *p, char close) {
  skip_space(p);
  if (*p->at == close) {
    p->at++;
    return false;
  }
  if (*p->at != ',')
    return fail_at(p, p->at,
                   *p->at == '\0' ? "the text ends too early"
                   : close == '}' ? "expected ',' or '}'"
                                  : "expected ',' or ']'");
  p->at++;
  skip_space(p);
  if (*p->at == close)
    return fail_at(p, p->at, "a comma before the end of a list");
  return true;
}

// Enters the container at p->at; true if it has a value.
static bool enter(struct parser *p, char close) {
  p->at++;
  skip_space(p);
  if (*p->at != close)
    return true;
  p->at++;
  return false;
}

// A key and its colon.
static bool read_key(struct parser *p, const char **key) {
  if (!read_string(p, key))
    return false;
  skip_space(p);
  if (*p->at != ':')
    return fail_at(p, p->at, "expected ':' after a key");
  p->at++;
  skip_space(p);
  return true;
}

static bool same_text(const char *a, const char *b) {
  return a[0] == b[0] && strcmp(a, b) == 0;
}

// A member whose key an earlier one has too, or NULL.
static const struct json *duplicate_member(const struct json *object, int count) {
  if (count <= SMALL_OBJECT) {
    for (const struct json *m = object->first; m; m = m->next)
      for (const struct json *earlier = object->first; earlier != m; earlier = earlier->next)
        if (same_text(m->key, earlier->key))
          return m;
    return NULL;
  }
  struct arena scratch = {0};
  struct map seen = {.arena = &scratch};
  const struct json *m = object->first;
  for (; m && map_get(&seen, 0, m->key) < 0; m = m->next)
    map_put(&seen, 0, m->key, 0);
  arena_free(&scratch);
  return m;
}

static bool read_value(struct parser *p, struct json *value);

static bool read_children(struct parser *p, struct json *value) {
  if (p->path.depth == JSON_DEPTH)
    return fail_at(p, p->at, "nested too deep (64 levels at most)");
  bool object = *p->at == '{';
  char close = object ? '}' : ']';
  value->type = object ? JSON_OBJECT : JSON_ARRAY;
  struct json **place = &value->first;
  int count = 0;
  for (bool more = enter(p, close); more; more = more_values(p, close), count++) {
    struct json *child = arena_alloc(p->arena, sizeof *child);
    child->line = p->line;
    if (object && !read_key(p, &child->key))
      return false;
    if (object)
      json_push_key(&p->path, child->key);
    else
      json_push_index(&p->path, count);
    if (!read_value(p, child))
      return false;
    json_pop(&p->path);
    *place = child;
    place = &child->next;
  }
  if (!p->error && object)
    p->twice = duplicate_member(value, count);
  return !p->error && !p->twice;
}

static bool read_value(struct parser *p, struct json *value) {
  if (++p->values > VALUES_MAX)
    return fail_at(p, p->at, "too many values");
  char c = *p->at;
  if (c == '{' || c == '[')
    return read_children(p, value);
  if (c == '"') {
    value->type = JSON_STRING;
    return read_string(p, &value->text);
  }
  if (c == '-' || (c >= '0' && c <= '9')) {
    value->type = JSON_NUMBER;
    return read_number(p, &value->number);
  }
  return read_word(p, &value->type);
}

static bool read_document(struct parser *p, struct json *root) {
  skip_space(p);
  root->line = p->line;
  if (*p->at == '\0')
    return fail_at(p, p->at, "the file is empty");
  if (!read_value(p, root))
    return false;
  skip_space(p);
  return *p->at == '\0' || fail_at(p, p->at, "text after the end of the document");
}

// ---- messages ----

void json_push_key(struct json_path *p, const char *key) {
  assert(p->depth < JSON_DEPTH && key);
  p->keys[p->depth++] = key;
}

void json_push_index(struct json_path *p, int index) {
  assert(p->depth < JSON_DEPTH);
  p->keys[p->depth] = NULL;
  p->indices[p->depth++] = index;
}

void json_pop(struct json_path *p) {
  assert(p->depth > 0);
  p->depth--;
}

// "rules[3].match.op"; cut where it does not fit.
static void path_text(const struct json_path *p, char *out, size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (int i = 0; i < p->depth && used < size; i++) {
    int n = p->keys[i] ? snprintf(out + used, size - used, "%s%s", used ? "." : "", p->keys[i])
                       : snprintf(out + used, size - used, "[%d]", p->indices[i]);
    used += n > 0 ? (size_t)n : 0;
  }
}

static void set_place(struct diag *d, const char *file, int line) {
  char place[sizeof d->file];
  if (line > 0)
    snprintf(place, sizeof place, "%.480s:%d", file, line);
  else
    snprintf(place, sizeof place, "%s", file);
  diag_at(d, place, NULL, NULL);
}

static enum status fail_on_line(int line, const char *file, const struct json_path *p,
                                enum status status, struct diag *d, const char *message) {
  char where[256];
  path_text(p, where, sizeof where);
  set_place(d, file, line);
  return diag_fail(d, status, "%s%s%s", where, where[0] ? ": " : "", message);
}

enum status json_fail(const struct json *root, const char *file, const struct json_path *p,
                      enum status status, struct diag *d, const char *format, ...) {
  char message[sizeof d->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  const struct json *value = root;
  for (int i = 0; i < p->depth; i++)
    value = p->keys[i] ? json_member(value, p->keys[i]) : json_element(value, p->indices[i]);
  return fail_on_line(value ? value->line : 0, file, p, status, d, message);
}

// ---- the whole ----

// As json_parse, of a text that may be changed and stays in the arena.
static enum status parse_in_place(const struct json **out, char *text, const char *path,
                                  enum status status, struct arena *a, struct diag *d) {
  *out = NULL;
  char *begin = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
  struct parser p = {.at = begin, .line_begin = text, .line = 1, .arena = a};
  struct json *root = arena_alloc(a, sizeof *root);
  if (read_document(&p, root)) {
    *out = root;
    return STATUS_OK;
  }
  if (p.twice) {
    json_push_key(&p.path, p.twice->key);
    return fail_on_line(p.twice->line, path, &p.path, status, d, "this key is given twice");
  }
  if (p.at[0] == '/' && (p.at[1] == '/' || p.at[1] == '*'))
    p.error = "it has no comments; use \"why\" or \"description\"";
  set_place(d, path, p.line);
  return diag_fail(d, status, "not valid JSON: %s, at column %td", p.error,
                   p.at - p.line_begin + 1);
}

enum status json_parse(const struct json **out, const char *text, const char *path,
                       enum status status, struct arena *a, struct diag *d) {
  return parse_in_place(out, arena_strdup(a, text), path, status, a, d);
}

enum status json_read_text(char **text, const char *path, enum status status, struct arena *a,
                           struct diag *d) {
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(path, &bytes, &size, d));
  bool too_large = size > WHOLE_FILE_MAX;
  bool has_nul = !too_large && size > 0 && memchr(bytes, '\0', size);
  if (!too_large && !has_nul) {
    *text = arena_alloc(a, size + 1);
    if (size > 0)
      memcpy(*text, bytes, size);
  }
  file_unmap(bytes, size);
  if (!too_large && !has_nul)
    return STATUS_OK;
  diag_at(d, path, NULL, NULL);
  return diag_fail(d, status, "%s",
                   too_large ? "the file is over 1 GiB" : "not a text file: it holds a NUL byte");
}

enum status json_read(const struct json **out, const char *path, enum status status,
                      struct arena *a, struct diag *d) {
  char *text;
  *out = NULL;
  TRY(json_read_text(&text, path, status, a, d));
  return parse_in_place(out, text, path, status, a, d);
}

// ---- look-ups ----

bool json_is(const struct json *value, enum json_type type) {
  return value && value->type == type;
}

bool json_is_bool(const struct json *value) {
  return json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE);
}

const struct json *json_first(const struct json *value) {
  return value ? value->first : NULL;
}

int json_count(const struct json *value) {
  int count = 0;
  for (const struct json *child = json_first(value); child; child = child->next)
    count++;
  return count;
}

const struct json *json_member(const struct json *object, const char *key) {
  const struct json *member = json_is(object, JSON_OBJECT) ? object->first : NULL;
  while (member && !same_text(member->key, key))
    member = member->next;
  return member;
}

const struct json *json_element(const struct json *array, int index) {
  const struct json *element = json_is(array, JSON_ARRAY) ? array->first : NULL;
  while (element && index-- > 0)
    element = element->next;
  return element;
}
