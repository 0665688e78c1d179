/* Timestamps and times made from parts, the distance of two in whole units, names of days and months, the parts of
 * intervals. */
#include "functions/calendar.h"
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/text.h"
#include <stdio.h>
#include <string.h>

#define SECOND_NANOS INT64_C(1000000000)

/* ---- make_timestamp(year, month, day, hour, minute, second[, zone]), make_time(hour, minute, second) ---- */
enum { MAKE_LTZ, MAKE_NTZ, MAKE_TIME };

static trn_status out_of_bounds(const fn_call *call, const char *field, int least, int most, int64_t value) {
  char message[128];
  snprintf(message, sizeof message, "Invalid value for %s (valid values %d - %d): %lld", field, least, most,
           (long long)value);
  return fn__raise(&call->report, "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION", "rangeMessage", message,
                   "ansiConfig", FN_CONFIG, NULL);
}

static trn_status bad_date(const fn_call *call, int64_t year, int64_t month, int64_t day) {
  static const char *const MONTHS[] = {"JANUARY", "FEBRUARY", "MARCH",     "APRIL",   "MAY",      "JUNE",
                                       "JULY",    "AUGUST",   "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"};
  char message[128];
  if (month < 1 || month > 12) return out_of_bounds(call, "MonthOfYear", 1, 12, month);
  if (day < 1 || day > 31)
    snprintf(message, sizeof message, "Invalid value for DayOfMonth (valid values 1 - 28/31): %lld", (long long)day);
  else if (month == 2 && day == 29)
    snprintf(message, sizeof message, "Invalid date 'February 29' as '%lld' is not a leap year", (long long)year);
  else
    snprintf(message, sizeof message, "Invalid date '%s %lld'", MONTHS[month - 1], (long long)day);
  return fn__raise(&call->report, "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION", "rangeMessage", message,
                   "ansiConfig", FN_CONFIG, NULL);
}

/* The clock's microseconds; 60 whole seconds are the next minute's start, but for a TIME. */
static trn_status clock_of(const fn_call *call, size_t first, int64_t row, bool is_time, int64_t *us) {
  int64_t hour = fn__get_i32(&call->columns[first], row), minute = fn__get_i32(&call->columns[first + 1], row);
  fn_i128 second = fn__get_decimal(&call->columns[first + 2], row);
  *us = -1;
  if (second < 0 || second > (is_time ? FN_MINUTE - 1 : FN_MINUTE)) {
    char text[FN_DECIMAL_TEXT_MAX + 1];
    text[fn__decimal_print(second, 6, text)] = 0;
    if (is_time || second < 0 || second >= 61 * FN_SECOND || second % FN_SECOND == 0)
      return out_of_bounds(call, "SecondOfMinute", 0, 59, (int64_t)(second / FN_SECOND));
    char *end = text + strlen(text);
    while (end > text && end[-1] == '0') *--end = 0;
    return fn__raise(&call->report, "INVALID_FRACTION_OF_SECOND", "secAndMicros", text, NULL);
  }
  if (hour < 0 || hour > 23) return out_of_bounds(call, "HourOfDay", 0, 23, hour);
  if (minute < 0 || minute > 59) return out_of_bounds(call, "MinuteOfHour", 0, 59, minute);
  *us = hour * FN_HOUR + minute * FN_MINUTE + (int64_t)second;
  return TRN_OK;
}

static trn_status find_zone(const fn_call *call, size_t index, int64_t row, fn_zone *zone) {
  fn_text name = fn__get_text(&call->columns[index], row);
  if (fn__zone_find(name, zone)) return TRN_OK;
  char text[128];
  snprintf(text, sizeof text, "%.*s", (int)(name.size < 100 ? name.size : 100), name.data);
  return fn__raise(&call->report, "INVALID_TIMEZONE", "timeZone", text, NULL);
}

static trn_status make_row(const fn_call *call, int64_t row, int64_t *value) {
  int op = call->function->op % 3;
  int64_t us, local;
  trn_status status = clock_of(call, op == MAKE_TIME ? 0 : 3, row, op == MAKE_TIME, &us);
  if (status != TRN_OK) return status;
  if (op == MAKE_TIME) {
    *value = us * 1000;
    return TRN_OK;
  }
  int64_t part[3];
  for (int i = 0; i < 3; i++) part[i] = fn__get_i32(&call->columns[i], row);
  if (part[1] < 1 || part[1] > 12 || !fn__date_is_valid(part[0], (int)part[1], (int)part[2]))
    return bad_date(call, part[0], part[1], part[2]);
  if (part[0] < -290307 || part[0] > 294246 ||
      __builtin_add_overflow(fn__midnight(fn__days(part[0], (int)part[1], (int)part[2])), us, &local))
    return fn__raise_overflow(&call->report, "long overflow", NULL);
  *value = local;
  if (op == MAKE_NTZ) return TRN_OK;
  fn_zone zone;
  fn_zone_range range = {0};
  status = find_zone(call, 6, row, &zone);
  if (status == TRN_OK) *value = fn__to_utc(&zone, local, &range);
  return status;
}

/* An error that nobody reads: what a try_ function makes of it is null. */
static void swallow_fail(void *self, trn_status status, const char *condition, const char *message) {
  (void)self, (void)status, (void)condition, (void)message;
}
static void swallow_param(void *self, const char *key, const char *value, size_t size) {
  (void)self, (void)key, (void)value, (void)size;
}
static void swallow_position(void *self, int64_t position) {
  (void)self, (void)position;
}

static trn_status make(fn_call *call) {
  trn_function_error quiet = {sizeof quiet, NULL, swallow_fail, swallow_param, swallow_position};
  trn_function_error *given = call->report.error;
  trn_status status = TRN_OK;
  bool raises = call->function->op < 3;
  if (!raises) call->report.error = &quiet;
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    int64_t value = 0;
    if (!fn__row_is_null(&call->out, row)) {
      status = make_row(call, row, &value);
      if (status != TRN_OK && !raises) {
        fn__set_null(&call->out, row);
        value = 0;
        status = TRN_OK;
      }
    }
    ((int64_t *)call->out.data)[row] = value;
  }
  call->report.error = given;
  return status;
}

static trn_status bind_make(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  static const fn_kind KINDS[] = {FN_TIMESTAMP, FN_TIMESTAMP_NTZ, FN_TIME};
  static const char *const LETTERS[] = {"iiiiids", "iiiiid", "iid"};
  int op = call->function->op % 3;
  (void)schema;
  *out = fn__type(KINDS[op]);
  if (op == MAKE_TIME) out->precision = 6;
  bool good = fn__args_are(call, LETTERS[op]) && call->columns[op == MAKE_TIME ? 2 : 5].type.scale == 6;
  return good ? TRN_OK : fn__mismatch(call);
}

/* ---- timestamp_units(unit, start, end): whole units of local time from start to end ---- */
static const struct {
  const char *name;
  int64_t size; /* months when negative, else microseconds */
} UNITS[] = {{"microsecond", 1},     {"millisecond", 1000}, {"second", FN_SECOND}, {"minute", FN_MINUTE},
             {"hour", FN_HOUR},      {"day", FN_DAY},       {"week", 7 * FN_DAY},  {"month", -1},
             {"quarter", -3},        {"year", -12},         {"dayofyear", FN_DAY}};

static int64_t unit_size(fn_text name) {
  for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
    if (fn__text_equal(name, UNITS[i].name)) return UNITS[i].size;
  return 0;
}

/* Whole months, as java.time counts them. */
static int64_t months_from(int64_t start, int64_t end) {
  int64_t days = fn__floor_div(start, FN_DAY), end_days = fn__floor_div(end, FN_DAY);
  int64_t clock = fn__floor_mod(start, FN_DAY), end_clock = fn__floor_mod(end, FN_DAY);
  if (end_days > days && end_clock < clock) end_days--;
  if (end_days < days && end_clock > clock) end_days++;
  fn_date x = fn__date(days), y = fn__date(end_days);
  int64_t packed = (y.year * 12 + y.month - 1) * 32 + y.day - ((x.year * 12 + x.month - 1) * 32 + x.day);
  return packed / 32;
}

static trn_status timestamp_units(fn_call *call) {
  fn_text unit;
  fn_zone zone = {0};
  fn_zone_range range[2] = {{0}, {0}};
  int64_t size = fn__literal_text(call, 0, &unit) ? unit_size(unit) : 0;
  if (!size) return fn__mismatch(call);
  if (call->count == 4) {
    trn_status status = find_zone(call, 3, 0, &zone);
    if (status != TRN_OK) return status;
  }
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t value = 0;
    if (!fn__row_is_null(&call->out, row)) {
      int64_t start = fn__to_local(&zone, fn__get_i64(&call->columns[1], row), &range[0]);
      int64_t end = fn__to_local(&zone, fn__get_i64(&call->columns[2], row), &range[1]);
      if (size < 0)
        value = months_from(start, end) / -size;
      else
        value = (int64_t)(((fn_i128)end - start) / size);
    }
    ((int64_t *)call->out.data)[row] = value;
  }
  return TRN_OK;
}

static trn_status bind_units(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_INT64);
  return fn__args_are(call, "sMM|s") ? TRN_OK : fn__mismatch(call);
}

/* ---- dayname, monthname ---- */
static trn_status name_of(fn_call *call) {
  static const char DAYS[] = "MonTueWedThuFriSatSun", MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  bool month = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    int64_t days = fn__get_i32(&call->columns[0], row);
    int index = month ? fn__date(days).month : fn__weekday(days);
    fn__push(&call->out, (month ? MONTHS : DAYS) + 3 * (index - 1), 3);
  }
  return TRN_OK;
}

static trn_status bind_name(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_STRING);
  return fn__args_are(call, "D") ? TRN_OK : fn__mismatch(call);
}

/* ---- parts of intervals, all of them long; seconds in microseconds ---- */
enum { PART_YEAR, PART_MONTH, PART_DAY, PART_HOUR, PART_MINUTE, PART_SECOND };
static trn_status interval_part(fn_call *call) {
  const fn_column *x = &call->columns[0];
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t value = x->type.kind == FN_YEAR_MONTH ? fn__get_i32(x, row) : fn__get_i64(x, row);
    switch (call->function->op) {
    case PART_YEAR: value /= 12; break;
    case PART_MONTH: value %= 12; break;
    case PART_DAY: value /= FN_DAY; break;
    case PART_HOUR: value = value % FN_DAY / FN_HOUR; break;
    case PART_MINUTE: value = value % FN_HOUR / FN_MINUTE; break;
    default: value %= FN_MINUTE;
    }
    if (call->out.type.kind == FN_INT32)
      ((int32_t *)call->out.data)[row] = (int32_t)value;
    else if (call->out.type.kind == FN_INT8)
      ((int8_t *)call->out.data)[row] = (int8_t)value;
    else
      fn__store_decimal(call->out.data, row, value);
  }
  return TRN_OK;
}

static trn_status bind_part(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  int op = call->function->op;
  (void)schema;
  *out = op == PART_SECOND                     ? fn__type_decimal(8, 6)
         : op == PART_YEAR || op == PART_DAY   ? fn__type(FN_INT32)
                                               : fn__type(FN_INT8);
  return fn__args_are(call, op <= PART_MONTH ? "Y" : "I") ? TRN_OK : fn__mismatch(call);
}

/* ---- TIME values and counts of units since midnight ---- */
enum { SECONDS, MILLIS, MICROS };
static const int64_t NANOS[] = {SECOND_NANOS, 1000000, 1000};

static trn_status time_from(fn_call *call) {
  const fn_column *x = &call->columns[0];
  int64_t unit = NANOS[call->function->op];
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 value = 0;
    if (!fn__row_is_null(&call->out, row))
      value = x->type.kind == FN_DECIMAL ? fn__get_decimal(x, row) * (unit / 1000000) : /* a scale of 6 */
                  (fn_i128)fn__get_i64(x, row) * unit;
    if (value < 0 || value >= 86400 * (fn_i128)SECOND_NANOS)
      return fn__raise(&call->report, "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION", "rangeMessage",
                       "Invalid TIME value", "ansiConfig", FN_CONFIG, NULL);
    ((int64_t *)call->out.data)[row] = (int64_t)value;
  }
  return TRN_OK;
}

static trn_status bind_time_from(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_TIME);
  out->precision = 6;
  bool decimal = fn__args_are(call, "d") && call->columns[0].type.scale == 6 && call->function->op == SECONDS;
  return decimal || fn__args_are(call, "l") ? TRN_OK : fn__mismatch(call);
}

static trn_status time_to(fn_call *call) {
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t nanos = fn__get_i64(&call->columns[0], row);
    if (op == SECONDS)
      fn__store_decimal(call->out.data, row, nanos / 1000);
    else
      ((int64_t *)call->out.data)[row] = nanos / NANOS[op];
  }
  return TRN_OK;
}

static trn_status bind_time_to(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = call->function->op == SECONDS ? fn__type_decimal(14, 6) : fn__type(FN_INT64);
  return call->count == 1 && call->columns[0].type.kind == FN_TIME ? TRN_OK : fn__mismatch(call);
}

/* time_units(unit, start, end), time_trunc(unit, time): units up to the hour. */
static trn_status time_units(fn_call *call) {
  fn_text unit;
  int64_t size = fn__literal_text(call, 0, &unit) ? unit_size(unit) : 0;
  bool truncates = call->function->op;
  if (size <= 0 || size > FN_HOUR) return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t x = fn__get_i64(&call->columns[1], row), nanos = size * 1000;
    int64_t y = truncates ? 0 : fn__get_i64(&call->columns[2], row);
    ((int64_t *)call->out.data)[row] = truncates ? x - x % nanos : (y / 1000 - x / 1000) / size;
  }
  return TRN_OK;
}

static trn_status bind_time_units(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  bool truncates = call->function->op;
  (void)schema;
  bool good = call->count == (truncates ? 2u : 3u) && call->columns[0].type.kind == FN_STRING;
  for (size_t i = 1; i < call->count && good; i++) good = call->columns[i].type.kind == FN_TIME;
  if (!good) return fn__mismatch(call);
  *out = truncates ? call->columns[1].type : fn__type(FN_INT64);
  return TRN_OK;
}

#define STRICT(name, flags, op, bind, kernel)                                                                          \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | (flags), op, bind, kernel }
const fn_scalar fn__time_make_table[] = {
    STRICT("make_timestamp", FN_POSITION, MAKE_LTZ, bind_make, make),
    STRICT("make_timestamp_try", FN_NULLABLE, 3 + MAKE_LTZ, bind_make, make),
    STRICT("make_timestamp_ntz", FN_POSITION, MAKE_NTZ, bind_make, make),
    STRICT("make_timestamp_ntz_try", FN_NULLABLE, 3 + MAKE_NTZ, bind_make, make),
    STRICT("make_time", FN_POSITION, MAKE_TIME, bind_make, make),
    STRICT("timestamp_units", 0, 0, bind_units, timestamp_units),
    STRICT("dayname", 0, 0, bind_name, name_of),
    STRICT("monthname", 0, 1, bind_name, name_of),
    STRICT("interval_year", 0, PART_YEAR, bind_part, interval_part),
    STRICT("interval_month", 0, PART_MONTH, bind_part, interval_part),
    STRICT("interval_day", 0, PART_DAY, bind_part, interval_part),
    STRICT("interval_hour", 0, PART_HOUR, bind_part, interval_part),
    STRICT("interval_minute", 0, PART_MINUTE, bind_part, interval_part),
    STRICT("interval_second", 0, PART_SECOND, bind_part, interval_part),
    STRICT("time_from_seconds", FN_POSITION, SECONDS, bind_time_from, time_from),
    STRICT("time_from_millis", FN_POSITION, MILLIS, bind_time_from, time_from),
    STRICT("time_from_micros", FN_POSITION, MICROS, bind_time_from, time_from),
    STRICT("time_to_seconds", 0, SECONDS, bind_time_to, time_to),
    STRICT("time_to_millis", 0, MILLIS, bind_time_to, time_to),
    STRICT("time_to_micros", 0, MICROS, bind_time_to, time_to),
    STRICT("time_units", 0, 0, bind_time_units, time_units),
    STRICT("time_trunc", 0, 1, bind_time_units, time_units),
    {NULL},
};
