// Device configurations name the tensors that a node reads and gives out, and how they are split
// over devices. Where a node was given another copy of a value, the name follows. Must come behind
// the passes that rename.
#include "pass.h"

#include <string.h>

static void rename_tensor(Onnx__NodeProto *node, const char *from, const char *to,
                          struct arena *a) {
  for (size_t c = 0; c < node->n_device_configurations; c++) {
    const Onnx__NodeDeviceConfigurationProto *configuration = node->device_configurations[c];
    for (size_t i = 0; i < configuration->n_sharding_spec; i++) {
      Onnx__ShardingSpecProto *spec = configuration->sharding_spec[i];
      if (spec->tensor_name && strcmp(spec->tensor_name, from) == 0)
        spec->tensor_name = arena_strdup(a, to);
    }
  }
}

static void follow(const struct rewrite *w, const int *values, char **names, int count,
                   Onnx__NodeProto *node) {
  for (int k = 0; k < count; k++)
    if (values[k] >= 0 && strcmp(w->graph->values[values[k]].name, names[k]) != 0)
      rename_tensor(node, w->graph->values[values[k]].name, names[k], w->arena);
}

enum status pass_devices(struct rewrite *w, struct diag *d) {
  (void)d;
  for (int n = 0; n < w->graph->n_nodes; n++) {
    const struct node *node = &w->graph->nodes[n];
    if (node->proto->n_device_configurations == 0)
      continue;
    follow(w, node->inputs, node->proto->input, node->n_inputs, node->proto);
    follow(w, node->outputs, node->proto->output, node->n_outputs, node->proto);
  }
  return STATUS_OK;
}
