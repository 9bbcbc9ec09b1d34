// Runs a model's published test data through the source and through the emitted model, the latter
// with its narrow types carried as fp32, and judges the outputs.
//
// How far may they be from the published ones? Let p be the published output, a the source's, and e
// the emitted model's. The narrow format rounds each value by a relative u = 2^-(M+1) at most. What
// the rounding of inputs and constants does to the output depends on the operator's condition,
// which is measured, not guessed: the source runs once more, in fp32, on inputs and constants that
// are rounded as the emitted model rounds them, and gives r. Then
//
//   |e - p| <= |r - a| + u |r| + half the smallest subnormal + engine
//
// for a model of one float node, element by element: the condition, the rounding of the result, and
// the tolerance of the engine's fp32: 1e-3 of the element, as ONNX grants every implementation, and
// 1e-6 of the largest element, as sums leave where they cancel. With n float nodes the result of
// each may be rounded once more, and their errors pass through the rest of the graph: the first
// terms then count n-fold, and over the whole tensor (largest |r - a|, largest |r|), since an error
// may move from one element to another.
//
// Where operands alone are narrow, results are not rounded: u is then that of fp32 for one node,
// and of the operands' format for more, since what is computed between them is rounded as operands
// are.
//
// Integers, booleans and strings must equal the published ones, or else those of the run on rounded
// inputs: an operator that decides on floats may decide otherwise if these are rounded.
#include "conformance.h"

#include "clone.h"
#include "emulate.h"
#include "round.h"
#include "samples_format.h"
#include "tensor.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define ENGINE_RELATIVE   1e-3
#define ENGINE_OF_LARGEST 1e-6

void result_set(struct result *r, enum outcome outcome, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  r->outcome = outcome;
  vsnprintf(r->text, sizeof r->text, format, arguments);
  va_end(arguments);
}

// ---- the runs ----

struct runner {
  struct session *session;
  struct array *outputs;
};

// A session of a copy of g's model. `round`: constants that the emitted model stores narrow, too,
// are rounded.
static enum status runner_open(struct runner *r, const struct comparison *c, struct graph *g,
                               enum status (*prepare)(const struct comparison *c, struct graph *g,
                                                      struct arena *a, struct diag *d),
                               struct arena *a, struct diag *d) {
  struct model *copy = arena_alloc(a, sizeof *copy);
  struct graph *graph = arena_alloc(a, sizeof *graph);
  *copy = clone_model(g->model, a);
  TRY(graph_build(graph, copy, c->schemas, a, d));
  if (prepare)
    TRY(prepare(c, graph, a, d));
  if (!c->raised)
    TRY(emulate_model(copy, graph, false, a, d));
  struct packed_model packed;
  TRY(clone_pack(&packed, copy, a, d));
  struct session_options options = {.optimisation = OPTIMISE_NONE,
                                    .threads = 1,
                                    .initializers = packed.initializers,
                                    .n_initializers = packed.n_initializers,
                                    .directory = packed.directory};
  r->outputs = arena_array(a, (size_t)g->scopes[0].n_outputs, sizeof *r->outputs);
  return session_open(&r->session, c->engine, packed.bytes, packed.size, &options, d);
}

static enum status runner_run(struct runner *r, const struct graph *g, const struct sample *sample,
                              struct arena *a, struct diag *d) {
  const struct scope *scope = &g->scopes[0];
  const char **names = arena_array(a, (size_t)scope->n_outputs, sizeof *names);
  for (int k = 0; k < scope->n_outputs; k++)
    names[k] = g->values[scope->outputs[k]].name;
  return session_run(r->session, sample->arrays, sample->n_arrays, names, (size_t)scope->n_outputs,
                     r->outputs, d);
}

// ---- rounding inputs and constants as the emitted model does ----

// How the emitted model rounds the source's value, if it has a narrow copy of it, in its place or
// beside it.
static bool is_rounded(const struct comparison *c, int v, struct round_mode *mode,
                       struct arena *a) {
  struct copy *copies;
  *mode = (struct round_mode){.format = &formats[c->format]};
  if (v < 0 || !c->plan->values[v].considered)
    return false;
  const struct operand_plan *operand = c->plan->values[v].operand;
  if (operand) {
    mode->saturate = true;
    mode->scale_log2 = operand->scale_log2;
    return true;
  }
  size_t n = plan_copies(c->source, c->plan, v, &copies, a);
  for (size_t i = 0; i < n; i++)
    if (copies[i].format == c->format)
      return true;
  return c->plan->values[v].format == c->format;
}

// `g` is of a copy of the source: its values have the same ids.
static enum status round_constants(const struct comparison *c, struct graph *g, struct arena *a,
                                   struct diag *d) {
  struct round_mode mode;
  for (int v = 0; v < g->n_values; v++) {
    const struct value *value = &g->values[v];
    Onnx__TensorProto *t = graph_is_fp32(g, v) ? graph_constant(g, v) : NULL;
    if (!t && value->initializer && graph_is_fp32(g, v))
      t = value->initializer;
    if (!t || !is_rounded(c, v, &mode, a))
      continue;
    struct tensor view;
    TRY(tensor_read(g->model, t, a, &view, d));
    float *x = arena_array(a, view.count, sizeof *x);
    tensor_to_float(&view, x);
    round_array(&mode, x, x, view.count);
    Onnx__TensorProto *rounded =
        tensor_new(a, t->name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, t->n_dims, t->dims,
                   (const uint8_t *)x, view.count * sizeof *x);
    rounded->base = t->base;
    *t = *rounded;
  }
  return STATUS_OK;
}

static struct sample round_sample(const struct comparison *c, const struct sample *sample,
                                  struct arena *a) {
  struct round_mode mode;
  struct sample copy = *sample;
  copy.arrays = arena_array(a, sample->n_arrays, sizeof *copy.arrays);
  for (size_t i = 0; i < sample->n_arrays; i++) {
    struct array *array = &copy.arrays[i];
    *array = sample->arrays[i];
    if (array->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
        !is_rounded(c, graph_lookup(c->source, 0, array->name), &mode, a))
      continue;
    float *x = arena_alloc(a, array->size);
    round_array(&mode, array->data, x, array->size / sizeof *x);
    array->data = x;
  }
  return copy;
}

// The sample as the emitted model takes it: rounded where its own inputs are narrow.
static struct sample narrow_sample(const struct comparison *c, const struct sample *sample,
                                   const struct sample *rounded, struct arena *a) {
  struct sample copy = *sample;
  copy.arrays = arena_array(a, sample->n_arrays, sizeof *copy.arrays);
  for (size_t i = 0; i < sample->n_arrays; i++) {
    int v = graph_lookup(c->emitted, 0, sample->arrays[i].name);
    bool narrow = v >= 0 && c->emitted->values[v].type.elem_type == formats[c->format].onnx_type;
    copy.arrays[i] = narrow ? rounded->arrays[i] : sample->arrays[i];
  }
  return copy;
}

// ---- judging ----

// Elements as double, or NULL for what is no float tensor.
static double *to_doubles(const struct array *array, size_t *count, struct arena *a) {
  const struct format *f = format_from_onnx(array->elem_type);
  if (!f)
    return NULL;
  *count = array->size / ((size_t)f->stored_bits / 8);
  double *out = arena_array(a, *count, sizeof *out);
  if (f->id == FORMAT_FP64) {
    if (*count)
      memcpy(out, array->data, array->size);
    return out;
  }
  float *x = arena_array(a, *count, sizeof *x);
  round_decode_array(f, array->data, x, *count);
  for (size_t i = 0; i < *count; i++)
    out[i] = (double)x[i];
  return out;
}

static bool same_shape(const struct array *x, const struct array *y) {
  return x->rank == y->rank &&
         (x->rank == 0 || memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0);
}

static bool same_elements(const struct array *x, const struct array *y) {
  if (x->elem_type != y->elem_type || !same_shape(x, y))
    return false;
  if (!x->strings || !y->strings)
    return x->size == y->size && (x->size == 0 || memcmp(x->data, y->data, x->size) == 0);
  uint64_t count, bytes;
  if (!array_extent(x->dims, x->rank, 1, &count, &bytes))
    return false;
  for (uint64_t i = 0; i < count; i++)
    if (strcmp(x->strings[i], y->strings[i]) != 0)
      return false;
  return true;
}

// One output: published, of the source, of the source on rounded inputs, of the emitted model.
struct quadruple {
  const struct array *published, *source, *rounded, *emitted;
  size_t count;
  double *p, *a, *r, *e;
};

static bool same_value(double x, double y) {
  return x == y || (isnan(x) && isnan(y));
}

struct largest {
  double change, value, published;
};

static void keep_larger(double *most, double x) {
  if (isfinite(x) && fabs(x) > *most)
    *most = fabs(x);
}

static struct largest find_largest(const struct quadruple *q) {
  struct largest most = {0, 0, 0};
  for (size_t i = 0; i < q->count; i++) {
    keep_larger(&most.change, q->r[i] - q->a[i]);
    keep_larger(&most.value, q->r[i]);
    keep_larger(&most.published, q->p[i]);
  }
  return most;
}

static double engine_tolerance(double p, const struct largest *most) {
  return ENGINE_RELATIVE * fabs(p) + ENGINE_OF_LARGEST * most->published;
}

// Index of the first element at which the source is not what was published, or -1.
static ptrdiff_t source_fault(const struct quadruple *q, const struct largest *most) {
  for (size_t i = 0; i < q->count; i++)
    if (!same_value(q->a[i], q->p[i]) &&
        !(fabs(q->a[i] - q->p[i]) <= engine_tolerance(q->p[i], most)))
      return (ptrdiff_t)i;
  return -1;
}

// The error at element i as a share of what is allowed: see the top.
static double judge_element(const struct comparison *c, const struct quadruple *q,
                            const struct largest *most, size_t i) {
  // Of one node with narrow operands, the result is not rounded but in fp32.
  const struct format *f = &formats[c->results],
                      *u_of = c->float_nodes > 1 ? &formats[c->format] : f;
  double p = q->p[i], e = q->e[i];
  if (same_value(p, e))
    return 0;
  // Where the rounding itself overflows, what is published counts rounded.
  double rounded = round_double(f, q->r[i], false, false);
  if (!isfinite(rounded) || !isfinite(e))
    return same_value(rounded, e) || same_value(q->r[i], e) ? 0 : INFINITY;
  double u = u_of->eps / 2, n = c->float_nodes;
  double change = n > 1 ? most->change : fabs(q->r[i] - q->a[i]);
  double value = n > 1 ? most->value : fabs(q->r[i]);
  double allowed = n * (change + u * value + u_of->min_subnormal / 2) + engine_tolerance(p, most);
  return fabs(e - p) / allowed;
}

static void judge_floats(struct result *r, const struct comparison *c, const struct quadruple *q,
                         const char *name, const char *set) {
  const struct largest most = find_largest(q);
  ptrdiff_t at = source_fault(q, &most);
  if (at >= 0) {
    result_set(r, OUTCOME_SOURCE_DIFFERS,
               "%s: output %s[%td] of the source is %.9g, published %.9g", set, name, at, q->a[at],
               q->p[at]);
    return;
  }
  for (size_t i = 0; i < q->count; i++) {
    double share = judge_element(c, q, &most, i);
    if (share > r->worst)
      r->worst = share;
    if (share > 1 && r->outcome != OUTCOME_DIFFERS)
      result_set(r, OUTCOME_DIFFERS,
                 "%s: output %s[%zu] is %.9g, published %.9g: %.3g times what"
                 " rounding explains (on rounded inputs: %.9g)",
                 set, name, i, q->e[i], q->p[i], share, q->r[i]);
  }
}

static void judge_output(struct result *r, const struct comparison *c, struct quadruple *q,
                         const char *name, const char *set, struct arena *a) {
  if (!same_shape(q->published, q->source)) {
    result_set(r, OUTCOME_SOURCE_DIFFERS, "%s: output %s of the source has another shape", set,
               name);
    return;
  }
  size_t counts[4];
  q->p = to_doubles(q->published, &counts[0], a);
  if (!q->p) {
    if (!same_elements(q->source, q->published))
      result_set(r, OUTCOME_SOURCE_DIFFERS, "%s: output %s of the source is not as published", set,
                 name);
    else if (!same_elements(q->emitted, q->published) && !same_elements(q->emitted, q->rounded))
      result_set(r, OUTCOME_DIFFERS, "%s: output %s (%s) is not as published", set, name,
                 tensor_type_name(q->published->elem_type));
    return;
  }
  q->a = to_doubles(q->source, &counts[1], a);
  q->r = to_doubles(q->rounded, &counts[2], a);
  q->e = to_doubles(q->emitted, &counts[3], a);
  bool shapes = same_shape(q->emitted, q->published) || same_shape(q->emitted, q->rounded);
  if (!q->a || !q->r || !q->e || !shapes) {
    result_set(r, OUTCOME_DIFFERS, "%s: output %s has another type or shape than published", set,
               name);
    return;
  }
  // A decision on floats made the shape, and the rounded inputs another one.
  if (!same_shape(q->emitted, q->published) || !same_shape(q->rounded, q->published))
    return;
  q->count = counts[0];
  judge_floats(r, c, q, name, set);
}

// ---- a data set ----

struct trio {
  struct runner source, rounded, emitted;
};

static enum status read_published(struct array *out, const char *set, int k, struct arena *a,
                                  struct diag *d) {
  struct array_list list = {.arena = a};
  TRY(samples_read_pb(&list, arena_printf(a, "%s/output_%d.pb", set, k), d));
  *out = list.items[0];
  return STATUS_OK;
}

static void judge_set(struct result *r, const struct comparison *c, const struct trio *t,
                      const char *set, struct arena *a) {
  const struct scope *scope = &c->source->scopes[0];
  const char *slash = strrchr(set, '/');
  for (int k = 0; k < scope->n_outputs && r->outcome == OUTCOME_MATCHED; k++) {
    struct array published;
    struct diag d = {0};
    if (c->source->values[scope->outputs[k]].type.kind != TYPE_TENSOR)
      continue;
    if (read_published(&published, set, k, a, &d) != STATUS_OK) {
      result_set(r, OUTCOME_SOURCE_DIFFERS, "%s: %s", d.file, d.message);
      return;
    }
    struct quadruple q = {&published,
                          &t->source.outputs[k],
                          &t->rounded.outputs[k],
                          &t->emitted.outputs[k],
                          0,
                          NULL,
                          NULL,
                          NULL,
                          NULL};
    judge_output(r, c, &q, c->source->values[scope->outputs[k]].name, slash ? slash + 1 : set, a);
    r->compared++;
  }
}

static enum status read_sample(const struct comparison *c, const char *set, struct sample *sample,
                               struct arena *a, struct diag *d) {
  struct samples *samples;
  TRY(samples_open(&samples, c->source, set, a, d));
  TRY(samples_read(samples, 0, sample, d));
  if (!c->raised)
    emulate_sample(sample);
  return STATUS_OK;
}

static void compare_set(struct result *r, const struct comparison *c, struct trio *t,
                        const char *set, struct arena *a) {
  struct diag d = {0};
  struct sample sample = {0};
  if (read_sample(c, set, &sample, a, &d) != STATUS_OK) {
    result_set(r, OUTCOME_NO_DATA, "%s", d.message);
    return;
  }
  struct sample rounded = round_sample(c, &sample, a);
  struct sample narrow = narrow_sample(c, &sample, &rounded, a);
  if (runner_run(&t->source, c->source, &sample, a, &d) != STATUS_OK)
    result_set(r, OUTCOME_NO_KERNEL, "%s", d.message);
  else if (runner_run(&t->rounded, c->source, &rounded, a, &d) != STATUS_OK)
    result_set(r, OUTCOME_DIFFERS, "the source does not run on rounded inputs: %s", d.message);
  else if (runner_run(&t->emitted, c->emitted, &narrow, a, &d) != STATUS_OK)
    result_set(r, OUTCOME_BROKEN, "the emitted model does not run: %s", d.message);
  else
    judge_set(r, c, t, set, a);
}

// The engine's own checker and kernels on the emitted model as it is: a type that the engine infers
// otherwise than the model says, or a crash, would show. That it has no kernel for a format shows
// nothing.
static void load_as_it_is(struct result *r, const struct comparison *c, struct arena *a) {
  struct diag d = {0};
  struct model copy = clone_model(c->emitted->model, a);
  struct packed_model packed;
  struct session *session = NULL;
  enum status status = clone_pack(&packed, &copy, a, &d);
  struct session_options options = {.optimisation = OPTIMISE_ALL,
                                    .keep_quantised = c->results != c->format,
                                    .threads = 1,
                                    .initializers = packed.initializers,
                                    .n_initializers = packed.n_initializers};
  if (status == STATUS_OK)
    status = session_open(&session, c->engine, packed.bytes, packed.size, &options, &d);
  if (status != STATUS_OK && !strstr(d.message, "Could not find an implementation"))
    result_set(r, OUTCOME_BROKEN, "the emitted model does not load: %s", d.message);
  session_close(session);
}

static bool has_tensor_output(const struct graph *g) {
  const struct scope *scope = &g->scopes[0];
  for (int k = 0; k < scope->n_outputs; k++)
    if (g->values[scope->outputs[k]].type.kind == TYPE_TENSOR)
      return true;
  return false;
}

void compare_with_published(struct result *r, const struct comparison *c, struct arena *a) {
  struct trio t = {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}};
  struct diag d = {0};
  if (!has_tensor_output(c->source)) {
    result_set(r, OUTCOME_NO_DATA, "no output is a tensor");
    return;
  }
  if (runner_open(&t.source, c, c->source, NULL, a, &d) != STATUS_OK) {
    result_set(r, OUTCOME_NO_KERNEL, "%s", d.message);
    return;
  }
  if (runner_open(&t.rounded, c, c->source, round_constants, a, &d) != STATUS_OK ||
      runner_open(&t.emitted, c, c->emitted, NULL, a, &d) != STATUS_OK) {
    result_set(r, OUTCOME_BROKEN, "the emitted model does not load: %s", d.message);
    return;
  }
  result_set(r, OUTCOME_MATCHED, "%s", "");
  load_as_it_is(r, c, a);
  for (int k = 0; r->outcome == OUTCOME_MATCHED; k++) {
    const char *set = arena_printf(a, "%s/test_data_set_%d", c->source->model->directory, k);
    struct stat info;
    if (stat(set, &info) != 0)
      break;
    compare_set(r, c, &t, set, a);
  }
  if (r->outcome == OUTCOME_MATCHED && r->compared == 0)
    result_set(r, OUTCOME_SOURCE_DIFFERS, "there is no published output");
  session_close(t.source.session);
  session_close(t.rounded.session);
  session_close(t.emitted.session);
}

// ---- raised models ----

// An output against what the source gives (NULL if it does not run), else against what is
// published.
static void judge_raised(struct result *r, const struct array *raised, const struct array *source,
                         const struct array *published, const char *name, struct arena *a) {
  if (source) {
    if (!same_elements(raised, source))
      result_set(r, OUTCOME_DIFFERS, "output %s is not that of the source, bit for bit", name);
    return;
  }
  struct quadruple q = {.published = published, .source = raised};
  size_t count;
  if (!same_shape(raised, published) || raised->elem_type != published->elem_type) {
    result_set(r, OUTCOME_DIFFERS, "output %s has another type or shape than published", name);
    return;
  }
  q.p = to_doubles(published, &q.count, a);
  q.a = q.r = to_doubles(raised, &count, a);
  const struct largest most = q.p ? find_largest(&q) : (struct largest){0, 0, 0};
  if (q.p ? source_fault(&q, &most) >= 0 : !same_elements(raised, published))
    result_set(r, OUTCOME_DIFFERS, "output %s is not as published", name);
}

static void compare_raised_set(struct result *r, const struct comparison *c, struct runner *source,
                               struct runner *raised, const char *set, struct arena *a) {
  const struct scope *scope = &c->source->scopes[0];
  struct diag d = {0};
  struct sample sample = {0};
  if (read_sample(c, set, &sample, a, &d) != STATUS_OK) {
    result_set(r, OUTCOME_NO_DATA, "%s", d.message);
    return;
  }
  if (source->session && runner_run(source, c->source, &sample, a, &d) != STATUS_OK) {
    result_set(r, OUTCOME_NO_KERNEL, "%s", d.message);
    return;
  }
  if (runner_run(raised, c->emitted, &sample, a, &d) != STATUS_OK) {
    result_set(r, source->session ? OUTCOME_BROKEN : OUTCOME_NO_KERNEL, "raised: %s", d.message);
    return;
  }
  for (int k = 0; k < scope->n_outputs; k++) {
    const struct value *value = &c->source->values[scope->outputs[k]];
    struct array published = {0};
    if (value->type.kind != TYPE_TENSOR)
      continue;
    if (!source->session && read_published(&published, set, k, a, &d) != STATUS_OK) {
      result_set(r, OUTCOME_SOURCE_DIFFERS, "%s: %s", d.file, d.message);
      return;
    }
    r->compared++;
    judge_raised(r, &raised->outputs[k], source->session ? &source->outputs[k] : NULL, &published,
                 value->name, a);
  }
}

void compare_raised(struct result *r, const struct comparison *c, struct arena *a) {
  struct runner source = {NULL, NULL}, raised = {NULL, NULL};
  struct diag d = {0};
  if (!has_tensor_output(c->source)) {
    result_set(r, OUTCOME_NO_DATA, "no output is a tensor");
    return;
  }
  bool runs = runner_open(&source, c, c->source, NULL, a, &d) == STATUS_OK;
  diag_clear(&d);
  if (runner_open(&raised, c, c->emitted, NULL, a, &d) != STATUS_OK) {
    bool unknown = strstr(d.message, "official released onnx opset");
    bool broken = runs && !unknown && !strstr(d.message, "Could not find an implementation");
    if (unknown)
      result_set(r, OUTCOME_NO_OPSET, "%s", "");
    else
      result_set(r, broken ? OUTCOME_BROKEN : OUTCOME_NO_KERNEL, "raised: %s", d.message);
    session_close(source.session);
    return;
  }
  result_set(r, runs ? OUTCOME_MATCHED : OUTCOME_AS_PUBLISHED, "%s", "");
  enum outcome good = r->outcome;
  for (int k = 0; r->outcome == good; k++) {
    const char *set = arena_printf(a, "%s/test_data_set_%d", c->source->model->directory, k);
    struct stat info;
    if (stat(set, &info) != 0)
      break;
    compare_raised_set(r, c, &source, &raised, set, a);
  }
  if (r->outcome == good && r->compared == 0)
    result_set(r, OUTCOME_NO_DATA, "there is no test data");
  session_close(source.session);
  session_close(raised.session);
}
