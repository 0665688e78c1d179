/* Digests of bytes (RFC 1321, FIPS 180-4, the CRC of zlib). Each gives the size written. */
#ifndef TRN_FUNCTIONS_DIGEST_H
#define TRN_FUNCTIONS_DIGEST_H
#include <stddef.h>
#include <stdint.h>

size_t fn__md5(const char *data, size_t size, unsigned char out[64]);
size_t fn__sha1(const char *data, size_t size, unsigned char out[64]);
/* bits: 224, 256 (also as 0), 384, 512; others give 0. */
size_t fn__sha2(const char *data, size_t size, int bits, unsigned char out[64]);
uint32_t fn__crc32(const char *data, size_t size);
/* Spark's hashes of texts: murmur3 and xxhash64. */
uint32_t fn__murmur3(uint32_t seed, const char *data, size_t size);
uint32_t fn__murmur3_int(uint32_t seed, uint32_t value);
#endif
