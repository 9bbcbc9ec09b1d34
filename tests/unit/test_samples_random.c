// Made-up samples: the same on every machine, and valid for what the model does with them.
#include "support_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const float zeros[512];

static struct sample random_sample(struct fixture *f, uint64_t seed) {
  samples_close(f->samples);
  enum status status = samples_random(&f->samples, &f->g, seed, 3, &f->arena, &f->d);
  if (status != STATUS_OK)
    diag_print(&f->d, stderr);
  assert_int_equal(status, STATUS_OK);
  assert_true(samples_synthetic(f->samples));
  return read_sample(f, 0);
}

static const struct array *array_of(const struct sample *s, const char *name) {
  for (size_t i = 0; i < s->n_arrays; i++)
    if (strcmp(s->arrays[i].name, name) == 0)
      return &s->arrays[i];
  fail();
  return NULL;
}

static void random_is_the_same_on_every_machine(void **state) {
  (void)state;
  char hex[65];
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[batch,1000]");
  build_input(&f->b, "h", "float16[3]");
  build_input(&f->b, "d", "double[3]");
  build_input(&f->b, "u", "uint8[64]");
  build_input(&f->b, "b", "bool[64]");
  build_input(&f->b, "i", "int64[64]");
  build_output(&f->b, "y", "float");
  build_node(&f->b, "Identity", "x", "y");
  fixture_build(f);
  struct sample s = random_sample(f, 7);
  const float *x = array_of(&s, "x")->data;
  double sum = 0, squares = 0;
  for (int i = 0; i < 1000; i++) {
    sum += x[i];
    squares += (double)x[i] * x[i];
    assert_true(x[i] > -6 && x[i] < 6);
  }
  assert_true(sum > -100 && sum < 100 && squares > 850 && squares < 1150);
  float first = x[0];
  sample_free(&s);
  samples_digest(f->samples, hex);
  assert_string_equal(hex, "f860a0c41e920b4706d17b6b8b806d5b81409d6726d17c16153942570c298f6a");
  s = read_sample(f, 1);
  assert_true(*(const float *)array_of(&s, "x")->data != first);
  sample_free(&s);
  s = random_sample(f, 8);
  assert_true(*(const float *)array_of(&s, "x")->data != first);
  sample_free(&s);
  fixture_end(f);
}

static void random_indices_lie_inside_the_table(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "ids", "int64[batch,seq]");
  build_input(&f->b, "column", "int32[64]");
  build_input(&f->b, "class", "int64[64]");
  build_input(&f->b, "unknown", "int64[64]");
  build_raw(&f->b, "big", "float[37,4]", zeros, 37 * 4 * sizeof *zeros);
  build_raw(&f->b, "small", "float[5,4]", zeros, 5 * 4 * sizeof *zeros);
  build_int64s(&f->b, "depth", "int64[]", (int64_t[]){9});
  build_raw(&f->b, "off_on", "float[1,2]", zeros, 1 * 2 * sizeof *zeros);
  build_int64s(&f->b, "minus_one", "int64[]", (int64_t[]){-1});
  build_output(&f->b, "y", "float");
  build_node(&f->b, "Unsqueeze", "ids minus_one", "column_ids");
  build_node(&f->b, "Gather", "big column_ids", "p");
  build_int(&f->b, build_node(&f->b, "Cast", "ids", "ids32"), "to", INT32);
  build_node(&f->b, "Gather", "small ids32", "y");
  build_int(&f->b, build_node(&f->b, "Gather", "big column", "r"), "axis", -1);
  build_node(&f->b, "OneHot", "class depth off_on", "s");
  fixture_build(f);
  bool top = false;
  for (uint64_t seed = 0; seed < 8; seed++) {
    struct sample s = random_sample(f, seed);
    const int64_t *ids = array_of(&s, "ids")->data, *class = array_of(&s, "class")->data,
                  *unknown = array_of(&s, "unknown")->data;
    const int32_t *column = array_of(&s, "column")->data;
    assert_int_equal(array_of(&s, "ids")->dims[0], 1);
    for (int i = 0; i < 8; i++)
      assert_in_range(ids[i], 0, 4);
    for (int i = 0; i < 64; i++) {
      assert_in_range(column[i], 0, 3);
      assert_in_range(class[i], 0, 8);
      assert_in_range(unknown[i], 0, 1);
      top = top || class[i] == 8;
    }
    sample_free(&s);
  }
  assert_true(top);
  fixture_end(f);
}

static void random_integers_suit_the_operator_that_reads_them(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "sr", "int64[]");
  build_input(&f->b, "attention_mask", "int64[4]");
  build_input(&f->b, "shape", "int64[2]");
  build_input(&f->b, "x", "float[N,6]");
  build_input(&f->b, "axes", "int64[2]");
  build_input(&f->b, "divisor", "int32[4]");
  build_input(&f->b, "dividend", "int32[4]");
  build_int64s(&f->b, "rate", "int64[]", (int64_t[]){16000});
  build_output(&f->b, "same", "bool");
  build_output(&f->b, "y", "float");
  build_node(&f->b, "Equal", "sr rate", "same");
  build_node(&f->b, "Reshape", "x shape", "y");
  build_node(&f->b, "Unsqueeze", "x axes", "deep");
  build_node(&f->b, "Div", "dividend divisor", "quotient");
  fixture_build(f);
  struct sample s = random_sample(f, 1);
  assert_int_equal(*(const int64_t *)array_of(&s, "sr")->data, 16000);
  assert_memory_equal(array_of(&s, "attention_mask")->data, ((int64_t[]){1, 1, 1, 1}), 32);
  assert_memory_equal(array_of(&s, "shape")->data, ((int64_t[]){0, -1}), 16);
  assert_memory_equal(array_of(&s, "axes")->data, ((int64_t[]){0, 1}), 16);
  assert_memory_equal(array_of(&s, "divisor")->data, ((int32_t[]){1, 1, 1, 1}), 16);
  sample_free(&s);
  fixture_end(f);
}

static void random_sizes_follow_weights_and_symbolic_names(void **state) {
  (void)state;
  struct fixture *f = fixture_new();
  build_input(&f->b, "x", "float[-1,features]");
  build_input(&f->b, "image", "float[-1,3,H,W]");
  build_input(&f->b, "mask", "int64[batch,total_seq]");
  build_input(&f->b, "past", "float[2,batch,past_seq,4]");
  build_input(&f->b, "ids", "int64[batch,seq]");
  build_input(&f->b, "plus", "float[past_seq + 1]");
  build_raw(&f->b, "w", "float[11,3]", zeros, 11 * 3 * sizeof *zeros);
  build_output(&f->b, "y", "float");
  build_node(&f->b, "MatMul", "x w", "y");
  fixture_build(f);
  struct sample s = random_sample(f, 1);
  assert_int_equal(array_of(&s, "x")->dims[1], 11);
  assert_int_equal(array_of(&s, "image")->dims[2], 64);
  assert_int_equal(array_of(&s, "past")->dims[1], 1);
  assert_int_equal(array_of(&s, "mask")->dims[1],
                   array_of(&s, "past")->dims[2] + array_of(&s, "ids")->dims[1]);
  assert_int_equal(array_of(&s, "plus")->dims[0], array_of(&s, "past")->dims[2] + 1);
  sample_free(&s);
  fixture_end(f);
}

static void random_refuses_what_cannot_be_made_up(void **state) {
  (void)state;
  struct fixture *f = identity_model("string[2]");
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
  assert_string_equal(f->d.tensor, "x");
  fixture_end(f);
  f = identity_model("float[1000000,1000000,1000000,1000000]");
  assert_int_equal(samples_random(&f->samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_DATA);
  fixture_end(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_is_the_same_on_every_machine),
      cmocka_unit_test(random_indices_lie_inside_the_table),
      cmocka_unit_test(random_integers_suit_the_operator_that_reads_them),
      cmocka_unit_test(random_sizes_follow_weights_and_symbolic_names),
      cmocka_unit_test(random_refuses_what_cannot_be_made_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
