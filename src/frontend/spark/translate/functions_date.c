/* Dates, timestamps: fields, arithmetic, formats, now. */
#include "frontend/spark/translate/operators.h"
#include <strings.h>

/* ---- fields ---- */
typedef struct field {
  const char *names; /* "|"-separated, lower case, as extract knows them */
  const char *kernel_field;
} field;
static const field fields[] = {
    {"year|y|years|yr|yrs", "YEAR"},
    {"quarter|qtr", "QUARTER"},
    {"month|mon|mons|months", "MONTH"},
    {"week|w|weeks", "WEEK"},
    {"day|d|days", "DAY"},
    {"dayofweek|dow", "DAYOFWEEK"},
    {"dayofweek_iso|dow_iso", "DAYOFWEEK_ISO"},
    {"doy", "DOY"},
    {"yearofweek", "YEAROFWEEK"},
    {"hour|h|hours|hr|hrs", "HOUR"},
    {"minute|m|min|mins|minutes", "MINUTE"},
    {"second|s|sec|seconds|secs", "SECOND"},
};

static const char *find_field(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    for (const char *p = fields[i].names; *p;) {
      size_t length = strcspn(p, "|");
      if (length == size && !strncasecmp(p, name, size)) return fields[i].kernel_field;
      p += length + (p[length] == '|');
    }
  return NULL;
}

static bool is_clock(const char *name) {
  return name[0] == 'H' || !strcmp(name, "MINUTE") || name[0] == 'S';
}

/* A literal's field needs no kernel: plans stay readable and foldable. */
static const trn_expr *literal_field(spark_translator *t, const trn_expr *date, const char *name) {
  if (!spark__is_literal(date) || date->type->id != TRN_TYPE_DATE) return NULL;
  int64_t year, value;
  unsigned month, day;
  spark__civil_from_days(date->u.literal.value.integer, &year, &month, &day);
  if (!strcmp(name, "YEAR"))
    value = year;
  else if (!strcmp(name, "MONTH"))
    value = month;
  else if (!strcmp(name, "DAY"))
    value = day;
  else
    return NULL;
  trn_expr *expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), value);
  if (expr) expr->nullable = date->nullable;
  return expr;
}

/* The int field of a date (args[0] is cast as needed). */
static trn_status date_field(spark_builder *b, const char *name, const trn_expr **out) {
  trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_DATE));
  if (status) return status;
  const trn_expr *folded = literal_field(b->t, b->args[0], name);
  if (folded) {
    *out = folded;
    return TRN_OK;
  }
  const trn_expr *args[2] = {b->args[0], trn__expr_string(b->t->arena, name, strlen(name))};
  return spark__gives(b, spark__kernel(b->t, "trn.extract_date", trn__type(TRN_TYPE_INT32), args, 2), out);
}

static trn_status clock_field(spark_builder *b, const char *name, bool fraction, const trn_expr **out) {
  const trn_type *type = b->args[0]->type, *to = spark__is_timestamp(type) ? type : trn__type(TRN_TYPE_TIMESTAMP);
  if (type->id == TRN_TYPE_TIME) {
    if (fraction && name[0] == 'S') {
      const trn_expr *since[2] = {b->args[0], trn__expr_int(b->t->arena, type, 0)};
      const trn_expr *clock = spark__kernel(b->t, "trn.time_diff", trn__type(TRN_TYPE_INTERVAL_DAY_TIME), since, 2);
      trn_expr *part = spark__kernel(b->t, "trn.interval_second", trn__type_decimal(b->t->arena, 8, 6), &clock, 1);
      if (part) part->nullable = true;
      return spark__gives(b, part, out);
    }
    const trn_expr *parts[2] = {b->args[0], trn__expr_string(b->t->arena, name, strlen(name))};
    trn_expr *part = spark__kernel(b->t, "trn.extract_time", trn__type(TRN_TYPE_INT32), parts, 2);
    if (part) part->nullable = true; /* hour(TIME ..) is shown as nullable */
    return spark__gives(b, part, out);
  }
  trn_status status = spark__coerce(b, 0, to);
  if (status) return status;
  const trn_expr *args[2] = {b->args[0], trn__expr_string(b->t->arena, name, strlen(name))};
  if (name[0] == 'S')
    return spark__gives(b,
                        spark__kernel_with(b, fraction ? "trn.extract_second" : "trn.second",
                                           fraction ? trn__type_decimal(b->t->arena, 8, 6) : trn__type(TRN_TYPE_INT32),
                                           args, 1, SPARK_ZONE),
                        out);
  return spark__gives(b, spark__kernel_with(b, "trn.extract_timestamp", trn__type(TRN_TYPE_INT32), args, 2, SPARK_ZONE),
                      out);
}

static trn_status any_field(spark_builder *b, const char *name, bool fraction, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  bool fits = type->id == TRN_TYPE_DATE || spark__is_timestamp(type) || spark__is_string(type) ||
              type->id == TRN_TYPE_NULL || (is_clock(name) && type->id == TRN_TYPE_TIME);
  if (!fits) return spark__unexpected_input(b, 0, is_clock(name) ? "\"TIMESTAMP\"" : "\"DATE\"", type);
  return is_clock(name) ? clock_field(b, name, fraction, out) : date_field(b, name, out);
}

static trn_status build_field(spark_builder *b, const trn_expr **out) {
  return any_field(b, b->function->run, false, out);
}

/* weekday: Monday is 0. */
static trn_status build_weekday(spark_builder *b, const trn_expr **out) {
  const trn_expr *day = NULL;
  trn_status status = any_field(b, "DAYOFWEEK_ISO", false, &day);
  if (status) return status;
  const trn_expr *args[2] = {day, trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), 1)};
  return spark__gives(b, spark__kernel(b->t, "trn.subtract_wrap", trn__type(TRN_TYPE_INT32), args, 2), out);
}

static trn_status interval_field(spark_builder *b, const char *name, const trn_expr **out) {
  static const struct {
    const char *name, *kernel;
    uint8_t id;
    bool months;
  } parts[] = {{"YEAR", "trn.interval_year", TRN_TYPE_INT32, true},
               {"MONTH", "trn.interval_month", TRN_TYPE_INT8, true},
               {"DAY", "trn.interval_day", TRN_TYPE_INT32, false},
               {"HOUR", "trn.interval_hour", TRN_TYPE_INT8, false},
               {"MINUTE", "trn.interval_minute", TRN_TYPE_INT8, false},
               {"SECOND", "trn.interval_second", TRN_TYPE_DECIMAL, false}};
  bool months = b->args[0]->type->id == TRN_TYPE_INTERVAL_YEAR_MONTH;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (strcmp(parts[i].name, name) != 0 || parts[i].months != months) continue;
    const trn_type *type =
        parts[i].id == TRN_TYPE_DECIMAL ? trn__type_decimal(b->t->arena, 8, 6) : trn__type(parts[i].id);
    return spark__gives(b, spark__kernel(b->t, parts[i].kernel, type, b->args, 1), out);
  }
  return spark__not_supported(b, "this field of an interval");
}

/* extract(field FROM x), date_part('field', x). */
static trn_status build_extract(spark_builder *b, const trn_expr **out) {
  const trn_expr *wanted = b->args[0];
  bool extract = b->function->run[0] == 'e';
  if (!spark__is_literal(wanted) || !spark__is_string(wanted->type)) {
    const char *sql = trn__arena_printf(b->t->arena, "\"%s\"", b->call->args[0].name);
    if (!sql) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", "inputName", "`field`", "inputType", "\"STRING\"",
                           "inputExpr", sql, (char *)NULL);
  }
  const char *text = wanted->u.literal.value.bytes.data;
  const char *name = find_field(text, wanted->u.literal.value.bytes.size);
  if (extract) b->name = "extract($1 FROM $2)";
  if (!name) {
    const char *shown = trn__arena_printf(b->t->arena, "`%s`", text),
               *type = spark__quoted_type(b->t, b->args[1]->type);
    if (!shown || !type) return trn__no_memory(b->error);
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_EXTRACT_FIELD", b->call->position, "field",
                        shown, "expr", b->call->args[1].name, (char *)NULL);
  }
  b->args[0] = b->args[1];
  b->count = 1;
  if (spark__is_interval(b->args[0]->type)) return interval_field(b, name, out);
  return any_field(b, name, true, out);
}

/* ---- days ---- */
static trn_status build_date_add(spark_builder *b, const trn_expr **out) {
  bool back = b->function->run[0] == '-';
  trn_status status = TRN_OK;
  const trn_type *date = spark__implicit_type(b->t, b->args[0]->type, 'D'), *days = b->args[1]->type;
  if (!date) return spark__unexpected_input(b, 0, "\"DATE\"", b->args[0]->type);
  bool small = days->id == TRN_TYPE_INT8 || days->id == TRN_TYPE_INT16 || days->id == TRN_TYPE_INT32;
  if (!small && days->id != TRN_TYPE_NULL && !spark__is_string(days))
    return spark__unexpected_input(b, 1, "(\"INT\" or \"SMALLINT\" or \"TINYINT\")", days);
  if ((status = spark__coerce(b, 0, date))) return status;
  if ((status = spark__coerce(b, 1, trn__type(TRN_TYPE_INT32)))) return status;
  return spark__gives(b, spark__kernel(b->t, back ? "trn.date_sub" : "trn.date_add", date, b->args, 2), out);
}

static trn_status build_date_diff(spark_builder *b, const trn_expr **out) {
  if (b->count == 3) return spark__not_supported(b, "units");
  for (size_t i = 0; i < 2; i++) {
    const trn_type *type = spark__implicit_type(b->t, b->args[i]->type, 'D');
    if (!type) return spark__unexpected_input(b, i, "\"DATE\"", b->args[i]->type);
    trn_status status = spark__coerce(b, i, type);
    if (status) return status;
  }
  return spark__gives(b, spark__kernel(b->t, "trn.date_diff", trn__type(TRN_TYPE_INT32), b->args, 2), out);
}

/* ---- from and to text ---- */
static trn_status build_to_date(spark_builder *b, const trn_expr **out) {
  bool is_try = b->function->flags & SPARK_TRY;
  if (b->count == 1)
    return spark__cast(b->t, b->args[0], trn__type(TRN_TYPE_DATE), is_try ? SPARK_CAST_TRY : SPARK_CAST_IMPLICIT,
                       b->call->position, out, b->error);
  for (size_t i = 0; i < 2; i++) {
    trn_status status = spark__coerce(b, i, trn__type(TRN_TYPE_STRING));
    if (status) return status;
  }
  bool lenient = is_try || !b->t->ansi;
  trn_expr *expr = spark__kernel_with(b, lenient ? "trn.to_date_try" : "trn.to_date", trn__type(TRN_TYPE_DATE), b->args,
                                      2, lenient ? 0 : SPARK_POSITION);
  if (expr && lenient) expr->nullable = true;
  return spark__gives(b, expr, out);
}

static trn_status build_to_timestamp(spark_builder *b, const trn_expr **out) {
  bool is_try = b->function->flags & SPARK_TRY;
  bool ntz = b->function->run[0] == 'n';
  const trn_type *type = trn__type(ntz ? TRN_TYPE_TIMESTAMP_NTZ : TRN_TYPE_TIMESTAMP);
  if (b->count == 1 || !spark__is_string(b->args[0]->type))
    return spark__cast(b->t, b->args[0], type, is_try ? SPARK_CAST_TRY : SPARK_CAST_IMPLICIT, b->call->position, out,
                       b->error);
  trn_status status = spark__coerce(b, 1, trn__type(TRN_TYPE_STRING));
  if (status) return status;
  bool lenient = is_try || !b->t->ansi;
  static const char *const kernels[2][2] = {{"trn.to_timestamp", "trn.to_timestamp_try"},
                                            {"trn.to_timestamp_ntz", "trn.to_timestamp_ntz_try"}};
  trn_expr *expr = spark__kernel_with(b, kernels[ntz][lenient], type, b->args, 2,
                                      (ntz ? 0u : SPARK_ZONE) | (lenient ? 0u : SPARK_POSITION));
  if (expr && lenient) expr->nullable = true;
  return spark__gives(b, expr, out);
}

static trn_status build_from_unixtime(spark_builder *b, const trn_expr **out) {
  const char *usual = "yyyy-MM-dd HH:mm:ss";
  const trn_expr *args[2] = {b->args[0],
                             b->count == 2 ? b->args[1] : trn__expr_string(b->t->arena, usual, strlen(usual))};
  if (b->count == 1) b->name = "from_unixtime($1, yyyy-MM-dd HH:mm:ss)";
  return spark__gives(b, spark__kernel_with(b, "trn.from_unixtime", trn__type(TRN_TYPE_STRING), args, 2, SPARK_ZONE),
                      out);
}

static trn_status build_unix_timestamp(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_INT64);
  const char *usual = "yyyy-MM-dd HH:mm:ss";
  const trn_expr *at = b->count ? b->args[0] : trn__expr_int(b->t->arena, trn__type(TRN_TYPE_TIMESTAMP), b->t->now_us);
  bool to_unix = b->function->run[0] == 't';
  if (!at) return trn__no_memory(b->error);
  b->name = b->count == 0   ? "unix_timestamp(current_timestamp(), yyyy-MM-dd HH:mm:ss)"
            : b->count == 2 ? NULL
            : to_unix       ? "to_unix_timestamp($1, yyyy-MM-dd HH:mm:ss)"
                            : "unix_timestamp($1, yyyy-MM-dd HH:mm:ss)";
  if (spark__is_string(at->type)) {
    const trn_expr *args[2] = {at, b->count == 2 ? b->args[1] : trn__expr_string(b->t->arena, usual, strlen(usual))};
    trn_expr *parsed =
        spark__kernel_with(b, b->t->ansi ? "trn.to_timestamp" : "trn.to_timestamp_try", trn__type(TRN_TYPE_TIMESTAMP),
                           args, 2, SPARK_ZONE | (b->t->ansi ? SPARK_POSITION : 0));
    if (parsed && !b->t->ansi) parsed->nullable = true;
    at = parsed;
  } else if (at->type->id == TRN_TYPE_DATE || at->type->id == TRN_TYPE_NULL) {
    trn_status status =
        spark__cast(b->t, at, trn__type(TRN_TYPE_TIMESTAMP), SPARK_CAST_IMPLICIT, b->call->position, &at, b->error);
    if (status) return status;
  } else if (at->type->id != TRN_TYPE_TIMESTAMP) {
    return spark__unexpected_input(b, 0, "(\"STRING\" or \"DATE\" or \"TIMESTAMP\" or \"TIMESTAMP WITHOUT TIME ZONE\")",
                                   at->type);
  }
  return spark__gives(b, at ? spark__kernel(b->t, "trn.unix_timestamp", type, &at, 1) : NULL, out);
}

static trn_status build_months_between(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[3] = {b->args[0], b->args[1], b->count == 3 ? b->args[2] : trn__expr_bool(b->t->arena, true)};
  if (b->count == 2) b->name = "months_between($1, $2, true)";
  return spark__gives(b, spark__kernel_with(b, "trn.months_between", trn__type(TRN_TYPE_FLOAT64), args, 3, SPARK_ZONE),
                      out);
}

/* ---- now ---- */
static trn_status build_now(spark_builder *b, const trn_expr **out) {
  return spark__gives(b, trn__expr_int(b->t->arena, trn__type(TRN_TYPE_TIMESTAMP), b->t->now_us), out);
}
static trn_status local_now(spark_builder *b, trn_type_id id, const trn_expr **out) {
  const trn_expr *now = NULL;
  trn_status status = build_now(b, &now);
  return status ? status : spark__cast(b->t, now, trn__type(id), SPARK_CAST_IMPLICIT, b->call->position, out, b->error);
}
static trn_status build_today(spark_builder *b, const trn_expr **out) {
  return local_now(b, TRN_TYPE_DATE, out);
}
static trn_status build_local_now(spark_builder *b, const trn_expr **out) {
  return local_now(b, TRN_TYPE_TIMESTAMP_NTZ, out);
}
static trn_status build_zone(spark_builder *b, const trn_expr **out) {
  return spark__gives(b, spark__zone_literal(b->t), out);
}

/* Timestamps and numbers of them: units of the epoch. */
static trn_status build_unix_date(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type(b->function->run[0] == '>' ? TRN_TYPE_DATE : TRN_TYPE_INT32);
  if (spark__is_literal(b->args[0])) {
    trn_expr *folded = trn__expr_int(b->t->arena, type, b->args[0]->u.literal.value.integer);
    if (folded) folded->nullable = b->args[0]->nullable;
    return spark__gives(b, folded, out);
  }
  return spark__gives(b, trn__expr_cast(b->t->arena, b->args[0], type, false), out); /* the same 32 bits in Arrow */
}

static const spark_function rows[] = {
    {"year", "a", NULL, "YEAR", build_field, NULL, 0, 0},
    {"quarter", "a", NULL, "QUARTER", build_field, NULL, 0, 0},
    {"month", "a", NULL, "MONTH", build_field, NULL, 0, 0},
    {"weekofyear", "a", NULL, "WEEK", build_field, NULL, 0, 0},
    {"day", "a", NULL, "DAY", build_field, NULL, 0, 0},
    {"dayofmonth", "a", NULL, "DAY", build_field, NULL, 0, 0},
    {"dayofweek", "a", NULL, "DAYOFWEEK", build_field, NULL, 0, 0},
    {"dayofyear", "a", NULL, "DOY", build_field, NULL, 0, 0},
    {"weekday", "a", NULL, NULL, build_weekday, NULL, 0, 0},
    {"hour", "a", NULL, "HOUR", build_field, NULL, 0, 0},
    {"minute", "a", NULL, "MINUTE", build_field, NULL, 0, 0},
    {"second", "a", NULL, "SECOND", build_field, NULL, 0, 0},
    {"extract", "aa", NULL, "extract", build_extract, NULL, 0, 0},
    {"date_part", "aa", NULL, "date_part", build_extract, NULL, 0, 0},
    {"datepart", "aa", NULL, "date_part", build_extract, "datepart($1 FROM $2)", 0, 0},
    {"date_add", "aa", NULL, "+", build_date_add, NULL, 0, 0},
    {"dateadd", "aa", NULL, "+", build_date_add, "=date_add", 0, 0},
    {"date_sub", "aa", NULL, "-", build_date_add, NULL, 0, 0},
    {"datediff", "aa|a", NULL, NULL, build_date_diff, NULL, 0, 0},
    {"date_diff", "aa|a", NULL, NULL, build_date_diff, NULL, 0, 0},
    {"add_months", "Di", "D", "trn.add_months", NULL, NULL, 0, 0},
    {"last_day", "D", "D", "trn.last_day", NULL, NULL, 0, 0},
    {"next_day", "Ds", "D", "trn.next_day", NULL, NULL, SPARK_POSITION | SPARK_NULLABLE | SPARK_LEGACY_NULL, 0},
    {"make_date", "iii", "D", "trn.make_date", NULL, NULL, SPARK_POSITION | SPARK_LEGACY_NULL, 0},
    {"trunc", "Ds", "D", "trn.trunc", NULL, NULL, SPARK_NULLABLE, 0},
    {"date_trunc", "st", "t", "trn.date_trunc", NULL, NULL, SPARK_ZONE | SPARK_NULLABLE, 0},
    {"months_between", "tt|B", NULL, NULL, build_months_between, NULL, 0, 0},
    {"to_date", "a|a", NULL, NULL, build_to_date, NULL, 0, 0},
    {"try_to_date", "a|a", NULL, NULL, build_to_date, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
    {"to_timestamp", "a|a", NULL, "l", build_to_timestamp, NULL, 0, 0},
    {"to_timestamp_ltz", "a|a", NULL, "l", build_to_timestamp, NULL, 0, 0},
    {"to_timestamp_ntz", "a|a", NULL, "n", build_to_timestamp, NULL, 0, 0},
    {"try_to_timestamp", "a|a", NULL, "l", build_to_timestamp, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
    {"date_format", "ts", "s", "trn.date_format", NULL, NULL, SPARK_ZONE, 0},
    {"from_unixtime", "l|s", NULL, NULL, build_from_unixtime, NULL, SPARK_NULLABLE, 0},
    {"unix_timestamp", "|aa", NULL, "u", build_unix_timestamp, NULL, 0, 0},
    {"to_unix_timestamp", "a|a", NULL, "t", build_unix_timestamp, NULL, 0, 0},
    {"to_utc_timestamp", "ts", "t", "trn.timestamp_to_utc", NULL, NULL, 0, 0},
    {"from_utc_timestamp", "ts", "t", "trn.timestamp_from_utc", NULL, NULL, 0, 0},
    {"unix_date", "D", NULL, "<", build_unix_date, NULL, 0, 0},
    {"date_from_unix_date", "i", NULL, ">", build_unix_date, NULL, 0, 0},
    {"current_timestamp", "", NULL, NULL, build_now, NULL, SPARK_NEVER_NULL, 0},
    {"now", "", NULL, NULL, build_now, NULL, SPARK_NEVER_NULL, 0},
    {"current_date", "", NULL, NULL, build_today, NULL, SPARK_NEVER_NULL, 0},
    {"curdate", "", NULL, NULL, build_today, "current_date()", SPARK_NEVER_NULL, 0},
    {"localtimestamp", "", NULL, NULL, build_local_now, NULL, SPARK_NEVER_NULL, 0},
    {"current_timezone", "", NULL, NULL, build_zone, NULL, SPARK_NEVER_NULL, 0},
};
const spark_function_table spark__functions_date = {rows, sizeof rows / sizeof rows[0]};
