// Summary files of a zoo: see summary_zoo.h. One table of columns serves CSV and Markdown.
#include "summary_zoo.h"

#include "escape.h"
#include "file.h"
#include "plan.h"
#include "units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- totals ----

static int compare_wide(const void *a, const void *b) {
  const struct wide_total *x = a, *y = b;
  if (x->nodes != y->nodes)
    return x->nodes > y->nodes ? -1 : 1;
  return strcmp(x->reason, y->reason);
}

static void add_wide(struct totals *t, const struct wide *w, size_t *capacity, struct arena *a) {
  size_t i = 0;
  while (i < t->n_wide && strcmp(t->wide[i].reason, w->reason) != 0)
    i++;
  if (i == t->n_wide) {
    t->wide = arena_grow(a, t->wide, capacity, i + 1, sizeof *t->wide);
    t->wide[t->n_wide++].reason = w->reason;
  }
  t->wide[i].nodes += w->nodes;
  t->wide[i].models++;
}

static void add_drawbacks(struct totals *t, const char *ids) {
  for (const char *at = ids; at && *at;) {
    size_t length = strcspn(at, " "), i = 0;
    while (i < t->n_drawbacks && ((size_t)t->drawbacks[i].length != length ||
                                  strncmp(t->drawbacks[i].id, at, length) != 0))
      i++;
    if (i == t->n_drawbacks && i < sizeof t->drawbacks / sizeof t->drawbacks[0])
      t->drawbacks[t->n_drawbacks++] = (struct drawback_total){at, (int)length, 0};
    if (i < t->n_drawbacks)
      t->drawbacks[i].models++;
    at += length + (at[length] == ' ');
  }
}

void summary_zoo_add_up(struct totals *t, struct result *const *results, size_t count,
                        struct arena *a) {
  *t = (struct totals){.models = count};
  size_t capacity = 0;
  for (size_t i = 0; i < count; i++) {
    const struct result *r = results[i];
    t->by_outcome[r->outcome]++;
    t->seconds += r->seconds;
    t->claims += r->claims;
    t->claims_held += r->claims_held;
    t->judged += r->statistics != NULL;
    t->made_up += r->statistics && strcmp(r->statistics, "data") != 0;
    if (r->outcome != OUTCOME_CONVERTED && r->outcome != OUTCOME_UNCHANGED)
      continue;
    t->float_nodes += r->float_nodes;
    t->narrow_nodes += r->narrow_nodes;
    t->casts += r->casts;
    t->with_drawbacks += r->drawbacks != NULL;
    add_drawbacks(t, r->drawbacks);
    t->bytes_before += r->bytes_before;
    t->bytes_after += r->bytes_after;
    for (size_t k = 0; k < r->n_wide; k++)
      add_wide(t, &r->wide[k], &capacity, a);
  }
  if (t->n_wide)
    qsort(t->wide, t->n_wide, sizeof *t->wide, compare_wide);
}

enum status summary_zoo_status(struct result *const *results, size_t count) {
  bool io = false, refused = false;
  for (size_t i = 0; i < count; i++) {
    if (results[i]->outcome == OUTCOME_FAILED && results[i]->status == STATUS_ENGINE)
      return STATUS_ENGINE;
    io = io || results[i]->outcome == OUTCOME_FAILED;
    refused = refused || results[i]->outcome == OUTCOME_REFUSED;
  }
  return io ? STATUS_IO : refused ? STATUS_CLAIM : STATUS_OK;
}

const char *summary_zoo_reason(const char *name) {
  for (int k = 0; k < REASON_COUNT; k++)
    if (strcmp(reason_name((enum reason)k), name) == 0)
      return reason_text((enum reason)k);
  return name;
}

// ---- columns ----

struct column {
  const char *key;    // in CSV
  const char *title;  // in Markdown
  bool number;
  bool repeatable;                                 // the same for each run of the same zoo
  void (*put)(const struct result *r, FILE *out);  // nothing where there is no value
};

void summary_zoo_share(FILE *out, double part, double whole) {
  if (whole > 0)
    fprintf(out, "%.1f %%", 100 * part / whole);
  else
    fputs("-", out);
}

void summary_zoo_bytes(FILE *out, double bytes) {
  char text[UNITS_TEXT];
  fputs(units_bytes(bytes, text), out);
}

const char *summary_zoo_inputs(const struct result *r) {
  return !r->statistics ? "" : strcmp(r->statistics, "data") == 0 ? "real" : "made up";
}

static void put_model(const struct result *r, FILE *out) {
  fputs(r->name, out);
}
static void put_outcome(const struct result *r, FILE *out) {
  fputs(outcome_name(r->outcome), out);
}
static void put_reason(const struct result *r, FILE *out) {
  fputs(r->reason ? r->reason : "", out);
}
static void put_policy(const struct result *r, FILE *out) {
  fputs(r->policy ? r->policy : "", out);
}
static void put_adjustments(const struct result *r, FILE *out) {
  fputs(r->adjustments ? r->adjustments : "", out);
}
static void put_inputs(const struct result *r, FILE *out) {
  fputs(summary_zoo_inputs(r), out);
}
static void put_float_nodes(const struct result *r, FILE *out) {
  if (r->policy)
    fprintf(out, "%d", r->float_nodes);
}
static void put_narrow_nodes(const struct result *r, FILE *out) {
  if (r->policy)
    fprintf(out, "%d", r->narrow_nodes);
}
static void put_share(const struct result *r, FILE *out) {
  if (r->policy && r->float_nodes)
    fprintf(out, "%.4f", (double)r->narrow_nodes / r->float_nodes);
}
static void put_casts(const struct result *r, FILE *out) {
  if (r->policy)
    fprintf(out, "%d", r->casts);
}
// An id that is not known stands for itself, as far as it is made of what ids are made of: it may
// come from a file of another program.
static void put_drawback(FILE *out, const char *id, int length) {
  static const char *const texts[][2] = {{"operands", "no operand in the policy's format"},
                                         {"time", "no faster"},
                                         {"traffic", "moves more memory"},
                                         {"engine", "misses a claim in the engine"},
                                         {"sample", "one sample misses a claim"}};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (strlen(texts[i][0]) == (size_t)length && strncmp(texts[i][0], id, (size_t)length) == 0) {
      fputs(texts[i][1], out);
      return;
    }
  for (int i = 0; i < length; i++)
    putc(isalnum((unsigned char)id[i]) || id[i] == '_' ? id[i] : '?', out);
}
void summary_zoo_drawbacks(FILE *out, const struct result *r) {
  for (const char *at = r->drawbacks; at && *at;) {
    size_t length = strcspn(at, " ");
    fputs(at == r->drawbacks ? "" : ", ", out);
    put_drawback(out, at, (int)length);
    at += length + (at[length] == ' ');
  }
}
void summary_zoo_drawback_counts(FILE *out, const struct totals *t) {
  for (size_t i = 0; i < t->n_drawbacks; i++) {
    fprintf(out, "%s%zu ", i ? ", " : "", t->drawbacks[i].models);
    put_drawback(out, t->drawbacks[i].id, t->drawbacks[i].length);
  }
}
static void put_drawbacks(const struct result *r, FILE *out) {
  summary_zoo_drawbacks(out, r);
}
static void put_before(const struct result *r, FILE *out) {
  fprintf(out, "%.0f", r->bytes_before);
}
static void put_after(const struct result *r, FILE *out) {
  if (r->bytes_after > 0)
    fprintf(out, "%.0f", r->bytes_after);
}
static void put_error(const struct result *r, FILE *out) {
  if (r->has_error)
    fprintf(out, "%.3g", r->worst_error);
}
static void put_claims(const struct result *r, FILE *out) {
  if (r->claims)
    fprintf(out, "%d", r->claims);
}
static void put_claims_held(const struct result *r, FILE *out) {
  if (r->claims)
    fprintf(out, "%d", r->claims_held);
}
static void put_seconds(const struct result *r, FILE *out) {
  fprintf(out, "%.2f", r->seconds);
}
static void put_peak(const struct result *r, FILE *out) {
  fprintf(out, "%.0f", r->peak_bytes / (1024 * 1024));
}
static void put_expected(const struct result *r, FILE *out) {
  fprintf(out, "%.0f", r->expected_bytes / (1024 * 1024));
}

static const struct column columns[] = {
    {"model", "Model", false, true, put_model},
    {"outcome", "Outcome", false, true, put_outcome},
    {"policy", "Policy", false, true, put_policy},
    {"inputs", "Inputs", false, true, put_inputs},
    {"float_nodes", "Float nodes", true, true, put_float_nodes},
    {"narrow_nodes", "Narrow", true, true, put_narrow_nodes},
    {"narrow_share", "Share", true, true, put_share},
    {"adjustments", "Adjusted by", false, true, put_adjustments},
    {"casts", "Casts", true, true, put_casts},
    {"drawbacks", "Drawbacks", false, true, put_drawbacks},
    {"bytes_before", "Bytes before", true, true, put_before},
    {"bytes_after", "Bytes after", true, true, put_after},
    {"worst_relative_l2", "Worst relative L2", true, true, put_error},
    {"claims", "Claims", true, true, put_claims},
    {"claims_held", "Held", true, true, put_claims_held},
    {"seconds", "Seconds", true, false, put_seconds},
    {"peak_mib", "Peak MiB", true, false, put_peak},
    {"expected_mib", "Expected MiB", true, false, put_expected},
    {"reason", "Why not", false, true, put_reason},
    {0},
};

static char *cell(const struct column *c, const struct result *r, struct arena *a) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (!out)
    out_of_memory(0);
  c->put(r, out);
  if (fclose(out) != 0)
    out_of_memory(length);
  char *copy = arena_strdup(a, text);
  free(text);
  return copy;
}

// ---- CSV (RFC 4180, but for line ends that Unix tools take) ----

// Spreadsheets run a field that begins like a formula; with a ' in front it is text to them, and so
// are options behind a word. What drives a terminal is shown as elsewhere (escape.h). summary.json
// has all as it is.
static void csv_text(FILE *out, const char *text) {
  bool quoted = strpbrk(text, "\",\r\n");
  if (quoted)
    putc('"', out);
  if (*text && strchr("=+-@\t\r", *text))
    putc('\'', out);
  while (*text) {
    if (*text == '"')
      putc('"', out);
    text += escape_character(text, out);
  }
  if (quoted)
    putc('"', out);
}

// The columns that are the same for each run, or the model and the others.
static void write_csv(struct result *const *results, size_t count, bool repeatable, FILE *out) {
  for (size_t i = 0; i <= count; i++) {
    struct arena scratch = {0};
    bool first = true;
    for (const struct column *c = columns; c->key; c++) {
      if (c != columns && c->repeatable != repeatable)
        continue;
      if (!first)
        putc(',', out);
      first = false;
      const char *text = i == 0 ? c->key : cell(c, results[i - 1], &scratch);
      if (c->put == put_adjustments && i > 0 && *text)
        text = arena_printf(&scratch, "with %s", text);
      if (c->number)
        fputs(text, out);
      else
        csv_text(out, text);
    }
    putc('\n', out);
    arena_free(&scratch);
  }
}

// ---- Markdown ----

static void markdown_totals(const struct totals *t, FILE *out) {
  fprintf(out, "%zu model%s:", t->models, PLURAL(t->models));
  for (int o = 0; o < OUTCOME_COUNT; o++)
    fprintf(out, "%s %zu %s", o ? "," : "", t->by_outcome[o], outcome_name((enum outcome)o));
  fprintf(out, ". Of those written: %" PRId64 " of %" PRId64 " float nodes narrow (",
          t->narrow_nodes, t->float_nodes);
  summary_zoo_share(out, (double)t->narrow_nodes, (double)t->float_nodes);
  fprintf(out, "), %" PRId64 " Casts, %.0f bytes before and %.0f after (", t->casts,
          t->bytes_before, t->bytes_after);
  summary_zoo_share(out, t->bytes_after, t->bytes_before);
  fprintf(out, "); %zu with a drawback", t->with_drawbacks);
  if (t->n_drawbacks) {
    fputs(": ", out);
    summary_zoo_drawback_counts(out, t);
  }
  fputs(".\n", out);
  if (t->made_up)
    fprintf(out,
            "\n**%zu of %zu models %s judged on made-up inputs, which say little of real data.**\n",
            t->made_up, t->judged, t->made_up == 1 ? "was" : "were");
}

static void write_markdown(struct result *const *results, size_t count, const struct totals *t,
                           FILE *out) {
  fputs("# Zoo\n\n", out);
  markdown_totals(t, out);
  for (int row = -2; row < (int)count; row++) {
    struct arena scratch = {0};
    fputs(row == -2 ? "\n|" : "|", out);
    for (const struct column *c = columns; c->key; c++) {
      if (!c->repeatable)
        continue;
      if (row == -1) {
        fputs(c->number ? "---:|" : "---|", out);
        continue;
      }
      putc(' ', out);
      escape_markdown(row < 0 ? c->title : cell(c, results[row], &scratch), out);
      fputs(" |", out);
    }
    putc('\n', out);
    arena_free(&scratch);
  }
  if (t->n_wide)
    fputs("\n| What kept nodes in fp32 | Nodes | Models |\n|---|---:|---:|\n", out);
  for (size_t i = 0; i < t->n_wide; i++) {
    fputs("| ", out);
    escape_markdown(summary_zoo_reason(t->wide[i].reason), out);
    fprintf(out, " | %" PRId64 " | %zu |\n", t->wide[i].nodes, t->wide[i].models);
  }
}

// ---- JSON ----

static void json_row(struct json_writer *w, const struct result *r) {
  json_object(w, NULL);
  json_string(w, "model", r->name);
  json_string(w, "folder", r->folder);
  json_string(w, "outcome", outcome_name(r->outcome));
  json_integer(w, "status", r->status);
  if (r->reason)
    json_string(w, "reason", r->reason);
  json_number(w, "bytes_before", r->bytes_before);
  if (r->bytes_after > 0)
    json_number(w, "bytes_after", r->bytes_after);
  if (r->policy) {
    json_string(w, "policy", r->policy);
    if (r->adjustments)
      json_string(w, "adjustments", r->adjustments);
    json_string(w, "statistics", r->statistics ? r->statistics : "");
    result_write_figures(r, w);
  }
  json_end_object(w);
}

void summary_zoo_json(struct result *const *results, size_t count, const struct totals *t,
                      FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 2};
  json_object(&w, NULL);
  json_integer(&w, "schema", 1);
  json_object(&w, "totals");
  json_integer(&w, "models", (int64_t)t->models);
  for (int o = 0; o < OUTCOME_COUNT; o++)
    json_integer(&w, outcome_name((enum outcome)o), (int64_t)t->by_outcome[o]);
  json_integer(&w, "float_nodes", t->float_nodes);
  json_integer(&w, "narrow_nodes", t->narrow_nodes);
  json_integer(&w, "casts", t->casts);
  json_integer(&w, "with_drawbacks", (int64_t)t->with_drawbacks);
  json_integer(&w, "on_made_up_inputs", (int64_t)t->made_up);
  json_integer(&w, "claims", t->claims);
  json_integer(&w, "claims_held", t->claims_held);
  json_number(&w, "bytes_before", t->bytes_before);
  json_number(&w, "bytes_after", t->bytes_after);
  json_end_object(&w);
  json_array(&w, "kept_fp32");
  for (size_t i = 0; i < t->n_wide; i++) {
    json_object(&w, NULL);
    json_string(&w, "reason", t->wide[i].reason);
    json_string(&w, "text", summary_zoo_reason(t->wide[i].reason));
    json_integer(&w, "nodes", t->wide[i].nodes);
    json_integer(&w, "models", (int64_t)t->wide[i].models);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_array(&w, "models");
  for (size_t i = 0; i < count; i++)
    json_row(&w, results[i]);
  json_end_array(&w);
  json_end_object(&w);
}

// ---- text ----

// The models that are not converted, with the reason.
static void print_not_converted(struct result *const *results, size_t count, FILE *to) {
  enum { MOST_MODELS = 20 };
  size_t shown = 0, all = 0;
  for (size_t i = 0; i < count; i++) {
    const struct result *r = results[i];
    if (r->outcome != OUTCOME_REFUSED && r->outcome != OUTCOME_FAILED)
      continue;
    all++;
    if (shown == MOST_MODELS)
      continue;
    shown++;
    fprintf(to, "%-12s ", outcome_name(r->outcome));
    escape_terminal(r->name, to);
    fputs(": ", to);
    escape_terminal(r->reason ? r->reason : "", to);
    putc('\n', to);
  }
  if (all > shown)
    fprintf(to, "             and %zu more: see summary.csv\n", all - shown);
}

void summary_zoo_text(struct result *const *results, size_t count, const struct totals *t,
                      const char *out, FILE *to) {
  enum { MOST_REASONS = 5 };
  fprintf(to, "models       %zu:", t->models);
  for (int o = 0; o < OUTCOME_COUNT; o++)
    fprintf(to, "%s %zu %s", o ? "," : "", t->by_outcome[o], outcome_name((enum outcome)o));
  fprintf(to, "\nnarrow       %" PRId64 " of %" PRId64 " float nodes of what is written (",
          t->narrow_nodes, t->float_nodes);
  summary_zoo_share(to, (double)t->narrow_nodes, (double)t->float_nodes);
  fprintf(to, "), %" PRId64 " Casts\nsize         ", t->casts);
  summary_zoo_bytes(to, t->bytes_before);
  fputs(" -> ", to);
  summary_zoo_bytes(to, t->bytes_after);
  fputs(" (", to);
  summary_zoo_share(to, t->bytes_after, t->bytes_before);
  fprintf(to, ")\n");
  if (t->with_drawbacks) {
    fprintf(to, "drawbacks    %zu of what is written: ", t->with_drawbacks);
    summary_zoo_drawback_counts(to, t);
    putc('\n', to);
  }
  for (size_t i = 0; i < t->n_wide && i < MOST_REASONS; i++)
    fprintf(to, "%s %6" PRId64 " node%s of %zu model%s: %s\n", i ? "            " : "stay fp32   ",
            t->wide[i].nodes, PLURAL(t->wide[i].nodes), t->wide[i].models,
            PLURAL(t->wide[i].models), summary_zoo_reason(t->wide[i].reason));
  print_not_converted(results, count, to);
  if (t->made_up)
    fprintf(to,
            "note         %zu of %zu models %s judged on made-up inputs, which say little of real "
            "data\n",
            t->made_up, t->judged, t->made_up == 1 ? "was" : "were");
  fprintf(to, "wrote        %s/index.html, summary.json, summary.csv, summary.md, times.csv\n",
          out);
}

// ---- files ----

enum kind { KIND_JSON, KIND_CSV, KIND_TIMES, KIND_MARKDOWN, KIND_HTML, KIND_COUNT };
_Static_assert((int)KIND_COUNT == (int)SUMMARY_ZOO_FILES, "each kind is a file");

const char *const summary_zoo_files[SUMMARY_ZOO_FILES] = {
    [KIND_JSON] = "summary.json",   [KIND_CSV] = "summary.csv", [KIND_TIMES] = "times.csv",
    [KIND_MARKDOWN] = "summary.md", [KIND_HTML] = "index.html",
};

static enum status write_file(enum kind kind, struct result *const *results, size_t count,
                              const struct totals *t, const char *out, struct arena *a,
                              struct diag *d) {
  struct file_writer w = {0};
  TRY(file_begin(&w, arena_printf(a, "%s/%s", out, summary_zoo_files[kind]), d));
  switch (kind) {
  case KIND_JSON: summary_zoo_json(results, count, t, w.out); break;
  case KIND_CSV: write_csv(results, count, true, w.out); break;
  case KIND_TIMES: write_csv(results, count, false, w.out); break;
  case KIND_MARKDOWN: write_markdown(results, count, t, w.out); break;
  case KIND_HTML: summary_zoo_html(results, count, t, out, w.out); break;
  case KIND_COUNT: break;
  }
  return file_commit(&w, d);
}

enum status summary_zoo_write(struct result *const *results, size_t count, const char *out,
                              struct arena *a, struct diag *d) {
  struct totals t;
  summary_zoo_add_up(&t, results, count, a);
  // JSON last: merge takes it as the sign that the rest is there.
  for (int kind = KIND_COUNT - 1; kind >= 0; kind--)
    TRY(write_file((enum kind)kind, results, count, &t, out, a, d));
  return STATUS_OK;
}
