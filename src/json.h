// JSON beside cJSON: what cJSON does not do. Line numbers for messages, duplicate keys found,
// limits on depth and size, and a writer for files with stable key order that are easy to diff.
#ifndef JSON_H
#define JSON_H

#include "arena.h"
#include "diag.h"

#include <cjson/cJSON.h>

// Parses text (UTF-8, NUL-terminated). Duplicate keys in one object, trailing text, depth over 64:
// an error of `status` with path and line. The result is malloc'ed: cJSON_Delete. The text must
// stay for json_line.
enum status json_parse(cJSON **out, const char *text, const char *path, enum status status,
                       struct diag *d);

// Reads a whole file to the arena (limit: 1 GiB) and parses it; *text gets the text.
enum status json_read(cJSON **out, const char **text, const char *path, enum status status,
                      struct arena *a, struct diag *d);

// Line (from 1) of the object member reached by `path` from the root, e.g. {"rules", "[3]",
// "class"}: found again in the text by a small scanner; 0 if there is no such member.
int json_line(const char *text, const char *const *path, int depth);

// A writer that streams: objects and arrays nested, 1 value a line unless `inline_` is on. Numbers
// are written so that reading them back gives the same value, and the same bytes on every machine.
struct json_writer {
  FILE *out;
  int depth;
  int inline_depth;  // containers at this depth or deeper are written on one line
  bool first[64];
};
void json_object(struct json_writer *w,
                 const char *key);  // key NULL inside an array or at the root
void json_array(struct json_writer *w, const char *key);
void json_end_object(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_string(struct json_writer *w, const char *key, const char *value);
void json_number(struct json_writer *w, const char *key, double value);  // inf, nan: as strings
void json_integer(struct json_writer *w, const char *key, int64_t value);
void json_bool(struct json_writer *w, const char *key, bool value);

// Nearest of the NULL-terminated `names` to `word` by edit distance, or NULL if none is near.
const char *nearest_name(const char *word, const char *const *names);

#endif
