/* Session variables: a map from names to constants, and what a name means as one of them. */
#include "frontend/spark/translate/variable.h"
#include "frontend/spark/sql/sql.h"
#include <pthread.h>
#include <strings.h>

typedef struct variable {
  trn_arena *arena; /* its memory, this struct too; one reference */
  const char *name;
  const char *default_text; /* or NULL */
  const trn_expr *value;    /* LITERAL */
} variable;

struct spark_variables {
  pthread_mutex_t mu;
  trn_vec items; /* variable; guarded by mu */
};

spark_variables *spark__variables_create(void) {
  spark_variables *variables = calloc(1, sizeof *variables);
  if (variables && pthread_mutex_init(&variables->mu, NULL) != 0) {
    free(variables);
    variables = NULL;
  }
  return variables;
}

static void free_variable(variable *item) {
  if (item) trn__arena_unref(item->arena);
}

void spark__variables_destroy(spark_variables *variables) {
  if (!variables) return;
  for (size_t i = 0; i < variables->items.count; i++) free_variable(variables->items.items[i]);
  trn__vec_finish(&variables->items);
  pthread_mutex_destroy(&variables->mu);
  free(variables);
}

/* ---- copies ---- */
static const trn_expr *copy_literal(trn_arena *arena, const trn_expr *value, const trn_type *type, unsigned depth) {
  if (value->kind != TRN_EXPR_LITERAL || depth > TRN_TYPE_DEPTH_MAX) return NULL;
  trn_expr *copy = trn__expr_create(arena, TRN_EXPR_LITERAL, type, value->u.literal.is_null, NULL, 0);
  if (!copy) return NULL;
  copy->u.literal = value->u.literal;
  copy->position = (trn_position){-1, -1};
  const trn_literal *from = &value->u.literal;
  trn_literal *to = &copy->u.literal;
  if (from->is_null) return copy;
  if (type->id == TRN_TYPE_STRING || type->id == TRN_TYPE_BINARY) {
    to->value.bytes.data = trn__arena_str(arena, from->value.bytes.data, from->value.bytes.size);
    return to->value.bytes.data ? copy : NULL;
  }
  if (type->id != TRN_TYPE_ARRAY && type->id != TRN_TYPE_MAP && type->id != TRN_TYPE_STRUCT) return copy;
  uint32_t count = from->value.nested.count;
  const trn_expr **items = TRN_NEW_N(arena, const trn_expr *, count);
  if (!items) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t field = type->id == TRN_TYPE_ARRAY ? 0 : type->id == TRN_TYPE_MAP ? i % 2 : i;
    if (field >= type->field_count) return NULL;
    items[i] = copy_literal(arena, from->value.nested.items[i], type->fields[field].type, depth + 1);
    if (!items[i]) return NULL;
  }
  to->value.nested.items = items;
  return copy;
}

static const trn_expr *copy_value(trn_arena *arena, const trn_expr *value) {
  const trn_type *type = trn__type_copy(arena, value->type);
  return type ? copy_literal(arena, value, type, 0) : NULL;
}

static variable *make(const char *name, const trn_expr *value, const char *default_text) {
  trn_arena *arena = trn__arena_create(0);
  variable *item = arena ? TRN_NEW(arena, variable) : NULL;
  if (item) {
    item->arena = arena;
    item->name = trn__arena_strdup(arena, name);
    item->default_text = default_text ? trn__arena_strdup(arena, default_text) : NULL;
    item->value = copy_value(arena, value);
    if (item->name && item->value && (item->default_text || !default_text)) return item;
  }
  trn__arena_unref(arena);
  return NULL;
}

/* ---- the map ---- */
/* locks: variables->mu held. SIZE_MAX: none. */
static size_t find(const spark_variables *variables, const char *name) {
  for (size_t i = 0; i < variables->items.count; i++)
    if (strcasecmp(((const variable *)variables->items.items[i])->name, name) == 0) return i;
  return SIZE_MAX;
}

trn_status spark__variable_declare(spark_variables *variables, const char *name, const trn_expr *value,
                                   const char *default_text, bool replace, trn_error **error) {
  variable *item = make(name, value, default_text), *old = item;
  trn_status status = TRN_OK;
  if (!item) return trn__no_memory(error);
  pthread_mutex_lock(&variables->mu);
  size_t at = find(variables, name);
  if (at != SIZE_MAX && replace) {
    old = variables->items.items[at];
    variables->items.items[at] = item;
  } else if (at != SIZE_MAX) {
    status = TRN_ALREADY_EXISTS;
  } else if (variables->items.count >= TRN_VARIABLES_MAX) {
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "More variables than TRN_VARIABLES_MAX (%u).",
                           TRN_VARIABLES_MAX);
  } else if (trn__vec_push(&variables->items, item)) {
    old = NULL;
  } else {
    status = trn__no_memory(error);
  }
  pthread_mutex_unlock(&variables->mu);
  free_variable(old);
  return status;
}

trn_status spark__variable_set(spark_variables *variables, const char *name, const trn_expr *value,
                               trn_error **error) {
  trn_status status = TRN_OK;
  variable *old = NULL;
  pthread_mutex_lock(&variables->mu);
  size_t at = find(variables, name);
  if (at != SIZE_MAX) {
    variable *before = variables->items.items[at], *item = make(before->name, value, before->default_text);
    if (item) variables->items.items[at] = item, old = before;
    else status = trn__no_memory(error);
  }
  pthread_mutex_unlock(&variables->mu);
  free_variable(old);
  return status;
}

bool spark__variable_drop(spark_variables *variables, const char *name) {
  variable *old = NULL;
  pthread_mutex_lock(&variables->mu);
  size_t at = find(variables, name);
  if (at != SIZE_MAX) {
    old = variables->items.items[at];
    variables->items.items[at] = variables->items.items[--variables->items.count];
  }
  pthread_mutex_unlock(&variables->mu);
  free_variable(old);
  return old != NULL;
}

trn_status spark__variable_get(spark_variables *variables, trn_arena *arena, const char *name, const trn_expr **value,
                               const char **default_text, trn_error **error) {
  trn_status status = TRN_OK;
  *value = NULL;
  if (default_text) *default_text = NULL;
  pthread_mutex_lock(&variables->mu);
  size_t at = find(variables, name);
  if (at != SIZE_MAX) {
    const variable *item = variables->items.items[at];
    *value = copy_value(arena, item->value);
    const char *text = default_text && item->default_text ? trn__arena_strdup(arena, item->default_text) : NULL;
    if (!*value || (default_text && item->default_text && !text)) status = trn__no_memory(error);
    if (default_text) *default_text = text;
  }
  pthread_mutex_unlock(&variables->mu);
  return status;
}

trn_status spark__variables_copy(spark_variables *from, spark_variables *to, trn_error **error) {
  trn_status status = TRN_OK;
  pthread_mutex_lock(&from->mu);
  for (size_t i = 0; i < from->items.count && !status; i++) {
    const variable *item = from->items.items[i];
    status = spark__variable_declare(to, item->name, item->value, item->default_text, true, error);
  }
  pthread_mutex_unlock(&from->mu);
  return status;
}

/* ---- names ---- */
size_t spark__variable_qualifiers(char *const *parts, size_t count) {
  if (count == 1) return 0;
  if (count == 2 && strcasecmp(parts[0], "session") == 0) return 1;
  if (count == 3 && strcasecmp(parts[0], "system") == 0 && strcasecmp(parts[1], "session") == 0) return 2;
  return SIZE_MAX;
}

static bool has(spark_variables *variables, const char *name) {
  pthread_mutex_lock(&variables->mu);
  bool found = find(variables, name) != SIZE_MAX;
  pthread_mutex_unlock(&variables->mu);
  return found;
}

const spark_locals *spark__local_find(const spark_locals *locals, char *const *parts, size_t count, size_t *used) {
  for (*used = count < 2 ? count : 2; *used > 0; (*used)--)
    for (const spark_locals *at = locals; at; at = at->outer)
      if ((*used == 1 || strcasecmp(at->label, parts[0]) == 0) && has(at->variables, parts[*used - 1])) return at;
  return NULL;
}

/* As Spark names a variable inside of an expression: by where it is and what it is worth. */
static const char *reference_name(spark_translator *t, const char *place, const char *name, const trn_expr *value) {
  const char *text = spark__literal_name(t, value);
  bool is_text = value->type->id == TRN_TYPE_STRING && !value->u.literal.is_null;
  if (!text) return NULL;
  if (value->u.literal.is_null && value->type->id != TRN_TYPE_NULL) {
    trn_strbuf type = {0};
    spark__type_sql(&type, value->type);
    const char *type_text = spark__finish_text(t, &type);
    text = type_text ? trn__arena_printf(t->arena, "CAST(NULL AS %s)", type_text) : NULL;
    if (!text) return NULL;
  }
  const char *suffix = is_text ? "'" : "";
  if (!value->u.literal.is_null && value->type->id == TRN_TYPE_INT64) suffix = "L";
  if (!value->u.literal.is_null && value->type->id == TRN_TYPE_FLOAT64) suffix = "D";
  return trn__arena_printf(t->arena, "variablereference(%s.%s=%s%s%s)", place, name, is_text ? "'" : "", text,
                           suffix);
}

/* `used` of the parts name a variable; the others fields inside of it. */
static trn_status take(spark_translator *t, spark_variables *variables, const char *label, char *const *parts,
                       size_t count, size_t used, trn_position position, spark_value *out, bool *found,
                       trn_error **error) {
  const char *name = parts[used - 1];
  const trn_expr *value = NULL;
  trn_status status = spark__variable_get(variables, t->arena, name, &value, NULL, error);
  if (status != TRN_OK || !value) return status;
  *found = true;
  *out = (spark_value){.expr = value, .is_foldable = true, .variable_name = name};
  if (used == count) {
    const char *place = "system.session";
    if (label) {
      char *copy = (char *)label, *quoted = spark__sql_quote_path(t->arena, &copy, 1);
      place = quoted ? trn__arena_printf(t->arena, "local.%s", quoted) : NULL;
    }
    out->name = place ? reference_name(t, place, name, value) : NULL;
    return out->name ? TRN_OK : trn__no_memory(error);
  }
  out->variable_name = NULL;
  out->is_alias = true;
  return spark__nested_fields(t, value, parts + used, count - used, position, &out->expr, &out->name, error);
}

trn_status spark__resolve_variable(spark_translator *t, char *const *parts, size_t count, trn_position position,
                                   spark_value *out, bool *found, trn_error **error) {
  *found = false;
  spark_variables *variables = t->catalog ? spark__catalog_variables(t->catalog) : NULL;
  if (!variables || spark__state(t)->view_catalog) return TRN_OK;
  size_t local = 0;
  const spark_locals *at = spark__local_find(t->locals, parts, count, &local);
  trn_status status = TRN_OK;
  if (at) status = take(t, at->variables, at->label, parts, count, local, position, out, found, error);
  for (size_t used = count < 3 ? count : 3; used > 0 && !*found && status == TRN_OK; used--)
    if (spark__variable_qualifiers(parts, used) != SIZE_MAX)
      status = take(t, variables, NULL, parts, count, used, position, out, found, error);
  return status;
}

/* ---- texts for IDENTIFIER ---- */
static const char *text_variable(void *user, const char *name, const char **other) {
  spark_text_names *names = user;
  const trn_expr *value = NULL;
  char **parts = NULL;
  size_t count = 0, used = 0;
  if (spark__sql_parse_multipart_identifier(names->arena, name, strlen(name), NULL, &parts, &count, NULL) || !count) return NULL;
  const spark_locals *local = spark__local_find(names->locals, parts, count, &used);
  spark_variables *home = local && used == count ? local->variables : names->variables;
  if (!home || (home == names->variables && spark__variable_qualifiers(parts, count) == SIZE_MAX)) return NULL;
  if (spark__variable_get(home, names->arena, parts[count - 1], &value, NULL, NULL) || !value) return NULL;
  if (value->type->id != TRN_TYPE_STRING) {
    trn_strbuf text = {0};
    spark__type_simple(&text, value->type);
    if (!text.failed && text.data) *other = trn__arena_strdup(names->arena, text.data);
    trn__strbuf_finish(&text);
    return NULL;
  }
  if (value->u.literal.is_null) {
    *other = "NULL";
    return NULL;
  }
  return trn__arena_str(names->arena, value->u.literal.value.bytes.data, value->u.literal.value.bytes.size);
}

trn_status spark__text_names(spark_text_names *names, const Spark__Connect__SQL *sql, spark_sql_options *options,
                             trn_error **error) {
  size_t named = sql ? sql->n_named_arguments : 0, all = named + (sql ? sql->n_pos_arguments : 0);
  trn_kv *list = TRN_NEW_N(names->arena, trn_kv, all);
  if (!list) return trn__no_memory(error);
  options->text_parameters = list;
  options->text_variable = text_variable;
  options->user = names;
  for (size_t i = 0; i < all; i++) {
    const Spark__Connect__Expression *value =
        i < named ? sql->named_arguments[i]->value : sql->pos_arguments[i - named];
    if (!value || value->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL ||
        value->literal->literal_type_case != SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_STRING)
      continue;
    const char *key = i < named ? sql->named_arguments[i]->key : trn__arena_printf(names->arena, "%zu", i - named);
    if (!key) return trn__no_memory(error);
    list[options->text_parameter_count++] = (trn_kv){key, value->literal->string};
  }
  return TRN_OK;
}

/* ---- messages ---- */
typedef Spark__Connect__Expression__Literal literal_message;

static trn_status to_proto(spark_translator *t, const trn_expr *value, unsigned depth, literal_message **out,
                           trn_error **error);

static trn_status items_to_proto(spark_translator *t, const trn_expr *value, uint32_t first, uint32_t step,
                                 unsigned depth, literal_message ***out, size_t *out_count, trn_error **error) {
  const trn_literal *literal = &value->u.literal;
  *out_count = literal->value.nested.count / step;
  *out = TRN_NEW_N(t->arena, literal_message *, *out_count);
  if (!*out) return trn__no_memory(error);
  for (size_t i = 0; i < *out_count; i++) {
    trn_status status = to_proto(t, literal->value.nested.items[i * step + first], depth + 1, &(*out)[i], error);
    if (status != TRN_OK) return status;
  }
  return TRN_OK;
}

static trn_status nested_to_proto(spark_translator *t, const trn_expr *value, unsigned depth, literal_message *out,
                                  trn_error **error) {
  const trn_type *type = value->type;
  if (type->id == TRN_TYPE_ARRAY) {
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_ARRAY;
    out->array = TRN_NEW(t->arena, Spark__Connect__Expression__Literal__Array);
    if (!out->array) return trn__no_memory(error);
    spark__connect__expression__literal__array__init(out->array);
    out->array->element_type = spark__type_to_proto(t->arena, type->fields[0].type);
    return items_to_proto(t, value, 0, 1, depth, &out->array->elements, &out->array->n_elements, error);
  }
  if (type->id == TRN_TYPE_MAP) {
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_MAP;
    Spark__Connect__Expression__Literal__Map *map = out->map =
        TRN_NEW(t->arena, Spark__Connect__Expression__Literal__Map);
    if (!map) return trn__no_memory(error);
    spark__connect__expression__literal__map__init(map);
    map->key_type = spark__type_to_proto(t->arena, type->fields[0].type);
    map->value_type = spark__type_to_proto(t->arena, type->fields[1].type);
    trn_status status = items_to_proto(t, value, 0, 2, depth, &map->keys, &map->n_keys, error);
    return status ? status : items_to_proto(t, value, 1, 2, depth, &map->values, &map->n_values, error);
  }
  out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_STRUCT;
  out->struct_ = TRN_NEW(t->arena, Spark__Connect__Expression__Literal__Struct);
  if (!out->struct_) return trn__no_memory(error);
  spark__connect__expression__literal__struct__init(out->struct_);
  out->struct_->struct_type = spark__type_to_proto(t->arena, type);
  return items_to_proto(t, value, 0, 1, depth, &out->struct_->elements, &out->struct_->n_elements, error);
}

static trn_status decimal_to_proto(spark_translator *t, const trn_expr *value, literal_message *out,
                                   trn_error **error) {
  Spark__Connect__Expression__Literal__Decimal *decimal = out->decimal =
      TRN_NEW(t->arena, Spark__Connect__Expression__Literal__Decimal);
  const char *text = spark__literal_name(t, value);
  if (!decimal || !text) return trn__no_memory(error);
  spark__connect__expression__literal__decimal__init(decimal);
  decimal->value = trn__arena_strdup(t->arena, text);
  decimal->_precision_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___PRECISION_PRECISION;
  decimal->precision = value->type->precision;
  decimal->_scale_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___SCALE_SCALE;
  decimal->scale = value->type->scale;
  return decimal->value ? TRN_OK : trn__no_memory(error);
}

static trn_status calendar_to_proto(spark_translator *t, const trn_literal *literal, literal_message *out,
                                    trn_error **error) {
  out->calendar_interval = TRN_NEW(t->arena, Spark__Connect__Expression__Literal__CalendarInterval);
  if (!out->calendar_interval) return trn__no_memory(error);
  spark__connect__expression__literal__calendar_interval__init(out->calendar_interval);
  out->calendar_interval->months = literal->value.interval.months;
  out->calendar_interval->days = literal->value.interval.days;
  out->calendar_interval->microseconds = literal->value.interval.nanos / 1000;
  return TRN_OK;
}

static trn_status time_to_proto(spark_translator *t, const trn_expr *value, literal_message *out, trn_error **error) {
  out->time = TRN_NEW(t->arena, Spark__Connect__Expression__Literal__Time);
  if (!out->time) return trn__no_memory(error);
  spark__connect__expression__literal__time__init(out->time);
  out->time->nano = value->u.literal.value.integer;
  out->time->_precision_case = SPARK__CONNECT__EXPRESSION__LITERAL__TIME___PRECISION_PRECISION;
  out->time->precision = value->type->precision;
  return TRN_OK;
}

static trn_status to_proto(spark_translator *t, const trn_expr *value, unsigned depth, literal_message **result,
                           trn_error **error) {
  literal_message *out = *result = TRN_NEW(t->arena, literal_message);
  const trn_literal *literal = &value->u.literal;
  if (!out || depth > TRN_TYPE_DEPTH_MAX) return trn__no_memory(error);
  spark__connect__expression__literal__init(out);
  if (literal->is_null || value->type->id == TRN_TYPE_INTERVAL_DAY_TIME ||
      value->type->id == TRN_TYPE_INTERVAL_YEAR_MONTH) {
    out->data_type = spark__type_to_proto(t->arena, value->type);
    if (!out->data_type) return trn__no_memory(error);
  }
  if (literal->is_null) {
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_NULL;
    out->null = out->data_type;
    out->data_type = NULL;
    return TRN_OK;
  }
#define SET(NAME, member, VALUE)                                                                                       \
  (out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_##NAME, out->member = (VALUE))
  int64_t integer = literal->value.integer;
  switch ((trn_type_id)value->type->id) {
  case TRN_TYPE_BOOL: SET(BOOLEAN, boolean, literal->value.boolean); return TRN_OK;
  case TRN_TYPE_INT8: SET(BYTE, byte, (int32_t)integer); return TRN_OK;
  case TRN_TYPE_INT16: SET(SHORT, short_, (int32_t)integer); return TRN_OK;
  case TRN_TYPE_INT32: SET(INTEGER, integer, (int32_t)integer); return TRN_OK;
  case TRN_TYPE_INT64: SET(LONG, long_, integer); return TRN_OK;
  case TRN_TYPE_FLOAT32: SET(FLOAT, float_, (float)literal->value.number); return TRN_OK;
  case TRN_TYPE_FLOAT64: SET(DOUBLE, double_, literal->value.number); return TRN_OK;
  case TRN_TYPE_DATE: SET(DATE, date, (int32_t)integer); return TRN_OK;
  case TRN_TYPE_TIMESTAMP: SET(TIMESTAMP, timestamp, integer); return TRN_OK;
  case TRN_TYPE_TIMESTAMP_NTZ: SET(TIMESTAMP_NTZ, timestamp_ntz, integer); return TRN_OK;
  case TRN_TYPE_INTERVAL_YEAR_MONTH: SET(YEAR_MONTH_INTERVAL, year_month_interval, (int32_t)integer); return TRN_OK;
  case TRN_TYPE_INTERVAL_DAY_TIME: SET(DAY_TIME_INTERVAL, day_time_interval, integer); return TRN_OK;
  case TRN_TYPE_INTERVAL_CALENDAR:
    SET(CALENDAR_INTERVAL, calendar_interval, NULL);
    return calendar_to_proto(t, literal, out, error);
  case TRN_TYPE_TIME: SET(TIME, time, NULL); return time_to_proto(t, value, out, error);
  case TRN_TYPE_DECIMAL: SET(DECIMAL, decimal, NULL); return decimal_to_proto(t, value, out, error);
  case TRN_TYPE_STRING: {
    char *text = trn__arena_str(t->arena, literal->value.bytes.data, literal->value.bytes.size);
    SET(STRING, string, text);
    return text ? TRN_OK : trn__no_memory(error);
  }
  case TRN_TYPE_BINARY:
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BINARY;
    out->binary.data = (uint8_t *)literal->value.bytes.data;
    out->binary.len = literal->value.bytes.size;
    return TRN_OK;
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT: return nested_to_proto(t, value, depth, out, error);
  default: return spark__unimplemented(t, (trn_position){-1, -1}, error, "A value of this type as a parameter");
  }
#undef SET
}

trn_status spark__literal_to_proto(spark_translator *t, const trn_expr *literal, literal_message **out,
                                   trn_error **error) {
  return to_proto(t, literal, 0, out, error);
}
