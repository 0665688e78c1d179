/* Casts: one kernel per target kind, whatever the source. */
#ifndef TRN_FUNCTIONS_CAST_H
#define TRN_FUNCTIONS_CAST_H
#include "functions/arithmetic.h"
#include "functions/calendar.h"
#include "functions/text.h"

/* Which fields an interval type has (0 year or day, 1 month or hour, 2 minute, 3 second); Arrow's types do not say. */
typedef struct fn_fields {
  uint8_t start, end;
} fn_fields;

typedef struct fn_cast {
  const fn_column *from;
  fn_builder *out;
  int64_t rows;
  fn_mode mode; /* FN_WRAP: Spark with ANSI off */
  fn_zone zone;
  fn_fields from_fields, to_fields;
  uint8_t precision; /* of a target TIME */
  const fn_report *report;
  int depth;
} fn_cast;

/* Result validity holds the source's nulls already. */
trn_status fn__cast_to_bool(fn_cast *cast);
trn_status fn__cast_to_integer(fn_cast *cast);
trn_status fn__cast_to_float(fn_cast *cast);
trn_status fn__cast_to_decimal(fn_cast *cast);
trn_status fn__cast_to_string(fn_cast *cast);
trn_status fn__cast_to_binary(fn_cast *cast);
trn_status fn__cast_to_time(fn_cast *cast); /* date, timestamps, time */
trn_status fn__cast_to_interval(fn_cast *cast);

/* The row's failure by the mode: raises, or makes the row null and gives TRN_OK. */
trn_status fn__cast_invalid(fn_cast *cast, int64_t row);  /* CAST_INVALID_INPUT */
trn_status fn__cast_overflow(fn_cast *cast, int64_t row); /* CAST_OVERFLOW */
/* Appends the value as Spark's cast to string shows it (null: "null"); nested values too. */
void fn__print_value(const fn_cast *cast, const fn_column *column, int64_t row, fn_builder *out, int depth);
/* A SQL literal of the value, for messages: 'abc', 1L, 1.5BD; cut at `size`. Gives its size. */
size_t fn__print_sql(const fn_cast *cast, const fn_column *column, int64_t row, char *out, size_t size);

#define FN_INTERVAL_TEXT_MAX 96
size_t fn__year_month_print(int32_t months, fn_fields fields, char *out);
size_t fn__day_time_print(int64_t us, fn_fields fields, char *out);
size_t fn__calendar_print(int32_t months, int32_t days, int64_t nanos, char *out);
extern const int64_t fn__field_us[4]; /* day, hour, minute, second */

/* Text as an interval of these fields. BAD: no such form; RANGE: too big. */
fn_parse fn__year_month_parse(fn_text text, fn_fields fields, int32_t *months);
fn_parse fn__day_time_parse(fn_text text, fn_fields fields, int64_t *us);
bool fn__calendar_parse(fn_text text, int32_t *months, int32_t *days, int64_t *us);
#endif
