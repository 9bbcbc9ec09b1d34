// What the tests of the trace share: one engine for all tests of a program, a trace of a fixture's
// samples (support_samples.h), and statistics beside what they should be.
#ifndef SUPPORT_TRACE_H
#define SUPPORT_TRACE_H

#include "support_samples.h"
#include "trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

// cmocka's set-up and tear-down of all tests: *state is the engine.
int engine_set_up(void **state);
int engine_tear_down(void **state);
void expect_ok(struct diag *d, enum status status);

struct trace_setting {
  size_t window, sample;
  int threads;
};
extern const struct trace_setting plain;  // every step is a window, every element counts

// Of all samples of the fixture, in order. The first wants them opened.
enum status try_trace(struct trace *t, struct fixture *f, struct engine *engine,
                      struct trace_setting set);
struct trace trace_samples(struct fixture *f, struct engine *engine, struct trace_setting set);
void end_trace(struct fixture *f, struct trace *t);  // and the fixture

const struct stats *stats_in(struct fixture *f, const struct trace *t, int scope, const char *name);
const struct stats *stats_of(struct fixture *f, const struct trace *t, const char *name);
void assert_histogram(const struct stats_histogram *a, const struct stats_histogram *b);
// Windows apart.
void assert_stats(const struct stats *a, const struct stats *b);
// The value's statistics are those of so many runs with these elements.
void assert_holds(struct fixture *f, const struct trace *t, const char *name, const float *x,
                  size_t n, size_t runs);

// To a file in the fixture's folder; its path.
const char *write_trace(struct fixture *f, const struct trace *t, const char *name);
char *file_text(struct fixture *f, const char *path);

#endif
