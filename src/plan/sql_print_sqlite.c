/* SQLite's dialect. How values are held (docs/embedding.md): booleans 0 and 1; decimals as integers, the unscaled value;
 * dates as text "YYYY-MM-DD"; timestamps microseconds since the epoch; intervals months or microseconds; times of day
 * nanoseconds. SQLite's integers turn into reals when they overflow and its division by zero gives null, so that both are
 * looked for: the query ends with SQLite's errors "integer overflow" and "malformed JSON". */
#include "plan/sql_print.h"
#include <inttypes.h>
#include <stdio.h>

/* Errors that are raised when they are reached: constants would be computed at the start of the statement. */
#define OVERFLOW "abs(coalesce(CAST(v AS INTEGER), 0) * 0 - 9223372036854775807 - 1)"
#define ZERO_DIVIDE "json(x || ' / 0')"
enum { EXACT_DIGITS = 18, DOUBLE_DIGITS = 15 }; /* of any such decimal in 64 bits, and in a double */

static int64_t power(int digits) {
  int64_t value = 1;
  while (digits-- > 0) value *= 10;
  return value;
}

static bool is_decimal(const trn_type *type) {
  return type->id == TRN_TYPE_DECIMAL;
}

static trn_status check_type(sql_printer *p, const trn_type *type) {
  return type->id <= TRN_TYPE_INTERVAL_DAY_TIME ? TRN_OK : trn__sql_refuse_type(p, type);
}

static trn_status null(sql_printer *p, const trn_type *type) {
  (void)type;
  trn__sql_puts(p, "NULL");
  return TRN_OK;
}

static trn_status column(sql_printer *p, const char *name, const trn_type *type) {
  (void)type;
  trn__sql_name(p, name);
  return TRN_OK;
}

/* ---- literals ---- */

static trn_status decimal_literal(sql_printer *p, const trn_expr *e, int digits) {
  int64_t value = (int64_t)e->u.literal.value.decimal.low, scaled;
  if (e->u.literal.value.decimal.high != (value < 0 ? -1 : 0) || digits > EXACT_DIGITS ||
      __builtin_mul_overflow(value, power(digits), &scaled))
    return trn__sql_refuse(p, "a decimal of more than 64 bits");
  trn__sql_printf(p, scaled < 0 ? "(%" PRId64 ")" : "%" PRId64, scaled);
  return TRN_OK;
}

static void text_literal(sql_printer *p, const char *data, size_t size) {
  if (!memchr(data, 0, size)) {
    trn__sql_quoted(p, data, size);
    return;
  }
  trn__sql_puts(p, "CAST("); /* a zero byte ends a SQL text */
  trn__sql_hex(p, data, size);
  trn__sql_puts(p, " AS TEXT)");
}

static trn_status date_literal(sql_printer *p, int64_t days) {
  trn__sql_puts(p, "'");
  trn_status status = trn__sql_date(p, days);
  trn__sql_puts(p, "'");
  return status;
}

static trn_status double_literal(sql_printer *p, double value) {
  char text[40];
  if (value != value) return trn__sql_refuse(p, "NaN");
  if (value - value != 0) {
    trn__sql_puts(p, value < 0 ? "(-9e999)" : "9e999");
    return TRN_OK;
  }
  snprintf(text, sizeof text, "%.17g", value);
  trn__sql_printf(p, "(%s%s)", text, strpbrk(text, ".e") ? "" : ".0");
  return TRN_OK;
}

static trn_status literal(sql_printer *p, const trn_expr *e) {
  const trn_literal *v = &e->u.literal;
  switch (e->type->id) {
  case TRN_TYPE_BOOL: trn__sql_puts(p, v->value.boolean ? "TRUE" : "FALSE"); return TRN_OK;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: return double_literal(p, v->value.number);
  case TRN_TYPE_DECIMAL: return decimal_literal(p, e, 0);
  case TRN_TYPE_STRING: text_literal(p, v->value.bytes.data, v->value.bytes.size); return TRN_OK;
  case TRN_TYPE_BINARY: trn__sql_hex(p, v->value.bytes.data, v->value.bytes.size); return TRN_OK;
  case TRN_TYPE_DATE: return date_literal(p, v->value.integer);
  default: trn__sql_printf(p, v->value.integer < 0 ? "(%" PRId64 ")" : "%" PRId64, v->value.integer); return TRN_OK;
  }
}

/* ---- numbers: `open` and `close` go around an expression that is named v ---- */

static void close_checked(sql_printer *p, const char *otherwise) {
  trn__sql_printf(p, " AS v))%s", otherwise);
}

/* What stands for a value out of range: the error, or null. */
static void open_checked(sql_printer *p, const trn_type *type, bool is_try) {
  const char *bad = is_try ? "NULL" : OVERFLOW;
  static const int64_t highest[] = {[TRN_TYPE_INT8] = INT8_MAX, [TRN_TYPE_INT16] = INT16_MAX, [TRN_TYPE_INT32] = INT32_MAX};
  int64_t high = is_decimal(type) && type->precision <= EXACT_DIGITS ? power(type->precision) - 1
                 : type->id >= TRN_TYPE_INT8 && type->id <= TRN_TYPE_INT32 ? highest[type->id]
                                                                           : 0;
  trn__sql_puts(p, "(SELECT CASE WHEN typeof(v) = 'real'");
  if (high) trn__sql_printf(p, " OR v NOT BETWEEN %" PRId64 " AND %" PRId64, is_decimal(type) ? -high : -high - 1, high);
  trn__sql_printf(p, " THEN %s ELSE v END FROM (SELECT ", bad);
}

/* A decimal with its scale made `scale`, which is not smaller. */
static trn_status scaled(sql_printer *p, const trn_expr *e, int scale) {
  int digits = scale - e->type->scale;
  if (digits == 0) return trn__sql_expr(p, e);
  if (e->kind == TRN_EXPR_LITERAL && !e->u.literal.is_null) return decimal_literal(p, e, digits);
  if (digits < 0 || digits > EXACT_DIGITS) return trn__sql_refuse(p, "a change of scale by %d digits", digits);
  bool is_safe = e->type->precision + digits <= EXACT_DIGITS;
  const trn_type wide = {.id = TRN_TYPE_DECIMAL, .precision = 38};
  if (!is_safe) open_checked(p, &wide, false);
  trn__sql_puts(p, "(");
  trn_status status = trn__sql_expr(p, e);
  trn__sql_printf(p, " * %" PRId64 ")", power(digits));
  if (!is_safe) close_checked(p, "");
  return status;
}

/* Around a decimal that has `digits` too many after its point: half up, as Spark. */
static void open_rounded(sql_printer *p, int digits) {
  int64_t unit = power(digits);
  trn__sql_printf(p,
                  "(SELECT v / %" PRId64 " + CASE WHEN abs(v %% %" PRId64 ") >= %" PRId64
                  " THEN CASE WHEN v < 0 THEN -1 ELSE 1 END ELSE 0 END FROM (SELECT ",
                  unit, unit, unit / 2);
}

static trn_status decimal_operation(sql_printer *p, const trn_expr *e, char op, bool is_try) {
  const trn_type *a = e->args[0]->type, *b = e->args[1]->type, *type = e->type;
  if (!is_decimal(a) || !is_decimal(b) || !is_decimal(type)) return trn__sql_refuse(p, "arithmetic of mixed types");
  int scale = op == '*' ? a->scale + b->scale : a->scale > b->scale ? a->scale : b->scale;
  int extra = scale - type->scale;
  bool is_checked = type->precision + (extra > 0 ? extra : 0) > EXACT_DIGITS;
  if (extra < 0 || extra > EXACT_DIGITS) return trn__sql_refuse(p, "this scale of the result of \"%c\"", op);
  if (extra) open_rounded(p, extra);
  if (is_checked) open_checked(p, &(trn_type){.id = TRN_TYPE_DECIMAL, .precision = 38}, is_try);
  trn__sql_puts(p, "(");
  trn_status status = op == '*' ? trn__sql_expr(p, e->args[0]) : scaled(p, e->args[0], scale);
  trn__sql_printf(p, " %c ", op);
  if (!status) status = op == '*' ? trn__sql_expr(p, e->args[1]) : scaled(p, e->args[1], scale);
  trn__sql_puts(p, ")");
  if (is_checked) close_checked(p, "");
  if (extra) close_checked(p, "");
  return status;
}

static trn_status arithmetic(sql_printer *p, const trn_expr *e, char op, bool is_try) {
  static const char *const forms[] = {"($1 + $2)", "($1 - $2)", "($1 * $2)"};
  const char *form = forms[op == '+' ? 0 : op == '-' ? 1 : 2];
  if (e->arg_count < 2) return trn_error_set(p->error, TRN_INTERNAL, NULL, "\"%c\" needs two arguments", op);
  if (is_decimal(e->type)) return decimal_operation(p, e, op, is_try);
  if (e->type->id == TRN_TYPE_FLOAT64) return trn__sql_form(p, form, e->args, 2);
  bool is_whole = trn__type_is_integer(e->type) && e->u.call.home == TRN_HOME_LIBRARY;
  if (!is_whole || !trn__type_is_integer(e->args[0]->type) || !trn__type_is_integer(e->args[1]->type))
    return trn__sql_refuse(p, "\"%c\" of this type", op);
  open_checked(p, e->type, is_try);
  trn_status status = trn__sql_form(p, form, e->args, 2);
  close_checked(p, "");
  return status;
}

/* x / y, both whole, with `digits` more after the point, half up: a long division in two steps, so that the remainders
 * stay small. The innermost SELECT gives x and y. */
static void open_division(sql_printer *p, int digits, bool is_try) {
  int64_t first = power(digits / 2), second = power(digits - digits / 2);
  const char *zero = is_try ? "NULL" : ZERO_DIVIDE, *bad = is_try ? "NULL" : OVERFLOW;
  trn__sql_printf(p,
                  "(SELECT CASE WHEN y = 0 AND x IS NOT NULL THEN %s WHEN typeof(t) = 'real' OR typeof(u) = 'real' OR "
                  "typeof(v) = 'real' THEN %s ",
                  zero, bad);
  trn__sql_puts(p, "ELSE v + CASE WHEN abs(u % y) >= abs(y) - abs(u % y) THEN CASE WHEN (x < 0) = (y < 0) THEN 1 ELSE "
                   "-1 END ELSE 0 END END ");
  trn__sql_printf(p, "FROM (SELECT x, y, t, u, (x / y * %" PRId64 " + t / y) * %" PRId64 " + u / y AS v ", first, second);
  trn__sql_printf(p, "FROM (SELECT x, y, t, t %% y * %" PRId64 " AS u ", second);
  trn__sql_printf(p, "FROM (SELECT x, y, x %% y * %" PRId64 " AS t FROM (SELECT ", first);
}

static void close_division(sql_printer *p) {
  trn__sql_puts(p, " AS y)))))");
}

static trn_status divide(sql_printer *p, const trn_expr *e, bool is_try) {
  if (e->type->id == TRN_TYPE_FLOAT64 && e->args[0]->type->id == TRN_TYPE_FLOAT64) {
    trn__sql_printf(p, "(SELECT CASE WHEN y = 0 AND x IS NOT NULL THEN %s ELSE x / y END FROM (SELECT ",
                    is_try ? "NULL" : ZERO_DIVIDE);
    return trn__sql_form(p, "$1 AS x, $2 AS y))", e->args, 2);
  }
  if (!is_decimal(e->type) || !is_decimal(e->args[0]->type) || !is_decimal(e->args[1]->type))
    return trn__sql_refuse(p, "\"/\" of this type");
  int digits = e->type->scale + e->args[1]->type->scale - e->args[0]->type->scale;
  if (digits < 0 || digits > 2 * EXACT_DIGITS) return trn__sql_refuse(p, "this scale of the result of \"/\"");
  open_division(p, digits, is_try);
  trn_status status = trn__sql_form(p, "$1 AS x, $2", e->args, 2);
  close_division(p);
  return status;
}

static trn_status divide_whole(sql_printer *p, const trn_expr *e, char op, bool is_try) {
  if (!trn__type_is_integer(e->args[0]->type) || !trn__type_is_integer(e->args[1]->type))
    return trn__sql_refuse(p, "\"%s\" of this type", op == '/' ? "div" : "%");
  open_checked(p, e->type, is_try);
  trn__sql_printf(p, "(SELECT CASE WHEN y = 0 AND x IS NOT NULL THEN %s %sELSE x %c y END FROM (SELECT ",
                  is_try ? "NULL" : ZERO_DIVIDE, op == '%' ? "WHEN y = -1 THEN 0 * x " : "", op);
  trn_status status = trn__sql_form(p, "$1 AS x, $2 AS y))", e->args, 2);
  close_checked(p, "");
  return status;
}

static trn_status negate(sql_printer *p, const trn_expr *e, const char *form, bool is_try) {
  if (e->type->id == TRN_TYPE_FLOAT64 || (is_decimal(e->type) && e->type->precision <= EXACT_DIGITS))
    return trn__sql_form(p, form, e->args, 1);
  if (!is_decimal(e->type) && (!trn__type_is_integer(e->type) || e->u.call.home == TRN_HOME_NATIVE || is_try))
    return trn__sql_refuse(p, "a sign of this type");
  open_checked(p, e->type, is_try);
  trn_status status = trn__sql_form(p, form, e->args, 1);
  close_checked(p, "");
  return status;
}

/* ---- casts ---- */

static int whole_digits(const trn_type *type) {
  static const int digits[] = {[TRN_TYPE_INT8] = 3, [TRN_TYPE_INT16] = 5, [TRN_TYPE_INT32] = 10, [TRN_TYPE_INT64] = 19};
  return is_decimal(type) ? type->precision - type->scale : digits[type->id];
}

/* Whole numbers are decimals of scale 0. */
static trn_status cast_decimal(sql_printer *p, const trn_expr *arg, const trn_type *to, bool is_try) {
  const trn_type *from = arg->type;
  int from_scale = is_decimal(from) ? from->scale : 0, digits = to->scale - from_scale;
  if (digits > EXACT_DIGITS || -digits > EXACT_DIGITS) return trn__sql_refuse(p, "a change of scale by %d digits", digits);
  int room = to->precision - to->scale - whole_digits(from) - (digits < 0); /* rounding may add a digit */
  bool is_checked = room < 0 || (digits > 0 && whole_digits(from) + to->scale > EXACT_DIGITS);
  if (is_checked) open_checked(p, to, is_try);
  if (digits < 0) open_rounded(p, -digits);
  trn__sql_puts(p, "(");
  trn_status status = trn__sql_expr(p, arg);
  if (digits > 0) trn__sql_printf(p, " * %" PRId64, power(digits));
  trn__sql_puts(p, ")");
  if (digits < 0) close_checked(p, "");
  if (is_checked) close_checked(p, "");
  return status;
}

static trn_status cast_whole(sql_printer *p, const trn_expr *arg, const trn_type *to, bool is_try) {
  const trn_type *from = arg->type;
  if (from->id == TRN_TYPE_BOOL || (from->id <= to->id && trn__type_is_integer(from))) return trn__sql_expr(p, arg);
  if (!trn__type_is_integer(from)) return trn__sql_refuse_cast(p, from, to);
  open_checked(p, to, is_try);
  trn_status status = trn__sql_expr(p, arg);
  close_checked(p, "");
  return status;
}

static trn_status cast_double(sql_printer *p, const trn_expr *arg, const trn_type *to) {
  const trn_type *from = arg->type;
  if (from->id == TRN_TYPE_FLOAT32) return trn__sql_expr(p, arg);
  if (trn__type_is_integer(from)) return trn__sql_form(p, "CAST($1 AS REAL)", &arg, 1);
  if (!is_decimal(from) || from->precision > DOUBLE_DIGITS) return trn__sql_refuse_cast(p, from, to);
  trn_status status = trn__sql_form(p, "(CAST($1 AS REAL)", &arg, 1); /* both exact, so that the quotient is the nearest */
  trn__sql_printf(p, " / %" PRId64 ".0)", power(from->scale));
  return status;
}

static trn_status cast_text(sql_printer *p, const trn_expr *arg, const trn_type *to) {
  if (arg->type->id == TRN_TYPE_DATE) return trn__sql_expr(p, arg);
  if (trn__type_is_integer(arg->type)) return trn__sql_form(p, "CAST($1 AS TEXT)", &arg, 1);
  if (arg->type->id == TRN_TYPE_BOOL) {
    trn_status status = trn__sql_form(p, "(CASE $1 WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)", &arg, 1);
    return status;
  }
  return trn__sql_refuse_cast(p, arg->type, to);
}

static trn_status cast(sql_printer *p, const trn_expr *arg, const trn_type *to, bool is_try) {
  const trn_type *from = arg->type;
  bool is_plain = to->variant == TRN_STRING_PLAIN;
  trn_status status = check_type(p, to);
  if (status) return status;
  if (from->id == TRN_TYPE_NULL || (trn__type_equal(from, to) && is_plain)) return trn__sql_expr(p, arg);
  if (from->id == TRN_TYPE_STRING && to->id == TRN_TYPE_STRING && is_plain) return trn__sql_expr(p, arg);
  if (is_decimal(to) && (is_decimal(from) || trn__type_is_integer(from))) return cast_decimal(p, arg, to, is_try);
  if (trn__type_is_integer(to)) return cast_whole(p, arg, to, is_try);
  if (to->id == TRN_TYPE_FLOAT64) return cast_double(p, arg, to);
  if (to->id == TRN_TYPE_STRING && is_plain) return cast_text(p, arg, to);
  return trn__sql_refuse_cast(p, from, to);
}

/* ---- functions ---- */

/* LIKE does not see the case of letters; GLOB does. The pattern is known, so that it can be written anew. */
static trn_status like(sql_printer *p, const trn_expr *e) {
  const trn_literal *pattern = trn__sql_text_argument(e, 1);
  if (!pattern || e->arg_count < 2) return trn__sql_refuse(p, "LIKE with a pattern that is no constant");
  const char *data = pattern->value.bytes.data;
  size_t size = pattern->value.bytes.size;
  if (memchr(data, 0, size)) return trn__sql_refuse(p, "LIKE with a zero byte");
  trn_status status = trn__sql_form(p, "($1 GLOB '", e->args, 1);
  for (size_t i = 0; !status && i < size; i++) {
    bool is_escaped = data[i] == '\\';
    if (is_escaped && (++i == size || !strchr("%_\\", data[i])))
      return trn__sql_refuse(p, "LIKE with an escape of something else than %%, _ and the escape");
    if (!is_escaped && (data[i] == '%' || data[i] == '_'))
      trn__strbuf_putc(p->out, data[i] == '%' ? '*' : '?');
    else if (strchr("*?[", data[i]))
      trn__sql_printf(p, "[%c]", data[i]);
    else
      trn__sql_printf(p, data[i] == '\'' ? "''" : "%c", data[i]);
  }
  trn__sql_puts(p, "')");
  return status;
}

static trn_status substring(sql_printer *p, const trn_expr *e) {
  int64_t start, length;
  if (e->arg_count != 3 || e->args[0]->type->id != TRN_TYPE_STRING || !trn__sql_whole_argument(e, 1, &start) ||
      !trn__sql_whole_argument(e, 2, &length) || start < 0)
    return trn__sql_refuse(p, "function trn.substring with such arguments");
  trn_status status = trn__sql_form(p, "substr($1, ", e->args, 1);
  trn__sql_printf(p, "%" PRId64 ", %" PRId64 ")", start ? start : 1, length > 0 ? length : 0);
  return status;
}

static trn_status extract_date(sql_printer *p, const trn_expr *e) {
  static const char *const fields[][2] = {{"YEAR", "CAST(substr($1, 1, 4) AS INTEGER)"},
                                          {"QUARTER", "((CAST(substr($1, 6, 2) AS INTEGER) + 2) / 3)"},
                                          {"MONTH", "CAST(substr($1, 6, 2) AS INTEGER)"},
                                          {"DAY", "CAST(substr($1, 9, 2) AS INTEGER)"},
                                          {"DAYOFWEEK", "(CAST(strftime('%w', $1) AS INTEGER) + 1)"},
                                          {"WEEKDAY", "((CAST(strftime('%w', $1) AS INTEGER) + 6) % 7)"},
                                          {"DOY", "CAST(strftime('%j', $1) AS INTEGER)"}};
  const trn_literal *field = trn__sql_text_argument(e, 1);
  for (size_t i = 0; field && i < sizeof fields / sizeof fields[0]; i++)
    if (strlen(fields[i][0]) == field->value.bytes.size &&
        strncasecmp(fields[i][0], field->value.bytes.data, field->value.bytes.size) == 0)
      return trn__sql_form(p, fields[i][1], e->args, 1);
  return trn__sql_refuse(p, "this part of a date");
}

static trn_status coalesce(sql_printer *p, const trn_expr *e) {
  if (e->arg_count == 1) return trn__sql_expr(p, e->args[0]);
  trn__sql_puts(p, "coalesce(");
  trn_status status = trn__sql_exprs(p, e->args, e->arg_count);
  trn__sql_puts(p, ")");
  return status;
}

/* Texts joined. */
static trn_status concat(sql_printer *p, const trn_expr *e) {
  for (uint32_t i = 0; i < e->arg_count; i++)
    if (e->args[i]->type->id != TRN_TYPE_STRING) return trn__sql_refuse(p, "function trn.concat of this type");
  trn__sql_puts(p, "(''");
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < e->arg_count; i++) status = trn__sql_form(p, " || $1", &e->args[i], 1);
  trn__sql_puts(p, ")");
  return status;
}

typedef struct form {
  const char *name;
  uint8_t home, arg_count;
  const char *text;
} form;
/* Of texts and whole numbers. */
static const form forms[] = {{"is_not_distinct_from", TRN_HOME_NATIVE, 2, "($1 IS $2)"},
                             {"is_distinct_from", TRN_HOME_NATIVE, 2, "($1 IS NOT $2)"},
                             {"bit_and", TRN_HOME_NATIVE, 2, "($1 & $2)"},
                             {"bit_or", TRN_HOME_NATIVE, 2, "($1 | $2)"},
                             {"||", TRN_HOME_NATIVE, 2, "($1 || $2)"},
                             {"trn.date_diff", TRN_HOME_LIBRARY, 2,
                              "CAST(julianday($1) - julianday($2) AS INTEGER)"},
                             {"trn.replace", TRN_HOME_LIBRARY, 3, "replace($1, $2, $3)"},
                             {"trn.instr", TRN_HOME_LIBRARY, 2, "instr($1, $2)"},
                             {"trn.contains", TRN_HOME_LIBRARY, 2, "(instr($1, $2) > 0)"},
                             {"trn.length", TRN_HOME_LIBRARY, 1, "length($1)"},
                             {"trn.octet_length", TRN_HOME_LIBRARY, 1, "length(CAST($1 AS BLOB))"}};

static bool is_text_like(const trn_expr *e) {
  for (uint32_t i = 0; i < e->arg_count; i++)
    if (e->args[i]->type->id == TRN_TYPE_BINARY) return false;
  return true;
}

static trn_status named(sql_printer *p, const trn_expr *e) {
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
    if (forms[i].home == e->u.call.home && forms[i].arg_count == e->arg_count &&
        strcmp(forms[i].name, e->u.call.name) == 0 && (e->u.call.home == TRN_HOME_NATIVE || is_text_like(e)))
      return trn__sql_form(p, forms[i].text, e->args, e->arg_count);
  return trn__sql_refuse(p, "function %s", e->u.call.name);
}

static const sql_kernels kernels = {.arithmetic = arithmetic, .divide = divide, .divide_whole = divide_whole, .negate = negate,
                                    .cast = cast, .like = like, .substring = substring, .extract_date = extract_date,
                                    .concat = concat, .other = named};

static trn_status call(sql_printer *p, const trn_expr *e) {
  const char *name = e->u.call.name;
  if (e->u.call.home == TRN_HOME_LIBRARY) return trn__sql_kernel(p, e, &kernels);
  if (e->u.call.home == TRN_HOME_ENGINE) return strcmp(name, "coalesce") == 0 ? coalesce(p, e) : named(p, e);
  if (strlen(name) == 1 && strchr("+-*", name[0]) && e->arg_count == 2) return arithmetic(p, e, name[0], false);
  if (strcmp(name, "negative") == 0 && e->arg_count == 1) return negate(p, e, "(- $1)", false);
  if (strcmp(name, "like") == 0) return like(p, e);
  return named(p, e);
}

/* ---- aggregates, windows ---- */

static bool is_split(const trn_expr *e) {
  const char *name = e->u.aggregate.name;
  return is_decimal(e->type) && strcmp(name, "trn.avg") == 0;
}

static trn_status aggregate(sql_printer *p, const trn_expr *e, unsigned part) {
  const char *name = e->u.aggregate.name;
  uint32_t count = trn__sql_operands(e);
  const trn_type *type = count ? e->args[0]->type : NULL;
  const char *function = NULL;
  bool is_number = type && (is_decimal(type) || trn__type_is_integer(type) || type->id == TRN_TYPE_FLOAT64);
  if (count == 1 && (strcmp(name, "count") == 0 || strcmp(name, "min") == 0 || strcmp(name, "max") == 0))
    function = name;
  else if (count && is_number && strcmp(name, "trn.sum") == 0)
    function = "sum";
  else if (count && is_number && strcmp(name, "trn.avg") == 0)
    function = part == 1 ? "sum" : part == 2 ? "count" : "avg";
  else if (count == 1 && type->id == TRN_TYPE_FLOAT64 && strcmp(name, "avg") == 0)
    function = name;
  else if (count && (strcmp(name, "trn.min") == 0 || strcmp(name, "trn.bool_and") == 0))
    function = "min";
  else if (count && (strcmp(name, "trn.max") == 0 || strcmp(name, "trn.bool_or") == 0))
    function = "max";
  if (!function) return trn__sql_refuse(p, "function %s", name);
  trn__sql_printf(p, "%s(%s", function, e->u.aggregate.distinct ? "DISTINCT " : "");
  return trn__sql_form(p, "$1)", e->args, 1);
}

/* sum / count of a decimal. */
static trn_status joined(sql_printer *p, const trn_expr *e, uint32_t id) {
  int digits = e->type->scale - e->args[0]->type->scale;
  if (digits < 0 || digits > EXACT_DIGITS) return trn__sql_refuse(p, "this scale of an average");
  open_division(p, digits, false);
  trn__sql_printf(p, "s%u AS x, nullif(n%u, 0)", id, id);
  close_division(p);
  return TRN_OK;
}

static trn_status window_function(sql_printer *p, const trn_expr *e) {
  static const char *const names[] = {"row_number", "rank",        "dense_rank", "percent_rank", "cume_dist", "ntile",
                                      "lag",        "lead",        "first_value", "last_value",  "nth_value"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(names[i], e->u.call.name) != 0) continue;
    trn__sql_printf(p, "%s(", names[i]);
    trn_status status = trn__sql_exprs(p, e->args, e->arg_count);
    trn__sql_puts(p, ")");
    return status;
  }
  return trn__sql_refuse(p, "the window function %s", e->u.call.name);
}

const sql_dialect trn__sql_sqlite = {.name = "sqlite",
                                     .title = "SQLite",
                                     .check_type = check_type,
                                     .literal = literal,
                                     .cast = cast,
                                     .call = call,
                                     .aggregate = aggregate,
                                     .is_split = is_split,
                                     .joined = joined,
                                     .window_function = window_function,
                                     .null = null,
                                     .column = column,
                                     .no_limit = "LIMIT -1 "};
