// Rounding. First the plain reference, which follows the definition in exact double arithmetic and is the one to read;
// then the array kernels, which must agree with it bit for bit.
//
// The arrays are worked on in blocks that stay in the first-level cache, one simple loop after another, because such loops
// become vector code with every compiler, at no alignment and with x and y the same array.
#include "round.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Fusing a product and a sum would skip a rounding. GCC knows no such pragma, and does not fuse with -std=c11.
#if defined(__clang__) || !defined(__GNUC__)
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "codes are copied from memory as they are, which must be little-endian"
#endif

// ---- The reference ----

static uint32_t sign_code(const struct format *f, bool negative) {
  return negative ? (uint32_t)1 << (f->bits - 1) : 0;
}

static uint32_t overflow_code(const struct format *f, bool saturate) {
  bool saturates =
      f->saturation == SATURATE_ALWAYS || (f->saturation == SATURATE_ON_ASKED && saturate);
  if (saturates) {
    return f->max_code;
  }
  return f->has_inf ? f->inf_code : f->nan_code;
}

// Not nearbyint, so that the processor's rounding mode plays no part. x is not negative.
static double nearest_even(double x) {
  double down = floor(x);
  double rest = x - down;
  bool up = rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0);
  return up ? down + 1 : down;
}

// The code of a magnitude: how many steps of its binade (or of the subnormals) it is, and which binade.
static uint32_t magnitude_code(const struct format *f, double x, bool saturate, bool ftz) {
  if (isinf(x)) {
    return overflow_code(f, saturate);
  }
  int exponent = f->min_exponent;
  if (x != 0 && ilogb(x) > exponent) {
    exponent = ilogb(x);
  }
  int step_log2 = exponent - f->mantissa_bits;
  double steps = nearest_even(scalbn(x, -step_log2));
  double value = scalbn(steps, step_log2);
  if (value > f->max) {
    return overflow_code(f, saturate);
  }
  if (ftz && value < f->tiny) {
    return 0;
  }
  // Steps count the implied one too, which therefore adds one to the exponent field: 0 below tiny, 1 from there. Rounding
  // up to the next binade carries in the same way.
  uint32_t binade = (uint32_t)(exponent - f->min_exponent);
  return (uint32_t)steps + (binade << f->mantissa_bits);
}

static uint32_t encode_double(const struct format *f, double x, bool saturate, bool ftz) {
  assert(f->bits <= 32);
  uint32_t sign = sign_code(f, signbit(x) != 0);
  if (isnan(x)) {
    return f->has_nan ? f->nan_code | sign : f->max_code;
  }
  uint32_t code = magnitude_code(f, fabs(x), saturate, ftz);
  return f->one_zero && code == 0 ? 0 : code | sign;
}

uint32_t round_encode(const struct format *f, float x, bool saturate, bool ftz) {
  return encode_double(f, (double)x, saturate, ftz);
}

float round_decode(const struct format *f, uint32_t code) {
  assert(f->bits <= 32);
  uint32_t sign = sign_code(f, true);
  uint32_t magnitude = code & (sign - 1);
  bool negative = (code & sign) != 0;
  uint32_t field = magnitude >> f->mantissa_bits;
  uint32_t fraction = magnitude & (((uint32_t)1 << f->mantissa_bits) - 1);
  double value;
  if (f->one_zero && negative && magnitude == 0) {
    return NAN;
  } else if (magnitude <= f->max_code) {
    uint32_t implied = field == 0 ? 0 : (uint32_t)1 << f->mantissa_bits;
    int exponent = f->min_exponent + (field == 0 ? 0 : (int)field - 1);
    value = scalbn((double)(fraction + implied), exponent - f->mantissa_bits);
  } else {
    value = f->has_inf && magnitude == f->inf_code ? (double)INFINITY : (double)NAN;
  }
  return (float)(negative ? -value : value);
}

float round_value(const struct format *f, float x, bool saturate, bool ftz) {
  return (float)round_double(f, (double)x, saturate, ftz);
}

double round_double(const struct format *f, double x, bool saturate, bool ftz) {
  if (f->id == FORMAT_FP64) {
    return ftz && fabs(x) < f->tiny ? copysign(0, x) : x;
  }
  return (double)round_decode(f, encode_double(f, x, saturate, ftz));
}

// ---- The kernels ----

enum { BLOCK = 1024 };  // floats; even, so that no two fp4 values of one byte are parted

static const uint32_t sign_bit = 0x80000000;
static const uint32_t inf_bits = 0x7f800000;

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Magnitudes compare as signed integers, for which SSE2 has an instruction.
static bool less(uint32_t a, uint32_t b) {
  return (int32_t)a < (int32_t)b;
}

// What the loops need of a mode, computed once per array. "Bits" are those of a float.
struct kernel {
  // formats with the exponents of fp32 (bf16, tf32, fp32 itself) are rounded as integers: their subnormals are fp32's
  bool wide;
  uint32_t shift; // mantissa bits that go
  uint32_t half;  // just under half a step, and half a step with the odd bit
  uint32_t odd;
  uint32_t keep;

  // the others by adding and subtracting `magic` steps, whose own step in fp32 is the format's at that magnitude
  uint32_t tiny;     // bits of the smallest normal
  uint32_t magic;    // bits to add to those of a power of two to have its magic number
  uint32_t overflow; // bits of the smallest magnitude that rounds beyond the largest finite value

  // results, as bits for values and as codes for codes
  uint32_t sign;      // the sign bit, and where it goes
  uint32_t nan_sign;  // the same, of NaN
  uint32_t zero_sign; // the same, of zero
  uint32_t flush;     // the smallest magnitude not made zero
  uint32_t over;      // in place of what overflows
  uint32_t nan;       // in place of NaN
};
