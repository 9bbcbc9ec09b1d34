// Joining the results of shards that had an OUT each: see batch.h. Which models an OUT holds, its
// summary.json says, so that folders of models that left the zoo do not come back.
#include "batch.h"

#include "json.h"
#include "known.h"
#include "map.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct shard {
  int index, count;  // as --shard I/N
};

struct merge {
  const char *out;
  struct arena *arena;
  struct diag *diag;
  struct result **results;
  size_t count, capacity;
  struct map known;  // names of results
  struct shard *shards;
  size_t n_shards, shard_capacity;
  bool is_unknown;  // some OUT does not say which shards it holds
};

// Through another name, so that there is a whole folder or none, whenever it is interrupted.
static enum status copy_result(struct merge *m, const char *from, const char *to) {
  struct arena *a = m->arena;
  const char *making = arena_printf(a, "%s.tmp", to);
  tree_remove(making);
  TRY(tree_copy(from, making, m->diag));
  unlink(arena_printf(a, "%s/" RESULT_LOCK, making));  // a link to it would be the same lock
  tree_remove(to);
  if (rename(making, to) == 0)
    return STATUS_OK;
  int error = errno;
  diag_at(m->diag, to, NULL, NULL);
  return diag_fail(m->diag, STATUS_IO, "cannot be made: %s", strerror(error));
}

static enum status merge_model(struct merge *m, const char *from, const struct json *row) {
  const struct json *name = json_member(row, "model");
  if (!json_is(name, JSON_STRING))
    return diag_fail(m->diag, STATUS_DATA, "a model has no name");
  const char *key = arena_strdup(m->arena, name->text);
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
    return diag_fail(m->diag, STATUS_DATA, "has no whole result of model \"%s\"", key);
  }
  TRY(copy_result(m, source, target));
  m->results = arena_grow(m->arena, m->results, &m->capacity, m->count + 1, sizeof *m->results);
  m->results[m->count++] = r;
  return STATUS_OK;
}

// ---- shards ----

// Which shards an OUT holds, its files of hashes tell: they go along, so that the merged OUT tells
// it too.
static enum status note_shards(struct merge *m, const char *from) {
  DIR *directory = opendir(from);
  enum status status = STATUS_OK;
  size_t before = m->n_shards;
  for (struct dirent *e; directory && status == STATUS_OK && (e = readdir(directory));) {
    struct shard s;
    if (!batch_hashes_shard(e->d_name, &s.index, &s.count))
      continue;
    m->shards =
        arena_grow(m->arena, m->shards, &m->shard_capacity, m->n_shards + 1, sizeof *m->shards);
    m->shards[m->n_shards++] = s;
    struct known hashes = {.arena = m->arena};
    known_read(&hashes, arena_printf(m->arena, "%s/%s", from, e->d_name));
    status = known_write(&hashes, arena_printf(m->arena, "%s/%s", m->out, e->d_name), m->diag);
  }
  if (directory)
    closedir(directory);
  m->is_unknown = m->is_unknown || m->n_shards == before;
  return status;
}

static int compare_shards(const void *a, const void *b) {
  const struct shard *x = a, *y = b;
  return x->count != y->count ? (x->count > y->count) - (x->count < y->count)
                              : (x->index > y->index) - (x->index < y->index);
}

// The indices of `count` that none of the n shards has, as "2, 4-6"; "" if each is there.
static const char *gaps(const struct shard *shards, size_t n, int count, struct arena *a) {
  enum { MOST = 10 };
  const char *text = "";
  int last = 0, shown = 0;
  for (size_t i = 0; i <= n; i++) {
    int next = i < n ? shards[i].index : count + 1;
    if (next > last + 1 && shown++ == MOST)
      return arena_printf(a, "%s, ...", text);
    const char *comma = *text ? ", " : "";
    if (next == last + 2)
      text = arena_printf(a, "%s%s%d", text, comma, last + 1);
    else if (next > last + 2)
      text = arena_printf(a, "%s%s%d-%d", text, comma, last + 1, next - 1);
    last = next;
  }
  return text;
}

// A part may be wanted, so this is no error. Nothing is said where shards of one number are
// complete.
static void warn_of_missing_shards(struct merge *m) {
  const char *missing = NULL;
  if (m->n_shards)
    qsort(m->shards, m->n_shards, sizeof *m->shards, compare_shards);
  for (size_t i = 0, next; i < m->n_shards && !m->is_unknown; i = next) {
    int count = m->shards[i].count;
    for (next = i; next < m->n_shards && m->shards[next].count == count;)
      next++;
    const char *text = gaps(m->shards + i, next - i, count, m->arena);
    if (!*text)
      return;
    missing = arena_printf(m->arena, "%s%s%s of %d", missing ? missing : "", missing ? "; " : "",
                           text, count);
  }
  if (missing && !m->is_unknown)
    diag_warn(m->diag, "none of the folders holds shard %s, so their models are missing", missing);
}

static enum status merge_out(struct merge *m, const char *from) {
  const struct json *root;
  const char *path = arena_printf(m->arena, "%s/summary.json", from);
  diag_hint(m->diag, "An output folder of `batch` holds summary.json once the batch has ended.");
  TRY(json_read(&root, path, STATUS_DATA, m->arena, m->diag));
  diag_clear(m->diag);
  diag_at(m->diag, from, NULL, NULL);
  const struct json *models = json_member(root, "models");
  if (!json_is(models, JSON_ARRAY))
    return diag_fail(m->diag, STATUS_DATA, "summary.json lists no models");
  for (const struct json *row = models->first; row; row = row->next)
    TRY(merge_model(m, from, row));
  return note_shards(m, from);
}

static int compare_results(const void *a, const void *b) {
  return strcmp((*(const struct result *const *)a)->name, (*(const struct result *const *)b)->name);
}

static enum status merge_all(struct merge *m, const char *const *outs, size_t n_outs) {
  TRY(batch_make_out(m->out, m->arena, m->diag));
  for (size_t i = 0; i < n_outs; i++) {
    struct stat from, to;
    if (stat(outs[i], &from) == 0 && stat(m->out, &to) == 0 && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino) {
      diag_at(m->diag, m->out, NULL, NULL);
      return diag_fail(m->diag, STATUS_USAGE, "is the result of the merge and one of its sources");
    }
    TRY(merge_out(m, outs[i]));
  }
  return STATUS_OK;
}

enum status batch_merge(struct result ***results, size_t *count, const char *const *outs,
                        size_t n_outs, const char *out, struct arena *a, struct diag *d) {
  struct merge m = {.out = out, .arena = a, .diag = d, .known = {.arena = a}};
  struct stat before;
  bool is_new = lstat(out, &before) != 0 && errno == ENOENT;
  enum status status = merge_all(&m, outs, n_outs);
  if (status != STATUS_OK && is_new)
    tree_remove(out);
  TRY(status);
  warn_of_missing_shards(&m);
  // The summary vouches for what it lists.
  if (!tree_sync(out)) {
    int error = errno;
    diag_at(d, out, NULL, NULL);
    return diag_fail(d, STATUS_IO, "cannot be synced to its disk: %s", strerror(error));
  }
  if (m.count)
    qsort(m.results, m.count, sizeof *m.results, compare_results);
  *results = m.results;
  *count = m.count;
  return STATUS_OK;
}
