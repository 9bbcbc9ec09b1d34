// Weights that go round in a loop of training steps. See trace_feedback.h.
#include "trace_feedback.h"

#include "tensor.h"

#include <stdlib.h>
#include <string.h>

// Made-up and real samples alike hold an array for each input that has no default.
static enum status check_pair(const struct graph *g, const struct feedback *pair, struct diag *d) {
  const struct value *input = &g->values[pair->input], *output = &g->values[pair->output];
  if (graph_is_fp32(g, pair->input) && graph_is_fp32(g, pair->output))
    return STATUS_OK;
  diag_at(d, g->model->path, NULL, input->name);
  return diag_fail(d, STATUS_DATA, "feedback %s=%s needs two float tensors", input->name,
                   output->name);
}

enum status feedback_begin(struct feedback_loop *f, struct trace *t, struct graph *g,
                           const struct feedback *pairs, size_t n, struct arena *a,
                           struct diag *d) {
  *f = (struct feedback_loop){.graph = g,
                              .pairs = pairs,
                              .n = n,
                              .weights = arena_array(a, n, sizeof *f->weights),
                              .outputs = arena_array(a, n, sizeof *f->outputs),
                              .trace = t,
                              .first_site = t->n_sites};
  for (size_t i = 0; i < n; i++) {
    TRY(check_pair(g, &pairs[i], d));
    f->outputs[i] = g->values[pairs[i].output].name;
    f->weights[i].name = g->values[pairs[i].input].name;
    trace_add_sites(t, &(struct update_site){UPDATE_WEIGHT, pairs[i].input}, 1);
  }
  return STATUS_OK;
}

void feedback_end(struct feedback_loop *f) {
  for (size_t i = 0; i < f->n; i++)
    free((void *)f->weights[i].data);
  f->n = 0;
}

static void keep(struct array *weight, const struct array *from) {
  if (!weight->data || weight->size != from->size) {
    free((void *)weight->data);
    weight->data = malloc(from->size + 1);
    if (!weight->data)
      out_of_memory(from->size);
  }
  memcpy((void *)weight->data, from->data, from->size);
  weight->size = from->size;
  weight->rank = from->rank;
  weight->elem_type = from->elem_type;
  memcpy(weight->dims, from->dims, sizeof weight->dims);
}

static struct array *find(struct sample *sample, const char *name) {
  for (size_t i = 0; i < sample->n_arrays; i++)
    if (strcmp(sample->arrays[i].name, name) == 0)
      return &sample->arrays[i];
  return NULL;
}

// The input's default.
static enum status keep_default(struct feedback_loop *f, size_t i, struct arena *a,
                                struct diag *d) {
  const struct value *value = &f->graph->values[f->pairs[i].input];
  struct tensor t;
  diag_at(d, f->graph->model->path, NULL, value->name);
  if (!value->initializer)
    return diag_fail(d, STATUS_DATA, "there is no first value of the weight");
  TRY(tensor_read(f->graph->model, value->initializer, a, &t, d));
  struct array first = {.elem_type = t.elem_type, .rank = t.rank, .data = t.data, .size = t.size};
  if (t.rank > sizeof first.dims / sizeof first.dims[0])
    return diag_fail(d, STATUS_DATA, "the weight has more than 16 dimensions");
  if (t.rank)
    memcpy(first.dims, t.dims, t.rank * sizeof *t.dims);
  keep(&f->weights[i], &first);
  return STATUS_OK;
}

enum status feedback_give(struct feedback_loop *f, struct sample *sample, struct diag *d) {
  struct array *arrays = arena_array(&sample->arena, sample->n_arrays + f->n, sizeof *arrays);
  if (sample->n_arrays)
    memcpy(arrays, sample->arrays, sample->n_arrays * sizeof *arrays);
  sample->arrays = arrays;
  for (size_t i = 0; i < f->n; i++) {
    struct array *weight = &f->weights[i], *given = find(sample, weight->name);
    if (!weight->data && given)
      keep(weight, given);
    else if (!weight->data)
      TRY(keep_default(f, i, &sample->arena, d));
    *(given ? given : &arrays[sample->n_arrays++]) = *weight;
  }
  return STATUS_OK;
}

enum status feedback_take(struct feedback_loop *f, const struct array *fetched, size_t window,
                          struct diag *d) {
  for (size_t i = 0; i < f->n; i++) {
    struct array *weight = &f->weights[i];
    const struct array *after = &fetched[i];
    if (after->elem_type != weight->elem_type || after->rank != weight->rank ||
        memcmp(after->dims, weight->dims, weight->rank * sizeof *weight->dims) != 0) {
      diag_at(d, f->graph->model->path, NULL, weight->name);
      return diag_fail(d, STATUS_DATA, "its update %s has another shape", f->outputs[i]);
    }
    struct updates_piece run;
    memset(&run, 0, sizeof run);
    updates_change(&run, weight->data, after->data, after->size / sizeof(float));
    updates_end_run(&f->trace->updates[f->first_site + i], &run, window);
    keep(weight, after);
  }
  return STATUS_OK;
}
