// Samples: every layout of folders, every check against the model, the splitting of batches. All
// files are written by the tests themselves, to a folder that each removes.
#include "support_samples.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// ---- Layouts ----

static void order_is_by_name_and_numbers_count_by_value(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[N]");
  struct bytes x = npy("<f4", "(6,)", six, 24);
  for (int k = 10; k >= 8; k--) {
    char name[64];
    snprintf(name, sizeof name, "test_data_set_%d/input_0.pb", k);
    write_pb(f, name, NULL, FLOAT, 6, six, 24);
  }
  write_npz(f, "a2.npz", "x.npy", &x, false);
  write_npz(f, "a10.npz", "x.npy", &x, false);
  write_npy(f, "loose.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "named/x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "one/two/x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "one/two/three/x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, ".hidden/x.npy", "<f4", "(6,)", six, 24);
  static const char *const order[] = {"a2.npz",          "a10.npz",         "loose.npy",
                                      "named",           "one/two",         "test_data_set_8",
                                      "test_data_set_9", "test_data_set_10"};
  assert_int_equal(open_at(f, "/"), STATUS_OK);
  assert_int_equal(samples_count(f->samples), sizeof order / sizeof order[0]);
  for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
    struct sample s = read_sample(f, k);
    assert_string_equal(s.label, order[k]);
    assert_string_equal(s.arrays[0].name, "x");
    assert_floats(&s.arrays[0], six, 6);
    sample_free(&s);
  }
  fixture_end(f);
}

static void files_of_one_array_are_a_sample_each_for_a_single_input(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[N]");
  write_npy(f, "cat.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "dog.npy", "<f4", "(6,)", six, 24);
  assert_int_equal(open_at(f, ""), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 2);
  assert_int_equal(open_at(f, "/dog.npy"), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 1);
  struct sample s = read_sample(f, 0);
  assert_string_equal(s.label, "dog.npy");
  sample_free(&s);
  fixture_end(f);
  f = two_inputs();
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "b.npy", "<f4", "(6,)", six, 24);
  s = open_only(f);
  assert_int_equal(s.n_arrays, 2);
  sample_free(&s);
  fixture_end(f);
}

static void an_input_with_a_sparse_default_may_be_missing(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "a", "float[N]");
  build_input(&f->b, "w", "float[6]");
  build_sparse(&f->b, "w", 2, 6);
  build_node(&f->b, "Add", "a w", "y");
  build_output(&f->b, "y", "float");
  fixture_build(f);
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  struct sample s = open_only(f);
  assert_int_equal(s.n_arrays, 1);
  assert_string_equal(s.arrays[0].name, "a");
  sample_free(&s);
  fixture_end(f);
}

static void nothing_found_says_what_is_looked_for(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[N]");
  write_bytes(f, "notes.txt", "x", 1);
  write_pb(f, "output_0.pb", NULL, FLOAT, 6, six, 24);
  fails_with(f, ".safetensors");
  assert_string_equal(f->d.file, f->folder);
  assert_int_equal(open_at(f, "/notes.txt"), STATUS_DATA);
  assert_int_equal(open_at(f, "/missing"), STATUS_IO);
  fixture_end(f);
}

// ---- Checks ----

static void a_sample_that_cannot_be_read_is_not_left_out(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[N]");
  write_npy(f, "p.npy", "<f4", "(6,)", six, 24);
  const char *link = arena_printf(&f->arena, "%s/q.npy", f->folder);
  const char *other = arena_printf(&f->arena, "%s/readme.md", f->folder);
  assert_int_equal(symlink("nowhere", other), 0);  // is no sample
  assert_int_equal(open_at(f, ""), STATUS_OK);
  assert_int_equal(symlink("nowhere", link), 0);
  assert_int_equal(open_at(f, ""), STATUS_IO);
  assert_string_equal(f->d.file, link);
  diag_clear(&f->d);
  assert_int_equal(unlink(link), 0);
  assert_int_equal(mkfifo(link, 0600), 0);
  assert_int_equal(open_at(f, ""), STATUS_IO);
  assert_non_null(strstr(f->d.message, "is a device, pipe or socket"));
  fixture_end(f);
}

static void a_missing_input_is_named(void **state) {
  (void)state;
  struct fixture *f = two_inputs();
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  fails_with(f, "no array for this input, float[N]");
  assert_string_equal(f->d.tensor, "b");
  fixture_end(f);
}

static void an_unknown_array_gets_the_nearest_name(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "image", "float[N]");
  build_output(&f->b, "logits", "float");
  build_node(&f->b, "Identity", "image", "logits");
  fixture_build(f);
  struct bytes x = npy("<f4", "(6,)", six, 24);
  write_npz(f, "0.npz", "imgae.npy", &x, false);
  fails_with(f, "Did you mean 'image'?");
  assert_string_equal(f->d.tensor, "imgae");
  write_npz(f, "0.npz", "zzzzzzzzzz.npy", &x, false);
  fixture_end(f);
  f = identity_model("float[N]");
  write_npz(f, "0.npz", "x.npy", &x, false);
  write_npz(f, "0.npz", "label:z.npy", &x, false);
  fails_with(f, "no output of this name");
  fixture_end(f);
}

static void wrong_types_and_shapes_say_both_sides(void **state) {
  (void)state;
  static const struct {
    const char *declared, *descr, *shape, *text;
  } cases[] = {
      {"float[6]", "<f8", "(3,)",
       "wrong type: the model declares float[6] and the sample has double[3]"},
      {"float[6]", "<f8", "(3,)", "float32"},
      {"float[6]", "<i4", "(6,)", "wrong type"},
      {"float16[6]", "<i4", "(6,)", "float16[6]"},
      {"float[-1,N,2]", "<f4", "(6,)", "declares float[?,N,2] and the sample has float[6]"},
      {"float[-1,N,2]", "<f4", "(2,1,3)", "wrong shape"},
      {"float[]", "<f4", "(6,)", "wrong number of dimensions"},
      {"float[7]", "<f4", "(6,)", "declares float[7] and the sample has float[6]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture *f = identity_model(cases[i].declared);
    write_npy(f, "x.npy", cases[i].descr, cases[i].shape, six, 24);
    fails_with(f, cases[i].text);
    assert_string_equal(f->d.tensor, "x");
    fixture_end(f);
  }
}

static void a_dim_of_one_is_a_scalar_and_uint16_the_codes_of_bfloat16(void **state) {
  (void)state;
  static const uint16_t one = 0x3f80;
  struct fixture *f = identity_model("bfloat16[]");
  write_npy(f, "x.npy", "<u2", "(1,)", &one, 2);
  struct sample s = open_only(f);
  assert_int_equal(s.arrays[0].elem_type, BFLOAT16);
  assert_int_equal(s.arrays[0].rank, 0);
  assert_memory_equal(s.arrays[0].data, &one, 2);
  sample_free(&s);
  fixture_end(f);
}

static void keep_warning(void *context, const char *text) {
  char *warnings = context;
  strncat(warnings, text, 255);
}

static void symbolic_dims_that_differ_within_a_sample_are_warned_of_once(void **state) {
  (void)state;
  struct fixture *f = two_inputs();
  char warnings[512] = "";
  f->d.warn = keep_warning;
  f->d.warn_context = warnings;
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "b.npy", "<f4", "(5,)", six, 20);
  struct sample s = open_only(f), again = read_sample(f, 0);
  assert_int_equal(s.n_arrays, 2);
  assert_string_equal(warnings,
                      "dimension 'N' is 6 in input 'a' and 5 in input 'b', in a sample at least");
  sample_free(&s);
  sample_free(&again);
  fixture_end(f);
}

static void arrays_for_inputs_that_count_as_constants_are_not_used(void **state) {
  (void)state;
  struct fixture *f = two_inputs();
  char warnings[512] = "";
  f->d.warn = keep_warning;
  f->d.warn_context = warnings;
  write_npy(f, "a.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "b.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "w.npy", "<f4", "(1,)", six, 4);
  struct sample s = open_only(f), again = read_sample(f, 0);
  assert_int_equal(s.n_arrays, 2);
  assert_string_equal(s.arrays[0].name, "a");
  assert_string_equal(s.arrays[1].name, "b");
  assert_string_equal(warnings, "the samples' array 'w' is not used: the model lists all its "
                                "initializers as inputs, so they count as constants");
  sample_free(&s);
  sample_free(&again);
  fixture_end(f);
}

// Where others are no inputs, one that is listed is meant to be overridden.
static void an_input_with_a_default_is_read(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[6]");
  build_input(&f->b, "w", "float[1]");
  build_floats(&f->b, "w", "float[1]", six);
  build_floats(&f->b, "v", "float[1]", six);
  build_node(&f->b, "Sum", "x w v", "y");
  build_output(&f->b, "y", "float[6]");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "w.npy", "<f4", "(1,)", six, 4);
  struct sample s = open_only(f);
  assert_int_equal(s.n_arrays, 2);
  sample_free(&s);
  fixture_end(f);
}

static void an_input_that_counts_as_a_constant_has_no_batch(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[2]");
  build_input(&f->b, "w", "float[6]");
  build_floats(&f->b, "w", "float[6]", six);
  build_node(&f->b, "Concat", "x w", "y");
  build_int(&f->b, f->b.model->graph->node[0], "axis", 0);
  build_output(&f->b, "y", "float[8]");
  fixture_build(f);
  write_npy(f, "x.npy", "<f4", "(4,)", six, 16);
  write_npy(f, "w.npy", "<f4", "(6,)", six, 24);
  assert_int_equal(open_at(f, ""), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 2);
  struct sample s = read_sample(f, 1);
  assert_int_equal(s.n_arrays, 1);
  assert_floats(&s.arrays[0], six + 2, 2);
  sample_free(&s);
  fixture_end(f);
}

static void inputs_without_declared_shape_take_any(void **state) {
  (void)state;
  struct fixture *f = identity_model("float");
  write_npy(f, "x.npy", "<f4", "(1, 2, 3)", six, 24);
  struct sample s = open_only(f);
  assert_int_equal(s.arrays[0].rank, 3);
  sample_free(&s);
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
  assert_non_null(strstr(f->d.message, "no shape"));
  fixture_end(f);
}

// ---- Batches ----

static void a_batch_is_split_to_the_models_fixed_batch(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[1,2]");
  struct bytes x = npy("<f4", "(3, 2)", six, 24), one = npy("<f4", "(1, 2)", six, 8);
  struct bytes label = npy("<i4", "(3,)", six, 12);
  write_npz(f, "0.npz", "x.npy", &x, true);
  write_npz(f, "0.npz", "label:y.npy", &label, true);
  write_npz(f, "1.npz", "x.npy", &one, true);
  assert_int_equal(open_at(f, ""), STATUS_OK);
  assert_int_equal(samples_count(f->samples), 4);
  static const char *const labels[] = {"0.npz[0]", "0.npz[1]", "0.npz[2]", "1.npz"};
  for (size_t k = 4; k-- > 0;) {
    struct sample s = read_sample(f, k);
    assert_string_equal(s.label, labels[k]);
    assert_floats(&s.arrays[0], six + (k < 3 ? 2 * k : 0), 2);
    assert_int_equal(s.arrays[0].dims[0], 1);
    if (k < 3)
      assert_memory_equal(s.arrays[1].data, six + k, 4);
    sample_free(&s);
  }
  fixture_end(f);
  f = identity_model("float[2,2]");
  write_npz(f, "0.npz", "x.npy", &x, true);
  fails_with(f, "3 rows are no multiple of the model's fixed batch 2");
  fixture_end(f);
}

static void a_dynamic_batch_is_taken_as_it_is(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[N,2]");
  write_npy(f, "x.npy", "<f4", "(3, 2)", six, 24);
  struct sample s = open_only(f);
  assert_int_equal(s.arrays[0].dims[0], 3);
  sample_free(&s);
  fixture_end(f);
}

static void zero_sized_inputs_are_read(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[0,2]");
  write_npy(f, "x.npy", "<f4", "(0, 2)", "", 0);
  struct sample s = open_only(f);
  assert_int_equal(s.arrays[0].size, 0);
  sample_free(&s);
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_OK);
  s = read_sample(f, 0);
  assert_int_equal(s.arrays[0].size, 0);
  sample_free(&s);
  fixture_end(f);
}

static void the_digest_follows_the_data_and_not_the_order_of_reading(void **state) {
  (void)state;
  char forward[65], backward[65], other[65];
  struct fixture *f = identity_model("float[N]");
  write_npy(f, "p.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "q.npy", "<f4", "(5,)", six, 20);
  for (int pass = 0; pass < 3; pass++) {
    if (pass == 2)
      write_npy(f, "q.npy", "<f4", "(5,)", six + 1, 20);
    assert_int_equal(open_at(f, ""), STATUS_OK);
    for (size_t k = 0; k < 2; k++) {
      struct sample s = read_sample(f, pass == 1 ? 1 - k : k);
      sample_free(&s);
    }
    samples_digest(f->samples, pass == 0 ? forward : pass == 1 ? backward : other);
  }
  assert_string_equal(forward, backward);
  assert_string_not_equal(forward, other);
  fixture_end(f);
}

static void a_sample_that_changes_between_two_reads_is_refused(void **state) {
  (void)state;
  struct fixture *f = identity_model("float[N]");
  struct sample s = {0};
  write_npy(f, "p.npy", "<f4", "(6,)", six, 24);
  write_npy(f, "q.npy", "<f4", "(6,)", six, 24);
  assert_int_equal(open_at(f, ""), STATUS_OK);
  s = read_sample(f, 1);
  sample_free(&s);
  write_npy(f, "q.npy", "<f4", "(5,)", six, 20);
  s = read_sample(f, 0);
  sample_free(&s);
  assert_int_equal(samples_read(f->samples, 1, &s, &f->d), STATUS_IO);
  assert_non_null(strstr(f->d.file, "q.npy"));
  assert_non_null(strstr(f->d.message, "has changed"));
  fixture_end(f);
}

// ---- Real models ----

static void read_all(const char *folder, const struct schema_table *schemas) {
  struct arena arena = {0};
  struct diag d = {0};
  struct model m = {0};
  struct graph g = {0};
  struct samples *samples = NULL;
  struct sample s;
  const char *path = arena_printf(&arena, "%s/model.onnx", folder);
  assert_int_equal(model_load(&m, &arena, path, NULL, &d), STATUS_OK);
  assert_int_equal(graph_build(&g, &m, schemas, &arena, &d), STATUS_OK);
  path = arena_printf(&arena, "%s/test_data_set_0", folder);
  if (access(path, F_OK) == 0) {
    enum status status = samples_open(&samples, &g, folder, &arena, &d);
    for (size_t k = 0; status == STATUS_OK && k < samples_count(samples); k++) {
      status = samples_read(samples, k, &s, &d);
      if (status == STATUS_OK)
        sample_free(&s);
    }
    if (status != STATUS_OK)
      diag_print(&d, stderr);
    assert_int_equal(status, STATUS_OK);
    samples_close(samples);
  }
  enum status status = samples_random(&samples, &g, 1, 1, &arena, &d);
  if (status == STATUS_OK)
    status = samples_read(samples, 0, &s, &d);
  if (status != STATUS_OK)
    diag_print(&d, stderr);
  assert_int_equal(status, STATUS_OK);
  sample_free(&s);
  samples_close(samples);
  model_close(&m);
  arena_free(&arena);
}

static void samples_of_real_models_are_read(void **state) {
  (void)state;
  const char *models = getenv("NARROWCAST_MODELS");
  if (!models)
    skip();
  struct arena arena = {0};
  struct schema_table schemas;
  schema_load(&schemas, &arena);
  DIR *directory = opendir(models);
  assert_non_null(directory);
  for (struct dirent *e; (e = readdir(directory));) {
    const char *folder = arena_printf(&arena, "%s/%s", models, e->d_name);
    if (e->d_name[0] != '.' && access(arena_printf(&arena, "%s/model.onnx", folder), F_OK) == 0)
      read_all(folder, &schemas);
  }
  closedir(directory);
  arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(order_is_by_name_and_numbers_count_by_value),
      cmocka_unit_test(files_of_one_array_are_a_sample_each_for_a_single_input),
      cmocka_unit_test(an_input_with_a_sparse_default_may_be_missing),
      cmocka_unit_test(nothing_found_says_what_is_looked_for),
      cmocka_unit_test(a_sample_that_cannot_be_read_is_not_left_out),
      cmocka_unit_test(a_missing_input_is_named),
      cmocka_unit_test(an_unknown_array_gets_the_nearest_name),
      cmocka_unit_test(wrong_types_and_shapes_say_both_sides),
      cmocka_unit_test(a_dim_of_one_is_a_scalar_and_uint16_the_codes_of_bfloat16),
      cmocka_unit_test(symbolic_dims_that_differ_within_a_sample_are_warned_of_once),
      cmocka_unit_test(arrays_for_inputs_that_count_as_constants_are_not_used),
      cmocka_unit_test(an_input_with_a_default_is_read),
      cmocka_unit_test(an_input_that_counts_as_a_constant_has_no_batch),
      cmocka_unit_test(inputs_without_declared_shape_take_any),
      cmocka_unit_test(a_batch_is_split_to_the_models_fixed_batch),
      cmocka_unit_test(a_dynamic_batch_is_taken_as_it_is),
      cmocka_unit_test(zero_sized_inputs_are_read),
      cmocka_unit_test(the_digest_follows_the_data_and_not_the_order_of_reading),
      cmocka_unit_test(a_sample_that_changes_between_two_reads_is_refused),
      cmocka_unit_test(samples_of_real_models_are_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
