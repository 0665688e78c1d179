/* The plan of df.write: checks, what becomes of each column on its way into a file, and the WRITE at the root. */
#include "frontend/spark/translate/write.h"
#include "frontend/spark/translate/insert.h"
#include "frontend/spark/translate/scope.h"

static const trn_position NOWHERE = {-1, -1};

typedef struct writing {
  spark_translator *t;
  const spark_write_spec *spec;
  spark_value *values; /* one per column */
  size_t count;
  uint32_t *places; /* of the partition columns */
  trn_error **error;
} writing;

static bool is_partition(const writing *w, size_t column) {
  for (size_t i = 0; i < w->spec->partition_count; i++)
    if (w->places[i] == column) return true;
  return false;
}

/* ---- checks ---- */

static trn_status exists_twice(writing *w, const char *name) {
  const char *quoted = spark__quote(w->t, name);
  if (!quoted) return trn__no_memory(w->error);
  return spark__error(w->t, w->error, TRN_INVALID_ARGUMENT, "COLUMN_ALREADY_EXISTS", NOWHERE, "columnName", quoted,
                      NULL);
}

static trn_status no_such_column(writing *w, const char *name) {
  trn_strbuf schema = {0};
  trn__strbuf_puts(&schema, "struct<");
  for (size_t i = 0; i < w->count; i++) {
    trn__strbuf_printf(&schema, "%s%s:", i ? "," : "", w->values[i].name);
    spark__type_simple(&schema, w->values[i].expr->type);
  }
  trn__strbuf_putc(&schema, '>');
  trn_status status =
      schema.failed ? trn__no_memory(w->error)
                    : trn_error_set(w->error, TRN_INVALID_ARGUMENT, NULL,
                                    "Partition column `%s` not found in schema %s.", name, schema.data);
  trn__strbuf_finish(&schema);
  return status;
}

/* Partition columns by name. */
static trn_status find_places(writing *w) {
  w->places = TRN_NEW_N(w->t->arena, uint32_t, w->spec->partition_count);
  if (!w->places) return trn__no_memory(w->error);
  for (size_t i = 0; i < w->spec->partition_count; i++) {
    const char *name = w->spec->partition_by[i];
    size_t at = 0;
    while (at < w->count && !spark__name_equal(w->t, w->values[at].name, name)) at++;
    if (at == w->count) return no_such_column(w, name);
    for (size_t k = 0; k < i; k++)
      if (w->places[k] == at) return exists_twice(w, name);
    const trn_type *type = w->values[at].expr->type;
    if (type->id >= TRN_TYPE_INTERVAL_CALENDAR || type->id == TRN_TYPE_NULL)
      return spark__error(w->t, w->error, TRN_INVALID_ARGUMENT, "INVALID_PARTITION_COLUMN_DATA_TYPE", NOWHERE, "type",
                          spark__quoted_type(w->t, type), NULL);
    w->places[i] = (uint32_t)at;
  }
  if (w->spec->partition_count && w->spec->partition_count == w->count)
    return spark__error(w->t, w->error, TRN_INVALID_ARGUMENT, "ALL_PARTITION_COLUMNS_NOT_ALLOWED", NOWHERE, NULL);
  return TRN_OK;
}

/* Partition columns to the end, as a table has them. */
static trn_status move_partitions(writing *w) {
  spark_value *moved = TRN_NEW_N(w->t->arena, spark_value, w->count);
  size_t at = 0;
  if (!moved) return trn__no_memory(w->error);
  for (size_t i = 0; i < w->count; i++)
    if (!is_partition(w, i)) moved[at++] = w->values[i];
  for (size_t i = 0; i < w->spec->partition_count; i++) {
    moved[at] = w->values[w->places[i]];
    w->places[i] = (uint32_t)at++;
  }
  w->values = moved;
  return TRN_OK;
}

/* The directories' levels are columns of their own, behind the others; their names are not used. */
static trn_status copy_partitions(writing *w) {
  size_t levels = w->spec->partition_count;
  spark_value *all = TRN_NEW_N(w->t->arena, spark_value, w->count + levels);
  if (!all) return trn__no_memory(w->error);
  memcpy(all, w->values, w->count * sizeof *all);
  for (size_t i = 0; i < levels; i++) {
    all[w->count + i] = w->values[w->places[i]];
    all[w->count + i].name = trn__arena_printf(w->t->arena, "partition %zu", i);
    if (!all[w->count + i].name) return trn__no_memory(w->error);
    w->places[i] = (uint32_t)(w->count + i);
  }
  w->values = all;
  w->count += levels;
  return TRN_OK;
}

static trn_status check_names(writing *w) {
  trn_map *seen = trn__map_create();
  trn_status status = seen ? TRN_OK : trn__no_memory(w->error);
  for (size_t i = 0; i < w->count && !status; i++) {
    const char *name = w->values[i].name;
    char *folded = trn__arena_strdup(w->t->arena, name);
    if (!folded) status = trn__no_memory(w->error);
    for (char *c = folded; c && *c && !w->t->case_sensitive; c++)
      if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    if (!status && trn__map_get(seen, folded, strlen(folded))) status = exists_twice(w, folded);
    if (!status && !trn__map_set(seen, folded, strlen(folded), folded, NULL)) status = trn__no_memory(w->error);
  }
  trn__map_destroy(seen, NULL);
  return status;
}

static bool type_has(const trn_type *type, bool (*test)(const trn_type *)) {
  if (test(type)) return true;
  for (uint32_t i = 0; i < type->field_count; i++)
    if (type_has(type->fields[i].type, test)) return true;
  return false;
}

static bool no_parquet(const trn_type *type) {
  return type->id == TRN_TYPE_INTERVAL_CALENDAR;
}
static bool no_csv(const trn_type *type) {
  return type->id == TRN_TYPE_NULL || type->id == TRN_TYPE_INTERVAL_CALENDAR || type->id >= TRN_TYPE_ARRAY;
}
static bool no_json(const trn_type *type) {
  return type->id == TRN_TYPE_INTERVAL_CALENDAR;
}
/* What Spark writes and this engine has no equal form for. */
static bool unserved(const trn_type *type) {
  return type->id == TRN_TYPE_INTERVAL_YEAR_MONTH || type->id == TRN_TYPE_INTERVAL_DAY_TIME;
}
static bool is_empty_struct(const trn_type *type) {
  return type->id == TRN_TYPE_STRUCT && type->field_count == 0;
}

static trn_status check_types(writing *w) {
  bool csv = strcmp(w->spec->format, "csv") == 0, json = strcmp(w->spec->format, "json") == 0;
  bool (*refused)(const trn_type *) = csv ? no_csv : json ? no_json : no_parquet;
  bool empty = w->count == 0;
  for (size_t i = 0; i < w->count; i++) {
    const trn_type *type = w->values[i].expr->type;
    if (is_partition(w, i)) continue;
    if (type_has(type, refused)) {
      const char *name = spark__quote(w->t, w->values[i].name), *text = spark__quoted_type(w->t, type);
      if (!name || !text) return trn__no_memory(w->error);
      return spark__error(w->t, w->error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", NOWHERE,
                          "columnName", name, "format", w->spec->shown_format, "columnType", text, NULL);
    }
    if (type_has(type, unserved)) return spark__unimplemented(w->t, NOWHERE, w->error, "Writing intervals to files");
    empty |= type_has(type, is_empty_struct);
  }
  if (empty)
    return spark__error(w->t, w->error, TRN_INVALID_ARGUMENT, "EMPTY_SCHEMA_NOT_SUPPORTED_FOR_DATASOURCE", NOWHERE,
                        "format", w->spec->shown_format, NULL);
  return TRN_OK;
}

/* ---- columns as they are written ---- */

static trn_expr *native(spark_translator *t, const char *name, const trn_expr *a, const trn_expr *b) {
  const trn_expr *args[] = {a, b};
  return trn__expr_call(t->arena, TRN_HOME_NATIVE, name, trn__type(TRN_TYPE_BOOL), false, args, b ? 2 : 1);
}

/* The value in a directory's name: no value and the empty text are one. */
static trn_status partition_text(writing *w, const trn_expr **expr) {
  trn_arena *arena = w->t->arena;
  const trn_expr *text = NULL;
  trn_status status = spark__cast(w->t, *expr, trn__type(TRN_TYPE_STRING), SPARK_CAST_LEGACY, NOWHERE, &text, w->error);
  if (status) return status;
  trn_expr *empty = trn__expr_string(arena, "", 0);
  trn_expr *none = trn__expr_string(arena, SPARK_NULL_PARTITION, strlen(SPARK_NULL_PARTITION));
  trn_expr *is_null = native(w->t, "is_null", text, NULL);
  trn_expr *is_empty = empty ? native(w->t, "=", text, empty) : NULL;
  if (!none || !is_null || !is_empty) return trn__no_memory(w->error);
  const trn_expr *args[] = {is_null, none, is_empty, none, text};
  *expr = trn__expr_create(arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), false, args, 5);
  return *expr ? TRN_OK : trn__no_memory(w->error);
}

static trn_status formatted(writing *w, const spark_value *value, const char *format, const trn_expr **out) {
  spark_value args[2] = {*value, {.is_foldable = true, .is_literal = true, .name = format}}, text;
  args[1].expr = trn__expr_string(w->t->arena, format, strlen(format));
  if (!args[1].expr) return trn__no_memory(w->error);
  trn_status status = spark__call_by_name(w->t, "date_format", args, 2, NOWHERE, &text, w->error);
  if (!status) *out = text.expr;
  return status;
}

/* ---- CSV ---- */

static trn_status call(writing *w, const char *name, const trn_expr *const *args, size_t count, const trn_expr **out) {
  spark_value values[3] = {{0}}, result;
  for (size_t i = 0; i < count; i++) {
    bool literal = args[i]->kind == TRN_EXPR_LITERAL;
    values[i] = (spark_value){.expr = args[i], .name = "", .is_foldable = literal, .is_literal = literal};
  }
  trn_status status = spark__call_by_name(w->t, name, values, count, NOWHERE, &result, w->error);
  if (!status) *out = result.expr;
  return status;
}

static trn_expr *text(writing *w, const char *value) {
  return trn__expr_string(w->t->arena, value, strlen(value));
}

/* `what` becomes escape + what. */
static trn_status escaped(writing *w, const trn_expr **expr, const char *what) {
  const char *after = trn__arena_printf(w->t->arena, "%s%s", w->spec->escape, what);
  const trn_expr *args[] = {*expr, text(w, what), after ? text(w, after) : NULL};
  return args[1] && args[2] ? call(w, "replace", args, 3, expr) : trn__no_memory(w->error);
}

static trn_status quoted(writing *w, const trn_expr *value, const trn_expr **out) {
  const char *quote = w->spec->quote;
  trn_status status = TRN_OK;
  *out = value;
  if (strcmp(quote, w->spec->escape) != 0) status = escaped(w, out, w->spec->escape);
  if (!status) status = escaped(w, out, quote);
  const trn_expr *args[] = {text(w, quote), *out, text(w, quote)};
  if (status) return status;
  return args[0] && args[2] ? call(w, "concat", args, 3, out) : trn__no_memory(w->error);
}

/* Whether it must be quoted to be read back. */
static trn_status is_special(writing *w, const trn_expr *value, const trn_expr **out) {
  const char *const marks[] = {w->spec->separator, w->spec->quote, "\n", "\r"};
  *out = NULL;
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    const trn_expr *has = NULL, *args[] = {value, text(w, marks[i])};
    trn_status status = args[1] ? call(w, "contains", args, 2, &has) : trn__no_memory(w->error);
    if (status) return status;
    const trn_expr *both[] = {*out, has};
    *out = *out ? trn__expr_call(w->t->arena, TRN_HOME_NATIVE, "or", trn__type(TRN_TYPE_BOOL), true, both, 2) : has;
    if (!*out) return trn__no_memory(w->error);
  }
  return TRN_OK;
}

static trn_status csv_field(writing *w, const trn_expr *value, const trn_expr **out) {
  const spark_write_spec *spec = w->spec;
  trn_arena *arena = w->t->arena;
  const trn_expr *in_quotes = NULL, *special = NULL;
  trn_status status = TRN_OK;
  const char *trim = spec->trim_left && spec->trim_right ? "trim" : spec->trim_left ? "ltrim" : "rtrim";
  if (spec->trim_left || spec->trim_right) status = call(w, trim, &value, 1, &value);
  if (!status) status = quoted(w, value, &in_quotes);
  if (!status) status = is_special(w, value, &special);
  if (status) return status;
  trn_expr *nothing = text(w, ""), *empty = text(w, spec->empty_value);
  trn_expr *is_empty = nothing ? native(w->t, "=", value, nothing) : NULL, *is_null = native(w->t, "is_null", value, NULL);
  trn_expr *null = spec->quote_all
                       ? text(w, trn__arena_printf(arena, "%s%s%s", spec->quote, spec->null_value, spec->quote))
                       : trn__expr_null(arena, trn__type(TRN_TYPE_STRING));
  if (!empty || !is_empty || !is_null || !null) return trn__no_memory(w->error);
  const trn_expr *all[] = {is_null, null, is_empty, empty, in_quotes};
  const trn_expr *some[] = {is_null, null, is_empty, empty, special, in_quotes, value};
  *out = trn__expr_create(arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), true, spec->quote_all ? all : some,
                          spec->quote_all ? 5 : 7);
  return *out ? TRN_OK : trn__no_memory(w->error);
}

/* A column's name in the head line. */
static const char *csv_name(writing *w, const char *name) {
  const spark_write_spec *spec = w->spec;
  char marks[5] = {spec->separator[0], spec->quote[0], '\n', '\r', '\0'};
  if (!spec->quote_all && !strpbrk(name, marks)) return name;
  trn_strbuf out = {0};
  trn__strbuf_puts(&out, spec->quote);
  for (; *name; name++) {
    if (*name == spec->quote[0] || *name == spec->escape[0]) trn__strbuf_puts(&out, spec->escape);
    trn__strbuf_putc(&out, *name);
  }
  trn__strbuf_puts(&out, spec->quote);
  return spark__finish_text(w->t, &out);
}

/* What a value of a type that is no text never has in it. */
static bool may_be_special(const spark_write_spec *spec, const trn_type *type) {
  return type->id == TRN_TYPE_STRING || spec->quote_all || !strchr(",;|\t", spec->separator[0]) ||
         !strchr("\"'`|$", spec->quote[0]);
}

static trn_status as_text(writing *w, size_t column, const trn_expr **out) {
  const spark_value *value = &w->values[column];
  const trn_type *type = value->expr->type;
  bool csv = strcmp(w->spec->format, "csv") == 0, json = strcmp(w->spec->format, "json") == 0;
  *out = value->expr;
  if (is_partition(w, column)) return partition_text(w, out);
  if (!csv && !json) return TRN_OK;
  if (type->id == TRN_TYPE_TIMESTAMP)
    return formatted(w, value, w->spec->timestamp_format ? w->spec->timestamp_format : "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
                     out);
  if (type->id == TRN_TYPE_TIMESTAMP_NTZ) return formatted(w, value, "yyyy-MM-dd'T'HH:mm:ss.SSS", out);
  if (type->id == TRN_TYPE_DATE && w->spec->date_format) return formatted(w, value, w->spec->date_format, out);
  if (type->id == TRN_TYPE_BINARY) return spark__unimplemented(w->t, NOWHERE, w->error, "Writing binary values as text");
  if (!csv || type->id == TRN_TYPE_STRING) return TRN_OK;
  return spark__cast(w->t, value->expr, trn__type(TRN_TYPE_STRING), SPARK_CAST_LEGACY, NOWHERE, out, w->error);
}

static trn_status written(writing *w, size_t column, const trn_expr **out) {
  trn_status status = as_text(w, column, out);
  if (status || strcmp(w->spec->format, "csv") != 0 || is_partition(w, column)) return status;
  return may_be_special(w->spec, w->values[column].expr->type) ? csv_field(w, *out, out) : TRN_OK;
}

/* ---- JSON: lines of text that a function makes, so that numbers, times and bytes are as Spark has them ---- */

static bool makes_lines(const writing *w) {
  return strcmp(w->spec->format, "json") == 0 && spark__function_is_served("to_json");
}

static trn_status json_line(writing *w, const trn_expr **out) {
  spark_value *fields = TRN_NEW_N(w->t->arena, spark_value, 2 * w->count), row;
  size_t count = 0;
  trn_status status = fields ? TRN_OK : trn__no_memory(w->error);
  for (size_t i = 0; i < w->count && !status; i++) {
    const spark_value *value = &w->values[i];
    if (is_partition(w, i)) continue;
    spark_value *name = &fields[count++], *field = &fields[count++];
    *name = (spark_value){.name = value->name, .is_foldable = true, .is_literal = true, .expr = text(w, value->name)};
    *field = *value;
    if (!name->expr) return trn__no_memory(w->error);
    const char *form = value->expr->type->id == TRN_TYPE_DATE        ? w->spec->date_format
                       : value->expr->type->id == TRN_TYPE_TIMESTAMP ? w->spec->timestamp_format
                                                                     : NULL;
    if (form) status = formatted(w, value, form, &field->expr);
  }
  if (!status) status = spark__call_by_name(w->t, "named_struct", fields, count, NOWHERE, &row, w->error);
  if (!status) status = spark__call_by_name(w->t, "to_json", &row, 1, NOWHERE, &row, w->error);
  if (!status) *out = row.expr;
  return status;
}

/* The one column of lines, then the partition columns; they become what is written. */
static trn_status project_lines(writing *w, const trn_rel *input, const trn_rel **out) {
  size_t count = 1 + w->spec->partition_count;
  const trn_expr **exprs = TRN_NEW_N(w->t->arena, const trn_expr *, count);
  trn_column *columns = TRN_NEW_N(w->t->arena, trn_column, count);
  spark_value *values = TRN_NEW_N(w->t->arena, spark_value, count);
  if (!exprs || !columns || !values) return trn__no_memory(w->error);
  trn_status status = json_line(w, &exprs[0]);
  values[0].name = "value";
  for (size_t i = 1; i < count && !status; i++) {
    values[i] = w->values[w->places[i - 1]];
    exprs[i] = values[i].expr;
    status = partition_text(w, &exprs[i]);
  }
  if (status) return status;
  for (size_t i = 0; i < count; i++) {
    if (i) w->places[i - 1] = (uint32_t)i;
    columns[i] = (trn_column){.id = w->t->next_column++, .type = exprs[i]->type, .nullable = exprs[i]->nullable};
  }
  w->values = values;
  w->count = count;
  *out = trn__rel_project(w->t->arena, input, exprs, columns, count);
  return *out ? TRN_OK : trn__no_memory(w->error);
}

static trn_status project(writing *w, const trn_rel *input, const trn_rel **out) {
  if (makes_lines(w)) return project_lines(w, input, out);
  const trn_expr **exprs = TRN_NEW_N(w->t->arena, const trn_expr *, w->count);
  trn_column *columns = TRN_NEW_N(w->t->arena, trn_column, w->count);
  if (!exprs || !columns) return trn__no_memory(w->error);
  for (size_t i = 0; i < w->count; i++) {
    trn_status status = written(w, i, &exprs[i]);
    if (status) return status;
    columns[i] =
        (trn_column){.id = w->t->next_column++, .type = exprs[i]->type, .nullable = exprs[i]->nullable};
  }
  *out = trn__rel_project(w->t->arena, input, exprs, columns, w->count);
  return *out ? TRN_OK : trn__no_memory(w->error);
}

/* ---- the root ---- */

static trn_status root(writing *w, const trn_rel *input, const trn_rel **out) {
  trn_arena *arena = w->t->arena;
  const trn_column count = {.id = w->t->next_column++, .type = trn__type(TRN_TYPE_INT64)};
  const char **names = TRN_NEW_N(arena, const char *, w->count);
  bool lines = makes_lines(w); /* CSV of one column without quotes */
  trn_kv *options = TRN_NEW_N(arena, trn_kv, w->spec->option_count + 2);
  trn_rel *rel = trn__rel_create(arena, TRN_REL_WRITE, &input, 1, NULL, 0, &count, 1);
  if (!names || !options || !rel) return trn__no_memory(w->error);
  bool csv = strcmp(w->spec->format, "csv") == 0;
  for (size_t i = 0; i < w->count; i++) {
    names[i] = csv && !is_partition(w, i) ? csv_name(w, w->values[i].name) : w->values[i].name;
    if (!names[i]) return trn__no_memory(w->error);
  }
  for (size_t i = 0; i < w->spec->option_count; i++) {
    options[i].key = trn__arena_strdup(arena, w->spec->options[i].key);
    options[i].value = trn__arena_strdup(arena, w->spec->options[i].value);
    if (!options[i].key || !options[i].value) return trn__no_memory(w->error);
  }
  size_t option_count = w->spec->option_count;
  if (lines) {
    options[option_count++] = (trn_kv){"has_header", "false"};
    options[option_count++] = (trn_kv){"quote_style", "Never"};
  }
  rel->u.write.format = lines ? "csv" : trn__arena_strdup(arena, w->spec->format);
  rel->u.write.directory = trn__arena_strdup(arena, w->spec->directory);
  rel->u.write.options = options;
  rel->u.write.option_count = (uint32_t)option_count;
  rel->u.write.names = names;
  rel->u.write.partition_by = w->places;
  rel->u.write.partition_count = (uint32_t)w->spec->partition_count;
  const trn_scan_info info = {.struct_size = sizeof info,
                              .kind = TRN_SCAN_FILES,
                              .format = w->spec->format,
                              .paths = &w->spec->target,
                              .path_count = 1};
  const trn_scan_info *seen = w->spec->table ? w->spec->table : w->spec->target ? &info : NULL;
  trn_status status = seen ? trn_scan_label_create(seen, &rel->u.write.info) : TRN_OK;
  if (status == TRN_OK) status = trn__label_hold(arena, rel->u.write.info);
  trn_scan_label_unref(rel->u.write.info); /* the arena's stays */
  if (status) return trn__no_memory(w->error);
  *out = rel;
  return rel->u.write.format && rel->u.write.directory ? TRN_OK : trn__no_memory(w->error);
}

static trn_status translate(writing *w, const Spark__Connect__Relation *relation, const trn_rel **out,
                            const char *const **partitions) {
  spark_relation input;
  const trn_rel *rel = NULL;
  trn_status status = spark__relation(w->t, relation, &input, w->error);
  if (!status) status = spark__scope_values(w->t, input.scope, &w->values, &w->count, w->error);
  if (!status && w->spec->insert)
    status = spark__assign_columns(w->t, w->spec->insert, &w->values, &w->count, w->error);
  if (!status) status = find_places(w);
  if (!status && w->spec->partitions_last) status = move_partitions(w);
  if (!status && w->spec->keeps_partitions) status = copy_partitions(w);
  if (!status && strcmp(w->spec->format, "csv") != 0) status = check_names(w);
  if (!status) status = check_types(w);
  const char **names = status ? NULL : TRN_NEW_N(w->t->arena, const char *, w->spec->partition_count);
  if (!status && !names) status = trn__no_memory(w->error);
  for (size_t i = 0; i < w->spec->partition_count && !status; i++) names[i] = w->values[w->places[i]].name;
  *partitions = names;
  if (!status) status = project(w, input.rel, &rel);
  return status ? status : root(w, rel, out);
}

trn_status spark__translate_write(spark_translator *t, const Spark__Connect__Relation *relation,
                                  const spark_write_spec *spec, trn_plan **out, const char *const **partitions,
                                  trn_error **error) {
  writing w = {.t = t, .spec = spec, .error = error};
  const trn_rel *rel = NULL;
  *out = NULL;
  trn_status status = translate(&w, relation, &rel, partitions);
  trn_field *field = status ? NULL : TRN_NEW(t->arena, trn_field);
  if (!status && !field) status = trn__no_memory(error);
  if (field) *field = (trn_field){.name = "count", .type = trn__type(TRN_TYPE_INT64)};
  trn_arena *arena = t->arena;
  t->arena = NULL;
  if (status) {
    trn__arena_unref(arena);
    return status;
  }
  status = trn__plan_create(arena, rel, field, t->next_column, t->timezone, t->sql, out);
  if (status == TRN_OK && (status = spark__plan_functions(t, *out))) {
    trn_plan_unref(*out);
    *out = NULL;
  }
  return status ? trn_error_set(error, status, NULL, "The plan could not be made.") : TRN_OK;
}
