// batch: a whole zoo of models, and the joining of its shards.
#include "batch.h"
#include "cmd.h"
#include "summary_zoo.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status report(struct run *r, struct result *const *results, size_t count,
                          const char *out) {
  TRY(summary_zoo_write(results, count, out, &r->arena, r->diag));
  struct totals totals;
  summary_zoo_add_up(&totals, results, count, &r->arena);
  if (r->settings->json)
    summary_zoo_json(results, count, &totals, stdout);
  else
    summary_zoo_text(results, count, &totals, out, stdout);
  return STATUS_OK;
}

static enum status merge(struct run *r) {
  const struct settings *s = r->settings;
  if (s->n_arguments < 2)
    return diag_fail(r->diag, STATUS_USAGE, "batch merge: OUT... is missing");
  struct result **results;
  size_t count;
  TRY(batch_merge(&results, &count, s->arguments + 1, s->n_arguments - 1, s->output, &r->arena,
                  r->diag));
  TRY(report(r, results, count, s->output));
  return summary_zoo_status(results, count);
}

static void append(struct run *r, const char ***words, size_t *count, const char *option,
                   const char *value) {
  size_t capacity = *count;
  *words = arena_grow(&r->arena, *words, &capacity, *count + 2, sizeof **words);
  (*words)[(*count)++] = option;
  (*words)[(*count)++] = value;
}

// What would be wrong for each model.
static enum status check_options(struct run *r) {
  const struct settings *s = r->settings;
  struct policy any = {0};
  if (s->format)
    TRY(policy_adjust_format(&any, s->format, &r->arena, r->diag));
  return s->io ? policy_adjust_io(&any, s->io, &r->arena, r->diag) : STATUS_OK;
}

// The options that `convert` gets as they are.
static void pass_on(struct run *r, struct batch_options *o) {
  const struct settings *s = r->settings;
  if (s->format)
    append(r, &o->arguments, &o->n_arguments, "--format", s->format);
  if (s->io)
    append(r, &o->arguments, &o->n_arguments, "--io", s->io);
  if (s->raise_opset)
    append(r, &o->arguments, &o->n_arguments, "--raise-opset",
           arena_printf(&r->arena, "%d", s->raise_opset));
  for (size_t i = 0; i < s->n_adjustments; i++)
    append(r, &o->arguments, &o->n_arguments,
           arena_printf(&r->arena, "--%s", node_class_name(s->adjustments[i].class)),
           s->adjustments[i].glob);
  if (s->external_data)
    append(r, &o->arguments, &o->n_arguments, "--external-data",
           external_data_names[s->external_data]);
  for (size_t i = 0; i < s->n_limits_given; i++)
    append(r, &o->arguments, &o->n_arguments, "--model-limit", s->limits_given[i]);
  if (s->has_random)
    append(r, &o->made_up, &o->n_made_up, "--random",
           arena_printf(&r->arena, "%llu", (unsigned long long)s->random));
  if (s->random_samples)
    append(r, &o->made_up, &o->n_made_up, "--samples",
           arena_printf(&r->arena, "%zu", s->random_samples));
}

// A file by what is in it, like the models' own: so the key of each result depends on it.
static void give_overrides(struct zoo *zoo, const char *file) {
  for (size_t i = 0; i < zoo->count; i++)
    if (!zoo->models[i].overrides)
      zoo->models[i].overrides = file;
}

// The summary may not be written over the list, or over what else this run reads.
static enum status check_summary(struct run *r, const char *out) {
  const char *paths[SUMMARY_ZOO_FILES];
  for (int i = 0; i < SUMMARY_ZOO_FILES; i++)
    paths[i] = arena_printf(&r->arena, "%s/%s", out, summary_zoo_files[i]);
  return run_check_outputs(r, paths, SUMMARY_ZOO_FILES);
}

enum status command_batch(struct run *r) {
  const struct settings *s = r->settings;
  if (strcmp(s->model, "merge") == 0)
    return merge(r);
  if (s->n_arguments > 1)
    return diag_fail(r->diag, STATUS_USAGE, "batch: more than one DIR or LIST given");
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  struct batch_options o = {
      .out = s->output,
      .policy = s->policy ? s->policy : "fp16",
      .engine = s->ort,
      .jobs = s->jobs                ? s->jobs
              : cores < 1            ? 1
              : cores > PROCESS_MOST ? PROCESS_MOST
                                     : (int)cores,
      .threads = s->threads ? s->threads : 1,
      .model_limits = &s->model_limits,
      .limits = {s->timeout, (int)(s->memory_limit >> 20)},
      .shard = s->shards ? s->shard : 1,
      .shards = s->shards ? s->shards : 1,
      .quiet = s->quiet,
  };
  TRY(check_options(r));
  pass_on(r, &o);
  struct zoo zoo;
  TRY(batch_make_out(o.out, &r->arena, r->diag));
  TRY(check_summary(r, o.out));
  TRY(zoo_open(&zoo, s->model, &r->arena, r->diag));
  give_overrides(&zoo, s->overrides);
  struct batch_outcome outcome;
  TRY(batch_run(&outcome, &zoo, &o, &r->arena, r->diag));
  // Results of other shards with the same OUT are shown too, but are not ours to judge.
  struct result **all = arena_array(&r->arena, zoo.count, sizeof *all);
  struct result **own = arena_array(&r->arena, zoo.count, sizeof *own);
  size_t n_all = 0, n_own = 0;
  for (size_t i = 0; i < zoo.count; i++) {
    if (outcome.results[i])
      all[n_all++] = outcome.results[i];
    if (outcome.results[i] && outcome.wanted[i])
      own[n_own++] = outcome.results[i];
  }
  TRY(report(r, all, n_all, o.out));
  return summary_zoo_status(own, n_own);
}
