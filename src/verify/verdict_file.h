// The verdict as JSON: what each claim measured and the error of every value that was compared. In
// a file for the record and the report, and without the values a part of the summary.
#ifndef VERDICT_FILE_H
#define VERDICT_FILE_H

#include "json.h"
#include "verify.h"

// Where a verdict comes from.
struct verdict_source {
  const struct graph *graph;  // of the source model
  const struct plan *plan;
  char plan_sha256[65];  // of the plan's file: a verdict is that of one plan
  const char *engine;    // version
  bool synthetic;        // its samples were made up
};

void verdict_print(const struct verdict *v, const struct verdict_source *from, FILE *out);
enum status verdict_write(const struct verdict *v, const struct verdict_source *from,
                          const char *path, struct diag *d);

// The members that the file and the summary share, in an object that is open. `engine`: version.
void verdict_print_members(const struct verdict *v, const struct graph *g, const char *engine,
                           struct json_writer *w);

#endif
