/* Timestamps and times from parts, names of days and months, zones, the TIME type. */
#include "frontend/spark/translate/scope.h"
#include <strings.h>

static const trn_type *time_type(spark_builder *b, uint8_t precision) {
  trn_type *type = trn__arena_copy(b->t->arena, trn__type(TRN_TYPE_TIME), sizeof(trn_type));
  if (type) type->precision = precision;
  return type;
}

static trn_status coerce_letter(spark_builder *b, size_t index, char letter) {
  const trn_type *type = spark__implicit_type(b->t, b->args[index]->type, letter);
  if (!type) return spark__unexpected_input(b, index, spark__letter_text(letter), b->args[index]->type);
  return spark__coerce(b, index, type);
}

/* Seconds with six digits. */
static trn_status coerce_seconds(spark_builder *b, size_t index) {
  const trn_type *type = trn__type_decimal(b->t->arena, 16, 6), *given = b->args[index]->type;
  if (!type) return trn__no_memory(b->error);
  if (!trn__type_is_numeric(given) && given->id != TRN_TYPE_NULL && !spark__is_string(given))
    return spark__unexpected_input(b, index, "\"DECIMAL(16,6)\"", given);
  return spark__coerce(b, index, type);
}

static bool is_lenient(const spark_builder *b) {
  return b->function->flags & SPARK_TRY || !b->t->ansi;
}

/* ---- make_timestamp and kin ---- */
/* The day's start and, when given, the time of the day. */
static trn_status local_of_day(spark_builder *b, const trn_expr **local) {
  const trn_type *ntz = trn__type(TRN_TYPE_TIMESTAMP_NTZ);
  trn_status status = coerce_letter(b, 0, 'D');
  if (!status)
    status = spark__cast(b->t, b->args[0], ntz, SPARK_CAST_IMPLICIT, b->call->position, local, b->error);
  if (status || b->count == 1) return status;
  if (b->args[1]->type->id != TRN_TYPE_TIME) return spark__unexpected_input(b, 1, "\"TIME(6)\"", b->args[1]->type);
  const trn_expr *since[2] = {b->args[1], trn__expr_int(b->t->arena, b->args[1]->type, 0)};
  const trn_expr *sum[2] = {*local,
                            spark__kernel(b->t, "trn.time_diff", trn__type(TRN_TYPE_INTERVAL_DAY_TIME), since, 2)};
  *local = spark__kernel(b->t, "trn.timestamp_add_dt", ntz, sum, 2);
  return *local ? TRN_OK : trn__no_memory(b->error);
}

/* make_timestamp(date[, time[, zone]]): a zone moves the local time to the session's. */
static trn_status from_day(spark_builder *b, bool ntz, const trn_expr **out) {
  const trn_expr *local = NULL;
  trn_status status = local_of_day(b, &local);
  if (!status && b->count == 3) {
    const trn_type *type = local->type;
    if ((status = coerce_letter(b, 2, 's'))) return status;
    const trn_expr *to[2] = {local, b->args[2]};
    const trn_expr *back[2] = {spark__kernel(b->t, "trn.timestamp_to_utc", type, to, 2), spark__zone_literal(b->t)};
    local = spark__kernel(b->t, "trn.timestamp_from_utc", type, back, 2);
    if (!local) return trn__no_memory(b->error);
  }
  if (status) return status;
  if (ntz) {
    trn_expr *shown = trn__arena_copy(b->t->arena, local, sizeof *local);
    if (shown) shown->nullable = true;
    return spark__gives(b, shown, out);
  }
  return spark__cast(b->t, local, trn__type(TRN_TYPE_TIMESTAMP), SPARK_CAST_IMPLICIT, b->call->position, out, b->error);
}

static void name_made(spark_builder *b, bool ntz) {
  static const char *const BY_DAY[] = {"make_timestamp($1)", "make_timestamp($1, $2)", "make_timestamp($1, $2, $3)"};
  bool is_try = b->function->flags & SPARK_TRY, ltz = b->function->run[0] == 'l';
  if (b->count <= 3 && ltz)
    b->name = BY_DAY[b->count - 1];
  else if (b->count == 2 && ntz && is_try)
    b->name = "try_make_timestamp_ntz(make_timestamp_ntz($1, $2))";
  else if (b->count == 7 && is_try && b->function->run[0] == 'd')
    b->name = "try_make_timestamp($1, $2, $3, $4, $5, $6)";
}

static trn_status build_make_timestamp(spark_builder *b, const trn_expr **out) {
  bool ntz = b->function->run[0] == 'n', lenient = is_lenient(b);
  name_made(b, ntz);
  if (b->count <= 3) return from_day(b, ntz, out);
  if (b->count < 6 || (ntz && b->count == 7)) return spark__not_supported(b, "this number of arguments");
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i < 5; i++) status = coerce_letter(b, i, 'i');
  if (!status) status = coerce_seconds(b, 5);
  if (!status && b->count == 7) status = coerce_letter(b, 6, 's');
  if (status) return status;
  const trn_type *type = trn__type(ntz ? TRN_TYPE_TIMESTAMP_NTZ : TRN_TYPE_TIMESTAMP);
  static const char *const KERNELS[2][2] = {{"trn.make_timestamp", "trn.make_timestamp_try"},
                                            {"trn.make_timestamp_ntz", "trn.make_timestamp_ntz_try"}};
  unsigned flags = (ntz || b->count == 7 ? 0u : SPARK_ZONE) | (lenient ? 0u : SPARK_POSITION);
  trn_expr *expr = spark__kernel_with(b, KERNELS[ntz][lenient], type, b->args, b->count, flags);
  if (expr && lenient) expr->nullable = true;
  return spark__gives(b, expr, out);
}

static trn_status build_make_time(spark_builder *b, const trn_expr **out) {
  trn_status status = coerce_seconds(b, 2);
  if (status) return status;
  return spark__gives(b, spark__kernel_with(b, "trn.make_time", time_type(b, 6), b->args, 3, SPARK_POSITION), out);
}

/* ---- zones ---- */
static trn_status build_convert_timezone(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_TIMESTAMP_NTZ);
  bool given = b->count == 3;
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i + 1 < b->count; i++) status = coerce_letter(b, i, 's');
  size_t last = b->count - 1;
  const trn_type *from = b->args[last]->type;
  if (!status && from->id != TRN_TYPE_TIMESTAMP_NTZ) status = coerce_letter(b, last, 't');
  if (!status)
    status = spark__cast(b->t, b->args[last], type, SPARK_CAST_IMPLICIT, b->call->position, &b->args[last], b->error);
  if (status) return status;
  if (!given) b->name = "convert_timezone(current_timezone(), $1, $2)";
  const trn_expr *to[2] = {b->args[last], given ? b->args[0] : spark__zone_literal(b->t)};
  const trn_expr *back[2] = {spark__kernel(b->t, "trn.timestamp_to_utc", type, to, 2), b->args[last - 1]};
  return spark__gives(b, spark__kernel(b->t, "trn.timestamp_from_utc", type, back, 2), out);
}

/* ---- the TIME type ---- */
static trn_status time_at(spark_builder *b, size_t index) {
  const trn_type *type = b->args[index]->type;
  if (type->id == TRN_TYPE_TIME) return TRN_OK;
  if (spark__is_string(type) || type->id == TRN_TYPE_NULL) return spark__coerce(b, index, time_type(b, 6));
  return spark__unexpected_input(b, index, "\"TIME(6)\"", type);
}

static trn_status build_time_from(spark_builder *b, const trn_expr **out) {
  const trn_type *given = b->args[0]->type, *type = trn__type(TRN_TYPE_INT64);
  bool seconds = !strcmp(b->function->run, "trn.time_from_seconds");
  if (seconds && !trn__type_is_integer(given)) type = trn__type_decimal(b->t->arena, 14, 6);
  if (!trn__type_is_numeric(given) && given->id != TRN_TYPE_NULL)
    return spark__unexpected_input(b, 0, seconds ? "\"NUMERIC\"" : "\"INTEGRAL\"", given);
  trn_status status = type ? spark__coerce(b, 0, type) : trn__no_memory(b->error);
  if (status) return status;
  return spark__gives(b, spark__kernel_with(b, b->function->run, time_type(b, 6), b->args, 1, SPARK_POSITION), out);
}

static trn_status build_time_to(spark_builder *b, const trn_expr **out) {
  bool seconds = !strcmp(b->function->run, "trn.time_to_seconds");
  trn_status status = time_at(b, 0);
  if (status) return status;
  const trn_type *type = seconds ? trn__type_decimal(b->t->arena, 14, 6) : trn__type(TRN_TYPE_INT64);
  return spark__gives(b, spark__kernel(b->t, b->function->run, type, b->args, 1), out);
}

static trn_status build_time_units(spark_builder *b, const trn_expr **out) {
  static const char *const UNITS[] = {"HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"};
  const trn_expr *unit = b->args[0];
  bool known = false;
  if (!spark__is_literal(unit) || !spark__is_string(unit->type))
    return spark__not_supported(b, "a unit that is not a literal");
  for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
    known = known || !strcasecmp(UNITS[i], unit->u.literal.value.bytes.data);
  if (!known) return spark__not_supported(b, unit->u.literal.value.bytes.data);
  for (size_t i = 1; i < b->count; i++) {
    trn_status status = time_at(b, i);
    if (status) return status;
  }
  const trn_type *type = b->count == 2 ? b->args[1]->type : trn__type(TRN_TYPE_INT64);
  return spark__gives(b, spark__kernel(b->t, b->function->run, type, b->args, b->count), out);
}

static trn_status build_to_time(spark_builder *b, const trn_expr **out) {
  bool is_try = b->function->flags & SPARK_TRY;
  if (is_try) b->name = b->count == 1 ? "try_to_time(to_time($1))" : "try_to_time(to_time($1, $2))";
  trn_status status = coerce_letter(b, 0, 's');
  if (!status && b->count == 2) status = coerce_letter(b, 1, 's');
  if (status) return status;
  if (b->count == 2) {
    trn_expr *parsed = spark__kernel(b->t, is_try ? "trn.to_time_try" : "trn.to_time", time_type(b, 6), b->args, 2);
    if (parsed && is_try) parsed->nullable = true;
    return spark__gives(b, parsed, out);
  }
  return spark__cast(b->t, b->args[0], time_type(b, 6), is_try ? SPARK_CAST_TRY : SPARK_CAST_IMPLICIT,
                     b->call->position, out, b->error);
}

/* time(x): a cast that leaves its name. */
static trn_status build_time_cast(spark_builder *b, const trn_expr **out) {
  return spark__cast(b->t, b->args[0], time_type(b, 6), SPARK_CAST_IMPLICIT, b->call->position, out, b->error);
}

/* current_time([precision]): the session's time of day. */
static trn_status build_current_time(spark_builder *b, const trn_expr **out) {
  int64_t digits = 6;
  spark_value now, local[2];
  if (b->count) {
    if (!spark__is_literal(b->args[0]) || !trn__type_is_integer(b->args[0]->type))
      return spark__not_supported(b, "a precision that is not a literal");
    digits = b->args[0]->u.literal.value.integer;
    if (digits < 0 || digits > 6) return spark__not_supported(b, "this precision");
  }
  b->name = trn__arena_printf(b->t->arena, "current_time(%d)", (int)digits);
  if (!b->name) return trn__no_memory(b->error);
  trn_status status = spark__call_by_name(b->t, "current_timestamp", NULL, 0, b->call->position, &now, b->error);
  if (status) return status;
  const char *pattern = "HH:mm:ss.SSSSSS";
  local[0] = now;
  local[1] = (spark_value){.expr = trn__expr_string(b->t->arena, pattern, strlen(pattern)), .name = pattern};
  if (!local[1].expr) return trn__no_memory(b->error);
  status = spark__call_by_name(b->t, "date_format", local, 2, b->call->position, &now, b->error);
  if (status) return status;
  return spark__cast(b->t, now.expr, time_type(b, (int)digits), SPARK_CAST_IMPLICIT, b->call->position, out, b->error);
}

static const spark_function rows[] = {
    {"time", "a", NULL, NULL, build_time_cast, "$1", 0, 0},
    {"current_time", "|a", NULL, NULL, build_current_time, NULL, SPARK_NEVER_NULL | SPARK_STABLE, 0},
    {"make_timestamp", "a|aaaaaa", NULL, "d", build_make_timestamp, NULL, 0, 0},
    {"make_timestamp_ltz", "aa|aaaaa", NULL, "l", build_make_timestamp, NULL, 0, 0},
    {"make_timestamp_ntz", "aa|aaaa", NULL, "n", build_make_timestamp, NULL, 0, 0},
    {"try_make_timestamp", "a|aaaaaa", NULL, "d", build_make_timestamp, NULL, SPARK_TRY, 0},
    {"try_make_timestamp_ltz", "aa|aaaaa", NULL, "l", build_make_timestamp, NULL, SPARK_TRY, 0},
    {"try_make_timestamp_ntz", "aa|aaaa", NULL, "n", build_make_timestamp, NULL, SPARK_TRY, 0},
    {"make_time", "iia", NULL, NULL, build_make_time, NULL, SPARK_NULLABLE, 0},
    {"dayname", "D", "s", "trn.dayname", NULL, NULL, 0, 0},
    {"monthname", "D", "s", "trn.monthname", NULL, NULL, 0, 0},
    {"convert_timezone", "aa|a", NULL, NULL, build_convert_timezone, NULL, 0, 0},
    {"time_from_seconds", "a", NULL, "trn.time_from_seconds", build_time_from, NULL, SPARK_NULLABLE, 0},
    {"time_from_millis", "a", NULL, "trn.time_from_millis", build_time_from, NULL, SPARK_NULLABLE, 0},
    {"time_from_micros", "a", NULL, "trn.time_from_micros", build_time_from, NULL, SPARK_NULLABLE, 0},
    {"time_to_seconds", "a", NULL, "trn.time_to_seconds", build_time_to, NULL, SPARK_NULLABLE, 0},
    {"time_to_millis", "a", NULL, "trn.time_to_millis", build_time_to, NULL, SPARK_NULLABLE, 0},
    {"time_to_micros", "a", NULL, "trn.time_to_micros", build_time_to, NULL, SPARK_NULLABLE, 0},
    {"time_diff", "aaa", NULL, "trn.time_units", build_time_units, NULL, SPARK_NULLABLE, 0},
    {"time_trunc", "aa", NULL, "trn.time_trunc", build_time_units, NULL, SPARK_NULLABLE, 0},
    {"to_time", "a|a", NULL, NULL, build_to_time, NULL, SPARK_NULLABLE, 0},
    {"try_to_time", "a|a", NULL, NULL, build_to_time, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
};
const spark_function_table spark__functions_time = {rows, sizeof rows / sizeof rows[0]};
