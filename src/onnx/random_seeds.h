// Seeds for the operators of ai.onnx that draw random numbers. Without one, an engine draws anew in
// each session: two runs of a model differ by more than its rounding, and are not the same twice.
#ifndef RANDOM_SEEDS_H
#define RANDOM_SEEDS_H

#include "graph.h"

// How many nodes of g draw: generators, Bernoulli, Multinomial, and each Dropout that may be in
// training (its third input is there, and is not a constant false). *unseeded of them have no seed
// of their own.
int random_draws(const struct graph *g, int *unseeded);

// Gives a seed to each node that draws and has none, in `copy`, which is a clone of g's model for a
// session. The seed follows from the node's place among those that draw, bodies with the node that
// holds them, functions at last: a model gets the seeds of the one that it was rewritten from,
// since rewriting keeps that order. Calls of one function share its seeds, and so draw alike.
//
// ONNX Runtime's generators belong to nodes of a session, and go on from run to run: sessions draw
// the same for the same samples in the same order. What they draw as fp16 is what they draw as
// fp32, rounded.
void random_seeds_give(const struct graph *g, struct model *copy, struct arena *a);

#endif
