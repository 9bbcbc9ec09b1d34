// Rows of results that come as sets, as the boxes, scores and classes of detections do: which row
// of the narrow result is which of the fp32 one, wherever it stands. Pure arithmetic.
#ifndef ROWS_H
#define ROWS_H

#include "arena.h"

#include <stdbool.h>
#include <stdint.h>

// One tensor of the set; its rows go with those of the same index in the others.
struct rows_part {
  const float *reference, *narrow;  // n_reference and n_narrow rows of `width` elements
  size_t width;
  bool rounded;  // whole numbers come of rounding, as pixels do, and may be off by one
};

struct rows_set {
  const struct rows_part *parts;
  size_t n_parts;
  size_t n_reference, n_narrow;  // rows
  double tolerance;              // see rows_pair
};

#define ROWS_NONE ((size_t)-1)

// Pairs each row of the reference with the row of the narrow result that is nearest to it, each at
// most once, among those that are alike in every column: within `tolerance` times the column's root
// mean square over the rows of the reference, and by one more if it is `rounded`; or equal
// where the column has whole numbers alone (classes, indices) and where it is zero. A NaN is like
// nothing. partner[n_reference] becomes indices of narrow rows, or ROWS_NONE; returns how many have
// one. For n rows it takes n * (log n + CANDIDATES) comparisons of rows at most: only so many
// nearest by one column are looked at, so that of very many like rows some may stay alone.
size_t rows_pair(const struct rows_set *s, size_t *partner, struct arena *scratch);

// For each row, by `width` integers, which of all candidates it is.
struct rows_keys {
  const int64_t *reference, *narrow;
  size_t width;
};

// Pairs each row of the reference with the narrow one that is the same candidate, however far its
// values are off; of several that are, the first with the first. alike[n_reference] says of which
// pairs the columns are equal that rows_pair wants equal; returns how many.
size_t rows_join(const struct rows_set *s, const struct rows_keys *keys, size_t *partner,
                 bool *alike, struct arena *scratch);

#endif
