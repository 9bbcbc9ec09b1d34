// Reads JSON objects by tables: for each key of an object a row that says how its value is read,
// where to, and what it may be. From the tables one function finds unknown, missing and mistyped
// keys, so that a mistake is always an error (STATUS_POLICY) with its path, its line and the
// nearest valid name, and never a silent default.
#ifndef FIELDS_H
#define FIELDS_H

#include "json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
  const struct json *root;  // the document
  const char *file;         // its name for messages
  struct json_path path;
  struct arena *arena;  // of what is read
  struct diag *diag;
};

struct field {
  const char *key;
  // Reads the member's value to the object at `base`.
  enum status (*read)(struct reader *r, const struct json *value, const struct field *f,
                      void *base);
  size_t offset;  // in the object
  bool optional;
  double min, max;             // of numbers
  const char *const *choices;  // of strings, NULL-terminated
  const struct field *fields;  // of a section: an object whose members land in the same struct
};

// The messages' common form; the format must be a literal.
#define FIELDS_FAIL(r, ...)                                                                        \
  json_fail((r)->root, (r)->file, &(r)->path, STATUS_POLICY, (r)->diag, __VA_ARGS__)

// Rows of a table, which END ends. NUMBER, INTEGER: `member` of `type`, from min to max.
#define END                                                                                        \
  { NULL, NULL, 0, false, 0, 0, NULL, NULL }
#define REMARK(key)                                                                                \
  { key, fields_read_remark, 0, true, 0, 0, NULL, NULL }
#define STRING(type, key, member)                                                                  \
  { key, fields_read_string, offsetof(type, member), false, 0, 0, NULL, NULL }
#define GLOBS(type, key, member, least)                                                            \
  { key, fields_read_globs, offsetof(type, member), true, least, 0, NULL, NULL }
#define NUMBER(type, key, member, min, max)                                                        \
  { key, fields_read_number, offsetof(type, member), false, min, max, NULL, NULL }
#define INTEGER(type, key, member, min, max)                                                       \
  { key, fields_read_integer, offsetof(type, member), false, min, max, NULL, NULL }
#define CHOICE(type, read, key, member, names)                                                     \
  { key, read, offsetof(type, member), false, 0, 0, names, NULL }
#define SPECIAL(key, read)                                                                         \
  { key, read, 0, false, 0, 0, NULL, NULL }
#define SECTION(key, fields)                                                                       \
  { key, fields_read_section, 0, false, 0, 0, NULL, fields }

// An object of the fields, read to the struct at `base`.
enum status fields_read_object(struct reader *r, const struct json *object,
                               const struct field *fields, void *base);

// Readers for rows. Strings, lists and globs must not be empty (of globs, `min` 0 allows it). A
// remark is a string that nobody keeps; a choice is the index among the row's choices, written as
// an int; a switch is a choice of two, written as a bool.
typedef enum status fields_reader(struct reader *r, const struct json *value, const struct field *f,
                                  void *base);
fields_reader fields_read_section, fields_read_string, fields_read_remark, fields_read_number,
    fields_read_integer, fields_read_bool, fields_read_choice, fields_read_switch,
    fields_read_globs;

// The index of a string among NULL-terminated choices.
enum status fields_find_choice(struct reader *r, const struct json *value,
                               const char *const *choices, int *index);

// Hints at the nearest of NULL-terminated names to `word`, if one is near, and lists them all:
// `what` says what they are. The arena need not outlive the call.
void fields_hint_names(const char *word, const char *const *names, const char *what,
                       struct arena *a, struct diag *d);

// That the value is a list of 1 to max elements; their number.
enum status fields_check_list(struct reader *r, const struct json *value, int max, int *count);

#endif
