// Hands a plan on to other tools: layer precisions as trtexec takes them (its own --help has the
// grammar), and ranges as the quantization tools of ONNX Runtime keep them (the JSON that
// onnxruntime.quantization.calibrate.load_tensors_data reads).
#include "file.h"
#include "json.h"
#include "review.h"

#include <math.h>
#include <string.h>

// ---- TensorRT ----

// The name that TensorRT's ONNX parser gives the layer of a node, in two parts; false where it
// cannot be said on trtexec's command line. Commas and quotes are its punctuation, * its wildcard.
static bool layer_name(const struct review_node *n, const char **prefix, const char **name) {
  *prefix = "";
  *name = n->name ? n->name : n->label;
  if (n->scope[0] || (n->name && n->name[0]))
    return false;  // inside a body, or called as another node is
  if (n->name) {
    if (n->n_outputs == 0)
      return false;
    *prefix = "node_of_";
    *name = n->outputs[0].label;
  }
  return !strpbrk(*name, ",'*\n");
}

static bool all_outputs_float(const struct review_node *n) {
  for (int k = 0; k < n->n_outputs; k++)
    if (n->outputs[k].value < 0)
      return false;
  return n->n_outputs > 0;
}

static const char *output_format(const struct review *r, const struct review_node *n, int k) {
  return formats[r->values[n->outputs[k].value].format].name;
}

static void write_precisions(const struct review *r, FILE *out) {
  const char *prefix, *name, *separator = "";
  fprintf(out, "--layerPrecisions=");
  for (int n = 0; n < r->n_nodes; n++) {
    if (!layer_name(&r->nodes[n], &prefix, &name))
      continue;
    fprintf(out, "%s%s%s:%s", separator, prefix, name, formats[r->nodes[n].format].name);
    separator = ",";
  }
  fprintf(out, "\n");
}

// Of several outputs the types stand in their order; a node that gives indices too is left out.
static void write_output_types(const struct review *r, FILE *out) {
  const char *prefix, *name, *separator = "";
  fprintf(out, "--layerOutputTypes=");
  for (int n = 0; n < r->n_nodes; n++) {
    const struct review_node *node = &r->nodes[n];
    if (!layer_name(node, &prefix, &name) || !all_outputs_float(node))
      continue;
    fprintf(out, "%s%s%s:", separator, prefix, name);
    for (int k = 0; k < node->n_outputs; k++)
      fprintf(out, "%s%s", k ? "+" : "", output_format(r, node, k));
    separator = ",";
  }
  fprintf(out, "\n");
}

static bool uses(const struct review *r, enum format_id f) {
  for (int n = 0; n < r->n_nodes; n++)
    if (r->nodes[n].format == f)
      return true;
  return false;
}

static void warn_of_layers_left_out(const struct review *r, struct diag *d) {
  const char *prefix, *name, *first = NULL;
  int left_out = 0;
  for (int n = 0; n < r->n_nodes; n++)
    if (!layer_name(&r->nodes[n], &prefix, &name)) {
      first = first ? first : r->nodes[n].label;
      left_out++;
    }
  if (left_out)
    diag_warn(d,
              "%d node%s left to TensorRT, since trtexec cannot name them (inside a body, a "
              "name that is not unique, or one with a comma, quote or star); the first is %s",
              left_out, left_out == 1 ? " is" : "s are", first);
}

enum status review_emit_tensorrt(const struct review *r, const char *path, struct diag *d) {
  static const enum format_id known[] = {FORMAT_FP16, FORMAT_BF16};
  for (int v = 0; v < r->n_values; v++)
    if (r->values[v].scale_log2 != 0) {
      diag_at(d, NULL, NULL, r->values[v].label);
      diag_hint(d, "Build the engine from the model that `narrowcast rewrite` writes.");
      return diag_fail(d, STATUS_USAGE, "trtexec takes no scales, and the plan has one here");
    }
  for (int n = 0; n < r->n_nodes; n++)
    if (r->nodes[n].narrow_operands) {
      diag_at(d, NULL, r->nodes[n].label, NULL);
      diag_hint(d, "Build the engine from the model that `narrowcast rewrite` writes.");
      return diag_fail(d, STATUS_USAGE, "trtexec takes no format for operands, as this node has");
    }
  struct file_writer file;
  TRY(file_begin(&file, path, d));
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (uses(r, known[i]))
      fprintf(file.out, "--%s\n", formats[known[i]].name);
  fprintf(file.out, "--noTF32\n");  // what the plan keeps in fp32 would run in tf32 by default
  fprintf(file.out, "--precisionConstraints=obey\n");
  write_precisions(r, file.out);
  write_output_types(r, file.out);
  warn_of_layers_left_out(r, d);
  return file_commit(&file, d);
}

// ---- ONNX Runtime ----

// A scalar array of NumPy, as the tools' encoder writes it. Ranges are fp32 numbers.
static void write_array(struct json_writer *w, const char *key, double value) {
  json_object(w, key);
  json_number(w, "data", value);
  json_string(w, "dtype", "float32");
  json_string(w, "CLS", "numpy.array");
  json_end_object(w);
}

enum status review_emit_onnxruntime(const struct review *r, const struct review_range *ranges,
                                    const char *path, struct diag *d) {
  struct file_writer file;
  TRY(file_begin(&file, path, d));
  struct json_writer w = {.out = file.out, .inline_depth = 2};
  json_object(&w, NULL);
  json_string(&w, "CLS", "TensorsData");
  json_object(&w, "data");
  for (int v = 0; v < r->n_values; v++) {
    if (!ranges[v].label || ranges[v].count == 0 || r->values[v].scope[0] ||
        !isfinite(ranges[v].lowest) || !isfinite(ranges[v].highest))
      continue;
    json_object(&w, r->values[v].label);
    write_array(&w, "lowest", ranges[v].lowest);
    write_array(&w, "highest", ranges[v].highest);
    json_string(&w, "CLS", "TensorData");
    json_end_object(&w);
  }
  json_end_object(&w);
  json_object(&w, "calibration_method");
  json_string(&w, "CLS", "CalibrationMethod");
  json_string(&w, "value", "CalibrationMethod.MinMax");
  json_end_object(&w);
  json_end_object(&w);
  return file_commit(&file, d);
}
