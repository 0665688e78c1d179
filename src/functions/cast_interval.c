/* Intervals: casts to them, their text, and reading it. */
#include "functions/cast.h"
#include <stdio.h>
#include <string.h>

const int64_t fn__field_us[4] = {FN_DAY, FN_HOUR, FN_MINUTE, FN_SECOND};
static const char *const DAY_FIELDS[] = {"DAY", "HOUR", "MINUTE", "SECOND"};
static const char *const YEAR_FIELDS[] = {"YEAR", "MONTH"};

/* ---- printing ---- */
static size_t print_frame(const char *const *names, fn_fields fields, const char *value, char *out) {
  if (fields.start == fields.end)
    return (size_t)snprintf(out, FN_INTERVAL_TEXT_MAX, "INTERVAL '%s' %s", value, names[fields.start]);
  return (size_t)snprintf(out, FN_INTERVAL_TEXT_MAX, "INTERVAL '%s' %s TO %s", value, names[fields.start],
                          names[fields.end]);
}

size_t fn__year_month_print(int32_t months, fn_fields fields, char *out) {
  char value[32];
  uint32_t size = months < 0 ? -(uint32_t)months : (uint32_t)months;
  const char *sign = months < 0 ? "-" : "";
  if (fields.start != fields.end)
    snprintf(value, sizeof value, "%s%u-%u", sign, size / 12, size % 12);
  else
    snprintf(value, sizeof value, "%s%u", sign, fields.start == 0 ? size / 12 : size);
  return print_frame(YEAR_FIELDS, fields, value, out);
}

static size_t print_seconds(uint64_t us, char *out) {
  int used = snprintf(out, 32, "%02u", (unsigned)(us / 1000000));
  us %= 1000000;
  if (us) {
    used += snprintf(out + used, 16, ".%06u", (unsigned)us);
    while (out[used - 1] == '0') used--;
    out[used] = 0;
  }
  return (size_t)used;
}

size_t fn__day_time_print(int64_t us, fn_fields fields, char *out) {
  char value[64];
  size_t used = 0;
  uint64_t rest = us < 0 ? -(uint64_t)us : (uint64_t)us;
  if (us < 0) value[used++] = '-';
  for (int field = fields.start; field <= fields.end && field < 4; field++) {
    uint64_t unit = (uint64_t)fn__field_us[field];
    if (field > fields.start) value[used++] = field == 1 ? ' ' : ':';
    if (field == 3)
      used += print_seconds(rest, value + used);
    else
      used += (size_t)snprintf(value + used, 32, field == 0 ? "%llu" : "%02llu", (unsigned long long)(rest / unit));
    rest %= unit;
  }
  value[used] = 0;
  return print_frame(DAY_FIELDS, fields, value, out);
}

size_t fn__calendar_print(int32_t months, int32_t days, int64_t nanos, char *out) {
  int64_t us = nanos / 1000, rest = us % FN_MINUTE;
  int used = 0;
  out[0] = 0;
#define PART(value, name)                                                                                              \
  if (value)                                                                                                           \
  used += snprintf(out + used, FN_INTERVAL_TEXT_MAX - (size_t)used, "%s%lld " name, used ? " " : "", (long long)(value))
  PART(months / 12, "years");
  PART(months % 12, "months");
  PART(days, "days");
  PART(us / FN_HOUR, "hours");
  PART(us % FN_HOUR / FN_MINUTE, "minutes");
#undef PART
  if (rest) {
    char seconds[FN_DECIMAL_TEXT_MAX];
    size_t size = fn__decimal_print(rest, 6, seconds);
    while (seconds[size - 1] == '0') size--;
    if (seconds[size - 1] == '.') size--;
    used += snprintf(out + used, FN_INTERVAL_TEXT_MAX - (size_t)used, "%s%.*s seconds", used ? " " : "", (int)size,
                     seconds);
  }
  return used ? (size_t)used : (size_t)snprintf(out, FN_INTERVAL_TEXT_MAX, "0 seconds");
}

/* ---- reading ---- */
static bool is_space(char c) {
  return (unsigned char)c <= ' ';
}

static bool take_word(fn_text *text, const char *word) {
  size_t size = strlen(word);
  if (text->size < size || !fn__text_equal((fn_text){text->data, size}, word)) return false;
  text->data += size;
  text->size -= size;
  return true;
}

static bool take_spaces(fn_text *text) {
  bool any = false;
  for (; text->size > 0 && is_space(text->data[0]); text->data++, text->size--) any = true;
  return any;
}

static int take_sign(fn_text *text) {
  if (text->size == 0 || (text->data[0] != '-' && text->data[0] != '+')) return 1;
  int sign = text->data[0] == '-' ? -1 : 1;
  text->data++, text->size--;
  return sign;
}

static bool take_char(fn_text *text, char c) {
  if (text->size == 0 || text->data[0] != c) return false;
  text->data++, text->size--;
  return true;
}

/* Digits; saturates far beyond what any field takes. */
static int take_number(fn_text *text, uint64_t *out) {
  int digits = 0;
  for (*out = 0; text->size > 0 && text->data[0] >= '0' && text->data[0] <= '9'; text->data++, text->size--, digits++)
    *out = *out > 1000000000000000000u ? *out : *out * 10 + (uint64_t)(text->data[0] - '0');
  return digits;
}

/* "INTERVAL [sign]'...' FIELD [TO FIELD]" around the value, or the value alone. Leaves the value in *text. */
static bool unwrap(fn_text *text, const char *const *names, fn_fields fields, int *sign) {
  char lower[16];
  *text = fn__trim_all(*text);
  *sign = 1;
  if (!take_word(text, "interval")) return true;
  if (!take_spaces(text)) return false;
  *sign = take_sign(text);
  if (!take_char(text, '\'')) return false;
  const char *end = memchr(text->data, '\'', text->size);
  if (!end) return false;
  fn_text rest = {end + 1, text->size - (size_t)(end - text->data) - 1};
  text->size = (size_t)(end - text->data);
  for (int i = 0; i < 2; i++) {
    const char *name = names[i == 0 ? fields.start : fields.end];
    size_t size = strlen(name);
    for (size_t c = 0; c <= size; c++) lower[c] = name[c] ? (char)(name[c] + 32) : 0;
    if (!take_spaces(&rest) || !take_word(&rest, lower)) return false;
    if (fields.start == fields.end) break;
    if (i == 0 && (!take_spaces(&rest) || !take_word(&rest, "to"))) return false;
  }
  return rest.size == 0;
}

fn_parse fn__year_month_parse(fn_text text, fn_fields fields, int32_t *months) {
  int sign;
  uint64_t years = 0, rest = 0;
  if (!unwrap(&text, YEAR_FIELDS, fields, &sign)) return FN_PARSE_BAD;
  sign *= take_sign(&text);
  if (fields.start == fields.end) {
    if (!take_number(&text, &rest) || text.size) return FN_PARSE_BAD;
    if (fields.start == 0) years = rest, rest = 0;
  } else if (!take_number(&text, &years) || !take_char(&text, '-') || !take_number(&text, &rest) || text.size) {
    return FN_PARSE_BAD;
  }
  if ((fields.start != fields.end && rest > 11) || years > INT32_MAX || rest > INT32_MAX) return FN_PARSE_RANGE;
  int64_t total = sign * (int64_t)(years * 12 + rest);
  *months = (int32_t)total;
  return total == *months ? FN_PARSE_OK : FN_PARSE_RANGE;
}

fn_parse fn__day_time_parse(fn_text text, fn_fields fields, int64_t *us) {
  static const uint64_t MOST[] = {0, 23, 59, 59};
  int sign;
  fn_i128 total = 0;
  if (!unwrap(&text, DAY_FIELDS, fields, &sign)) return FN_PARSE_BAD;
  sign *= take_sign(&text);
  for (int field = fields.start; field <= fields.end && field < 4; field++) {
    uint64_t value, fraction = 0;
    if (field > fields.start && !take_char(&text, field == 1 ? ' ' : ':')) return FN_PARSE_BAD;
    int digits = take_number(&text, &value);
    if (digits == 0 || (field > fields.start && digits > 2)) return FN_PARSE_BAD;
    if (field > fields.start && value > MOST[field]) return FN_PARSE_RANGE;
    total += (fn_i128)value * fn__field_us[field];
    if (field == 3 && take_char(&text, '.')) {
      digits = take_number(&text, &fraction);
      if (digits < 1 || digits > 9) return FN_PARSE_BAD;
      for (; digits < 9; digits++) fraction *= 10;
      total += fraction / 1000;
    }
  }
  if (text.size) return FN_PARSE_BAD;
  total *= sign;
  *us = (int64_t)total;
  return total == *us ? FN_PARSE_OK : FN_PARSE_RANGE;
}

bool fn__calendar_parse(fn_text text, int32_t *months, int32_t *days, int64_t *us) {
  static const struct {
    const char *name;
    int64_t unit;
    uint8_t part;
  } UNITS[] = {{"year", 12, 0},      {"month", 1, 0},          {"week", 7, 1},           {"day", 1, 1},
               {"hour", FN_HOUR, 2}, {"minute", FN_MINUTE, 2}, {"second", FN_SECOND, 2}, {"millisecond", 1000, 2},
               {"microsecond", 1, 2}};
  fn_i128 total[3] = {0, 0, 0};
  bool any = false;
  text = fn__trim_all(text);
  if (take_word(&text, "interval") && !take_spaces(&text)) return false;
  while (text.size > 0) {
    uint64_t value, nanos = 0;
    int sign = take_sign(&text), digits = 0;
    take_spaces(&text);
    int whole_digits = take_number(&text, &value);
    if (take_char(&text, '.')) {
      digits = take_number(&text, &nanos);
      if (digits > 9) return false;
      for (int i = digits; i < 9; i++) nanos *= 10;
    }
    if ((whole_digits == 0 && digits == 0) || !take_spaces(&text)) return false;
    size_t size = 0;
    while (size < text.size && !is_space(text.data[size])) size++;
    fn_text unit = {text.data, size > 1 && (text.data[size - 1] | 32) == 's' ? size - 1 : size};
    size_t i = 0;
    while (i < sizeof UNITS / sizeof UNITS[0] && !fn__text_equal(unit, UNITS[i].name)) i++;
    if (i == sizeof UNITS / sizeof UNITS[0] || (digits > 0 && UNITS[i].unit != FN_SECOND)) return false;
    total[UNITS[i].part] += sign * ((fn_i128)value * UNITS[i].unit + nanos / 1000);
    text.data += size, text.size -= size;
    take_spaces(&text);
    any = true;
  }
  *months = (int32_t)total[0];
  *days = (int32_t)total[1];
  *us = (int64_t)total[2];
  return any && total[0] == *months && total[1] == *days && total[2] == *us;
}

/* ---- casts ---- */
static trn_status fail_text(fn_cast *cast, int64_t row, fn_parse why) {
  if (cast->mode == FN_TRY || cast->out->type.kind == FN_CALENDAR) return fn__cast_invalid(cast, row);
  bool day_time = cast->out->type.kind == FN_DAY_TIME;
  const char *const *names = day_time ? DAY_FIELDS : YEAR_FIELDS;
  static const char *const DAY_FORMS[4][4] = {
      {"d", "d h", "d h:m", "d h:m:s.n"}, {"", "h", "h:m", "h:m:s.n"}, {"", "", "m", "m:s.n"}, {"", "", "", "s.n"}};
  static const char *const YEAR_FORMS[2][2] = {{"y", "y-m"}, {"", "m"}};
  fn_fields f = cast->to_fields;
  const char *form = day_time ? DAY_FORMS[f.start][f.end] : YEAR_FORMS[f.start & 1][f.end & 1];
  char range[40], name[60], supported[160];
  snprintf(range, sizeof range, f.start == f.end ? "%s" : "%s TO %s", names[f.start], names[f.end]);
  snprintf(name, sizeof name, "interval %s", range);
  for (char *c = name; *c; c++) *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
  snprintf(supported, sizeof supported, "`[+|-]%s`, `INTERVAL [+|-]'[+|-]%s' %s`", form, form, range);
  trn_status status = fn__raise(cast->report,
                                why == FN_PARSE_RANGE ? "INVALID_INTERVAL_FORMAT.INTERVAL_PARSING"
                                : day_time            ? "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING_WITH_NOTICE"
                                                      : "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING",
                                "typeName", name, "intervalStr", day_time ? "day-time" : "year-month",
                                "supportedFormat", supported, "interval", day_time ? "day-time" : "year-month", NULL);
  fn_text input = fn__get_text(cast->from, row);
  fn__param(cast->report, "input", input.data, input.size);
  return status;
}

/* A number of the target's last field, HALF_UP, as whole units; false: beyond int64. */
static bool scaled_units(fn_cast *cast, int64_t row, int64_t unit, int64_t *out) {
  const fn_column *from = cast->from;
  if (from->type.kind != FN_DECIMAL) return !__builtin_mul_overflow(fn__get_integer(from, row), unit, out);
  fn_i128 value = fn__get_decimal(from, row);
  fn_u256 size = fn__round256(fn__mul256(fn__abs128(value), (fn_u128)unit), from->type.scale);
  if (size.high != 0 || size.low > (fn_u128)INT64_MAX) return false;
  *out = value < 0 ? -(int64_t)size.low : (int64_t)size.low;
  return true;
}

static trn_status put_year_month(fn_cast *cast, int64_t row) {
  int32_t *out = (int32_t *)cast->out->data + row;
  int64_t months;
  if (cast->from->type.kind == FN_STRING) {
    fn_parse result = fn__year_month_parse(fn__get_text(cast->from, row), cast->to_fields, out);
    return result == FN_PARSE_OK ? TRN_OK : fail_text(cast, row, result);
  }
  if (cast->from->type.kind == FN_YEAR_MONTH) {
    months = fn__get_i32(cast->from, row);
    *out = (int32_t)(cast->to_fields.end == 0 ? months - months % 12 : months);
    return TRN_OK;
  }
  if (!scaled_units(cast, row, cast->to_fields.end == 0 ? 12 : 1, &months) || months != (int32_t)months)
    return fn__cast_overflow(cast, row);
  *out = (int32_t)months;
  return TRN_OK;
}

static trn_status put_day_time(fn_cast *cast, int64_t row) {
  int64_t *out = (int64_t *)cast->out->data + row;
  if (cast->from->type.kind == FN_STRING) {
    fn_parse result = fn__day_time_parse(fn__get_text(cast->from, row), cast->to_fields, out);
    return result == FN_PARSE_OK ? TRN_OK : fail_text(cast, row, result);
  }
  int64_t unit = fn__field_us[cast->to_fields.end];
  if (cast->from->type.kind == FN_DAY_TIME) {
    *out = fn__get_i64(cast->from, row);
    if (cast->to_fields.end != 3) *out -= *out % unit;
    return TRN_OK;
  }
  return scaled_units(cast, row, unit, out) ? TRN_OK : fn__cast_overflow(cast, row);
}

static trn_status put_calendar(fn_cast *cast, int64_t row) {
  int32_t part[2];
  int64_t us;
  char *at = (char *)cast->out->data + row * 16;
  if (!fn__calendar_parse(fn__get_text(cast->from, row), &part[0], &part[1], &us) || us > INT64_MAX / 1000 ||
      us < INT64_MIN / 1000) {
    return fn__cast_invalid(cast, row);
  }
  us *= 1000;
  memcpy(at, part, sizeof part);
  memcpy(at + 8, &us, sizeof us);
  return TRN_OK;
}

trn_status fn__cast_to_interval(fn_cast *cast) {
  fn_kind kind = (fn_kind)cast->out->type.kind;
  size_t width = fn__type_width(kind);
  trn_status status = TRN_OK;
  for (int64_t row = 0; row < cast->rows && status == TRN_OK; row++) {
    memset((char *)cast->out->data + (size_t)row * width, 0, width);
    if (fn__row_is_null(cast->out, row)) continue;
    status = kind == FN_YEAR_MONTH ? put_year_month(cast, row)
             : kind == FN_DAY_TIME ? put_day_time(cast, row)
                                   : put_calendar(cast, row);
  }
  return status;
}
