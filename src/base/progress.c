// The progress bar: see progress.h.
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

void progress_show(const char *what, size_t done, size_t total) {
  enum { WIDTH = 40 };
  if (!isatty(STDERR_FILENO) || total == 0)
    return;
  size_t filled = done * WIDTH / total;
  fprintf(stderr, "\r%-8s [", what);
  for (size_t i = 0; i < WIDTH; i++)
    putc(i < filled ? '=' : ' ', stderr);
  fprintf(stderr, "] %zu/%zu%s", done, total, done == total ? "\n" : "");
  fflush(stderr);
}
