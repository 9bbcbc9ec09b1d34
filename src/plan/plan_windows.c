// Scales over time. A training that chooses scales as it runs takes a new one for each window; a
// model that is written once has one for all. This follows the first and derives the second. See
// plan_windows.h.
#include "plan_windows.h"

#include <assert.h>
#include <math.h>

int scale_of_range(double absmax, double margin, enum format_id f) {
  assert(absmax > 0 && isfinite(absmax) && margin >= 1);
  double largest = formats[f].max, range = absmax * margin;
  int k = (int)floor(log2(largest / range));
  // log2 may round across a whole number: correct it by exact products.
  while (ldexp(range, k) > largest)
    k--;
  while (ldexp(range, k + 1) <= largest)
    k++;
  return k < SCALE_LOG2_MIN ? SCALE_LOG2_MIN : k > SCALE_LOG2_MAX ? SCALE_LOG2_MAX : k;
}

static void begin_track(struct scale_track *t, int scale) {
  t->known = true;
  t->scale_log2 = t->lowest = t->highest = scale;
}

static void move_to(struct scale_track *t, int scale) {
  t->moves++;
  t->lowest = scale < t->lowest ? scale : t->lowest;
  t->highest = scale > t->highest ? scale : t->highest;
  t->scale_log2 = t->lowest;
}

struct scale_track scale_over_windows(const struct stats *s, enum format_id f,
                                      const struct scale_rule *rule, int *windows) {
  struct scale_track track = {0};
  int current = 0;
  for (size_t w = 0; w < s->n_windows; w++) {
    double absmax = (double)s->windows[w].absmax;
    if (absmax > 0 && isfinite(absmax)) {
      int wanted = scale_of_range(absmax, rule->margin, f);
      bool overflows = wanted < current;  // at the scale of the window before
      if (!track.known) {
        begin_track(&track, wanted);
        current = wanted;
      } else if (wanted != current &&
                 (overflows || ldexp(1, wanted - current) >= rule->hysteresis)) {
        move_to(&track, wanted);
        current = wanted;
      }
    }
    if (windows)
      windows[w] = current;
  }
  track.unstable = ldexp(1, track.highest - track.lowest) > rule->max_spread;
  return track;
}
