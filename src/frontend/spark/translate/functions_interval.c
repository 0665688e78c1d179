/* Arithmetic of dates, times and intervals: what Spark's BinaryArithmeticWithDatetimeResolver makes of + - * /. */
#include "frontend/spark/translate/operators.h"

#define DAY_US INT64_C(86400000000)
static const char days_required[] = "(\"INT\" or \"SMALLINT\" or \"TINYINT\")";

static bool is_days(const trn_type *type) { /* INTERVAL DAY */
  return type->id == TRN_TYPE_INTERVAL_DAY_TIME && type->precision == 0 && type->scale == 0;
}
static bool is_date_time(const trn_type *type) {
  return type->id == TRN_TYPE_DATE || type->id == TRN_TYPE_TIME || spark__is_timestamp(type);
}
static bool has_zone(const spark_translator *t, const trn_type *type) {
  return type->id == TRN_TYPE_TIMESTAMP && !spark__zone_is_utc(t->timezone);
}

/* ---- pieces ---- */
static const trn_expr *negated(spark_builder *b, const trn_expr *interval) {
  if (spark__is_literal(interval) && interval->u.literal.value.integer != INT64_MIN)
    return trn__expr_int(b->t->arena, interval->type, -interval->u.literal.value.integer);
  return spark__kernel_with(b, "trn.interval_negate", interval->type, &interval, 1, SPARK_POSITION);
}

static const trn_expr *days_of(spark_builder *b, const trn_expr *interval) {
  const trn_type *type = trn__type(TRN_TYPE_INT32);
  if (spark__is_literal(interval)) return trn__expr_int(b->t->arena, type, interval->u.literal.value.integer / DAY_US);
  const trn_expr *days = NULL; /* an interval of one unit casts to the count of it */
  trn_status status = spark__cast(b->t, interval, type, SPARK_CAST_ANSI, b->call->position, &days, NULL);
  return status ? NULL : days;
}

static const trn_expr *move_days(spark_builder *b, const trn_expr *date, const trn_expr *days, bool back) {
  const trn_expr *args[2] = {date, days};
  const trn_type *type = trn__type(TRN_TYPE_DATE);
  if (!days) return NULL;
  if (spark__is_literal(date) && spark__is_literal(days)) {
    int64_t by = days->u.literal.value.integer, moved = date->u.literal.value.integer + (back ? -by : by);
    if (moved >= INT32_MIN && moved <= INT32_MAX) return trn__expr_int(b->t->arena, type, moved);
  }
  return spark__kernel(b->t, back ? "trn.date_sub" : "trn.date_add", type, args, 2);
}

static const trn_expr *move_months(spark_builder *b, const trn_expr *date, const trn_expr *interval) {
  const trn_type *type = trn__type(TRN_TYPE_DATE);
  if (!interval) return NULL;
  if (spark__is_literal(date) && spark__is_literal(interval)) {
    int64_t year, months = interval->u.literal.value.integer;
    unsigned month, day;
    spark__civil_from_days(date->u.literal.value.integer, &year, &month, &day);
    int64_t total = year * 12 + (month - 1) + months, to_year = total >= 0 ? total / 12 : -((-total + 11) / 12);
    unsigned to_month = (unsigned)(total - to_year * 12);
    int64_t first = spark__days_from_civil(to_year, to_month + 1, 1);
    int64_t next = spark__days_from_civil(to_year + (to_month == 11), to_month == 11 ? 1 : to_month + 2, 1);
    int64_t moved = first + ((int64_t)day < next - first ? (int64_t)day : next - first) - 1;
    if (moved >= INT32_MIN && moved <= INT32_MAX) return trn__expr_int(b->t->arena, type, moved);
  }
  const trn_expr *args[2] = {date, interval};
  return spark__kernel(b->t, "trn.date_add_ym", type, args, 2);
}

static const trn_expr *move_timestamp(spark_builder *b, const trn_expr *at, const trn_expr *interval) {
  const trn_expr *args[2] = {at, interval};
  if (!at || !interval) return NULL;
  if (interval->type->id == TRN_TYPE_INTERVAL_YEAR_MONTH)
    return spark__kernel_with(b, "trn.timestamp_add_ym", at->type, args, 2, SPARK_ZONE);
  return spark__kernel_with(b, "trn.timestamp_add_dt", at->type, args, 2, has_zone(b->t, at->type) ? SPARK_ZONE : 0);
}

static trn_status unexpected(spark_builder *b, size_t index, const char *required, bool *done) {
  *done = true;
  return spark__unexpected_input(b, index, required, b->args[index]->type);
}

static trn_status given(spark_builder *b, const trn_expr *expr, bool *done, const trn_expr **out) {
  *done = true;
  return spark__gives(b, expr, out);
}

/* The operator is shown as what the analyzer makes of it: date_add(d, extractansiintervaldays(i)), d + i. */
static void show_move(spark_builder *b, size_t at, bool back, bool days) {
  static const char *const by_days[2][2] = {
      {"date_add($1, extractansiintervaldays($2))", "date_add($1, (- extractansiintervaldays($2)))"},
      {"date_add($2, extractansiintervaldays($1))", "date_add($2, (- extractansiintervaldays($1)))"}};
  static const char *const by_any[2][2] = {{"$1 + $2", "$1 - $2"}, {"$2 + $1", "$2 - $1"}};
  if (b->function->display) b->name = days ? by_days[at][back] : by_any[at][back];
}

/* ---- date or time +- interval ---- */
static trn_status move_text(spark_builder *b, size_t at, const trn_expr *interval, bool *done, const trn_expr **out) {
  trn_status status = spark__coerce(b, at, trn__type(TRN_TYPE_TIMESTAMP));
  if (status) return status;
  const trn_expr *moved = move_timestamp(b, b->args[at], interval);
  *done = true;
  if (!moved) return trn__no_memory(b->error);
  return spark__cast(b->t, moved, trn__type(TRN_TYPE_STRING), SPARK_CAST_IMPLICIT, b->call->position, out, b->error);
}

static trn_status move(spark_builder *b, size_t at, bool back, bool *done, const trn_expr **out) {
  const trn_expr *start = b->args[at], *interval = b->args[1 - at];
  const trn_type *type = start->type;
  bool months = interval->type->id == TRN_TYPE_INTERVAL_YEAR_MONTH;
  show_move(b, at, back, type->id == TRN_TYPE_DATE && is_days(interval->type));
  if (type->id == TRN_TYPE_DATE && is_days(interval->type))
    return given(b, move_days(b, start, days_of(b, interval), back), done, out);
  if (back && !(interval = negated(b, interval))) return trn__no_memory(b->error);
  if (type->id == TRN_TYPE_DATE && months) return given(b, move_months(b, start, interval), done, out);
  if (type->id == TRN_TYPE_TIME) {
    const trn_expr *args[2] = {start, interval};
    if (months) return unexpected(b, 1 - at, "\"INTERVAL DAY TO SECOND\"", done);
    trn_type *result = trn__arena_copy(b->t->arena, type, sizeof *type);
    if (!result) return trn__no_memory(b->error);
    if (interval->type->scale == 3 && result->precision < 6) result->precision = 6; /* seconds have six digits */
    return given(b, spark__kernel_with(b, "trn.time_add_dt", result, args, 2, SPARK_POSITION), done, out);
  }
  if (type->id == TRN_TYPE_DATE) {
    trn_status status = spark__coerce(b, at, trn__type(TRN_TYPE_TIMESTAMP));
    if (status) return status;
    start = b->args[at];
  }
  if (spark__is_timestamp(start->type)) return given(b, move_timestamp(b, start, interval), done, out);
  if (spark__is_string(type)) return move_text(b, at, interval, done, out);
  return unexpected(b, at, "(\"TIMESTAMP\" or \"TIMESTAMP WITHOUT TIME ZONE\")", done);
}

/* DateAdd and DateSub: days are int or less. */
static trn_status move_by_number(spark_builder *b, size_t at, bool back, bool *done, const trn_expr **out) {
  const trn_type *days = b->args[1 - at]->type;
  if (days->id != TRN_TYPE_INT8 && days->id != TRN_TYPE_INT16 && days->id != TRN_TYPE_INT32)
    return unexpected(b, 1 - at, days_required, done);
  if (b->function->display) b->name = back ? "date_sub($1, $2)" : at ? "date_add($2, $1)" : "date_add($1, $2)";
  trn_status status = spark__coerce(b, 1 - at, trn__type(TRN_TYPE_INT32));
  if (status) return status;
  return given(b, move_days(b, b->args[at], b->args[1 - at], back), done, out);
}

static trn_status add(spark_builder *b, bool *done, const trn_expr **out) {
  for (size_t i = 0; i < 2; i++) { /* a null beside a date or time is an interval */
    if (b->args[1 - i]->type->id != TRN_TYPE_NULL || !is_date_time(b->args[i]->type)) continue;
    trn_status status = spark__coerce(b, 1 - i, trn__type(TRN_TYPE_INTERVAL_DAY_TIME));
    if (status) return status;
  }
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type;
  if (spark__is_interval(x) && x->id == y->id) return TRN_OK;
  for (size_t i = 0; i < 2; i++) {
    const trn_type *at = b->args[i]->type, *by = b->args[1 - i]->type;
    if (by->id == TRN_TYPE_INTERVAL_YEAR_MONTH && (at->id == TRN_TYPE_DATE || spark__is_timestamp(at)))
      return move(b, i, false, done, out);
  }
  if (y->id == TRN_TYPE_INTERVAL_DAY_TIME && x->id != TRN_TYPE_NULL) return move(b, 0, false, done, out);
  if (x->id == TRN_TYPE_INTERVAL_DAY_TIME && y->id != TRN_TYPE_NULL) return move(b, 1, false, done, out);
  if (x->id == TRN_TYPE_DATE) return move_by_number(b, 0, false, done, out);
  if (y->id == TRN_TYPE_DATE) return move_by_number(b, 1, false, done, out);
  return TRN_OK;
}

/* ---- differences ---- */
static trn_status difference(spark_builder *b, trn_type_id as, const char *kernel, const trn_type *type, bool *done,
                             const trn_expr **out) {
  for (size_t i = 0; i < 2; i++) {
    trn_status status = spark__coerce(b, i, trn__type(as));
    if (status) return status;
  }
  bool zone = has_zone(b->t, b->args[0]->type);
  return given(b, type ? spark__kernel_with(b, kernel, type, b->args, 2, zone ? SPARK_ZONE : 0) : NULL, done, out);
}

static trn_status subtract_timestamps(spark_builder *b, bool *done, const trn_expr **out) {
  bool local = true;
  for (size_t i = 0; i < 2; i++) {
    const trn_type *type = b->args[i]->type;
    bool fits = spark__is_timestamp(type) || type->id == TRN_TYPE_DATE || type->id == TRN_TYPE_NULL ||
                (spark__is_string(type) && b->t->ansi); /* with ANSI off strings are not promoted here */
    if (!fits) return unexpected(b, i, spark__letter_text('T'), done);
    local = local && type->id != TRN_TYPE_TIMESTAMP;
  }
  return difference(b, local ? TRN_TYPE_TIMESTAMP_NTZ : TRN_TYPE_TIMESTAMP, "trn.timestamp_diff",
                    trn__type(TRN_TYPE_INTERVAL_DAY_TIME), done, out);
}

static trn_status subtract_dates(spark_builder *b, bool *done, const trn_expr **out) {
  for (size_t i = 0; i < 2; i++) {
    const trn_type *type = b->args[i]->type;
    if (type->id == TRN_TYPE_TIME) break; /* an implicit cast that fails as a cast */
    if (type->id != TRN_TYPE_DATE && type->id != TRN_TYPE_NULL && !(spark__is_string(type) && b->t->ansi))
      return unexpected(b, i, spark__letter_text('D'), done);
  }
  return difference(b, TRN_TYPE_DATE, "trn.date_diff_dt", spark__day_time(b->t, 0, 0), done, out);
}

static bool may_be_time(const trn_type *type) {
  return type->id == TRN_TYPE_TIME || type->id == TRN_TYPE_NULL || spark__is_string(type);
}

static trn_status subtract(spark_builder *b, bool *done, const trn_expr **out) {
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type;
  bool months = y->id == TRN_TYPE_INTERVAL_YEAR_MONTH, times = y->id == TRN_TYPE_INTERVAL_DAY_TIME;
  if (spark__is_interval(x) && (x->id == y->id || y->id == TRN_TYPE_NULL)) return TRN_OK;
  if (times && x->id != TRN_TYPE_NULL) return move(b, 0, true, done, out);
  if (months && (x->id == TRN_TYPE_DATE || spark__is_timestamp(x))) return move(b, 0, true, done, out);
  if (spark__is_timestamp(x) || spark__is_timestamp(y)) return subtract_timestamps(b, done, out);
  if (y->id == TRN_TYPE_DATE) return subtract_dates(b, done, out);
  if (x->id == TRN_TYPE_DATE && (y->id == TRN_TYPE_NULL || spark__is_string(y))) return subtract_dates(b, done, out);
  if (x->id == TRN_TYPE_DATE) return move_by_number(b, 0, true, done, out);
  if ((x->id == TRN_TYPE_TIME || y->id == TRN_TYPE_TIME) && may_be_time(x) && may_be_time(y)) {
    b->text = trn__arena_printf(b->t->arena, "%s - %s", b->call->args[0].name, b->call->args[1].name);
    if (!b->text) return trn__no_memory(b->error);
    return difference(b, TRN_TYPE_TIME, "trn.time_diff", spark__day_time(b->t, 1, 3), done, out);
  }
  return TRN_OK;
}

/* ---- interval * / number ---- */
static trn_status scale_interval(spark_builder *b, size_t interval, const char *kernel, bool *done,
                                 const trn_expr **out) {
  size_t number = 1 - interval;
  const trn_type *type = b->args[number]->type, *to = type;
  if (spark__is_string(type) || type->id == TRN_TYPE_NULL || spark__is_float(type))
    to = trn__type(TRN_TYPE_FLOAT64);
  else if (trn__type_is_integer(type))
    to = trn__type(TRN_TYPE_INT64);
  else if (type->id != TRN_TYPE_DECIMAL)
    return unexpected(b, number, "\"NUMERIC\"", done);
  trn_status status = spark__coerce(b, number, to);
  if (status) return status;
  const trn_type *from = b->args[interval]->type;
  const trn_type *result = from->id == TRN_TYPE_INTERVAL_YEAR_MONTH ? trn__type(TRN_TYPE_INTERVAL_YEAR_MONTH)
                                                                    : trn__type(TRN_TYPE_INTERVAL_DAY_TIME);
  const trn_expr *args[2] = {b->args[interval], b->args[number]};
  if (interval == 1 && b->function->display) b->name = "($2 * $1)";
  trn_expr *expr = spark__kernel_with(b, kernel, result, args, 2, SPARK_POSITION);
  return given(b, expr, done, out);
}

trn_status spark__datetime_arithmetic(spark_builder *b, char op, bool *done, const trn_expr **out) {
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type;
  *done = false;
  bool calendar = x->id == TRN_TYPE_INTERVAL_CALENDAR || y->id == TRN_TYPE_INTERVAL_CALENDAR;
  if (calendar) return spark__not_supported(b, "calendar intervals");
  switch (op) {
  case '+': return add(b, done, out);
  case '-': return subtract(b, done, out);
  case '*':
    if (spark__is_interval(x)) return scale_interval(b, 0, "trn.multiply_interval", done, out);
    if (spark__is_interval(y)) return scale_interval(b, 1, "trn.multiply_interval", done, out);
    return TRN_OK;
  case '/': return spark__is_interval(x) ? scale_interval(b, 0, "trn.divide_interval", done, out) : TRN_OK;
  default: return TRN_OK;
  }
}

const trn_expr *spark__interval_count(spark_translator *t, const trn_expr *interval, trn_position position) {
  const trn_type *wide = trn__type(TRN_TYPE_INT64);
  if (interval->type->id == TRN_TYPE_INTERVAL_DAY_TIME)
    return trn__expr_cast(t->arena, interval, wide, false); /* the same bits */
  trn_type *months = trn__arena_copy(t->arena, interval->type, sizeof(trn_type));
  trn_expr *shown = months ? trn__arena_copy(t->arena, interval, sizeof *interval) : NULL;
  const trn_expr *count = NULL;
  if (!shown) return NULL;
  months->precision = 1; /* INTERVAL MONTH: its cast counts months */
  months->scale = 1;
  shown->type = months;
  return spark__cast(t, shown, wide, SPARK_CAST_ANSI, position, &count, NULL) ? NULL : count;
}

trn_status spark__interval_arithmetic(spark_builder *b, char op, const trn_expr **out) {
  const char *kernel = op == '+' ? "trn.interval_add" : "trn.interval_subtract";
  return spark__gives(b, spark__kernel_with(b, kernel, b->args[0]->type, b->args, 2, SPARK_POSITION), out);
}
