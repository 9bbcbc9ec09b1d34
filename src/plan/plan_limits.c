// The limits of a plan's claims, as sentences with this plan's numbers. See plan_limits.h.
#include "plan_limits.h"

#include "random_seeds.h"
#include "tensor.h"
#include "units.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct limits {
  const struct plan *plan;
  const struct graph *graph;
  limit_use *use;
  void *context;
};

__attribute__((format(printf, 3, 4))) static void limit(const struct limits *l, const char *id,
                                                        const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  l->use(l->context, id, text);
}

static int count_not_seen(const struct plan *p) {
  int count = 0;
  for (int v = 0; v < p->n_values; v++)
    count += p->values[v].considered && p->values[v].fit.reason == REASON_NOT_SEEN;
  return count;
}

const char *plan_growth_text(double factor, char text[GROWTH_TEXT]) {
  char number[UNITS_TEXT];
  if (factor > 1e6)
    snprintf(text, GROWTH_TEXT, "more than 1e6");
  else
    snprintf(text, GROWTH_TEXT, "about %s", units_factor(factor, number));
  return text;
}

static void range_limit(const struct limits *l) {
  char growth[GROWTH_TEXT];
  const struct plan *p = l->plan;
  if (p->headroom_value >= 0)
    limit(l, "range",
          "Inputs beyond the calibrated range: %.600s leaves %s when it grows %s times.",
          graph_value_label(l->graph, p->headroom_value), formats[p->headroom_format].name,
          plan_growth_text(p->headroom, growth));
}

static void samples_limit(const struct limits *l) {
  const struct plan *p = l->plan;
  if (!p->has_trace) {
    limit(l, "no_trace", "Nothing was measured but constants: there was no calibration trace.");
    return;
  }
  if (p->synthetic)
    limit(l, "synthetic", "The statistics are of made-up inputs, which say little of real ones.");
  size_t held_out = p->samples > p->steps ? p->samples - p->steps : 0;
  held_out -= p->held_out_empty < held_out ? p->held_out_empty : held_out;
  bool one = p->steps == 1;
  char judged[64];
  if (held_out)
    snprintf(judged, sizeof judged, "%s and %zu held out", one ? "it" : "these", held_out);
  else
    snprintf(judged, sizeof judged, "%s",
             one ? "the one that calibrated" : "those that calibrated");
  limit(l, "samples", "Other data: ranges are those of %zu sample%s, and claims are judged on %s.",
        p->steps, PLURAL(p->steps), judged);
}

static void draws_limit(const struct limits *l) {
  int unseeded, draws = random_draws(l->graph, &unseeded);
  if (draws)
    limit(l, "random",
          "%d node%s random numbers: both models were given the same ones%s; with others no claim "
          "was tried.",
          draws, draws == 1 ? " draws" : "s draw",
          unseeded ? ", by seeds that are not in the result" : "");
}

// Promotion stops where the claims hold on the held-out samples too, which so choose the result.
static void promotion_limit(const struct limits *l) {
  const struct promotions *p = l->plan->promotions;
  if (p && p->count)
    limit(l, "promotion",
          "%zu tensor%s promoted to meet the claims: the samples that judge chose when to stop, "
          "and others may hold them less well.",
          p->count, p->count == 1 ? " was" : "s were");
}

// Scales are fixed: what is larger at run time finds them too large.
static void weights_limit(const struct limits *l) {
  const struct plan *p = l->plan;
  int weights = 0;
  for (int v = 0; v < p->n_values; v++)
    weights += p->values[v].operand && p->values[v].operand->block_size;
  if (weights)
    limit(l, "weights",
          "%d weight%s in %s: the error of rounding is in every result, and time is modelled for "
          "kernels that "
          "decode them as they read them.",
          weights, PLURAL(weights), formats[p->operand_format].name);
}

static void scales_limit(const struct limits *l) {
  const struct plan *p = l->plan;
  char growth[GROWTH_TEXT];
  int scaled = 0, coded = 0, computed = 0;
  double least = INFINITY;
  for (int v = 0; v < p->n_values; v++) {
    const struct value_plan *value = &p->values[v];
    coded += value->operand != NULL;
    if (graph_is_constant(l->graph, v))
      continue;
    scaled += value->scale_log2 != 0;
    computed += value->operand != NULL;
    if (value->operand)
      least = fmin(least, value->operand->headroom);
  }
  if (scaled)
    limit(l, "scales",
          "%d tensor%s stored at scales fixed by the calibration: powers of two, so up to half "
          "of the range is unused, and a spike beyond it becomes infinite.",
          scaled, scaled == 1 ? " is" : "s are");
  if (computed)
    limit(l, "saturation",
          "Of %d tensor%s read in %s at fixed scales, %d that %s computed saturate%s without a "
          "sign of "
          "it when grown %s times.",
          coded, PLURAL(coded), formats[p->operand_format].name, computed,
          computed == 1 ? "is" : "are", computed == 1 ? "s" : "", plan_growth_text(least, growth));
}

// Before a verify run: what the claims leave out by name or type.
static bool may_be_judged(const struct plan *p, const struct value *value) {
  bool is_float = value->type.kind == TYPE_TENSOR && tensor_is_float(value->type.elem_type);
  for (int i = 0; i < p->n_claims; i++) {
    enum metric metric = p->claims[i].metric;
    bool takes = is_float ? metric != METRIC_MATCHED_ROWS : metric == METRIC_TOP1;
    if (takes && claim_names(&p->claims[i], value->name))
      return true;
  }
  return false;
}

// The first few outputs that no claim judges.
enum { SHOWN = 3 };
struct unjudged {
  int count;
  size_t length;
  char names[720];
};

__attribute__((format(printf, 2, 3))) static void name_unjudged(struct unjudged *u,
                                                                const char *format, ...) {
  if (u->count++ >= SHOWN)
    return;
  char *end = u->names + u->length;
  size_t room = sizeof u->names - u->length;
  va_list arguments;
  int comma = snprintf(end, room, "%s", u->count > 1 ? ", " : "");
  va_start(arguments, format);
  vsnprintf(end + comma, room - (size_t)comma, format, arguments);
  va_end(arguments);
  u->length += strlen(end);
}

// With what a verify run saw of it.
static void name_seen(struct unjudged *u, const struct unjudged_output *o) {
  if (o->elements)
    name_unjudged(u, "%.160s (%" PRIu64 " of %" PRIu64 " elements differ%s from fp32)", o->name,
                  o->different, o->elements, o->elements == 1 || o->different == 1 ? "s" : "");
  else if (!isnan(o->relative_l2))
    name_unjudged(u, "%.160s (relative_l2 %.3g)", o->name, o->relative_l2);
  else
    name_unjudged(u, "%.160s (nothing to compare)", o->name);
}

static void unjudged_limit(const struct limits *l) {
  const struct plan *p = l->plan;
  struct unjudged u = {.names = ""};
  for (int i = 0; p->unjudged && i < p->n_unjudged; i++)
    name_seen(&u, &p->unjudged[i]);
  for (int v = 0; !p->unjudged && v < l->graph->n_values; v++) {
    const struct value *value = &l->graph->values[v];
    if (value->scope == 0 && value->is_output && !may_be_judged(p, value))
      name_unjudged(&u, "%.160s", value->name);
  }
  char more[32] = "";
  if (u.count > SHOWN)
    snprintf(more, sizeof more, ", and %d more", u.count - SHOWN);
  if (u.count)
    limit(l, "not_judged", "No claim judges %d output%s: %s%s.", u.count, PLURAL(u.count), u.names,
          more);
}

// Whether the plan stores v in another type under its own name.
static bool is_retyped(const struct limits *l, int v) {
  const struct value *value = &l->graph->values[v];
  bool operand = l->plan->values[v].operand != NULL;
  for (int u = 0; u < value->n_uses && operand; u++) {
    const struct use *use = &value->uses[u];
    operand = use->node >= 0 && plan_is_narrow_operand(l->graph, l->plan, use->node, use->index);
  }
  return operand || (l->plan->values[v].considered && l->plan->values[v].format != FORMAT_FP32);
}

// A model that lists all initializers as inputs means them as constants, as before IR 4 (see
// graph_is_constant). From then on a caller may give others.
static void overriding_limit(const struct limits *l) {
  enum { IR_WITH_DEFAULTS = 4 };
  char names[512] = "";
  int count = 0;
  if (l->graph->model->proto->ir_version < IR_WITH_DEFAULTS)
    return;
  for (int v = 0; v < l->graph->n_values; v++) {
    if (l->graph->values[v].origin != ORIGIN_INPUT || !graph_is_constant(l->graph, v) ||
        !is_retyped(l, v))
      continue;
    size_t length = strlen(names);
    if (count++ < SHOWN)
      snprintf(names + length, sizeof names - length, "%s%.150s", length ? ", " : "",
               graph_value_label(l->graph, v));
  }
  if (count)
    limit(l, "overriding",
          "%d initializer%s listed as input%s too, and so may be overridden, but stored in another "
          "type or at a scale: a caller that does so must give the like (%s%s).",
          count, count == 1 ? " is" : "s are", PLURAL(count), names, count > SHOWN ? ", ..." : "");
}

// The model of such a plan is the source, so all that it claims depends on who runs it.
static void setting_limit(const struct limits *l) {
  limit(l, "setting",
        "The model is the source unchanged: what is claimed is claimed for a runtime that is set "
        "to tf32, whose matrix products round their operands to it and add up in fp32.");
  limit(l, "speed", "What tf32 saves is not modelled: that depends on the device.");
}

void plan_limits_each(const struct plan *p, const struct graph *g, limit_use *use, void *context) {
  const struct limits l = {p, g, use, context};
  if (plan_is_identity(p) && !p->tf32)
    return;
  if (p->tf32)
    setting_limit(&l);
  range_limit(&l);
  samples_limit(&l);
  unjudged_limit(&l);
  draws_limit(&l);
  promotion_limit(&l);
  scales_limit(&l);
  weights_limit(&l);
  overriding_limit(&l);
  int not_seen = count_not_seen(p);
  if (not_seen)
    limit(&l, "not_seen", "%d value%s never seen, and stay%s fp32 unmeasured.", not_seen,
          not_seen == 1 ? " was" : "s were", not_seen == 1 ? "s" : "");
  limit(&l, "accumulation",
        "A device that accumulates in a narrow format may do worse: verify adds up in fp32.");
  if (!p->tf32)
    limit(&l, "swamping",
          "Updates below a step are not looked for inside attention, Einsum, ConvTranspose and "
          "recurrent cells.");
  limit(&l, "not_claimed", "Equal quality on other data, and bitwise equality, are not claimed.");
}
