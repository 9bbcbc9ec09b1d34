// target: the shipped tables, files of one's own, and that every mistake in one is an error with
// its place.
#include "policy.h"

#include "embedded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
// cmocka.h needs those above.
#include <cmocka.h>

#include <string.h>

static const char small_target[] =
    "{\"name\": \"small\", \"version\": 2, \"description\": \"for tests\",\n"
    " \"bandwidth_gb_s\": 50, \"overhead_us\": 3,\n"
    " \"matrix_tflop_s\": {\"fp32\": 1, \"fp16\": 4, \"bf16\": 2},\n"
    " \"vector_tflop_s\": {\"fp32\": 0.5, \"fp16\": 1, \"bf16\": 1}}\n";

static void target_is_in_bytes_and_seconds(void **state) {
  (void)state;
  struct arena a = {0};
  struct diag d = {0};
  struct target t;
  assert_int_equal(target_parse(&t, small_target, "small.json", &a, &d), STATUS_OK);
  assert_string_equal(t.name, "small");
  assert_int_equal(t.version, 2);
  assert_true(t.bandwidth == 50e9);
  assert_true(t.overhead > 2.99e-6 && t.overhead < 3.01e-6);
  assert_true(t.matrix[FORMAT_FP16] == 4e12 && t.vector[FORMAT_FP32] == 0.5e12);
  assert_true(t.matrix[FORMAT_FP64] == 0);
  arena_free(&a);
}

static void target_names_the_place_of_a_mistake(void **state) {
  (void)state;
  static const struct {
    const char *from, *to, *file, *message;
  } mistakes[] = {
      {"bandwidth_gb_s", "bandwith_gb_s", "t.json:2", "bandwith_gb_s: unknown key"},
      {"\"fp16\": 4, ", "", "t.json:3", "matrix_tflop_s: the key \"fp16\" is missing"},
      {"0.5", "0", "t.json:4", "vector_tflop_s.fp32: 0 is out of range"},
      {"0.5", "\"0.5\"", "t.json:4", "vector_tflop_s.fp32: expected a number, found a string"},
      {"3,", "-1,", "t.json:2", "overhead_us: -1 is out of range"},
      {"50", "1e400", "t.json:2", ""},
  };
  for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
    struct arena a = {0};
    struct diag d = {0};
    struct target t;
    const char *at = strstr(small_target, mistakes[i].from);
    assert_non_null(at);
    const char *text = arena_printf(&a, "%.*s%s%s", (int)(at - small_target), small_target,
                                    mistakes[i].to, at + strlen(mistakes[i].from));
    assert_int_equal(target_parse(&t, text, "t.json", &a, &d), STATUS_POLICY);
    assert_string_equal(d.file, mistakes[i].file);
    if (!strstr(d.message, mistakes[i].message))
      fail_msg("%s", d.message);
    arena_free(&a);
  }
}

static void target_knows_the_shipped_names_and_hints_at_the_nearest(void **state) {
  (void)state;
  struct arena a = {0};
  struct diag d = {0};
  struct target t;
  int count = 0;
  for (const struct embedded *e = embedded_files; e->name; e++) {
    if (strncmp(e->name, "targets/", strlen("targets/")) != 0)
      continue;
    count++;
    const char *name = arena_strdup(&a, e->name + strlen("targets/"));
    *strrchr(name, '.') = '\0';
    assert_int_equal(target_load(&t, name, "p.json", &a, &d), STATUS_OK);
    assert_string_equal(t.name, name);
    for (int f = FORMAT_FP32; f <= FORMAT_FP16; f++)
      assert_true(f == FORMAT_TF32 || (t.matrix[f] > 0 && t.vector[f] > 0));
  }
  assert_true(count >= 3);
  assert_null(target_text("fp16"));  // a policy's name
  assert_int_equal(target_load(&t, "acelerator", "p.json", &a, &d), STATUS_POLICY);
  assert_non_null(strstr(d.hint, "Did you mean accelerator?"));
  arena_free(&a);
}

static void write_text(const char *path, const char *text) {
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
}

// A policy and its target travel together.
static void target_path_counts_from_the_policys_folder(void **state) {
  (void)state;
  struct arena a = {0};
  struct diag d = {0};
  struct policy p;
  char folder[] = "/tmp/narrowcast-test-XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *target = arena_printf(&a, "%s/my.json", folder);
  const char *policy = arena_printf(&a, "%s/policy.json", folder);
  const char *text = policy_text("fp16"), *key = "\"target\": \"accelerator\"";
  const char *at = strstr(text, key);
  assert_non_null(at);
  write_text(target, small_target);
  write_text(policy, arena_printf(&a, "%.*s\"target\": \"my.json\"%s", (int)(at - text), text,
                                  at + strlen(key)));
  assert_int_equal(policy_load(&p, policy, &a, &d), STATUS_OK);
  assert_string_equal(p.target.name, "small");
  unlink(target);
  assert_int_equal(policy_load(&p, policy, &a, &d), STATUS_IO);
  assert_string_equal(d.file, target);
  unlink(policy);
  rmdir(folder);
  arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(target_is_in_bytes_and_seconds),
      cmocka_unit_test(target_names_the_place_of_a_mistake),
      cmocka_unit_test(target_knows_the_shipped_names_and_hints_at_the_nearest),
      cmocka_unit_test(target_path_counts_from_the_policys_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
