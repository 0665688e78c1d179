/* Casts: which are allowed, when null comes out, and what runs them. The engine's own cast runs where it is exactly
 * Spark's; the rest are the kernels trn.cast (ANSI), trn.cast_try and trn.cast_legacy (ANSI off). */
#include "frontend/spark/translate/values.h"

/* ---- which are allowed ---- */
static bool is_integer_or_decimal(const trn_type *type) {
  return trn__type_is_integer(type) || type->id == TRN_TYPE_DECIMAL;
}
static bool is_date_like(const trn_type *type) {
  return type->id == TRN_TYPE_DATE || spark__is_timestamp(type);
}

static bool can_cast_to_number(const trn_type *from, const trn_type *to, bool legacy) {
  switch (from->id) {
  case TRN_TYPE_BOOL:
  case TRN_TYPE_STRING:
  case TRN_TYPE_TIMESTAMP: return true;
  case TRN_TYPE_DATE: return legacy;
  case TRN_TYPE_TIME:
  case TRN_TYPE_INTERVAL_YEAR_MONTH:
  case TRN_TYPE_INTERVAL_DAY_TIME: return is_integer_or_decimal(to);
  default: return trn__type_is_numeric(from);
  }
}

static bool can_cast_flat(const trn_type *from, const trn_type *to, bool legacy) {
  if (from->id == TRN_TYPE_NULL || from->id == to->id || to->id == TRN_TYPE_STRING) return true;
  bool number = trn__type_is_numeric(from), text = spark__is_string(from);
  if (trn__type_is_numeric(to)) return can_cast_to_number(from, to, legacy);
  switch (to->id) {
  case TRN_TYPE_BINARY: return text || (legacy && trn__type_is_integer(from));
  case TRN_TYPE_BOOL:
    return text || number || (legacy && (from->id == TRN_TYPE_DATE || from->id == TRN_TYPE_TIMESTAMP));
  case TRN_TYPE_DATE: return text || spark__is_timestamp(from);
  case TRN_TYPE_TIMESTAMP: return text || number || is_date_like(from) || (legacy && from->id == TRN_TYPE_BOOL);
  case TRN_TYPE_TIMESTAMP_NTZ: return text || is_date_like(from);
  case TRN_TYPE_TIME: return text;
  case TRN_TYPE_INTERVAL_YEAR_MONTH:
  case TRN_TYPE_INTERVAL_DAY_TIME: return text || is_integer_or_decimal(from);
  case TRN_TYPE_INTERVAL_CALENDAR: return text;
  default: return false;
  }
}

/* Whether null can come out where none went in (Cast.forceNullable). */
static bool forces_null(const trn_type *from, const trn_type *to);

static bool can_cast(const trn_type *from, const trn_type *to, bool legacy, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX) return false;
  if (from->id < TRN_TYPE_ARRAY || to->id < TRN_TYPE_ARRAY) return can_cast_flat(from, to, legacy);
  if (from->id != to->id || from->field_count != to->field_count) return false;
  for (uint32_t i = 0; i < to->field_count; i++) {
    const trn_field *x = &from->fields[i], *y = &to->fields[i];
    if (!can_cast(x->type, y->type, legacy, depth + 1)) return false;
    bool null = x->nullable || forces_null(x->type, y->type);
    if (null && !y->nullable && !(to->id == TRN_TYPE_MAP && i == 0)) return false;
    if (to->id == TRN_TYPE_MAP && i == 0 && forces_null(x->type, y->type)) return false;
  }
  return true;
}

bool spark__can_cast(const trn_type *from, const trn_type *to, spark_cast_mode mode) {
  return can_cast(from, to, mode == SPARK_CAST_LEGACY, 0);
}

/* ---- nullability ---- */
static bool decimal_holds(const trn_type *decimal, const trn_type *from) {
  static const uint8_t digits[] = {
      [TRN_TYPE_BOOL] = 1, [TRN_TYPE_INT8] = 3, [TRN_TYPE_INT16] = 5, [TRN_TYPE_INT32] = 10, [TRN_TYPE_INT64] = 20};
  int whole = decimal->precision - decimal->scale;
  if (from->id == TRN_TYPE_DECIMAL) return whole >= from->precision - from->scale && decimal->scale >= from->scale;
  return (from->id == TRN_TYPE_BOOL || trn__type_is_integer(from)) && whole >= digits[from->id];
}

static bool forces_null(const trn_type *from, const trn_type *to) {
  if (from->id == TRN_TYPE_NULL || trn__type_same_shape(from, to)) return false;
  if (spark__is_string(to)) return false;
  if (spark__is_string(from)) return to->id != TRN_TYPE_BINARY;
  if (from->id == TRN_TYPE_TIMESTAMP && to->id >= TRN_TYPE_INT8 && to->id <= TRN_TYPE_INT32) return true;
  if (spark__is_float(from) && (to->id == TRN_TYPE_TIMESTAMP || trn__type_is_integer(to))) return true;
  if (to->id == TRN_TYPE_DATE) return !spark__is_timestamp(from);
  if (from->id == TRN_TYPE_DATE) return !spark__is_timestamp(to);
  if (to->id == TRN_TYPE_INTERVAL_CALENDAR) return true;
  if (to->id == TRN_TYPE_DECIMAL) return !decimal_holds(to, from);
  return from->id == TRN_TYPE_DECIMAL && trn__type_is_integer(to);
}

/* ---- what runs them ---- */
/* The same bits under another label: nullability, char lengths, interval fields that only widen, time digits. */
static bool relabels(const trn_type *from, const trn_type *to) {
  if (trn__type_same_shape(from, to)) return true;
  if (from->id != to->id) return false;
  if (spark__is_string(from)) return to->length == 0;
  if (spark__is_interval(from)) return to->precision <= from->precision && to->scale >= from->scale;
  return from->id == TRN_TYPE_TIME && to->precision >= from->precision;
}

/* Where arrow's cast gives for every value what Spark gives and cannot fail. Integers to floating point round to
 * nearest even in both; 64-bit integers print alike. */
static bool engine_casts(const trn_type *from, const trn_type *to) {
  if (from->id == TRN_TYPE_NULL) return true;
  if (trn__type_is_integer(from)) {
    if (trn__type_is_integer(to)) return to->id > from->id;
    if (to->id == TRN_TYPE_DECIMAL) return decimal_holds(to, from);
    return spark__is_float(to) || (spark__is_string(to) && to->length == 0);
  }
  if (from->id == TRN_TYPE_FLOAT32) return to->id == TRN_TYPE_FLOAT64;
  if (from->id == TRN_TYPE_DECIMAL) return to->id == TRN_TYPE_DECIMAL && decimal_holds(to, from);
  if (spark__is_string(from)) return to->id == TRN_TYPE_BINARY;
  return from->id == TRN_TYPE_DATE && to->id == TRN_TYPE_TIMESTAMP_NTZ;
}

static const trn_expr *relabelled(spark_translator *t, const trn_expr *expr, const trn_type *target) {
  trn_expr *copy = trn__arena_copy(t->arena, expr, sizeof *expr);
  if (copy) copy->type = target;
  return copy;
}

/* What is folded keeps the nullability that Spark's schema shows for the cast. */
static const trn_expr *fold(spark_translator *t, const trn_expr *expr, const trn_type *target) {
  const trn_expr *folded = spark__fold_cast(t, expr, target);
  if (!folded || folded->nullable || (!expr->nullable && !forces_null(expr->type, target))) return folded;
  trn_expr *copy = trn__arena_copy(t->arena, folded, sizeof *folded);
  if (copy) copy->nullable = true;
  return copy;
}

/* What Arrow's interval and time types do not carry: source fields, target fields or digits, four bits each. */
static int64_t fields_of(const trn_type *from, const trn_type *to) {
  int64_t fields = 0;
  if (spark__is_interval(from)) fields = (from->precision & 3) | (from->scale & 3) << 4;
  if (spark__is_interval(to)) fields |= (to->precision & 3) << 8 | (to->scale & 3) << 12;
  if (to->id == TRN_TYPE_TIME) fields |= (int64_t)(to->precision & 15) << 8;
  return fields;
}

static const trn_expr *call_kernel(spark_translator *t, const trn_expr *expr, const trn_type *target,
                                   spark_cast_mode mode, trn_position position) {
  static const char *const names[2][3] = {{"trn.cast", "trn.cast_try", "trn.cast_legacy"},
                                          {"trn.cast_fields", "trn.cast_fields_try", "trn.cast_fields_legacy"}};
  const trn_type *from = expr->type;
  bool fields = spark__is_interval(from) || spark__is_interval(target) || from->id == TRN_TYPE_TIME ||
                target->id == TRN_TYPE_TIME;
  const trn_expr *args[5] = {expr, trn__expr_null(t->arena, target), spark__zone_literal(t)};
  size_t count = 3;
  const char *name = names[fields][mode == SPARK_CAST_TRY ? 1 : mode == SPARK_CAST_LEGACY ? 2 : 0];
  if (fields) args[count++] = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), fields_of(from, target));
  if (mode == SPARK_CAST_ANSI) args[count++] = spark__position_literal(t, position);
  for (size_t i = 1; i < count; i++)
    if (!args[i]) return NULL;
  trn_expr *call = trn__expr_call(t->arena, TRN_HOME_LIBRARY, name, target, expr->nullable, args, count);
  if (!call) return NULL;
  call->nullable = expr->nullable || forces_null(expr->type, target) ||
                   (mode == SPARK_CAST_TRY && !(spark__is_string(expr->type) && target->id == TRN_TYPE_BINARY));
  call->position = position;
  return call;
}

static trn_status refuse(spark_translator *t, const trn_type *from, const trn_type *to, spark_cast_mode mode,
                         const char *sql, trn_position position, trn_error **error) {
  const char *source = spark__quoted_type(t, from), *target = spark__quoted_type(t, to);
  const char *expr = sql ? trn__arena_printf(t->arena, "\"%s\"", sql) : "";
  if (!source || !target || !expr) return trn__no_memory(error);
  bool number_to_date = trn__type_is_numeric(from) && to->id == TRN_TYPE_DATE;
  bool date_to_number = from->id == TRN_TYPE_DATE && trn__type_is_numeric(to);
  if (mode != SPARK_CAST_LEGACY && (number_to_date || date_to_number))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION", position,
                        "sqlExpr", expr, "srcType", source, "targetType", target, "functionNames",
                        number_to_date ? "`DATE_FROM_UNIX_DATE`" : "`UNIX_DATE`", (char *)NULL);
  if (mode == SPARK_CAST_ANSI && can_cast(from, to, true, 0))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.CAST_WITH_CONF_SUGGESTION", position,
                        "sqlExpr", expr, "srcType", source, "targetType", target, "config",
                        "\"spark.sql.ansi.enabled\"", "configVal", "'false'", (char *)NULL);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", position, "sqlExpr",
                      expr, "srcType", source, "targetType", target, (char *)NULL);
}

trn_status spark__cast(spark_translator *t, const trn_expr *expr, const trn_type *target, spark_cast_mode mode,
                       trn_position position, const trn_expr **out, trn_error **error) {
  if (mode == SPARK_CAST_IMPLICIT) mode = t->ansi ? SPARK_CAST_ANSI : SPARK_CAST_LEGACY;
  *out = expr;
  if (trn__type_equal(expr->type, target)) return TRN_OK;
  if (!spark__can_cast(expr->type, target, mode)) {
    trn_strbuf text = {0};
    trn__strbuf_puts(&text, "CAST(");
    if (expr->kind == TRN_EXPR_LITERAL) {
      const char *literal = spark__literal_name(t, expr);
      trn__strbuf_puts(&text, literal ? literal : "");
    }
    trn__strbuf_puts(&text, " AS ");
    spark__type_sql(&text, target);
    trn__strbuf_putc(&text, ')');
    return refuse(t, expr->type, target, mode, spark__finish_text(t, &text), position, error);
  }
  const trn_expr *made = fold(t, expr, target);
  if (!made && relabels(expr->type, target)) made = relabelled(t, expr, target);
  if (!made && engine_casts(expr->type, target)) {
    trn_expr *cast = trn__expr_cast(t->arena, expr, target, false);
    if (cast) cast->nullable = expr->nullable, cast->position = position;
    made = cast;
  } else if (!made) {
    made = call_kernel(t, expr, target, mode, position);
  }
  *out = made;
  return made ? TRN_OK : trn__no_memory(error);
}

trn_status spark__cast_value(spark_translator *t, const spark_value *value, const trn_type *target, bool is_try,
                             trn_position position, spark_value *out, trn_error **error) {
  /* Spark casts to char(n) and varchar(n) as to string: lengths matter to tables only. */
  if (spark__is_string(target)) target = trn__type(TRN_TYPE_STRING);
  spark_cast_mode mode = is_try ? SPARK_CAST_TRY : t->ansi ? SPARK_CAST_ANSI : SPARK_CAST_LEGACY;
  /* A quirk that shows in column names: SQL casts to intervals, but those of literals, and nested types leave no trace there. */
  bool hidden = position.start >= 0 && !is_try &&
                (target->id >= TRN_TYPE_ARRAY || (spark__is_interval(target) && value->expr->kind != TRN_EXPR_LITERAL));
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, is_try ? "TRY_CAST(%s AS " : "CAST(%s AS ", value->name);
  spark__type_sql(&text, target);
  trn__strbuf_putc(&text, ')');
  const char *name = spark__finish_text(t, &text);
  if (!name) return trn__no_memory(error);
  if (!spark__can_cast(value->expr->type, target, mode))
    return refuse(t, value->expr->type, target, mode, name, position, error);
  const trn_expr *expr = NULL;
  trn_status status = spark__cast(t, value->expr, target, mode, position, &expr, error);
  if (status) return status;
  *out = (spark_value){.expr = expr,
                       .name = hidden ? value->name : name,
                       .is_foldable = value->is_foldable,
                       .has_aggregate = value->has_aggregate};
  return TRN_OK;
}
