/* The proleptic Gregorian calendar, as java.time has it. Days count from 1970-01-01, microseconds from its midnight. */
#ifndef TRN_FUNCTIONS_CALENDAR_H
#define TRN_FUNCTIONS_CALENDAR_H
#include "functions/array.h"
#include "functions/zone.h"

#define FN_SECOND ((int64_t)1000000)
#define FN_MINUTE (60 * FN_SECOND)
#define FN_HOUR (60 * FN_MINUTE)
#define FN_DAY (24 * FN_HOUR)

typedef struct fn_date {
  int64_t year;
  int month, day; /* from 1 */
} fn_date;

static inline int64_t fn__floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t fn__floor_mod(int64_t a, int64_t b) {
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
/* The microsecond of a day's start; beyond int64 the nearest there is. */
static inline int64_t fn__midnight(int64_t days) {
  int64_t us;
  return __builtin_mul_overflow(days, FN_DAY, &us) ? (days < 0 ? INT64_MIN : INT64_MAX) : us;
}

/* Years within +-10 million or so. */
static inline int64_t fn__days(int64_t year, int month, int day) {
  year -= month <= 2;
  int64_t era = fn__floor_div(year, 400), of_era = year - era * 400;
  int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Neri and Schneider's 32-bit arithmetic, for years up to some million; the rest by the plain way. */
static inline fn_date fn__date(int64_t days) {
  if (days > -11000000 && days < 1000000000) {
    uint32_t n = 4 * (uint32_t)(days + 719468 + 82 * 146097) + 3, century = n / 146097, of_century = n % 146097 | 3;
    uint64_t product = (uint64_t)2939745 * of_century;
    uint32_t year = (uint32_t)(product >> 32), of_year = (uint32_t)product / 2939745 / 4, m = 2141 * of_year + 197913;
    bool next = of_year >= 306; /* January and February belong to the year that starts in March before */
    return (fn_date){(int64_t)(100 * century + year + next) - 82 * 400, (int)(m >> 16) - (next ? 12 : 0),
                     (int)((m & 0xffff) / 2141) + 1};
  }
  days += 719468;
  int64_t era = fn__floor_div(days, 146097), of_era = days - era * 146097;
  int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
  int64_t shifted = (5 * of_year + 2) / 153;
  int month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
  return (fn_date){year + era * 400 + (month <= 2), month, (int)(of_year - (153 * shifted + 2) / 5 + 1)};
}

static inline bool fn__is_leap(int64_t year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}
static inline int fn__month_days(int64_t year, int month) {
  static const int8_t DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return DAYS[month - 1] + (month == 2 && fn__is_leap(year));
}
static inline bool fn__date_is_valid(int64_t year, int month, int day) {
  return month >= 1 && month <= 12 && day >= 1 && day <= fn__month_days(year, month);
}
/* 1: Monday .. 7: Sunday */
static inline int fn__weekday(int64_t days) {
  return (int)fn__floor_mod(days + 3, 7) + 1;
}

/* The date moved by months, its day cut to the month's length. */
static inline int64_t fn__add_months(int64_t days, int64_t months) {
  fn_date date = fn__date(days);
  int64_t month = date.year * 12 + date.month - 1 + months;
  int64_t year = fn__floor_div(month, 12);
  int of_year = (int)fn__floor_mod(month, 12) + 1;
  int length = fn__month_days(year, of_year);
  return fn__days(year, of_year, date.day < length ? date.day : length);
}

#define FN_DATE_TEXT_MAX 16
#define FN_TIMESTAMP_TEXT_MAX 48
size_t fn__date_print(int64_t days, char *out);
size_t fn__timestamp_print(int64_t local_us, char *out); /* the fraction without its last zeros */
size_t fn__time_print(int64_t nanos, char *out);

/* As Spark casts text. False: malformed, no such day, out of range. */
bool fn__date_parse(fn_text text, int32_t *days);
typedef struct fn_parsed_time {
  int64_t local_us; /* date and time, or only the time of day */
  bool just_time, has_zone;
  fn_zone zone;
} fn_parsed_time;
bool fn__timestamp_parse(fn_text text, fn_parsed_time *out);
bool fn__timestamp_parse_zoned(fn_text text, const fn_zone *zone, int64_t *us);
#endif
