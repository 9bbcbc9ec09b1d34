// Ranks what keeps a model wide: nodes that are not in the wanted format are grouped by what keeps
// them (a rule, a tensor, an operator), and the groups ordered by the modelled time that their
// nodes would save, so that the first line is what is worth a person's time.
#include "review.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_SHOWN = 30, NODES_SHOWN = 3 };

struct group {
  enum reason reason;
  const char *subject;  // rule, tensor or operator; "" if the reason says it all
  int opset;            // REASON_SCHEMA
  double saved;         // s per run
  int nodes, first[NODES_SHOWN];
};

// What to name beside the reason.
static const char *subject_of(const struct review_node *n) {
  if (n->reason == REASON_NOT_SEEN)
    return "";  // one trace more would do for all
  if (n->reason == REASON_CLASS)
    return n->rule;
  if (n->reason == REASON_SCHEMA)
    return n->op;
  return n->because_of ? n->because_of : "";
}

static double saving(const struct review_node *n, enum format_id f) {
  double saved = n->seconds[n->format] - n->seconds[f];
  return isnan(saved) ? 0 : saved;
}

static int by_saving(const void *a, const void *b) {
  const struct group *x = a, *y = b;
  if (x->saved != y->saved)
    return x->saved < y->saved ? 1 : -1;
  return (x->first[0] > y->first[0]) - (x->first[0] < y->first[0]);
}

static int collect(const struct review *r, enum format_id f, struct group *groups,
                   struct arena *a) {
  struct map known = {.arena = a};
  int count = 0;
  for (int n = 0; n < r->n_nodes; n++) {
    const struct review_node *node = &r->nodes[n];
    if (node->format == f)
      continue;
    const char *subject = subject_of(node);
    int g = map_get(&known, (int)node->reason, subject);
    if (g < 0) {
      g = count++;
      map_put(&known, (int)node->reason, subject, g);
      groups[g] = (struct group){.reason = node->reason, .subject = subject};
    }
    struct group *group = &groups[g];
    group->opset = node->opset > group->opset ? node->opset : group->opset;
    group->saved += saving(node, f);
    if (group->nodes < NODES_SHOWN)
      group->first[group->nodes] = n;
    group->nodes++;
  }
  qsort(groups, (size_t)count, sizeof *groups, by_saving);
  return count;
}

static void print_group(const struct review *r, const struct group *g, FILE *out) {
  fprintf(out, "%8.3g us  %d node%s: ", 1e6 * g->saved, g->nodes, g->nodes == 1 ? "" : "s");
  if (g->reason == REASON_NONE)
    fprintf(out, "got another format of the ladder, which was wanted more");
  else
    fprintf(out, "%s", reason_text(g->reason));
  if (g->subject[0])
    fprintf(out, " (%s)", g->subject);
  if (g->opset)
    fprintf(out, "; opset %d would do", g->opset);
  fprintf(out, "\n             ");
  for (int k = 0; k < g->nodes && k < NODES_SHOWN; k++)
    fprintf(out, "%s%s", k ? ", " : "", r->nodes[g->first[k]].label);
  if (g->nodes > NODES_SHOWN)
    fprintf(out, " and %d more", g->nodes - NODES_SHOWN);
  fprintf(out, "\n");
}

static bool in_ladder(const struct review *r, enum format_id f) {
  for (int i = 0; i < r->n_ladder; i++)
    if (r->ladder[i] == f)
      return true;
  return false;
}

enum status review_why_not(const struct review *r, enum format_id f, FILE *out, struct arena *a,
                           struct diag *d) {
  if (!in_ladder(r, f)) {
    diag_hint(d, "Make the plan with a policy whose ladder has it.");
    return diag_fail(d, STATUS_USAGE, "the plan's ladder has no %s, so nothing was tried in it",
                     formats[f].name);
  }
  struct group *groups = arena_array(a, (size_t)r->n_nodes, sizeof *groups);
  int count = collect(r, f, groups, a), nodes = 0;
  double saved = 0;
  for (int g = 0; g < count; g++) {
    nodes += groups[g].nodes;
    saved += groups[g].saved;
  }
  fprintf(out, "%d of %d float nodes are not %s", nodes, r->n_nodes, formats[f].name);
  if (count && !isnan(r->time_after))
    fprintf(out, "; in it they would save %.3g of %.3g us, as modelled for %s, Casts not counted",
            1e6 * saved, 1e6 * r->time_after, r->target ? r->target : "its target");
  fprintf(out, "\n");
  for (int g = 0; g < count && g < GROUPS_SHOWN; g++)
    print_group(r, &groups[g], out);
  if (count > GROUPS_SHOWN)
    fprintf(out, "and %d reasons more, which would save less\n", count - GROUPS_SHOWN);
  return STATUS_OK;
}
