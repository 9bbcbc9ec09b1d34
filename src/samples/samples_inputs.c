// The inputs that a model declares, and whether the arrays of a sample fit them. Every message says
// what is declared and what was found, as the commonest cause of a failed calibration is data that
// was saved for another model, or in another type.
#include "json.h"
#include "nearest.h"
#include "samples_internal.h"
#include "tensor.h"

#include <string.h>

enum { SPACE_INPUT, SPACE_PARAM, SPACE_OUTPUT };

static const char *const label_prefix = "label:";

// ---- What is declared ----

static int param_index(struct inputs *in, const char *name, struct arena *a) {
  int index = map_get(&in->index, SPACE_PARAM, name);
  if (index >= 0)
    return index;
  in->params = arena_grow(a, in->params, &in->capacity_params, in->n_params + 1, sizeof(char *));
  in->params[in->n_params] = name;
  map_put(&in->index, SPACE_PARAM, name, (int)in->n_params);
  return (int)in->n_params++;
}

static void describe_shape(struct inputs *in, struct declared *input,
                           const Onnx__TensorShapeProto *shape, struct arena *a) {
  input->shaped = true;
  input->rank = shape->n_dim;
  input->dims = arena_array(a, shape->n_dim, sizeof *input->dims);
  input->params = arena_array(a, shape->n_dim, sizeof *input->params);
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    input->dims[i] = input->params[i] = -1;
    if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
      input->dims[i] = dim->dim_value < 0 ? -1 : dim->dim_value;
    else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
             dim->dim_param && dim->dim_param[0])
      input->params[i] = param_index(in, dim->dim_param, a);
  }
}

static const char *kind_of(const Onnx__TypeProto *type) {
  switch (type->value_case) {
  case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: return "a sequence";
  case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: return "a map";
  case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: return "an optional";
  case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE: return "a sparse tensor";
  default: return "something else than a tensor";
  }
}

static enum status describe(struct inputs *in, struct declared *input, const struct graph *g,
                            const Onnx__ValueInfoProto *proto, struct arena *a, struct diag *d) {
  input->name = proto->name ? proto->name : "";
  input->value = graph_lookup(g, 0, input->name);
  const struct value *v = input->value >= 0 ? &g->values[input->value] : NULL;
  input->optional = v && (v->initializer || v->sparse_default);
  input->constant = v && graph_is_constant(g, input->value);
  const Onnx__TypeProto *type = proto->type;
  if (!type || type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
    return STATUS_OK;
  if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    diag_at(d, g->model->path, NULL, input->name);
    diag_hint(d,
              "Cut the model behind the operators that make tensors of it, and convert that part.");
    return diag_fail(d, STATUS_DATA, "the model takes %s here, and samples hold tensors only",
                     kind_of(type));
  }
  input->elem_type = type->tensor_type->elem_type;
  if (type->tensor_type->shape)
    describe_shape(in, input, type->tensor_type->shape, a);
  return STATUS_OK;
}

static int64_t common_batch(const struct inputs *in) {
  int64_t batch = -1;
  for (int i = 0; i < in->count; i++) {
    const struct declared *input = &in->items[i];
    if (input->optional || !tensor_is_float(input->elem_type))
      continue;
    if (!input->shaped || !input->rank || input->dims[0] < 1 ||
        (batch >= 0 && input->dims[0] != batch))
      return -1;
    batch = input->dims[0];
  }
  return batch;
}

enum status inputs_describe(struct inputs *in, const struct graph *g, struct arena *a,
                            struct diag *d) {
  const Onnx__GraphProto *graph = g->model->proto->graph;
  *in = (struct inputs){.index.arena = a};
  in->items = arena_array(a, graph->n_input, sizeof *in->items);
  in->required = arena_array(a, graph->n_input, sizeof *in->required);
  in->names = arena_array(a, graph->n_input + 1, sizeof *in->names);
  in->output_names = arena_array(a, graph->n_output + 1, sizeof *in->output_names);
  for (size_t i = 0; i < graph->n_input; i++) {
    struct declared *input = &in->items[in->count];
    TRY(describe(in, input, g, graph->input[i], a, d));
    if (!input->optional)
      in->required[in->n_required++] = in->count;
    map_put(&in->index, SPACE_INPUT, input->name, in->count);
    in->names[in->count++] = input->name;
  }
  for (size_t i = 0; i < graph->n_output; i++) {
    in->output_names[i] = graph->output[i]->name ? graph->output[i]->name : "";
    map_put(&in->index, SPACE_OUTPUT, in->output_names[i], (int)i);
  }
  in->batch = common_batch(in);
  return STATUS_OK;
}

int inputs_find(const struct inputs *in, const char *name) {
  return map_get(&in->index, SPACE_INPUT, name);
}

// ---- Batches ----

static bool is_label(const struct array *array) {
  return strncmp(array->name, label_prefix, strlen(label_prefix)) == 0;
}

static const struct declared *declared_of(const struct inputs *in, const struct array *array) {
  int index = inputs_find(in, array->name);
  return index < 0 ? NULL : &in->items[index];
}

// The array may hold several batches: its input's first dim is fixed, and nothing else is wrong
// that inputs_check has to report.
static bool may_split(const struct declared *input, const struct array *array) {
  return input && input->shaped && input->rank == array->rank && array->rank &&
         input->elem_type == array->elem_type && input->dims[0] > 0 &&
         array->dims[0] >= input->dims[0] && (array->size || array->strings);
}

enum status inputs_parts(const struct inputs *in, const struct array *arrays, size_t n,
                         size_t *parts, struct diag *d) {
  int64_t all = -1;
  *parts = 1;
  for (size_t i = 0; i < n && in->batch > 0; i++) {
    const struct declared *input = declared_of(in, &arrays[i]);
    if (!may_split(input, &arrays[i]) || input->optional || !tensor_is_float(input->elem_type))
      continue;
    int64_t rows = arrays[i].dims[0];
    diag_at(d, NULL, NULL, arrays[i].name);
    if (rows % in->batch) {
      diag_hint(d, "Give a multiple of %lld rows.", (long long)in->batch);
      return diag_fail(d, STATUS_DATA, "%lld rows are no multiple of the model's fixed batch %lld",
                       (long long)rows, (long long)in->batch);
    }
    if (all >= 0 && all != rows)
      return diag_fail(d, STATUS_DATA, "%lld rows here and %lld in another input", (long long)rows,
                       (long long)all);
    all = rows;
  }
  diag_at(d, NULL, NULL, "");
  if (all > in->batch)
    *parts = (size_t)(all / in->batch);
  return STATUS_OK;
}

bool inputs_splits(const struct inputs *in, const struct array *array, size_t parts) {
  if (!array->rank || array->dims[0] % (int64_t)parts)
    return false;
  if (is_label(array))
    return true;
  const struct declared *input = declared_of(in, array);
  return may_split(input, array) && array->dims[0] / (int64_t)parts == input->dims[0];
}

// ---- Constants ----

// The narrow model holds the stored value, so the fp32 one must not be given another.
static void warn_of_constant(struct inputs *in, const char *name, size_t more, struct diag *d) {
  if (!in->overridden)
    diag_warn(d,
              "the samples' array '%.200s'%s not used: the model lists all its initializers as "
              "inputs, so they count as constants",
              name, more ? arena_printf(in->index.arena, " and %zu more are", more) : " is");
  in->overridden = true;
}

void inputs_drop_constants(struct inputs *in, struct array_list *list, struct diag *d) {
  const char *first = NULL;
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    const struct declared *input = declared_of(in, &list->items[i]);
    if (!input || !input->constant)
      list->items[kept++] = list->items[i];
    else if (!first)
      first = list->items[i].name;
  }
  if (first)
    warn_of_constant(in, first, list->count - kept - 1, d);
  list->count = kept;
}

// ---- Checks ----

// "float[N,3,224,224]".
static const char *declared_text(const struct inputs *in, const struct declared *input,
                                 struct arena *a) {
  const char *text = arena_printf(a, "%s", tensor_type_name(input->elem_type));
  if (!input->shaped)
    return text;
  text = arena_printf(a, "%s[", text);
  for (size_t i = 0; i < input->rank && i <= ARRAY_MAX_RANK; i++) {
    const char *comma = i ? "," : "";
    if (input->dims[i] >= 0)
      text = arena_printf(a, "%s%s%lld", text, comma, (long long)input->dims[i]);
    else
      text = arena_printf(a, "%s%s%.60s", text, comma,
                          input->params[i] >= 0 ? in->params[input->params[i]] : "?");
  }
  return arena_printf(a, "%s]", text);
}

static const char *found_text(const struct array *array, struct arena *a) {
  const char *text = arena_printf(a, "%s[", tensor_type_name(array->elem_type));
  for (size_t i = 0; i < array->rank; i++)
    text = arena_printf(a, "%s%s%lld", text, i ? "," : "", (long long)array->dims[i]);
  return arena_printf(a, "%s]", text);
}

static enum status fail_fit(const struct inputs *in, const struct declared *input,
                            const struct array *array, const char *what, struct arena *a,
                            struct diag *d) {
  diag_at(d, NULL, NULL, input->name);
  return diag_fail(d, STATUS_DATA, "wrong %s: the model declares %s and the sample has %s", what,
                   declared_text(in, input, a), found_text(array, a));
}

// NumPy has no bfloat16 and no 8-bit floats: such arrays come as unsigned integers.
static bool holds_codes(int declared, int found) {
  switch (declared) {
  case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
    return found == ONNX__TENSOR_PROTO__DATA_TYPE__UINT16;
  case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FN:
  case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FNUZ:
  case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E5M2:
  case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E5M2FNUZ:
    return found == ONNX__TENSOR_PROTO__DATA_TYPE__UINT8;
  default: return false;
  }
}

static enum status check_type(const struct inputs *in, const struct declared *input,
                              struct array *array, struct arena *a, struct diag *d) {
  if (holds_codes(input->elem_type, array->elem_type))
    array->elem_type = input->elem_type;
  if (!input->elem_type || input->elem_type == array->elem_type)
    return STATUS_OK;
  if (array->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE &&
      input->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
    diag_hint(d, "Save the array as float32: array.astype(numpy.float32).");
  else
    diag_hint(d, "Save the array in the type that the model declares.");
  return fail_fit(in, input, array, "type", a, d);
}

// The index + 1 of the input that gave a symbolic dim its size, and the size.
struct binding {
  int input;
  int64_t size;
};

// A name is all that says that two dims are one: exporters give the same to tokens and to a mask
// over tokens and cache, and engines run that. So it is said once, and the engine decides.
static void warn_of_dims(struct inputs *in, const struct declared *input, size_t dim, int64_t size,
                         const struct binding *b, struct diag *d) {
  if (!in->dims_differ)
    diag_warn(d,
              "dimension '%s' is %lld in input '%s' and %lld in input '%s', in a sample at least",
              in->params[input->params[dim]], (long long)b->size, in->names[b->input - 1],
              (long long)size, input->name);
  in->dims_differ = true;
}

static enum status check_shape(struct inputs *in, const struct declared *input, struct array *array,
                               struct binding *bindings, struct arena *a, struct diag *d) {
  if (!input->shaped)
    return STATUS_OK;
  // Scalars are often saved with a dim of 1, which the engine takes as well.
  if (input->rank == 0 && array->rank == 1 && array->dims[0] == 1)
    array->rank = 0;
  if (input->rank != array->rank)
    return fail_fit(in, input, array, "number of dimensions", a, d);
  for (size_t i = 0; i < input->rank; i++) {
    if (input->dims[i] >= 0 && input->dims[i] != array->dims[i])
      return fail_fit(in, input, array, "shape", a, d);
    if (input->params[i] < 0)
      continue;
    struct binding *b = &bindings[input->params[i]];
    if (b->input && b->size != array->dims[i])
      warn_of_dims(in, input, i, array->dims[i], b, d);
    *b = (struct binding){(int)(input - in->items) + 1, array->dims[i]};
  }
  return STATUS_OK;
}

static const char *list_names(const char *const *names, struct arena *a) {
  const char *text = "";
  int i = 0;
  for (; names[i] && i < 8; i++)
    text = arena_printf(a, "%s%s'%.100s'", text, i ? ", " : "", names[i]);
  return names[i] ? arena_printf(a, "%s and more", text) : text;
}

static enum status fail_name(const char *name, const char *kind, const char *const *names,
                             struct arena *a, struct diag *d) {
  const char *near = nearest_name(name, names);
  diag_at(d, NULL, NULL, name);
  if (near)
    diag_hint(d, "Did you mean '%s'?", near);
  else if (names[0])
    diag_hint(d, "The model's %ss are %s.", kind, list_names(names, a));
  return diag_fail(d, STATUS_DATA, "the model has no %s of this name", kind);
}

enum status inputs_check(struct inputs *in, struct array *arrays, size_t n, struct arena *a,
                         struct diag *d) {
  bool *given = arena_array(a, (size_t)in->count, sizeof *given);
  struct binding *bindings = arena_array(a, in->n_params, sizeof *bindings);
  for (size_t i = 0; i < n; i++) {
    const char *output = arrays[i].name + strlen(label_prefix);
    if (is_label(&arrays[i])) {
      if (map_get(&in->index, SPACE_OUTPUT, output) < 0)
        return fail_name(output, "output", in->output_names, a, d);
      continue;
    }
    int index = inputs_find(in, arrays[i].name);
    if (index < 0)
      return fail_name(arrays[i].name, "input", in->names, a, d);
    diag_at(d, NULL, NULL, arrays[i].name);
    if (given[index])
      return diag_fail(d, STATUS_DATA, "the sample has two arrays for this input");
    given[index] = true;
    TRY(check_type(in, &in->items[index], &arrays[i], a, d));
    TRY(check_shape(in, &in->items[index], &arrays[i], bindings, a, d));
  }
  for (int i = 0; i < in->n_required; i++)
    if (!given[in->required[i]]) {
      const struct declared *input = &in->items[in->required[i]];
      diag_at(d, NULL, NULL, input->name);
      return diag_fail(d, STATUS_DATA, "the sample has no array for this input, %s",
                       declared_text(in, input, a));
    }
  return STATUS_OK;
}
