// The library's interface, as a caller in another program uses it: order of the calls, errors,
// ownership, threads, locale.
// needs: engine
#include "narrowcast.h"

#include "support_plan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Two files of this test.
static void assert_same_bytes(struct planning *f, const char *x, const char *y) {
  size_t n_x, n_y;
  const char *a = planning_read_file(f, planning_path(f, x), &n_x);
  const char *b = planning_read_file(f, planning_path(f, y), &n_y);
  assert_int_equal(n_x, n_y);
  assert_memory_equal(a, b, n_x);
}

static const char digits[] = SOURCE_DIR "/models/digits/digits.onnx";
static const char samples[] = SOURCE_DIR "/models/digits/samples";

static void must(const struct narrowcast *nc, enum narrowcast_status status) {
  if (status != NARROWCAST_OK)
    fail_msg("%s (%s)", narrowcast_error(nc), narrowcast_error_hint(nc));
}

static struct narrowcast *traced(const char *policy) {
  struct narrowcast *nc = narrowcast_new();
  assert_non_null(nc);
  must(nc, narrowcast_set_threads(nc, 1));
  must(nc, narrowcast_load_model(nc, digits));
  must(nc, narrowcast_load_policy(nc, policy));
  must(nc, narrowcast_open_samples(nc, samples));
  must(nc, narrowcast_trace(nc));
  return nc;
}

static size_t count_format(const struct narrowcast *nc, const char *format) {
  size_t count = 0;
  for (size_t i = 0; i < narrowcast_node_count(nc); i++)
    count += strcmp(narrowcast_node_format(nc, i), format) == 0;
  return count;
}

#define EARLY(call, missing)                                                                       \
  do {                                                                                             \
    assert_int_equal(call, NARROWCAST_USAGE);                                                      \
    assert_non_null(strstr(narrowcast_error(nc), missing));                                        \
  } while (0)

static void calls_that_come_too_early_say_what_is_missing(void **state) {
  (void)state;
  struct narrowcast *nc = narrowcast_new();
  EARLY(narrowcast_plan(nc), "no model");
  EARLY(narrowcast_trace(nc), "no model");
  EARLY(narrowcast_open_samples(nc, samples), "no model");
  EARLY(narrowcast_load_policy(nc, "fp16"), "no model");
  EARLY(narrowcast_keep(nc, "*"), "no policy");
  EARLY(narrowcast_rewrite(nc), "no plan");
  EARLY(narrowcast_write_trace(nc, "x"), "no trace");
  EARLY(narrowcast_save(nc, "x", 0), "no result");
  assert_null(narrowcast_json(nc));
  assert_non_null(strstr(narrowcast_error(nc), "no plan"));
  must(nc, narrowcast_load_model(nc, digits));
  assert_string_equal(narrowcast_error(nc), "");
  EARLY(narrowcast_open_samples(nc, samples), "no policy");
  assert_int_equal(narrowcast_load_model(nc, digits), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_node_count(nc), 0);
  assert_int_equal(narrowcast_tensor_count(nc), 0);
  assert_int_equal(narrowcast_claim_count(nc), 0);
  assert_null(narrowcast_node_name(nc, 0));
  narrowcast_free(nc);
  narrowcast_free(NULL);
}

static void null_and_numbers_out_of_range_are_usage(void **state) {
  (void)state;
  struct narrowcast *nc = narrowcast_new();
  assert_int_equal(narrowcast_load_model(nc, NULL), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_set_threads(nc, -1), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_set_threads(nc, 1025), NARROWCAST_USAGE);
  must(nc, narrowcast_load_model(nc, digits));
  must(nc, narrowcast_load_policy(nc, "fp16"));
  assert_int_equal(narrowcast_load_policy(nc, "bf16"), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_make_samples(nc, 1, 0), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_set_format(nc, "fp17"), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_set_io(nc, "wide"), NARROWCAST_USAGE);
  narrowcast_free(nc);
}

static void errors_name_file_and_reason(void **state) {
  (void)state;
  struct narrowcast *nc = narrowcast_new();
  assert_int_equal(narrowcast_load_model(nc, SOURCE_DIR "/README.md"), NARROWCAST_MODEL);
  assert_non_null(strstr(narrowcast_error(nc), "README.md: "));
  assert_string_equal(narrowcast_error_file(nc), SOURCE_DIR "/README.md");
  narrowcast_free(nc);
  nc = narrowcast_new();
  must(nc, narrowcast_load_model(nc, digits));
  assert_int_equal(narrowcast_load_policy(nc, "fp61"), NARROWCAST_POLICY);
  assert_non_null(strstr(narrowcast_error_hint(nc), "fp16"));
  narrowcast_free(nc);
}

// A call that fails may be made again with what is right, and says so of nothing else.
static void a_step_that_fails_leaves_the_handle_as_it_was(void **state) {
  struct planning *f = *state;
  const char *bad = SOURCE_DIR "/README.md", *const checkpoints[] = {digits, bad};
  struct narrowcast *nc = narrowcast_new();
  assert_int_equal(narrowcast_load_model(nc, "nowhere.onnx"), NARROWCAST_IO);
  assert_int_equal(narrowcast_load_model(nc, bad), NARROWCAST_MODEL);
  EARLY(narrowcast_load_policy(nc, "fp16"), "no model");
  must(nc, narrowcast_load_model(nc, digits));
  assert_int_equal(narrowcast_read_plan(nc, bad), NARROWCAST_POLICY);
  assert_int_equal(narrowcast_load_policy(nc, "fp61"), NARROWCAST_POLICY);
  EARLY(narrowcast_open_samples(nc, samples), "no policy");
  must(nc, narrowcast_load_policy(nc, "fp16"));
  assert_int_equal(narrowcast_open_samples(nc, "nowhere"), NARROWCAST_IO);
  EARLY(narrowcast_trace(nc), "no samples");
  must(nc, narrowcast_make_samples(nc, 1, 2));
  assert_int_equal(narrowcast_read_trace(nc, bad), NARROWCAST_POLICY);
  assert_int_equal(narrowcast_trace_checkpoints(nc, checkpoints, 2), NARROWCAST_DATA);
  EARLY(narrowcast_write_trace(nc, "x"), "no trace");
  must(nc, narrowcast_trace(nc));
  must(nc, narrowcast_write_trace(nc, planning_path(f, "before.json")));
  assert_int_equal(narrowcast_trace_checkpoints(nc, checkpoints, 2), NARROWCAST_DATA);
  must(nc, narrowcast_write_trace(nc, planning_path(f, "after.json")));
  assert_same_bytes(f, "before.json", "after.json");
  must(nc, narrowcast_convert(nc));
  narrowcast_free(nc);
}

static const char *write_file(struct planning *f, const char *name, const void *bytes, size_t n) {
  const char *path = planning_path(f, name);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  assert_int_equal(fwrite(bytes, 1, n, out), n);
  assert_int_equal(fclose(out), 0);
  return path;
}

// No newer opset gives the mask of a Dropout. When that is found the Squeeze is raised already.
static void a_model_that_cannot_be_raised_stays_as_it_was(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 10;
  build_input(&f->b, "x", "float[1,2]");
  build_ints(&f->b, build_node(&f->b, "Squeeze", "x", "a"), "axes", (int64_t[]){0}, 1);
  build_node(&f->b, "Dropout", "a", "y mask");
  build_output(&f->b, "y", "float[2]");
  build_output(&f->b, "mask", "bool[2]");
  uint8_t *bytes;
  size_t size;
  assert_int_equal(model_pack(f->b.model, &f->arena, &bytes, &size, &f->d), STATUS_OK);
  const char *text = arena_printf(&f->arena, "{\"opset\": {\"raise_to\": 13},%s",
                                  strchr(policy_text("fp16"), '{') + 1);
  struct narrowcast *nc = narrowcast_new();
  must(nc, narrowcast_load_model(nc, write_file(f, "old.onnx", bytes, size)));
  assert_int_equal(narrowcast_load_policy(nc, write_file(f, "13.json", text, strlen(text))),
                   NARROWCAST_MODEL);
  assert_string_equal(narrowcast_error_node(nc), "#1(Dropout)");
  must(nc, narrowcast_load_policy(nc, "fp16"));
  must(nc, narrowcast_make_samples(nc, 1, 2));
  must(nc, narrowcast_trace(nc));
  must(nc, narrowcast_convert(nc));
  assert_null(strstr(narrowcast_json(nc), "\"opset_raised_to\": 13"));
  narrowcast_free(nc);
}

static void convert_holds_and_tells_what_it_measured(void **state) {
  (void)state;
  struct narrowcast *nc = traced("fp16");
  must(nc, narrowcast_convert(nc));
  assert_true(count_format(nc, "fp16") > 10);
  assert_true(narrowcast_claim_count(nc) > 2);
  for (size_t i = 0; i < narrowcast_claim_count(nc); i++)
    assert_true(narrowcast_claim_holds(nc, i));
  assert_string_equal(narrowcast_claim_metric(nc, 0), "finite");
  assert_null(narrowcast_claim_metric(nc, narrowcast_claim_count(nc)));
  assert_non_null(strstr(narrowcast_json(nc), "\"holds\": true"));
  narrowcast_free(nc);
}

static void verdict_and_report_are_files_of_a_run(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = traced("fp16");
  must(nc, narrowcast_plan(nc));
  EARLY(narrowcast_write_verdict(nc, planning_path(f, "v.json")), "no verdict");
  must(nc, narrowcast_convert(nc));
  must(nc, narrowcast_write_verdict(nc, planning_path(f, "v.json")));
  must(nc, narrowcast_write_report(nc, planning_path(f, "r.md")));
  size_t size;
  assert_non_null(strstr(planning_read_file(f, planning_path(f, "v.json"), &size), "relative_l2"));
  assert_non_null(strstr(planning_read_file(f, planning_path(f, "r.md"), &size), "digits.onnx"));
  narrowcast_free(nc);
}

// Three ways to one result: convert, its steps, and a plan file.
static void steps_and_plan_file_give_the_same_bytes_as_convert(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = traced("fp16");
  must(nc, narrowcast_convert(nc));
  must(nc, narrowcast_save(nc, planning_path(f, "convert.onnx"), 0));
  must(nc, narrowcast_write_plan(nc, planning_path(f, "plan.json")));
  must(nc, narrowcast_write_trace(nc, planning_path(f, "trace.json")));
  must(nc, narrowcast_plan(nc));
  must(nc, narrowcast_rewrite(nc));
  must(nc, narrowcast_verify(nc));
  must(nc, narrowcast_save(nc, planning_path(f, "steps.onnx"), 0));
  narrowcast_free(nc);
  nc = narrowcast_new();
  must(nc, narrowcast_load_model(nc, digits));
  must(nc, narrowcast_read_plan(nc, planning_path(f, "plan.json")));
  must(nc, narrowcast_open_samples(nc, samples));
  must(nc, narrowcast_rewrite(nc));
  must(nc, narrowcast_verify(nc));
  must(nc, narrowcast_save(nc, planning_path(f, "file.onnx"), 0));
  narrowcast_free(nc);
  assert_same_bytes(f, "convert.onnx", "steps.onnx");
  assert_same_bytes(f, "convert.onnx", "file.onnx");
}

static void a_plan_is_made_again_after_keep(void **state) {
  (void)state;
  struct narrowcast *nc = traced("fp16");
  must(nc, narrowcast_plan(nc));
  size_t before = count_format(nc, "fp16");
  must(nc, narrowcast_rewrite(nc));
  must(nc, narrowcast_keep(nc, "/stem/*"));
  must(nc, narrowcast_plan(nc));
  assert_true(count_format(nc, "fp16") < before);
  assert_int_equal(narrowcast_save(nc, "x.onnx", 0), NARROWCAST_USAGE);  // of the old plan
  narrowcast_free(nc);
}

// They may raise the opset of the model that samples, trace and plan are of.
static void policy_and_plan_come_before_samples(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = traced("fp16");
  must(nc, narrowcast_plan(nc));
  must(nc, narrowcast_write_plan(nc, planning_path(f, "plan.json")));
  EARLY(narrowcast_read_plan(nc, planning_path(f, "plan.json")), "before samples");
  narrowcast_free(nc);
  nc = narrowcast_new();
  must(nc, narrowcast_load_model(nc, digits));
  must(nc, narrowcast_read_plan(nc, planning_path(f, "plan.json")));
  EARLY(narrowcast_load_policy(nc, "fp16"), "comes before");
  narrowcast_free(nc);
}

static void what_is_read_is_never_written_over(void **state) {
  (void)state;
  struct narrowcast *nc = traced("fp16");
  must(nc, narrowcast_convert(nc));
  assert_int_equal(narrowcast_save(nc, digits, 0), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_write_plan(nc, digits), NARROWCAST_USAGE);
  narrowcast_free(nc);
}

static void no_two_outputs_of_a_handle_are_one_file(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = traced("fp16");
  const char *path = planning_path(f, "one");
  must(nc, narrowcast_convert(nc));
  must(nc, narrowcast_write_plan(nc, path));
  must(nc, narrowcast_write_plan(nc, path));  // again
  assert_int_equal(narrowcast_save(nc, path, 0), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_write_verdict(nc, path), NARROWCAST_USAGE);
  assert_non_null(strstr(narrowcast_error(nc), "another output"));
  must(nc, narrowcast_save(nc, planning_path(f, "two.onnx"), 0));
  assert_int_equal(narrowcast_write_trace(nc, planning_path(f, "two.onnx")), NARROWCAST_USAGE);
  narrowcast_free(nc);
}

// fp16, but with limits of 0 on errors, and no promotion.
static const char *write_strict_policy(struct planning *f) {
  const char *path = planning_path(f, "strict.json");
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  for (const char *text = policy_text("fp16"); *text; text++) {
    static const char rounds[] = "\"rounds\":", limit[] = "\"limit\": 0.01";
    if (strncmp(text, rounds, sizeof rounds - 1) == 0) {
      text += strcspn(text, "0123456789");
      text += strspn(text, "0123456789") - 1;
      fputs("\"rounds\": 0", out);
    } else if (strncmp(text, limit, sizeof limit - 1) == 0) {
      text += sizeof limit - 2;
      fputs("\"limit\": 0", out);
    } else {
      putc(*text, out);
    }
  }
  assert_int_equal(fclose(out), 0);
  return path;
}

static void a_claim_that_fails_is_not_saved_unless_asked(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = traced(write_strict_policy(f));
  assert_int_equal(narrowcast_convert(nc), NARROWCAST_CLAIM);
  bool failed = false;
  for (size_t i = 0; i < narrowcast_claim_count(nc); i++)
    failed |= !narrowcast_claim_holds(nc, i) &&
              narrowcast_claim_measured(nc, i) > narrowcast_claim_limit(nc, i);
  assert_true(failed);
  const char *path = planning_path(f, "refused.onnx");
  assert_int_equal(narrowcast_save(nc, path, 0), NARROWCAST_CLAIM);
  assert_int_equal(access(path, F_OK), -1);
  // What was not written takes no place.
  must(nc, narrowcast_write_plan(nc, path));
  assert_int_equal(narrowcast_save(nc, path, NARROWCAST_SAVE_ANYWAY), NARROWCAST_USAGE);
  path = planning_path(f, "kept.onnx");
  must(nc, narrowcast_save(nc, path, NARROWCAST_SAVE_ANYWAY));
  assert_int_equal(access(path, F_OK), 0);
  narrowcast_free(nc);
}

static const char *write_text(struct planning *f, const char *name, const char *text) {
  const char *path = planning_path(f, name);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  assert_int_equal(fclose(out), 0);
  return path;
}

static void overrides_decide_for_the_next_plan(void **state) {
  struct planning *f = *state;
  const char *all = write_text(f, "o.json",
                               "{\"overrides\": [{\"glob\": \"/stem/*\", \"format\": \"fp32\", "
                               "\"note\": \"cheap\"}]}");
  const char *none = write_text(f, "n.json",
                                "{\"overrides\": [{\"glob\": \"/stom\", \"format\": \"fp32\", "
                                "\"note\": \"misspelt\"}]}");
  struct narrowcast *nc = narrowcast_new();
  EARLY(narrowcast_read_overrides(nc, all), "no policy");
  narrowcast_free(nc);
  nc = traced("fp16");
  must(nc, narrowcast_plan(nc));
  size_t before = count_format(nc, "fp16");
  must(nc, narrowcast_read_overrides(nc, all));
  assert_int_equal(count_format(nc, "fp16"), before);  // not of this plan
  must(nc, narrowcast_plan(nc));
  assert_int_equal(count_format(nc, "fp16"), before - 3);
  assert_string_equal(narrowcast_node_rule(nc, 0), "override /stem/*");
  assert_int_equal(narrowcast_write_plan(nc, all), NARROWCAST_USAGE);  // it is read
  must(nc, narrowcast_read_overrides(nc, none));
  assert_int_equal(narrowcast_plan(nc), NARROWCAST_POLICY);
  assert_non_null(strstr(narrowcast_error(nc), "/stom"));
  assert_int_equal(narrowcast_read_overrides(nc, digits), NARROWCAST_POLICY);
  narrowcast_free(nc);
}

static char warned[1024];

static void keep_warning(void *context, const char *text) {
  (void)context;
  snprintf(warned, sizeof warned, "%s", text);
}

static void a_keep_that_decides_nothing_is_warned_of(void **state) {
  (void)state;
  struct narrowcast *nc = traced("fp16");
  narrowcast_set_warning(nc, keep_warning, NULL);
  warned[0] = '\0';
  must(nc, narrowcast_keep(nc, "/stem/cnv"));
  must(nc, narrowcast_plan(nc));
  assert_non_null(strstr(warned, "did you mean /stem/conv?"));
  narrowcast_free(nc);
}

static void the_opset_is_raised_for_formats_that_need_it(void **state) {
  (void)state;
  struct narrowcast *nc = narrowcast_new();
  assert_int_equal(narrowcast_raise_opset(nc, 12), NARROWCAST_USAGE);
  must(nc, narrowcast_raise_opset(nc, 22));
  must(nc, narrowcast_load_model(nc, digits));
  must(nc, narrowcast_load_policy(nc, "bf16"));
  EARLY(narrowcast_raise_opset(nc, 22), "before the policy");
  must(nc, narrowcast_open_samples(nc, samples));
  must(nc, narrowcast_trace(nc));
  must(nc, narrowcast_convert(nc));
  assert_true(count_format(nc, "bf16") > 10);
  assert_non_null(strstr(narrowcast_json(nc), "\"opset_raised_to\": 22"));
  narrowcast_free(nc);
}

static void weights_go_where_the_flags_say(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = traced("fp16");
  must(nc, narrowcast_convert(nc));
  const char *inside = planning_path(f, "in.onnx"), *outside = planning_path(f, "out.onnx");
  must(nc, narrowcast_save(nc, inside, NARROWCAST_WEIGHTS_INSIDE));
  must(nc, narrowcast_save(nc, outside, NARROWCAST_WEIGHTS_OUTSIDE));
  size_t n_inside, n_outside;
  planning_read_file(f, inside, &n_inside);
  planning_read_file(f, outside, &n_outside);
  assert_true(n_outside + 10000 < n_inside);
  assert_int_equal(
      narrowcast_save(nc, inside, NARROWCAST_WEIGHTS_INSIDE | NARROWCAST_WEIGHTS_OUTSIDE),
      NARROWCAST_USAGE);
  assert_int_equal(narrowcast_save(nc, inside, 64), NARROWCAST_USAGE);
  narrowcast_free(nc);
}

static void a_limit_of_models_is_set_before_the_model(void **state) {
  (void)state;
  struct narrowcast *nc = narrowcast_new();
  assert_int_equal(narrowcast_set_model_limit(nc, "message", 10), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_set_model_limit(nc, "depth", 1001), NARROWCAST_USAGE);
  must(nc, narrowcast_set_model_limit(nc, "messages", 10));
  assert_int_equal(narrowcast_load_model(nc, digits), NARROWCAST_MODEL);
  assert_non_null(strstr(narrowcast_error(nc), "10 messages"));
  must(nc, narrowcast_set_model_limit(nc, "messages", 10000));
  must(nc, narrowcast_load_model(nc, digits));
  EARLY(narrowcast_set_model_limit(nc, "messages", 10), "before the model");
  narrowcast_free(nc);
}

static const char step_model[] = SOURCE_DIR "/models/tiny/training_step.onnx";

static struct narrowcast *step_of_a_training(void) {
  struct narrowcast *nc = narrowcast_new();
  assert_non_null(nc);
  must(nc, narrowcast_set_threads(nc, 1));
  must(nc, narrowcast_load_model(nc, step_model));
  must(nc, narrowcast_load_policy(nc, "fp16"));
  return nc;
}

static size_t plan_has(struct planning *f, struct narrowcast *nc, const char *text) {
  size_t size;
  const char *path = planning_path(f, "training.json");
  must(nc, narrowcast_plan(nc));
  must(nc, narrowcast_write_plan(nc, path));
  return strstr(planning_read_file(f, path, &size), text) != NULL;
}

static void weights_of_a_training_are_traced_in_a_loop(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = step_of_a_training();
  EARLY(narrowcast_set_steps(nc, 20), "narrowcast_add_feedback");
  must(nc, narrowcast_add_feedback(nc, "w=w_new"));
  assert_int_equal(narrowcast_set_steps(nc, 0), NARROWCAST_USAGE);
  must(nc, narrowcast_set_steps(nc, 20));
  must(nc, narrowcast_open_samples(nc, SOURCE_DIR "/models/tiny/samples/training_step"));
  must(nc, narrowcast_trace(nc));
  EARLY(narrowcast_add_feedback(nc, "w=w_new"), "before the trace");
  assert_true(plan_has(f, nc, "\"lost_updates_fraction\""));
  assert_true(plan_has(f, nc, "\"loss_scale\""));
  narrowcast_free(nc);
  nc = step_of_a_training();
  EARLY(narrowcast_add_feedback(nc, "w=nowhere"), "must be an input of the model");
  must(nc, narrowcast_add_feedback(nc, "w=w_new"));
  EARLY(narrowcast_add_feedback(nc, "w=w_new"), "fed back already");
  must(nc, narrowcast_open_samples(nc, SOURCE_DIR "/models/tiny/samples/training_step"));
  must(nc, narrowcast_trace(nc));
  narrowcast_free(nc);
}

static void checkpoints_of_a_training_are_compared(void **state) {
  struct planning *f = *state;
  struct narrowcast *nc = traced("fp16");
  const char *const two[] = {digits, digits}, *const null[] = {digits, NULL};
  assert_int_equal(narrowcast_trace_checkpoints(nc, NULL, 2), NARROWCAST_USAGE);
  assert_int_equal(narrowcast_trace_checkpoints(nc, null, 2), NARROWCAST_USAGE);
  must(nc, narrowcast_trace_checkpoints(nc, two, 2));  // behind the trace of samples
  EARLY(narrowcast_trace_checkpoints(nc, two, 2), "one history");
  assert_true(plan_has(f, nc, "\"weights\": ["));
  narrowcast_free(nc);
  nc = narrowcast_new();  // and without one
  must(nc, narrowcast_load_model(nc, digits));
  must(nc, narrowcast_load_policy(nc, "fp16"));
  assert_int_equal(narrowcast_trace_checkpoints(nc, two, 1), NARROWCAST_DATA);
  narrowcast_free(nc);
  nc = narrowcast_new();
  must(nc, narrowcast_load_model(nc, digits));
  must(nc, narrowcast_load_policy(nc, "fp16"));
  must(nc, narrowcast_trace_checkpoints(nc, two, 2));
  assert_true(plan_has(f, nc, "\"weights\": ["));
  narrowcast_free(nc);
}

static void count(void *context, const char *text) {
  *(int *)context += strstr(text, "imported twice") != NULL;
}

// However often the model is indexed on its way.
static void a_warning_is_given_once(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "", 17);
  build_input(&f->b, "x", "float[64,64]");
  build_floats(&f->b, "w", "float[1]", (float[]){2});
  build_node(&f->b, "Mul", "x w", "h");
  build_node(&f->b, "MatMul", "h h", "y");
  build_output(&f->b, "y", "float[64,64]");
  build_model(&f->b, &f->m);
  assert_int_equal(model_save(&f->m, planning_path(f, "m.onnx"), &f->d), STATUS_OK);
  int warnings = 0;
  struct narrowcast *nc = narrowcast_new();
  narrowcast_set_warning(nc, count, &warnings);
  must(nc, narrowcast_load_model(nc, planning_path(f, "m.onnx")));
  must(nc, narrowcast_load_policy(nc, "fp16"));
  must(nc, narrowcast_make_samples(nc, 1, 2));
  must(nc, narrowcast_trace(nc));
  must(nc, narrowcast_convert(nc));
  must(nc, narrowcast_save(nc, planning_path(f, "y.onnx"), 0));
  assert_int_equal(warnings, 1);
  narrowcast_free(nc);
}

static void *convert_in_a_thread(void *path) {
  struct narrowcast *nc = narrowcast_new();
  bool good = nc && narrowcast_set_threads(nc, 1) == NARROWCAST_OK &&
              narrowcast_load_model(nc, digits) == NARROWCAST_OK &&
              narrowcast_load_policy(nc, "fp16") == NARROWCAST_OK &&
              narrowcast_open_samples(nc, samples) == NARROWCAST_OK &&
              narrowcast_trace(nc) == NARROWCAST_OK && narrowcast_convert(nc) == NARROWCAST_OK &&
              narrowcast_save(nc, path, 0) == NARROWCAST_OK;
  narrowcast_free(nc);
  return good ? path : NULL;
}

static void handles_work_in_different_threads_at_once(void **state) {
  enum { THREADS = 3 };
  struct planning *f = *state;
  static const char *const names[] = {"0.onnx", "1.onnx", "2.onnx"};
  pthread_t threads[THREADS];
  void *result;
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, convert_in_a_thread,
                                    (void *)(uintptr_t)planning_path(f, names[i])),
                     0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], &result);
    assert_non_null(result);
  }
  for (int i = 1; i < THREADS; i++)
    assert_same_bytes(f, names[0], names[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(calls_that_come_too_early_say_what_is_missing),
      TEST(null_and_numbers_out_of_range_are_usage),
      TEST(errors_name_file_and_reason),
      TEST(verdict_and_report_are_files_of_a_run),
      TEST(a_step_that_fails_leaves_the_handle_as_it_was),
      TEST(a_model_that_cannot_be_raised_stays_as_it_was),
      TEST(convert_holds_and_tells_what_it_measured),
      TEST(steps_and_plan_file_give_the_same_bytes_as_convert),
      TEST(a_plan_is_made_again_after_keep),
      TEST(policy_and_plan_come_before_samples),
      TEST(what_is_read_is_never_written_over),
      TEST(no_two_outputs_of_a_handle_are_one_file),
      TEST(a_claim_that_fails_is_not_saved_unless_asked),
      TEST(overrides_decide_for_the_next_plan),
      TEST(a_keep_that_decides_nothing_is_warned_of),
      TEST(the_opset_is_raised_for_formats_that_need_it),
      TEST(weights_go_where_the_flags_say),
      TEST(a_limit_of_models_is_set_before_the_model),
      TEST(weights_of_a_training_are_traced_in_a_loop),
      TEST(checkpoints_of_a_training_are_compared),

      TEST(a_warning_is_given_once),
      TEST(handles_work_in_different_threads_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
