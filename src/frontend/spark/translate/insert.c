/* INSERT: the query's columns become the table's, by place or by name, with defaults for those that are missing. */
#include "frontend/spark/translate/insert.h"

#include "frontend/spark/translate/scope.h"

static const trn_position NOWHERE = {-1, -1};

typedef struct assignment {
  spark_translator *t;
  const spark_insert *insert;
  const spark_value *given;
  size_t given_count;
  trn_error **error;
} assignment;

uint32_t spark__insert_column(const spark_translator *t, const spark_insert *insert, const char *name) {
  for (uint32_t i = 0; i < insert->field_count; i++)
    if (spark__name_equal(t, insert->fields[i].name, name)) return i;
  return UINT32_MAX;
}

/* Its place among the PARTITION items with a value; SIZE_MAX: none. */
static size_t static_place(const spark_translator *t, const spark_insert *insert, const char *name) {
  for (size_t i = 0; i < insert->static_count; i++)
    if (insert->static_values[i] && spark__name_equal(t, insert->static_names[i], name)) return i;
  return SIZE_MAX;
}

bool spark__is_static(const spark_translator *t, const spark_insert *insert, const char *name) {
  return static_place(t, insert, name) != SIZE_MAX;
}

/* ---- errors ---- */

static const char *quoted_list(assignment *a, bool of_table) {
  trn_strbuf out = {0};
  size_t count = of_table ? a->insert->field_count : a->given_count;
  for (size_t i = 0, shown = 0; i < count; i++) {
    const char *name = of_table ? a->insert->fields[i].name : a->given[i].name;
    if (of_table && a->insert->column_count) {
      bool listed = false;
      for (size_t k = 0; k < a->insert->column_count; k++) listed |= spark__name_equal(a->t, a->insert->columns[k], name);
      if (!listed) continue;
    }
    const char *quoted = spark__quote(a->t, name);
    trn__strbuf_printf(&out, "%s%s", shown++ ? ", " : "", quoted ? quoted : "");
  }
  return spark__finish_text(a->t, &out);
}

static trn_status wrong_count(assignment *a, bool too_many) {
  const char *table = quoted_list(a, true), *data = quoted_list(a, false);
  if (!table || !data) return trn__no_memory(a->error);
  return spark__error(a->t, a->error, TRN_INVALID_ARGUMENT,
                      too_many ? "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"
                               : "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
                      NOWHERE, "tableName", a->insert->table, "tableColumns", table, "dataColumns", data, NULL);
}

static trn_status twice(assignment *a, const char *name) {
  const char *quoted = spark__quote(a->t, name);
  if (!quoted) return trn__no_memory(a->error);
  return spark__error(a->t, a->error, TRN_INVALID_ARGUMENT, "COLUMN_ALREADY_EXISTS", NOWHERE, "columnName", quoted, NULL);
}

static trn_status unknown_column(assignment *a, const char *name) {
  const char *quoted = spark__quote(a->t, name), *all;
  spark_insert whole = *a->insert;
  whole.column_count = 0;
  assignment table = *a;
  table.insert = &whole;
  all = quoted_list(&table, true);
  if (!quoted || !all) return trn__no_memory(a->error);
  return spark__error(a->t, a->error, TRN_INVALID_ARGUMENT, "UNRESOLVED_COLUMN.WITH_SUGGESTION", NOWHERE, "objectName",
                      quoted, "proposal", all, NULL);
}

/* ---- what goes where ---- */

static trn_status check_list(assignment *a) {
  const spark_insert *insert = a->insert;
  for (size_t i = 0; i < insert->column_count; i++) {
    if (spark__insert_column(a->t, insert, insert->columns[i]) == UINT32_MAX) return unknown_column(a, insert->columns[i]);
    for (size_t k = 0; k < i; k++)
      if (spark__name_equal(a->t, insert->columns[i], insert->columns[k])) return twice(a, insert->columns[i]);
  }
  return TRN_OK;
}

/* places[i]: which of the rows' columns goes to the table's column i; SIZE_MAX: none does. */
static trn_status by_place(assignment *a, size_t *places) {
  const spark_insert *insert = a->insert;
  size_t wanted = 0;
  for (uint32_t i = 0; i < insert->field_count; i++) {
    places[i] = SIZE_MAX;
    if (spark__is_static(a->t, insert, insert->fields[i].name)) continue;
    if (!insert->column_count) places[i] = wanted++;
  }
  for (size_t k = 0; k < insert->column_count; k++) {
    uint32_t at = spark__insert_column(a->t, insert, insert->columns[k]);
    if (!spark__is_static(a->t, insert, insert->fields[at].name)) places[at] = wanted++;
  }
  return a->given_count == wanted ? TRN_OK : wrong_count(a, a->given_count > wanted);
}

static trn_status extra_columns(assignment *a, const char *name) {
  const char *quoted = spark__quote(a->t, name);
  if (!quoted) return trn__no_memory(a->error);
  return spark__error(a->t, a->error, TRN_INVALID_ARGUMENT, "INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_COLUMNS", NOWHERE,
                      "tableName", a->insert->table, "extraColumns", quoted, NULL);
}

static trn_status by_name(assignment *a, size_t *places) {
  const spark_insert *insert = a->insert;
  for (uint32_t i = 0; i < insert->field_count; i++) {
    places[i] = SIZE_MAX;
    for (size_t k = 0; k < a->given_count; k++)
      if (spark__name_equal(a->t, a->given[k].name, insert->fields[i].name)) {
        if (places[i] != SIZE_MAX) return twice(a, a->given[k].name);
        places[i] = k;
      }
  }
  for (size_t k = 0; k < a->given_count; k++)
    if (spark__insert_column(a->t, insert, a->given[k].name) == UINT32_MAX) return extra_columns(a, a->given[k].name);
  return TRN_OK;
}

/* ---- values ---- */

/* Whether Spark's ANSI store assignment takes `from` for `to`. */
static bool may_store(const trn_type *from, const trn_type *to, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX) return false;
  if (from->id == TRN_TYPE_NULL || trn__type_same_shape(from, to)) return true;
  if (from->id >= TRN_TYPE_ARRAY || to->id >= TRN_TYPE_ARRAY) {
    if (from->id != to->id || from->field_count != to->field_count) return false;
    for (uint32_t i = 0; i < from->field_count; i++)
      if (!may_store(from->fields[i].type, to->fields[i].type, depth + 1)) return false;
    return true;
  }
  if (to->id == TRN_TYPE_STRING) return from->id != TRN_TYPE_BINARY || to->variant == TRN_STRING_PLAIN;
  if (trn__type_is_numeric(from) && trn__type_is_numeric(to)) return true;
  bool from_time = from->id == TRN_TYPE_DATE || from->id == TRN_TYPE_TIMESTAMP || from->id == TRN_TYPE_TIMESTAMP_NTZ;
  bool to_time = to->id == TRN_TYPE_DATE || to->id == TRN_TYPE_TIMESTAMP || to->id == TRN_TYPE_TIMESTAMP_NTZ;
  if (from_time && to_time) return true;
  return from->id == to->id && from->id != TRN_TYPE_STRING;
}

/* char(n) is padded, both lengths are checked: what is longer may only have blanks at its end. */
static trn_status limited_text(assignment *a, const trn_type *type, const trn_expr **expr) {
  trn_arena *arena = a->t->arena;
  spark_value value = {.expr = *expr, .name = ""}, size, trimmed, trimmed_size, padded;
  trn_expr *limit = trn__expr_int(arena, trn__type(TRN_TYPE_INT32), type->length);
  const char *text = trn__arena_printf(arena, "Exceeds char/varchar type length limitation: %d.", (int)type->length);
  trn_expr *said = text ? trn__expr_string(arena, text, strlen(text)) : NULL;
  if (!limit || !said) return trn__no_memory(a->error);
  spark_value args[3] = {value, {.expr = limit, .name = "", .is_foldable = true}, {.name = ""}};
  trn_status status = spark__call_by_name(a->t, "char_length", &value, 1, NOWHERE, &size, a->error);
  if (!status) status = spark__call_by_name(a->t, "rtrim", &value, 1, NOWHERE, &trimmed, a->error);
  if (!status) status = spark__call_by_name(a->t, "char_length", &trimmed, 1, NOWHERE, &trimmed_size, a->error);
  if (!status) status = spark__call_by_name(a->t, "rpad", args, 2, NOWHERE, &padded, a->error);
  const trn_expr *raise_args[] = {limit};
  trn_expr *raises = trn__expr_call(arena, TRN_HOME_LIBRARY, "trn.raise_limit_length", trn__type(TRN_TYPE_NULL), true,
                                    raise_args, 1);
  if (raises) raises->u.call.volatility = 2;
  trn_expr *raised = raises ? trn__expr_cast(arena, raises, trn__type(TRN_TYPE_STRING), false) : NULL;
  if (status) return status;
  const trn_expr *fits[] = {size.expr, limit}, *fits_trimmed[] = {trimmed_size.expr, limit};
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  trn_expr *short_enough = raised ? trn__expr_call(arena, TRN_HOME_NATIVE, "<=", boolean, true, fits, 2) : NULL;
  trn_expr *blanks = raised ? trn__expr_call(arena, TRN_HOME_NATIVE, ">", boolean, true, fits_trimmed, 2) : NULL;
  if (!short_enough || !blanks) return trn__no_memory(a->error);
  bool is_char = type->variant == TRN_STRING_CHAR;
  const trn_expr *cases[] = {short_enough, is_char ? padded.expr : *expr, blanks, raised, padded.expr};
  *expr = trn__expr_create(arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), true, cases, 5);
  return *expr ? TRN_OK : trn__no_memory(a->error);
}

static trn_status stored(assignment *a, const trn_field *field, const spark_value *value, bool checked,
                         const trn_expr **out) {
  const trn_type *from = value->expr->type, *to = field->type;
  if (checked && !may_store(from, to, 0)) {
    const char *name = spark__quote(a->t, field->name), *source = spark__quoted_type(a->t, from), *target = spark__quoted_type(a->t, to);
    if (!name || !source || !target) return trn__no_memory(a->error);
    return spark__error(a->t, a->error, TRN_INVALID_ARGUMENT, "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", NOWHERE,
                        "tableName", a->insert->table, "colName", name, "srcType", source, "targetType", target, NULL);
  }
  bool limited = to->id == TRN_TYPE_STRING && to->variant != TRN_STRING_PLAIN;
  const trn_type *plain = limited ? trn__type(TRN_TYPE_STRING) : to;
  trn_status status = spark__cast(a->t, value->expr, plain, SPARK_CAST_ANSI, NOWHERE, out, a->error);
  return status || !limited ? status : limited_text(a, to, out);
}

/* What a column gets that the rows do not have. */
static trn_status missing(assignment *a, uint32_t column, const trn_expr **out) {
  const trn_field *field = &a->insert->fields[column];
  const char *text = a->insert->defaults ? a->insert->defaults[column] : NULL;
  size_t place = static_place(a->t, a->insert, field->name);
  Spark__Connect__Expression *expression = place != SIZE_MAX ? a->insert->static_values[place] : NULL;
  trn_status status = TRN_OK;
  if (!expression && text) status = spark__sql_parse_expression(a->t->arena, text, strlen(text), NULL, &expression, a->error);
  if (status) return status;
  if (!expression) {
    *out = trn__expr_null(a->t->arena, field->type);
    return *out ? TRN_OK : trn__no_memory(a->error);
  }
  spark_context context;
  spark_scope *nothing = spark__scope_create(a->t, NULL, 0);
  spark_value value;
  if (!nothing) return trn__no_memory(a->error);
  spark__context_begin(a->t, &context, nothing);
  status = spark__expression(a->t, expression, &value, a->error);
  spark__context_end(a->t, &context);
  return status ? status : stored(a, field, &value, place == SIZE_MAX, out);
}

/* saveAsTable says what does not fit in words of its own. */
static trn_status check_save(assignment *a) {
  const spark_insert *insert = a->insert;
  trn_strbuf table = {0}, rows = {0}, names = {0};
  trn_status status = TRN_OK;
  for (uint32_t i = 0; i < insert->field_count; i++) {
    trn__strbuf_printf(&table, "%s%s:", i ? "," : "struct<", insert->fields[i].name);
    spark__type_simple(&table, insert->fields[i].type);
  }
  for (size_t i = 0; i < a->given_count; i++) {
    trn__strbuf_printf(&rows, "%s%s:", i ? "," : "struct<", a->given[i].name);
    spark__type_simple(&rows, a->given[i].expr->type);
    trn__strbuf_printf(&names, "%s%s", i ? ", " : "", a->given[i].name);
  }
  trn_strbuf plain = {0};
  for (const char *c = insert->table; *c; c++)
    if (*c != '`') trn__strbuf_putc(&plain, *c);
  if (table.failed || rows.failed || names.failed || plain.failed) status = trn__no_memory(a->error);
  else if (a->given_count != insert->field_count)
    status = trn_error_set(a->error, TRN_INVALID_ARGUMENT, NULL,
                           "The column number of the existing table %s (%s>) doesn't match the data schema (%s>).",
                           plain.data, table.data ? table.data : "struct<", rows.data ? rows.data : "struct<");
  for (uint32_t i = 0; i < insert->field_count && !status; i++) {
    size_t k = 0;
    while (k < a->given_count && !spark__name_equal(a->t, a->given[k].name, insert->fields[i].name)) k++;
    if (k == a->given_count)
      status = trn_error_set(a->error, TRN_INVALID_ARGUMENT, NULL, "Cannot resolve '%s' given input columns: [%s].",
                             insert->fields[i].name, names.data ? names.data : "");
  }
  trn__strbuf_finish(&table), trn__strbuf_finish(&rows), trn__strbuf_finish(&names), trn__strbuf_finish(&plain);
  return status;
}

trn_status spark__assign_columns(spark_translator *t, const spark_insert *insert, spark_value **values, size_t *count,
                                 trn_error **error) {
  assignment a = {.t = t, .insert = insert, .given = *values, .given_count = *count, .error = error};
  spark_value *out = TRN_NEW_N(t->arena, spark_value, insert->field_count);
  size_t *places = TRN_NEW_N(t->arena, size_t, insert->field_count);
  if (!out || !places) return trn__no_memory(error);
  trn_status status = check_list(&a);
  if (!status && insert->is_save) status = check_save(&a);
  if (!status) status = insert->by_name ? by_name(&a, places) : by_place(&a, places);
  for (uint32_t i = 0; i < insert->field_count && !status; i++) {
    out[i] = (spark_value){.name = insert->fields[i].name};
    status = places[i] == SIZE_MAX ? missing(&a, i, &out[i].expr)
                                   : stored(&a, &insert->fields[i], &a.given[places[i]], true, &out[i].expr);
  }
  *values = out;
  *count = insert->field_count;
  return status;
}
