// Sessions of small messages, and what their operators see: see support_probe.h.
#include "support_probe.h"

#include <stdlib.h>

enum { OBSERVED = 8, COMPARED = 2, UPDATES = 4 };

int probing_set_up(void **state) {
  struct probing *r = calloc(1, sizeof *r);
  assert_non_null(r);
  for (size_t i = 0; i < OBSERVED; i++)
    stats_init(&r->observed[i]);
  for (size_t i = 0; i < COMPARED; i++)
    compare_init(&r->compared[i]);
  r->probe = (struct probe){.observed = r->observed,
                            .n_observed = OBSERVED,
                            .compared = r->compared,
                            .n_compared = COMPARED,
                            .updates = r->updates,
                            .n_updates = UPDATES};
  enum status status = engine_open(&r->engine, NULL, &r->diag);
  if (status != STATUS_OK)
    diag_print(&r->diag, stderr);
  *state = r;
  return status != STATUS_OK;
}

void probing_restart(struct probing *r) {
  session_close(r->session);
  r->session = NULL;
  for (size_t i = 0; i < OBSERVED; i++)
    stats_free(&r->observed[i]);
  for (size_t i = 0; i < COMPARED; i++)
    compare_init(&r->compared[i]);
  for (size_t i = 0; i < UPDATES; i++)
    updates_free(&r->updates[i]);
  diag_clear(&r->diag);
}

int probing_tear_down(void **state) {
  struct probing *r = *state;
  probing_restart(r);
  engine_close(r->engine);
  free(r);
  arena_free(&message_arena);
  return 0;
}

enum status probing_try_open(struct probing *r, const Onnx__ModelProto *m,
                             struct session_options options) {
  size_t size = onnx__model_proto__get_packed_size(m);
  uint8_t *bytes = arena_alloc(&message_arena, size);
  onnx__model_proto__pack(m, bytes);
  options.probe = &r->probe;
  return session_open(&r->session, r->engine, bytes, size, &options, &r->diag);
}

void probing_ok(const struct probing *r, enum status status) {
  if (status != STATUS_OK)
    diag_print(&r->diag, stderr);
  assert_int_equal(status, STATUS_OK);
}

void probing_open(struct probing *r, const Onnx__ModelProto *m, int level) {
  probing_restart(r);
  probing_ok(r, probing_try_open(r, m,
                                 (struct session_options){.optimisation = (enum optimisation)level,
                                                          .threads = 2}));
}

struct array probing_vector(const char *name, const float *x, int64_t n) {
  return (struct array){.name = name,
                        .elem_type = FLOAT,
                        .rank = 1,
                        .dims = {n},
                        .data = x,
                        .size = (size_t)n * sizeof *x};
}

struct array probing_run(struct probing *r, const float *x, int64_t n, const struct array *others,
                         size_t n_others) {
  struct array inputs[4] = {probing_vector("x", x, n)}, y;
  for (size_t i = 0; i < n_others; i++)
    inputs[i + 1] = others[i];
  const char *name = "y";
  probing_ok(r, session_run(r->session, inputs, 1 + n_others, &name, 1, &y, &r->diag));
  return y;
}

const float five[5] = {-3, -1, 0, 2, 4};
