// Infers the element type of every value. Scopes are walked in the order of graph_sort; a subgraph
// is inferred when its node is reached, a function's body when it is called. For each node the
// schema's type variables are bound to the types of its inputs, which gives most outputs; the rest
// follow from attributes, subgraphs or fixed types (type_rules.c).
//
// Functions: a body is inferred once per signature, that is per combination of argument types and
// of those attributes that can decide a type, and the outputs are remembered, so that functions
// which call functions cost no more than (signatures x body). Where two calls give a value of the
// body different types, the function is polymorphic and its values have no type.
#include "types.h"

#include "graph_build.h"
#include "type_rules.h"
#include "units.h"

#include <assert.h>
#include <string.h>

enum {
  SIGNATURES_MAX = 64,  // per function
  REFERENCES_MAX = 64,  // attributes of a function that can decide a type
  DEPTH_MAX = 500       // subgraphs and calls inside each other
};

// One signature of a function and what it gives.
struct call {
  struct type *inputs;
  bool *given;                              // by input: the call passes something for it
  const Onnx__AttributeProto **attributes;  // by reference
  struct type *outputs;
};

struct function {
  int scope;
  int end_scope, first_node, end_node, first_value, end_value;  // of it and all graphs within
  const char **references;  // names of its attributes that can decide a type
  int n_references;
  size_t capacity_references;
  struct call *calls;
  int n_calls;
  size_t capacity_calls;
  struct type *merged;           // of its values over all calls, from the second one on
  uint64_t n_unfolded;           // see struct graph
  bool polymorphic, overflowed;  // overflowed: had more signatures than are followed
};

struct inference {
  struct graph *g;
  struct diag *d;
  struct function *functions;  // in file order
  int n_functions;
  int *function_of;  // by scope: index into functions, for a function's own scope
  const struct function *current;
  const struct call *call;  // that is being inferred, of `current`
  int depth;
  struct type *bound;   // by type variable, for the node at hand
  struct type *inputs;  // of the call at hand
  bool *given;          // likewise
  size_t capacity_bound, capacity_inputs, capacity_given;
  int wrong_value_infos, first_wrong_value_info;
};

static enum status fail_value(struct inference *in, int node, int value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static enum status fail_value(struct inference *in, int node, int value, const char *format, ...) {
  char text[sizeof in->d->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  diag_at(in->d, NULL, node >= 0 ? graph_node_label(in->g, node) : NULL,
          value >= 0 ? graph_value_label(in->g, value) : NULL);
  return diag_fail(in->d, STATUS_MODEL, "%s", text);
}

static enum status infer_scope(struct inference *in, int scope);

// ---- attributes ----

static const Onnx__AttributeProto *function_default(const Onnx__FunctionProto *f,
                                                    const char *name) {
  for (size_t i = 0; i < f->n_attribute_proto; i++)
    if (strcmp(text_of(f->attribute_proto[i]->name), name) == 0)
      return f->attribute_proto[i];
  return NULL;
}

// A node's attribute, taken from the call that is being inferred where it refers to one. *open is
// set if that cannot be told.
static const Onnx__AttributeProto *find_attribute(void *context, const Onnx__NodeProto *node,
                                                  const char *name, bool *open) {
  const struct inference *in = context;
  const Onnx__AttributeProto *a = node_attribute(node, name);
  if (!a || !*text_of(a->ref_attr_name))
    return a;
  for (int i = 0; in->current && in->call->attributes && i < in->current->n_references; i++)
    if (strcmp(in->current->references[i], a->ref_attr_name) == 0)
      return in->call->attributes[i];
  *open = true;
  return NULL;
}

// ---- subgraphs ----

// What a node of a known kind hands to input `k` of a body of its; TYPE_UNKNOWN: the body's own
// declaration counts. `expected` is how many inputs the body has for the node's own.
static struct type body_input(const struct graph *g, const struct node *n, int k, int *expected) {
  const struct type iteration = {TYPE_TENSOR, ONNX__TENSOR_PROTO__DATA_TYPE__INT64};
  const struct type condition = {TYPE_TENSOR, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL};
  struct type unknown = {0};
  *expected = -1;
  if (!n->schema)
    return unknown;
  int from = k;
  bool elements = false;
  if (node_is(n, "Loop")) {
    *expected = n->n_inputs < 2 ? 2 : n->n_inputs;
    if (k < 2)
      return k == 0 ? iteration : condition;
  } else if (node_is(n, "Scan")) {
    from = n->schema->since < 9 ? k + 1 : k;
    *expected = n->n_inputs - (from - k);
  } else if (node_is(n, "SequenceMap")) {
    *expected = n->n_inputs;
    elements = true;
  } else {
    return unknown;
  }
  if (from >= n->n_inputs || n->inputs[from] < 0)
    return unknown;
  struct type t = g->values[n->inputs[from]].type;
  if (elements && t.kind == TYPE_SEQUENCE)
    t.kind = TYPE_TENSOR;
  return t;
}

// A formal's type: what the node hands in, what is declared, what its default holds.
static enum status set_formal(struct inference *in, int node, int value, struct type given) {
  struct value *v = &in->g->values[value];
  struct type stored = {0};
  char a[TYPE_TEXT_SIZE], b[TYPE_TEXT_SIZE];
  if (v->initializer)
    stored = (struct type){TYPE_TENSOR, v->initializer->data_type};
  if (given.kind == TYPE_UNKNOWN)
    given = v->declared.kind != TYPE_UNKNOWN ? v->declared : stored;
  if (v->declared.kind != TYPE_UNKNOWN && !type_equal(given, v->declared))
    return fail_value(in, node, value, "is declared %s but gets %s", type_text(v->declared, a),
                      type_text(given, b));
  if (stored.kind != TYPE_UNKNOWN && !type_equal(given, stored))
    return fail_value(in, node, value, "is declared %s but its initializer holds %s",
                      type_text(given, a), type_text(stored, b));
  v->type = given;
  return STATUS_OK;
}

static enum status set_body_inputs(struct inference *in, int node, int body) {
  const struct graph *g = in->g;
  const struct scope *s = &g->scopes[body];
  int expected, required = 0;
  body_input(g, &g->nodes[node], 0, &expected);
  for (int i = 0; i < s->n_inputs; i++)
    required += !g->values[s->inputs[i]].initializer;
  // Old files list initializers among the inputs; such ones are then no part of the interface.
  bool skip = required == expected && required != s->n_inputs;
  for (int i = 0, k = 0; i < s->n_inputs; i++) {
    struct type given = {0};
    int unused;
    if (!skip || !g->values[s->inputs[i]].initializer)
      given = body_input(g, &g->nodes[node], k++, &unused);
    TRY(set_formal(in, node, s->inputs[i], given));
  }
  return STATUS_OK;
}

static enum status infer_bodies(struct inference *in, int node) {
  for (int i = 0; i < in->g->nodes[node].n_bodies; i++) {
    TRY(set_body_inputs(in, node, in->g->nodes[node].bodies[i]));
    TRY(infer_scope(in, in->g->nodes[node].bodies[i]));
  }
  return STATUS_OK;
}

static struct type output_type(const struct graph *g, int scope, int k) {
  const struct scope *s = &g->scopes[scope];
  struct type unknown = {0};
  return k >= 0 && k < s->n_outputs && s->outputs[k] >= 0 ? g->values[s->outputs[k]].type : unknown;
}

// Both branches of an If give the same types.
static enum status check_if(struct inference *in, int node) {
  const struct node *n = &in->g->nodes[node];
  char a[TYPE_TEXT_SIZE], b[TYPE_TEXT_SIZE];
  if (n->n_bodies != 2)
    return STATUS_OK;
  for (int i = 0; i < n->n_outputs; i++) {
    struct type first = output_type(in->g, n->bodies[0], i);
    struct type second = output_type(in->g, n->bodies[1], i);
    if (first.kind != TYPE_UNKNOWN && second.kind != TYPE_UNKNOWN && !type_equal(first, second))
      return fail_value(in, node, n->outputs[i], "is %s in one branch and %s in the other",
                        type_text(first, a), type_text(second, b));
  }
  return STATUS_OK;
}

// What an optional holds; any other type as it is.
static struct type without_optional(struct type t) {
  if (t.kind == TYPE_OPTIONAL)
    t.kind = TYPE_TENSOR;
  if (t.kind == TYPE_OPTIONAL_SEQUENCE)
    t.kind = TYPE_SEQUENCE;
  return t;
}

// A loop's state keeps its type (but may start as an optional): input `first + k` of the node
// against output `out + k` of the body.
static enum status check_state(struct inference *in, int node, int first, int count, int out) {
  const struct node *n = &in->g->nodes[node];
  char a[TYPE_TEXT_SIZE], b[TYPE_TEXT_SIZE];
  for (int k = 0; k < count && first + k < n->n_inputs; k++) {
    if (n->inputs[first + k] < 0)
      continue;
    struct type before = in->g->values[n->inputs[first + k]].type;
    struct type after = output_type(in->g, n->bodies[0], out + k);
    if (before.kind != TYPE_UNKNOWN && after.kind != TYPE_UNKNOWN &&
        !type_equal(without_optional(before), without_optional(after)))
      return fail_value(in, node, n->inputs[first + k],
                        "is loop state that starts as %s and is %s after an iteration",
                        type_text(before, a), type_text(after, b));
  }
  return STATUS_OK;
}

static enum status check_bodies(struct inference *in, int node) {
  const struct node *n = &in->g->nodes[node];
  if (n->n_bodies == 0 || !n->schema)
    return STATUS_OK;
  if (node_is(n, "If"))
    return check_if(in, node);
  if (node_is(n, "Loop"))
    return check_state(in, node, 2, n->n_inputs - 2, 1);
  if (node_is(n, "Scan")) {
    bool open = false;
    const Onnx__AttributeProto *scans = find_attribute(in, n->proto, "num_scan_inputs", &open);
    int first = n->schema->since < 9 ? 1 : 0;
    if (scans && scans->i >= 0 && scans->i <= n->n_inputs - first)
      return check_state(in, node, first, n->n_inputs - first - (int)scans->i, 0);
  }
  return STATUS_OK;
}

// ---- functions ----

static bool type_attributes_equal(const Onnx__AttributeProto *a, const Onnx__AttributeProto *b) {
  if (a == b || !a || !b)
    return a == b;
  bool same_string = a->s.len == b->s.len && (!a->s.len || !memcmp(a->s.data, b->s.data, a->s.len));
  bool same_emptiness =
      !a->n_ints == !b->n_ints && !a->n_floats == !b->n_floats && !a->n_strings == !b->n_strings;
  return a->i == b->i && same_string && same_emptiness &&
         type_equal(rule_attribute_type(a), rule_attribute_type(b));
}

static bool same_signature(const struct function *f, int n_inputs, const struct call *a,
                           const struct call *b) {
  for (int i = 0; i < n_inputs; i++)
    if (a->inputs[i].kind != b->inputs[i].kind ||
        a->inputs[i].elem_type != b->inputs[i].elem_type || a->given[i] != b->given[i])
      return false;
  for (int i = 0; i < f->n_references; i++)
    if (!type_attributes_equal(a->attributes[i], b->attributes[i]))
      return false;
  return true;
}

// Values keep a type that all calls agree on; a call that cannot tell does not disagree.
static void merge_types(struct inference *in, struct function *f) {
  struct value *values = in->g->values + f->first_value;
  size_t count = (size_t)(f->end_value - f->first_value);
  if (!f->merged) {
    f->merged = arena_array(in->g->arena, count, sizeof *f->merged);
    for (size_t i = 0; i < count; i++)
      f->merged[i] = values[i].type;
    return;
  }
  for (size_t i = 0; i < count; i++) {
    if (f->merged[i].kind == TYPE_UNKNOWN)
      f->merged[i] = values[i].type;
    else if (values[i].type.kind != TYPE_UNKNOWN && !type_equal(f->merged[i], values[i].type))
      f->polymorphic = true;
  }
}

// Infers the body for one signature; given and attributes NULL: nothing is known of the call.
static enum status infer_body(struct inference *in, struct function *f, struct call *call) {
  const struct function *outer = in->current;
  const struct call *outer_call = in->call;
  in->current = f;
  in->call = call;
  const struct scope *s = &in->g->scopes[f->scope];
  for (int i = 0; i < s->n_inputs; i++)
    in->g->values[s->inputs[i]].type = call->inputs[i];
  enum status status = infer_scope(in, f->scope);
  in->current = outer;
  in->call = outer_call;
  TRY(status);
  call->outputs = arena_array(in->g->arena, (size_t)s->n_outputs, sizeof *call->outputs);
  for (int i = 0; i < s->n_outputs; i++)
    call->outputs[i] = output_type(in->g, f->scope, i);
  merge_types(in, f);
  return STATUS_OK;
}

// The remembered call of that signature; a new one is added with outputs NULL. NULL: too many.
static struct call *find_call(struct inference *in, struct function *f, const struct call *wanted) {
  struct arena *a = in->g->arena;
  int n_inputs = in->g->scopes[f->scope].n_inputs;
  for (int i = 0; i < f->n_calls; i++)
    if (same_signature(f, n_inputs, &f->calls[i], wanted))
      return &f->calls[i];
  if (f->n_calls == SIGNATURES_MAX) {
    if (!f->overflowed)
      diag_warn(in->d, "%s is called with more than %d combinations of types",
                in->g->scopes[f->scope].path, SIGNATURES_MAX);
    f->polymorphic = f->overflowed = true;
    return NULL;
  }
  f->calls = arena_grow(a, f->calls, &f->capacity_calls, (size_t)f->n_calls + 1, sizeof *f->calls);
  struct call *call = &f->calls[f->n_calls++];
  *call = (struct call){
      .inputs = arena_array(a, (size_t)n_inputs, sizeof *call->inputs),
      .given = arena_array(a, (size_t)n_inputs, sizeof *call->given),
      .attributes = arena_array(a, (size_t)f->n_references, sizeof(void *)),
  };
  for (int i = 0; i < n_inputs; i++) {
    call->inputs[i] = wanted->inputs[i];
    call->given[i] = wanted->given[i];
  }
  for (int i = 0; i < f->n_references; i++)
    call->attributes[i] = wanted->attributes[i];
  return call;
}

// Input k of the node is there: not empty, and no input of the function that the call leaves out.
static bool is_present(const struct inference *in, const struct node *n, int k) {
  if (k >= n->n_inputs || n->inputs[k] < 0)
    return false;
  const struct value *v = &in->g->values[n->inputs[k]];
  bool formal = in->current && v->scope == in->current->scope && v->origin == ORIGIN_FORMAL;
  return !formal || !in->call->given || in->call->given[v->output];
}

// A call's arguments, in buffers that the next call reuses.
static struct call read_arguments(struct inference *in, const struct node *n, int n_formals) {
  struct arena *a = in->g->arena;
  size_t count = (size_t)n_formals;
  in->inputs = arena_grow(a, in->inputs, &in->capacity_inputs, count, sizeof *in->inputs);
  in->given = arena_grow(a, in->given, &in->capacity_given, count, sizeof *in->given);
  for (int i = 0; i < n_formals; i++) {
    in->given[i] = is_present(in, n, i);
    in->inputs[i] = in->given[i] ? in->g->values[n->inputs[i]].type : (struct type){0};
  }
  return (struct call){.inputs = in->inputs, .given = in->given};
}

static enum status infer_call(struct inference *in, int node) {
  const struct graph *g = in->g;
  const struct node *n = &g->nodes[node];
  struct function *f = &in->functions[in->function_of[n->function]];
  const struct scope *s = &g->scopes[f->scope];
  if (n->n_inputs > s->n_inputs || n->n_outputs > s->n_outputs)
    return fail_value(in, node, -1, "%s has %d inputs and %d outputs, but the call has %d and %d",
                      s->path, s->n_inputs, s->n_outputs, n->n_inputs, n->n_outputs);
  const Onnx__AttributeProto *attributes[REFERENCES_MAX];
  struct call wanted = read_arguments(in, n, s->n_inputs);
  wanted.attributes = attributes;
  for (int i = 0; i < f->n_references; i++) {
    bool open = false;
    wanted.attributes[i] = find_attribute(in, n->proto, f->references[i], &open);
    if (!wanted.attributes[i] && !open)
      wanted.attributes[i] = function_default(s->function, f->references[i]);
  }
  struct call *call = find_call(in, f, &wanted);
  if (call && !call->outputs)
    TRY(infer_body(in, f, call));
  for (int i = 0; i < n->n_outputs; i++)
    if (n->outputs[i] >= 0)
      g->values[n->outputs[i]].type = call ? call->outputs[i] : (struct type){0};
  return STATUS_OK;
}

// ---- nodes ----

static const char *set_text(const struct type_set *set, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (int kind = TYPE_TENSOR; kind < TYPE_KINDS; kind++)
    for (int e = 1; e <= ELEM_TYPE_LAST; e++) {
      struct type t = {(enum type_kind)kind, e};
      char one[TYPE_TEXT_SIZE];
      if (!type_in_set(set, t))
        continue;
      int length = snprintf(text + used, size - used, "%s%s", used ? ", " : "", type_text(t, one));
      if (length < 0 || (size_t)length >= size - used) {
        snprintf(text + size - 4, 4, "...");
        return text;
      }
      used += (size_t)length;
    }
  return text;
}

static enum status refuse_type(struct inference *in, int node, const char *side, int k, int value,
                               const struct formal *formal) {
  const struct schema *s = in->g->nodes[node].schema;
  char is[TYPE_TEXT_SIZE], allowed[400];
  diag_hint(in->d, "The model is invalid; check the export, or the opset it declares.");
  return fail_value(in, node, value, "%s %d (%s) of %s is %s; since opset %d it may be %s", side, k,
                    formal->name, s->op, type_text(in->g->values[value].type, is), s->since,
                    set_text(&s->vars[formal->var].allowed, allowed, sizeof allowed));
}

static enum status check_arity(struct inference *in, int node) {
  const struct node *n = &in->g->nodes[node];
  if (n->n_inputs == 0 && n->n_outputs == 0)
    return STATUS_OK;  // does nothing, and engines let it stand
  for (int k = 0; k < n->n_inputs || k < n->schema->n_inputs; k++) {
    const struct formal *f = schema_input(n->schema, k);
    bool named = k < n->n_inputs && n->inputs[k] >= 0, present = is_present(in, n, k);
    if (!f && named)
      return fail_value(in, node, n->inputs[k], "is input %d of %s, which takes at most %d", k,
                        n->schema->op, n->schema->n_inputs);
    if (f && !present && named && !f->optional && !f->variadic)
      return fail_value(in, node, n->inputs[k],
                        "is input %d (%s) of %s, and a call of the function leaves it out", k,
                        f->name, n->schema->op);
    if (f && !present && !f->optional && !f->variadic)
      return fail_value(in, node, -1, "input %d (%s) of %s is missing", k, f->name, n->schema->op);
  }
  for (int k = n->schema->n_outputs; k < n->n_outputs; k++)
    if (!schema_output(n->schema, k) && n->outputs[k] >= 0)
      return fail_value(in, node, n->outputs[k], "is output %d of %s, which has at most %d", k,
                        n->schema->op, n->schema->n_outputs);
  return STATUS_OK;
}

// Binds the schema's type variables to the types of the inputs.
static enum status bind_inputs(struct inference *in, int node, struct type *bound) {
  const struct node *n = &in->g->nodes[node];
  char a[TYPE_TEXT_SIZE], b[TYPE_TEXT_SIZE];
  for (int k = 0; k < n->n_inputs; k++) {
    if (n->inputs[k] < 0)
      continue;
    const struct formal *f = schema_input(n->schema, k);
    struct type t = in->g->values[n->inputs[k]].type;
    if (t.kind == TYPE_UNKNOWN)
      continue;
    if (!type_in_set(&n->schema->vars[f->var].allowed, t))
      return refuse_type(in, node, "input", k, n->inputs[k], f);
    if (f->heterogeneous)
      continue;
    if (bound[f->var].kind == TYPE_UNKNOWN)
      bound[f->var] = t;
    if (!type_equal(bound[f->var], t))
      return fail_value(in, node, n->inputs[k],
                        "input %d (%s) of %s is %s, but must be %s as before it", k, f->name,
                        n->schema->op, type_text(t, a), type_text(bound[f->var], b));
  }
  return STATUS_OK;
}

static enum status infer_outputs(struct inference *in, int node, const struct type *bound) {
  struct graph *g = in->g;
  const struct node *n = &g->nodes[node];
  const struct rule_context context = {g, node, find_attribute, in};
  for (int k = 0; k < n->n_outputs; k++) {
    const struct formal *f = schema_output(n->schema, k);
    if (n->outputs[k] < 0)
      continue;
    struct type t = rule_output_type(&context, k);
    if (t.kind == TYPE_UNKNOWN && !f->heterogeneous)
      t = bound[f->var];
    if (t.kind == TYPE_UNKNOWN)
      t = n->schema->vars[f->var].only;
    g->values[n->outputs[k]].type = t;
    // Constants of any type are about in every opset, and engines take them as initializers.
    if (t.kind != TYPE_UNKNOWN && !type_in_set(&n->schema->vars[f->var].allowed, t) &&
        !node_is(n, "Constant"))
      return refuse_type(in, node, "output", k, n->outputs[k], f);
  }
  return STATUS_OK;
}

static enum status infer_schema(struct inference *in, int node) {
  size_t n_vars = (size_t)in->g->nodes[node].schema->n_vars;
  TRY(check_arity(in, node));
  in->bound = arena_grow(in->g->arena, in->bound, &in->capacity_bound, n_vars, sizeof *in->bound);
  for (size_t i = 0; i < n_vars; i++)
    in->bound[i] = (struct type){0};
  TRY(bind_inputs(in, node, in->bound));
  return infer_outputs(in, node, in->bound);
}

// Where inference cannot tell, the declaration counts; where both can, inference does. Not in
// functions: what is declared there holds for one of its calls only.
static void use_declared(struct inference *in, int value) {
  struct value *v = &in->g->values[value];
  if (in->g->scopes[in->g->scopes[v->scope].root].kind == SCOPE_FUNCTION)
    return;
  if (v->type.kind == TYPE_UNKNOWN)
    v->type = v->declared;
  if (v->is_output || v->declared.kind == TYPE_UNKNOWN || type_equal(v->type, v->declared))
    return;
  if (in->wrong_value_infos++ == 0)
    in->first_wrong_value_info = value;
}

static enum status infer_node(struct inference *in, int node) {
  const struct node *n = &in->g->nodes[node];
  TRY(infer_bodies(in, node));
  TRY(check_bodies(in, node));
  for (int k = 0; k < n->n_outputs; k++)
    if (n->outputs[k] >= 0)
      in->g->values[n->outputs[k]].type = (struct type){0};
  if (n->function >= 0)
    TRY(infer_call(in, node));
  else if (n->schema)
    TRY(infer_schema(in, node));
  for (int k = 0; k < n->n_outputs; k++)
    if (n->outputs[k] >= 0)
      use_declared(in, n->outputs[k]);
  return STATUS_OK;
}

static bool is_stored(const struct graph *g, int value) {
  const struct value *v = &g->values[value];
  return v->origin == ORIGIN_INITIALIZER || v->origin == ORIGIN_SPARSE ||
         (v->producer >= 0 && node_is(&g->nodes[v->producer], "Constant"));
}

// A declared output must be what is inferred. For a constant, ONNX Runtime does not look at the
// declaration, and models that have it wrong are about.
static enum status check_outputs(struct inference *in, int scope) {
  const struct scope *s = &in->g->scopes[scope];
  char a[TYPE_TEXT_SIZE], b[TYPE_TEXT_SIZE];
  for (int i = 0; s->graph && i < s->n_outputs; i++) {
    struct type declared = type_from_proto(s->graph->output[i]->type);
    if (s->outputs[i] < 0 || declared.kind == TYPE_UNKNOWN)
      continue;
    struct type is = in->g->values[s->outputs[i]].type;
    if (is.kind == TYPE_UNKNOWN || type_equal(is, declared))
      continue;
    if (is_stored(in->g, s->outputs[i]))
      diag_warn(in->d, "output %s is declared %s but is the constant of type %s",
                graph_value_label(in->g, s->outputs[i]), type_text(declared, a), type_text(is, b));
    else
      return fail_value(in, in->g->values[s->outputs[i]].producer, s->outputs[i],
                        "the output is declared %s but is %s", type_text(declared, a),
                        type_text(is, b));
  }
  return STATUS_OK;
}

static enum status infer_scope(struct inference *in, int scope) {
  if (in->depth >= DEPTH_MAX)
    return diag_fail(in->d, STATUS_MODEL, "subgraphs and function calls nest more than %d deep",
                     DEPTH_MAX);
  in->depth++;
  const struct scope *s = &in->g->scopes[scope];
  for (int i = 0; i < s->n_nodes; i++)
    TRY(infer_node(in, s->order[i]));
  in->depth--;
  return check_outputs(in, scope);
}

// ---- before and after ----

// Functions lie one after the other behind the main graph, each with the graphs within.
static void find_functions(struct inference *in) {
  struct graph *g = in->g;
  in->function_of = arena_array(g->arena, (size_t)g->n_scopes, sizeof *in->function_of);
  in->functions = arena_array(g->arena, (size_t)g->n_scopes, sizeof *in->functions);
  int node = 0, value = 0;
  for (int s = 0; s < g->n_scopes;) {
    int root = s, first_node = node, first_value = value;
    while (s < g->n_scopes && g->scopes[s].root == root)
      s++;
    while (node < g->n_nodes && g->scopes[g->nodes[node].scope].root == root)
      node++;
    while (value < g->n_values && g->scopes[g->values[value].scope].root == root)
      value++;
    if (g->scopes[root].kind != SCOPE_FUNCTION)
      continue;
    in->function_of[root] = in->n_functions;
    in->functions[in->n_functions++] = (struct function){.scope = root,
                                                         .end_scope = s,
                                                         .first_node = first_node,
                                                         .end_node = node,
                                                         .first_value = first_value,
                                                         .end_value = value};
  }
}

static enum status add_reference(struct inference *in, struct function *f, const char *name) {
  for (int i = 0; i < f->n_references; i++)
    if (strcmp(f->references[i], name) == 0)
      return STATUS_OK;
  if (f->n_references == REFERENCES_MAX)
    return diag_fail(in->d, STATUS_MODEL, "%s has more than %d attributes that decide types",
                     in->g->scopes[f->scope].path, REFERENCES_MAX);
  f->references = arena_grow(in->g->arena, f->references, &f->capacity_references,
                             (size_t)f->n_references + 1, sizeof *f->references);
  f->references[f->n_references++] = name;
  return STATUS_OK;
}

// Notes which of the function's attributes can decide a type: those that a rule reads, here or in a
// function called (which has been visited before).
static enum status find_references(struct inference *in, struct function *f) {
  for (int i = f->first_node; i < f->end_node; i++) {
    const struct node *n = &in->g->nodes[i];
    for (size_t k = 0; k < n->proto->n_attribute; k++) {
      const Onnx__AttributeProto *a = n->proto->attribute[k];
      bool decides = false;
      if (!*text_of(a->ref_attr_name))
        continue;
      if (n->schema)
        decides = rule_reads(n->schema, text_of(a->name));
      if (n->function >= 0) {
        const struct function *callee = &in->functions[in->function_of[n->function]];
        for (int r = 0; r < callee->n_references; r++)
          decides |= strcmp(callee->references[r], text_of(a->name)) == 0;
      }
      if (decides)
        TRY(add_reference(in, f, a->ref_attr_name));
    }
  }
  return STATUS_OK;
}

// Nodes from first to end, and those of what they call, once for each call.
static uint64_t count_unfolded(const struct inference *in, int first, int end) {
  uint64_t sum = 0;
  for (int i = first; i < end; i++) {
    int callee = in->g->nodes[i].function;
    uint64_t nodes = callee < 0 ? 1 : in->functions[in->function_of[callee]].n_unfolded;
    sum = nodes < UINT64_MAX - sum ? sum + nodes : UINT64_MAX;
  }
  return sum;
}

// Visits the functions, callees first, and refuses recursion. No recursion of its own: a chain of
// calls may be as long as the file.
static enum status visit_functions(struct inference *in, struct arena *scratch) {
  enum { NEW, OPEN, DONE };
  size_t count = (size_t)in->n_functions;
  unsigned char *state = arena_array(scratch, count, sizeof *state);
  int *next = arena_array(scratch, count, sizeof *next);
  int *stack = arena_array(scratch, count, sizeof *stack);
  for (int start = 0; start < in->n_functions; start++) {
    int depth = 0;
    if (state[start] == NEW)
      stack[depth++] = start;
    while (depth) {
      int i = stack[depth - 1];
      struct function *f = &in->functions[i];
      if (state[i] == NEW)
        next[i] = f->first_node;
      state[i] = OPEN;
      while (next[i] < f->end_node && in->g->nodes[next[i]].function < 0)
        next[i]++;
      if (next[i] == f->end_node) {
        TRY(find_references(in, f));
        f->n_unfolded = count_unfolded(in, f->first_node, f->end_node);
        state[i] = DONE;
        depth--;
        continue;
      }
      int node = next[i]++, callee = in->function_of[in->g->nodes[node].function];
      if (state[callee] == OPEN)
        return fail_value(in, node, -1, "%s calls itself, directly or through others",
                          in->g->scopes[in->functions[callee].scope].path);
      if (state[callee] == NEW)
        stack[depth++] = callee;
    }
  }
  return STATUS_OK;
}

// A function that nobody calls gets the types that need no arguments; faults in it hurt nobody.
static void infer_uncalled(struct inference *in, struct function *f) {
  struct diag *d = in->d, ignored = {0};
  struct call call = {
      .inputs =
          arena_array(in->g->arena, (size_t)in->g->scopes[f->scope].n_inputs, sizeof *call.inputs),
  };
  in->d = &ignored;
  in->depth = 0;
  (void)infer_body(in, f, &call);
  in->d = d;
}

static void finish_function(struct inference *in, struct function *f) {
  struct graph *g = in->g;
  for (int i = f->first_value; i < f->end_value && f->merged; i++)
    g->values[i].type = f->polymorphic ? (struct type){0} : f->merged[i - f->first_value];
  for (int s = f->scope; s < f->end_scope; s++)
    g->scopes[s].polymorphic = f->polymorphic;
}

static void set_stored_types(struct graph *g) {
  for (int i = 0; i < g->n_values; i++)
    if (g->values[i].origin == ORIGIN_INITIALIZER)
      g->values[i].type = (struct type){TYPE_TENSOR, g->values[i].initializer->data_type};
}

enum status types_infer(struct graph *g, struct diag *d) {
  struct inference in = {.g = g, .d = d};
  find_functions(&in);
  struct arena scratch = {0};
  enum status status = visit_functions(&in, &scratch);
  arena_free(&scratch);
  TRY(status);
  g->n_unfolded = count_unfolded(&in, 0, in.n_functions ? in.functions[0].first_node : g->n_nodes);
  set_stored_types(g);
  for (int i = 0; i < g->scopes[0].n_inputs; i++)
    TRY(set_formal(&in, -1, g->scopes[0].inputs[i], (struct type){0}));
  TRY(infer_scope(&in, 0));
  for (int i = 0; i < in.n_functions; i++)
    if (in.functions[i].n_calls == 0)
      infer_uncalled(&in, &in.functions[i]);
  for (int i = 0; i < in.n_functions; i++)
    finish_function(&in, &in.functions[i]);
  if (in.wrong_value_infos)
    diag_warn(d, "value_info of %d value%s is wrong and ignored (first: %s)", in.wrong_value_infos,
              PLURAL(in.wrong_value_infos), graph_value_label(g, in.first_wrong_value_info));
  return STATUS_OK;
}
