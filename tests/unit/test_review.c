// Plan files as people review them: what is read is what was written, whatever the names; the files
// may be broken in any way; what is ranked and compared comes out in order.
#include "review.h"
#include "support_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// h = x * w, r = relu(h) overflows, e = exp(r) is pinned, y = e * w; names that must be escaped.
static void build(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Relu", "h", "r\"\\\n");
  build_node(&f->b, "Exp", "r\"\\\n", "e");
  build_node(&f->b, "MatMul", "e w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_see(f, "r\"\\\n", (float[]){7e4f}, 1);
  planning_decide(f);
}

static const char *written(struct planning *f, const char *name) {
  const char *path = planning_path(f, name);
  if (plan_write(&f->p, &f->g, path, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  return path;
}

static struct review read_back(struct planning *f, const char *path) {
  struct review r;
  diag_clear(&f->d);
  if (review_read(&r, path, &f->arena, &f->d) != STATUS_OK)
    fail_msg("%s %s", f->d.file, f->d.message);
  return r;
}

static void review_reads_what_plan_write_wrote(void **state) {
  struct planning *f = *state;
  build(f);
  struct review r = read_back(f, written(f, "plan.json"));
  assert_int_equal(r.n_nodes, 4);
  assert_int_equal(r.n_ladder, f->p.n_ladder);
  for (int n = 0; n < r.n_nodes; n++) {
    assert_string_equal(r.nodes[n].label, graph_node_label(&f->g, n));
    assert_int_equal(r.nodes[n].format, f->p.nodes[n].format);
    assert_int_equal(r.nodes[n].reason, f->p.nodes[n].reason);
  }
  for (int v = 0; v < r.n_values; v++) {
    int value = value_id(&f->g, r.values[v].label);
    assert_int_equal(r.values[v].format, f->p.values[value].format);
    assert_true(r.values[v].fit.absmax == f->p.values[value].fit.absmax);
    assert_int_equal(r.values[v].constant, graph_is_constant(&f->g, value));
  }
  assert_true(r.thresholds.margin == f->policy.margin);
}

static void review_links_values_with_their_nodes(void **state) {
  struct planning *f = *state;
  build(f);
  struct review r = read_back(f, written(f, "plan.json"));
  const struct review_value *w = &r.values[map_get(&r.values_by_label, 0, "w")];
  assert_int_equal(w->producer, -1);
  assert_int_equal(w->n_readers, 2);
  assert_int_equal(w->readers[0], 0);
  assert_int_equal(w->readers[1], 3);
  const struct review_value *e = &r.values[map_get(&r.values_by_label, 0, "e")];
  assert_int_equal(e->producer, 2);
  assert_int_equal(e->n_readers, 1);
}

// What a function of review prints, in the arena.
static char *printed(struct planning *f, enum status (*print)(struct planning *f, FILE *out)) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  assert_int_equal(print(f, out), STATUS_OK);
  fclose(out);
  char *copy = arena_strdup(&f->arena, text);
  free(text);
  return copy;
}

static enum status explain_overflow(struct planning *f, FILE *out) {
  struct review r = read_back(f, planning_path(f, "plan.json"));
  return review_explain(&r, NULL, "r\"\\\n", out, &f->d);
}

static void explain_holds_numbers_against_thresholds(void **state) {
  struct planning *f = *state;
  build(f);
  written(f, "plan.json");
  const char *text = printed(f, explain_overflow);
  assert_non_null(strstr(text, "largest magnitude 7e+04; fp16 ends at 65504"));
  assert_non_null(strstr(text, "at least 2: FAILS"));
  assert_non_null(strstr(text, "its magnitude below 3.275e+04"));
  assert_non_null(strstr(text, "made by    #1(Relu) (Relu, fp32)"));
}

static enum status why_not_fp16(struct planning *f, FILE *out) {
  struct review r = read_back(f, planning_path(f, "plan.json"));
  return review_why_not(&r, FORMAT_FP16, out, &f->arena, &f->d);
}

// The product that cannot run narrow would save most: it comes first.
static void why_not_puts_the_largest_saving_first(void **state) {
  struct planning *f = *state;
  build(f);
  planning_see(f, "y", (float[]){7e4f}, 1);
  planning_decide(f);
  written(f, "plan.json");
  const char *text = printed(f, why_not_fp16);
  const char *product = strstr(text, "(y)"), *relu = strstr(text, "(r\"\\?)");
  assert_non_null(product);
  assert_non_null(relu);
  assert_true(product < relu);
  assert_non_null(strstr(text, "3 of 4 float nodes are not fp16"));
}

// A Conv, which takes bf16 from opset 22 on, whose result is too large for fp16.
static void build_conv(struct planning *f) {
  build_input(&f->b, "x", "float[1,1,2,2]");
  build_floats(&f->b, "w", "float[1,1,1,1]", (float[]){1});
  build_node(&f->b, "Conv", "x w", "y");
  build_output(&f->b, "y", "float[1,1,2,2]");
  planning_index(f);
  planning_see(f, "y", (float[]){7e4f}, 1);
}

static enum status why_not_bf16(struct planning *f, FILE *out) {
  struct review r = read_back(f, planning_path(f, "plan.json"));
  return review_why_not(&r, FORMAT_BF16, out, &f->arena, &f->d);
}

static void why_not_counts_what_a_higher_opset_would_save(void **state) {
  struct planning *f = *state;
  build_conv(f);
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  planning_decide(f);
  assert_int_equal(f->p.nodes[0].reason, REASON_SCHEMA);
  assert_true(f->p.seconds[0] < f->p.seconds[1]);
  written(f, "plan.json");
  assert_non_null(strstr(printed(f, why_not_bf16), "opset 22 would do"));
}

static void why_not_says_of_which_format_a_reason_is(void **state) {
  struct planning *f = *state;
  build_conv(f);
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  planning_decide(f);
  assert_int_equal(f->p.nodes[0].format, FORMAT_FP32);
  written(f, "plan.json");
  const char *text = printed(f, why_not_bf16);
  assert_non_null(strstr(text, "that is of fp16, which was tried first"));
  assert_null(strstr(printed(f, why_not_fp16), "which was tried first"));
}

static enum status explain_scaled(struct planning *f, FILE *out) {
  struct review r = read_back(f, planning_path(f, "plan.json"));
  r.values[map_get(&r.values_by_label, 0, "h")].scale_log2 = -1;
  return review_explain(&r, NULL, "h", out, &f->d);
}

static void explain_says_what_a_scaled_value_is_stored_as(void **state) {
  struct planning *f = *state;
  build(f);
  planning_see(f, "h", (float[]){4096}, 1);
  planning_decide(f);
  written(f, "plan.json");
  assert_non_null(strstr(printed(f, explain_scaled), "magnitude 4096, 2048 as it is stored"));
}

static void diff_counts_decisions_and_not_numbers(void **state) {
  struct planning *f = *state;
  build(f);
  struct review a = read_back(f, written(f, "a.json"));
  planning_see(f, "h", (float[]){3}, 1);
  planning_decide(f);
  struct review b = read_back(f, written(f, "b.json"));
  FILE *out = tmpfile();
  assert_non_null(out);
  assert_true(review_diff(&a, &b, false, out));
  b.values[0].scale_log2 = 3;
  assert_false(review_diff(&a, &b, false, out));
  assert_false(review_diff(&b, &a, true, out));
  fclose(out);
}

static void write_text(const char *path, const char *text, size_t size) {
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fwrite(text, 1, size, out);
  fclose(out);
}

// A format of operands is none that nodes run in: numbers are held against the next.
static void review_tells_the_operand_format_from_the_ladder(void **state) {
  struct planning *f = *state;
  build(f);
  size_t size;
  const char *path = written(f, "plan.json");
  char *text = planning_read_file(f, path, &size);
  char *ladder = strstr(text, "\"ladder\": [") + strlen("\"ladder\": [");
  char *format = strstr(strstr(text, "\"op\": \"MatMul\""), "\"format\"");
  assert_true(format > ladder);
  text = arena_printf(&f->arena, "%.*s\"fp8e4m3fn\", %.*s\"operands\": \"fp8e4m3fn\", %s",
                      (int)(ladder - text), text, (int)(format - ladder), ladder, format);
  write_text(path, text, strlen(text));
  struct review r = read_back(f, path);
  assert_int_equal(r.ladder[0], FORMAT_FP16);
  assert_int_equal(r.n_ladder, 2);
  assert_true(r.has_operand_format);
  assert_int_equal(r.operand_format, FORMAT_FP8E4M3FN);
  assert_true(r.nodes[0].narrow_operands);
  assert_false(r.nodes[3].narrow_operands);
  struct diag d = {0};
  assert_int_equal(review_emit_tensorrt(&r, planning_path(f, "out.args"), &d), STATUS_USAGE);
  assert_non_null(strstr(d.message, "no format for operands"));
}

static void review_refuses_every_truncation(void **state) {
  struct planning *f = *state;
  build(f);
  size_t size;
  const char *path = written(f, "plan.json");
  char *text = planning_read_file(f, path, &size);
  for (size_t cut = 0; cut + 2 < size; cut += 13) {
    struct review r;
    struct diag d = {0};
    write_text(path, text, cut);
    assert_int_equal(review_read(&r, path, &f->arena, &d), STATUS_POLICY);
    assert_true(d.message[0]);
  }
}

// Every value of the file made one of another type, in turn: an error or a plan, never a crash.
static void review_survives_members_of_another_type(void **state) {
  struct planning *f = *state;
  build(f);
  size_t size;
  const char *path = written(f, "plan.json");
  char *text = planning_read_file(f, path, &size);
  static const char *const others[] = {"null", "[]", "{}", "-1e300", "\"\"", "[[1], {\"a\": 2}]"};
  FILE *sink = fopen("/dev/null", "w");
  assert_non_null(sink);
  for (const char *at = text; (at = strstr(at, "\": ")) != NULL; at += 3)
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
      const char *value = at + 3, *end = value + strcspn(value, ",}\n");
      char *changed =
          arena_printf(&f->arena, "%.*s%s%s", (int)(value - text), text, others[i], end);
      write_text(path, changed, strlen(changed));
      struct review r;
      struct diag d = {0};
      if (review_read(&r, path, &f->arena, &d) != STATUS_OK) {
        assert_true(d.message[0]);
        continue;
      }
      review_explain(&r, NULL, "*", sink, &d);
      review_why_not(&r, FORMAT_FP16, sink, &f->arena, &d);
      review_diff(&r, &r, true, sink);
    }
  fclose(sink);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(review_reads_what_plan_write_wrote),
      TEST(review_links_values_with_their_nodes),
      TEST(explain_holds_numbers_against_thresholds),
      TEST(why_not_puts_the_largest_saving_first),
      TEST(why_not_counts_what_a_higher_opset_would_save),
      TEST(why_not_says_of_which_format_a_reason_is),
      TEST(explain_says_what_a_scaled_value_is_stored_as),
      TEST(diff_counts_decisions_and_not_numbers),
      TEST(review_tells_the_operand_format_from_the_ladder),
      TEST(review_refuses_every_truncation),
      TEST(review_survives_members_of_another_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
