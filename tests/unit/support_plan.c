// See support_plan.h.
#include "support_plan.h"

#include "clone.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *narrow_ops[] = {"Conv", "Gemm", "MatMul", NULL};
static const char *follow_ops[] = {"Add",
                                   "BatchNormalization",
                                   "Clip",
                                   "Concat",
                                   "ConstantOfShape",
                                   "CumSum",
                                   "Identity",
                                   "Max",
                                   "MaxPool",
                                   "Mul",
                                   "OneHot",
                                   "Pad",
                                   "RandomNormalLike",
                                   "Relu",
                                   "Reshape",
                                   "Resize",
                                   "Shape",
                                   "Sigmoid",
                                   "Sub",
                                   "Sum",
                                   "Transpose",
                                   "Unsqueeze",
                                   "Where",
                                   NULL};
static const char *keep_ops[] = {
    "Cast", "CastLike", "DequantizeLinear", "If", "Loop", "QuantizeLinear", "Scan", NULL};
static const char *pin_globs[] = {"*", NULL};

static int count_ops(const char **ops) {
  int count = 0;
  while (ops[count])
    count++;
  return count;
}

static void usual_rules(struct planning *f) {
  struct rule *rules = arena_array(f->b.arena, 4, sizeof *rules);
  rules[0] = (struct rule){.id = "products", .ops = narrow_ops, .class = CLASS_NARROW, .why = "p"};
  rules[1] = (struct rule){.id = "followers", .ops = follow_ops, .class = CLASS_FOLLOW, .why = "f"};
  rules[2] = (struct rule){.id = "kept", .ops = keep_ops, .class = CLASS_KEEP, .why = "k"};
  rules[3] = (struct rule){.id = "rest", .op_globs = pin_globs, .class = CLASS_PIN, .why = "r"};
  for (int i = 0; i < 3; i++)
    rules[i].n_ops = count_ops(rules[i].ops);
  f->policy.rules = rules;
  f->policy.n_rules = 4;
}

int planning_set_up(void **state) {
  struct planning *f = calloc(1, sizeof *f);
  struct policy *p = &f->policy;
  assert_non_null(f);
  build_begin(&f->b, &f->arena, 17);
  f->schemas = arena_alloc(&f->arena, sizeof *f->schemas);
  schema_load(f->schemas, &f->arena);
  *p = (struct policy){
      .name = "test",
      .version = 1,
      .description = "",
      .window = 8,
      .hold_out = {.every = 2},
      .margin = 2,
      .max_zero_fraction = 0.1,
      .max_subnormal_fraction = 0.5,
      .max_angle_step = 10,
      .constants = CONSTANTS_KEEP_WIDE,
      .constant_max_zero_fraction = 0.5,
      .constant_max_subnormal_fraction = 0.5,
      .keep_author_casts = true,
      .target =
          {
              .name = "test",
              .version = 1,
              .description = "",
              .bandwidth = 1,
              .matrix = {[FORMAT_FP32] = 1.0 / 256, [FORMAT_FP16] = 1, [FORMAT_BF16] = 1},
              .vector = {[FORMAT_FP32] = 1, [FORMAT_FP16] = 2, [FORMAT_BF16] = 2},
          },
  };
  memset(p->sha256, '1', sizeof p->sha256 - 1);
  p->adjustments = arena_array(&f->arena, 1, sizeof *p->adjustments);
  planning_ladder(f, FORMAT_FP16, FORMAT_COUNT);
  usual_rules(f);
  *state = f;
  return 0;
}

static void remove_folder(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] != '.')
      unlink(path);
  }
  if (d)
    closedir(d);
  rmdir(folder);
}

int planning_tear_down(void **state) {
  struct planning *f = *state;
  if (f->folder[0])
    remove_folder(f->folder);
  trace_free(&f->t);
  model_close(&f->m);
  arena_free(&f->arena);
  free(f);
  return 0;
}

void planning_ladder(struct planning *f, enum format_id first, enum format_id second) {
  struct policy *p = &f->policy;
  p->n_ladder = 0;
  p->ladder[p->n_ladder++] = first;
  if (second != FORMAT_COUNT)
    p->ladder[p->n_ladder++] = second;
  p->ladder[p->n_ladder++] = FORMAT_FP32;
}

static void must(struct planning *f, enum status status) {
  if (status != STATUS_OK)
    fail_msg("%s %s %s: %s", f->d.file, f->d.node, f->d.tensor, f->d.message);
}

static void see(struct planning *f, int v, const float *x, size_t n) {
  struct stats *s = &f->t.stats[v];
  stats_free(s);
  stats_init(s);
  struct stats_piece piece = {0};
  stats_observe(&piece, x, n, 1, 0);
  stats_merge_piece(s, &piece);
  stats_end_run(s, &piece, 0, 0);
}

void planning_index(struct planning *f) {
  trace_free(&f->t);  // of an earlier index
  build_model(&f->b, &f->m);
  memset(f->m.sha256, '2', sizeof f->m.sha256 - 1);
  must(f, graph_build(&f->g, &f->m, f->schemas, &f->arena, &f->d));
  trace_init(&f->t, &f->g);
  f->t.steps = 1;
  f->t.window = 8;
  memset(f->t.samples_sha256, '3', sizeof f->t.samples_sha256 - 1);
  static const float usual[] = {1, 2};
  for (int v = 0; v < f->g.n_values; v++)
    if (trace_measures(&f->g, v))
      see(f, v, usual, 2);
}

void planning_see(struct planning *f, const char *label, const float *x, size_t n) {
  see(f, value_id(&f->g, label), x, n);
}

void planning_unsee(struct planning *f, const char *label) {
  struct stats *s = &f->t.stats[value_id(&f->g, label)];
  stats_free(s);
  stats_init(s);
}

void planning_decide(struct planning *f) {
  const struct trace *t = f->no_trace ? NULL : &f->t;
  must(f, plan_make(&f->p, &f->g, t, &f->policy, NULL, &f->arena, &f->d));
}

void planning_rewrite(struct planning *f) {
  if (!f->p.nodes)
    planning_decide(f);
  struct graph *index = arena_alloc(&f->arena, sizeof *index);
  f->changed = clone_model(&f->m, &f->arena);
  must(f, graph_build(index, &f->changed, f->schemas, &f->arena, &f->d));
  must(f, rewrite_model(&f->changed, index, &f->p, REWRITE_CHECK_PASSES, &f->report, &f->arena,
                        &f->d));
  must(f, graph_build(&f->emitted, &f->changed, f->schemas, &f->arena, &f->d));
}

void planning_all(struct planning *f) {
  planning_index(f);
  planning_decide(f);
  planning_rewrite(f);
}

const char *planning_path(struct planning *f, const char *name) {
  if (!f->folder[0]) {
    snprintf(f->folder, sizeof f->folder, "/tmp/narrowcast-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
  }
  return arena_printf(&f->arena, "%s/%s", f->folder, name);
}

enum status planning_read_plan(struct planning *f, struct plan *p, const char *path,
                               struct diag *d) {
  struct plan_file file;
  TRY(plan_open(&file, path, &f->arena, d));
  return plan_read(p, &f->g, &file, &f->arena, d);
}

void planning_expect_read(struct planning *f, const char *path, enum status wanted,
                          const char *message) {
  enum status status = planning_read_plan(f, &f->p, path, &f->d);
  if (status != wanted)
    fail_msg("%s: read with status %d, wanted: %s", path, status, message ? message : "all well");
  if (message && !strstr(f->d.message, message))
    fail_msg("%s", f->d.message);
  diag_clear(&f->d);
}

char *planning_read_file(struct planning *f, const char *path, size_t *size) {
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  assert_int_equal(fseek(in, 0, SEEK_END), 0);
  *size = (size_t)ftell(in);
  rewind(in);
  char *text = arena_alloc(&f->arena, *size + 1);
  assert_int_equal(fread(text, 1, *size, in), *size);
  fclose(in);
  return text;
}

int value_id(const struct graph *g, const char *label) {
  for (int v = 0; v < g->n_values; v++)
    if (strcmp(graph_value_label(g, v), label) == 0)
      return v;
  fail_msg("no value %s", label);
  return -1;
}

int node_of(const struct graph *g, const char *output) {
  int v = value_id(g, output);
  assert_int_equal(g->values[v].origin, ORIGIN_NODE);
  return g->values[v].producer;
}

enum format_id node_format(const struct planning *f, const char *output) {
  return f->p.nodes[node_of(&f->g, output)].format;
}

enum reason node_reason(const struct planning *f, const char *output) {
  return f->p.nodes[node_of(&f->g, output)].reason;
}

enum format_id value_format(const struct planning *f, const char *label) {
  return f->p.values[value_id(&f->g, label)].format;
}

int emitted_type(const struct planning *f, const char *label) {
  struct type t = f->emitted.values[value_id(&f->emitted, label)].type;
  assert_int_equal(t.kind, TYPE_TENSOR);
  return t.elem_type;
}

int emitted_count(const struct planning *f, const char *op) {
  int count = 0;
  for (int n = 0; n < f->emitted.n_nodes; n++)
    count += node_is(&f->emitted.nodes[n], op);
  return count;
}

const Onnx__NodeProto *emitted_node(const struct planning *f, const char *output) {
  return f->emitted.nodes[node_of(&f->emitted, output)].proto;
}

const Onnx__TensorProto *emitted_initializer(const struct planning *f, const char *name) {
  const Onnx__GraphProto *g = f->changed.proto->graph;
  for (size_t i = 0; i < g->n_initializer; i++)
    if (strcmp(g->initializer[i]->name, name) == 0)
      return g->initializer[i];
  return NULL;
}

bool same_model(struct planning *f, const struct model *x, const struct model *y) {
  uint8_t *a, *b;
  size_t n_a, n_b;
  must(f, model_pack(x->proto, &f->arena, &a, &n_a, &f->d));
  must(f, model_pack(y->proto, &f->arena, &b, &n_b, &f->d));
  return n_a == n_b && memcmp(a, b, n_a) == 0;
}

void same_list(char **names, size_t count, const char *wanted) {
  char text[400] = "";
  for (size_t i = 0; i < count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
             names[i][0] ? names[i] : "_");
  assert_string_equal(text, wanted);
}
