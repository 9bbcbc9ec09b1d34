// Custom operators that watch update sites, in place and on a sample, and fill probe->updates[id]
// (attribute id). All take float tensors, give one int64 that nobody reads, and take no part in the
// model; see engine.h for where they belong in a graph.
//
//   Update(x, y)           the operands of an addition, of which the larger is the accumulator;
//                          broadcast as there. With attribute onto: y is a constant, and x always
//                          the update
//   Change(before, after)  two states of one value; nothing is counted if their sizes differ
//   Steps(y)               attribute axis (default 0): consecutive slices along it are states
//   Accumulate(x)          sums of the elements of x over attribute axes (ints; negative count from
//                          the end), or over all from first_axis on (default: all axes); reverse: 1
//                          if the last comes first; transform: enum gather_transform, applied to
//                          the terms. With kernel_shape, those of an average pool (and strides,
//                          dilations, pads, auto_pad as enum gather_auto_pad)
//   Dot(a, b)              sums of the products of MatMul and Gemm (attributes transA, transB), or
//                          with kernel_shape (any value) of Conv (and group)
//
// Of pairs about probe->update_sample a run are looked at, at other places in each run; sums until
// their terms are that many, at least one sum, and of a sum at most its first 16384 terms.
// Operands that do not fit together are left alone: the operator watched will say so itself.
#ifndef ENGINE_UPDATES_H
#define ENGINE_UPDATES_H

#include "engine.h"

#include <onnxruntime_c_api.h>

struct update_operators;

// Adds them to `domain`, for one session; as operators_register (engine_ops.h).
OrtStatus *update_operators_add(struct update_operators **operators, const OrtApi *api,
                                OrtCustomOpDomain *domain, struct probe *probe);
void update_operators_free(struct update_operators *operators);

#endif
