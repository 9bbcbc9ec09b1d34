// The contents of a TensorProto in one form, wherever they are stored (raw_data, a typed field,
// external data), and the making of new ones.
#ifndef TENSOR_H
#define TENSOR_H

#include "model.h"

#include <stdbool.h>

// Row-major elements, little-endian as in raw_data (IEEE floats; bf16, fp16 and fp8 as their codes;
// 4-bit types two to a byte; bool one byte). `data` may be unaligned: use memcpy to read elements.
struct tensor {
  const char *name;  // "" if it has none
  int elem_type;     // Onnx__TensorProto__DataType
  size_t rank;
  const int64_t *dims;  // each >= 0
  uint64_t count;       // product of dims; 1 for rank 0
  const uint8_t *data;  // NULL for strings
  size_t size;          // bytes
};

// Bits of one element of an ONNX element type (4 to 128); 0 for STRING and unknown types.
unsigned tensor_element_bits(int elem_type);

// "float", "float16", "bfloat16", "int64" ... as ONNX writes them; "undefined" if unknown.
const char *tensor_type_name(int elem_type);

// True for float16, bfloat16, float and double.
bool tensor_is_float(int elem_type);

// Elements (1 for rank 0) and bytes that t's dims and type ask for; bytes is 0 for strings. False
// if a dim is negative, a product overflows or the type is unknown. Looks at no data.
bool tensor_extent(const Onnx__TensorProto *t, uint64_t *count, uint64_t *bytes);

// Reads t; m may be NULL if its data is not external. Raw and external data, and typed fields whose
// entries are elements, are referred to; other typed fields are copied to the arena. Checks that
// dims are not negative, that their product does not overflow and that the data has just that size.
// Data in two fields (raw_data and a typed one, say): STATUS_MODEL, naming the tensor (readers
// disagree about which one counts).
enum status tensor_read(struct model *m, const Onnx__TensorProto *t, struct arena *a,
                        struct tensor *out, struct diag *d);

// Elements as float, for all float types but float6, for all integer types and bool. Exact, or
// rounded to nearest (double, integers of more than 24 bits). out has t->count elements. False if
// the type has no float value here (string, complex, float6).
bool tensor_to_float(const struct tensor *t, float *out);

// Walks over the elements as floats, block by block, so that it needs no memory however large the
// tensor is (model_passed):
//   struct tensor_blocks b;
//   tensor_begin(&b, m, &t);
//   while (tensor_next(&b)) ... b.x[0 .. b.n), which begins at element b.at
// There is no block if the type has no float value.
enum { TENSOR_BLOCK = 4096 };
struct tensor_blocks {
  struct model *model;  // that the tensor is read from; NULL: none
  const struct tensor *tensor;
  uint64_t at, next;
  size_t n;
  float x[TENSOR_BLOCK];
};
void tensor_begin(struct tensor_blocks *b, struct model *m, const struct tensor *t);
bool tensor_next(struct tensor_blocks *b);

// A TensorProto in the arena with raw_data referring to `data` (not copied; `size` bytes); name and
// dims are copied. name may be NULL: none.
Onnx__TensorProto *tensor_new(struct arena *a, const char *name, int elem_type, size_t rank,
                              const int64_t *dims, const uint8_t *data, size_t size);

#endif
