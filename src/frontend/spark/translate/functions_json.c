/* JSON and CSV: texts to values and back, with the options that are served; others are refused by name. */
#include "frontend/spark/translate/scope.h"
#include <strings.h>

/* What the kernels read and write: no intervals, and only texts (writing: simple values too) as keys. */
static bool is_plain(const trn_type *type, bool writes, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX || spark__is_interval(type) || type->id == TRN_TYPE_INTERVAL_CALENDAR) return false;
  if (!writes && (type->id == TRN_TYPE_BINARY || type->id == TRN_TYPE_TIME || type->id == TRN_TYPE_NULL)) return false;
  if (type->id == TRN_TYPE_MAP) {
    const trn_type *key = type->fields[0].type;
    if (!writes && !spark__is_string(key)) return false;
    if (key->id == TRN_TYPE_MAP || key->id == TRN_TYPE_BINARY) return false;
  }
  for (uint32_t i = 0; i < type->field_count; i++)
    if (!is_plain(type->fields[i].type, writes, depth + 1)) return false;
  return true;
}

/* ---- options ---- */
typedef struct options {
  const char *timestamp_format, *date_format, *separator, *quote, *escape, *null_value, *corrupt;
  bool all_fields, sorted, quotes_all, strings, fails;
} options;

static bool is_true(const char *text) {
  return strcasecmp(text, "true") == 0;
}

/* False: an option that is not served (or has a value that is not). */
static bool take_option(options *o, const char *key, const char *value) {
  static const char *const usual[][2] = {{"mode", "PERMISSIVE"},
                                         {"allowSingleQuotes", "true"},
                                         {"header", "false"},
                                         {"ignoreLeadingWhiteSpace", "false"},
                                         {"ignoreTrailingWhiteSpace", "false"},
                                         {"pretty", "false"},
                                         {"enforceSchema", "true"},
                                         {"inferSchema", "true"}};
  const struct {
    const char *key, **text;
    bool *flag;
  } taken[] = {{"timestampFormat", &o->timestamp_format, NULL},
               {"timestampNTZFormat", &o->timestamp_format, NULL},
               {"dateFormat", &o->date_format, NULL},
               {"sep", &o->separator, NULL},
               {"delimiter", &o->separator, NULL},
               {"quote", &o->quote, NULL},
               {"escape", &o->escape, NULL},
               {"nullValue", &o->null_value, NULL},
               {"columnNameOfCorruptRecord", &o->corrupt, NULL},
               {"sortKeys", NULL, &o->sorted},
               {"quoteAll", NULL, &o->quotes_all},
               {"primitivesAsString", NULL, &o->strings}};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
    if (strcasecmp(taken[i].key, key) != 0) continue;
    if (taken[i].text) *taken[i].text = value;
    if (taken[i].flag) *taken[i].flag = is_true(value);
    return true;
  }
  if (strcasecmp(key, "ignoreNullFields") == 0) {
    o->all_fields = !is_true(value);
    return true;
  }
  if (strcasecmp(key, "mode") == 0 && strcasecmp(value, "FAILFAST") == 0) {
    o->fails = true;
    return true;
  }
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (strcasecmp(usual[i][0], key) == 0) return strcasecmp(usual[i][1], value) == 0;
  return false;
}

static trn_status options_of(spark_builder *b, size_t index, options *out) {
  *out = (options){.separator = ",", .quote = "\"", .escape = "\\", .null_value = "", .corrupt = "_corrupt_record"};
  if (b->count <= index) return TRN_OK;
  const trn_type *type = b->args[index]->type;
  if (type->id != TRN_TYPE_MAP || !spark__is_string(type->fields[0].type) || !spark__is_string(type->fields[1].type)) {
    const char *given = spark__quoted_type(b->t, type);
    if (!given) return trn__no_memory(b->error);
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_OPTIONS.NON_STRING_TYPE", b->call->position,
                        "mapType", given, (char *)NULL);
  }
  spark_value value = b->call->args[index];
  value.expr = b->args[index];
  if (!value.is_foldable)
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_OPTIONS.NON_MAP_FUNCTION", b->call->position,
                        (char *)NULL);
  trn_status status = TRN_OK;
  if (value.expr->kind != TRN_EXPR_LITERAL) status = spark__evaluate(b->t, &value, &value.expr, b->error);
  if (status) return status;
  const trn_literal *literal = &value.expr->u.literal;
  for (uint32_t i = 0; !literal->is_null && i + 1 < literal->value.nested.count; i += 2) {
    const trn_expr *pair[2] = {literal->value.nested.items[i], literal->value.nested.items[i + 1]};
    if (!spark__is_literal(pair[0]) || !spark__is_literal(pair[1])) continue;
    const char *key = trn__arena_str(b->t->arena, pair[0]->u.literal.value.bytes.data, pair[0]->u.literal.value.bytes.size);
    const char *given =
        trn__arena_str(b->t->arena, pair[1]->u.literal.value.bytes.data, pair[1]->u.literal.value.bytes.size);
    if (!key || !given) return trn__no_memory(b->error);
    if (strcasecmp(key, "mode") == 0 && strcasecmp(given, "DROPMALFORMED") == 0) {
      const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name);
      if (!name) return trn__no_memory(b->error);
      return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "PARSE_MODE_UNSUPPORTED", (trn_position){-1, -1},
                          "funcName", name, "mode", "DROPMALFORMED", (char *)NULL);
    }
    if (!take_option(out, key, given)) {
      const char *what = trn__arena_printf(b->t->arena, "the option %s=%s", key, given);
      return what ? spark__not_supported(b, what) : trn__no_memory(b->error);
    }
  }
  return TRN_OK;
}

/* The text, or an empty one. */
static const trn_expr *text_or_none(spark_translator *t, const char *text) {
  return trn__expr_string(t->arena, text ? text : "", text ? strlen(text) : 0);
}

/* Columns, or else one type. */
static trn_status schema_of(spark_builder *b, const trn_literal *text, const trn_type **out) {
  const char *data = text->value.bytes.data;
  size_t size = text->value.bytes.size;
  Spark__Connect__DataType *parsed = NULL;
  trn_error *first = NULL;
  trn_status status = spark__schema_from_text(b->t->arena, data, size, out, &first);
  trn_error_unref(first);
  if (!status) return TRN_OK;
  status = spark__sql_parse_type(b->t->arena, data, size, NULL, &parsed, b->error);
  return status ? status : spark__type_from_proto(b->t->arena, parsed, out, b->error);
}

static trn_status build_from_json(spark_builder *b, const trn_expr **out) {
  const trn_expr *text = b->args[1];
  const trn_type *schema = NULL;
  options o;
  trn_status status = options_of(b, 2, &o);
  if (status) return status;
  if (!spark__is_string(b->args[0]->type) && b->args[0]->type->id != TRN_TYPE_NULL)
    return spark__unexpected_input(b, 0, "\"STRING\"", b->args[0]->type);
  if (!spark__is_literal(text) || !spark__is_string(text->type))
    return spark__not_supported(b, "a schema that is not a literal");
  status = schema_of(b, &text->u.literal, &schema);
  if (!status) status = spark__coerce(b, 0, trn__type(TRN_TYPE_STRING));
  if (status) return status;
  if (schema->id != TRN_TYPE_STRUCT && schema->id != TRN_TYPE_ARRAY && schema->id != TRN_TYPE_MAP) {
    const char *shown = spark__quoted_type(b->t, schema);
    if (!shown) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_JSON_SCHEMA", "schema", shown, (char *)NULL);
  }
  if (!is_plain(schema, false, 0)) return spark__not_supported(b, "a type of this schema");
  if (!(schema = spark__all_nullable(b->t, schema, 0))) return trn__no_memory(b->error);
  b->name = schema->id == TRN_TYPE_MAP ? "entries" : "from_json($1)";
  int64_t corrupt = -1;
  for (uint32_t i = 0; schema->id == TRN_TYPE_STRUCT && i < schema->field_count; i++)
    if (spark__is_string(schema->fields[i].type) && strcmp(schema->fields[i].name, o.corrupt) == 0) corrupt = i;
  const trn_expr *args[7] = {b->args[0],
                             trn__expr_null(b->t->arena, schema),
                             spark__zone_literal(b->t),
                             text_or_none(b->t, o.timestamp_format),
                             text_or_none(b->t, o.date_format),
                             trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), corrupt),
                             trn__expr_bool(b->t->arena, o.fails)};
  bool plain = !o.timestamp_format && !o.date_format && corrupt < 0 && !o.fails;
  return spark__gives(b, spark__kernel(b->t, "trn.from_json", schema, args, plain ? 3 : 7), out);
}

static trn_status build_to_json(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  options o;
  trn_status status = options_of(b, 1, &o);
  if (status) return status;
  if (type->id != TRN_TYPE_STRUCT && type->id != TRN_TYPE_ARRAY && type->id != TRN_TYPE_MAP)
    return spark__unexpected_input(b, 0, "(\"STRUCT\" or \"ARRAY\" or \"MAP\" or \"VARIANT\")", type);
  if (!is_plain(type, true, 0)) return spark__not_supported(b, "a type inside of this value");
  b->name = "to_json($1)";
  const trn_expr *args[6] = {b->args[0],
                             spark__zone_literal(b->t),
                             text_or_none(b->t, o.timestamp_format),
                             text_or_none(b->t, o.date_format),
                             trn__expr_bool(b->t->arena, o.all_fields),
                             trn__expr_bool(b->t->arena, o.sorted)};
  bool plain = !o.timestamp_format && !o.date_format && !o.all_fields && !o.sorted;
  trn_expr *expr = spark__kernel(b->t, "trn.to_json", trn__type(TRN_TYPE_STRING), args, plain ? 2 : 6);
  if (expr) expr->nullable = b->args[0]->nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_keys(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type_array(b->t->arena, trn__type(TRN_TYPE_STRING), true);
  return spark__gives(b, spark__kernel(b->t, "trn.json_object_keys", type, b->args, 1), out);
}

/* A constant text, as a literal. */
static trn_status constant_text(spark_builder *b, const char *name, const trn_expr **out) {
  spark_value value = b->call->args[0];
  if (!value.is_foldable) {
    const char *given = trn__arena_printf(b->t->arena, "\"%s\"", value.name);
    if (!given) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", "inputName", name, "inputType", "\"STRING\"",
                           "inputExpr", given, (char *)NULL);
  }
  trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_STRING));
  value.expr = b->args[0];
  if (!status && value.expr->kind != TRN_EXPR_LITERAL) status = spark__evaluate(b->t, &value, &value.expr, b->error);
  if (status) return status;
  *out = value.expr;
  if (!value.expr->u.literal.is_null) return TRN_OK;
  return spark__mismatch(b, "DATATYPE_MISMATCH.UNEXPECTED_NULL", "exprName", name[1] == 'j' ? "json" : "csv", (char *)NULL);
}

static trn_status build_schema_of_json(spark_builder *b, const trn_expr **out) {
  options o;
  const trn_expr *args[2];
  trn_status status = options_of(b, 1, &o);
  if (!status) status = constant_text(b, "`json`", &args[0]);
  if (status) return status;
  b->name = "schema_of_json($1)";
  args[1] = trn__expr_bool(b->t->arena, o.strings);
  return spark__gives(b, spark__kernel(b->t, "trn.schema_of_json", trn__type(TRN_TYPE_STRING), args, 2), out);
}

/* ---- CSV: made of the fields' texts, cast ---- */
static const trn_expr *csv_field(spark_builder *b, const trn_expr *text, size_t index, const options *o) {
  spark_translator *t = b->t;
  const trn_expr *args[5] = {text, trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), (int64_t)index),
                             text_or_none(t, o->separator), text_or_none(t, o->quote), text_or_none(t, o->escape)};
  trn_expr *field = spark__kernel(t, "trn.csv_field", trn__type(TRN_TYPE_STRING), args, 5);
  if (field) field->nullable = true;
  return field;
}

static trn_status read_field(spark_builder *b, const trn_expr *text, const trn_type *type, const options *o,
                             const trn_expr **out) {
  bool date = type->id == TRN_TYPE_DATE, zoned = type->id == TRN_TYPE_TIMESTAMP;
  const char *format = date ? o->date_format : spark__is_timestamp(type) ? o->timestamp_format : NULL;
  if (spark__is_string(type)) {
    *out = text;
    return TRN_OK;
  }
  if (!format) return spark__cast(b->t, text, type, SPARK_CAST_TRY, b->call->position, out, b->error);
  const trn_expr *args[3] = {text, text_or_none(b->t, format), spark__zone_literal(b->t)};
  const char *kernel = date ? "trn.to_date_try" : zoned ? "trn.to_timestamp_try" : "trn.to_timestamp_ntz_try";
  trn_expr *parsed = spark__kernel(b->t, kernel, type, args, zoned ? 3 : 2);
  if (parsed) parsed->nullable = true;
  *out = parsed;
  return parsed ? TRN_OK : trn__no_memory(b->error);
}

static trn_status build_from_csv(spark_builder *b, const trn_expr **out) {
  const trn_expr *given = b->args[1], *text, *wrong = NULL;
  const trn_type *schema = NULL, *boolean = trn__type(TRN_TYPE_BOOL);
  options o;
  trn_status status = options_of(b, 2, &o);
  if (status) return status;
  if (!spark__is_literal(given) || !spark__is_string(given->type))
    return spark__not_supported(b, "a schema that is not a literal");
  if (o.fails) return spark__not_supported(b, "the option mode=FAILFAST");
  status = schema_of(b, &given->u.literal, &schema);
  if (!status) status = spark__coerce(b, 0, trn__type(TRN_TYPE_STRING));
  if (status) return status;
  if (schema->id != TRN_TYPE_STRUCT) return spark__not_supported(b, "a schema that is no columns");
  if (!(schema = spark__all_nullable(b->t, schema, 0))) return trn__no_memory(b->error);
  b->name = "from_csv($1)";
  text = b->args[0];
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * (size_t)schema->field_count + 1);
  if (!args) return trn__no_memory(b->error);
  uint32_t corrupt = schema->field_count;
  size_t at = 0;
  for (uint32_t i = 0; i < schema->field_count; i++) {
    const trn_field *field = &schema->fields[i];
    args[2 * i] = trn__expr_string(b->t->arena, field->name, strlen(field->name));
    if (spark__is_string(field->type) && strcmp(field->name, o.corrupt) == 0) {
      corrupt = i;
      continue;
    }
    if (field->type->field_count || field->type->id == TRN_TYPE_STRUCT || field->type->id == TRN_TYPE_BINARY)
      return spark__not_supported(b, "a type of this schema");
    const trn_expr *raw = csv_field(b, text, at++, &o);
    if (!raw || !args[2 * i]) return trn__no_memory(b->error);
    if ((status = read_field(b, raw, field->type, &o, &args[2 * i + 1]))) return status;
    const trn_expr *lost[2] = {spark__is_null(b->t, raw, true), spark__is_null(b->t, args[2 * i + 1], false)};
    const trn_expr *both = spark__native(b->t, "and", boolean, lost, 2), *either[2] = {wrong, both};
    wrong = wrong ? spark__native(b->t, "or", boolean, either, 2) : both;
    if (!wrong) return trn__no_memory(b->error);
  }
  if (corrupt < schema->field_count) {
    const trn_expr *branches[2] = {wrong ? wrong : trn__expr_bool(b->t->arena, false), text};
    args[2 * corrupt + 1] = spark__case(b->t, branches, 2, trn__type(TRN_TYPE_STRING));
  }
  for (uint32_t i = 0; i < 2 * schema->field_count; i++)
    if (!args[i]) return trn__no_memory(b->error);
  const trn_expr *row = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "named_struct", schema, false, args,
                                       2 * (size_t)schema->field_count);
  const trn_expr *branches[2] = {spark__is_null(b->t, text, true), row};
  trn_expr *expr = spark__case(b->t, branches, 2, schema);
  if (expr) expr->nullable = text->nullable;
  return spark__gives(b, expr, out);
}

static trn_status write_field(spark_builder *b, const trn_expr *field, const options *o, const trn_expr **out) {
  const trn_type *type = field->type, *text = trn__type(TRN_TYPE_STRING);
  bool zoned = type->id == TRN_TYPE_TIMESTAMP, date = type->id == TRN_TYPE_DATE;
  const char *format = date ? o->date_format : spark__is_timestamp(type) ? o->timestamp_format : NULL;
  if (spark__is_timestamp(type) && !format)
    format = zoned ? "yyyy-MM-dd'T'HH:mm:ss.SSSXXX" : "yyyy-MM-dd'T'HH:mm:ss.SSS";
  *out = field;
  if (date && format) {
    trn_status status = spark__cast(b->t, field, trn__type(TRN_TYPE_TIMESTAMP_NTZ), SPARK_CAST_IMPLICIT,
                                    b->call->position, &field, b->error);
    if (status) return status;
  }
  if (format) {
    const trn_expr *args[3] = {field, text_or_none(b->t, format), spark__zone_literal(b->t)};
    *out = spark__kernel(b->t, "trn.date_format", text, args, 3);
    return *out ? TRN_OK : trn__no_memory(b->error);
  }
  return spark__cast(b->t, field, text, SPARK_CAST_IMPLICIT, b->call->position, out, b->error);
}

static trn_status build_to_csv(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type, *text = trn__type(TRN_TYPE_STRING);
  options o;
  trn_status status = options_of(b, 1, &o);
  if (status) return status;
  b->name = "to_csv($1)";
  if (type->id != TRN_TYPE_STRUCT) {
    const char *given = spark__quoted_type(b->t, type);
    if (!given) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.UNSUPPORTED_INPUT_TYPE", "functionName", "`to_csv`", "dataType", given,
                           (char *)NULL);
  }
  const trn_expr **parts = TRN_NEW_N(b->t->arena, const trn_expr *, (size_t)type->field_count + 1);
  if (!parts) return trn__no_memory(b->error);
  parts[0] = text_or_none(b->t, o.separator);
  for (uint32_t i = 0; i < type->field_count; i++) {
    const trn_field *f = &type->fields[i];
    if (f->type->field_count || f->type->id == TRN_TYPE_STRUCT || f->type->id == TRN_TYPE_BINARY)
      return spark__not_supported(b, "a type inside of this value");
    const trn_expr *get[2] = {b->args[0], trn__expr_string(b->t->arena, f->name, strlen(f->name))};
    const trn_expr *field = spark__native(b->t, "get_field", f->type, get, 2), *shown = NULL;
    if (!field) return trn__no_memory(b->error);
    if ((status = write_field(b, field, &o, &shown))) return status;
    const trn_expr *known[2] = {shown, text_or_none(b->t, o.null_value)};
    const trn_expr *quote[3] = {shown, parts[0], trn__expr_bool(b->t->arena, o.quotes_all)};
    if (o.null_value[0] && o.quotes_all) quote[0] = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "coalesce", text, false, known, 2);
    known[0] = spark__kernel(b->t, "trn.csv_quote", text, quote, 3);
    parts[i + 1] = known[0] ? trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "coalesce", text, false, known, 2) : NULL;
    if (!parts[i + 1]) return trn__no_memory(b->error);
  }
  const trn_expr *line = spark__kernel(b->t, "trn.concat_ws", text, parts, (size_t)type->field_count + 1);
  const trn_expr *branches[2] = {spark__is_null(b->t, b->args[0], true), line};
  return spark__gives(b, line ? spark__case(b->t, branches, 2, text) : NULL, out);
}

/* The type that a field of a CSV line shows. */
static const char *csv_type(const char *field, size_t size) {
  int64_t value;
  bool digits = size > 0, number = size > 0, any = false, point = false;
  for (size_t i = 0; i < size; i++) {
    bool digit = field[i] >= '0' && field[i] <= '9', sign = i == 0 && (field[i] == '-' || field[i] == '+') && size > 1;
    any |= digit;
    digits &= digit || sign;
    number &= digit || sign || (field[i] == '.' && !point);
    point |= field[i] == '.';
  }
  if (digits && size <= 10) {
    value = strtoll(field, NULL, 10);
    if (value >= INT32_MIN && value <= INT32_MAX) return "INT";
  }
  if (digits && size <= 18) return "BIGINT";
  if (number && any) return "DOUBLE";
  if (size == 10 && spark__parse_date(field, size, &value)) return "DATE";
  int64_t offset = INT64_MIN;
  if (size > 10 && spark__parse_timestamp(field, size, &value, &offset)) return "TIMESTAMP";
  if ((size == 4 && strncasecmp(field, "true", 4) == 0) || (size == 5 && strncasecmp(field, "false", 5) == 0))
    return "BOOLEAN";
  return "STRING";
}

static trn_status build_schema_of_csv(spark_builder *b, const trn_expr **out) {
  options o;
  const trn_expr *literal = NULL;
  trn_status status = options_of(b, 1, &o);
  if (!status) status = constant_text(b, "`csv`", &literal);
  if (status) return status;
  b->name = "schema_of_csv($1)";
  const char *line = literal->u.literal.value.bytes.data;
  size_t size = literal->u.literal.value.bytes.size, width = strlen(o.separator), start = 0, count = 0;
  if (memchr(line, '"', size) || !width) return spark__not_supported(b, "quotes in the example");
  trn_strbuf text = {0};
  trn__strbuf_puts(&text, "STRUCT<");
  for (size_t at = 0; at <= size; at++) {
    bool ends = at == size || (at + width <= size && memcmp(line + at, o.separator, width) == 0);
    if (!ends) continue;
    trn__strbuf_printf(&text, "%s_c%zu: %s", count ? ", " : "", count, csv_type(line + start, at - start));
    count++;
    start = at + width;
    at = at == size ? at : start - 1;
  }
  trn__strbuf_putc(&text, '>');
  const char *shown = spark__finish_text(b->t, &text);
  return shown ? spark__gives(b, trn__expr_string(b->t->arena, shown, strlen(shown)), out) : trn__no_memory(b->error);
}

static const spark_function rows[] = {
    {"get_json_object", "ss", "s", "trn.get_json_object", NULL, NULL, SPARK_NULLABLE, 0},
    {"json_array_length", "s", "i", "trn.json_array_length", NULL, NULL, SPARK_NULLABLE, 0},
    {"json_object_keys", "s", NULL, NULL, build_keys, NULL, SPARK_NULLABLE, 0},
    {"from_json", "aa|a", NULL, NULL, build_from_json, NULL, SPARK_NULLABLE, 0},
    {"schema_of_json", "a|a", NULL, NULL, build_schema_of_json, NULL, SPARK_NEVER_NULL, 0},
    {"from_csv", "aa|a", NULL, NULL, build_from_csv, NULL, 0, 0},
    {"to_csv", "a|a", NULL, NULL, build_to_csv, NULL, SPARK_NULLABLE, 0},
    {"schema_of_csv", "a|a", NULL, NULL, build_schema_of_csv, NULL, SPARK_NEVER_NULL, 0},
    {"to_json", "a|a", NULL, NULL, build_to_json, NULL, SPARK_NULLABLE, 0},
};
const spark_function_table spark__functions_json = {rows, sizeof rows / sizeof rows[0]};
