// Which loss scales keep gradients in a format's range, and how a dynamic one moves. See
// loss_scale.h.
#include "loss_scale.h"

#include <math.h>

// log2 may round across a whole number: exact products correct it.
int loss_scale_to_reach(double magnitude, double threshold) {
  int k = (int)ceil(log2(threshold / magnitude));
  while (ldexp(magnitude, k) < threshold)
    k++;
  while (ldexp(magnitude, k - 1) >= threshold)
    k--;
  return k;
}

struct loss_scale_range loss_scale_range(double gmin, double gmax, enum format_id f) {
  struct loss_scale_range range = {
      .lowest = formats[f].tiny / gmin,
      .highest = formats[f].max / gmax,
      .first = loss_scale_to_reach(gmin, formats[f].tiny),
      .last = loss_scale_to_reach(gmax, formats[f].max),
  };
  if (ldexp(gmax, range.last) > formats[f].max)
    range.last--;
  return range;
}

static bool overflows(const struct loss_scaler *s, double gmax, enum format_id f) {
  return ldexp(gmax, s->scale_log2) >= format_overflow(&formats[f]);
}

static uint64_t skip_steps(struct loss_scaler *s, double gmax, uint64_t *n, enum format_id f) {
  uint64_t skipped = 0;
  for (; *n > 0 && overflows(s, gmax, f); --*n, skipped++) {
    s->scale_log2--;
    s->clean = 0;
  }
  return skipped;
}

uint64_t loss_scaler_steps(struct loss_scaler *s, double gmax, uint64_t n, enum format_id f) {
  uint64_t skipped = skip_steps(s, gmax, &n, f);
  while (n >= s->interval - s->clean && s->scale_log2 < LOSS_SCALE_MAX) {
    n -= s->interval - s->clean;
    s->clean = 0;
    s->scale_log2++;
    if (n == 0 || !overflows(s, gmax, f))
      continue;
    // From here on it goes round: a step that is skipped, and `interval` that are not.
    skipped += skip_steps(s, gmax, &n, f) + n / (s->interval + 1);
    n %= s->interval + 1;
  }
  s->clean += n < s->interval - s->clean ? n : 0;
  return skipped;
}
