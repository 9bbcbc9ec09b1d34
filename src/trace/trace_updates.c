// The update sites of a graph: where something small is added into something larger that is kept.
// Additions of two values that are both computed (residual connections), what reductions and matrix
// products add up inside, the states of Loop and Scan, and the sequences that recurrent operators
// return. Each gets a node that watches it (engine_updates.h).
//
// A constant that is added is no update; but what it is added to may vanish beside it. Not watched:
// sums inside operators that
// combine several (Attention, Einsum, ConvTranspose, the cells of LSTM and its kin).
#include "trace_updates.h"

#include "gather.h"

#include <string.h>

static const char *const kind_names[UPDATE_KINDS] = {
    [UPDATE_RESIDUAL] = "residual", [UPDATE_REDUCTION] = "reduction",
    [UPDATE_PRODUCT] = "product",   [UPDATE_RUNNING_SUM] = "running_sum",
    [UPDATE_STATE] = "state",       [UPDATE_SEQUENCE] = "sequence",
    [UPDATE_WEIGHT] = "weight",
};

const char *update_kind_name(enum update_kind kind) {
  return kind_names[kind];
}

struct finder {
  struct watchers *out;
  struct graph *graph;
  struct arena *arena;
  const char *prefix;
  size_t capacity_sites, capacity_watchers;
  int *last;       // by node: its last watcher
  bool *is_state;  // by value: has a site of that kind
};

// ---- Watchers ----

static Onnx__AttributeProto *add_attribute(struct finder *f, Onnx__NodeProto *node,
                                           const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *a = arena_alloc(f->arena, sizeof *a);
  onnx__attribute_proto__init(a);
  a->name = (char *)name;
  a->has_type = 1;
  a->type = type;
  node->attribute[node->n_attribute++] = a;
  return a;
}

static void add_int(struct finder *f, Onnx__NodeProto *node, const char *name, int64_t value) {
  Onnx__AttributeProto *a =
      add_attribute(f, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  a->has_i = 1;
  a->i = value;
}

static void add_ints(struct finder *f, Onnx__NodeProto *node, const char *name, int64_t *values,
                     size_t n) {
  Onnx__AttributeProto *a =
      add_attribute(f, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  a->ints = values;
  a->n_ints = n;
}

// The attributes of that name are the watched operator's own, which may also refer to one of the
// function around it.
static void copy_attributes(const struct node *n, Onnx__NodeProto *to, const char *const *names) {
  for (; *names; names++) {
    Onnx__AttributeProto *a = node_attribute(n->proto, *names);
    if (a)
      to->attribute[to->n_attribute++] = a;
  }
}

enum { ATTRIBUTES = 12 };

// A watcher that stands nowhere yet; y < 0: it has one input.
static Onnx__NodeProto *new_watcher(struct finder *f, const char *op, int x, int y) {
  Onnx__NodeProto *proto = arena_alloc(f->arena, sizeof *proto);
  onnx__node_proto__init(proto);
  proto->op_type = (char *)op;
  proto->domain = "narrowcast";
  proto->input = arena_array(f->arena, 2, sizeof *proto->input);
  proto->input[proto->n_input++] = (char *)f->graph->values[x].name;
  if (y >= 0)
    proto->input[proto->n_input++] = (char *)f->graph->values[y].name;
  proto->attribute = arena_array(f->arena, ATTRIBUTES, sizeof(Onnx__AttributeProto *));
  return proto;
}

static void add_site(struct finder *f, enum update_kind kind, int value) {
  struct watchers *w = f->out;
  w->sites = arena_grow(f->arena, w->sites, &f->capacity_sites, w->n_sites + 1, sizeof *w->sites);
  w->sites[w->n_sites++] = (struct update_site){kind, value};
}

// Lets the watcher watch the last site, before or after `node`.
static void place(struct finder *f, Onnx__NodeProto *proto, int node, bool after) {
  struct watchers *w = f->out;
  proto->name = arena_printf(f->arena, "%s_update_%zu", f->prefix, w->n_watchers);
  proto->output = arena_array(f->arena, 1, sizeof *proto->output);
  proto->output[proto->n_output++] = proto->name;
  add_int(f, proto, "id", (int64_t)w->n_sites - 1);
  w->watchers = arena_grow(f->arena, w->watchers, &f->capacity_watchers, w->n_watchers + 1,
                           sizeof *w->watchers);
  int index = (int)w->n_watchers++;
  w->watchers[index] = (struct watcher){proto, after, -1};
  if (f->last[node] >= 0)
    w->watchers[f->last[node]].next = index;
  else
    w->first[node] = index;
  f->last[node] = index;
}

// ---- What can be watched ----

static bool is_float(const struct graph *g, int v) {
  return v >= 0 && g->values[v].type.kind == TYPE_TENSOR &&
         g->values[v].type.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT &&
         g->values[v].origin != ORIGIN_SPARSE;
}

static bool is_computed(const struct finder *f, int v) {
  return is_float(f->graph, v) && !graph_constant(f->graph, v);
}

static int input(const struct node *n, int k) {
  return k < n->n_inputs ? n->inputs[k] : -1;
}

// A value that is there only to be rounded to a narrow type (see emulate.h) is not the model's own.
static bool is_kept(const struct graph *g, int v) {
  if (!is_float(g, v))
    return false;
  const struct value *value = &g->values[v];
  for (int u = 0; u < value->n_uses; u++) {
    int reader = value->uses[u].node;
    const char *domain = reader >= 0 ? g->nodes[reader].proto->domain : NULL;
    if (domain && strcmp(domain, "narrowcast") == 0)
      return false;
  }
  return true;
}

// ---- Additions ----

// A computed value plus or minus a constant.
static void watch_offset(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  int k = is_computed(f, node->inputs[0]) ? 0 : 1;
  if (!is_float(f->graph, node->inputs[1 - k]))
    return;
  add_site(f, UPDATE_RESIDUAL, node->outputs[0]);
  Onnx__NodeProto *watcher = new_watcher(f, "Update", node->inputs[k], node->inputs[1 - k]);
  add_int(f, watcher, "onto", 1);
  place(f, watcher, n, false);
}

static void find_addition(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  bool sum = node_is(node, "Sum");
  if (!sum && !node_is(node, "Add") && !node_is(node, "Sub"))
    return;
  int computed = 0;
  for (int k = 0; k < node->n_inputs; k++)
    computed += is_computed(f, node->inputs[k]);
  if (computed == 1 && node->n_inputs == 2)
    watch_offset(f, n);
  if (computed < 2 || node->inputs[0] == node->inputs[1])
    return;
  add_site(f, UPDATE_RESIDUAL, node->outputs[0]);
  if (node->n_inputs == 2) {
    place(f, new_watcher(f, "Update", node->inputs[0], node->inputs[1]), n, false);
    return;
  }
  for (int k = 0; k < node->n_inputs; k++)  // each term beside the sum of all
    if (is_computed(f, node->inputs[k]))
      place(f, new_watcher(f, "Update", node->outputs[0], node->inputs[k]), n, true);
}

// ---- Reductions ----

enum axes_from {
  AXES_LISTED,    // attribute axes, or input 1
  AXES_FROM_TWO,  // all but batch and channels
  AXES_FROM,      // from attribute axis (default -1) on
  AXES_SOFTMAX,   // attribute axis: that one from opset 13 on, before that from it on
};

static const struct reduction {
  const char *op;
  enum gather_transform transform;
  enum axes_from axes;
} reductions[] = {
    {"ReduceSum", GATHER_PLAIN, AXES_LISTED},
    {"ReduceMean", GATHER_PLAIN, AXES_LISTED},
    {"ReduceL1", GATHER_ABS, AXES_LISTED},
    {"ReduceL2", GATHER_SQUARE, AXES_LISTED},
    {"ReduceSumSquare", GATHER_SQUARE, AXES_LISTED},
    {"ReduceLogSum", GATHER_PLAIN, AXES_LISTED},
    {"ReduceLogSumExp", GATHER_EXP, AXES_LISTED},
    {"GlobalAveragePool", GATHER_PLAIN, AXES_FROM_TWO},
    {"InstanceNormalization", GATHER_VARIANCE, AXES_FROM_TWO},
    {"LayerNormalization", GATHER_VARIANCE, AXES_FROM},
    {"RMSNormalization", GATHER_SQUARE, AXES_FROM},
    {"Softmax", GATHER_EXP, AXES_SOFTMAX},
    {"LogSoftmax", GATHER_EXP, AXES_SOFTMAX},
};

static int64_t int_attribute(const struct node *n, const char *name, int64_t otherwise) {
  const Onnx__AttributeProto *a = node_attribute(n->proto, name);
  return a && a->has_i ? a->i : otherwise;
}

// The axes of Reduce operators. False if they are not known before the run, or there are none.
static bool add_listed_axes(struct finder *f, const struct node *n, Onnx__NodeProto *to) {
  int64_t *axes = arena_array(f->arena, GATHER_RANK, sizeof *axes);
  int count = graph_axes(f->graph, n, axes, GATHER_RANK, f->arena);
  if (count < 0 || (count == 0 && int_attribute(n, "noop_with_empty_axes", 0)))
    return false;
  if (count)
    add_ints(f, to, "axes", axes, (size_t)count);
  return true;
}

static bool add_axes(struct finder *f, const struct node *n, enum axes_from from,
                     Onnx__NodeProto *to) {
  const Onnx__AttributeProto *axis = node_attribute(n->proto, "axis");
  if (axis && axis->ref_attr_name && *axis->ref_attr_name)
    return false;
  bool one_axis = graph_opset(f->graph, n->scope, "") >= 13;
  switch (from) {
  case AXES_LISTED: return add_listed_axes(f, n, to);
  case AXES_FROM_TWO: add_int(f, to, "first_axis", 2); break;
  case AXES_FROM: add_int(f, to, "first_axis", int_attribute(n, "axis", -1)); break;
  case AXES_SOFTMAX:
    if (one_axis) {
      int64_t *axes = arena_array(f->arena, 1, sizeof *axes);
      axes[0] = int_attribute(n, "axis", -1);
      add_ints(f, to, "axes", axes, 1);
    } else {
      add_int(f, to, "first_axis", int_attribute(n, "axis", 1));
    }
  }
  return true;
}

static void find_reduction(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  const struct reduction *r = NULL;
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions && !r; i++)
    if (node_is(node, reductions[i].op))
      r = &reductions[i];
  if (!r || !is_computed(f, input(node, 0)))
    return;
  Onnx__NodeProto *w = new_watcher(f, "Accumulate", node->inputs[0], -1);
  add_int(f, w, "transform", r->transform);
  if (!add_axes(f, node, r->axes, w))
    return;
  add_site(f, UPDATE_REDUCTION, node->outputs[0]);
  place(f, w, n, false);
}

static void find_running_sum(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  int64_t *axes = arena_array(f->arena, GATHER_RANK, sizeof *axes);
  if (!node_is(node, "CumSum") || !is_computed(f, input(node, 0)) ||
      graph_integers(f->graph, input(node, 1), axes, GATHER_RANK, f->arena) != 1)
    return;
  add_site(f, UPDATE_RUNNING_SUM, node->outputs[0]);
  Onnx__NodeProto *w = new_watcher(f, "Accumulate", node->inputs[0], -1);
  add_ints(f, w, "axes", axes, 1);
  copy_attributes(node, w, (const char *const[]){"reverse", NULL});
  place(f, w, n, false);
}

// ---- Products and windows ----

static const char *const window_attributes[] = {"kernel_shape", "strides", "dilations",
                                                "pads",         "group",   NULL};

static void add_window(struct finder *f, const struct node *n, Onnx__NodeProto *to) {
  static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  const Onnx__AttributeProto *pad = node_attribute(n->proto, "auto_pad");
  copy_attributes(n, to, window_attributes);
  if (!node_attribute(n->proto, "kernel_shape"))  // of a Conv: then the weights say it
    add_ints(f, to, "kernel_shape", arena_array(f->arena, 1, sizeof(int64_t)), 1);
  for (int k = 0; pad && k < 4; k++)
    if (pad->s.len == strlen(names[k]) && memcmp(pad->s.data, names[k], pad->s.len) == 0)
      add_int(f, to, "auto_pad", k);
}

static void find_product(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  bool conv = node_is(node, "Conv"), gemm = node_is(node, "Gemm");
  int a = input(node, 0), b = input(node, 1);
  if (!(conv || gemm || node_is(node, "MatMul")) || !is_float(f->graph, a) ||
      !is_float(f->graph, b) || !(is_computed(f, a) || is_computed(f, b)))
    return;
  add_site(f, UPDATE_PRODUCT, node->outputs[0]);
  Onnx__NodeProto *w = new_watcher(f, "Dot", a, b);
  if (gemm)
    copy_attributes(node, w, (const char *const[]){"transA", "transB", NULL});
  if (conv)
    add_window(f, node, w);
  place(f, w, n, false);
}

static void find_pool(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  if (!node_is(node, "AveragePool") || !is_computed(f, input(node, 0)))
    return;
  add_site(f, UPDATE_REDUCTION, node->outputs[0]);
  Onnx__NodeProto *w = new_watcher(f, "Accumulate", node->inputs[0], -1);
  add_window(f, node, w);
  place(f, w, n, false);
}

// ---- States ----

// The body's inputs from `in` on are the states before an iteration, its outputs from `out` on
// those after it.
static void find_states(struct finder *f, const struct scope *body, int in, int out, int count) {
  const struct graph *g = f->graph;
  for (int k = 0; k < count; k++) {
    if (in + k >= body->n_inputs || out + k >= body->n_outputs)
      return;
    int before = body->inputs[in + k], after = body->outputs[out + k];
    const struct value *v = after >= 0 ? &g->values[after] : NULL;
    if (!v || v->origin != ORIGIN_NODE || &g->scopes[v->scope] != body || !is_float(g, before) ||
        !is_kept(g, after) || graph_constant(f->graph, after) || f->is_state[after])
      continue;
    f->is_state[after] = true;
    add_site(f, UPDATE_STATE, after);
    place(f, new_watcher(f, "Change", before, after), v->producer, true);
  }
}

static void find_loop(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  if (node->n_bodies != 1)
    return;
  const struct scope *body = &f->graph->scopes[node->bodies[0]];
  if (node_is(node, "Loop"))
    find_states(f, body, 2, 1, body->n_inputs - 2);
  if (node_is(node, "Scan"))
    find_states(f, body, 0, 0,
                body->n_inputs - (int)int_attribute(node, "num_scan_inputs", body->n_inputs));
}

// Whether a recurrence runs backwards makes no difference here: each change counts beside the one
// of its two states that comes first in the tensor.
static void find_sequence(struct finder *f, int n) {
  const struct node *node = &f->graph->nodes[n];
  if (!node_is(node, "LSTM") && !node_is(node, "GRU") && !node_is(node, "RNN"))
    return;
  add_site(f, UPDATE_SEQUENCE, node->outputs[0]);
  Onnx__NodeProto *w = new_watcher(f, "Steps", node->outputs[0], -1);
  add_int(f, w, "axis", int_attribute(node, "layout", 0) ? 1 : 0);
  place(f, w, n, true);
}

void watchers_find(struct watchers *w, struct graph *g, const char *prefix, struct arena *a) {
  size_t nodes = (size_t)g->n_nodes;
  *w = (struct watchers){.first = arena_array(a, nodes, sizeof *w->first)};
  struct finder f = {w,
                     g,
                     a,
                     prefix,
                     0,
                     0,
                     arena_array(a, nodes, sizeof *f.last),
                     arena_array(a, (size_t)g->n_values, sizeof *f.is_state)};
  memset(w->first, -1, nodes * sizeof *w->first);
  memset(f.last, -1, nodes * sizeof *f.last);
  for (int n = 0; n < g->n_nodes; n++) {
    find_loop(&f, n);
    if (g->nodes[n].n_outputs == 0 || !is_kept(g, g->nodes[n].outputs[0]))
      continue;
    find_addition(&f, n);
    find_reduction(&f, n);
    find_running_sum(&f, n);
    find_product(&f, n);
    find_pool(&f, n);
    find_sequence(&f, n);
  }
}
