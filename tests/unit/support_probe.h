// What the tests of the engine and its operators share: a session of a small message (see
// support_message.h), and a place for whatever the operators in it see.
//
//   struct probing *r = *state;        // from probing_set_up
//   Onnx__ModelProto *m = message_new_model(); ...
//   probing_open(r, m, OPTIMISE_ALL);
//   probing_run(r, x, n, NULL, 0);
//   r->observed[0] ...
#ifndef SUPPORT_PROBE_H
#define SUPPORT_PROBE_H

#include "engine.h"
#include "support_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

enum { LEVELS = 4 };  // of optimisation

struct probing {
  struct engine *engine;
  struct stats observed[8];
  struct compare compared[2];
  struct updates updates[4];
  struct probe probe;
  struct session *session;
  struct diag diag;
};

// cmocka's set-up and tear-down of one test: the engine is open.
int probing_set_up(void **state);
int probing_tear_down(void **state);

// Closes the session, if there is one, and forgets what was seen.
void probing_restart(struct probing *r);
enum status probing_try_open(struct probing *r, const Onnx__ModelProto *m,
                             struct session_options options);
// Restarts and opens at that level; fails the test if that fails.
void probing_open(struct probing *r, const Onnx__ModelProto *m, int level);
void probing_ok(const struct probing *r, enum status status);

struct array probing_vector(const char *name, const float *x, int64_t n);
// Runs the session on vector "x" and other inputs; the result is output "y".
struct array probing_run(struct probing *r, const float *x, int64_t n, const struct array *others,
                         size_t n_others);

extern const float five[5];  // -3, -1, 0, 2, 4

#endif
