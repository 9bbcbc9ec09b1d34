// Kernels of the custom operators. ONNX Runtime hands them its tensors in place, so that nothing
// has to become a graph output and nothing is kept. It takes operators of a domain that it does not
// know as not deterministic, hence never folds them, merges them, or removes them for want of a
// reader.
//
// A tensor is cut into pieces of a fixed size, which the engine's own threads take in any order;
// results of pieces are then merged in order, so that they are the same for any number of threads.
#include "engine_ops.h"

#include "arena.h"
#include "engine_kernel.h"
#include "engine_updates.h"
#include "onnx.pb-c.h"
#include "round.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PIECE = 1 << 16,  // elements: large against the cost of handing one out, small against a cache
  ROUND = 64,       // pieces between two merges, which bounds the memory for their results
  CONVERTED = 2048  // elements converted to float at a time
};

// One of the three operators here. The engine knows it by `base`, which is what it passes to
// callbacks.
struct custom_op {
  OrtCustomOp base;
  struct operators *owner;
};

struct operators {
  const OrtApi *api;
  struct probe *probe;
  struct custom_op observe, round, round_shaped, decode, compare;
  struct update_operators *updates;
  OrtCustomOpDomain *domain;
  unsigned unknown_dims;  // that RoundShaped has given a name
  // Results of pieces. One set is enough: a session runs one node after the other.
  struct stats_piece stats_pieces[ROUND];
  struct compare_piece compare_pieces[ROUND];
};

// One node of the model.
struct kernel {
  struct operators *owner;
  size_t id;               // Observe, Compare
  struct round_mode mode;  // Round
  int scale_log2;          // Compare
};

static OrtStatus *view_fill(const OrtApi *api, struct view *view,
                            const OrtTensorTypeAndShapeInfo *info) {
  ORT_TRY(api->GetTensorElementType(info, &view->type));
  ORT_TRY(api->GetTensorShapeElementCount(info, &view->count));
  ORT_TRY(api->GetDimensionsCount(info, &view->rank));
  if (view->rank > sizeof view->dims / sizeof view->dims[0])
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "a tensor has more than 16 dimensions");
  return api->GetDimensions(info, view->dims, view->rank);
}

OrtStatus *kernel_view_input(const OrtApi *api, const OrtKernelContext *context, size_t index,
                             struct view *view) {
  const OrtValue *value = NULL;
  ORT_TRY(api->KernelContext_GetInput(context, index, &value));
  OrtTensorTypeAndShapeInfo *info = NULL;
  ORT_TRY(api->GetTensorTypeAndShape(value, &info));
  OrtStatus *status = view_fill(api, view, info);
  api->ReleaseTensorTypeAndShapeInfo(info);
  if (status)
    return status;
  void *data = NULL;
  ORT_TRY(api->GetTensorMutableData((OrtValue *)value, &data));  // there is no const form of it
  view->data = data;
  return NULL;
}

static OrtStatus *output(const OrtApi *api, OrtKernelContext *context, const int64_t *dims,
                         size_t rank, void **data) {
  OrtValue *value = NULL;
  ORT_TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &value));
  return api->GetTensorMutableData(value, data);
}

OrtStatus *kernel_output_count(const OrtApi *api, OrtKernelContext *context, size_t count) {
  int64_t one = 1, result = (int64_t)count;
  void *data = NULL;
  ORT_TRY(output(api, context, &one, 1, &data));
  memcpy(data, &result, sizeof result);
  return NULL;
}

static size_t piece_count(size_t n) {
  return n / PIECE + (n % PIECE != 0);
}

static size_t piece_size(size_t n, size_t piece) {
  return n - piece * PIECE < PIECE ? n - piece * PIECE : PIECE;
}

// Calls work(task, k) for k in [0, n), on the engine's threads if that is worth it.
static OrtStatus *in_parallel(const OrtApi *api, const OrtKernelContext *context,
                              void (*work)(void *, size_t), size_t n, void *task) {
  if (n > 1)
    return api->KernelContext_ParallelFor(context, work, n, 0, task);
  if (n == 1)
    work(task, 0);
  return NULL;
}

static void note_place(const struct operators *o, size_t id) {
  if (o->probe->recorder)
    recorder_place(o->probe->recorder, &o->probe->places[id]);
}

// ---- Observe ----

struct observe_task {
  struct stats_piece *pieces;
  struct view x;
  size_t first;  // piece of this round
  size_t stride;
};

// Elements [start, start + n) of x as float. A double beyond float's range becomes infinity, and a
// tiny one zero.
static void convert(const struct view *x, size_t start, float *y, size_t n) {
  if (x->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) {
    const double *from = (const double *)x->data + start;
    for (size_t i = 0; i < n; i++)
      y[i] = (float)from[i];
    return;
  }
  const struct format *f = format_from_onnx((int)x->type);
  round_decode_array(f, (const uint16_t *)x->data + start, y, n);
}

static void observe_piece(void *context, size_t k) {
  const struct observe_task *task = context;
  struct stats_piece *piece = &task->pieces[k];
  size_t start = (task->first + k) * PIECE, n = piece_size(task->x.count, task->first + k);
  // The sample is that of the whole tensor: elements 0, stride, 2 * stride ...
  size_t phase = (task->stride - start % task->stride) % task->stride;
  memset(piece, 0, sizeof *piece);
  if (task->x.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    stats_observe(piece, (const float *)task->x.data + start, n, task->stride, phase);
    return;
  }
  float converted[CONVERTED];
  for (size_t i = 0; i < n; i += CONVERTED) {
    size_t size = n - i < CONVERTED ? n - i : CONVERTED;
    convert(&task->x, start + i, converted, size);
    stats_observe(piece, converted, size, task->stride, phase);
    size_t beyond = phase < size ? (size - phase - 1) / task->stride + 1 : 0;
    phase = phase + beyond * task->stride - size;
  }
}

static bool is_observable(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ||
         type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
         type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
         type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}

static OrtStatus *observe_compute(void *state, OrtKernelContext *context) {
  const struct kernel *kernel = state;
  struct operators *o = kernel->owner;
  const OrtApi *api = o->api;
  struct observe_task task = {.pieces = o->stats_pieces};
  ORT_TRY(kernel_view_input(api, context, 0, &task.x));
  if (!is_observable(task.x.type))
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "Observe takes floating-point tensors only");
  task.stride = stats_stride(task.x.count, o->probe->sample);

  struct stats_piece total, *run = &total;
  size_t pieces = piece_count(task.x.count);
  if (pieces == 1)
    run = &o->stats_pieces[0];  // most tensors: nothing to merge
  else
    memset(&total, 0, sizeof total);
  for (; task.first < pieces; task.first += ROUND) {
    size_t n = pieces - task.first < ROUND ? pieces - task.first : ROUND;
    ORT_TRY(in_parallel(api, context, observe_piece, n, &task));
    for (size_t k = 0; k < n && run == &total; k++)
      stats_add_piece(&total, &o->stats_pieces[k]);
  }
  struct stats *s = &o->probe->observed[kernel->id];
  if (s->runs == 0 && task.x.rank <= STATS_DIMS) {
    s->has_shape = true;
    s->rank = (int)task.x.rank;
    memcpy(s->dims, task.x.dims, task.x.rank * sizeof *s->dims);
  }
  stats_merge_piece(s, run);
  stats_end_run(s, run, o->probe->window, o->probe->step);
  note_place(o, kernel->id);
  return kernel_output_count(api, context, task.x.count);
}

// ---- Round ----

struct round_task {
  const struct round_mode *mode;
  const float *x;
  float *y;
  size_t count;
};

static void round_piece(void *context, size_t k) {
  const struct round_task *task = context;
  size_t start = k * PIECE;
  round_array(task->mode, task->x + start, task->y + start, piece_size(task->count, k));
}

static OrtStatus *round_compute(void *state, OrtKernelContext *context) {
  const struct kernel *kernel = state;
  const OrtApi *api = kernel->owner->api;
  struct view x;
  void *y = NULL;
  ORT_TRY(kernel_view_input(api, context, 0, &x));
  ORT_TRY(output(api, context, x.dims, x.rank, &y));
  struct round_task task = {&kernel->mode, x.data, y, x.count};
  return in_parallel(api, context, round_piece, piece_count(x.count), &task);
}

// ---- Decode ----

struct decode_task {
  const struct format *format;
  const uint8_t *codes;
  float *y;
  size_t count;
};

static void decode_piece(void *context, size_t k) {
  const struct decode_task *task = context;
  size_t start = k * PIECE, width = (size_t)task->format->stored_bits / 8;
  round_decode_array(task->format, task->codes + start * width, task->y + start,
                     piece_size(task->count, k));
}

static OrtStatus *decode_compute(void *state, OrtKernelContext *context) {
  const struct kernel *kernel = state;
  const OrtApi *api = kernel->owner->api;
  struct view x;
  void *y = NULL;
  ORT_TRY(kernel_view_input(api, context, 0, &x));
  const struct format *format = format_from_onnx((int)x.type);
  if (!format)
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "Decode takes floating-point tensors only");
  ORT_TRY(output(api, context, x.dims, x.rank, &y));
  struct decode_task task = {format, x.data, y, x.count};
  return in_parallel(api, context, decode_piece, piece_count(x.count), &task);
}

// ---- Compare ----

struct compare_task {
  struct compare_piece *pieces;
  const float *reference, *narrow;
  size_t count, first;
  int scale_log2;
};

// The same for what is stored times 2^scale_log2.
static void compare_scaled(struct compare_piece *piece, const float *reference, const float *narrow,
                           size_t n, int scale_log2) {
  enum { BLOCK = 1024 };
  float block[BLOCK], factor = ldexpf(1, -scale_log2);
  for (size_t at = 0; at < n; at += BLOCK) {
    size_t count = n - at < BLOCK ? n - at : BLOCK;
    for (size_t i = 0; i < count; i++)
      block[i] = narrow[at + i] * factor;
    compare_pairs(piece, reference + at, block, count);
  }
}

static void compare_piece_of(void *context, size_t k) {
  const struct compare_task *task = context;
  size_t start = (task->first + k) * PIECE, n = piece_size(task->count, task->first + k);
  task->pieces[k] = (struct compare_piece){0};
  if (task->scale_log2)
    compare_scaled(&task->pieces[k], task->reference + start, task->narrow + start, n,
                   task->scale_log2);
  else
    compare_pairs(&task->pieces[k], task->reference + start, task->narrow + start, n);
}

static OrtStatus *compare_compute(void *state, OrtKernelContext *context) {
  const struct kernel *kernel = state;
  struct operators *o = kernel->owner;
  const OrtApi *api = o->api;
  struct view reference, narrow;
  ORT_TRY(kernel_view_input(api, context, 0, &reference));
  ORT_TRY(kernel_view_input(api, context, 1, &narrow));
  struct compare *c = &o->probe->compared[kernel->id];
  if (reference.count != narrow.count) {
    c->mismatched++;
    return kernel_output_count(api, context, 0);
  }
  struct compare_task task = {.pieces = o->compare_pieces,
                              .reference = reference.data,
                              .narrow = narrow.data,
                              .count = reference.count,
                              .scale_log2 = kernel->scale_log2};
  struct compare_piece total = {0};
  size_t pieces = piece_count(task.count);
  for (; task.first < pieces; task.first += ROUND) {
    size_t n = pieces - task.first < ROUND ? pieces - task.first : ROUND;
    ORT_TRY(in_parallel(api, context, compare_piece_of, n, &task));
    for (size_t k = 0; k < n; k++)
      compare_merge_piece(&total, &o->compare_pieces[k]);
  }
  compare_end_run(c, &total, o->probe->step);
  note_place(o, kernel->id);
  return kernel_output_count(api, context, task.count);
}

// ---- Kernels' making: attributes ----

void kernel_attribute_int(const OrtApi *api, const OrtKernelInfo *info, const char *name,
                          int64_t *value) {
  OrtStatus *status = api->KernelInfoGetAttribute_int64(info, name, value);
  if (status)
    api->ReleaseStatus(status);
}

static OrtStatus *kernel_create(const OrtCustomOp *base, void **kernel) {
  struct kernel *made = calloc(1, sizeof *made);
  if (!made)
    out_of_memory(sizeof *made);
  made->owner = ((const struct custom_op *)(const void *)base)->owner;
  *kernel = made;
  return NULL;
}

static OrtStatus *create_with_id(const OrtCustomOp *base, const OrtKernelInfo *info, size_t limit,
                                 void **kernel) {
  const OrtApi *api = ((const struct custom_op *)(const void *)base)->owner->api;
  int64_t id = -1;
  kernel_attribute_int(api, info, "id", &id);
  if (id < 0 || (uint64_t)id >= limit)
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "attribute id is missing or out of range");
  ORT_TRY(kernel_create(base, kernel));
  ((struct kernel *)*kernel)->id = (size_t)id;
  return NULL;
}

static OrtStatus *observe_create(const OrtCustomOp *base, const OrtApi *api,
                                 const OrtKernelInfo *info, void **kernel) {
  (void)api;
  const struct probe *probe = ((const struct custom_op *)(const void *)base)->owner->probe;
  return create_with_id(base, info, probe ? probe->n_observed : 0, kernel);
}

static OrtStatus *compare_create(const OrtCustomOp *base, const OrtApi *api,
                                 const OrtKernelInfo *info, void **kernel) {
  (void)api;
  const struct operators *owner = ((const struct custom_op *)(const void *)base)->owner;
  int64_t scale = 0;
  kernel_attribute_int(owner->api, info, "scale", &scale);
  if (scale < -126 || scale > 126)
    return owner->api->CreateStatus(ORT_INVALID_ARGUMENT, "attribute scale is not in -126 .. 126");
  ORT_TRY(create_with_id(base, info, owner->probe ? owner->probe->n_compared : 0, kernel));
  ((struct kernel *)*kernel)->scale_log2 = (int)scale;
  return NULL;
}

static OrtStatus *round_create(const OrtCustomOp *base, const OrtApi *api,
                               const OrtKernelInfo *info, void **kernel) {
  (void)api;  // the newest one of the library; ours may be older
  const OrtApi *ours = ((const struct custom_op *)(const void *)base)->owner->api;
  char name[32];
  size_t size = sizeof name;
  ORT_TRY(ours->KernelInfoGetAttribute_string(info, "format", name, &size));
  const struct format *format = format_find(name);
  if (!format)
    return ours->CreateStatus(ORT_INVALID_ARGUMENT, "attribute format names no number format");
  int64_t scale = 0, saturate = 0, ftz = 0;
  kernel_attribute_int(ours, info, "scale", &scale);
  kernel_attribute_int(ours, info, "saturate", &saturate);
  kernel_attribute_int(ours, info, "ftz", &ftz);
  if (scale < -126 || scale > 126)
    return ours->CreateStatus(ORT_INVALID_ARGUMENT, "attribute scale is not in -126 .. 126");
  ORT_TRY(kernel_create(base, kernel));
  ((struct kernel *)*kernel)->mode = (struct round_mode){
      .format = format, .saturate = saturate != 0, .ftz = ftz != 0, .scale_log2 = (int)scale};
  return NULL;
}

// The shape of what is rounded. A dimension without size and name gets a name, for one that has
// neither cannot be told; of rank 0 is also what has no shape at all.
static OrtStatus *set_shape(struct operators *o, OrtShapeInferContext *context,
                            const OrtTensorTypeAndShapeInfo *from, OrtTensorTypeAndShapeInfo *to) {
  enum { RANKS = 16, NAME = 32 };
  size_t rank;
  int64_t dims[RANKS];
  const char *names[RANKS];
  char made[RANKS][NAME];
  ORT_TRY(o->api->GetDimensionsCount(from, &rank));
  if (rank == 0 || rank > RANKS)
    return NULL;
  ORT_TRY(o->api->GetDimensions(from, dims, rank));
  ORT_TRY(o->api->GetSymbolicDimensions(from, names, rank));
  for (size_t i = 0; i < rank; i++)
    if (dims[i] < 0 && !names[i][0]) {
      snprintf(made[i], NAME, "narrowcast_%u", o->unknown_dims++);
      names[i] = made[i];
    }
  ORT_TRY(o->api->SetTensorElementType(to, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  ORT_TRY(o->api->SetDimensions(to, dims, rank));
  ORT_TRY(o->api->SetSymbolicDimensions(to, names, rank));
  return o->api->ShapeInferContext_SetOutputTypeShape(context, 0, to);
}

static OrtStatus *round_infer_shape(const OrtCustomOp *base, OrtShapeInferContext *context) {
  struct operators *o = ((const struct custom_op *)(const void *)base)->owner;
  OrtTensorTypeAndShapeInfo *from, *to;
  ORT_TRY(o->api->ShapeInferContext_GetInputTypeShape(context, 0, &from));
  ORT_TRY(o->api->CreateTensorTypeAndShapeInfo(&to));
  OrtStatus *status = set_shape(o, context, from, to);
  o->api->ReleaseTensorTypeAndShapeInfo(to);
  return status;
}

static OrtStatus *decode_create(const OrtCustomOp *base, const OrtApi *api,
                                const OrtKernelInfo *info, void **kernel) {
  (void)api, (void)info;
  return kernel_create(base, kernel);
}

static void kernel_destroy(void *kernel) {
  free(kernel);
}

// ---- What the engine asks about the operators ----

static const char *observe_name(const OrtCustomOp *op) {
  (void)op;
  return "Observe";
}

static const char *round_shaped_name(const OrtCustomOp *op) {
  (void)op;
  return "RoundShaped";
}

static const char *round_name(const OrtCustomOp *op) {
  (void)op;
  return "Round";
}

static const char *decode_name(const OrtCustomOp *op) {
  (void)op;
  return "Decode";
}

static const char *compare_name(const OrtCustomOp *op) {
  (void)op;
  return "Compare";
}

static const char *no_provider(const OrtCustomOp *op) {
  (void)op;
  return NULL;  // the CPU's
}

static ONNXTensorElementDataType type_any(const OrtCustomOp *op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

static ONNXTensorElementDataType type_float(const OrtCustomOp *op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

static ONNXTensorElementDataType type_int64(const OrtCustomOp *op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
}

static size_t one(const OrtCustomOp *op) {
  (void)op;
  return 1;
}

static size_t two(const OrtCustomOp *op) {
  (void)op;
  return 2;
}

static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp *op, size_t index) {
  (void)op, (void)index;
  return INPUT_OUTPUT_REQUIRED;
}

static OrtMemType default_memory(const OrtCustomOp *op, size_t index) {
  (void)op, (void)index;
  return OrtMemTypeDefault;
}

static int version_one(const OrtCustomOp *op) {
  (void)op;
  return 1;
}

static int version_last(const OrtCustomOp *op) {
  (void)op;
  return INT32_MAX;
}

const OrtCustomOp kernel_operator = {
    .version = 17,
    .GetExecutionProviderType = no_provider,
    .GetInputTypeCount = one,
    .GetOutputTypeCount = one,
    .GetInputCharacteristic = required,
    .GetOutputCharacteristic = required,
    .GetInputMemoryType = default_memory,
    .KernelDestroy = kernel_destroy,
    .GetStartVersion = version_one,
    .GetEndVersion = version_last,
};

static void operators_fill(struct operators *o) {
  o->observe = (struct custom_op){kernel_operator, o};
  o->observe.base.GetName = observe_name;
  o->observe.base.GetInputType = type_any;
  o->observe.base.GetOutputType = type_int64;
  o->observe.base.CreateKernelV2 = observe_create;
  o->observe.base.KernelComputeV2 = observe_compute;

  o->round = (struct custom_op){kernel_operator, o};
  o->round.base.GetName = round_name;
  o->round.base.GetInputType = type_float;
  o->round.base.GetOutputType = type_float;
  o->round.base.CreateKernelV2 = round_create;
  o->round.base.KernelComputeV2 = round_compute;

  o->round_shaped = o->round;
  o->round_shaped.base.GetName = round_shaped_name;
  o->round_shaped.base.InferOutputShapeFn = round_infer_shape;

  o->decode = (struct custom_op){kernel_operator, o};
  o->decode.base.GetName = decode_name;
  o->decode.base.GetInputType = type_any;
  o->decode.base.GetOutputType = type_float;
  o->decode.base.CreateKernelV2 = decode_create;
  o->decode.base.KernelComputeV2 = decode_compute;

  o->compare = (struct custom_op){kernel_operator, o};
  o->compare.base.GetName = compare_name;
  o->compare.base.GetInputType = type_float;
  o->compare.base.GetInputTypeCount = two;
  o->compare.base.GetOutputType = type_int64;
  o->compare.base.CreateKernelV2 = compare_create;
  o->compare.base.KernelComputeV2 = compare_compute;
}

OrtStatus *operators_register(struct operators **operators, const OrtApi *api,
                              OrtSessionOptions *options, struct probe *probe) {
  struct operators *o = calloc(1, sizeof *o);
  if (!o)
    out_of_memory(sizeof *o);
  *operators = o;
  o->api = api;
  o->probe = probe;
  operators_fill(o);
  ORT_TRY(api->CreateCustomOpDomain("narrowcast", &o->domain));
  ORT_TRY(api->CustomOpDomain_Add(o->domain, &o->observe.base));
  ORT_TRY(api->CustomOpDomain_Add(o->domain, &o->round.base));
  ORT_TRY(api->CustomOpDomain_Add(o->domain, &o->round_shaped.base));
  ORT_TRY(api->CustomOpDomain_Add(o->domain, &o->decode.base));
  ORT_TRY(api->CustomOpDomain_Add(o->domain, &o->compare.base));
  ORT_TRY(update_operators_add(&o->updates, api, o->domain, probe));
  return api->AddCustomOpDomain(options, o->domain);
}

void operators_free(struct operators *operators) {
  if (!operators)
    return;
  if (operators->domain)
    operators->api->ReleaseCustomOpDomain(operators->domain);
  update_operators_free(operators->updates);
  free(operators);
}
