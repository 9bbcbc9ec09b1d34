// Reads the operator table that the program carries inside (proto/operators.tsv, whose head
// describes the format) into arrays sorted for binary search. The text is copied once and cut up in
// place. Lists of types repeat over and over in it, so each distinct one is parsed once.
#include "schema.h"

#include "embedded.h"
#include "map.h"
#include "onnx.pb-c.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct parser {
  struct arena *arena;
  struct map lists;       // text of a type list -> index into vars
  struct type_var *vars;  // without names
  size_t capacity_vars;
  int n_vars;
};

static int element_by_short_name(const char *name, size_t length) {
  static const struct {
    const char *name;
    int elem_type;
  } elements[] = {
      {"f", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT},
      {"f16", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16},
      {"bf16", ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16},
      {"d", ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE},
      {"f8e4m3fn", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FN},
      {"f8e4m3fnuz", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FNUZ},
      {"f8e5m2", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E5M2},
      {"f8e5m2fnuz", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E5M2FNUZ},
      {"f6e2m3", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT6E2M3},
      {"f6e3m2", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT6E3M2},
      {"f4e2m1", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT4E2M1},
      {"f8e8m0", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E8M0},
      {"i2", ONNX__TENSOR_PROTO__DATA_TYPE__INT2},
      {"u2", ONNX__TENSOR_PROTO__DATA_TYPE__UINT2},
      {"i4", ONNX__TENSOR_PROTO__DATA_TYPE__INT4},
      {"u4", ONNX__TENSOR_PROTO__DATA_TYPE__UINT4},
      {"i8", ONNX__TENSOR_PROTO__DATA_TYPE__INT8},
      {"u8", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8},
      {"i16", ONNX__TENSOR_PROTO__DATA_TYPE__INT16},
      {"u16", ONNX__TENSOR_PROTO__DATA_TYPE__UINT16},
      {"i32", ONNX__TENSOR_PROTO__DATA_TYPE__INT32},
      {"u32", ONNX__TENSOR_PROTO__DATA_TYPE__UINT32},
      {"i64", ONNX__TENSOR_PROTO__DATA_TYPE__INT64},
      {"u64", ONNX__TENSOR_PROTO__DATA_TYPE__UINT64},
      {"b", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL},
      {"s", ONNX__TENSOR_PROTO__DATA_TYPE__STRING},
      {"c64", ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64},
      {"c128", ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX128},
  };
  for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++)
    if (strncmp(elements[i].name, name, length) == 0 && !elements[i].name[length])
      return elements[i].elem_type;
  return 0;
}

// The next part of *cursor up to `separator` outside parentheses; ends it with a NUL. NULL when
// nothing is left.
static char *cut(char **cursor, char separator) {
  char *part = *cursor;
  if (!part)
    return NULL;
  int depth = 0;
  for (char *c = part; *c; c++) {
    depth += (*c == '(') - (*c == ')');
    if (*c != separator || depth)
      continue;
    *c = '\0';
    *cursor = c + 1;
    return part;
  }
  *cursor = NULL;
  return part;
}

// If text is "HEAD(INSIDE)", cuts the closing parenthesis off and returns INSIDE.
static char *unwrap(char *text, const char *head) {
  size_t n = strlen(head);
  if (strncmp(text, head, n) != 0 || text[n] != '(')
    return NULL;
  char *end = strrchr(text, ')');
  assert(end && !end[1]);
  *end = '\0';
  return text + n + 1;
}

// "f16", "seq(f16)", "opt(seq(f16))", "map(i64,f)" ...; TYPE_UNKNOWN if text is no type.
static struct type parse_type(char *text) {
  size_t length = strlen(text);
  int element = element_by_short_name(text, length);
  if (element)
    return (struct type){TYPE_TENSOR, element};
  static const struct {
    const char *head;
    enum type_kind kind;
  } heads[] = {
      {"opt(seq(", TYPE_OPTIONAL_SEQUENCE},
      {"opt(", TYPE_OPTIONAL},
      {"seq(map(", TYPE_SEQUENCE_MAP},
      {"seq(", TYPE_SEQUENCE},
      {"map(", TYPE_MAP},
      {"sparse(", TYPE_SPARSE},
  };
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    size_t n = strlen(heads[i].head);
    if (strncmp(text, heads[i].head, n) != 0)
      continue;
    const char *element_name = text + n;
    const char *comma = strchr(element_name, ',');  // a map's key
    element_name = comma ? comma + 1 : element_name;
    element = element_by_short_name(element_name, strcspn(element_name, ")"));
    if (element)
      return (struct type){heads[i].kind, element};
  }
  return (struct type){TYPE_UNKNOWN, 0};
}

static uint64_t *set_of_kind(struct type_set *set, enum type_kind kind) {
  switch (kind) {
  case TYPE_TENSOR: return &set->tensors;
  case TYPE_SEQUENCE: return &set->sequences;
  case TYPE_OPTIONAL: return &set->optionals;
  case TYPE_OPTIONAL_SEQUENCE: return &set->optional_sequences;
  case TYPE_MAP: return &set->maps;
  case TYPE_SPARSE: return &set->sparse_tensors;
  case TYPE_SEQUENCE_MAP: return &set->sequence_maps;
  case TYPE_UNKNOWN:
  case TYPE_KINDS: break;
  }
  return NULL;
}

bool type_in_set(const struct type_set *set, struct type t) {
  struct type_set copy = *set;
  const uint64_t *bits = set_of_kind(&copy, t.kind);
  return bits && t.elem_type >= 0 && t.elem_type < 64 && (*bits >> t.elem_type & 1);
}

// A type variable of that name for a list of types.
static struct type_var parse_types(struct parser *p, const char *name, char *list) {
  int known = map_get(&p->lists, 0, list);
  if (known < 0) {
    const char *key = arena_strdup(p->arena, list);
    struct type_var var = {0};
    int count = 0;
    for (char *part; (part = cut(&list, ','));) {
      var.only = parse_type(part);
      assert(var.only.kind != TYPE_UNKNOWN);
      *set_of_kind(&var.allowed, var.only.kind) |= UINT64_C(1) << var.only.elem_type;
      count++;
    }
    if (count > 1)
      var.only = (struct type){0};
    known = p->n_vars++;
    p->vars = arena_grow(p->arena, p->vars, &p->capacity_vars, (size_t)p->n_vars, sizeof *p->vars);
    p->vars[known] = var;
    map_put(&p->lists, 0, key, known);
  }
  struct type_var var = p->vars[known];
  var.name = name;
  return var;
}

static size_t count_parts(const char *text, char separator) {
  size_t count = 1;
  for (; *text; text++)
    count += *text == separator;
  return count;
}

static int var_by_name(const struct schema *s, const char *name) {
  for (int i = 0; i < s->n_vars; i++)
    if (strcmp(s->vars[i].name, name) == 0)
      return i;
  assert(false && "a formal names a type variable that its operator lacks");
  return -1;
}

// "NAME:VARIABLE" or "NAME:=TYPE,TYPE", each with '?' or '*' before the colon.
static struct formal parse_formal(struct parser *p, struct schema *s, char *text) {
  struct formal f = {.name = text};
  char *type = strrchr(text, ':');
  assert(type && type > text);
  *type++ = '\0';
  char *mark = type - 2;
  f.optional = *mark == '?';
  f.variadic = *mark == '*';
  if (f.optional || f.variadic)
    *mark = '\0';
  if (*type == '=') {
    f.var = s->n_vars++;
    s->vars[f.var] = parse_types(p, "", type + 1);
  } else {
    f.var = var_by_name(s, type);
  }
  return f;
}

static struct formal *parse_formals(struct parser *p, struct schema *s, char *text, int *count) {
  *count = 0;
  if (strcmp(text, "-") == 0)
    return NULL;
  struct formal *formals = arena_array(p->arena, count_parts(text, ' '), sizeof *formals);
  for (char *part; (part = cut(&text, ' '));)
    formals[(*count)++] = parse_formal(p, s, part);
  return formals;
}

static void parse_vars(struct parser *p, struct schema *s, char *text, size_t n_formals) {
  s->vars = arena_array(p->arena, count_parts(text, ';') + n_formals, sizeof *s->vars);
  if (strcmp(text, "-") == 0)
    return;
  for (char *part; (part = cut(&text, ';'));) {
    char *types = strchr(part, '=');
    assert(types);
    *types = '\0';
    s->vars[s->n_vars++] = parse_types(p, part, types + 1);
  }
}

static int parse_number(const char *text, char **end) {
  long n = strtol(text, end, 10);
  assert(n >= 0 && n < 1000);
  return (int)n;
}

static char *unwrap_choice(struct type_choice *c, char *text) {
  static const struct {
    const char *head;
    enum choice_wrap wrap;
  } wraps[] = {{"seq", WRAP_SEQUENCE},
               {"opt", WRAP_OPTIONAL},
               {"elem", WRAP_ELEMENT},
               {"unopt", WRAP_UNOPTIONAL}};
  for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++) {
    char *inside = unwrap(text, wraps[i].head);
    if (!inside)
      continue;
    c->wrap = wraps[i].wrap;
    return inside;
  }
  return text;
}

// "@N", "@N+" or "@N=TYPE?TYPE".
static void parse_input_choice(struct type_choice *c, char *text) {
  c->kind = CHOICE_INPUT;
  c->input = parse_number(text + 1, &text);
  c->per_output = *text == '+';
  if (*text != '=')
    return;
  c->kind = CHOICE_IF_INPUT;
  char *result = strchr(text, '?');
  assert(result);
  *result = '\0';
  c->test = parse_type(text + 1);
  c->type = parse_type(result + 1);
}

static struct type_choice parse_choice(int output, char *text) {
  struct type_choice c = {.output = output};
  c.type = parse_type(text);
  if (c.type.kind != TYPE_UNKNOWN)
    return c;
  text = unwrap_choice(&c, text);
  c.type = parse_type(text);
  if (c.type.kind != TYPE_UNKNOWN)
    return c;
  char *inside = unwrap(text, "graph"), *result = strchr(text, '?');
  if (strcmp(text, "declared") == 0) {
    c.kind = CHOICE_DECLARED;
  } else if (*text == '@') {
    parse_input_choice(&c, text);
  } else if (inside) {
    c.kind = CHOICE_GRAPH;
    c.per_output = true;
    c.attribute = inside;
    char *plus = strchr(inside, '+');
    if (plus) {
      *plus = '\0';
      c.input = parse_number(plus + 1, &plus);
    }
  } else if (result) {
    c.kind = CHOICE_IF_ATTRIBUTE;
    *result = '\0';
    c.attribute = text;
    c.type = parse_type(result + 1);
    assert(c.type.kind != TYPE_UNKNOWN);
    char *value = strchr(text, '=');
    if (value) {
      *value = '\0';
      c.value = value + 1;
    }
  } else {
    c.kind = CHOICE_ATTRIBUTE;
    c.attribute = text;
  }
  return c;
}

static void parse_choices(struct parser *p, struct schema *s, char *text) {
  if (strcmp(text, "-") == 0)
    return;
  size_t most = count_parts(text, ':') + count_parts(text, ';');
  s->choices = arena_array(p->arena, most, sizeof *s->choices);
  for (char *rule; (rule = cut(&text, ';'));) {
    int output = *rule == '*' ? -1 : parse_number(rule, &rule);
    rule = strchr(rule, '=');
    assert(rule);
    rule++;
    for (char *choice; (choice = cut(&rule, ':'));)
      s->choices[s->n_choices++] = parse_choice(output, choice);
  }
}

// The plain cases of the choices: an attribute, and what holds without it.
static void derive_type_attributes(struct parser *p, struct schema *s) {
  s->type_attributes = arena_array(p->arena, (size_t)s->n_choices, sizeof *s->type_attributes);
  int done = -1;  // the last output with one: Constant's other attributes hold other things
  for (int i = 0; i < s->n_choices; i++) {
    const struct type_choice *c = &s->choices[i];
    if (c->kind != CHOICE_ATTRIBUTE || c->wrap != WRAP_NONE || c->output <= done)
      continue;
    done = c->output;
    struct type_attribute *t = &s->type_attributes[s->n_type_attributes++];
    *t = (struct type_attribute){c->output, c->attribute, 0, -1};
    for (int k = i + 1; k < s->n_choices && s->choices[k].output == c->output; k++) {
      if (s->choices[k].kind == CHOICE_INPUT && t->default_input < 0)
        t->default_input = s->choices[k].input;
      if (s->choices[k].kind == CHOICE_TYPE)
        t->default_type = s->choices[k].type.elem_type;
    }
  }
}

static void parse_line(struct parser *p, struct schema *s, char *line) {
  char *columns[8];
  for (int i = 0; i < 8; i++) {
    columns[i] = cut(&line, '\t');
    assert(columns[i]);
  }
  assert(!line);
  s->domain = strcmp(columns[0], "ai.onnx") == 0 ? "" : columns[0];
  s->op = columns[1];
  s->since = parse_number(columns[2], &columns[2]);
  const char *flags = columns[3];
  s->deprecated = strchr(flags, 'd') != NULL;
  s->has_function = strchr(flags, 'f') != NULL;
  parse_vars(p, s, columns[4], count_parts(columns[5], ' ') + count_parts(columns[6], ' '));
  s->inputs = parse_formals(p, s, columns[5], &s->n_inputs);
  s->outputs = parse_formals(p, s, columns[6], &s->n_outputs);
  if (strchr(flags, 'h'))
    s->inputs[s->n_inputs - 1].heterogeneous = true;
  if (strchr(flags, 'H'))
    s->outputs[s->n_outputs - 1].heterogeneous = true;
  parse_choices(p, s, columns[7]);
  derive_type_attributes(p, s);
}

static int compare(const struct schema *s, const char *domain, const char *op, int since) {
  int order = strcmp(s->domain, domain);
  order = order ? order : strcmp(s->op, op);
  return order ? order : (s->since > since) - (s->since < since);
}

void schema_load(struct schema_table *t, struct arena *a) {
  const struct embedded *file = embedded_files;
  while (file->name && strcmp(file->name, "operators.tsv") != 0)
    file++;
  assert(file->name);
  struct parser p = {.arena = a, .lists = {.arena = a}};
  char *text = arena_alloc(a, file->size + 1);
  memcpy(text, file->text, file->size);
  *t = (struct schema_table){.arena = a};
  t->schemas = arena_array(a, count_parts(text, '\n'), sizeof *t->schemas);
  for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    *end = '\0';
    if (*line == '#' || !*line)
      continue;
    struct schema *s = &t->schemas[t->count++];
    parse_line(&p, s, line);
    assert(t->count == 1 || compare(s - 1, s->domain, s->op, s->since) < 0);
  }
}

// Index of the first schema that sorts after (domain, op, since).
static size_t upper_bound(const struct schema_table *t, const char *domain, const char *op,
                          int since) {
  size_t low = 0, high = t->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (compare(&t->schemas[middle], domain, op, since) <= 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const char *plain_domain(const char *domain) {
  return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

const struct schema *schema_find(const struct schema_table *t, const char *domain, const char *op,
                                 int opset) {
  domain = plain_domain(domain);
  size_t at = upper_bound(t, domain, op, opset);
  if (at == 0)
    return NULL;
  const struct schema *s = &t->schemas[at - 1];
  return strcmp(s->domain, domain) == 0 && strcmp(s->op, op) == 0 ? s : NULL;
}

const struct schema *schema_first_allowing(const struct schema_table *t, const char *domain,
                                           const char *op, int from, int elem_type) {
  domain = plain_domain(domain);
  for (size_t i = upper_bound(t, domain, op, from - 1); i < t->count; i++) {
    const struct schema *s = &t->schemas[i];
    if (strcmp(s->domain, domain) != 0 || strcmp(s->op, op) != 0)
      break;
    if (s->deprecated)
      continue;
    if ((s->n_inputs && schema_allows(s, s->inputs[0].var, elem_type)) ||
        (s->n_outputs && schema_allows(s, s->outputs[0].var, elem_type)))
      return s;
  }
  return NULL;
}

// All that there are up to opset 28, found by type inference over the bodies: Where took bfloat16
// in opset 16, NegativeLogLikelihoodLoss in opset 22; the body of MeanVarianceNormalization adds an
// fp32 constant to whatever it is given.
int schema_body_allows_from(const char *op, int elem_type) {
  enum { FLOAT16 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 };
  enum { BFLOAT16 = ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 };
  static const struct {
    const char *op;
    int elem_type, from;
  } gaps[] = {
      {"Clip", BFLOAT16, 16},
      {"MeanVarianceNormalization", BFLOAT16, 0},
      {"MeanVarianceNormalization", FLOAT16, 0},
      {"SoftmaxCrossEntropyLoss", BFLOAT16, 22},
  };
  for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++)
    if (gaps[i].elem_type == elem_type && strcmp(gaps[i].op, op) == 0)
      return gaps[i].from;
  return 1;
}

int schema_newest(const struct schema_table *t, const char *domain) {
  domain = plain_domain(domain);
  int newest = 0;
  for (size_t i = upper_bound(t, domain, "", 0); i < t->count; i++) {
    if (strcmp(t->schemas[i].domain, domain) != 0)
      break;
    newest = t->schemas[i].since > newest ? t->schemas[i].since : newest;
  }
  return newest;
}

static const struct formal *formal_at(const struct formal *formals, int count, int k) {
  assert(k >= 0);
  if (k < count)
    return &formals[k];
  return count && formals[count - 1].variadic ? &formals[count - 1] : NULL;
}

const struct formal *schema_input(const struct schema *s, int k) {
  return formal_at(s->inputs, s->n_inputs, k);
}

const struct formal *schema_output(const struct schema *s, int k) {
  return formal_at(s->outputs, s->n_outputs, k);
}

bool schema_allows(const struct schema *s, int var, int elem_type) {
  assert(var >= 0 && var < s->n_vars);
  return type_in_set(&s->vars[var].allowed, (struct type){TYPE_TENSOR, elem_type});
}
