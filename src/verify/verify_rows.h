// Outputs whose rows a selection chooses, compared row by row with the row of the narrow result
// that is like it, wherever that stands. Part of verify.
#ifndef VERIFY_ROWS_H
#define VERIFY_ROWS_H

#include "choices.h"
#include "verify.h"

// What is to be seen in a run beside the outputs, so that rows can be told from each other: nothing
// if the plan has no claim about rows.
struct choices rows_choices(struct graph *source, const struct plan *p, struct arena *a);

// Finds the outputs that are rows of a selection, if the plan has a claim about such, and joins
// those of the same one: fills v->rows, and of v->outputs what is about rows. `c` is kept.
void rows_find(struct verdict *v, struct graph *source, const struct plan *p, struct choices *c,
               struct arena *a);

// One run: source and narrow arrays in pairs, first those of the outputs, and which pair each
// choice is, or -1 (NULL: none is there). `label` is kept.
struct row_sample {
  enum sample_set set;
  int64_t step;
  const char *label;
  const struct array *outputs;
  const int *choices;
};
void rows_compare(struct verdict *v, const struct row_sample *sample);

// The share of rows that have their like; 1 where there are none.
double rows_share(const struct row_counts *c);

#endif
