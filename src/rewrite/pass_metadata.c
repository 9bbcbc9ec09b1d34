// What was decided stands in the model itself, where viewers show it: in the metadata of every
// node, tensor and initializer that is narrow now, or in their doc_string where the IR version has
// no metadata yet. Viewers show of a tensor between nodes the doc_string alone (Netron does), so
// that gets the text as well. Narrow tensors that the model did not declare are declared for it.
// The model says which plan made it.
#include "pass.h"
#include "proto.h"

static void note_model(struct rewrite *w) {
  Onnx__ModelProto *m = w->model->proto;
  const char *text = arena_printf(
      w->arena, "%s: policy %s version %d, from a model with SHA-256 %s", NARROWCAST_VERSION,
      w->plan->policy_name, w->plan->policy_version, w->plan->model_sha256);
  proto_set_entry(w->arena, &m->metadata_props, &m->n_metadata_props, "narrowcast", text);
}

static const char *rule_text(const struct node_plan *node) {
  return node->rule_id[0] ? node->rule_id : "of the plan file";
}

static void note_nodes(struct rewrite *w) {
  for (int n = 0; n < w->graph->n_nodes; n++) {
    const struct node_plan *node = &w->plan->nodes[n];
    if (node->format == FORMAT_FP32 && !node->narrow_operands)
      continue;
    const char *operands = "";
    if (node->narrow_operands)
      operands =
          arena_printf(w->arena, ", %s in %s",
                       policy_is_weight_format(w->plan->operand_format) ? "weights" : "operands",
                       formats[w->plan->operand_format].name);
    rewrite_note(w, w->graph->nodes[n].proto,
                 arena_printf(w->arena, "%s%s: rule %s", formats[node->format].name, operands,
                              rule_text(node)));
  }
}

// ---- tensors ----

// Format, scale and reason of a value that is stored narrow.
static const char *value_text(struct rewrite *w, int v) {
  const struct value *value = &w->graph->values[v];
  const char *format = formats[rewrite_stored_format(w, v)].name, *scale = "";
  const struct operand_plan *operand = w->plan->values[v].operand;
  if (operand && operand->block_size)
    scale = arena_printf(w->arena, ", blocks of %lld along axis %d", (long long)operand->block_size,
                         operand->axis);
  else if (w->plan->values[v].scale_log2)
    scale = arena_printf(w->arena, ", times 2^%d", w->plan->values[v].scale_log2);
  if (rewrite_is_constant(w, v))
    return arena_printf(w->arena, "%s%s: as all that read it take it", format, scale);
  if (value->origin != ORIGIN_NODE)
    return arena_printf(w->arena, "%s%s: the policy narrows inputs", format, scale);
  return arena_printf(w->arena, "%s%s: rule %s", format, scale,
                      rule_text(&w->plan->nodes[value->producer]));
}

static void note_info(struct rewrite *w, Onnx__ValueInfoProto *info, const char *text) {
  rewrite_describe(w, &info->doc_string, text);
  if (rewrite_has_metadata(w))
    proto_set_entry(w->arena, &info->metadata_props, &info->n_metadata_props, "narrowcast", text);
}

static void note_initializers(struct rewrite *w, int s) {
  Onnx__GraphProto *graph = w->graph->scopes[s].graph;
  for (size_t i = 0; i < graph->n_initializer; i++) {
    Onnx__TensorProto *t = graph->initializer[i];
    int v = t->name ? map_get(&w->graph->names, s, t->name) : -1;
    if (v >= 0 && (!w->plan->values[v].considered ||
                   t->data_type != formats[rewrite_stored_format(w, v)].onnx_type ||
                   t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT))
      continue;
    const char *text =
        v >= 0 ? value_text(w, v) : "added: a constant in another format, or a scale";
    if (rewrite_has_metadata(w))
      proto_set_entry(w->arena, &t->metadata_props, &t->n_metadata_props, "narrowcast", text);
    else
      rewrite_describe(w, &t->doc_string, text);
  }
}

// Values that are stored narrow, by the name that they have now in their scope.
struct narrow_names {
  struct map values;
  bool *declared;   // by value
  size_t *missing;  // by scope: narrow values that it makes; less those that it declares
};

static const char *name_now(const struct rewrite *w, int v) {
  const struct value *value = &w->graph->values[v];
  return value->origin == ORIGIN_NODE
             ? w->graph->nodes[value->producer].proto->output[value->output]
             : value->name;
}

// Before value v's name is looked up, those of the values that follow are announced.
static void announce_after(const struct rewrite *w, const struct map *names, int v) {
  if (v + MAP_AHEAD < w->graph->n_values)
    map_announce(names, w->graph->values[v + MAP_AHEAD].scope, name_now(w, v + MAP_AHEAD));
}

static void find_names(struct rewrite *w, struct narrow_names *names) {
  size_t values = (size_t)w->graph->n_values;
  *names = (struct narrow_names){
      .values.arena = w->arena,
      .declared = arena_array(w->arena, values, sizeof *names->declared),
      .missing = arena_array(w->arena, (size_t)w->graph->n_scopes, sizeof *names->missing),
  };
  map_reserve(&names->values, (size_t)w->graph->n_values);
  for (int v = 0; v < w->graph->n_values; v++) {
    const struct value *value = &w->graph->values[v];
    announce_after(w, &names->values, v);
    if (!w->plan->values[v].considered || rewrite_is_constant(w, v) ||
        rewrite_stored_format(w, v) == FORMAT_FP32)
      continue;
    map_put(&names->values, value->scope, name_now(w, v), v);
    names->missing[value->scope] += value->origin == ORIGIN_NODE;
  }
}

static void note_infos(struct rewrite *w, struct narrow_names *names, int s,
                       Onnx__ValueInfoProto **list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int v = list[i]->name ? map_get(&names->values, s, list[i]->name) : -1;
    if (v < 0)
      continue;
    note_info(w, list[i], value_text(w, v));
    names->missing[s] -= !names->declared[v] && w->graph->values[v].origin == ORIGIN_NODE;
    names->declared[v] = true;
  }
}

static Onnx__ValueInfoProto *new_info(struct rewrite *w, int v) {
  Onnx__ValueInfoProto *info = arena_alloc(w->arena, sizeof *info);
  Onnx__TypeProto *type = arena_alloc(w->arena, sizeof *type);
  Onnx__TypeProto__Tensor *tensor = arena_alloc(w->arena, sizeof *tensor);
  onnx__value_info_proto__init(info);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  tensor->has_elem_type = 1;
  tensor->elem_type = formats[rewrite_stored_format(w, v)].onnx_type;
  type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = tensor;
  info->type = type;
  info->name = arena_strdup(w->arena, name_now(w, v));
  return info;
}

// Makes room in every graph, then declares what is missing, in id order.
static void declare_others(struct rewrite *w, const struct narrow_names *names) {
  for (int s = 0; s < w->graph->n_scopes; s++) {
    Onnx__GraphProto *graph = w->graph->scopes[s].graph;
    if (!graph || names->missing[s] == 0)
      continue;
    Onnx__ValueInfoProto **list =
        arena_array(w->arena, graph->n_value_info + names->missing[s], sizeof *list);
    for (size_t i = 0; i < graph->n_value_info; i++)
      list[i] = graph->value_info[i];
    graph->value_info = list;
  }
  for (int v = 0; v < w->graph->n_values; v++) {
    const struct value *value = &w->graph->values[v];
    Onnx__GraphProto *graph = w->graph->scopes[value->scope].graph;
    announce_after(w, &names->values, v);
    if (!graph || value->origin != ORIGIN_NODE || names->declared[v] ||
        map_get(&names->values, value->scope, name_now(w, v)) != v)
      continue;
    Onnx__ValueInfoProto *info = new_info(w, v);
    note_info(w, info, value_text(w, v));
    graph->value_info[graph->n_value_info++] = info;
  }
}

static void note_tensors(struct rewrite *w) {
  struct narrow_names names;
  find_names(w, &names);
  for (int s = 0; s < w->graph->n_scopes; s++) {
    Onnx__GraphProto *graph = w->graph->scopes[s].graph;
    if (!graph)
      continue;
    note_infos(w, &names, s, graph->input, graph->n_input);
    note_infos(w, &names, s, graph->output, graph->n_output);
    note_infos(w, &names, s, graph->value_info, graph->n_value_info);
    note_initializers(w, s);
  }
  declare_others(w, &names);
}

enum status pass_metadata(struct rewrite *w, struct diag *d) {
  (void)d;
  note_nodes(w);
  note_tensors(w);
  note_model(w);
  return STATUS_OK;
}
