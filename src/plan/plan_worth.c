// Drawbacks of a plan, as sentences with its numbers. See plan_worth.h.
#include "plan_worth.h"

#include "units.h"

enum { SENTENCE = 512 };

static const char *added_nodes(const struct plan_costs *c) {
  return c->scale_nodes ? "Casts and scale nodes" : "Casts";
}

static void no_faster(const struct plan_costs *c, drawback_use *use, void *context) {
  char text[SENTENCE], casts[UNITS_TEXT], saved[UNITS_TEXT];
  if (c->time_casts > 0)
    snprintf(text, sizeof text,
             "Not worth it on target %.100s: no faster than fp32, since its %s take %s and what "
             "runs narrow saves %s.",
             c->target, added_nodes(c), units_seconds(c->time_casts, casts),
             units_seconds(c->time_before - (c->time_after - c->time_casts), saved));
  else
    snprintf(text, sizeof text,
             "Not worth it on target %.100s: no faster than fp32, since what runs narrow takes as "
             "long there as in fp32.",
             c->target);
  use(context, "time", text);
}

static void more_traffic(const struct plan_costs *c, bool faster, drawback_use *use,
                         void *context) {
  char text[SENTENCE], casts[UNITS_TEXT], saved[UNITS_TEXT];
  double ratio = c->traffic_after / c->traffic_before - 1;
  snprintf(text, sizeof text,
           "Moves %.3g %% more memory than fp32: its %s move %s, and what runs narrow saves %s.%s",
           100 * ratio, added_nodes(c), units_bytes(c->traffic_casts, casts),
           units_bytes(c->traffic_before - (c->traffic_after - c->traffic_casts), saved),
           faster ? " It is faster only where arithmetic, not memory, takes the time." : "");
  use(context, "traffic", text);
}

static bool narrows_operands(const struct plan *p) {
  for (int n = 0; n < p->n_nodes; n++)
    if (p->nodes[n].narrow_operands)
      return true;
  return false;
}

static void no_operands(const struct plan *p, drawback_use *use, void *context) {
  char text[SENTENCE];
  snprintf(text, sizeof text,
           "No matrix product reads %s: what is narrow here is so without the policy's operands, "
           "and is judged by claims that were made for them.",
           formats[p->operand_format].name);
  use(context, "operands", text);
}

void drawbacks_each(const struct plan *p, drawback_use *use, void *context) {
  const struct plan_costs *c = &p->costs;
  if (p->has_operand_format && !p->tf32 && !plan_is_identity(p) && !narrows_operands(p))
    no_operands(p, use, context);
  if (!c->target || !p->has_trace || p->tf32 || plan_is_identity(p))
    return;
  bool faster = c->time_after < c->time_before;
  if (!faster)
    no_faster(c, use, context);
  if (c->traffic_after > c->traffic_before && c->traffic_before > 0)
    more_traffic(c, faster, use, context);
}
