/* SQL by a table of traits (sql.h): PostgreSQL, DuckDB, and what programs describe. Values are what the database has by the
 * types' names, so that most expressions are what they are everywhere; what databases type in their own ways (aggregates,
 * ranks, literals) is cast to the plan's type. */
#include "plan/sql_print.h"
#include <inttypes.h>
#include <stdio.h>

enum { DOUBLE_DIGITS = 15 }; /* of any such decimal in a double */

static bool is_decimal(const trn_type *type) {
  return type->id == TRN_TYPE_DECIMAL;
}

/* ---- forms ---- */

/* An argument of a form: an expression, or a text. */
typedef struct operand {
  const trn_expr *expr;
  const char *text;
} operand;

static trn_status type_name(sql_printer *p, const trn_type *type);

static void power_of_ten(sql_printer *p, int digits) {
  trn__strbuf_putc(p->out, '1');
  for (int i = 0; i < digits; i++) trn__strbuf_putc(p->out, '0');
}

/* 1, 0.1, 0.01, .. */
static void unit(sql_printer *p, int digits) {
  trn__sql_puts(p, digits ? "0." : "1");
  for (int i = 1; i < digits; i++) trn__strbuf_putc(p->out, '0');
  if (digits) trn__strbuf_putc(p->out, '1');
}

static trn_status put_operand(sql_printer *p, const operand *operand) {
  if (operand->expr) return trn__sql_expr(p, operand->expr);
  trn__sql_puts(p, operand->text);
  return TRN_OK;
}

/* `places`: the larger scale of two decimals. */
static trn_status fill_in(sql_printer *p, const char *form, const trn_type *type, int places, const operand *operands,
                          size_t count) {
  trn_status status = TRN_OK;
  for (; !status && *form; form++) {
    if (*form != '$') {
      trn__strbuf_putc(p->out, *form);
      continue;
    }
    char c = *++form;
    if (c >= '1' && c <= '9' && (size_t)(c - '1') < count)
      status = put_operand(p, &operands[c - '1']);
    else if (c == 't')
      status = type_name(p, type);
    else if (c == 'p' || c == 's')
      trn__sql_printf(p, "%d", c == 'p' ? type->precision : type->scale);
    else if (c == 'u')
      power_of_ten(p, type->scale + 1);
    else if (c == 'm')
      power_of_ten(p, places);
    else if (c == 'd')
      unit(p, type->scale);
    else if (c == '$')
      trn__strbuf_putc(p->out, '$');
    else
      return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "a form of the SQL dialect %s has \"$%.1s\" in it",
                           p->dialect->title, form);
  }
  return status;
}

static trn_status write_form(sql_printer *p, const char *form, const trn_expr *e) {
  operand operands[9] = {{0}};
  uint32_t count = e->arg_count < 9 ? e->arg_count : 9;
  int places = 0;
  for (uint32_t i = 0; i < count; i++) {
    operands[i].expr = e->args[i];
    if (is_decimal(e->args[i]->type) && e->args[i]->type->scale > places) places = e->args[i]->type->scale;
  }
  return fill_in(p, form, e->type, places, operands, count);
}

static trn_status write_or_refuse(sql_printer *p, const char *form, const trn_expr *e, const char *what) {
  return form ? write_form(p, form, e) : trn__sql_refuse(p, "%s", what);
}

/* ---- types ---- */

static const char *name_of(sql_printer *p, const trn_type *type) {
  for (size_t i = 0; i < p->traits->type_count; i++)
    if (p->traits->types[i].id == type->id) return p->traits->types[i].name;
  return NULL;
}

static trn_status check_type(sql_printer *p, const trn_type *type) {
  if (type->id == TRN_TYPE_NULL) return TRN_OK;
  bool is_wide = is_decimal(type) && (unsigned)type->precision > p->traits->decimal_digits;
  /* char(n): texts are padded, and compared so */
  bool is_padded = type->id == TRN_TYPE_STRING && type->variant == TRN_STRING_CHAR;
  return !is_wide && !is_padded && name_of(p, type) ? TRN_OK : trn__sql_refuse_type(p, type);
}

static trn_status type_name(sql_printer *p, const trn_type *type) {
  const char *name = name_of(p, type);
  return name ? fill_in(p, name, type, 0, NULL, 0) : trn__sql_refuse_type(p, type);
}

static trn_status null(sql_printer *p, const trn_type *type) {
  trn_status status = TRN_OK;
  if (type->id == TRN_TYPE_NULL) {
    trn__sql_puts(p, "NULL");
    return status;
  }
  trn__sql_puts(p, "CAST(NULL AS ");
  status = type_name(p, type);
  trn__sql_puts(p, ")");
  return status;
}

static trn_status column(sql_printer *p, const char *name, const trn_type *type) {
  const char *form = type->id == TRN_TYPE_STRING && p->traits->text_column ? p->traits->text_column : "$1";
  trn_strbuf text = {0}, *outer = p->out;
  p->out = &text;
  trn__sql_name(p, name);
  p->out = outer;
  trn_status status = text.failed ? trn__no_memory(p->error) : TRN_OK;
  const operand operand = {.text = text.data};
  if (!status) status = fill_in(p, form, type, 0, &operand, 1);
  trn__strbuf_finish(&text);
  return status;
}

/* Databases give sums, ranks and the like other types; a cast to too few digits is the overflow that Spark reports. */
static void typed_open(sql_printer *p, const trn_type *type) {
  (void)type;
  trn__sql_puts(p, "CAST(");
}

static trn_status typed_close(sql_printer *p, const trn_type *type) {
  trn__sql_puts(p, " AS ");
  trn_status status = type_name(p, type);
  trn__sql_puts(p, ")");
  return status;
}

/* ---- literals ---- */

static trn_status quoted(sql_printer *p, trn_status (*write)(sql_printer *p, int64_t value), int64_t value,
                         const trn_type *type) {
  trn__sql_puts(p, "CAST('");
  trn_status status = write(p, value);
  trn__sql_puts(p, "'");
  return status ? status : typed_close(p, type);
}

static trn_status date_digits(sql_printer *p, int64_t days) {
  enum { FIRST = -719162 }; /* 0001-01-01 */
  if (days < FIRST) return trn__sql_refuse(p, "a date before the year 1");
  return trn__sql_date(p, days);
}

static trn_status time_digits(sql_printer *p, int64_t micros) {
  enum { SECOND = 1000000 };
  const int64_t day = INT64_C(86400) * SECOND;
  int64_t days = micros / day - (micros % day < 0), rest = micros - days * day;
  trn_status status = date_digits(p, days);
  trn__sql_printf(p, " %02d:%02d:%02d.%06d", (int)(rest / SECOND / 3600), (int)(rest / SECOND / 60 % 60),
                  (int)(rest / SECOND % 60), (int)(rest % SECOND));
  return status;
}

static trn_status instant_digits(sql_printer *p, int64_t micros) {
  trn_status status = time_digits(p, micros);
  trn__sql_puts(p, "+00");
  return status;
}

static trn_status whole_digits(sql_printer *p, int64_t value) {
  trn__sql_printf(p, "%" PRId64, value);
  return TRN_OK;
}

static trn_status double_literal(sql_printer *p, const trn_expr *e) {
  double value = e->u.literal.value.number;
  char text[40];
  if (value != value || value - value != 0)
    snprintf(text, sizeof text, "%s", value != value ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
  else
    snprintf(text, sizeof text, "%.17g", value);
  trn__sql_printf(p, "CAST('%s'", text);
  return typed_close(p, e->type);
}

static trn_status literal(sql_printer *p, const trn_expr *e) {
  const trn_literal *v = &e->u.literal;
  switch (e->type->id) {
  case TRN_TYPE_BOOL: trn__sql_puts(p, v->value.boolean ? "TRUE" : "FALSE"); return TRN_OK;
  case TRN_TYPE_INT8:
  case TRN_TYPE_INT16:
  case TRN_TYPE_INT32:
  case TRN_TYPE_INT64: return quoted(p, whole_digits, v->value.integer, e->type);
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: return double_literal(p, e);
  case TRN_TYPE_DECIMAL:
    trn__sql_puts(p, "CAST('");
    trn__decimal_print(p->out, v, e->type->scale);
    trn__sql_puts(p, "'");
    return typed_close(p, e->type);
  case TRN_TYPE_STRING:
    if (memchr(v->value.bytes.data, 0, v->value.bytes.size)) return trn__sql_refuse(p, "a text with a zero byte");
    trn__sql_quoted(p, v->value.bytes.data, v->value.bytes.size);
    return TRN_OK;
  case TRN_TYPE_DATE: return quoted(p, date_digits, v->value.integer, e->type);
  case TRN_TYPE_TIMESTAMP: return quoted(p, instant_digits, v->value.integer, e->type);
  case TRN_TYPE_TIMESTAMP_NTZ: return quoted(p, time_digits, v->value.integer, e->type);
  default: return trn__sql_refuse_type(p, e->type);
  }
}

/* ---- arithmetic ---- */

/* To the type of the plan: databases find their own for the results of decimals. */
static trn_status typed_form(sql_printer *p, const char *form, const trn_expr *e) {
  typed_open(p, e->type);
  trn_status status = write_form(p, form, e);
  return status ? status : typed_close(p, e->type);
}

static bool all_are(const trn_expr *e, bool (*is)(const trn_type *type)) {
  for (uint32_t i = 0; i < e->arg_count && i < 2; i++)
    if (!is(e->args[i]->type)) return false;
  return is(e->type);
}

static bool is_double(const trn_type *type) {
  return type->id == TRN_TYPE_FLOAT64;
}

/* The database has to hold the exact result before it is cast to the plan's digits. */
static trn_status decimal_arithmetic(sql_printer *p, const trn_expr *e, char op, const char *form) {
  const trn_type *a = e->args[0]->type, *b = e->args[1]->type;
  int scale = op == '*' ? a->scale + b->scale : a->scale > b->scale ? a->scale : b->scale;
  if (!all_are(e, is_decimal)) return trn__sql_refuse(p, "arithmetic of mixed types");
  if (scale > (int)p->traits->decimal_digits) return trn__sql_refuse(p, "a scale of %d digits", scale);
  return typed_form(p, form, e);
}

static trn_status arithmetic(sql_printer *p, const trn_expr *e, char op, bool is_try) {
  const char *form = op == '+' ? "($1 + $2)" : op == '-' ? "($1 - $2)" : "($1 * $2)";
  if (e->arg_count < 2) return trn_error_set(p->error, TRN_INTERNAL, NULL, "\"%c\" needs two arguments", op);
  if (is_try) return trn__sql_refuse(p, "\"%c\" that gives null where it overflows", op);
  if (is_decimal(e->type)) return decimal_arithmetic(p, e, op, form);
  if (all_are(e, is_double)) return write_form(p, form, e);
  if (e->u.call.home != TRN_HOME_LIBRARY || !all_are(e, trn__type_is_integer))
    return trn__sql_refuse(p, "\"%c\" of this type", op);
  return typed_form(p, form, e);
}

static trn_status divide(sql_printer *p, const trn_expr *e, bool is_try) {
  if (is_try) return trn__sql_refuse(p, "\"/\" that gives null for zero");
  if (all_are(e, is_double)) return write_or_refuse(p, p->traits->divide_double, e, "a division of doubles");
  if (!all_are(e, is_decimal)) return trn__sql_refuse(p, "\"/\" of this type");
  if (!p->traits->divide_decimal) return trn__sql_refuse(p, "a division of decimals");
  return typed_form(p, p->traits->divide_decimal, e);
}

static trn_status divide_whole(sql_printer *p, const trn_expr *e, char op, bool is_try) {
  const char *form = op == '%' ? p->traits->remainder : p->traits->divide_whole;
  if (is_try || !form || !all_are(e, trn__type_is_integer))
    return trn__sql_refuse(p, "\"%s\" of this type", op == '/' ? "div" : "%");
  return typed_form(p, form, e);
}

static trn_status negate(sql_printer *p, const trn_expr *e, const char *form, bool is_try) {
  bool is_whole = trn__type_is_integer(e->type) && e->u.call.home == TRN_HOME_LIBRARY;
  if (is_try || (!is_whole && !is_double(e->type) && !is_decimal(e->type)))
    return trn__sql_refuse(p, "a sign of this type");
  return is_double(e->type) ? write_form(p, form, e) : typed_form(p, form, e);
}

/* ---- casts: those that mean the same everywhere ---- */

static bool is_plain_cast(const trn_type *from, const trn_type *to) {
  bool is_whole = trn__type_is_integer(from);
  if (trn__type_is_integer(to)) return is_whole;
  switch (to->id) {
  case TRN_TYPE_DECIMAL: return is_whole || is_decimal(from);
  case TRN_TYPE_FLOAT64:
    return is_whole || from->id == TRN_TYPE_FLOAT32 || (is_decimal(from) && from->precision <= DOUBLE_DIGITS);
  case TRN_TYPE_STRING:
    return to->variant == TRN_STRING_PLAIN && (is_whole || from->id == TRN_TYPE_DATE || from->id == TRN_TYPE_BOOL);
  default: return false;
  }
}

static trn_status cast(sql_printer *p, const trn_expr *arg, const trn_type *to, bool is_try) {
  const trn_type *from = arg->type;
  bool is_text = from->id == TRN_TYPE_STRING && to->id == TRN_TYPE_STRING && to->variant == TRN_STRING_PLAIN;
  trn_status status = check_type(p, to);
  if (status) return status;
  if (trn__type_equal(from, to) || is_text) return trn__sql_expr(p, arg);
  if (from->id != TRN_TYPE_NULL && (is_try || !is_plain_cast(from, to))) return trn__sql_refuse_cast(p, from, to);
  bool is_compared = to->id == TRN_TYPE_STRING && p->traits->text_column;
  trn_strbuf text = {0}, *outer = p->out;
  p->out = &text;
  trn__sql_puts(p, "CAST(");
  status = trn__sql_expr(p, arg);
  if (!status) status = typed_close(p, to);
  p->out = outer;
  if (!status && text.failed) status = trn__no_memory(p->error);
  const operand operand = {.text = text.data};
  if (!status) status = fill_in(p, is_compared ? p->traits->text_column : "$1", to, 0, &operand, 1);
  trn__strbuf_finish(&text);
  return status;
}

/* ---- functions ---- */

static trn_status like(sql_printer *p, const trn_expr *e) {
  const trn_literal *pattern = trn__sql_text_argument(e, 1);
  if (!pattern || e->arg_count < 2) return trn__sql_refuse(p, "LIKE with a pattern that is no constant");
  const char *data = pattern->value.bytes.data;
  for (size_t i = 0; i < pattern->value.bytes.size; i++) {
    if (data[i] != '\\') continue;
    if (++i == pattern->value.bytes.size || !strchr("%_\\", data[i]))
      return trn__sql_refuse(p, "LIKE with an escape of something else than %%, _ and the escape");
  }
  return write_form(p, p->traits->like ? p->traits->like : "($1 LIKE $2 ESCAPE '\\')", e);
}

static trn_status substring(sql_printer *p, const trn_expr *e) {
  int64_t start, length;
  if (e->arg_count != 3 || e->args[0]->type->id != TRN_TYPE_STRING || !trn__sql_whole_argument(e, 1, &start) ||
      !trn__sql_whole_argument(e, 2, &length) || start < 0)
    return trn__sql_refuse(p, "function trn.substring with such arguments");
  trn__sql_puts(p, "substring(");
  trn_status status = trn__sql_expr(p, e->args[0]);
  int64_t most = INT32_MAX - 1; /* some add the two in 32 bits */
  trn__sql_printf(p, ", %" PRId64 ", %" PRId64 ")", start ? start : 1,
                  length < 0 ? 0 : length > most - start ? most - start : length);
  return status;
}

static trn_status extract_date(sql_printer *p, const trn_expr *e) {
  static const char *const fields[][2] = {{"YEAR", "EXTRACT(YEAR FROM $1)"},
                                          {"QUARTER", "EXTRACT(QUARTER FROM $1)"},
                                          {"MONTH", "EXTRACT(MONTH FROM $1)"},
                                          {"DAY", "EXTRACT(DAY FROM $1)"},
                                          {"DAYOFWEEK", "EXTRACT(DOW FROM $1) + 1"},
                                          {"WEEKDAY", "(EXTRACT(DOW FROM $1) + 6) % 7"},
                                          {"DOY", "EXTRACT(DOY FROM $1)"}};
  const trn_literal *field = trn__sql_text_argument(e, 1);
  for (size_t i = 0; field && i < sizeof fields / sizeof fields[0]; i++)
    if (strlen(fields[i][0]) == field->value.bytes.size &&
        strncasecmp(fields[i][0], field->value.bytes.data, field->value.bytes.size) == 0)
      return typed_form(p, fields[i][1], e);
  return trn__sql_refuse(p, "this part of a date");
}

static trn_status coalesce(sql_printer *p, const trn_expr *e) {
  trn__sql_puts(p, "coalesce(");
  trn_status status = trn__sql_exprs(p, e->args, e->arg_count);
  trn__sql_puts(p, ")");
  return status;
}

static trn_status concat(sql_printer *p, const trn_expr *e) {
  for (uint32_t i = 0; i < e->arg_count; i++)
    if (e->args[i]->type->id != TRN_TYPE_STRING) return trn__sql_refuse(p, "function trn.concat of this type");
  trn__sql_puts(p, "(''");
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < e->arg_count; i++) {
    trn__sql_puts(p, " || ");
    status = trn__sql_expr(p, e->args[i]);
  }
  trn__sql_puts(p, ")");
  return status;
}

/* What standard SQL, PostgreSQL and DuckDB have alike. */
static const trn_sql_function common[] = {{"is_not_distinct_from", 2, "(NOT $1 IS DISTINCT FROM $2)"},
                                          {"is_distinct_from", 2, "($1 IS DISTINCT FROM $2)"},
                                          {"bit_and", 2, "($1 & $2)"},
                                          {"bit_or", 2, "($1 | $2)"},
                                          {"||", 2, "($1 || $2)"},
                                          {"trn.date_diff", 2, "CAST($1 - $2 AS $t)"},
                                          {"trn.replace", 3, "replace($1, $2, $3)"},
                                          {"trn.instr", 2, "CAST(strpos($1, $2) AS $t)"},
                                          {"trn.contains", 2, "(strpos($1, $2) > 0)"},
                                          {"trn.starts_with", 2, "starts_with($1, $2)"},
                                          {"trn.length", 1, "CAST(length($1) AS $t)"}};

static bool has_binary(const trn_expr *e) {
  for (uint32_t i = 0; i < e->arg_count; i++)
    if (e->args[i]->type->id == TRN_TYPE_BINARY) return true;
  return false;
}

static const char *find_form(const trn_sql_function *list, size_t count, const trn_expr *e) {
  for (size_t i = 0; i < count; i++)
    if (list[i].arg_count == e->arg_count && list[i].name && strcmp(list[i].name, e->u.call.name) == 0)
      return list[i].form;
  return NULL;
}

static trn_status named(sql_printer *p, const trn_expr *e) {
  const trn_sql_dialect *traits = p->traits;
  const char *form = find_form(common, sizeof common / sizeof common[0], e);
  bool is_distinct = traits->is_distinct && e->u.call.home == TRN_HOME_NATIVE;
  if (is_distinct && strcmp(e->u.call.name, "is_distinct_from") == 0) return write_form(p, traits->is_distinct, e);
  if (is_distinct && strcmp(e->u.call.name, "is_not_distinct_from") == 0) {
    trn__sql_puts(p, "(NOT ");
    trn_status status = write_form(p, traits->is_distinct, e);
    trn__sql_puts(p, ")");
    return status;
  }
  return form && !has_binary(e) ? write_form(p, form, e) : trn__sql_refuse(p, "function %s", e->u.call.name);
}

static const sql_kernels kernels = {.arithmetic = arithmetic, .divide = divide, .divide_whole = divide_whole, .negate = negate,
                                    .cast = cast, .like = like, .substring = substring, .extract_date = extract_date,
                                    .concat = concat, .other = named};

static trn_status call(sql_printer *p, const trn_expr *e) {
  const char *name = e->u.call.name;
  const char *form = find_form(p->traits->functions, p->traits->function_count, e);
  if (form) return write_form(p, form, e);
  if (e->u.call.home == TRN_HOME_LIBRARY) return trn__sql_kernel(p, e, &kernels);
  if (strcmp(name, "coalesce") == 0) return coalesce(p, e);
  if (e->u.call.home == TRN_HOME_ENGINE) return named(p, e);
  if (strlen(name) == 1 && strchr("+-*", name[0]) && e->arg_count == 2) return arithmetic(p, e, name[0], false);
  if (strcmp(name, "negative") == 0 && e->arg_count == 1) return negate(p, e, "(- $1)", false);
  if (strcmp(name, "like") == 0) return like(p, e);
  return named(p, e);
}

/* ---- aggregates, windows ---- */

/* Averages of decimals: sum and count, which are divided exactly. */
static bool is_split(const trn_expr *e) {
  return is_decimal(e->type) && strcmp(e->u.aggregate.name, "trn.avg") == 0;
}

static const char *aggregate_name(const trn_expr *e, uint32_t count, unsigned part) {
  static const char *const names[][2] = {{"count", "count"},         {"min", "min"},
                                         {"max", "max"},             {"trn.min", "min"},
                                         {"trn.max", "max"},         {"trn.bool_and", "bool_and"},
                                         {"trn.bool_or", "bool_or"}, {"trn.sum", "sum"}};
  const char *name = e->u.aggregate.name;
  bool is_number = count && trn__type_is_numeric(e->args[0]->type) && e->args[0]->type->id != TRN_TYPE_FLOAT32;
  if (strcmp(name, "avg") == 0) return count == 1 && is_double(e->args[0]->type) ? "avg" : NULL;
  if (strcmp(name, "trn.avg") == 0) return !is_number ? NULL : part == 1 ? "sum" : part == 2 ? "count" : "avg";
  if (!count || (strcmp(name, "trn.sum") == 0 && !is_number)) return NULL;
  if ((strcmp(name, "count") == 0) != (count == 1) && strcmp(name, "count") == 0) return NULL; /* count(a, b) */
  bool is_extreme = strstr(name, "min") || strstr(name, "max");
  if (is_extreme && (e->args[0]->type->id == TRN_TYPE_BOOL || e->args[0]->type->id == TRN_TYPE_BINARY)) return NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i][0], name) == 0) return names[i][1];
  return NULL;
}

static trn_status aggregate(sql_printer *p, const trn_expr *e, unsigned part) {
  const char *name = aggregate_name(e, trn__sql_operands(e), part);
  if (!name) return trn__sql_refuse(p, "function %s", e->u.aggregate.name);
  bool is_guarded = e->u.aggregate.has_filter && p->traits->lacks_filter;
  bool is_double_of_whole = strcmp(name, "avg") == 0 && trn__type_is_integer(e->args[0]->type);
  const trn_type wide = {.id = TRN_TYPE_FLOAT64};
  trn__sql_printf(p, "%s(%s", name, e->u.aggregate.distinct ? "DISTINCT " : "");
  trn_status status = TRN_OK;
  if (is_guarded) {
    trn__sql_puts(p, "CASE WHEN ");
    status = trn__sql_expr(p, e->args[e->arg_count - 1]);
    trn__sql_puts(p, " THEN ");
  }
  if (is_double_of_whole) typed_open(p, &wide);
  if (!status) status = trn__sql_expr(p, e->args[0]);
  if (!status && is_double_of_whole) status = typed_close(p, &wide);
  trn__sql_puts(p, is_guarded ? " END)" : ")");
  return status;
}

/* sum / count of a decimal; the count as one, too. */
static trn_status joined(sql_printer *p, const trn_expr *e, uint32_t id) {
  char sum[32], count[64];
  if (!p->traits->divide_decimal) return trn__sql_refuse(p, "an average of decimals");
  snprintf(sum, sizeof sum, "s%u", id);
  snprintf(count, sizeof count, "nullif(n%u, 0)", id);
  const operand operands[] = {{.text = sum}, {.text = count}};
  typed_open(p, e->type);
  trn_status status = fill_in(p, p->traits->divide_decimal, e->type, e->args[0]->type->scale, operands, 2);
  return status ? status : typed_close(p, e->type);
}

/* A place or a number of rows: databases want their own integer for it, and a plain literal fits all. */
static trn_status row_count(sql_printer *p, const trn_expr *e, uint32_t index, const char *function) {
  int64_t value;
  if (!trn__sql_whole_argument(e, index, &value) || value > INT32_MAX || value < INT32_MIN)
    return trn__sql_refuse(p, "the window function %s by something else than a constant", function);
  trn__sql_printf(p, value < 0 ? "(%" PRId64 ")" : "%" PRId64, value);
  return TRN_OK;
}

static trn_status window_function(sql_printer *p, const trn_expr *e) {
  /* and which argument counts rows */
  static const struct {
    const char *name;
    uint32_t count_at;
  } names[] = {{"row_number", 9}, {"rank", 9}, {"dense_rank", 9}, {"percent_rank", 9}, {"cume_dist", 9},  {"ntile", 0},
               {"lag", 1},        {"lead", 1}, {"first_value", 9}, {"last_value", 9},  {"nth_value", 1}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(names[i].name, e->u.call.name) != 0) continue;
    trn_status status = TRN_OK;
    trn__sql_printf(p, "%s(", names[i].name);
    for (uint32_t k = 0; k < e->arg_count && !status; k++) {
      if (k) trn__sql_puts(p, ", ");
      status = k == names[i].count_at ? row_count(p, e, k, names[i].name) : trn__sql_expr(p, e->args[k]);
    }
    trn__sql_puts(p, ")");
    return status;
  }
  return trn__sql_refuse(p, "the window function %s", e->u.call.name);
}

static trn_status series(sql_printer *p, int64_t start, int64_t last, int64_t step) {
  const int64_t values[] = {start, last, step};
  const trn_type type = {.id = TRN_TYPE_INT64};
  char texts[3][32];
  operand operands[3] = {{0}};
  for (size_t i = 0; i < 3; i++) {
    snprintf(texts[i], sizeof texts[i], "(%" PRId64 ")", values[i]);
    operands[i].text = texts[i];
  }
  return fill_in(p, p->traits->series, &type, 0, operands, 3);
}

const sql_dialect trn__sql_standard = {.name = "standard",
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
                                       .series = series,
                                       .typed_open = typed_open,
                                       .typed_close = typed_close,
                                       .no_limit = ""};
