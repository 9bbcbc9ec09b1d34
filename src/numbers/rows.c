// Pairs rows greedily, in the order of the reference. Candidates come from narrow rows sorted by
// the column that tells rows apart best, from the nearest outwards: a partner is off by an error
// much smaller than the tolerance, so it is among the first. Where it is known which candidate each
// row is, both lists are sorted by that and joined. See rows.h.
#include "rows.h"

#include <math.h>
#include <stdlib.h>

enum { CANDIDATES = 256 };  // narrow rows that are looked at for one of the reference, at most

struct sorted_row {
  float key;
  size_t row;
};

struct pairing {
  const struct rows_set *set;
  double *allowed;  // by column, parts one after the other
  size_t key_part, key_column;
  double key_allowed;
  struct sorted_row *sorted;  // narrow rows by key, without NaN
  size_t n_sorted;
  bool *taken;  // by narrow row
};

// How far a column may be off, and the spread of the reference in units of that.
static double measure_column(const struct rows_set *s, const struct rows_part *part, size_t column,
                             double *spread) {
  double squares = 0, least = INFINITY, most = -INFINITY;
  bool whole = true;
  for (size_t i = 0; i < s->n_reference; i++) {
    double x = (double)part->reference[i * part->width + column];
    if (!isfinite(x))
      continue;
    squares += x * x;
    least = fmin(least, x);
    most = fmax(most, x);
    whole = whole && x == rint(x);
  }
  double allowed = s->tolerance * sqrt(squares / (double)s->n_reference);
  if (whole)
    allowed = part->rounded ? allowed + 1 : 0;
  *spread = most > least ? (most - least) / (allowed > 0 ? allowed : 1) : 0;
  return allowed;
}

static void measure_columns(struct pairing *p, struct arena *a) {
  const struct rows_set *s = p->set;
  size_t width = 0, at = 0;
  for (size_t k = 0; k < s->n_parts; k++)
    width += s->parts[k].width;
  p->allowed = arena_array(a, width, sizeof *p->allowed);
  double widest = -1;
  for (size_t k = 0; k < s->n_parts; k++)
    for (size_t column = 0; column < s->parts[k].width; column++) {
      double spread, allowed = measure_column(s, &s->parts[k], column, &spread);
      p->allowed[at++] = allowed;
      if (spread <= widest)
        continue;
      widest = spread;
      p->key_part = k;
      p->key_column = column;
      p->key_allowed = allowed;
    }
}

static int compare_keys(const void *x, const void *y) {
  const struct sorted_row *a = x, *b = y;
  if (a->key != b->key)
    return a->key < b->key ? -1 : 1;
  return a->row < b->row ? -1 : a->row > b->row;
}

static void sort_narrow(struct pairing *p, struct arena *a) {
  const struct rows_part *part = &p->set->parts[p->key_part];
  p->sorted = arena_array(a, p->set->n_narrow, sizeof *p->sorted);
  for (size_t i = 0; i < p->set->n_narrow; i++) {
    float key = part->narrow[i * part->width + p->key_column];
    if (!isnan(key))
      p->sorted[p->n_sorted++] = (struct sorted_row){key, i};
  }
  qsort(p->sorted, p->n_sorted, sizeof *p->sorted, compare_keys);
}

// The first narrow row whose key is not below that one.
static size_t first_from(const struct pairing *p, float key) {
  size_t low = 0, high = p->n_sorted;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (p->sorted[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Sum of squares of the differences in units of what is allowed; INFINITY if they are not alike.
static double distance(const struct pairing *p, size_t reference, size_t narrow) {
  double sum = 0;
  size_t at = 0;
  for (size_t k = 0; k < p->set->n_parts; k++) {
    const struct rows_part *part = &p->set->parts[k];
    const float *r = part->reference + reference * part->width;
    const float *n = part->narrow + narrow * part->width;
    for (size_t column = 0; column < part->width; column++, at++) {
      if (r[column] == n[column])
        continue;
      double error = fabs((double)r[column] - (double)n[column]);
      if (!(error <= p->allowed[at]))
        return INFINITY;
      sum += (error / p->allowed[at]) * (error / p->allowed[at]);
    }
  }
  return sum;
}

struct nearest {
  size_t row;
  double distance;
};

// Of two that are as near, the one in the same place stays.
static void consider(const struct pairing *p, size_t reference, size_t narrow, struct nearest *n) {
  if (p->taken[narrow])
    return;
  double d = distance(p, reference, narrow);
  if (d < n->distance)
    *n = (struct nearest){narrow, d};
}

static size_t find_partner(const struct pairing *p, size_t i) {
  const struct rows_part *part = &p->set->parts[p->key_part];
  float key = part->reference[i * part->width + p->key_column];
  struct nearest nearest = {ROWS_NONE, INFINITY};
  if (isnan(key))
    return ROWS_NONE;
  if (i < p->set->n_narrow)
    consider(p, i, i, &nearest);
  size_t up = first_from(p, key), down = up;
  for (int looked = 0; looked < CANDIDATES; looked++) {
    double above = up < p->n_sorted ? (double)p->sorted[up].key - (double)key : INFINITY;
    double below = down > 0 ? (double)key - (double)p->sorted[down - 1].key : INFINITY;
    if (!(fmin(above, below) <= p->key_allowed))
      break;
    size_t row = above <= below ? p->sorted[up++].row : p->sorted[--down].row;
    consider(p, i, row, &nearest);
  }
  return nearest.row;
}

size_t rows_pair(const struct rows_set *s, size_t *partner, struct arena *scratch) {
  struct pairing p = {.set = s, .taken = arena_array(scratch, s->n_narrow, sizeof *p.taken)};
  size_t count = 0;
  measure_columns(&p, scratch);
  sort_narrow(&p, scratch);
  for (size_t i = 0; i < s->n_reference; i++) {
    partner[i] = find_partner(&p, i);
    if (partner[i] == ROWS_NONE)
      continue;
    p.taken[partner[i]] = true;
    count++;
  }
  return count;
}

// ---- by candidate ----

struct keyed_row {
  const int64_t *key;
  size_t width, row;
};

static int compare_candidates(const struct keyed_row *x, const struct keyed_row *y) {
  for (size_t i = 0; i < x->width; i++)
    if (x->key[i] != y->key[i])
      return x->key[i] < y->key[i] ? -1 : 1;
  return 0;
}

static int compare_keyed(const void *x, const void *y) {
  const struct keyed_row *a = x, *b = y;
  int order = compare_candidates(a, b);
  return order != 0 ? order : a->row < b->row ? -1 : a->row > b->row;
}

static struct keyed_row *sort_keyed(const int64_t *keys, size_t width, size_t n, struct arena *a) {
  struct keyed_row *rows = arena_array(a, n, sizeof *rows);
  for (size_t i = 0; i < n; i++)
    rows[i] = (struct keyed_row){keys + i * width, width, i};
  qsort(rows, n, sizeof *rows, compare_keyed);
  return rows;
}

// Whether the columns that must be equal are.
static bool is_alike(const struct pairing *p, size_t reference, size_t narrow) {
  size_t at = 0;
  for (size_t k = 0; k < p->set->n_parts; k++) {
    const struct rows_part *part = &p->set->parts[k];
    const float *r = part->reference + reference * part->width;
    const float *n = part->narrow + narrow * part->width;
    for (size_t column = 0; column < part->width; column++, at++)
      if (p->allowed[at] == 0 && r[column] != n[column])
        return false;
  }
  return true;
}

size_t rows_join(const struct rows_set *s, const struct rows_keys *keys, size_t *partner,
                 bool *alike, struct arena *scratch) {
  struct pairing p = {.set = s};
  struct keyed_row *x = sort_keyed(keys->reference, keys->width, s->n_reference, scratch);
  struct keyed_row *y = sort_keyed(keys->narrow, keys->width, s->n_narrow, scratch);
  size_t count = 0, j = 0;
  measure_columns(&p, scratch);
  for (size_t i = 0; i < s->n_reference; i++) {
    size_t row = x[i].row;
    partner[row] = ROWS_NONE;
    alike[row] = false;
    while (j < s->n_narrow && compare_candidates(&y[j], &x[i]) < 0)
      j++;
    if (j == s->n_narrow || compare_candidates(&y[j], &x[i]) > 0)
      continue;
    partner[row] = y[j++].row;
    alike[row] = is_alike(&p, row, partner[row]);
    count += alike[row];
  }
  return count;
}
