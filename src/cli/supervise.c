// Supervision of a run: see supervise.h. ONNX Runtime has crashed on valid models, and a bad one
// may make it hang or take all memory. So the work is done in a child process, forked before the
// engine has started any thread. The parent only waits; when the child dies, it says where by what
// the flight recorder holds, and removes what the child was writing.
//
// Signals that ask for an end are blocked in the parent and taken one by one, which needs neither
// handlers nor global state: they are passed on to the child, whose end then decides.
#include "supervise.h"

#include "arena.h"
#include "child.h"
#include "clock.h"
#include "file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int requests[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static bool is_request(int number) {
  for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
    if (requests[i] == number)
      return true;
  return false;
}

static sigset_t waited_for(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
    sigaddset(&set, requests[i]);
  return set;
}

// Waits for a signal of the set, not beyond `end` (0: for ever). -1 when that has come.
static int next_signal(const sigset_t *set, double end) {
  for (;;) {
    double left = end > 0 ? end - clock_seconds() : 3600;
    if (left <= 0)
      return -1;
    struct timespec wait = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    int number = sigtimedwait(set, NULL, &wait);
    if (number > 0)
      return number;
  }
}

// The child's state at its end. *late: it was killed, since its time was over.
static int wait_for(pid_t child, const sigset_t *set, double timeout, bool *late) {
  double end = timeout > 0 ? clock_seconds() + timeout : 0;
  int state = 0;
  *late = false;
  while (waitpid(child, &state, WNOHANG) == 0) {
    int number = next_signal(set, end);
    if (number < 0) {
      *late = true;
      kill(child, SIGKILL);
      return child_wait(child);
    }
    if (number != SIGCHLD)
      kill(child, number);
  }
  return state;
}

// ---- What is said ----

static void describe_end(const struct run *r, int state, bool late, char *text, size_t size) {
  if (late)
    snprintf(text, size, "did not end within %d s and was stopped", r->settings->timeout);
  else if (WIFSIGNALED(state))
    child_describe(state, text, size);
  else
    snprintf(text, size, "ended the process (exit code %d)", WEXITSTATUS(state));
}

static const char more_memory[] = "If memory ran out, a larger --memory-limit may do.";

// True if the engine was at work, and not the program's own code.
static bool engine_worked(const struct recorder *note) {
  return note->action[0] || note->sample;
}

static void describe_place(const struct recorder *note, char *text, size_t size) {
  if (note->sample && note->tensor[0])
    snprintf(text, size, ", on sample %zu of %zu (%s), after %s was computed", note->sample,
             note->samples, note->label, note->tensor);
  else if (note->sample)
    snprintf(text, size, ", on sample %zu of %zu (%s), before any float value was computed",
             note->sample, note->samples, note->label);
  else
    snprintf(text, size, "%s%s", note->action[0] ? ", " : "", note->action);
}

static const char *advice(const struct run *r, const struct recorder *note, int state, bool late) {
  if (late)
    return "Fewer samples, or a longer --timeout, may do.";
  if (r->settings->memory_limit)
    return more_memory;
  if (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL)
    return "If nobody did that, memory ran out: the kernel's log tells.";
  if (!engine_worked(note))
    return "This is a fault of narrowcast. Please report it, with the model.";
  if (note->narrow && note->node[0])
    return "--keep with its name leaves it in fp32, and another ONNX Runtime (--ort) may do "
           "better.";
  return "Does ONNX Runtime run the model elsewhere? Another version (--ort) may do better.";
}

static void hint_at(const struct run *r, const struct recorder *note, int state, bool late) {
  char others[64] = "", node[400] = "";
  if (note->others)
    snprintf(others, sizeof others, " or one of the %zu before it", note->others);
  if (note->node[0])
    snprintf(node, sizeof node, "Next came node %s (%s): probably that%s. ", note->node,
             note->op_type, others);
  diag_hint(r->diag, "%s%s", node, advice(r, note, state, late));
}

// The child ended without having said why.
static enum status report(const struct run *r, const struct recorder *note, int state, bool late) {
  if (isatty(STDERR_FILENO) && !r->settings->quiet)
    fputc('\n', stderr);  // a progress bar may stand there
  diag_at(r->diag, r->settings->model, NULL, NULL);
  if (WIFSIGNALED(state) && WTERMSIG(state) == SIGBUS) {
    diag_hint(r->diag, "Let nothing change the model, its data or the samples during a run.");
    return diag_fail(r->diag, STATUS_IO, "a file was cut short while it was being read");
  }
  char end[128], place[512];
  describe_end(r, state, late, end, sizeof end);
  describe_place(note, place, sizeof place);
  hint_at(r, note, state, late);
  // out_of_memory has said so on its way out
  int code = WIFEXITED(state) && WEXITSTATUS(state) == STATUS_IO ? STATUS_IO : STATUS_ENGINE;
  const char *space = note->engine[0] ? " " : "";
  if (!engine_worked(note))
    return diag_fail(r->diag, (enum status)code, "the run %s in %s", end, note->stage);
  return diag_fail(r->diag, (enum status)code, "ONNX Runtime%s%s %s in %s%s", space, note->engine,
                   end, note->stage, place);
}

// ---- The two processes ----

static enum status supervise_child(struct run *r, pid_t child, const sigset_t *set,
                                   const sigset_t *before) {
  bool late;
  int state = wait_for(child, set, r->settings->timeout, &late);
  file_remove_pending();
  if (!late && WIFSIGNALED(state) && (is_request(WTERMSIG(state)) || WTERMSIG(state) == SIGPIPE)) {
    signal(WTERMSIG(state), SIG_DFL);
    sigprocmask(SIG_SETMASK, before, NULL);
    raise(WTERMSIG(state));
  }
  sigprocmask(SIG_SETMASK, before, NULL);
  r->recorder->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  r->recorder->timed_out = late;
  if (!r->recorder->finished)
    return report(r, r->recorder, state, late);
  if (late || WIFSIGNALED(state))
    diag_warn(r->diag, "ONNX Runtime %s failed while it was being closed; the result is complete",
              r->recorder->engine);
  return r->recorder->status;
}

// `what` could not be had.
static enum status memory_ran_out(struct run *r, const char *what) {
  char limit[64] = "";
  if (r->settings->memory_limit)
    snprintf(limit, sizeof limit, " within %zu MiB (--memory-limit)",
             r->settings->memory_limit >> 20);
  diag_clear(r->diag);
  diag_at(r->diag, r->settings->model, NULL, NULL);
  diag_hint(r->diag, r->settings->memory_limit ? "A larger --memory-limit may do."
                                               : "Fewer jobs at a time, or more memory, may do.");
  return diag_fail(r->diag, STATUS_IO, "memory ran out in %s: %s could not be had%s",
                   r->recorder->stage, what, limit);
}

// Where memory runs out in our own code, that is an error like any other. What is jumped over ends
// with this process; sessions may still be open, so the engine stays for them.
static enum status work_in_memory(struct run *r, command_run *work) {
  struct memory_catch here;
  memory_catch_set(&here);
  if (setjmp(here.place) == 0) {
    enum status status = work(r);
    memory_catch_set(NULL);
    return status;
  }
  memory_catch_set(NULL);
  r->engine = NULL;
  r->has_trace = false;
  char bytes[32];
  snprintf(bytes, sizeof bytes, "%zu bytes", here.bytes);
  return memory_ran_out(r, bytes);
}

// The engine hands on what C++ says when it gets no memory.
static bool engine_got_no_memory(const struct diag *d) {
  return d->status == STATUS_ENGINE && strstr(d->message, "std::bad_alloc");
}

// Adds to what the hint says already.
static void hint_also(struct diag *d, const char *text) {
  char hint[sizeof d->hint];
  memcpy(hint, d->hint, sizeof hint);
  diag_hint(d, "%s%s%s", hint, hint[0] ? " " : "", text);
}

enum status supervise(struct run *r, command_run *work) {
  r->recorder = recorder_open();
  if (!r->recorder || !file_share_pending())
    return diag_fail(r->diag, STATUS_IO, "no memory can be shared with another process");
  sigset_t set = waited_for(), before;
  sigprocmask(SIG_BLOCK, &set, &before);
  pid_t child = child_fork(r->diag);
  if (child > 0)
    return supervise_child(r, child, &set, &before);
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (child < 0)
    return r->diag->status;
  signal(SIGBUS, SIG_DFL);  // the parent tells it
  if (r->settings->memory_limit)
    child_limit_memory(r->settings->memory_limit);
  recorder_stage(r->recorder, "the preparation", false);
  enum status status = work_in_memory(r, work);
  if (engine_got_no_memory(r->diag))
    return memory_ran_out(r, "what ONNX Runtime asked for");
  if (status == STATUS_ENGINE && r->settings->memory_limit)
    hint_also(r->diag, more_memory);
  return status;
}
