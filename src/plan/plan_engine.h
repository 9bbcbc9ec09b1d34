// Known faults of engines that a plan steers around: patterns that are valid ONNX but that an
// engine in wide use crashes on, or refuses, when they are narrow. Part of the planner. Each entry
// in plan_engine.c says where it was seen and how to tell that it is gone.
#ifndef PLAN_ENGINE_H
#define PLAN_ENGINE_H

#include "graph.h"

// True if node n must stay fp32 because an engine fails on it narrow.
bool plan_engine_fault(const struct graph *g, int n);

#endif
