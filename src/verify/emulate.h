// Carries a model's narrow float types as fp32: every float16 and bfloat16 tensor becomes float,
// and a Round follows every value that is stored narrow, so that an engine without kernels for
// these types computes what one with fp32 accumulation and these types would. Used by trace (for
// models that hold narrow types already) and by verify.
//
// Not emulated: what an operator does inside. Its arithmetic is fp32 and only its results are
// rounded, as on accelerators whose matrix units accumulate in fp32.
#ifndef EMULATE_H
#define EMULATE_H

#include "format.h"
#include "graph.h"
#include "samples.h"

// True if some tensor of the model is float16 or bfloat16.
bool emulate_needed(const struct graph *g);

// Changes m in place; build the graph's index again afterwards. A model without narrow types is
// left as it is. Names stay: a value keeps its name for what it holds after rounding. Errors:
// STATUS_MODEL for what cannot be carried (an operator that does not take fp32), naming the node.
enum status emulate_model(struct model *m, struct graph *g, bool ftz, struct arena *a,
                          struct diag *d);

// Puts a Round to format f in front of the two operands of every matrix product (is_product) that
// reads them as fp32. Changes m in place, as emulate_model; it is called after it.
void emulate_operands(struct model *m, struct graph *g, enum format_id f, struct arena *a);

// Whether the engine must be told the shapes of what is rounded: it refuses a Scan whose body's
// outputs have none, declared or inferred, and infers none behind an operator that is not its own.
bool emulate_wants_shapes(const struct graph *g);

// A node of domain "narrowcast" that rounds `input` to `format` and gives `output`, in the arena;
// `shaped`: and tells the engine its shape.
Onnx__NodeProto *emulate_new_round(struct arena *a, const char *input, const char *output,
                                   enum format_id format, bool ftz, bool shaped);

// Makes the float16 and bfloat16 arrays of the sample float, in the sample's arena.
void emulate_sample(struct sample *s);

#endif
