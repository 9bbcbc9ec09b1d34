// Every form that samples come in. The first byte names the form, and a folder of such files is
// scanned, opened and read for a model with inputs of several types and shapes.
#include "fuzz.h"
#include "samples_format.h"
#include "support_graph.h"

#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct graph *inputs(void) {
  static struct arena arena;
  static struct model model;
  static struct graph graph;
  if (graph.model)
    return &graph;
  struct build b;
  struct diag d = {0};
  build_begin(&b, &arena, 17);
  build_input(&b, "x", "float[2,N]");
  build_input(&b, "ids", "int64[2,N]");
  build_input(&b, "half", "bfloat16[]");
  build_input(&b, "text", "string[N]");
  build_input(&b, "seen", "bool[]");
  build_floats(&b, "x", "float[2,1]", (float[]){1, 2});
  build_int64s(&b, "ids", "int64[2,1]", (int64_t[]){1, 2});
  build_raw(&b, "half", "bfloat16[]", "\0\0", 2);
  build_raw(&b, "seen", "bool[]", "\0", 1);
  build_node(&b, "Identity", "x", "y");
  build_output(&b, "y", "");
  build_model(&b, &model);
  fuzz_require(graph_build(&graph, &model, fuzz_schemas(), &arena, &d) == STATUS_OK, "%s",
               d.message);
  return &graph;
}

static void read_all(const char *path) {
  struct arena arena = {0};
  struct diag d = {0};
  struct samples *s = NULL;
  fuzz_check_diag(samples_open(&s, inputs(), path, &arena, &d), &d);
  for (size_t k = 0; s && d.status == STATUS_OK && k < samples_count(s) && k < 8; k++) {
    struct sample sample;
    fuzz_check_diag(samples_read(s, k, &sample, &d), &d);
    if (d.status == STATUS_OK)
      sample_free(&sample);
  }
  if (s && d.status == STATUS_OK) {
    char hex[65];
    samples_digest(s, hex);
  }
  samples_close(s);
  arena_free(&arena);
}

// The reader alone, whatever the model wants: headers, then data. Both must agree.
static void read_file(const char *path, unsigned form) {
  static enum status (*const readers[])(struct array_list *, const char *, struct diag *) = {
      samples_read_npz, samples_read_safetensors, samples_read_pb};
  struct arena arena = {0};
  struct array_list lists[2] = {{.arena = &arena, .headers_only = true}, {.arena = &arena}};
  for (int i = 0; i < 2; i++) {
    struct diag d = {0};
    enum status status = form == 0 ? samples_read_npy(&lists[i], path, "x", &d)
                                   : readers[form - 1](&lists[i], path, &d);
    fuzz_check_diag(status, &d);
    for (size_t k = 0; status == STATUS_OK && k < lists[i].count; k++) {
      const struct array *a = &lists[i].items[k];
      uint64_t count, bytes;
      fuzz_require(a->rank <= ARRAY_MAX_RANK, "rank %zu", a->rank);
      fuzz_require(array_extent(a->dims, a->rank, 1, &count, &bytes), "dims");
    }
  }
  arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct {
    char letter;
    const char *file;
  } forms[] = {
      {'y', "x.npy"}, {'z', "sample.npz"}, {'s', "sample.safetensors"}, {'p', "input_0.pb"}};
  for (unsigned i = 0; size && i < sizeof forms / sizeof *forms; i++) {
    if (data[0] != (uint8_t)forms[i].letter)
      continue;
    char path[1024];
    snprintf(path, sizeof path, "%s", fuzz_write(forms[i].file, data + 1, size - 1));
    read_file(path, i);
    read_all(fuzz_folder());
    unlink(path);
  }
  return 0;
}
