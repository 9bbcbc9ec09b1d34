// A model file: load with limits, save through a temporary file and rename.
//
// The file is mapped, never copied: every `raw_data` of the unpacked message points into the map,
// so weights cost address space and page cache only. Before protobuf-c sees a byte, wire.c has
// walked the whole message with limits (depth, counts, lengths), since protobuf-c has none.
#ifndef MODEL_H
#define MODEL_H

#include "arena.h"
#include "diag.h"
#include "file.h"
#include "onnx.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

// Limits on what a model file may hold before anything is allocated for it. 0: the default.
struct model_limits {
  uint32_t depth;         // nested messages, at most (1000 is the most that is granted)
  uint64_t messages;      // messages in all, at most
  uint64_t fields;        // fields in all, at most
  uint64_t string_bytes;  // length of one name or string field, at most
};
extern const struct model_limits model_default_limits;

// Sets the limit of that name to 1 .. MODEL_LIMIT_MOST, depth to 1000 at most. STATUS_USAGE: there
// is none, or the number is beyond that.
#define MODEL_LIMIT_MOST 1000000000000
uint64_t model_limit_largest(const char *name);  // that it can be set to
enum status model_limit_set(struct model_limits *l, const char *name, uint64_t most,
                            struct diag *d);

struct model {
  struct arena *arena;    // owns the message and the strings here; outlives the model
  const char *path;       // as given
  const char *directory;  // of path, "." if it has none; external data is looked for below it only
  const uint8_t *bytes;   // the file's bytes, read-only
  size_t size;
  bool mapped;                  // by model_load; false: they are the caller's
  Onnx__ModelProto *proto;      // unpacked; raw_data points into `bytes`
  char sha256[65];              // of the file's bytes, lower-case hex
  struct file_stamp stamp;      // of the file, from before it was mapped
  int raised_to;                // opset of ai.onnx, if raise_opset changed it; else 0
  struct externals *externals;  // mapped external data files: external.h
  struct spool *spool;          // where passes put new weights; NULL: in the arena. Not owned
  struct spool *copies;         // where model_aligned puts copies; NULL: none are made. Not owned
};

// Maps, checks and unpacks `path`. `limits` may be NULL for the defaults. `arena` must outlive the
// model. Errors: STATUS_IO (cannot be read), STATUS_MODEL (not a model; names what and where).
// After an error there is nothing to close. Not seen as errors: what protobuf reads as an unknown
// field (it is kept), a repeated single message (merged; at most 100 in a file).
enum status model_load(struct model *m, struct arena *arena, const char *path,
                       const struct model_limits *limits, struct diag *d);

// The same for who knows the SHA-256 of the file's bytes already: they are not read for it.
enum status model_load_hashed(struct model *m, struct arena *arena, const char *path,
                              const struct model_limits *limits, const char *sha256,
                              struct diag *d);

// STATUS_IO if the model's file or its external data were written to since they were mapped: what
// was measured then is not what would be saved. One that another took the place of is as it was.
// Saving and copying ask this before anything takes its place.
enum status model_unchanged(const struct model *m, struct diag *d);

// Unmaps the files. The message must not be used afterwards. Safe on a zeroed struct.
void model_close(struct model *m);

// Unpacks a message from memory, as model_load does for a file; `bytes` must outlive the model.
enum status model_from_bytes(struct model *m, struct arena *arena, const uint8_t *bytes,
                             size_t size, const char *path, const struct model_limits *limits,
                             struct diag *d);

// Where a saved model has its weights: in its own file, or in the data file beside it.
enum external_data {
  EXTERNAL_AUTO,    // each as it is; if the model's file would pass 2 GiB, as EXTERNAL_ALWAYS
  EXTERNAL_ALWAYS,  // initializers of 1 KiB and more outside, other tensors as they are
  EXTERNAL_NEVER,   // all inside
};

// Writes m->proto to `path`: to a temporary file in the same folder, synced, then renamed, so that
// an interruption leaves the old file or the new one. Tensors whose data is external get their
// bytes written to "<file name of path>.<16 digits of their SHA-256>.data" in the same way (aligned
// to 4096 bytes, shared ranges written once) and refer to it; such files of earlier contents are
// removed. m->proto is as before afterwards. `path` may be the file that the model was read from. A
// tensor made by a pass may be marked EXTERNAL and hold raw_data at once (no file can say so:
// model_load refuses that): these bytes then go to the data file too. Weights are streamed: none is
// in memory as a whole. Errors: STATUS_IO; STATUS_MODEL over 2 GiB. Nothing is left behind.
enum status model_save_as(struct model *m, const char *path, enum external_data where,
                          struct diag *d);
enum status model_save(struct model *m, const char *path, struct diag *d);  // EXTERNAL_AUTO

// Whether a model saved at some path of that file name may get a data file called `name`.
bool model_may_name_data(const char *model, const char *name);

// Copies the model file unchanged, byte for byte, and its external files beside it when `path` is
// in another folder (an existing, different file of that name is an error, never overwritten).
enum status model_copy(struct model *m, const char *path, struct diag *d);

// The file that holds the byte at `data`, which a tensor of the model has: path (absolute, without
// links) and offset. False if it lies in no file, or the path leads to another file by now.
bool model_find(const struct model *m, const void *data, const char **path, uint64_t *offset);

// Where the tensor's data lies aligned for its type: where it is, or in a copy, made once however
// often this is asked. Without a spool for copies: where it is, aligned or not.
struct tensor;
enum status model_aligned(struct model *m, const struct tensor *t, const uint8_t **data,
                          struct diag *d);

// Says that so many bytes of weights were just read or written. Whenever these are many, the model
// lets go of all pages that it has mapped (file_forget), so that to walk over all weights takes no
// memory for them. m may be NULL.
void model_passed(struct model *m, size_t size);

// Bytes that a tensor's external_data entries name: checked location (relative, below the model's
// folder, no symbolic link out of it, a regular file, not the model itself), offset and length
// inside the file. Without a length: as many bytes as the tensor needs, or up to the file's end if
// that is unknown or nearer. Maps each file once. *data stays valid until model_close. `t` must say
// EXTERNAL; if it holds raw_data (see model_save), those are the bytes. Links out of the folder are
// refused though Hugging Face's cache makes them. Errors: STATUS_MODEL, STATUS_IO.
enum status model_external(struct model *m, const Onnx__TensorProto *t, const uint8_t **data,
                           size_t *size, struct diag *d);

// Packs the message to memory owned by the arena. Fails over 2 GiB (STATUS_MODEL).
enum status model_pack(const Onnx__ModelProto *proto, struct arena *a, uint8_t **bytes,
                       size_t *size, struct diag *d);

// Calls `visit` for every tensor of the model: initializers, sparse initializers (values, indices),
// tensor attributes, of all graphs, subgraphs, functions and training steps, in the order in which
// the message is written. Stops at an error. `visit` may change the tensor.
enum status model_each_tensor(const Onnx__ModelProto *proto,
                              enum status (*visit)(void *context, Onnx__TensorProto *t),
                              void *context);

#endif
