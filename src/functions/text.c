#include "functions/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- printing doubles ----
 * Java before 19 does not print the shortest digits that read back; it follows Steele and White with its own shortcuts
 * (whole numbers, a stopping rule, a minimum of digits), and Spark's answers show them: 2147483648 as a float is
 * 2.14748365E9. So the same decisions are made here, over big integers where 64 bits are too few. */
#define LIMBS 64
typedef struct bignum {
  uint32_t limb[LIMBS];
  int count;
} bignum;

static void big_trim(bignum *n) {
  while (n->count > 0 && n->limb[n->count - 1] == 0) n->count--;
}

static void big_scale(bignum *n, uint32_t factor) {
  uint64_t carry = 0;
  for (int i = 0; i < n->count; i++) {
    carry += (uint64_t)n->limb[i] * factor;
    n->limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry && n->count < LIMBS) n->limb[n->count++] = (uint32_t)carry;
}

static void big_shift(bignum *n, int bits) {
  int whole = bits / 32, rest = bits % 32;
  if (n->count + whole + 1 > LIMBS) return;
  memmove(n->limb + whole, n->limb, (size_t)n->count * sizeof n->limb[0]);
  memset(n->limb, 0, (size_t)whole * sizeof n->limb[0]);
  n->count += whole;
  if (rest) big_scale(n, (uint32_t)1 << rest);
}

/* value * 5^fives * 2^twos */
static void big_set(bignum *n, uint64_t value, int fives, int twos) {
  n->limb[0] = (uint32_t)value;
  n->limb[1] = (uint32_t)(value >> 32);
  n->count = 2;
  big_trim(n);
  for (; fives >= 13; fives -= 13) big_scale(n, 1220703125);
  for (; fives > 0; fives--) big_scale(n, 5);
  big_shift(n, twos);
}

static int big_compare(const bignum *a, const bignum *b) {
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  for (int i = a->count - 1; i >= 0; i--)
    if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
  return 0;
}

static void big_add(bignum *a, const bignum *b) {
  uint64_t carry = 0;
  int count = a->count > b->count ? a->count : b->count;
  for (int i = 0; i < count; i++) {
    carry += (i < a->count ? a->limb[i] : 0ull) + (i < b->count ? b->limb[i] : 0ull);
    a->limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  a->count = count;
  if (carry && a->count < LIMBS) a->limb[a->count++] = (uint32_t)carry;
}

/* How often b goes into a (at most 10 times); a keeps the rest. */
static int big_quotient(bignum *a, const bignum *b) {
  int quotient = 0;
  while (big_compare(a, b) >= 0) {
    int64_t borrow = 0;
    for (int i = 0; i < a->count; i++) {
      borrow += (int64_t)a->limb[i] - (i < b->count ? b->limb[i] : 0);
      a->limb[i] = (uint32_t)borrow;
      borrow >>= 32;
    }
    big_trim(a);
    quotient++;
  }
  return quotient;
}

typedef struct digits {
  char digit[32];
  int count;
  int exponent; /* the value is 0.ddd * 10^exponent */
} digits;

static void round_up(digits *d) {
  int i = d->count - 1;
  while (i > 0 && d->digit[i] == '9') d->digit[i--] = '0';
  if (d->digit[i] == '9') {
    d->digit[0] = '1';
    d->exponent++;
  } else {
    d->digit[i]++;
  }
}

static void whole_digits(uint64_t value, int insignificant, digits *d) {
  char text[FN_INT_TEXT_MAX];
  uint64_t unit = 1;
  for (int i = 0; i < insignificant; i++) unit *= 10;
  uint64_t rest = value % unit;
  value = value / unit + (insignificant && rest >= unit / 2);
  d->count = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  d->exponent = d->count + insignificant;
  while (d->count > 1 && text[d->count - 1] == '0') d->count--;
  memcpy(d->digit, text, (size_t)d->count);
}

static int five_bits(int power) {
  return power <= 26 ? (power == 0 ? 0 : (int)(power * 2.321928094887362) + 1) : power * 3;
}

typedef struct factors {
  uint64_t bits;
  int b2, b5, s2, s5, m2, m5;
  int exponent;
} factors;

/* Gives whether to stop low and high, and how the rest compares with a half, in *half. */
static void small_digits(factors f, bool narrow, digits *d, bool *low, bool *high, int64_t *half) {
  uint64_t power[28] = {1};
  for (int i = 1; i < 28; i++) power[i] = power[i - 1] * 5;
  int64_t b = (int64_t)((f.bits * power[f.b5]) << f.b2), s = (int64_t)(power[f.s5] << f.s2);
  int64_t m = (int64_t)(power[f.m5] << f.m2), tens = s * 10, q = b / s;
  b = 10 * (b % s);
  m *= 10;
  *low = b < m;
  *high = b + m > tens;
  if (q == 0 && !*high)
    f.exponent--;
  else
    d->digit[d->count++] = (char)('0' + q);
  if (f.exponent < -3 || f.exponent >= 8) *low = *high = false;
  while (!*low && !*high && d->count < 30) {
    q = b / s;
    b = 10 * (b % s);
    m = narrow ? (int32_t)((uint32_t)m * 10u) : (int64_t)((uint64_t)m * 10u);
    *low = m <= 0 || b < m; /* m may overflow: then it is beyond b */
    *high = m <= 0 || b + m > tens;
    d->digit[d->count++] = (char)('0' + q);
  }
  *half = (b << 1) - tens;
  d->exponent = f.exponent + 1;
}

static void big_digits(factors f, digits *d, bool *low, bool *high, int64_t *half) {
  bignum b, s, m, tens, sum;
  big_set(&s, 1, f.s5, f.s2);
  big_set(&tens, 10, f.s5, f.s2);
  big_set(&b, f.bits, f.b5, f.b2);
  big_set(&m, 10, f.m5, f.m2);
  int q = big_quotient(&b, &s);
  big_scale(&b, 10);
  sum = b;
  big_add(&sum, &m);
  *low = big_compare(&b, &m) < 0;
  *high = big_compare(&tens, &sum) <= 0;
  if (q == 0 && !*high)
    f.exponent--;
  else
    d->digit[d->count++] = (char)('0' + q);
  if (f.exponent < -3 || f.exponent >= 8) *low = *high = false;
  while (!*low && !*high && d->count < 30) {
    q = big_quotient(&b, &s);
    big_scale(&b, 10);
    big_scale(&m, 10);
    sum = b;
    big_add(&sum, &m);
    *low = big_compare(&b, &m) < 0;
    *high = big_compare(&tens, &sum) <= 0;
    d->digit[d->count++] = (char)('0' + q);
  }
  big_shift(&b, 1);
  *half = big_compare(&b, &tens);
  d->exponent = f.exponent + 1;
}

/* bits: the 53-bit significand with its top bit set; the value is bits * 2^(exponent - 52). */
static void binary_digits(uint64_t bits, int exponent, int significant, digits *d) {
  int zeros = __builtin_ctzll(bits), fraction = 53 - zeros;
  int tiny = fraction - exponent - 1 > 0 ? fraction - exponent - 1 : 0;
  bool low, high;
  int64_t half;
  d->count = 0;
  if (exponent <= 62 && exponent >= -21 && tiny == 0) {
    int p = exponent > significant ? exponent - significant - 1 : 0;
    whole_digits(exponent >= 52 ? bits << (exponent - 52) : bits >> (52 - exponent),
                 p > 1 ? (int)(p * 0.30102999566398120) : 0, d);
    return;
  }
  double mantissa = (double)bits / 4503599627370496.0;
  int guess = (int)floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + (double)exponent * 0.301029995663981);
  factors f = {.exponent = guess};
  f.b5 = f.m5 = guess < 0 ? -guess : 0;
  f.b2 = f.b5 + tiny + exponent;
  f.s5 = guess > 0 ? guess : 0;
  f.s2 = f.s5 + tiny;
  f.m2 = f.b2 - significant;
  f.bits = bits >> zeros;
  f.b2 -= fraction - 1;
  int common = f.b2 < f.s2 ? f.b2 : f.s2;
  f.b2 -= common;
  f.s2 -= common;
  f.m2 -= common;
  if (fraction == 1) /* a power of two: the gap below is half as wide */
    f.m2--;
  if (f.m2 < 0) {
    f.b2 -= f.m2;
    f.s2 -= f.m2;
    f.m2 = 0;
  }
  int b_bits = fraction + f.b2 + five_bits(f.b5), ten_bits = f.s2 + 1 + five_bits(f.s5 + 1);
  if (b_bits < 64 && ten_bits < 64)
    small_digits(f, b_bits < 32 && ten_bits < 32, d, &low, &high, &half);
  else
    big_digits(f, d, &low, &high, &half);
  if (high && (!low || half > 0 || (half == 0 && (d->digit[d->count - 1] & 1)))) round_up(d);
}

static size_t print_java(bool negative, const digits *d, char *out) {
  char *at = out;
  if (negative) *at++ = '-';
  if (d->exponent > 0 && d->exponent < 8) {
    for (int i = 0; i < d->exponent; i++) *at++ = i < d->count ? d->digit[i] : '0';
    *at++ = '.';
    for (int i = d->exponent; i < d->count; i++) *at++ = d->digit[i];
    if (d->count <= d->exponent) *at++ = '0';
  } else if (d->exponent <= 0 && d->exponent > -3) {
    *at++ = '0';
    *at++ = '.';
    for (int i = d->exponent; i < 0; i++) *at++ = '0';
    memcpy(at, d->digit, (size_t)d->count);
    at += d->count;
  } else {
    *at++ = d->digit[0];
    *at++ = '.';
    if (d->count > 1)
      memcpy(at, d->digit + 1, (size_t)d->count - 1);
    else
      *at = '0';
    at += d->count > 1 ? d->count - 1 : 1;
    *at++ = 'E';
    at += fn__int_print(d->exponent - 1, at);
  }
  return (size_t)(at - out);
}

static size_t print_special(double value, char *out) {
  const char *text = isnan(value) ? "NaN"
                     : value == 0 ? (signbit(value) ? "-0.0" : "0.0")
                     : value > 0  ? "Infinity"
                                  : "-Infinity";
  size_t size = strlen(text);
  memcpy(out, text, size);
  return size;
}

size_t fn__double_print(double value, char *out) {
  uint64_t bits;
  digits d;
  if (!isfinite(value) || value == 0) return print_special(value, out);
  memcpy(&bits, &value, sizeof bits);
  int exponent = (int)((bits >> 52) & 0x7ff), significant = 53;
  bits &= ((uint64_t)1 << 52) - 1;
  if (exponent == 0) {
    int shift = __builtin_clzll(bits) - 11;
    bits <<= shift;
    exponent = 1 - shift;
    significant = 53 - shift;
  } else {
    bits |= (uint64_t)1 << 52;
  }
  binary_digits(bits, exponent - 1023, significant, &d);
  return print_java(value < 0, &d, out);
}

size_t fn__float_print(float value, char *out) {
  uint32_t bits;
  digits d;
  if (!isfinite(value) || value == 0) return print_special(value, out);
  memcpy(&bits, &value, sizeof bits);
  int exponent = (int)((bits >> 23) & 0xff), significant = 24;
  bits &= ((uint32_t)1 << 23) - 1;
  if (exponent == 0) {
    int shift = __builtin_clz(bits) - 8;
    bits <<= shift;
    exponent = 1 - shift;
    significant = 24 - shift;
  } else {
    bits |= (uint32_t)1 << 23;
  }
  binary_digits((uint64_t)bits << 29, exponent - 127, significant, &d);
  return print_java(value < 0, &d, out);
}

size_t fn__int_print(int64_t value, char *out) {
  char reversed[FN_INT_TEXT_MAX];
  size_t count = 0, used = 0;
  uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
  do reversed[count++] = (char)('0' + size % 10);
  while (size /= 10);
  if (value < 0) out[used++] = '-';
  while (count > 0) out[used++] = reversed[--count];
  return used;
}

/* ---- parsing ---- */
static bool is_blank(char c) {
  return (unsigned char)c <= ' ' || c == 0x7f;
}

fn_text fn__trim_all(fn_text text) {
  while (text.size > 0 && is_blank(text.data[0])) text.data++, text.size--;
  while (text.size > 0 && is_blank(text.data[text.size - 1])) text.size--;
  return text;
}

bool fn__text_equal(fn_text text, const char *literal) {
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (!literal[i] || (c >= 'A' && c <= 'Z' ? c + 32 : c) != literal[i]) return false;
  }
  return literal[text.size] == 0;
}

#define PARSE_DIGITS 800 /* more than any double needs to be rounded right */
/* Digits without a point and an exponent, for strtod: libc's radix point depends on the process's locale. */
typedef struct parsed_number {
  uint64_t whole; /* the digits, when there are at most 15 of them */
  int digits;     /* that count */
  int64_t exponent;
  bool negative;
  char text[PARSE_DIGITS + 40];
} parsed_number;

static bool normal_number(fn_text text, parsed_number *out) {
  char *digits = out->text;
  out->whole = 0;
  out->digits = 0;
  out->negative = false;
  size_t at = 0, used = 0;
  int64_t exponent = 0, scale = 0;
  bool any = false, point = false, sticky = false;
  if (at < text.size && (text.data[at] == '+' || text.data[at] == '-'))
    if (text.data[at++] == '-') {
      out->negative = true;
      digits[used++] = '-';
    }
  for (; at < text.size; at++) {
    char c = text.data[at];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    if (used < PARSE_DIGITS) {
      digits[used++] = c;
      scale -= point;
      if (out->digits < 16) {
        out->whole = out->whole * 10 + (uint64_t)(c - '0');
        out->digits += out->whole != 0;
      }
    } else {
      sticky |= c != '0';
      scale += !point;
    }
  }
  if (!any) return false;
  if (sticky) digits[used - 1] = digits[used - 1] == '0' ? '1' : digits[used - 1];
  if (at < text.size && (text.data[at] == 'e' || text.data[at] == 'E')) {
    bool down = false, has_exponent = false;
    at++;
    if (at < text.size && (text.data[at] == '+' || text.data[at] == '-')) down = text.data[at++] == '-';
    for (; at < text.size && text.data[at] >= '0' && text.data[at] <= '9'; at++) {
      has_exponent = true;
      exponent = exponent > 100000000 ? exponent : exponent * 10 + (text.data[at] - '0');
    }
    if (!has_exponent) return false;
    exponent = down ? -exponent : exponent;
  }
  if (at < text.size && strchr("dDfF", text.data[at]) && text.data[at]) at++;
  if (at != text.size) return false;
  out->exponent = exponent + scale;
  digits[used++] = 'e';
  digits[used + fn__int_print(out->exponent, digits + used)] = 0;
  return true;
}

static bool special_number(fn_text text, double *out) {
  static const struct {
    const char *name;
    double value;
  } NAMES[] = {{"inf", INFINITY},
               {"+inf", INFINITY},
               {"infinity", INFINITY},
               {"+infinity", INFINITY},
               {"-inf", -INFINITY},
               {"-infinity", -INFINITY},
               {"nan", NAN}};
  for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
    if (fn__text_equal(text, NAMES[i].name)) {
      *out = NAMES[i].value;
      return true;
    }
  return false;
}

/* Few digits and a small power of ten are both exact in a double: one correctly rounded operation. */
static double number_value(const parsed_number *n) {
  static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (n->digits > 15 || n->exponent > 22 || n->exponent < -22) return strtod(n->text, NULL);
  double value = n->exponent < 0 ? (double)n->whole / POWERS[-n->exponent] : (double)n->whole * POWERS[n->exponent];
  return n->negative ? -value : value;
}

bool fn__double_parse(fn_text text, double *out) {
  parsed_number number;
  text = fn__trim_all(text);
  if (!normal_number(text, &number)) return special_number(text, out);
  *out = number_value(&number);
  return true;
}

bool fn__float_parse(fn_text text, float *out) {
  parsed_number number;
  double special;
  text = fn__trim_all(text);
  if (normal_number(text, &number)) {
    *out = strtof(number.text, NULL);
    return true;
  }
  if (!special_number(text, &special)) return false;
  *out = (float)special;
  return true;
}

bool fn__int_parse(fn_text text, bool truncate, int64_t *out) {
  text = fn__trim_all(text);
  size_t at = 0;
  bool negative = false, any = false;
  uint64_t value = 0;
  if (at < text.size && (text.data[at] == '-' || text.data[at] == '+')) negative = text.data[at++] == '-';
  for (; at < text.size && text.data[at] >= '0' && text.data[at] <= '9'; at++) {
    uint64_t digit = (uint64_t)(text.data[at] - '0');
    any = true;
    if (value > (UINT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  if (truncate && at < text.size && text.data[at] == '.') {
    any = true; /* ".5" and "." are 0 */
    for (at++; at < text.size && text.data[at] >= '0' && text.data[at] <= '9'; at++)
      ;
  }
  if (!any || at != text.size || value > (uint64_t)INT64_MAX + negative) return false;
  *out = negative ? (int64_t)-value : (int64_t)value;
  return true;
}

/* ---- UTF-8 ---- */
size_t fn__char_size(unsigned char first) {
  return first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
}

int64_t fn__char_count(fn_text text) {
  int64_t continuation = 0;
  for (size_t i = 0; i < text.size; i++) continuation += ((unsigned char)text.data[i] & 0xc0) == 0x80;
  return (int64_t)text.size - continuation;
}

size_t fn__char_offset(fn_text text, int64_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size) {
    at += fn__char_size((unsigned char)text.data[at]);
    index--;
  }
  return at < text.size ? at : text.size;
}

uint32_t fn__char_decode(fn_text text, size_t *size) {
  const unsigned char *p = (const unsigned char *)text.data;
  size_t n = fn__char_size(p[0]);
  *size = 1;
  if (n == 1) return p[0] < 0x80 ? p[0] : 0xfffd;
  if (n > text.size) return 0xfffd;
  uint32_t code = p[0] & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0xfffd;
    code = (code << 6) | (p[i] & 0x3fu);
  }
  *size = n;
  return code;
}

size_t fn__char_encode(uint32_t code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
  static const unsigned char LEAD[] = {0, 0, 0xc0, 0xe0, 0xf0};
  out[0] = (char)(LEAD[n] | code);
  return n;
}
