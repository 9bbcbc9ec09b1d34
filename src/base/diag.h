// Errors as values. A function that can fail on input returns `enum status`, and on failure fills
// the caller's `struct diag` with what went wrong, where (file, node, tensor), and what to do. The
// library never prints and never exits; main prints the diag and turns the status into the exit
// code.
#ifndef DIAG_H
#define DIAG_H

#include <stdbool.h>
#include <stdio.h>

// status, exit code, meaning: the one table behind the exit codes, the help text and the README.
#define STATUS_LIST(X)                                                                             \
  X(STATUS_OK, 0, "done, and every claim holds")                                                   \
  X(STATUS_CLAIM, 1, "a claim does not hold; of diff: the plans differ")                           \
  X(STATUS_USAGE, 2, "wrong command line")                                                         \
  X(STATUS_MODEL, 3, "bad model")                                                                  \
  X(STATUS_POLICY, 4, "bad policy, plan or trace file")                                            \
  X(STATUS_DATA, 5, "bad input data")                                                              \
  X(STATUS_ENGINE, 6, "ONNX Runtime is missing or failed")                                         \
  X(STATUS_IO, 7, "a file cannot be read or written, or memory ran out")

enum status {
#define STATUS_ENUM(name, code, text) name = code,
  STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

// One error. Texts are bounded copies, so that no lifetime has to be watched; names from a model
// are cut at the bound. An empty string means "not known".
struct diag {
  enum status status;
  char file[512];
  char node[256];
  char tensor[256];
  char message[1024];
  char hint[512];  // what to do, a sentence
  // Of an engine: it has no implementation of what it was asked for; and of which operator that is,
  // where it says so.
  bool unsupported;
  char op[64];
  // Where warnings go while the run goes on; NULL drops them.
  void (*warn)(void *context, const char *text);
  void *warn_context;
  // Where the errors of a diag_list go if they are several; NULL drops them.
  void (*report)(const struct diag *error);
};

// Several errors that one run is to name, and not only the first, as of a file edited by hand.
struct diag_list {
  struct diag first;
  int count;
};

// Takes the error that is set out of `d`, which can then hold the next one.
void diag_collect(struct diag_list *list, struct diag *d);

// STATUS_OK if nothing was collected. Else fails: with the error if it is one, else, when all have
// gone to d->report (the first hundred of them), with "N WHAT".
enum status diag_list_end(const struct diag_list *list, struct diag *d, const char *what);

// Sets the error (a printf format), keeps file, node, tensor and hint that are already set, and
// returns `status`. The first error wins: a second call while one is set changes nothing.
enum status diag_fail(struct diag *d, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Place of the error; each may be NULL (keeps what is there). Call before or after diag_fail.
void diag_at(struct diag *d, const char *file, const char *node, const char *tensor);

// What the user can do about it.
void diag_hint(struct diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Reports something worth knowing that does not stop the run.
void diag_warn(struct diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Forgets the error (not the warning sink).
void diag_clear(struct diag *d);

// Prints "narrowcast: FILE: node N: tensor T: MESSAGE" and the hint. Control characters of names
// that come from a model are printed as '?', so that a hostile name cannot drive a terminal.
void diag_print(const struct diag *d, FILE *out);

// "bad model", for the help and the README's table.
const char *status_text(enum status status);

// Forwards an error of `expression` to the caller.
#define TRY(expression)                                                                            \
  do {                                                                                             \
    enum status try_status = (expression);                                                         \
    if (try_status != STATUS_OK)                                                                   \
      return try_status;                                                                           \
  } while (0)

#endif
