/* Numbers: rounding, elementary functions, bits, random numbers. */
#include "frontend/spark/translate/operators.h"

static trn_status to_number(spark_builder *b, size_t index) {
  const trn_type *type = spark__implicit_type(b->t, b->args[index]->type, 'n');
  if (!type) return spark__unexpected_input(b, index, "\"NUMERIC\"", b->args[index]->type);
  return spark__coerce(b, index, type);
}

static trn_status build_abs(spark_builder *b, const trn_expr **out) {
  if (spark__is_interval(b->args[0]->type)) return spark__not_supported(b, "intervals");
  trn_status status = to_number(b, 0);
  if (status) return status;
  return spark__gives(b, spark__moded(b, "trn.abs", b->args[0]->type, b->args, 1), out);
}

/* ---- rounding ---- */
/* The digits to keep: a literal int. */
static trn_status scale_of(spark_builder *b, int *scale) {
  *scale = 0;
  if (b->count < 2) return TRN_OK;
  const trn_type *type = spark__implicit_type(b->t, b->args[1]->type, 'i');
  if (!type) return spark__unexpected_input(b, 1, "\"INT\"", b->args[1]->type);
  trn_status status = spark__coerce(b, 1, type);
  if (status) return status;
  if (!spark__is_literal(b->args[1])) {
    if (b->call->args[1].is_foldable) return spark__not_supported(b, "a scale that is not a literal");
    const char *sql = trn__arena_printf(b->t->arena, "\"%s\"", b->call->args[1].name);
    if (!sql) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", "inputName", "`scale`", "inputType", "\"INT\"",
                           "inputExpr", sql, (char *)NULL);
  }
  int64_t value = b->args[1]->u.literal.value.integer;
  *scale = value > 1000 ? 1000 : value < -1000 ? -1000 : (int)value;
  return TRN_OK;
}

static const trn_type *rounded_decimal(spark_builder *b, const trn_type *from, int scale) {
  int least = from->precision - from->scale + 1;
  if (scale < 0) return spark__decimal_bounded(b->t, least > 1 - scale ? least : 1 - scale, 0);
  int kept = scale < from->scale ? scale : from->scale;
  return spark__decimal_bounded(b->t, least + kept, kept);
}

static trn_status build_round(spark_builder *b, const trn_expr **out) {
  int scale;
  trn_status status = to_number(b, 0);
  if (!status) status = scale_of(b, &scale);
  if (status) return status;
  if (b->count == 1 && !(b->name = trn__arena_printf(b->t->arena, "%s($1, 0)", b->function->name)))
    return trn__no_memory(b->error);
  const trn_type *type = b->args[0]->type;
  if (type->id == TRN_TYPE_DECIMAL) type = rounded_decimal(b, type, scale);
  const trn_expr *args[2] = {b->args[0], trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), scale)};
  if (!type) return trn__no_memory(b->error);
  trn_expr *expr =
      b->t->ansi ? spark__kernel_with(b, b->function->run, type, args, 2, SPARK_POSITION)
                 : spark__kernel(b->t, trn__arena_printf(b->t->arena, "%s_wrap", b->function->run), type, args, 2);
  return spark__gives(b, expr, out);
}

/* ceil, floor: decimals stay decimals, everything else becomes bigint; with a scale all are decimals. */
static trn_status build_ceil(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type, *result = trn__type(TRN_TYPE_INT64);
  int scale = 0;
  trn_status status = b->count == 2 ? scale_of(b, &scale) : TRN_OK;
  if (status) return status;
  if (type->id == TRN_TYPE_FLOAT32 || type->id == TRN_TYPE_NULL || spark__is_string(type))
    status = spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64));
  else if (!trn__type_is_numeric(type))
    return spark__unexpected_input(b, 0, "(\"DECIMAL\" or \"DOUBLE\" or \"BIGINT\")", type);
  if (!status && trn__type_is_integer(type) && b->count == 1) status = spark__coerce(b, 0, trn__type(TRN_TYPE_INT64));
  if (!status && b->count == 2 && b->args[0]->type->id != TRN_TYPE_DECIMAL) {
    const trn_type *decimal = spark__decimal_for(b->t, b->args[0]->type);
    status = decimal ? spark__coerce(b, 0, decimal) : trn__no_memory(b->error);
  }
  if (status) return status;
  type = b->args[0]->type;
  if (b->count == 1 && trn__type_is_integer(type)) {
    *out = b->args[0];
    if (strcmp(b->function->name, "ceiling") != 0) b->name = b->function->run[4] == 'c' ? "CEIL($1)" : "FLOOR($1)";
    return TRN_OK;
  }
  if (type->id == TRN_TYPE_DECIMAL) result = rounded_decimal(b, type, scale);
  if (b->count == 1 && strcmp(b->function->name, "ceiling") != 0)
    b->name = b->function->run[4] == 'c' ? "CEIL($1)" : "FLOOR($1)";
  const trn_expr *args[2] = {b->args[0], trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), scale)};
  return spark__gives(b, spark__kernel_with(b, b->function->run, result, args, b->count, SPARK_POSITION), out);
}

/* ---- constants, logarithms ---- */
/* Functions of doubles that Spark also has for intervals. */
static trn_status build_doubles(spark_builder *b, const trn_expr **out) {
  bool buckets = b->count == 4;
  const trn_type *type = trn__type(buckets ? TRN_TYPE_INT64 : TRN_TYPE_FLOAT64);
  for (size_t i = 0; i < b->count; i++) {
    char letter = i == 3 ? 'l' : 'd';
    if (i < 3 && spark__is_interval(b->args[i]->type)) { /* months or microseconds */
      const trn_expr *count = spark__interval_count(b->t, b->args[i], b->call->position);
      b->args[i] = count ? trn__expr_cast(b->t->arena, count, trn__type(TRN_TYPE_FLOAT64), false) : NULL;
      if (!b->args[i]) return trn__no_memory(b->error);
      continue;
    }
    const trn_type *to = spark__implicit_type(b->t, b->args[i]->type, letter);
    if (!to) return spark__unexpected_input(b, i, spark__letter_text(letter), b->args[i]->type);
    trn_status status = spark__coerce(b, i, to);
    if (status) return status;
  }
  return spark__gives(b, spark__kernel(b->t, b->function->run, type, b->args, b->count), out);
}

static trn_status build_e(spark_builder *b, const trn_expr **out) {
  return spark__gives(b, spark__double_literal(b->t, 2.718281828459045, trn__type(TRN_TYPE_FLOAT64)), out);
}
static trn_status build_pi(spark_builder *b, const trn_expr **out) {
  return spark__gives(b, spark__double_literal(b->t, 3.141592653589793, trn__type(TRN_TYPE_FLOAT64)), out);
}
static trn_status build_log(spark_builder *b, const trn_expr **out) {
  if (b->count == 1) b->name = "LOG(E(), $1)";
  return spark__gives(b, spark__kernel(b->t, "trn.log", trn__type(TRN_TYPE_FLOAT64), b->args, b->count), out);
}

/* ---- bits ---- */
static trn_status build_shift(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  trn_status status = TRN_OK;
  if (type->id == TRN_TYPE_INT8 || type->id == TRN_TYPE_INT16 || type->id == TRN_TYPE_NULL)
    type = trn__type(TRN_TYPE_INT32);
  else if (type->id != TRN_TYPE_INT32 && type->id != TRN_TYPE_INT64)
    type = spark__implicit_type(b->t, type, 'i');
  if (!type) return spark__unexpected_input(b, 0, "(\"INT\" or \"BIGINT\")", b->args[0]->type);
  if ((status = spark__coerce(b, 0, type))) return status;
  return spark__gives(b, spark__kernel(b->t, b->function->run, type, b->args, 2), out);
}

static trn_status build_bit_count(spark_builder *b, const trn_expr **out) {
  trn_status status = b->args[0]->type->id == TRN_TYPE_NULL ? spark__coerce(b, 0, trn__type(TRN_TYPE_INT32)) : TRN_OK;
  if (status) return status;
  const trn_type *type = b->args[0]->type;
  if (!trn__type_is_integer(type) && type->id != TRN_TYPE_BOOL)
    return spark__unexpected_input(b, 0, "(\"INTEGRAL\" or \"BOOLEAN\")", type);
  return spark__gives(b, spark__kernel(b->t, "trn.bit_count", trn__type(TRN_TYPE_INT32), b->args, 1), out);
}

static trn_status build_get_bit(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (!trn__type_is_integer(type)) return spark__unexpected_input(b, 0, "\"INTEGRAL\"", type);
  return spark__gives(b, spark__kernel_with(b, "trn.getbit", trn__type(TRN_TYPE_INT8), b->args, 2, SPARK_POSITION),
                      out);
}

#define DOUBLE_ROW(name, display)                                                                                      \
  { name, "d", "d", "trn." name, NULL, display "($1)", SPARK_NULLABLE, 0 }
static const spark_function rows[] = {
    {"abs", "a", NULL, NULL, build_abs, NULL, 0, 0},
    {"round", "a|a", NULL, "trn.round", build_round, NULL, SPARK_NULLABLE, 0},
    {"bround", "a|a", NULL, "trn.bround", build_round, NULL, SPARK_NULLABLE, 0},
    {"ceil", "a|a", NULL, "trn.ceil", build_ceil, NULL, SPARK_NULLABLE, 0},
    {"ceiling", "a|a", NULL, "trn.ceil", build_ceil, NULL, SPARK_NULLABLE, 0},
    {"floor", "a|a", NULL, "trn.floor", build_ceil, NULL, SPARK_NULLABLE, 0},
    DOUBLE_ROW("sqrt", "SQRT"),
    DOUBLE_ROW("cbrt", "CBRT"),
    DOUBLE_ROW("exp", "EXP"),
    DOUBLE_ROW("expm1", "EXPM1"),
    DOUBLE_ROW("log1p", "LOG1P"),
    DOUBLE_ROW("log2", "LOG2"),
    DOUBLE_ROW("log10", "LOG10"),
    DOUBLE_ROW("sin", "SIN"),
    DOUBLE_ROW("cos", "COS"),
    DOUBLE_ROW("tan", "TAN"),
    DOUBLE_ROW("asin", "ASIN"),
    DOUBLE_ROW("acos", "ACOS"),
    DOUBLE_ROW("atan", "ATAN"),
    DOUBLE_ROW("sinh", "SINH"),
    DOUBLE_ROW("cosh", "COSH"),
    DOUBLE_ROW("tanh", "TANH"),
    DOUBLE_ROW("asinh", "ASINH"),
    DOUBLE_ROW("acosh", "ACOSH"),
    DOUBLE_ROW("atanh", "ATANH"),
    DOUBLE_ROW("cot", "COT"),
    DOUBLE_ROW("sec", "SEC"),
    DOUBLE_ROW("csc", "CSC"),
    DOUBLE_ROW("degrees", "DEGREES"),
    DOUBLE_ROW("radians", "RADIANS"),
    DOUBLE_ROW("rint", "rint"),
    {"ln", "d", "d", "trn.log", NULL, NULL, SPARK_NULLABLE, 0},
    {"log", "d|d", NULL, NULL, build_log, "=LOG", SPARK_NULLABLE, 0},
    {"signum", "a", NULL, "trn.signum", build_doubles, "=SIGNUM", SPARK_NULLABLE, 0},
    {"sign", "a", NULL, "trn.signum", build_doubles, NULL, SPARK_NULLABLE, 0},
    {"pow", "dd", "d", "trn.pow", NULL, NULL, 0, 0},
    {"power", "dd", "d", "trn.pow", NULL, "=POWER", 0, 0},
    {"atan2", "dd", "d", "trn.atan2", NULL, "=ATAN2", 0, 0},
    {"hypot", "dd", "d", "trn.hypot", NULL, "=HYPOT", 0, 0},
    {"e", "", NULL, NULL, build_e, "E()", SPARK_NEVER_NULL, 0},
    {"pi", "", NULL, NULL, build_pi, "PI()", SPARK_NEVER_NULL, 0},
    {"factorial", "i", "l", "trn.factorial", NULL, NULL, SPARK_NULLABLE, 0},
    {"bin", "l", "s", "trn.bin", NULL, NULL, 0, 0},
    {"conv", "sii", "s", "trn.conv", NULL, NULL, SPARK_MODE | SPARK_NULLABLE, 0},
    {"width_bucket", "aaaa", NULL, "trn.width_bucket", build_doubles, NULL, SPARK_NULLABLE, 0},
    {"shiftleft", "ai", NULL, "trn.shiftleft", build_shift, NULL, 0, 0},
    {"shiftright", "ai", NULL, "trn.shiftright", build_shift, NULL, 0, 0},
    {"shiftrightunsigned", "ai", NULL, "trn.shiftrightunsigned", build_shift, NULL, 0, 0},
    {"<<", "ai", NULL, "trn.shiftleft", build_shift, "($1 << $2)", 0, 0},
    {">>", "ai", NULL, "trn.shiftright", build_shift, "($1 >> $2)", 0, 0},
    {">>>", "ai", NULL, "trn.shiftrightunsigned", build_shift, "($1 >>> $2)", 0, 0},
    {"bit_count", "a", NULL, NULL, build_bit_count, NULL, 0, 0},
    {"getbit", "ai", NULL, NULL, build_get_bit, NULL, 0, 0},
    {"bit_get", "ai", NULL, NULL, build_get_bit, NULL, 0, 0},
};
const spark_function_table spark__functions_math = {rows, sizeof rows / sizeof rows[0]};
