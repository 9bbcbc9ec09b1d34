// Rows of one selection stand at the same place of several outputs (boxes, scores, classes), and
// are paired jointly: a box whose class has changed is no partner. See verify_rows.h.
#include "verify_rows.h"

#include "changes.h"
#include "rows.h"
#include "selection.h"
#include "tensor.h"

#include <math.h>

// What is claimed of the rows of that output, or NULL: then it is compared in place.
static const struct claim *rows_claim(const struct plan *p, const char *output) {
  for (int i = 0; i < p->n_claims; i++)
    if (p->claims[i].metric == METRIC_MATCHED_ROWS && claim_names(&p->claims[i], output))
      return &p->claims[i];
  return NULL;
}

static int rows_of(struct verdict *v, int selection, double tolerance) {
  for (int i = 0; i < v->n_rows; i++)
    if (v->rows[i].selection == selection)
      return i;
  struct verdict_rows *rows = &v->rows[v->n_rows];
  *rows = (struct verdict_rows){.selection = selection, .tolerance = tolerance};
  for (int set = 0; set < ALL_SETS; set++)
    rows->on[set].worst_step = -1;
  return v->n_rows++;
}

void rows_find(struct verdict *v, struct graph *source, const struct plan *p, struct arena *a) {
  size_t n = (size_t)v->n_outputs;
  int *values = arena_array(a, n, sizeof *values), *nodes = arena_array(a, n, sizeof *nodes);
  int *axes = arena_array(a, n, sizeof *axes);
  bool claimed = false;
  v->rows = arena_array(a, n, sizeof *v->rows);
  for (size_t k = 0; k < n; k++) {
    claimed = claimed || rows_claim(p, v->outputs[k].name);
    values[k] = v->outputs[k].value;
    nodes[k] = -1;
    for (int set = 0; set < ALL_SETS; set++)
      compare_init(&v->outputs[k].paired[set]);
  }
  if (claimed)
    selection_find(source, changes_find(source, p, a), values, n, nodes, axes);
  for (size_t k = 0; k < n; k++) {
    const struct claim *claim = rows_claim(p, v->outputs[k].name);
    v->outputs[k].axis = axes[k];
    v->outputs[k].rows = claim && nodes[k] >= 0 ? rows_of(v, nodes[k], claim->tolerance) : -1;
  }
}

// ---- one run ----

// An output as blocks of rows, one for each element of the batch.
struct table {
  const float *x;
  size_t blocks, rows, width;
};

static bool open_table(struct table *t, const struct array *x, int axis, struct arena *scratch) {
  if (x->strings || (size_t)axis >= x->rank)
    return false;
  *t = (struct table){.blocks = 1, .rows = (size_t)x->dims[axis], .width = 1};
  for (size_t i = 0; i < x->rank; i++)
    if (i != (size_t)axis)
      *(i < (size_t)axis ? &t->blocks : &t->width) *= (size_t)x->dims[i];
  size_t count = t->blocks * t->rows * t->width;
  struct tensor view = {.name = "",
                        .elem_type = x->elem_type,
                        .rank = x->rank,
                        .dims = x->dims,
                        .count = count,
                        .data = x->data,
                        .size = x->size};
  float *values = arena_array(scratch, count, sizeof *values);
  t->x = values;
  return tensor_to_float(&view, values);
}

// The outputs of one selection in one run, with what is known of their rows.
struct row_run {
  enum sample_set set;
  int64_t step;
  const char *label;
  double tolerance;
  struct row_counts *counts;
  struct verdict_output **outputs;
  struct table *reference, *narrow;
  struct rows_part *parts;
  struct compare_piece *pieces;
  size_t n;
  struct arena *scratch;
};

// False where the outputs do not have the same rows: nothing is paired then.
static bool open_outputs(struct row_run *r, struct verdict *v, int rows,
                         const struct array *outputs) {
  size_t n = (size_t)v->n_outputs;
  r->outputs = arena_array(r->scratch, n, sizeof *r->outputs);
  r->reference = arena_array(r->scratch, n, sizeof *r->reference);
  r->narrow = arena_array(r->scratch, n, sizeof *r->narrow);
  r->parts = arena_array(r->scratch, n, sizeof *r->parts);
  r->pieces = arena_array(r->scratch, n, sizeof *r->pieces);
  bool together = true;
  for (size_t k = 0; k < n; k++) {
    if (v->outputs[k].rows != rows)
      continue;
    struct table *x = &r->reference[r->n], *y = &r->narrow[r->n];
    r->outputs[r->n++] = &v->outputs[k];
    together = together && open_table(x, &outputs[2 * k], v->outputs[k].axis, r->scratch) &&
               open_table(y, &outputs[2 * k + 1], v->outputs[k].axis, r->scratch) &&
               x->blocks == y->blocks && x->blocks == r->reference[0].blocks &&
               x->width == y->width && x->rows == r->reference[0].rows &&
               y->rows == r->narrow[0].rows;
  }
  return together;
}

static const float *row_of(const struct table *t, size_t block, size_t row) {
  return t->x + (block * t->rows + row) * t->width;
}

static void add_pair(struct row_run *r, size_t block, size_t row, size_t partner) {
  r->counts->moved += partner != row ? 1 : 0;
  for (size_t k = 0; k < r->n; k++)
    compare_pairs(&r->pieces[k], row_of(&r->reference[k], block, row),
                  row_of(&r->narrow[k], block, partner), r->reference[k].width);
}

static void note_alone(struct row_run *r, size_t row) {
  if (r->counts->first_alone_sample && r->counts->first_alone <= row)
    return;
  r->counts->first_alone = row;
  r->counts->first_alone_sample = r->label;
}

static void add_alone(struct row_run *r, size_t block, size_t row) {
  for (size_t k = 0; k < r->n; k++) {
    const float *x = row_of(&r->narrow[k], block, row);
    for (size_t i = 0; i < r->narrow[k].width; i++)
      r->outputs[k]->alone_nonfinite[r->set] += isfinite(x[i]) ? 0 : 1;
  }
}

static size_t pair_block(struct row_run *r, size_t block) {
  struct rows_set all = {.parts = r->parts,
                         .n_parts = r->n,
                         .n_reference = r->reference[0].rows,
                         .n_narrow = r->narrow[0].rows,
                         .tolerance = r->tolerance};
  for (size_t k = 0; k < r->n; k++)
    r->parts[k] = (struct rows_part){.reference = row_of(&r->reference[k], block, 0),
                                     .narrow = row_of(&r->narrow[k], block, 0),
                                     .width = r->reference[k].width};
  size_t *partner = arena_array(r->scratch, all.n_reference, sizeof *partner);
  bool *taken = arena_array(r->scratch, all.n_narrow, sizeof *taken);
  size_t matched = rows_pair(&all, partner, r->scratch);
  for (size_t i = 0; i < all.n_reference; i++)
    if (partner[i] == ROWS_NONE)
      note_alone(r, i);
    else {
      taken[partner[i]] = true;
      add_pair(r, block, i, partner[i]);
    }
  for (size_t j = 0; j < all.n_narrow; j++)
    if (!taken[j])
      add_alone(r, block, j);
  return matched;
}

static double share_of(uint64_t matched, uint64_t reference, uint64_t narrow) {
  return reference + narrow ? 2 * (double)matched / (double)(reference + narrow) : 1;
}

double rows_share(const struct row_counts *c) {
  return c->apart ? 0 : share_of(c->matched, c->reference, c->narrow);
}

static void compare_selection(struct row_run *r) {
  struct row_counts *c = r->counts;
  size_t blocks = r->reference[0].blocks;
  uint64_t matched = 0, reference = blocks * r->reference[0].rows,
           narrow = blocks * r->narrow[0].rows;
  for (size_t block = 0; block < blocks; block++)
    matched += pair_block(r, block);
  c->reference += reference;
  c->narrow += narrow;
  c->matched += matched;
  double share = share_of(matched, reference, narrow);
  if (c->worst_step < 0 || share < c->worst_share) {
    c->worst_share = share;
    c->worst_step = r->step;
  }
  for (size_t k = 0; k < r->n; k++)
    compare_end_run(&r->outputs[k]->paired[r->set], &r->pieces[k], r->step);
}

void rows_compare(struct verdict *v, enum sample_set set, const struct array *outputs, int64_t step,
                  const char *label) {
  for (int i = 0; i < v->n_rows; i++) {
    struct arena scratch = {0};
    struct row_run r = {.set = set,
                        .step = step,
                        .label = label,
                        .tolerance = v->rows[i].tolerance,
                        .counts = &v->rows[i].on[set],
                        .scratch = &scratch};
    if (open_outputs(&r, v, i, outputs))
      compare_selection(&r);
    else
      r.counts->apart++;
    arena_free(&scratch);
  }
}
