// Number formats: one table with everything that is true of each, and the few functions of one
// format that need arithmetic. Values are magnitudes as doubles, which hold every value of every
// format here exactly.
//
// Sources: IEEE 754-2019 (fp64, fp32, fp16); "FP8 Formats for Deep Learning", arXiv 2209.05433
// (e4m3fn, e5m2); "8-bit Numerical Formats for Deep Neural Networks", arXiv 2206.02915 (the fnuz
// forms); OCP Microscaling Formats 1.0 (fp4e2m1); ONNX TensorProto.DataType (element types) and
// ONNX Cast (saturation).
#ifndef NARROWCAST_FORMAT_H
#define NARROWCAST_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum format_id {
  FORMAT_FP64,
  FORMAT_FP32,
  FORMAT_TF32,
  FORMAT_BF16,
  FORMAT_FP16,
  FORMAT_FP8E4M3FN,
  FORMAT_FP8E4M3FNUZ,
  FORMAT_FP8E5M2,
  FORMAT_FP8E5M2FNUZ,
  FORMAT_FP4E2M1,
  FORMAT_COUNT
};

// What becomes of a magnitude that rounds beyond the largest finite value (ONNX Cast, opset 24):
// only the 8-bit formats listen to `saturate`.
enum format_saturation {
  FORMAT_NEVER_SATURATES,     // infinity
  FORMAT_SATURATES_IF_ASKED,  // the largest finite value, or not asked, infinity or else NaN
  FORMAT_ALWAYS_SATURATES     // the largest finite value
};

struct format {
  enum format_id id;
  const char *name;      // the name in policies, plans and reports
  int bits;              // of a code, with the sign
  int stored_bits;       // of an element in a file: tf32 is stored as fp32
  int exponent_bits;     // of the code's exponent field
  int mantissa_bits;     // M: fraction bits, without the implied one
  int bias;              // of the exponent field
  int max_exponent;      // floor(log2(max))
  int min_exponent;      // log2(tiny) = 1 - bias
  double max;            // largest finite value
  double tiny;           // smallest normal value
  double min_subnormal;  // smallest value above zero
  double eps;            // 2^-M, the step just above 1
  bool has_inf;
  bool has_nan;
  bool one_zero;      // no -0; its code is the NaN ("fnuz")
  int onnx_type;      // TensorProto.DataType, 0 where ONNX has none
  uint32_t max_code;  // of `max`; these codes are without the sign bit, and all 0 in fp64
  uint32_t inf_code;  // 0 without infinities
  uint32_t nan_code;  // the quiet NaN; in a one_zero format the sign bit alone; 0 without NaN
  enum format_saturation saturation;
};

extern const struct format formats[FORMAT_COUNT];

// The format called `name`, or NULL. Takes the names of the table, those of ONNX, NumPy, PyTorch
// and C, and short ones (e4m3); letter case, '_', '-' and '.' do not matter. `name` may be NULL.
const struct format *format_find(const char *name);

// The name in the table that is meant by one that is unknown, or NULL: "fp8e4m3fn" for "fp8".
const char *format_near(const char *name);

// The format of an ONNX element type (TensorProto.DataType), or NULL where that is no float type of
// the table.
const struct format *format_from_onnx(int elem_type);

// Bytes that n elements take in a file; two fp4 values share a byte and an odd one takes it alone
// (ONNX "Float stored in 4 bits"). Any n below 2^60.
uint64_t format_bytes(const struct format *f, uint64_t n);

// The step of F around x: ulp_F(x) = 2^(max(floor(log2|x|), log2 tiny_F) - M_F). It goes on
// growing beyond F's range. ulp_F(0) is the smallest subnormal; NaN for a NaN or infinite x.
double format_ulp(const struct format *f, double x);

// The lower cliff: a double (or float) x rounds to zero in F exactly when |x| <= cliff.
// Without ftz that is half the smallest subnormal, a tie that goes to zero, the even
// neighbour. With ftz (results below tiny become zero, after rounding) the midpoint below tiny goes
// up to tiny, so it is the last double under tiny - min_subnormal / 2. In fp64 no double is
// rounded, so 0, and with ftz the last double under tiny.
double format_cliff(const struct format *f, bool ftz);

// The upper cliff: a double (or float) x rounds beyond max, whatever then becomes of it, exactly
// when |x| >= format_overflow(F). It is the midpoint above max, where that tie goes up (65520 in
// fp16), and the next double where it goes down to an even max (after 464 in fp8e4m3fn). Infinity
// in fp64.
double format_overflow(const struct format *f);

#endif
