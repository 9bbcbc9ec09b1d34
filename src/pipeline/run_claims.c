// The stages that judge a plan by its claims, and those that promote until they hold. See run.h.
#include "promote.h"
#include "run.h"

#include <math.h>
#include <string.h>

// Both models run from here on, the narrow one as the last round of promotion left it.
static void note_stage(struct run *r, const char *stage) {
  const struct promotions *p = &r->promotions;
  if (p->count)
    stage = arena_printf(&r->arena, "%s, round %d of promotion", stage, p->log[p->count - 1].round);
  recorder_stage(r->recorder, stage, true);
}

// Of outputs that no claim judged, what was seen is a limit of what is claimed.
static void record_unjudged(struct run *r) {
  const struct verdict *v = &r->verdict;
  struct unjudged_output *list = arena_array(&r->arena, (size_t)v->n_outputs + 1, sizeof *list);
  int count = 0;
  for (int k = 0; k < v->n_outputs; k++) {
    const struct verdict_output *output = &v->outputs[k];
    if (verdict_is_judged(v, k))
      continue;
    struct unjudged_output *o = &list[count++];
    *o = (struct unjudged_output){.name = output->name, .relative_l2 = NAN};
    bool exact = verdict_is_exact(output, &r->graph);
    for (int set = 0; set < SAMPLE_SETS; set++) {
      const struct compare *c = &output->on[set];
      o->elements += exact ? c->rows : 0;
      o->different += exact ? c->rows - c->rows_agree : 0;
      if (!exact && c->count)
        o->relative_l2 = fmax(o->relative_l2, compare_relative_l2(c));
    }
  }
  r->plan.unjudged = list;
  r->plan.n_unjudged = count;
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
  r->plan.held_out_empty = v->held_out ? v->empty[SET_HELD_OUT] : 0;
  record_unjudged(r);
}

// Those that calibrate, of which a training may have taken fewer than there are. What judges though
// it is not held out has calibrated, or may have: it is not run twice.
static size_t calibration_to_judge(const struct run *r) {
  size_t traced = r->has_trace ? r->trace.steps : r->plan.steps;
  if (!r->held_out_apart)
    return 0;
  return r->n_calibration < traced ? r->n_calibration : traced;
}

// Runs both models on the held-out samples, and on those that calibrate.
static enum status judge_run(struct run *r) {
  struct verify_options options = {
      .threads = r->threads,
      .progress = !r->settings->quiet,
      .steps = r->held_out,
      .n_steps = r->n_held_out,
      .held_out = r->held_out_apart,
      .calibration = r->calibration,
      .n_calibration = calibration_to_judge(r),
      .recorder = r->recorder,
      .reference = &r->reference,
  };
  note_stage(r, "the verification");
  TRY(verify_run(&r->verdict, &r->graph, &r->emitted_graph, &r->plan, r->engine, r->samples,
                 &options, &r->arena, r->diag));
  r->has_verdict = true;
  record_errors(r);
  return STATUS_OK;
}

// A trial runs what the verification ran, or a part of it. What takes a minute more than a hundred
// times as long hangs.
static double trial_seconds(const struct run *r) {
  return 60 + 100 * r->verdict.seconds;
}

// What was judged by emulation, in the engine itself.
static enum status try_result(struct run *r) {
  // The model of tf32 is the source: what the setting does, no CPU shows.
  struct trial trial = {
      .steps = r->held_out,
      .n_steps = r->n_held_out,
      .threads = r->threads,
      .source = &r->graph,
      .reference = r->plan.tf32 ? NULL : &r->reference,
      .plan = &r->plan,
      .given = r->model.raised_to ? &r->given : &r->model,
      .raised = r->model.raised_to ? &r->model : NULL,
      .in_process = r->settings->in_process,
      .seconds = trial_seconds(r),
  };
  enum run_stage before = run_enter(r, STAGE_LOADS);
  recorder_action(r->recorder, "while the result was tried at every optimisation level");
  enum status status =
      verify_loads(&r->verdict, &r->emitted_graph, r->engine, r->samples, &trial, r->diag);
  recorder_stage(r->recorder, "what follows the verification", false);
  run_enter(r, before);
  return status;
}

enum status run_verify(struct run *r) {
  run_enter(r, STAGE_VERIFY);
  TRY(judge_run(r));
  return try_result(r);
}

// Whether the claims were judged on these very samples, and on no others.
static bool judged_on(const struct run *r, const size_t *steps, size_t count) {
  return count == r->n_held_out && memcmp(steps, r->held_out, count * sizeof *steps) == 0;
}

// Runs calibration samples, evenly chosen, to see which tensors introduce errors: by value. Where
// the claims were judged on the same samples, that was seen already.
static enum status rehearse(struct run *r, const struct compare **errors) {
  size_t wanted = (size_t)r->policy.promotion_samples;
  size_t count = r->n_calibration < wanted ? r->n_calibration : wanted;
  size_t *steps = arena_array(&r->arena, count, sizeof *steps);
  for (size_t i = 0; i < count; i++)
    steps[i] = r->calibration[i * r->n_calibration / count];
  bool all_calibrated = count == r->n_calibration && r->verdict.calibration_samples == count;
  *errors = all_calibrated ? r->verdict.calibration_values : r->verdict.values;
  if ((all_calibrated && *errors) || judged_on(r, steps, count))
    return STATUS_OK;
  struct verdict rehearsal;
  struct verify_options options = {
      .threads = r->threads,
      .progress = !r->settings->quiet,
      .steps = steps,
      .n_steps = count,
      .recorder = r->recorder,
  };
  note_stage(r, "the search for what to promote");
  enum status status = verify_run(&rehearsal, &r->graph, &r->emitted_graph, &r->plan, r->engine,
                                  r->samples, &options, &r->arena, r->diag);
  *errors = rehearsal.values;
  recorder_stage(r->recorder, "what follows the search for what to promote", true);
  return status;
}

static enum status plan_and_rewrite(struct run *r) {
  r->has_verdict = false;
  TRY(run_plan(r));
  return run_rewrite(r);
}

// With other promotions. What there is to warn of, the first plan has said.
static enum status plan_again(struct run *r) {
  void (*warn)(void *, const char *) = r->diag->warn;
  r->diag->warn = NULL;
  enum status status = plan_and_rewrite(r);
  r->diag->warn = warn;
  return status;
}

// What a round came to. Its plan is made again of its promotions, but not judged again.
struct round {
  struct promotions promotions;
  struct verdict verdict;
};

static struct round round_of(const struct run *r) {
  return (struct round){r->promotions, r->verdict};
}

static enum status return_to(struct run *r, const struct round *round) {
  r->promotions = round->promotions;
  TRY(plan_again(r));
  r->verdict = round->verdict;
  r->has_verdict = true;
  record_errors(r);
  return STATUS_OK;
}

static enum status try_promotions(struct run *r, const struct promotions *all, size_t count) {
  r->promotions = promote_first(all, count, (size_t)r->graph.n_values, &r->arena);
  TRY(plan_again(r));
  return judge_run(r);
}

// The last round of promotion may have taken more than the claims need. In the rounds that are left
// it is halved, the largest errors first, down to the fewest tensors for which they hold.
static enum status give_back(struct run *r, int rounds) {
  struct round fewest = round_of(r);
  struct promotions all = r->promotions;
  size_t enough = all.count, too_few = promote_before_last_round(&all), tried = enough;
  for (; rounds > 0 && enough - too_few > 1; rounds--) {
    tried = too_few + (enough - too_few) / 2;
    TRY(try_promotions(r, &all, tried));
    if (r->verdict.holds)
      fewest = round_of(r);
    *(r->verdict.holds ? &enough : &too_few) = tried;
  }
  return tried == enough ? STATUS_OK : return_to(r, &fewest);
}

// How many of `all` to try next, between too few and too many: as long as only the former is
// known, twice as many as the last time.
static size_t next_try(const struct promotions *all, size_t too_few, size_t too_many, int rounds) {
  if (too_many <= all->count)
    return too_few + (too_many - too_few) / 2;
  size_t least = rounds > 2 ? all->count >> (rounds - 2) : all->count / 2;
  size_t tried = too_few > 0 ? 2 * too_few : least > 0 ? least : 1;
  return tried < all->count ? tried : too_few;
}

// What holds and is modelled to be fastest so far.
struct best {
  struct round round;
  double seconds;  // INFINITY: nothing holds
};

// Promotes, of `all`, as few from the front as the claims need.
static enum status promote_from_inputs(struct run *r, const struct promotions *all,
                                       struct best *best) {
  size_t too_few = 0, too_many = all->count + 1;
  for (int left = r->policy.promotion_rounds; left > 0;) {
    size_t tried = next_try(all, too_few, too_many, r->policy.promotion_rounds);
    if (tried == too_few)
      break;
    r->promotions = promote_first(all, tried, (size_t)r->graph.n_values, &r->arena);
    TRY(plan_again(r));
    if (plan_is_identity(&r->plan) || r->plan.costs.time_after >= best->seconds) {
      too_many = tried;
      continue;
    }
    TRY(judge_run(r));
    left--;
    *(r->verdict.holds ? &too_many : &too_few) = tried;
    if (r->verdict.holds)
      *best = (struct best){round_of(r), r->plan.costs.time_after};
  }
  return STATUS_OK;
}

// The claims, on all samples, say what fails and when it holds; what to promote for that, errors on
// calibration samples say. Ends early where it can only become slower than the best. Where it ends
// with nothing narrow, what promotion was to save is gone: the plan without it is refused instead,
// with what it measured.
static enum status promote_largest_errors(struct run *r, const struct round *unpromoted,
                                          const struct best *best) {
  int round = 1;
  for (; !r->verdict.holds && round <= r->policy.promotion_rounds; round++) {
    const struct compare *errors;
    TRY(rehearse(r, &errors));
    if (!promote_choose(&r->promotions, &r->graph, &r->plan, &r->verdict, errors, round, &r->arena))
      break;
    TRY(plan_again(r));
    if (r->plan.costs.time_after >= best->seconds)
      return STATUS_OK;
    if (plan_is_identity(&r->plan)) {
      r->promotion_failed = true;
      return return_to(r, unpromoted);
    }
    TRY(judge_run(r));
  }
  bool promoted = r->verdict.holds && r->promotions.count > 0;
  return promoted ? give_back(r, r->policy.promotion_rounds + 1 - round) : STATUS_OK;
}

// Two ways to promote: all that is computed first, since its rounding passes through the rest of
// the network and small errors add up; and what has the largest error of its own. Of the results
// that hold, the one that is modelled to be faster is taken.
static enum status promote_until_claims_hold(struct run *r) {
  run_enter(r, STAGE_PROMOTE);
  struct round unpromoted = round_of(r);
  struct best best = {.seconds = INFINITY};
  struct promotions all = promote_all(&r->graph, &r->plan, &r->verdict, &r->arena);
  TRY(promote_from_inputs(r, &all, &best));

  TRY(return_to(r, &unpromoted));
  TRY(promote_largest_errors(r, &unpromoted, &best));
  if (isinf(best.seconds) ||
      (r->has_verdict && r->verdict.holds && r->plan.costs.time_after < best.seconds))
    return STATUS_OK;
  r->promotion_failed = false;
  return return_to(r, &best.round);
}

// Whether the engine loads a result does not count before it is the last.
enum status run_until_claims_hold(struct run *r) {
  TRY(run_compare_with_trace(r));
  TRY(plan_and_rewrite(r));
  if (plan_is_identity(&r->plan) && !r->plan.tf32)
    return STATUS_OK;
  run_enter(r, STAGE_VERIFY);
  TRY(judge_run(r));
  if (!r->verdict.holds && r->policy.promotion_rounds > 0)
    TRY(promote_until_claims_hold(r));
  return try_result(r);
}
