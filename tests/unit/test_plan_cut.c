// The cut between narrow and wide: the modelled cost of the plan against that of every assignment
// of thousands of small random models, priced here by formulas of the test's own; ties; ladders;
// the cost model of single operators; and a large model.
#include "plan_cost.h"
#include "plan_worth.h"
#include "support_plan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t draw(uint64_t *state, uint64_t below) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);  // splitmix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

// ---- small random models ----

enum kind { PRODUCT, SUM, JOIN, RELU, PINNED, KINDS };
enum { NODES = 11, INPUTS = 2, VALUES = INPUTS + NODES, LENGTH = 2 };

struct sketch {
  int n_nodes;
  enum kind kinds[NODES];
  int inputs[NODES][3];  // values: 0 and 1 are graph inputs, 2 + k is the output of node k
  int n_inputs[NODES];
  size_t elements[VALUES];
  bool fits[VALUES];  // in fp16
  bool given_out[VALUES];
  bool narrow_inputs, narrow_outputs;
};

static const char *const names[VALUES] = {"i0", "i1", "v0", "v1", "v2", "v3", "v4",
                                          "v5", "v6", "v7", "v8", "v9", "v10"};

static void draw_sketch(struct sketch *s, uint64_t *state) {
  static const int arity[KINDS] = {[PRODUCT] = 1, [SUM] = 2, [JOIN] = 3, [RELU] = 1, [PINNED] = 1};
  bool read[VALUES] = {false};
  memset(s, 0, sizeof *s);
  s->n_nodes = 1 + (int)draw(state, NODES);
  s->narrow_inputs = draw(state, 4) == 0;
  s->narrow_outputs = draw(state, 4) == 0;
  for (int v = 0; v < INPUTS + s->n_nodes; v++) {
    s->elements[v] = 1 + draw(state, 6) * draw(state, 6);
    s->fits[v] = draw(state, 12) > 0;
    s->given_out[v] = v >= INPUTS && draw(state, 6) == 0;
  }
  s->given_out[INPUTS + s->n_nodes - 1] = true;
  for (int n = 0; n < s->n_nodes; n++) {
    s->kinds[n] = (enum kind)draw(state, KINDS);
    s->n_inputs[n] = arity[s->kinds[n]];
    // Mostly recent values, sometimes any: chains and fan-out.
    for (int k = 0; k < s->n_inputs[n]; k++) {
      int last = INPUTS + n - 1, back = (int)draw(state, draw(state, 3) ? 3 : VALUES);
      s->inputs[n][k] = back > last ? 0 : last - back;
      read[s->inputs[n][k]] = true;
    }
  }
  for (int v = INPUTS; v < INPUTS + s->n_nodes; v++)  // else nobody needs it
    s->given_out[v] = s->given_out[v] || !read[v];
}

static void build_sketch(struct planning *f, const struct sketch *s) {
  static const char *const ops[KINDS] = {"MatMul", "Add", "Concat", "Relu", "Exp"};
  build_begin(&f->b, &f->arena, 17);
  build_input(&f->b, "i0", "float[2,2]");
  build_input(&f->b, "i1", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  for (int n = 0; n < s->n_nodes; n++) {
    const char *inputs = "";
    for (int k = 0; k < s->n_inputs[n]; k++)
      inputs = arena_printf(&f->arena, "%s%s%s", inputs, k ? " " : "", names[s->inputs[n][k]]);
    if (s->kinds[n] == PRODUCT)
      inputs = arena_printf(&f->arena, "%s w", inputs);
    Onnx__NodeProto *node = build_node(&f->b, ops[s->kinds[n]], inputs, names[INPUTS + n]);
    if (s->kinds[n] == JOIN)
      build_int(&f->b, node, "axis", 0);
    if (s->given_out[INPUTS + n])
      build_output(&f->b, names[INPUTS + n], "float[N,M]");
  }
  planning_index(f);
  for (int v = 0; v < INPUTS + s->n_nodes; v++) {
    float *x = arena_array(&f->arena, s->elements[v], sizeof *x);
    x[0] = s->fits[v] ? 1 : 1e6f;
    for (size_t i = 1; i < s->elements[v]; i++)
      x[i] = 1;
    planning_see(f, names[v], x, s->elements[v]);
  }
  f->policy.narrow_inputs = s->narrow_inputs;
  f->policy.narrow_outputs = s->narrow_outputs;
}

// ---- prices, in the test's own way ----

static bool may_be_narrow(const struct sketch *s, int n) {
  bool fits = s->fits[INPUTS + n] && s->kinds[n] != PINNED;
  for (int k = 0; k < s->n_inputs[n]; k++)
    fits = fits && s->fits[s->inputs[n][k]];
  return fits;
}

static bool touches(const struct sketch *s, int n, int v) {
  bool touched = v == INPUTS + n;
  for (int k = 0; k < s->n_inputs[n]; k++)
    touched = touched || s->inputs[n][k] == v;
  return touched;
}

// Nodes that may be narrow, and that others like them link to a product.
static unsigned find_free(const struct sketch *s) {
  unsigned free = 0, before;
  for (int n = 0; n < s->n_nodes; n++)
    free |= may_be_narrow(s, n) && s->kinds[n] == PRODUCT ? 1u << n : 0;
  do {
    before = free;
    for (int n = 0; n < s->n_nodes; n++)
      for (int m = 0; m < s->n_nodes && may_be_narrow(s, n); m++)
        for (int v = 0; v < VALUES && (free >> m & 1); v++)
          if (touches(s, n, v) && touches(s, m, v))
            free |= 1u << n;
  } while (before != free);
  return free;
}

static double price_node(const struct sketch *s, const struct target *t, int n, bool narrow) {
  enum format_id f = narrow ? FORMAT_FP16 : FORMAT_FP32;
  double width = narrow ? 2 : 4, output = (double)s->elements[INPUTS + n];
  double elements = output, largest = output;
  for (int k = 0; k < s->n_inputs[n]; k++) {
    double count = (double)s->elements[s->inputs[n][k]];
    elements += count;
    largest = count > largest ? count : largest;
  }
  double arithmetic = largest / t->vector[f];
  if (s->kinds[n] == PRODUCT) {
    elements += 4;  // w
    arithmetic = 2 * LENGTH * output / t->matrix[f];
  }
  return (arithmetic > width * elements ? arithmetic : width * elements) + t->overhead;
}

static double price_casts(const struct sketch *s, const struct target *t, int v, unsigned narrow) {
  int wide_readers = s->given_out[v] && !s->narrow_outputs, narrow_readers = 0;
  for (int n = 0; n < s->n_nodes; n++)
    for (int k = 0; k < s->n_inputs[n]; k++)
      if (s->inputs[n][k] == v)
        *(narrow >> n & 1 ? &narrow_readers : &wide_readers) += 1;
  bool stored_narrow = v >= INPUTS ? narrow >> (v - INPUTS) & 1
                                   : s->narrow_inputs && narrow_readers > 0 && wide_readers == 0;
  double one = (double)s->elements[v] * (2 + 4) + t->overhead;
  return stored_narrow ? (wide_readers ? one : 0) : (narrow_readers ? one : 0);
}

static double price(const struct sketch *s, const struct target *t, unsigned narrow) {
  double total = 0;
  for (int n = 0; n < s->n_nodes; n++)
    total += price_node(s, t, n, narrow >> n & 1);
  for (int v = 0; v < INPUTS + s->n_nodes; v++)
    total += price_casts(s, t, v, narrow);
  return total;
}

// All numbers are multiples of small powers of two, so that sums are exact and ties are ties.
static void draw_target(struct target *t, uint64_t *state) {
  static const double speeds[] = {0.0625, 0.125, 0.25, 0.5, 1};
  for (int f = FORMAT_FP32; f <= FORMAT_FP16; f++) {
    t->matrix[f] = speeds[draw(state, 5)];
    t->vector[f] = speeds[draw(state, 5)];
  }
  t->overhead = (double)draw(state, 3) * 2;
}

static unsigned planned(const struct planning *f, const struct sketch *s) {
  unsigned narrow = 0;
  for (int n = 0; n < s->n_nodes; n++)
    narrow |= node_format(f, names[INPUTS + n]) == FORMAT_FP16 ? 1u << n : 0;
  return narrow;
}

static void compare_with_all(const struct planning *f, const struct sketch *s) {
  const struct target *t = &f->policy.target;
  unsigned free = find_free(s), smallest = 0, chosen = planned(f, s);
  double least = -1;
  for (unsigned narrow = free;; narrow = (narrow - 1) & free) {
    double cost = price(s, t, narrow);
    if (least < 0 || cost < least) {
      least = cost;
      smallest = narrow;
    } else if (cost == least) {
      smallest &= narrow;
    }
    if (narrow == 0)
      break;
  }
  if (price(s, t, chosen) != least || chosen != smallest)
    fail_msg("plan %x costs %g, %x costs %g", chosen, price(s, t, chosen), smallest, least);
  assert_true(f->p.costs.time_after == least);
  assert_true(f->p.costs.time_before == price(s, t, 0));
  for (int n = 0; n < s->n_nodes; n++)
    if (free >> n & 1)
      assert_int_equal(node_reason(f, names[INPUTS + n]),
                       chosen >> n & 1 ? REASON_NONE : REASON_BOUNDARY);
}

static void plan_is_the_cheapest_of_all_and_the_widest_of_these(void **state) {
  struct planning *f = *state;
  uint64_t random = 1;
  size_t narrow_plans = 0;
  for (int i = 0; i < 3000; i++) {
    struct planning one = *f;
    struct sketch s;
    memset(&one.arena, 0, sizeof one.arena);
    draw_sketch(&s, &random);
    draw_target(&one.policy.target, &random);
    build_sketch(&one, &s);
    planning_decide(&one);
    compare_with_all(&one, &s);
    narrow_plans += planned(&one, &s) != 0;
    trace_free(&one.t);
    model_close(&one.m);
    arena_free(&one.arena);
  }
  assert_true(narrow_plans > 600);  // else the test compares nothing with nothing
}

// ---- shapes of boundaries ----

static void decide(struct planning *f) {
  planning_index(f);
  planning_decide(f);
}

static void expect(const struct planning *f, const char *output, enum format_id format) {
  assert_string_equal(formats[node_format(f, output)].name, formats[format].name);
}

static void input_and_weights(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
}

// Each alone would need two Casts and gain less; together they need two as well. One at a time, no
// rule would narrow them.
static void plan_narrows_together_what_would_not_pay_alone(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 8.0 / (16 + 15);  // gains 15 of the 24 that two Casts cost
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "a w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "a", FORMAT_FP16);
  expect(f, "y", FORMAT_FP16);
}

static void plan_pays_one_cast_for_all_readers_of_a_value(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 8.0 / (16 + 17);  // output's Cast is 12, the shared one 12
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "MatMul", "x w", "b");
  build_node(&f->b, "MatMul", "x w", "c");
  build_output(&f->b, "a", "float[2,2]");
  build_output(&f->b, "b", "float[2,2]");
  build_output(&f->b, "c", "float[2,2]");
  decide(f);
  expect(f, "a", FORMAT_FP16);
  assert_int_equal(f->p.costs.casts, 4);
}

static void plan_charges_nothing_for_readers_of_a_shape(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 8.0 / (16 + 25);  // a third Cast would not pay
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Shape", "h", "s");
  build_node(&f->b, "Exp", "h", "y");
  build_output(&f->b, "y", "float[2,2]");
  build_output(&f->b, "s", "int64[2]");
  decide(f);
  expect(f, "h", FORMAT_FP16);
}

static void plan_charges_next_to_nothing_for_what_constants_decide(void **state) {
  struct planning *f = *state;
  struct costs c;
  f->policy.target.matrix[FORMAT_FP32] = 8.0 / 60;  // gains 30: a third Cast would not pay
  input_and_weights(f);
  build_node(&f->b, "Exp", "w", "e");  // stays fp32
  build_node(&f->b, "Neg", "e", "n");
  build_node(&f->b, "MatMul", "x n", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  expect(f, "e", FORMAT_FP32);
  expect(f, "y", FORMAT_FP16);
  costs_init(&c, &f->g, &f->t, &f->policy.target, &f->arena);
  assert_true(costs_node(&c, &f->p, node_of(&f->g, "e")).bytes == (4 + 2) * 4 / 1024.0);
  assert_true(costs_cast(&c, value_id(&f->g, "e"), FORMAT_FP32, FORMAT_FP16) == 2 * 6 / 1024.0);
}

// What engines keep in the narrow type that it has is dequantised in each run.
static void costs_count_the_dequantising_of_constants(void **state) {
  struct planning *f = *state;
  struct costs c;
  build_input(&f->b, "x", "float[2]");
  build_raw(&f->b, "q", "int8[2]", (const int8_t[]){1, 2}, 2);
  build_floats(&f->b, "s", "float[]", (float[]){0.5f});
  build_node(&f->b, "DequantizeLinear", "q s", "d");
  build_node(&f->b, "Add", "x d", "y");
  build_output(&f->b, "y", "float[2]");
  decide(f);
  costs_init(&c, &f->g, &f->t, &f->policy.target, &f->arena);
  assert_true(costs_node(&c, &f->p, node_of(&f->g, "d")).bytes == 2 * 1 + 4 + 2 * 4);
}

static void plan_leaves_nodes_wide_where_overhead_of_casts_is_large(void **state) {
  struct planning *f = *state;
  f->policy.target.overhead = 1e6;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  assert_int_equal(node_reason(f, "y"), REASON_BOUNDARY);
  assert_int_equal(f->p.costs.left_wide, 1);
  assert_true(plan_is_identity(&f->p));
}

// ---- ladders ----

static void follower_between(struct planning *f, const float *second, const float *follower) {
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_node(&f->b, "Relu", "a", "r");
  build_node(&f->b, "Add", "r r", "s");
  build_node(&f->b, "MatMul", "s w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_index(f);
  planning_see(f, "y", second, 1);
  planning_see(f, "s", follower, 1);
  planning_decide(f);
}

static void plan_gives_products_the_ladders_first_format_that_fits(void **state) {
  struct planning *f = *state;
  follower_between(f, (float[]){1e6f}, (float[]){1});
  expect(f, "a", FORMAT_FP16);
  expect(f, "y", FORMAT_BF16);
}

// One Cast between fp16 and bf16 is needed somewhere: where the value is smallest.
static void plan_moves_followers_to_the_rung_where_the_cast_is_cheapest(void **state) {
  struct planning *f = *state;
  planning_ladder(f, FORMAT_FP16, FORMAT_BF16);
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "a");
  build_int(&f->b, build_node(&f->b, "Concat", "a a a", "thrice"), "axis", 0);
  build_node(&f->b, "Add", "thrice thrice", "s");
  build_node(&f->b, "MatMul", "s w", "y");
  build_output(&f->b, "y", "float[6,2]");
  planning_index(f);
  planning_see(f, "y", (float[]){1e6f}, 1);
  planning_see(f, "s", (float[]){1e6f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 12);
  planning_see(f, "thrice", (float[]){1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 12);
  planning_see(f, "a", (float[]){1, 0, 0, 0}, 4);
  planning_decide(f);
  expect(f, "s", FORMAT_BF16);
  expect(f, "thrice", FORMAT_BF16);
  expect(f, "a", FORMAT_FP16);
}

static void plan_leaves_followers_in_their_rung_where_the_next_is_no_cheaper(void **state) {
  struct planning *f = *state;
  follower_between(f, (float[]){1e6f}, (float[]){1e6f});  // only bf16 fits s
  expect(f, "s", FORMAT_BF16);
  expect(f, "r", FORMAT_FP16);  // a Cast of a costs what one of r does
}

// ---- cost model ----

static double time_of(struct planning *f, const char *output) {
  struct costs c;
  costs_init(&c, &f->g, &f->t, &f->policy.target, &f->arena);
  int n = node_of(&f->g, output);
  f->p.nodes[n].format = FORMAT_FP32;
  return costs_node(&c, &f->p, n).time * f->policy.target.matrix[FORMAT_FP32];
}

static void costs_count_operations_of_products_and_convolutions(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 0x1p-20;  // arithmetic outweighs traffic
  build_input(&f->b, "x", "float[1,2]");
  build_floats(&f->b, "w", "float[3,5]", arena_array(&f->arena, 15, 4));
  build_floats(&f->b, "k", "float[4,3,2,2]", arena_array(&f->arena, 48, 4));
  build_node(&f->b, "MatMul", "x w", "product");
  build_int(&f->b, build_node(&f->b, "Gemm", "x w", "transposed"), "transB", 1);
  build_node(&f->b, "Conv", "x k", "filtered");
  build_node(&f->b, "ConvTranspose", "x k", "unfiltered");
  build_node(&f->b, "MatMul", "x x", "square");
  build_output(&f->b, "product", "float[N,M]");
  decide(f);
  planning_see(f, "unfiltered", (float[]){1, 1, 1}, 3);
  assert_true(time_of(f, "product") == 2 * 2 * 3);  // 2 elements seen, sums of 3
  assert_true(time_of(f, "transposed") == 2 * 2 * 5);
  assert_true(time_of(f, "filtered") == 2 * 2 * 3 * 2 * 2);
  assert_true(time_of(f, "unfiltered") == 2 * 2 * 3 * 2 * 2);  // by the input's elements
}

static void costs_count_operations_of_products_with_quantised_weights(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 0x1p-20;
  build_opset(&f->b, "com.microsoft", 1);
  build_input(&f->b, "x", "float[1,32]");
  build_raw(&f->b, "q", "uint8[2,2,8]", arena_array(&f->arena, 32, 1), 32);
  build_floats(&f->b, "s", "float[4]", (float[]){1, 2, 3, 4});
  Onnx__NodeProto *node = build_node(&f->b, "com.microsoft.MatMulNBits", "x q s", "y");
  build_int(&f->b, node, "K", 32);
  build_int(&f->b, node, "N", 2);
  build_int(&f->b, node, "bits", 4);
  build_int(&f->b, node, "block_size", 16);
  build_output(&f->b, "y", "float[1,2]");
  decide(f);
  assert_true(time_of(f, "y") == 2 * 2 * 32);
}

// Twelve products in one: the number of elements alone would not tell.
static void costs_take_the_length_of_batched_products_from_the_shape_seen(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 0x1p-20;
  build_input(&f->b, "q", "float[12,4,8]");
  build_input(&f->b, "k", "float[12,8,5]");
  build_node(&f->b, "MatMul", "q k", "scores");
  build_output(&f->b, "scores", "float[12,4,5]");
  planning_index(f);
  const float zeros[12 * 8 * 5] = {0};
  planning_see(f, "q", zeros, 12 * 4 * 8);
  planning_see(f, "k", zeros, 12 * 8 * 5);
  planning_see(f, "scores", zeros, 12 * 4 * 5);
  struct stats *s = &f->t.stats[value_id(&f->g, "scores")];
  s->has_shape = true;
  s->rank = 3;
  memcpy(s->dims, (int64_t[]){12, 4, 5}, 3 * sizeof *s->dims);
  planning_decide(f);
  assert_true(time_of(f, "scores") == 2 * 12 * 4 * 5 * 8);
}

static void costs_read_of_a_table_what_is_gathered(void **state) {
  struct planning *f = *state;
  struct costs c;
  build_input(&f->b, "i", "int64[2]");
  build_floats(&f->b, "table", "float[1000,2]", arena_array(&f->arena, 2000, 4));
  build_node(&f->b, "Gather", "table i", "y");
  build_node(&f->b, "Reshape", "y i", "z");
  build_output(&f->b, "z", "float[N,M]");
  decide(f);
  costs_init(&c, &f->g, &f->t, &f->policy.target, &f->arena);
  assert_true(costs_node(&c, &f->p, node_of(&f->g, "y")).bytes == 2 * 2 * 4);
  assert_true(costs_node(&c, &f->p, node_of(&f->g, "z")).time == 0);
}

// A body that runs three times a step costs three times as much, and so does a Cast in it.
static void costs_count_how_often_a_value_is_produced(void **state) {
  struct planning *f = *state;
  struct costs c;
  build_input(&f->b, "x", "float[2]");
  build_node(&f->b, "Relu", "x", "y");
  build_output(&f->b, "y", "float[2]");
  decide(f);
  f->t.stats[value_id(&f->g, "y")].runs = 3;
  f->t.stats[value_id(&f->g, "y")].count = 6;
  costs_init(&c, &f->g, &f->t, &f->policy.target, &f->arena);
  assert_true(costs_node(&c, &f->p, 0).bytes == 3 * (2 + 2) * 4);
  assert_true(costs_cast(&c, value_id(&f->g, "y"), FORMAT_FP32, FORMAT_FP16) == 3 * 2 * 6);
}

static void plan_states_what_it_costs(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");  // 2 * 2 * 2 operations
  build_node(&f->b, "Exp", "h", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  const struct plan_costs *c = &f->p.costs;
  assert_string_equal(c->target, "test");
  assert_true(c->time_before == 8 * 256 + 16);
  assert_true(c->time_casts == 12 + 12);
  assert_true(c->time_after == 16 + 16 + 24);
  assert_true(c->traffic_before == (2 + 4 + 2) * 4 + (2 + 2) * 4);
  assert_true(c->traffic_after == (2 + 4 + 2) * 2 + (2 + 2) * 4 + 24);
  assert_true(c->constants_before == 16 && c->constants_after == 8);
  assert_true(c->activations_before == 3 * 8);
  assert_true(c->activations_after == (8 + 4) + (4 + 8) + 8);  // x and h in two formats
  assert_true(c->fixed_share == 16.0 / (8 * 256 + 16));
  assert_int_equal(c->casts, 2);
  assert_int_equal(c->left_wide, 0);
}

static const char *said[4];
static int n_said;

static void keep_id(void *context, const char *id, const char *text) {
  (void)context;
  assert_true(strlen(text) > 40 && text[strlen(text) - 1] == '.');
  said[n_said++] = id;
}

static void a_plan_that_is_worth_it_has_no_drawback(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "MatMul", "h w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  n_said = 0;
  f->p.costs.traffic_after = f->p.costs.traffic_before;
  drawbacks_each(&f->p, keep_id, NULL);
  assert_int_equal(n_said, 0);
}

static void drawbacks_are_time_that_is_not_saved_and_memory_that_is_moved_more(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Exp", "h", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  const struct plan_costs *c = &f->p.costs;
  assert_true(c->traffic_casts == 24 && c->traffic_after > c->traffic_before - 24);
  n_said = 0;
  f->p.costs.traffic_after = c->traffic_before + 1;
  drawbacks_each(&f->p, keep_id, NULL);
  assert_int_equal(n_said, 1);
  assert_string_equal(said[0], "traffic");
  f->p.costs.time_after = c->time_before;
  n_said = 0;
  drawbacks_each(&f->p, keep_id, NULL);
  assert_int_equal(n_said, 2);
  assert_string_equal(said[0], "time");
}

static void drawbacks_say_that_no_product_reads_the_operand_format(void **state) {
  struct planning *f = *state;
  input_and_weights(f);
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[2,2]");
  decide(f);
  n_said = 0;
  f->p.has_operand_format = true;
  f->p.operand_format = FORMAT_FP8E4M3FN;
  f->p.costs.target = NULL;  // nothing was modelled
  drawbacks_each(&f->p, keep_id, NULL);
  assert_int_equal(n_said, 1);
  assert_string_equal(said[0], "operands");
  n_said = 0;
  f->p.nodes[0].narrow_operands = true;
  drawbacks_each(&f->p, keep_id, NULL);
  assert_int_equal(n_said, 0);
}

// ---- size ----

static void build_large(struct planning *f, int count) {
  static const char *const ops[] = {"MatMul", "Add", "Relu", "Mul", "Exp", "Concat"};
  uint64_t random = 5;
  input_and_weights(f);
  build_node(&f->b, "Relu", "x", "v0");
  for (int i = 1; i < count; i++) {
    const char *op = ops[draw(&random, 6)], *out = arena_printf(&f->arena, "v%d", i);
    int a = i - 1, b = (int)draw(&random, draw(&random, 20) ? 1 + (uint64_t)i / 2 : 1);
    const char *second = arena_printf(&f->arena, "v%d", i - 1 - b);
    bool two = strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0 || strcmp(op, "Concat") == 0;
    second = strcmp(op, "MatMul") == 0 ? "w" : two ? second : "";
    Onnx__NodeProto *n = build_node(&f->b, op, arena_printf(&f->arena, "v%d %s", a, second), out);
    if (strcmp(op, "Concat") == 0)
      build_int(&f->b, n, "axis", 0);
  }
  build_output(&f->b, arena_printf(&f->arena, "v%d", count - 1), "float[N,M]");
}

static void plan_cuts_100000_nodes_in_seconds_and_always_the_same(void **state) {
  struct planning *f = *state;
  f->policy.target.matrix[FORMAT_FP32] = 8.0 / (16 + 15);
  build_large(f, 100000);
  planning_index(f);
  clock_t start = clock();
  planning_decide(f);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  struct plan first = f->p;
  planning_decide(f);
  int narrow = 0;
  for (int n = 0; n < first.n_nodes; n++) {
    assert_int_equal(first.nodes[n].format, f->p.nodes[n].format);
    narrow += first.nodes[n].format != FORMAT_FP32;
  }
  print_message("100000 nodes, %d narrow, %d Casts: %.2f s\n", narrow, first.costs.casts, seconds);
  assert_true(narrow > 1000 && narrow < 99000);
  assert_true(seconds < 30);  // about one on an idle machine; sanitizers take ten times that
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(plan_is_the_cheapest_of_all_and_the_widest_of_these),
      TEST(plan_narrows_together_what_would_not_pay_alone),
      TEST(plan_pays_one_cast_for_all_readers_of_a_value),
      TEST(plan_charges_nothing_for_readers_of_a_shape),
      TEST(plan_charges_next_to_nothing_for_what_constants_decide),
      TEST(costs_count_the_dequantising_of_constants),
      TEST(plan_leaves_nodes_wide_where_overhead_of_casts_is_large),
      TEST(plan_gives_products_the_ladders_first_format_that_fits),
      TEST(plan_moves_followers_to_the_rung_where_the_cast_is_cheapest),
      TEST(plan_leaves_followers_in_their_rung_where_the_next_is_no_cheaper),
      TEST(costs_count_operations_of_products_and_convolutions),
      TEST(costs_count_operations_of_products_with_quantised_weights),
      TEST(costs_take_the_length_of_batched_products_from_the_shape_seen),
      TEST(costs_read_of_a_table_what_is_gathered),
      TEST(costs_count_how_often_a_value_is_produced),
      TEST(plan_states_what_it_costs),
      TEST(a_plan_that_is_worth_it_has_no_drawback),
      TEST(drawbacks_are_time_that_is_not_saved_and_memory_that_is_moved_more),
      TEST(drawbacks_say_that_no_product_reads_the_operand_format),
      TEST(plan_cuts_100000_nodes_in_seconds_and_always_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
