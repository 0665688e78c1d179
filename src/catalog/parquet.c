/* How many rows a parquet file has, out of its footer: a struct in Thrift's compact protocol, whose third field is num_rows.
 * Files are ours, but nothing is believed. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/warehouse.h"

enum { FOOTER_MAX = 64 << 20, NESTING_MAX = 32 };

typedef struct thrift {
  const uint8_t *at, *end;
  bool failed;
} thrift;

static uint64_t varint(thrift *t) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (t->at >= t->end) break;
    uint8_t byte = *t->at++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (!(byte & 0x80)) return value;
  }
  t->failed = true;
  return 0;
}

static int64_t zigzag(thrift *t) {
  uint64_t v = varint(t);
  return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static void skip_bytes(thrift *t, uint64_t size) {
  if (size > (uint64_t)(t->end - t->at))
    t->failed = true;
  else
    t->at += size;
}

static void skip(thrift *t, unsigned type, unsigned depth);

/* A field's head: its type, 0 at the end of the struct. */
static unsigned field(thrift *t, int64_t *id) {
  if (t->at >= t->end) t->failed = true;
  if (t->failed) return 0;
  uint8_t byte = *t->at++;
  if (byte) *id = byte >> 4 ? *id + (byte >> 4) : zigzag(t);
  return byte & 0x0F;
}

static void skip_struct(thrift *t, unsigned depth) {
  int64_t id = 0;
  for (unsigned type; !t->failed && (type = field(t, &id));) skip(t, type, depth);
}

static void skip_list(thrift *t, unsigned depth) {
  if (t->at >= t->end) t->failed = true;
  if (t->failed) return;
  uint8_t head = *t->at++;
  uint64_t count = head >> 4 == 15 ? varint(t) : head >> 4;
  for (uint64_t i = 0; i < count && !t->failed; i++) {
    if ((head & 0x0F) <= 2) /* booleans in lists take a byte */
      skip_bytes(t, 1);
    else
      skip(t, head & 0x0F, depth);
  }
}

static void skip(thrift *t, unsigned type, unsigned depth) {
  if (depth > NESTING_MAX) t->failed = true;
  if (t->failed) return;
  switch (type) {
  case 1:
  case 2: return; /* the value is in the head */
  case 3: skip_bytes(t, 1); return;
  case 4:
  case 5:
  case 6: varint(t); return;
  case 7: skip_bytes(t, 8); return;
  case 8: skip_bytes(t, varint(t)); return;
  case 9:
  case 10: skip_list(t, depth + 1); return;
  case 12: skip_struct(t, depth + 1); return;
  default: t->failed = true; /* maps are not in this struct */
  }
}

static int64_t rows_of(const uint8_t *footer, size_t size) {
  thrift t = {footer, footer + size, false};
  int64_t id = 0;
  for (unsigned type; !t.failed && (type = field(&t, &id));) {
    if (id == 3 && type == 6) {
      int64_t rows = zigzag(&t);
      return t.failed || rows < 0 ? -1 : rows;
    }
    skip(&t, type, 0);
  }
  return -1;
}

int64_t trn__parquet_rows(const char *path) {
  uint8_t tail[8];
  struct stat info;
  int64_t rows = -1;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  if (fstat(file, &info) == 0 && info.st_size >= 12 && pread(file, tail, 8, info.st_size - 8) == 8 &&
      memcmp(tail + 4, "PAR1", 4) == 0) {
    uint32_t size = (uint32_t)tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 | (uint32_t)tail[3] << 24;
    uint8_t *footer = size && size <= FOOTER_MAX && (int64_t)size <= info.st_size - 12 ? malloc(size) : NULL;
    if (footer && pread(file, footer, size, info.st_size - 8 - (int64_t)size) == (ssize_t)size)
      rows = rows_of(footer, size);
    free(footer);
  }
  close(file);
  return rows;
}
