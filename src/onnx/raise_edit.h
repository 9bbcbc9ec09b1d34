// What the files that raise the opset share: the node in hand, and how it and its surroundings are
// changed.
#ifndef RAISE_EDIT_H
#define RAISE_EDIT_H

#include "graph.h"

struct raising {
  struct model *model;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
  int to;
  struct map names;  // of all values and nodes, also those made here
  int *ranks;        // of the graph's values, see ranks.h
  // The new list of nodes of a scope.
  Onnx__NodeProto **list;
  size_t count, capacity;
};

// The node that is adapted, and the row of the table that says how.
struct subject {
  int id;
  Onnx__NodeProto *node;
  const struct adapter *how;
};

struct adapter {
  const char *op;
  int since;                                                         // the version that changed it
  enum status (*adapt)(struct raising *r, const struct subject *s);  // NULL: there is no way
  const char *name;  // of an attribute or operator; or why there is no way
  int input;         // that the attribute becomes
};

// Fails: "<operator> of opset <version> <why>".
enum status raise_refuse(struct raising *r, const struct subject *s, const char *why);

// `wanted`, or that with a number behind it: a name that nothing in the model has.
const char *raise_unused_name(struct raising *r, const char *wanted);

// The subject's first output that has a name: what is made for it is named after that.
const char *raise_output_name(const struct subject *s);

void raise_append(struct raising *r, Onnx__NodeProto *node);

// Removes the attribute; *out is NULL if it is not there. One that refers to an attribute of the
// function around it has no value to move, which is refused.
enum status raise_take(struct raising *r, const struct subject *s, const char *name,
                       Onnx__AttributeProto **out);

bool raise_attribute_says(const struct subject *s, const char *name, const char *text);

// The node's input k becomes the value of that name.
void raise_set_input(struct raising *r, Onnx__NodeProto *node, size_t k, const char *name);

// A node in front of the subject, named after it and `what`, whose inputs are the names up to the
// NULL; its one output has the node's name.
Onnx__NodeProto *raise_add(struct raising *r, const struct subject *s, const char *op,
                           const char *what, ...) __attribute__((sentinel));

// A Constant node in front of the subject; the name of what it gives.
const char *raise_constant(struct raising *r, const struct subject *s, const char *what,
                           Onnx__TensorProto *value);
const char *raise_ints(struct raising *r, const struct subject *s, const char *what,
                       const int64_t *values, size_t n);
const char *raise_floats(struct raising *r, const struct subject *s, const char *what,
                         const float *values, size_t n);

// The same of the element type of the subject's first input, which must be a float's, for values
// that lie along the first of `rank` axes: 0 for a scalar.
enum status raise_values(struct raising *r, const struct subject *s, const char *what,
                         const float *values, size_t n, size_t rank, const char **out);

#endif
