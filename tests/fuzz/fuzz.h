// What the fuzz targets share. A target is one file fuzz_X.c with the function that libFuzzer calls
// for each input; the same file is linked with replay.c, which calls it for the files of a corpus,
// so that every input that was ever worth keeping is a unit test.
//
// Bad input is no fault: a target goes on when a function returns an error, and only looks whether
// the error says something. A fault is a crash, a report of a sanitizer, a hang, memory without
// bound, or a property that does not hold: fuzz_require then aborts.
#ifndef FUZZ_H
#define FUZZ_H

#include "diag.h"
#include "schema.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The operator table, loaded once.
const struct schema_table *fuzz_schemas(void);

#define fuzz_require(condition, ...)                                                               \
  do {                                                                                             \
    if (!(condition))                                                                              \
      fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                      \
  } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// That `status` is what d holds, and that an error has a message.
void fuzz_check_diag(enum status status, const struct diag *d);

// A folder of this process, removed when it ends well; and a file in it with that content.
const char *fuzz_folder(void);
const char *fuzz_write(const char *name, const void *bytes, size_t size);

// Reads choices from the input, front to back; zeros after its end.
struct choices {
  const uint8_t *at;
  size_t left;
};
unsigned choose(struct choices *c, unsigned below);  // 0 to below - 1; below is at most 65536

// How much of an input of fuzz_convert is the model. Where it ends with "NC", up to 64 bytes of
// choices and their number stand between the model and these two. So a mutation of the choices
// leaves the model as it is, and any model file is an input.
size_t fuzz_model_size(const uint8_t *data, size_t size);

// Calls the target for the model in the input with each field of each message left out, and empty,
// one at a time, the choices as they are. How often it did; 0 if that is no model.
size_t fuzz_each_field(const uint8_t *data, size_t size);

#endif
