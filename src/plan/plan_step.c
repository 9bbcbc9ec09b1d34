// The Step rule. Sums inside an operator count only where the target's kernels accumulate in the
// tensor's own format: else what they swallow is nobody's choice of format.
#include "plan_step.h"

#include <string.h>

// Whether what the site accumulates is stored in the format of its value.
static bool is_stored(enum update_kind kind, const struct policy *policy) {
  if (kind == UPDATE_WEIGHT)
    return false;  // the plan says where a training must keep a copy
  bool inside = kind == UPDATE_REDUCTION || kind == UPDATE_PRODUCT;
  return !inside || policy->narrow_accumulators;
}

void steps_init(struct steps *s, const struct graph *g, const struct trace *t,
                const struct policy *policy, struct arena *a) {
  size_t values = (size_t)g->n_values, sites = t ? t->n_sites : 0;
  *s = (struct steps){
      .trace = t,
      .limit = policy->max_lost_fraction,
      .first = arena_array(a, values, sizeof *s->first),
      .next = arena_array(a, sites, sizeof *s->next),
  };
  memset(s->first, -1, values * sizeof *s->first);
  for (size_t i = 0; i < sites; i++) {
    if (!is_stored(t->sites[i].kind, policy))
      continue;
    int *first = &s->first[t->sites[i].value];
    s->next[i] = *first;
    *first = (int)i;
  }
}

double steps_lost(const struct steps *s, int v, enum format_id f) {
  double worst = -1;
  for (int i = s->first[v]; i >= 0; i = s->next[i]) {
    double lost = updates_worst_window(&s->trace->updates[i], f);
    worst = lost > worst ? lost : worst;
  }
  return worst;
}

bool steps_forbid(const struct steps *s, double lost) {
  return s->limit > 0 && lost >= s->limit;
}

void steps_judge_weights(const struct steps *s, struct plan *p, struct arena *a) {
  size_t sites = s->trace ? s->trace->n_sites : 0;
  p->weights = arena_array(a, sites, sizeof *p->weights);
  for (size_t i = 0; i < sites; i++) {
    const struct update_site *site = &s->trace->sites[i];
    if (site->kind != UPDATE_WEIGHT)
      continue;
    enum format_id format = p->values[site->value].format;
    if (format == FORMAT_FP32)
      format = p->ladder[0];
    const struct updates *u = &s->trace->updates[i];
    struct weight_plan *w = &p->weights[p->n_weights++];
    *w = (struct weight_plan){.value = site->value,
                              .seen = updates_count(&u->total) > 0,
                              .format = format,
                              .lost_fraction = updates_worst_window(u, format)};
    w->master_copy = steps_forbid(s, w->seen ? w->lost_fraction : 1);
  }
}
