/* narrowcast: converts an ONNX model to fp16, bf16, fp8 or fp4, and says what the result may claim.
 *
 * One handle is one conversion of one model. Its stages are called in this order; each uses what
 * the earlier ones left in the handle, and a call that comes too early is NARROWCAST_USAGE and says
 * what is missing:
 *
 *     narrowcast_load_model      narrowcast_load_policy     what, and by which rules
 *     narrowcast_open_samples    or narrowcast_make_samples
 *     narrowcast_trace           or narrowcast_read_trace   statistics of every tensor
 *     narrowcast_convert         plans, rewrites, verifies, until every claim holds
 *     narrowcast_save
 *
 * narrowcast_plan, narrowcast_rewrite and narrowcast_verify are the steps that narrowcast_convert
 * is made of: for a plan that is looked at, changed (narrowcast_keep, narrowcast_narrow) and made
 * again. The program `narrowcast` does the same by the same code; its manual pages say what the
 * steps do.
 *
 * Errors. Functions that can fail return a status; narrowcast_error and its like then say what went
 * wrong, until the next call. The library prints nothing and ends no process. If memory runs out,
 * the status is NARROWCAST_MEMORY; the handle then only can be freed, and what ONNX Runtime held in
 * it is not given back. (Memory that runs out inside ONNX Runtime's calls to the library does end
 * the process, with a message: no error can be returned through its frames.)
 *
 * Ownership. The caller owns the handle and gives it back with narrowcast_free; NULL is allowed.
 * Strings and files' names that are passed in are copied or read during the call. Strings that come
 * out belong to the handle and stay until narrowcast_free, those of narrowcast_error* until the
 * next call with the handle, that of narrowcast_json until its next call. All strings are UTF-8 as
 * far as the model's names are. Files that were given must not change or shrink while the handle
 * lives: they are mapped, not copied.
 *
 * Threads. A handle may be used by one thread at a time, different handles by different threads at
 * the same time. The functions that read results (from narrowcast_json on) count as use. The locale
 * of the process does not matter, and is not changed. No signal handler is set, no process is
 * started, and no call is bounded in time.
 *
 * ONNX Runtime is loaded when a stage first needs it, at run time: narrowcast_set_engine, else the
 * environment's NARROWCAST_ORT, else the loader's libonnxruntime.so. It runs in the calling
 * process, also when a result is tried at every optimisation level: if a model crashes it, it
 * crashes the caller. The program has it in processes of their own, and stops one that hangs; so
 * should a service that converts models of strangers. Some of its versions print to standard
 * error. */
#ifndef NARROWCAST_H
#define NARROWCAST_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header; narrowcast_version tells that of the library. Within one ABI version
 * (the soname's number), functions and constants are added, never changed or removed. */
#define NARROWCAST_VERSION_MAJOR 0
#define NARROWCAST_VERSION_MINOR 1
#define NARROWCAST_VERSION_PATCH 0
#define NARROWCAST_ABI_VERSION   0

#if defined(__GNUC__)
#define NARROWCAST_API __attribute__((visibility("default")))
#else
#define NARROWCAST_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct narrowcast; /* a conversion: the handle */

/* 0 to 7 are the program's exit codes too. More may be added. */
enum narrowcast_status {
  NARROWCAST_OK = 0,
  NARROWCAST_CLAIM = 1,  /* a claim does not hold: what was measured can be read */
  NARROWCAST_USAGE = 2,  /* wrong argument, or a call that comes too early */
  NARROWCAST_MODEL = 3,  /* bad model */
  NARROWCAST_POLICY = 4, /* bad policy, plan or trace file */
  NARROWCAST_DATA = 5,   /* bad input data */
  NARROWCAST_ENGINE = 6, /* ONNX Runtime is missing or failed */
  NARROWCAST_IO = 7,     /* a file cannot be read or written */
  NARROWCAST_MEMORY = 8  /* no memory is left */
};

/* "0.1.0", of the library that runs; and a status in words. Both stay for ever. */
NARROWCAST_API const char *narrowcast_version(void);
NARROWCAST_API const char *narrowcast_status_text(enum narrowcast_status status);

/* A new handle, or NULL: no memory. */
NARROWCAST_API struct narrowcast *narrowcast_new(void);
NARROWCAST_API void narrowcast_free(struct narrowcast *nc);

/* ---- Errors and warnings ---- */

/* Of the last call: "FILE: node NAME: tensor NAME: MESSAGE", and its parts; what can be done about
 * it. Never NULL: "" where there is nothing. */
NARROWCAST_API const char *narrowcast_error(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_hint(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_file(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_node(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_tensor(const struct narrowcast *nc);

/* `warn` gets what is worth knowing and stops nothing, during calls, on the calling thread. It must
 * return, and must not use the handle. NULL, the default: warnings are dropped. */
NARROWCAST_API void narrowcast_set_warning(struct narrowcast *nc,
                                           void (*warn)(void *context, const char *text),
                                           void *context);

/* ---- Settings ---- */

/* The library of ONNX Runtime, or a folder that holds it; before the first stage that runs it. */
NARROWCAST_API enum narrowcast_status narrowcast_set_engine(struct narrowcast *nc,
                                                            const char *path);
/* Threads of ONNX Runtime, 0 to 1024; 0, the default: all cores. Another number may change last
 * digits. */
NARROWCAST_API enum narrowcast_status narrowcast_set_threads(struct narrowcast *nc, int threads);
/* What a model may hold before it is unpacked: "messages", "fields", "string_bytes" or "depth" (at
 * most 1000), for larger models than usual; before the model. */
NARROWCAST_API enum narrowcast_status narrowcast_set_model_limit(struct narrowcast *nc,
                                                                 const char *name, uint64_t most);

/* ---- What is converted, and by which rules ---- */

/* Once per handle, as all functions that load or open. */
NARROWCAST_API enum narrowcast_status narrowcast_load_model(struct narrowcast *nc,
                                                            const char *path);
/* The name of a shipped policy ("fp16", "bf16", ...), or a file's path, which has a '/' or a '.'.
 * After the model and before samples, trace and plan: it may raise the model's opset. */
NARROWCAST_API enum narrowcast_status narrowcast_load_policy(struct narrowcast *nc,
                                                             const char *name_or_path);
/* Brings the model to this opset, 13 to 26, for formats that its own lacks; before the policy, whose
 * own wish this replaces. narrowcast_load_policy fails if an operator would mean something else
 * there. */
NARROWCAST_API enum narrowcast_status narrowcast_raise_opset(struct narrowcast *nc, int opset);
/* Decisions of a person from a file (formats and scales by node or tensor name), for the next plan,
 * whatever rules and tests say; in place of those of an earlier call. */
NARROWCAST_API enum narrowcast_status narrowcast_read_overrides(struct narrowcast *nc,
                                                                const char *path);
/* Overrides of the policy, for the next plan: nodes by a glob of node or tensor names, the later
 * one wins; the ladder ("bf16" and fp32); types of the graph's inputs and outputs ("keep",
 * "narrow"). */
NARROWCAST_API enum narrowcast_status narrowcast_keep(struct narrowcast *nc, const char *glob);
NARROWCAST_API enum narrowcast_status narrowcast_narrow(struct narrowcast *nc, const char *glob);
NARROWCAST_API enum narrowcast_status narrowcast_set_format(struct narrowcast *nc,
                                                            const char *format);
NARROWCAST_API enum narrowcast_status narrowcast_set_io(struct narrowcast *nc,
                                                        const char *keep_or_narrow);

/* ---- Samples and statistics ---- */

/* A folder (or one file) of .npz, .safetensors or .npy files or of test_data_set_* folders. Some
 * are held out for narrowcast_verify, as the policy (or a plan that was read) says. */
NARROWCAST_API enum narrowcast_status narrowcast_open_samples(struct narrowcast *nc,
                                                              const char *folder);
/* Made-up samples, 1 to 1000000: then nothing real is measured, and narrowcast_json says so. */
NARROWCAST_API enum narrowcast_status narrowcast_make_samples(struct narrowcast *nc, uint64_t seed,
                                                              size_t count);
/* Runs the model over the calibration samples. */
NARROWCAST_API enum narrowcast_status narrowcast_trace(struct narrowcast *nc);
NARROWCAST_API enum narrowcast_status narrowcast_read_trace(struct narrowcast *nc,
                                                            const char *path);
NARROWCAST_API enum narrowcast_status narrowcast_write_trace(struct narrowcast *nc,
                                                             const char *path);

/* Of a training: what its weights lose in a narrow format, and which loss scale keeps gradients in
 * range; narrowcast_write_plan has it. Either the model is a step of the training, and before
 * narrowcast_trace each weight's input is named with the output that is its next value
 * ("w=w_new"; once for each), and how many steps to run, 1 to 1000000 (else one for each sample);
 * or there are checkpoints, two or more .onnx or .safetensors files in the order of time, after
 * narrowcast_trace or without it. */
NARROWCAST_API enum narrowcast_status narrowcast_add_feedback(struct narrowcast *nc,
                                                              const char *input_and_output);
NARROWCAST_API enum narrowcast_status narrowcast_set_steps(struct narrowcast *nc, size_t steps);
NARROWCAST_API enum narrowcast_status narrowcast_trace_checkpoints(struct narrowcast *nc,
                                                                    const char *const *paths,
                                                                    size_t count);

/* ---- The conversion ---- */

/* Plans, rewrites and verifies; promotes what breaks a claim, as often as the policy says.
 * NARROWCAST_CLAIM: a claim still does not hold. Needs samples and a trace. */
NARROWCAST_API enum narrowcast_status narrowcast_convert(struct narrowcast *nc);

/* Its steps. A plan is made without a trace too: tensors then count as not seen, and stay fp32. */
NARROWCAST_API enum narrowcast_status narrowcast_plan(struct narrowcast *nc);
/* Before samples and trace, for the same reason. */
NARROWCAST_API enum narrowcast_status narrowcast_read_plan(struct narrowcast *nc, const char *path);
NARROWCAST_API enum narrowcast_status narrowcast_write_plan(struct narrowcast *nc,
                                                            const char *path);
NARROWCAST_API enum narrowcast_status narrowcast_rewrite(struct narrowcast *nc);
NARROWCAST_API enum narrowcast_status narrowcast_verify(struct narrowcast *nc);

/* Writes the model to a temporary file that then takes its place, and reads it back. Where a claim
 * was found not to hold it is NARROWCAST_CLAIM and nothing is written, but with
 * NARROWCAST_SAVE_ANYWAY. A result that was not verified is written. Weights are where the source
 * has them, unless one of the other flags says outside (in a file beside it) or inside. */
enum {
  NARROWCAST_SAVE_ANYWAY = 1,
  NARROWCAST_WEIGHTS_OUTSIDE = 2,
  NARROWCAST_WEIGHTS_INSIDE = 4
};
NARROWCAST_API enum narrowcast_status narrowcast_save(struct narrowcast *nc, const char *path,
                                                      unsigned flags);

/* ---- Results ---- */

/* What `narrowcast convert --json` prints, as far as the stages have come; at least a plan must be
 * there. NULL: an error, see narrowcast_error. */
NARROWCAST_API const char *narrowcast_json(struct narrowcast *nc);

/* Files about a run, as the program writes them: the verdict, and the page on which people review
 * what was decided and measured (HTML, or Markdown if the name ends with ".md"). */
NARROWCAST_API enum narrowcast_status narrowcast_write_verdict(struct narrowcast *nc,
                                                               const char *path);
NARROWCAST_API enum narrowcast_status narrowcast_write_report(struct narrowcast *nc,
                                                              const char *path);

/* Of the plan, from 0; counts are 0 before there is one. Beyond the count: NULL, or 0. Formats are
 * called "fp32", "fp16" ...; one of a tensor that is not fp32 in the source is "" (not changed). */
NARROWCAST_API size_t narrowcast_node_count(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_node_name(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_node_operator(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_node_format(const struct narrowcast *nc, size_t i);
/* Why it is not in the policy's most wanted format, a sentence; "" if it is. And the policy's rule
 * that matched, "" if none did. */
NARROWCAST_API const char *narrowcast_node_reason(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_node_rule(const struct narrowcast *nc, size_t i);

NARROWCAST_API size_t narrowcast_tensor_count(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_tensor_name(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_tensor_format(const struct narrowcast *nc, size_t i);
/* It is stored times 2 to this power. */
NARROWCAST_API int narrowcast_tensor_scale_log2(const struct narrowcast *nc, size_t i);

/* The verdict: each claim about each output, in the order of the policy; counts are 0 before there
 * is one. The metric as in the policy ("relative_l2"), the sample that was worst. */
NARROWCAST_API size_t narrowcast_claim_count(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_claim_metric(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_claim_output(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_claim_sample(const struct narrowcast *nc, size_t i);
NARROWCAST_API double narrowcast_claim_measured(const struct narrowcast *nc, size_t i);
NARROWCAST_API double narrowcast_claim_limit(const struct narrowcast *nc, size_t i);
NARROWCAST_API int narrowcast_claim_holds(const struct narrowcast *nc, size_t i);

#ifdef __cplusplus
}
#endif

#endif
