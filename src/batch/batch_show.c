// The display of a batch: see batch_show.h. In a log (no terminal) it is plain lines, so that it
// can be read later and be searched.
#define _DEFAULT_SOURCE  // TIOCGWINSZ
#include "batch_show.h"

#include "clock.h"
#include "escape.h"
#include "units.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NAME_LENGTH = 40, REASON_LENGTH = 160, LINE_LENGTH = 512 };

// The end of a long name, which says more than its beginning.
static void put_end(const char *name, size_t longest, FILE *out) {
  size_t length = strlen(name);
  if (length > longest) {
    fputs("...", out);
    name += length - longest + 3;
    while ((*name & '\xc0') == '\x80')  // within a character
      name++;
  }
  escape_terminal(name, out);
}

static void clear_line(const struct batch_show *s) {
  if (s->terminal)
    fputs("\r\033[K", stderr);
}

void batch_show_begin(struct batch_show *s, size_t kept) {
  s->terminal = isatty(STDERR_FILENO) != 0;
  s->began = clock_seconds();
  if (s->quiet)
    return;
  fprintf(stderr, "%zu model%s", s->total, PLURAL(s->total));
  if (kept)
    fprintf(stderr, ", %zu done before", kept);
  putc('\n', stderr);
}

void batch_show_result(struct batch_show *s, const struct result *r, const char *note) {
  s->done++;
  s->by_outcome[r->outcome]++;
  if (s->quiet)
    return;
  clear_line(s);
  fprintf(stderr, "[%zu/%zu] %-9s %6.1f s  ", s->done, s->total, outcome_name(r->outcome),
          r->seconds);
  escape_terminal(r->name, stderr);
  if (note)
    fprintf(stderr, " (%s)", note);
  if (r->reason) {
    fputs(": ", stderr);
    size_t length = strlen(r->reason);
    char text[REASON_LENGTH + 4];
    snprintf(text, sizeof text, "%.*s%s", REASON_LENGTH, r->reason,
             length > REASON_LENGTH ? "..." : "");
    escape_terminal(text, stderr);
  }
  putc('\n', stderr);
}

static void print_time(FILE *out, double seconds) {
  long s = (long)seconds;
  if (s < 90)
    fprintf(out, "%ld s", s);
  else if (s < 90 * 60)
    fprintf(out, "%ld min", (s + 30) / 60);
  else
    fprintf(out, "%.1f h", seconds / 3600);
}

void batch_show_tick(const struct batch_show *s) {
  if (s->quiet || !s->terminal)
    return;
  char line[LINE_LENGTH] = "";
  FILE *out = fmemopen(line, sizeof line - 1, "w");
  if (!out)
    return;
  fprintf(out, "%zu/%zu done, %zu running", s->done, s->total, s->running);
  for (int o = OUTCOME_REFUSED; o < OUTCOME_COUNT; o++)
    if (s->by_outcome[o])
      fprintf(out, ", %zu %s", s->by_outcome[o], outcome_name((enum outcome)o));
  if (s->work_done > 0 && s->work_done < s->work_total) {
    fputs(", about ", out);
    print_time(out, (clock_seconds() - s->began) * (s->work_total - s->work_done) / s->work_done);
    fputs(" left", out);
  }
  if (s->current) {
    fputs("  ", out);
    put_end(s->current, NAME_LENGTH, out);
  }
  fclose(out);
  struct winsize size = {0};
  int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
  clear_line(s);
  fprintf(stderr, "%.*s", width - 1, line);
  fflush(stderr);
}

void batch_show_end(const struct batch_show *s) {
  if (!s->quiet)
    clear_line(s);
}
