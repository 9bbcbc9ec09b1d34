// The report: a plan, and if there are any its trace and verdict, as one HTML file for whoever has
// to sign the plan off, or as Markdown for a pull request. Made from the files alone: neither model
// nor engine is needed. What the files say is shown, nothing is decided here.
#ifndef REPORT_H
#define REPORT_H

#include "arena.h"
#include "json.h"

enum report_part { REPORT_PLAN, REPORT_TRACE, REPORT_VERDICT, REPORT_PARTS };

struct report_source {
  const char *file, *text;  // text NULL: this part was not given
  const struct json *root;
};

struct report {
  struct report_source parts[REPORT_PARTS];
  struct arena arena;  // of what is read
  const char *title;   // of the page; NULL: what the plan calls the model's file
};

// Adds a part: a file, or text that is kept by the caller and named `file` in messages. Errors:
// STATUS_IO, STATUS_POLICY (no JSON, or not a plan, trace or verdict of this version). Members that
// are not known are let through.
enum status report_read(struct report *r, enum report_part part, const char *file, struct diag *d);
enum status report_add(struct report *r, enum report_part part, const char *file, const char *text,
                       struct diag *d);

// That there is a plan, and that trace and verdict are of it: same model, same samples, and the
// verdict of this very plan, byte for byte. STATUS_POLICY.
enum status report_check(const struct report *r, struct diag *d);

enum report_form { REPORT_HTML, REPORT_MARKDOWN };
extern const char *const report_form_names[];  // "html", "md", NULL
// Markdown for a path that ends with .md, else HTML.
enum report_form report_form_of(const char *path);
// Writes a report that report_check has passed. STATUS_IO.
enum status report_write(const struct report *r, enum report_form form, const char *path,
                         struct diag *d);
void report_html(const struct report *r, FILE *out);
void report_markdown(const struct report *r, FILE *out);

void report_close(struct report *r);

#endif
