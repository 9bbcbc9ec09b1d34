// The readers of the file formats that samples come in. Everything in such a file is hostile: sizes
// are checked against the file before anything is allocated for them. Internal to samples*.c.
#ifndef SAMPLES_FORMAT_H
#define SAMPLES_FORMAT_H

#include "samples.h"

// Arrays read so far, in the order of the file. With `headers_only` no data is read: types, shapes
// and sizes are all that is known of an array.
struct array_list {
  struct arena *arena;  // owns names and data
  struct array *items;
  size_t count, capacity;
  bool headers_only;
};

// A new array at the end, all zero but its name (which must live as long as the list's arena).
struct array *array_list_add(struct array_list *list, const char *name);

// Copies `size` bytes to the arena as the array's data (aligned; booleans become 0 or 1).
void array_copy_data(struct array_list *list, struct array *array, const void *data, size_t size);

// Product of dims, and that times `item` bytes. False if a dim is negative, or if either is beyond
// 2^62 (dims that are zero left out, so that strides never overflow either).
bool array_extent(const int64_t *dims, size_t rank, size_t item, uint64_t *count, uint64_t *bytes);

enum { ARRAY_MAX_RANK = 16 };

// Each appends what the file holds. Errors are STATUS_DATA with the file, the array where there is
// one, and what is wrong; STATUS_IO if the file cannot be opened. Arrays of .npy are called `name`,
// those of .pb by the TensorProto's own name ("" if it has none).
enum status samples_read_npy(struct array_list *list, const char *path, const char *name,
                             struct diag *d);
enum status samples_read_npz(struct array_list *list, const char *path, struct diag *d);
enum status samples_read_safetensors(struct array_list *list, const char *path, struct diag *d);
enum status samples_read_pb(struct array_list *list, const char *path, struct diag *d);

// A .npy header, for the reader of archives. NumPy Enhancement Proposal 1 and numpy.lib.format.
struct npy_header {
  size_t offset;  // of the data: the header's own length
  int elem_type;
  char kind;    // 'S', 'U': fixed-width strings; else 0
  size_t item;  // bytes of an element
  bool swapped, fortran;
  size_t rank;
  int64_t dims[ARRAY_MAX_RANK];
  uint64_t count, bytes;
};

enum { NPY_PREFIX = 12 };  // bytes that tell how long the header is

// Length of the whole header from its first NPY_PREFIX bytes.
enum status npy_header_length(const uint8_t prefix[NPY_PREFIX], size_t *length, struct diag *d);

// Parses a whole header of bytes[0..length).
enum status npy_header_parse(struct npy_header *h, const uint8_t *bytes, size_t length,
                             struct diag *d);

// Adds an array of the header's type and shape, without data.
struct array *npy_add(struct array_list *list, const char *name, const struct npy_header *h);

// Makes `data` (h->bytes bytes in the list's arena, which it may change) the array's data.
enum status npy_fill(struct array_list *list, struct array *array, const struct npy_header *h,
                     uint8_t *data, struct diag *d);

#endif
