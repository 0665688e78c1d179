/* Protobuf's numbers of variable length, written. Reading them from outside is trn__wire_varint's. Internal. */
#ifndef TRN_CORE_VARINT_H
#define TRN_CORE_VARINT_H
#include "core/core.h"

#define TRN_VARINT_SIZE_MAX 10

/* Gives where the next byte goes. */
static inline uint8_t *trn__varint_put(uint8_t *at, uint64_t value) {
  for (; value > 127; value >>= 7) *at++ = (uint8_t)(value | 128);
  *at++ = (uint8_t)value;
  return at;
}

static inline void trn__strbuf_varint(trn_strbuf *out, uint64_t value) {
  uint8_t bytes[TRN_VARINT_SIZE_MAX];
  trn__strbuf_add(out, bytes, (size_t)(trn__varint_put(bytes, value) - bytes));
}

/* A field of bytes, text or a message. */
static inline void trn__strbuf_field(trn_strbuf *out, unsigned number, const void *data, size_t size) {
  trn__strbuf_varint(out, (uint64_t)number << 3 | 2);
  trn__strbuf_varint(out, size);
  if (size) trn__strbuf_add(out, data, size);
}

#endif
