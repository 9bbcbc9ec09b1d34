// Rows of one selection stand at the same place of several outputs (boxes, scores, classes), and
// are paired jointly. Where it can be seen what the selection chose, rows of one candidate are
// pairs, however far they are off, and rows stay in their places if both models chose alike. Where
// that cannot be seen, a row's partner is the one most like it, if any is. See verify_rows.h.
#include "verify_rows.h"

#include "changes.h"
#include "rows.h"
#include "selection.h"
#include "verify_outputs.h"

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

struct choices rows_choices(struct graph *source, const struct plan *p, struct arena *a) {
  for (int i = 0; i < p->n_claims; i++)
    if (p->claims[i].metric == METRIC_MATCHED_ROWS)
      return choices_list(source, changes_find(source, p, a), a);
  return (struct choices){0};
}

// What decides which candidate each row of these outputs is: the selection, and those before it.
static void find_choices(struct verdict *v, int rows, struct choices *c, struct arena *a) {
  struct verdict_rows *r = &v->rows[rows];
  struct arena scratch = {0};
  int own = c->place[r->selection], n = 0;
  int *values = arena_array(&scratch, (size_t)v->n_outputs, sizeof *values);
  int *behind = arena_array(&scratch, (size_t)c->n + 1, sizeof *behind);
  for (int k = 0; k < v->n_outputs; k++)
    if (v->outputs[k].rows == rows)
      values[n++] = v->outputs[k].value;
  int count = own >= 0 ? choices_behind(c, values, n, behind) : 0;
  if (count > 0) {
    int *list = arena_array(a, (size_t)count, sizeof *list);
    list[r->n_choices++] = own;
    for (int k = 0; k < count; k++)
      if (behind[k] != own)
        list[r->n_choices++] = behind[k];
    r->choices = list;
  }
  arena_free(&scratch);
}

void rows_find(struct verdict *v, struct graph *source, const struct plan *p, struct choices *c,
               struct arena *a) {
  size_t n = (size_t)v->n_outputs;
  int *values = arena_array(a, n, sizeof *values), *nodes = arena_array(a, n, sizeof *nodes);
  int *axes = arena_array(a, n, sizeof *axes);
  bool claimed = false;
  v->rows = arena_array(a, n, sizeof *v->rows);
  v->choices = c;
  for (size_t k = 0; k < n; k++) {
    claimed = claimed || rows_claim(p, v->outputs[k].name);
    values[k] = v->outputs[k].value;
    nodes[k] = -1;
    for (int set = 0; set < ALL_SETS; set++)
      compare_init(&v->outputs[k].paired[set]);
  }
  if (claimed)
    selection_find(source, c->changed, values, n, nodes, axes);
  for (size_t k = 0; k < n; k++) {
    const struct claim *claim = rows_claim(p, v->outputs[k].name);
    v->outputs[k].axis = axes[k];
    bool rows = claim && nodes[k] >= 0;
    v->outputs[k].rows = rows ? rows_of(v, nodes[k], claim->tolerance) : -1;
    v->outputs[k].rounded = rows && selection_is_rounded(source, values[k]);
  }
  for (int i = 0; i < v->n_rows; i++)
    find_choices(v, i, c, a);
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
  t->x = array_as_float(x, count, scratch);
  return t->x != NULL;
}

struct row_total {
  uint64_t reference, narrow, matched, moved, guessed;
};

// How rows find each other.
enum pairing { BY_PLACE, BY_CANDIDATE, BY_LIKENESS };

// The outputs of one selection in one run, those that have equally many rows, with what is known of
// these.
struct row_run {
  const struct row_sample *sample;
  double tolerance;
  struct row_counts *counts;
  enum pairing pairing;
  struct row_total total;
  struct chosen reference_choice, narrow_choice;  // BY_CANDIDATE
  struct verdict_output **outputs;
  struct table *reference, *narrow;
  struct rows_part *parts;
  struct compare_piece *pieces;
  size_t n;
  struct arena *scratch;
};

// An output of the selection in one run.
struct row_output {
  struct verdict_output *output;
  struct table reference, narrow;
  bool taken;
};

// The selection's outputs; NULL where one cannot be taken for rows.
static struct row_output *open_outputs(struct verdict *v, int rows, const struct array *outputs,
                                       size_t *n, struct arena *scratch) {
  struct row_output *list = arena_array(scratch, (size_t)v->n_outputs, sizeof *list);
  *n = 0;
  for (int k = 0; k < v->n_outputs; k++) {
    if (v->outputs[k].rows != rows)
      continue;
    struct row_output *o = &list[(*n)++];
    o->output = &v->outputs[k];
    if (!open_table(&o->reference, &outputs[2 * k], o->output->axis, scratch) ||
        !open_table(&o->narrow, &outputs[2 * k + 1], o->output->axis, scratch) ||
        o->reference.blocks != o->narrow.blocks || o->reference.width != o->narrow.width)
      return NULL;
  }
  return list;
}

// Takes those that have as many rows as the first that is left, in both models; false if none is.
// What a Slice has cut has fewer than others of the same selection.
static bool take_outputs(struct row_run *r, struct row_output *list, size_t n) {
  r->n = 0;
  for (size_t k = 0; k < n; k++) {
    const struct table *x = &list[k].reference, *y = &list[k].narrow;
    if (list[k].taken ||
        (r->n > 0 && (x->blocks != r->reference[0].blocks || x->rows != r->reference[0].rows ||
                      y->rows != r->narrow[0].rows)))
      continue;
    list[k].taken = true;
    r->outputs[r->n] = list[k].output;
    r->reference[r->n] = *x;
    r->narrow[r->n] = *y;
    r->pieces[r->n++] = (struct compare_piece){0};
  }
  return r->n > 0;
}

// Both chose alike: nothing has moved. Else rows are told from each other by what was chosen, if
// these are indices of the same candidates in both, which those before have chosen; where the
// outputs have other rows than the choice has (but for the first ones alone), nothing says that
// rows may move.
static enum pairing how_to_pair(struct row_run *r, const struct verdict *v, int rows) {
  const struct verdict_rows *own = &v->rows[rows];
  const struct choices *c = v->choices;
  const int *pairs = r->sample->choices;
  struct chosen *x = &r->reference_choice, *y = &r->narrow_choice;
  if (!pairs || own->n_choices == 0)
    return BY_LIKENESS;
  bool equal = true;
  for (int i = own->n_choices - 1; i >= 0; i--) {
    int pair = pairs[own->choices[i]];
    const struct array *both = &r->sample->outputs[2 * (pair < 0 ? 0 : pair)];
    if (pair < 0 || (i == 0 && (!choices_read(c, own->choices[0], &both[0], x, r->scratch) ||
                                !choices_read(c, own->choices[0], &both[1], y, r->scratch))))
      return BY_LIKENESS;
    equal = choices_equal(&both[0], &both[1]);
    if (i > 0 && !equal)
      return BY_LIKENESS;
  }
  bool fits = x->blocks == r->reference[0].blocks && x->rows >= r->reference[0].rows &&
              y->blocks == r->narrow[0].blocks && y->rows >= r->narrow[0].rows &&
              x->width == y->width;
  return equal || !fits ? BY_PLACE : BY_CANDIDATE;
}

static const float *row_of(const struct table *t, size_t block, size_t row) {
  return t->x + (block * t->rows + row) * t->width;
}

static void add_pair(struct row_run *r, size_t block, size_t row, size_t partner) {
  for (size_t k = 0; k < r->n; k++)
    compare_pairs(&r->pieces[k], row_of(&r->reference[k], block, row),
                  row_of(&r->narrow[k], block, partner), r->reference[k].width);
}

static void count_match(struct row_run *r, size_t row, size_t partner) {
  r->total.matched++;
  r->total.moved += partner != row ? 1 : 0;
  r->total.guessed += r->pairing == BY_LIKENESS ? 1 : 0;
}

static void note_alone(struct row_run *r, size_t row) {
  if (r->counts->first_alone_sample && r->counts->first_alone <= row)
    return;
  r->counts->first_alone = row;
  r->counts->first_alone_sample = r->sample->label;
}

static void add_alone(struct row_run *r, size_t block, size_t row) {
  for (size_t k = 0; k < r->n; k++) {
    const float *x = row_of(&r->narrow[k], block, row);
    for (size_t i = 0; i < r->narrow[k].width; i++)
      r->outputs[k]->alone_nonfinite[r->sample->set] += isfinite(x[i]) ? 0 : 1;
  }
}

static void pair_rows(struct row_run *r, size_t block, const struct rows_set *all, size_t *partner,
                      bool *alike) {
  const struct chosen *x = &r->reference_choice, *y = &r->narrow_choice;
  if (r->pairing == BY_CANDIDATE) {
    struct rows_keys keys = {x->keys + block * x->rows * x->width,
                             y->keys + block * y->rows * y->width, x->width};
    rows_join(all, &keys, partner, alike, r->scratch);
    return;
  }
  if (r->pairing == BY_LIKENESS)
    rows_pair(all, partner, r->scratch);
  for (size_t i = 0; i < all->n_reference; i++) {
    if (r->pairing == BY_PLACE)
      partner[i] = i < all->n_narrow ? i : ROWS_NONE;
    alike[i] = partner[i] != ROWS_NONE;
  }
}

// A row of the same candidate is its partner, and its error counts, though it may not be alike.
static void pair_block(struct row_run *r, size_t block) {
  struct rows_set all = {.parts = r->parts,
                         .n_parts = r->n,
                         .n_reference = r->reference[0].rows,
                         .n_narrow = r->narrow[0].rows,
                         .tolerance = r->tolerance};
  for (size_t k = 0; k < r->n; k++)
    r->parts[k] = (struct rows_part){.reference = row_of(&r->reference[k], block, 0),
                                     .narrow = row_of(&r->narrow[k], block, 0),
                                     .width = r->reference[k].width,
                                     .rounded = r->outputs[k]->rounded};
  size_t *partner = arena_array(r->scratch, all.n_reference, sizeof *partner);
  bool *alike = arena_array(r->scratch, all.n_reference, sizeof *alike);
  bool *taken = arena_array(r->scratch, all.n_narrow, sizeof *taken);
  pair_rows(r, block, &all, partner, alike);
  for (size_t i = 0; i < all.n_reference; i++) {
    if (alike[i])
      count_match(r, i, partner[i]);
    else
      note_alone(r, i);
    if (partner[i] == ROWS_NONE)
      continue;
    taken[partner[i]] = true;
    add_pair(r, block, i, partner[i]);
  }
  for (size_t j = 0; j < all.n_narrow; j++)
    if (!taken[j])
      add_alone(r, block, j);
}

static double share_of(uint64_t matched, uint64_t reference, uint64_t narrow) {
  return reference + narrow ? 2 * (double)matched / (double)(reference + narrow) : 1;
}

double rows_share(const struct row_counts *c) {
  return c->apart ? 0 : share_of(c->matched, c->reference, c->narrow);
}

static void compare_together(struct row_run *r) {
  size_t blocks = r->reference[0].blocks;
  r->total = (struct row_total){.reference = blocks * r->reference[0].rows,
                                .narrow = blocks * r->narrow[0].rows};
  for (size_t block = 0; block < blocks; block++)
    pair_block(r, block);
  for (size_t k = 0; k < r->n; k++)
    compare_end_run(&r->outputs[k]->paired[r->sample->set], &r->pieces[k], r->sample->step);
}

// Of outputs that do not have equally many rows, those count of which the fewest have their like.
static void compare_selection(struct row_run *r, const struct verdict *v, int rows,
                              struct row_output *list, size_t n) {
  struct row_counts *c = r->counts;
  struct row_total worst = {0};
  double share = INFINITY;
  while (take_outputs(r, list, n)) {
    r->pairing = how_to_pair(r, v, rows);
    compare_together(r);
    double own = share_of(r->total.matched, r->total.reference, r->total.narrow);
    if (own >= share)
      continue;
    worst = r->total;
    share = own;
  }
  c->reference += worst.reference;
  c->narrow += worst.narrow;
  c->matched += worst.matched;
  c->moved += worst.moved;
  c->guessed += worst.guessed;
  if (c->worst_step < 0 || share < c->worst_share) {
    c->worst_share = share;
    c->worst_step = r->sample->step;
  }
}

static void note_apart(struct row_counts *c, int64_t step) {
  if (c->apart++ > 0)
    return;
  c->worst_share = 0;
  c->worst_step = step;
}

void rows_compare(struct verdict *v, const struct row_sample *sample) {
  size_t limit = (size_t)v->n_outputs;
  for (int i = 0; i < v->n_rows; i++) {
    struct arena scratch = {0};
    size_t n;
    struct row_output *list = open_outputs(v, i, sample->outputs, &n, &scratch);
    struct row_run r = {.sample = sample,
                        .tolerance = v->rows[i].tolerance,
                        .counts = &v->rows[i].on[sample->set],
                        .outputs = arena_array(&scratch, limit, sizeof *r.outputs),
                        .reference = arena_array(&scratch, limit, sizeof *r.reference),
                        .narrow = arena_array(&scratch, limit, sizeof *r.narrow),
                        .parts = arena_array(&scratch, limit, sizeof *r.parts),
                        .pieces = arena_array(&scratch, limit, sizeof *r.pieces),
                        .scratch = &scratch};
    if (list)
      compare_selection(&r, v, i, list, n);
    else
      note_apart(r.counts, sample->step);
    arena_free(&scratch);
  }
}
