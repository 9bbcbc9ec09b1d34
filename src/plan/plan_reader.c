// Members of a plan file, each checked for its type and for what it names.
#include "plan_reader.h"

#include <string.h>

enum status reader_member(struct plan_reader *r, const cJSON *object, const char *key,
                          const cJSON **out) {
  *out = cJSON_GetObjectItemCaseSensitive(object, key);
  if (*out)
    return STATUS_OK;
  return READ_FAIL(r, "\"%s\" is missing", key);
}

enum status reader_text(struct plan_reader *r, const cJSON *object, const char *key,
                        const char **out) {
  const cJSON *item;
  TRY(reader_member(r, object, key, &item));
  if (!cJSON_IsString(item))
    return READ_FAIL(r, "\"%s\" is not a string", key);
  *out = arena_strdup(r->arena, item->valuestring);
  return STATUS_OK;
}

enum status reader_integer(struct plan_reader *r, const cJSON *object, const char *key, int *out) {
  const cJSON *item;
  TRY(reader_member(r, object, key, &item));
  if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 1e9)
    return READ_FAIL(r, "\"%s\" is not a number from 0 on", key);
  *out = (int)item->valuedouble;
  return STATUS_OK;
}

enum status reader_format(struct plan_reader *r, const cJSON *object, const char *key,
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

void reader_reason(const cJSON *object, const char *key, enum reason *out) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  if (cJSON_IsString(item))
    reason_find(item->valuestring, out);
}

enum status reader_label(struct plan_reader *r, const cJSON *object, const char *key, int *value) {
  const char *label;
  TRY(reader_text(r, object, key, &label));
  *value = map_get(&r->labels, 0, label);
  if (*value >= 0)
    return STATUS_OK;
  return READ_FAIL(r, "the model has no value \"%s\"", label);
}

enum status reader_class(struct plan_reader *r, const cJSON *object, const char *key,
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
