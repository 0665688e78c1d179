/* rand, randn, uniform, randstr from a seed: the numbers of Spark's XORShiftRandom for the first partition. Kernels have
 * no memory, so the row's number comes as an argument; the generator is linear over GF(2) and jumps to any row. */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include <math.h>
#include <string.h>

/* MurmurHash3 (x86, 32 bits) of scala.util.hashing.MurmurHash3.bytesHash: seed and its length as there. */
static uint32_t rotate(uint32_t x, int bits) {
  return x << bits | x >> (32 - bits);
}
static uint32_t hash_eight(const unsigned char bytes[8], uint32_t seed) {
  uint32_t hash = seed;
  for (int i = 0; i < 8; i += 4) {
    uint32_t word = bytes[i] | (uint32_t)bytes[i + 1] << 8 | (uint32_t)bytes[i + 2] << 16 | (uint32_t)bytes[i + 3] << 24;
    hash = rotate(hash ^ rotate(word * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
  }
  hash ^= 8;
  hash = (hash ^ hash >> 16) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return hash ^ hash >> 16;
}

/* XORShiftRandom.hashSeed */
static uint64_t hash_seed(int64_t seed) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)seed >> (56 - 8 * i));
  uint32_t low = hash_eight(bytes, 0x3c074a61u), high = hash_eight(bytes, low);
  return (uint64_t)high << 32 | low;
}

typedef struct generator {
  uint64_t state;
  double spare; /* nextGaussian makes two */
  bool has_spare;
} generator;

static generator generator_of(int64_t seed) {
  return (generator){.state = hash_seed(seed)};
}
static uint64_t step(uint64_t s) {
  s ^= s << 21;
  s ^= s >> 35;
  return s ^ s << 4;
}
static int32_t next(generator *g, int bits) {
  g->state = step(g->state);
  return (int32_t)(g->state & (((uint64_t)1 << bits) - 1));
}
static double next_double(generator *g) {
  int64_t high = (int64_t)next(g, 26) << 27;
  return (double)(high + next(g, 27)) * 0x1.0p-53;
}
static double next_gaussian(generator *g) {
  double x, y, s;
  if (g->has_spare) {
    g->has_spare = false;
    return g->spare;
  }
  do {
    x = 2 * next_double(g) - 1;
    y = 2 * next_double(g) - 1;
    s = x * x + y * y;
  } while (s >= 1 || s == 0);
  double factor = sqrt(-2 * log(s) / s);
  g->spare = y * factor;
  g->has_spare = true;
  return x * factor;
}

/* The state after `count` steps. */
static uint64_t apply(const uint64_t matrix[64], uint64_t vector) {
  uint64_t out = 0;
  for (int i = 0; i < 64; i++)
    if (vector >> i & 1) out ^= matrix[i];
  return out;
}
static uint64_t jump(uint64_t state, uint64_t count) {
  uint64_t power[64], square[64];
  for (int i = 0; i < 64; i++) power[i] = step((uint64_t)1 << i);
  for (; count; count >>= 1) {
    if (count & 1) state = apply(power, state);
    for (int i = 0; i < 64; i++) square[i] = apply(power, power[i]);
    memcpy(power, square, sizeof power);
  }
  return state;
}

/* ---- rand(seed, row), randn(seed, row) ---- */
enum { UNIFORM, NORMAL };
static trn_status numbers(fn_call *call) {
  int64_t seed = fn__is_null(&call->columns[0], 0) ? 0 : fn__get_i64(&call->columns[0], 0), at = 0;
  generator g = generator_of(seed);
  double *out = call->out.data;
  bool normal = call->function->op == NORMAL;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t wanted = fn__get_i64(&call->columns[1], row);
    /* Normal numbers take as many steps as chance has it: from the start, when rows do not follow each other. */
    if (wanted != at && (normal ? wanted < at : wanted >= 0)) {
      g = generator_of(seed);
      at = 0;
      if (!normal) {
        g.state = jump(g.state, (uint64_t)wanted * 2);
        at = wanted;
      }
    }
    for (; normal && at < wanted; at++) next_gaussian(&g);
    out[row] = normal ? next_gaussian(&g) : next_double(&g);
    at++;
  }
  return TRN_OK;
}

/* ---- randstr(length, seed, row): letters and digits ---- */
#define LENGTH_MAX 10000000
static trn_status letters(fn_call *call) {
  static const char SET[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  int64_t length = fn__get_i32(&call->columns[0], 0), at = 0, seed = fn__get_i64(&call->columns[1], 0);
  generator g = generator_of(seed);
  if (length < 0 || length > LENGTH_MAX) return fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t wanted = fn__get_i64(&call->columns[2], row) * length;
    if (wanted != at) {
      g.state = jump(generator_of(seed).state, (uint64_t)wanted);
      at = wanted;
    }
    char *room = fn__reserve(&call->out, (size_t)length);
    for (int64_t i = 0; i < length && room; i++) {
      int32_t value = next(&g, 32);
      uint32_t size = (uint32_t)(value < 0 ? -(int64_t)value : value) % 62;
      room[i] = SET[size];
    }
    at += length;
    fn__push_end(&call->out, room ? (size_t)length : 0);
  }
  return TRN_OK;
}

FN_BIND(numbers, "ll", fn__type(FN_FLOAT64))
FN_BIND(letters, "ill", fn__type(FN_STRING))

const fn_scalar fn__random_table[] = {
    {"trn.rand", TRN_IMMUTABLE, FN_NEVER_NULL, UNIFORM, bind_numbers, numbers},
    {"trn.randn", TRN_IMMUTABLE, FN_NEVER_NULL, NORMAL, bind_numbers, numbers},
    {"trn.randstr", TRN_IMMUTABLE, FN_NEVER_NULL, 0, bind_letters, letters},
    {NULL},
};
