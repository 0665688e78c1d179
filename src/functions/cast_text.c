/* Casts to text and bytes, and values in messages. */
#include "functions/cast.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define VALUE_TEXT_MAX 128

static size_t print_scalar(const fn_cast *cast, const fn_column *column, int64_t row, fn_zone_range *range, char *out) {
  switch (column->type.kind) {
  case FN_BOOL: {
    const char *text = fn__get_bool(column, row) ? "true" : "false";
    memcpy(out, text, strlen(text));
    return strlen(text);
  }
  case FN_FLOAT32: return fn__float_print((float)fn__get_number(column, row), out);
  case FN_FLOAT64: return fn__double_print(fn__get_f64(column, row), out);
  case FN_DECIMAL:
    return cast->mode == FN_WRAP ? fn__decimal_print_scientific(fn__get_decimal(column, row), column->type.scale, out)
                                 : fn__decimal_print(fn__get_decimal(column, row), column->type.scale, out);
  case FN_DATE: return fn__date_print(fn__get_i32(column, row), out);
  case FN_TIMESTAMP: return fn__timestamp_print(fn__to_local(&cast->zone, fn__get_i64(column, row), range), out);
  case FN_TIMESTAMP_NTZ: return fn__timestamp_print(fn__get_i64(column, row), out);
  case FN_TIME: return fn__time_print(fn__get_i64(column, row), out);
  case FN_YEAR_MONTH: return fn__year_month_print(fn__get_i32(column, row), cast->from_fields, out);
  case FN_DAY_TIME: return fn__day_time_print(fn__get_i64(column, row), cast->from_fields, out);
  case FN_CALENDAR: {
    int32_t part[2];
    int64_t nanos;
    const char *at = (const char *)column->data + row * column->step * 16;
    memcpy(part, at, sizeof part);
    memcpy(&nanos, at + 8, sizeof nanos);
    return fn__calendar_print(part[0], part[1], nanos, out);
  }
  default: return fn__int_print(fn__get_integer(column, row), out);
  }
}

/* Bytes that are no UTF-8 become U+FFFD, as when Java decodes them: Arrow's text must be valid. */
static void append_utf8(fn_builder *out, fn_text text) {
  size_t start = 0, at = 0, size;
  while (at < text.size) {
    if (fn__char_decode((fn_text){text.data + at, text.size - at}, &size) == 0xfffd && size == 1) {
      fn__append(out, text.data + start, at - start);
      fn__append(out, "\xef\xbf\xbd", 3);
      start = at + 1;
    }
    at += size;
  }
  fn__append(out, text.data + start, at - start);
}

static void print_list(const fn_cast *cast, const fn_column *column, int64_t row, fn_builder *out, int depth) {
  fn_column child, key, value;
  bool is_map = column->type.kind == FN_MAP;
  const int32_t *offsets = column->offsets + row * column->step;
  if (fn__column_child(column, 0, &child) != TRN_OK) return;
  if (is_map && (fn__column_child(&child, 0, &key) != TRN_OK || fn__column_child(&child, 1, &value) != TRN_OK)) return;
  fn__append(out, is_map ? "{" : "[", 1);
  for (int32_t i = offsets[0]; i < offsets[1]; i++) {
    if (i > offsets[0]) fn__append(out, ", ", 2);
    if (is_map) {
      fn__print_value(cast, &key, child.offset + i, out, depth + 1);
      fn__append(out, " -> ", 4);
      fn__print_value(cast, &value, child.offset + i, out, depth + 1);
    } else {
      fn__print_value(cast, &child, i, out, depth + 1);
    }
  }
  fn__append(out, is_map ? "}" : "]", 1);
}

void fn__print_value(const fn_cast *cast, const fn_column *column, int64_t row, fn_builder *out, int depth) {
  char text[VALUE_TEXT_MAX];
  fn_zone_range range = {0};
  if (fn__is_null(column, row)) {
    fn__append(out, "null", 4);
  } else if (column->type.kind == FN_STRING) {
    fn_text value = fn__get_text(column, row);
    fn__append(out, value.data, value.size);
  } else if (column->type.kind == FN_BINARY) {
    append_utf8(out, fn__get_text(column, row));
  } else if (column->type.kind == FN_LIST || column->type.kind == FN_MAP) {
    if (depth < FN_NESTING_MAX) print_list(cast, column, row, out, depth);
  } else if (column->type.kind == FN_STRUCT) {
    fn__append(out, "{", 1);
    for (int64_t i = 0; i < column->type.schema->n_children && depth < FN_NESTING_MAX; i++) {
      fn_column child;
      if (fn__column_child(column, i, &child) != TRN_OK) break;
      if (i) fn__append(out, ", ", 2);
      fn__print_value(cast, &child, column->offset + row * column->step, out, depth + 1);
    }
    fn__append(out, "}", 1);
  } else {
    fn__append(out, text, print_scalar(cast, column, row, &range, text));
  }
}

trn_status fn__cast_to_string(fn_cast *cast) {
  fn_zone_range range = {0};
  bool simple =
      cast->from->type.kind < FN_LIST && cast->from->type.kind != FN_STRING && cast->from->type.kind != FN_BINARY;
  for (int64_t row = 0; row < cast->rows; row++) {
    if (fn__row_is_null(cast->out, row)) {
      fn__push_end(cast->out, 0);
    } else if (simple) {
      char *room = fn__reserve(cast->out, VALUE_TEXT_MAX);
      if (!room) return cast->out->status;
      fn__push_end(cast->out, print_scalar(cast, cast->from, row, &range, room));
    } else {
      fn__print_value(cast, cast->from, row, cast->out, 0);
      fn__push_end(cast->out, 0);
    }
  }
  return cast->out->status;
}

trn_status fn__cast_to_binary(fn_cast *cast) {
  const fn_column *from = cast->from;
  size_t width = fn__type_width((fn_kind)from->type.kind);
  for (int64_t row = 0; row < cast->rows; row++) {
    if (fn__row_is_null(cast->out, row)) {
      fn__push_end(cast->out, 0);
    } else if (width) { /* big endian */
      char bytes[8];
      uint64_t value = (uint64_t)fn__get_integer(from, row);
      for (size_t i = 0; i < width; i++) bytes[width - 1 - i] = (char)(value >> (8 * i));
      fn__push(cast->out, bytes, width);
    } else {
      fn_text text = fn__get_text(from, row);
      fn__push(cast->out, text.data, text.size);
    }
  }
  return cast->out->status;
}

static size_t quote_text(fn_text text, char *out, size_t size) {
  size_t used = 0;
  out[used++] = '\'';
  for (size_t i = 0; i < text.size && used + 4 < size; i++) {
    if (text.data[i] == '\\' || text.data[i] == '\'') out[used++] = '\\';
    out[used++] = text.data[i];
  }
  while (used > 1 && text.size > used && ((unsigned char)out[used - 1] & 0xc0) == 0x80)
    used--; /* a text cut for the message is not cut inside of a character */
  if (used > 1 && text.size > used && (unsigned char)out[used - 1] >= 0xc0) used--;
  out[used++] = '\'';
  return used;
}

size_t fn__print_sql(const fn_cast *cast, const fn_column *column, int64_t row, char *out, size_t size) {
  static const char *const SUFFIX[FN_KIND_COUNT] = {
      [FN_INT8] = "Y", [FN_INT16] = "S", [FN_INT64] = "L", [FN_DECIMAL] = "BD"};
  static const char *const PREFIX[FN_KIND_COUNT] = {[FN_DATE] = "DATE '",
                                                    [FN_TIMESTAMP] = "TIMESTAMP '",
                                                    [FN_TIMESTAMP_NTZ] = "TIMESTAMP_NTZ '",
                                                    [FN_TIME] = "TIME '"};
  fn_zone_range range = {0};
  fn_kind kind = (fn_kind)column->type.kind;
  if (fn__is_null(column, row) || kind >= FN_LIST || size < 2 * VALUE_TEXT_MAX)
    return (size_t)snprintf(out, size, "NULL");
  if (kind == FN_STRING || kind == FN_BINARY) return quote_text(fn__get_text(column, row), out, size);
  size_t used = PREFIX[kind] ? strlen(PREFIX[kind]) : 0;
  memcpy(out, PREFIX[kind] ? PREFIX[kind] : "", used);
  used += print_scalar(cast, column, row, &range, out + used);
  if (PREFIX[kind]) out[used++] = '\'';
  const char *suffix = SUFFIX[kind]                                               ? SUFFIX[kind]
                       : kind == FN_FLOAT64 && isfinite(fn__get_f64(column, row)) ? "D"
                                                                                  : "";
  memcpy(out + used, suffix, strlen(suffix));
  return used + strlen(suffix);
}
