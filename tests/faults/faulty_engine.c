// An ONNX Runtime with a fault, for tests/cli/faults.sh: the real library, but for one call, which
// crashes, hangs or eats memory. Given to the program with --ort; no part of it.
//
//   FAULT_ENGINE=FILE   the real library
//   FAULT_AT=CALL       load (a session is made), run (of a session), kernel (a custom operator has
//                       its result ready), close (the library is released)
//   FAULT_COUNT=N       at the N-th such call, from 1 (default 1)
//   FAULT=WHAT          segv, abort, stack, hang, eat, exit, kill, stop (until SIGCONT)
//   FAULT_MARK=FILE     makes this file when it happens
//
// Without FAULT it counts the calls and prints "load 3 run 8 ..." at the end: what is there to hit.
#include <dlfcn.h>
#include <fcntl.h>
#include <onnxruntime_c_api.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum place { LOAD, RUN, KERNEL, CLOSE, PLACES };
static const char *const place_names[PLACES] = {"load", "run", "kernel", "close"};

static const OrtApi *real;
// The members up to 1.17's, which are those that the program uses.
static OrtApi faulty;
static OrtApiBase base;
static const OrtApiBase *real_base;
static unsigned calls[PLACES];

static void eat_memory(void) {
  for (;;) {
    char *block = malloc(1 << 24);
    if (!block)
      abort();  // as C++ does when nobody catches bad_alloc
    memset(block, 1, 1 << 24);
  }
}

// Deeper than any stack.
static int overflow_stack(unsigned left) {
  volatile char frame[4096];
  frame[0] = (char)left;
  return left ? overflow_stack(left - 1) + frame[0] : 0;
}

static void happen(const char *what) {
  if (strcmp(what, "segv") == 0)
    *(volatile int *)8 = 1;
  else if (strcmp(what, "abort") == 0)
    abort();
  else if (strcmp(what, "stack") == 0)
    overflow_stack(1u << 30);
  else if (strcmp(what, "hang") == 0)
    for (;;)
      pause();
  else if (strcmp(what, "eat") == 0)
    eat_memory();
  else if (strcmp(what, "exit") == 0)
    _exit(0);
  else if (strcmp(what, "kill") == 0)
    raise(SIGKILL);
  else if (strcmp(what, "stop") == 0)
    raise(SIGSTOP);
  else
    fprintf(stderr, "FAULT=%s is unknown\n", what);
}

static void reach(enum place place) {
  const char *what = getenv("FAULT"), *at = getenv("FAULT_AT"), *count = getenv("FAULT_COUNT");
  calls[place]++;
  if (!what || !at || strcmp(at, place_names[place]) != 0)
    return;
  if (calls[place] != (count ? (unsigned)atoi(count) : 1))
    return;
  if (getenv("FAULT_MARK"))
    close(open(getenv("FAULT_MARK"), O_WRONLY | O_CREAT, 0666));
  happen(what);
}

static OrtStatus *ORT_API_CALL load(const OrtEnv *env, const void *data, size_t size,
                                    const OrtSessionOptions *options, OrtSession **out) {
  reach(LOAD);
  return real->CreateSessionFromArray(env, data, size, options, out);
}

static OrtStatus *ORT_API_CALL run(OrtSession *session, const OrtRunOptions *options,
                                   const char *const *inputs, const OrtValue *const *values,
                                   size_t n_inputs, const char *const *outputs, size_t n_outputs,
                                   OrtValue **results) {
  reach(RUN);
  return real->Run(session, options, inputs, values, n_inputs, outputs, n_outputs, results);
}

static OrtStatus *ORT_API_CALL kernel(OrtKernelContext *context, size_t index, const int64_t *dims,
                                      size_t rank, OrtValue **out) {
  reach(KERNEL);
  return real->KernelContext_GetOutput(context, index, dims, rank, out);
}

static void ORT_API_CALL release(OrtEnv *env) {
  reach(CLOSE);
  if (!getenv("FAULT"))
    for (int i = 0; i < PLACES; i++)
      fprintf(stderr, "%s %u%s", place_names[i], calls[i], i + 1 < PLACES ? " " : "\n");
  real->ReleaseEnv(env);
}

static const OrtApi *ORT_API_CALL get_api(uint32_t version) {
  real = real_base->GetApi(version);
  if (!real)
    return NULL;
  memcpy(&faulty, real, offsetof(OrtApi, SessionOptionsAppendExecutionProvider_VitisAI));
  faulty.CreateSessionFromArray = load;
  faulty.Run = run;
  faulty.KernelContext_GetOutput = kernel;
  faulty.ReleaseEnv = release;
  return &faulty;
}

static const char *ORT_API_CALL get_version(void) {
  return real_base->GetVersionString();
}

const OrtApiBase *ORT_API_CALL OrtGetApiBase(void) {
  const char *path = getenv("FAULT_ENGINE");
  void *library = dlopen(path ? path : "libonnxruntime.so", RTLD_NOW | RTLD_LOCAL);
  const OrtApiBase *(*get)(void) = NULL;
  void *symbol = library ? dlsym(library, "OrtGetApiBase") : NULL;
  if (!symbol) {
    fprintf(stderr, "FAULT_ENGINE: %s\n", dlerror());
    abort();
  }
  memcpy(&get, &symbol, sizeof symbol);
  real_base = get();
  base = (OrtApiBase){get_api, get_version};
  return &base;
}
