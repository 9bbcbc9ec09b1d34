// clone: a copy may be changed without changing the original, and shares its weights; packing for a
// session keeps large initializers out of the bytes.
// needs: engine
#define _POSIX_C_SOURCE 200809L  // truncate
#include "clone.h"

#include "proto.h"
#include "support_plan.h"

#include <string.h>
#include <unistd.h>

static void clone_packs_to_the_same_bytes(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2,N]");
  build_input(&f->b, "c", "bool[]");
  build_input(&f->b, "s", "seq(float)");
  build_sparse(&f->b, "sparse", 1, 3);
  build_node(&f->b, "Add", "x sparse", "h")->doc_string = (char[]){"why"};
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  for (int side = 0; side < 2; side++) {
    build_graph_begin(&f->b, branch, side ? "else_branch" : "then_branch");
    build_node(&f->b, "Identity", "h", "t");
    build_output(&f->b, "t", "float[2,N]");
    build_graph_end(&f->b);
  }
  build_output(&f->b, "y", "float[2,N]");
  planning_index(f);
  struct model copy = clone_model(&f->m, &f->arena);
  assert_true(same_model(f, &f->m, &copy));
  assert_true(copy.proto != f->m.proto && copy.proto->graph != f->m.proto->graph);
}

static void clone_leaves_the_original_unchanged(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_floats(&f->b, "w", "float[2]", (float[]){1, 2});
  Onnx__NodeProto *add = build_node(&f->b, "Add", "x w", "y");
  build_int(&f->b, add, "axis", 1);
  build_output(&f->b, "y", "float[2]");
  planning_index(f);
  uint8_t *before, *after;
  size_t n_before, n_after;
  assert_int_equal(model_pack(f->m.proto, &f->arena, &before, &n_before, &f->d), STATUS_OK);
  struct model copy = clone_model(&f->m, &f->arena);
  Onnx__GraphProto *g = copy.proto->graph, *original = f->m.proto->graph;
  // Shared: the bytes of the weight.
  assert_true(g->initializer[0]->raw_data.data == original->initializer[0]->raw_data.data);
  g->node[0]->input[0] = (char[]){"other"};
  g->node[0]->attribute[0]->i = 7;
  g->node[0]->op_type = (char[]){"Sub"};
  g->initializer[0]->data_type = 10;
  g->initializer[0]->raw_data.len = 4;
  g->input[0]->type->tensor_type->elem_type = 10;
  g->output[0]->name = (char[]){"z"};
  copy.proto->opset_import[0]->version = 3;
  g->node[0] = NULL;
  assert_int_equal(model_pack(f->m.proto, &f->arena, &after, &n_after, &f->d), STATUS_OK);
  assert_int_equal(n_before, n_after);
  assert_memory_equal(before, after, n_before);
}

// Everything that an index says of messages: bodies, one within the other, a default, a function
// that is given twice, a constant that was asked for.
static void index_of_a_clone_is_that_of_the_original(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[2]");
  build_input(&f->b, "w", "float[2]");
  build_input(&f->b, "c", "bool[]");
  build_floats(&f->b, "w", "float[2]", (float[]){1, 2});
  build_floats(&f->b, "v", "float[2]", (float[]){3, 4});
  for (int i = 0; i < 2; i++) {
    build_function_begin(&f->b, "mine", "F", "a", "b", "");
    build_node(&f->b, "Relu", "a", "b");
    build_function_end(&f->b);
  }
  build_opset(&f->b, "mine", 1);
  Onnx__NodeProto *constant = build_node(&f->b, "Constant", "", "k");
  build_float_list(&f->b, constant, "value_floats", (float[]){5, 6}, 2);
  build_node(&f->b, "F", "x", "h")->domain = (char[]){"mine"};
  Onnx__NodeProto *outer = build_node(&f->b, "If", "c", "y");
  for (int side = 0; side < 2; side++) {
    build_graph_begin(&f->b, outer, side ? "else_branch" : "then_branch");
    Onnx__NodeProto *inner = build_node(&f->b, "If", "c", "t");
    for (int part = 0; part < 2; part++) {
      build_graph_begin(&f->b, inner, part ? "else_branch" : "then_branch");
      build_floats(&f->b, "u", "float[2]", (float[]){7, 8});
      build_node(&f->b, "Sum", part ? "h w u" : "h v k u", "s");
      build_output(&f->b, "s", "float[2]");
      build_graph_end(&f->b);
    }
    build_output(&f->b, "t", "float[2]");
    build_graph_end(&f->b);
  }
  build_output(&f->b, "y", "float[2]");
  planning_index(f);
  int k = map_get(&f->g.names, 0, "k");
  assert_non_null(graph_constant(&f->g, k));
  struct model copy = clone_model(&f->m, &f->arena);
  struct graph followed = graph_of_clone(&f->g, &copy, &f->arena), built;
  assert_int_equal(graph_build(&built, &copy, f->schemas, &f->arena, &f->d), STATUS_OK);
  assert_null(index_difference(&followed, &built));
  assert_non_null(index_difference(&followed, &f->g));
  assert_ptr_not_equal(graph_constant(&followed, k), graph_constant(&f->g, k));
}

static void clone_pack_keeps_large_initializers_out(void **state) {
  struct planning *f = *state;
  float *large = arena_array(&f->arena, 1000, sizeof *large);
  large[999] = 5;
  build_input(&f->b, "x", "float[1000]");
  build_floats(&f->b, "large", "float[1000]", large);
  build_floats(&f->b, "small", "float[1]", (float[]){2});
  build_node(&f->b, "Sum", "x large small", "y");
  build_output(&f->b, "y", "float[1000]");
  planning_index(f);
  struct model copy = clone_model(&f->m, &f->arena);
  struct packed_model packed;
  assert_int_equal(clone_pack(&packed, &copy, &f->arena, &f->d), STATUS_OK);
  assert_int_equal(packed.n_initializers, 1);
  const struct engine_initializer *out = &packed.initializers[0];
  assert_string_equal(out->name, "large");
  assert_int_equal(out->size, 4000);
  assert_memory_equal(out->data, large, 4000);
  assert_false(out->in_file);
  assert_true(packed.size < 1000);
  assert_true(f->m.proto->graph->initializer[0]->has_raw_data);
}

static void clone_pack_leaves_out_what_nobody_reads(void **state) {
  struct planning *f = *state;
  float *large = arena_array(&f->arena, 1000, sizeof *large);
  build_input(&f->b, "x", "float[1000]");
  build_input(&f->b, "c", "bool[]");
  build_input(&f->b, "unread_input", "float[1000]");
  build_floats(&f->b, "unread", "float[1000]", large);
  build_floats(&f->b, "unread_input", "float[1000]", large);
  build_floats(&f->b, "read_in_a_branch", "float[1000]", large);
  build_floats(&f->b, "output", "float[1000]", large);
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  for (int side = 0; side < 2; side++) {
    build_graph_begin(&f->b, branch, side ? "else_branch" : "then_branch");
    build_node(&f->b, "Add", side ? "x x" : "x read_in_a_branch", "t");
    build_output(&f->b, "t", "float[1000]");
    build_graph_end(&f->b);
  }
  build_output(&f->b, "y", "float[1000]");
  build_output(&f->b, "output", "float[1000]");
  planning_index(f);
  struct model copy = clone_model(&f->m, &f->arena);
  struct packed_model packed;
  assert_int_equal(clone_pack(&packed, &copy, &f->arena, &f->d), STATUS_OK);
  assert_int_equal(packed.n_initializers, 2);
  assert_string_equal(packed.initializers[0].name, "read_in_a_branch");
  assert_string_equal(packed.initializers[1].name, "output");
  // An input of that name must not have to be fed: it keeps its default.
  assert_int_equal(copy.proto->graph->n_initializer, 3);
  assert_string_equal(copy.proto->graph->initializer[0]->name, "unread_input");
  assert_int_equal(copy.proto->graph->initializer[0]->raw_data.len, 4000);
  assert_int_equal(f->m.proto->graph->n_initializer, 4);
}

// ---- Weights of bodies ----

static const char *file_of(struct planning *f, const char *name, const void *data, size_t size) {
  const char *path = planning_path(f, name);
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(data, 1, size, out), size);
  assert_int_equal(fclose(out), 0);
  return path;
}

// An initializer of the graph in the making whose data is the file "w.bin".
static void external_weight(struct planning *f, const char *type) {
  struct arena *a = &f->arena;
  Onnx__TensorProto *t = build_raw(&f->b, "w", type, NULL, 0);
  t->has_raw_data = 0;
  t->has_data_location = 1;
  t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  t->n_external_data = 1;
  t->external_data = arena_array(a, 1, sizeof *t->external_data);
  t->external_data[0] = proto_entry(a, "location", "w.bin");
}

// A branch that is not taken has 2.1 GiB, which no message can hold. The file is a hole, and is not
// read.
static const char *model_with_a_large_body(struct planning *f) {
  uint8_t *bytes;
  size_t size;
  build_input(&f->b, "x", "float[1,16384]");
  build_input(&f->b, "c", "bool[]");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "y");
  build_graph_begin(&f->b, branch, "then_branch");
  external_weight(f, "float[16384,34816]");
  build_node(&f->b, "MatMul", "x w", "t");
  build_output(&f->b, "t", "float[1,N]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Neg", "x", "e");
  build_output(&f->b, "e", "float[1,N]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[1,N]");
  assert_int_equal(model_pack(f->b.model, &f->arena, &bytes, &size, &f->d), STATUS_OK);
  assert_int_equal(truncate(file_of(f, "w.bin", "", 0), (off_t)16384 * 34816 * 4), 0);
  return file_of(f, "m.onnx", bytes, size);
}

static void clone_pack_leaves_weights_of_bodies_in_their_file_beyond_2_gib(void **state) {
  struct planning *f = *state;
  struct model m;
  struct packed_model packed;
  const char *path = model_with_a_large_body(f);
  assert_int_equal(model_load(&m, &f->arena, path, NULL, &f->d), STATUS_OK);
  struct model copy = clone_model(&m, &f->arena);
  assert_int_equal(clone_pack(&packed, &copy, &f->arena, &f->d), STATUS_OK);
  assert_int_equal(packed.n_initializers, 0);
  assert_true(packed.size < 1000 && packed.large);

  struct engine *engine;
  struct session *session;
  struct session_options options = {
      .directory = packed.directory, .lean = packed.large, .threads = 1};
  assert_int_equal(engine_open(&engine, NULL, &f->d), STATUS_OK);
  if (session_open(&session, engine, packed.bytes, packed.size, &options, &f->d) != STATUS_OK)
    fail_msg("%s", f->d.message);
  float *x = arena_array(&f->arena, 16384, sizeof *x);
  x[5] = 3;
  const struct array inputs[] = {
      {"x", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 2, {1, 16384}, x, 16384 * sizeof *x, NULL},
      {"c", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, {0}, (bool[]){false}, 1, NULL}};
  struct array y;
  assert_int_equal(session_run(session, inputs, 2, (const char *const[]){"y"}, 1, &y, &f->d),
                   STATUS_OK);
  assert_true(((const float *)y.data)[5] == -3);
  session_close(session);
  engine_close(engine);
  model_close(&m);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(clone_packs_to_the_same_bytes),
      TEST(clone_leaves_the_original_unchanged),
      TEST(index_of_a_clone_is_that_of_the_original),
      TEST(clone_pack_keeps_large_initializers_out),
      TEST(clone_pack_leaves_out_what_nobody_reads),
      TEST(clone_pack_leaves_weights_of_bodies_in_their_file_beyond_2_gib),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
