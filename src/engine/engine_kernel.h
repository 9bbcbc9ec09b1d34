// What the kernels of all custom operators need: a tensor that the engine passed in, the output
// that nobody reads, attributes. For engine_ops.c and engine_updates.c only.
#ifndef ENGINE_KERNEL_H
#define ENGINE_KERNEL_H

#include <onnxruntime_c_api.h>

#define ORT_TRY(expression)                                                                        \
  do {                                                                                             \
    OrtStatus *ort_try_status = (expression);                                                      \
    if (ort_try_status)                                                                            \
      return ort_try_status;                                                                       \
  } while (0)

// A tensor that the engine passed in.
struct view {
  ONNXTensorElementDataType type;
  size_t count, rank;
  int64_t dims[16];
  const void *data;
};

OrtStatus *kernel_view_input(const OrtApi *api, const OrtKernelContext *context, size_t index,
                             struct view *view);

// Writes the output that nobody reads.
OrtStatus *kernel_output_count(const OrtApi *api, OrtKernelContext *context, size_t count);

// An absent attribute leaves *value.
void kernel_attribute_int(const OrtApi *api, const OrtKernelInfo *info, const char *name,
                          int64_t *value);

// What all operators tell the engine alike. `version` says which members it may read: those of ONNX
// Runtime 1.17, for all versions.
extern const OrtCustomOp kernel_operator;

#endif
