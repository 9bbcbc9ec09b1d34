// Explains decisions of a plan: what was decided and by which rule, the numbers beside the
// thresholds they were held against, what stands around it, and what would have to change for
// another outcome. Everything is from the plan file; a trace and a verdict add what they measured.
#include "escape.h"
#include "json.h"
#include "nearest.h"
#include "review.h"
#include "units.h"

#include <math.h>
#include <string.h>

enum { ENDS_SHOWN = 8 };  // readers of one value

static const char *name_of(enum format_id f) {
  return formats[f].name;
}

// ---- what would change it ----

// What a person can do where the reason is one of structure; where it is a number, or depends on
// the plan, explain_remedy has more to say.
static const char *const remedies[REASON_COUNT] = {
    [REASON_CLASS] = "a rule of class narrow or follow in front of this one, or --narrow with its "
                     "name",
    [REASON_KEPT] = "a run without that --keep",
    [REASON_EDITED] = "undoing the edit",
    [REASON_NOT_SEEN] = "a trace with samples that reach it",
    [REASON_UNKNOWN_OP] = "an operator that the table knows",
    [REASON_SHAPE_MATH] = "nothing: shapes need exact integers",
    [REASON_NO_NEIGHBOUR] = "a node beside it that runs narrow",
    [REASON_BOUNDARY] = "neighbours that run narrow too, or a target with cheaper Casts",
    [REASON_NONFINITE] = "an fp32 model that is finite on the samples",
    [REASON_RESOLUTION] = "smaller integers or angles, or \"resolution\" in the policy",
    [REASON_OVERRIDE] = "removing the override",
    [REASON_CONTAINER] = "a model without the container",
    [REASON_CONVERTED] = "the model from before the first conversion",
    [REASON_PROMOTED] = "claims that allow its error",
    [REASON_QUANTISED] = "a model without the quantised island",
    [REASON_ENGINE] = "an engine without the fault",
    [REASON_PATTERN] =
        "a rule in front of this one that lets the pattern's parts go their own ways",
    [REASON_UNSTABLE] = "samples of one kind, or another max_spread in the policy",
    [REASON_NOISE] = "\"min_sqnr_db\" or \"block_size\" of \"weights\" in the policy",
    [REASON_SHARED] = "other readers of the weight that are matrix products too",
    [REASON_NOT_SMALLER] = "longer blocks, or none: \"block_size\" of \"weights\" in the policy",
    [REASON_SCORES] = "smaller queries or keys, or bf16 in the ladder",
    [REASON_BITS] = "nothing: it needs the bits of fp32",
    [REASON_CALL] = "nothing: look at the nodes of the function",
    [REASON_UNUSED] = "an output that depends on it",
    [REASON_POLYMORPHIC] = "a function that is called with one type only",
};

// A format with a wider range than f that a ladder may have, or NULL.
static const char *wider_format(enum format_id f) {
  return f == FORMAT_FP16 ? "bf16" : NULL;
}

static void print_value_remedy(const struct review *r, const struct review_value *v, FILE *out) {
  const struct plan_thresholds *t = &r->thresholds;
  enum format_id f = r->ladder[0];
  const char *section = v->constant ? "constants" : "range";
  double margin = v->constant || isnan(t->margin) ? 1 : t->margin;
  switch (v->fit.reason) {
  case REASON_OVERFLOW:
    escape_printf(out, "its magnitude below %.4g, or a margin of at most %.3g",
                  formats[f].max / margin, v->fit.headroom);
    if (wider_format(f) && r->ladder[1] == FORMAT_FP32)
      escape_printf(out, ", or %s in the ladder", wider_format(f));
    break;
  case REASON_CONSTANT:
    escape_printf(out, "other values, or limits in \"constants\" of the policy that allow these");
    break;
  case REASON_ZERO:
    escape_printf(out, "\"%s\".max_zero_fraction of %.3g or more", section, v->fit.zero_fraction);
    break;
  case REASON_SUBNORMAL:
    escape_printf(out, "\"%s\".max_subnormal_fraction of %.3g or more", section,
                  v->fit.subnormal_fraction);
    break;
  case REASON_STEP:
    escape_printf(out, "\"updates\".max_lost_fraction above %.3g", v->fit.lost_fraction);
    break;
  default:
    escape_printf(out, "%s", remedies[v->fit.reason] ? remedies[v->fit.reason] : "nothing known");
    break;
  }
}

// ---- a value ----

static void print_line(const char *what, FILE *out) {
  fprintf(out, "  %-11s", what);
}

static void print_percent(FILE *out, double share) {
  char text[UNITS_TEXT];
  fputs(units_share(share, text), out);
}

// A share beside the largest that passes.
static void print_share(const char *what, double share, double most, FILE *out) {
  if (isnan(share))
    return;
  print_line(what, out);
  print_percent(out, share);
  if (!isnan(most)) {
    escape_printf(out, ", at most ");
    print_percent(out, most);
    escape_printf(out, ": %s", share <= most ? "passes" : "FAILS");
  }
  escape_printf(out, "\n");
}

static void print_numbers(const struct review *r, const struct review_value *v, FILE *out) {
  char factor[UNITS_TEXT];
  const struct plan_thresholds *t = &r->thresholds;
  const struct format *f = &formats[r->ladder[0]];
  if (isnan(v->fit.absmax)) {
    print_line("numbers", out);
    escape_printf(out, "none: not seen in a trace\n");
    return;
  }
  if (f->id == FORMAT_FP32)
    return;  // nothing was tried
  print_line("range", out);
  escape_printf(out, "largest magnitude %.4g", v->fit.absmax);
  if (v->scale_log2)
    escape_printf(out, ", %.4g as it is stored", ldexp(v->fit.absmax, v->scale_log2));
  if (v->fit.absmax > 0)
    escape_printf(out, "; %s ends at %.5g, %s times that", f->name, f->max,
                  units_factor(v->fit.headroom, factor));
  double needed = v->constant || isnan(t->margin) ? 1 : t->margin;
  if (v->fit.absmax > 0)
    escape_printf(out, ", at least %.3g: %s", needed,
                  v->fit.reason == REASON_OVERFLOW || v->fit.headroom < needed ? "FAILS"
                                                                               : "passes");
  escape_printf(out, "\n");
  print_share("zero", v->fit.zero_fraction,
              v->constant ? t->constant_max_zero_fraction : t->max_zero_fraction, out);
  print_share("subnormal", v->fit.subnormal_fraction,
              v->constant ? t->constant_max_subnormal_fraction : t->max_subnormal_fraction, out);
  if (v->fit.accumulates) {
    print_line("updates", out);
    print_percent(out, v->fit.lost_fraction);
    escape_printf(out, " of them below a step of %s", f->name);
    if (t->max_lost_fraction > 0) {
      escape_printf(out, ", less than ");
      print_percent(out, t->max_lost_fraction);
      escape_printf(out, ": %s", v->fit.lost_fraction < t->max_lost_fraction ? "passes" : "FAILS");
    }
    escape_printf(out, "\n");
  }
  print_line("noise", out);
  const char *counted = v->fit.headroom < 1 ? ", of what is in its range" : "";
  if (isinf(v->fit.sqnr_db) && v->fit.headroom < 1)
    escape_printf(out, "none of what is in the range of %s; what is beyond it is lost\n", f->name);
  else if (isinf(v->fit.sqnr_db))
    escape_printf(out, "none: %s holds every value exactly\n", f->name);
  else
    escape_printf(out, "signal %.3g dB above the rounding of %s, as expected%s\n", v->fit.sqnr_db,
                  f->name, counted);
}

// "fp16", "fp16 times 2^-3"
static void print_stored(enum format_id format, int scale_log2, FILE *out) {
  fputs(name_of(format), out);
  if (scale_log2)
    escape_printf(out, " times 2^%d", scale_log2);
}

static void print_operand_copy(const struct review *r, const struct review_value *v, FILE *out) {
  if (v->operand_block)
    escape_printf(out, "%s, blocks times 2^%d to 2^%d", name_of(r->operand_format),
                  v->operand_scale, v->operand_scale_most);
  else
    print_stored(r->operand_format, v->operand_scale, out);
}

// How matrix products read it.
static void print_operand(const struct review *r, const struct review_value *v, FILE *out) {
  char factor[UNITS_TEXT];
  if (!v->is_operand || !r->has_operand_format)
    return;
  print_line("operand", out);
  if (v->operand_block) {
    escape_printf(
        out,
        "read in %s, in blocks of %d along axis %d, each times 2^%d to 2^%d; %.3g dB above "
        "rounding\n",
        name_of(r->operand_format), v->operand_block, v->operand_axis, v->operand_scale,
        v->operand_scale_most, v->operand_sqnr_db);
    return;
  }
  escape_printf(out,
                "read in %s times 2^%d; %s times its magnitude would fit, %.3g dB above rounding\n",
                name_of(r->operand_format), v->operand_scale,
                units_factor(v->operand_headroom, factor), v->operand_sqnr_db);
}

static void print_range(const struct review_range *s, FILE *out) {
  print_line("traced", out);
  if (!s->label) {
    escape_printf(out, "not in the trace\n");
    return;
  }
  escape_printf(out, "%.0f runs, %.0f elements from %.4g to %.4g, ", s->runs, s->count, s->lowest,
                s->highest);
  print_percent(out, s->count > 0 ? s->zeros / s->count : 0);
  escape_printf(out, " zeros, smallest magnitude %.3g", s->smallest);
  if (s->nans + s->infinities > 0)
    escape_printf(out, ", %.0f NaN, %.0f infinities", s->nans, s->infinities);
  escape_printf(out, "\n");
}

static void print_node_brief(const struct review_node *n, FILE *out) {
  escape_printf(out, "%s (%s, %s)", n->label, n->op, n->left_out ? "left out" : name_of(n->format));
}

static void print_neighbours(const struct review *r, const struct review_value *v, FILE *out) {
  print_line("made by", out);
  if (v->producer >= 0)
    print_node_brief(&r->nodes[v->producer], out);
  else
    escape_printf(out,
                  v->constant ? "nothing: a constant" : "no node with floats: an input, or a Cast");
  escape_printf(out, "\n");
  print_line("read by", out);
  for (int k = 0; k < v->n_readers && k < ENDS_SHOWN; k++) {
    escape_printf(out, k ? ", " : "");
    print_node_brief(&r->nodes[v->readers[k]], out);
  }
  if (v->n_readers > ENDS_SHOWN)
    escape_printf(out, " and %d more", v->n_readers - ENDS_SHOWN);
  escape_printf(out, v->n_readers ? "\n" : "no node with floats\n");
}

// A value is stored as its node gives it, a constant as its readers take it.
static const struct review_node *decider(const struct review *r, const struct review_value *v) {
  if (v->producer >= 0)
    return &r->nodes[v->producer];
  for (int k = 0; k < v->n_readers; k++)
    if (r->nodes[v->readers[k]].format == v->format)
      return &r->nodes[v->readers[k]];
  return NULL;
}

static void print_value_outcome(const struct review *r, const struct review_value *v, FILE *out) {
  char factor[UNITS_TEXT];
  const struct review_node *n = decider(r, v);
  print_line("because", out);
  if (review_only_operand(r, v))
    escape_printf(out, "only products read it, and they read it so: see `explain` of them\n");
  else if (n)
    escape_printf(out, "node %s is %s: see `explain` of it\n", n->label, name_of(n->format));
  else
    escape_printf(out, v->producer < 0 && !v->constant
                           ? "the model's interface is kept\n"
                           : "its readers do not agree on a narrow format\n");
  print_line("otherwise", out);
  if (v->fit.reason != REASON_NONE) {
    escape_printf(out, "to pass for %s it takes ", name_of(r->ladder[0]));
    print_value_remedy(r, v, out);
  } else if (isnan(v->fit.headroom) || r->ladder[0] == FORMAT_FP32 || v->constant) {
    escape_printf(out, "it follows the nodes around it");
  } else {
    double margin = isnan(r->thresholds.margin) ? 1 : r->thresholds.margin;
    escape_printf(out,
                  v->format == FORMAT_FP32 ? "%s would hold it, until its magnitude grows %s times"
                                           : "it fails for %s if its magnitude grows %s times",
                  name_of(r->ladder[0]), units_factor(v->fit.headroom / margin, factor));
    if (margin != 1)
      escape_printf(out, ", since a margin of %.3g is kept", margin);
  }
  escape_printf(out, "\n");
}

static void explain_value(const struct review *r, const struct review_range *ranges,
                          const struct review_value *v, FILE *out) {
  escape_printf(out, "%s %s: ", v->constant ? "constant" : "tensor", v->label);
  if (review_only_operand(r, v))
    print_operand_copy(r, v, out);
  else
    fputs(name_of(v->format), out);
  if (v->scale_log2)
    escape_printf(out, ", scaled by 2^%d", v->scale_log2);
  if (v->fit.reason != REASON_NONE)
    escape_printf(out, "; fails for %s: %s", name_of(r->ladder[0]), reason_text(v->fit.reason));
  escape_printf(out, "\n");
  print_numbers(r, v, out);
  print_operand(r, v, out);
  if (ranges && !v->constant)
    print_range(&ranges[v->index], out);
  print_neighbours(r, v, out);
  if (!isnan(v->error)) {
    print_line("measured", out);
    escape_printf(out, "relative L2 error %.3g against fp32, emulated\n", v->error);
  }
  print_value_outcome(r, v, out);
}

// ---- a node ----

static void print_rule(const struct review *r, const struct review_node *n, FILE *out) {
  const struct review_rule *rule = review_find_rule(r, n->rule);
  print_line("rule", out);
  if (n->rule[0] == '\0')
    escape_printf(out, "none matches: class %s\n", n->class);
  else
    escape_printf(out, "%s (%s)%s%s\n", n->rule, n->class, rule && rule->why[0] ? ": " : "",
                  rule ? rule->why : "");
  if (n->pattern) {
    print_line("pattern", out);
    escape_printf(out, "part of a %s that is written out in single operators\n", n->pattern);
  }
}

enum { OPERANDS = 2 };  // inputs of a matrix product that it may read in a format of their own

static void print_ends(const struct review *r, const char *what, const struct review_end *ends,
                       int count, bool narrow_operands, FILE *out) {
  int shown = 0;
  print_line(what, out);
  for (int k = 0; k < count; k++) {
    if (!ends[k].label[0])
      continue;  // left out
    escape_printf(out, "%s%s", shown++ ? ", " : "", ends[k].label);
    if (ends[k].value < 0)
      continue;
    const struct review_value *v = &r->values[ends[k].value];
    bool as_operand = narrow_operands && k < OPERANDS && v->is_operand && r->has_operand_format;
    escape_printf(out, " (");
    if (!as_operand || !review_only_operand(r, v))
      print_stored(v->format, v->scale_log2, out);
    if (as_operand) {
      escape_printf(out, review_only_operand(r, v) ? "" : ", read in ");
      print_operand_copy(r, v, out);
    }
    escape_printf(out, ")");
  }
  escape_printf(out, shown ? "\n" : "none\n");
}

static void print_operands(const struct review *r, const struct review_node *n, FILE *out) {
  if (!n->product || !r->has_operand_format)
    return;
  print_line("operands", out);
  if (n->narrow_operands)
    escape_printf(out, "read in %s\n", name_of(r->operand_format));
  else
    escape_printf(out, "not read in %s: %s%s%s%s\n", name_of(r->operand_format),
                  reason_text(n->operands_reason), n->operands_because_of ? " (" : "",
                  n->operands_because_of ? n->operands_because_of : "",
                  n->operands_because_of ? ")" : "");
}

static void print_times(const struct review *r, const struct review_node *n, FILE *out) {
  bool any = false;
  for (int i = 0; i < r->n_ladder; i++) {
    double seconds = n->seconds[r->ladder[i]];
    if (isnan(seconds))
      continue;
    if (!any)
      print_line("modelled", out);
    escape_printf(out, "%s%.3g us in %s", any ? ", " : "", 1e6 * seconds, name_of(r->ladder[i]));
    any = true;
  }
  if (any)
    escape_printf(out, "%s%s; Casts not counted\n", r->target ? " on target " : "",
                  r->target ? r->target : "");
}

// Of the tensors that a narrow node reads and gives, the one nearest to the end of the range.
static const struct review_value *tightest(const struct review *r, const struct review_node *n) {
  const struct review_value *found = NULL;
  for (int k = 0; k < n->n_inputs + n->n_outputs; k++) {
    int v = k < n->n_inputs ? n->inputs[k].value : n->outputs[k - n->n_inputs].value;
    if (v < 0 || r->values[v].constant || isnan(r->values[v].fit.headroom))
      continue;
    if (!found || r->values[v].fit.headroom < found->fit.headroom)
      found = &r->values[v];
  }
  return found;
}

static void print_narrow_remedy(const struct review *r, const struct review_node *n, FILE *out) {
  char factor[UNITS_TEXT];
  const struct review_value *v = tightest(r, n);
  double margin = isnan(r->thresholds.margin) ? 1 : r->thresholds.margin;
  if (r->ladder[0] == FORMAT_FP32) {
    escape_printf(
        out, r->tf32 ? "nothing: tf32 is a setting of the runtime, and the model stays as it is"
                     : "nothing narrower was asked for: --format or --policy do that");
    return;
  }
  if (v && n->format == r->ladder[0] && v->scale_log2 == 0)
    escape_printf(out, "it fails for %s if %s grows %s times; ", name_of(n->format), v->label,
                  units_factor(v->fit.headroom / margin, factor));
  escape_printf(out, "it stays fp32 with --keep and its name");
}

static void print_node_remedy(const struct review *r, const struct review_node *n, FILE *out) {
  int v = n->because_of ? map_get(&r->values_by_label, 0, n->because_of) : -1;
  print_line("otherwise", out);
  if (n->reason == REASON_NONE)
    print_narrow_remedy(r, n, out);
  else if (n->reason == REASON_SCHEMA && n->opset > 0)
    escape_printf(out, "opset %d of the operator takes %s", n->opset, name_of(n->tried));
  else if (n->reason == REASON_SCHEMA)
    escape_printf(out, "no opset that the model could be raised to takes %s", name_of(n->tried));
  else if (v >= 0 && r->values[v].fit.reason != REASON_NONE) {
    escape_printf(out, "for %s it takes ", name_of(r->ladder[0]));
    print_value_remedy(r, &r->values[v], out);
  } else
    escape_printf(out, "it takes %s",
                  remedies[n->reason] ? remedies[n->reason] : "another tensor there");
  escape_printf(out, "\n");
}

static void explain_node(const struct review *r, const struct review_node *n, FILE *out) {
  escape_printf(out, "node %s (%s): %s", n->label, n->op,
                n->left_out ? "left out, since what reads its output reads its input instead"
                            : name_of(n->format));
  if (n->reason != REASON_NONE && !n->left_out)
    escape_printf(out, ", not %s: %s", name_of(n->tried), reason_text(n->reason));
  escape_printf(out, "\n");
  print_rule(r, n, out);
  int v = n->because_of ? map_get(&r->values_by_label, 0, n->because_of) : -1;
  if (n->because_of) {
    print_line("because", out);
    escape_printf(out, "of tensor %s", n->because_of);
    if (v >= 0 && r->values[v].fit.reason != REASON_NONE)
      escape_printf(out, ": %s", reason_text(r->values[v].fit.reason));
    escape_printf(out, "\n");
  }
  if (v >= 0)
    print_numbers(r, &r->values[v], out);
  print_ends(r, "reads", n->inputs, n->n_inputs, n->narrow_operands, out);
  print_ends(r, "gives", n->outputs, n->n_outputs, false, out);
  print_operands(r, n, out);
  print_times(r, n, out);
  for (int k = 0; k < n->n_outputs; k++) {
    int value = n->outputs[k].value;
    if (value < 0 || isnan(r->values[value].error))
      continue;
    print_line("measured", out);
    escape_printf(out, "%s: relative L2 error %.3g against fp32, emulated\n", n->outputs[k].label,
                  r->values[value].error);
  }
  print_node_remedy(r, n, out);
}

// ---- by name ----

static bool is_asked_for(const char *name, const char *label, bool exact) {
  return exact ? strcmp(name, label) == 0 : glob_match(name, label);
}

static enum status no_such_name(const struct review *r, const char *name, struct diag *d) {
  const char *near = NULL;
  const char *pair[3] = {NULL};
  for (int i = 0; i < r->n_nodes + r->n_values; i++) {
    pair[near != NULL] = i < r->n_nodes ? r->nodes[i].label : r->values[i - r->n_nodes].label;
    pair[0] = near ? near : pair[0];
    near = nearest_name(name, pair);
  }
  if (near)
    diag_hint(d, "Did you mean %s?", near);
  else
    diag_hint(d, "The plan lists the names: \"node\" and \"value\" in %s.", r->path);
  return diag_fail(d, STATUS_USAGE, "the plan has no node and no fp32 tensor \"%s\"", name);
}

enum status review_explain(const struct review *r, const struct review_range *ranges,
                           const char *name, FILE *out, struct diag *d) {
  bool exact =
      map_get(&r->nodes_by_label, 0, name) >= 0 || map_get(&r->values_by_label, 0, name) >= 0;
  int shown = 0;
  for (int n = 0; n < r->n_nodes; n++)
    if (is_asked_for(name, r->nodes[n].label, exact)) {
      escape_printf(out, shown++ ? "\n" : "");
      explain_node(r, &r->nodes[n], out);
    }
  for (int v = 0; v < r->n_values; v++)
    if (is_asked_for(name, r->values[v].label, exact)) {
      escape_printf(out, shown++ ? "\n" : "");
      explain_value(r, ranges, &r->values[v], out);
    }
  return shown ? STATUS_OK : no_such_name(r, name, d);
}
