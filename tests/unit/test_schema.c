// The operator table that the program carries: that it parses into what its lines say, and that
// look-ups find the form for an opset.
#include "schema.h"

#include "onnx.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <time.h>

enum {
  FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
  INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
  FLOAT16 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
  DOUBLE = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
  BFLOAT16 = ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16,
  UINT8 = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8
};

static struct arena arena;
static struct schema_table table;

static int load_table(void **state) {
  (void)state;
  schema_load(&table, &arena);
  return 0;
}

static int free_table(void **state) {
  (void)state;
  arena_free(&arena);
  return 0;
}

static const struct schema *find(const char *domain, const char *op, int opset) {
  const struct schema *s = schema_find(&table, domain, op, opset);
  assert_non_null(s);
  return s;
}

static void the_table_is_sorted_and_large(void **state) {
  (void)state;
  assert_true(table.count > 800);
  for (size_t i = 1; i < table.count; i++) {
    const struct schema *a = &table.schemas[i - 1], *b = &table.schemas[i];
    int order = strcmp(a->domain, b->domain);
    order = order ? order : strcmp(a->op, b->op);
    assert_true(order < 0 || (order == 0 && a->since < b->since));
  }
}

static void every_formal_has_a_variable_with_types(void **state) {
  (void)state;
  for (size_t i = 0; i < table.count; i++) {
    const struct schema *s = &table.schemas[i];
    for (int k = 0; k < s->n_inputs + s->n_outputs; k++) {
      const struct formal *f = k < s->n_inputs ? &s->inputs[k] : &s->outputs[k - s->n_inputs];
      assert_in_range(f->var, 0, s->n_vars - 1);
      assert_true(!f->heterogeneous || f->variadic);
      assert_true(f->name[0] && !strpbrk(f->name, "?*:"));
      const struct type_set *t = &s->vars[f->var].allowed;
      assert_true(t->tensors || t->sequences || t->optionals || t->optional_sequences || t->maps ||
                  t->sequence_maps || t->sparse_tensors);
    }
  }
}

static void the_form_is_the_newest_up_to_the_opset(void **state) {
  (void)state;
  assert_int_equal(find("", "Add", 1)->since, 1);
  assert_int_equal(find("", "Add", 12)->since, 7);
  assert_int_equal(find("", "Add", 13)->since, 13);
  assert_int_equal(find("", "Add", 1000)->since, 14);
  assert_null(schema_find(&table, "", "LayerNormalizatio", 20));
  assert_null(schema_find(&table, "", "CumSum", 10));
  assert_null(schema_find(&table, "com.example", "Add", 10));
  assert_null(schema_find(&table, "", "", 10));
}

static void both_spellings_of_the_onnx_domain_are_one(void **state) {
  (void)state;
  assert_ptr_equal(find("ai.onnx", "Conv", 11), find("", "Conv", 11));
  assert_string_equal(find("ai.onnx", "Conv", 11)->domain, "");
}

static void float_types_grow_with_the_opset(void **state) {
  (void)state;
  const struct schema *old = find("", "Conv", 11), *new = find("", "Conv", 22);
  assert_true(schema_allows(old, old->inputs[0].var, FLOAT16));
  assert_false(schema_allows(old, old->inputs[0].var, BFLOAT16));
  assert_true(schema_allows(new, new->inputs[0].var, BFLOAT16));
  assert_false(schema_allows(new, new->inputs[0].var, INT64));
  assert_false(schema_allows(new, new->inputs[0].var, 77));
}

static void the_first_opset_that_allows_a_type_is_found(void **state) {
  (void)state;
  assert_int_equal(schema_first_allowing(&table, "", "Conv", 11, BFLOAT16)->since, 22);
  assert_int_equal(schema_first_allowing(&table, "", "CumSum", 11, FLOAT16)->since, 14);
  assert_int_equal(schema_first_allowing(&table, "ai.onnx", "Relu", 6, BFLOAT16)->since, 13);
  assert_int_equal(schema_first_allowing(&table, "", "ConstantOfShape", 9, FLOAT16)->since, 9);
  assert_null(schema_first_allowing(&table, "", "NonMaxSuppression", 1, FLOAT16));
  assert_null(schema_first_allowing(&table, "", "NoSuchOperator", 1, FLOAT16));
}

static void bodies_that_do_not_take_what_the_schema_allows_are_known(void **state) {
  (void)state;
  assert_true(schema_allows(find("", "Clip", 13), 0, BFLOAT16));
  assert_int_equal(schema_body_allows_from("Clip", BFLOAT16), 16);
  assert_int_equal(schema_body_allows_from("Clip", FLOAT16), 1);
  assert_int_equal(schema_body_allows_from("MeanVarianceNormalization", FLOAT16), 0);
  assert_int_equal(schema_body_allows_from("Conv", FLOAT16), 1);
}

static void fixed_inputs_have_a_variable_of_their_own(void **state) {
  (void)state;
  const struct schema *resize = find("", "Resize", 13);
  assert_int_equal(resize->n_inputs, 4);
  assert_string_equal(resize->vars[resize->inputs[2].var].name, "");
  assert_true(resize->inputs[2].optional);
  assert_int_equal(resize->vars[resize->inputs[2].var].only.elem_type, FLOAT);
  assert_int_equal(resize->vars[resize->inputs[3].var].only.elem_type, INT64);
  assert_int_equal(resize->vars[resize->inputs[0].var].only.kind, TYPE_UNKNOWN);
}

static void variadic_formals_repeat_the_last(void **state) {
  (void)state;
  const struct schema *concat = find("", "Concat", 13), *loop = find("", "Loop", 13);
  assert_ptr_equal(schema_input(concat, 0), schema_input(concat, 1000));
  assert_true(schema_input(concat, 5)->variadic);
  assert_false(schema_input(concat, 5)->heterogeneous);
  assert_null(schema_output(concat, 1));
  assert_true(schema_input(loop, 7)->heterogeneous);
  assert_string_equal(schema_input(loop, 0)->name, "M");
  assert_true(schema_output(loop, 3)->heterogeneous);
  assert_null(schema_input(find("", "Relu", 14), 1));
}

static void containers_are_in_the_sets(void **state) {
  (void)state;
  const struct schema *insert = find("", "SequenceInsert", 11);
  const struct type_set *s = &insert->vars[insert->inputs[0].var].allowed;
  assert_true(type_in_set(s, (struct type){TYPE_SEQUENCE, FLOAT16}));
  assert_false(type_in_set(s, (struct type){TYPE_TENSOR, FLOAT16}));
  const struct schema *has = find("", "OptionalHasElement", 18);
  s = &has->vars[has->inputs[0].var].allowed;
  assert_true(type_in_set(s, (struct type){TYPE_OPTIONAL_SEQUENCE, FLOAT}));
  assert_true(type_in_set(s, (struct type){TYPE_OPTIONAL, FLOAT}));
  assert_true(type_in_set(s, (struct type){TYPE_TENSOR, FLOAT}));
  assert_false(type_in_set(s, (struct type){TYPE_UNKNOWN, 0}));
  const struct schema *zip = find("ai.onnx.ml", "ZipMap", 1);
  s = &zip->vars[zip->outputs[0].var].allowed;
  assert_true(type_in_set(s, (struct type){TYPE_SEQUENCE_MAP, FLOAT}));
}

static void attributes_that_set_a_type_are_listed(void **state) {
  (void)state;
  const struct schema *s = find("", "Cast", 13);
  assert_int_equal(s->n_type_attributes, 1);
  assert_string_equal(s->type_attributes[0].attribute, "to");
  assert_int_equal(s->type_attributes[0].default_type, 0);
  assert_int_equal(s->type_attributes[0].default_input, -1);
  s = find("", "ConstantOfShape", 20);
  assert_string_equal(s->type_attributes[0].attribute, "value");
  assert_int_equal(s->type_attributes[0].default_type, FLOAT);
  s = find("", "RandomNormalLike", 1);
  assert_string_equal(s->type_attributes[0].attribute, "dtype");
  assert_int_equal(s->type_attributes[0].default_input, 0);
  s = find("", "QuantizeLinear", 21);
  assert_string_equal(s->type_attributes[0].attribute, "output_dtype");
  assert_int_equal(s->type_attributes[0].default_input, 2);
  assert_int_equal(s->type_attributes[0].default_type, UINT8);
  s = find("", "LayerNormalization", 17);
  assert_int_equal(s->n_type_attributes, 2);
  assert_int_equal(s->type_attributes[1].output, 2);
  s = find("", "Constant", 13);
  assert_int_equal(s->n_type_attributes, 1);
  assert_string_equal(s->type_attributes[0].attribute, "value");
  assert_int_equal(find("", "SequenceEmpty", 11)->n_type_attributes, 0);
  assert_int_equal(find("", "Relu", 14)->n_type_attributes, 0);
}

static void rules_keep_their_order_and_parts(void **state) {
  (void)state;
  const struct schema *loop = find("", "Loop", 13);
  assert_int_equal(loop->n_choices, 1);
  assert_int_equal(loop->choices[0].kind, CHOICE_GRAPH);
  assert_int_equal(loop->choices[0].output, -1);
  assert_int_equal(loop->choices[0].input, 1);
  assert_string_equal(loop->choices[0].attribute, "body");
  const struct schema *map = find("", "SequenceMap", 17);
  assert_int_equal(map->choices[0].wrap, WRAP_SEQUENCE);
  assert_int_equal(map->choices[0].kind, CHOICE_GRAPH);
  assert_string_equal(map->choices[0].attribute, "body");
  const struct schema *constant = find("", "Constant", 13);
  assert_int_equal(constant->choices[2].kind, CHOICE_IF_ATTRIBUTE);
  assert_string_equal(constant->choices[2].attribute, "value_float");
  assert_int_equal(constant->choices[2].type.elem_type, FLOAT);
  const struct schema *zip = find("ai.onnx.ml", "ZipMap", 1);
  assert_int_equal(zip->choices[1].type.kind, TYPE_SEQUENCE_MAP);
  const struct schema *adam = find("ai.onnx.preview.training", "Adam", 1);
  assert_true(adam->choices[0].per_output);
  assert_int_equal(adam->choices[0].input, 2);
  const struct schema *hash = find("com.microsoft", "MurmurHash3", 1);
  assert_string_equal(hash->choices[0].value, "0");
}

static void flags_are_read(void **state) {
  (void)state;
  assert_true(find("", "Upsample", 10)->deprecated);
  assert_false(find("", "Upsample", 9)->deprecated);
  assert_true(find("", "Gelu", 20)->has_function);
  assert_false(find("", "Conv", 20)->has_function);
}

static void the_newest_version_of_a_domain_is_known(void **state) {
  (void)state;
  assert_true(schema_newest(&table, "") >= 24);
  assert_int_equal(schema_newest(&table, "ai.onnx"), schema_newest(&table, ""));
  assert_int_equal(schema_newest(&table, "com.microsoft"), 1);
  assert_int_equal(schema_newest(&table, "com.example"), 0);
}

// 3 ms is the aim; the bound is wide, for slow and busy machines and sanitizers.
static void parsing_is_quick(void **state) {
  (void)state;
  struct arena own = {0};
  struct schema_table t;
  clock_t start = clock();
  schema_load(&t, &own);
  assert_true(clock() - start < CLOCKS_PER_SEC / 10);
  assert_int_equal(t.count, table.count);
  arena_free(&own);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_is_sorted_and_large),
      cmocka_unit_test(every_formal_has_a_variable_with_types),
      cmocka_unit_test(the_form_is_the_newest_up_to_the_opset),
      cmocka_unit_test(both_spellings_of_the_onnx_domain_are_one),
      cmocka_unit_test(float_types_grow_with_the_opset),
      cmocka_unit_test(the_first_opset_that_allows_a_type_is_found),
      cmocka_unit_test(bodies_that_do_not_take_what_the_schema_allows_are_known),
      cmocka_unit_test(fixed_inputs_have_a_variable_of_their_own),
      cmocka_unit_test(variadic_formals_repeat_the_last),
      cmocka_unit_test(containers_are_in_the_sets),
      cmocka_unit_test(attributes_that_set_a_type_are_listed),
      cmocka_unit_test(rules_keep_their_order_and_parts),
      cmocka_unit_test(flags_are_read),
      cmocka_unit_test(the_newest_version_of_a_domain_is_known),
      cmocka_unit_test(parsing_is_quick),
  };
  return cmocka_run_group_tests(tests, load_table, free_table);
}
