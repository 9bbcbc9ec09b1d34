// Results of single models: see result.h. What the conversion printed (`convert --json`) is read
// with care, since a crash may have cut it short; what this module wrote itself is read by a table.
#include "result.h"

#include "fields.h"
#include "file.h"
#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const outcome_names[] = {
#define OUTCOME_NAME(name, word, text) word,
    OUTCOME_LIST(OUTCOME_NAME)
#undef OUTCOME_NAME
        NULL};

const char *outcome_name(enum outcome o) {
  return outcome_names[o];
}

// ---- what a conversion left ----

static int number_of(const struct json *object, const char *key) {
  double value;
  return json_to_number(json_member(object, key), &value) && value >= 0 && value < INT32_MAX
             ? (int)value
             : 0;
}

static const char *string_of(const struct json *object, const char *key, struct arena *a) {
  const struct json *item = json_member(object, key);
  return json_is(item, JSON_STRING) && item->text[0] ? arena_strdup(a, item->text) : NULL;
}

// Words with a space between, each once.
static const char *with_word(const char *words, const char *word, struct arena *a) {
  if (!words)
    return arena_strdup(a, word);
  const char *found = strstr(words, word);
  return found ? words : arena_printf(a, "%s %s", words, word);
}

// Why the result may not be worth it.
static const char *drawbacks_of(const struct json *root, struct arena *a) {
  const struct json *modelled = json_member(json_member(root, "modelled"), "drawbacks"),
                    *measured = json_member(json_member(root, "verdict"), "drawbacks");
  const char *all = NULL;
  for (const struct json *m = json_first(modelled); m; m = m->next)
    if (json_is(m, JSON_STRING))
      all = with_word(all, m->text, a);
  for (const struct json *m = json_first(measured); m; m = m->next)
    if (json_is(json_member(m, "id"), JSON_STRING))
      all = with_word(all, json_member(m, "id")->text, a);
  return all;
}

static void take_plan(struct result *r, const struct json *root, struct arena *a) {
  const struct json *plan = json_member(root, "plan");
  r->policy = string_of(plan, "policy", a);
  for (const struct json *m = json_first(json_member(plan, "adjustments")); m; m = m->next)
    if (json_is(m, JSON_STRING))
      r->adjustments = r->adjustments ? arena_printf(a, "%s, %s", r->adjustments, m->text)
                                      : arena_strdup(a, m->text);
  r->statistics = string_of(plan, "statistics", a);
  r->float_nodes = number_of(plan, "float_nodes");
  r->narrow_nodes = number_of(plan, "narrow_nodes");
  r->casts = number_of(json_member(root, "cost"), "casts");
  r->drawbacks = drawbacks_of(root, a);
  const struct json *wide = json_member(plan, "fp32_by_reason");
  r->wide = arena_array(a, wide ? (size_t)json_count(wide) : 0, sizeof *r->wide);
  for (const struct json *m = json_first(wide); m; m = m->next) {
    const char *reason = string_of(m, "reason", a);
    if (reason)
      r->wide[r->n_wide++] = (struct wide){reason, number_of(m, "nodes")};
  }
}

// The first claim that does not hold, in a sentence.
static const char *broken_claim(const struct json *claim, const struct json *verdict,
                                struct arena *a) {
  double measured = NAN, limit = NAN;
  json_to_number(json_member(claim, "measured"), &measured);
  json_to_number(json_member(claim, "limit"), &limit);
  const char *culprit = string_of(verdict, "first_nonfinite", a);
  const char *what = "first not finite";
  if (!culprit) {
    culprit = string_of(verdict, "worst_local", a);
    what = "largest error of its own";
  }
  return arena_printf(a, "%s of %s is %.3g, promised was %.3g%s%s%s%s",
                      string_of(claim, "metric", a), string_of(claim, "output", a), measured, limit,
                      culprit ? "; " : "", culprit ? what : "", culprit ? ": " : "",
                      culprit ? culprit : "");
}

// The worst that an output has on held-out samples or on those that calibrated.
static void take_error(struct result *r, const struct json *output) {
  static const char *const keys[] = {"relative_l2", "relative_l2_calibration"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    double error;
    if (!json_to_number(json_member(output, keys[i]), &error))
      continue;
    if (!r->has_error || error > r->worst_error || isnan(error))
      r->worst_error = error;
    r->has_error = true;
  }
}

static void take_verdict(struct result *r, const struct json *root, struct arena *a) {
  const struct json *verdict = json_member(root, "verdict");
  const struct json *claims = json_member(verdict, "claims"),
                    *outputs = json_member(verdict, "outputs");
  for (const struct json *c = json_first(claims); c; c = c->next) {
    bool holds = json_is(json_member(c, "holds"), JSON_TRUE);
    r->claims++;
    r->claims_held += holds;
    if (!holds && !r->reason)
      r->reason = broken_claim(c, verdict, a);
  }
  if (json_is(json_member(verdict, "loads"), JSON_FALSE) &&
      json_is(json_member(verdict, "engine_has_kernels"), JSON_TRUE) && !r->reason)
    r->reason = "ONNX Runtime does not load or run the result";
  for (const struct json *o = json_first(outputs); o; o = o->next)
    take_error(r, o);
}

// `text` without the leading `path` and what follows it up to the file's own name: the summary must
// not depend on where the zoo lies. Messages hold at most the first bytes of a long path.
static const char *without_path(const char *text, const char *path, const char *name,
                                struct arena *a) {
  size_t length = strlen(path), longest = sizeof((struct diag *)0)->file - 1;
  length = length < longest ? length : longest;
  if (!length || strncmp(text, path, length) != 0)
    return text;
  return arena_printf(a, "%s%s", name, text + length);
}

// What `convert --json` says of an error; the model itself is not named again.
static const char *error_text(const struct json *error, const struct zoo_model *m,
                              const char *folder, struct arena *a) {
  const char *file = string_of(error, "file", a), *node = string_of(error, "node", a);
  const char *tensor = string_of(error, "tensor", a), *message = string_of(error, "message", a);
  if (file) {
    file = without_path(file, m->path, "", a);
    if (m->samples)
      file = without_path(file, m->samples, "samples", a);
    file = without_path(file, folder, m->folder, a);
  }
  return arena_printf(a, "%s%s%s%s%s%s%s%s%s", file ? file : "", file && file[0] ? ": " : "",
                      node ? "node " : "", node ? node : "", node ? ": " : "",
                      tensor ? "tensor " : "", tensor ? tensor : "", tensor ? ": " : "",
                      message ? message : "");
}

// The last message of the log, for conversions that ended without a word on standard output.
static const char *last_message(const char *path, struct arena *a) {
  enum { TAIL = 4096 };
  static const char prefix[] = "narrowcast: ";
  char text[TAIL + 1] = "";
  FILE *in = fopen(path, "rbe");
  if (!in)
    return NULL;
  if (fseek(in, -TAIL, SEEK_END) != 0)
    rewind(in);
  text[fread(text, 1, TAIL, in)] = '\0';
  fclose(in);
  const char *found = NULL;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    if (strncmp(line, prefix, sizeof prefix - 1) == 0)
      found = line + sizeof prefix - 1;
  return found ? arena_strdup(a, found) : NULL;
}

static const char *reason_of(const struct ending *e, const struct json *root,
                             const struct zoo_model *m, const char *folder, struct arena *a) {
  const struct json *error = json_member(root, "error");
  if (e->timed_out || json_is(json_member(error, "timed_out"), JSON_TRUE))
    return arena_printf(a, "took longer than %d s", e->limits.timeout);  // where it was, is chance
  if (!e->process.exited)
    return arena_printf(a, "ended by signal %d (%s)", e->process.code, strsignal(e->process.code));
  if (error)
    return error_text(error, m, folder, a);
  const char *message = last_message(arena_printf(a, "%s/" RESULT_LOG, folder), a);
  return message ? message : arena_printf(a, "ended with exit code %d", e->process.code);
}

static enum outcome outcome_of(const struct result *r, bool unchanged) {
  switch (r->status) {
  case STATUS_OK: return unchanged ? OUTCOME_UNCHANGED : OUTCOME_CONVERTED;
  case STATUS_CLAIM:
  case STATUS_USAGE:  // an override that does not fit this model
  case STATUS_MODEL:
  case STATUS_POLICY:
  case STATUS_DATA: return OUTCOME_REFUSED;
  case STATUS_ENGINE:
  case STATUS_IO: return OUTCOME_FAILED;
  }
  return OUTCOME_FAILED;
}

// Killed from outside: by a person, or by the kernel for want of memory.
static bool was_killed(const struct ending *e, const struct json *root) {
  static const int numbers[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP};
  const struct json *error = json_member(root, "error");
  if (e->timed_out || json_is(json_member(error, "timed_out"), JSON_TRUE))
    return false;
  int by = e->process.exited ? number_of(error, "signal") : e->process.code;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (by == numbers[i])
      return true;
  return false;
}

static void begin(struct result *r, const struct zoo_model *m, const struct surveyed *s) {
  *r = (struct result){
      .name = m->name,
      .folder = m->folder,
      .key = s->key[0] ? s->key : "-",
      .bytes_before = (double)s->bytes,
      .expected_bytes = memory_needed(s).expected,
  };
}

// All but the lock, which is no part of the result. Of a conversion that came to its end: another
// may have left temporary files.
static void take_files(struct result *r, const char *folder, struct arena *a) {
  size_t count;
  r->files = tree_files(folder, &count, a);
  for (size_t i = 0; i < count; i++)
    if (strcmp(r->files[i].name, RESULT_LOCK) != 0)
      r->files[r->n_files++] = r->files[i];
}

void result_of_run(struct result *r, const struct zoo_model *m, const struct surveyed *s,
                   const struct ending *e, const char *folder, struct arena *a) {
  begin(r, m, s);
  struct diag ignored = {0};
  struct arena scratch = {0};
  const struct json *root;
  (void)json_read(&root, arena_printf(a, "%s/" RESULT_CONVERT, folder), STATUS_DATA, &scratch,
                  &ignored);
  r->status = e->process.exited && !e->timed_out && e->process.code <= STATUS_IO
                  ? (enum status)e->process.code
                  : STATUS_ENGINE;
  r->limits = e->limits;
  r->seconds = e->seconds;
  r->peak_bytes = (double)e->process.peak_bytes;
  if (r->status == STATUS_OK || r->status == STATUS_CLAIM) {
    take_plan(r, root, a);
    take_verdict(r, root, a);
    r->bytes_after = (double)tree_bytes(arena_printf(a, "%s/" RESULT_FOLDER, folder));
    take_files(r, folder, a);
  } else {
    r->reason = reason_of(e, root, m, folder, a);
  }
  r->outcome =
      outcome_of(r, json_is(json_member(json_member(root, "plan"), "unchanged"), JSON_TRUE));
  r->killed = was_killed(e, root);
  r->transient = r->killed || (r->status == STATUS_IO && !e->limits.memory_mib);
  arena_free(&scratch);
}

void result_not_started(struct result *r, const struct zoo_model *m, const struct surveyed *s,
                        const char *reason) {
  begin(r, m, s);
  r->status = STATUS_IO;
  r->outcome = OUTCOME_FAILED;
  r->reason = reason;
  r->transient = true;
}

// ---- result.json ----

void result_write_figures(const struct result *r, struct json_writer *w) {
  json_integer(w, "float_nodes", r->float_nodes);
  json_integer(w, "narrow_nodes", r->narrow_nodes);
  json_integer(w, "casts", r->casts);
  if (r->drawbacks)
    json_string(w, "drawbacks", r->drawbacks);
  json_integer(w, "claims", r->claims);
  json_integer(w, "claims_held", r->claims_held);
  if (r->has_error)
    json_number(w, "worst_relative_l2", r->worst_error);
}

static void write_plan(const struct result *r, struct json_writer *w) {
  json_string(w, "policy", r->policy);
  if (r->adjustments)
    json_string(w, "adjustments", r->adjustments);
  if (r->statistics)
    json_string(w, "statistics", r->statistics);
  result_write_figures(r, w);
  json_object(w, "fp32_by_reason");
  for (size_t i = 0; i < r->n_wide; i++)
    json_integer(w, r->wide[i].reason, r->wide[i].nodes);
  json_end_object(w);
}

static void write_files(const struct result *r, struct json_writer *w) {
  json_object(w, "files");
  for (size_t i = 0; i < r->n_files; i++)
    json_integer(w, r->files[i].name, (int64_t)r->files[i].bytes);
  json_end_object(w);
}

enum status result_write(const struct result *r, const char *folder, struct diag *d) {
  char path[4200];
  snprintf(path, sizeof path, "%s/" RESULT_RESULT, folder);
  struct file_writer file = {0};
  TRY(file_begin(&file, path, d));
  file.lazy = true;
  struct json_writer w = {.out = file.out, .inline_depth = JSON_DEPTH};
  json_object(&w, NULL);
  json_integer(&w, "schema", 1);
  json_string(&w, "model", r->name);
  json_string(&w, "key", r->key);
  json_string(&w, "outcome", outcome_name(r->outcome));
  json_integer(&w, "status", r->status);
  json_bool(&w, "transient", r->transient);
  if (r->reason && r->reason[0])
    json_string(&w, "reason", r->reason);
  json_integer(&w, "timeout", r->limits.timeout);
  json_integer(&w, "memory_limit", r->limits.memory_mib);
  json_number(&w, "bytes_before", r->bytes_before);
  json_number(&w, "bytes_after", r->bytes_after);
  json_number(&w, "seconds", r->seconds);
  json_number(&w, "peak_bytes", r->peak_bytes);
  json_number(&w, "expected_bytes", r->expected_bytes);
  write_files(r, &w);
  if (r->policy)
    write_plan(r, &w);
  json_end_object(&w);
  return file_commit(&file, d);
}

static enum status read_error(struct reader *r, const struct json *value, const struct field *f,
                              void *base) {
  (void)f;
  struct result *result = base;
  result->has_error = true;
  if (!json_to_number(value, &result->worst_error))
    return FIELDS_FAIL(r, "expected a number");
  return STATUS_OK;
}

static enum status read_wide(struct reader *r, const struct json *value, const struct field *f,
                             void *base) {
  (void)f;
  struct result *result = base;
  result->wide = arena_array(r->arena, (size_t)json_count(value), sizeof *result->wide);
  for (const struct json *m = value->first; m; m = m->next) {
    if (!m->key || !json_is(m, JSON_NUMBER))
      return FIELDS_FAIL(r, "expected numbers by reason");
    result->wide[result->n_wide++] = (struct wide){arena_strdup(r->arena, m->key), (int)m->number};
  }
  return STATUS_OK;
}

static enum status read_files(struct reader *r, const struct json *value, const struct field *f,
                              void *base) {
  (void)f;
  struct result *result = base;
  result->files = arena_array(r->arena, (size_t)json_count(value), sizeof *result->files);
  for (const struct json *m = value->first; m; m = m->next) {
    if (!m->key || !json_is(m, JSON_NUMBER) || !(m->number >= 0 && m->number <= 0x1p53))
      return FIELDS_FAIL(r, "expected sizes by name");
    result->files[result->n_files++] =
        (struct tree_file){arena_strdup(r->arena, m->key), (uint64_t)m->number};
  }
  return STATUS_OK;
}

#define OPTIONAL(key, reader, member, max)                                                         \
  { key, reader, offsetof(struct result, member), true, 0, max, NULL, NULL }

// Every number in `result` is one that result_write wrote.
static const struct field fields[] = {
    {"schema", fields_read_integer, offsetof(struct result, casts), false, 1, 1, NULL, NULL},
    STRING(struct result, "model", name),
    STRING(struct result, "key", key),
    CHOICE(struct result, fields_read_choice, "outcome", outcome, outcome_names),
    INTEGER(struct result, "status", status, 0, STATUS_IO),
    OPTIONAL("transient", fields_read_bool, transient, 0),
    OPTIONAL("reason", fields_read_string, reason, 0),
    INTEGER(struct result, "timeout", limits.timeout, 0, INT32_MAX),
    INTEGER(struct result, "memory_limit", limits.memory_mib, 0, INT32_MAX),
    NUMBER(struct result, "bytes_before", bytes_before, 0, INFINITY),
    NUMBER(struct result, "bytes_after", bytes_after, 0, INFINITY),
    NUMBER(struct result, "seconds", seconds, 0, INFINITY),
    NUMBER(struct result, "peak_bytes", peak_bytes, 0, INFINITY),
    OPTIONAL("expected_bytes", fields_read_number, expected_bytes, INFINITY),
    {"files", read_files, 0, false, 0, 0, NULL, NULL},
    OPTIONAL("policy", fields_read_string, policy, 0),
    OPTIONAL("adjustments", fields_read_string, adjustments, 0),
    OPTIONAL("statistics", fields_read_string, statistics, 0),
    OPTIONAL("float_nodes", fields_read_integer, float_nodes, INT32_MAX),
    OPTIONAL("narrow_nodes", fields_read_integer, narrow_nodes, INT32_MAX),
    OPTIONAL("casts", fields_read_integer, casts, INT32_MAX),
    OPTIONAL("drawbacks", fields_read_string, drawbacks, 0),
    OPTIONAL("claims", fields_read_integer, claims, INT32_MAX),
    OPTIONAL("claims_held", fields_read_integer, claims_held, INT32_MAX),
    {"worst_relative_l2", read_error, 0, true, 0, 0, NULL, NULL},
    {"fp32_by_reason", read_wide, 0, true, 0, 0, NULL, NULL},
    END,
};

static bool files_stand(const struct result *r, const char *folder, struct arena *scratch) {
  struct stat s;
  for (size_t i = 0; i < r->n_files; i++)
    if (stat(arena_printf(scratch, "%s/%s", folder, r->files[i].name), &s) != 0 ||
        !S_ISREG(s.st_mode) || (uint64_t)s.st_size != r->files[i].bytes)
      return false;
  return true;
}

bool result_read(struct result *r, const char *name, const char *folder, struct arena *a) {
  *r = (struct result){0};
  const char *path = arena_printf(a, "%s/" RESULT_RESULT, folder);
  struct diag ignored = {0};
  struct arena scratch = {0};
  struct reader reader = {.file = path, .arena = a, .diag = &ignored};
  bool good = json_read(&reader.root, path, STATUS_DATA, &scratch, &ignored) == STATUS_OK &&
              fields_read_object(&reader, reader.root, fields, r) == STATUS_OK &&
              (!name || strcmp(r->name, name) == 0) && files_stand(r, folder, &scratch);
  arena_free(&scratch);
  if (good)
    r->folder = file_base(folder);
  return good;
}

bool result_is_current(const struct result *r, const struct surveyed *s, const struct limits *l) {
  if (!s->key[0] || strcmp(r->key, s->key) != 0)
    return false;
  if (r->outcome != OUTCOME_FAILED)
    return true;
  return !r->transient && r->limits.timeout == l->timeout && r->limits.memory_mib == l->memory_mib;
}

enum status result_clean(const char *folder, struct arena *a, struct diag *d) {
  // result.json goes first: without it the rest is known to be incomplete.
  unlink(arena_printf(a, "%s/" RESULT_RESULT, folder));
  DIR *directory = opendir(folder);
  for (struct dirent *e; directory && (e = readdir(directory));)
    if (strcmp(e->d_name, RESULT_LOCK) != 0 && strcmp(e->d_name, ".") != 0 &&
        strcmp(e->d_name, "..") != 0)
      tree_remove(arena_printf(a, "%s/%s", folder, e->d_name));
  if (directory)
    closedir(directory);
  const char *model = arena_printf(a, "%s/" RESULT_FOLDER, folder);
  if (mkdir(model, 0777) == 0)
    return STATUS_OK;
  int error = errno;
  diag_at(d, model, NULL, NULL);
  return diag_fail(d, STATUS_IO, "cannot be made: %s", strerror(error));
}
