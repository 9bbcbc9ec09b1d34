// Scales of blocks: a tensor whose elements share a factor with their neighbours along one axis, as
// DequantizeLinear has them (ONNX, opset 21: axis and block_size). Pure arithmetic on row-major
// arrays; the last block of an axis that the size does not divide is shorter.
#ifndef NARROWCAST_BLOCKS_H
#define NARROWCAST_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A tensor seen as x[outer][length][inner]; blocks are `size` long along the middle.
struct blocks {
  size_t outer, length, inner, size;
};

// The tensor of these dims (each >= 0, their product a size_t) in blocks along `axis` (0 to
// rank - 1). size >= 1.
struct blocks blocks_along(const int64_t *dims, size_t rank, size_t axis, size_t size);

size_t blocks_elements(const struct blocks *b);
// How many blocks there are: the elements of a scale tensor, which is [outer][blocks][inner].
size_t blocks_count(const struct blocks *b);

// The largest magnitude of each block into absmax[blocks_count]. False if an element is no finite
// number.
bool blocks_absmax(const struct blocks *b, const float *x, float *absmax);

// Multiplies each element by the factor of its block, in fp32.
void blocks_multiply(const struct blocks *b, float *x, const float *factors);

#endif
