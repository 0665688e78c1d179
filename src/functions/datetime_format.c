/* Dates and timestamps to and from text by a pattern. */
#include "functions/frame.h"
#include "functions/pattern.h"
#include "functions/text.h"
#include <stdio.h>
#include <string.h>

/* A pattern and a zone that change rarely, mostly never. */
typedef struct setup {
  fn_pattern pattern;
  fn_text compiled;
  fn_zone zone;
  fn_text zone_name;
  fn_zone_range range;
} setup;

static trn_status raise_pattern(const fn_call *call, fn_text pattern) {
  char quoted[600];
  size_t size = pattern.size < sizeof quoted - 2 ? pattern.size : sizeof quoted - 2;
  quoted[0] = '\'';
  memcpy(quoted + 1, pattern.data, size);
  quoted[size + 1] = '\'';
  trn_status status =
      fn__raise(&call->report, "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION", "config",
                "\"spark.sql.legacy.timeParserPolicy\"", "docroot", "https://spark.apache.org/docs/latest", NULL);
  fn__param(&call->report, "pattern", quoted, size + 2);
  return status;
}

static trn_status use_pattern(const fn_call *call, setup *s, fn_text pattern) {
  if (s->compiled.data && s->compiled.size == pattern.size && memcmp(s->compiled.data, pattern.data, pattern.size) == 0)
    return TRN_OK;
  if (!fn__pattern_compile(pattern, &s->pattern)) return raise_pattern(call, pattern);
  s->compiled = pattern;
  return TRN_OK;
}

static trn_status use_zone(const fn_call *call, setup *s, size_t index) {
  s->zone_name = (fn_text){"UTC", 3};
  if (index >= call->count || !fn__literal_text(call, index, &s->zone_name) || fn__zone_find(s->zone_name, &s->zone))
    return TRN_OK;
  trn_status status = fn__raise(&call->report, "INVALID_TIMEZONE", NULL);
  fn__param(&call->report, "timeZone", s->zone_name.data, s->zone_name.size);
  return status;
}

/* date_format(timestamp, pattern, zone) and from_unixtime(seconds, pattern, zone) */
static trn_status format(fn_call *call) {
  setup s = {0};
  bool is_seconds = call->function->op;
  trn_status status = use_zone(call, &s, 2);
  if (call->columns[0].type.kind == FN_TIMESTAMP_NTZ) s.zone = (fn_zone){0};
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    int64_t us = fn__get_i64(&call->columns[0], row);
    if (is_seconds && __builtin_mul_overflow(us, FN_SECOND, &us))
      return fn__raise_overflow(&call->report, "long overflow", NULL);
    status = use_pattern(call, &s, fn__get_text(&call->columns[1], row));
    int64_t local = fn__to_local(&s.zone, us, &s.range);
    if (status == TRN_OK)
      fn__pattern_format(&s.pattern, local, (int32_t)((local - us) / FN_SECOND), s.zone_name, &call->out);
    fn__push_end(&call->out, 0);
  }
  return status;
}

static trn_status raise_parse(const fn_call *call, fn_text text, const fn_pattern_result *result, bool is_date) {
  char message[400];
  int size = text.size < 200 ? (int)text.size : 200;
  if (result->is_bad_date || text.size == 0)
    snprintf(message, sizeof message, "Text '%.*s' could not be parsed", size, text.data);
  else if (result->error_index == text.size || result->error_index == 0 || text.size < result->error_index)
    snprintf(message, sizeof message, "Text '%.*s' could not be parsed at index %zu", size, text.data,
             result->error_index);
  else
    snprintf(message, sizeof message, "Text '%.*s' could not be parsed%s at index %zu", size, text.data,
             ", unparsed text found", result->error_index);
  return fn__raise(&call->report, "CANNOT_PARSE_TIMESTAMP", "message", message, "func",
                   is_date ? "`try_to_date`" : "`try_to_timestamp`", NULL);
}

enum { TO_TIMESTAMP, TO_DATE, TO_NTZ, TO_UNIX };
static trn_status parse(fn_call *call) {
  setup s = {0};
  int op = call->function->op;
  bool raises = call->function->flags & FN_POSITION;
  trn_status status = use_zone(call, &s, 2);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    fn_pattern_result result;
    int64_t value = 0;
    bool null = fn__row_is_null(&call->out, row), good = false;
    if (!null) status = use_pattern(call, &s, fn__get_text(&call->columns[1], row));
    if (!null && status == TRN_OK) {
      fn_text text = fn__get_text(&call->columns[0], row);
      good = fn__pattern_parse(&s.pattern, text, &result);
      if (!good && raises) status = raise_parse(call, text, &result, op == TO_DATE);
    }
    if (good) {
      fn_zone own = result.has_zone ? result.zone : (fn_zone){NULL, result.offset};
      fn_zone_range range = {0};
      value = op == TO_NTZ || op == TO_DATE          ? result.local_us
              : result.has_offset || result.has_zone ? fn__to_utc(&own, result.local_us, &range)
                                                     : fn__to_utc(&s.zone, result.local_us, &s.range);
    } else if (!null) {
      fn__set_null(&call->out, row);
    }
    if (op == TO_DATE)
      ((int32_t *)call->out.data)[row] = (int32_t)fn__floor_div(value, FN_DAY);
    else
      ((int64_t *)call->out.data)[row] = op == TO_UNIX ? fn__floor_div(value, FN_SECOND) : value;
  }
  return status;
}

FN_BIND(format, "Ms|s", fn__type(FN_STRING))
FN_BIND(from_unix, "ls|s", fn__type(FN_STRING))
FN_BIND(timestamp, "ss|s", fn__type(FN_TIMESTAMP))
FN_BIND(date, "ss", fn__type(FN_DATE))
FN_BIND(ntz, "ss", fn__type(FN_TIMESTAMP_NTZ))
FN_BIND(unix, "ss|s", fn__type(FN_INT64))

#define PARSE(name, op, bind)                                                                                          \
  {"trn." name, TRN_IMMUTABLE, FN_STRICT | FN_POSITION, op, bind, parse}, {                                            \
    "trn." name "_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, op, bind, parse                                        \
  }
const fn_scalar fn__datetime_format_table[] = {
    {"trn.date_format", TRN_IMMUTABLE, FN_STRICT, 0, bind_format, format},
    {"trn.from_unixtime", TRN_IMMUTABLE, FN_STRICT, 1, bind_from_unix, format},
    PARSE("to_timestamp", TO_TIMESTAMP, bind_timestamp),
    PARSE("to_date", TO_DATE, bind_date),
    PARSE("to_timestamp_ntz", TO_NTZ, bind_ntz),
    PARSE("to_unix_timestamp", TO_UNIX, bind_unix),
    {NULL},
};
