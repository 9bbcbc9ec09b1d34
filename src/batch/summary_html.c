// index.html of a zoo: one table, without scripts, that links what each model's folder holds. Names
// of models are hostile; they are escaped as text, and links use the folders' plain names only.
#include "summary_columns.h"
#include "summary_zoo.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char style[] =
    ":root{color-scheme:light dark;font:15px/1.45 system-ui,sans-serif}\n"
    "body{margin:2rem auto;max-width:90rem;padding:0 1rem}\n"
    "h1{font-size:1.5rem;margin:0 0 .5rem}\n"
    "p{margin:.25rem 0 1rem;max-width:60rem}\n"
    ".scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;"
    "border-bottom:1px solid color-mix(in srgb,currentColor 18%,transparent)}\n"
    "thead th{position:sticky;top:0;background:Canvas;white-space:nowrap}\n"
    "tbody th{font-weight:600;overflow-wrap:anywhere;min-width:12rem}\n"
    ".n{text-align:right;white-space:nowrap}\n"
    ".why{min-width:18rem;max-width:34rem;overflow-wrap:anywhere}\n"
    ".converted{color:light-dark(#14692f,#6fdc8c)}.unchanged{color:inherit}\n"
    ".refused{color:light-dark(#8a4b00,#ffb454)}.failed{color:light-dark(#b3261e,#ff8a80)}\n"
    "@media print{body{margin:0}.scroll{overflow:visible}}\n";

static void html_text(FILE *out, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == 0x7f)
      putc('?', out);
    else if (strchr("&<>\"'", c))
      fprintf(out, "&#%d;", c);
    else
      putc(c, out);
  }
}

// Folder names are letters, digits, '.', '-' and '_' (zoo_folder_of), so they need no escapes.
static void put_links(const struct result *r, const char *out, struct arena *a, FILE *to) {
  static const struct {
    const char *file, *text;
  } links[] = {{RESULT_REPORT, "report"},
               {RESULT_PLAN, "plan"},
               {RESULT_VERDICT, "verdict"},
               {RESULT_MODEL, "model"},
               {RESULT_LOG, "log"}};
  fputs("<td>", to);
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
    if (access(arena_printf(a, "%s/models/%s/%s", out, r->folder, links[i].file), F_OK) == 0)
      fprintf(to, "<a href=\"models/%s/%s\">%s</a> ", r->folder, links[i].file, links[i].text);
  fputs("</td>", to);
}

static void put_row(const struct result *r, const char *out, struct arena *a, FILE *to) {
  fputs("<tr>", to);
  for (const struct summary_column *c = summary_columns; c->key; c++) {
    bool name = c == summary_columns, reason = strcmp(c->key, "reason") == 0;
    if (name)
      fputs("<th scope=\"row\">", to);
    else if (strcmp(c->key, "outcome") == 0)
      fprintf(to, "<td class=\"%s\">", outcome_name(r->outcome));
    else
      fputs(c->number ? "<td class=\"n\">" : reason ? "<td class=\"why\">" : "<td>", to);
    html_text(to, summary_cell(c, r, a));
    fputs(name ? "</th>" : "</td>", to);
  }
  put_links(r, out, a, to);
  fputs("</tr>\n", to);
}

static void put_totals(const struct totals *t, FILE *to) {
  fprintf(to, "<p>%zu models:", t->models);
  for (int o = 0; o < OUTCOME_COUNT; o++)
    fprintf(to, "%s <span class=\"%s\">%zu %s</span>", o ? "," : "", outcome_name((enum outcome)o),
            t->by_outcome[o], outcome_name((enum outcome)o));
  fprintf(to, ". Of those written, %" PRId64 " of %" PRId64 " float nodes are narrow (",
          t->narrow_nodes, t->float_nodes);
  summary_zoo_share(to, (double)t->narrow_nodes, (double)t->float_nodes);
  fprintf(to, "), with %" PRId64 " Casts; %.1f MB became %.1f MB (", t->casts,
          t->bytes_before / 1e6, t->bytes_after / 1e6);
  summary_zoo_share(to, t->bytes_after, t->bytes_before);
  fprintf(to, "). Conversions took %.1f s in all.</p>\n", t->seconds);
}

static void put_wide(const struct totals *t, FILE *to) {
  if (!t->n_wide)
    return;
  fputs("<h2>What kept nodes in fp32</h2>\n<table><thead><tr><th>Reason</th><th class=\"n\">Nodes"
        "</th><th class=\"n\">Models</th></tr></thead><tbody>\n",
        to);
  for (size_t i = 0; i < t->n_wide; i++) {
    fputs("<tr><td>", to);
    html_text(to, summary_zoo_reason(t->wide[i].reason));
    fprintf(to, "</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%zu</td></tr>\n",
            t->wide[i].nodes, t->wide[i].models);
  }
  fputs("</tbody></table>\n", to);
}

void summary_zoo_html(struct result *const *results, size_t count, const struct totals *t,
                      const char *out, struct arena *a, FILE *to) {
  fprintf(to,
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\"><title>Zoo</title>\n"
          "<style>\n%s</style></head><body>\n<h1>Zoo</h1>\n",
          style);
  put_totals(t, to);
  fputs("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>", to);
  for (const struct summary_column *c = summary_columns; c->key; c++)
    fprintf(to, "<th%s>%s</th>", c->number ? " class=\"n\"" : "", c->title);
  fputs("<th>Files</th></tr></thead><tbody>\n", to);
  for (size_t i = 0; i < count; i++) {
    struct arena scratch = {0};
    put_row(results[i], out, &scratch, to);
    arena_free(&scratch);
  }
  fputs("</tbody></table></div>\n", to);
  put_wide(t, to);
  fputs("</body></html>\n", to);
  (void)a;
}
