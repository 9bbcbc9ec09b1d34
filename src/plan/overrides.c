// Reads overrides and finds the nodes that they decide for. What a decision means for the plan is
// in plan.c. See overrides.h.
#include "overrides.h"

#include "fields.h"
#include "file.h"
#include "nearest.h"
#include "plan.h"
#include "plan_windows.h"

#include <math.h>
#include <string.h>

enum { OVERRIDES_MAX = 1000 };

// ---- the file ----

static const char *const format_names[] = {"fp16", "bf16", "fp32", NULL};

static enum status read_format(struct reader *r, const struct json *value, const struct field *f,
                               void *base) {
  static const enum format_id ids[] = {FORMAT_FP16, FORMAT_BF16, FORMAT_FP32};
  int index;
  (void)f;
  TRY(fields_find_choice(r, value, format_names, &index));
  ((struct override *)base)->format = ids[index];
  return STATUS_OK;
}

static enum status read_scale(struct reader *r, const struct json *value, const struct field *f,
                              void *base) {
  struct override *o = base;
  double scale;
  struct field number = {.offset = 0, .min = ldexp(1, SCALE_LOG2_MIN), .max = f->max};
  TRY(fields_read_number(r, value, &number, &scale));
  int exponent;
  if (frexp(scale, &exponent) != 0.5)
    return FIELDS_FAIL(r, "%.15g is not a power of two", scale);
  o->has_scale = true;
  o->scale_log2 = exponent - 1;
  return STATUS_OK;
}

static const struct field override_fields[] = {
    STRING(struct override, "glob", glob),
    SPECIAL("format", read_format),
    {"scale", read_scale, 0, true, 0, 0x1p126, NULL, NULL},
    STRING(struct override, "note", note),
    END,
};

static enum status read_list(struct reader *r, const struct json *value, const struct field *f,
                             void *base) {
  struct overrides *o = base;
  int count;
  (void)f;
  TRY(fields_check_list(r, value, OVERRIDES_MAX, &count));
  o->list = arena_array(r->arena, (size_t)count, sizeof *o->list);
  for (const struct json *m = value->first; m; m = m->next) {
    json_push_index(&r->path, o->count);
    TRY(fields_read_object(r, m, override_fields, &o->list[o->count++]));
    json_pop(&r->path);
  }
  return STATUS_OK;
}

static const struct field file_fields[] = {
    REMARK("$schema"),
    REMARK("why"),
    SPECIAL("overrides", read_list),
    END,
};

enum status overrides_read(struct overrides *o, const char *path, struct arena *a, struct diag *d) {
  *o = (struct overrides){.file = arena_strdup(a, file_base(path))};
  struct reader r = {.file = path, .arena = a, .diag = d};
  char *text;
  TRY(json_read_text(&text, path, STATUS_POLICY, a, d));
  TRY(json_parse(&r.root, text, path, STATUS_POLICY, a, d));
  sha256_hex(text, strlen(text), o->sha256);
  return fields_read_object(&r, r.root, file_fields, o);
}

struct rule override_rule(const struct override *o, struct arena *a) {
  return (struct rule){
      .id = arena_printf(a, "override %s", o->glob),
      .class = o->format == FORMAT_FP32 ? CLASS_PIN : CLASS_NARROW,
      .why = o->note,
  };
}

// ---- what they match ----

struct matching {
  const struct overrides *overrides;
  struct graph *graph;
  const struct policy *policy;
  const struct override **by_node;
  bool converted;  // the model is a result of this program
  struct arena *arena;
  struct diag *diag;
  struct diag_list errors;
  const char **node_labels, **value_labels;  // NULL-terminated, for the nearest name
};

static void refuse(struct matching *m, const struct override *o, const char *node,
                   const char *why) {
  diag_at(m->diag, m->overrides->file, node, NULL);
  diag_fail(m->diag, STATUS_POLICY, "override %s: %s", o->glob, why);
  diag_collect(&m->errors, m->diag);
}

static bool has_fp32(const struct graph *g, int n) {
  const struct node *node = &g->nodes[n];
  for (int k = 0; k < node->n_inputs + node->n_outputs; k++) {
    int v = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];
    if (v >= 0 && graph_is_fp32(g, v) && (k < node->n_inputs || !graph_is_constant(g, v)))
      return true;
  }
  return false;
}

static bool has_format(const struct graph *g, int v, enum format_id f) {
  return g->values[v].type.elem_type == formats[f].onnx_type;
}

// In a result of this program, overrides were applied before: what it added follows from them, and
// what gives out the format has it.
static bool is_done(const struct matching *m, const struct override *o, int n) {
  const struct node *node = &m->graph->nodes[n];
  const char *name = node->proto->name ? node->proto->name : "";
  if (!m->converted || strncmp(name, ADDED_PREFIX, strlen(ADDED_PREFIX)) == 0)
    return m->converted;
  for (int k = 0; k < node->n_outputs && o->format != FORMAT_FP32; k++)
    if (node->outputs[k] >= 0 && has_format(m->graph, node->outputs[k], o->format))
      return true;
  return false;
}

// Gives node n to the override if it has anything to decide there.
static bool decide(struct matching *m, const struct override *o, int n) {
  if (is_done(m, o, n))
    return true;
  if (!has_fp32(m->graph, n))
    return false;
  const char *why = plan_refuses_format(m->graph, n, o->format, m->arena);
  if (why)
    refuse(m, o, m->node_labels[n], why);
  m->by_node[n] = o;
  return true;
}

// The nodes that decide how value v is stored: the one that makes it, or the readers of what no
// node computes.
static bool decide_for_value(struct matching *m, const struct override *o, int v) {
  const struct value *value = &m->graph->values[v];
  if (value->origin == ORIGIN_NODE && !graph_is_constant(m->graph, v))
    return decide(m, o, value->producer);
  if (o->has_scale) {
    refuse(m, o, NULL,
           arena_printf(m->arena, "\"scale\" is for what a node makes, and %s is not",
                        m->value_labels[v]));
    return true;
  }
  bool any = false;
  for (int u = 0; u < value->n_uses; u++)
    if (value->uses[u].node >= 0)
      any = decide(m, o, value->uses[u].node) || any;
  return any;
}

static bool in_ladder(const struct policy *p, enum format_id f) {
  for (int i = 0; i < p->n_ladder; i++)
    if (p->ladder[i] == f)
      return true;
  return false;
}

// The --format of the run, which takes the place of the policy's ladder, or NULL.
static const char *asked_format(const struct policy *p) {
  for (const char **o = p->adjustments; o && *o; o++)
    if (strncmp(*o, "--format ", strlen("--format ")) == 0)
      return *o;
  return NULL;
}

static void refuse_format(struct matching *m, const struct override *o) {
  const char *name = formats[o->format].name, *asked = asked_format(m->policy);
  diag_hint(m->diag, "%sThe ladder of policy balanced has both fp16 and bf16.",
            asked ? "Leave --format out, or change the override. " : "");
  refuse(m, o, NULL,
         asked ? arena_printf(m->arena,
                              "%s is no format of this run: %s takes the place of the "
                              "policy's ladder",
                              name, asked)
               : arena_printf(m->arena, "%s is not in the ladder of policy %s", name,
                              m->policy->name));
}

static void name_the_near_one(struct matching *m, const struct override *o) {
  const char *pair[3] = {nearest_name(o->glob, m->node_labels),
                         nearest_name(o->glob, m->value_labels)};
  if (!pair[0])
    pair[0] = pair[1];
  const char *near = pair[0] ? nearest_name(o->glob, pair) : NULL;
  if (near)
    diag_hint(m->diag, "Did you mean %s?", near);
}

// Whose format the override may name: fp32, or in a result what it made of that.
static bool is_value_of(const struct matching *m, const struct override *o, int v) {
  return graph_is_fp32(m->graph, v) || (m->converted && has_format(m->graph, v, o->format));
}

static void match_one(struct matching *m, const struct override *o) {
  struct graph *g = m->graph;
  if (!in_ladder(m->policy, o->format)) {
    refuse_format(m, o);
    return;
  }
  if (o->has_scale && o->scale_log2 != 0 && o->format == FORMAT_FP32) {
    refuse(m, o, NULL, "a tensor in fp32 has no scale: leave \"scale\" out");
    return;
  }
  bool matched = false, decided = false;
  for (int n = 0; n < g->n_nodes; n++)
    if (glob_match(o->glob, m->node_labels[n])) {
      matched = true;
      decided = decide(m, o, n) || decided;
    }
  for (int v = 0; v < g->n_values; v++)
    if (is_value_of(m, o, v) && glob_match(o->glob, m->value_labels[v])) {
      matched = true;
      decided = decide_for_value(m, o, v) || decided;
    }
  if (decided)
    return;
  if (!matched)
    name_the_near_one(m, o);
  refuse(m, o, NULL,
         matched ? "matches only what has no fp32 tensor" : "matches no node and no fp32 tensor");
}

enum status overrides_match(const struct overrides *o, struct graph *g, const struct policy *policy,
                            const struct override ***by_node, struct arena *a, struct diag *d) {
  struct matching m = {
      .overrides = o,
      .graph = g,
      .policy = policy,
      .converted = plan_is_converted(g),
      .by_node = arena_array(a, (size_t)g->n_nodes, sizeof *m.by_node),
      .arena = a,
      .diag = d,
  };
  *by_node = m.by_node;
  if (!o)
    return STATUS_OK;
  m.node_labels = arena_array(a, (size_t)g->n_nodes + 1, sizeof *m.node_labels);
  m.value_labels = arena_array(a, (size_t)g->n_values + 1, sizeof *m.value_labels);
  for (int n = 0; n < g->n_nodes; n++)
    m.node_labels[n] = graph_node_label(g, n);
  for (int v = 0; v < g->n_values; v++)
    m.value_labels[v] = graph_value_label(g, v);
  for (int i = 0; i < o->count; i++)
    match_one(&m, &o->list[i]);
  return diag_list_end(&m.errors, d, "overrides cannot be applied, as named above");
}
