// formats: the table of number formats as the program uses it.
#include "cmd.h"
#include "json.h"

static void print_json(void) {
  struct json_writer w = {.out = stdout, .inline_depth = 1};
  json_array(&w, NULL);
  for (int i = 0; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    json_object(&w, NULL);
    json_string(&w, "name", f->name);
    json_integer(&w, "bits", f->bits);
    json_integer(&w, "exponent_bits", f->exponent_bits);
    json_integer(&w, "mantissa_bits", f->mantissa_bits);
    json_integer(&w, "bias", f->bias);
    json_number(&w, "max", f->max);
    json_number(&w, "tiny", f->tiny);
    json_number(&w, "min_subnormal", f->min_subnormal);
    json_number(&w, "eps", f->eps);
    json_bool(&w, "infinity", f->has_inf);
    json_bool(&w, "nan", f->has_nan);
    json_integer(&w, "onnx_type", f->onnx_type);
    json_end_object(&w);
  }
  json_end_array(&w);
}

enum status command_formats(struct run *r) {
  if (r->settings->json) {
    print_json();
    return STATUS_OK;
  }
  printf("%-12s %-8s %5s %-14s %-14s %-14s %-12s %-4s %s\n", "name", "s/e/m", "bias", "max", "tiny",
         "min subnormal", "eps", "inf", "ONNX");
  for (int i = 0; i < FORMAT_COUNT; i++) {
    const struct format *f = &formats[i];
    printf("%-12s 1/%d/%-4d %5d %-14.8g %-14.8g %-14.8g %-12.8g %-4s ", f->name, f->exponent_bits,
           f->mantissa_bits, f->bias, f->max, f->tiny, f->min_subnormal, f->eps,
           f->has_inf ? "yes" : "no");
    if (f->onnx_type)
      printf("%d\n", f->onnx_type);
    else
      printf("none\n");
  }
  return STATUS_OK;
}
