// Nodes whose output type is written in an attribute (ConstantOfShape's `value`, `dtype` of the
// random generators, `to` of a Cast that follows): the attribute says the narrow type. Which
// attribute that is, the operator table says. Attention takes its softmax in the type of its inputs
// unless softmax_precision says otherwise, so a narrow one is told to take it in fp32, as it was.
#include "pass.h"
#include "proto.h"
#include "tensor.h"

#include <string.h>

static enum status write_type(struct rewrite *w, int n, const char *name, enum format_id f,
                              struct diag *d) {
  const struct node *node = &w->graph->nodes[n];
  Onnx__NodeProto *proto = node->proto;
  Onnx__AttributeProto *attribute = node_attribute(proto, name);
  if (!node_is(node, "ConstantOfShape") && !(attribute && attribute->t)) {
    if (attribute)
      attribute->i = formats[f].onnx_type;
    else
      proto_add_int(w->arena, proto, name, formats[f].onnx_type);
    return STATUS_OK;
  }
  static const float zero = 0;  // what ConstantOfShape fills with where nothing else is said
  static const int64_t one_element[] = {1};
  const Onnx__TensorProto *wide =
      attribute && attribute->t ? attribute->t
                                : tensor_new(w->arena, "", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1,
                                             one_element, (const uint8_t *)&zero, sizeof zero);
  Onnx__TensorProto *narrow;
  TRY(rewrite_narrow_tensor(w, wide, wide->name ? wide->name : "", (struct copy){f, 0}, &narrow,
                            d));
  if (attribute)
    attribute->t = narrow;
  else
    proto_add_tensor(w->arena, proto, name, narrow);
  return STATUS_OK;
}

static void keep_softmax_wide(struct rewrite *w, const struct node *node) {
  static const char name[] = "softmax_precision";
  if (node_is(node, "Attention") && !node_attribute(node->proto, name))
    proto_add_int(w->arena, node->proto, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
}

enum status pass_type_attributes(struct rewrite *w, struct diag *d) {
  for (int n = 0; n < w->graph->n_nodes; n++) {
    const struct node *node = &w->graph->nodes[n];
    if (w->plan->nodes[n].format == FORMAT_FP32 || !node->schema)
      continue;
    keep_softmax_wide(w, node);
    for (int i = 0; i < node->schema->n_type_attributes; i++) {
      const struct type_attribute *rule = &node->schema->type_attributes[i];
      if (rule->output >= node->n_outputs || node->outputs[rule->output] < 0)
        continue;
      enum format_id f = plan_output_format(w->graph, w->plan, n, rule->output);
      if (f != FORMAT_COUNT && f != FORMAT_FP32)
        TRY(write_type(w, n, rule->attribute, f, d));
    }
  }
  return STATUS_OK;
}
