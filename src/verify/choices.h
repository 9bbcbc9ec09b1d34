// What the selecting nodes of a model chose, as far as that can be seen beside its outputs: which
// candidate each row is.
#ifndef CHOICES_H
#define CHOICES_H

#include "graph.h"
#include "samples.h"

// The selecting nodes of the main graph that may choose otherwise than in fp32.
struct choices {
  int n;
  int *values;       // of each: the integers by which it says which candidates it chooses
  int *axes;         // along which its rows follow each other, from the end if below 0
  bool *transposed;  // a row is a column of a matrix
  int *place;        // by node: which of these it is, or -1
  bool hidden;       // some are in functions, whose inner values nobody sees
  // The rest is choices_behind's.
  struct graph *graph;
  const bool *changed;
  size_t *seen, *listed;  // by value and by choice: the last walk that came there
  int *queue;
  size_t walk, left;  // walks, and steps of all that may still be taken
};

// `changed`: see changes.h. All of it is in the arena.
struct choices choices_list(struct graph *g, const bool *changed, struct arena *a);

// Lists in behind[] (as many as c->n) those that the values depend on, through whatever, and
// returns how many; -1 if they may depend on others as well.
int choices_behind(struct choices *c, const int *values, int n, int *behind);

// One choice as keys: for each element of the batch so many rows, each of `width` integers.
struct chosen {
  const int64_t *keys;
  size_t blocks, rows, width;
};

// False if the array is no such choice.
bool choices_read(const struct choices *c, int k, const struct array *x, struct chosen *out,
                  struct arena *a);

bool choices_equal(const struct array *x, const struct array *y);

#endif
