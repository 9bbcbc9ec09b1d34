// Made-up samples. Every element follows from the seed, the sample, the input and its place by
// integer arithmetic, so that a seed gives the same bits on every machine; log and cos, which the
// usual ways to normal variables need, differ in their last bits from one C library to the next.
// Instead the sum of 12 uniform variables is taken (Irwin-Hall): mean 0, variance 1, largest
// magnitude 6.
//
// Generator: splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
// 2014).
#include "round.h"
#include "samples_internal.h"
#include "tensor.h"

#include <ctype.h>
#include <string.h>

static const uint64_t max_bytes = (uint64_t)2 << 30;

enum fill { FILL_NORMAL, FILL_INTEGER, FILL_RESHAPE, FILL_AXES };

struct recipe {
  const struct declared *input;
  int64_t *dims;
  uint64_t count;
  size_t size;
  enum fill fill;
  int64_t low, high;
};

// ---- Numbers ----

static uint64_t mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static uint64_t next(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  return mix(*state);
}

// Sums of 32-bit integers fit a double, so nothing is rounded here.
static double next_normal(uint64_t *state) {
  uint64_t sum = 6;  // each of the 12 lies at the middle of its step
  for (int i = 0; i < 6; i++) {
    uint64_t bits = next(state);
    sum += (bits >> 32) + (bits & 0xffffffffu);
  }
  return ((double)sum - 6.0 * 4294967296.0) / 4294967296.0;
}

static int64_t next_integer(uint64_t *state, int64_t low, int64_t high) {
  uint64_t span = (uint64_t)high - (uint64_t)low + 1;
  return (int64_t)((uint64_t)low + next(state) % span);
}

// ---- Elements ----

enum { FLOAT_BLOCK = 256 };

// Writes elements [at, at + n) of a float array.
static void put_floats(int elem_type, void *out, uint64_t at, const double *values, size_t n) {
  const struct format *f = format_from_onnx(elem_type);
  if (f->id == FORMAT_FP64) {
    memcpy((double *)out + at, values, n * sizeof *values);
    return;
  }
  float narrow[FLOAT_BLOCK];
  for (size_t i = 0; i < n; i++)
    narrow[i] = (float)values[i];
  const struct round_mode mode = {.format = f, .saturate = true};
  size_t item = (size_t)f->stored_bits / 8;
  if (f->id == FORMAT_FP32)
    memcpy((float *)out + at, narrow, n * sizeof *narrow);
  else
    round_encode_array(&mode, narrow, (uint8_t *)out + at * item, n);
}

static void put_integer(size_t item, void *out, uint64_t i, int64_t value) {
  switch (item) {
  case 1: ((uint8_t *)out)[i] = (uint8_t)value; break;
  case 2: ((uint16_t *)out)[i] = (uint16_t)value; break;
  case 4: ((uint32_t *)out)[i] = (uint32_t)value; break;
  default: ((uint64_t *)out)[i] = (uint64_t)value; break;
  }
}

// Copies leading dims and infers the last: fits most data.
static int64_t reshape_value(uint64_t i, uint64_t count) {
  return i + 1 == count ? -1 : 0;
}

static void cook(const struct recipe *r, uint64_t state, void *out) {
  int type = r->input->elem_type;
  bool floats = format_from_onnx(type) != NULL;
  size_t item = tensor_element_bits(type) / 8;
  double block[FLOAT_BLOCK];
  for (uint64_t i = 0; i < r->count; i++) {
    size_t place = (size_t)(i % FLOAT_BLOCK);
    int64_t value = 0;
    if (r->fill != FILL_NORMAL)
      value = r->fill == FILL_RESHAPE ? reshape_value(i, r->count)
              : r->fill == FILL_AXES  ? (int64_t)i
                                      : next_integer(&state, r->low, r->high);
    if (!floats) {
      put_integer(item, out, i, value);
      continue;
    }
    block[place] = r->fill == FILL_NORMAL ? next_normal(&state) : (double)value;
    if (place + 1 == FLOAT_BLOCK || i + 1 == r->count)
      put_floats(type, out, i - place, block, place + 1);
  }
}

void recipes_cook(const struct samples *s, size_t k, struct array_list *list) {
  for (int i = 0; i < s->inputs.n_required; i++) {
    const struct recipe *r = &s->recipes[i];
    struct array *array = array_list_add(list, r->input->name);
    array->elem_type = r->input->elem_type;
    array->rank = r->input->rank;
    if (array->rank)
      memcpy(array->dims, r->dims, array->rank * sizeof *r->dims);
    array->size = r->size;
    void *data = arena_alloc(list->arena, r->size);
    cook(r, mix(mix(mix(s->seed) ^ (uint64_t)k) ^ (uint64_t)i), data);
    array->data = data;
  }
}

// ---- Recipes ----

static bool is_mask(const char *name) {
  for (; *name; name++)
    if (tolower((unsigned char)name[0]) == 'm' && tolower((unsigned char)name[1]) == 'a' &&
        tolower((unsigned char)name[2]) == 's' && tolower((unsigned char)name[3]) == 'k')
      return true;
  return false;
}

// The smallest and largest value of an integer type; false for others.
static bool type_limits(int elem_type, int64_t *low, int64_t *high) {
  switch (elem_type) {
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT8: *low = INT8_MIN, *high = INT8_MAX; return true;
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8: *low = 0, *high = UINT8_MAX; return true;
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT16: *low = INT16_MIN, *high = INT16_MAX; return true;
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16: *low = 0, *high = UINT16_MAX; return true;
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT32: *low = INT32_MIN, *high = INT32_MAX; return true;
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32: *low = 0, *high = UINT32_MAX; return true;
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT64: *low = INT64_MIN, *high = INT64_MAX; return true;
  case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64: *low = 0, *high = INT64_MAX; return true;
  default: return false;
  }
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

static enum status choose_fill(struct recipe *r, const struct range *range, struct diag *d) {
  int type = r->input->elem_type;
  const struct format *format = format_from_onnx(type);
  int64_t low = INT64_MIN, high = INT64_MAX;
  r->high = 1;
  if (type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL) {
    r->fill = FILL_INTEGER;
    return STATUS_OK;
  }
  if (!type_limits(type, &low, &high) && (!format || format->stored_bits < 8)) {
    diag_hint(d, "Give samples with --data.");
    return diag_fail(d, STATUS_DATA, "values of type %s cannot be made up", tensor_type_name(type));
  }
  r->fill = FILL_INTEGER;
  if (range->reshape || range->axes) {
    r->fill = range->reshape ? FILL_RESHAPE : FILL_AXES;
  } else if (range->found) {
    r->low = clamp(range->low, low, high);
    r->high = clamp(range->high, low, high);
  } else if (is_mask(r->input->name)) {
    r->low = 1;
  } else if (format) {
    r->fill = FILL_NORMAL;
  } else if (high <= UINT8_MAX) {
    r->low = low;
    r->high = high;
  }
  return STATUS_OK;
}

static enum status too_large(struct diag *d, uint64_t most) {
  diag_hint(d, "Give samples with --data.");
  return diag_fail(d, STATUS_DATA, "the declared shape has more than %llu bytes",
                   (unsigned long long)most);
}

static enum status make(struct recipe *r, const struct range *range, struct diag *d) {
  diag_at(d, NULL, NULL, r->input->name);
  TRY(choose_fill(r, range, d));
  uint64_t bytes = 0;
  size_t item = tensor_element_bits(r->input->elem_type) / 8;
  if (!array_extent(r->dims, r->input->rank, item, &r->count, &bytes) || bytes > max_bytes)
    return too_large(d, max_bytes);
  r->size = (size_t)bytes;
  return STATUS_OK;
}

static enum status check_declared(const struct declared *input, struct diag *d) {
  diag_at(d, NULL, NULL, input->name);
  diag_hint(d, "Give samples with --data.");
  if (!input->shaped)
    return diag_fail(d, STATUS_DATA, "the model declares no shape: values cannot be made up");
  if (input->rank > ARRAY_MAX_RANK)
    return diag_fail(d, STATUS_DATA, "the model declares more than %d dimensions", ARRAY_MAX_RANK);
  diag_hint(d, "%s", "");
  return STATUS_OK;
}

enum status recipes_make(struct samples *s, struct graph *g, struct diag *d) {
  const struct inputs *in = &s->inputs;
  struct arena *a = s->arena;
  size_t n = (size_t)in->n_required;
  struct recipe *recipes = arena_array(a, n, sizeof *recipes);
  struct range *ranges = arena_array(a, n, sizeof *ranges);
  int64_t **dims = arena_array(a, n, sizeof *dims);
  diag_at(d, g->model->path, NULL, NULL);
  for (size_t i = 0; i < n; i++) {
    recipes[i].input = &in->items[in->required[i]];
    TRY(check_declared(recipes[i].input, d));
    dims[i] = recipes[i].dims = arena_array(a, recipes[i].input->rank, sizeof **dims);
  }
  samples_sizes(g, in, dims, a);
  samples_ranges(g, in, ranges, a);
  for (size_t i = 0; i < n; i++)
    TRY(make(&recipes[i], &ranges[i], d));
  s->recipes = recipes;
  diag_at(d, "", NULL, "");
  return STATUS_OK;
}
