/* XXH64 (Yann Collet's public specification): fast, well mixed, stable across runs and machines. */
#include "core/core.h"

static const uint64_t P1 = 0x9E3779B185EBCA87ull, P2 = 0xC2B2AE3D27D4EB4Full, P3 = 0x165667B19E3779F9ull,
                      P4 = 0x85EBCA77C2B2AE63ull, P5 = 0x27D4EB2F165667C5ull;

static uint64_t rotate(uint64_t x, unsigned bits) {
  return (x << bits) | (x >> (64 - bits));
}

static uint64_t read64(const unsigned char *p) {
  uint64_t x = 0;
  for (unsigned i = 0; i < 8; i++) x |= (uint64_t)p[i] << (8 * i); /* compilers make one load of it */
  return x;
}

static uint64_t read32(const unsigned char *p) {
  return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static uint64_t mix(uint64_t lane, uint64_t input) {
  return rotate(lane + input * P2, 31) * P1;
}

static uint64_t merge(uint64_t hash, uint64_t lane) {
  return (hash ^ mix(0, lane)) * P1 + P4;
}

uint64_t trn__hash(const void *data, size_t size, uint64_t seed) {
  const unsigned char *p = data;
  size_t left = size;
  uint64_t hash;
  if (size >= 32) {
    uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
    for (; left >= 32; left -= 32, p += 32) {
      a = mix(a, read64(p));
      b = mix(b, read64(p + 8));
      c = mix(c, read64(p + 16));
      d = mix(d, read64(p + 24));
    }
    hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  } else {
    hash = seed + P5;
  }
  hash += (uint64_t)size;
  for (; left >= 8; left -= 8, p += 8) hash = rotate(hash ^ mix(0, read64(p)), 27) * P1 + P4;
  if (left >= 4) {
    hash = rotate(hash ^ read32(p) * P1, 23) * P2 + P3;
    left -= 4;
    p += 4;
  }
  for (; left; left--, p++) hash = rotate(hash ^ *p * P5, 11) * P1;
  hash = (hash ^ hash >> 33) * P2;
  hash = (hash ^ hash >> 29) * P3;
  return hash ^ hash >> 32;
}
