/* Functions that are made of others: casts by their type's name, decode, timestampadd, epoch units, who and where. */
#include <trunnion/catalog.h>

#include "frontend/spark/translate/operators.h"
#include <strings.h>

/* ---- int('1'), date('2020-01-01'): a cast that leaves no trace in the name ---- */
static const struct {
  const char *name;
  uint8_t id;
} cast_names[] = {{"boolean", TRN_TYPE_BOOL},   {"tinyint", TRN_TYPE_INT8},    {"smallint", TRN_TYPE_INT16},
                  {"int", TRN_TYPE_INT32},      {"bigint", TRN_TYPE_INT64},    {"float", TRN_TYPE_FLOAT32},
                  {"double", TRN_TYPE_FLOAT64}, {"decimal", TRN_TYPE_DECIMAL}, {"string", TRN_TYPE_STRING},
                  {"binary", TRN_TYPE_BINARY},  {"date", TRN_TYPE_DATE},       {"timestamp", TRN_TYPE_TIMESTAMP}};

static trn_status build_cast(spark_builder *b, const trn_expr **out) {
  spark_value cast;
  for (size_t i = 0; i < sizeof cast_names / sizeof cast_names[0]; i++) {
    if (strcmp(cast_names[i].name, b->function->name) != 0) continue;
    trn_status status = spark__cast_value(b->t, &b->call->args[0], trn__type(cast_names[i].id), false,
                                          b->call->position, &cast, b->error);
    *out = status ? NULL : cast.expr;
    return status;
  }
  return trn_error_set(b->error, TRN_INTERNAL, NULL, "The cast function %s has no type", b->function->name);
}

/* decode(x, search1, result1, ..., [default]): a CASE in which nulls are equal. */
static trn_status build_decode(spark_builder *b, const trn_expr **out) {
  if (b->count == 2) {
    const trn_type *bytes = spark__implicit_type(b->t, b->args[0]->type, 'b');
    if (!bytes) return spark__unexpected_input(b, 0, "\"BINARY\"", b->args[0]->type);
    trn_status bad = spark__coerce(b, 0, bytes);
    if (!bad) bad = spark__coerce(b, 1, trn__type(TRN_TYPE_STRING));
    if (bad) return bad;
    trn_expr *text = spark__kernel_with(b, "trn.decode", trn__type(TRN_TYPE_STRING), b->args, 2, SPARK_POSITION);
    if (text) text->nullable = true;
    return spark__gives(b, text, out);
  }
  size_t pairs = (b->count - 1) / 2, results = 0, at = 0;
  bool otherwise = b->count % 2 == 0;
  const trn_expr **values = TRN_NEW_N(b->t->arena, const trn_expr *, pairs + 1),
                 **branches = TRN_NEW_N(b->t->arena, const trn_expr *, b->count);
  const trn_type *type = NULL;
  if (!values || !branches) return trn__no_memory(b->error);
  for (size_t i = 0; i < pairs; i++) values[results++] = b->args[2 + 2 * i];
  if (otherwise) values[results++] = b->args[b->count - 1];
  spark_builder inner = *b;
  inner.args = values;
  inner.count = results;
  trn_status status = spark__coerce_common(&inner, 0, 1, &type);
  for (size_t i = 0; !status && i < pairs; i++) {
    const trn_expr *sides[2] = {b->args[0], b->args[1 + 2 * i]};
    spark_value pair[2] = {b->call->args[0], b->call->args[1 + 2 * i]};
    spark_call call = {.name = "<=>", .args = pair, .arg_count = 2, .position = b->call->position};
    spark_builder equality = *b;
    equality.call = &call;
    equality.function = spark__function_find("<=>", 3);
    equality.args = sides;
    equality.count = 2;
    if ((status = spark__coerce_comparison(&equality))) return status;
    branches[at++] = spark__compare(b->t, "is_not_distinct_from", sides[0], sides[1]);
    branches[at++] = values[i];
  }
  if (status) return status;
  if (otherwise) branches[at++] = values[results - 1];
  return spark__gives(b, spark__case(b->t, branches, at, type), out);
}

/* ---- timestampadd(unit, count, timestamp) ---- */
static const struct {
  const char *name;
  int64_t size; /* months when negative, else microseconds */
} units[] = {{"YEAR", -12},
             {"QUARTER", -3},
             {"MONTH", -1},
             {"WEEK", INT64_C(604800000000)},
             {"DAY", INT64_C(86400000000)},
             {"DAYOFYEAR", INT64_C(86400000000)},
             {"HOUR", INT64_C(3600000000)},
             {"MINUTE", 60000000},
             {"SECOND", 1000000},
             {"MILLISECOND", 1000},
             {"MICROSECOND", 1}};

static trn_status build_timestamp_add(spark_builder *b, const trn_expr **out) {
  const trn_expr *unit = b->args[0], *moved[2];
  int64_t size = 0;
  if (!spark__is_literal(unit) || !spark__is_string(unit->type))
    return spark__not_supported(b, "a unit that is not a word");
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (!strcasecmp(units[i].name, unit->u.literal.value.bytes.data)) size = units[i].size;
  if (!size) return spark__not_supported(b, unit->u.literal.value.bytes.data);
  const trn_type *count = spark__implicit_type(b->t, b->args[1]->type, 'l');
  if (!count) return spark__unexpected_input(b, 1, "\"BIGINT\"", b->args[1]->type);
  trn_status status = spark__coerce(b, 1, count);
  bool local = b->args[2]->type->id == TRN_TYPE_TIMESTAMP_NTZ;
  const trn_type *at = spark__implicit_type(b->t, b->args[2]->type, local ? 'T' : 't');
  if (!at) return spark__unexpected_input(b, 2, spark__letter_text('T'), b->args[2]->type);
  if (!status) status = spark__coerce(b, 2, at);
  if (status) return status;
  const trn_type *type = trn__type(size < 0 ? TRN_TYPE_INTERVAL_YEAR_MONTH : TRN_TYPE_INTERVAL_DAY_TIME);
  const trn_expr *step[2] = {trn__expr_int(b->t->arena, type, size < 0 ? -size : size), b->args[1]};
  moved[0] = b->args[2];
  moved[1] = spark__kernel_with(b, "trn.multiply_interval", type, step, 2, SPARK_POSITION);
  if (!moved[1]) return trn__no_memory(b->error);
  bool zone = at->id == TRN_TYPE_TIMESTAMP && !spark__zone_is_utc(b->t->timezone);
  trn_expr *expr = size < 0 ? spark__kernel_with(b, "trn.timestamp_add_ym", at, moved, 2, SPARK_ZONE)
                            : spark__kernel_with(b, "trn.timestamp_add_dt", at, moved, 2, zone ? SPARK_ZONE : 0);
  return spark__gives(b, expr, out);
}

static trn_status build_timestamp_diff(spark_builder *b, const trn_expr **out) {
  const trn_expr *unit = b->args[0];
  bool known = false;
  if (!spark__is_literal(unit) || !spark__is_string(unit->type))
    return spark__not_supported(b, "a unit that is not a word");
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    known = known || !strcasecmp(units[i].name, unit->u.literal.value.bytes.data);
  if (!known) return spark__not_supported(b, unit->u.literal.value.bytes.data);
  for (size_t i = 1; i < 3; i++) {
    const trn_type *given = b->args[i]->type;
    const trn_type *at = spark__implicit_type(b->t, given, given->id == TRN_TYPE_TIMESTAMP_NTZ ? 'T' : 't');
    if (!at) return spark__unexpected_input(b, i, spark__letter_text('T'), given);
    trn_status status = spark__coerce(b, i, at);
    if (status) return status;
  }
  bool zone = b->args[1]->type->id == TRN_TYPE_TIMESTAMP && !spark__zone_is_utc(b->t->timezone);
  if (zone && b->args[2]->type->id != TRN_TYPE_TIMESTAMP) {
    trn_status status = spark__coerce(b, 2, b->args[1]->type);
    if (status) return status;
  }
  return spark__gives(
      b, spark__kernel_with(b, "trn.timestamp_units", trn__type(TRN_TYPE_INT64), b->args, 3, zone ? SPARK_ZONE : 0),
      out);
}

/* ---- units of the epoch ---- */
/* timestamp_seconds, _millis, _micros of integers: the same 64 bits once they count microseconds. */
static trn_status build_from_epoch(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type, *wide = trn__type(TRN_TYPE_INT64);
  int64_t scale = b->function->run[0] == 's' ? 1000000 : b->function->run[0] == 'm' ? 1000 : 1;
  if (scale == 1000000 && type->id == TRN_TYPE_DECIMAL && type->scale <= 6)
    return spark__cast(b->t, b->args[0], trn__type(TRN_TYPE_TIMESTAMP), SPARK_CAST_ANSI, b->call->position, out,
                       b->error);
  if (scale == 1000000 && trn__type_is_numeric(type) && !trn__type_is_integer(type))
    return spark__not_supported(b, "fractions");
  if (!trn__type_is_integer(type) && type->id != TRN_TYPE_NULL)
    return spark__unexpected_input(b, 0, scale == 1000000 ? "\"NUMERIC\"" : "\"INTEGRAL\"", type);
  trn_status status = spark__coerce(b, 0, wide);
  if (status) return status;
  const trn_expr *count = b->args[0], *args[2] = {count, trn__expr_int(b->t->arena, wide, scale)};
  if (scale > 1) count = spark__kernel_with(b, "trn.multiply", wide, args, 2, SPARK_POSITION);
  return spark__gives(b, count ? trn__expr_cast(b->t->arena, count, trn__type(TRN_TYPE_TIMESTAMP), false) : NULL, out);
}

static trn_status build_to_epoch(spark_builder *b, const trn_expr **out) {
  const trn_type *wide = trn__type(TRN_TYPE_INT64);
  char unit = b->function->run[0];
  const char *kernel = unit == 's' ? "trn.unix_seconds" : unit == 'm' ? "trn.unix_millis" : "trn.unix_micros";
  return spark__gives(b, spark__kernel(b->t, kernel, wide, b->args, 1), out);
}

/* ---- intervals from parts ---- */
static trn_status build_make_interval(spark_builder *b, const trn_expr **out) {
  bool months = b->function->run[0] == 'y';
  size_t most = months ? 2 : 4;
  const trn_type *seconds = trn__type_decimal(b->t->arena, 18, 6);
  if (!seconds) return trn__no_memory(b->error);
  const trn_expr *args[4];
  for (size_t i = 0; i < most; i++) {
    const trn_type *type = i == 3 ? seconds : trn__type(TRN_TYPE_INT32);
    if (i >= b->count) {
      args[i] = i == 3 ? spark__decimal_literal(b->t, 0, seconds) : trn__expr_int(b->t->arena, type, 0);
      continue;
    }
    trn_status status = spark__coerce(b, i, type);
    if (status) return status;
    args[i] = b->args[i];
  }
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "%s(", b->function->name);
  for (size_t i = 0; i < most; i++) {
    trn__strbuf_puts(&text, i ? ", " : "");
    if (i < b->count && i < 3) {
      trn__strbuf_puts(&text, b->call->args[i].name);
    } else if (i < b->count) { /* seconds show with their six digits when they are a literal */
      bool shown = spark__is_literal(args[i]) && b->call->args[i].is_literal;
      const char *name = shown ? spark__literal_name(b->t, args[i]) : b->call->args[i].name;
      trn__strbuf_puts(&text, name ? name : "");
    } else {
      trn__strbuf_puts(&text, i == 3 ? "0.000000" : "0");
    }
  }
  trn__strbuf_putc(&text, ')');
  if (!(b->text = spark__finish_text(b->t, &text))) return trn__no_memory(b->error);
  const trn_type *type = trn__type(months ? TRN_TYPE_INTERVAL_YEAR_MONTH : TRN_TYPE_INTERVAL_DAY_TIME);
  return spark__gives(
      b,
      spark__kernel_with(b, months ? "trn.make_ym_interval" : "trn.make_dt_interval", type, args, most, SPARK_POSITION),
      out);
}

/* make_interval(years, months, weeks, days, hours, minutes, seconds), all optional. */
static trn_status build_calendar_interval(spark_builder *b, const trn_expr **out) {
  const trn_type *seconds = trn__type_decimal(b->t->arena, 18, 6), *whole = trn__type(TRN_TYPE_INT32);
  const trn_expr *args[7];
  trn_strbuf text = {0};
  if (!seconds) return trn__no_memory(b->error);
  for (size_t i = 0; i < 7; i++) {
    args[i] = i == 6 ? spark__decimal_literal(b->t, 0, seconds) : trn__expr_int(b->t->arena, whole, 0);
    if (i >= b->count) continue;
    trn_status status = spark__coerce(b, i, i == 6 ? seconds : whole);
    if (status) return status;
    args[i] = b->args[i];
  }
  trn__strbuf_printf(&text, "%s(", b->function->name);
  for (size_t i = 0; i < 7; i++)
    trn__strbuf_printf(&text, "%s%s", i ? ", " : "", i < b->count ? b->call->args[i].name : i == 6 ? "0.000000" : "0");
  trn__strbuf_putc(&text, ')');
  if (!(b->text = spark__finish_text(b->t, &text))) return trn__no_memory(b->error);
  bool tries = b->function->flags & SPARK_TRY || !b->t->ansi;
  trn_expr *expr = spark__kernel(b->t, tries ? "trn.make_interval_try" : "trn.make_interval",
                                 trn__type(TRN_TYPE_INTERVAL_CALENDAR), args, 7);
  if (expr && tries) expr->nullable = true;
  return spark__gives(b, expr, out);
}

/* ---- who, where, chance ---- */
static trn_status build_text(spark_builder *b, const trn_expr **out) {
  const char *text = b->function->run;
  if (!strcmp(text, "user")) {
    const char *user = b->t->session ? trn_session_user(b->t->session) : NULL;
    text = user ? user : "";
  }
  if (!strcmp(text, "default") && b->t->session) {
    char *catalog = NULL, *database = NULL;
    if (trn_session_namespace(b->t->session, &catalog, &database, b->error)) return TRN_RESOURCE_EXHAUSTED;
    text = trn__arena_strdup(b->t->arena, database);
    trn_free(catalog), trn_free(database);
    if (!text) return trn__no_memory(b->error);
  }
  return spark__gives(b, trn__expr_string(b->t->arena, text, strlen(text)), out);
}

#define CAST_ROW(name)                                                                                                 \
  { name, "a", NULL, NULL, build_cast, "$1", 0, 0 }
static const spark_function rows[] = {
    CAST_ROW("boolean"),
    CAST_ROW("tinyint"),
    CAST_ROW("smallint"),
    CAST_ROW("int"),
    CAST_ROW("bigint"),
    CAST_ROW("float"),
    CAST_ROW("double"),
    CAST_ROW("decimal"),
    CAST_ROW("string"),
    CAST_ROW("binary"),
    CAST_ROW("date"),
    CAST_ROW("timestamp"),
    {"decode", "aa|a+", NULL, NULL, build_decode, NULL, 0, 0},
    {"timestampadd", "aaa", NULL, NULL, build_timestamp_add, NULL, SPARK_NO_NAMES, 0},
    {"timestampdiff", "aaa", NULL, NULL, build_timestamp_diff, NULL, SPARK_NO_NAMES, 0},
    {"timestamp_seconds", "a", NULL, "s", build_from_epoch, NULL, 0, 0},
    {"timestamp_millis", "a", NULL, "m", build_from_epoch, NULL, 0, 0},
    {"timestamp_micros", "a", NULL, "u", build_from_epoch, NULL, 0, 0},
    {"unix_seconds", "t", NULL, "s", build_to_epoch, NULL, 0, 0},
    {"unix_millis", "t", NULL, "m", build_to_epoch, NULL, 0, 0},
    {"unix_micros", "t", NULL, "u", build_to_epoch, NULL, 0, 0},
    {"make_ym_interval", "|aa", NULL, "y", build_make_interval, NULL, 0, 0},
    {"make_dt_interval", "|aaaa", NULL, "d", build_make_interval, NULL, 0, 0},
    {"make_interval", "|aaaaaaa", NULL, NULL, build_calendar_interval, NULL, 0, 0},
    {"try_make_interval", "|aaaaaaa", NULL, NULL, build_calendar_interval, NULL, SPARK_TRY, 0},
    {"current_user", "", NULL, "user", build_text, NULL, SPARK_NEVER_NULL, 0},
    {"user", "", NULL, "user", build_text, NULL, SPARK_NEVER_NULL, 0},
    {"session_user", "", NULL, "user", build_text, NULL, SPARK_NEVER_NULL, 0},
    {"current_catalog", "", NULL, "spark_catalog", build_text, NULL, SPARK_NEVER_NULL, 0},
    {"current_schema", "", NULL, "default", build_text, NULL, SPARK_NEVER_NULL, 0},
    {"current_database", "", NULL, "default", build_text, "current_schema()", SPARK_NEVER_NULL, 0},
};
const spark_function_table spark__functions_more = {rows, sizeof rows / sizeof rows[0]};
