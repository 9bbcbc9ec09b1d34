// Weights of matrix products in 4 bits: which weights, and in what blocks. Part of the planner.
//
// A weight is stored as codes of 4 bits. Elements that follow each other along the axis over which
// the product sums share a scale, a power of two: the largest by which the block's largest
// magnitude fits. A DequantizeLinear in front of the product gives the weight in the format that
// the product runs in; nothing else changes. Sources: ONNX DequantizeLinear (opset 23: float4e2m1,
// block_size); OCP Microscaling Formats 1.0 (blocks of 32 with a power of two).
#ifndef PLAN_WEIGHTS_H
#define PLAN_WEIGHTS_H

#include "blocks.h"
#include "plan_fit.h"

// Whether input k of the node is one that may be a weight: a constant, and the second operand of a
// convolution, or either one of another product.
bool weights_may_be(const struct graph *g, const struct node *node, int k);

// Sets narrow_operands of the nodes that are `product`, else their operands_reason, and the
// weights' operand. Formats of nodes are decided. Products without a weight are no longer
// `product`. A weight goes into blocks if it passes the policy's "weights", becomes smaller by it,
// and nothing but products that may read it so does read it. Errors: STATUS_MODEL, for a constant
// that cannot be read.
enum status weights_in_blocks(struct plan *p, const struct fits *fits, struct diag *d);

// The scales (log2) of a weight's blocks into scales[blocks_count(b)], from least to most as all
// carriers of the plan's ladder allow; 0 for a block of zeros. False if an element is not finite.
// Used by planner and rewrite, so that the plan need not list them.
bool weights_scales(const struct plan *p, const struct blocks *b, const float *x, int *scales);

// 2^sign*k of each.
void weights_factors(const int *scales, size_t n, int sign, float *factors);

#endif
