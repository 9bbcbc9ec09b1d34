// Open addressing with linear probing; the hash is seeded per process so that the names of a
// hostile model cannot be chosen to collide. See map.h.
#include "map.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

static uint64_t seed(void) {
  static uint64_t value;
  if (!value && getrandom(&value, sizeof value, GRND_NONBLOCK) != (ssize_t)sizeof value)
    value = 0x9e3779b97f4a7c15u;
  return value | 1;
}

// Multiply-and-fold over 8-byte pieces of the key.
static uint32_t hash(int space, const char *key) {
  const uint64_t multiplier = 0xd6e8feb86659fd93u;
  uint64_t h = seed() ^ (uint64_t)(uint32_t)space;
  size_t length = strlen(key);
  for (size_t i = 0; i < length; i += 8) {
    uint64_t piece = 0;
    memcpy(&piece, key + i, length - i < 8 ? length - i : 8);
    h = (h ^ piece) * multiplier;
    h ^= h >> 32;
  }
  h = (h ^ length) * multiplier;
  return (uint32_t)(h ^ (h >> 29));
}

// Where the key is, or would be. Entries keep their hashes: in a large model a key that is looked
// at is a wait for memory.
static struct map_entry *find(const struct map *m, uint32_t h, int space, const char *key) {
  size_t mask = m->capacity - 1;
  for (size_t at = h & mask;; at = (at + 1) & mask) {
    struct map_entry *entry = &m->entries[at];
    if (!entry->key || (entry->hash == h && entry->space == space && strcmp(entry->key, key) == 0))
      return entry;
  }
}

int map_get(const struct map *m, int space, const char *key) {
  if (!m->capacity)
    return -1;
  const struct map_entry *entry = find(m, hash(space, key), space, key);
  return entry->key ? entry->value : -1;
}

static void resize(struct map *m, size_t capacity) {
  struct map old = *m;
  m->capacity = capacity;
  m->entries = arena_array(m->arena, capacity, sizeof *m->entries);
  for (size_t i = 0; i < old.capacity; i++) {
    if (!old.entries[i].key)
      continue;
    size_t at = old.entries[i].hash & (capacity - 1);
    while (m->entries[at].key)
      at = (at + 1) & (capacity - 1);
    m->entries[at] = old.entries[i];
  }
}

void map_reserve(struct map *m, size_t count) {
  size_t capacity = m->capacity ? m->capacity : 64;
  while (capacity / 2 < count)
    capacity *= 2;
  if (capacity > m->capacity)
    resize(m, capacity);
}

int *map_slot(struct map *m, int space, const char *key) {
  map_reserve(m, m->count + 1);
  uint32_t h = hash(space, key);
  struct map_entry *entry = find(m, h, space, key);
  if (!entry->key) {
    *entry = (struct map_entry){key, h, space, -1};
    m->count++;
  }
  return &entry->value;
}

void map_put(struct map *m, int space, const char *key, int value) {
  *map_slot(m, space, key) = value;
}
