// Two formats per node as a minimum cut. A node on the source side is narrow. What a node costs in
// either format is a cost of the side that it is on. A Cast of a value to a format is paid once, by
// all its readers together:
//
//   - to the narrow format, if a reader is narrow and the producer is wide: an auxiliary node that
//     every reader pulls to the source side, and an edge from it to the producer;
//   - to the wide format, if a reader is wide and the producer is narrow: an edge from the producer
//     to an auxiliary node that every reader pulls to the sink side.
//
// Values that nobody chooses for (inputs and outputs of the graph, captures, pinned nodes) have one
// format on both sides, and the same construction then charges a side instead of an edge.
#include "plan_cut.h"

#include "mincut.h"

#include <math.h>
#include <string.h>

// How a value is stored, or read by one reader: its formats on the two sides of the cut's node
// `var`; if that is -1, `narrow` is always so.
struct place {
  int var;
  enum format_id narrow, wide;
};

struct cutting {
  const struct costs *costs;
  struct plan *plan;
  const struct choice_of_formats *choices;
  struct arena scratch;
  struct mincut cut;
  int *vars;  // by node: of the cut, or -1
  int scale;  // costs are multiplied by 2^scale and rounded
  struct place *readers;
  size_t n_readers, capacity_readers;
};

static int64_t fixed_point(const struct cutting *s, double cost) {
  return (int64_t)llround(ldexp(cost, s->scale));
}

// ---- formats under both choices ----

static struct place place_of(const struct cutting *s, int n, int k, bool output) {
  struct node_plan *node = &s->plan->nodes[n];
  enum format_id found[2];
  for (int side = 0; side < 2; side++) {
    node->format = side ? s->choices[n].wide : s->choices[n].narrow;
    found[side] = output ? plan_output_format(s->costs->graph, s->plan, n, k)
                         : plan_input_format(s->costs->graph, s->plan, n, k);
  }
  return (struct place){found[0] == found[1] ? -1 : s->vars[n], found[0], found[1]};
}

static void add_reader(struct cutting *s, struct place reader) {
  s->readers = arena_grow(&s->scratch, s->readers, &s->capacity_readers, s->n_readers + 1,
                          sizeof *s->readers);
  s->readers[s->n_readers++] = reader;
}

static void find_readers(struct cutting *s, int v) {
  const struct value *value = &s->costs->graph->values[v];
  s->n_readers = 0;
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    struct place reader = {-1, FORMAT_FP32, FORMAT_FP32};
    if (use->node >= 0)
      reader = place_of(s, use->node, use->index, false);
    else if (s->plan->narrow_outputs && value->scope == 0 && value->origin == ORIGIN_NODE)
      continue;  // is given out as it is stored
    if (reader.narrow != FORMAT_COUNT)
      add_reader(s, reader);
  }
}

// An input of the graph that may be narrow is stored as its readers want it if they agree, so it is
// a choice of its own.
static struct place place_of_input(struct cutting *s) {
  static const struct place wide = {-1, FORMAT_FP32, FORMAT_FP32};
  struct place agreed = s->n_readers ? s->readers[0] : wide;
  for (size_t i = 1; i < s->n_readers; i++)
    if (s->readers[i].narrow != agreed.narrow || s->readers[i].wide != agreed.wide)
      return wide;
  if (agreed.narrow != agreed.wide)
    agreed.var = mincut_add_node(&s->cut);
  return agreed;
}

static struct place place_stored(struct cutting *s, int v) {
  const struct value *value = &s->costs->graph->values[v];
  if (value->origin == ORIGIN_NODE)
    return place_of(s, value->producer, value->output, true);
  if (value->origin == ORIGIN_INPUT && s->plan->narrow_inputs && !value->initializer)
    return place_of_input(s);
  return (struct place){-1, FORMAT_FP32, FORMAT_FP32};
}

// ---- Casts ----

// The cut's node that is on the source side (`narrow`), or else on the sink side, as soon as one of
// the readers is that wants format f there; -1 if none does. With one reader it is that reader.
static int any_reader(struct cutting *s, enum format_id f, bool narrow) {
  int single = -1, several = -1;
  for (size_t i = 0; i < s->n_readers; i++) {
    const struct place *r = &s->readers[i];
    if (r->var < 0 || (narrow ? r->narrow : r->wide) != f || r->var == single)
      continue;
    if (single < 0) {
      single = r->var;
      continue;
    }
    if (several < 0) {
      several = mincut_add_node(&s->cut);
      mincut_add_edge(&s->cut, narrow ? single : several, narrow ? several : single,
                      MINCUT_INFINITE);
    }
    mincut_add_edge(&s->cut, narrow ? r->var : several, narrow ? several : r->var, MINCUT_INFINITE);
  }
  return several >= 0 ? several : single;
}

static bool always_wanted(const struct cutting *s, enum format_id f) {
  for (size_t i = 0; i < s->n_readers; i++)
    if (s->readers[i].var < 0 && s->readers[i].narrow == f)
      return true;
  return false;
}

// Charges the Cast of v to format f: if_narrow where the value is stored as on the source side,
// if_wide where it is stored as on the sink side. A format that is wanted on the source side costs
// most from the sink side, and the other way round: what goes beyond the smaller is an edge.
static void charge_cast(struct cutting *s, struct place stored, enum format_id f, int64_t if_narrow,
                        int64_t if_wide) {
  if (always_wanted(s, f)) {
    if (stored.var >= 0)
      mincut_add_cost(&s->cut, stored.var, if_narrow, if_wide);
    return;
  }
  int64_t least = if_narrow < if_wide ? if_narrow : if_wide;
  int narrow = any_reader(s, f, true);
  if (narrow >= 0) {
    mincut_add_cost(&s->cut, narrow, least, 0);
    if (stored.var >= 0)
      mincut_add_edge(&s->cut, narrow, stored.var, if_wide - least);
  }
  int wide = any_reader(s, f, false);
  if (wide >= 0) {
    mincut_add_cost(&s->cut, wide, 0, least);
    if (stored.var >= 0)
      mincut_add_edge(&s->cut, stored.var, wide, if_narrow - least);
  }
}

static void add_value(struct cutting *s, int v) {
  const struct graph *g = s->costs->graph;
  if (g->values[v].type.kind != TYPE_TENSOR ||
      g->values[v].type.elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
      graph_is_constant(g, v))
    return;
  find_readers(s, v);
  struct place stored = place_stored(s, v);
  struct copy given = {FORMAT_COUNT, 0};
  plan_given_copy(g, v, &given);
  for (int i = 0; i < s->plan->n_ladder; i++) {
    enum format_id f = s->plan->ladder[i];
    if (f == given.format)
      continue;
    charge_cast(s, stored, f, fixed_point(s, costs_cast(s->costs, v, stored.narrow, f)),
                fixed_point(s, costs_cast(s->costs, v, stored.wide, f)));
  }
}

// ---- nodes ----

static double cost_as(const struct cutting *s, int n, enum format_id f) {
  s->plan->nodes[n].format = f;
  return costs_node(s->costs, s->plan, n).time;
}

// An upper bound of every cost that will be added.
static double bound_costs(const struct cutting *s, const double (*nodes)[2]) {
  double total = 0;
  for (int n = 0; n < s->plan->n_nodes; n++)
    total += nodes[n][0] + nodes[n][1];
  for (int v = 0; v < s->plan->n_values; v++)
    total += 4.0 * s->plan->n_ladder * costs_cast(s->costs, v, FORMAT_FP32, FORMAT_FP64);
  return total;
}

static void add_nodes(struct cutting *s) {
  size_t count = (size_t)s->plan->n_nodes;
  double(*costs)[2] = arena_array(&s->scratch, count, sizeof *costs);
  s->vars = arena_array(&s->scratch, count, sizeof *s->vars);
  for (int n = 0; n < s->plan->n_nodes; n++) {
    s->vars[n] = -1;
    if (s->choices[n].narrow == s->choices[n].wide)
      continue;
    s->vars[n] = mincut_add_node(&s->cut);
    costs[n][0] = cost_as(s, n, s->choices[n].narrow);
    costs[n][1] = cost_as(s, n, s->choices[n].wide);
  }
  s->scale = mincut_scale(bound_costs(s, (const double(*)[2])costs));
  for (int n = 0; n < s->plan->n_nodes; n++)
    if (s->vars[n] >= 0)
      mincut_add_cost(&s->cut, s->vars[n], fixed_point(s, costs[n][0]),
                      fixed_point(s, costs[n][1]));
}

void cut_formats(const struct costs *c, struct plan *p, const struct choice_of_formats *choices) {
  struct cutting s = {.costs = c, .plan = p, .choices = choices};
  mincut_init(&s.cut, &s.scratch);
  add_nodes(&s);
  for (int v = 0; v < p->n_values; v++)
    add_value(&s, v);
  bool *narrow = arena_array(&s.scratch, (size_t)s.cut.n_nodes, sizeof *narrow);
  mincut_solve(&s.cut, narrow);
  for (int n = 0; n < p->n_nodes; n++) {
    bool is_narrow = s.vars[n] >= 0 && narrow[s.vars[n]];
    p->nodes[n].format = is_narrow ? choices[n].narrow : choices[n].wide;
  }
  arena_free(&s.scratch);
}
