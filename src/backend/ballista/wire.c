/* Protobuf's wire format, by hand. */
#include "core/varint.h"
#include "backend/ballista/wire.h"

trn_wire_reader trn__wire_reader(const void *data, size_t size) {
  const uint8_t *at = data;
  return (trn_wire_reader){at, size ? at + size : at, false};
}

static bool get_varint(trn_wire_reader *r, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70 && r->at < r->end; shift += 7) {
    uint8_t byte = *r->at++;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *out = value;
      return true;
    }
  }
  r->is_bad = true;
  return false;
}

static bool get_fixed(trn_wire_reader *r, size_t size, uint64_t *out) {
  if ((size_t)(r->end - r->at) < size) {
    r->is_bad = true;
    return false;
  }
  *out = 0;
  memcpy(out, r->at, size); /* little endian, as the host's */
  r->at += size;
  return true;
}

bool trn__wire_next(trn_wire_reader *r, trn_wire_field *out) {
  uint64_t tag, size;
  *out = (trn_wire_field){0};
  if (r->is_bad || r->at == r->end || !get_varint(r, &tag)) return false;
  out->type = tag & 7;
  out->number = (uint32_t)(tag >> 3);
  if (tag >> 32 == 0 && out->number != 0) {
    switch (out->type) {
    case 0: return get_varint(r, &out->value);
    case 1: return get_fixed(r, 8, &out->value);
    case 5: return get_fixed(r, 4, &out->value);
    case 2:
      if (!get_varint(r, &size)) return false;
      if (size > (uint64_t)(r->end - r->at)) break;
      out->bytes = (trn_str){(const char *)r->at, (size_t)size};
      r->at += size;
      return true;
    default: break; /* groups are not used */
    }
  }
  r->is_bad = true;
  return false;
}

void trn__wire_put_varint(trn_strbuf *out, uint64_t value) {
  trn__strbuf_varint(out, value);
}

void trn__wire_put_number(trn_strbuf *out, uint32_t field, uint64_t value) {
  trn__wire_put_varint(out, (uint64_t)field << 3);
  trn__wire_put_varint(out, value);
}

void trn__wire_put_head(trn_strbuf *out, uint32_t field, size_t size) {
  trn__wire_put_varint(out, (uint64_t)field << 3 | 2);
  trn__wire_put_varint(out, size);
}

void trn__wire_put_bytes(trn_strbuf *out, uint32_t field, const void *data, size_t size) {
  trn__wire_put_head(out, field, size);
  if (size) trn__strbuf_add(out, data, size);
}

void trn__wire_put_text(trn_strbuf *out, uint32_t field, const char *text) {
  if (text && *text) trn__wire_put_bytes(out, field, text, strlen(text));
}

void trn__wire_put_message(trn_strbuf *out, uint32_t field, trn_strbuf *message) {
  if (message->failed) out->failed = true;
  trn__wire_put_bytes(out, field, message->data, message->size);
  trn__strbuf_finish(message);
}
