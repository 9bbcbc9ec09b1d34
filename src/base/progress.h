// A progress bar on standard error, only where that is a terminal.
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stddef.h>

// Redraws "what [=====     ] done/total"; done == total ends the line. Prints nothing elsewhere.
void progress_show(const char *what, size_t done, size_t total);

#endif
