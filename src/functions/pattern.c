#include "functions/pattern.h"
#include "functions/text.h"
#include <stdio.h>
#include <string.h>

static const char *const MONTHS[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};
static const char *const DAYS[] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};

/* The most of each letter that Spark takes (0: refused). */
static int most_of(char letter) {
  switch (letter) {
  case 'y': return 6;
  case 'G': return 4;
  case 'M':
  case 'L':
  case 'E':
  case 'Q':
  case 'q': return 4;
  case 'd':
  case 'h':
  case 'H':
  case 'k':
  case 'K':
  case 'm':
  case 's':
  case 'V': return 2;
  case 'D': return 3;
  case 'a':
  case 'F': return 1;
  case 'S': return 9;
  case 'z':
  case 'O': return 4;
  case 'X':
  case 'x':
  case 'Z': return 5;
  default: return 0;
  }
}

static bool add_part(fn_pattern *p, char letter, int count, size_t start, size_t size) {
  if (p->count == FN_PATTERN_PARTS_MAX) return false;
  p->parts[p->count++] = (fn_pattern_part){letter, (uint8_t)count, (uint16_t)start, (uint16_t)size};
  return true;
}

bool fn__pattern_compile(fn_text text, fn_pattern *out) {
  size_t used = 0;
  int open = 0;
  *out = (fn_pattern){.count = 0};
  if (text.size >= sizeof out->text) return false;
  for (size_t i = 0; i < text.size;) {
    char c = text.data[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) {
      size_t end = i;
      while (end < text.size && text.data[end] == c) end++;
      int count = (int)(end - i);
      if (count > most_of(c) || (c == 'V' && count != 2) || (c == 'O' && count != 1 && count != 4) ||
          !add_part(out, c, count, 0, 0))
        return false;
      i = end;
    } else if (c == '[' || c == ']') {
      open += c == '[' ? 1 : -1;
      if (open < 0 || open > 1 || !add_part(out, c, 1, 0, 0)) return false;
      i++;
    } else if (c == '{' || c == '}' || c == '#') {
      return false;
    } else {
      size_t start = used;
      if (c == '\'') { /* quoted; two quotes are one */
        for (i++; i < text.size; i++) {
          if (text.data[i] == '\'' && (i + 1 == text.size || text.data[i + 1] != '\'')) break;
          i += text.data[i] == '\'';
          out->text[used++] = text.data[i];
        }
        if (i >= text.size) return false;
        i++;
        if (used == start) out->text[used++] = '\'';
      } else {
        out->text[used++] = c;
        i++;
      }
      if (!add_part(out, 0, 0, start, used - start)) return false;
    }
  }
  return true;
}

/* ---- formatting ---- */
static void append_number(fn_builder *out, int64_t value, int width) {
  char text[FN_INT_TEXT_MAX * 2];
  fn__append(out, text, (size_t)snprintf(text, sizeof text, "%0*lld", width, (long long)value));
}

static void append_offset(fn_builder *out, int32_t offset, char letter, int count) {
  int32_t size = offset < 0 ? -offset : offset, hours = size / 3600, minutes = size / 60 % 60, seconds = size % 60;
  const char *sign = offset < 0 ? "-" : "+";
  char text[32];
  int used = 0;
  bool z_for_zero = letter == 'X' || (letter == 'Z' && count == 5);
  if (offset == 0 && z_for_zero) {
    fn__append(out, "Z", 1);
    return;
  }
  if (letter == 'O' || (letter == 'Z' && count == 4)) {
    used = snprintf(text, sizeof text, "GMT");
    if (offset && count == 4)
      used += snprintf(text + used, sizeof text - (size_t)used, "%s%02d:%02d", sign, (int)hours, (int)minutes);
    else if (offset)
      used += snprintf(text + used, sizeof text - (size_t)used, minutes ? "%s%d:%02d" : "%s%d", sign, (int)hours,
                       (int)minutes);
  } else if (letter == 'Z') {
    used = snprintf(text, sizeof text, count == 5 ? "%s%02d:%02d" : "%s%02d%02d", sign, (int)hours, (int)minutes);
  } else {
    used = snprintf(text, sizeof text, "%s%02d", sign, (int)hours);
    bool colon = count == 3 || count == 5;
    if (count > 1 || minutes)
      used += snprintf(text + used, sizeof text - (size_t)used, colon ? ":%02d" : "%02d", (int)minutes);
    if (count > 3 && seconds)
      used += snprintf(text + used, sizeof text - (size_t)used, colon ? ":%02d" : "%02d", (int)seconds);
  }
  fn__append(out, text, (size_t)used);
}

static void append_year(fn_builder *out, int64_t year, int count) {
  int64_t of_era = year > 0 ? year : 1 - year;
  if (count == 2) {
    append_number(out, of_era % 100, 2);
    return;
  }
  if (count == 4 && of_era > 9999) fn__append(out, "+", 1);
  append_number(out, of_era, count);
}

static void append_part(const fn_pattern_part *part, int64_t local_us, int32_t offset, fn_text zone_name,
                        fn_builder *out) {
  int64_t days = fn__floor_div(local_us, FN_DAY), rest = fn__floor_mod(local_us, FN_DAY);
  fn_date date = fn__date(days);
  int hour = (int)(rest / FN_HOUR), quarter = (date.month + 2) / 3;
  char text[32];
  static const char *const ORDINALS[] = {"1st", "2nd", "3rd", "4th"};
  switch (part->letter) {
  case 'y': append_year(out, date.year, part->count); break;
  case 'G': {
    const char *era = part->count == 4 ? (date.year > 0 ? "Anno Domini" : "Before Christ")
                      : date.year > 0  ? "AD"
                                       : "BC";
    fn__append(out, era, strlen(era));
    break;
  }
  case 'M':
  case 'L':
    if (part->count >= 3)
      fn__append(out, MONTHS[date.month - 1], part->count == 3 ? 3 : strlen(MONTHS[date.month - 1]));
    else
      append_number(out, date.month, part->count);
    break;
  case 'E': {
    const char *name = DAYS[fn__weekday(days) - 1];
    fn__append(out, name, part->count == 4 ? strlen(name) : 3);
    break;
  }
  case 'Q':
  case 'q':
    if (part->count >= 3)
      fn__append(out, text,
                 (size_t)(part->count == 3 ? snprintf(text, sizeof text, "Q%d", quarter)
                                           : snprintf(text, sizeof text, "%s quarter", ORDINALS[quarter - 1])));
    else
      append_number(out, quarter, part->count);
    break;
  case 'd': append_number(out, date.day, part->count); break;
  case 'D': append_number(out, days - fn__days(date.year, 1, 1) + 1, part->count); break;
  case 'F': append_number(out, (date.day - 1) % 7 + 1, 1); break;
  case 'a': fn__append(out, hour < 12 ? "AM" : "PM", 2); break;
  case 'h': append_number(out, hour % 12 == 0 ? 12 : hour % 12, part->count); break;
  case 'K': append_number(out, hour % 12, part->count); break;
  case 'k': append_number(out, hour == 0 ? 24 : hour, part->count); break;
  case 'H': append_number(out, hour, part->count); break;
  case 'm': append_number(out, rest / FN_MINUTE % 60, part->count); break;
  case 's': append_number(out, rest / FN_SECOND % 60, part->count); break;
  case 'S': {
    snprintf(text, sizeof text, "%06d000", (int)(rest % FN_SECOND));
    fn__append(out, text, part->count);
    break;
  }
  case 'V': fn__append(out, zone_name.data, zone_name.size); break;
  case 'z':
    if (zone_name.size == 3)
      fn__append(out, zone_name.data, zone_name.size);
    else
      append_offset(out, offset, 'O', 1);
    break;
  default: append_offset(out, offset, part->letter, part->count); break;
  }
}

void fn__pattern_format(const fn_pattern *pattern, int64_t local_us, int32_t offset, fn_text zone_name,
                        fn_builder *out) {
  for (int i = 0; i < pattern->count; i++) {
    const fn_pattern_part *part = &pattern->parts[i];
    if (part->letter == 0)
      fn__append(out, pattern->text + part->start, part->size);
    else if (part->letter != '[' && part->letter != ']')
      append_part(part, local_us, offset, zone_name, out);
  }
}

/* ---- parsing ---- */
typedef struct fields {
  int64_t year;
  int month, day, day_of_year, hour, half_hour, minute, second, pm; /* -1: not given; half_hour: of h and K */
  int64_t us;
  bool has_year;
} fields;

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_number(const fn_pattern_part *part) {
  return part->letter && strchr("ydDhHkKmsS", part->letter)
             ? true
             : (part->letter == 'M' || part->letter == 'L') && part->count < 3;
}

static bool read_digits(fn_text text, size_t *at, int least, int most, int64_t *out) {
  int digits = 0;
  for (*out = 0; *at < text.size && is_digit(text.data[*at]) && digits < most; ++*at, digits++)
    *out = *out * 10 + (text.data[*at] - '0');
  return digits >= least;
}

static bool read_name(fn_text text, size_t *at, const char *const *names, int count, bool is_long, int *out) {
  char lower[16];
  for (int i = 0; i < count; i++) {
    size_t size = is_long ? strlen(names[i]) : 3;
    for (size_t c = 0; c <= size; c++) lower[c] = c == size ? 0 : (char)(names[i][c] | 32);
    if (text.size - *at >= size && fn__text_equal((fn_text){text.data + *at, size}, lower)) {
      *at += size;
      *out = i + 1;
      return true;
    }
  }
  return false;
}

static bool read_offset(fn_text text, size_t *at, const fn_pattern_part *part, fn_pattern_result *out) {
  if (*at < text.size && text.data[*at] == 'Z' && part->letter != 'x') {
    ++*at;
    out->has_offset = true;
    return true;
  }
  if (part->letter == 'O' && text.size - *at >= 3 && memcmp(text.data + *at, "GMT", 3) == 0) {
    *at += 3;
    if (*at == text.size || (text.data[*at] != '+' && text.data[*at] != '-')) {
      out->has_offset = true;
      return true;
    }
  }
  size_t end = *at;
  if (end < text.size && (text.data[end] == '+' || text.data[end] == '-'))
    for (end++; end < text.size && (is_digit(text.data[end]) || text.data[end] == ':') && end - *at < 9; end++)
      ;
  fn_zone zone;
  if (end == *at || !fn__zone_find((fn_text){text.data + *at, end - *at}, &zone)) return false;
  *at = end;
  out->has_offset = true;
  out->offset = zone.offset;
  return true;
}

static bool read_zone(fn_text text, size_t *at, fn_pattern_result *out) {
  size_t end = *at;
  while (end < text.size && !strchr(" ,;)]", text.data[end]) && text.data[end]) end++;
  for (; end > *at; end--)
    if (fn__zone_find((fn_text){text.data + *at, end - *at}, &out->zone)) {
      *at = end;
      return out->has_zone = true;
    }
  return false;
}

static bool read_part(const fn_pattern *p, int index, fn_text text, size_t *at, fields *f, fn_pattern_result *out) {
  const fn_pattern_part *part = &p->parts[index];
  bool adjacent = index + 1 < p->count && is_number(&p->parts[index + 1]);
  int count = part->count, most = count == 1 && !adjacent ? 9 : count, name = 0;
  int64_t value = 0;
  switch (part->letter) {
  case 'y': {
    bool negative = false, signed_year = *at < text.size && (text.data[*at] == '-' || text.data[*at] == '+');
    if (signed_year && count > 2) negative = text.data[(*at)++] == '-';
    if (!read_digits(text, at, count, count == 2 || adjacent ? count : signed_year || count != 4 ? 9 : 4, &value))
      return false;
    f->year = count == 2 ? 2000 + value : negative ? -value : value;
    return f->has_year = true;
  }
  case 'M':
  case 'L':
    if (count >= 3) return read_name(text, at, MONTHS, 12, count == 4, &f->month);
    break;
  case 'E': return read_name(text, at, DAYS, 7, count == 4, &name);
  case 'G':
    if (text.size - *at < 2) return false;
    *at += 2;
    return true;
  case 'a': {
    fn_text half = {text.data + *at, text.size - *at >= 2 ? 2 : 0};
    f->pm = fn__text_equal(half, "pm") ? 1 : fn__text_equal(half, "am") ? 0 : -1;
    *at += 2;
    return f->pm >= 0;
  }
  case 'S': {
    size_t start = *at;
    if (!read_digits(text, at, count, count, &value)) return false;
    for (size_t i = *at - start; i < 6; i++) value *= 10;
    for (size_t i = 6; i < *at - start; i++) value /= 10;
    f->us = value;
    return true;
  }
  case 'V':
  case 'z': return read_zone(text, at, out);
  case 'O':
  case 'X':
  case 'x':
  case 'Z': return read_offset(text, at, part, out);
  default: break;
  }
  if (!read_digits(text, at, count, most, &value) || value > 999999999) return false;
  int *slot = part->letter == 'M' || part->letter == 'L'   ? &f->month
              : part->letter == 'd'                        ? &f->day
              : part->letter == 'D'                        ? &f->day_of_year
              : part->letter == 'H' || part->letter == 'k' ? &f->hour
              : part->letter == 'h' || part->letter == 'K' ? &f->half_hour
              : part->letter == 'm'                        ? &f->minute
              : part->letter == 's'                        ? &f->second
                                                           : &name;
  *slot = part->letter == 'k' && value == 24 ? 0 : part->letter == 'h' && value == 12 ? 0 : (int)value;
  return true;
}

static bool resolve(const fields *f, fn_pattern_result *out) {
  int64_t year = f->has_year ? f->year : 1970;
  int month = f->month < 0 ? 1 : f->month, day = f->day < 0 ? 1 : f->day, hour = f->hour < 0 ? 0 : f->hour;
  if (f->hour < 0 && f->half_hour >= 0) hour = f->half_hour + (f->pm == 1 ? 12 : 0);
  int64_t days;
  if (f->day_of_year > 0 && f->month < 0) {
    if (f->day_of_year > 365 + fn__is_leap(year)) return false;
    days = fn__days(year, 1, 1) + f->day_of_year - 1;
  } else {
    if (year < -999999 || year > 999999 || !fn__date_is_valid(year, month, day)) return false;
    days = fn__days(year, month, day);
  }
  if (hour > 23 || f->minute > 59 || f->second > 59 || f->half_hour > 12) return false;
  fn_date check = fn__date(days);
  if (check.year < -290000 || check.year > 290000) return false;
  out->local_us = days * FN_DAY + hour * FN_HOUR + (f->minute < 0 ? 0 : f->minute) * FN_MINUTE +
                  (f->second < 0 ? 0 : f->second) * FN_SECOND + f->us;
  return true;
}

bool fn__pattern_parse(const fn_pattern *pattern, fn_text text, fn_pattern_result *out) {
  fields f = {.month = -1,
              .day = -1,
              .day_of_year = -1,
              .hour = -1,
              .half_hour = -1,
              .minute = -1,
              .second = -1,
              .pm = -1},
         kept = f;
  size_t at = 0, kept_at = 0;
  bool optional = false;
  *out = (fn_pattern_result){0};
  for (int i = 0; i < pattern->count; i++) {
    const fn_pattern_part *part = &pattern->parts[i];
    bool good = true;
    size_t start = at;
    if (part->letter == '[') {
      optional = true;
      kept = f;
      kept_at = at;
    } else if (part->letter == ']') {
      optional = false;
    } else if (part->letter == 0) {
      good = text.size - at >= part->size && memcmp(text.data + at, pattern->text + part->start, part->size) == 0;
      at += good ? part->size : 0;
    } else {
      good = read_part(pattern, i, text, &at, &f, out);
    }
    if (good) continue;
    if (!optional) {
      out->error_index = start;
      return false;
    }
    f = kept;
    at = kept_at;
    while (i + 1 < pattern->count && pattern->parts[i + 1].letter != ']') i++;
  }
  if (at != text.size) {
    out->error_index = at;
    return false;
  }
  out->is_bad_date = !resolve(&f, out);
  return !out->is_bad_date;
}
