// Checkpoints: weights are matched by name between files of any kind, their changes counted over
// every element, and what does not match is told.
#include "checkpoints.h"

#include "plan.h"
#include "support_samples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

struct warnings {
  char text[4096];
};

static void collect(void *context, const char *text) {
  struct warnings *w = context;
  strncat(w->text, text, sizeof w->text - strlen(w->text) - 1);
  strncat(w->text, "\n", sizeof w->text - strlen(w->text) - 1);
}

static void ok(struct fixture *f, enum status status) {
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
}

// y = x * w + b, with weights w [2,2] and b [2].
static struct fixture *linear(struct warnings *w) {
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 1, 1, 1});
  build_floats(&f->b, "b", "float[2]", (float[]){0, 0});
  build_node(&f->b, "MatMul", "x w", "m");
  build_node(&f->b, "Add", "m b", "y");
  build_output(&f->b, "y", "float[1,2]");
  fixture_build(f);
  f->d.warn = collect;
  f->d.warn_context = w;
  return f;
}

static const char *path_of(struct fixture *f, const char *name) {
  return arena_printf(&f->arena, "%s/%s", f->folder, name);
}

// A file with w = {weight, weight, weight, 1} and b = {0, 1}.
static const char *onnx(struct fixture *f, const char *name, float weight) {
  struct build b;
  struct model m;
  uint8_t *bytes;
  size_t size;
  build_begin(&b, &f->arena, 17);
  build_floats(&b, "w", "float[2,2]", (float[]){weight, weight, weight, 1});
  build_floats(&b, "b", "float[2]", (float[]){0, 1});
  build_input(&b, "x", "float");
  build_node(&b, "Identity", "x", "y");
  build_output(&b, "y", "float");
  build_model(&b, &m);
  ok(f, model_pack(m.proto, &f->arena, &bytes, &size, &f->d));
  write_bytes(f, name, bytes, size);
  return path_of(f, name);
}

static const char *safetensors(struct fixture *f, const char *name, float weight) {
  const float data[6] = {weight, weight, weight, 1, 0, 1};
  write_safetensors(f, name,
                    "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                    "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}",
                    data, sizeof data);
  return path_of(f, name);
}

static const struct updates *site(const struct fixture *f, const struct trace *t,
                                  const char *name) {
  for (size_t i = 0; i < t->n_sites; i++)
    if (strcmp(f->g.values[t->sites[i].value].name, name) == 0)
      return &t->updates[i];
  return NULL;
}

static void checkpoints_are_compared_by_name_whatever_their_kind(void **state) {
  (void)state;
  struct warnings w = {""};
  struct fixture *f = linear(&w);
  struct trace t, back;
  // Steps of 2^-12, lost in fp16, then of 1/4.
  const char *paths[] = {onnx(f, "a.onnx", 1), safetensors(f, "b.safetensors", 1 + 0x1p-12F),
                         onnx(f, "c.onnx", 1.25F + 0x1p-12F)};
  trace_init(&t, &f->g);
  t.window = 1;
  ok(f, checkpoints_trace(&t, &f->g, paths, 3, 1, NULL, &f->d));
  assert_string_equal(w.text, "");
  assert_int_equal(t.n_sites, 2);
  assert_int_equal(t.weight_steps, 2);
  const struct updates *weight = site(f, &t, "w");
  assert_int_equal(weight->runs, 2);
  assert_int_equal(weight->total.pairs, 8);
  assert_int_equal(weight->total.zero_updates, 2);
  assert_int_equal(weight->n_windows, 2);
  assert_true(updates_window_lost(&weight->windows[0], FORMAT_FP16) == 1);
  assert_true(updates_window_lost(&weight->windows[1], FORMAT_FP16) == 0);
  assert_int_equal(updates_count(&site(f, &t, "b")->total), 0);
  // A trace of weights alone is written and read.
  const char *path = path_of(f, "t.json");
  ok(f, trace_write(&t, &f->g, path, &f->d));
  ok(f, trace_read(&back, &f->g, path, &f->arena, &f->d));
  assert_int_equal(back.n_sites, 2);
  assert_int_equal(back.weight_steps, 2);
  assert_int_equal(site(f, &back, "w")->n_windows, 2);
  trace_free(&back);
  trace_free(&t);
  fixture_end(f);
}

static void checkpoints_tell_what_does_not_match(void **state) {
  (void)state;
  struct warnings w = {""};
  struct fixture *f = linear(&w);
  const float data[6] = {1, 2, 3, 4, 5, 6};
  write_safetensors(f, "b.safetensors",
                    "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}",
                    data, sizeof data);
  write_safetensors(f, "c.safetensors",
                    "{\"other\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}",
                    data, sizeof data);
  const char *paths[] = {onnx(f, "a.onnx", 1), path_of(f, "b.safetensors"),
                         path_of(f, "c.safetensors")};
  struct trace t;
  trace_init(&t, &f->g);
  ok(f, checkpoints_trace(&t, &f->g, paths, 3, 16, NULL, &f->d));
  assert_non_null(strstr(w.text, "b.safetensors: 1 weights have another shape"));
  assert_non_null(strstr(w.text, "the first is \"w\""));
  assert_non_null(strstr(w.text, "c.safetensors: 1 weights of the model are not in it"));
  assert_non_null(strstr(w.text, "c.safetensors: 1 of its weights are not in the model"));
  assert_non_null(strstr(w.text, "the first is \"other\""));
  assert_int_equal(site(f, &t, "w")->runs, 0);
  assert_int_equal(site(f, &t, "b")->runs, 2);
  trace_free(&t);
  fixture_end(f);
}

static void refuses(const char *const *paths, size_t n, struct fixture *f, const char *text) {
  struct trace t;
  trace_init(&t, &f->g);
  assert_int_not_equal(checkpoints_trace(&t, &f->g, paths, n, 16, NULL, &f->d), STATUS_OK);
  if (!strstr(f->d.message, text))
    fail_msg("\"%s\" is not in: %s", text, f->d.message);
  trace_free(&t);
  fixture_end(f);
}

static void checkpoints_that_cannot_be_compared_are_refused(void **state) {
  (void)state;
  struct warnings w = {""};
  struct fixture *f = linear(&w);
  const char *one[] = {onnx(f, "a.onnx", 1)};
  refuses(one, 1, f, "two checkpoints");

  f = linear(&w);
  const char *missing[] = {onnx(f, "a.onnx", 1), path_of(f, "none.onnx")};
  refuses(missing, 2, f, "");

  f = linear(&w);
  write_bytes(f, "b.npz", "", 0);
  const char *kind[] = {onnx(f, "a.onnx", 1), path_of(f, "b.npz")};
  refuses(kind, 2, f, "must be an .onnx or a .safetensors");

  f = linear(&w);
  const float data[1] = {1};
  write_safetensors(f, "b.safetensors",
                    "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", data,
                    sizeof data);
  const char *other[] = {onnx(f, "a.onnx", 1), path_of(f, "b.safetensors")};
  refuses(other, 2, f, "holds no weight");
}

static void checkpoints_are_read_within_the_limits_of_the_run(void **state) {
  (void)state;
  struct warnings w = {""};
  struct fixture *f = linear(&w);
  const char *paths[] = {onnx(f, "a.onnx", 1), onnx(f, "b.onnx", 2)};
  const struct model_limits narrow = {.messages = 3};
  struct trace t;
  trace_init(&t, &f->g);
  ok(f, checkpoints_trace(&t, &f->g, paths, 2, 1, NULL, &f->d));
  assert_int_equal(checkpoints_trace(&t, &f->g, paths, 2, 1, &narrow, &f->d), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, "messages"));
  assert_non_null(strstr(f->d.file, "a.onnx"));
  trace_free(&t);
  fixture_end(f);
}

// What the plan says of w after a checkpoint with `before` and one with `after`.
static struct weight_plan judged(float before, float after) {
  struct warnings w = {""};
  struct fixture *f = linear(&w);
  const char *paths[] = {onnx(f, "a.onnx", before), onnx(f, "b.onnx", after)};
  struct trace t;
  struct policy policy;
  struct plan plan;
  struct weight_plan found = {.value = -1};
  trace_init(&t, &f->g);
  ok(f, checkpoints_trace(&t, &f->g, paths, 2, 1, NULL, &f->d));
  ok(f, policy_load(&policy, "fp16", &f->arena, &f->d));
  ok(f, plan_make(&plan, &f->g, &t, &policy, NULL, &f->arena, &f->d));
  for (size_t i = 0; i < plan.n_weights; i++)
    if (strcmp(f->g.values[plan.weights[i].value].name, "w") == 0)
      found = plan.weights[i];
  assert_true(found.value >= 0);
  trace_free(&t);
  fixture_end(f);
  return found;
}

// No update, and updates that are not numbers, are no evidence that a narrow weight keeps them.
static void weights_of_which_no_update_was_seen_keep_their_master_copy(void **state) {
  (void)state;
  const float none[][2] = {{1, 1}, {1, NAN}, {NAN, NAN}, {1, INFINITY}, {INFINITY, INFINITY}};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    struct weight_plan w = judged(none[i][0], none[i][1]);
    assert_false(w.seen);
    assert_true(w.master_copy);
  }
  struct weight_plan large = judged(1, 1.25F), small = judged(1, 1 + 0x1p-12F);
  assert_true(large.seen && !large.master_copy);
  assert_true(small.seen && small.master_copy && small.lost_fraction == 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checkpoints_are_compared_by_name_whatever_their_kind),
      cmocka_unit_test(checkpoints_tell_what_does_not_match),
      cmocka_unit_test(checkpoints_that_cannot_be_compared_are_refused),
      cmocka_unit_test(weights_of_which_no_update_was_seen_keep_their_master_copy),
      cmocka_unit_test(checkpoints_are_read_within_the_limits_of_the_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
