// Walks from an output back to what it is made of, with the axis that could be the rows', through
// operators that keep rows apart, up to nodes that gather along this axis by indices that come from
// a selection, or to the selection itself. All that is read on the way must end so, but for
// constants, shapes, and what broadcasts along this axis: anything else has rows of its own. It is
// breadth first, since models are deep. Axes count from the front. See selection.h.
#include "selection.h"

#include "ranks.h"
#include "tensor.h"

#include <string.h>

enum {
  AXES_MAX = 8,  // of a Squeeze
  AXES = 64,     // of a value
  STEPS = 16,    // of all walks, for each value of the model
  MOVES = 64,    // behind a rounding, that are looked through
};

// A value with the axis of rows and its rank; -1 where that is not known.
struct step {
  int value, axis, rank;
};

struct walk {
  struct graph *graph;
  const bool *changed;  // by value
  const int *ranks;
  struct step *queue;
  size_t count;
  size_t *seen;  // by value: the last walk that came there, and by which axis
  int *seen_axis;
  size_t id;     // of this walk, from 1
  size_t left;   // steps of all walks that may still be taken
  bool *barren;  // by value: no selection is behind it; for all walks
  int *indices;  // queue of find_selection
  size_t n_indices;
  int found;    // the nearest selection; -1 before
  bool failed;  // something has rows that no selection chose
  struct arena *arena;
};

// The one best that a TopK chooses, as an ArgMax does.
static bool chooses_one(struct graph *g, const struct node *node) {
  const Onnx__AttributeProto *k = node_attribute(node->proto, "k");  // before opset 10
  if (k || node->n_inputs < 2 || node->inputs[1] < 0)
    return k && k->i == 1;
  const Onnx__TensorProto *t = graph_constant(g, node->inputs[1]);
  struct arena scratch = {0};
  struct tensor view;
  struct diag unused = {0};
  float count = 0;
  bool one = t && tensor_read(g->model, t, &scratch, &view, &unused) == STATUS_OK &&
             view.count == 1 && tensor_to_float(&view, &count) && count == 1;
  arena_free(&scratch);
  return one;
}

// The inverse indices of a Unique stand in the places of its input: they select nothing.
static bool is_inverse(const struct graph *g, int v, const struct node *node) {
  return node_is(node, "Unique") && g->values[v].output == 2;
}

bool selection_may_change(struct graph *g, const bool *changed, const struct node *node) {
  bool topk = node_is(node, "TopK"), reached = false;
  if (!topk && !node_is(node, "NonMaxSuppression") && !node_is(node, "NonZero") &&
      !node_is(node, "Unique"))
    return false;
  for (int k = 0; k < node->n_inputs; k++)
    reached = reached || (node->inputs[k] >= 0 && changed[node->inputs[k]]);
  return reached && !(topk && chooses_one(g, node));
}

static int64_t integer_of(const Onnx__NodeProto *node, const char *name, int64_t otherwise) {
  const Onnx__AttributeProto *attribute = node_attribute(node, name);
  return attribute ? attribute->i : otherwise;
}

// The axis from the front that an attribute names; -1 if that takes a rank that is not known.
static int axis_of(const struct node *node, const char *name, int64_t otherwise, int rank) {
  int64_t axis = integer_of(node->proto, name, otherwise);
  if (axis < 0)
    axis = rank >= 0 ? axis + rank : -1;
  return axis >= 0 && axis < AXES ? (int)axis : -1;
}

static int producer_of(const struct graph *g, int v) {
  return v >= 0 && g->values[v].origin == ORIGIN_NODE ? g->values[v].producer : -1;
}

static bool is_whole(const struct graph *g, int v) {
  const struct type *type = &g->values[v].type;
  return type->kind == TYPE_TENSOR && (type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
                                       type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 ||
                                       type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL);
}

// Outputs have their walks one by one, so many outputs of a large model could take for ever.
static bool spend(struct walk *w) {
  if (w->left == 0)
    return false;
  w->left--;
  return true;
}

static void visit_index(struct walk *w, int v) {
  if (v < 0 || w->barren[v] || !is_whole(w->graph, v))
    return;
  w->barren[v] = true;
  w->indices[w->n_indices++] = v;
}

// What a node gives out is made of its inputs, or of what its bodies give out.
static void visit_origins(struct walk *w, const struct node *node, int output) {
  for (int k = 0; k < node->n_inputs && !node->n_bodies; k++)
    visit_index(w, node->inputs[k]);
  for (int b = 0; b < node->n_bodies; b++)
    if (output < w->graph->scopes[node->bodies[b]].n_outputs)
      visit_index(w, w->graph->scopes[node->bodies[b]].outputs[output]);
}

// The nearest selection that indices come from, by integers alone; -1 without one.
static int find_selection(struct walk *w, int v) {
  w->n_indices = 0;
  visit_index(w, v);
  for (size_t i = 0; i < w->n_indices; i++) {
    int producer = producer_of(w->graph, w->indices[i]);
    if (producer < 0 || !spend(w))
      continue;
    const struct node *node = &w->graph->nodes[producer];
    if (is_inverse(w->graph, w->indices[i], node))
      continue;
    if (!selection_may_change(w->graph, w->changed, node)) {
      visit_origins(w, node, w->graph->values[w->indices[i]].output);
      continue;
    }
    for (size_t k = 0; k < w->n_indices; k++)  // behind some of these is one
      w->barren[w->indices[k]] = false;
    return producer;
  }
  return -1;
}

static void end_at(struct walk *w, int selection) {
  w->failed = w->failed || selection < 0;
  w->found = w->found < 0 ? selection : w->found;
}

static void visit(struct walk *w, int v, int axis, int rank) {
  w->failed = w->failed || axis < 0 || axis >= AXES;
  if (v < 0 || graph_is_constant(w->graph, v))
    return;
  if (w->seen[v] == w->id) {
    w->failed = w->failed || w->seen_axis[v] != axis;
    return;
  }
  w->seen[v] = w->id;
  w->seen_axis[v] = axis;
  w->queue[w->count++] = (struct step){v, axis, w->ranks[v] >= 0 ? w->ranks[v] : rank};
}

// ---- operators that keep rows apart ----

static void through_elements(struct walk *w, const struct node *node, struct step at) {
  for (int k = 0; k < node->n_inputs; k++)
    visit(w, node->inputs[k], at.axis, at.rank);
}

static void through_first(struct walk *w, const struct node *node, struct step at) {
  visit(w, node->inputs[0], at.axis, at.rank);
}

static void through_transpose(struct walk *w, const struct node *node, struct step at) {
  const Onnx__AttributeProto *perm = node_attribute(node->proto, "perm");
  if (perm && (size_t)at.axis < perm->n_ints && perm->ints[at.axis] >= 0 &&
      perm->ints[at.axis] < AXES)
    visit(w, node->inputs[0], (int)perm->ints[at.axis], (int)perm->n_ints);
  else
    visit(w, node->inputs[0], perm ? -1 : at.rank - 1 - at.axis, at.rank);
}

// The axes of a Squeeze or Unsqueeze; 0 if they are not known.
static size_t read_axes(struct walk *w, const struct node *node, int64_t axes[AXES_MAX]) {
  int count = graph_axes(w->graph, node, axes, AXES_MAX, w->arena);
  return count > 0 ? (size_t)count : 0;
}

// The same as a mask, counted from the front of so many axes; 0 if they are not known.
static uint64_t axes_of(const int64_t *axes, size_t n, int rank) {
  uint64_t mask = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t axis = axes[i] < 0 && rank >= 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= AXES)
      return 0;
    mask |= (uint64_t)1 << axis;
  }
  return mask;
}

static void through_squeeze(struct walk *w, const struct node *node, struct step at) {
  int64_t axes[AXES_MAX];
  size_t n = read_axes(w, node, axes);
  int rank = at.rank >= 0 ? at.rank + (int)n : -1, axis = at.axis;
  uint64_t gone = axes_of(axes, n, rank);
  for (int i = 0; gone && i <= axis && i < AXES; i++)
    axis += (int)(gone >> i & 1);
  visit(w, node->inputs[0], gone ? axis : -1, rank);
}

static void through_unsqueeze(struct walk *w, const struct node *node, struct step at) {
  int64_t axes[AXES_MAX];
  size_t n = read_axes(w, node, axes);
  uint64_t made = axes_of(axes, n, at.rank);
  int axis = 0;
  if (made >> at.axis & 1)
    return;  // it broadcasts
  for (int i = 0; i < at.axis; i++)
    axis += !(made >> i & 1);
  visit(w, node->inputs[0], made ? axis : -1, at.rank >= 0 ? at.rank - (int)n : -1);
}

static void through_bodies(struct walk *w, const struct node *node, struct step at) {
  int output = w->graph->values[at.value].output;
  for (int b = 0; b < node->n_bodies; b++)
    if (output < w->graph->scopes[node->bodies[b]].n_outputs)
      visit(w, w->graph->scopes[node->bodies[b]].outputs[output], at.axis, at.rank);
}

// ---- operators that choose rows ----

static void through_gather(struct walk *w, const struct node *node, struct step at) {
  int rank = w->ranks[node->inputs[0]], indices = w->ranks[node->inputs[1]];
  indices = indices >= 0 ? indices : 1;
  int axis = axis_of(node, "axis", 0, rank >= 0 ? rank : at.rank >= 0 ? at.rank + 1 - indices : -1);
  int input_rank = at.rank >= 0 ? at.rank + 1 - indices : -1;
  if (axis < 0 || at.axis < axis)
    visit(w, node->inputs[0], axis < 0 ? -1 : at.axis, input_rank);
  else if (at.axis >= axis + indices)
    visit(w, node->inputs[0], at.axis + 1 - indices, input_rank);
  else
    end_at(w, at.axis == axis ? find_selection(w, node->inputs[1]) : -1);
}

static void through_gather_elements(struct walk *w, const struct node *node, struct step at) {
  bool along = axis_of(node, "axis", 0, at.rank) == at.axis;
  end_at(w, along ? find_selection(w, node->inputs[1]) : -1);
}

static void through_gather_nd(struct walk *w, const struct node *node, struct step at) {
  bool along = integer_of(node->proto, "batch_dims", 0) == at.axis;
  end_at(w, along ? find_selection(w, node->inputs[1]) : -1);
}

static void through_selection(struct walk *w, const struct node *node, struct step at) {
  int axis = 0;  // NonMaxSuppression
  const struct value *value = &w->graph->values[at.value];
  if (node_is(node, "TopK"))
    axis = axis_of(node, "axis", -1, at.rank);
  else if (node_is(node, "NonZero"))
    axis = 1;
  else if (is_inverse(w->graph, at.value, node))
    axis = -1;
  else if (node_is(node, "Unique") && value->output == 0 && node_attribute(node->proto, "axis"))
    axis = axis_of(node, "axis", 0, at.rank);
  bool along = axis == at.axis && selection_may_change(w->graph, w->changed, node);
  end_at(w, along ? value->producer : -1);
}

// What a shape says is the same for all rows.
static void through_nothing(struct walk *w, const struct node *node, struct step at) {
  (void)w;
  (void)node;
  (void)at;
}

static const struct {
  const char *op;
  int inputs;  // that it reads, at least
  void (*through)(struct walk *w, const struct node *node, struct step at);
} operators[] = {
    {"Abs", 1, through_elements},
    {"Add", 2, through_elements},
    {"Cast", 1, through_first},
    {"Ceil", 1, through_first},
    {"Clip", 1, through_first},
    {"Concat", 1, through_elements},
    {"Div", 2, through_elements},
    {"Exp", 1, through_first},
    {"Floor", 1, through_first},
    {"Gather", 2, through_gather},
    {"GatherElements", 2, through_gather_elements},
    {"GatherND", 2, through_gather_nd},
    {"Identity", 1, through_first},
    {"If", 1, through_bodies},
    {"Log", 1, through_first},
    {"Max", 1, through_elements},
    {"Min", 1, through_elements},
    {"Mod", 2, through_elements},
    {"Mul", 2, through_elements},
    {"Neg", 1, through_first},
    {"NonMaxSuppression", 2, through_selection},
    {"NonZero", 1, through_selection},
    {"Relu", 1, through_first},
    {"Round", 1, through_first},
    {"Shape", 1, through_nothing},
    {"Sigmoid", 1, through_first},
    {"Size", 1, through_nothing},
    {"Slice", 1, through_first},
    {"Split", 1, through_first},
    {"Sqrt", 1, through_first},
    {"Squeeze", 1, through_squeeze},
    {"Sub", 2, through_elements},
    {"Tanh", 1, through_first},
    {"TopK", 1, through_selection},
    {"Transpose", 1, through_transpose},
    {"Unique", 1, through_selection},
    {"Unsqueeze", 1, through_unsqueeze},
    {"Where", 3, through_elements},
};

static bool take_step(struct walk *w, struct step at) {
  int producer = producer_of(w->graph, at.value);
  if (producer < 0 || !spend(w))
    return false;
  const struct node *node = &w->graph->nodes[producer];
  for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
    if (node_is(node, operators[i].op)) {
      for (int k = 0; k < operators[i].inputs; k++)
        if (k >= node->n_inputs || node->inputs[k] < 0)
          return false;
      operators[i].through(w, node, at);
      return !w->failed;
    }
  return false;
}

// The selection that gives output v its rows along that axis, or -1.
static int selection_along(struct walk *w, int v, int axis) {
  w->id++;
  w->count = 0;
  w->found = -1;
  w->failed = false;
  visit(w, v, axis, -1);
  for (size_t i = 0; i < w->count; i++)
    if (!take_step(w, w->queue[i]))
      return -1;
  return w->found;
}

void selection_find(struct graph *g, const bool *changed, const int *outputs, size_t n, int *nodes,
                    int *axes) {
  size_t values = (size_t)g->n_values;
  struct arena scratch = {0};
  struct walk w = {
      .graph = g,
      .changed = changed,
      .ranks = ranks_find(g, &scratch),
      .left = STEPS * values,
      .arena = &scratch,
      .queue = arena_array(&scratch, values, sizeof *w.queue),
      .seen = arena_array(&scratch, values, sizeof *w.seen),
      .seen_axis = arena_array(&scratch, values, sizeof *w.seen_axis),
      .barren = arena_array(&scratch, values, sizeof *w.barren),
      .indices = arena_array(&scratch, values, sizeof *w.indices),
  };
  for (size_t k = 0; k < n; k++) {
    nodes[k] = -1;
    // Rows follow each other along the first axis, or the one behind that of the batch.
    for (axes[k] = 0; axes[k] < 2 && nodes[k] < 0; axes[k]++)
      nodes[k] = selection_along(&w, outputs[k], axes[k]);
    axes[k] = nodes[k] < 0 ? -1 : axes[k] - 1;
  }
  arena_free(&scratch);
}

static bool rounds(const struct graph *g, const struct node *node) {
  int from = node->n_inputs > 0 ? node->inputs[0] : -1;
  bool from_float = from >= 0 && tensor_is_float(g->values[from].type.elem_type);
  return node_is(node, "Round") || node_is(node, "Floor") || node_is(node, "Ceil") ||
         (node_is(node, "Cast") && from_float && is_whole(g, node->outputs[0]));
}

bool selection_is_rounded(const struct graph *g, int v) {
  static const char *const movers[] = {"Cast",  "Gather",  "GatherElements", "GatherND", "Identity",
                                       "Slice", "Squeeze", "Transpose",      "Unsqueeze"};
  for (int left = MOVES, n = producer_of(g, v); n >= 0 && left > 0; left--) {
    const struct node *node = &g->nodes[n];
    bool moves = false;
    for (size_t i = 0; i < sizeof movers / sizeof movers[0]; i++)
      moves = moves || node_is(node, movers[i]);
    if (rounds(g, node))
      return true;
    n = moves && node->n_inputs > 0 ? producer_of(g, node->inputs[0]) : -1;
  }
  return false;
}
