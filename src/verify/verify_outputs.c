// What two models give out for one sample, compared element by element and row by row. See
// verify_outputs.h.
#include "verify_outputs.h"

#include "tensor.h"
#include "units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEPT_BYTES = 128 * 1024 * 1024 };  // of what fp32 gives

static size_t element_count(const struct array *x) {
  size_t count = 1;
  for (size_t i = 0; i < x->rank; i++)
    count *= (size_t)x->dims[i];
  return count;
}

static bool same_shape(const struct array *x, const struct array *y) {
  return x->rank == y->rank && memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0;
}

float *array_as_float(const struct array *x, size_t count, struct arena *scratch) {
  struct tensor view = {.name = "",
                        .elem_type = x->elem_type,
                        .rank = x->rank,
                        .dims = x->dims,
                        .count = count,
                        .data = x->data,
                        .size = x->size};
  float *out = arena_array(scratch, count, sizeof *out);
  return tensor_to_float(&view, out) ? out : NULL;
}

static const char label_prefix[] = "label:";
enum { PREFIX_LENGTH = sizeof label_prefix - 1, WHY = 120 };

static bool is_label(const struct array *x) {
  return strncmp(x->name, label_prefix, PREFIX_LENGTH) == 0;
}

static const struct array *find_label(const struct sample *s, const char *output) {
  for (size_t i = 0; i < s->n_arrays; i++)
    if (is_label(&s->arrays[i]) && strcmp(s->arrays[i].name + PREFIX_LENGTH, output) == 0)
      return &s->arrays[i];
  return NULL;
}

// Elements of a row of scores; 0: the output is no matrix of scores.
static size_t score_width(const struct array *x) {
  bool scores = tensor_is_float(x->elem_type) && x->rank == 2 && x->dims[1] > 1;
  return scores ? (size_t)x->dims[1] : 0;
}

// The classes of `rows` rows; NULL where they are not that, and `why` says what they are. What is
// no class of the `width` there are is left out, and of the first of these `why` speaks.
static int64_t *read_labels(const struct array *labels, size_t rows, size_t width,
                            struct arena *scratch, char why[WHY]) {
  size_t count = element_count(labels);
  why[0] = '\0';
  if (labels->strings)
    snprintf(why, WHY, "it holds strings, and not numbers of classes");
  else if (count != rows)
    snprintf(why, WHY, "it holds %zu label%s for %zu row%s", count, PLURAL(count), rows,
             PLURAL(rows));
  float *numbers = why[0] ? NULL : array_as_float(labels, count, scratch);
  if (!numbers && !why[0])
    snprintf(why, WHY, "its elements are no numbers");
  int64_t *classes = arena_array(scratch, rows, sizeof *classes);
  for (size_t i = 0; numbers && i < rows; i++) {
    if (numbers[i] != truncf(numbers[i]) || isinf(numbers[i])) {
      snprintf(why, WHY, "its element %zu is %g, and no number of a class", i, (double)numbers[i]);
      return NULL;
    }
    bool valid = numbers[i] >= 0 && numbers[i] < (float)width;
    classes[i] = valid ? (int64_t)numbers[i] : -1;
    if (!valid && !why[0])
      snprintf(why, WHY, "its element %zu is %g, and there are %zu classes", i, (double)numbers[i],
               width);
  }
  return numbers ? classes : NULL;
}

static void compare_with_labels(struct compare *c, const struct array *labels, const float *r,
                                const float *n, size_t rows, size_t width, struct arena *scratch) {
  char why[WHY];
  int64_t *classes = read_labels(labels, rows, width, scratch, why);
  if (classes)
    compare_labels(c, r, n, rows, width, classes);
}

// Of one array, "": nothing.
static void find_label_fault(const struct array *labels, const struct array *output,
                             char why[WHY]) {
  size_t width = score_width(output);
  struct arena scratch = {0};
  if (!width)
    snprintf(why, WHY, "that output is no matrix of scores of classes");
  else
    read_labels(labels, (size_t)output->dims[0], width, &scratch, why);
  arena_free(&scratch);
}

bool outputs_label_fault(const struct sample *s, const char *const *names,
                         const struct array *pairs, size_t n_outputs, char text[LABEL_FAULT]) {
  for (size_t i = 0; i < s->n_arrays; i++) {
    const struct array *labels = &s->arrays[i];
    char why[WHY] = "";
    for (size_t k = 0; k < n_outputs && is_label(labels); k++)
      if (strcmp(names[2 * k], labels->name + PREFIX_LENGTH) == 0)
        find_label_fault(labels, &pairs[2 * k], why);
    if (why[0])
      snprintf(text, LABEL_FAULT, "%.200s: %.200s: %s", s->label, labels->name, why);
    if (why[0])
      return true;
  }
  return false;
}

// Integers, booleans and strings are equal or not, as they are: fp32 does not hold all integers.
// False where elements have no byte of their own.
static bool compare_exact(struct compare *c, const struct array *x, const struct array *y,
                          size_t count) {
  size_t size = count ? x->size / count : 1;
  if (!x->strings &&
      (x->elem_type != y->elem_type || x->size != y->size || x->size != size * count))
    return false;
  c->rows += count;
  for (size_t i = 0; i < count; i++)
    c->rows_agree += x->strings ? strcmp(x->strings[i], y->strings[i]) == 0
                                : memcmp((const char *)x->data + i * size,
                                         (const char *)y->data + i * size, size) == 0;
  return true;
}

static void compare_numbers(struct compare *c, const char *name, const struct array *reference,
                            const struct array *narrow, size_t count, const struct sample *s,
                            int64_t step) {
  struct arena scratch = {0};
  struct compare_piece piece = {0};
  float *r = array_as_float(reference, count, &scratch),
        *n = array_as_float(narrow, count, &scratch);
  if (r && n) {
    compare_pairs(&piece, r, n, count);
    compare_end_run(c, &piece, step);
    size_t width = score_width(reference);
    if (!tensor_is_float(reference->elem_type)) {
      if (!compare_exact(c, reference, narrow, count))
        for (size_t i = 0; i < count; i++, c->rows++)
          c->rows_agree += r[i] == n[i];
    } else if (width > 1) {
      compare_rows(c, r, n, count / width, width);
      const struct array *labels = find_label(s, name);
      if (labels)
        compare_with_labels(c, labels, r, n, count / width, width, &scratch);
    }
  }
  arena_free(&scratch);
}

void outputs_compare(struct compare *c, const char *name, const struct array *reference,
                     const struct array *narrow, const struct sample *s, int64_t step) {
  if (!reference->strings != !narrow->strings)
    return;
  struct compare_piece piece = {0};
  size_t count = element_count(reference);
  if (!same_shape(reference, narrow)) {
    c->mismatched++;
    c->rows++;
    compare_end_run(c, &piece, step);
  } else if (reference->strings) {
    piece.count = count;
    compare_end_run(c, &piece, step);
    compare_exact(c, reference, narrow, count);
  } else {
    compare_numbers(c, name, reference, narrow, count, s, step);
  }
}

void outputs_keep(struct reference *kept, const struct array *pairs, size_t n_outputs, size_t step,
                  size_t n_samples, struct arena *a) {
  size_t bytes = kept->bytes;
  for (size_t k = 0; k < n_outputs; k++)
    bytes += pairs[2 * k].size;
  if (step != kept->samples || bytes > KEPT_BYTES)
    return;
  if (!kept->arrays)
    kept->arrays = arena_array(a, n_samples * n_outputs, sizeof *kept->arrays);
  for (size_t k = 0; k < n_outputs; k++) {
    struct array *copy = &kept->arrays[step * n_outputs + k];
    *copy = pairs[2 * k];
    void *data = arena_alloc(a, copy->size);
    if (copy->size)
      memcpy(data, copy->data, copy->size);
    copy->data = data;
    copy->name = "";
    copy->strings = NULL;
  }
  kept->bytes = bytes;
  kept->samples++;
}
