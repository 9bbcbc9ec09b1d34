// Operator conformance: converts every operator test model of ONNX with a policy that forces narrow
// wherever the operator's schema allows it, and compares what the results compute with the
// published outputs.
//
//   conformance POLICY EXCLUSIONS FOLDER VARIANT... <LIST
//
// LIST names model files, each with its test_data_set_*/ beside it. POLICY is a policy file;
// VARIANT is a format, and the ladder becomes {format, fp32}; one of 8 bits is for operands of
// matrix products, after the model's opset was raised to 19 where it is lower; "FORMAT-io" makes
// inputs and outputs of the models narrow too, "FORMAT-scaled" stores values at scales,
// "FORMAT-raised" raises the opset to 22 first; "opsetN" raises it to N and does no more.
// EXCLUSIONS lists, with a reason, the models whose outputs may be further from the published ones
// than conformance_values.c allows. Emitted models go to FOLDER, and FOLDER/pairs names source and
// result for checker.py.
//
// Of every model it must hold, excluded or not:
//   - it is converted: plan and rewrite, the written file read back and its invariants checked;
//   - inputs and outputs keep their names, order and types (or have those of the plan, in "-io").
// And unless the engine cannot run the source:
//   - the engine loads the result as it is, or lacks kernels for the format;
//   - the outputs are as near to the published ones as rounding allows; those of a model that was
//     raised and not converted are the source's, bit for bit.
//
// The plan is made as if every value had been 1 in a trace (in "-scaled" 2^20, which needs a scale
// in fp16), so that nothing but schema and structure decides, and nodes that lose their format to
// the price of Casts get it back. Each model is tried in a process of its own, since engines have
// crashed on valid models.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include "conformance.h"

#include "check.h"
#include "clone.h"
#include "passes.h"
#include "plan_quantise.h"
#include "policy.h"
#include "raise_opset.h"
#include "stats.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 2, SECONDS = 60 };

static const char *const outcome_texts[OUTCOME_COUNT] = {
    [OUTCOME_CRASHED] = "ended without a result",
    [OUTCOME_BROKEN] = "broken",
    [OUTCOME_DIFFERS] = "differs",
    [OUTCOME_SOURCE_DIFFERS] = "source differs",
    [OUTCOME_MATCHED] = "matched",
    [OUTCOME_AS_PUBLISHED] = "as published; the engine has no kernels for the old opset",
    [OUTCOME_UNCHANGED] = "unchanged",
    [OUTCOME_NOT_RAISED] = "the opset cannot be raised",
    [OUTCOME_NO_OPSET] = "the engine does not know the opset",
    [OUTCOME_NO_KERNEL] = "the engine has no kernels",
    [OUTCOME_NO_DATA] = "test data are no tensors, or do not fit the model",
};

enum { VARIANTS = 16, OPSET_WITH_FLOAT8 = 19, OPSET_WITH_BFLOAT16 = 22 };

struct variant {
  const char *name;             // "fp16-io"
  const struct format *format;  // NULL: the opset is raised, and no more
  int opset;                    // to raise to; 0: none
  bool narrow_interface;
  float magnitude;  // that values are pretended to have
  struct policy policy;
};

struct exclusion {
  const char *variants, *models, *reason;  // globs, and a sentence
  int used[VARIANTS];
};

struct program {
  struct arena arena;
  struct schema_table schemas;
  struct engine *engine;
  const char *folder;
  struct variant variants[VARIANTS];
  int n_variants;
  char **models;
  size_t n_models, capacity_models;
  struct exclusion *exclusions;
  size_t n_exclusions, capacity_exclusions;
  struct result *results;  // by variant, then model
};

// ---- one model, in the child ----

static void pretend_trace(struct trace *t, const struct graph *g, float x) {
  trace_init(t, g);
  t->steps = t->samples = 1;
  for (int v = 0; v < g->n_values; v++) {
    struct stats_piece piece = {0};
    stats_observe(&piece, &x, 1, 1, 0);
    stats_merge_piece(&t->stats[v], &piece);
    stats_end_run(&t->stats[v], &piece, 0, 0);
  }
}

// Nodes that Casts would cost too much narrow are narrow all the same.
static void force_narrow(struct plan *p, struct graph *g) {
  for (int n = 0; n < g->n_nodes; n++)
    if (p->nodes[n].reason == REASON_BOUNDARY) {
      p->nodes[n].format = p->nodes[n].reason_format;
      p->nodes[n].reason = REASON_NONE;
    }
  for (int v = 0; v < g->n_values; v++)
    if (p->values[v].considered)
      p->values[v].format = plan_stored_format(g, p, v);
}

static void count_nodes(struct result *r, const struct plan *p) {
  for (int n = 0; n < p->n_nodes; n++) {
    if (p->nodes[n].reason == REASON_NOT_FLOAT)
      continue;
    r->float_nodes++;
    if (p->nodes[n].format != FORMAT_FP32 || p->nodes[n].narrow_operands)
      r->narrow_nodes++;
    else if (p->has_operand_format && p->nodes[n].product)
      r->left_wide[p->nodes[n].operands_reason]++;
    else if (p->has_operand_format && p->nodes[n].reason == REASON_NONE)
      r->no_products++;
    else
      r->left_wide[p->nodes[n].reason]++;
  }
}

// Operators that multiply matrices inside, and whose operands are therefore not at hand.
static const char *const inner_products[] = {
    "Attention", "ConvInteger",   "DeformConv",  "Einsum",        "GRU",
    "LSTM",      "MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN"};

static bool has_inner_product(const struct graph *g) {
  for (int n = 0; n < g->n_nodes; n++)
    for (size_t i = 0; i < sizeof inner_products / sizeof inner_products[0]; i++)
      if (node_is(&g->nodes[n], inner_products[i]))
        return true;
  return false;
}

// Why nothing in the model is narrow: what its float nodes have in common.
static const char *why_unchanged(const struct result *r, const struct graph *g,
                                 const struct plan *p) {
  const char *why = NULL;
  for (int n = 0; n < g->n_nodes && p->has_operand_format; n++)
    if (is_product(&g->nodes[n]))
      return p->nodes[n].product ? reason_text(p->nodes[n].operands_reason)
             : p->nodes[n].reason == REASON_NOT_FLOAT
                 ? "its matrix products are of doubles or integers"
                 : reason_text(p->nodes[n].reason);
  if (p->has_operand_format)
    return has_inner_product(g) ? "products inside one operator, or of integers"
                                : "no matrix product";
  if (r->float_nodes == 0)
    return "no fp32 operator";
  for (int i = 0; i < REASON_COUNT; i++)
    if (r->left_wide[i])
      why = why ? "several reasons" : reason_text((enum reason)i);
  return why;
}

struct subject {
  struct model model, emitted;
  struct graph graph, emitted_graph;
  struct plan plan;
  struct trace trace;
};

// The element type that value v of the interface must have. That of a weight that is listed as an
// input, as every one is below IR 4, follows the weight.
static int wanted_type(struct subject *s, int v, bool narrow_interface) {
  bool constant = graph_constant(&s->graph, v), follows = narrow_interface || constant;
  if (constant && s->plan.values[v].operand && plan_is_only_operand(&s->graph, &s->plan, v))
    return formats[s->plan.operand_format].onnx_type;
  if (follows && s->plan.values[v].considered)
    return formats[s->plan.values[v].format].onnx_type;
  return s->graph.values[v].type.elem_type;
}

// Empty if inputs and outputs are the same in both models: names, types, order.
static const char *interface_fault(struct subject *s, bool narrow_interface, struct arena *a) {
  const struct scope *x = &s->graph.scopes[0], *y = &s->emitted_graph.scopes[0];
  if (x->n_inputs != y->n_inputs || x->n_outputs != y->n_outputs)
    return "another number of inputs or outputs";
  for (int k = 0; k < x->n_inputs + x->n_outputs; k++) {
    bool input = k < x->n_inputs;
    int before = input ? x->inputs[k] : x->outputs[k - x->n_inputs];
    int after = input ? y->inputs[k] : y->outputs[k - x->n_inputs];
    if (before < 0 || after < 0)
      return "an output has no name";
    const struct value *v = &s->graph.values[before], *w = &s->emitted_graph.values[after];
    if (strcmp(v->name, w->name) != 0)
      return arena_printf(a, "%s is called %s now", v->name, w->name);
    if (v->type.kind != w->type.kind ||
        w->type.elem_type != wanted_type(s, before, narrow_interface))
      return arena_printf(a, "%s has another type than it must have", v->name);
  }
  return "";
}

// Brings the model to the variant's opset. A refusal is no fault; false then.
static bool raise_model(struct result *r, struct subject *s, const struct program *p,
                        const struct variant *variant, struct arena *a, struct diag *d) {
  if (!variant->opset)
    return true;
  if (raise_opset(&s->model, &s->graph, variant->opset, a, d) != STATUS_OK) {
    result_set(r, OUTCOME_NOT_RAISED, "%s", d->message);
    return false;
  }
  if (graph_build(&s->graph, &s->model, &p->schemas, a, d) == STATUS_OK)
    return true;
  result_set(r, OUTCOME_BROKEN, "raised: %s: %s: %s", d->node, d->tensor, d->message);
  return false;
}

static enum status read_back(struct subject *s, const struct program *p, const char *out,
                             struct arena *a, struct diag *d) {
  TRY(model_load(&s->emitted, a, out, NULL, d));
  TRY(check_model(&s->emitted, &p->schemas, "reading back", d));
  return graph_build(&s->emitted_graph, &s->emitted, &p->schemas, a, d);
}

// Plans, rewrites, writes, reads back. The graph is the source's.
static enum status convert(struct subject *s, const struct program *p, const char *out,
                           const struct variant *variant, struct arena *a, struct diag *d) {
  pretend_trace(&s->trace, &s->graph, variant->magnitude);
  TRY(plan_make(&s->plan, &s->graph, &s->trace, &variant->policy, NULL, a, d));
  force_narrow(&s->plan, &s->graph);
  if (plan_is_identity(&s->plan))
    return STATUS_OK;
  struct model copy = clone_model(&s->model, a);
  struct graph changed;
  struct rewrite_report report;
  TRY(graph_build(&changed, &copy, &p->schemas, a, d));
  TRY(rewrite_model(&copy, &changed, &s->plan, REWRITE_CHECK_PASSES, &report, a, d));
  TRY(model_save(&copy, out, d));
  return read_back(s, p, out, a, d);
}

// Writes the model that was raised, reads it back and compares it with the file.
static void try_raised(struct result *r, struct subject *s, const struct program *p,
                       const char *path, const char *out, struct arena *a) {
  struct diag d = {0};
  struct model *source = arena_alloc(a, sizeof *source);
  struct graph *graph = arena_alloc(a, sizeof *graph);
  if (!s->model.raised_to) {
    result_set(r, OUTCOME_UNCHANGED, "is of that opset, of a newer one or of none");
    return;
  }
  enum status status = model_load(source, a, path, NULL, &d);
  if (status == STATUS_OK)
    status = graph_build(graph, source, &p->schemas, a, &d);
  if (status == STATUS_OK)
    status = model_save(&s->model, out, &d);
  if (status == STATUS_OK)
    status = read_back(s, p, out, a, &d);
  if (status != STATUS_OK) {
    result_set(r, OUTCOME_BROKEN, "%s: %s: %s", d.node, d.tensor, d.message);
    return;
  }
  r->emitted = true;
  s->graph = *graph;
  s->plan.values = arena_array(a, (size_t)graph->n_values, sizeof *s->plan.values);
  const char *fault = interface_fault(s, false, a);
  if (fault[0])
    result_set(r, OUTCOME_BROKEN, "%s", fault);
  else
    compare_raised(r,
                   &(struct comparison){.engine = p->engine,
                                        .schemas = &p->schemas,
                                        .source = graph,
                                        .emitted = &s->emitted_graph,
                                        .raised = true},
                   a);
}

static void try_converted(struct result *r, struct subject *s, const struct program *p,
                          const char *out, const struct variant *variant, struct arena *a) {
  struct diag d = {0};
  if (convert(s, p, out, variant, a, &d) != STATUS_OK) {
    result_set(r, OUTCOME_BROKEN, "%s: %s: %s", d.node, d.tensor, d.message);
    return;
  }
  count_nodes(r, &s->plan);
  if (plan_is_identity(&s->plan)) {
    result_set(r, OUTCOME_UNCHANGED, "%s", why_unchanged(r, &s->graph, &s->plan));
    return;
  }
  r->emitted = true;
  const char *fault = interface_fault(s, variant->narrow_interface, a);
  if (fault[0]) {
    result_set(r, OUTCOME_BROKEN, "%s", fault);
    return;
  }
  struct comparison c = {
      .engine = p->engine,
      .schemas = &p->schemas,
      .source = &s->graph,
      .emitted = &s->emitted_graph,
      .format = variant->format->id,
      .results = policy_is_operand_format(variant->format->id) ? FORMAT_FP32 : variant->format->id,
      .plan = &s->plan,
      .float_nodes = r->float_nodes};
  compare_with_published(r, &c, a);
}

static void try_model(struct result *r, const struct program *p, const char *path, const char *out,
                      const struct variant *variant) {
  struct arena a = {0};
  struct diag d = {0};
  struct subject *s = arena_alloc(&a, sizeof *s);
  enum status status = model_load(&s->model, &a, path, NULL, &d);
  if (status == STATUS_OK)
    status = graph_build(&s->graph, &s->model, &p->schemas, &a, &d);
  if (status != STATUS_OK)
    result_set(r, OUTCOME_BROKEN, "%s: %s: %s", d.node, d.tensor, d.message);
  else if (!raise_model(r, s, p, variant, &a, &d))
    return;
  else if (variant->format)
    try_converted(r, s, p, out, variant, &a);
  else
    try_raised(r, s, p, path, out, &a);
}

// ---- all models, in the parent ----

static const char *emitted_path(struct program *p, size_t i) {
  return arena_printf(&p->arena, "%s/%s-%zu.onnx", p->folder, p->variants[i / p->n_models].name,
                      i % p->n_models);
}

static pid_t start(struct program *p, size_t i) {
  const char *out = emitted_path(p, i);
  fflush(NULL);
  pid_t child = fork();
  if (child != 0)
    return child;
  alarm(SECONDS);
  try_model(&p->results[i], p, p->models[i % p->n_models], out, &p->variants[i / p->n_models]);
  _exit(0);
}

static void finish(struct program *p, pid_t children[JOBS], size_t indices[JOBS]) {
  int state;
  pid_t ended;
  while ((ended = wait(&state)) < 0 && errno == EINTR)
    ;
  for (int j = 0; j < JOBS; j++)
    if (children[j] == ended) {
      children[j] = 0;
      if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        result_set(&p->results[indices[j]], OUTCOME_CRASHED, "signal %d, exit code %d",
                   WIFSIGNALED(state) ? WTERMSIG(state) : 0,
                   WIFEXITED(state) ? WEXITSTATUS(state) : 0);
    }
}

static void try_all(struct program *p) {
  pid_t children[JOBS] = {0};
  size_t indices[JOBS] = {0};
  int running = 0;
  for (size_t i = 0; i < (size_t)p->n_variants * p->n_models; i++) {
    if (running == JOBS) {
      finish(p, children, indices);
      running--;
    }
    for (int j = 0; j < JOBS; j++)
      if (children[j] == 0) {
        children[j] = start(p, i);
        indices[j] = i;
        running++;
        break;
      }
  }
  for (; running > 0; running--)
    finish(p, children, indices);
}

// ---- the report ----

// "node/test_abs" of ".../node/test_abs/model.onnx".
static const char *label_of(struct program *p, size_t model) {
  char *copy = arena_strdup(&p->arena, p->models[model]);
  char *slash = strrchr(copy, '/');
  if (!slash)
    return copy;
  *slash = '\0';
  char *last = strrchr(copy, '/');
  for (char *at = last; at && at > copy; at--)
    if (at[-1] == '/' && at - 1 != last)
      return at;
  return copy;
}

static struct exclusion *find_exclusion(struct program *p, int variant, const char *label) {
  for (size_t i = 0; i < p->n_exclusions; i++)
    if (fnmatch(p->exclusions[i].variants, p->variants[variant].name, 0) == 0 &&
        fnmatch(p->exclusions[i].models, label, 0) == 0)
      return &p->exclusions[i];
  return NULL;
}

struct totals {
  int outcomes[OUTCOME_COUNT], float_nodes, narrow_nodes, narrowed, left_wide[REASON_COUNT];
  int excluded, compared, unconverted, unmatched, no_products;
  double worst;
};

static void add_result(struct program *p, struct totals *t, int variant, const struct result *r,
                       const char *label) {
  bool values = r->outcome == OUTCOME_DIFFERS || r->outcome == OUTCOME_SOURCE_DIFFERS;
  bool judged = values || r->outcome == OUTCOME_MATCHED;
  struct exclusion *e = judged ? find_exclusion(p, variant, label) : NULL;
  t->float_nodes += r->float_nodes;
  t->narrow_nodes += r->narrow_nodes;
  t->narrowed += r->narrow_nodes > 0;
  t->compared += r->compared;
  t->no_products += r->no_products;
  for (int i = 0; i < REASON_COUNT; i++)
    t->left_wide[i] += r->left_wide[i];
  if (e) {
    e->used[variant]++;
    t->excluded++;
    return;
  }
  t->outcomes[r->outcome]++;
  if (r->outcome == OUTCOME_MATCHED && r->worst > t->worst)
    t->worst = r->worst;
  t->unmatched += values;
  t->unconverted += r->outcome == OUTCOME_BROKEN || r->outcome == OUTCOME_CRASHED;
  if (values || r->outcome == OUTCOME_BROKEN || r->outcome == OUTCOME_CRASHED ||
      r->outcome == OUTCOME_NOT_RAISED)
    printf("  %s %s: %s: %s\n", p->variants[variant].name, label, outcome_texts[r->outcome],
           r->text);
}

// The beginning of what is said of a model, without the engine's name and version.
static const char *reason_of(struct program *p, const struct result *r) {
  const char *engine = strstr(r->text, "ONNX Runtime "), *end = engine ? strchr(engine, ':') : NULL;
  return arena_printf(&p->arena, "%.100s", end ? end + 2 : r->text);
}

// Models of that outcome by what is said of them, so that each is accounted for.
static void print_reasons(struct program *p, int variant, enum outcome outcome) {
  const struct result *results = &p->results[(size_t)variant * p->n_models];
  const char **reasons = arena_array(&p->arena, p->n_models, sizeof *reasons);
  int *counts = arena_array(&p->arena, p->n_models, sizeof *counts);
  size_t n = 0;
  for (size_t m = 0; m < p->n_models; m++) {
    size_t i = 0;
    if (results[m].outcome != outcome)
      continue;
    const char *reason = reason_of(p, &results[m]);
    while (i < n && strcmp(reasons[i], reason) != 0)
      i++;
    if (i == n) {
      reasons[n] = reason;
      counts[n++] = 0;
    }
    counts[i]++;
  }
  for (size_t i = 0; i < n; i++)
    printf("        %5d %s\n", counts[i], reasons[i]);
}

static void print_totals(struct program *p, const struct totals *t, int variant) {
  printf("%s: %zu models", p->variants[variant].name, p->n_models);
  if (p->variants[variant].format)
    printf(", %d of %d float nodes narrow, in %d models", t->narrow_nodes, t->float_nodes,
           t->narrowed);
  printf("\n");
  if (t->no_products)
    printf("  %5d nodes left wide: no matrix product\n", t->no_products);
  for (int i = 0; i < REASON_COUNT; i++)
    if (t->left_wide[i])
      printf("  %5d nodes left wide: %s\n", t->left_wide[i], reason_text((enum reason)i));
  for (int i = OUTCOME_MATCHED; i < OUTCOME_COUNT; i++) {
    if (t->outcomes[i])
      printf("  %5d models: %s\n", t->outcomes[i], outcome_texts[i]);
    if (i == OUTCOME_UNCHANGED || i == OUTCOME_NO_KERNEL || i == OUTCOME_NO_DATA)
      print_reasons(p, variant, (enum outcome)i);
  }
  for (size_t i = 0; i < p->n_exclusions; i++)
    if (p->exclusions[i].used[variant])
      printf("  %5d models excluded, %s: %s\n", p->exclusions[i].used[variant],
             p->exclusions[i].models, p->exclusions[i].reason);
  printf("  %5d outputs compared", t->compared);
  if (p->variants[variant].format)
    printf(", the worst error %.2f times what rounding explains", t->worst);
  printf("\n");
}

static bool report_variant(struct program *p, int variant, FILE *pairs, FILE *lines) {
  struct totals t = {.excluded = 0};
  const char *name = p->variants[variant].name;
  for (size_t m = 0; m < p->n_models; m++) {
    size_t i = (size_t)variant * p->n_models + m;
    const struct result *r = &p->results[i];
    add_result(p, &t, variant, r, label_of(p, m));
    fprintf(lines, "%s\t%s\t%s\t%d/%d\t%.3g\t%s\n", name, label_of(p, m), outcome_texts[r->outcome],
            r->narrow_nodes, r->float_nodes, r->worst, r->text);
    if (r->emitted)
      fprintf(pairs, "%s\t%s\n", p->models[m], emitted_path(p, i));
  }
  print_totals(p, &t, variant);
  bool raised = !p->variants[variant].format;
  bool judged = t.outcomes[OUTCOME_MATCHED] > 0 || t.outcomes[OUTCOME_NO_OPSET] > 0;
  printf("%s %s: every model is %s and keeps its inputs and outputs\n",
         t.unconverted ? "FAIL" : "PASS", name, raised ? "raised or refused" : "converted");
  printf("%s %s: outputs are %s\n", t.unmatched || !judged ? "FAIL" : "PASS", name,
         raised ? "those of the source, bit for bit"
                : "as near to the published ones as rounding allows");
  return !t.unconverted && !t.unmatched && judged;
}

static bool report(struct program *p) {
  FILE *pairs = fopen(arena_printf(&p->arena, "%s/pairs", p->folder), "w");
  FILE *lines = fopen(arena_printf(&p->arena, "%s/results", p->folder), "w");
  bool good = pairs && lines;
  if (!good)
    perror(p->folder);
  for (int f = 0; f < p->n_variants && pairs && lines; f++)
    good = report_variant(p, f, pairs, lines) && good;
  good = (!pairs || fclose(pairs) == 0) && good;
  return (!lines || fclose(lines) == 0) && good;
}

// ---- set-up ----

static void read_models(struct program *p) {
  char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = '\0';
    p->models =
        arena_grow(&p->arena, p->models, &p->capacity_models, p->n_models + 1, sizeof *p->models);
    p->models[p->n_models++] = arena_strdup(&p->arena, line);
  }
}

// Lines of three fields between tabs; '#' begins a comment.
static bool read_exclusions(struct program *p, const char *path) {
  FILE *file = fopen(path, "r");
  char line[1024];
  bool good = file != NULL;
  while (good && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '#' || line[0] == '\0')
      continue;
    char *models = strchr(line, '\t'), *reason = models ? strchr(models + 1, '\t') : NULL;
    if (!reason) {
      fprintf(stderr, "conformance: %s: no three fields in: %s\n", path, line);
      good = false;
      break;
    }
    *models = *reason = '\0';
    p->exclusions = arena_grow(&p->arena, p->exclusions, &p->capacity_exclusions,
                               p->n_exclusions + 1, sizeof *p->exclusions);
    p->exclusions[p->n_exclusions++] = (struct exclusion){
        .variants = arena_strdup(&p->arena, line),
        .models = arena_strdup(&p->arena, models + 1),
        .reason = arena_strdup(&p->arena, reason + 1),
    };
  }
  if (file)
    fclose(file);
  else
    perror(path);
  return good;
}

// Of the tests' inputs to matrix products, which no trace has seen; larger ones saturate, in the
// source's run on rounded inputs too.
#define OPERANDS_UP_TO 16

static enum status add_variant(struct program *p, const char *name, const char *policy,
                               struct diag *d) {
  size_t length = strcspn(name, "-");
  const char *kind = name + length;
  if (strncmp(name, "opset", 5) == 0 && p->n_variants < VARIANTS) {
    p->variants[p->n_variants++] = (struct variant){.name = name, .opset = atoi(name + 5)};
    return STATUS_OK;
  }
  const struct format *f = format_find(arena_printf(&p->arena, "%.*s", (int)length, name));
  bool narrow = strcmp(kind, "-io") == 0, scaled = strcmp(kind, "-scaled") == 0;
  bool raised = strcmp(kind, "-raised") == 0;
  if (!f || (*kind && !narrow && !scaled && !raised) || p->n_variants == VARIANTS)
    return diag_fail(d, STATUS_USAGE, "no variant %s", name);
  struct variant *v = &p->variants[p->n_variants++];
  *v = (struct variant){.name = name,
                        .format = f,
                        .opset = raised ? OPSET_WITH_BFLOAT16 : 0,
                        .narrow_interface = narrow,
                        .magnitude = scaled ? 0x1p20f : 1};
  TRY(policy_load(&v->policy, policy, &p->arena, d));
  TRY(policy_adjust_io(&v->policy, narrow ? "narrow" : "keep", &p->arena, d));
  bool operands = policy_is_operand_format(f->id);
  TRY(policy_adjust_format(&v->policy, operands ? "fp32" : f->name, &p->arena, d));
  if (operands) {
    v->opset = OPSET_WITH_FLOAT8;
    v->magnitude = OPERANDS_UP_TO;
    v->policy.operands = (struct operand_policy){.wanted = true,
                                                 .given = true,
                                                 .format = f->id,
                                                 .margin = 1,
                                                 .max_zero_fraction = 1,
                                                 .max_subnormal_fraction = 1};
  }
  return STATUS_OK;
}

static enum status set_up(struct program *p, char **arguments, struct diag *d) {
  schema_load(&p->schemas, &p->arena);
  p->folder = arguments[2];
  for (char **name = arguments + 3; *name; name++)
    TRY(add_variant(p, *name, arguments[0], d));
  return engine_open(&p->engine, NULL, d);
}

int main(int argc, char **argv) {
  struct program p = {.n_variants = 0};
  struct diag d = {0};
  if (argc < 5) {
    fprintf(stderr, "use: conformance POLICY EXCLUSIONS FOLDER VARIANT... <LIST\n");
    return 2;
  }
  if (set_up(&p, argv + 1, &d) != STATUS_OK) {
    diag_print(&d, stderr);
    return 2;
  }
  read_models(&p);
  if (!read_exclusions(&p, argv[2]))
    return 2;
  size_t size = (size_t)p.n_variants * p.n_models * sizeof *p.results;
  p.results =
      mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p.results == MAP_FAILED) {
    perror("conformance");
    return 2;
  }
  try_all(&p);
  bool good = report(&p);
  engine_close(p.engine);
  arena_free(&p.arena);
  return good ? 0 : 1;
}
