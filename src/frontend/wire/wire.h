/* What every frontend asks of protobuf bytes from outside before protobuf-c sees them: it recurses without a limit, cuts
 * texts at a NUL, and lets invalid UTF-8 through. Internal. */
#ifndef TRN_FRONTEND_WIRE_WIRE_H
#define TRN_FRONTEND_WIRE_WIRE_H
#include <protobuf-c/protobuf-c.h>

#include "core/core.h"

typedef struct trn_wire_limits {
  unsigned depth_max; /* up to TRN_WIRE_DEPTH_MAX */
  size_t nodes_max;   /* messages inside one message; fields: four times as many */
  unsigned reserved;  /* field numbers from here on that the descriptor has are refused; 0: none */
} trn_wire_limits;

/* Checks `size` bytes against a descriptor, without recursion: nesting, number of messages, truncation, groups, UTF-8 and
 * NUL in texts. Gives what is wrong (static text) and `*where` the name of the message that it is in; NULL: nothing. */
const char *trn__wire_check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                            const trn_wire_limits *limits, const char **where);
/* Reads a varint of at most ten bytes and moves on. False: cut off or longer. */
bool trn__wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *out);

#endif
