#include "functions/decimal.h"
#include "functions/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define E19 ((fn_u128)10000000000000000000u)
const fn_u128 fn__pow10[FN_DIGITS_MAX + 1] = {1,
                                              10,
                                              100,
                                              1000,
                                              10000,
                                              100000,
                                              1000000,
                                              10000000,
                                              100000000,
                                              1000000000,
                                              10000000000,
                                              100000000000,
                                              1000000000000,
                                              10000000000000,
                                              100000000000000,
                                              1000000000000000,
                                              10000000000000000,
                                              100000000000000000,
                                              1000000000000000000,
                                              E19,
                                              E19 * 10,
                                              E19 * 100,
                                              E19 * 1000,
                                              E19 * 10000,
                                              E19 * 100000,
                                              E19 * 1000000,
                                              E19 * 10000000,
                                              E19 * 100000000,
                                              E19 * 1000000000,
                                              E19 * 10000000000,
                                              E19 * 100000000000,
                                              E19 * 1000000000000,
                                              E19 * 10000000000000,
                                              E19 * 100000000000000,
                                              E19 * 1000000000000000,
                                              E19 * 10000000000000000,
                                              E19 * 100000000000000000,
                                              E19 * 1000000000000000000,
                                              E19 *E19};

fn_u256 fn__mul256(fn_u128 a, fn_u128 b) {
  uint64_t a0 = (uint64_t)a, a1 = (uint64_t)(a >> 64), b0 = (uint64_t)b, b1 = (uint64_t)(b >> 64);
  fn_u128 p00 = (fn_u128)a0 * b0, p01 = (fn_u128)a0 * b1, p10 = (fn_u128)a1 * b0, p11 = (fn_u128)a1 * b1;
  fn_u128 middle = (p00 >> 64) + (uint64_t)p01 + (uint64_t)p10;
  return (fn_u256){(middle << 64) | (uint64_t)p00, p11 + (p01 >> 64) + (p10 >> 64) + (middle >> 64)};
}

bool fn__mul256_by(fn_u256 *value, fn_u128 factor) {
  fn_u256 low = fn__mul256(value->low, factor), high = fn__mul256(value->high, factor);
  value->low = low.low;
  value->high = low.high + high.low;
  return high.high == 0 && value->high >= low.high;
}

fn_u256 fn__add256(fn_u256 a, fn_u256 b) {
  fn_u256 sum = {a.low + b.low, a.high + b.high};
  sum.high += sum.low < a.low;
  return sum;
}

static bool less256(fn_u256 a, fn_u256 b) {
  return a.high != b.high ? a.high < b.high : a.low < b.low;
}
static fn_u256 sub256(fn_u256 a, fn_u256 b) {
  return (fn_u256){a.low - b.low, a.high - b.high - (a.low < b.low)};
}

/* (high:low) / divisor where high < divisor: bit by bit is 128 steps, too slow for a column; by 64-bit digits (Knuth's
 * algorithm D with two divisor digits) it is two. */
static fn_u128 div_narrow(fn_u128 high, fn_u128 low, fn_u128 divisor, fn_u128 *remainder) {
  uint64_t top = (uint64_t)(divisor >> 64);
  if (!top) { /* one digit: schoolbook */
    fn_u128 first = (high << 64) | (uint64_t)(low >> 64);
    fn_u128 q1 = first / divisor, rest = first % divisor;
    fn_u128 second = (rest << 64) | (uint64_t)low;
    *remainder = second % divisor;
    return (q1 << 64) | (second / divisor);
  }
  int shift = __builtin_clzll(top);
  fn_u128 d = divisor << shift;
  fn_u128 h = shift ? (high << shift) | (low >> (128 - shift)) : high;
  fn_u128 l = low << shift;
  uint64_t d1 = (uint64_t)(d >> 64), d0 = (uint64_t)d;
  uint64_t digits[2];
  for (int i = 0; i < 2; i++) {
    uint64_t next = i == 0 ? (uint64_t)(l >> 64) : (uint64_t)l;
    fn_u128 q = h / d1, r = h % d1;
    while ((q >> 64) || (fn_u128)(uint64_t)q * d0 > ((r << 64) | next)) {
      q--;
      r += d1;
      if (r >> 64) break;
    }
    digits[i] = (uint64_t)q;
    h = ((h << 64) | next) - (fn_u128)(uint64_t)q * d; /* modulo 2^128: the true value is below d */
  }
  *remainder = h >> shift;
  return ((fn_u128)digits[0] << 64) | digits[1];
}

fn_u256 fn__div256(fn_u256 value, fn_u128 divisor, fn_u128 *remainder) {
  fn_u256 quotient;
  if (value.high == 0) {
    *remainder = value.low % divisor;
    return (fn_u256){value.low / divisor, 0};
  }
  quotient.high = value.high / divisor;
  quotient.low = div_narrow(value.high % divisor, value.low, divisor, remainder);
  return quotient;
}

fn_u256 fn__round256(fn_u256 value, int digits) {
  fn_u128 rest;
  while (digits > FN_DIGITS_MAX) { /* truncate first: only the last step's half decides, as all of it is one number */
    int step = digits - FN_DIGITS_MAX;
    value = fn__div256(value, fn__pow10[step], &rest);
    digits -= step;
  }
  if (digits <= 0) return value;
  value = fn__div256(value, fn__pow10[digits], &rest);
  if (rest >= fn__pow10[digits] / 2) value = fn__add256(value, (fn_u256){1, 0});
  return value;
}

fn_i128 fn__round_down_digits(fn_i128 value, int digits) {
  if (digits <= 0) return value;
  if (digits > FN_DIGITS_MAX) return 0;
  fn_u128 size = fn__abs128(value), unit = fn__pow10[digits], quotient;
  if ((size >> 64) == 0 && (unit >> 64) == 0) {
    uint64_t q = (uint64_t)size / (uint64_t)unit;
    quotient = q + ((uint64_t)size - q * (uint64_t)unit >= (uint64_t)unit / 2);
  } else {
    quotient = size / unit;
    quotient += size - quotient * unit >= unit / 2;
  }
  return value < 0 ? -(fn_i128)quotient : (fn_i128)quotient;
}

bool fn__rescale(fn_i128 value, int from_scale, int to_scale, int precision, fn_i128 *out) {
  if (to_scale > from_scale) {
    int digits = to_scale - from_scale;
    if (digits > FN_DIGITS_MAX || precision < digits) {
      *out = 0;
      return value == 0;
    }
    if (fn__abs128(value) >= fn__pow10[precision - digits]) return false;
    *out = value * (fn_i128)fn__pow10[digits];
    return true;
  }
  *out = fn__round_down_digits(value, from_scale - to_scale);
  return fn__fits(*out, precision);
}

/* ---- result types ---- */
fn_type fn__adjust_decimal(int precision, int scale) {
  if (precision <= FN_DIGITS_MAX) return fn__type_decimal(precision, scale);
  int whole = precision - scale, least = scale < 6 ? scale : 6;
  int adjusted = FN_DIGITS_MAX - whole > least ? FN_DIGITS_MAX - whole : least;
  return fn__type_decimal(FN_DIGITS_MAX, adjusted);
}

static int max_of(int a, int b) {
  return a > b ? a : b;
}
static int min_of(int a, int b) {
  return a < b ? a : b;
}

fn_type fn__decimal_add_type(const fn_type *a, const fn_type *b) {
  int scale = max_of(a->scale, b->scale);
  return fn__adjust_decimal(max_of(a->precision - a->scale, b->precision - b->scale) + scale + 1, scale);
}
fn_type fn__decimal_multiply_type(const fn_type *a, const fn_type *b) {
  return fn__adjust_decimal(a->precision + b->precision + 1, a->scale + b->scale);
}
fn_type fn__decimal_divide_type(const fn_type *a, const fn_type *b) {
  int scale = max_of(6, a->scale + b->precision + 1);
  return fn__adjust_decimal(a->precision - a->scale + b->scale + scale, scale);
}
fn_type fn__decimal_remainder_type(const fn_type *a, const fn_type *b) {
  int scale = max_of(a->scale, b->scale);
  return fn__adjust_decimal(min_of(a->precision - a->scale, b->precision - b->scale) + scale, scale);
}

/* ---- division ---- */
bool fn__decimal_divide(fn_i128 a, int a_scale, fn_i128 b, int b_scale, int scale, fn_i128 *out) {
  fn_u128 divisor = fn__abs128(b), rest;
  fn_u256 value = {fn__abs128(a), 0};
  int digits = scale - a_scale + b_scale; /* never negative for Spark's result types; for others truncate the scale */
  while (digits < 0) {
    value = fn__round256(value, 1);
    digits++;
  }
  for (int step; digits > 0; digits -= step) {
    step = min_of(digits, FN_DIGITS_MAX);
    if (value.high == 0 && (value.low >> 64) == 0 && step <= 19)
      value.low *= fn__pow10[step];
    else if (!fn__mul256_by(&value, fn__pow10[step]))
      return false; /* the quotient has more than 38 digits: the divisor has no more than 38 */
  }
  fn_u256 quotient = fn__div256(value, divisor, &rest);
  if (quotient.high != 0 || quotient.low >= fn__pow10[FN_DIGITS_MAX]) return false;
  bool up = rest >= divisor - rest;
  int k = 39 - scale;
  if (!up && k > 0 && k <= FN_DIGITS_MAX && divisor >= fn__pow10[k]) {
    /* Rounded to 39 digits first, 0.4999..9|5 becomes a half: 10^k * (divisor - 2 * rest) <= divisor. */
    fn_u256 gap = fn__mul256(divisor - rest - rest, fn__pow10[k]);
    up = gap.high == 0 && gap.low <= divisor;
  }
  fn_u128 size = quotient.low + up;
  *out = (a < 0) != (b < 0) ? -(fn_i128)size : (fn_i128)size;
  return size < fn__pow10[FN_DIGITS_MAX];
}

bool fn__decimal_quotient(fn_i128 a, int a_scale, fn_i128 b, int b_scale, fn_i128 *quotient, fn_i128 *remainder) {
  int scale = max_of(a_scale, b_scale);
  fn_u256 x = fn__mul256(fn__abs128(a), fn__pow10[scale - a_scale]);
  fn_u256 y = fn__mul256(fn__abs128(b), fn__pow10[scale - b_scale]);
  fn_u128 q = 0, r;
  bool fits = true;
  if (y.high == 0) {
    fn_u256 whole = fn__div256(x, y.low, &r);
    q = whole.low;
    fits = whole.high == 0 && q < fn__pow10[FN_DIGITS_MAX];
  } else { /* y >= 2^128 means that b was scaled up and a was not: x is below 10^38, below y */
    r = x.low;
    if (!less256(x, y)) r = sub256(x, y).low, q = 1;
  }
  *quotient = (a < 0) != (b < 0) ? (fn_i128)-q : (fn_i128)q;
  *remainder = a < 0 ? (fn_i128)-r : (fn_i128)r;
  return fits;
}

/* ---- text ---- */
static size_t print_digits(fn_u128 size, char *out) {
  char reversed[FN_DECIMAL_TEXT_MAX];
  size_t count = 0;
  while (size >> 64) {
    fn_u128 quotient = size / E19;
    uint64_t part = (uint64_t)(size - quotient * E19);
    for (int i = 0; i < 19; i++, part /= 10) reversed[count++] = (char)('0' + part % 10);
    size = quotient;
  }
  uint64_t part = (uint64_t)size;
  do reversed[count++] = (char)('0' + part % 10);
  while (part /= 10);
  for (size_t i = 0; i < count; i++) out[i] = reversed[count - 1 - i];
  return count;
}

size_t fn__decimal_print(fn_i128 value, int scale, char *out) {
  char digits[FN_DECIMAL_TEXT_MAX];
  size_t count = print_digits(fn__abs128(value), digits), used = 0;
  if (value < 0) out[used++] = '-';
  if (scale <= 0) {
    memcpy(out + used, digits, count);
    return used + count;
  }
  if (count <= (size_t)scale) {
    size_t zeros = (size_t)scale - count;
    out[used++] = '0';
    out[used++] = '.';
    memset(out + used, '0', zeros);
    memcpy(out + used + zeros, digits, count);
    return used + zeros + count;
  }
  size_t whole = count - (size_t)scale;
  memcpy(out + used, digits, whole);
  out[used + whole] = '.';
  memcpy(out + used + whole + 1, digits + whole, (size_t)scale);
  return used + count + 1;
}

size_t fn__decimal_print_scientific(fn_i128 value, int scale, char *out) {
  char digits[FN_DECIMAL_TEXT_MAX];
  size_t count = print_digits(fn__abs128(value), digits), used = 0;
  int exponent = (int)count - 1 - scale;
  if (exponent >= -6) return fn__decimal_print(value, scale, out);
  if (value < 0) out[used++] = '-';
  out[used++] = digits[0];
  if (count > 1) {
    out[used++] = '.';
    memcpy(out + used, digits + 1, count - 1);
    used += count - 1;
  }
  return used + (size_t)snprintf(out + used, 8, "E%d", exponent);
}

double fn__decimal_to_double(fn_i128 value, int scale) {
  fn_u128 size = fn__abs128(value);
  if (size < ((fn_u128)1 << 53) && scale <= 22) { /* both exact: one correctly rounded division */
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    double result = (double)(int64_t)size / POWERS[scale];
    return value < 0 ? -result : result;
  }
  char text[FN_DECIMAL_TEXT_MAX + 8];
  size_t used = print_digits(size, text);
  snprintf(text + used, 8, "e-%d", scale);
  double result = strtod(text, NULL);
  return value < 0 ? -result : result;
}

fn_parse fn__decimal_parse(const char *text, size_t size, int precision, int scale, fn_i128 *out) {
  size_t at = 0;
  bool negative = false, has_digits = false, point = false, rounded_up = false;
  int64_t exponent = 0, fraction = 0; /* the value is digits * 10^(exponent - fraction) */
  if (at < size && (text[at] == '+' || text[at] == '-')) negative = text[at++] == '-';
  size_t first = at;
  for (; at < size && ((text[at] >= '0' && text[at] <= '9') || (text[at] == '.' && !point)); at++) {
    if (text[at] == '.') {
      point = true;
      continue;
    }
    has_digits = true;
    fraction += point;
  }
  size_t end = at;
  if (!has_digits) return FN_PARSE_BAD;
  if (at < size && (text[at] == 'e' || text[at] == 'E')) {
    bool down = false, any = false;
    at++;
    if (at < size && (text[at] == '+' || text[at] == '-')) down = text[at++] == '-';
    for (; at < size && text[at] >= '0' && text[at] <= '9'; at++) {
      any = true;
      exponent = exponent > 100000000000 ? exponent : exponent * 10 + (text[at] - '0');
    }
    if (!any || exponent > INT32_MAX) return FN_PARSE_BAD;
    exponent = down ? -exponent : exponent;
  }
  if (at != size) return FN_PARSE_BAD;
  /* Digits that count: those before the target scale's last place; the next decides the rounding. */
  int64_t keep = (int64_t)scale + exponent - fraction; /* zeros to append (> 0) or digits to drop (< 0) */
  int64_t total = 0, seen = 0;
  for (size_t i = first; i < end; i++) total += text[i] != '.';
  fn_u128 value = 0;
  for (size_t i = first; i < end; i++) {
    if (text[i] == '.') continue;
    int64_t left = total - seen + keep; /* how many places this digit is above the last kept one, from 1 */
    seen++;
    if (left <= 0) {
      rounded_up = left == 0 && text[i] >= '5';
      if (left == 0 || keep + total <= 0) break;
      continue;
    }
    if (value >= fn__pow10[FN_DIGITS_MAX - 1]) return FN_PARSE_RANGE;
    value = value * 10 + (fn_u128)(text[i] - '0');
  }
  for (; keep > 0 && value != 0; keep--) {
    if (value >= fn__pow10[FN_DIGITS_MAX - 1]) return FN_PARSE_RANGE;
    value *= 10;
  }
  value += rounded_up;
  if (value >= fn__pow10[precision]) return FN_PARSE_RANGE;
  *out = negative ? -(fn_i128)value : (fn_i128)value;
  return FN_PARSE_OK;
}

fn_parse fn__decimal_from_double(double value, bool is_float, int precision, int scale, fn_i128 *out) {
  char text[FN_DOUBLE_TEXT_MAX];
  if (!isfinite(value)) return FN_PARSE_BAD;
  size_t size = is_float ? fn__float_print((float)value, text) : fn__double_print(value, text);
  return fn__decimal_parse(text, size, precision, scale, out);
}
