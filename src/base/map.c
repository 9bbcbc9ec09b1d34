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
static uint64_t hash(int space, const char *key) {
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
  return h ^ (h >> 29);
}

static size_t find(const struct map *m, int space, const char *key) {
  size_t mask = m->capacity - 1;
  size_t at = (size_t)hash(space, key) & mask;
  while (m->entries[at].key &&
         (m->entries[at].space != space || strcmp(m->entries[at].key, key) != 0))
    at = (at + 1) & mask;
  return at;
}

int map_get(const struct map *m, int space, const char *key) {
  if (!m->capacity)
    return -1;
  const struct map_entry *entry = &m->entries[find(m, space, key)];
  return entry->key ? entry->value : -1;
}

static void grow(struct map *m) {
  struct map old = *m;
  m->capacity = old.capacity ? old.capacity * 2 : 64;
  m->entries = arena_array(m->arena, m->capacity, sizeof *m->entries);
  for (size_t i = 0; i < old.capacity; i++)
    if (old.entries[i].key)
      m->entries[find(m, old.entries[i].space, old.entries[i].key)] = old.entries[i];
}

void map_put(struct map *m, int space, const char *key, int value) {
  if (m->count * 2 >= m->capacity)
    grow(m);
  struct map_entry *entry = &m->entries[find(m, space, key)];
  if (!entry->key)
    m->count++;
  *entry = (struct map_entry){key, space, value};
}
