// A hash map from (number, string) to number, for names in scopes. Keys are compared whole, never
// by hash alone; nothing iterates over it, so its order can reach no output. Keys are not copied:
// they must live as long as the map (they are names in the arena).
#ifndef MAP_H
#define MAP_H

#include "arena.h"

#include <stdint.h>

struct map_entry {
  const char *key;
  int space, value;
};

struct map_slot {
  uint32_t hash;
  uint32_t number;  // of the entry, from 1; 0: free
};

struct map {
  struct arena *arena;
  struct map_slot *slots;           // a power of two of them, 0 before the first key
  struct map_entry *entries;        // in the order in which they were added
  size_t n_slots, capacity, count;  // capacity and count are those of entries
};

// The value stored for (space, key), or -1.
int map_get(const struct map *m, int space, const char *key);

// Stores value (>= 0), replacing one that is there. m->arena must be set before the first call.
void map_put(struct map *m, int space, const char *key, int value);

// The place of the value for (space, key), which holds -1 if there was none; until the next call
// that adds a key.
int *map_slot(struct map *m, int space, const char *key);

// Says that the key is looked up or added soon. In a large model each look-up waits for memory: for
// the message that has the key, for the key's text, for its slot. A loop that fetches the messages
// MAP_FAR elements before it comes to them, and the texts MAP_FETCH before, and announces the keys
// MAP_AHEAD before, waits for many at once.
void map_announce(const struct map *m, int space, const char *key);
enum { MAP_AHEAD = 8, MAP_FETCH = 2 * MAP_AHEAD, MAP_FAR = 3 * MAP_AHEAD };

static inline void map_fetch(const void *place) {
  __builtin_prefetch(place);
}

// Makes room for so many keys, so that the map need not grow on the way there.
void map_reserve(struct map *m, size_t count);

#endif
