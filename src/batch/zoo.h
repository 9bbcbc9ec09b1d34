// A zoo: the models that a batch converts, found below a folder or listed in a file.
#ifndef ZOO_H
#define ZOO_H

#include "arena.h"
#include "diag.h"
#include "map.h"

struct zoo_model {
  // The path below the zoo's folder, or what the list calls the model: the same on every machine.
  const char *name;
  const char *path;        // to open it
  const char *entry;       // "list.jsonl:3", for messages; NULL: found in a folder
  size_t line;             // 3; 0: found in a folder
  const char *samples;     // NULL: made up
  const char *policy;      // NULL: the batch's
  const char *overrides;   // file for --overrides, or NULL
  const char **arguments;  // arguments for `convert`: "--keep", GLOB, ...
  size_t n_arguments;
  const char *folder;  // of its results: a file name that no other model of the zoo has
  const char *fault;   // why this cannot be looked at (a folder that cannot be read), or NULL
};

struct zoo {
  struct arena *arena;
  struct zoo_model *models;  // sorted by name
  size_t count, capacity;
};

// The models of `path`. A folder: every file below it that is called *.onnx; links to files are
// followed, links to folders are not (so nothing is met twice). The folders in which a batch keeps
// the results of a model are left out, wherever they lie: an OUT may be the zoo, or lie in it. A
// file: a list, see zoo_read_list.
//
// Samples of a model F/NAME.onnx of a folder are what is there first of:
//   - F/samples/NAME,
//   - F/samples, if the model is the only one in F,
//   - F itself, if it holds a folder test_data_set_* or a file .npz or .npy (not .safetensors,
//   which
//     beside a model are its weights).
//
// Errors: STATUS_IO (`path` cannot be read), STATUS_DATA (no model), STATUS_POLICY (a bad list).
enum status zoo_open(struct zoo *z, const char *path, struct arena *a, struct diag *d);

// A list: JSON Lines, one object a line: "model" (a path), and where wanted "name", "samples" (a
// path), "policy" (a name or a path), "overrides" (a path), "keep", "narrow" (lists of globs),
// "format", "io", "raise_opset" (a number). Paths count from the list's folder. Empty lines are
// passed over. What "format" and "io" say is checked, not yet what the paths lead to. A model
// without "samples" has those that zoo_open would find beside it, and one without "name" is called
// as its path is written; two models of one name are an error.
enum status zoo_read_list(struct zoo *z, const char *path, struct diag *d);

// Where samples of the model at `path` lie beside it, by the rule of zoo_open; NULL: nowhere.
// `read` remembers folders between calls with one zoo.
struct zoo_folders {
  struct map known;  // a folder's path to its place in `items`
  struct zoo_folder {
    bool only_model, samples;  // holds one model; holds samples itself
  } * items;
  size_t count, capacity;
};
const char *zoo_samples_beside(struct zoo *z, struct zoo_folders *read, const char *path);

// Adds a model; `name` and `path` must live as long as the arena.
struct zoo_model *zoo_add(struct zoo *z, const char *name, const char *path);

// Whether model `name` belongs to shard `index` (from 1) of `count`: by its name's hash, so that a
// model stays in its shard when others come and go.
bool zoo_in_shard(const char *name, int index, int count);

// "digits-1a2b3c4d5e6f" for "digits/model.onnx": readable, a legal file name whatever the model's
// name holds, and its own for each name.
const char *zoo_folder_of(const char *name, struct arena *a);

#endif
