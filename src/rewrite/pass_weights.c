// Weights of matrix products in 4 bits: codes, two to a byte, and a scale for each block of them,
// in front of a DequantizeLinear that gives the weight in the format that its products run in. The
// scales follow from the weight (plan_weights.h); the plan has axis and block size.
//
// ONNX: y = code * y_scale, exact here, since y_scale is a power of two. The scale tensor has the
// weight's dims, but as many elements along the axis as there are blocks. Without a zero point, the
// codes themselves say the type.
#include "pass.h"
#include "plan_weights.h"
#include "proto.h"
#include "round.h"
#include "tensor.h"

#include <string.h>

// One weight on its way into blocks.
struct weighing {
  int value;
  const struct operand_plan *operand;
  struct blocks blocks;
  const char *codes;  // name of the tensor
  size_t rank;
  const int64_t *dims;
  int *scales;  // log2, of the codes
};

// A scale tensor in the copy's format: 2^(s - k) for what is carried times 2^s and coded times 2^k.
static const char *add_scales(struct rewrite *w, const struct weighing *t, struct copy copy) {
  size_t n = blocks_count(&t->blocks);
  const struct format *f = &formats[copy.format];
  struct arena scratch = {0};
  float *factors = arena_array(&scratch, n, sizeof *factors);
  weights_factors(t->scales, n, -1, factors);
  // Two factors, each a power of two: the scale itself.
  struct round_mode mode = {.format = f, .scale_log2 = copy.scale_log2};
  size_t size = (size_t)format_bytes(f, n);
  uint8_t *data = arena_array(w->arena, size, 1);
  round_encode_array(&mode, factors, data, n);
  arena_free(&scratch);
  int64_t *dims = arena_array(w->arena, t->rank, sizeof *dims);
  memcpy(dims, t->dims, t->rank * sizeof *dims);
  int64_t length = dims[t->operand->axis], size_of_block = t->operand->block_size;
  dims[t->operand->axis] = length / size_of_block + (length % size_of_block != 0);
  const char *name = rewrite_name_with(w, t->value, "scale");
  rewrite_add_constant(w, t->value,
                       tensor_new(w->arena, name, f->onnx_type, t->rank, dims, data, size));
  w->report->bytes_after += size;
  w->report->weight_bytes += size;
  return name;
}

static const char *add_dequantise(struct rewrite *w, const struct weighing *t, struct copy copy) {
  const char *from = formats[w->plan->operand_format].name, *to = formats[copy.format].name;
  const char *suffix = copy.scale_log2
                           ? arena_printf(w->arena, "%s_%s_times_2^%d", from, to, copy.scale_log2)
                           : arena_printf(w->arena, "%s_%s", from, to);
  const char *output = rewrite_name_with(w, t->value, suffix);
  Onnx__NodeProto *node = rewrite_new_node(w, "DequantizeLinear", NULL, output);
  node->n_input = 2;
  node->input = arena_array(w->arena, node->n_input, sizeof *node->input);
  node->input[0] = arena_strdup(w->arena, t->codes);
  node->input[1] = arena_strdup(w->arena, add_scales(w, t, copy));
  proto_add_int(w->arena, node, "axis", t->operand->axis);
  proto_add_int(w->arena, node, "block_size", t->operand->block_size);
  rewrite_say(w, node,
              arena_printf(w->arena, "added: %s in %s", w->graph->values[t->value].name, to));
  rewrite_add_node(w, t->value, node);
  w->report->dequantised++;
  return output;
}

// One DequantizeLinear for each format and scale in which products read the weight.
static void connect(struct rewrite *w, const struct weighing *t) {
  const struct value *value = &w->graph->values[t->value];
  struct {
    struct copy copy;
    const char *name;
  } *made = NULL;
  size_t n_made = 0, capacity = 0;
  for (int u = 0; u < value->n_uses; u++) {
    const struct use *use = &value->uses[u];
    if (use->node < 0 || !plan_is_narrow_operand(w->graph, w->plan, use->node, use->index))
      continue;
    struct copy copy = {w->plan->nodes[use->node].format,
                        plan_input_scale(w->plan, use->node, use->index)};
    size_t i = 0;
    while (i < n_made && !copy_equal(made[i].copy, copy))
      i++;
    if (i == n_made) {
      made = arena_grow(w->arena, made, &capacity, n_made + 1, sizeof *made);
      made[n_made].copy = copy;
      made[n_made++].name = add_dequantise(w, t, copy);
    }
    w->graph->nodes[use->node].proto->input[use->index] = arena_strdup(w->arena, made[i].name);
  }
}

// The codes of x, which is spoilt, as a tensor.
static Onnx__TensorProto *encode(struct rewrite *w, const struct weighing *t, float *x,
                                 struct arena *scratch) {
  const struct format *f = &formats[w->plan->operand_format];
  struct round_mode mode = {.format = f, .saturate = true};
  size_t n = blocks_elements(&t->blocks), n_blocks = blocks_count(&t->blocks);
  size_t size = (size_t)format_bytes(f, n);
  float *factors = arena_array(scratch, n_blocks, sizeof *factors);
  weights_factors(t->scales, n_blocks, 1, factors);
  blocks_multiply(&t->blocks, x, factors);
  uint8_t *data = arena_array(w->arena, size, 1);
  round_encode_array(&mode, x, data, n);
  return tensor_new(w->arena, t->codes, f->onnx_type, t->rank, t->dims, data, size);
}

static enum status store(struct rewrite *w, int v, const struct tensor *wide, struct arena *scratch,
                         struct diag *d) {
  bool in_place = plan_is_only_operand(w->graph, w->plan, v);
  struct weighing t = {
      .value = v,
      .operand = w->plan->values[v].operand,
      .codes = in_place ? w->graph->values[v].name
                        : rewrite_name(w, v, (struct copy){w->plan->operand_format, 0}),
      .rank = wide->rank,
      .dims = wide->dims,
  };
  t.blocks = blocks_along(t.dims, t.rank, (size_t)t.operand->axis, (size_t)t.operand->block_size);
  float *x = arena_array(scratch, wide->count, sizeof *x);
  t.scales = arena_array(scratch, blocks_count(&t.blocks), sizeof *t.scales);
  tensor_to_float(wide, x);
  if (!weights_scales(w->plan, &t.blocks, x, t.scales)) {
    diag_at(d, NULL, NULL, w->graph->values[v].name);
    return diag_fail(d, STATUS_POLICY, "the plan stores a weight in %s that is not finite",
                     formats[w->plan->operand_format].name);
  }
  Onnx__TensorProto *codes = encode(w, &t, x, scratch);
  // What else reads the weight is counted by pass_constants, with its bytes before.
  w->report->bytes_before += in_place ? wide->size : 0;
  w->report->bytes_after += codes->raw_data.len;
  w->report->weight_bytes += codes->raw_data.len;
  w->report->weights++;
  if (in_place)
    rewrite_replace_constant(w, v, codes);
  else
    rewrite_add_constant(w, v, codes);
  connect(w, &t);
  return STATUS_OK;
}

// Runs before pass_constants, which changes the constants that it reads.
enum status pass_weights(struct rewrite *w, struct diag *d) {
  for (int v = 0; v < w->graph->n_values; v++) {
    const struct operand_plan *o = w->plan->values[v].operand;
    if (!o || !o->block_size || !rewrite_is_constant(w, v))
      continue;
    struct arena scratch = {0};
    struct tensor wide;
    enum status status = tensor_read(w->model, graph_constant(w->graph, v), &scratch, &wide, d);
    // tensor_new copies dims before the wide tensor is replaced.
    if (status == STATUS_OK)
      status = store(w, v, &wide, &scratch, d);
    arena_free(&scratch);
    TRY(status);
  }
  return STATUS_OK;
}
