// What the tests of samples share: a folder and a small model per test, writers for the file
// formats, byte by byte, and readers that check what every sample must fulfil.
#ifndef SUPPORT_SAMPLES_H
#define SUPPORT_SAMPLES_H

#include "graph.h"
#include "samples.h"
#include "support_bytes.h"
#include "support_graph.h"

// ONNX element types.
enum { FLOAT = 1, INT32 = 6, INT64 = 7, STRING = 8, BOOL = 9, BFLOAT16 = 16 };

struct fixture {
  char folder[256];  // removed at the end
  struct build b;    // the model in the making
  struct arena arena;
  struct schema_table schemas;
  struct model model;
  struct graph g;
  struct samples *samples;
  struct diag d;
};

// ---- The model: fixture_new, add what it holds to `b`, fixture_build ----

struct fixture *fixture_new(void);
void fixture_build(struct fixture *f);
void fixture_end(struct fixture *f);

// y = Identity(x); `type` is like "float[2,N,-1]".
struct fixture *identity_model(const char *type);

// y = a + b + w, floats of shape [N], where w has an initializer and stands between a and b.
struct fixture *two_inputs(void);

// ---- Files; names are below the fixture's folder ----

extern const float six[6];  // 1 to 6

void write_bytes(struct fixture *f, const char *name, const void *bytes, size_t size);
void put_npy(struct bytes *b, int version, const char *header, const void *data, size_t size);
struct bytes npy(const char *descr, const char *shape, const void *data, size_t size);
void write_npy(struct fixture *f, const char *name, const char *descr, const char *shape,
               const void *data, size_t size);

// Adds an entry to an archive, which is made if need be.
void write_npz(struct fixture *f, const char *file, const char *entry, const struct bytes *b,
               bool deflate);
void write_safetensors(struct fixture *f, const char *name, const char *header, const void *data,
                       size_t size);

// A TensorProto of one dim; `name` may be NULL.
struct bytes tensor(const char *name, int type, uint64_t dim, const void *raw, size_t size);
void write_pb(struct fixture *f, const char *file, const char *name, int type, uint64_t dim,
              const void *raw, size_t size);

// ---- Reading ----

// Opens the folder, or what is `below` it ("/0.npz").
enum status open_at(struct fixture *f, const char *below);
struct sample read_sample(struct fixture *f, size_t k);

// Opens the folder, which holds one sample, and reads that.
struct sample open_only(struct fixture *f);

// Opening or reading fails with STATUS_DATA and a message or hint that holds `text`.
void fails_with(struct fixture *f, const char *text);

// No prefix of the file can be read, and none crashes the reader.
void every_truncation_fails(struct fixture *f, const char *file);

void assert_floats(const struct array *a, const float *wanted, size_t n);

#endif
