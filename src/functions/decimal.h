/* Decimals: unscaled 128-bit integers with up to 38 digits; 256-bit intermediates where precision cannot prove that 128
 * bits do. */
#ifndef TRN_FUNCTIONS_DECIMAL_H
#define TRN_FUNCTIONS_DECIMAL_H
#include "functions/array.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__extension__ typedef __int128 fn_i128;
__extension__ typedef unsigned __int128 fn_u128;

typedef struct fn_u256 {
  fn_u128 low, high;
} fn_u256;

#define FN_DIGITS_MAX 38
/* 10^0 .. 10^38 */
extern const fn_u128 fn__pow10[FN_DIGITS_MAX + 1];

/* Arrow's buffers are aligned to 8 bytes at least, not always to 16. */
static inline fn_i128 fn__load_decimal(const void *data, int64_t index) {
  const uint64_t *words = (const uint64_t *)data + index * 2;
  return (fn_i128)(((fn_u128)words[1] << 64) | words[0]);
}
static inline void fn__store_decimal(void *data, int64_t index, fn_i128 value) {
  uint64_t *words = (uint64_t *)data + index * 2;
  words[0] = (uint64_t)(fn_u128)value;
  words[1] = (uint64_t)((fn_u128)value >> 64);
}
static inline fn_i128 fn__get_decimal(const fn_column *column, int64_t row) {
  return fn__load_decimal(column->data, row * column->step);
}
static inline fn_u128 fn__abs128(fn_i128 value) {
  return value < 0 ? -(fn_u128)value : (fn_u128)value;
}
static inline bool fn__fits(fn_i128 value, int precision) {
  return fn__abs128(value) < fn__pow10[precision];
}

fn_u256 fn__mul256(fn_u128 a, fn_u128 b);
bool fn__mul256_by(fn_u256 *value, fn_u128 factor); /* false: beyond 256 bits */
fn_u256 fn__add256(fn_u256 a, fn_u256 b);
/* The quotient; *remainder is set. `divisor` is not zero. */
fn_u256 fn__div256(fn_u256 value, fn_u128 divisor, fn_u128 *remainder);

/* value / 10^digits, HALF_UP (digits 0..76). */
fn_u256 fn__round256(fn_u256 value, int digits);
fn_i128 fn__round_down_digits(fn_i128 value, int digits); /* value / 10^digits, HALF_UP; digits 0.. */
/* Moves between scales with HALF_UP; false: does not fit in `precision` digits. */
bool fn__rescale(fn_i128 value, int from_scale, int to_scale, int precision, fn_i128 *out);

/* Spark's DecimalType.adjustPrecisionScale with allowPrecisionLoss. */
fn_type fn__adjust_decimal(int precision, int scale);
fn_type fn__decimal_add_type(const fn_type *a, const fn_type *b);
fn_type fn__decimal_multiply_type(const fn_type *a, const fn_type *b);
fn_type fn__decimal_divide_type(const fn_type *a, const fn_type *b);
fn_type fn__decimal_remainder_type(const fn_type *a, const fn_type *b);

/* a / b in scale `scale` as Spark divides (39 digits after the point, HALF_UP, then HALF_UP again). False: beyond 38.
 */
bool fn__decimal_divide(fn_i128 a, int a_scale, fn_i128 b, int b_scale, int scale, fn_i128 *out);
/* Whole numbers: a / b truncated, and a % b, at the larger scale of the two. False: the
 * quotient has more than 38 digits. */
bool fn__decimal_quotient(fn_i128 a, int a_scale, fn_i128 b, int b_scale, fn_i128 *quotient, fn_i128 *remainder);

#define FN_DECIMAL_TEXT_MAX 48
/* Plain notation ("-0.05"); gives the size, at most FN_DECIMAL_TEXT_MAX. */
size_t fn__decimal_print(fn_i128 value, int scale, char *out);
/* As java.math.BigDecimal.toString: scientific when the scale says so. */
size_t fn__decimal_print_scientific(fn_i128 value, int scale, char *out);
double fn__decimal_to_double(fn_i128 value, int scale);

typedef enum fn_parse { FN_PARSE_OK = 0, FN_PARSE_BAD, FN_PARSE_RANGE } fn_parse;
/* Text as BigDecimal reads it (already trimmed), rounded HALF_UP to `scale`. RANGE: the number is good but too big. */
fn_parse fn__decimal_parse(const char *text, size_t size, int precision, int scale, fn_i128 *out);
/* A double by its shortest text, as Spark's Decimal(double). BAD for NaN and infinities. */
fn_parse fn__decimal_from_double(double value, bool is_float, int precision, int scale, fn_i128 *out);
#endif
