// Casts and scale nodes: where a reader wants a value in another format or at another scale than it
// is stored, one Cast per value and format, and a Mul by a power of two, in the value's scope
// behind its producer; readers in inner scopes capture the Cast's output. A value that its graph
// gives out keeps its name for what is given out: if it is stored narrow, the stored one gets a new
// name and a Cast gives the old type back.
#include "pass.h"
#include "proto.h"
#include "round.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

static void add_cast(struct rewrite *w, int v, const char *from, const char *to,
                     enum format_id format) {
  Onnx__NodeProto *cast = rewrite_new_node(w, "Cast", from, to);
  proto_add_int(w->arena, cast, "to", formats[format].onnx_type);
  rewrite_say(
      w, cast,
      arena_printf(w->arena, "added: %s in %s", w->graph->values[v].name, formats[format].name));
  rewrite_add_node(w, v, cast);
  w->report->casts++;
}

// The name of 2^k in format f, to be read beside value v. In a graph one initializer serves all.
static const char *factor_name(struct rewrite *w, int v, enum format_id f, int k) {
  int scope = w->graph->values[v].scope;
  bool shared = rewrite_takes_initializers(w, scope);
  const char *key = arena_printf(w->arena, "%d in %s", k, formats[f].name);
  int known = shared ? map_get(&w->factors, scope, key) : -1;
  if (known >= 0)
    return w->graph->scopes[scope].graph->initializer[known]->name;
  const char *name =
      rewrite_new_name(w, arena_printf(w->arena, ADDED_PREFIX "2^%d_%s", k, formats[f].name));
  if (shared)
    map_put(&w->factors, scope, key, (int)w->graph->scopes[scope].graph->n_initializer);
  rewrite_add_constant(w, v, rewrite_power_of_two(w, name, k, f));
  return name;
}

static void add_scale_node(struct rewrite *w, int v, const char *from, const char *to,
                           enum format_id format, int k) {
  const char *factor = factor_name(w, v, format, k);
  Onnx__NodeProto *mul = rewrite_new_node(w, "Mul", from, to);
  char **inputs = arena_array(w->arena, 2, sizeof *inputs);
  inputs[0] = mul->input[0];
  inputs[1] = arena_strdup(w->arena, factor);
  mul->input = inputs;
  mul->n_input = 2;
  rewrite_say(w, mul, arena_printf(w->arena, "added: %s times 2^%d", w->graph->values[v].name, k));
  rewrite_add_node(w, v, mul);
  w->report->scale_nodes++;
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

// The copies of a value that can be read so far, and how they are called.
struct copies {
  struct rewrite *rewrite;
  int value;
  struct copy stored;
  struct named_copy {
    struct copy copy;
    const char *name;
  } * list;
  size_t count, capacity;
};

static const char *find_copy(const struct copies *c, struct copy wanted) {
  for (size_t i = 0; i < c->count; i++)
    if (copy_equal(c->list[i].copy, wanted))
      return c->list[i].name;
  return NULL;
}

static void add_copy(struct copies *c, struct copy copy, const char *name) {
  c->list = arena_grow(c->rewrite->arena, c->list, &c->capacity, c->count + 1, sizeof *c->list);
  c->list[c->count++] = (struct named_copy){copy, name};
}

// Makes a copy, by way of others if need be, under that name (NULL: a new one).
static const char *make_copy(struct copies *c, struct copy wanted, const char *name) {
  struct rewrite *w = c->rewrite;
  const char *found = find_copy(c, wanted);
  if (found)
    return found;
  bool scale;
  const char *from =
      make_copy(c, plan_copy_source(w->graph, c->value, c->stored, wanted, &scale), NULL);
  if (!name)
    name = rewrite_name(w, c->value, wanted);
  if (scale)
    add_scale_node(w, c->value, from, name, wanted.format,
                   wanted.scale_log2 - c->stored.scale_log2);
  else
    add_cast(w, c->value, from, name, wanted.format);
  add_copy(c, wanted, name);
  return name;
}

static void cast_value(struct rewrite *w, int v) {
  static const struct copy exact = {FORMAT_FP32, 0};
  const struct value *value = &w->graph->values[v];
  const struct value_plan *plan = &w->plan->values[v];
  struct copies copies = {.rewrite = w, .value = v, .stored = {plan->format, plan->scale_log2}};
  if (plan->format != FORMAT_FP32 && value->origin == ORIGIN_NODE && given_out_as_it_was(w, v)) {
    const char *name = rewrite_name(w, v, copies.stored);
    w->graph->nodes[value->producer].proto->output[value->output] = arena_strdup(w->arena, name);
    add_copy(&copies, copies.stored, name);
    make_copy(&copies, exact, value->name);
  } else {
    add_copy(&copies, copies.stored, value->name);
  }
  struct copy given;
  if (plan_given_copy(w->graph, v, &given))
    add_copy(&copies, given, w->graph->nodes[value->producer].proto->input[0]);
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    struct copy wanted = plan_wanted_copy(w->graph, w->plan, v, use);
    if (use->node < 0 || wanted.format == FORMAT_COUNT)
      continue;
    const char *name = make_copy(&copies, wanted, NULL);
    if (name != value->name)
      w->graph->nodes[use->node].proto->input[use->index] = arena_strdup(w->arena, name);
  }
}

enum status pass_casts(struct rewrite *w, struct diag *d) {
  (void)d;
  for (int v = 0; v < w->graph->n_values; v++)
    if (w->plan->values[v].considered && !rewrite_is_constant(w, v))
      cast_value(w, v);
  return STATUS_OK;
}
