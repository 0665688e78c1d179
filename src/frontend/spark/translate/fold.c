/* Casts of literals become literals, so that the engine can prune with them. Only what is exact is folded here; what
 * would fail or lose something is left to the cast kernel, which raises at the right time. */
#include "frontend/spark/translate/values.h"

bool spark__is_literal(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_LITERAL && !expr->u.literal.is_null;
}

trn_i128 spark__decimal_value(const trn_literal *literal) {
  return (trn_i128)(((trn_u128)(uint64_t)literal->value.decimal.high << 64) | literal->value.decimal.low);
}

trn_expr *spark__decimal_literal(spark_translator *t, trn_i128 unscaled, const trn_type *type) {
  trn_expr *expr = type ? trn__expr_create(t->arena, TRN_EXPR_LITERAL, type, false, NULL, 0) : NULL;
  if (!expr) return NULL;
  expr->u.literal.value.decimal.low = (uint64_t)(trn_u128)unscaled;
  expr->u.literal.value.decimal.high = (int64_t)(uint64_t)((trn_u128)unscaled >> 64);
  return expr;
}

trn_expr *spark__double_literal(spark_translator *t, double value, const trn_type *type) {
  trn_expr *expr = trn__expr_create(t->arena, TRN_EXPR_LITERAL, type, false, NULL, 0);
  if (expr) expr->u.literal.value.number = value;
  return expr;
}

static bool integer_fits(int64_t value, const trn_type *type) {
  switch (type->id) {
  case TRN_TYPE_INT8: return value >= INT8_MIN && value <= INT8_MAX;
  case TRN_TYPE_INT16: return value >= INT16_MIN && value <= INT16_MAX;
  case TRN_TYPE_INT32: return value >= INT32_MIN && value <= INT32_MAX;
  default: return true;
  }
}

/* Rescales without loss; false when digits would be lost or there are too many. */
static bool rescale(trn_i128 value, int from, const trn_type *target, trn_i128 *out) {
  trn_i128 limit = spark__pow10(target->precision);
  for (; from < target->scale; from++) {
    if (value >= limit || value <= -limit) return false;
    value *= 10;
  }
  for (; from > target->scale; from--) {
    if (value % 10) return false;
    value /= 10;
  }
  *out = value;
  return value < limit && value > -limit;
}

static trn_expr *from_integer(spark_translator *t, trn_i128 value, const trn_type *target) {
  if (trn__type_is_integer(target)) {
    if (value < INT64_MIN || value > INT64_MAX || !integer_fits((int64_t)value, target)) return NULL;
    return trn__expr_int(t->arena, target, (int64_t)value);
  }
  trn_i128 unscaled;
  switch (target->id) {
  case TRN_TYPE_DECIMAL:
    return rescale(value, 0, target, &unscaled) ? spark__decimal_literal(t, unscaled, target) : NULL;
  case TRN_TYPE_FLOAT64: return spark__double_literal(t, (double)value, target);
  case TRN_TYPE_FLOAT32: return spark__double_literal(t, (double)(float)value, target);
  default: return NULL;
  }
}

/* A decimal as a double: correctly rounded, by way of its text as Spark does (BigDecimal.doubleValue). */
static double decimal_as_double(trn_i128 value, int scale) {
  char text[64], digits[48];
  int count = 0;
  size_t at = 0;
  trn_u128 rest = value < 0 ? -(trn_u128)value : (trn_u128)value;
  do digits[count++] = (char)('0' + (int)(rest % 10));
  while ((rest /= 10) != 0 && count < 40);
  if (value < 0) text[at++] = '-';
  while (count > 0) text[at++] = digits[--count];
  text[at++] = 'e';
  text[at++] = '-';
  text[at++] = (char)('0' + scale / 10);
  text[at++] = (char)('0' + scale % 10);
  text[at] = 0;
  return strtod(text, NULL); /* no decimal point inside, so the host's locale does not matter */
}

static trn_expr *from_decimal(spark_translator *t, const trn_expr *literal, const trn_type *target) {
  trn_i128 value = spark__decimal_value(&literal->u.literal), unscaled;
  int scale = literal->type->scale;
  switch (target->id) {
  case TRN_TYPE_DECIMAL:
    return rescale(value, scale, target, &unscaled) ? spark__decimal_literal(t, unscaled, target) : NULL;
  case TRN_TYPE_FLOAT64: return spark__double_literal(t, decimal_as_double(value, scale), target);
  default: /* FLOAT would be rounded twice: the kernel does it */
    if (!trn__type_is_integer(target) || value % spark__pow10(scale)) return NULL;
    return from_integer(t, value / spark__pow10(scale), target);
  }
}

static trn_expr *from_date_time(spark_translator *t, const trn_expr *literal, const trn_type *target) {
  int64_t value = literal->u.literal.value.integer;
  const int64_t day = INT64_C(86400000000);
  bool utc = spark__zone_is_utc(t->timezone);
  if (literal->type->id == TRN_TYPE_DATE) {
    if (value < -106751990 || value > 106751990) return NULL;
    if (target->id == TRN_TYPE_TIMESTAMP_NTZ || (target->id == TRN_TYPE_TIMESTAMP && utc))
      return trn__expr_int(t->arena, target, value * day);
    return NULL;
  }
  if (spark__is_timestamp(target) && utc) return trn__expr_int(t->arena, target, value);
  if (target->id == TRN_TYPE_DATE && (utc || literal->type->id == TRN_TYPE_TIMESTAMP_NTZ))
    return trn__expr_int(t->arena, target, value >= 0 ? value / day : -((-value + day - 1) / day));
  return NULL;
}

/* A plain decimal number, no suffix and no words: what all of Java's and C's readers agree on. */
static trn_expr *number_from_text(spark_translator *t, const char *text, size_t size, const trn_type *target) {
  trn_i128 unscaled, rescaled;
  int precision, scale;
  while (size && (unsigned char)*text <= ' ') text++, size--;
  while (size && (unsigned char)text[size - 1] <= ' ') size--;
  if (size > 60 || !spark__parse_decimal(text, size, &unscaled, &precision, &scale)) return NULL;
  if (spark__is_float(target)) {
    double value = decimal_as_double(unscaled, scale);
    if (target->id == TRN_TYPE_FLOAT32 || (unscaled == 0 && text[0] == '-')) return NULL; /* rounded twice; -0.0 */
    return spark__double_literal(t, value, target);
  }
  if (target->id == TRN_TYPE_DECIMAL)
    return rescale(unscaled, scale, target, &rescaled) ? spark__decimal_literal(t, rescaled, target) : NULL;
  for (size_t i = 0; i < size; i++)
    if (text[i] == '.' || text[i] == 'e' || text[i] == 'E') return NULL;
  return from_integer(t, unscaled, target);
}

static trn_expr *from_text(spark_translator *t, const trn_expr *literal, const trn_type *target) {
  const char *text = literal->u.literal.value.bytes.data;
  size_t size = literal->u.literal.value.bytes.size;
  int64_t value, offset;
  if (trn__type_is_numeric(target)) return number_from_text(t, text, size, target);
  switch (target->id) {
  case TRN_TYPE_STRING: return target->length == 0 ? trn__expr_string(t->arena, text, size) : NULL;
  case TRN_TYPE_DATE: return spark__parse_date(text, size, &value) ? trn__expr_int(t->arena, target, value) : NULL;
  case TRN_TYPE_TIMESTAMP:
    if (!spark__parse_timestamp(text, size, &value, &offset)) return NULL;
    if (offset == INT64_MIN && !spark__zone_is_utc(t->timezone)) return NULL;
    return trn__expr_int(t->arena, target, offset == INT64_MIN ? value : value - offset);
  case TRN_TYPE_TIMESTAMP_NTZ: /* a zone in the text is an error or ignored by mode: the kernel's */
    if (!spark__parse_timestamp(text, size, &value, &offset) || offset != INT64_MIN) return NULL;
    return trn__expr_int(t->arena, target, value);
  default: return NULL;
  }
}

static trn_expr *integer_as_text(spark_translator *t, const trn_expr *literal) {
  char *text = trn__arena_printf(t->arena, "%lld", (long long)literal->u.literal.value.integer);
  return text ? trn__expr_string(t->arena, text, strlen(text)) : NULL;
}

const trn_expr *spark__fold_cast(spark_translator *t, const trn_expr *literal, const trn_type *target) {
  const trn_type *from = literal->type;
  if (literal->kind != TRN_EXPR_LITERAL) return NULL;
  trn_expr *folded = NULL;
  if (literal->u.literal.is_null) {
    folded = trn__expr_null(t->arena, target);
  } else if (trn__type_is_integer(from)) {
    folded = spark__is_string(target) && target->length == 0
                 ? integer_as_text(t, literal)
                 : from_integer(t, literal->u.literal.value.integer, target);
  } else if (from->id == TRN_TYPE_DECIMAL) {
    folded = from_decimal(t, literal, target);
  } else if (from->id == TRN_TYPE_FLOAT32 && target->id == TRN_TYPE_FLOAT64) {
    folded = spark__double_literal(t, literal->u.literal.value.number, target);
  } else if (from->id == TRN_TYPE_DATE || spark__is_timestamp(from)) {
    folded = from_date_time(t, literal, target);
  } else if (spark__is_string(from)) {
    folded = from_text(t, literal, target);
  } else if (from->id == target->id && spark__is_interval(from) && target->precision <= from->precision &&
             target->scale >= from->scale) {
    folded = trn__expr_int(t->arena, target, literal->u.literal.value.integer);
  }
  if (folded) folded->position = literal->position;
  return folded;
}
