// The operators that watch update sites: each counts what it should, in every graph, and changes
// nothing of the model's result.
// needs: engine
#include "gather.h"
#include "support_numbers.h"
#include "support_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Restarts, whatever becomes of it.
static enum status try_open(struct probing *r, const Onnx__ModelProto *m, int level) {
  probing_restart(r);
  return probing_try_open(
      r, m, (struct session_options){.optimisation = (enum optimisation)level, .threads = 2});
}

static struct array tensor(const char *name, const float *x, int64_t rows, int64_t columns) {
  return (struct array){.name = name,
                        .elem_type = FLOAT,
                        .rank = 2,
                        .dims = {rows, columns},
                        .data = x,
                        .size = (size_t)(rows * columns) * sizeof *x};
}

static void run(struct probing *r, const struct array *inputs, size_t n) {
  const char *name = "y";
  struct array y;
  probing_ok(r, session_run(r->session, inputs, n, &name, 1, &y, &r->diag));
}

// A model whose inputs are x [rows, columns] and, if wanted, z of rank `rank`; y is Identity of x.
static Onnx__ModelProto *new_model(int rank) {
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 2);
  if (rank >= 0)
    message_input(m->graph, "z", FLOAT, rank);
  message_output(m->graph, "y", FLOAT, -1);
  message_node(m->graph, "Identity", "x", "y");
  return m;
}

static Onnx__NodeProto *watch(Onnx__ModelProto *m, const char *op, const char *inputs, int id) {
  Onnx__NodeProto *n =
      message_new_node(arena_printf(&message_arena, "narrowcast:%s", op), inputs,
                       arena_printf(&message_arena, "watched%d", (int)m->graph->n_node));
  message_set_int(n, "id", id);
  APPEND(m->graph, node, n);
  return n;
}

static uint64_t bin(const struct probing *r, int id, int d) {
  return r->updates[id].total.bins[d - UPDATES_MIN];
}

static const float thousands[6] = {1000, 1000, 1000, 1000, 1000, 1000};
static const float small[6] = {0.1F, 0.1F, 0.1F, 0, 1000, 0.1F};

static void update_counts_pairs_of_operands(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = new_model(2);
  watch(m, "Update", "x z", 0);
  watch(m, "Update", "z x", 1);
  for (int level = OPTIMISE_NONE; level <= OPTIMISE_ALL; level++) {
    probing_ok(r, try_open(r, m, level));
    struct array inputs[2] = {tensor("x", thousands, 2, 3), tensor("z", small, 2, 3)};
    run(r, inputs, 2);
    for (int id = 0; id < 2; id++) {
      assert_int_equal(r->updates[id].runs, 1);
      assert_int_equal(r->updates[id].total.pairs, 6);
      assert_int_equal(r->updates[id].total.zero_updates, 1);
      assert_int_equal(bin(r, id, -13), 4);
      assert_int_equal(bin(r, id, 0), 1);
    }
  }
}

static void update_broadcasts_as_the_addition_does(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = new_model(1);
  watch(m, "Update", "x z", 0);
  probing_ok(r, try_open(r, m, OPTIMISE_BASIC));
  const float row[3] = {0.1F, 0, 1000};
  struct array inputs[2] = {tensor("x", thousands, 2, 3), tensor("z", row, 1, 3)};
  inputs[1].rank = 1;
  inputs[1].dims[0] = 3;
  run(r, inputs, 2);
  assert_int_equal(bin(r, 0, -13), 2);
  assert_int_equal(bin(r, 0, 0), 2);
  assert_int_equal(r->updates[0].total.zero_updates, 2);
}

static void update_samples_other_places_in_each_run(void **state) {
  struct probing *r = *state;
  enum { N = 1000 };
  static float a[N], u[N];
  for (int i = 0; i < N; i++) {
    a[i] = 1;
    u[i] = i < N / 2 ? 1 : 1e-4F;
  }
  Onnx__ModelProto *m = new_model(2);
  watch(m, "Update", "x z", 0);
  r->probe.update_sample = 10;
  probing_ok(r, try_open(r, m, OPTIMISE_BASIC));
  struct array inputs[2] = {tensor("x", a, 1, N), tensor("z", u, 1, N)};
  for (int i = 0; i < 50; i++) {
    r->probe.window = (size_t)i / 25;
    run(r, inputs, 2);
  }
  r->probe.window = r->probe.update_sample = 0;
  assert_in_range(r->updates[0].total.pairs, 400, 500);
  double lost = lost_fraction(&r->updates[0], FORMAT_FP16);
  assert_true(lost > 0.45 && lost < 0.55);
  assert_int_equal(r->updates[0].n_windows, 2);
  assert_int_equal(r->updates[0].windows[0].updates + r->updates[0].windows[1].updates,
                   r->updates[0].total.pairs);
}

static void change_and_steps_count_differences_of_states(void **state) {
  struct probing *r = *state;
  const float before[6] = {64, 64, 64, 0, 64, 64}, after[6] = {64.01F, 64, 65, 1, 64.01F, 64.01F};
  const float sequence[6] = {64, 1, 64.01F, 2, 64.02F, 4};
  Onnx__ModelProto *m = new_model(2);
  watch(m, "Change", "x z", 0);
  watch(m, "Steps", "z", 1);
  Onnx__NodeProto *across = watch(m, "Steps", "z", 2);
  message_set_int(across, "axis", 1);
  probing_ok(r, try_open(r, m, OPTIMISE_BASIC));
  struct array inputs[2] = {tensor("x", before, 2, 3), tensor("z", after, 2, 3)};
  run(r, inputs, 2);
  assert_int_equal(bin(r, 0, -13), 3);
  assert_int_equal(bin(r, 0, -6), 1);
  assert_int_equal(r->updates[0].total.zero_updates, 1);
  assert_int_equal(r->updates[0].total.zero_accumulators, 1);
  assert_int_equal(r->updates[1].total.pairs, 3);
  assert_int_equal(r->updates[2].total.pairs, 4);

  probing_ok(r, try_open(r, m, OPTIMISE_BASIC));  // sizes differ; a sequence of three steps of two
  inputs[1] = tensor("z", sequence, 3, 2);
  inputs[0] = tensor("x", before, 1, 3);
  run(r, inputs, 2);
  assert_int_equal(r->updates[0].total.pairs, 0);
  assert_int_equal(bin(r, 1, -13), 2);
  assert_int_equal(bin(r, 1, 0), 2);
  inputs[1].dims[0] = 1;  // one step: no change
  inputs[1].size = 8;
  run(r, inputs, 2);
  assert_int_equal(r->updates[1].total.pairs, 4);
}

static void accumulate_simulates_sums_over_its_axes(void **state) {
  struct probing *r = *state;
  enum { N = 5000 };
  static float x[2 * N];
  for (int i = 0; i < 2 * N; i++)
    x[i] = 0.001F;
  Onnx__ModelProto *m = new_model(-1);
  const int64_t last = -1, first = 0;
  message_set_ints(watch(m, "Accumulate", "x", 0), "axes", &last, 1);
  message_set_ints(watch(m, "Accumulate", "x", 1), "axes", &first, 1);
  watch(m, "Accumulate", "x", 2);
  Onnx__NodeProto *squares = watch(m, "Accumulate", "x", 3);
  message_set_int(squares, "first_axis", 1);
  message_set_int(squares, "transform", GATHER_SQUARE);
  probing_ok(r, try_open(r, m, OPTIMISE_BASIC));
  struct array input = tensor("x", x, 2, N);
  run(r, &input, 1);
  assert_int_equal(r->updates[0].total.sums, 2);
  assert_int_equal(r->updates[0].total.pairs, 2 * (N - 1));
  assert_int_equal(r->updates[1].total.sums, N);
  assert_int_equal(r->updates[1].total.pairs, N);
  assert_int_equal(r->updates[2].total.sums, 1);
  // A sequential fp16 sum of 0.001 stalls at 4, of 5.
  double error = mean_error(&r->updates[0].total, UPDATES_FP16, UPDATES_SEQUENTIAL);
  assert_true(fabs(error - 0.2) < 1e-3);
  error = mean_error(&r->updates[0].total, UPDATES_FP16, UPDATES_PAIRWISE);
  assert_true(error < 0.01);
  error = mean_error(&r->updates[3].total, UPDATES_FP16, UPDATES_SEQUENTIAL);
  assert_true(error > 0.01);
}

static void dot_simulates_sums_of_products(void **state) {
  struct probing *r = *state;
  enum { K = 4096 };
  static float x[2 * K], w[K * 3];
  for (int i = 0; i < 2 * K; i++)
    x[i] = 1;
  for (int i = 0; i < K * 3; i++)
    w[i] = 1;
  Onnx__ModelProto *m = new_model(2);
  watch(m, "Dot", "x z", 0);
  Onnx__NodeProto *gemm = watch(m, "Dot", "x x", 1);
  message_set_int(gemm, "transB", 1);
  watch(m, "Dot", "x x", 2);  // does not fit
  probing_ok(r, try_open(r, m, OPTIMISE_BASIC));
  struct array inputs[2] = {tensor("x", x, 2, K), tensor("z", w, K, 3)};
  run(r, inputs, 2);
  assert_int_equal(r->updates[0].total.sums, 6);
  assert_int_equal(r->updates[1].total.sums, 4);
  assert_int_equal(r->updates[2].total.sums, 0);
  // Ones: fp16 stalls at 2048, bf16 at 256, trees are exact.
  const struct updates_piece *p = &r->updates[0].total;
  assert_true(p->errors[UPDATES_FP16][UPDATES_SEQUENTIAL].max == 0.5);
  assert_true(p->errors[UPDATES_BF16][UPDATES_SEQUENTIAL].max == 0.9375);
  assert_true(p->errors[UPDATES_FP16][UPDATES_PAIRWISE].max == 0);
  r->probe.update_sample = 100;  // still one whole sum
  probing_ok(r, try_open(r, m, OPTIMISE_BASIC));
  run(r, inputs, 2);
  r->probe.update_sample = 0;
  assert_int_equal(r->updates[0].total.sums, 1);
  assert_int_equal(r->updates[0].total.pairs, K - 1);
}

static void watchers_take_tensors_without_elements(void **state) {
  struct probing *r = *state;
  static const char *const ops[] = {"Update", "Change", "Dot"};
  for (size_t i = 0; i < 3; i++) {
    Onnx__ModelProto *m = new_model(2);
    watch(m, ops[i], "x z", 0);
    watch(m, "Steps", "x", 1);
    watch(m, "Accumulate", "z", 2);
    probing_ok(r, try_open(r, m, OPTIMISE_BASIC));
    float none = 0;
    struct array inputs[2] = {tensor("x", &none, 3, 0), tensor("z", &none, 0, 3)};
    inputs[1] = i == 2 ? inputs[1] : tensor("z", &none, 3, 0);
    run(r, inputs, 2);
    assert_int_equal(r->updates[0].total.pairs, 0);
  }
}

static void watchers_without_a_site_are_refused(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = new_model(-1);
  watch(m, "Steps", "x", 4);
  assert_int_equal(try_open(r, m, OPTIMISE_BASIC), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "id"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(update_counts_pairs_of_operands),
      cmocka_unit_test(update_broadcasts_as_the_addition_does),
      cmocka_unit_test(update_samples_other_places_in_each_run),
      cmocka_unit_test(change_and_steps_count_differences_of_states),
      cmocka_unit_test(accumulate_simulates_sums_over_its_axes),
      cmocka_unit_test(dot_simulates_sums_of_products),
      cmocka_unit_test(watchers_take_tensors_without_elements),
      cmocka_unit_test(watchers_without_a_site_are_refused),
  };
  return cmocka_run_group_tests(tests, probing_set_up, probing_tear_down);
}
