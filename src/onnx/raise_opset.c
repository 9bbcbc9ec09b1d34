// Raises the opset. Versions of operators differ from opset to opset in three ways: the new one
// takes more types, or has more attributes and inputs whose absence means what it did (nothing to
// do; this is the usual case); it wants as an input what was an attribute, or under another name
// (an adapter in raise_inputs.c); or it means something else (an adapter that says the old meaning,
// or a refusal). The table has every change of the last two kinds up to RAISE_OPSET_MOST; that none
// is missing was checked against all versions of all schemas of ONNX 1.23 and against its list of
// changes (docs/Changelog.md), and tests run both sides.
//
// A pair of QuantizeLinear and DequantizeLinear in int8 keeps its meaning past opset 20, but ONNX
// Runtime 1.30 and 1.32 then refuse, from level "extended" on, one whose result they move past an
// Unsqueeze, say: the QuantizeLinear that they insert has an output_dtype of int8 and a zero point
// of uint8. An output_dtype of our own does not help; to leave out the zero points (of zero) does
// there, but makes them refuse Add, Concat, Softmax and more, which load as they are. So nothing is
// written here, and the trial of the result tells that the raise is to blame.
#include "raise_opset.h"

#include "raise_adapters.h"
#include "ranks.h"

#include <string.h>

enum { OPSET_WITHOUT_CONSUMED = 6, FIRST_SUFFIX = 2 };

static const struct adapter adapters[] = {
    {"Add", 7, raise_broadcast, NULL, 0},
    {"Affine", 10, raise_affine, NULL, 0},
    {"And", 7, raise_broadcast, NULL, 0},
    {"BatchNormalization", 7, raise_drop, "is_test", 0},
    {"BatchNormalization", 9, raise_spatial, NULL, 0},
    {"BatchNormalization", 14, raise_batch_outputs, NULL, 0},
    {"Cast", 6, raise_cast, NULL, 0},
    {"Clip", 11, raise_clip, NULL, 0},
    {"Concat", 4, raise_concat, NULL, 0},
    {"Crop", 10, raise_crop, NULL, 0},
    {"DFT", 20, raise_dft, NULL, 0},
    {"Div", 7, raise_broadcast, NULL, 0},
    {"Dropout", 7, raise_drop, "is_test", 0},
    {"Dropout", 10, raise_mask, NULL, 0},
    {"Dropout", 12, raise_dropout_ratio, NULL, 0},
    {"DynamicSlice", 10, raise_to_slice, NULL, 0},
    {"Equal", 7, raise_broadcast, NULL, 0},
    {"GRU", 7, raise_drop, "output_sequence", 0},
    {"Gemm", 7, raise_drop, "broadcast", 0},
    {"GlobalLpPool", 2, raise_whole_p, NULL, 0},
    {"Greater", 7, raise_broadcast, NULL, 0},
    {"GridSample", 20, raise_grid_sample, NULL, 0},
    {"GroupNormalization", 21, raise_groups, NULL, 0},
    {"Hardmax", 13, raise_softmax, NULL, 0},
    {"ImageScaler", 10, raise_image_scaler, NULL, 0},
    {"LSTM", 7, raise_drop, "output_sequence", 0},
    {"Less", 7, raise_broadcast, NULL, 0},
    {"LogSoftmax", 13, raise_softmax, NULL, 0},
    {"LpPool", 2, raise_whole_p, NULL, 0},
    {"Mul", 7, raise_broadcast, NULL, 0},
    {"Or", 7, raise_broadcast, NULL, 0},
    {"PRelu", 7, raise_slope, NULL, 0},
    {"Pad", 2, raise_paddings, NULL, 0},
    {"Pad", 11, raise_pad, NULL, 0},
    {"ParametricSoftplus", 10, raise_scaled_function, "Softplus", 0},
    {"Pow", 7, raise_broadcast, NULL, 0},
    {"RNN", 7, raise_drop, "output_sequence", 0},
    {"ReduceL1", 18, raise_ints_to_input, "axes", 1},
    {"ReduceL2", 18, raise_ints_to_input, "axes", 1},
    {"ReduceLogSum", 18, raise_ints_to_input, "axes", 1},
    {"ReduceLogSumExp", 18, raise_ints_to_input, "axes", 1},
    {"ReduceMax", 18, raise_ints_to_input, "axes", 1},
    {"ReduceMean", 18, raise_ints_to_input, "axes", 1},
    {"ReduceMin", 18, raise_ints_to_input, "axes", 1},
    {"ReduceProd", 18, raise_ints_to_input, "axes", 1},
    {"ReduceSum", 13, raise_ints_to_input, "axes", 1},
    {"ReduceSumSquare", 18, raise_ints_to_input, "axes", 1},
    {"Reshape", 5, raise_new_shape, NULL, 0},
    {"Resize", 11, raise_resize, NULL, 0},
    {"Resize", 13, raise_resize_modes, NULL, 0},
    {"RoiAlign", 16, raise_roi_align, NULL, 0},
    {"Scale", 10, raise_scale, NULL, 0},
    {"ScaledTanh", 10, raise_scaled_function, "Tanh", 0},
    {"Scan", 9, raise_scan, NULL, 0},
    {"Scatter", 11, raise_to_scatter_elements, NULL, 0},
    {"Selu", 6, raise_selu, NULL, 0},
    {"Slice", 10, raise_slice, NULL, 0},
    {"Softmax", 13, raise_softmax, NULL, 0},
    {"Split", 2, raise_axis_of_split, NULL, 0},
    {"Split", 13, raise_ints_to_input, "split", 1},
    {"Split", 18, raise_split_sizes, NULL, 0},
    {"Squeeze", 13, raise_ints_to_input, "axes", 1},
    {"Sub", 7, raise_broadcast, NULL, 0},
    {"Tile", 6, NULL, "takes a number for each axis, not one and its axis", 0},
    {"TopK", 10, raise_top_k, NULL, 0},
    {"Unsqueeze", 13, raise_ints_to_input, "axes", 1},
    {"Upsample", 7, raise_upsample_sides, NULL, 0},
    {"Upsample", 9, raise_upsample_scales, NULL, 0},
    {"Upsample", 10, raise_to_resize, NULL, 0},
    {"Xor", 7, raise_broadcast, NULL, 0},
};

static const struct adapter *find_adapter(const char *op, int since) {
  for (size_t i = 0; i < sizeof adapters / sizeof adapters[0]; i++)
    if (adapters[i].since == since && strcmp(adapters[i].op, op) == 0)
      return &adapters[i];
  return NULL;
}

// A hint of Caffe2's, which many operators had.
static enum status drop_consumed_inputs(struct raising *r, int n, Onnx__NodeProto *node) {
  const struct adapter row = {.op = node->op_type, .since = OPSET_WITHOUT_CONSUMED};
  Onnx__AttributeProto *dropped;
  return raise_take(r, &(struct subject){n, node, &row}, "consumed_inputs", &dropped);
}

// Takes the node through every version of its operator between the two opsets.
static enum status raise_node(struct raising *r, int n, int from) {
  const struct node *in = &r->graph->nodes[n];
  Onnx__NodeProto *node = in->proto;
  bool is_own = !node->domain || !node->domain[0] || strcmp(node->domain, "ai.onnx") == 0;
  if (is_own && in->function < 0 && from < OPSET_WITHOUT_CONSUMED)
    TRY(drop_consumed_inputs(r, n, node));
  for (int opset = from + 1; is_own && in->function < 0 && opset <= r->to; opset++) {
    struct adapter step = {.op = node->op_type, .since = opset};
    struct subject s = {n, node, &step};
    const struct schema *schema = schema_find(r->graph->schemas, "", node->op_type, opset);
    const struct adapter *how = find_adapter(node->op_type, opset);
    if (!schema)
      return raise_refuse(r, &s, "is not known here");
    if (schema->since != opset)
      continue;
    if (schema->deprecated && !how)
      return raise_refuse(r, &s, "was withdrawn");
    if (!how)
      continue;
    s.how = how;
    if (node->n_input == 0)
      return raise_refuse(r, &s, "has no input here");
    TRY(how->adapt ? how->adapt(r, &s) : raise_refuse(r, &s, how->name));
  }
  raise_append(r, node);
  return STATUS_OK;
}

static enum status raise_scope(struct raising *r, int scope) {
  struct scope *s = &r->graph->scopes[scope];
  int from = graph_opset(r->graph, scope, "");
  r->list = NULL;
  r->count = r->capacity = 0;
  for (int i = 0; i < s->n_nodes; i++)
    TRY(raise_node(r, s->nodes[i], from > 0 ? from : r->to));
  if (s->graph) {
    s->graph->node = r->list;
    s->graph->n_node = r->count;
  } else {
    s->function->node = r->list;
    s->function->n_node = r->count;
  }
  return STATUS_OK;
}

static void raise_imports(struct raising *r, Onnx__OperatorSetIdProto **imports, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const char *domain = imports[i]->domain;
    bool is_own = !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0;
    if (is_own && imports[i]->version < r->to)
      imports[i]->version = r->to;
  }
}

static void collect_names(struct raising *r) {
  const struct graph *g = r->graph;
  r->names.arena = r->arena;
  for (int v = 0; v < g->n_values; v++)
    map_put(&r->names, 0, g->values[v].name, FIRST_SUFFIX);
  for (int n = 0; n < g->n_nodes; n++)
    if (g->nodes[n].proto->name)
      map_put(&r->names, 0, g->nodes[n].proto->name, FIRST_SUFFIX);
}

// ONNX Runtime runs a function's body at the model's own opset, whatever the function imports.
static void warn_of_functions(const struct raising *r, int from) {
  for (int s = 0; s < r->graph->n_scopes; s++) {
    const struct scope *scope = &r->graph->scopes[s];
    if (scope->kind != SCOPE_FUNCTION || scope->opset == 0 || scope->opset == from)
      continue;
    diag_warn(
        r->diag,
        "%s imports opset %d and the model %d, at which ONNX Runtime runs it as well: raised, "
        "the model may compute something else there",
        scope->path, scope->opset, from);
    return;
  }
}

enum status raise_opset(struct model *m, struct graph *g, int opset, struct arena *a,
                        struct diag *d) {
  struct raising r = {.model = m, .graph = g, .arena = a, .diag = d, .to = opset};
  int from = graph_opset(g, 0, "");
  if (from >= opset || from == 0)
    return STATUS_OK;
  warn_of_functions(&r, from);
  collect_names(&r);
  r.ranks = ranks_find(g, a);
  for (int s = 0; s < g->n_scopes; s++)
    TRY(raise_scope(&r, s));
  raise_imports(&r, m->proto->opset_import, m->proto->n_opset_import);
  for (size_t i = 0; i < m->proto->n_functions; i++)
    raise_imports(&r, m->proto->functions[i]->opset_import, m->proto->functions[i]->n_opset_import);
  m->raised_to = opset;
  return STATUS_OK;
}
