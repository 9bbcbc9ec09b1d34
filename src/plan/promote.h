// Promotion: when a claim does not hold, finds the tensors that cause it from the per-tensor errors
// that verify measured, and lets each take one rung of the ladder less narrow. Then the plan is
// made again. One verify run per round, never one per node.
#ifndef PROMOTE_H
#define PROMOTE_H

#include "plan.h"
#include "verify.h"

// Chooses the tensors of round `round` (from 1) and raises their rungs in `into`; adds them to its
// log. A tensor is chosen if it became non-finite first, or if the error that its own node
// introduced is at least 2^-round of the largest such error; only ancestors of an output whose
// claim failed count. If such a tensor is not narrow itself, its nearest narrow ancestors are
// chosen (a comparison flips because of what it compares). False if nothing is left to promote.
// `errors`, by value, may come from other samples than `v`, whose failed claims count. Values that
// follow from a decision (a comparison, a selection of boxes) are passed over: their errors are
// flips, which some sample shows at any precision.
bool promote_choose(struct promotions *into, struct graph *g, const struct plan *p,
                    const struct verdict *v, const struct compare *errors, int round,
                    struct arena *a);

// All narrow values that lead to an output whose claim failed, in the order in which they are
// computed, as one round: with the first of them in the widest format, no rounding is left that
// passes through the whole network. (A product that reads narrow operands reads them wide
// instead.)
struct promotions promote_all(struct graph *g, const struct plan *p, const struct verdict *v,
                              struct arena *a);

// The number of entries of the log before its last round.
size_t promote_before_last_round(const struct promotions *p);

// The first `count` entries of the log of `all` alone; those of one round of promote_choose stand
// in the order of their errors, largest first. `values` is the number of values.
struct promotions promote_first(const struct promotions *all, size_t count, size_t values,
                                struct arena *a);

#endif
