// What a training in the plan's first format takes, from the steps of it that the trace has seen:
// which loss scale its gradients allow, and how many bytes its state is. Part of the planner;
// advice for people: nothing in the emitted model depends on it.
#ifndef PLAN_TRAINING_H
#define PLAN_TRAINING_H

#include "plan.h"

// Sets p->training if the trace has seen updates of weights and the policy has a section for it.
// p->weights must be judged. Gradients are found where the graph computes the updated weight as
// w - a * g, a being a constant, an input or one number that is computed.
void training_advise(struct plan *p, struct graph *g, const struct trace *t,
                     const struct policy *policy, struct arena *a);

// Bytes of n parameters' state: weights and gradients in f, `moments` more values of an optimizer
// in fp32 (2: Adam), and a master copy in fp32 if it is kept.
double training_bytes(double n, enum format_id f, bool master_copy, int moments);

#endif
