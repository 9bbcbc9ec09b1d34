// Members of a plan file, each checked for its type and for what it names.
#include "plan_reader.h"

#include "fields.h"

#include <string.h>

enum status reader_member(struct plan_reader *r, const struct json *object, const char *key,
                          const struct json **out) {
  *out = json_member(object, key);
  if (*out)
    return STATUS_OK;
  return READ_FAIL(r, "\"%s\" is missing", key);
}

// Members mostly stand in the order of the keys, since a plan is written so: each is looked for
// behind the one before it first.
enum status reader_keys(struct plan_reader *r, const struct json *object, const char *const *keys) {
  int n = 0, next = 0;
  while (keys[n])
    n++;
  for (const struct json *m = json_first(object); m && m->key; m = m->next) {
    int tried = 0;
    while (tried < n && strcmp(keys[(next + tried) % n], m->key) != 0)
      tried++;
    next = (next + tried + 1) % n;
    if (tried < n)
      continue;
    json_push_key(&r->at, m->key);
    fields_hint_names(m->key, keys, "The keys here are", r->arena, r->diag);
    return READ_FAIL(r, "unknown key");
  }
  return STATUS_OK;
}

enum status reader_text(struct plan_reader *r, const struct json *object, const char *key,
                        const char **out) {
  const struct json *item;
  TRY(reader_member(r, object, key, &item));
  if (!json_is(item, JSON_STRING))
    return READ_FAIL(r, "\"%s\" is not a string", key);
  *out = arena_strdup(r->arena, item->text);
  return STATUS_OK;
}

enum status reader_integer(struct plan_reader *r, const struct json *object, const char *key,
                           int *out) {
  const struct json *item;
  TRY(reader_member(r, object, key, &item));
  if (!json_is(item, JSON_NUMBER) || item->number < 0 || item->number > 1e9)
    return READ_FAIL(r, "\"%s\" is not a number from 0 on", key);
  *out = (int)item->number;
  return STATUS_OK;
}

enum status reader_format(struct plan_reader *r, const struct json *object, const char *key,
                          enum format_id *out) {
  const char *name;
  TRY(reader_text(r, object, key, &name));
  const struct format *f = format_find(name);
  if (!f || strcmp(f->name, name) != 0 ||
      (f->id != FORMAT_FP32 && f->id != FORMAT_FP16 && f->id != FORMAT_BF16))
    return READ_FAIL(r, "%s \"%s\" is none of fp16, bf16 and fp32", key, name);
  *out = f->id;
  return STATUS_OK;
}

void reader_reason(const struct json *object, const char *key, enum reason *out) {
  const struct json *item = json_member(object, key);
  if (json_is(item, JSON_STRING))
    reason_find(item->text, out);
}

enum status reader_label(struct plan_reader *r, const struct json *object, const char *key,
                         int *value) {
  const char *label;
  TRY(reader_text(r, object, key, &label));
  *value = map_get(&r->labels, 0, label);
  if (*value >= 0)
    return STATUS_OK;
  return READ_FAIL(r, "the model has no value \"%s\"", label);
}

enum status reader_class(struct plan_reader *r, const struct json *object, const char *key,
                         enum node_class *out) {
  const char *name;
  TRY(reader_text(r, object, key, &name));
  for (int k = CLASS_NARROW; k <= CLASS_KEEP; k++)
    if (strcmp(node_class_name((enum node_class)k), name) == 0) {
      *out = (enum node_class)k;
      return STATUS_OK;
    }
  return READ_FAIL(r, "unknown class \"%s\"", name);
}
