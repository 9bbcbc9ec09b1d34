// What is done with a policy once it is read: how one run adjusts it, and the question that the
// plan asks for every node, which rule is the first that matches it. Also the shipped policies,
// which the program carries inside. policy_read.c has the file format.
#include "policy.h"

#include "embedded.h"
#include "file.h"
#include "json.h"
#include "nearest.h"
#include "raise_opset.h"

#include <stdlib.h>
#include <string.h>

static const char *const shipped[] = {"fp16", "bf16", "balanced", "fp8", "fp4", "tf32", NULL};

const char *const *policy_names(void) {
  return shipped;
}

const char *policy_text(const char *name) {
  size_t length = strlen(name);
  for (const char *const *s = shipped; *s; s++) {
    if (strcmp(*s, name) != 0)
      continue;
    for (const struct embedded *e = embedded_files; e->name; e++)
      if (strncmp(e->name, name, length) == 0 && strcmp(e->name + length, ".json") == 0)
        return e->text;
  }
  return NULL;
}

static void record_adjustment(struct policy *p, const char *text, struct arena *a) {
  size_t count = 0;
  while (p->adjustments && p->adjustments[count])
    count++;
  const char **adjustments = arena_array(a, count + 2, sizeof *adjustments);
  if (count > 0)
    memcpy(adjustments, p->adjustments, count * sizeof *adjustments);
  adjustments[count] = text;
  p->adjustments = adjustments;
}

enum status policy_load(struct policy *p, const char *name_or_path, struct arena *a,
                        struct diag *d) {
  if (strpbrk(name_or_path, "/.")) {
    char *text;
    TRY(json_read_text(&text, name_or_path, STATUS_POLICY, a, d));
    TRY(policy_parse(p, text, name_or_path, a, d));
    // A changed copy often keeps the name of what it is a copy of.
    const char *own = policy_text(p->name);
    if (own && strcmp(own, text) != 0)
      record_adjustment(p, arena_printf(a, "as changed in %s", file_base(name_or_path)), a);
    return STATUS_OK;
  }
  const char *text = policy_text(name_or_path);
  if (text)
    return policy_parse(p, text, arena_printf(a, "%s.json", name_or_path), a, d);
  const char *nearest = nearest_name(name_or_path, shipped), *names = shipped[0];
  for (const char *const *s = shipped + 1; *s; s++)
    names = arena_printf(a, "%s, %s", names, *s);
  diag_hint(d, "%s%s%sThe policies inside are %s; a file's name has a / or a .",
            nearest ? "Did you mean " : "", nearest ? nearest : "", nearest ? "? " : "", names);
  return diag_fail(d, STATUS_POLICY, "there is no policy called \"%s\"", name_or_path);
}

enum status policy_adjust_class(struct policy *p, enum node_class c, const char *glob,
                                struct arena *a, struct diag *d) {
  if (glob[0] == '\0')
    return diag_fail(d, STATUS_USAGE, "--%s needs a name or a pattern", node_class_name(c));
  const char *text = arena_printf(a, "--%s %s", node_class_name(c), glob);
  const char **globs = arena_array(a, 2, sizeof *globs);
  globs[0] = arena_strdup(a, glob);
  struct rule rule = {
      .id = text, .class = c, .why = "Asked for on the command line.", .asked_for = true};
  struct rule *rules = arena_array(a, (size_t)p->n_rules + 2, sizeof *rules);
  rules[0] = rules[1] = rule;
  rules[0].nodes = globs;
  rules[1].tensors = globs;
  if (p->n_rules > 0)
    memcpy(rules + 2, p->rules, (size_t)p->n_rules * sizeof *rules);
  p->rules = rules;
  p->n_rules += 2;
  record_adjustment(p, text, a);
  return STATUS_OK;
}

enum status policy_adjust_format(struct policy *p, const char *format, struct arena *a,
                                 struct diag *d) {
  static const char *const choices[] = {"fp16", "bf16", "fp32", NULL};
  const struct format *f = format_find(format);
  if (!f || (f->id != FORMAT_FP16 && f->id != FORMAT_BF16 && f->id != FORMAT_FP32)) {
    const char *nearest = f ? NULL : nearest_name(format, choices);
    diag_hint(
        d,
        "%s%s%sThe formats are fp16, bf16 and fp32. Those of 8 and 4 bits are for operands of "
        "matrix products alone: --policy fp8, --policy fp4.",
        nearest ? "Did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
    return diag_fail(d, STATUS_USAGE, "--format cannot be \"%s\"%s", format,
                     f ? ": nodes do not run in it" : "");
  }
  p->operands.wanted = p->tf32 = false;
  p->n_ladder = 0;
  p->ladder[p->n_ladder++] = f->id;
  if (f->id != FORMAT_FP32)
    p->ladder[p->n_ladder++] = FORMAT_FP32;
  record_adjustment(p, arena_printf(a, "--format %s", f->name), a);
  return STATUS_OK;
}

enum status policy_adjust_opset(struct policy *p, int opset, struct arena *a, struct diag *d) {
  if (opset < RAISE_OPSET_LEAST || opset > RAISE_OPSET_MOST)
    return diag_fail(d, STATUS_USAGE, "--raise-opset takes a number from %d to %d, not %d",
                     RAISE_OPSET_LEAST, RAISE_OPSET_MOST, opset);
  p->raise_opset = opset;
  record_adjustment(p, arena_printf(a, "--raise-opset %d", opset), a);
  return STATUS_OK;
}

enum status policy_adjust_io(struct policy *p, const char *keep_or_narrow, struct arena *a,
                             struct diag *d) {
  bool narrow = strcmp(keep_or_narrow, "narrow") == 0;
  if (!narrow && strcmp(keep_or_narrow, "keep") != 0)
    return diag_fail(d, STATUS_USAGE, "--io is \"keep\" or \"narrow\", not \"%s\"", keep_or_narrow);
  p->narrow_inputs = p->narrow_outputs = narrow;
  record_adjustment(p, arena_printf(a, "--io %s", keep_or_narrow), a);
  return STATUS_OK;
}

// The byte after the UTF-8 character at text, which is not at its end.
static const char *next_character(const char *text) {
  int length = json_utf8_length(text);
  return text + (length > 0 ? length : 1);
}

bool glob_match(const char *pattern, const char *text) {
  const char *star = NULL;    // after the last * of the pattern
  const char *resume = NULL;  // where in the text that * ends, so far
  while (*text) {
    if (*pattern == '*') {
      star = ++pattern;
      resume = text;
    } else if (*pattern == '?') {
      pattern++;
      text = next_character(text);
    } else if (*pattern == *text) {
      pattern++;
      text++;
    } else if (star) {
      pattern = star;
      text = ++resume;
    } else {
      return false;
    }
  }
  while (*pattern == '*')
    pattern++;
  return *pattern == '\0';
}

bool claim_names(const struct claim *c, const char *output) {
  if (!c->outputs)
    return true;
  for (const char **glob = c->outputs; *glob; glob++)
    if (glob_match(*glob, output))
      return true;
  return false;
}

static bool any_glob(const char *const *globs, const char *text) {
  for (; *globs; globs++)
    if (glob_match(*globs, text))
      return true;
  return false;
}

static int compare_names(const void *key, const void *element) {
  return strcmp(key, *(const char *const *)element);
}

static bool ops_match(const struct rule *r, const char *op) {
  if (!r->ops && !r->op_globs)
    return true;
  if (r->ops && bsearch(op, r->ops, (size_t)r->n_ops, sizeof *r->ops, compare_names))
    return true;
  return r->op_globs && any_glob(r->op_globs, op);
}

static bool tensors_match(const struct rule *r, const struct rule_subject *subject) {
  for (int i = 0; i < subject->n_tensors; i++)
    if (any_glob(r->tensors, subject->tensors[i]))
      return true;
  return false;
}

const struct rule *policy_match(const struct policy *p, const struct rule_subject *subject) {
  // "Op", or "domain:Op" outside ai.onnx. A name that does not fit is no operator that a rule could
  // know; as "" it matches only the rules for any operator.
  char buffer[256];
  const char *op = subject->op;
  if (subject->domain && subject->domain[0] && strcmp(subject->domain, "ai.onnx") != 0) {
    int length = snprintf(buffer, sizeof buffer, "%s:%s", subject->domain, op);
    op = length > 0 && (size_t)length < sizeof buffer ? buffer : "";
  }
  for (int i = 0; i < p->n_rules; i++) {
    const struct rule *r = &p->rules[i];
    bool constants = (r->constant_inputs & ~subject->constant_inputs) == 0;
    bool pattern = !r->patterns || (r->patterns >> subject->pattern & 1);
    bool sums = !r->sums_in_fp32 || subject->sums_in_fp32;
    if (constants && pattern && sums && ops_match(r, op) &&
        (!r->nodes || any_glob(r->nodes, subject->node)) &&
        (!r->scopes || any_glob(r->scopes, subject->scope)) &&
        (!r->tensors || tensors_match(r, subject)))
      return r;
  }
  return NULL;
}
