// Writes protobuf's wire format by hand, for models that no library would write.
#ifndef SUPPORT_BYTES_H
#define SUPPORT_BYTES_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

struct bytes {
  uint8_t data[4096];
  size_t size;
};

static inline void put_bytes(struct bytes *b, const void *data, size_t size) {
  assert(b->size + size <= sizeof b->data);
  if (size)
    memcpy(b->data + b->size, data, size);
  b->size += size;
}

static inline void put_varint(struct bytes *b, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    put_bytes(b, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
  put_bytes(b, &(uint8_t){(uint8_t)value}, 1);
}

static inline void put_tag(struct bytes *b, uint32_t field, unsigned wire_type) {
  put_varint(b, (uint64_t)field << 3 | wire_type);
}

static inline void put_int(struct bytes *b, uint32_t field, uint64_t value) {
  put_tag(b, field, 0);
  put_varint(b, value);
}

static inline void put_field(struct bytes *b, uint32_t field, const void *data, size_t size) {
  put_tag(b, field, 2);
  put_varint(b, size);
  put_bytes(b, data, size);
}

static inline void put_text(struct bytes *b, uint32_t field, const char *text) {
  put_field(b, field, text, strlen(text));
}

static inline void put_message(struct bytes *b, uint32_t field, const struct bytes *message) {
  put_field(b, field, message->data, message->size);
}

#endif
