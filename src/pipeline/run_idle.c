// Which --keep and --narrow of a run decide for no node, and why: a misspelt name would else be
// silent, and so would one that another decision beats. See run.h.
#include "json.h"
#include "nearest.h"
#include "run.h"

#include <string.h>

static bool decides(const struct plan *p, const char *id) {
  for (int n = 0; n < p->n_nodes; n++)
    if (strcmp(p->nodes[n].rule_id, id) == 0)
      return true;
  return false;
}

// By its own name, or by that of a tensor that it reads or makes.
static bool names_node(const struct graph *g, int n, const char *glob) {
  const struct node *node = &g->nodes[n];
  if (glob_match(glob, graph_node_label(g, n)))
    return true;
  for (int k = 0; k < node->n_inputs + node->n_outputs; k++) {
    int v = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];
    if (v >= 0 && glob_match(glob, g->values[v].name))
      return true;
  }
  return false;
}

static const char *nearest_label(struct run *r, const char *glob) {
  const struct graph *g = &r->graph;
  size_t count = 0;
  const char **names =
      arena_array(&r->arena, (size_t)g->n_nodes + (size_t)g->n_values + 1, sizeof *names);
  for (int n = 0; n < g->n_nodes; n++)
    names[count++] = graph_node_label(g, n);
  for (int v = 0; v < g->n_values; v++)
    names[count++] = g->values[v].name;
  return nearest_name(glob, names);
}

static void warn_of(struct run *r, const char *id, const char *glob) {
  int beaten = 0, first = -1;
  for (int n = 0; n < r->graph.n_nodes; n++)
    if (names_node(&r->graph, n, glob)) {
      first = first < 0 ? n : first;
      beaten++;
    }
  if (first < 0) {
    const char *near = nearest_label(r, glob);
    diag_warn(r->diag, "%s decides for no node: no node or tensor has such a name%s%s%s", id,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return;
  }
  const char *winner = r->plan.nodes[first].rule_id;
  const char *what = strncmp(winner, "--", 2) == 0 ? ", which stands later," : "";
  if (beaten == 1)
    diag_warn(r->diag, "%s decides for no node: at %s, %s%s wins", id,
              graph_node_label(&r->graph, first), winner, what);
  else
    diag_warn(r->diag, "%s decides for none of the %d nodes that it names: at %s, %s%s wins", id,
              beaten, graph_node_label(&r->graph, first), winner, what);
}

void run_warn_of_idle_adjustments(struct run *r) {
  static const char *const kinds[] = {"--keep ", "--narrow "};
  for (const char **id = r->policy.adjustments; id && *id; id++)
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
      if (strncmp(*id, kinds[k], strlen(kinds[k])) == 0 && !decides(&r->plan, *id))
        warn_of(r, *id, *id + strlen(kinds[k]));
}
