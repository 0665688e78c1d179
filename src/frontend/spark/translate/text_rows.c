/* Rows out of lines: CSV fields cast one by one, JSON records by the kernel that from_json is; what is malformed becomes
 * null, is dropped, or fails the query. */
#include "frontend/spark/translate/infer.h"

static const trn_position NOWHERE = {-1, -1};

typedef struct rows {
  spark_translator *t;
  const spark_text_options *options;
  const trn_type *schema;
  const trn_expr *line;
  const char *path;
  uint32_t corrupt; /* the field that takes malformed lines; field_count: none */
  trn_error **error;
} rows;

static trn_expr *text(rows *r, const char *value) {
  return trn__expr_string(r->t->arena, value, strlen(value));
}

static trn_expr *truth(rows *r, const char *name, const trn_expr *a, const trn_expr *b, bool nullable) {
  const trn_expr *args[] = {a, b};
  return a && (b || strncmp(name, "is_", 3) == 0 || !strcmp(name, "not"))
             ? trn__expr_call(r->t->arena, TRN_HOME_NATIVE, name, trn__type(TRN_TYPE_BOOL), nullable, args, b ? 2 : 1)
             : NULL;
}

static trn_expr *one_char(rows *r, char c) {
  return trn__expr_string(r->t->arena, &c, c != 0);
}

static trn_expr *kernel(rows *r, const char *name, const trn_type *type, const trn_expr *const *args, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!args[i]) return NULL;
  trn_expr *call = trn__expr_call(r->t->arena, TRN_HOME_LIBRARY, name, type, true, args, count);
  return call;
}

/* ---- CSV ---- */

static trn_expr *field_text(rows *r, size_t index) {
  const trn_expr *args[] = {r->line, trn__expr_int(r->t->arena, trn__type(TRN_TYPE_INT32), (int64_t)index),
                            text(r, r->options->separator), one_char(r, r->options->quote), one_char(r, r->options->escape)};
  trn_expr *field = kernel(r, "trn.csv_field", trn__type(TRN_TYPE_STRING), args, 5);
  if (!field || !*r->options->null_value) return field;
  const trn_expr *is_null = truth(r, "=", field, text(r, r->options->null_value), true);
  const trn_expr *cases[] = {is_null, trn__expr_null(r->t->arena, trn__type(TRN_TYPE_STRING)), field};
  return is_null && cases[1] ? trn__expr_create(r->t->arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), true, cases, 3) : NULL;
}

/* true and false, in any letters. */
static trn_status only_words(rows *r, const trn_expr *raw, const trn_expr **out) {
  spark_value value = {.expr = raw, .name = ""}, lower;
  trn_status status = spark__call_by_name(r->t, "lower", &value, 1, NOWHERE, &lower, r->error);
  if (status) return status;
  const trn_expr *cases[] = {truth(r, "=", lower.expr, text(r, "true"), true), trn__expr_bool(r->t->arena, true),
                             truth(r, "=", lower.expr, text(r, "false"), true), trn__expr_bool(r->t->arena, false)};
  for (size_t i = 0; i < 4; i++)
    if (!cases[i]) return trn__no_memory(r->error);
  *out = trn__expr_create(r->t->arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_BOOL), true, cases, 4);
  return *out ? TRN_OK : trn__no_memory(r->error);
}

static trn_status without_blanks(rows *r, const trn_expr **raw) {
  spark_value value = {.expr = *raw, .name = ""}, trimmed;
  trn_status status = spark__call_by_name(r->t, "trim", &value, 1, NOWHERE, &trimmed, r->error);
  if (status) return status;
  const trn_expr *cases[] = {truth(r, "=", *raw, trimmed.expr, true), *raw};
  *raw = cases[0] ? trn__expr_create(r->t->arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), true, cases, 2) : NULL;
  return *raw ? TRN_OK : trn__no_memory(r->error);
}

static trn_status typed_field(rows *r, const trn_expr *raw, const trn_type *type, const trn_expr **out) {
  bool date = type->id == TRN_TYPE_DATE, zoned = type->id == TRN_TYPE_TIMESTAMP;
  const char *format = date ? r->options->date_format : zoned || type->id == TRN_TYPE_TIMESTAMP_NTZ ? r->options->timestamp_format : NULL;
  *out = raw;
  if (type->id == TRN_TYPE_STRING) return TRN_OK;
  if (type->id == TRN_TYPE_BOOL) return only_words(r, raw, out);
  if (trn__type_is_integer(type)) { /* no blanks, unlike in a cast */
    trn_status status = without_blanks(r, &raw);
    if (status) return status;
  }
  if (!format) return spark__cast(r->t, raw, type, SPARK_CAST_TRY, NOWHERE, out, r->error);
  const trn_expr *args[] = {raw, text(r, format), zoned ? spark__zone_literal(r->t) : text(r, "")};
  *out = kernel(r, date ? "trn.to_date_try" : zoned ? "trn.to_timestamp_try" : "trn.to_timestamp_ntz_try", type, args, zoned ? 3 : 2);
  return *out ? TRN_OK : trn__no_memory(r->error);
}

static trn_status csv_values(rows *r, spark_value *values, const trn_expr **wrong) {
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  uint32_t own = r->schema->field_count - (r->corrupt < r->schema->field_count);
  size_t at = 0;
  const trn_expr *args[] = {r->line, text(r, r->options->separator), one_char(r, r->options->quote), one_char(r, r->options->escape)};
  const trn_expr *count = kernel(r, "trn.csv_count", trn__type(TRN_TYPE_INT32), args, 4);
  *wrong = truth(r, "!=", count, trn__expr_int(r->t->arena, trn__type(TRN_TYPE_INT32), own), false);
  (void)boolean;
  for (uint32_t i = 0; i < r->schema->field_count; i++) {
    if (i == r->corrupt) continue;
    const trn_field *field = &r->schema->fields[i];
    if (field->type->id >= TRN_TYPE_ARRAY || field->type->id == TRN_TYPE_BINARY) {
      const char *name = spark__quote(r->t, field->name), *type = spark__quoted_type(r->t, field->type);
      if (!name || !type) return trn__no_memory(r->error);
      return spark__error(r->t, r->error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", NOWHERE, "columnName",
                          name, "columnType", type, "format", "CSV", NULL);
    }
    const trn_expr *raw = field_text(r, at++);
    if (!raw) return trn__no_memory(r->error);
    trn_status status = typed_field(r, raw, field->type, &values[i].expr);
    if (status) return status;
    if (field->type->id == TRN_TYPE_STRING) continue;
    const trn_expr *lost = truth(r, "and", truth(r, "is_not_null", raw, NULL, false), truth(r, "is_null", values[i].expr, NULL, false), false);
    *wrong = truth(r, "or", *wrong, lost, false);
  }
  return *wrong ? TRN_OK : trn__no_memory(r->error);
}

/* ---- JSON ---- */

/* The schema with a last field for malformed records, when it has none and they count. */
static trn_status json_values(rows *r, spark_value *values, const trn_expr **wrong) {
  trn_arena *arena = r->t->arena;
  uint32_t count = r->schema->field_count;
  bool hidden = r->corrupt == count && (r->options->drops_malformed || r->options->fails_fast);
  trn_field *fields = TRN_NEW_N(arena, trn_field, count + 1);
  if (!fields) return trn__no_memory(r->error);
  for (uint32_t i = 0; i < count; i++) fields[i] = r->schema->fields[i], fields[i].metadata = NULL;
  fields[count] = (trn_field){.name = r->options->corrupt, .type = trn__type(TRN_TYPE_STRING), .nullable = true};
  const trn_type *type = trn__type_struct(arena, fields, count + hidden);
  if (type) type = spark__all_nullable(r->t, type, 0);
  if (!type) return trn__no_memory(r->error);
  const trn_expr *args[] = {r->line,
                            trn__expr_null(arena, type),
                            spark__zone_literal(r->t),
                            text(r, r->options->timestamp_format ? r->options->timestamp_format : ""),
                            text(r, r->options->date_format ? r->options->date_format : ""),
                            trn__expr_int(arena, trn__type(TRN_TYPE_INT32), r->corrupt < count ? (int64_t)r->corrupt : hidden ? (int64_t)count : -1),
                            trn__expr_bool(arena, false), trn__expr_bool(arena, true)};
  const trn_expr *record = kernel(r, "trn.from_json", type, args, 8);
  if (!record) return trn__no_memory(r->error);
  for (uint32_t i = 0; i < count + hidden; i++) {
    const trn_expr *parts[] = {record, text(r, fields[i].name)};
    const trn_expr *field = parts[1] ? trn__expr_call(arena, TRN_HOME_NATIVE, "get_field", type->fields[i].type, true, parts, 2) : NULL;
    if (!field) return trn__no_memory(r->error);
    if (i < count) values[i].expr = field;
    if (i == r->corrupt || i == count) *wrong = truth(r, "is_not_null", field, NULL, false);
  }
  return TRN_OK;
}

/* ---- both ---- */

/* A file without columns: asking for the malformed records alone is refused, as the query runs. */
static trn_status only_corrupt(rows *r, spark_value *value) {
  const trn_expr *path = text(r, r->path);
  trn_expr *raises = path ? trn__expr_call(r->t->arena, TRN_HOME_LIBRARY, "trn.raise_only_corrupt", trn__type(TRN_TYPE_NULL), true, &path, 1) : NULL;
  if (raises) raises->u.call.volatility = 2;
  value->expr = raises ? trn__expr_cast(r->t->arena, raises, trn__type(TRN_TYPE_STRING), true) : NULL;
  return value->expr ? TRN_OK : trn__no_memory(r->error);
}

static trn_status only_good(rows *r, const trn_expr *wrong, spark_relation *relation) {
  const trn_expr *good = truth(r, "not", wrong, NULL, false);
  if (r->options->fails_fast) {
    const char *shown = r->path[0] == '/' ? trn__arena_printf(r->t->arena, "file://%s", r->path) : r->path;
    const trn_expr *path = shown ? text(r, shown) : NULL;
    trn_expr *raises = path ? trn__expr_call(r->t->arena, TRN_HOME_LIBRARY, "trn.raise_read_failure", trn__type(TRN_TYPE_NULL), true, &path, 1) : NULL;
    if (raises) raises->u.call.volatility = 2;
    const trn_expr *raised = raises ? trn__expr_cast(r->t->arena, raises, trn__type(TRN_TYPE_BOOL), false) : NULL;
    const trn_expr *cases[] = {wrong, raised, trn__expr_bool(r->t->arena, true)};
    good = raised && cases[2] ? trn__expr_create(r->t->arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_BOOL), true, cases, 3) : NULL;
  }
  trn_rel *filter = good ? trn__rel_filter(r->t->arena, relation->rel, good) : NULL;
  if (!filter) return trn__no_memory(r->error);
  relation->rel = filter;
  return TRN_OK;
}

trn_status spark__rows_of_lines(spark_translator *t, bool csv, const trn_type *schema, const spark_text_options *options,
                                const char *path, spark_relation *relation, trn_error **error) {
  rows r = {.t = t, .options = options, .schema = schema, .path = path, .corrupt = schema->field_count, .error = error};
  spark_value *given = NULL, *values;
  const trn_expr *wrong = NULL;
  size_t count = 0;
  trn_status status = spark__scope_values(t, relation->scope, &given, &count, error);
  if (status) return status;
  if (!count) return trn_error_set(error, TRN_INTERNAL, NULL, "there are no lines");
  if (!(values = TRN_NEW_N(t->arena, spark_value, schema->field_count + count))) return trn__no_memory(error);
  r.line = given[0].expr;
  for (uint32_t i = 0; i < schema->field_count; i++) {
    values[i] = (spark_value){.name = schema->fields[i].name, .metadata = schema->fields[i].metadata, .is_alias = true};
    if (schema->fields[i].type->id == TRN_TYPE_STRING && strcmp(schema->fields[i].name, options->corrupt) == 0) r.corrupt = i;
  }
  status = csv ? csv_values(&r, values, &wrong) : json_values(&r, values, &wrong);
  if (!status && csv && r.corrupt < schema->field_count) {
    const trn_expr *cases[] = {wrong, r.line};
    values[r.corrupt].expr = trn__expr_create(t->arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), true, cases, 2);
    if (!values[r.corrupt].expr) status = trn__no_memory(error);
  }
  if (!status && wrong && (options->drops_malformed || options->fails_fast)) status = only_good(&r, wrong, relation);
  if (!status && schema->field_count == 1 && r.corrupt == 0) status = only_corrupt(&r, &values[0]);
  for (size_t i = 1; i < count; i++) values[schema->field_count + i - 1] = given[i];
  return status ? status : spark__project(t, relation, values, schema->field_count + count - 1, NULL, relation, error);
}
