// Data files that the program carries inside (rules/*.json, rules/targets/*.json,
// proto/operators.tsv, report/template.html), made by embed.cmake at build time. `text` ends with a
// NUL that `size` does not count; the table ends with a row whose name is NULL.
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include <stddef.h>

struct embedded {
  const char *name;  // the file's name without its folder, but "targets/cpu.json"
  const char *text;
  size_t size;  // bytes
};

extern const struct embedded embedded_files[];

#endif
