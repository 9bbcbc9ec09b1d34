// How much memory a conversion will need, by what the survey knows before it, and how much there
// is.
//
// A conversion has the engine, weights, and values of a run. Weights are there as fp32 and as the
// pair that is compared, each prepared by the engine; beyond 32 MiB they lie in files and are
// mapped. What a run's values take, depends on the network more than on anything that is known
// beforehand: samples are multiplied by what the largest values of image networks are to their
// inputs. So
//
//   120 MB + 8.5 * weights up to 32 MiB + 2 * weights beyond + 32 * largest sample
//
// Measured on 49 real models of up to 11 MB and on four made-up ones of 64 to 768 MiB (peak memory
// of one job on one thread, tests/bench/memory): it is three times what the smallest take, which is
// 40 MB, and 0.8 to 1.7 times what those take that take more than 100 MB.
#ifndef MEMORY_H
#define MEMORY_H

#include "survey.h"

#include <stdint.h>

struct memory_need {
  double least;     // bytes; without the values of a run, which are guessed
  double expected;  // with them
};
struct memory_need memory_needed(const struct surveyed *s);

// Bytes that can be allocated on this machine, within the limits of our control groups. UINT64_MAX
// if nothing tells.
uint64_t memory_available(void);

#endif
