// emulate: narrow types carried as fp32 with a Round behind every narrow result; and that running
// the carried model gives, bit for bit, what rounding after each step gives.
// needs: engine
#include "emulate.h"

#include "clone.h"
#include "engine.h"
#include "round.h"
#include "support_numbers.h"
#include "support_plan.h"
#include "tensor.h"

#include <string.h>

enum { FLOAT = 1, FLOAT16 = 10, BFLOAT16 = 16, COUNT = 257 };

// Emulates a clone of the model; f->emitted is its index.
static void carry(struct planning *f) {
  planning_index(f);
  f->changed = clone_model(&f->m, &f->arena);
  struct graph index;
  assert_int_equal(graph_build(&index, &f->changed, f->schemas, &f->arena, &f->d), STATUS_OK);
  if (emulate_model(&f->changed, &index, false, &f->arena, &f->d) != STATUS_OK ||
      graph_build(&f->emitted, &f->changed, f->schemas, &f->arena, &f->d) != STATUS_OK)
    fail_msg("%s: %s", f->d.node, f->d.message);
}

static int rounds(const struct planning *f) {
  int count = 0;
  for (int n = 0; n < f->emitted.n_nodes; n++) {
    const Onnx__NodeProto *p = f->emitted.nodes[n].proto;
    count += p->domain && strcmp(p->domain, "narrowcast") == 0 && strcmp(p->op_type, "Round") == 0;
  }
  return count;
}

static void expect_no_narrow_type(const struct planning *f) {
  assert_false(emulate_needed(&f->emitted));
}

static void emulate_leaves_a_wide_model_alone(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Add", "x x", "y");
  build_output(&f->b, "y", "float[2]");
  carry(f);
  assert_false(emulate_needed(&f->g));
  assert_true(same_model(f, &f->m, &f->changed));
}

static void emulate_carries_every_declaration_and_constant_as_float(void **state) {
  struct planning *f = *state;
  uint16_t codes[2] = {0x2e66, 0x7c00};  // 0.0999756 and infinity
  build_input(&f->b, "x", "float16[2]");
  build_raw(&f->b, "w", "float16[2]", codes, sizeof codes);
  build_tensor_attribute(&f->b, build_node(&f->b, "Constant", "", "c"), "value",
                         build_tensor(&f->b, "", "float16[]", codes, 2));
  build_node(&f->b, "Add", "x w", "h");
  build_node(&f->b, "Add", "h c", "y");
  build_value_info(&f->b, "h", "float16[2]");
  build_output(&f->b, "y", "float16[2]");
  carry(f);
  expect_no_narrow_type(f);
  assert_int_equal(rounds(f), 2);
  const Onnx__TensorProto *w = emitted_initializer(f, "w");
  assert_int_equal(w->data_type, FLOAT);
  float x[2];
  memcpy(x, w->raw_data.data, sizeof x);
  assert_true(x[0] == round_decode(&formats[FORMAT_FP16], codes[0]) && x[1] > 1e38f);
  assert_int_equal(f->changed.proto->graph->value_info[0]->type->tensor_type->elem_type, FLOAT);
  assert_int_equal(f->changed.proto->graph->input[0]->type->tensor_type->elem_type, FLOAT);
}

static void emulate_rounds_what_computes_and_not_what_moves(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float16[2]");
  build_node(&f->b, "Relu", "x", "a");
  build_node(&f->b, "Identity", "a", "b");
  build_node(&f->b, "Exp", "b", "c");
  build_node(&f->b, "Max", "b c", "y");
  build_output(&f->b, "y", "float16[2]");
  carry(f);
  assert_int_equal(rounds(f), 1);
  assert_string_equal(emitted_node(f, "c")->op_type, "Round");
  assert_string_equal(emitted_node(f, "y")->op_type, "Max");
}

static void emulate_rounds_sums_of_scattered_elements(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 18;
  build_input(&f->b, "x", "float16[2]");
  build_int64s(&f->b, "at", "int64[1,1]", (int64_t[]){0});
  build_input(&f->b, "u", "float16[1]");
  build_node(&f->b, "ScatterND", "x at u", "moved");
  build_string(&f->b, build_node(&f->b, "ScatterND", "moved at u", "y"), "reduction", "add");
  build_output(&f->b, "y", "float16[2]");
  carry(f);
  assert_int_equal(rounds(f), 1);
  assert_string_equal(emitted_node(f, "y")->op_type, "Round");
}

static void emulate_rounds_casts_to_narrow_types(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_input(&f->b, "like", "bfloat16[1]");
  build_int(&f->b, build_node(&f->b, "Cast", "x", "h"), "to", FLOAT16);
  build_node(&f->b, "CastLike", "x like", "b");
  build_int(&f->b, build_node(&f->b, "Cast", "h", "y"), "to", FLOAT);
  build_output(&f->b, "y", "float[2]");
  build_output(&f->b, "b", "bfloat16[2]");
  carry(f);
  expect_no_narrow_type(f);
  assert_int_equal(rounds(f), 2);
  assert_string_equal(emitted_node(f, "h")->op_type, "Round");
  assert_string_equal(emitted_node(f, "b")->op_type, "Round");
  assert_string_equal(emitted_node(f, "y")->op_type, "Cast");
}

static void emulate_widens_types_in_attributes(void **state) {
  struct planning *f = *state;
  build_int64s(&f->b, "shape", "int64[1]", (int64_t[]){2});
  Onnx__NodeProto *fill = build_node(&f->b, "ConstantOfShape", "shape", "a");
  build_tensor_attribute(&f->b, fill, "value",
                         build_tensor(&f->b, "", "float16[1]", (uint16_t[]){0x3c00}, 2));
  build_int(&f->b, build_node(&f->b, "EyeLike", "m", "e"), "dtype", FLOAT16);
  build_input(&f->b, "m", "float[2,2]");
  build_node(&f->b, "Add", "a e", "y");
  build_output(&f->b, "y", "float16[2,2]");
  carry(f);
  expect_no_narrow_type(f);
}

static void emulate_walks_subgraphs_and_functions(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Square", "a", "b", "");
  build_node(&f->b, "Mul", "a a", "b");
  build_function_end(&f->b);
  build_input(&f->b, "x", "float16[2]");
  build_input(&f->b, "c", "bool[]");
  build_node(&f->b, "local.Square", "x", "h");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  for (int side = 0; side < 2; side++) {
    build_graph_begin(&f->b, branch, side ? "else_branch" : "then_branch");
    build_node(&f->b, "Exp", "h", "t");
    build_output(&f->b, "t", "float16[2]");
    build_graph_end(&f->b);
  }
  build_output(&f->b, "y", "float16[2]");
  carry(f);
  expect_no_narrow_type(f);
  assert_int_equal(rounds(f), 3);  // in the function and in both branches
  assert_string_equal(emitted_node(f, "y")->op_type, "If");
}

static void emulate_takes_a_name_that_it_would_make(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float16[2]");
  build_node(&f->b, "Exp", "x", "y");
  build_node(&f->b, "Exp", "y", "y//exact");
  build_output(&f->b, "y//exact", "float16[2]");
  carry(f);
  assert_int_equal(rounds(f), 2);
}

static void emulate_sample_widens_narrow_arrays(void **state) {
  (void)state;
  uint16_t fp16[2] = {0x3c00, 0xfbff}, bf16[1] = {0x3fc0};
  int64_t n = 5;
  struct array arrays[3] = {{.name = "a", .elem_type = FLOAT16, .data = fp16, .size = 4},
                            {.name = "b", .elem_type = BFLOAT16, .data = bf16, .size = 2},
                            {.name = "c", .elem_type = 7, .data = &n, .size = 8}};
  struct sample s = {.arrays = arrays, .n_arrays = 3};
  emulate_sample(&s);
  assert_int_equal(arrays[0].elem_type, FLOAT);
  assert_int_equal(arrays[0].size, 8);
  assert_true(((const float *)arrays[0].data)[1] == -65504);
  assert_true(((const float *)arrays[1].data)[0] == 1.5f);
  assert_true(arrays[2].data == &n);
  arena_free(&s.arena);
}

// y = (x * x + x) / 3 in that format, step by step.
static void expect_steps(struct planning *f, const char *type, enum format_id id) {
  const struct format *format = &formats[id];
  float *x = arena_array(&f->arena, COUNT, sizeof *x), *y;
  for (int i = 0; i < COUNT; i++)
    x[i] = rounded_to(format, (float)(i - 100) * 1.37f, false, false);
  uint16_t three = (uint16_t)round_encode(format, 3, false, false);
  const char *shaped = arena_printf(&f->arena, "%s[257]", type);
  build_input(&f->b, "x", shaped);
  build_raw(&f->b, "three", arena_printf(&f->arena, "%s[]", type), &three, 2);
  build_node(&f->b, "Mul", "x x", "a");
  build_node(&f->b, "Add", "a x", "b");
  build_node(&f->b, "Div", "b three", "y");
  build_output(&f->b, "y", shaped);
  carry(f);

  struct packed_model packed;
  struct engine *engine;
  struct session *session;
  struct session_options options = {.optimisation = OPTIMISE_ALL, .threads = 1};
  struct array in = {.name = "x", .elem_type = FLOAT, .rank = 1, .dims = {COUNT}}, out;
  in.data = x;
  in.size = COUNT * sizeof *x;
  const char *name = "y";
  if (clone_pack(&packed, &f->changed, &f->arena, &f->d) != STATUS_OK ||
      engine_open(&engine, NULL, &f->d) != STATUS_OK ||
      session_open(&session, engine, packed.bytes, packed.size, &options, &f->d) != STATUS_OK ||
      session_run(session, &in, 1, &name, 1, &out, &f->d) != STATUS_OK) {
    fail_msg("%s", f->d.message);
    return;
  }
  y = arena_array(&f->arena, COUNT, sizeof *y);
  memcpy(y, out.data, COUNT * sizeof *y);
  for (int i = 0; i < COUNT; i++) {
    float a = rounded_to(format, x[i] * x[i], false, false);
    float b = rounded_to(format, a + x[i], false, false);
    float wanted = rounded_to(format, b / 3, false, false);
    if (memcmp(&wanted, &y[i], sizeof wanted) != 0)
      fail_msg("element %d is %.9g, not %.9g", i, (double)y[i], (double)wanted);
  }
  session_close(session);
  engine_close(engine);
}

static void emulate_computes_what_fp16_would(void **state) {
  expect_steps(*state, "float16", FORMAT_FP16);
}

static void emulate_computes_what_bf16_would(void **state) {
  expect_steps(*state, "bfloat16", FORMAT_BF16);
}

// Found by fuzz_graph: the message was that of a bad model.
static void emulate_refuses_by_name_an_operator_without_fp32(void **state) {
  struct planning *f = *state;
  build_opset(&f->b, "com.microsoft", 1);
  build_input(&f->b, "x", "float16[2]");
  build_input(&f->b, "w", "uint8[2]");
  build_node(&f->b, "com.microsoft.MatMulPacked", "x w", "y");
  build_output(&f->b, "y", "");
  planning_index(f);
  f->changed = clone_model(&f->m, &f->arena);
  struct graph index;
  assert_int_equal(graph_build(&index, &f->changed, f->schemas, &f->arena, &f->d), STATUS_OK);
  assert_int_equal(emulate_model(&f->changed, &index, false, &f->arena, &f->d), STATUS_MODEL);
  assert_non_null(strstr(f->d.node, "MatMulPacked"));
  assert_non_null(strstr(f->d.message, "cannot be run with narrow types carried as fp32"));
}

// x -> bits, as int16 -> y: each BitCast sees fp16, and no value changes on the way.
static void emulate_runs_a_bitcast_on_the_narrow_type(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 26;
  build_input(&f->b, "x", "float16[2]");
  build_int(&f->b, build_node(&f->b, "BitCast", "x", "bits"), "to", 5);
  build_int(&f->b, build_node(&f->b, "BitCast", "bits", "y"), "to", FLOAT16);
  build_output(&f->b, "bits", "int16[2]");
  build_output(&f->b, "y", "float16[2]");
  carry(f);
  const struct graph *g = &f->emitted;
  const struct node *apart = &g->nodes[node_of(g, "bits")], *back = &g->nodes[node_of(g, "y")];
  assert_int_equal(emitted_type(f, "x"), FLOAT);
  assert_int_equal(emitted_type(f, "y"), FLOAT);
  assert_int_equal(emitted_type(f, "bits"), 5);
  assert_int_equal(g->values[apart->inputs[0]].type.elem_type, FLOAT16);
  assert_string_equal(back->proto->op_type, "Cast");
  assert_int_equal(g->values[back->inputs[0]].type.elem_type, FLOAT16);
  assert_int_equal(emitted_count(f, "BitCast"), 2);
  assert_int_equal(rounds(f), 0);
}

// ---- weights in 4 bits ----

// Codes of 3 x 2 in blocks of 2 rows, in front of a product in fp16.
static void weight_in_blocks(struct planning *f, const char *scale_type, const uint16_t *scales,
                             size_t n_scales) {
  static const uint8_t codes[] = {0x12, 0xF7, 0x0D};  // 1 0.5, 6 -6, -3 0
  f->b.model->opset_import[0]->version = 23;
  build_input(&f->b, "x", "float16[2,3]");
  build_raw(&f->b, "w", "float4e2m1[3,2]", codes, sizeof codes);
  build_raw(&f->b, "s", scale_type, scales, n_scales * sizeof *scales);
  Onnx__NodeProto *node = build_node(&f->b, "DequantizeLinear", "w s", "d");
  build_int(&f->b, node, "axis", 0);
  build_int(&f->b, node, "block_size", 2);
  build_node(&f->b, "MatMul", "x d", "y");
  build_output(&f->b, "y", "float16[2,2]");
}

static void emulate_decodes_weights_that_the_engine_cannot(void **state) {
  struct planning *f = *state;
  weight_in_blocks(f, "float16[2,2]", (uint16_t[]){0x3C00, 0x4000, 0x3800, 0x3400}, 4);
  carry(f);
  expect_no_narrow_type(f);
  const Onnx__TensorProto *d = graph_constant(&f->emitted, value_id(&f->emitted, "d"));
  assert_non_null(d);
  assert_int_equal(d->data_type, FLOAT);
  // Rows 0 and 1 by (1, 2), row 2 by (0.5, 0.25).
  assert_int_equal(d->raw_data.len, 6 * sizeof(float));
  assert_memory_equal(d->raw_data.data, ((float[]){1, 1, 6, -12, -1.5f, 0}), 6 * sizeof(float));
  assert_int_equal(emitted_count(f, "DequantizeLinear"), 0);
  assert_null(emitted_initializer(f, "w"));  // the engine refuses what nobody reads
  assert_null(emitted_initializer(f, "s"));
  assert_int_equal(rounds(f), 1);
}

static void emulate_asks_for_no_weight_that_was_listed_as_an_input(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "w", "float4e2m1[3,2]");
  build_input(&f->b, "s", "float16[2,2]");
  weight_in_blocks(f, "float16[2,2]", (uint16_t[]){0x3C00, 0x4000, 0x3800, 0x3400}, 4);
  carry(f);
  expect_no_narrow_type(f);
  assert_int_equal(f->changed.proto->graph->n_input, 1);
  assert_string_equal(f->changed.proto->graph->input[0]->name, "x");
}

static void refuse(struct planning *f, const char *message) {
  planning_index(f);
  f->changed = clone_model(&f->m, &f->arena);
  struct graph index;
  assert_int_equal(graph_build(&index, &f->changed, f->schemas, &f->arena, &f->d), STATUS_OK);
  assert_int_equal(emulate_model(&f->changed, &index, false, &f->arena, &f->d), STATUS_MODEL);
  assert_non_null(strstr(f->d.message, message));
  diag_clear(&f->d);
}

// A caller may give another weight: s is listed not, so that w may be overridden.
static void emulate_refuses_what_it_cannot_decode(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "w", "float4e2m1[3,2]");
  weight_in_blocks(f, "float16[2,2]", (uint16_t[]){0x3C00, 0x4000, 0x3800, 0x3400}, 4);
  refuse(f, "a DequantizeLinear cannot be run");
}

static void emulate_refuses_to_round_to_4_bits(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 23;
  build_input(&f->b, "x", "float[2]");
  build_int(&f->b, build_node(&f->b, "Cast", "x", "c"), "to", 23);
  build_int(&f->b, build_node(&f->b, "Cast", "c", "y"), "to", FLOAT);
  build_output(&f->b, "y", "float[2]");
  refuse(f, "a Cast cannot be run");
}

static void emulate_carries_constants_of_4_bits(void **state) {
  static const uint8_t codes[] = {0x12, 0xF7};  // 1 0.5, 6 -6
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 23;
  build_raw(&f->b, "w", "float4e2m1[4]", codes, sizeof codes);
  build_node(&f->b, "Identity", "w", "i");
  build_int(&f->b, build_node(&f->b, "Cast", "i", "y"), "to", FLOAT);
  build_output(&f->b, "y", "float[4]");
  carry(f);
  expect_no_narrow_type(f);
  assert_memory_equal(emitted_initializer(f, "w")->raw_data.data, ((float[]){1, 0.5f, 6, -6}),
                      4 * sizeof(float));
}

static void emulate_refuses_blocks_with_too_few_scales(void **state) {
  struct planning *f = *state;
  weight_in_blocks(f, "float16[1,2]", (uint16_t[]){0x3C00, 0x4000}, 2);
  refuse(f, "not as many scales as blocks");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(emulate_leaves_a_wide_model_alone),
      TEST(emulate_decodes_weights_that_the_engine_cannot),
      TEST(emulate_asks_for_no_weight_that_was_listed_as_an_input),
      TEST(emulate_refuses_what_it_cannot_decode),
      TEST(emulate_refuses_to_round_to_4_bits),
      TEST(emulate_carries_constants_of_4_bits),
      TEST(emulate_refuses_blocks_with_too_few_scales),
      TEST(emulate_carries_every_declaration_and_constant_as_float),
      TEST(emulate_rounds_what_computes_and_not_what_moves),
      TEST(emulate_rounds_sums_of_scattered_elements),
      TEST(emulate_rounds_casts_to_narrow_types),
      TEST(emulate_widens_types_in_attributes),
      TEST(emulate_walks_subgraphs_and_functions),
      TEST(emulate_takes_a_name_that_it_would_make),
      TEST(emulate_sample_widens_narrow_arrays),
      TEST(emulate_refuses_by_name_an_operator_without_fp32),
      TEST(emulate_runs_a_bitcast_on_the_narrow_type),
      TEST(emulate_computes_what_fp16_would),
      TEST(emulate_computes_what_bf16_would),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
