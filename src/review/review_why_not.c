// Ranks what keeps a model wide: nodes that are not in the wanted format are grouped by what keeps
// them (a rule, a tensor, an operator), and the groups ordered by the modelled time that their
// nodes would save, so that the first line is what is worth a person's time.
#include "escape.h"
#include "review.h"
#include "units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_SHOWN = 30, NODES_SHOWN = 3 };

struct group {
  enum reason reason;
  const char *subject;   // rule, tensor or operator; "" if the reason says it all
  enum format_id tried;  // what the reason is about: not always the format that is asked about
  int opset;             // REASON_SCHEMA
  double gain;           // s per run
  int nodes, first[NODES_SHOWN];
};

// What is asked about: the format of nodes, or that of the operands of matrix products.
struct question {
  enum format_id format;
  bool operands;
};

static bool is_kept_out(const struct review_node *n, const struct question *q) {
  return q->operands ? n->product && !n->narrow_operands : n->format != q->format;
}

static enum reason reason_of(const struct review_node *n, const struct question *q) {
  return q->operands ? n->operands_reason : n->reason;
}

// What to name beside the reason.
static const char *subject_of(const struct review_node *n, const struct question *q) {
  enum reason reason = reason_of(n, q);
  const char *culprit = q->operands ? n->operands_because_of : n->because_of;
  if (reason == REASON_NOT_SEEN)
    return "";  // one trace more would do for all
  if (reason == REASON_CLASS || reason == REASON_KEPT)
    return n->rule;
  if (reason == REASON_SCHEMA)
    return n->op;
  return culprit ? culprit : "";
}

// By what groups are ranked. The plan has no time of a product with narrow operands: then it is the
// time that the product takes, of which they could save a part.
static double gain(const struct review_node *n, const struct question *q) {
  if (n->left_out)
    return 0;  // it takes no time
  if (!q->operands && n->reason == REASON_SCHEMA && n->tried == q->format && n->opset == 0)
    return 0;  // no opset takes it
  double seconds = n->seconds[n->format] - (q->operands ? 0 : n->seconds[q->format]);
  return isnan(seconds) ? 0 : seconds;
}

static int by_gain(const void *a, const void *b) {
  const struct group *x = a, *y = b;
  if (x->gain != y->gain)
    return x->gain < y->gain ? 1 : -1;
  return (x->first[0] > y->first[0]) - (x->first[0] < y->first[0]);
}

static int collect(const struct review *r, const struct question *q, struct group *groups,
                   struct arena *a) {
  struct map known = {.arena = a};
  int count = 0;
  for (int n = 0; n < r->n_nodes; n++) {
    const struct review_node *node = &r->nodes[n];
    if (!is_kept_out(node, q))
      continue;
    enum reason reason = reason_of(node, q);
    const char *subject = subject_of(node, q);
    enum format_id tried = q->operands ? q->format : node->tried;
    int kind = (int)reason * FORMAT_COUNT + (int)tried;
    int g = map_get(&known, kind, subject);
    if (g < 0) {
      g = count++;
      map_put(&known, kind, subject, g);
      groups[g] = (struct group){.reason = reason, .subject = subject, .tried = tried};
    }
    struct group *group = &groups[g];
    if (!q->operands && node->opset > group->opset)
      group->opset = node->opset;
    group->gain += gain(node, q);
    if (group->nodes < NODES_SHOWN)
      group->first[group->nodes] = n;
    group->nodes++;
  }
  qsort(groups, (size_t)count, sizeof *groups, by_gain);
  return count;
}

// A reason that is about numbers of a format, or its type.
static bool is_of_format(enum reason reason) {
  return reason == REASON_OVERFLOW || reason == REASON_ZERO || reason == REASON_SUBNORMAL ||
         reason == REASON_CONSTANT || reason == REASON_SCHEMA || reason == REASON_RESOLUTION ||
         reason == REASON_STEP || reason == REASON_UNSTABLE || reason == REASON_SCORES;
}

static void print_group(const struct review *r, const struct question *q, const struct group *g,
                        FILE *out) {
  escape_printf(out, "%8.3g us  %d node%s: ", 1e6 * g->gain, g->nodes, PLURAL(g->nodes));
  if (g->reason == REASON_NONE)
    escape_printf(out, "got another format of the ladder, which was wanted more");
  else
    escape_printf(out, "%s", reason_text(g->reason));
  if (g->subject[0])
    escape_printf(out, " (%s)", g->subject);
  if (g->tried != q->format && is_of_format(g->reason))
    escape_printf(out,
                  "; that is of %s, which was tried first: a plan for %s alone has its own reason",
                  formats[g->tried].name, formats[q->format].name);
  else if (g->opset)
    escape_printf(out, "; opset %d would do", g->opset);
  escape_printf(out, "\n             ");
  for (int k = 0; k < g->nodes && k < NODES_SHOWN; k++)
    escape_printf(out, "%s%s", k ? ", " : "", r->nodes[g->first[k]].label);
  if (g->nodes > NODES_SHOWN)
    escape_printf(out, " and %d more", g->nodes - NODES_SHOWN);
  escape_printf(out, "\n");
}

static bool in_ladder(const struct review *r, enum format_id f) {
  for (int i = 0; i < r->n_ladder; i++)
    if (r->ladder[i] == f)
      return true;
  return false;
}

static void print_groups(const struct review *r, const struct question *q,
                         const struct group *groups, int count, FILE *out) {
  for (int g = 0; g < count && g < GROUPS_SHOWN; g++)
    print_group(r, q, &groups[g], out);
  if (count > GROUPS_SHOWN)
    escape_printf(out, "and %d reasons more, which would save less\n", count - GROUPS_SHOWN);
}

static void rank_nodes(const struct review *r, enum format_id f, FILE *out, struct arena *a) {
  const struct question q = {.format = f};
  struct group *groups = arena_array(a, (size_t)r->n_nodes, sizeof *groups);
  int count = collect(r, &q, groups, a), nodes = 0;
  double saved = 0;
  for (int g = 0; g < count; g++) {
    nodes += groups[g].nodes;
    saved += groups[g].gain;
  }
  escape_printf(out, "%d of %d float nodes are not %s", nodes, r->n_nodes, formats[f].name);
  if (count && !isnan(r->time_after))
    escape_printf(out,
                  "; in it they would save %.3g of %.3g us, as modelled for %s, Casts not counted",
                  1e6 * saved, 1e6 * r->time_after, r->target ? r->target : "its target");
  escape_printf(out, "\n");
  print_groups(r, &q, groups, count, out);
}

static void rank_products(const struct review *r, FILE *out, struct arena *a) {
  const struct question q = {.format = r->operand_format, .operands = true};
  struct group *groups = arena_array(a, (size_t)r->n_nodes, sizeof *groups);
  int count = collect(r, &q, groups, a), wide = 0, products = 0;
  double seconds = 0;
  for (int g = 0; g < count; g++) {
    wide += groups[g].nodes;
    seconds += groups[g].gain;
  }
  for (int n = 0; n < r->n_nodes; n++)
    products += r->nodes[n].product;
  escape_printf(out, "%d of %d matrix products do not read their operands in %s", wide, products,
                formats[q.format].name);
  if (count && !isnan(r->time_after))
    escape_printf(out,
                  "; they take %.3g of %.3g us, as modelled for %s, and could save a part of that",
                  1e6 * seconds, 1e6 * r->time_after, r->target ? r->target : "its target");
  escape_printf(out, "\n");
  print_groups(r, &q, groups, count, out);
}

const char *review_formats(const struct review *r, struct arena *a) {
  const char *text = r->tf32                 ? formats[FORMAT_TF32].name
                     : r->has_operand_format ? formats[r->operand_format].name
                                             : "";
  for (int i = 0; i < r->n_ladder; i++)
    text = arena_printf(a, "%s%s%s", text, text[0] ? ", " : "", formats[r->ladder[i]].name);
  return text;
}

enum status review_why_not(const struct review *r, enum format_id f, FILE *out, struct arena *a,
                           struct diag *d) {
  if (in_ladder(r, f)) {
    rank_nodes(r, f, out, a);
  } else if (r->has_operand_format && f == r->operand_format) {
    rank_products(r, out, a);
  } else if (r->tf32 && f == FORMAT_TF32) {
    escape_printf(
        out, "nothing keeps a node out of tf32: it is a setting of the runtime, for all matrix "
             "products at once, and the model stays as it is\n");
  } else {
    diag_hint(d, "The plan has %s: make one with a policy whose ladder has %s.",
              review_formats(r, a), formats[f].name);
    return diag_fail(d, STATUS_USAGE, "the plan's ladder has no %s, so nothing was tried in it",
                     formats[f].name);
  }
  return STATUS_OK;
}
