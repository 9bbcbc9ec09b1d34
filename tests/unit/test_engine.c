// The engine: initializers stay where they are; what goes in comes out; errors are the engine's
// own, in a status.
// needs: engine
#include "support_probe.h"

#include <math.h>
#include <stdlib.h>

// y = (x + w) with w kept outside, at an address without alignment, small and large ones.
static void initializers_are_taken_from_outside(void **state) {
  struct probing *r = *state;
  for (int64_t n = 5; n <= 50000; n *= 10) {
    float *x = calloc((size_t)n, sizeof *x);
    char *room = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) {
      float w = (float)i + 0.5f;
      memcpy(room + 1 + (size_t)i * sizeof w, &w, sizeof w);
    }
    struct engine_initializer outside = {"w", FLOAT, 1, &n, room + 1, (size_t)n * sizeof *x, false};
    Onnx__ModelProto *m = message_new_model();
    message_input(m->graph, "x", FLOAT, 1);
    message_output(m->graph, "y", FLOAT, 1);
    message_initializer(m->graph, "w", FLOAT, 1, &n, NULL, 0);
    message_node(m->graph, "Neg", "w", "folded");
    message_node(m->graph, "Sub", "x folded", "t");
    message_observe(m->graph, "t", 0);
    message_node(m->graph, "Identity", "t", "y");
    for (int level = 0; level < LEVELS; level++) {
      probing_restart(r);
      probing_ok(r,
                 probing_try_open(r, m,
                                  (struct session_options){.optimisation = (enum optimisation)level,
                                                           .threads = 1,
                                                           .initializers = &outside,
                                                           .n_initializers = 1}));
      struct array y = probing_run(r, x, n, NULL, 0);
      assert_memory_equal(y.data, room + 1, (size_t)n * sizeof *x);
      assert_int_equal(r->observed[0].positive.count, n);
    }
    free(x);
    free(room);
  }
}

// A branch with an initializer of its own under the name of one that is kept outside.
static void initializers_outside_do_not_replace_shadowing_ones(void **state) {
  struct probing *r = *state;
  static float main_w = 1, branch_w = 10;
  static const bool yes = true;
  const int64_t one = 1;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_input(m->graph, "c", BOOL, 0);
  message_output(m->graph, "y", FLOAT, 1);
  message_initializer(m->graph, "w", FLOAT, 1, &one, NULL, 0);
  Onnx__NodeProto *n = message_node(m->graph, "If", "c", "z");
  for (int k = 0; k < 2; k++) {
    Onnx__GraphProto *g = message_new_graph(k ? "else" : "then");
    char *sum = k ? "else_sum" : "then_sum";
    message_initializer(g, "w", FLOAT, 1, &one, &branch_w, sizeof branch_w);
    message_node(g, "Add", "x w", sum);
    message_output(g, sum, FLOAT, 1);
    message_set_graph(n, k ? "else_branch" : "then_branch", g);
  }
  message_node(m->graph, "Add", "z w", "y");
  struct engine_initializer outside = {"w", FLOAT, 1, &one, &main_w, sizeof main_w, false};
  struct array c = {.name = "c", .elem_type = BOOL, .data = &yes, .size = 1};
  for (int level = 0; level < LEVELS; level++) {
    probing_restart(r);
    probing_ok(r,
               probing_try_open(r, m,
                                (struct session_options){.optimisation = (enum optimisation)level,
                                                         .threads = 1,
                                                         .initializers = &outside,
                                                         .n_initializers = 1}));
    struct array y = probing_run(r, five, 5, &c, 1);
    assert_true(((const float *)y.data)[0] == five[0] + main_w + branch_w);
  }
}

// Data that the model's bytes refer to in a file, at an offset without alignment.
static void external_files_are_read_below_the_directory(void **state) {
  struct probing *r = *state;
  char folder[] = "/tmp/narrowcast-test-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/weights", folder);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fwrite("abc", 1, 3, f);
  fwrite(five, 1, sizeof five, f);
  fclose(f);
  int64_t n = 5;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  Onnx__TensorProto *w = message_initializer(m->graph, "w", FLOAT, 1, &n, NULL, 0);
  w->external_data[0]->value = "weights";
  NEW(StringStringEntryProto, onnx__string_string_entry_proto__init);
  StringStringEntryProto_new->key = "offset";
  StringStringEntryProto_new->value = "3";
  APPEND(w, external_data, StringStringEntryProto_new);
  message_node(m->graph, "Add", "x w", "y");
  for (int level = 0; level < LEVELS; level++) {
    probing_restart(r);
    probing_ok(r,
               probing_try_open(r, m,
                                (struct session_options){.optimisation = (enum optimisation)level,
                                                         .threads = 1,
                                                         .directory = folder}));
    struct array y = probing_run(r, five, 5, NULL, 0);
    assert_true(((const float *)y.data)[4] == 8);
  }
  remove(path);
  remove(folder);
}

// The optimiser takes two Transposes away by transposing the initializers between them, under their
// old names.
static void initializers_that_the_optimiser_changes_are_right(void **state) {
  struct probing *r = *state;
  enum { H = 4, W = 5, C = 600, N = H * W * C };
  static float x[N], v[N], w[C];
  for (int i = 0; i < N; i++)
    x[i] = (float)(i % 101), v[i] = (float)(i * 7 % 1009), w[i % C] = (float)i;
  const int64_t w_dims[] = {C, 1, 1}, v_dims[] = {1, C, H, W};
  const int64_t to_nchw[] = {0, 3, 1, 2}, to_nhwc[] = {0, 2, 3, 1};
  struct engine_initializer outside[] = {{"w", FLOAT, 3, w_dims, w, sizeof w, false},
                                         {"v", FLOAT, 4, v_dims, v, sizeof v, false}};
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 4);
  message_output(m->graph, "y", FLOAT, 4);
  message_initializer(m->graph, "w", FLOAT, 3, w_dims, NULL, 0);
  message_initializer(m->graph, "v", FLOAT, 4, v_dims, NULL, 0);
  message_set_ints(message_node(m->graph, "Transpose", "x", "t"), "perm", to_nchw, 4);
  message_node(m->graph, "Add", "t w", "u");
  message_node(m->graph, "Mul", "u v", "s");
  message_set_ints(message_node(m->graph, "Transpose", "s", "y"), "perm", to_nhwc, 4);
  struct array in = {.name = "x",
                     .elem_type = FLOAT,
                     .rank = 4,
                     .dims = {1, H, W, C},
                     .data = x,
                     .size = sizeof x};
  struct array y;
  const char *name = "y";
  for (int level = 0; level < LEVELS; level++) {
    probing_restart(r);
    probing_ok(r,
               probing_try_open(r, m,
                                (struct session_options){.optimisation = (enum optimisation)level,
                                                         .threads = 1,
                                                         .initializers = outside,
                                                         .n_initializers = 2}));
    probing_ok(r, session_run(r->session, &in, 1, &name, 1, &y, &r->diag));
    const float *result = y.data;
    for (int i = 0; i < N; i++)
      assert_true(result[i] == (x[i] + w[i % C]) * v[i % C * H * W + i / C]);
  }
}

// `rectifier` and codes in float8 behind it, at a level: the least number that comes out for -2.
static float least_behind(struct probing *r, const char *rectifier, const char *inputs, int level) {
  static const float x[2] = {-2, 2};
  static float half = 0.5f, zero = 0;
  static uint8_t zero_point = 0;
  Onnx__ModelProto *m = message_new_model();
  m->opset_import[0]->version = 19;
  m->ir_version = 9;
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_initializer(m->graph, "scale", FLOAT, 0, NULL, &half, sizeof half);
  message_initializer(m->graph, "zero", FLOAT, 0, NULL, &zero, sizeof zero);
  message_initializer(m->graph, "point", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FN, 0, NULL,
                      &zero_point, sizeof zero_point);
  message_node(m->graph, rectifier, inputs, "r");
  message_node(m->graph, "QuantizeLinear", "r scale point", "q");
  message_node(m->graph, "DequantizeLinear", "q scale point", "y");
  probing_open(r, m, level);
  struct array y = probing_run(r, x, 2, NULL, 0);
  assert_float_equal(((const float *)y.data)[1], 2, 0);
  return ((const float *)y.data)[0];
}

// Entry 5 of plan_engine.c, and what pass_quantise writes instead.
static void a_max_with_zero_stays_in_front_of_float8_where_a_relu_is_dropped(void **state) {
  struct probing *r = *state;
  bool right = true;
  for (int level = 0; level < LEVELS; level++) {
    assert_float_equal(least_behind(r, "Max", "x zero", level), 0, 0);
    right = right && least_behind(r, "Relu", "x", level) == 0;
  }
  if (right)
    print_message("ONNX Runtime %s keeps the Relu: entry 5 of src/plan/plan_engine.c can go\n",
                  engine_info(r->engine)->version);
}

static void empty_tensors_and_scalars_work(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_output(m->graph, "s", FLOAT, 0);
  message_set_text(message_node(m->graph, "narrowcast:Round", "x", "y"), "format", "fp16");
  message_set_int(message_node(m->graph, "narrowcast:Compare", "x y", "e"), "id", 0);
  message_observe(m->graph, "y", 0);
  message_set_int(message_node(m->graph, "ReduceSum", "y", "s"), "keepdims", 0);
  message_observe(m->graph, "s", 1);
  for (int level = 0; level < LEVELS; level++) {
    probing_open(r, m, level);
    struct array y = probing_run(r, NULL, 0, NULL, 0);
    assert_int_equal(y.size, 0);
    assert_int_equal(y.dims[0], 0);
    assert_int_equal(r->observed[0].runs, 1);
    assert_int_equal(r->observed[0].count, 0);
    assert_int_equal(r->observed[1].zeros, 1);
    assert_int_equal(r->compared[0].runs, 1);
  }
}

static void strings_go_in_and_come_out(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", STRING, 1);
  message_output(m->graph, "y", STRING, 1);
  message_node(m->graph, "Identity", "x", "y");
  probing_open(r, m, OPTIMISE_ALL);
  char *words[] = {"alpha", "", "beta"};
  struct array x = {.name = "x", .elem_type = STRING, .rank = 1, .dims = {3}, .strings = words}, y;
  const char *name = "y";
  for (int64_t n = 0; n <= 3; n += 3) {
    x.dims[0] = n;
    probing_ok(r, session_run(r->session, &x, 1, &name, 1, &y, &r->diag));
    assert_null(y.data);
    assert_int_equal(y.dims[0], n);
    for (int64_t i = 0; i < n; i++)
      assert_string_equal(y.strings[i], words[i]);
  }
}

static void sequences_come_out_as_no_type(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  NEW(TypeProto__Sequence, onnx__type_proto__sequence__init);
  NEW(TypeProto, onnx__type_proto__init);
  Onnx__ValueInfoProto *declared = message_info("y", FLOAT, 1, 0);
  TypeProto__Sequence_new->elem_type = declared->type;
  TypeProto_new->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
  TypeProto_new->sequence_type = TypeProto__Sequence_new;
  declared->type = TypeProto_new;
  APPEND(m->graph, output, declared);
  message_node(m->graph, "SequenceConstruct", "x x", "y");
  probing_open(r, m, OPTIMISE_ALL);
  struct array y = probing_run(r, five, 5, NULL, 0);
  assert_int_equal(y.elem_type, 0);
  assert_null(y.data);
  assert_string_equal(y.name, "y");
}

static void labels_are_not_fed(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "Relu", "x", "y");
  probing_open(r, m, OPTIMISE_ALL);
  struct array label = probing_vector("label:y", five, 1),
               stranger = probing_vector("stranger", five, 1), y;
  probing_run(r, five, 5, &label, 1);
  const char *name = "y";
  assert_int_equal(session_run(r->session, &stranger, 1, &name, 1, &y, &r->diag), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "stranger"));
}

static void broken_models_give_the_engines_message(void **state) {
  struct probing *r = *state;
  const uint8_t junk[] = "ORTMthis is no model";
  struct session_options options = {0};
  assert_int_equal(session_open(&r->session, r->engine, junk, sizeof junk, &options, &r->diag),
                   STATUS_ENGINE);
  assert_null(r->session);
  assert_non_null(strstr(r->diag.message, "ONNX Runtime 1."));
  diag_clear(&r->diag);
  assert_int_equal(session_open(&r->session, r->engine, junk, 0, &options, &r->diag),
                   STATUS_ENGINE);
  diag_clear(&r->diag);
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "NoSuchOperator", "x", "y");
  assert_int_equal(probing_try_open(r, m, options), STATUS_ENGINE);
  assert_non_null(strstr(r->diag.message, "NoSuchOperator"));
  assert_null(strchr(r->diag.message, '\n'));
}

static void failing_nodes_are_named(void **state) {
  struct probing *r = *state;
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_input(m->graph, "z", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_node(m->graph, "Add", "x z", "y")->name = "the_sum";
  probing_open(r, m, OPTIMISE_ALL);
  struct array inputs[] = {probing_vector("x", five, 5), probing_vector("z", five, 3)}, y;
  const char *name = "y";
  assert_int_equal(session_run(r->session, inputs, 2, &name, 1, &y, &r->diag), STATUS_ENGINE);
  assert_string_equal(r->diag.node, "the_sum");
  assert_null(strstr(r->diag.message, "onnxruntime_src"));
  diag_clear(&r->diag);
  struct array z = probing_vector("z", five, 5);
  probing_run(r, five, 5, &z, 1);  // it goes on
}

static void missing_library_is_an_error_with_a_hint(void **state) {
  (void)state;
  struct engine *engine;
  struct diag d = {0};
  assert_int_equal(engine_open(&engine, SOURCE_DIR "/no/such/library.so", &d), STATUS_ENGINE);
  assert_null(engine);
  assert_non_null(strstr(d.message, "library.so"));
  assert_non_null(strstr(d.hint, "NARROWCAST_ORT"));
  diag_clear(&d);
  assert_int_equal(engine_open(&engine, SOURCE_DIR "/src", &d), STATUS_ENGINE);
  assert_non_null(strstr(d.message, "holds no libonnxruntime.so"));
  diag_clear(&d);
  assert_int_equal(engine_open(&engine, "libm.so.6", &d), STATUS_ENGINE);
  assert_non_null(strstr(d.message, "not ONNX Runtime"));
  diag_clear(&d);
  const char *old = getenv("NARROWCAST_ORT");
  char *kept = old ? strdup(old) : NULL;
  setenv("NARROWCAST_ORT", "none", 1);
  assert_int_equal(engine_open(&engine, NULL, &d), STATUS_ENGINE);
  assert_non_null(strstr(d.message, "none"));
  if (kept)
    setenv("NARROWCAST_ORT", kept, 1);
  else
    unsetenv("NARROWCAST_ORT");
  free(kept);
}

static void two_engines_can_be_open(void **state) {
  struct probing *r = *state;
  struct engine *second;
  probing_ok(r, engine_open(&second, engine_info(r->engine)->path, &r->diag));
  assert_string_equal(engine_info(second)->version, engine_info(r->engine)->version);
  engine_close(second);
  Onnx__ModelProto *m = message_new_model();
  message_input(m->graph, "x", FLOAT, 1);
  message_output(m->graph, "y", FLOAT, 1);
  message_observe(m->graph, "x", 0);
  message_node(m->graph, "Neg", "x", "y");
  probing_open(r, m, OPTIMISE_ALL);
  assert_true(((const float *)probing_run(r, five, 5, NULL, 0).data)[0] == 3);
  assert_int_equal(r->observed[0].runs, 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, probing_set_up, probing_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(initializers_are_taken_from_outside),
      TEST(initializers_outside_do_not_replace_shadowing_ones),
      TEST(external_files_are_read_below_the_directory),
      TEST(initializers_that_the_optimiser_changes_are_right),
      TEST(a_max_with_zero_stays_in_front_of_float8_where_a_relu_is_dropped),
      TEST(empty_tensors_and_scalars_work),
      TEST(strings_go_in_and_come_out),
      TEST(sequences_come_out_as_no_type),
      TEST(labels_are_not_fed),
      TEST(broken_models_give_the_engines_message),
      TEST(failing_nodes_are_named),
      TEST(two_engines_can_be_open),
      cmocka_unit_test(missing_library_is_an_error_with_a_hint),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
