// ONNX Runtime as a library found at run time, so that a user brings the version that they deploy.
// Only members of its API that exist since version 1.17 are used. It prints nothing: all that its
// log says at error level also arrives as a status, and the rest is of no use to our users.
#include "engine.h"

#include "arena.h"
#include "engine_ops.h"
#include "tensor.h"

#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OLDEST_API = 17, NEWEST_TRIED = 99, MAPS_FILES = 21 };  // releases 1.x

const char *const optimisation_names[OPTIMISATION_LEVELS] = {"none", "basic", "extended", "all"};

struct engine {
  void *library;
  const OrtApi *api;
  OrtEnv *env;
  OrtMemoryInfo *memory;    // of the caller's arrays
  OrtAllocator *allocator;  // the library's own; not ours to release
  struct engine_info info;
  bool maps_files;  // finds external data below another folder, and maps it
  bool silent;      // at its first session, standard error was led away, or must not be
};

struct session {
  struct engine *engine;
  OrtSession *session;
  struct operators *operators;
  char **inputs;  // names that can be fed
  size_t n_inputs;
  OrtValue **outputs;  // of the last run
  size_t n_outputs;
  struct arena arena;  // strings of the last run
};

static void *allocate(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory)
    out_of_memory(count * size);
  return memory;
}

// ---- Errors ----

// Copies the text between two marks, if both are there.
static void copy_between(char *out, size_t size, const char *text, const char *from,
                         const char *to) {
  const char *start = strstr(text, from), *end = start ? strstr(start + strlen(from), to) : NULL;
  if (!end)
    return;
  start += strlen(from);
  size_t length = (size_t)(end - start) < size - 1 ? (size_t)(end - start) : size - 1;
  memcpy(out, start, length);
  out[length] = '\0';
}

// The node that the engine speaks of, or "": its errors name it in one of these ways.
static void copy_node(char *out, size_t size, const char *text) {
  static const struct {
    const char *from, *to;
  } marks[] = {
      {"node. Name:'", "' Status Message:"},
      {"Node (", ") Op ("},
      {"In Node, (\"", "\", "},
      {"(node:'", "' ep:'"},
      {" node with name '", "'"},
  };
  out[0] = '\0';
  for (size_t i = 0; i < sizeof marks / sizeof marks[0] && !out[0]; i++)
    copy_between(out, size, text, marks[i].from, marks[i].to);
}

// The operator that the engine has no implementation of, or "".
static void copy_operator(char *out, size_t size, const char *text) {
  static const struct {
    const char *from, *to;
  } marks[] = {
      {"Could not find an implementation for ", "("},
      {"Failed to find kernel for ", "("},
      {"status code returned while running ", " node."},
  };
  out[0] = '\0';
  for (size_t i = 0; i < sizeof marks / sizeof marks[0] && !out[0]; i++)
    copy_between(out, size, text, marks[i].from, marks[i].to);
}

// Turns an error of the engine into ours and releases it. What it says of its own source files and
// functions ("/onnxruntime_src/...:123 onnxruntime::Class::Function(...) ") is left out.
static enum status fail(const struct engine *e, OrtStatus *status, struct diag *d) {
  const char *text = e->api->GetErrorMessage(status);
  d->unsupported = e->api->GetErrorCode(status) == ORT_NOT_IMPLEMENTED;
  if (d->unsupported)
    copy_operator(d->op, sizeof d->op, text);
  char node[sizeof d->node];
  copy_node(node, sizeof node, text);
  const char *message = strstr(text, "Status Message: ");
  message = message ? message + strlen("Status Message: ") : text;
  static const char starting[] = "Exception during initialization: ";
  if (strncmp(message, starting, sizeof starting - 1) == 0)
    message += sizeof starting - 1;
  if (message[0] == '/') {
    const char *space = strchr(message, ' '), *close = space ? strstr(space, ") ") : NULL;
    message = close ? close + 2 : message;
  }
  if (node[0])
    diag_at(d, NULL, node, NULL);
  enum status result = diag_fail(d, STATUS_ENGINE, "ONNX Runtime %s: %.*s", e->info.version,
                                 (int)strcspn(message, "\n"), message);
  e->api->ReleaseStatus(status);
  return result;
}

#define ORT_TRY(engine, expression)                                                                \
  do {                                                                                             \
    OrtStatus *ort_try_status = (expression);                                                      \
    if (ort_try_status)                                                                            \
      return fail(engine, ort_try_status, d);                                                      \
  } while (0)

static void ORT_API_CALL drop_log(void *context, OrtLoggingLevel severity, const char *category,
                                  const char *id, const char *place, const char *message) {
  (void)context, (void)severity, (void)category, (void)id, (void)place, (void)message;
}

// ---- Silence ----

// Debian 13's library registers every operator twice while it starts, and complains about each on
// standard error, where no log setting reaches: 567 lines before the first word of ours. What it
// says while it starts goes nowhere; errors come back as such. Returns the true standard error, or
// -1.
static int mute(void) {
  fflush(stderr);
  int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (saved >= 0 && nowhere >= 0)
    dup2(nowhere, STDERR_FILENO);
  if (nowhere >= 0)
    close(nowhere);
  return saved;
}

static void unmute(int saved) {
  if (saved < 0)
    return;
  fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
}

// ---- Loading the library ----

// Loads one file. Failing is no error here, since others may follow: `why` says what was wrong.
static bool load_file(struct engine *e, const char *path, char *why, size_t size) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    snprintf(why, size, "%s", dlerror());
    return false;
  }
  const OrtApiBase *(*get_base)(void) = NULL;
  void *symbol = dlsym(library, "OrtGetApiBase");
  memcpy(&get_base, &symbol, sizeof symbol);  // ISO C has no cast from object to function
  if (!symbol) {
    snprintf(why, size, "%s is not ONNX Runtime", path);
    dlclose(library);
    return false;
  }
  const OrtApiBase *base = get_base();
  const char *version = base->GetVersionString();
  unsigned major = 0, minor = 0;
  int fields = sscanf(version, "%u.%u", &major, &minor);
  // API version n came with release 1.n. Asking for one that a library lacks would print an error.
  unsigned wanted = major == 1 && minor < ORT_API_VERSION ? minor : ORT_API_VERSION;
  if (fields == 2 && wanted >= OLDEST_API)
    e->api = base->GetApi(wanted);
  if (!e->api) {
    snprintf(why, size, "%s is version %s; 1.%d or later is needed", path, version, OLDEST_API);
    dlclose(library);
    return false;
  }
  e->library = library;
  e->maps_files = minor >= MAPS_FILES;
  snprintf(e->info.version, sizeof e->info.version, "%s", version);
  snprintf(e->info.path, sizeof e->info.path, "%s", path);
  return true;
}

// Loads the first of the files that a pattern (glob(7)) matches and that works.
static bool load_pattern(struct engine *e, const char *pattern, char *why, size_t size) {
  glob_t found;
  bool loaded = false;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && !loaded; i++)
      loaded = load_file(e, found.gl_pathv[i], why, size);
    globfree(&found);
  }
  return loaded;
}

// A file or a folder that the user named. (A '*' in a folder's name would be a pattern: no harm.)
static bool load_named(struct engine *e, const char *path, char *why, size_t size) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
    return load_file(e, path, why, size);
  char pattern[1024];
  snprintf(why, size, "%s holds no libonnxruntime.so", path);
  snprintf(pattern, sizeof pattern, "%s/libonnxruntime.so*", path);
  return load_pattern(e, pattern, why, size);
}

static bool load_python(struct engine *e, char *why, size_t size) {
  const struct {
    const char *variable, *below;
  } places[] = {
      {"VIRTUAL_ENV", "/lib/python3*/site-packages"},
      {NULL, "/usr/lib/python3*/site-packages"},
      {NULL, "/usr/lib/python3*/dist-packages"},
      {NULL, "/usr/local/lib/python3*/site-packages"},
      {NULL, "/usr/local/lib/python3*/dist-packages"},
      {"HOME", "/.local/lib/python3*/site-packages"},
  };
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const char *root = places[i].variable ? getenv(places[i].variable) : "";
    char pattern[1024];
    if (!root)
      continue;
    snprintf(pattern, sizeof pattern, "%s%s/onnxruntime/capi/libonnxruntime.so*", root,
             places[i].below);
    if (load_pattern(e, pattern, why, size))
      return true;
  }
  return false;
}

// Debian's libraries are called libonnxruntime.so.1.21, without a shorter name unless the package
// for developers is there; upstream's libonnxruntime.so.1.
static bool load_system(struct engine *e, char *why, size_t size) {
  char name[64];
  if (load_file(e, "libonnxruntime.so", why, size) ||
      load_file(e, "libonnxruntime.so.1", why, size))
    return true;
  for (int minor = NEWEST_TRIED; minor >= OLDEST_API; minor--) {
    snprintf(name, sizeof name, "libonnxruntime.so.1.%d", minor);
    if (load_file(e, name, why, size))
      return true;
  }
  return false;
}

static bool load_anywhere(struct engine *e, char *why, size_t size) {
  char elsewhere[512];
  if (load_system(e, why, size) || load_python(e, elsewhere, sizeof elsewhere))
    return true;
  load_file(e, "libonnxruntime.so", why, size);  // the name that a reader of the message knows
  return false;
}

static enum status load(struct engine *e, const char *path, struct diag *d) {
  char why[512] = "";
  const char *variable = getenv("NARROWCAST_ORT");
  bool none = !path && variable && strcmp(variable, "none") == 0;
  if (!path && variable && variable[0])
    path = variable;
  bool loaded = false;
  if (none)
    snprintf(why, sizeof why, "NARROWCAST_ORT is \"none\"");
  else
    loaded = path ? load_named(e, path, why, sizeof why) : load_anywhere(e, why, sizeof why);
  if (loaded)
    return STATUS_OK;
  diag_hint(d,
            "install libonnxruntime1.21 (Debian 13), or 'pip install onnxruntime', or set "
            "NARROWCAST_ORT to a libonnxruntime.so (1.%d or later) or the folder with it",
            OLDEST_API);
  return diag_fail(d, STATUS_ENGINE, "cannot load ONNX Runtime: %s", why);
}

static enum status prepare(struct engine *e, struct diag *d) {
  // Version 1.30 starts its telemetry with the environment, before the call below can stop it: a
  // database in the user's home, a device number, uploads.
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  ORT_TRY(e, e->api->CreateEnvWithCustomLogger(drop_log, NULL, ORT_LOGGING_LEVEL_FATAL,
                                               "narrowcast", &e->env));
  ORT_TRY(e, e->api->DisableTelemetryEvents(e->env));
  ORT_TRY(e, e->api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &e->memory));
  ORT_TRY(e, e->api->GetAllocatorWithDefaultOptions(&e->allocator));
  return STATUS_OK;
}

enum status engine_open(struct engine **engine, const char *path, struct diag *d) {
  struct engine *e = allocate(1, sizeof *e);
  enum status status = load(e, path, d);
  if (status == STATUS_OK)
    status = prepare(e, d);
  if (status != STATUS_OK) {
    engine_close(e);
    e = NULL;
  }
  *engine = e;
  return status;
}

void engine_close(struct engine *engine) {
  if (!engine)
    return;
  if (engine->memory)
    engine->api->ReleaseMemoryInfo(engine->memory);
  if (engine->env)
    engine->api->ReleaseEnv(engine->env);
  if (engine->library)
    dlclose(engine->library);
  free(engine);
}

void engine_spare_stderr(struct engine *engine) {
  engine->silent = true;
}

const struct engine_info *engine_info(const struct engine *engine) {
  return &engine->info;
}

// ---- Sessions ----

// An OrtValue over the caller's memory.
static OrtStatus *value_over(const struct engine *e, const void *data, size_t size, int elem_type,
                             const int64_t *dims, size_t rank, OrtValue **value) {
  static_assert((int)ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT &&
                    (int)ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING ==
                        ONNX__TENSOR_PROTO__DATA_TYPE__STRING &&
                    (int)ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 == ONNX__TENSOR_PROTO__DATA_TYPE__INT4,
                "ONNX Runtime numbers element types as ONNX does");
  static const uint64_t nothing = 0;  // stands in for the NULL of an array without elements
  const void *place = data ? data : &nothing;
  // The engine only reads inputs and initializers; its interface has no const form.
  return e->api->CreateTensorWithDataAsOrtValue(e->memory, (void *)place, size, dims, rank,
                                                (ONNXTensorElementDataType)elem_type, value);
}

static void release_values(const struct engine *e, OrtValue **values, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (values[i])
      e->api->ReleaseValue(values[i]);
  free(values);
}

// Those that lie in files the engine maps itself, if it is able to. The loader copies the others
// into its graph. AddInitializer would make the session use ours in place, but it replaces by name
// alone: also an initializer of a branch that has the same name, and one that the optimiser has
// transposed and kept the name of.
static enum status add_initializers(const struct engine *e, OrtSessionOptions *options,
                                    const struct session_options *wanted, struct diag *d) {
  size_t n = wanted->n_initializers;
  const char **names = allocate(n, sizeof *names);
  OrtValue **values = allocate(n, sizeof *values);
  OrtStatus *status = NULL;
  n = 0;
  for (size_t i = 0; i < wanted->n_initializers && !status; i++) {
    const struct engine_initializer *w = &wanted->initializers[i];
    if (w->in_file && e->maps_files)
      continue;
    names[n] = w->name;
    status = value_over(e, w->data, w->size, w->elem_type, w->dims, w->rank, &values[n++]);
    if (status)
      diag_at(d, NULL, NULL, w->name);
  }
  if (!status && n)
    status = e->api->AddExternalInitializers(options, names, (const OrtValue *const *)values, n);
  release_values(e, values, n);
  free(names);
  return status ? fail(e, status, d) : STATUS_OK;
}

static enum status configure(const struct engine *e, OrtSessionOptions *options,
                             const struct session_options *wanted, struct diag *d) {
  const GraphOptimizationLevel levels[] = {
      [OPTIMISE_NONE] = ORT_DISABLE_ALL,
      [OPTIMISE_BASIC] = ORT_ENABLE_BASIC,
      [OPTIMISE_EXTENDED] = ORT_ENABLE_EXTENDED,
      [OPTIMISE_ALL] = ORT_ENABLE_ALL,
  };
  const OrtApi *api = e->api;
  ORT_TRY(e, api->SetSessionGraphOptimizationLevel(options, levels[wanted->optimisation]));
  ORT_TRY(e, api->SetIntraOpNumThreads(options, wanted->threads));
  ORT_TRY(e, api->SetInterOpNumThreads(options, 1));
  ORT_TRY(e, api->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
  ORT_TRY(e, api->SetDeterministicCompute(options, true));
  // A pattern is one block per shape of the inputs, planned and kept: a quarter more memory here,
  // growing with the number of shapes, and no faster.
  ORT_TRY(e, api->DisableMemPattern(options));
  ORT_TRY(e, api->SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_FATAL));
  // Bytes must not be taken for the engine's own format, whatever they begin with.
  ORT_TRY(e, api->AddSessionConfigEntry(options, "session.load_model_format", "ONNX"));
  if (wanted->keep_quantised)
    ORT_TRY(e, api->AddSessionConfigEntry(options, "session.disable_quant_qdq", "1"));
  if (wanted->lean)
    ORT_TRY(e, api->AddSessionConfigEntry(options, "session.disable_prepacking", "1"));
  if (wanted->directory)
    ORT_TRY(e, api->AddSessionConfigEntry(options,
                                          "session.model_external_initializers_file_folder_path",
                                          wanted->directory));
  return STATUS_OK;
}

// Notes the names that the session takes: its inputs, then the initializers that can be replaced.
static enum status list_inputs(struct session *s, struct diag *d) {
  const struct engine *e = s->engine;
  size_t required = 0, optional = 0;
  ORT_TRY(e, e->api->SessionGetInputCount(s->session, &required));
  ORT_TRY(e, e->api->SessionGetOverridableInitializerCount(s->session, &optional));
  s->inputs = allocate(required + optional, sizeof *s->inputs);
  for (; s->n_inputs < required; s->n_inputs++)
    ORT_TRY(e, e->api->SessionGetInputName(s->session, s->n_inputs, e->allocator,
                                           &s->inputs[s->n_inputs]));
  for (size_t i = 0; i < optional; i++, s->n_inputs++)
    ORT_TRY(e, e->api->SessionGetOverridableInitializerName(s->session, i, e->allocator,
                                                            &s->inputs[s->n_inputs]));
  return STATUS_OK;
}

static enum status open_bytes(struct session *s, OrtSessionOptions *options, const uint8_t *bytes,
                              size_t size, const struct session_options *wanted, struct diag *d) {
  const struct engine *e = s->engine;
  TRY(configure(e, options, wanted, d));
  TRY(add_initializers(e, options, wanted, d));
  ORT_TRY(e, operators_register(&s->operators, e->api, options, wanted->probe));
  struct memory_catch *catch = memory_catch_set(NULL);  // no jump over the engine's own frames
  int saved = e->silent ? -1 : mute();                  // nor one that would leave us mute
  OrtStatus *failed = e->api->CreateSessionFromArray(e->env, bytes, size, options, &s->session);
  unmute(saved);
  memory_catch_set(catch);
  ORT_TRY(e, failed);
  return list_inputs(s, d);
}

enum status session_open(struct session **session, struct engine *engine, const uint8_t *bytes,
                         size_t size, const struct session_options *options, struct diag *d) {
  *session = NULL;
  OrtSessionOptions *ort_options = NULL;
  ORT_TRY(engine, engine->api->CreateSessionOptions(&ort_options));
  struct session *s = allocate(1, sizeof *s);
  s->engine = engine;
  enum status status = open_bytes(s, ort_options, bytes, size, options, d);
  engine->silent = true;
  engine->api->ReleaseSessionOptions(ort_options);
  if (status != STATUS_OK) {
    session_close(s);
    return status;
  }
  *session = s;
  return STATUS_OK;
}

static void release_outputs(struct session *s) {
  release_values(s->engine, s->outputs, s->n_outputs);
  s->outputs = NULL;
  s->n_outputs = 0;
  arena_free(&s->arena);
}

static void free_by_allocator(const struct engine *e, void *memory) {
  OrtStatus *status = e->api->AllocatorFree(e->allocator, memory);
  if (status)
    e->api->ReleaseStatus(status);
}

void session_close(struct session *session) {
  if (!session)
    return;
  const struct engine *e = session->engine;
  release_outputs(session);
  for (size_t i = 0; i < session->n_inputs; i++)
    free_by_allocator(e, session->inputs[i]);
  free(session->inputs);
  if (session->session)
    e->api->ReleaseSession(session->session);
  operators_free(session->operators);  // after the session, whose kernels refer to them
  free(session);
}

// ---- Running ----

static OrtStatus *value_of_strings(const struct engine *e, const struct array *a,
                                   OrtValue **value) {
  OrtStatus *status = e->api->CreateTensorAsOrtValue(e->allocator, a->dims, a->rank,
                                                     ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, value);
  size_t count = 1;
  for (size_t i = 0; i < a->rank; i++)
    count *= (size_t)a->dims[i];
  if (!status && count)
    status = e->api->FillStringTensor(*value, (const char *const *)a->strings, count);
  return status;
}

static enum status make_input(const struct engine *e, const struct array *a, OrtValue **value,
                              struct diag *d) {
  OrtStatus *status = a->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING
                          ? value_of_strings(e, a, value)
                          : value_over(e, a->data, a->size, a->elem_type, a->dims, a->rank, value);
  if (!status)
    return STATUS_OK;
  diag_at(d, NULL, NULL, a->name);
  return fail(e, status, d);
}

// Arrays of labels travel with a sample's inputs and are not for the model.
static bool is_fed(const struct session *s, const struct array *a) {
  for (size_t i = 0; i < s->n_inputs; i++)
    if (strcmp(s->inputs[i], a->name) == 0)
      return true;
  return strncmp(a->name, "label:", strlen("label:")) != 0;
}

static enum status strings_of(struct session *s, const OrtValue *value, size_t count,
                              struct array *out, struct diag *d) {
  const struct engine *e = s->engine;
  size_t length = 0;
  ORT_TRY(e, e->api->GetStringTensorDataLength(value, &length));
  size_t *offsets = arena_array(&s->arena, count + 1, sizeof *offsets);
  char *text = arena_alloc(&s->arena, length + 1);
  if (count)
    ORT_TRY(e, e->api->GetStringTensorContent(value, text, length, offsets, count));
  offsets[count] = length;
  out->strings = arena_array(&s->arena, count, sizeof *out->strings);
  for (size_t i = 0; i < count; i++) {
    size_t size = offsets[i + 1] - offsets[i];
    out->strings[i] = arena_alloc(&s->arena, size + 1);
    memcpy(out->strings[i], text + offsets[i], size);
  }
  return STATUS_OK;
}

static enum status shape_of(const struct engine *e, const OrtTensorTypeAndShapeInfo *info,
                            struct array *out, size_t *count, struct diag *d) {
  ONNXTensorElementDataType type;
  ORT_TRY(e, e->api->GetTensorElementType(info, &type));
  ORT_TRY(e, e->api->GetTensorShapeElementCount(info, count));
  ORT_TRY(e, e->api->GetDimensionsCount(info, &out->rank));
  if (out->rank > sizeof out->dims / sizeof out->dims[0])
    return diag_fail(d, STATUS_ENGINE, "the output has %zu dimensions; at most 16 are supported",
                     out->rank);
  ORT_TRY(e, e->api->GetDimensions(info, out->dims, out->rank));
  out->elem_type = (int)type;
  return STATUS_OK;
}

static enum status array_of(struct session *s, OrtValue *value, struct array *out, struct diag *d) {
  const struct engine *e = s->engine;
  int is_tensor = 0, has_value = 0;
  if (value)
    ORT_TRY(e, e->api->HasValue(value, &has_value));
  if (has_value)
    ORT_TRY(e, e->api->IsTensor(value, &is_tensor));
  if (!is_tensor)
    return STATUS_OK;
  OrtTensorTypeAndShapeInfo *info = NULL;
  ORT_TRY(e, e->api->GetTensorTypeAndShape(value, &info));
  size_t count = 0;
  enum status status = shape_of(e, info, out, &count, d);
  e->api->ReleaseTensorTypeAndShapeInfo(info);
  TRY(status);
  if (out->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING)
    return strings_of(s, value, count, out, d);
  void *data = NULL;
  ORT_TRY(e, e->api->GetTensorMutableData(value, &data));
  out->data = data;
  out->size = (count * tensor_element_bits(out->elem_type) + 7) / 8;
  return STATUS_OK;
}

static enum status read_outputs(struct session *s, const char *const *names, struct array *outputs,
                                struct diag *d) {
  for (size_t i = 0; i < s->n_outputs; i++) {
    outputs[i] = (struct array){.name = names[i]};
    enum status status = array_of(s, s->outputs[i], &outputs[i], d);
    if (status != STATUS_OK) {
      diag_at(d, NULL, NULL, names[i]);
      return status;
    }
  }
  return STATUS_OK;
}

enum status session_run(struct session *session, const struct array *inputs, size_t n_inputs,
                        const char *const *output_names, size_t n_outputs, struct array *outputs,
                        struct diag *d) {
  const struct engine *e = session->engine;
  release_outputs(session);
  session->outputs = allocate(n_outputs, sizeof *session->outputs);
  session->n_outputs = n_outputs;
  OrtValue **values = allocate(n_inputs, sizeof *values);
  const char **names = allocate(n_inputs, sizeof *names);
  size_t n = 0;
  enum status status = STATUS_OK;
  for (size_t i = 0; i < n_inputs && status == STATUS_OK; i++) {
    if (!is_fed(session, &inputs[i]))
      continue;
    names[n] = inputs[i].name;
    status = make_input(e, &inputs[i], &values[n], d);
    n++;
  }
  if (status == STATUS_OK) {
    struct memory_catch *catch = memory_catch_set(NULL);
    OrtStatus *failed = e->api->Run(session->session, NULL, names, (const OrtValue *const *)values,
                                    n, output_names, n_outputs, session->outputs);
    memory_catch_set(catch);
    status = failed ? fail(e, failed, d) : read_outputs(session, output_names, outputs, d);
  }
  release_values(e, values, n);
  free(names);
  return status;
}
