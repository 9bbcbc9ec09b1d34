// Open addressing with linear probing over small slots, beside a list of the entries: names that
// are used near each other are entered near each other, so that in a large model a look-up waits
// for memory once, at its slot. The hash is seeded per process, so that the names of a hostile
// model cannot be chosen to collide. See map.h.
#include "map.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

enum { FEWEST_SLOTS = 64 };

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

// Where the key is, or would be. Slots keep the hashes, so that no entry is looked at in vain.
static struct map_slot *find(const struct map *m, uint32_t h, int space, const char *key) {
  size_t mask = m->n_slots - 1;
  for (size_t at = h & mask;; at = (at + 1) & mask) {
    struct map_slot *slot = &m->slots[at];
    if (!slot->number)
      return slot;
    const struct map_entry *entry = &m->entries[slot->number - 1];
    if (slot->hash == h && entry->space == space && strcmp(entry->key, key) == 0)
      return slot;
  }
}

int map_get(const struct map *m, int space, const char *key) {
  if (!m->n_slots)
    return -1;
  const struct map_slot *slot = find(m, hash(space, key), space, key);
  return slot->number ? m->entries[slot->number - 1].value : -1;
}

void map_announce(const struct map *m, int space, const char *key) {
  if (m->n_slots)
    __builtin_prefetch(&m->slots[hash(space, key) & (m->n_slots - 1)], 1);
}

static void resize(struct map *m, size_t n_slots) {
  struct map old = *m;
  m->n_slots = n_slots;
  m->slots = arena_array(m->arena, n_slots, sizeof *m->slots);
  for (size_t i = 0; i < old.n_slots; i++) {
    if (!old.slots[i].number)
      continue;
    size_t at = old.slots[i].hash & (n_slots - 1);
    while (m->slots[at].number)
      at = (at + 1) & (n_slots - 1);
    m->slots[at] = old.slots[i];
  }
}

void map_reserve(struct map *m, size_t count) {
  size_t n_slots = m->n_slots ? m->n_slots : FEWEST_SLOTS;
  while (n_slots / 2 < count)
    n_slots *= 2;
  if (n_slots > m->n_slots)
    resize(m, n_slots);
  m->entries = arena_grow(m->arena, m->entries, &m->capacity, count, sizeof *m->entries);
}

int *map_slot(struct map *m, int space, const char *key) {
  map_reserve(m, m->count + 1);
  uint32_t h = hash(space, key);
  struct map_slot *slot = find(m, h, space, key);
  if (!slot->number) {
    m->entries[m->count++] = (struct map_entry){key, space, -1};
    *slot = (struct map_slot){h, (uint32_t)m->count};
  }
  return &m->entries[slot->number - 1].value;
}

void map_put(struct map *m, int space, const char *key, int value) {
  *map_slot(m, space, key) = value;
}
