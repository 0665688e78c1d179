/* Bytes from outside: protobuf messages are checked before protobuf-c recurses over them; Any and FlightData are read by
 * hand, their values borrowed. */
#include <stdio.h>

#include "core/base64.h"
#include "core/varint.h"
#include "frontend/flight/flight.h"
#include "frontend/wire/wire.h"

static trn_status check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size, trn_error **error) {
  static const trn_wire_limits limits = {TRN_FLIGHT_WIRE_DEPTH_MAX, TRN_FLIGHT_WIRE_NODES_MAX, 0};
  const char *where = NULL, *wrong = trn__wire_check(descriptor, data, size, &limits, &where);
  if (!wrong) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Malformed message: %s in %s", wrong, where);
}

static void *arena_alloc(void *arena, size_t size) { return trn__arena_alloc(arena, size); }
static void arena_free(void *arena, void *memory) { (void)arena, (void)memory; }

trn_status flight__decode(trn_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                          void *out_message, trn_error **error) {
  ProtobufCMessage **out = out_message;
  *out = NULL;
  trn_status status = check(descriptor, data, size, error);
  if (status) return status;
  ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
  *out = protobuf_c_message_unpack(descriptor, &allocator, size, data);
  if (!*out)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "Malformed message: a field of the wrong kind in %s, or it needs too much memory",
                         descriptor->name);
  return TRN_OK;
}

/* One field of a message without a descriptor: its number, and the bytes of a length-delimited one. */
static bool next_field(const uint8_t **at, const uint8_t *end, uint64_t *number, bool *is_bytes, trn_str *bytes) {
  uint64_t tag, size;
  if (!trn__wire_varint(at, end, &tag) || tag >> 32 || tag >> 3 == 0) return false;
  *number = tag >> 3;
  *is_bytes = (tag & 7) == 2;
  switch (tag & 7) {
  case 0: return trn__wire_varint(at, end, &size);
  case 1:
  case 5: {
    size_t fixed = (tag & 7) == 1 ? 8 : 4;
    if ((size_t)(end - *at) < fixed) return false;
    *at += fixed;
    return true;
  }
  case 2: break;
  default: return false;
  }
  if (!trn__wire_varint(at, end, &size) || size > (uint64_t)(end - *at)) return false;
  *bytes = (trn_str){(const char *)*at, (size_t)size};
  *at += size;
  return true;
}

bool flight__any(const void *data, size_t size, trn_str *type_url, trn_str *value) {
  const uint8_t *at = data, *end = size ? at + size : at;
  *type_url = (trn_str){"", 0};
  *value = (trn_str){"", 0};
  while (size && at != end) {
    uint64_t number;
    bool is_bytes;
    trn_str bytes;
    if (!next_field(&at, end, &number, &is_bytes, &bytes)) return false;
    if (number > 2 || !is_bytes) return false;
    *(number == 1 ? type_url : value) = bytes;
  }
  return type_url->size > 0;
}

void flight__message_put(trn_strbuf *out, const ProtobufCMessage *message) {
  size_t size = protobuf_c_message_get_packed_size(message);
  void *at = size ? trn__strbuf_extend(out, size) : NULL;
  if (at) protobuf_c_message_pack(message, at);
}

void flight__any_put(trn_strbuf *out, const char *type_url, const ProtobufCMessage *message) {
  trn__strbuf_putc(out, 0x0A);
  trn__strbuf_varint(out, strlen(type_url));
  trn__strbuf_puts(out, type_url);
  size_t size = protobuf_c_message_get_packed_size(message);
  if (!size) return;
  trn__strbuf_putc(out, 0x12);
  trn__strbuf_varint(out, size);
  flight__message_put(out, message);
}

trn_status flight__data_parse(const void *bytes, size_t size, flight_data *out, trn_error **error) {
  const uint8_t *at = bytes, *end = size ? at + size : at;
  *out = (flight_data){0};
  while (size && at != end) {
    uint64_t number;
    bool is_bytes;
    trn_str value;
    if (!next_field(&at, end, &number, &is_bytes, &value))
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Malformed message: arrow.flight.protocol.FlightData");
    if (!is_bytes) continue;
    if (number == 1) out->descriptor = value, out->has_descriptor = true;
    if (number == 2) out->header = value;
    if (number == 3) out->metadata = value;
    if (number == 1000) out->body = value;
  }
  return TRN_OK;
}

char *flight__base64_decode(trn_arena *arena, const char *text, size_t size, size_t *out_size) {
  while (size && text[size - 1] == '=') size--;
  char *out = trn__arena_alloc(arena, size / 4 * 3 + 4);
  if (!out || !trn__base64_decode(text, size, TRN_BASE64_PLAIN | TRN_BASE64_URL, (uint8_t *)out, out_size)) return NULL;
  out[*out_size] = 0;
  return out;
}
