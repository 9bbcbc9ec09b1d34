// The summary as JSON: see summary.h.
#include "summary.h"

#include "file.h"
#include "json.h"
#include "plan_cost.h"
#include "plan_limits.h"
#include "plan_worth.h"
#include "summary_parts.h"
#include "verdict_file.h"

static void json_plan(const struct run *r, struct json_writer *w) {
  const struct plan *p = &r->plan;
  struct plan_counts c = summary_count(p);
  json_object(w, "plan");
  json_string(w, "policy", p->policy_name);
  if (p->adjustments && p->adjustments[0]) {
    json_array(w, "adjustments");
    for (const char **o = p->adjustments; *o; o++)
      json_string(w, NULL, *o);
    json_end_array(w);
  }
  if (p->raised_to && !plan_is_identity(p))
    json_integer(w, "opset_raised_to", p->raised_to);
  if (p->tf32)
    json_bool(w, "tf32", true);
  json_integer(w, "policy_version", p->policy_version);
  json_integer(w, "float_nodes", c.float_nodes);
  json_integer(w, "narrow_nodes", c.narrow_nodes);
  if (p->has_operand_format) {
    json_string(w, "operand_format", formats[p->operand_format].name);
    json_integer(w, "products", c.products);
    json_integer(w, "products_with_narrow_operands", c.narrow_products);
    json_integer(w, "operands", c.operands);
    json_number(w, "operand_headroom", c.headroom);
  }
  json_object(w, "nodes_by_format");
  for (int i = 0; i < p->n_ladder; i++)
    json_integer(w, formats[p->ladder[i]].name, c.by_format[p->ladder[i]]);
  json_end_object(w);
  json_array(w, "fp32_by_reason");
  for (int k = 0; k < REASON_COUNT; k++) {
    if (!c.by_reason[k])
      continue;
    json_object(w, NULL);
    json_string(w, "reason", reason_name((enum reason)k));
    json_string(w, "text", reason_text((enum reason)k));
    json_integer(w, "nodes", c.by_reason[k]);
    json_end_object(w);
  }
  json_end_array(w);
  json_string(w, "statistics", !p->has_trace ? "none" : p->synthetic ? "synthetic" : "data");
  json_integer(w, "samples", (int64_t)p->steps);
  json_number(w, "headroom", p->headroom);
  json_string(w, "headroom_value",
              p->headroom_value >= 0 ? graph_value_label(&r->graph, p->headroom_value) : "");
  json_bool(w, "unchanged", plan_is_identity(p));
  json_end_object(w);
}

static void json_drawback(void *writer, const char *id, const char *text) {
  (void)text;
  json_string(writer, NULL, id);
}

static void json_limit(void *writer, const char *id, const char *text) {
  struct json_writer *w = writer;
  json_object(w, NULL);
  json_string(w, "id", id);
  json_string(w, "text", text);
  json_end_object(w);
}

static void json_modelled(const struct plan *p, struct json_writer *w) {
  const struct plan_costs *c = &p->costs;
  if (!c->target || p->tf32)
    return;
  json_object(w, "modelled");
  json_string(w, "target", c->target);
  json_number(w, "seconds_before", c->time_before);
  json_number(w, "seconds_after", c->time_after);
  json_number(w, "cast_seconds", c->time_casts);
  json_number(w, "traffic_bytes_before", c->traffic_before);
  json_number(w, "traffic_bytes_after", c->traffic_after);
  json_number(w, "constant_bytes_before", c->constants_before);
  json_number(w, "constant_bytes_after", c->constants_after);
  json_number(w, "activation_bytes_before", c->activations_before);
  json_number(w, "activation_bytes_after", c->activations_after);
  json_number(w, "share_that_cannot_speed_up", c->fixed_share);
  json_number(w, "speedup_at_most", costs_most_speedup(c));
  json_integer(w, "nodes_wide_only_for_casts", c->left_wide);
  json_array(w, "drawbacks");
  drawbacks_each(p, json_drawback, w);
  json_end_array(w);
  json_end_object(w);
}

// What was compared, for `explain --verdict`.
static void json_verdict_values(const struct run *r, struct json_writer *w) {
  const struct verdict *v = &r->verdict;
  json_array(w, "values");
  for (int i = 0; i < v->n_values; i++) {
    if (v->values[i].runs == 0)
      continue;
    json_object(w, NULL);
    json_string(w, "value", graph_value_label(&r->graph, i));
    json_number(w, "relative_l2", compare_relative_l2(&v->values[i]));
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_verdict(const struct run *r, struct json_writer *w) {
  json_object(w, "verdict");
  verdict_print_members(&r->verdict, &r->graph, engine_info(r->engine)->version, w);
  json_verdict_values(r, w);
  json_end_object(w);
}

void summary_json(struct run *r, const char *output, FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 3};
  json_object(&w, NULL);
  json_string(&w, "model", file_base(r->settings->model));
  json_string(&w, "sha256", r->model.sha256);
  if (output)
    json_string(&w, "output", file_base(output));
  if (r->engine)
    json_string(&w, "engine", engine_info(r->engine)->version);
  json_plan(r, &w);
  json_modelled(&r->plan, &w);
  json_object(&w, "cost");
  json_integer(&w, "casts", r->rewrite.casts);
  json_integer(&w, "author_casts_left_out", r->rewrite.author_casts);
  json_integer(&w, "scale_nodes", r->rewrite.scale_nodes);
  json_integer(&w, "quantize_nodes", r->rewrite.quantised);
  json_integer(&w, "dequantize_nodes", r->rewrite.dequantised);
  bool in_4_bits = r->plan.has_operand_format && policy_is_weight_format(r->plan.operand_format);
  json_integer(&w, in_4_bits ? "weights_in_4_bits" : "weights_in_8_bits", r->rewrite.weights);
  json_integer(&w, in_4_bits ? "weight_bytes_in_4_bits" : "weight_bytes_in_8_bits",
               (int64_t)r->rewrite.weight_bytes);
  json_integer(&w, "constant_bytes_before", (int64_t)r->rewrite.bytes_before);
  json_integer(&w, "constant_bytes_after", (int64_t)r->rewrite.bytes_after);
  json_integer(&w, "constants_narrow", r->rewrite.narrow_initializers);
  json_integer(&w, "constants_kept_twice", r->rewrite.copied_initializers);
  json_integer(&w, "constant_elements_changed", (int64_t)r->rewrite.saturated);
  json_end_object(&w);
  if (r->has_verdict) {
    json_verdict(r, &w);
    json_array(&w, "limits");
    plan_limits_each(&r->plan, &r->graph, json_limit, &w);
    json_end_array(&w);
  }
  json_end_object(&w);
}
