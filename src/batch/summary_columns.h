// The columns of a zoo's summary, for all tables that are made of it.
#ifndef SUMMARY_COLUMNS_H
#define SUMMARY_COLUMNS_H

#include "result.h"

struct summary_column {
  const char *key;    // in CSV
  const char *title;  // for people
  bool number;
  bool repeatable;                                 // the same for each run of the same zoo
  void (*put)(const struct result *r, FILE *out);  // nothing where there is no value
};
extern const struct summary_column summary_columns[];  // ends with a NULL key; the model is first

// What `put` writes.
char *summary_cell(const struct summary_column *c, const struct result *r, struct arena *a);

#endif
