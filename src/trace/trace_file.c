// The trace file: JSON, one value a line, so that two traces are easy to diff. Only what is not
// zero is written of the histograms. Numbers read back exactly.
#include "trace_file.h"
#include "file.h"
#include "json.h"
#include "nearest.h"
#include "tensor.h"

#include <assert.h>
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

// ---- Writing ----

void trace_write_histogram(struct json_writer *w, const char *key, const uint64_t *bins, int n,
                           int first) {
  json_object(w, key);
  for (int i = 0; i < n; i++) {
    char bin[16];
    if (!bins[i])
      continue;
    snprintf(bin, sizeof bin, "%d", i + first);
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
  const struct stats_histogram *e = &side->exponents, *s = &side->significands;
  trace_write_histogram(w, "exponents", e->counts, e->n, e->first);
  trace_write_histogram(w, "significands", s->counts, s->n, s->first);
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

void trace_write_place(struct json_writer *w, const struct graph *g, int v) {
  json_string(w, "name", g->values[v].name);
  json_string(w, "scope", g->scopes[g->values[v].scope].path);
}

static void write_value(struct json_writer *w, const struct graph *g, int v, struct stats *s) {
  json_object(w, NULL);
  trace_write_place(w, g, v);
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

static void write_header(struct json_writer *w, const struct trace *t, const struct graph *g) {
  json_integer(w, "schema", SCHEMA);
  json_string(w, "tool", "narrowcast " NARROWCAST_VERSION);
  json_object(w, "model");
  json_string(w, "file", file_base(g->model->path));
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
  trace_write_place(w, g, t->nonfinite_value);
  json_string(w, "sample", t->nonfinite_sample ? t->nonfinite_sample : "");
  json_end_object(w);
}

void trace_print(const struct trace *t, struct graph *g, FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 2};
  json_object(&w, NULL);
  write_header(&w, t, g);
  json_array(&w, "values");
  for (int v = 0; v < g->n_values; v++)
    if (trace_measures(g, v))
      write_value(&w, g, v, &t->stats[v]);
  json_end_array(&w);
  trace_write_updates(&w, t, g);
  json_end_object(&w);
}

enum status trace_write(const struct trace *t, struct graph *g, const char *path, struct diag *d) {
  struct file_writer file = {0};
  TRY(file_begin(&file, path, d));
  trace_print(t, g, file.out);
  return file_commit(&file, d);
}

// ---- Reading ----

// Whether `key` is one of `keys`. Looks from *at on first, and moves it there: most files have
// their keys in the same order.
static bool find_key(const char *const *keys, const char *key, size_t *at) {
  for (size_t k = *at; keys[k]; k++)
    if (strcmp(keys[k], key) == 0) {
      *at = k;
      return true;
    }
  for (size_t k = 0; k < *at; k++)
    if (strcmp(keys[k], key) == 0)
      return true;
  return false;
}

// Every key of the object must be one of `keys`; none comes twice, since json_parse refuses that.
enum status trace_check_keys(struct trace_reader *r, const struct json *object,
                             const char *const *keys) {
  if (!json_is(object, JSON_OBJECT))
    return TRACE_FAIL(r, "must be an object");
  size_t at = 0;
  for (const struct json *item = object->first; item; item = item->next) {
    if (find_key(keys, item->key, &at))
      continue;
    json_push_key(&r->path, item->key);
    const char *near = nearest_name(item->key, keys);
    return near ? TRACE_FAIL(r, "unknown key; is \"%s\" meant?", near)
                : TRACE_FAIL(r, "unknown key");
  }
  return STATUS_OK;
}

enum status trace_find_key(struct trace_reader *r, const struct json *object, const char *key,
                           const struct json **item) {
  *item = json_member(object, key);
  return *item ? STATUS_OK : TRACE_FAIL(r, "the key \"%s\" is missing", key);
}

static enum status to_count(struct trace_reader *r, const struct json *item, uint64_t *out) {
  const double limit = 9007199254740992.0;  // 2^53: beyond it a double skips integers
  double x = item->number;
  if (!json_is(item, JSON_NUMBER) || !(x >= 0 && x <= limit) || x != floor(x))
    return TRACE_FAIL(r, "must be an integer from 0 to 2^53");
  *out = (uint64_t)x;
  return STATUS_OK;
}

static enum status to_magnitude(struct trace_reader *r, const struct json *item, float *out) {
  double x = item->number;
  if (!json_is(item, JSON_NUMBER) || !(x >= 0 && x <= FLT_MAX) || x != (double)(float)x)
    return TRACE_FAIL(r, "must be a finite float that is not negative");
  *out = (float)x;
  return STATUS_OK;
}

enum status trace_read_count(struct trace_reader *r, const struct json *object, const char *key,
                             uint64_t *out) {
  const struct json *item;
  TRY(trace_find_key(r, object, key, &item));
  json_push_key(&r->path, key);
  TRY(to_count(r, item, out));
  json_pop(&r->path);
  return STATUS_OK;
}

enum status trace_read_size(struct trace_reader *r, const struct json *object, const char *key,
                            size_t *out) {
  uint64_t count = 0;
  TRY(trace_read_count(r, object, key, &count));
  *out = (size_t)count;
  return STATUS_OK;
}

static enum status read_magnitude(struct trace_reader *r, const struct json *object,
                                  const char *key, float *out) {
  const struct json *item;
  TRY(trace_find_key(r, object, key, &item));
  json_push_key(&r->path, key);
  TRY(to_magnitude(r, item, out));
  json_pop(&r->path);
  return STATUS_OK;
}

enum status trace_read_sum(struct trace_reader *r, const struct json *object, const char *key,
                           double *out) {
  const struct json *item;
  TRY(trace_find_key(r, object, key, &item));
  json_push_key(&r->path, key);
  if (!json_to_number(item, out) || !(*out >= 0))
    return TRACE_FAIL(r, "must be a number that is not negative");
  json_pop(&r->path);
  return STATUS_OK;
}

enum status trace_read_text(struct trace_reader *r, const struct json *object, const char *key,
                            const char **out) {
  const struct json *item;
  TRY(trace_find_key(r, object, key, &item));
  json_push_key(&r->path, key);
  if (!json_is(item, JSON_STRING))
    return TRACE_FAIL(r, "must be a string");
  *out = item->text;
  json_pop(&r->path);
  return STATUS_OK;
}

// The bin that a histogram's key names; -1 if it names none.
static int bin_of(const char *key, int n, int first) {
  const char *digits = key + (*key == '-');
  size_t length = strspn(digits, "0123456789");
  bool canonical = digits[length] == '\0' && length > 0 && length < 6 &&
                   (digits[0] != '0' || strcmp(key, "0") == 0);
  long value = canonical ? strtol(key, NULL, 10) : first - 1L;
  return value >= first && value < first + n ? (int)(value - first) : -1;
}

enum status trace_read_histogram(struct trace_reader *r, const struct json *object, const char *key,
                                 uint64_t *bins, int n, int first) {
  const struct json *histogram, *item;
  TRY(trace_find_key(r, object, key, &histogram));
  json_push_key(&r->path, key);
  if (!json_is(histogram, JSON_OBJECT))
    return TRACE_FAIL(r, "must be an object");
  for (item = json_first(histogram); item; item = item->next) {
    json_push_key(&r->path, item->key);
    int bin = bin_of(item->key, n, first);
    if (bin < 0)
      return TRACE_FAIL(r, "the key must be an integer from %d to %d", first, first + n - 1);
    TRY(to_count(r, item, &bins[bin]));
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_bins(struct trace_reader *r, const struct json *object, const char *key,
                             struct stats_histogram *h, int first, int n) {
  uint64_t bins[STATS_EXPONENTS] = {0};
  assert(n <= STATS_EXPONENTS);
  TRY(trace_read_histogram(r, object, key, bins, n, first));
  stats_histogram_add(h, bins, first, n);
  return STATUS_OK;
}

static enum status read_side(struct trace_reader *r, const struct json *value, const char *key,
                             struct stats_side *side) {
  static const char *const keys[] = {"count",       "max",       "min",          "sum",
                                     "sum_squares", "exponents", "significands", NULL};
  const struct json *object = json_member(value, key);
  if (!object)
    return STATUS_OK;  // nothing of this sign
  json_push_key(&r->path, key);
  TRY(trace_check_keys(r, object, keys));
  TRY(trace_read_count(r, object, "count", &side->count));
  TRY(read_magnitude(r, object, "max", &side->max));
  TRY(read_magnitude(r, object, "min", &side->min));
  TRY(trace_read_sum(r, object, "sum", &side->sum));
  TRY(trace_read_sum(r, object, "sum_squares", &side->sum_squares));
  TRY(read_bins(r, object, "exponents", &side->exponents, STATS_EXPONENT_MIN, STATS_EXPONENTS));
  TRY(read_bins(r, object, "significands", &side->significands, 1, STATS_SIGNIFICANDS - 1));
  if (side->count == 0 || side->min == 0 || side->min > side->max)
    return TRACE_FAIL(r, "needs a count over 0, and a max that is not below min, which is over 0");
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_window(struct trace_reader *r, const struct json *item,
                               struct stats_window *w) {
  const struct json *absmax = json_element(item, 0), *absmin = json_element(item, 1);
  if (!json_is(item, JSON_ARRAY) || json_count(item) != 3)
    return TRACE_FAIL(r, "must be [absmax, absmin, nonfinite]");
  TRY(to_magnitude(r, absmax, &w->absmax));
  TRY(to_magnitude(r, absmin, &w->absmin));
  return to_count(r, json_element(item, 2), &w->nonfinite);
}

static enum status read_windows(struct trace_reader *r, const struct json *value, struct stats *s) {
  const struct json *windows, *item;
  TRY(trace_find_key(r, value, "windows", &windows));
  json_push_key(&r->path, "windows");
  size_t n = (size_t)json_count(windows), window = r->trace->window;
  if (!json_is(windows, JSON_ARRAY) || n > (r->trace->steps + window - 1) / window)
    return TRACE_FAIL(r, "must be an array with one element a window");
  s->windows = calloc(n + 1, sizeof *s->windows);
  if (!s->windows)
    out_of_memory(n * sizeof *s->windows);
  s->capacity_windows = n + 1;
  for (item = json_first(windows); item; item = item->next) {
    json_push_index(&r->path, (int)s->n_windows);
    TRY(read_window(r, item, &s->windows[s->n_windows]));
    s->n_windows++;
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_shape(struct trace_reader *r, const struct json *value, struct stats *s) {
  const struct json *shape = json_member(value, "shape"), *item;
  if (!shape)
    return STATUS_OK;  // derived from another value
  json_push_key(&r->path, "shape");
  if (!json_is(shape, JSON_ARRAY) || json_count(shape) > STATS_DIMS)
    return TRACE_FAIL(r, "must be an array of %d dims at most", STATS_DIMS);
  s->has_shape = true;
  for (item = json_first(shape); item; item = item->next) {
    uint64_t dim = 0;
    json_push_index(&r->path, s->rank);
    TRY(to_count(r, item, &dim));
    s->dims[s->rank++] = (int64_t)dim;
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status unknown_name(struct trace_reader *r, int scope, const char *name) {
  const struct graph *g = r->graph;
  const char **names = arena_array(r->arena, (size_t)g->n_values + 1, sizeof *names);
  size_t n = 0;
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].scope == scope)
      names[n++] = g->values[v].name;
  const char *near = nearest_name(name, names);
  diag_hint(r->diag, "Trace the model again.");
  return near ? TRACE_FAIL(r, "the model has no value \"%s\"; is \"%s\" meant?", name, near)
              : TRACE_FAIL(r, "the model has no value \"%s\"", name);
}

// Finds the value that `object` names by scope and name.
enum status trace_read_place(struct trace_reader *r, const struct json *object, int *v) {
  const char *name, *path;
  TRY(trace_read_text(r, object, "name", &name));
  TRY(trace_read_text(r, object, "scope", &path));
  int scope = map_get(&r->graph->paths, 0, path);
  if (scope < 0)
    return TRACE_FAIL(r, "the model has no scope \"%s\"", path);
  *v = map_get(&r->graph->names, scope, name);
  return *v < 0 ? unknown_name(r, scope, name) : STATUS_OK;
}

static enum status check_value(struct trace_reader *r, int v, const char *type) {
  const char *actual = tensor_type_name(r->graph->values[v].type.elem_type);
  if (strcmp(type, actual) != 0)
    return TRACE_FAIL(r, "the type is %s here and %s in the model", type, actual);
  if (!trace_measures(r->graph, v))
    return TRACE_FAIL(r, "the value \"%s\" is not one that a trace measures",
                      r->graph->values[v].name);
  if (r->seen[v])
    return TRACE_FAIL(r, "the value \"%s\" comes twice", r->graph->values[v].name);
  r->seen[v] = true;
  return STATUS_OK;
}

// Statistics of a value that was seen.
static enum status read_stats(struct trace_reader *r, const struct json *object, struct stats *s) {
  for (size_t k = 0; k < N_COUNTS; k++)
    TRY(trace_read_count(r, object, counts[k].key, count_at(s, k)));
  TRY(read_shape(r, object, s));
  TRY(read_side(r, object, "positive", &s->positive));
  TRY(read_side(r, object, "negative", &s->negative));
  TRY(read_windows(r, object, s));
  uint64_t sum = s->zeros + s->nans + s->positive_infinities + s->negative_infinities +
                 s->positive.count + s->negative.count;
  if (sum != s->count || s->sampled > s->count)
    return TRACE_FAIL(r, "the counts do not add up");
  if (!json_member(object, "first_nonfinite_step"))
    return STATUS_OK;
  uint64_t step = 0;
  TRY(trace_read_count(r, object, "first_nonfinite_step", &step));
  s->first_nonfinite_step = (int64_t)step;
  return STATUS_OK;
}

static enum status read_value(struct trace_reader *r, const struct json *object) {
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
  TRY(trace_check_keys(r, object, keys));
  TRY(trace_read_place(r, object, &v));
  TRY(trace_read_text(r, object, "type", &type));
  TRY(check_value(r, v, type));
  TRY(trace_read_count(r, object, "runs", &runs));
  return runs ? read_stats(r, object, &r->trace->stats[v]) : STATUS_OK;
}

static enum status read_values(struct trace_reader *r, const struct json *root) {
  const struct json *values, *item;
  TRY(trace_find_key(r, root, "values", &values));
  json_push_key(&r->path, "values");
  if (!json_is(values, JSON_ARRAY))
    return TRACE_FAIL(r, "must be an array");
  int index = 0;
  for (item = json_first(values); item; item = item->next) {
    json_push_index(&r->path, index++);
    TRY(read_value(r, item));
    json_pop(&r->path);
  }
  for (int v = 0; v < r->graph->n_values; v++)
    if (!r->seen[v] && trace_measures(r->graph, v))
      return TRACE_FAIL(r, "the value \"%s\" is missing", graph_value_label(r->graph, v));
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status check_model(struct trace_reader *r, const struct json *root) {
  static const char *const keys[] = {"file", "sha256", NULL};
  const struct json *object;
  const char *file, *sha256;
  TRY(trace_find_key(r, root, "model", &object));
  json_push_key(&r->path, "model");
  TRY(trace_check_keys(r, object, keys));
  TRY(trace_read_text(r, object, "file", &file));
  TRY(trace_read_text(r, object, "sha256", &sha256));
  json_push_key(&r->path, "sha256");
  if (strcmp(sha256, r->graph->model->sha256) != 0) {
    diag_hint(r->diag, "Trace %s, or give the model that was traced.", r->graph->model->path);
    return TRACE_FAIL(
        r, "this trace is of another model (%s, SHA-256 %.16s...); that of %s is %.16s...", file,
        sha256, r->graph->model->path, r->graph->model->sha256);
  }
  json_pop(&r->path);
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_samples(struct trace_reader *r, const struct json *root) {
  static const char *const keys[] = {"count", "with_held_out", "sha256", "synthetic", NULL};
  const struct json *object, *synthetic;
  const char *sha256;
  TRY(trace_find_key(r, root, "samples", &object));
  json_push_key(&r->path, "samples");
  TRY(trace_check_keys(r, object, keys));
  TRY(trace_read_size(r, object, "count", &r->trace->steps));
  TRY(trace_read_size(r, object, "with_held_out", &r->trace->samples));
  TRY(trace_read_text(r, object, "sha256", &sha256));
  TRY(trace_find_key(r, object, "synthetic", &synthetic));
  if (!json_is_bool(synthetic))
    return TRACE_FAIL(r, "\"synthetic\" must be true or false");
  r->trace->synthetic = json_is(synthetic, JSON_TRUE);
  snprintf(r->trace->samples_sha256, sizeof r->trace->samples_sha256, "%s", sha256);
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_nonfinite(struct trace_reader *r, const struct json *root) {
  static const char *const keys[] = {"name", "scope", "sample", NULL};
  const struct json *object = json_member(root, "nonfinite");
  if (!object)
    return STATUS_OK;
  const char *sample;
  json_push_key(&r->path, "nonfinite");
  TRY(trace_check_keys(r, object, keys));
  TRY(trace_read_place(r, object, &r->trace->nonfinite_value));
  TRY(trace_read_text(r, object, "sample", &sample));
  r->trace->nonfinite_sample = arena_strdup(r->arena, sample);
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_root(struct trace_reader *r, const struct json *root) {
  static const char *const keys[] = {
      "schema",        "tool",         "model",     "samples", "engine",  "window", "sample",
      "update_sample", "weight_steps", "nonfinite", "values",  "updates", NULL};
  uint64_t schema = 0;
  const char *tool, *engine;
  if (!json_is(root, JSON_OBJECT))
    return TRACE_FAIL(r, "not a trace file: must be an object");
  TRY(trace_read_count(r, root, "schema", &schema));
  if (schema != SCHEMA)
    return TRACE_FAIL(r, "the schema is %llu; this version reads %d", (unsigned long long)schema,
                      SCHEMA);
  TRY(trace_check_keys(r, root, keys));
  TRY(trace_read_text(r, root, "tool", &tool));
  TRY(check_model(r, root));
  TRY(read_samples(r, root));
  TRY(trace_read_text(r, root, "engine", &engine));
  snprintf(r->trace->engine_version, sizeof r->trace->engine_version, "%s", engine);
  TRY(trace_read_size(r, root, "window", &r->trace->window));
  TRY(trace_read_size(r, root, "sample", &r->trace->sample));
  if (r->trace->window == 0)
    return TRACE_FAIL(r, "\"window\" must be at least 1");
  TRY(read_nonfinite(r, root));
  TRY(read_values(r, root));
  return trace_read_updates(r, root);
}

enum status trace_read(struct trace *t, struct graph *g, const char *path, struct arena *a,
                       struct diag *d) {
  trace_init(t, g);
  struct trace_reader r = {.file = path, .trace = t, .graph = g, .arena = a, .diag = d};
  struct arena scratch = {0};
  r.seen = arena_array(&scratch, (size_t)g->n_values, sizeof *r.seen);
  enum status status = json_read(&r.root, path, STATUS_POLICY, &scratch, d);
  if (status == STATUS_OK)
    status = read_root(&r, r.root);
  arena_free(&scratch);
  if (status != STATUS_OK)
    trace_free(t);
  return status;
}
