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
 * wrong, until the next call. A call that fails leaves the handle as it was, and may be made again,
 * with another file for one; only narrowcast_plan, narrowcast_rewrite, narrowcast_verify and
 * narrowcast_convert first drop what they made before. The library prints nothing and ends no
 * process. If memory runs out, the status is NARROWCAST_MEMORY; the handle then only can be freed,
 * and what ONNX Runtime held in it is not given back. (Memory that runs out inside ONNX Runtime's calls to the library does end
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

/* 0 to 7 are the program's exit codes too; it ends with 7 also where memory runs out, which is a
 * status of its own here. More may be added. */
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

/* What went wrong in the last call: narrowcast_error has it in one line, "FILE: node NAME: tensor
 * NAME: MESSAGE", the others its parts, and narrowcast_error_hint what can be done about it. Never
 * NULL: "" where there is nothing to say. */
NARROWCAST_API const char *narrowcast_error(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_hint(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_file(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_node(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_error_tensor(const struct narrowcast *nc);

/* From now on `warn` is called with each warning: what is worth knowing and stops nothing. It is
 * called during other calls, on their thread, must return, and must not use the handle. With NULL,
 * the default, warnings are dropped. */
NARROWCAST_API void narrowcast_set_warning(struct narrowcast *nc,
                                           void (*warn)(void *context, const char *text),
                                           void *context);

/* ---- Settings ---- */

/* Says which ONNX Runtime to load: the library, or a folder that holds it. Call it before the first
 * stage that runs a model. */
NARROWCAST_API enum narrowcast_status narrowcast_set_engine(struct narrowcast *nc,
                                                            const char *path);
/* How many threads ONNX Runtime uses, 0 to 1024; 0, the default, stands for all cores. Another
 * number may change last digits of what is measured. */
NARROWCAST_API enum narrowcast_status narrowcast_set_threads(struct narrowcast *nc, int threads);
/* Raises what a model may hold, for larger ones than usual: the number of "messages", of "fields",
 * "string_bytes" or the "depth" (at most 1000). It is checked before the model is unpacked, so call
 * it before narrowcast_load_model. */
NARROWCAST_API enum narrowcast_status narrowcast_set_model_limit(struct narrowcast *nc,
                                                                 const char *name, uint64_t most);

/* ---- What is converted, and by which rules ---- */

/* Reads and checks the model. As all functions that load or open, it may succeed once for a
 * handle. */
NARROWCAST_API enum narrowcast_status narrowcast_load_model(struct narrowcast *nc,
                                                            const char *path);
/* The name of a shipped policy ("fp16", "bf16", ...), or a file's path, which has a '/' or a '.'.
 * After the model and before samples, trace and plan: it may raise the model's opset. */
NARROWCAST_API enum narrowcast_status narrowcast_load_policy(struct narrowcast *nc,
                                                             const char *name_or_path);
/* Has the model brought to a newer opset, 13 to 26, for formats that its own lacks. Call it before
 * narrowcast_load_policy, which raises it, and fails if an operator would mean something else
 * there; a "raise_opset" of the policy then does not count. */
NARROWCAST_API enum narrowcast_status narrowcast_raise_opset(struct narrowcast *nc, int opset);
/* Reads a person's decisions from a file: formats and scales by node or tensor name. The next plan
 * takes them whatever rules and tests say. Those of an earlier call are dropped. */
NARROWCAST_API enum narrowcast_status narrowcast_read_overrides(struct narrowcast *nc,
                                                                const char *path);
/* Adjust the policy for the next plan. narrowcast_keep leaves the nodes as they are whose name, or
 * that of a tensor that they read or write, matches the glob; narrowcast_narrow narrows them where
 * their values allow it; where two match, the later call wins. narrowcast_set_format has "fp16",
 * "bf16" or "fp32" tried instead of the policy's formats. narrowcast_set_io says whether the
 * graph's inputs and outputs "keep" their types or are made "narrow". */
NARROWCAST_API enum narrowcast_status narrowcast_keep(struct narrowcast *nc, const char *glob);
NARROWCAST_API enum narrowcast_status narrowcast_narrow(struct narrowcast *nc, const char *glob);
NARROWCAST_API enum narrowcast_status narrowcast_set_format(struct narrowcast *nc,
                                                            const char *format);
NARROWCAST_API enum narrowcast_status narrowcast_set_io(struct narrowcast *nc,
                                                        const char *keep_or_narrow);

/* ---- Samples and statistics ---- */

/* Takes samples from a folder, or one file, of .npz, .safetensors or .npy files or of
 * test_data_set_* folders. Some of them are held out for narrowcast_verify, as the policy, or a
 * plan that was read, says. */
NARROWCAST_API enum narrowcast_status narrowcast_open_samples(struct narrowcast *nc,
                                                              const char *folder);
/* Makes up samples, 1 to 1000000 of them, where there is no data: nothing real is measured then,
 * and narrowcast_json says so. */
NARROWCAST_API enum narrowcast_status narrowcast_make_samples(struct narrowcast *nc, uint64_t seed,
                                                              size_t count);
/* Statistics of every tensor: narrowcast_trace measures them, by running the model over the
 * calibration samples; narrowcast_read_trace takes those that narrowcast_write_trace, or the
 * program, wrote to a file. */
NARROWCAST_API enum narrowcast_status narrowcast_trace(struct narrowcast *nc);
NARROWCAST_API enum narrowcast_status narrowcast_read_trace(struct narrowcast *nc,
                                                            const char *path);
NARROWCAST_API enum narrowcast_status narrowcast_write_trace(struct narrowcast *nc,
                                                             const char *path);

/* For a training: what its weights lose in a narrow format, and which loss scale keeps gradients in
 * range, then stand in what narrowcast_write_plan writes. If the model is a step of the training,
 * call narrowcast_add_feedback before narrowcast_trace, once for each weight, with the names of its
 * input and of the output that is its next value ("w=w_new"); narrowcast_set_steps says how many
 * steps to run, 1 to 1000000, else it is one for each sample. If there are checkpoints, give two or
 * more .onnx or .safetensors files in the order of time to narrowcast_trace_checkpoints, after
 * narrowcast_trace or without it. */
NARROWCAST_API enum narrowcast_status narrowcast_add_feedback(struct narrowcast *nc,
                                                              const char *input_and_output);
NARROWCAST_API enum narrowcast_status narrowcast_set_steps(struct narrowcast *nc, size_t steps);
NARROWCAST_API enum narrowcast_status narrowcast_trace_checkpoints(struct narrowcast *nc,
                                                                    const char *const *paths,
                                                                    size_t count);

/* ---- The conversion ---- */

/* Plans, rewrites and verifies; if a claim does not hold, promotes what breaks it and does so
 * again, as often as the policy says. The status is NARROWCAST_CLAIM if a claim does not hold then
 * either. Samples and a trace must be there. */
NARROWCAST_API enum narrowcast_status narrowcast_convert(struct narrowcast *nc);

/* The first step of narrowcast_convert on its own: decides a format for every tensor. Without a
 * trace, all tensors but constants count as not seen, and stay fp32. */
NARROWCAST_API enum narrowcast_status narrowcast_plan(struct narrowcast *nc);
/* A plan as a file, which people may review and edit. Read it in place of narrowcast_plan, and
 * before samples and trace: it may raise the model's opset, and says which samples are held out. */
NARROWCAST_API enum narrowcast_status narrowcast_read_plan(struct narrowcast *nc, const char *path);
NARROWCAST_API enum narrowcast_status narrowcast_write_plan(struct narrowcast *nc,
                                                            const char *path);
/* The other steps: narrowcast_rewrite applies the plan to a copy of the model in memory;
 * narrowcast_verify runs that beside the model and judges the claims, with NARROWCAST_CLAIM if one
 * does not hold. */
NARROWCAST_API enum narrowcast_status narrowcast_rewrite(struct narrowcast *nc);
NARROWCAST_API enum narrowcast_status narrowcast_verify(struct narrowcast *nc);

/* Writes the result to a temporary file that then takes its place, and reads it back. If a claim
 * was found not to hold, the status is NARROWCAST_CLAIM and nothing is written, unless the flags
 * hold NARROWCAST_SAVE_ANYWAY; a result that was not verified is written. Weights are kept inside
 * or outside of the model as in the source, unless a flag says NARROWCAST_WEIGHTS_OUTSIDE, in a
 * file beside it, or NARROWCAST_WEIGHTS_INSIDE. */
enum {
  NARROWCAST_SAVE_ANYWAY = 1,
  NARROWCAST_WEIGHTS_OUTSIDE = 2,
  NARROWCAST_WEIGHTS_INSIDE = 4
};
NARROWCAST_API enum narrowcast_status narrowcast_save(struct narrowcast *nc, const char *path,
                                                      unsigned flags);

/* ---- Results ---- */

/* What `narrowcast convert --json` prints, as far as the stages have come; there must be a plan at
 * least. NULL on an error, which narrowcast_error then tells. */
NARROWCAST_API const char *narrowcast_json(struct narrowcast *nc);

/* Write files about the run, as the program does: the verdict, and the page on which people review
 * what was decided and measured, in HTML, or in Markdown if the name ends with ".md". */
NARROWCAST_API enum narrowcast_status narrowcast_write_verdict(struct narrowcast *nc,
                                                               const char *path);
NARROWCAST_API enum narrowcast_status narrowcast_write_report(struct narrowcast *nc,
                                                              const char *path);

/* The plan, node by node, `i` from 0 to the count less one. The count is 0 while there is no plan;
 * beyond it, here and below, all is NULL or 0. Formats are called "fp32", "fp16" and so on; that of
 * a tensor that is not fp32 in the source, and so not changed, is "". */
NARROWCAST_API size_t narrowcast_node_count(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_node_name(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_node_operator(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_node_format(const struct narrowcast *nc, size_t i);
/* In a sentence, why the node is not in the policy's most wanted format, or "" if it is; and the id
 * of the policy's rule that matched, or "" if none did. */
NARROWCAST_API const char *narrowcast_node_reason(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_node_rule(const struct narrowcast *nc, size_t i);

NARROWCAST_API size_t narrowcast_tensor_count(const struct narrowcast *nc);
NARROWCAST_API const char *narrowcast_tensor_name(const struct narrowcast *nc, size_t i);
NARROWCAST_API const char *narrowcast_tensor_format(const struct narrowcast *nc, size_t i);
/* The tensor is stored times 2 to this power. */
NARROWCAST_API int narrowcast_tensor_scale_log2(const struct narrowcast *nc, size_t i);

/* The verdict: each claim about each output, in the order of the policy. The count is 0 while there
 * is none. The metric is called as in the policy, "relative_l2" for one; the sample is the one that
 * was worst. */
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
