/* Checks of protobuf bytes from outside. */
#include "frontend/wire/wire.h"

typedef struct wire_frame {
  const ProtobufCMessageDescriptor *descriptor;
  const uint8_t *end;
} wire_frame;

typedef struct wire_reader {
  const uint8_t *at;
  wire_frame *top;
  wire_frame stack[TRN_WIRE_DEPTH_MAX];
} wire_reader;

bool trn__wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
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

/* Looks at one field; enters a message. Gives what is wrong, or NULL. */
static const char *read_field(wire_reader *reader, const trn_wire_limits *limits, size_t *nodes) {
  const uint8_t *end = reader->top->end;
  uint64_t tag, size;
  if (!trn__wire_varint(&reader->at, end, &tag) || tag >> 32 || tag >> 3 == 0) return "a malformed field";
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field(reader->top->descriptor, (unsigned)(tag >> 3));
  if (field && limits->reserved && field->id >= limits->reserved) return "a reserved field";
  size_t left = (size_t)(end - reader->at);
  switch (tag & 7) {
  case 0: return trn__wire_varint(&reader->at, end, &size) ? NULL : "a malformed number";
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
  if (!trn__wire_varint(&reader->at, end, &size) || size > (uint64_t)(end - reader->at)) return "a truncated field";
  if (field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
    if (reader->top == &reader->stack[limits->depth_max - 1]) return "too many levels of nesting";
    if (++*nodes > limits->nodes_max) return "too many messages";
    *++reader->top = (wire_frame){field->descriptor, reader->at + size};
    return NULL;
  }
  if (field && field->type == PROTOBUF_C_TYPE_STRING) {
    if (size && memchr(reader->at, 0, size)) return "a text with a NUL character";
    if (!trn__utf8_is_valid(reader->at, size)) return "a text that is not UTF-8";
  }
  reader->at += size;
  return NULL;
}

const char *trn__wire_check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                            const trn_wire_limits *limits, const char **where) {
  static const uint8_t nothing[1];
  wire_reader reader;
  reader.at = size ? data : nothing;
  reader.top = reader.stack;
  *reader.top = (wire_frame){descriptor, reader.at + size};
  const char *wrong = NULL;
  size_t nodes = 1, fields = 0;
  while (!wrong) {
    while (reader.at == reader.top->end) {
      if (reader.top == reader.stack) return NULL;
      reader.top--;
    }
    /* An empty element costs two bytes here and a pointer there: fields are bounded like messages. */
    if (++fields > limits->nodes_max * 4) wrong = "too many fields";
    if (!wrong) wrong = read_field(&reader, limits, &nodes);
  }
  *where = reader.top->descriptor->name;
  return wrong;
}
