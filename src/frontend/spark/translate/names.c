/* Names that Spark generates for columns, and the errors whose parameters are made of them. */
#include "frontend/spark/translate/values.h"
#include <math.h>
#include <stdio.h>

trn_status spark__out_of_memory(trn_error **error) {
  return trn__no_memory(error);
}

const char *spark__finish_text(spark_translator *t, trn_strbuf *text) {
  const char *copy = NULL;
  if (!text->failed)
    copy = text->data ? trn__arena_str(t->arena, text->data, text->size) : trn__arena_strdup(t->arena, "");
  trn__strbuf_finish(text);
  return copy;
}

/* ---- numbers ---- */
/* The shortest digits that read back as the value, written as Java does: plain from 1e-3 to 1e7, else d.dddEn. */
static void java_number(trn_strbuf *out, double value, bool single) {
  char text[48];
  int precision = 0;
  if (isnan(value) || isinf(value)) {
    trn__strbuf_puts(out, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    return;
  }
  if (value == 0) {
    trn__strbuf_puts(out, signbit(value) ? "-0.0" : "0.0");
    return;
  }
  for (; precision < (single ? 9 : 17); precision++) {
    snprintf(text, sizeof text, "%.*e", precision, value);
    if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) break;
  }
  char digits[24], *mark = strchr(text, 'e');
  int count = 0, exponent = mark ? atoi(mark + 1) : 0;
  for (const char *p = text; p < mark && count < 20; p++)
    if (*p >= '0' && *p <= '9') digits[count++] = *p;
  if (value < 0) trn__strbuf_putc(out, '-');
  if (exponent >= -3 && exponent < 7) {
    if (exponent < 0) {
      trn__strbuf_puts(out, "0.");
      for (int i = -1; i > exponent; i--) trn__strbuf_putc(out, '0');
      trn__strbuf_add(out, digits, (size_t)count);
      return;
    }
    for (int i = 0; i <= exponent; i++) trn__strbuf_putc(out, i < count ? digits[i] : '0');
    trn__strbuf_putc(out, '.');
    if (count > exponent + 1)
      trn__strbuf_add(out, digits + exponent + 1, (size_t)(count - exponent - 1));
    else
      trn__strbuf_putc(out, '0');
    return;
  }
  trn__strbuf_putc(out, digits[0]);
  trn__strbuf_putc(out, '.');
  if (count > 1)
    trn__strbuf_add(out, digits + 1, (size_t)(count - 1));
  else
    trn__strbuf_putc(out, '0');
  trn__strbuf_printf(out, "E%d", exponent);
}
void spark__double_text(trn_strbuf *out, double value) {
  java_number(out, value, false);
}
void spark__float_text(trn_strbuf *out, float value) {
  java_number(out, (double)value, true);
}

void spark__decimal_text(trn_strbuf *out, trn_i128 unscaled, int scale) {
  char digits[48];
  int count = 0;
  trn_u128 rest = unscaled < 0 ? -(trn_u128)unscaled : (trn_u128)unscaled;
  do digits[count++] = (char)('0' + (int)(rest % 10));
  while ((rest /= 10) != 0 && count < 40);
  if (unscaled < 0) trn__strbuf_putc(out, '-');
  int exponent = count - 1 - scale;
  if (exponent < -6) { /* java.math.BigDecimal goes scientific */
    trn__strbuf_putc(out, digits[count - 1]);
    if (count > 1) trn__strbuf_putc(out, '.');
    for (int i = count - 2; i >= 0; i--) trn__strbuf_putc(out, digits[i]);
    trn__strbuf_printf(out, "E%d", exponent);
    return;
  }
  while (count <= scale && count < 47) digits[count++] = '0';
  for (int i = count - 1; i >= 0; i--) {
    trn__strbuf_putc(out, digits[i]);
    if (i == scale && scale > 0) trn__strbuf_putc(out, '.');
  }
}

/* ---- dates and intervals ---- */
static void put_date(trn_strbuf *out, int64_t days) {
  int64_t year;
  unsigned month, day;
  spark__civil_from_days(days, &year, &month, &day);
  if (year > 9999) trn__strbuf_putc(out, '+');
  trn__strbuf_printf(out, year < 0 ? "%05lld-%02u-%02u" : "%04lld-%02u-%02u", (long long)year, month, day);
}

static void put_fraction(trn_strbuf *out, int64_t micros) {
  if (!micros) return;
  char text[16];
  int size = snprintf(text, sizeof text, ".%06lld", (long long)micros);
  while (size > 2 && text[size - 1] == '0') size--;
  trn__strbuf_add(out, text, (size_t)size);
}

static void put_clock(trn_strbuf *out, int64_t micros) {
  int64_t second = micros / 1000000;
  trn__strbuf_printf(out, "%02lld:%02lld:%02lld", (long long)(second / 3600), (long long)(second / 60 % 60),
                     (long long)(second % 60));
  put_fraction(out, micros % 1000000);
}

static void put_timestamp(trn_strbuf *out, int64_t micros) {
  const int64_t day = INT64_C(86400000000);
  int64_t days = micros / day, rest = micros % day;
  if (rest < 0) rest += day, days--;
  put_date(out, days);
  trn__strbuf_putc(out, ' ');
  put_clock(out, rest);
}

static void put_year_month(trn_strbuf *out, int64_t months, const trn_type *type) {
  uint64_t size = months < 0 ? -(uint64_t)months : (uint64_t)months;
  const char *sign = months < 0 ? "-" : "";
  if (type->precision == 0 && type->scale == 0)
    trn__strbuf_printf(out, "INTERVAL '%s%llu' YEAR", sign, (unsigned long long)(size / 12));
  else if (type->precision == 1)
    trn__strbuf_printf(out, "INTERVAL '%s%llu' MONTH", sign, (unsigned long long)size);
  else
    trn__strbuf_printf(out, "INTERVAL '%s%llu-%llu' YEAR TO MONTH", sign, (unsigned long long)(size / 12),
                       (unsigned long long)(size % 12));
}

/* As IntervalUtils.toDayTimeIntervalString in ANSI style: only the fields of the type. */
static void put_day_time(trn_strbuf *out, int64_t micros, const trn_type *type) {
  static const char *const names[] = {"DAY", "HOUR", "MINUTE", "SECOND"};
  static const uint64_t sizes[] = {UINT64_C(86400000000), UINT64_C(3600000000), UINT64_C(60000000), UINT64_C(1000000)};
  uint64_t rest = micros < 0 ? -(uint64_t)micros : (uint64_t)micros;
  int start = type->precision <= 3 ? type->precision : 3,
      end = type->scale >= start && type->scale <= 3 ? type->scale : 3;
  trn__strbuf_printf(out, "INTERVAL '%s", micros < 0 ? "-" : "");
  for (int i = start; i <= end; i++) {
    const char *before = i == start ? "" : i == 1 ? " " : ":";
    trn__strbuf_printf(out, i == 0 ? "%s%llu" : "%s%02llu", before, (unsigned long long)(rest / sizes[i]));
    rest %= sizes[i];
    if (i == 3) put_fraction(out, (int64_t)rest);
  }
  trn__strbuf_printf(out, "' %s", names[start]);
  if (start != end) trn__strbuf_printf(out, " TO %s", names[end]);
}

static void put_calendar(trn_strbuf *out, const trn_literal *literal) {
  int64_t months = literal->value.interval.months, days = literal->value.interval.days,
          micros = literal->value.interval.nanos / 1000;
  const int64_t hour = INT64_C(3600000000), minute = 60000000;
  bool any = false;
  trn__strbuf_puts(out, "INTERVAL '");
  struct {
    int64_t value;
    const char *unit;
  } parts[] = {{months / 12, "years"},
               {months % 12, "months"},
               {days, "days"},
               {micros / hour, "hours"},
               {micros % hour / minute, "minutes"}};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (!parts[i].value) continue;
    trn__strbuf_printf(out, "%s%lld %s", any ? " " : "", (long long)parts[i].value, parts[i].unit);
    any = true;
  }
  int64_t rest = micros % minute;
  if (rest || !any) {
    trn__strbuf_printf(out, "%s%s%lld", any ? " " : "", rest < 0 ? "-" : "",
                       (long long)((rest < 0 ? -rest : rest) / 1000000));
    put_fraction(out, (rest < 0 ? -rest : rest) % 1000000);
    trn__strbuf_puts(out, " seconds");
  }
  trn__strbuf_putc(out, '\'');
}

/* ---- literals ---- */
static void put_literal(trn_strbuf *out, const trn_expr *expr, unsigned depth);

static void put_nested(trn_strbuf *out, const trn_expr *expr, unsigned depth) {
  const trn_literal *literal = &expr->u.literal;
  const trn_type *type = expr->type;
  trn__strbuf_puts(out, type->id == TRN_TYPE_ARRAY ? "ARRAY(" : type->id == TRN_TYPE_MAP ? "MAP(" : "NAMED_STRUCT(");
  for (uint32_t i = 0; i < literal->value.nested.count; i++) {
    if (i) trn__strbuf_puts(out, ", ");
    if (type->id == TRN_TYPE_STRUCT)
      trn__strbuf_printf(out, "'%s', ", i < type->field_count ? type->fields[i].name : "");
    const trn_expr *item = literal->value.nested.items[i];
    bool quoted = spark__is_literal(item) && item->type->id == TRN_TYPE_STRING;
    if (quoted) trn__strbuf_putc(out, '\'');
    put_literal(out, item, depth + 1);
    if (quoted) trn__strbuf_putc(out, '\'');
  }
  trn__strbuf_putc(out, ')');
}

static void put_literal(trn_strbuf *out, const trn_expr *expr, unsigned depth) {
  const trn_literal *literal = &expr->u.literal;
  if (expr->kind != TRN_EXPR_LITERAL || literal->is_null || depth > TRN_TYPE_DEPTH_MAX) {
    trn__strbuf_puts(out, "NULL");
    return;
  }
  switch (expr->type->id) {
  case TRN_TYPE_BOOL: trn__strbuf_puts(out, literal->value.boolean ? "true" : "false"); break;
  case TRN_TYPE_INT8:
  case TRN_TYPE_INT16:
  case TRN_TYPE_INT32:
  case TRN_TYPE_INT64: trn__strbuf_printf(out, "%lld", (long long)literal->value.integer); break;
  case TRN_TYPE_FLOAT32: spark__float_text(out, (float)literal->value.number); break;
  case TRN_TYPE_FLOAT64: spark__double_text(out, literal->value.number); break;
  case TRN_TYPE_DECIMAL: spark__decimal_text(out, spark__decimal_value(literal), expr->type->scale); break;
  case TRN_TYPE_STRING: trn__strbuf_add(out, literal->value.bytes.data, literal->value.bytes.size); break;
  case TRN_TYPE_BINARY:
    trn__strbuf_puts(out, "X'");
    for (size_t i = 0; i < literal->value.bytes.size; i++)
      trn__strbuf_printf(out, "%02X", (unsigned)(unsigned char)literal->value.bytes.data[i]);
    trn__strbuf_putc(out, '\'');
    break;
  case TRN_TYPE_DATE:
    trn__strbuf_puts(out, "DATE '");
    put_date(out, literal->value.integer);
    trn__strbuf_putc(out, '\'');
    break;
  case TRN_TYPE_TIMESTAMP:
  case TRN_TYPE_TIMESTAMP_NTZ:
    trn__strbuf_puts(out, expr->type->id == TRN_TYPE_TIMESTAMP ? "TIMESTAMP '" : "TIMESTAMP_NTZ '");
    put_timestamp(out, literal->value.integer);
    trn__strbuf_putc(out, '\'');
    break;
  case TRN_TYPE_TIME:
    trn__strbuf_puts(out, "TIME '");
    put_clock(out, literal->value.integer / 1000);
    trn__strbuf_putc(out, '\'');
    break;
  case TRN_TYPE_INTERVAL_YEAR_MONTH: put_year_month(out, literal->value.integer, expr->type); break;
  case TRN_TYPE_INTERVAL_DAY_TIME: put_day_time(out, literal->value.integer, expr->type); break;
  case TRN_TYPE_INTERVAL_CALENDAR: put_calendar(out, literal); break;
  default: put_nested(out, expr, depth); break;
  }
}

const char *spark__literal_name(spark_translator *t, const trn_expr *literal) {
  trn_strbuf text = {0};
  put_literal(&text, literal, 0);
  return spark__finish_text(t, &text);
}

/* ---- calls ---- */
static void put_arguments(trn_strbuf *out, const spark_call *call, size_t first) {
  for (size_t i = first; i < call->arg_count; i++) {
    if (i > first) trn__strbuf_puts(out, ", ");
    trn__strbuf_puts(out, call->args[i].name);
  }
}

/* "$1".."$9": that argument; "$*": all; "$-": all but the first. */
static void put_template(trn_strbuf *out, const char *display, const spark_call *call) {
  for (const char *p = display; *p; p++) {
    if (p[0] != '$' || !p[1]) {
      trn__strbuf_putc(out, *p);
      continue;
    }
    p++;
    if (*p == '*')
      put_arguments(out, call, 0);
    else if (*p == '-')
      put_arguments(out, call, 1);
    else if (*p >= '1' && *p <= '9' && (size_t)(*p - '1') < call->arg_count)
      trn__strbuf_puts(out, call->args[*p - '1'].name);
  }
}

static void put_order(trn_strbuf *out, const spark_call *call) {
  trn__strbuf_puts(out, " WITHIN GROUP (ORDER BY ");
  for (size_t i = 0; i < call->order_count; i++) {
    const trn_sort_flags *flags = &call->order_flags[i];
    trn__strbuf_printf(out, "%s%s %s NULLS %s", i ? ", " : "", call->order[i].name, flags->descending ? "DESC" : "ASC",
                       flags->nulls_first ? "FIRST" : "LAST");
  }
  trn__strbuf_putc(out, ')');
}

const char *spark__call_name(spark_builder *b) {
  const spark_call *call = b->call;
  const char *display = b->name ? b->name : b->function->display;
  trn_strbuf text = {0};
  if (b->text) {
    trn__strbuf_puts(&text, b->text);
  } else if (display && display[0] != '=') {
    put_template(&text, display, call);
  } else {
    trn__strbuf_puts(&text, display ? display + 1 : b->function->name);
    trn__strbuf_putc(&text, '(');
    if (call->is_distinct) trn__strbuf_puts(&text, "DISTINCT ");
    put_arguments(&text, call, 0);
    trn__strbuf_putc(&text, ')');
  }
  if (call->order_count && !b->text) put_order(&text, call);
  if (call->filter) trn__strbuf_printf(&text, " FILTER (WHERE %s)", call->filter->name);
  return spark__finish_text(b->t, &text);
}

/* ---- errors ---- */
const char *spark__quoted_type(spark_translator *t, const trn_type *type) {
  trn_strbuf text = {0};
  trn__strbuf_putc(&text, '"');
  spark__type_sql(&text, type);
  trn__strbuf_putc(&text, '"');
  return spark__finish_text(t, &text);
}

const char *spark__quoted_types(spark_translator *t, const spark_value *values, const trn_expr *const *args,
                                size_t count) {
  trn_strbuf text = {0};
  size_t shown = 0;
  trn__strbuf_putc(&text, '(');
  for (size_t i = 0; i < count; i++) {
    const trn_type *type = args ? args[i]->type : values[i].expr->type;
    bool seen = false;
    for (size_t j = 0; j < i && !seen; j++)
      seen = trn__type_same_shape(type, args ? args[j]->type : values[j].expr->type);
    if (seen) continue;
    const char *name = spark__quoted_type(t, type);
    trn__strbuf_printf(&text, "%s%s", shown++ ? " or " : "", name ? name : "");
  }
  trn__strbuf_putc(&text, ')');
  return spark__finish_text(t, &text);
}

#define PARAMS_MAX 12
static trn_status fail(spark_translator *t, trn_error **error, trn_status status, const char *condition,
                       trn_position position, trn_error_param *params, size_t count) {
  trn_error_spec spec = {.struct_size = sizeof spec,
                         .status = status,
                         .condition = condition,
                         .params = params,
                         .param_count = count,
                         .position = position,
                         .has_position = t->sql && position.start >= 0};
  if (error) *error = trn_error_create(&spec);
  return status;
}

static size_t collect(trn_error_param *params, size_t count, va_list list) {
  const char *key;
  while (count < PARAMS_MAX && (key = va_arg(list, const char *))) {
    params[count].key = key;
    params[count].value = va_arg(list, const char *);
    if (!params[count].value) params[count].value = "";
    count++;
  }
  return count;
}

trn_status spark__error(spark_translator *t, trn_error **error, trn_status status, const char *condition,
                        trn_position position, ...) {
  trn_error_param params[PARAMS_MAX];
  va_list list;
  va_start(list, position);
  size_t count = collect(params, 0, list);
  va_end(list);
  return fail(t, error, status, condition, position, params, count);
}

trn_status spark__mismatch(spark_builder *b, const char *condition, ...) {
  trn_error_param params[PARAMS_MAX];
  const char *name = spark__call_name(b), *quoted = name ? trn__arena_printf(b->t->arena, "\"%s\"", name) : NULL;
  if (!quoted) return trn__no_memory(b->error);
  params[0] = (trn_error_param){"sqlExpr", quoted};
  va_list list;
  va_start(list, condition);
  size_t count = collect(params, 1, list);
  va_end(list);
  return fail(b->t, b->error, TRN_INVALID_ARGUMENT, condition, b->call->position, params, count);
}

trn_status spark__unexpected_input(spark_builder *b, size_t index, const char *required, const trn_type *given) {
  static const char *const ordinals[] = {"first", "second",  "third",  "fourth", "fifth",
                                         "sixth", "seventh", "eighth", "ninth",  "tenth"};
  char number[32];
  snprintf(number, sizeof number, "%zuth", index + 1);
  const char *type = spark__quoted_type(b->t, given);
  const char *input =
      trn__arena_printf(b->t->arena, "\"%s\"", index < b->call->arg_count ? b->call->args[index].name : "");
  if (!type || !input) return trn__no_memory(b->error);
  return spark__mismatch(b, "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE", "paramIndex",
                         index < sizeof ordinals / sizeof ordinals[0] ? ordinals[index] : number, "requiredType",
                         required, "inputSql", input, "inputType", type, (char *)NULL);
}

trn_status spark__not_supported(spark_builder *b, const char *what) {
  return trn_error_set(b->error, TRN_UNIMPLEMENTED, NULL, "%s is not supported yet: %s", b->function->name, what);
}
