// Input data of a model: samples read from a directory one at a time, or made up from a seed.
#ifndef SAMPLES_H
#define SAMPLES_H

#include "arena.h"
#include "diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct graph;

// A dense array, row-major, elements as in ONNX raw_data.
struct array {
  const char *name;  // input it is for; "label:OUTPUT" for labels of an output; "" if not named
  int elem_type;     // Onnx__TensorProto__DataType
  size_t rank;
  int64_t dims[16];  // rank <= 16, or the data is refused
  const void *data;  // aligned to 16 bytes; NULL for strings
  size_t size;       // bytes
  char **strings;    // elements of a string array, else NULL
};

struct sample {
  const char *label;  // the file or folder it came from, with [k] for a part of a batch
  struct array *arrays;
  size_t n_arrays;
  struct arena arena;  // owns the above; sample_free gives it back
};

struct samples;  // an ordered list of samples, not held in memory

// What there is below `directory`, in the order of names: each .npz and .safetensors file is a
// sample (arrays by input name); each folder `test_data_set_*` (or other folder) of input_<k>.pb
// files is one (TensorProto by its name, or else the k-th input), as is a folder of <input>.npy
// files; loose .npy or .pb files in `directory` itself (input_*.pb, or one array per input named
// after it; for a model with a single input every .npy file is a sample). A file may be given
// instead of a directory. Samples whose batch is larger than the model's fixed batch are split:
// that is why the graph is needed. Nothing is read yet but headers. Errors: STATUS_IO, STATUS_DATA
// (nothing found; names the directory and what is looked for).
enum status samples_open(struct samples **s, const struct graph *g, const char *directory,
                         struct arena *a, struct diag *d);

// `count` samples of made-up values: a fixed seed gives the same values on every machine. Floats
// are standard normal; integers lie in the valid range where the graph tells (indices of Gather and
// kin: the axis' length; 0 or 1 where nothing is known), bools are both, unknown dims become 1 (the
// batch) or a small size. Errors: STATUS_DATA for types that cannot be made up.
enum status samples_random(struct samples **s, const struct graph *g, uint64_t seed, size_t count,
                           struct arena *a, struct diag *d);

void samples_close(struct samples *s);
size_t samples_count(const struct samples *s);
bool samples_synthetic(const struct samples *s);

// SHA-256 over the labels and bytes of all samples read so far, in order of index; hex. For the
// trace's provenance.
void samples_digest(struct samples *s, char hex[65]);

// Reads sample k and checks it against the graph's inputs: missing, extra, misnamed (with the
// nearest name), wrongly typed and wrongly shaped arrays are STATUS_DATA errors that name the
// sample, the input, what is declared and what was found. Inputs that have an initializer are
// optional.
enum status samples_read(struct samples *s, size_t k, struct sample *out, struct diag *d);
void sample_free(struct sample *s);

#endif
