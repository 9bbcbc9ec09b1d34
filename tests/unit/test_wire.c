// The walk over the wire format: what it refuses and how it says so, what it accepts as protobuf
// does, and that nothing in a file can pass for one of its own placeholders.
#include "wire.h"

#include "support_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
// cmocka wants the three above first
#include <cmocka.h>

enum { IR_VERSION = 1, DOC_STRING = 6, GRAPH = 7 };            // ModelProto
enum { NODE = 1, INITIALIZER = 5 };                            // GraphProto
enum { INPUT = 1, NODE_NAME = 3, ATTRIBUTE = 5 };              // NodeProto
enum { ATTR_S = 4, ATTR_T = 5, ATTR_G = 6, ATTR_FLOATS = 7 };  // AttributeProto
enum { DIMS = 1, FLOAT_DATA = 4, NAME = 8, RAW = 9 };          // TensorProto

static struct diag d;

static enum status walk_limited(struct wire *w, const void *data, size_t size,
                                const struct model_limits *limits) {
  // A copy of just that size, so that the sanitizer sees a read beyond it.
  uint8_t *copy = malloc(size ? size : 1);
  if (size)
    memcpy(copy, data, size);
  diag_clear(&d);
  enum status status = wire_walk(w, &onnx__model_proto__descriptor, copy, size, limits, &d);
  free(copy);
  assert_int_equal(d.status, status);
  if (status != STATUS_OK)
    assert_true(d.message[0] != '\0');
  return status;
}

static enum status walk(struct wire *w, const struct bytes *b) {
  return walk_limited(w, b->data, b->size, &model_default_limits);
}

static void refuses(const struct bytes *b, const char *message) {
  struct wire w;
  assert_int_equal(walk(&w, b), STATUS_MODEL);
  if (!strstr(d.message, message))
    fail_msg("'%s' is not in '%s'", message, d.message);
}

static void refuses_raw(const char *data, size_t size, const char *message) {
  struct bytes b = {.size = 0};
  put_bytes(&b, data, size);
  refuses(&b, message);
}

static void accepts(const struct bytes *b, size_t n_raw, size_t n_odd) {
  struct wire w;
  if (walk(&w, b) != STATUS_OK)
    fail_msg("%s", d.message);
  assert_int_equal(w.n_raw, n_raw);
  assert_int_equal(w.n_odd, n_odd);
  ProtobufCMessage *m =
      protobuf_c_message_unpack(&onnx__model_proto__descriptor, NULL, w.size, w.slim);
  assert_non_null(m);
  protobuf_c_message_free_unpacked(m, NULL);
  wire_free(&w);
}

// A model with a tensor attribute of node 3: graph.node[3].attribute[0].t.
static struct bytes model_with_tensor(const struct bytes *tensor) {
  struct bytes attribute = {.size = 0}, node = {.size = 0}, graph = {.size = 0},
               model = {.size = 0};
  put_message(&attribute, ATTR_T, tensor);
  put_message(&node, ATTRIBUTE, &attribute);
  for (int i = 0; i < 3; i++)
    put_text(&graph, NODE, "");
  put_message(&graph, NODE, &node);
  put_int(&model, IR_VERSION, 8);
  put_message(&model, GRAPH, &graph);
  return model;
}

#define REFUSES(literal, message) refuses_raw(literal, sizeof literal - 1, message)

static void wire_refuses_a_varint_of_11_bytes(void **state) {
  (void)state;
  REFUSES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 10 bytes");
  REFUSES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 10 bytes");
}

static void wire_refuses_illegal_tags(void **state) {
  (void)state;
  REFUSES("\x0e", "unknown wire type");
  REFUSES("\x0f", "unknown wire type");
  REFUSES("\x00\x01", "impossible field number");
  REFUSES("\xf8\xff\xff\xff\x1f\x01", "impossible field number");
}

static void wire_refuses_truncated_values(void **state) {
  (void)state;
  REFUSES("\x08", "ends inside a number");
  REFUSES("\x09\x00\x00\x00", "ends inside a 64-bit value");
  REFUSES("\x0d\x00\x00", "ends inside a 32-bit value");
  REFUSES("\x3a\x05"
          "ab",
          "length goes beyond the end");
  REFUSES("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "length goes beyond the end");
}

static void wire_names_offset_and_path(void **state) {
  (void)state;
  struct bytes tensor = {.size = 0};
  put_int(&tensor, DIMS, 2);
  put_tag(&tensor, NAME, 2);
  put_varint(&tensor, 100);
  struct bytes model = model_with_tensor(&tensor);
  refuses(&model, "in graph.node[3].attribute[0].t.name: its length goes beyond the end");
  refuses(&model, "at byte 18,");
}

static void wire_takes_groups_for_unknown_fields(void **state) {
  (void)state;
  struct bytes b = {.size = 0};
  put_tag(&b, 127, 3);
  put_int(&b, 1, 5);
  put_tag(&b, 2, 3);
  put_text(&b, 3, "x");
  put_tag(&b, 2, 4);
  put_tag(&b, 127, 4);
  accepts(&b, 0, 1);
}

static void wire_refuses_unbalanced_groups(void **state) {
  (void)state;
  REFUSES("\x0b", "ends inside a group");
  REFUSES("\x0c", "not begun");
  REFUSES("\x0b\x14", "another's end");
  REFUSES("\x0b\x0f", "unknown wire type");
  struct bytes b = {.size = 0};
  for (int i = 0; i < 1000; i++)
    put_tag(&b, 1, 3);
  refuses(&b, "nested too deep");
}

// As protobuf does: neither an error nor a value.
static void wire_takes_another_wire_type_for_an_unknown_field(void **state) {
  (void)state;
  struct bytes b = {.size = 0};
  put_text(&b, IR_VERSION, "x");
  put_int(&b, GRAPH, 7);
  put_tag(&b, GRAPH, 5);
  put_bytes(&b, "abcd", 4);
  put_tag(&b, DOC_STRING, 3);
  put_tag(&b, DOC_STRING, 4);
  accepts(&b, 0, 4);
}

static void wire_placeholders_cannot_be_forged(void **state) {
  (void)state;
  struct bytes tensor = {.size = 0};
  put_field(&tensor, RAW, "\x05\0\0\0", 4);
  put_tag(&tensor, WIRE_ODD_FIELD, 5);
  put_bytes(&tensor, "\x07\0\0\0", 4);
  put_int(&tensor, WIRE_ODD_FIELD, 1);
  struct bytes model = model_with_tensor(&tensor);
  struct wire w;
  assert_int_equal(walk(&w, &model), STATUS_OK);
  assert_int_equal(w.n_raw, 1);
  assert_int_equal(w.n_odd, 2);
  assert_int_equal(w.raw[0].length, 4);
  assert_memory_equal(model.data + w.raw[0].offset, "\x05\0\0\0", 4);
  assert_int_equal(w.odd[0].wire_type, 5);
  assert_int_equal(w.odd[1].wire_type, 0);
  wire_free(&w);
}

static void wire_keeps_raw_data_out_of_the_copy(void **state) {
  (void)state;
  static const uint8_t weights[3000];
  struct bytes tensor = {.size = 0};
  put_field(&tensor, RAW, weights, sizeof weights);
  struct bytes model = model_with_tensor(&tensor);
  struct wire w;
  assert_int_equal(walk(&w, &model), STATUS_OK);
  assert_true(w.size < 100);
  assert_int_equal(w.raw[0].length, sizeof weights);
  wire_free(&w);
}

static void wire_accepts_padded_lengths_and_tags(void **state) {
  (void)state;
  struct bytes b = {.size = 0};
  put_bytes(&b, "\xba\x80\x80\x80\x80\x80\x00\x84\x80\x80\x80\x80\x80\x00", 14);  // graph, 4 bytes
  put_text(&b, 2, "ab");
  accepts(&b, 0, 0);
}

static void wire_refuses_nul_in_strings_only(void **state) {
  (void)state;
  struct bytes attribute = {.size = 0}, node = {.size = 0}, graph = {.size = 0}, b = {.size = 0};
  put_field(&attribute, ATTR_S, "a\0b", 3);
  put_message(&node, ATTRIBUTE, &attribute);
  put_message(&graph, NODE, &node);
  put_message(&b, GRAPH, &graph);
  accepts(&b, 0, 0);
  put_field(&node, INPUT, "a\0b", 3);
  put_message(&graph, NODE, &node);
  put_message(&b, GRAPH, &graph);
  refuses(&b, "in graph.node[1].input[0]: a string with a NUL byte");
}

static void wire_refuses_bad_packed_lists(void **state) {
  (void)state;
  struct bytes floats = {.size = 0}, dims = {.size = 0}, longer = {.size = 0}, good = {.size = 0};
  put_text(&floats, FLOAT_DATA, "12345");
  put_text(&dims, DIMS, "\x80");
  put_text(&longer, DIMS, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
  put_text(&good, DIMS, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x02");
  struct bytes b = model_with_tensor(&floats);
  refuses(&b, "graph.node[3].attribute[0].t.float_data[0]: 5 bytes");
  b = model_with_tensor(&dims);
  refuses(&b, "ends inside a number");
  b = model_with_tensor(&longer);
  refuses(&b, "more than 10 bytes");
  b = model_with_tensor(&good);
  accepts(&b, 0, 0);
}

// Graphs in attributes of graphs, written from the inside out.
static uint8_t *nest(size_t levels, size_t *size) {
  enum { STEP = 24 };
  size_t capacity = levels * STEP + 16, at = capacity;
  uint8_t *data = malloc(capacity);
  const uint32_t fields[] = {ATTR_G, ATTRIBUTE, NODE};
  for (size_t i = 0; i < levels; i++) {
    struct bytes head = {.size = 0};
    put_tag(&head, i + 1 == levels ? GRAPH : fields[i % 3], 2);
    put_varint(&head, capacity - at);
    at -= head.size;
    memcpy(data + at, head.data, head.size);
  }
  *size = capacity - at;
  memmove(data, data + at, *size);
  return data;
}

static void wire_limits_depth_without_recursion(void **state) {
  (void)state;
  const size_t levels[] = {100, 103, 3001, 300001};
  for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
    size_t size;
    uint8_t *data = nest(levels[i], &size);
    struct wire w;
    enum status status = walk_limited(&w, data, size, &model_default_limits);
    free(data);
    assert_int_equal(status, levels[i] <= 100 ? STATUS_OK : STATUS_MODEL);
    if (status == STATUS_OK)
      wire_free(&w);
    else
      assert_non_null(strstr(d.message, "nested deeper than 100 messages"));
  }
}

static void wire_limits_counts_and_lengths(void **state) {
  (void)state;
  struct bytes tensor = {.size = 0};
  put_text(&tensor, NAME, "0123456789");
  struct bytes model = model_with_tensor(&tensor);
  const struct model_limits limits = {4, 8, 10, 10};
  struct wire w;
  assert_int_equal(walk_limited(&w, model.data, model.size, &limits), STATUS_OK);
  wire_free(&w);
  const struct {
    struct model_limits limits;
    const char *message;
  } cases[] = {{{3, 8, 10, 10}, "nested deeper"},
               {{100, 7, 10, 10}, "more than 7 messages"},
               {{100, 8, 8, 10}, "more than 8 fields"},
               {{100, 8, 10, 9}, "more than 9 bytes in a string"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(walk_limited(&w, model.data, model.size, &cases[i].limits), STATUS_MODEL);
    if (!strstr(d.message, cases[i].message))
      fail_msg("%s", d.message);
  }
}

// Merging copies: many repeats would cost quadratic time.
static void wire_bounds_repeats_of_a_single_message(void **state) {
  (void)state;
  struct bytes b = {.size = 0};
  for (int i = 0; i < 101; i++)
    put_text(&b, GRAPH, "");
  accepts(&b, 0, 0);
  put_text(&b, GRAPH, "");
  refuses(&b, "more than 100 times");
}

enum { GRAPH_INPUT = 11, TYPE = 2, TENSOR_TYPE = 1, SEQUENCE_TYPE = 4, ELEM_TYPE = 1 };

// A type in one of several parts; each part is the content of one occurrence of the field.
static Onnx__TypeProto *type_of_parts(struct bytes *parts, size_t count) {
  struct bytes input = {.size = 0}, graph = {.size = 0}, b = {.size = 0};
  for (size_t i = 0; i < count; i++)
    put_message(&input, TYPE, &parts[i]);
  put_message(&graph, GRAPH_INPUT, &input);
  put_message(&b, GRAPH, &graph);
  struct wire w;
  if (walk(&w, &b) != STATUS_OK)
    fail_msg("%s", d.message);
  Onnx__ModelProto *m = (Onnx__ModelProto *)protobuf_c_message_unpack(
      &onnx__model_proto__descriptor, NULL, w.size, w.slim);
  wire_free(&w);
  assert_non_null(m);
  Onnx__TypeProto *type = m->graph->input[0]->type;
  m->graph->input[0]->type = NULL;
  protobuf_c_message_free_unpacked(&m->base, NULL);
  return type;
}

static struct bytes member(uint32_t field, uint32_t inner, uint64_t value) {
  struct bytes content = {.size = 0}, type = {.size = 0};
  if (inner)
    put_int(&content, inner, value);
  put_message(&type, field, &content);
  return type;
}

static void wire_merges_oneofs_as_protobuf_does(void **state) {
  (void)state;
  const struct bytes none = {.size = 0};
  struct bytes tensor = member(TENSOR_TYPE, ELEM_TYPE, 7), again = member(TENSOR_TYPE, 0, 0),
               sequence = member(SEQUENCE_TYPE, 0, 0);
  // neither is set; only the first is; the same one twice; another one in between
  Onnx__TypeProto *t = type_of_parts((struct bytes[]){none, none}, 2);
  assert_int_equal(t->value_case, 0);
  onnx__type_proto__free_unpacked(t, NULL);
  t = type_of_parts((struct bytes[]){tensor, none}, 2);
  assert_int_equal(t->tensor_type->elem_type, 7);
  onnx__type_proto__free_unpacked(t, NULL);
  t = type_of_parts((struct bytes[]){tensor, again}, 2);
  assert_int_equal(t->tensor_type->elem_type, 7);
  onnx__type_proto__free_unpacked(t, NULL);
  t = type_of_parts((struct bytes[]){tensor, sequence, again}, 3);
  assert_false(t->tensor_type->has_elem_type);
  onnx__type_proto__free_unpacked(t, NULL);
  t = type_of_parts((struct bytes[]){tensor, sequence}, 2);
  assert_int_equal(t->value_case, SEQUENCE_TYPE);
  onnx__type_proto__free_unpacked(t, NULL);
}

static void wire_accepts_an_empty_message(void **state) {
  (void)state;
  struct bytes b = {.size = 0};
  accepts(&b, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wire_refuses_a_varint_of_11_bytes),
      cmocka_unit_test(wire_refuses_illegal_tags),
      cmocka_unit_test(wire_refuses_truncated_values),
      cmocka_unit_test(wire_names_offset_and_path),
      cmocka_unit_test(wire_takes_groups_for_unknown_fields),
      cmocka_unit_test(wire_refuses_unbalanced_groups),
      cmocka_unit_test(wire_takes_another_wire_type_for_an_unknown_field),
      cmocka_unit_test(wire_placeholders_cannot_be_forged),
      cmocka_unit_test(wire_keeps_raw_data_out_of_the_copy),
      cmocka_unit_test(wire_accepts_padded_lengths_and_tags),
      cmocka_unit_test(wire_refuses_nul_in_strings_only),
      cmocka_unit_test(wire_refuses_bad_packed_lists),
      cmocka_unit_test(wire_limits_depth_without_recursion),
      cmocka_unit_test(wire_limits_counts_and_lengths),
      cmocka_unit_test(wire_bounds_repeats_of_a_single_message),
      cmocka_unit_test(wire_merges_oneofs_as_protobuf_does),
      cmocka_unit_test(wire_accepts_an_empty_message),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
