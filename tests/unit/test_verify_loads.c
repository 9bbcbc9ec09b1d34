// verify: every kind of graph runs; whether the engine loads the result, what it computes of it,
// and whose fault it is if not; the engine crash that the planner steers around is still there.
// needs: engine
#include "support_verify.h"

#include "clone.h"
#include "verdict_drawbacks.h"
#include "verify_outputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// A model with a branch, a loop and a function, all narrow inside.
static void everything(struct planning *f) {
  static struct claim list[] = {{.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.01},
                                {.id = "finite", .metric = METRIC_FINITE}};
  claims(f, list, 2);
  build_opset(&f->b, "local", 1);
  build_function_begin(&f->b, "local", "Square", "a", "b", "");
  build_node(&f->b, "MatMul", "a a", "b");
  build_function_end(&f->b);
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){0.1f, 0.2f, 0.3f, 0.4f});
  build_floats(&f->b, "zero", "float[]", (float[]){0});
  build_int64s(&f->b, "trips", "int64[]", (int64_t[]){3});
  build_node(&f->b, "local.Square", "x", "h");
  build_node(&f->b, "ReduceSum", "x", "sum");
  build_node(&f->b, "Greater", "sum zero", "positive");
  build_node(&f->b, "Squeeze", "positive", "c");
  Onnx__NodeProto *branch = build_node(&f->b, "If", "c", "k");
  build_graph_begin(&f->b, branch, "then_branch");
  build_node(&f->b, "MatMul", "h w", "t");
  build_output(&f->b, "t", "float[2,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, branch, "else_branch");
  build_node(&f->b, "Exp", "w", "e");
  build_output(&f->b, "e", "float[2,2]");
  build_graph_end(&f->b);
  Onnx__NodeProto *loop = build_node(&f->b, "Loop", "trips _ k", "l");
  build_graph_begin(&f->b, loop, "body");
  build_input(&f->b, "i", "int64[]");
  build_input(&f->b, "keep_in", "bool[]");
  build_input(&f->b, "s", "float[2,2]");
  build_node(&f->b, "Identity", "keep_in", "keep");
  build_node(&f->b, "MatMul", "s w", "next");
  build_output(&f->b, "keep", "bool[]");
  build_output(&f->b, "next", "float[2,2]");
  build_graph_end(&f->b);
  build_node(&f->b, "MatMul", "l w", "y");
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  write_floats(f, "s0.npy", "2, 2", (float[]){1, 2, 3, 4}, 4);
  write_floats(f, "s1.npy", "2, 2", (float[]){-1, -2, -3, -4}, 4);
}

static void verify_runs_branches_loops_and_functions(void **state) {
  struct planning *f = *state;
  everything(f);
  assert_int_equal(value_format(f, "#4.then_branch::t"), FORMAT_FP16);
  assert_int_equal(value_format(f, "#5.body::next"), FORMAT_FP16);
  struct verdict v;
  verify(f, &v);
  assert_true(v.holds);
  assert_true(v.outputs[0].on[SET_HELD_OUT].max_abs > 0);  // it did round
  assert_int_equal(v.outputs[0].on[SET_HELD_OUT].runs, 2);
}

static void verify_runs_a_narrow_interface(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "abs", .metric = METRIC_MAX_ABS, .limit = 1}};
  claims(f, list, 1);
  f->policy.narrow_inputs = f->policy.narrow_outputs = true;
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_all(f);
  assert_int_equal(emitted_type(f, "x"), 10);
  write_floats(f, "x.npy", "1, 1", (float[]){3 + 0x1p-10f}, 1);  // rounds to 3: a tie to even
  struct verdict v;
  verify(f, &v);
  assert_true(v.outputs[0].on[SET_HELD_OUT].max_abs == 0x1p-10f);
}

// Whether the engine loads the model and runs it, on a sample made up for the source's inputs.
static enum status loads_in(struct planning *f, struct verdict *v, struct engine *engine,
                            struct graph *g, struct trial trial) {
  struct samples *samples;
  assert_int_equal(samples_random(&samples, &f->g, 1, 1, &f->arena, &f->d), STATUS_OK);
  static const size_t first[] = {0};
  trial.steps = first;
  trial.n_steps = 1;
  trial.threads = 1;
  enum status status = verify_loads(v, g, engine, samples, &trial, &f->d);
  samples_close(samples);
  return status;
}

static enum status loads(struct planning *f, struct verdict *v, struct engine *engine,
                         struct graph *g) {
  return loads_in(f, v, engine, g, (struct trial){.seconds = 1000});
}

struct drawback {
  int count;
  char id[16], text[1024];
};

static void keep_drawback(void *context, const char *id, const char *text) {
  struct drawback *last = context;
  last->count++;
  snprintf(last->id, sizeof last->id, "%s", id);
  snprintf(last->text, sizeof last->text, "%s", text);
}

static void what_the_engine_computes_stands_beside_each_claim(void **state) {
  struct planning *f = *state;
  everything(f);
  struct verdict v;
  verify(f, &v);
  for (int in_process = 0; in_process < 2; in_process++) {
    compare_in_engine(f, &v, in_process);
    assert_true(v.loads_everywhere && v.engine_samples > 0);
    assert_int_equal(v.outputs[0].on[SET_IN_ENGINE].runs, 2);
    const struct verdict_claim *l2 = claim_of(&v, "l2");
    assert_true(l2->in_engine > 0 && l2->in_engine < 0.01 && l2->holds_in_engine);
    assert_true(claim_of(&v, "finite")->in_engine == 0);
  }
  struct drawback none = {0};
  verdict_drawbacks_each(&v, "1.2.3", keep_drawback, &none);
  assert_int_equal(none.count, 0);
}

// Each round of promotion offers it again; a sample that came after a gap would pass for another.
static void what_fp32_gave_is_kept_once_and_in_order(void **state) {
  struct planning *f = *state;
  struct reference kept = {0};
  float first[2] = {1, 2}, narrow[2] = {1, 2}, second[2] = {3, 4};
  struct array pairs[2] = {{.name = "y", .rank = 1, .dims = {2}, .data = first, .size = 8},
                           {.name = "y", .rank = 1, .dims = {2}, .data = narrow, .size = 8}};
  outputs_keep(&kept, pairs, 1, 1, 3, &f->arena);
  assert_int_equal(kept.samples, 0);
  outputs_keep(&kept, pairs, 1, 0, 3, &f->arena);
  first[0] = 9;  // a run's outputs do not outlive it
  outputs_keep(&kept, pairs, 1, 0, 3, &f->arena);
  pairs[0].data = second;
  outputs_keep(&kept, pairs, 1, 1, 3, &f->arena);
  assert_int_equal(kept.samples, 2);
  assert_int_equal(kept.bytes, 16);
  assert_true(((const float *)kept.arrays[0].data)[0] == 1);
  assert_true(((const float *)kept.arrays[1].data)[1] == 4);
  pairs[0].size = SIZE_MAX / 2;  // there is no room
  outputs_keep(&kept, pairs, 1, 2, 3, &f->arena);
  assert_int_equal(kept.samples, 2);
}

// An engine with kernels of its own: Neg instead of Abs, which the emulation does not see.
static void an_engine_that_misses_a_claim_is_a_drawback_with_both_errors(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 0.01}};
  claims(f, list, 1);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1 + 0x1p-10f});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "Abs", "h", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_all(f);
  write_floats(f, "x.npy", "1, 1", (float[]){3}, 1);
  struct verdict v;
  verify(f, &v);
  Onnx__GraphProto *graph = f->emitted.model->proto->graph;
  for (size_t i = 0; i < graph->n_node; i++)
    if (strcmp(graph->node[i]->op_type, "Abs") == 0)
      graph->node[i]->op_type = (char *)"Neg";
  compare_in_engine(f, &v, false);
  const struct verdict_claim *l2 = claim_of(&v, "l2");
  assert_true(l2->holds && v.holds);
  assert_false(l2->holds_in_engine);
  assert_true(fabs(l2->in_engine - 2) < 0.01);
  assert_true(verdict_missed_in_engine(&v));
  struct drawback found = {0};
  verdict_drawbacks_each(&v, "1.2.3", keep_drawback, &found);
  assert_int_equal(found.count, 1);
  assert_string_equal(found.id, "engine");
  assert_non_null(strstr(found.text, "ONNX Runtime 1.2.3"));
  assert_non_null(strstr(found.text, "relative_l2 of y is 2, more than the 0.01"));
  assert_non_null(strstr(found.text, "emulated it is 0.000325"));
}

// Two samples of which the small one is all error: together they hold what it misses.
static void a_sample_that_misses_a_claim_alone_is_a_drawback(void **state) {
  struct planning *f = *state;
  rounded_products(f);
  struct claim list[] = {{.id = "l2", .metric = METRIC_RELATIVE_L2, .limit = 1e-4}};
  f->p.claims = list;
  write_floats(f, "s0.npy", "1, 1", (float[]){3}, 1);     // 2^-10 of 3
  write_floats(f, "s1.npy", "1, 1", (float[]){1024}, 1);  // exact
  struct verdict v;
  verify(f, &v);
  assert_true(claim_of(&v, "l2")->holds);
  struct drawback found = {0};
  verdict_drawbacks_each(&v, "1.2.3", keep_drawback, &found);
  assert_int_equal(found.count, 1);
  assert_string_equal(found.id, "sample");
  assert_non_null(strstr(found.text, "s0.npy alone, relative_l2 of y is 0.000325"));
}

static void few_held_out_samples_say_how_little_they_show(void **state) {
  (void)state;
  struct verdict v = {.holds = true, .n_claims = 1, .samples = 2, .held_out = true, .enough = 8};
  char text[FEW_TEXT];
  assert_non_null(verdict_few_samples(&v, text));
  assert_non_null(strstr(text, "2 held-out samples, and the policy calls 8 enough"));
  assert_non_null(strstr(text, "up to 78 %"));  // 1 - 0.05^(1/2) = 0.776
  v.samples = 7;
  assert_non_null(strstr(verdict_few_samples(&v, text), "up to 35 %"));
  v.samples = 8;
  assert_null(verdict_few_samples(&v, text));
  v.held_out = false;
  assert_non_null(strstr(verdict_few_samples(&v, text), "No sample that judged is known"));
  v.enough = 0;  // the policy does not ask
  assert_null(verdict_few_samples(&v, text));
  v.enough = 9;
  v.holds = false;  // nothing is claimed
  assert_null(verdict_few_samples(&v, text));
}

// The engine checks types before it looks for kernels: what it says is not that some are missing.
static void a_type_error_is_no_want_of_kernels(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float[1,1]");
  build_raw(&f->b, "w", "bfloat16[1,1]", (uint8_t[]){0, 0}, 2);
  Onnx__NodeProto *narrow = build_node(&f->b, "Cast", "x", "c");
  build_int(&f->b, narrow, "to", ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16);
  build_node(&f->b, "MatMul", "c w", "m");
  Onnx__NodeProto *wide = build_node(&f->b, "Cast", "m", "f");
  build_int(&f->b, wide, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  build_node(&f->b, "Add", "f x", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_index(f);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0};
  assert_int_equal(loads(f, &v, engine, &f->g), STATUS_OK);
  assert_false(v.has_kernels || v.loads_everywhere);
  assert_int_equal(v.kernels_missing, FORMAT_BF16);
  assert_true(v.unsupported[OPTIMISE_ALL]);
  for (size_t i = 0; i < f->m.proto->graph->n_node; i++)
    if (strcmp(f->m.proto->graph->node[i]->output[0], "f") == 0) {
      f->m.proto->graph->node[i]->op_type = (char *)"Identity";
      f->m.proto->graph->node[i]->n_attribute = 0;
    }
  assert_int_equal(loads(f, &v, engine, &f->g), STATUS_OK);
  assert_true(v.has_kernels);
  for (int level = 0; level < OPTIMISATION_LEVELS; level++) {
    assert_non_null(strstr(v.loads[level], "Type"));
    assert_false(v.unsupported[level]);
  }
  v.holds = true;
  assert_false(verdict_holds(&v));
  engine_close(engine);
}

// x -> Cast to bfloat16 and back -> y, beside an Erf of doubles, which no engine implements.
static struct engine *beside_an_erf_of_doubles(struct planning *f) {
  build_input(&f->b, "x", "float[1,1]");
  build_int(&f->b, build_node(&f->b, "Cast", "x", "c"), "to",
            ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16);
  build_int(&f->b, build_node(&f->b, "Cast", "c", "b"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  build_int(&f->b, build_node(&f->b, "Cast", "x", "i"), "to",
            ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE);
  build_node(&f->b, "Erf", "i", "e");
  build_int(&f->b, build_node(&f->b, "Cast", "e", "r"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  build_node(&f->b, "Add", "b r", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_index(f);
  return opened_engine(f);
}

static void a_kernel_that_is_missing_for_another_node_is_no_want_of_bf16_kernels(void **state) {
  struct planning *f = *state;
  struct engine *engine = beside_an_erf_of_doubles(f);
  struct verdict v = {.holds = true};
  assert_int_equal(loads(f, &v, engine, &f->g), STATUS_OK);
  for (int level = 0; level < OPTIMISATION_LEVELS; level++)
    assert_true(v.unsupported[level] && strstr(v.loads[level], "Erf"));
  assert_true(v.has_kernels);
  assert_false(verdict_holds(&v));
  engine_close(engine);
}

// The model in which Erf is an operator that engines implement.
static struct model without_erf(struct planning *f) {
  struct model other = clone_model(&f->m, &f->arena);
  for (size_t i = 0; i < other.proto->graph->n_node; i++)
    if (strcmp(other.proto->graph->node[i]->op_type, "Erf") == 0)
      other.proto->graph->node[i]->op_type = (char *)"Abs";
  return other;
}

static void a_level_at_which_the_source_fails_is_no_fault_of_the_result(void **state) {
  struct planning *f = *state;
  struct engine *engine = beside_an_erf_of_doubles(f);
  struct model sound = without_erf(f);
  struct verdict v = {.holds = true};
  for (int in_process = 0; in_process < 2; in_process++) {
    struct trial same = {.given = &f->m, .in_process = in_process, .seconds = 1000};
    assert_int_equal(loads_in(f, &v, engine, &f->g, same), STATUS_OK);
    assert_true(v.source_fails[OPTIMISE_NONE] && v.source_fails[OPTIMISE_ALL]);
    assert_non_null(strstr(v.loads[OPTIMISE_ALL], "Erf"));
    assert_true(v.loads_everywhere && verdict_holds(&v));
    struct trial better = {.given = &sound, .in_process = in_process, .seconds = 1000};
    assert_int_equal(loads_in(f, &v, engine, &f->g, better), STATUS_OK);
    assert_false(v.source_fails[OPTIMISE_NONE] || v.raise_fails[OPTIMISE_NONE]);
    assert_false(v.loads_everywhere || verdict_holds(&v));
  }
  engine_close(engine);
}

static void a_source_that_fails_only_with_its_opset_raised_is_no_excuse(void **state) {
  struct planning *f = *state;
  struct engine *engine = beside_an_erf_of_doubles(f);
  struct model sound = without_erf(f);
  struct verdict v = {.holds = true};
  struct trial raised = {.given = &sound, .raised = &f->m, .seconds = 1000};
  assert_int_equal(loads_in(f, &v, engine, &f->g, raised), STATUS_OK);
  for (int level = 0; level < OPTIMISATION_LEVELS; level++)
    assert_true(v.raise_fails[level] && !v.source_fails[level]);
  assert_false(v.loads_everywhere || verdict_holds(&v));
  raised.raised = &sound;
  assert_int_equal(loads_in(f, &v, engine, &f->g, raised), STATUS_OK);
  assert_false(v.raise_fails[OPTIMISE_ALL] || v.loads_everywhere);
  engine_close(engine);
}

static void verify_takes_bf16_where_the_engine_has_no_kernels(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "abs", .metric = METRIC_MAX_ABS, .limit = 1}};
  claims(f, list, 1);
  planning_ladder(f, FORMAT_BF16, FORMAT_COUNT);
  build_input(&f->b, "x", "float[1,1]");
  build_floats(&f->b, "w", "float[1,1]", (float[]){1});
  build_node(&f->b, "MatMul", "x w", "y");
  build_output(&f->b, "y", "float[1,1]");
  planning_all(f);
  write_floats(f, "x.npy", "1, 1", (float[]){3 + 0x1p-7f}, 1);  // rounds to 3: a tie to even
  struct verdict v;
  verify(f, &v);
  assert_true(v.outputs[0].on[SET_HELD_OUT].max_abs == 0x1p-7f);
  struct engine *engine = opened_engine(f);
  assert_int_equal(loads(f, &v, engine, &f->emitted), STATUS_OK);
  assert_false(v.has_kernels);
  engine_close(engine);
}

static void verify_loads_a_sound_model_at_every_level(void **state) {
  struct planning *f = *state;
  everything(f);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0};
  assert_int_equal(loads(f, &v, engine, &f->emitted), STATUS_OK);
  for (int level = 0; level < 4; level++)
    assert_string_equal(v.loads[level], "");
  assert_true(v.loads_everywhere && v.has_kernels);
  engine_close(engine);
}

static void verify_tries_in_the_calling_process_if_asked(void **state) {
  struct planning *f = *state;
  everything(f);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0}, apart = {0};
  assert_int_equal(loads_in(f, &v, engine, &f->emitted, (struct trial){.in_process = true}),
                   STATUS_OK);
  assert_true(v.loads_everywhere && v.has_kernels);
  // What the engine says arrives alike.
  f->emitted.model->proto->graph->node[0]->op_type = (char *)"NoSuchOperator";
  assert_int_equal(loads_in(f, &v, engine, &f->emitted, (struct trial){.in_process = true}),
                   STATUS_OK);
  assert_int_equal(loads(f, &apart, engine, &f->emitted), STATUS_OK);
  for (int level = 0; level < 4; level++) {
    assert_non_null(strstr(v.loads[level], "NoSuchOperator"));
    assert_string_equal(v.loads[level], apart.loads[level]);
  }
  assert_false(v.loads_everywhere);
  engine_close(engine);
}

// A loop that goes on for centuries.
static void endless(struct planning *f) {
  build_input(&f->b, "x", "float[2,2]");
  build_int64s(&f->b, "trips", "int64[]", (int64_t[]){INT64_MAX});
  Onnx__NodeProto *loop = build_node(&f->b, "Loop", "trips _ x", "y");
  build_graph_begin(&f->b, loop, "body");
  build_input(&f->b, "i", "int64[]");
  build_input(&f->b, "keep_in", "bool[]");
  build_input(&f->b, "s", "float[2,2]");
  build_node(&f->b, "Identity", "keep_in", "keep");
  build_node(&f->b, "Relu", "s", "next");
  build_output(&f->b, "keep", "bool[]");
  build_output(&f->b, "next", "float[2,2]");
  build_graph_end(&f->b);
  build_output(&f->b, "y", "float[2,2]");
  planning_all(f);
  write_floats(f, "x.npy", "2, 2", (float[]){1, 2, 3, 4}, 4);
}

static void verify_stops_a_trial_that_hangs(void **state) {
  struct planning *f = *state;
  endless(f);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0};
  assert_int_equal(
      loads_in(f, &v, engine, &f->emitted, (struct trial){.source = &f->g, .plan = &f->p}),
      STATUS_OK);
  assert_int_equal(v.engine_samples, 0);
  for (int level = 0; level < 4; level++)
    assert_string_equal(v.loads[level], "the engine did not end within 0 s and was stopped");
  assert_false(v.loads_everywhere);
  engine_close(engine);
}

// Containers are given out as the source gives them out.
static void verify_takes_outputs_that_are_maps_and_optionals(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 18;
  build_opset(&f->b, "ai.onnx.ml", 3);
  build_input(&f->b, "x", "float[2,2]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_ints(&f->b, build_node(&f->b, "ai.onnx.ml.ZipMap", "h", "maps"), "classlabels_int64s",
             (int64_t[]){7, 8}, 2);
  build_node(&f->b, "Optional", "h", "o");
  build_node(&f->b, "OptionalHasElement", "o", "has");
  build_node(&f->b, "SequenceConstruct", "h h", "s");
  build_node(&f->b, "Optional", "s", "os");
  build_output(&f->b, "maps", "seq(map(int64,float))");
  build_output(&f->b, "o", "optional(float)");
  build_output(&f->b, "has", "bool");
  build_output(&f->b, "os", "optional(seq(float))");
  planning_all(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  const Onnx__GraphProto *before = f->m.proto->graph, *after = f->emitted.model->proto->graph;
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(after->output[i]->type->value_case, before->output[i]->type->value_case);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0};
  assert_int_equal(loads(f, &v, engine, &f->emitted), STATUS_OK);
  for (int level = 0; level < 4; level++)
    assert_string_equal(v.loads[level], "");
  engine_close(engine);
}

// The engine loads a float16 Scatter with a reduction but cannot run it.
static void verify_says_that_a_model_loads_but_does_not_run(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 16;
  build_input(&f->b, "x", "float16[4]");
  build_input(&f->b, "u", "float16[1]");
  build_int64s(&f->b, "i", "int64[1,1]", (int64_t[]){2});
  build_string(&f->b, build_node(&f->b, "ScatterND", "x i u", "y"), "reduction", "add");
  build_output(&f->b, "y", "float16[4]");
  planning_index(f);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0};
  assert_int_equal(loads(f, &v, engine, &f->g), STATUS_OK);
  if (v.loads_everywhere)
    print_message("ONNX Runtime %s runs it now\n", engine_info(engine)->version);
  else
    assert_non_null(strstr(v.loads[OPTIMISE_NONE], "ScatterND"));
  engine_close(engine);
}

// A function's If captures a value of the function: names in it stay when the two models are
// joined.
static void verify_takes_a_function_whose_branch_captures(void **state) {
  struct planning *f = *state;
  struct claim list[] = {{.id = "abs", .metric = METRIC_MAX_ABS, .limit = 1}};
  claims(f, list, 1);
  build_opset(&f->b, "local", 1);
  build_input(&f->b, "x", "float[1,2]");
  build_input(&f->b, "go", "bool[]");
  build_floats(&f->b, "w", "float[2,2]", (float[]){1, 2, 3, 4});
  build_node(&f->b, "MatMul", "x w", "h");
  build_node(&f->b, "local.F", "h go", "y");
  build_output(&f->b, "y", "float[1,2]");
  build_function_begin(&f->b, "local", "F", "a c", "r", "");
  build_node(&f->b, "Relu", "a", "inside");
  Onnx__NodeProto *n = build_node(&f->b, "If", "c", "r");
  build_graph_begin(&f->b, n, "then_branch");
  build_node(&f->b, "Neg", "inside", "t");
  build_output(&f->b, "t", "float[1,2]");
  build_graph_end(&f->b);
  build_graph_begin(&f->b, n, "else_branch");
  build_node(&f->b, "Abs", "inside", "e");
  build_output(&f->b, "e", "float[1,2]");
  build_graph_end(&f->b);
  build_function_end(&f->b);
  planning_all(f);
  assert_int_equal(node_format(f, "h"), FORMAT_FP16);
  write_floats(f, "x.npy", "1, 2", (float[]){1, 2}, 2);
  write_array(f, "go.npy", "|b1", "", "\1", 1);
  struct verdict v;
  verify(f, &v);
  assert_true(v.holds);
}

// The smallest model behind entry 1 of plan_engine.c. The loading is in a child process, so that a
// crash is a message here. When this prints that the entry can go, it can.
static void engine_still_crashes_on_a_narrow_transpose_before_a_product(void **state) {
  struct planning *f = *state;
  build_input(&f->b, "x", "float16[batch,tokens,8]");
  build_raw(&f->b, "w", "float16[8,24]", arena_alloc(&f->arena, 8 * 24 * 2), 8 * 24 * 2);
  build_ints(&f->b, build_node(&f->b, "Transpose", "x", "t"), "perm", (int64_t[]){1, 0, 2}, 3);
  build_node(&f->b, "MatMul", "t w", "y");
  build_output(&f->b, "y", "float16[tokens,batch,24]");
  planning_index(f);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0};
  assert_int_equal(loads(f, &v, engine, &f->g), STATUS_OK);
  assert_string_equal(v.loads[OPTIMISE_NONE], "");
  if (v.loads_everywhere)
    print_message("ONNX Runtime %s loads it: entry 1 of src/plan/plan_engine.c can go\n",
                  engine_info(engine)->version);
  else
    assert_non_null(strstr(v.loads[OPTIMISE_ALL], "crashed"));
  engine_close(engine);
}

// The same for entry 3.
static void engine_still_refuses_a_narrow_gain_of_a_written_out_layer_norm(void **state) {
  struct planning *f = *state;
  f->b.model->opset_import[0]->version = 17;
  build_input(&f->b, "x", "float[4,2]");
  build_floats(&f->b, "epsilon", "float[]", (float[]){1e-5f});
  build_floats(&f->b, "two", "float[]", (float[]){2});
  build_raw(&f->b, "w", "float16[2]", arena_alloc(&f->arena, 4), 4);
  build_ints(&f->b, build_node(&f->b, "ReduceMean", "x", "mean"), "axes", (int64_t[]){-1}, 1);
  build_node(&f->b, "Sub", "x mean", "centred");
  build_node(&f->b, "Pow", "centred two", "squares");
  build_ints(&f->b, build_node(&f->b, "ReduceMean", "squares", "variance"), "axes", (int64_t[]){-1},
             1);
  build_node(&f->b, "Add", "variance epsilon", "positive");
  build_node(&f->b, "Sqrt", "positive", "deviation");
  build_node(&f->b, "Div", "centred deviation", "normal");
  build_int(&f->b, build_node(&f->b, "Cast", "normal", "narrow"), "to",
            ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16);
  build_node(&f->b, "Mul", "narrow w", "scaled");
  build_node(&f->b, "Add", "scaled w", "y");
  build_output(&f->b, "y", "float16[4,2]");
  planning_index(f);
  struct engine *engine = opened_engine(f);
  struct verdict v = {0};
  assert_int_equal(loads(f, &v, engine, &f->g), STATUS_OK);
  assert_string_equal(v.loads[OPTIMISE_NONE], "");
  if (v.loads_everywhere)
    print_message("ONNX Runtime %s loads it: entry 3 of src/plan/plan_engine.c can go\n",
                  engine_info(engine)->version);
  else
    assert_non_null(strstr(v.loads[OPTIMISE_ALL], "LayerNormalization"));
  engine_close(engine);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, planning_set_up, planning_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(verify_runs_branches_loops_and_functions),
      TEST(verify_runs_a_narrow_interface),
      TEST(what_fp32_gave_is_kept_once_and_in_order),
      TEST(what_the_engine_computes_stands_beside_each_claim),
      TEST(an_engine_that_misses_a_claim_is_a_drawback_with_both_errors),
      TEST(a_sample_that_misses_a_claim_alone_is_a_drawback),
      TEST(few_held_out_samples_say_how_little_they_show),
      TEST(a_type_error_is_no_want_of_kernels),
      TEST(a_kernel_that_is_missing_for_another_node_is_no_want_of_bf16_kernels),
      TEST(a_level_at_which_the_source_fails_is_no_fault_of_the_result),
      TEST(a_source_that_fails_only_with_its_opset_raised_is_no_excuse),
      TEST(verify_takes_bf16_where_the_engine_has_no_kernels),
      TEST(verify_loads_a_sound_model_at_every_level),
      TEST(verify_tries_in_the_calling_process_if_asked),
      TEST(verify_stops_a_trial_that_hangs),
      TEST(verify_takes_outputs_that_are_maps_and_optionals),
      TEST(verify_says_that_a_model_loads_but_does_not_run),
      TEST(verify_takes_a_function_whose_branch_captures),
      TEST(engine_still_crashes_on_a_narrow_transpose_before_a_product),
      TEST(engine_still_refuses_a_narrow_gain_of_a_written_out_layer_norm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
