/* Hashes of values as Spark has them (murmur3, xxhash64), and digests of bytes. */
#include "functions/calendar.h"
#include "functions/decimal.h"
#include "functions/digest.h"
#include "functions/frame.h"
#include <string.h>

/* ---- murmur3, 32 bits; Spark mixes the last bytes of a text one by one ---- */
static uint32_t rotate32(uint32_t x, int bits) {
  return x << bits | x >> (32 - bits);
}
static uint32_t mix(uint32_t hash, uint32_t k) {
  hash ^= rotate32(k * 0xcc9e2d51u, 15) * 0x1b873593u;
  return rotate32(hash, 13) * 5 + 0xe6546b64u;
}
static uint32_t finish(uint32_t hash, uint32_t size) {
  hash ^= size;
  hash = (hash ^ hash >> 16) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return hash ^ hash >> 16;
}
static uint64_t murmur_int(uint64_t seed, uint32_t value) {
  return finish(mix((uint32_t)seed, value), 4);
}
static uint64_t murmur_long(uint64_t seed, uint64_t value) {
  return finish(mix(mix((uint32_t)seed, (uint32_t)value), (uint32_t)(value >> 32)), 8);
}
static uint64_t murmur_bytes(uint64_t seed, const char *data, size_t size) {
  uint32_t hash = (uint32_t)seed, word;
  size_t at = 0;
  for (; at + 4 <= size; at += 4) {
    memcpy(&word, data + at, 4);
    hash = mix(hash, word);
  }
  for (; at < size; at++) hash = mix(hash, (uint32_t)(int32_t)(signed char)data[at]);
  return finish(hash, (uint32_t)size);
}

/* ---- xxhash64 ---- */
#define P1 0x9E3779B185EBCA87u
#define P2 0xC2B2AE3D27D4EB4Fu
#define P3 0x165667B19E3779F9u
#define P4 0x85EBCA77C2B2AE63u
#define P5 0x27D4EB2F165667C5u
static uint64_t rotate64(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}
static uint64_t avalanche(uint64_t hash) {
  hash = (hash ^ hash >> 33) * P2;
  hash = (hash ^ hash >> 29) * P3;
  return hash ^ hash >> 32;
}
static uint64_t xx_word(uint64_t hash, uint64_t word) {
  return rotate64(hash ^ rotate64(word * P2, 31) * P1, 27) * P1 + P4;
}
static uint64_t xx_half(uint64_t hash, uint32_t word) {
  return rotate64(hash ^ word * P1, 23) * P2 + P3;
}
static uint64_t xx_int(uint64_t seed, uint32_t value) {
  return avalanche(xx_half(seed + P5 + 4, value));
}
static uint64_t xx_long(uint64_t seed, uint64_t value) {
  return avalanche(xx_word(seed + P5 + 8, value));
}
static uint64_t load64(const char *data) {
  uint64_t word;
  memcpy(&word, data, 8);
  return word;
}
static uint64_t xx_bytes(uint64_t seed, const char *data, size_t size) {
  uint64_t hash = seed + P5;
  size_t at = 0;
  if (size >= 32) {
    uint64_t v[4] = {seed + P1 + P2, seed + P2, seed, seed - P1};
    for (; at + 32 <= size; at += 32)
      for (int i = 0; i < 4; i++) v[i] = rotate64(v[i] + load64(data + at + i * 8) * P2, 31) * P1;
    hash = rotate64(v[0], 1) + rotate64(v[1], 7) + rotate64(v[2], 12) + rotate64(v[3], 18);
    for (int i = 0; i < 4; i++) hash = (hash ^ rotate64(v[i] * P2, 31) * P1) * P1 + P4;
  }
  hash += size;
  for (; at + 8 <= size; at += 8) hash = xx_word(hash, load64(data + at));
  if (at + 4 <= size) {
    uint32_t word;
    memcpy(&word, data + at, 4);
    hash = xx_half(hash, word);
    at += 4;
  }
  for (; at < size; at++) hash = rotate64(hash ^ (unsigned char)data[at] * P5, 11) * P1;
  return avalanche(hash);
}

typedef struct hasher {
  uint64_t (*of_int)(uint64_t seed, uint32_t value);
  uint64_t (*of_long)(uint64_t seed, uint64_t value);
  uint64_t (*of_bytes)(uint64_t seed, const char *data, size_t size);
} hasher;
static const hasher HASHERS[] = {{murmur_int, murmur_long, murmur_bytes}, {xx_int, xx_long, xx_bytes}};

/* BigInteger.toByteArray: big endian, the fewest bytes that keep the sign. */
static size_t integer_bytes(fn_i128 value, char out[16]) {
  size_t size = 16;
  for (int i = 0; i < 16; i++) out[i] = (char)(uint8_t)((fn_u128)value >> (120 - 8 * i));
  char *at = out;
  while (size > 1 && ((at[0] == 0 && !(at[1] & 0x80)) || (at[0] == (char)0xff && (at[1] & 0x80)))) at++, size--;
  memmove(out, at, size);
  return size;
}

static uint64_t hash_double(const hasher *h, uint64_t seed, double value) {
  uint64_t bits;
  value = value == 0 ? 0 : value;
  memcpy(&bits, &value, 8);
  return h->of_long(seed, value != value ? 0x7ff8000000000000u : bits);
}

static uint64_t hash_float(const hasher *h, uint64_t seed, float value) {
  uint32_t bits;
  value = value == 0 ? 0 : value;
  memcpy(&bits, &value, 4);
  return h->of_int(seed, value != value ? 0x7fc00000u : bits);
}

static uint64_t hash_value(const hasher *h, uint64_t seed, const fn_column *column, int64_t row, int depth) {
  fn_column child;
  if (fn__is_null(column, row) || depth > FN_NESTING_MAX) return seed;
  switch (column->type.kind) {
  case FN_BOOL: return h->of_int(seed, fn__get_bool(column, row));
  case FN_INT8:
  case FN_INT16:
  case FN_INT32:
  case FN_DATE:
  case FN_YEAR_MONTH: return h->of_int(seed, (uint32_t)fn__get_integer(column, row));
  case FN_FLOAT32: return hash_float(h, seed, (float)fn__get_number(column, row));
  case FN_FLOAT64: return hash_double(h, seed, fn__get_f64(column, row));
  case FN_DECIMAL: {
    char bytes[16];
    fn_i128 value = fn__get_decimal(column, row);
    return column->type.precision <= 18 ? h->of_long(seed, (uint64_t)(fn_u128)value)
                                        : h->of_bytes(seed, bytes, integer_bytes(value, bytes));
  }
  case FN_STRING:
  case FN_BINARY: {
    fn_text text = fn__get_text(column, row);
    return h->of_bytes(seed, text.data, text.size);
  }
  case FN_CALENDAR: {
    const char *at = (const char *)column->data + row * column->step * 16;
    int32_t part[2];
    memcpy(part, at, 8);
    int64_t us = (int64_t)load64(at + 8) / 1000;
    return h->of_int(h->of_int(h->of_long(seed, (uint64_t)us), (uint32_t)part[1]), (uint32_t)part[0]);
  }
  case FN_LIST:
  case FN_MAP:
    if (fn__column_child(column, 0, &child) == TRN_OK)
      for (int32_t i = column->offsets[row * column->step]; i < column->offsets[row * column->step + 1]; i++)
        seed = hash_value(h, seed, &child, i, depth + 1);
    return seed;
  case FN_STRUCT:
    for (int64_t i = 0; i < column->type.schema->n_children; i++)
      if (fn__column_child(column, i, &child) == TRN_OK)
        seed = hash_value(h, seed, &child, column->offset + row * column->step, depth + 1);
    return seed;
  default: return h->of_long(seed, (uint64_t)fn__get_integer(column, row));
  }
}

uint32_t fn__murmur3(uint32_t seed, const char *data, size_t size) {
  return (uint32_t)murmur_bytes(seed, data, size);
}
uint32_t fn__murmur3_int(uint32_t seed, uint32_t value) {
  return (uint32_t)murmur_int(seed, value);
}
uint64_t fn__xxhash64_value(uint64_t seed, const fn_column *column, int64_t row) {
  return hash_value(&HASHERS[1], seed, column, row, 0);
}

static trn_status hash(fn_call *call) {
  bool wide = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    uint64_t value = 42;
    for (size_t i = 0; i < call->count; i++) value = hash_value(&HASHERS[wide], value, &call->columns[i], row, 0);
    if (wide)
      ((int64_t *)call->out.data)[row] = (int64_t)value;
    else
      ((int32_t *)call->out.data)[row] = (int32_t)(uint32_t)value;
  }
  return TRN_OK;
}

/* ---- digests ---- */
enum { MD5, SHA1, SHA2, CRC32 };
static trn_status digest(fn_call *call) {
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_text text = fn__get_text(&call->columns[0], row);
    unsigned char raw[64];
    char hex[128];
    size_t size = 0;
    if (op == CRC32) {
      ((int64_t *)call->out.data)[row] = fn__row_is_null(&call->out, row) ? 0 : fn__crc32(text.data, text.size);
      continue;
    }
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    if (op == SHA2)
      size = fn__sha2(text.data, text.size, fn__get_i32(&call->columns[1], row), raw);
    else
      size = op == MD5 ? fn__md5(text.data, text.size, raw) : fn__sha1(text.data, text.size, raw);
    if (size == 0) {
      fn__push_null(&call->out);
      continue;
    }
    for (size_t i = 0; i < size; i++) {
      hex[i * 2] = "0123456789abcdef"[raw[i] >> 4];
      hex[i * 2 + 1] = "0123456789abcdef"[raw[i] & 15];
    }
    fn__push(&call->out, hex, size * 2);
  }
  return TRN_OK;
}

FN_BIND(digest, "t", fn__type(FN_STRING))
FN_BIND(sha2, "ti", fn__type(FN_STRING))
FN_BIND(crc32, "t", fn__type(FN_INT64))

const fn_scalar fn__hash_table[] = {
    {"trn.hash", TRN_IMMUTABLE, FN_NEVER_NULL, 0, fn__bind_i32, hash},
    {"trn.xxhash64", TRN_IMMUTABLE, FN_NEVER_NULL, 1, fn__bind_i64, hash},
    {"trn.md5", TRN_IMMUTABLE, FN_STRICT, MD5, bind_digest, digest},
    {"trn.sha1", TRN_IMMUTABLE, FN_STRICT, SHA1, bind_digest, digest},
    {"trn.sha2", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, SHA2, bind_sha2, digest},
    {"trn.crc32", TRN_IMMUTABLE, FN_STRICT, CRC32, bind_crc32, digest},
    {NULL},
};
