/* Types: from and to protobuf, and the two texts Spark writes them in. JSON and DDL texts are in schema_text.c. */
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/values.h"
#include <stdio.h>

bool spark__is_string(const trn_type *type) {
  return type->id == TRN_TYPE_STRING;
}
bool spark__is_float(const trn_type *type) {
  return type->id == TRN_TYPE_FLOAT32 || type->id == TRN_TYPE_FLOAT64;
}
bool spark__is_interval(const trn_type *type) {
  return type->id == TRN_TYPE_INTERVAL_YEAR_MONTH || type->id == TRN_TYPE_INTERVAL_DAY_TIME;
}
bool spark__is_timestamp(const trn_type *type) {
  return type->id == TRN_TYPE_TIMESTAMP || type->id == TRN_TYPE_TIMESTAMP_NTZ;
}
bool spark__is_atomic(const trn_type *type) {
  return type->id != TRN_TYPE_NULL && type->id < TRN_TYPE_ARRAY && type->id != TRN_TYPE_INTERVAL_CALENDAR;
}

/* Expressions can nest types deeper than any protobuf type may: whoever builds a nested type asks spark__type_depth. */
static bool orderable(const trn_type *type, unsigned depth) {
  if (type->id == TRN_TYPE_MAP || type->id == TRN_TYPE_INTERVAL_CALENDAR || depth > TRN_TYPE_DEPTH_MAX) return false;
  for (uint32_t i = 0; i < type->field_count; i++)
    if (!orderable(type->fields[i].type, depth + 1)) return false;
  return true;
}
bool spark__is_orderable(const trn_type *type) {
  return orderable(type, 0);
}

static unsigned depth_of(const trn_type *type, unsigned depth) {
  unsigned deepest = depth;
  if (depth > TRN_TYPE_DEPTH_MAX) return depth;
  for (uint32_t i = 0; i < type->field_count; i++) {
    unsigned below = depth_of(type->fields[i].type, depth + 1);
    if (below > deepest) deepest = below;
  }
  return deepest;
}
unsigned spark__type_depth(const trn_type *type) {
  return depth_of(type, 1);
}

/* ---- text ---- */
static const char *const year_month_fields[] = {"year", "month"};
static const char *const day_time_fields[] = {"day", "hour", "minute", "second"};

static const char *plain_name(const trn_type *type) {
  switch (type->id) {
  case TRN_TYPE_NULL: return "void";
  case TRN_TYPE_BOOL: return "boolean";
  case TRN_TYPE_INT8: return "tinyint";
  case TRN_TYPE_INT16: return "smallint";
  case TRN_TYPE_INT32: return "int";
  case TRN_TYPE_INT64: return "bigint";
  case TRN_TYPE_FLOAT32: return "float";
  case TRN_TYPE_FLOAT64: return "double";
  case TRN_TYPE_BINARY: return "binary";
  case TRN_TYPE_DATE: return "date";
  case TRN_TYPE_TIMESTAMP: return "timestamp";
  case TRN_TYPE_TIMESTAMP_NTZ: return "timestamp_ntz";
  case TRN_TYPE_INTERVAL_CALENDAR: return "interval";
  default: return "";
  }
}

static void put_interval(trn_strbuf *out, const trn_type *type, bool upper) {
  bool year_month = type->id == TRN_TYPE_INTERVAL_YEAR_MONTH;
  const char *const *fields = year_month ? year_month_fields : day_time_fields;
  unsigned last = year_month ? 1 : 3, start = type->precision <= last ? type->precision : last,
           end = type->scale >= 0 && (unsigned)type->scale <= last ? (unsigned)type->scale : last;
  char text[48];
  int size = start == end ? snprintf(text, sizeof text, "interval %s", fields[start])
                          : snprintf(text, sizeof text, "interval %s to %s", fields[start], fields[end]);
  for (int i = 0; i < size; i++)
    trn__strbuf_putc(out, upper && text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i]);
}

/* Spark quotes a field's name in SQL text only when it is not a plain identifier. */
static void put_identifier(trn_strbuf *out, const char *name) {
  bool plain = name[0] != 0, digits = true;
  for (const char *p = name; *p; p++) {
    bool digit = *p >= '0' && *p <= '9';
    digits = digits && digit;
    plain = plain && (digit || *p == '_' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'));
  }
  if (plain && !digits) {
    trn__strbuf_puts(out, name);
    return;
  }
  trn__strbuf_putc(out, '`');
  for (const char *p = name; *p; p++) {
    if (*p == '`') trn__strbuf_putc(out, '`');
    trn__strbuf_putc(out, *p);
  }
  trn__strbuf_putc(out, '`');
}

static void put_type(trn_strbuf *out, const trn_type *type, bool upper, unsigned depth);

static void put_nested(trn_strbuf *out, const trn_type *type, bool upper, unsigned depth) {
  const char *word = type->id == TRN_TYPE_ARRAY ? "array<" : type->id == TRN_TYPE_MAP ? "map<" : "struct<";
  const char *big = type->id == TRN_TYPE_ARRAY ? "ARRAY<" : type->id == TRN_TYPE_MAP ? "MAP<" : "STRUCT<";
  trn__strbuf_puts(out, upper ? big : word);
  for (uint32_t i = 0; i < type->field_count; i++) {
    const trn_field *field = &type->fields[i];
    if (i) trn__strbuf_puts(out, upper ? ", " : ",");
    if (type->id == TRN_TYPE_STRUCT) {
      if (upper) {
        put_identifier(out, field->name);
        trn__strbuf_puts(out, ": ");
      } else {
        trn__strbuf_printf(out, "%s:", field->name);
      }
    }
    put_type(out, field->type, upper, depth + 1);
    if (upper && type->id == TRN_TYPE_STRUCT && !field->nullable) trn__strbuf_puts(out, " NOT NULL");
  }
  trn__strbuf_putc(out, '>');
}

static void put_type(trn_strbuf *out, const trn_type *type, bool upper, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX) {
    trn__strbuf_puts(out, "...");
    return;
  }
  switch (type->id) {
  case TRN_TYPE_DECIMAL:
    trn__strbuf_printf(out, upper ? "DECIMAL(%d,%d)" : "decimal(%d,%d)", type->precision, type->scale);
    return;
  case TRN_TYPE_STRING:
    if (type->length > 0 && type->variant != TRN_STRING_PLAIN)
      trn__strbuf_printf(out, "%s(%d)",
                         type->variant == TRN_STRING_CHAR ? (upper ? "CHAR" : "char") : (upper ? "VARCHAR" : "varchar"),
                         (int)type->length);
    else
      trn__strbuf_puts(out, upper ? "STRING" : "string");
    return;
  case TRN_TYPE_TIME: trn__strbuf_printf(out, upper ? "TIME(%d)" : "time(%d)", type->precision); return;
  case TRN_TYPE_INTERVAL_YEAR_MONTH:
  case TRN_TYPE_INTERVAL_DAY_TIME: put_interval(out, type, upper); return;
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT: put_nested(out, type, upper, depth); return;
  default:
    for (const char *p = plain_name(type); *p; p++)
      trn__strbuf_putc(out, upper && *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
  }
}

void spark__type_sql(trn_strbuf *out, const trn_type *type) {
  put_type(out, type, true, 0);
}
void spark__type_simple(trn_strbuf *out, const trn_type *type) {
  put_type(out, type, false, 0);
}

/* ---- from protobuf ---- */
static trn_status bad_type(trn_error **error, const char *what) {
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "The type %s is not supported yet", what);
}
static trn_status ranged(trn_error **error, const char *what) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The type %s is out of its bounds", what);
}

static trn_status from_proto(trn_arena *arena, const Spark__Connect__DataType *proto, unsigned depth,
                             const trn_type **out, trn_error **error);

static trn_type *variant_of(trn_arena *arena, trn_type_id id) {
  trn_type *type = trn__arena_copy(arena, trn__type(id), sizeof(trn_type));
  return type;
}

static trn_status decimal_from(trn_arena *arena, const Spark__Connect__DataType__Decimal *proto, const trn_type **out,
                               trn_error **error) {
  int precision = proto->_precision_case ? proto->precision : 10, scale = proto->_scale_case ? proto->scale : 0;
  if (precision > 38) {
    char actual[16];
    snprintf(actual, sizeof actual, "%d", precision);
    trn_error_param params[] = {{"precision", actual}, {"maxPrecision", "38"}};
    trn_error_spec spec = {.struct_size = sizeof spec,
                           .status = TRN_INVALID_ARGUMENT,
                           .params = params,
                           .param_count = 2,
                           .condition = "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION"};
    if (error) *error = trn_error_create(&spec);
    return TRN_INVALID_ARGUMENT;
  }
  if (precision < 1 || scale < 0 || scale > precision) return ranged(error, "decimal");
  *out = trn__type_decimal(arena, precision, scale);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status sized_string(trn_arena *arena, int32_t length, trn_string_variant variant, const trn_type **out,
                               trn_error **error) {
  if (length < 1) return ranged(error, variant == TRN_STRING_CHAR ? "char" : "varchar");
  trn_type *type = variant_of(arena, TRN_TYPE_STRING);
  if (!type) return trn__no_memory(error);
  type->variant = (uint8_t)variant;
  type->length = length;
  *out = type;
  return TRN_OK;
}

static trn_status fields_from(trn_arena *arena, trn_type_id id, int32_t start, int32_t end, const trn_type **out,
                              trn_error **error) {
  int32_t last = id == TRN_TYPE_INTERVAL_YEAR_MONTH ? 1 : 3;
  if (start < 0 || end < start || end > last) return ranged(error, "interval");
  trn_type *type = variant_of(arena, id);
  if (!type) return trn__no_memory(error);
  type->precision = (uint8_t)start;
  type->scale = (int8_t)end;
  *out = type;
  return TRN_OK;
}

static trn_status struct_from(trn_arena *arena, const Spark__Connect__DataType__Struct *proto, unsigned depth,
                              const trn_type **out, trn_error **error) {
  trn_field *fields = TRN_NEW_N(arena, trn_field, proto->n_fields);
  if (!fields) return trn__no_memory(error);
  for (size_t i = 0; i < proto->n_fields; i++) {
    const Spark__Connect__DataType__StructField *field = proto->fields[i];
    trn_status status = from_proto(arena, field->data_type, depth + 1, &fields[i].type, error);
    if (status) return status;
    fields[i].name = trn__arena_strdup(arena, field->name ? field->name : "");
    fields[i].nullable = field->nullable;
    if (field->_metadata_case && field->metadata && field->metadata[0] && strcmp(field->metadata, "{}") != 0) {
      fields[i].metadata = trn__arena_strdup(arena, field->metadata);
      if (!fields[i].metadata) return trn__no_memory(error);
    }
    if (!fields[i].name) return trn__no_memory(error);
  }
  *out = trn__type_struct(arena, fields, proto->n_fields);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status nested_from(trn_arena *arena, const Spark__Connect__DataType *proto, unsigned depth,
                              const trn_type **out, trn_error **error) {
  const trn_type *first = NULL, *second = NULL;
  trn_status status;
  if (proto->kind_case == SPARK__CONNECT__DATA_TYPE__KIND_ARRAY) {
    if ((status = from_proto(arena, proto->array->element_type, depth + 1, &first, error))) return status;
    *out = trn__type_array(arena, first, proto->array->contains_null);
  } else {
    if ((status = from_proto(arena, proto->map->key_type, depth + 1, &first, error))) return status;
    if ((status = from_proto(arena, proto->map->value_type, depth + 1, &second, error))) return status;
    *out = trn__type_map(arena, first, second, proto->map->value_contains_null);
  }
  return *out ? TRN_OK : trn__no_memory(error);
}

/* A text inside a type: parsed once; what it gives holds no further text. */
static trn_status unparsed_from(trn_arena *arena, const char *text, unsigned depth, const trn_type **out,
                                trn_error **error) {
  if (!text || !text[0]) return ranged(error, "text");
  if (text[0] == '{' || text[0] == '"') return spark__schema_from_text(arena, text, strlen(text), out, error);
  Spark__Connect__DataType *parsed = NULL;
  trn_status status = spark__sql_parse_type(arena, text, strlen(text), NULL, &parsed, error);
  return status ? status : from_proto(arena, parsed, depth + 1, out, error);
}

static trn_type_id simple_kind(Spark__Connect__DataType__KindCase kind) {
  switch (kind) {
  case SPARK__CONNECT__DATA_TYPE__KIND_NULL: return TRN_TYPE_NULL;
  case SPARK__CONNECT__DATA_TYPE__KIND_BINARY: return TRN_TYPE_BINARY;
  case SPARK__CONNECT__DATA_TYPE__KIND_BOOLEAN: return TRN_TYPE_BOOL;
  case SPARK__CONNECT__DATA_TYPE__KIND_BYTE: return TRN_TYPE_INT8;
  case SPARK__CONNECT__DATA_TYPE__KIND_SHORT: return TRN_TYPE_INT16;
  case SPARK__CONNECT__DATA_TYPE__KIND_INTEGER: return TRN_TYPE_INT32;
  case SPARK__CONNECT__DATA_TYPE__KIND_LONG: return TRN_TYPE_INT64;
  case SPARK__CONNECT__DATA_TYPE__KIND_FLOAT: return TRN_TYPE_FLOAT32;
  case SPARK__CONNECT__DATA_TYPE__KIND_DOUBLE: return TRN_TYPE_FLOAT64;
  case SPARK__CONNECT__DATA_TYPE__KIND_DATE: return TRN_TYPE_DATE;
  case SPARK__CONNECT__DATA_TYPE__KIND_TIMESTAMP: return TRN_TYPE_TIMESTAMP;
  case SPARK__CONNECT__DATA_TYPE__KIND_TIMESTAMP_NTZ: return TRN_TYPE_TIMESTAMP_NTZ;
  case SPARK__CONNECT__DATA_TYPE__KIND_CALENDAR_INTERVAL: return TRN_TYPE_INTERVAL_CALENDAR;
  default: return TRN_TYPE_COUNT;
  }
}

static trn_status sized_from(trn_arena *arena, const Spark__Connect__DataType *proto, const trn_type **out,
                             trn_error **error) {
  switch (proto->kind_case) {
  case SPARK__CONNECT__DATA_TYPE__KIND_DECIMAL: return decimal_from(arena, proto->decimal, out, error);
  case SPARK__CONNECT__DATA_TYPE__KIND_CHAR:
    return sized_string(arena, proto->char_->length, TRN_STRING_CHAR, out, error);
  case SPARK__CONNECT__DATA_TYPE__KIND_VAR_CHAR:
    return sized_string(arena, proto->var_char->length, TRN_STRING_VARCHAR, out, error);
  case SPARK__CONNECT__DATA_TYPE__KIND_STRING:
    if (proto->string->collation && proto->string->collation[0] && strcmp(proto->string->collation, "UTF8_BINARY") != 0)
      return bad_type(error, "string with a collation");
    *out = trn__type(TRN_TYPE_STRING);
    return TRN_OK;
  case SPARK__CONNECT__DATA_TYPE__KIND_YEAR_MONTH_INTERVAL: {
    const Spark__Connect__DataType__YearMonthInterval *i = proto->year_month_interval;
    int32_t start = i->_start_field_case ? i->start_field : 0;
    return fields_from(arena, TRN_TYPE_INTERVAL_YEAR_MONTH, start,
                       i->_end_field_case     ? i->end_field
                       : i->_start_field_case ? start
                                              : 1,
                       out, error);
  }
  case SPARK__CONNECT__DATA_TYPE__KIND_DAY_TIME_INTERVAL: {
    const Spark__Connect__DataType__DayTimeInterval *i = proto->day_time_interval;
    int32_t start = i->_start_field_case ? i->start_field : 0;
    return fields_from(arena, TRN_TYPE_INTERVAL_DAY_TIME, start,
                       i->_end_field_case     ? i->end_field
                       : i->_start_field_case ? start
                                              : 3,
                       out, error);
  }
  default: { /* TIME */
    int32_t precision = proto->time->_precision_case ? proto->time->precision : 6;
    if (precision < 0 || precision > 9) return ranged(error, "time");
    trn_type *type = variant_of(arena, TRN_TYPE_TIME);
    if (!type) return trn__no_memory(error);
    type->precision = (uint8_t)precision;
    *out = type;
    return TRN_OK;
  }
  }
}

static trn_status from_proto(trn_arena *arena, const Spark__Connect__DataType *proto, unsigned depth,
                             const trn_type **out, trn_error **error) {
  if (!proto || proto->kind_case == SPARK__CONNECT__DATA_TYPE__KIND__NOT_SET)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A data type is not set");
  if (depth > TRN_TYPE_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A type is nested deeper than TRN_TYPE_DEPTH_MAX (%d)",
                         TRN_TYPE_DEPTH_MAX);
  trn_type_id id = simple_kind(proto->kind_case);
  if (id != TRN_TYPE_COUNT) {
    *out = trn__type(id);
    return TRN_OK;
  }
  switch (proto->kind_case) {
  case SPARK__CONNECT__DATA_TYPE__KIND_ARRAY:
  case SPARK__CONNECT__DATA_TYPE__KIND_MAP: return nested_from(arena, proto, depth, out, error);
  case SPARK__CONNECT__DATA_TYPE__KIND_STRUCT: return struct_from(arena, proto->struct_, depth, out, error);
  case SPARK__CONNECT__DATA_TYPE__KIND_UNPARSED:
    return unparsed_from(arena, proto->unparsed->data_type_string, depth, out, error);
  case SPARK__CONNECT__DATA_TYPE__KIND_VARIANT: return bad_type(error, "variant");
  case SPARK__CONNECT__DATA_TYPE__KIND_UDT: return bad_type(error, "UDT");
  case SPARK__CONNECT__DATA_TYPE__KIND_GEOMETRY: return bad_type(error, "geometry");
  case SPARK__CONNECT__DATA_TYPE__KIND_GEOGRAPHY: return bad_type(error, "geography");
  case SPARK__CONNECT__DATA_TYPE__KIND_DECIMAL:
  case SPARK__CONNECT__DATA_TYPE__KIND_CHAR:
  case SPARK__CONNECT__DATA_TYPE__KIND_VAR_CHAR:
  case SPARK__CONNECT__DATA_TYPE__KIND_STRING:
  case SPARK__CONNECT__DATA_TYPE__KIND_YEAR_MONTH_INTERVAL:
  case SPARK__CONNECT__DATA_TYPE__KIND_DAY_TIME_INTERVAL:
  case SPARK__CONNECT__DATA_TYPE__KIND_TIME: return sized_from(arena, proto, out, error);
  default: return bad_type(error, "of an unknown kind");
  }
}

trn_status spark__type_from_proto(trn_arena *arena, const Spark__Connect__DataType *proto, const trn_type **out,
                                  trn_error **error) {
  return from_proto(arena, proto, 1, out, error);
}
