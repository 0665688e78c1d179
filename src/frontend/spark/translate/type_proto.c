/* Types to protobuf, as schema responses carry them. */
#include "frontend/spark/translate/values.h"

/* Makes the member message of the oneof and names it. */
#define MEMBER(member, Type, type_name, KIND)                                                                          \
  do {                                                                                                                 \
    Spark__Connect__DataType__##Type *m = TRN_NEW(arena, Spark__Connect__DataType__##Type);                            \
    if (!m) return NULL;                                                                                               \
    spark__connect__data_type__##type_name##__init(m);                                                                 \
    out->member = m;                                                                                                   \
    out->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_##KIND;                                                           \
  } while (0)

static Spark__Connect__DataType *to_proto(trn_arena *arena, const trn_type *type, unsigned depth);

static Spark__Connect__DataType *struct_to(trn_arena *arena, Spark__Connect__DataType *out, const trn_field *fields,
                                           size_t count, unsigned depth) {
  MEMBER(struct_, Struct, struct, STRUCT);
  out->struct_->fields = TRN_NEW_N(arena, Spark__Connect__DataType__StructField *, count);
  if (!out->struct_->fields) return NULL;
  for (size_t i = 0; i < count; i++) {
    Spark__Connect__DataType__StructField *field = TRN_NEW(arena, Spark__Connect__DataType__StructField);
    if (!field) return NULL;
    spark__connect__data_type__struct_field__init(field);
    field->name = trn__arena_strdup(arena, fields[i].name);
    field->nullable = fields[i].nullable;
    field->data_type = to_proto(arena, fields[i].type, depth + 1);
    if (!field->name || !field->data_type) return NULL;
    if (fields[i].metadata) {
      field->metadata = trn__arena_strdup(arena, fields[i].metadata);
      if (!field->metadata) return NULL;
      field->_metadata_case = SPARK__CONNECT__DATA_TYPE__STRUCT_FIELD___METADATA_METADATA;
    }
    out->struct_->fields[i] = field;
  }
  out->struct_->n_fields = count;
  return out;
}

static Spark__Connect__DataType *string_to(trn_arena *arena, Spark__Connect__DataType *out, const trn_type *type) {
  if (type->length > 0 && type->variant == TRN_STRING_CHAR) {
    MEMBER(char_, Char, char, CHAR);
    out->char_->length = type->length;
  } else if (type->length > 0 && type->variant == TRN_STRING_VARCHAR) {
    MEMBER(var_char, VarChar, var_char, VAR_CHAR);
    out->var_char->length = type->length;
  } else {
    MEMBER(string, String, string, STRING);
    out->string->collation = trn__arena_strdup(arena, "UTF8_BINARY");
    if (!out->string->collation) return NULL;
  }
  return out;
}

static Spark__Connect__DataType *interval_to(trn_arena *arena, Spark__Connect__DataType *out, const trn_type *type) {
  if (type->id == TRN_TYPE_INTERVAL_YEAR_MONTH) {
    MEMBER(year_month_interval, YearMonthInterval, year_month_interval, YEAR_MONTH_INTERVAL);
    out->year_month_interval->_start_field_case =
        SPARK__CONNECT__DATA_TYPE__YEAR_MONTH_INTERVAL___START_FIELD_START_FIELD;
    out->year_month_interval->start_field = type->precision;
    out->year_month_interval->_end_field_case = SPARK__CONNECT__DATA_TYPE__YEAR_MONTH_INTERVAL___END_FIELD_END_FIELD;
    out->year_month_interval->end_field = type->scale;
  } else {
    MEMBER(day_time_interval, DayTimeInterval, day_time_interval, DAY_TIME_INTERVAL);
    out->day_time_interval->_start_field_case = SPARK__CONNECT__DATA_TYPE__DAY_TIME_INTERVAL___START_FIELD_START_FIELD;
    out->day_time_interval->start_field = type->precision;
    out->day_time_interval->_end_field_case = SPARK__CONNECT__DATA_TYPE__DAY_TIME_INTERVAL___END_FIELD_END_FIELD;
    out->day_time_interval->end_field = type->scale;
  }
  return out;
}

static Spark__Connect__DataType *nested_to(trn_arena *arena, Spark__Connect__DataType *out, const trn_type *type,
                                           unsigned depth) {
  if (type->id == TRN_TYPE_STRUCT) return struct_to(arena, out, type->fields, type->field_count, depth);
  Spark__Connect__DataType *first = to_proto(arena, type->fields[0].type, depth + 1);
  if (!first) return NULL;
  if (type->id == TRN_TYPE_ARRAY) {
    MEMBER(array, Array, array, ARRAY);
    out->array->element_type = first;
    out->array->contains_null = type->fields[0].nullable;
    return out;
  }
  MEMBER(map, Map, map, MAP);
  out->map->key_type = first;
  out->map->value_type = to_proto(arena, type->fields[1].type, depth + 1);
  out->map->value_contains_null = type->fields[1].nullable;
  return out->map->value_type ? out : NULL;
}

static Spark__Connect__DataType *scalar_to(trn_arena *arena, Spark__Connect__DataType *out, const trn_type *type) {
  switch (type->id) {
  case TRN_TYPE_NULL: MEMBER(null, NULL, null, NULL); break;
  case TRN_TYPE_BOOL: MEMBER(boolean, Boolean, boolean, BOOLEAN); break;
  case TRN_TYPE_INT8: MEMBER(byte, Byte, byte, BYTE); break;
  case TRN_TYPE_INT16: MEMBER(short_, Short, short, SHORT); break;
  case TRN_TYPE_INT32: MEMBER(integer, Integer, integer, INTEGER); break;
  case TRN_TYPE_INT64: MEMBER(long_, Long, long, LONG); break;
  case TRN_TYPE_FLOAT32: MEMBER(float_, Float, float, FLOAT); break;
  case TRN_TYPE_FLOAT64: MEMBER(double_, Double, double, DOUBLE); break;
  case TRN_TYPE_BINARY: MEMBER(binary, Binary, binary, BINARY); break;
  case TRN_TYPE_DATE: MEMBER(date, Date, date, DATE); break;
  case TRN_TYPE_TIMESTAMP: MEMBER(timestamp, Timestamp, timestamp, TIMESTAMP); break;
  case TRN_TYPE_TIMESTAMP_NTZ: MEMBER(timestamp_ntz, TimestampNTZ, timestamp_ntz, TIMESTAMP_NTZ); break;
  case TRN_TYPE_INTERVAL_CALENDAR:
    MEMBER(calendar_interval, CalendarInterval, calendar_interval, CALENDAR_INTERVAL);
    break;
  case TRN_TYPE_TIME:
    MEMBER(time, Time, time, TIME);
    out->time->_precision_case = SPARK__CONNECT__DATA_TYPE__TIME___PRECISION_PRECISION;
    out->time->precision = type->precision;
    break;
  case TRN_TYPE_DECIMAL:
    MEMBER(decimal, Decimal, decimal, DECIMAL);
    out->decimal->_precision_case = SPARK__CONNECT__DATA_TYPE__DECIMAL___PRECISION_PRECISION;
    out->decimal->precision = type->precision;
    out->decimal->_scale_case = SPARK__CONNECT__DATA_TYPE__DECIMAL___SCALE_SCALE;
    out->decimal->scale = type->scale;
    break;
  default: return NULL;
  }
  return out;
}

static Spark__Connect__DataType *to_proto(trn_arena *arena, const trn_type *type, unsigned depth) {
  Spark__Connect__DataType *out = TRN_NEW(arena, Spark__Connect__DataType);
  if (!out || depth > TRN_TYPE_DEPTH_MAX + 1) return NULL;
  spark__connect__data_type__init(out);
  switch (type->id) {
  case TRN_TYPE_STRING: return string_to(arena, out, type);
  case TRN_TYPE_INTERVAL_YEAR_MONTH:
  case TRN_TYPE_INTERVAL_DAY_TIME: return interval_to(arena, out, type);
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT: return nested_to(arena, out, type, depth);
  default: return scalar_to(arena, out, type);
  }
}

Spark__Connect__DataType *spark__type_to_proto(trn_arena *arena, const trn_type *type) {
  return to_proto(arena, type, 1);
}

Spark__Connect__DataType *spark__schema_to_proto(trn_arena *arena, const trn_field *fields, size_t count) {
  Spark__Connect__DataType *out = TRN_NEW(arena, Spark__Connect__DataType);
  if (!out) return NULL;
  spark__connect__data_type__init(out);
  return struct_to(arena, out, fields, count, 1);
}
