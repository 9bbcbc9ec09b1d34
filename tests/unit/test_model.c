// Loading and packing models: what protobuf allows is kept, what is no model is refused with a
// reason, and no input crashes: every prefix and many mutations of a small model, all broken files
// there are, and every operator test model, which must come out byte for byte as it went in.
#define _XOPEN_SOURCE 700  // nftw
#include "model.h"

#include "support_bytes.h"
#include "tensor.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
// cmocka wants the three above first
#include <cmocka.h>

enum { IR_VERSION = 1, DOC_STRING = 6, GRAPH = 7, OPSETS = 8 };        // ModelProto
enum { NODE = 1, GRAPH_NAME = 2, INITIALIZER = 5, GRAPH_INPUT = 11 };  // GraphProto
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, OP_TYPE = 4, ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_T = 5, ATTR_G = 6, ATTR_TYPE = 20 };
enum { DIMS = 1, DATA_TYPE = 2, NAME = 8, RAW = 9 };  // TensorProto

static struct arena arena;
static struct diag d;
static struct model model;

static int teardown(void **state) {
  (void)state;
  arena_free(&arena);
  return 0;
}

static enum status load_bytes(const uint8_t *data, size_t size) {
  diag_clear(&d);
  enum status status = model_from_bytes(&model, &arena, data, size, "folder/m.onnx", NULL, &d);
  assert_int_equal(status, d.status);
  if (status != STATUS_OK) {
    assert_true(d.message[0] != '\0');
    assert_string_equal(d.file, "folder/m.onnx");
  }
  return status;
}

static void loads(const struct bytes *b) {
  if (load_bytes(b->data, b->size) != STATUS_OK)
    fail_msg("%s", d.message);
}

static void refuses(const void *data, size_t size, const char *message) {
  assert_int_equal(load_bytes(data, size), STATUS_MODEL);
  if (!strstr(d.message, message))
    fail_msg("'%s' is not in '%s'", message, d.message);
}

static struct bytes tensor_bytes(const char *name, float value) {
  struct bytes t = {.size = 0};
  put_int(&t, DIMS, 1);
  put_int(&t, DATA_TYPE, 1);
  put_text(&t, NAME, name);
  put_field(&t, RAW, &value, sizeof value);
  return t;
}

static struct bytes model_bytes(const struct bytes *graph) {
  struct bytes opset = {.size = 0}, b = {.size = 0};
  put_int(&opset, 2, 17);
  put_int(&b, IR_VERSION, 8);
  put_message(&b, GRAPH, graph);
  put_message(&b, OPSETS, &opset);
  return b;
}

// Two initializers, and a tensor in a subgraph of an attribute.
static struct bytes small_model(void) {
  struct bytes inner = {.size = 0}, attribute = {.size = 0}, node = {.size = 0},
               graph = {.size = 0};
  struct bytes a = tensor_bytes("a", 1), b = tensor_bytes("b", 2), c = tensor_bytes("c", 3);
  put_text(&inner, GRAPH_NAME, "body");
  put_message(&inner, INITIALIZER, &c);
  put_text(&attribute, ATTR_NAME, "then_branch");
  put_message(&attribute, ATTR_G, &inner);
  put_int(&attribute, ATTR_TYPE, 5);
  put_text(&node, NODE_INPUT, "a");
  put_text(&node, NODE_OUTPUT, "y");
  put_text(&node, OP_TYPE, "If");
  put_message(&node, ATTRIBUTE, &attribute);
  put_message(&graph, NODE, &node);
  put_text(&graph, GRAPH_NAME, "g");
  put_message(&graph, INITIALIZER, &a);
  put_message(&graph, INITIALIZER, &b);
  return model_bytes(&graph);
}

static void packs_to(const void *expected, size_t expected_size) {
  uint8_t *packed;
  size_t size;
  assert_int_equal(model_pack(model.proto, &arena, &packed, &size, &d), STATUS_OK);
  assert_int_equal(size, expected_size);
  assert_memory_equal(packed, expected, size);
}

static float only_value(const Onnx__TensorProto *t) {
  float value;
  assert_int_equal(t->raw_data.len, sizeof value);
  memcpy(&value, t->raw_data.data, sizeof value);
  return value;
}

// ---- Loading ----

static void model_points_raw_data_into_the_file(void **state) {
  (void)state;
  struct bytes b = small_model();
  loads(&b);
  for (size_t i = 0; i < 2; i++) {
    const Onnx__TensorProto *t = model.proto->graph->initializer[i];
    assert_true(t->raw_data.data > b.data && t->raw_data.data < b.data + b.size);
    assert_true(only_value(t) == (i ? 2.0f : 1.0f));
  }
  assert_string_equal(model.directory, "folder");
  assert_int_equal(strlen(model.sha256), 64);
  packs_to(b.data, b.size);
  model_close(&model);
}

struct names {
  char text[64];
};

static enum status add_name(void *context, Onnx__TensorProto *t) {
  strcat(((struct names *)context)->text, t->name);
  return STATUS_OK;
}

static void model_visits_tensors_of_all_graphs_in_file_order(void **state) {
  (void)state;
  struct bytes b = small_model();
  struct names names = {""};
  loads(&b);
  assert_int_equal(model_each_tensor(model.proto, add_name, &names), STATUS_OK);
  assert_string_equal(names.text, "cab");
}

static void model_takes_the_last_raw_data(void **state) {
  (void)state;
  struct bytes t = tensor_bytes("w", 1), graph = {.size = 0};
  const float last = 5;
  put_field(&t, RAW, &last, sizeof last);
  put_message(&graph, INITIALIZER, &t);
  struct bytes b = model_bytes(&graph);
  loads(&b);
  assert_true(only_value(model.proto->graph->initializer[0]) == last);
}

// "a single message that is given twice is merged", also when parts of a tensor are apart
static void model_merges_repeated_messages(void **state) {
  (void)state;
  struct bytes first = tensor_bytes("w", 1), second = {.size = 0}, attribute = {.size = 0},
               node = {.size = 0}, graph = {.size = 0}, again = {.size = 0};
  put_text(&second, NAME, "v");
  put_message(&attribute, ATTR_T, &first);
  put_message(&attribute, ATTR_T, &second);
  put_message(&node, ATTRIBUTE, &attribute);
  put_message(&graph, NODE, &node);
  struct bytes b = model_bytes(&graph), more = tensor_bytes("b", 2);
  put_message(&again, INITIALIZER, &more);
  put_message(&b, GRAPH, &again);
  loads(&b);
  assert_int_equal(model.proto->graph->n_node, 1);
  const Onnx__TensorProto *t = model.proto->graph->node[0]->attribute[0]->t;
  assert_string_equal(t->name, "v");
  assert_true(only_value(t) == 1);
  assert_true(only_value(model.proto->graph->initializer[0]) == 2);
}

static void model_keeps_unknown_fields_and_groups(void **state) {
  (void)state;
  struct bytes b = small_model();
  put_tag(&b, 127, 3);
  put_text(&b, 5, "inside");
  put_tag(&b, 127, 4);
  put_text(&b, 536870911, "a placeholder's number");
  put_int(&b, 200, 7);
  loads(&b);
  packs_to(b.data, b.size);
}

static void model_keeps_known_fields_of_another_wire_type(void **state) {
  (void)state;
  struct bytes b = small_model();
  put_int(&b, DOC_STRING, 7);
  loads(&b);
  assert_null(model.proto->doc_string);
  packs_to(b.data, b.size);
}

static void model_says_what_is_no_model(void **state) {
  (void)state;
  const struct {
    const char *text;
    size_t size;
    const char *message;
  } rows[] = {
#define ROW(text, message) {text, sizeof text - 1, message}
      ROW("", "empty"),
      ROW("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "Git LFS"),
      ROW("\n<!DOCTYPE html><html>", "HTML"),
      ROW("{\"error\": \"not found\"}", "JSON"),
      ROW("PK\3\4\x14\0\0\0", "zip"),
      ROW("\x1f\x8b\x08\0\0", "gzip"),
      ROW("\x89HDF\r\n\x1a\n", "HDF5"),
      ROW("\x1c\0\0\0TFL3\x14", "TensorFlow Lite"),
      ROW("\x38\0\0\0ORTM\0", "ORT format"),
      ROW("Not Found", "at byte"),
      ROW("\x08\x08", "no graph"),
      ROW("\x3a\x00", "no ir_version"),
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    refuses(rows[i].text, rows[i].size, rows[i].message);
}

static void model_refuses_external_tensors_that_have_raw_data(void **state) {
  (void)state;
  struct bytes t = tensor_bytes("w", 1), graph = {.size = 0};
  put_int(&t, 14, 1);
  put_message(&graph, INITIALIZER, &t);
  struct bytes b = model_bytes(&graph);
  refuses(b.data, b.size, "external data and has raw_data");
  assert_string_equal(d.tensor, "w");
}

static void model_refuses_what_is_no_regular_file(void **state) {
  (void)state;
  const char *const paths[] = {".", "/dev/null", "/dev/zero", "no/such/file.onnx", ""};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    diag_clear(&d);
    assert_int_equal(model_load(&model, &arena, paths[i], NULL, &d), STATUS_IO);
    assert_string_equal(d.file, paths[i]);
  }
}

// Packing over 2 GiB: only lengths are looked at, so the bytes need not be there.
static void model_refuses_to_pack_more_than_2_gib(void **state) {
  (void)state;
  struct bytes b = small_model();
  uint8_t *packed;
  size_t size;
  loads(&b);
  model.proto->graph->initializer[0]->raw_data.len = (size_t)INT32_MAX;
  diag_clear(&d);
  assert_int_equal(model_pack(model.proto, &arena, &packed, &size, &d), STATUS_MODEL);
  assert_true(d.hint[0] != '\0');
}

// ---- Hostile input ----

static enum status read_values(void *context, Onnx__TensorProto *t) {
  struct arena scratch = {0};
  struct tensor tensor;
  struct diag own = {0};
  if (tensor_read(context, t, &scratch, &tensor, &own) == STATUS_OK) {
    float *values = malloc((size_t)tensor.count * sizeof *values + 1);
    tensor_to_float(&tensor, values);
    free(values);
  } else {
    assert_true(own.message[0] != '\0');
  }
  arena_free(&scratch);
  return STATUS_OK;
}

// Loads, reads every tensor, packs. A copy of just that size lets the sanitizer see overreads.
static bool survives(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (size)
    memcpy(copy, data, size);
  struct arena scratch = {0};
  struct model m;
  struct diag own = {0};
  bool good = model_from_bytes(&m, &scratch, copy, size, "m.onnx", NULL, &own) == STATUS_OK;
  if (good) {
    uint8_t *packed;
    size_t packed_size;
    assert_int_equal(model_each_tensor(m.proto, read_values, &m), STATUS_OK);
    assert_int_equal(model_pack(m.proto, &scratch, &packed, &packed_size, &own), STATUS_OK);
    model_close(&m);
  } else {
    assert_true(own.message[0] != '\0');
  }
  arena_free(&scratch);
  free(copy);
  return good;
}

static void model_survives_every_prefix(void **state) {
  (void)state;
  struct bytes b = small_model();
  for (size_t size = 0; size <= b.size; size++)
    survives(b.data, size);
  assert_true(survives(b.data, b.size));
}

static uint32_t next_random(uint32_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  return *seed ^= *seed << 5;
}

static void model_survives_mutations(void **state) {
  (void)state;
  struct bytes b = small_model();
  size_t good = 0;
  for (size_t at = 0; at < b.size; at++)
    for (unsigned bit = 0; bit < 8; bit++) {
      b.data[at] ^= (uint8_t)(1u << bit);
      good += survives(b.data, b.size);
      b.data[at] ^= (uint8_t)(1u << bit);
    }
  uint32_t seed = 20240229;
  for (uint32_t i = 0; i < 5000; i++) {
    struct bytes c = b;
    for (uint32_t k = 0; k <= i % 4; k++)
      c.data[next_random(&seed) % c.size] = (uint8_t)next_random(&seed);
    good += survives(c.data, c.size);
  }
  assert_true(good > 100);
}

static int n_visited;

static bool is_onnx(const char *path) {
  size_t length = strlen(path);
  return length >= 5 && strcmp(path + length - 5, ".onnx") == 0;
}

static int visit_nasty(const char *path, const struct stat *s, int type, struct FTW *f) {
  (void)s;
  (void)f;
  if (type != FTW_F || !is_onnx(path))
    return 0;
  struct arena scratch = {0};
  struct model m;
  struct diag own = {0};
  if (model_load(&m, &scratch, path, NULL, &own) == STATUS_OK) {
    assert_int_equal(model_each_tensor(m.proto, read_values, &m), STATUS_OK);
    model_close(&m);
  } else {
    assert_true(own.message[0] != '\0');
  }
  arena_free(&scratch);
  n_visited++;
  return 0;
}

static void model_survives_all_broken_files(void **state) {
  (void)state;
  const char *folder = getenv("NARROWCAST_NASTY");
  if (!folder) {
    print_message("NARROWCAST_NASTY is not set\n");
    skip();
  }
  n_visited = 0;
  assert_int_equal(nftw(folder, visit_nasty, 16, FTW_PHYS), 0);
  assert_true(n_visited > 0);
}

// ---- Repacking ----

static void repacks(const char *path) {
  struct arena scratch = {0};
  struct model m;
  struct diag own = {0};
  uint8_t *packed;
  size_t size;
  if (model_load(&m, &scratch, path, NULL, &own) != STATUS_OK)
    fail_msg("%s: %s", path, own.message);
  assert_int_equal(model_pack(m.proto, &scratch, &packed, &size, &own), STATUS_OK);
  if (size != m.size || memcmp(packed, m.bytes, size) != 0)
    fail_msg("%s: repacked, it is another file", path);
  model_close(&m);
  arena_free(&scratch);
  n_visited++;
}

static int visit_unchanged(const char *path, const struct stat *s, int type, struct FTW *f) {
  (void)s;
  (void)f;
  if (type == FTW_F && is_onnx(path))
    repacks(path);
  return 0;
}

static void model_repacks_operator_tests_byte_for_byte(void **state) {
  (void)state;
  n_visited = 0;
  FILE *list = popen("dpkg -L libonnx-testdata 2>/dev/null", "r");
  assert_non_null(list);
  char path[4096];
  while (fgets(path, sizeof path, list)) {
    path[strcspn(path, "\n")] = '\0';
    if (is_onnx(path))
      repacks(path);
  }
  pclose(list);
  if (!n_visited) {
    print_message("the package libonnx-testdata is not installed\n");
    skip();
  }
  print_message("%d models\n", n_visited);
}

static void model_repacks_real_models_byte_for_byte(void **state) {
  (void)state;
  const char *folder = getenv("NARROWCAST_MODELS");
  if (!folder) {
    print_message("NARROWCAST_MODELS is not set\n");
    skip();
  }
  n_visited = 0;
  assert_int_equal(nftw(folder, visit_unchanged, 16, FTW_PHYS), 0);
  assert_true(n_visited > 0);
  print_message("%d models\n", n_visited);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(model_points_raw_data_into_the_file),
      cmocka_unit_test(model_visits_tensors_of_all_graphs_in_file_order),
      cmocka_unit_test(model_takes_the_last_raw_data),
      cmocka_unit_test(model_merges_repeated_messages),
      cmocka_unit_test(model_keeps_unknown_fields_and_groups),
      cmocka_unit_test(model_keeps_known_fields_of_another_wire_type),
      cmocka_unit_test(model_says_what_is_no_model),
      cmocka_unit_test(model_refuses_external_tensors_that_have_raw_data),
      cmocka_unit_test(model_refuses_what_is_no_regular_file),
      cmocka_unit_test(model_refuses_to_pack_more_than_2_gib),
      cmocka_unit_test(model_survives_every_prefix),
      cmocka_unit_test(model_survives_mutations),
      cmocka_unit_test(model_survives_all_broken_files),
      cmocka_unit_test(model_repacks_operator_tests_byte_for_byte),
      cmocka_unit_test(model_repacks_real_models_byte_for_byte),
  };
  return cmocka_run_group_tests(tests, NULL, teardown);
}
