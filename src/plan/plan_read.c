// Reads a plan file back, also one edited by hand, and checks it before anything is applied: it
// must be of this model, name nodes and values that exist, and give each node a format that its
// operator takes. What rewrite does follows from the nodes' formats, and so do those of the
// values: an edit of a node is enough, and one of a value alone is named in a warning.
#include "json.h"
#include "plan_quantise.h"
#include "plan_reader.h"
#include "plan_scale.h"
#include "plan_weights.h"
#include "raise_opset.h"

#include <math.h>
#include <string.h>

enum { CONTRADICTIONS_SHOWN = 20, OVERFLOWS_SHOWN = 5 };

// ---- nodes ----

static enum status find_scope(struct plan_reader *r, const struct json *item, int *scope) {
  const char *path;
  TRY(reader_text(r, item, "scope", &path));
  *scope = map_get(&r->scopes, 0, path);
  if (*scope >= 0)
    return STATUS_OK;
  return READ_FAIL(r, "the model has no scope \"%s\"", path);
}

static enum status check_node_format(struct plan_reader *r, int n) {
  const char *why = plan_refuses_format(r->graph, n, r->plan->nodes[n].format, r->arena);
  if (!why)
    return STATUS_OK;
  diag_at(r->diag, NULL, graph_node_label(r->graph, n), NULL);
  return READ_FAIL(r, "%s", why);
}

static enum status read_wide_variables(struct plan_reader *r, const struct json *item, int n) {
  const struct json *list = json_member(item, "wide_variables"), *var;
  for (var = json_first(list); var; var = var->next) {
    if (!json_is(var, JSON_NUMBER) || var->number < 0 || var->number > 63)
      return READ_FAIL(r, "\"wide_variables\" is not a list of numbers from 0 to 63");
    r->plan->nodes[n].wide_vars |= 1ull << (int)var->number;
  }
  return STATUS_OK;
}

// For people, as a reason is: an unknown one is none.
static enum pattern pattern_member(const struct json *item) {
  const struct json *name = json_member(item, "pattern");
  for (int k = 1; name && json_is(name, JSON_STRING) && k < PATTERN_COUNT; k++)
    if (strcmp(pattern_name((enum pattern)k), name->text) == 0)
      return (enum pattern)k;
  return PATTERN_NONE;
}

// The operands of a product are looked at when the values are read.
static enum status read_operands(struct plan_reader *r, const struct json *item, int n) {
  struct node_plan *node = &r->plan->nodes[n];
  const struct json *operands = json_member(item, "operands");
  const struct json *reason = json_member(item, "operands_reason");
  node->product = operands || reason;
  reader_reason(item, "operands_reason", &node->operands_reason);
  if (json_member(item, "operands_because_of"))
    TRY(reader_label(r, item, "operands_because_of", &node->operands_value));
  if (!operands)
    return STATUS_OK;
  const struct node *in = &r->graph->nodes[n];
  const char *name;
  TRY(reader_text(r, item, "operands", &name));
  if (!r->plan->has_operand_format || strcmp(name, formats[r->plan->operand_format].name) != 0)
    return READ_FAIL(r,
                     "\"operands\" is not the first format of policy.ladder, one of 8 or 4 bits");
  bool weights = policy_is_weight_format(r->plan->operand_format), floats = is_product(in);
  for (int k = 0; k < 2 && floats; k++)
    floats = k < in->n_inputs && graph_is_fp32(r->graph, in->inputs[k]);
  if (floats && weights && !weights_may_be(r->graph, in, 0) && !weights_may_be(r->graph, in, 1))
    return READ_FAIL(r, "\"operands\" in %s is for products with a constant weight", name);
  if (!floats || r->graph->scopes[in->scope].polymorphic)
    return READ_FAIL(r, "\"operands\" is for products of two fp32 matrices: MatMul, Gemm, Conv");
  if (!quantise_available(r->graph, in->scope, r->plan->operand_format))
    return READ_FAIL(r, "DequantizeLinear does not take the format at this model's opset");
  node->narrow_operands = true;
  return STATUS_OK;
}

static bool is_scale(const struct json *item) {
  return json_is(item, JSON_NUMBER) && item->number >= (double)SCALE_LOG2_MIN &&
         item->number <= (double)SCALE_LOG2_MAX && item->number == floor(item->number);
}

static enum status read_scales(struct plan_reader *r, const struct json *item, int n) {
  struct node_plan *node = &r->plan->nodes[n];
  const struct json *output = json_member(item, "output_scale_log2");
  const struct json *list = json_member(item, "input_scales_log2"), *scale;
  int n_inputs = r->graph->nodes[n].n_inputs, k = 0;
  if (output && !is_scale(output))
    return READ_FAIL(r, "\"output_scale_log2\" is not a whole number from -126 to 126");
  if (list && json_count(list) != n_inputs)
    return READ_FAIL(r, "\"input_scales_log2\" must have %d entries, one for each input", n_inputs);
  int *scales = arena_array(r->arena, (size_t)n_inputs, sizeof *scales);
  for (scale = json_first(list); scale; scale = scale->next) {
    if (!is_scale(scale))
      return READ_FAIL(r, "\"input_scales_log2\" is not a list of whole numbers from -126 to 126");
    scales[k++] = (int)scale->number;
  }
  node->input_scales = list ? scales : NULL;
  node->output_scale = output ? (int)output->number : 0;
  if ((list || output) && node->format == FORMAT_FP32)
    return READ_FAIL(r, "a node in fp32 has no scales: take them out, or give it a narrow format");
  if (node->format != FORMAT_FP32 && !scale_consistent(r->graph, r->plan, n))
    return READ_FAIL(r, "%s does not carry these scales from its inputs to its outputs",
                     r->graph->nodes[n].proto->op_type);
  return STATUS_OK;
}

// A plan gives a reason for what is not narrow, none for what has the ladder's first format, and no
// format that is not on the ladder: anything else was edited.
static bool contradicts_its_reason(const struct plan *p, const struct node_plan *node) {
  bool on_ladder = false, has_reason = node->reason != REASON_NONE;
  for (int k = 0; k < p->n_ladder; k++)
    on_ladder = on_ladder || p->ladder[k] == node->format;
  if (node->format != FORMAT_FP32)
    return !on_ladder || (has_reason && node->format == p->ladder[0]);
  return !has_reason && p->ladder[0] != FORMAT_FP32;
}

static enum status read_node(struct plan_reader *r, const struct json *item) {
  static const char *const keys[] = {"node",
                                     "scope",
                                     "name",
                                     "index",
                                     "op",
                                     "class",
                                     "rule",
                                     "pattern",
                                     "format",
                                     "left_out",
                                     "reason",
                                     "tried",
                                     "allowed_from_opset",
                                     "because_of",
                                     "operands",
                                     "operands_reason",
                                     "operands_because_of",
                                     "wide_variables",
                                     "input_scales_log2",
                                     "output_scale_log2",
                                     "inputs",
                                     "outputs",
                                     "seconds",
                                     NULL};
  TRY(reader_keys(r, item, keys));
  int scope, index;
  const char *op, *label;
  TRY(find_scope(r, item, &scope));
  TRY(reader_integer(r, item, "index", &index));
  TRY(reader_text(r, item, "op", &op));
  TRY(reader_text(r, item, "node", &label));
  const struct scope *in = &r->graph->scopes[scope];
  if (index >= in->n_nodes || strcmp(op, r->graph->nodes[in->nodes[index]].proto->op_type) != 0)
    return READ_FAIL(r, "the model has no node %d with operator %s there (\"%s\")", index, op,
                     label);
  int n = in->nodes[index];
  if (strcmp(label, graph_node_label(r->graph, n)) != 0)
    return READ_FAIL(r, "node %d there is called \"%s\" in the model, not \"%s\"", index,
                     graph_node_label(r->graph, n), label);
  if (r->seen[n])
    return READ_FAIL(r, "this node is listed already");
  r->seen[n] = true;
  struct node_plan *node = &r->plan->nodes[n];
  TRY(reader_text(r, item, "rule", &node->rule_id));
  int rule = map_get(&r->rules, 0, node->rule_id);
  node->rule = rule >= 0 ? &r->plan->rules[rule] : NULL;
  TRY(reader_class(r, item, "class", &node->class));
  TRY(reader_format(r, item, "format", &node->format));
  node->pattern = pattern_member(item);
  node->reason = REASON_NONE;
  reader_reason(item, "reason", &node->reason);
  if (contradicts_its_reason(r->plan, node))
    node->reason = REASON_EDITED;
  if (json_member(item, "tried"))
    TRY(reader_format(r, item, "tried", &node->reason_format));
  if (json_member(item, "allowed_from_opset"))
    TRY(reader_integer(r, item, "allowed_from_opset", &node->opset_needed));
  if (json_member(item, "because_of"))
    TRY(reader_label(r, item, "because_of", &node->reason_value));
  TRY(read_wide_variables(r, item, n));
  TRY(read_operands(r, item, n));
  TRY(check_node_format(r, n));
  return read_scales(r, item, n);
}

// A node that was taken out would otherwise be fp32 without anybody having said so.
static void check_completeness(struct plan_reader *r) {
  for (int n = 0; n < r->plan->n_nodes; n++) {
    if (r->seen[n] || !plan_concerns(r->graph, n))
      continue;
    diag_at(r->diag, NULL, graph_node_label(r->graph, n), NULL);
    (void)READ_FAIL(r, "its entry is missing: to leave it in fp32, give it \"format\": \"fp32\"");
    diag_collect(&r->errors, r->diag);
  }
}

static enum status read_nodes(struct plan_reader *r, const struct json *root) {
  for (int n = 0; n < r->plan->n_nodes; n++)
    r->plan->nodes[n] = (struct node_plan){
        .class = CLASS_KEEP,
        .rule_id = "",
        .format = FORMAT_FP32,
        .reason = r->graph->nodes[n].function < 0 ? REASON_NOT_FLOAT : REASON_CALL,
        .reason_value = -1,
        .reason_format = r->plan->ladder[0],
        .operands_value = -1};
  const struct json *nodes, *item;
  TRY(reader_member(r, root, "nodes", &nodes));
  json_push_key(&r->at, "nodes");
  int k = 0;
  for (item = json_first(nodes); item; item = item->next) {
    int depth = r->at.depth;
    json_push_index(&r->at, k++);
    if (read_node(r, item) != STATUS_OK)
      diag_collect(&r->errors, r->diag);
    r->at.depth = depth;
  }
  if (r->errors.count == 0)
    check_completeness(r);
  json_pop(&r->at);
  return STATUS_OK;
}

// ---- values ----

static enum status read_fit(struct plan_reader *r, const struct json *item, struct fit *fit) {
  const struct {
    const char *key;
    double *out;
  } numbers[] = {{"absmax", &fit->absmax},
                 {"headroom", &fit->headroom},
                 {"zero_fraction", &fit->zero_fraction},
                 {"subnormal_fraction", &fit->subnormal_fraction},
                 {"sqnr_db", &fit->sqnr_db},
                 {"lost_updates_fraction", &fit->lost_fraction}};
  for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
    const struct json *number = json_member(item, numbers[k].key);
    if (number && !json_to_number(number, numbers[k].out))
      return READ_FAIL(r, "\"%s\" is not a number", numbers[k].key);
  }
  fit->accumulates = json_member(item, "lost_updates_fraction") != NULL;
  reader_reason(item, "reason", &fit->reason);
  return STATUS_OK;
}

static enum status read_numbers(struct plan_reader *r, const struct json *item,
                                const char *const *keys, double *const *out, size_t count) {
  for (size_t k = 0; k < count; k++) {
    const struct json *number;
    TRY(reader_member(r, item, keys[k], &number));
    if (!json_to_number(number, out[k]))
      return READ_FAIL(r, "\"%s\" is not a number", keys[k]);
  }
  return STATUS_OK;
}

static enum status read_window_scales(struct plan_reader *r, const struct json *item,
                                      struct operand_plan *out) {
  const struct json *list = json_member(item, "scale_log2_by_window"), *scale;
  int *scales = arena_array(r->arena, (size_t)json_count(list), sizeof *scales);
  for (scale = json_first(list); scale; scale = scale->next) {
    if (!json_is(scale, JSON_NUMBER) || fabs(scale->number) > 1000)
      return READ_FAIL(r, "\"scale_log2_by_window\" is not a list of small numbers");
    scales[out->n_window_scales++] = (int)scale->number;
  }
  out->window_scales = list ? scales : NULL;
  return STATUS_OK;
}

// Of a weight in blocks; the scales follow from the weight.
static enum status read_blocks(struct plan_reader *r, const struct json *object, int v,
                               struct operand_plan *o) {
  const Onnx__TensorProto *weight = graph_constant(r->graph, v);
  if (!weight)
    return READ_FAIL(r, "an \"operand\" of 4 bits is for constants");
  const struct json *axis, *size, *bytes;
  TRY(reader_member(r, object, "axis", &axis));
  TRY(reader_member(r, object, "block_size", &size));
  TRY(reader_member(r, object, "bytes", &bytes));
  TRY(reader_integer(r, object, "axis", &o->axis));
  if (o->axis < 0 || (size_t)o->axis >= weight->n_dims)
    return READ_FAIL(r, "operand.axis is not an axis of the weight");
  double length = (double)weight->dims[o->axis];
  if (!json_is(size, JSON_NUMBER) || !(size->number >= 1 && size->number <= length) ||
      size->number != floor(size->number))
    return READ_FAIL(r, "operand.block_size is not a whole number from 1 to %.0f, the axis' length",
                     length);
  o->block_size = (int64_t)size->number;
  o->bytes = json_is(bytes, JSON_NUMBER) && bytes->number >= 0 && bytes->number < 1e18
                 ? (uint64_t)bytes->number
                 : 0;
  const struct json *most = json_member(object, "scale_log2_most");
  o->scale_log2_most = o->scale_log2;
  if (most && is_scale(most))
    o->scale_log2_most = (int)most->number;
  return STATUS_OK;
}

static enum status read_operand(struct plan_reader *r, const struct json *item, int v) {
  const struct json *object = json_member(item, "operand"), *scale;
  if (!object)
    return STATUS_OK;
  struct operand_plan *o = arena_alloc(r->arena, sizeof *o);
  *o = (struct operand_plan){0};
  static const char *const known[] = {"format",
                                      "scale_log2",
                                      "scale_log2_most",
                                      "axis",
                                      "block_size",
                                      "bytes",
                                      "saturate",
                                      "headroom",
                                      "zero_fraction",
                                      "subnormal_fraction",
                                      "sqnr_db",
                                      "scale_log2_by_window",
                                      NULL};
  json_push_key(&r->at, "operand");
  TRY(reader_keys(r, object, known));
  json_pop(&r->at);
  static const char *const keys[] = {"headroom", "zero_fraction", "subnormal_fraction", "sqnr_db"};
  double *const out[] = {&o->headroom, &o->zero_fraction, &o->subnormal_fraction, &o->sqnr_db};
  TRY(read_numbers(r, object, keys, out, sizeof keys / sizeof keys[0]));
  TRY(reader_member(r, object, "scale_log2", &scale));
  int least, most;
  quantise_scale_range(r->plan, &least, &most);
  if (!json_is(scale, JSON_NUMBER) || scale->number < least || scale->number > most)
    return READ_FAIL(r, "operand.scale_log2 is not a number from %d to %d", least, most);
  o->scale_log2 = (int)scale->number;
  if (policy_is_weight_format(r->plan->operand_format))
    TRY(read_blocks(r, object, v, o));
  r->plan->values[v].operand = o;
  return read_window_scales(r, object, o);
}

// What products read in the operand format needs a scale, and nothing else has one.
static enum status check_operands(struct plan_reader *r) {
  struct plan *p = r->plan;
  bool *read = arena_array(r->arena, (size_t)p->n_values, sizeof *read);
  for (int n = 0; n < p->n_nodes; n++)
    for (int k = 0; k < 2; k++) {
      if (!plan_is_narrow_operand(r->graph, p, n, k))
        continue;
      int v = r->graph->nodes[n].inputs[k];
      read[v] = true;
      if (!p->values[v].operand)
        return READ_FAIL(r, "%s has operands in %s: the value \"%s\" needs an \"operand\"",
                         graph_node_label(r->graph, n), formats[p->operand_format].name,
                         graph_value_label(r->graph, v));
      if (!quantise_scale_exact(r->graph, p, n, k, p->values[v].operand->scale_log2))
        return READ_FAIL(r,
                         "the scale of operand \"%s\" and that of \"%s\" together leave the format",
                         graph_value_label(r->graph, v), graph_node_label(r->graph, n));
    }
  for (int v = 0; v < p->n_values; v++)
    if (!read[v])
      p->values[v].operand = NULL;
  return STATUS_OK;
}

static const char *copy_text(struct plan_reader *r, struct copy copy) {
  const char *name = formats[copy.format].name;
  return copy.scale_log2 ? arena_printf(r->arena, "%s times 2^%d", name, copy.scale_log2) : name;
}

static bool is_edited(const struct plan_reader *r, int n) {
  return n >= 0 && r->plan->nodes[n].reason == REASON_EDITED;
}

// Where a node was edited, its values follow.
static bool follows_an_edit(const struct plan_reader *r, int v) {
  const struct value *value = &r->graph->values[v];
  bool edited = is_edited(r, value->producer);
  for (int u = 0; u < value->n_uses && !edited; u++)
    edited = is_edited(r, value->uses[u].node);
  return edited;
}

// What decides how v is stored, and which members of the plan to edit to change its format or, if
// `scale`, its scale.
static void find_authority(struct plan_reader *r, int v, bool scale, const char **says,
                           const char **edit) {
  const struct value *value = &r->graph->values[v];
  bool constant = graph_is_constant(r->graph, v);
  if (value->origin == ORIGIN_NODE && !constant) {
    *says = arena_printf(r->arena, "node %s, which makes it, says otherwise",
                         graph_node_label(r->graph, value->producer));
    *edit = scale ? "that node's \"output_scale_log2\"" : "that node's \"format\"";
  } else if (constant || (value->origin == ORIGIN_INPUT && r->plan->narrow_inputs && !scale)) {
    *says = "the nodes that read it say otherwise";
    *edit = scale ? "their \"input_scales_log2\"" : "their \"format\"";
  } else {
    bool input = value->origin == ORIGIN_INPUT && !r->plan->narrow_inputs;
    *says = input ? "policy.inputs keeps the model's inputs as they are"
                  : "what a graph is given comes as it is";
    *edit = scale ? "\"input_scales_log2\" of nodes that read it, for the copy that they take"
                  : "\"format\" of nodes that read it, for the copy that they take";
  }
}

// A value is stored as its nodes say: an edit of it alone changes nothing.
static void warn_of_contradiction(struct plan_reader *r, int v, struct copy said) {
  if (r->errors.count > 0 || r->differing++ >= CONTRADICTIONS_SHOWN)
    return;  // what a refused node says, no value can follow
  const struct value_plan *stays = &r->plan->values[v];
  const char *says, *edit;
  find_authority(r, v, said.format == stays->format, &says, &edit);
  diag_warn(r->diag, "%s: values[%d]: %s is %s here, but %s: it stays %s; edit %s", r->path,
            r->at.indices[r->at.depth - 1], graph_value_label(r->graph, v), copy_text(r, said),
            says, copy_text(r, (struct copy){stays->format, stays->scale_log2}), edit);
}

static enum status read_value(struct plan_reader *r, const struct json *item) {
  static const char *const keys[] = {"value",           "scope",
                                     "format",          "scale_log2",
                                     "constant",        "reason",
                                     "absmax",          "headroom",
                                     "zero_fraction",   "subnormal_fraction",
                                     "sqnr_db",         "lost_updates_fraction",
                                     "scale_by_window", "measured_relative_l2",
                                     "operand",         NULL};
  TRY(reader_keys(r, item, keys));
  int scope;
  const char *name;
  TRY(find_scope(r, item, &scope));
  TRY(reader_text(r, item, "value", &name));
  int v = map_get(&r->graph->names, scope, name);
  if (v < 0 || !r->plan->values[v].considered)
    return READ_FAIL(r, "the model has no fp32 value \"%s\" there", name);
  enum format_id format;
  TRY(reader_format(r, item, "format", &format));
  const struct json *scale;
  TRY(reader_member(r, item, "scale_log2", &scale));
  if (!is_scale(scale))
    return READ_FAIL(r, "\"scale_log2\" is not a whole number from -126 to 126");
  const struct value_plan *value = &r->plan->values[v];
  bool same = format == value->format && (int)scale->number == value->scale_log2;
  if (!same && !follows_an_edit(r, v))
    warn_of_contradiction(r, v, (struct copy){format, (int)scale->number});
  TRY(read_operand(r, item, v));
  return read_fit(r, item, &r->plan->values[v].fit);
}

// What the model gives out narrow cannot be scaled: whoever reads it there knows of no scale.
static enum status check_given_out(struct plan_reader *r, int v) {
  const struct value *value = &r->graph->values[v];
  if (!r->plan->narrow_outputs || r->plan->values[v].scale_log2 == 0 || value->scope != 0)
    return STATUS_OK;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node < 0)
      return READ_FAIL(r, "\"%s\" is given out narrow, so its node cannot store it at a scale",
                       value->name);
  return STATUS_OK;
}

static enum status read_values(struct plan_reader *r, const struct json *root) {
  struct plan *p = r->plan;
  for (int v = 0; v < p->n_values; v++) {
    bool fp32 = graph_is_fp32(r->graph, v);
    p->values[v] = (struct value_plan){.format = FORMAT_FP32, .considered = fp32};
    if (fp32) {
      p->values[v].format = plan_stored_format(r->graph, p, v);
      p->values[v].scale_log2 = plan_stored_scale(r->graph, p, v);
      TRY(check_given_out(r, v));
    }
  }
  const struct json *values, *item;
  TRY(reader_member(r, root, "values", &values));
  json_push_key(&r->at, "values");
  int k = 0;
  for (item = json_first(values); item; item = item->next) {
    int depth = r->at.depth;
    json_push_index(&r->at, k++);
    if (read_value(r, item) != STATUS_OK)
      diag_collect(&r->errors, r->diag);
    r->at.depth = depth;
  }
  json_pop(&r->at);
  return STATUS_OK;
}

// ---- edits that overflow ----

// Whether v, as the statistics in the file have it, leaves the format of that copy. A constant
// does so as policy.constants says, if that is not to keep it.
static bool overflows(const struct plan_reader *r, int v, struct copy copy) {
  if (copy.format == FORMAT_FP32 || copy.format == FORMAT_COUNT ||
      (graph_is_constant(r->graph, v) && r->plan->constants != CONSTANTS_KEEP_WIDE))
    return false;
  return ldexp(r->plan->values[v].fit.absmax, copy.scale_log2) > formats[copy.format].max;
}

// The first value that overflows where node n reads or makes it; -1: none.
static int overflowing_value(const struct plan_reader *r, int n, struct copy *copy) {
  const struct node *node = &r->graph->nodes[n];
  const struct plan *p = r->plan;
  for (int k = 0; k < node->n_inputs; k++) {
    *copy = (struct copy){plan_input_format(r->graph, p, n, k), plan_input_scale(p, n, k)};
    if (overflows(r, node->inputs[k], *copy))
      return node->inputs[k];
  }
  for (int k = 0; k < node->n_outputs; k++) {
    *copy = (struct copy){plan_output_format(r->graph, p, n, k), p->nodes[n].output_scale};
    if (overflows(r, node->outputs[k], *copy))
      return node->outputs[k];
  }
  return -1;
}

// A person may know better than the samples, so this is no error.
static void warn_of_overflows(struct plan_reader *r) {
  int count = 0;
  for (int n = 0; n < r->plan->n_nodes; n++) {
    struct copy copy;
    int v = is_edited(r, n) ? overflowing_value(r, n, &copy) : -1;
    if (v < 0 || ++count > OVERFLOWS_SHOWN)
      continue;
    diag_warn(r->diag, "%s: node %s was edited to %s, but %s reaches %.3g, and %s ends at %.5g",
              r->path, graph_node_label(r->graph, n), formats[r->plan->nodes[n].format].name,
              graph_value_label(r->graph, v), r->plan->values[v].fit.absmax, copy_text(r, copy),
              ldexp(formats[copy.format].max, -copy.scale_log2));
  }
  if (count > OVERFLOWS_SHOWN)
    diag_warn(r->diag, "%s: %d more edited nodes leave their formats' ranges", r->path,
              count - OVERFLOWS_SHOWN);
}

// ---- the file ----

static enum status read_plan(struct plan_reader *r, const struct json *root) {
  if (!json_is(root, JSON_OBJECT))
    return READ_FAIL(r, "not a plan file");
  TRY(plan_read_head(r, root));
  TRY(read_nodes(r, root));
  TRY(read_values(r, root));
  if (r->errors.count == 0)
    TRY(check_operands(r));
  plan_find_headroom(r->plan, r->graph);
  if (r->errors.count == 0)
    warn_of_overflows(r);
  if (r->differing > CONTRADICTIONS_SHOWN)
    diag_warn(r->diag, "%s: so %s %d more", r->path,
              r->differing == CONTRADICTIONS_SHOWN + 1 ? "is" : "are",
              r->differing - CONTRADICTIONS_SHOWN);
  return diag_list_end(&r->errors, r->diag, "entries cannot be applied, as named above");
}

enum status plan_read(struct plan *p, struct graph *g, const struct plan_file *file,
                      struct arena *a, struct diag *d) {
  *p = (struct plan){
      .values = arena_array(a, (size_t)g->n_values, sizeof *p->values),
      .nodes = arena_array(a, (size_t)g->n_nodes, sizeof *p->nodes),
      .n_values = g->n_values,
      .n_nodes = g->n_nodes,
  };
  struct plan_reader r = {
      .plan = p, .graph = g, .arena = a, .diag = d, .path = file->path, .root = file->root};
  r.scopes.arena = a;
  r.seen = arena_array(a, (size_t)g->n_nodes, sizeof *r.seen);
  for (int s = 0; s < g->n_scopes; s++)
    map_put(&r.scopes, 0, g->scopes[s].path, s);
  r.labels.arena = r.rules.arena = a;
  for (int v = 0; v < g->n_values; v++)
    map_put(&r.labels, 0, graph_value_label(g, v), v);
  return read_plan(&r, r.root);
}

enum status plan_open(struct plan_file *file, const char *path, struct arena *a, struct diag *d) {
  *file = (struct plan_file){.path = path};
  TRY(json_read(&file->root, path, STATUS_POLICY, a, d));
  struct plan_reader r = {.arena = a, .diag = d, .path = path, .root = file->root};
  const struct json *model = json_member(r.root, "model");
  if (!json_member(model, "opset_raised_to"))
    return STATUS_OK;
  json_push_key(&r.at, "model");
  TRY(reader_integer(&r, model, "opset_raised_to", &file->opset_raised_to));
  if (file->opset_raised_to < RAISE_OPSET_LEAST || file->opset_raised_to > RAISE_OPSET_MOST)
    return READ_FAIL(&r, "opset_raised_to is out of range");
  return STATUS_OK;
}
