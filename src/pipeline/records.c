// The files about a run. The verdict names the bytes of the plan that it is of, and the report is
// made from the texts of the others, saved or not: so it shows what the files say and nothing else.
#define _XOPEN_SOURCE 700  // realpath
#include "records.h"
#include "file.h"
#include "report.h"
#include "verdict_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The files' texts in memory; malloc'ed.
struct texts {
  char *of[REPORT_PARTS];
};

static void print_part(struct run *r, enum report_part part, const char *plan_text, FILE *out) {
  if (part == REPORT_PLAN)
    plan_print(&r->plan, &r->graph, out);
  else if (part == REPORT_TRACE)
    trace_print(&r->trace, &r->graph, out);
  else {
    struct verdict_source from = {.graph = &r->graph,
                                  .plan = &r->plan,
                                  .engine = engine_info(r->engine)->version,
                                  .synthetic = samples_synthetic(r->samples)};
    sha256_hex(plan_text, strlen(plan_text), from.plan_sha256);
    verdict_print(&r->verdict, &from, out);
  }
}

static void print_to_memory(struct run *r, enum report_part part, struct texts *texts) {
  size_t size = 0;
  FILE *out = open_memstream(&texts->of[part], &size);
  if (!out)
    out_of_memory(1);
  print_part(r, part, texts->of[REPORT_PLAN], out);
  if (fclose(out) != 0)
    out_of_memory(size);
}

static enum status save_text(const char *text, const char *path, struct diag *d) {
  struct file_writer file = {0};
  TRY(file_begin(&file, path, d));
  fputs(text, file.out);
  return file_commit(&file, d);
}

// Where each model has a folder of its own, it is that which tells them apart: "digits/model.onnx",
// also for one that is converted from inside its folder.
static const char *title_of(const char *path, struct arena *a) {
  const char *name = file_base(path);
  if (strcmp(name, "model.onnx") != 0)
    return NULL;
  char *folder = realpath(arena_printf(a, "%.*s.", (int)(name - path), path), NULL);
  const char *last = folder ? file_base(folder) : "";
  const char *title = last[0] ? arena_printf(a, "%s/%s", last, name) : NULL;
  free(folder);
  return title;
}

static enum status save_report(struct run *r, const struct texts *texts) {
  static const char *const names[REPORT_PARTS] = {"the plan", "the trace", "the verdict"};
  const char *path = r->settings->report;
  struct report report = {.title = title_of(r->settings->model, &r->arena)};
  enum status status = STATUS_OK;
  for (int i = 0; i < REPORT_PARTS && status == STATUS_OK; i++)
    if (texts->of[i])
      status = report_add(&report, (enum report_part)i, names[i], texts->of[i], r->diag);
  if (status == STATUS_OK)
    status = report_check(&report, r->diag);
  if (status == STATUS_OK)
    status = report_write(&report, report_form_of(path), path, r->diag);
  report_close(&report);
  return status;
}

static enum status save_texts(struct run *r, struct texts *texts) {
  const struct settings *s = r->settings;
  const char *const paths[REPORT_PARTS] = {s->save_plan, s->save_trace, s->save_verdict};
  for (int i = 0; i < REPORT_PARTS; i++) {
    if (i == REPORT_VERDICT && !r->has_verdict) {
      if (paths[i])
        diag_warn(r->diag, "there is no verdict to write: nothing is narrow%s%s%s",
                  access(paths[i], F_OK) == 0 ? ". What is at " : "",
                  access(paths[i], F_OK) == 0 ? paths[i] : "",
                  access(paths[i], F_OK) == 0 ? " is of another run, and stays" : "");
      continue;
    }
    print_to_memory(r, (enum report_part)i, texts);
    if (paths[i])
      TRY(save_text(texts->of[i], paths[i], r->diag));
  }
  return s->report ? save_report(r, texts) : STATUS_OK;
}

enum status records_save(struct run *r) {
  const struct settings *s = r->settings;
  if (!s->save_plan && !s->save_trace && !s->save_verdict && !s->report)
    return STATUS_OK;
  struct texts texts = {{0}};
  enum status status = save_texts(r, &texts);
  for (int i = 0; i < REPORT_PARTS; i++)
    free(texts.of[i]);
  return status;
}

enum status records_save_verdict(struct run *r, const char *path) {
  struct verdict_source from = {.graph = &r->graph,
                                .plan = &r->plan,
                                .engine = engine_info(r->engine)->version,
                                .synthetic = samples_synthetic(r->samples)};
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(r->settings->plan, &bytes, &size, r->diag));
  sha256_hex(bytes, size, from.plan_sha256);
  file_unmap(bytes, size);
  return verdict_write(&r->verdict, &from, path, r->diag);
}
