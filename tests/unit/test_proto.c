// Our statement of the ONNX messages (proto/onnx.proto) against the distribution's: its .proto file
// field by field, and all its test models byte by byte.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "onnx.pb-c.h"

#define TESTDATA "/usr/share/libonnx-testdata/data"

// The ML variant first: where a distribution installs both, it is the superset.
static const char *const PUBLISHED[] = {"/usr/include/onnx/onnx-ml.proto",
                                        "/usr/include/onnx/onnx.proto"};

// A whole file, with a NUL after its end; NULL if there is none.
static uint8_t *read_whole(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return NULL;
  }
  size_t used = 0;
  size_t room = 1 << 16;
  uint8_t *bytes = malloc(room);
  assert_non_null(bytes);
  for (size_t n = 1; n > 0; used += n) {
    if (used + 1 == room) {
      room *= 2;
      bytes = realloc(bytes, room);
      assert_non_null(bytes);
    }
    n = fread(bytes + used, 1, room - 1 - used, file);
  }
  assert_false(ferror(file));
  assert_int_equal(fclose(file), 0);
  bytes[used] = 0;
  *size = used;
  return bytes;
}

// ---- The generated descriptors ----

static struct {
  const ProtobufCMessageDescriptor *messages[64];
  const ProtobufCEnumDescriptor *enums[64];
  size_t message_count;
  size_t enum_count;
} ours;

static void add_enum(const ProtobufCEnumDescriptor *descriptor) {
  for (size_t i = 0; i < ours.enum_count; i++) {
    if (ours.enums[i] == descriptor) {
      return;
    }
  }
  assert_true(ours.enum_count < sizeof ours.enums / sizeof ours.enums[0]);
  ours.enums[ours.enum_count++] = descriptor;
}

static void add_message(const ProtobufCMessageDescriptor *descriptor) {
  for (size_t i = 0; i < ours.message_count; i++) {
    if (ours.messages[i] == descriptor) {
      return;
    }
  }
  assert_true(ours.message_count < sizeof ours.messages / sizeof ours.messages[0]);
  ours.messages[ours.message_count++] = descriptor;
  for (unsigned i = 0; i < descriptor->n_fields; i++) {
    const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
      add_message(field->descriptor);
    } else if (field->type == PROTOBUF_C_TYPE_ENUM) {
      add_enum(field->descriptor);
    }
  }
}

static int collect_ours(void **state) {
  (void)state;
  add_message(&onnx__model_proto__descriptor);
  // No field has these as its type.
  add_enum(&onnx__version__descriptor);
  add_enum(&onnx__operator_status__descriptor);
  add_enum(&onnx__tensor_proto__data_type__descriptor);
  return 0;
}

static const ProtobufCMessageDescriptor *find_message(const char *name) {
  for (size_t i = 0; i < ours.message_count; i++) {
    if (strcmp(ours.messages[i]->name, name) == 0) {
      return ours.messages[i];
    }
  }
  return NULL;
}

static const ProtobufCEnumDescriptor *find_enum(const char *name) {
  for (size_t i = 0; i < ours.enum_count; i++) {
    if (strcmp(ours.enums[i]->name, name) == 0) {
      return ours.enums[i];
    }
  }
  return NULL;
}

// ---- A reader for the published .proto file ----

enum { MAX_TOKENS = 64, MAX_TOKEN = 96, MAX_DEPTH = 8, MAX_NAME = 512 };

typedef enum { MESSAGE, ENUM, ONEOF } Block;

typedef struct {
  const char *path;
  const char *at;
  // The statement just read, and what ended it: { } ; or 0 at the end of the file.
  char tokens[MAX_TOKENS][MAX_TOKEN];
  size_t token_count;
  char end;
  // The blocks around it.
  Block blocks[MAX_DEPTH];
  char names[MAX_DEPTH][MAX_TOKEN];
  size_t depth;
  // What was compared.
  size_t messages, fields, packed, enums, values;
} Reader;

static void skip_space(Reader *r) {
  for (;;) {
    while (isspace((unsigned char)*r->at)) {
      r->at++;
    }
    if (strncmp(r->at, "//", 2) == 0) {
      r->at += strcspn(r->at, "\n");
    } else if (strncmp(r->at, "/*", 2) == 0) {
      r->at = strstr(r->at, "*/");
      assert_non_null(r->at);
      r->at += 2;
    } else {
      return;
    }
  }
}

static void read_statement(Reader *r) {
  r->token_count = 0;
  for (;;) {
    skip_space(r);
    r->end = *r->at;
    if (r->end == 0) {
      return;
    }
    if (strchr("{};", r->end) != NULL) {
      r->at++;
      return;
    }
    size_t length = 0;
    while (isalnum((unsigned char)r->at[length]) ||
           (r->at[length] != 0 && strchr("_.-", r->at[length]))) {
      length++;
    }
    if (r->at[0] == '"') {
      length = strcspn(r->at + 1, "\"") + 2;
    }
    length = length == 0 ? 1 : length;
    assert_true(r->token_count < MAX_TOKENS && length < MAX_TOKEN);
    memcpy(r->tokens[r->token_count], r->at, length);
    r->tokens[r->token_count++][length] = 0;
    r->at += length;
  }
}

static bool token_is(const Reader *r, size_t i, const char *text) {
  return i < r->token_count && strcmp(r->tokens[i], text) == 0;
}

// The full name of the block at this depth, as the generated code has it; oneofs are no scope.
static const char *full_name(const Reader *r, size_t depth) {
  static char name[MAX_NAME];
  size_t used = (size_t)snprintf(name, sizeof name, "onnx");
  for (size_t i = 0; i < depth; i++) {
    if (r->blocks[i] != ONEOF) {
      used += (size_t)snprintf(name + used, sizeof name - used, ".%s", r->names[i]);
      assert_true(used < sizeof name);
    }
  }
  return name;
}

static void open_block(Reader *r) {
  assert_int_equal(r->token_count, 2);
  assert_true(r->depth < MAX_DEPTH);
  Block block = token_is(r, 0, "message") ? MESSAGE : token_is(r, 0, "enum") ? ENUM : ONEOF;
  assert_true(block != ONEOF || token_is(r, 0, "oneof"));
  r->blocks[r->depth] = block;
  memcpy(r->names[r->depth++], r->tokens[1], MAX_TOKEN);

  const char *name = full_name(r, r->depth);
  if (block == MESSAGE) {
    r->messages++;
    if (find_message(name) == NULL) {
      fail_msg("no message %s", name);
    }
  } else if (block == ENUM) {
    r->enums++;
    if (find_enum(name) == NULL) {
      fail_msg("no enum %s", name);
    }
  }
}

static long number_at(const Reader *r, size_t i) {
  assert_true(i < r->token_count);
  char *end;
  long number = strtol(r->tokens[i], &end, 0);
  assert_int_equal(*end, 0);
  return number;
}

static void compare_value(Reader *r) {
  if (token_is(r, 0, "reserved") || token_is(r, 0, "option")) {
    return;
  }
  assert_true(token_is(r, 1, "="));
  r->values++;
  // The newest version's name, whichever that is: older files have a smaller number.
  bool newest = token_is(r, 0, "IR_VERSION");
  const char *name = full_name(r, r->depth);
  const ProtobufCEnumValue *value =
      protobuf_c_enum_descriptor_get_value_by_name(find_enum(name), r->tokens[0]);
  if (value == NULL) {
    fail_msg("no value %s in %s", r->tokens[0], name);
  } else if (newest ? value->value < number_at(r, 2) : value->value != number_at(r, 2)) {
    fail_msg("%s in %s is %d, not %s", r->tokens[0], name, value->value, r->tokens[2]);
  }
}

// Whether the field has the type of that name: a scalar type, or a name to look up in the scopes
// around it, the innermost first.
static bool has_type(const Reader *r, const ProtobufCFieldDescriptor *field, const char *type) {
  static const struct {
    const char *name;
    ProtobufCType type;
  } scalars[] = {
      {"float", PROTOBUF_C_TYPE_FLOAT},   {"double", PROTOBUF_C_TYPE_DOUBLE},
      {"int32", PROTOBUF_C_TYPE_INT32},   {"int64", PROTOBUF_C_TYPE_INT64},
      {"uint32", PROTOBUF_C_TYPE_UINT32}, {"uint64", PROTOBUF_C_TYPE_UINT64},
      {"string", PROTOBUF_C_TYPE_STRING}, {"bytes", PROTOBUF_C_TYPE_BYTES},
      {"bool", PROTOBUF_C_TYPE_BOOL},
  };
  for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
    if (strcmp(scalars[i].name, type) == 0) {
      return field->type == scalars[i].type;
    }
  }
  for (size_t depth = r->depth + 1; depth-- > 0;) {
    char name[MAX_NAME + MAX_TOKEN];
    (void)snprintf(name, sizeof name, "%s.%s", full_name(r, depth), type);
    const ProtobufCMessageDescriptor *message = find_message(name);
    const ProtobufCEnumDescriptor *values = find_enum(name);
    if (message != NULL) {
      return field->type == PROTOBUF_C_TYPE_MESSAGE && field->descriptor == message;
    }
    if (values != NULL) {
      return field->type == PROTOBUF_C_TYPE_ENUM && field->descriptor == values;
    }
  }
  return false;
}

static void compare_field(Reader *r) {
  if (token_is(r, 0, "reserved") || token_is(r, 0, "option")) {
    return;
  }
  // label type name = number [packed = true]; the label is missing in a oneof.
  bool in_oneof = r->blocks[r->depth - 1] == ONEOF;
  size_t type = in_oneof ? 0 : 1;
  assert_true(token_is(r, type + 2, "="));
  r->fields++;
  const char *name = full_name(r, r->depth);
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field_by_name(find_message(name), r->tokens[type + 1]);
  if (field == NULL) {
    fail_msg("no field %s in %s", r->tokens[type + 1], name);
    return;
  }

  ProtobufCLabel label = PROTOBUF_C_LABEL_OPTIONAL;
  if (!in_oneof && !token_is(r, 0, "optional")) {
    assert_true(token_is(r, 0, "repeated"));
    label = PROTOBUF_C_LABEL_REPEATED;
  }
  bool packed = token_is(r, type + 5, "packed") && token_is(r, type + 7, "true");
  r->packed += packed;
  bool same = (long)field->id == number_at(r, type + 3) && field->label == label &&
              has_type(r, field, r->tokens[type]) &&
              ((field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0) == packed &&
              ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) == in_oneof;
  if (!same) {
    fail_msg("%s in %s differs", field->name, full_name(r, r->depth));
  }
}

static void test_published_messages_are_stated(void **state) {
  (void)state;
  Reader r = {0};
  uint8_t *text = NULL;
  for (size_t i = 0; i < sizeof PUBLISHED / sizeof PUBLISHED[0] && text == NULL; i++) {
    size_t size;
    r.path = PUBLISHED[i];
    text = read_whole(r.path, &size);
  }
  if (text == NULL) {
    print_message("no onnx.proto here: install libonnx-dev\n");
    skip();
  }

  r.at = (const char *)text;
  for (read_statement(&r); r.end != 0; read_statement(&r)) {
    if (r.end == '{') {
      open_block(&r);
    } else if (r.end == '}') {
      assert_true(r.depth > 0 && r.token_count == 0);
      r.depth--;
    } else if (r.depth > 0 && r.token_count > 0) {
      (r.blocks[r.depth - 1] == ENUM ? compare_value : compare_field)(&r);
    }
  }
  free(text);

  print_message("%s: %zu messages, %zu fields (%zu packed), %zu enums, %zu values\n", r.path,
                r.messages, r.fields, r.packed, r.enums, r.values);
  assert_int_equal(r.depth, 0);
  // What IR version 8 has: less means that the reader missed something.
  assert_true(r.messages >= 21 && r.fields >= 103 && r.packed >= 5);
  assert_true(r.enums >= 5 && r.values >= 45);
}

// What came after the oldest distribution's file: numbers that no other test would miss.
static void test_newer_fields_are_stated(void **state) {
  (void)state;
  static const struct {
    const char *message;
    const char *field;
    uint32_t id;
  } fields[] = {
      {"onnx.ValueInfoProto", "metadata_props", 4},
      {"onnx.NodeProto", "overload", 8},
      {"onnx.NodeProto", "metadata_props", 9},
      {"onnx.NodeProto", "device_configurations", 10},
      {"onnx.GraphProto", "metadata_props", 16},
      {"onnx.TensorProto", "metadata_props", 16},
      {"onnx.ModelProto", "configuration", 26},
      {"onnx.FunctionProto", "attribute_proto", 11},
      {"onnx.FunctionProto", "value_info", 12},
      {"onnx.FunctionProto", "overload", 13},
      {"onnx.FunctionProto", "metadata_props", 14},
      {"onnx.TypeProto", "opaque_type", 7},
      {"onnx.NodeDeviceConfigurationProto", "sharding_spec", 2},
      {"onnx.ShardingSpecProto", "index_to_device_group_map", 3},
      {"onnx.ShardedDimProto", "simple_sharding", 2},
      {"onnx.SimpleShardedDimProto", "num_shards", 3},
  };
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    const ProtobufCMessageDescriptor *message = find_message(fields[i].message);
    assert_non_null(message);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message, fields[i].field);
    assert_non_null(field);
    assert_int_equal(field->id, fields[i].id);
  }

  static const char *const types[] = {
      "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",      "INT4",
      "FLOAT4E2M1",   "FLOAT8E8M0",     "UINT2",      "INT2",           "FLOAT6E2M3", "FLOAT6E3M2"};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(
        &onnx__tensor_proto__data_type__descriptor, types[i]);
    assert_non_null(value);
    assert_int_equal(value->value, 17 + i);
  }
}

// ---- The test models ----

static void repack(const char *path) {
  size_t size;
  uint8_t *bytes = read_whole(path, &size);
  assert_non_null(bytes);
  Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
  if (model == NULL) {
    fail_msg("%s: cannot be unpacked", path);
  }
  size_t packed_size = onnx__model_proto__get_packed_size(model);
  uint8_t *packed = malloc(packed_size + 1);
  assert_non_null(packed);
  assert_int_equal(onnx__model_proto__pack(model, packed), packed_size);
  if (packed_size != size || memcmp(packed, bytes, size) != 0) {
    fail_msg("%s: differs after unpacking and packing", path);
  }
  free(packed);
  onnx__model_proto__free_unpacked(model, NULL);
  free(bytes);
}

// Repacks every .onnx file below the folder and returns how many there are.
static size_t repack_below(const char *folder) {
  size_t count = 0;
  DIR *open = opendir(folder);
  if (open == NULL) {
    return 0;
  }
  for (struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open)) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    assert_true(length > 5 && (size_t)length < sizeof path);
    struct stat about;
    if (entry->d_name[0] == '.' || stat(path, &about) != 0) {
      continue;
    }
    if (S_ISDIR(about.st_mode)) {
      count += repack_below(path);
    } else if (strcmp(path + length - 5, ".onnx") == 0) {
      repack(path);
      count++;
    }
  }
  assert_int_equal(closedir(open), 0);
  return count;
}

static void test_models_survive_repacking(void **state) {
  (void)state;
  struct stat about;
  if (stat(TESTDATA, &about) != 0) {
    print_message("no test models here: install libonnx-testdata\n");
    skip();
  }
  size_t count = repack_below(TESTDATA);
  print_message("%zu models are the same after repacking\n", count);
  assert_true(count > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_published_messages_are_stated),
      cmocka_unit_test(test_newer_fields_are_stated),
      cmocka_unit_test(test_models_survive_repacking),
  };
  return cmocka_run_group_tests(tests, collect_ours, NULL);
}
