// Every JSON file that the program reads. The first line of the input names the reader, the rest is
// the file. What a reader accepts is used as the program would use it: a policy and a trace to plan
// with, a plan to rewrite by, a plan and a verdict to explain and report. The model is always the
// same small one, whose SHA-256 is a row of 2s.
#include "clone.h"
#include "fuzz.h"
#include "passes.h"
#include "plan_scale.h"
#include "report.h"
#include "review.h"
#include "support_graph.h"
#include "zoo.h"

#include <stdlib.h>
#include <string.h>

// What the readers work on: the model, and a plan of it in memory and as text.
struct scene {
  struct arena arena;
  struct model model;
  struct graph graph;
  struct policy policy;
  struct trace trace;
  struct plan plan;
  char *plan_text;
};

static void make_model(struct scene *s) {
  struct build b;
  build_begin(&b, &s->arena, 19);
  build_input(&b, "x", "float[2,2]");
  build_input(&b, "flag", "bool[]");
  build_floats(&b, "w", "float[2,2]", (float[]){1, -2, 0.5, 3e-6f});
  build_node(&b, "MatMul", "x w", "h")->name = arena_strdup(&s->arena, "product");
  build_node(&b, "Relu", "h", "r");
  Onnx__NodeProto *n = build_node(&b, "If", "flag", "chosen");
  build_graph_begin(&b, n, "then_branch");
  build_node(&b, "Softmax", "r", "t");
  build_output(&b, "t", "float");
  build_graph_end(&b);
  build_graph_begin(&b, n, "else_branch");
  build_node(&b, "MatMul", "r w", "e");
  build_output(&b, "e", "float");
  build_graph_end(&b);
  build_node(&b, "Add", "chosen r", "y");
  build_output(&b, "y", "float[2,2]");
  build_model(&b, &s->model);
  memset(s->model.sha256, '2', sizeof s->model.sha256 - 1);
}

static void must(enum status status, const struct diag *d) {
  fuzz_require(status == STATUS_OK, "%s: %s", d->file, d->message);
}

static void make_trace(struct scene *s) {
  static const float x[] = {1, -2, 3e-6f};
  trace_init(&s->trace, &s->graph);
  s->trace.steps = s->trace.samples = s->trace.window = 1;
  memset(s->trace.samples_sha256, '3', sizeof s->trace.samples_sha256 - 1);
  for (int v = 0; v < s->graph.n_values; v++) {
    struct stats_piece piece = {0};
    if (!trace_measures(&s->graph, v))
      continue;
    stats_observe(&piece, x, 3, 1, 0);
    stats_merge_piece(&s->trace.stats[v], &piece);
    stats_end_run(&s->trace.stats[v], &piece, 0, 0);
  }
}

static struct scene *scene(void) {
  static struct scene s;
  if (s.plan_text)
    return &s;
  struct diag d = {0};
  size_t size;
  make_model(&s);
  must(graph_build(&s.graph, &s.model, fuzz_schemas(), &s.arena, &d), &d);
  make_trace(&s);
  must(policy_load(&s.policy, "fp16", &s.arena, &d), &d);
  must(policy_adjust_class(&s.policy, CLASS_NARROW, "*", &s.arena, &d), &d);
  must(plan_make(&s.plan, &s.graph, &s.trace, &s.policy, NULL, &s.arena, &d), &d);
  FILE *out = open_memstream(&s.plan_text, &size);
  fuzz_require(out, "no memory");
  plan_print(&s.plan, &s.graph, out);
  fuzz_require(fclose(out) == 0, "no memory");
  // FUZZ_SHOW=1 prints files to begin with: what the writers write, for the corpus.
  if (getenv("FUZZ_SHOW")) {
    printf("plan\n%s", s.plan_text);
    printf("trace\n");
    trace_print(&s.trace, &s.graph, stdout);
  }
  return &s;
}

// One input: the text with a NUL behind it, and as a file.
struct input {
  const char *text, *path;
  struct arena *arena;
  struct diag *diag;
  FILE *out;  // what is printed goes here
};

// ---- what decides ----

static void rewrite(struct scene *s, const struct plan *p, struct input *in) {
  struct model changed = clone_model(&s->model, in->arena);
  struct graph *index = arena_alloc(in->arena, sizeof *index);
  struct rewrite_report report;
  if (plan_is_identity(p))
    return;
  must(graph_build(index, &changed, fuzz_schemas(), in->arena, in->diag), in->diag);
  must(rewrite_model(&changed, index, p, REWRITE_CHECK_PASSES, &report, in->arena, in->diag),
       in->diag);
  must(graph_build(index, &changed, fuzz_schemas(), in->arena, in->diag), in->diag);
}

static void plan_with(struct scene *s, const struct policy *policy, const struct trace *t,
                      struct input *in) {
  struct plan p;
  if (plan_make(&p, &s->graph, t, policy, NULL, in->arena, in->diag) == STATUS_OK) {
    plan_print(&p, &s->graph, in->out);
    rewrite(s, &p, in);
  }
}

static enum status read_policy(struct scene *s, struct input *in) {
  struct policy policy;
  TRY(policy_parse(&policy, in->text, in->path, in->arena, in->diag));
  plan_with(s, &policy, &s->trace, in);
  return in->diag->status;
}

static enum status read_target(struct scene *s, struct input *in) {
  struct policy policy = s->policy;
  TRY(target_parse(&policy.target, in->text, in->path, in->arena, in->diag));
  plan_with(s, &policy, &s->trace, in);
  return in->diag->status;
}

static enum status read_overrides(struct scene *s, struct input *in) {
  struct policy policy = s->policy;
  struct overrides overrides;
  TRY(overrides_read(&overrides, in->path, in->arena, in->diag));
  policy.overrides = &overrides;
  plan_with(s, &policy, &s->trace, in);
  return in->diag->status;
}

static enum status read_plan(struct scene *s, struct input *in) {
  struct plan p;
  struct plan_file file;
  TRY(plan_open(&file, in->path, in->arena, in->diag));
  TRY(plan_read(&p, &s->graph, &file, in->arena, in->diag));
  for (int n = 0; n < p.n_nodes; n++)
    fuzz_require(scale_consistent(&s->graph, &p, n), "node %s", graph_node_label(&s->graph, n));
  plan_print(&p, &s->graph, in->out);
  rewrite(s, &p, in);
  return STATUS_OK;
}

static char *print_trace(const struct trace *t, struct graph *g, size_t *size) {
  char *text = NULL;
  FILE *out = open_memstream(&text, size);
  fuzz_require(out, "no memory");
  trace_print(t, g, out);
  fuzz_require(fclose(out) == 0, "no memory");
  return text;
}

// A trace that was read is written as it was, and can be planned with.
static enum status read_trace(struct scene *s, struct input *in) {
  struct trace t, again;
  size_t size, size_again;
  TRY(trace_read(&t, &s->graph, in->path, in->arena, in->diag));
  char *text = print_trace(&t, &s->graph, &size);
  const char *path = fuzz_write("again.json", text, size);
  must(trace_read(&again, &s->graph, path, in->arena, in->diag), in->diag);
  char *text_again = print_trace(&again, &s->graph, &size_again);
  fuzz_require(size == size_again && memcmp(text, text_again, size) == 0, "another trace");
  plan_with(s, &s->policy, &t, in);
  free(text);
  free(text_again);
  trace_free(&t);
  trace_free(&again);
  return in->diag->status;
}

// ---- what reviews ----

static void use_review(const struct review *r, struct input *in) {
  struct diag d = {0};
  review_explain(r, NULL, "*", in->out, &d);
  for (int f = 0; f < FORMAT_COUNT; f++)
    review_why_not(r, (enum format_id)f, in->out, in->arena, &d);
  for (int json = 0; json <= 1; json++)
    fuzz_require(review_diff(r, r, json, in->out), "differs from itself");
  char path[1024];
  snprintf(path, sizeof path, "%s/emitted", fuzz_folder());
  struct diag emitted = {0};
  fuzz_check_diag(review_emit_tensorrt(r, path, &emitted), &emitted);
}

static enum status read_review(struct scene *s, struct input *in) {
  struct review r, other;
  struct diag d = {0};
  TRY(review_read(&r, in->path, in->arena, in->diag));
  use_review(&r, in);
  must(review_read(&other, fuzz_write("plan.json", s->plan_text, strlen(s->plan_text)), in->arena,
                   &d),
       &d);
  review_diff(&r, &other, false, in->out);
  review_diff(&other, &r, true, in->out);
  return STATUS_OK;
}

static enum status read_review_files(struct scene *s, struct input *in) {
  struct review r;
  struct review_range *ranges = NULL;
  char path[1024];
  snprintf(path, sizeof path, "%s", fuzz_write("plan.json", s->plan_text, strlen(s->plan_text)));
  must(review_read(&r, path, in->arena, in->diag), in->diag);
  struct diag d = {0};
  fuzz_check_diag(review_read_trace(&r, in->path, &ranges, in->arena, &d), &d);
  if (d.status == STATUS_OK)
    review_explain(&r, ranges, "*", in->out, &d);
  TRY(review_read_errors(&r, in->path, in->arena, in->diag));
  use_review(&r, in);
  return STATUS_OK;
}

static enum status use_report(struct report *r, struct input *in) {
  TRY(report_check(r, in->diag));
  report_html(r, in->out);
  report_markdown(r, in->out);
  return STATUS_OK;
}

static enum status add_parts(struct report *r, struct scene *s, enum report_part part,
                             struct input *in) {
  if (part != REPORT_PLAN)
    TRY(report_add(r, REPORT_PLAN, "plan.json", s->plan_text, in->diag));
  TRY(report_add(r, part, in->path, in->text, in->diag));
  return use_report(r, in);
}

static enum status report_with(struct scene *s, enum report_part part, struct input *in) {
  struct report r = {0};
  enum status status = add_parts(&r, s, part, in);
  report_close(&r);
  return status;
}

static enum status report_plan(struct scene *s, struct input *in) {
  return report_with(s, REPORT_PLAN, in);
}

static enum status report_trace(struct scene *s, struct input *in) {
  return report_with(s, REPORT_TRACE, in);
}

static enum status report_verdict(struct scene *s, struct input *in) {
  return report_with(s, REPORT_VERDICT, in);
}

static enum status read_list(struct scene *s, struct input *in) {
  (void)s;
  struct zoo z = {.arena = in->arena};
  TRY(zoo_read_list(&z, in->path, in->diag));
  for (size_t i = 0; i < z.count; i++)
    fuzz_require(zoo_folder_of(z.models[i].name, in->arena)[0], "model %zu", i);
  return STATUS_OK;
}

static const struct {
  const char *name;
  enum status (*read)(struct scene *s, struct input *in);
} readers[] = {
    {"policy", read_policy},
    {"target", read_target},
    {"overrides", read_overrides},
    {"plan", read_plan},
    {"trace", read_trace},
    {"review", read_review},
    {"review-files", read_review_files},
    {"report-plan", report_plan},
    {"report-trace", report_trace},
    {"report-verdict", report_verdict},
    {"list", read_list},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
  struct scene *s = scene();
  if (!line)
    return 0;
  struct arena arena = {0};
  struct diag d = {0};
  size_t length = (size_t)(line - data), rest = size - length - 1;
  char *printed = NULL, *text = malloc(rest + 1);  // not the arena's: a read beyond it is seen
  size_t n_printed;
  fuzz_require(text, "no memory");
  memcpy(text, line + 1, rest);
  text[rest] = '\0';
  struct input in = {text, NULL, &arena, &d, open_memstream(&printed, &n_printed)};
  char path[1024];
  snprintf(path, sizeof path, "%s", fuzz_write("input.json", text, rest));
  in.path = path;
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (strlen(readers[i].name) == length && memcmp(readers[i].name, data, length) == 0)
      fuzz_check_diag(readers[i].read(s, &in), &d);
  fclose(in.out);
  free(printed);
  free(text);
  arena_free(&arena);
  return 0;
}
