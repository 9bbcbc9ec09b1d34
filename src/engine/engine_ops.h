// The kernels of the custom operators Observe, Round, Decode and Compare (see engine.h), for
// engine.c only.
#ifndef ENGINE_OPS_H
#define ENGINE_OPS_H

#include "engine.h"

#include <onnxruntime_c_api.h>

struct operators;

// Registers the operators in `options`, for one session, those of engine_updates.h too. `probe` may
// be NULL (a model with nodes of ours but Round then fails to load). `operators` must outlive the
// session; free it with operators_free also after an error, which is one of the engine's.
OrtStatus *operators_register(struct operators **operators, const OrtApi *api,
                              OrtSessionOptions *options, struct probe *probe);
void operators_free(struct operators *operators);

#endif
