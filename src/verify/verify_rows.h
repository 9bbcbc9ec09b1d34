// Outputs whose rows a selection chooses, compared row by row with the row of the narrow result
// that is like it, wherever that stands. Part of verify.
#ifndef VERIFY_ROWS_H
#define VERIFY_ROWS_H

#include "verify.h"

// Finds the outputs that are rows of a selection, if the plan has a claim about such, and joins
// those of the same one: fills v->rows, and of v->outputs what is about rows.
void rows_find(struct verdict *v, struct graph *source, const struct plan *p, struct arena *a);

// Compares the outputs of one run, source and narrow in pairs as in the twin. `label` is kept.
void rows_compare(struct verdict *v, enum sample_set set, const struct array *outputs, int64_t step,
                  const char *label);

// The share of rows that have their like; 1 where there are none.
double rows_share(const struct row_counts *c);

#endif
