// What the two parts of the trace file's writer and reader share. Internal to trace_file*.c.
#ifndef TRACE_FILE_H
#define TRACE_FILE_H

#include "json.h"
#include "trace.h"

// Sections of the file.
void trace_write_updates(struct json_writer *w, const struct trace *t, const struct graph *g);

// A histogram of n bins, the first of which is called `first`; only those that are not zero.
void trace_write_histogram(struct json_writer *w, const char *key, const uint64_t *bins, int n,
                           int first);
// Name and scope of a value.
void trace_write_place(struct json_writer *w, const struct graph *g, int v);

struct trace_reader {
  const struct json *root;
  const char *file;
  struct json_path path;
  struct trace *trace;
  struct graph *graph;
  struct arena *arena;
  struct diag *diag;
  bool *seen;  // by value
};

#define TRACE_FAIL(r, ...)                                                                         \
  json_fail((r)->root, (r)->file, &(r)->path, STATUS_POLICY, (r)->diag, __VA_ARGS__)

enum status trace_read_updates(struct trace_reader *r, const struct json *root);

// Every key of the object must be one of `keys`, which end with NULL.
enum status trace_check_keys(struct trace_reader *r, const struct json *object,
                             const char *const *keys);
enum status trace_find_key(struct trace_reader *r, const struct json *object, const char *key,
                           const struct json **item);
// Members of an object: integers from 0 to 2^53; a number that is not negative; a string.
enum status trace_read_count(struct trace_reader *r, const struct json *object, const char *key,
                             uint64_t *out);
enum status trace_read_size(struct trace_reader *r, const struct json *object, const char *key,
                            size_t *out);
enum status trace_read_sum(struct trace_reader *r, const struct json *object, const char *key,
                           double *out);
enum status trace_read_text(struct trace_reader *r, const struct json *object, const char *key,
                            const char **out);
enum status trace_read_histogram(struct trace_reader *r, const struct json *object, const char *key,
                                 uint64_t *bins, int n, int first);
// The value that the object names by scope and name.
enum status trace_read_place(struct trace_reader *r, const struct json *object, int *v);

#endif
