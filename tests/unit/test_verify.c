// verify: errors of known size are measured exactly, claims of every metric judged on every set of
// samples, overflow named with its tensor and sample.
// needs: engine
#include "support_verify.h"
#include "verdict_drawbacks.h"
#include "verify_outputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Names that begin as those that the joined model makes would be defined twice.
static void verify_takes_names_that_it_would_make(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "finite", .metric = METRIC_FINITE}};
  claims(f, list, 1);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){2});
  build_node(&f->b, "MatMul", "x w", "narrow/x");
  build_node(&f->b, "Exp", "narrow/x", "narrow.compare_0");
  build_node(&f->b, "MatMul", "narrow.compare_0 w", "/compare_0");
  build_node(&f->b, "MatMul", "/compare_0 narrow/x", "narrow_/x");
  build_output(&f->b, "narrow_/x", "float[1,1]");
  planning_all(f);
  write_floats(f, "x.npy", "1, 1", (float[]){1}, 1);
  struct verdict v;
  verify(f, &v);
  assert_true(claim_of(&v, "finite")->holds);
}

// Operators that run a graph by the names of its inputs: a decoder with one attention, as small as
// ONNX Runtime takes it.
static void verify_runs_graphs_whose_names_an_operator_knows(void **state) {
  enum { WIDTH = 4, WORDS = 6, LENGTH = 8 };
  struct planning *f = *state;
  struct claim list[] = {{.id = "top1", .metric = METRIC_TOP1, .limit = 1}};
  claims(f, list, 1);
  float weights[WORDS * WIDTH * 3];
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
    weights[i] = (float)((i * 7) % 11) / 11 - 0.4f;
  build_opset(&f->b, "com.microsoft", 1);
  build_input(&f->b, "input_ids", "int32[1,2]");
  build_raw(&f->b, "most", "int32[1]", (int32_t[]){LENGTH}, sizeof(int32_t));
  build_raw(&f->b, "least", "int32[1]", (int32_t[]){1}, sizeof(int32_t));
  build_floats(&f->b, "penalty", "float[1]", (float[]){1});
  Onnx__NodeProto *search =
      build_node(&f->b, "com.microsoft.GreedySearch", "input_ids most least penalty", "sequences");
  build_int(&f->b, search, "eos_token_id", WORDS - 1);
  build_int(&f->b, search, "pad_token_id", 0);
  build_graph_begin(&f->b, search, "decoder");
  build_input(&f->b, "input_ids", "int32[1,S]");
  build_input(&f->b, "position_ids", "int32[1,S]");
  build_input(&f->b, "attention_mask", "int32[1,T]");
  build_input(&f->b, "past_0", "float[2,1,2,P,2]");
  build_floats(&f->b, "words", "float[6,4]", weights);
  build_floats(&f->b, "places", "float[8,4]", weights);
  build_floats(&f->b, "qkv", "float[4,12]", weights);
  build_floats(&f->b, "bias", "float[12]", weights);
  build_floats(&f->b, "head", "float[4,6]", weights);
  build_node(&f->b, "Gather", "words input_ids", "word");
  build_node(&f->b, "Gather", "places position_ids", "place");
  build_node(&f->b, "Add", "word place", "sum");
  Onnx__NodeProto *attention = build_node(&f->b, "com.microsoft.Attention",
                                          "sum qkv bias attention_mask past_0", "seen present_0");
  build_int(&f->b, attention, "num_heads", 2);
  build_int(&f->b, attention, "unidirectional", 1);
  build_node(&f->b, "MatMul", "seen head", "logits");
  build_output(&f->b, "logits", "float[1,S,6]");
  build_output(&f->b, "present_0", "float[2,1,2,T,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "sequences", "int32[1,L]");
  planning_all(f);
  assert_false(plan_is_identity(&f->p));
  write_array(f, "input_ids.npy", "<i4", "1, 2", (int32_t[]){1, 3}, 8);
  struct verdict v;
  verify(f, &v);
  assert_int_equal(v.samples, 1);
}

// The engine takes no body of a Scan whose outputs have no shape, and infers none behind a Round:
// here of a value in the body, and of one outside that the body's inputs take theirs from.
static void verify_tells_shapes_to_a_scan_that_declares_none(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.01}};
  claims(f, list, 1);
  build_input(&f->b, "x", "float[L,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){0.3f, -0.7f, 0.9f, 0.2f});
  build_floats(&f->b, "start", "float[2]", (float[]){0, 0});
  build_node(&f->b, "MatMul", "x w", "h");
  Onnx__NodeProto *scan = build_node(&f->b, "Scan", "start h", "last all");
  build_int(&f->b, scan, "num_scan_inputs", 1);
  build_graph_begin(&f->b, scan, "body");
  build_input(&f->b, "before", "float");
  build_input(&f->b, "row", "float");
  build_node(&f->b, "MatMul", "row w", "product");
  build_node(&f->b, "Add", "before product", "after");
  build_node(&f->b, "MatMul", "after w", "out");
  build_output(&f->b, "after", "float");
  build_output(&f->b, "out", "float");
  build_graph_end(&f->b);
  build_output(&f->b, "last", "float[2]");
  build_output(&f->b, "all", "float[L,2]");
  planning_all(f);
  assert_false(plan_is_identity(&f->p));
  write_floats(f, "x.npy", "3, 2", (float[]){1, 2, 3, 4, 5, 6}, 6);
  struct verdict v;
  verify(f, &v);
  assert_true(claim_of(&v, "l2")->holds && claim_of(&v, "l2")->measured > 0);
}

// 3 * (1 + 2^-10) is 3 + 3 * 2^-10, a tie between two numbers of fp16: to 3 + 4 * 2^-10, the even
// one. All operands are exact.
static void verify_measures_one_rounding_exactly(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "abs", .metric = METRIC_MAX_ABS, .limit = 0x1p-10},
                         {.id = "abs-less", .metric = METRIC_MAX_ABS, .limit = 0x1.fp-11},
                         {.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 1e-3},
                         {.id = "cosine", .metric = METRIC_COSINE, .limit = 0.999},
                         {.id = "sqnr", .metric = METRIC_SQNR_DB, .limit = 100},
                         {.id = "finite", .metric = METRIC_FINITE},
                         {.id = "top1", .metric = METRIC_TOP1, .limit = 1},
                         {.id = "loss", .metric = METRIC_LABEL_LOSS, .limit = 0}};
  claims(f, list, sizeof list / sizeof list[0]);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1 + 0x1p-10f});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_all(f);
  write_floats(f, "x.npy", "1, 1", (float[]){3}, 1);
  struct verdict v;
  verify(f, &v);
  double error = 0x1p-10, value = 3 + 3 * 0x1p-10;
  assert_true(claim_of(&v, "abs")->measured == error && claim_of(&v, "abs")->holds);
  assert_false(claim_of(&v, "abs-less")->holds);
  assert_true(fabs(claim_of(&v, "l2")->measured - error / value) < 1e-12);
  assert_true(claim_of(&v, "l2")->holds && claim_of(&v, "cosine")->holds);
  assert_true(fabs(claim_of(&v, "sqnr")->measured - 20 * log10(value / error)) < 1e-9);
  assert_false(claim_of(&v, "sqnr")->holds);  // 69 dB
  assert_true(claim_of(&v, "finite")->holds);
  assert_null(claim_of(&v, "top1"));  // a single column has no best
  assert_null(claim_of(&v, "loss"));  // no labels
  assert_false(v.holds);
  assert_int_equal(v.worst_local, value_id(&f->g, "y"));
  assert_true(fabs(v.worst_local_error - error / value) < 1e-12);
  assert_int_equal(v.first_nonfinite, -1);
}

static void verify_names_the_tensor_and_sample_that_overflow(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "finite", .metric = METRIC_FINITE},
                         {.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 1e30}};
  claims(f, list, 2);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){300});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Relu", "h", "r");
  build_node(&f->b, "MatMul", "r w", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_all(f);
  write_floats(f, "s0.npy", "1, 1", (float[]){0.5f}, 1);
  write_floats(f, "s1.npy", "1, 1", (float[]){300}, 1);
  write_floats(f, "s2.npy", "1, 1", (float[]){400}, 1);
  struct verdict v;
  verify(f, &v);
  assert_false(claim_of(&v, "finite")->holds);
  assert_true(claim_of(&v, "finite")->measured == 2);
  assert_non_null(strstr(claim_of(&v, "finite")->sample, "s1"));
  assert_false(claim_of(&v, "l2")->holds);
  assert_int_equal(v.first_nonfinite, value_id(&f->g, "h"));
  assert_non_null(strstr(v.first_nonfinite_sample, "s1"));
  assert_false(v.holds);
}

static void a_claim_that_a_calibration_sample_misses_does_not_hold(void **state) {
  struct planning *f = *state;
  rounded_products(f);
  write_floats(f, "s0.npy", "1, 1", (float[]){1}, 1);
  write_floats(f, "s1.npy", "1, 1", (float[]){3}, 1);  // an error of 2^-10
  write_floats(f, "s2.npy", "1, 1", (float[]){2}, 1);
  struct verdict v;
  verify_after(f, &v, 2);
  const struct verdict_claim *abs = claim_of(&v, "abs");
  assert_true(abs->on[SET_HELD_OUT] == 0 && abs->on[SET_CALIBRATION] == 0x1p-10);
  assert_false(abs->holds || v.holds);
  assert_int_equal(abs->decided_on, SET_CALIBRATION);
  assert_true(abs->measured == 0x1p-10);
  assert_non_null(strstr(abs->sample, "s1"));
  assert_int_equal(v.calibration_samples, 2);
  assert_int_equal(v.samples, 1);
  // What stands in the plan of each value is still of the held-out samples; what breaks the claim
  // is found where it breaks.
  assert_true(v.values[value_id(&f->g, "y")].max_abs == 0);
  assert_int_equal(v.worst_local, value_id(&f->g, "y"));
}

static void what_overflows_on_a_calibration_sample_only_is_named(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "finite", .metric = METRIC_FINITE}};
  claims(f, list, 1);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){300});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_all(f);
  write_floats(f, "s0.npy", "1, 1", (float[]){300}, 1);
  write_floats(f, "s1.npy", "1, 1", (float[]){0.5f}, 1);
  struct verdict v;
  verify_after(f, &v, 1);
  assert_false(claim_of(&v, "finite")->holds);
  assert_int_equal(v.first_nonfinite, value_id(&f->g, "h"));
  assert_non_null(strstr(v.first_nonfinite_sample, "s0"));
  // What to promote for it is seen there as well, and no run is needed to find it.
  assert_int_equal(v.calibration_values[value_id(&f->g, "h")].newly_nonfinite, 1);
  assert_int_equal(v.values[value_id(&f->g, "h")].newly_nonfinite, 0);
}

// A claim that has failed is not saved by more samples, and each takes time.
static void calibration_samples_are_not_run_where_a_claim_has_failed(void **state) {
  struct planning *f = *state;
  rounded_products(f);
  write_floats(f, "s0.npy", "1, 1", (float[]){1}, 1);
  write_floats(f, "s1.npy", "1, 1", (float[]){3}, 1);
  struct verdict v;
  verify_after(f, &v, 1);
  const struct verdict_claim *abs = claim_of(&v, "abs");
  assert_false(abs->holds);
  assert_int_equal(v.calibration_samples, 0);
  assert_true(isnan(abs->on[SET_CALIBRATION]) && abs->measured == 0x1p-10);
  assert_int_equal(abs->decided_on, SET_HELD_OUT);
}

// The columns 1 and 1 + 2^-12 are one number in fp16: the better one is not found any more.
static void verify_counts_decisions_and_labels(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "top1", .metric = METRIC_TOP1, .limit = 0.6},
                         {.id = "loss", .metric = METRIC_LABEL_LOSS, .limit = 0.4}};
  claims(f, list, 2);
  build_input(&f->b, "x", "float[N,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 1 + 0x1p-12f, 1, 0});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[N,2]");
  planning_all(f);
  write_floats(f, "x.npy", "2, 2", (float[]){1, 0, 0, 1}, 4);
  write_array(f, "label:y.npy", "<i8", "2,", (int64_t[]){1, 0}, 16);
  struct verdict v;
  verify(f, &v);
  assert_true(claim_of(&v, "top1")->measured == 0.5 && !claim_of(&v, "top1")->holds);
  assert_non_null(claim_of(&v, "loss"));
  assert_true(claim_of(&v, "loss")->measured == 0.5 && !claim_of(&v, "loss")->holds);
}

// Numbers that are one in fp32, and names: what differs is counted as it is.
static void integers_and_strings_are_compared_as_they_are(void **state) {
  (void)state;
  const int64_t x[] = {1 << 24, 5}, y[] = {(1 << 24) + 1, 5};
  char *names[] = {"cat", "dog"}, *others[] = {"cat", "cow"};
  struct sample none = {0};
  struct array a = {.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
                    .rank = 1,
                    .dims = {2},
                    .data = x,
                    .size = 16};
  struct array b = a;
  b.data = y;
  struct compare c;
  compare_init(&c);
  outputs_compare(&c, "n", &a, &b, &none, 0);
  assert_true(c.rows == 2 && c.rows_agree == 1);
  a = b = (struct array){
      .elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__STRING, .rank = 1, .dims = {2}, .strings = names};
  b.strings = others;
  compare_init(&c);
  outputs_compare(&c, "n", &a, &b, &none, 0);
  assert_true(c.runs == 1 && c.count == 2 && c.rows == 2 && c.rows_agree == 1);
}

struct heard {
  int count;
  char first[500];
};

static void hear(void *heard, const char *text) {
  struct heard *h = heard;
  if (h->count++ == 0)
    snprintf(h->first, sizeof h->first, "%s", text);
}

static void keep_sentence(void *to, const char *id, const char *text) {
  snprintf(to, 500, "%s=%s", id, text);
}

// Labels of two samples of two rows, the same for both; the claim on them is the only one.
static struct verdict with_labels(struct planning *f, const char *descr, const char *shape,
                                  const void *data, size_t size, struct heard *heard) {
  static struct claim list[] = {{.id = "loss", .metric = METRIC_LABEL_LOSS, .limit = 0.4}};
  claims(f, list, 1);
  build_input(&f->b, "x", "float[N,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 0, 0, 1});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[N,2]");
  planning_all(f);
  for (int i = 0; i < 2; i++) {
    const char *folder = arena_printf(&f->arena, "%d", i);
    assert_int_equal(mkdir(planning_path(f, folder), 0700), 0);
    write_floats(f, arena_printf(&f->arena, "%d/x.npy", i), "2, 2", (float[]){1, 0, 0, 1}, 4);
    write_array(f, arena_printf(&f->arena, "%d/label:y.npy", i), descr, shape, data, size);
  }
  f->d.warn = hear;
  f->d.warn_context = heard;
  struct verdict v;
  verify(f, &v);
  return v;
}

// One warning for both samples, and a sentence for the claim.
static void labels_are_refused(struct planning *f, const char *descr, const char *shape,
                               const void *data, size_t size, const char *why) {
  struct heard heard = {0};
  char text[500] = "";
  struct verdict v = with_labels(f, descr, shape, data, size, &heard);
  assert_int_equal(heard.count, 1);
  if (!strstr(heard.first, why) || !strstr(heard.first, "0: label:"))
    fail_msg("%s", heard.first);
  assert_true(v.outputs[0].on[SET_HELD_OUT].labelled == 0);
  assert_true(v.n_claims == 0 && v.n_idle == 1);
  verdict_idle_each(&v, keep_sentence, text);
  assert_non_null(strstr(text, "loss=The claim loss (label_loss) judged nothing: no sample"));
}

static void labels_in_another_number_are_refused(void **state) {
  labels_are_refused(*state, "<i8", "3,", (int64_t[]){0, 1, 0}, 24, "it holds 3 labels for 2 rows");
}

static void labels_that_are_strings_are_refused(void **state) {
  labels_are_refused(*state, "|S1", "2,", "ab", 2, "it holds strings");
}

static void labels_that_are_fractions_are_refused(void **state) {
  labels_are_refused(*state, "<f4", "2,", (float[]){1, 1.5f}, 8,
                     "its element 1 is 1.5, and no number of a class");
}

static void labels_of_no_class_do_not_count(void **state) {
  struct heard heard = {0};
  struct verdict v = with_labels(*state, "<i8", "2,", (int64_t[]){0, 9999}, 16, &heard);
  assert_int_equal(heard.count, 1);
  assert_non_null(strstr(heard.first, "its element 1 is 9999, and there are 2 classes"));
  const struct compare *c = &v.outputs[0].on[SET_HELD_OUT];
  assert_true(c->labelled == 2 && c->reference_right == 2 && c->narrow_right == 2);
  assert_true(v.n_idle == 0 && claim_of(&v, "loss")->holds);
}

// Errors of every float output, and rows of a selection, are claimed of any model.
static void only_claims_that_count_on_something_are_idle(void **state) {
  struct planning *f = *state;
  struct claim list[] = {
      {.id = "rows", .metric = METRIC_MATCHED_ROWS, .limit = 1, .tolerance = 0.1},
      {.id = "top", .metric = METRIC_TOP1, .limit = 1},
      {.id = "named",
       .metric = METRIC_MATCHED_ROWS,
       .limit = 1,
       .tolerance = 0.1,
       .outputs = (const char *[]){"y", NULL}},
      {.id = "cosine", .metric = METRIC_COSINE, .limit = 0.9}};
  claims(f, list, 4);
  build_input(&f->b, "x", "float[1,2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 0, 0, 1});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,2,2]");
  planning_all(f);
  write_floats(f, "x.npy", "1, 2, 2", (float[]){1, 0, 0, 1}, 4);
  struct verdict v;
  verify(f, &v);
  assert_int_equal(v.n_idle, 2);
  assert_string_equal(v.idle[0]->id, "top");
  assert_string_equal(v.idle[1]->id, "named");
}

static void verify_judges_only_the_outputs_of_a_claim(void **state) {
  struct planning *f = *state;
  static const char *only[] = {"b*", NULL};
  struct claim list[] = {{.id = "abs", .metric = METRIC_MAX_ABS, .limit = 0, .outputs = only}};
  claims(f, list, 1);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1 + 0x1p-10f});
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Exp", "x", "b1");
  build_output(&f->b, "a", "float[1,1]");
  build_output(&f->b, "b1", "float[1,1]");
  planning_all(f);
  write_floats(f, "x.npy", "1, 1", (float[]){3}, 1);
  struct verdict v;
  verify(f, &v);
  assert_int_equal(v.n_claims, 1);
  assert_string_equal(v.claims[0].output, "b1");
  assert_true(v.holds);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(verify_takes_names_that_it_would_make),
      TEST(verify_runs_graphs_whose_names_an_operator_knows),
      TEST(verify_tells_shapes_to_a_scan_that_declares_none),
      TEST(verify_measures_one_rounding_exactly),
      TEST(verify_names_the_tensor_and_sample_that_overflow),
      TEST(a_claim_that_a_calibration_sample_misses_does_not_hold),
      TEST(what_overflows_on_a_calibration_sample_only_is_named),
      TEST(calibration_samples_are_not_run_where_a_claim_has_failed),
      TEST(verify_counts_decisions_and_labels),
      TEST(integers_and_strings_are_compared_as_they_are),
      TEST(labels_in_another_number_are_refused),
      TEST(labels_that_are_strings_are_refused),
      TEST(labels_that_are_fractions_are_refused),
      TEST(labels_of_no_class_do_not_count),
      TEST(only_claims_that_count_on_something_are_idle),
      TEST(verify_judges_only_the_outputs_of_a_claim),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
