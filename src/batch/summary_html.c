// index.html of a zoo: one table, without scripts, that links what each model's folder holds. Names
// of models are hostile; they are escaped as text, and links use the folders' plain names only.
#include "escape.h"
#include "summary_zoo.h"
#include "units.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char style[] =
    ":root{color-scheme:light dark;font:15px/1.45 system-ui,sans-serif}\n"
    "body{margin:2rem auto;max-width:100rem;padding:0 1rem}\n"
    "h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.1rem;margin:2rem 0 .25rem}\n"
    "p{margin:.25rem 0;max-width:60rem}\n"
    ".scroll{overflow-x:auto;margin:1rem 0}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.3rem .45rem;text-align:left;vertical-align:baseline;white-space:nowrap;"
    "border-bottom:1px solid color-mix(in srgb,currentColor 18%,transparent)}\n"
    "thead th{background:Canvas;font-weight:600}\n"
    "tbody th{font-weight:600;white-space:normal;overflow-wrap:anywhere;min-width:15rem;"
    "max-width:40rem}\n"
    "tbody th div{font-weight:400;font-size:.87em;opacity:.85}\n"
    ".n{text-align:right}\n"
    ".drawback{white-space:normal;color:light-dark(#8a4b00,#ffb454)}\n"
    // Where the columns do not fit, each model is a paragraph of them.
    "@media(max-width:98rem){.models thead{display:none}"
    ".models,.models tbody{display:block}"
    ".models tr{display:flex;flex-wrap:wrap;gap:0 1.25rem;padding:.5rem 0;"
    "border-bottom:1px solid color-mix(in srgb,currentColor 18%,transparent)}"
    ".models th,.models td{border:0;padding:.1rem 0;text-align:left}"
    ".models th{flex-basis:100%;max-width:none;min-width:0}.models td:empty{display:none}"
    ".models td[data-name]::before{content:attr(data-name) \": \";opacity:.75}}\n"
    "a{color:light-dark(#0b57a4,#8ab4f8)}\n"
    ".converted{color:light-dark(#14692f,#6fdc8c)}\n"
    ".refused{color:light-dark(#8a4b00,#ffb454)}.failed{color:light-dark(#b3261e,#ff8a80)}\n"
    "@media print{body{margin:0}.scroll{overflow:visible}}\n";

static bool is_there(const struct result *r, const char *out, const char *file, struct arena *a) {
  return access(arena_printf(a, "%s/models/%s/%s", out, r->folder, file), F_OK) == 0;
}

// Folder names are letters, digits, '.', '-' and '_' (zoo_folder_of), so they need no escapes.
static void put_links(const struct result *r, const char *out, struct arena *a, FILE *to) {
  static const struct {
    const char *file, *text;
  } links[] = {{RESULT_PLAN, "plan"},
               {RESULT_VERDICT, "verdict"},
               {RESULT_MODEL, "model"},
               {RESULT_LOG, "log"}};
  fputs("<td>", to);
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
    if (is_there(r, out, links[i].file, a))
      fprintf(to, "<a href=\"models/%s/%s\">%s</a> ", r->folder, links[i].file, links[i].text);
  fputs("</td>", to);
}

// "3 of 5", where there is something to count.
static void put_part(FILE *to, const char *name, bool known, int64_t part, int64_t whole) {
  fprintf(to, "<td class=\"n\" data-name=\"%s\">", name);
  if (known && whole)
    fprintf(to, "%" PRId64 " of %" PRId64, part, whole);
  fputs("</td>", to);
}

static void put_sizes(const struct result *r, FILE *to) {
  fputs("<td class=\"n\" data-name=\"Size\">", to);
  summary_zoo_bytes(to, r->bytes_before);
  if (r->bytes_after > 0) {
    fputs(" → ", to);
    summary_zoo_bytes(to, r->bytes_after);
  }
  fputs("</td>", to);
}

static void put_row(const struct result *r, const char *out, struct arena *a, FILE *to) {
  bool planned = r->policy != NULL;
  bool report = is_there(r, out, RESULT_REPORT, a);
  fputs("<tr><th scope=\"row\">", to);
  if (report)
    fprintf(to, "<a href=\"models/%s/" RESULT_REPORT "\">", r->folder);
  escape_html(r->name, to);
  fputs(report ? "</a>" : "", to);
  if (r->reason) {
    fputs("<div>", to);
    escape_html(r->reason, to);
    fputs("</div>", to);
  }
  fprintf(to, "</th><td class=\"%s\">%s</td><td data-name=\"Policy\">", outcome_name(r->outcome),
          outcome_name(r->outcome));
  escape_html(planned ? r->policy : "", to);
  if (r->adjustments) {
    fputs(" <small>", to);
    escape_html(r->adjustments, to);
    fputs("</small>", to);
  }
  fprintf(to, "</td><td data-name=\"Inputs\">%s</td>", summary_zoo_inputs(r));
  put_part(to, "Narrow nodes", planned, r->narrow_nodes, r->float_nodes);
  fprintf(to, planned ? "<td class=\"n\" data-name=\"Casts\">%d</td>" : "<td></td>", r->casts);
  fputs("<td class=\"drawback\">", to);
  summary_zoo_drawbacks(to, r);
  fputs("</td>", to);
  put_sizes(r, to);
  fprintf(to, r->has_error ? "<td class=\"n\" data-name=\"Relative L2\">%.2e</td>" : "<td></td>",
          r->worst_error);
  put_part(to, "Claims", planned, r->claims_held, r->claims);
  fprintf(to,
          "<td class=\"n\" data-name=\"Time\">%.1f s</td><td class=\"n\" data-name=\"Peak\">%.0f "
          "MiB</td>",
          r->seconds, r->peak_bytes / (1024 * 1024));
  put_links(r, out, a, to);
  fputs("</tr>\n", to);
}

static void put_totals(const struct totals *t, FILE *to) {
  fprintf(to, "<p>%zu model%s:", t->models, PLURAL(t->models));
  for (int o = 0; o < OUTCOME_COUNT; o++)
    fprintf(to, "%s <span class=\"%s\">%zu %s</span>", o ? "," : "",
            t->by_outcome[o] ? outcome_name((enum outcome)o) : "none", t->by_outcome[o],
            outcome_name((enum outcome)o));
  fprintf(to, ". Of those written, %" PRId64 " of %" PRId64 " float nodes are narrow (",
          t->narrow_nodes, t->float_nodes);
  summary_zoo_share(to, (double)t->narrow_nodes, (double)t->float_nodes);
  fprintf(to, "), with %" PRId64 " Casts; ", t->casts);
  summary_zoo_bytes(to, t->bytes_before);
  fputs(" became ", to);
  summary_zoo_bytes(to, t->bytes_after);
  fputs(" (", to);
  summary_zoo_share(to, t->bytes_after, t->bytes_before);
  fputs("). ", to);
  if (t->with_drawbacks) {
    fprintf(to, "<span class=\"drawback\">%zu with a drawback</span>: ", t->with_drawbacks);
    summary_zoo_drawback_counts(to, t);
    fputs(". ", to);
  }
  if (t->made_up)
    fprintf(to,
            "<span class=\"drawback\">%zu of %zu models %s judged on made-up inputs</span>, which "
            "say little of real data. ",
            t->made_up, t->judged, t->made_up == 1 ? "was" : "were");
  fprintf(to, "Conversions took %.1f s in all.</p>\n", t->seconds);
}

static void put_wide(const struct totals *t, FILE *to) {
  if (!t->n_wide)
    return;
  fputs("<h2>What kept nodes in fp32</h2>\n<table><thead><tr><th>Reason</th><th class=\"n\">Nodes"
        "</th><th class=\"n\">Models</th></tr></thead><tbody>\n",
        to);
  for (size_t i = 0; i < t->n_wide; i++) {
    fputs("<tr><td>", to);
    escape_html(summary_zoo_reason(t->wide[i].reason), to);
    fprintf(to, "</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%zu</td></tr>\n",
            t->wide[i].nodes, t->wide[i].models);
  }
  fputs("</tbody></table>\n", to);
}

void summary_zoo_html(struct result *const *results, size_t count, const struct totals *t,
                      const char *out, FILE *to) {
  fprintf(to,
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\"><title>Zoo</title>\n"
          "<style>\n%s</style></head><body><main>\n<h1>Zoo</h1>\n",
          style);
  put_totals(t, to);
  fputs(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Models\"><table "
      "class=\"models\"><thead>"
      "<tr><th>Model</th><th>Outcome</th><th>Policy</th><th>Inputs</th><th class=\"n\">Narrow nodes"
      "</th><th class=\"n\">Casts</th><th>Drawbacks</th><th class=\"n\">Size</th><th "
      "class=\"n\">Relative L2"
      "</th><th class=\"n\">Claims</th><th class=\"n\">Time</th><th class=\"n\">Peak</th>"
      "<th>Files</th></tr></thead><tbody>\n",
      to);
  // What asks for attention first.
  static const enum outcome order[] = {OUTCOME_FAILED, OUTCOME_REFUSED, OUTCOME_CONVERTED,
                                       OUTCOME_UNCHANGED};
  for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
    for (size_t i = 0; i < count; i++) {
      struct arena scratch = {0};
      if (results[i]->outcome == order[k])
        put_row(results[i], out, &scratch, to);
      arena_free(&scratch);
    }
  fputs("</tbody></table></div>\n", to);
  put_wide(t, to);
  fputs("</main></body></html>\n", to);
}
