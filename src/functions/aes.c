/* AES (FIPS 197) with 128, 192 and 256 bit keys; ECB and CBC with PKCS padding, GCM (SP 800-38D). Tables are small and
 * depend on no secret but by index, as any table-driven AES: good for columns of data, not for a hostile neighbour. */
#include "functions/aes.h"
#include <string.h>

static const uint8_t SBOX[256] = {
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76, 0xca, 0x82, 0xc9,
    0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0, 0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f,
    0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15, 0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07,
    0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75, 0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6, 0xb3,
    0x29, 0xe3, 0x2f, 0x84, 0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58,
    0xcf, 0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8, 0x51, 0xa3,
    0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5, 0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2, 0xcd, 0x0c, 0x13, 0xec, 0x5f,
    0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73, 0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88,
    0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb, 0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac,
    0x62, 0x91, 0x95, 0xe4, 0x79, 0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a,
    0xae, 0x08, 0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a, 0x70,
    0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e, 0xe1, 0xf8, 0x98, 0x11,
    0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf, 0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42,
    0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16};

static uint8_t twice(uint8_t x) {
  return (uint8_t)(x << 1 ^ (x >> 7) * 0x1b);
}

bool fn__aes_open(fn_aes *aes, const void *key, size_t size) {
  if (size != 16 && size != 24 && size != 32) return false;
  size_t words = size / 4;
  uint8_t constant = 1;
  aes->rounds = (int)words + 6;
  memcpy(aes->keys, key, size);
  for (size_t i = words; i < 4 * ((size_t)aes->rounds + 1); i++) {
    uint8_t word[4], *at = aes->keys + 4 * i;
    memcpy(word, at - 4, 4);
    if (i % words == 0) {
      uint8_t first = word[0];
      word[0] = SBOX[word[1]] ^ constant, word[1] = SBOX[word[2]], word[2] = SBOX[word[3]], word[3] = SBOX[first];
      constant = twice(constant);
    } else if (words > 6 && i % words == 4) {
      for (int k = 0; k < 4; k++) word[k] = SBOX[word[k]];
    }
    for (int k = 0; k < 4; k++) at[k] = at[k - (int)size] ^ word[k];
  }
  for (int i = 0; i < 256; i++) aes->inverse[SBOX[i]] = (uint8_t)i;
  return true;
}

static void add_key(const fn_aes *aes, int round, uint8_t s[16]) {
  for (int i = 0; i < 16; i++) s[i] ^= aes->keys[16 * round + i];
}

static void encrypt_block(const fn_aes *aes, const uint8_t in[16], uint8_t out[16]) {
  uint8_t s[16], t[16];
  memcpy(s, in, 16);
  add_key(aes, 0, s);
  for (int round = 1; round <= aes->rounds; round++) {
    for (int i = 0; i < 16; i++) t[i] = SBOX[s[(i + 4 * (i % 4)) % 16]];
    for (int c = 0; c < 16 && round < aes->rounds; c += 4) {
      uint8_t *v = t + c, all = v[0] ^ v[1] ^ v[2] ^ v[3], first = v[0];
      for (int k = 0; k < 3; k++) v[k] ^= all ^ twice(v[k] ^ v[k + 1]);
      v[3] ^= all ^ twice(v[3] ^ first);
    }
    memcpy(s, t, 16);
    add_key(aes, round, s);
  }
  memcpy(out, s, 16);
}

static void unmix(uint8_t v[4]) {
  uint8_t a = twice(twice(v[0] ^ v[2])), b = twice(twice(v[1] ^ v[3]));
  v[0] ^= a, v[2] ^= a, v[1] ^= b, v[3] ^= b;
  uint8_t all = v[0] ^ v[1] ^ v[2] ^ v[3], first = v[0];
  for (int k = 0; k < 3; k++) v[k] ^= all ^ twice(v[k] ^ v[k + 1]);
  v[3] ^= all ^ twice(v[3] ^ first);
}

static void decrypt_block(const fn_aes *aes, const uint8_t in[16], uint8_t out[16]) {
  uint8_t s[16], t[16];
  memcpy(s, in, 16);
  for (int round = aes->rounds; round > 0; round--) {
    add_key(aes, round, s);
    for (int c = 0; c < 16 && round < aes->rounds; c += 4) unmix(s + c);
    for (int i = 0; i < 16; i++) t[(i + 4 * (i % 4)) % 16] = aes->inverse[s[i]];
    memcpy(s, t, 16);
  }
  add_key(aes, 0, s);
  memcpy(out, s, 16);
}

/* ---- blocks with padding ---- */
size_t fn__aes_encrypt_blocks(const fn_aes *aes, const uint8_t *iv, const uint8_t *in, size_t size, uint8_t *out) {
  uint8_t block[16], last[16] = {0};
  size_t padding = 16 - size % 16;
  if (iv) memcpy(last, iv, 16);
  for (size_t at = 0; at < size + padding; at += 16) {
    for (size_t i = 0; i < 16; i++) block[i] = at + i < size ? in[at + i] : (uint8_t)padding;
    for (size_t i = 0; i < 16 && iv; i++) block[i] ^= last[i];
    encrypt_block(aes, block, out + at);
    memcpy(last, out + at, 16);
  }
  return size + padding;
}

bool fn__aes_decrypt_blocks(const fn_aes *aes, const uint8_t *iv, const uint8_t *in, size_t size, uint8_t *out,
                            size_t *out_size) {
  uint8_t last[16] = {0};
  if (size == 0 || size % 16) return false;
  if (iv) memcpy(last, iv, 16);
  for (size_t at = 0; at < size; at += 16) {
    decrypt_block(aes, in + at, out + at);
    for (size_t i = 0; i < 16 && iv; i++) out[at + i] ^= last[i];
    memcpy(last, in + at, 16);
  }
  uint8_t padding = out[size - 1], wrong = padding == 0 || padding > 16;
  for (size_t i = 1; i <= 16; i++) wrong |= i <= padding && out[size - i] != padding;
  *out_size = wrong ? 0 : size - padding;
  return !wrong;
}

/* ---- GCM ---- */
/* x * h in GF(2^128), bits as GCM counts them: from the left. */
static void multiply(uint8_t x[16], const uint8_t h[16]) {
  uint8_t product[16] = {0}, v[16];
  memcpy(v, h, 16);
  for (int bit = 0; bit < 128; bit++) {
    uint8_t mask = (uint8_t) - (x[bit / 8] >> (7 - bit % 8) & 1), carry = (uint8_t) - (v[15] & 1);
    for (int i = 0; i < 16; i++) product[i] ^= v[i] & mask;
    for (int i = 15; i > 0; i--) v[i] = (uint8_t)(v[i] >> 1 | v[i - 1] << 7);
    v[0] = (uint8_t)(v[0] >> 1 ^ (carry & 0xe1));
  }
  memcpy(x, product, 16);
}

static void hash(uint8_t y[16], const uint8_t h[16], const uint8_t *data, size_t size) {
  for (size_t at = 0; at < size; at += 16) {
    for (size_t i = 0; i < 16 && at + i < size; i++) y[i] ^= data[at + i];
    multiply(y, h);
  }
}

static void count(uint8_t counter[16]) {
  for (int i = 15; i >= 12 && ++counter[i] == 0; i--) continue;
}

static void gcm(const fn_aes *aes, const uint8_t iv[12], const uint8_t *aad, size_t aad_size, const uint8_t *in,
                size_t size, bool encrypts, uint8_t *out, uint8_t tag[16]) {
  uint8_t h[16] = {0}, counter[16] = {0}, mask[16], first[16], sizes[16] = {0};
  encrypt_block(aes, h, h);
  memcpy(counter, iv, 12);
  counter[15] = 1;
  encrypt_block(aes, counter, first);
  memset(tag, 0, 16);
  hash(tag, h, aad, aad_size);
  if (!encrypts) hash(tag, h, in, size);
  for (size_t at = 0; at < size; at += 16) {
    count(counter);
    encrypt_block(aes, counter, mask);
    for (size_t i = 0; i < 16 && at + i < size; i++) out[at + i] = in[at + i] ^ mask[i];
  }
  if (encrypts) hash(tag, h, out, size);
  for (int i = 0; i < 8; i++) {
    sizes[7 - i] = (uint8_t)((uint64_t)aad_size * 8 >> (8 * i));
    sizes[15 - i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
  }
  hash(tag, h, sizes, 16);
  for (int i = 0; i < 16; i++) tag[i] ^= first[i];
}

void fn__aes_encrypt_gcm(const fn_aes *aes, const uint8_t iv[12], const uint8_t *aad, size_t aad_size,
                         const uint8_t *in, size_t size, uint8_t *out) {
  uint8_t tag[16];
  gcm(aes, iv, aad, aad_size, in, size, true, out, tag);
  memcpy(out + size, tag, 16);
}

bool fn__aes_decrypt_gcm(const fn_aes *aes, const uint8_t iv[12], const uint8_t *aad, size_t aad_size,
                         const uint8_t *in, size_t size, uint8_t *out) {
  uint8_t tag[16], wrong = 0;
  if (size < 16) return false;
  gcm(aes, iv, aad, aad_size, in, size - 16, false, out, tag);
  for (size_t i = 0; i < 16; i++) wrong |= tag[i] ^ in[size - 16 + i];
  return wrong == 0;
}
