// The lines "loads" of the summary. Part of summary.c.
#ifndef SUMMARY_LOADS_H
#define SUMMARY_LOADS_H

#include "run.h"

#include <stdio.h>

// Of a run that has a verdict.
void summary_print_loads(const struct run *r, FILE *out);

#endif
