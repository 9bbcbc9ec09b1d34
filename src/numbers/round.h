// Rounding a value to a number format and back: to nearest, ties to even, exact for every input:
// NaN, infinities, subnormals, signed zeros, ties.
//
// Two of each: a plain reference, one value at a time, and array kernels that give the same results
// and that the compiler turns into vector code. They hold no state, cannot fail, and want C's
// default floating-point environment.
//
// Every function takes these flags. Sources: ONNX Cast of opset 24; ONNX "Float stored in 8 bits"
// and "Float stored in 4 bits".
//
// - saturate, in 8-bit formats: what rounds beyond the largest finite value, infinities too,
//   becomes that value. Without it: infinity in fp8e5m2, NaN in the others. The wider formats
//   always go to infinity and fp4e2m1 always saturates, whatever the flag. To saturate into fp16,
//   clamp to the format's `max` first.
// - ftz: a result below the smallest normal becomes zero of the same sign. It is the result that
//   counts: what rounds up to the smallest normal stays.
//
// NaN gives NaN, but 6 in fp4e2m1, which has none. In the fnuz formats -0 gives 0.
#ifndef NARROWCAST_ROUND_H
#define NARROWCAST_ROUND_H

#include "format.h"

// How an array is rounded: y = decode(encode(x * 2^scale_log2)) * 2^-scale_log2. Both products are
// fp32 products, as in the Mul nodes of an emitted model, so that x * 2^scale_log2 may itself
// overflow to infinity.
enum { ROUND_SCALE_MAX = 126 };
struct round_mode {
  const struct format *format;
  bool saturate;
  bool ftz;
  int scale_log2;  // -ROUND_SCALE_MAX to ROUND_SCALE_MAX, where 2^k and 2^-k are both normal in
                   // fp32
};

// What became of an array's finite inputs. Infinities and NaN are counted nowhere, zeros in `exact`
// alone.
struct round_count {
  uint64_t overflow;   // scaled, beyond the largest finite value once rounded; saturated ones too
  uint64_t zero;       // were not zero and are now
  uint64_t subnormal;  // scaled, below the smallest normal once rounded, and not zero
  uint64_t exact;      // rounded and scaled back, equal to the input
};

// The code of x in f: `f->bits` bits, the sign highest, in the low bits of the result. Any f but
// fp64.
uint32_t round_encode(const struct format *f, float x, bool saturate, bool ftz);

// The value of a code: exact, but NaN keeps only its sign. Any f but fp64; bits of `code` above the
// format's are ignored.
float round_decode(const struct format *f, uint32_t code);

// x rounded to f: once, and not through fp32 first (1 + 2^-11 + 2^-30 to fp16 is 1 + 2^-10, but
// through fp32 it would be 1). Unless f is fp64 the result fits a float, so round_encode of it
// gives the code. In fp64 that is x itself, or zero where ftz makes it so.
double round_double(const struct format *f, double x, bool saturate, bool ftz);

// Rounds n values of x into y. The arrays may be the same one, and may not overlap otherwise.
void round_array(const struct round_mode *mode, const float *x, float *y, size_t n);

// Writes the codes of n values, scaled by 2^scale_log2, as raw_data of an ONNX tensor holds them:
// little-endian, one byte each in 8-bit formats, two in fp16 and bf16, four in fp32 and tf32 (the
// latter as 19-bit codes), and for fp4e2m1 two in a byte, the first in the low half, an odd last
// one beside zero. `codes` needs no alignment and may not overlap x; it has room for n elements.
// Any format but fp64.
void round_encode_array(const struct round_mode *mode, const float *x, void *codes, size_t n);

// Reads n codes laid out as round_encode_array writes them. `codes` needs no alignment and may not
// overlap y. Any f but fp64.
void round_decode_array(const struct format *f, const void *codes, float *y, size_t n);

// Adds to *count what round_array would do to the n values of x.
void round_count_array(const struct round_mode *mode, const float *x, size_t n,
                       struct round_count *count);

#endif
