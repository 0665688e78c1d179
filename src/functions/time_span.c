/* Steps of time: sequence of dates and timestamps, time_bucket, the windows that a timestamp is in, times by a pattern.
 */
#include "functions/calendar.h"
#include "functions/frame.h"
#include "functions/pattern.h"
#include "functions/rowcodec.h"
#include "functions/text.h"
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 100000000 /* elements of one result */

/* ---- sequence(start, stop, step interval, zone) ---- */
typedef struct steps {
  bool date;
  int64_t months, days, us; /* of a step */
  fn_zone zone;
  fn_zone_range range;
} steps;

/* start + n * step, counted in local time. */
static int64_t step_from(steps *s, int64_t start, int64_t n) {
  if (s->date) return (s->months ? fn__add_months(start, n * s->months) : start + n * s->days);
  if (!s->months && !s->days) return start + n * s->us;
  int64_t local = fn__to_local(&s->zone, start, &s->range), day = fn__floor_div(local, FN_DAY);
  int64_t moved = s->months ? fn__add_months(day, n * s->months) : day;
  local = fn__midnight(moved + n * s->days) + fn__floor_mod(local, FN_DAY);
  return fn__to_utc(&s->zone, local, &s->range) + n * s->us;
}

static trn_status raise_bounds(const fn_call *call, int64_t start, int64_t stop, int64_t step) {
  char message[160];
  snprintf(message, sizeof message, "requirement failed: Illegal sequence boundaries: %lld to %lld by %lld",
           (long long)start, (long long)stop, (long long)step);
  call->report.error->fail(call->report.error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}

static trn_status read_step(const fn_call *call, int64_t row, steps *s) {
  const fn_column *c = &call->columns[2];
  s->months = s->days = s->us = 0;
  if (c->type.kind == FN_YEAR_MONTH) {
    s->months = fn__get_i32(c, row);
  } else if (s->date) {
    int64_t us = fn__get_i64(c, row);
    if (us % FN_DAY != 0) {
      call->report.error->fail(call->report.error->self, TRN_INVALID_ARGUMENT, NULL,
                               "sequence step must be an interval day to second of day granularity if start and end "
                               "values are dates");
      return TRN_INVALID_ARGUMENT;
    }
    s->days = us / FN_DAY;
  } else {
    s->us = fn__get_i64(c, row);
    if (s->us % FN_DAY == 0) s->days = s->us / FN_DAY, s->us = 0;
  }
  return TRN_OK;
}

static trn_status sequence_row(fn_call *call, steps *s, int64_t row, fn_sink *sink) {
  bool date = s->date;
  const fn_column *c = call->columns;
  int64_t start = date ? fn__get_i32(&c[0], row) : fn__get_i64(&c[0], row),
          stop = date ? fn__get_i32(&c[1], row) : fn__get_i64(&c[1], row), step = 0;
  trn_status status = read_step(call, row, s);
  if (status != TRN_OK) return status;
  step = s->months ? s->months : s->days ? s->days : s->us;
  bool up = step > 0;
  if ((step == 0 && start != stop) || (step > 0 && start > stop) || (step < 0 && start < stop))
    return raise_bounds(call, start, stop, s->months || date ? step : s->days * FN_DAY + s->us);
  for (int64_t n = 0; n < STEPS_MAX; n++) {
    int64_t value = step_from(s, start, n);
    if (up ? value > stop : value < stop) return TRN_OK;
    char encoded[9] = {1};
    int32_t day = (int32_t)value;
    const char *at = encoded;
    memcpy(encoded + 1, date ? (void *)&day : (void *)&value, date ? 4 : 8);
    fn__sink_put(sink, &at);
    if (step == 0 || sink->failed) return TRN_OK;
  }
  return fn__raise_out_of_memory(&call->report);
}

static trn_status sequence(fn_call *call) {
  steps s = {.date = call->columns[0].type.kind == FN_DATE};
  fn_sink sink;
  fn_text zone;
  struct ArrowSchema schema;
  struct ArrowArray child;
  if (call->columns[0].type.kind == FN_TIMESTAMP && fn__literal_text(call, 3, &zone) && !fn__zone_find(zone, &s.zone))
    return fn__mismatch(call);
  if (fn__schema_make(&schema, &call->columns[0].type, "element", false) != TRN_OK)
    return fn__raise_out_of_memory(&call->report);
  trn_status status = fn__sink_init(&sink, &schema) ? TRN_OK : fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (!fn__row_is_null(&call->out, row)) status = sequence_row(call, &s, row, &sink);
    fn__push_list(&call->out, sink.rows);
  }
  if (status != TRN_OK)
    fn__sink_clear(&sink);
  else if (fn__sink_finish(&sink, &child) != TRN_OK)
    status = fn__raise_out_of_memory(&call->report);
  else
    fn__add_child(&call->out, &child);
  schema.release(&schema);
  return status;
}

static trn_status bind_sequence(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema child;
  bool good = call->count == 4 && call->columns[3].type.kind == FN_STRING &&
              call->columns[0].type.kind == call->columns[1].type.kind &&
              (call->columns[0].type.kind == FN_DATE || call->columns[0].type.kind == FN_TIMESTAMP ||
               call->columns[0].type.kind == FN_TIMESTAMP_NTZ) &&
              (call->columns[2].type.kind == FN_YEAR_MONTH || call->columns[2].type.kind == FN_DAY_TIME);
  if (!good) return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_make(&child, &call->columns[0].type, "element", false);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* ---- time_bucket(size interval, timestamp, origin, zone): the start of the bucket ---- */
static int64_t month_bucket(steps *s, int64_t us, int64_t origin, int64_t months) {
  int64_t from = fn__to_local(&s->zone, origin, &s->range), at = fn__to_local(&s->zone, us, &s->range);
  fn_date a = fn__date(fn__floor_div(from, FN_DAY)), b = fn__date(fn__floor_div(at, FN_DAY));
  int64_t n = fn__floor_div((b.year - a.year) * 12 + b.month - a.month, months) + 1;
  s->months = months;
  s->days = s->us = 0;
  while (step_from(s, origin, n) > us) n--;
  return step_from(s, origin, n);
}

static trn_status time_bucket(fn_call *call) {
  steps s = {0};
  fn_text zone;
  int64_t *out = call->out.data;
  const fn_column *c = call->columns;
  if (c[1].type.kind == FN_TIMESTAMP && fn__literal_text(call, 3, &zone) && !fn__zone_find(zone, &s.zone))
    return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++) {
    out[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    int64_t us = fn__get_i64(&c[1], row), origin = fn__get_i64(&c[2], row);
    bool months = c[0].type.kind == FN_YEAR_MONTH;
    int64_t size = months ? fn__get_i32(&c[0], row) : fn__get_i64(&c[0], row);
    if (size <= 0) return fn__mismatch(call);
    out[row] = months ? month_bucket(&s, us, origin, size) : us - fn__floor_mod(us - origin, size);
  }
  return TRN_OK;
}

static trn_status bind_bucket(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (!(fn__args_are(call, "YMMs") || fn__args_are(call, "IMMs")) ||
      call->columns[1].type.kind != call->columns[2].type.kind)
    return fn__mismatch(call);
  *out = call->columns[1].type;
  return TRN_OK;
}

/* ---- time_windows(timestamp, size, slide, offset): the windows it is in, from the last to start ---- */
#define WINDOWS_MAX 100000
static trn_status time_windows(fn_call *call) {
  const fn_column *c = call->columns;
  fn_sink sink;
  struct ArrowSchema schema, fields[2];
  struct ArrowArray child;
  int64_t size = fn__get_i64(&c[1], 0), slide = fn__get_i64(&c[2], 0), offset = fn__get_i64(&c[3], 0);
  if (slide <= 0 || size < slide || size / slide > WINDOWS_MAX) return fn__mismatch(call);
  if (fn__schema_make(&fields[0], &c[0].type, "start", true) != TRN_OK)
    return fn__raise_out_of_memory(&call->report);
  if (fn__schema_make(&fields[1], &c[0].type, "end", true) != TRN_OK) {
    fields[0].release(&fields[0]);
    return fn__raise_out_of_memory(&call->report);
  }
  if (fn__schema_nest(&schema, "+s", "element", false, fields, 2) != TRN_OK)
    return fn__raise_out_of_memory(&call->report);
  bool good = fn__sink_init(&sink, &schema);
  for (int64_t row = 0; row < call->rows && good; row++) {
    if (!fn__is_null(&c[0], row)) {
      int64_t us = fn__get_i64(&c[0], row), start = us - fn__floor_mod(us - offset, slide);
      for (; start + size > us && !sink.failed; start -= slide) {
        char encoded[19] = {1, 1};
        const char *at = encoded;
        int64_t end = start + size;
        memcpy(encoded + 2, &start, 8);
        encoded[10] = 1;
        memcpy(encoded + 11, &end, 8);
        fn__sink_put(&sink, &at);
      }
    }
    fn__push_list(&call->out, sink.rows);
  }
  good = good && fn__sink_finish(&sink, &child) == TRN_OK;
  if (good) fn__add_child(&call->out, &child);
  schema.release(&schema);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_windows(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema fields[2], row;
  if (!fn__args_are(call, "Mlll")) return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_make(&fields[0], &call->columns[0].type, "start", true);
  if (status != TRN_OK) return status;
  if ((status = fn__schema_make(&fields[1], &call->columns[0].type, "end", true)) != TRN_OK) {
    fields[0].release(&fields[0]);
    return status;
  }
  status = fn__schema_nest(&row, "+s", "element", false, fields, 2);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", false, &row, 1) : status;
}

/* ---- to_time(text, pattern) ---- */
static trn_status raise_time(const fn_call *call, fn_text text, fn_text pattern) {
  fn_bytes quoted = {0};
  trn_status status = fn__raise(&call->report, "CANNOT_PARSE_TIME", NULL);
  bool good = fn__bytes_append(&quoted, "'", 1) && fn__bytes_append(&quoted, text.data, text.size) &&
              fn__bytes_append(&quoted, "'", 1);
  if (good) fn__param(&call->report, "input", quoted.data, quoted.size);
  quoted.size = 0;
  good = good && fn__bytes_append(&quoted, "'", 1) && fn__bytes_append(&quoted, pattern.data, pattern.size) &&
         fn__bytes_append(&quoted, "'", 1);
  if (good) fn__param(&call->report, "format", quoted.data, quoted.size);
  fn__bytes_clear(&quoted);
  return status;
}

static trn_status to_time(fn_call *call) {
  fn_pattern pattern;
  fn_text compiled = {NULL, 0};
  int64_t *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    out[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text text = fn__get_text(&call->columns[0], row), wanted = fn__get_text(&call->columns[1], row);
    fn_pattern_result result;
    bool same = compiled.data && compiled.size == wanted.size && memcmp(compiled.data, wanted.data, wanted.size) == 0;
    bool good = same || fn__pattern_compile(wanted, &pattern);
    compiled = good ? wanted : (fn_text){NULL, 0};
    good = good && fn__pattern_parse(&pattern, text, &result);
    if (good)
      out[row] = fn__floor_mod(result.local_us, FN_DAY) * 1000;
    else if (call->function->op)
      fn__set_null(&call->out, row);
    else
      return raise_time(call, text, wanted);
  }
  return TRN_OK;
}

FN_BIND(to_time, "ss", fn__type(FN_TIME))

const fn_scalar fn__time_span_table[] = {
    {"trn.sequence_time", TRN_IMMUTABLE, FN_STRICT, 0, bind_sequence, sequence},
    {"trn.time_bucket", TRN_IMMUTABLE, FN_STRICT, 0, bind_bucket, time_bucket},
    {"trn.time_windows", TRN_IMMUTABLE, FN_NEVER_NULL, 0, bind_windows, time_windows},
    {"trn.to_time", TRN_IMMUTABLE, FN_STRICT, 0, bind_to_time, to_time},
    {"trn.to_time_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 1, bind_to_time, to_time},
    {NULL},
};
