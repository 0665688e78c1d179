/* Texts to values, exactly as Spark's casts and typed literals read them: numbers, dates, timestamps, times. */
#include "frontend/spark/translate/values.h"

trn_i128 spark__pow10(int n) {
  trn_i128 power = 1;
  while (n-- > 0) power *= 10;
  return power;
}

/* "[+-]digits[.digits][e[+-]digits]" as an unscaled value; false when it is none or takes more than 38 digits. Trailing
 * zeros count, as in java.math.BigDecimal. */
bool spark__parse_decimal(const char *text, size_t size, trn_i128 *unscaled, int *precision, int *scale) {
  size_t i = 0;
  bool negative = false, any = false, fraction = false;
  int digits = 0, point = 0, exponent = 0;
  trn_i128 value = 0;
  if (i < size && (text[i] == '+' || text[i] == '-')) negative = text[i++] == '-';
  for (; i < size; i++) {
    if (text[i] == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') break;
    any = true;
    if (value != 0 || text[i] != '0') digits++;
    if (digits > 38 || point > 1000) return false;
    value = value * 10 + (text[i] - '0');
    if (fraction) point++;
  }
  if (any && i < size && (text[i] == 'e' || text[i] == 'E')) {
    bool minus = false;
    size_t first = ++i;
    if (i < size && (text[i] == '+' || text[i] == '-')) minus = text[i++] == '-', first = i;
    for (; i < size && text[i] >= '0' && text[i] <= '9'; i++)
      if ((exponent = exponent * 10 + (text[i] - '0')) > 1000) return false;
    if (i == first) return false;
    if (minus) exponent = -exponent;
  }
  if (!any || i != size) return false;
  point -= exponent;
  for (; point < 0 && value != 0; point++) {
    if (++digits > 38) return false;
    value *= 10;
  }
  if (point < 0) point = 0;
  if (point > 38) return false;
  *unscaled = negative ? -value : value;
  *scale = point;
  *precision = digits > point ? digits : point > 0 ? point : 1;
  return *precision <= 38;
}

/* ---- dates: days since 1970-01-01 in the proleptic Gregorian calendar ---- */
int64_t spark__days_from_civil(int64_t year, unsigned month, unsigned day) {
  year -= month <= 2;
  int64_t era = (year >= 0 ? year : year - 399) / 400;
  unsigned of_era = (unsigned)(year - era * 400);
  unsigned of_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;
  return era * 146097 + (int64_t)(of_era * 365 + of_era / 4 - of_era / 100 + of_year) - 719468;
}

void spark__civil_from_days(int64_t days, int64_t *year, unsigned *month, unsigned *day) {
  days += 719468;
  int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  unsigned of_era = (unsigned)(days - era * 146097);
  unsigned years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  unsigned of_year = of_era - (365 * years + years / 4 - years / 100);
  unsigned shifted = (5 * of_year + 2) / 153;
  *day = of_year - (153 * shifted + 2) / 5 + 1;
  *month = shifted < 10 ? shifted + 3 : shifted - 9;
  *year = (int64_t)years + era * 400 + (*month <= 2);
}

static bool is_leap(int64_t year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}
static bool civil_is_valid(int64_t year, int64_t month, int64_t day) {
  static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12 || day < 1) return false;
  return day <= lengths[month - 1] + (month == 2 && is_leap(year));
}

typedef struct cursor {
  const char *at, *end;
} cursor;
static bool take(cursor *c, char wanted) {
  if (c->at == c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}
/* Digits, `least` to `most` of them. */
static bool number(cursor *c, int least, int most, int64_t *value) {
  int count = 0;
  *value = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
    if (++count > most) return false;
    *value = *value * 10 + (*c->at - '0');
  }
  return count >= least;
}
/* What UTF8String.trimAll takes off: spaces and control characters. */
static cursor trimmed(const char *text, size_t size) {
  cursor c = {text, text + size};
  while (c.at < c.end && (unsigned char)*c.at <= ' ') c.at++;
  while (c.end > c.at && ((unsigned char)c.end[-1] <= ' ' || c.end[-1] == 0x7f)) c.end--;
  return c;
}

/* [+-]y{4,7}[-m[-d]]: fills the civil date; leaves the cursor behind it. */
static bool civil(cursor *c, int64_t *year, int64_t *month, int64_t *day, bool *complete) {
  bool negative = false;
  *month = *day = 1;
  *complete = false;
  if (c->at < c->end && (*c->at == '+' || *c->at == '-')) negative = *c->at++ == '-';
  if (!number(c, 4, 7, year)) return false;
  if (negative) *year = -*year;
  if (!take(c, '-')) return true;
  if (!number(c, 1, 2, month)) return false;
  if (!take(c, '-')) return true;
  *complete = true;
  return number(c, 1, 2, day);
}

bool spark__parse_date(const char *text, size_t size, int64_t *days) {
  cursor c = trimmed(text, size);
  int64_t year, month, day;
  bool complete;
  if (c.at == c.end || !civil(&c, &year, &month, &day, &complete)) return false;
  if (c.at < c.end && !(complete && (*c.at == ' ' || *c.at == 'T'))) return false;
  if (!civil_is_valid(year, month, day)) return false;
  *days = spark__days_from_civil(year, (unsigned)month, (unsigned)day);
  return *days >= INT32_MIN && *days <= INT32_MAX;
}

/* h[h]:m[m][:s[s][.f{1,9}]] as nanoseconds; Spark wants hours and minutes. */
static bool clock_time(cursor *c, int64_t *nanos, int *digits) {
  int64_t hour, minute = 0, second = 0, fraction = 0;
  *digits = 0;
  if (!number(c, 1, 2, &hour) || hour > 23) return false;
  if (!take(c, ':') || !number(c, 1, 2, &minute) || minute > 59) return false;
  if (take(c, ':')) {
    if (!number(c, 1, 2, &second) || second > 59) return false;
    if (take(c, '.')) {
      const char *first = c->at;
      if (!number(c, 0, 9, &fraction)) return false;
      *digits = (int)(c->at - first);
      for (int i = *digits; i < 9; i++) fraction *= 10;
    }
  }
  *nanos = ((hour * 60 + minute) * 60 + second) * 1000000000 + fraction;
  return true;
}

bool spark__parse_time(const char *text, size_t size, int64_t *nanos, int *digits) {
  cursor c = trimmed(text, size);
  return clock_time(&c, nanos, digits) && c.at == c.end;
}

/* Z, UTC, GMT, [UTC|GMT][+-]h[h][:mm[:ss]]; anything else (a region) is for a kernel that has a zone table. */
static bool zone_offset(cursor c, int64_t *offset_us) {
  while (c.at < c.end && *c.at == ' ') c.at++;
  size_t size = (size_t)(c.end - c.at);
  *offset_us = 0;
  if (size == 1 && *c.at == 'Z') return true;
  if (size >= 3 && (!memcmp(c.at, "UTC", 3) || !memcmp(c.at, "GMT", 3))) {
    c.at += 3;
    if (c.at == c.end) return true;
  }
  if (c.at == c.end || (*c.at != '+' && *c.at != '-')) return false;
  bool negative = *c.at++ == '-';
  int64_t hour, minute = 0, second = 0;
  if (!number(&c, 1, 2, &hour)) return false;
  if (take(&c, ':') && !number(&c, 2, 2, &minute)) return false;
  if (take(&c, ':') && !number(&c, 2, 2, &second)) return false;
  if (c.at != c.end || minute > 59 || second > 59 || (hour * 60 + minute) * 60 + second > 18 * 3600) return false;
  *offset_us = ((hour * 60 + minute) * 60 + second) * 1000000 * (negative ? -1 : 1);
  return true;
}

bool spark__parse_timestamp(const char *text, size_t size, int64_t *micros, int64_t *offset_us) {
  cursor c = trimmed(text, size);
  int64_t year, month, day, nanos = 0;
  bool complete;
  int digits;
  *offset_us = INT64_MIN;
  if (c.at == c.end || !civil(&c, &year, &month, &day, &complete)) return false;
  if (year < -290307 || year > 294246) return false; /* beyond, microseconds do not fit */
  if (c.at < c.end) {
    if (!complete || (*c.at != ' ' && *c.at != 'T')) return false;
    c.at++;
    if (c.at == c.end || !clock_time(&c, &nanos, &digits)) return false;
    if (c.at < c.end && !zone_offset(c, offset_us)) return false;
  }
  if (!civil_is_valid(year, month, day)) return false;
  int64_t days = spark__days_from_civil(year, (unsigned)month, (unsigned)day);
  if (days < -106751990 || days > 106751990) return false;
  *micros = days * INT64_C(86400000000) + nanos / 1000;
  return true;
}

bool spark__zone_is_utc(const char *zone) {
  static const char *const names[] = {"UTC",    "Etc/UTC", "Z",       "GMT",  "Etc/GMT",
                                      "+00:00", "UCT",     "Etc/UCT", "Zulu", "Etc/Zulu"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!strcmp(zone, names[i])) return true;
  return false;
}

bool spark__fixed_zone(const char *zone, int64_t *offset_us) {
  *offset_us = 0;
  return spark__zone_is_utc(zone) || zone_offset((cursor){zone, zone + strlen(zone)}, offset_us);
}
