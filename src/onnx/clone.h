// Copies of a model's message that share its weights, and the form in which a model goes to a
// session: bytes without the large initializers, and these beside it, in place.
#ifndef CLONE_H
#define CLONE_H

#include "engine.h"
#include "model.h"

// A copy that may be changed without changing the original: every message and every list is new;
// strings, raw data and numbers are shared. It lives as long as the original does; do not close it.
struct model clone_model(const struct model *m, struct arena *a);

// A model as a session takes it. Weights of at least 1 KiB in initializers of the main graph stay
// where they are: in the mapped file, or in the arena. Large ones that lie in a file, aligned for
// their type, the engine can map there. So can those of bodies and attributes, which are only left
// in their file if the bytes would pass 2 GiB otherwise.
struct packed_model {
  uint8_t *bytes;
  size_t size;
  struct engine_initializer *initializers;
  size_t n_initializers;
  const char *directory;  // below which the files lie; NULL: nothing refers to a file
  bool large;             // so much of it lies in files that a session had better be lean
};

// Packs m, which is changed by it: pass a clone. Tensors whose data is external are read: the bytes
// refer to no file. Initializers that nobody reads are left out. Errors: STATUS_MODEL.
enum status clone_pack(struct packed_model *out, struct model *m, struct arena *a, struct diag *d);

#endif
