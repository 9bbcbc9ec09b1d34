// External data, saving and copying: which locations are taken, that sharing and alignment are
// kept, that a save never harms what is being read, and that nothing is left behind.
#define _XOPEN_SOURCE 700  // nftw, mkdtemp
#include "external.h"
#include "file.h"
#include "tensor.h"

#include "support_bytes.h"

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the three above first
#include <cmocka.h>

static struct arena arena;
static struct diag d;
static struct model model;
static char folder[256];  // a new one for each test

static int setup(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/narrowcast.XXXXXX", base ? base : "/tmp");
  diag_clear(&d);
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f) {
  (void)s;
  (void)type;
  (void)f;
  return remove(path);
}

static int teardown(void **state) {
  (void)state;
  model_close(&model);
  arena_free(&arena);
  return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char *in_folder(const char *name) {
  return arena_printf(&arena, "%s/%s", folder, name);
}

static void write_file(const char *name, const void *data, size_t size) {
  FILE *f = fopen(in_folder(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, size, f), size);
  assert_int_equal(fclose(f), 0);
}

static size_t file_size(const char *name) {
  struct stat s;
  return stat(in_folder(name), &s) == 0 ? (size_t)s.st_size : 0;
}

static int count_files(void) {
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(dir));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(dir);
  return count;
}

// ---- Models with external data ----

struct range {
  const char *location, *offset, *length;  // NULL: no such entry
};

static void put_entry(struct bytes *tensor, const char *key, const char *value) {
  struct bytes entry = {.size = 0};
  if (!value)
    return;
  put_text(&entry, 1, key);
  put_text(&entry, 2, value);
  put_message(tensor, 13, &entry);
}

static struct bytes external_tensor(const char *name, const struct range *r) {
  struct bytes t = {.size = 0};
  put_int(&t, 1, 4);  // float[4]
  put_int(&t, 2, 1);
  put_text(&t, 8, name);
  put_entry(&t, "location", r->location);
  put_entry(&t, "offset", r->offset);
  put_entry(&t, "length", r->length);
  put_int(&t, 14, 1);
  return t;
}

static void write_model_of(const char *name, const struct bytes *tensors, size_t count) {
  struct bytes graph = {.size = 0}, b = {.size = 0};
  put_text(&graph, 2, "g");
  for (size_t i = 0; i < count; i++)
    put_message(&graph, 5, &tensors[i]);
  put_int(&b, 1, 8);
  put_message(&b, 7, &graph);
  write_file(name, b.data, b.size);
}

static void write_model(const char *name, const struct range *ranges, size_t count) {
  struct bytes tensors[8];
  for (size_t i = 0; i < count; i++)
    tensors[i] = external_tensor("w", &ranges[i]);
  write_model_of(name, tensors, count);
}

static void load(const char *name) {
  model_close(&model);
  if (model_load(&model, &arena, in_folder(name), NULL, &d) != STATUS_OK)
    fail_msg("%s", d.message);
}

static Onnx__TensorProto *initializer(size_t i) {
  return model.proto->graph->initializer[i];
}

static enum status read_floats(size_t i, float values[4]) {
  struct tensor t;
  diag_clear(&d);
  TRY(tensor_read(&model, initializer(i), &arena, &t, &d));
  assert_true(tensor_to_float(&t, values));
  return STATUS_OK;
}

static void reads(size_t i, float first) {
  float values[4];
  if (read_floats(i, values) != STATUS_OK)
    fail_msg("%s", d.message);
  assert_true(values[0] == first && values[3] == first + 3);
}

// "w.bin": the numbers 0 to 11.
static void write_numbers(const char *name) {
  float numbers[12];
  for (int i = 0; i < 12; i++)
    numbers[i] = (float)i;
  write_file(name, numbers, sizeof numbers);
}

static void refuses(const struct range *r, enum status status, const char *message) {
  float values[4];
  write_model("m.onnx", r, 1);
  load("m.onnx");
  assert_int_equal(read_floats(0, values), status);
  assert_string_equal(d.tensor, "w");
  if (!strstr(d.message, message))
    fail_msg("'%s' is not in '%s'", message, d.message);
}

// ---- Locations ----

static void external_reads_ranges_of_one_map(void **state) {
  (void)state;
  const struct range ranges[] = {{"w.bin", NULL, "16"},
                                 {"w.bin", "16", "16"},
                                 {"./w.bin", "8", "16"},
                                 {".//w.bin", "32", NULL},
                                 {"w.bin", "0", NULL}};
  write_numbers("w.bin");
  write_model("m.onnx", ranges, 5);
  load("m.onnx");
  reads(0, 0);
  reads(1, 4);
  reads(2, 2);
  reads(3, 8);
  reads(4, 0);
  assert_int_equal(model.externals->count, 1);
}

static void external_refuses_locations_outside_the_folder(void **state) {
  (void)state;
  const struct {
    const char *location, *message;
  } rows[] = {{"/etc/passwd", "absolute"},
              {"../w.bin", "'..'"},
              {"a/../../w.bin", "'..'"},
              {"a/..", "'..'"},
              {"..", "'..'"},
              {"..\\w.bin", "backslash"},
              {"a\\w.bin", "backslash"},
              {"C:w.bin", "drive"},
              {"c:\\w.bin", "drive"},
              {"\\\\server\\share\\w.bin", "UNC"},
              {"//server/share/w.bin", "UNC"},
              {"https://host/w.bin", "a URL"},
              {"file:///w.bin", "a URL"},
              {"S3://bucket/w.bin", "a URL"},
              {"", "empty"},
              {".", "names a folder"},
              {"./", "names a folder"},
              {"m.onnx", "model file itself"},
              {"./m.onnx", "model file itself"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    refuses(&(struct range){rows[i].location, "0", "16"}, STATUS_MODEL, rows[i].message);
  assert_null(external_location_fault("..a/b..c/...d"));
  assert_null(external_location_fault("http/w:x.bin"));
  refuses(&(struct range){NULL, "0", "16"}, STATUS_MODEL, "no 'location'");
}

static void external_refuses_links_out_of_the_folder_only(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("inside"), 0777), 0);
  write_numbers("outside.bin");
  write_numbers("inside/w.bin");
  assert_int_equal(symlink("../outside.bin", in_folder("inside/out.bin")), 0);
  assert_int_equal(symlink("..", in_folder("inside/up")), 0);
  assert_int_equal(symlink("w.bin", in_folder("inside/in.bin")), 0);
  const struct range ranges[] = {
      {"in.bin", "0", "16"}, {"out.bin", "0", "16"}, {"up/outside.bin", "0", "16"}};
  write_model("inside/m.onnx", ranges, 3);
  load("inside/m.onnx");
  reads(0, 0);
  float values[4];
  for (size_t i = 1; i < 3; i++) {
    assert_int_equal(read_floats(i, values), STATUS_MODEL);
    assert_non_null(strstr(d.message, "symbolic link out of"));
    assert_true(d.hint[0] != '\0');
  }
}

static void external_refuses_what_is_no_regular_file(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("dir"), 0777), 0);
  assert_int_equal(mkfifo(in_folder("fifo"), 0666), 0);
  refuses(&(struct range){"dir", NULL, NULL}, STATUS_IO, "a directory");
  refuses(&(struct range){"fifo", NULL, NULL}, STATUS_IO, "not a regular file");
  refuses(&(struct range){"gone.bin", NULL, NULL}, STATUS_IO, "No such file");
}

static void external_refuses_ranges_outside_the_file(void **state) {
  (void)state;
  write_numbers("w.bin");
  refuses(&(struct range){"w.bin", "40", "16"}, STATUS_MODEL, "lies outside");
  refuses(&(struct range){"w.bin", "49", "0"}, STATUS_MODEL, "lies outside");
  refuses(&(struct range){"w.bin", "9223372036854775807", "9223372036854775807"}, STATUS_MODEL,
          "lies outside");
  refuses(&(struct range){"w.bin", "-16", "16"}, STATUS_MODEL, "no decimal number");
  refuses(&(struct range){"w.bin", "+1", "16"}, STATUS_MODEL, "no decimal number");
  refuses(&(struct range){"w.bin", "0x10", "16"}, STATUS_MODEL, "no decimal number");
  refuses(&(struct range){"w.bin", "", "16"}, STATUS_MODEL, "no decimal number");
  refuses(&(struct range){"w.bin", "18446744073709551616", "16"}, STATUS_MODEL,
          "no decimal number");
  refuses(&(struct range){"w.bin", "0", "12"}, STATUS_MODEL, "12 bytes of external_data");
  refuses(&(struct range){"w.bin", "40", NULL}, STATUS_MODEL, "8 bytes of external_data");
}

// The sum is of the whole file, of bytes 0 to 3 here.
static void external_compares_the_checksum_if_it_is_one(void **state) {
  (void)state;
  static const struct {
    const char *sum;
    enum status status;
  } cases[] = {{"A02A05B025B928C039CF1AE7E8EE04E7C190C0DB", STATUS_OK},
               {"a02a05b025b928c039cf1ae7e8ee04e7c190c0db", STATUS_OK},
               {"a02a05b025b928c039cf1ae7e8ee04e7c190c0dc", STATUS_MODEL},
               {"oCoFsCW5KMA5zxrn6O4E58GQwNs=", STATUS_OK}};
  write_file("w.bin", "\0\1\2\3", 4);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct bytes t = {.size = 0};
    struct tensor read;
    put_int(&t, 1, 1);
    put_int(&t, 2, 1);
    put_text(&t, 8, "w");
    put_entry(&t, "location", "w.bin");
    put_entry(&t, "checksum", cases[i].sum);
    put_int(&t, 14, 1);
    write_model_of("m.onnx", &t, 1);
    load("m.onnx");
    diag_clear(&d);
    assert_int_equal(tensor_read(&model, initializer(0), &arena, &read, &d), cases[i].status);
    if (cases[i].status != STATUS_OK)
      assert_non_null(strstr(d.message, "checksum a02a05b025b928c039cf1ae7e8ee04e7c190c0db, not"));
  }
}

static void external_refuses_an_entry_given_twice(void **state) {
  (void)state;
  struct bytes t = external_tensor("w", &(struct range){"w.bin", "0", "16"});
  float values[4];
  put_entry(&t, "offset", "0");
  write_numbers("w.bin");
  write_model_of("m.onnx", &t, 1);
  load("m.onnx");
  assert_int_equal(read_floats(0, values), STATUS_MODEL);
  assert_non_null(strstr(d.message, "two 'offset' entries"));
}

static void external_finds_thousands_of_tensors_fast(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", &(struct range){"w.bin", "16", "16"}, 1);
  load("m.onnx");
  for (int i = 0; i < 100000; i++) {
    const uint8_t *data;
    size_t size;
    assert_int_equal(model_external(&model, initializer(0), &data, &size, &d), STATUS_OK);
    assert_int_equal(size, 16);
  }
  assert_int_equal(model.externals->count, 1);
}

// ---- Saving ----

// The data file of a model that was saved: the only one of its form. NULL: there is none.
static const char *data_of(const char *name) {
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  const char *found = NULL;
  size_t length = strlen(name);
  for (const struct dirent *entry; (entry = readdir(dir));)
    if (strncmp(entry->d_name, name, length) == 0 &&
        strspn(entry->d_name + length, ".0123456789abcdef") > 16) {
      assert_null(found);
      found = arena_strdup(&arena, entry->d_name);
    }
  closedir(dir);
  return found;
}

static void save(const char *name) {
  diag_clear(&d);
  if (model_save(&model, in_folder(name), &d) != STATUS_OK)
    fail_msg("%s: %s", d.file, d.message);
}

static const struct range shared[] = {
    {"w.bin", "0", "16"}, {"w.bin", "16", "16"}, {"./w.bin", "0", "16"}, {"w.bin", "8", "16"}};

static void save_writes_external_data_aligned_and_shared(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", shared, 4);
  load("m.onnx");
  save("out.onnx");
  assert_string_equal(initializer(0)->external_data[0]->value, "w.bin");
  assert_int_equal(file_size(data_of("out.onnx")), 2 * 64 + 16);
  assert_int_equal(unlink(in_folder("w.bin")), 0);
  load("out.onnx");
  const char *const offsets[] = {"0", "64", "0", "128"};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(initializer(i)->n_external_data, 3);
    assert_string_equal(initializer(i)->external_data[0]->value, data_of("out.onnx"));
    assert_string_equal(initializer(i)->external_data[1]->value, offsets[i]);
    assert_string_equal(initializer(i)->external_data[2]->value, "16");
  }
  reads(0, 0);
  reads(1, 4);
  reads(2, 0);
  reads(3, 2);
  assert_int_equal(count_files(), 3);
}

static void save_over_its_own_input_keeps_reading_the_old(void **state) {
  (void)state;
  const struct range own[] = {{"m.onnx.data", "32", "16"}, {"m.onnx.data", "0", "16"}};
  write_numbers("m.onnx.data");
  write_model("m.onnx", own, 2);
  load("m.onnx");
  for (int round = 0; round < 2; round++) {
    save("m.onnx");
    reads(0, 8);
    reads(1, 0);
  }
  load("m.onnx");
  reads(0, 8);
  reads(1, 0);
  assert_int_equal(count_files(), 3);  // the model, and both data files
}

// At no moment does a model that is there lack its data: the old pair stays whole until the new
// model takes the old one's place.
static void save_replaces_a_model_and_its_data_together(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", shared, 2);
  load("m.onnx");
  save("out.onnx");
  const char *old = data_of("out.onnx");
  save("out.onnx");
  assert_string_equal(data_of("out.onnx"), old);  // the same bytes, the same name
  write_model("m.onnx", shared + 2, 2);
  load("m.onnx");
  save("out.onnx");
  assert_string_not_equal(data_of("out.onnx"), old);
  assert_int_equal(file_size(old), 0);  // it is gone
  load("out.onnx");
  reads(1, 2);
  assert_int_equal(count_files(), 4);
}

static void save_removes_old_data_of_this_model_only(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", shared, 2);
  static const char *const others[] = {"out.onnx.data",                       // another converter's
                                       "out.onnx.0123456789abcde.data",       // too few digits
                                       "out.onnx.0123456789abcdef.data.old",  // more behind
                                       "not_out.onnx.0123456789abcdef.data"};
  for (size_t i = 0; i < 4; i++)
    write_file(others[i], "x", 1);
  write_file("out.onnx.0123456789abcdef.data", "x", 1);
  load("m.onnx");
  assert_int_equal(model_save(&model, in_folder("out.onnx"), &d), STATUS_OK);
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(file_size(others[i]), 1);
  assert_int_equal(file_size("out.onnx.0123456789abcdef.data"), 0);
}

// As when a result was renamed, and is converted to its old name.
static void save_spares_old_data_that_it_reads(void **state) {
  (void)state;
  const struct range own[] = {{"out.onnx.0123456789abcdef.data", "32", "16"}};
  write_numbers("out.onnx.0123456789abcdef.data");
  write_model("m.onnx", own, 1);
  load("m.onnx");
  save("out.onnx");
  assert_true(file_size("out.onnx.0123456789abcdef.data") > 0);
  assert_int_equal(model_copy(&model, in_folder("out.onnx"), &d), STATUS_OK);
  assert_true(file_size("out.onnx.0123456789abcdef.data") > 0);
}

// Overwrites a byte where it lies, as nothing that writes through a temporary file does.
static void change(const char *name, long at) {
  FILE *f = fopen(in_folder(name), "r+b");
  assert_non_null(f);
  fseek(f, at, SEEK_SET);
  int old = fgetc(f);
  fseek(f, at, SEEK_SET);
  fputc(old ^ 1, f);
  assert_int_equal(fclose(f), 0);
}

static void save_refuses_what_was_changed_while_it_was_read(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", shared, 2);
  load("m.onnx");
  reads(0, 0);
  change("m.onnx", (long)model.size - 1);
  assert_int_equal(model_save(&model, in_folder("out.onnx"), &d), STATUS_IO);
  assert_non_null(strstr(d.file, "m.onnx"));
  assert_non_null(strstr(d.message, "was written to while it was being read"));
  change("m.onnx", (long)model.size - 1);
  struct timespec later = {.tv_nsec = 20 * 1000 * 1000};  // a file's clock may be coarse
  nanosleep(&later, NULL);
  diag_clear(&d);
  change("w.bin", 3);
  assert_int_equal(model_save(&model, in_folder("out.onnx"), &d), STATUS_IO);
  assert_non_null(strstr(d.file, "w.bin"));
  diag_clear(&d);
  assert_int_equal(model_copy(&model, in_folder("out.onnx"), &d), STATUS_IO);
  assert_int_equal(count_files(), 2);
}

static void save_takes_what_was_replaced_while_it_was_read(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", shared, 2);
  load("m.onnx");
  reads(0, 0);
  assert_int_equal(unlink(in_folder("w.bin")), 0);
  write_file("w.bin", "another", 7);
  assert_int_equal(unlink(in_folder("m.onnx")), 0);
  save("out.onnx");
  load("out.onnx");
  reads(0, 0);
}

static void save_puts_new_external_tensors_in_the_data_file(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", shared, 2);
  load("m.onnx");
  const float values[] = {20, 21, 22, 23};
  const int64_t dims[] = {4};
  for (size_t i = 0; i < 2; i++) {
    Onnx__TensorProto *t =
        tensor_new(&arena, "n", 1, 1, dims, (const uint8_t *)values, sizeof values);
    t->has_data_location = true;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    model.proto->graph->initializer[i] = t;
  }
  reads(0, 20);
  save("out.onnx");
  assert_true(initializer(1)->has_raw_data);
  load("out.onnx");
  reads(0, 20);
  reads(1, 20);
  assert_int_equal(file_size(data_of("out.onnx")), 16);
}

static void save_without_external_data_writes_one_file(void **state) {
  (void)state;
  struct bytes t = {.size = 0};
  put_text(&t, 8, "w");
  write_model_of("m.onnx", &t, 1);
  assert_int_equal(chmod(in_folder("m.onnx"), 0600), 0);
  load("m.onnx");
  save("m.onnx");
  struct stat s;
  assert_int_equal(stat(in_folder("m.onnx"), &s), 0);
  assert_int_equal(s.st_mode & 0777, 0600);
  assert_int_equal(count_files(), 1);
}

static void save_that_fails_leaves_nothing_behind(void **state) {
  (void)state;
  write_numbers("w.bin");
  write_model("m.onnx", shared, 2);
  load("m.onnx");
  assert_int_equal(model_save(&model, in_folder("gone/out.onnx"), &d), STATUS_IO);
  diag_clear(&d);
  assert_int_equal(mkdir(in_folder("dir"), 0777), 0);
  assert_int_equal(model_save(&model, in_folder("dir"), &d), STATUS_IO);
  diag_clear(&d);
  initializer(1)->external_data[1]->value = arena_strdup(&arena, "x");
  assert_int_equal(model_save(&model, in_folder("out.onnx"), &d), STATUS_MODEL);
  assert_string_equal(initializer(0)->external_data[0]->value, "w.bin");
  assert_int_equal(count_files(), 3);
}

static void save_refuses_more_than_2_gib(void **state) {
  (void)state;
  struct bytes t = {.size = 0};
  put_field(&t, 9, "x", 1);
  write_model_of("m.onnx", &t, 1);
  load("m.onnx");
  initializer(0)->raw_data.len = (size_t)INT32_MAX;
  assert_int_equal(model_save(&model, in_folder("out.onnx"), &d), STATUS_MODEL);
  assert_non_null(strstr(d.message, "2 GiB"));
  assert_int_equal(count_files(), 1);
}

// ---- Copying ----

static void copy_keeps_bytes_and_brings_data_along(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
  assert_int_equal(mkdir(in_folder("to"), 0777), 0);
  write_numbers("w.bin");
  write_numbers("sub/v.bin");
  const struct range ranges[] = {{"w.bin", "0", "16"}, {"sub/v.bin", "16", "16"}};
  write_model("m.onnx", ranges, 2);
  load("m.onnx");
  char hash[65];
  memcpy(hash, model.sha256, sizeof hash);
  for (int round = 0; round < 2; round++)  // the second finds the data there already
    assert_int_equal(model_copy(&model, in_folder("to/n.onnx"), &d), STATUS_OK);
  assert_int_equal(model_copy(&model, in_folder("same.onnx"), &d), STATUS_OK);
  load("to/n.onnx");
  assert_string_equal(model.sha256, hash);
  reads(0, 0);
  reads(1, 4);
  assert_int_equal(count_files(), 5);
}

// A result of the program, whose data is named after the model, copied to the same name elsewhere:
// what came along is not what an earlier model left.
static void copy_keeps_data_that_is_named_like_an_earlier_results(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("to"), 0777), 0);
  write_numbers("m.onnx.0123456789abcdef.data");
  write_numbers("to/m.onnx.00000000000000aa.data");
  const struct range ranges[] = {{"m.onnx.0123456789abcdef.data", "0", "16"}};
  write_model("m.onnx", ranges, 1);
  load("m.onnx");
  assert_int_equal(model_copy(&model, in_folder("to/m.onnx"), &d), STATUS_OK);
  load("to/m.onnx");
  reads(0, 0);
  assert_int_equal(access(in_folder("to/m.onnx.00000000000000aa.data"), F_OK), -1);
}

static void copy_never_overwrites_other_data(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("to"), 0777), 0);
  write_numbers("w.bin");
  write_file("to/w.bin", "another's", 9);
  write_model("m.onnx", shared, 1);
  load("m.onnx");
  assert_int_equal(model_copy(&model, in_folder("to/n.onnx"), &d), STATUS_IO);
  assert_int_equal(file_size("to/w.bin"), 9);
  assert_int_equal(file_size("to/n.onnx"), 0);
}

// ---- Files ----

static void file_maps_an_empty_file(void **state) {
  (void)state;
  const uint8_t *bytes = NULL;
  size_t size = 1;
  write_file("empty", "", 0);
  assert_int_equal(file_map(in_folder("empty"), &bytes, &size, &d), STATUS_OK);
  assert_int_equal(size, 0);
  assert_non_null(bytes);
  file_unmap(bytes, size);
}

static void file_abandon_is_safe_after_commit(void **state) {
  (void)state;
  struct file_writer w;
  assert_int_equal(file_begin(&w, in_folder("x"), &d), STATUS_OK);
  fputs("abc", w.out);
  assert_int_equal(file_commit(&w, &d), STATUS_OK);
  file_abandon(&w);
  assert_int_equal(file_size("x"), 3);
  assert_int_equal(file_begin(&w, in_folder("y"), &d), STATUS_OK);
  file_abandon(&w);
  file_abandon(&w);
  assert_int_equal(count_files(), 1);
}

// FIPS 180-2, appendix B.1.
static void sha256_is_that_of_the_standard(void **state) {
  (void)state;
  char hex[65];
  sha256_hex("abc", 3, hex);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(external_reads_ranges_of_one_map),
      TEST(external_refuses_locations_outside_the_folder),
      TEST(external_refuses_links_out_of_the_folder_only),
      TEST(external_refuses_what_is_no_regular_file),
      TEST(external_refuses_ranges_outside_the_file),
      TEST(external_refuses_an_entry_given_twice),
      TEST(external_compares_the_checksum_if_it_is_one),
      TEST(external_finds_thousands_of_tensors_fast),
      TEST(save_writes_external_data_aligned_and_shared),
      TEST(save_over_its_own_input_keeps_reading_the_old),
      TEST(save_replaces_a_model_and_its_data_together),
      TEST(save_removes_old_data_of_this_model_only),
      TEST(save_spares_old_data_that_it_reads),
      TEST(save_refuses_what_was_changed_while_it_was_read),
      TEST(save_takes_what_was_replaced_while_it_was_read),
      TEST(save_puts_new_external_tensors_in_the_data_file),
      TEST(save_without_external_data_writes_one_file),
      TEST(save_that_fails_leaves_nothing_behind),
      TEST(save_refuses_more_than_2_gib),
      TEST(copy_keeps_bytes_and_brings_data_along),
      TEST(copy_never_overwrites_other_data),
      TEST(copy_keeps_data_that_is_named_like_an_earlier_results),
      TEST(file_maps_an_empty_file),
      TEST(file_abandon_is_safe_after_commit),
      TEST(sha256_is_that_of_the_standard),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
