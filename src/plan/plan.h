// The precision plan: for every value and node of a graph the format, and the rule and the numbers
// that decided it. plan_make is a pure function of graph, statistics and policy. The plan file
// (JSON) is what people review and edit, and all that rewrite works from.
#ifndef PLAN_H
#define PLAN_H

#include "graph.h"
#include "loss_scale.h"
#include "overrides.h"
#include "policy.h"
#include "trace.h"

// Why a value may or may not be stored in a format, or a node computed in it.
enum reason {
  REASON_NONE,
  REASON_CLASS,      // the class of the rule that matched
  REASON_NOT_FLOAT,  // the node has no fp32 tensor to narrow
  REASON_OVERFLOW,   // range test
  REASON_ZERO,       // too many values become zero
  REASON_SUBNORMAL,
  REASON_CONSTANT,      // a constant fails the constants test
  REASON_NOT_SEEN,      // no statistics: a branch never taken, or no trace
  REASON_SCHEMA,        // the operator does not allow the format at this opset
  REASON_UNKNOWN_OP,    // no schema
  REASON_SHAPE_MATH,    // computes shapes
  REASON_NO_NEIGHBOUR,  // follow, but nothing that could be narrow leads to it
  REASON_BOUNDARY,      // would cost more Casts than it saves
  REASON_NONFINITE,     // NaN or infinity in the fp32 run
  REASON_RESOLUTION,    // integers or angles that the format's step is too coarse for
  REASON_CONTAINER,     // makes or takes a sequence, optional or map
  REASON_CONVERTED,     // the model is a result of this program already
  REASON_PROMOTED,      // promoted to meet a claim
  REASON_QUANTISED,     // part of a quantised island
  REASON_ENGINE,        // an engine in wide use crashes on it narrow
  REASON_POLYMORPHIC,   // inside a function that is called with different types
  REASON_PATTERN,       // part of a pattern that stays in fp32 as a whole
  REASON_STEP,          // updates of the value are smaller than a step
  REASON_UNSTABLE,      // needs a scale, and windows disagree on it
  REASON_OVERRIDE,      // a person decided so
  REASON_KEPT,          // likewise, by --keep
  REASON_EDITED,        // likewise, in the plan file: fp32 there without a reason for it
  REASON_NOISE,         // rounding leaves too little of a weight
  REASON_SHARED,        // a weight has other readers, for which it must be kept as it is
  REASON_NOT_SMALLER,   // a weight with its blocks' scales takes no fewer bytes
  REASON_SCORES,        // scores inside attention may leave the range
  REASON_BITS,          // sees the bits of a value, which would be others
  REASON_UNUSED,        // nothing that the model gives out depends on it
  REASON_CALL,          // of a local function: the nodes of its body are planned
  REASON_COUNT
};
const char *reason_name(enum reason r);  // stable identifier for the plan file: "overflow"
const char *reason_text(enum reason r);  // a sentence for people
// False if no reason has this name; *out stays then.
bool reason_find(const char *name, enum reason *out);

// The test of one value against one format; numbers as in stats_fit or the constants count.
struct fit {
  enum reason reason;  // REASON_NONE: passes
  double absmax, headroom, zero_fraction, subnormal_fraction, sqnr_db;
  bool accumulates;      // the value is one whose updates count, and ...
  double lost_fraction;  // ... of these, the share below a step, as steps_lost (plan_step.h)
};

// How matrix products read a value in the plan's operand format: multiplied by 2^scale_log2,
// rounded, and what is beyond the range saturated. A weight in blocks (plan_weights.h) has a scale
// for each; scale_log2 is then the smallest of them.
struct operand_plan {
  int scale_log2;
  int scale_log2_most;  // of blocks: the largest scale
  int axis;             // of blocks
  int64_t block_size;   // elements along the axis; 0: one scale for the whole tensor
  uint64_t bytes;       // of blocks: codes and scales, for all formats that products run in
  double headroom;      // factor by which the value may grow before it saturates
  double zero_fraction, subnormal_fraction, sqnr_db;  // at that scale
  const int *window_scales;  // log2 of the scale that each window would have; NULL: all the same
  size_t n_window_scales;
  double largest;  // magnitude that comes out of the format again; not read back from a plan file
};

struct value_plan {
  enum format_id format;  // the value is stored in it in the emitted model
  int scale_log2;         // stored = value * 2^scale_log2; not 0 only if the format is narrow
  // If a scale was needed: what each window of the trace asked for (plan_windows.h), and how often
  // that changed. Not read back from a plan file.
  const int *window_scales;
  size_t n_windows;
  int scale_moves;
  bool considered;                     // fp32 in the source: has a fit below
  struct fit fit;                      // against the most wanted format of the ladder
  const struct operand_plan *operand;  // NULL: no matrix product reads it in the operand format
};

struct node_plan {
  enum node_class class;
  const struct rule *rule;  // NULL: none matched
  const char *rule_id;      // "" if none
  enum pattern pattern;     // that the node is part of
  bool scale_overridden;    // likewise output_scale, which is to be scale_wanted
  int scale_wanted;
  bool overridden;               // by a person: the format is not the program's to choose
  enum format_id format;         // computed in it; FORMAT_FP32 also for nodes without any float
  enum reason reason;            // why not the most wanted format; REASON_NONE if it is
  int reason_value;              // the value that decided (overflow, constant ...), or -1
  enum format_id reason_format;  // the format that it failed
  // REASON_SCHEMA: the opset to which the model's could be raised to allow it, or 0 if none does.
  int opset_needed;
  // Type variables of the schema that stay fp32 though the node is narrow (bit k: variable k), e.g.
  // the variance of a BatchNormalization.
  uint64_t wide_vars;
  // A matrix product that may read its operands in a format of their own (plan_quantise.h) does so
  // if `narrow_operands`; else for this reason, and because of that value or -1.
  bool product, narrow_operands;
  enum reason operands_reason;
  int operands_value;
  // The node reads input k times 2^input_scales[k] (NULL: all as they are) and then gives out its
  // results in the narrow format times 2^output_scale; see plan_scale.h.
  const int *input_scales;
  int output_scale;
};

// Tensors that verify showed to break a claim, and that may not take the most wanted rungs any
// more.
struct promotion {
  int round;  // from 1
  int value;
  enum format_id from, to;
  double error;  // relative L2 that the value's own node introduced; inf if it became non-finite
  uint8_t rung;  // the first that it may take from then on, or, if ...
  bool of_operands;  // ... the product that makes it reads its operands as they are
};
struct promotions {
  uint8_t *rung;        // by value: the first rung that it may take; NULL: none is promoted
  bool *wide_operands;  // by value: the product that makes it reads its operands as they are
  bool *handled;        // by value: its error was the reason for a promotion already
  struct promotion *log;
  size_t count, capacity;
};

// A weight of a training that the trace has watched.
struct weight_plan {
  int value;
  bool seen;              // an update at least that is finite and not 0; else nothing is known
  enum format_id format;  // that it is judged for: its own, or if that is fp32, the ladder's first
  double lost_fraction;   // of its updates, as steps_lost (plan_step.h)
  bool master_copy;       // the training must keep a copy in fp32: too many are lost, or none seen
};

// What a training in the ladder's first format takes; see plan_training.h.
struct training_plan {
  enum format_id format;
  struct training_rule rule;
  double bytes_before, bytes_after;  // weights, gradients, moments, master copies
  int n_gradients;                   // 0: none was found in the graph; the rest is then not set
  // Magnitudes: the largest, and the smallest but for the share that the policy lets vanish.
  double gradient_max, gradient_min;
  struct loss_scale_range scales;  // for sums of rule.micro_batches gradients
  int scale_log2;                  // with the policy's margin, if there is room for it
  double divisor;                  // of sums of gradients: scale times micro-batches
  int dynamic_log2;                // where a dynamic scale ends
  uint64_t skipped;                // steps that it skips
};

// What the plan costs on the policy's target, as modelled by plan_cost.h; per run of the model.
struct plan_costs {
  const char *target;  // its name; NULL: not modelled (a plan that was read from a file)
  int target_version;
  double time_before, time_after;                // s: in fp32, and as planned, Casts included
  double time_casts;                             // s, of time_after, scale nodes included
  double traffic_before, traffic_after;          // bytes read and written by all nodes and Casts
  double traffic_casts;                          // of traffic_after, scale nodes included
  double constants_before, constants_after;      // bytes, of fp32 ones; kept twice counts twice
  double activations_before, activations_after;  // bytes of all other values, not all live at once
  double fixed_share;  // of time_before: nodes that may not run narrow, so cannot become faster
  int casts;
  int scale_nodes;  // multiplications by a power of two that Casts do not do
  int left_wide;    // nodes that may run narrow and stay fp32 because Casts would cost more
};

// The numbers of the policy that decided, so that a plan can be explained without it.
struct plan_thresholds {
  double margin, max_zero_fraction, max_subnormal_fraction;
  double constant_max_zero_fraction, constant_max_subnormal_fraction;
  double max_lost_fraction, max_angle_step;
  bool keep_integers;
};

// What a verify run measured of a claim, on one output.
struct measured_claim {
  const struct claim *claim;
  const char *output, *sample;  // its name; label of the worst sample
  double value;
  bool holds;
};

// An output that no claim judged, and what a verify run saw of it on all samples.
struct unjudged_output {
  const char *name;
  uint64_t elements, different;  // of integers, booleans and strings
  double relative_l2;            // of floats; NAN: it is none, or has no element
};

struct plan {
  struct value_plan *values;  // by value id
  struct node_plan *nodes;    // by node id
  int n_values, n_nodes;
  char model_sha256[65];
  const char *model_file;  // name without folder
  int raised_to;           // opset of ai.onnx that the model was brought to; 0: its own
  const char *policy_name;
  int policy_version;
  char policy_sha256[65];
  const char **adjustments;            // as in the policy; NULL-terminated
  const struct overrides *overrides;   // NULL: none
  enum format_id ladder[LADDER_MOST];  // of nodes
  int n_ladder;
  bool tf32;  // a setting of the run: fp32 products round their operands to tf32; the model stays
  bool has_operand_format;
  enum format_id operand_format;  // of operands of matrix products, before the ladder; one of 4
                                  // bits is for their weights alone (policy_is_weight_format)
  bool narrow_inputs, narrow_outputs;
  bool ftz;
  enum constants_rule constants;
  struct claim *claims;  // copied from the policy: verify needs the plan alone
  int n_claims;
  const struct measured_claim *measured;  // none before a verify run; not read back
  int n_measured;
  const struct unjudged_output *unjudged;  // NULL before a verify run; not read back
  int n_unjudged;
  size_t held_out_empty;  // of the held-out samples, those that had nothing to judge; as above
  // statistics' provenance
  bool has_trace, synthetic;
  size_t steps, sample;
  char samples_sha256[65];
  // How the samples were divided, so that verify can find the held-out ones again.
  struct hold_out hold_out;
  size_t samples;                       // in all, the held-out ones included; 0 without a trace
  const struct promotions *promotions;  // NULL: none
  struct weight_plan *weights;          // not read back from a plan file
  size_t n_weights;
  const struct training_plan *training;  // NULL: none was traced; not read back either
  struct plan_costs costs;
  struct plan_thresholds thresholds;
  const struct rule *rules;  // of the policy; read from a file: id, class and why of those used
  int n_rules;
  // The next two are not read back.
  double *seconds;       // modelled, of each node in each format: [node * n_ladder + rung]; or NULL
  const double *errors;  // by value: relative L2 that verify measured, NAN: not compared; or NULL
  double headroom;  // by which the value below may grow before it overflows: the least of all that
  int headroom_value;              // is stored narrow, or cast for who reads it; -1: nothing is
  enum format_id headroom_format;  // that it leaves
};

// Decides. `t` may be NULL (no trace: only constants are known; everything else is "not seen" and
// stays wide). `promotions` may be NULL; it is referred to by the plan. Deterministic.
enum status plan_make(struct plan *p, struct graph *g, const struct trace *t,
                      const struct policy *policy, const struct promotions *promotions,
                      struct arena *a, struct diag *d);

// Whether the node computes on fp32 tensors itself, and so is one that a plan decides about. A call
// of a local function is none: the nodes of the body are.
bool plan_decides(const struct node_plan *node);

// Whether every plan of the graph decides about node n. A constant is planned as a value, by its
// readers.
bool plan_concerns(const struct graph *g, int n);

// True of a result of this program. What it added there has names that begin so.
bool plan_is_converted(const struct graph *g);
#define ADDED_PREFIX "narrowcast/"

// True if nothing is narrow: rewrite then copies the model.
bool plan_is_identity(const struct plan *p);

// The format that input `k` of node `n` wants under the plan: the node's format where the schema
// puts a float tensor there that is fp32 in the source and not in wide_vars, else FORMAT_FP32 (fp32
// in the source) or FORMAT_COUNT (not an fp32 tensor: not ours to change; or a narrow operand,
// which comes from a DequantizeLinear; or taken as it is stored, by a Shape or an author's Cast).
// Likewise for outputs.
enum format_id plan_input_format(const struct graph *g, const struct plan *p, int n, int k);
enum format_id plan_output_format(const struct graph *g, const struct plan *p, int n, int k);

// The same if the node ran in `format`, and at an opset that takes it wherever that may be.
enum format_id plan_supposed_input(const struct graph *g, const struct plan *p, int n, int k,
                                   enum format_id format);
enum format_id plan_supposed_output(const struct graph *g, const struct plan *p, int n, int k,
                                    enum format_id format);

// Whether node n reads input k in the operand format.
bool plan_is_narrow_operand(const struct graph *g, const struct plan *p, int n, int k);

// Whether all that reads constant v are matrix products that read it in the operand format.
bool plan_is_only_operand(struct graph *g, const struct plan *p, int v);
// The scale, as a power of two, at which node n reads its input k.
int plan_input_scale(const struct plan *p, int n, int k);

// The scale at which value v is stored under the scales of p's nodes: that of its producer's
// outputs, or, of a constant, the one that all its readers agree on, else 0. Products that read it
// in the operand format do not count: that copy's scale is its operand_plan's.
int plan_stored_scale(struct graph *g, const struct plan *p, int v);

// The format that value v, an fp32 tensor, is stored in under the formats of p's nodes.
enum format_id plan_stored_format(struct graph *g, const struct plan *p, int v);

// A value in one format and at one scale.
struct copy {
  enum format_id format;
  int scale_log2;
};
bool copy_equal(struct copy x, struct copy y);

// The copy of v that the use reads; format FORMAT_COUNT if it takes any.
struct copy plan_wanted_copy(const struct graph *g, const struct plan *p, int v,
                             const struct use *use);

// All different copies of v that are read, in the order of their first use; the list is in the
// arena. p's values must have their formats. Which of them is the stored one, p->values[v] says.
size_t plan_copies(const struct graph *g, const struct plan *p, int v, struct copy **copies,
                   struct arena *a);

// The copy of v that the model has besides the stored one: v is what a Cast of the author's makes
// of a value in fp16 or bf16, so that who wants v in that format reads that value. False if there
// is none, or if a body reads v, where the value's name might mean another.
bool plan_given_copy(const struct graph *g, int v, struct copy *given);

// Whether node n is a Cast that takes what a node made in whatever format that is stored, since it
// is not narrow itself.
bool plan_casts_as_stored(const struct graph *g, const struct plan *p, int n);

// Whether node n is such a Cast, and under the plan all its readers read that value instead: then
// it is left out. p's values must have their formats.
bool plan_drops_cast(const struct graph *g, const struct plan *p, int n);

// How a copy of v that is not the stored one is made: from which copy, and whether by a
// multiplication (a scale node) or by a Cast. A factor is multiplied in fp32, where it is exact, or
// in the format that both have. Followed again and again this ends at the stored copy.
struct copy plan_copy_source(const struct graph *g, int v, struct copy stored, struct copy wanted,
                             bool *scale);

// The type variable whose narrowing makes node n narrow: that of its first fp32 output, else of its
// first fp32 input; -1 if there is neither, or if its type cannot change.
int plan_main_variable(const struct graph *g, int n);

// The variable of the input whose type output k of node n takes though its own variable is another
// (OptionalGetElement's, that of a tensor): both are narrow, or none. FOLLOWS_NOTHING: there is
// none. TYPE_STAYS: the output has one type whatever the inputs have (BeamSearch's scores, if it
// has no input for vocabulary masks).
enum { FOLLOWS_NOTHING = -1, TYPE_STAYS = -2 };
int plan_followed_variable(const struct graph *g, int n, int k);

// True if node n may run in format f by its operator's schema and definition, and by Cast, all at
// the opset of its scope.
bool plan_operator_takes(const struct graph *g, int n, enum format_id f);

// Why node n may not run in format f, whatever a plan says: a sentence, or NULL if it may.
const char *plan_refuses_format(const struct graph *g, int n, enum format_id f, struct arena *a);

// True for Shape and Size, which take their input in whatever format it is stored.
bool plan_reads_shape_only(const struct node *node);

// True if Cast at the opset of node n's scope knows the format.
bool plan_cast_available(const struct graph *g, int n, enum format_id f);

// Sets the plan's headroom from the values' fits, and the formats and scales in which they are
// stored and read.
void plan_find_headroom(struct plan *p, struct graph *g);

// A plan file is opened, then read with the model: where its opset was raised for the plan, with
// one that was raised so. plan_read checks: the model's SHA-256, that every node and value exists,
// that every format is one that the operator's schema allows at that place (each illegal edit is
// named). What plan_open puts into its arena is not needed after plan_read.
struct plan_file {
  const char *path;
  const struct json *root;
  int opset_raised_to;  // 0: as it was
};
enum status plan_open(struct plan_file *file, const char *path, struct arena *a, struct diag *d);
enum status plan_read(struct plan *p, struct graph *g, const struct plan_file *file,
                      struct arena *a, struct diag *d);
enum status plan_write(const struct plan *p, const struct graph *g, const char *path,
                       struct diag *d);
void plan_print(const struct plan *p, const struct graph *g, FILE *out);  // what plan_write writes

#endif
