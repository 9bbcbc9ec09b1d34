// The policy: what decides the plan. rules/README.md explains each key of the file; this is its
// form in memory. The only reader of policy files.
#ifndef POLICY_H
#define POLICY_H

#include "arena.h"
#include "diag.h"
#include "format.h"
#include "plan_pattern.h"
#include "plan_windows.h"
#include "target.h"

#include <stdbool.h>
#include <stdint.h>

enum node_class { CLASS_NARROW, CLASS_FOLLOW, CLASS_PIN, CLASS_KEEP };
const char *node_class_name(enum node_class c);

// One rule of "rules": matches a node if every given criterion does. Lists hold globs (* and ?),
// and are NULL-terminated; NULL: any.
struct rule {
  const char *id;
  const char **ops;  // "Conv", "com.microsoft:FastGelu", sorted, without those that ...
  int n_ops;         // ... are globs; these are in op_globs. Both NULL: any
  const char **op_globs;
  const char **nodes;        // node names (labels as in the plan)
  const char **tensors;      // names of any input or output
  const char **scopes;       // scope paths; "" is the main graph
  uint64_t constant_inputs;  // bit k: input k must be a constant; 0: any
  uint32_t patterns;         // bit k: the node may be part of pattern k; 0: any, or none
  bool sums_in_fp32;         // the operator's definition must say so (rule_subject); false: any
  enum node_class class;
  const char *why;  // a sentence for the plan and the report
  bool asked_for;   // not of the policy: --keep or --narrow of this run
};

// One claim: a metric of each output, on held-out samples, against a limit fixed beforehand.
enum metric {
  METRIC_MAX_ABS,
  METRIC_RELATIVE_L2,
  METRIC_COSINE,
  METRIC_SQNR_DB,
  METRIC_TOP1,
  METRIC_LABEL_LOSS,
  METRIC_MATCHED_ROWS,
  METRIC_FINITE
};
const char *metric_name(enum metric m);
bool metric_wants_more(enum metric m);  // its limit is the least that holds
struct claim {
  const char *id;
  enum metric metric;
  double limit;          // max for errors; min where metric_wants_more
  double tolerance;      // of matched_rows: how far like rows may differ, relative to their column
  const char **outputs;  // globs, NULL-terminated; NULL: every float output
  const char *why;       // a sentence, or NULL
};

bool claim_names(const struct claim *c, const char *output);  // by its globs, if it has any

enum constants_rule { CONSTANTS_KEEP_WIDE, CONSTANTS_SATURATE, CONSTANTS_INFINITY };
const char *constants_rule_name(enum constants_rule c);

// Which samples calibration does not see: every n-th, or else the last share of them, at least one.
struct hold_out {
  int every;     // n >= 2; 0: by share
  double share;  // 0.01 to 0.99; 0: every n-th
  int enough;    // with fewer held out, the verdict says so; 0: with any number it does not
};

// Operands of matrix products in a format of their own: the ladder's first, if it has fewer bits
// than any format that a node can run in. Of the file, "operands".
struct operand_policy {
  bool wanted, given;  // by the ladder; the section is there
  enum format_id format;
  double margin;  // the largest magnitude of a window times this must fit
  double max_zero_fraction, max_subnormal_fraction;
};

// Weights in a format of 4 bits, in blocks with a scale each. Of the file, "weights".
struct weight_policy {
  bool given;
  int block_size;            // elements, along the axis that the product sums over
  double max_zero_fraction;  // of a weight's non-zero elements
  double min_sqnr_db;        // of a weight
};

struct overrides;  // overrides.h
// True for a format that a ladder may have in front, for operands alone: of 8 or 4 bits, or tf32.
bool policy_is_operand_format(enum format_id f);
// True for one of these that is for weights alone: of 4 bits.
bool policy_is_weight_format(enum format_id f);

// Of a training in a narrow format.
struct training_rule {
  bool use;           // false: no advice
  int moments;        // values that the optimizer keeps for each weight
  int micro_batches;  // whose gradients are added up before an update
  int start_log2;     // of a dynamic loss scale
  int interval;       // steps without an overflow until it is doubled
};

enum { LADDER_MOST = 8 };  // formats of a ladder

struct policy {
  const char *name;
  int version;
  const char *description;
  char sha256[65];  // of the policy text
  enum format_id
      ladder[LADDER_MOST];  // formats for nodes to try, most wanted first; the last is fp32
  int n_ladder;
  struct operand_policy operands;
  struct weight_policy weights;
  bool tf32;        // the ladder is tf32, fp32: nothing is stored narrow, products round operands
  int raise_opset;  // to this one of ai.onnx, where the model's is lower; 0: leave it
  // calibration
  int window;  // steps per window
  int sample;  // elements per tensor and run in the histograms; 0: all
  struct hold_out hold_out;
  // range test
  double margin;
  double max_zero_fraction, max_subnormal_fraction;
  bool ftz;
  struct scale_rule scales;  // its margin is the range test's
  // update sites; see updates.h
  int update_sample;         // pairs, or terms of sums, of a site per run; 0: none are watched
  double max_lost_fraction;  // this share of a window's updates, or more, below a step; 0: no rule
  bool narrow_accumulators;  // the target sums inside operators in the tensor's own format
  struct training_rule training;
  // resolution test
  bool keep_integers;
  double max_angle_step;  // radians
  // constants test
  enum constants_rule constants;
  double constant_max_zero_fraction, constant_max_subnormal_fraction;
  bool narrow_inputs, narrow_outputs;  // of the graph: keep or narrow
  bool keep_author_casts;
  struct target target;   // what time is modelled on: decides where Casts are worth their cost
  int promotion_samples;  // calibration samples that show which tensors introduce errors, at most
  int promotion_rounds;   // how often to promote, plan and verify again when a claim does not hold
  struct rule *rules;
  int n_rules;
  struct claim *claims;
  int n_claims;
  const struct overrides *overrides;  // --overrides FILE; NULL: none
  // What one run changed of it, for the plan: "--keep GLOB", "--format bf16"; NULL-terminated.
  const char **adjustments;
};

// Reads a policy: the name of a shipped one ("fp16"), or a path (contains '/' or '.'). Unknown key,
// duplicate key, wrong type or range: STATUS_POLICY with path, line and the nearest valid key.
enum status policy_load(struct policy *p, const char *name_or_path, struct arena *a,
                        struct diag *d);
// The same from text; `path` is for messages.
enum status policy_parse(struct policy *p, const char *text, const char *path, struct arena *a,
                         struct diag *d);

// Adjusts the policy for one run, and records that in p->adjustments; a wrong argument is
// STATUS_USAGE.
// policy_adjust_class puts rules in front: --keep GLOB and --narrow GLOB match nodes by label or
// by the name of a tensor that they read or write, and where two of these match, the later one
// wins. policy_adjust_format replaces the ladder by {format, fp32}; policy_adjust_io sets both
// ends.
enum status policy_adjust_class(struct policy *p, enum node_class c, const char *glob,
                                struct arena *a, struct diag *d);
enum status policy_adjust_format(struct policy *p, const char *format, struct arena *a,
                                 struct diag *d);
enum status policy_adjust_opset(struct policy *p, int opset, struct arena *a, struct diag *d);
enum status policy_adjust_io(struct policy *p, const char *keep_or_narrow, struct arena *a,
                             struct diag *d);

// What a rule is asked about; strings as in the graph's labels.
struct rule_subject {
  const char *domain, *op, *node, *scope;
  const char *const *tensors;
  int n_tensors;
  uint64_t constant_inputs;  // bit k: input k is a constant (graph_constant); k under 64
  enum pattern pattern;      // that the node is part of
  bool sums_in_fp32;         // by its operator's definition, whatever the type of its tensors
};
// The first rule that matches, or NULL (then the class is keep: an unknown operator stays wide).
// domain may be NULL; "" and "ai.onnx" are one.
const struct rule *policy_match(const struct policy *p, const struct rule_subject *subject);

// Names of the shipped policies, NULL-terminated.
const char *const *policy_names(void);
// The text of a shipped policy, or NULL.
const char *policy_text(const char *name);

// Glob match with * (any text) and ? (one UTF-8 character); the pattern must match the whole text.
bool glob_match(const char *pattern, const char *text);

#endif
