// What the parts of the samples module share: the inputs that a model declares, where samples lie,
// and how they are made up. Internal to samples*.c.
#ifndef SAMPLES_INTERNAL_H
#define SAMPLES_INTERNAL_H

#include "file.h"
#include "graph.h"
#include "samples_format.h"

// An input of the main graph.
struct declared {
  const char *name;
  int value;      // in the graph
  int elem_type;  // 0: not declared
  bool optional;  // has an initializer as its default
  bool constant;  // which counts as a constant: samples cannot give another
  bool shaped;    // has a declared shape, which is:
  size_t rank;
  int64_t *dims;  // -1: not fixed
  int *params;    // per dim the index of its symbolic name, or -1
};

struct inputs {
  struct declared *items;
  int count;
  int *required;  // indices of those that are not optional, in order
  int n_required;
  const char **names;         // of all, then NULL
  const char **output_names;  // of the main graph, then NULL
  struct map index;           // (0, input's name), (1, symbolic dim), (2, output's name)
  const char **params;        // names of symbolic dims
  size_t n_params, capacity_params;
  int64_t batch;     // fixed first dim that all float inputs share, or -1
  bool dims_differ;  // a sample had two sizes for one symbolic dim: warned of
  bool overridden;   // there was an array for a constant: warned of
};

// Where one sample, or a batch to be split into several, lies.
struct source {
  const char *label;
  const char **paths;
  struct file_stamp *stamps;  // of the paths, when they were found
  size_t n_paths;
  bool single;  // one array, whatever it is called, for the only input
};

struct source_list {
  struct arena *arena;
  struct source *items;
  size_t count, capacity;
};

struct recipe;  // how a required input is made up

struct samples {
  const struct graph *graph;
  struct arena *arena;
  struct inputs inputs;
  struct source_list sources;
  size_t *first;  // per source the index of its first sample, then the count
  size_t count;
  char (*digests)[65];  // per sample, "" until it is read
  // The batch that was read last, for its other parts.
  struct arena batch_arena;
  struct array_list batch;
  size_t batch_source;
  // Made-up samples.
  const struct recipe *recipes;  // per required input; NULL for real samples
  uint64_t seed;
};

// Describes the main graph's inputs. Errors: STATUS_DATA for inputs that are no tensors.
enum status inputs_describe(struct inputs *in, const struct graph *g, struct arena *a,
                            struct diag *d);

// Index of the input of that name, or -1.
int inputs_find(const struct inputs *in, const char *name);

// Takes the arrays out that are for inputs which count as constants, and warns of them, once.
void inputs_drop_constants(struct inputs *in, struct array_list *list, struct diag *d);

// In how many samples the arrays must be split: 1 unless the model's batch is fixed and theirs is a
// multiple of it. Error: STATUS_DATA if it is larger and no multiple.
enum status inputs_parts(const struct inputs *in, const struct array *arrays, size_t n,
                         size_t *parts, struct diag *d);

// Whether the array is cut when its batch is split in `parts`.
bool inputs_splits(const struct inputs *in, const struct array *array, size_t parts);

// All that samples_read promises to check. Gives arrays the declared type and rank where they are
// only written differently (see samples.h). Warns, once, of a symbolic dim with two sizes.
enum status inputs_check(struct inputs *in, struct array *arrays, size_t n, struct arena *a,
                         struct diag *d);

// Lists the sources at `path`. Errors: STATUS_IO, STATUS_DATA.
enum status samples_scan(struct source_list *list, const struct inputs *in, const char *path,
                         struct diag *d);

// The part of a file's name before its extension, and its k if that is "input_<k>", else -1.
const char *samples_stem(const char *path, struct arena *a);
int samples_stem_index(const char *stem);
bool samples_has_extension(const char *path, const char *extension);

// Integers from low to high.
struct range {
  int64_t low, high;
  bool found;    // the graph says so
  bool reshape;  // the target of a Reshape: zeros and a -1
  bool axes;     // 0, 1, 2 ...
};

// Valid values of the required inputs, by what the graph does with them.
void samples_ranges(struct graph *g, const struct inputs *in, struct range *ranges,
                    struct arena *a);

// Sizes for the dims that are not fixed: dims[i] per required input, rank elements each.
void samples_sizes(struct graph *g, const struct inputs *in, int64_t **dims, struct arena *a);

// Fills recipes (STATUS_DATA for what cannot be made up), and makes sample k from them.
enum status recipes_make(struct samples *s, struct graph *g, struct diag *d);
void recipes_cook(const struct samples *s, size_t k, struct array_list *list);

#endif
