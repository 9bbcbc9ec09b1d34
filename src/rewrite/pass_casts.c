// Casts: where a reader wants a value in another format than the one it is stored in, one Cast per
// value and format, in the value's scope behind its producer; readers in inner scopes capture the
// Cast's output. A value that its graph gives out keeps its name for what is given out: if it is
// stored narrow, the stored one gets a new name and a Cast gives the old type back.
#include "pass.h"
#include "proto.h"

#include <string.h>

static void add_cast(struct rewrite *w, int v, const char *from, const char *to,
                     enum format_id format) {
  Onnx__NodeProto *cast = rewrite_new_node(w, "Cast", from, to);
  proto_add_int(w->arena, cast, "to", formats[format].onnx_type);
  rewrite_note(
      w, cast,
      arena_printf(w->arena, "added: %s in %s", w->graph->values[v].name, formats[format].name));
  rewrite_add_node(w, v, cast);
  w->report->casts++;
}

static bool given_out_as_it_was(const struct rewrite *w, int v) {
  const struct value *value = &w->graph->values[v];
  if (w->plan->narrow_outputs && value->scope == 0)
    return false;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node < 0)
      return true;
  return false;
}

// Name under which each format of v can be read; NULL where it is not made yet.
struct copies {
  const char *by_format[FORMAT_COUNT];
};

static void cast_value(struct rewrite *w, int v) {
  const struct value *value = &w->graph->values[v];
  enum format_id stored = w->plan->values[v].format;
  struct copies copies = {.by_format = {[FORMAT_COUNT - 1] = NULL}};
  copies.by_format[stored] = value->name;
  if (stored != FORMAT_FP32 && value->origin == ORIGIN_NODE && given_out_as_it_was(w, v)) {
    const char *name = rewrite_name(w, v, stored);
    w->graph->nodes[value->producer].proto->output[value->output] = arena_strdup(w->arena, name);
    copies.by_format[stored] = name;
    copies.by_format[FORMAT_FP32] = value->name;
    add_cast(w, v, name, value->name, FORMAT_FP32);
  }
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node < 0)
      continue;
    enum format_id wanted = plan_input_format(w->graph, w->plan, use->node, use->index);
    if (wanted == FORMAT_COUNT)
      continue;
    if (!copies.by_format[wanted]) {
      copies.by_format[wanted] = rewrite_name(w, v, wanted);
      add_cast(w, v, copies.by_format[stored], copies.by_format[wanted], wanted);
    }
    if (copies.by_format[wanted] != value->name)
      w->graph->nodes[use->node].proto->input[use->index] =
          arena_strdup(w->arena, copies.by_format[wanted]);
  }
}

enum status pass_casts(struct rewrite *w, struct diag *d) {
  (void)d;
  for (int v = 0; v < w->graph->n_values; v++)
    if (w->plan->values[v].considered && !rewrite_is_constant(w, v))
      cast_value(w, v);
  return STATUS_OK;
}
