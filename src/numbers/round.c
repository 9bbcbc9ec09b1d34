// Rounding. First the plain reference, which follows the definition in exact double arithmetic and
// is the one to read; then the array kernels, which must agree with it bit for bit.
//
// The arrays are worked on in blocks that stay in the first-level cache, one simple loop after
// another, because such loops become vector code with every compiler, at no alignment and with x
// and y the same array.
#include "round.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

// Here and in all statistics each operation rounds to its type, so that the bits are the same on
// every machine. -ffp-contract=off, which CMakeLists.txt sets, sees to the rest.
#if FLT_EVAL_METHOD != 0 || defined(__FAST_MATH__)
#error "float and double must be computed as such: use SSE2 instead of x87, and no -ffast-math"
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "codes are copied from memory as they are, which must be little-endian"
#endif

// ---- The reference ----

static uint32_t sign_code(const struct format *f, bool negative) {
  return negative ? (uint32_t)1 << (f->bits - 1) : 0;
}

static uint32_t overflow_code(const struct format *f, bool saturate) {
  bool saturates = f->saturation == FORMAT_ALWAYS_SATURATES ||
                   (f->saturation == FORMAT_SATURATES_IF_ASKED && saturate);
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

// The code of a magnitude: how many steps it is, of its binade or the subnormals, and which binade.
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
  // Steps count the implied one too, which therefore adds one to the exponent field: 0 below tiny,
  // 1 from there. Rounding up to the next binade carries in the same way.
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

double round_double(const struct format *f, double x, bool saturate, bool ftz) {
  if (f->id == FORMAT_FP64) {
    return ftz && fabs(x) < f->tiny ? copysign(0, x) : x;
  }
  return (double)round_decode(f, encode_double(f, x, saturate, ftz));
}

// ---- The kernels ----

// Each loop is compiled twice, and the loader takes the one for the processor at hand: AVX2 halves
// its time. Both do the same operations, none of them fused, so the results are the same. The
// choice is made before the thread and memory sanitizers are ready, which therefore go without.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define EARLY_CODE_IS_UNSAFE
#endif
#elif defined(__SANITIZE_THREAD__)
#define EARLY_CODE_IS_UNSAFE
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(EARLY_CODE_IS_UNSAFE)
#define VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define VECTORS
#endif

enum { BLOCK = 1024 };  // floats; even, so that no two fp4 values of one byte are parted

static const uint32_t sign_bit = 0x80000000;
static const uint32_t inf_bits = 0x7f800000;
static const uint32_t quiet_nan = 0x7fc00000;

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

// A choice without a branch. From `?` GCC makes one, around the float sum before it, and then no
// vector code.
static uint32_t choose(bool first, uint32_t a, uint32_t b) {
  uint32_t mask = 0 - (uint32_t)first;
  return (a & mask) | (b & ~mask);
}

// What the loops need of a mode, computed once per array. "Bits" are a float's, without its sign.
struct kernel {
  bool wide;   // the format has fp32's exponents, so its rounding is integer arithmetic on the bits
  int shift;   // mantissa bits that fp32 has and the format has not
  float up;    // 2^scale_log2
  float down;  // 2^-scale_log2

  uint32_t nonzero;    // bits of the smallest magnitude that does not become zero
  uint32_t zero_sign;  // the sign bit where the sign of what becomes zero is kept
  uint32_t tiny;       // bits of the smallest normal
  uint32_t overflow;   // bits of the smallest magnitude that rounds beyond the largest finite value
  uint32_t over_code;  // what that becomes
  uint32_t nan_code;   // what NaN becomes; any code if there is none
};

static struct kernel kernel_make(const struct round_mode *mode) {
  const struct format *f = mode->format;
  assert(f->bits <= 32 && mode->scale_log2 >= -126 && mode->scale_log2 <= 126);
  double cliff = format_cliff(f, mode->ftz);
  float nonzero = (float)cliff;
  if ((double)nonzero <= cliff) {
    nonzero = nextafterf(nonzero, INFINITY);
  }
  float overflow = (float)format_overflow(f);
  if ((double)overflow < format_overflow(f)) {
    overflow = nextafterf(overflow, INFINITY);
  }
  return (struct kernel){
      .wide = f->exponent_bits == 8,
      .shift = 23 - f->mantissa_bits,
      .up = ldexpf(1, mode->scale_log2),
      .down = ldexpf(1, -mode->scale_log2),
      .nonzero = bits_of(nonzero),
      .zero_sign = f->one_zero ? 0 : sign_bit,
      .tiny = bits_of((float)f->tiny),
      .overflow = bits_of(overflow),
      .over_code = overflow_code(f, mode->saturate),
      .nan_code = f->nan_code,
  };
}

VECTORS static void scale_block(float scale, float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    x[i] *= scale;
  }
}

// Makes zero what becomes zero, which leaves the loops below nothing to do for ftz and for a zero
// without sign.
VECTORS static void flush_block(uint32_t nonzero, uint32_t zero_sign, float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = bits_of(x[i]);
    x[i] = float_of(choose(less(bits & ~sign_bit, nonzero), bits & zero_sign, bits));
  }
}

// For the format without NaN, where it saturates as +infinity does.
VECTORS static void drop_nan_block(float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = bits_of(x[i]);
    x[i] = float_of(choose(less(inf_bits, bits & ~sign_bit), inf_bits, bits));
  }
}

// Rounds on the bits: half a step less one is added, and one more if the last bit to stay is odd;
// the carry moves on to the next binade, from the subnormals to the normals and from the last
// binade to infinity, as the layout has it.
VECTORS static void round_wide_block(int shift, float *x, size_t n) {
  uint32_t half = ((uint32_t)1 << shift >> 1) - (shift > 0);
  uint32_t odd = shift > 0;
  uint32_t keep = ~(((uint32_t)1 << shift) - 1);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = bits_of(x[i]);
    uint32_t magnitude = bits & ~sign_bit;
    uint32_t rounded = (magnitude + half + (magnitude >> shift & odd)) & keep;
    rounded = choose(less(inf_bits, magnitude), quiet_nan, rounded);
    x[i] = float_of(rounded | (bits & sign_bit));
  }
}

// Bits of the number to add to a magnitude so that fp32 itself rounds it: the power of two whose
// step in fp32 is the step of the format there, which is constant below its smallest normal. Its
// sum with the magnitude stays in one binade of fp32, and an even number of steps makes an even
// sum, so ties go where they should.
static uint32_t magic_bits(uint32_t magnitude, uint32_t tiny, int shift) {
  uint32_t binade = magnitude & inf_bits;
  return choose(less(binade, tiny), tiny, binade) + ((uint32_t)shift << 23);
}

// The magic number is itself beyond fp32 for huge magnitudes, but those overflow and the sum is not
// used.
VECTORS static void round_narrow_block(struct kernel k, uint32_t over, float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = bits_of(x[i]);
    uint32_t magnitude = bits & ~sign_bit;
    float magic = float_of(magic_bits(magnitude, k.tiny, k.shift));
    uint32_t rounded = bits_of((float_of(magnitude) + magic) - magic);
    uint32_t special = choose(less(inf_bits, magnitude), quiet_nan, over);
    rounded = choose(less(magnitude, k.overflow), rounded, special);
    x[i] = float_of(rounded | (bits & sign_bit));
  }
}

// As round_narrow_block, but keeps the number of steps, which is the code but for the binade.
VECTORS static void encode_narrow_block(struct kernel k, int sign_shift, const float *x,
                                        uint32_t *codes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = bits_of(x[i]);
    uint32_t magnitude = bits & ~sign_bit;
    uint32_t magic = magic_bits(magnitude, k.tiny, k.shift);
    uint32_t steps = bits_of(float_of(magnitude) + float_of(magic)) - magic;
    uint32_t binade = magic - k.tiny - ((uint32_t)k.shift << 23);
    uint32_t code = steps + (binade >> k.shift);
    uint32_t special = choose(less(inf_bits, magnitude), k.nan_code, k.over_code);
    code = choose(less(magnitude, k.overflow), code, special);
    codes[i] = code | (bits & sign_bit) >> sign_shift;
  }
}

VECTORS static void encode_wide_block(int shift, const float *x, uint32_t *codes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    codes[i] = bits_of(x[i]) >> shift;
  }
}

// Copies a block and brings it to where the rounding loops apply: scaled, and free of the few
// special cases.
static void prepare_block(const struct kernel *k, const struct round_mode *mode, const float *x,
                          float *y, size_t n) {
  if (x != y) {
    memcpy(y, x, n * sizeof *y);
  }
  if (mode->scale_log2 != 0) {
    scale_block(k->up, y, n);
  }
  if (mode->ftz || mode->format->one_zero) {
    flush_block(k->nonzero, k->zero_sign, y, n);
  }
  if (!mode->format->has_nan) {
    drop_nan_block(y, n);
  }
}

static void round_block(const struct kernel *k, const struct round_mode *mode, float *x, size_t n) {
  if (k->wide) {
    round_wide_block(k->shift, x, n);
  } else {
    round_narrow_block(*k, bits_of(round_decode(mode->format, k->over_code)), x, n);
  }
}

static size_t block_size(size_t done, size_t n) {
  return n - done < BLOCK ? n - done : BLOCK;
}

void round_array(const struct round_mode *mode, const float *x, float *y, size_t n) {
  if (mode->format->id == FORMAT_FP64) {  // holds every float, and takes any scale back
    if (n > 0 && x != y) {
      memcpy(y, x, n * sizeof *y);
    }
    return;
  }
  struct kernel k = kernel_make(mode);
  for (size_t done = 0, size; done < n; done += size) {
    size = block_size(done, n);
    prepare_block(&k, mode, x + done, y + done, size);
    round_block(&k, mode, y + done, size);
    if (mode->scale_log2 != 0) {
      scale_block(k.down, y + done, size);
    }
  }
}

// Stores n codes at element `at` of an array of them.
VECTORS static void pack_block(const struct format *f, const uint32_t *restrict codes,
                               unsigned char *restrict out, size_t at, size_t n) {
  if (f->bits == 4) {
    out += at / 2;
    for (size_t i = 0; i + 1 < n; i += 2) {
      out[i / 2] = (unsigned char)(codes[i] | codes[i + 1] << 4);
    }
    if (n % 2 != 0) {
      out[n / 2] = (unsigned char)codes[n - 1];
    }
  } else if (f->bits == 8) {
    out += at;
    for (size_t i = 0; i < n; i++) {
      out[i] = (unsigned char)codes[i];
    }
  } else if (f->bits == 16) {
    uint16_t half[BLOCK];
    for (size_t i = 0; i < n; i++) {
      half[i] = (uint16_t)codes[i];
    }
    memcpy(out + at * sizeof half[0], half, n * sizeof half[0]);
  } else {
    memcpy(out + at * sizeof codes[0], codes, n * sizeof codes[0]);
  }
}

void round_encode_array(const struct round_mode *mode, const float *x, void *codes, size_t n) {
  const struct format *f = mode->format;
  struct kernel k = kernel_make(mode);
  for (size_t done = 0, size; done < n; done += size) {
    size = block_size(done, n);
    float block[BLOCK];
    uint32_t block_codes[BLOCK];
    prepare_block(&k, mode, x + done, block, size);
    if (k.wide) {
      round_wide_block(k.shift, block, size);
      encode_wide_block(k.shift, block, block_codes, size);
    } else {
      encode_narrow_block(k, 32 - f->bits, block, block_codes, size);
    }
    pack_block(f, block_codes, codes, done, size);
  }
}

VECTORS static void decode_wide_block(int shift, const uint32_t *codes, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) {
    y[i] = float_of(codes[i] << shift);
  }
}

VECTORS static void decode_bf16_block(const uint16_t *codes, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) {
    y[i] = float_of((uint32_t)codes[i] << 16);
  }
}

// Below the smallest normal the fraction is read as that of tiny + fraction, which fp32 holds, and
// tiny subtracted again.
VECTORS static void decode_fp16_block(const uint16_t *codes, float *y, size_t n) {
  const uint32_t rebias = (uint32_t)(127 - 15) << 23;
  const uint32_t tiny = (uint32_t)(127 - 14) << 23;
  for (size_t i = 0; i < n; i++) {
    uint32_t magnitude = codes[i] & 0x7fffU;
    uint32_t bits = magnitude << 13;
    uint32_t small = bits_of(float_of(bits + tiny) - float_of(tiny));
    uint32_t value = choose(less(magnitude, 0x400), small, bits + rebias);
    uint32_t top = choose(less(magnitude, 0x7c00), 0, inf_bits);
    y[i] = float_of(value | top | (codes[i] & 0x8000U) << 16);
  }
}

static void decode_16_bits(const struct format *f, const unsigned char *codes, float *y, size_t n) {
  for (size_t done = 0, size; done < n; done += size) {
    size = block_size(done, n);
    uint16_t block[BLOCK];
    memcpy(block, codes + done * sizeof block[0], size * sizeof block[0]);
    if (f->id == FORMAT_FP16) {
      decode_fp16_block(block, y + done, size);
    } else {
      decode_bf16_block(block, y + done, size);
    }
  }
}

static void decode_32_bits(const struct format *f, const unsigned char *codes, float *y, size_t n) {
  for (size_t done = 0, size; done < n; done += size) {
    size = block_size(done, n);
    uint32_t block[BLOCK];
    memcpy(block, codes + done * sizeof block[0], size * sizeof block[0]);
    decode_wide_block(23 - f->mantissa_bits, block, y + done, size);
  }
}

// So few codes that a table of their values is quicker than any arithmetic.
static void decode_few_bits(const struct format *f, const unsigned char *codes, float *y,
                            size_t n) {
  float values[256];
  for (uint32_t code = 0; code < (uint32_t)1 << f->bits; code++) {
    values[code] = round_decode(f, code);
  }
  if (f->bits == 8) {
    for (size_t i = 0; i < n; i++) {
      y[i] = values[codes[i]];
    }
    return;
  }
  for (size_t i = 0; i < n; i++) {
    y[i] = values[codes[i / 2] >> (i % 2 * 4) & 0xf];
  }
}

void round_decode_array(const struct format *f, const void *codes, float *y, size_t n) {
  assert(f->bits <= 32);
  if (f->bits <= 8) {
    decode_few_bits(f, codes, y, n);
  } else if (f->bits == 16) {
    decode_16_bits(f, codes, y, n);
  } else {
    decode_32_bits(f, codes, y, n);
  }
}

// ---- Counting ----

// Counts of one block: x as given, scaled and rounded, all of the same n. 32-bit sums, so that a
// vector holds many.
VECTORS static void count_block(const struct kernel *k, const float *x, const float *scaled,
                                const float *rounded, size_t n, struct round_count *count) {
  uint32_t overflow = 0;
  uint32_t zero = 0;
  uint32_t subnormal = 0;
  uint32_t exact = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t before = bits_of(x[i]) & ~sign_bit;
    uint32_t after = bits_of(rounded[i]) & ~sign_bit;
    uint32_t finite = less(before, inf_bits);
    overflow += finite & !less(bits_of(scaled[i]) & ~sign_bit, k->overflow);
    zero += (before != 0) & (after == 0);
    subnormal += (after != 0) & less(after, k->tiny);
    exact += finite & (rounded[i] * k->down == x[i]);
  }
  count->overflow += overflow;
  count->zero += zero;
  count->subnormal += subnormal;
  count->exact += exact;
}

void round_count_array(const struct round_mode *mode, const float *x, size_t n,
                       struct round_count *count) {
  const struct round_mode fp32 = {.format = &formats[FORMAT_FP32]};
  bool holds_all = mode->format->id == FORMAT_FP64;
  const struct round_mode *m = holds_all ? &fp32 : mode;
  struct kernel k = kernel_make(m);
  if (holds_all) {
    k.tiny = 0;
  }
  for (size_t done = 0, size; done < n; done += size) {
    size = block_size(done, n);
    float scaled[BLOCK];
    float rounded[BLOCK];
    memcpy(scaled, x + done, size * sizeof scaled[0]);
    scale_block(k.up, scaled, size);
    prepare_block(&k, m, x + done, rounded, size);
    round_block(&k, m, rounded, size);
    count_block(&k, x + done, scaled, rounded, size, count);
  }
}
