/* Casts to booleans, integers, floats and decimals. */
#include "functions/cast.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool read_bool_text(fn_text text, bool *out) {
  static const char *const YES[] = {"t", "true", "y", "yes", "1"}, *const NO[] = {"f", "false", "n", "no", "0"};
  text = fn__trim_all(text);
  for (int i = 0; i < 5; i++)
    if (fn__text_equal(text, YES[i]) || fn__text_equal(text, NO[i])) {
      *out = fn__text_equal(text, YES[i]);
      return true;
    }
  return false;
}

trn_status fn__cast_to_bool(fn_cast *cast) {
  const fn_column *from = cast->from;
  trn_status status = TRN_OK;
  for (int64_t row = 0; row < cast->rows && status == TRN_OK; row++) {
    bool value = false;
    if (fn__row_is_null(cast->out, row)) continue;
    if (from->type.kind == FN_STRING) {
      if (!read_bool_text(fn__get_text(from, row), &value)) status = fn__cast_invalid(cast, row);
    } else if (from->type.kind == FN_DECIMAL) {
      value = fn__get_decimal(from, row) != 0;
    } else if (from->type.kind == FN_FLOAT32 || from->type.kind == FN_FLOAT64) {
      value = fn__get_number(from, row) != 0;
    } else if (from->type.kind == FN_DATE) {
      fn__set_null(cast->out, row);
    } else {
      value = fn__get_integer(from, row) != 0;
    }
    fn__set_bool(cast->out, row, value);
  }
  return status;
}

/* ---- integers ---- */
static void put_integer(fn_cast *cast, int64_t row, int64_t value) {
  switch (cast->out->type.kind) {
  case FN_INT8: ((int8_t *)cast->out->data)[row] = (int8_t)value; break;
  case FN_INT16: ((int16_t *)cast->out->data)[row] = (int16_t)value; break;
  case FN_INT32: ((int32_t *)cast->out->data)[row] = (int32_t)value; break;
  default: ((int64_t *)cast->out->data)[row] = value; break;
  }
}

static bool fits(fn_kind kind, int64_t value) {
  int shift = 64 - (int)fn__type_width(kind) * 8;
  return (int64_t)((uint64_t)value << shift) >> shift == value;
}

/* Java's (long) and (int): NaN is 0, what is beyond saturates. */
static int64_t saturate(double value, bool wide) {
  if (value != value) return 0;
  if (wide)
    return value >= 9223372036854775808.0 ? INT64_MAX : value < -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
  return value >= 2147483647.0 ? INT32_MAX : value <= -2147483648.0 ? INT32_MIN : (int32_t)value;
}

/* The integer before it is narrowed; false: no such number (the row failed). */
typedef enum outcome { GOOD, OVERFLOW, INVALID, NULL_VALUE } outcome;

static outcome read_integer(const fn_cast *cast, int64_t row, int64_t *out) {
  const fn_column *from = cast->from;
  bool legacy = cast->mode == FN_WRAP, wide = cast->out->type.kind == FN_INT64;
  switch (from->type.kind) {
  case FN_BOOL: *out = fn__get_bool(from, row); return GOOD;
  case FN_STRING:
    if (!fn__int_parse(fn__get_text(from, row), legacy, out)) return INVALID;
    return fits((fn_kind)cast->out->type.kind, *out) ? GOOD : INVALID;
  case FN_FLOAT32:
  case FN_FLOAT64: {
    double value = fn__get_number(from, row);
    *out = saturate(value, wide);
    if (legacy) return GOOD;
    if (wide) return floor(value) <= 9223372036854775807.0 && ceil(value) >= -9223372036854775808.0 ? GOOD : OVERFLOW;
    return floor(value) <= 2147483647.0 && ceil(value) >= -2147483648.0 ? GOOD : OVERFLOW;
  }
  case FN_DECIMAL: {
    fn_i128 whole = fn__get_decimal(from, row) / (fn_i128)fn__pow10[from->type.scale];
    *out = (int64_t)(uint64_t)(fn_u128)whole;
    return legacy || whole == *out ? GOOD : OVERFLOW;
  }
  case FN_DATE: return NULL_VALUE;
  case FN_TIMESTAMP: *out = fn__floor_div(fn__get_i64(from, row), FN_SECOND); return GOOD;
  case FN_TIME: *out = fn__get_i64(from, row) / 1000000000; return GOOD;
  case FN_YEAR_MONTH: *out = fn__get_i32(from, row) / (cast->from_fields.end == 0 ? 12 : 1); return GOOD;
  case FN_DAY_TIME: *out = fn__get_i64(from, row) / fn__field_us[cast->from_fields.end]; return GOOD;
  case FN_BINARY: { /* big endian, the last bytes that fit */
    fn_text text = fn__get_text(from, row);
    *out = 0;
    for (size_t i = 0; i < text.size; i++) *out = (int64_t)((uint64_t)*out << 8 | (unsigned char)text.data[i]);
    return GOOD;
  }
  default: *out = fn__get_integer(from, row); return GOOD;
  }
}

/* Widening and equal widths: nothing can fail. */
static bool widen(fn_cast *cast) {
  const fn_column *from = cast->from;
  fn_kind a = (fn_kind)from->type.kind, b = (fn_kind)cast->out->type.kind;
  if (a == FN_INT32 && b == FN_INT64)
    for (int64_t row = 0; row < cast->rows; row++)
      ((int64_t *)cast->out->data)[row] = ((const int32_t *)from->data)[row * from->step];
  else if (fn__is_integer(a) && a <= b)
    for (int64_t row = 0; row < cast->rows; row++) put_integer(cast, row, fn__get_integer(from, row));
  else
    return false;
  return true;
}

trn_status fn__cast_to_integer(fn_cast *cast) {
  fn_kind kind = (fn_kind)cast->out->type.kind;
  trn_status status = TRN_OK;
  if (widen(cast)) return TRN_OK;
  for (int64_t row = 0; row < cast->rows && status == TRN_OK; row++) {
    int64_t value = 0;
    outcome result = fn__row_is_null(cast->out, row) ? GOOD : read_integer(cast, row, &value);
    put_integer(cast, row, value);
    if (result == INVALID)
      status = fn__cast_invalid(cast, row);
    else if (result == NULL_VALUE)
      fn__set_null(cast->out, row);
    else if (result == OVERFLOW || (cast->mode != FN_WRAP && !fits(kind, value)))
      status = fn__cast_overflow(cast, row);
  }
  return status;
}

/* ---- floats ---- */
trn_status fn__cast_to_float(fn_cast *cast) {
  const fn_column *from = cast->from;
  bool narrow = cast->out->type.kind == FN_FLOAT32;
  fn_kind kind = (fn_kind)from->type.kind;
  trn_status status = TRN_OK;
  for (int64_t row = 0; row < cast->rows && status == TRN_OK; row++) {
    double value = 0;
    float single = 0;
    bool is_single = false;
    if (fn__row_is_null(cast->out, row))
      ;
    else if (kind == FN_STRING) {
      fn_text text = fn__get_text(from, row);
      is_single = narrow;
      if (narrow ? !fn__float_parse(text, &single) : !fn__double_parse(text, &value))
        status = fn__cast_invalid(cast, row);
    } else if (kind == FN_DECIMAL) {
      value = fn__decimal_to_double(fn__get_decimal(from, row), from->type.scale);
    } else if (kind == FN_BOOL) {
      value = fn__get_bool(from, row);
    } else if (kind == FN_FLOAT32 || kind == FN_FLOAT64) {
      value = fn__get_number(from, row);
    } else if (kind == FN_TIMESTAMP) {
      value = (double)fn__get_i64(from, row) / 1000000.0;
    } else if (kind == FN_DATE) {
      fn__set_null(cast->out, row);
    } else {
      int64_t whole = fn__get_integer(from, row);
      value = (double)whole;
      single = (float)whole; /* rounded once */
      is_single = true;
    }
    if (narrow)
      ((float *)cast->out->data)[row] = is_single ? single : (float)value;
    else
      ((double *)cast->out->data)[row] = value;
  }
  return status;
}

/* ---- decimals ---- */
/* Digits and an exponent as a plain number, for messages: "1.0E10" is "10000000000". */
static size_t plain_number(const char *text, size_t size, char *out, size_t room) {
  char digits[400];
  size_t count = 0, used = 0, at = 0;
  int64_t exponent = 0, fraction = 0;
  bool point = false, down = false;
  if (at < size && (text[at] == '-' || text[at] == '+'))
    if (text[at++] == '-') out[used++] = '-';
  for (; at < size && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); at++) {
    if (text[at] == '.') {
      point = true;
    } else if (count < sizeof digits) {
      fraction += point;
      if (count > 0 || text[at] != '0' || point) digits[count++] = text[at];
    }
  }
  if (at < size && (text[at] == 'e' || text[at] == 'E')) {
    at++;
    if (at < size && (text[at] == '-' || text[at] == '+')) down = text[at++] == '-';
    for (; at < size && exponent < 1000; at++) exponent = exponent * 10 + (text[at] - '0');
  }
  fraction -= down ? -exponent : exponent;
  while (fraction > 0 && count > 0 && digits[count - 1] == '0' && exponent) /* 1.0E10 has no fraction */
    count--, fraction--;
  int64_t whole = (int64_t)count - fraction;
  if (whole <= 0) out[used++] = '0';
  for (int64_t i = 0; i < whole && used < room; i++) out[used++] = i < (int64_t)count ? digits[i] : '0';
  if (fraction > 0 && used < room) out[used++] = '.';
  for (int64_t i = whole; i < (int64_t)count && used < room; i++) out[used++] = i < 0 ? '0' : digits[i];
  return used;
}

static trn_status out_of_range(fn_cast *cast, int64_t row, const char *text, size_t size) {
  const fn_type *type = &cast->out->type;
  if (cast->mode != FN_ANSI) {
    fn__store_decimal(cast->out->data, row, 0);
    fn__set_null(cast->out, row);
    return TRN_OK;
  }
  char plain[512];
  size_t used = plain_number(text, size, plain, sizeof plain);
  return fn__raise_range(cast->report, plain, used, type->precision, type->scale);
}

static trn_status decimal_from_exact(fn_cast *cast, int64_t row, fn_i128 value, int scale) {
  fn_i128 result = 0;
  if (!fn__rescale(value, scale, cast->out->type.scale, cast->out->type.precision, &result)) {
    char text[FN_DECIMAL_TEXT_MAX];
    return out_of_range(cast, row, text, fn__decimal_print(value, scale, text));
  }
  fn__store_decimal(cast->out->data, row, result);
  return TRN_OK;
}

static trn_status decimal_from_text(fn_cast *cast, int64_t row, fn_text text, bool is_number) {
  fn_i128 value = 0;
  fn_parse result = fn__decimal_parse(text.data, text.size, cast->out->type.precision, cast->out->type.scale, &value);
  fn__store_decimal(cast->out->data, row, result == FN_PARSE_OK ? value : 0);
  if (result == FN_PARSE_OK) return TRN_OK;
  if (result == FN_PARSE_BAD) return fn__cast_invalid(cast, row);
  fn_i128 widest;
  if (!is_number && cast->mode == FN_ANSI &&
      fn__decimal_parse(text.data, text.size, FN_DIGITS_MAX, 0, &widest) == FN_PARSE_RANGE) {
    trn_status status = fn__raise(cast->report, "NUMERIC_OUT_OF_SUPPORTED_RANGE", NULL);
    fn__param(cast->report, "value", text.data, text.size);
    return status;
  }
  return out_of_range(cast, row, text.data, text.size);
}

static trn_status decimal_row(fn_cast *cast, int64_t row) {
  const fn_column *from = cast->from;
  char text[FN_DOUBLE_TEXT_MAX];
  switch (from->type.kind) {
  case FN_BOOL: return decimal_from_exact(cast, row, fn__get_bool(from, row), 0);
  case FN_STRING: return decimal_from_text(cast, row, fn__trim_all(fn__get_text(from, row)), false);
  case FN_FLOAT32:
  case FN_FLOAT64: {
    double value = fn__get_number(from, row);
    if (isfinite(value)) return decimal_from_text(cast, row, (fn_text){text, fn__double_print(value, text)}, true);
    fn__store_decimal(cast->out->data, row, 0);
    fn__set_null(cast->out, row);
    return TRN_OK;
  }
  case FN_DECIMAL: return decimal_from_exact(cast, row, fn__get_decimal(from, row), from->type.scale);
  case FN_TIMESTAMP: {
    double seconds = (double)fn__get_i64(from, row) / 1000000.0;
    return decimal_from_text(cast, row, (fn_text){text, fn__double_print(seconds, text)}, true);
  }
  case FN_DATE:
    fn__store_decimal(cast->out->data, row, 0);
    fn__set_null(cast->out, row);
    return TRN_OK;
  case FN_TIME: return decimal_from_exact(cast, row, fn__get_i64(from, row), 9);
  case FN_DAY_TIME: {
    int digits = 6; /* microseconds in the unit of the last field, exact for seconds */
    fn_i128 us = fn__get_i64(from, row);
    if (cast->from_fields.end == 3) return decimal_from_exact(cast, row, us, digits);
    return decimal_from_exact(cast, row, us / fn__field_us[cast->from_fields.end], 0);
  }
  case FN_YEAR_MONTH:
    return decimal_from_exact(cast, row, fn__get_i32(from, row) / (cast->from_fields.end == 0 ? 12 : 1), 0);
  default: return decimal_from_exact(cast, row, fn__get_integer(from, row), 0);
  }
}

/* Integers and decimals that fit whatever their value. */
static bool decimal_proven(fn_cast *cast) {
  static const int8_t DIGITS[] = {[FN_INT8] = 3, [FN_INT16] = 5, [FN_INT32] = 10, [FN_INT64] = 19};
  const fn_column *from = cast->from;
  const fn_type *to = &cast->out->type;
  bool whole = fn__is_integer((fn_kind)from->type.kind);
  int precision = whole ? DIGITS[from->type.kind] : from->type.precision, scale = whole ? 0 : from->type.scale;
  if ((!whole && from->type.kind != FN_DECIMAL) || to->scale < scale || precision - scale > to->precision - to->scale)
    return false;
  fn_u128 factor = fn__pow10[to->scale - scale];
  if (from->type.kind == FN_DECIMAL)
    for (int64_t row = 0; row < cast->rows; row++)
      fn__store_decimal(cast->out->data, row, (fn_i128)((fn_u128)fn__get_decimal(from, row) * factor));
  else if (from->type.kind == FN_INT64)
    for (int64_t row = 0; row < cast->rows; row++)
      fn__store_decimal(cast->out->data, row, (fn_i128)((fn_u128)(fn_i128)fn__get_i64(from, row) * factor));
  else
    for (int64_t row = 0; row < cast->rows; row++)
      fn__store_decimal(cast->out->data, row, (fn_i128)((fn_u128)(fn_i128)fn__get_integer(from, row) * factor));
  return true;
}

trn_status fn__cast_to_decimal(fn_cast *cast) {
  trn_status status = TRN_OK;
  if (decimal_proven(cast)) return TRN_OK;
  for (int64_t row = 0; row < cast->rows && status == TRN_OK; row++)
    if (fn__row_is_null(cast->out, row))
      fn__store_decimal(cast->out->data, row, 0);
    else
      status = decimal_row(cast, row);
  return status;
}
