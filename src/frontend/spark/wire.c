/* Checks of messages from outside, before protobuf-c sees them. Invalid UTF-8 would later kill the Python client. */
#include <stdio.h>

#include "frontend/spark/service.h"
#include "frontend/wire/wire.h"

enum { WIRE_OWN_MEMBERS = 2000 }; /* proto/extensions.json */

trn_status spark__wire_check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                             trn_error **error) {
  static const trn_wire_limits limits = {TRN_WIRE_DEPTH_MAX, TRN_WIRE_NODES_MAX, WIRE_OWN_MEMBERS};
  const char *where = NULL, *wrong = trn__wire_check(descriptor, data, size, &limits, &where);
  if (!wrong) return TRN_OK;
  char text[128];
  snprintf(text, sizeof text, "%s in %s", wrong, where);
  return spark__raise(error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.CANNOT_PARSE", "errorMsg", text, NULL, NULL,
                      NULL, NULL);
}

trn_status spark__wire_decode(trn_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data,
                              size_t size, ProtobufCMessage **out, trn_error **error) {
  *out = NULL;
  trn_status status = spark__wire_check(descriptor, data, size, error);
  if (status) return status;
  ProtobufCAllocator allocator = spark__allocator(arena);
  *out = protobuf_c_message_unpack(descriptor, &allocator, size, data);
  /* Well formed by the check above: only memory is left to fail (or a wire type that does not fit the field). */
  if (!*out)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.CANNOT_PARSE", "errorMsg",
                        "a field of the wrong kind, or the request needs too much memory", NULL, NULL, NULL, NULL);
  return TRN_OK;
}
