// Writes the plan file: provenance and claims first, then every node with a float and every fp32
// value, one a line in the order of the model, so that two plans differ in the lines that differ.
// It holds what src/review needs to explain each decision without model and policy.
#include "file.h"
#include "json.h"
#include "plan.h"
#include "plan_cost.h"
#include "plan_limits.h"
#include "plan_worth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// For people: an edit is checked against the operators, and what it claims, by verify.
static void write_thresholds(struct json_writer *w, const struct plan_thresholds *t) {
  json_object(w, "thresholds");
  json_number(w, "margin", t->margin);
  json_number(w, "max_zero_fraction", t->max_zero_fraction);
  json_number(w, "max_subnormal_fraction", t->max_subnormal_fraction);
  json_number(w, "constant_max_zero_fraction", t->constant_max_zero_fraction);
  json_number(w, "constant_max_subnormal_fraction", t->constant_max_subnormal_fraction);
  json_number(w, "max_lost_fraction", t->max_lost_fraction);
  json_number(w, "max_angle_step", t->max_angle_step);
  json_bool(w, "keep_integers", t->keep_integers);
  json_end_object(w);
}

static bool rule_decided(const struct plan *p, const struct rule *rule) {
  for (int n = 0; n < p->n_nodes; n++)
    if (p->nodes[n].rule == rule && plan_decides(&p->nodes[n]))
      return true;
  return false;
}

// Those that decided for some node, with the reason that the policy gives.
static void write_rules(struct json_writer *w, const struct plan *p) {
  json_array(w, "rules");
  for (int i = 0; i < p->n_rules; i++) {
    if (!rule_decided(p, &p->rules[i]))
      continue;
    json_object(w, NULL);
    json_string(w, "rule", p->rules[i].id);
    json_string(w, "class", node_class_name(p->rules[i].class));
    json_string(w, "why", p->rules[i].why ? p->rules[i].why : "");
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_provenance(struct json_writer *w, const struct plan *p) {
  json_object(w, "model");
  json_string(w, "file", p->model_file);
  json_string(w, "sha256", p->model_sha256);
  if (p->raised_to)
    json_integer(w, "opset_raised_to", p->raised_to);
  json_end_object(w);
  json_object(w, "policy");
  json_string(w, "name", p->policy_name);
  json_integer(w, "version", p->policy_version);
  json_string(w, "sha256", p->policy_sha256);
  json_array(w, "ladder");
  if (p->has_operand_format || p->tf32)
    json_string(w, NULL, formats[p->tf32 ? FORMAT_TF32 : p->operand_format].name);
  for (int i = 0; i < p->n_ladder; i++)
    json_string(w, NULL, formats[p->ladder[i]].name);
  json_end_array(w);
  json_array(w, "overrides");
  for (const char **o = p->adjustments; o && *o; o++)
    json_string(w, NULL, *o);
  json_end_array(w);
  json_string(w, "inputs", p->narrow_inputs ? "narrow" : "keep");
  json_string(w, "outputs", p->narrow_outputs ? "narrow" : "keep");
  json_bool(w, "flush_to_zero", p->ftz);
  json_string(w, "constants", constants_rule_name(p->constants));
  write_thresholds(w, &p->thresholds);
  json_end_object(w);
  write_rules(w, p);
  if (p->tf32) {
    json_object(w, "settings");
    json_bool(w, "tf32", true);
    json_string(w, "note",
                "The model is the source unchanged: set this in the runtime. Claims are judged "
                "with the operands of matrix products rounded to tf32.");
    json_end_object(w);
  }
  json_object(w, "statistics");
  json_string(w, "source", !p->has_trace ? "none" : p->synthetic ? "synthetic" : "data");
  json_integer(w, "samples", (int64_t)p->steps);
  json_integer(w, "elements_per_histogram", (int64_t)p->sample);
  json_string(w, "sha256", p->samples_sha256);
  json_integer(w, "samples_with_held_out", (int64_t)p->samples);
  if (p->hold_out.every)
    json_integer(w, "hold_out_every", p->hold_out.every);
  else
    json_number(w, "hold_out_share", p->hold_out.share);
  if (p->hold_out.enough)
    json_integer(w, "held_out_enough", p->hold_out.enough);
  json_end_object(w);
}

// Decisions of a person, as their file has them.
static void write_overrides(struct json_writer *w, const struct overrides *o) {
  if (!o)
    return;
  json_object(w, "overrides_from");
  json_string(w, "file", o->file);
  json_string(w, "sha256", o->sha256);
  json_end_object(w);
  json_array(w, "overrides");
  for (int i = 0; i < o->count; i++) {
    json_object(w, NULL);
    json_string(w, "glob", o->list[i].glob);
    json_string(w, "format", formats[o->list[i].format].name);
    if (o->list[i].has_scale)
      json_number(w, "scale", ldexp(1, o->list[i].scale_log2));
    json_string(w, "note", o->list[i].note);
    json_end_object(w);
  }
  json_end_array(w);
}

// Three digits, for numbers that are compared by eye and depend on no last one.
static void write_rounded(struct json_writer *w, const char *key, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.3g", value);
  json_number(w, key, strtod(text, NULL));
}

// What a verify run measured of a claim; not read back.
static void write_measured(struct json_writer *w, const struct plan *p, const struct claim *c) {
  if (!p->n_measured)
    return;
  json_array(w, "measured");
  for (int i = 0; i < p->n_measured; i++) {
    const struct measured_claim *m = &p->measured[i];
    if (m->claim != c)
      continue;
    json_object(w, NULL);
    json_string(w, "output", m->output);
    write_rounded(w, "value", m->value);
    json_bool(w, "holds", m->holds);
    json_string(w, "worst_sample", m->sample);
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_claims(struct json_writer *w, const struct plan *p) {
  json_array(w, "claims");
  for (int i = 0; i < p->n_claims; i++) {
    const struct claim *c = &p->claims[i];
    json_object(w, NULL);
    json_string(w, "id", c->id);
    json_string(w, "metric", metric_name(c->metric));
    json_number(w, "limit", c->limit);
    if (c->metric == METRIC_MATCHED_ROWS)
      json_number(w, "tolerance", c->tolerance);
    write_measured(w, p, c);
    if (c->outputs) {
      json_array(w, "outputs");
      for (const char **o = c->outputs; *o; o++)
        json_string(w, NULL, *o);
      json_end_array(w);
    }
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_promotions(struct json_writer *w, const struct plan *p, const struct graph *g) {
  json_array(w, "promotions");
  for (size_t i = 0; p->promotions && i < p->promotions->count; i++) {
    const struct promotion *entry = &p->promotions->log[i];
    json_object(w, NULL);
    json_integer(w, "round", entry->round);
    json_string(w, "value", graph_value_label(g, entry->value));
    json_string(w, "from", formats[entry->from].name);
    json_string(w, "to", formats[entry->to].name);
    json_number(w, "error", entry->error);
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_pair(struct json_writer *w, const char *key, double before, double after) {
  json_object(w, key);
  json_number(w, "before", before);
  json_number(w, "after", after);
  json_end_object(w);
}

static void write_sentence(void *writer, const char *id, const char *text) {
  json_object(writer, NULL);
  json_string(writer, "id", id);
  json_string(writer, "text", text);
  json_end_object(writer);
}

// One run on the policy's target; for people, and not read back: an edit of a node changes it.
static void write_costs(struct json_writer *w, const struct plan *p) {
  const struct plan_costs *c = &p->costs;
  if (!c->target || p->tf32)  // what a setting saves is not modelled
    return;
  json_object(w, "cost");
  json_object(w, "modelled_for");
  json_string(w, "target", c->target);
  json_integer(w, "version", c->target_version);
  json_end_object(w);
  write_pair(w, "seconds", c->time_before, c->time_after);
  write_pair(w, "traffic_bytes", c->traffic_before, c->traffic_after);
  write_pair(w, "constant_bytes", c->constants_before, c->constants_after);
  write_pair(w, "activation_bytes", c->activations_before, c->activations_after);
  json_integer(w, "casts", c->casts);
  json_integer(w, "scale_nodes", c->scale_nodes);
  json_number(w, "cast_seconds", c->time_casts);
  json_number(w, "share_that_cannot_speed_up", c->fixed_share);
  json_number(w, "speedup_at_most", costs_most_speedup(c));
  json_integer(w, "nodes_wide_only_for_casts", c->left_wide);
  json_array(w, "drawbacks");
  drawbacks_each(p, write_sentence, w);
  json_end_array(w);
  json_end_object(w);
}

// For people; not read back.
static void write_weights(struct json_writer *w, const struct plan *p, const struct graph *g) {
  if (!p->n_weights)
    return;
  json_array(w, "weights");
  for (size_t i = 0; i < p->n_weights; i++) {
    const struct weight_plan *weight = &p->weights[i];
    json_object(w, NULL);
    json_string(w, "weight", graph_value_label(g, weight->value));
    json_string(w, "format", formats[weight->format].name);
    if (weight->seen)
      json_number(w, "lost_updates_fraction", weight->lost_fraction);
    if (weight->master_copy)
      json_string(w, "note",
                  weight->seen ? "needs a 32-bit master copy"
                               : "keeps its 32-bit master copy: no update was seen");
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_training(struct json_writer *w, const struct plan *p) {
  const struct training_plan *t = p->training;
  if (!t)
    return;
  json_object(w, "training");
  json_string(w, "format", formats[t->format].name);
  write_pair(w, "state_bytes", t->bytes_before, t->bytes_after);
  json_integer(w, "gradients", t->n_gradients);
  if (t->n_gradients > 0) {
    json_number(w, "gradient_min", t->gradient_min);
    json_number(w, "gradient_max", t->gradient_max);
    json_integer(w, "micro_batches", t->rule.micro_batches);
    json_object(w, "loss_scale");
    json_number(w, "lowest", t->scales.lowest);
    json_number(w, "highest", t->scales.highest);
    if (t->scales.first <= t->scales.last) {
      json_integer(w, "log2", t->scale_log2);
      json_number(w, "divide_gradients_by", t->divisor);
    }
    json_integer(w, "dynamic_log2", t->dynamic_log2);
    json_integer(w, "dynamic_skips_steps", (int64_t)t->skipped);
    json_end_object(w);
  }
  json_end_object(w);
}

// The values at one side of a node, by position: "" is one that is left out, as in ONNX.
static void write_ends(struct json_writer *w, const struct graph *g, const char *key,
                       const int *values, int count) {
  json_array(w, key);
  for (int k = 0; k < count; k++)
    json_string(w, NULL, values[k] >= 0 ? graph_value_label(g, values[k]) : "");
  json_end_array(w);
}

static void write_node(struct json_writer *w, const struct plan *p, const struct graph *g, int n,
                       int index) {
  const struct node_plan *node = &p->nodes[n];
  const struct node *in = &g->nodes[n];
  json_object(w, NULL);
  json_string(w, "node", graph_node_label(g, n));
  json_string(w, "scope", g->scopes[in->scope].path);
  const char *name = in->proto->name ? in->proto->name : "";
  if (strcmp(name, graph_node_label(g, n)) != 0)
    json_string(w, "name", name);  // none, or not unique
  json_integer(w, "index", index);
  json_string(w, "op", in->proto->op_type);
  json_string(w, "class", node_class_name(node->class));
  json_string(w, "rule", node->rule_id);
  if (node->pattern != PATTERN_NONE)
    json_string(w, "pattern", pattern_name(node->pattern));
  json_string(w, "format", formats[node->format].name);
  if (plan_drops_cast(g, p, n))
    json_bool(w, "left_out", true);
  if (node->reason != REASON_NONE) {
    json_string(w, "reason", reason_name(node->reason));
    json_string(w, "tried", formats[node->reason_format].name);
    if (node->reason == REASON_SCHEMA)
      json_integer(w, "allowed_from_opset", node->opset_needed);
    if (node->reason_value >= 0)
      json_string(w, "because_of", graph_value_label(g, node->reason_value));
  }
  if (node->narrow_operands) {
    json_string(w, "operands", formats[p->operand_format].name);
  } else if (node->product && p->has_operand_format) {
    json_string(w, "operands_reason", reason_name(node->operands_reason));
    if (node->operands_value >= 0)
      json_string(w, "operands_because_of", graph_value_label(g, node->operands_value));
  }
  if (node->wide_vars && node->format != FORMAT_FP32) {
    json_array(w, "wide_variables");
    for (int k = 0; k < in->schema->n_vars && k < 64; k++)
      if (node->wide_vars >> k & 1)
        json_integer(w, NULL, k);
    json_end_array(w);
  }
  if (node->input_scales) {
    json_array(w, "input_scales_log2");
    for (int k = 0; k < in->n_inputs; k++)
      json_integer(w, NULL, node->input_scales[k]);
    json_end_array(w);
  }
  if (node->output_scale)
    json_integer(w, "output_scale_log2", node->output_scale);
  write_ends(w, g, "inputs", in->inputs, in->n_inputs);
  write_ends(w, g, "outputs", in->outputs, in->n_outputs);
  if (p->seconds && p->costs.target) {
    json_object(w, "seconds");
    for (int r = 0; r < p->n_ladder; r++)
      write_rounded(w, formats[p->ladder[r]].name,
                    p->seconds[(size_t)n * (size_t)p->n_ladder + (size_t)r]);
    json_end_object(w);
  }
  json_end_object(w);
}

static void write_nodes(struct json_writer *w, const struct plan *p, const struct graph *g) {
  json_array(w, "nodes");
  for (int s = 0; s < g->n_scopes; s++)
    for (int i = 0; i < g->scopes[s].n_nodes; i++) {
      int n = g->scopes[s].nodes[i];
      if (plan_decides(&p->nodes[n]))
        write_node(w, p, g, n, i);
    }
  json_end_array(w);
}

// How products read the value. Needed to rewrite are scale_log2, or of a weight in blocks axis and
// block_size, whose scales follow from it; the rest is what decided.
static void write_operand(struct json_writer *w, const struct plan *p,
                          const struct operand_plan *operand) {
  json_object(w, "operand");
  json_string(w, "format", formats[p->operand_format].name);
  json_integer(w, "scale_log2", operand->scale_log2);
  if (operand->block_size) {
    json_integer(w, "scale_log2_most", operand->scale_log2_most);
    json_integer(w, "axis", operand->axis);
    json_integer(w, "block_size", operand->block_size);
    json_integer(w, "bytes", (int64_t)operand->bytes);
  }
  json_bool(w, "saturate", true);
  json_number(w, "headroom", operand->headroom);
  json_number(w, "zero_fraction", operand->zero_fraction);
  json_number(w, "subnormal_fraction", operand->subnormal_fraction);
  json_number(w, "sqnr_db", operand->sqnr_db);
  if (operand->window_scales) {
    json_array(w, "scale_log2_by_window");
    for (size_t i = 0; i < operand->n_window_scales; i++)
      json_integer(w, NULL, operand->window_scales[i]);
    json_end_array(w);
  }
  json_end_object(w);
}

// For people; not read back.
static void write_windows(struct json_writer *w, const struct value_plan *value) {
  json_object(w, "scale_by_window");
  json_integer(w, "moves", value->scale_moves);
  json_array(w, "log2");
  for (size_t i = 0; i < value->n_windows; i++)
    json_integer(w, NULL, value->window_scales[i]);
  json_end_array(w);
  json_end_object(w);
}

static void write_values(struct json_writer *w, const struct plan *p, const struct graph *g) {
  json_array(w, "values");
  for (int v = 0; v < g->n_values; v++) {
    const struct value_plan *value = &p->values[v];
    if (!value->considered)
      continue;
    json_object(w, NULL);
    json_string(w, "value", g->values[v].name);
    json_string(w, "scope", g->scopes[g->values[v].scope].path);
    json_string(w, "format", formats[value->format].name);
    json_integer(w, "scale_log2", value->scale_log2);
    if (graph_is_constant(g, v))
      json_bool(w, "constant", true);
    if (value->fit.reason != REASON_NONE)
      json_string(w, "reason", reason_name(value->fit.reason));
    if (value->fit.reason != REASON_NOT_SEEN) {
      json_number(w, "absmax", value->fit.absmax);
      json_number(w, "headroom", value->fit.headroom);
      json_number(w, "zero_fraction", value->fit.zero_fraction);
      json_number(w, "subnormal_fraction", value->fit.subnormal_fraction);
      json_number(w, "sqnr_db", value->fit.sqnr_db);
      if (value->fit.accumulates)
        json_number(w, "lost_updates_fraction", value->fit.lost_fraction);
    }
    if (value->window_scales)
      write_windows(w, value);
    if (p->errors && !isnan(p->errors[v]))
      write_rounded(w, "measured_relative_l2", p->errors[v]);
    if (value->operand)
      write_operand(w, p, value->operand);
    json_end_object(w);
  }
  json_end_array(w);
}

void plan_print(const struct plan *p, const struct graph *g, FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 2};
  json_object(&w, NULL);
  json_integer(&w, "schema", 1);
  json_string(&w, "tool", "narrowcast " NARROWCAST_VERSION);
  write_provenance(&w, p);
  write_overrides(&w, p->overrides);
  write_claims(&w, p);
  json_object(&w, "headroom");
  json_number(&w, "factor", p->headroom);
  json_string(&w, "value", p->headroom_value >= 0 ? graph_value_label(g, p->headroom_value) : "");
  json_string(&w, "format", p->headroom_value >= 0 ? formats[p->headroom_format].name : "");
  json_end_object(&w);
  write_costs(&w, p);
  json_array(&w, "limits");
  plan_limits_each(p, g, write_sentence, &w);
  json_end_array(&w);
  write_promotions(&w, p, g);
  write_weights(&w, p, g);
  write_training(&w, p);
  write_nodes(&w, p, g);
  write_values(&w, p, g);
  json_end_object(&w);
}

enum status plan_write(const struct plan *p, const struct graph *g, const char *path,
                       struct diag *d) {
  struct file_writer file;
  TRY(file_begin(&file, path, d));
  plan_print(p, g, file.out);
  return file_commit(&file, d);
}
