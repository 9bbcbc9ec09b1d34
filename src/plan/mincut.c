// Minimum cut by push-relabel. The network is kept reversed: flow starts at nodes that the source
// side costs more (they have excess) and ends at nodes that the sink side costs more (they have
// room). When no excess can reach room any more, the nodes that can still reach room are the
// smallest source side; no flow needs to be led back, so the second phase of the method is left
// out. Each step looks at one node or one edge; recursion is not used.
#include "mincut.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int mincut_scale(double total) {
  enum { MOST_FRACTION_BITS = 16, TOTAL_BITS = 58 };
  int exponent;
  frexp(total, &exponent);
  int scale = TOTAL_BITS - exponent;
  return scale < MOST_FRACTION_BITS ? scale : MOST_FRACTION_BITS;
}

void mincut_init(struct mincut *m, struct arena *a) {
  *m = (struct mincut){.arena = a};
}

int mincut_add_node(struct mincut *m) {
  m->weight = arena_grow(m->arena, m->weight, &m->capacity_nodes, (size_t)m->n_nodes + 1,
                         sizeof *m->weight);
  return m->n_nodes++;
}

void mincut_add_cost(struct mincut *m, int node, int64_t on_source, int64_t on_sink) {
  assert(node >= 0 && node < m->n_nodes && on_source >= 0 && on_sink >= 0);
  m->weight[node] += on_source - on_sink;
  m->constant += on_sink;  // mincut_solve knows what is left of it
}

void mincut_add_edge(struct mincut *m, int from, int to, int64_t capacity) {
  assert(from >= 0 && from < m->n_nodes && to >= 0 && to < m->n_nodes && capacity >= 0);
  if (capacity == 0 || from == to)
    return;
  m->edges = arena_grow(m->arena, m->edges, &m->capacity_edges, m->n_edges + 1, sizeof *m->edges);
  m->edges[m->n_edges++] = (struct mincut_edge){from, to, capacity};
}

// The residual network. An arc and its reverse know each other; the arcs of node v are first[v] up
// to first[v + 1].
struct network {
  int n;
  int dead;  // the height of nodes from which no room can be reached: above every distance
  size_t n_arcs, *first, *current, *reverse;
  int *to;
  int64_t *residual, *excess, *room;
  // Height of a node: no more than its distance from room. Nodes of one height are in a list each
  // (`level`, doubly linked), those that have excess also in another one (`active`).
  int *height, *level, *next, *previous, *active, *next_active;
  int highest, highest_active;
  int *queue;
  size_t work;  // since the last global relabelling
};

static void add_arcs(struct network *w, const struct mincut *m) {
  struct arena *a = m->arena;
  size_t n = (size_t)w->n;
  w->n_arcs = 2 * m->n_edges;
  w->first = arena_array(a, n + 1, sizeof *w->first);
  w->current = arena_array(a, n + 1, sizeof *w->current);
  w->to = arena_array(a, w->n_arcs, sizeof *w->to);
  w->reverse = arena_array(a, w->n_arcs, sizeof *w->reverse);
  w->residual = arena_array(a, w->n_arcs, sizeof *w->residual);
  for (size_t e = 0; e < m->n_edges; e++) {
    w->first[m->edges[e].from + 1]++;
    w->first[m->edges[e].to + 1]++;
  }
  for (size_t v = 0; v < n; v++) {
    w->first[v + 1] += w->first[v];
    w->current[v] = w->first[v];
  }
  for (size_t e = 0; e < m->n_edges; e++) {
    const struct mincut_edge *edge = &m->edges[e];
    size_t along = w->current[edge->to]++, back = w->current[edge->from]++;
    w->to[along] = edge->from;
    w->to[back] = edge->to;
    w->reverse[along] = back;
    w->reverse[back] = along;
    w->residual[along] = edge->capacity;
  }
}

static void network_init(struct network *w, const struct mincut *m) {
  struct arena *a = m->arena;
  *w = (struct network){.n = m->n_nodes, .dead = m->n_nodes + 1};
  size_t n = (size_t)w->n;
  add_arcs(w, m);
  w->excess = arena_array(a, n, sizeof *w->excess);
  w->room = arena_array(a, n, sizeof *w->room);
  w->height = arena_array(a, n, sizeof *w->height);
  w->level = arena_array(a, n + 2, sizeof *w->level);
  w->active = arena_array(a, n + 2, sizeof *w->active);
  w->next = arena_array(a, n, sizeof *w->next);
  w->previous = arena_array(a, n, sizeof *w->previous);
  w->next_active = arena_array(a, n, sizeof *w->next_active);
  w->queue = arena_array(a, n, sizeof *w->queue);
  for (size_t v = 0; v < n; v++) {
    if (m->weight[v] > 0)
      w->excess[v] = m->weight[v];
    else
      w->room[v] = -m->weight[v];
  }
}

// ---- lists ----

static void activate(struct network *w, int v) {
  int h = w->height[v];
  w->next_active[v] = w->active[h];
  w->active[h] = v;
  w->highest_active = h > w->highest_active ? h : w->highest_active;
}

static void insert_at_level(struct network *w, int v) {
  int h = w->height[v], head = w->level[h];
  w->next[v] = head;
  w->previous[v] = -1;
  if (head >= 0)
    w->previous[head] = v;
  w->level[h] = v;
  w->highest = h > w->highest ? h : w->highest;
}

static void remove_from_level(struct network *w, int v) {
  if (w->previous[v] >= 0)
    w->next[w->previous[v]] = w->next[v];
  else
    w->level[w->height[v]] = w->next[v];
  if (w->next[v] >= 0)
    w->previous[w->next[v]] = w->previous[v];
}

// ---- heights ----

// Breadth first from the nodes with room, against the direction of flow.
static void find_distances(struct network *w) {
  size_t head = 0, tail = 0;
  for (int v = 0; v < w->n; v++) {
    w->height[v] = w->room[v] > 0 ? 1 : w->dead;
    if (w->room[v] > 0)
      w->queue[tail++] = v;
  }
  while (head < tail) {
    int v = w->queue[head++];
    for (size_t a = w->first[v]; a < w->first[v + 1]; a++) {
      int u = w->to[a];
      if (w->height[u] < w->dead || w->residual[w->reverse[a]] == 0)
        continue;
      w->height[u] = w->height[v] + 1;
      w->queue[tail++] = u;
    }
  }
}

static void relabel_all(struct network *w) {
  find_distances(w);
  w->work = 0;
  w->highest = w->highest_active = 0;
  for (int h = 0; h <= w->dead; h++)
    w->level[h] = w->active[h] = -1;
  for (int v = 0; v < w->n; v++) {
    w->current[v] = w->first[v];
    if (w->height[v] == w->dead)
      continue;
    insert_at_level(w, v);
    if (w->excess[v] > 0)
      activate(w, v);
  }
}

// No node is at height `gap`: none above it can reach room.
static void lift_above(struct network *w, int gap) {
  for (int h = gap + 1; h <= w->highest; h++) {
    for (int v = w->level[h]; v >= 0; v = w->next[v])
      w->height[v] = w->dead;
    w->level[h] = w->active[h] = -1;
  }
  w->highest = gap > 0 ? gap - 1 : 0;
  w->highest_active = w->highest_active < w->highest ? w->highest_active : w->highest;
}

static void relabel(struct network *w, int v) {
  int lowest = w->dead, old = w->height[v];
  for (size_t a = w->first[v]; a < w->first[v + 1]; a++)
    if (w->residual[a] > 0 && w->height[w->to[a]] + 1 < lowest) {
      lowest = w->height[w->to[a]] + 1;
      w->current[v] = a;
    }
  w->work += w->first[v + 1] - w->first[v] + 8;
  remove_from_level(w, v);
  bool gap = w->level[old] < 0;
  w->height[v] = lowest;
  if (gap) {
    w->height[v] = w->dead;  // it stood there alone, and rises above the gap
    lift_above(w, old);
  } else if (lowest < w->dead) {
    insert_at_level(w, v);
  }
}

// ---- flow ----

static void push(struct network *w, int v, size_t a) {
  int u = w->to[a];
  int64_t flow = w->excess[v] < w->residual[a] ? w->excess[v] : w->residual[a];
  w->excess[v] -= flow;
  w->residual[a] -= flow;
  w->residual[w->reverse[a]] += flow;
  int64_t ends_here = flow < w->room[u] ? flow : w->room[u];
  w->room[u] -= ends_here;
  flow -= ends_here;
  if (flow > 0 && w->excess[u] == 0) {
    w->excess[u] = flow;
    activate(w, u);
  } else {
    w->excess[u] += flow;
  }
}

static void discharge(struct network *w, int v) {
  while (w->excess[v] > 0 && w->height[v] < w->dead) {
    size_t a = w->current[v];
    if (a == w->first[v + 1]) {
      relabel(w, v);
      continue;
    }
    if (w->residual[a] > 0 && w->height[w->to[a]] + 1 == w->height[v])
      push(w, v, a);
    else
      w->current[v]++;
  }
}

static void push_all(struct network *w) {
  size_t patience = 6 * (size_t)w->n + w->n_arcs;
  relabel_all(w);
  while (w->highest_active > 0) {
    int v = w->active[w->highest_active];
    if (v < 0) {
      w->highest_active--;
      continue;
    }
    w->active[w->highest_active] = w->next_active[v];
    discharge(w, v);
    if (w->work > patience)
      relabel_all(w);
  }
}

int64_t mincut_solve(struct mincut *m, bool *source_side) {
  struct network w;
  network_init(&w, m);
  push_all(&w);
  find_distances(&w);
  // Cost of this cut, counted afresh: what each side costs by itself, and the edges across.
  int64_t cost = m->constant;
  for (int v = 0; v < m->n_nodes; v++) {
    source_side[v] = w.height[v] < w.dead;
    cost += source_side[v] ? m->weight[v] : 0;
  }
  for (size_t e = 0; e < m->n_edges; e++)
    if (source_side[m->edges[e].from] && !source_side[m->edges[e].to])
      cost += m->edges[e].capacity;
  return cost;
}
