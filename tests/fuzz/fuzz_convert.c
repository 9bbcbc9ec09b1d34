// The whole way from a model's bytes to the converted model. The input is a model; where it ends
// with "NC", up to 64 bytes of choices (policy, statistics) and their number stand in front of
// these two. So a mutation of the choices leaves the model as it is, and any model file is an
// input.
#include "conversion.h"

#include <stdlib.h>
#include <string.h>

// Takes the choices off the end.
static struct choices split(const uint8_t *data, size_t *size) {
  enum { MOST = 64, TAIL = 3 };
  if (*size < TAIL || memcmp(data + *size - 2, "NC", 2) != 0)
    return (struct choices){0};
  size_t n = data[*size - TAIL] % (MOST + 1);
  n = n < *size - TAIL ? n : *size - TAIL;
  *size -= n + TAIL;
  return (struct choices){data + *size, n};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct choices c = split(data, &size);
  struct arena arena = {0};
  struct diag d = {0};
  struct model m;
  // A copy, so that the sanitizers see a read beyond the model.
  uint8_t *bytes = malloc(size + !size);
  fuzz_require(bytes, "no memory");
  if (size)
    memcpy(bytes, data, size);
  if (model_from_bytes(&m, &arena, bytes, size, "fuzz/model.onnx", NULL, &d) == STATUS_OK) {
    conversion_check(&m, &c, false, &arena);
    model_close(&m);
  }
  arena_free(&arena);
  free(bytes);
  return 0;
}
