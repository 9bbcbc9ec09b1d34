// Samples: what there is, which part of which file sample k is, and its checks; see samples.h.
// Readers of the formats are in samples_npy.c, samples_npz.c, samples_safetensors.c and
// samples_pb.c.
#include "samples.h"

#include "file.h"
#include "samples_internal.h"

#include <string.h>

// ---- Arrays ----

struct array *array_list_add(struct array_list *list, const char *name) {
  list->items =
      arena_grow(list->arena, list->items, &list->capacity, list->count + 1, sizeof *list->items);
  struct array *array = &list->items[list->count++];
  *array = (struct array){.name = name};
  return array;
}

void array_copy_data(struct array_list *list, struct array *array, const void *data, size_t size) {
  uint8_t *copy = arena_alloc(list->arena, size);
  if (size)
    memcpy(copy, data, size);
  if (array->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
    for (size_t i = 0; i < size; i++)
      copy[i] = copy[i] != 0;
  array->data = copy;
  array->size = size;
}

bool array_extent(const int64_t *dims, size_t rank, size_t item, uint64_t *count, uint64_t *bytes) {
  const uint64_t limit = (uint64_t)1 << 62;
  uint64_t product = 1;
  bool zero = false;
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0 || (dims[i] > 0 && product > limit / (uint64_t)dims[i]))
      return false;
    if (dims[i])
      product *= (uint64_t)dims[i];
    else
      zero = true;
  }
  if (item && product > limit / item)
    return false;
  *count = zero ? 0 : product;
  *bytes = *count * item;
  return true;
}

// ---- Sources ----

static enum status read_file(struct array_list *list, const char *path, struct diag *d) {
  if (samples_has_extension(path, ".npz"))
    return samples_read_npz(list, path, d);
  if (samples_has_extension(path, ".safetensors"))
    return samples_read_safetensors(list, path, d);
  if (samples_has_extension(path, ".pb"))
    return samples_read_pb(list, path, d);
  return samples_read_npy(list, path, samples_stem(path, list->arena), d);
}

// Which input a file of one array is for: by the array's own name if an input is called so, by the
// file's name, or by its number.
static enum status name_array(struct array *array, const struct inputs *in, const char *path,
                              bool single, struct arena *a, struct diag *d) {
  const char *stem = samples_stem(path, a);
  int index = samples_stem_index(stem);
  if (inputs_find(in, array->name) >= 0)
    return STATUS_OK;
  if (single) {
    array->name = in->names[in->required[0]];
  } else if (inputs_find(in, stem) >= 0 || index < 0) {
    array->name = stem;
  } else if (index < in->n_required) {
    array->name = in->names[in->required[index]];
  } else {
    diag_at(d, path, NULL, NULL);
    return diag_fail(d, STATUS_DATA, "is for input %d and the model has %d", index, in->n_required);
  }
  return STATUS_OK;
}

// A sample is read more than once: by the trace, by each verification. They must see the same.
static enum status read_unchanged(struct array_list *list, const struct source *source, size_t i,
                                  struct diag *d) {
  enum status status = read_file(list, source->paths[i], d);
  if (!file_is_other(source->paths[i], &source->stamps[i]))
    return status;
  diag_clear(d);  // what was wrong with half of it does not matter
  diag_at(d, source->paths[i], NULL, NULL);
  diag_hint(d, "Let nothing change the samples during a run.");
  return diag_fail(d, STATUS_IO, "has changed since the run began");
}

// Reads all arrays of a source and gives them the names of the inputs that they are for.
static enum status load_source(struct array_list *list, struct inputs *in,
                               const struct source *source, struct diag *d) {
  for (size_t i = 0; i < source->n_paths; i++) {
    const char *path = source->paths[i];
    size_t before = list->count;
    TRY(read_unchanged(list, source, i, d));
    bool one = samples_has_extension(path, ".npy") || samples_has_extension(path, ".pb");
    for (size_t k = before; k < list->count && one; k++)
      TRY(name_array(&list->items[k], in, path, source->single, list->arena, d));
  }
  inputs_drop_constants(in, list, d);
  return STATUS_OK;
}

static const char *source_path(const struct source *source) {
  return source->n_paths == 1 ? source->paths[0] : source->label;
}

// Only a model with a fixed batch needs to know how many rows a file has.
static enum status count_parts(struct samples *s, const struct source *source, size_t *parts,
                               struct diag *d) {
  *parts = 1;
  if (s->inputs.batch < 0)
    return STATUS_OK;
  struct arena arena = {0};
  struct array_list list = {.arena = &arena, .headers_only = true};
  enum status status = load_source(&list, &s->inputs, source, d);
  if (status == STATUS_OK) {
    status = inputs_parts(&s->inputs, list.items, list.count, parts, d);
    if (status != STATUS_OK)
      diag_at(d, source_path(source), NULL, NULL);
  }
  arena_free(&arena);
  return status;
}

static struct samples *create(const struct graph *g, struct arena *a) {
  struct samples *s = arena_alloc(a, sizeof *s);
  s->graph = g;
  s->arena = a;
  s->sources.arena = a;
  s->batch_source = SIZE_MAX;
  return s;
}

enum status samples_open(struct samples **out, const struct graph *g, const char *directory,
                         struct arena *a, struct diag *d) {
  struct samples *s = *out = create(g, a);
  TRY(inputs_describe(&s->inputs, g, a, d));
  TRY(samples_scan(&s->sources, &s->inputs, directory, d));
  s->first = arena_array(a, s->sources.count + 1, sizeof *s->first);
  for (size_t i = 0; i < s->sources.count; i++) {
    size_t parts;
    TRY(count_parts(s, &s->sources.items[i], &parts, d));
    s->first[i + 1] = s->first[i] + parts;
  }
  s->count = s->first[s->sources.count];
  s->digests = arena_array(a, s->count, sizeof *s->digests);
  return STATUS_OK;
}

enum status samples_random(struct samples **out, struct graph *g, uint64_t seed, size_t count,
                           struct arena *a, struct diag *d) {
  struct samples *s = *out = create(g, a);
  s->seed = seed;
  s->count = count;
  s->digests = arena_array(a, count, sizeof *s->digests);
  TRY(inputs_describe(&s->inputs, g, a, d));
  return recipes_make(s, g, d);
}

void samples_close(struct samples *s) {
  if (s)
    arena_free(&s->batch_arena);
}

size_t samples_count(const struct samples *s) {
  return s->count;
}

bool samples_synthetic(const struct samples *s) {
  return s->recipes != NULL;
}

bool samples_include(const struct samples *s, const char *path) {
  const struct file_stamp stamp = file_stamp(path);
  for (size_t i = 0; i < s->sources.count; i++)
    for (size_t k = 0; k < s->sources.items[i].n_paths; k++)
      if (file_is_one(&stamp, &s->sources.items[i].stamps[k]))
        return true;
  return false;
}

// ---- Reading ----

// Source of sample k: the last one that begins at or before it.
static size_t find_source(const struct samples *s, size_t k) {
  size_t low = 0, high = s->sources.count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (s->first[middle] <= k)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// Part `part` of `parts` of an array of the batch.
static void cut(struct array_list *list, const struct inputs *in, const struct array *whole,
                size_t part, size_t parts) {
  struct array *array = array_list_add(list, whole->name);
  *array = *whole;
  array->name = arena_strdup(list->arena, whole->name);
  if (!inputs_splits(in, whole, parts))
    part = 0, parts = 1;
  if (parts > 1)
    array->dims[0] = whole->dims[0] / (int64_t)parts;
  if (whole->strings) {
    uint64_t count = 0, bytes;
    if (array_extent(array->dims, array->rank, 1, &count, &bytes))
      array->strings = arena_array(list->arena, (size_t)count, sizeof *array->strings);
    for (uint64_t i = 0; i < count; i++)
      array->strings[i] = arena_strdup(list->arena, whole->strings[part * count + i]);
    return;
  }
  array_copy_data(list, array, (const uint8_t *)whole->data + part * (whole->size / parts),
                  whole->size / parts);
}

static enum status read_part(struct samples *s, size_t source_index, size_t part, size_t parts,
                             struct array_list *list, struct diag *d) {
  const struct source *source = &s->sources.items[source_index];
  if (s->batch_source != source_index) {
    arena_free(&s->batch_arena);
    s->batch = (struct array_list){.arena = &s->batch_arena};
    s->batch_source = SIZE_MAX;
    TRY(load_source(&s->batch, &s->inputs, source, d));
    size_t now;
    TRY(inputs_parts(&s->inputs, s->batch.items, s->batch.count, &now, d));
    if (now != parts)
      return diag_fail(d, STATUS_DATA, "the file has changed since it was opened");
    s->batch_source = source_index;
  }
  for (size_t i = 0; i < s->batch.count; i++)
    cut(list, &s->inputs, &s->batch.items[i], part, parts);
  return STATUS_OK;
}

static enum status read_arrays(struct samples *s, size_t k, struct sample *out,
                               struct array_list *list, struct diag *d) {
  if (s->recipes) {
    out->label = arena_printf(&out->arena, "random[%zu]", k);
    recipes_cook(s, k, list);
    return STATUS_OK;
  }
  size_t index = find_source(s, k);
  const struct source *source = &s->sources.items[index];
  size_t part = k - s->first[index], parts = s->first[index + 1] - s->first[index];
  out->label = parts > 1 ? arena_printf(&out->arena, "%s[%zu]", source->label, part)
                         : arena_strdup(&out->arena, source->label);
  if (parts > 1)
    TRY(read_part(s, index, part, parts, list, d));
  else
    TRY(load_source(list, &s->inputs, source, d));
  enum status status = inputs_check(&s->inputs, list->items, list->count, &out->arena, d);
  diag_at(d,
          status == STATUS_OK ? ""
          : parts > 1         ? arena_printf(&out->arena, "%s[%zu]", source_path(source), part)
                              : source_path(source),
          NULL, status == STATUS_OK ? "" : NULL);
  return status;
}

// Chained SHA-256: of the label, then for each array of what came before with its name, type, dims
// and the digest of its elements.
static void digest_sample(struct samples *s, size_t k, const struct sample *sample) {
  char *chain = s->digests[k], data[65];
  if (chain[0])
    return;
  struct arena arena = {0};
  sha256_hex(sample->label, strlen(sample->label), chain);
  for (size_t i = 0; i < sample->n_arrays; i++) {
    const struct array *array = &sample->arrays[i];
    const char *dims = "";
    uint64_t count = 0, bytes;
    for (size_t r = 0; r < array->rank; r++)
      dims = arena_printf(&arena, "%s %lld", dims, (long long)array->dims[r]);
    sha256_hex(array->data ? array->data : "", array->data ? array->size : 0, data);
    if (array->strings && array_extent(array->dims, array->rank, 1, &count, &bytes))
      for (uint64_t n = 0; n < count; n++) {
        const char *text = arena_printf(&arena, "%s %s", data, array->strings[n]);
        sha256_hex(text, strlen(text), data);
      }
    const char *text =
        arena_printf(&arena, "%s %s %d%s %s", chain, array->name, array->elem_type, dims, data);
    sha256_hex(text, strlen(text), chain);
  }
  arena_free(&arena);
}

enum status samples_read(struct samples *s, size_t k, struct sample *out, struct diag *d) {
  *out = (struct sample){0};
  struct array_list list = {.arena = &out->arena};
  enum status status = read_arrays(s, k, out, &list, d);
  out->arrays = list.items;
  out->n_arrays = list.count;
  if (status != STATUS_OK)
    sample_free(out);
  else
    digest_sample(s, k, out);
  return status;
}

void sample_free(struct sample *s) {
  arena_free(&s->arena);
  *s = (struct sample){0};
}

void samples_digest(struct samples *s, char hex[65]) {
  struct arena arena = {0};
  char *text = arena_array(&arena, s->count + 1, 65);
  size_t length = 0;
  for (size_t k = 0; k < s->count; k++)
    if (s->digests[k][0]) {
      memcpy(text + length, s->digests[k], 64);
      text[length + 64] = '\n';
      length += 65;
    }
  sha256_hex(text, length, hex);
  arena_free(&arena);
}
