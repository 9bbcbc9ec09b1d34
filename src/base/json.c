// Reading JSON. cJSON builds the tree, but it accepts texts that are not JSON, says only that it
// failed, keeps the first of two equal keys and allows deep nesting; so a strict scanner walks the
// text first, and can say line and column. The same scanner finds the line of a member again, which
// saves keeping a position per value.
#include "json.h"

#include "file.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
  VALUES_MAX = 1 << 25,      // cJSON takes about 100 bytes for each
  NUMBER_LENGTH_MAX = 60,    // cJSON cuts longer ones
  SMALL_OBJECT = 12,         // members up to which comparing all pairs is fastest
  WHOLE_FILE_MAX = 1 << 30,  // bytes
};

struct scan {
  const char *at;
  int values;
  const char *error;  // what is wrong at `at`, or NULL
};

static bool fail_at(struct scan *s, const char *at, const char *error) {
  s->at = at;
  s->error = error;
  return false;
}

static void skip_space(struct scan *s) {
  while (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r')
    s->at++;
}

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

static bool skip_escape(struct scan *s) {
  const char *p = s->at;  // at the backslash
  if (p[1] && strchr("\"\\/bfnrt", p[1])) {
    s->at += 2;
    return true;
  }
  if (p[1] != 'u')
    return fail_at(s, p, "unknown escape in a string");
  int code = hex4(p + 2);
  if (code < 0)
    return fail_at(s, p, "\\u needs four hexadecimal digits");
  if (code == 0)
    return fail_at(s, p, "\\u0000 in a string is not supported");
  s->at += 6;
  if (code < 0xd800 || code > 0xdfff)
    return true;
  int low = code < 0xdc00 && s->at[0] == '\\' && s->at[1] == 'u' ? hex4(s->at + 2) : -1;
  if (low < 0xdc00 || low > 0xdfff)
    return fail_at(s, p, "half of a surrogate pair");
  s->at += 6;
  return true;
}

static bool skip_string(struct scan *s) {
  if (*s->at != '"')
    return fail_at(s, s->at, "expected a string in double quotes");
  const char *begin = s->at++;
  while (*s->at != '"') {
    unsigned char c = (unsigned char)*s->at;
    if (c == '\0')
      return fail_at(s, begin, "this string does not end");
    if (c < 0x20)
      return fail_at(s, s->at, "a control character in a string; write it as an escape");
    if (c == '\\') {
      if (!skip_escape(s))
        return false;
      continue;
    }
    int length = c < 0x80 ? 1 : json_utf8_length(s->at);
    if (length == 0)
      return fail_at(s, s->at, "not UTF-8");
    s->at += length;
  }
  s->at++;
  return true;
}

static bool skip_digits(struct scan *s) {
  const char *begin = s->at;
  while (*s->at >= '0' && *s->at <= '9')
    s->at++;
  return s->at > begin;
}

static bool skip_number(struct scan *s) {
  const char *begin = s->at;
  if (*s->at == '-')
    s->at++;
  const char *integer = s->at;
  if (!skip_digits(s))
    return fail_at(s, begin, "expected a value");
  if (*integer == '0' && s->at - integer > 1)
    return fail_at(s, begin, "a number must not start with 0");
  if (*s->at == '.') {
    s->at++;
    if (!skip_digits(s))
      return fail_at(s, begin, "a number needs digits after the point");
  }
  bool exponent = *s->at == 'e' || *s->at == 'E';
  if (exponent) {
    s->at++;
    if (*s->at == '+' || *s->at == '-')
      s->at++;
    if (!skip_digits(s))
      return fail_at(s, begin, "a number needs digits in the exponent");
  }
  if (s->at - begin > NUMBER_LENGTH_MAX)
    return fail_at(s, begin, "this number has too many digits");
  // The program never calls setlocale: strtod's decimal point is '.'.
  if (exponent && !isfinite(strtod(begin, NULL)))
    return fail_at(s, begin, "this number is out of range");
  return true;
}

static bool skip_word(struct scan *s) {
  static const char *const words[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    size_t length = strlen(words[i]);
    if (strncmp(s->at, words[i], length) == 0) {
      s->at += length;
      return true;
    }
  }
  return fail_at(s, s->at, *s->at ? "expected a value" : "the text ends too early");
}

static bool skip_value(struct scan *s, int depth);

// The rest of an object or array after a value: true if another value follows. A closed or broken
// container gives false; s->error tells them apart.
static bool more_values(struct scan *s, char close) {
  skip_space(s);
  if (*s->at == close) {
    s->at++;
    return false;
  }
  if (*s->at != ',')
    return fail_at(s, s->at,
                   *s->at == '\0' ? "the text ends too early"
                   : close == '}' ? "expected ',' or '}'"
                                  : "expected ',' or ']'");
  s->at++;
  skip_space(s);
  if (*s->at == close)
    return fail_at(s, s->at, "a comma before the end of a list");
  return true;
}

// Enters the container at s->at; true if it has a value.
static bool enter(struct scan *s, char close) {
  s->at++;
  skip_space(s);
  if (*s->at != close)
    return true;
  s->at++;
  return false;
}

// Skips a key and its colon; the key's opening quote is at *key.
static bool skip_key(struct scan *s, const char **key) {
  *key = s->at;
  if (!skip_string(s))
    return false;
  skip_space(s);
  if (*s->at != ':')
    return fail_at(s, s->at, "expected ':' after a key");
  s->at++;
  skip_space(s);
  return true;
}

static bool skip_container(struct scan *s, int depth) {
  if (depth == JSON_DEPTH)
    return fail_at(s, s->at, "nested too deep (64 levels at most)");
  bool object = *s->at == '{';
  char close = object ? '}' : ']';
  for (bool more = enter(s, close); more; more = more_values(s, close)) {
    const char *key;
    if (object && !skip_key(s, &key))
      return false;
    if (!skip_value(s, depth + 1))
      return false;
  }
  return !s->error;
}

static bool skip_value(struct scan *s, int depth) {
  if (++s->values > VALUES_MAX)
    return fail_at(s, s->at, "too many values");
  switch (*s->at) {
  case '{':
  case '[': return skip_container(s, depth);
  case '"': return skip_string(s);
  case '-':
  case '0':
  case '1':
  case '2':
  case '3':
  case '4':
  case '5':
  case '6':
  case '7':
  case '8':
  case '9': return skip_number(s);
  default: return skip_word(s);
  }
}

static const char *after_mark(const char *text) {
  return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

static int line_of(const char *text, const char *at) {
  int line = 1;
  for (const char *p = text; p < at; p++)
    line += *p == '\n';
  return line;
}

static void set_place(struct diag *d, const char *file, int line) {
  char place[sizeof d->file];
  if (line > 0)
    snprintf(place, sizeof place, "%.480s:%d", file, line);
  else
    snprintf(place, sizeof place, "%s", file);
  diag_at(d, place, NULL, NULL);
}

static enum status check_text(const char *text, const char *path, enum status status,
                              struct diag *d) {
  struct scan s = {.at = after_mark(text)};
  skip_space(&s);
  if (*s.at == '\0')
    fail_at(&s, s.at, "the file is empty");
  else if (skip_value(&s, 0)) {
    skip_space(&s);
    if (*s.at != '\0')
      fail_at(&s, s.at, "text after the end of the document");
  }
  if (!s.error)
    return STATUS_OK;
  if (s.at[0] == '/' && (s.at[1] == '/' || s.at[1] == '*'))
    s.error = "it has no comments; use \"why\" or \"description\"";
  const char *line_begin = s.at;
  while (line_begin > text && line_begin[-1] != '\n')
    line_begin--;
  set_place(d, path, line_of(text, s.at));
  return diag_fail(d, status, "not valid JSON: %s, at column %td", s.error, s.at - line_begin + 1);
}

// True if the string literal at `quote` stands for `key`, given as its plain bytes.
static bool key_equals(const char *quote, const char *end, const char *key) {
  size_t length = (size_t)(end - quote - 2);
  if (!memchr(quote, '\\', (size_t)(end - quote)) && !memchr(quote, 0xee, (size_t)(end - quote)))
    return strlen(key) == length && memcmp(quote + 1, key, length) == 0;
  cJSON *item = cJSON_ParseWithLength(quote, (size_t)(end - quote));
  if (!item || !item->valuestring) {
    cJSON_Delete(item);
    return false;
  }
  json_restore_bytes(item->valuestring);
  bool equal = strcmp(item->valuestring, key) == 0;
  cJSON_Delete(item);
  return equal;
}

// One step down: to the value of the `nth` member called `key`, or to element `index` if key is
// NULL. *place gets where the member begins.
static bool descend(struct scan *s, const char *key, int index, int nth, const char **place) {
  if (*s->at != (key ? '{' : '['))
    return false;
  char close = key ? '}' : ']';
  for (bool more = enter(s, close); more; more = more_values(s, close)) {
    *place = s->at;
    const char *quote = s->at;
    if (key) {
      if (!skip_string(s))
        return false;
      const char *end = s->at;
      s->at = quote;
      if (!skip_key(s, &quote))
        return false;
      if (key_equals(quote, end, key) && nth-- == 0)
        return true;
    } else if (index-- == 0) {
      return true;
    }
    if (!skip_value(s, 0))
      return false;
  }
  return false;
}

// Line of what `p` leads to; the last step takes the `nth` member of that key (0: the first).
static int path_line(const char *text, const struct json_path *p, int nth) {
  struct scan s = {.at = after_mark(text)};
  skip_space(&s);
  const char *place = s.at;
  for (int i = 0; i < p->depth; i++)
    if (!descend(&s, p->keys[i], p->indices[i], i + 1 == p->depth ? nth : 0, &place))
      return 0;
  return line_of(text, place);
}

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

static enum status fail_nth(const char *text, const char *file, const struct json_path *p, int nth,
                            enum status status, struct diag *d, const char *message) {
  char where[256];
  path_text(p, where, sizeof where);
  set_place(d, file, path_line(text, p, nth));
  return diag_fail(d, status, "%s%s%s", where, where[0] ? ": " : "", message);
}

enum status json_fail(const char *text, const char *file, const struct json_path *p,
                      enum status status, struct diag *d, const char *format, ...) {
  char message[sizeof d->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return fail_nth(text, file, p, 0, status, d, message);
}

static int compare_keys(const void *a, const void *b) {
  const cJSON *const *left = a, *const *right = b;
  return strcmp((*left)->string, (*right)->string);
}

// A member whose key an earlier one has too, or NULL.
static const cJSON *duplicate_member(const cJSON *object) {
  size_t count = 0;
  for (const cJSON *m = object->child; m; m = m->next)
    count++;
  if (count <= SMALL_OBJECT) {
    for (const cJSON *m = object->child; m; m = m->next)
      for (const cJSON *earlier = object->child; earlier != m; earlier = earlier->next)
        if (strcmp(m->string, earlier->string) == 0)
          return m;
    return NULL;
  }
  const cJSON **members = malloc(count * sizeof(*members));
  if (!members)
    out_of_memory(count * sizeof(*members));
  size_t n = 0;
  for (const cJSON *m = object->child; m; m = m->next)
    members[n++] = m;
  qsort(members, count, sizeof(*members), compare_keys);
  const cJSON *found = NULL;
  for (size_t i = 1; i < count && !found; i++)
    if (strcmp(members[i]->string, members[i - 1]->string) == 0)
      found = members[i];
  free(members);
  return found;
}

struct document {
  const char *text, *file;
  enum status status;
  struct diag *diag;
  struct json_path path;
};

// Restores strings and looks for duplicate keys, in `item` and below; outer ones first, so that the
// path to an inner one is unique. Depth is limited by the scanner.
static enum status finish_values(struct document *doc, cJSON *item) {
  if (cJSON_IsString(item))
    json_restore_bytes(item->valuestring);
  if (cJSON_IsObject(item)) {
    for (cJSON *m = item->child; m; m = m->next)
      json_restore_bytes(m->string);
    const cJSON *twice = duplicate_member(item);
    if (twice) {
      json_push_key(&doc->path, twice->string);
      return fail_nth(doc->text, doc->file, &doc->path, 1, doc->status, doc->diag,
                      "this key is given twice");
    }
  }
  int index = 0;
  for (cJSON *m = item->child; m; m = m->next, index++) {
    if (!m->child && !cJSON_IsString(m))
      continue;
    if (m->string)
      json_push_key(&doc->path, m->string);
    else
      json_push_index(&doc->path, index);
    TRY(finish_values(doc, m));
    json_pop(&doc->path);
  }
  return STATUS_OK;
}

enum status json_parse(cJSON **out, const char *text, const char *path, enum status status,
                       struct diag *d) {
  *out = NULL;
  TRY(check_text(text, path, status, d));
  cJSON *root = cJSON_Parse(after_mark(text));
  if (!root) {
    diag_at(d, path, NULL, NULL);
    return diag_fail(d, status, "cJSON cannot parse this text; memory may be short");
  }
  struct document doc = {.text = text, .file = path, .status = status, .diag = d};
  enum status result = finish_values(&doc, root);
  if (result != STATUS_OK)
    cJSON_Delete(root);
  else
    *out = root;
  return result;
}

enum status json_read(cJSON **out, const char **text, const char *path, enum status status,
                      struct arena *a, struct diag *d) {
  *out = NULL;
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(path, &bytes, &size, d));
  bool too_large = size > WHOLE_FILE_MAX;
  bool has_nul = !too_large && size > 0 && memchr(bytes, '\0', size);
  if (!too_large && !has_nul) {
    char *copy = arena_alloc(a, size + 1);
    if (size > 0)
      memcpy(copy, bytes, size);
    *text = copy;
  }
  file_unmap(bytes, size);
  if (too_large || has_nul) {
    diag_at(d, path, NULL, NULL);
    return diag_fail(d, status, "%s",
                     too_large ? "the file is over 1 GiB" : "not a text file: it holds a NUL byte");
  }
  return json_parse(out, *text, path, status, d);
}
