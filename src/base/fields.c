// Reads JSON objects by tables of their fields. See fields.h.
#include "fields.h"
#include "nearest.h"

#include <math.h>
#include <string.h>

// "a, b, c" for hints.
static const char *join(struct arena *a, const char *const *names) {
  const char *text = "";
  for (; *names; names++)
    text = arena_printf(a, "%s%s%s", text, text[0] ? ", " : "", *names);
  return text;
}

void fields_hint_names(const char *word, const char *const *names, const char *what,
                       struct arena *a, struct diag *d) {
  const char *nearest = nearest_name(word, names);
  if (nearest)
    diag_hint(d, "Did you mean \"%s\"? %s: %s.", nearest, what, join(a, names));
  else
    diag_hint(d, "%s: %s.", what, join(a, names));
}

static const char *kind_name(const struct json *value) {
  return json_is(value, JSON_STRING)   ? "a string"
         : json_is(value, JSON_NUMBER) ? "a number"
         : json_is_bool(value)         ? "true or false"
         : json_is(value, JSON_ARRAY)  ? "a list"
         : json_is(value, JSON_OBJECT) ? "an object"
                                       : "null";
}

static enum status wrong_type(struct reader *r, const struct json *value, const char *expected) {
  return FIELDS_FAIL(r, "expected %s, found %s", expected, kind_name(value));
}

static int count_fields(const struct field *fields) {
  int count = 0;
  while (fields[count].key)
    count++;
  return count;
}

static enum status unknown_key(struct reader *r, const char *key, const struct field *fields) {
  const char **names = arena_array(r->arena, (size_t)count_fields(fields) + 1, sizeof *names);
  for (int i = 0; fields[i].key; i++)
    names[i] = fields[i].key;
  fields_hint_names(key, names, "The keys here are", r->arena, r->diag);
  return FIELDS_FAIL(r, "unknown key");
}

enum status fields_read_object(struct reader *r, const struct json *object,
                               const struct field *fields, void *base) {
  if (!json_is(object, JSON_OBJECT))
    return wrong_type(r, object, "an object");
  int count = count_fields(fields);
  bool *seen = arena_array(r->arena, (size_t)count, sizeof *seen);
  for (const struct json *m = object->first; m; m = m->next) {
    int i = 0;
    while (i < count && strcmp(fields[i].key, m->key) != 0)
      i++;
    json_push_key(&r->path, m->key);
    if (i == count)
      return unknown_key(r, m->key, fields);
    seen[i] = true;
    TRY(fields[i].read(r, m, &fields[i], base));
    json_pop(&r->path);
  }
  for (int i = 0; i < count; i++)
    if (!seen[i] && !fields[i].optional)
      return FIELDS_FAIL(r, "the key \"%s\" is missing", fields[i].key);
  return STATUS_OK;
}

enum status fields_read_section(struct reader *r, const struct json *value, const struct field *f,
                                void *base) {
  return fields_read_object(r, value, f->fields, base);
}

static void *target(void *base, const struct field *f) {
  return (char *)base + f->offset;
}

static enum status check_string(struct reader *r, const struct json *value) {
  if (!json_is(value, JSON_STRING))
    return wrong_type(r, value, "a string");
  if (value->text[0] == '\0')
    return FIELDS_FAIL(r, "must not be empty");
  return STATUS_OK;
}

enum status fields_read_string(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  TRY(check_string(r, value));
  *(const char **)target(base, f) = arena_strdup(r->arena, value->text);
  return STATUS_OK;
}

// A string for the file's reader only.
enum status fields_read_remark(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  (void)f;
  (void)base;
  return check_string(r, value);
}

static enum status check_number(struct reader *r, const struct json *value, const struct field *f) {
  if (!json_is(value, JSON_NUMBER))
    return wrong_type(r, value, "a number");
  double number = value->number;
  if (number < f->min || number > f->max)
    return FIELDS_FAIL(r, "%.15g is out of range; it must be in %.15g to %.15g", number, f->min,
                       f->max);
  return STATUS_OK;
}

enum status fields_read_number(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  TRY(check_number(r, value, f));
  *(double *)target(base, f) = value->number;
  return STATUS_OK;
}

enum status fields_read_integer(struct reader *r, const struct json *value, const struct field *f,
                                void *base) {
  TRY(check_number(r, value, f));
  if (floor(value->number) != value->number)
    return FIELDS_FAIL(r, "%.15g is not a whole number", value->number);
  *(int *)target(base, f) = (int)value->number;
  return STATUS_OK;
}

enum status fields_read_bool(struct reader *r, const struct json *value, const struct field *f,
                             void *base) {
  if (!json_is_bool(value))
    return wrong_type(r, value, "true or false");
  *(bool *)target(base, f) = json_is(value, JSON_TRUE);
  return STATUS_OK;
}

enum status fields_find_choice(struct reader *r, const struct json *value,
                               const char *const *choices, int *index) {
  if (!json_is(value, JSON_STRING))
    return wrong_type(r, value, "a string");
  for (*index = 0; choices[*index]; ++*index)
    if (strcmp(value->text, choices[*index]) == 0)
      return STATUS_OK;
  fields_hint_names(value->text, choices, "The values here are", r->arena, r->diag);
  return FIELDS_FAIL(r, "unknown value \"%s\"", value->text);
}

enum status fields_read_choice(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  int index;
  TRY(fields_find_choice(r, value, f->choices, &index));
  memcpy(target(base, f), &index, sizeof index);
  return STATUS_OK;
}

// Two choices: false and true.
enum status fields_read_switch(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  int index;
  TRY(fields_find_choice(r, value, f->choices, &index));
  *(bool *)target(base, f) = index == 1;
  return STATUS_OK;
}

enum status fields_check_list(struct reader *r, const struct json *value, int max, int *count) {
  if (!json_is(value, JSON_ARRAY))
    return wrong_type(r, value, "a list");
  *count = json_count(value);
  if (*count == 0)
    return FIELDS_FAIL(r, "must not be empty");
  if (*count > max)
    return FIELDS_FAIL(r, "has %d elements; %d at most", *count, max);
  return STATUS_OK;
}

// A list of globs: NULL-terminated. `f->min` is the least length of one.
enum status fields_read_globs(struct reader *r, const struct json *value, const struct field *f,
                              void *base) {
  int count;
  TRY(fields_check_list(r, value, INT32_MAX, &count));
  const char **globs = arena_array(r->arena, (size_t)count + 1, sizeof *globs);
  int i = 0;
  for (const struct json *m = value->first; m; m = m->next, i++) {
    json_push_index(&r->path, i);
    if (!json_is(m, JSON_STRING) || f->min > 0)
      TRY(check_string(r, m));
    globs[i] = arena_strdup(r->arena, m->text);
    json_pop(&r->path);
  }
  *(const char ***)target(base, f) = globs;
  return STATUS_OK;
}
