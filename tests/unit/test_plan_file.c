// The plan file: written and read back it is the same bytes, the same plan writes the same bytes,
// and what does not fit the model is refused with its line.
#include "support_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A model with a bit of everything that a plan says: narrow and wide nodes with reasons, a culprit,
// constants, variables that stay wide, a branch, strings to escape.
static struct planning *rich(void **state) {
  struct planning *f = *state;
  float w[4] = {1, 2, 3, 4};
  build_input(&f->b, "x", "float[2,2,2,2]");
  build_input(&f->b, "c", "bool[]");
  build_floats(&f->b, "w", "float[2,2,1,1]", w);
  build_floats(&f->b, "scale", "float[2]", w);
  build_floats(&f->b, "variance", "float[2]", (float[]){1e6f, 1});
  build_floats(&f->b, "epsilon", "float[]", (float[]){1e-12f});
  build_node(&f->b, "Conv", "x w", "h");
  build_node(&f->b, "BatchNormalization", "h scale scale scale variance", "n");
  build_node(&f->b, "Add", "n epsilon", "sum\"\\\n");
  build_node(&f->b, "Relu", "sum\"\\\n", "r")->name = (char[]){"a \"name\""};
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "MatMul", "r x", "t");
  build_output(&f->b, "t", "float[2,2,2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "MatMul", "x r", "e");
  build_output(&f->b, "e", "float[2,2,2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2,2,2]");
  static const char *outputs[] = {"y", NULL};
  static struct claim claims[] = {
      {.id = "finite", .metric = METRIC_FINITE},
      {.id = "near", .metric = METRIC_RELATIVE_L2, .limit = 0.1, .outputs = outputs},
      {.id = "rows", .metric = METRIC_MATCHED_ROWS, .limit = 0.9, .tolerance = 0.25}};
  f->policy.claims = claims;
  f->policy.n_claims = 3;
  f->policy.adjustments = arena_array(&f->arena, 3, sizeof *f->policy.adjustments);
  f->policy.adjustments[0] = "keep /head*";
  f->policy.adjustments[1] = "io narrow";
  planning_index(f);
  planning_see(f, "x", (float[]){1e-6f, 0.3f, 12}, 3);
  planning_unsee(f, "#4.else_branch::e");
  planning_decide(f);
  return f;
}

static const char *written(struct planning *f, const char *name) {
  const char *path = planning_path(f, name);
  if (plan_write(&f->p, &f->g, path, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  return path;
}

static void expect_same_files(struct planning *f, const char *a, const char *b) {
  size_t n_a, n_b;
  const char *x = planning_read_file(f, a, &n_a), *y = planning_read_file(f, b, &n_b);
  for (size_t i = 0, line = 1; i < n_a && i < n_b; line += x[i++] == '\n')
    if (x[i] != y[i])
      fail_msg("line %zu differs:\n%.200s\n%.200s", line, x + i, y + i);
  assert_int_equal(n_a, n_b);
}

static void plan_file_read_and_written_again_is_the_same(void **state) {
  struct planning *f = rich(state);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  assert_int_equal(node_reason(f, "sum\"\\\n"), REASON_CONSTANT);
  assert_true(f->p.nodes[node_of(&f->g, "n")].wide_vars);
  f->p.costs.target = NULL;  // is not read back: an edit of a node would make it wrong
  const char *first = written(f, "first.json");
  if (planning_read_plan(f, &f->p, first, &f->d) != STATUS_OK)
    fail_msg("%s %s", f->d.file, f->d.message);
  expect_same_files(f, first, written(f, "second.json"));
}

static void plan_file_of_a_ladder_read_and_written_again_is_the_same(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  f->policy.ftz = f->policy.narrow_inputs = f->policy.narrow_outputs = true;
  f->policy.constants = CONSTANTS_SATURATE;
  f->policy.hold_out = (struct hold_out){.share = 0.25, .enough = 8};
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "MatMul", "x x", "h");
  build_node(&f->b, "MatMul", "h h", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_see(f, "y", (float[]){1e6f}, 1);
  planning_decide(f);
  assert_int_equal(node_format(f, "y"), FORMAT_BF16);
  static struct promotion log[] = {
      {.round = 1, .value = 0, .from = FORMAT_FP16, .to = FORMAT_BF16, .error = 0.25},
      {.round = 2, .value = 1, .from = FORMAT_FP16, .to = FORMAT_FP32, .error = INFINITY}};
  static const struct promotions promotions = {.log = log, .count = 2};
  f->p.promotions = &promotions;
  f->p.costs.target = NULL;  // is not read back: an edit of a node would make it wrong
  const char *first = written(f, "first.json");
  if (planning_read_plan(f, &f->p, first, &f->d) != STATUS_OK)
    fail_msg("%s %s", f->d.file, f->d.message);
  assert_true(f->p.ftz && f->p.narrow_inputs && f->p.narrow_outputs);
  expect_same_files(f, first, written(f, "second.json"));
}

// Found by fuzz_convert, with the policy tf32.
static void plan_file_of_fp32_alone_read_and_written_again_is_the_same(void **state) {
  struct planning *f = *state;
  f->policy.ladder[0] = FORMAT_FP32;
  f->policy.n_ladder = 1;
  build_input(&f->b, "x", "float[2,2]");
  build_node(&f->b, "MatMul", "x x", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_reason(f, "y"), REASON_NONE);
  f->p.costs.target = NULL;
  const char *first = written(f, "first.json");
  if (planning_read_plan(f, &f->p, first, &f->d) != STATUS_OK)
    fail_msg("%s %s", f->d.file, f->d.message);
  expect_same_files(f, first, written(f, "second.json"));
}

static void plan_made_twice_is_the_same_file(void **state) {
  struct planning *f = rich(state);
  const char *first = written(f, "first.json");
  planning_decide(f);
  expect_same_files(f, first, written(f, "second.json"));
}

static void plan_read_gives_the_formats_that_rewrite_needs(void **state) {
  struct planning *f = rich(state);
  struct plan made = f->p;
  const char *path = written(f, "plan.json");
  assert_int_equal(planning_read_plan(f, &f->p, path, &f->d), STATUS_OK);
  for (int n = 0; n < made.n_nodes; n++) {
    assert_int_equal(made.nodes[n].format, f->p.nodes[n].format);
    if (made.nodes[n].format != FORMAT_FP32)
      assert_true(made.nodes[n].wide_vars == f->p.nodes[n].wide_vars);
  }
  for (int v = 0; v < made.n_values; v++) {
    assert_int_equal(made.values[v].format, f->p.values[v].format);
    assert_int_equal(made.values[v].considered, f->p.values[v].considered);
  }
  assert_true(made.headroom == f->p.headroom);
  assert_int_equal(made.headroom_value, f->p.headroom_value);
  assert_int_equal(f->p.n_claims, 3);
  assert_string_equal(f->p.claims[1].outputs[0], "y");
  assert_true(f->p.claims[2].tolerance == 0.25);
}

// Whoever signs a plan off reads in it what its claims do not cover.
static void plan_file_lists_how_the_result_can_fail(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,2]");
  planning_index(f);
  planning_see(f, "y", (float[]){1, 2047}, 2);
  planning_decide(f);
  size_t size;
  char *text = planning_read_file(f, written(f, "plan.json"), &size);
  assert_non_null(strstr(text, "y leaves fp16 when it grows about 32 times."));
  assert_non_null(strstr(text, "\"id\": \"accumulation\""));
  assert_null(strstr(text, "never seen"));
  f->no_trace = true;
  planning_decide(f);
  assert_non_null(strstr(planning_read_file(f, written(f, "plan.json"), &size), "\"limits\": []"));
}

// Two weights that are inputs too, one of which a wide node reads as well.
static void build_listed_weights(struct planning *f) {
  build_input(&f->b, "x", "float[1,2]");
  build_input(&f->b, "w", "float[2,2]");
  build_input(&f->b, "v", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "v", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "MatMul", "h v", "y");
  build_node(&f->b, "Exp", "v", "e");
  build_output(&f->b, "y", "float[1,2]");
  build_output(&f->b, "e", "float[2,2]");
}

static void plan_file_names_inputs_whose_defaults_change_their_type(void **state) {
  struct planning *f = *state;
  size_t size;
  build_listed_weights(f);
  planning_index(f);
  planning_decide(f);
  char *text = planning_read_file(f, written(f, "plan.json"), &size);
  assert_non_null(strstr(text, "1 initializer is listed as input too, and so may be overridden"));
  assert_non_null(strstr(text, "must give the like (w)."));
}

static void before_ir_4_no_default_of_an_input_can_be_overridden(void **state) {
  struct planning *f = *state;
  size_t size;
  f->b.model->ir_version = 3;
  build_listed_weights(f);
  planning_index(f);
  planning_decide(f);
  assert_null(strstr(planning_read_file(f, written(f, "plan.json"), &size), "overridden"));
}

// "1 values were" was written.
static void plan_file_counts_one_thing_in_the_singular(void **state) {
  struct planning *f = *state;
  size_t size;
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "y");
  build_node(&f->b, "Neg", "x", "a");
  build_node(&f->b, "Neg", "a", "b");
  build_output(&f->b, "y", "float[1,2]");
  build_output(&f->b, "b", "float[1,2]");
  planning_index(f);
  planning_unsee(f, "b");
  planning_decide(f);
  assert_non_null(strstr(planning_read_file(f, written(f, "plan.json"), &size),
                         "1 value was never seen, and stays fp32 unmeasured."));
  planning_unsee(f, "a");
  planning_decide(f);
  assert_non_null(strstr(planning_read_file(f, written(f, "plan.json"), &size),
                         "2 values were never seen, and stay fp32 unmeasured."));
}

// ---- refusals ----

// A small plan: nodes #0(Conv) fp16, #1(Relu) fp16 and #2(Exp) fp32.
static struct planning *small(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,1,2,2]");
  build_floats(&f->b, "w", "float[1,1,1,1]", (float[]){2});
  build_node(&f->b, "Conv", "x w", "h");
  build_node(&f->b, "Relu", "h", "r");
  build_node(&f->b, "Exp", "r", "y");
  build_output(&f->b, "y", "float[1,1,2,2]");
  planning_index(f);
  planning_decide(f);
  assert_int_equal(node_format(f, "r"), FORMAT_FP16);
  return f;
}

// Writes the plan with `old` (in it once, from `after` on) replaced by `new`; the line of `old`.
static int edit(struct planning *f, const char *after, const char *old, const char *new) {
  size_t size;
  char *text = planning_read_file(f, written(f, "plan.json"), &size);
  char *from = strstr(text, after);
  char *at = from ? strstr(from, old) : NULL;
  if (!at)
    fail_msg("no %s after %s in\n%s", old, after, text);
  int line = 1;
  for (const char *c = text; c < at; c++)
    line += *c == '\n';
  FILE *out = fopen(planning_path(f, "plan.json"), "wb");
  assert_non_null(out);
  fprintf(out, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
  fclose(out);
  return line;
}

// Reading the edited plan fails, names the line and says `message`.
static void expect_refusal(struct planning *f, int line, const char *message) {
  struct plan p;
  struct diag d = {0};
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_POLICY);
  if (!strstr(d.message, message))
    fail_msg("\"%s\" does not say \"%s\"", d.message, message);
  const char *place = arena_printf(&f->arena, "plan.json:%d", line);
  if (line && !strstr(d.file, place))
    fail_msg("\"%s\" (%s) does not say %s", d.file, d.message, place);
}

static void plan_read_refuses_the_plan_of_another_model(void **state) {
  struct planning *f = small(state);
  edit(f, "\"model\"", "2222", "1222");
  expect_refusal(f, 0, "another model");
}

static void plan_read_refuses_a_node_that_does_not_exist(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"op\": \"Exp\"", "\"Exp\"", "\"Erf\"");
  expect_refusal(f, line, "no node 2 with operator Erf");
}

static void plan_read_refuses_a_scope_that_does_not_exist(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"nodes\"", "\"scope\": \"\"", "\"scope\": \"fn:a.b\"");
  expect_refusal(f, line, "no scope \"fn:a.b\"");
}

static void plan_read_refuses_a_format_that_the_operator_does_not_take(void **state) {
  struct planning *f = small(state);  // Conv takes bf16 from opset 22 on; this is 17
  int line = edit(f, "\"op\": \"Conv\"", "\"fp16\"", "\"bf16\"");
  expect_refusal(f, line, "Conv does not take bf16");
}

static void plan_read_refuses_formats_that_cannot_be_written(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"op\": \"Conv\"", "\"fp16\"", "\"fp8e4m3fn\"");
  expect_refusal(f, line, "fp8e4m3fn");
}

static void plan_read_refuses_a_format_that_is_none(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"op\": \"Conv\"", "\"fp16\"", "\"fp17\"");
  expect_refusal(f, line, "fp17");
}

static void keep_warning(void *context, const char *text) {
  snprintf(context, 1024, "%s", text);
}

// Formats of values follow from the nodes': an edit of a node is enough, and one of a value alone
// is named and changes nothing.
static void plan_read_takes_formats_of_values_from_nodes(void **state) {
  struct planning *f = small(state);
  char warning[1024] = "";
  struct diag d = {.warn = keep_warning, .warn_context = warning};
  edit(f, "\"value\": \"r\"", "\"fp16\"", "\"fp32\"");
  struct plan p;
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_non_null(strstr(warning, "r is fp32 here, but node #1(Relu), which makes it"));
  assert_non_null(strstr(warning, "it stays fp16"));
  edit(f, "\"op\": \"Conv\"", "\"fp16\"", "\"fp32\"");
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_int_equal(p.nodes[0].format, FORMAT_FP32);
  assert_int_equal(p.values[map_get(&f->g.names, 0, "h")].format, FORMAT_FP32);
}

// What the person meant is no contradiction; the values next to the node follow it.
static void plan_read_takes_an_edit_of_a_node_without_a_word(void **state) {
  struct planning *f = small(state);
  char warning[1024] = "";
  struct diag d = {.warn = keep_warning, .warn_context = warning};
  edit(f, "\"op\": \"Conv\"", "\"fp16\"", "\"fp32\"");
  struct plan p;
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_string_equal(warning, "");
  assert_int_equal(p.nodes[0].reason, REASON_EDITED);
}

// y, which the Exp gives, reaches 1e6.
static void plan_read_warns_of_an_edit_that_overflows(void **state) {
  struct planning *f = small(state);
  planning_see(f, "y", (float[]){1, 1e6f}, 2);
  planning_decide(f);
  char warning[1024] = "";
  struct diag d = {.warn = keep_warning, .warn_context = warning};
  edit(f, "\"op\": \"Exp\"", "\"fp32\"", "\"fp16\"");
  struct plan p;
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_non_null(strstr(warning, "node #2(Exp) was edited to fp16, but y reaches 1e+06"));
  assert_int_equal(p.nodes[2].format, FORMAT_FP16);
  warning[0] = '\0';
  planning_see(f, "y", (float[]){1, 65504}, 2);
  planning_decide(f);
  edit(f, "\"op\": \"Exp\"", "\"fp32\"", "\"fp16\"");
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_string_equal(warning, "");
}

static void keep_warnings(void *context, const char *text) {
  size_t used = strlen(context);
  snprintf((char *)context + used, 4096 - used, "%s\n", text);
}

// Seven Exps of one value that leaves fp16, each edited to it.
static void plan_read_counts_edits_that_overflow_after_some(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2]");
  for (int k = 0; k < 7; k++) {
    const char *y = arena_printf(&f->arena, "y%d", k);
    build_node(&f->b, "Exp", "x", y);
    build_output(&f->b, y, "float[2]");
  }
  planning_index(f);
  planning_see(f, "x", (float[]){1, 1e6f}, 2);
  planning_decide(f);
  size_t size;
  char *text = planning_read_file(f, written(f, "plan.json"), &size);
  for (char *at = strstr(text, "\"nodes\""); (at = strstr(at, "\"Exp\"")) != NULL;) {
    at = strstr(at, "\"fp32\"");
    memcpy(at, "\"fp16\"", 6);
  }
  FILE *out = fopen(planning_path(f, "plan.json"), "wb");
  assert_non_null(out);
  fwrite(text, 1, size, out);
  fclose(out);
  char warnings[4096] = "";
  struct diag d = {.warn = keep_warnings, .warn_context = warnings};
  struct plan p;
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_non_null(strstr(warnings, "node #4(Exp) was edited to fp16, but x reaches 1e+06"));
  assert_null(strstr(warnings, "node #5(Exp)"));
  assert_non_null(strstr(warnings, "2 more edited nodes leave their formats' ranges"));
}

// It would be fp32, and be missed in the totals, without anybody having said so.
static void plan_read_refuses_a_plan_without_one_of_the_nodes(void **state) {
  struct planning *f = small(state);
  size_t size;
  char *text = planning_read_file(f, written(f, "plan.json"), &size);
  char *from = strstr(text, "{\"node\": \"#1(Relu)\""), *to = from ? strchr(from, '\n') : NULL;
  assert_non_null(to);
  memset(from, ' ', (size_t)(to - from));
  FILE *out = fopen(planning_path(f, "plan.json"), "wb");
  assert_non_null(out);
  fwrite(text, 1, size, out);
  fclose(out);
  expect_refusal(f, 0, "nodes: its entry is missing");
}

// An input comes as policy.inputs says, whatever reads it; a scale is its node's.
static void plan_read_names_what_decides_instead_of_a_value(void **state) {
  struct planning *f = small(state);
  char warning[1024] = "";
  struct diag d = {.warn = keep_warning, .warn_context = warning};
  struct plan p;
  edit(f, "\"value\": \"x\", \"scope\"", "\"fp32\"", "\"fp16\"");
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_non_null(strstr(warning, "but policy.inputs keeps the model's inputs as they are"));
  edit(f, "\"value\": \"r\"", "\"scale_log2\": 0", "\"scale_log2\": 2");
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_non_null(strstr(warning, "edit that node's \"output_scale_log2\""));
  edit(f, "\"value\": \"w\"", "\"scale_log2\": 0", "\"scale_log2\": 2");
  assert_int_equal(planning_read_plan(f, &p, planning_path(f, "plan.json"), &d), STATUS_OK);
  assert_non_null(strstr(warning, "edit their \"input_scales_log2\""));
}

static char reported[4096];

static void keep_report(const struct diag *error) {
  size_t used = strlen(reported);
  snprintf(reported + used, sizeof reported - used, "%s: %s\n", error->file, error->message);
}

static void plan_read_names_every_illegal_edit(void **state) {
  struct planning *f = small(state);
  const char *path = planning_path(f, "plan.json");
  int conv = edit(f, "\"op\": \"Conv\"", "\"fp16\"", "\"bf16\"");
  size_t size;
  char *text = planning_read_file(f, path, &size);
  char *exp = strstr(strstr(text, "\"nodes\""), "\"Exp\"");
  memcpy(exp, "\"Erf\"", strlen("\"Erf\""));
  char *r = strstr(strstr(text, "\"value\": \"r\""), "\"r\"");
  memcpy(r, "\"s\"", strlen("\"s\""));
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fwrite(text, 1, size, out);
  fclose(out);
  struct plan p;
  struct diag d = {.report = keep_report};
  reported[0] = '\0';
  assert_int_equal(planning_read_plan(f, &p, path, &d), STATUS_POLICY);
  assert_non_null(strstr(d.message, "3 entries cannot be applied"));
  assert_null(strchr(d.file + strlen(d.file) - 2, ':'));
  assert_non_null(strstr(reported, arena_printf(&f->arena, "plan.json:%d: nodes[0]", conv)));
  assert_non_null(strstr(reported, "Conv does not take bf16"));
  assert_non_null(strstr(reported, "no node 2 with operator Erf"));
  assert_non_null(strstr(reported, "no fp32 value \"s\""));
}

static void plan_read_refuses_a_node_of_another_name(void **state) {
  struct planning *f = small(state);
  edit(f, "\"nodes\"", "\"node\": \"", "\"node\": \"other ");
  expect_refusal(f, 0, "in the model, not \"other ");
}

static void plan_read_refuses_a_value_that_does_not_exist(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"value\": \"r\"", "\"r\"", "\"s\"");
  expect_refusal(f, line, "no fp32 value \"s\"");
}

// An edit of what nobody reads would be silently dropped.
static void plan_read_refuses_unknown_keys(void **state) {
  struct planning *f = small(state);
  edit(f, "\"op\": \"Exp\"", "\"format\"", "\"fromat\": \"fp16\", \"format\"");
  expect_refusal(f, 0, "nodes[2].fromat: unknown key");
  struct plan p;
  struct diag d = {0};
  planning_read_plan(f, &p, planning_path(f, "plan.json"), &d);
  assert_non_null(strstr(d.hint, "Did you mean \"format\"?"));
  int line = edit(f, "\"value\": \"r\"", "\"scale_log2\"", "\"scale\": 16, \"scale_log2\"");
  expect_refusal(f, line, "scale: unknown key");
  edit(f, "\"policy\": {", "\"inputs\"", "\"input\": \"narrow\", \"inputs\"");
  expect_refusal(f, 0, "policy.input: unknown key");
  edit(f, "\"claims\": [", "[",
       "[{\"id\": \"c\", \"metric\": \"finite\", \"limit\": 0, \"output\": []}");
  expect_refusal(f, 0, "claims[0].output: unknown key");
  edit(f, "\"statistics\": {", "\"samples\"", "\"sample\": 3, \"samples\"");
  expect_refusal(f, 0, "statistics.sample: unknown key");
}

static void plan_read_refuses_what_is_no_scale(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"value\": \"r\"", "\"scale_log2\": 0", "\"scale_log2\": 127");
  expect_refusal(f, line, "not a whole number from -126 to 126");
}

static void plan_read_refuses_scales_that_an_operator_does_not_carry(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"op\": \"Conv\"", "\"format\": \"fp16\"",
                  "\"format\": \"fp16\", \"output_scale_log2\": -2");
  expect_refusal(f, line, "Conv does not carry these scales");
}

static void plan_read_refuses_scales_of_a_node_in_fp32(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"op\": \"Exp\"", "\"format\": \"fp32\"",
                  "\"format\": \"fp32\", \"output_scale_log2\": -2");
  expect_refusal(f, line, "a node in fp32 has no scales");
}

static void plan_read_refuses_bad_json(void **state) {
  struct planning *f = small(state);
  int line = edit(f, "\"op\": \"Relu\"", "\"Relu\",", "\"Relu\"");
  expect_refusal(f, line, "");
}

static void plan_read_refuses_another_schema_number(void **state) {
  struct planning *f = small(state);
  edit(f, "\"schema\"", "1", "2");
  expect_refusal(f, 0, "schema 1");
}

// A share beyond these, or NaN, would divide the samples of verify into no parts at all.
static void plan_read_refuses_a_held_out_share_that_is_none(void **state) {
  struct planning *f = *state;
  f->policy.hold_out = (struct hold_out){.share = 0.25};
  small(state);
  static const char *const shares[] = {"1.5", "-0.25", "1e300", "\"nan\"", "\"inf\"", "true"};
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    edit(f, "\"hold_out_share\"", "0.25", shares[i]);
    expect_refusal(f, 0, "hold_out_share is not a number from 0 to 1");
  }
}

static void plan_read_refuses_unknown_claims(void **state) {
  struct planning *f = *state;
  static struct claim claims[] = {{.id = "finite", .metric = METRIC_FINITE}};
  f->policy.claims = claims;
  f->policy.n_claims = 1;
  small(state);
  int line = edit(f, "\"metric\"", "\"finite\"", "\"beauty\"");
  expect_refusal(f, line, "unknown metric \"beauty\"");
}

static void plan_read_refuses_missing_members(void **state) {
  static const char *const keys[] = {"\"format\"", "\"op\"", "\"index\"", "\"class\""};
  struct planning *f = small(state);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    int line = edit(f, "\"nodes\"", keys[i], "\"because_of\"");
    expect_refusal(f, line, arena_printf(&f->arena, "%s is missing", keys[i]));
  }
}

// Whatever piece is cut off the end, the reader says so and does not crash.
static void plan_read_refuses_every_truncation(void **state) {
  struct planning *f = small(state);
  size_t size;
  const char *path = written(f, "plan.json"), *text = planning_read_file(f, path, &size);
  for (size_t cut = 0; cut + 2 < size; cut += 7) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fwrite(text, 1, cut, out);
    fclose(out);
    struct plan p;
    struct diag d = {0};
    assert_int_equal(planning_read_plan(f, &p, path, &d), STATUS_POLICY);
    assert_true(d.message[0]);
  }
}

// Every value of the file made one of another type, in turn: an error or a plan, never a crash.
static void plan_read_survives_members_of_another_type(void **state) {
  struct planning *f = small(state);
  size_t size;
  const char *path = written(f, "plan.json"), *text = planning_read_file(f, path, &size);
  static const char *const others[] = {"null", "[]", "{}", "-1e300", "\"\"", "[[1], {\"a\": 2}]"};
  for (const char *at = text; (at = strstr(at, "\": ")) != NULL; at += 3) {
    const char *value = at + 3, *end = value + strcspn(value, ",}\n");
    if (*value == '{' || *value == '[')
      continue;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
      FILE *out = fopen(path, "wb");
      assert_non_null(out);
      fprintf(out, "%.*s%s%s", (int)(value - text), text, others[i], end);
      fclose(out);
      struct plan p;
      struct diag d = {0};
      enum status status = planning_read_plan(f, &p, path, &d);
      assert_true(status == STATUS_OK || (status == STATUS_POLICY && d.message[0]));
    }
  }
}

static void plan_read_takes_a_node_widened_by_hand(void **state) {
  struct planning *f = small(state);
  edit(f, "\"op\": \"Relu\"", "\"fp16\"", "\"fp32\"");
  edit(f, "", "", "");  // as written: the edit of a value must follow
  size_t size;
  char *text = planning_read_file(f, planning_path(f, "plan.json"), &size);
  char *relu = strstr(strstr(text, "\"op\": \"Relu\""), "fp16");
  char *r = strstr(strstr(text, "\"value\": \"r\""), "fp16");
  memcpy(relu, "fp32", 4);
  memcpy(r, "fp32", 4);
  FILE *out = fopen(planning_path(f, "plan.json"), "wb");
  assert_non_null(out);
  fwrite(text, 1, size, out);
  fclose(out);
  if (planning_read_plan(f, &f->p, planning_path(f, "plan.json"), &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  assert_int_equal(node_format(f, "r"), FORMAT_FP32);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  planning_rewrite(f);
  assert_int_equal(emitted_type(f, "r"), 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(plan_file_read_and_written_again_is_the_same),
      TEST(plan_file_of_a_ladder_read_and_written_again_is_the_same),
      TEST(plan_file_of_fp32_alone_read_and_written_again_is_the_same),
      TEST(plan_made_twice_is_the_same_file),
      TEST(plan_read_gives_the_formats_that_rewrite_needs),
      TEST(plan_read_refuses_the_plan_of_another_model),
      TEST(plan_read_refuses_a_node_that_does_not_exist),
      TEST(plan_read_refuses_a_scope_that_does_not_exist),
      TEST(plan_read_refuses_a_format_that_the_operator_does_not_take),
      TEST(plan_read_refuses_formats_that_cannot_be_written),
      TEST(plan_read_refuses_a_format_that_is_none),
      TEST(plan_file_lists_how_the_result_can_fail),
      TEST(plan_file_names_inputs_whose_defaults_change_their_type),
      TEST(before_ir_4_no_default_of_an_input_can_be_overridden),
      TEST(plan_file_counts_one_thing_in_the_singular),
      TEST(plan_read_takes_formats_of_values_from_nodes),
      TEST(plan_read_takes_an_edit_of_a_node_without_a_word),
      TEST(plan_read_warns_of_an_edit_that_overflows),
      TEST(plan_read_counts_edits_that_overflow_after_some),
      TEST(plan_read_refuses_a_plan_without_one_of_the_nodes),
      TEST(plan_read_names_what_decides_instead_of_a_value),
      TEST(plan_read_names_every_illegal_edit),
      TEST(plan_read_refuses_a_node_of_another_name),
      TEST(plan_read_refuses_a_value_that_does_not_exist),
      TEST(plan_read_refuses_unknown_keys),
      TEST(plan_read_refuses_what_is_no_scale),
      TEST(plan_read_refuses_scales_that_an_operator_does_not_carry),
      TEST(plan_read_refuses_scales_of_a_node_in_fp32),
      TEST(plan_read_refuses_bad_json),
      TEST(plan_read_refuses_another_schema_number),
      TEST(plan_read_refuses_a_held_out_share_that_is_none),
      TEST(plan_read_refuses_unknown_claims),
      TEST(plan_read_refuses_missing_members),
      TEST(plan_read_refuses_every_truncation),
      TEST(plan_read_survives_members_of_another_type),
      TEST(plan_read_takes_a_node_widened_by_hand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
