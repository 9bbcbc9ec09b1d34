// Child processes and the flight recorder: what a dead process leaves for the living to tell.
#include "child.h"
#include "recorder.h"
#include "support_graph.h"
#include "trace_places.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static pid_t forked(void) {
  struct diag d = {0};
  pid_t child = child_fork(&d);
  assert_true(child >= 0);
  return child;
}

static void child_says_which_signal_ended_it(void **state) {
  (void)state;
  pid_t child = forked();
  if (child == 0) {
    child_expect_crash();
    raise(SIGSEGV);
    _exit(0);
  }
  int end = child_wait(child);
  assert_true(WIFSIGNALED(end));
  char text[80];
  child_describe(end, text, sizeof text);
  assert_string_equal(text, "crashed (signal 11, Segmentation fault)");
  child = forked();
  if (child == 0) {
    raise(SIGKILL);
    _exit(0);
  }
  child_describe(child_wait(child), text, sizeof text);
  assert_string_equal(text, "was killed (signal 9, Killed)");
}

static void child_that_may_crash_dumps_no_core(void **state) {
  (void)state;
  pid_t child = forked();
  if (child == 0) {
    struct rlimit core;
    child_expect_crash();
    getrlimit(RLIMIT_CORE, &core);
    _exit(core.rlim_cur == 0 ? 3 : 4);
  }
  assert_int_equal(WEXITSTATUS(child_wait(child)), 3);
}

static void child_can_be_waited_for_though_sigchld_was_ignored(void **state) {
  (void)state;
  signal(SIGCHLD, SIG_IGN);
  pid_t child = forked();
  if (child == 0)
    _exit(5);
  int end = child_wait(child);
  assert_true(WIFEXITED(end));
  assert_int_equal(WEXITSTATUS(end), 5);
}

// The grandchild holds the writing end of a pipe: it is dead when reading comes to an end.
static void child_dies_with_its_parent(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = forked();
  if (child == 0) {
    struct diag d = {0};
    pid_t grandchild = child_fork(&d);
    if (grandchild == 0) {
      if (write(ends[1], "x", 1) == 1)
        for (;;)
          pause();
      _exit(1);
    }
    for (;;)
      pause();
  }
  close(ends[1]);
  char byte;
  assert_int_equal(read(ends[0], &byte, 1), 1);  // both are there
  kill(child, SIGKILL);
  child_wait(child);
  assert_int_equal(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

// That an allocation beyond fails, tests/cli/faults.sh sees: sanitizers and valgrind have memory of
// their own.
static void child_limits_what_is_private_and_writable(void **state) {
  (void)state;
  pid_t child = forked();
  if (child == 0) {
    struct rlimit data;
    child_limit_memory((size_t)1 << 40);
    getrlimit(RLIMIT_DATA, &data);
    _exit(data.rlim_cur == (rlim_t)1 << 40 ? 3 : 4);
  }
  assert_int_equal(WEXITSTATUS(child_wait(child)), 3);
}

// ---- The recorder ----

static void recorder_outlives_the_process_that_wrote_it(void **state) {
  (void)state;
  struct recorder *r = recorder_open();
  assert_non_null(r);
  pid_t child = forked();
  if (child == 0) {
    recorder_engine(r, "1.2.3");
    recorder_stage(r, "the trace", false);
    recorder_sample(r, 3, 8, "c.npz");
    recorder_place(r, &(struct record_place){"y", "z", "MatMul", 2});
    raise(SIGKILL);
  }
  child_wait(child);
  assert_string_equal(r->engine, "1.2.3");
  assert_string_equal(r->stage, "the trace");
  assert_int_equal(r->sample, 3);
  assert_int_equal(r->samples, 8);
  assert_string_equal(r->label, "c.npz");
  assert_string_equal(r->tensor, "y");
  assert_string_equal(r->node, "z");
  assert_string_equal(r->op_type, "MatMul");
  assert_int_equal(r->others, 2);
  assert_false(r->finished);
  recorder_close(r);
}

static void recorder_forgets_the_last_sample_in_a_new_stage(void **state) {
  (void)state;
  struct recorder *r = recorder_open();
  recorder_sample(r, 3, 8, "c.npz");
  recorder_place(r, &(struct record_place){"y", "z", "MatMul", 2});
  recorder_sample(r, 4, 8, "d.npz");
  assert_string_equal(r->tensor, "");
  recorder_place(r, &(struct record_place){"y", "z", "MatMul", 2});
  recorder_stage(r, "the verification", true);
  assert_int_equal(r->sample, 0);
  assert_string_equal(r->tensor, "");
  assert_string_equal(r->node, "");
  recorder_close(r);
}

static void recorder_cuts_long_names(void **state) {
  (void)state;
  struct recorder *r = recorder_open();
  char name[2000];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  recorder_sample(r, 1, 1, name);
  recorder_place(r, &(struct record_place){name, name, name, 0});
  assert_int_equal(strlen(r->label), sizeof r->label - 1);
  assert_int_equal(strlen(r->tensor), sizeof r->tensor - 1);
  assert_int_equal(strlen(r->node), sizeof r->node - 1);
  assert_int_equal(strlen(r->op_type), sizeof r->op_type - 1);
  recorder_close(r);
}

static void no_recorder_notes_nothing(void **state) {
  (void)state;
  recorder_engine(NULL, "1");
  recorder_stage(NULL, "x", true);
  recorder_action(NULL, "x");
  recorder_sample(NULL, 1, 1, "x");
  recorder_place(NULL, &(struct record_place){0});
  recorder_finish(NULL, STATUS_OK);
  recorder_close(NULL);
}

// ---- Places ----

struct placed {
  struct arena arena;
  struct build b;
  struct model m;
  struct schema_table schemas;
  struct graph g;
  int values[16];
  size_t n;
  struct record_place *places;
};

static void begin(struct placed *p) {
  memset(p, 0, sizeof *p);
  build_begin(&p->b, &p->arena, 17);
}

// Places of the values that are named, in this order.
static void place(struct placed *p, const char *const *names) {
  struct diag d = {0};
  build_model(&p->b, &p->m);
  schema_load(&p->schemas, &p->arena);
  assert_int_equal(graph_build(&p->g, &p->m, &p->schemas, &p->arena, &d), STATUS_OK);
  for (; names[p->n]; p->n++) {
    p->values[p->n] = graph_lookup(&p->g, 0, names[p->n]);
    assert_true(p->values[p->n] >= 0);
  }
  p->places = places_make(&p->g, p->values, p->n, &p->arena);
}

static void check(const struct record_place *place, const char *tensor, const char *op_type,
                  size_t others) {
  if (tensor)
    assert_string_equal(place->tensor, tensor);
  else
    assert_null(place->tensor);
  if (op_type)
    assert_string_equal(place->op_type, op_type);
  else
    assert_null(place->op_type);
  assert_int_equal(place->others, others);
}

static void place_names_the_node_that_comes_next(void **state) {
  (void)state;
  struct placed p;
  begin(&p);
  build_input(&p.b, "x", "float[2]");
  build_node(&p.b, "Exp", "x", "a");
  build_node(&p.b, "Relu", "a", "b");  // derived: nobody watches it
  build_node(&p.b, "Sin", "b", "c");
  build_node(&p.b, "Split", "c", "d e");
  build_node(&p.b, "Add", "d e", "f");
  build_output(&p.b, "f", "float[1]");
  place(&p, (const char *const[]){"x", "a", "c", "d", "e", "f", NULL});
  check(&p.places[6], NULL, "Exp", 0);  // nothing was seen yet
  check(&p.places[0], "x", "Exp", 0);
  check(&p.places[1], "a", "Sin", 1);
  check(&p.places[2], "c", "Split", 0);
  check(&p.places[3], "d", "Add", 0);  // not Split, which gave both
  check(&p.places[4], "e", "Add", 0);
  check(&p.places[5], "f", NULL, 0);  // nothing comes next
  arena_free(&p.arena);
}

static void place_takes_a_graph_without_inputs_and_one_without_values(void **state) {
  (void)state;
  struct placed p;
  begin(&p);
  build_int64s(&p.b, "shape", "int64[1]", (int64_t[]){2});
  build_node(&p.b, "ConstantOfShape", "shape", "a");
  build_node(&p.b, "Exp", "a", "b");
  build_output(&p.b, "b", "float[2]");
  place(&p, (const char *const[]){"a", "b", NULL});
  check(&p.places[2], NULL, "ConstantOfShape", 0);
  check(&p.places[0], "a", "Exp", 0);
  check(&places_make(&p.g, NULL, 0, &p.arena)[0], NULL, NULL, 0);
  arena_free(&p.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(child_says_which_signal_ended_it),
      cmocka_unit_test(child_that_may_crash_dumps_no_core),
      cmocka_unit_test(child_can_be_waited_for_though_sigchld_was_ignored),
      cmocka_unit_test(child_dies_with_its_parent),
      cmocka_unit_test(child_limits_what_is_private_and_writable),
      cmocka_unit_test(recorder_outlives_the_process_that_wrote_it),
      cmocka_unit_test(recorder_forgets_the_last_sample_in_a_new_stage),
      cmocka_unit_test(recorder_cuts_long_names),
      cmocka_unit_test(no_recorder_notes_nothing),
      cmocka_unit_test(place_names_the_node_that_comes_next),
      cmocka_unit_test(place_takes_a_graph_without_inputs_and_one_without_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
