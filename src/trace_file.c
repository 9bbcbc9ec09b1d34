// The trace file: JSON, one value a line, so that two traces are easy to diff. Only what is not
// zero is written of the histograms. Numbers read back exactly.
#include "file.h"
#include "json.h"
#include "tensor.h"
#include "trace.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA = 1 };

// The counts of a value, in the order of the file.
static const struct {
  const char *key;
  size_t offset;
} counts[] = {
    {"runs", offsetof(struct stats, runs)},
    {"count", offsetof(struct stats, count)},
    {"zeros", offsetof(struct stats, zeros)},
    {"nans", offsetof(struct stats, nans)},
    {"positive_infinities", offsetof(struct stats, positive_infinities)},
    {"negative_infinities", offsetof(struct stats, negative_infinities)},
    {"sampled", offsetof(struct stats, sampled)},
};
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

static uint64_t *count_at(struct stats *s, size_t k) {
  return (uint64_t *)(void *)((char *)s + counts[k].offset);
}

// Those of an update site.
static const struct {
  const char *key;
  size_t offset;
} update_counts[] = {
    {"pairs", offsetof(struct updates, total.pairs)},
    {"zero_updates", offsetof(struct updates, total.zero_updates)},
    {"zero_accumulators", offsetof(struct updates, total.zero_accumulators)},
    {"not_finite", offsetof(struct updates, total.not_finite)},
    {"sums", offsetof(struct updates, total.sums)},
};
enum { N_UPDATE_COUNTS = sizeof update_counts / sizeof update_counts[0] };

static uint64_t *update_count_at(struct updates *u, size_t k) {
  return (uint64_t *)(void *)((char *)u + update_counts[k].offset);
}

// ---- Writing ----

static void write_histogram(struct json_writer *w, const char *key, const uint64_t *bins, size_t n,
                            int first) {
  json_object(w, key);
  for (size_t i = 0; i < n; i++) {
    char bin[16];
    snprintf(bin, sizeof bin, "%d", (int)i + first);
    if (bins[i])
      json_integer(w, bin, (int64_t)bins[i]);
  }
  json_end_object(w);
}

static void write_side(struct json_writer *w, const char *key, const struct stats_side *side) {
  if (!side->count)
    return;
  json_object(w, key);
  json_integer(w, "count", (int64_t)side->count);
  json_number(w, "max", (double)side->max);
  json_number(w, "min", (double)side->min);
  json_number(w, "sum", side->sum);
  json_number(w, "sum_squares", side->sum_squares);
  write_histogram(w, "exponents", side->exponents, STATS_EXPONENTS, STATS_EXPONENT_MIN);
  write_histogram(w, "significands", side->significands + 1, STATS_SIGNIFICANDS - 1, 1);
  json_end_object(w);
}

static void write_windows(struct json_writer *w, const struct stats *s) {
  json_array(w, "windows");
  for (size_t i = 0; i < s->n_windows; i++) {
    json_array(w, NULL);
    json_number(w, NULL, (double)s->windows[i].absmax);
    json_number(w, NULL, (double)s->windows[i].absmin);
    json_integer(w, NULL, (int64_t)s->windows[i].nonfinite);
    json_end_array(w);
  }
  json_end_array(w);
}

// The shape of the first run.
static void write_shape(struct json_writer *w, const struct stats *s) {
  json_array(w, "shape");
  for (int k = 0; k < s->rank; k++)
    json_integer(w, NULL, s->dims[k]);
  json_end_array(w);
}

static void write_place(struct json_writer *w, const struct graph *g, int v) {
  json_string(w, "name", g->values[v].name);
  json_string(w, "scope", g->scopes[g->values[v].scope].path);
}

static void write_value(struct json_writer *w, const struct graph *g, int v, struct stats *s) {
  json_object(w, NULL);
  write_place(w, g, v);
  json_string(w, "type", tensor_type_name(g->values[v].type.elem_type));
  for (size_t k = 0; k < N_COUNTS && (k == 0 || s->runs); k++)
    json_integer(w, counts[k].key, (int64_t)*count_at(s, k));
  if (s->has_shape)
    write_shape(w, s);
  write_side(w, "positive", &s->positive);
  write_side(w, "negative", &s->negative);
  if (s->runs)
    write_windows(w, s);
  if (s->first_nonfinite_step >= 0)
    json_integer(w, "first_nonfinite_step", s->first_nonfinite_step);
  json_end_object(w);
}

// ---- Writing update sites ----

static void write_errors(struct json_writer *w, const struct updates_piece *p) {
  json_object(w, "errors");
  for (int k = 0; k < UPDATES_SIMULATED; k++) {
    json_object(w, formats[updates_simulated[k]].name);
    for (int order = 0; order < UPDATES_ORDERS; order++) {
      json_object(w, updates_order_names[order]);
      json_number(w, "max", p->errors[k][order].max);
      json_number(w, "sum", p->errors[k][order].sum);
      json_integer(w, "overflows", (int64_t)p->errors[k][order].overflows);
      json_end_object(w);
    }
    json_end_object(w);
  }
  json_end_object(w);
}

// By format, how many of the window's updates are below a step.
static void write_update_windows(struct json_writer *w, const struct updates *u) {
  json_array(w, "windows");
  for (size_t i = 0; i < u->n_windows; i++) {
    json_object(w, NULL);
    json_integer(w, "updates", (int64_t)u->windows[i].updates);
    for (int f = 0; f < FORMAT_COUNT; f++)
      if (u->windows[i].below[f])
        json_integer(w, formats[f].name, (int64_t)u->windows[i].below[f]);
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_site(struct json_writer *w, const struct trace *t, const struct graph *g,
                       size_t i) {
  struct updates *u = &t->updates[i];
  json_object(w, NULL);
  json_string(w, "kind", update_kind_name(t->sites[i].kind));
  write_place(w, g, t->sites[i].value);
  json_integer(w, "runs", (int64_t)u->runs);
  for (size_t k = 0; k < N_UPDATE_COUNTS; k++)
    json_integer(w, update_counts[k].key, (int64_t)*update_count_at(u, k));
  write_histogram(w, "differences", u->total.bins, UPDATES_BINS, UPDATES_MIN);
  if (u->total.sums)
    write_errors(w, &u->total);
  write_update_windows(w, u);
  json_end_object(w);
}

static void write_updates(struct json_writer *w, const struct trace *t, const struct graph *g) {
  if (!t->update_sample && !t->n_sites)
    return;
  json_array(w, "updates");
  for (size_t i = 0; i < t->n_sites; i++)
    write_site(w, t, g, i);
  json_end_array(w);
}

static void write_header(struct json_writer *w, const struct trace *t, const struct graph *g) {
  json_integer(w, "schema", SCHEMA);
  json_string(w, "tool", "narrowcast " NARROWCAST_VERSION);
  const char *slash = strrchr(g->model->path, '/');
  json_object(w, "model");
  json_string(w, "file", slash ? slash + 1 : g->model->path);
  json_string(w, "sha256", g->model->sha256);
  json_end_object(w);
  json_object(w, "samples");
  json_integer(w, "count", (int64_t)t->steps);
  json_integer(w, "with_held_out", (int64_t)t->samples);
  json_string(w, "sha256", t->samples_sha256);
  json_bool(w, "synthetic", t->synthetic);
  json_end_object(w);
  json_string(w, "engine", t->engine_version);
  json_integer(w, "window", (int64_t)t->window);
  json_integer(w, "sample", (int64_t)t->sample);
  if (t->update_sample)
    json_integer(w, "update_sample", (int64_t)t->update_sample);
  if (t->weight_steps)
    json_integer(w, "weight_steps", (int64_t)t->weight_steps);
  if (t->nonfinite_value < 0)
    return;
  json_object(w, "nonfinite");
  write_place(w, g, t->nonfinite_value);
  json_string(w, "sample", t->nonfinite_sample ? t->nonfinite_sample : "");
  json_end_object(w);
}

enum status trace_write(const struct trace *t, struct graph *g, const char *path, struct diag *d) {
  struct file_writer file = {0};
  TRY(file_begin(&file, path, d));
  struct json_writer w = {.out = file.out, .inline_depth = 2};
  json_object(&w, NULL);
  write_header(&w, t, g);
  json_array(&w, "values");
  for (int v = 0; v < g->n_values; v++)
    if (trace_measures(g, v))
      write_value(&w, g, v, &t->stats[v]);
  json_end_array(&w);
  write_updates(&w, t, g);
  json_end_object(&w);
  return file_commit(&file, d);
}

// ---- Reading ----

struct reader {
  const char *text, *file;
  struct json_path path;
  struct trace *trace;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
  bool *seen;  // by value
};

#define FAIL(r, ...)                                                                               \
  json_fail((r)->text, (r)->file, &(r)->path, STATUS_POLICY, (r)->diag, __VA_ARGS__)

// Every key of the object must be one of `keys`; none comes twice, since json_parse refuses that.
static enum status check_keys(struct reader *r, const cJSON *object, const char *const *keys) {
  if (!cJSON_IsObject(object))
    return FAIL(r, "must be an object");
  const cJSON *item;
  cJSON_ArrayForEach(item, object) {
    size_t k = 0;
    while (keys[k] && strcmp(keys[k], item->string) != 0)
      k++;
    if (keys[k])
      continue;
    json_push_key(&r->path, item->string);
    const char *near = nearest_name(item->string, keys);
    return near ? FAIL(r, "unknown key; is \"%s\" meant?", near) : FAIL(r, "unknown key");
  }
  return STATUS_OK;
}

static enum status find(struct reader *r, const cJSON *object, const char *key,
                        const cJSON **item) {
  *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return *item ? STATUS_OK : FAIL(r, "the key \"%s\" is missing", key);
}

static enum status to_count(struct reader *r, const cJSON *item, uint64_t *out) {
  const double limit = 9007199254740992.0;  // 2^53: beyond it a double skips integers
  double x = item->valuedouble;
  if (!cJSON_IsNumber(item) || !(x >= 0 && x <= limit) || x != floor(x))
    return FAIL(r, "must be an integer from 0 to 2^53");
  *out = (uint64_t)x;
  return STATUS_OK;
}

static enum status to_magnitude(struct reader *r, const cJSON *item, float *out) {
  double x = item->valuedouble;
  if (!cJSON_IsNumber(item) || !(x >= 0 && x <= FLT_MAX) || x != (double)(float)x)
    return FAIL(r, "must be a finite float that is not negative");
  *out = (float)x;
  return STATUS_OK;
}

static enum status read_count(struct reader *r, const cJSON *object, const char *key,
                              uint64_t *out) {
  const cJSON *item;
  TRY(find(r, object, key, &item));
  json_push_key(&r->path, key);
  TRY(to_count(r, item, out));
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_size(struct reader *r, const cJSON *object, const char *key, size_t *out) {
  uint64_t count = 0;
  TRY(read_count(r, object, key, &count));
  *out = (size_t)count;
  return STATUS_OK;
}

static enum status read_magnitude(struct reader *r, const cJSON *object, const char *key,
                                  float *out) {
  const cJSON *item;
  TRY(find(r, object, key, &item));
  json_push_key(&r->path, key);
  TRY(to_magnitude(r, item, out));
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_sum(struct reader *r, const cJSON *object, const char *key, double *out) {
  const cJSON *item;
  TRY(find(r, object, key, &item));
  json_push_key(&r->path, key);
  if (!json_to_number(item, out) || !(*out >= 0))
    return FAIL(r, "must be a number that is not negative");
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_text(struct reader *r, const cJSON *object, const char *key,
                             const char **out) {
  const cJSON *item;
  TRY(find(r, object, key, &item));
  json_push_key(&r->path, key);
  if (!cJSON_IsString(item))
    return FAIL(r, "must be a string");
  *out = item->valuestring;
  json_pop(&r->path);
  return STATUS_OK;
}

// The bin that a histogram's key names; -1 if it names none.
static int bin_of(const char *key, size_t n, int first) {
  long value = strtol(key, NULL, 10);
  char canonical[32];
  snprintf(canonical, sizeof canonical, "%ld", value);
  bool is_bin = strcmp(key, canonical) == 0 && value >= first && value < first + (long)n;
  return is_bin ? (int)(value - first) : -1;
}

static enum status read_histogram(struct reader *r, const cJSON *object, const char *key,
                                  uint64_t *bins, size_t n, int first) {
  const cJSON *histogram, *item;
  TRY(find(r, object, key, &histogram));
  json_push_key(&r->path, key);
  if (!cJSON_IsObject(histogram))
    return FAIL(r, "must be an object");
  cJSON_ArrayForEach(item, histogram) {
    json_push_key(&r->path, item->string);
    int bin = bin_of(item->string, n, first);
    if (bin < 0)
      return FAIL(r, "the key must be an integer from %d to %d", first, first + (int)n - 1);
    TRY(to_count(r, item, &bins[bin]));
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_side(struct reader *r, const cJSON *value, const char *key,
                             struct stats_side *side) {
  static const char *const keys[] = {"count",       "max",       "min",          "sum",
                                     "sum_squares", "exponents", "significands", NULL};
  const cJSON *object = cJSON_GetObjectItemCaseSensitive(value, key);
  if (!object)
    return STATUS_OK;  // nothing of this sign
  json_push_key(&r->path, key);
  TRY(check_keys(r, object, keys));
  TRY(read_count(r, object, "count", &side->count));
  TRY(read_magnitude(r, object, "max", &side->max));
  TRY(read_magnitude(r, object, "min", &side->min));
  TRY(read_sum(r, object, "sum", &side->sum));
  TRY(read_sum(r, object, "sum_squares", &side->sum_squares));
  TRY(read_histogram(r, object, "exponents", side->exponents, STATS_EXPONENTS, STATS_EXPONENT_MIN));
  TRY(read_histogram(r, object, "significands", side->significands + 1, STATS_SIGNIFICANDS - 1, 1));
  if (side->count == 0 || side->min == 0 || side->min > side->max)
    return FAIL(r, "needs a count over 0, and a max that is not below min, which is over 0");
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_window(struct reader *r, const cJSON *item, struct stats_window *w) {
  const cJSON *absmax = cJSON_GetArrayItem(item, 0), *absmin = cJSON_GetArrayItem(item, 1);
  if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 3)
    return FAIL(r, "must be [absmax, absmin, nonfinite]");
  TRY(to_magnitude(r, absmax, &w->absmax));
  TRY(to_magnitude(r, absmin, &w->absmin));
  return to_count(r, cJSON_GetArrayItem(item, 2), &w->nonfinite);
}

static enum status read_windows(struct reader *r, const cJSON *value, struct stats *s) {
  const cJSON *windows, *item;
  TRY(find(r, value, "windows", &windows));
  json_push_key(&r->path, "windows");
  size_t n = (size_t)cJSON_GetArraySize(windows), window = r->trace->window;
  if (!cJSON_IsArray(windows) || n > (r->trace->steps + window - 1) / window)
    return FAIL(r, "must be an array with one element a window");
  s->windows = calloc(n + 1, sizeof *s->windows);
  if (!s->windows)
    out_of_memory(n * sizeof *s->windows);
  s->capacity_windows = n + 1;
  cJSON_ArrayForEach(item, windows) {
    json_push_index(&r->path, (int)s->n_windows);
    TRY(read_window(r, item, &s->windows[s->n_windows]));
    s->n_windows++;
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_shape(struct reader *r, const cJSON *value, struct stats *s) {
  const cJSON *shape = cJSON_GetObjectItemCaseSensitive(value, "shape"), *item;
  if (!shape)
    return STATUS_OK;  // derived from another value
  json_push_key(&r->path, "shape");
  if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > STATS_DIMS)
    return FAIL(r, "must be an array of %d dims at most", STATS_DIMS);
  s->has_shape = true;
  cJSON_ArrayForEach(item, shape) {
    uint64_t dim = 0;
    json_push_index(&r->path, s->rank);
    TRY(to_count(r, item, &dim));
    s->dims[s->rank++] = (int64_t)dim;
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status unknown_name(struct reader *r, int scope, const char *name) {
  const struct graph *g = r->graph;
  const char **names = arena_array(r->arena, (size_t)g->n_values + 1, sizeof *names);
  size_t n = 0;
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].scope == scope)
      names[n++] = g->values[v].name;
  const char *near = nearest_name(name, names);
  diag_hint(r->diag, "Trace the model again.");
  return near ? FAIL(r, "the model has no value \"%s\"; is \"%s\" meant?", name, near)
              : FAIL(r, "the model has no value \"%s\"", name);
}

// Finds the value that `object` names by scope and name.
static enum status read_place(struct reader *r, const cJSON *object, int *v) {
  const char *name, *path;
  TRY(read_text(r, object, "name", &name));
  TRY(read_text(r, object, "scope", &path));
  int scope = map_get(&r->graph->paths, 0, path);
  if (scope < 0)
    return FAIL(r, "the model has no scope \"%s\"", path);
  *v = map_get(&r->graph->names, scope, name);
  return *v < 0 ? unknown_name(r, scope, name) : STATUS_OK;
}

static enum status check_value(struct reader *r, int v, const char *type) {
  const char *actual = tensor_type_name(r->graph->values[v].type.elem_type);
  if (strcmp(type, actual) != 0)
    return FAIL(r, "the type is %s here and %s in the model", type, actual);
  if (!trace_measures(r->graph, v))
    return FAIL(r, "the value \"%s\" is not one that a trace measures", r->graph->values[v].name);
  if (r->seen[v])
    return FAIL(r, "the value \"%s\" comes twice", r->graph->values[v].name);
  r->seen[v] = true;
  return STATUS_OK;
}

// Statistics of a value that was seen.
static enum status read_stats(struct reader *r, const cJSON *object, struct stats *s) {
  for (size_t k = 0; k < N_COUNTS; k++)
    TRY(read_count(r, object, counts[k].key, count_at(s, k)));
  TRY(read_shape(r, object, s));
  TRY(read_side(r, object, "positive", &s->positive));
  TRY(read_side(r, object, "negative", &s->negative));
  TRY(read_windows(r, object, s));
  uint64_t sum = s->zeros + s->nans + s->positive_infinities + s->negative_infinities +
                 s->positive.count + s->negative.count;
  if (sum != s->count || s->sampled > s->count)
    return FAIL(r, "the counts do not add up");
  if (!cJSON_GetObjectItemCaseSensitive(object, "first_nonfinite_step"))
    return STATUS_OK;
  uint64_t step = 0;
  TRY(read_count(r, object, "first_nonfinite_step", &step));
  s->first_nonfinite_step = (int64_t)step;
  return STATUS_OK;
}

static enum status read_value(struct reader *r, const cJSON *object) {
  static const char *const keys[] = {"name",
                                     "scope",
                                     "type",
                                     "runs",
                                     "count",
                                     "zeros",
                                     "nans",
                                     "positive_infinities",
                                     "negative_infinities",
                                     "sampled",
                                     "shape",
                                     "positive",
                                     "negative",
                                     "windows",
                                     "first_nonfinite_step",
                                     NULL};
  int v = -1;
  uint64_t runs = 0;
  const char *type = NULL;
  TRY(check_keys(r, object, keys));
  TRY(read_place(r, object, &v));
  TRY(read_text(r, object, "type", &type));
  TRY(check_value(r, v, type));
  TRY(read_count(r, object, "runs", &runs));
  return runs ? read_stats(r, object, &r->trace->stats[v]) : STATUS_OK;
}

static enum status read_values(struct reader *r, const cJSON *root) {
  const cJSON *values, *item;
  TRY(find(r, root, "values", &values));
  json_push_key(&r->path, "values");
  if (!cJSON_IsArray(values))
    return FAIL(r, "must be an array");
  int index = 0;
  cJSON_ArrayForEach(item, values) {
    json_push_index(&r->path, index++);
    TRY(read_value(r, item));
    json_pop(&r->path);
  }
  for (int v = 0; v < r->graph->n_values; v++)
    if (!r->seen[v] && trace_measures(r->graph, v))
      return FAIL(r, "the value \"%s\" is missing", graph_value_label(r->graph, v));
  json_pop(&r->path);
  return STATUS_OK;
}

// ---- Reading update sites ----

static enum status read_error(struct reader *r, const cJSON *by_order, const char *order,
                              struct updates_error *e) {
  static const char *const keys[] = {"max", "sum", "overflows", NULL};
  const cJSON *error;
  TRY(find(r, by_order, order, &error));
  json_push_key(&r->path, order);
  TRY(check_keys(r, error, keys));
  TRY(read_sum(r, error, "max", &e->max));
  TRY(read_sum(r, error, "sum", &e->sum));
  TRY(read_count(r, error, "overflows", &e->overflows));
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_errors(struct reader *r, const cJSON *object, struct updates_piece *p) {
  const char *keys[UPDATES_SIMULATED + 1] = {0};
  const char *orders[UPDATES_ORDERS + 1] = {0};
  const cJSON *errors, *by_order;
  if (!p->sums)
    return STATUS_OK;
  for (int k = 0; k < UPDATES_SIMULATED; k++)
    keys[k] = formats[updates_simulated[k]].name;
  for (int order = 0; order < UPDATES_ORDERS; order++)
    orders[order] = updates_order_names[order];
  TRY(find(r, object, "errors", &errors));
  json_push_key(&r->path, "errors");
  TRY(check_keys(r, errors, keys));
  for (int k = 0; k < UPDATES_SIMULATED; k++) {
    TRY(find(r, errors, keys[k], &by_order));
    json_push_key(&r->path, keys[k]);
    TRY(check_keys(r, by_order, orders));
    for (int order = 0; order < UPDATES_ORDERS; order++)
      TRY(read_error(r, by_order, orders[order], &p->errors[k][order]));
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_update_window(struct reader *r, const cJSON *item,
                                      struct updates_window *w) {
  const char *keys[FORMAT_COUNT + 2] = {"updates"};
  for (int f = 0; f < FORMAT_COUNT; f++)
    keys[f + 1] = formats[f].name;
  TRY(check_keys(r, item, keys));
  TRY(read_count(r, item, "updates", &w->updates));
  for (int f = 0; f < FORMAT_COUNT; f++) {
    if (!cJSON_GetObjectItemCaseSensitive(item, formats[f].name))
      continue;
    TRY(read_count(r, item, formats[f].name, &w->below[f]));
    if (w->below[f] > w->updates)
      return FAIL(r, "more updates are below a step of %s than there are", formats[f].name);
  }
  return STATUS_OK;
}

static enum status read_update_windows(struct reader *r, const cJSON *object, struct updates *u) {
  const cJSON *windows, *item;
  uint64_t updates = 0;
  TRY(find(r, object, "windows", &windows));
  json_push_key(&r->path, "windows");
  size_t n = (size_t)cJSON_GetArraySize(windows), window = r->trace->window;
  size_t steps =
      r->trace->steps > r->trace->weight_steps ? r->trace->steps : r->trace->weight_steps;
  if (!cJSON_IsArray(windows) || n > (steps + window - 1) / window)
    return FAIL(r, "must be an array with one element a window");
  u->windows = calloc(n + 1, sizeof *u->windows);
  if (!u->windows)
    out_of_memory(n * sizeof *u->windows);
  u->capacity_windows = n + 1;
  cJSON_ArrayForEach(item, windows) {
    json_push_index(&r->path, (int)u->n_windows);
    TRY(read_update_window(r, item, &u->windows[u->n_windows]));
    updates += u->windows[u->n_windows++].updates;
    json_pop(&r->path);
  }
  if (updates != updates_count(&u->total))
    return FAIL(r, "the updates of the windows do not add up to those of the site");
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_site_counts(struct reader *r, const cJSON *object, struct updates *u) {
  struct updates_piece *p = &u->total;
  TRY(read_count(r, object, "runs", &u->runs));
  for (size_t k = 0; k < N_UPDATE_COUNTS; k++)
    TRY(read_count(r, object, update_counts[k].key, update_count_at(u, k)));
  TRY(read_histogram(r, object, "differences", p->bins, UPDATES_BINS, UPDATES_MIN));
  uint64_t sum = p->zero_updates + p->not_finite + p->zero_accumulators;
  for (int i = 0; i < UPDATES_BINS; i++)
    sum += p->bins[i];
  if (sum != p->pairs)
    return FAIL(r, "the counts do not add up");
  TRY(read_errors(r, object, p));
  return read_update_windows(r, object, u);
}

static enum status read_site(struct reader *r, const cJSON *object, size_t i, uint8_t *seen) {
  static const char *const keys[] = {"kind",        "name",   "scope",
                                     "runs",        "pairs",  "zero_updates",
                                     "not_finite",  "sums",   "zero_accumulators",
                                     "differences", "errors", "windows",
                                     NULL};
  struct update_site *site = &r->trace->sites[i];
  const char *name;
  int kind = 0;
  TRY(check_keys(r, object, keys));
  TRY(read_text(r, object, "kind", &name));
  while (kind < UPDATE_KINDS && strcmp(update_kind_name((enum update_kind)kind), name) != 0)
    kind++;
  if (kind == UPDATE_KINDS)
    return FAIL(r, "there is no kind \"%s\" of update site", name);
  TRY(read_place(r, object, &site->value));
  site->kind = (enum update_kind)kind;
  if (seen[site->value] >> kind & 1)
    return FAIL(r, "the site \"%s\" comes twice", r->graph->values[site->value].name);
  seen[site->value] |= (uint8_t)(1u << kind);
  return read_site_counts(r, object, &r->trace->updates[i]);
}

static enum status read_updates(struct reader *r, const cJSON *root) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "updates"), *item;
  bool sampled = cJSON_GetObjectItemCaseSensitive(root, "update_sample");
  bool weights = cJSON_GetObjectItemCaseSensitive(root, "weight_steps");
  if (!sampled && !weights && !list)
    return STATUS_OK;  // none were watched
  if (sampled)
    TRY(read_size(r, root, "update_sample", &r->trace->update_sample));
  if (weights)
    TRY(read_size(r, root, "weight_steps", &r->trace->weight_steps));
  TRY(find(r, root, "updates", &list));
  json_push_key(&r->path, "updates");
  if (!cJSON_IsArray(list))
    return FAIL(r, "must be an array");
  size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
  uint8_t *seen = arena_array(r->arena, (size_t)r->graph->n_values, sizeof *seen);
  struct update_site *none = arena_array(r->arena, n, sizeof *none);
  trace_add_sites(r->trace, none, n);
  cJSON_ArrayForEach(item, list) {
    json_push_index(&r->path, (int)i);
    TRY(read_site(r, item, i++, seen));
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

// ---- Reading the rest ----

static enum status check_model(struct reader *r, const cJSON *root) {
  static const char *const keys[] = {"file", "sha256", NULL};
  const cJSON *object;
  const char *file, *sha256;
  TRY(find(r, root, "model", &object));
  json_push_key(&r->path, "model");
  TRY(check_keys(r, object, keys));
  TRY(read_text(r, object, "file", &file));
  TRY(read_text(r, object, "sha256", &sha256));
  json_push_key(&r->path, "sha256");
  if (strcmp(sha256, r->graph->model->sha256) != 0) {
    diag_hint(r->diag, "Trace %s, or give the model that was traced.", r->graph->model->path);
    return FAIL(r, "this trace is of another model (%s, SHA-256 %.16s...); that of %s is %.16s...",
                file, sha256, r->graph->model->path, r->graph->model->sha256);
  }
  json_pop(&r->path);
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_samples(struct reader *r, const cJSON *root) {
  static const char *const keys[] = {"count", "with_held_out", "sha256", "synthetic", NULL};
  const cJSON *object, *synthetic;
  const char *sha256;
  TRY(find(r, root, "samples", &object));
  json_push_key(&r->path, "samples");
  TRY(check_keys(r, object, keys));
  TRY(read_size(r, object, "count", &r->trace->steps));
  TRY(read_size(r, object, "with_held_out", &r->trace->samples));
  TRY(read_text(r, object, "sha256", &sha256));
  TRY(find(r, object, "synthetic", &synthetic));
  if (!cJSON_IsBool(synthetic))
    return FAIL(r, "\"synthetic\" must be true or false");
  r->trace->synthetic = cJSON_IsTrue(synthetic);
  snprintf(r->trace->samples_sha256, sizeof r->trace->samples_sha256, "%s", sha256);
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_nonfinite(struct reader *r, const cJSON *root) {
  static const char *const keys[] = {"name", "scope", "sample", NULL};
  const cJSON *object = cJSON_GetObjectItemCaseSensitive(root, "nonfinite");
  if (!object)
    return STATUS_OK;
  const char *sample;
  json_push_key(&r->path, "nonfinite");
  TRY(check_keys(r, object, keys));
  TRY(read_place(r, object, &r->trace->nonfinite_value));
  TRY(read_text(r, object, "sample", &sample));
  r->trace->nonfinite_sample = arena_strdup(r->arena, sample);
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_root(struct reader *r, const cJSON *root) {
  static const char *const keys[] = {
      "schema",        "tool",         "model",     "samples", "engine",  "window", "sample",
      "update_sample", "weight_steps", "nonfinite", "values",  "updates", NULL};
  uint64_t schema = 0;
  const char *tool, *engine;
  if (!cJSON_IsObject(root))
    return FAIL(r, "not a trace file: must be an object");
  TRY(read_count(r, root, "schema", &schema));
  if (schema != SCHEMA)
    return FAIL(r, "the schema is %llu; this version reads %d", (unsigned long long)schema, SCHEMA);
  TRY(check_keys(r, root, keys));
  TRY(read_text(r, root, "tool", &tool));
  TRY(check_model(r, root));
  TRY(read_samples(r, root));
  TRY(read_text(r, root, "engine", &engine));
  snprintf(r->trace->engine_version, sizeof r->trace->engine_version, "%s", engine);
  TRY(read_size(r, root, "window", &r->trace->window));
  TRY(read_size(r, root, "sample", &r->trace->sample));
  if (r->trace->window == 0)
    return FAIL(r, "\"window\" must be at least 1");
  TRY(read_nonfinite(r, root));
  TRY(read_values(r, root));
  return read_updates(r, root);
}

enum status trace_read(struct trace *t, struct graph *g, const char *path, struct arena *a,
                       struct diag *d) {
  trace_init(t, g);
  struct reader r = {.file = path, .trace = t, .graph = g, .arena = a, .diag = d};
  struct arena scratch = {0};
  r.seen = arena_array(&scratch, (size_t)g->n_values, sizeof *r.seen);
  cJSON *root = NULL;
  enum status status = json_read(&root, &r.text, path, STATUS_POLICY, &scratch, d);
  if (status == STATUS_OK)
    status = read_root(&r, root);
  cJSON_Delete(root);
  arena_free(&scratch);
  if (status != STATUS_OK)
    trace_free(t);
  return status;
}
