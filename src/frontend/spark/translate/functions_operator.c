/* Operators: arithmetic, comparisons, logic, bits. Datetime arithmetic is in functions_interval.c. */
#include "frontend/spark/translate/operators.h"

/* ---- type checks of binary operators ---- */
static trn_status wrong_type(spark_builder *b, const char *accepted) {
  const char *actual = spark__quoted_type(b->t, b->args[0]->type);
  if (!actual) return trn__no_memory(b->error);
  return spark__mismatch(b, "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE", "inputType", accepted, "actualDataType", actual,
                         (char *)NULL);
}

trn_status spark__operands_differ(spark_builder *b) {
  const char *left = spark__quoted_type(b->t, b->args[0]->type), *right = spark__quoted_type(b->t, b->args[1]->type);
  if (!left || !right) return trn__no_memory(b->error);
  return spark__mismatch(b, "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", "left", left, "right", right, (char *)NULL);
}

/* An operator that does not take the common type leaves its operands as they were written, apart from what is cast
 * without asking it: strings beside other types, decimals beside doubles. */
static bool met_anyway(const spark_builder *b) {
  const trn_type *x = b->call->args[0].expr->type, *y = b->call->args[1].expr->type;
  if (spark__is_string(x) != spark__is_string(y)) return true;
  if (x->id == TRN_TYPE_DECIMAL && y->id == TRN_TYPE_FLOAT64) return true;
  if (y->id == TRN_TYPE_DECIMAL && x->id == TRN_TYPE_FLOAT64) return true;
  return trn__type_same_shape(x, y);
}

typedef bool (*accepts_type)(const trn_type *type);
static bool takes_numbers(const trn_type *type) {
  return trn__type_is_numeric(type);
}
static bool takes_numbers_and_intervals(const trn_type *type) {
  return trn__type_is_numeric(type) || spark__is_interval(type) || type->id == TRN_TYPE_INTERVAL_CALENDAR;
}
static bool takes_integers(const trn_type *type) {
  return trn__type_is_integer(type);
}
static bool takes_booleans(const trn_type *type) {
  return type->id == TRN_TYPE_BOOL;
}

/* After coercion: both of one type (decimals may differ in digits), and one the operator takes. `empty`: the type that
 * two nulls become. */
static trn_status check_operands(spark_builder *b, accepts_type accepts, const char *accepted, const trn_type *empty) {
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type;
  if (x->id == TRN_TYPE_NULL && y->id == TRN_TYPE_NULL) {
    trn_status status = spark__coerce(b, 0, empty);
    return status ? status : spark__coerce(b, 1, empty);
  }
  bool decimals = x->id == TRN_TYPE_DECIMAL && y->id == TRN_TYPE_DECIMAL;
  if (!decimals && !trn__type_same_shape(x, y)) return spark__operands_differ(b);
  if (accepts(x)) return TRN_OK;
  if (!met_anyway(b)) {
    b->args[0] = b->call->args[0].expr;
    b->args[1] = b->call->args[1].expr;
    return spark__operands_differ(b);
  }
  return wrong_type(b, accepted);
}

/* ---- + - * ---- */
/* Spark's result of two decimals, before it is fitted into 38 digits. */
static void decimal_shape(char op, const trn_type *x, const trn_type *y, int *precision, int *scale) {
  int p1 = x->precision, s1 = x->scale, p2 = y->precision, s2 = y->scale, most = s1 > s2 ? s1 : s2;
  int whole1 = p1 - s1, whole2 = p2 - s2;
  switch (op) {
  case '*':
    *scale = s1 + s2;
    *precision = p1 + p2 + 1;
    break;
  case '/':
    *scale = s1 + p2 + 1 > 6 ? s1 + p2 + 1 : 6;
    *precision = whole1 + s2 + *scale;
    break;
  case '%':
    *scale = most;
    *precision = (whole1 < whole2 ? whole1 : whole2) + most;
    break;
  default: *scale = most; *precision = (whole1 > whole2 ? whole1 : whole2) + most + 1;
  }
}

static trn_status arithmetic(spark_builder *b, char op, const char *stem, const trn_expr **out) {
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type, *type = x;
  char native[2] = {op, 0};
  bool is_try = b->function->flags & SPARK_TRY;
  if (x->id == TRN_TYPE_DECIMAL) {
    int precision, scale;
    decimal_shape(op, x, y, &precision, &scale);
    type = spark__decimal_adjusted(b->t, precision, scale);
    if (!type) return trn__no_memory(b->error);
    /* Within 38 digits nothing overflows and arrow's result type is Spark's for these three. */
    bool fits = precision <= 38 && (op == '+' || op == '-' || op == '*');
    trn_expr *expr = fits ? spark__native(b->t,
                                          op == '+'   ? "+"
                                          : op == '-' ? "-"
                                                      : "*",
                                          type, b->args, 2)
                          : spark__moded(b, stem, type, b->args, 2);
    if (expr && (!b->t->ansi || is_try || op == '%')) expr->nullable = true;
    return spark__gives(b, expr, out);
  }
  if (spark__is_float(x) && (op == '+' || op == '-' || op == '*'))
    return spark__gives(b, spark__native(b->t, op == '+' ? "+" : op == '-' ? "-" : "*", type, b->args, 2), out);
  if (spark__is_interval(x)) return spark__interval_arithmetic(b, native[0], out);
  trn_expr *expr = spark__moded(b, stem, type, b->args, 2);
  if (expr && op == '%') expr->nullable = true;
  return spark__gives(b, expr, out);
}

static const char numbers_and_intervals[] =
    "(\"NUMERIC\" or \"INTERVAL DAY TO SECOND\" or \"INTERVAL YEAR TO MONTH\" or \"INTERVAL\")";

static trn_status build_arithmetic(spark_builder *b, const trn_expr **out) {
  char op = b->function->run[0];
  bool done = false;
  trn_status status = spark__datetime_arithmetic(b, op, &done, out);
  if (status || done) return status;
  if ((status = spark__coerce_operands(b, false))) return status;
  bool additive = op == '+' || op == '-';
  status = check_operands(b, additive ? takes_numbers_and_intervals : takes_numbers,
                          additive ? numbers_and_intervals : "\"NUMERIC\"", trn__type(TRN_TYPE_FLOAT64));
  if (status) return status;
  if (b->args[0]->type->id == TRN_TYPE_INTERVAL_CALENDAR) return spark__not_supported(b, "calendar intervals");
  return arithmetic(b, op, b->function->run + 1, out);
}

/* ---- / div % ---- */
static bool takes_division(const trn_type *type) {
  return type->id == TRN_TYPE_FLOAT64 || type->id == TRN_TYPE_DECIMAL;
}

static trn_status build_divide(spark_builder *b, const trn_expr **out) {
  bool done = false;
  trn_status status = spark__datetime_arithmetic(b, '/', &done, out);
  if (status || done) return status;
  if (b->args[0]->type->id == TRN_TYPE_NULL && b->args[1]->type->id == TRN_TYPE_DECIMAL)
    status = spark__coerce(b, 1, trn__type(TRN_TYPE_FLOAT64)); /* NULL / decimal is double; decimal / NULL is not */
  if (!status) status = spark__coerce_operands(b, false);
  if (status) return status;
  for (size_t i = 0; i < 2; i++) { /* what is not decimal divides as double */
    const trn_type *x = b->args[i]->type, *y = b->args[1 - i]->type;
    bool numbers =
        (trn__type_is_numeric(x) || x->id == TRN_TYPE_NULL) && (trn__type_is_numeric(y) || y->id == TRN_TYPE_NULL);
    if (numbers && x->id != TRN_TYPE_DECIMAL && (status = spark__coerce(b, i, trn__type(TRN_TYPE_FLOAT64))))
      return status;
  }
  status = check_operands(b, takes_division, "(\"DOUBLE\" or \"DECIMAL\")", trn__type(TRN_TYPE_FLOAT64));
  if (status) return status;
  const trn_type *type = b->args[0]->type;
  if (type->id == TRN_TYPE_DECIMAL) {
    int precision, scale;
    decimal_shape('/', type, b->args[1]->type, &precision, &scale);
    type = spark__decimal_adjusted(b->t, precision, scale);
  }
  trn_expr *expr = type ? spark__moded(b, "trn.divide", type, b->args, 2) : NULL;
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

static bool takes_int_division(const trn_type *type) {
  return type->id == TRN_TYPE_INT64 || type->id == TRN_TYPE_DECIMAL || spark__is_interval(type);
}

static trn_status build_int_divide(spark_builder *b, const trn_expr **out) {
  trn_status status = spark__coerce_operands(b, false);
  for (size_t i = 0; !status && i < 2; i++)
    if (trn__type_is_integer(b->args[i]->type)) status = spark__coerce(b, i, trn__type(TRN_TYPE_INT64));
  if (status) return status;
  status = check_operands(b, takes_int_division,
                          "(\"BIGINT\" or \"DECIMAL\" or \"INTERVAL YEAR TO MONTH\" or \"INTERVAL DAY TO SECOND\")",
                          trn__type(TRN_TYPE_INT64));
  if (status) return status;
  if (spark__is_interval(b->args[0]->type)) { /* both are counts: of months, of microseconds */
    for (size_t i = 0; i < 2; i++)
      if (!(b->args[i] = spark__interval_count(b->t, b->args[i], b->call->position))) return trn__no_memory(b->error);
  }
  trn_expr *expr = spark__moded(b, "trn.int_divide", trn__type(TRN_TYPE_INT64), b->args, 2);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

/* ---- signs ---- */
static bool is_operator_text(const spark_builder *b, char sign) {
  const spark_translator *t = b->t;
  int32_t at = b->call->position.start;
  return t->sql && at >= 0 && (size_t)at < t->sql_size && t->sql[at] == sign;
}

static trn_status build_negative(spark_builder *b, const trn_expr **out) {
  if (is_operator_text(b, '-')) b->name = "(- $1)";
  const trn_type *type = b->args[0]->type;
  trn_status status = TRN_OK;
  if (type->id == TRN_TYPE_NULL || spark__is_string(type)) status = spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64));
  if (status) return status;
  type = b->args[0]->type;
  if (!takes_numbers_and_intervals(type)) return spark__unexpected_input(b, 0, numbers_and_intervals, type);
  if (type->id == TRN_TYPE_INTERVAL_CALENDAR) return spark__not_supported(b, "calendar intervals");
  if (spark__is_float(type) || type->id == TRN_TYPE_DECIMAL) /* symmetric: nothing overflows */
    return spark__gives(b, spark__native(b->t, "negative", type, b->args, 1), out);
  const char *stem = spark__is_interval(type) ? "trn.interval_negate" : "trn.negate";
  if (spark__is_interval(type))
    return spark__gives(b, spark__kernel_with(b, stem, type, b->args, 1, SPARK_POSITION), out);
  return spark__gives(b, spark__moded(b, stem, type, b->args, 1), out);
}

static trn_status build_positive(spark_builder *b, const trn_expr **out) {
  trn_status status = TRN_OK;
  if (b->args[0]->type->id == TRN_TYPE_NULL || spark__is_string(b->args[0]->type))
    status = spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64));
  if (status) return status;
  if (!takes_numbers_and_intervals(b->args[0]->type))
    return spark__unexpected_input(b, 0, numbers_and_intervals, b->args[0]->type);
  *out = b->args[0];
  return TRN_OK;
}

static trn_status build_pmod(spark_builder *b, const trn_expr **out) {
  trn_status status = spark__coerce_operands(b, false);
  if (status) return status;
  if ((status = check_operands(b, takes_numbers, "\"NUMERIC\"", trn__type(TRN_TYPE_FLOAT64)))) return status;
  return arithmetic(b, '%', "trn.pmod", out);
}

/* ---- comparisons ---- */
static trn_status not_orderable(spark_builder *b, const trn_type *type) {
  const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->run ? b->function->run : b->function->name);
  const char *text = spark__quoted_type(b->t, type);
  if (!name || !text) return trn__no_memory(b->error);
  return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE", "functionName", name, "dataType", text,
                         (char *)NULL);
}

/* With ANSI off a boolean equals a number when it equals it as a number. */
static trn_status coerce_boolean_equality(spark_builder *b) {
  const char *run = b->function->run;
  if (b->t->ansi || !run || (strcmp(run, "=") != 0 && strcmp(run, "<=>") != 0)) return TRN_OK;
  for (size_t i = 0; i < 2; i++)
    if (b->args[i]->type->id == TRN_TYPE_BOOL && trn__type_is_numeric(b->args[1 - i]->type))
      return spark__coerce(b, i, b->args[1 - i]->type);
  return TRN_OK;
}

trn_status spark__coerce_comparison(spark_builder *b) {
  trn_status status = coerce_boolean_equality(b);
  if (!status) status = spark__coerce_operands(b, true);
  if (status) return status;
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type;
  if (!trn__type_same_shape(x, y)) return spark__operands_differ(b);
  return spark__is_orderable(x) ? TRN_OK : not_orderable(b, x);
}

static bool is_zero(const trn_expr *expr) {
  return spark__is_literal(expr) && expr->u.literal.value.number == 0;
}

/* x + 0.0: the one step that makes -0.0 and 0.0 the same bits, as arrow compares them. NaNs of other bit patterns than
 * the usual one stay apart from it: neither casts nor arithmetic of Spark make them. */
static const trn_expr *without_negative_zero(spark_translator *t, const trn_expr *expr) {
  if (spark__is_literal(expr)) return is_zero(expr) ? spark__double_literal(t, 0.0, expr->type) : expr;
  const trn_expr *args[2] = {expr, spark__double_literal(t, 0.0, expr->type)};
  return spark__native(t, "+", expr->type, args, 2);
}

static const char *mirrored(const char *op) {
  switch (op[0]) {
  case '<': return op[1] ? ">=" : ">";
  case '>': return op[1] ? "<=" : "<";
  default: return op;
  }
}

/* Floating point against a literal: only zero needs care, and the column stays bare, so that pruning works. */
static trn_expr *compare_with_literal(spark_translator *t, const char *op, const trn_expr *column,
                                      const trn_expr *literal) {
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  const trn_expr *args[2] = {column, literal};
  if (!is_zero(literal)) return spark__native(t, op, boolean, args, 2);
  const trn_expr *low = spark__double_literal(t, -0.0, literal->type),
                 *high = spark__double_literal(t, 0.0, literal->type);
  if (op[0] == '=' || op[0] == 'i') { /* -0.0 <= x <= 0.0 */
    const trn_expr *least[2] = {column, low}, *most[2] = {column, high};
    const trn_expr *both[2] = {spark__native(t, ">=", boolean, least, 2), spark__native(t, "<=", boolean, most, 2)};
    trn_expr *between = spark__native(t, "and", boolean, both, 2);
    if (!between || op[0] == '=') return between;
    const trn_expr *one = between;
    return trn__expr_call(t->arena, TRN_HOME_NATIVE, "is_true", boolean, false, &one, 1);
  }
  bool below = !strcmp(op, "<") || !strcmp(op, ">=");
  args[1] = below ? low : high;
  return spark__native(t, op, boolean, args, 2);
}

trn_expr *spark__compare(spark_translator *t, const char *op, const trn_expr *left, const trn_expr *right) {
  const trn_expr *args[2] = {left, right};
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  bool null_safe = op[0] == 'i';
  trn_expr *expr;
  if (!left || !right) return NULL;
  if (spark__is_float(left->type)) {
    if (spark__is_literal(right)) return compare_with_literal(t, op, left, right);
    if (spark__is_literal(left)) return compare_with_literal(t, mirrored(op), right, left);
    args[0] = without_negative_zero(t, left);
    args[1] = without_negative_zero(t, right);
  }
  expr = spark__native(t, op, boolean, args, 2);
  if (expr && null_safe) expr->nullable = false;
  return expr;
}

/* An integer against a decimal literal is a comparison of integers: i > 1.1 is i > 1. */
static trn_status round_decimal_literal(spark_builder *b) {
  const char *op = b->function->run;
  if (op[0] != '<' && op[0] != '>') return TRN_OK;
  for (size_t i = 0; i < 2; i++) {
    const trn_expr *literal = b->args[i], *other = b->args[1 - i];
    if (!b->call->args[i].is_literal || !spark__is_literal(literal) || literal->type->id != TRN_TYPE_DECIMAL) continue;
    if (!trn__type_is_integer(other->type) || !strcmp(op, "<=>")) continue;
    trn_i128 value = spark__decimal_value(&literal->u.literal), unit = spark__pow10(literal->type->scale);
    bool or_equal = op[1] == '=', above = op[0] == '>', right = i == 1;
    bool down = above == right ? !or_equal : or_equal; /* i > d and d < i round down, i < d and d > i round up */
    trn_i128 whole = value / unit, rest = value % unit;
    if (rest && down && value < 0) whole--;
    if (rest && !down && value > 0) whole++;
    if (whole > INT64_MAX || whole < INT64_MIN) continue; /* beyond: compared as decimals, which says the same */
    b->args[i] = trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT64), (int64_t)whole);
    b->text = i ? trn__arena_printf(b->t->arena, "(%s %s %lld)", b->call->args[0].name, op, (long long)whole)
                : trn__arena_printf(b->t->arena, "(%lld %s %s)", (long long)whole, op, b->call->args[1].name);
    return b->args[i] && b->text ? TRN_OK : trn__no_memory(b->error);
  }
  return TRN_OK;
}

static trn_status build_compare(spark_builder *b, const trn_expr **out) {
  trn_status status = round_decimal_literal(b);
  if (!status) status = spark__coerce_comparison(b);
  if (status) return status;
  const char *op = strcmp(b->function->run, "<=>") == 0 ? "is_not_distinct_from" : b->function->run;
  return spark__gives(b, spark__compare(b->t, op, b->args[0], b->args[1]), out);
}

static trn_status build_not_equal(spark_builder *b, const trn_expr **out) {
  trn_status status = spark__coerce_comparison(b);
  if (status) return status;
  const trn_expr *equal = spark__compare(b->t, "=", b->args[0], b->args[1]);
  return spark__gives(b, spark__native(b->t, "not", trn__type(TRN_TYPE_BOOL), &equal, 1), out);
}

static trn_status build_logic(spark_builder *b, const trn_expr **out) {
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  trn_status status = spark__coerce_operands(b, false);
  if (status) return status;
  if (b->t->ansi || b->args[0]->type->id == b->args[1]->type->id) {
    if ((status = check_operands(b, takes_booleans, "\"BOOLEAN\"", boolean))) return status;
  } else {
    return spark__operands_differ(b);
  }
  return spark__gives(b, spark__native(b->t, b->function->run, boolean, b->args, 2), out);
}

static trn_status build_bits(spark_builder *b, const trn_expr **out) {
  trn_status status = spark__coerce_operands(b, false);
  if (status) return status;
  if ((status = check_operands(b, takes_integers, "\"INTEGRAL\"", trn__type(TRN_TYPE_INT32)))) return status;
  return spark__gives(b, spark__native(b->t, b->function->run, b->args[0]->type, b->args, 2), out);
}

static trn_status build_bit_not(spark_builder *b, const trn_expr **out) {
  if (b->args[0]->type->id == TRN_TYPE_NULL) {
    trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_INT32));
    if (status) return status;
  }
  const trn_type *type = b->args[0]->type;
  if (!trn__type_is_integer(type)) return spark__unexpected_input(b, 0, "\"INTEGRAL\"", type);
  const trn_expr *args[2] = {b->args[0], trn__expr_int(b->t->arena, type, -1)};
  return spark__gives(b, spark__native(b->t, "bit_xor", type, args, 2), out);
}

static const spark_function rows[] = {
    {"+", "aa", NULL, "+trn.add", build_arithmetic, "($1 + $2)", 0, 0},
    {"-", "aa", NULL, "-trn.subtract", build_arithmetic, "($1 - $2)", 0, 0},
    {"*", "aa", NULL, "*trn.multiply", build_arithmetic, "($1 * $2)", 0, 0},
    {"/", "aa", NULL, NULL, build_divide, "($1 / $2)", 0, 0},
    {"%", "aa", NULL, "%trn.remainder", build_arithmetic, "($1 % $2)", 0, 0},
    {"mod", "aa", NULL, "%trn.remainder", build_arithmetic, NULL, 0, 0},
    {"div", "aa", NULL, NULL, build_int_divide, "($1 div $2)", 0, 0},
    {"pmod", "aa", NULL, NULL, build_pmod, NULL, 0, 0},
    {"try_add", "aa", NULL, "+trn.add", build_arithmetic, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
    {"try_subtract", "aa", NULL, "-trn.subtract", build_arithmetic, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
    {"try_multiply", "aa", NULL, "*trn.multiply", build_arithmetic, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
    {"try_divide", "aa", NULL, NULL, build_divide, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
    {"try_mod", "aa", NULL, "%trn.remainder", build_arithmetic, NULL, SPARK_TRY | SPARK_NULLABLE, 0},
    {"negative", "a", NULL, NULL, build_negative, NULL, 0, 0},
    {"positive", "a", NULL, NULL, build_positive, "(+ $1)", 0, 0},
    {"==", "aa", NULL, "=", build_compare, "($1 = $2)", 0, 0},
    {"=", "aa", NULL, "=", build_compare, "($1 = $2)", 0, 0},
    {"<=>", "aa", NULL, "<=>", build_compare, "($1 <=> $2)", SPARK_NEVER_NULL, 0},
    {"equal_null", "aa", NULL, "<=>", build_compare, NULL, SPARK_NEVER_NULL, 0},
    {"!=", "aa", NULL, "=", build_not_equal, "(NOT ($1 = $2))", 0, 0},
    {"<>", "aa", NULL, "=", build_not_equal, "(NOT ($1 = $2))", 0, 0},
    {"<", "aa", NULL, "<", build_compare, "($1 < $2)", 0, 0},
    {"<=", "aa", NULL, "<=", build_compare, "($1 <= $2)", 0, 0},
    {">", "aa", NULL, ">", build_compare, "($1 > $2)", 0, 0},
    {">=", "aa", NULL, ">=", build_compare, "($1 >= $2)", 0, 0},
    {"and", "aa", NULL, "and", build_logic, "($1 AND $2)", 0, 0},
    {"or", "aa", NULL, "or", build_logic, "($1 OR $2)", 0, 0},
    {"not", "B", "B", "=not", NULL, "(NOT $1)", 0, 0},
    {"!", "B", "B", "=not", NULL, "(NOT $1)", 0, 0},
    {"&", "aa", NULL, "bit_and", build_bits, "($1 & $2)", 0, 0},
    {"|", "aa", NULL, "bit_or", build_bits, "($1 | $2)", 0, 0},
    {"^", "aa", NULL, "bit_xor", build_bits, "($1 ^ $2)", 0, 0},
    {"~", "a", NULL, NULL, build_bit_not, "~$1", 0, 0},
};
const spark_function_table spark__functions_operator = {rows, sizeof rows / sizeof rows[0]};
