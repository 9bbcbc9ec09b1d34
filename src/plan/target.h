// A target: the few numbers of a machine from which the plan models time. rules/targets/README.md
// explains the file, and where the shipped numbers come from. The only reader of target files.
#ifndef TARGET_H
#define TARGET_H

#include "arena.h"
#include "diag.h"
#include "format.h"

struct target {
  const char *name;
  int version;
  const char *description;
  const char *file;  // that it was read from; NULL: it is a shipped one
  double bandwidth;  // bytes/s, of the memory that tensors are in
  double overhead;   // s, of each operator that does something, Casts included
  // FLOP/s of matrix products and convolutions, and elements/s of all else; by format, 0
  // where the file says none.
  double matrix[FORMAT_COUNT], vector[FORMAT_COUNT];
};

// Reads a target: the name of a shipped one ("accelerator"), or a path (contains '/' or '.'), which
// counts from the folder of the file `from` unless it begins with '/'. Errors: STATUS_POLICY with
// path, line and the nearest valid name; STATUS_IO.
enum status target_load(struct target *t, const char *name_or_path, const char *from,
                        struct arena *a, struct diag *d);
// The same from text; `path` is for messages.
enum status target_parse(struct target *t, const char *text, const char *path, struct arena *a,
                         struct diag *d);

// The text of a shipped target, or NULL.
const char *target_text(const char *name);

#endif
