// The summary of a zoo, in OUT. The same results give the same bytes of summary.json, summary.csv
// and summary.md, on any machines and in any order; what differs from run to run (seconds, memory)
// is apart, in times.csv. index.html shows both, with links to each model's files.
#ifndef SUMMARY_ZOO_H
#define SUMMARY_ZOO_H

#include "result.h"

struct totals {
  size_t models, by_outcome[OUTCOME_COUNT];
  size_t with_drawbacks;  // of those written
  struct drawback_total {
    const char *id;
    int length;
    size_t models;
  } drawbacks[8];          // each that some of them has, in the order in which they were met
  size_t n_drawbacks;      // what is beyond is counted above only
  size_t judged, made_up;  // models that came to a plan; of these on made-up inputs
  int64_t float_nodes, narrow_nodes, casts, claims, claims_held;
  double bytes_before, bytes_after;  // of models of which one is written
  double seconds;
  struct wide_total {
    const char *reason;
    int64_t nodes;
    size_t models;
  } * wide;  // most nodes first
  size_t n_wide;
};

void summary_zoo_add_up(struct totals *t, struct result *const *results, size_t count,
                        struct arena *a);

// The files' names.
enum { SUMMARY_ZOO_FILES = 5 };
extern const char *const summary_zoo_files[SUMMARY_ZOO_FILES];

// Writes the files. `results` must be sorted by name.
enum status summary_zoo_write(struct result *const *results, size_t count, const char *out,
                              struct arena *a, struct diag *d);

// summary.json's text.
void summary_zoo_json(struct result *const *results, size_t count, const struct totals *t,
                      FILE *out);

// Totals for people.
void summary_zoo_text(struct result *const *results, size_t count, const struct totals *t,
                      const char *out, FILE *to);

// STATUS_ENGINE if the engine failed on a model, else STATUS_IO if a file could not be read or
// written, else STATUS_CLAIM if a model was refused, else STATUS_OK.
enum status summary_zoo_status(struct result *const *results, size_t count);

// index.html, see summary_html.c.
void summary_zoo_html(struct result *const *results, size_t count, const struct totals *t,
                      const char *out, FILE *to);

// The sentence for a reason of the plan; the reason itself if it is not known.
const char *summary_zoo_reason(const char *name);

// "no faster, moves more memory"; "" if there is none.
void summary_zoo_drawbacks(FILE *out, const struct result *r);

// "2 no faster, 1 moves more memory"
void summary_zoo_drawback_counts(FILE *out, const struct totals *t);

// "real" or "made up"; "" if it came to no plan.
const char *summary_zoo_inputs(const struct result *r);

// "12.3 MiB"
void summary_zoo_bytes(FILE *out, double bytes);

// "12.3 %", for both forms; "-" of nothing.
void summary_zoo_share(FILE *out, double part, double whole);

#endif
