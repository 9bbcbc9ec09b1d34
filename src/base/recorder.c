// The flight recorder: see recorder.h. Texts are bounded copies, whose last byte is never written
// to, so that whatever instant a crash chooses, the reader finds strings.
#define _GNU_SOURCE  // MAP_ANONYMOUS
#include "recorder.h"

#include <string.h>
#include <sys/mman.h>

struct recorder *recorder_open(void) {
  void *place = mmap(NULL, sizeof(struct recorder), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return place == MAP_FAILED ? NULL : place;
}

void recorder_close(struct recorder *r) {
  if (r)
    munmap(r, sizeof *r);
}

static void note(char *to, size_t size, const char *text) {
  size_t length = text ? strnlen(text, size - 1) : 0;
  if (length)
    memcpy(to, text, length);
  if (length < size - 1)
    to[length] = '\0';
}

#define NOTE(field, text) note(field, sizeof(field), text)

void recorder_engine(struct recorder *r, const char *version) {
  if (r)
    NOTE(r->engine, version);
}

void recorder_stage(struct recorder *r, const char *stage, bool narrow) {
  if (!r)
    return;
  NOTE(r->stage, stage);
  r->narrow = narrow;
  recorder_action(r, NULL);
}

void recorder_action(struct recorder *r, const char *action) {
  if (!r)
    return;
  NOTE(r->action, action);
  r->sample = 0;
  recorder_place(r, &(struct record_place){0});
}

void recorder_sample(struct recorder *r, size_t number, size_t count, const char *label) {
  if (!r)
    return;
  recorder_action(r, NULL);
  r->sample = number;
  r->samples = count;
  NOTE(r->label, label);
}

void recorder_place(struct recorder *r, const struct record_place *place) {
  if (!r)
    return;
  NOTE(r->tensor, place->tensor);
  NOTE(r->node, place->node);
  NOTE(r->op_type, place->op_type);
  r->others = place->others;
}

void recorder_finish(struct recorder *r, enum status status) {
  if (!r)
    return;
  r->status = status;
  r->finished = true;
}
