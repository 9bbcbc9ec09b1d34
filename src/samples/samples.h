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

// What there is below `directory` (two levels deep), in the order of names, numbers in them by
// value:
//   - each .npz and .safetensors file is a sample, arrays by input name;
//   - the .npy and .pb files of one folder (a `test_data_set_*`, another, or `directory` itself)
//     are a sample together: <input>.npy, <input>.pb, or input_<k>.pb, which is for the input that
//     its TensorProto names, or else the k-th that has no initializer;
//   - but if the model has a single such input and these files are not all called so, each is a
//     sample.
// output_*.pb and files of other kinds are passed over. A file may be given instead of a directory.
// Arrays called "label:<output>" are labels. Where all float inputs have the same fixed first dim
// b, files of n * b rows are split in n samples; a dynamic batch is taken as it is. Only headers
// are read yet, and those only if b is fixed. Errors: STATUS_IO, STATUS_DATA (nothing found; names
// the directory and what is looked for; sequence, optional and map inputs, which cannot be read).
enum status samples_open(struct samples **s, const struct graph *g, const char *directory,
                         struct arena *a, struct diag *d);

// `count` samples of made-up values: a fixed seed gives the same values on every machine. Floats
// are standard normal (the sum of 12 uniform variables, so within 6 standard deviations); integers
// lie in the valid range where the graph tells (indices of Gather and kin: the axis' length; what
// an Equal compares a scalar with; small sizes and axes; 8-bit ones take all values and others 0 or
// 1 where nothing is known); inputs with "mask" in their name are 1; bools are both. Dims that are
// not fixed become 1 (the batch) or a small size, the same for the same symbolic name. Errors:
// STATUS_DATA for types that cannot be made up, inputs without a declared shape, over 2 GiB.
enum status samples_random(struct samples **s, struct graph *g, uint64_t seed, size_t count,
                           struct arena *a, struct diag *d);

void samples_close(struct samples *s);
size_t samples_count(const struct samples *s);
bool samples_synthetic(const struct samples *s);
// Whether the path leads to a file that samples are read from.
bool samples_include(const struct samples *s, const char *path);

// SHA-256 over the labels, names, types, dims and elements of all samples read so far, in order of
// index; hex. For the trace's provenance.
void samples_digest(struct samples *s, char hex[65]);

// Reads sample k and checks it against the graph's inputs: missing, extra, misnamed (with the
// nearest name), wrongly typed and wrongly shaped arrays are STATUS_DATA errors that name the
// sample, the input, what is declared and what was found. Warns, once, if dims of one symbolic name
// differ within a sample. Inputs that have an initializer are optional; where they count as
// constants (graph_is_constant), arrays for them are left out, with one warning for all samples. An
// array of shape [1] is taken for a scalar, and uint16 and uint8 for the codes of a bfloat16 or
// 8-bit float input.
// STATUS_IO if a file is not as it was when it was found by samples_open.
enum status samples_read(struct samples *s, size_t k, struct sample *out, struct diag *d);
void sample_free(struct sample *s);

#endif
