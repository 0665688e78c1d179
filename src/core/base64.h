/* Base64, read and written. Header only: the server's library needs it too, and sees no inside of the core. Internal.
 */
#ifndef TRN_CORE_BASE64_H
#define TRN_CORE_BASE64_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {                       /* what is taken; without padding in any case */
       TRN_BASE64_PLAIN = 1, /* '+' and '/' */
       TRN_BASE64_URL = 2,   /* '-' and '_' */
       TRN_BASE64_EXACT = 4  /* one spelling per value: the bits behind the last byte are zero */
};

static inline int trn__base64_digit(char c, unsigned flags) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if ((c == '+' && flags & TRN_BASE64_PLAIN) || (c == '-' && flags & TRN_BASE64_URL)) return 62;
  return (c == '/' && flags & TRN_BASE64_PLAIN) || (c == '_' && flags & TRN_BASE64_URL) ? 63 : -1;
}

/* `out` has room for size * 3 / 4 bytes. False: this is none. */
static inline bool trn__base64_decode(const char *text, size_t size, unsigned flags, uint8_t *out, size_t *out_size) {
  uint32_t bits = 0;
  unsigned have = 0;
  size_t at = 0;
  if (size % 4 == 1) return false;
  for (size_t i = 0; i < size; i++) {
    int digit = trn__base64_digit(text[i], flags);
    if (digit < 0) return false;
    bits = bits << 6 | (uint32_t)digit;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out[at++] = (uint8_t)(bits >> have);
    bits &= (1u << have) - 1;
  }
  *out_size = at;
  return !(flags & TRN_BASE64_EXACT) || bits == 0;
}

/* Of the text, without padding. */
static inline size_t trn__base64_size(size_t size) {
  return size / 3 * 4 + (size % 3 ? size % 3 + 1 : 0);
}

/* Writes trn__base64_size(size) characters; no NUL. `flags`: PLAIN or URL. */
static inline void trn__base64_encode(const void *data, size_t size, unsigned flags, char *out) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static const char for_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const char *digits = flags & TRN_BASE64_URL ? for_url : plain;
  const uint8_t *bytes = data;
  for (size_t i = 0; i < size; i += 3) {
    size_t count = size - i < 3 ? size - i : 3;
    uint32_t bits = (uint32_t)bytes[i] << 16;
    if (count > 1) bits |= (uint32_t)bytes[i + 1] << 8;
    if (count > 2) bits |= bytes[i + 2];
    for (size_t k = 0; k <= count; k++) *out++ = digits[bits >> (18 - 6 * k) & 63];
  }
}

#endif
