// A plan file as people review it: read without the model and without the policy, since everything
// that decided is in the file. What explains, compares and hands on a plan works from this.
#ifndef REVIEW_H
#define REVIEW_H

#include "map.h"
#include "plan.h"

// A value at one side of a node.
struct review_end {
  const char *label;
  int value;  // in review.values, or -1: not an fp32 tensor
};

struct review_node {
  const char *label, *scope, *op, *class, *rule;
  const char *pattern;  // that it is part of, or NULL
  const char *name;     // the model's own, where the label is another; else NULL
  enum format_id format;
  bool left_out;           // a Cast of the author that the result does not have
  enum reason reason;      // REASON_NONE: it got what it wanted
  enum format_id tried;    // the format that `reason` is about
  const char *because_of;  // label of the value that decided, or NULL
  // Of a matrix product whose operands may have a format of their own: that they have it, else why
  // not, and the value that decided or NULL.
  bool product, narrow_operands;
  const char *operands_format;  // "" if they have none
  enum reason operands_reason;
  const char *operands_because_of;
  int opset;  // REASON_SCHEMA: the one that would do, or 0
  struct review_end *inputs, *outputs;
  int n_inputs, n_outputs;
  double seconds[FORMAT_COUNT];  // modelled; NAN: not known
};

struct review_value {
  const char *label, *scope;
  enum format_id format;
  int scale_log2;
  bool constant;
  bool is_operand;  // read in the operand format by matrix products, times 2^operand_scale
  int operand_scale;
  int operand_axis, operand_block;  // of a weight in blocks, of which operand_scale is ...
  int operand_scale_most;           // ... the least scale and this the largest; block 0: none
  double operand_headroom, operand_sqnr_db;
  struct fit fit;        // against the ladder's first format
  double error;          // relative L2 that verify measured; NAN: not known
  int producer;          // node, or -1
  int *readers;          // nodes
  int n_readers, index;  // index: in review.values
};

struct review_rule {
  const char *id, *class, *why;
};

struct review {
  const char *path;
  const char *model_file, *model_sha256;
  const char *policy;
  int policy_version;
  enum format_id ladder[LADDER_MOST];  // of nodes
  int n_ladder;
  bool has_operand_format;
  enum format_id operand_format;
  bool tf32;  // the policy asks whether the runtime's setting may be used
  bool has_thresholds;
  struct plan_thresholds thresholds;
  struct review_rule *rules;
  int n_rules;
  struct review_node *nodes;
  int n_nodes;
  struct review_value *values;
  int n_values;
  struct map nodes_by_label, values_by_label;
  // Of the whole plan on its target; NAN or -1 where the file does not say.
  const char *target;
  double time_before, time_after, traffic_before, traffic_after;
  int casts;
};

// Errors: STATUS_POLICY with path and line, STATUS_IO. Only the file's form is checked: whether the
// plan may be applied to a model, plan_read says.
enum status review_read(struct review *r, const char *path, struct arena *a, struct diag *d);

// Puts the errors of a verdict file, or of what `verify --json` printed, into r->values.
enum status review_read_errors(struct review *r, const char *path, struct arena *a, struct diag *d);

// The rule of that id, or NULL.
const struct review_rule *review_find_rule(const struct review *r, const char *id);

// What a trace file says of the extremes of a value.
struct review_range {
  const char *label;  // NULL: the trace has not seen the value
  double runs, count, zeros, nans, infinities;
  double lowest, highest;  // of finite elements
  double smallest;         // non-zero magnitude; 0 if there is none
};
// One for each of r->values. A trace of another model is STATUS_POLICY.
enum status review_read_trace(const struct review *r, const char *path, struct review_range **out,
                              struct arena *a, struct diag *d);

// Explains every node and value whose label is `name` or matches it as a glob. `ranges` may be
// NULL. STATUS_USAGE if there is none, with the nearest label.
enum status review_explain(const struct review *r, const struct review_range *ranges,
                           const char *name, FILE *out, struct diag *d);

// The formats that the plan tried, for messages: "fp8e4m3fn, fp16, fp32".
const char *review_formats(const struct review *r, struct arena *a);

// Ranks what keeps nodes out of format f by the modelled time that they would save in it; for the
// operand format, what keeps matrix products from reading theirs in it, by the time they take.
// STATUS_USAGE if the plan was not made with f.
enum status review_why_not(const struct review *r, enum format_id f, FILE *out, struct arena *a,
                           struct diag *d);

// What differs between two plans' formats and scales, matched by label. True if nothing does.
bool review_diff(const struct review *before, const struct review *after, bool json, FILE *out);

// The plan's decisions as arguments of trtexec, one a line.
enum status review_emit_tensorrt(const struct review *r, const char *path, struct diag *d);
// The trace's ranges as ONNX Runtime's quantization tools keep them (calibration.json).
enum status review_emit_onnxruntime(const struct review *r, const struct review_range *ranges,
                                    const char *path, struct diag *d);

// True for a constant that is stored in the operand format and in no other.
bool review_only_operand(const struct review *r, const struct review_value *v);

#endif
