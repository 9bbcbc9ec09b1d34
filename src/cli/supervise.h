// Runs a command in a process of its own, and tells what happened if that one crashes, is killed,
// or takes too long.
#ifndef SUPERVISE_H
#define SUPERVISE_H

#include "cmd.h"

// As `work(r)`. In the child it returns as `work` does, and the caller goes on there as if nothing
// were: it prints, calls recorder_finish and ends. In the parent it returns the child's exit code,
// with the diag filled only if the child did not get to say why. If a signal such as Ctrl-C ended
// the child, it ends the parent too. Limits: r->settings->timeout, memory_limit.
enum status supervise(struct run *r, command_run *work);

#endif
