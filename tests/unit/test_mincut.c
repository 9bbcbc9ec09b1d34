// mincut: the least cost against trying every cut of many random graphs, the smallest source side
// among equals, and time on large graphs of the shapes that a model gives.
#include "mincut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
// cmocka.h needs those above.
#include <cmocka.h>

#include <string.h>
#include <time.h>

struct random {
  uint64_t state;
};

// splitmix64
static uint64_t draw(struct random *r, uint64_t below) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

// Both ends and the capacity drawn below a bound each, in this order.
static void random_edge(struct mincut *m, struct random *r, int ends, uint64_t capacities) {
  int from = (int)draw(r, (uint64_t)ends), to = (int)draw(r, (uint64_t)ends);
  mincut_add_edge(m, from, to, (int64_t)draw(r, capacities));
}

static void random_costs(struct mincut *m, struct random *r, int v, uint64_t on_source,
                         uint64_t on_sink) {
  int64_t source = (int64_t)draw(r, on_source);
  mincut_add_cost(m, v, source, (int64_t)draw(r, on_sink));
}

static int64_t cost_of(const struct mincut *m, const int64_t (*costs)[2], unsigned sources) {
  int64_t cost = 0;
  for (int v = 0; v < m->n_nodes; v++)
    cost += costs[v][sources >> v & 1 ? 0 : 1];
  for (size_t e = 0; e < m->n_edges; e++)
    if ((sources >> m->edges[e].from & 1) && !(sources >> m->edges[e].to & 1))
      cost += m->edges[e].capacity;
  return cost;
}

// Capacities are small, so that ties are common; some edges are infinite.
static void one_random_graph(struct random *r) {
  enum { NODES = 10 };
  struct arena a = {0};
  struct mincut m;
  int64_t costs[NODES][2];
  bool side[NODES];
  int n = 1 + (int)draw(r, NODES), n_edges = (int)draw(r, 25);
  mincut_init(&m, &a);
  for (int v = 0; v < n; v++) {
    assert_int_equal(mincut_add_node(&m), v);
    for (int k = 0; k < 2; k++)
      costs[v][k] = draw(r, 2) ? (int64_t)draw(r, 6) : 0;
    mincut_add_cost(&m, v, costs[v][0], costs[v][1]);
  }
  for (int e = 0; e < n_edges; e++) {
    int from = (int)draw(r, (uint64_t)n), to = (int)draw(r, (uint64_t)n);
    mincut_add_edge(&m, from, to, draw(r, 4) ? (int64_t)draw(r, 6) : MINCUT_INFINITE);
  }
  // The empty and the full source side cut no edge, so the least cost is finite.
  int64_t least = INT64_MAX;
  unsigned smallest = 0;
  for (unsigned s = 0; s < 1u << n; s++) {
    int infinite = 0;
    for (size_t e = 0; e < m.n_edges; e++)
      infinite += m.edges[e].capacity == MINCUT_INFINITE && (s >> m.edges[e].from & 1) &&
                  !(s >> m.edges[e].to & 1);
    int64_t cost = infinite ? INT64_MAX : cost_of(&m, (const int64_t(*)[2])costs, s);
    if (cost < least) {
      least = cost;
      smallest = s;
    } else if (cost == least && cost < INT64_MAX) {
      smallest &= s;  // optimal cuts are closed under intersection
    }
  }
  assert_true(mincut_solve(&m, side) == least);
  for (int v = 0; v < n; v++)
    assert_int_equal(side[v], smallest >> v & 1);
  arena_free(&a);
}

static void mincut_is_the_least_of_all_cuts_and_the_smallest_of_these(void **state) {
  (void)state;
  struct random r = {1};
  for (int i = 0; i < 5000; i++)
    one_random_graph(&r);
}

static void mincut_of_nothing_is_nothing(void **state) {
  (void)state;
  struct arena a = {0};
  struct mincut m;
  mincut_init(&m, &a);
  bool side[1];
  assert_true(mincut_solve(&m, side) == 0);
  arena_free(&a);
}

static void mincut_gives_ties_to_the_sink(void **state) {
  (void)state;
  struct arena a = {0};
  struct mincut m;
  bool side[2];
  mincut_init(&m, &a);
  mincut_add_node(&m);
  mincut_add_node(&m);
  mincut_add_cost(&m, 0, 0, 5);  // wants the source side as much ...
  mincut_add_edge(&m, 0, 1, 5);  // ... as its neighbour makes it cost
  mincut_add_cost(&m, 1, 9, 0);
  assert_true(mincut_solve(&m, side) == 5);
  assert_false(side[0] || side[1]);
  arena_free(&a);
}

// Builds, solves, and fails if that takes longer than a machine under load may need.
static void expect_fast(void (*build)(struct mincut *m, struct random *r)) {
  struct arena a = {0};
  struct mincut m;
  struct random r = {7};
  mincut_init(&m, &a);
  build(&m, &r);
  bool *side = arena_array(&a, (size_t)m.n_nodes, sizeof *side);
  clock_t start = clock();
  int64_t cost = mincut_solve(&m, side);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  print_message("%d nodes, %zu edges: %.2f s, cost %lld\n", m.n_nodes, m.n_edges, seconds,
                (long long)cost);
  assert_true(seconds < 20);
  arena_free(&a);
}

enum { MANY = 100000 };

static void add_nodes(struct mincut *m, struct random *r, uint64_t on_source, uint64_t on_sink) {
  for (int v = 0; v < MANY; v++) {
    mincut_add_node(m);
    random_costs(m, r, v, on_source, on_sink);
  }
}

// Like a deep model: edges to nodes shortly behind, in both directions.
static void deep(struct mincut *m, struct random *r) {
  add_nodes(m, r, 1000, 1100);
  for (int v = 0; v < MANY; v++)
    for (int k = 0; k < 5; k++) {
      int to = v + 1 + (int)draw(r, k ? 50 : 1);
      if (to < MANY)
        mincut_add_edge(m, k & 1 ? to : v, k & 1 ? v : to, (int64_t)draw(r, 1500));
    }
}

static void tangled(struct mincut *m, struct random *r) {
  add_nodes(m, r, 1000, 1000);
  for (int e = 0; e < 5 * MANY; e++)
    random_edge(m, r, MANY, 1000);
}

// All flow goes from one end of a chain to the other.
static void chain(struct mincut *m, struct random *r) {
  for (int v = 0; v < MANY; v++) {
    mincut_add_node(m);
    int64_t cost = 1 + (int64_t)draw(r, 9);
    mincut_add_cost(m, v, v < MANY / 2 ? cost : 0, v < MANY / 2 ? 0 : cost);
    if (v > 0)
      mincut_add_edge(m, v, v - 1, 1000000000 + (int64_t)draw(r, 9));
  }
}

// The classic hard case: a square of neighbours, flow from one edge of it to the other.
static void square(struct mincut *m, struct random *r) {
  enum { SIDE = 316 };
  for (int v = 0; v < SIDE * SIDE; v++) {
    int row = v / SIDE, column = v % SIDE;
    mincut_add_node(m);
    mincut_add_cost(m, v, column == 0 ? 100000 : 0, column == SIDE - 1 ? 100000 : 0);
    for (int back = 0; back < 2; back++) {
      if (row > 0)
        mincut_add_edge(m, back ? v - SIDE : v, back ? v : v - SIDE, (int64_t)draw(r, 10000));
      if (column > 0)
        mincut_add_edge(m, back ? v - 1 : v, back ? v : v - 1, (int64_t)draw(r, 10000));
    }
  }
}

// Groups of readers behind auxiliary nodes with infinite edges, and one that all read.
static void shared(struct mincut *m, struct random *r) {
  add_nodes(m, r, 900, 1000);
  int everyone = mincut_add_node(m);
  mincut_add_cost(m, everyone, 700, 0);
  for (int v = 0; v < MANY; v++) {
    mincut_add_edge(m, v, everyone, MINCUT_INFINITE);
    if (v % 10 == 0) {
      int group = mincut_add_node(m);
      mincut_add_edge(m, v, group, (int64_t)draw(r, 3000));
      for (int k = 1; k < 10; k++)
        mincut_add_edge(m, group, v + k, MINCUT_INFINITE);
    }
  }
}

static void mincut_takes_100000_nodes_of_a_deep_graph(void **state) {
  (void)state;
  expect_fast(deep);
}

static void mincut_takes_100000_nodes_of_a_tangled_graph(void **state) {
  (void)state;
  expect_fast(tangled);
}

static void mincut_takes_a_chain_of_100000_nodes(void **state) {
  (void)state;
  expect_fast(chain);
}

static void mincut_takes_a_square_of_100000_nodes(void **state) {
  (void)state;
  expect_fast(square);
}

static void mincut_takes_100000_readers_of_one_value(void **state) {
  (void)state;
  expect_fast(shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mincut_is_the_least_of_all_cuts_and_the_smallest_of_these),
      cmocka_unit_test(mincut_of_nothing_is_nothing),
      cmocka_unit_test(mincut_gives_ties_to_the_sink),
      cmocka_unit_test(mincut_takes_100000_nodes_of_a_deep_graph),
      cmocka_unit_test(mincut_takes_100000_nodes_of_a_tangled_graph),
      cmocka_unit_test(mincut_takes_a_chain_of_100000_nodes),
      cmocka_unit_test(mincut_takes_a_square_of_100000_nodes),
      cmocka_unit_test(mincut_takes_100000_readers_of_one_value),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
