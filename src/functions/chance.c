/* shuffle(list, seed), random_uuid(seed): what Spark makes of the Mersenne Twister of commons-math, from the seed on for
 * the rows of a batch; and make_interval, product. */
#include "functions/aggregate.h"
#include "functions/calendar.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TWISTER_WORDS 624
#define TWISTER_MIDDLE 397
typedef struct twister {
  uint32_t words[TWISTER_WORDS];
  int at;
} twister;

static void twister_start(twister *t, uint32_t seed) {
  t->words[0] = seed;
  for (uint32_t i = 1; i < TWISTER_WORDS; i++)
    t->words[i] = 1812433253u * (t->words[i - 1] ^ t->words[i - 1] >> 30) + i;
  t->at = TWISTER_WORDS;
}

/* MersenneTwister.setSeed(long): both halves, as an array of two. */
static void twister_seed(twister *t, int64_t seed) {
  const uint32_t key[2] = {(uint32_t)((uint64_t)seed >> 32), (uint32_t)seed};
  uint32_t i = 1;
  twister_start(t, 19650218u);
  uint32_t *w = t->words;
  for (uint32_t k = 0; k < TWISTER_WORDS; k++) {
    w[i] = (w[i] ^ (w[i - 1] ^ w[i - 1] >> 30) * 1664525u) + key[k % 2] + k % 2;
    if (++i == TWISTER_WORDS) w[0] = w[TWISTER_WORDS - 1], i = 1;
  }
  for (uint32_t k = 1; k < TWISTER_WORDS; k++) {
    w[i] = (w[i] ^ (w[i - 1] ^ w[i - 1] >> 30) * 1566083941u) - i;
    if (++i == TWISTER_WORDS) w[0] = w[TWISTER_WORDS - 1], i = 1;
  }
  w[0] = 0x80000000u;
}

static uint32_t twister_next(twister *t) {
  uint32_t *w = t->words;
  if (t->at == TWISTER_WORDS) {
    for (int i = 0; i < TWISTER_WORDS; i++) {
      uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % TWISTER_WORDS] & 0x7fffffffu);
      w[i] = w[(i + TWISTER_MIDDLE) % TWISTER_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->at = 0;
  }
  uint32_t y = w[t->at++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

static int32_t twister_below(twister *t, int32_t bound) {
  if ((bound & -bound) == bound) return (int32_t)(((int64_t)bound * (twister_next(t) >> 1)) >> 31);
  for (;;) {
    int32_t bits = (int32_t)(twister_next(t) >> 1), rest = bits % bound;
    if ((int64_t)bits - rest + (bound - 1) <= INT32_MAX) return rest;
  }
}

static trn_status shuffle(fn_call *call) {
  const fn_column *list = &call->columns[0];
  const struct ArrowSchema *element = list->type.schema->children[0];
  twister t;
  int64_t total = 0, made = 0;
  struct ArrowArray child;
  twister_seed(&t, fn__get_i64(&call->columns[1], 0));
  for (int64_t row = 0; row < call->rows; row++)
    if (!fn__row_is_null(&call->out, row))
      total += list->offsets[row * list->step + 1] - list->offsets[row * list->step];
  int64_t *picks = calloc((size_t)total + 1, sizeof *picks);
  bool good = picks != NULL;
  for (int64_t row = 0; row < call->rows && good; row++) {
    int32_t first = list->offsets[row * list->step], end = list->offsets[row * list->step + 1];
    if (fn__row_is_null(&call->out, row)) end = first;
    int64_t *own = picks + made;
    for (int32_t i = 0; i < end - first; i++) { /* from the inside out, as RandomIndicesGenerator */
      int32_t other = twister_below(&t, i + 1);
      own[i] = own[other];
      own[other] = first + i;
    }
    made += end - first;
    fn__push_list(&call->out, made);
  }
  good = good && fn__take(element, list->array->children[0], picks, made, &child) == TRN_OK;
  if (good) fn__add_child(&call->out, &child);
  free(picks);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_shuffle(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (!fn__args_are(call, "Ll")) return fn__mismatch(call);
  *out = call->columns[0].type;
  return schema ? fn__schema_copy(schema, out->schema, "", true) : TRN_OK;
}

/* random_uuid(seed, row): RandomUUIDGenerator's. */
static trn_status random_uuid(fn_call *call) {
  twister t;
  int64_t at = -1;
  for (int64_t row = 0; row < call->rows; row++) {
    char text[40];
    uint64_t half[2] = {0};
    int64_t wanted = fn__get_i64(&call->columns[1], row);
    if (at < 0 || wanted < at) twister_seed(&t, fn__get_i64(&call->columns[0], 0)), at = 0;
    for (; at <= wanted; at++)
      for (int i = 0; i < 2; i++) {
        half[i] = (uint64_t)twister_next(&t) << 32;
        half[i] |= twister_next(&t);
      }
    half[0] = (half[0] & 0xFFFFFFFFFFFF0FFFu) | 0x4000u;
    half[1] = (half[1] | 0x8000000000000000u) & 0xBFFFFFFFFFFFFFFFu;
    int size = snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(half[0] >> 32),
                        (unsigned)(half[0] >> 16 & 0xffff), (unsigned)(half[0] & 0xffff), (unsigned)(half[1] >> 48),
                        (unsigned long long)(half[1] & 0xffffffffffffu));
    fn__push(&call->out, text, (size_t)size);
  }
  return TRN_OK;
}

/* ---- make_interval(years, months, weeks, days, hours, minutes, seconds) ---- */
static bool interval_of(const fn_call *call, int64_t row, int32_t *months, int32_t *days, int64_t *nanos) {
  int64_t part[6], us = 0;
  fn_i128 seconds = fn__get_decimal(&call->columns[6], row);
  for (int i = 0; i < 6; i++) part[i] = fn__get_i32(&call->columns[i], row);
  int64_t all_months = part[0] * 12 + part[1], all_days = part[2] * 7 + part[3];
  us = part[4] * FN_HOUR + part[5] * FN_MINUTE;
  if (all_months != (int32_t)all_months || all_days != (int32_t)all_days) return false;
  *months = (int32_t)all_months;
  *days = (int32_t)all_days;
  return !__builtin_add_overflow(us, (int64_t)seconds, &us) && !__builtin_mul_overflow(us, (int64_t)1000, nanos);
}

static trn_status make_interval(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    int32_t part[2] = {0, 0};
    int64_t nanos = 0;
    if (!fn__row_is_null(&call->out, row) && !interval_of(call, row, &part[0], &part[1], &nanos)) {
      if (!call->function->op) return fn__raise_overflow(&call->report, "overflow", NULL);
      fn__set_null(&call->out, row);
    }
    char *at = (char *)call->out.data + row * 16;
    memcpy(at, part, 8);
    memcpy(at + 8, &nanos, 8);
  }
  return TRN_OK;
}

FN_BIND(uuid, "ll", fn__type(FN_STRING))
FN_BIND(interval, "iiiiiid", fn__type(FN_CALENDAR))

const fn_scalar fn__chance_table[] = {
    {"trn.shuffle", TRN_IMMUTABLE, FN_STRICT, 0, bind_shuffle, shuffle},
    {"trn.random_uuid", TRN_IMMUTABLE, FN_NEVER_NULL, 0, bind_uuid, random_uuid},
    {"trn.make_interval", TRN_IMMUTABLE, FN_STRICT, 0, bind_interval, make_interval},
    {"trn.make_interval_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 1, bind_interval, make_interval},
    {NULL},
};
