// A hash map from (number, string) to number, for names in scopes. Keys are compared whole, never
// by hash alone; nothing iterates over it, so its order can reach no output. Keys are not copied:
// they must live as long as the map (they are names in the arena).
#ifndef MAP_H
#define MAP_H

#include "arena.h"

struct map_entry {
  const char *key;
  int space, value;
};

struct map {
  struct arena *arena;
  struct map_entry *entries;
  size_t capacity, count;
};

// The value stored for (space, key), or -1.
int map_get(const struct map *m, int space, const char *key);

// Stores value (>= 0), replacing one that is there. m->arena must be set before the first call.
void map_put(struct map *m, int space, const char *key, int value);

#endif
