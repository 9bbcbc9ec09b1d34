// A model file: load with limits, save through a temporary file and rename.
//
// The file is mapped, never copied: every `raw_data` of the unpacked message points into the map,
// so weights cost address space and page cache only. Before protobuf-c sees a byte, wire.c has
// walked the whole message with limits (depth, counts, lengths), since protobuf-c has none.
#ifndef MODEL_H
#define MODEL_H

#include "arena.h"
#include "diag.h"
#include "onnx.pb-c.h"

#include <stdint.h>

// Limits on what a model file may hold before anything is allocated for it.
struct model_limits {
  uint32_t depth;         // nested messages, at most
  uint64_t messages;      // messages in all, at most
  uint64_t string_bytes;  // length of one name or string field, at most
};
extern const struct model_limits model_default_limits;

struct model {
  struct arena *arena;    // owns the message and the strings here; outlives the model
  const char *path;       // as given
  const char *directory;  // of path, "." if it has none; external data is looked for below it only
  const uint8_t *bytes;   // the mapped file, read-only
  size_t size;
  Onnx__ModelProto *proto;       // unpacked; raw_data points into `bytes`
  char sha256[65];               // of the file's bytes, lower-case hex
  struct model_file *externals;  // mapped external data files, oldest first
};

// Maps, checks and unpacks `path`. `limits` may be NULL for the defaults. `arena` must outlive the
// model. Errors: STATUS_IO (cannot be read), STATUS_MODEL (not a model; names what and where).
enum status model_load(struct model *m, struct arena *arena, const char *path,
                       const struct model_limits *limits, struct diag *d);

// Unmaps the files. The message must not be used afterwards. Safe on a zeroed struct.
void model_close(struct model *m);

// Unpacks a message from memory, as model_load does for a file; `bytes` must outlive the model.
enum status model_from_bytes(struct model *m, struct arena *arena, const uint8_t *bytes,
                             size_t size, const char *path, const struct model_limits *limits,
                             struct diag *d);

// Writes m->proto to `path`: to a temporary file in the same folder, synced, then renamed, so that
// an interruption leaves the old file or the new one. Tensors whose data is external get their
// bytes written to "<file name of path>.data" in the same way (aligned to 4096 bytes, shared ranges
// written once) and refer to it. Errors: STATUS_IO; nothing is left behind.
enum status model_save(struct model *m, const char *path, struct diag *d);

// Copies the model file unchanged, byte for byte, and its external files beside it when `path` is
// in another folder (an existing, different file of that name is an error, never overwritten).
enum status model_copy(struct model *m, const char *path, struct diag *d);

// Bytes that a tensor's external_data entries name: checked location (relative, below the model's
// folder, no symbolic link out of it, a regular file), offset and length inside the file. Maps each
// file once. *data stays valid until model_close. Errors: STATUS_MODEL, STATUS_IO.
enum status model_external(struct model *m, const Onnx__TensorProto *t, const uint8_t **data,
                           size_t *size, struct diag *d);

// Packs the message to memory owned by the arena. Fails over 2 GiB (STATUS_MODEL).
enum status model_pack(const Onnx__ModelProto *proto, struct arena *a, uint8_t **bytes,
                       size_t *size, struct diag *d);

// Calls `visit` for every tensor of the model: initializers, sparse initializers (values, indices),
// tensor attributes, of all graphs, subgraphs and functions, in file order. Stops at an error.
enum status model_each_tensor(const Onnx__ModelProto *proto,
                              enum status (*visit)(void *context, Onnx__TensorProto *t),
                              void *context);

#endif
