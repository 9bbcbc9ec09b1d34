// Reads target files. The file has the units in which vendors state their numbers; in memory all is
// in bytes and seconds.
#include "target.h"

#include "embedded.h"
#include "fields.h"
#include "file.h"
#include "nearest.h"

#include <string.h>

static const char *const shipped[] = {"accelerator", "cpu", "template", NULL};

const char *target_text(const char *name) {
  static const char folder[] = "targets/";
  size_t prefix = sizeof folder - 1, length = strlen(name);
  for (const char *const *s = shipped; *s; s++) {
    if (strcmp(*s, name) != 0)
      continue;
    for (const struct embedded *e = embedded_files; e->name; e++)
      if (strncmp(e->name, folder, prefix) == 0 && strncmp(e->name + prefix, name, length) == 0 &&
          strcmp(e->name + prefix + length, ".json") == 0)
        return e->text;
  }
  return NULL;
}

#define THROUGHPUT(kind, name, format) NUMBER(struct target, name, kind[format], 1e-6, 1e9)

static const struct field matrix_fields[] = {
    THROUGHPUT(matrix, "fp32", FORMAT_FP32),
    THROUGHPUT(matrix, "fp16", FORMAT_FP16),
    THROUGHPUT(matrix, "bf16", FORMAT_BF16),
    {"fp8", fields_read_number, offsetof(struct target, matrix[FORMAT_FP8E4M3FN]), true, 1e-6, 1e9,
     NULL, NULL},
    END,
};
static const struct field vector_fields[] = {
    THROUGHPUT(vector, "fp32", FORMAT_FP32),
    THROUGHPUT(vector, "fp16", FORMAT_FP16),
    THROUGHPUT(vector, "bf16", FORMAT_BF16),
    END,
};
static const struct field target_fields[] = {
    REMARK("$schema"),
    STRING(struct target, "name", name),
    INTEGER(struct target, "version", version, 1, 1e9),
    STRING(struct target, "description", description),
    NUMBER(struct target, "bandwidth_gb_s", bandwidth, 1e-6, 1e9),
    NUMBER(struct target, "overhead_us", overhead, 0, 1e6),
    SECTION("matrix_tflop_s", matrix_fields),
    SECTION("vector_tflop_s", vector_fields),
    REMARK("why"),
    END,
};

enum status target_parse(struct target *t, const char *text, const char *path, struct arena *a,
                         struct diag *d) {
  static const double giga = 1e9, tera = 1e12, micro = 1e-6;
  memset(t, 0, sizeof *t);
  struct reader r = {.file = path, .arena = a, .diag = d};
  TRY(json_parse(&r.root, text, path, STATUS_POLICY, a, d));
  enum status status = fields_read_object(&r, r.root, target_fields, t);
  t->matrix[FORMAT_FP8E4M3FNUZ] = t->matrix[FORMAT_FP8E5M2] = t->matrix[FORMAT_FP8E5M2FNUZ] =
      t->matrix[FORMAT_FP8E4M3FN];
  t->bandwidth *= giga;
  t->overhead *= micro;
  for (int f = 0; f < FORMAT_COUNT; f++) {
    t->matrix[f] *= tera;
    t->vector[f] *= tera;
  }
  return status;
}

enum status target_load(struct target *t, const char *name_or_path, const char *from,
                        struct arena *a, struct diag *d) {
  if (strpbrk(name_or_path, "/.")) {
    char *text;
    const char *path = file_beside(name_or_path, from, a);
    TRY(json_read_text(&text, path, STATUS_POLICY, a, d));
    TRY(target_parse(t, text, path, a, d));
    t->file = path;
    return STATUS_OK;
  }
  const char *text = target_text(name_or_path);
  if (text)
    return target_parse(t, text, arena_printf(a, "targets/%s.json", name_or_path), a, d);
  const char *nearest = nearest_name(name_or_path, shipped);
  diag_hint(d, "%s%s%sThe targets inside are accelerator, cpu and template; a file has a / or a .",
            nearest ? "Did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
  return diag_fail(d, STATUS_POLICY, "there is no target called \"%s\"", name_or_path);
}
