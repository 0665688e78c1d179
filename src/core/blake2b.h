/* BLAKE2b (RFC 7693), unkeyed, with digests of 16 bytes: for keys that an attacker must not make collide. */
#ifndef TRN_CORE_BLAKE2B_H
#define TRN_CORE_BLAKE2B_H
#include "core/core.h"

typedef struct trn_blake2b {
  uint64_t state[8], total;
  uint8_t block[128];
  size_t used;
} trn_blake2b;

void trn__blake2b_init(trn_blake2b *hash);
void trn__blake2b_add(trn_blake2b *hash, const void *data, size_t size);
void trn__blake2b_end(trn_blake2b *hash, uint8_t out[16]);

#endif
