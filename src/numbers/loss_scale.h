// Loss scales. A training that stores gradients in a narrow format multiplies the loss, and with it
// every gradient, by a power of two S: large enough that small gradients stay normal numbers, small
// enough that large ones stay finite; and divides by S before the weights are updated. Pure
// arithmetic. Source: "Mixed Precision Training", arXiv 1710.03740, and the dynamic scale that
// frameworks derived from it.
#ifndef LOSS_SCALE_H
#define LOSS_SCALE_H

#include "format.h"

#include <stdbool.h>
#include <stdint.h>

// The smallest k with 2^k * magnitude >= threshold. Both > 0 and finite.
int loss_scale_to_reach(double magnitude, double threshold);

// The scales that keep gradients from gmin to gmax (magnitudes, > 0 and finite) normal and finite
// in f. lowest <= S <= highest; as powers of two 2^first to 2^last. Empty if last < first.
struct loss_scale_range {
  double lowest, highest;
  int first, last;
};
struct loss_scale_range loss_scale_range(double gmin, double gmax, enum format_id f);

// A dynamic scale: halved by a step whose gradients overflow (the step is skipped), doubled after
// `interval` steps in a row that did not, up to 2^LOSS_SCALE_MAX.
enum { LOSS_SCALE_MAX = 126 };
struct loss_scaler {
  int scale_log2;
  uint64_t interval;  // >= 1
  uint64_t clean;     // steps in a row
};
// n steps, the largest gradient of each being gmax (>= 0, finite). How many are skipped. The time
// it takes does not depend on n.
uint64_t loss_scaler_steps(struct loss_scaler *s, double gmax, uint64_t n, enum format_id f);

#endif
