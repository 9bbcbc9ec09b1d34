// Memory of a run, handed out from large blocks and given back at once: see arena.h.
#include "arena.h"

#include "diag.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 256 * 1024, ALIGNMENT = 16 };

struct arena_block {
  struct arena_block *next;
  size_t used, size;
  _Alignas(ALIGNMENT) unsigned char bytes[];
};

// A property of the thread, like errno: memory is asked for everywhere, and cannot be handed down.
static _Thread_local struct memory_catch *caught_by;

struct memory_catch *memory_catch_set(struct memory_catch *c) {
  struct memory_catch *before = caught_by;
  caught_by = c;
  return before;
}

_Noreturn void out_of_memory(size_t bytes) {
  if (caught_by) {
    caught_by->bytes = bytes;
    longjmp(caught_by->place, 1);
  }
  fprintf(stderr, "narrowcast: out of memory (asked for %zu bytes)\n", bytes);
  exit(STATUS_IO);
}

void *arena_alloc(struct arena *a, size_t size) {
  if (size > SIZE_MAX / 2)
    out_of_memory(size);
  size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  struct arena_block *block = a->blocks;
  if (!block || block->size - block->used < size) {
    size_t capacity = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    block = calloc(1, sizeof *block + capacity);
    if (!block)
      out_of_memory(capacity);
    block->size = capacity;
    // A large request gets a block of its own behind the current one, which keeps its free space.
    if (size > BLOCK_SIZE && a->blocks) {
      block->next = a->blocks->next;
      a->blocks->next = block;
    } else {
      block->next = a->blocks;
      a->blocks = block;
    }
  }
  void *place = block->bytes + block->used;
  block->used += size;
  a->used += size;
  return place;
}

void *arena_array(struct arena *a, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size)
    out_of_memory(SIZE_MAX);
  return arena_alloc(a, count * size);
}

char *arena_strdup(struct arena *a, const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(arena_alloc(a, size), text, size);
}

char *arena_printf(struct arena *a, const char *format, ...) {
  // Into what the block has left, where it nearly always fits.
  struct arena_block *block = a->blocks;
  size_t room = block ? block->size - block->used : 0;
  char *place = block ? (char *)block->bytes + block->used : NULL;
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(place, room, format, arguments);
  va_end(arguments);
  bool fits = (size_t)length < room;
  if (!fits && room)
    memset(place, 0, room);
  char *text = arena_alloc(a, (size_t)length + 1);
  if (!fits)
    vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

void *arena_grow(struct arena *a, void *array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity)
    return array;
  size_t larger = *capacity * 2 > need ? *capacity * 2 : need;
  larger = larger < 8 ? 8 : larger;
  void *place = arena_array(a, larger, size);
  if (*capacity)
    memcpy(place, array, *capacity * size);
  *capacity = larger;
  return place;
}

static void *protobuf_alloc(void *a, size_t size) {
  return arena_alloc(a, size);
}

static void protobuf_free(void *a, void *pointer) {
  (void)a;
  (void)pointer;
}

ProtobufCAllocator arena_protobuf(struct arena *a) {
  return (ProtobufCAllocator){protobuf_alloc, protobuf_free, a};
}

void arena_free(struct arena *a) {
  for (struct arena_block *block = a->blocks; block;) {
    struct arena_block *next = block->next;
    free(block);
    block = next;
  }
  *a = (struct arena){0};
}
