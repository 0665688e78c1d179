/* Data types and table schemas. */
#include "frontend/spark/sql/parser.h"

typedef enum simple_type {
  T_NULL,
  T_BINARY,
  T_BOOLEAN,
  T_BYTE,
  T_SHORT,
  T_INTEGER,
  T_LONG,
  T_FLOAT,
  T_DOUBLE,
  T_DATE,
  T_TIMESTAMP,
  T_TIMESTAMP_NTZ,
  T_CALENDAR_INTERVAL,
  T_VARIANT
} simple_type;

/* A type without parameters: the oneof member is an empty message. */
static sql_type *simple(sql_parser *p, simple_type which) {
#define SIMPLE(tag, kind, field, Type, prefix)                                                                         \
  case tag:                                                                                                            \
    type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_##kind;                                                          \
    type->field = SQL_NEW(p, Spark__Connect__DataType__##Type, spark__connect__data_type__##prefix);                   \
    break
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  switch (which) {
    SIMPLE(T_NULL, NULL, null, NULL, null);
    SIMPLE(T_BINARY, BINARY, binary, Binary, binary);
    SIMPLE(T_BOOLEAN, BOOLEAN, boolean, Boolean, boolean);
    SIMPLE(T_BYTE, BYTE, byte, Byte, byte);
    SIMPLE(T_SHORT, SHORT, short_, Short, short);
    SIMPLE(T_INTEGER, INTEGER, integer, Integer, integer);
    SIMPLE(T_LONG, LONG, long_, Long, long);
    SIMPLE(T_FLOAT, FLOAT, float_, Float, float);
    SIMPLE(T_DOUBLE, DOUBLE, double_, Double, double);
    SIMPLE(T_DATE, DATE, date, Date, date);
    SIMPLE(T_TIMESTAMP, TIMESTAMP, timestamp, Timestamp, timestamp);
    SIMPLE(T_TIMESTAMP_NTZ, TIMESTAMP_NTZ, timestamp_ntz, TimestampNTZ, timestamp_ntz);
    SIMPLE(T_CALENDAR_INTERVAL, CALENDAR_INTERVAL, calendar_interval, CalendarInterval, calendar_interval);
    SIMPLE(T_VARIANT, VARIANT, variant, Variant, variant);
  }
#undef SIMPLE
  return type;
}

static const struct {
  uint16_t keyword;
  uint8_t type;
} simple_types[] = {
    {KW_BOOLEAN, T_BOOLEAN},
    {KW_TINYINT, T_BYTE},
    {KW_BYTE, T_BYTE},
    {KW_SMALLINT, T_SHORT},
    {KW_SHORT, T_SHORT},
    {KW_INT, T_INTEGER},
    {KW_INTEGER, T_INTEGER},
    {KW_BIGINT, T_LONG},
    {KW_LONG, T_LONG},
    {KW_FLOAT, T_FLOAT},
    {KW_REAL, T_FLOAT},
    {KW_DOUBLE, T_DOUBLE},
    {KW_DATE, T_DATE},
    {KW_TIMESTAMP_LTZ, T_TIMESTAMP},
    {KW_TIMESTAMP_NTZ, T_TIMESTAMP_NTZ},
    {KW_BINARY, T_BINARY},
    {KW_VOID, T_NULL},
    {KW_VARIANT, T_VARIANT},
};

static sql_type *string_type(sql_parser *p) {
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_STRING;
  type->string = SQL_NEW(p, Spark__Connect__DataType__String, spark__connect__data_type__string);
  if (sql__accept(p, KW_COLLATE)) {
    sql_list parts = {0};
    sql__path(p, &parts);
    type->string->collation = parts.items[parts.count - 1];
  }
  return type;
}

/* CHAR(n) and VARCHAR(n); the size is not optional. */
static sql_type *char_type(sql_parser *p, bool varying, size_t start) {
  if (!sql__accept(p, SQL_LEFT_PAREN)) {
    trn_kv param = {"type", varying ? "\"VARCHAR\"" : "\"CHAR\""};
    sql__refuse(p, start, start, "DATATYPE_MISSING_SIZE", "42K01", &param, 1);
    return string_type(p);
  }
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  int32_t length = sql__integer_value(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  if (varying) {
    type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_VAR_CHAR;
    type->var_char = SQL_NEW(p, Spark__Connect__DataType__VarChar, spark__connect__data_type__var_char);
    type->var_char->length = length;
  } else {
    type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_CHAR;
    type->char_ = SQL_NEW(p, Spark__Connect__DataType__Char, spark__connect__data_type__char);
    type->char_->length = length;
  }
  return type;
}

static sql_type *decimal_type(sql_parser *p, size_t start) {
  int32_t precision = 10, scale = 0;
  if (sql__accept(p, SQL_LEFT_PAREN)) {
    precision = sql__integer_value(p);
    if (sql__accept(p, SQL_COMMA)) scale = sql__integer_value(p);
    sql__expect(p, SQL_RIGHT_PAREN);
  }
  if (precision > 38) {
    trn_kv params[] = {{"precision", trn__arena_printf(p->arena, "%d", (int)precision)}, {"maxPrecision", "38"}};
    sql__refuse(p, start, sql__last(p), "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION", "22003", params, 2);
  }
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_DECIMAL;
  type->decimal = SQL_NEW(p, Spark__Connect__DataType__Decimal, spark__connect__data_type__decimal);
  type->decimal->_precision_case = SPARK__CONNECT__DATA_TYPE__DECIMAL___PRECISION_PRECISION;
  type->decimal->precision = precision;
  type->decimal->_scale_case = SPARK__CONNECT__DATA_TYPE__DECIMAL___SCALE_SCALE;
  type->decimal->scale = scale;
  return type;
}

/* Fields as the messages number them: YEAR 0, MONTH 1; DAY 0, HOUR 1, MINUTE 2, SECOND 3. -1: another keyword. */
static int interval_field(sql_kind kind, bool *day_time) {
  *day_time = true;
  switch ((int)kind) {
  case KW_YEAR: *day_time = false; return 0;
  case KW_MONTH: *day_time = false; return 1;
  case KW_DAY: return 0;
  case KW_HOUR: return 1;
  case KW_MINUTE: return 2;
  case KW_SECOND: return 3;
  default: return -1;
  }
}

static sql_type *interval_type(sql_parser *p, size_t start) {
  bool day_time, to_day_time;
  int from = interval_field(sql__kind(p), &day_time), to = from;
  if (from < 0) return simple(p, T_CALENDAR_INTERVAL);
  sql__advance(p);
  sql_kind last = sql__ahead(p, 1);
  bool may_end = day_time ? last == KW_HOUR || last == KW_MINUTE || last == KW_SECOND : last == KW_MONTH;
  if (may_end && sql__accept(p, KW_TO)) {
    to = interval_field(sql__kind(p), &to_day_time);
    if (to < 0 || to_day_time != day_time) sql__fail_syntax(p);
    sql__advance(p);
    if (to <= from) {
      trn_kv params[] = {{"intervalType", trn__arena_printf(p->arena, "\"INTERVAL %s TO %s\"",
                                                            sql__upper(p, sql__token_text(p, start + 1)),
                                                            sql__upper(p, sql__token_text(p, sql__last(p))))}};
      sql__refuse(p, start, sql__last(p), "_LEGACY_ERROR_TEMP_0028", NULL, params, 1);
    }
  }
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  if (day_time) {
    type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_DAY_TIME_INTERVAL;
    type->day_time_interval =
        SQL_NEW(p, Spark__Connect__DataType__DayTimeInterval, spark__connect__data_type__day_time_interval);
    type->day_time_interval->_start_field_case = SPARK__CONNECT__DATA_TYPE__DAY_TIME_INTERVAL___START_FIELD_START_FIELD;
    type->day_time_interval->start_field = from;
    type->day_time_interval->_end_field_case = SPARK__CONNECT__DATA_TYPE__DAY_TIME_INTERVAL___END_FIELD_END_FIELD;
    type->day_time_interval->end_field = to;
  } else {
    type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_YEAR_MONTH_INTERVAL;
    type->year_month_interval =
        SQL_NEW(p, Spark__Connect__DataType__YearMonthInterval, spark__connect__data_type__year_month_interval);
    type->year_month_interval->_start_field_case =
        SPARK__CONNECT__DATA_TYPE__YEAR_MONTH_INTERVAL___START_FIELD_START_FIELD;
    type->year_month_interval->start_field = from;
    type->year_month_interval->_end_field_case = SPARK__CONNECT__DATA_TYPE__YEAR_MONTH_INTERVAL___END_FIELD_END_FIELD;
    type->year_month_interval->end_field = to;
  }
  return type;
}

static bool without_time_zone(sql_parser *p) {
  if (sql__kind(p) != KW_WITHOUT || sql__ahead(p, 1) != KW_TIME || sql__ahead(p, 2) != KW_ZONE) return false;
  p->at += 3;
  return true;
}

static sql_type *time_type(sql_parser *p, size_t start) {
  int32_t precision = 6;
  if (sql__accept(p, SQL_LEFT_PAREN)) {
    precision = sql__integer_value(p);
    sql__expect(p, SQL_RIGHT_PAREN);
  }
  without_time_zone(p);
  if (precision > 6) {
    trn_kv param = {"precision", trn__arena_printf(p->arena, "%d", (int)precision)};
    sql__refuse(p, start, sql__last(p), "UNSUPPORTED_TIME_PRECISION", "0A001", &param, 1);
  }
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_TIME;
  type->time = SQL_NEW(p, Spark__Connect__DataType__Time, spark__connect__data_type__time);
  type->time->_precision_case = SPARK__CONNECT__DATA_TYPE__TIME___PRECISION_PRECISION;
  type->time->precision = precision;
  return type;
}

/* GEOMETRY(srid), GEOGRAPHY(ANY) */
static sql_type *geo_type(sql_parser *p, bool geometry) {
  sql__expect(p, SQL_LEFT_PAREN);
  int32_t srid = sql__accept(p, KW_ANY) ? -1 : sql__integer_value(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  if (geometry) {
    type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_GEOMETRY;
    type->geometry = SQL_NEW(p, Spark__Connect__DataType__Geometry, spark__connect__data_type__geometry);
    type->geometry->srid = srid;
  } else {
    type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_GEOGRAPHY;
    type->geography = SQL_NEW(p, Spark__Connect__DataType__Geography, spark__connect__data_type__geography);
    type->geography->srid = srid;
  }
  return type;
}

/* The lexer reads the ">>" that closes two types as one token: shorten it by the first ">". */
static void close_angle(sql_parser *p) {
  sql_token *token = &p->tokens[p->at];
  if (token->kind == SQL_SHIFT_RIGHT || token->kind == SQL_SHIFT_RIGHT_UNSIGNED) {
    token->kind = token->kind == SQL_SHIFT_RIGHT ? SQL_GT : SQL_SHIFT_RIGHT;
    token->start++;
    token->size--;
    return;
  }
  sql__expect(p, SQL_GT);
}

static sql_type *incomplete(sql_parser *p, size_t start, const char *condition) {
  trn_kv param = {"elementType", "<"};
  sql__refuse(p, start, start, condition, "42K01", &param, 1);
  return simple(p, T_NULL);
}

/* {"comment":"..."} */
static char *comment_metadata(sql_parser *p, const char *text, size_t size) {
  char *json = sql__alloc(p, size * 6 + 16), *out = json;
  memcpy(out, "{\"comment\":\"", 12);
  out += 12;
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') {
      *out++ = '\\';
      *out++ = (char)c;
    } else if (c < 0x20) {
      static const char hex[] = "0123456789abcdef";
      memcpy(out, "\\u00", 4);
      out[4] = hex[c >> 4];
      out[5] = hex[c & 15];
      out += 6;
    } else {
      *out++ = (char)c;
    }
  }
  memcpy(out, "\"}", 2);
  return json;
}

/* name [:] type [NOT NULL] [COMMENT 'x'] */
static void field(sql_parser *p, sql_list *fields, bool colon) {
  Spark__Connect__DataType__StructField *out =
      SQL_NEW(p, Spark__Connect__DataType__StructField, spark__connect__data_type__struct_field);
  out->name = sql__error_capturing_identifier(p);
  if (colon) sql__accept(p, SQL_COLON);
  out->data_type = sql__type(p);
  out->nullable = !(sql__accept2(p, KW_NOT, KW_NULL) || sql__accept2(p, SQL_BANG, KW_NULL));
  if (sql__accept(p, KW_COMMENT)) {
    size_t size;
    char *text = sql__string(p, &size);
    out->_metadata_case = SPARK__CONNECT__DATA_TYPE__STRUCT_FIELD___METADATA_METADATA;
    out->metadata = comment_metadata(p, text, size);
  }
  sql__push(p, fields, out);
}

static sql_type *struct_of(sql_parser *p, const sql_list *fields) {
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_STRUCT;
  type->struct_ = SQL_NEW(p, Spark__Connect__DataType__Struct, spark__connect__data_type__struct);
  SQL_SET_LIST(*fields, type->struct_, fields);
  return type;
}

static sql_type *struct_type(sql_parser *p, size_t start) {
  sql_list fields = {0};
  if (sql__accept(p, SQL_NEQ)) return struct_of(p, &fields); /* STRUCT<> */
  if (!sql__accept(p, SQL_LT)) return incomplete(p, start, "INCOMPLETE_TYPE_DEFINITION.STRUCT");
  if (sql__kind(p) != SQL_GT) {
    do {
      field(p, &fields, true);
    } while (sql__accept(p, SQL_COMMA));
  }
  close_angle(p);
  return struct_of(p, &fields);
}

static sql_type *array_type(sql_parser *p, size_t start) {
  if (!sql__accept(p, SQL_LT)) return incomplete(p, start, "INCOMPLETE_TYPE_DEFINITION.ARRAY");
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_ARRAY;
  type->array = SQL_NEW(p, Spark__Connect__DataType__Array, spark__connect__data_type__array);
  type->array->element_type = sql__type(p);
  type->array->contains_null = true;
  close_angle(p);
  return type;
}

static sql_type *map_type(sql_parser *p, size_t start) {
  if (!sql__accept(p, SQL_LT)) return incomplete(p, start, "INCOMPLETE_TYPE_DEFINITION.MAP");
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_MAP;
  type->map = SQL_NEW(p, Spark__Connect__DataType__Map, spark__connect__data_type__map);
  type->map->key_type = sql__type(p);
  sql__expect(p, SQL_COMMA);
  type->map->value_type = sql__type(p);
  type->map->value_contains_null = true;
  close_angle(p);
  return type;
}

/* Another name, perhaps with numbers: NAME(1, 2) */
static sql_type *unsupported(sql_parser *p, size_t start) {
  char *name = sql__upper(p, sql__token_text(p, start));
  if (sql__kind(p) == SQL_LEFT_PAREN && sql__ahead(p, 1) == SQL_INTEGER) {
    size_t open = p->at;
    sql__advance(p);
    do {
      sql__integer_value(p);
    } while (sql__accept(p, SQL_COMMA));
    sql__expect(p, SQL_RIGHT_PAREN);
    name = trn__arena_printf(p->arena, "%s%s", name, sql__text_between(p, open, sql__last(p)));
  }
  trn_kv param = {"typeName", trn__arena_printf(p->arena, "\"%s\"", name != NULL ? name : "")};
  sql__refuse(p, start, sql__last(p), "UNSUPPORTED_DATATYPE", "0A000", &param, 1);
  return simple(p, T_NULL);
}

static sql_type *type_of_keyword(sql_parser *p, sql_kind kind, size_t start) {
  for (size_t i = 0; i < sizeof(simple_types) / sizeof(simple_types[0]); i++) {
    if (simple_types[i].keyword != kind) continue;
    bool sized = sql__kind(p) == SQL_LEFT_PAREN && sql__ahead(p, 1) == SQL_INTEGER; /* INT(9) */
    return sized ? unsupported(p, start) : simple(p, (simple_type)simple_types[i].type);
  }
  switch ((int)kind) {
  case KW_STRING: return string_type(p);
  case KW_CHAR:
  case KW_CHARACTER: return char_type(p, false, start);
  case KW_VARCHAR: return char_type(p, true, start);
  case KW_DECIMAL:
  case KW_DEC:
  case KW_NUMERIC: return decimal_type(p, start);
  case KW_INTERVAL: return interval_type(p, start);
  case KW_TIMESTAMP: return simple(p, without_time_zone(p) ? T_TIMESTAMP_NTZ : T_TIMESTAMP);
  case KW_TIME: return time_type(p, start);
  case KW_GEOMETRY: return geo_type(p, true);
  case KW_GEOGRAPHY: return geo_type(p, false);
  case KW_ARRAY: return array_type(p, start);
  case KW_MAP: return map_type(p, start);
  case KW_STRUCT: return struct_type(p, start);
  default: return unsupported(p, start);
  }
}

sql_type *sql__type(sql_parser *p) {
  if (++p->type_depth > TRN_TYPE_DEPTH_MAX) {
    p->status = trn_error_set(&p->error, TRN_RESOURCE_EXHAUSTED, NULL,
                              "a data type nests deeper than TRN_TYPE_DEPTH_MAX (%d)", TRN_TYPE_DEPTH_MAX);
    longjmp(p->fail, 1);
  }
  size_t start = p->at;
  sql_kind kind = sql__kind(p);
  if (!sql__is_identifier(p, start)) sql__fail_syntax(p);
  sql__advance(p);
  sql_type *type = type_of_keyword(p, kind, start);
  p->type_depth--;
  return type;
}

sql_type *sql__schema(sql_parser *p) {
  sql_list fields = {0};
  do {
    field(p, &fields, false);
  } while (sql__accept(p, SQL_COMMA));
  return struct_of(p, &fields);
}
