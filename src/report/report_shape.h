// What must be true of the JSON of a plan, a trace and a verdict so that a report can be made of
// it. Internal to report*.c.
#ifndef REPORT_SHAPE_H
#define REPORT_SHAPE_H

#include "report.h"

enum status report_check_shape(const struct report_source *source, enum report_part part,
                               struct diag *d);

#endif
