// The stages of a run: thin, in the order of the pipeline; the work is in the modules. See run.h.
#include "run.h"

#include "check.h"
#include "clone.h"
#include "external.h"
#include "promote.h"
#include "raise_opset.h"
#include "tensor.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { RANDOM_SAMPLES = 8 };

void run_begin(struct run *r, const struct settings *settings, struct diag *d) {
  *r = (struct run){.settings = settings, .diag = d};
}

void run_close(struct run *r) {
  if (r->has_trace)
    trace_free(&r->trace);
  samples_close(r->samples);
  engine_close(r->engine);
  model_close(&r->model);
  arena_free(&r->round);
  arena_free(&r->arena);
  recorder_close(r->recorder);
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

enum status run_load_model(struct run *r) {
  schema_load(&r->schemas, &r->arena);
  TRY(model_load(&r->model, &r->arena, r->settings->model, NULL, r->diag));
  enum status status = graph_build(&r->graph, &r->model, &r->schemas, &r->arena, r->diag);
  if (status == STATUS_OK)
    status = model_each_tensor(r->model.proto, check_tensor, r);
  if (status != STATUS_OK)
    diag_at(r->diag, r->settings->model, NULL, NULL);
  else
    diag_clear(r->diag);  // what goes wrong from here on is not the model's fault
  return status;
}

// From here on the raised model counts as the source.
static enum status raise_to(struct run *r, int opset) {
  if (!opset)
    return STATUS_OK;
  TRY(raise_opset(&r->model, &r->graph, opset, &r->arena, r->diag));
  return graph_build(&r->graph, &r->model, &r->schemas, &r->arena, r->diag);
}

enum status run_load_policy(struct run *r) {
  const struct settings *s = r->settings;
  TRY(policy_load(&r->policy, s->policy ? s->policy : "fp16", &r->arena, r->diag));
  if (s->by_hand) {
    TRY(overrides_read(&r->by_hand, s->by_hand, &r->arena, r->diag));
    r->policy.by_hand = &r->by_hand;
  }
  if (s->format)
    TRY(policy_override_format(&r->policy, s->format, &r->arena, r->diag));
  if (s->io)
    TRY(policy_override_io(&r->policy, s->io, &r->arena, r->diag));
  for (size_t i = 0; i < s->n_overrides; i += 2) {
    enum node_class class = strcmp(s->overrides[i], "keep") == 0 ? CLASS_KEEP : CLASS_NARROW;
    TRY(policy_override_class(&r->policy, class, s->overrides[i + 1], &r->arena, r->diag));
  }
  if (s->raise_opset)
    TRY(policy_override_opset(&r->policy, s->raise_opset, &r->arena, r->diag));
  return raise_to(r, r->policy.raise_opset);
}

static bool same_file(const char *x, const char *y) {
  struct stat a, b;
  if (!x || !y)
    return false;
  if (stat(x, &a) != 0 || stat(y, &b) != 0)
    return strcmp(x, y) == 0;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum status refuse_output(struct run *r, const char *path, const char *why) {
  diag_at(r->diag, path, NULL, NULL);
  diag_hint(r->diag, "Give another path.");
  return diag_fail(r->diag, STATUS_USAGE, "will not be written: it is %s", why);
}

static bool is_read(const struct settings *s, const char *path) {
  bool read = same_file(path, s->trace) || same_file(path, s->plan) || same_file(path, s->policy) ||
              same_file(path, s->by_hand) || same_file(path, s->verdict);
  for (size_t i = 0; i < s->n_checkpoints && !read; i++)
    read = same_file(path, s->checkpoints[i]);
  return read;
}

enum status run_check_outputs(struct run *r, const char *const *paths, int count) {
  const struct externals *e = r->model.externals;
  for (int i = 0; i < count; i++) {
    if (!paths[i])
      continue;
    if (same_file(paths[i], r->settings->model))
      return refuse_output(r, paths[i], "the file that is read");
    if (is_read(r->settings, paths[i]))
      return refuse_output(r, paths[i], "a file that this run reads");
    for (size_t k = 0; e && k < e->count; k++)
      if (same_file(paths[i],
                    arena_printf(&r->arena, "%s/%s", r->model.directory, e->files[k].location)))
        return refuse_output(r, paths[i], "external data of the model");
    for (int k = 0; k < i; k++)
      if (same_file(paths[i], paths[k]))
        return refuse_output(r, paths[i], "another output of this run too");
  }
  return STATUS_OK;
}

enum status run_open_engine(struct run *r) {
  recorder_action(r->recorder, "while the library was opened");
  TRY(engine_open(&r->engine, r->settings->ort, r->diag));
  recorder_engine(r->recorder, engine_info(r->engine)->version);
  recorder_action(r->recorder, NULL);
  return STATUS_OK;
}

void run_divide(struct run *r, const struct hold_out *rule, size_t count) {
  r->calibration = arena_array(&r->arena, count, sizeof *r->calibration);
  r->held_out = arena_array(&r->arena, count, sizeof *r->held_out);
  r->n_calibration = r->n_held_out = 0;
  size_t tail = (size_t)ceil((double)count * rule->share);
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
  const struct settings *s = r->settings;
  if (s->data) {
    TRY(samples_open(&r->samples, &r->graph, s->data, &r->arena, r->diag));
  } else {
    size_t count = s->random_samples ? s->random_samples : RANDOM_SAMPLES;
    TRY(samples_random(&r->samples, &r->graph, s->random, count, &r->arena, r->diag));
  }
  run_divide(r, rule, samples_count(r->samples));
  return STATUS_OK;
}

// The held-out part is known again only if these are as many samples as the plan was made from.
void run_divide_as_planned(struct run *r) {
  size_t count = samples_count(r->samples);
  if (count == r->plan.samples)
    return;
  r->held_out = arena_array(&r->arena, count, sizeof *r->held_out);
  for (r->n_held_out = 0; r->n_held_out < count; r->n_held_out++)
    r->held_out[r->n_held_out] = r->n_held_out;
  r->held_out_apart = false;
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
  diag_hint(r->diag, "`narrowcast inspect %s` lists inputs and outputs.", r->settings->model);
  return diag_fail(r->diag, STATUS_USAGE,
                   "--feedback %s: must be an input of the model, =, and an output of it", text);
}

enum status run_trace(struct run *r) {
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
      .threads = s->threads,
      .progress = !s->quiet,
      .steps = r->calibration,
      .n_steps = r->n_calibration,
      .n_feedback = s->n_feedback,
      .rounds = s->steps,
      .recorder = r->recorder,
  };
  struct feedback *pairs = arena_array(&r->arena, s->n_feedback, sizeof *pairs);
  for (size_t i = 0; i < s->n_feedback; i++)
    TRY(parse_feedback(r, s->feedback[i], &pairs[i]));
  options.feedback = pairs;
  recorder_stage(r->recorder, "the trace", false);
  enum status status =
      trace_run(&r->trace, &r->graph, r->engine, r->samples, &options, &r->arena, r->diag);
  r->has_trace = true;
  recorder_stage(r->recorder, "what follows the trace", false);
  return status;
}

enum status run_plan(struct run *r) {
  return plan_make(&r->plan, &r->graph, r->has_trace ? &r->trace : NULL, &r->policy, &r->promotions,
                   &r->arena, r->diag);
}

enum status run_read_plan(struct run *r) {
  int opset;
  TRY(plan_read_opset(&opset, r->settings->plan, &r->arena, r->diag));
  TRY(raise_to(r, opset));
  return plan_read(&r->plan, &r->graph, r->settings->plan, &r->arena, r->diag);
}

enum status run_rewrite(struct run *r) {
  arena_free(&r->round);
  r->rewrite = (struct rewrite_report){0};
  r->emitted = clone_model(&r->model, &r->round);
  if (!plan_is_identity(&r->plan)) {
    struct graph changed;
    TRY(graph_build(&changed, &r->emitted, &r->schemas, &r->round, r->diag));
    TRY(rewrite_model(&r->emitted, &changed, &r->plan, &r->rewrite, &r->round, r->diag));
  }
  return graph_build(&r->emitted_graph, &r->emitted, &r->schemas, &r->round, r->diag);
}

// Both models run from here on, the narrow one as the last round of promotion left it.
static void note_stage(struct run *r, const char *stage) {
  const struct promotions *p = &r->promotions;
  if (p->count)
    stage = arena_printf(&r->arena, "%s, round %d of promotion", stage, p->log[p->count - 1].round);
  recorder_stage(r->recorder, stage, true);
}

// What verify measured of each value stands in the plan that is saved.
static void record_errors(struct run *r) {
  const struct verdict *v = &r->verdict;
  double *errors = arena_array(&r->arena, (size_t)v->n_values, sizeof *errors);
  for (int i = 0; i < v->n_values; i++)
    errors[i] = v->values[i].runs > 0 ? compare_relative_l2(&v->values[i]) : NAN;
  r->plan.errors = errors;
  struct measured_claim *measured = arena_array(&r->arena, (size_t)v->n_claims, sizeof *measured);
  for (int i = 0; i < v->n_claims; i++)
    measured[i] = (struct measured_claim){.claim = v->claims[i].claim,
                                          .output = v->claims[i].output,
                                          .sample = v->claims[i].sample,
                                          .value = v->claims[i].measured,
                                          .holds = v->claims[i].holds};
  r->plan.measured = measured;
  r->plan.n_measured = v->n_claims;
}

// Runs both models on the held-out samples.
static enum status judge_claims(struct run *r) {
  struct verify_options options = {
      .threads = r->settings->threads,
      .progress = !r->settings->quiet,
      .steps = r->held_out,
      .n_steps = r->n_held_out,
      .held_out = r->held_out_apart,
      .recorder = r->recorder,
  };
  note_stage(r, "the verification");
  TRY(verify_run(&r->verdict, &r->graph, &r->emitted_graph, &r->plan, r->engine, r->samples,
                 &options, &r->arena, r->diag));
  r->has_verdict = true;
  record_errors(r);
  return STATUS_OK;
}

enum status run_verify(struct run *r) {
  TRY(judge_claims(r));
  recorder_action(r->recorder, "while the result was tried at every optimisation level");
  enum status status =
      verify_loads(&r->verdict, &r->emitted_graph, r->engine, r->samples, r->held_out[0], r->diag);
  recorder_stage(r->recorder, "what follows the verification", false);
  return status;
}

// Runs calibration samples, evenly chosen, to see which tensors introduce errors.
static enum status rehearse(struct run *r, struct verdict *out) {
  size_t wanted = (size_t)r->policy.promotion_samples;
  size_t count = r->n_calibration < wanted ? r->n_calibration : wanted;
  size_t *steps = arena_array(&r->arena, count, sizeof *steps);
  for (size_t i = 0; i < count; i++)
    steps[i] = r->calibration[i * r->n_calibration / count];
  struct verify_options options = {
      .threads = r->settings->threads,
      .progress = !r->settings->quiet,
      .steps = steps,
      .n_steps = count,
      .recorder = r->recorder,
  };
  note_stage(r, "the search for what to promote");
  enum status status = verify_run(out, &r->graph, &r->emitted_graph, &r->plan, r->engine,
                                  r->samples, &options, &r->arena, r->diag);
  recorder_stage(r->recorder, "what follows the search for what to promote", true);
  return status;
}

static enum status plan_and_rewrite(struct run *r) {
  r->has_verdict = false;
  TRY(run_plan(r));
  return run_rewrite(r);
}

// One that is only tried: whether the engine loads it does not count yet.
static enum status try_promotions(struct run *r, const struct promotions *all, size_t count) {
  r->promotions = promote_first(all, count, (size_t)r->graph.n_values, &r->arena);
  TRY(plan_and_rewrite(r));
  return judge_claims(r);
}

// The last round of promotion may have taken more than the claims need. In the rounds that are left
// it is halved, the largest errors first, down to the fewest tensors for which they hold.
static enum status give_back(struct run *r, int rounds) {
  struct promotions all = r->promotions;
  size_t enough = all.count, too_few = promote_before_last_round(&all), tried = enough;
  for (; rounds > 0 && enough - too_few > 1; rounds--) {
    tried = too_few + (enough - too_few) / 2;
    TRY(try_promotions(r, &all, tried));
    *(r->verdict.holds ? &enough : &too_few) = tried;
  }
  if (enough == all.count && tried == enough)
    return STATUS_OK;
  r->promotions = promote_first(&all, enough, (size_t)r->graph.n_values, &r->arena);
  TRY(plan_and_rewrite(r));
  return run_verify(r);
}

// Where promotion ends with nothing narrow, what it was to save is gone: the plan without it is
// refused instead, with what it measured.
static enum status take_back_promotions(struct run *r) {
  r->promotions = (struct promotions){0};
  r->promotion_failed = true;
  TRY(plan_and_rewrite(r));
  return run_verify(r);
}

// The held-out samples say which claims fail and when they hold; what to promote for that, errors
// on calibration samples say.
enum status run_until_claims_hold(struct run *r) {
  TRY(plan_and_rewrite(r));
  if (plan_is_identity(&r->plan) && !r->plan.tf32)
    return STATUS_OK;
  TRY(run_verify(r));
  int round = 1;
  for (; !r->verdict.holds && round <= r->policy.promotion_rounds; round++) {
    struct verdict rehearsal;
    TRY(rehearse(r, &rehearsal));
    if (!promote_choose(&r->promotions, &r->graph, &r->plan, &r->verdict, rehearsal.values, round,
                        &r->arena))
      break;
    TRY(plan_and_rewrite(r));
    if (plan_is_identity(&r->plan))
      return take_back_promotions(r);
    TRY(run_verify(r));
  }
  bool promoted = r->verdict.holds && r->promotions.count > 0;
  return promoted ? give_back(r, r->policy.promotion_rounds + 1 - round) : STATUS_OK;
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

enum status run_save(struct run *r, const char *path) {
  if (plan_is_identity(&r->plan))
    return model_copy(&r->model, path, r->diag);
  TRY(model_save(&r->emitted, path, r->diag));
  struct arena scratch = {0};
  struct model back = {0};
  struct graph graph;
  enum status status = model_load(&back, &scratch, path, NULL, r->diag);
  if (status == STATUS_OK)
    status = graph_build(&graph, &back, &r->schemas, &scratch, r->diag);
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
