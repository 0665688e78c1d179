/* Bytes from outside: protobuf messages are checked before protobuf-c recurses over them; Any and FlightData are read by
 * hand, their values borrowed. */
#include <stdio.h>

#include "frontend/flight/flight.h"

typedef struct wire_frame {
  const ProtobufCMessageDescriptor *descriptor;
  const uint8_t *end;
} wire_frame;

typedef struct wire_reader {
  const uint8_t *at;
  wire_frame *top;
  wire_frame stack[TRN_FLIGHT_WIRE_DEPTH_MAX];
} wire_reader;

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (*at == end) return false;
    uint8_t byte = *(*at)++;
    if (shift < 64) value |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) {
      *out = value;
      return true;
    }
  }
  return false;
}

static size_t utf8_sequence(const uint8_t *at, size_t size) {
  uint8_t c = at[0];
  size_t need = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (!need || need > size) return 0;
  for (size_t i = 1; i < need; i++)
    if ((at[i] & 0xC0) != 0x80) return 0;
  if ((c == 0xE0 && at[1] < 0xA0) || (c == 0xED && at[1] > 0x9F) || (c == 0xF0 && at[1] < 0x90) ||
      (c == 0xF4 && at[1] > 0x8F))
    return 0;
  return need;
}

bool flight__utf8_is_valid(const void *data, size_t size) {
  const uint8_t *at = data;
  while (size) {
    size_t step = utf8_sequence(at, size);
    if (!step) return false;
    at += step;
    size -= step;
  }
  return true;
}

/* Looks at one field; enters a message. Gives what is wrong, or NULL. */
static const char *read_field(wire_reader *reader, size_t *nodes) {
  const uint8_t *end = reader->top->end;
  uint64_t tag, size;
  if (!read_varint(&reader->at, end, &tag) || tag >> 32 || tag >> 3 == 0) return "a malformed field";
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field(reader->top->descriptor, (unsigned)(tag >> 3));
  size_t left = (size_t)(end - reader->at);
  switch (tag & 7) {
  case 0: return read_varint(&reader->at, end, &size) ? NULL : "a malformed number";
  case 1:
  case 5: {
    size_t fixed = (tag & 7) == 1 ? 8 : 4;
    if (left < fixed) return "a truncated number";
    reader->at += fixed;
    return NULL;
  }
  case 2: break;
  default: return "a group";
  }
  if (!read_varint(&reader->at, end, &size) || size > (uint64_t)(end - reader->at)) return "a truncated field";
  if (field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
    if (reader->top == &reader->stack[TRN_FLIGHT_WIRE_DEPTH_MAX - 1]) return "too many levels of nesting";
    if (++*nodes > TRN_FLIGHT_WIRE_NODES_MAX) return "too many messages";
    *++reader->top = (wire_frame){field->descriptor, reader->at + size};
    return NULL;
  }
  if (field && field->type == PROTOBUF_C_TYPE_STRING) {
    if (size && memchr(reader->at, 0, size)) return "a text with a NUL character";
    if (!flight__utf8_is_valid(reader->at, size)) return "a text that is not UTF-8";
  }
  reader->at += size;
  return NULL;
}

static trn_status check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size, trn_error **error) {
  static const uint8_t nothing[1];
  wire_reader reader;
  reader.at = size ? data : nothing;
  reader.top = reader.stack;
  *reader.top = (wire_frame){descriptor, reader.at + size};
  const char *wrong = NULL;
  size_t nodes = 1, fields = 0;
  while (!wrong) {
    while (reader.at == reader.top->end) {
      if (reader.top == reader.stack) return TRN_OK;
      reader.top--;
    }
    if (++fields > (size_t)TRN_FLIGHT_WIRE_NODES_MAX * 4) wrong = "too many fields";
    if (!wrong) wrong = read_field(&reader, &nodes);
  }
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Malformed message: %s in %s", wrong,
                       reader.top->descriptor->name);
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
  if (!read_varint(at, end, &tag) || tag >> 32 || tag >> 3 == 0) return false;
  *number = tag >> 3;
  *is_bytes = (tag & 7) == 2;
  switch (tag & 7) {
  case 0: return read_varint(at, end, &size);
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
  if (!read_varint(at, end, &size) || size > (uint64_t)(end - *at)) return false;
  *bytes = (trn_str){(const char *)*at, (size_t)size};
  *at += size;
  return true;
}

bool flight__any(const void *data, size_t size, trn_str *type_url, trn_str *value) {
  const uint8_t *at = data, *end = at + size;
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

static void put_varint(trn_strbuf *out, uint64_t value) {
  do {
    trn__strbuf_putc(out, (char)((value & 127) | (value > 127 ? 128 : 0)));
  } while (value >>= 7);
}

void flight__message_put(trn_strbuf *out, const ProtobufCMessage *message) {
  size_t size = protobuf_c_message_get_packed_size(message);
  void *at = size ? trn__strbuf_extend(out, size) : NULL;
  if (at) protobuf_c_message_pack(message, at);
}

void flight__any_put(trn_strbuf *out, const char *type_url, const ProtobufCMessage *message) {
  trn__strbuf_putc(out, 0x0A);
  put_varint(out, strlen(type_url));
  trn__strbuf_puts(out, type_url);
  size_t size = protobuf_c_message_get_packed_size(message);
  if (!size) return;
  trn__strbuf_putc(out, 0x12);
  put_varint(out, size);
  flight__message_put(out, message);
}

trn_status flight__data_parse(const void *bytes, size_t size, flight_data *out, trn_error **error) {
  const uint8_t *at = bytes, *end = at + size;
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

static int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

char *flight__base64_decode(trn_arena *arena, const char *text, size_t size, size_t *out_size) {
  while (size && text[size - 1] == '=') size--;
  char *out = size % 4 == 1 ? NULL : trn__arena_alloc(arena, size / 4 * 3 + 4);
  if (!out) return NULL;
  uint32_t bits = 0;
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    int digit = base64_digit(text[i]);
    if (digit < 0) return NULL;
    bits = bits << 6 | (uint32_t)digit;
    if (i % 4 > 0) out[used++] = (char)(bits >> (6 - 2 * (i % 4)));
  }
  out[used] = 0;
  *out_size = used;
  return out;
}
