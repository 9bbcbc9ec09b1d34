// What was decided stands in the model itself, where viewers show it: in the metadata of every
// node, tensor and initializer that is narrow now, or in their doc_string where the IR version has
// no metadata yet. Viewers show of a tensor between nodes the doc_string alone (Netron does), so
// that gets the text as well. Narrow tensors that the model did not declare are declared for it.
// The model says which plan made it.
#include "pass.h"
#include "proto.h"

static void note_model(struct rewrite *w) {
  Onnx__ModelProto *m = w->model->proto;
  const char *adjustments = "";
  for (const char **o = w->plan->adjustments; o && *o; o++)
    adjustments = arena_printf(w->arena, "%s, %s", adjustments, *o);
  const char *text = arena_printf(
      w->arena, "%s: policy %s version %d%s, from a model with SHA-256 %s", NARROWCAST_VERSION,
      w->plan->policy_name, w->plan->policy_version, adjustments, w->plan->model_sha256);
  proto_set_entry(w->arena, &m->metadata_props, &m->n_metadata_props,
                  proto_entry(w->arena, "narrowcast", text));
}

static const char *rule_text(const struct node_plan *node) {
  return node->rule_id[0] ? node->rule_id : "of the plan file";
}

// ---- notes ----

// Why something is narrow. The rule is that of the node, or of the value's producer.
enum cause_kind { BY_RULE, BY_RULE_WITH_OPERANDS, AS_CONSTANT, AS_INPUT, N_CAUSE_KINDS };

struct cause {
  enum format_id format;
  enum cause_kind kind;
  int scale_log2;
  const char *rule;
};

// The notes made so far: all that is narrow for the same cause shares one.
struct notes {
  struct rewrite *w;
  struct map index;  // (all numbers of the cause, its rule) -> note
  struct note *notes;
  size_t count, capacity;
};

// `detail` is what follows the format's name.
static struct note make_note(struct rewrite *w, struct cause c, const char *detail) {
  const char *format = formats[c.format].name;
  if (c.kind == AS_CONSTANT)
    return rewrite_note(
        w, arena_printf(w->arena, "%s%s: as all that read it take it", format, detail));
  if (c.kind == AS_INPUT)
    return rewrite_note(w,
                        arena_printf(w->arena, "%s%s: the policy narrows inputs", format, detail));
  return rewrite_note(w, arena_printf(w->arena, "%s%s: rule %s", format, detail, c.rule));
}

static struct note make_plain_note(struct rewrite *w, struct cause c) {
  const char *detail = "";
  if (c.kind == BY_RULE_WITH_OPERANDS)
    detail = arena_printf(w->arena, ", %s in %s",
                          policy_is_weight_format(w->plan->operand_format) ? "weights" : "operands",
                          formats[w->plan->operand_format].name);
  else if (c.scale_log2)
    detail = arena_printf(w->arena, ", times 2^%d", c.scale_log2);
  return make_note(w, c, detail);
}

static struct note shared_note(struct notes *n, struct cause c) {
  int numbers = (c.scale_log2 * N_CAUSE_KINDS + (int)c.kind) * FORMAT_COUNT + (int)c.format;
  int *at = map_slot(&n->index, numbers, c.rule);
  if (*at < 0) {
    *at = (int)n->count;
    n->notes = arena_grow(n->w->arena, n->notes, &n->capacity, n->count + 1, sizeof *n->notes);
    n->notes[n->count++] = make_plain_note(n->w, c);
  }
  return n->notes[*at];
}

static void note_nodes(struct notes *notes) {
  struct rewrite *w = notes->w;
  for (int n = 0; n < w->graph->n_nodes; n++) {
    const struct node_plan *node = &w->plan->nodes[n];
    if (n + MAP_AHEAD < w->graph->n_nodes)
      map_fetch(w->graph->nodes[n + MAP_AHEAD].proto);
    if (node->format == FORMAT_FP32 && !node->narrow_operands)
      continue;
    struct cause cause = {.format = node->format,
                          .kind = node->narrow_operands ? BY_RULE_WITH_OPERANDS : BY_RULE,
                          .rule = rule_text(node)};
    rewrite_note_node(w, w->graph->nodes[n].proto, shared_note(notes, cause));
  }
}

// ---- tensors ----

// Format, scale and reason of a value that is stored narrow.
static struct note value_note(struct notes *notes, int v) {
  struct rewrite *w = notes->w;
  const struct value *value = &w->graph->values[v];
  struct cause cause = {.format = rewrite_stored_format(w, v),
                        .kind = BY_RULE,
                        .scale_log2 = w->plan->values[v].scale_log2,
                        .rule = ""};
  if (rewrite_is_constant(w, v))
    cause.kind = AS_CONSTANT;
  else if (value->origin != ORIGIN_NODE)
    cause.kind = AS_INPUT;
  else
    cause.rule = rule_text(&w->plan->nodes[value->producer]);
  const struct operand_plan *operand = w->plan->values[v].operand;
  if (!operand || !operand->block_size)
    return shared_note(notes, cause);
  return make_note(w, cause,
                   arena_printf(w->arena, ", blocks of %lld along axis %d",
                                (long long)operand->block_size, operand->axis));
}

static void note_info(struct rewrite *w, Onnx__ValueInfoProto *info, struct note note) {
  rewrite_describe(&info->doc_string, note);
  if (rewrite_has_metadata(w))
    proto_set_entry(w->arena, &info->metadata_props, &info->n_metadata_props, note.entry);
}

static void note_initializers(struct notes *notes, int s) {
  struct rewrite *w = notes->w;
  Onnx__GraphProto *graph = w->graph->scopes[s].graph;
  const struct note added = rewrite_note(w, "added: a constant in another format, or a scale");
  for (size_t i = 0; i < graph->n_initializer; i++) {
    if (i + MAP_FETCH < graph->n_initializer)
      map_fetch(graph->initializer[i + MAP_FETCH]->name);
    if (i + MAP_AHEAD < graph->n_initializer)
      map_announce(&w->graph->names, s, text_of(graph->initializer[i + MAP_AHEAD]->name));
    Onnx__TensorProto *t = graph->initializer[i];
    int v = map_get(&w->graph->names, s, text_of(t->name));
    if (v >= 0 && (!w->plan->values[v].considered ||
                   t->data_type != formats[rewrite_stored_format(w, v)].onnx_type ||
                   t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT))
      continue;
    struct note note = v >= 0 ? value_note(notes, v) : added;
    if (rewrite_has_metadata(w))
      proto_set_entry(w->arena, &t->metadata_props, &t->n_metadata_props, note.entry);
    else
      rewrite_describe(&t->doc_string, note);
  }
}

// Values that are stored narrow, by the name that they have now in their scope.
struct narrow_names {
  struct map values;
  char **now;         // by value, narrow or not
  bool *missing;      // by value: made by a node, and not declared
  size_t *n_missing;  // by scope
};

static void find_names(struct rewrite *w, struct narrow_names *names) {
  const struct graph *g = w->graph;
  for (int v = 0; v < g->n_values; v++)
    names->now[v] = (char *)g->values[v].name;
  for (int n = 0; n < g->n_nodes; n++) {
    if (n + MAP_FAR < g->n_nodes)
      map_fetch(g->nodes[n + MAP_FAR].proto);
    const struct node *node = &g->nodes[n];
    for (int k = 0; k < node->n_outputs; k++)
      if (node->outputs[k] >= 0)
        names->now[node->outputs[k]] = node->proto->output[k];
  }
}

static void find_narrow(struct rewrite *w, struct narrow_names *names) {
  const struct graph *g = w->graph;
  map_reserve(&names->values, (size_t)g->n_values);
  for (int v = 0; v < g->n_values; v++) {
    const struct value *value = &g->values[v];
    if (v + MAP_FETCH < g->n_values)
      map_fetch(names->now[v + MAP_FETCH]);
    if (v + MAP_AHEAD < g->n_values)
      map_announce(&names->values, value[MAP_AHEAD].scope, names->now[v + MAP_AHEAD]);
    if (!w->plan->values[v].considered || rewrite_is_constant(w, v) ||
        rewrite_stored_format(w, v) == FORMAT_FP32)
      continue;
    map_put(&names->values, value->scope, names->now[v], v);
    names->missing[v] = value->origin == ORIGIN_NODE;
    names->n_missing[value->scope] += names->missing[v];
  }
}

static void note_infos(struct notes *notes, struct narrow_names *names, int s,
                       Onnx__ValueInfoProto **list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (i + MAP_FETCH < count)
      map_fetch(list[i + MAP_FETCH]->name);
    if (i + MAP_AHEAD < count)
      map_announce(&names->values, s, text_of(list[i + MAP_AHEAD]->name));
    int v = map_get(&names->values, s, text_of(list[i]->name));
    if (v < 0)
      continue;
    note_info(notes->w, list[i], value_note(notes, v));
    names->n_missing[s] -= names->missing[v];
    names->missing[v] = false;
  }
}

static Onnx__ValueInfoProto *new_info(struct rewrite *w, int v, char *name) {
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
  info->name = name;
  return info;
}

// Makes room in every graph, then declares what is missing, in id order.
static void declare_others(struct notes *notes, const struct narrow_names *names) {
  struct rewrite *w = notes->w;
  for (int s = 0; s < w->graph->n_scopes; s++) {
    Onnx__GraphProto *graph = w->graph->scopes[s].graph;
    if (!graph || names->n_missing[s] == 0)
      continue;
    Onnx__ValueInfoProto **list =
        arena_array(w->arena, graph->n_value_info + names->n_missing[s], sizeof *list);
    for (size_t i = 0; i < graph->n_value_info; i++)
      list[i] = graph->value_info[i];
    graph->value_info = list;
  }
  for (int v = 0; v < w->graph->n_values; v++) {
    Onnx__GraphProto *graph = w->graph->scopes[w->graph->values[v].scope].graph;
    if (!graph || !names->missing[v])
      continue;
    Onnx__ValueInfoProto *info = new_info(w, v, names->now[v]);
    note_info(w, info, value_note(notes, v));
    graph->value_info[graph->n_value_info++] = info;
  }
}

static void note_tensors(struct notes *notes) {
  struct rewrite *w = notes->w;
  size_t values = (size_t)w->graph->n_values, scopes = (size_t)w->graph->n_scopes;
  struct narrow_names names = {.values.arena = w->arena,
                               .now = arena_array(w->arena, values, sizeof *names.now),
                               .missing = arena_array(w->arena, values, sizeof *names.missing),
                               .n_missing = arena_array(w->arena, scopes, sizeof *names.n_missing)};
  find_names(w, &names);
  find_narrow(w, &names);
  for (int s = 0; s < w->graph->n_scopes; s++) {
    Onnx__GraphProto *graph = w->graph->scopes[s].graph;
    if (!graph)
      continue;
    note_infos(notes, &names, s, graph->input, graph->n_input);
    note_infos(notes, &names, s, graph->output, graph->n_output);
    note_infos(notes, &names, s, graph->value_info, graph->n_value_info);
    note_initializers(notes, s);
  }
  declare_others(notes, &names);
}

enum status pass_metadata(struct rewrite *w, struct diag *d) {
  (void)d;
  struct notes notes = {.w = w, .index.arena = w->arena};
  note_nodes(&notes);
  note_tensors(&notes);
  note_model(w);
  return STATUS_OK;
}
