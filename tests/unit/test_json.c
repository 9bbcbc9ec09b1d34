// json: what is refused and with which line, the writer's bytes, and that any name survives a file.
#include "json.h"
#include "nearest.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

// Parses a text that must be refused; the diag says where and why.
static struct diag refused(const char *text) {
  struct arena a = {0};
  struct diag d = {0};
  const struct json *root;
  assert_int_equal(json_parse(&root, text, "x.json", STATUS_POLICY, &a, &d), STATUS_POLICY);
  assert_null(root);
  arena_free(&a);
  return d;
}

static const struct json *parsed(const char *text, struct arena *a) {
  struct diag d = {0};
  const struct json *root = NULL;
  assert_int_equal(json_parse(&root, text, "x.json", STATUS_POLICY, a, &d), STATUS_OK);
  return root;
}

static void accepted(const char *text) {
  struct arena a = {0};
  assert_non_null(parsed(text, &a));
  arena_free(&a);
}

// The line that a message about the member at `path` names, e.g. {"rules", "[3]", "class"}; 0 if
// none.
static int line_named(const char *text, const char *const *path, int depth) {
  struct json_path at = {0};
  for (int i = 0; i < depth; i++)
    if (path[i][0] == '[')
      json_push_index(&at, atoi(path[i] + 1));
    else
      json_push_key(&at, path[i]);
  struct arena a = {0};
  struct diag d = {0};
  assert_int_equal(json_fail(parsed(text, &a), "x.json", &at, STATUS_POLICY, &d, "wrong"),
                   STATUS_POLICY);
  arena_free(&a);
  return d.file[strlen("x.json")] ? atoi(d.file + strlen("x.json:")) : 0;
}

static void json_refuses_what_is_not_json(void **state) {
  (void)state;
  static const struct {
    const char *text, *place, *message;
  } cases[] = {
      {"", "x.json:1", "empty"},
      {"  \n ", "x.json:2", "empty"},
      {"{", "x.json:1", "expected a string"},
      {"[1, 2\n", "x.json:2", "ends too early"},
      {"[1,\n 2,\n]", "x.json:3", "comma before the end"},
      {"{\"a\": 1\n \"b\": 2}", "x.json:2", "expected ',' or '}'"},
      {"{\"a\" 1}", "x.json:1", "expected ':'"},
      {"{a: 1}", "x.json:1", "expected a string"},
      {"[1]\n[2]", "x.json:2", "after the end"},
      {"// note\n{}", "x.json:1", "no comments"},
      {"[01]", "x.json:1", "start with 0"},
      {"[1.]", "x.json:1", "after the point"},
      {"[1e]", "x.json:1", "in the exponent"},
      {"[-]", "x.json:1", "expected a value"},
      {"[+1]", "x.json:1", "expected a value"},
      {"[1e999]", "x.json:1", "out of range"},
      {"[NaN]", "x.json:1", "expected a value"},
      {"[tru]", "x.json:1", "expected a value"},
      {"[\"a]", "x.json:1", "does not end"},
      {"[\"a\tb\"]", "x.json:1", "control character"},
      {"[\"\\x\"]", "x.json:1", "unknown escape"},
      {"[\"\\u12g4\"]", "x.json:1", "hexadecimal"},
      {"[\"\\u0000\"]", "x.json:1", "u0000"},
      {"[\"\\udc80\"]", "x.json:1", "surrogate"},
      {"[\"\\ud800\\u0041\"]", "x.json:1", "surrogate"},
      {"[\"\xff\"]", "x.json:1", "not UTF-8"},
      {"[\"\xc0\x80\"]", "x.json:1", "not UTF-8"},
      {"[\"\xed\xa0\x80\"]", "x.json:1", "not UTF-8"},
      {"[1111111111111111111111111111111111111111111111111111111111111111]", "x.json:1",
       "too many digits"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct diag d = refused(cases[i].text);
    if (strcmp(d.file, cases[i].place) != 0 || !strstr(d.message, cases[i].message))
      fail_msg("%s: %s: %s", cases[i].text, d.file, d.message);
  }
}

static void json_says_line_and_column(void **state) {
  (void)state;
  struct diag d = refused("{\n  \"a\": [1,\n    2 3]\n}");
  assert_string_equal(d.file, "x.json:3");
  assert_non_null(strstr(d.message, "column 7"));
}

static void json_refuses_deep_nesting(void **state) {
  (void)state;
  char text[2 * 100000 + 1];
  memset(text, '[', 100000);
  memset(text + 100000, ']', 100000);
  text[200000] = '\0';
  assert_non_null(strstr(refused(text).message, "nested too deep"));
  text[100000 + JSON_DEPTH] = '\0';
  accepted(text + 100000 - JSON_DEPTH);
  text[100000 + JSON_DEPTH] = ']';
  text[100000 + JSON_DEPTH + 1] = '\0';
  refused(text + 100000 - JSON_DEPTH - 1);
}

static void json_refuses_a_key_given_twice(void **state) {
  (void)state;
  struct diag d = refused("{\"a\": 1,\n\"b\": [0, {\"c\": {},\n \"d\": 0,\n \"\\u0063\": 2}]}");
  assert_string_equal(d.file, "x.json:4");
  assert_string_equal(d.message, "b[1].c: this key is given twice");
  accepted("{\"a\": {\"a\": 1}, \"A\": 2}");
}

static void json_finds_a_duplicate_among_many_keys(void **state) {
  (void)state;
  enum { KEYS = 100000, LINE = 20 };
  char *text = malloc(KEYS * LINE + 100);
  size_t used = (size_t)sprintf(text, "{");
  for (int i = 0; i < KEYS; i++)
    used += (size_t)sprintf(text + used, "\"key%d\": 1,\n", i);
  sprintf(text + used, "\"key77\": 2}");
  struct diag d = refused(text);
  assert_string_equal(d.file, "x.json:100001");
  assert_string_equal(d.message, "key77: this key is given twice");
  free(text);
}

static void json_skips_a_byte_order_mark(void **state) {
  (void)state;
  const char *text = "\xef\xbb\xbf{\"a\":\n{\"b\": 1}}";
  const char *path[] = {"a", "b"};
  assert_int_equal(line_named(text, path, 2), 2);
}

static void messages_name_the_line_of_any_member(void **state) {
  (void)state;
  const char *text =
      "{\n\"a\": \"\\\"b\\\": 1\",\n\"b\": [1,\n{\"c\": {},\n \"d\\n\": 2},\n\n7]\n}\n";
  const char *b[] = {"b"}, *second[] = {"b", "[2]"}, *inner[] = {"b", "[1]", "d\n"};
  const char *missing[] = {"b", "[3]"}, *wrong[] = {"b", "c"}, *none[] = {"z"};
  assert_int_equal(line_named(text, b, 0), 1);
  assert_int_equal(line_named(text, b, 1), 3);
  assert_int_equal(line_named(text, second, 2), 7);
  assert_int_equal(line_named(text, inner, 3), 5);
  assert_int_equal(line_named(text, missing, 2), 0);
  assert_int_equal(line_named(text, wrong, 2), 0);
  assert_int_equal(line_named(text, none, 1), 0);
}

// What the writer makes of one call, in memory that the caller frees.
struct written {
  char *text;
  size_t size;
  struct json_writer w;
};

static void begin(struct written *out, int inline_depth) {
  out->w = (struct json_writer){.out = open_memstream(&out->text, &out->size),
                                .inline_depth = inline_depth};
}

static void end(struct written *out) {
  assert_int_equal(out->w.depth, 0);
  fclose(out->w.out);
}

static void writer_layout_is_fixed(void **state) {
  (void)state;
  struct written out;
  begin(&out, 2);
  json_object(&out.w, NULL);
  json_string(&out.w, "name", "a \"b\"\\\n\x01\x7f");
  json_array(&out.w, "nodes");
  json_object(&out.w, NULL);
  json_integer(&out.w, "id", INT64_MIN);
  json_array(&out.w, "shape");
  json_integer(&out.w, NULL, 1);
  json_integer(&out.w, NULL, 2);
  json_end_array(&out.w);
  json_end_object(&out.w);
  json_object(&out.w, NULL);
  json_end_object(&out.w);
  json_end_array(&out.w);
  json_array(&out.w, "none");
  json_end_array(&out.w);
  json_bool(&out.w, "last", true);
  json_end_object(&out.w);
  end(&out);
  assert_string_equal(out.text, "{\n"
                                "  \"name\": \"a \\\"b\\\"\\\\\\n\\u0001\\u007f\",\n"
                                "  \"nodes\": [\n"
                                "    {\"id\": -9223372036854775808, \"shape\": [1, 2]},\n"
                                "    {}\n"
                                "  ],\n"
                                "  \"none\": [],\n"
                                "  \"last\": true\n"
                                "}\n");
  accepted(out.text);
  free(out.text);
}

static void number_is(double value, const char *text) {
  struct written out;
  begin(&out, 9);
  json_number(&out.w, NULL, value);
  end(&out);
  assert_string_equal(out.text, text);
  free(out.text);
}

static void writer_numbers_are_short_and_exact(void **state) {
  (void)state;
  number_is(0.02, "0.02");
  number_is(0.1 + 0.2, "0.30000000000000004");
  number_is(65504, "65504");
  number_is(1e21, "1e+21");
  number_is(-0.0, "-0");
  number_is(5e-324, "4.94065645841247e-324");
  number_is(1.7976931348623157e308, "1.7976931348623157e+308");
  number_is((double)0.1f, "0.10000000149011612");
  number_is(INFINITY, "\"inf\"");
  number_is(-INFINITY, "\"-inf\"");
  number_is(NAN, "\"nan\"");
}

static void numbers_read_back_the_same(void **state) {
  (void)state;
  uint64_t bits = 88172645463325252u;
  for (int i = 0; i < 20000; i++) {
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    double value, back = 0;
    memcpy(&value, &bits, sizeof value);
    struct written out;
    begin(&out, 0);
    json_array(&out.w, NULL);
    json_number(&out.w, NULL, value);
    json_end_array(&out.w);
    end(&out);
    struct arena a = {0};
    assert_true(json_to_number(json_first(parsed(out.text, &a)), &back));
    assert_true(back == value || (isnan(back) && isnan(value)));
    arena_free(&a);
    free(out.text);
  }
  struct arena a = {0};
  const struct json *words = parsed("[\"infinite\", null]", &a);
  double unused;
  assert_false(json_to_number(json_element(words, 0), &unused));
  assert_false(json_to_number(json_element(words, 1), &unused));
  arena_free(&a);
}

static double read_number(const char *text) {
  struct arena a = {0};
  const struct json *root = parsed(text, &a);
  assert_true(json_is(root, JSON_NUMBER));
  double value = root->number;
  arena_free(&a);
  return value;
}

static void numbers_are_the_nearest_doubles(void **state) {
  (void)state;
  static const char *const texts[] = {"0",
                                      "-0",
                                      "0.0e0",
                                      "7",
                                      "-7.25",
                                      "4.8e-11",
                                      "1e22",
                                      "1e23",
                                      "1e-22",
                                      "1e-23",
                                      "0.1",
                                      "9007199254740992",
                                      "9007199254740993",
                                      "9007199254740993e22",
                                      "900719925474099.3e1",
                                      "0.30000000000000004",
                                      "43669.333333333336",
                                      "123456789012345678901234567890e-20",
                                      "1.7976931348623157e308",
                                      "4.9e-324",
                                      "2e-324",
                                      "1e-99999999999999999999",
                                      "0e99999",
                                      "0.000000000000000000000000000000000000000000000000000001"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    double meant = strtod(texts[i], NULL), value = read_number(texts[i]);
    assert_memory_equal(&value, &meant, sizeof value);
  }
}

static void strings_are_decoded(void **state) {
  (void)state;
  struct arena a = {0};
  const struct json *root = parsed("[\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\", "
                                   "\"\\\"\\\\\\/\\b\\f\\n\\r\\t.\", \"\\uef80\\u007f\"]",
                                   &a);
  assert_string_equal(json_element(root, 0)->text, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  assert_string_equal(json_element(root, 1)->text, "\"\\/\b\f\n\r\t.");
  assert_string_equal(json_element(root, 2)->text, "\x80\x7f");
  arena_free(&a);
}

static void look_ups_take_any_value_and_none(void **state) {
  (void)state;
  struct arena a = {0};
  const struct json *root = parsed("{\"a\": [1, true], \"b\": \"text\"}", &a);
  const struct json *list = json_member(root, "a"), *text = json_member(root, "b");
  assert_int_equal(json_count(root), 2);
  assert_int_equal(json_count(list), 2);
  assert_true(json_is_bool(json_element(list, 1)));
  assert_null(json_element(list, 2));
  assert_null(json_member(root, "c"));
  assert_null(json_member(list, "a"));
  assert_null(json_member(text, "a"));
  assert_null(json_member(NULL, "a"));
  assert_null(json_element(root, 0));
  assert_null(json_first(text));
  assert_int_equal(json_count(NULL), 0);
  assert_false(json_is(NULL, JSON_NULL));
  arena_free(&a);
}

static void numbers_do_not_depend_on_the_locale(void **state) {
  (void)state;
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8"))
    skip();
  number_is(0.5, "0.5");
  assert_true(read_number("0.30000000000000004") == 0.1 + 0.2);
  setlocale(LC_NUMERIC, "C");
}

static void any_name_survives_a_file(void **state) {
  (void)state;
  static const char *const names[] = {
      "plain",
      "",
      "caf\xc3\xa9",
      "\xf0\x9f\x98\x80",
      "\xff\xfe",
      "half \xc3",
      "\xed\xa0\x80",
      "\xc0\x80",
      "\xee\xbe\x80 stands for itself",
      "\xee\xbf",
      "\xee\xbf\xbf\xee",
      "\x80\xbf",
      "\xf4\x90\x80\x80",
      "\\uef80",
      "\x1b[31m\r\n\t\"\\/",
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct written out;
    begin(&out, 0);
    json_object(&out.w, NULL);
    json_string(&out.w, names[i], names[i]);
    json_end_object(&out.w);
    end(&out);
    for (const char *c = out.text; *c; c += json_utf8_length(c))
      assert_true(json_utf8_length(c) > 0);
    struct arena a = {0};
    const struct json *root = parsed(out.text, &a);
    assert_string_equal(root->first->key, names[i]);
    assert_string_equal(root->first->text, names[i]);
    const char *path[] = {names[i]};
    assert_int_equal(line_named(out.text, path, 1), 1);
    arena_free(&a);
    free(out.text);
  }
}

static void write_many(struct written *out) {
  begin(out, 2);
  json_object(&out->w, NULL);
  json_array(&out->w, "nodes");
  for (int i = 0; i < 100000; i++) {
    json_object(&out->w, NULL);
    json_string(&out->w, "node", "/layer/attention/MatMul");
    json_string(&out->w, "class", "narrow");
    json_number(&out->w, "absmax", i / 3.0);
    json_integer(&out->w, "id", i);
    json_end_object(&out->w);
  }
  json_end_array(&out->w);
  json_end_object(&out->w);
  end(out);
}

static void writer_gives_the_same_bytes_again(void **state) {
  (void)state;
  struct written first, second;
  clock_t began = clock();
  write_many(&first);
  print_message("100,000 nodes written in %.3f s\n", (double)(clock() - began) / CLOCKS_PER_SEC);
  write_many(&second);
  assert_int_equal(first.size, second.size);
  assert_memory_equal(first.text, second.text, first.size);
  began = clock();
  accepted(first.text);
  print_message("and read in %.3f s\n", (double)(clock() - began) / CLOCKS_PER_SEC);
  free(first.text);
  free(second.text);
}

static void json_read_refuses_what_is_no_text(void **state) {
  (void)state;
  char path[] = "/tmp/test_json_XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, "{}\0{}", 5), 5);
  close(file);
  struct arena a = {0};
  struct diag d = {0};
  const struct json *root;
  assert_int_equal(json_read(&root, path, STATUS_DATA, &a, &d), STATUS_DATA);
  assert_non_null(strstr(d.message, "NUL"));
  unlink(path);
  diag_clear(&d);
  assert_int_equal(json_read(&root, path, STATUS_DATA, &a, &d), STATUS_IO);
  arena_free(&a);
}

static void nearest_name_forgives_slips_only(void **state) {
  (void)state;
  const char *const names[] = {"op", "node", "tensor", "scope", "max_zero_fraction", NULL};
  assert_string_equal(nearest_name("opp", names), "op");
  assert_string_equal(nearest_name("tensr", names), "tensor");
  assert_string_equal(nearest_name("Scope", names), "scope");
  assert_string_equal(nearest_name("zero_fraction", names), "max_zero_fraction");
  assert_string_equal(nearest_name("node", names), "node");
  assert_null(nearest_name("margin", names));
  assert_null(nearest_name("", (const char *const[]){"long", NULL}));
  char longer[100000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  assert_null(nearest_name(longer, (const char *const[]){longer, NULL}));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_refuses_what_is_not_json),
      cmocka_unit_test(json_says_line_and_column),
      cmocka_unit_test(json_refuses_deep_nesting),
      cmocka_unit_test(json_refuses_a_key_given_twice),
      cmocka_unit_test(json_finds_a_duplicate_among_many_keys),
      cmocka_unit_test(json_skips_a_byte_order_mark),
      cmocka_unit_test(messages_name_the_line_of_any_member),
      cmocka_unit_test(writer_layout_is_fixed),
      cmocka_unit_test(writer_numbers_are_short_and_exact),
      cmocka_unit_test(numbers_read_back_the_same),
      cmocka_unit_test(numbers_are_the_nearest_doubles),
      cmocka_unit_test(strings_are_decoded),
      cmocka_unit_test(look_ups_take_any_value_and_none),
      cmocka_unit_test(numbers_do_not_depend_on_the_locale),
      cmocka_unit_test(any_name_survives_a_file),
      cmocka_unit_test(writer_gives_the_same_bytes_again),
      cmocka_unit_test(json_read_refuses_what_is_no_text),
      cmocka_unit_test(nearest_name_forgives_slips_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
