// Where a run writes: each place is checked before the run, which may take long, and none may be a
// file that the run reads, by whatever name. See run.h.
#include "external.h"
#include "file.h"
#include "run.h"

#include <string.h>
#include <sys/stat.h>

// Whether two names in different words lead to one place where nothing is yet.
static bool is_same_place(const char *x, const char *y, struct arena *a) {
  struct stat s, t;
  if (strcmp(file_base(x), file_base(y)) != 0)
    return false;
  const char *folder_x = arena_printf(a, "%.*s.", (int)(file_base(x) - x), x);
  const char *folder_y = arena_printf(a, "%.*s.", (int)(file_base(y) - y), y);
  return stat(folder_x, &s) == 0 && stat(folder_y, &t) == 0 && s.st_dev == t.st_dev &&
         s.st_ino == t.st_ino;
}

static bool is_same_folder(const char *x, const char *y, struct arena *a) {
  return is_same_place(arena_printf(a, "%.*s_", (int)(file_base(x) - x), x),
                       arena_printf(a, "%.*s_", (int)(file_base(y) - y), y), a);
}

// Whether what is written at `model`, if it is a model, may lay its weights at `path`.
static bool is_data_of(const char *model, const char *path, struct arena *a) {
  return model_may_name_data(file_base(model), file_base(path)) && is_same_folder(model, path, a);
}

static bool is_same_file(const char *x, const char *y, struct arena *a) {
  struct stat s, t;
  if (!x || !y)
    return false;
  bool x_exists = stat(x, &s) == 0, y_exists = stat(y, &t) == 0;
  if (x_exists != y_exists)
    return false;
  return x_exists ? s.st_dev == t.st_dev && s.st_ino == t.st_ino : is_same_place(x, y, a);
}

static enum status refuse(struct run *r, const char *path, const char *why) {
  diag_at(r->diag, path, NULL, NULL);
  diag_hint(r->diag, "Give another path.");
  return diag_fail(r->diag, STATUS_USAGE, "will not be written: it is %s", why);
}

// ---- What is read ----

static bool is_external_data(const struct run *r, const char *path, struct arena *a) {
  const struct externals *e = r->model.externals;
  for (size_t i = 0; e && i < e->count; i++)
    if (is_same_file(path, e->files[i].path, a))
      return true;
  return false;
}

static bool is_read(const struct run *r, const char *path, struct arena *a) {
  const struct settings *s = r->settings;
  bool named = s->policy && !strpbrk(s->policy, "/.");  // a shipped one, and no path
  const char *const files[] = {s->trace,     s->plan, named ? NULL : s->policy,
                               s->overrides, s->ort,  r->policy.target.file,
                               s->verdict};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    if (is_same_file(path, files[i], a))
      return true;
  for (size_t i = 0; i < s->n_checkpoints; i++)
    if (is_same_file(path, s->checkpoints[i], a))
      return true;
  return false;
}

static enum status check_inputs(struct run *r, const char *path, struct arena *scratch) {
  if (is_same_file(path, r->settings->model, scratch))
    return refuse(r, path, "the file that is read");
  if (is_external_data(r, path, scratch))
    return refuse(r, path, "external data of the model");
  if (is_read(r, path, scratch))
    return refuse(r, path, "a file that this run reads");
  if (r->samples && samples_include(r->samples, path))
    return refuse(r, path, "a sample that this run reads");
  return STATUS_OK;
}

// ---- All paths ----

static enum status check_path(struct run *r, const char *path) {
  if (strcmp(path, FILE_STDOUT) == 0 && r->settings->to_stdout)
    return STATUS_OK;
  if (strcmp(path, FILE_STDOUT) == 0) {
    diag_hint(r->diag, "A file of that name is ./-.");
    return diag_fail(r->diag, STATUS_USAGE, "standard output holds the summary: give a path");
  }
  bool discarded = strcmp(path, FILE_NULL) == 0;
  if (discarded && !r->settings->writes_text && path == r->settings->output)
    return refuse(r, path, "no place for a model, which may have its weights in a file beside it");
  if (discarded)
    return STATUS_OK;
  TRY(file_check_place(path, r->diag));
  struct arena scratch = {0};
  enum status status = check_inputs(r, path, &scratch);
  for (size_t i = 0; i < r->n_outputs && status == STATUS_OK; i++) {
    if (is_same_file(path, r->outputs[i], &scratch))
      status = refuse(r, path, "another output of this run too");
    else if (is_data_of(r->outputs[i], path, &scratch))
      status = refuse(r, path, "a name for the external data of the result");
  }
  arena_free(&scratch);
  return status;
}

enum status run_check_outputs(struct run *r, const char *const *paths, int count) {
  r->outputs = arena_array(&r->arena, (size_t)count, sizeof *r->outputs);
  r->n_outputs = 0;
  for (int i = 0; i < count; i++) {
    if (!paths[i])
      continue;
    TRY(check_path(r, paths[i]));
    r->outputs[r->n_outputs++] = arena_strdup(&r->arena, paths[i]);
  }
  return STATUS_OK;
}

enum status run_check_samples(struct run *r) {
  for (size_t i = 0; i < r->n_outputs; i++)
    if (samples_include(r->samples, r->outputs[i]))
      return refuse(r, r->outputs[i], "a sample that this run reads");
  return STATUS_OK;
}
