// policy: the shipped policies, every kind of mistake in a file with its place, first match wins,
// overrides.
#include "policy.h"

#include "embedded.h"
#include "json.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

// A whole policy, small; tests replace one piece of it.
static const char small_policy[] =
    "{\"$schema\": \"policy.schema.json\",\n"                                  // line 1
    " \"name\": \"small\", \"version\": 3, \"description\": \"for tests\",\n"  // 2
    " \"ladder\": [\"fp16\", \"bf16\", \"fp32\"],\n"                           // 3
    " \"calibration\": {\"window\": 8, \"sample\": 0,\n"                       // 4
    "   \"held_out_enough\": 9, \"hold_out\": {\"every\": 4}},\n"              // 5
    " \"range\": {\"margin\": 2.5, \"max_zero_fraction\": 0.125,\n"            // 6
    "   \"max_subnormal_fraction\": 0.5, \"flush_to_zero\": true},\n"          // 7
    " \"resolution\": {\"integers\": \"exact\", \"max_angle_step\": 0.01}, "
    "\"constants\": {\"out_of_range\": \"saturate\",\n"                                // 8
    "   \"max_zero_fraction\": 0.25, \"max_subnormal_fraction\": 0.75},\n"             // 9
    " \"graph\": {\"inputs\": \"narrow\", \"outputs\": \"keep\"},\n"                   // 10
    " \"casts\": {\"by_author\": \"follow\"},\n"                                       // 11
    " \"target\": \"accelerator\", \"promotion\": {\"rounds\": 2, \"samples\": 8},\n"  // 12
    " \"rules\": [\n"                                                                  // 13
    "  {\"id\": \"a\", \"match\": {\"op\": [\"MatMul\", \"Add\"],\n"                   // 14
    "    \"node\": [\"/enc*\"]}, \"class\": \"pin\", \"why\": \"first\"},\n"           // 15
    "  {\"id\": \"b\", \"match\": {\"op\": [\"MatMul\", \"com.x:Q*\"]},\n"             // 16
    "    \"class\": \"narrow\", \"why\": \"second\"},\n"                               // 17
    "  {\"id\": \"c\", \"match\": {\"scope\": [\"\"], \"tensor\": [\"t?\"]},\n"        // 18
    "    \"class\": \"follow\", \"why\": \"third\"}],\n"                               // 19
    " \"claims\": [\n"                                                                 // 20
    "  {\"id\": \"f\", \"metric\": \"finite\"},\n"                                     // 21
    "  {\"id\": \"l\", \"metric\": \"relative_l2\", \"limit\": 0.01,\n"                // 22
    "    \"outputs\": [\"logits*\"]}]}\n";                                             // 23

// small_policy with `old` (which must be in it once) replaced; malloc'ed.
static char *replaced(const char *old, const char *new) {
  const char *at = strstr(small_policy, old);
  assert_non_null(at);
  assert_null(strstr(at + 1, old));
  char *text = malloc(sizeof small_policy + strlen(new));
  sprintf(text, "%.*s%s%s", (int)(at - small_policy), small_policy, new, at + strlen(old));
  return text;
}

static struct policy loaded(const char *name, struct arena *a) {
  struct diag d = {0};
  struct policy p;
  if (policy_load(&p, name, a, &d) != STATUS_OK)
    fail_msg("%s: %s", d.file, d.message);
  return p;
}

static struct policy small(struct arena *a) {
  struct diag d = {0};
  struct policy p;
  assert_int_equal(policy_parse(&p, small_policy, "p.json", a, &d), STATUS_OK);
  return p;
}

static void policy_reads_every_key(void **state) {
  (void)state;
  struct arena a = {0};
  struct policy p = small(&a);
  assert_string_equal(p.name, "small");
  assert_int_equal(p.version, 3);
  assert_string_equal(p.description, "for tests");
  assert_int_equal(strlen(p.sha256), 64);
  assert_int_equal(p.n_ladder, 3);
  assert_true(p.ladder[0] == FORMAT_FP16 && p.ladder[1] == FORMAT_BF16);
  assert_int_equal(p.ladder[2], FORMAT_FP32);
  assert_true(p.window == 8 && p.sample == 0);
  assert_true(p.hold_out.every == 4 && p.hold_out.enough == 9);
  assert_true(p.margin == 2.5 && p.max_zero_fraction == 0.125 && p.max_subnormal_fraction == 0.5);
  assert_true(p.ftz);
  assert_int_equal(p.constants, CONSTANTS_SATURATE);
  assert_true(p.constant_max_zero_fraction == 0.25 && p.constant_max_subnormal_fraction == 0.75);
  assert_true(p.narrow_inputs && !p.narrow_outputs && !p.keep_author_casts);
  assert_string_equal(p.target.name, "accelerator");
  assert_int_equal(p.n_rules, 3);
  assert_string_equal(p.rules[0].id, "a");
  assert_string_equal(p.rules[0].why, "first");
  assert_int_equal(p.rules[0].class, CLASS_PIN);
  assert_int_equal(p.n_claims, 2);
  assert_int_equal(p.claims[0].metric, METRIC_FINITE);
  assert_true(p.claims[1].metric == METRIC_RELATIVE_L2 && p.claims[1].limit == 0.01);
  assert_string_equal(p.claims[1].outputs[0], "logits*");
  assert_null(p.claims[0].outputs);
  assert_null(p.adjustments[0]);
  arena_free(&a);
}

static void policy_refuses_mistakes_with_their_place(void **state) {
  (void)state;
  static const struct {
    const char *old, *new, *place, *message, *hint;
  } cases[] = {
      {"\"op\": [\"MatMul\", \"com", "\"opp\": [\"MatMul\", \"com", "p.json:16",
       "rules[1].match.opp: unknown key", "Did you mean \"op\"? The keys here are: op, node,"},
      {"\"margin\"", "\"margn\"", "p.json:6", "range.margn: unknown key", "\"margin\""},
      {"\"claims\"", "\"claim\"", "p.json:20", "claim: unknown key", "\"claims\""},
      {"\"margin\": 2.5, ", "", "p.json:6", "range: the key \"margin\" is missing", ""},
      {"\"version\": 3, ", "", "p.json:1", "the key \"version\" is missing", ""},
      {"\"margin\": 2.5", "\"margin\": \"2\"", "p.json:6",
       "range.margin: expected a number, found a string", ""},
      {"2.5", "0.5", "p.json:6", "range.margin: 0.5 is out of range; it must be in 1 to", ""},
      {"0.125", "1.5", "p.json:6", "range.max_zero_fraction: 1.5 is out of range", ""},
      {"\"window\": 8", "\"window\": 8.5", "p.json:4", "calibration.window: 8.5 is not a whole",
       ""},
      {"\"window\": 8", "\"window\": null", "p.json:4", "expected a number, found null", ""},
      {"\"flush_to_zero\": true", "\"flush_to_zero\": 1", "p.json:7",
       "expected true or false, found a number", ""},
      {"enough\": 9", "enough\": -1", "p.json:5", "held_out_enough: -1 is out", ""},
      {"{\"every\": 4}", "{}", "p.json:5", "calibration.hold_out: needs either", ""},
      {"{\"every\": 4}", "{\"every\": 4, \"share\": 0.5}", "p.json:5", "needs either", ""},
      {"{\"every\": 4}", "{\"every\": 1}", "p.json:5", "calibration.hold_out.every: 1 is out", ""},
      {"{\"every\": 4}", "{\"share\": 0}", "p.json:5", "calibration.hold_out.share: 0 is out", ""},
      {"{\"every\": 4}", "{\"share\": 1}", "p.json:5", "calibration.hold_out.share: 1 is out", ""},
      {"\"bf16\", \"fp32\"]", "\"bf16\"]", "p.json:3", "ladder: the last format must be fp32", ""},
      {"[\"fp16\", \"bf16\"", "[\"fp16\", \"fp16\"", "p.json:3", "ladder[1]: fp16 is in", ""},
      {"[\"fp16\", \"bf16\"", "[\"fp16\", \"fp8e4m3fn\"", "p.json:3",
       "ladder[1]: fp8e4m3fn is for operands of matrix products: it must come first", ""},
      {"[\"fp16\", \"bf16\"", "[\"fp8e4m3fn\", \"fp16\", \"bf16\"", "p.json:1",
       "\"operands\" is missing: the ladder begins with fp8e4m3fn", ""},
      {"\"target\": \"accelerator\"",
       "\"operands\": {\"margin\": 1, \"max_zero_fraction\": 0, \"max_subnormal_fraction\": 0}, "
       "\"target\": \"accelerator\"",
       "p.json:1", "\"operands\" is for ladders that begin", ""},
      {"[\"fp16\", \"bf16\"", "[\"fp4e2m1\", \"bf16\"", "p.json:1", "\"weights\" is missing", ""},
      {"[\"fp16\", \"bf16\"", "[\"tf32\", \"bf16\"", "p.json:3", "tf32 is a setting", ""},
      {"[\"fp16\", \"bf16\"", "[\"float16\", \"bf16\"", "p.json:3", "write \"fp16\" for", ""},
      {"[\"fp16\", \"bf16\"", "[\"fp17\", \"bf16\"", "p.json:3", "unknown format \"fp17\"",
       "Did you mean \"fp16\"?"},
      {"\"bf16\", \"fp32\"]", "\"fp31\"]", "p.json:3", "ladder[1]: unknown format \"fp31\"",
       "Did you mean \"fp32\"?"},
      {"[\"fp16\", \"bf16\"", "[\"fp8\", \"bf16\"", "p.json:3", "ladder[0]: unknown format \"fp8\"",
       "Did you mean \"fp8e4m3fn\"?"},
      {"[\"fp16\", \"bf16\", \"fp32\"]", "[]", "p.json:3", "ladder: must not be empty", ""},
      {"[\"fp16\", \"bf16\", \"fp32\"]", "\"fp16\"", "p.json:3", "expected a list", ""},
      {"\"saturate\"", "\"saturated\"", "p.json:8", "constants.out_of_range: unknown value",
       "Did you mean \"saturate\"?"},
      {"\"inputs\": \"narrow\"", "\"inputs\": true", "p.json:10", "expected a string", ""},
      {"\"class\": \"pin\"", "\"class\": \"pinned\"", "p.json:15", "rules[0].class: unknown value",
       "The values here are: narrow, follow, pin, keep"},
      {", \"why\": \"first\"", "", "p.json:14", "rules[0]: the key \"why\" is missing", ""},
      {"\"id\": \"b\"", "\"id\": \"a\"", "p.json:16", "the id \"a\" is that of rules[0] too", ""},
      {"\"id\": \"b\"", "\"id\": \"\"", "p.json:16", "rules[1].id: must not be empty", ""},
      {"\"com.x:Q*\"", "\"\"", "p.json:16", "rules[1].match.op[1]: must not be empty", ""},
      {"\"com.x:Q*\"", "7", "p.json:16", "rules[1].match.op[1]: expected a string", ""},
      {"\"tensor\": [\"t?\"]", "\"pattern\": [\"layer-nrom\"]", "p.json:18",
       "rules[2].match.pattern[0]: unknown value \"layer-nrom\"", "Did you mean \"layer-norm\"?"},
      {"\"tensor\": [\"t?\"]", "\"pattern\": []", "p.json:18", "pattern: must not be empty", ""},
      {" \"target\"", " \"training\": {\"moments\": 2}, \"target\"", "p.json:12",
       "training: the key \"micro_batches\" is missing", ""},
      {" \"target\"",
       " \"training\": {\"moments\": 2, \"micro_batches\": 0, \"scale_start_log2\": 16,"
       " \"scale_interval\": 2000}, \"target\"",
       "p.json:12", "training.micro_batches: 0 is out of range", ""},
      {"[\"\"]", "[]", "p.json:18", "rules[2].match.scope: must not be empty", ""},
      {"\"limit\": 0.01", "\"limit\": -1", "p.json:22", "claims[1].limit: -1 is out of range", ""},
      {"\"limit\": 0.01,\n", "\n", "p.json:22", "claims[1]: the key \"limit\" is missing", ""},
      {"\"finite\"", "\"finite\", \"limit\": 0", "p.json:21", "claims[0].limit: the metric", ""},
      {"\"relative_l2\"", "\"matched_rows\"", "p.json:22", "the key \"tolerance\" is missing", ""},
      {"\"limit\": 0.01", "\"limit\": 0.01, \"tolerance\": 0.1", "p.json:22",
       "claims[1]: only the metric \"matched_rows\" has a tolerance", ""},
      {"\"finite\"", "\"matched_rows\", \"limit\": 1.5, \"tolerance\": 0.1", "p.json:21",
       "claims[0].limit: 1.5 is out of range", ""},
      {"\"finite\"},\n",
       "\"matched_rows\", \"limit\": 0.9, \"tolerance\": 0.1},\n"
       "{\"id\": \"g\", \"metric\": \"matched_rows\", \"limit\": 0.9, \"tolerance\": 0.2},\n",
       "p.json:22", "claims[1]: the tolerance of claims[0] is another", ""},
      {"\"relative_l2\"", "\"relativ_l2\"", "p.json:22", "claims[1].metric: unknown value",
       "\"relative_l2\""},
      {"\"id\": \"l\"", "\"id\": \"f\"", "p.json:22", "is that of claims[0] too", ""},
      {"\"range\": {", "\"range\": {\"margin\": 1,", "p.json:6", "range.margin: this key is given",
       ""},
      {"\"version\": 3", "\"version\": 3 // third", "p.json:2", "no comments", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct arena a = {0};
    struct diag d = {0};
    struct policy p;
    char *text = replaced(cases[i].old, cases[i].new);
    assert_int_equal(policy_parse(&p, text, "p.json", &a, &d), STATUS_POLICY);
    if (strcmp(d.file, cases[i].place) != 0 || !strstr(d.message, cases[i].message) ||
        !strstr(d.hint, cases[i].hint))
      fail_msg("%s: %s: %s (%s)", cases[i].new, d.file, d.message, d.hint);
    free(text);
    arena_free(&a);
  }
}

static void policy_refuses_a_document_that_is_no_object(void **state) {
  (void)state;
  static const char *const texts[] = {"[]", "1", "null", "\"fp16\"", "{}", ""};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct arena a = {0};
    struct diag d = {0};
    struct policy p;
    assert_int_equal(policy_parse(&p, texts[i], "p.json", &a, &d), STATUS_POLICY);
    assert_string_equal(d.file, "p.json:1");
    arena_free(&a);
  }
}

static void policy_survives_truncation_and_damage(void **state) {
  (void)state;
  char text[sizeof small_policy];
  for (size_t i = 0; i < sizeof small_policy - 2; i++) {
    struct arena a = {0};
    struct policy p;
    struct diag d = {0};
    memcpy(text, small_policy, sizeof text);
    text[i] = '\0';
    assert_int_equal(policy_parse(&p, text, "p.json", &a, &d), STATUS_POLICY);
    static const char damage[] = "\"{}[],:\\0-e\x80\xff n";
    for (size_t k = 0; k < sizeof damage - 1; k++) {
      diag_clear(&d);
      text[i] = damage[k];
      memcpy(text + i + 1, small_policy + i + 1, sizeof text - i - 1);
      enum status status = policy_parse(&p, text, "p.json", &a, &d);
      assert_true(status == STATUS_OK || (status == STATUS_POLICY && d.message[0]));
    }
    arena_free(&a);
  }
}

static void shipped_policies_are_the_files_in_rules(void **state) {
  (void)state;
  for (const char *const *name = policy_names(); *name; name++) {
    struct arena a = {0};
    struct diag d = {0};
    char path[1024];
    snprintf(path, sizeof path, SOURCE_DIR "/rules/%s.json", *name);
    char *text;
    assert_int_equal(json_read_text(&text, path, STATUS_POLICY, &a, &d), STATUS_OK);
    assert_string_equal(policy_text(*name), text);
    struct policy inside = loaded(*name, &a);
    struct policy file = loaded(path, &a);
    assert_string_equal(inside.name, *name);
    assert_string_equal(inside.sha256, file.sha256);
    arena_free(&a);
  }
  assert_null(policy_text("fp17"));
}

static void policy_load_names_the_nearest_shipped_policy(void **state) {
  (void)state;
  struct arena a = {0};
  struct diag d = {0};
  struct policy p;
  assert_int_equal(policy_load(&p, "fp61", &a, &d), STATUS_POLICY);
  assert_non_null(strstr(d.hint, "Did you mean fp16?"));
  diag_clear(&d);
  assert_int_equal(policy_load(&p, "no/such.json", &a, &d), STATUS_IO);
  arena_free(&a);
}

static const struct rule *rule_for(const struct policy *p, const char *domain, const char *op) {
  struct rule_subject subject = {.domain = domain, .op = op, .node = "n", .scope = ""};
  return policy_match(p, &subject);
}

static enum node_class class_of(const struct policy *p, const char *domain, const char *op) {
  const struct rule *rule = rule_for(p, domain, op);
  return rule ? rule->class : CLASS_KEEP;
}

static void first_matching_rule_wins(void **state) {
  (void)state;
  struct arena a = {0};
  struct policy p = small(&a);
  struct rule_subject s = {.domain = "", .op = "MatMul", .node = "/enc/1", .scope = "fn:x.f"};
  assert_string_equal(policy_match(&p, &s)->id, "a");
  s.node = "/dec/1";
  assert_string_equal(policy_match(&p, &s)->id, "b");
  s.domain = "ai.onnx";
  assert_string_equal(policy_match(&p, &s)->id, "b");
  s.domain = "com.x";
  assert_null(policy_match(&p, &s));
  s.op = "QFoo";
  assert_string_equal(policy_match(&p, &s)->id, "b");
  s.op = "Relu";
  const char *tensors[] = {"long", "t1"};
  s.tensors = tensors;
  s.n_tensors = 2;
  assert_null(policy_match(&p, &s));
  s.scope = "";
  assert_string_equal(policy_match(&p, &s)->id, "c");
  s.n_tensors = 1;
  assert_null(policy_match(&p, &s));
  arena_free(&a);
}

static void a_rule_for_patterns_matches_their_nodes_only(void **state) {
  (void)state;
  struct arena a = {0};
  struct diag d = {0};
  struct policy p;
  char *text = replaced("\"op\": [\"MatMul\", \"Add\"]", "\"pattern\": [\"gelu\", \"softmax\"]");
  assert_int_equal(policy_parse(&p, text, "p.json", &a, &d), STATUS_OK);
  struct rule_subject s = {.op = "Add", .node = "/enc/1", .scope = "fn:x.f"};
  assert_null(policy_match(&p, &s));
  s.pattern = PATTERN_RMS_NORM;
  assert_null(policy_match(&p, &s));
  s.pattern = PATTERN_SOFTMAX;
  assert_string_equal(policy_match(&p, &s)->id, "a");
  s.node = "/dec/1";  // every criterion must hold
  assert_null(policy_match(&p, &s));
  free(text);
  arena_free(&a);
}

static void globs_match_whole_names(void **state) {
  (void)state;
  assert_true(glob_match("", "") && !glob_match("", "a") && glob_match("*", ""));
  assert_true(glob_match("a*c", "abbc") && glob_match("a*c", "ac") && !glob_match("a*c", "acb"));
  assert_true(glob_match("a?c", "abc") && !glob_match("a?c", "ac") && !glob_match("?", ""));
  assert_true(glob_match("?", "\xc3\xa9") && glob_match("?", "\xff") && !glob_match("?", "ab"));
  assert_true(glob_match("*/layer.?/*.weight", "enc/layer.3/q.weight"));
  assert_true(glob_match("*ab*ab", "abxabab") && !glob_match("*ab*ab", "ab"));
  assert_false(glob_match("MatMul", "matmul"));
}

static void overrides_go_in_front_and_are_recorded(void **state) {
  (void)state;
  struct arena a = {0};
  struct diag d = {0};
  struct policy p = small(&a);
  const char *tensors[] = {"in", "out"};
  struct rule_subject s = {.op = "MatMul", .node = "/dec/1", .tensors = tensors, .n_tensors = 2};
  s.scope = "";
  assert_int_equal(policy_adjust_class(&p, CLASS_KEEP, "/dec/*", &a, &d), STATUS_OK);
  assert_int_equal(policy_match(&p, &s)->class, CLASS_KEEP);
  assert_string_equal(policy_match(&p, &s)->id, "--keep /dec/*");
  assert_int_equal(policy_adjust_class(&p, CLASS_NARROW, "out", &a, &d), STATUS_OK);
  assert_string_equal(policy_match(&p, &s)->id, "--narrow out");
  s.n_tensors = 1;
  assert_string_equal(policy_match(&p, &s)->id, "--keep /dec/*");
  assert_int_equal(policy_adjust_format(&p, "bf16", &a, &d), STATUS_OK);
  assert_true(p.n_ladder == 2 && p.ladder[0] == FORMAT_BF16 && p.ladder[1] == FORMAT_FP32);
  assert_int_equal(policy_adjust_format(&p, "float32", &a, &d), STATUS_OK);
  assert_true(p.n_ladder == 1 && p.ladder[0] == FORMAT_FP32);
  assert_int_equal(policy_adjust_io(&p, "narrow", &a, &d), STATUS_OK);
  assert_true(p.narrow_inputs && p.narrow_outputs);
  static const char *const texts[] = {"--keep /dec/*", "--narrow out", "--format bf16",
                                      "--format fp32", "--io narrow"};
  for (size_t i = 0; i < 5; i++)
    assert_string_equal(p.adjustments[i], texts[i]);
  assert_null(p.adjustments[5]);
  arena_free(&a);
}

static void overrides_refuse_wrong_arguments(void **state) {
  (void)state;
  struct arena a = {0};
  struct diag d = {0};
  struct policy p = small(&a);
  assert_int_equal(policy_adjust_class(&p, CLASS_KEEP, "", &a, &d), STATUS_USAGE);
  diag_clear(&d);
  assert_int_equal(policy_adjust_format(&p, "fp8e4m3fn", &a, &d), STATUS_USAGE);
  assert_non_null(strstr(d.message, "nodes do not run in it"));
  assert_non_null(strstr(d.hint, "--policy fp8"));
  diag_clear(&d);
  assert_int_equal(policy_adjust_format(&p, "fp1", &a, &d), STATUS_USAGE);
  assert_non_null(strstr(d.hint, "Did you mean fp16"));
  diag_clear(&d);
  assert_int_equal(policy_adjust_io(&p, "wide", &a, &d), STATUS_USAGE);
  assert_null(p.adjustments[0]);
  arena_free(&a);
}

// The text from "rules" to "claims".
static char *rules_text(const char *name) {
  const char *text = policy_text(name);
  const char *begin = strstr(text, "\"rules\": ["), *end = strstr(text, "\"claims\": [");
  assert_true(begin && end && begin < end);
  char *copy = calloc(1, (size_t)(end - begin) + 1);
  memcpy(copy, begin, (size_t)(end - begin));
  return copy;
}

static void shipped_policies_share_their_rules(void **state) {
  (void)state;
  char *first = rules_text("fp16");
  for (const char *const *name = policy_names(); *name; name++) {
    char *other = rules_text(*name);
    assert_string_equal(other, first);
    free(other);
  }
  free(first);
}

static void shipped_policies_classify_as_they_should(void **state) {
  (void)state;
  static const struct {
    const char *domain, *op;
    enum node_class class;
  } cases[] = {
      {"", "MatMul", CLASS_NARROW},
      {"", "Conv", CLASS_NARROW},
      {"com.microsoft", "FusedMatMul", CLASS_NARROW},
      {"com.microsoft", "Attention", CLASS_NARROW},
      {"", "Attention", CLASS_NARROW},
      {"", "LSTM", CLASS_PIN},
      {"", "Relu", CLASS_FOLLOW},
      {"", "BatchNormalization", CLASS_FOLLOW},
      {"", "Div", CLASS_PIN},
      {"", "Softmax", CLASS_PIN},
      {"", "ReduceMean", CLASS_PIN},
      {"", "ReduceMax", CLASS_FOLLOW},
      {"", "LayerNormalization", CLASS_PIN},
      {"com.microsoft", "SkipLayerNormalization", CLASS_PIN},
      {"", "Exp", CLASS_PIN},
      {"", "TopK", CLASS_PIN},
      {"", "Cast", CLASS_KEEP},
      {"", "If", CLASS_KEEP},
      {"", "QuantizeLinear", CLASS_KEEP},
      {"com.microsoft", "QLinearAdd", CLASS_KEEP},
      {"com.microsoft", "MatMulNBits", CLASS_NARROW},
      {"com.microsoft", "MatMulNBitsMlp", CLASS_KEEP},
      {"com.microsoft", "MatMul", CLASS_KEEP},
      {"ai.onnx.ml", "TreeEnsemble", CLASS_KEEP},
      {"my.own", "Thing", CLASS_KEEP},
  };
  for (const char *const *name = policy_names(); *name; name++) {
    struct arena a = {0};
    struct policy p = loaded(*name, &a);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
      if (class_of(&p, cases[i].domain, cases[i].op) != cases[i].class)
        fail_msg("%s: %s", *name, cases[i].op);
    assert_string_equal(rule_for(&p, "my.own", "Thing")->id, "unknown");
    struct rule_subject half = {.op = "Div", .node = "", .scope = "", .constant_inputs = 2};
    assert_string_equal(policy_match(&p, &half)->id, "constant-divisor");
    half.constant_inputs = 1;
    assert_int_equal(policy_match(&p, &half)->class, CLASS_PIN);
    struct rule_subject norm = {
        .op = "LayerNormalization", .node = "", .scope = "", .sums_in_fp32 = true};
    assert_int_equal(policy_match(&p, &norm)->class, CLASS_FOLLOW);
    struct rule_subject part = {.op = "Add", .node = "", .scope = "", .pattern = PATTERN_RMS_NORM};
    assert_int_equal(policy_match(&p, &part)->class, CLASS_PIN);
    part.pattern = PATTERN_SOFTMAX;
    assert_int_equal(policy_match(&p, &part)->class, CLASS_PIN);
    part = (struct rule_subject){.op = "Pow", .node = "", .scope = "", .pattern = PATTERN_GELU};
    assert_int_equal(policy_match(&p, &part)->class, CLASS_FOLLOW);
    arena_free(&a);
  }
}

static const char *operator_table(void) {
  const struct embedded *e = embedded_files;
  while (e->name && strcmp(e->name, "operators.tsv") != 0)
    e++;
  assert_non_null(e->name);
  return e->text;
}

// The rest of the line after "domain TAB op TAB", or NULL.
static const char *table_row(const char *table, const char *domain, const char *op) {
  char start[300];
  snprintf(start, sizeof start, "\n%s\t%s\t", domain, op);
  const char *row = strstr(table, start);
  return row ? row + strlen(start) : NULL;
}

static void shipped_rules_name_every_operator(void **state) {
  (void)state;
  struct arena a = {0};
  struct policy p = loaded("fp16", &a);
  char *copy = arena_strdup(&a, operator_table());
  char *rest = NULL;
  for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char domain[200], op[200];
    if (line[0] == '#' || sscanf(line, "%199[^\t]\t%199[^\t]", domain, op) != 2)
      continue;
    if (strcmp(rule_for(&p, domain, op)->id, "unknown") == 0)
      fail_msg("no rule names %s:%s", domain, op);
  }
  arena_free(&a);
}

static void shipped_rules_name_only_operators_that_exist(void **state) {
  (void)state;
  struct arena a = {0};
  struct policy p = loaded("fp16", &a);
  const char *table = operator_table();
  for (int i = 0; i < p.n_rules; i++) {
    for (const char **op = p.rules[i].ops; op && *op; op++) {
      const char *colon = strrchr(*op, ':');
      const char *domain = colon ? arena_printf(&a, "%.*s", (int)(colon - *op), *op) : "ai.onnx";
      if (!table_row(table, domain, colon ? colon + 1 : *op))
        fail_msg("rule %s: no operator %s", p.rules[i].id, *op);
      const struct rule *first = rule_for(&p, domain, colon ? colon + 1 : *op);
      if (first != &p.rules[i] && !p.rules[i].constant_inputs && !p.rules[i].sums_in_fp32)
        fail_msg("%s of rule %s is taken by rule %s", *op, p.rules[i].id, first->id);
    }
  }
  arena_free(&a);
}

static void matching_is_fast_for_large_models(void **state) {
  (void)state;
  struct arena a = {0};
  struct policy p = loaded("fp16", &a);
  clock_t began = clock();
  for (int i = 0; i < 100000; i++)
    assert_string_equal(rule_for(&p, "my.own", "Thing")->id, "unknown");
  double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
  print_message("100,000 nodes matched by the last rule in %.3f s\n", seconds);
  assert_true(seconds < 5);
  arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(policy_reads_every_key),
      cmocka_unit_test(policy_refuses_mistakes_with_their_place),
      cmocka_unit_test(policy_refuses_a_document_that_is_no_object),
      cmocka_unit_test(policy_survives_truncation_and_damage),
      cmocka_unit_test(shipped_policies_are_the_files_in_rules),
      cmocka_unit_test(policy_load_names_the_nearest_shipped_policy),
      cmocka_unit_test(first_matching_rule_wins),
      cmocka_unit_test(a_rule_for_patterns_matches_their_nodes_only),
      cmocka_unit_test(globs_match_whole_names),
      cmocka_unit_test(overrides_go_in_front_and_are_recorded),
      cmocka_unit_test(overrides_refuse_wrong_arguments),
      cmocka_unit_test(shipped_policies_share_their_rules),
      cmocka_unit_test(shipped_policies_classify_as_they_should),
      cmocka_unit_test(shipped_rules_name_every_operator),
      cmocka_unit_test(shipped_rules_name_only_operators_that_exist),
      cmocka_unit_test(matching_is_fast_for_large_models),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
