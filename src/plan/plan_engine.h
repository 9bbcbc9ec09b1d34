// Known faults of engines that a plan, or a run, steers around: patterns that are valid ONNX but
// that an engine in wide use crashes on, or refuses, when they are narrow. Part of the planner.
// Each entry in plan_engine.c says where it was seen and how to tell that it is gone.
#ifndef PLAN_ENGINE_H
#define PLAN_ENGINE_H

#include "plan.h"
#include "plan_pattern.h"

// True if node n must stay fp32 because an engine fails on it narrow.
bool plan_engine_fault(const struct graph *g, int n);

// The same for what stands in front of a pattern that stays fp32, by node; the nodes have their
// classes.
void plan_engine_faults_before(const struct graph *g, const struct patterns *p,
                               const struct node_plan *nodes, bool *before);

// A node of which an engine gives other results each time it runs on more than one thread, or -1.
int plan_engine_race(const struct graph *g);

#endif
