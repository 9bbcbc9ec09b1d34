// The summary of a run: what was decided, what it costs, what was measured, and what the result may
// claim, as text for people or as JSON.
#ifndef SUMMARY_H
#define SUMMARY_H

#include "run.h"

// `output` is the file written, or NULL. Parts that the run does not have are left out. The JSON
// has no times and no folders: the same run gives the same bytes, wherever it is.
void summary_text(struct run *r, const char *output, FILE *out);
void summary_json(struct run *r, const char *output, FILE *out);

#endif
