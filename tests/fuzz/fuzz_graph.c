// Graphs made of choices: each byte of the input decides something (an operator of the table, which
// values it reads, a branch's body, the magnitude of a weight), so that most inputs are models
// whose types fit, in shapes that no exporter writes. Then the whole conversion, as in
// fuzz_convert.
#include "conversion.h"
#include "graph.h"
#include "support_graph.h"
#include "tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7, BOOL = 9, MOST_VALUES = 300, MOST_NODES = 60, DEPTH = 4, FORMALS = 8 };

struct made_value {
  const char *name;
  struct type type;
};

struct maker {
  struct build b;
  struct arena *arena;
  struct choices *c;
  struct made_value values[MOST_VALUES];  // those in scope, outermost first
  int n_values;
  int hidden;  // values before this one are not seen (inside a function)
  int n_names, n_nodes, depth, n_functions;
  int function_inputs[FORMALS];
  bool in_function;
};

static const struct type float_type = {TYPE_TENSOR, FLOAT};

// ---- names and values ----

static bool name_is_used(const struct maker *k, const char *name) {
  for (int i = 0; i < k->n_values; i++)
    if (strcmp(k->values[i].name, name) == 0)
      return true;
  return false;
}

// "v12", or one that looks like a name that the rewrite would give.
static const char *new_name(struct maker *k) {
  static const char *const suffixes[] = {"__fp16",   "__bf16", "__fp32", "__scale",
                                         "__fp16_2", "::v1",   "/v1",    "__zero"};
  if (k->n_values && choose(k->c, 16) == 1) {
    const char *stem = k->values[choose(k->c, (unsigned)k->n_values)].name;
    const char *name = arena_printf(k->arena, "%s%s", stem, suffixes[choose(k->c, 8)]);
    if (!name_is_used(k, name) && strlen(name) < 100)
      return name;
  }
  return arena_printf(k->arena, "v%d", k->n_names++);
}

static void keep_value(struct maker *k, const char *name, struct type type) {
  if (k->n_values < MOST_VALUES && type.kind != TYPE_UNKNOWN)
    k->values[k->n_values++] = (struct made_value){name, type};
}

static const char *declared(struct maker *k, struct type t) {
  static const char *const shapes[] = {"[2,2]", "[]", "", "[N,2]", "[0]"};
  const char *shape = shapes[choose(k->c, 5)];
  if (t.kind == TYPE_SEQUENCE)
    return arena_printf(k->arena, "seq(%d)", t.elem_type);
  if (t.kind == TYPE_OPTIONAL)
    return arena_printf(k->arena, "optional(%d)", t.elem_type);
  return t.kind == TYPE_TENSOR ? arena_printf(k->arena, "%d%s", t.elem_type, shape) : "";
}

// A constant of a tensor type: an initializer, or inside a function a Constant node.
static const char *new_constant(struct maker *k, int elem_type) {
  static const float magnitudes[] = {1, 0.25f, 7e4f, 1e-7f, 1e30f, 1e-40f, 0, 3};
  const char *name = new_name(k);
  unsigned bits = tensor_element_bits(elem_type);
  size_t count = choose(k->c, 8) == 1 ? 0 : 4, size = (count * bits + 7) / 8;
  uint8_t data[64] = {0};
  float x = magnitudes[choose(k->c, 8)];
  for (size_t i = 0; elem_type == FLOAT && i < count; i++)
    memcpy(data + i * sizeof x, &(float){i % 2 ? -x : x * 1.3f}, sizeof x);
  for (size_t i = 0; elem_type != FLOAT && i < size; i += 8)
    data[i] = (uint8_t)choose(k->c, 4);
  const char *type = arena_printf(k->arena, "%d[%zu]", elem_type, count);
  if (k->in_function || choose(k->c, 4) == 1) {
    Onnx__NodeProto *n = build_node(&k->b, "Constant", "", name);
    build_tensor_attribute(&k->b, n, "value", build_tensor(&k->b, "", type, data, size));
  } else {
    build_raw(&k->b, name, type, data, size);
    if (k->depth == 0 && choose(k->c, 8) == 1)
      build_input(&k->b, name, type);
  }
  keep_value(k, name, (struct type){TYPE_TENSOR, elem_type});
  return name;
}

static int first_type(uint64_t set, unsigned skip) {
  int found = 0;
  for (int t = 1; t < 32; t++)
    if (set >> t & 1 && tensor_element_bits(t) >= 8 && (!found || skip-- > 0))
      found = t;
  return found;
}

// A value of a type in the set, NULL if there is none and none can be made.
static const char *pick(struct maker *k, const struct type_set *set, struct type *type) {
  unsigned seen = (unsigned)(k->n_values - k->hidden), start = choose(k->c, seen ? seen : 1);
  bool constant = choose(k->c, 4) == 1;
  for (unsigned i = 0; i < seen && !constant; i++) {
    struct made_value *v = &k->values[k->hidden + (int)((start + i) % seen)];
    if (type_in_set(set, v->type)) {
      *type = v->type;
      return v->name;
    }
  }
  int elem = set->tensors >> FLOAT & 1 ? FLOAT : first_type(set->tensors, choose(k->c, 4));
  *type = (struct type){TYPE_TENSOR, elem};
  return elem ? new_constant(k, elem) : NULL;
}

static struct type_set only(struct type t) {
  struct type_set set = {0};
  uint64_t bit = (uint64_t)1 << t.elem_type;
  if (t.kind == TYPE_TENSOR)
    set.tensors = bit;
  if (t.kind == TYPE_SEQUENCE)
    set.sequences = bit;
  if (t.kind == TYPE_OPTIONAL)
    set.optionals = bit;
  return set;
}

static const char *pick_type(struct maker *k, struct type wanted) {
  struct type_set set = only(wanted);
  return pick(k, &set, &wanted);
}

// ---- bodies ----

static void make_nodes(struct maker *k, unsigned count);

// Inputs, nodes and outputs of a body of node n; the outputs' types are `types`.
static void make_body(struct maker *k, Onnx__NodeProto *n, const char *attribute,
                      const struct type *inputs, int n_inputs, const struct type *outputs,
                      int n_outputs) {
  int outside = k->n_values;
  build_graph_begin(&k->b, n, attribute);
  k->depth++;
  for (int i = 0; i < n_inputs; i++) {
    const char *name = new_name(k);
    build_input(&k->b, name, choose(k->c, 4) == 1 ? "" : declared(k, inputs[i]));
    keep_value(k, name, inputs[i]);
  }
  make_nodes(k, choose(k->c, 6));
  for (int i = 0; i < n_outputs; i++) {
    const char *from = pick_type(k, outputs[i]), *name = new_name(k);
    if (from)
      build_node(&k->b, "Identity", from, name);
    build_output(&k->b, name, choose(k->c, 4) == 1 ? "" : declared(k, outputs[i]));
  }
  k->depth--;
  build_graph_end(&k->b);
  k->n_values = outside;
}

static const struct type state_types[] = {
    {TYPE_TENSOR, FLOAT}, {TYPE_TENSOR, FLOAT}, {TYPE_TENSOR, INT64}, {TYPE_SEQUENCE, FLOAT}};

static void make_if(struct maker *k) {
  const char *condition = pick_type(k, (struct type){TYPE_TENSOR, BOOL}), *name = new_name(k);
  struct type t = state_types[choose(k->c, 3)];
  Onnx__NodeProto *n = build_node(&k->b, "If", condition, name);
  make_body(k, n, "then_branch", NULL, 0, &t, 1);
  make_body(k, n, "else_branch", NULL, 0, &t, 1);
  keep_value(k, name, t);
}

static void make_loop(struct maker *k) {
  const struct type count = {TYPE_TENSOR, INT64}, go = {TYPE_TENSOR, BOOL};
  struct type a = state_types[choose(k->c, 4)], scanned = state_types[choose(k->c, 3)];
  const char *trips = choose(k->c, 4) == 1 ? "_" : pick_type(k, count);
  const char *initial = pick_type(k, a), *final = new_name(k), *rows = new_name(k);
  if (!initial)
    return;
  Onnx__NodeProto *n = build_node(&k->b, "Loop", arena_printf(k->arena, "%s _ %s", trips, initial),
                                  arena_printf(k->arena, "%s %s", final, rows));
  make_body(k, n, "body", (struct type[]){count, go, a}, 3, (struct type[]){go, a, scanned}, 3);
  keep_value(k, final, a);
  keep_value(k, rows, scanned);
}

static void make_scan(struct maker *k) {
  struct type a = state_types[choose(k->c, 3)], x = state_types[choose(k->c, 3)];
  const char *initial = pick_type(k, a), *rows = pick_type(k, x);
  const char *final = new_name(k), *out = new_name(k);
  Onnx__NodeProto *n = build_node(&k->b, "Scan", arena_printf(k->arena, "%s %s", initial, rows),
                                  arena_printf(k->arena, "%s %s", final, out));
  build_int(&k->b, n, "num_scan_inputs", 1);
  make_body(k, n, "body", (struct type[]){a, x}, 2, (struct type[]){a, x}, 2);
  keep_value(k, final, a);
  keep_value(k, out, x);
}

// A local function of floats, which later nodes may call.
static void make_function(struct maker *k) {
  int inputs = 1 + (int)choose(k->c, 3), outside = k->n_values, hidden = k->hidden;
  const char *names[] = {new_name(k), new_name(k), new_name(k)}, *result = new_name(k);
  const char *list = names[0];
  for (int i = 1; i < inputs; i++)
    list = arena_printf(k->arena, "%s %s", list, names[i]);
  build_function_begin(&k->b, "local", arena_printf(k->arena, "f%d", k->n_functions), list, result,
                       "");
  build_opset(&k->b, "com.microsoft", 1);
  k->hidden = k->n_values;
  k->in_function = true;
  k->depth++;
  for (int i = 0; i < inputs; i++)
    keep_value(k, names[i], float_type);
  make_nodes(k, 1 + choose(k->c, 4));
  const char *from = pick_type(k, float_type);
  build_node(&k->b, "Identity", from, result);
  k->depth--;
  k->in_function = false;
  k->hidden = hidden;
  k->n_values = outside;
  build_function_end(&k->b);
  k->function_inputs[k->n_functions++] = inputs;
}

static void make_call(struct maker *k) {
  unsigned f = choose(k->c, (unsigned)k->n_functions);
  const char *inputs = "", *result = new_name(k);
  for (int i = 0; i < k->function_inputs[f]; i++)
    inputs = arena_printf(k->arena, "%s %s", inputs, pick_type(k, float_type));
  build_node(&k->b, arena_printf(k->arena, "local.f%u", f), inputs + 1, result);
  keep_value(k, result, float_type);
}

// ---- operators of the table ----

static bool has_graphs(const struct schema *s) {
  return strcmp(s->op, "If") == 0 || strcmp(s->op, "Loop") == 0 || strcmp(s->op, "Scan") == 0 ||
         strcmp(s->op, "SequenceMap") == 0;
}

enum { MOST_VARS = 64 };

// The names of the inputs, or NULL if some cannot be had; binds the type variables.
static const char *make_inputs(struct maker *k, const struct schema *s, struct type *bound) {
  const char *list = "";
  for (int i = 0; i < s->n_inputs; i++) {
    const struct formal *f = &s->inputs[i];
    unsigned repeats = f->variadic ? 1 + choose(k->c, 3) : 1;
    for (unsigned r = 0; r < repeats; r++) {
      struct type type = {0};
      struct type *var = f->var < MOST_VARS ? &bound[f->var] : &type;
      const char *name = "_";
      if (!f->optional || choose(k->c, 2)) {
        struct type_set set = var->kind && !f->heterogeneous ? only(*var) : s->vars[f->var].allowed;
        name = pick(k, &set, &type);
        *var = type;
      }
      if (!name)
        return NULL;
      list = arena_printf(k->arena, "%s %s", list, name);
    }
  }
  return list[0] ? list + 1 : list;
}

// The type that an attribute sets is chosen among those that the output may have.
static void set_types(struct maker *k, Onnx__NodeProto *n, const struct schema *s,
                      struct type *bound) {
  for (int i = 0; i < s->n_type_attributes; i++) {
    const struct type_attribute *t = &s->type_attributes[i];
    const struct formal *f = t->output < s->n_outputs ? &s->outputs[t->output] : NULL;
    if (!f || f->var >= MOST_VARS)
      continue;
    int elem = choose(k->c, 2) && s->vars[f->var].allowed.tensors >> FLOAT & 1
                   ? FLOAT
                   : first_type(s->vars[f->var].allowed.tensors, choose(k->c, 12));
    if (strncmp(t->attribute, "value", 5) == 0)
      build_tensor_attribute(&k->b, n, t->attribute,
                             build_tensor(&k->b, "", arena_printf(k->arena, "%d[1]", elem), NULL,
                                          (tensor_element_bits(elem) + 7) / 8));
    else
      build_int(&k->b, n, t->attribute, elem);
    bound[f->var] = (struct type){TYPE_TENSOR, elem};
  }
}

static void make_operator(struct maker *k) {
  // Half of them such as the rules narrow: else rare operators are nearly all.
  static const char *const usual[] = {"MatMul", "Conv",   "Gemm",    "Add",     "Mul",
                                      "Relu",   "Concat", "Reshape", "Softmax", "Sub",
                                      "Cast",   "Shape",  "Sigmoid", "Clip",    "Transpose"};
  const struct schema_table *t = fuzz_schemas();
  const struct schema *s = &t->schemas[choose(k->c, (unsigned)t->count)];
  const char *domain = s->domain, *op = s->op;
  if (choose(k->c, 2)) {
    op = usual[choose(k->c, sizeof usual / sizeof *usual)];
    domain = "";
  }
  int opset = domain[0] ? 1 : (int)k->b.model->opset_import[0]->version;
  s = schema_find(t, domain, op, opset);
  struct type bound[MOST_VARS] = {{0}};
  if (!s || has_graphs(s) || strcmp(op, "Constant") == 0)
    return;
  const char *inputs = make_inputs(k, s, bound), *outputs = "";
  if (!inputs)
    return;
  const char *names[FORMALS];
  int n_outputs = 0;
  for (; n_outputs < s->n_outputs && n_outputs < FORMALS; n_outputs++) {
    bool absent = s->outputs[n_outputs].optional && choose(k->c, 2);
    names[n_outputs] = absent ? "_" : new_name(k);
    outputs = arena_printf(k->arena, "%s %s", outputs, names[n_outputs]);
  }
  const char *label = domain[0] ? arena_printf(k->arena, "%s.%s", domain, op) : op;
  Onnx__NodeProto *n = build_node(&k->b, label, inputs, outputs[0] ? outputs + 1 : "");
  if (choose(k->c, 4) == 1)
    n->name = arena_strdup(k->arena, choose(k->c, 2) ? "same" : names[0]);
  set_types(k, n, s, bound);
  for (int i = 0; i < n_outputs; i++) {
    const struct formal *f = &s->outputs[i];
    struct type type = f->var < MOST_VARS ? bound[f->var] : (struct type){0};
    if (type.kind == TYPE_UNKNOWN)
      type = s->vars[f->var].only;
    if (names[i][0] != '_')
      keep_value(k, names[i], type);
  }
}

static void make_nodes(struct maker *k, unsigned count) {
  for (unsigned i = 0; i < count && k->n_nodes < MOST_NODES && k->c->left; i++, k->n_nodes++) {
    unsigned kind = choose(k->c, 32);
    if (kind == 1 && k->depth < DEPTH)
      make_if(k);
    else if (kind == 2 && k->depth < DEPTH)
      make_loop(k);
    else if (kind == 3 && k->depth < DEPTH)
      make_scan(k);
    else if (kind == 4 && k->n_functions < FORMALS && k->depth == 0)
      make_function(k);
    else if (kind < 8 && kind > 4 && k->n_functions > 0 && !k->in_function)
      make_call(k);
    else
      make_operator(k);
  }
}

// ---- the model ----

static void make_model(struct maker *k) {
  static const int opsets[] = {17, 13, 23, 21, 9, 6, 18, 24}, versions[] = {10, 8, 3, 12};
  build_begin(&k->b, k->arena, opsets[choose(k->c, 8)]);
  k->b.model->ir_version = versions[choose(k->c, 4)];
  build_opset(&k->b, "com.microsoft", 1);
  build_opset(&k->b, "local", 1);
  unsigned inputs = 1 + choose(k->c, 3);
  for (unsigned i = 0; i < inputs; i++) {
    const char *name = new_name(k);
    struct type t = state_types[choose(k->c, 3)];
    build_input(&k->b, name, declared(k, t));
    keep_value(k, name, t);
  }
  make_nodes(k, 2 + choose(k->c, MOST_NODES));
  unsigned outputs = 1 + choose(k->c, 4);
  for (unsigned i = 0; i < outputs && (int)i < k->n_values; i++) {
    struct made_value *v = &k->values[k->n_values - 1 - (int)i];
    build_output(&k->b, v->name, choose(k->c, 4) == 1 ? "" : declared(k, v->type));
  }
}

// FUZZ_MODEL=FILE writes the model that the input makes, to be looked at with other tools.
static void show_model(const struct model *m) {
  const char *path = getenv("FUZZ_MODEL");
  FILE *out = path ? fopen(path, "wb") : NULL;
  fuzz_require(!path || (out && fwrite(m->bytes, 1, m->size, out) == m->size && fclose(out) == 0),
               "cannot write %s", path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The policy's and the statistics' choices come first, in a part of their own.
  size_t first = size < 64 ? size / 2 : 32;
  struct choices of_plan = {data, first}, of_graph = {data + first, size - first};
  struct arena arena = {0};
  struct maker *k = arena_alloc(&arena, sizeof *k);
  struct model m;
  k->arena = &arena;
  k->c = &of_graph;
  make_model(k);
  build_model(&k->b, &m);
  show_model(&m);
  conversion_check(&m, &of_plan, false, &arena);
  model_close(&m);
  arena_free(&arena);
  return 0;
}
