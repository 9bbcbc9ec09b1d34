// Part of the summary: at which optimisation levels the engine loads and runs the result, and what
// it says at the others.
#include "summary_parts.h"

#include "escape.h"

// What the engine says at each level at which the result fails: because the source does, or not.
static void print_load_errors(const struct run *r, const char *version, bool excused, FILE *out) {
  const struct verdict *v = &r->verdict;
  for (int level = 0; level < OPTIMISATION_LEVELS; level++) {
    if (!v->loads[level][0] || v->source_fails[level] != excused)
      continue;
    escape_printf(out, "loads        %s in ONNX Runtime %s at level %s%s: %s\n",
                  excused ? "not" : "NOT", version, optimisation_names[level],
                  excused ? ", as the source does not either" : "", v->loads[level]);
    if (v->raise_fails[level])
      escape_printf(
          out,
          "             raising the opset to %d causes it: as it was given, the source loads "
          "and runs\n",
          r->model.raised_to);
  }
}

void summary_print_loads(const struct run *r, FILE *out) {
  const struct verdict *v = &r->verdict;
  const char *version = r->engine ? engine_info(r->engine)->version : "";
  bool excused = false;
  for (int level = 0; level < OPTIMISATION_LEVELS; level++)
    excused = excused || v->source_fails[level];
  print_load_errors(r, version, true, out);
  if (v->loads_unfused) {
    escape_printf(
        out,
        "loads        and runs in ONNX Runtime %s at every %soptimisation level if the session "
        "says\n             session.disable_quant_qdq = 1: it takes float8 for int8 otherwise\n",
        version, excused ? "other " : "");
    return;
  }
  if (v->loads_everywhere) {
    escape_printf(out, "loads        and runs in ONNX Runtime %s at every %soptimisation level\n",
                  version, excused ? "other " : "");
    return;
  }
  if (!v->has_kernels) {
    escape_printf(out,
                  "loads        not in ONNX Runtime %s: it has no %s kernels for the CPU; the "
                  "verdict is from emulation\n",
                  version, v->kernels_missing == FORMAT_BF16 ? "bfloat16" : "float4e2m1");
    return;
  }
  print_load_errors(r, version, false, out);
}
