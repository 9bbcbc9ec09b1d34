// Calls the fuzz target for every file that is named, and every file of the folders that are named:
// the corpora as a unit test, with any compiler. The input lies at the end of an allocation of its
// own, so that valgrind and the sanitizers see a read beyond it. After --fields, it is called for
// what fuzz_each_field makes of them instead.
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH = 8 };

static int compare_names(const void *x, const void *y) {
  return strcmp(*(char *const *)x, *(char *const *)y);
}

static bool fields;

static size_t replay_file(const char *path, size_t size) {
  FILE *in = fopen(path, "rb");
  uint8_t *bytes = malloc(size ? size : 1);
  fuzz_require(in && bytes && fread(bytes, 1, size, in) == size, "cannot read %s", path);
  fclose(in);
  printf("%s\n", path);  // the last one that is seen is the one that failed
  fflush(stdout);
  size_t count = 1;
  if (fields)
    count = fuzz_each_field(bytes, size);
  else
    LLVMFuzzerTestOneInput(bytes, size);
  free(bytes);
  return count;
}

static size_t replay(const char *path, int depth) {
  struct stat s;
  fuzz_require(stat(path, &s) == 0, "cannot read %s", path);
  if (!S_ISDIR(s.st_mode))
    return replay_file(path, (size_t)s.st_size);
  DIR *directory = opendir(path);
  fuzz_require(directory && depth < DEPTH, "cannot read the folder %s", path);
  char **names = NULL;
  size_t count = 0, replayed = 0;
  for (struct dirent *e; (e = readdir(directory)) != NULL;) {
    if (e->d_name[0] == '.')
      continue;
    names = realloc(names, (count + 1) * sizeof *names);
    size_t length = strlen(path) + strlen(e->d_name) + 2;
    fuzz_require(names && (names[count] = malloc(length)), "no memory");
    snprintf(names[count++], length, "%s/%s", path, e->d_name);
  }
  closedir(directory);
  if (count)
    qsort(names, count, sizeof *names, compare_names);
  for (size_t i = 0; i < count; i++) {
    replayed += replay(names[i], depth + 1);
    free(names[i]);
  }
  free(names);
  return replayed;
}

int main(int argc, char **argv) {
  size_t count = 0;
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--fields") == 0)
      fields = true;
    else
      count += replay(argv[i], 0);
  printf("%zu inputs\n", count);
  return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
