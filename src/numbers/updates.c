// Update-to-ULP statistics: exponent differences of updates and what they are added to, and sums in
// simulated narrow accumulators. Everything is counted in a fixed order, so the result does not
// depend on threads.
#include "updates.h"

#include "arena.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const enum format_id updates_simulated[UPDATES_SIMULATED] = {
    [UPDATES_FP16] = FORMAT_FP16, [UPDATES_BF16] = FORMAT_BF16};
const char *const updates_order_names[UPDATES_ORDERS] = {
    [UPDATES_SEQUENTIAL] = "sequential", [UPDATES_PAIRWISE] = "pairwise"};

void updates_init(struct updates *u) {
  *u = (struct updates){0};
}

void updates_free(struct updates *u) {
  free(u->windows);
  updates_init(u);
}

// ---- Pairs ----

// floor(log2|x|) of a finite x that is not 0. (ilogb is the same, and slow.)
static int exponent(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int field = (int)(bits >> 52 & 0x7ff);
  return field ? field - 1023 : ilogb(x);
}

static void add_pair(struct updates_piece *p, double a, double u) {
  p->pairs++;
  if (!isfinite(a) || !isfinite(u)) {
    p->not_finite++;
  } else if (u == 0) {
    p->zero_updates++;
  } else if (a == 0) {
    p->zero_accumulators++;
  } else {
    int d = exponent(u) - exponent(a);
    d = d < UPDATES_MIN ? UPDATES_MIN : d > UPDATES_MAX ? UPDATES_MAX : d;
    p->bins[d - UPDATES_MIN]++;
  }
}

void updates_operands(struct updates_piece *p, const float *x, const float *y, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool first = fabsf(x[i]) >= fabsf(y[i]);
    add_pair(p, (double)(first ? x[i] : y[i]), (double)(first ? y[i] : x[i]));
  }
}

void updates_onto(struct updates_piece *p, const float *u, const float *c, size_t n) {
  for (size_t i = 0; i < n; i++)
    add_pair(p, (double)(fabsf(c[i]) >= fabsf(u[i]) ? c[i] : u[i]), (double)u[i]);
}

// The difference of two floats in double is exact where it matters, when they are close.
void updates_change(struct updates_piece *p, const float *before, const float *after, size_t n) {
  for (size_t i = 0; i < n; i++)
    add_pair(p, (double)before[i], (double)after[i] - (double)before[i]);
}

// ---- Sums ----

// x rounded to fp16 or bf16, as round_double does it. That is written to be read and to be right
// for every format; here it stands in the way of each term.
static double round_sum(double x, const struct format *f) {
  if (fabs(x) < f->tiny) {
    double shift = 0x1.8p52 * f->min_subnormal;  // whose ulp is the fixed step of subnormals
    return x + shift - shift;
  }
  int dropped = 52 - f->mantissa_bits;
  uint64_t bits, one = 1;
  memcpy(&bits, &x, sizeof bits);
  bits += (one << (dropped - 1)) - 1 + (bits >> dropped & 1);  // to nearest, ties to even
  bits &= ~((one << dropped) - 1);
  memcpy(&x, &bits, sizeof x);
  return fabs(x) > f->max ? copysign(INFINITY, x) : x;
}

void updates_sum_begin(struct updates_sum *s) {
  s->terms = 0;
  s->exact = 0;
  for (int k = 0; k < UPDATES_SIMULATED; k++)
    s->sequential[k] = 0;
}

// A binary counter whose digits are sums: a carry is the sum of two equal numbers of terms.
static void add_pairwise(double *levels, uint64_t terms, double term, const struct format *f) {
  double sum = round_sum(term, f);
  int level = 0;
  for (; terms >> level & 1; level++)
    sum = round_sum(levels[level] + sum, f);
  levels[level] = sum;
}

void updates_sum_add(struct updates_sum *s, struct updates_piece *p, const double *terms,
                     size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s->terms)
      add_pair(p, s->exact, terms[i]);
    s->exact += terms[i];
    for (int k = 0; k < UPDATES_SIMULATED; k++) {
      const struct format *f = &formats[updates_simulated[k]];
      s->sequential[k] = round_sum(s->sequential[k] + terms[i], f);
      add_pairwise(s->levels[k], s->terms, terms[i], f);
    }
    s->terms++;
  }
}

static double pairwise_result(const struct updates_sum *s, int simulated) {
  double sum = 0;
  bool any = false;
  for (int level = 0; level < UPDATES_LEVELS; level++) {
    if (!(s->terms >> level & 1))
      continue;
    const double *part = &s->levels[simulated][level];
    sum = any ? round_sum(*part + sum, &formats[updates_simulated[simulated]]) : *part;
    any = true;
  }
  return sum;
}

double updates_sum_result(const struct updates_sum *s, int simulated, int order) {
  return order == UPDATES_SEQUENTIAL ? s->sequential[simulated] : pairwise_result(s, simulated);
}

void updates_sum_end(const struct updates_sum *s, struct updates_piece *p) {
  if (s->exact == 0 || !isfinite(s->exact))
    return;
  p->sums++;
  for (int k = 0; k < UPDATES_SIMULATED; k++)
    for (int order = 0; order < UPDATES_ORDERS; order++) {
      struct updates_error *e = &p->errors[k][order];
      double error = fabs((updates_sum_result(s, k, order) - s->exact) / s->exact);
      if (!isfinite(error)) {
        e->overflows++;
        continue;
      }
      e->sum += error;
      e->max = error > e->max ? error : e->max;
    }
}

void updates_terms(struct updates_piece *p, const double *terms, size_t n) {
  struct updates_sum s;
  updates_sum_begin(&s);
  updates_sum_add(&s, p, terms, n);
  updates_sum_end(&s, p);
}

// ---- Runs ----

static void merge_piece(struct updates_piece *into, const struct updates_piece *p) {
  into->pairs += p->pairs;
  into->zero_updates += p->zero_updates;
  into->not_finite += p->not_finite;
  into->zero_accumulators += p->zero_accumulators;
  into->sums += p->sums;
  for (int i = 0; i < UPDATES_BINS; i++)
    into->bins[i] += p->bins[i];
  for (int k = 0; k < UPDATES_SIMULATED; k++)
    for (int order = 0; order < UPDATES_ORDERS; order++) {
      struct updates_error *to = &into->errors[k][order];
      const struct updates_error *from = &p->errors[k][order];
      to->sum += from->sum;
      to->max = fmax(to->max, from->max);
      to->overflows += from->overflows;
    }
}

static struct updates_window *window_at(struct updates *u, size_t window) {
  if (window >= u->capacity_windows) {
    size_t capacity = window < 4 ? 4 : window + window / 2 + 1;
    struct updates_window *more = realloc(u->windows, capacity * sizeof *more);
    if (!more)
      out_of_memory(capacity * sizeof *more);
    u->windows = more;
    u->capacity_windows = capacity;
  }
  for (; u->n_windows <= window; u->n_windows++)
    u->windows[u->n_windows] = (struct updates_window){0};
  return &u->windows[window];
}

void updates_end_run(struct updates *u, const struct updates_piece *run, size_t window) {
  struct updates_window *w = window_at(u, window);
  u->runs++;
  merge_piece(&u->total, run);
  w->updates += updates_count(run);
  for (int f = 0; f < FORMAT_COUNT; f++)
    w->below[f] += updates_below_step(run, (enum format_id)f);
}

// ---- What follows ----

uint64_t updates_count(const struct updates_piece *p) {
  return p->pairs - p->zero_updates - p->not_finite;
}

uint64_t updates_below_step(const struct updates_piece *p, enum format_id f) {
  uint64_t count = 0;
  for (int d = UPDATES_MIN; d < -formats[f].mantissa_bits; d++)
    count += p->bins[d - UPDATES_MIN];
  return count;
}

static double share(uint64_t part, uint64_t whole) {
  return whole ? (double)part / (double)whole : 0;
}

double updates_window_lost(const struct updates_window *w, enum format_id f) {
  uint64_t in_fp32 = w->below[FORMAT_FP32];
  if (w->below[f] <= in_fp32)
    return 0;
  return share(w->below[f] - in_fp32, w->updates - in_fp32);
}

double updates_worst_window(const struct updates *u, enum format_id f) {
  double worst = 0;
  for (size_t i = 0; i < u->n_windows; i++)
    worst = fmax(worst, updates_window_lost(&u->windows[i], f));
  return worst;
}
