// What ONNX Runtime itself needs for a model: a session of the file as it is, at the level of
// optimisation that is named (none, basic, extended, all), one run on zeros for the one input
// "x" of [1, N], and nothing else. `plain_session MODEL N LEVEL`; the caller measures the process.
#include "engine.h"

#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const OrtApi *api;

static void must(OrtStatus *status) {
  if (!status)
    return;
  fprintf(stderr, "plain_session: %s\n", api->GetErrorMessage(status));
  exit(1);
}

static const OrtApi *find_api(void) {
  struct engine *engine;
  struct diag d = {0};
  const OrtApiBase *(*base)(void) = NULL;
  if (engine_open(&engine, NULL, &d) != STATUS_OK)
    return NULL;
  void *library = dlopen(engine_info(engine)->path, RTLD_NOW);
  void *symbol = library ? dlsym(library, "OrtGetApiBase") : NULL;
  memcpy(&base, &symbol, sizeof symbol);
  return base ? base()->GetApi(17) : NULL;
}

static GraphOptimizationLevel level_of(const char *name) {
  return strcmp(name, "none") == 0       ? ORT_DISABLE_ALL
         : strcmp(name, "basic") == 0    ? ORT_ENABLE_BASIC
         : strcmp(name, "extended") == 0 ? ORT_ENABLE_EXTENDED
                                         : ORT_ENABLE_ALL;
}

int main(int argc, char **argv) {
  if (argc != 4 || !(api = find_api()))
    return 2;
  OrtEnv *env;
  OrtSessionOptions *options;
  OrtSession *session;
  OrtMemoryInfo *memory;
  OrtAllocator *allocator;
  OrtValue *x, *y = NULL;
  char *output;
  int64_t dims[2] = {1, atoll(argv[2])};
  float *zeros = calloc((size_t)dims[1], sizeof *zeros);
  must(api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "plain", &env));
  must(api->CreateSessionOptions(&options));
  must(api->SetSessionGraphOptimizationLevel(options, level_of(argv[3])));
  must(api->CreateSession(env, argv[1], options, &session));
  must(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  must(api->GetAllocatorWithDefaultOptions(&allocator));
  must(api->SessionGetOutputName(session, 0, allocator, &output));
  must(api->CreateTensorWithDataAsOrtValue(memory, zeros, (size_t)dims[1] * sizeof *zeros, dims, 2,
                                           ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
  const char *input = "x";
  must(api->Run(session, NULL, &input, (const OrtValue *const *)&x, 1, (const char *const *)&output,
                1, &y));
  return 0;
}
