// The whole way from a model's bytes to the converted model. The input is a model, and then choices
// of policy and statistics (see fuzz_model_size).
#include "conversion.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t whole) {
  enum { TAIL = 3 };
  size_t size = fuzz_model_size(data, whole);
  struct choices c = {data + size, size < whole ? whole - size - TAIL : 0};
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
