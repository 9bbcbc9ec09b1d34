// One arena per run owns everything that lives as long as the run: the unpacked model, the graph
// index, statistics, the plan. Nothing is freed one by one; arena_free gives it all back at once.
// Running out of memory ends the run in one place (out_of_memory), so that callers need no checks.
// Not thread-safe.
#ifndef ARENA_H
#define ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

struct arena {
  struct arena_block *blocks;  // newest first
  size_t used;                 // bytes handed out, for statistics
};

// Zeroed memory of `size` bytes (0 is allowed), aligned for any type.
void *arena_alloc(struct arena *a, size_t size);

// Zeroed array of `count` elements of `size` bytes; count * size is checked for overflow.
void *arena_array(struct arena *a, size_t count, size_t size);

char *arena_strdup(struct arena *a, const char *text);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Grows an array kept in the arena so that it holds at least `need` elements of `size` bytes:
// returns the old place, or a new one (with old contents, rest zeroed), and updates *capacity. The
// old place stays valid until arena_free. Doubling keeps the total linear.
void *arena_grow(struct arena *a, void *array, size_t *capacity, size_t need, size_t size);

// An allocator for protobuf-c whose `free` does nothing.
ProtobufCAllocator arena_protobuf(struct arena *a);

void arena_free(struct arena *a);

// Prints a message and ends the program (exit code of STATUS_IO), the only exit outside main; or,
// if the thread has a catch, goes there. What is jumped over is not tidied up.
_Noreturn void out_of_memory(size_t bytes);

// For the library's callers, whose programs are not ours to end: `if (setjmp(c.place))` is where
// out_of_memory goes on this thread while the catch is set.
struct memory_catch {
  jmp_buf place;
  size_t bytes;  // that were asked for
};
// Sets the catch of this thread, NULL for none, and returns the former one.
struct memory_catch *memory_catch_set(struct memory_catch *c);

#endif
