// What the tests of the graph and its types share: one operator table for all tests of a program,
// and for each test a model in the making (support_graph.h), its index, and what was said of it.
#ifndef SUPPORT_INDEX_H
#define SUPPORT_INDEX_H

#include "support_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs those above.
#include <cmocka.h>

struct indexed {
  struct arena arena;
  struct build b;
  struct model m;
  struct graph g;
  struct diag d;
  int warnings;
};

extern struct schema_table indexed_schemas;

// cmocka's set-up and tear-down of all tests, and of one, whose model is of opset 17.
int indexed_load_schemas(void **state);
int indexed_free_schemas(void **state);
int indexed_set_up(void **state);
int indexed_tear_down(void **state);

// Makes the model and its index; fails the test if that fails.
void index_model(struct indexed *f);
// Expects a refusal whose message, node or tensor mentions `text`.
void refuse(struct indexed *f, const char *text);

#endif
