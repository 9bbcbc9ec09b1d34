// The stages of a run: thin, in the order of the pipeline; the work is in the modules. See run.h.
#include "run.h"

#include "check.h"
#include "checkpoints.h"
#include "clock.h"
#include "clone.h"
#include "file.h"
#include "invariants.h"
#include "json.h"
#include "nearest.h"
#include "plan_engine.h"
#include "proto.h"
#include "raise_opset.h"
#include "spool.h"
#include "tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  RANDOM_SAMPLES = 8,
  IN_MEMORY = 32 * 1024 * 1024,  // bytes of new or copied weights; more go to a temporary file
};

const char *const run_stage_names[STAGE_COUNT] = {
    [STAGE_READ] = "reading",      [STAGE_ENGINE] = "engine", [STAGE_SAMPLES] = "samples",
    [STAGE_TRACE] = "trace",       [STAGE_PLAN] = "plan",     [STAGE_VERIFY] = "verify",
    [STAGE_PROMOTE] = "promotion", [STAGE_LOADS] = "loads",   [STAGE_WRITE] = "writing",
};

void run_begin(struct run *r, const struct settings *settings, struct diag *d) {
  *r = (struct run){.settings = settings, .diag = d, .stage_since = clock_seconds()};
}

enum run_stage run_enter(struct run *r, enum run_stage stage) {
  enum run_stage before = r->stage;
  double now = clock_seconds();
  if (before != STAGE_NONE)
    r->seconds[before] += now - r->stage_since;
  r->stage_since = now;
  r->stage = stage;
  return before;
}

void run_close(struct run *r) {
  if (r->has_trace)
    trace_free(&r->trace);
  samples_close(r->samples);
  engine_close(r->engine);
  model_close(&r->model);
  arena_free(&r->round);
  spool_free(r->spool);
  spool_free(r->copies);
  arena_free(&r->arena);
  recorder_close(r->recorder);
}

// For large temporary files: TMPDIR, or beside the result, for which there must be room anyway, or
// the folder that lies in no memory on any system.
static const char *temporary_folder(struct run *r) {
  const char *named = getenv("TMPDIR");
  if (named && named[0])
    return named;
  const char *path = r->settings->output;
  if (!path)
    return "/var/tmp";
  size_t length = (size_t)(file_base(path) - path);
  return length ? arena_printf(&r->arena, "%.*s", (int)length, path) : ".";
}

// Reads each constant once, so that one whose data is missing or has the wrong size is named here
// and not by an engine later.
static enum status check_tensor(void *context, Onnx__TensorProto *t) {
  struct run *r = context;
  struct arena scratch = {0};
  struct tensor view;
  enum status status = tensor_read(&r->model, t, &scratch, &view, r->diag);
  arena_free(&scratch);
  return status;
}

static void unload_model(struct run *r) {
  model_close(&r->model);
  r->graph = (struct graph){0};
  spool_free(r->copies);
  r->copies = NULL;
}

enum status run_load_model(struct run *r) {
  run_enter(r, STAGE_READ);
  schema_load(&r->schemas, &r->arena);
  const struct settings *given = r->settings;
  enum status status =
      model_load(&r->model, &r->arena, given->model, &given->model_limits, r->diag);
  if (status == STATUS_OK)
    status = graph_build(&r->graph, &r->model, &r->schemas, &r->arena, r->diag);
  if (status == STATUS_OK)
    status = invariants_free(&r->graph, &r->model, &r->arena, r->diag);
  r->source_nodes = r->graph.n_nodes;
  r->threads = given->threads;
  if (status == STATUS_OK && plan_engine_race(&r->graph) >= 0)
    r->threads = 1;
  if (status == STATUS_OK)
    status = model_each_tensor(r->model.proto, check_tensor, r);
  if (status != STATUS_OK)
    diag_at(r->diag, given->model, NULL, NULL);
  r->copies = spool_new(temporary_folder(r), IN_MEMORY);
  r->model.copies = r->copies;
  if (status == STATUS_OK)
    diag_clear(r->diag);  // what goes wrong from here on is not the model's fault
  else
    unload_model(r);
  if (status == STATUS_MODEL && !r->diag->hint[0])
    diag_hint(r->diag, "The file itself is at fault: correct the model, or export it again.");
  return status;
}

// After an error, which stays: the message is again as it was.
static void undo_raise(struct run *r, const struct model *before) {
  struct diag error = *r->diag;
  r->model.proto = before->proto;
  r->model.raised_to = before->raised_to;
  graph_build_again(&r->graph, &r->model, &r->schemas, &r->arena, r->diag);  // as once before
  *r->diag = error;
}

// From here on the raised model counts as the source. `before` takes what undo_raise needs.
static enum status raise_to(struct run *r, int opset, struct model *before) {
  *before = r->model;
  if (!opset)
    return STATUS_OK;
  *before = clone_model(&r->model, &r->arena);
  if (!r->model.raised_to)
    r->given = *before;
  enum status status = raise_opset(&r->model, &r->graph, opset, &r->arena, r->diag);
  if (status == STATUS_OK)
    status = graph_build_again(&r->graph, &r->model, &r->schemas, &r->arena, r->diag);
  if (status != STATUS_OK)
    undo_raise(r, before);
  return status;
}

enum status run_load_policy(struct run *r) {
  run_enter(r, STAGE_READ);
  const struct settings *s = r->settings;
  TRY(policy_load(&r->policy, s->policy ? s->policy : "fp16", &r->arena, r->diag));
  if (s->overrides) {
    TRY(overrides_read(&r->overrides, s->overrides, &r->arena, r->diag));
    r->policy.overrides = &r->overrides;
  }
  if (s->format)
    TRY(policy_adjust_format(&r->policy, s->format, &r->arena, r->diag));
  if (s->io)
    TRY(policy_adjust_io(&r->policy, s->io, &r->arena, r->diag));
  for (size_t i = 0; i < s->n_adjustments; i++)
    TRY(policy_adjust_class(&r->policy, s->adjustments[i].class, s->adjustments[i].glob, &r->arena,
                            r->diag));
  if (s->raise_opset)
    TRY(policy_adjust_opset(&r->policy, s->raise_opset, &r->arena, r->diag));
  struct model before;
  return raise_to(r, r->policy.raise_opset, &before);
}

static void warn_of_race(const struct run *r) {
  int n = r->threads == r->settings->threads ? -1 : plan_engine_race(&r->graph);
  if (n >= 0)
    diag_warn(
        r->diag,
        "%s: ONNX Runtime updates the same elements from several threads in a ScatterND with a "
        "reduction, and loses some where indices repeat: one thread is used",
        graph_node_label(&r->graph, n));
}

enum status run_open_engine(struct run *r) {
  run_enter(r, STAGE_ENGINE);
  warn_of_race(r);
  recorder_action(r->recorder, "while the library was opened");
  TRY(engine_open(&r->engine, r->settings->ort, r->diag));
  recorder_engine(r->recorder, engine_info(r->engine)->version);
  recorder_action(r->recorder, NULL);
  return STATUS_OK;
}

// Divides `count` samples; see struct run. Order is kept. Of two or more, at least one calibrates.
static void divide(struct run *r, const struct hold_out *rule, size_t count) {
  r->calibration = arena_array(&r->arena, count, sizeof *r->calibration);
  r->held_out = arena_array(&r->arena, count, sizeof *r->held_out);
  r->n_calibration = r->n_held_out = 0;
  size_t tail = (size_t)ceil((double)count * rule->share);
  tail = tail >= count ? count - 1 : tail;
  tail = tail < 1 ? 1 : tail;
  for (size_t i = 0; i < count; i++) {
    bool out = rule->every ? (i + 1) % (size_t)rule->every == 0 : i >= count - tail;
    if (rule->every && count < (size_t)rule->every)
      out = i + 1 == count;  // at least one
    if (out && count > 1)
      r->held_out[r->n_held_out++] = i;
    else
      r->calibration[r->n_calibration++] = i;
  }
  r->held_out_apart = r->n_held_out > 0;
  if (!r->held_out_apart)
    for (size_t i = 0; i < count; i++)
      r->held_out[r->n_held_out++] = i;
}

enum status run_open_samples(struct run *r, const struct hold_out *rule) {
  run_enter(r, STAGE_SAMPLES);
  const struct settings *s = r->settings;
  if (s->data) {
    TRY(samples_open(&r->samples, &r->graph, s->data, &r->arena, r->diag));
    TRY(run_check_samples(r));
  } else {
    size_t count = s->random_samples ? s->random_samples : RANDOM_SAMPLES;
    TRY(samples_random(&r->samples, &r->graph, s->random, count, &r->arena, r->diag));
  }
  divide(r, rule, samples_count(r->samples));
  return STATUS_OK;
}

// Whether what calibrates now is what was traced in so many steps: of a training, these may have
// been fewer than there are samples.
static enum status calibrates_as(struct run *r, size_t steps, const char *traced, bool *same) {
  size_t count = r->n_calibration < steps ? r->n_calibration : steps;
  char sha256[65];
  for (size_t i = 0; i < count; i++) {
    struct sample sample = {0};
    enum status status = samples_read(r->samples, r->calibration[i], &sample, r->diag);
    sample_free(&sample);
    TRY(status);
  }
  samples_digest(r->samples, sha256);
  *same = strcmp(sha256, traced) == 0;
  return STATUS_OK;
}

enum status run_divide_as_planned(struct run *r) {
  size_t count = samples_count(r->samples);
  bool same = count == r->plan.samples;
  if (same)
    TRY(calibrates_as(r, r->plan.steps, r->plan.samples_sha256, &same));
  if (same)
    return STATUS_OK;
  if (count == r->plan.samples)
    diag_warn(r->diag, "%s not those that the plan was made from: all %zu are used",
              r->settings->data ? "these samples are" : "the samples are made up, and", count);
  r->held_out = arena_array(&r->arena, count, sizeof *r->held_out);
  for (r->n_held_out = 0; r->n_held_out < count; r->n_held_out++)
    r->held_out[r->n_held_out] = r->n_held_out;
  r->held_out_apart = false;
  return STATUS_OK;
}

enum status run_compare_with_trace(struct run *r) {
  bool same = samples_count(r->samples) == r->trace.samples;
  if (!r->settings->trace)
    return STATUS_OK;
  if (same)
    TRY(calibrates_as(r, r->trace.steps, r->trace.samples_sha256, &same));
  if (same)
    return STATUS_OK;
  diag_warn(r->diag, "the trace is of other samples: those that judge may be among them");
  r->held_out_apart = false;
  return STATUS_OK;
}

// The input or output of the model that is meant by the name, or "".
static const char *nearest_of(struct run *r, const char *name, bool outputs) {
  const struct graph *g = &r->graph;
  const char **names = arena_array(&r->arena, (size_t)g->n_values + 1, sizeof *names);
  size_t count = 0;
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].scope == 0 &&
        (outputs ? g->values[v].is_output : g->values[v].origin == ORIGIN_INPUT))
      names[count++] = g->values[v].name;
  const char *near = nearest_name(name, names);
  return near ? near : "";
}

// Finds the two values of "weight=updated weight". A name may itself hold a '='.
static enum status parse_feedback(struct run *r, const char *text, struct feedback *pair) {
  const struct graph *g = &r->graph;
  for (const char *at = strchr(text, '='); at; at = strchr(at + 1, '=')) {
    const char *name = arena_printf(&r->arena, "%.*s", (int)(at - text), text);
    pair->input = map_get(&g->names, 0, name);
    pair->output = map_get(&g->names, 0, at + 1);
    if (pair->input >= 0 && g->values[pair->input].origin == ORIGIN_INPUT && pair->output >= 0 &&
        g->values[pair->output].is_output)
      return STATUS_OK;
  }
  const char *equals = text + strcspn(text, "=");
  const char *input = arena_printf(&r->arena, "%.*s", (int)(equals - text), text);
  const char *near = nearest_of(r, input, false);
  if (strcmp(near, input) == 0 && *equals)
    near = nearest_of(r, equals + 1, true);
  diag_hint(r->diag, "%s%s%s`narrowcast inspect %s` lists inputs and outputs.",
            near[0] ? "Did you mean " : "", near, near[0] ? "? " : "", r->settings->model);
  return diag_fail(r->diag, STATUS_USAGE,
                   "--feedback %s: must be an input of the model, =, and an output of it", text);
}

// One weight has one next value.
static enum status parse_feedbacks(struct run *r, struct feedback *pairs) {
  const struct settings *s = r->settings;
  struct map seen = {.arena = &r->arena};
  for (size_t i = 0; i < s->n_feedback; i++) {
    TRY(parse_feedback(r, s->feedback[i], &pairs[i]));
    const char *weight = r->graph.values[pairs[i].input].name;
    int *first = map_slot(&seen, 0, weight);
    if (*first >= 0)
      return diag_fail(r->diag, STATUS_USAGE, "--feedback %s: %s is fed back already, by %s",
                       s->feedback[i], weight, s->feedback[*first]);
    *first = (int)i;
  }
  return STATUS_OK;
}

enum status run_check_feedback(struct run *r) {
  return parse_feedbacks(r,
                         arena_array(&r->arena, r->settings->n_feedback, sizeof(struct feedback)));
}

enum status run_trace(struct run *r) {
  run_enter(r, STAGE_TRACE);
  const struct settings *s = r->settings;
  if (s->trace) {
    TRY(trace_read(&r->trace, &r->graph, s->trace, &r->arena, r->diag));
    r->has_trace = true;
    return STATUS_OK;
  }
  struct trace_options options = {
      .window = (size_t)r->policy.window,
      .sample = (size_t)r->policy.sample,
      .update_sample = (size_t)r->policy.update_sample,
      .threads = r->threads,
      .progress = !s->quiet,
      .steps = r->calibration,
      .n_steps = r->n_calibration,
      .n_feedback = s->n_feedback,
      .rounds = s->steps,
      .recorder = r->recorder,
      .given = r->model.raised_to ? &r->given : NULL,
  };
  struct feedback *pairs = arena_array(&r->arena, s->n_feedback, sizeof *pairs);
  TRY(parse_feedbacks(r, pairs));
  options.feedback = pairs;
  recorder_stage(r->recorder, "the trace", false);
  enum status status =
      trace_run(&r->trace, &r->graph, r->engine, r->samples, &options, &r->arena, r->diag);
  r->has_trace = status == STATUS_OK;
  if (!r->has_trace)
    trace_free(&r->trace);
  recorder_stage(r->recorder, "what follows the trace", false);
  return status;
}

enum status run_trace_checkpoints(struct run *r) {
  const struct settings *s = r->settings;
  run_enter(r, STAGE_TRACE);
  bool alone = !r->has_trace;
  if (alone) {
    trace_init(&r->trace, &r->graph);
    r->trace.window = (size_t)r->policy.window;
  }
  enum status status = checkpoints_trace(&r->trace, &r->graph, s->checkpoints, s->n_checkpoints,
                                         (size_t)r->policy.window, &s->model_limits, r->diag);
  if (status != STATUS_OK && alone)
    trace_free(&r->trace);
  r->has_trace = status == STATUS_OK || !alone;
  return status;
}

static void enter_unless_promoting(struct run *r, enum run_stage stage) {
  if (r->stage != STAGE_PROMOTE)
    run_enter(r, stage);
}

enum status run_plan(struct run *r) {
  enter_unless_promoting(r, STAGE_PLAN);
  return plan_make(&r->plan, &r->graph, r->has_trace ? &r->trace : NULL, &r->policy, &r->promotions,
                   &r->arena, r->diag);
}

enum status run_read_plan(struct run *r) {
  run_enter(r, STAGE_READ);
  struct arena scratch = {0};
  struct plan_file file;
  struct plan plan;
  struct model before;
  enum status status = plan_open(&file, r->settings->plan, &scratch, r->diag);
  if (status == STATUS_OK)
    status = raise_to(r, file.opset_raised_to, &before);
  if (status == STATUS_OK) {
    status = plan_read(&plan, &r->graph, &file, &r->arena, r->diag);
    if (status == STATUS_OK)
      r->plan = plan;
    else if (before.proto != r->model.proto)
      undo_raise(r, &before);
  }
  arena_free(&scratch);
  return status;
}

enum status run_rewrite(struct run *r) {
  enter_unless_promoting(r, STAGE_PLAN);
  arena_free(&r->round);
  spool_free(r->spool);
  r->spool = spool_new(temporary_folder(r), IN_MEMORY);
  r->emitted = clone_model(&r->model, &r->round);
  r->emitted.spool = r->spool;
  r->emitted_graph = graph_of_clone(&r->graph, &r->emitted, &r->round);
  if (!plan_is_identity(&r->plan))
    return rewrite_model(&r->emitted, &r->emitted_graph, &r->plan, REWRITE_CHECK_RESULT,
                         &r->rewrite, &r->round, r->diag);
  rewrite_nothing(&r->emitted_graph, &r->plan, &r->rewrite);
  return STATUS_OK;
}

// The written file must say what the model in memory says: same nodes, same element types.
static enum status compare_read_back(struct run *r, const struct graph *back, const char *path) {
  const struct graph *meant = &r->emitted_graph;
  bool same = back->n_nodes == meant->n_nodes && back->n_values == meant->n_values;
  for (int v = 0; same && v < meant->n_values; v++)
    same = back->values[v].type.elem_type == meant->values[v].type.elem_type &&
           strcmp(back->values[v].name, meant->values[v].name) == 0;
  if (same)
    return STATUS_OK;
  diag_at(r->diag, path, NULL, NULL);
  return diag_fail(r->diag, STATUS_IO, "the file read back differs from what was written");
}

// What is saved although it was refused says so itself: the summary is soon lost.
static void note_refusal(struct run *r) {
  Onnx__ModelProto *m = r->emitted.proto;
  const char *why =
      r->verdict.holds ? "ONNX Runtime does not load or run it" : "a claim does not hold";
  for (size_t i = 0; i < m->n_metadata_props; i++)
    if (strcmp(text_of(m->metadata_props[i]->key), "narrowcast") == 0 &&
        !strstr(text_of(m->metadata_props[i]->value), "; REFUSED: "))
      m->metadata_props[i] =
          proto_entry(&r->arena, "narrowcast",
                      arena_printf(&r->arena, "%s; REFUSED: %s", m->metadata_props[i]->value, why));
}

enum status run_save(struct run *r, const char *path) {
  run_enter(r, STAGE_WRITE);
  if (plan_is_identity(&r->plan) && r->settings->external_data == EXTERNAL_AUTO)
    return model_copy(&r->model, path, r->diag);
  if (r->has_verdict && !verdict_holds(&r->verdict))
    note_refusal(r);
  TRY(model_save_as(&r->emitted, path, r->settings->external_data, r->diag));
  struct arena scratch = {0};
  struct model back = {0};
  struct graph graph;
  enum status status = model_load(&back, &scratch, path, &r->settings->model_limits, r->diag);
  if (status == STATUS_OK)
    status = graph_build_again(&graph, &back, &r->schemas, &scratch, r->diag);
  if (status == STATUS_OK)
    status = compare_read_back(r, &graph, path);
  model_close(&back);
  arena_free(&scratch);
  return status;
}

const char *run_default_output(struct run *r) {
  const char *path = r->settings->model;
  size_t length = strlen(path);
  static const char extension[] = ".onnx";
  size_t tail = sizeof extension - 1;
  if (length > tail && strcmp(path + length - tail, extension) == 0)
    length -= tail;
  return arena_printf(&r->arena, "%.*s.%s.onnx", (int)length, path,
                      r->settings->format   ? r->settings->format
                      : r->plan.policy_name ? r->plan.policy_name
                                            : r->policy.name);
}
