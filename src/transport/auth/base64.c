/* Base64, strict: one text per value, so that a token has no second spelling. */
#include "auth.h"

static int digit_of(char c, bool url) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == (url ? '-' : '+')) return 62;
  if (c == (url ? '_' : '/')) return 63;
  return -1;
}

bool trn__auth_base64_decode(const char *text, size_t size, bool url, uint8_t *out, size_t *out_size) {
  uint32_t bits = 0;
  unsigned have = 0;
  size_t at = 0;
  if (size % 4 == 1) return false;
  for (size_t i = 0; i < size; i++) {
    int digit = digit_of(text[i], url);
    if (digit < 0) return false;
    bits = bits << 6 | (uint32_t)digit;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out[at++] = (uint8_t)(bits >> have);
    bits &= (1u << have) - 1;
  }
  *out_size = at;
  return bits == 0;
}

bool trn__auth_base64_decode_padded(const char *text, size_t size, uint8_t *out, size_t *out_size) {
  if (size && size % 4 == 0 && text[size - 1] == '=') size -= text[size - 2] == '=' ? 2 : 1;
  return trn__auth_base64_decode(text, size, false, out, out_size);
}

void trn__auth_base64_encode(const uint8_t *data, size_t size, bool url, char *out) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static const char for_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const char *digits = url ? for_url : plain;
  for (size_t i = 0; i < size; i += 3) {
    size_t count = size - i < 3 ? size - i : 3;
    uint32_t bits = (uint32_t)data[i] << 16;
    if (count > 1) bits |= (uint32_t)data[i + 1] << 8;
    if (count > 2) bits |= data[i + 2];
    for (size_t k = 0; k <= count; k++) *out++ = digits[bits >> (18 - 6 * k) & 63];
  }
  *out = 0;
}
