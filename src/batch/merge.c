// Joining the results of shards that had an OUT each: see batch.h. Which models an OUT holds, its
// summary.json says, so that folders of models that left the zoo do not come back.
#include "batch.h"

#include "file.h"
#include "json.h"
#include "map.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct merge {
  const char *out;
  struct arena *arena;
  struct diag *diag;
  struct result **results;
  size_t count, capacity;
  struct map known;  // names of results
};

static enum status fail(struct merge *m, const char *path, const char *what) {
  diag_at(m->diag, path, NULL, NULL);
  return diag_fail(m->diag, STATUS_IO, "%s: %s", what, strerror(errno));
}

static enum status copy_file(struct merge *m, const char *from, const char *to) {
  unlink(to);
  if (link(from, to) == 0)
    return STATUS_OK;
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(from, &bytes, &size, m->diag));
  struct file_writer w = {0};
  enum status status = file_begin(&w, to, m->diag);
  if (status == STATUS_OK) {
    fwrite(bytes, 1, size, w.out);
    status = file_commit(&w, m->diag);
  }
  file_unmap(bytes, size);
  return status;
}

// result.json comes last, as after a conversion.
static enum status copy_folder(struct merge *m, const char *from, const char *to) {
  if (mkdir(to, 0777) != 0 && errno != EEXIST)
    return fail(m, to, "cannot be made");
  result_clean(to, m->arena);
  DIR *directory = opendir(from);
  if (!directory)
    return fail(m, from, "cannot be opened");
  enum status status = STATUS_OK;
  for (struct dirent *e; status == STATUS_OK && (e = readdir(directory));)
    if (e->d_name[0] != '.' && strcmp(e->d_name, RESULT_RESULT) != 0)
      status = copy_file(m, arena_printf(m->arena, "%s/%s", from, e->d_name),
                         arena_printf(m->arena, "%s/%s", to, e->d_name));
  closedir(directory);
  TRY(status);
  return copy_file(m, arena_printf(m->arena, "%s/" RESULT_RESULT, from),
                   arena_printf(m->arena, "%s/" RESULT_RESULT, to));
}

static enum status merge_model(struct merge *m, const char *from, const cJSON *row) {
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(row, "model");
  if (!cJSON_IsString(name))
    return diag_fail(m->diag, STATUS_DATA, "a model has no name");
  const char *key = arena_strdup(m->arena, name->valuestring);
  if (map_get(&m->known, 0, key) >= 0)
    return STATUS_OK;
  map_put(&m->known, 0, key, (int)m->count);
  // Not the folder that the file names: that might lead out.
  const char *folder = zoo_folder_of(key, m->arena);
  const char *source = arena_printf(m->arena, "%s/models/%s", from, folder);
  const char *target = arena_printf(m->arena, "%s/models/%s", m->out, folder);
  struct result *r = arena_alloc(m->arena, sizeof *r);
  if (!result_read(r, key, source, m->arena)) {
    diag_hint(m->diag, "Run the batch of that folder again.");
    return diag_fail(m->diag, STATUS_DATA, "has no result of model \"%s\"", key);
  }
  TRY(copy_folder(m, source, target));
  m->results = arena_grow(m->arena, m->results, &m->capacity, m->count + 1, sizeof *m->results);
  m->results[m->count++] = r;
  return STATUS_OK;
}

static enum status merge_out(struct merge *m, const char *from) {
  cJSON *root;
  const char *text, *path = arena_printf(m->arena, "%s/summary.json", from);
  diag_hint(m->diag, "An output folder of `batch` holds summary.json once the batch has ended.");
  TRY(json_read(&root, &text, path, STATUS_DATA, m->arena, m->diag));
  diag_clear(m->diag);
  diag_at(m->diag, from, NULL, NULL);
  const cJSON *models = cJSON_GetObjectItemCaseSensitive(root, "models");
  enum status status = cJSON_IsArray(models)
                           ? STATUS_OK
                           : diag_fail(m->diag, STATUS_DATA, "summary.json lists no models");
  for (const cJSON *row = models ? models->child : NULL; row && status == STATUS_OK;
       row = row->next)
    status = merge_model(m, from, row);
  cJSON_Delete(root);
  return status;
}

static int compare_results(const void *a, const void *b) {
  return strcmp((*(const struct result *const *)a)->name, (*(const struct result *const *)b)->name);
}

enum status batch_merge(struct result ***results, size_t *count, const char *const *outs,
                        size_t n_outs, const char *out, struct arena *a, struct diag *d) {
  struct merge m = {.out = out, .arena = a, .diag = d, .known = {.arena = a}};
  TRY(batch_make_out(out, a, d));
  for (size_t i = 0; i < n_outs; i++) {
    struct stat from, to;
    if (stat(outs[i], &from) == 0 && stat(out, &to) == 0 && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino) {
      diag_at(d, out, NULL, NULL);
      return diag_fail(d, STATUS_USAGE, "is the result of the merge and one of its sources");
    }
    TRY(merge_out(&m, outs[i]));
  }
  if (m.count)
    qsort(m.results, m.count, sizeof *m.results, compare_results);
  *results = m.results;
  *count = m.count;
  return STATUS_OK;
}
