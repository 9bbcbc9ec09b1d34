// Types as values: read from messages, compared, written for people; and the rules by which an
// output's type follows from an attribute, an input or a subgraph, as proto/operators.tsv states
// them.
#include "type_rules.h"

#include "graph_build.h"
#include "tensor.h"
#include "types.h"

#include <ctype.h>
#include <string.h>

bool elem_type_known(int elem_type) {
  return elem_type >= 1 && elem_type <= ELEM_TYPE_LAST;
}

bool type_equal(struct type a, struct type b) {
  return a.kind == b.kind && a.elem_type == b.elem_type;
}

static struct type of_kind(enum type_kind kind, int elem_type) {
  return elem_type_known(elem_type) ? (struct type){kind, elem_type} : (struct type){0};
}

static int tensor_elem_type(const Onnx__TypeProto *t) {
  return t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type
             ? t->tensor_type->elem_type
             : 0;
}

// A sequence's element is a tensor or a map.
static struct type sequence_type(const Onnx__TypeProto *element, enum type_kind of_tensors) {
  if (element && element->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE && element->map_type &&
      of_tensors == TYPE_SEQUENCE)
    return of_kind(TYPE_SEQUENCE_MAP, tensor_elem_type(element->map_type->value_type));
  return of_kind(of_tensors, tensor_elem_type(element));
}

struct type type_from_proto(const Onnx__TypeProto *t) {
  struct type unknown = {0};
  if (!t)
    return unknown;
  switch (t->value_case) {
  case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: return of_kind(TYPE_TENSOR, tensor_elem_type(t));
  case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
    return t->sequence_type ? sequence_type(t->sequence_type->elem_type, TYPE_SEQUENCE) : unknown;
  case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: {
    const Onnx__TypeProto *inside = t->optional_type ? t->optional_type->elem_type : NULL;
    if (inside && inside->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE &&
        inside->sequence_type)
      return sequence_type(inside->sequence_type->elem_type, TYPE_OPTIONAL_SEQUENCE);
    return of_kind(TYPE_OPTIONAL, tensor_elem_type(inside));
  }
  case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
    return t->map_type ? of_kind(TYPE_MAP, tensor_elem_type(t->map_type->value_type)) : unknown;
  case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
    return t->sparse_tensor_type ? of_kind(TYPE_SPARSE, t->sparse_tensor_type->elem_type) : unknown;
  default: return unknown;
  }
}

const char *type_text(struct type t, char text[TYPE_TEXT_SIZE]) {
  static const char *const forms[TYPE_KINDS] = {
      [TYPE_UNKNOWN] = "unknown",
      [TYPE_TENSOR] = "%s",
      [TYPE_SEQUENCE] = "seq(%s)",
      [TYPE_OPTIONAL] = "optional(%s)",
      [TYPE_OPTIONAL_SEQUENCE] = "optional(seq(%s))",
      [TYPE_MAP] = "map(%s)",
      [TYPE_SPARSE] = "sparse(%s)",
      [TYPE_SEQUENCE_MAP] = "seq(map(%s))",
  };
  const char *form = forms[t.kind], *name = strstr(form, "%s");
  snprintf(text, TYPE_TEXT_SIZE, "%.*s%s%s", name ? (int)(name - form) : TYPE_TEXT_SIZE, form,
           name ? tensor_type_name(t.elem_type) : "", name ? name + 2 : "");
  return text;
}

// ---- attributes ----

// "float16", in any case, as DataType spells it.
static int elem_type_by_name(const char *name, size_t length) {
  for (int e = 1; e <= ELEM_TYPE_LAST; e++) {
    const char *is = tensor_type_name(e);
    size_t i = 0;
    while (i < length && is[i] && tolower((unsigned char)name[i]) == tolower((unsigned char)is[i]))
      i++;
    if (i == length && !is[i])
      return e;
  }
  return 0;
}

struct type rule_attribute_type(const Onnx__AttributeProto *a) {
  if (a->t)
    return of_kind(TYPE_TENSOR, a->t->data_type);
  if (a->sparse_tensor && a->sparse_tensor->values)
    return of_kind(TYPE_TENSOR, a->sparse_tensor->values->data_type);
  if (a->tp)
    return type_from_proto(a->tp);
  if (a->s.len)
    return of_kind(TYPE_TENSOR, elem_type_by_name((const char *)a->s.data, a->s.len));
  return a->i > 0 && a->i <= ELEM_TYPE_LAST ? of_kind(TYPE_TENSOR, (int)a->i) : (struct type){0};
}

static bool is_list(const Onnx__AttributeProto *a) {
  return a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS ||
         a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS ||
         a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
}

// Whether the attribute is `value`, a number or a word; NULL: whether it is there and no empty
// list. Constant's value_floats may be empty and counts all the same.
static bool attribute_is(const Onnx__AttributeProto *a, const char *value) {
  if (!value)
    return !is_list(a) || a->n_ints || a->n_floats || a->n_strings ||
           strncmp(text_of(a->name), "value_", 6) == 0;
  char number[32];
  snprintf(number, sizeof number, "%lld", (long long)a->i);
  return strcmp(number, value) == 0 ||
         (a->s.len == strlen(value) && memcmp(a->s.data, value, a->s.len) == 0);
}

// The attribute of that name, absent (Cast's `to`) or default (MurmurHash3's `positive`).
bool rule_reads(const struct schema *s, const char *attribute) {
  for (int i = 0; i < s->n_choices; i++)
    if (s->choices[i].attribute && s->choices[i].kind != CHOICE_GRAPH &&
        strcmp(s->choices[i].attribute, attribute) == 0)
      return true;
  return false;
}

// ---- choices ----

static struct type wrap(enum choice_wrap how, struct type t) {
  switch (how) {
  case WRAP_NONE: break;
  case WRAP_SEQUENCE: t.kind = t.kind == TYPE_TENSOR ? TYPE_SEQUENCE : TYPE_UNKNOWN; break;
  case WRAP_OPTIONAL:
    t.kind = t.kind == TYPE_TENSOR     ? TYPE_OPTIONAL
             : t.kind == TYPE_SEQUENCE ? TYPE_OPTIONAL_SEQUENCE
                                       : TYPE_UNKNOWN;
    break;
  case WRAP_ELEMENT:
    t.kind = t.kind == TYPE_SEQUENCE || t.kind == TYPE_MAP ? TYPE_TENSOR : TYPE_UNKNOWN;
    break;
  case WRAP_UNOPTIONAL:
    t.kind = t.kind == TYPE_OPTIONAL            ? TYPE_TENSOR
             : t.kind == TYPE_OPTIONAL_SEQUENCE ? TYPE_SEQUENCE
                                                : t.kind;
    break;
  }
  return t.kind == TYPE_UNKNOWN ? (struct type){0} : t;
}

// Output k of the graph in that attribute; of the next graph where that one's type is not known
// (an If whose first branch cannot tell).
static struct type graph_output(const struct rule_context *c, const char *attribute, int k) {
  const struct node *n = &c->g->nodes[c->node];
  struct type found = {0};
  const Onnx__AttributeProto *a = node_attribute(n->proto, attribute);
  for (int pass = 0; pass < 2 && found.kind == TYPE_UNKNOWN; pass++)
    for (int i = 0; i < n->n_bodies && found.kind == TYPE_UNKNOWN; i++) {
      const struct scope *s = &c->g->scopes[n->bodies[i]];
      bool is_named = a && s->graph == a->g;
      if (is_named == (pass == 0) && k < s->n_outputs && s->outputs[k] >= 0)
        found = c->g->values[s->outputs[k]].type;
    }
  return found;
}

static int input_of(const struct rule_context *c, const struct type_choice *choice, int k) {
  const struct node *n = &c->g->nodes[c->node];
  int input = choice->input + (choice->per_output ? k : 0);
  return input < n->n_inputs ? n->inputs[input] : -1;
}

// True if the choice applies; its type in *t (which may be unknown).
static bool choose(const struct rule_context *c, const struct type_choice *choice, int k,
                   struct type *t) {
  const struct node *n = &c->g->nodes[c->node];
  const Onnx__AttributeProto *a;
  bool open = false;
  int v;
  *t = (struct type){0};
  switch (choice->kind) {
  case CHOICE_TYPE: *t = choice->type; return true;
  case CHOICE_INPUT:
    v = input_of(c, choice, k);
    if (v >= 0)
      *t = c->g->values[v].type;
    return v >= 0;
  case CHOICE_ATTRIBUTE:
    a = c->attribute(c->context, n->proto, choice->attribute, &open);
    if (a)
      *t = rule_attribute_type(a);
    // 0 stands for "not given"; a type that this program does not know is no reason to go on.
    return open || (a && (a->i != 0 || t->kind != TYPE_UNKNOWN));
  case CHOICE_IF_ATTRIBUTE:
    a = c->attribute(c->context, n->proto, choice->attribute, &open);
    if (open)
      return true;
    if (a ? !attribute_is(a, choice->value) : true)
      return false;
    *t = choice->type;
    return true;
  case CHOICE_IF_INPUT:
    v = input_of(c, choice, k);
    if (v < 0 || c->g->values[v].type.kind == TYPE_UNKNOWN)
      return v >= 0;
    if (!type_equal(c->g->values[v].type, choice->test))
      return false;
    *t = choice->type;
    return true;
  case CHOICE_GRAPH: *t = graph_output(c, choice->attribute, choice->input + k); return true;
  case CHOICE_DECLARED:
    v = n->outputs[k];
    // Inside a function, what is declared holds for one of its calls only.
    if (v >= 0 && c->g->scopes[c->g->scopes[n->scope].root].kind != SCOPE_FUNCTION)
      *t = c->g->values[v].declared;
    return t->kind != TYPE_UNKNOWN;
  }
  return false;
}

struct type rule_output_type(const struct rule_context *c, int k) {
  const struct schema *s = c->g->nodes[c->node].schema;
  for (int i = 0; i < s->n_choices; i++) {
    struct type t;
    if ((s->choices[i].output == k || s->choices[i].output < 0) && choose(c, &s->choices[i], k, &t))
      return wrap(s->choices[i].wrap, t);
  }
  return (struct type){0};
}
