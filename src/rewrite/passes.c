// The driver of the rewrite: runs the passes of the table in order, puts the nodes that they added
// into their scopes, and has the invariants of the result checked. What passes share is here too.
#include "check.h"
#include "pass.h"
#include "proto.h"
#include "round.h"
#include "spool.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

enum { FIRST_SUFFIX = 2 };  // "x__fp16", then "x__fp16_2"

// The first eight make one change between them: a reader renamed by one is typed right only after
// the others. `whole` says that the model is consistent again after the pass, and the driver has it
// checked.
static const struct {
  const char *name;
  pass_run *run;
  bool whole;
} passes[] = {
    {"quantise_weights", pass_quantise_weights, false},
    {"weights", pass_weights, false},
    {"constants", pass_constants, false},
    {"type_attributes", pass_type_attributes, false},
    {"casts", pass_casts, false},
    {"author_casts", pass_author_casts, false},
    {"quantise", pass_quantise, false},
    {"devices", pass_devices, false},
    {"interface", pass_interface, true},
    {"metadata", pass_metadata, true},
};

// `wanted`, or with a number behind it, so that no value and no node of the model is called so. The
// map holds the number to try next: many scopes may use one name.
const char *rewrite_new_name(struct rewrite *w, const char *wanted) {
  int *next = map_slot(&w->names, 0, wanted);
  if (*next < 0) {
    *next = FIRST_SUFFIX;
    return wanted;
  }
  const char *name;
  int number = *next;
  do
    name = arena_printf(w->arena, "%s_%d", wanted, number++);
  while (map_get(&w->names, 0, name) >= 0);
  *next = number;
  map_put(&w->names, 0, name, FIRST_SUFFIX);
  return name;
}

const char *rewrite_name(struct rewrite *w, int v, struct copy copy) {
  const char *format = formats[copy.format].name, *name = w->graph->values[v].name;
  if (copy.scale_log2 == 0)
    return rewrite_new_name(w, arena_printf(w->arena, "%s__%s", name, format));
  return rewrite_new_name(
      w, arena_printf(w->arena, "%s__%s_times_2^%d", name, format, copy.scale_log2));
}

const char *rewrite_name_with(struct rewrite *w, int v, const char *suffix) {
  return rewrite_new_name(w, arena_printf(w->arena, "%s__%s", w->graph->values[v].name, suffix));
}

void rewrite_add_node(struct rewrite *w, int v, Onnx__NodeProto *node) {
  w->added = arena_grow(w->arena, w->added, &w->capacity_added, w->n_added + 1, sizeof *w->added);
  int index = (int)w->n_added++;
  w->added[index] = (struct added_node){.proto = node, .next = -1};
  if (w->first_added[v] < 0)
    w->first_added[v] = index;
  else
    w->added[w->last_added[v]].next = index;
  w->last_added[v] = index;
}

Onnx__NodeProto *rewrite_new_node(struct rewrite *w, const char *op, const char *input,
                                  const char *output) {
  Onnx__NodeProto *node = proto_node(w->arena, op, "", input ? 1 : 0, 1);
  if (input)
    node->input[0] = arena_strdup(w->arena, input);
  node->output[0] = arena_strdup(w->arena, output);
  node->name = (char *)rewrite_new_name(w, arena_printf(w->arena, ADDED_PREFIX "%s", output));
  return node;
}

bool rewrite_has_metadata(const struct rewrite *w) {
  return w->model->proto->ir_version >= 10;
}

struct note rewrite_note(struct rewrite *w, const char *text) {
  return (struct note){.doc_string = arena_printf(w->arena, "narrowcast: %s", text),
                       .entry = proto_entry(w->arena, "narrowcast", text)};
}

void rewrite_describe(char **doc_string, struct note note) {
  if (!*doc_string || !(*doc_string)[0])
    *doc_string = note.doc_string;
}

void rewrite_note_node(struct rewrite *w, Onnx__NodeProto *node, struct note note) {
  if (rewrite_has_metadata(w))
    proto_set_entry(w->arena, &node->metadata_props, &node->n_metadata_props, note.entry);
  else
    rewrite_describe(&node->doc_string, note);
}

void rewrite_say(struct rewrite *w, Onnx__NodeProto *node, const char *text) {
  rewrite_note_node(w, node, rewrite_note(w, text));
}

// Adds a copy of a constant under a new name: an initializer where the scope has such, else a
// Constant node (function bodies; models of IR below 4, where an initializer would have to be a
// graph input).
void rewrite_add_constant(struct rewrite *w, int v, Onnx__TensorProto *tensor) {
  int scope = w->graph->values[v].scope;
  if (!rewrite_takes_initializers(w, scope)) {
    Onnx__NodeProto *node = rewrite_new_node(w, "Constant", NULL, tensor->name);
    proto_add_tensor(w->arena, node, "value", tensor);
    rewrite_add_node(w, v, node);
    return;
  }
  Onnx__GraphProto *graph = w->graph->scopes[scope].graph;
  size_t *capacity = &w->initializer_capacity[scope];
  if (*capacity == 0)
    *capacity = graph->n_initializer;  // the list as it was read is full
  graph->initializer = arena_grow(w->arena, graph->initializer, capacity, graph->n_initializer + 1,
                                  sizeof *graph->initializer);
  graph->initializer[graph->n_initializer++] = tensor;
}

Onnx__TensorProto *rewrite_power_of_two(struct rewrite *w, const char *name, int power,
                                        enum format_id f) {
  static const int64_t scalar[1] = {0};
  float value = ldexpf(1, power);
  struct round_mode mode = {.format = &formats[f]};
  uint8_t *code = arena_alloc(w->arena, sizeof value);
  round_encode_array(&mode, &value, code, 1);
  return tensor_new(w->arena, name, formats[f].onnx_type, 0, scalar, code,
                    (size_t)formats[f].stored_bits / 8);
}

// A model that lists every initializer as an input means them all to be constants
// (graph_constant); one that is not listed would make the others look meant to be overridden.
bool rewrite_takes_initializers(const struct rewrite *w, int scope) {
  return w->graph->scopes[scope].graph && w->model->proto->ir_version >= 4 &&
         !(scope == 0 && w->graph->all_listed);
}

// Elements beyond the largest finite value become that value; infinities and NaN stay.
static uint64_t saturate(float *x, size_t n, double max) {
  uint64_t changed = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(x[i]) && fabs((double)x[i]) > max) {
      x[i] = copysignf((float)max, x[i]);
      changed++;
    }
  return changed;
}

enum status rewrite_room(struct rewrite *w, size_t size, uint8_t **room, struct diag *d) {
  if (!w->model->spool) {
    *room = arena_alloc(w->arena, size);
    return STATUS_OK;
  }
  void *place;
  TRY(spool_alloc(w->model->spool, size, &place, d));
  *room = place;
  return STATUS_OK;
}

enum status rewrite_narrow_tensor(struct rewrite *w, const Onnx__TensorProto *from,
                                  const char *name, struct copy as, Onnx__TensorProto **to,
                                  struct diag *d) {
  enum format_id f = as.format;
  struct arena scratch = {0};
  struct tensor t;
  size_t width = (size_t)formats[f].stored_bits / 8;
  uint8_t *codes = NULL;
  enum status status = tensor_read(w->model, from, &scratch, &t, d);
  if (status == STATUS_OK)
    status = rewrite_room(w, t.count * width, &codes, d);
  if (status != STATUS_OK) {
    arena_free(&scratch);
    return status;
  }
  struct round_mode mode = {
      .format = &formats[f], .ftz = w->plan->ftz, .scale_log2 = as.scale_log2};
  struct tensor_blocks b;
  tensor_begin(&b, w->model, &t);
  while (tensor_next(&b)) {
    struct round_count count = {0};
    round_count_array(&mode, b.x, b.n, &count);
    if (w->plan->constants == CONSTANTS_SATURATE && count.overflow > 0)
      saturate(b.x, b.n, ldexp(formats[f].max, -as.scale_log2));
    w->report->saturated += count.overflow;
    round_encode_array(&mode, b.x, codes + b.at * width, b.n);
    model_passed(w->model, b.n * width);
  }
  Onnx__TensorProto *copy = tensor_new(w->arena, name, formats[f].onnx_type, from->n_dims,
                                       from->dims, codes, t.count * width);
  copy->base = from->base;  // with its unknown fields
  copy->has_data_location = from->has_data_location;
  copy->data_location = from->data_location;  // outside as the source's: see model_save
  copy->doc_string = from->doc_string;
  copy->n_metadata_props = from->n_metadata_props;
  copy->metadata_props = from->metadata_props;
  *to = copy;
  arena_free(&scratch);
  return STATUS_OK;
}

bool rewrite_is_constant(const struct rewrite *w, int v) {
  return graph_constant(w->graph, v) != NULL;
}

enum format_id rewrite_stored_format(const struct rewrite *w, int v) {
  return plan_is_only_operand(w->graph, w->plan, v) ? w->plan->operand_format
                                                    : w->plan->values[v].format;
}

// A scope's new list of nodes while it is put together.
struct splice {
  Onnx__NodeProto **nodes;
  size_t count;
};

static void splice_added(struct rewrite *w, struct splice *list, int v) {
  for (int a = w->first_added[v]; a >= 0; a = w->added[a].next)
    list->nodes[list->count++] = w->added[a].proto;
}

// Every scope's nodes in a sorted order, each followed by what was added behind its outputs; what
// was added for inputs and initializers comes first.
static void splice_scopes(struct rewrite *w) {
  struct graph *g = w->graph;
  size_t *sizes = arena_array(w->arena, (size_t)g->n_scopes, sizeof *sizes);
  struct splice *lists = arena_array(w->arena, (size_t)g->n_scopes, sizeof *lists);
  for (int v = 0; v < g->n_values; v++)
    for (int a = w->first_added[v]; a >= 0; a = w->added[a].next)
      sizes[g->values[v].scope]++;
  for (int s = 0; s < g->n_scopes; s++)
    lists[s].nodes =
        arena_array(w->arena, (size_t)g->scopes[s].n_nodes + sizes[s], sizeof *lists[s].nodes);
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].origin != ORIGIN_NODE)
      splice_added(w, &lists[g->values[v].scope], v);
  for (int s = 0; s < g->n_scopes; s++) {
    struct scope *scope = &g->scopes[s];
    for (int i = 0; i < scope->n_nodes; i++) {
      const struct node *node = &g->nodes[scope->order[i]];
      if (!w->dropped[scope->order[i]])
        lists[s].nodes[lists[s].count++] = node->proto;
      for (int k = 0; k < node->n_outputs; k++)
        if (node->outputs[k] >= 0)
          splice_added(w, &lists[s], node->outputs[k]);
    }
    if (scope->graph) {
      scope->graph->node = lists[s].nodes;
      scope->graph->n_node = lists[s].count;
    } else {
      scope->function->node = lists[s].nodes;
      scope->function->n_node = lists[s].count;
    }
  }
}

// A function may be given twice if both are the same; then only the first is in the index, and is
// rewritten.
static void drop_repeated_functions(struct rewrite *w) {
  size_t kept = 0;
  for (int s = 0; s < w->graph->n_scopes; s++)
    if (w->graph->scopes[s].kind == SCOPE_FUNCTION)
      w->model->proto->functions[kept++] = w->graph->scopes[s].function;
  w->model->proto->n_functions = kept;
}

static void collect_names(struct rewrite *w) {
  const struct graph *g = w->graph;
  w->names.arena = w->arena;
  map_reserve(&w->names, (size_t)g->n_values + (size_t)g->n_nodes);
  for (int v = 0; v < g->n_values; v++) {
    if (v + MAP_FETCH < g->n_values)
      map_fetch(g->values[v + MAP_FETCH].name);
    if (v + MAP_AHEAD < g->n_values)
      map_announce(&w->names, 0, g->values[v + MAP_AHEAD].name);
    map_put(&w->names, 0, g->values[v].name, FIRST_SUFFIX);
  }
  for (int n = 0; n < g->n_nodes; n++) {
    if (n + MAP_FAR < g->n_nodes)
      map_fetch(g->nodes[n + MAP_FAR].proto);
    if (n + MAP_FETCH < g->n_nodes)
      map_fetch(g->nodes[n + MAP_FETCH].proto->name);
    if (n + MAP_AHEAD < g->n_nodes && g->nodes[n + MAP_AHEAD].proto->name)
      map_announce(&w->names, 0, g->nodes[n + MAP_AHEAD].proto->name);
    if (g->nodes[n].proto->name)
      map_put(&w->names, 0, g->nodes[n].proto->name, FIRST_SUFFIX);
  }
}

enum status rewrite_model(struct model *m, struct graph *g, const struct plan *p,
                          enum rewrite_check check, struct rewrite_report *report, struct arena *a,
                          struct diag *d) {
  *report = (struct rewrite_report){0};
  size_t values = (size_t)g->n_values;
  struct rewrite w = {
      .model = m,
      .graph = g,
      .plan = p,
      .arena = a,
      .report = report,
      .dropped = arena_array(a, (size_t)g->n_nodes, sizeof *w.dropped),
      .first_added = arena_array(a, values, sizeof *w.first_added),
      .last_added = arena_array(a, values, sizeof *w.last_added),
      .initializer_capacity = arena_array(a, (size_t)g->n_scopes, sizeof *w.initializer_capacity),
  };
  w.factors.arena = a;
  for (size_t v = 0; v < values; v++)
    w.first_added[v] = w.last_added[v] = -1;
  collect_names(&w);
  drop_repeated_functions(&w);
  bool spliced = false;
  const size_t last = sizeof passes / sizeof passes[0] - 1;
  for (size_t i = 0; i <= last; i++) {
    TRY(passes[i].run(&w, d));
    if (!passes[i].whole)
      continue;
    if (!spliced)
      splice_scopes(&w);
    spliced = true;
    if (i < last && check == REWRITE_CHECK_PASSES)
      TRY(check_model(m, g->schemas, passes[i].name, d));
  }
  return check_pass(g, m, g->schemas, passes[last].name, a, d);
}

void rewrite_nothing(struct graph *g, const struct plan *p, struct rewrite_report *report) {
  *report = (struct rewrite_report){0};
  for (int v = 0; v < g->n_values; v++) {
    const Onnx__TensorProto *constant = p->values[v].considered ? graph_constant(g, v) : NULL;
    uint64_t count, bytes;
    if (constant && tensor_extent(constant, &count, &bytes))
      report->bytes_before += bytes;
  }
  report->bytes_after = report->bytes_before;
}
