// Weights of a training's checkpoints, compared file by file. Two files are open at a time.
#include "checkpoints.h"

#include "samples_format.h"
#include "tensor.h"

#include <string.h>

struct checkpoint {
  const char *path;
  const struct model_limits *limits;
  struct arena arena;
  struct model model;        // of an .onnx file
  struct array_list arrays;  // of a .safetensors file
  struct map names;          // (0, name) -> index of the initializer or array
};

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static enum status read_arrays(struct checkpoint *c, struct diag *d) {
  c->arrays.arena = &c->arena;
  TRY(samples_read_safetensors(&c->arrays, c->path, d));
  for (size_t i = 0; i < c->arrays.count; i++)
    map_put(&c->names, 0, c->arrays.items[i].name, (int)i);
  return STATUS_OK;
}

static enum status read_model(struct checkpoint *c, struct diag *d) {
  TRY(model_load(&c->model, &c->arena, c->path, c->limits, d));
  const Onnx__GraphProto *g = c->model.proto->graph;
  for (size_t i = 0; g && i < g->n_initializer; i++)
    if (g->initializer[i]->name)
      map_put(&c->names, 0, g->initializer[i]->name, (int)i);
  return STATUS_OK;
}

static enum status checkpoint_open(struct checkpoint *c, const char *path,
                                   const struct model_limits *limits, struct diag *d) {
  *c = (struct checkpoint){.path = path, .limits = limits};
  c->names.arena = &c->arena;
  if (ends_with(path, ".safetensors"))
    return read_arrays(c, d);
  if (ends_with(path, ".onnx"))
    return read_model(c, d);
  diag_at(d, path, NULL, NULL);
  return diag_fail(d, STATUS_DATA, "a checkpoint must be an .onnx or a .safetensors file");
}

static void checkpoint_close(struct checkpoint *c) {
  model_close(&c->model);
  arena_free(&c->arena);
  *c = (struct checkpoint){0};
}

// The weight of that name; t->data is NULL if there is none, or it holds no floats.
static enum status checkpoint_find(struct checkpoint *c, const char *name, struct tensor *t,
                                   struct diag *d) {
  int index = map_get(&c->names, 0, name);
  *t = (struct tensor){0};
  if (index < 0)
    return STATUS_OK;
  if (c->arrays.arena) {
    const struct array *a = &c->arrays.items[index];
    size_t item = tensor_element_bits(a->elem_type) / 8;
    *t = (struct tensor){.name = a->name,
                         .elem_type = a->elem_type,
                         .rank = a->rank,
                         .dims = a->dims,
                         .count = item ? a->size / item : 0,
                         .data = a->data,
                         .size = a->size};
  } else {
    diag_at(d, c->path, NULL, name);
    TRY(tensor_read(&c->model, c->model.proto->graph->initializer[index], &c->arena, t, d));
  }
  if (!tensor_is_float(t->elem_type))
    *t = (struct tensor){0};
  return STATUS_OK;
}

// ---- Which weights ----

static bool is_weight(const struct graph *g, int v) {
  const struct value *value = &g->values[v];
  return value->scope == 0 && value->initializer && value->type.kind == TYPE_TENSOR &&
         value->type.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
}

static bool has_shape(const struct tensor *t, const Onnx__TensorProto *wanted) {
  if (t->rank != wanted->n_dims)
    return false;
  for (size_t i = 0; i < t->rank; i++)
    if (t->dims[i] != wanted->dims[i])
      return false;
  return true;
}

// What does not match between a checkpoint and the model: how many, and the first of them.
struct mismatch {
  size_t count;
  const char *first;
};

static void note(struct mismatch *m, const char *name) {
  if (m->count++ == 0)
    m->first = name;
}

static void warn(const struct checkpoint *c, const struct mismatch *m, const char *what,
                 struct diag *d) {
  if (m->count)
    diag_warn(d, "%s: %zu %s; the first is \"%s\"", c->path, m->count, what, m->first);
}

static void find_surplus(const struct checkpoint *c, const struct graph *g, struct mismatch *m) {
  const Onnx__GraphProto *graph = c->model.proto ? c->model.proto->graph : NULL;
  size_t n = c->arrays.arena ? c->arrays.count : graph ? graph->n_initializer : 0;
  for (size_t i = 0; i < n; i++) {
    const char *name = c->arrays.arena ? c->arrays.items[i].name : graph->initializer[i]->name;
    int v = name ? map_get(&g->names, 0, name) : -1;
    int type = c->arrays.arena ? c->arrays.items[i].elem_type : graph->initializer[i]->data_type;
    if (name && tensor_is_float(type) && (v < 0 || !is_weight(g, v)))
      note(m, name);
  }
}

// Reports what does not match; at least one weight must.
static enum status check_names(struct checkpoint *c, const struct graph *g, struct diag *d) {
  struct mismatch missing = {0}, shape = {0}, surplus = {0};
  size_t matched = 0;
  for (int v = 0; v < g->n_values; v++) {
    struct tensor t;
    if (!is_weight(g, v))
      continue;
    TRY(checkpoint_find(c, g->values[v].name, &t, d));
    if (!t.data)
      note(&missing, g->values[v].name);
    else if (!has_shape(&t, g->values[v].initializer))
      note(&shape, g->values[v].name);
    else
      matched++;
  }
  find_surplus(c, g, &surplus);
  diag_at(d, c->path, NULL, "");
  if (!matched) {
    diag_hint(d, "Its tensors must have the names and shapes of the model's initializers.");
    return diag_fail(d, STATUS_DATA, "the checkpoint holds no weight of %s", g->model->path);
  }
  warn(c, &missing, "weights of the model are not in it", d);
  warn(c, &shape, "weights have another shape than in the model", d);
  warn(c, &surplus, "of its weights are not in the model", d);
  return STATUS_OK;
}

// ---- Comparing ----

// In blocks, so that a large weight needs no copy of itself.
static void add_changes(struct updates_piece *p, const struct tensor *before,
                        const struct tensor *after) {
  enum { BLOCK = 4096 };
  float a[BLOCK], b[BLOCK];
  size_t a_item = tensor_element_bits(before->elem_type) / 8;
  size_t b_item = tensor_element_bits(after->elem_type) / 8;
  for (uint64_t at = 0; at < before->count; at += BLOCK) {
    struct tensor x = *before, y = *after;
    x.count = y.count = before->count - at < BLOCK ? before->count - at : BLOCK;
    x.data += at * a_item;
    y.data += at * b_item;
    x.size = x.count * a_item;
    y.size = y.count * b_item;
    if (tensor_to_float(&x, a) && tensor_to_float(&y, b))
      updates_change(p, a, b, x.count);
  }
}

static enum status compare(struct trace *t, size_t first_site, struct graph *g,
                           struct checkpoint *before, struct checkpoint *after, size_t window,
                           struct diag *d) {
  for (size_t i = first_site; i < t->n_sites; i++) {
    const struct value *value = &g->values[t->sites[i].value];
    struct tensor a, b;
    TRY(checkpoint_find(before, value->name, &a, d));
    TRY(checkpoint_find(after, value->name, &b, d));
    if (!a.data || !b.data || !has_shape(&a, value->initializer) ||
        !has_shape(&b, value->initializer))
      continue;
    struct updates_piece run;
    memset(&run, 0, sizeof run);
    add_changes(&run, &a, &b);
    updates_end_run(&t->updates[i], &run, window);
  }
  return STATUS_OK;
}

static void add_sites(struct trace *t, const struct graph *g) {
  for (int v = 0; v < g->n_values; v++)
    if (is_weight(g, v))
      trace_add_sites(t, &(struct update_site){UPDATE_WEIGHT, v}, 1);
}

enum status checkpoints_trace(struct trace *t, struct graph *g, const char *const *paths, size_t n,
                              size_t window, const struct model_limits *limits, struct diag *d) {
  struct checkpoint pair[2] = {{0}};  // file i is in pair[i % 2]
  size_t first_site = t->n_sites, weight_steps = t->weight_steps;
  if (n < 2)
    return diag_fail(d, STATUS_DATA, "updates need two checkpoints at least");
  add_sites(t, g);
  t->weight_steps = n - 1;
  enum status status = STATUS_OK;
  for (size_t i = 0; i < n && status == STATUS_OK; i++) {
    struct checkpoint *after = &pair[i % 2], *before = &pair[(i + 1) % 2];
    status = checkpoint_open(after, paths[i], limits, d);
    if (status == STATUS_OK)
      status = check_names(after, g, d);
    if (status == STATUS_OK && i)
      status = compare(t, first_site, g, before, after, (i - 1) / (window ? window : 1), d);
    checkpoint_close(before);
  }
  checkpoint_close(&pair[0]);
  checkpoint_close(&pair[1]);
  if (status == STATUS_OK) {
    diag_at(d, "", NULL, "");
    return STATUS_OK;
  }
  trace_drop_sites(t, first_site);
  t->weight_steps = weight_steps;
  return status;
}
