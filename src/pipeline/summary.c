// The summary as text, put together from its parts. See summary.h.
#include "summary.h"

#include "escape.h"
#include "plan_limits.h"
#include "plan_worth.h"
#include "summary_parts.h"
#include "units.h"
#include "verdict_drawbacks.h"

#include <inttypes.h>
#include <string.h>

// As a detector that finds nothing.
static bool gives_nothing(const struct verdict *v) {
  bool ran = false;
  for (int i = 0; i < v->n_outputs; i++) {
    const struct compare *c = &v->outputs[i].on[SET_HELD_OUT];
    ran = ran || c->runs > 0;
    if (c->count > 0)
      return false;
  }
  return ran;
}

static const char *result_text(const struct run *r) {
  const struct verdict *v = &r->verdict;
  if (!r->has_verdict)
    return plan_is_identity(&r->plan) ? "unchanged: nothing to convert under this policy"
                                      : "not verified: `narrowcast verify` does that";
  if (!v->holds)
    return "REFUSED: a claim does not hold";
  if (!verdict_holds(v))
    return "REFUSED: ONNX Runtime does not load or run the result";
  if (verdict_missed_in_engine(v))
    return "every claim holds on these samples as emulated, but not as the engine computes it here";
  if (v->n_claims)
    return v->n_idle ? "every claim that judged anything holds on these samples"
                     : "every claim holds on these samples";
  return gives_nothing(v)
             ? "nothing promised: the outputs have no element on any sample that judges"
             : "nothing promised: no claim of the policy applies to this model's outputs";
}

static void print_not_finite(const struct verdict *v, FILE *out) {
  for (int i = 0; i < v->n_outputs; i++) {
    uint64_t count = v->outputs[i].on[SET_HELD_OUT].reference_nonfinite;
    if (count)
      escape_printf(out,
                    "warning      %" PRIu64
                    " element%s of %s %s not finite in fp32 already, and not compared\n",
                    count, PLURAL(count), v->outputs[i].name, count == 1 ? "is" : "are");
  }
}

struct limit_lines {
  FILE *out;
  int count;
};

// The headroom and the note on made-up inputs have lines of their own.
static void print_limit(void *context, const char *id, const char *text) {
  struct limit_lines *lines = context;
  if (strcmp(id, "range") != 0 && strcmp(id, "synthetic") != 0)
    escape_printf(lines->out, "%s%s\n", lines->count++ ? "             " : "limits       ", text);
}

static void print_drawback(void *out, const char *id, const char *text) {
  (void)id;
  escape_printf(out, "drawback     %s\n", text);
}

static void print_note(void *out, const char *id, const char *text) {
  (void)id;
  escape_printf(out, "note         %s\n", text);
}

// Where nothing was to convert, the author may have done it before.
static void print_narrow_already(const struct run *r, FILE *out) {
  bool keeps = r->policy.keep_author_casts && !plan_is_converted(&r->graph);
  int floats = 0, narrow = 0, kept = 0;
  for (int v = 0; v < r->graph.n_values; v++) {
    const struct type *type = &r->graph.values[v].type;
    bool wide = graph_is_fp32(&r->graph, v);
    bool half =
        type->kind == TYPE_TENSOR && (type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
                                      type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16);
    struct copy given;
    floats += wide || half;
    narrow += half;
    kept += wide && keeps && plan_given_copy(&r->graph, v, &given);
  }
  if (!narrow)
    return;
  escape_printf(out, "note         %d of the model's %d float tensors %s in 16 bits already",
                narrow, floats, narrow == 1 ? "is" : "are");
  if (kept)
    escape_printf(out, ";\n             what its author's Casts keep in fp32 stays so, unless the "
                       "policy says casts.by_author \"follow\"");
  escape_printf(out, "\n");
}

static void print_result(const struct run *r, const char *output, FILE *out) {
  if (r->has_verdict)
    print_not_finite(&r->verdict, out);
  struct limit_lines lines = {out, 0};
  if (r->has_verdict)
    plan_limits_each(&r->plan, &r->graph, print_limit, &lines);
  if (r->has_verdict || summary_was_applied(r))
    escape_printf(out, "result       %s\n", result_text(r));
  if (plan_is_identity(&r->plan) && !r->plan.tf32)
    print_narrow_already(r, out);
  drawbacks_each(&r->plan, print_drawback, out);
  if (r->has_verdict)
    verdict_drawbacks_each(&r->verdict, engine_info(r->engine)->version, print_drawback, out);
  if (r->has_verdict)
    verdict_idle_each(&r->verdict, print_note, out);
  bool made_up = r->plan.synthetic || (r->has_verdict && samples_synthetic(r->samples));
  if (made_up)
    escape_printf(out, "note         %s: the inputs are made up. --data DIR gives real ones\n",
                  r->plan.synthetic ? "nothing real was measured" : "what judges is not real");
  char few[FEW_TEXT];
  if (!made_up && r->has_verdict && verdict_few_samples(&r->verdict, few))
    escape_printf(out, "note         %s\n", few);
  if (r->rewrite.bytes_after > r->rewrite.bytes_before)
    escape_printf(out, "note         constants grew: some are kept both narrow and wide\n");
  if (output)
    escape_printf(out, "wrote        %s\n", output);
}

// What took less than half a hundredth of a second is left out.
static void print_times(const struct run *r, FILE *out) {
  double total = 0;
  for (int s = 0; s < STAGE_COUNT; s++)
    total += r->seconds[s];
  escape_printf(out, "time         %.2f s", total);
  int shown = 0;
  for (int s = 0; s < STAGE_COUNT; s++)
    if (r->seconds[s] >= 0.005)
      escape_printf(out, "%s %s %.2f", shown++ ? "," : ":", run_stage_names[s], r->seconds[s]);
  escape_printf(out, "\n");
}

void summary_text(struct run *r, const char *output, FILE *out) {
  run_enter(r, STAGE_NONE);
  escape_printf(out, "model        %s: %d node%s, ", r->settings->model, r->source_nodes,
                PLURAL(r->source_nodes));
  summary_print_bytes(out, (double)r->model.size);
  escape_printf(out, "\n");
  summary_print_plan(r, out);
  if (plan_is_identity(&r->plan))
    escape_printf(out, "cost         none: nothing is narrow%s\n",
                  summary_was_applied(r) ? ", the model is copied unchanged" : "");
  else if (r->rewrite.bytes_before || r->rewrite.casts || r->rewrite.author_casts)
    summary_print_cost(r, out);
  if (r->has_verdict)
    summary_print_verdict(r, out);
  if (r->engine)
    print_times(r, out);
  print_result(r, output, out);
}
