// The files about a run: its trace, plan, verdict and report, where the command line asks for them.
#ifndef RECORDS_H
#define RECORDS_H

#include "run.h"

// For convert: --save-trace, --save-plan, --save-verdict, --report.
enum status records_save(struct run *r);

// For verify: the verdict on --plan, to a file.
enum status records_save_verdict(struct run *r, const char *path);

#endif
