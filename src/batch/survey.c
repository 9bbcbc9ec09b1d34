// The survey: see survey.h. `jobs` processes take every jobs-th model each and write one record a
// model to a common pipe. A record is smaller than PIPE_BUF, so it arrives whole. A process that
// dies, say because a file was cut short while it was mapped, costs the model that it was at: that
// one has no key, is converted without one, and its conversion will say what is wrong. The process
// is started again behind it.
#include "survey.h"

#include "child.h"
#include "engine.h"
#include "external.h"
#include "file.h"
#include "policy.h"
#include "process.h"
#include "progress.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES_DEEPEST = 2 };  // as samples_open looks

struct record {
  enum { RECORD_MODEL, RECORD_FILE } kind;
  size_t model;
  struct surveyed found;
  struct known_file file;  // that was read for it, or is known
};
_Static_assert(sizeof(struct record) < _POSIX_PIPE_BUF, "must arrive whole");

// What a key is made of, as text, one thing a line.
struct material {
  FILE *out;
  struct arena *arena;
  uint64_t largest_file;  // see survey_settings
  uint64_t bytes, largest;
  const struct known *known;  // files whose hash is known, or NULL,
  int records;                // and the pipe that wants to hear of those that are met
};

// ---- files ----

static void send_record(int to, const struct record *r) {
  if (write(to, r, sizeof *r) != (ssize_t)sizeof *r)
    _exit(1);
}

// A file that will be hashed, unless it is known.
struct reading {
  const char *path;
  struct stat before;
  struct timespec began;
  const struct known_file *known;
};

static struct reading begin_reading(const struct material *m, const char *path) {
  struct reading r = {.path = path};
  clock_gettime(CLOCK_REALTIME, &r.began);
  if (m->known && stat(path, &r.before) == 0)
    r.known = known_find(m->known, &r.before);
  return r;
}

static void end_reading(const struct material *m, const struct reading *r, const char hex[65]) {
  struct record record = {.kind = RECORD_FILE};
  struct stat after;
  if (!m->known)
    return;
  if (r->known)
    record.file = *r->known;
  else if (stat(r->path, &after) != 0 ||
           !known_file_of(&record.file, &r->before, &after, &r->began, hex))
    return;
  send_record(m->records, &record);
}

// ---- content ----

static void add_content(struct material *m, const char *label, const struct reading *r,
                        const uint8_t *bytes, size_t size) {
  char hex[65] = "too large";
  if (size <= m->largest_file) {
    if (r->known && r->known->size == size)
      memcpy(hex, r->known->sha256, sizeof hex);
    else
      sha256_hex(bytes, size, hex);
    end_reading(m, r, hex);
  }
  fprintf(m->out, "%s %zu %s\n", label, size, hex);
  m->bytes += size;
  m->largest = size > m->largest ? size : m->largest;
}

static void add_file(struct material *m, const char *label, const char *path) {
  struct diag ignored = {0};
  const uint8_t *bytes;
  size_t size;
  const struct reading reading = begin_reading(m, path);
  if (file_map(path, &bytes, &size, &ignored) != STATUS_OK) {
    fprintf(m->out, "%s unreadable\n", label);
    return;
  }
  add_content(m, label, &reading, bytes, size);
  file_unmap(bytes, size);
}

static enum status find_external(void *context, Onnx__TensorProto *t) {
  struct diag ignored = {0};
  const uint8_t *data;
  size_t size;
  // A fault here is the conversion's to report; the key then stands for the files that are there.
  if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    (void)model_external(context, t, &data, &size, &ignored);
  return STATUS_OK;
}

// It is mapped already: what lies at its path now may be another file.
static void add_external(struct material *m, const struct external_file *e) {
  struct reading reading = begin_reading(m, e->path);
  const struct stat *now = &reading.before;
  if (now->st_dev != e->stamp.device || now->st_ino != e->stamp.inode ||
      file_changed(e->path, &e->stamp))
    reading = (struct reading){.path = e->path};
  add_content(m, e->location, &reading, e->bytes, e->size);
}

// False if it cannot be read as a model.
static bool add_model(struct material *m, const char *path, const struct model_limits *limits) {
  struct diag ignored = {0};
  struct model model = {0};
  const struct reading reading = begin_reading(m, path);
  const char *known = reading.known ? reading.known->sha256 : "";
  if (model_load_hashed(&model, m->arena, path, limits, known, &ignored) != STATUS_OK) {
    add_file(m, "model", path);
    return false;
  }
  end_reading(m, &reading, model.sha256);
  fprintf(m->out, "model %s\n", model.sha256);
  m->bytes += model.size;
  (void)model_each_tensor(model.proto, find_external, &model);
  const struct externals *e = model.externals;
  for (size_t i = 0; e && i < e->count; i++)
    add_external(m, &e->files[i]);
  model_close(&model);
  return true;
}

static bool is_sample_file(const char *name) {
  static const char *const tails[] = {".npz", ".npy", ".pb", ".safetensors"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof tails / sizeof tails[0]; i++)
    if (strcmp(dot, tails[i]) == 0)
      return true;
  return false;
}

static int compare_strings(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_samples(struct material *m, const char *path, const char *label, int depth) {
  DIR *directory = opendir(path);
  if (!directory) {
    add_file(m, label, path);  // a single file
    return;
  }
  const char **names = NULL;
  size_t count = 0, capacity = 0;
  for (struct dirent *e; (e = readdir(directory));) {
    if (e->d_name[0] == '.')
      continue;
    names = arena_grow(m->arena, names, &capacity, count + 1, sizeof *names);
    names[count++] = arena_strdup(m->arena, e->d_name);
  }
  closedir(directory);
  if (count)
    qsort(names, count, sizeof *names, compare_strings);
  for (size_t i = 0; i < count; i++) {
    const char *inner = arena_printf(m->arena, "%s/%s", path, names[i]);
    const char *inner_label = arena_printf(m->arena, "%s/%s", label, names[i]);
    struct stat s;
    if (stat(inner, &s) != 0)
      continue;
    if (S_ISREG(s.st_mode) && is_sample_file(names[i]))
      add_file(m, inner_label, inner);
    else if (S_ISDIR(s.st_mode) && depth < SAMPLES_DEEPEST)
      add_samples(m, inner, inner_label, depth + 1);
  }
}

static void add_policy(struct material *m, const char *name) {
  struct diag ignored = {0};
  struct policy p = {0};
  if (policy_load(&p, name, m->arena, &ignored) != STATUS_OK) {
    fprintf(m->out, "policy unreadable\n");
    return;
  }
  fprintf(m->out, "policy %s target %s %d %a %a", p.sha256, p.target.name, p.target.version,
          p.target.bandwidth, p.target.overhead);
  for (int f = 0; f < FORMAT_COUNT; f++)
    fprintf(m->out, " %a %a", p.target.matrix[f], p.target.vector[f]);
  fputc('\n', m->out);
}

static void survey_model(const struct zoo_model *model, const struct survey_settings *s,
                         const char *common, int records, struct surveyed *out) {
  struct arena arena = {0};
  char *text = NULL;
  size_t length = 0;
  struct material m = {
      .out = open_memstream(&text, &length),
      .arena = &arena,
      .largest_file = s->largest_file,
      .known = s->known,
      .records = records,
  };
  if (!m.out)
    out_of_memory(0);
  fputs(common, m.out);
  out->readable = add_model(&m, model->path, s->model_limits);
  out->bytes = m.bytes;
  m.largest = 0;
  if (model->samples)
    add_samples(&m, model->samples, "samples", 0);
  out->sample_bytes = m.bytes - out->bytes;
  out->largest_sample = m.largest;
  add_policy(&m, model->policy ? model->policy : s->policy);
  if (model->overrides)
    add_file(&m, "overrides", model->overrides);
  for (size_t i = 0; i < model->n_arguments; i++)
    fprintf(m.out, "argument %s\n", model->arguments[i]);
  if (fclose(m.out) != 0)
    out_of_memory(length);
  sha256_hex(text, length, out->key);
  free(text);
  arena_free(&arena);
}

// ---- processes ----

// What is the same for all models.
static const char *common_material(const struct survey_settings *s, const char *engine_version,
                                   struct arena *a) {
  char *text = NULL;
  size_t length = 0;
  struct material m = {
      .out = open_memstream(&text, &length),
      .arena = a,
      .largest_file = UINT64_MAX,
  };
  if (!m.out)
    out_of_memory(0);
  fprintf(m.out, "narrowcast " NARROWCAST_VERSION "\nengine %s\n", engine_version);
  add_file(&m, "program", "/proc/self/exe");
  for (size_t i = 0; i < s->n_arguments; i++)
    fprintf(m.out, "argument %s\n", s->arguments[i]);
  if (fclose(m.out) != 0)
    out_of_memory(length);
  const char *copy = arena_strdup(a, text);
  free(text);
  return copy;
}

struct surveyor {
  pid_t pid;
  size_t next;  // the model that it is at
};

struct survey {
  const struct zoo *zoo;
  const bool *wanted;
  const struct survey_settings *settings;
  const char *common;
  size_t jobs;
  int ends[2];
};

static size_t next_wanted(const struct survey *s, size_t from) {
  while (from < s->zoo->count && !s->wanted[from])
    from += s->jobs;
  return from;
}

static _Noreturn void surveyor_main(const struct survey *s, size_t from) {
  for (size_t i = from; i < s->zoo->count; i = next_wanted(s, i + s->jobs)) {
    struct record r = {.model = i};
    survey_model(&s->zoo->models[i], s->settings, s->common, s->ends[1], &r.found);
    send_record(s->ends[1], &r);
  }
  _exit(0);
}

static enum status start_surveyor(const struct survey *s, struct surveyor *p, struct diag *d) {
  p->pid = child_fork(d);
  if (p->pid == 0) {
    child_expect_crash();
    surveyor_main(s, p->next);
  }
  return p->pid < 0 ? d->status : STATUS_OK;
}

// A surveyor has ended: if models of its share are left, the one it was at is given up.
static enum status go_on_behind(const struct survey *s, struct surveyor *p, size_t *done,
                                struct diag *d) {
  p->pid = 0;
  if (p->next >= s->zoo->count)
    return STATUS_OK;
  ++*done;
  p->next = next_wanted(s, p->next + s->jobs);
  return p->next < s->zoo->count ? start_surveyor(s, p, d) : STATUS_OK;
}

// Takes the records that are there.
static void take_records(const struct survey *s, struct surveyor *surveyors, size_t *done,
                         struct surveyed *result) {
  struct pollfd in = {.fd = s->ends[0], .events = POLLIN};
  struct record r;
  while (poll(&in, 1, 0) > 0 && (in.revents & POLLIN) &&
         read(s->ends[0], &r, sizeof r) == (ssize_t)sizeof r) {
    if (r.kind == RECORD_FILE) {
      known_add(s->settings->met, &r.file);
      continue;
    }
    result[r.model] = r.found;
    surveyors[r.model % s->jobs].next = next_wanted(s, r.model + s->jobs);
    ++*done;
  }
}

static enum status run_surveyors(const struct survey *s, struct surveyor *surveyors, size_t total,
                                 struct surveyed *result, struct diag *d) {
  size_t done = 0;
  for (size_t k = 0; k < s->jobs; k++) {
    surveyors[k].next = next_wanted(s, k);
    if (surveyors[k].next < s->zoo->count)
      TRY(start_surveyor(s, &surveyors[k], d));
  }
  while (done < total) {
    struct pollfd in = {.fd = s->ends[0], .events = POLLIN};
    (void)poll(&in, 1, 50);
    // Whoever has ended now has written all it ever will, so records first, then the next.
    bool ended[PROCESS_MOST] = {false};
    for (size_t k = 0; k < s->jobs; k++)
      ended[k] = surveyors[k].pid > 0 && waitpid(surveyors[k].pid, NULL, WNOHANG) > 0;
    take_records(s, surveyors, &done, result);
    for (size_t k = 0; k < s->jobs; k++)
      if (ended[k])
        TRY(go_on_behind(s, &surveyors[k], &done, d));
    if (s->settings->progress)
      progress_show("survey", done, total);
  }
  return STATUS_OK;
}

enum status survey_zoo(const struct zoo *z, const bool *wanted, const struct survey_settings *s,
                       const char *engine_version, struct surveyed *result, struct diag *d) {
  struct arena arena = {0};
  size_t total = 0;
  for (size_t i = 0; i < z->count; i++)
    total += wanted[i];
  struct survey survey = {
      .zoo = z,
      .wanted = wanted,
      .settings = s,
      .common = common_material(s, engine_version, &arena),
      .jobs = (size_t)s->jobs,
  };
  if (pipe(survey.ends) != 0)
    return diag_fail(d, STATUS_IO, "cannot make a pipe: %s", strerror(errno));
  struct surveyor surveyors[PROCESS_MOST] = {{0}};
  enum status status = run_surveyors(&survey, surveyors, total, result, d);
  for (size_t k = 0; k < survey.jobs; k++)
    if (surveyors[k].pid > 0) {
      kill(surveyors[k].pid, SIGKILL);
      child_wait(surveyors[k].pid);
    }
  close(survey.ends[0]);
  close(survey.ends[1]);
  arena_free(&arena);
  return status;
}

// ---- the engine ----

enum status survey_engine(const char *path, char version[64], struct diag *d) {
  struct answer {
    enum status status;
    char version[64], message[1024], hint[512];
  } answer = {.status = STATUS_ENGINE, .message = "ONNX Runtime crashed when it was loaded"};
  int ends[2];
  if (pipe(ends) != 0)
    return diag_fail(d, STATUS_IO, "cannot make a pipe: %s", strerror(errno));
  pid_t pid = child_fork(d);
  if (pid == 0) {
    child_expect_crash();
    struct diag own = {0};
    struct engine *engine = NULL;
    answer.status = engine_open(&engine, path, &own);
    memcpy(answer.message, own.message, sizeof answer.message);
    memcpy(answer.hint, own.hint, sizeof answer.hint);
    if (answer.status == STATUS_OK)
      memcpy(answer.version, engine_info(engine)->version, sizeof answer.version);
    _exit(write(ends[1], &answer, sizeof answer) != (ssize_t)sizeof answer);
  }
  close(ends[1]);
  struct answer got;
  if (pid > 0 && read(ends[0], &got, sizeof got) == (ssize_t)sizeof got)
    answer = got;
  close(ends[0]);
  if (pid < 0)
    return d->status;
  child_wait(pid);
  if (answer.status != STATUS_OK) {
    diag_hint(d, "%s", answer.hint);
    return diag_fail(d, answer.status, "%s", answer.message);
  }
  memcpy(version, answer.version, sizeof answer.version);
  return STATUS_OK;
}
