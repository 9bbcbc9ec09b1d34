// The verdict as JSON; see verdict_file.h. It is written and not read back: whether claims hold is
// measured again, never taken from a file. The report shows it, so it names the plan it is of.
#include "verdict_file.h"
#include "file.h"
#include "verdict_drawbacks.h"

#include <math.h>

enum { SCHEMA = 1 };

static void print_errors(const struct compare *c, struct json_writer *w) {
  json_number(w, "max_abs", (double)c->max_abs);
  json_number(w, "relative_l2", compare_relative_l2(c));
  json_number(w, "cosine", compare_cosine(c));
  json_number(w, "sqnr_db", compare_sqnr_db(c));
  if (c->rows)
    json_number(w, "top1", compare_top1(c));
  json_integer(w, "newly_nonfinite", (int64_t)c->newly_nonfinite);
  json_integer(w, "shape_mismatches", (int64_t)c->mismatched);
}

static void print_outputs(const struct verdict *v, struct json_writer *w) {
  json_array(w, "outputs");
  for (int i = 0; i < v->n_outputs; i++) {
    const struct verdict_output *output = &v->outputs[i];
    const struct compare *c = &output->on[SET_HELD_OUT];
    bool by_rows = output->rows >= 0 && v->rows[output->rows].judged;
    json_object(w, NULL);
    json_string(w, "output", output->name);
    json_bool(w, "judged", verdict_is_judged(v, i));
    const struct compare *sets = by_rows ? output->paired : output->on;
    print_errors(&sets[SET_HELD_OUT], w);
    if (v->calibration_samples)
      json_number(w, "relative_l2_calibration", compare_relative_l2(&sets[SET_CALIBRATION]));
    if (c->labelled) {
      json_integer(w, "labelled", (int64_t)c->labelled);
      json_integer(w, "fp32_right", (int64_t)c->reference_right);
      json_integer(w, "narrow_right", (int64_t)c->narrow_right);
    }
    json_end_object(w);
  }
  json_end_array(w);
}

// Rows that a selection chose, where they were judged as such.
static void print_rows(const struct verdict *v, const struct graph *g, struct json_writer *w) {
  json_array(w, "rows");
  for (int i = 0; i < v->n_rows; i++) {
    const struct row_counts *c = &v->rows[i].on[SET_HELD_OUT];
    if (!v->rows[i].judged)
      continue;
    json_object(w, NULL);
    json_string(w, "selection", graph_node_label(g, v->rows[i].selection));
    json_number(w, "tolerance", v->rows[i].tolerance);
    json_integer(w, "fp32", (int64_t)c->reference);
    json_integer(w, "narrow", (int64_t)c->narrow);
    json_integer(w, "matched", (int64_t)c->matched);
    json_integer(w, "moved", (int64_t)c->moved);
    json_end_object(w);
  }
  json_end_array(w);
}

// What the engine said at each level at which the result does not load or run.
static void print_loads(const struct verdict *v, struct json_writer *w) {
  json_bool(w, "loads", v->loads_everywhere);
  json_bool(w, "loads_only_with_disable_quant_qdq", v->loads_unfused);
  json_bool(w, "engine_has_kernels", v->has_kernels);
  if (!v->has_kernels)
    json_string(w, "kernels_missing", formats[v->kernels_missing].name);
  json_array(w, "load_errors");
  for (int level = 0; level < OPTIMISATION_LEVELS; level++) {
    if (!v->loads[level][0])
      continue;
    json_object(w, NULL);
    json_string(w, "level", optimisation_names[level]);
    json_string(w, "error", v->loads[level]);
    json_bool(w, "unsupported", v->unsupported[level]);
    json_bool(w, "source_fails", v->source_fails[level]);
    if (v->raise_fails[level])
      json_bool(w, "raise_fails", true);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_drawback(void *writer, const char *id, const char *text) {
  struct json_writer *w = writer;
  json_object(w, NULL);
  json_string(w, "id", id);
  json_string(w, "text", text);
  json_end_object(w);
}

void verdict_print_members(const struct verdict *v, const struct graph *g, const char *engine,
                           struct json_writer *w) {
  json_bool(w, "holds", v->holds);
  json_bool(w, "promised", v->n_claims > 0);  // else no claim is about what there is
  size_t empty = v->empty[SET_HELD_OUT] + v->empty[SET_CALIBRATION];
  json_integer(w, "samples", (int64_t)verdict_samples(v));
  json_bool(w, "held_out", v->held_out);
  json_integer(w, "calibration_samples",
               (int64_t)(v->calibration_samples - v->empty[SET_CALIBRATION]));
  if (empty)
    json_integer(w, "samples_with_nothing_to_judge", (int64_t)empty);
  json_integer(w, "engine_samples", (int64_t)v->engine_samples);
  json_array(w, "claims");
  for (int i = 0; i < v->n_claims; i++) {
    const struct verdict_claim *c = &v->claims[i];
    json_object(w, NULL);
    json_string(w, "id", c->claim->id);
    json_string(w, "metric", metric_name(c->claim->metric));
    json_string(w, "output", c->output);
    json_number(w, "measured", c->measured);
    json_number(w, "limit", c->claim->limit);
    json_bool(w, "holds", c->holds);
    json_string(w, "worst_sample", c->sample);
    if (v->calibration_samples && !isnan(c->on[SET_HELD_OUT]))
      json_number(w, "measured_held_out", c->on[SET_HELD_OUT]);
    if (v->calibration_samples && !isnan(c->on[SET_CALIBRATION]))
      json_number(w, "measured_calibration", c->on[SET_CALIBRATION]);
    if (!isnan(c->in_engine)) {
      json_number(w, "measured_in_engine", c->in_engine);
      json_bool(w, "holds_in_engine", c->holds_in_engine);
    }
    json_end_object(w);
  }
  json_end_array(w);
  if (v->n_idle) {
    json_array(w, "idle_claims");
    verdict_idle_each(v, print_drawback, w);
    json_end_array(w);
  }
  print_outputs(v, w);
  print_rows(v, g, w);
  json_string(w, "first_nonfinite",
              v->first_nonfinite >= 0 ? graph_value_label(g, v->first_nonfinite) : "");
  json_string(w, "worst_local", v->worst_local >= 0 ? graph_value_label(g, v->worst_local) : "");
  json_number(w, "worst_local_error", v->worst_local_error);
  print_loads(v, w);
  char few[FEW_TEXT];
  if (verdict_few_samples(v, few))
    json_string(w, "few_samples", few);
  json_array(w, "drawbacks");
  verdict_drawbacks_each(v, engine, print_drawback, w);
  json_end_array(w);
}

static void print_values(const struct verdict *v, const struct graph *g, struct json_writer *w) {
  json_array(w, "values");
  for (int k = 0; k < v->n_values; k++) {
    if (!v->values[k].runs)
      continue;
    json_object(w, NULL);
    json_string(w, "value", g->values[k].name);
    json_string(w, "scope", g->scopes[g->values[k].scope].path);
    print_errors(&v->values[k], w);
    json_end_object(w);
  }
  json_end_array(w);
}

void verdict_print(const struct verdict *v, const struct verdict_source *from, FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 2};
  json_object(&w, NULL);
  json_integer(&w, "schema", SCHEMA);
  json_string(&w, "tool", "narrowcast " NARROWCAST_VERSION);
  json_object(&w, "model");
  json_string(&w, "file", from->plan->model_file);
  json_string(&w, "sha256", from->graph->model->sha256);
  json_end_object(&w);
  json_object(&w, "plan");
  json_string(&w, "sha256", from->plan_sha256);
  json_end_object(&w);
  json_string(&w, "engine", from->engine);
  json_bool(&w, "synthetic", from->synthetic);
  verdict_print_members(v, from->graph, from->engine, &w);
  print_values(v, from->graph, &w);
  json_end_object(&w);
}

enum status verdict_write(const struct verdict *v, const struct verdict_source *from,
                          const char *path, struct diag *d) {
  struct file_writer file = {0};
  TRY(file_begin(&file, path, d));
  verdict_print(v, from, file.out);
  return file_commit(&file, d);
}
