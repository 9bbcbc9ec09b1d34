// The update sites in a trace file: one a line, as the values; of the exponent differences and the
// windows only what is not zero is written.
#include "trace_file.h"

#include <stdlib.h>
#include <string.h>

// The counts of a site, in the order of the file.
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
  trace_write_place(w, g, t->sites[i].value);
  json_integer(w, "runs", (int64_t)u->runs);
  for (size_t k = 0; k < N_UPDATE_COUNTS; k++)
    json_integer(w, update_counts[k].key, (int64_t)*update_count_at(u, k));
  trace_write_histogram(w, "differences", u->total.bins, UPDATES_BINS, UPDATES_MIN);
  if (u->total.sums)
    write_errors(w, &u->total);
  write_update_windows(w, u);
  json_end_object(w);
}

void trace_write_updates(struct json_writer *w, const struct trace *t, const struct graph *g) {
  if (!t->update_sample && !t->n_sites)
    return;
  json_array(w, "updates");
  for (size_t i = 0; i < t->n_sites; i++)
    write_site(w, t, g, i);
  json_end_array(w);
}

// ---- Reading ----

static enum status read_error(struct trace_reader *r, const struct json *by_order,
                              const char *order, struct updates_error *e) {
  static const char *const keys[] = {"max", "sum", "overflows", NULL};
  const struct json *error;
  TRY(trace_find_key(r, by_order, order, &error));
  json_push_key(&r->path, order);
  TRY(trace_check_keys(r, error, keys));
  TRY(trace_read_sum(r, error, "max", &e->max));
  TRY(trace_read_sum(r, error, "sum", &e->sum));
  TRY(trace_read_count(r, error, "overflows", &e->overflows));
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_errors(struct trace_reader *r, const struct json *object,
                               struct updates_piece *p) {
  const char *keys[UPDATES_SIMULATED + 1] = {0};
  const char *orders[UPDATES_ORDERS + 1] = {0};
  const struct json *errors, *by_order;
  if (!p->sums)
    return STATUS_OK;
  for (int k = 0; k < UPDATES_SIMULATED; k++)
    keys[k] = formats[updates_simulated[k]].name;
  for (int order = 0; order < UPDATES_ORDERS; order++)
    orders[order] = updates_order_names[order];
  TRY(trace_find_key(r, object, "errors", &errors));
  json_push_key(&r->path, "errors");
  TRY(trace_check_keys(r, errors, keys));
  for (int k = 0; k < UPDATES_SIMULATED; k++) {
    TRY(trace_find_key(r, errors, keys[k], &by_order));
    json_push_key(&r->path, keys[k]);
    TRY(trace_check_keys(r, by_order, orders));
    for (int order = 0; order < UPDATES_ORDERS; order++)
      TRY(read_error(r, by_order, orders[order], &p->errors[k][order]));
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_update_window(struct trace_reader *r, const struct json *item,
                                      struct updates_window *w) {
  const char *keys[FORMAT_COUNT + 2] = {"updates"};
  for (int f = 0; f < FORMAT_COUNT; f++)
    keys[f + 1] = formats[f].name;
  TRY(trace_check_keys(r, item, keys));
  TRY(trace_read_count(r, item, "updates", &w->updates));
  for (int f = 0; f < FORMAT_COUNT; f++) {
    if (!json_member(item, formats[f].name))
      continue;
    TRY(trace_read_count(r, item, formats[f].name, &w->below[f]));
    if (w->below[f] > w->updates)
      return TRACE_FAIL(r, "more updates are below a step of %s than there are", formats[f].name);
  }
  return STATUS_OK;
}

static enum status read_update_windows(struct trace_reader *r, const struct json *object,
                                       struct updates *u) {
  const struct json *windows, *item;
  uint64_t updates = 0;
  TRY(trace_find_key(r, object, "windows", &windows));
  json_push_key(&r->path, "windows");
  size_t n = (size_t)json_count(windows), window = r->trace->window;
  size_t steps =
      r->trace->steps > r->trace->weight_steps ? r->trace->steps : r->trace->weight_steps;
  if (!json_is(windows, JSON_ARRAY) || n > (steps + window - 1) / window)
    return TRACE_FAIL(r, "must be an array with one element a window");
  u->windows = calloc(n + 1, sizeof *u->windows);
  if (!u->windows)
    out_of_memory(n * sizeof *u->windows);
  u->capacity_windows = n + 1;
  for (item = json_first(windows); item; item = item->next) {
    json_push_index(&r->path, (int)u->n_windows);
    TRY(read_update_window(r, item, &u->windows[u->n_windows]));
    updates += u->windows[u->n_windows++].updates;
    json_pop(&r->path);
  }
  if (updates != updates_count(&u->total))
    return TRACE_FAIL(r, "the updates of the windows do not add up to those of the site");
  json_pop(&r->path);
  return STATUS_OK;
}

static enum status read_site_counts(struct trace_reader *r, const struct json *object,
                                    struct updates *u) {
  struct updates_piece *p = &u->total;
  TRY(trace_read_count(r, object, "runs", &u->runs));
  for (size_t k = 0; k < N_UPDATE_COUNTS; k++)
    TRY(trace_read_count(r, object, update_counts[k].key, update_count_at(u, k)));
  TRY(trace_read_histogram(r, object, "differences", p->bins, UPDATES_BINS, UPDATES_MIN));
  uint64_t sum = p->zero_updates + p->not_finite + p->zero_accumulators;
  for (int i = 0; i < UPDATES_BINS; i++)
    sum += p->bins[i];
  if (sum != p->pairs)
    return TRACE_FAIL(r, "the counts do not add up");
  TRY(read_errors(r, object, p));
  return read_update_windows(r, object, u);
}

static enum status read_site(struct trace_reader *r, const struct json *object, size_t i,
                             uint8_t *seen) {
  static const char *const keys[] = {"kind",        "name",   "scope",
                                     "runs",        "pairs",  "zero_updates",
                                     "not_finite",  "sums",   "zero_accumulators",
                                     "differences", "errors", "windows",
                                     NULL};
  struct update_site *site = &r->trace->sites[i];
  const char *name;
  int kind = 0;
  TRY(trace_check_keys(r, object, keys));
  TRY(trace_read_text(r, object, "kind", &name));
  while (kind < UPDATE_KINDS && strcmp(update_kind_name((enum update_kind)kind), name) != 0)
    kind++;
  if (kind == UPDATE_KINDS)
    return TRACE_FAIL(r, "there is no kind \"%s\" of update site", name);
  TRY(trace_read_place(r, object, &site->value));
  site->kind = (enum update_kind)kind;
  if (seen[site->value] >> kind & 1)
    return TRACE_FAIL(r, "the site \"%s\" comes twice", r->graph->values[site->value].name);
  seen[site->value] |= (uint8_t)(1u << kind);
  return read_site_counts(r, object, &r->trace->updates[i]);
}

enum status trace_read_updates(struct trace_reader *r, const struct json *root) {
  const struct json *list = json_member(root, "updates"), *item;
  bool sampled = json_member(root, "update_sample");
  bool weights = json_member(root, "weight_steps");
  if (!sampled && !weights && !list)
    return STATUS_OK;  // none were watched
  if (sampled)
    TRY(trace_read_size(r, root, "update_sample", &r->trace->update_sample));
  if (weights)
    TRY(trace_read_size(r, root, "weight_steps", &r->trace->weight_steps));
  TRY(trace_find_key(r, root, "updates", &list));
  json_push_key(&r->path, "updates");
  if (!json_is(list, JSON_ARRAY))
    return TRACE_FAIL(r, "must be an array");
  size_t n = (size_t)json_count(list), i = 0;
  uint8_t *seen = arena_array(r->arena, (size_t)r->graph->n_values, sizeof *seen);
  struct update_site *none = arena_array(r->arena, n, sizeof *none);
  trace_add_sites(r->trace, none, n);
  for (item = json_first(list); item; item = item->next) {
    json_push_index(&r->path, (int)i);
    TRY(read_site(r, item, i++, seen));
    json_pop(&r->path);
  }
  json_pop(&r->path);
  return STATUS_OK;
}
