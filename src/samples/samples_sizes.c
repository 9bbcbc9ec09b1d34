// Sizes for the dims that a model's inputs leave open, when data is made up: what an operator that
// reads the input needs (the channels of a convolution's weight, the rows of a matrix), else the
// habits of the field. One symbolic name has one size.
#include "samples_internal.h"
#include "tensor.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
  BATCH = 1,
  SHORT = 8,     // sequences, and whatever has no better reason
  SIGNAL = 512,  // samples of a signal: longer than a usual Fourier window
  PIXELS = 64,   // a side of an image: a multiple of usual strides
  CHANNELS = 3,
  VOXELS = 16,
  MAX_USES = 64,  // looked at
};

struct sizing {
  struct graph *g;
  const struct inputs *in;
  int64_t *params;  // per symbolic name; 0: not chosen yet
};

static bool contains(const char *text, const char *word) {
  size_t length = strlen(word);
  for (; *text; text++) {
    size_t i = 0;
    while (i < length && tolower((unsigned char)text[i]) == word[i])
      i++;
    if (i == length)
      return true;
  }
  return false;
}

static int64_t weight_dim(struct graph *g, const struct node *n, int input, size_t axis) {
  const Onnx__TensorProto *t = NULL;
  if (input < n->n_inputs && n->inputs[input] >= 0) {
    t = graph_constant(g, n->inputs[input]);
    t = t ? t : g->values[n->inputs[input]].initializer;
  }
  return t && axis < t->n_dims && t->dims[axis] > 0 ? t->dims[axis] : 0;
}

static int64_t attribute_int(const struct node *n, const char *name, int64_t otherwise) {
  const Onnx__AttributeProto *attribute = node_attribute(n->proto, name);
  return attribute && attribute->has_i ? attribute->i : otherwise;
}

// Size that node n needs of dim `axis` of its input 0; 0 if it does not care.
static int64_t needed_by(struct graph *g, const struct node *n, size_t axis, size_t rank) {
  if (node_is(n, "Conv")) {
    int64_t group = attribute_int(n, "group", 1);
    if (axis == 1 && group > 0 && group < 1 << 20)
      return weight_dim(g, n, 1, 1) * group;
    return axis > 1 && rank == 3 ? PIXELS : 0;
  }
  if (node_is(n, "ConvTranspose"))
    return axis == 1 ? weight_dim(g, n, 1, 0) : 0;
  if (node_is(n, "MatMul"))
    return axis + 1 == rank ? weight_dim(g, n, 1, 0) : 0;
  if (node_is(n, "Gemm"))
    return axis == (attribute_int(n, "transA", 0) ? 0 : 1)
               ? weight_dim(g, n, 1, attribute_int(n, "transB", 0) ? 1 : 0)
               : 0;
  if (node_is(n, "BatchNormalization"))
    return axis == 1 ? weight_dim(g, n, 1, 0) : 0;
  if (node_is(n, "LSTM") || node_is(n, "GRU") || node_is(n, "RNN"))
    return axis == 2 ? weight_dim(g, n, 1, 2) : 0;
  return 0;
}

static int64_t needed_by_uses(struct graph *g, int value, size_t axis, size_t rank) {
  for (int step = 0; step < 8 && value >= 0; step++) {
    const struct value *v = &g->values[value];
    int next = -1;
    for (int u = 0; u < v->n_uses && u < MAX_USES; u++) {
      if (v->uses[u].node < 0 || v->uses[u].index != 0)
        continue;
      const struct node *n = &g->nodes[v->uses[u].node];
      int64_t size = needed_by(g, n, axis, rank);
      if (size > 0)
        return size;
      if ((node_is(n, "Cast") || node_is(n, "Identity")) && n->n_outputs)
        next = n->outputs[0];
    }
    value = next;
  }
  return 0;
}

static int64_t size_by_habit(const struct declared *input, size_t axis, const char *name) {
  bool sequence = contains(name, "seq") || contains(name, "len") || contains(name, "token");
  if (axis == 0 && input->rank > 1)
    return BATCH;
  if (input->rank == 2)
    return tensor_is_float(input->elem_type) ? SIGNAL : SHORT;
  if (input->rank < 4 || sequence)
    return SHORT;
  if (input->rank > 4)
    return axis == 1 ? CHANNELS : VOXELS;
  bool channels_last = input->dims[3] > 0 && input->dims[1] < 0 && input->dims[2] < 0;
  return axis == 1 && !channels_last ? CHANNELS : PIXELS;
}

static int64_t choose(struct sizing *s, const struct declared *input, size_t axis) {
  if (input->dims[axis] >= 0)
    return input->dims[axis];
  int param = input->params[axis];
  if (param >= 0 && s->params[param])
    return s->params[param];
  const char *name = param >= 0 ? s->in->params[param] : "";
  int64_t size = needed_by_uses(s->g, input->value, axis, input->rank);
  if (!size)
    size = size_by_habit(input, axis, name);
  if (param >= 0)
    s->params[param] = size;
  return size;
}

// Size of the symbolic name text[0..length), or the integer it spells; 0 if neither.
static int64_t term(const struct sizing *s, const char *text, size_t length) {
  while (length && *text == ' ')
    text++, length--;
  while (length && text[length - 1] == ' ')
    length--;
  if (length && length < 10 && strspn(text, "0123456789") >= length)
    return strtoll(text, NULL, 10);
  for (size_t i = 0; i < s->in->n_params; i++)
    if (strncmp(s->in->params[i], text, length) == 0 && !s->in->params[i][length])
      return s->params[i];
  return 0;
}

// "past_sequence_length + 1", as exporters write.
static int64_t sum_of_terms(const struct sizing *s, const char *name) {
  int64_t sum = 0;
  for (const char *at = name;;) {
    size_t length = strcspn(at, "+");
    int64_t size = term(s, at, length);
    if (!size)
      return 0;
    sum += size;
    if (!at[length])
      return sum;
    at += length + 1;
  }
}

// "total_sequence_length" beside a past and a present one.
static int64_t sum_of_past(const struct sizing *s) {
  int64_t past = 0, present = 0;
  for (size_t i = 0; i < s->in->n_params; i++) {
    const char *name = s->in->params[i];
    if (contains(name, "total") || strchr(name, '+') || !contains(name, "seq"))
      continue;
    int64_t *which = contains(name, "past") ? &past : &present;
    *which = *which ? *which : s->params[i];
  }
  return past && present ? past + present : 0;
}

static void choose_sums(struct sizing *s) {
  enum { MAX_SUMS = 64 };
  int left = MAX_SUMS;
  for (size_t i = 0; i < s->in->n_params && left; i++) {
    const char *name = s->in->params[i];
    int64_t size = 0;
    if (strchr(name, '+'))
      size = sum_of_terms(s, name);
    else if (contains(name, "total"))
      size = sum_of_past(s);
    else
      continue;
    left--;
    if (size > 0)
      s->params[i] = size;
  }
}

static void choose_all(struct sizing *s, int64_t **dims, bool floats) {
  for (int i = 0; i < s->in->n_required; i++) {
    const struct declared *input = &s->in->items[s->in->required[i]];
    for (size_t axis = 0; axis < input->rank; axis++)
      if (tensor_is_float(input->elem_type) == floats)
        dims[i][axis] = choose(s, input, axis);
  }
}

void samples_sizes(struct graph *g, const struct inputs *in, int64_t **dims, struct arena *a) {
  struct sizing s = {g, in, arena_array(a, in->n_params, sizeof(int64_t))};
  for (size_t i = 0; i < in->n_params; i++)
    if (contains(in->params[i], "batch"))
      s.params[i] = BATCH;
  // Integer inputs first: they know best what is a sequence.
  choose_all(&s, dims, false);
  choose_all(&s, dims, true);
  choose_sums(&s);
  choose_all(&s, dims, false);
  choose_all(&s, dims, true);
}
