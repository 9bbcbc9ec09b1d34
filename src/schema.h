// The operator table: for every operator and version the element types that its inputs, outputs and
// attributes may have. Read from proto/operators.tsv, which the program carries inside.
#ifndef SCHEMA_H
#define SCHEMA_H

#include "arena.h"
#include "diag.h"

#include <stdbool.h>
#include <stdint.h>

// What a value holds. A tensor of elem_type, or a container of such tensors.
enum type_kind {
  TYPE_UNKNOWN,
  TYPE_TENSOR,
  TYPE_SEQUENCE,
  TYPE_OPTIONAL,
  TYPE_OPTIONAL_SEQUENCE,
  TYPE_MAP,
  TYPE_SPARSE
};
struct type {
  enum type_kind kind;
  int elem_type;  // Onnx__TensorProto__DataType; 0 if not known
};

// The set of types that a type variable may take.
struct type_set {
  uint64_t tensors;    // bit k: tensor of element type k
  uint64_t sequences;  // likewise for the containers
  uint64_t optionals;
  uint64_t others;  // maps and sparse tensors
};

// One formal input or output.
struct formal {
  const char *name;
  int var;        // index into schema.vars; formals of one var have one type (unless heterogeneous)
  bool optional;  // may be absent
  bool variadic;  // the last formal, repeated
  bool heterogeneous;  // variadic whose repetitions may differ in type
};

struct type_var {
  const char *name;  // "T"; a formal with fixed types has a variable of its own, named ""
  struct type_set allowed;
};

// How an output's type follows from an attribute where no input fixes it.
struct type_attribute {
  int output;             // index
  const char *attribute;  // its name: an int (element type) or a tensor (its type counts)
  int default_type;       // element type without the attribute; 0: that of input `default_input`
  int default_input;      // or -1
};

struct schema {
  const char *domain;  // "" for ai.onnx
  const char *op;
  int since;  // the opset version that introduced this form
  bool deprecated, has_function;
  struct type_var *vars;
  int n_vars;
  struct formal *inputs, *outputs;
  int n_inputs, n_outputs;
  struct type_attribute *type_attributes;
  int n_type_attributes;
};

struct schema_table {
  struct arena *arena;
  struct schema *schemas;  // sorted by domain, op, since
  size_t count;
};

// Parses the embedded table. It is our own data: a fault in it is a bug (assert).
void schema_load(struct schema_table *t, struct arena *a);

// The form of domain::op that a model importing `opset` of that domain uses: the newest with
// since <= opset. NULL if unknown. domain "ai.onnx" means "".
const struct schema *schema_find(const struct schema_table *t, const char *domain, const char *op,
                                 int opset);

// Form of domain::op with the smallest since >= `from` that allows element type `elem_type` for the
// variable of input or output 0 ("the plan can say which opset would allow it"); NULL if none.
const struct schema *schema_first_allowing(const struct schema_table *t, const char *domain,
                                           const char *op, int from, int elem_type);

// Formal of the k-th actual input (output); variadic repeats the last; NULL if there is none.
const struct formal *schema_input(const struct schema *s, int k);
const struct formal *schema_output(const struct schema *s, int k);

// True if variable `var` of s may be a tensor of elem_type.
bool schema_allows(const struct schema *s, int var, int elem_type);

#endif
