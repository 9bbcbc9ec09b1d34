// Largest magnitudes of blocks, and products with a factor a block. The elements of a block are
// `inner` apart, so rows of `inner` elements are gone through at once, each with its row of blocks:
// both are read in the order in which they lie.
#include "blocks.h"

#include <math.h>

struct blocks blocks_along(const int64_t *dims, size_t rank, size_t axis, size_t size) {
  struct blocks b = {.outer = 1, .length = (size_t)dims[axis], .inner = 1, .size = size};
  for (size_t k = 0; k < axis; k++)
    b.outer *= (size_t)dims[k];
  for (size_t k = axis + 1; k < rank; k++)
    b.inner *= (size_t)dims[k];
  return b;
}

size_t blocks_elements(const struct blocks *b) {
  return b->outer * b->length * b->inner;
}

static size_t along_axis(const struct blocks *b) {
  return b->length / b->size + (b->length % b->size != 0);
}

size_t blocks_count(const struct blocks *b) {
  return b->outer * along_axis(b) * b->inner;
}

// Rows of `inner` elements; none if these are none, however large the other dims claim to be.
static size_t count_rows(const struct blocks *b) {
  return b->inner ? b->outer * b->length : 0;
}

// The first block of row i: rows are numbered through outer and length.
static size_t first_block(const struct blocks *b, size_t row) {
  return (row / b->length * along_axis(b) + row % b->length / b->size) * b->inner;
}

bool blocks_absmax(const struct blocks *b, const float *x, float *absmax) {
  bool finite = true;
  for (size_t i = 0; i < blocks_count(b); i++)
    absmax[i] = 0;
  for (size_t row = 0; row < count_rows(b); row++) {
    float *largest = absmax + first_block(b, row);
    for (size_t i = 0; i < b->inner; i++) {
      float magnitude = fabsf(x[row * b->inner + i]);
      finite = finite && isfinite(magnitude);
      largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
  }
  return finite;
}

void blocks_multiply(const struct blocks *b, float *x, const float *factors) {
  for (size_t row = 0; row < count_rows(b); row++) {
    const float *factor = factors + first_block(b, row);
    for (size_t i = 0; i < b->inner; i++)
      x[row * b->inner + i] *= factor[i];
  }
}
