#include "functions/zone.h"
#include "functions/calendar.h"
#include "functions/text.h"
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ZONE_NAME_MAX 63
#define ZONE_FILE_MAX (256 * 1024)
#define ZONE_FOOTER_MAX 63
#define ZONES_MAX 2048 /* more names than any release of the data has */

/* One side of a yearly change, as POSIX TZ strings give it. */
typedef struct change {
  char kind; /* 'M' month.week.day, 'J' day 1..365 without 29 February, 'D' day 0..365 */
  int month, week, day;
  int32_t time; /* seconds of local time */
} change;

struct fn_zone_table {
  struct fn_zone_table *next;
  char name[ZONE_NAME_MAX + 1];
  int64_t count; /* transitions; offsets has one more: before the first */
  int64_t *at;
  int32_t *offsets;
  bool has_rule; /* what follows the last transition */
  int32_t standard, daylight;
  change to_daylight, to_standard;
};

/* Every zone that was ever asked for, newest first. Nodes are never changed or freed once published, and a name is only
 * added when the system has a file of it, so the list is bounded: kernels are stateless, but reading a zone's file for
 * every batch would cost more than most kernels do. Readers see whole nodes (release and acquire on the head). */
static _Atomic(fn_zone_table *) zones;

/* ---- offsets by rule ---- */
static int64_t change_at(const change *c, int64_t year) {
  int64_t day;
  if (c->kind == 'M') {
    int64_t first = fn__days(year, c->month, 1);
    int weekday = fn__weekday(first) % 7; /* 0: Sunday */
    day = first + (c->day - weekday + 7) % 7 + (c->week - 1) * 7;
    while (day >= first + fn__month_days(year, c->month)) day -= 7;
  } else if (c->kind == 'J') {
    day = fn__days(year, 1, 1) + c->day - 1 + (fn__is_leap(year) && c->day >= 60);
  } else {
    day = fn__days(year, 1, 1) + c->day;
  }
  return day * 86400 + c->time;
}

static void range_by_rule(const fn_zone_table *table, int64_t seconds, fn_zone_range *range) {
  int64_t last = table->count ? table->at[table->count - 1] : INT64_MIN;
  if (table->standard == table->daylight) {
    *range = (fn_zone_range){last, INT64_MAX, table->standard};
    return;
  }
  int64_t year = fn__date(fn__floor_div(seconds, 86400)).year;
  range->start = last;
  range->end = INT64_MAX;
  range->offset = table->standard;
  for (int64_t y = year - 1; y <= year + 1; y++) {
    int64_t up = change_at(&table->to_daylight, y) - table->standard,
            down = change_at(&table->to_standard, y) - table->daylight;
    for (int turn = 0; turn < 2; turn++) {
      bool is_up = (up <= down) == (turn == 0);
      int64_t at = is_up ? up : down;
      if (at <= seconds && at >= range->start) {
        range->start = at;
        range->offset = is_up ? table->daylight : table->standard;
      } else if (at > seconds && at < range->end) {
        range->end = at;
      }
    }
  }
}

int32_t fn__zone_offset(const fn_zone *zone, int64_t seconds, fn_zone_range *range) {
  const fn_zone_table *table = zone->table;
  if (!table) return zone->offset;
  if (seconds >= range->start && seconds < range->end) return range->offset;
  int64_t low = 0, high = table->count; /* the first transition after `seconds` */
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (table->at[middle] <= seconds)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == table->count && table->has_rule && low > 0) {
    range_by_rule(table, seconds, range);
  } else {
    range->start = low > 0 ? table->at[low - 1] : INT64_MIN;
    range->end = low < table->count ? table->at[low] : INT64_MAX;
    range->offset = table->offsets[low];
  }
  return range->offset;
}

static int64_t add_saturated(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

int64_t fn__to_local(const fn_zone *zone, int64_t us, fn_zone_range *range) {
  return add_saturated(us, fn__zone_offset(zone, fn__floor_div(us, FN_SECOND), range) * FN_SECOND);
}

int64_t fn__to_utc(const fn_zone *zone, int64_t local_us, fn_zone_range *range) {
  if (!zone->table) return add_saturated(local_us, -zone->offset * FN_SECOND);
  int64_t local = fn__floor_div(local_us, FN_SECOND);
  int32_t before = fn__zone_offset(zone, local - 86400, range);
  /* Before a change both offsets' local times up to it belong to the offset before; in a gap that offset moves the time
   * forward by the gap; in an overlap it is the earlier instant. */
  for (int i = 0; i < 4 && range->end != INT64_MAX; i++) {
    fn_zone_range next = {0};
    int32_t after = fn__zone_offset(zone, range->end, &next);
    if (local < range->end + (before > after ? before : after)) break;
    *range = next;
    before = after;
  }
  return add_saturated(local_us, -before * FN_SECOND);
}

/* ---- POSIX TZ strings: "PST8PDT,M3.2.0,M11.1.0/2" ---- */
static const char *skip_name(const char *at) {
  const char *start = at;
  if (*at == '<') {
    at = strchr(at, '>');
    return at ? at + 1 : NULL;
  }
  while ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z')) at++;
  return at > start ? at : NULL;
}

static const char *read_int(const char *at, int *out) {
  if (*at < '0' || *at > '9') return NULL;
  for (*out = 0; *at >= '0' && *at <= '9' && *out < 100000; at++) *out = *out * 10 + (*at - '0');
  return at;
}

static const char *read_time(const char *at, int32_t *out) {
  int sign = 1, part[3] = {0, 0, 0};
  if (*at == '-' || *at == '+') sign = *at++ == '-' ? -1 : 1;
  for (int i = 0; i < 3; i++) {
    at = read_int(at, &part[i]);
    if (!at || part[i] > 200) return NULL;
    if (*at != ':') break;
    if (i < 2) at++;
  }
  *out = sign * (part[0] * 3600 + part[1] * 60 + part[2]);
  return at;
}

static const char *read_change(const char *at, change *out) {
  *out = (change){.kind = 'D', .time = 7200};
  if (*at++ != ',') return NULL;
  if (*at == 'M') {
    out->kind = 'M';
    at = read_int(at + 1, &out->month);
    at = at && *at == '.' ? read_int(at + 1, &out->week) : NULL;
    at = at && *at == '.' ? read_int(at + 1, &out->day) : NULL;
    if (out->month < 1 || out->month > 12 || out->week < 1 || out->week > 5 || out->day > 6) return NULL;
  } else {
    if (*at == 'J') out->kind = *at++;
    at = read_int(at, &out->day);
    if (out->day > 365) return NULL;
  }
  return at && *at == '/' ? read_time(at + 1, &out->time) : at;
}

static bool read_rule(fn_zone_table *table, const char *text) {
  int32_t west;
  const char *at = skip_name(text);
  at = at ? read_time(at, &west) : NULL;
  if (!at) return false;
  table->standard = table->daylight = -west;
  if (!*at) return true;
  at = skip_name(at);
  if (!at) return false;
  table->daylight = table->standard + 3600;
  if (*at != ',') {
    at = read_time(at, &west);
    table->daylight = -west;
  }
  at = at ? read_change(at, &table->to_daylight) : NULL;
  at = at ? read_change(at, &table->to_standard) : NULL;
  return at && !*at;
}

/* ---- TZif files (RFC 8536): the second, 64-bit block ---- */
static int64_t read_be(const unsigned char *at, int bytes) {
  uint64_t value = at[0] & 0x80 ? ~(uint64_t)0 : 0;
  for (int i = 0; i < bytes; i++) value = (value << 8) | at[i];
  return (int64_t)value;
}

static bool parse_tzif(const unsigned char *file, size_t size, fn_zone_table *table) {
  size_t at = 0;
  int64_t n[6]; /* isutcnt isstdcnt leapcnt timecnt typecnt charcnt */
  for (int block = 0; block < 2; block++) {
    if (size - at < 44 || memcmp(file + at, "TZif", 4) != 0 || (block == 0 && file[4] < '2')) return false;
    for (int i = 0; i < 6; i++) {
      n[i] = read_be(file + at + 20 + i * 4, 4);
      if (n[i] < 0 || n[i] > ZONE_FILE_MAX) return false;
    }
    at += 44;
    int64_t width = block == 0 ? 4 : 8;
    int64_t body = n[3] * width + n[3] + n[4] * 6 + n[5] + n[2] * (width + 4) + n[1] + n[0];
    if ((int64_t)(size - at) < body) return false;
    if (block == 0) at += (size_t)body;
  }
  int64_t count = n[3], types = n[4];
  const unsigned char *times = file + at, *indexes = times + count * 8, *infos = indexes + count;
  if (types < 1) return false;
  table->at = malloc((size_t)(count + 1) * sizeof *table->at);
  table->offsets = malloc((size_t)(count + 1) * sizeof *table->offsets);
  if (!table->at || !table->offsets) return false;
  table->count = count;
  table->offsets[0] = (int32_t)read_be(infos, 4);
  for (int64_t i = 0; i < count; i++) {
    if (indexes[i] >= types) return false;
    table->at[i] = read_be(times + i * 8, 8);
    table->offsets[i + 1] = (int32_t)read_be(infos + indexes[i] * 6, 4);
    if (i > 0 && table->at[i] < table->at[i - 1]) return false;
  }
  const unsigned char *footer = infos + types * 6 + n[5] + n[2] * 12 + n[1] + n[0], *end = file + size;
  char rule[ZONE_FOOTER_MAX + 1];
  size_t used = 0;
  if (footer < end && *footer == '\n')
    for (footer++; footer < end && *footer != '\n' && used < ZONE_FOOTER_MAX; footer++) rule[used++] = (char)*footer;
  rule[used] = 0;
  table->has_rule = used > 0 && read_rule(table, rule);
  if (table->has_rule && count == 0) table->offsets[0] = table->standard;
  return true;
}

static fn_zone_table *load_zone(const char *name) {
  char path[ZONE_NAME_MAX + 32];
  unsigned char *file = malloc(ZONE_FILE_MAX);
  fn_zone_table *table = calloc(1, sizeof *table);
  bool good = false;
  snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name);
  int fd = file && table ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    size_t size = 0;
    ssize_t got = 0;
    while (size < ZONE_FILE_MAX && (got = read(fd, file + size, ZONE_FILE_MAX - size)) > 0) size += (size_t)got;
    close(fd);
    good = got == 0 && parse_tzif(file, size, table);
  }
  free(file);
  if (good) {
    snprintf(table->name, sizeof table->name, "%s", name);
    return table;
  }
  if (table) {
    free(table->at);
    free(table->offsets);
  }
  free(table);
  return NULL;
}

static const fn_zone_table *find_table(const char *name) {
  fn_zone_table *head = atomic_load_explicit(&zones, memory_order_acquire);
  size_t known = 0;
  for (const fn_zone_table *t = head; t; t = t->next, known++)
    if (strcmp(t->name, name) == 0) return t;
  fn_zone_table *table = known < ZONES_MAX ? load_zone(name) : NULL;
  if (!table) return NULL;
  do table->next = head; /* two threads may add one name: both nodes are right and stay */
  while (!atomic_compare_exchange_weak_explicit(&zones, &head, table, memory_order_release, memory_order_acquire));
  return table;
}

/* ---- names ---- */
static bool two_digits(const char *text, int *out) {
  if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9') return false;
  *out = (text[0] - '0') * 10 + (text[1] - '0');
  return true;
}

/* "+h", "+hh", "+hh:mm", "+hhmm", "+hh:mm:ss", "+hhmmss"; Spark also completes "+h:mm" and "+hh:m". */
static bool parse_offset(const char *text, size_t size, int32_t *out) {
  char full[16] = "";
  int part[3] = {0, 0, 0};
  if (size < 2 || size > 9 || (text[0] != '+' && text[0] != '-')) return false;
  size_t used = 0;
  for (size_t i = 1; i < size; i++) {
    if (i == 1 && (size == 2 || text[2] == ':')) full[used++] = '0';
    if (i == 4 && size == 5 && text[3] == ':') full[used++] = '0';
    full[used++] = text[i];
  }
  bool colons = used > 2 && full[2] == ':';
  size_t step = colons ? 3 : 2;
  if (used != 2 && used != 2 + step && used != 2 + 2 * step) return false;
  for (size_t i = 0; i * step < used; i++)
    if (!two_digits(full + i * step, &part[i]) || (i > 0 && colons && full[i * step - 1] != ':')) return false;
  if (part[0] > 18 || part[1] > 59 || part[2] > 59 || (part[0] == 18 && (part[1] || part[2]))) return false;
  *out = (part[0] * 3600 + part[1] * 60 + part[2]) * (text[0] == '-' ? -1 : 1);
  return true;
}

/* java.time.ZoneId.SHORT_IDS */
static const char *const SHORT_IDS[][2] = {{"EST", "-05:00"},
                                           {"MST", "-07:00"},
                                           {"HST", "-10:00"},
                                           {"ACT", "Australia/Darwin"},
                                           {"AET", "Australia/Sydney"},
                                           {"AGT", "America/Argentina/Buenos_Aires"},
                                           {"ART", "Africa/Cairo"},
                                           {"AST", "America/Anchorage"},
                                           {"BET", "America/Sao_Paulo"},
                                           {"BST", "Asia/Dhaka"},
                                           {"CAT", "Africa/Harare"},
                                           {"CNT", "America/St_Johns"},
                                           {"CST", "America/Chicago"},
                                           {"CTT", "Asia/Shanghai"},
                                           {"EAT", "Africa/Addis_Ababa"},
                                           {"ECT", "Europe/Paris"},
                                           {"IET", "America/Indiana/Indianapolis"},
                                           {"IST", "Asia/Kolkata"},
                                           {"JST", "Asia/Tokyo"},
                                           {"MIT", "Pacific/Apia"},
                                           {"NET", "Asia/Yerevan"},
                                           {"NST", "Pacific/Auckland"},
                                           {"PLT", "Asia/Karachi"},
                                           {"PNT", "America/Phoenix"},
                                           {"PRT", "America/Puerto_Rico"},
                                           {"PST", "America/Los_Angeles"},
                                           {"SST", "Pacific/Guadalcanal"},
                                           {"VST", "Asia/Ho_Chi_Minh"}};

bool fn__zone_find(fn_text text, fn_zone *out) {
  char name[ZONE_NAME_MAX + 1];
  *out = (fn_zone){0};
  if (text.size == 0 || text.size > ZONE_NAME_MAX) return false;
  memcpy(name, text.data, text.size);
  name[text.size] = 0;
  if (strlen(name) != text.size) return false;
  for (size_t i = 0; i < sizeof SHORT_IDS / sizeof SHORT_IDS[0]; i++)
    if (strcmp(name, SHORT_IDS[i][0]) == 0) snprintf(name, sizeof name, "%s", SHORT_IDS[i][1]);
  size_t size = strlen(name);
  if (strcmp(name, "Z") == 0 || strcmp(name, "UTC") == 0 || strcmp(name, "GMT") == 0 || strcmp(name, "UT") == 0)
    return true;
  if (name[0] == '+' || name[0] == '-') return parse_offset(name, size, &out->offset);
  size_t prefix = strncmp(name, "UTC", 3) == 0 || strncmp(name, "GMT", 3) == 0 ? 3
                  : strncmp(name, "UT", 2) == 0                                ? 2
                                                                               : 0;
  if (prefix && (name[prefix] == '+' || name[prefix] == '-'))
    return parse_offset(name + prefix, size - prefix, &out->offset);
  bool letter_first = (name[0] >= 'A' && name[0] <= 'Z') || (name[0] >= 'a' && name[0] <= 'z');
  for (size_t i = 0; i < size; i++)
    if (!((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'a' && name[i] <= 'z') ||
          (name[i] >= 'A' && name[i] <= 'Z') || strchr("/_+-", name[i])))
      return false;
  if (!letter_first || name[size - 1] == '/' || strstr(name, "//")) return false;
  out->table = find_table(name);
  return out->table != NULL;
}
