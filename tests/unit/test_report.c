// The report: what it takes and refuses, that data is passed through and can break out of nothing,
// and that the files that plan, trace and verify write are what it reads.
#include "embedded.h"
#include "file.h"
#include "report.h"
#include "support_plan.h"
#include "verdict_file.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// A plan with the least that it must have.
#define PLAN(nodes, values)                                                                        \
  "{\"schema\": 1, \"model\": {\"file\": \"m.onnx\", \"sha256\": \"aa\"},\n"                       \
  "\"policy\": {\"name\": \"p\", \"version\": 1},\n"                                               \
  "\"statistics\": {\"source\": \"data\", \"samples\": 2, \"sha256\": \"ss\"},\n"                  \
  "\"claims\": [],\n\"nodes\": [" nodes "],\n\"values\": [" values "]}\n"
#define TRACE(model, samples)                                                                      \
  "{\"schema\": 1, \"model\": {\"file\": \"m.onnx\", \"sha256\": \"" model "\"}, \"samples\": "    \
  "{\"count\": 2, \"sha256\": \"" samples "\"}, \"values\": []}"

struct fixture {
  struct report report;
  struct diag d;
  char *text;  // of the last report
};

static int set_up(void **state) {
  *state = calloc(1, sizeof(struct fixture));
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  report_close(&f->report);
  free(f->text);
  free(f);
  return 0;
}

static enum status add(struct fixture *f, enum report_part part, const char *text) {
  return report_add(&f->report, part, "x.json", text, &f->d);
}

static const char *written(struct fixture *f, enum report_form form) {
  size_t size;
  free(f->text);
  FILE *out = open_memstream(&f->text, &size);
  assert_non_null(out);
  if (form == REPORT_HTML)
    report_html(&f->report, out);
  else
    report_markdown(&f->report, out);
  fclose(out);
  return f->text;
}

static int occurrences(const char *text, const char *part) {
  int count = 0;
  for (; (text = strstr(text, part)); text += strlen(part))
    count++;
  return count;
}

// The text of a verdict of that plan.
static char *verdict_of(const char *plan) {
  char sha256[65];
  sha256_hex(plan, strlen(plan), sha256);
  static const char form[] =
      "{\"schema\": 1, \"model\": {\"file\": \"m.onnx\", \"sha256\": \"aa\"}, \"plan\": "
      "{\"sha256\": \"%s\"}, \"holds\": false, \"samples\": 1, \"held_out\": true, \"claims\": "
      "[{\"id\": \"c\", \"metric\": \"relative_l2\", \"output\": \"y\", \"measured\": 0.5, "
      "\"limit\": 0.01, \"holds\": false, \"worst_sample\": \"7.npz\"}, {\"id\": \"c\", "
      "\"metric\": \"relative_l2\", \"output\": \"z\", \"measured\": 0.002, \"limit\": 0.01, "
      "\"holds\": true, \"worst_sample\": \"3.npz\", \"measured_held_out\": 0.001, "
      "\"measured_calibration\": 0.002, \"measured_in_engine\": 0.05, "
      "\"holds_in_engine\": false}], \"calibration_samples\": 6, \"engine\": \"1.2.3|x\", "
      "\"few_samples\": \"Only *one*.\", "
      "\"drawbacks\": [{\"id\": \"engine\", \"text\": \"Computes <b>else</b>.\"}], "
      "\"load_errors\": "
      "[{\"level\": \"all\", \"error\": \"Type *Error*\"}], \"outputs\": [], \"loads\": "
      "true, "
      "\"engine_has_kernels\": true}";
  size_t size = sizeof form + sizeof sha256;
  char *text = malloc(size);
  assert_non_null(text);
  snprintf(text, size, form, sha256);
  return text;
}

static void report_data_cannot_leave_its_element(void **state) {
  struct fixture *f = *state;
  const char *plan = PLAN("", "{\"value\": \"</script><script>alert(1)</script><!--&amp;\", "
                              "\"format\": \"fp16\"}");
  assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_OK);
  const char *html = written(f, REPORT_HTML);
  assert_null(strstr(html, "alert(1)</script"));
  assert_non_null(strstr(html, "\\u003c/script\\u003e\\u003cscript\\u003ealert(1)"));
  assert_non_null(strstr(html, "\\u003c!--\\u0026amp;"));
  // What the page runs, what it knows of formats, and the plan.
  assert_int_equal(occurrences(html, "</script>"), 3);
}

static void report_passes_json_through_unchanged(void **state) {
  struct fixture *f = *state;
  const char *plan =
      PLAN("", "{\"value\": \"x\", \"format\": \"fp5e9\", \"scale_log2\": -3, \"news\": [1e-7]}");
  assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_OK);
  assert_int_equal(report_check(&f->report, &f->d), STATUS_OK);
  assert_non_null(strstr(written(f, REPORT_HTML), plan));
}

static void report_skips_a_byte_order_mark(void **state) {
  struct fixture *f = *state;
  assert_int_equal(add(f, REPORT_PLAN, "\xef\xbb\xbf" PLAN("", "")), STATUS_OK);
  assert_non_null(strstr(written(f, REPORT_HTML), "id=\"data-plan\">{\"schema\""));
}

static void report_template_asks_for_nothing_outside(void **state) {
  (void)state;
  const struct embedded *e = embedded_files;
  while (e->name && strcmp(e->name, "template.html") != 0)
    e++;
  assert_non_null(e->name);
  assert_true(e->size < 1500000);
  assert_int_equal(occurrences(e->text, "<!-- narrowcast: data -->"), 1);
  assert_non_null(strstr(e->text, "content=\"default-src 'none'; script-src 'sha256-"));
  assert_int_equal(occurrences(e->text, "<script>"), 1);
  assert_null(strstr(e->text, "<script src"));
  assert_null(strstr(e->text, "@import"));
}

static void report_refuses_what_is_missing_or_mistyped(void **state) {
  struct fixture *f = *state;
  static const struct {
    enum report_part part;
    const char *text, *message;
  } cases[] = {
      {REPORT_PLAN, "[]", "must be an object"},
      {REPORT_PLAN, "{\"schema\": 1}", "\"model\" is missing"},
      {REPORT_PLAN, "{\"schema\": ", "not valid JSON"},
      {REPORT_PLAN, PLAN("7", ""), "nodes[0]: must be an object"},
      {REPORT_PLAN, PLAN("{\"node\": \"n\", \"op\": \"Add\"}", ""), "\"format\" is missing"},
      {REPORT_PLAN, PLAN("{\"node\": \"n\", \"op\": 3, \"format\": \"fp16\"}", ""),
       "nodes[0].op: must be a string"},
      {REPORT_PLAN,
       PLAN("{\"node\": \"n\", \"op\": \"A\", \"format\": \"fp16\", \"inputs\": [1]}", ""),
       "nodes[0].inputs[0]: must be a string"},
      {REPORT_PLAN, PLAN("", "{\"value\": \"x\", \"format\": \"fp16\", \"absmax\": \"big\"}"),
       "values[0].absmax: must be a number"},
      {REPORT_PLAN, PLAN("", "{\"value\": \"x\", \"format\": \"fp16\", \"scale_log2\": 1e99}"),
       "values[0].scale_log2: must be an integer"},
      {REPORT_TRACE, PLAN("", ""), "\"samples\" is missing"},
      {REPORT_VERDICT, TRACE("aa", "ss"), "\"plan\" is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    report_close(&f->report);
    f->d = (struct diag){0};
    assert_int_equal(add(f, cases[i].part, cases[i].text), STATUS_POLICY);
    if (!strstr(f->d.message, cases[i].message))
      fail_msg("case %zu says: %s", i, f->d.message);
    assert_non_null(strstr(f->d.file, "x.json"));
  }
}

static void report_refuses_another_schema(void **state) {
  struct fixture *f = *state;
  char *plan = strdup(PLAN("", ""));
  assert_non_null(plan);
  strchr(plan, '1')[0] = '2';
  assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_POLICY);
  assert_non_null(strstr(f->d.message, "schema"));
  free(plan);
}

static void report_refuses_files_of_different_runs(void **state) {
  struct fixture *f = *state;
  const char *plan = PLAN("", "");
  assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_OK);
  static const struct {
    const char *trace, *message;
  } cases[] = {{TRACE("bb", "ss"), "another model"}, {TRACE("aa", "tt"), "samples differ"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    f->d = (struct diag){0};
    assert_int_equal(add(f, REPORT_TRACE, cases[i].trace), STATUS_OK);
    assert_int_equal(report_check(&f->report, &f->d), STATUS_POLICY);
    assert_non_null(strstr(f->d.message, cases[i].message));
  }
}

static void report_refuses_the_verdict_of_an_edited_plan(void **state) {
  struct fixture *f = *state;
  const char *plan = PLAN("", "");
  char *right = verdict_of(plan);
  char *wrong = verdict_of(PLAN("", "{\"value\": \"x\", \"format\": \"fp32\"}"));
  assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_OK);
  assert_int_equal(add(f, REPORT_VERDICT, right), STATUS_OK);
  assert_int_equal(report_check(&f->report, &f->d), STATUS_OK);
  assert_int_equal(add(f, REPORT_VERDICT, wrong), STATUS_OK);
  assert_int_equal(report_check(&f->report, &f->d), STATUS_POLICY);
  assert_non_null(strstr(f->d.message, "another plan"));
  free(right);
  free(wrong);
}

static void markdown_says_the_verdict_and_each_failure(void **state) {
  struct fixture *f = *state;
  const char *plan = PLAN("", "{\"value\": \"x\", \"format\": \"fp16\"}");
  char *verdict = verdict_of(plan);
  assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_OK);
  assert_non_null(strstr(written(f, REPORT_MARKDOWN), "**Not verified.**"));
  assert_int_equal(add(f, REPORT_VERDICT, verdict), STATUS_OK);
  const char *text = written(f, REPORT_MARKDOWN);
  assert_non_null(strstr(text, "**Refused:** a claim does not hold"));
  assert_non_null(strstr(
      text, "| **FAILS** | `relative_l2` | `y` | 0.5 | 0.5 | - | - | at most 0.01 | `7.npz` |"));
  assert_non_null(strstr(
      text,
      "| holds | `relative_l2` | `z` | 0.002 | 0.001 | 0.002 | 0.05 | at most 0.01 | `3.npz` |"));
  assert_non_null(strstr(text, "on 1 held-out sample and 6 that calibrated."));
  assert_non_null(strstr(text, "in ONNX Runtime 1.2.3 | limit"));
  assert_non_null(strstr(text, "**Drawback.** Computes"));
  assert_null(strstr(text, "<b>"));
  assert_non_null(strstr(text, "**Few samples.** Only "));
  assert_non_null(
      strstr(text, "At optimisation level `all` the result does not load or run: Type "));
  assert_null(strstr(text, "Type *Error*"));
  free(verdict);
}

static void markdown_tells_what_is_unchanged_from_what_is_not_verified(void **state) {
  struct fixture *f = *state;
  assert_int_equal(add(f, REPORT_PLAN, PLAN("", "{\"value\": \"x\", \"format\": \"fp32\"}")),
                   STATUS_OK);
  const char *text = written(f, REPORT_MARKDOWN);
  assert_non_null(strstr(text, "**Unchanged: nothing to convert under this policy.**"));
  assert_null(strstr(text, "Not verified"));
}

static void markdown_keeps_names_inside_code_spans(void **state) {
  struct fixture *f = *state;
  static const struct {
    const char *json, *shown;
  } cases[] = {
      {"plain/name", "| `plain/name` |"},
      {"a|b", "| `a\\|b` |"},
      {"tick`tick", "| `` tick`tick `` |"},
      {"`", "| `` ` `` |"},
      {"line\\nbreak\\u0007", "| `line?break?` |"},
      {"<img src=x> @team #1", "| `<img src=x> @team #1` |"},
      {"turn \\u202e around \\u2066", "| `turn ? around ?` |"},
      {"", "| (no name) |"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char plan[2048];
    snprintf(plan, sizeof plan,
             PLAN("", "{\"value\": \"%s\", \"format\": \"fp16\", \"headroom\": 2}"), cases[i].json);
    report_close(&f->report);
    assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_OK);
    if (!strstr(written(f, REPORT_MARKDOWN), cases[i].shown))
      fail_msg("no %s in %s", cases[i].shown, f->text);
  }
}

static void markdown_stays_below_the_length_of_a_comment(void **state) {
  struct fixture *f = *state;
  size_t size, rows = 20000;
  char *plan;
  FILE *out = open_memstream(&plan, &size);
  assert_non_null(out);
  fputs("{\"schema\": 1, \"model\": {\"file\": \"m.onnx\", \"sha256\": \"aa\"}, \"policy\": "
        "{\"name\": \"p\", \"version\": 1}, \"statistics\": {\"source\": \"data\", \"samples\": 2, "
        "\"sha256\": \"ss\"}, \"claims\": [], \"nodes\": [], \"values\": [",
        out);
  for (size_t i = 0; i < rows; i++)
    fprintf(out, "%s{\"value\": \"%0300zu\", \"format\": \"fp16\", \"headroom\": %zu}",
            i ? "," : "", i, rows - i);
  fputs("]}", out);
  fclose(out);
  clock_t start = clock();
  assert_int_equal(add(f, REPORT_PLAN, plan), STATUS_OK);
  assert_true(strlen(written(f, REPORT_MARKDOWN)) < 65536);
  assert_true(strlen(written(f, REPORT_HTML)) > rows * 300);
  assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 10);
  free(plan);
}

// ---- What the program writes is what the report reads ----

static void report_reads_what_plan_trace_and_verify_write(void **state) {
  struct planning *p = *state;
  build_input(&p->b, "x", "float[2]");
  build_node(&p->b, "Relu", "x", "y");
  build_output(&p->b, "y", "float[2]");
  planning_all(p);
  struct report report = {0};
  char *texts[REPORT_PARTS] = {0};
  size_t size;
  FILE *out = open_memstream(&texts[REPORT_PLAN], &size);
  plan_print(&p->p, &p->g, out);
  fclose(out);
  out = open_memstream(&texts[REPORT_TRACE], &size);
  trace_print(&p->t, &p->g, out);
  fclose(out);
  struct compare errors[8];
  for (int i = 0; i < 8; i++)
    compare_init(&errors[i]);
  assert_true(p->g.n_values <= 8);
  errors[value_id(&p->g, "y")].runs = 1;
  struct claim claim = {.id = "finite", .metric = METRIC_FINITE};
  struct verdict_claim judged = {.claim = &claim, .output = "y", .holds = true, .sample = "s"};
  struct verdict_output output = {.name = "y", .value = value_id(&p->g, "y"), .rows = -1};
  struct verdict verdict = {.outputs = &output,
                            .n_outputs = 1,
                            .claims = &judged,
                            .n_claims = 1,
                            .holds = true,
                            .values = errors,
                            .n_values = p->g.n_values,
                            .first_nonfinite = -1,
                            .worst_local = -1,
                            .loads[OPTIMISE_ALL] = "no such kernel",
                            .unsupported[OPTIMISE_ALL] = true};
  struct verdict_source from = {.graph = &p->g, .plan = &p->p, .engine = "1.0.0"};
  sha256_hex(texts[REPORT_PLAN], strlen(texts[REPORT_PLAN]), from.plan_sha256);
  out = open_memstream(&texts[REPORT_VERDICT], &size);
  verdict_print(&verdict, &from, out);
  fclose(out);
  assert_non_null(strstr(texts[REPORT_VERDICT],
                         "\"level\": \"all\", \"error\": \"no such kernel\", "
                         "\"unsupported\": true"));
  for (int i = 0; i < REPORT_PARTS; i++)
    if (report_add(&report, (enum report_part)i, "text", texts[i], &p->d) != STATUS_OK)
      fail_msg("%s: %s", p->d.file, p->d.message);
  if (report_check(&report, &p->d) != STATUS_OK)
    fail_msg("%s", p->d.message);
  assert_non_null(strstr(texts[REPORT_PLAN], "\"inputs\": [\"x\"], \"outputs\": [\"y\"]"));
  assert_non_null(strstr(texts[REPORT_VERDICT], "{\"value\": \"y\", \"scope\": \"\", \"max_abs\""));
  assert_null(strstr(texts[REPORT_VERDICT], "{\"value\": \"x\""));
  report_close(&report);
  for (int i = 0; i < REPORT_PARTS; i++)
    free(texts[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(report_data_cannot_leave_its_element),
      TEST(report_passes_json_through_unchanged),
      TEST(report_skips_a_byte_order_mark),
      TEST(report_template_asks_for_nothing_outside),
      TEST(report_refuses_what_is_missing_or_mistyped),
      TEST(report_refuses_another_schema),
      TEST(report_refuses_files_of_different_runs),
      TEST(report_refuses_the_verdict_of_an_edited_plan),
      TEST(markdown_says_the_verdict_and_each_failure),
      TEST(markdown_tells_what_is_unchanged_from_what_is_not_verified),
      TEST(markdown_keeps_names_inside_code_spans),
      TEST(markdown_stays_below_the_length_of_a_comment),
      cmocka_unit_test_setup_teardown(report_reads_what_plan_trace_and_verify_write,
                                      planning_set_up, planning_tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
