// The terms of sums, by index arithmetic alone. Written for a few sampled outputs, not for speed.
#include "gather.h"

#include "elementary.h"

#include <math.h>
#include <string.h>

size_t gather_count(const struct gather_shape *s) {
  size_t count = 1;
  for (size_t i = 0; i < s->rank; i++)
    count *= (size_t)s->dims[i];
  return count;
}

// ---- Broadcasting ----

bool gather_broadcast(struct gather_shape *out, const struct gather_shape *a,
                      const struct gather_shape *b) {
  out->rank = a->rank > b->rank ? a->rank : b->rank;
  for (size_t i = 0; i < out->rank; i++) {  // from the last axis
    int64_t x = i < a->rank ? a->dims[a->rank - 1 - i] : 1;
    int64_t y = i < b->rank ? b->dims[b->rank - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return false;
    out->dims[out->rank - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

size_t gather_broadcast_index(const struct gather_shape *out, const struct gather_shape *s,
                              size_t index) {
  size_t at = 0, step = 1;
  for (size_t i = 0; i < s->rank; i++) {  // from the last axis
    size_t whole = (size_t)out->dims[out->rank - 1 - i], own = (size_t)s->dims[s->rank - 1 - i];
    if (own != 1)
      at += index % whole * step;
    index /= whole;
    step *= own;
  }
  return at;
}

// ---- Reductions ----

size_t gather_reduction_outputs(const struct gather_reduction *r) {
  size_t count = 1;
  for (size_t i = 0; i < r->shape.rank; i++)
    if (!r->reduced[i])
      count *= (size_t)r->shape.dims[i];
  return count;
}

// The element of x that has index `output` among the axes that stay and `term` among those that
// are reduced.
static size_t reduction_index(const struct gather_reduction *r, size_t output, size_t term) {
  size_t at = 0, step = 1;
  for (size_t i = r->shape.rank; i-- > 0;) {
    size_t dim = (size_t)r->shape.dims[i], *from = r->reduced[i] ? &term : &output;
    at += *from % dim * step;
    *from /= dim;
    step *= dim;
  }
  return at;
}

size_t gather_reduction(const struct gather_reduction *r, const float *x, size_t output,
                        double *terms, size_t limit) {
  size_t count = 1;
  for (size_t i = 0; i < r->shape.rank; i++)
    if (r->reduced[i])
      count *= (size_t)r->shape.dims[i];
  size_t n = count < limit ? count : limit;
  for (size_t k = 0; k < n; k++)
    terms[k] = (double)x[reduction_index(r, output, r->reverse ? count - 1 - k : k)];
  return n;
}

// ---- Matrix products ----

// The last two axes of a stack of matrices; a vector is a matrix of one row, or of one column.
struct matrix {
  struct gather_shape batch;
  size_t rows, columns, row_step, column_step;
};

static struct matrix matrix_of(const struct gather_shape *s, bool transpose, bool column) {
  struct matrix m = {.batch = *s};
  size_t last = (size_t)s->dims[s->rank - 1];
  if (s->rank == 1) {
    m.batch.rank = 0;
    m.rows = column ? last : 1;
    m.columns = column ? 1 : last;
    m.row_step = m.column_step = 1;
    return m;
  }
  size_t first = (size_t)s->dims[s->rank - 2];
  m.batch.rank = s->rank - 2;
  m.rows = transpose ? last : first;
  m.columns = transpose ? first : last;
  m.row_step = transpose ? 1 : last;
  m.column_step = transpose ? last : 1;
  return m;
}

static void batch_steps(size_t *steps, const struct gather_shape *out,
                        const struct gather_shape *own, size_t matrix) {
  size_t step = matrix;
  memset(steps, 0, GATHER_RANK * sizeof *steps);
  for (size_t i = 0; i < own->rank; i++) {  // from the last axis
    size_t dim = (size_t)own->dims[own->rank - 1 - i];
    steps[out->rank - 1 - i] = dim == 1 ? 0 : step;
    step *= dim;
  }
}

bool gather_product_init(struct gather_product *p, const struct gather_shape *a,
                         const struct gather_shape *b, bool transpose_a, bool transpose_b) {
  if (a->rank == 0 || b->rank == 0)
    return false;
  struct matrix x = matrix_of(a, transpose_a, false), y = matrix_of(b, transpose_b, true);
  if (x.columns != y.rows || !gather_broadcast(&p->batch, &x.batch, &y.batch))
    return false;
  batch_steps(p->a_batch, &p->batch, &x.batch, x.rows * x.columns);
  batch_steps(p->b_batch, &p->batch, &y.batch, y.rows * y.columns);
  p->rows = x.rows;
  p->columns = y.columns;
  p->terms = x.columns;
  p->a_row = x.row_step;
  p->a_term = x.column_step;
  p->b_term = y.row_step;
  p->b_column = y.column_step;
  return true;
}

size_t gather_product_outputs(const struct gather_product *p) {
  return gather_count(&p->batch) * p->rows * p->columns;
}

size_t gather_product(const struct gather_product *p, const float *a, const float *b, size_t output,
                      double *terms, size_t limit) {
  size_t column = output % p->columns, row = output / p->columns % p->rows;
  size_t batch = output / p->columns / p->rows;
  const float *x = a + row * p->a_row, *y = b + column * p->b_column;
  for (size_t i = p->batch.rank; i-- > 0;) {
    size_t dim = (size_t)p->batch.dims[i];
    x += batch % dim * p->a_batch[i];
    y += batch % dim * p->b_batch[i];
    batch /= dim;
  }
  size_t n = p->terms < limit ? p->terms : limit;
  for (size_t k = 0; k < n; k++)
    terms[k] = (double)x[k * p->a_term] * (double)y[k * p->b_term];
  return n;
}

// ---- Convolutions and pools ----

// Size of the output along an axis, and the padding at its beginning.
static void window_axis(struct gather_window *c, size_t i,
                        const struct gather_window_attributes *a) {
  int64_t reach = (c->kernel[i] - 1) * c->dilation[i] + 1, size = c->size[i];
  int64_t before = a->pads[i], after = a->pads[c->spatial + i];
  if (a->auto_pad == GATHER_VALID)
    before = after = 0;
  if (a->auto_pad == GATHER_SAME_UPPER || a->auto_pad == GATHER_SAME_LOWER) {
    int64_t out = (size + c->stride[i] - 1) / c->stride[i];
    int64_t total = (out - 1) * c->stride[i] + reach - size;
    total = total < 0 ? 0 : total;
    before = a->auto_pad == GATHER_SAME_UPPER ? total / 2 : total - total / 2;
    after = total - before;
  }
  int64_t room = size + before + after - reach;
  c->pad[i] = before;
  c->out[i] = room < 0 ? 0 : room / c->stride[i] + 1;
}

// Small enough that products of two do not overflow.
static bool is_size(int64_t x) {
  return x >= 1 && x <= INT32_MAX;
}

bool gather_window_init(struct gather_window *c, const struct gather_shape *x,
                        const struct gather_shape *w,
                        const struct gather_window_attributes *attributes) {
  if (x->rank < 3 || x->rank > 2 + GATHER_SPATIAL || w->rank != x->rank || attributes->group < 1)
    return false;
  size_t group = (size_t)attributes->group;
  *c = (struct gather_window){
      .spatial = x->rank - 2,
      .batches = (size_t)x->dims[0],
      .channels = (size_t)x->dims[1],
      .outputs = (size_t)w->dims[0],
      .group_channels = (size_t)w->dims[1],
      .group_outputs = (size_t)w->dims[0] / group,
  };
  if (c->group_channels * group != c->channels || c->group_outputs * group != c->outputs)
    return false;
  for (size_t i = 0; i < c->spatial; i++) {
    c->size[i] = x->dims[2 + i];
    c->kernel[i] = w->dims[2 + i];
    c->stride[i] = attributes->strides[i];
    c->dilation[i] = attributes->dilations[i];
    if (!is_size(c->stride[i]) || !is_size(c->dilation[i]) || !is_size(c->kernel[i]) ||
        !is_size(attributes->pads[i] + 1) || !is_size(attributes->pads[c->spatial + i] + 1))
      return false;
    window_axis(c, i, attributes);
  }
  return true;
}

size_t gather_window_outputs(const struct gather_window *c) {
  size_t count = c->batches * c->outputs;
  for (size_t i = 0; i < c->spatial; i++)
    count *= (size_t)c->out[i];
  return count;
}

// The place in a channel of x that kernel element `k` meets at the window's `start`; -1 in the
// padding.
static int64_t window_place(const struct gather_window *c, const int64_t *start, size_t k) {
  int64_t place = 0, step = 1;
  for (size_t i = c->spatial; i-- > 0;) {
    int64_t at = start[i] + (int64_t)(k % (size_t)c->kernel[i]) * c->dilation[i];
    if (at < 0 || at >= c->size[i])
      return -1;
    place += at * step;
    step *= c->size[i];
    k /= (size_t)c->kernel[i];
  }
  return place;
}

size_t gather_window(const struct gather_window *c, const float *x, const float *w, size_t output,
                     double *terms, size_t limit) {
  int64_t start[GATHER_SPATIAL];
  size_t area = 1, kernel = 1, n = 0;
  for (size_t i = c->spatial; i-- > 0;) {
    start[i] = (int64_t)(output % (size_t)c->out[i]) * c->stride[i] - c->pad[i];
    output /= (size_t)c->out[i];
    area *= (size_t)c->size[i];
    kernel *= (size_t)c->kernel[i];
  }
  size_t channel = output % c->outputs, batch = output / c->outputs;
  size_t first = channel / c->group_outputs * c->group_channels;
  for (size_t j = 0; j < c->group_channels; j++) {
    const float *plane = x + (batch * c->channels + first + j) * area;
    const float *weights = w ? w + (channel * c->group_channels + j) * kernel : NULL;
    for (size_t k = 0; k < kernel && n < limit; k++) {
      int64_t place = window_place(c, start, k);
      if (place >= 0)
        terms[n++] = (double)plane[place] * (weights ? (double)weights[k] : 1);
    }
  }
  return n;
}

// ---- Transforms ----

void gather_apply(enum gather_transform how, double *terms, size_t n) {
  double shift = 0;
  if (how == GATHER_VARIANCE) {
    for (size_t i = 0; i < n; i++)
      shift += terms[i] / (double)n;
  } else if (how == GATHER_EXP) {
    shift = n ? terms[0] : 0;
    for (size_t i = 1; i < n; i++)
      shift = fmax(shift, terms[i]);
  }
  for (size_t i = 0; i < n; i++) {
    double x = terms[i] - shift;
    switch (how) {
    case GATHER_ABS: terms[i] = fabs(x); break;
    case GATHER_SQUARE:
    case GATHER_VARIANCE: terms[i] = x * x; break;
    case GATHER_EXP: terms[i] = elementary_exp(x); break;
    default: break;
    }
  }
}
