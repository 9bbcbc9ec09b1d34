// Formulas of operators, and their search in a graph by dataflow. A formula is written as a call:
//
//   Div(x, Sqrt(Add(mean(square(x)), #)))
//
//   Name(...)  an operator of ai.onnx; more inputs than those written may follow. Where order does
//              not matter (Add, Mul, Max, Min), either order matches
//   name(...)  what the table of definitions says, its letters replaced by the arguments
//   x          a letter: any value, the same one wherever the letter stands
//   #          any constant       2.5   a constant whose elements are all this number
//   ?          any value          a | b  the first of the two that matches
//
// What only moves elements (Reshape, Expand, Transpose, a Cast between floats ...) may stand
// between any two operators. Part of the planner.
#ifndef FORMULA_H
#define FORMULA_H

#include "graph.h"

// square(a) = Mul(a, a) | Pow(a, 2): "square", "a", "Mul(a, a) | Pow(a, 2)". Parameters are single
// letters. A definition may use others, not itself.
struct definition {
  const char *name, *parameters, *body;
};

enum { FORMULA_OPERATORS = 64 };

struct formulas {
  struct arena *arena;
  const struct definition *definitions;  // ends with a NULL name
  const char *operators[FORMULA_OPERATORS];
  int n_operators;
};

struct term;

// The text is ours: a fault in it is a bug (assert).
const struct term *formula_parse(struct formulas *f, const char *text);
// Bit k: a match may end in a node of operators[k].
uint64_t formula_ends(const struct term *t);

enum { MATCH_NODES = 64, MATCH_LETTERS = 26 };

// A graph as formulas see it, and what the last match has found.
struct matcher {
  const struct graph *graph;
  struct arena *arena;
  int *source;       // by value: what it is moved from; itself if its producer computes
  signed char *op;   // by node: index among the formulas' operators, or -1
  double *scalar;    // by value: the number that all elements of a constant are; else NaN
  int scope, steps;  // of the match that is going on
  int letters[MATCH_LETTERS];
  // The nodes that compute, the end first, and the value by which each was reached: what moves
  // elements stands between that and the node's own.
  int nodes[MATCH_NODES], reached[MATCH_NODES], n_nodes;
};

// All formulas must be parsed before.
void matcher_init(struct matcher *m, struct graph *g, const struct formulas *f, struct arena *a);

// Whether the formula's value is what node n gives; fills m->nodes. All nodes are of n's scope.
// Takes a bounded number of steps whatever the graph.
bool matcher_match(struct matcher *m, const struct term *t, int n);

#endif
