#include "wire.h"
#include <stdint.h>

static bool read_number(const unsigned char **at, const unsigned char *end, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
    unsigned char byte = *(*at)++;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

bool wire_read(const void *message, size_t size, piece *fields, size_t count) {
  static const unsigned char none;
  const unsigned char *at = size ? message : &none, *end = at + size;
  for (size_t i = 0; i < count; i++) fields[i] = (piece){&none, 0};
  while (at < end) {
    uint64_t tag, length;
    if (!read_number(&at, end, &tag) || (tag & 7) != 2) return false;
    if (!read_number(&at, end, &length) || length > (uint64_t)(end - at)) return false;
    if (tag >> 3 < count) fields[tag >> 3] = (piece){at, (size_t)length};
    at += length;
  }
  return true;
}
