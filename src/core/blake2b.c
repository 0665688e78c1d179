/* BLAKE2b, as RFC 7693 gives it. */
#include "core/blake2b.h"

enum { DIGEST_BYTES = 16, BLOCK_BYTES = 128, ROUNDS = 12 };

static const uint64_t iv[8] = {0x6A09E667F3BCC908ull, 0xBB67AE8584CAA73Bull, 0x3C6EF372FE94F82Bull,
                               0xA54FF53A5F1D36F1ull, 0x510E527FADE682D1ull, 0x9B05688C2B3E6C1Full,
                               0x1F83D9ABFB41BD6Bull, 0x5BE0CD19137E2179ull};

static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static uint64_t rotate(uint64_t x, unsigned bits) {
  return x >> bits | x << (64 - bits);
}

static void mix(uint64_t *v, unsigned a, unsigned b, unsigned c, unsigned d, uint64_t x, uint64_t y) {
  v[a] += v[b] + x;
  v[d] = rotate(v[d] ^ v[a], 32);
  v[c] += v[d];
  v[b] = rotate(v[b] ^ v[c], 24);
  v[a] += v[b] + y;
  v[d] = rotate(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotate(v[b] ^ v[c], 63);
}

static void compress(trn_blake2b *hash, const uint8_t *block, bool is_last) {
  uint64_t v[16], m[16];
  memcpy(m, block, sizeof m); /* little-endian hosts, as everywhere here */
  for (unsigned i = 0; i < 8; i++) {
    v[i] = hash->state[i];
    v[i + 8] = iv[i];
  }
  v[12] ^= hash->total;
  if (is_last) v[14] = ~v[14];
  for (unsigned r = 0; r < ROUNDS; r++) {
    const uint8_t *s = sigma[r % 10];
    mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
    mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
    mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
    mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
    mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
    mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
    mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
    mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
  }
  for (unsigned i = 0; i < 8; i++) hash->state[i] ^= v[i] ^ v[i + 8];
}

void trn__blake2b_init(trn_blake2b *hash) {
  memcpy(hash->state, iv, sizeof iv);
  hash->state[0] ^= 0x01010000 ^ DIGEST_BYTES;
  hash->total = 0;
  hash->used = 0;
}

void trn__blake2b_add(trn_blake2b *hash, const void *data, size_t size) {
  const uint8_t *at = data;
  while (size) {
    if (hash->used == BLOCK_BYTES) { /* full, and not the last */
      hash->total += BLOCK_BYTES;
      compress(hash, hash->block, false);
      hash->used = 0;
    }
    size_t take = BLOCK_BYTES - hash->used < size ? BLOCK_BYTES - hash->used : size;
    memcpy(hash->block + hash->used, at, take);
    hash->used += take;
    at += take;
    size -= take;
  }
}

void trn__blake2b_end(trn_blake2b *hash, uint8_t out[16]) {
  hash->total += hash->used;
  memset(hash->block + hash->used, 0, BLOCK_BYTES - hash->used);
  compress(hash, hash->block, true);
  for (unsigned i = 0; i < DIGEST_BYTES; i++) out[i] = (uint8_t)(hash->state[i / 8] >> (8 * (i % 8)));
}
