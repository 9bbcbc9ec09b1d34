// Kernels of the operators that watch update sites: which elements to look at; what they are is in
// gather.c, what is counted in updates.c. They are cheap beside the operator that they watch, so
// they run on the engine's calling thread.
#include "engine_updates.h"

#include "arena.h"
#include "engine_kernel.h"
#include "gather.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 16384 };  // of one sum

static_assert(GATHER_RANK == sizeof((struct view *)0)->dims / sizeof(int64_t), "views fit shapes");

struct update_kernel;

// One operator. The engine knows it by `base`, which is what it passes to callbacks.
struct update_operator {
  OrtCustomOp base;
  struct update_operators *owner;
  const char *name;
  size_t inputs;
  OrtStatus *(*compute)(struct update_kernel *kernel, const struct view *inputs,
                        struct updates_piece *run);
};

enum { OPERATORS = 5 };

struct update_operators {
  const OrtApi *api;
  struct probe *probe;
  struct update_operator operators[OPERATORS];
  double terms[TERMS];  // one buffer is enough: a session runs one node after the other
};

// One node of the model.
struct update_kernel {
  const struct update_operator *op;
  size_t id;
  int64_t axis, first_axis, transpose_a, transpose_b, reverse, transform, onto;
  int64_t axes[GATHER_RANK], kernel[GATHER_SPATIAL];
  size_t n_axes, n_kernel;
  struct gather_window_attributes window;
};

static const struct probe *probe_of(const struct update_kernel *k) {
  return k->op->owner->probe;
}

static struct gather_shape shape_of(const struct view *v) {
  struct gather_shape s = {.rank = v->rank};
  memcpy(s.dims, v->dims, v->rank * sizeof *s.dims);
  return s;
}

// An axis that may be negative; GATHER_RANK if there is none such.
static size_t axis_of(int64_t axis, size_t rank) {
  axis += axis < 0 ? (int64_t)rank : 0;
  return axis >= 0 && (uint64_t)axis < rank ? (size_t)axis : GATHER_RANK;
}

// ---- Pairs ----

// Which of n pairs are looked at: from `next`, every `stride`-th. The start moves with the runs.
struct pairs_sample {
  size_t next, stride, n;
};

static struct pairs_sample sample_pairs(const struct update_kernel *k, size_t n) {
  const struct probe *probe = probe_of(k);
  size_t stride = stats_stride(n, probe->update_sample);
  return (struct pairs_sample){probe->updates[k->id].runs % stride, stride, n};
}

static OrtStatus *update_compute(struct update_kernel *k, const struct view *in,
                                 struct updates_piece *run) {
  struct gather_shape x = shape_of(&in[0]), y = shape_of(&in[1]), out;
  if (!gather_broadcast(&out, &x, &y))
    return NULL;
  const float *a = in[0].data, *b = in[1].data;
  size_t n = gather_count(&out);
  bool same = in[0].count == n && in[1].count == n;
  for (struct pairs_sample s = sample_pairs(k, n); s.next < n; s.next += s.stride) {
    size_t i = same ? s.next : gather_broadcast_index(&out, &x, s.next);
    size_t j = same ? s.next : gather_broadcast_index(&out, &y, s.next);
    (k->onto ? updates_onto : updates_operands)(run, &a[i], &b[j], 1);
  }
  return NULL;
}

static OrtStatus *change_compute(struct update_kernel *k, const struct view *in,
                                 struct updates_piece *run) {
  if (in[0].count != in[1].count)
    return NULL;
  const float *before = in[0].data, *after = in[1].data;
  for (struct pairs_sample s = sample_pairs(k, in[0].count); s.next < s.n; s.next += s.stride)
    updates_change(run, &before[s.next], &after[s.next], 1);
  return NULL;
}

static OrtStatus *steps_compute(struct update_kernel *k, const struct view *in,
                                struct updates_piece *run) {
  size_t axis = axis_of(k->axis, in->rank), inner = 1;
  if (axis == GATHER_RANK || in->count == 0)
    return NULL;
  for (size_t i = axis + 1; i < in->rank; i++)
    inner *= (size_t)in->dims[i];
  size_t steps = (size_t)in->dims[axis] - 1, n = in->count / (steps + 1) * steps;
  const float *y = in->data;
  for (struct pairs_sample s = sample_pairs(k, n); s.next < n; s.next += s.stride) {
    size_t rest = s.next / inner, block = rest / steps;
    size_t at = (block * (steps + 1) + rest % steps) * inner + s.next % inner;
    updates_change(run, &y[at], &y[at + inner], 1);
  }
  return NULL;
}

// ---- Sums ----

// Gives the terms of output `index`, at most TERMS; returns their number.
typedef size_t gather_terms(const void *source, const struct view *in, size_t index, double *terms);

// Looks at outputs spread over all n, at other places in each run.
static void watch_sums(struct update_kernel *k, const struct view *in, size_t n,
                       gather_terms *gather, const void *source, struct updates_piece *run) {
  const struct probe *probe = probe_of(k);
  double *terms = k->op->owner->terms;
  size_t wanted = probe->update_sample, seen = 0, stride = 0, offset = 0;
  for (size_t i = 0; i < n && (i == 0 || !wanted || seen < wanted); i++) {
    if (i == 1) {  // now the terms of an output are known
      size_t outputs = wanted && seen ? wanted / seen : n;
      stride = outputs && outputs < n ? n / outputs : 1;
    }
    if (i == 0)  // a prime number apart, from the middle on: a corner is mostly padding
      offset = (n / 2 + probe->updates[k->id].runs % n * 7919) % n;
    size_t count = gather(source, in, (offset + i * stride) % n, terms);
    gather_apply((enum gather_transform)k->transform, terms, count);
    updates_terms(run, terms, count);
    seen += count ? count : 1;
  }
}

static size_t reduction_terms(const void *source, const struct view *in, size_t index,
                              double *terms) {
  return gather_reduction(source, in->data, index, terms, TERMS);
}

static size_t product_terms(const void *source, const struct view *in, size_t index,
                            double *terms) {
  return gather_product(source, in[0].data, in[1].data, index, terms, TERMS);
}

static size_t convolution_terms(const void *source, const struct view *in, size_t index,
                                double *terms) {
  return gather_window(source, in[0].data, in[1].data, index, terms, TERMS);
}

static size_t pool_terms(const void *source, const struct view *in, size_t index, double *terms) {
  return gather_window(source, in->data, NULL, index, terms, TERMS);
}

static void watch_pool(struct update_kernel *k, const struct view *in, struct updates_piece *run) {
  struct gather_shape x = shape_of(in), w = {.rank = 2 + k->n_kernel};
  struct gather_window window;
  struct gather_window_attributes attributes = k->window;
  if (x.rank != w.rank)
    return;
  w.dims[0] = attributes.group = x.dims[1];
  w.dims[1] = 1;
  memcpy(w.dims + 2, k->kernel, k->n_kernel * sizeof *k->kernel);
  if (gather_window_init(&window, &x, &w, &attributes))
    watch_sums(k, in, gather_window_outputs(&window), pool_terms, &window, run);
}

static OrtStatus *accumulate_compute(struct update_kernel *k, const struct view *in,
                                     struct updates_piece *run) {
  if (in->count == 0)
    return NULL;
  if (k->n_kernel) {
    watch_pool(k, in, run);
    return NULL;
  }
  struct gather_reduction r = {.shape = shape_of(in), .reverse = k->reverse != 0};
  size_t first = k->n_axes ? in->rank : axis_of(k->first_axis, in->rank);
  for (size_t i = first; i < in->rank; i++)
    r.reduced[i] = true;
  for (size_t i = 0; i < k->n_axes; i++) {
    size_t axis = axis_of(k->axes[i], in->rank);
    if (axis < in->rank)
      r.reduced[axis] = true;
  }
  watch_sums(k, in, gather_reduction_outputs(&r), reduction_terms, &r, run);
  return NULL;
}

static OrtStatus *dot_compute(struct update_kernel *k, const struct view *in,
                              struct updates_piece *run) {
  struct gather_shape a = shape_of(&in[0]), b = shape_of(&in[1]);
  if (in[0].count == 0 || in[1].count == 0)
    return NULL;
  if (k->n_kernel) {
    struct gather_window window;
    if (gather_window_init(&window, &a, &b, &k->window))
      watch_sums(k, in, gather_window_outputs(&window), convolution_terms, &window, run);
    return NULL;
  }
  struct gather_product product;
  if (gather_product_init(&product, &a, &b, k->transpose_a != 0, k->transpose_b != 0))
    watch_sums(k, in, gather_product_outputs(&product), product_terms, &product, run);
  return NULL;
}

static OrtStatus *compute(void *state, OrtKernelContext *context) {
  struct update_kernel *k = state;
  struct update_operators *o = k->op->owner;
  struct view in[2];
  for (size_t i = 0; i < k->op->inputs; i++)
    ORT_TRY(kernel_view_input(o->api, context, i, &in[i]));
  struct updates_piece run;
  memset(&run, 0, sizeof run);
  ORT_TRY(k->op->compute(k, in, &run));
  updates_end_run(&o->probe->updates[k->id], &run, o->probe->window);
  return kernel_output_count(o->api, context, run.pairs);
}

// ---- Kernels' making ----

// At most `limit` numbers; an absent attribute leaves them, and gives 0.
static size_t attribute_ints(const OrtApi *api, const OrtKernelInfo *info, const char *name,
                             int64_t *values, size_t limit) {
  int64_t read[2 * GATHER_RANK];
  size_t count = sizeof read / sizeof *read;
  OrtStatus *status = api->KernelInfoGetAttributeArray_int64(info, name, read, &count);
  if (status) {
    api->ReleaseStatus(status);
    return 0;
  }
  count = count < limit ? count : limit;
  memcpy(values, read, count * sizeof *values);
  return count;
}

static void read_window(struct update_kernel *k, const OrtApi *api, const OrtKernelInfo *info) {
  struct gather_window_attributes *w = &k->window;
  int64_t auto_pad = GATHER_NOTSET;
  w->group = 1;
  for (size_t i = 0; i < GATHER_SPATIAL; i++)
    w->strides[i] = w->dilations[i] = 1;
  k->n_kernel = attribute_ints(api, info, "kernel_shape", k->kernel, GATHER_SPATIAL);
  attribute_ints(api, info, "strides", w->strides, GATHER_SPATIAL);
  attribute_ints(api, info, "dilations", w->dilations, GATHER_SPATIAL);
  attribute_ints(api, info, "pads", w->pads, 2 * (size_t)GATHER_SPATIAL);
  kernel_attribute_int(api, info, "auto_pad", &auto_pad);
  kernel_attribute_int(api, info, "group", &w->group);
  w->auto_pad = (enum gather_auto_pad)(auto_pad & 3);
}

static OrtStatus *create(const OrtCustomOp *base, const OrtApi *newest, const OrtKernelInfo *info,
                         void **kernel) {
  (void)newest;  // of the library; ours may be older
  const struct update_operator *op = (const struct update_operator *)(const void *)base;
  const OrtApi *api = op->owner->api;
  const struct probe *probe = op->owner->probe;
  int64_t id = -1;
  kernel_attribute_int(api, info, "id", &id);
  if (id < 0 || !probe || (uint64_t)id >= probe->n_updates)
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "attribute id is missing or out of range");
  struct update_kernel *k = calloc(1, sizeof *k);
  if (!k)
    out_of_memory(sizeof *k);
  k->op = op;
  k->id = (size_t)id;
  kernel_attribute_int(api, info, "axis", &k->axis);
  kernel_attribute_int(api, info, "first_axis", &k->first_axis);
  kernel_attribute_int(api, info, "transA", &k->transpose_a);
  kernel_attribute_int(api, info, "transB", &k->transpose_b);
  kernel_attribute_int(api, info, "reverse", &k->reverse);
  kernel_attribute_int(api, info, "transform", &k->transform);
  kernel_attribute_int(api, info, "onto", &k->onto);
  k->n_axes = attribute_ints(api, info, "axes", k->axes, GATHER_RANK);
  read_window(k, api, info);
  *kernel = k;
  return NULL;
}

static void destroy(void *kernel) {
  free(kernel);
}

// ---- What the engine asks about the operators ----

static const char *name_of(const OrtCustomOp *base) {
  return ((const struct update_operator *)(const void *)base)->name;
}

static size_t input_count(const OrtCustomOp *base) {
  return ((const struct update_operator *)(const void *)base)->inputs;
}

static ONNXTensorElementDataType type_float(const OrtCustomOp *base, size_t index) {
  (void)base, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

static ONNXTensorElementDataType type_int64(const OrtCustomOp *base, size_t index) {
  (void)base, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
}

OrtStatus *update_operators_add(struct update_operators **operators, const OrtApi *api,
                                OrtCustomOpDomain *domain, struct probe *probe) {
  static const struct update_operator table[OPERATORS] = {
      {.name = "Update", .inputs = 2, .compute = update_compute},
      {.name = "Change", .inputs = 2, .compute = change_compute},
      {.name = "Steps", .inputs = 1, .compute = steps_compute},
      {.name = "Accumulate", .inputs = 1, .compute = accumulate_compute},
      {.name = "Dot", .inputs = 2, .compute = dot_compute},
  };
  struct update_operators *o = calloc(1, sizeof *o);
  if (!o)
    out_of_memory(sizeof *o);
  *operators = o;
  o->api = api;
  o->probe = probe;
  for (size_t i = 0; i < OPERATORS; i++) {
    struct update_operator *op = &o->operators[i];
    *op = table[i];
    op->base = kernel_operator;
    op->owner = o;
    op->base.GetName = name_of;
    op->base.GetInputTypeCount = input_count;
    op->base.GetInputType = type_float;
    op->base.GetOutputType = type_int64;
    op->base.CreateKernelV2 = create;
    op->base.KernelComputeV2 = compute;
    op->base.KernelDestroy = destroy;
    ORT_TRY(api->CustomOpDomain_Add(domain, &op->base));
  }
  return NULL;
}

void update_operators_free(struct update_operators *operators) {
  free(operators);
}
