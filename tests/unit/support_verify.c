// What the tests of verify share. See support_verify.h.
#include "support_verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- samples as .npy files ----

void write_array(struct planning *f, const char *name, const char *descr, const char *shape,
                 const void *data, size_t size) {
  char header[118];  // with the ten bytes before it: a multiple of 64
  int length = snprintf(header, sizeof header,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
  memset(header + length, ' ', sizeof header - (size_t)length);
  header[sizeof header - 1] = '\n';
  FILE *out = fopen(planning_path(f, name), "wb");
  assert_non_null(out);
  fwrite("\x93NUMPY\x01\x00", 1, 8, out);
  fwrite((const uint8_t[]){sizeof header, 0}, 1, 2, out);
  fwrite(header, 1, sizeof header, out);
  fwrite(data, 1, size, out);
  fclose(out);
}

void write_floats(struct planning *f, const char *name, const char *shape, const float *x,
                  size_t n) {
  write_array(f, name, "<f4", shape, x, n * sizeof *x);
}

// ---- running ----

struct engine *opened_engine(struct planning *f) {
  struct engine *engine;
  if (engine_open(&engine, NULL, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  return engine;
}

static const size_t steps[] = {0, 1, 2, 3};

// Verifies what planning_rewrite made on the samples of the folder, the first `calibrated` of which
// count as those that calibrated.
void verify_after(struct planning *f, struct verdict *v, size_t calibrated) {
  struct engine *engine = opened_engine(f);
  struct samples *samples;
  if (samples_open(&samples, &f->g, f->folder, &f->arena, &f->d) != STATUS_OK) {
    fail_msg("%s", f->d.message);
    return;
  }
  struct verify_options options = {.threads = 1,
                                   .steps = steps + calibrated,
                                   .n_steps = samples_count(samples) - calibrated,
                                   .held_out = calibrated > 0,
                                   .calibration = steps,
                                   .n_calibration = calibrated,
                                   .reference = &f->reference};
  assert_in_range(samples_count(samples), calibrated + 1, 4);
  f->reference = (struct reference){0};
  if (verify_run(v, &f->g, &f->emitted, &f->p, engine, samples, &options, &f->arena, &f->d) !=
      STATUS_OK)
    fail_msg("%s", f->d.message);
  samples_close(samples);
  engine_close(engine);
}

void verify(struct planning *f, struct verdict *v) {
  verify_after(f, v, 0);
}

const struct verdict_claim *claim_of(const struct verdict *v, const char *id) {
  for (int i = 0; i < v->n_claims; i++)
    if (strcmp(v->claims[i].claim->id, id) == 0)
      return &v->claims[i];
  return NULL;
}

void claims(struct planning *f, struct claim *list, int count) {
  f->policy.claims = list;
  f->policy.n_claims = count;
}

// y = x w, where w is 1 + 2^-10: exact in fp16 for x = 1 and 2, and rounded for 3.
void rounded_products(struct planning *f) {
  static struct claim list[] = {{.id = "abs", .metric = METRIC_MAX_ABS, .limit = 0x1p-11}};
  claims(f, list, 1);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1 + 0x1p-10f});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_all(f);
}
// What the engine computes of the samples of the folder, beside the source.
void compare_in_engine(struct planning *f, struct verdict *v, bool in_process) {
  struct engine *engine = opened_engine(f);
  struct samples *samples;
  assert_int_equal(samples_open(&samples, &f->g, f->folder, &f->arena, &f->d), STATUS_OK);
  struct trial trial = {.steps = steps,
                        .n_steps = samples_count(samples),
                        .threads = 1,
                        .source = &f->g,
                        .plan = &f->p,
                        .reference = &f->reference,
                        .in_process = in_process,
                        .seconds = 1000};
  assert_int_equal(verify_loads(v, &f->emitted, engine, samples, &trial, &f->d), STATUS_OK);
  samples_close(samples);
  engine_close(engine);
}
