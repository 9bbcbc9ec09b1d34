// The worked values of the design: small sums that people do by hand to see what a format does.
// One test a line, its name saying the line; each asks the functions that the program itself uses.
#include "loss_scale.h"
#include "passes.h"
#include "plan_cost.h"
#include "plan_training.h"
#include "round.h"
#include "support_numbers.h"
#include "support_plan.h"
#include "updates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct format *const fp16 = &formats[FORMAT_FP16];
static const struct format *const bf16 = &formats[FORMAT_BF16];

static double half(double x) {
  return round_double(fp16, x, false, false);
}

static double single(double x) {
  return round_double(&formats[FORMAT_FP32], x, false, false);
}

// ---- Range ----

static void worked_300_times_300_is_infinite_in_fp16_and_90112_in_bf16(void **state) {
  (void)state;
  assert_true(isinf(half(half(300) * half(300))));
  double narrow = round_double(bf16, 300, false, false);
  assert_true(round_double(bf16, narrow * narrow, false, false) == 90112);
}

static void worked_60000_doubled_is_infinite_in_fp16_and_less_itself_nan(void **state) {
  (void)state;
  double doubled = half(2 * half(60000));
  assert_true(isinf(doubled));
  assert_true(isnan(half(doubled - doubled)));
}

static void worked_1e_8_is_0_in_fp16_and_survives_a_scale_of_2_to_the_16(void **state) {
  (void)state;
  assert_true(half(1e-8) == 0);
  assert_true(half(1e-8 * 65536) == 0.0006551742553710938);
  float x = 1e-8F, y;
  round_array(&(struct round_mode){.format = fp16, .scale_log2 = 16}, &x, &y, 1);
  assert_true((double)y == 0.0006551742553710938 / 65536);
}

static struct stats stats_of(const float *x, size_t n) {
  struct stats s;
  struct stats_piece piece = {0};
  stats_init(&s);
  stats_observe(&piece, x, n, 1, 0);
  stats_merge_piece(&s, &piece);
  stats_end_run(&s, &piece, 0, 0);
  return s;
}

static bool overflows(const float *x, size_t n) {
  struct stats s = stats_of(x, n);
  bool does = stats_fit(&s, FORMAT_FP16, 0, 1, false).overflows;
  stats_free(&s);
  return does;
}

// The range test sees the exponentials of the direct form, which fp16 does not hold.
static void worked_log_sum_exp_is_infinite_directly_and_12_40625_shifted(void **state) {
  (void)state;
  const double x[3] = {12, 11, 10};
  double direct = 0, shifted = 0, exact = 0;
  float powers[3], shifted_powers[3];
  for (int i = 0; i < 3; i++) {
    powers[i] = (float)exp(x[i]);
    shifted_powers[i] = (float)exp(x[i] - 12);
    direct = half(direct + half((double)powers[i]));
    shifted = half(shifted + half((double)shifted_powers[i]));
    exact += exp(x[i]);
  }
  assert_true(isinf(half(log(direct))));
  assert_true(half(12 + half(log(shifted))) == 12.40625);
  assert_true(fabs(log(exact) - 12.41) < 0.005);
  assert_true(overflows(powers, 3));
  assert_false(overflows(shifted_powers, 3));
}

// ---- Sums ----

// 10^7 copies of fp16(1e-3), in blocks.
static void add_copies(struct updates_sum *s, struct updates_piece *p) {
  enum { BLOCK = 10000 };
  double terms[BLOCK];
  for (int i = 0; i < BLOCK; i++)
    terms[i] = half(1e-3);
  updates_sum_begin(s);
  for (int i = 0; i < 10000000 / BLOCK; i++)
    updates_sum_add(s, p, terms, BLOCK);
  updates_sum_end(s, p);
}

static void worked_sum_of_1e7_copies_stalls_at_4_in_fp16_but_not_in_a_tree(void **state) {
  (void)state;
  struct updates_sum s;
  struct updates_piece p = {0};
  add_copies(&s, &p);
  assert_true(fabs(s.exact - 10004.0435791) < 1e-6);
  assert_true(updates_sum_result(&s, UPDATES_FP16, UPDATES_SEQUENTIAL) == 4);
  double pairwise = updates_sum_result(&s, UPDATES_FP16, UPDATES_PAIRWISE);
  assert_in_range((uint64_t)pairwise, 9784, 10010);
  assert_int_equal(p.sums, 1);
  assert_true(p.errors[UPDATES_FP16][UPDATES_SEQUENTIAL].max > 0.9995);
  assert_true(p.errors[UPDATES_FP16][UPDATES_PAIRWISE].max < 0.03);
  assert_true(p.errors[UPDATES_BF16][UPDATES_SEQUENTIAL].max > 0.9999);
  // Nearly every term is lost in fp16, and none in fp32 (10004 / 1e-3 < 2^24).
  assert_true(updates_below_step(&p, FORMAT_FP16) > 9990000);
  assert_int_equal(updates_below_step(&p, FORMAT_FP32), 0);
}

static void worked_sum_of_1e7_copies_drifts_to_9780_in_fp32_but_not_by_blocks(void **state) {
  (void)state;
  double term = half(1e-3), sequential = 0, blocks = 0, block = 0;
  for (int i = 0; i < 10000000; i++) {
    sequential = single(sequential + term);
    block = single(block + term);
    if (i % 4096 == 4095 || i == 10000000 - 1) {
      blocks = single(blocks + block);
      block = 0;
    }
  }
  assert_true(fabs(sequential - 9780.208) < 5e-4);
  assert_true(fabs(blocks - 10004.0439) < 5e-5);
}

// ---- Updates ----

static struct updates updates_of(float before, float after) {
  struct updates s;
  struct updates_piece run = {0};
  updates_init(&s);
  updates_change(&run, &before, &after, 1);
  updates_end_run(&s, &run, 0);
  return s;
}

static bool loses(float weight, float update, enum format_id f) {
  struct updates s = updates_of(weight, weight - update);
  double lost = wholly_lost_fraction(&s, f);
  updates_free(&s);
  assert_true(lost == 0 || lost == 1);
  return lost == 1;
}

static void worked_update_of_2e_7_to_1_is_lost_in_fp16_and_kept_in_fp32(void **state) {
  (void)state;
  float update = 1e-3F * 2e-4F;  // learning rate 1e-3, gradient 2e-4
  assert_true((double)update / format_ulp(fp16, 1) < 0.5);
  assert_true(half(1 - (double)update) == 1);
  assert_true(loses(1, update, FORMAT_FP16));
  assert_true(loses(1, update, FORMAT_BF16));
  assert_false(loses(1, update, FORMAT_FP32));
  assert_true(format_ulp(&formats[FORMAT_FP32], nextafter(1, 0)) == 0x1p-24);
  assert_true(format_ulp(&formats[FORMAT_FP32], 1) == 0x1p-23);
}

// In fp32 each step of 2e-7 is itself rounded, to 3 * 2^-24: the master moves by 8.9e-4.
static void worked_master_copy_moves_in_5000_steps_and_its_fp16_copy_changes(void **state) {
  (void)state;
  double master = 1, narrow = 1, exact = 1;
  for (int i = 0; i < 5000; i++) {
    master = single(master - 2e-7);
    narrow = half(narrow - 2e-7);
    exact -= 2e-7;
  }
  assert_true(fabs(1 - exact - 1e-3) < 1e-9);
  assert_true(master == 1 - 5000 * 3 * 0x1p-24);
  assert_true(narrow == 1);
  assert_true(half(master) == 1 - 2 * 0x1p-11);
}

static void worked_update_of_1_5e_7_is_lost_in_fp16_at_1(void **state) {
  (void)state;
  assert_true(loses(1, 5e-4F * 3e-4F, FORMAT_FP16));
}

// ---- Loss scales ----

static void worked_gradient_of_4e_6_vanishes_and_needs_a_scale_of_256(void **state) {
  (void)state;
  int k = loss_scale_to_reach(4e-6, 1e-3);
  assert_int_equal(k, 8);
  assert_true(ldexp(4e-6, k) == 1.024e-3);
  for (int sign = -1; sign <= 1; sign += 2) {
    assert_true(round_double(fp16, sign * 4e-6, false, true) == 0);
    assert_true(round_double(fp16, ldexp(sign * 4e-6, k), false, true) != 0);
  }
}

static void worked_scale_of_65536_takes_1_2e_3_to_78_6432(void **state) {
  (void)state;
  struct loss_scaler s = {.scale_log2 = 16, .interval = 2000};
  assert_true(ldexp(1.2e-3, 16) == 78.6432);
  assert_int_equal(loss_scaler_steps(&s, 1.2e-3, 1, FORMAT_FP16), 0);
  assert_int_equal(s.scale_log2, 16);
}

static void worked_gradients_from_1e_7_to_8e_2_take_scales_of_2_to_the_10_to_19(void **state) {
  (void)state;
  struct loss_scale_range r = loss_scale_range(1e-7, 8e-2, FORMAT_FP16);
  assert_true(fabs(r.lowest - 610.4) < 0.05);
  assert_true(fabs(r.highest - 818800) < 1e-6);
  assert_int_equal(r.first, 10);
  assert_int_equal(r.last, 19);
  // Both ends as rounding sees them: normal, no overflow, and neither one step further out.
  assert_true(round_double(fp16, ldexp(1e-7, 10), false, true) > 0);
  assert_true(round_double(fp16, ldexp(1e-7, 9), false, true) == 0);
  assert_true(isfinite(half(ldexp(8e-2, 19))));
  assert_true(isinf(half(ldexp(8e-2, 20))));
}

static void worked_gradients_from_1e_7_to_2e4_take_no_scale(void **state) {
  (void)state;
  struct loss_scale_range r = loss_scale_range(1e-7, 2e4, FORMAT_FP16);
  assert_true(r.lowest > r.highest);
  assert_true(r.last < r.first);
}

static void worked_dynamic_scale_is_8192_after_step_8_and_16384_at_step_2010(void **state) {
  (void)state;
  struct loss_scaler s = {.scale_log2 = 16, .interval = 2000};
  int at_8 = 0;
  for (int step = 1; step <= 2010; step++) {
    bool spike = step == 3 || step == 5 || step == 8;
    uint64_t skipped = loss_scaler_steps(&s, spike ? 1e6 : 1e-3, 1, FORMAT_FP16);
    assert_int_equal(skipped, spike);
    at_8 = step == 8 ? s.scale_log2 : at_8;
  }
  assert_int_equal(1 << at_8, 8192);
  assert_int_equal(1 << s.scale_log2, 16384);
}

// ---- What a plan says ----

// w_new = w - 0.001 * gradient, gradient = g of ones: a step of a training.
static const struct training_plan *training(struct planning *f, float gmin, float gmax) {
  build_input(&f->b, "w", "float[2]");
  build_input(&f->b, "g", "float[2]");
  build_floats(&f->b, "rate", "float[]", (float[]){0.001F});
  build_node(&f->b, "Mul", "g rate", "step");
  build_node(&f->b, "Sub", "w step", "w_new");
  build_output(&f->b, "w_new", "float[2]");
  planning_index(f);
  planning_see(f, "g", (float[]){-gmin, gmax}, 2);
  trace_add_sites(&f->t, &(struct update_site){UPDATE_WEIGHT, value_id(&f->g, "w")}, 1);
  struct updates_piece run = {0};
  updates_change(&run, (float[]){1, 1}, (float[]){1 - 2e-7F, 1 - 2e-7F}, 2);
  updates_end_run(&f->t.updates[f->t.n_sites - 1], &run, 0);
  f->policy.max_lost_fraction = 0.5;
  planning_decide(f);
  return f->p.training;
}

// The scale of 1024 is the largest with the margin of 2 for the sum of four.
static void worked_accumulation_over_4_batches_at_1024_divides_by_4096(void **state) {
  struct planning *f = *state;
  f->policy.training = (struct training_rule){true, 2, 4, 16, 2000};
  const struct training_plan *t = training(f, 1e-3F, 7.9F);
  assert_non_null(t);
  assert_int_equal(t->n_gradients, 1);
  assert_int_equal(t->scale_log2, 10);
  assert_true(t->divisor == 4096);
}

static void worked_gradients_of_a_traced_training_decide_the_loss_scale(void **state) {
  struct planning *f = *state;
  f->policy.training = (struct training_rule){true, 2, 1, 20, 2000};
  const struct training_plan *t = training(f, 1e-7F, 8e-2F);
  assert_true(fabs(t->scales.lowest - 610.4) < 0.05 && fabs(t->scales.highest - 818800) < 1);
  assert_true(t->scales.first == 10 && t->scales.last == 19);
  assert_int_equal(t->dynamic_log2, 19);  // one step, which it skips
  assert_int_equal(t->skipped, 1);
  assert_true(f->p.weights[0].master_copy);
  assert_true(t->bytes_before == 2 * 16 && t->bytes_after == 2 * 16);
}

static void worked_adam_of_1e8_parameters_takes_1600_MB_with_and_without_fp16(void **state) {
  (void)state;
  assert_true(training_bytes(1e8, FORMAT_FP32, false, 2) == 1600e6);
  assert_true(training_bytes(1e8, FORMAT_FP16, true, 2) == 1600e6);
  assert_true(training_bytes(1e8, FORMAT_FP16, false, 2) == 1200e6);  // were no copy needed
}

// A product that takes 90 % of the time and a pinned node that takes the rest, on a target whose
// products are 4 times faster in fp16, and whose memory takes no time.
static void worked_products_4_times_faster_make_3_08_in_all_and_10_at_most(void **state) {
  struct planning *f = *state;
  struct target *t = &f->policy.target;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Exp", "h", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  t->bandwidth = 1e12;
  for (int k = 0; k < FORMAT_COUNT; k++)
    t->matrix[k] = t->vector[k] = 1;
  t->matrix[FORMAT_FP16] = 4;
  planning_decide(f);
  int narrow = f->p.n_ladder, product = node_of(&f->g, "h"), pinned = node_of(&f->g, "y");
  double of_product = f->p.seconds[product * narrow + narrow - 1];
  double of_pinned = f->p.seconds[pinned * narrow + narrow - 1];
  t->vector[FORMAT_FP32] = of_pinned / (of_product / 9);
  planning_decide(f);
  const struct plan_costs *c = &f->p.costs;
  assert_true(fabs(c->time_before / c->time_after - 3.08) < 0.005);
  assert_true(fabs(costs_most_speedup(c) - 10) < 1e-6);
}

// ---- Models ----

static void worked_squares_of_deviation_100_survive_fp16_but_not_their_sum(void **state) {
  (void)state;
  enum { WIDTH = 512 };
  double squares[WIDTH];
  for (int i = 0; i < WIDTH; i++)
    squares[i] = 100 * 100;
  struct updates_piece p = {0};
  updates_terms(&p, squares, WIDTH);
  assert_true(half(half(100) * half(100)) == 10000);
  assert_int_equal(p.errors[UPDATES_FP16][UPDATES_SEQUENTIAL].overflows, 1);
  assert_int_equal(p.errors[UPDATES_FP16][UPDATES_PAIRWISE].overflows, 1);
  assert_int_equal(p.errors[UPDATES_BF16][UPDATES_SEQUENTIAL].overflows, 0);
  assert_true(half(half(255.9) * half(255.9)) == 65472);
  assert_true(isinf(half(half(256) * half(256))));
}

// h = x w, normalised by the root of its mean square, times w again.
static void rms_norm(struct planning *f, float largest) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "two", "float[]", (float[]){2});
  build_floats(&f->b, "eps", "float[]", (float[]){1e-2F});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Mul", "h h", "squares");
  build_node(&f->b, "ReduceSum", "squares", "sum");
  build_node(&f->b, "Add", "sum eps", "moved");
  build_node(&f->b, "Sqrt", "moved", "root");
  build_node(&f->b, "Div", "h root", "n");
  build_node(&f->b, "MatMul", "n w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_see(f, "h", (float[]){100, largest}, 2);
  planning_see(f, "squares", (float[]){1e4F, largest * largest}, 2);
  planning_see(f, "sum", (float[]){512 * 1e4F}, 1);
  planning_see(f, "moved", (float[]){512 * 1e4F}, 1);
  planning_decide(f);
}

// The plan finds both: the sum at once, and the squares from 255.9 on.
static void worked_rms_norm_of_deviation_100_keeps_its_sum_wide(void **state) {
  struct planning *f = *state;
  f->policy.margin = 1;
  rms_norm(f, 255);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_int_equal(f->p.values[value_id(&f->g, "squares")].fit.reason, REASON_NONE);
  assert_int_equal(f->p.values[value_id(&f->g, "sum")].fit.reason, REASON_OVERFLOW);
  assert_int_equal(node_reason(f, "moved"), REASON_OVERFLOW);
}

static void worked_squares_above_255_9_overflow_fp16(void **state) {
  struct planning *f = *state;
  f->policy.margin = 1;
  rms_norm(f, 256);
  assert_int_equal(f->p.values[value_id(&f->g, "squares")].fit.reason, REASON_OVERFLOW);
  assert_int_equal(node_format(f, "squares"), FORMAT_FP32);
}

static size_t saved_size(struct planning *f, struct model *m, const char *name) {
  const char *path = planning_path(f, name);
  struct stat file;
  if (model_save(m, path, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  assert_int_equal(stat(path, &file), 0);
  return (size_t)file.st_size;
}

// As the plan says, as the rewritten model holds, and as the files are.
static void worked_mlp_784_256_10_has_814120_bytes_in_fp32_and_407060_in_bf16(void **state) {
  struct planning *f = *state;
  enum { IN = 784, HIDDEN = 256, OUT = 10 };
  float *weights = arena_array(&f->arena, IN * HIDDEN, sizeof *weights);
  for (int i = 0; i < IN * HIDDEN; i++)
    weights[i] = 0.01F * (float)(1 + i % 7);
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  build_input(&f->b, "x", "float[1,784]");
  build_floats(&f->b, "w1", "float[784,256]", weights);
  build_floats(&f->b, "b1", "float[256]", weights);
  build_floats(&f->b, "w2", "float[256,10]", weights);
  build_floats(&f->b, "b2", "float[10]", weights);
  build_node(&f->b, "Gemm", "x w1 b1", "h");
  build_node(&f->b, "Relu", "h", "r");
  build_node(&f->b, "Gemm", "r w2 b2", "y");
  build_output(&f->b, "y", "float[1,10]");
  planning_all(f);
  assert_true(f->p.costs.constants_before == 814120);
  assert_true(f->p.costs.constants_after == 407060);
  assert_int_equal(f->report.bytes_before, 814120);
  assert_int_equal(f->report.bytes_after, 407060);
  size_t before = saved_size(f, &f->m, "before.onnx"), after = saved_size(f, &f->changed, "a.onnx");
  assert_in_range(before, 814120, 814120 + 4096);
  assert_in_range(after, 407060, 407060 + 4096);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(worked_300_times_300_is_infinite_in_fp16_and_90112_in_bf16),
      cmocka_unit_test(worked_60000_doubled_is_infinite_in_fp16_and_less_itself_nan),
      cmocka_unit_test(worked_1e_8_is_0_in_fp16_and_survives_a_scale_of_2_to_the_16),
      cmocka_unit_test(worked_log_sum_exp_is_infinite_directly_and_12_40625_shifted),
      cmocka_unit_test(worked_sum_of_1e7_copies_stalls_at_4_in_fp16_but_not_in_a_tree),
      cmocka_unit_test(worked_sum_of_1e7_copies_drifts_to_9780_in_fp32_but_not_by_blocks),
      cmocka_unit_test(worked_update_of_2e_7_to_1_is_lost_in_fp16_and_kept_in_fp32),
      cmocka_unit_test(worked_master_copy_moves_in_5000_steps_and_its_fp16_copy_changes),
      cmocka_unit_test(worked_update_of_1_5e_7_is_lost_in_fp16_at_1),
      cmocka_unit_test(worked_gradient_of_4e_6_vanishes_and_needs_a_scale_of_256),
      cmocka_unit_test(worked_scale_of_65536_takes_1_2e_3_to_78_6432),
      cmocka_unit_test(worked_gradients_from_1e_7_to_8e_2_take_scales_of_2_to_the_10_to_19),
      cmocka_unit_test(worked_gradients_from_1e_7_to_2e4_take_no_scale),
      cmocka_unit_test(worked_dynamic_scale_is_8192_after_step_8_and_16384_at_step_2010),
      TEST(worked_accumulation_over_4_batches_at_1024_divides_by_4096),
      TEST(worked_gradients_of_a_traced_training_decide_the_loss_scale),
      cmocka_unit_test(worked_adam_of_1e8_parameters_takes_1600_MB_with_and_without_fp16),
      TEST(worked_products_4_times_faster_make_3_08_in_all_and_10_at_most),
      cmocka_unit_test(worked_squares_of_deviation_100_survive_fp16_but_not_their_sum),
      TEST(worked_rms_norm_of_deviation_100_keeps_its_sum_wide),
      TEST(worked_squares_above_255_9_overflow_fp16),
      TEST(worked_mlp_784_256_10_has_814120_bytes_in_fp32_and_407060_in_bf16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
