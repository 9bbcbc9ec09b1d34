// How an output's type follows from a schema's choices (see schema.h) for one node.
#ifndef TYPE_RULES_H
#define TYPE_RULES_H

#include "graph.h"

struct rule_context {
  const struct graph *g;
  int node;
  // The node's attribute of that name, or NULL; sets *open if it cannot be told which.
  const Onnx__AttributeProto *(*attribute)(void *context, const Onnx__NodeProto *node,
                                           const char *name, bool *open);
  void *context;
};

// The type of output `k`; TYPE_UNKNOWN if no choice tells.
struct type rule_output_type(const struct rule_context *c, int k);

// True if a choice of the schema reads the attribute's value.
bool rule_reads(const struct schema *s, const char *attribute);

// The type that an attribute names or holds: an int or string names an element type, a tensor has
// one; TYPE_UNKNOWN otherwise.
struct type rule_attribute_type(const Onnx__AttributeProto *a);

#endif
