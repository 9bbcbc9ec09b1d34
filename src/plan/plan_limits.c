// The limits of a plan's claims, as sentences with this plan's numbers. See plan_limits.h.
#include "plan_limits.h"

static void limit(struct json_writer *w, const char *id, const char *text) {
  json_object(w, NULL);
  json_string(w, "id", id);
  json_string(w, "text", text);
  json_end_object(w);
}

static int count_not_seen(const struct plan *p) {
  int count = 0;
  for (int v = 0; v < p->n_values; v++)
    count += p->values[v].considered && p->values[v].fit.reason == REASON_NOT_SEEN;
  return count;
}

static void write_range(struct json_writer *w, const struct plan *p, const struct graph *g) {
  if (p->headroom_value < 0)
    return;
  char text[1024];
  snprintf(text, sizeof text,
           "Inputs beyond the calibrated range: %.600s leaves %s when it grows %.4g times.",
           graph_value_label(g, p->headroom_value),
           formats[p->values[p->headroom_value].format].name, p->headroom);
  limit(w, "range", text);
}

static void write_samples(struct json_writer *w, const struct plan *p) {
  char text[256];
  if (!p->has_trace) {
    limit(w, "no_trace", "Nothing was measured but constants: there was no calibration trace.");
    return;
  }
  if (p->synthetic)
    limit(w, "synthetic", "The statistics are of made-up inputs, which say little of real ones.");
  size_t held_out = p->samples > p->steps ? p->samples - p->steps : 0;
  snprintf(text, sizeof text,
           "Other data: ranges are those of %zu samples, and claims are judged on %zu held out%s.",
           p->steps, held_out, held_out ? "" : ", so on those that calibrated");
  limit(w, "samples", text);
}

void plan_limits_write(struct json_writer *w, const struct plan *p, const struct graph *g) {
  json_array(w, "limits");
  if (!plan_is_identity(p)) {
    write_range(w, p, g);
    write_samples(w, p);
    int not_seen = count_not_seen(p);
    char text[256];
    snprintf(text, sizeof text, "%d values were never seen, and stay fp32 unmeasured.", not_seen);
    if (not_seen)
      limit(w, "not_seen", text);
    limit(w, "accumulation",
          "Verify computes inside operators in fp32 and rounds what is stored; a device that "
          "accumulates in a narrow format may do worse.");
    limit(
        w, "swamping",
        "Updates smaller than a step are looked for where values are added; not inside attention, "
        "Einsum, ConvTranspose and recurrent cells, nor where a constant is added.");
    limit(w, "not_claimed", "Equal quality on other data, and bitwise equality, are not claimed.");
  }
  json_end_array(w);
}
