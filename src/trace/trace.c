// The calibration trace: one session over the instrumented model, the samples through it one at a
// time, and afterwards the statistics of the values that had no observer because they follow from
// others, and the verdict whether the source model itself makes NaN or infinities.
#include "trace.h"

#include "clock.h"
#include "clone.h"
#include "emulate.h"
#include "progress.h"
#include "tensor.h"
#include "trace_feedback.h"
#include "trace_places.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Derived values ----

static void derive_value(struct trace *t, const struct graph *g, int v, enum stats_derivation how) {
  const struct node *n = &g->nodes[g->values[v].producer];
  struct stats *s = &t->stats[v];
  stats_free(s);
  stats_derive(s, &t->stats[n->inputs[0]], how);
  if (!node_is(n, "Concat"))
    return;
  for (int i = 1; i < n->n_inputs; i++)
    stats_merge(s, &t->stats[n->inputs[i]]);
  s->runs = t->stats[n->inputs[0]].runs;
}

static void derive_values(struct trace *t, const struct graph *g, const signed char *derived) {
  for (int s = 0; s < g->n_scopes; s++) {
    const struct scope *scope = &g->scopes[s];
    for (int k = 0; k < scope->n_nodes; k++) {
      const struct node *n = &g->nodes[scope->order[k]];
      int v = n->n_outputs ? n->outputs[0] : -1;
      if (v >= 0 && derived[v] >= 0)
        derive_value(t, g, v, (enum stats_derivation)derived[v]);
    }
  }
}

// ---- Values that are not finite ----

static bool tensor_has_infinity(struct model *m, const Onnx__TensorProto *t) {
  struct arena scratch = {0};
  struct diag ignored = {0};
  struct tensor view;
  bool found = false;
  if (tensor_read(m, t, &scratch, &view, &ignored) == STATUS_OK &&
      tensor_is_float(view.elem_type)) {
    struct tensor_blocks b;
    tensor_begin(&b, m, &view);
    while (!found && tensor_next(&b))
      for (size_t i = 0; i < b.n; i++)
        found = found || isinf(b.x[i]);
  }
  arena_free(&scratch);
  return found;
}

static uint64_t infinities(const struct stats *s) {
  return s->positive_infinities + s->negative_infinities;
}

struct judge {
  const struct trace *trace;
  struct graph *graph;
  unsigned char *constants;  // by value, what is known of a constant: 1 finite, 2 with infinities
};

// True if the value was infinite in some run, or is a constant that holds an infinity.
static bool is_infinite_input(struct judge *j, int v) {
  if (v < 0)
    return false;
  Onnx__TensorProto *constant = graph_constant(j->graph, v);
  if (!constant)
    return infinities(&j->trace->stats[v]) > 0;
  if (!j->constants[v])
    j->constants[v] = tensor_has_infinity(j->graph->model, constant) ? 2 : 1;
  return j->constants[v] == 2;
}

// True if infinities in the node's outputs were put there by the model's author, or were there
// before: in a constant (a mask, say), in an attribute, in an input. Nodes with bodies only hand on
// what was judged inside them.
static bool is_infinity_explained(struct judge *j, const struct node *n) {
  if (n->n_bodies || n->function >= 0)
    return true;
  for (int i = 0; i < n->n_inputs; i++)
    if (is_infinite_input(j, n->inputs[i]))
      return true;
  for (size_t i = 0; i < n->proto->n_attribute; i++) {
    const Onnx__AttributeProto *a = n->proto->attribute[i];
    if ((a->has_f && isinf(a->f)) || (a->t && tensor_has_infinity(j->graph->model, a->t)))
      return true;
  }
  return false;
}

// A formal's contents come from a value that is judged elsewhere.
static bool is_fault(struct judge *j, int v) {
  const struct value *value = &j->graph->values[v];
  const struct stats *s = &j->trace->stats[v];
  if (value->origin == ORIGIN_FORMAL || s->nans + infinities(s) == 0)
    return false;
  if (s->nans)
    return true;
  return value->origin == ORIGIN_INPUT ||
         (value->producer >= 0 && !is_infinity_explained(j, &j->graph->nodes[value->producer]));
}

// A place in the walk over all nodes as they run, the bodies of a node before its outputs.
struct place {
  int scope, node;  // node: index in the scope's order
  int body;         // of the node, to enter next
};

static int child_scope(const struct node *n, int body) {
  return body < n->n_bodies ? n->bodies[body] : body == n->n_bodies ? n->function : -1;
}

static int faulty_output(struct judge *j, const struct node *n) {
  for (int i = 0; i < n->n_outputs; i++)
    if (n->outputs[i] >= 0 && is_fault(j, n->outputs[i]))
      return n->outputs[i];
  return -1;
}

// A function's body is judged at its first call. Calls may be nested as deep as the model likes.
static int faulty_in_order(struct judge *j, struct arena *scratch) {
  struct graph *g = j->graph;
  bool *entered = arena_array(scratch, (size_t)g->n_scopes, sizeof *entered);
  struct place *stack = arena_array(scratch, (size_t)g->n_scopes + 1, sizeof *stack);
  size_t depth = 1;  // the main graph is at the bottom
  entered[0] = true;
  while (depth) {
    struct place *p = &stack[depth - 1];
    if (p->node == g->scopes[p->scope].n_nodes) {
      depth--;
      continue;
    }
    const struct node *n = &g->nodes[g->scopes[p->scope].order[p->node]];
    int child = child_scope(n, p->body++);
    if (child >= 0) {
      if (!entered[child])
        stack[depth++] = (struct place){.scope = child};
      entered[child] = true;
      continue;
    }
    int v = faulty_output(j, n);
    if (v >= 0)
      return v;
    p->node++;
    p->body = 0;
  }
  return -1;
}

static int first_fault(const struct trace *t, struct graph *g) {
  struct arena scratch = {0};
  struct judge j = {t, g, arena_array(&scratch, (size_t)g->n_values, sizeof *j.constants)};
  int fault = -1;
  for (int v = 0; v < g->n_values && fault < 0; v++)
    if (g->values[v].producer < 0 && is_fault(&j, v))
      fault = v;
  if (fault < 0)
    fault = faulty_in_order(&j, &scratch);
  arena_free(&scratch);
  return fault;
}

struct run {
  struct trace *trace;
  struct graph *graph;  // the one that is run
  struct session *session;
  struct samples *samples;
  const struct trace_options *options;
  const struct instrumented *model;
  struct probe probe;
  struct arena *arena, *scratch;
  struct feedback_loop loop;
  size_t steps;         // to run
  const char **labels;  // by step, where some value was not finite for the first time
  int64_t *nan_step;    // by value: step of its first NaN, or -1
};

void trace_init(struct trace *t, const struct graph *g) {
  *t = (struct trace){.n_values = g->n_values, .nonfinite_value = -1};
  t->stats = calloc((size_t)g->n_values + 1, sizeof *t->stats);
  if (!t->stats)
    out_of_memory((size_t)g->n_values * sizeof *t->stats);
  for (int v = 0; v < g->n_values; v++)
    stats_init(&t->stats[v]);
}

void trace_add_sites(struct trace *t, const struct update_site *sites, size_t n) {
  if (n == 0)
    return;
  t->sites = realloc(t->sites, (t->n_sites + n) * sizeof *t->sites);
  t->updates = realloc(t->updates, (t->n_sites + n) * sizeof *t->updates);
  if (!t->sites || !t->updates)
    out_of_memory((t->n_sites + n) * sizeof *t->updates);
  for (size_t i = 0; i < n; i++) {
    t->sites[t->n_sites] = sites[i];
    updates_init(&t->updates[t->n_sites++]);
  }
}

// ---- Models that are narrow already ----

// The types of a model that carries narrow ones as fp32. They cannot be inferred: the operator
// Round is in no table.
static void carry_types(struct graph *carrying, const struct graph *g) {
  for (int v = 0; v < g->n_values; v++) {
    int twin = map_get(&carrying->names, g->values[v].scope, g->values[v].name);
    if (twin < 0)
      continue;
    struct type type = g->values[v].type;
    if (type.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
        type.elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
      type.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    carrying->values[twin].type = type;
  }
}

// The graph that is run for g: g itself, or, as the engine lacks kernels for narrow types, a copy
// that carries them as fp32.
static enum status make_runnable(struct graph **out, struct graph *g, struct arena *a,
                                 struct diag *d) {
  *out = g;
  if (!emulate_needed(g))
    return STATUS_OK;
  struct model *copy = arena_alloc(a, sizeof *copy);
  struct graph *index = arena_alloc(a, sizeof *index);
  *copy = clone_model(g->model, a);
  *index = graph_of_clone(g, copy, a);
  void (*warn)(void *, const char *) = d->warn;
  d->warn = NULL;  // all warnings on this model were given when g was built
  enum status status = emulate_model(copy, index, false, a, d);
  if (status == STATUS_OK)
    status = graph_build_again(index, copy, g->schemas, a, d);
  d->warn = warn;
  if (status == STATUS_OK)
    carry_types(index, g);
  *out = index;
  return status;
}

// The sites' values in g; a site that g does not have is left out.
static void bring_sites_home(struct run *r, const struct graph *g) {
  struct trace *t = r->trace;
  size_t kept = 0;
  for (size_t i = 0; i < t->n_sites; i++) {
    const struct value *ran = &r->graph->values[t->sites[i].value];
    int v = map_get(&g->names, ran->scope, ran->name);
    if (v < 0) {
      updates_free(&t->updates[i]);
      continue;
    }
    t->sites[kept] = (struct update_site){t->sites[i].kind, v};
    t->updates[kept++] = t->updates[i];
  }
  t->n_sites = kept;
}

// Makes the trace of `runnable` one of g: names stay, and so do scopes, in number and order.
static void bring_home(struct run *r, const struct graph *g) {
  struct trace *t = r->trace, home;
  trace_init(&home, g);
  int64_t *nan_step = arena_array(r->scratch, (size_t)g->n_values, sizeof *nan_step);
  for (int v = 0; v < g->n_values; v++) {
    int ran = map_get(&r->graph->names, g->values[v].scope, g->values[v].name);
    nan_step[v] = ran < 0 ? -1 : r->nan_step[ran];
    if (ran < 0)
      continue;
    home.stats[v] = t->stats[ran];
    stats_init(&t->stats[ran]);
  }
  for (int v = 0; v < t->n_values; v++)
    stats_free(&t->stats[v]);
  free(t->stats);
  t->stats = home.stats;
  t->n_values = home.n_values;
  r->nan_step = nan_step;
}

// ---- Running ----

// Keeps the sample's label if something was not finite in it for the first time.
static void note_nonfinite(struct run *r, const char *label) {
  int64_t step = r->probe.step;
  bool noted = false;
  for (size_t i = 0; i < r->model->n_observers; i++) {
    int v = r->model->values[i];
    const struct stats *s = &r->trace->stats[v];
    noted |= s->first_nonfinite_step == step;
    if (s->nans && r->nan_step[v] < 0) {
      r->nan_step[v] = step;
      noted = true;
    }
  }
  if (noted)
    r->labels[step] = arena_strdup(r->arena, label);
}

// The engine computes every node whatever is fetched; the first output will do.
static enum status run_sample(struct run *r, struct sample *sample, struct diag *d) {
  const struct scope *main = &r->graph->scopes[0];
  const char *name = NULL, **names = r->loop.n ? r->loop.outputs : &name;
  for (int i = 0; i < main->n_outputs && !name; i++)
    if (main->outputs[i] >= 0)
      name = r->graph->values[main->outputs[i]].name;
  size_t n = r->loop.n ? r->loop.n : name != NULL;
  struct array *fetched = arena_array(&sample->arena, n, sizeof *fetched);
  emulate_sample(sample);
  if (r->loop.n)
    TRY(feedback_give(&r->loop, sample, d));
  diag_at(d, r->graph->model->path, NULL, NULL);
  double start = clock_seconds();
  TRY(session_run(r->session, sample->arrays, sample->n_arrays, names, n, fetched, d));
  r->trace->seconds += clock_seconds() - start;
  return r->loop.n ? feedback_take(&r->loop, fetched, r->probe.window, d) : STATUS_OK;
}

static void hint_at_sample(const struct run *r, const char *label, struct diag *d) {
  if (samples_synthetic(r->samples))
    diag_hint(
        d,
        "It happened in sample %s, which is made up and may not be what the model takes: give "
        "samples with --data DIR.",
        label);
  else
    diag_hint(d, "It happened in sample %s.", label);
}

static enum status run_steps(struct run *r, struct diag *d) {
  const struct trace_options *o = r->options;
  for (size_t i = 0; i < r->steps; i++) {
    if (o->progress)
      progress_show("trace", i, r->steps);
    struct sample sample = {0};
    TRY(samples_read(r->samples, o->steps[i % o->n_steps], &sample, d));
    r->probe.window = i / (o->window ? o->window : 1);
    r->probe.step = (int64_t)i;
    if (o->recorder) {
      recorder_sample(o->recorder, i + 1, r->steps, sample.label);
      recorder_place(o->recorder, &r->probe.places[r->graph->n_values]);
    }
    enum status status = run_sample(r, &sample, d);
    if (status == STATUS_OK)
      note_nonfinite(r, sample.label);
    else
      hint_at_sample(r, sample.label, d);
    sample_free(&sample);
    TRY(status);
  }
  if (o->progress)
    progress_show("trace", r->steps, r->steps);
  return STATUS_OK;
}

// The verdict on the source model itself.
static void report_nonfinite(struct run *r, struct graph *g, struct diag *d) {
  struct trace *t = r->trace;
  t->nonfinite_value = first_fault(t, g);
  if (t->nonfinite_value < 0)
    return;
  const struct stats *s = &t->stats[t->nonfinite_value];
  int64_t step = r->nan_step[t->nonfinite_value];
  if (step < 0)
    step = s->first_nonfinite_step;
  t->nonfinite_sample = step >= 0 && r->labels[step] ? r->labels[step] : "";
  diag_warn(d, "the model itself is not finite: %s first holds %s in sample %s",
            graph_value_label(g, t->nonfinite_value), s->nans ? "NaN" : "an infinity",
            t->nonfinite_sample);
}

static bool loads(const struct model *m, struct engine *engine) {
  struct arena scratch = {0};
  struct diag unsaid = {0};
  struct packed_model packed;
  struct model copy = clone_model(m, &scratch);
  struct session *session = NULL;
  bool ok = clone_pack(&packed, &copy, &scratch, &unsaid) == STATUS_OK;
  struct session_options options = {.optimisation = OPTIMISE_BASIC, .threads = 1};
  if (ok) {
    options.initializers = packed.initializers;
    options.n_initializers = packed.n_initializers;
    options.directory = packed.directory;
    options.lean = packed.large;
    ok = session_open(&session, engine, packed.bytes, packed.size, &options, &unsaid) == STATUS_OK;
  }
  session_close(session);
  arena_free(&scratch);
  return ok;
}

// What is to blame that the engine does not load the model: a raise only if it loads without.
static void hint_at_model(const struct run *r, struct engine *engine, struct diag *d) {
  int raised = r->graph->model->raised_to;
  if (d->hint[0])
    return;
  if (!raised || !r->options->given)
    diag_hint(d,
              "Does ONNX Runtime load the model elsewhere? Another version (--ort) may know more.");
  else if (loads(r->options->given, engine))
    diag_hint(d,
              "As it was given, it loads the model; raised to opset %d it does not. A lower "
              "--raise-opset may do, or a newer ONNX Runtime (--ort).",
              raised);
  else
    diag_hint(d,
              "It does not load the model as it was given either, so raising the opset to %d is "
              "not what does it. Another version (--ort) may know more.",
              raised);
}

static enum status run_session(struct run *r, struct engine *engine, struct diag *d) {
  struct session_options options = {
      .optimisation = OPTIMISE_BASIC,
      .threads = r->options->threads,
      .initializers = r->model->initializers,
      .n_initializers = r->model->n_initializers,
      .directory = r->model->directory,
      .lean = r->model->large,
      .probe = &r->probe,
  };
  recorder_action(r->options->recorder, "while it loaded the model");
  enum status status =
      session_open(&r->session, engine, r->model->bytes, r->model->size, &options, d);
  if (status == STATUS_ENGINE)
    hint_at_model(r, engine, d);
  return status == STATUS_OK ? run_steps(r, d) : status;
}

// The options' pairs, which are values of g, in the graph that is run.
static const struct feedback *feedback_pairs(struct run *r, const struct graph *g) {
  const struct feedback *pairs = r->options->feedback;
  size_t n = r->options->n_feedback;
  struct feedback *ran = arena_array(r->scratch, n, sizeof *ran);
  for (size_t i = 0; i < n; i++) {
    ran[i].input = map_get(&r->graph->names, 0, g->values[pairs[i].input].name);
    ran[i].output = map_get(&r->graph->names, 0, g->values[pairs[i].output].name);
  }
  return ran;
}

// By value, and at the end that of a run which has seen nothing.
static const struct record_place *make_places(struct run *r) {
  const struct instrumented *m = r->model;
  size_t n = (size_t)r->graph->n_values;
  struct record_place *places = arena_array(r->scratch, n + 1, sizeof *places);
  const struct record_place *seen = places_make(r->graph, m->values, m->n_observers, r->scratch);
  for (size_t i = 0; i < m->n_observers; i++)
    places[m->values[i]] = seen[i];
  places[n] = seen[m->n_observers];
  return places;
}

// Instruments and runs r->graph, which stands for g.
static enum status run_graph(struct run *r, const struct graph *g, struct engine *engine,
                             struct diag *d) {
  size_t n = (size_t)r->graph->n_values;
  struct instrumented model;
  bool updates = r->options->update_sample > 0;
  TRY(trace_instrument(&model, r->graph, updates ? TRACE_VALUES_AND_UPDATES : TRACE_VALUES,
                       r->scratch, d));
  r->model = &model;
  trace_add_sites(r->trace, model.sites, model.n_sites);
  TRY(feedback_begin(&r->loop, r->trace, r->graph, feedback_pairs(r, g), r->options->n_feedback,
                     r->scratch, d));
  r->probe = (struct probe){.observed = r->trace->stats,
                            .n_observed = n,
                            .sample = r->options->sample,
                            .updates = r->trace->updates,
                            .n_updates = model.n_sites,
                            .update_sample = r->options->update_sample,
                            .recorder = r->options->recorder};
  if (r->probe.recorder)
    r->probe.places = make_places(r);
  r->nan_step = arena_array(r->scratch, n, sizeof *r->nan_step);
  for (size_t v = 0; v < n; v++)
    r->nan_step[v] = -1;
  enum status status = run_session(r, engine, d);
  session_close(r->session);
  feedback_end(&r->loop);
  derive_values(r->trace, r->graph, model.derived);
  return status;
}

// Engines unfold calls: forty functions that each call the next one twice are a million million
// nodes, on which one works until memory ends.
static enum status check_size(const struct graph *g, struct diag *d) {
  enum { UNFOLDED_MOST = 10 * 1000 * 1000 };
  if (g->n_unfolded <= UNFOLDED_MOST)
    return STATUS_OK;
  diag_at(d, g->model->path, NULL, NULL);
  return diag_fail(d, STATUS_MODEL, "its calls of local functions unfold to more than %d nodes",
                   UNFOLDED_MOST);
}

static enum status run_in(struct run *r, struct graph *g, struct engine *engine, struct diag *d) {
  if (g->scopes[0].n_outputs == 0) {
    diag_at(d, g->model->path, NULL, NULL);
    return diag_fail(d, STATUS_MODEL, "the graph has no outputs: there is nothing to compute");
  }
  TRY(check_size(g, d));
  TRY(make_runnable(&r->graph, g, r->scratch, d));
  trace_init(r->trace, r->graph);
  diag_at(d, g->model->path, NULL, NULL);
  TRY(run_graph(r, g, engine, d));
  if (r->graph != g) {
    bring_sites_home(r, g);
    bring_home(r, g);
  }
  report_nonfinite(r, g, d);
  return STATUS_OK;
}

enum status trace_run(struct trace *t, struct graph *g, struct engine *engine,
                      struct samples *samples, const struct trace_options *options, struct arena *a,
                      struct diag *d) {
  struct arena scratch = {0};  // the instrumented model
  size_t steps = options->rounds && options->n_steps ? options->rounds : options->n_steps;
  struct run r = {
      .trace = t,
      .samples = samples,
      .options = options,
      .arena = a,
      .scratch = &scratch,
      .steps = steps,
      .labels = arena_array(a, steps, sizeof *r.labels),
  };
  *t = (struct trace){.nonfinite_value = -1};
  enum status status = run_in(&r, g, engine, d);
  arena_free(&scratch);
  if (status != STATUS_OK) {
    trace_free(t);
    return status;
  }
  t->steps = steps;
  t->weight_steps = options->n_feedback ? steps : 0;
  t->samples = samples_count(samples);
  t->window = options->window ? options->window : 1;
  t->sample = options->sample;
  t->update_sample = options->update_sample;
  t->synthetic = samples_synthetic(samples);
  snprintf(t->engine_version, sizeof t->engine_version, "%s", engine_info(engine)->version);
  samples_digest(samples, t->samples_sha256);
  return STATUS_OK;
}

void trace_drop_sites(struct trace *t, size_t first) {
  for (; t->n_sites > first; t->n_sites--)
    updates_free(&t->updates[t->n_sites - 1]);
}

void trace_free(struct trace *t) {
  for (int v = 0; v < t->n_values; v++)
    stats_free(&t->stats[v]);
  free(t->stats);
  trace_drop_sites(t, 0);
  free(t->updates);
  free(t->sites);
  *t = (struct trace){.nonfinite_value = -1};
}
