// Each narrowed node says in its metadata what was decided and by which rule, so that model viewers
// show it; the model says which plan made it.
#include "pass.h"
#include "proto.h"

static void note_model(struct rewrite *w) {
  Onnx__ModelProto *m = w->model->proto;
  const char *text = arena_printf(
      w->arena, "%s: policy %s version %d, from a model with SHA-256 %s", NARROWCAST_VERSION,
      w->plan->policy_name, w->plan->policy_version, w->plan->model_sha256);
  proto_set_entry(w->arena, &m->metadata_props, &m->n_metadata_props, "narrowcast", text);
}

enum status pass_metadata(struct rewrite *w, struct diag *d) {
  (void)d;
  for (int n = 0; n < w->graph->n_nodes; n++) {
    const struct node_plan *node = &w->plan->nodes[n];
    if (node->format == FORMAT_FP32 && !node->narrow_operands)
      continue;
    const char *operands = "";
    if (node->narrow_operands)
      operands = arena_printf(w->arena, ", operands in %s", formats[w->plan->operand_format].name);
    rewrite_note(w, w->graph->nodes[n].proto,
                 arena_printf(w->arena, "%s%s: rule %s", formats[node->format].name, operands,
                              node->rule_id[0] ? node->rule_id : "of the plan file"));
  }
  note_model(w);
  return STATUS_OK;
}
