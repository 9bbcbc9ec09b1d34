// Memory of conversions: see memory.h.
#include "memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As measured; see memory.h.
static const double base = 120e6;
static const double in_memory = 32 * 1048576.0;  // run.c's IN_MEMORY
static const double of_weights = 8.5, of_weights_in_files = 2, of_sample = 32;

struct memory_need memory_needed(const struct surveyed *s) {
  struct memory_need need = {base, base};
  if (!s->readable)
    return need;
  double weights = (double)s->bytes, sample = (double)s->largest_sample;
  double held = weights < in_memory ? weights : in_memory;
  double without = base + of_weights * held + of_weights_in_files * (weights - held);
  return (struct memory_need){.least = without + sample, .expected = without + of_sample * sample};
}

// ---- What there is ----

static uint64_t read_number(const char *path) {
  char text[64] = "";
  FILE *in = fopen(path, "re");
  if (!in)
    return UINT64_MAX;
  bool got = fgets(text, sizeof text, in) != NULL;
  fclose(in);
  char *end;
  uint64_t value = strtoull(text, &end, 10);  // "max" where there is no limit
  return got && end != text ? value : UINT64_MAX;
}

static uint64_t machine_available(void) {
  uint64_t kib = 0;
  bool found = false;
  char line[256];
  FILE *in = fopen("/proc/meminfo", "re");
  while (in && !found && fgets(line, sizeof line, in))
    found = sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1;
  if (in)
    fclose(in);
  return found ? kib * 1024 : UINT64_MAX;
}

// What a group of version 1 or 2 leaves; its own files that can be dropped are not counted as used.
static uint64_t group_available(const char *folder, const char *limit_file, const char *used_file) {
  char path[4300];
  snprintf(path, sizeof path, "%s/%s", folder, limit_file);
  uint64_t limit = read_number(path);
  snprintf(path, sizeof path, "%s/%s", folder, used_file);
  uint64_t used = read_number(path);
  if (limit == UINT64_MAX || used == UINT64_MAX)
    return UINT64_MAX;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  FILE *in = fopen(path, "re");
  char line[256];
  uint64_t inactive = 0;
  while (in && fgets(line, sizeof line, in))
    if (sscanf(line, "total_inactive_file %" SCNu64, &inactive) == 1 ||
        sscanf(line, "inactive_file %" SCNu64, &inactive) == 1)
      continue;
  if (in)
    fclose(in);
  used -= inactive < used ? inactive : used;
  return limit > used ? limit - used : 0;
}

// The group and all above it.
static uint64_t groups_available(const char *mount, const char *group, const char *limit_file,
                                 const char *used_file) {
  char folder[4200];
  snprintf(folder, sizeof folder, "%s%s", mount, group);
  uint64_t least = UINT64_MAX;
  for (size_t root = strlen(mount); strlen(folder) >= root;) {
    uint64_t left = group_available(folder, limit_file, used_file);
    least = left < least ? left : least;
    char *slash = strrchr(folder, '/');
    *slash = '\0';
  }
  return least;
}

uint64_t memory_available(void) {
  uint64_t least = machine_available();
  char line[4096];
  FILE *in = fopen("/proc/self/cgroup", "re");
  while (in && fgets(line, sizeof line, in)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
      continue;
    *group++ = '\0';
    uint64_t left = UINT64_MAX;
    if (strcmp(controllers + 1, "") == 0)
      left = groups_available("/sys/fs/cgroup", group, "memory.max", "memory.current");
    else if (strcmp(controllers + 1, "memory") == 0)
      left = groups_available("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                              "memory.usage_in_bytes");
    least = left < least ? left : least;
  }
  if (in)
    fclose(in);
  return least;
}
