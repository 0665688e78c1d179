/* Messages from outside: checked before protobuf-c recurses over them. */
#include "frontend/wire/wire.h"
#include "frontend/ballista/ballista.h"

static void *arena_alloc(void *arena, size_t size) {
  return trn__arena_alloc(arena, size);
}
static void arena_free(void *arena, void *memory) {
  (void)arena, (void)memory;
}

trn_status ballista__decode(trn_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data,
                            size_t size, void *out_message, trn_error **error) {
  static const trn_wire_limits limits = {TRN_BALLISTA_WIRE_DEPTH_MAX, TRN_BALLISTA_WIRE_NODES_MAX, 0};
  ProtobufCMessage **out = out_message;
  const char *where = NULL, *wrong = trn__wire_check(descriptor, data, size, &limits, &where);
  *out = NULL;
  if (wrong) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Malformed message: %s in %s", wrong, where);
  ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
  *out = protobuf_c_message_unpack(descriptor, &allocator, size, data);
  if (*out) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                       "Malformed message: a field of the wrong kind in %s, or it needs too much memory",
                       descriptor->name);
}
