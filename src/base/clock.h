// How long things take.
#ifndef CLOCK_H
#define CLOCK_H

// Seconds of a clock that is never set: only differences mean something.
double clock_seconds(void);

#endif
