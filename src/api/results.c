// The functions of include/narrowcast.h that read results: they look, change nothing and cannot
// fail.
#include "handle.h"

// The node or value of that number, or NULL.
static const struct node_plan *node_at(const struct narrowcast *nc, size_t i) {
  return i < narrowcast_node_count(nc) ? &nc->run.plan.nodes[i] : NULL;
}

static const struct value_plan *tensor_at(const struct narrowcast *nc, size_t i) {
  return i < narrowcast_tensor_count(nc) ? &nc->run.plan.values[i] : NULL;
}

static const struct verdict_claim *claim_at(const struct narrowcast *nc, size_t i) {
  return i < narrowcast_claim_count(nc) ? &nc->run.verdict.claims[i] : NULL;
}

size_t narrowcast_node_count(const struct narrowcast *nc) {
  return !nc->dead && nc->has & HAS_PLAN ? (size_t)nc->run.plan.n_nodes : 0;
}

const char *narrowcast_node_name(const struct narrowcast *nc, size_t i) {
  return node_at(nc, i) ? graph_node_label(&nc->run.graph, (int)i) : NULL;
}

const char *narrowcast_node_operator(const struct narrowcast *nc, size_t i) {
  return node_at(nc, i) ? nc->run.graph.nodes[i].proto->op_type : NULL;
}

const char *narrowcast_node_format(const struct narrowcast *nc, size_t i) {
  const struct node_plan *node = node_at(nc, i);
  return node ? formats[node->format].name : NULL;
}

const char *narrowcast_node_reason(const struct narrowcast *nc, size_t i) {
  const struct node_plan *node = node_at(nc, i);
  return !node ? NULL : node->reason == REASON_NONE ? "" : reason_text(node->reason);
}

const char *narrowcast_node_rule(const struct narrowcast *nc, size_t i) {
  const struct node_plan *node = node_at(nc, i);
  return node ? node->rule_id : NULL;
}

size_t narrowcast_tensor_count(const struct narrowcast *nc) {
  return !nc->dead && nc->has & HAS_PLAN ? (size_t)nc->run.plan.n_values : 0;
}

const char *narrowcast_tensor_name(const struct narrowcast *nc, size_t i) {
  return tensor_at(nc, i) ? graph_value_label(&nc->run.graph, (int)i) : NULL;
}

const char *narrowcast_tensor_format(const struct narrowcast *nc, size_t i) {
  const struct value_plan *value = tensor_at(nc, i);
  return !value ? NULL : value->considered ? formats[value->format].name : "";
}

int narrowcast_tensor_scale_log2(const struct narrowcast *nc, size_t i) {
  const struct value_plan *value = tensor_at(nc, i);
  return value ? value->scale_log2 : 0;
}

size_t narrowcast_claim_count(const struct narrowcast *nc) {
  return !nc->dead && nc->has & HAS_VERDICT ? (size_t)nc->run.verdict.n_claims : 0;
}

const char *narrowcast_claim_metric(const struct narrowcast *nc, size_t i) {
  const struct verdict_claim *claim = claim_at(nc, i);
  return claim ? metric_name(claim->claim->metric) : NULL;
}

const char *narrowcast_claim_output(const struct narrowcast *nc, size_t i) {
  const struct verdict_claim *claim = claim_at(nc, i);
  return claim ? claim->output : NULL;
}

const char *narrowcast_claim_sample(const struct narrowcast *nc, size_t i) {
  const struct verdict_claim *claim = claim_at(nc, i);
  return claim ? claim->sample : NULL;
}

double narrowcast_claim_measured(const struct narrowcast *nc, size_t i) {
  const struct verdict_claim *claim = claim_at(nc, i);
  return claim ? claim->measured : 0;
}

double narrowcast_claim_limit(const struct narrowcast *nc, size_t i) {
  const struct verdict_claim *claim = claim_at(nc, i);
  return claim ? claim->claim->limit : 0;
}

int narrowcast_claim_holds(const struct narrowcast *nc, size_t i) {
  const struct verdict_claim *claim = claim_at(nc, i);
  return claim && claim->holds;
}
