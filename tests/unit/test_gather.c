// The terms of sums: for every element of an output of ONNX Runtime's own operators, the gathered
// terms add up to that element.
// needs: engine
#include "gather.h"

#include "engine.h"
#include "support_message.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs those above.
#include <cmocka.h>

struct bench {
  struct engine *engine;
  struct diag diag;
  Onnx__ModelProto *model;
  Onnx__NodeProto *node;
  struct session *session;
  struct array inputs[2], output;
  size_t n_inputs;
};

static int setup(void **state) {
  struct bench *b = calloc(1, sizeof *b);
  *state = b;
  return engine_open(&b->engine, NULL, &b->diag) != STATUS_OK;
}

static int teardown(void **state) {
  struct bench *b = *state;
  session_close(b->session);
  engine_close(b->engine);
  free(b);
  arena_free(&message_arena);
  return 0;
}

// A model of one node; its attributes follow, then run_node.
static void begin(struct bench *b, const char *op, int opset) {
  session_close(b->session);
  b->session = NULL;
  b->n_inputs = 0;
  b->model = message_new_model();
  b->model->opset_import[0]->version = opset;
  b->node = message_node(b->model->graph, op, "", "y");
}

// One more input, of small whole numbers, so that sums in fp32 are exact.
static void feed(struct bench *b, const struct gather_shape *s) {
  static char *const names[] = {"a", "b"};
  size_t n = gather_count(s);
  float *x = arena_array(&message_arena, n, sizeof *x);
  uint64_t seed = 11 + b->n_inputs;
  for (size_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    x[i] = (float)((int)(seed >> 60) - 8);
  }
  char *name = names[b->n_inputs];
  struct array *a = &b->inputs[b->n_inputs++];
  *a = (struct array){
      .name = name, .elem_type = FLOAT, .rank = s->rank, .data = x, .size = n * sizeof *x};
  memcpy(a->dims, s->dims, s->rank * sizeof *s->dims);
  message_input(b->model->graph, name, FLOAT, (int)s->rank);
  APPEND(b->node, input, name);
}

static void run_node(struct bench *b, size_t outputs) {
  message_output(b->model->graph, "y", FLOAT, -1);
  size_t size = onnx__model_proto__get_packed_size(b->model);
  uint8_t *bytes = arena_alloc(&message_arena, size);
  onnx__model_proto__pack(b->model, bytes);
  struct session_options options = {.threads = 1};
  enum status status = session_open(&b->session, b->engine, bytes, size, &options, &b->diag);
  const char *name = "y";
  if (status == STATUS_OK)
    status = session_run(b->session, b->inputs, b->n_inputs, &name, 1, &b->output, &b->diag);
  if (status != STATUS_OK)
    diag_print(&b->diag, stderr);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(b->output.size / sizeof(float), outputs);
}

enum { LIMIT = 4096 };

static void assert_sum(const struct bench *b, size_t output, const double *terms, size_t n,
                       double scale) {
  double sum = 0;
  for (size_t k = 0; k < n; k++)
    sum += terms[k];
  double y = (double)((const float *)b->output.data)[output];
  assert_true(fabs(sum * scale - y) <= 1e-5 * fabs(y));
}

#define SHAPE(...)                                                                                 \
  {                                                                                                \
    sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t), {                                            \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

static void gather_product_is_that_of_matmul(void **state) {
  static const struct gather_shape shapes[][2] = {
      {SHAPE(3, 5), SHAPE(5, 4)},          {SHAPE(2, 3, 5), SHAPE(5, 4)},
      {SHAPE(2, 1, 3, 5), SHAPE(6, 5, 4)}, {SHAPE(5), SHAPE(5, 4)},
      {SHAPE(3, 2, 5), SHAPE(5)},          {SHAPE(5), SHAPE(5)},
      {SHAPE(1, 3, 5), SHAPE(7, 5, 4)},
  };
  struct bench *b = *state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct gather_product p;
    double terms[LIMIT];
    assert_true(gather_product_init(&p, &shapes[i][0], &shapes[i][1], false, false));
    begin(b, "MatMul", 13);
    feed(b, &shapes[i][0]);
    feed(b, &shapes[i][1]);
    run_node(b, gather_product_outputs(&p));
    for (size_t k = 0; k < gather_product_outputs(&p); k++) {
      size_t n = gather_product(&p, b->inputs[0].data, b->inputs[1].data, k, terms, LIMIT);
      assert_int_equal(n, 5);
      assert_sum(b, k, terms, n, 1);
    }
    assert_int_equal(gather_product(&p, b->inputs[0].data, b->inputs[1].data, 0, terms, 2), 2);
  }
}

static void gather_product_is_that_of_gemm_transposed(void **state) {
  struct bench *b = *state;
  for (int t = 0; t < 4; t++) {
    struct gather_shape x = SHAPE(3, 5), y = SHAPE(5, 4);
    if (t & 1)
      x = (struct gather_shape)SHAPE(5, 3);
    if (t & 2)
      y = (struct gather_shape)SHAPE(4, 5);
    struct gather_product p;
    double terms[LIMIT];
    assert_true(gather_product_init(&p, &x, &y, t & 1, t & 2));
    begin(b, "Gemm", 13);
    message_set_int(b->node, "transA", t & 1);
    message_set_int(b->node, "transB", t >> 1);
    feed(b, &x);
    feed(b, &y);
    run_node(b, 12);
    for (size_t k = 0; k < 12; k++)
      assert_sum(b, k, terms,
                 gather_product(&p, b->inputs[0].data, b->inputs[1].data, k, terms, LIMIT), 1);
  }
}

static void gather_product_refuses_what_does_not_fit(void **state) {
  (void)state;
  struct gather_shape x = SHAPE(3, 5), y = SHAPE(4, 5), scalar = {0}, stack = SHAPE(2, 5, 4),
                      other = SHAPE(3, 4, 5);
  struct gather_product p;
  assert_false(gather_product_init(&p, &x, &y, false, false));
  assert_false(gather_product_init(&p, &x, &scalar, false, false));
  assert_false(gather_product_init(&p, &other, &stack, false, false));
}

struct window_case {
  struct gather_shape x, w;
  struct gather_window_attributes a;
};

static const struct window_case windows[] = {
    {SHAPE(1, 3, 6, 7), SHAPE(4, 3, 3, 3), {{1, 1}, {1, 1}, {1, 1, 1, 1}, GATHER_NOTSET, 1}},
    {SHAPE(2, 4, 9, 8), SHAPE(4, 1, 3, 2), {{2, 1}, {1, 2}, {1, 0, 2, 1}, GATHER_NOTSET, 4}},
    {SHAPE(2, 4, 9, 8), SHAPE(6, 2, 1, 3), {{1, 3}, {1, 1}, {0, 1, 0, 0}, GATHER_NOTSET, 2}},
    {SHAPE(1, 2, 7, 7), SHAPE(3, 2, 3, 4), {{2, 2}, {1, 1}, {0}, GATHER_SAME_UPPER, 1}},
    {SHAPE(1, 2, 7, 6), SHAPE(3, 2, 4, 3), {{2, 2}, {1, 1}, {0}, GATHER_SAME_LOWER, 1}},
    {SHAPE(1, 2, 7, 6), SHAPE(3, 2, 4, 3), {{2, 2}, {1, 1}, {9, 9}, GATHER_VALID, 1}},
    {SHAPE(2, 3, 11), SHAPE(2, 3, 4), {{2}, {2}, {3, 1}, GATHER_NOTSET, 1}},
    {SHAPE(1, 2, 4, 5, 6), SHAPE(2, 2, 2, 3, 2), {{1, 2, 1}, {1, 1, 2}, {1, 0, 1}, 0, 1}},
};

static void set_window(struct bench *b, const struct window_case *c, bool dilations) {
  static char *const auto_pads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  size_t spatial = c->x.rank - 2;
  message_set_ints(b->node, "strides", c->a.strides, spatial);
  message_set_ints(b->node, "kernel_shape", c->w.dims + 2, spatial);
  if (dilations)
    message_set_ints(b->node, "dilations", c->a.dilations, spatial);
  if (c->a.auto_pad == GATHER_NOTSET)
    message_set_ints(b->node, "pads", c->a.pads, 2 * spatial);
  else
    message_set_text(b->node, "auto_pad", auto_pads[c->a.auto_pad]);
}

static void gather_window_is_that_of_conv(void **state) {
  struct bench *b = *state;
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    const struct window_case *c = &windows[i];
    struct gather_window w;
    double terms[LIMIT];
    assert_true(gather_window_init(&w, &c->x, &c->w, &c->a));
    begin(b, "Conv", 11);
    set_window(b, c, true);
    message_set_int(b->node, "group", c->a.group);
    feed(b, &c->x);
    feed(b, &c->w);
    run_node(b, gather_window_outputs(&w));
    for (size_t k = 0; k < gather_window_outputs(&w); k++)
      assert_sum(b, k, terms,
                 gather_window(&w, b->inputs[0].data, b->inputs[1].data, k, terms, LIMIT), 1);
  }
}

static void gather_window_is_that_of_an_average_pool(void **state) {
  static const struct window_case pools[] = {
      {SHAPE(1, 3, 6, 7), SHAPE(3, 1, 3, 2), {{1, 2}, {1, 1}, {1, 0, 1, 1}, GATHER_NOTSET, 3}},
      {SHAPE(2, 2, 8), SHAPE(2, 1, 3), {{2}, {1}, {0, 1}, GATHER_NOTSET, 2}},
  };
  struct bench *b = *state;
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
    const struct window_case *c = &pools[i];
    struct gather_window w;
    double terms[LIMIT];
    assert_true(gather_window_init(&w, &c->x, &c->w, &c->a));
    begin(b, "AveragePool", 11);
    set_window(b, c, false);
    feed(b, &c->x);
    run_node(b, gather_window_outputs(&w));
    for (size_t k = 0; k < gather_window_outputs(&w); k++) {
      size_t n = gather_window(&w, b->inputs[0].data, NULL, k, terms, LIMIT);
      assert_sum(b, k, terms, n, 1 / (double)n);
    }
  }
}

static void gather_window_refuses_what_does_not_fit(void **state) {
  (void)state;
  struct window_case bad = windows[0];
  struct gather_window w;
  bad.a.group = 2;
  assert_false(gather_window_init(&w, &bad.x, &bad.w, &bad.a));
  bad = windows[0];
  bad.a.strides[1] = 0;
  assert_false(gather_window_init(&w, &bad.x, &bad.w, &bad.a));
  bad = windows[0];
  bad.a.dilations[0] = INT64_MAX;
  assert_false(gather_window_init(&w, &bad.x, &bad.w, &bad.a));
  bad = windows[0];
  bad.a.pads[2] = INT64_MIN;
  assert_false(gather_window_init(&w, &bad.x, &bad.w, &bad.a));
  bad = windows[0];
  bad.w.rank = 3;
  assert_false(gather_window_init(&w, &bad.x, &bad.w, &bad.a));
  bad = windows[0];  // larger than its input: no outputs
  bad.w.dims[2] = 100;
  assert_true(gather_window_init(&w, &bad.x, &bad.w, &bad.a));
  assert_int_equal(gather_window_outputs(&w), 0);
}

static void gather_reduction_is_that_of_reduce_sum(void **state) {
  struct bench *b = *state;
  const struct gather_shape x = SHAPE(3, 4, 2, 5);
  for (unsigned mask = 1; mask < 16; mask++) {
    struct gather_reduction r = {.shape = x, .reverse = mask & 1};
    int64_t axes[4];
    size_t n_axes = 0, count = 1;
    for (size_t i = 0; i < 4; i++)
      if ((r.reduced[i] = mask >> i & 1)) {
        axes[n_axes++] = (int64_t)i;
        count *= (size_t)x.dims[i];
      }
    begin(b, "ReduceSum", 11);
    message_set_ints(b->node, "axes", axes, n_axes);
    feed(b, &x);
    run_node(b, gather_reduction_outputs(&r));
    for (size_t k = 0; k < gather_reduction_outputs(&r); k++) {
      double terms[LIMIT];
      assert_int_equal(gather_reduction(&r, b->inputs[0].data, k, terms, LIMIT), count);
      assert_sum(b, k, terms, count, 1);
    }
  }
}

static void gather_broadcasts_as_add_does(void **state) {
  static const struct gather_shape shapes[][2] = {
      {SHAPE(3, 4), SHAPE(4)},       {SHAPE(2, 1, 4), SHAPE(3, 1)}, {{0}, SHAPE(2, 2)},
      {SHAPE(1, 3, 1), SHAPE(3, 5)}, {SHAPE(2, 3), SHAPE(2, 3)},
  };
  struct bench *b = *state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct gather_shape out;
    assert_true(gather_broadcast(&out, &shapes[i][0], &shapes[i][1]));
    begin(b, "Add", 14);
    feed(b, &shapes[i][0]);
    feed(b, &shapes[i][1]);
    run_node(b, gather_count(&out));
    for (size_t k = 0; k < gather_count(&out); k++) {
      double terms[2];
      for (size_t j = 0; j < 2; j++)
        terms[j] = (double)((const float *)b->inputs[j]
                                .data)[gather_broadcast_index(&out, &shapes[i][j], k)];
      assert_sum(b, k, terms, 2, 1);
    }
  }
  struct gather_shape out, x = SHAPE(3, 4), y = SHAPE(3);
  assert_false(gather_broadcast(&out, &x, &y));
}

static void gather_transforms_are_what_the_operators_add(void **state) {
  (void)state;
  const double x[] = {1, -2, 4};
  static const double wanted[GATHER_TRANSFORMS][3] = {
      {1, -2, 4}, {1, 2, 4}, {1, 4, 16}, {0, 9, 9}, {0, 0, 1}};
  for (int how = 0; how < GATHER_TRANSFORMS; how++) {
    double terms[3];
    memcpy(terms, x, sizeof x);
    gather_apply((enum gather_transform)how, terms, 3);
    for (int i = 0; i < 3; i++)
      assert_true(how == GATHER_EXP ? fabs(terms[i] - exp(x[i] - 4)) < 1e-15
                                    : fabs(terms[i] - wanted[how][i]) < 1e-12);
    gather_apply((enum gather_transform)how, terms, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gather_product_is_that_of_matmul),
      cmocka_unit_test(gather_product_is_that_of_gemm_transposed),
      cmocka_unit_test(gather_product_refuses_what_does_not_fit),
      cmocka_unit_test(gather_window_is_that_of_conv),
      cmocka_unit_test(gather_window_is_that_of_an_average_pool),
      cmocka_unit_test(gather_window_refuses_what_does_not_fit),
      cmocka_unit_test(gather_reduction_is_that_of_reduce_sum),
      cmocka_unit_test(gather_broadcasts_as_add_does),
      cmocka_unit_test(gather_transforms_are_what_the_operators_add),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
