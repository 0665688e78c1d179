/* round, bround, ceil, floor: of decimals, integers and doubles. */
#include "functions/arithmetic.h"
#include "functions/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HALF_UP, HALF_EVEN, CEILING, FLOOR };

/* value / 10^digits by the mode, digits > 0. */
static fn_i128 round_digits(fn_i128 value, int digits, int how) {
  fn_u128 size = fn__abs128(value), unit = digits > FN_DIGITS_MAX ? 0 : fn__pow10[digits];
  fn_u128 quotient = unit ? size / unit : 0, rest = unit ? size % unit : size;
  bool up;
  if (how == CEILING || how == FLOOR)
    up = rest != 0 && (how == CEILING) == (value > 0);
  else if (!unit)
    up = false;
  else
    up = rest > unit / 2 || (rest == unit / 2 && (how == HALF_UP || (quotient & 1)));
  quotient += up;
  return value < 0 ? -(fn_i128)quotient : (fn_i128)quotient;
}

static int64_t scale_of(const fn_call *call) {
  return call->count > 1 && call->columns[1].array && !fn__is_null(&call->columns[1], 0)
             ? fn__get_i32(&call->columns[1], 0)
             : 0;
}

/* ---- decimals ---- */
static trn_status round_decimals(fn_call *call) {
  const fn_column *a = &call->columns[0];
  int64_t scale = scale_of(call);
  int how = fn__what(call), digits = scale >= a->type.scale   ? 0
                                     : scale < -FN_DIGITS_MAX ? 2 * FN_DIGITS_MAX + 1
                                                              : (int)(a->type.scale - scale);
  int zeros = scale < 0 ? (scale < -FN_DIGITS_MAX ? FN_DIGITS_MAX : (int)-scale) : 0;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 value = fn__row_is_null(&call->out, row) ? 0 : fn__get_decimal(a, row), result = value;
    if (digits > 0) result = round_digits(value, digits, how);
    bool good = fn__fits(result, FN_DIGITS_MAX - zeros);
    if (good) result *= (fn_i128)fn__pow10[zeros];
    good &= fn__fits(result, call->out.type.precision);
    if (!good && fn__mode(call) == FN_ANSI)
      return fn__raise_decimal_range(&call->report, value, a->type.scale, call->out.type.precision,
                                     call->out.type.scale);
    if (!good) {
      fn__set_null(&call->out, row);
      result = 0;
    }
    fn__store_decimal(call->out.data, row, result);
  }
  return TRN_OK;
}

/* ---- integers: only a negative scale changes them ---- */
static trn_status round_integers(fn_call *call) {
  const fn_column *a = &call->columns[0];
  size_t width = fn__type_width((fn_kind)a->type.kind);
  int64_t scale = scale_of(call);
  int digits = scale < -20 ? 20 : scale < 0 ? (int)-scale : 0, shift = 64 - (int)width * 8;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t value = fn__get_integer(a, row);
    fn_i128 rounded = value;
    if (digits > 0) rounded = round_digits(value, digits, fn__what(call)) * (fn_i128)fn__pow10[digits];
    int64_t result = (int64_t)(uint64_t)(fn_u128)rounded;
    bool good = rounded == (int64_t)((uint64_t)result << shift) >> shift;
    if (!good && fn__mode(call) == FN_ANSI && !fn__row_is_null(&call->out, row))
      return fn__raise_overflow(&call->report, "Overflow", NULL);
    if (!good && fn__mode(call) == FN_TRY) fn__set_null(&call->out, row);
    memcpy((char *)call->out.data + (size_t)row * width, &result, width); /* little endian */
  }
  return TRN_OK;
}

/* ---- doubles: by their shortest decimal text, as BigDecimal.valueOf ---- */
static double round_double(double value, int64_t scale, int how) {
  char text[FN_DOUBLE_TEXT_MAX], digits[FN_DOUBLE_TEXT_MAX], joined[FN_DOUBLE_TEXT_MAX + 32];
  if (!isfinite(value) || value == 0) return value;
  size_t size = fn__double_print(fabs(value), text), count = 0;
  int64_t exponent = 0;
  bool point = false;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '.') {
      point = true;
    } else if (text[i] == 'E') {
      text[size] = 0;
      exponent += strtol(text + i + 1, NULL, 10);
      break;
    } else {
      digits[count++] = text[i];
      exponent -= point;
    }
  }
  fn_i128 whole = 0;
  for (size_t i = 0; i < count; i++) whole = whole * 10 + (digits[i] - '0');
  if (-exponent <= scale) /* no more places than wanted */
    return value;
  int64_t drop = -exponent - scale;
  whole = round_digits(value < 0 ? -whole : whole, drop > 2 * FN_DIGITS_MAX ? 2 * FN_DIGITS_MAX : (int)drop, how);
  size = fn__decimal_print(whole, 0, joined);
  joined[size++] = 'e';
  size += fn__int_print(exponent + drop, joined + size);
  joined[size] = 0;
  return strtod(joined, NULL);
}

static trn_status round_floats(fn_call *call) {
  int64_t scale = scale_of(call);
  for (int64_t row = 0; row < call->rows; row++) {
    double value = fn__get_number(&call->columns[0], row);
    value = fn__row_is_null(&call->out, row) ? 0 : round_double(value, scale, fn__what(call));
    if (call->out.type.kind == FN_FLOAT32)
      ((float *)call->out.data)[row] = (float)value;
    else
      ((double *)call->out.data)[row] = value;
  }
  return TRN_OK;
}

static trn_status round_any(fn_call *call) {
  fn_kind kind = (fn_kind)call->columns[0].type.kind;
  return kind == FN_DECIMAL ? round_decimals(call) : fn__is_integer(kind) ? round_integers(call) : round_floats(call);
}

/* ceil(x), floor(x): doubles become bigints, as Java's (long). */
static trn_status whole(fn_call *call) {
  const fn_column *a = &call->columns[0];
  if (call->count > 1 || a->type.kind == FN_DECIMAL) return round_any(call);
  int64_t *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__is_integer((fn_kind)a->type.kind)) {
      out[row] = fn__get_integer(a, row);
      continue;
    }
    double value = fn__get_number(a, row);
    value = fn__what(call) == CEILING ? ceil(value) : floor(value);
    out[row] = value != value                   ? 0
               : value >= 9223372036854775808.0 ? INT64_MAX
               : value < -9223372036854775808.0 ? INT64_MIN
                                                : (int64_t)value;
  }
  return TRN_OK;
}

static trn_status bind_round(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  bool is_whole = fn__what(call) >= CEILING;
  if (!fn__args_are(call, "*|i") || call->columns[0].type.kind < FN_INT8 || call->columns[0].type.kind > FN_DECIMAL)
    return fn__mismatch(call);
  if (call->count > 1 && (!call->columns[1].array || call->columns[1].step)) return fn__mismatch(call); /* a literal */
  const fn_type *a = &call->columns[0].type;
  *out = *a;
  if (a->kind != FN_DECIMAL) {
    if (is_whole && call->count == 1) *out = fn__type(FN_INT64);
    return TRN_OK;
  }
  int64_t scale = scale_of(call), digits = a->precision - a->scale + 1; /* 9.9 rounds to 10 */
  if (scale < 0) {
    digits = digits > 1 - scale ? digits : 1 - scale;
    scale = 0;
  } else {
    scale = scale < a->scale ? scale : a->scale;
    digits += scale;
  }
  *out = fn__type_decimal(digits > FN_DIGITS_MAX ? FN_DIGITS_MAX : (int)digits, (int)scale);
  return TRN_OK;
}

#define FAMILY(name, how, kernel)                                                                                      \
  {"trn." name, TRN_IMMUTABLE, FN_STRICT | FN_POSITION, FN_OP(how, FN_ANSI), bind_round, kernel},                      \
      {"trn." name "_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, FN_OP(how, FN_TRY), bind_round, kernel}, {          \
    "trn." name "_wrap", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, FN_OP(how, FN_WRAP), bind_round, kernel               \
  }
const fn_scalar fn__rounding_table[] = {
    FAMILY("round", HALF_UP, round_any),
    FAMILY("bround", HALF_EVEN, round_any),
    FAMILY("ceil", CEILING, whole),
    FAMILY("floor", FLOOR, whole),
    {NULL},
};
