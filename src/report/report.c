// Reads what a report is made of and writes its HTML: the template (built from report/, carried
// inside the program) with the files' JSON put in as data. The JSON is passed through as it was
// read, but for three characters that could end the element it stands in; they can only be inside
// strings, where an escape means the same.
#include "report.h"
#include "embedded.h"
#include "escape.h"
#include "file.h"
#include "format.h"
#include "plan.h"
#include "report_shape.h"

#include <assert.h>
#include <string.h>

const char *const report_form_names[] = {"html", "md", NULL};

static const char marker[] = "<!-- narrowcast: data -->";

enum status report_add(struct report *r, enum report_part part, const char *file, const char *text,
                       struct diag *d) {
  struct report_source *source = &r->parts[part];
  source->file = file;
  source->text = text;
  TRY(json_parse(&source->root, text, file, STATUS_POLICY, &r->arena, d));
  return report_check_shape(source, part, d);
}

enum status report_read(struct report *r, enum report_part part, const char *file, struct diag *d) {
  char *text;
  TRY(json_read_text(&text, file, STATUS_POLICY, &r->arena, d));
  return report_add(r, part, file, text, d);
}

void report_close(struct report *r) {
  arena_free(&r->arena);
  *r = (struct report){0};
}

static const char *member_of(const struct report_source *s, const char *object, const char *key) {
  const struct json *outer = json_member(s->root, object);
  return json_member(outer, key)->text;
}

static enum status differ(const struct report_source *s, const char *what, struct diag *d) {
  diag_at(d, s->file, NULL, NULL);
  diag_hint(d, "Give the files of one run, as `narrowcast convert` writes them together.");
  return diag_fail(d, STATUS_POLICY, "%s", what);
}

enum status report_check(const struct report *r, struct diag *d) {
  const struct report_source *plan = &r->parts[REPORT_PLAN], *trace = &r->parts[REPORT_TRACE],
                             *verdict = &r->parts[REPORT_VERDICT];
  const char *model = member_of(plan, "model", "sha256");
  if (trace->text && strcmp(member_of(trace, "model", "sha256"), model) != 0)
    return differ(trace, "the trace is of another model than the plan", d);
  if (trace->text &&
      strcmp(member_of(trace, "samples", "sha256"), member_of(plan, "statistics", "sha256")) != 0)
    return differ(trace, "the plan was not made from this trace: their samples differ", d);
  if (!verdict->text)
    return STATUS_OK;
  if (strcmp(member_of(verdict, "model", "sha256"), model) != 0)
    return differ(verdict, "the verdict is of another model than the plan", d);
  char sha256[65];
  sha256_hex(plan->text, strlen(plan->text), sha256);
  if (strcmp(member_of(verdict, "plan", "sha256"), sha256) != 0)
    return differ(verdict, "the verdict is of another plan, or the plan was edited since", d);
  return STATUS_OK;
}

// ---- HTML ----

// What the page must know of number formats and reasons, from the tables that the program uses.
static void write_vocabulary(FILE *out) {
  struct json_writer w = {.out = out, .inline_depth = 2};
  json_object(&w, NULL);
  json_string(&w, "version", NARROWCAST_VERSION);
  json_array(&w, "formats");
  for (int i = 0; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    json_object(&w, NULL);
    json_string(&w, "name", f->name);
    json_integer(&w, "bits", f->bits);
    json_integer(&w, "stored_bits", f->stored_bits);
    json_integer(&w, "mantissa_bits", f->mantissa_bits);
    json_integer(&w, "min_exponent", f->min_exponent);
    json_number(&w, "max", f->max);
    json_number(&w, "tiny", f->tiny);
    json_number(&w, "min_subnormal", f->min_subnormal);
    json_number(&w, "cliff", format_cliff(f, false));
    json_number(&w, "cliff_ftz", format_cliff(f, true));
    json_end_object(&w);
  }
  json_end_array(&w);
  json_object(&w, "reasons");
  for (int k = 0; k < REASON_COUNT; k++)
    json_string(&w, reason_name((enum reason)k), reason_text((enum reason)k));
  json_end_object(&w);
  json_end_object(&w);
}

static void write_escaped(const char *text, FILE *out) {
  for (;;) {
    size_t plain = strcspn(text, "<>&");
    fwrite(text, 1, plain, out);
    text += plain;
    if (!*text)
      return;
    fprintf(out, "\\u%04x", (unsigned)*text++);
  }
}

static void open_data(const char *id, FILE *out) {
  fprintf(out, "<script type=\"application/json\" id=\"%s\">", id);
}

void report_html(const struct report *r, FILE *out) {
  static const char *const ids[REPORT_PARTS] = {"data-plan", "data-trace", "data-verdict"};
  const struct embedded *template = embedded_files;
  while (template->name && strcmp(template->name, "template.html") != 0)
    template ++;
  const char *place = template->name ? strstr(template->text, marker) : NULL;
  assert(place);  // built in, and test_report.c looks for it
  fwrite(template->text, 1, (size_t)(place - template->text), out);
  if (r->title) {
    fputs("<template id=\"title\">", out);
    escape_html(r->title, out);
    fputs("</template>\n", out);
  }
  open_data("data-vocabulary", out);
  write_vocabulary(out);
  fputs("</script>\n", out);
  for (int i = 0; i < REPORT_PARTS; i++) {
    const char *text = r->parts[i].text;
    if (!text)
      continue;
    open_data(ids[i], out);
    write_escaped(strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text, out);
    fputs("</script>\n", out);
  }
  fputs(place + sizeof marker - 1, out);
}

enum report_form report_form_of(const char *path) {
  const char *end = strrchr(path, '.');
  return end && strcmp(end, ".md") == 0 ? REPORT_MARKDOWN : REPORT_HTML;
}

enum status report_write(const struct report *r, enum report_form form, const char *path,
                         struct diag *d) {
  struct file_writer file = {0};
  TRY(file_begin(&file, path, d));
  if (form == REPORT_HTML)
    report_html(r, file.out);
  else
    report_markdown(r, file.out);
  return file_commit(&file, d);
}
