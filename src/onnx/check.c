// The verifier that runs between passes. What every model must keep, graph_build checks while it
// builds an index of its own; here is what a file from elsewhere may break but no pass of ours may:
// nodes out of order, and declarations (value_info) that contradict the inferred types, which
// engines refuse.
#include "check.h"

#include "graph_build.h"
#include "types.h"

#include <string.h>

// Every value stands before its readers, those in subgraphs included.
static enum status check_order(const struct graph *g, struct diag *d) {
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++)
      if (g->scopes[s].order[i] != g->scopes[s].nodes[i]) {
        diag_at(d, NULL, graph_node_label(g, g->scopes[s].nodes[i]), NULL);
        return diag_fail(d, STATUS_MODEL, "the node stands before what it reads");
      }
  return STATUS_OK;
}

static enum status check_value_infos(const struct graph *g, int s, struct diag *d) {
  const struct scope *scope = &g->scopes[s];
  // In functions, value_info may be true of one call only: engines drop it when they inline.
  if (g->scopes[scope->root].kind == SCOPE_FUNCTION)
    return STATUS_OK;
  for (size_t i = 0; i < scope->graph->n_value_info; i++) {
    int v = scope->infos[i];
    struct type declared = type_from_proto(scope->graph->value_info[i]->type);
    char a[TYPE_TEXT_SIZE], b[TYPE_TEXT_SIZE];
    if (v < 0 || declared.kind == TYPE_UNKNOWN || g->values[v].type.kind == TYPE_UNKNOWN ||
        type_equal(declared, g->values[v].type))
      continue;
    diag_at(d, NULL, NULL, graph_value_label(g, v));
    return diag_fail(d, STATUS_MODEL, "value_info says %s, but it is %s", type_text(declared, a),
                     type_text(g->values[v].type, b));
  }
  return STATUS_OK;
}

static enum status check_all(struct graph *g, struct model *m, const struct schema_table *schemas,
                             struct arena *a, bool strict, struct diag *d) {
  TRY(graph_build_again(g, m, schemas, a, d));
  if (!strict)
    return STATUS_OK;
  TRY(check_order(g, d));
  for (int s = 0; s < g->n_scopes; s++)
    TRY(check_value_infos(g, s, d));
  return STATUS_OK;
}

enum status check_pass(struct graph *g, struct model *m, const struct schema_table *schemas,
                       const char *pass, struct arena *a, struct diag *d) {
  struct diag found = {0};  // without a place for warnings: they were given after the load
  enum status status = check_all(g, m, schemas, a, true, &found);
  if (status == STATUS_OK)
    return STATUS_OK;
  diag_at(d, found.file, found.node, found.tensor);
  diag_hint(d, "This is a fault of narrowcast: please report it, with the model if you can.");
  return diag_fail(d, status, "pass %s left an invalid model: %s", pass, found.message);
}

enum status check_model(struct model *m, const struct schema_table *schemas, const char *pass,
                        struct diag *d) {
  struct arena scratch = {0};
  struct graph g;
  enum status status = pass ? check_pass(&g, m, schemas, pass, &scratch, d)
                            : check_all(&g, m, schemas, &scratch, false, d);
  arena_free(&scratch);
  return status;
}
