/* Casts to dates, timestamps and times. */
#include "functions/cast.h"
#include <math.h>
#include <string.h>

static int64_t floor_to_date(int64_t local_us) {
  return fn__floor_div(local_us, FN_DAY);
}

static trn_status put_date(fn_cast *cast, int64_t row, fn_zone_range *range) {
  const fn_column *from = cast->from;
  int32_t *out = (int32_t *)cast->out->data + row;
  switch (from->type.kind) {
  case FN_STRING: return fn__date_parse(fn__get_text(from, row), out) ? TRN_OK : fn__cast_invalid(cast, row);
  case FN_TIMESTAMP:
    *out = (int32_t)floor_to_date(fn__to_local(&cast->zone, fn__get_i64(from, row), range));
    return TRN_OK;
  case FN_TIMESTAMP_NTZ: *out = (int32_t)floor_to_date(fn__get_i64(from, row)); return TRN_OK;
  default: fn__set_null(cast->out, row); return TRN_OK; /* numbers, with ANSI off */
  }
}

static trn_status overflow_to_long(fn_cast *cast, int64_t row, double us) {
  if (cast->mode == FN_TRY) return fn__cast_overflow(cast, row);
  char text[FN_DOUBLE_TEXT_MAX + 1];
  size_t size = fn__double_print(us, text);
  text[size++] = 'D';
  trn_status status = fn__raise(cast->report, "CAST_OVERFLOW", "sourceType", "\"DOUBLE\"", "targetType", "\"BIGINT\"",
                                "ansiConfig", FN_CONFIG, NULL);
  fn__param(cast->report, "value", text, size);
  return status;
}

static trn_status timestamp_from_double(fn_cast *cast, int64_t row, double seconds, int64_t *out) {
  if (!isfinite(seconds)) {
    if (cast->mode != FN_WRAP) return fn__cast_invalid(cast, row);
    fn__set_null(cast->out, row);
    return TRN_OK;
  }
  double us = seconds * 1000000.0;
  if (cast->mode != FN_WRAP && !(floor(us) <= 9223372036854775807.0 && ceil(us) >= -9223372036854775808.0))
    return overflow_to_long(cast, row, us);
  *out = us >= 9223372036854775808.0 ? INT64_MAX : us < -9223372036854775808.0 ? INT64_MIN : (int64_t)us;
  return TRN_OK;
}

static int64_t seconds_saturated(int64_t seconds) {
  int64_t us;
  return __builtin_mul_overflow(seconds, FN_SECOND, &us) ? (seconds < 0 ? INT64_MIN : INT64_MAX) : us;
}

/* The number's whole microseconds modulo 2^64, as BigDecimal.longValue. */
static int64_t decimal_microseconds(fn_i128 value, int scale) {
  bool negative = value < 0;
  fn_u128 size = fn__abs128(value), rest;
  fn_u256 us = fn__div256(fn__mul256(size, 1000000), fn__pow10[scale], &rest);
  uint64_t low = (uint64_t)us.low;
  return (int64_t)(negative ? -low : low);
}

static trn_status put_timestamp(fn_cast *cast, int64_t row, fn_zone_range *range) {
  const fn_column *from = cast->from;
  int64_t *out = (int64_t *)cast->out->data + row;
  switch (from->type.kind) {
  case FN_STRING:
    return fn__timestamp_parse_zoned(fn__get_text(from, row), &cast->zone, out) ? TRN_OK : fn__cast_invalid(cast, row);
  case FN_DATE: *out = fn__to_utc(&cast->zone, fn__midnight(fn__get_i32(from, row)), range); return TRN_OK;
  case FN_TIMESTAMP_NTZ: *out = fn__to_utc(&cast->zone, fn__get_i64(from, row), range); return TRN_OK;
  case FN_BOOL: *out = fn__get_bool(from, row); return TRN_OK;
  case FN_FLOAT32:
  case FN_FLOAT64: return timestamp_from_double(cast, row, fn__get_number(from, row), out);
  case FN_DECIMAL: *out = decimal_microseconds(fn__get_decimal(from, row), from->type.scale); return TRN_OK;
  default: *out = seconds_saturated(fn__get_integer(from, row)); return TRN_OK;
  }
}

static trn_status put_ntz(fn_cast *cast, int64_t row, fn_zone_range *range) {
  const fn_column *from = cast->from;
  int64_t *out = (int64_t *)cast->out->data + row;
  fn_parsed_time parsed;
  switch (from->type.kind) {
  case FN_STRING:
    if (!fn__timestamp_parse(fn__get_text(from, row), &parsed) || parsed.just_time) return fn__cast_invalid(cast, row);
    *out = parsed.local_us;
    return TRN_OK;
  case FN_DATE: *out = fn__midnight(fn__get_i32(from, row)); return TRN_OK;
  default: *out = fn__to_local(&cast->zone, fn__get_i64(from, row), range); return TRN_OK;
  }
}

/* "[h]h:[m]m:[s]s[.fraction]" only; nine digits of the fraction count, then the precision. */
static bool parse_time(fn_text text, int precision, int64_t *out) {
  int64_t part[3] = {0, 0, 0}, nanos = 0, unit = 100000000;
  size_t at = 0;
  int i = 0;
  text = fn__trim_all(text);
  if (text.size > 0 && text.data[0] == 'T') at++;
  for (; i < 3; i++) {
    int digits = 0;
    for (; at < text.size && text.data[at] >= '0' && text.data[at] <= '9' && digits < 3; at++, digits++)
      part[i] = part[i] * 10 + (text.data[at] - '0');
    if (digits < 1 || digits > 2) return false;
    if (at == text.size || text.data[at] != ':') break;
    at++;
  }
  if (i == 0 || i == 3 || part[0] > 23 || part[1] > 59 || part[2] > 59) return false;
  if (i == 2 && at < text.size && text.data[at] == '.')
    for (at++; at < text.size && text.data[at] >= '0' && text.data[at] <= '9'; at++, unit /= 10)
      nanos += (text.data[at] - '0') * unit;
  if (at != text.size) return false;
  nanos += (part[0] * 3600 + part[1] * 60 + part[2]) * 1000000000;
  int64_t step = 1;
  for (int digit = precision; digit < 9; digit++) step *= 10;
  *out = nanos - nanos % step;
  return true;
}

static trn_status put_time(fn_cast *cast, int64_t row, fn_zone_range *range) {
  const fn_column *from = cast->from;
  int64_t *out = (int64_t *)cast->out->data + row, step = 1, local;
  for (int digit = cast->precision; digit < 9; digit++) step *= 10;
  switch (from->type.kind) {
  case FN_STRING:
    return parse_time(fn__get_text(from, row), cast->precision, out) ? TRN_OK : fn__cast_invalid(cast, row);
  case FN_TIME: *out = fn__get_i64(from, row) / step * step; return TRN_OK;
  default:
    local = fn__get_i64(from, row);
    if (from->type.kind == FN_TIMESTAMP) local = fn__to_local(&cast->zone, local, range);
    *out = fn__floor_mod(local, FN_DAY) * 1000 / step * step;
    return TRN_OK;
  }
}

trn_status fn__cast_to_time(fn_cast *cast) {
  fn_kind kind = (fn_kind)cast->out->type.kind;
  fn_zone_range range = {0};
  trn_status status = TRN_OK;
  size_t width = fn__type_width(kind);
  for (int64_t row = 0; row < cast->rows && status == TRN_OK; row++) {
    memset((char *)cast->out->data + (size_t)row * width, 0, width);
    if (fn__row_is_null(cast->out, row)) continue;
    status = kind == FN_DATE        ? put_date(cast, row, &range)
             : kind == FN_TIMESTAMP ? put_timestamp(cast, row, &range)
             : kind == FN_TIME      ? put_time(cast, row, &range)
                                    : put_ntz(cast, row, &range);
  }
  return status;
}
