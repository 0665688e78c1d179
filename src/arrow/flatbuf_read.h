/* Reading flatbuffers without trust: every position is checked before it is looked at. Internal to src/arrow. */
#ifndef TRN_ARROW_FLATBUF_READ_H
#define TRN_ARROW_FLATBUF_READ_H
#include "core/core.h"

typedef struct reader {
  const uint8_t *data;
  size_t size;
  bool bad; /* sticky */
} reader;

typedef struct table {
  size_t at, vtable;
  uint16_t vtable_size, size;
} table;

static inline uint64_t get(reader *r, size_t at, size_t width) {
  uint64_t value = 0;
  if (at > r->size || width > r->size - at) {
    r->bad = true;
    return 0;
  }
  memcpy(&value, r->data + at, width);
  return value;
}

static inline table table_at(reader *r, size_t at) {
  table t = {.at = at};
  int32_t back = (int32_t)get(r, at, 4);
  int64_t vtable = (int64_t)at - back;
  if (r->bad || vtable < 0 || (size_t)vtable > r->size) {
    r->bad = true;
    return t;
  }
  t.vtable = (size_t)vtable;
  t.vtable_size = (uint16_t)get(r, t.vtable, 2);
  t.size = (uint16_t)get(r, t.vtable + 2, 2);
  if (t.vtable_size < 4 || t.vtable_size > r->size - t.vtable || t.size < 4 || t.size > r->size - at) r->bad = true;
  return t;
}

/* Where a field is; 0: it has its default. */
static inline size_t field_at(reader *r, const table *t, unsigned index, size_t width) {
  size_t entry = 4 + 2 * (size_t)index;
  if (r->bad || entry + 2 > t->vtable_size) return 0;
  size_t offset = (size_t)get(r, t->vtable + entry, 2);
  if (!offset) return 0;
  if (offset + width > t->size) {
    r->bad = true;
    return 0;
  }
  return t->at + offset;
}

static inline int64_t number(reader *r, const table *t, unsigned index, size_t width, int64_t absent) {
  size_t at = field_at(r, t, index, width);
  if (!at) return absent;
  uint64_t value = get(r, at, width);
  return width == 2 ? (int16_t)value : width == 4 ? (int32_t)value : (int64_t)value;
}

/* What an offset field refers to; 0: nothing. */
static inline size_t follow(reader *r, const table *t, unsigned index) {
  size_t at = field_at(r, t, index, 4);
  if (!at) return 0;
  size_t to = at + (size_t)get(r, at, 4);
  if (to >= r->size || to == at) r->bad = true;
  return r->bad ? 0 : to;
}

/* A vector's items of `width` bytes; the count in *count. */
static inline size_t vector(reader *r, const table *t, unsigned index, size_t width, size_t *count) {
  size_t at = follow(r, t, index);
  *count = 0;
  if (!at) return 0;
  size_t n = (size_t)get(r, at, 4);
  if (r->bad || n > (r->size - at - 4) / width || n > TRN_IPC_READ_NODES_MAX) {
    r->bad = true;
    return 0;
  }
  *count = n;
  return at + 4;
}

/* The C data format of a type without children, by its number in Schema.fbs (ipc_read.c). UNIMPLEMENTED names others. */
trn_status trn__ipc_flat_format(reader *r, unsigned type, const table *t, char out[160], trn_error **error);

#endif
