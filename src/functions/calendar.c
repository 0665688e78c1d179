#include "functions/calendar.h"
#include "functions/decimal.h"
#include "functions/text.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

static char *put2(char *at, int value) {
  at[0] = (char)('0' + value / 10);
  at[1] = (char)('0' + value % 10);
  return at + 2;
}

size_t fn__date_print(int64_t days, char *out) {
  fn_date date = fn__date(days);
  char *at = out, digits[24];
  int64_t size = date.year < 0 ? -date.year : date.year;
  if (date.year < 0)
    *at++ = '-';
  else if (date.year > 9999)
    *at++ = '+';
  if (size <= 9999) {
    at = put2(put2(at, (int)(size / 100)), (int)(size % 100));
  } else {
    size_t used = fn__int_print(size, digits);
    memcpy(at, digits, used);
    at += used;
  }
  *at++ = '-';
  at = put2(at, date.month);
  *at++ = '-';
  at = put2(at, date.day);
  return (size_t)(at - out);
}

static char *put_clock(char *at, int64_t seconds) {
  at = put2(at, (int)(seconds / 3600));
  *at++ = ':';
  at = put2(at, (int)(seconds / 60 % 60));
  *at++ = ':';
  return put2(at, (int)(seconds % 60));
}

static char *put_fraction(char *at, int64_t fraction, int digits) {
  if (fraction == 0) return at;
  *at++ = '.';
  for (int i = digits - 1; i >= 0; i--, fraction /= 10) at[i] = (char)('0' + fraction % 10);
  while (at[digits - 1] == '0') digits--;
  return at + digits;
}

size_t fn__timestamp_print(int64_t local_us, char *out) {
  int64_t days = fn__floor_div(local_us, FN_DAY), rest = fn__floor_mod(local_us, FN_DAY);
  char *at = out + fn__date_print(days, out);
  *at++ = ' ';
  at = put_clock(at, rest / FN_SECOND);
  return (size_t)(put_fraction(at, rest % FN_SECOND, 6) - out);
}

size_t fn__time_print(int64_t nanos, char *out) {
  nanos = nanos < 0 ? 0 : nanos % 86400000000000;
  char *at = put_clock(out, nanos / 1000000000);
  return (size_t)(put_fraction(at, nanos % 1000000000, 9) - out);
}

bool fn__date_parse(fn_text text, int32_t *days) {
  int64_t part[3] = {1, 1, 1}, value = 0;
  int i = 0, digits = 0, sign = 1;
  size_t at = 0;
  text = fn__trim_all(text);
  if (text.size == 0) return false;
  if (text.data[0] == '-' || text.data[0] == '+') sign = text.data[at++] == '-' ? -1 : 1;
  for (; at < text.size && text.data[at] != ' ' && text.data[at] != 'T'; at++) {
    char c = text.data[at];
    if (i < 2 && c == '-') {
      if (i == 0 ? digits < 4 || digits > 7 : digits < 1 || digits > 2) return false;
      part[i++] = value;
      value = digits = 0;
    } else if (c >= '0' && c <= '9' && digits < 8) {
      value = value * 10 + (c - '0');
      digits++;
    } else {
      return false;
    }
  }
  if ((i == 0 ? digits < 4 || digits > 7 : digits < 1 || digits > 2) || (i < 2 && at < text.size)) return false;
  part[i] = value;
  if (!fn__date_is_valid(sign * part[0], (int)part[1], (int)part[2])) return false;
  int64_t result = fn__days(sign * part[0], (int)part[1], (int)part[2]);
  *days = (int32_t)result;
  return result == *days;
}

static bool digits_are_valid(int segment, int digits) {
  if (segment == 6) return true;
  if (segment == 0) return digits >= 4 && digits <= 6;
  return segment == 7 ? digits <= 2 : digits > 0 && digits <= 2;
}

/* The segments of a timestamp's text, by Spark's rules; a state machine over (segment, character). */
static bool read_segments(fn_text text, int64_t segment[9], fn_text *zone, bool *just_time) {
  size_t j = 0;
  int i = 0, digits = 0, fraction_digits = 0, sign = 0;
  int64_t value = 0;
  *zone = (fn_text){NULL, 0};
  if (text.data[0] == '-' || text.data[0] == '+') sign = text.data[j++] == '-' ? -1 : 1;
  for (; j < text.size; j++) {
    char c = text.data[j];
    if (c >= '0' && c <= '9') {
      fraction_digits += i == 6;
      if (i != 6 || digits < 6) value = value > 100000000 ? value : value * 10 + (c - '0');
      digits++;
      continue;
    }
    int next = i + 1;
    if (j == 0 && c == 'T') {
      *just_time = true;
      i = 3;
      continue;
    }
    int ends = i; /* the segment that the digits so far belong to */
    if (i == 0 && c == ':' && sign == 0) {
      *just_time = true;
      ends = 3;
      next = 4;
    } else if (i < 2 ? c != '-' : i == 2 ? c != ' ' && c != 'T' : i == 3 || i == 4 ? c != ':' : i > 6) {
      return false;
    }
    if (!digits_are_valid(ends, digits)) return false;
    segment[ends] = value;
    value = digits = 0;
    i = next;
    if ((ends == 5 && c != '.') || ends == 6) { /* the rest is a zone */
      *zone = (fn_text){text.data + j, text.size - j};
      i = 7;
      break;
    }
  }
  if (!digits_are_valid(i, digits)) return false;
  segment[i] = value;
  for (; fraction_digits < 6; fraction_digits++) segment[6] *= 10;
  segment[0] *= sign ? sign : 1;
  return true;
}

bool fn__timestamp_parse(fn_text text, fn_parsed_time *out) {
  int64_t s[9] = {1, 1, 1, 0, 0, 0, 0, 0, 0};
  fn_text zone;
  *out = (fn_parsed_time){0};
  text = fn__trim_all(text);
  if (text.size == 0 || !read_segments(text, s, &zone, &out->just_time)) return false;
  if (zone.data) {
    out->has_zone = true;
    if (!fn__zone_find(fn__trim_all(zone), &out->zone)) return false;
  }
  if (s[3] > 23 || s[4] > 59 || s[5] > 59) return false;
  int64_t time = s[3] * FN_HOUR + s[4] * FN_MINUTE + s[5] * FN_SECOND + s[6];
  if (out->just_time) {
    out->local_us = time;
    return true;
  }
  if (!fn__date_is_valid(s[0], (int)s[1], (int)s[2])) return false;
  fn_i128 us = (fn_i128)fn__days(s[0], (int)s[1], (int)s[2]) * FN_DAY + time;
  out->local_us = (int64_t)us;
  return us == out->local_us;
}

bool fn__timestamp_parse_zoned(fn_text text, const fn_zone *zone, int64_t *us) {
  fn_parsed_time parsed;
  fn_zone_range range = {0};
  if (!fn__timestamp_parse(text, &parsed)) return false;
  const fn_zone *used = parsed.has_zone ? &parsed.zone : zone;
  if (parsed.just_time) { /* on today's date in that zone */
    int64_t today = fn__floor_div(fn__to_local(used, (int64_t)time(NULL) * FN_SECOND, &range), FN_DAY);
    parsed.local_us += fn__midnight(today);
  }
  *us = fn__to_utc(used, parsed.local_us, &range);
  return true;
}
