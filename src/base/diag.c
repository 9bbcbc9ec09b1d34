// Errors as values: see diag.h. Formatting is bounded, and printing is safe for names that come
// from a hostile model.
#include "diag.h"

#include "escape.h"

#include <stdarg.h>
#include <string.h>

static void copy_bounded(char *to, size_t size, const char *from) {
  snprintf(to, size, "%s", from);
}

enum status diag_fail(struct diag *d, enum status status, const char *format, ...) {
  if (d->status != STATUS_OK)
    return status;
  d->status = status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(d->message, sizeof d->message, format, arguments);
  va_end(arguments);
  return status;
}

void diag_at(struct diag *d, const char *file, const char *node, const char *tensor) {
  if (file)
    copy_bounded(d->file, sizeof d->file, file);
  if (node)
    copy_bounded(d->node, sizeof d->node, node);
  if (tensor)
    copy_bounded(d->tensor, sizeof d->tensor, tensor);
}

void diag_hint(struct diag *d, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(d->hint, sizeof d->hint, format, arguments);
  va_end(arguments);
}

void diag_warn(struct diag *d, const char *format, ...) {
  if (!d->warn)
    return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  d->warn(d->warn_context, text);
}

void diag_clear(struct diag *d) {
  d->status = STATUS_OK;
  d->unsupported = false;
  d->op[0] = '\0';
  d->file[0] = d->node[0] = d->tensor[0] = d->message[0] = d->hint[0] = '\0';
}

enum { REPORTED_MAX = 100 };

static void report(const struct diag *error, const struct diag *sink) {
  if (sink->report)
    sink->report(error);
}

void diag_collect(struct diag_list *list, struct diag *d) {
  list->count++;
  if (list->count == 1)
    list->first = *d;
  if (list->count == 2)
    report(&list->first, d);
  if (list->count > 1 && list->count <= REPORTED_MAX)
    report(d, d);
  diag_clear(d);
}

enum status diag_list_end(const struct diag_list *list, struct diag *d, const char *what) {
  if (list->count == 0)
    return STATUS_OK;
  if (list->count == 1) {
    *d = list->first;
    return d->status;
  }
  diag_at(d, list->first.file, NULL, NULL);
  char *colon = strrchr(d->file, ':');  // of the whole file, not of a line
  if (colon && strspn(colon + 1, "0123456789") == strlen(colon + 1))
    *colon = '\0';
  return diag_fail(d, list->first.status, "%d %s", list->count, what);
}

void diag_print(const struct diag *d, FILE *out) {
  fputs("narrowcast: ", out);
  const struct {
    const char *label, *text;
  } places[] = {{"", d->file}, {"node ", d->node}, {"tensor ", d->tensor}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    if (!places[i].text[0])
      continue;
    fputs(places[i].label, out);
    escape_terminal(places[i].text, out);
    fputs(": ", out);
  }
  escape_terminal(d->message[0] ? d->message : status_text(d->status), out);
  putc('\n', out);
  if (d->hint[0]) {
    fputs("  ", out);
    escape_terminal(d->hint, out);
    putc('\n', out);
  }
}

const char *status_text(enum status status) {
  switch (status) {
#define STATUS_TEXT(name, code, text)                                                              \
  case name: return text;
    STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
  }
  return "unknown status";
}
