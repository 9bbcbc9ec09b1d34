// The wire format of protocol buffers, walked with limits before protobuf-c sees a byte: protobuf-c
// has no limit on nesting, gives no reason when it refuses, and copies every byte.
//
// The walk checks the whole message against its descriptor and writes a *slim* copy for protobuf-c,
// in which two kinds of field are replaced by an index into a table:
//   - every TensorProto.raw_data becomes four bytes, a little-endian index into `raw`;
//   - what protobuf-c refuses but the format allows (groups, and known fields in another wire type,
//     both of which protobuf keeps as unknown fields) becomes a fixed32 field WIRE_ODD_FIELD, an
//     index into `odd`. So does a field that has that number itself: nothing can be forged.
#ifndef WIRE_H
#define WIRE_H

#include "model.h"

#include <protobuf-c/protobuf-c.h>

enum { WIRE_ODD_FIELD = 536870911 };  // the largest field number there is
enum { WIRE_RAW_DATA_FIELD = 9 };     // TensorProto.raw_data

// A stretch of the bytes that were walked.
struct wire_range {
  size_t offset, length;
};

// An unknown field: its number, wire type and what follows the tag (a length prefix included).
struct wire_odd {
  uint32_t field;
  int wire_type;
  struct wire_range range;
};

struct wire {
  uint8_t *slim;  // malloc'ed
  size_t size, capacity;
  struct wire_range *raw;  // malloc'ed
  size_t n_raw, capacity_raw;
  struct wire_odd *odd;  // malloc'ed
  size_t n_odd, capacity_odd;
};

// Walks bytes[0..size) as a message of `type`. Linear time; no recursion. Errors: STATUS_MODEL with
// the byte offset and the path of the field. On success (and only then) give `w` to wire_free.
enum status wire_walk(struct wire *w, const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                      size_t size, const struct model_limits *limits, struct diag *d);
void wire_free(struct wire *w);

#endif
