// Which terms an element of an operator's output is the sum of, and their values: reductions,
// matrix products, convolutions, average pools. Pure index arithmetic, for the simulated
// accumulators of updates.h. Sources: the ONNX operators MatMul, Gemm, Conv and AveragePool, and
// numpy's rules of broadcasting.
#ifndef GATHER_H
#define GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GATHER_RANK = 16 };

struct gather_shape {
  size_t rank;
  int64_t dims[GATHER_RANK];  // not negative
};

// Number of elements.
size_t gather_count(const struct gather_shape *s);

// The shape that two have in common by numpy's rules; false if they have none.
bool gather_broadcast(struct gather_shape *out, const struct gather_shape *a,
                      const struct gather_shape *b);
// The element of a tensor of shape `s` that is element `index` of the shape it is broadcast to.
size_t gather_broadcast_index(const struct gather_shape *out, const struct gather_shape *s,
                              size_t index);

// Sums over some axes.
struct gather_reduction {
  struct gather_shape shape;
  bool reduced[GATHER_RANK];  // by axis
  bool reverse;               // the last term comes first
};

// The product of two matrices or stacks of them, as MatMul; a and b may each be transposed.
struct gather_product {
  struct gather_shape batch;
  size_t a_batch[GATHER_RANK], b_batch[GATHER_RANK];  // steps in elements by batch axis
  size_t rows, columns, terms;
  size_t a_row, a_term, b_column, b_term;  // steps in elements
};

// A convolution or average pool over 1 to 3 spatial axes.
enum { GATHER_SPATIAL = 3 };
struct gather_window {
  size_t spatial;                                     // axes
  int64_t size[GATHER_SPATIAL], out[GATHER_SPATIAL];  // of input and output
  int64_t kernel[GATHER_SPATIAL], stride[GATHER_SPATIAL];
  int64_t dilation[GATHER_SPATIAL], pad[GATHER_SPATIAL];  // pad: at the beginning
  size_t batches, channels, outputs;                      // outputs: channels of the output
  size_t group_channels, group_outputs;
};
enum gather_auto_pad { GATHER_NOTSET, GATHER_SAME_UPPER, GATHER_SAME_LOWER, GATHER_VALID };
struct gather_window_attributes {
  int64_t strides[GATHER_SPATIAL], dilations[GATHER_SPATIAL], pads[2 * GATHER_SPATIAL];
  enum gather_auto_pad auto_pad;
  int64_t group;
};

// Each pair: the number of outputs, and the terms of one output, of which at most `limit` (the
// first) are written; returns their number. *_init returns false if the operands do not fit
// together. The window's w is NULL for a pool, whose terms are the elements themselves; its shape
// is then [channels, 1, kernel...] with a group for each channel. Padding gives no terms.
size_t gather_reduction_outputs(const struct gather_reduction *r);
size_t gather_reduction(const struct gather_reduction *r, const float *x, size_t output,
                        double *terms, size_t limit);

bool gather_product_init(struct gather_product *p, const struct gather_shape *a,
                         const struct gather_shape *b, bool transpose_a, bool transpose_b);
size_t gather_product_outputs(const struct gather_product *p);
size_t gather_product(const struct gather_product *p, const float *a, const float *b, size_t output,
                      double *terms, size_t limit);

bool gather_window_init(struct gather_window *c, const struct gather_shape *x,
                        const struct gather_shape *w,
                        const struct gather_window_attributes *attributes);
size_t gather_window_outputs(const struct gather_window *c);
size_t gather_window(const struct gather_window *c, const float *x, const float *w, size_t output,
                     double *terms, size_t limit);

// What a reduction does to its terms before it adds them: nothing, |x|, x^2, (x - mean)^2 (the
// variance in a normalisation), exp(x - max) (the denominator of a softmax).
enum gather_transform {
  GATHER_PLAIN,
  GATHER_ABS,
  GATHER_SQUARE,
  GATHER_VARIANCE,
  GATHER_EXP,
  GATHER_TRANSFORMS
};
void gather_apply(enum gather_transform how, double *terms, size_t n);

#endif
