// The report as Markdown for a pull request: the verdict and its claims, the limits, the costs, and
// of nodes and tensors those that a reviewer looks at first. Names come from models and may be any
// bytes: they are written as code spans, where nothing is a link, a mention or HTML.
#include "escape.h"
#include "format.h"
#include "plan.h"
#include "report.h"
#include "units.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A comment on a pull request may have 65,536 characters.
enum { MOST_ROWS = 20, MOST_NAME = 120 };

static const char *text_of(const struct json *object, const char *key) {
  const struct json *item = json_member(object, key);
  return json_is(item, JSON_STRING) ? item->text : "";
}

static double number_of(const struct json *object, const char *key) {
  double number;
  return json_to_number(json_member(object, key), &number) ? number : NAN;
}

static int length_of(const struct json *list) {
  return json_count(list);
}

static void put_code(const char *text, FILE *out) {
  escape_markdown_code(text, MOST_NAME, out);
}

static void put_number(double x, FILE *out) {
  if (isnan(x))
    fputs("-", out);
  else
    fprintf(out, "%.4g", x);
}

static void put_bytes(double bytes, FILE *out) {
  char text[UNITS_TEXT];
  fputs(units_bytes(bytes, text), out);
}

static void put_seconds(double seconds, FILE *out) {
  char text[UNITS_TEXT];
  fputs(units_seconds(seconds, text), out);
}

// ---- Sections ----

static bool holds(const struct json *verdict) {
  bool loads = json_is(json_member(verdict, "loads"), JSON_TRUE);
  return json_is(json_member(verdict, "holds"), JSON_TRUE) &&
         (loads || !json_is(json_member(verdict, "engine_has_kernels"), JSON_TRUE));
}

// What its reader has to do, or the claims are not of what runs.
static void put_conditions(const struct json *plan, const struct json *verdict, FILE *out) {
  if (json_is(json_member(json_member(plan, "settings"), "tf32"), JSON_TRUE))
    fputs(
        " tf32 is a setting of the runtime: the model is the source unchanged, and was judged with "
        "the operands of matrix products rounded to tf32.",
        out);
  if (json_is(json_member(verdict, "loads_only_with_disable_quant_qdq"), JSON_TRUE))
    fputs(" ONNX Runtime loads and runs it only if the session says "
          "`session.disable_quant_qdq = 1`.",
          out);
}

static void put_judged_on(const struct json *verdict, FILE *out) {
  double samples = number_of(verdict, "samples"),
         calibration = number_of(verdict, "calibration_samples");
  fprintf(out, "Judged by emulation beside fp32 on %.0f %ssample%s", samples,
          json_is(json_member(verdict, "held_out"), JSON_TRUE) ? "held-out " : "", PLURAL(samples));
  if (calibration > 0)
    fprintf(out, " and %.0f that calibrated", calibration);
  fputs(".", out);
}

// As report/src/data.js has it: nothing is narrow, so no verdict was made.
static bool is_unchanged(const struct json *plan, const struct json *verdict) {
  if (verdict || json_is(json_member(json_member(plan, "settings"), "tf32"), JSON_TRUE))
    return false;
  static const char *const lists[] = {"nodes", "values"};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    const struct json *item = json_first(json_member(plan, lists[i]));
    for (; item; item = item->next) {
      const char *format = text_of(item, "format");
      if (json_member(item, "operands") ||
          (strcmp(format, "fp32") != 0 && strcmp(format, "fp64") != 0))
        return false;
    }
  }
  return true;
}

static const char *holding_text(const struct json *verdict) {
  if (!length_of(json_member(verdict, "claims")))
    return "Nothing promised: no claim applies.";
  return length_of(json_member(verdict, "idle_claims")) ? "Every claim that judged anything holds."
                                                        : "Every claim holds.";
}

static void put_heading(const char *title, const struct json *plan, const struct json *verdict,
                        FILE *out) {
  const struct json *policy = json_member(plan, "policy"),
                    *statistics = json_member(plan, "statistics");
  fputs("## Precision plan of ", out);
  put_code(title ? title : text_of(json_member(plan, "model"), "file"), out);
  fputs("\n\n**", out);
  if (is_unchanged(plan, verdict))
    fputs("Unchanged: nothing to convert under this policy.**", out);
  else if (!verdict)
    fputs("Not verified.** No verdict was given with this plan.", out);
  else if (holds(verdict))
    fprintf(out, "%s** ", holding_text(verdict));
  else
    fprintf(out, "Refused:** %s. ",
            json_is(json_member(verdict, "holds"), JSON_TRUE)
                ? "ONNX Runtime does not load or run the result"
                : "a claim does not hold");
  if (verdict)
    put_judged_on(verdict, out);
  if (strcmp(text_of(statistics, "source"), "synthetic") == 0 ||
      json_is(json_member(verdict, "synthetic"), JSON_TRUE))
    fputs(" Nothing real was measured: inputs were made up.", out);
  put_conditions(plan, verdict, out);
  fputs("\n\nPolicy ", out);
  put_code(text_of(policy, "name"), out);
  fprintf(out, " version %.0f; ranges from %.0f calibration sample%s; model SHA-256 ",
          json_member(policy, "version")->number, json_member(statistics, "samples")->number,
          PLURAL(json_member(statistics, "samples")->number));
  put_code(text_of(json_member(plan, "model"), "sha256"), out);
  fputs(".\n", out);
}

// Of the plan's costs, or of a verdict.
static void put_drawbacks(const struct json *from, FILE *out) {
  const struct json *drawback, *list = json_member(from, "drawbacks");
  for (drawback = json_first(list); drawback; drawback = drawback->next) {
    fputs("\n**Drawback.** ", out);
    escape_markdown(text_of(drawback, "text"), out);
    fputs("\n", out);
  }
}

static void put_idle_claims(const struct json *verdict, FILE *out) {
  const struct json *claim = json_first(json_member(verdict, "idle_claims"));
  for (; claim; claim = claim->next) {
    fputs("\n**Not judged.** ", out);
    escape_markdown(text_of(claim, "text"), out);
    fputs("\n", out);
  }
}

static void put_few_samples(const struct json *verdict, FILE *out) {
  if (!*text_of(verdict, "few_samples"))
    return;
  fputs("\n**Few samples.** ", out);
  escape_markdown(text_of(verdict, "few_samples"), out);
  fputs("\n", out);
}

// Of an engine's version what versions are made of.
static void put_version(const char *version, FILE *out) {
  for (; isalnum((unsigned char)*version) || *version == '.'; version++)
    fputc(*version, out);
}

// What the engine says where the result does not load or run.
static void put_load_errors(const struct json *verdict, FILE *out) {
  const struct json *error = json_first(json_member(verdict, "load_errors"));
  if (*text_of(verdict, "kernels_missing")) {
    fputs("\nONNX Runtime has no ", out);
    put_code(text_of(verdict, "kernels_missing"), out);
    fputs(" kernels for the CPU and does not load the result; the verdict is from emulation.\n",
          out);
    return;
  }
  for (; error; error = error->next) {
    fputs("\nAt optimisation level ", out);
    put_code(text_of(error, "level"), out);
    fputs(" the result does not load or run: ", out);
    escape_markdown(text_of(error, "error"), out);
    fputs("\n", out);
  }
}

static bool is_lower_bound(const char *metric) {
  return strcmp(metric, "cosine") == 0 || strcmp(metric, "sqnr_db") == 0 ||
         strcmp(metric, "top1") == 0 || strcmp(metric, "matched_rows") == 0;
}

// One of the figures of a claim; where it has none, that at `otherwise`.
static void put_measured(const struct json *claim, const char *key, const char *otherwise,
                         FILE *out) {
  char text[UNITS_TEXT];
  double measured = number_of(claim, json_member(claim, key) || !otherwise ? key : otherwise);
  if (isnan(measured))
    fputs(" | -", out);
  else
    fprintf(out, " | %s", units_measured(measured, number_of(claim, "limit"), text));
}

static void put_claim(const struct json *claim, int of, FILE *out) {
  fputs(json_is(json_member(claim, "holds"), JSON_TRUE) ? "| holds | " : "| **FAILS** | ", out);
  put_code(text_of(claim, "metric"), out);
  fputs(" | ", out);
  put_code(text_of(claim, "output"), out);
  if (of > 1)
    fprintf(out, ", worst of %d", of);
  put_measured(claim, "measured", NULL, out);
  bool two_sets = json_member(claim, "measured_calibration");
  put_measured(claim, "measured_held_out", two_sets ? NULL : "measured", out);
  put_measured(claim, "measured_calibration", NULL, out);
  put_measured(claim, "measured_in_engine", NULL, out);
  fprintf(out, " | at %s %.15g | ", is_lower_bound(text_of(claim, "metric")) ? "least" : "most",
          number_of(claim, "limit"));
  if (*text_of(claim, "worst_sample"))
    put_code(text_of(claim, "worst_sample"), out);
  fputs(" |\n", out);
}

static bool is_worse(const struct json *x, const struct json *y) {
  double difference = number_of(x, "measured") - number_of(y, "measured");
  return is_lower_bound(text_of(x, "metric")) ? difference < 0 : difference > 0;
}

// Of the outputs that hold a claim the worst; claims are in order of their id. Returns what
// follows.
static const struct json *put_holding(const struct json *first, FILE *out) {
  const struct json *claim = first, *worst = NULL;
  int holding = 0;
  for (; claim && strcmp(text_of(claim, "id"), text_of(first, "id")) == 0; claim = claim->next) {
    if (!json_is(json_member(claim, "holds"), JSON_TRUE))
      continue;
    holding++;
    worst = !worst || is_worse(claim, worst) ? claim : worst;
  }
  if (worst)
    put_claim(worst, holding, out);
  return claim;
}

// Each output that fails a claim, and of those that hold it the worst.
static void put_claims(const struct json *verdict, FILE *out) {
  const struct json *claims = json_member(verdict, "claims"), *claim;
  int failing = 0;
  if (!length_of(claims))
    return;
  fputs("\n### Claims\n\n| | claim | output | measured | held out | calibration | in ONNX Runtime ",
        out);
  put_version(text_of(verdict, "engine"), out);
  fputs(" | limit | worst sample |\n|---|---|---|---:|---:|---:|---:|---:|---|\n", out);
  for (claim = json_first(claims); claim; claim = claim->next) {
    if (!json_is(json_member(claim, "holds"), JSON_TRUE) && failing++ < MOST_ROWS)
      put_claim(claim, 1, out);
  }
  for (claim = claims->first; claim;)
    claim = put_holding(claim, out);
  if (failing > MOST_ROWS)
    fprintf(out, "\n%d more fail; they are in the HTML report.\n", failing - MOST_ROWS);
}

static void put_limits(const struct json *plan, FILE *out) {
  const struct json *limit;
  if (!length_of(json_member(plan, "limits")))
    return;
  fputs("\n### What the claims do not cover\n\n", out);
  for (limit = json_first(json_member(plan, "limits")); limit; limit = limit->next) {
    fputs("- ", out);
    escape_markdown(text_of(limit, "text"), out);
    fputs("\n", out);
  }
}

static void put_cost(const struct json *cost, const char *key, const char *name,
                     void (*put)(double, FILE *), FILE *out) {
  const struct json *pair = json_member(cost, key);
  double before = number_of(pair, "before"), after = number_of(pair, "after");
  if (!pair)
    return;
  fprintf(out, "| %s | ", name);
  put(before, out);
  fputs(" | ", out);
  put(after, out);
  if (before > 0)
    fprintf(out, " | %.0f %% |\n", 100 * after / before);
  else
    fputs(" | |\n", out);
}

static void put_costs(const struct json *plan, FILE *out) {
  const struct json *cost = json_member(plan, "cost");
  if (!cost)
    return;
  fputs("\n### Cost of a run, modelled for target ", out);
  put_code(text_of(json_member(cost, "modelled_for"), "target"), out);
  fputs("\n\n| | fp32 | planned | |\n|---|---|---|---|\n", out);
  put_cost(cost, "seconds", "time", put_seconds, out);
  put_cost(cost, "traffic_bytes", "bytes moved", put_bytes, out);
  put_cost(cost, "constant_bytes", "constants", put_bytes, out);
  put_cost(cost, "activation_bytes", "activations", put_bytes, out);
}

// Nodes that have the string `wanted` at `key`.
static int count_with(const struct json *nodes, const char *key, const char *wanted) {
  const struct json *node;
  int count = 0;
  for (node = json_first(nodes); node; node = node->next) {
    count += strcmp(text_of(node, key), wanted) == 0;
  }
  return count;
}

// Nodes that stay fp32, operands and all, for that reason.
static int count_wide(const struct json *nodes, const char *reason) {
  const struct json *node;
  int count = 0;
  for (node = json_first(nodes); node; node = node->next) {
    count += strcmp(text_of(node, "reason"), reason) == 0 && !json_member(node, "operands") &&
             strcmp(text_of(node, "format"), "fp32") == 0;
  }
  return count;
}

// As the summary's print_wanted_opset.
static void put_wanted_opset(const struct json *nodes, int kept, FILE *out) {
  double wanted = 0;
  int freed = 0;
  for (const struct json *node = json_first(nodes); node; node = node->next) {
    double opset = number_of(node, "allowed_from_opset");
    if (strcmp(text_of(node, "reason"), reason_name(REASON_SCHEMA)) != 0 || !(opset > 0))
      continue;
    freed += strcmp(text_of(node, "format"), "fp32") == 0;
    wanted = opset > wanted ? opset : wanted;
  }
  if (freed >= kept)
    fprintf(out, " (--raise-opset %.0f would do)", wanted);
  else if (freed > 0)
    fprintf(out, " (--raise-opset %.0f would do for %d of them)", wanted, freed);
}

static void put_formats(const struct json *nodes, FILE *out) {
  fprintf(out, "\n### Nodes\n\n%d node%s with floats:", length_of(nodes), PLURAL(length_of(nodes)));
  const char *comma = "";
  for (int f = 0; f < FORMAT_COUNT; f++) {
    int count = count_with(nodes, "format", formats[f].name);
    if (!count)
      continue;
    fprintf(out, "%s %d %s", comma, count, formats[f].name);
    comma = ",";
  }
  for (int f = 0; f < FORMAT_COUNT; f++) {
    int count = count_with(nodes, "operands", formats[f].name);
    if (count)
      fprintf(out, "; %d read their operands in %s", count, formats[f].name);
  }
  fputs(".\n\n", out);
  const char *heading = "| nodes | kept wide because |\n|---:|---|\n";
  for (int k = 0; k < REASON_COUNT; k++) {
    int count = count_wide(nodes, reason_name((enum reason)k));
    if (!count)
      continue;
    fprintf(out, "%s| %d | %s", heading, count, reason_text((enum reason)k));
    if (k == REASON_SCHEMA)
      put_wanted_opset(nodes, count, out);
    fputs(" |\n", out);
    heading = "";
  }
}

static void put_promotions(const struct json *plan, FILE *out) {
  const struct json *list = json_member(plan, "promotions"), *item;
  int rows = 0;
  if (!length_of(list))
    return;
  fputs("\n### Promoted to meet the claims\n\n| round | tensor | from | to | its own error |\n"
        "|---:|---|---|---|---:|\n",
        out);
  for (item = json_first(list); item; item = item->next) {
    if (rows++ >= MOST_ROWS)
      break;
    fprintf(out, "| %.0f | ", json_member(item, "round")->number);
    put_code(text_of(item, "value"), out);
    fputs(" | ", out);
    put_code(text_of(item, "from"), out);
    fputs(" | ", out);
    put_code(text_of(item, "to"), out);
    fputs(" | ", out);
    put_number(number_of(item, "error"), out);
    fputs(" |\n", out);
  }
  if (length_of(list) > MOST_ROWS)
    fprintf(out, "\n%d more are in the HTML report.\n", length_of(list) - MOST_ROWS);
}

// A value's number that rows are sorted by, and its place in the file, which decides ties.
struct ranked {
  const struct json *value;
  double number;
  int place;
};

static int smallest_first(const void *x, const void *y) {
  const struct ranked *a = x, *b = y;
  if (a->number != b->number)
    return a->number < b->number ? -1 : 1;
  return a->place - b->place;
}

// The values that have a number at `key`, by sign * number; *n says how many. Malloc'ed.
static struct ranked *rank(const struct json *values, const char *key, double sign,
                           bool narrow_only, size_t *n) {
  const struct json *value;
  struct ranked *list = malloc(((size_t)length_of(values) + 1) * sizeof *list);
  if (!list)
    out_of_memory((size_t)length_of(values) * sizeof *list);
  *n = 0;
  for (value = json_first(values); value; value = value->next) {
    double number = number_of(value, key);
    if (!isnan(number) && !(narrow_only && strcmp(text_of(value, "format"), "fp32") == 0))
      list[(*n)++] = (struct ranked){value, sign * number, (int)*n};
  }
  qsort(list, *n, sizeof *list, smallest_first);
  return list;
}

static void put_name(const struct json *value, FILE *out) {
  put_code(text_of(value, "value"), out);
  if (*text_of(value, "scope")) {
    fputs(" in ", out);
    put_code(text_of(value, "scope"), out);
  }
}

static void put_tightest(const struct json *plan, FILE *out) {
  size_t n;
  struct ranked *list = rank(json_member(plan, "values"), "headroom", 1, true, &n);
  if (n)
    fputs("\n### Narrow tensors with the least headroom\n\n| tensor | format | scale | largest "
          "magnitude | headroom | become zero | become subnormal |\n"
          "|---|---|---:|---:|---:|---:|---:|\n",
          out);
  for (size_t i = 0; i < n && i < MOST_ROWS; i++) {
    const struct json *value = list[i].value;
    fputs("| ", out);
    put_name(value, out);
    fputs(" | ", out);
    put_code(text_of(value, "format"), out);
    double scale = number_of(value, "scale_log2");
    fprintf(out, " | 2^%.0f | ", isnan(scale) ? 0 : scale);
    put_number(number_of(value, "absmax"), out);
    fputs(" | ", out);
    put_number(number_of(value, "headroom"), out);
    fputs(" | ", out);
    put_number(number_of(value, "zero_fraction"), out);
    fputs(" | ", out);
    put_number(number_of(value, "subnormal_fraction"), out);
    fputs(" |\n", out);
  }
  free(list);
}

static void put_worst(const struct json *verdict, FILE *out) {
  size_t n;
  struct ranked *list = rank(json_member(verdict, "values"), "relative_l2", -1, false, &n);
  if (n)
    fputs("\n### Tensors with the largest error\n\n| tensor | relative L2 | largest absolute |\n"
          "|---|---:|---:|\n",
          out);
  for (size_t i = 0; i < n && i < MOST_ROWS; i++) {
    fputs("| ", out);
    put_name(list[i].value, out);
    fputs(" | ", out);
    put_number(number_of(list[i].value, "relative_l2"), out);
    fputs(" | ", out);
    put_number(number_of(list[i].value, "max_abs"), out);
    fputs(" |\n", out);
  }
  free(list);
}

void report_markdown(const struct report *r, FILE *out) {
  const struct json *plan = r->parts[REPORT_PLAN].root, *verdict = r->parts[REPORT_VERDICT].root;
  put_heading(r->title, plan, verdict, out);
  put_drawbacks(json_member(plan, "cost"), out);
  put_drawbacks(verdict, out);
  put_idle_claims(verdict, out);
  put_few_samples(verdict, out);
  put_load_errors(verdict, out);
  put_claims(verdict, out);
  put_limits(plan, out);
  put_costs(plan, out);
  put_formats(json_member(plan, "nodes"), out);
  put_promotions(plan, out);
  put_tightest(plan, out);
  put_worst(verdict, out);
  fprintf(out, "\nWritten by narrowcast " NARROWCAST_VERSION ".\n");
}
