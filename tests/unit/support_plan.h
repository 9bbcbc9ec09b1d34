// What the tests of plan, passes, emulate and verify share: a model in the making, made-up
// statistics (no engine is needed), a policy of a few rules, and questions about the results.
//
//   struct planning *f = *state;           // from planning_set_up
//   build_input(&f->b, "x", "float[2]"); ...
//   planning_index(f);                     // model and graph; every float value was seen as 1, 2
//   planning_see(f, "y", (float[]){7e4f}, 1);
//   planning_decide(f);                    // f->p
//   planning_rewrite(f);                   // f->emitted: index of the rewritten model
//
// Values are named as in graph_value_label. A node is named by a value that it produces.
#ifndef SUPPORT_PLAN_H
#define SUPPORT_PLAN_H

#include "passes.h"
#include "support_graph.h"
#include "verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

struct planning {
  struct arena arena;
  struct build b;
  struct schema_table *schemas;
  struct model m, changed;  // as built; the clone that was rewritten
  struct graph g, emitted;
  struct trace t;
  bool no_trace;
  struct policy policy;
  struct plan p;
  struct rewrite_report report;
  struct reference reference;  // what fp32 gave when it was verified last
  struct diag d;
  char folder[64];  // removed at the end, with the files in it; "" while none was asked for
};

// cmocka's set-up and tear-down of one test. Opset 17; the policy: MatMul, Gemm and Conv narrow;
// element-wise and moving operators follow; the rest is pinned, Casts, control flow and unknown
// operators kept. Ladder fp16, fp32; margin 2. The target moves a byte a
// second, so that times are bytes, and takes 256 s for an operation of a matrix product in fp32 but
// 1 s in fp16: that outweighs the Casts of any small tensor.
int planning_set_up(void **state);
int planning_tear_down(void **state);

void planning_ladder(struct planning *f, enum format_id first, enum format_id second);

void planning_index(struct planning *f);
// Replaces the statistics of a value by those of one run with these elements.
void planning_see(struct planning *f, const char *label, const float *x, size_t n);
void planning_unsee(struct planning *f, const char *label);
void planning_decide(struct planning *f);
void planning_rewrite(struct planning *f);  // decides first, if that was not done
// The three in a row; statistics are the usual ones.
void planning_all(struct planning *f);

// A file in a folder of this test.
const char *planning_path(struct planning *f, const char *name);
// Opens a plan file and reads it with the model.
enum status planning_read_plan(struct planning *f, struct plan *p, const char *path,
                               struct diag *d);
// Reads it as f's plan, and fails the test unless that ends with the status, and with the message,
// if one is given, as a part of what is said.
void planning_expect_read(struct planning *f, const char *path, enum status wanted,
                          const char *message);
// A whole file, in the arena, with a NUL behind it.
char *planning_read_file(struct planning *f, const char *path, size_t *size);

int value_id(const struct graph *g, const char *label);  // fails the test if there is none
int node_of(const struct graph *g, const char *output);
// Of the node that produces `output`.
enum format_id node_format(const struct planning *f, const char *output);
enum reason node_reason(const struct planning *f, const char *output);
enum format_id value_format(const struct planning *f, const char *label);

// Of the rewritten model: element type of a value; how many nodes of that operator there are in all
// scopes; the node that produces `output`.
int emitted_type(const struct planning *f, const char *label);
int emitted_count(const struct planning *f, const char *op);
const Onnx__NodeProto *emitted_node(const struct planning *f, const char *output);
// The initializer of the main graph, or NULL.
const Onnx__TensorProto *emitted_initializer(const struct planning *f, const char *name);

// The model as built and as it is now, packed, are the same bytes.
bool same_model(struct planning *f, const struct model *x, const struct model *y);

// That these are the names, with a blank between, and _ for an empty one.
void same_list(char **names, size_t count, const char *wanted);

#endif
