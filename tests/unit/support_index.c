// See support_index.h.
#include "support_index.h"

#include <string.h>

static struct arena schemas_arena;
struct schema_table indexed_schemas;

int indexed_load_schemas(void **state) {
  (void)state;
  schema_load(&indexed_schemas, &schemas_arena);
  return 0;
}

int indexed_free_schemas(void **state) {
  (void)state;
  arena_free(&schemas_arena);
  return 0;
}

static void count_warning(void *context, const char *text) {
  (void)text;
  ++*(int *)context;
}

int indexed_set_up(void **state) {
  static struct indexed f;
  f = (struct indexed){.d = {.warn = count_warning, .warn_context = &f.warnings}};
  build_begin(&f.b, &f.arena, 17);
  *state = &f;
  return 0;
}

int indexed_tear_down(void **state) {
  struct indexed *f = *state;
  model_close(&f->m);
  arena_free(&f->arena);
  return 0;
}

void index_model(struct indexed *f) {
  build_model(&f->b, &f->m);
  if (graph_build(&f->g, &f->m, &indexed_schemas, &f->arena, &f->d) != STATUS_OK)
    fail_msg("node %s, tensor %s: %s", f->d.node, f->d.tensor, f->d.message);
}

void refuse(struct indexed *f, const char *text) {
  build_model(&f->b, &f->m);
  assert_int_equal(graph_build(&f->g, &f->m, &indexed_schemas, &f->arena, &f->d), STATUS_MODEL);
  if (!strstr(f->d.message, text) && !strstr(f->d.tensor, text) && !strstr(f->d.node, text))
    fail_msg("no \"%s\" in: node %s, tensor %s: %s", text, f->d.node, f->d.tensor, f->d.message);
}
