// Finds the samples below a directory. All that is decided here follows from names, so that the
// order of samples is the same on every machine; numbers in names count by their value, so that
// test_data_set_10 comes after test_data_set_9.
#include "samples_internal.h"

#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 2 };

struct entry {
  char *name;
  bool folder;
  bool array;  // .npy, or a .pb that is no output: one array
};

struct folder {
  const char *path, *label;  // the label is "" for the directory itself
  struct entry *entries;
  size_t count, capacity;
};

struct scan {
  struct source_list *list;
  const struct inputs *in;
  const char *root_label;
  struct diag *d;
};

// ---- Names ----

bool samples_has_extension(const char *path, const char *extension) {
  size_t length = strlen(path), tail = strlen(extension);
  return length > tail && strcmp(path + length - tail, extension) == 0 &&
         path[length - tail - 1] != '/';
}

const char *samples_stem(const char *path, struct arena *a) {
  char *stem = arena_strdup(a, file_base(path));
  char *dot = strrchr(stem, '.');
  if (dot)
    *dot = '\0';
  return stem;
}

int samples_stem_index(const char *stem) {
  int index = 0;
  if (strncmp(stem, "input_", 6) != 0 || !stem[6] || strlen(stem) > 6 + 6)
    return -1;
  for (const char *c = stem + 6; *c; c++) {
    if (*c < '0' || *c > '9')
      return -1;
    index = index * 10 + (*c - '0');
  }
  return index;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Runs of digits by value, the rest by bytes.
static int compare_natural(const char *a, const char *b) {
  const char *whole_a = a, *whole_b = b;
  while (*a && *b) {
    if (is_digit(*a) && is_digit(*b)) {
      while (*a == '0')
        a++;
      while (*b == '0')
        b++;
      size_t length_a = strspn(a, "0123456789"), length_b = strspn(b, "0123456789");
      if (length_a != length_b)
        return length_a < length_b ? -1 : 1;
      int order = strncmp(a, b, length_a);
      if (order)
        return order;
      a += length_a;
      b += length_b;
    } else if (*a != *b) {
      return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
    } else {
      a++;
      b++;
    }
  }
  return *a ? 1 : *b ? -1 : strcmp(whole_a, whole_b);
}

static int compare_entries(const void *a, const void *b) {
  return compare_natural(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static bool is_array_file(const char *name) {
  return samples_has_extension(name, ".npy") ||
         (samples_has_extension(name, ".pb") && strncmp(name, "output_", 7) != 0);
}

static bool is_sample_file(const char *name) {
  return samples_has_extension(name, ".npz") || samples_has_extension(name, ".safetensors");
}

// ---- Folders ----

// A sample that cannot be read is no reason to go on without it.
static enum status refuse_entry(struct scan *s, const char *path, int error) {
  diag_at(s->d, path, NULL, NULL);
  diag_hint(s->d, "Remove it, if it is no sample.");
  return error ? diag_fail(s->d, STATUS_IO, "cannot be read: %s", strerror(error))
               : diag_fail(s->d, STATUS_IO, "is a device, pipe or socket, not a regular file");
}

static enum status add_entry(struct scan *s, struct folder *f, const char *name) {
  struct arena *a = s->list->arena;
  struct stat stat_of;
  const char *path = arena_printf(a, "%s/%s", f->path, name);
  bool wanted = is_array_file(name) || is_sample_file(name);
  if (stat(path, &stat_of) != 0)
    return wanted ? refuse_entry(s, path, errno) : STATUS_OK;
  bool folder = S_ISDIR(stat_of.st_mode);
  if (!folder && !S_ISREG(stat_of.st_mode))
    return wanted ? refuse_entry(s, path, 0) : STATUS_OK;
  f->entries = arena_grow(a, f->entries, &f->capacity, f->count + 1, sizeof *f->entries);
  f->entries[f->count++] =
      (struct entry){arena_strdup(a, name), folder, !folder && is_array_file(name)};
  return STATUS_OK;
}

static enum status list_folder(struct scan *s, struct folder *f) {
  DIR *directory = opendir(f->path);
  if (!directory) {
    int error = errno;
    diag_at(s->d, f->path, NULL, NULL);
    return diag_fail(s->d, STATUS_IO, "cannot be opened: %s", strerror(error));
  }
  enum status status = STATUS_OK;
  for (struct dirent *e; status == STATUS_OK && (e = readdir(directory));)
    if (e->d_name[0] != '.')
      status = add_entry(s, f, e->d_name);
  closedir(directory);
  if (f->count)
    qsort(f->entries, f->count, sizeof *f->entries, compare_entries);
  return status;
}

static struct source *add_source(struct scan *s, const char *label, size_t n_paths) {
  struct source_list *list = s->list;
  list->items =
      arena_grow(list->arena, list->items, &list->capacity, list->count + 1, sizeof *list->items);
  struct source *source = &list->items[list->count++];
  source->label = label;
  source->paths = arena_array(list->arena, n_paths, sizeof *source->paths);
  source->stamps = arena_array(list->arena, n_paths, sizeof *source->stamps);
  return source;
}

static void add_path(struct source *source, const char *path) {
  source->stamps[source->n_paths] = file_stamp(path);
  source->paths[source->n_paths++] = path;
}

static void add_file(struct scan *s, const char *label, const char *path, bool single) {
  struct source *source = add_source(s, label, 1);
  add_path(source, path);
  source->single = single;
}

static bool names_input(const struct scan *s, const char *file) {
  const char *stem = samples_stem(file, s->list->arena);
  return inputs_find(s->in, stem) >= 0 || samples_stem_index(stem) >= 0 ||
         strncmp(stem, "label:", 6) == 0;
}

// Files of one array each are a sample together, unless the model has a single input and they are
// not called after it: then each is a sample.
static bool arrays_belong_together(const struct scan *s, const struct folder *f) {
  if (s->in->n_required != 1)
    return true;
  for (size_t i = 0; i < f->count; i++)
    if (f->entries[i].array && !names_input(s, f->entries[i].name))
      return false;
  return true;
}

static void add_together(struct scan *s, const struct folder *f) {
  struct source *source = add_source(s, f->label[0] ? f->label : s->root_label, f->count);
  for (size_t i = 0; i < f->count; i++)
    if (f->entries[i].array)
      add_path(source, arena_printf(s->list->arena, "%s/%s", f->path, f->entries[i].name));
}

static enum status scan_folder(struct scan *s, const char *path, const char *label, int depth) {
  struct folder f = {.path = path, .label = label};
  struct arena *a = s->list->arena;
  TRY(list_folder(s, &f));
  bool together = arrays_belong_together(s, &f), added = false;
  for (size_t i = 0; i < f.count; i++) {
    const struct entry *e = &f.entries[i];
    const char *inner = arena_printf(a, "%s/%s", path, e->name);
    const char *inner_label = label[0] ? arena_printf(a, "%s/%s", label, e->name) : e->name;
    if (e->folder) {
      if (depth < MAX_DEPTH)
        TRY(scan_folder(s, inner, inner_label, depth + 1));
    } else if (is_sample_file(e->name)) {
      add_file(s, inner_label, inner, false);
    } else if (e->array && !together) {
      add_file(s, inner_label, inner, true);
    } else if (e->array && !added) {
      add_together(s, &f);
      added = true;
    }
  }
  // Test data of a model without inputs.
  if (!added && !s->in->n_required && strncmp(file_base(path), "test_data_set_", 14) == 0)
    add_together(s, &f);
  return STATUS_OK;
}

static const char *without_slashes(const char *path, struct arena *a) {
  char *text = arena_strdup(a, path);
  size_t length = strlen(text);
  while (length > 1 && text[length - 1] == '/')
    text[--length] = '\0';
  return text;
}

enum status samples_scan(struct source_list *list, const struct inputs *in, const char *path,
                         struct diag *d) {
  struct stat stat_of;
  path = without_slashes(path, list->arena);
  struct scan s = {list, in, file_base(path), d};
  diag_at(d, path, NULL, NULL);
  if (stat(path, &stat_of) != 0)
    return diag_fail(d, STATUS_IO, "cannot be read: %s", strerror(errno));
  if (S_ISDIR(stat_of.st_mode))
    TRY(scan_folder(&s, path, "", 0));
  else if (is_sample_file(path) || is_array_file(file_base(path)))
    add_file(&s, s.root_label, path,
             is_array_file(file_base(path)) && in->n_required == 1 && !names_input(&s, path));
  if (!list->count) {
    diag_hint(d, "Looked for .npz and .safetensors files, folders of input_<k>.pb or <input>.npy "
                 "files, and .npy files, there and two folders deep.");
    return diag_fail(d, STATUS_DATA, "holds no samples");
  }
  diag_at(d, "", NULL, NULL);
  return STATUS_OK;
}
