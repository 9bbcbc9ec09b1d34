// See conversion.h. The order is that of `convert`: policy, statistics, plan, rewrite, and what
// verify builds. Statistics are made up by value id, so that a value may be in range, beyond it,
// too small, not finite, constant, never seen, or change from window to window.
#include "conversion.h"

#include "check.h"
#include "clone.h"
#include "emulate.h"
#include "passes.h"
#include "plan_quantise.h"
#include "plan_scale.h"
#include "support_graph.h"
#include "tensor.h"
#include "types.h"
#include "verify_twin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conversion {
  struct model *model;
  struct graph graph;
  struct arena *arena;
  struct policy policy;
  struct trace trace;
  bool has_trace;
  struct plan plan;
  struct model emitted;
  struct graph emitted_graph;
  struct diag diag;
};

// ---- policy ----

static const struct policy *shipped(unsigned index) {
  enum { MOST = 8 };
  static struct arena arena;
  static struct policy policies[MOST];
  const char *const *names = policy_names();
  unsigned count = 0;
  while (names[count] && count < MOST)
    count++;
  index %= count;
  struct diag d = {0};
  if (!policies[index].name)
    fuzz_require(policy_load(&policies[index], names[index], &arena, &d) == STATUS_OK, "%s",
                 d.message);
  return &policies[index];
}

static void choose_numbers(struct policy *p, struct choices *c) {
  static const double margins[] = {1, 2, 1.5, 64, 4096, 1e9};
  static const double shares[] = {0, 0.1, 0.5, 1};
  p->margin = margins[choose(c, 6)];
  p->max_zero_fraction = shares[choose(c, 4)];
  p->max_subnormal_fraction = shares[choose(c, 4)];
  p->constant_max_zero_fraction = shares[choose(c, 4)];
  p->constant_max_subnormal_fraction = shares[choose(c, 4)];
  p->constants = (enum constants_rule)choose(c, CONSTANTS_INFINITY + 1);
  p->ftz = choose(c, 2);
  p->keep_integers = choose(c, 2);
  p->keep_author_casts = choose(c, 2);
  p->scales.use = choose(c, 2);
  p->scales.margin = p->margin;
  p->scales.hysteresis = margins[choose(c, 4)];
  p->scales.max_spread = margins[choose(c, 6)];
  p->operands.margin = margins[choose(c, 6)];
}

// Cheap: everything that pays at all is narrow.
static void choose_target(struct policy *p, struct choices *c) {
  if (choose(c, 2))
    return;
  for (int f = 0; f < FORMAT_COUNT; f++) {
    p->target.matrix[f] = f == FORMAT_FP32 ? 1 : 1e12;
    p->target.vector[f] = f == FORMAT_FP32 ? 1 : 1e12;
  }
}

static void choose_policy(struct conversion *k, struct choices *c) {
  struct policy *p = &k->policy;
  struct diag *d = &k->diag;
  enum status status = STATUS_OK;
  *p = *shipped(choose(c, 8));
  if (choose(c, 2))
    choose_numbers(p, c);
  choose_target(p, c);
  unsigned format = choose(c, 4);
  if (format < 2)
    status = policy_adjust_format(p, format ? "bf16" : "fp16", k->arena, d);
  if (status == STATUS_OK && choose(c, 2))
    status = policy_adjust_io(p, "narrow", k->arena, d);
  if (status == STATUS_OK && choose(c, 2))
    status = policy_adjust_class(p, CLASS_NARROW, "*", k->arena, d);
  fuzz_require(status == STATUS_OK, "%s", d->message);
}

// ---- statistics ----

static void see(struct stats *s, struct choices *c, size_t window) {
  static const float usual[] = {1, -2, 0.5f}, large[] = {7e4f, -1}, huge[] = {3e38f, 1e-3f},
                     small[] = {1e-6f, -1e-7f}, tiny[] = {1e-39f, 1e-30f}, none[] = {0, -0.0f},
                     integers[] = {0, 1, 2, 4097}, infinite[] = {1, INFINITY}, nan[] = {NAN, 1};
  static const struct {
    const float *x;
    size_t n;
  } kinds[] = {{usual, 3}, {usual, 3}, {large, 2}, {huge, 2},     {small, 2},    {tiny, 2},
               {none, 2},  {NULL, 0},  {NULL, 0},  {integers, 4}, {infinite, 2}, {nan, 2}};
  // Mostly of the usual kind: a value that fails leaves little to rewrite.
  unsigned kind = choose(c, 2) ? choose(c, sizeof kinds / sizeof *kinds) : 0;
  if (!kinds[kind].x && window > 0)
    return;
  struct stats_piece piece = {0};
  stats_observe(&piece, kinds[kind].x, kinds[kind].n, 1, 0);
  stats_merge_piece(s, &piece);
  stats_end_run(s, &piece, window, (int64_t)window);
}

static void choose_trace(struct conversion *k, struct choices *c) {
  struct trace *t = &k->trace;
  trace_init(t, &k->graph);
  k->has_trace = choose(c, 8) != 1;
  t->steps = t->samples = t->window = 1;
  memset(t->samples_sha256, '3', sizeof t->samples_sha256 - 1);
  bool varied = choose(c, 2), scaled = choose(c, 4) == 1;
  for (int v = 0; v < k->graph.n_values; v++) {
    if (!trace_measures(&k->graph, v))
      continue;
    struct choices same = {0};  // all as usual
    see(&t->stats[v], varied ? c : &same, 0);
    if (scaled)
      see(&t->stats[v], c, 1);
  }
}

// ---- the plan ----

static void check_plan(struct conversion *k) {
  struct plan *p = &k->plan;
  struct graph *g = &k->graph;
  for (int n = 0; n < g->n_nodes; n++) {
    const struct node_plan *node = &p->nodes[n];
    const char *label = graph_node_label(g, n);
    fuzz_require(node->format == FORMAT_FP32 || plan_operator_takes(g, n, node->format),
                 "node %s in %s", label, formats[node->format].name);
    fuzz_require(scale_consistent(g, p, n), "node %s", label);
  }
  for (int v = 0; v < g->n_values; v++) {
    const struct value_plan *value = &p->values[v];
    fuzz_require(value->format == FORMAT_FP32 || graph_is_fp32(g, v), "value %s",
                 graph_value_label(g, v));
    // A constant in fp32 may be stored times what the other operands of its node are scaled by.
    bool wide = value->format == FORMAT_FP32 && !graph_is_constant(g, v);
    fuzz_require(!wide || value->scale_log2 == 0, "value %s", graph_value_label(g, v));
  }
}

static char *print_plan(const struct plan *p, struct graph *g, size_t *size) {
  char *text = NULL;
  FILE *out = open_memstream(&text, size);
  fuzz_require(out, "no memory");
  plan_print(p, g, out);
  fuzz_require(fclose(out) == 0, "no memory");
  return text;
}

// Without what plan.h says is not read back.
static struct plan what_is_kept(const struct plan *p, struct arena *a) {
  struct plan kept = *p;
  kept.costs.target = NULL;
  kept.n_weights = 0;
  kept.values = arena_array(a, (size_t)p->n_values, sizeof *kept.values);
  for (int v = 0; v < p->n_values; v++) {
    kept.values[v] = p->values[v];
    kept.values[v].window_scales = NULL;
  }
  return kept;
}

static int operand_scale(const struct value_plan *v) {
  return v->operand ? v->operand->scale_log2 : INT32_MIN;
}

// What decides about the rewrite is read back as it was.
static void check_same(struct conversion *k, const struct plan *read) {
  const struct plan *p = &k->plan;
  for (int n = 0; n < p->n_nodes; n++) {
    const struct node_plan *x = &p->nodes[n], *y = &read->nodes[n];
    fuzz_require(x->format == y->format && x->narrow_operands == y->narrow_operands &&
                     x->output_scale == y->output_scale,
                 "node %s", graph_node_label(&k->graph, n));
  }
  for (int v = 0; v < p->n_values; v++) {
    const struct value_plan *x = &p->values[v], *y = &read->values[v];
    fuzz_require(x->format == y->format && x->scale_log2 == y->scale_log2 &&
                     operand_scale(x) == operand_scale(y),
                 "value %s", graph_value_label(&k->graph, v));
  }
}

static void check_plan_file(struct conversion *k) {
  size_t size = 0, size_again = 0;
  struct plan kept = what_is_kept(&k->plan, k->arena);
  char *text = print_plan(&kept, &k->graph, &size);
  struct plan read;
  struct diag *d = &k->diag;
  const char *path = fuzz_write("plan.json", text, size);
  struct plan_file file;
  fuzz_require(plan_open(&file, path, k->arena, d) == STATUS_OK &&
                   plan_read(&read, &k->graph, &file, k->arena, d) == STATUS_OK,
               "%s: %s", d->file, d->message);
  check_same(k, &read);
  char *again = print_plan(&read, &k->graph, &size_again);
  size_t same = 0;
  while (same < size && same < size_again && text[same] == again[same])
    same++;
  fuzz_require(size == size_again && same == size,
               "a plan that is read and written is another: %.200s\n  was %.200s", again + same,
               text + same);
  free(text);
  free(again);
}

// ---- the result ----

static void check_interface(struct conversion *k) {
  const Onnx__GraphProto *x = k->model->proto->graph, *y = k->emitted.proto->graph;
  const struct plan *p = &k->plan;
  fuzz_require(x->n_input == y->n_input && x->n_output == y->n_output, "interface");
  for (size_t i = 0; i < x->n_input; i++) {
    fuzz_require(strcmp(x->input[i]->name, y->input[i]->name) == 0, "input %zu", i);
    struct type before = type_from_proto(x->input[i]->type);
    fuzz_require(p->narrow_inputs || k->graph.all_listed ||
                     type_equal(before, type_from_proto(y->input[i]->type)),
                 "input %s", x->input[i]->name);
  }
  for (size_t i = 0; i < x->n_output; i++) {
    const char *name = x->output[i]->name ? x->output[i]->name : "";
    fuzz_require(strcmp(name, y->output[i]->name ? y->output[i]->name : "") == 0, "output %zu", i);
    struct type before = type_from_proto(x->output[i]->type);
    fuzz_require(p->narrow_outputs || before.kind == TYPE_UNKNOWN ||
                     type_equal(before, type_from_proto(y->output[i]->type)),
                 "output %s", name);
  }
}

static void check_bytes(struct conversion *k) {
  uint8_t *bytes;
  size_t size;
  struct diag *d = &k->diag;
  struct model again;
  fuzz_require(model_pack(k->emitted.proto, k->arena, &bytes, &size, d) == STATUS_OK, "%s",
               d->message);
  fuzz_require(model_from_bytes(&again, k->arena, bytes, size, "again.onnx", NULL, d) == STATUS_OK,
               "%s", d->message);
  fuzz_require(check_model(&again, fuzz_schemas(), "reading", d) == STATUS_OK, "%s: %s: %s",
               d->node, d->tensor, d->message);
  model_close(&again);
}

static void check_idempotent(struct conversion *k) {
  struct plan again;
  enum status status =
      plan_make(&again, &k->emitted_graph, NULL, &k->policy, NULL, k->arena, &k->diag);
  fuzz_require(status == STATUS_OK, "%s", k->diag.message);
  fuzz_require(plan_is_identity(&again), "the result would be converted again");
}

// What verify and trace build. They may refuse, by name, what cannot be carried as fp32.
static void build_for_sessions(struct conversion *k) {
  struct twin twin;
  struct model copy = clone_model(&k->emitted, k->arena);
  struct graph *index = arena_alloc(k->arena, sizeof *index);
  fuzz_check_diag(
      twin_build(&twin, &k->graph, &k->emitted_graph, &k->plan, NULL, 0, k->arena, &k->diag),
      &k->diag);
  diag_clear(&k->diag);
  fuzz_require(graph_build(index, &copy, fuzz_schemas(), k->arena, &k->diag) == STATUS_OK, "%s",
               k->diag.message);
  fuzz_check_diag(emulate_model(&copy, index, k->plan.ftz, k->arena, &k->diag), &k->diag);
  if (k->diag.status == STATUS_OK) {
    // A Round is an operator that the table does not know, but its neighbours' types must hold.
    fuzz_require(graph_build(index, &copy, fuzz_schemas(), k->arena, &k->diag) == STATUS_OK, "%s",
                 k->diag.message);
    fuzz_require(!emulate_needed(index), "a narrow type is left");
  }
  diag_clear(&k->diag);
  struct instrumented instrumented;
  fuzz_check_diag(
      trace_instrument(&instrumented, &k->graph, TRACE_VALUES_AND_UPDATES, k->arena, &k->diag),
      &k->diag);
  diag_clear(&k->diag);
}

static void check_rewrite(struct conversion *k) {
  struct diag *d = &k->diag;
  struct rewrite_report report;
  struct graph *index = arena_alloc(k->arena, sizeof *index);
  k->emitted = clone_model(k->model, k->arena);
  fuzz_require(graph_build(index, &k->emitted, fuzz_schemas(), k->arena, d) == STATUS_OK, "%s",
               d->message);
  struct graph *followed = arena_alloc(k->arena, sizeof *followed);
  *followed = graph_of_clone(&k->graph, &k->emitted, k->arena);
  const char *differs = index_difference(followed, index);
  fuzz_require(!differs, "the index of a clone differs: %s", differs ? differs : "");
  fuzz_require(rewrite_model(&k->emitted, index, &k->plan, REWRITE_CHECK_PASSES, &report, k->arena,
                             d) == STATUS_OK,
               "node '%s', tensor '%s': %s", d->node, d->tensor, d->message);
  fuzz_require(graph_build(&k->emitted_graph, &k->emitted, fuzz_schemas(), k->arena, d) ==
                   STATUS_OK,
               "%s", d->message);
  check_interface(k);
  check_bytes(k);
  check_idempotent(k);
  build_for_sessions(k);
}

// ---- all of it ----

static enum status read_tensor(void *context, Onnx__TensorProto *t) {
  struct conversion *k = context;
  struct tensor view;
  return tensor_read(k->model, t, k->arena, &view, &k->diag);
}

// As run_load_model, and the invariants, which are checked of a source too.
static enum status open_source(struct conversion *k) {
  TRY(graph_build(&k->graph, k->model, fuzz_schemas(), k->arena, &k->diag));
  TRY(model_each_tensor(k->model->proto, read_tensor, k));
  return check_model(k->model, fuzz_schemas(), NULL, &k->diag);
}

void conversion_check(struct model *m, struct choices *c, bool valid, struct arena *a) {
  struct conversion *k = arena_alloc(a, sizeof *k);
  k->model = m;
  k->arena = a;
  memset(m->sha256, '2', sizeof m->sha256 - 1);
  choose_policy(k, c);
  if (open_source(k) != STATUS_OK) {
    fuzz_require(!valid, "node '%s', tensor '%s': %s", k->diag.node, k->diag.tensor,
                 k->diag.message);
    return;
  }
  choose_trace(k, c);
  const struct trace *t = k->has_trace ? &k->trace : NULL;
  enum status status = plan_make(&k->plan, &k->graph, t, &k->policy, NULL, a, &k->diag);
  fuzz_check_diag(status, &k->diag);
  if (status == STATUS_OK) {
    check_plan(k);
    check_plan_file(k);
    if (!plan_is_identity(&k->plan))
      check_rewrite(k);
  }
  fuzz_require(!valid || status == STATUS_OK, "%s", k->diag.message);
  trace_free(&k->trace);
}
