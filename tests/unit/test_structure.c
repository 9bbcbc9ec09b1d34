// What a model holds besides nodes and weights, and what refers to these by name: a rewrite keeps
// the one, and lets the other follow. Functions and graphs in unusual places.
#include "support_plan.h"

#include "proto.h"

#include <string.h>

enum { FLOAT = 1, FLOAT16 = 10, UNKNOWN_FIELD = 5000 };

static void input_and_weights(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
}

// ---- every message keeps what a rewrite does not know ----

// Calls visit for a message and all below it.
static void walk(ProtobufCMessage *m, void (*visit)(void *context, ProtobufCMessage *m),
                 void *context) {
  const ProtobufCMessageDescriptor *type = m->descriptor;
  for (unsigned i = 0; i < type->n_fields; i++) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    uint8_t *base = (uint8_t *)m;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
      continue;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      ProtobufCMessage **list = *(ProtobufCMessage ***)(void *)(base + field->offset);
      for (size_t k = 0; k < *(size_t *)(void *)(base + field->quantifier_offset); k++)
        walk(list[k], visit, context);
      continue;
    }
    bool there = !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
                 *(uint32_t *)(void *)(base + field->quantifier_offset) == field->id;
    ProtobufCMessage *child = *(ProtobufCMessage **)(void *)(base + field->offset);
    if (there && child)
      walk(child, visit, context);
  }
  visit(context, m);
}

// The field of a message by its name, or NULL.
static void *field_of(ProtobufCMessage *m, const char *name) {
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
  return field ? (uint8_t *)m + field->offset : NULL;
}

// A field that no version of ONNX knows, and text where the message has a place for it.
static void decorate(void *context, ProtobufCMessage *m) {
  static uint8_t seven[] = {7};
  struct arena *a = context;
  m->n_unknown_fields = 1;
  m->unknown_fields = arena_alloc(a, sizeof *m->unknown_fields);
  m->unknown_fields[0] = (ProtobufCMessageUnknownField){UNKNOWN_FIELD, PROTOBUF_C_WIRE_TYPE_VARINT,
                                                        sizeof seven, seven};
  char **doc = field_of(m, "doc_string"), **denotation = field_of(m, "denotation");
  if (doc)
    *doc = arena_strdup(a, "d");
  if (denotation)
    *denotation = arena_strdup(a, "d");
}

enum { KINDS = 64 };
struct census {
  const char *types[KINDS];
  int found[KINDS], whole[KINDS];
  int n;
};

static void take_census(void *context, ProtobufCMessage *m) {
  struct census *c = context;
  int i = 0;
  while (i < c->n && strcmp(c->types[i], m->descriptor->name) != 0)
    i++;
  if (i == c->n)
    c->types[c->n++] = m->descriptor->name;
  char **doc = field_of(m, "doc_string"), **denotation = field_of(m, "denotation");
  bool whole = m->n_unknown_fields == 1 && m->unknown_fields[0].tag == UNKNOWN_FIELD;
  whole = whole && (!doc || (*doc && strcmp(*doc, "d") == 0));
  whole = whole && (!denotation || (*denotation && strcmp(*denotation, "d") == 0));
  c->found[i]++;
  c->whole[i] += whole;
}

static Onnx__StringStringEntryProto *entry(struct planning *f, const char *key, const char *value) {
  return proto_entry(&f->arena, key, value);
}

// One of a repeated field.
#define ONE(owner, field, item)                                                                    \
  do {                                                                                             \
    (owner)->field = arena_array(&f->arena, 1, sizeof *(owner)->field);                            \
    (owner)->field[0] = (item);                                                                    \
    (owner)->n_##field = 1;                                                                        \
  } while (0)

#define NEW(type, name, init)                                                                      \
  Onnx__##type *name = arena_alloc(&f->arena, sizeof *name);                                       \
  init(name)

static void add_devices(struct planning *f, Onnx__NodeProto *node, const char *tensor) {
  NEW(NodeDeviceConfigurationProto, device, onnx__node_device_configuration_proto__init);
  NEW(ShardingSpecProto, spec, onnx__sharding_spec_proto__init);
  NEW(ShardedDimProto, dim, onnx__sharded_dim_proto__init);
  NEW(SimpleShardedDimProto, simple, onnx__simple_sharded_dim_proto__init);
  NEW(IntIntListEntryProto, group, onnx__int_int_list_entry_proto__init);
  device->configuration_id = arena_strdup(&f->arena, "two");
  spec->tensor_name = arena_strdup(&f->arena, tensor);
  ONE(dim, simple_sharding, simple);
  ONE(spec, sharded_dim, dim);
  ONE(spec, index_to_device_group_map, group);
  ONE(device, sharding_spec, spec);
  ONE(node, device_configurations, device);
}

static void add_training(struct planning *f, const char *weight) {
  NEW(TrainingInfoProto, training, onnx__training_info_proto__init);
  NEW(GraphProto, algorithm, onnx__graph_proto__init);
  NEW(GraphProto, initialization, onnx__graph_proto__init);
  training->algorithm = algorithm;
  training->initialization = initialization;
  ONE(training, update_binding, entry(f, weight, "updated"));
  ONE(training, initialization_binding, entry(f, weight, "first"));
  ONE(algorithm, node, proto_unary(&f->arena, "Neg", "", weight, "updated"));
  ONE(f->b.model, training_info, training);
}

// Something of every kind of message.
static void everything(struct planning *f) {
  static const float ones[] = {1, 1, 1, 1};
  Onnx__ModelProto *model = f->b.model;
  input_and_weights(f);
  build_input(&f->b, "c", "bool[]");
  build_input(&f->b, "s", "seq(float[2,2])");
  build_input(&f->b, "o", "optional(float[2,2])");
  build_floats(&f->b, "trained", "float[2,2]", (float[]){1, 2, 3, 4});
  build_floats(&f->b, "both", "float[2,2]", (float[]){1, 2, 3, 4});
  build_sparse(&f->b, "sparse", 2, 4);
  build_function_begin(&f->b, "local", "Product", "a b", "p", "");
  build_node(&f->b, "MatMul", "a b", "p");
  build_function_end(&f->b);
  build_opset(&f->b, "local", 1);
  Onnx__NodeProto *constant = build_node(&f->b, "Constant", "", "k");
  build_tensor_attribute(&f->b, constant, "value",
                         build_tensor(&f->b, "", "float[2,2]", ones, sizeof ones));
  Onnx__NodeProto *number = build_node(&f->b, "Constant", "", "number");
  build_float(&f->b, number, "value_float", 2);
  Onnx__NodeProto *product = build_node(&f->b, "MatMul", "x w", "h");
  add_devices(f, product, "x");
  build_node(&f->b, "MatMul", "h k", "h2");
  build_node(&f->b, "Mul", "h2 number", "h3");
  build_node(&f->b, "local.Product", "h3 both", "h4");
  build_node(&f->b, "MatMul", "h4 trained", "h5");
  build_node(&f->b, "MatMul", "h5 both", "h6");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  for (int i = 0; i < 2; i++) {
    build_graph_begin(&f->b, branch, i ? "else_branch" : "then_branch");
    build_node(&f->b, "MatMul", "h6 w", i ? "e" : "t");
    build_output(&f->b, i ? "e" : "t", "float[2,2]");
    build_graph_end(&f->b);
  }
  build_value_info(&f->b, "h", "float[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  add_training(f, "trained");
  NEW(TensorAnnotation, annotation, onnx__tensor_annotation__init);
  ONE(annotation, quant_parameter_tensor_names, entry(f, "SCALE_TENSOR", "both"));
  ONE(model->graph, quantization_annotation, annotation);
  NEW(DeviceConfigurationProto, devices, onnx__device_configuration_proto__init);
  ONE(model, configuration, devices);
  ONE(model, metadata_props, entry(f, "author", "somebody"));
  ONE(model->functions[0], metadata_props, entry(f, "author", "somebody"));
  ONE(model->graph, metadata_props, entry(f, "author", "somebody"));
}

static void rewrite_keeps_what_it_does_not_know_in_every_message(void **state) {
  struct planning *f = *state;
  everything(f);
  walk(&f->b.model->base, decorate, &f->arena);
  planning_all(f);
  assert_int_equal(emitted_type(f, "h"), FLOAT16);
  struct census before = {.n = 0}, after = {.n = 0};
  walk(&f->m.proto->base, take_census, &before);
  walk(&f->changed.proto->base, take_census, &after);
  // All that can stand in a model but maps, opaque types and segments of tensors.
  assert_true(before.n >= 24);
  for (int i = 0; i < before.n; i++) {
    assert_int_equal(before.whole[i], before.found[i]);
    int k = 0;
    while (k < after.n && strcmp(after.types[k], before.types[i]) != 0)
      k++;
    if (k == after.n || after.whole[k] < before.whole[i])
      fail_msg("%s: %d of %d kept", before.types[i], k == after.n ? 0 : after.whole[k],
               before.whole[i]);
  }
}

// ---- what refers to values by name ----

static void rewrite_renames_tensors_in_device_configurations(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  add_devices(f, build_node(&f->b, "MatMul", "x w", "h"), "x");
  add_devices(f, build_node(&f->b, "MatMul", "h w", "y"), "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  const Onnx__NodeProto *first = emitted_node(f, "h"), *last = emitted_node(f, "y__fp16");
  assert_string_equal(first->input[0], "x__fp16");
  assert_string_equal(first->device_configurations[0]->sharding_spec[0]->tensor_name, "x__fp16");
  assert_string_equal(last->device_configurations[0]->sharding_spec[0]->tensor_name, "y__fp16");
}

static void rewrite_keeps_the_weights_of_a_training_step(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_floats(&f->b, "v", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "MatMul", "h v", "y");
  build_output(&f->b, "y", "float[2,2]");
  add_training(f, "v");
  planning_all(f);
  assert_int_equal(emitted_initializer(f, "w")->data_type, FLOAT16);
  assert_int_equal(emitted_initializer(f, "v")->data_type, FLOAT);
  assert_string_equal(emitted_node(f, "v__fp16")->op_type, "Cast");
}

// ---- functions and graphs in unusual places ----

static void rewrite_takes_a_function_that_is_given_twice(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_opset(&f->b, "local", 1);
  for (int i = 0; i < 2; i++) {
    build_function_begin(&f->b, "local", "Product", "a b", "p", "");
    build_node(&f->b, "MatMul", "a b", "p");
    build_function_end(&f->b);
  }
  build_node(&f->b, "local.Product", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->changed.proto->n_functions, 1);
  assert_int_equal(emitted_count(f, "Cast"), 3);
}

// b is handed on: what one call leaves out, both functions must do without.
static void plan_keeps_readers_of_an_argument_wide_that_a_call_leaves_out(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Inner", "a b", "p", "");
  build_node(&f->b, "Clip", "a _ b", "m");
  build_node(&f->b, "MatMul", "m m", "p");
  build_function_end(&f->b);
  build_function_begin(&f->b, "local", "Outer", "a b", "p", "");
  build_opset(&f->b, "local", 1);
  build_node(&f->b, "local.Inner", "a b", "p");
  build_function_end(&f->b);
  build_floats(&f->b, "most", "float[]", (float[]){2});
  build_node(&f->b, "local.Outer", "x", "h");
  build_node(&f->b, "local.Outer", "h most", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(node_reason(f, "fn:local.Inner::m"), REASON_POLYMORPHIC);
  assert_int_equal(node_format(f, "fn:local.Inner::p"), FORMAT_FP16);
}

// The graph of any attribute of any operator, with what its own operator expects of it.
static void rewrite_keeps_the_interface_of_graphs_in_beam_search(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "com.microsoft", 1);
  build_input(&f->b, "ids", "int32[1,4]");
  build_raw(&f->b, "n", "int32[1]", (int32_t[]){8}, sizeof(int32_t));
  Onnx__NodeProto *search = build_node(&f->b, "com.microsoft.BeamSearch", "ids n n n n", "y");
  build_graph_begin(&f->b, search, "decoder");
  build_input(&f->b, "past", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "past w", "logits");
  build_output(&f->b, "logits", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "int32[1,1,8]");
  planning_all(f);
  const Onnx__GraphProto *decoder = NULL;
  for (int s = 1; s < f->emitted.n_scopes; s++)
    decoder = f->emitted.scopes[s].graph;
  assert_non_null(decoder);
  assert_string_equal(decoder->input[0]->name, "past");
  assert_int_equal(decoder->input[0]->type->tensor_type->elem_type, FLOAT);
  assert_string_equal(decoder->output[0]->name, "logits");
  assert_int_equal(decoder->output[0]->type->tensor_type->elem_type, FLOAT);
  assert_int_equal(decoder->initializer[0]->data_type, FLOAT16);
  assert_int_equal(emitted_count(f, "Cast"), 2);
}

// One Cast of h in the main graph serves both readers; the constant is stored once, narrow.
static void rewrite_casts_what_is_captured_two_levels_down_once(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "Exp", "x", "h");
  Onnx__NodeProto *outer = build_node(&f->b, "If", "c", "y");
  for (int i = 0; i < 2; i++) {
    build_graph_begin(&f->b, outer, i ? "else_branch" : "then_branch");
    Onnx__NodeProto *inner = build_node(&f->b, "If", "c", i ? "outer_e" : "outer_t");
    for (int k = 0; k < 2; k++) {
      const char *name = arena_printf(&f->arena, "inner_%d%d", i, k);
      build_graph_begin(&f->b, inner, k ? "else_branch" : "then_branch");
      build_node(&f->b, "MatMul", "h w", name);
      build_output(&f->b, name, "float[2,2]");
      build_graph_end(&f->b);
    }
    build_output(&f->b, i ? "outer_e" : "outer_t", "float[2,2]");
    build_graph_end(&f->b);
  }
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_initializer(f, "w")->data_type, FLOAT16);
  assert_string_equal(emitted_node(f, "h__fp16")->input[0], "h");
  assert_int_equal(emitted_count(f, "Cast"), 1 + 4);  // and one behind each product
  int readers = 0;
  for (int n = 0; n < f->emitted.n_nodes; n++)
    if (node_is(&f->emitted.nodes[n], "MatMul"))
      readers += strcmp(f->emitted.nodes[n].proto->input[0], "h__fp16") == 0;
  assert_int_equal(readers, 4);
}

// State and scanned output of a Scan are fp32 on both sides, whatever its body runs in.
static void rewrite_keeps_the_types_of_a_scan(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_input(&f->b, "xs", "float[3,2,2]");
  Onnx__NodeProto *scan = build_node(&f->b, "Scan", "x xs", "last ys");
  build_int(&f->b, scan, "num_scan_inputs", 1);
  build_graph_begin(&f->b, scan, "body");
  build_input(&f->b, "s", "float[2,2]");
  build_input(&f->b, "e", "float[2,2]");
  build_node(&f->b, "MatMul", "s w", "m");
  build_node(&f->b, "Add", "m e", "next");
  build_node(&f->b, "MatMul", "next w", "given");
  build_output(&f->b, "next", "float[2,2]");
  build_output(&f->b, "given", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "last", "float[2,2]");
  build_output(&f->b, "ys", "float[3,2,2]");
  planning_all(f);
  int s = 1;
  assert_int_equal(f->emitted.n_scopes, 2);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(f->emitted.values[f->emitted.scopes[s].inputs[k]].type.elem_type, FLOAT);
    assert_int_equal(f->emitted.values[f->emitted.scopes[s].outputs[k]].type.elem_type, FLOAT);
  }
  assert_int_equal(emitted_type(f, "last"), FLOAT);
  assert_int_equal(emitted_type(f, "ys"), FLOAT);
  assert_true(emitted_count(f, "Cast") >= 3);
}

static void rewrite_takes_an_output_without_a_name(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "", "float[2,2]");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(f->changed.proto->graph->n_output, 2);
  assert_string_equal(emitted_node(f, "y")->op_type, "Cast");
}

// "ai.onnx" is another spelling of the empty domain: no second import, and the operators are known.
static void rewrite_takes_ai_onnx_for_the_empty_domain(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->domain = arena_strdup(&f->arena, "ai.onnx");
  input_and_weights(f);
  build_node(&f->b, "ai.onnx.MatMul", "x w", "h");
  build_node(&f->b, "Exp", "h", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  assert_int_equal(emitted_type(f, "h"), FLOAT16);
  assert_int_equal(f->changed.proto->n_opset_import, 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(rewrite_keeps_what_it_does_not_know_in_every_message),
      TEST(rewrite_renames_tensors_in_device_configurations),
      TEST(rewrite_keeps_the_weights_of_a_training_step),
      TEST(rewrite_takes_a_function_that_is_given_twice),
      TEST(plan_keeps_readers_of_an_argument_wide_that_a_call_leaves_out),
      TEST(rewrite_keeps_the_interface_of_graphs_in_beam_search),
      TEST(rewrite_casts_what_is_captured_two_levels_down_once),
      TEST(rewrite_keeps_the_types_of_a_scan),
      TEST(rewrite_takes_an_output_without_a_name),
      TEST(rewrite_takes_ai_onnx_for_the_empty_domain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
