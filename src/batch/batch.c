// The scheduler of a batch: see batch.h. One loop: start what fits, wait for a child to end, note
// its result. There is no state but the folders: whatever happens, they say what is done.
//
// A result vouches for its files, also after a power cut, so they must be on the disk before it is
// written. Conversions do not wait for that, since a core would idle meanwhile: their results are
// kept until a process has synced the file system, once for all that ended before it began.
#include "batch.h"

#include "arguments.h"
#include "batch_show.h"
#include "child.h"
#include "clock.h"
#include "memory.h"
#include "overrides.h"
#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ATTEMPTS = 2, TICK_MS = 100, GRACE = 10, MEMORY_WAIT = 5, FINISHED_MOST = 2 * PROCESS_MOST };

enum state { WAITING, RUNNING, FINISHED, DONE };  // finished: not on the disk yet

struct item {
  enum state state;
  int attempts;
  double work;  // for the order and the time left
  struct memory_need memory;
  double not_before;  // its folder is locked by another batch: looked at again then
};

struct slot {
  size_t model;
  pid_t pid;  // 0: free
  int lock;
  double began;
  bool timed_out;
};

struct finished {
  size_t model;
  int lock;
  struct result result;
};

struct batch {
  const struct zoo *zoo;
  const struct batch_options *options;
  struct arena *arena;
  struct diag *diag;
  struct batch_outcome *outcome;
  struct surveyed *surveyed;  // by model
  struct item *items;         // by model
  size_t *order;              // models to do, the longest first
  size_t n_order, n_done;
  size_t first;    // of order: all before it are done
  size_t untried;  // models to do that were not started yet
  struct slot slots[PROCESS_MOST];
  int running;
  struct finished finished[FINISHED_MOST];
  size_t n_finished, n_syncing;  // the first n_syncing will be on the disk
  pid_t sync;                    // when this process has ended; 0: none
  double idle_since;             // when something ran last
  struct batch_show show;
};

static const char *folder_of(const struct batch *b, size_t model) {
  return arena_printf(b->arena, "%s/models/%s", b->options->out, b->zoo->models[model].folder);
}

static enum status make_folder(const char *path, struct diag *d) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST)
    return STATUS_OK;
  int error = errno;
  diag_at(d, path, NULL, NULL);
  return diag_fail(d, STATUS_IO, "cannot be made: %s", strerror(error));
}

enum status batch_make_out(const char *out, struct arena *a, struct diag *d) {
  char *path = arena_strdup(a, out);
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    TRY(make_folder(path, d));
    *slash = '/';
  }
  TRY(make_folder(out, d));
  return make_folder(arena_printf(a, "%s/models", out), d);
}

// ---- results ----

static void note_result(struct batch *b, size_t model, const struct result *r, const char *note) {
  struct result *kept = arena_alloc(b->arena, sizeof *kept);
  *kept = *r;
  b->outcome->results[model] = kept;
  b->untried -= b->items[model].state == WAITING && !b->items[model].attempts;
  b->items[model].state = DONE;
  b->n_done++;
  b->show.work_done += b->items[model].work;
  batch_show_result(&b->show, kept, note);
}

static void finish(struct batch *b, struct slot *s, const struct process_ended *p) {
  const struct zoo_model *m = &b->zoo->models[s->model];
  struct ending ending = {
      .process = *p,
      .timed_out = s->timed_out,
      .seconds = clock_seconds() - s->began,
      .limits = b->options->limits,
  };
  struct result r;
  result_of_run(&r, m, &b->surveyed[s->model], &ending, folder_of(b, s->model), b->arena);
  b->running--;
  s->pid = 0;
  struct item *item = &b->items[s->model];
  if (r.killed && item->attempts < ATTEMPTS) {
    item->state = WAITING;  // once more, with nothing else running
    close(s->lock);
  } else {
    item->state = FINISHED;
    b->finished[b->n_finished++] = (struct finished){s->model, s->lock, r};
  }
}

// Writes the results of those that are on the disk now.
static enum status write_finished(struct batch *b) {
  enum status status = STATUS_OK;
  for (size_t i = 0; i < b->n_syncing; i++) {
    const struct finished *f = &b->finished[i];
    if (status == STATUS_OK)
      status = result_write(&f->result, folder_of(b, f->model), b->diag);
    if (status == STATUS_OK)
      note_result(b, f->model, &f->result, NULL);
    close(f->lock);
  }
  b->n_finished -= b->n_syncing;
  memmove(b->finished, b->finished + b->n_syncing, b->n_finished * sizeof *b->finished);
  b->n_syncing = 0;
  return status;
}

static enum status sync_finished(struct batch *b) {
  struct process_ended ended;
  if (b->sync && process_try_wait(b->sync, &ended)) {
    b->sync = 0;
    diag_at(b->diag, b->options->out, NULL, NULL);
    if (!ended.exited || ended.code)
      return diag_fail(b->diag, STATUS_IO, "cannot be synced to its disk: %s",
                       ended.exited ? strerror(ended.code) : strsignal(ended.code));
    diag_at(b->diag, "", NULL, NULL);
    TRY(write_finished(b));
  }
  if (b->sync || !b->n_finished)
    return STATUS_OK;
  b->n_syncing = b->n_finished;
  return process_start_sync(b->options->out, &b->sync, b->diag);
}

// ---- starting ----

// The lock of a model's folder, which it makes; -1 if another batch has it. An open file's lock
// goes on in the conversion that inherits it, so it ends when the last of both does.
static enum status lock_folder(struct batch *b, const char *folder, int *lock) {
  TRY(make_folder(folder, b->diag));
  const char *path = arena_printf(b->arena, "%s/" RESULT_LOCK, folder);
  *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0)
    return STATUS_OK;
  int error = errno;
  if (*lock >= 0)
    close(*lock);
  *lock = -1;
  if (error == EWOULDBLOCK)
    return STATUS_OK;
  diag_at(b->diag, path, NULL, NULL);
  return diag_fail(b->diag, STATUS_IO, "cannot be locked: %s", strerror(error));
}

static struct slot *free_slot(struct batch *b) {
  for (int k = 0; k < b->options->jobs; k++)
    if (!b->slots[k].pid)
      return &b->slots[k];
  return NULL;
}

static enum status start_locked(struct batch *b, size_t model, const char *folder, int lock) {
  struct result before;
  if (result_read(&before, b->zoo->models[model].name, folder, b->arena) &&
      result_is_current(&before, &b->surveyed[model], &b->options->limits)) {
    close(lock);  // done by another batch meanwhile
    note_result(b, model, &before, "by another batch");
    return STATUS_OK;
  }
  enum status status = result_clean(folder, b->arena, b->diag);
  struct process_start start = {
      .arguments = arguments_of_conversion(&b->zoo->models[model], b->options, folder, b->arena),
      .output = arena_printf(b->arena, "%s/" RESULT_CONVERT, folder),
      .log = arena_printf(b->arena, "%s/" RESULT_LOG, folder),
      .lock = lock,
  };
  struct slot *s = free_slot(b);
  *s = (struct slot){.model = model, .lock = lock, .began = clock_seconds()};
  status = status == STATUS_OK ? process_start(&start, &s->pid, b->diag) : status;
  if (status != STATUS_OK) {
    s->pid = 0;
    close(lock);
    return status;
  }
  b->untried -= !b->items[model].attempts;
  b->items[model].state = RUNNING;
  b->items[model].attempts++;
  b->running++;
  b->show.current = b->zoo->models[model].name;
  return STATUS_OK;
}

// A model that is given up before it is started. Without the lock: the same comes of it elsewhere.
static enum status give_up(struct batch *b, size_t model, const char *reason) {
  const char *folder = folder_of(b, model);
  struct result r;
  result_not_started(&r, &b->zoo->models[model], &b->surveyed[model], reason);
  TRY(make_folder(folder, b->diag));
  TRY(result_write(&r, folder, b->diag));
  note_result(b, model, &r, NULL);
  return STATUS_OK;
}

// How much memory there is, is left out: the reason is to be the same wherever it is not enough.
static enum status give_up_for_memory(struct batch *b, size_t model) {
  return give_up(b, model,
                 arena_printf(b->arena,
                              "not started: needs about %.3g GB of memory, which are not free",
                              b->items[model].memory.least / 1e9));
}

static enum status start_model(struct batch *b, size_t model) {
  int lock;
  if (b->zoo->models[model].fault)
    return give_up(b, model, b->zoo->models[model].fault);
  const char *folder = folder_of(b, model);
  TRY(lock_folder(b, folder, &lock));
  if (lock >= 0)
    return start_locked(b, model, folder, lock);
  b->items[model].not_before = clock_seconds() + 1e-3 * (double)TICK_MS;
  return STATUS_OK;
}

// What the running conversions have taken already is missing from `available` and counted here once
// more: that errs on the side of starting less, where memory is short.
static bool fits(const struct batch *b, double memory, double available) {
  for (int k = 0; k < b->options->jobs; k++)
    if (b->slots[k].pid)
      memory += b->items[b->slots[k].model].memory.expected;
  return memory <= available;
}

static enum status start_what_fits(struct batch *b) {
  if (b->running == b->options->jobs || (size_t)b->running + b->n_finished >= FINISHED_MOST)
    return STATUS_OK;
  double available = (double)memory_available(), now = clock_seconds();
  while (b->first < b->n_order && b->items[b->order[b->first]].state == DONE)
    b->first++;
  for (size_t i = b->first; i < b->n_order && b->running < b->options->jobs; i++) {
    size_t model = b->order[i];
    struct item *item = &b->items[model];
    if (item->state != WAITING || item->not_before > now)
      continue;
    if (item->attempts && (b->untried || b->running))
      continue;  // tried again last, and alone
    // Alone, what is only guessed is no reason to leave a model out.
    if (fits(b, b->running ? item->memory.expected : item->memory.least, available))
      TRY(start_model(b, model));
    else if (!b->running && now - b->idle_since >= (double)MEMORY_WAIT)
      TRY(give_up_for_memory(b, model));
    if (item->attempts > 1 && item->state == RUNNING)
      break;
  }
  return STATUS_OK;
}

// ---- the loop ----

static void look_at_slots(struct batch *b) {
  // The conversion ends itself, and can say where it was; this is for one that does not.
  double timeout =
      b->options->limits.timeout ? 1.0 * b->options->limits.timeout + (double)GRACE : 1e18;
  for (int k = 0; k < b->options->jobs; k++) {
    struct slot *s = &b->slots[k];
    if (!s->pid)
      continue;
    struct process_ended ended;
    if (process_try_wait(s->pid, &ended)) {
      finish(b, s, &ended);
    } else if (clock_seconds() - s->began > timeout) {
      s->timed_out = true;
      kill(-s->pid, SIGKILL);
    }
  }
}

static void end_all(struct batch *b) {
  if (b->sync) {
    kill(b->sync, SIGKILL);
    child_wait(b->sync);
  }
  for (size_t i = 0; i < b->n_finished; i++)
    close(b->finished[i].lock);
  for (int k = 0; k < b->options->jobs; k++) {
    if (!b->slots[k].pid)
      continue;
    kill(-b->slots[k].pid, SIGKILL);
    child_wait(b->slots[k].pid);
    close(b->slots[k].lock);
  }
}

static enum status loop(struct batch *b) {
  sigset_t child, old;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &old);
  const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
  enum status status = STATUS_OK;
  while (b->n_done < b->n_order && status == STATUS_OK) {
    b->idle_since = b->running ? clock_seconds() : b->idle_since;
    status = start_what_fits(b);
    b->show.running = (size_t)b->running;
    batch_show_tick(&b->show);
    if (status == STATUS_OK && b->n_done < b->n_order)
      sigtimedwait(&child, NULL, &tick);
    if (status == STATUS_OK) {
      look_at_slots(b);
      status = sync_finished(b);
    }
  }
  if (status != STATUS_OK)
    end_all(b);
  sigprocmask(SIG_SETMASK, &old, NULL);
  return status;
}

// ---- what there is to do ----

static bool is_same(const char *x, const char *y) {
  return x == y || (x && y && strcmp(x, y) == 0);
}

// What decides, and is at fault for every model that it decides for: before any is converted.
static enum status check_decisions(const struct batch *b) {
  const char *last_policy = NULL, *last_overrides = NULL;
  struct arena scratch = {0};
  enum status status = STATUS_OK;
  for (size_t i = 0; i < b->zoo->count && status == STATUS_OK; i++) {
    const struct zoo_model *m = &b->zoo->models[i];
    const char *name = m->policy ? m->policy : b->options->policy;
    struct policy policy = {0};
    struct overrides overrides;
    if (!is_same(last_policy, name))
      status = policy_load(&policy, name, &scratch, b->diag);
    if (status == STATUS_OK && m->overrides && !is_same(last_overrides, m->overrides))
      status = overrides_read(&overrides, m->overrides, &scratch, b->diag);
    if (status != STATUS_OK && m->entry && !b->diag->file[0])
      diag_at(b->diag, m->entry, NULL, NULL);
    else if (status != STATUS_OK && m->entry)
      diag_hint(b->diag, "%s asks for it. %s", m->entry, arena_strdup(&scratch, b->diag->hint));
    last_policy = name;
    last_overrides = m->overrides;
  }
  arena_free(&scratch);
  return status;
}

#define HASHES ".hashes-%d-of-%d"

bool batch_hashes_shard(const char *name, int *shard, int *shards) {
  char same[64];
  if (sscanf(name, HASHES, shard, shards) != 2 || *shard < 1 || *shard > *shards ||
      *shards == INT_MAX)
    return false;
  snprintf(same, sizeof same, HASHES, *shard, *shards);
  return strcmp(name, same) == 0;
}

static enum status survey(struct batch *b) {
  const struct batch_options *o = b->options;
  char version[64];
  TRY(survey_engine(o->engine, version, b->diag));
  size_t n_arguments;
  const char *const *arguments = arguments_of_results(o, &n_arguments, b->arena);
  const char *noted = arena_printf(b->arena, "%s/" HASHES, o->out, o->shard, o->shards);
  struct known known = {.arena = b->arena}, met = {.arena = b->arena};
  known_read(&known, noted);
  struct survey_settings s = {
      .engine = o->engine,
      .policy = o->policy,
      .arguments = arguments,
      .n_arguments = n_arguments,
      .model_limits = o->model_limits,
      .largest_file = memory_available(),
      .known = &known,
      .met = &met,
      .jobs = o->jobs,
      .progress = !o->quiet,
  };
  TRY(survey_zoo(b->zoo, b->outcome->wanted, &s, version, b->surveyed, b->diag));
  return known_write(&met, noted, b->diag);
}

struct due {
  double work;
  size_t model;
};

// The more work the sooner, so that no long one is left over at the end; by powers of two, and by
// name within one, so that small differences do not shuffle the order.
static int compare_work(const void *x, const void *y) {
  const struct due *a = x, *b = y;
  int left = ilogb(a->work), right = ilogb(b->work);
  return left != right ? (left > right ? -1 : 1) : (a->model > b->model) - (a->model < b->model);
}

static void fill_order(struct batch *b) {
  struct due *sorted = arena_array(b->arena, b->zoo->count, sizeof *sorted);
  for (size_t i = 0; i < b->zoo->count; i++)
    if (b->outcome->wanted[i] && b->items[i].state == WAITING)
      sorted[b->n_order++] = (struct due){b->items[i].work, i};
  b->untried = b->n_order;
  if (b->n_order)
    qsort(sorted, b->n_order, sizeof *sorted, compare_work);
  b->order = arena_array(b->arena, b->n_order, sizeof *b->order);
  for (size_t i = 0; i < b->n_order; i++)
    b->order[i] = sorted[i].model;
}

// `peak` is what it took before; 0: not known.
static struct memory_need need_of(const struct batch *b, const struct surveyed *s, double peak) {
  struct memory_need need = peak > 0 ? (struct memory_need){peak, peak} : memory_needed(s);
  double limit = b->options->limits.memory_mib ? 1048576.0 * b->options->limits.memory_mib : 1e18;
  return (struct memory_need){fmin(need.least, limit), fmin(need.expected, limit)};
}

// What stands already, and how much the rest is.
static void look_at_results(struct batch *b) {
  for (size_t i = 0; i < b->zoo->count; i++) {
    const struct zoo_model *m = &b->zoo->models[i];
    const struct surveyed *s = &b->surveyed[i];
    struct item *item = &b->items[i];
    struct result r;
    bool found = result_read(&r, m->name, folder_of(b, i), b->arena);
    bool wanted = b->outcome->wanted[i];
    item->work = (double)(s->bytes + s->sample_bytes) + 1e6;
    item->memory = need_of(b, s, found && !r.transient ? r.peak_bytes : 0);
    if (!found || (wanted && !result_is_current(&r, s, &b->options->limits)))
      continue;
    b->outcome->results[i] = arena_alloc(b->arena, sizeof r);
    *b->outcome->results[i] = r;
    item->state = DONE;
    if (wanted) {
      b->outcome->kept++;
      b->show.done++;
      b->show.by_outcome[r.outcome]++;
    }
  }
}

enum status batch_run(struct batch_outcome *out, const struct zoo *z, const struct batch_options *o,
                      struct arena *a, struct diag *d) {
  *out = (struct batch_outcome){
      .results = arena_array(a, z->count, sizeof(struct result *)),
      .wanted = arena_array(a, z->count, sizeof(bool)),
  };
  struct batch *b = arena_alloc(a, sizeof *b);
  *b = (struct batch){.zoo = z, .options = o, .arena = a, .diag = d, .outcome = out};
  b->surveyed = arena_array(a, z->count, sizeof *b->surveyed);
  b->items = arena_array(a, z->count, sizeof *b->items);
  for (size_t i = 0; i < z->count; i++)
    out->wanted[i] = zoo_in_shard(z->models[i].name, o->shard, o->shards);
  TRY(check_decisions(b));
  TRY(survey(b));
  look_at_results(b);
  fill_order(b);
  b->show.quiet = o->quiet;
  b->show.total = b->show.done + b->n_order;
  for (size_t i = 0; i < b->n_order; i++)
    b->show.work_total += b->items[b->order[i]].work;
  b->idle_since = clock_seconds();
  batch_show_begin(&b->show, out->kept);
  enum status status = loop(b);
  batch_show_end(&b->show);
  return status;
}
