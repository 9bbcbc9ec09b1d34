// Operands of matrix products in the plan's operand format: one QuantizeLinear per value, behind
// its producer, and one DequantizeLinear per format that its products run in. A weight is stored as
// the codes that a QuantizeLinear would give, in front of a DequantizeLinear alone. Engines
// recognise the pair and multiply the codes; others compute the same from the values.
//
// ONNX: codes = saturate(round(x / y_scale)), so y_scale is the inverse of the plan's scale, in the
// type of what goes in or comes out; the zero point says the code's type. All are per tensor.
#include "pass.h"
#include "proto.h"
#include "round.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

enum { IR_WITH_FLOAT8 = 9, IR_WITH_FLOAT4 = 11, IR_WITHOUT_INPUTS = 4 };

static void add_input(struct rewrite *w, Onnx__NodeProto *node, size_t k, const char *name) {
  node->input[k] = arena_strdup(w->arena, name);
}

// A scalar constant that holds 2^power in format f, and its name.
static const char *add_scale(struct rewrite *w, int v, int power, enum format_id f) {
  const char *name = rewrite_name_with(w, v, "scale");
  rewrite_add_constant(w, v, rewrite_power_of_two(w, name, power, f));
  return name;
}

static const char *add_zero_point(struct rewrite *w, int v) {
  static const int64_t scalar[1] = {0};
  static const uint8_t zero[1] = {0};
  const char *name = rewrite_name_with(w, v, "zero_point");
  rewrite_add_constant(w, v,
                       tensor_new(w->arena, name, formats[w->plan->operand_format].onnx_type, 0,
                                  scalar, zero, sizeof zero));
  return name;
}

// What goes in or comes out of a value's pair: the value in a format and at a scale, the y_scale
// that belongs to it, and, made by a DequantizeLinear, its name.
struct pair_end {
  struct copy copy;
  const char *scale, *value;  // NULL: not made yet
};

// The parts of one value's pair.
struct pair {
  const char *codes, *zero_point;
  struct pair_end *ends;
  size_t n_ends, capacity_ends;
};

static struct pair_end *end_at(struct rewrite *w, struct pair *pair, struct copy copy) {
  for (size_t i = 0; i < pair->n_ends; i++)
    if (copy_equal(pair->ends[i].copy, copy))
      return &pair->ends[i];
  pair->ends =
      arena_grow(w->arena, pair->ends, &pair->capacity_ends, pair->n_ends + 1, sizeof *pair->ends);
  pair->ends[pair->n_ends] = (struct pair_end){.copy = copy};
  return &pair->ends[pair->n_ends++];
}

// A value that is carried times 2^s and coded times 2^k has y_scale = 2^(s - k).
static const char *scale_in(struct rewrite *w, int v, struct pair *pair, struct copy copy) {
  struct pair_end *end = end_at(w, pair, copy);
  if (!end->scale)
    end->scale =
        add_scale(w, v, copy.scale_log2 - w->plan->values[v].operand->scale_log2, copy.format);
  return end->scale;
}

static Onnx__NodeProto *new_node(struct rewrite *w, const char *op, const char *output) {
  Onnx__NodeProto *node = rewrite_new_node(w, op, NULL, output);
  node->n_input = 3;
  node->input = arena_array(w->arena, node->n_input, sizeof *node->input);
  return node;
}

static bool only_products_read(const struct rewrite *w, int v) {
  const struct value *value = &w->graph->values[v];
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node < 0 || !plan_is_narrow_operand(w->graph, w->plan, use->node, use->index))
      return false;
  }
  return true;
}

// An engine drops a Relu that a QuantizeLinear alone reads (entry 5 of plan_engine.c): a Max with
// zero computes the same and stays.
static void replace_relu(struct rewrite *w, int n) {
  const struct node *node = &w->graph->nodes[n];
  if (!node_is(node, "Relu") || node->n_inputs != 1 || node->inputs[0] < 0 ||
      strcmp(node->proto->op_type, "Relu") != 0)
    return;
  static const int64_t scalar[1] = {0};
  static const uint8_t zero[sizeof(float)] = {0};
  const struct format *f = &formats[w->plan->nodes[n].format];
  const char *name = rewrite_name_with(w, node->outputs[0], "zero");
  rewrite_add_constant(
      w, node->inputs[0],
      tensor_new(w->arena, name, f->onnx_type, 0, scalar, zero, (size_t)f->stored_bits / 8));
  Onnx__NodeProto *max = node->proto;
  char *input = max->input[0];
  max->op_type = arena_strdup(w->arena, "Max");
  max->n_input = 2;
  max->input = arena_array(w->arena, max->n_input, sizeof *max->input);
  max->input[0] = input;
  add_input(w, max, 1, name);
  rewrite_say(w, max, "was Relu, which ONNX Runtime drops in front of a QuantizeLinear");
}

// Whether a reader of the value may be gone before the engine looks for a QuantizeLinear: it puts
// the bodies of functions and of branches in their place, and folds Casts.
static bool is_read_from_afar(const struct graph *g, int v) {
  const struct value *value = &g->values[v];
  if (value->is_output && value->scope != 0)
    return true;
  for (int u = 0; u < value->n_uses; u++) {
    if (value->uses[u].node < 0)
      continue;
    const struct node *reader = &g->nodes[value->uses[u].node];
    if (reader->scope != value->scope || reader->function >= 0 || reader->n_bodies > 0 ||
        node_is(reader, "Cast") || node_is(reader, "CastLike") || node_is(reader, "Identity"))
      return true;
  }
  return false;
}

static void keep_rectifiers(struct rewrite *w) {
  for (int n = 0; n < w->graph->n_nodes; n++) {
    const struct node *node = &w->graph->nodes[n];
    if (node_is(node, "Relu") && node->n_outputs == 1 && node->outputs[0] >= 0 &&
        graph_is_fp32(w->graph, node->outputs[0]) && is_read_from_afar(w->graph, node->outputs[0]))
      replace_relu(w, n);
  }
}

static void add_quantise(struct rewrite *w, int v, struct pair *pair) {
  const struct value *value = &w->graph->values[v];
  const char *from = value->name;  // pass_casts may have renamed what is stored
  if (value->origin == ORIGIN_NODE)
    from = w->graph->nodes[value->producer].proto->output[value->output];
  const struct value_plan *stored = &w->plan->values[v];
  pair->codes = rewrite_name(w, v, (struct copy){w->plan->operand_format, 0});
  Onnx__NodeProto *node = new_node(w, "QuantizeLinear", pair->codes);
  add_input(w, node, 0, from);
  add_input(w, node, 1, scale_in(w, v, pair, (struct copy){stored->format, stored->scale_log2}));
  add_input(w, node, 2, pair->zero_point);
  proto_add_int(w->arena, node, "saturate", 1);
  rewrite_say(w, node,
              arena_printf(w->arena, "added: %s in %s", value->name,
                           formats[w->plan->operand_format].name));
  rewrite_add_node(w, v, node);
  w->report->quantised++;
}

static const char *add_dequantise(struct rewrite *w, int v, struct pair *pair, struct copy copy) {
  const char *scale = scale_in(w, v, pair, copy);
  struct pair_end *end = end_at(w, pair, copy);
  if (end->value)
    return end->value;
  const char *from = formats[w->plan->operand_format].name, *to = formats[copy.format].name;
  end->value = rewrite_name_with(
      w, v,
      copy.scale_log2 ? arena_printf(w->arena, "%s_%s_times_2^%d", from, to, copy.scale_log2)
                      : arena_printf(w->arena, "%s_%s", from, to));
  Onnx__NodeProto *node = new_node(w, "DequantizeLinear", end->value);
  add_input(w, node, 0, pair->codes);
  add_input(w, node, 1, scale);
  add_input(w, node, 2, pair->zero_point);
  rewrite_say(w, node, arena_printf(w->arena, "added: %s in %s", w->graph->values[v].name, to));
  rewrite_add_node(w, v, node);
  w->report->dequantised++;
  return end->value;
}

static void quantise_value(struct rewrite *w, int v, struct pair *pair) {
  const struct value *value = &w->graph->values[v];
  pair->zero_point = add_zero_point(w, v);
  if (!pair->codes) {
    if (value->origin == ORIGIN_NODE && only_products_read(w, v))
      replace_relu(w, value->producer);
    add_quantise(w, v, pair);
  }
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node < 0 || !plan_is_narrow_operand(w->graph, w->plan, use->node, use->index))
      continue;
    struct copy copy = {w->plan->nodes[use->node].format,
                        plan_input_scale(w->plan, use->node, use->index)};
    add_input(w, w->graph->nodes[use->node].proto, (size_t)use->index,
              add_dequantise(w, v, pair, copy));
  }
}

enum status pass_quantise(struct rewrite *w, struct diag *d) {
  (void)d;
  for (int v = 0; v < w->graph->n_values; v++) {
    if (!w->plan->values[v].operand || rewrite_is_constant(w, v))
      continue;
    struct pair pair = {0};
    quantise_value(w, v, &pair);
  }
  if (w->report->quantised)
    keep_rectifiers(w);
  // Where initializers need not be inputs; older models say their types by the same numbers.
  Onnx__ModelProto *m = w->model->proto;
  int64_t knows =
      policy_is_weight_format(w->plan->operand_format) ? IR_WITH_FLOAT4 : IR_WITH_FLOAT8;
  if (w->report->dequantised && m->ir_version >= IR_WITHOUT_INPUTS && m->ir_version < knows)
    m->ir_version = knows;
  return STATUS_OK;
}

// ---- weights ----

static enum status encode(struct rewrite *w, int v, const Onnx__TensorProto *wide, const char *name,
                          Onnx__TensorProto **out, struct diag *d) {
  struct round_mode mode = {.format = &formats[w->plan->operand_format],
                            .saturate = true,
                            .scale_log2 = w->plan->values[v].operand->scale_log2};
  struct arena scratch = {0};
  struct tensor t;
  uint8_t *codes = NULL;
  enum status status = tensor_read(w->model, wide, &scratch, &t, d);
  if (status == STATUS_OK)
    status = rewrite_room(w, t.count, &codes, d);
  if (status == STATUS_OK) {
    struct tensor_blocks b;
    tensor_begin(&b, w->model, &t);
    while (tensor_next(&b)) {
      round_encode_array(&mode, b.x, codes + b.at, b.n);
      model_passed(w->model, b.n);
    }
    *out = tensor_new(w->arena, name, mode.format->onnx_type, wide->n_dims, wide->dims, codes,
                      t.count);
    (*out)->has_data_location = wide->has_data_location;
    (*out)->data_location = wide->data_location;
    // What else reads the weight is counted by pass_constants, with its bytes before.
    w->report->bytes_before += plan_is_only_operand(w->graph, w->plan, v) ? t.size : 0;
    w->report->bytes_after += t.count;
    w->report->weight_bytes += t.count;
    w->report->weights++;
  }
  arena_free(&scratch);
  return status;
}

// Runs before pass_constants, which changes the constants that it reads.
static enum status quantise_weight(struct rewrite *w, int v, struct diag *d) {
  const Onnx__TensorProto *wide = graph_constant(w->graph, v);
  bool in_place = plan_is_only_operand(w->graph, w->plan, v);
  struct pair pair = {.codes = in_place
                                   ? w->graph->values[v].name
                                   : rewrite_name(w, v, (struct copy){w->plan->operand_format, 0})};
  Onnx__TensorProto *codes;
  TRY(encode(w, v, wide, pair.codes, &codes, d));
  if (in_place)
    rewrite_replace_constant(w, v, codes);
  else
    rewrite_add_constant(w, v, codes);
  quantise_value(w, v, &pair);
  return STATUS_OK;
}

enum status pass_quantise_weights(struct rewrite *w, struct diag *d) {
  for (int v = 0; v < w->graph->n_values; v++)
    if (w->plan->values[v].operand && !w->plan->values[v].operand->block_size &&
        rewrite_is_constant(w, v))
      TRY(quantise_weight(w, v, d));
  return STATUS_OK;
}
