/* Arithmetic of intervals: year-month (months), day-time (microseconds), calendar (months, days, nanoseconds). */
#include "functions/cast.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static trn_status raise_interval(const fn_call *call, const char *hint) {
  if (hint) return fn__raise(&call->report, "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION", "functionName", hint, NULL);
  return fn__raise(&call->report, "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", NULL);
}

typedef struct calendar {
  int32_t months, days;
  int64_t nanos;
} calendar;

static calendar calendar_at(const fn_column *column, int64_t row) {
  calendar c;
  memcpy(&c, (const char *)column->data + row * column->step * 16, sizeof c);
  return c;
}

enum { ADD, SUBTRACT, NEGATE, ABS, MULTIPLY, DIVIDE };

static bool put(fn_builder *out, int64_t row, fn_i128 value) {
  if (out->type.kind == FN_YEAR_MONTH) {
    ((int32_t *)out->data)[row] = (int32_t)(uint32_t)(fn_u128)value;
    return value == (int32_t)value;
  }
  ((int64_t *)out->data)[row] = (int64_t)(uint64_t)(fn_u128)value;
  return value == (int64_t)value;
}

static bool add_calendars(calendar a, calendar b, int op, calendar *out) {
  fn_i128 sign = op == SUBTRACT ? -1 : 1, months = a.months + sign * b.months, days = a.days + sign * b.days,
          nanos = a.nanos + sign * b.nanos;
  *out = (calendar){(int32_t)months, (int32_t)days, (int64_t)nanos};
  return months == out->months && days == out->days && nanos == out->nanos;
}

/* add, subtract; negate and abs as subtractions from nothing. */
static trn_status add_intervals(fn_call *call) {
  int op = fn__what(call);
  const fn_column *a = &call->columns[0], *b = call->count > 1 ? &call->columns[1] : NULL;
  for (int64_t row = 0; row < call->rows; row++) {
    bool good;
    if (a->type.kind == FN_CALENDAR) {
      calendar zero = {0, 0, 0}, x = calendar_at(a, row), out;
      good = b ? add_calendars(x, calendar_at(b, row), op, &out) : add_calendars(zero, x, SUBTRACT, &out);
      memcpy((char *)call->out.data + row * 16, &out, sizeof out);
    } else {
      fn_i128 x = fn__get_integer(a, row), y = b ? fn__get_integer(b, row) : 0;
      good = put(&call->out, row, op == ADD ? x + y : op == SUBTRACT ? x - y : op == ABS && x >= 0 ? x : -x);
    }
    if (good || fn__row_is_null(&call->out, row)) continue;
    if (fn__mode(call) != FN_TRY) /* ANSI or not: intervals never wrap */
      return raise_interval(call, op == ADD ? "`try_add`" : op == SUBTRACT ? "`try_subtract`" : NULL);
    fn__set_null(&call->out, row);
  }
  return TRN_OK;
}

/* Half away from zero, as DoubleMath.roundToLong with HALF_UP. */
static bool round_half_up(double value, fn_i128 *out) {
  if (!(fabs(value) < 9.3e18)) return false;
  *out = (fn_i128)round(value);
  return true;
}

static bool scale_interval(const fn_call *call, int64_t row, fn_i128 *out) {
  const fn_column *by = &call->columns[1];
  fn_i128 value = fn__get_integer(&call->columns[0], row);
  bool divide = fn__what(call) == DIVIDE;
  if (by->type.kind == FN_FLOAT64 || by->type.kind == FN_FLOAT32) {
    double factor = fn__get_number(by, row);
    return round_half_up(divide ? (double)value / factor : (double)value * factor, out);
  }
  if (by->type.kind == FN_DECIMAL) {
    fn_i128 factor = fn__get_decimal(by, row);
    if (divide) return fn__decimal_divide(value, 0, factor, by->type.scale, 0, out);
    fn_u256 product = fn__round256(fn__mul256(fn__abs128(value), fn__abs128(factor)), by->type.scale);
    *out = (value < 0) != (factor < 0) ? -(fn_i128)product.low : (fn_i128)product.low;
    return product.high == 0 && product.low < ((fn_u128)1 << 127);
  }
  fn_i128 factor = fn__get_integer(by, row);
  if (!divide) {
    *out = value * factor;
    return true;
  }
  fn_u128 size = fn__abs128(value), unit = fn__abs128(factor), quotient = size / unit, rest = size % unit;
  quotient += rest >= unit - rest;
  *out = (value < 0) != (factor < 0) ? -(fn_i128)quotient : (fn_i128)quotient;
  return true;
}

static bool is_zero(const fn_column *by, int64_t row) {
  return by->type.kind == FN_DECIMAL                                  ? fn__get_decimal(by, row) == 0
         : by->type.kind == FN_FLOAT64 || by->type.kind == FN_FLOAT32 ? fn__get_number(by, row) == 0
                                                                      : fn__get_integer(by, row) == 0;
}

static trn_status scale_intervals(fn_call *call) {
  bool divide = fn__what(call) == DIVIDE;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 value = 0;
    if (fn__row_is_null(&call->out, row)) {
      put(&call->out, row, 0);
      continue;
    }
    bool zero = divide && is_zero(&call->columns[1], row);
    bool good = !zero && scale_interval(call, row, &value) && put(&call->out, row, value);
    if (good) continue;
    if (fn__mode(call) != FN_TRY)
      return zero ? fn__raise(&call->report, "INTERVAL_DIVIDED_BY_ZERO", NULL)
                  : raise_interval(call, divide ? "`try_divide`" : "`try_multiply`");
    put(&call->out, row, 0);
    fn__set_null(&call->out, row);
  }
  return TRN_OK;
}

static trn_status bind_interval(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  int op = fn__what(call);
  size_t wanted = op == NEGATE || op == ABS ? 1 : 2;
  if (call->count != wanted) return fn__mismatch(call);
  fn_kind kind = (fn_kind)call->columns[0].type.kind;
  bool good = kind == FN_YEAR_MONTH || kind == FN_DAY_TIME || (kind == FN_CALENDAR && op <= NEGATE);
  if (op >= MULTIPLY)
    good &= call->columns[1].type.kind >= FN_INT8 && call->columns[1].type.kind <= FN_DECIMAL;
  else if (wanted == 2)
    good &= call->columns[1].type.kind == kind;
  *out = call->columns[0].type;
  return good ? TRN_OK : fn__mismatch(call);
}

/* make_ym_interval(years, months), make_dt_interval(days, hours, minutes, seconds decimal(18,6)) */
static trn_status make_year_month(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++)
    if (!put(&call->out, row,
             (fn_i128)fn__get_i32(&call->columns[0], row) * 12 + fn__get_i32(&call->columns[1], row)) &&
        !fn__row_is_null(&call->out, row))
      return raise_interval(call, NULL);
  return TRN_OK;
}

static trn_status make_day_time(fn_call *call) {
  static const int64_t UNITS[] = {FN_DAY, FN_HOUR, FN_MINUTE};
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 us = 0;
    for (int i = 0; i < 3; i++) us += (fn_i128)fn__get_i32(&call->columns[i], row) * UNITS[i];
    if (!fn__row_is_null(&call->out, row)) us += fn__get_decimal(&call->columns[3], row);
    if (!put(&call->out, row, us) && !fn__row_is_null(&call->out, row)) return raise_interval(call, NULL);
  }
  return TRN_OK;
}

static trn_status bind_make_year_month(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_YEAR_MONTH);
  return fn__args_are(call, "ii") ? TRN_OK : fn__mismatch(call);
}

static trn_status bind_make_day_time(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_DAY_TIME);
  return fn__args_are(call, "iiid") && call->columns[3].type.scale == 6 ? TRN_OK : fn__mismatch(call);
}

/* ---- parts and times of day ---- */
enum { COUNT, DAYS };
static trn_status interval_part(fn_call *call) {
  bool days = call->function->op == DAYS;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t value = fn__get_integer(&call->columns[0], row);
    if (days)
      ((int32_t *)call->out.data)[row] = (int32_t)(value / FN_DAY);
    else
      ((int64_t *)call->out.data)[row] = value;
  }
  return TRN_OK;
}

static trn_status bind_part(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  bool days = call->function->op == DAYS;
  *out = fn__type(days ? FN_INT32 : FN_INT64);
  return fn__args_are(call, "I") || (!days && fn__args_are(call, "Y")) ? TRN_OK : fn__mismatch(call);
}

enum { TIME_ADD, TIME_DIFF };
static trn_status time_arithmetic(fn_call *call) {
  const int64_t nanos_per_day = FN_DAY * 1000;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t a = fn__get_i64(&call->columns[0], row), b = fn__get_i64(&call->columns[1], row);
    int64_t *out = (int64_t *)call->out.data + row;
    *out = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    if (call->function->op == TIME_DIFF) {
      *out = (a - b) / 1000;
      continue;
    }
    fn_i128 sum = (fn_i128)a + (fn_i128)b * 1000;
    if (sum < 0 || sum >= nanos_per_day) {
      char interval[FN_INTERVAL_TEXT_MAX + 1], time[FN_DATE_TEXT_MAX + 8], operation[200];
      interval[fn__day_time_print(b, (fn_fields){0, 3}, interval)] = 0;
      time[fn__time_print(a, time)] = 0;
      snprintf(operation, sizeof operation, "add %s to the time value TIME '%s'", interval, time);
      return fn__raise(&call->report, "DATETIME_OVERFLOW", "operation", operation, NULL);
    }
    *out = (int64_t)sum;
  }
  return TRN_OK;
}

static trn_status bind_time(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  bool diff = call->function->op == TIME_DIFF;
  *out = fn__type(diff ? FN_DAY_TIME : FN_TIME);
  bool good = call->count == 2 && call->columns[0].type.kind == FN_TIME &&
              call->columns[1].type.kind == (diff ? FN_TIME : FN_DAY_TIME);
  return good ? TRN_OK : fn__mismatch(call);
}

#define FAMILY(name, what, kernel)                                                                                     \
  {"trn." name, TRN_IMMUTABLE, FN_STRICT | FN_POSITION, FN_OP(what, FN_ANSI), bind_interval, kernel},                  \
      {"trn." name "_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, FN_OP(what, FN_TRY), bind_interval, kernel}, {      \
    "trn." name "_wrap", TRN_IMMUTABLE, FN_STRICT, FN_OP(what, FN_WRAP), bind_interval, kernel                         \
  }
const fn_scalar fn__interval_table[] = {
    FAMILY("interval_add", ADD, add_intervals),
    FAMILY("interval_subtract", SUBTRACT, add_intervals),
    FAMILY("interval_negate", NEGATE, add_intervals),
    FAMILY("interval_abs", ABS, add_intervals),
    FAMILY("multiply_interval", MULTIPLY, scale_intervals),
    FAMILY("divide_interval", DIVIDE, scale_intervals),
    {"trn.make_ym_interval", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, 0, bind_make_year_month, make_year_month},
    {"trn.make_dt_interval", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, 0, bind_make_day_time, make_day_time},
    {"trn.interval_count", TRN_IMMUTABLE, FN_STRICT, COUNT, bind_part, interval_part},
    {"trn.interval_days", TRN_IMMUTABLE, FN_STRICT, DAYS, bind_part, interval_part},
    {"trn.time_add_dt", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, TIME_ADD, bind_time, time_arithmetic},
    {"trn.time_diff", TRN_IMMUTABLE, FN_STRICT, TIME_DIFF, bind_time, time_arithmetic},
    {NULL},
};
