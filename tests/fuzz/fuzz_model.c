// The bytes of a model file: the walk with limits, unpacking, the index with its types, the
// contents of all tensors, the invariants, raising the opset, and saving. What loads must be
// written and read again as the same model; what is raised must keep the invariants.
#include "check.h"
#include "clone.h"
#include "fuzz.h"
#include "graph.h"
#include "raise_opset.h"
#include "tensor.h"
#include "types.h"

#include <stdlib.h>
#include <string.h>

static enum status read_tensor(void *context, Onnx__TensorProto *t) {
  struct arena scratch = {0};
  struct diag d = {0};
  struct tensor view;
  enum status status = tensor_read(context, t, &scratch, &view, &d);
  fuzz_check_diag(status, &d);
  if (status == STATUS_OK) {
    uint64_t count, bytes;
    fuzz_require(tensor_extent(t, &count, &bytes) && count == view.count, "extent");
    float *x = view.count <= 4096 ? arena_array(&scratch, view.count, sizeof *x) : NULL;
    if (x)
      tensor_to_float(&view, x);
  }
  arena_free(&scratch);
  return STATUS_OK;
}

// What `inspect` and messages ask an index for.
static void ask(struct graph *g) {
  for (int v = 0; v < g->n_values; v++) {
    char text[TYPE_TEXT_SIZE];
    fuzz_require(graph_value_label(g, v)[0] && type_text(g->values[v].type, text)[0], "value %d",
                 v);
    fuzz_require(!graph_constant(g, v) || graph_is_constant(g, v), "value %d", v);
  }
  for (int n = 0; n < g->n_nodes; n++)
    fuzz_require(graph_node_label(g, n)[0], "node %d", n);
}

// A type that no version of an operator allows may show only then: that is an error, and no fault.
static void raise_copy(const struct model *m, struct arena *a) {
  struct diag d = {0};
  struct graph g;
  struct model copy = clone_model(m, a);
  fuzz_require(graph_build(&g, &copy, fuzz_schemas(), a, &d) == STATUS_OK, "%s", d.message);
  enum status status = raise_opset(&copy, &g, RAISE_OPSET_MOST, a, &d);
  fuzz_check_diag(status, &d);
  if (status != STATUS_OK)
    return;
  status = graph_build(&g, &copy, fuzz_schemas(), a, &d);
  fuzz_check_diag(status, &d);
  if (status == STATUS_OK)
    fuzz_check_diag(check_model(&copy, fuzz_schemas(), NULL, &d), &d);
}

static void save_and_load(struct model *m, struct arena *a) {
  struct diag d = {0};
  uint8_t *first, *second;
  size_t n_first, n_second;
  fuzz_check_diag(model_pack(m->proto, a, &first, &n_first, &d), &d);
  struct model again;
  const char *path = fuzz_write("saved.onnx", "", 0);
  if (model_save(m, path, &d) != STATUS_OK) {  // external data, say, that is not there
    fuzz_check_diag(d.status, &d);
    return;
  }
  fuzz_require(model_load(&again, a, path, NULL, &d) == STATUS_OK, "%s", d.message);
  fuzz_require(model_pack(again.proto, a, &second, &n_second, &d) == STATUS_OK, "%s", d.message);
  fuzz_require(n_first == n_second && memcmp(first, second, n_first) == 0,
               "another model after saving: %zu and %zu bytes", n_first, n_second);
  model_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct arena arena = {0};
  struct diag d = {0};
  struct model m;
  enum status status = model_from_bytes(&m, &arena, data, size, "fuzz/model.onnx", NULL, &d);
  fuzz_check_diag(status, &d);
  if (status == STATUS_OK) {
    struct graph g;
    model_each_tensor(m.proto, read_tensor, &m);
    status = graph_build(&g, &m, fuzz_schemas(), &arena, &d);
    fuzz_check_diag(status, &d);
    if (status == STATUS_OK) {
      ask(&g);
      fuzz_check_diag(check_model(&m, fuzz_schemas(), NULL, &d), &d);
      raise_copy(&m, &arena);
    }
    save_and_load(&m, &arena);
    model_close(&m);
  }
  arena_free(&arena);
  return 0;
}
