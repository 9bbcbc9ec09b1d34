// The arguments of a conversion: see arguments.h.
#include "arguments.h"

struct words {
  const char **items;
  size_t count, capacity;
  struct arena *arena;
};

static void add(struct words *w, const char *word) {
  w->items = arena_grow(w->arena, w->items, &w->capacity, w->count + 2, sizeof *w->items);
  w->items[w->count++] = word;
}

static void add_pair(struct words *w, const char *option, const char *value) {
  add(w, option);
  add(w, value);
}

const char *const *arguments_of_conversion(const struct zoo_model *m, const struct batch_options *o,
                                           const char *folder, struct arena *a) {
  struct words w = {.arena = a};
  static const char *const flags[] = {"narrowcast", "convert", "--json", "--quiet"};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
    add(&w, flags[i]);
  add_pair(&w, "--threads", arena_printf(a, "%d", o->threads));
  add_pair(&w, "--policy", m->policy ? m->policy : o->policy);
  if (o->engine)
    add_pair(&w, "--ort", o->engine);
  if (o->limits.timeout)
    add_pair(&w, "--timeout", arena_printf(a, "%d", o->limits.timeout));
  if (o->limits.memory_mib)
    add_pair(&w, "--memory-limit", arena_printf(a, "%d", o->limits.memory_mib));
  if (m->samples)
    add_pair(&w, "--data", m->samples);
  for (size_t i = 0; !m->samples && i < o->n_made_up; i++)
    add(&w, o->made_up[i]);
  for (size_t i = 0; i < o->n_arguments; i++)
    add(&w, o->arguments[i]);
  if (m->overrides)
    add_pair(&w, "--overrides", m->overrides);
  for (size_t i = 0; i < m->n_arguments; i++)
    add(&w, m->arguments[i]);
  static const struct {
    const char *option, *file;
  } written[] = {{"--output", RESULT_MODEL},
                 {"--save-plan", RESULT_PLAN},
                 {"--save-trace", RESULT_TRACE},
                 {"--save-verdict", RESULT_VERDICT},
                 {"--report", RESULT_REPORT}};
  for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
    add_pair(&w, written[i].option, arena_printf(a, "%s/%s", folder, written[i].file));
  add_pair(&w, "--", m->path);
  return w.items;
}

const char *const *arguments_of_results(const struct batch_options *o, size_t *count,
                                        struct arena *a) {
  struct words w = {.arena = a};
  for (size_t i = 0; i < o->n_arguments; i++)
    add(&w, o->arguments[i]);
  for (size_t i = 0; i < o->n_made_up; i++)
    add(&w, o->made_up[i]);
  add_pair(&w, "--threads", arena_printf(a, "%d", o->threads));
  *count = w.count;
  return w.items;
}
