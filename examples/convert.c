/* Converts a model with libnarrowcast, and prints what was decided and measured:
 *
 *     cc convert.c $(pkg-config --cflags --libs narrowcast) -o convert
 *     ./convert model.onnx samples model.fp16.onnx [policy]
 *
 * The exit code is the library's status: 0 if the model was written. */
#include <narrowcast.h>
#include <stdio.h>

static void warn(void *context, const char *text) {
  (void)context;
  fprintf(stderr, "warning: %s\n", text);
}

static void print_plan(const struct narrowcast *nc) {
  for (size_t i = 0; i < narrowcast_node_count(nc); i++)
    printf("%-24s %-12s %s%s%s\n", narrowcast_node_name(nc, i), narrowcast_node_operator(nc, i),
           narrowcast_node_format(nc, i), narrowcast_node_reason(nc, i)[0] ? ": " : "",
           narrowcast_node_reason(nc, i));
}

static void print_verdict(const struct narrowcast *nc) {
  for (size_t i = 0; i < narrowcast_claim_count(nc); i++)
    printf("%s %s of %s: %g, limit %g\n", narrowcast_claim_holds(nc, i) ? "holds" : "FAILS",
           narrowcast_claim_metric(nc, i), narrowcast_claim_output(nc, i),
           narrowcast_claim_measured(nc, i), narrowcast_claim_limit(nc, i));
}

/* The first call that fails ends it. */
static enum narrowcast_status convert(struct narrowcast *nc, char **paths, const char *policy) {
  enum narrowcast_status status = narrowcast_load_model(nc, paths[0]);
  if (status == NARROWCAST_OK)
    status = narrowcast_load_policy(nc, policy);
  if (status == NARROWCAST_OK)
    status = narrowcast_open_samples(nc, paths[1]);
  if (status == NARROWCAST_OK)
    status = narrowcast_trace(nc);
  if (status == NARROWCAST_OK)
    status = narrowcast_convert(nc);
  if (status == NARROWCAST_OK || status == NARROWCAST_CLAIM) {
    print_plan(nc);
    print_verdict(nc);
  }
  if (status == NARROWCAST_OK)
    status = narrowcast_save(nc, paths[2], 0);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 4 && argc != 5) {
    fprintf(stderr, "usage: convert MODEL SAMPLES OUTPUT [POLICY]\n");
    return NARROWCAST_USAGE;
  }
  struct narrowcast *nc = narrowcast_new();
  if (!nc)
    return NARROWCAST_MEMORY;
  narrowcast_set_warning(nc, warn, NULL);
  enum narrowcast_status status = convert(nc, argv + 1, argc == 5 ? argv[4] : "fp16");
  if (status != NARROWCAST_OK)
    fprintf(stderr, "%s: %s\n  %s\n", narrowcast_status_text(status), narrowcast_error(nc),
            narrowcast_error_hint(nc));
  narrowcast_free(nc);
  return (int)status;
}
