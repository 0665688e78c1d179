/* Protobuf as bytes: the few messages that a client of Ballista reads and writes, without a copy of what is large
 * (plans, bodies of record batches). What is read came from outside: every size is checked, nothing recurses. Internal.
 */
#ifndef TRN_BACKEND_BALLISTA_WIRE_H
#define TRN_BACKEND_BALLISTA_WIRE_H
#include "core/core.h"

/* ---- reading ---- */
typedef struct trn_wire_reader {
  const uint8_t *at, *end;
  bool is_bad; /* sticky: cut off, or no protobuf */
} trn_wire_reader;
/* One field; `bytes` of a length-delimited one lie in the message. */
typedef struct trn_wire_field {
  uint32_t number;
  unsigned type;  /* 0 varint, 1 fixed64, 2 bytes, 5 fixed32 */
  uint64_t value; /* of types 0, 1 and 5 */
  trn_str bytes;  /* of type 2 */
} trn_wire_field;
trn_wire_reader trn__wire_reader(const void *data, size_t size);
/* False: the end, or `is_bad`. */
bool trn__wire_next(trn_wire_reader *reader, trn_wire_field *out);
static inline trn_wire_reader trn__wire_inside(const trn_wire_field *field) {
  return trn__wire_reader(field->bytes.data, field->bytes.size);
}

/* ---- writing ---- */
void trn__wire_put_varint(trn_strbuf *out, uint64_t value);
void trn__wire_put_number(trn_strbuf *out, uint32_t field, uint64_t value); /* also 0: of optional fields */
void trn__wire_put_bytes(trn_strbuf *out, uint32_t field, const void *data, size_t size);
void trn__wire_put_text(trn_strbuf *out, uint32_t field, const char *text); /* nothing for NULL and "" */
void trn__wire_put_head(trn_strbuf *out, uint32_t field, size_t size);      /* of bytes that follow elsewhere */
/* `message` as a field; takes it. */
void trn__wire_put_message(trn_strbuf *out, uint32_t field, trn_strbuf *message);

#endif
