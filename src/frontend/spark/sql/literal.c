/* Numbers, strings, intervals, DATE '...' */
#include "frontend/spark/sql/parser.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DECIMAL_PRECISION_MAX = 38 };

static sql_expr *literal(sql_parser *p, size_t start, size_t stop, Spark__Connect__Expression__Literal **out) {
  sql_expr *expr = sql__expr(p, start, stop);
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL;
  expr->literal = *out = SQL_NEW(p, Spark__Connect__Expression__Literal, spark__connect__expression__literal);
  return expr;
}

/* ---- strings ---- */

bool sql__is_string(const sql_parser *p, size_t index) {
  sql_kind kind = sql__kind_at(p, index);
  return kind == SQL_STRING || kind == SQL_DOLLAR_STRING ||
         (kind == SQL_DOUBLE_QUOTED && !p->options.double_quoted_identifiers);
}

static int hex_value(unsigned char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code point of `count` hex digits; -1: not so many digits. */
static int64_t hex_code(const char *text, const char *end, int count) {
  int64_t code = 0;
  if (end - text < count) return -1;
  for (int i = 0; i < count; i++) {
    int value = hex_value((unsigned char)text[i]);
    if (value < 0) return -1;
    code = code * 16 + value;
  }
  return code;
}

static char *put_utf8(char *out, uint32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = 0xFFFD;
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xC0 | code >> 6);
    *out++ = (char)(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out++ = (char)(0xE0 | code >> 12);
    *out++ = (char)(0x80 | (code >> 6 & 0x3F));
    *out++ = (char)(0x80 | (code & 0x3F));
  } else {
    *out++ = (char)(0xF0 | code >> 18);
    *out++ = (char)(0x80 | (code >> 12 & 0x3F));
    *out++ = (char)(0x80 | (code >> 6 & 0x3F));
    *out++ = (char)(0x80 | (code & 0x3F));
  }
  return out;
}

/* \uXXXX, also as a surrogate pair of two; \UXXXXXXXX; \ooo. Moves *in behind what it read; false: not one of these. */
static bool numeric_escape(const char **in, const char *end, char **out) {
  const char *s = *in;
  int64_t code = -1;
  int used = 0;
  if (*s == 'u' && (code = hex_code(s + 1, end, 4)) >= 0) {
    used = 5;
    if (code >= 0xD800 && code < 0xDC00 && end - s >= 11 && s[5] == '\\' && s[6] == 'u') {
      int64_t low = hex_code(s + 7, end, 4);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        used = 11;
      }
    }
  } else if (*s == 'U' && (code = hex_code(s + 1, end, 8)) >= 0) {
    used = 9;
  } else if (end - s >= 3 && (*s == '0' || *s == '1') && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' && s[2] <= '7') {
    code = (s[0] - '0') * 64 + (s[1] - '0') * 8 + (s[2] - '0');
    used = 3;
  }
  if (used == 0) return false;
  *out = put_utf8(*out, (uint32_t)code);
  *in = s + used;
  return true;
}

static char *simple_escape(char c, char *out) {
  switch (c) {
  case '0': *out++ = 0; break;
  case 'b': *out++ = '\b'; break;
  case 'n': *out++ = '\n'; break;
  case 'r': *out++ = '\r'; break;
  case 't': *out++ = '\t'; break;
  case 'Z': *out++ = 0x1A; break;
  case '%':
  case '_': /* LIKE reads these */
    *out++ = '\\';
    *out++ = c;
    break;
  default: *out++ = c;
  }
  return out;
}

/* Appends the value of one string token to out; no value is longer than its token. */
static char *unescape(const char *text, size_t size, char *out) {
  const char *in = text, *end = text + size - 1;
  if (*in == '$') {
    const char *tag = memchr(in + 1, '$', size - 1);
    size_t tag_size = (size_t)(tag - in) + 1;
    memcpy(out, in + tag_size, size - 2 * tag_size);
    return out + (size - 2 * tag_size);
  }
  if (*in != '\'' && *in != '"') { /* raw */
    memcpy(out, in + 2, size - 3);
    return out + (size - 3);
  }
  char quote = *in++;
  while (in < end) {
    if (*in == quote) {
      *out++ = quote;
      in += 2;
    } else if (*in == '\\' && in + 1 < end) {
      in++;
      if (!numeric_escape(&in, end, &out)) out = simple_escape(*in++, out);
    } else {
      *out++ = *in++;
    }
  }
  return out;
}

char *sql__string(sql_parser *p, size_t *size) {
  if (!sql__is_string(p, p->at)) sql__fail_syntax(p);
  size_t total = 1, first = p->at;
  for (size_t i = first; sql__is_string(p, i); i++) total += p->tokens[i].size;
  char *value = sql__alloc(p, total), *out = value;
  for (; sql__is_string(p, p->at); sql__advance(p)) {
    out = unescape(p->text + sql__token(p)->start, sql__token(p)->size, out);
  }
  *size = (size_t)(out - value);
  return value;
}

sql_expr *sql__string_literal(sql_parser *p, const char *text, size_t size, size_t start) {
  Spark__Connect__Expression__Literal *value;
  sql_expr *expr = literal(p, start, sql__last(p) < start ? start : sql__last(p), &value);
  if (memchr(text, 0, size) == NULL) {
    value->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_STRING;
    value->string = (char *)text;
    return expr;
  }
  /* A message's text ends at its first NUL: carry the bytes as binary and cast them. */
  value->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BINARY;
  value->binary.data = (uint8_t *)text;
  value->binary.len = size;
  sql_type *type = SQL_NEW(p, sql_type, spark__connect__data_type);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_STRING;
  type->string = SQL_NEW(p, Spark__Connect__DataType__String, spark__connect__data_type__string);
  return sql__cast(p, expr, type, false, start, sql__last(p));
}

sql_expr *sql__constant_text(sql_parser *p, const char *text) {
  return sql__string_literal(p, text, strlen(text), p->at);
}

/* ---- numbers ---- */

bool sql__is_number(sql_kind kind) {
  return kind >= SQL_INTEGER && kind <= SQL_BIGDECIMAL;
}

sql_expr *sql__boolean(sql_parser *p, bool value, size_t start) {
  Spark__Connect__Expression__Literal *out;
  sql_expr *expr = literal(p, start, start, &out);
  out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BOOLEAN;
  out->boolean = value;
  return expr;
}

sql_expr *sql__integer_literal(sql_parser *p, int32_t value, size_t start) {
  Spark__Connect__Expression__Literal *out;
  sql_expr *expr = literal(p, start, sql__last(p) < start ? start : sql__last(p), &out);
  out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_INTEGER;
  out->integer = value;
  return expr;
}

static void refuse_range(sql_parser *p, size_t start, const char *text, const char *minimum, const char *maximum,
                         const char *type) {
  trn_kv params[] = {{"rawStrippedQualifier", text}, {"minValue", minimum}, {"maxValue", maximum}, {"typeName", type}};
  sql__refuse(p, start, p->at, "INVALID_NUMERIC_LITERAL_RANGE", "22003", params, 4);
}

/* 12.50 -> precision 4, scale 2 of java.math.BigDecimal, then what Spark's Decimal makes of it. */
static void set_decimal(sql_parser *p, Spark__Connect__Expression__Literal *out, const char *text, size_t start) {
  size_t digits = 0, fraction = 0;
  bool dot = false, leading = true;
  const char *c = text + (*text == '-');
  char *plain = sql__alloc(p, strlen(text) + 2 * DECIMAL_PRECISION_MAX + 4), *end = plain;
  if (*text == '-') *end++ = '-';
  char *number = end;
  for (; *c != 0 && *c != 'e' && *c != 'E'; c++) {
    if (*c == '.') {
      dot = true;
      continue;
    }
    leading = leading && *c == '0';
    if (!leading) {
      *end++ = *c;
      digits++;
    }
    fraction += dot;
  }
  long exponent = *c != 0 ? strtol(c + 1, NULL, 10) : 0;
  long scale = exponent > 100000 || exponent < -100000 ? 100000 : (long)fraction - exponent;
  if (digits == 0) *end++ = '0', digits = 1;
  while (scale < 0 && digits <= DECIMAL_PRECISION_MAX) { /* negative scales are not allowed */
    if (!(digits == 1 && *number == '0')) *end++ = '0', digits++;
    scale++;
  }
  long precision = (long)digits > scale ? (long)digits : scale;
  if (precision > DECIMAL_PRECISION_MAX || scale < 0) {
    char *shown = trn__arena_printf(p->arena, "%ld", precision);
    if (shown == NULL) sql__fail_memory(p);
    trn_kv params[] = {{"precision", shown}, {"maxPrecision", "38"}};
    sql__refuse(p, start, p->at, "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION", "22003", params, 2);
    return;
  }
  if (scale > 0) { /* the point, with zeros before the digits where there are fewer of them than the scale */
    size_t zeros = (size_t)scale >= digits ? (size_t)scale - digits + 1 : 0;
    memmove(number + zeros, number, digits + 1);
    memset(number, '0', zeros);
    size_t whole = zeros + digits - (size_t)scale;
    memmove(number + whole + 1, number + whole, (size_t)scale);
    number[whole] = '.';
    number[zeros + digits + 1] = 0;
  }
  out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_DECIMAL;
  out->decimal = SQL_NEW(p, Spark__Connect__Expression__Literal__Decimal, spark__connect__expression__literal__decimal);
  out->decimal->value = plain;
  out->decimal->_precision_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___PRECISION_PRECISION;
  out->decimal->precision = (int32_t)precision;
  out->decimal->_scale_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___SCALE_SCALE;
  out->decimal->scale = (int32_t)scale;
}

static double parse_double(sql_parser *p, const char *text) {
  locale_t c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* the host may have set another one */
  if (c_locale == (locale_t)0) sql__fail_memory(p);
  double value = strtod_l(text, NULL, c_locale);
  freelocale(c_locale);
  return value;
}

static void set_floating(sql_parser *p, Spark__Connect__Expression__Literal *out, const char *text, sql_kind kind,
                         size_t start) {
  double value = parse_double(p, text);
  if (kind == SQL_FLOAT) {
    float narrow = (float)value;
    if (isinf(narrow)) refuse_range(p, start, text, "-3.4028234663852886E+38", "3.4028234663852886E+38", "float");
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_FLOAT;
    out->float_ = narrow;
    return;
  }
  if (isinf(value)) refuse_range(p, start, text, "-1.7976931348623157E+308", "1.7976931348623157E+308", "double");
  out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_DOUBLE;
  out->double_ = value;
}

static void set_integer(sql_parser *p, Spark__Connect__Expression__Literal *out, const char *text, sql_kind kind,
                        size_t start) {
  errno = 0;
  long long value = strtoll(text, NULL, 10);
  bool fits = errno == 0;
  if (kind == SQL_TINYINT) {
    if (!fits || value < INT8_MIN || value > INT8_MAX) refuse_range(p, start, text, "-128", "127", "tinyint");
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BYTE;
    out->byte = (int32_t)value;
  } else if (kind == SQL_SMALLINT) {
    if (!fits || value < INT16_MIN || value > INT16_MAX) refuse_range(p, start, text, "-32768", "32767", "smallint");
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_SHORT;
    out->short_ = (int32_t)value;
  } else if (kind == SQL_BIGINT) {
    if (!fits) refuse_range(p, start, text, "-9223372036854775808", "9223372036854775807", "bigint");
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_LONG;
    out->long_ = value;
  } else if (fits && value >= INT32_MIN && value <= INT32_MAX) {
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_INTEGER;
    out->integer = (int32_t)value;
  } else if (fits) {
    out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_LONG;
    out->long_ = value;
  } else {
    set_decimal(p, out, text, start);
  }
}

sql_expr *sql__number(sql_parser *p) {
  size_t start = p->at;
  bool negative = sql__accept(p, SQL_MINUS);
  const sql_token *token = sql__token(p);
  sql_kind kind = sql__kind(p);
  size_t suffix =
      kind == SQL_BIGDECIMAL ? 2
      : kind == SQL_BIGINT || kind == SQL_SMALLINT || kind == SQL_TINYINT || kind == SQL_FLOAT || kind == SQL_DOUBLE
          ? 1
          : 0;
  char *text =
      trn__arena_printf(p->arena, "%s%.*s", negative ? "-" : "", (int)(token->size - suffix), p->text + token->start);
  if (text == NULL) sql__fail_memory(p);
  Spark__Connect__Expression__Literal *out;
  sql_expr *expr = literal(p, start, p->at, &out);
  if (kind == SQL_DECIMAL || kind == SQL_BIGDECIMAL || (kind == SQL_EXPONENT && p->options.exponent_as_decimal)) {
    set_decimal(p, out, text, start);
  } else if (kind == SQL_FLOAT || kind == SQL_DOUBLE || kind == SQL_EXPONENT) {
    set_floating(p, out, text, kind, start);
  } else {
    set_integer(p, out, text, kind, start);
  }
  sql__advance(p);
  return expr;
}

int32_t sql__integer_value(sql_parser *p) {
  if (sql__kind(p) == SQL_QUESTION || sql__kind(p) == SQL_COLON)
    sql__fail_unimplemented(p, p->at, "a parameter instead of this number");
  if (sql__kind(p) != SQL_INTEGER) sql__fail_syntax(p);
  char *text = sql__token_text(p, p->at);
  errno = 0;
  long long value = strtoll(text, NULL, 10);
  if (errno != 0 || value > INT32_MAX) refuse_range(p, p->at, text, "-2147483648", "2147483647", "int");
  sql__advance(p);
  return (int32_t)value;
}

/* ---- DATE '...', X'...' ---- */

bool sql__at_typed_string(const sql_parser *p) {
  sql_kind kind = sql__kind(p);
  return (kind == SQL_IDENTIFIER || kind == SQL_BACKQUOTED || sql__is_keyword(kind)) && sql__is_string(p, p->at + 1);
}

static sql_expr *binary_literal(sql_parser *p, size_t start, const char *text, size_t size) {
  Spark__Connect__Expression__Literal *out;
  sql_expr *expr = literal(p, start, sql__last(p), &out);
  uint8_t *bytes = sql__alloc(p, size / 2 + 1);
  size_t odd = size % 2; /* an odd digit count means a leading zero */
  for (size_t i = 0; i < size; i++) {
    int value = hex_value((unsigned char)text[i]);
    if (value < 0) {
      trn_kv params[] = {{"valueType", "X"}, {"value", trn__arena_printf(p->arena, "'%s'", text)}};
      sql__refuse(p, start, sql__last(p), "INVALID_TYPED_LITERAL", "42604", params, 2);
    }
    bytes[(i + odd) / 2] = (uint8_t)(bytes[(i + odd) / 2] << 4 | value);
  }
  out->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BINARY;
  out->binary.data = bytes;
  out->binary.len = (size + odd) / 2;
  return expr;
}

static sql_expr *interval_message(sql_parser *p, const sql_list *values, const sql_list *units, size_t start) {
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  Spark__Connect__TrnInterval *interval = SQL_NEW(p, Spark__Connect__TrnInterval, spark__connect__trn_interval);
  SQL_SET_LIST(*values, interval, values);
  SQL_SET_LIST(*units, interval, units);
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_INTERVAL;
  expr->trn_interval = interval;
  return expr;
}

sql_expr *sql__typed_string(sql_parser *p) {
  size_t start = p->at;
  sql_kind kind = sql__kind(p);
  char *type = sql__upper(p, sql__token_text(p, start));
  sql__advance(p);
  const sql_token *token = sql__token(p);
  char *text = sql__alloc(p, token->size + 1);
  size_t size = (size_t)(unescape(p->text + token->start, token->size, text) - text);
  sql__advance(p);
  if (kind == KW_BINARY_HEX) return binary_literal(p, start, text, size);
  if (kind == KW_INTERVAL) {
    sql_list values = {0}, none = {0};
    sql__push(p, &values, sql__string_literal(p, text, size, start + 1));
    return interval_message(p, &values, &none, start);
  }
  if (kind != KW_DATE && kind != KW_TIME && kind != KW_TIMESTAMP && kind != KW_TIMESTAMP_LTZ &&
      kind != KW_TIMESTAMP_NTZ) {
    trn_kv params[] = {
        {"unsupportedType", trn__arena_printf(p->arena, "\"%s\"", type)},
        {"supportedTypes",
         "\"DATE\", \"TIMESTAMP_NTZ\", \"TIMESTAMP_LTZ\", \"TIMESTAMP\", \"INTERVAL\", \"X\", \"TIME\""}};
    sql__refuse(p, start, sql__last(p), "UNSUPPORTED_TYPED_LITERAL", "0A000", params, 2);
  }
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_TYPED_STRING;
  expr->trn_typed_string = SQL_NEW(p, Spark__Connect__TrnTypedString, spark__connect__trn_typed_string);
  expr->trn_typed_string->type = type;
  expr->trn_typed_string->text = text;
  return expr;
}

/* ---- intervals ---- */

static bool is_interval_unit(sql_kind kind) {
  switch ((int)kind) {
  case KW_NANOSECOND:
  case KW_NANOSECONDS:
  case KW_MICROSECOND:
  case KW_MICROSECONDS:
  case KW_MILLISECOND:
  case KW_MILLISECONDS:
  case KW_SECOND:
  case KW_SECONDS:
  case KW_MINUTE:
  case KW_MINUTES:
  case KW_HOUR:
  case KW_HOURS:
  case KW_DAY:
  case KW_DAYS:
  case KW_WEEK:
  case KW_WEEKS:
  case KW_MONTH:
  case KW_MONTHS:
  case KW_YEAR:
  case KW_YEARS: return true;
  default: return false;
  }
}

/* The size in tokens of an interval value with a unit at `index`; 0: none. */
static size_t interval_value_tokens(const sql_parser *p, size_t index) {
  size_t i = index;
  if (sql__kind_at(p, i) == SQL_PLUS || sql__kind_at(p, i) == SQL_MINUS) i++;
  if (sql__kind_at(p, i) == SQL_INTEGER || sql__kind_at(p, i) == SQL_DECIMAL || sql__kind_at(p, i) == SQL_QUESTION) {
    i++;
  } else if (sql__kind_at(p, i) == SQL_COLON && sql__is_identifier(p, i + 1)) {
    i += 2;
  } else if (sql__is_string(p, i)) {
    while (sql__is_string(p, i)) i++;
  } else {
    return 0;
  }
  return is_interval_unit(sql__kind_at(p, i)) ? i - index : 0;
}

/* INTERVAL before a number is nothing else, even without a unit. */
bool sql__at_interval(const sql_parser *p) {
  sql_kind next = sql__ahead(p, 1);
  return sql__kind(p) == KW_INTERVAL &&
         (next == SQL_INTEGER || next == SQL_DECIMAL || interval_value_tokens(p, p->at + 1) > 0);
}

static sql_expr *interval_value(sql_parser *p) {
  size_t start = p->at;
  bool negative = sql__accept(p, SQL_MINUS);
  if (!negative) sql__accept(p, SQL_PLUS);
  if (sql__kind(p) == SQL_QUESTION || sql__kind(p) == SQL_COLON) {
    sql_expr *parameter = sql__primary(p).expr;
    return negative ? sql__function1(p, "negative", parameter, start, sql__last(p)) : parameter;
  }
  char *text;
  if (sql__is_string(p, p->at)) {
    size_t size;
    text = sql__string(p, &size);
  } else {
    text = sql__token_text(p, p->at);
    sql__advance(p);
  }
  if (negative && text[0] == '-') {
    text++;
  } else if (negative) {
    text = trn__arena_printf(p->arena, "-%s", text);
    if (text == NULL) sql__fail_memory(p);
  }
  return sql__string_literal(p, text, strlen(text), start);
}

static void interval_unit(sql_parser *p, sql_list *units) {
  if (!is_interval_unit(sql__kind(p))) sql__fail_syntax(p);
  sql__push(p, units, sql__lower(p, sql__token_text(p, p->at)));
  sql__advance(p);
}

/* INTERVAL '1-2' YEAR TO MONTH 3 DAYS */
static void refuse_mixed(sql_parser *p, size_t start) {
  while (interval_value_tokens(p, p->at) > 0 || sql__kind(p) == KW_TO || is_interval_unit(sql__kind(p))) {
    size_t tokens = interval_value_tokens(p, p->at);
    p->at += tokens > 0 ? tokens : 1;
  }
  sql__refuse(p, start, sql__last(p), "_LEGACY_ERROR_TEMP_0024", NULL, NULL, 0);
}

/* Years and months do not mix with the other units. */
static void refuse_two_families(sql_parser *p, const sql_list *units, size_t start) {
  size_t months = 0;
  for (size_t i = 0; i < units->count; i++) {
    const char *unit = units->items[i];
    months += strncmp(unit, "year", 4) == 0 || strncmp(unit, "month", 5) == 0;
  }
  if (months == 0 || months == units->count) return;
  const sql_token *a = &p->tokens[start], *b = &p->tokens[sql__last(p)];
  trn_kv param = {"literal", sql__copy(p, p->text + a->start, b->start + b->size - a->start)};
  sql__refuse(p, start, sql__last(p), "_LEGACY_ERROR_TEMP_0029", NULL, &param, 1);
}

sql_expr *sql__interval(sql_parser *p) {
  size_t start = p->at;
  sql_list values = {0}, units = {0};
  sql__advance(p);
  sql__push(p, &values, interval_value(p));
  interval_unit(p, &units);
  if (sql__kind(p) == KW_TO && is_interval_unit(sql__ahead(p, 1))) {
    sql__advance(p);
    interval_unit(p, &units);
    if (interval_value_tokens(p, p->at) > 0) refuse_mixed(p, start);
    return interval_message(p, &values, &units, start);
  }
  while (interval_value_tokens(p, p->at) > 0) {
    sql__push(p, &values, interval_value(p));
    interval_unit(p, &units);
    if (sql__kind(p) == KW_TO && is_interval_unit(sql__ahead(p, 1))) refuse_mixed(p, start);
  }
  refuse_two_families(p, &units, start);
  return interval_message(p, &values, &units, start);
}
