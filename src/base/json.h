// JSON: a reader that is strict, builds a tree in one pass and says line and path of what is wrong,
// and a writer for files with stable key order that are easy to diff.
#ifndef JSON_H
#define JSON_H

#include "arena.h"
#include "diag.h"

#include <stdbool.h>
#include <stdint.h>

enum json_type {
  JSON_NULL,
  JSON_FALSE,
  JSON_TRUE,
  JSON_NUMBER,
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT
};

// A value. What is not of its type is zero or NULL.
struct json {
  const char *key;  // of a member of an object
  const char *text;
  double number;
  struct json *first;  // child of an array or object
  struct json *next;   // sibling
  enum json_type type;
  int line;  // where it begins, from 1
};

// Parses text (RFC 8259, UTF-8 with or without a byte order mark, NUL-terminated). Besides what the
// grammar forbids, an error of `status` with path and line are: duplicate keys in one object, depth
// over 64, over 2^25 values, \u0000 in a string, a number that no finite double is near. Strings
// come out as json_string got them, byte for byte. The tree and its strings are in the arena.
enum status json_parse(const struct json **out, const char *text, const char *path,
                       enum status status, struct arena *a, struct diag *d);

// Reads a whole file to the arena (limit: 1 GiB), and parses it. One that cannot be read is
// STATUS_IO; one that holds a NUL is an error of `status`.
enum status json_read_text(char **text, const char *path, enum status status, struct arena *a,
                           struct diag *d);
enum status json_read(const struct json **out, const char *path, enum status status,
                      struct arena *a, struct diag *d);

// Look-ups in what may be of any type, or NULL: then nothing is found. An index counts from 0.
bool json_is(const struct json *value, enum json_type type);
bool json_is_bool(const struct json *value);
const struct json *json_first(const struct json *value);  // child
int json_count(const struct json *value);                 // of children
const struct json *json_member(const struct json *object, const char *key);
const struct json *json_element(const struct json *array, int index);

// Where a reader is in the document, for its messages: the way down from the root.
enum { JSON_DEPTH = 64 };
struct json_path {
  const char *keys[JSON_DEPTH];  // of a member of an object; NULL: element of an array
  int indices[JSON_DEPTH];       // of an element of an array, from 0
  int depth;
};
void json_push_key(struct json_path *p, const char *key);
void json_push_index(struct json_path *p, int index);
void json_pop(struct json_path *p);

// Fails with "FILE:LINE" as the file and "rules[3].match.opp: MESSAGE" as the message; FILE alone
// if nothing is at that path.
enum status json_fail(const struct json *root, const char *file, const struct json_path *p,
                      enum status status, struct diag *d, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

// The number that json_number wrote: a number, or one of the strings "inf", "-inf", "nan". False
// for anything else.
bool json_to_number(const struct json *value, double *out);

// A writer that streams: objects and arrays nested, up to JSON_DEPTH, one value a line except in
// inline containers, and a line break after the root. Numbers are written so that reading them back
// gives the same value, and the same bytes on every machine (an integer over 2^53 is exact in the
// file, but read as a double). Strings may be any bytes: the file is valid UTF-8 all the same,
// since a byte that is not part of valid UTF-8 becomes \uefXX, a private-use character, which
// json_parse turns back.
struct json_writer {
  FILE *out;
  int depth;
  int inline_depth;  // containers at this depth (the root's is 0) or deeper are on one line
  bool first[JSON_DEPTH];
};
// key is NULL inside an array and at the root.
void json_object(struct json_writer *w, const char *key);
void json_array(struct json_writer *w, const char *key);
void json_end_object(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_string(struct json_writer *w, const char *key, const char *value);
void json_number(struct json_writer *w, const char *key, double value);  // inf, nan: as strings
void json_integer(struct json_writer *w, const char *key, int64_t value);
void json_bool(struct json_writer *w, const char *key, bool value);

// Bytes of the UTF-8 character at `text`: 1 to 4, or 0 if it is not valid or the text ends there.
int json_utf8_length(const char *text);

// The byte that the character at `text` stands for in a file of json_string, or 0.
int json_stand_in(const char *text);

#endif
