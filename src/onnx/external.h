// External data of a model: the files that TensorProto.external_data entries name, each checked and
// mapped once. Used by model.c and model_save.c; everybody else calls model_external.
#ifndef EXTERNAL_H
#define EXTERNAL_H

#include "file.h"
#include "map.h"
#include "model.h"

struct external_file {
  const char *location;  // below the model's folder, without "." and empty components
  const uint8_t *bytes;
  size_t size;
  struct file_stamp stamp;  // from before it was mapped
  const char *path;         // without links
  char sha1[41];            // once a tensor names one: that of the file, or "" if none can be made
  bool hashed;
};

struct externals {
  struct arena *arena;          // of the model that was loaded, whose clones share this
  struct external_file *files;  // in the order in which they were first needed
  size_t count, capacity;
  struct map index;        // location as written -> file
  char *root;              // the model's folder without links, in the arena
  size_t passed;           // bytes that were read since the mapped pages were let go: model_passed
  struct map aligned;      // of data that is not aligned (address, size) -> its copy
  const uint8_t **copies;  // in m->copies
  size_t n_copies, capacity_copies;
  char *self;  // the model's file without links, once asked for
};

// A checked stretch of a file.
struct external_range {
  int file;
  size_t offset, length;
};

// What is wrong with a location as such ("is absolute"), or NULL.
const char *external_location_fault(const char *location);

// Checks t's entries and maps the file. `t` says EXTERNAL. Errors as for model_external.
enum status external_find(struct model *m, const Onnx__TensorProto *t, struct external_range *out,
                          struct diag *d);

// The path of a file that was written to since it was mapped, or NULL.
const char *external_changed(const struct model *m);

// Unmaps all files.
void external_close(struct model *m);

// Makes the empty list; nothing is opened yet.
void external_open(struct model *m);

#endif
