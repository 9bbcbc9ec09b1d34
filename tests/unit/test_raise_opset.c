// Raising the opset: each operator that changed gives the same bits before and after, in the
// engine; what cannot be carried over is refused by name. Then all models of the folder that
// NARROWCAST_MODELS names, with made-up inputs.
// needs: engine
#include "raise_opset.h"

#include "clone.h"
#include "engine.h"
#include "round.h"
#include "support_plan.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 64 };

// What ONNX Runtime says of an opset that is newer than it.
#define UNKNOWN_OPSET "official released onnx opset"

static const int targets[] = {13, 18, 19, 22, 26};

struct both {
  struct arena arena;
  struct diag d;
  struct schema_table schemas;
  struct engine *engine;
  struct samples *samples;
  int compared;  // sessions of a raised model
};

// Results of the model on a sample; the caller closes the session.
static struct session *run(struct both *b, const struct model *m, const struct graph *g,
                           size_t step, struct array *outputs, size_t *count) {
  struct model copy = clone_model(m, &b->arena);
  struct packed_model packed;
  struct session *session = NULL;
  struct sample sample;
  if (clone_pack(&packed, &copy, &b->arena, &b->d) != STATUS_OK)
    fail_msg("%s", b->d.message);
  struct session_options options = {.optimisation = OPTIMISE_NONE,
                                    .threads = 1,
                                    .initializers = packed.initializers,
                                    .n_initializers = packed.n_initializers,
                                    .directory = packed.directory};
  if (session_open(&session, b->engine, packed.bytes, packed.size, &options, &b->d) != STATUS_OK)
    return NULL;
  if (samples_read(b->samples, step, &sample, &b->d) != STATUS_OK)
    fail_msg("%s: %s", m->path, b->d.message);
  const char *names[MOST_OUTPUTS];
  *count = 0;
  for (int i = 0; i < g->scopes[0].n_outputs && *count < MOST_OUTPUTS; i++)
    if (g->scopes[0].outputs[i] >= 0)
      names[(*count)++] = g->values[g->scopes[0].outputs[i]].name;
  if (session_run(session, sample.arrays, sample.n_arrays, names, *count, outputs, &b->d) !=
      STATUS_OK) {
    session_close(session);
    session = NULL;
  }
  sample_free(&sample);
  return session;
}

// Relative L2 of two float outputs; infinity for others, which differ.
static double relative_error(const struct array *x, const struct array *y) {
  const struct format *f = format_from_onnx(x->elem_type);
  if (!f || x->elem_type != y->elem_type || x->size != y->size || f->stored_bits > 32)
    return INFINITY;
  size_t count = x->size * 8 / (size_t)f->stored_bits;
  float *a = calloc(count, sizeof *a), *b = calloc(count, sizeof *b);
  double difference = 0, norm = 0;
  assert_true(a && b);
  round_decode_array(f, x->data, a, count);
  round_decode_array(f, y->data, b, count);
  for (size_t i = 0; i < count; i++) {
    difference += pow((double)a[i] - (double)b[i], 2);
    norm += pow((double)a[i], 2);
  }
  free(a);
  free(b);
  return sqrt(difference / norm);
}

// ONNX Runtime has another kernel for AveragePool from opset 19 on, which adds in another order,
// and another tanh and softplus inside the operators that were withdrawn: there the last digits may
// differ. It has kernels for fp16 in some opsets only, and rounds where those end: each fp16 value
// may be a rounding off, one independent of the other. Elsewhere no bit differs.
static double engine_difference(const struct graph *g) {
  double allowed = 0;
  int halves = 0;
  for (int n = 0; n < g->n_nodes; n++)
    if (node_is(&g->nodes[n], "AveragePool") || node_is(&g->nodes[n], "ScaledTanh") ||
        node_is(&g->nodes[n], "ParametricSoftplus"))
      allowed = 1e-6;
  for (int v = 0; v < g->n_values; v++)
    halves += g->values[v].type.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
  return halves ? ldexp(sqrt(halves), -11) : allowed;
}

// The engine did not load a model for its opset: it says so, or it lacks an operator that ONNX has
// there.
static bool opset_is_unknown(const struct both *b, int opset) {
  static const char lacks[] = "No Op registered for ";
  char op[64];
  const char *at = strstr(b->d.message, lacks);
  if (at && sscanf(at + strlen(lacks), "%63s", op) == 1)
    return schema_find(&b->schemas, "", op, opset) != NULL;
  return strstr(b->d.message, UNKNOWN_OPSET) != NULL;
}

static void expect_same_bits(struct both *b, const struct model *before, const struct graph *g,
                             const struct model *after, const struct graph *raised) {
  for (size_t step = 0; step < samples_count(b->samples); step++) {
    struct array x[MOST_OUTPUTS], y[MOST_OUTPUTS];
    size_t n_x, n_y;
    struct session *first = run(b, before, g, step, x, &n_x);
    if (!first) {
      print_message("%s: the engine does not run it: %s\n", before->path, b->d.message);
      diag_clear(&b->d);
      return;
    }
    struct session *second = run(b, after, raised, step, y, &n_y);
    if (!second && opset_is_unknown(b, after->raised_to)) {
      print_message("the engine does not know opset %d\n", after->raised_to);
      diag_clear(&b->d);
      session_close(first);
      return;
    }
    if (!second)
      fail_msg("%s at opset %d: %s", before->path, after->raised_to, b->d.message);
    b->compared++;
    assert_int_equal(n_x, n_y);
    for (size_t i = 0; i < n_x; i++) {
      bool same = x[i].size == y[i].size;
      same = same && (x[i].size == 0 || memcmp(x[i].data, y[i].data, x[i].size) == 0);
      double error = same ? 0 : relative_error(&x[i], &y[i]);
      if (!(error <= engine_difference(g)))
        fail_msg("%s at opset %d: output %zu differs by %g", before->path, after->raised_to, i,
                 error);
    }
    session_close(first);
    session_close(second);
  }
}

static void begin_both(struct both *b, struct graph *g) {
  if (!b->engine && engine_open(&b->engine, NULL, &b->d) != STATUS_OK)
    fail_msg("%s", b->d.message);
  if (samples_random(&b->samples, g, 1, 2, &b->arena, &b->d) != STATUS_OK)
    fail_msg("%s: %s", g->model->path, b->d.message);
}

// Raises a copy of the model; false if it was refused, with d filled.
static bool raised(struct both *b, const struct model *m, int opset, struct model *out,
                   struct graph *index) {
  *out = clone_model(m, &b->arena);
  enum status status = graph_build(index, out, &b->schemas, &b->arena, &b->d);
  if (status == STATUS_OK)
    status = raise_opset(out, index, opset, &b->arena, &b->d);
  if (status == STATUS_OK)
    status = graph_build(index, out, &b->schemas, &b->arena, &b->d);
  return status == STATUS_OK;
}

static void end_both(struct both *b) {
  samples_close(b->samples);
  engine_close(b->engine);
  arena_free(&b->arena);
}

// The model in the making, at its opset and at each target above it.
static void expect_all_same(struct planning *f) {
  struct both b = {0};
  schema_load(&b.schemas, &b.arena);
  planning_index(f);
  begin_both(&b, &f->g);
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    struct model after;
    struct graph index;
    if (targets[i] <= graph_opset(&f->g, 0, ""))
      continue;
    if (!raised(&b, &f->m, targets[i], &after, &index))
      fail_msg("%s: %s", b.d.node, b.d.message);
    assert_int_equal(after.raised_to, targets[i]);
    assert_int_equal(graph_opset(&index, 0, ""), targets[i]);
    expect_same_bits(&b, &f->m, &f->g, &after, &index);
  }
  assert_true(b.compared > 0);
  end_both(&b);
}

static struct planning *begin(void **state, int opset) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = opset;
  f->b.model->ir_version = 6;
  return f;
}

static void output(struct planning *f, const char *name) {
  build_output(&f->b, name, "float");
}

static void ints(struct planning *f, Onnx__NodeProto *n, const char *name, int64_t a, int64_t b) {
  build_ints(&f->b, n, name, (int64_t[]){a, b}, 2);
}

// ---- adapters ----

static void attributes_become_inputs(void **state) {
  struct planning *f = begin(state, 9);
  build_input(&f->b, "x", "float[2,3,4,4]");
  ints(f, build_node(&f->b, "Slice", "x", "sliced"), "starts", 1, 0);
  Onnx__NodeProto *slice = f->b.model->graph->node[f->b.model->graph->n_node - 1];
  ints(f, slice, "ends", 3, 2);
  ints(f, slice, "axes", 1, 3);
  build_int(&f->b, build_node(&f->b, "TopK", "x", "top indices"), "k", 2);
  Onnx__NodeProto *pad = build_node(&f->b, "Pad", "x", "padded");
  build_ints(&f->b, pad, "pads", (int64_t[]){0, 0, 1, 0, 0, 1, 0, 2}, 8);
  build_float(&f->b, pad, "value", 0.5f);
  Onnx__NodeProto *clip = build_node(&f->b, "Clip", "x", "clipped");
  build_float(&f->b, clip, "min", -0.25f);
  build_float(&f->b, clip, "max", 1.5f);
  build_float(&f->b, build_node(&f->b, "Clip", "x", "below"), "max", 0);
  ints(f, build_node(&f->b, "Unsqueeze", "x", "more"), "axes", 0, 5);
  ints(f, build_node(&f->b, "Squeeze", "more", "fewer"), "axes", 0, 5);
  ints(f, build_node(&f->b, "Split", "x", "s1 s2"), "split", 2, 2);
  Onnx__NodeProto *split = f->b.model->graph->node[f->b.model->graph->n_node - 1];
  build_int(&f->b, split, "axis", 3);
  build_int(&f->b, build_node(&f->b, "Split", "x", "h1 h2"), "axis", 2);
  build_float(&f->b, build_node(&f->b, "Dropout", "x", "kept"), "ratio", 0.3f);
  for (const char *const *name =
           (const char *const[]){"sliced", "top", "padded", "clipped", "below", "fewer", "s1", "s2",
                                 "h1", "h2", "kept", NULL};
       *name; name++)
    output(f, *name);
  build_output(&f->b, "indices", "int64");
  expect_all_same(f);
}

static void reductions_get_their_axes_as_inputs(void **state) {
  static const char *const ops[] = {
      "ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
      "ReduceMean", "ReduceMin", "ReduceProd",   "ReduceSum",       "ReduceSumSquare"};
  struct planning *f = begin(state, 11);
  build_input(&f->b, "x", "float[2,3,4]");
  build_node(&f->b, "Abs", "x", "a");
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    char some[] = {'s', (char)('0' + i), 0}, all[] = {'a', (char)('0' + i), 0};
    Onnx__NodeProto *n = build_node(&f->b, ops[i], "a", some);
    ints(f, n, "axes", 0, -1);
    build_int(&f->b, n, "keepdims", 0);
    build_node(&f->b, ops[i], "a", all);
    output(f, some);
    output(f, all);
  }
  expect_all_same(f);
}

static void softmax_over_several_axes_is_flattened(void **state) {
  static const char *const ops[] = {"Softmax", "LogSoftmax", "Hardmax"};
  struct planning *f = begin(state, 11);
  build_input(&f->b, "x", "float[2,3,4]");
  for (int i = 0; i < 9; i++) {
    char name[] = {'y', (char)('0' + i), 0};
    Onnx__NodeProto *n = build_node(&f->b, ops[i / 3], "x", name);
    if (i % 3)
      build_int(&f->b, n, "axis", i % 3 == 1 ? -1 : 0);
    output(f, name);
  }
  expect_all_same(f);
}

static void softmax_over_the_last_axis_stays_one_node(void **state) {
  struct planning *f = begin(state, 11);
  struct both b = {0};
  struct model after;
  struct graph index;
  build_input(&f->b, "x", "float[2,3]");
  build_node(&f->b, "Flatten", "x", "flat");
  build_node(&f->b, "Softmax", "flat", "y");
  build_output(&f->b, "y", "float");
  planning_index(f);
  schema_load(&b.schemas, &b.arena);
  assert_true(raised(&b, &f->m, 13, &after, &index));
  assert_int_equal(index.n_nodes, 2);
  assert_int_equal(node_attribute(index.nodes[1].proto, "axis")->i, -1);
  end_both(&b);
}

static void resampling_keeps_its_pixels(void **state) {
  struct planning *f = begin(state, 9);
  build_input(&f->b, "x", "float[1,2,3,4]");
  build_floats(&f->b, "scales", "float[4]", (float[]){1, 1, 1.7f, 2});
  build_node(&f->b, "Upsample", "x scales", "nearest");
  build_string(&f->b, build_node(&f->b, "Upsample", "x scales", "linear"), "mode", "linear");
  output(f, "nearest");
  output(f, "linear");
  expect_all_same(f);
}

static void upsample_of_opset_7_has_its_scales_in_an_attribute(void **state) {
  struct planning *f = begin(state, 7);
  build_input(&f->b, "x", "float[1,2,3,4]");
  build_float_list(&f->b, build_node(&f->b, "Upsample", "x", "y"), "scales", (float[]){1, 1, 2, 3},
                   4);
  output(f, "y");
  expect_all_same(f);
}

static void shrinking_keeps_its_pixels(void **state) {
  struct planning *f = begin(state, 10);
  build_input(&f->b, "x", "float[1,1,11,7]");
  build_floats(&f->b, "shrink", "float[4]", (float[]){1, 1, 0.7f, 0.3f});
  build_floats(&f->b, "both", "float[4]", (float[]){1, 1, 0.6f, 2.2f});
  build_node(&f->b, "Resize", "x shrink", "shrunk");
  build_node(&f->b, "Resize", "x both", "mixed");
  build_string(&f->b, build_node(&f->b, "Resize", "x both", "linear"), "mode", "linear");
  output(f, "shrunk");
  output(f, "mixed");
  output(f, "linear");
  expect_all_same(f);
}

static void half_pixels_of_tensorflow_are_kept(void **state) {
  static const float scales[] = {0.3f, 0.6f, 1.7f, 2, 3};
  struct planning *f = begin(state, 11);
  build_input(&f->b, "x", "float[1,1,1,11]");
  build_floats(&f->b, "roi", "float[0]", NULL);
  for (int i = 0; i < 10; i++) {
    char factor[] = {'s', (char)('0' + i), 0}, y[] = {'y', (char)('0' + i), 0};
    build_floats(&f->b, factor, "float[4]", (float[]){1, 1, 1, scales[i / 2]});
    char inputs[20];
    snprintf(inputs, sizeof inputs, "x roi %s", factor);
    Onnx__NodeProto *n = build_node(&f->b, "Resize", inputs, y);
    build_string(&f->b, n, "coordinate_transformation_mode", "tf_half_pixel_for_nn");
    if (i % 2)
      build_string(&f->b, n, "nearest_mode", "floor");
    output(f, y);
  }
  expect_all_same(f);
}

static void statistics_of_each_element_are_kept(void **state) {
  struct planning *f = begin(state, 7);
  build_input(&f->b, "x", "float[2,3,2]");
  static const float values[] = {0.5f, 1.25f, 3, 0.75f, 2, 1};
  for (const char *const *name = (const char *const[]){"s", "b", "m", "v", NULL}; *name; name++)
    build_floats(&f->b, *name, "float[3,2]", values);
  Onnx__NodeProto *n = build_node(&f->b, "BatchNormalization", "x s b m v", "y");
  build_int(&f->b, n, "spatial", 0);
  build_float(&f->b, n, "epsilon", 0.01f);
  output(f, "y");
  expect_all_same(f);
}

static void scan_over_a_batch_becomes_two(void **state) {
  struct planning *f = begin(state, 8);
  build_input(&f->b, "start", "float[3,2]");
  build_input(&f->b, "x", "float[3,4,2]");
  build_input(&f->b, "outside", "float[2]");
  Onnx__NodeProto *scan = build_node(&f->b, "Scan", "_ start x", "sum steps");
  build_int(&f->b, scan, "num_scan_inputs", 1);
  build_ints(&f->b, scan, "directions", (int64_t[]){1}, 1);
  build_graph_begin(&f->b, scan, "body");
  build_input(&f->b, "state", "float");
  build_input(&f->b, "step", "float");
  build_node(&f->b, "Mul", "step outside", "scaled");
  build_node(&f->b, "Add", "state scaled", "next");
  build_node(&f->b, "Identity", "next", "seen");
  output(f, "next");
  output(f, "seen");
  build_graph_end(&f->b);
  output(f, "sum");
  output(f, "steps");
  expect_all_same(f);
}

static void groups_get_a_scale_for_each_channel(void **state) {
  struct planning *f = begin(state, 18);
  build_input(&f->b, "x", "float[2,6,3]");
  build_floats(&f->b, "s", "float[2]", (float[]){1, 2});
  build_floats(&f->b, "b", "float[2]", (float[]){0.25f, -1});
  build_int(&f->b, build_node(&f->b, "GroupNormalization", "x s b", "y"), "num_groups", 2);
  output(f, "y");
  expect_all_same(f);
}

// What the raised model gives for x, which is 1, 2, 3, ...: the engine has no kernels for what it
// was raised from.
static void expect_values(struct planning *f, int opset, const float *expected, size_t n) {
  struct both b = {0};
  struct model after;
  struct graph index;
  struct packed_model packed;
  struct session *session;
  planning_index(f);
  schema_load(&b.schemas, &b.arena);
  if (!raised(&b, &f->m, opset, &after, &index) ||
      clone_pack(&packed, &after, &b.arena, &b.d) != STATUS_OK ||
      engine_open(&b.engine, NULL, &b.d) != STATUS_OK)
    fail_msg("%s: %s", b.d.node, b.d.message);
  struct session_options options = {.optimisation = OPTIMISE_NONE, .threads = 1};
  if (session_open(&session, b.engine, packed.bytes, packed.size, &options, &b.d) != STATUS_OK)
    fail_msg("%s", b.d.message);
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  struct array in = {
      .name = "x", .elem_type = 1, .rank = 3, .dims = {2, 3, 2}, .data = x, .size = sizeof x};
  struct array out;
  const char *name = "y";
  if (session_run(session, &in, 1, &name, 1, &out, &b.d) != STATUS_OK)
    fail_msg("%s", b.d.message);
  assert_int_equal(out.size, n * sizeof *expected);
  for (size_t i = 0; i < n; i++)
    if (((const float *)out.data)[i] != expected[i])
      fail_msg("y[%zu] is %g, not %g", i, (double)((const float *)out.data)[i],
               (double)expected[i]);
  session_close(session);
  end_both(&b);
}

static void broadcasting_from_an_axis_is_written_out(void **state) {
  static const float expected[] = {11, 12, 23, 24, 35, 36, 17, 18, 29, 30, 41, 42};
  for (int known = 0; known < 2; known++) {
    struct planning *f = begin(state, 6);
    build_input(&f->b, "x", known ? "float[2,3,2]" : "float");
    build_floats(&f->b, "c", "float[3]", (float[]){10, 20, 30});
    Onnx__NodeProto *n = build_node(&f->b, "Add", "x c", "y");
    build_int(&f->b, n, "broadcast", 1);
    build_int(&f->b, n, "axis", 1);
    build_output(&f->b, "y", "float");
    expect_values(f, 13, expected, 12);
    assert_int_equal(f->g.n_nodes, 1);
    planning_tear_down(state);
    planning_set_up(state);
  }
}

static void operators_of_opset_1_are_raised(void **state) {
  static const float expected[] = {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24};
  struct planning *f = begin(state, 1);
  build_input(&f->b, "x", "float[2,3,2]");
  build_ints(&f->b, build_node(&f->b, "Reshape", "x", "r"), "shape", (int64_t[]){3, 4}, 2);
  Onnx__NodeProto *relu = build_node(&f->b, "Relu", "r", "a");
  build_ints(&f->b, relu, "consumed_inputs", (int64_t[]){0}, 1);
  build_string(&f->b, build_node(&f->b, "Cast", "a", "d"), "to", "DOUBLE");
  build_string(&f->b, build_node(&f->b, "Cast", "d", "s"), "to", "FLOAT");
  build_node(&f->b, "Add", "a s", "t");
  build_int(&f->b, build_node(&f->b, "Split", "t", "u v"), "axis", 1);
  build_node(&f->b, "Concat", "u v", "w");  // along axis 1, as was the default
  build_ints(&f->b, build_node(&f->b, "Pad", "w", "y"), "paddings", (int64_t[]){0, 0, 0, 0}, 4);
  build_output(&f->b, "y", "float");
  expect_values(f, 22, expected, 12);
}

static void upsample_of_opset_1_has_its_scales_in_an_attribute(void **state) {
  static const float expected[] = {1, 1, 2,  2,  1, 1, 2,  2,  3,  3,  4,  4,  3,  3,  4,  4,
                                   5, 5, 6,  6,  5, 5, 6,  6,  7,  7,  8,  8,  7,  7,  8,  8,
                                   9, 9, 10, 10, 9, 9, 10, 10, 11, 11, 12, 12, 11, 11, 12, 12};
  struct planning *f = begin(state, 6);
  build_input(&f->b, "x", "float[2,3,2]");
  build_int64s(&f->b, "shape", "int64[4]", (int64_t[]){1, 3, 2, 2});
  build_node(&f->b, "Reshape", "x shape", "image");
  Onnx__NodeProto *n = build_node(&f->b, "Upsample", "image", "y");
  build_float(&f->b, n, "height_scale", 2);
  build_float(&f->b, n, "width_scale", 2);
  build_output(&f->b, "y", "float");
  expect_values(f, 13, expected, 48);
}

static void withdrawn_functions_are_written_out(void **state) {
  struct planning *f = begin(state, 9);
  build_input(&f->b, "x", "float[1,2,5,4]");
  Onnx__NodeProto *n = build_node(&f->b, "ScaledTanh", "x", "tanh");
  build_float(&f->b, n, "alpha", 1.7159f);
  build_float(&f->b, n, "beta", 0.6667f);
  n = build_node(&f->b, "ParametricSoftplus", "x", "softplus");
  build_float(&f->b, n, "alpha", 0.7f);
  build_float(&f->b, n, "beta", 1.3f);
  output(f, "tanh");
  output(f, "softplus");
  expect_all_same(f);
}

static void withdrawn_operators_are_written_out(void **state) {
  struct planning *f = begin(state, 9);
  build_input(&f->b, "x", "float[1,2,5,4]");
  Onnx__NodeProto *n = build_node(&f->b, "Affine", "x", "affine");
  // The factors are powers of two: the engine's kernels fuse product and sum on arm64.
  build_float(&f->b, n, "alpha", -2);
  build_float(&f->b, n, "beta", 0.25f);
  n = build_node(&f->b, "ImageScaler", "x", "image");
  build_float(&f->b, n, "scale", 0.5f);
  build_float_list(&f->b, n, "bias", (float[]){-1.25f, 3}, 2);
  build_ints(&f->b, build_node(&f->b, "Crop", "x", "cropped"), "border", (int64_t[]){1, 2, 0, 1},
             4);
  n = build_node(&f->b, "Crop", "x", "window");
  build_ints(&f->b, n, "border", (int64_t[]){1, 2, 0, 1}, 4);
  build_ints(&f->b, n, "scale", (int64_t[]){3, 2}, 2);
  for (const char *const *name =
           (const char *const[]){"affine", "image", "cropped", "window", NULL};
       *name; name++)
    output(f, *name);
  expect_all_same(f);
}

static void names_made_are_new(void **state) {
  struct planning *f = begin(state, 11);
  build_input(&f->b, "x", "float[1,2]");
  build_input(&f->b, "y__axes", "float[1,2]");
  build_ints(&f->b, build_node(&f->b, "Squeeze", "x", "y"), "axes", (int64_t[]){0}, 1);
  build_node(&f->b, "Add", "y y__axes", "z");
  output(f, "z");
  expect_all_same(f);
}

static void bodies_and_functions_are_raised_too(void **state) {
  struct planning *f = begin(state, 11);
  build_function_begin(&f->b, "local", "Front", "a", "b", "");
  build_ints(&f->b, build_node(&f->b, "Squeeze", "a", "b"), "axes", (int64_t[]){0}, 1);
  build_function_end(&f->b);
  f->b.model->ir_version = 8;
  build_opset(&f->b, "local", 1);
  build_input(&f->b, "x", "float[1,2]");
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "local.Front", "x", "front");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  build_ints(&f->b, build_node(&f->b, "Unsqueeze", "front", "t"), "axes", (int64_t[]){1}, 1);
  build_output(&f->b, "t", "float");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Softmax", "x", "e");
  build_output(&f->b, "e", "float");
  build_graph_end(&f->b);
  output(f, "y");
  expect_all_same(f);
}

static void keep_warning(void *text, const char *warning) {
  snprintf(text, 200, "%s", warning);
}

static void a_function_of_another_opset_is_warned_of(void **state) {
  for (int of_function = 11; of_function <= 12; of_function++) {
    struct planning *f = begin(state, 11);
    f->b.model->ir_version = 8;
    Onnx__FunctionProto *front = build_function_begin(&f->b, "local", "Front", "a", "b", "");
    build_node(&f->b, "Softmax", "a", "b");
    build_function_end(&f->b);
    front->opset_import[0]->version = of_function;
    build_opset(&f->b, "local", 1);
    build_input(&f->b, "x", "float[1,2]");
    build_node(&f->b, "local.Front", "x", "y");
    output(f, "y");
    char warning[200] = "";
    struct both b = {.d = {.warn = keep_warning, .warn_context = warning}};
    struct model after;
    struct graph index;
    planning_index(f);
    schema_load(&b.schemas, &b.arena);
    assert_true(raised(&b, &f->m, 13, &after, &index));
    if (of_function == 11)
      assert_string_equal(warning, "");
    else
      assert_non_null(strstr(warning, "fn:local.Front imports opset 12 and the model 11"));
    end_both(&b);
    planning_tear_down(state);
    planning_set_up(state);
  }
}

// ---- refusals ----

static void expect_refusal(struct planning *f, int opset, const char *node, const char *message) {
  struct both b = {0};
  struct model after;
  struct graph index;
  planning_index(f);
  schema_load(&b.schemas, &b.arena);
  if (raised(&b, &f->m, opset, &after, &index))
    fail_msg("it was raised");
  if (!strstr(b.d.node, node) || !strstr(b.d.message, message))
    fail_msg("%s: %s", b.d.node, b.d.message);
  end_both(&b);
}

static void a_mask_that_is_read_is_refused(void **state) {
  struct planning *f = begin(state, 9);
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Dropout", "x", "y mask");
  build_node(&f->b, "Mul", "y mask", "z");
  output(f, "z");
  expect_refusal(f, 13, "#0(Dropout)", "Dropout of opset 10 gives another mask");
}

static void a_mask_of_opset_10_that_is_read_is_refused(void **state) {
  struct planning *f = begin(state, 10);
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Dropout", "x", "y mask");
  output(f, "y");
  build_output(&f->b, "mask", "bool");
  expect_refusal(f, 13, "#0(Dropout)", "Dropout of opset 12 gives another mask");
}

static void nearest_pixels_by_scales_that_are_not_constant_are_refused(void **state) {
  struct planning *f = begin(state, 10);
  build_input(&f->b, "x", "float[1,1,4,4]");
  build_input(&f->b, "scales", "float[4]");
  build_node(&f->b, "Resize", "x scales", "y");
  output(f, "y");
  expect_refusal(f, 13, "#0(Resize)", "its scales, which are not constant");
}

static void tile_of_opset_1_is_refused(void **state) {
  struct planning *f = begin(state, 5);
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "n", "float[1]", (float[]){2});
  build_floats(&f->b, "axis", "float[1]", (float[]){0});
  build_node(&f->b, "Tile", "x n axis", "y");
  output(f, "y");
  expect_refusal(f, 13, "#0(Tile)", "Tile of opset 6 takes a number for each axis");
}

static void a_high_opset_stays(void **state) {
  struct planning *f = begin(state, 20);
  struct both b = {0};
  struct model after;
  struct graph index;
  build_input(&f->b, "x", "float[1,4,2]");
  build_node(&f->b, "Relu", "x", "y");
  output(f, "y");
  planning_index(f);
  schema_load(&b.schemas, &b.arena);
  assert_true(raised(&b, &f->m, 19, &after, &index));
  assert_int_equal(after.raised_to, 0);
  assert_true(same_model(f, &f->m, &after));
  end_both(&b);
}

// ---- real models ----

static bool compare_file(const char *path) {
  struct both b = {0};
  struct model m;
  struct graph g;
  bool all = true;
  schema_load(&b.schemas, &b.arena);
  if (model_load(&m, &b.arena, path, NULL, &b.d) != STATUS_OK ||
      graph_build(&g, &m, &b.schemas, &b.arena, &b.d) != STATUS_OK)
    fail_msg("%s: %s", path, b.d.message);
  if (graph_opset(&g, 0, "") < targets[4])
    begin_both(&b, &g);
  for (size_t i = 2; i < 5 && graph_opset(&g, 0, "") < targets[i]; i++) {
    struct model after;
    struct graph index;
    if (raised(&b, &m, targets[i], &after, &index)) {
      if (b.samples)
        expect_same_bits(&b, &m, &g, &after, &index);
      continue;
    }
    print_message("%s: not raised to %d: %s: %s\n", path, targets[i], b.d.node, b.d.message);
    diag_clear(&b.d);
    all = false;
  }
  model_close(&m);
  end_both(&b);
  return all;
}

static void real_models_give_the_same_bits(void **state) {
  (void)state;
  const char *folder = getenv("NARROWCAST_MODELS");
  DIR *list = folder ? opendir(folder) : NULL;
  if (!list) {
    print_message("NARROWCAST_MODELS is not set\n");
    skip();
  }
  int count = 0, refused = 0;
  for (struct dirent *e; (e = readdir(list)) != NULL;) {
    char path[1000];
    snprintf(path, sizeof path, "%s/%s/model.onnx", folder, e->d_name);
    FILE *there = fopen(path, "rb");
    if (!there)
      continue;
    fclose(there);
    count++;
    refused += !compare_file(path);
  }
  closedir(list);
  print_message("%d models, %d refused\n", count, refused);
  assert_true(refused * 10 <= count);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(attributes_become_inputs),
      TEST(reductions_get_their_axes_as_inputs),
      TEST(softmax_over_several_axes_is_flattened),
      TEST(softmax_over_the_last_axis_stays_one_node),
      TEST(resampling_keeps_its_pixels),
      TEST(upsample_of_opset_7_has_its_scales_in_an_attribute),
      TEST(shrinking_keeps_its_pixels),
      TEST(half_pixels_of_tensorflow_are_kept),
      TEST(statistics_of_each_element_are_kept),
      TEST(scan_over_a_batch_becomes_two),
      TEST(groups_get_a_scale_for_each_channel),
      TEST(broadcasting_from_an_axis_is_written_out),
      TEST(operators_of_opset_1_are_raised),
      TEST(upsample_of_opset_1_has_its_scales_in_an_attribute),
      TEST(withdrawn_operators_are_written_out),
      TEST(withdrawn_functions_are_written_out),
      TEST(names_made_are_new),
      TEST(bodies_and_functions_are_raised_too),
      TEST(a_function_of_another_opset_is_warned_of),
      TEST(a_mask_that_is_read_is_refused),
      TEST(a_mask_of_opset_10_that_is_read_is_refused),
      TEST(nearest_pixels_by_scales_that_are_not_constant_are_refused),
      TEST(tile_of_opset_1_is_refused),
      TEST(a_high_opset_stays),
      TEST(real_models_give_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
