/* Dates and timestamps: parts, arithmetic, truncation. */
#include "functions/calendar.h"
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The zone literal at `index`; UTC when the call has no such argument. INVALID_TIMEZONE when there is none so named. */
static trn_status call_zone(const fn_call *call, size_t index, fn_zone *zone) {
  fn_text name;
  *zone = (fn_zone){0};
  if (index >= call->count || !fn__literal_text(call, index, &name) || fn__zone_find(name, zone)) return TRN_OK;
  trn_status status = fn__raise(&call->report, "INVALID_TIMEZONE", NULL);
  fn__param(&call->report, "timeZone", name.data, name.size);
  return status;
}

/* ---- parts ---- */
enum {
  YEAR,
  QUARTER,
  MONTH,
  WEEK,
  DAY,
  DAYOFWEEK,
  DAYOFWEEK_ISO,
  WEEKDAY,
  DOY,
  YEAROFWEEK,
  HOUR,
  MINUTE,
  SECOND,
  NO_FIELD
};
static const char *const FIELDS[] = {"year",    "quarter", "month",      "week", "day",    "dayofweek", "dayofweek_iso",
                                     "weekday", "doy",     "yearofweek", "hour", "minute", "second"};

static int find_field(const fn_call *call, size_t index) {
  fn_text name;
  if (fn__literal_text(call, index, &name))
    for (int i = 0; i < NO_FIELD; i++)
      if (fn__text_equal(name, FIELDS[i])) return i;
  return NO_FIELD;
}

/* The Monday-based week that has the year's first Thursday is week 1. */
static int32_t iso_week(int64_t days, bool want_year) {
  int64_t thursday = days + 4 - fn__weekday(days);
  int64_t year = fn__date(thursday).year;
  return want_year ? (int32_t)year : (int32_t)((thursday - fn__days(year, 1, 1)) / 7 + 1);
}

static inline int32_t date_part(int field, int64_t days) {
  switch (field) {
  case YEAR: return (int32_t)fn__date(days).year;
  case QUARTER: return (fn__date(days).month + 2) / 3;
  case MONTH: return fn__date(days).month;
  case DAY: return fn__date(days).day;
  case WEEK: return iso_week(days, false);
  case YEAROFWEEK: return iso_week(days, true);
  case DAYOFWEEK: return fn__weekday(days) % 7 + 1;
  case DAYOFWEEK_ISO: return fn__weekday(days);
  case WEEKDAY: return fn__weekday(days) - 1;
  default: return (int32_t)(days - fn__days(fn__date(days).year, 1, 1) + 1);
  }
}

static trn_status extract_date(fn_call *call) {
  const fn_column *dates = &call->columns[0];
  int field = find_field(call, 1);
  int32_t *out = call->out.data;
  if (field >= HOUR) return fn__mismatch(call);
  if (field == YEAR) /* by far the most used: no switch inside */
    for (int64_t row = 0; row < call->rows; row++) out[row] = (int32_t)fn__date(fn__get_i32(dates, row)).year;
  else
    for (int64_t row = 0; row < call->rows; row++) out[row] = date_part(field, fn__get_i32(dates, row));
  return TRN_OK;
}

static int32_t clock_part(int field, int64_t local_us) {
  int64_t rest = fn__floor_mod(local_us, FN_DAY);
  return (int32_t)(field == HOUR ? rest / FN_HOUR : field == MINUTE ? rest / FN_MINUTE % 60 : rest / FN_SECOND % 60);
}

static trn_status extract_timestamp(fn_call *call) {
  bool is_second = call->function->op == SECOND;
  int field = is_second ? SECOND : find_field(call, 1);
  fn_zone zone;
  fn_zone_range range = {0};
  trn_status status = field == NO_FIELD ? fn__mismatch(call) : call_zone(call, is_second ? 1 : 2, &zone);
  if (status != TRN_OK) return status;
  if (call->columns[0].type.kind == FN_TIMESTAMP_NTZ) zone = (fn_zone){0};
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t local = fn__to_local(&zone, fn__get_i64(&call->columns[0], row), &range);
    ((int32_t *)call->out.data)[row] =
        field >= HOUR ? clock_part(field, local) : date_part(field, fn__floor_div(local, FN_DAY));
  }
  return TRN_OK;
}

static trn_status extract_second(fn_call *call) {
  fn_zone zone;
  fn_zone_range range = {0};
  trn_status status = call_zone(call, 1, &zone);
  if (status != TRN_OK) return status;
  if (call->columns[0].type.kind == FN_TIMESTAMP_NTZ) zone = (fn_zone){0};
  for (int64_t row = 0; row < call->rows; row++)
    fn__store_decimal(call->out.data, row,
                      fn__floor_mod(fn__to_local(&zone, fn__get_i64(&call->columns[0], row), &range), FN_MINUTE));
  return TRN_OK;
}

/* TIME values: nanoseconds of the day. */
static trn_status extract_time(fn_call *call) {
  int field = find_field(call, 1);
  if (field < HOUR || field == NO_FIELD) return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++)
    ((int32_t *)call->out.data)[row] = clock_part(field, fn__get_i64(&call->columns[0], row) / 1000);
  return TRN_OK;
}

/* ---- arithmetic ---- */
enum { DATE_ADD, DATE_SUB, ADD_MONTHS, DATE_DIFF, DATE_DIFF_DT };
static trn_status date_arithmetic(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t x = fn__get_i32(a, row), y = fn__get_i32(b, row);
    if (op == DATE_DIFF_DT) {
      ((int64_t *)call->out.data)[row] = fn__midnight(x - y);
      continue;
    }
    int64_t result = op == DATE_ADD ? x + y : op == ADD_MONTHS ? fn__add_months(x, y) : x - y;
    if (op == ADD_MONTHS && result != (int32_t)result && !fn__row_is_null(&call->out, row))
      return fn__raise_overflow(&call->report, "integer overflow", NULL);
    ((int32_t *)call->out.data)[row] = (int32_t)(uint32_t)(uint64_t)result;
  }
  return TRN_OK;
}

static trn_status overflow_datetime(const fn_call *call, const char *operation) {
  return fn__raise(&call->report, "DATETIME_OVERFLOW", "operation", operation, NULL);
}

/* Months move the local date, days the local time; the rest is exact time. */
static trn_status timestamp_add(fn_call *call) {
  const fn_column *times = &call->columns[0], *amounts = &call->columns[1];
  bool is_months = amounts->type.kind == FN_YEAR_MONTH;
  fn_zone zone;
  fn_zone_range range = {0};
  trn_status status = call_zone(call, 2, &zone);
  if (status != TRN_OK) return status;
  if (times->type.kind == FN_TIMESTAMP_NTZ) zone = (fn_zone){0};
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t us = fn__get_i64(times, row), local = fn__to_local(&zone, us, &range), rest = 0;
    fn_i128 moved;
    if (fn__row_is_null(&call->out, row)) {
      ((int64_t *)call->out.data)[row] = 0;
      continue;
    }
    if (is_months) {
      int64_t days = fn__floor_div(local, FN_DAY);
      moved = (fn_i128)fn__add_months(days, fn__get_i32(amounts, row)) * FN_DAY + fn__floor_mod(local, FN_DAY);
    } else {
      int64_t amount = fn__get_i64(amounts, row), days = amount / FN_DAY;
      rest = amount - days * FN_DAY;
      moved = (fn_i128)local + (fn_i128)days * FN_DAY;
    }
    bool good = moved == (int64_t)moved;
    fn_i128 sum = good ? (fn_i128)(moved == local ? us : fn__to_utc(&zone, (int64_t)moved, &range)) + rest : 0;
    if (!good || sum != (int64_t)sum) return overflow_datetime(call, "add an interval to a timestamp");
    ((int64_t *)call->out.data)[row] = (int64_t)sum;
  }
  return TRN_OK;
}

static trn_status timestamp_diff(fn_call *call) {
  const fn_column *end = &call->columns[0], *start = &call->columns[1];
  fn_zone zone;
  fn_zone_range range = {0};
  trn_status status = call_zone(call, 2, &zone);
  if (status != TRN_OK) return status;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t a = fn__get_i64(end, row), b = fn__get_i64(start, row), diff;
    if (end->type.kind == FN_TIMESTAMP) a = fn__to_local(&zone, a, &range);
    if (start->type.kind == FN_TIMESTAMP) b = fn__to_local(&zone, b, &range);
    if (__builtin_sub_overflow(a, b, &diff) && !fn__row_is_null(&call->out, row))
      return fn__raise_overflow(&call->report, "long overflow", NULL);
    ((int64_t *)call->out.data)[row] = diff;
  }
  return TRN_OK;
}

static trn_status months_between(fn_call *call) {
  fn_zone zone;
  fn_zone_range range = {0};
  trn_status status = call_zone(call, 3, &zone);
  if (status != TRN_OK) return status;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t a = fn__to_local(&zone, fn__get_i64(&call->columns[0], row), &range);
    int64_t b = fn__to_local(&zone, fn__get_i64(&call->columns[1], row), &range);
    int64_t a_days = fn__floor_div(a, FN_DAY), b_days = fn__floor_div(b, FN_DAY);
    fn_date x = fn__date(a_days), y = fn__date(b_days);
    double months = (double)((x.year - y.year) * 12 + x.month - y.month);
    bool both_last = x.day == fn__month_days(x.year, x.month) && y.day == fn__month_days(y.year, y.month);
    if (x.day != y.day && !both_last) {
      int64_t seconds =
          (x.day - y.day) * 86400 + fn__floor_mod(a, FN_DAY) / FN_SECOND - fn__floor_mod(b, FN_DAY) / FN_SECOND;
      months += (double)seconds / (31 * 86400.0);
      if (fn__get_bool(&call->columns[2], row)) /* to eight digits, HALF_UP on the value's decimal text */
        months = round(months * 1e8) / 1e8;
    }
    ((double *)call->out.data)[row] = months;
  }
  return TRN_OK;
}

/* ---- making and moving dates ---- */
static trn_status raise_bad_date(const fn_call *call, int64_t year, int64_t month, int64_t day) {
  static const char *const MONTHS[] = {"JANUARY", "FEBRUARY", "MARCH",     "APRIL",   "MAY",      "JUNE",
                                       "JULY",    "AUGUST",   "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"};
  char message[128];
  if (month < 1 || month > 12)
    snprintf(message, sizeof message, "Invalid value for MonthOfYear (valid values 1 - 12): %lld", (long long)month);
  else if (day < 1 || day > 31)
    snprintf(message, sizeof message, "Invalid value for DayOfMonth (valid values 1 - 28/31): %lld", (long long)day);
  else if (month == 2 && day == 29)
    snprintf(message, sizeof message, "Invalid date 'February 29' as '%lld' is not a leap year", (long long)year);
  else
    snprintf(message, sizeof message, "Invalid date '%s %lld'", MONTHS[month - 1], (long long)day);
  return fn__raise(&call->report, "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION", "rangeMessage", message,
                   "ansiConfig", FN_CONFIG, NULL);
}

static trn_status make_date(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t part[3], days = 0;
    for (int i = 0; i < 3; i++) part[i] = fn__get_i32(&call->columns[i], row);
    bool null = fn__row_is_null(&call->out, row), good = !null && part[1] >= 1 && part[1] <= 12;
    if (good && fn__date_is_valid(part[0], (int)part[1], (int)part[2])) {
      days = fn__days(part[0], (int)part[1], (int)part[2]);
      good = days == (int32_t)days;
    } else {
      good = false;
    }
    if (!good && !null) {
      if (call->function->flags & FN_POSITION) return raise_bad_date(call, part[0], part[1], part[2]);
      fn__set_null(&call->out, row);
    }
    ((int32_t *)call->out.data)[row] = good ? (int32_t)days : 0;
  }
  return TRN_OK;
}

static trn_status last_day(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t days = fn__get_i32(&call->columns[0], row);
    fn_date date = fn__date(days);
    ((int32_t *)call->out.data)[row] = (int32_t)(days + fn__month_days(date.year, date.month) - date.day);
  }
  return TRN_OK;
}

/* 1: Monday .. 7; 0: no such name. Two letters, three, or the whole. */
static int weekday_named(fn_text name) {
  static const char *const NAMES[] = {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"};
  name = fn__trim_all(name);
  for (int i = 0; i < 7; i++) {
    char part[4] = {NAMES[i][0], NAMES[i][1], NAMES[i][2], 0}, two[3] = {NAMES[i][0], NAMES[i][1], 0};
    if (fn__text_equal(name, NAMES[i]) || fn__text_equal(name, part) || fn__text_equal(name, two)) return i + 1;
  }
  return 0;
}

static trn_status next_day(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    ((int32_t *)call->out.data)[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text name = fn__get_text(&call->columns[1], row);
    int wanted = weekday_named(name);
    if (wanted) {
      int64_t days = fn__get_i32(&call->columns[0], row);
      ((int32_t *)call->out.data)[row] = (int32_t)(days + 1 + (wanted + 6 - fn__weekday(days)) % 7);
    } else if (call->function->flags & FN_POSITION) {
      trn_status status = fn__raise(&call->report, "ILLEGAL_DAY_OF_WEEK", NULL);
      fn__param(&call->report, "string", name.data, name.size);
      return status;
    } else {
      fn__set_null(&call->out, row);
    }
  }
  return TRN_OK;
}

/* ---- truncation ---- */
typedef enum level {
  NO_LEVEL,
  US,
  MS,
  TO_SECOND,
  TO_MINUTE,
  TO_HOUR,
  TO_DAY,
  TO_WEEK,
  TO_MONTH,
  TO_QUARTER,
  TO_YEAR
} level;
static level level_named(fn_text name) {
  static const struct {
    const char *name;
    uint8_t level;
  } LEVELS[] = {{"microsecond", US}, {"millisecond", MS}, {"second", TO_SECOND}, {"minute", TO_MINUTE},
                {"hour", TO_HOUR},   {"day", TO_DAY},     {"dd", TO_DAY},        {"week", TO_WEEK},
                {"mon", TO_MONTH},   {"month", TO_MONTH}, {"mm", TO_MONTH},      {"quarter", TO_QUARTER},
                {"year", TO_YEAR},   {"yyyy", TO_YEAR},   {"yy", TO_YEAR}};
  for (size_t i = 0; i < sizeof LEVELS / sizeof LEVELS[0]; i++)
    if (fn__text_equal(name, LEVELS[i].name)) return (level)LEVELS[i].level;
  return NO_LEVEL;
}

static int64_t truncate_days(int64_t days, level to) {
  fn_date date = fn__date(days);
  switch (to) {
  case TO_WEEK: return days + 1 - fn__weekday(days);
  case TO_MONTH: return days + 1 - date.day;
  case TO_QUARTER: return fn__days(date.year, (date.month - 1) / 3 * 3 + 1, 1);
  case TO_YEAR: return fn__days(date.year, 1, 1);
  default: return days;
  }
}

static trn_status trunc_date(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    ((int32_t *)call->out.data)[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    level to = level_named(fn__get_text(&call->columns[1], row));
    if (to < TO_WEEK)
      fn__set_null(&call->out, row);
    else
      ((int32_t *)call->out.data)[row] = (int32_t)truncate_days(fn__get_i32(&call->columns[0], row), to);
  }
  return TRN_OK;
}

static int64_t truncate_us(int64_t us, level to, const fn_zone *zone, fn_zone_range *range) {
  static const int64_t UNITS[] = {
      [US] = 1, [MS] = 1000, [TO_SECOND] = FN_SECOND, [TO_MINUTE] = FN_MINUTE, [TO_HOUR] = FN_HOUR};
  if (to <= TO_SECOND) return (int64_t)((uint64_t)us - (uint64_t)fn__floor_mod(us, UNITS[to]));
  int64_t local = fn__to_local(zone, us, range);
  if (to <= TO_HOUR) /* the same offset on both sides: an hour that happens twice stays the one it is */
    return (int64_t)((uint64_t)us - (uint64_t)fn__floor_mod(local, UNITS[to]));
  return fn__to_utc(zone, fn__midnight(truncate_days(fn__floor_div(local, FN_DAY), to)), range);
}

static trn_status trunc_timestamp(fn_call *call) {
  fn_zone zone;
  fn_zone_range range = {0};
  trn_status status = call_zone(call, 2, &zone);
  if (status != TRN_OK) return status;
  if (call->columns[1].type.kind == FN_TIMESTAMP_NTZ) zone = (fn_zone){0};
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t *out = (int64_t *)call->out.data + row;
    *out = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    level to = level_named(fn__get_text(&call->columns[0], row));
    if (to == NO_LEVEL)
      fn__set_null(&call->out, row);
    else
      *out = truncate_us(fn__get_i64(&call->columns[1], row), to, &zone, &range);
  }
  return TRN_OK;
}

/* ---- between zones and epochs ---- */
static trn_status shift_zone(fn_call *call) {
  bool to_utc = call->function->op;
  fn_zone zone = {0};
  fn_zone_range range = {0};
  fn_text known = {NULL, 0};
  for (int64_t row = 0; row < call->rows; row++) {
    ((int64_t *)call->out.data)[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text name = fn__get_text(&call->columns[1], row);
    if (!known.data || known.size != name.size || memcmp(known.data, name.data, name.size) != 0) {
      range = (fn_zone_range){0};
      if (!fn__zone_find(name, &zone)) {
        trn_status status = fn__raise(&call->report, "INVALID_TIMEZONE", NULL);
        fn__param(&call->report, "timeZone", name.data, name.size);
        return status;
      }
      known = name;
    }
    int64_t us = fn__get_i64(&call->columns[0], row);
    ((int64_t *)call->out.data)[row] = to_utc ? fn__to_utc(&zone, us, &range) : fn__to_local(&zone, us, &range);
  }
  return TRN_OK;
}

enum { UNIX_SECONDS = 1000000, UNIX_MILLIS = 1000, UNIX_MICROS = 1 };
static trn_status unix_time(fn_call *call) {
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++)
    ((int64_t *)call->out.data)[row] = fn__floor_div(fn__get_i64(&call->columns[0], row), op);
  return TRN_OK;
}

static trn_status from_unix(fn_call *call) {
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t us;
    if (__builtin_mul_overflow(fn__get_integer(&call->columns[0], row), (int64_t)op, &us) &&
        !fn__row_is_null(&call->out, row))
      return fn__raise_overflow(&call->report, "long overflow", NULL);
    ((int64_t *)call->out.data)[row] = us;
  }
  return TRN_OK;
}

static trn_status unix_date(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) ((int32_t *)call->out.data)[row] = fn__get_i32(&call->columns[0], row);
  return TRN_OK;
}

/* ---- binding: argument letters, then the result's kind ---- */
FN_BIND(extract_date, "Ds", fn__type(FN_INT32))
FN_BIND(extract_timestamp, "Ms|s", fn__type(FN_INT32))
FN_BIND(extract_time, "*s", fn__type(FN_INT32))
FN_BIND(second, "M|s", fn__type(FN_INT32))
FN_BIND(extract_second, "M|s", fn__type_decimal(8, 6))
FN_BIND(date_int, "Di", fn__type(FN_DATE))
FN_BIND(date_diff, "DD", fn__type(FN_INT32))
FN_BIND(date_diff_dt, "DD", fn__type(FN_DAY_TIME))
FN_BIND(date_months, "DY", fn__type(FN_DATE))
FN_BIND(timestamp_months, "MY|s", call->columns[0].type)
FN_BIND(timestamp_time, "MI|s", call->columns[0].type)
FN_BIND(timestamp_diff, "MM|s", fn__type(FN_DAY_TIME))
FN_BIND(months_between, "MMb|s", fn__type(FN_FLOAT64))
FN_BIND(make_date, "iii", fn__type(FN_DATE))
FN_BIND(date, "D", fn__type(FN_DATE))
FN_BIND(date_string, "Ds", fn__type(FN_DATE))
FN_BIND(trunc_timestamp, "sM|s", call->columns[1].type)
FN_BIND(shift_zone, "Ms", call->columns[0].type)
FN_BIND(unix_time, "M", fn__type(FN_INT64))
FN_BIND(from_unix, "n", fn__type(FN_TIMESTAMP))
FN_BIND(unix_date, "D", fn__type(FN_INT32))
FN_BIND(from_unix_date, "i", fn__type(FN_DATE))

#define STRICT(name, flags, op, bind, kernel)                                                                          \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | (flags), op, bind, kernel }
const fn_scalar fn__datetime_table[] = {
    STRICT("extract_date", 0, 0, bind_extract_date, extract_date),
    STRICT("extract_timestamp", 0, 0, bind_extract_timestamp, extract_timestamp),
    STRICT("extract_time", 0, 0, bind_extract_time, extract_time),
    STRICT("second", 0, SECOND, bind_second, extract_timestamp),
    STRICT("extract_second", 0, 0, bind_extract_second, extract_second),
    STRICT("date_add", 0, DATE_ADD, bind_date_int, date_arithmetic),
    STRICT("date_sub", 0, DATE_SUB, bind_date_int, date_arithmetic),
    STRICT("add_months", 0, ADD_MONTHS, bind_date_int, date_arithmetic),
    STRICT("date_add_ym", 0, ADD_MONTHS, bind_date_months, date_arithmetic),
    STRICT("date_diff", 0, DATE_DIFF, bind_date_diff, date_arithmetic),
    STRICT("date_diff_dt", 0, DATE_DIFF_DT, bind_date_diff_dt, date_arithmetic),
    STRICT("timestamp_add_ym", 0, 0, bind_timestamp_months, timestamp_add),
    STRICT("timestamp_add_dt", 0, 0, bind_timestamp_time, timestamp_add),
    STRICT("timestamp_diff", 0, 0, bind_timestamp_diff, timestamp_diff),
    STRICT("months_between", 0, 0, bind_months_between, months_between),
    STRICT("make_date", FN_POSITION, 0, bind_make_date, make_date),
    STRICT("make_date_try", FN_NULLABLE, 0, bind_make_date, make_date),
    STRICT("last_day", 0, 0, bind_date, last_day),
    STRICT("next_day", FN_POSITION, 0, bind_date_string, next_day),
    STRICT("next_day_try", FN_NULLABLE, 0, bind_date_string, next_day),
    STRICT("trunc", FN_NULLABLE, 0, bind_date_string, trunc_date),
    STRICT("date_trunc", FN_NULLABLE, 0, bind_trunc_timestamp, trunc_timestamp),
    STRICT("timestamp_to_utc", 0, 1, bind_shift_zone, shift_zone),
    STRICT("timestamp_from_utc", 0, 0, bind_shift_zone, shift_zone),
    STRICT("unix_timestamp", 0, UNIX_SECONDS, bind_unix_time, unix_time),
    STRICT("unix_seconds", 0, UNIX_SECONDS, bind_unix_time, unix_time),
    STRICT("unix_millis", 0, UNIX_MILLIS, bind_unix_time, unix_time),
    STRICT("unix_micros", 0, UNIX_MICROS, bind_unix_time, unix_time),
    STRICT("timestamp_seconds", 0, UNIX_SECONDS, bind_from_unix, from_unix),
    STRICT("timestamp_millis", 0, UNIX_MILLIS, bind_from_unix, from_unix),
    STRICT("timestamp_micros", 0, UNIX_MICROS, bind_from_unix, from_unix),
    STRICT("unix_date", 0, 0, bind_unix_date, unix_date),
    STRICT("date_from_unix_date", 0, 0, bind_from_unix_date, unix_date),
    {NULL},
};
