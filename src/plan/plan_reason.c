// The names and sentences of the reasons for which something stays wide.
#include "plan.h"

#include <string.h>

// identifier in the plan file, sentence for people
static const struct {
  const char *name, *text;
} reasons[REASON_COUNT] = {
    [REASON_NONE] = {"none", "nothing stands against it"},
    [REASON_CLASS] = {"class", "the policy's rule keeps this operator in fp32"},
    [REASON_NOT_FLOAT] = {"not_float", "has no fp32 tensor"},
    [REASON_OVERFLOW] = {"overflow", "a value leaves the format's range"},
    [REASON_ZERO] = {"zero", "too many values become zero"},
    [REASON_SUBNORMAL] = {"subnormal", "too many values become subnormal"},
    [REASON_CONSTANT] = {"constant", "a constant does not survive in the format"},
    [REASON_NOT_SEEN] = {"not_seen", "a value was not seen in the calibration trace"},
    [REASON_SCHEMA] = {"schema", "the operator does not take the format at this opset"},
    [REASON_UNKNOWN_OP] = {"unknown_op", "the operator is not in the table"},
    [REASON_SHAPE_MATH] = {"shape_math", "computes shapes"},
    [REASON_NO_NEIGHBOUR] = {"no_neighbour", "nothing next to it runs narrow"},
    [REASON_BOUNDARY] = {"boundary", "its Casts would cost more than it saves"},
    [REASON_NONFINITE] = {"nonfinite", "a value is NaN in the fp32 model already"},
    [REASON_RESOLUTION] = {"resolution", "the step is too coarse for integers or angles"},
    [REASON_CONTAINER] = {"container", "makes or takes a sequence, optional or map"},
    [REASON_CONVERTED] = {"converted", "the model is a result of narrowcast already"},
    [REASON_PROMOTED] = {"promoted", "was promoted, since a claim did not hold with it narrow"},
    [REASON_QUANTISED] = {"quantised", "is part of a quantised island, which is left alone"},
    [REASON_ENGINE] = {"engine", "ONNX Runtime fails on this pattern if it is narrow"},
    [REASON_PATTERN] = {"pattern", "part of a pattern that stays in fp32 as a whole"},
    [REASON_STEP] = {"step", "updates of a value are smaller than a step of the format"},
    [REASON_UNSTABLE] = {"unstable", "windows disagree on the scale that a value needs"},
    [REASON_OVERRIDE] = {"override", "a person decided so: see the note of the override"},
    [REASON_KEPT] = {"kept", "--keep leaves it as it is"},
    [REASON_EDITED] = {"edited", "edited by hand in the plan"},
    [REASON_NOISE] = {"noise", "rounding would leave too little of a weight"},
    [REASON_SHARED] = {"shared", "others read the weight too, and need it as it is"},
    [REASON_NOT_SMALLER] = {"not_smaller",
                            "with the scales of its blocks a weight would be no smaller"},
    [REASON_SCORES] = {"scores", "scores of this attention may leave the format's range"},
    [REASON_BITS] = {"bits", "sees the bits of a value, which are others in another format"},
    [REASON_CALL] = {"call", "calls a local function: the nodes of its body are planned"},
    [REASON_UNUSED] = {"unused", "nothing that the model gives out depends on it"},
    [REASON_POLYMORPHIC] = {"polymorphic",
                            "its function is called with different types or without a value"},
};

const char *reason_name(enum reason r) {
  return reasons[r].name;
}

const char *reason_text(enum reason r) {
  return reasons[r].text;
}

bool plan_decides(const struct node_plan *node) {
  return node->reason != REASON_NOT_FLOAT && node->reason != REASON_CALL;
}

bool reason_find(const char *name, enum reason *out) {
  for (int k = 0; k < REASON_COUNT; k++)
    if (strcmp(reasons[k].name, name) == 0) {
      *out = (enum reason)k;
      return true;
    }
  return false;
}
