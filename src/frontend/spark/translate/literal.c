/* Literals of the protocol, and typed strings (DATE '..' and kin). Intervals are in literal_interval.c. */
#include "frontend/spark/translate/values.h"
#include <strings.h>

static trn_status made(spark_translator *t, trn_expr *expr, trn_position position, spark_value *out,
                       trn_error **error) {
  if (!expr) return trn__no_memory(error);
  expr->position = position;
  *out = (spark_value){.expr = expr, .name = spark__literal_name(t, expr), .is_foldable = true, .is_literal = true};
  return out->name ? TRN_OK : trn__no_memory(error);
}

static trn_status bad_literal(trn_error **error, const char *what) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The literal is not valid: %s", what);
}

/* Well-formed UTF-8, as Arrow's strings must be. */
static bool is_utf8(const char *text, size_t size) {
  const unsigned char *p = (const unsigned char *)text, *end = p + size;
  while (p < end) {
    unsigned lead = *p++, extra = lead < 0x80                   ? 0
                                  : lead >= 0xc2 && lead < 0xe0 ? 1
                                  : (lead & 0xf0) == 0xe0       ? 2
                                  : lead >= 0xf0 && lead < 0xf5 ? 3
                                                                : 4;
    if (extra == 4 || (size_t)(end - p) < extra) return false;
    for (unsigned i = 0; i < extra; i++) {
      unsigned low = 0x80, high = 0xbf;
      if (i == 0 && lead == 0xe0) low = 0xa0;
      if (i == 0 && lead == 0xed) high = 0x9f;
      if (i == 0 && lead == 0xf0) low = 0x90;
      if (i == 0 && lead == 0xf4) high = 0x8f;
      if (p[i] < low || p[i] > high) return false;
    }
    p += extra;
  }
  return true;
}

static trn_status decimal_literal(spark_translator *t, const Spark__Connect__Expression__Literal__Decimal *proto,
                                  const trn_expr **out, trn_error **error) {
  trn_i128 unscaled;
  int precision, scale;
  const char *text = proto->value ? proto->value : "";
  if (!spark__parse_decimal(text, strlen(text), &unscaled, &precision, &scale)) return bad_literal(error, "a decimal");
  int given = proto->_precision_case ? proto->precision : 0, given_scale = proto->_scale_case ? proto->scale : 0;
  if (given < 0 || given > 38 || given_scale < 0 || given_scale > 38) return bad_literal(error, "a decimal's digits");
  /* Clients send inferred decimals as (10,0) whatever the value: the type grows to hold the value. */
  int digits = precision - scale;
  for (; scale < given_scale && unscaled < spark__pow10(37) && unscaled > -spark__pow10(37); scale++) unscaled *= 10;
  if (scale < given_scale) return bad_literal(error, "a decimal beyond 38 digits");
  precision = given > digits + scale ? given : digits + scale;
  if (precision > 38) return bad_literal(error, "a decimal beyond 38 digits");
  *out = spark__decimal_literal(t, unscaled, trn__type_decimal(t->arena, precision, scale));
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status literal_expr(spark_translator *t, const Spark__Connect__Expression__Literal *proto, unsigned depth,
                               const trn_expr **out, trn_error **error);

/* `count` literals made items of one type each (types[i], or the common type when types is NULL and *common NULL). */
static trn_status items_of(spark_translator *t, Spark__Connect__Expression__Literal *const *protos, size_t count,
                           const trn_type **common, unsigned depth, const trn_expr **items, bool *any_null,
                           trn_error **error) {
  const trn_type **types = TRN_NEW_N(t->arena, const trn_type *, count + 1);
  if (!types) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    trn_status status = literal_expr(t, protos[i], depth + 1, &items[i], error);
    if (status) return status;
    types[i] = items[i]->type;
  }
  if (!*common && spark__common_type(t, types, count, common)) return trn__no_memory(error);
  if (!*common) return bad_literal(error, "its elements have no common type");
  for (size_t i = 0; i < count; i++) {
    if (!trn__type_same_shape(items[i]->type, *common)) {
      const trn_expr *folded = spark__fold_cast(t, items[i], *common);
      if (!folded) return bad_literal(error, "an element is not of the element type");
      items[i] = folded;
    }
    *any_null = *any_null || items[i]->u.literal.is_null;
  }
  return TRN_OK;
}

static trn_expr *nested_expr(spark_translator *t, const trn_type *type, const trn_expr **items, size_t count) {
  if (!type || count > UINT32_MAX) return NULL;
  trn_expr *expr = trn__expr_create(t->arena, TRN_EXPR_LITERAL, type, false, NULL, 0);
  if (!expr) return NULL;
  expr->u.literal.value.nested.items = items;
  expr->u.literal.value.nested.count = (uint32_t)count;
  return expr;
}

static trn_status array_literal(spark_translator *t, const Spark__Connect__Expression__Literal *proto, unsigned depth,
                                const trn_expr **out, trn_error **error) {
  const Spark__Connect__Expression__Literal__Array *array = proto->array;
  const Spark__Connect__DataType *element = NULL;
  const trn_type *type = NULL;
  bool any_null = false;
  if (proto->data_type && proto->data_type->kind_case == SPARK__CONNECT__DATA_TYPE__KIND_ARRAY)
    element = proto->data_type->array->element_type;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* older clients fill only this */
  if (!element) element = array->element_type;
#pragma GCC diagnostic pop
  trn_status status = element ? spark__type_from_proto(t->arena, element, &type, error) : TRN_OK;
  const trn_expr **items = TRN_NEW_N(t->arena, const trn_expr *, array->n_elements + 1);
  if (status) return status;
  if (!items) return trn__no_memory(error);
  status = items_of(t, array->elements, array->n_elements, &type, depth, items, &any_null, error);
  if (status) return status;
  *out = nested_expr(t, trn__type_array(t->arena, type, any_null || element), items, array->n_elements);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status map_literal(spark_translator *t, const Spark__Connect__Expression__Literal *proto, unsigned depth,
                              const trn_expr **out, trn_error **error) {
  const Spark__Connect__Expression__Literal__Map *map = proto->map;
  const Spark__Connect__DataType *key = NULL, *value = NULL;
  const trn_type *key_type = NULL, *value_type = NULL;
  bool null_key = false, null_value = false;
  if (map->n_keys != map->n_values) return bad_literal(error, "a map with unlike numbers of keys and values");
  if (proto->data_type && proto->data_type->kind_case == SPARK__CONNECT__DATA_TYPE__KIND_MAP) {
    key = proto->data_type->map->key_type;
    value = proto->data_type->map->value_type;
  } else {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    key = map->key_type;
    value = map->value_type;
#pragma GCC diagnostic pop
  }
  trn_status status = key ? spark__type_from_proto(t->arena, key, &key_type, error) : TRN_OK;
  if (!status && value) status = spark__type_from_proto(t->arena, value, &value_type, error);
  if (status) return status;
  size_t count = map->n_keys;
  const trn_expr **keys = TRN_NEW_N(t->arena, const trn_expr *, count + 1),
                 **values = TRN_NEW_N(t->arena, const trn_expr *, count + 1);
  const trn_expr **items = TRN_NEW_N(t->arena, const trn_expr *, 2 * count + 1);
  if (!keys || !values || !items) return trn__no_memory(error);
  status = items_of(t, map->keys, count, &key_type, depth, keys, &null_key, error);
  if (!status) status = items_of(t, map->values, count, &value_type, depth, values, &null_value, error);
  if (status) return status;
  if (null_key) return bad_literal(error, "a map with a null key");
  for (size_t i = 0; i < count; i++) items[2 * i] = keys[i], items[2 * i + 1] = values[i];
  *out = nested_expr(t, trn__type_map(t->arena, key_type, value_type, null_value || value), items, 2 * count);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status struct_literal(spark_translator *t, const Spark__Connect__Expression__Literal *proto, unsigned depth,
                                 const trn_expr **out, trn_error **error) {
  const Spark__Connect__Expression__Literal__Struct *row = proto->struct_;
  const Spark__Connect__DataType *declared = proto->data_type;
  const trn_type *type = NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  if (!declared) declared = row->struct_type;
#pragma GCC diagnostic pop
  if (!declared) return bad_literal(error, "a struct without a type");
  trn_status status = spark__type_from_proto(t->arena, declared, &type, error);
  if (status) return status;
  if (type->id != TRN_TYPE_STRUCT || type->field_count != row->n_elements)
    return bad_literal(error, "a struct of another type");
  const trn_expr **items = TRN_NEW_N(t->arena, const trn_expr *, row->n_elements + 1);
  if (!items) return trn__no_memory(error);
  for (size_t i = 0; i < row->n_elements; i++) {
    bool null = false;
    const trn_type *field = type->fields[i].type;
    if ((status = items_of(t, &row->elements[i], 1, &field, depth, &items[i], &null, error))) return status;
  }
  *out = nested_expr(t, type, items, row->n_elements);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status string_literal(spark_translator *t, const char *text, const trn_expr **out, trn_error **error) {
  size_t size = text ? strlen(text) : 0;
  if (!is_utf8(text, size)) return bad_literal(error, "a string that is not UTF-8");
  *out = trn__expr_string(t->arena, text ? text : "", size);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status interval_literal(spark_translator *t,
                                   const Spark__Connect__Expression__Literal__CalendarInterval *proto,
                                   const trn_expr **out, trn_error **error) {
  if (proto->microseconds > INT64_MAX / 1000 || proto->microseconds < INT64_MIN / 1000)
    return bad_literal(error, "an interval's microseconds");
  trn_expr *expr = trn__expr_create(t->arena, TRN_EXPR_LITERAL, trn__type(TRN_TYPE_INTERVAL_CALENDAR), false, NULL, 0);
  if (!expr) return trn__no_memory(error);
  expr->u.literal.value.interval.months = proto->months;
  expr->u.literal.value.interval.days = proto->days;
  expr->u.literal.value.interval.nanos = proto->microseconds * 1000;
  *out = expr;
  return TRN_OK;
}

static trn_status time_literal(spark_translator *t, const Spark__Connect__Expression__Literal__Time *proto,
                               const trn_expr **out, trn_error **error) {
  int precision = proto->_precision_case ? proto->precision : 6;
  if (precision < 0 || precision > 9 || proto->nano < 0 || proto->nano >= INT64_C(86400000000000))
    return bad_literal(error, "a time");
  trn_type *type = trn__arena_copy(t->arena, trn__type(TRN_TYPE_TIME), sizeof(trn_type));
  if (!type) return trn__no_memory(error);
  type->precision = (uint8_t)precision;
  *out = trn__expr_int(t->arena, type, proto->nano);
  return *out ? TRN_OK : trn__no_memory(error);
}

/* Intervals and nulls may say their type beside the value. */
static trn_status typed_integer(spark_translator *t, const Spark__Connect__Expression__Literal *proto, trn_type_id id,
                                int64_t value, const trn_expr **out, trn_error **error) {
  const trn_type *type = trn__type(id);
  if (proto->data_type && spark__is_interval(type)) {
    trn_status status = spark__type_from_proto(t->arena, proto->data_type, &type, error);
    if (status) return status;
    if (type->id != id) return bad_literal(error, "its type is another");
  }
  *out = trn__expr_int(t->arena, type, value);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status null_literal(spark_translator *t, const Spark__Connect__Expression__Literal *proto,
                               const trn_expr **out, trn_error **error) {
  const Spark__Connect__DataType *declared = proto->data_type ? proto->data_type : proto->null;
  const trn_type *type = trn__type(TRN_TYPE_NULL);
  trn_status status = declared ? spark__type_from_proto(t->arena, declared, &type, error) : TRN_OK;
  if (status) return status;
  *out = trn__expr_null(t->arena, type);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status binary_literal(spark_translator *t, const ProtobufCBinaryData *bytes, const trn_expr **out,
                                 trn_error **error) {
  trn_expr *expr = trn__expr_create(t->arena, TRN_EXPR_LITERAL, trn__type(TRN_TYPE_BINARY), false, NULL, 0);
  const char *copy = trn__arena_copy(t->arena, bytes->data ? (const void *)bytes->data : "", bytes->len);
  if (!expr || !copy) return trn__no_memory(error);
  expr->u.literal.value.bytes.data = copy;
  expr->u.literal.value.bytes.size = bytes->len;
  *out = expr;
  return TRN_OK;
}

#define CASE(name) case SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_##name
static trn_status literal_expr(spark_translator *t, const Spark__Connect__Expression__Literal *proto, unsigned depth,
                               const trn_expr **out, trn_error **error) {
  if (!proto) return bad_literal(error, "it is missing");
  if (depth > TRN_TYPE_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A literal is nested deeper than TRN_TYPE_DEPTH_MAX (%d)",
                         TRN_TYPE_DEPTH_MAX);
  trn_expr *expr = NULL;
  switch (proto->literal_type_case) {
    CASE(NULL) : return null_literal(t, proto, out, error);
    CASE(BINARY) : return binary_literal(t, &proto->binary, out, error);
    CASE(BOOLEAN) : expr = trn__expr_bool(t->arena, proto->boolean != 0);
    break;
    CASE(BYTE) : expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT8), (int8_t)proto->byte);
    break;
    CASE(SHORT) : expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT16), (int16_t)proto->short_);
    break;
    CASE(INTEGER) : expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), proto->integer);
    break;
    CASE(LONG) : expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT64), proto->long_);
    break;
    CASE(FLOAT) : expr = spark__double_literal(t, (double)proto->float_, trn__type(TRN_TYPE_FLOAT32));
    break;
    CASE(DOUBLE) : expr = spark__double_literal(t, proto->double_, trn__type(TRN_TYPE_FLOAT64));
    break;
    CASE(DECIMAL) : return decimal_literal(t, proto->decimal, out, error);
    CASE(STRING) : return string_literal(t, proto->string, out, error);
    CASE(DATE) : expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_DATE), proto->date);
    break;
    CASE(TIMESTAMP) : expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_TIMESTAMP), proto->timestamp);
    break;
    CASE(TIMESTAMP_NTZ) : expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_TIMESTAMP_NTZ), proto->timestamp_ntz);
    break;
    CASE(CALENDAR_INTERVAL) : return interval_literal(t, proto->calendar_interval, out, error);
    CASE(YEAR_MONTH_INTERVAL)
        : return typed_integer(t, proto, TRN_TYPE_INTERVAL_YEAR_MONTH, proto->year_month_interval, out, error);
    CASE(DAY_TIME_INTERVAL)
        : return typed_integer(t, proto, TRN_TYPE_INTERVAL_DAY_TIME, proto->day_time_interval, out, error);
    CASE(ARRAY) : return array_literal(t, proto, depth, out, error);
    CASE(MAP) : return map_literal(t, proto, depth, out, error);
    CASE(STRUCT) : return struct_literal(t, proto, depth, out, error);
    CASE(TIME) : return time_literal(t, proto->time, out, error);
    CASE(SPECIALIZED_ARRAY)
        : return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Specialized arrays are not supported yet");
  default: return bad_literal(error, "no value is set");
  }
  *out = expr;
  return expr ? TRN_OK : trn__no_memory(error);
}

trn_status spark__literal(spark_translator *t, const Spark__Connect__Expression__Literal *literal,
                          trn_position position, spark_value *out, trn_error **error) {
  const trn_expr *expr = NULL;
  trn_status status = literal_expr(t, literal, 0, &expr, error);
  if (status) return status;
  return made(t, trn__arena_copy(t->arena, expr, sizeof *expr), position, out, error);
}

/* ---- typed strings ---- */
static trn_status bad_typed(spark_translator *t, const char *type, const char *text, trn_position position,
                            trn_error **error) {
  const char *quoted = trn__arena_printf(t->arena, "\"%s\"", type), *value = trn__arena_printf(t->arena, "'%s'", text);
  if (!quoted || !value) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_TYPED_LITERAL", position, "valueType", quoted, "value",
                      value, (char *)NULL);
}

/* In a region's zone the instant is the kernel's to find; the name shows the local time, which is what was written. */
static trn_status zoned_timestamp(spark_translator *t, const char *text, int64_t local, trn_position position,
                                  spark_value *out, trn_error **error) {
  const trn_expr *written = trn__expr_string(t->arena, text, strlen(text)), *expr = NULL;
  trn_expr *shown = trn__expr_int(t->arena, trn__type(TRN_TYPE_TIMESTAMP), local);
  if (!written || !shown) return trn__no_memory(error);
  trn_status status = spark__cast(t, written, trn__type(TRN_TYPE_TIMESTAMP), SPARK_CAST_ANSI, position, &expr, error);
  if (status) return status;
  trn_expr *copy = trn__arena_copy(t->arena, expr, sizeof *expr);
  if (!copy) return trn__no_memory(error);
  copy->nullable = false; /* the text was checked */
  *out = (spark_value){.expr = copy, .name = spark__literal_name(t, shown), .is_foldable = true, .is_literal = true};
  return out->name ? TRN_OK : trn__no_memory(error);
}

trn_status spark__typed_string(spark_translator *t, const Spark__Connect__TrnTypedString *literal,
                               trn_position position, spark_value *out, trn_error **error) {
  const char *type = literal->type ? literal->type : "", *text = literal->text ? literal->text : "";
  size_t size = strlen(text);
  int64_t value, offset, zone = 0;
  int digits;
  if (!is_utf8(text, size)) return bad_literal(error, "a string that is not UTF-8");
  if (!strcasecmp(type, "DATE")) {
    if (!spark__parse_date(text, size, &value)) return bad_typed(t, "DATE", text, position, error);
    return made(t, trn__expr_int(t->arena, trn__type(TRN_TYPE_DATE), value), position, out, error);
  }
  if (!strcasecmp(type, "TIME")) {
    if (!spark__parse_time(text, size, &value, &digits)) return bad_typed(t, "TIME(6)", text, position, error);
    trn_type *time = trn__arena_copy(t->arena, trn__type(TRN_TYPE_TIME), sizeof(trn_type));
    if (!time) return trn__no_memory(error);
    time->precision = (uint8_t)(digits > 6 ? digits : 6);
    return made(t, trn__expr_int(t->arena, time, value), position, out, error);
  }
  bool ntz = !strcasecmp(type, "TIMESTAMP_NTZ");
  if (!ntz && strcasecmp(type, "TIMESTAMP") != 0 && strcasecmp(type, "TIMESTAMP_LTZ") != 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_TYPED_LITERAL", position, "unsupportedType", type,
                        "supportedTypes",
                        "\"DATE\", \"TIMESTAMP_NTZ\", \"TIMESTAMP_LTZ\", \"TIMESTAMP\", \"INTERVAL\", \"X\", \"TIME\"",
                        (char *)NULL);
  if (!spark__parse_timestamp(text, size, &value, &offset) || (ntz && offset != INT64_MIN))
    return bad_typed(t, ntz ? "TIMESTAMP_NTZ" : "TIMESTAMP", text, position, error);
  if (ntz) return made(t, trn__expr_int(t->arena, trn__type(TRN_TYPE_TIMESTAMP_NTZ), value), position, out, error);
  bool fixed = spark__fixed_zone(t->timezone, &zone);
  if (offset == INT64_MIN && !fixed) return zoned_timestamp(t, text, value, position, out, error);
  int64_t instant = value - (offset == INT64_MIN ? zone : offset);
  trn_status status = made(t, trn__expr_int(t->arena, trn__type(TRN_TYPE_TIMESTAMP), instant), position, out, error);
  if (status || zone == 0) return status;
  trn_expr *shown = trn__expr_int(t->arena, trn__type(TRN_TYPE_TIMESTAMP), instant + zone);
  out->name = shown ? spark__literal_name(t, shown) : NULL;
  return out->name ? TRN_OK : trn__no_memory(error);
}
