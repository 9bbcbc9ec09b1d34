// Operands of matrix products in a format of their own, of 8 bits: which products read theirs so,
// and with which scales. Part of the planner.
//
// A node keeps the format that it runs in; in front of it a value goes through a QuantizeLinear and
// a DequantizeLinear, a weight through the latter alone. A value has one scale, a power of two, for
// all its readers (a factor of two of range is lost at most, and no digit). Sources: ONNX
// QuantizeLinear (opset 19); Micikevicius et al., "FP8 Formats for Deep Learning", 2022.
#ifndef PLAN_QUANTISE_H
#define PLAN_QUANTISE_H

#include "plan_cost.h"
#include "plan_fit.h"

// A product of two operands, inputs 0 and 1: MatMul, Gemm, a convolution.
bool is_product(const struct node *node);
bool product_operand(const struct node *node, int k);  // is input k an operand of such a one?

// Sets narrow_operands of the nodes that are `product`, else their operands_reason, and the
// values' operand. Formats of nodes are decided. A product takes narrow operands if both pass the
// tests of the policy's "operands" and the target gains by it: QuantizeLinears, shared by a value's
// readers, count as Casts do. Of all choices the one of least modelled time (exact, by a minimum
// cut); ties go to the wider format. Errors: STATUS_MODEL, for a constant that cannot be read.
enum status quantise_operands(struct plan *p, const struct costs *c, const struct fits *fits,
                              struct diag *d);

// The range of scales (log2) whose inverse is a normal number of every format of the ladder that a
// QuantizeLinear may have it in.
void quantise_scale_range(const struct plan *p, int *least, int *most);

// Whether y_scale is a normal number at both ends of the pair for operand k of product n, which is
// coded times 2^scale_log2: the value may itself be stored, and read by the product, at a scale.
bool quantise_scale_exact(const struct graph *g, const struct plan *p, int n, int k,
                          int scale_log2);

// Whether what operand k of product n becomes in 8 or 4 bits is finite in the format that the
// product runs in: rounding may take the largest values up and beyond it.
bool quantise_stays_finite(const struct plan *p, int n, int k, const struct operand_plan *o);

// True if QuantizeLinear and DequantizeLinear take the format at the opset of that scope; for a
// format of weights alone, the latter.
bool quantise_available(const struct graph *g, int scope, enum format_id f);

#endif
